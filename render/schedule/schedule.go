package schedule

import (
	"slices"
	"time"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/divide"
	"github.com/godwit-gitops/godwit/render/project"
)

// Request is one binding to schedule.
type Request struct {
	// Binding is what is known of the binding: its template, placement and replicas as they are
	// wanted now, its clusters, tasks, history and status as they were left by the last decision.
	Binding *workv1alpha2.ResourceBinding
	// Now is compared with the end of blocks; the zero time means that no block has ended.
	Now time.Time
	// Peers knows the other bindings of workload affinity groups; nil means there are none.
	Peers *Peers
	// Unhealthy names members on which the workload is not healthy. Scaling down takes nothing from
	// them, unless nothing would be left for the healthy ones. Nil is Karmada's answer.
	Unhealthy map[string]bool
	// Overdue says of members why the workload would have to leave them at once: a NoExecute taint is tolerated for a
	// time that is over. They are refused, unless it runs there. Nil is Karmada's answer.
	Overdue map[string]string
	// Project is whose the template is; members that it does not have are refused. Nil has all.
	Project *project.Project
	// Compat gives Karmada's answer where godwit's differs: constraints by zone and provider are not
	// enforced, blocks have no default length, and a decision need not be settled.
	Compat bool
	// Explain asks for Result.Reasons.
	Explain bool
}

// Failure is the class of a failed decision, the reason of the Scheduled condition.
type Failure string

const (
	// NoClusterFit: no member passed the filters. The targets are cleared.
	NoClusterFit Failure = "NoClusterFit"
	// Unschedulable: there is not enough room. The previous targets stay.
	Unschedulable Failure = "Unschedulable"
	// SchedulerError: a constraint cannot be satisfied. The previous targets stay.
	SchedulerError Failure = "SchedulerError"
)

// Result is the decision.
type Result struct {
	// Trigger says what asked for the decision, or why none was made.
	Trigger Trigger
	// Clusters are the targets in force from now on, in Karmada's order. Members that got no replicas
	// are left out. If nothing changed, it is the list that was there.
	Clusters []workv1alpha2.TargetCluster
	// Affinity is the name of the clusterAffinities term in force, for status.schedulerObservingAffinityName.
	Affinity string
	// Failure is empty if the decision succeeded, or none was made; Message then is too.
	Failure Failure
	Message string
	// Tried are the terms of clusterAffinities that failed before, in order.
	Tried []Attempt
	// ZeroReplicas are members that were selected and got no replicas, sorted by name.
	ZeroReplicas []string
	// Wake is when the first block ends that refuses a member; zero if none does, or it never ends.
	Wake time.Time
	// Reasons say why; nil unless Request.Explain asks for them.
	*Reasons
}

// Reasons are the explanation of a decision.
type Reasons struct {
	// Verdicts say what became of each member, sorted by name.
	Verdicts []Verdict
	// Groups are those that spread constraints chose from, in the order of the constraints.
	Groups []Group
	// Division is the arithmetic of the replicas; nil if it did not come to that.
	Division *Division
	// Anew is what a reschedule would decide; nil where one changes nothing of the way it is decided.
	Anew *Anew
	// Blocks are the members that refuse the workload after an eviction, sorted by name.
	Blocks []Block
}

// Attempt is a term that failed.
type Attempt struct {
	Affinity string
	Failure  Failure
	Message  string
	// Reasons say why; nil unless Request.Explain asks for them.
	*Reasons
}

// Schedule decides where the binding runs.
func (f *Fleet) Schedule(q Request) Result {
	r := f.begin(q)
	trigger := r.trigger()
	result := Result{Trigger: trigger, Clusters: r.spec.Clusters, Affinity: q.Binding.Status.SchedulerObservedAffinityName, Wake: r.wake}
	if !trigger.Asks() {
		if q.Explain {
			r.term = &r.placement.terms[r.firstTerm()]
			result.Reasons = &Reasons{Verdicts: r.standing(unasked[trigger]), Division: r.standingDivision()}
			result.Blocks = r.blocks()
			result.Anew = f.anew(q, trigger)
		}
		return result
	}
	done, tried := r.terms(r.firstTerm())
	if done.failure == "" {
		done, tried = r.settle(done, tried)
	}
	result.Failure, result.Message, result.Reasons = done.failure, done.message, done.reasons
	switch done.failure {
	case "":
		result.Affinity, result.ZeroReplicas, result.Tried = done.affinity, done.zero, tried
		// The order of the same targets is no news: it would only be a commit.
		if !sameTargets(done.targets, r.spec.Clusters) {
			result.Clusters = done.targets
		}
	case NoClusterFit:
		result.Clusters, result.Tried = nil, tried
	default:
		result.Tried = tried
	}
	if q.Explain {
		result.Blocks = r.blocks()
		result.Anew = f.anew(q, trigger)
	}
	return result
}

