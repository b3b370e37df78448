package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/regular"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// snapshots reads a source at its newest or an earlier revision.
type snapshots interface {
	Fetch(ctx context.Context) (gitstate.Snapshot, error)
	At(ctx context.Context, rev string) (gitstate.Snapshot, error)
	// lineage is the history, nil if there is none. It is here so that no wrapper loses it: without it nothing would
	// be verified.
	lineage() reconciler.Lineage
}

// clone is a source with a history.
type clone struct{ *source.Source }

func (c clone) lineage() reconciler.Lineage { return c.Source }

// local is one that is read where it is.
type local struct{ *source.Local }

func (l local) lineage() reconciler.Lineage { return l.Local }

// folder is a source without a history.
type folder struct{ *source.Folder }

var errNoHistory = fmt.Errorf("%w: a folder has no earlier revisions; give the repository's URL instead", gitstate.ErrHistory)

// At knows one revision: that of what is on disk.
func (f folder) At(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	snapshot, err := f.Fetch(ctx)
	if err == nil && string(snapshot.Revision) != rev {
		err = errNoHistory
	}
	return snapshot, err
}

func (folder) lineage() reconciler.Lineage { return nil }

// worktree is a folder in a repository of this machine: the newest is what is on disk, and what was committed is read
// from the repository's objects, at the same place in it.
type worktree struct {
	folder
	repository, path string

	mu   sync.Mutex
	past *source.Local // nil until it is asked for
}

// At knows the revision of what is on disk, and commits.
func (w *worktree) At(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	if source.OnDisk(gitstate.Revision(rev)) {
		return w.folder.At(ctx, rev)
	}
	past, err := w.open()
	if err != nil {
		return gitstate.Snapshot{}, err
	}
	return past.At(ctx, rev)
}

func (w *worktree) open() (*source.Local, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past != nil {
		return w.past, nil
	}
	r, err := remote.New(remote.Options{URL: w.repository})
	if err != nil {
		return nil, err
	}
	w.past, err = source.OpenLocal(source.Options{Remote: r, Path: w.path})
	return w.past, err
}

func (w *worktree) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.past != nil {
		w.past.Close()
	}
}

// told is a source that people are told of while it is read.
type told struct {
	snapshots
	progress *progress
}

func (t told) Fetch(ctx context.Context) (gitstate.Snapshot, error) {
	defer t.progress.doing("reading the source")()
	return t.snapshots.Fetch(ctx)
}

func (t told) At(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	defer t.progress.doing("reading the source at an earlier revision")()
	return t.snapshots.At(ctx, rev)
}

// openSource opens what the configuration names. fresh reads a repository of this machine in place, and another one
// through a clone that is thrown away, so that a running reconciler keeps its one.
func (c *Config) openSource(fresh bool) (s snapshots, done func(), err error) {
	if dir := c.folder(); dir != "" {
		disk := folder{source.OpenFolder(dir, c.Source.Path)}
		if repository := repositoryOf(dir); fresh && repository != "" {
			w := &worktree{folder: disk, repository: repository, path: c.sourceRoot()}
			return told{w, c.progress}, w.close, nil
		}
		return told{disk, c.progress}, func() {}, nil
	}
	r, err := c.sourceRemote()
	if err != nil {
		return nil, nil, err
	}
	options := source.Options{Remote: r, Branch: c.Source.Branch, Path: c.Source.Path}
	dir, clean := filepath.Join(c.DataDir, "source"), func() {}
	if fresh {
		l, err := source.OpenLocal(options)
		if err == nil {
			return local{l}, func() { l.Close() }, nil
		}
		if !errors.Is(err, remote.ErrNotFound) {
			return nil, nil, err
		}
		if dir, err = os.MkdirTemp("", "godwit-source-"); err != nil {
			return nil, nil, err
		}
		clean = func() { os.RemoveAll(dir) }
	}
	options.Dir = dir
	git, err := source.Open(options)
	if err != nil {
		clean()
		return nil, nil, err
	}
	return told{clone{git}, c.progress}, func() { git.Close(); clean() }, nil
}

// sourceRemote is the repository of a source that is no folder.
func (c *Config) sourceRemote() (*remote.Remote, error) {
	if c.Source.URL == "" {
		return nil, errors.New("no source: give --source DIR|URL, or set source.url in godwit.yaml")
	}
	r, err := c.Source.Auth.remote(c.Source.URL)
	if err != nil {
		return nil, fmt.Errorf("source.url: %w", err)
	}
	return r, nil
}

// folder is the source where it is read as it is on disk: the one that is named or, for commands that only look, the
// repository that this folder is in where nobody names a source.
func (c *Config) folder() string {
	if c.sourceDir == "" && c.Source.URL == "" {
		return c.here
	}
	return c.sourceDir
}

// decideOn decides for a command that only looks. Where a part of the source cannot be read there is no answer: one without
// that part would be taken for what is to come.
func decideOn(in decide.Input) (*decide.Decision, error) {
	d, err := decide.Next(in)
	return d, cmp.Or(err, unread(in))
}

func unread(in decide.Input) error {
	err := gitstate.Unread(in.Source.FS)
	for _, commit := range slices.Sorted(maps.Keys(in.Past)) {
		err = cmp.Or(err, gitstate.Unread(in.Past[commit]))
	}
	if err != nil {
		err = fmt.Errorf("read the source: %w", err)
	}
	return err
}

