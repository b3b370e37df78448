package policy

import (
	"fmt"
	"slices"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
)

// Unused warns of policies that select none of the templates: a slip in a name or a label is the
// usual cause of "created but on no member".
func (s *Set) Unused(templates []Template) []render.Finding {
	used := make(map[*Policy]bool, len(s.byClaim))
	for _, t := range templates {
		for _, c := range s.candidates(t) {
			used[c.policy] = true
		}
	}
	var findings []render.Finding
	for _, p := range s.Policies() {
		if !used[p] {
			findings = append(findings, p.Source.Finding(render.Warning, "selects-nothing", []string{"spec", "resourceSelectors"},
				"no template in the source is selected; check apiVersion, kind, namespace, name and labels"))
		}
	}
	return findings
}

// Tied warns of policies that lose templates to another one by their name alone, though their selectors
// differ. Those with the same selector are found without templates, by Compile.
func (s *Set) Tied(templates []Template) []render.Finding {
	type pair struct{ loser, winner *Policy }
	lost := map[pair][]string{}
	for _, t := range templates {
		all := s.candidates(t)
		for i := 1; i < len(all) && all[i].policy.Kind == all[0].policy.Kind && all[i].policy.Priority == all[0].policy.Priority && all[i].precision == all[0].precision; i++ {
			p := pair{all[i].policy, all[0].policy}
			lost[p] = append(lost[p], t.ID.String())
		}
	}
	var findings []render.Finding
	for p, names := range lost {
		if p.loser.sharesSelector(p.winner) {
			continue
		}
		more := ""
		if n := len(names) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		findings = append(findings, p.loser.Source.Finding(render.Warning, "policy-tie", []string{"spec", "resourceSelectors"},
			"%s selects %s%s as precisely and with the same priority %d, so the name decides and %s wins, whichever is older; give one of them a higher spec.priority",
			p.winner, slices.Min(names), more, p.loser.Priority, p.winner.Name))
	}
	slices.SortFunc(findings, render.Finding.Compare)
	return findings
}

func (p *Policy) sharesSelector(other *Policy) bool {
	return slices.ContainsFunc(p.Spec.ResourceSelectors, func(a policyv1alpha1.ResourceSelector) bool {
		return slices.ContainsFunc(other.Spec.ResourceSelectors, func(b policyv1alpha1.ResourceSelector) bool { return selectorHash(a) == selectorHash(b) })
	})
}
