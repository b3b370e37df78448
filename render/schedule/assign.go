package schedule

import (
	"cmp"
	"fmt"
	"slices"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/divide"
)

// assign gives the selected clusters their replicas.
func (r *run) assign(selected []candidate) outcome {
	if len(selected) == 0 {
		return failed(SchedulerError, "no clusters to assign")
	}
	if !r.numbered || r.placement.strategy == duplicated {
		each := r.spec.Replicas
		if !r.numbered {
			each = 0
		}
		targets := r.whole(selected, each)
		if r.Explain {
			r.note("", wholes(targets, each))
		}
		if !r.numbered {
			return outcome{targets: targets}
		}
		return withoutZero(targets)
	}
	if r.placement.strategy == unsupported {
		return failed(SchedulerError, fmt.Sprintf("replicaDivisionPreference %q is not Aggregated or Weighted", r.placement.source.ReplicaScheduling.ReplicaDivisionPreference))
	}
	shares, err := r.divide(selected)
	if err != nil {
		return failed(Unschedulable, err.Error())
	}
	targets := make([]workv1alpha2.TargetCluster, len(shares))
	for i, s := range shares {
		targets[i] = workv1alpha2.TargetCluster{Name: s.Name, Replicas: s.Replicas}
	}
	return withoutZero(targets)
}

// whole gives each selected cluster the same.
func (r *run) whole(selected []candidate, replicas int32) []workv1alpha2.TargetCluster {
	var components []workv1alpha2.TargetComponent
	if r.set {
		for _, c := range r.spec.Components {
			components = append(components, workv1alpha2.TargetComponent{Name: c.Name, Replicas: c.Replicas})
		}
	}
	targets := make([]workv1alpha2.TargetCluster, len(selected))
	for i, c := range selected {
		targets[i] = workv1alpha2.TargetCluster{Name: r.fleet.members[c.member].Name, Replicas: replicas, Components: components}
	}
	return targets
}

// withoutZero drops clusters that got no replicas, and names them.
func withoutZero(targets []workv1alpha2.TargetCluster) outcome {
	var zero []string
	for _, t := range targets {
		if t.Replicas == 0 {
			zero = append(zero, t.Name)
		}
	}
	slices.Sort(zero)
	return outcome{targets: slices.DeleteFunc(targets, func(t workv1alpha2.TargetCluster) bool { return t.Replicas == 0 }), zero: zero}
}

// divide divides the replicas over the selected.
//
// Differs from Karmada: when scaling down, clusters on which the workload is not healthy keep what
// they have, and the others shrink. What an unhealthy cluster loses may go on running there, and
// the replicas it has do not count for much; moving them is the business of failover. If they had
// as many as are wanted altogether, nothing would be left on healthy clusters; then it is as in
// Karmada.
func (r *run) divide(selected []candidate) ([]divide.Share, error) {
	kept, rest := r.keptUnhealthy(selected)
	r.kept = kept
	left := r.spec.Replicas
	for _, s := range kept {
		left -= s.Replicas
	}
	if r.Explain && len(kept) > 0 {
		r.note("members on which the workload is not healthy", divide.Step{How: divide.Kept, Kept: kept})
	}
	shares, err := r.divideTiers(rest, left)
	if err != nil || len(kept) == 0 {
		return shares, err
	}
	shares = append(shares, kept...)
	slices.SortFunc(shares, func(a, b divide.Share) int { return cmp.Compare(a.Name, b.Name) })
	return shares, nil
}

func (r *run) keptUnhealthy(selected []candidate) (kept []divide.Share, rest []candidate) {
	if len(r.Unhealthy) == 0 || r.fresh {
		return nil, selected
	}
	var assigned, held int64
	for _, c := range selected {
		assigned += int64(r.now[c.member])
		if name := r.fleet.members[c.member].Name; r.Unhealthy[name] && r.now[c.member] > 0 {
			held += int64(r.now[c.member])
			kept = append(kept, divide.Share{Name: name, Replicas: r.now[c.member]})
		} else {
			rest = append(rest, c)
		}
	}
	if wanted := int64(r.spec.Replicas); assigned <= wanted || held >= wanted {
		return nil, selected
	}
	return kept, rest
}

// divideTiers fills the term's own clusters first, then those of its overflow affinities, one after
// the other.
func (r *run) divideTiers(selected []candidate, replicas int32) ([]divide.Share, error) {
	if len(r.term.overflow) == 0 {
		return r.divideByStrategy(selected, replicas, -1)
	}
	var shares []divide.Share
	left := int64(replicas)
	for tier := 0; tier <= len(r.term.overflow) && left > 0; tier++ {
		var members []candidate
		for _, c := range selected {
			if c.tier == tier {
				members = append(members, c)
			}
		}
		n := min(left, sumOfAvailable(members))
		more, err := r.divideByStrategy(members, int32(n), tier)
		if err != nil {
			return nil, err
		}
		shares = append(shares, more...)
		left -= n
	}
	if left > 0 {
		return nil, &divide.ShortError{Have: int64(replicas) - left, Need: replicas}
	}
	return shares, nil
}

// divideByStrategy divides replicas by the strategy of the placement; tier is -1 where there is one alone.
func (r *run) divideByStrategy(members []candidate, replicas int32, tier int) ([]divide.Share, error) {
	tie := divide.TieOf(r.spec.Resource.UID)
	weights := make([]divide.Weight, len(members))
	for i, c := range members {
		weights[i].Name = r.fleet.members[c.member].Name
	}
	if r.placement.strategy == static {
		if r.placement.weights != nil {
			for i, c := range members {
				weights[i].Weight = r.placement.weights[c.member]
			}
		}
		if r.Explain {
			r.note(r.tierName(tier), divide.ExplainStatic(replicas, weights, tie))
		}
		return divide.Static(replicas, weights, tie), nil
	}
	for i, c := range members {
		weights[i].Weight = c.room
	}
	d := divide.Dynamic{
		Replicas:   replicas,
		Room:       weights,
		Scheduled:  r.scheduled(members),
		Fresh:      r.fresh,
		Aggregated: r.placement.strategy == aggregated,
		Tie:        tie,
	}
	if r.Explain {
		r.note(r.tierName(tier), d.Explain())
	}
	return d.Divide()
}

// scheduled is what members have now, in the order of the current targets.
func (r *run) scheduled(members []candidate) []divide.Share {
	if len(r.current) == 0 {
		return nil
	}
	for _, c := range members {
		r.subset[c.member] = true
	}
	list := make([]divide.Share, 0, len(r.current))
	for _, t := range r.current {
		if i, found := r.fleet.index[t.Name]; found && r.subset[i] {
			list = append(list, divide.Share{Name: t.Name, Replicas: t.Replicas})
		}
	}
	for _, c := range members {
		r.subset[c.member] = false
	}
	return list
}

func sortedTargets(list []workv1alpha2.TargetCluster) []workv1alpha2.TargetCluster {
	if slices.IsSortedFunc(list, compareTarget) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compareTarget)
	return list
}

func compareTarget(a, b workv1alpha2.TargetCluster) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Replicas, b.Replicas),
		slices.CompareFunc(a.Components, b.Components, func(x, y workv1alpha2.TargetComponent) int {
			return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Replicas, y.Replicas))
		}))
}
