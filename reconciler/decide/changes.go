package decide

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// Reason is the word for why something changed, as the trailer Godwit-Reason carries it.
type Reason string

const (
	PolicyChange   Reason = "PolicyChange"
	TemplateChange Reason = "TemplateChange"
	ClusterFailure Reason = "ClusterFailure"
	Rebalance      Reason = "Rebalance"
	PurgeDone      Reason = "PurgeDone"
	CooldownEnded  Reason = "CooldownEnded"
	Operator       Reason = "Operator"
	Status         Reason = "Status"

	ApplicationFailure = Reason(failover.ApplicationFailure)
	TaintEviction      = Reason(failover.TaintEviction)
)

// weight ranks reasons: a commit that has several gives the first.
var weight = []Reason{ClusterFailure, ApplicationFailure, TaintEviction, Rebalance, PolicyChange, TemplateChange, Operator, CooldownEnded, PurgeDone, Status}

// Commit is what is written to the state branch: the files, and the words that say why.
type Commit struct {
	Files   []record.File
	Subject string
	Body    string
	Reason  Reason
	Source  string
	Time    time.Time
	Version string
	// Events are what the words are made of, those that weigh most first.
	Events []Event
	// StatusAlone: nothing was decided, only what was seen is written down.
	StatusAlone bool
}

// Verbs of an Event that others than the commit tell of.
const (
	// VerbFailover moves a workload off members that fail, and VerbFailback back to them.
	VerbFailover = "failover"
	VerbFailback = "failback"
	// VerbBrake holds all evictions back or, as BrakeReleased says, does no longer.
	VerbBrake = "brake"
	// VerbBlocked: a workload should leave a member and has nowhere to go.
	VerbBlocked = "blocked"
	// VerbSchedule gives a workload its members, or finds none.
	VerbSchedule = "schedule"
	// VerbHold holds deletions on a member back, and VerbDelete lets them go.
	VerbHold   = "hold"
	VerbDelete = "delete"
	// VerbCluster is about a member itself.
	VerbCluster = "cluster"
	// VerbRewrite lets another history of the source in.
	VerbRewrite = "rewrite"
)

// verbs rank what happened: the subject of a commit tells the first.
var verbs = []string{VerbFailover, VerbFailback, VerbBrake, VerbBlocked, "leave", VerbSchedule, VerbDelete, VerbHold, VerbRewrite, "remove", "update", VerbCluster, "cooldown", "purge", "terms", "status"}

// Event is one thing that a pass decided, or saw and writes down.
type Event struct {
	// Verb is what was done: failover, failback, brake, blocked, leave, schedule, delete, hold, rewrite, remove,
	// update, cluster, cooldown, purge, terms or status.
	Verb string
	// Object is the binding, the member or the like that it was done to.
	Object string
	// What in a few words, and why in more; Why may be empty.
	What, Why string
	Reason    Reason
	// From are the members that a failover leaves, joined by commas.
	From string
	// Binding is the row it is about; nil if it is about none.
	Binding *BindingRow
}

func happened(verb, object, what string, reason Reason) Event {
	return Event{Verb: verb, Object: object, What: what, Reason: reason}
}

func (e Event) compare(o Event) int {
	return cmp.Or(
		cmp.Compare(slices.Index(verbs, e.Verb), slices.Index(verbs, o.Verb)),
		cmp.Compare(slices.Index(weight, e.Reason), slices.Index(weight, o.Reason)),
	)
}

