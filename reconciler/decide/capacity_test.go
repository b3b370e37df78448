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
