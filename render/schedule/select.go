package schedule

import (
	"cmp"
	"fmt"
	"slices"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// candidate is a member that passed the filters.
type candidate struct {
	member    int // index; orders like the name
	tier      int // 0: the affinity itself; more: the overflow affinity that matches
	score     int64
	room      int64 // for how many more replicas
	available int64 // room and the replicas that are there
}

// locality is the score of a member where the workload runs already. Karmada has no other score.
const locality = 100

// order completes candidates and sorts them, best first.
func (r *run) order(candidates []candidate) {
	for n := range candidates {
		c := &candidates[n]
		if r.mark[c.member]&target != 0 {
			c.score = locality
		}
		c.room = r.fleet.members[c.member].capacity.room(&r.demand)
		c.available = c.room + int64(r.now[c.member])
	}
	slices.SortFunc(candidates, compareCandidates)
}

func compareCandidates(a, b candidate) int {
	switch {
	case a.tier != b.tier:
		return a.tier - b.tier
	case a.score != b.score:
		return cmp.Compare(b.score, a.score)
	case a.available != b.available:
		return cmp.Compare(b.available, a.available)
	}
	return a.member - b.member
}

// choose selects candidates by the spread constraints. A problem is why it cannot.
func (r *run) choose(candidates []candidate) (selected []candidate, problem string) {
	switch {
	case !r.placement.spreads:
		return candidates, ""
	case len(r.groupConstraints()) > 0:
		return r.chooseByGroups(candidates)
	case r.placement.cluster != nil:
		return r.chooseByCluster(candidates)
	}
	return nil, "spreadConstraints: none of them can be enforced alone; add one with spreadByField: cluster"
}

// chooseByCluster takes the best candidates, and, if replicas are divided and need more room,
// exchanges the worst of them for roomier ones.
func (r *run) chooseByCluster(candidates []candidate) (selected []candidate, problem string) {
	constraint := r.placement.cluster
	if len(candidates) < constraint.MinGroups {
		return nil, fmt.Sprintf("the number of feasible clusters (%d) is less than spreadConstraint.minGroups (%d)", len(candidates), constraint.MinGroups)
	}
	n := min(len(candidates), constraint.MaxGroups)
	if n == 0 {
		return nil, "spreadConstraints: maxGroups of cluster is 0, which selects no cluster; set it to 1 or more"
	}
	need := r.demandsRoom()
	if need == 0 {
		return candidates[:n], ""
	}
	list := slices.Clone(candidates) // the order of candidates is explained later
	selected, rest := list[:n], list[n:]
	available := sumOfAvailable(selected)
	for i := n - 1; i >= 0 && available < need; i-- {
		best := -1
		for k := range rest {
			if rest[k].available > selected[i].available && (best < 0 || rest[k].available > rest[best].available) {
				best = k
			}
		}
		if best >= 0 {
			available += rest[best].available - selected[i].available
			selected[i], rest[best] = rest[best], selected[i]
		}
	}
	if available < need {
		return nil, fmt.Sprintf("no %d clusters have room for %d replicas: %d at most", n, need, available)
	}
	return selected, ""
}

func sumOfAvailable(list []candidate) (sum int64) {
	for i := range list {
		sum += list[i].available
	}
	return sum
}

// chooseByGroups chooses regions, providers and zones, then a cluster of each, then the best of the
// others in them.
//
// Karmada knows this for regions alone. With several constraints, groups are chosen for region
// first, then for provider and zone among the clusters of the groups chosen so far.
func (r *run) chooseByGroups(candidates []candidate) (selected []candidate, problem string) {
	var total policyv1alpha1.SpreadConstraint
	if r.placement.cluster != nil {
		total = *r.placement.cluster
	}
	s := spreading{run: r, clusters: total}
	pool, chosen, problem := s.narrow(r.groupConstraints(), candidates)
	if problem != "" {
		return nil, problem
	}
	r.chosen = chosen
	taken := make([]bool, len(pool))
	take := func(i int) {
		taken[i] = true
		selected = append(selected, pool[i])
	}
	for _, groups := range chosen {
		for _, g := range groups {
			first := -1
			covered := false
			for i := range pool {
				if g.has(r.fleet, pool[i].member) {
					covered = covered || taken[i]
					if first < 0 {
						first = i
					}
				}
			}
			if !covered {
				take(first)
			}
		}
	}
	for i := range pool {
		if len(selected) >= total.MaxGroups {
			break
		}
		if !taken[i] {
			take(i)
		}
	}
	return selected, ""
}

// spreading chooses groups.
type spreading struct {
	*run
	clusters policyv1alpha1.SpreadConstraint // how many clusters in total
}

// clusterGroup is the candidates that share a value of a field.
type clusterGroup struct {
	field   policyv1alpha1.SpreadFieldValue
	value   int // number of the value
	name    string
	members []candidate
	weight  int64
}

func (g *clusterGroup) has(f *Fleet, member int) bool {
	return slices.Contains(f.groups[g.field].of[member], g.value)
}

// narrow chooses groups for the first constraint and then for the others, and returns the candidates
// in all groups chosen, with the groups by constraint. If the others cannot be satisfied, more
// groups are tried, then others.
func (s *spreading) narrow(constraints []policyv1alpha1.SpreadConstraint, pool []candidate) ([]candidate, [][]*clusterGroup, string) {
	if len(constraints) == 0 {
		return pool, nil, ""
	}
	c := constraints[0]
	groups := s.group(c, pool)
	if len(groups) < c.MinGroups {
		return nil, nil, fmt.Sprintf("the number of feasible %ss (%d) is less than spreadConstraint.minGroups (%d)", c.SpreadByField, len(groups), c.MinGroups)
	}
	if c.MaxGroups == 0 {
		return nil, nil, fmt.Sprintf("spreadConstraints: maxGroups of %s is 0, which selects no %s; set it to 1 or more", c.SpreadByField, c.SpreadByField)
	}
	problem := ""
	for len(groups) >= c.MinGroups {
		var chosen []*clusterGroup
		for least := c.MinGroups; least <= c.MaxGroups; least++ {
			more := chooseGroups(groups, least, c.MaxGroups, s.clusters.MinGroups)
			if more == nil {
				break
			}
			chosen = more
			within := slices.DeleteFunc(slices.Clone(pool), func(cand candidate) bool { return !s.inAny(chosen, cand) })
			narrowed, others, why := s.narrow(constraints[1:], within)
			if why == "" {
				why = s.check(chosen, narrowed)
			}
			if why == "" {
				return narrowed, slices.Insert(others, 0, chosen), ""
			}
			if problem == "" {
				problem = why
			}
		}
		if chosen == nil {
			if problem == "" {
				problem = fmt.Sprintf("no %d to %d %ss have the number of clusters in spreadConstraint.minGroups (%d)", c.MinGroups, c.MaxGroups, c.SpreadByField, s.clusters.MinGroups)
			}
			break
		}
		worst := chosen[len(chosen)-1]
		groups = slices.DeleteFunc(groups, func(g *clusterGroup) bool { return g == worst })
	}
	return nil, nil, problem
}

func (s *spreading) inAny(groups []*clusterGroup, c candidate) bool {
	return slices.ContainsFunc(groups, func(g *clusterGroup) bool { return g.has(s.fleet, c.member) })
}

// check says whether the pool still has a cluster of each group, and enough of them in total.
func (s *spreading) check(groups []*clusterGroup, pool []candidate) string {
	for _, g := range groups {
		if !slices.ContainsFunc(pool, func(c candidate) bool { return g.has(s.fleet, c.member) }) {
			return fmt.Sprintf("spreadConstraints: no cluster of %s %s is in the other groups chosen", g.field, g.name)
		}
	}
	if len(pool) < s.clusters.MinGroups {
		return fmt.Sprintf("the number of feasible clusters (%d) is less than spreadConstraint.minGroups (%d)", len(pool), s.clusters.MinGroups)
	}
	return ""
}

// group gathers the pool by the field of c; a cluster with several zones is in the group of each.
func (s *spreading) group(c policyv1alpha1.SpreadConstraint, pool []candidate) []*clusterGroup {
	field := s.fleet.groups[c.SpreadByField]
	byValue := make([]*clusterGroup, len(field.names))
	var groups []*clusterGroup
	for _, cand := range pool {
		for _, v := range field.of[cand.member] {
			if byValue[v] == nil {
				byValue[v] = &clusterGroup{field: c.SpreadByField, value: v, name: field.names[v]}
				groups = append(groups, byValue[v])
			}
			byValue[v].members = append(byValue[v].members, cand)
		}
	}
	for _, g := range groups {
		g.weight = s.weigh(g.members, int64(c.MinGroups))
	}
	return groups
}

// weigh scores a group of candidates, which are in order: foremost by the replicas it has room for,
// as far as they are needed, then by score.
func (s *spreading) weigh(members []candidate, minGroups int64) int64 {
	replicas := int64(s.spec.Replicas)
	var n, score, available int64
	if s.placement.strategy == duplicated {
		for _, c := range members {
			if c.available >= replicas {
				n++
				score += c.score
			}
		}
		if n == 0 {
			return 0
		}
		return 1000*n + score/n
	}
	share := (replicas + minGroups - 1) / minGroups
	least := max(int64(s.clusters.MinGroups), minGroups)
	for _, c := range members {
		n++
		score += c.score
		available += c.available
		if n >= least && available >= share {
			break
		}
	}
	return 1000*min(available, share) + score/n
}