// conclude compares the next state with the previous one and finds the words for it.
func (p *pass) conclude() error {
	events := slices.Concat(p.brakeEvents(), p.memberEvents(), p.bindingEvents(), p.quotaEvents(), p.retiredEvents(), p.deletionEvents(), p.sourceEvents())
	if len(events) == 0 {
		p.rest()
	}
	meta := &p.next.Meta
	meta.APIVersion, meta.Kind, meta.FormatVersion = record.APIVersion, "State", record.FormatVersion
	meta.Source = record.Source{URL: p.Options.SourceURL, Branch: cmp.Or(p.Source.Branch, p.Options.SourceBranch), Path: p.Options.SourcePath, Commit: string(p.Source.Revision)}
	meta.Policies = p.input.policies.value.Hash()
	p.Next = p.next

	differs, files := false, []record.File(nil)
	var err error
	if p.Unfiled {
		differs = record.Differ(p.Previous, p.next)
	} else {
		files, err = record.Diff(p.Previous, p.next)
		differs = len(files) > 0
	}
	if err != nil {
		return err
	}
	if !differs {
		p.next.Meta = p.Previous.Meta // what is not written down must not be known either
		return nil
	}
	now := p.Now.UTC().Truncate(time.Second)
	meta.PassTime = metav1.NewTime(now)
	for i := range files {
		if files[i].Path == record.MetaPath {
			if files[i].Data, err = record.EncodeMeta(*meta); err != nil {
				return err
			}
		}
	}
	if len(events) == 0 {
		events = p.fileEvents()
	}
	if len(events) == 0 {
		events = p.statusEvents()
	}
	slices.SortStableFunc(events, Event.compare)
	c := &Commit{Events: events, Files: files, Source: string(p.Source.Revision), Time: now, Version: p.Options.Version}
	c.Subject, c.Body, c.Reason = describe(events)
	c.StatusAlone = events[0].Verb == "status"
	if p.approved && len(p.Works) > 0 {
		c.Body += "\nThe source commit approves its deletions."
	}
	p.Commit = c
	return nil
}

// fileEvents are what is told of a pass that only let files go that had stayed.
func (p *pass) fileEvents() []Event {
	left := map[string]int{}
	for _, w := range p.Works {
		if w.Change == Removed {
			left[w.Cluster]++
		}
	}
	var events []Event
	for _, member := range sortedKeys(left) {
		files := "files"
		if left[member] == 1 {
			files = "file"
		}
		events = append(events, happened("purge", member, fmt.Sprintf("%d %s no longer kept", left[member], files), PurgeDone))
	}
	return events
}

// statusEvents are what is told of a pass that decided nothing.
func (p *pass) statusEvents() []Event {
	var events []Event
	for _, b := range p.bound {
		if b.next != nil && b.old != b.next {
			events = append(events, happened("status", b.row.Key.String(), statusText(b.next.Status.AggregatedStatus), Status))
		}
	}
	for _, name := range sortedKeys(p.next.Members) {
		if p.next.Members[name] != p.Previous.Members[name] {
			events = append(events, happened("status", name, "facts of the member", Status))
		}
	}
	if len(events) == 0 {
		events = append(events, happened("status", "source", "files held at their last good commit", Status))
	}
	return events
}

// statusText is "kube02 Healthy, kube03 not applied".
func statusText(items []workv1alpha2.AggregatedStatusItem) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = item.ClusterName + " " + string(item.Health)
		if !item.Applied {
			words[i] = item.ClusterName + " not applied"
		}
	}
	return strings.Join(words, ", ")
}

func (p *pass) memberEvents() []Event {
	var events []Event
	for _, name := range sortedKeys(p.next.Members) {
		next, old := p.next.Members[name], p.Previous.Members[name]
		switch {
		case old == nil:
			events = append(events, happened(VerbCluster, name, "joined, "+readyText(next), Operator))
		case old == next:
		case old.DeletionTimestamp == nil && next.DeletionTimestamp != nil:
			events = append(events, happened(VerbCluster, name, "leaves", Operator))
		case readiness(old).Status != readiness(next).Status:
			reason := ClusterFailure
			if readiness(next).Status == metav1.ConditionTrue || readiness(old).Status == "" {
				reason = Status
			}
			events = append(events, happened(VerbCluster, name, readyText(next), reason))
		case !sameRegistration(old, next):
			events = append(events, happened(VerbCluster, name, "registration changed", Operator))
		}
	}
	for _, name := range sortedKeys(p.Previous.Members) {
		if p.next.Members[name] == nil {
			events = append(events, happened(VerbCluster, name, "left", Operator))
		}
	}
	return events
}

