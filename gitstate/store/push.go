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
// the next Push, as do those that are made while the remote is waited for. Without a remote there is nothing to do.
func (s *Store) Push(ctx context.Context) error {
	if err := s.dial(ctx); err != nil {
		return err
	}
	defer s.hangUp()
	head, hashes, err := s.due(ctx)
	if err == nil && !head.IsZero() {
		err = s.push(ctx, head, hashes)
	}
	if err != nil {
		return fmt.Errorf("push the state branch: %w", err)
	}
	return nil
}

// due is what a push would send now: a head, zero if there is nothing to do, and the objects that it takes.
func (s *Store) due(ctx context.Context) (head plumbing.Hash, hashes []plumbing.Hash, err error) {
	if err := s.lock(ctx); err != nil {
		return head, nil, err
	}
	defer s.unlock()
	switch {
	case s.o.Remote == nil || s.local.IsZero() || s.local == s.remote:
		return head, nil, nil
	case !s.verdict.refused().IsZero():
		return head, nil, s.verdict.problem
	}
	hashes, err = s.lacking(s.local, s.remote)
	return s.local, hashes, err
}

func (s *Store) push(ctx context.Context, head plumbing.Hash, hashes []plumbing.Hash) error {
	if err := s.send(ctx, head, hashes); err != nil {
		// Whatever the error says, the push may have been done: only the remote knows.
		theirs, silent := s.ask(ctx)
		switch {
		case silent != nil:
			return errors.Join(err, silent)
		case theirs == head:
		case theirs == s.remote:
			return err
		default:
			return fmt.Errorf("%w: the remote is at %q and not at %q: %w", gitstate.ErrConflict, revision(theirs), revision(s.remote), err)
		}
	}
	s.o.At("push.sent")
	if err := s.lock(context.WithoutCancel(ctx)); err != nil { // what was done is noted, whoever gave up meanwhile
		return err
	}
	defer s.unlock()
	s.heard = true
	if err := s.track(head); err != nil {
		return err
	}
	s.o.At("push.tracked")
	return s.setLocal(s.local)
}

// send streams the objects as a pack into the remote's push.
func (s *Store) send(ctx context.Context, head plumbing.Hash, hashes []plumbing.Hash) error {
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
	err := s.o.Remote.Push(ctx, s.names.branch, s.remote, head, r)
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
