package decide_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// room says that the member has so many pod slots and nothing else.
func (w *world) room(member string, pods int64) {
	w.facts(member, func(f *decide.MemberFacts) {
		f.Nodes = &clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1}
		f.Resources = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}}
	})
}

func (w *world) recordedRoom(member string) int64 {
	s := w.state.Members[member].Status.ResourceSummary
	if s == nil {
		return -1
	}
	return s.Allocatable.Pods().Value()
}

const byRoom = "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}"

func TestRoomOnMembersCountsWhenSomethingIsPlacedAndIsNoNewsOtherwise(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.room("m1", 10)
	w.room("m2", 30)
	source := func(replicas int) string {
		return file("all.yaml", cluster("m1", ""), cluster("m2", ""), deployment("web", replicas), policyFor("web", "Deployment web", byRoom))
	}
	w.push(source(4))
	want(t, "placed", w.placed("default/web-deployment"), "m1=1 m2=3")

	w.now = w.now.Add(time.Hour)
	w.room("m1", 40)
	w.room("m2", 8)
	if d := w.pass(); d.Commit != nil {
		t.Errorf("room alone made a commit: %s", d.Commit.Subject)
	}
	want(t, "recorded room of m1 while nothing is placed", w.recordedRoom("m1"), 10)

	w.push(source(10))
	want(t, "scaled up by the newest room", w.placed("default/web-deployment"), "m1=6 m2=4")
	want(t, "recorded room of m1 after the decision", w.recordedRoom("m1"), 40)
}

// single says that the member's only node has so many pod slots, and everything else as room says.
func (w *world) single(member string, pods int64) {
	w.facts(member, func(f *decide.MemberFacts) {
		f.NodeCapacity = &clusterv1alpha1.NodeCapacity{Pools: []clusterv1alpha1.NodePool{{Nodes: []clusterv1alpha1.NodeGroup{
			{Count: 1, Free: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}}}}}}
	})
}

func (w *world) recordedNode(member string) int64 {
	c := w.state.Members[member].Status.NodeCapacity
	if c == nil {
		return -1
	}
	return c.Pools[0].Nodes[0].Free.Pods().Value()
}

func TestSingleNodesCountLikeRoom(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.room("m1", 30)
	w.room("m2", 30)
	w.single("m1", 10)
	source := func(replicas int) string {
		return file("all.yaml", cluster("m1", ""), cluster("m2", ""), deployment("web", replicas), policyFor("web", "Deployment web", byRoom))
	}
	w.push(source(4))
	want(t, "placed by the lesser of both estimates", w.placed("default/web-deployment"), "m1=1 m2=3")

	w.now = w.now.Add(time.Hour)
	w.single("m1", 30)
	w.single("m2", 10)
	if d := w.pass(); d.Commit != nil {
		t.Errorf("nodes alone made a commit: %s", d.Commit.Subject)
	}
	want(t, "recorded while nothing is placed", w.recordedNode("m1"), 10)

	// What is on record is enough to decide again.
	seen := w.seen
	w.seen = decide.Observations{}
	w.push(source(8))
	want(t, "scaled up by the record", w.placed("default/web-deployment"), "m1=2 m2=6")
	w.seen = seen
	w.push(source(16))
	want(t, "scaled up by the newest", w.placed("default/web-deployment"), "m1=8 m2=8")
	want(t, "recorded after the decision", w.recordedNode("m2"), 10)

	// Without the estimator, nothing of single nodes stays.
	for _, m := range []string{"m1", "m2"} {
		w.facts(m, func(f *decide.MemberFacts) { f.NodeCapacity = nil })
	}
	w.push(source(20))
	want(t, "recorded without the estimator", w.recordedNode("m1"), -1)
}
