package schedule

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/render/affinity"
)

// nodes is what single nodes of a member have free: the accurate estimator. Its groups are grades of
// which the pool counts.
type nodes struct {
	groups     []grade
	pools      []pool
	unrecorded []string // labels of which nothing is known, sorted
}

type pool struct {
	labels map[string]string
	taints []corev1.Taint // NoSchedule and NoExecute
}

func (f *Fleet) compileNodes(c *clusterv1alpha1.NodeCapacity) *nodes {
	if c == nil {
		return nil
	}
	n := &nodes{unrecorded: slices.Sorted(slices.Values(c.UnrecordedLabels))}
	for i := range c.Pools {
		p := &c.Pools[i]
		n.pools = append(n.pools, pool{p.Labels, repelling(p.Taints)})
		for _, group := range p.Nodes {
			g := grade{nodes: int64(max(group.Count, 0)), free: make([]int64, len(f.columns)), pool: i}
			for name, q := range group.Free {
				g.free[f.columns[name]] = max(amount(name, q), 0)
			}
			if column, found := f.columns[corev1.ResourcePods]; found {
				g.pods = g.free[column]
			}
			n.groups = append(n.groups, g)
		}
	}
	return n
}

// room is how many replicas, or sets up to limit, fit on the nodes that they may go to. It is not known
// without nodes, or if the replicas choose nodes by what is not recorded of them.
func (n *nodes) room(d *demand, limit int64) (room int64, known bool) {
	if n == nil {
		return 0, false
	}
	if d.set {
		parts := slices.Clone(d.parts)
		for i := range parts {
			if parts[i].pools, known = n.open(parts[i].claim); !known {
				return 0, false
			}
		}
		return setsOnNodes(n.groups, parts, limit), true
	}
	open, known := n.open(d.total.claim)
	for i := range n.groups {
		if g := &n.groups[i]; known && open[g.pool] {
			room = min(room+g.nodes*min(g.pods, fits(g.free, d.total.needs), unlimited), unlimited)
		}
	}
	return room, known
}

// open tells, by pool, where a claim lets pods go.
func (n *nodes) open(claim *affinity.NodeMatcher) (pools []bool, known bool) {
	if claim.ByName() || slices.ContainsFunc(n.unrecorded, claim.LooksAt) {
		return nil, false
	}
	pools = make([]bool, len(n.pools))
	for i := range n.pools {
		pools[i] = claim.Matches(n.pools[i].labels, n.pools[i].taints)
	}
	return pools, true
}
