package schedule

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/affinity"
)

// unlimited is the room of a member when nothing is asked of it.
const unlimited = math.MaxInt32

// podsPerNode is the number of pods a modelled node takes.
const podsPerNode = 110

// capacity is what a member has free: CPU in thousandths, everything else in whole units.
type capacity struct {
	known  bool // there is a status
	pods   int64
	free   []int64 // by column; 0 if the member does not have the resource
	grades []grade // nodes by size; nil if the member is not modelled
	nodes  *nodes  // nil if nothing is known of single nodes
}

// grade is a number of nodes with at least so much free on each.
type grade struct {
	nodes int64
	pods  int64   // that fit on each
	free  []int64 // by column
	pool  int     // of nodes.pools
}

// columnsOf numbers the resources that any of the clusters has.
func columnsOf(clusters []*clusterv1alpha1.Cluster) map[corev1.ResourceName]int {
	columns := map[corev1.ResourceName]int{}
	add := func(name corev1.ResourceName) {
		if _, found := columns[name]; !found {
			columns[name] = len(columns)
		}
	}
	for _, c := range clusters {
		if s := c.Status.ResourceSummary; s != nil {
			for _, name := range slices.Sorted(maps.Keys(s.Allocatable)) {
				add(name)
			}
		}
		if n := c.Status.NodeCapacity; n != nil {
			for _, pool := range n.Pools {
				for _, group := range pool.Nodes {
					for _, name := range slices.Sorted(maps.Keys(group.Free)) {
						add(name)
					}
				}
			}
		}
		for _, model := range c.Spec.ResourceModels {
			for _, r := range model.Ranges {
				add(r.Name)
			}
		}
	}
	return columns
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func (f *Fleet) compileCapacity(c *clusterv1alpha1.Cluster) capacity {
	result := capacity{known: hasStatus(&c.Status), nodes: f.compileNodes(c.Status.NodeCapacity)}
	s := c.Status.ResourceSummary
	if s == nil {
		return result
	}
	result.free = make([]int64, len(f.columns))
	for name, q := range s.Allocatable {
		q = q.DeepCopy()
		q.Sub(s.Allocated[name])
		q.Sub(s.Allocating[name])
		result.free[f.columns[name]] = max(amount(name, q), 0)
	}
	if pods, found := f.columns[corev1.ResourcePods]; found {
		result.pods = result.free[pods]
	}
	if len(s.AllocatableModelings) > 0 && len(c.Spec.ResourceModels) > 0 {
		result.grades = f.compileGrades(c.Spec.ResourceModels, s.AllocatableModelings)
	}
	return result
}

// compileGrades joins the sizes of grades with their counts, smallest grade first.
func (f *Fleet) compileGrades(models []clusterv1alpha1.ResourceModel, counts []clusterv1alpha1.AllocatableModeling) []grade {
	models = slices.Clone(models)
	slices.SortFunc(models, func(a, b clusterv1alpha1.ResourceModel) int { return cmp.Compare(a.Grade, b.Grade) })
	grades := make([]grade, len(models))
	for i, model := range models {
		grades[i].pods, grades[i].free = podsPerNode, make([]int64, len(f.columns))
		for _, r := range model.Ranges {
			grades[i].free[f.columns[r.Name]] = amount(r.Name, r.Min)
		}
		for _, c := range counts {
			if c.Grade == model.Grade {
				grades[i].nodes += int64(max(c.Count, 0))
			}
		}
	}
	return grades
}

// demand is what is to be placed: replicas of one kind, or sets of components.
type demand struct {
	// nothing to estimate: there is room without limit.
	nothing bool
	// fallback is the room of a member of which nothing lowers it.
	fallback int64
	// set: parts together are placed as one.
	set   bool
	parts []part
	total part // of one set
}

// part is a number of equal pods.
type part struct {
	pods  int64
	needs []need // of one pod
	// bare: the template says nothing of what it needs.
	bare  bool
	claim *affinity.NodeMatcher
	// pools tells, by pool of the nodes it is to go to, whether it may; nil means that it may go to all.
	pools []bool
}

// need is what one pod asks of a resource; always more than 0.
type need struct {
	column int // -1: no member has the resource
	amount int64
}

func (f *Fleet) demandOf(spec *workv1alpha2.ResourceBindingSpec, set bool) demand {
	d := demand{fallback: int64(spec.Replicas), set: set}
	switch {
	case spec.Replicas == 0 && len(spec.Components) == 0:
		d.nothing = true
	case !set:
		d.total = f.partOf(1, spec.ReplicaRequirements)
	default:
		d.fallback = max(d.fallback, 1) // one set, that is
		for i := range spec.Components {
			d.parts = append(d.parts, f.partOf(int64(spec.Components[i].Replicas), spec.Components[i].ReplicaRequirements))
		}
		d.total = sumOf(d.parts)
	}
	return d
}

func (f *Fleet) partOf(pods int64, r *workv1alpha2.ReplicaRequirements) part {
	if r == nil {
		return part{pods: pods, bare: true, claim: affinity.CompileNode(nil)}
	}
	p := part{pods: pods, claim: affinity.CompileNode(r.NodeClaim)}
	for name, q := range r.ResourceRequest {
		n := need{-1, amount(name, q)}
		if column, found := f.columns[name]; found {
			n.column = column
		}
		if n.amount > 0 {
			p.needs = append(p.needs, n)
		}
	}
	slices.SortFunc(p.needs, func(a, b need) int { return cmp.Compare(a.column, b.column) })
	return p
}

// sumOf adds up the pods and needs of a set.
func sumOf(parts []part) part {
	sum := part{}
	for _, p := range parts {
		sum.pods += p.pods
		for _, n := range p.needs {
			at := slices.IndexFunc(sum.needs, func(s need) bool { return s.column == n.column })
			if at < 0 {
				at = len(sum.needs)
				sum.needs = append(sum.needs, need{column: n.column})
			}
			sum.needs[at].amount += n.amount * p.pods
		}
	}
	sum.bare = len(sum.needs) == 0
	return sum
}

// room is how many replicas or sets fit into a member besides what runs there.
func (c *capacity) room(d *demand) int64 {
	if d.nothing {
		return unlimited
	}
	if !c.known {
		return d.fallback
	}
	room := c.estimate(d)
	if accurate, known := c.nodes.room(d, room); known {
		room = min(room, accurate)
	}
	if room >= unlimited {
		return d.fallback
	}
	return room
}

// estimate is Karmada's general estimator. Without models, free resources are taken as one big
// node. With models, replicas go to nodes; sets must fit both ways.
//
// Differs from Karmada: for sets it counts an amount in thousandths or in units by how it is written. Memory that
// an interpreter gives in bytes, as for Flink and Spark, is a thousand times too much beside that of a cluster in
// Gi, and such a workload fits nowhere.
func (c *capacity) estimate(d *demand) int64 {
	room := c.pods
	if d.set {
		room /= max(d.total.pods, 1)
	}
	modelled := c.grades != nil && !d.total.bare
	if d.set || !modelled {
		room = min(room, fits(c.free, d.total.needs))
	}
	switch {
	case !modelled:
	case d.set:
		room = min(room, setsOnNodes(c.grades, d.parts, room))
	default:
		var onNodes int64
		for i := range c.grades {
			onNodes += c.grades[i].nodes * min(fits(c.grades[i].free, d.total.needs), c.grades[i].pods)
		}
		room = min(room, onNodes)
	}
	return room
}

// fits is how many times needs go into free.
func fits(free []int64, needs []need) int64 {
	n := int64(math.MaxInt64)
	for _, need := range needs {
		if need.column < 0 || need.column >= len(free) {
			return 0
		}
		n = min(n, free[need.column]/need.amount)
	}
	return n
}

// setsOnNodes places whole sets on nodes until one does not fit, or limit is reached. Large pods go first,
// each to the first node that has room.
func setsOnNodes(groups []grade, parts []part, limit int64) int64 {
	type node struct {
		free []int64
		pods int64
		pool int
	}
	var nodes []node // those that were looked at: there may be far more than are needed
	group, taken := 0, int64(0)
	more := func() bool {
		for group < len(groups) && taken >= groups[group].nodes {
			group, taken = group+1, 0
		}
		if group == len(groups) {
			return false
		}
		g := &groups[group]
		nodes = append(nodes, node{slices.Clone(g.free), g.pods, g.pool})
		taken++
		return true
	}
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b part) int { return slices.CompareFunc(b.needs, a.needs, compareNeeds) })
	first := make([]int, len(parts)) // nodes before this one are full for the part, and stay so
	for set := range limit {
		for i := range parts {
			p := &parts[i]
			for range p.pods {
				for {
					if first[i] == len(nodes) && !more() {
						return set
					}
					n := &nodes[first[i]]
					if n.pods > 0 && (p.pools == nil || p.pools[n.pool]) && fits(n.free, p.needs) > 0 {
						break
					}
					first[i]++
				}
				n := &nodes[first[i]]
				n.pods--
				for _, need := range p.needs {
					n.free[need.column] -= need.amount
				}
			}
		}
	}
	return limit
}

func compareNeeds(a, b need) int {
	return cmp.Or(cmp.Compare(b.column, a.column), cmp.Compare(a.amount, b.amount))
}
