package source

import (
	"cmp"
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
	"github.com/godwit-gitops/godwit/gitstate/regular"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Local reads commits of a repository of this machine in place, that of a work tree for example: nothing is fetched,
// copied, locked or written. It may be used concurrently.
type Local struct {
	reader
	o Options
}

// maxShallow is what the list of a million commits needs.
const maxShallow = 64 << 20

// OpenLocal opens a remote that is a repository of this machine: a work tree, also a linked one, a bare repository or a
// .git folder. Options.Dir is not used. The error is remote.ErrNotFound if it is not there, not on this machine, or borrows
// its objects from another repository.
func OpenLocal(o Options) (*Local, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir, err := o.Remote.InPlace()
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", o.Remote, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "objects", "info", "alternates")); err == nil {
		return nil, fmt.Errorf("source %s: %w in place: it has objects in another repository, as objects/info/alternates says; \"git repack -a -d\" brings them here, and then that file can go", o.Remote, remote.ErrNotFound)
	}
	l := &Local{reader{name: o.Remote, path: o.Path, maxFile: o.MaxFile, objects: openObjects(dir)}, o}
	l.objects.cut = map[plumbing.Hash]bool{}
	text, err := regular.ReadFile(filepath.Join(dir, "shallow"), maxShallow)
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

// Fetch returns the newest commit of the branch; without one in Options it is that of HEAD, which may be detached. The
// error is remote.ErrNotFound if the branch is not there, remote.ErrEmpty if no commit is, fs.ErrNotExist if the path is
// not in it.
func (l *Local) Fetch(ctx context.Context) (gitstate.Snapshot, error) { return l.At(ctx, "HEAD") }

// At returns the commit that rev names: HEAD or @ for what Fetch returns, branches, tags, origin/main and the like, full
// refs and hashes, each maybe followed by ~n and ^n. The error is remote.ErrNotFound if it names nothing, else as for
// Fetch.
func (l *Local) At(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	commit, branch, err := l.find(ctx, rev)
	if err != nil {
		return gitstate.Snapshot{}, l.lacks(rev, err)
	}
	return l.snapshot(commit.Hash, branch)
}

// Since is the commit from which HEAD has left rev: their newest common ancestor, which is rev itself if HEAD contains it.
// Names and errors are those of At; it is remote.ErrNotFound also if rev has nothing in common with HEAD.
func (l *Local) Since(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there, _, err := l.find(ctx, rev)
	if err != nil {
		return gitstate.Snapshot{}, l.lacks(rev, err)
	}
	here, _, err := l.find(ctx, "HEAD")
	if err != nil {
		return gitstate.Snapshot{}, l.lacks("HEAD", err)
	}
	base, err := l.fork(here, there)
	if err != nil {
		return gitstate.Snapshot{}, l.lacks(rev, err)
	}
	return l.snapshot(base.Hash, "")
}

// lacks says that a revision cannot be read, and why that may be.
func (l *Local) lacks(rev string, err error) error {
	if len(l.objects.cut) > 0 && errors.Is(err, remote.ErrNotFound) {
		err = fmt.Errorf("%w; the clone is shallow: fetch more of its history, as by git fetch --unshallow", err)
	}
	return fmt.Errorf("source %s: revision %s: %w", l.name, rev, err)
}

// find returns the commit that a revision names, and the branch if it is one.
func (l *Local) find(ctx context.Context, rev string) (_ *object.Commit, branch string, err error) {
	found, err := l.o.Remote.Advertise(ctx)
	if err != nil {
		return nil, "", err
	}
	parts := revision.FindStringSubmatch(rev)
	if parts == nil {
		return nil, "", remote.ErrNotFound
	}
	hash, branch, err := l.resolve(found, parts[1])
	if err != nil {
		return nil, "", err
	}
	commit, err := l.objects.commit(hash)
	if err != nil {
		return nil, "", err
	}
	if hash, err = l.objects.back(commit, parts[2]); err != nil {
		return nil, "", err
	}
	commit, err = l.objects.commit(hash)
	return commit, branch, err
}

// resolve finds what a name without steps stands for, as git does: a ref goes before the start of a hash. It tells the
// branch if it is one.
func (l *Local) resolve(found *remote.Advertisement, name string) (_ plumbing.Hash, branch string, err error) {
	if name == "@" {
		name = "HEAD"
	}
	if name == "HEAD" {
		if branch = cmp.Or(l.o.Branch, found.DefaultBranch); branch != "" {
			hash, ok := found.Refs["refs/heads/"+branch]
			if !ok {
				err = fmt.Errorf("branch %s: %w", branch, remote.ErrNotFound)
			}
			return hash, branch, err
		}
	}
	if !plumbing.IsHash(name) {
		for _, ref := range []string{name, "refs/" + name, "refs/tags/" + name, "refs/heads/" + name, "refs/remotes/" + name, "refs/remotes/" + name + "/HEAD"} {
			if hash, ok := found.Refs[ref]; ok {
				branch, _ = strings.CutPrefix(ref, "refs/heads/")
				if branch == ref {
					branch = ""
				}
				return hash, branch, nil
			}
		}
	}
	hash, err := l.objects.byHash(name)
	if errors.Is(err, remote.ErrNotFound) {
		err = fmt.Errorf("%w: no branch, tag, commit or fetched branch of a remote has this name", err)
	}
	return hash, "", err
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
	return nil, fmt.Errorf("a common ancestor of it and HEAD is %w in %s", remote.ErrNotFound, l.name)
}
