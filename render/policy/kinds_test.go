package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// findingsOf runs a check on an object whose spec begins in line 5, and tells whether the object can be used.
func findingsOf[T any](t *testing.T, check func(*manifest.Object) (*T, []render.Finding), apiVersion, kind, name, spec string) (findings []string, used bool) {
	t.Helper()
	decoded, found := check(manifests(t, manifestOf(apiVersion, kind, name, spec))[0])
	return listed(found), decoded != nil
}

func TestFindingsOfQuotas(t *testing.T) {
	for _, test := range []struct {
		name, spec string
		want       []string
	}{
		{"a", `
  overall: {cpu: "10", memory: 1Gi, pods: "5", count/deployments.apps: "3"}
  staticAssignments: [{clusterName: m1, hard: {cpu: 4}}, {clusterName: m2, hard: {cpu: "6"}}]`, nil},
		{"a", ` {}`, []string{"4 error missing-value spec.overall"}},
		{strings.Repeat("x", 64), `
  overall: {cpu: 1}`, []string{"3 error name-too-long metadata.name"}},
		{"a", `
  overall: {cpu: -1, pods: 500m, "a b": 1, memory: 2Gi, disk: 1, nvidia.com/gpu: 1500m, kubernetes.io/x: 500m}
  staticAssignments:
  - {clusterName: M_1, hard: {memory: 2Gi}}
  - {clusterName: m2, hard: {memory: 1, requests.storage: 1Gi}}`, []string{
			"5 error negative spec.overall.cpu",
			"5 error quantity spec.overall.pods",
			"5 error quantity spec.overall[nvidia.com/gpu]",
			"5 error quota-over-assigned spec.overall.memory",
			"5 error resource-name spec.overall.disk",
			"5 error resource-name spec.overall[a b]",
			"7 error cluster-name spec.staticAssignments[0].clusterName",
			"8 error quota-not-overall spec.staticAssignments[1].hard[requests.storage]",
		}},
		{"a", `
  overall: {cpu: much}`, []string{"5 error wrong-type spec.overall.cpu"}},
	} {
		got, used := findingsOf(t, Quota, policyv1alpha1.APIVersion, "FederatedResourceQuota", test.name, test.spec)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s\n%s", test.spec, diff)
		}
		if used != (test.want == nil) {
			t.Errorf("%s\nis used: %v", test.spec, used)
		}
	}
}

func TestFindingsOfTaintPolicies(t *testing.T) {
	for _, test := range []struct {
		spec string
		want []string
	}{
		{`
  targetClusters: {clusterNames: [m]}
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ["True"]}]
  taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]`, []string{"7 info differs-1 spec.taints"}},
		{` {}`, []string{"4 error missing-value spec.taints", "4 warning no-effect spec"}},
		{`
  targetClusters: {fieldSelector: {matchExpressions: [{key: x, operator: In, values: [a]}]}}
  removeOnConditions: [{operator: Is, statusValues: [Maybe]}, {conditionType: Ready, operator: In}]
  taints:
  - {key: a, effect: NoSchedule, value: "b c"}
  - {key: a, effect: NoSchedule}
  - {key: "a b", effect: PreferNoSchedule}
  - {key: a}`, []string{
			"5 error field-selector spec.targetClusters.fieldSelector.matchExpressions[0].key",
			"6 error missing-value spec.removeOnConditions[0].conditionType",
			"6 error missing-value spec.removeOnConditions[1].statusValues",
			"6 error unknown-value spec.removeOnConditions[0].operator",
			"6 error unknown-value spec.removeOnConditions[0].statusValues[0]",
			"8 error label-value spec.taints[0].value",
			"9 error duplicate-taint spec.taints[1]",
			"10 error label-key spec.taints[2].key",
			"10 error unknown-value spec.taints[2].effect",
			"11 error missing-value spec.taints[3].effect",
		}},
	} {
		got, used := findingsOf(t, TaintPolicy, policyv1alpha1.APIVersion, "ClusterTaintPolicy", "a", test.spec)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s\n%s", test.spec, diff)
		}
		if used == strings.Contains(strings.Join(test.want, "\n"), " error ") {
			t.Errorf("%s\nis used: %v", test.spec, used)
		}
	}
}

