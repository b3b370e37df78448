package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// steps writes a division as one line a step.
func steps(d *Division) string {
	if d == nil {
		return "none"
	}
	lines := []string{fmt.Sprintf("%s %d afresh=%t", d.Strategy, d.Wanted, d.Afresh)}
	for _, s := range d.Steps {
		lines = append(lines, fmt.Sprintf("%s[%s] %d by %v spare %v keep %v deal %v", s.How, s.For, s.Seats, s.Weights, s.Spared, s.Kept, s.Dealt))
	}
	return strings.Join(lines, "\n")
}

func TestDivisionIsExplained(t *testing.T) {
	overflow := "clusterAffinities: [{affinityName: near, clusterNames: [a], overflowAffinities: [{affinityName: over, clusterNames: [b]}]}]\nreplicaScheduling: "
	tests := []struct {
		name, members string
		replicas      int32
		current       string
		placement     string
		change        func(*Request)
		want          string
	}{
		{"duplicated", "a; b", 3, "", "{}", nil, "Duplicated 3 afresh=false\nwhole[] 3 by [] spare [] keep [] deal [{a 3} {b 3}]"},
		{"static weights", "a; b", 4, "", "replicaScheduling: " + strategies["static"], nil,
			"StaticWeight 4 afresh=false\nweights[] 4 by [{a 2} {b 1}] spare [] keep [] deal [{a 3} {b 1}]"},
		{"no weights are equal ones", "a; b", 4, "", "replicaScheduling: " + strategies["even"], nil,
			"StaticWeight 4 afresh=false\nweights[] 4 by [{a 1} {b 1}] spare [] keep [] deal [{a 2} {b 2}]"},
		{"scaling up", "a pods=5; b pods=1", 4, "a=2", "replicaScheduling: " + strategies["dynamic"], nil,
			"DynamicWeight 4 afresh=false\nmore[] 2 by [{a 5} {b 1}] spare [] keep [{a 2}] deal [{a 2} {b 0}]"},
		{"scaling down", "a; b", 2, "a=3 b=1", "replicaScheduling: " + strategies["dynamic"], nil,
			"DynamicWeight 2 afresh=false\nfewer[] 2 by [{a 3} {b 1}] spare [] keep [] deal [{a 1} {b 1}]"},
		{"aggregated", "a pods=9; b pods=8; c pods=7", 10, "", "replicaScheduling: " + strategies["aggregated"], nil,
			"Aggregated 10 afresh=false\nmore[] 10 by [{a 9} {b 8}] spare [{c 7}] keep [] deal [{a 5} {b 5}]"},
		{"afresh", "a pods=5; b pods=1", 4, "a=0 b=4", "replicaScheduling: " + strategies["dynamic"], func(q *Request) {
			q.Binding.Spec.RescheduleTriggeredAt, q.Binding.Status.LastScheduledTime = &metav1.Time{Time: noon}, &metav1.Time{Time: noon.Add(-1)}
		}, "DynamicWeight 4 afresh=true\nafresh[] 4 by [{a 5} {b 5}] spare [] keep [] deal [{a 2} {b 2}]"},
		{"unhealthy members keep", "a; b", 3, "a=3 b=1", "replicaScheduling: " + strategies["dynamic"], func(q *Request) { q.Unhealthy = map[string]bool{"b": true} },
			"DynamicWeight 3 afresh=false\nkept[members on which the workload is not healthy] 0 by [] spare [] keep [{b 1}] deal []\nfewer[] 2 by [{a 3}] spare [] keep [] deal [{a 2}]"},
		{"overflow", "a pods=3; b", 5, "", overflow + strategies["dynamic"], nil,
			"DynamicWeight 5 afresh=false\nmore[affinity near] 3 by [{a 3}] spare [] keep [] deal [{a 3}]\nmore[overflow affinity over] 2 by [{b 1000}] spare [] keep [] deal [{b 2}]"},
		{"nothing to divide", "a; b", 4, "a=3 b=1", "replicaScheduling: " + strategies["dynamic"], func(q *Request) {
			q.Binding = stored(fleet("a; b"), q.Binding, Result{Clusters: targets("a=3 b=1")})
		}, "DynamicWeight 4 afresh=false\nsame[] 0 by [] spare [] keep [{a 3} {b 1}] deal []"},
		{"no room", "a pods=1", 4, "", "replicaScheduling: " + strategies["dynamic"], nil, "DynamicWeight 4 afresh=false\nmore[] 4 by [{a 1}] spare [] keep [] deal []"},
		{"no candidate", "a taint=k:NoSchedule", 4, "", "{}", nil, "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := Request{Binding: binding(tt.replicas, tt.current, placed(tt.placement)), Explain: true}
			if tt.change != nil {
				tt.change(&q)
			}
			if diff := cmp.Diff(tt.want, steps(fleet(tt.members).Schedule(q).Division)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEstimatesSayWhereRoomComesFrom(t *testing.T) {
	unsummarized := cluster("a")
	unsummarized.Status.ResourceSummary = nil
	unrecorded := withNodes(cluster("a cpu=2"), "1*cpu=1,pods=9")
	unrecorded.Status.NodeCapacity.UnrecordedLabels = []string{"host"}
	tests := []struct {
		name     string
		cluster  *clusterv1alpha1.Cluster
		requests string // "-" for no requirements
		want     Estimate
	}{
		{"pods", cluster("a pods=7"), "-", Estimate{"resource summary", "pods: 7 free", 7}},
		{"the scarcest", cluster("a cpu=2 memory=3Gi"), "cpu=500m memory=1Gi", Estimate{"resource summary", "memory: 3Gi free, 1Gi each", 3}},
		{"cpu", cluster("a cpu=2"), "cpu=500m", Estimate{"resource summary", "cpu: 2 free, 500m each", 4}},
		{"a resource that it does not have", cluster("a cpu=2"), "nvidia.com/gpu=1", Estimate{"resource summary", "it has none of a resource that is asked for", 0}},
		{"nodes", modelled(cluster("a cpu=100 memory=400Gi"), 0, 0, 3, 0), "cpu=1500m", Estimate{"resource models", "what its nodes, one by one, have free", 3}},
		{"single nodes", withNodes(cluster("a cpu=100"), "3*cpu=2,pods=9"), "cpu=1500m", Estimate{"single nodes", "what the nodes it may go to, one by one, have free", 3}},
		{"single nodes with more room", withNodes(cluster("a cpu=2"), "3*cpu=2,pods=9"), "cpu=500m", Estimate{"resource summary", "cpu: 2 free, 500m each", 4}},
		{"nodes by what is not on record", unrecorded, "cpu=500m", Estimate{"resource summary, as what is asked of nodes is not on record", "cpu: 2 free, 500m each", 4}},
		{"no status", cluster("a nostatus"), "cpu=1", Estimate{"no status, so taken to have room", "", 5}},
		{"no summary", unsummarized, "cpu=1", Estimate{"no resource summary, so taken to have none", "", 0}},
		{"without limit", cluster("a pods=3G"), "-", Estimate{"resource summary", "", 5}},
	}
	for _, tt := range tests {
		b := binding(5, "", placed("replicaScheduling: "+strategies["dynamic"]))
		b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{}
		if tt.requests == "-" {
			b.Spec.ReplicaRequirements = nil
		} else {
			b.Spec.ReplicaRequirements.ResourceRequest = resources(tt.requests)
		}
		if tt.cluster == unrecorded {
			b.Spec.ReplicaRequirements.NodeClaim = &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"host": "n"}}
		}
		got := NewFleet([]*clusterv1alpha1.Cluster{tt.cluster}).Schedule(Request{Binding: b, Explain: true}).Verdicts[0].Estimate
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
	}
}

func TestTaintsAreExplained(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	taint := corev1.Taint{Key: "cluster.karmada.io/not-ready", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: noon}}
	tolerates := []corev1.Toleration{
		{Key: taint.Key, Operator: corev1.TolerationOpExists},
		{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(60)},
		{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(300)},
	}
	evicted := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "a", Producer: "TaintManager", Reason: "TaintUntolerated"}}
	}
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		now         time.Time
		current     string
		change      func(*workv1alpha2.ResourceBinding)
		want        string
	}{
		{"not tolerated", nil, noon, "", nil, "refused TaintToleration: taint cluster.karmada.io/not-ready:NoExecute is not tolerated (there since 12:00:00)"},
		{"not tolerated, and there", nil, noon, "a=1", nil, "kept : the only candidate, as it runs there already; taint cluster.karmada.io/not-ready:NoExecute is not tolerated, which keeps only new copies away"},
		{"for ever", tolerates[:1], noon, "a=1", nil, "kept : the only candidate, as it runs there already; taint cluster.karmada.io/not-ready:NoExecute tolerated"},
		{"the shortest counts", tolerates, noon.Add(time.Second), "a=1", nil, "kept : the only candidate, as it runs there already; taint cluster.karmada.io/not-ready:NoExecute tolerated 60s, until 12:01:00"},
		{"of another day", nil, noon.Add(24 * time.Hour), "", nil, "refused TaintToleration: taint cluster.karmada.io/not-ready:NoExecute is not tolerated (there since 2026-01-01T12:00:00Z)"},
		{"ended", tolerates, noon.Add(time.Hour), "a=1", evicted,
			"refused ClusterEviction: the workload is being evicted from the cluster (TaintManager: TaintUntolerated); taint cluster.karmada.io/not-ready:NoExecute tolerated 60s, ended 12:01:00"},
	}
	for _, tt := range tests {
		c := cluster("a")
		c.Spec.Taints = []corev1.Taint{taint}
		p := placed("{}")
		p.ClusterTolerations = tt.tolerations
		b := binding(1, tt.current, p)
		if tt.change != nil {
			tt.change(b)
		}
		v := NewFleet([]*clusterv1alpha1.Cluster{c}).Schedule(Request{Binding: b, Now: tt.now, Explain: true}).Verdicts[0]
		if got := fmt.Sprintf("%s %s: %s", v.Outcome, v.Rule, v.Message); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestGroupsAreExplained(t *testing.T) {
	b := binding(1, "", placed("spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: zone, minGroups: 1, maxGroups: 1}, {spreadByField: cluster, minGroups: 1, maxGroups: 1}]"))
	r := fleet("a region=eu zone=x; b region=eu zone=y; c region=us zone=z").Schedule(Request{Binding: b, Explain: true})
	want := []Group{
		{"region", "eu", true, 2000, []string{"a", "b"}}, {"region", "us", false, 1000, []string{"c"}},
		{"zone", "x", true, 1000, []string{"a"}}, {"zone", "y", false, 1000, []string{"b"}},
	}
	if diff := cmp.Diff(want, r.Groups); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, want := r.Verdicts[0].Message, "number 1 of 3 candidates; region eu and zone x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTermsThatFailedAreExplained(t *testing.T) {
	b := binding(1, "", placed("clusterAffinities: [{affinityName: near, clusterNames: [a]}, {affinityName: far, clusterNames: [b]}]"))
	r := fleet("a taint=k:NoSchedule; b").Schedule(Request{Binding: b, Explain: true})
	if got, want := r.Tried[0].Verdicts[0].Message, "taint k:NoSchedule is not tolerated"; got != want {
		t.Errorf("near: got %q, want %q", got, want)
	}
	if got, want := r.Verdicts[1].Message, "affinity far; the only candidate"; got != want {
		t.Errorf("far: got %q, want %q", got, want)
	}
}

// A result that is not put into force must not look as if it were.
func TestWithheld(t *testing.T) {
	b := binding(6, "a=2", placed("{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 2}], replicaScheduling: "+strategies["static"]+"}"))
	r := fleet("a; b; c; d taint=k:NoSchedule").Schedule(Request{Binding: b, Explain: true})
	r.Withhold("FederatedResourceQuota", "too much")
	var got []string
	for _, v := range r.Verdicts {
		got = append(got, fmt.Sprintf("%s %s %d %s: %s", v.Cluster, v.Outcome, v.Replicas, v.Rule, v.Message))
	}
	want := []string{"a kept 2 FederatedResourceQuota: stays as it was: too much", "b passed over 0 FederatedResourceQuota: too much",
		"c passed over 0 FederatedResourceQuota: too much", "d refused 0 TaintToleration: taint k:NoSchedule is not tolerated"}
	if diff := cmp.Diff(want, got); diff != "" || !r.Division.Withheld {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnaskedIsExplained(t *testing.T) {
	yes := true
	b := binding(2, "a=2", placed("{clusterAffinity: {clusterNames: [b]}, replicaScheduling: "+strategies["dynamic"]+"}"))
	b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &yes}
	r := fleet("a; b").Schedule(Request{Binding: b, Explain: true})
	if got, want := r.Verdicts[0].Message, "scheduling is suspended; a new one would refuse it (ClusterAffinity: not in clusterNames)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Anew != nil {
		t.Errorf("suspended, and yet a reschedule would decide %v", r.Anew)
	}
	b = stored(fleet("a; b"), binding(2, "a=2", placed("replicaScheduling: "+strategies["dynamic"])), Result{Clusters: targets("a=2")})
	if got, want := show(fleet("a; b").Schedule(Request{Binding: b, Explain: true}).Anew.Clusters), "a=1 b=1"; got != want {
		t.Errorf("anew: got %q, want %q", got, want)
	}
}
