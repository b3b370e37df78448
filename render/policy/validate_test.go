package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// listed writes findings as "line severity code field".
func listed(findings []render.Finding) []string {
	var lines []string
	for _, f := range findings {
		field, _, _ := strings.Cut(f.Message, ": ")
		lines = append(lines, fmt.Sprintf("%d %s %s %s", f.Line, f.Severity, f.Code, field))
	}
	return lines
}

// manifestOf writes an object whose spec begins in line 5.
func manifestOf(apiVersion, kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec:%s\n", apiVersion, kind, name, spec)
}

func policyOf(kind, spec string) string {
	return manifestOf(policyv1alpha1.APIVersion, kind, "a", "\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: c}]"+spec)
}

func TestFindingsOfPropagationPolicies(t *testing.T) {
	for _, test := range []struct {
		name, kind, spec string
		want             []string // the spec goes on in line 6
	}{
		{"clean", KindPropagationPolicy, "", nil},
		{"words", KindPropagationPolicy, `
  preemption: Sometimes
  conflictResolution: Merge
  activationPreference: Eager
  association: true
  schedulerName: other
  schedulePriority: {priorityClassSource: Pod}
  suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [a]}}`, []string{
			"6 error unknown-value spec.preemption",
			"7 error unknown-value spec.conflictResolution",
			"8 error unknown-value spec.activationPreference",
			"9 warning no-effect spec.association",
			"10 info other-scheduler spec.schedulerName",
			"11 error missing-value spec.schedulePriority.priorityClassName",
			"11 error unknown-value spec.schedulePriority.priorityClassSource",
			"12 error suspension-conflict spec.suspension",
		}},
		{"suspension of one kind", KindPropagationPolicy, `
  suspension: {dispatching: false, dispatchingOnClusters: {clusterNames: [a]}}`, nil},
		{"preemption", KindPropagationPolicy, `
  preemption: Always`, []string{"6 info differs-1 spec.preemption"}},
		{"both affinities", KindPropagationPolicy, `
  placement:
    clusterAffinity: {fieldSelector: {matchExpressions: [{key: rack, operator: In, values: [a]}, {key: zone, operator: Exists}, {key: zone, operator: In}]}}
    clusterAffinities: [{affinityName: a}]`, []string{
			"6 error affinity-conflict spec.placement",
			"7 error field-selector spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key",
			"7 error field-selector spec.placement.clusterAffinity.fieldSelector.matchExpressions[1].operator",
			"7 warning field-selector-empty spec.placement.clusterAffinity.fieldSelector.matchExpressions[2].values",
		}},
		{"terms", KindPropagationPolicy, `
  placement:
    clusterAffinities:
    - {affinityName: a, labelSelector: {matchExpressions: [{key: x, operator: In}]}}
    - {affinityName: a}
    - {affinityName: "b c"}
    - {affinityName: ` + strings.Repeat("x", 33) + `}
    - {clusterNames: [m]}`, []string{
			"8 error invalid-label-selector spec.placement.clusterAffinities[0].labelSelector",
			"9 error duplicate-affinity-name spec.placement.clusterAffinities[1].affinityName",
			"10 error label-key spec.placement.clusterAffinities[2].affinityName",
			"11 error affinity-name spec.placement.clusterAffinities[3].affinityName",
			"12 error missing-value spec.placement.clusterAffinities[4].affinityName",
		}},
		{"overflow", KindPropagationPolicy, `
  placement:
    clusterAffinities:
    - affinityName: a
      overflowAffinities: [{affinityName: a}, {affinityName: b}, {affinityName: b}]
    - affinityName: b
      clusterNames: [m]
      overflowAffinities: [{affinityName: a, fieldSelector: {matchExpressions: [{key: x, operator: In, values: [a]}]}}]`, []string{
			"9 error duplicate-affinity-name spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName",
			"9 error duplicate-affinity-name spec.placement.clusterAffinities[0].overflowAffinities[2].affinityName",
			"9 error overflow-of-everything spec.placement.clusterAffinities[0].overflowAffinities",
			"9 error overflow-undivided spec.placement.clusterAffinities[0].overflowAffinities",
			"12 error field-selector spec.placement.clusterAffinities[1].overflowAffinities[0].fieldSelector.matchExpressions[0].key",
			"12 error overflow-undivided spec.placement.clusterAffinities[1].overflowAffinities",
		}},
		{"overflow of what fits", KindPropagationPolicy, `
  placement:
    replicaScheduling: {replicaDivisionPreference: Aggregated}
    clusterAffinities: [{affinityName: a, clusterNames: [m], overflowAffinities: [{affinityName: b}]}]`, nil},
		{"spreading", KindPropagationPolicy, `
  placement:
    spreadConstraints:
    - {spreadByField: region, spreadByLabel: x, maxGroups: 1}
    - {spreadByField: region, minGroups: 3, maxGroups: 2}
    - {spreadByField: region, minGroups: -1}
    - {spreadByField: rack, maxGroups: -1}
    - {spreadByLabel: x}`, []string{
			"7 error spread-without-cluster spec.placement.spreadConstraints",
			"8 error spread-conflict spec.placement.spreadConstraints[0]",
			"9 error duplicate-spread-field spec.placement.spreadConstraints[1].spreadByField",
			"9 error spread-groups spec.placement.spreadConstraints[1].maxGroups",
			"10 error spread-groups spec.placement.spreadConstraints[2].minGroups",
			"11 error spread-groups spec.placement.spreadConstraints[3].maxGroups",
			"11 error unknown-value spec.placement.spreadConstraints[3].spreadByField",
			"12 warning no-effect spec.placement.spreadConstraints[4].spreadByLabel",
			"12 warning spread-without-max spec.placement.spreadConstraints[4].maxGroups",
		}},
		{"spreading that differs", KindPropagationPolicy, `
  placement:
    replicaScheduling: {}
    spreadConstraints: [{spreadByField: zone, maxGroups: 2}, {maxGroups: 3}]`, []string{
			"7 info empty-replica-scheduling spec.placement.replicaScheduling",
			"8 info differs-18 spec.placement.spreadConstraints[0]",
			"8 warning spread-ignored spec.placement.spreadConstraints",
		}},
		{"fewer clusters than regions", KindPropagationPolicy, `
  placement:
    spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 1}]`, []string{
			"7 warning spread-total spec.placement.spreadConstraints[1].maxGroups",
		}},
		{"as many clusters as regions", KindPropagationPolicy, `
  placement:
    spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}]`, nil},
		{"tolerations", KindPropagationPolicy, `
  placement:
    clusterTolerations:
    - {key: a, operator: Gt, value: "1"}
    - {key: a, effect: NoSchedule, tolerationSeconds: 3}
    - {key: cluster.karmada.io/not-ready, effect: NoExecute, operator: Exists, tolerationSeconds: 3}
    - {operator: Exists, tolerationSeconds: 3}
    - {operator: Exists, effect: PreferNoSchedule}`, []string{
			"8 error toleration-operator spec.placement.clusterTolerations[0].operator",
			"9 warning toleration-no-effect spec.placement.clusterTolerations[1].tolerationSeconds",
			"10 info differs-2 spec.placement.clusterTolerations[2]",
			"11 warning toleration-no-effect spec.placement.clusterTolerations[3].tolerationSeconds",
			"12 warning toleration-no-effect spec.placement.clusterTolerations[4].effect",
		}},
		{"replicas", KindPropagationPolicy, `
  placement:
    replicaScheduling:
      replicaSchedulingType: Split
      replicaDivisionPreference: Random
      weightPreference:
        dynamicWeight: Free
        staticWeightList: [{targetCluster: {labelSelector: {matchExpressions: [{operator: In}]}}, weight: 0}]`, []string{
			"8 error unknown-value spec.placement.replicaScheduling.replicaSchedulingType",
			"9 error unknown-value spec.placement.replicaScheduling.replicaDivisionPreference",
			"11 error unknown-value spec.placement.replicaScheduling.weightPreference.dynamicWeight",
			"12 error invalid-label-selector spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.labelSelector",
			"12 warning no-effect spec.placement.replicaScheduling.weightPreference.staticWeightList",
			"12 error weight spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
		}},
		{"weight for nobody", KindPropagationPolicy, `
  placement:
    replicaScheduling:
      weightPreference: {staticWeightList: [{targetCluster: {}, weight: 1}, {weight: 2}]}`, []string{
			"8 error missing-value spec.placement.replicaScheduling.weightPreference.staticWeightList[1].targetCluster",
		}},
		{"paths into the status", KindPropagationPolicy, `
  failover:
    cluster:
      statePreservation:
        rules:
        - {aliasLabelName: a, jsonPath: "{.jobStatus.jobId}"}
        - {aliasLabelName: b, jsonPath: "{.a[}"}
        - {aliasLabelName: c, jsonPath: .a}
        - {aliasLabelName: d, jsonPath: "{` + strings.Repeat(".a", 3000) + `}"}
        - {aliasLabelName: e, jsonPath: "{..a..a}"}
        - {aliasLabelName: f, jsonPath: "{` + strings.Repeat("['a','b']", 7) + `}"}
        - {aliasLabelName: g, jsonPath: "{..a['b','c']}"}`, []string{
			"7 info differs-2 spec.failover.cluster",
			"8 info differs-1 spec.failover.cluster.statePreservation",
			"11 warning json-path spec.failover.cluster.statePreservation.rules[1].jsonPath",
			"12 warning json-path spec.failover.cluster.statePreservation.rules[2].jsonPath",
			"13 error json-path spec.failover.cluster.statePreservation.rules[3].jsonPath",
			"14 error json-path spec.failover.cluster.statePreservation.rules[4].jsonPath",
			"15 error json-path spec.failover.cluster.statePreservation.rules[5].jsonPath",
		}},
		{"weights without effect", KindPropagationPolicy, `
  placement:
    replicaScheduling: {replicaSchedulingType: Duplicated, weightPreference: {staticWeightList: [{targetCluster: {}, weight: 1}]}}`, []string{
			"7 warning no-effect spec.placement.replicaScheduling.weightPreference",
		}},
		{"workload affinity", KindPropagationPolicy, `
  placement:
    workloadAffinity: {affinity: {groupByLabelKey: "a b"}, antiAffinity: {groupByLabelKey: "a b"}}`, []string{
			"7 info differs-1 spec.placement.workloadAffinity",
			"7 error label-key spec.placement.workloadAffinity.affinity.groupByLabelKey",
			"7 error label-key spec.placement.workloadAffinity.antiAffinity.groupByLabelKey",
			"7 error workload-affinity-conflict spec.placement.workloadAffinity",
		}},
		{"failover", KindPropagationPolicy, `
  failover:
    application:
      decisionConditions: {tolerationSeconds: -1, healthyState: [Sick]}
      preConditions: {delaySeconds: -1, healthyState: Unhealthy}
      blockPredecessorSeconds: -1
      purgeMode: Directly
      gracePeriodSeconds: 5
      statePreservation: {rules: [{aliasLabelName: "a b"}]}
    cluster: {purgeMode: Never}`, []string{
			"4 error failover-without-deps spec.propagateDeps",
			"7 info differs-8 spec.failover.application",
			"7 info differs-9 spec.failover.application",
			"8 info differs-6 spec.failover.application.decisionConditions.healthyState",
			"8 error negative spec.failover.application.decisionConditions.tolerationSeconds",
			"8 error unknown-value spec.failover.application.decisionConditions.healthyState[0]",
			"9 info differs-5 spec.failover.application.preConditions",
			"9 error negative spec.failover.application.preConditions.delaySeconds",
			"9 error unknown-value spec.failover.application.preConditions.healthyState",
			"10 info differs-5 spec.failover.application.blockPredecessorSeconds",
			"10 error negative spec.failover.application.blockPredecessorSeconds",
			"12 error grace-period spec.failover.application.gracePeriodSeconds",
			"13 info differs-1 spec.failover.application.statePreservation",
			"13 error label-key spec.failover.application.statePreservation.rules[0].aliasLabelName",
			"13 error missing-value spec.failover.application.statePreservation.rules[0].jsonPath",
			"14 info differs-2 spec.failover.cluster",
			"14 error unknown-value spec.failover.cluster.purgeMode",
		}},
		{"old purge words and no conditions", KindPropagationPolicy, `
  propagateDeps: true
  failover:
    application: {purgeMode: Graciously, gracePeriodSeconds: 0}
    cluster: {purgeMode: Immediately}`, []string{
			"8 info differs-5 spec.failover.application.blockPredecessorSeconds",
			"8 info differs-8 spec.failover.application",
			"8 info differs-9 spec.failover.application",
			"8 error grace-period spec.failover.application.gracePeriodSeconds",
			"8 error missing-value spec.failover.application.decisionConditions",
			"8 warning old-purge-mode spec.failover.application.purgeMode",
			"9 info differs-2 spec.failover.cluster",
			"9 warning old-purge-mode spec.failover.cluster.purgeMode",
		}},
		{"application failover alone", KindPropagationPolicy, `
  propagateDeps: true
  failover: {application: {decisionConditions: {}}}`, []string{
			"7 info application-failover-only spec.failover.application",
			"7 info differs-5 spec.failover.application.blockPredecessorSeconds",
			"7 info differs-8 spec.failover.application",
			"7 info differs-9 spec.failover.application",
		}},
		{"application failover, and a toleration that leaves clusters that are down", KindPropagationPolicy, `
  propagateDeps: true
  placement: {clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute}]}
  failover: {application: {decisionConditions: {}, blockPredecessorSeconds: 0}}`, []string{
			"7 info differs-2 spec.placement.clusterTolerations[0]",
			"8 info differs-5 spec.failover.application.blockPredecessorSeconds",
			"8 info differs-8 spec.failover.application",
			"8 info differs-9 spec.failover.application",
		}},
		{"cluster failover with the purge mode of applications", KindClusterPropagationPolicy, `
  propagateDeps: true
  failover: {application: {decisionConditions: {}, blockPredecessorSeconds: 0}, cluster: {}}`, []string{
			"7 info differs-2 spec.failover.cluster",
			"7 info differs-3 spec.failover.cluster",
			"7 info differs-5 spec.failover.application.blockPredecessorSeconds",
			"7 info differs-8 spec.failover.application",
			"7 info differs-9 spec.failover.application",
		}},
		{"failover per kind", KindPropagationPolicy, `
  failover: [{apiVersion: apps/v1, kind: Deployment}]
  priority: high`, []string{
			"6 error failover-per-kind spec.failover",
			"7 error wrong-type spec.priority",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, findings := Compile(manifests(t, policyOf(test.kind, test.spec)))
			if diff := cmp.Diff(test.want, listed(findings)); diff != "" {
				t.Error(diff)
			}
			failed := strings.Contains(strings.Join(test.want, "\n"), " error ")
			if used := len(s.Policies()) == 1; used == failed {
				t.Errorf("the policy is used: %v, has an error: %v", used, failed)
			}
		})
	}
}