func TestFindingsOfClusters(t *testing.T) {
	for _, test := range []struct {
		name, spec string
		want       []string
	}{
		{"m1", `
  syncMode: Push
  apiEndpoint: https://10.0.0.1:6443
  secretRef: {namespace: a, name: b}
  proxyURL: socks5://proxy:1080
  provider: aws
  zones: [a, b]
  taints: [{key: a, effect: NoExecute}]`, nil},
		{strings.Repeat("m", 49), " {syncMode: Pull}", []string{"3 error cluster-name metadata.name"}},
		{"m.1", " {}", []string{"3 error cluster-name metadata.name", "4 error missing-value spec.syncMode"}},
		{"m1", `
  syncMode: Both
  apiEndpoint: https://me@10.0.0.1:6443/?a=b
  secretRef: {name: b}
  impersonatorSecretRef: {namespace: b}
  proxyURL: ftp://proxy
  provider: "a b"
  region: "-"
  zone: a
  zones: [a, "b c"]
  taints: [{key: a, effect: PreferNoSchedule}]`, []string{
			"5 error unknown-value spec.syncMode",
			"6 error endpoint spec.apiEndpoint",
			"7 error missing-value spec.secretRef.namespace",
			"8 error missing-value spec.impersonatorSecretRef.name",
			"9 error proxy spec.proxyURL",
			"10 error label-value spec.provider",
			"11 error label-value spec.region",
			"12 error zone-conflict spec.zone",
			"13 error label-value spec.zones[1]",
			"14 error unknown-value spec.taints[0].effect",
		}},
		{"m1", " {syncMode: Push, apiEndpoint: /path, proxyURL: \"http://[\"}", []string{
			"4 error endpoint spec.apiEndpoint", "4 error proxy spec.proxyURL"}},
		{"m1", " {syncMode: Push, resourceModels: [{grade: 0, ranges: [{name: cpu, min: 0, max: \"1e-99999999\"}]}]}", []string{"4 error wrong-type spec.resourceModels[0].ranges[0].max"}},
		{"m1", " {syncMode: Push, apiEndpoint: \"https://[\"}", []string{"4 error endpoint spec.apiEndpoint"}},
		{"m1", `
  syncMode: Push
  resourceModels:
  - {grade: 0, ranges: [{name: cpu, min: 0, max: 1}, {name: memory, min: 0, max: 1Gi}]}
  - {grade: 1, ranges: [{name: cpu, min: 2, max: 2}, {name: storage, min: 1Gi, max: 2Gi}]}
  - {grade: 1, ranges: [{name: cpu, min: 2, max: 3}]}`, []string{
			"8 error resource-model spec.resourceModels[1].ranges[0].max",
			"8 error resource-model spec.resourceModels[1].ranges[0].min",
			"8 error resource-model spec.resourceModels[1].ranges[1].name",
			"9 error resource-model spec.resourceModels[2].grade",
			"9 error resource-model spec.resourceModels[2].ranges",
		}},
	} {
		got, used := findingsOf(t, Cluster, clusterv1alpha1.APIVersion, "Cluster", test.name, test.spec)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s\n%s", test.spec, diff)
		}
		if used != (test.want == nil) {
			t.Errorf("%s\nis used: %v", test.spec, used)
		}
	}
}

func TestClustersGetTheirDefaults(t *testing.T) {
	c, findings := Cluster(manifests(t, manifestOf(clusterv1alpha1.APIVersion, "Cluster", "m1", `
  syncMode: Push
  zone: a
  resourceModels:
  - {grade: 1, ranges: [{name: cpu, min: 1, max: 2}]}
  - {grade: 0, ranges: [{name: cpu, min: 500m, max: 1}]}`))[0])
	if diff := cmp.Diff([]string{"6 warning deprecated spec.zone"}, listed(findings)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a"}, c.Spec.Zones); diff != "" || c.Spec.Zone != "" {
		t.Errorf("zone %q, zones %q, want a in zones alone", c.Spec.Zone, c.Spec.Zones)
	}
	m := c.Spec.ResourceModels
	if m[0].Grade != 0 || m[0].Ranges[0].Min.Value() != 0 || m[1].Ranges[0].Max.Value() != math.MaxInt64 {
		t.Errorf("models %+v, want them sorted from 0 to the largest number", m)
	}
}
