package override

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Compile decodes, defaults and validates the override policies among objs; other kinds are passed
// over. A policy with an error is not used. Findings are sorted. Of two objects with one identity
// the first is used.
func Compile(objs []*manifest.Object) (*Set, []render.Finding) {
	s := &Set{names: map[[2]string]bool{}}
	var findings []render.Finding
	var specs [2][]policy.Selection
	for _, o := range sorted(objs) {
		stage, selections := &s.namespaced, &specs[0]
		if o.Kind == KindClusterOverridePolicy {
			stage, selections = &s.cluster, &specs[1]
		}
		name := [2]string{o.Namespace, o.Name}
		if s.names[name] {
			continue
		}
		s.names[name] = true
		spec, found := decode(o)
		findings = append(findings, found...)
		if spec == nil {
			continue
		}
		stage.policies = append(stage.policies, &compiled{o, spec.ResourceSelectors, rules(o, spec)})
		*selections = append(*selections, policy.Selection{Namespace: o.Namespace, Selectors: spec.ResourceSelectors})
	}
	s.namespaced.finish(specs[0])
	s.cluster.finish(specs[1])
	slices.SortFunc(findings, render.Finding.Compare)
	return s, findings
}

// sorted returns the override policies among objs by namespace and name.
func sorted(objs []*manifest.Object) []*manifest.Object {
	var policies []*manifest.Object
	for _, o := range objs {
		if o.Group == policyv1alpha1.Group && (o.Kind == KindOverridePolicy || o.Kind == KindClusterOverridePolicy) {
			policies = append(policies, o)
		}
	}
	slices.SortStableFunc(policies, func(a, b *manifest.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return policies
}

func (s *stage) finish(selections []policy.Selection) {
	s.index = policy.NewIndex(selections)
	var hashes []string
	for i, p := range s.policies {
		hashes = append(hashes, policy.Hash(p.source.ID, selections[i]))
		for _, r := range p.rules {
			hashes = append(hashes, r.hash)
		}
	}
	s.hash = policy.Hash(hashes)
}

// decode returns nil if a finding is an error.
func decode(o *manifest.Object) (*policyv1alpha1.OverrideSpec, []render.Finding) {
	r := &policy.Report{Object: o}
	p, findings := manifest.Decode[policyv1alpha1.OverridePolicy](o)
	r.Add(findings)
	if p == nil {
		return nil, r.Findings
	}
	for i := range p.Spec.ResourceSelectors {
		if s := &p.Spec.ResourceSelectors[i]; s.Namespace == "" {
			s.Namespace = o.Namespace
		}
	}
	check(r, &p.Spec)
	if r.Failed() {
		return nil, r.Findings
	}
	return &p.Spec, r.Findings
}

// rules compiles the rules of a valid policy. The deprecated pair at the top counts as one rule if
// there are no others.
func rules(o *manifest.Object, spec *policyv1alpha1.OverrideSpec) []rule {
	at := policy.Path{"spec"}
	if len(spec.OverrideRules) == 0 {
		return []rule{newRule(o, at.At("overriders"), spec.TargetCluster, spec.Overriders)}
	}
	rules := make([]rule, len(spec.OverrideRules))
	for i, r := range spec.OverrideRules {
		rules[i] = newRule(o, at.At("overrideRules", i, "overriders"), r.TargetCluster, r.Overriders)
	}
	return rules
}

func newRule(o *manifest.Object, at policy.Path, target *policyv1alpha1.ClusterAffinity, overriders policyv1alpha1.Overriders) rule {
	r := rule{
		at:         at,
		target:     affinity.Compile(target),
		overriders: overriders,
		hash:       policy.Hash(o.ID, overriders),
		reselects:  reselects(&overriders),
	}
	add := func(c change, entry any, steps ...any) { r.steps = append(r.steps, step{at.At(steps...), c, entry}) }
	for i := range overriders.ImageOverrider {
		image := &overriders.ImageOverrider[i]
		apply := images(image)
		if image.Predicate != nil {
			apply = imageAt(image)
		}
		add(apply, image, "imageOverrider", i)
	}
	for i := range overriders.CommandOverrider {
		add(words("command", &overriders.CommandOverrider[i]), &overriders.CommandOverrider[i], "commandOverrider", i)
	}
	for i := range overriders.ArgsOverrider {
		add(words("args", &overriders.ArgsOverrider[i]), &overriders.ArgsOverrider[i], "argsOverrider", i)
	}
	for i := range overriders.LabelsOverrider {
		add(marks("labels", &overriders.LabelsOverrider[i]), &overriders.LabelsOverrider[i], "labelsOverrider", i)
	}
	for i := range overriders.AnnotationsOverrider {
		add(marks("annotations", &overriders.AnnotationsOverrider[i]), &overriders.AnnotationsOverrider[i], "annotationsOverrider", i)
	}
	for i := range overriders.FieldOverrider {
		add(document(&overriders.FieldOverrider[i]), &overriders.FieldOverrider[i], "fieldOverrider", i)
	}
	if len(overriders.Plaintext) > 0 {
		add(plaintext(overriders.Plaintext), overriders.Plaintext, "plaintext")
	}
	return r
}

// plaintext reads the values once. An entry that cannot be read fails whenever it is applied, as
// it does in Karmada.
func plaintext(entries []policyv1alpha1.PlaintextOverrider) change {
	operations := make([]operation, len(entries))
	for i, e := range entries {
		path, err := parsePointer(e.Path)
		o := operation{op: e.Operator, path: path}
		if raw := e.Value.Raw; len(raw) > 0 && err == nil {
			err = json.Unmarshal(raw, &o.value)
		}
		if err != nil {
			return failing(&entryError{i, fmt.Errorf("%s: %w", e.Operator, err)})
		}
		operations[i] = o
	}
	return patch(operations)
}

func failing(err error) change {
	return func(map[string]any) (map[string]any, error) { return nil, err }
}

// reselects tells whether overriders may change the kind, the name or the labels of an object.
func reselects(o *policyv1alpha1.Overriders) bool {
	identity := func(path string) bool {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return slices.Contains([]string{"", "apiVersion", "kind", "metadata"}, first)
	}
	return len(o.LabelsOverrider) > 0 ||
		slices.ContainsFunc(o.Plaintext, func(e policyv1alpha1.PlaintextOverrider) bool { return identity(e.Path) }) ||
		slices.ContainsFunc(o.FieldOverrider, func(e policyv1alpha1.FieldOverrider) bool { return identity(e.FieldPath) }) ||
		slices.ContainsFunc(o.ImageOverrider, func(e policyv1alpha1.ImageOverrider) bool {
			return e.Predicate != nil && identity(e.Predicate.Path)
		})
}