func sameRegistration(a, b *clusterv1alpha1.Cluster) bool {
	x, y := *a, *b
	x.Status, y.Status = clusterv1alpha1.ClusterStatus{}, clusterv1alpha1.ClusterStatus{}
	x.Spec.ID, y.Spec.ID = "", ""
	return semanticEqual(&x, &y)
}

// bindingEvents fills p.Bindings and p.Works and says what changed.
func (p *pass) bindingEvents() []Event {
	changedOn := p.changedWorks()
	samePolicies := p.Previous.Meta.Policies == p.input.policies.value.Hash() || p.Previous.Meta.Policies == ""
	var events []Event
	for _, b := range p.bound {
		row := &b.row
		// A binding with a policy of its own may be needed by others besides: it runs where they do, too.
		if b.old != nil && len(b.old.Spec.RequiredBy) > 0 {
			row.Previous = targets(b.old)
		}
		if b.next != nil && len(b.next.Spec.RequiredBy) > 0 {
			row.Clusters = targets(b.next)
		}
		on := changedOn[row.Template.Unversioned()]
		row.Change, row.Reason = p.classify(b, on, samePolicies)
		row.Causes, row.Blocked, row.Waits, row.Evicted = b.causes, b.blocked, b.waits != "", b.evicted
		about := b.failoverEvents()
		if len(about) > 0 {
			row.Reason = about[0].Reason
		}
		moved := len(b.evicted) == 0 && (row.Change == Moved || row.Change == Scaled)
		if e, ok := row.event(on); ok && (len(about) == 0 || row.Change == Removed || moved) {
			about = append(about, e)
		}
		for i := range about {
			about[i].Binding = row
		}
		events = append(events, about...)
		p.Bindings = append(p.Bindings, *row)
	}
	return events
}

// classify tells what happened to a binding and why.
func (p *pass) classify(b *bound, on []string, samePolicies bool) (Change, Reason) {
	switch {
	case b.next == nil:
		return Removed, TemplateChange
	case b.next == b.old && len(on) == 0:
		return Unchanged, ""
	case b.old == nil && samePolicies:
		return Added, TemplateChange
	case b.old == nil:
		return Added, PolicyChange
	}
	reason := PolicyChange
	switch {
	case b.next.Annotations[annotationRebalanced] != b.old.Annotations[annotationRebalanced]:
		reason = Rebalance
	case b.next.Annotations[annotationTemplate] != b.old.Annotations[annotationTemplate]:
		reason = TemplateChange
	case b.along != "":
		reason = b.along
	case len(b.old.Spec.GracefulEvictionTasks) > 0 && sameTerms(b.old, b.next):
		reason = PurgeDone // what was to go is gone, and the new copies come
	case samePolicies && p.edited(b):
		reason = Operator // what a person put back in the binding is carried out
	case semanticEqual(b.old.Spec.Placement, b.next.Spec.Placement) && !sameClusters(b.old, b.next):
		reason = Operator // the fleet changed, not what is asked of it
	}
	before, after := targets(b.old), targets(b.next)
	switch {
	case !slices.Equal(names(before), names(after)):
		return Moved, reason
	case !sameReplicas(before, after):
		return Scaled, reason
	case len(on) > 0 || !sameTerms(b.old, b.next):
		return Updated, reason
	}
	return Unchanged, ""
}

