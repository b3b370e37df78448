package observe

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Bounds of what is recorded of the nodes of one member.
const (
	maxPools  = 64
	maxGroups = 512
)

// NodeCapacity sums up what single nodes have free; nil if their taints are too different to be summed up.
// Labels are kept, beginning with those of the fewest values, as long as they make no more than maxPools
// pools: what is left out tells nearly all nodes apart, as host names do. If there are more than maxGroups
// of nodes that have as much free, those with nearly as much are counted together, each with what all of
// them have. Up to maxPools nodes are recorded as they are.
func NodeCapacity(listed []Node, used Usage) *clusterv1alpha1.NodeCapacity {
	nodes := freeNodes(listed, used)
	class := make([]int, len(nodes)) // by node
	if !split(class, maxPools, func(i int) string { return textOf(nodes[i].taints) }) {
		return nil
	}
	c := &clusterv1alpha1.NodeCapacity{}
	var kept []string
	for _, key := range labelKeys(nodes) {
		if split(class, maxPools, func(i int) string { return nodes[i].label(key) }) {
			kept = append(kept, key)
		} else {
			c.UnrecordedLabels = append(c.UnrecordedLabels, key)
		}
	}
	slices.Sort(c.UnrecordedLabels)
	c.Pools = poolsOf(nodes, class, kept)
	return c
}

// freeNode is a node on which pods fit.
type freeNode struct {
	labels map[string]string
	taints []corev1.Taint
	free   corev1.ResourceList
}

// label is another text for a label that is not there than for every value.
func (n *freeNode) label(key string) string {
	if value, found := n.labels[key]; found {
		return "=" + value
	}
	return ""
}

// freeNodes are sorted by name.
func freeNodes(listed []Node, used Usage) []freeNode {
	listed = slices.SortedFunc(slices.Values(listed), func(a, b Node) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	var nodes []freeNode
	for i := range listed {
		n := &listed[i]
		free := corev1.ResourceList{}
		for name, q := range n.Status.Allocatable {
			q = q.DeepCopy()
			q.Sub(used[n.Metadata.Name][name])
			if q.Sign() > 0 {
				free[name] = q
			}
		}
		if _, found := free[corev1.ResourcePods]; found {
			nodes = append(nodes, freeNode{n.Metadata.Labels, repelling(n.Spec.Taints), free})
		}
	}
	return nodes
}

// repelling are the taints that keep new pods away, sorted, without what makes no difference.
func repelling(taints []corev1.Taint) []corev1.Taint {
	var list []corev1.Taint
	for _, t := range taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			list = append(list, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	slices.SortFunc(list, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(list)
}

func textOf(taints []corev1.Taint) string {
	var b strings.Builder
	for _, t := range taints {
		fmt.Fprintf(&b, "%s=%s:%s,", t.Key, t.Value, t.Effect)
	}
	return b.String()
}

// labelKeys are all labels, those of the fewest values first.
func labelKeys(nodes []freeNode) []string {
	values := map[string]map[string]int{} // how many nodes have it
	for i := range nodes {
		for key, value := range nodes[i].labels {
			if values[key] == nil {
				values[key] = map[string]int{}
			}
			values[key][value]++
		}
	}
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[a]), len(values[b])), cmp.Compare(a, b))
	})
}

// split divides classes further by a text, unless more than limit come of it: then they stay.
func split(class []int, limit int, by func(i int) string) bool {
	type part struct {
		class int
		text  string
	}
	parts, next := map[part]int{}, make([]int, len(class))
	for i := range class {
		p := part{class[i], by(i)}
		id, found := parts[p]
		if !found {
			id = len(parts)
			parts[p] = id
		}
		if len(parts) > limit {
			return false
		}
		next[i] = id
	}
	copy(class, next)
	return true
}

// poolsOf makes the pools, sorted by labels and taints; of the labels those in keys are kept.
func poolsOf(nodes []freeNode, class []int, keys []string) []clusterv1alpha1.NodePool {
	slices.Sort(keys)
	type named struct {
		name string
		clusterv1alpha1.NodePool
	}
	var pools []named
	for _, groups := range groupsOf(nodes, class) {
		first := &nodes[groups[0].first]
		p := named{NodePool: clusterv1alpha1.NodePool{Labels: map[string]string{}, Taints: first.taints}}
		for _, key := range keys {
			p.name += key + first.label(key) + ","
			if value, found := first.labels[key]; found {
				p.Labels[key] = value
			}
		}
		p.name += textOf(first.taints)
		for _, g := range groups {
			p.Nodes = append(p.Nodes, clusterv1alpha1.NodeGroup{Count: g.count, Free: g.free})
		}
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	var list []clusterv1alpha1.NodePool
	for _, p := range pools {
		list = append(list, p.NodePool)
	}
	return list
}

type group struct {
	first int     // node
	size  []int64 // class of its nodes' amounts, by resource
	count int32
	free  corev1.ResourceList
}

// groupsOf counts nodes that have as much free, by class. Amounts are told apart as finely as the bound
// on groups allows; in the end each class is one group.
func groupsOf(nodes []freeNode, class []int) [][]*group {
	classes := 0
	for _, c := range class {
		classes = max(classes, c+1)
	}
	var names []corev1.ResourceName
	for i := range nodes {
		names = slices.AppendSeq(names, maps.Keys(nodes[i].free))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for level := exact; ; level = min(level, 9) - 1 {
		groups, n := make([][]*group, classes), 0
		known := map[string]*group{}
		for i := range nodes {
			size := make([]int64, len(names))
			for j, name := range names {
				size[j] = sizeOf(amount(name, nodes[i].free), level)
			}
			id := fmt.Sprint(class[i], size)
			g := known[id]
			if g == nil {
				g = &group{first: i, size: size, free: maps.Clone(nodes[i].free)}
				known[id] = g
				groups[class[i]] = append(groups[class[i]], g)
				n++
			}
			g.count++
			least(g.free, nodes[i].free)
		}
		if n <= maxGroups || level == coarsest {
			for _, list := range groups {
				slices.SortFunc(list, func(a, b *group) int { return slices.Compare(a.size, b.size) })
			}
			return groups
		}
	}
}

func amount(name corev1.ResourceName, list corev1.ResourceList) int64 {
	q := list[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// How finely amounts are told apart: by so many leading binary digits, or, from 0 down, by the power of
// 2 in steps of 1, 2, 4 and so on.
const (
	exact    = 64
	coarsest = -7 // not even something from nothing
)

// sizeOf is equal for amounts that are not told apart, and never less for more.
func sizeOf(v int64, level int) int64 {
	n := bits.Len64(uint64(v))
	switch {
	case level > 0:
		drop := max(n-level, 0)
		return v >> drop << drop
	case level == coarsest || v == 0:
		return 0
	}
	return 1 + int64(n-1)>>-level
}

// least lowers free to what other has as well.
func least(free, other corev1.ResourceList) {
	for name, q := range free {
		switch o, found := other[name]; {
		case !found:
			delete(free, name)
		case o.Cmp(q) < 0:
			free[name] = o
		}
	}
}