// run is one request on its way through the steps.
type run struct {
	Request
	fleet     *Fleet
	spec      *workv1alpha2.ResourceBindingSpec
	placement *placement
	demand    demand
	workload  bool // has replicas, requirements or components
	numbered  bool // targets get replicas
	set       bool // components go to one cluster, all together
	fresh     bool // forget what was there
	serving   []bool
	allowed   []bool // by member: the project has it; nil if it has all
	wake      time.Time

	term    *term                        // being tried
	current []workv1alpha2.TargetCluster // what there is before the run
	mark    []mark                       // by member
	now     []int32                      // by member: its replicas in current

	chosen [][]*clusterGroup // groups chosen, by constraint
	kept   []divide.Share    // what unhealthy members keep while the others shrink
	steps  []Step            // of the division; only to explain it

	candidates []candidate // buffer
	subset     []bool      // buffer
}

// mark is what a binding makes of a member.
type mark uint8

const (
	target   mark = 1 << iota // runs there
	evicting                  // is leaving it
	blocked                   // left it not long ago
	apart                     // peers of the affinity group are not there
	shared                    // a peer of the anti-affinity group is there
)

func (f *Fleet) begin(q Request) *run {
	spec := &q.Binding.Spec
	r := &f.run
	*r = run{
		Request: q, fleet: f, spec: spec, placement: f.compile(spec.Placement),
		mark: zeroed(r.mark, len(f.members)), now: zeroed(r.now, len(f.members)),
		candidates: r.candidates, subset: zeroed(r.subset, len(f.members)),
		serving: f.serving(kind{spec.Resource.APIVersion, spec.Resource.Kind}), allowed: f.allowed(q.Project),
	}
	r.workload = spec.Replicas > 0 || spec.ReplicaRequirements != nil || len(spec.Components) > 0
	r.numbered = (spec.Replicas > 0 || spec.ReplicaRequirements != nil) && len(spec.Components) <= 1
	r.set = len(spec.Components) > 0 && r.placement.pinned()
	r.fresh = r.rescheduled()
	r.demand = f.demandOf(spec, r.set)
	r.setCurrent(spec.Clusters)
	r.markEvictions()
	r.markPeers()
	return r
}

// zeroed returns buf with n zero elements.
func zeroed[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n)
	}
	buf = buf[:n]
	clear(buf)
	return buf
}

// setCurrent makes the run start from the targets.
func (r *run) setCurrent(targets []workv1alpha2.TargetCluster) {
	for _, t := range r.current {
		if i, found := r.fleet.index[t.Name]; found {
			r.mark[i] &^= target
			r.now[i] = 0
		}
	}
	r.current = targets
	for _, t := range targets {
		if i, found := r.fleet.index[t.Name]; found {
			r.mark[i] |= target
			r.now[i] = t.Replicas
		}
	}
}

// firstTerm is where the search through clusterAffinities begins: at the term in force. It never
// goes back to earlier ones, unless a reschedule asks for it.
func (r *run) firstTerm() int {
	if r.fresh {
		return 0
	}
	return r.termInForce(r.Binding.Status.SchedulerObservedAffinityName)
}

func (r *run) termInForce(name string) int {
	return max(0, slices.IndexFunc(r.placement.terms, func(t term) bool { return r.placement.named && t.name == name }))
}

// outcome is what came of one term.
type outcome struct {
	affinity string
	targets  []workv1alpha2.TargetCluster
	zero     []string
	failure  Failure
	message  string
	reasons  *Reasons // nil unless asked for
}

func (o outcome) same(other outcome) bool {
	return o.affinity == other.affinity && sameTargets(o.targets, other.targets)
}

func failed(class Failure, message string) outcome { return outcome{failure: class, message: message} }

