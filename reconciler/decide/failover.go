package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// ConditionFailoverBlocked is True while a workload should leave a member and cannot.
const ConditionFailoverBlocked = "FailoverBlocked"

// annotationOperator tells when a person last put the binding where it is: failover counts from then on.
const annotationOperator = "godwit.dev/operator-at"

// failing is what failover makes of a binding.
type failing struct {
	// copies are what is seen of the binding's copies, with their timers; nil if nothing depends on them.
	copies []workv1alpha2.AggregatedStatusItem
	// causes make it leave members, now or later.
	causes []failover.Cause
	// evicted are those that made it, in this pass.
	evicted []failover.Cause
	// ended are the tasks, and unblocked the blocks, that are over since this pass.
	ended     []failover.Ended
	unblocked []workv1alpha2.EvictionRecord
	// homes are members that it left and is to go back to now.
	homes []string
	// returned are those of them that it goes back to, in this pass.
	returned []string
	// blocked says why it cannot leave; empty if it can, or need not.
	blocked string
	// waits says what keeps it where it should leave now, the brake or the rate; empty if neither does.
	waits string
	// wake is when time alone changes something; zero means never.
	wake time.Time
}

// managed tells whether failover has to look at the copies of a binding.
func managed(spec *workv1alpha2.ResourceBindingSpec) bool {
	return failover.Watched(spec) || len(spec.GracefulEvictionTasks) > 0
}

// tend takes tasks and blocks off a binding that are over, before it is scheduled: what they kept
// away may be chosen again at once.
func (p *pass) tend(b *bound) {
	if b.old == nil {
		return
	}
	spec := &b.next.Spec
	if t, ok := p.Edited[b.row.Key]; ok {
		b.next.Annotations = with(b.next.Annotations, annotationOperator, t.UTC().Format(time.RFC3339))
	}
	if managed(spec) {
		b.copies = p.watch(b, b.old, p.Previous.Works)
	}
	if len(spec.GracefulEvictionTasks) > 0 {
		kept, ended, wake := failover.Finish(spec, b.copies, isScheduled(b.old), p.Previous.Meta.PassTime.UTC(), p.Now, p.rulesOf(b))
		spec.GracefulEvictionTasks, b.ended = kept, ended
		b.wakeAt(wake)
	}
	if len(spec.ActiveEvictionHistory) > 0 {
		kept, ended, wake := failover.Unblock(spec, p.Now, p.rulesOf(b))
		spec.ActiveEvictionHistory, b.unblocked = kept, ended
		b.wakeAt(wake)
	}
}

// edited tells whether a person's commits at the end of the branch changed the binding.
func (p *pass) edited(b *bound) bool {
	_, ok := p.Edited[b.row.Key]
	return ok
}

func (b *bound) wakeAt(t time.Time) {
	if !t.IsZero() && (b.wake.IsZero() || t.Before(b.wake)) {
		b.wake = t
	}
}

func isScheduled(b *workv1alpha2.ResourceBinding) bool {
	return slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == workv1alpha2.ConditionScheduled && c.Status == metav1.ConditionTrue
	})
}

// watch is what the copies of a binding look like beside those works, with the timers on their health.
func (p *pass) watch(b *bound, binding *workv1alpha2.ResourceBinding, works map[string]record.Work) []workv1alpha2.AggregatedStatusItem {
	items, stale := p.copies(b, binding, works)
	if !managed(&binding.Spec) && !failover.Watched(&b.next.Spec) && !slices.ContainsFunc(items, timed) {
		return items
	}
	return failover.Watch(&b.next.Spec, p.lastSeen(b, binding), items, stale, p.Now, p.Options.Failover)
}

// timed: the copy has timers on record.
func timed(item workv1alpha2.AggregatedStatusItem) bool {
	return item.Settled || item.CreationTimestamp != nil || item.LastHealthTransitionTime != nil
}

// threaten finds what makes a binding leave its clusters, now or later.
func (p *pass) threaten(b *bound) {
	b.causes = failover.Causes(&b.next.Spec, failover.Facts{Copies: b.copies, Taints: p.noExecute, Restart: operatorAt(b.next)}, p.Options.Failover)
	due := false
	for _, c := range b.causes {
		due = due || c.Due(p.Now)
		if !c.Due(p.Now) {
			b.wakeAt(c.At)
		}
	}
	p.seekHomes(b, due)
	if !b.wake.IsZero() {
		p.wakeAt(b.wake)
	}
	if !due {
		p.unblock(b)
	}
	p.forgetOperator(b)
}

