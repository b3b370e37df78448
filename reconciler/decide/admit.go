package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
)

// Codes of findings about a commit of the source that is not used.
const (
	// CodeUnverified: nobody who is allowed to signed it.
	CodeUnverified = "source-unverified"
	// CodeRewritten: it does not follow the commit in force.
	CodeRewritten = "source-rewritten"
)

// Head is what is known of the newest commit of the source, before it is in force.
type Head struct {
	Revision gitstate.Revision
	// InForce is the commit that the state was decided from; empty if there is none, or one of another source: then
	// there is nothing to follow.
	InForce string
	// Follows: Revision is InForce, or comes after it, or after one that a person approved in its place.
	Follows bool
	// Doubt is why nobody can tell whether it does; nil where it is known.
	Doubt error
	// Unverified are the commits that count and that no allowed key signed.
	Unverified []Unverified
}

// Unverified is a commit that no allowed key signed.
type Unverified struct {
	Revision gitstate.Revision
	// Key is the fingerprint of the key that signed it; empty if none did, or none that can be told.
	Key string
	Why error
}

func (u Unverified) String() string {
	if u.Key == "" {
		return fmt.Sprintf("commit %s: %v", u.Revision, u.Why)
	}
	return fmt.Sprintf("commit %s, signed with the key %s: %v", u.Revision, u.Key, u.Why)
}

// Limit is what a signer may change.
type Limit struct {
	// Signer is a principal.
	Signer string
	// Paths are files and folders of the repository.
	Paths []string
}

// Exceeds says what of the changed paths a signer may not change; nil means that there is nothing. Who has no limit may
// change everything, and who has several what any of them names.
func Exceeds(limits []Limit, signer func(name string) bool, changed []string) error {
	var allowed []string
	limited := false
	for _, l := range limits {
		if signer(l.Signer) {
			limited, allowed = true, append(allowed, l.Paths...)
		}
	}
	if !limited {
		return nil
	}
	within := func(path string) bool {
		return slices.ContainsFunc(allowed, func(a string) bool { return path == a || strings.HasPrefix(path, a+"/") })
	}
	outside := slices.DeleteFunc(slices.Clone(changed), within)
	switch len(outside) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("its signer may change %s, and it changes %s", strings.Join(allowed, ", "), outside[0])
	}
	return fmt.Errorf("its signer may change %s, and it changes %s and %d more", strings.Join(allowed, ", "), outside[0], len(outside)-1)
}

// Refusal is why the newest commit of the source is not in force.
type Refusal struct {
	// Code is that of the finding.
	Code     string
	Revision gitstate.Revision
	// InForce is the commit of the record that stays; empty if there is none.
	InForce string
	Message string
	// Doubtful: it may be right, and nobody can tell.
	Doubtful bool
}

// Admit judges whether a commit may be in force; nil means that it may. Follow lets rewritten histories in.
func Admit(h Head, follow bool) *Refusal {
	r := &Refusal{Revision: h.Revision, InForce: h.InForce}
	stays := "nothing is in force"
	if h.InForce != "" {
		stays = fmt.Sprintf("what was decided from %.12s stays in force", h.InForce)
	}
	more := ""
	if n := len(h.Unverified) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	switch {
	case len(h.Unverified) > 0 && h.Unverified[0].Revision == h.Revision:
		r.Code = CodeUnverified
		r.Message = fmt.Sprintf("the source is not followed to %s%s; %s until a commit follows that a signer of source.verify signed", h.Unverified[0], more, stays)
	case len(h.Unverified) > 0:
		r.Code = CodeUnverified
		r.Message = fmt.Sprintf("the source is not followed to %.12s, because of %s%s; %s until that is out of the history, or source.verify.mode is head", h.Revision, h.Unverified[0], more, stays)
	case h.InForce == "" || h.Follows || follow:
		return nil
	case h.Doubt != nil:
		r.Code, r.Doubtful = CodeRewritten, true
		r.Message = fmt.Sprintf("the source is not followed to %s: whether it comes after %.12s cannot be told: %v; %s until \"godwit approve --kind SourceRewrite\"", h.Revision, h.InForce, h.Doubt, stays)
	default:
		r.Code = CodeRewritten
		r.Message = fmt.Sprintf("the source is not followed to %s, which does not come after %.12s: its history was rewritten; %s until a commit that comes after it is pushed, or \"godwit approve --kind SourceRewrite\" lets the new history in", h.Revision, h.InForce, stays)
	}
	return r
}

// InForce is the commit of the record that the newest one has to follow; empty where there is none, or where the
// configuration now names another source. A folder has no commits.
func (o Options) InForce(s record.Source) string {
	if strings.HasPrefix(s.Commit, "tree:") || s.URL != o.SourceURL || o.SourceBranch != "" && s.Branch != o.SourceBranch {
		return ""
	}
	return s.Commit
}

// gate tells of a commit that is kept out, and drops the approval of a rewritten history when the source went on.
func (p *pass) gate() {
	if p.Input.Refused != nil {
		p.find(render.Finding{Severity: render.Error, Code: p.Input.Refused.Code, Message: p.Input.Refused.Message})
	}
	if r := p.Previous.Meta.RewriteApproved(); r == nil || string(p.Source.Revision) != r.From {
		p.next.Meta.Rewrite = nil
	}
}

// sourceEvents tell that the source went on from another history.
func (p *pass) sourceEvents() []Event {
	r := p.Previous.Meta.RewriteApproved()
	if r == nil || p.next.Meta.Rewrite != nil {
		return nil
	}
	e := happened(VerbRewrite, "source", fmt.Sprintf("%.7s -> %.7s", r.From, p.Source.Revision), Operator)
	e.Why = "approved by " + cmp.Or(r.By, "a person")
	return []Event{e}
}
