package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Local reads commits of a repository of this machine in place, that of a work tree for example: nothing is fetched,
// copied, locked or written. It may be used concurrently.
type Local struct {
	dir     string
	refs    map[string]plumbing.Hash
	objects *gitObjects
}

// OpenLocal opens the repository at dir: a work tree, a bare repository or a .git folder. The error is
// remote.ErrNotFound if there is none, remote.ErrEmpty if it has no commit.
func OpenLocal(ctx context.Context, dir string) (*Local, error) {
	r, err := remote.New(remote.Options{URL: dir})
	if err != nil {
		return nil, err
	}
	refs, err := r.Refs(ctx)
	if err != nil {
		return nil, err
	}
	l := &Local{dir: dir, refs: refs, objects: openObjects(r.Local())}
	l.objects.cut = map[plumbing.Hash]bool{}
	text, err := os.ReadFile(filepath.Join(r.Local(), "shallow"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, l.Close())
	}
	for hash := range strings.FieldsSeq(string(text)) {
		l.objects.cut[plumbing.NewHash(hash)] = true
	}
	return l, nil
}

// Close ends the reading; snapshots cannot be read after it.
func (l *Local) Close() error { return l.objects.close() }

// Since is the snapshot, below path, of the commit from which HEAD has left rev: their newest common ancestor,
// which is rev itself if HEAD contains it. Names are HEAD, branches, tags, origin/main and the like, full refs and hashes, each
// maybe followed by ~n and ^n. The error is remote.ErrNotFound if rev names nothing or has nothing in common with
// HEAD, fs.ErrNotExist if the path is not there.
func (l *Local) Since(rev, path string) (gitstate.Snapshot, error) {
	fail := func(err error) (gitstate.Snapshot, error) {
		if len(l.objects.cut) > 0 && errors.Is(err, remote.ErrNotFound) {
			err = fmt.Errorf("%w; the clone is shallow: fetch more of its history, as by git fetch --unshallow", err)
		}
		return gitstate.Snapshot{}, fmt.Errorf("revision %s: %w", rev, err)
	}
	path, err := cleanPath(path)
	if err != nil {
		return fail(err)
	}
	parts := revision.FindStringSubmatch(rev)
	if parts == nil {
		return fail(remote.ErrNotFound)
	}
	hash, err := l.resolve(parts[1])
	if err != nil {
		return fail(err)
	}
	there, err := l.objects.commit(hash)
	if err != nil {
		return fail(err)
	}
	if hash, err = l.objects.back(there, parts[2]); err != nil {
		return fail(err)
	}
	if there, err = l.objects.commit(hash); err != nil {
		return fail(err)
	}
	here, err := l.objects.commit(l.refs["HEAD"])
	if err != nil {
		return fail(fmt.Errorf("HEAD: %w", err))
	}
	base, err := l.fork(here, there)
	if err != nil {
		return fail(err)
	}
	tree, err := newTree(l.objects, base.TreeHash, DefaultMaxFile).below(path)
	if err != nil {
		return fail(err)
	}
	return gitstate.Snapshot{
		Revision: gitstate.Revision(base.Hash.String()), FS: tree,
		Message: base.Message, Author: author(base),
	}, nil
}

// resolve finds what a name without steps stands for, as git does: a ref goes before the start of a hash.
func (l *Local) resolve(name string) (plumbing.Hash, error) {
	if name == "@" {
		name = "HEAD"
	}
	if !plumbing.IsHash(name) {
		for _, ref := range []string{name, "refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name, "refs/remotes/" + name + "/HEAD"} {
			if hash, ok := l.refs[ref]; ok {
				return hash, nil
			}
		}
	}
	hash, err := l.objects.byHash(name)
	if errors.Is(err, remote.ErrNotFound) {
		err = fmt.Errorf("%w in %s: no branch, tag, commit or fetched branch of a remote has this name", err, l.dir)
	}
	return hash, err
}

// What is known of a commit on the way back from two.
const (
	ofOne = 1 << iota
	ofOther
	// passed: it is behind a common ancestor.
	passed
)

// fork returns the newest common ancestor of two commits. It walks back from both, the newest commit first, until all
// that is left lies behind common ancestors.
func (l *Local) fork(one, other *object.Commit) (*object.Commit, error) {
	known := map[plumbing.Hash]int{}
	var queue []*object.Commit // the oldest first
	meet := func(c *object.Commit, as int) {
		if known[c.Hash]&as == as {
			return
		}
		known[c.Hash] |= as
		at, _ := slices.BinarySearchFunc(queue, c, func(a, b *object.Commit) int { return a.Committer.When.Compare(b.Committer.When) })
		queue = slices.Insert(queue, at, c)
	}
	meet(one, ofOne)
	meet(other, ofOther)
	var found []*object.Commit
	for slices.ContainsFunc(queue, func(c *object.Commit) bool { return known[c.Hash]&passed == 0 }) {
		c := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		as := known[c.Hash]
		if as == ofOne|ofOther {
			found = append(found, c)
			as |= passed
		}
		for _, hash := range l.objects.parents(c) {
			if known[hash]&as == as {
				continue
			}
			parent, err := l.objects.commit(hash)
			if err != nil {
				return nil, err
			}
			meet(parent, as)
		}
	}
	for _, c := range found {
		if known[c.Hash]&passed == 0 {
			return c, nil
		}
	}
	return nil, fmt.Errorf("a common ancestor of it and HEAD is %w in %s", remote.ErrNotFound, l.dir)
}
