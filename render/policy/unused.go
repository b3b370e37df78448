package policy

import (
	"fmt"
	"slices"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Unused warns of policies that select none of the templates, and of single selectors that do not: a slip in a name or
// a label is the usual cause of "created but on no member".
func (s *Set) Unused(templates []Template) []render.Finding {
	used := make(map[*Policy]bool, len(s.byClaim))
	for _, t := range templates {
		for _, c := range s.candidates(t) {
			used[c.policy] = true
		}
	}
	var findings []render.Finding
	var rest []Selecting
	for _, p := range s.Policies() {
		if used[p] {
			rest = append(rest, Selecting{p.Source, p.Spec.ResourceSelectors})
		} else {
			findings = append(findings, p.Source.Finding(render.Warning, "selects-nothing", []string{"spec", "resourceSelectors"},
				"no template in the source is selected; check apiVersion, kind, namespace, name and labels"))
		}
	}
	return append(findings, Unmatched(rest, templates)...)
}

// Selecting is an object with resource selectors.
type Selecting struct {
	Source    *manifest.Object
	Selectors []policyv1alpha1.ResourceSelector
}

// Unmatched tells of selectors that match none of the templates, where an object has several. One that gives a name is
// most likely a slip, so that is a warning; one for all objects of a kind may be there for those to come.
func Unmatched(all []Selecting, templates []Template) []render.Finding {
	type place struct{ object, selector int }
	var places []place
	var each []Selection
	for i, one := range all {
		if len(one.Selectors) < 2 {
			continue
		}
		for j := range one.Selectors {
			places, each = append(places, place{i, j}), append(each, Selection{Selectors: one.Selectors[j : j+1]})
		}
	}
	matched := make([]bool, len(each))
	index := NewIndex(each)
	for _, t := range templates {
		for _, m := range index.Match(t.ID, t.Labels) {
			matched[m.Position] = true
		}
	}
	var findings []render.Finding
	for i, at := range places {
		if matched[i] {
			continue
		}
		severity, check := render.Info, "apiVersion, kind, namespace and labels"
		if all[at.object].Selectors[at.selector].Name != "" {
			severity, check = render.Warning, "apiVersion, kind, namespace and name"
		}
		findings = append(findings, all[at.object].Source.Finding(severity, "selector-matches-nothing", Path{"spec", "resourceSelectors"}.At(at.selector),
			"no template in the source matches; check %s, or remove it", check))
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