func operatorAt(b *workv1alpha2.ResourceBinding) time.Time {
	t, err := time.Parse(time.RFC3339, b.Annotations[annotationOperator])
	if err != nil {
		return time.Time{} // not there, or not ours
	}
	return t
}

// noExecute are the NoExecute taints of a member, told apart by who put them there.
func (p *pass) noExecute(member string) []failover.Taint {
	c := p.next.Members[member]
	if c == nil {
		return nil
	}
	var taints []failover.Taint
	for _, t := range c.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, failover.Taint{Taint: t, Outage: p.isOutage(member, t)})
		}
	}
	return taints
}

// evict lets bindings leave the members they have to leave, those with a higher priority first: where
// the brake and the rate allow it and another member fits.
//
// Differs from Karmada: it looks before it leaps (differences, row 9), unless its answers are asked for.
func (p *pass) evict(peers *schedule.Peers) {
	p.brake()
	var due []*bound
	leaving := map[string]bool{}
	for _, b := range p.bound {
		if b.next == nil || b.kept {
			continue
		}
		now := b.dueClusters(p.Now)
		if len(now) == 0 {
			continue
		}
		due = append(due, b)
		for _, name := range now {
			leaving[name] = true
		}
	}
	slices.SortStableFunc(due, func(a, b *bound) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), a.row.Key.Compare(b.row.Key))
	})
	budget := failover.NewBudget(p.Previous.Meta.Evictions, p.Options.MaxEvictionsPerMinute, p.Now)
	braked := p.next.Meta.FailoverBrake
	for _, b := range due {
		switch {
		case braked != nil && !braked.Approved:
			b.waits = "the brake holds it: " + braked.Message + "; most members have to be back, or godwit approve lets it go"
			p.unblock(b)
		case !budget.Allows(leaving):
			b.waits = "it waits, as many leave at once: more may from " + budget.Frees().UTC().Format(time.RFC3339)
			p.unblock(b)
			p.wakeAt(budget.Frees())
		default:
			p.leave(b, peers)
			for _, c := range b.evicted {
				budget.Take(c.Cluster)
			}
			p.await(b)
		}
	}
	if spent := budget.Spent(); len(spent) > 0 {
		p.next.Meta.Evictions = spent
	} else {
		p.next.Meta.Evictions = nil
	}
}

// await asks to look again when what has just begun is over.
func (p *pass) await(b *bound) {
	if len(b.evicted) == 0 {
		return
	}
	_, _, ends := failover.Finish(&b.next.Spec, b.copies, isScheduled(b.next), p.Now, p.Now, p.Options.Failover)
	_, _, frees := failover.Unblock(&b.next.Spec, p.Now, p.Options.Failover)
	for _, t := range []time.Time{ends, frees} {
		if !t.IsZero() {
			p.wakeAt(t)
		}
	}
}

func (b *bound) dueClusters(now time.Time) []string {
	var names []string
	for _, c := range b.causes {
		if c.Due(now) && (len(names) == 0 || names[len(names)-1] != c.Cluster) {
			names = append(names, c.Cluster)
		}
	}
	return names
}

func priority(b *bound) int32 {
	if s := b.next.Spec.SchedulePriority; s != nil {
		return s.Priority
	}
	return 0
}

// brake decides whether it is rather us who are cut off.
func (p *pass) brake() {
	before := p.Previous.Meta.FailoverBrake
	p.next.Meta.FailoverBrake = nil
	if p.Options.CompatKarmada {
		return
	}
	o := failover.Outages{CutOff: p.Seen.CutOff, Window: p.Options.BrakeWindow}
	for _, c := range p.fleet.clusters {
		ready := readiness(c)
		if ready.Status == "" || p.fleet.leaving[c.Name] {
			continue
		}
		o.Total++
		if ready.Status != metav1.ConditionTrue {
			o.Since = append(o.Since, ready.LastTransitionTime.UTC())
		}
	}
	p.next.Meta.FailoverBrake = failover.Brake(before, o, p.Now)
}

