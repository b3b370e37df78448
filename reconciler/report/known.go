package report

import (
	"slices"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// Finding is one of a plan.
type Finding struct {
	render.Finding
	// Known: the source had it before the change, which is not to blame.
	Known bool `json:"known,omitempty"`
}

// identity is what makes a finding the same one where lines above it come and go.
type identity struct{ code, object, file, message string }

func identityOf(f render.Finding) identity { return identity{f.Code, f.Object, f.File, f.Message} }

// Since compares with the decision on the source that head changes: what that found, too, is known, and
// what rules say of kinds is compared. Of findings that are the same one as many are known as there were.
func (p *Plan) Since(base, head *decide.Decision) {
	p.compared = true
	left := map[identity]int{}
	for _, f := range base.Findings {
		left[identityOf(f)]++
	}
	for i := range p.Findings {
		if f := &p.Findings[i]; left[identityOf(f.Finding)] > 0 {
			left[identityOf(f.Finding)]--
			f.Known = true
		}
	}
	p.find(head.Interpretation(base))
}

// find adds findings of the change, each at its place.
func (p *Plan) find(found []render.Finding) {
	for _, f := range found {
		p.Findings = append(p.Findings, Finding{Finding: f})
	}
	slices.SortStableFunc(p.Findings, func(a, b Finding) int { return a.Compare(b.Finding) })
}

// found are the findings that are known, or those that are not.
func (p *Plan) found(known bool) []render.Finding {
	var found []render.Finding
	for _, f := range p.Findings {
		if f.Known == known {
			found = append(found, f.Finding)
		}
	}
	return found
}

// newErrors counts those that the change brings.
func (p *Plan) newErrors() int {
	n := 0
	for _, f := range p.found(false) {
		if f.Severity == render.Error {
			n++
		}
	}
	return n
}
