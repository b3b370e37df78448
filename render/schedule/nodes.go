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
	switch {
	case n == nil:
		return 0, false
	case d.set:
		return n.sets(d.parts, limit)
	case !n.tell(d.total.claim):
		return 0, false
	}
	pool, open := -1, false
	for i := range n.groups {
		g := &n.groups[i]
		if g.pool != pool {
			pool, open = g.pool, n.pools[g.pool].opensTo(d.total.claim)
		}
		if open {
			room = min(room+g.nodes*min(g.pods, fits(g.free, d.total.needs), unlimited), unlimited)
		}
	}
	return room, true
}

func (n *nodes) sets(parts []part, limit int64) (sets int64, known bool) {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		if !n.tell(p.claim) {
			return 0, false
		}
		p.pools = make([]bool, len(n.pools))
		for j := range n.pools {
			p.pools[j] = n.pools[j].opensTo(p.claim)
		}
	}
	return setsOnNodes(n.groups, parts, limit), true
}

// tell tells whether enough is recorded of nodes to say where the claim lets pods go.
func (n *nodes) tell(claim *affinity.NodeMatcher) bool {
	return !claim.ByName() && !slices.ContainsFunc(n.unrecorded, claim.LooksAt)
}

func (p *pool) opensTo(claim *affinity.NodeMatcher) bool { return claim.Matches(p.labels, p.taints) }
