package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

func TestNamesThatNothingHasAreWarnings(t *testing.T) {
	set, findings := policy.Compile(rendertest.Objects(t, `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: a, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  dependentOverrides: [there, gone]
  suspension: {dispatchingOnClusters: {clusterNames: [m1, m9]}}
  placement:
    clusterAffinities:
    - affinityName: near
      clusterNames: [m1, m7, m8]
      overflowAffinities: [{affinityName: spill, labelSelector: {matchLabels: {tier: none}}}]
    - {affinityName: far, exclude: [m6], labelSelector: {matchLabels: {tier: gold}}}
    replicaScheduling:
      replicaDivisionPreference: Aggregated
      replicaSchedulingType: Divided
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: b}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  dependentOverrides: [there]
  placement:
    clusterAffinity: {clusterNames: [x0, x1, x2, x3, x4, x5, x6]}
    replicaScheduling:
      weightPreference:
        staticWeightList:
        - {targetCluster: {}, weight: 1}
        - {targetCluster: {clusterNames: [m1], exclude: [m1]}, weight: 1}
`))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	has := func(namespace, name string) bool { return namespace == "default" && name == "there" }
	const override = "there is no such override policy, and until there is, nothing that the policy selects is placed; add it, or remove the name"
	const cluster = "; check the name, or register the cluster"
	for _, test := range []struct {
		members []affinity.Cluster
		want    []string
	}{
		{nil, []string{
			"spec.dependentOverrides[1]: " + override,
			"spec.dependentOverrides[0]: " + override,
		}},
		{[]affinity.Cluster{{Name: "m1", Labels: map[string]string{"tier": "gold"}}}, []string{
			"spec.dependentOverrides[1]: " + override,
			`spec.suspension.dispatchingOnClusters.clusterNames[1]: there is no member "m9"` + cluster,
			`spec.placement.clusterAffinities[0].clusterNames[1]: there is no member "m7", "m8"` + cluster,
			"spec.placement.clusterAffinities[0].overflowAffinities[0]: no member matches; check the names and labels",
			`spec.placement.clusterAffinities[1].exclude[0]: there is no member "m6"` + cluster,
			"spec.dependentOverrides[0]: " + override,
			`spec.placement.clusterAffinity.clusterNames[0]: there is no member "x0", "x1", "x2", "x3", "x4", others` + cluster,
			"spec.placement.replicaScheduling.weightPreference.staticWeightList[1].targetCluster: no member matches; check the names and labels",
		}},
	} {
		var got []string
		for _, f := range set.Dangling(test.members, has) {
			got = append(got, f.Message)
			if f.Line == 0 {
				t.Errorf("%s has no line", f)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("with %d members (-want +got):\n%s", len(test.members), diff)
		}
	}
}
