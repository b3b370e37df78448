package store

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// View is one commit of a repository of this machine and its history, read in place: nothing is copied, locked or
// written. It is safe for concurrent use.
type View struct{ s *Store }

// OpenView opens the repository at dir (a bare one, or a .git folder) at a commit. The error is ErrNotFound if it is
// not there, also where the repository borrows its objects from another one.
func OpenView(dir string, at plumbing.Hash) (*View, error) {
	if _, err := os.Stat(filepath.Join(dir, "objects", "info", "alternates")); err == nil {
		return nil, fmt.Errorf("%s: %w here: it has its objects from another repository", dir, ErrNotFound)
	}
	objects, err := pack.OpenObjects(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{turn: make(chan struct{}, 1), line: make(chan struct{}, 1), objects: objects, local: at, release: func() {}}
	if s.root, err = s.rootOf(at); err != nil {
		objects.Close()
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrNotFound, err)
	}
	return &View{s}, nil
}

// Log is as for a Store.
func (v *View) Log(ctx context.Context, from gitstate.Revision) iter.Seq2[Commit, error] {
	return v.s.Log(ctx, from)
}

// Changes is as for a Store.
func (v *View) Changes(ctx context.Context, from gitstate.Revision) iter.Seq2[Changed, error] {
	return v.s.Changes(ctx, from)
}

// At is as for a Store; the commit that is viewed is the head.
func (v *View) At(ctx context.Context, rev string) (Tree, error) { return v.s.At(ctx, rev) }

// Close ends the view; trees it gave out can no longer be read.
func (v *View) Close() error { return v.s.Close() }
