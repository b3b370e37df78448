package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

func TestNodeCapacity(t *testing.T) {
	free := func(name, more, allocatable string) string {
		return fmt.Sprintf(`{metadata: {name: %s, %s}, status: {allocatable: {%s}}}`, name, more, allocatable)
	}
	tainted := `{metadata: {name: a}, status: {allocatable: {pods: 1}}, spec: {taints: [{key: z, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}, {key: b, value: v, effect: NoExecute}, {key: c, effect: PreferNoSchedule}]}}`
	for _, tt := range []struct {
		name        string
		nodes, pods []string
		want        string
	}{
		{"nothing", nil, nil, "{}"},
		{"what pods ask for is not free", []string{free("a", "", "cpu: 2, memory: 1Gi, pods: 10")}, []string{pod("a", "Running", "cpu: 500m"), pod("a", "Pending", ""), pod("a", "Succeeded", "cpu: 1"), pod("", "Pending", "cpu: 1"), pod("b", "Running", "cpu: 1")},
			"pools: [{nodes: [{count: 1, free: {cpu: 1500m, memory: 1Gi, pods: 8}}]}]"},
		{"what is used up is left out", []string{free("a", "", "cpu: 2, memory: 0, pods: 10")}, []string{pod("a", "Running", "cpu: 3")},
			"pools: [{nodes: [{count: 1, free: {pods: 9}}]}]"},
		{"full nodes are left out", []string{free("a", "", "cpu: 2, pods: 1"), free("b", "", "cpu: 2")}, []string{pod("a", "Running", "")}, "{}"},
		{"equal nodes count together, by amount and not by text", []string{free("a", "", "cpu: 1, memory: 1Gi, pods: 9"), free("b", "", "cpu: 1000m, memory: 1024Mi, pods: 9"), free("c", "", "cpu: 2, pods: 9")}, nil,
			"pools: [{nodes: [{count: 2, free: {cpu: 1, memory: 1Gi, pods: 9}}, {count: 1, free: {cpu: 2, pods: 9}}]}]"},
		{"labels make pools", []string{free("a", "labels: {disk: ssd, os: linux}", "pods: 1"), free("b", "labels: {os: linux}", "pods: 1"), free("c", "labels: {disk: '', os: linux}", "pods: 1"), free("d", "labels: {disk: ssd, os: linux}", "pods: 1")}, nil,
			"pools: [{labels: {os: linux}, nodes: [{count: 1, free: {pods: 1}}]}, {labels: {disk: '', os: linux}, nodes: [{count: 1, free: {pods: 1}}]}, {labels: {disk: ssd, os: linux}, nodes: [{count: 2, free: {pods: 1}}]}]"},
		{"taints that keep pods away make pools", []string{tainted, free("b", "", "pods: 1")}, nil,
			"pools: [{nodes: [{count: 1, free: {pods: 1}}]}, {taints: [{key: b, value: v, effect: NoExecute}, {key: z, effect: NoSchedule}], nodes: [{count: 1, free: {pods: 1}}]}]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []Node
			for _, text := range tt.nodes {
				nodes = append(nodes, fromYAML[Node](t, text))
			}
			used := Usage{}
			for _, text := range tt.pods {
				p := fromYAML[Pod](t, text)
				used.Add(&p)
			}
			want := fromYAML[clusterv1alpha1.NodeCapacity](t, tt.want)
			for range 2 { // in any order
				if got := NodeCapacity(nodes, used); got == nil || !equality.Semantic.DeepEqual(*got, want) {
					t.Error(cmp.Diff(&want, got))
				}
				slices.Reverse(nodes)
			}
		})
	}
}

// many makes nodes with names, and host names, of their own.
func many(n int, of func(i int, n *Node)) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Metadata.Name = fmt.Sprintf("n%05d", i)
		nodes[i].Metadata.Labels = map[string]string{"host": nodes[i].Metadata.Name, "os": "linux", "zone": string(rune('a' + i%3))}
		nodes[i].Status.Allocatable = Resources{"pods": *resource.NewQuantity(int64(1+i%7), resource.DecimalSI)}
		if of != nil {
			of(i, &nodes[i])
		}
	}
	return nodes
}

func groups(c *clusterv1alpha1.NodeCapacity) (all, count int) {
	for _, p := range c.Pools {
		all += len(p.Nodes)
		for _, g := range p.Nodes {
			count += int(g.Count)
		}
	}
	return all, count
}

func TestLabelsThatTellAllNodesApartAreLeftOut(t *testing.T) {
	few := NodeCapacity(many(maxPools, nil), nil)
	if len(few.Pools) != maxPools || few.UnrecordedLabels != nil {
		t.Errorf("%d pools without %v, want one for each node", len(few.Pools), few.UnrecordedLabels)
	}
	more := NodeCapacity(many(maxPools+1, nil), nil)
	if want := []string{"host"}; !slices.Equal(more.UnrecordedLabels, want) || len(more.Pools) != 3 || more.Pools[2].Labels["zone"] != "c" || more.Pools[0].Labels["host"] != "" {
		t.Errorf("pools %+v without %v", more.Pools, more.UnrecordedLabels)
	}
	if all, count := groups(more); all != 3*7 || count != maxPools+1 {
		t.Errorf("%d groups of %d nodes", all, count)
	}
}

func TestTaintsThatTellAllNodesApartMakeNothingKnown(t *testing.T) {
	taint := func(i int, n *Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "own", Value: n.Metadata.Name, Effect: corev1.TaintEffectNoSchedule}}
	}
	if c := NodeCapacity(many(maxPools, taint), nil); c == nil || len(c.Pools) != maxPools {
		t.Errorf("%+v", c)
	}
	if c := NodeCapacity(many(maxPools+1, taint), nil); c != nil {
		t.Errorf("%+v", c)
	}
}

