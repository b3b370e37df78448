package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/affinity"
)

// withNodes gives c single nodes: pools separated by "|", in them "label=k:v", "taint=k:Effect" and groups
// of nodes like "3*cpu=4,pods=10".
func withNodes(c *clusterv1alpha1.Cluster, text string) *clusterv1alpha1.Cluster {
	c.Status.NodeCapacity = &clusterv1alpha1.NodeCapacity{}
	for text := range strings.SplitSeq(text, "|") {
		p := clusterv1alpha1.NodePool{Labels: map[string]string{}}
		for f := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(f, "=")
			k, v, _ := strings.Cut(value, ":")
			switch key {
			case "label":
				p.Labels[k] = v
			case "taint":
				p.Taints = append(p.Taints, corev1.Taint{Key: k, Effect: corev1.TaintEffect(v)})
			default:
				var g clusterv1alpha1.NodeGroup
				var free string
				if _, err := fmt.Sscanf(f, "%d*%s", &g.Count, &free); err != nil {
					panic(err)
				}
				g.Free = resources(strings.ReplaceAll(free, ",", " "))
				p.Nodes = append(p.Nodes, g)
			}
		}
		c.Status.NodeCapacity.Pools = append(c.Status.NodeCapacity.Pools, p)
	}
	return c
}

func TestRoomOnNodes(t *testing.T) {
	big := func(nodes string) *clusterv1alpha1.Cluster {
		return withNodes(cluster("a cpu=1k memory=1Ti gpu=8"), nodes)
	}
	unrecorded := big("label=zone:x 1*cpu=4,pods=9")
	unrecorded.Status.NodeCapacity.UnrecordedLabels = []string{"name", "host"}
	tests := []struct {
		name    string
		cluster *clusterv1alpha1.Cluster
		claim   string // requirements
		want    int64
	}{
		{"no nodes", withNodes(cluster("a"), ""), "", 0},
		{"nothing is known of nodes", cluster("a pods=7"), "", 7},
		{"replicas go to single nodes", big("3*cpu=1500m,pods=9"), "resourceRequest: {cpu: 1}", 3},
		{"groups add up", big("3*cpu=1500m,pods=9 1*cpu=4,pods=9"), "resourceRequest: {cpu: 1}", 3 + 4},
		{"the scarcest resource of a node", big("2*cpu=4,memory=2Gi,pods=9"), "resourceRequest: {cpu: 1, memory: 1Gi}", 4},
		{"pods of a node", big("2*cpu=4,pods=3"), "resourceRequest: {cpu: 1}", 6},
		{"pods of a node, nothing requested", big("2*pods=3"), "", 6},
		{"no room for pods", big("2*cpu=4"), "resourceRequest: {cpu: 1}", 0},
		{"a resource no node has free", big("2*cpu=4,pods=9"), "resourceRequest: {gpu: 1}", 0},
		{"a resource nobody has", big("2*cpu=4,pods=9"), "resourceRequest: {fpga: 1}", 0},
		{"the general estimate, if it is less", withNodes(cluster("a cpu=2"), "5*cpu=4,pods=9"), "resourceRequest: {cpu: 1}", 2},
		{"the general estimate of pods, if it is less", withNodes(cluster("a pods=2"), "5*cpu=4,pods=9"), "", 2},
		{"taints", big("1*pods=3 | taint=t:NoSchedule 1*pods=4 | taint=t:NoExecute 1*pods=4"), "", 3},
		{"a taint that only asks", big("taint=t:PreferNoSchedule 1*pods=4"), "", 4},
		{"tolerations", big("1*pods=3 | taint=t:NoSchedule 1*pods=4"), "nodeClaim: {tolerations: [{operator: Exists}]}", 7},
		{"selector", big("1*pods=3 | label=disk:ssd 1*pods=4"), "nodeClaim: {nodeSelector: {disk: ssd}}", 4},
		{"affinity", big("label=disk:hdd 1*pods=3 | label=disk:ssd 1*pods=4"), "nodeClaim: {hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}", 4},
		{"nowhere", big("1*pods=3"), "nodeClaim: {nodeSelector: {disk: ssd}}", 0},
		{"a label that is not recorded: unknown", unrecorded, "nodeClaim: {nodeSelector: {name: x}}", 1000},
		{"a label that is", unrecorded, "nodeClaim: {nodeSelector: {zone: x}}", 9},
		{"nodes by name: unknown", unrecorded, "nodeClaim: {hardNodeAffinity: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}", 1000},
		{"counts below 0", big("-3*pods=3 2*pods=1"), "", 2},
		{"more than can be counted", withNodes(cluster("a pods=9P"), "2000000000*pods=9P 2000000000*pods=9P 2000000000*pods=9P"), "", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFleet([]*clusterv1alpha1.Cluster{tt.cluster, cluster("other nvidia.com/gpu=8")})
			spec := workv1alpha2.ResourceBindingSpec{Replicas: 5}
			if err := yaml.UnmarshalStrict([]byte(tt.claim), &spec.ReplicaRequirements); err != nil {
				t.Fatal(err)
			}
			d := f.demandOf(&spec, false)
			if got := f.members[0].capacity.room(&d); got != tt.want {
				t.Errorf("room for %q is %d, want %d", tt.claim, got, tt.want)
			}
		})
	}
}

