package policy

import "github.com/godwit-gitops/godwit/render"

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
