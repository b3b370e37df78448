package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

func TestABindingTakesFromItsPolicy(t *testing.T) {
	const full = `
  propagateDeps: true
  placement:
    clusterAffinity: {clusterNames: [m]}
    workloadAffinity: {affinity: {groupByLabelKey: app}, antiAffinity: {groupByLabelKey: tier}}
  failover: {cluster: {purgeMode: Directly}}
  conflictResolution: Overwrite
  preserveResourcesOnDeletion: true
  suspension: {dispatching: true}
  schedulePriority: {priorityClassSource: KubePriorityClass, priorityClassName: high}`
	const rest = `
clusters:
- name: m
gracefulEvictionTasks:
- fromCluster: x
  producer: p
  reason: r
replicas: 3
requiredBy:
- name: other
resource:
  apiVersion: v1
  kind: ConfigMap
  name: c
`
	namespaced, suspended := "  namespace: default\n", "suspension:\n  dispatchingOnClusters:\n    clusterNames:\n    - x\n  scheduling: true\n"
	old := "propagateDeps: true\nplacement: {}\nfailover: {cluster: {}}\nschedulePriority: {priority: 1}\nworkloadAffinityGroups: {affinityGroup: a=b}\npreserveResourcesOnDeletion: true\n"
	for _, test := range []struct{ name, kind, spec, before, want string }{
		{"everything", KindPropagationPolicy, full, rest + namespaced, rest + namespaced + `
conflictResolution: Overwrite
failover: {cluster: {purgeMode: Directly}}
placement:
  clusterAffinity: {clusterNames: [m]}
  workloadAffinity: {affinity: {groupByLabelKey: app}, antiAffinity: {groupByLabelKey: tier}}
policy: {kind: PropagationPolicy, name: a, namespace: default}
preserveResourcesOnDeletion: true
propagateDeps: true
schedulePriority: {priority: 7}
schedulerName: default-scheduler
suspension: {dispatching: true}
workloadAffinityGroups: {affinityGroup: app=web}
`},
		{"nothing is left of what was there", KindPropagationPolicy, "", rest + namespaced + old, rest + namespaced + `
conflictResolution: Abort
placement: {}
policy: {kind: PropagationPolicy, name: a, namespace: default}
schedulerName: default-scheduler
`},
		{"suspended scheduling stays", KindPropagationPolicy, "", rest + namespaced + suspended, rest + namespaced + `
conflictResolution: Abort
placement: {}
policy: {kind: PropagationPolicy, name: a, namespace: default}
schedulerName: default-scheduler
suspension: {scheduling: true}
`},
		{"suspension is merged", KindPropagationPolicy, "\n  suspension: {dispatching: true}", rest + namespaced + suspended, rest + namespaced + `
conflictResolution: Abort
placement: {}
policy: {kind: PropagationPolicy, name: a, namespace: default}
schedulerName: default-scheduler
suspension: {dispatching: true, scheduling: true}
`},
		{"cluster-scoped, new", KindClusterPropagationPolicy, strings.Replace(full, "priorityClassName: high", "priorityClassName: missing", 1), rest, rest + `
conflictResolution: Overwrite
failover: {cluster: {purgeMode: Directly}}
placement:
  clusterAffinity: {clusterNames: [m]}
  workloadAffinity: {affinity: {groupByLabelKey: app}, antiAffinity: {groupByLabelKey: tier}}
policy: {kind: ClusterPropagationPolicy, name: a}
preserveResourcesOnDeletion: true
propagateDeps: true
schedulerName: default-scheduler
suspension: {dispatching: true}
`},
		{"cluster-scoped, refreshed", KindClusterPropagationPolicy, "\n  propagateDeps: true", rest + "placement: {}\n", rest + `
conflictResolution: Abort
placement: {}
policy: {kind: ClusterPropagationPolicy, name: a}
schedulerName: default-scheduler
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := Compile(manifests(t, policyOf(test.kind, test.spec)))
			got, want := binding(t, test.before), binding(t, test.want)
			if err := s.Policies()[0].Into(&got, map[string]string{"app": "web"}, map[string]int32{"high": 7}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func binding(t *testing.T, text string) workv1alpha2.ResourceBindingSpec {
	t.Helper()
	var spec workv1alpha2.ResourceBindingSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestPriorityClassesMustBeThere(t *testing.T) {
	for _, test := range []struct {
		class string
		want  int32
	}{{"high", 7}, {"system-node-critical", 2000001000}, {"missing", 0}} {
		s, _ := Compile(manifests(t, policyOf(KindPropagationPolicy, "\n  schedulePriority: {priorityClassSource: KubePriorityClass, priorityClassName: "+test.class+"}")))
		b := workv1alpha2.ResourceBindingSpec{Resource: workv1alpha2.ObjectReference{Namespace: "default"}}
		err := s.Policies()[0].Into(&b, nil, map[string]int32{"high": 7})
		switch {
		case test.want == 0 && (err == nil || b.Placement != nil):
			t.Errorf("%s: %v, %+v, want an error and an untouched binding", test.class, err, b)
		case test.want != 0 && (err != nil || b.SchedulePriority.Priority != test.want):
			t.Errorf("%s: %v, %+v, want priority %d", test.class, err, b.SchedulePriority, test.want)
		}
	}
}

func TestTheContentHashCountsWhatUsersChange(t *testing.T) {
	const base = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {app: web}\ndata: {k: v}\n"
	content := func(text string) string { return ContentHash(manifests(t, text)[0].Content) }
	want := content(base)
	for _, text := range []string{
		base + "status: {x: z}\n",
		strings.Replace(base, "  name: a\n", "  name: a\n  generation: 3\n  resourceVersion: '5'\n  managedFields: []\n", 1),
		strings.Replace(base, "{app: web}", "{app: web, propagationpolicy.karmada.io/permanent-id: x}", 1),
		strings.Replace(base, "  name: a\n", "  name: a\n  annotations: {propagationpolicy.karmada.io/name: x}\n", 1),
	} {
		if content(text) != want {
			t.Errorf("another hash for\n%s", text)
		}
	}
	for _, text := range []string{
		strings.Replace(base, "k: v", "k: w", 1),
		strings.Replace(base, "app: web", "app: db", 1),
		strings.Replace(base, "  name: a\n", "  name: a\n  annotations: {a: b}\n", 1),
		strings.Replace(base, "{app: web}", "{app: web, namespace.karmada.io/skip-auto-propagation: 'true'}", 1),
	} {
		if content(text) == want {
			t.Errorf("the same hash for\n%s", text)
		}
	}
}

func TestLazyPolicies(t *testing.T) {
	s, _ := Compile(manifests(t, policyOf(KindPropagationPolicy, "\n  activationPreference: "+string(policyv1alpha1.LazyActivation))))
	if !s.Policies()[0].Lazy() {
		t.Error("a Lazy policy is not")
	}
	s, _ = Compile(manifests(t, policyOf(KindPropagationPolicy, "")))
	if s.Policies()[0].Lazy() {
		t.Error("a policy is Lazy by default")
	}
}

func TestClaimsAreReadAsWrittenByEither(t *testing.T) {
	pp, cpp := "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/"
	for _, test := range []struct {
		name                string
		labels, annotations map[string]string
		policy              *workv1alpha2.PolicyReference
		want                Claim
	}{
		{"nobody", nil, nil, nil, Claim{}},
		{"ours", map[string]string{pp + "permanent-id": "x"}, map[string]string{pp + "namespace": "a", pp + "name": "b"},
			&workv1alpha2.PolicyReference{Kind: KindClusterPropagationPolicy, Name: "c"}, Claim{KindClusterPropagationPolicy, "", "c"}},
		{"namespaced", map[string]string{pp + "permanent-id": "x", cpp + "permanent-id": "x"},
			map[string]string{pp + "namespace": "a", pp + "name": "b", cpp + "name": "c"}, nil, Claim{KindPropagationPolicy, "a", "b"}},
		{"cluster", map[string]string{cpp + "permanent-id": "x"}, map[string]string{cpp + "name": "c"}, nil, Claim{KindClusterPropagationPolicy, "", "c"}},
		{"no label", nil, map[string]string{pp + "namespace": "a", pp + "name": "b"}, nil, Claim{}},
		{"no namespace", map[string]string{pp + "permanent-id": "x"}, map[string]string{pp + "name": "b"}, nil, Claim{}},
	} {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Labels: test.labels, Annotations: test.annotations}}
		b.Spec.Policy = test.policy
		if got := ClaimOf(b); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
