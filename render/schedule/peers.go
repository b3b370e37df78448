package schedule

import (
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Peers knows where the bindings of workload affinity and anti-affinity groups run. It is made from
// the bindings in the groups they are in now, with the clusters they have so far; as decisions are
// made, the caller puts the new clusters. It belongs to one goroutine.
type Peers struct {
	groups map[group]map[string][]workv1alpha2.TargetCluster // by name of the binding
}

type group struct {
	anti            bool
	namespace, name string
}

// NewPeers starts with the given bindings.
func NewPeers(bindings []*workv1alpha2.ResourceBinding) *Peers {
	p := &Peers{groups: map[group]map[string][]workv1alpha2.TargetCluster{}}
	for _, b := range bindings {
		p.Put(b)
	}
	return p
}

// Put records where b runs now.
func (p *Peers) Put(b *workv1alpha2.ResourceBinding) {
	for _, g := range groupsOf(b) {
		if p.groups[g] == nil {
			p.groups[g] = map[string][]workv1alpha2.TargetCluster{}
		}
		p.groups[g][b.Name] = b.Spec.Clusters
	}
}

func groupsOf(b *workv1alpha2.ResourceBinding) (groups []group) {
	g := b.Spec.WorkloadAffinityGroups
	if g == nil {
		return nil
	}
	if g.AffinityGroup != "" {
		groups = append(groups, group{false, b.Namespace, g.AffinityGroup})
	}
	if g.AntiAffinityGroup != "" {
		groups = append(groups, group{true, b.Namespace, g.AntiAffinityGroup})
	}
	return groups
}

// markPeers marks the members that the groups of the binding keep it from. Peers without clusters
// keep it from nothing.
func (r *run) markPeers() {
	if r.Peers == nil {
		return
	}
	for _, g := range groupsOf(r.Binding) {
		scheduled := 0
		there := make([]int, len(r.fleet.members))
		for name, targets := range r.Peers.groups[g] {
			if name == r.Binding.Name || len(targets) == 0 {
				continue
			}
			scheduled++
			for _, t := range targets {
				if i, found := r.fleet.index[t.Name]; found {
					there[i]++
				}
			}
		}
		for i, n := range there {
			switch {
			case g.anti && n > 0:
				r.mark[i] |= shared
			case !g.anti && n < scheduled:
				r.mark[i] |= apart
			}
		}
	}
}