func TestSelectorsAreChecked(t *testing.T) {
	for _, test := range []struct {
		kind, spec string
		want       []string
	}{
		{KindPropagationPolicy, " {}", []string{"4 error missing-value spec.resourceSelectors"}},
		{KindPropagationPolicy, `
  preemption: Always
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap}
  - {kind: ConfigMap, name: a, namespace: prod}`, []string{
			"5 info differs-1 spec.preemption",
			"7 error preemption-without-name spec.resourceSelectors[0].name",
			"8 error missing-value spec.resourceSelectors[1].apiVersion",
			"8 error other-namespace spec.resourceSelectors[1].namespace",
		}},
		{KindClusterPropagationPolicy, `
  resourceSelectors: [{apiVersion: v1, kind: Node}, {apiVersion: v1, kind: ConfigMap, namespace: prod}]`, nil},
	} {
		_, findings := Compile(manifests(t, manifestOf(policyv1alpha1.APIVersion, test.kind, "a", test.spec)))
		if diff := cmp.Diff(test.want, listed(findings)); diff != "" {
			t.Errorf("%s%s\n%s", test.kind, test.spec, diff)
		}
	}
}

func TestDefaults(t *testing.T) {
	s, _ := Compile(manifests(t, manifestOf(policyv1alpha1.APIVersion, KindPropagationPolicy, "a", `
  resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport}]
  failover: {application: {decisionConditions: {}}, cluster: {}}
  placement:
    spreadConstraints: [{maxGroups: 2}]
    replicaScheduling: {}`)))
	got, err := yaml.Marshal(s.Policies()[0].Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := `conflictResolution: Abort
failover:
  application:
    decisionConditions:
      tolerationSeconds: 300
    gracePeriodSeconds: 600
    purgeMode: Gracefully
  cluster: {}
placement:
  replicaScheduling:
    replicaDivisionPreference: Weighted
    replicaSchedulingType: Divided
  spreadConstraints:
  - maxGroups: 2
    minGroups: 1
    spreadByField: cluster
preemption: Never
priority: 0
propagateDeps: true
resourceSelectors:
- apiVersion: multicluster.x-k8s.io/v1alpha1
  kind: ServiceImport
  namespace: default
schedulerName: default-scheduler
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsAbsentStaysAbsent(t *testing.T) {
	s, _ := Compile(manifests(t, policyOf(KindClusterPropagationPolicy, `
  failover: {cluster: {purgeMode: Directly}}
  placement: {replicaScheduling: {replicaSchedulingType: Duplicated}}`)))
	spec := s.Policies()[0].Spec
	if spec.ResourceSelectors[0].Namespace != "" || spec.PropagateDeps || spec.Failover.Application != nil ||
		spec.Placement.ReplicaScheduling.ReplicaDivisionPreference != "" {
		t.Errorf("defaults where none belong: %+v", spec)
	}
}

// FuzzCompile: nothing panics, and a policy written with its defaults is the same policy.
func FuzzCompile(f *testing.F) {
	f.Add("resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: c}]\npriority: 3")
	f.Add("resourceSelectors: [{apiVersion: v1, kind: ConfigMap, labelSelector: {}}]\nplacement: {clusterAffinities: [{affinityName: a}], spreadConstraints: [{}]}")
	f.Add("failover: [1]")
	f.Add("failover: {application: {decisionConditions: {}, purgeMode: Graciously}, cluster: {purgeMode: Immediately}}\nresourceSelectors: [{}]\npropagateDeps: true")
	f.Fuzz(func(t *testing.T, text string) {
		first := compiled(asJSON([]byte(text)))
		if first == nil {
			return
		}
		written, err := yaml.Marshal(first.Spec)
		if err != nil {
			t.Fatal(err)
		}
		again := compiled(asJSON(written))
		if again == nil || again.Hash != first.Hash {
			t.Errorf("%s\nwith its defaults is %+v", text, again)
		}
	})
}

// asJSON is the YAML text as a manifest holds it; nil if it is no mapping.
func asJSON(text []byte) map[string]any {
	var m map[string]any
	text, err := yaml.YAMLToJSON(text)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

// compiled is the policy with a spec; nil if it has an error.
func compiled(spec map[string]any) *Policy {
	o := &manifest.Object{
		ID:      api.ID{Group: policyv1alpha1.Group, Version: "v1alpha1", Kind: KindPropagationPolicy, Namespace: "default", Name: "a"},
		Content: map[string]any{"spec": spec},
	}
	s, findings := Compile([]*manifest.Object{o})
	for _, f := range findings {
		if f.Severity == render.Error {
			return nil
		}
	}
	return s.Policies()[0]
}