// sameTerms compares specs as they are recorded: there, what says nothing is left out.
func sameTerms(a, b *workv1alpha2.ResourceBinding) bool {
	if semanticEqual(a.Spec, b.Spec) {
		return true
	}
	if len(a.Spec.Clusters) != len(b.Spec.Clusters) || len(a.Spec.GracefulEvictionTasks) != len(b.Spec.GracefulEvictionTasks) {
		return false
	}
	x, errX := record.EncodeBinding(&workv1alpha2.ResourceBinding{Spec: a.Spec})
	y, errY := record.EncodeBinding(&workv1alpha2.ResourceBinding{Spec: b.Spec})
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func sameClusters(a, b *workv1alpha2.ResourceBinding) bool {
	return sameReplicas(targets(a), targets(b))
}

// Lost are the clusters that have fewer replicas than before, or none any more, with what they had.
func Lost(before, after []workv1alpha2.TargetCluster) []workv1alpha2.TargetCluster {
	var lost []workv1alpha2.TargetCluster
	for _, t := range before {
		i := slices.IndexFunc(after, func(o workv1alpha2.TargetCluster) bool { return o.Name == t.Name })
		if i < 0 || after[i].Replicas < t.Replicas {
			lost = append(lost, t)
		}
	}
	return lost
}

func names(clusters []workv1alpha2.TargetCluster) []string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = c.Name
	}
	slices.Sort(names)
	return names
}

func sameReplicas(a, b []workv1alpha2.TargetCluster) bool {
	byName := func(x, y workv1alpha2.TargetCluster) int { return cmp.Compare(x.Name, y.Name) }
	a, b = slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName)
	return slices.EqualFunc(a, b, sameTarget)
}

// changedWorks lists the works added and updated, and by template the members they are on.
func (p *pass) changedWorks() map[api.ID][]string {
	for path, next := range p.next.Works {
		old, was := p.Previous.Works[path]
		if was && old.Hash == next.Hash {
			continue
		}
		change := Updated
		if !was {
			change = Added
		}
		p.Works = append(p.Works, WorkRow{Path: path, Cluster: next.Member, ID: next.ID, Change: change})
	}
	slices.SortFunc(p.Works, func(a, b WorkRow) int { return cmp.Compare(a.Path, b.Path) })
	on := map[api.ID][]string{}
	for _, w := range p.Works {
		if w.Change != Removed {
			owner := w.ID.Unversioned()
			on[owner] = append(on[owner], w.Cluster)
		}
	}
	return on
}

// event is the row in the words of a commit; ok is false if there is nothing to say.
func (r *BindingRow) event(on []string) (Event, bool) {
	switch r.Change {
	case Added, Moved, Scaled:
		if r.Failure != "" && len(r.Clusters) == 0 {
			return happened(VerbSchedule, r.Key.String(), r.Failure, r.Reason), true
		}
		return happened(VerbSchedule, r.Key.String(), targetsText(r.Clusters), r.Reason), true
	case Removed:
		return happened("remove", r.Key.String(), "the template is gone", r.Reason), true
	case Updated:
		if len(on) > 0 {
			return happened("update", r.Key.String(), strings.Join(on, " "), r.Reason), true
		}
		return happened("terms", r.Key.String(), "what the policy says of it", r.Reason), true
	}
	return Event{}, false
}

// targetsText is "kube02=3 kube03=1", or the names alone where there are no replicas.
func targetsText(clusters []workv1alpha2.TargetCluster) string {
	if len(clusters) == 0 {
		return "nowhere"
	}
	words := make([]string, len(clusters))
	for i, c := range slices.SortedFunc(slices.Values(clusters), func(a, b workv1alpha2.TargetCluster) int { return cmp.Compare(a.Name, b.Name) }) {
		words[i] = c.Name
		if c.Replicas > 0 {
			words[i] = fmt.Sprintf("%s=%d", c.Name, c.Replicas)
		}
	}
	return strings.Join(words, " ")
}

func (p *pass) retiredEvents() []Event {
	gone, spared, freed := map[string]int{}, map[string]int{}, map[string]int{}
	for path, r := range p.Previous.Retired {
		now, still := p.next.Retired[path]
		switch {
		case !still:
			gone[r.Cluster]++
		case now.Spared && !r.Spared:
			spared[r.Cluster]++
		case r.Spared && !now.Spared:
			freed[r.Cluster]++
		}
	}
	var events []Event
	for _, member := range sortedKeys(spared) {
		events = append(events, happened("purge", member, fmt.Sprintf("the deletion of %s waits until another copy works", objects(spared[member])), PurgeDone))
	}
	for _, member := range sortedKeys(freed) {
		events = append(events, happened("purge", member, fmt.Sprintf("the deletion of %s waits no longer", objects(freed[member])), PurgeDone))
	}
	for _, member := range sortedKeys(gone) {
		events = append(events, happened("purge", member, objects(gone[member])+" gone", PurgeDone))
	}
	return events
}