// sourceURL is the repository of the source; empty for a folder that is in none.
func (c *Config) sourceURL() string {
	if dir := c.folder(); c.Source.URL == "" && dir != "" {
		return repositoryOf(dir)
	}
	return c.Source.URL
}

// stateURL is where the state branch is: the source's repository, unless something else is said.
func (c *Config) stateURL() string { return cmp.Or(c.State.URL, c.sourceURL()) }

// repositoryOf is the work tree or repository that the folder is in, empty if it is in none.
func repositoryOf(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func (c *Config) stateRemote() (*remote.Remote, error) {
	url := c.stateURL()
	if url == "" {
		return nil, nil
	}
	auth := c.State.Auth
	if auth == (authConfig{}) {
		auth = c.Source.Auth
	}
	r, err := auth.remote(url)
	if err != nil {
		return nil, fmt.Errorf("state.url: %w", err)
	}
	return r, nil
}

// readState reads the previous state for a command that only looks: a folder, none, or a ref of the
// state's repository. Without a word it is the state branch, if there is one. The texts of works can be read until done.
func (c *Config) readState(ctx context.Context, what string) (_ *record.State, done func(), err error) {
	nothing := func() {}
	if what == "none" {
		return record.New(), nothing, nil
	}
	if info, err := os.Stat(what); what != "" && err == nil && info.IsDir() {
		below, err := regular.OpenFS(what)
		if err != nil {
			return nil, nil, err
		}
		return kept(below, what, func() { below.Close() })
	}
	s, closeState, err := c.openState(ctx, what)
	switch {
	case errors.Is(err, errNoState) && what == "":
		if c.stateURL() != "" { // a folder alone is expected to have none
			c.note("%v; going on without a previous state", err)
		}
		return record.New(), nothing, nil
	case errors.Is(err, errNoState):
		return nil, nil, fmt.Errorf("--state %s: there is no such folder, and %w", what, err)
	case err != nil:
		return nil, nil, fmt.Errorf("%w; to go on without it use --state none", err)
	}
	tree, err := s.At(ctx, "")
	if err != nil {
		closeState()
		return nil, nil, err
	}
	return kept(tree.FS, cmp.Or(what, c.State.Branch), closeState)
}

// kept is a state and what closes its files, which are closed at once if it cannot be decoded.
func kept(tree fs.FS, name string, done func()) (*record.State, func(), error) {
	state, err := decodeState(tree, name)
	if err != nil {
		done()
		return nil, nil, err
	}
	return state, done, nil
}

// errNoState says that there is no state branch to read.
var errNoState = errors.New("no state branch")

// stateReader is the state branch to look at.
type stateReader interface {
	At(ctx context.Context, rev string) (store.Tree, error)
	Log(ctx context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error]
	Changes(ctx context.Context, from gitstate.Revision) iter.Seq2[store.Changed, error]
	Close() error
}

// openState reads the state branch, or another one of its repository: in place if that is on this machine, else
// through a clone that done throws away. errNoState is among the errors if there is none.
func (c *Config) openState(ctx context.Context, branch string) (_ stateReader, done func(), err error) {
	defer c.progress.doing("reading the state branch")()
	r, err := c.ownStateRemote()
	switch {
	case err != nil:
		return nil, nil, err
	case r == nil:
		return nil, nil, fmt.Errorf("there is %w: the source is in no repository, and state.url is not set", errNoState)
	}
	branch = strings.TrimPrefix(cmp.Or(branch, c.State.Branch), "refs/heads/")
	from := remote.Tracking(r, branch)
	refs, err := from.Refs(ctx)
	if err != nil && !errors.Is(err, remote.ErrEmpty) {
		return nil, nil, fmt.Errorf("read the state branch: %w", err)
	}
	head, ok := refs["refs/heads/"+branch]
	if !ok {
		return nil, nil, fmt.Errorf("%s has %w %s, nor knows of one at its origin", r, errNoState, branch)
	}
	if from.Used() {
		c.note("%s has no branch %s; reading it as its origin had it at the last fetch", r, branch)
	}
	if dir := r.Local(); dir != "" {
		v, err := store.OpenView(dir, head)
		if err == nil {
			return v, func() { v.Close() }, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, nil, fmt.Errorf("read the state branch: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "godwit-state-")
	if err != nil {
		return nil, nil, err
	}
	clean := func() { os.RemoveAll(dir) }
	s, err := store.Open(ctx, store.Options{Remote: from, Branch: branch, Dir: dir})
	if err != nil {
		clean()
		return nil, nil, err
	}
	done = func() { s.Close(); clean() }
	tree, err := s.Load(ctx)
	if err == nil && tree.Offline != nil {
		err = fmt.Errorf("read the state branch: %w", tree.Offline)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return s, done, nil
}

// stateRev is a revision as the open state branch knows it, which may be read under another name than the
// one that people give it.
func (c *Config) stateRev(branch, rev string) string {
	if past, ok := strings.CutPrefix(rev, cmp.Or(branch, c.State.Branch)); ok && (past == "" || past[0] == '~') {
		return "HEAD" + past
	}
	return rev
}

func decodeState(tree fs.FS, name string) (*record.State, error) {
	state, problems, err := record.Decode(tree)
	if err != nil {
		return nil, fmt.Errorf("state %s: %w", name, err)
	}
	for _, p := range problems {
		return nil, fmt.Errorf("state %s: %w", name, p)
	}
	return state, nil
}
