package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// ErrUnknown says that the remote has never been read, so nobody knows what a commit would be based on.
var ErrUnknown = errors.New("the state branch has not been read from the remote yet")

// Change sets the content of one file.
type Change struct {
	// Path is relative to the root of the tree, with slashes, as fs.ValidPath accepts.
	Path string
	// Data is not changed; nil removes the file, empty makes an empty one.
	Data []byte
}

// Commit puts changes on top of base and returns the new head, which is durable then. Removing a file that is not
// there is no change, folders that become empty go, and if nothing changes nothing is committed and base returned.
// The changes may be in any order; a path twice, one that is no path, and a file where there is a folder that stays
// are errors. If the branch is not at base, the error is gitstate.ErrConflict; if it does not exist here and the
// remote has never answered, ErrUnknown.
func (s *Store) Commit(ctx context.Context, base gitstate.Revision, changes []Change, m Message) (gitstate.Revision, error) {
	if err := s.lock(ctx); err != nil {
		return "", err
	}
	defer s.unlock()
	head, err := s.commit(base, changes, m)
	if err != nil {
		return "", fmt.Errorf("commit to the state branch: %w", err)
	}
	return head, nil
}

func (s *Store) commit(base gitstate.Revision, changes []Change, m Message) (gitstate.Revision, error) {
	switch {
	case base != revision(s.local):
		return "", fmt.Errorf("%w: it is at %q and not at %q", gitstate.ErrConflict, revision(s.local), base)
	case s.o.Remote != nil && s.local.IsZero() && !s.heard:
		return "", ErrUnknown
	}
	if err := s.consolidate(); err != nil {
		return "", err
	}
	b := newBuilder(s.objects)
	edits, err := b.edits(s.root, changes)
	if err != nil {
		return "", err
	}
	root, err := b.apply(s.root, 0, edits)
	if err != nil {
		return "", err
	}
	if root.hash == s.root.hash {
		return base, nil
	}
	if root.hash == emptyTree.Hash {
		b.add(emptyTree)
	}
	when := stamp(s.o.Author, m.When)
	c := &commit{tree: root.hash, author: when, committer: when, message: m.Format()}
	if !s.local.IsZero() {
		c.parents = []plumbing.Hash{s.local}
	}
	object, err := c.encode(s.o.Sign)
	if err != nil {
		return "", err
	}
	b.add(object)
	at := s.step("commit")
	if err := s.save(b.made, at); err != nil {
		return "", err
	}
	if err := s.move(object.Hash); err != nil {
		return "", err
	}
	at("ref-moved")
	s.local, s.root = object.Hash, root
	s.unpushed++
	return revision(s.local), nil
}

// edits hashes what changes. Blobs that the tree has already are not made again.
func (b *builder) edits(root *dir, changes []Change) ([]edit, error) {
	edits := make([]edit, 0, len(changes))
	for _, c := range changes {
		if !fs.ValidPath(c.Path) || c.Path == "." {
			return nil, fmt.Errorf("%q is no path of a file", c.Path)
		}
		e := edit{path: c.Path}
		if c.Data != nil {
			blob := pack.New(pack.Blob, c.Data)
			e.Mode, e.Hash = pack.ModeFile, blob.Hash
			n, err := root.lookup(c.Path)
			if err != nil {
				return nil, err
			}
			if n == nil || n.Hash != blob.Hash {
				b.add(blob)
			}
		}
		edits = append(edits, e)
	}
	sortEdits(edits)
	for i := 1; i < len(edits); i++ {
		if edits[i].path == edits[i-1].path {
			return nil, fmt.Errorf("%s is changed twice", edits[i].path)
		}
	}
	return edits, nil
}
