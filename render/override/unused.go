package override

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Effects gathers what rules did to many objects.
type Effects map[string]bool

// Add takes note of what was done to one more object.
func (e Effects) Add(effects []Effect) {
	for _, f := range effects {
		e[f.rule] = e[f.rule] || f.changed
	}
}

// Merge adds what others gathered.
func (e Effects) Merge(others Effects) {
	for rule, changed := range others {
		e[rule] = e[rule] || changed
	}
}

// Idle warns of rules that were applied and changed nothing anywhere.
func (s *Set) Idle(seen Effects) []render.Finding {
	var findings []render.Finding
	for _, p := range slices.Concat(s.cluster.policies, s.namespaced.policies) {
		for i := range p.rules {
			if changed, applied := seen[p.rules[i].hash]; applied && !changed {
				findings = append(findings, p.source.Finding(render.Warning, "override-no-effect", p.rules[i].at,
					"changes nothing: whatever it is applied to is as it says already, or has no such field; correct it, or remove the rule"))
			}
		}
	}
	return findings
}

// Uncovered warns of image overriders without a predicate that are for a template with init containers, or
// for a CronJob among others: those keep their images, as in Karmada.
func (s *Set) Uncovered(templates []*manifest.Object) []render.Finding {
	type entry struct {
		policy *compiled
		at     string
		code   string
	}
	missed, where := map[entry][]string{}, map[entry]policy.Path{}
	for _, t := range templates {
		code := ""
		switch {
		case hasInitContainers(t.Content):
			code = codeInitContainers
		case t.Kind == "CronJob":
			code = codeImageNoEffect
		default:
			continue
		}
		for _, p := range s.selectingTemplate(t.ID, labelsOf(t.Content)) {
			if code == codeImageNoEffect && !knowsImages(p.selectors) {
				continue // which is found without templates
			}
			for i := range p.rules {
				for j, image := range p.rules[i].overriders.ImageOverrider {
					if image.Predicate == nil {
						at := p.rules[i].at.At("imageOverrider", j)
						e := entry{p, manifest.Dotted(at), code}
						missed[e], where[e] = append(missed[e], t.ID.String()), at
					}
				}
			}
		}
	}
	containers := map[string]string{codeInitContainers: "init containers", codeImageNoEffect: "containers"}
	var findings []render.Finding
	for e, names := range missed {
		more := ""
		if n := len(names) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		findings = append(findings, e.policy.source.Finding(render.Warning, e.code, where[e],
			"does not reach the %s of %s%s, as in Karmada; write a second one with predicate.path for each of them", containers[e.code], slices.Min(names), more))
	}
	slices.SortFunc(findings, render.Finding.Compare)
	return findings
}

// The codes of images that stay as they are.
const (
	codeInitContainers = "init-containers"
	codeImageNoEffect  = "image-override-no-effect"
)

// knowsImages tells whether the images of what is selected are found without a predicate, at least of some.
func knowsImages(selectors []policyv1alpha1.ResourceSelector) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(s policyv1alpha1.ResourceSelector) bool { return podSpecs[s.Kind] != nil })
}

func hasInitContainers(o api.Object) bool {
	kind, _ := o["kind"].(string)
	var pod any = map[string]any(o)
	if podSpecs[kind] == nil {
		return false
	}
	for _, field := range append(slices.Clone(podSpecs[kind]), "initContainers") {
		m, _ := pod.(map[string]any)
		pod = m[field]
	}
	list, _ := pod.([]any)
	return len(list) > 0
}

// selectingTemplate returns the policies of both kinds that select a template.
func (s *Set) selectingTemplate(id api.ID, labels map[string]string) []*compiled {
	policies := s.cluster.selecting(id, labels)
	if id.Namespace != "" {
		policies = append(policies, s.namespaced.selecting(id, labels)...)
	}
	return policies
}

// Unused warns of policies that select none of the templates, of single selectors that do not, and of rules for
// clusters that no member is.
func (s *Set) Unused(templates []policy.Template, members []affinity.Cluster) []render.Finding {
	used := map[*compiled]bool{}
	for _, t := range templates {
		for _, p := range s.selectingTemplate(t.ID, t.Labels) {
			used[p] = true
		}
	}
	var findings []render.Finding
	var rest []policy.Selecting
	for _, p := range slices.Concat(s.cluster.policies, s.namespaced.policies) {
		if !used[p] {
			findings = append(findings, p.source.Finding(render.Warning, "selects-nothing", []string{"spec", "resourceSelectors"},
				"no template in the source is selected, so the policy changes nothing; check apiVersion, kind, namespace, name and labels"))
			continue
		}
		rest = append(rest, policy.Selecting{Source: p.source, Selectors: p.selectors})
		for i := range p.rules {
			if len(members) > 0 && !slices.ContainsFunc(members, func(c affinity.Cluster) bool { return p.rules[i].target.Matches(&c) }) {
				findings = append(findings, p.source.Finding(render.Warning, "matches-no-member", []string{"spec", "overrideRules", strconv.Itoa(i), "targetCluster"},
					"no member matches, so the rule changes nothing; check the names and labels"))
			}
		}
	}
	return append(findings, policy.Unmatched(rest, templates)...)
}

// Selecting names the policies of both kinds that select a template.
func (s *Set) Selecting(id api.ID, labels map[string]string) []string {
	var names []string
	for _, p := range s.selectingTemplate(id, labels) {
		names = append(names, p.source.ID.String())
	}
	slices.Sort(names)
	return names
}
