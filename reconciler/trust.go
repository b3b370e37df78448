package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

// Trust judges commits of the state branch by who signed them.
type Trust struct {
	Signers Verifier
	// Bot is the principal that reconcilers sign as; the others are people.
	Bot string
	// Since is a commit that is trusted with all before it; empty means none.
	Since gitstate.Revision
	// Enforce keeps out what is not signed as it should be; else it is only told of.
	Enforce bool
}

const (
	// maxLinks is how many commits of the state branch are verified at once.
	maxLinks = 10_000
	// maxPast is how far back the commit that was in force is looked for.
	maxPast = 1_000_000
)

// trailerApprove with the value history lets in what is before a person's commit of the state branch.
const trailerApprove = "Godwit-Approve"

// Admit judges what came from the remote, from the last commit that is known to be good on: the one that was taken
// over last, the newest that the bot signed, or Since.
func (t *Trust) Admit(_ context.Context, in store.Incoming) (store.Admission, error) {
	var links []decide.Link // newest first
	var revisions []gitstate.Revision
	base, from := "", gitstate.Revision("") // what they follow
	// Below trusted nothing is verified, and only the known commit is looked for.
	trusted, met, past := false, in.Known == "", 0
	for c, err := range in.Log {
		if err != nil {
			return store.Admission{}, err
		}
		met = met || c.Revision == in.Known
		if !trusted {
			if in.Judged && c.Revision == in.Known || t.Since != "" && c.Revision == t.Since {
				trusted, base, from = true, c.Tree.String(), c.Revision
			} else {
				l := t.link(c)
				links, revisions = append(links, l), append(revisions, c.Revision)
				trusted = l.By == decide.Bot
			}
		}
		if past++; trusted && met || past == maxPast {
			break
		}
		if len(links) == maxLinks && !trusted {
			return t.admit(in, "", fmt.Errorf("more than %d commits since the last one that can be trusted; name a commit that is in state.verify.since", maxLinks)), nil
		}
	}
	slices.Reverse(links)
	slices.Reverse(revisions)
	use, problems := decide.Trust(base, links, !met)
	if !met {
		problems = slices.Insert(problems, 0, fmt.Errorf("it was rewound: commit %s, which was the newest, is gone", in.Known))
		from = in.Known // where we are
	}
	if use > 0 {
		from = revisions[use-1]
	}
	return t.admit(in, from, together(problems)), nil
}

// together names the first few of what may be thousands; nil if there is none.
func together(problems []error) error {
	const most = 3
	if len(problems) == 0 {
		return nil
	}
	var words []string
	for _, p := range problems[:min(most, len(problems))] {
		words = append(words, p.Error())
	}
	if more := len(problems) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(words, "; "))
}

// admit applies the policy.
func (t *Trust) admit(in store.Incoming, upTo gitstate.Revision, problem error) store.Admission {
	if problem == nil {
		return store.Admission{UpTo: in.Head}
	}
	if !t.Enforce {
		return store.Admission{UpTo: in.Head, Problem: fmt.Errorf("the state branch is not signed as state.verify asks, and used all the same: %w", problem)}
	}
	if upTo == in.Head {
		return store.Admission{UpTo: upTo, Problem: fmt.Errorf("the state branch has commits that are not signed as state.verify asks, and a signed one that makes good for them: %w", problem)}
	}
	stays := "nothing of it can be used"
	if upTo != "" {
		stays = fmt.Sprintf("%.12s stays in force", upTo)
	}
	return store.Admission{UpTo: upTo, Problem: fmt.Errorf(`the state branch is not signed as state.verify asks: %w; %s, and nothing is pushed until a person whom state.verify allows takes it back by a signed "git revert", or lets it in by a signed commit with the trailer "%s: history"`, problem, stays, trailerApprove)}
}

// link is a commit as its signature shows it.
func (t *Trust) link(c store.Commit) decide.Link {
	l := decide.Link{Name: fmt.Sprintf("%s (%q by %s)", c.Revision, c.Subject, c.Author), Tree: c.Tree.String(), Ours: Ours(c)}
	who, err := t.Signers.Verify(c.Object)
	switch {
	case err != nil:
		if l.Why = err; who.Key != "" {
			l.Why = fmt.Errorf("signed with the key %s: %w", who.Key, err)
		}
	case who.Is(t.Bot):
		l.By = decide.Bot
	default:
		l.By = decide.Person
		l.Vouches = slices.Contains(c.Trailers, store.Trailer{Key: trailerApprove, Value: "history"})
	}
	return l
}

// Signature tells in a few words who signed a commit of the state branch, and whether that is as it should be.
func (t *Trust) Signature(c store.Commit) string {
	who, err := t.Signers.Verify(c.Object)
	l := t.link(c)
	switch {
	case err != nil:
		return report.BadSignature + l.Why.Error()
	case l.Ours && l.By != decide.Bot:
		return report.BadSignature + "a person signed it: " + who.String()
	}
	return "good: " + who.String()
}
