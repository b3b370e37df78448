package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// A Poster keeps one branch of a remote that has a single commit: each post replaces the one before, so that no
// history grows. Nobody else writes the branch; if somebody does, the next post replaces that as well. Nothing is on
// disk. It is not safe for concurrent use.
type Poster struct {
	remote Remote
	ref    string
	author Signature

	known bool                   // where the branch is
	at    plumbing.Hash          // zero: there is none
	there map[plumbing.Hash]bool // what the remote has, as long as the branch is at at
}

// NewPoster posts to a branch, named without refs/heads/.
func NewPoster(r Remote, branch string, author Signature) *Poster {
	return &Poster{remote: r, ref: "refs/heads/" + branch, author: author}
}

// Post makes files, by path, all that the branch has. Only what the post before did not have is sent. After an error
// the branch may be at either.
func (p *Poster) Post(ctx context.Context, files map[string][]byte, subject string, when time.Time) (gitstate.Revision, error) {
	if !p.known {
		if err := p.find(ctx); err != nil {
			return "", fmt.Errorf("post to %s: %w", p.ref, err)
		}
	}
	b := newBuilder(nil)
	changes := make([]Change, 0, len(files))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		changes = append(changes, Change{path, files[path]})
	}
	edits, err := b.edits(emptyDir(nil), changes)
	if err != nil {
		return "", err
	}
	root, err := b.apply(emptyDir(nil), 0, edits)
	if err != nil {
		return "", err
	}
	if root.hash == emptyTree.Hash {
		b.add(emptyTree)
	}
	by := stamp(p.author, when)
	c := &commit{tree: root.hash, author: by, committer: by, message: Message{Subject: subject}.Format()}
	object, err := c.encode(nil)
	if err != nil {
		return "", err
	}
	b.add(object)
	if err := p.send(ctx, b.made, object.Hash); err != nil {
		if errors.Is(err, remote.ErrRefused) && !errors.Is(err, remote.ErrRefMoved) {
			err = fmt.Errorf("%w; each post replaces the one before, so that the branch has to allow force pushes", err)
		}
		return "", fmt.Errorf("post to %s: %w", p.ref, err)
	}
	return revision(object.Hash), nil
}

// find asks the remote where the branch is; what it has of that is not known.
func (p *Poster) find(ctx context.Context) error {
	refs, err := p.remote.Refs(ctx)
	if err != nil && !errors.Is(err, remote.ErrEmpty) {
		return err
	}
	p.known, p.at, p.there = true, refs[p.ref], nil
	return nil
}

// send pushes the objects that the remote lacks. The remote keeps what its branch has until the branch moves, so that
// what the last post had need not be sent again.
func (p *Poster) send(ctx context.Context, made []pack.Object, head plumbing.Hash) error {
	if p.at == head {
		return nil
	}
	var lacking []pack.Object
	there := make(map[plumbing.Hash]bool, len(made))
	for _, o := range made {
		if there[o.Hash] = true; !p.there[o.Hash] {
			lacking = append(lacking, o)
		}
	}
	var packed bytes.Buffer
	w := pack.NewWriter(&packed, len(lacking))
	if err := w.WriteAll(lacking); err != nil {
		return err
	}
	if _, err := w.Close(); err != nil {
		return err
	}
	if err := p.remote.Push(ctx, p.ref, p.at, head, &packed); err != nil {
		p.known = false // it may have been done, whatever the error says
		return err
	}
	p.at, p.there = head, there
	return nil
}

// A Board reads branches of single commits, which many posters keep below one prefix. Its clone is thrown away now
// and then: what is on the board is all that counts. It is not safe for concurrent use.
type Board struct {
	remote  Remote
	dir     string
	prefix  string
	release func()
	objects *pack.Objects
	limit   int  // of packs, beyond which the clone begins anew
	damaged bool // so that it has to
}

// OpenBoard reads the branches below prefix, such as "godwit/state-agents/", by a clone at dir, which begins anew.
func OpenBoard(r Remote, dir, prefix string) (*Board, error) {
	release, _, err := Own(dir, "board "+prefix)
	if err != nil {
		return nil, fmt.Errorf("open the board: %w", err)
	}
	b := &Board{remote: r, dir: dir, prefix: "refs/heads/" + prefix, release: release, limit: 200}
	if err := b.begin(); err != nil {
		b.Close()
		return nil, fmt.Errorf("open the board in %s: %w", dir, err)
	}
	return b, nil
}

// begin makes the clone empty.
func (b *Board) begin() error {
	if b.objects != nil {
		b.objects.Close()
		b.objects = nil
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(b.dir, e.Name())); err != nil {
			return err
		}
	}
	if err := remote.Init(b.dir); err != nil {
		return err
	}
	b.objects, err = pack.OpenObjects(b.dir)
	b.damaged = false
	return err
}

// Close ends the board, and the remote if it is an io.Closer.
func (b *Board) Close() {
	if b.objects != nil {
		b.objects.Close()
	}
	if c, ok := b.remote.(io.Closer); ok {
		c.Close()
	}
	b.release()
}

// List says where each branch is, by its name below the prefix. It asks once for all.
func (b *Board) List(ctx context.Context) (map[string]gitstate.Revision, error) {
	if b.objects == nil || b.damaged || b.objects.Len() > b.limit {
		if err := b.begin(); err != nil {
			return nil, err
		}
	}
	refs, err := b.remote.Refs(ctx)
	if err != nil && !errors.Is(err, remote.ErrEmpty) {
		return nil, err
	}
	at := map[string]gitstate.Revision{}
	for ref, hash := range refs {
		if name, ok := strings.CutPrefix(ref, b.prefix); ok {
			at[name] = revision(hash)
		}
	}
	return at, nil
}

// Fetch brings branches here and gives what each has. If one of them cannot be fetched none is. Trees can be read
// until the next List.
func (b *Board) Fetch(ctx context.Context, names ...string) (map[string]Post, error) {
	refs := make(map[string]string, len(names))
	for _, name := range names {
		refs[b.prefix+name] = "refs/godwit/board/" + name
	}
	err := b.remote.Fetch(ctx, b.dir, refs)
	if err == nil {
		err = b.objects.Refresh()
	}
	if err != nil {
		b.damaged = isDamage(err)
		return nil, err
	}
	posts := make(map[string]Post, len(names))
	for _, name := range names {
		at, err := remote.ReadRef(b.dir, "refs/godwit/board/"+name)
		if err != nil {
			return nil, err
		}
		posts[name] = b.post(at)
	}
	return posts, nil
}

// Post is what one branch of a board has.
type Post struct {
	Revision gitstate.Revision
	// FS is nil where Err says why it cannot be read.
	FS  gitstate.HashFS
	Err error
}

func (b *Board) post(at plumbing.Hash) Post {
	p := Post{Revision: revision(at)}
	data, err := b.objects.GetKind(pack.Commit, at)
	if err == nil {
		var c *commit
		if c, err = decodeCommit(at, data); err == nil {
			p.FS = treeFS{newDir(b.objects, c.tree)}
		}
	}
	p.Err = err
	return p
}