// leave moves the binding off all members it has to leave; where the others have no room for all of
// it, off as many as they have room for.
func (p *pass) leave(b *bound, peers *schedule.Peers) {
	var due []failover.Cause
	for _, c := range b.causes {
		if c.Due(p.Now) && !slices.ContainsFunc(due, func(d failover.Cause) bool { return d.Cluster == c.Cluster }) {
			due = append(due, c)
		}
	}
	why := p.tryLeaving(b, peers, due)
	if why != "" && len(due) > 1 {
		for _, c := range due {
			p.tryLeaving(b, peers, append(slices.Clone(b.evicted), c))
		}
	}
	b.causes = slices.DeleteFunc(b.causes, func(c failover.Cause) bool { return failover.Leaving(&b.next.Spec, c.Cluster) })
	p.forgetOperator(b)
	if len(b.evicted) == len(due) {
		p.unblock(b)
		return
	}
	p.blocked(b, why)
}

// forgetOperator forgets when a person put the binding where it is, once no timer runs from then. In
// the second of it nobody can know: what is seen then may still be of the time before.
func (p *pass) forgetOperator(b *bound) {
	at := operatorAt(b.next)
	switch {
	case at.IsZero() || len(b.causes) > 0:
		return
	case !p.Now.After(at):
		b.wakeAt(at.Add(time.Second))
		p.wakeAt(at.Add(time.Second))
		return
	}
	next := *b.next
	next.Annotations = without(next.Annotations, annotationOperator)
	b.next = &next
}

// refused says that the scheduler found no place; the words come later, when it is known what stays.
const refused = "refused"

// tryLeaving decides on the binding without the members of all the causes. It returns why it cannot
// leave them, and then nothing has changed.
func (p *pass) tryLeaving(b *bound, peers *schedule.Peers, causes []failover.Cause) (why string) {
	before := *b
	base := b.next
	if len(b.evicted) > 0 {
		base = b.stayed
	}
	next := *base
	namespaced := b.row.Key.Namespace != ""
	for _, c := range causes {
		spec, err := failover.Evict(next.Spec, namespaced, c, b.copies, p.Now, p.rulesOf(b))
		if err != nil {
			return err.Error()
		}
		next.Spec = spec
	}
	b.next, b.stayed, b.evicted = &next, base, causes
	wake := p.Wake
	result := p.schedule(b, peers)
	switch {
	case p.Options.CompatKarmada:
		return ""
	case b.row.Failure != "":
		why = refused
	case len(b.next.Spec.Clusters) == 0:
		why = refused
	case !result.Trigger.Asks() && len(b.next.Spec.Clusters) < len(base.Spec.Clusters) && divided(next.Spec.Placement):
		why = b.row.Message // scheduling is suspended, or somebody else's: what it loses nobody would place
	case p.allDown(grown(base, b.next)):
		why = "only members that are down have room: " + strings.Join(grown(base, b.next), ", ")
	default:
		return ""
	}
	*b = before
	p.Wake = wake // no block ends that did not begin
	peers.Put(b.next)
	return why
}

