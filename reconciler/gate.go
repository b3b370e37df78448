package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/signature"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Lineage is the history of a source.
type Lineage interface {
	// Descends tells whether head is from or comes after it. The error is gitstate.ErrHistory if nobody can tell.
	Descends(ctx context.Context, head, from gitstate.Revision) (bool, error)
	// Commits returns head and what it descends from and none of known does, head first.
	Commits(ctx context.Context, head gitstate.Revision, known []gitstate.Revision, most int) ([]gitstate.Object, error)
	// Changed returns the paths that differ between two commits. The error is gitstate.ErrHistory if one is not here.
	Changed(ctx context.Context, from, to gitstate.Revision) ([]string, error)
}

// Verifier tells who signed a commit with a key that is allowed; a *signature.Signers is one.
type Verifier interface {
	Verify(commit []byte) (signature.Signer, error)
}

// Gate judges commits of the source before they are in force. It remembers the last judgement, so that a source that
// did not move costs nothing, and serves one caller at a time.
type Gate struct {
	Lineage Lineage
	// Follow lets rewritten histories in.
	Follow bool
	// Signers: nil means that nothing has to be signed.
	Signers Verifier
	// All asks it of each commit since the one in force, and not only of the newest one.
	All bool
	// Limits are of signers who may change some paths only: whoever signed the newest commit answers for all that comes
	// in force with it.
	Limits []decide.Limit

	judged question
	answer *decide.Refusal
}

// question is everything that a judgement depends on.
type question struct {
	head, inForce, approved string
}

// maxCommits is how many commits of one push are verified.
const maxCommits = 10_000

// Judge tells why the newest commit of the source is not to be in force over what the record has; nil means that it
// is. The error is that of the clone.
func (g *Gate) Judge(ctx context.Context, head gitstate.Revision, meta record.Meta, options decide.Options) (*decide.Refusal, error) {
	q := question{head: string(head), inForce: options.InForce(meta.Source)}
	if r := meta.RewriteApproved(); r != nil {
		q.approved = r.To
	}
	if q == g.judged {
		return g.answer, nil
	}
	h, err := g.learn(ctx, q)
	if err != nil {
		return nil, err
	}
	g.judged, g.answer = q, decide.Admit(h, g.Follow)
	return g.answer, nil
}

// learn finds out what the judgement is made on.
func (g *Gate) learn(ctx context.Context, q question) (decide.Head, error) {
	h := decide.Head{Revision: gitstate.Revision(q.head), InForce: q.inForce}
	var known []gitstate.Revision // commits that were let in before
	for _, from := range []string{q.inForce, q.approved} {
		if from == "" {
			continue
		}
		follows, err := g.Lineage.Descends(ctx, h.Revision, gitstate.Revision(from))
		switch {
		case follows:
			h.Follows = true
			known = append(known, gitstate.Revision(from))
		case errors.Is(err, gitstate.ErrHistory):
			h.Doubt = err
		case err != nil:
			return h, err
		}
	}
	if g.Signers == nil {
		return h, nil
	}
	if q.inForce != "" && len(known) == 0 {
		known = append(known, gitstate.Revision(q.inForce)) // what both have in common was let in too
	}
	if !g.All || q.inForce == "" {
		known = []gitstate.Revision{h.Revision}
	}
	commits, err := g.Lineage.Commits(ctx, h.Revision, known, maxCommits)
	switch {
	case errors.Is(err, source.ErrTooMany) || errors.Is(err, gitstate.ErrHistory):
		h.Unverified = []decide.Unverified{{Revision: h.Revision, Why: fmt.Errorf("the commits before it cannot be verified: %w; push fewer at once, or set source.verify.mode to head", err)}}
		return h, nil
	case err != nil:
		return h, err
	}
	for i, c := range commits {
		who, why := g.Signers.Verify(c.Data)
		if why == nil && i == 0 {
			if why, err = g.exceeds(ctx, q, who); err != nil {
				return h, err
			}
		}
		if why != nil {
			h.Unverified = append(h.Unverified, decide.Unverified{Revision: c.Revision, Key: who.Key, Why: why})
		}
	}
	return h, nil
}

// exceeds says what the signer of the newest commit may not change of what comes in force with it.
func (g *Gate) exceeds(ctx context.Context, q question, who signature.Signer) (why, err error) {
	if !slices.ContainsFunc(g.Limits, func(l decide.Limit) bool { return who.Is(l.Signer) }) {
		return nil, nil
	}
	if q.inForce == "" {
		return errors.New("its signer may change some paths only, and with the first commit everything comes in force"), nil
	}
	changed, err := g.Lineage.Changed(ctx, gitstate.Revision(q.inForce), gitstate.Revision(q.head))
	if errors.Is(err, gitstate.ErrHistory) {
		return fmt.Errorf("its signer may change some paths only, and what changes cannot be told: %w", err), nil
	}
	if err != nil {
		return nil, err
	}
	return decide.Exceeds(g.Limits, who.Is, changed), nil
}

// enter puts the newest commit of the source in force, or keeps what is if the gate does not let it in.
func (r *Reconciler) enter(ctx context.Context, head gitstate.Snapshot) error {
	inForce := r.Options.InForce(r.state.Meta.Source)
	if r.Gate == nil {
		r.snapshot = head
		return nil
	}
	refused, err := r.Gate.Judge(ctx, head.Revision, r.state.Meta, r.Options)
	if err != nil {
		return err
	}
	if refused == nil {
		r.snapshot, r.followed, r.refused = head, inForce, nil
		return nil
	}
	// What was let in before stays, unless somebody else put another commit in force meanwhile.
	if r.snapshot.FS == nil || inForce != "" && r.followed != inForce && string(r.snapshot.Revision) != inForce {
		if inForce == "" {
			return errors.New(refused.Message)
		}
		if string(head.Revision) != inForce {
			if head, err = r.Source.At(ctx, inForce); err != nil {
				r.snapshot = gitstate.Snapshot{} // what was in force before must not be again
				return fmt.Errorf("%s; and what is in force cannot be read: %w", refused.Message, err)
			}
		}
		r.snapshot, r.followed = head, inForce
	}
	r.refused = refused
	return nil
}