// terms tries one term after the other, beginning with first; the first success counts. If there is
// none, the first failure does.
func (r *run) terms(first int) (outcome, []Attempt) {
	var failure outcome
	var tried []Attempt
	for i := first; i < len(r.placement.terms); i++ {
		r.term = &r.placement.terms[i]
		done := r.try()
		if done.failure == "" {
			done.affinity = r.term.name
			return done, tried
		}
		if r.placement.named {
			tried = append(tried, Attempt{r.term.name, done.failure, done.message, done.reasons})
		}
		if i == first {
			failure = done
		}
	}
	return failure, tried
}

// try schedules with one term.
func (r *run) try() outcome {
	var selected []candidate
	var done outcome
	r.chosen, r.kept, r.steps = nil, nil, nil
	candidates := r.filter()
	if len(candidates) == 0 {
		done = failed(NoClusterFit, r.fitError())
	} else {
		r.order(candidates)
		var problem string
		if selected, problem = r.choose(candidates); problem != "" {
			done = failed(SchedulerError, problem)
		} else {
			done = r.assign(selected)
		}
	}
	if r.Explain {
		done.reasons = &Reasons{Verdicts: r.verdicts(candidates, selected, &done), Groups: r.groups(candidates), Division: r.division()}
	}
	return done
}

// settle repeats a decision that would be made again at once, until it stands. Only bindings that
// are scheduled whenever they are looked at can need this, and only where groups of clusters are
// chosen: what was placed raises locality and room, and with them the scores of groups.
//
// Differs from Karmada: it writes each of these results, one after the other.
func (r *run) settle(done outcome, tried []Attempt) (outcome, []Attempt) {
	if r.Compat || !r.always() || len(r.groupConstraints()) == 0 {
		return done, tried
	}
	before := outcome{affinity: r.Binding.Status.SchedulerObservedAffinityName, targets: r.current}
	first := done
	done = fixedPoint(before, done, func(last outcome) outcome {
		r.setCurrent(last.targets)
		next, more := r.terms(r.termInForce(last.affinity))
		tried = append(tried, more...)
		return next
	})
	if r.Explain && done.same(first) {
		done.reasons = first.reasons // which do not take what was just placed for what was there
	}
	return done, tried
}

// patience is how often a decision is repeated at most. Three times were the most ever seen.
const patience = 32

// fixedPoint repeats step until it changes nothing, or fails. Of outcomes that lead to each other in
// a circle, the smallest by names stands, so that from each of them it is the same.
func fixedPoint(start, first outcome, step func(outcome) outcome) outcome {
	seen := []outcome{start, first}
	last := first
	for !last.same(seen[len(seen)-2]) && len(seen) < patience {
		next := step(last)
		if next.failure != "" {
			return next
		}
		if i := slices.IndexFunc(seen[:len(seen)-1], next.same); i >= 0 {
			seen[i] = next
			return slices.MinFunc(seen[i:], func(a, b outcome) int { return compareTargets(a.targets, b.targets) })
		}
		seen, last = append(seen, next), next
	}
	return last
}

// sameTargets compares regardless of order.
func sameTargets(a, b []workv1alpha2.TargetCluster) bool {
	return len(a) == len(b) && compareTargets(a, b) == 0
}

// compareTargets orders lists by their names and replicas, sorted.
func compareTargets(a, b []workv1alpha2.TargetCluster) int {
	return slices.CompareFunc(sortedTargets(a), sortedTargets(b), compareTarget)
}

// demandsRoom is how many replicas the selected clusters must have room for; 0 if room does not matter.
func (r *run) demandsRoom() int64 {
	switch {
	case r.placement.strategy == duplicated:
		return 0
	case r.set:
		return 1
	}
	return int64(r.spec.Replicas)
}

// groupConstraints are the constraints on regions, providers and zones in force.
//
// Differs from Karmada: it filters out clusters without zone or provider, but does not enforce how
// many there are.
func (r *run) groupConstraints() []policyv1alpha1.SpreadConstraint {
	grouped := r.placement.grouped
	if r.Compat && len(grouped) > 0 {
		if grouped[0].SpreadByField == policyv1alpha1.SpreadByFieldRegion {
			return grouped[:1]
		}
		return nil
	}
	return grouped
}
