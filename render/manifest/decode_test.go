package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// one is the only object of a file.
func one(t testing.TB, text string) *Object {
	t.Helper()
	units := Read(source("== a.yaml ==\n"+text), Options{})
	if len(units) != 1 || len(units[0].Objects) != 1 {
		t.Fatalf("not one object but %s", list(units))
	}
	return units[0].Objects[0]
}

const goodPolicy = `apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: web
  creationTimestamp: null
spec:
  priority: 3
  preserveResourcesOnDeletion: false
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    labelSelector:
      matchLabels: {app: web}
  placement:
    clusterAffinities:
    - affinityName: first
      clusterNames: [m1, m2]
    spreadConstraints:
    - {spreadByField: region, minGroups: 2}
    clusterTolerations:
    - {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  failover:
    application:
      decisionConditions: {tolerationSeconds: 60}
`

func TestDecodeGivesWhatSigsGives(t *testing.T) {
	o := one(t, goodPolicy)
	got, findings := Decode[policyv1alpha1.PropagationPolicy](o)
	if len(findings) > 0 {
		t.Fatalf("findings: %v", findings)
	}
	var want policyv1alpha1.PropagationPolicy
	if err := yaml.Unmarshal([]byte(goodPolicy), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("Decode (-sigs +got):\n%s", diff)
	}
	if got.Spec.PreserveResourcesOnDeletion == nil || got.Spec.SchedulePriority != nil {
		t.Error("false is taken for nil, or nil for something")
	}
}

