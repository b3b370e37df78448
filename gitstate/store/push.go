package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// Push sends the commits that the remote does not have, if its branch still is where it was when last heard of. The
// error is gitstate.ErrConflict if it is not, else what the network or the remote said; the commits stay and go with
// the next Push. Without a remote there is nothing to do.
func (s *Store) Push(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.o.Remote == nil || s.local.IsZero() || s.local == s.remote {
		return nil
	}
	if refused := s.verdict.refused(); !refused.IsZero() {
		return fmt.Errorf("push the state branch: %w", s.verdict.problem)
	}
	if err := s.push(ctx); err != nil {
		return fmt.Errorf("push the state branch: %w", err)
	}
	return nil
}

func (s *Store) push(ctx context.Context) error {
	hashes, err := s.lacking(s.local, s.remote)
	if err != nil {
		return err
	}
	if err := s.send(ctx, hashes); err != nil {
		// Whatever the error says, the push may have been done: only the remote knows.
		theirs, silent := s.ask(ctx)
		switch {
		case silent != nil:
			return errors.Join(err, silent)
		case theirs == s.local:
		case theirs == s.remote:
			return err
		default:
			return fmt.Errorf("%w: the remote is at %q and not at %q: %w", gitstate.ErrConflict, revision(theirs), revision(s.remote), err)
		}
	}
	s.o.At("push.sent")
	s.heard = true
	if err := s.track(s.local); err != nil {
		return err
	}
	s.o.At("push.tracked")
	s.unpushed, s.follows = 0, true
	return nil
}

// send streams the objects as a pack into the remote's push.
func (s *Store) send(ctx context.Context, hashes []plumbing.Hash) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(w, 1<<16)
		p := pack.NewWriter(buffered, len(hashes))
		err := s.objects.Copy(p, hashes)
		if err == nil {
			_, err = p.Close()
		}
		if err == nil {
			err = buffered.Flush()
		}
		w.CloseWithError(err)
		packed <- err
	}()
	err := s.o.Remote.Push(ctx, s.names.branch, s.remote, s.local, r)
	r.Close() // a remote that refuses does not read to the end
	if broken := <-packed; broken != nil && !errors.Is(broken, io.ErrClosedPipe) {
		err = errors.Join(broken, err)
	}
	return err
}

// lacking lists the objects that a remote with everything of old needs to have everything of new. A zero old needs
// everything.
func (s *Store) lacking(new, old plumbing.Hash) ([]plumbing.Hash, error) {
	if old.IsZero() {
		all, _, err := s.reach(new, old)
		if err != nil {
			return nil, err
		}
		return s.contents(slices.SortedFunc(maps.Keys(all), func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) }))
	}
	chain, base, err := s.chain(new, func(h plumbing.Hash) bool { return h == old })
	if err == nil && base.IsZero() {
		err = fmt.Errorf("%w: %s is not behind %s", gitstate.ErrConflict, old, new)
	}
	if err != nil {
		return nil, err
	}
	return s.contents(hashesOf(chain))
}

func hashesOf(commits []*commit) []plumbing.Hash {
	hashes := make([]plumbing.Hash, len(commits))
	for i, c := range commits {
		hashes[i] = c.hash
	}
	return hashes
}

// contents lists, each once, the commits and what each one's tree has and its parent's has not.
func (s *Store) contents(commits []plumbing.Hash) (hashes []plumbing.Hash, err error) {
	seen := map[plumbing.Hash]bool{}
	add := func(h plumbing.Hash) {
		if !seen[h] {
			seen[h] = true
			hashes = append(hashes, h)
		}
	}
	for _, h := range commits {
		c, err := s.readCommit(h)
		if err != nil {
			return nil, err
		}
		add(h)
		add(c.tree)
		tree, err := s.rootOf(h)
		if err != nil {
			return nil, err
		}
		before, err := s.rootOf(c.parent())
		if err != nil {
			return nil, err
		}
		if err := diff(before, tree, "", func(_ string, _, n *node) error {
			if n != nil && n.Mode != pack.ModeSubmodule {
				add(n.Hash)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
