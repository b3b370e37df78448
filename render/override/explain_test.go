package override

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
)

// explained writes the steps and skipped rules of policies for kube01, one line each.
func explained(t *testing.T, s *Set, o api.Object) (lines []string) {
	t.Helper()
	r, err := s.Apply(o, api.IDOf(o), kube01, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range r.Steps {
		line := fmt.Sprintf("%s:%d %s:", step.File, step.Line, step.Policy)
		for _, c := range step.Changes {
			line += fmt.Sprintf(" %s %v -> %v", c.Path, c.Before, c.After)
			if c.Added || c.Removed {
				line += fmt.Sprintf(" (added %t, removed %t)", c.Added, c.Removed)
			}
			if c.Later != "" {
				line += ", then " + c.Later
			}
		}
		if step.Changed != (len(step.Changes) > 0) || step.Changed != (step.Why == "") {
			t.Errorf("%s: changed %t, %d changes, why %q", line, step.Changed, len(step.Changes), step.Why)
		}
		if step.Why != "" {
			line += " nothing: " + step.Why
		}
		lines = append(lines, line)
	}
	for _, skipped := range r.Skipped {
		lines = append(lines, fmt.Sprintf("%s:%d %s skipped: %s", skipped.File, skipped.Line, skipped.Field, skipped.Why))
	}
	return lines
}

func TestStepsSayWhatTheyChanged(t *testing.T) {
	one := func(overriders string) string { return policyText("OverridePolicy", "a", "[]", overriders) }
	tests := []struct {
		name, policies string
		want           []string
	}{
		{"an image", one("{imageOverrider: [{component: Tag, operator: replace, value: v9}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: /spec/template/spec/containers/0/image reg.io/team/web:v1 -> reg.io/team/web:v9 /spec/template/spec/containers/1/image envoy:v2 -> envoy:v9"}},
		{"the same image", one("{imageOverrider: [{component: Tag, operator: replace, predicate: {path: /spec/template/spec/containers/0/image}, value: v1}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: nothing: the object has that value already"}},
		{"an argument in front of others", one("{plaintext: [{path: /spec/template/spec/containers/0/args/0, operator: add, value: -x}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: /spec/template/spec/containers/0/args/0 <nil> -> -x (added true, removed false)"}},
		{"a field less", one("{plaintext: [{path: /spec/replicas, operator: remove}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: /spec/replicas 3 -> <nil> (added false, removed true)"}},
		{"no such container", one("{argsOverrider: [{containerName: nobody, operator: add, value: [-a]}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: nothing: there is no container nobody; there is app, proxy"}},
		{"no such label", one("{labelsOverrider: [{operator: replace, value: {app: web, m: z}}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: nothing: metadata.labels has no m to replace"}},
		{"the same label", one("{labelsOverrider: [{operator: replace, value: {app: web}}]}"),
			[]string{"policies.yaml:7 OverridePolicy default/a: nothing: the object has that value already"}},
		{"overridden by a later one", one("{labelsOverrider: [{operator: add, value: {app: x, m: z}}]}") + policyText("OverridePolicy", "b", "[]", "{labelsOverrider: [{operator: replace, value: {app: z}}]}"), []string{
			"policies.yaml:7 OverridePolicy default/a: /metadata/labels/app web -> x, then OverridePolicy default/b spec.overrideRules[0].overriders.labelsOverrider[0] /metadata/labels/m <nil> -> z (added true, removed false)",
			"policies.yaml:15 OverridePolicy default/b: /metadata/labels/app x -> z"}},
		{"added and taken away", one("{labelsOverrider: [{operator: add, value: {m: z}}, {operator: remove, value: {m: ''}}]}"), []string{
			"policies.yaml:7 OverridePolicy default/a: /metadata/labels/m <nil> -> z (added true, removed false), then OverridePolicy default/a spec.overrideRules[0].overriders.labelsOverrider[1]",
			"policies.yaml:7 OverridePolicy default/a: /metadata/labels/m z -> <nil> (added false, removed true)"}},
		{"for other clusters", "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: a}\nspec:\n  overrideRules:\n  - targetCluster: {clusterNames: [kube02]}\n    overriders: " + mark("x") + "\n  - targetCluster: {labelSelector: {matchLabels: {env: test}}}\n    overriders: " + mark("x") + "\n",
			[]string{"policies.yaml:6 spec.overrideRules[0].targetCluster skipped: not in clusterNames", "policies.yaml:8 spec.overrideRules[1].targetCluster skipped: labels do not match env=test"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, explained(t, compile(t, tt.policies), object(t, web))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
	config := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	want := []string{"policies.yaml:7 OverridePolicy default/a: nothing: a ConfigMap has no containers where they are looked for; use plaintext or an imageOverrider with a predicate"}
	if diff := cmp.Diff(want, explained(t, compile(t, one("{imageOverrider: [{component: Tag, operator: replace, value: v9}]}")), config)); diff != "" {
		t.Errorf("no containers: -want +got:\n%s", diff)
	}
}

func TestWithoutExplanationNothingIsKept(t *testing.T) {
	s := compile(t, policyText("OverridePolicy", "a", "[]", mark("x"))+"apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: b}\nspec:\n  overrideRules:\n  - targetCluster: {clusterNames: [kube02]}\n    overriders: "+mark("x")+"\n")
	o := object(t, web)
	plain, err := s.Apply(o, api.IDOf(o), kube01, false)
	if err != nil || plain.Steps != nil || plain.Skipped != nil {
		t.Errorf("got %v, %v and %v", plain.Steps, plain.Skipped, err)
	}
	full, err := s.Apply(o, api.IDOf(o), kube01, true)
	if diff := cmp.Diff(plain.Object, full.Object); diff != "" || err != nil {
		t.Errorf("explained it is another object: %v %s", err, diff)
	}
}

func TestNearestOverridesDifferByASlip(t *testing.T) {
	s := compile(t, policyText("OverridePolicy", "label", "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: api}}}]", mark("x"))+
		policyText("OverridePolicy", "name", "[{apiVersion: apps/v1, kind: Deployment, name: wbe}]", mark("x"))+
		policyText("OverridePolicy", "kind", "[{apiVersion: v1, kind: ConfigMap}]", mark("x"))+
		policyText("OverridePolicy", "two", "[{apiVersion: apps/v1beta1, kind: Deployment, name: wbe}]", mark("x"))+
		policyText("OverridePolicy", "selects", "[{apiVersion: apps/v1, kind: Deployment, name: web}]", mark("x"))+
		policyText("ClusterOverridePolicy", "space", "[{apiVersion: apps/v1, kind: Deployment, namespace: prod}]", mark("x")))
	o := object(t, web)
	var got []string
	for _, m := range s.Nearest(api.IDOf(o), map[string]string{"app": "web"}, 9) {
		got = append(got, fmt.Sprintf("%s:%d %s: %s", m.File, m.Line, m.Policy, m.Why))
	}
	want := []string{"policies.yaml:45 ClusterOverridePolicy space: namespace: prod, and the template has default",
		"policies.yaml:5 OverridePolicy default/label: labelSelector: app=api, and the template has app=web",
		"policies.yaml:13 OverridePolicy default/name: name: wbe, and the template has web"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if few := s.Nearest(api.IDOf(o), nil, 1); len(few) != 1 {
		t.Errorf("%d, want 1", len(few))
	}
}

var anyValue = rapid.Custom(func(t *rapid.T) any { return value(t, 3) })

func value(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 4).Draw(t, "kind"); {
	case n == 0 && depth > 0:
		m := map[string]any{}
		for range rapid.IntRange(1, 3).Draw(t, "size") {
			m[rapid.SampledFrom([]string{"a", "b", "c/d"}).Draw(t, "key")] = value(t, depth-1)
		}
		return m
	case n == 1 && depth > 0:
		list := []any{}
		for range rapid.IntRange(1, 3).Draw(t, "size") {
			list = append(list, value(t, depth-1))
		}
		return list
	}
	return rapid.SampledFrom([]any{"x", "y", int64(1), true, nil}).Draw(t, "value")
}

// Changes are there exactly if the values differ, and each is true of both.
func TestChangesAreTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyValue.Draw(t, "a"), anyValue.Draw(t, "b")
		changes := compare(nil, a, b, nil)
		if (len(changes) == 0) != reflect.DeepEqual(a, b) {
			t.Fatalf("%v and %v: %v", a, b, changes)
		}
		for _, c := range changes {
			was, errWas := c.path.lookup(a)
			is, errIs := c.path.lookup(b)
			switch {
			case !c.Added && (errWas != nil || !reflect.DeepEqual(was, c.Before)), !c.Removed && (errIs != nil || !reflect.DeepEqual(is, c.After)):
				t.Fatalf("%v and %v: %+v", a, b, c)
			}
		}
	})
}
