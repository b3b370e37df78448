package store

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
)

// Incoming is what the remote's branch holds that is not taken over yet.
type Incoming struct {
	// Head is where the remote's branch is.
	Head gitstate.Revision
	// Known is where it was when it was taken over last, also by an earlier process; empty if it never was.
	Known gitstate.Revision
	// Judged: Known was admitted by this process, or is its own.
	Judged bool
	// Log is the history from Head on, newest first, along first parents.
	Log iter.Seq2[Commit, error]
}

// Admission says how much of it is taken over.
type Admission struct {
	// UpTo is Head, a commit before it, or Known; empty if there is none to go on from.
	UpTo gitstate.Revision
	// Problem is what is wrong with some of it; nil means nothing. It may be taken over all the same.
	Problem error
}

// verdict is the last judgement.
type verdict struct {
	any        bool
	head, upTo plumbing.Hash
	problem    error
}

// refused is the head that was not admitted; zero if the last one was.
func (v verdict) refused() plumbing.Hash {
	if v.head == v.upTo {
		return plumbing.ZeroHash
	}
	return v.head
}

// admit returns how far the remote's branch is taken over. Commits that are not are never built upon: what we would
// put on top, with our signature, would vouch for them.
func (s *Store) admit(ctx context.Context, theirs plumbing.Hash) (plumbing.Hash, error) {
	switch {
	case s.o.Admit == nil:
		return theirs, nil
	case theirs.IsZero() || s.verdict.any && theirs == s.remote: // what comes to be there is our own
		s.verdict = verdict{any: true, head: theirs, upTo: theirs}
		return theirs, nil
	case s.verdict.any && theirs == s.verdict.head:
		return s.verdict.upTo, nil
	}
	if err := s.objects.Refresh(); err != nil {
		return theirs, err
	}
	a, err := s.o.Admit(ctx, Incoming{Head: revision(theirs), Known: revision(s.remote), Judged: s.verdict.any, Log: s.logFrom(ctx, theirs)})
	if err != nil {
		return theirs, err
	}
	if a.UpTo == "" {
		return theirs, fmt.Errorf("nothing of it can be used: %w", a.Problem)
	}
	s.verdict = verdict{true, theirs, plumbing.NewHash(string(a.UpTo)), a.Problem}
	return s.verdict.upTo, nil
}