// objects is a number of them in words.
func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// deletionEvents say what the brake holds anew, and what an approval lets go.
func (p *pass) deletionEvents() []Event {
	var events []Event
	held, before := map[string]int{}, map[string]int{}
	for _, h := range p.Held {
		held[h.Cluster]++
	}
	for _, b := range p.Previous.Meta.Braked {
		before[b.Member] = b.Works
	}
	for _, b := range p.next.Meta.Braked {
		if before[b.Member] != b.Works {
			events = append(events, happened(VerbHold, b.Member, "the deletion of "+objects(held[b.Member])+" waits for an approval", Operator))
		}
	}
	if !p.approved && len(p.approvers) == 0 {
		return events
	}
	gone := map[string]int{}
	for _, w := range p.Works {
		if w.Change == Removed {
			gone[w.Cluster]++
		}
	}
	for _, member := range sortedKeys(gone) {
		switch by := p.approvers[member]; {
		case by != "":
			events = append(events, happened(VerbDelete, member, objects(gone[member])+", approved by "+by, Operator))
		case p.approved:
			events = append(events, happened(VerbDelete, member, objects(gone[member])+", approved", Operator))
		}
	}
	return events
}

// describe makes subject, body and reason of a commit from its events, which are sorted. A reason that weighs more than
// that of the event in the subject wins: a failure is a failure, whatever else happened.
func describe(events []Event) (subject, body string, reason Reason) {
	first := events[0]
	same := 0
	reason = first.Reason
	from := first.From // of all of them, if it is one member
	for _, e := range events {
		if e.Verb == first.Verb {
			same++
			if e.From != from {
				from = ""
			}
		}
		if slices.Index(weight, e.Reason) < slices.Index(weight, reason) {
			reason = e.Reason
		}
	}
	switch {
	case same == 1:
		subject = fmt.Sprintf("%s(%s): %s", first.Verb, first.Object, first.What)
	case first.Verb == VerbFailover && from != "":
		subject = fmt.Sprintf("failover(%s): %d bindings", from, same)
	case first.Verb == VerbCluster || first.Verb == "purge" || first.Verb == VerbHold || first.Verb == VerbDelete:
		subject = fmt.Sprintf("%s: %d members", first.Verb, same)
	case first.Verb == "status":
		subject = fmt.Sprintf("%s: %d objects", first.Verb, same)
	default:
		subject = fmt.Sprintf("%s: %d bindings", first.Verb, same)
	}
	var b strings.Builder
	const most = 50
	for i, e := range events {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(events)-most)
			break
		}
		fmt.Fprintf(&b, "- %s %s: %s\n", e.Verb, e.Object, e.What)
		if e.Why != "" {
			fmt.Fprintf(&b, "  %s\n", e.Why)
		}
	}
	return subject, b.String(), reason
}

// EventsOf reads the events back from the body of a commit that describe made: verb, object, what, why and the members
// that a failover leaves. What only counted there, after the first 50, is left out; so are lines that people wrote.
func EventsOf(body string) []Event {
	var events []Event
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if why, ok := strings.CutPrefix(line, "  "); ok {
			if n := len(events); n > 0 && events[n-1].Why == "" {
				events[n-1].Why = why
			}
			continue
		}
		rest, ok := strings.CutPrefix(line, "- ")
		verb, rest, found := strings.Cut(rest, " ")
		object, what, told := strings.Cut(rest, ": ")
		if !ok || !found || !told || !slices.Contains(verbs, verb) {
			continue
		}
		e := Event{Verb: verb, Object: object, What: what}
		if verb == VerbFailover {
			e.From, _, _ = strings.Cut(what, " -> ")
		}
		events = append(events, e)
	}
	return events
}
