package decide

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// statusSettle is how long status rests after a commit before it is written, so that the record
// shows what a change came to and not its first second.
const statusSettle = 2 * time.Second

// statusDue tells from when on changes that are status alone may be committed.
func (p *pass) statusDue() time.Time {
	if p.Options.StatusInterval == 0 {
		return time.Time{}
	}
	due := p.Previous.Meta.PassTime.Add(statusSettle)
	if last := p.Previous.Meta.StatusTime; last != nil && last.Add(p.Options.StatusInterval).After(due) {
		due = last.Add(p.Options.StatusInterval)
	}
	return due
}

// repeat writes into a binding what was recorded of its copies when this was decided for the first
// time: what was seen is a fact, and no part of the decision.
func (p *pass) repeat(b *bound) {
	then := p.Recorded.Bindings[b.row.Key]
	if then == nil || semanticEqual(then.Status.AggregatedStatus, b.next.Status.AggregatedStatus) {
		return
	}
	p.report(b, then.Status.AggregatedStatus)
}

// report writes into a binding what its copies look like.
func (p *pass) report(b *bound, items []workv1alpha2.AggregatedStatusItem) {
	next := *b.next
	next.Status.AggregatedStatus = items
	next.Status.Conditions = p.fullyApplied(next.Status.Conditions, items)
	b.next = &next
	p.next.Bindings[b.row.Key] = b.next
	if slices.ContainsFunc(items, func(i workv1alpha2.AggregatedStatusItem) bool { return i.Applied || i.AppliedMessage != "" }) {
		p.next.Meta.StatusTime = &metav1.Time{Time: p.Now}
	}
}

// aggregate writes into the bindings what their copies look like, if that is due.
func (p *pass) aggregate() {
	if p.Seen.Members == nil {
		return
	}
	due := p.statusDue()
	for _, b := range p.bound {
		if b.next == nil {
			continue
		}
		if p.Recorded != nil {
			p.repeat(b)
			continue
		}
		made := p.Memo.rendered[b.row.Key]
		if b.same && made.settled && p.heard.same(made.seen) && !slices.ContainsFunc(made.works, func(w record.Work) bool { return p.news[w.Member] }) {
			p.heard.again(made.seen)
			p.blame(made.slips)
			continue
		}
		b.slips = nil
		looked := len(p.heard.looked)
		items := p.watch(b, b.next, p.next.Works)
		p.blame(b.slips)
		settled := sameItems(items, b.next.Status.AggregatedStatus)
		if made != nil {
			made.settled, made.seen, made.slips = settled && !b.unsure, p.heard.since(looked), b.slips
		}
		if settled {
			continue
		}
		if p.Now.Before(due) && len(b.ended) == 0 && len(b.evicted) == 0 && failover.SameTimers(&b.next.Spec, items, b.next.Status.AggregatedStatus) {
			p.wakeAt(due)
			if p.unwritten == nil {
				p.unwritten = map[record.BindingKey][]workv1alpha2.AggregatedStatusItem{}
			}
			p.unwritten[b.row.Key] = items
			continue
		}
		p.report(b, items)
	}
}

// slip is a question about a copy to a rule that cannot say.
type slip struct {
	err      error
	question string
}

// slipped notes what cannot be told of the copy on a member, if err is not nil.
func (b *bound) slipped(err error, what, member string) {
	if err != nil {
		b.slips = append(b.slips, slip{err, fmt.Sprintf("%s of %s on %s", what, b.row.Template, member)})
	}
}

// blame notes which scripts of users slipped. What they said of other objects stands.
func (p *pass) blame(slips []slip) {
	for _, s := range slips {
		p.failures.Add(s.err, s.question)
	}
}

func sameItems(a, b []workv1alpha2.AggregatedStatusItem) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// copies is what the copies of a binding look like. A member that does not answer keeps what was last
// seen there: silence is no news of the application.
// stale names those.
func (p *pass) copies(b *bound, binding *workv1alpha2.ResourceBinding, works map[string]record.Work) (items []workv1alpha2.AggregatedStatusItem, stale map[string]bool) {
	before := map[string]workv1alpha2.AggregatedStatusItem{}
	for _, item := range p.lastSeen(b, binding) {
		before[item.ClusterName] = item
	}
	expected := expectedClusters(binding)
	items = make([]workv1alpha2.AggregatedStatusItem, 0, len(expected))
	for _, name := range expected {
		old, known := before[name]
		item, fresh := p.copyStatus(b, name, old, works)
		if !fresh {
			if stale == nil {
				stale = map[string]bool{}
			}
			stale[name] = true
		}
		switch {
		case !fresh && known:
			item = old
			if len(binding.Spec.GracefulEvictionTasks) > 0 && !failover.Leaving(&binding.Spec, name) && p.Seen.Members != nil {
				item.Applied = false // a task ends on nothing but what is seen
			}
		case !fresh:
			item = workv1alpha2.AggregatedStatusItem{ClusterName: name, Health: workv1alpha2.ResourceUnknown}
		}
		items = append(items, item)
	}
	return items, stale
}

