package schedule

import "fmt"

// Outcome is what became of a member.
type Outcome string

const (
	// Kept: it was a target and is one.
	Kept Outcome = "kept"
	// Chosen: it is a new target.
	Chosen Outcome = "chosen"
	// Refused: it did not pass Rule.
	Refused Outcome = "refused"
	// PassedOver: it could be a target, but others were taken, or none could be.
	PassedOver Outcome = "passed over"
	// Dropped: it was selected and got no replicas.
	Dropped Outcome = "dropped"
)

// Verdict is what became of a member, and why.
type Verdict struct {
	Cluster string
	Outcome Outcome
	// Rule is the filter that refused it, or the step that passed over or dropped it; empty for targets.
	Rule string
	// Message says why, with the values compared.
	Message string
	// Before and Replicas are what it had and has; both 0 where the kind has none.
	Before, Replicas int32
	// Target tells that it was one before.
	Target bool
	// Score, Available and Tier are what candidates are ordered by: locality, room with the replicas
	// that are there, and which affinity matches (0: the term's own).
	Score, Available int64
	Tier             int
}

// The steps that are not filters.
const (
	stepSelect = "SpreadConstraint"
	stepDivide = "ReplicaScheduling"
)

// verdicts explains what a try did with each member.
func (r *run) verdicts(candidates, selected []candidate, done *outcome) []Verdict {
	list := r.refusals()
	for at, c := range candidates {
		v := &list[c.member]
		v.Score, v.Available, v.Tier = c.score, c.available, c.tier
		v.Outcome, v.Rule = PassedOver, stepSelect
		v.Message = fmt.Sprintf("%d of %d candidates were selected%s; it is number %d (score %d, available %d)",
			len(selected), len(candidates), r.chosenGroups(), at+1, c.score, c.available)
	}
	if done.failure != "" {
		r.stay(list, candidates, done)
		return list
	}
	for _, c := range selected {
		v := &list[c.member]
		v.Outcome, v.Rule, v.Message = Dropped, stepDivide, r.dropped(&c)
	}
	for _, t := range done.targets {
		r.taken(&list[r.fleet.index[t.Name]], t.Replicas)
	}
	for _, s := range r.kept {
		list[r.fleet.index[s.Name]].Message = "the workload is not healthy there; scaling down takes nothing from it"
	}
	return list
}

// stay explains a failure: the message goes to every candidate, and unless there was none, targets
// stay what they are.
func (r *run) stay(list []Verdict, candidates []candidate, done *outcome) {
	rule := stepSelect
	if done.failure == Unschedulable {
		rule = stepDivide
	}
	for _, c := range candidates {
		list[c.member].Rule, list[c.member].Message = rule, done.message
	}
	for i := range list {
		if v := &list[i]; v.Target && done.failure != NoClusterFit {
			v.Outcome, v.Replicas = Kept, v.Before
		}
	}
}

// chosenGroups reads " in region eu, us and zone a".
func (r *run) chosenGroups() string {
	var text string
	for i, groups := range r.chosen {
		text += []string{" in", " and"}[min(i, 1)]
		for j, g := range groups {
			if j == 0 {
				text += fmt.Sprintf(" %s %s", g.field, g.name)
			} else {
				text += ", " + g.name
			}
		}
	}
	return text
}

func (r *run) dropped(c *candidate) string {
	if r.placement.strategy == static && r.placement.weights != nil {
		return fmt.Sprintf("selected, but its weight of %d gives it none of %d replicas", r.placement.weights[c.member], r.spec.Replicas)
	}
	return fmt.Sprintf("selected, but it gets none of %d replicas (available %d)", r.spec.Replicas, c.available)
}

// standing explains a result that stands: what is kept, and what would be said of the others.
func (r *run) standing() []Verdict {
	r.fleet.tiersOf(r.term)
	list := r.refusals()
	for i := range list {
		if v := &list[i]; v.Outcome == "" {
			v.Outcome, v.Message = PassedOver, "nothing asks for a new decision"
		}
	}
	for _, t := range r.current {
		if i, found := r.fleet.index[t.Name]; found {
			r.taken(&list[i], t.Replicas)
		}
	}
	return list
}

func (r *run) taken(v *Verdict, replicas int32) {
	v.Outcome, v.Rule, v.Message, v.Replicas = Chosen, "", "", replicas
	if v.Target {
		v.Outcome = Kept
	}
}

// refusals begins the verdicts: with what members had, and the filters they did not pass.
func (r *run) refusals() []Verdict {
	list := make([]Verdict, len(r.fleet.members))
	for i := range list {
		list[i].Cluster = r.fleet.members[i].Name
		if f := r.refusal(i); f != nil {
			list[i].Outcome, list[i].Rule, list[i].Message = Refused, f.rule, f.detail(r, i)
		}
	}
	for _, t := range r.spec.Clusters {
		if i, found := r.fleet.index[t.Name]; found {
			list[i].Target, list[i].Before = true, t.Replicas
		}
	}
	return list
}