func TestDecodeReadsTextsOfTheirOwn(t *testing.T) {
	got, findings := Decode[clusterv1alpha1.Cluster](one(t, `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1, labels: {"on": "yes"}}
spec:
  syncMode: Push
  taints:
  - {key: a, effect: NoExecute, timeAdded: "2026-01-02T03:04:05Z"}
  resourceModels:
  - grade: 0
    ranges: [{name: cpu, min: 0, max: "1"}]
`))
	if len(findings) > 0 {
		t.Fatalf("findings: %v", findings)
	}
	if got := got.Spec.Taints[0].TimeAdded.UTC().Format("15:04:05"); got != "03:04:05" {
		t.Errorf("timeAdded is at %s", got)
	}
	if got := got.Spec.ResourceModels[0].Ranges[0].Max.Value(); got != 1 {
		t.Errorf("max is %d, want 1", got)
	}
	secret, findings := Decode[corev1.Secret](one(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: aGk=}"))
	if len(findings) > 0 || string(secret.Data["a"]) != "hi" {
		t.Errorf("Decode of a Secret gives %v, %v", secret, findings)
	}
}

func TestDecodeFindsEverything(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a misspelt field", `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p}
spec:
  resourceSelectors: []
  placement:
    clusterAffinty:
      clusterNames: [m1]
    SpreadConstraints: []
    replicas: 3
  clusterAffinity: {}
  conflictresolution: Abort
extra: 1
`, `
8: unknown-field: spec.placement.clusterAffinty: unknown field; did you mean clusterAffinity?
10: unknown-field: spec.placement.SpreadConstraints: unknown field; did you mean spreadConstraints?
11: unknown-field: spec.placement.replicas: unknown field; the fields here are clusterAffinities, clusterAffinity, clusterTolerations, replicaScheduling, spreadConstraints, workloadAffinity
12: unknown-field: spec.clusterAffinity: unknown field; did you mean placement.clusterAffinity? Then indent it further
13: unknown-field: spec.conflictresolution: unknown field; did you mean conflictResolution?
14: unknown-field: extra: unknown field; the fields here are apiVersion, kind, metadata, spec`},
		{"values of other types", `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: p
  namespace: shop
  labels: {a: 1}
spec:
  priority: "3"
  propagateDeps: "yes"
  preemption: on
  resourceSelectors: {apiVersion: v1}
  placement: []
  schedulerName: {}
  dependentOverrides: [yes, 7, ok]
  failover:
    application:
      decisionConditions: {tolerationSeconds: 1.5}
      gracePeriodSeconds: 99999999999
`, `
7: wrong-type: metadata.labels.a: 1 where a string is wanted; put it in quotes
9: wrong-type: spec.priority: "3" where a whole number of 32 bits is wanted
10: wrong-type: spec.propagateDeps: "yes" where true or false is wanted
11: yaml-boolean: spec.preemption: on without quotes means true in YAML 1.1; write "on"
12: wrong-type: spec.resourceSelectors: a mapping where a list is wanted
13: wrong-type: spec.placement: a list where a mapping is wanted
14: wrong-type: spec.schedulerName: a mapping where a string is wanted
15: wrong-type: spec.dependentOverrides[1]: 7 where a string is wanted; put it in quotes
15: yaml-boolean: spec.dependentOverrides[0]: yes without quotes means true in YAML 1.1; write "yes"
18: wrong-type: spec.failover.application.decisionConditions.tolerationSeconds: 1.5 where a whole number of 32 bits is wanted
19: wrong-type: spec.failover.application.gracePeriodSeconds: 99999999999 where a whole number of 32 bits is wanted`},
		{"keys that stand twice", `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p}
spec:
  priority: 1
  resourceSelectors: []
  priority: 2
`, `
8: duplicate-key: spec.priority: the key stands twice, first in line 6; remove one`},
		{"a list item", `
apiVersion: v1
kind: List
items:
- apiVersion: policy.karmada.io/v1alpha1
  kind: PropagationPolicy
  metadata: {name: p}
  spec:
    resourceSelectors: []
    resourceSelectors: []
    prioritty: 1
`, `
10: duplicate-key: spec.resourceSelectors: the key stands twice, first in line 9; remove one
11: unknown-field: spec.prioritty: unknown field; did you mean priority?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, findings := Decode[policyv1alpha1.PropagationPolicy](one(t, tc.text))
			if got != nil {
				t.Error("Decode gives an object along with errors")
			}
			var b strings.Builder
			for _, f := range findings {
				if f.File != "a.yaml" || f.Severity != "error" || f.Object == "" {
					t.Errorf("finding %v", f)
				}
				fmt.Fprintf(&b, "\n%d: %s: %s", f.Line, f.Code, f.Message)
			}
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindingsOfASecretShowNoValues(t *testing.T) {
	units := Read(source("== a.yaml ==\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: [hunter2]\nimmutable: hunter2\ndata: {a: hunter2, b: aHVudGVyMg==}\nhunter3: hunter2\n"), Options{})
	if _, findings := Decode[corev1.Secret](units[0].Objects[0]); len(findings) != 4 || strings.Contains(fmt.Sprint(findings), "hunter2") {
		t.Errorf("findings %v, want 4 without a value", findings)
	}
}

func TestOnlyNamesThatAreNearAreProposed(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "A", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xbc", 1}, {"clusterAffinty", "clusterAffinity", 1}, {"abc", "xyz", 3}, {"", "abc", 3}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := distance(tc.b, tc.a); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(goodPolicy)
	f.Add("spec: {placement: [1], priority: 1.5, failover: {application: {purgeMode: on}}}")
	f.Add("spec:\n  resourceSelectors: [{labelSelector: {matchLabels: {a: 1}}}]\n  x: 1\n  x: 2")
	f.Fuzz(func(t *testing.T, spec string) {
		for _, u := range Read(source("== a.yaml ==\napiVersion: v1\nkind: A\nmetadata: {name: a}\n"+spec), Options{}) {
			for _, o := range u.Objects {
				before := fmt.Sprint(o.Content)
				policy, findings := Decode[policyv1alpha1.PropagationPolicy](o)
				if (policy == nil) != (len(findings) > 0) {
					t.Errorf("Decode gives %v and %v", policy, findings)
				}
				if policy != nil {
					back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
					if err != nil {
						t.Fatal(err)
					}
					if again, findings := Decode[policyv1alpha1.PropagationPolicy](&Object{Content: back}); !cmp.Equal(policy, again) {
						t.Errorf("decoded again: %v\n%s", findings, cmp.Diff(policy, again))
					}
				}
				Decode[clusterv1alpha1.Cluster](o)
				Decode[workv1alpha2.ResourceBinding](o)
				Decode[policyv1alpha1.OverridePolicy](o)
				if after := fmt.Sprint(o.Content); after != before {
					t.Error("Decode changed the object")
				}
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	o := one(b, goodPolicy)
	b.Run("manifest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p, _ := Decode[policyv1alpha1.PropagationPolicy](o); p == nil {
				b.Fatal("nil")
			}
		}
	})
	b.Run("sigs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var p policyv1alpha1.PropagationPolicy
			if err := yaml.UnmarshalStrict([]byte(goodPolicy), &p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
