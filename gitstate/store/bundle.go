package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Bundle is the end of the branch's history, to be kept where another clone finds it while the remote is away.
type Bundle struct {
	// Base is the commit that the bundle goes on from, empty if it has the whole history.
	Base gitstate.Revision
	// Head is the newest commit; empty in a bundle of nothing.
	Head gitstate.Revision
	// Pack has every object that a clone with Base needs for Head.
	Pack []byte
}

// ErrBundle says that a bundle is damaged, or goes on from a commit that is not known here.
var ErrBundle = errors.New("the bundle cannot be used")

// Bundle packs what came after a commit of the branch. A commit that is not in its history, such as the empty one,
// is taken for the one that the remote was last known to have. The bundle has no head if nothing came after.
func (s *Store) Bundle(ctx context.Context, since gitstate.Revision) (Bundle, error) {
	if err := s.lock(ctx); err != nil {
		return Bundle{}, err
	}
	defer s.unlock()
	b, err := s.bundle(plumbing.NewHash(string(since)))
	if err != nil {
		return Bundle{}, fmt.Errorf("bundle the state branch: %w", err)
	}
	return b, nil
}

func (s *Store) bundle(since plumbing.Hash) (Bundle, error) {
	chain, base, err := s.chain(s.local, func(h plumbing.Hash) bool { return h == since })
	if err == nil && base.IsZero() && !s.remote.IsZero() {
		chain, base, err = s.chain(s.local, func(h plumbing.Hash) bool { return h == s.remote })
	}
	if err != nil || len(chain) == 0 {
		return Bundle{}, err
	}
	hashes, err := s.contents(hashesOf(chain))
	if err != nil {
		return Bundle{}, err
	}
	var packed bytes.Buffer
	w := pack.NewWriter(&packed, len(hashes))
	if err := s.objects.Copy(w, hashes); err != nil {
		return Bundle{}, err
	}
	if _, err := w.Close(); err != nil {
		return Bundle{}, err
	}
	return Bundle{Base: revision(base), Head: revision(s.local), Pack: packed.Bytes()}, nil
}

// bundleLimit is the size of the largest pack that is restored.
const bundleLimit = 64 << 20

// Restore makes the branch that of the remote, as it was last heard of, and the bundle's commits after it: those the
// remote has are left out, and where people pushed something else meanwhile the rest is made again on top, as Load does
// with unpushed commits. Commits that neither has are dropped: with the bundle of nothing all that are not pushed.
// The error is ErrBundle if the bundle cannot be used; then nothing is changed.
func (s *Store) Restore(ctx context.Context, b Bundle) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.restore(b); err != nil {
		return fmt.Errorf("restore the state branch: %w", err)
	}
	return nil
}

func (s *Store) restore(b Bundle) error {
	if err := s.readLocal(); err != nil {
		return err
	}
	target := s.remote
	if b.Head != "" {
		var err error
		if target, err = s.take(b); err != nil {
			return err
		}
	}
	if target == s.local {
		return nil
	}
	if err := s.move(target); err != nil {
		return err
	}
	s.o.At("restore.ref-moved")
	return s.setLocal(target)
}

// take brings the bundle's objects here, and gives the head with its commits after those of the remote.
func (s *Store) take(b Bundle) (plumbing.Hash, error) {
	head := plumbing.NewHash(string(b.Head))
	if revision(head) != b.Head {
		return head, fmt.Errorf("%w: its head %q is no commit", ErrBundle, b.Head)
	}
	seen, err := map[plumbing.Hash]bool{}, error(nil)
	if !s.remote.IsZero() {
		if seen, _, err = s.reach(s.remote, plumbing.ZeroHash); err != nil {
			return head, err
		}
	}
	if seen[head] {
		return s.remote, nil
	}
	if err := remote.StorePack(s.o.Dir, bytes.NewReader(b.Pack), bundleLimit); err != nil {
		return head, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	s.o.At("restore.stored")
	if err := s.objects.Refresh(); err != nil {
		return head, err
	}
	ours, base, err := s.chain(head, func(h plumbing.Hash) bool { return seen[h] })
	if err == nil && base.IsZero() && b.Base != "" {
		err = fmt.Errorf("the remote, as it was last heard of, does not know %s", b.Base)
	}
	var needed []plumbing.Hash
	if err == nil {
		needed, err = s.contents(hashesOf(ours))
	}
	for _, h := range needed {
		if !s.objects.Has(h) {
			err = fmt.Errorf("%w: %s", pack.ErrMissing, h)
		}
	}
	switch {
	case err != nil:
		return head, fmt.Errorf("%w: %w", ErrBundle, err)
	case base == s.remote:
		return head, nil
	}
	slices.Reverse(ours)
	return s.replay(ours, base, s.remote)
}
