package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

func TestAPolicyThatSelectsNothingIsAWarningAtItsSelectors(t *testing.T) {
	set, findings := policy.Compile(rendertest.Objects(t, `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: used, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: slip, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: wbe}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: elsewhere, namespace: other}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
`))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var got []string
	for _, f := range set.Unused([]policy.Template{{ID: api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web"}}}) {
		got = append(got, f.Object+" "+f.Code)
		if f.Line == 0 {
			t.Errorf("%s has no line", f)
		}
	}
	want := []string{"PropagationPolicy default/slip selects-nothing", "PropagationPolicy other/elsewhere selects-nothing"}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("Unused = %q, want %q", got, want)
	}
}

func TestASelectorThatMatchesNothingIsFoundAtItsLine(t *testing.T) {
	set, findings := policy.Compile(rendertest.Objects(t, `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: some, namespace: default}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, name: web}
  - {apiVersion: v1, kind: ConfigMap, name: wbe}
  - {apiVersion: v1, kind: Secret}
  - {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {app: wbe}}}
  - {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {app: web}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: elsewhere}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, namespace: default}
  - {apiVersion: v1, kind: ConfigMap, namespace: other, name: web}
`))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var got []string
	for _, f := range set.Unused([]policy.Template{{
		ID: api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web"}, Labels: map[string]string{"app": "web"},
	}}) {
		if f.Code != "selector-matches-nothing" {
			t.Error(f)
		}
		got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Severity, f.Message[:len("spec.resourceSelectors[n]")]))
	}
	want := []string{
		"10 info spec.resourceSelectors[3]", "19 warning spec.resourceSelectors[1]", "8 warning spec.resourceSelectors[1]", "9 info spec.resourceSelectors[2]",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Unused = %q, want %q", got, want)
	}
}