func TestManyNodesAreBoundedFromBelow(t *testing.T) {
	for name, limit := range map[string]struct {
		cpus, labels int
		loss         float64 // of the CPU altogether
	}{
		"as many groups as may be": {maxGroups, 1, 0},
		"one more":                 {maxGroups + 1, 1, 0.01},
		"all differ":               {5000, 1, 0.02},
		"all differ, in pools":     {5000, maxPools, 0.35},
	} {
		t.Run(name, func(t *testing.T) {
			sum := int64(0)
			nodes := many(5000, func(i int, n *Node) {
				cpu := int64(1000 + 7*(i%limit.cpus))
				sum += cpu
				n.Status.Allocatable = Resources{"pods": resource.MustParse("9"), "cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
				n.Metadata.Labels = map[string]string{"pool": fmt.Sprint(i % limit.labels), "host": n.Metadata.Name}
			})
			c := NodeCapacity(nodes, nil)
			all, count := groups(c)
			if all > maxGroups || count != len(nodes) {
				t.Errorf("%d groups of %d nodes", all, count)
			}
			got := int64(0)
			for _, p := range c.Pools {
				for _, g := range p.Nodes {
					got += int64(g.Count) * g.Free.Cpu().MilliValue()
				}
			}
			if got > sum || float64(sum-got) > limit.loss*float64(sum) {
				t.Errorf("%d thousandths of a CPU of %d", got, sum)
			}
		})
	}
}

// No node has less than what its group says, and up to the bound all nodes are there as they are.
func TestGroupsPromiseNoMoreThanNodesHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.SampledFrom([]int64{2, 40, 1 << 40}).Draw(t, "spread")
		nodes := many(rapid.IntRange(0, 600).Draw(t, "nodes"), nil)
		amounts := rapid.Int64Range(0, spread)
		for i := range nodes {
			nodes[i].Status.Allocatable["memory"] = *resource.NewQuantity(amounts.Draw(t, "memory"), resource.BinarySI)
		}
		c := NodeCapacity(nodes, nil)
		all, _ := groups(c)
		if all > maxGroups {
			t.Fatalf("%d groups", all)
		}
		have, say := map[string][]string{}, map[string][]string{}
		for _, n := range nodes {
			free := corev1.ResourceList(n.Status.Allocatable)
			have[n.Metadata.Labels["zone"]] = append(have[n.Metadata.Labels["zone"]], fmt.Sprintf("%04d %015d", free.Pods().Value(), free.Memory().Value()))
		}
		for _, p := range c.Pools {
			for _, g := range p.Nodes {
				text := fmt.Sprintf("%04d %015d", g.Free.Pods().Value(), g.Free.Memory().Value())
				say[p.Labels["zone"]] = append(say[p.Labels["zone"]], slices.Repeat([]string{text}, int(g.Count))...)
			}
		}
		for zone := range have {
			slices.Sort(have[zone])
			slices.Sort(say[zone])
			if len(have[zone]) != len(say[zone]) {
				t.Fatalf("zone %s: %d nodes of %d", zone, len(say[zone]), len(have[zone]))
			}
			for i, has := range have[zone] {
				// Sorted, they go along with each other: rounding down keeps the order.
				if exact := len(nodes) <= maxPools; exact && say[zone][i] != has || say[zone][i] > has {
					t.Fatalf("a node has %s, recorded is %s", has, say[zone][i])
				}
			}
		}
	})
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		level int
		want  string // of 0, 1, 2, 3, 100, 127, 1<<40
	}{
		{exact, "[0 1 2 3 100 127 1099511627776]"},
		{2, "[0 1 2 3 96 96 1099511627776]"},
		{1, "[0 1 2 2 64 64 1099511627776]"},
		{0, "[0 1 2 2 7 7 41]"},
		{-2, "[0 1 1 1 2 2 11]"},
		{-6, "[0 1 1 1 1 1 1]"},
		{coarsest, "[0 0 0 0 0 0 0]"},
	} {
		var got []int64
		for _, v := range []int64{0, 1, 2, 3, 100, 127, 1 << 40} {
			got = append(got, sizeOf(v, tt.level))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("level %d: %v, want %s", tt.level, got, tt.want)
		}
	}
}

func TestRecordOfManyNodesIsSmall(t *testing.T) {
	nodes := many(5000, func(i int, n *Node) {
		n.Status.Allocatable = Resources{"pods": *resource.NewQuantity(int64(1+i%110), resource.DecimalSI), "cpu": *resource.NewMilliQuantity(int64(i*13%64000), resource.DecimalSI),
			"memory": *resource.NewQuantity(int64(i)*(1<<25)+int64(i), resource.BinarySI), "ephemeral-storage": *resource.NewQuantity(int64(i)*(1<<24)+5, resource.BinarySI)}
		for j := range 20 {
			n.Metadata.Labels[fmt.Sprintf("node.example.org/label-%d", j)] = strings.Repeat("v", 40) + fmt.Sprint(i%(j+1))
		}
	})
	c := NodeCapacity(nodes, nil)
	if all, count := groups(c); all > maxGroups || len(c.Pools) > maxPools || count != len(nodes) {
		t.Errorf("%d groups in %d pools of %d nodes", all, len(c.Pools), count)
	}
}

func BenchmarkNodeCapacity(b *testing.B) {
	for _, n := range []int{10, 5000} {
		nodes := many(n, func(i int, n *Node) {
			n.Status.Allocatable["cpu"] = *resource.NewMilliQuantity(int64(i*13%64000), resource.DecimalSI)
			n.Status.Allocatable["memory"] = *resource.NewQuantity(int64(i)*(1<<25), resource.BinarySI)
		})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				NodeCapacity(nodes, nil)
			}
		})
	}
}
