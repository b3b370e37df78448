package override

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/policy"
)

func TestRulesThatChangeNothingAreFound(t *testing.T) {
	const policies = `
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: p}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  overrideRules:
  - overriders: {plaintext: [{path: /spec/replicas, operator: replace, value: 2}]}
  - targetCluster: {clusterNames: [m2]}
    overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}
  - targetCluster: {clusterNames: [m3]}
    overriders: {labelsOverrider: [{operator: add, value: {a: c}}]}
`
	s := compile(t, policies)
	for _, tt := range []struct {
		name   string
		copies string // member:replicas:label
		want   []string
	}{
		{"a rule that changes one of the copies does something", "m1:1:b m1:2:b", nil},
		{"a rule that changes none", "m1:2:b m2:2:b", []string{"8 spec.overrideRules[0].overriders", "10 spec.overrideRules[1].overriders"}},
		{"one of two", "m2:2:c", []string{"8 spec.overrideRules[0].overriders"}},
		{"nothing to apply it to", "", nil},
	} {
		seen := Effects{}
		for f := range strings.FieldsSeq(tt.copies) {
			p := strings.Split(f, ":")
			template := manifests(t, fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {a: %s}}\nspec: {replicas: %s}\n", p[2], p[1]))[0]
			result, err := s.Apply(Claimed(template.Content), template.ID, &affinity.Cluster{Name: p[0]}, false)
			if err != nil {
				t.Fatal(err)
			}
			seen.Add(result.Effects)
		}
		var got []string
		for _, f := range s.Idle(seen) {
			if f.Code != "override-no-effect" {
				t.Error(f)
			}
			where, _, _ := strings.Cut(f.Message, ":")
			got = append(got, fmt.Sprint(f.Line, " ", where))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestInitContainersThatKeepTheirImagesAreFound(t *testing.T) {
	overriders := "{imageOverrider: [{component: Registry, operator: replace, value: r.example.org}, {predicate: {path: /spec/template/spec/initContainers/0/image}, component: Registry, operator: replace, value: r.example.org}]}"
	s := compile(t, policyText(KindOverridePolicy, "p", "[{apiVersion: apps/v1, kind: Deployment}]", overriders)+
		policyText(KindClusterOverridePolicy, "q", "[{apiVersion: batch/v1, kind: CronJob}]", "{labelsOverrider: [{operator: add, value: {a: b}}]}")+
		policyText(KindClusterOverridePolicy, "r", "[]", "{imageOverrider: [{component: Tag, operator: replace, value: v2}]}"))
	template := func(apiVersion, kind, name, containers string) string {
		return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: {template: {spec: {%s: [{name: c, image: i}]}}}\n", apiVersion, kind, name, containers)
	}
	var got []string
	for _, f := range s.Uncovered(manifests(t, template("apps/v1", "Deployment", "b", "initContainers")+template("apps/v1", "Deployment", "plain", "containers")+
		template("apps/v1", "Deployment", "a", "initContainers")+template("apps/v1", "StatefulSet", "s", "initContainers")+template("batch/v1", "CronJob", "j", "initContainers"))) {
		got = append(got, f.String())
	}
	const each = ", as in Karmada; write a second one with predicate.path for each of them"
	want := []string{
		"policies.yaml:7: warning: init-containers: OverridePolicy default/p: spec.overrideRules[0].overriders.imageOverrider[0]: does not reach the init containers of Deployment default/a and 1 more" + each,
		"policies.yaml:23: warning: image-override-no-effect: ClusterOverridePolicy r: spec.overrideRules[0].overriders.imageOverrider[0]: does not reach the containers of CronJob default/j" + each,
		"policies.yaml:23: warning: init-containers: ClusterOverridePolicy r: spec.overrideRules[0].overriders.imageOverrider[0]: does not reach the init containers of Deployment default/a and 2 more" + each,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASelectorThatMatchesNothingIsFound(t *testing.T) {
	set := compile(t, policyText(KindOverridePolicy, "p", "[{apiVersion: apps/v1, kind: Deployment, name: web}, {apiVersion: apps/v1, kind: Deployment, name: wbe}]", mark("a"))+
		policyText(KindClusterOverridePolicy, "q", "[{apiVersion: apps/v1, kind: Deployment}, {apiVersion: apps/v1, kind: Deploymnt}]", mark("b")))
	var got []string
	for _, f := range set.Unused([]policy.Template{{ID: api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web"}}}, nil) {
		got = append(got, fmt.Sprint(f.Severity, " ", f.Code, " ", f.Object, " ", f.Message[:len("spec.resourceSelectors[1]")]))
	}
	want := []string{
		"info selector-matches-nothing ClusterOverridePolicy q spec.resourceSelectors[1]",
		"warning selector-matches-nothing OverridePolicy default/p spec.resourceSelectors[1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