// lastSeen are the copies as this pass saw them, else as they are on record.
func (p *pass) lastSeen(b *bound, binding *workv1alpha2.ResourceBinding) []workv1alpha2.AggregatedStatusItem {
	if b.copies != nil {
		return b.copies
	}
	if _, edited := p.Edited[b.row.Key]; edited {
		return nil // what a person put back was seen then, not now
	}
	return binding.Status.AggregatedStatus
}

// expectedClusters are the members that should have a copy, or may still have one, by name.
func expectedClusters(b *workv1alpha2.ResourceBinding) []string {
	var names []string
	for _, t := range targets(b) {
		names = append(names, t.Name)
	}
	for _, task := range b.Spec.GracefulEvictionTasks {
		if task.PurgeMode != policyv1alpha1.PurgeDirectly {
			names = append(names, task.FromCluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// copyStatus is what is known of the copy on a member that was like before; fresh is false where the
// member cannot tell.
func (p *pass) copyStatus(b *bound, member string, before workv1alpha2.AggregatedStatusItem, works map[string]record.Work) (item workv1alpha2.AggregatedStatusItem, fresh bool) {
	facts, ok := p.Seen.Members[member]
	if !ok || facts.Ready != metav1.ConditionTrue {
		return item, false
	}
	seen, ok := facts.Copies[b.row.Template.Unversioned()]
	if !ok {
		return item, false
	}
	item = workv1alpha2.AggregatedStatusItem{ClusterName: member, Health: workv1alpha2.ResourceUnknown}
	wanted := works[record.WorkPath(member, b.row.Template)]
	late := seen.Reason == ReasonNotDelivered && seen.Live != nil // an earlier version runs, and is what is judged
	switch {
	case seen.Reason != "":
		item.AppliedMessage = seen.Reason + ": " + seen.Message
		if !late {
			return item, true
		}
	case seen.Applied == "" || seen.Applied != HashText(wanted.Hash):
		return item, false // on its way
	}
	item.Applied = !late
	if seen.Live != nil {
		if item.Health = seen.Health; item.Health == "" {
			if item.Health, fresh = p.health(b, member, seen.Live); !fresh {
				return item, false
			}
		}
		if preserves(&b.next.Spec) {
			item.Status = p.reflected(b, member, seen.Live, before.Status)
		}
	}
	item.Health = cmp.Or(seen.Health, item.Health)
	if seen.Status != nil {
		item.Status = seen.Status
	}
	return item, true
}

// preserves tells whether the status of copies has to be on record, for the copy that takes over.
func preserves(spec *workv1alpha2.ResourceBindingSpec) bool {
	f := spec.Failover
	return f != nil && (f.Application != nil && f.Application.StatePreservation != nil || f.Cluster != nil && f.Cluster.StatePreservation != nil)
}

// reflected is what the rules take out of the status of a copy; nil if that is nothing. Until a webhook
// has an answer it is what it was before.
func (p *pass) reflected(b *bound, member string, live api.Object, before *runtime.RawExtension) *runtime.RawExtension {
	status, err := p.rules.Status(live)
	if e := p.open(err); e != nil {
		b.unsure = true
		if p.Answers != nil {
			return before
		}
		p.standFor(e, false)
		status, err = p.deaf().Status(live)
	}
	var raw []byte
	if err == nil && len(status) > 0 {
		raw, err = json.Marshal(status)
	}
	b.slipped(err, "status", member)
	if raw == nil {
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}

// health judges a copy. While a webhook is being asked about news of it there is none yet, and the copy
// stays what it was; once the webhook failed, nobody knows how it is.
func (p *pass) health(b *bound, member string, live api.Object) (health workv1alpha2.ResourceHealth, fresh bool) {
	health, err := p.rules.Health(live)
	if e := p.open(err); e != nil {
		b.unsure = true
		switch {
		case p.Answers == nil:
			p.standFor(e, false)
			health, err = p.deaf().Health(live)
		case e.Failed == nil:
			return health, false
		}
	}
	b.slipped(err, "health", member)
	return cmp.Or(health, workv1alpha2.ResourceUnknown), true
}

// HashText is a work's hash as facts about copies give it.
func HashText(h record.Hash) string { return hex.EncodeToString(h[:]) }

// fullyApplied is True when every expected copy is applied.
func (p *pass) fullyApplied(conditions []metav1.Condition, items []workv1alpha2.AggregatedStatusItem) []metav1.Condition {
	c := metav1.Condition{Type: workv1alpha2.ConditionFullyApplied, Status: metav1.ConditionTrue, Reason: "FullyAppliedSuccess",
		Message: "All works have been successfully applied", LastTransitionTime: metav1.NewTime(p.Now.UTC().Truncate(1e9))}
	if len(items) == 0 || slices.ContainsFunc(items, func(i workv1alpha2.AggregatedStatusItem) bool { return !i.Applied }) {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "FullyAppliedFailed", "Failed to apply all works, see status.aggregatedStatus"
	}
	conditions = slices.Clone(conditions)
	i := slices.IndexFunc(conditions, func(o metav1.Condition) bool { return o.Type == c.Type })
	switch {
	case i < 0:
		conditions = append(conditions, c)
		slices.SortFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	case conditions[i].Status != c.Status:
		conditions[i] = c
	}
	return conditions
}