func TestRoomForSetsOnNodes(t *testing.T) {
	set := func(text string) (list []workv1alpha2.Component) {
		if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	set1 := set(`[{name: a, replicas: 2, replicaRequirements: {resourceRequest: {cpu: 1}}}, {name: b, replicas: 1, replicaRequirements: {resourceRequest: {cpu: 3}}}]`)
	apart := set(`[{name: a, replicas: 1, replicaRequirements: {nodeClaim: {nodeSelector: {disk: ssd}}}}, {name: b, replicas: 1}]`)
	hosts := set(`[{name: a, replicas: 1}, {name: b, replicas: 1, replicaRequirements: {nodeClaim: {nodeSelector: {host: x}}}}]`)
	unrecorded := withNodes(cluster("a"), "1*pods=1")
	unrecorded.Status.NodeCapacity.UnrecordedLabels = []string{"host"}
	tests := []struct {
		name    string
		cluster *clusterv1alpha1.Cluster
		set     []workv1alpha2.Component
		want    int64
	}{
		{"pod by pod", withNodes(cluster("a cpu=1k"), "3*cpu=4,pods=9"), set1, 2},
		{"pods of a node", withNodes(cluster("a cpu=1k"), "3*cpu=5,pods=2"), set1, 2},
		{"no node is large enough", withNodes(cluster("a cpu=1k"), "9*cpu=2,pods=9"), set1, 0},
		{"the general estimate, if it is less", withNodes(cluster("a cpu=5"), "9*cpu=8,pods=9"), set1, 1},
		{"each part where it may go", withNodes(cluster("a"), "label=disk:ssd 1*pods=3 | 1*pods=2"), apart, 2},
		{"nowhere for a part", withNodes(cluster("a"), "1*pods=3"), apart, 0},
		{"a label that is not recorded: unknown", unrecorded, hosts, 500},
		{"far more nodes than are needed", withNodes(cluster("a pods=4"), "2000000000*pods=9"), apart[1:], 4},
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

// The slow twin puts one pod after the other on single nodes until none fits.
func TestRoomOnNodesIsWhatFitsOneByOne(t *testing.T) {
	type node struct {
		pool      int
		cpu, pods int
	}
	rapid.Check(t, func(t *rapid.T) {
		c := cluster("a cpu=1M pods=1M")
		c.Status.NodeCapacity = &clusterv1alpha1.NodeCapacity{}
		var single []node
		for i := range rapid.IntRange(0, 4).Draw(t, "pools") {
			p := clusterv1alpha1.NodePool{Labels: map[string]string{"disk": rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk")}}
			if rapid.Bool().Draw(t, "tainted") {
				p.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
			}
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				n := node{i, rapid.IntRange(0, 5000).Draw(t, "cpu"), rapid.IntRange(0, 6).Draw(t, "pods")}
				count := rapid.IntRange(0, 4).Draw(t, "count")
				p.Nodes = append(p.Nodes, clusterv1alpha1.NodeGroup{Count: int32(count), Free: corev1.ResourceList{
					"cpu": *resource.NewMilliQuantity(int64(n.cpu), resource.DecimalSI), "pods": *resource.NewQuantity(int64(n.pods), resource.DecimalSI)}})
				single = append(single, slices.Repeat([]node{n}, count)...)
			}
			c.Status.NodeCapacity.Pools = append(c.Status.NodeCapacity.Pools, p)
		}
		cpu := rapid.IntRange(1, 3000).Draw(t, "request")
		claim := &workv1alpha2.NodeClaim{}
		if rapid.Bool().Draw(t, "selects") {
			claim.NodeSelector = map[string]string{"disk": "ssd"}
		}
		if rapid.Bool().Draw(t, "tolerates") {
			claim.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		spec := workv1alpha2.ResourceBindingSpec{Replicas: 1000, ReplicaRequirements: &workv1alpha2.ReplicaRequirements{
			NodeClaim: claim, ResourceRequest: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI)}}}

		want := int64(0)
		for i := range single {
			n, p := &single[i], &c.Status.NodeCapacity.Pools[single[i].pool]
			for affinity.CompileNode(claim).Matches(p.Labels, p.Taints) && n.cpu >= cpu && n.pods > 0 {
				n.cpu, n.pods = n.cpu-cpu, n.pods-1
				want++
			}
		}
		f := NewFleet([]*clusterv1alpha1.Cluster{c})
		d := f.demandOf(&spec, false)
		if got := f.members[0].capacity.room(&d); got != want {
			t.Fatalf("room %d, one by one %d", got, want)
		}
	})
}