// refusals are what the scheduler has against each member but those that the binding cannot leave for
// it. They say nothing of how long is left: the words stay the same until something changes.
func (p *pass) refusals(b *bound, stuck []string) string {
	without := *b.next
	for _, c := range b.causes {
		if slices.Contains(stuck, c.Cluster) {
			if spec, err := failover.Evict(without.Spec, b.row.Key.Namespace != "", c, b.copies, p.Now, p.Options.Failover); err == nil {
				without.Spec = spec
			}
		}
	}
	result := p.fleet.schedule.Schedule(schedule.Request{Binding: &without, Unhealthy: p.unhealthy(b), Project: p.projectOf(b.template), Compat: p.Options.CompatKarmada, Explain: true})
	const most = 10
	var words []string
	more := 0
	if result.Reasons != nil {
		for _, v := range result.Verdicts {
			if v.Message == "" || slices.Contains(stuck, v.Cluster) {
				continue
			}
			if len(words) == most {
				more++
				continue
			}
			words = append(words, v.Cluster+": "+v.Message)
		}
	}
	switch {
	case len(words) == 0:
		return "there is no other member"
	case more > 0:
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

// allDown tells whether members are down, all of them. Like Karmada, the scheduler lets a workload
// grow where it is already, down or not; a failover to there alone would make things worse.
func (p *pass) allDown(members []string) bool {
	for _, name := range members {
		if c := p.next.Members[name]; c == nil || outageKeys[readiness(c).Status] == "" {
			return false
		}
	}
	return len(members) > 0
}

// blocked says on the binding why it cannot leave a member that it should.
func (p *pass) blocked(b *bound, why string) {
	names := b.dueClusters(p.Now)
	for _, c := range b.evicted {
		names = slices.DeleteFunc(names, func(n string) bool { return n == c.Cluster })
	}
	if why == refused {
		why = p.refusals(b, names)
	}
	b.blocked = fmt.Sprintf("should leave %s and has nowhere to go: %s", strings.Join(names, ", "), why)
	p.setBlocked(b, &metav1.Condition{
		Type: ConditionFailoverBlocked, Status: metav1.ConditionTrue, Reason: "NoTarget", Message: b.blocked,
		LastTransitionTime: metav1.NewTime(p.Now),
	})
}

// unblock takes back that a binding cannot leave.
func (p *pass) unblock(b *bound) { p.setBlocked(b, nil) }

func (p *pass) setBlocked(b *bound, c *metav1.Condition) {
	old := b.next.Status.Conditions
	i := slices.IndexFunc(old, func(o metav1.Condition) bool { return o.Type == ConditionFailoverBlocked })
	switch {
	case c == nil && i < 0:
		return
	case c != nil && i >= 0:
		c.LastTransitionTime = old[i].LastTransitionTime
		if old[i] == *c {
			return
		}
	}
	next := *b.next
	next.Status.Conditions = slices.DeleteFunc(slices.Clone(old), func(o metav1.Condition) bool { return o.Type == ConditionFailoverBlocked })
	if c != nil {
		next.Status.Conditions = append(next.Status.Conditions, *c)
		slices.SortFunc(next.Status.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	}
	b.next = &next
}

// purging tells whether the new copies have to wait: one that has to go at once is not gone yet.
func (p *pass) purging(b *bound) bool {
	for _, task := range b.next.Spec.GracefulEvictionTasks {
		if task.PurgeMode != policyv1alpha1.PurgeDirectly {
			continue
		}
		path := record.WorkPath(task.FromCluster, b.row.Template)
		if _, there := p.Previous.Works[path]; there {
			return true
		}
		r, going := p.Previous.Retired[record.RetiredPath(task.FromCluster, b.row.Template)]
		if going && !p.Seen.Members[r.Cluster].Copies[b.row.Template.Unversioned()].Gone {
			return true
		}
	}
	return false
}

// failbackAfter is for how long a member has to be well before its binding goes back there; ok is false
// where it does not.
func failbackAfter(annotations map[string]string) (after time.Duration, ok bool) {
	text, found := strings.CutPrefix(annotations[policy.AnnotationFailBack], "after=")
	after, err := time.ParseDuration(text)
	return after, found && err == nil && after >= 0
}

// rulesOf are the rules of failover for one binding.
func (p *pass) rulesOf(b *bound) failover.Options {
	o := p.Options.Failover
	_, o.KeepHistory = failbackAfter(b.next.Annotations)
	return o
}

// seekHomes finds the members that the binding left and may go back to, now or later.
func (p *pass) seekHomes(b *bound, due bool) {
	after, ok := failbackAfter(b.next.Annotations)
	if !ok {
		return
	}
	for _, r := range b.next.Spec.ActiveEvictionHistory {
		c := p.next.Members[r.ClusterName]
		if c == nil || readiness(c).Status != metav1.ConditionTrue {
			continue // there will be news of it
		}
		at := r.CreationTimestamp.UTC()
		if up := readiness(c).LastTransitionTime.UTC(); up.After(at) {
			at = up
		}
		at = at.Add(after)
		if end, blocks := schedule.BlockEnd(&b.next.Spec, r.CreationTimestamp.Time, p.Options.CompatKarmada); blocks && end.IsZero() {
			continue // it is refused for ever
		} else if blocks && end.After(at) {
			at = end
		}
		switch {
		case p.Now.Before(at):
			b.wakeAt(at)
		case due || len(b.next.Spec.GracefulEvictionTasks) > 0:
		case len(b.ended) > 0 || !p.Now.After(p.Previous.Meta.PassTime.Time):
			b.wakeAt(p.Now.Add(time.Second)) // one thing after the other: each is on record by itself
		default:
			b.homes = append(b.homes, r.ClusterName)
		}
	}
}

// comeBack lets bindings go back to members that they left, where they would run if they were placed
// for the first time.
func (p *pass) comeBack(peers *schedule.Peers) {
	for _, b := range p.bound {
		if b.next == nil || b.kept || len(b.homes) == 0 {
			continue
		}
		before := *b
		next := *b.next
		trigger := metav1.NewTime(p.Now)
		next.Spec.RescheduleTriggeredAt, next.Spec.Clusters = &trigger, nil
		b.next = &next
		p.schedule(b, peers)
		var home []string
		for _, t := range b.next.Spec.Clusters {
			if slices.Contains(before.homes, t.Name) {
				home = append(home, t.Name)
			}
		}
		if b.row.Failure != "" || len(home) == 0 {
			*b = before
			peers.Put(b.next)
			continue
		}
		spec := &b.next.Spec
		for _, t := range before.next.Spec.Clusters {
			if !slices.ContainsFunc(spec.Clusters, func(n workv1alpha2.TargetCluster) bool { return n.Name == t.Name }) {
				*spec = failover.Return(*spec, t, strings.Join(home, ", "), p.Now)
			}
		}
		spec.ActiveEvictionHistory = slices.DeleteFunc(slices.Clone(spec.ActiveEvictionHistory), func(r workv1alpha2.EvictionRecord) bool { return slices.Contains(home, r.ClusterName) })
		b.returned, b.stayed = home, before.next
		b.causes = slices.DeleteFunc(b.causes, func(c failover.Cause) bool { return failover.Leaving(&b.next.Spec, c.Cluster) })
		p.forgetOperator(b)
	}
}

// failoverEvents say what failover did to a binding, in the words of a commit.
func (b *bound) failoverEvents() []Event {
	var events []Event
	key := b.row.Key.String()
	if len(b.evicted) > 0 {
		from := make([]string, len(b.evicted))
		why := make([]string, len(b.evicted))
		for i, c := range b.evicted {
			from[i], why[i] = c.Cluster, c.Cluster+": "+c.Text
		}
		events = append(events, Event{
			Verb: VerbFailover, Object: key, From: strings.Join(from, ", "), Reason: Reason(b.evicted[0].Kind),
			What: fmt.Sprintf("%s -> %s", strings.Join(from, ", "), gained(b.stayed, b.next)), Why: strings.Join(why, "; "),
		})
	}
	if len(b.returned) > 0 {
		events = append(events, Event{Verb: VerbFailback, Object: key, What: "back to " + strings.Join(b.returned, ", "), Reason: Rebalance})
	}
	for _, e := range b.ended {
		events = append(events, Event{Verb: "leave", Object: key, What: e.Task.FromCluster, Why: e.Why, Reason: PurgeDone})
	}
	for _, r := range b.unblocked {
		events = append(events, Event{Verb: "cooldown", Object: key, What: r.ClusterName + " may be taken again", Reason: CooldownEnded})
	}
	if c := blockedCondition(b.next); c != nil && b.blocked != "" && blockedCondition(b.old) == nil {
		events = append(events, Event{Verb: VerbBlocked, Object: key, What: c.Message, Reason: Reason(b.causes[0].Kind)})
	}
	return events
}

func blockedCondition(b *workv1alpha2.ResourceBinding) *metav1.Condition {
	if b == nil {
		return nil
	}
	for i, c := range b.Status.Conditions {
		if c.Type == ConditionFailoverBlocked {
			return &b.Status.Conditions[i]
		}
	}
	return nil
}

// gained are the clusters that a binding has anew or with more replicas, or else all that it has left.
func gained(before, after *workv1alpha2.ResourceBinding) string {
	more := grown(before, after)
	if len(more) == 0 {
		more = names(after.Spec.Clusters)
	}
	return cmp.Or(strings.Join(more, ", "), "nowhere")
}

// grown are the clusters that a binding has anew or with more replicas, sorted.
func grown(before, after *workv1alpha2.ResourceBinding) []string {
	had := map[string]int32{}
	for _, t := range before.Spec.Clusters {
		had[t.Name] = t.Replicas
	}
	var more []string
	for _, t := range after.Spec.Clusters {
		if n, was := had[t.Name]; !was || t.Replicas > n {
			more = append(more, t.Name)
		}
	}
	slices.Sort(more)
	return more
}

// BrakeReleased is what an Event says when evictions are not held back any more.
const BrakeReleased = "most members are back"

// brakeEvents say that evictions are held back, or no longer.
func (p *pass) brakeEvents() []Event {
	before, now := p.Previous.Meta.FailoverBrake, p.next.Meta.FailoverBrake
	switch {
	case before == nil && now != nil:
		return []Event{{Verb: VerbBrake, Object: "fleet", What: now.Message + "; no workload leaves a member until most are back or it is approved", Reason: ClusterFailure}}
	case before != nil && now == nil:
		return []Event{{Verb: VerbBrake, Object: "fleet", What: BrakeReleased, Reason: Status}}
	}
	return nil
}
