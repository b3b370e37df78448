package override

import (
	"slices"
	"strconv"

	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Unused warns of policies that select none of the templates, and of rules for clusters that no
// member is.
func (s *Set) Unused(templates []policy.Template, members []affinity.Cluster) []render.Finding {
	used := map[*compiled]bool{}
	for _, t := range templates {
		for _, p := range s.cluster.selecting(t.ID, t.Labels) {
			used[p] = true
		}
		if t.ID.Namespace != "" {
			for _, p := range s.namespaced.selecting(t.ID, t.Labels) {
				used[p] = true
			}
		}
	}
	var findings []render.Finding
	for _, p := range slices.Concat(s.cluster.policies, s.namespaced.policies) {
		if !used[p] {
			findings = append(findings, p.source.Finding(render.Warning, "selects-nothing", []string{"spec", "resourceSelectors"},
				"no template in the source is selected, so the policy changes nothing; check apiVersion, kind, namespace, name and labels"))
			continue
		}
		for i := range p.rules {
			if len(members) > 0 && !slices.ContainsFunc(members, func(c affinity.Cluster) bool { return p.rules[i].target.Matches(&c) }) {
				findings = append(findings, p.source.Finding(render.Warning, "matches-no-member", []string{"spec", "overrideRules", strconv.Itoa(i), "targetCluster"},
					"no member matches, so the rule changes nothing; check the names and labels"))
			}
		}
	}
	return findings
}
