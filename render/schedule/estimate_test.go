package schedule

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// modelled gives c a count of nodes for each grade; grades are 0-1, 1-2, 2-4 and 4-8 CPUs with four
// times as many Gi of memory.
func modelled(c *clusterv1alpha1.Cluster, counts ...int) *clusterv1alpha1.Cluster {
	for i, cpu := range []string{"0", "1", "2", "4"} {
		memory := resource.MustParse(cpu + "Gi")
		memory.Mul(4)
		c.Spec.ResourceModels = append(c.Spec.ResourceModels, clusterv1alpha1.ResourceModel{Grade: uint(i), Ranges: []clusterv1alpha1.ResourceModelRange{
			{Name: "cpu", Min: resource.MustParse(cpu)}, {Name: "memory", Min: memory},
		}})
		c.Status.ResourceSummary.AllocatableModelings = append(c.Status.ResourceSummary.AllocatableModelings,
			clusterv1alpha1.AllocatableModeling{Grade: uint(i), Count: counts[i]})
	}
	return c
}

func TestRoom(t *testing.T) {
	used := func(c *clusterv1alpha1.Cluster, allocated, allocating string) *clusterv1alpha1.Cluster {
		c.Status.ResourceSummary.Allocated, c.Status.ResourceSummary.Allocating = resources(allocated), resources(allocating)
		return c
	}
	unsummarized := cluster("a")
	unsummarized.Status.ResourceSummary = nil
	tests := []struct {
		name     string
		cluster  *clusterv1alpha1.Cluster
		replicas int32
		requests string // "-" for no requirements
		want     int64
	}{
		{"no summary", unsummarized, 5, "-", 0},
		{"no status", cluster("a nostatus"), 5, "cpu=1", 5},
		{"pods", cluster("a pods=7"), 5, "-", 7},
		{"free pods", used(cluster("a pods=7"), "pods=3", "pods=1"), 5, "-", 3},
		{"more pods than there may be", used(cluster("a pods=7"), "pods=3", "pods=100"), 5, "-", 0},
		{"room without limit is as much as is wanted", cluster("a pods=3G"), 5, "-", 5},
		{"scaled to nothing", cluster("a pods=7"), 0, "-", unlimited},
		{"requirements without requests", cluster("a pods=7"), 5, "", 7},
		{"the scarcest resource", cluster("a cpu=4 memory=3Gi"), 5, "cpu=500m memory=1Gi", 3},
		{"cpu in thousandths", cluster("a cpu=1"), 5, "cpu=300m", 3},
		{"what is used is not free", used(cluster("a cpu=4"), "cpu=1500m", "cpu=1"), 5, "cpu=500m", 3},
		{"nothing free", used(cluster("a cpu=4"), "cpu=5", ""), 5, "cpu=500m", 0},
		{"a resource the cluster does not have", cluster("a cpu=4"), 5, "nvidia.com/gpu=1", 0},
		{"a request of 0 is none", cluster("a cpu=4"), 5, "cpu=1 nvidia.com/gpu=0", 4},
		{"whole units: requests are rounded up", cluster("a gpu=3"), 5, "gpu=1500m", 1},

		{"models: nodes, not one big node", modelled(cluster("a cpu=100 memory=400Gi"), 0, 0, 3, 0), 5, "cpu=1500m", 3},
		{"models: all grades add up", modelled(cluster("a cpu=1 memory=1Gi"), 5, 1, 1, 2), 5, "cpu=1", 1 + 2 + 8},
		{"models: the smallest grade has nothing", modelled(cluster("a cpu=100 memory=400Gi"), 9, 0, 0, 0), 5, "cpu=1m", 0},
		{"models: 110 pods a node", modelled(cluster("a cpu=100"), 0, 0, 0, 2), 5, "cpu=1m", 220},
		{"models: pods of the cluster", modelled(cluster("a pods=3"), 0, 0, 0, 2), 5, "cpu=1", 3},
		{"models: a resource that is not modelled", modelled(cluster("a gpu=100"), 0, 0, 0, 2), 5, "gpu=1", 0},
		{"models: without requirements they do not matter", modelled(cluster("a pods=9"), 0, 0, 0, 0), 5, "-", 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFleet([]*clusterv1alpha1.Cluster{tt.cluster, cluster("other nvidia.com/gpu=8")})
			spec := workv1alpha2.ResourceBindingSpec{Replicas: tt.replicas}
			if tt.requests != "-" {
				spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: resources(tt.requests)}
			}
			d := f.demandOf(&spec, false)
			if got := f.members[0].capacity.room(&d); got != tt.want {
				t.Errorf("room for %q is %d, want %d", tt.requests, got, tt.want)
			}
		})
	}
}

func TestRoomForSets(t *testing.T) {
	component := func(replicas int32, requests string) workv1alpha2.Component {
		return workv1alpha2.Component{Replicas: replicas, ReplicaRequirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: resources(requests)}}
	}
	small, large := component(2, "cpu=1"), component(1, "cpu=3")
	tests := []struct {
		name    string
		cluster *clusterv1alpha1.Cluster
		set     []workv1alpha2.Component
		want    int64
	}{
		{"pods", cluster("a pods=7"), []workv1alpha2.Component{{Replicas: 2}, {Replicas: 1}}, 2},
		{"resources of a whole set", cluster("a cpu=11"), []workv1alpha2.Component{small, large}, 2},
		{"components without replicas", cluster("a pods=7 cpu=11"), []workv1alpha2.Component{{}}, 7},
		{"no status: one", cluster("a nostatus"), []workv1alpha2.Component{small}, 1},
		{"nodes: each pod to the first that has room", modelled(cluster("a cpu=100 memory=1Gi"), 0, 0, 1, 1), []workv1alpha2.Component{small, large}, 1},
		{"nodes: the set must fit", modelled(cluster("a cpu=100"), 0, 0, 9, 0), []workv1alpha2.Component{small, large}, 0},
		{"nodes: pod by pod", modelled(cluster("a cpu=100"), 0, 0, 0, 3), []workv1alpha2.Component{small, large}, 2},
		{"nodes: what is free altogether counts too", modelled(cluster("a cpu=5"), 0, 0, 0, 9), []workv1alpha2.Component{small, large}, 1},
		{"nodes: a resource that is not modelled", modelled(cluster("a gpu=9"), 0, 0, 0, 9), []workv1alpha2.Component{component(1, "gpu=1")}, 0},
		{"amounts are the same however they are written", cluster("a memory=48Gi"), []workv1alpha2.Component{component(2, "memory=17179869184")}, 1},
		{"a resource nobody has", cluster("a"), []workv1alpha2.Component{component(1, "fpga=1")}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFleet([]*clusterv1alpha1.Cluster{tt.cluster})
			d := f.demandOf(&workv1alpha2.ResourceBindingSpec{Components: tt.set}, true)
			if got := f.members[0].capacity.room(&d); got != tt.want {
				t.Errorf("room for %d sets, want %d", got, tt.want)
			}
		})
	}
}
