package decide

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Annotations with which a binding records the inputs of its decision.
const (
	// annotationTemplate is the hash of the template that the binding was made from. It tells a
	// change of the template from one of the policy, also under lazy activation.
	annotationTemplate = "godwit.dev/template"
	// annotationRebalanced names the order that last triggered a reschedule.
	annotationRebalanced = "godwit.dev/rebalanced-by"
)

// bound is a template with what is decided about it, on its way through the stages.
type bound struct {
	row      BindingRow
	template *manifest.Object // nil if the template cannot be read now or is gone
	old      *workv1alpha2.ResourceBinding
	next     *workv1alpha2.ResourceBinding // nil if the binding goes
	replicas interpret.Replicas
	// outranked would hold the template if it were free; nil if none other would. outranks says why it does not.
	outranked *policy.Policy
	outranks  string
	// anew is what the replicas would be if they were divided anew; nil if that is no different.
	anew []workv1alpha2.TargetCluster
	// looked is how many answers of webhooks were looked for before.
	looked int
	// unsure: a webhook's answer is missing, and something else stands in for it.
	unsure bool
	// kept: nothing can be rendered; the works stay as they are.
	kept bool
	// same: the works are those of the pass before.
	same bool
	// refused is what it would use, where a quota does not allow that; nil if none refuses it.
	refused corev1.ResourceList
	// slips are what a rule cannot say of its copies.
	slips []slip
	// held is what its old targets would use, where a quota does not allow even that; nil as above.
	held corev1.ResourceList
	failing
	// stayed is the binding before it left members in this pass.
	stayed *workv1alpha2.ResourceBinding
	// along is why what needs it moved, and it along; empty if nothing did.
	along Reason
	// lingering are members where it is kept for what needs it and is still there.
	lingering []string
}

// divides tells whether a copy's number of replicas is its member's share. Of a workload of
// components nothing is divided, and its rules for one number are not asked.
func (b *bound) divides() bool { return b.replicas.Workload && len(b.replicas.Components) == 0 }

// bind decides for every template which policy holds it and where it runs.
func (p *pass) bind() {
	peers := p.peers()
	p.ledger = newLedger(p.input.quotas.value, p.Previous.Bindings)
	seen := make(map[record.BindingKey]*bound, len(p.input.templates))
	owners := p.owners()
	for _, t := range p.input.templates {
		key := record.BindingOf(t.ID)
		if owner := owners[key]; owner != t {
			p.find(t.Finding(render.Error, "binding-clash", []string{"metadata", "name"},
				"its binding would have the name of that of %s %s (%s); rename one of them", owner.APIVersion(), owner.ID, owner.Origin))
			continue
		}
		b := &bound{template: t, old: p.Previous.Bindings[key], row: BindingRow{Key: key, Template: t.ID}}
		if b.old != nil && b.old.Spec.Resource.Kind == t.Kind && group(b.old.Spec.Resource.APIVersion) != t.Group {
			b.old = nil // another object's binding of the same name
		}
		seen[key] = b
		b.looked = len(p.heard.looked)
		if !p.recall(b) {
			p.bindTemplate(b, peers)
		}
		p.ledger.count(key, b.next)
		if b.next != nil || b.old != nil {
			p.bound = append(p.bound, b)
		} else {
			delete(p.next.Bindings, key) // another object's that is gone
		}
	}
	for _, key := range sortedBindings(p.Previous.Bindings) {
		if seen[key] == nil {
			b := p.orphan(key)
			p.ledger.count(key, b.next)
			p.bound = append(p.bound, b)
		}
	}
	p.reconsider(peers)
	p.evict(peers)
	p.comeBack(peers)
	p.Memo.forget(p.input)
	p.depend()
	slices.SortFunc(p.bound, func(a, b *bound) int { return a.row.Template.Compare(b.row.Template) })
	for _, b := range p.bound {
		switch {
		case b.next == nil:
			delete(p.next.Bindings, b.row.Key)
		case b.next == b.old:
		case b.old != nil && equality.Semantic.DeepEqual(b.old, b.next):
			b.next = b.old
			p.next.Bindings[b.row.Key] = b.next
		default:
			p.next.Bindings[b.row.Key] = b.next
		}
	}
}

// owners says whose each binding is. Of templates with one binding name it is the one that has the
// binding already, so that a newcomer takes nothing away, else the first.
func (p *pass) owners() map[record.BindingKey]*manifest.Object {
	owners := make(map[record.BindingKey]*manifest.Object, len(p.input.templates))
	for _, t := range p.input.templates {
		key := record.BindingOf(t.ID)
		if owners[key] != nil {
			old := p.Previous.Bindings[key]
			if old == nil || templateOf(old).Unversioned() != t.ID.Unversioned() {
				continue
			}
		}
		owners[key] = t
	}
	return owners
}

func group(apiVersion string) string {
	g, _ := api.SplitAPIVersion(apiVersion)
	return g
}

// orphan is a binding whose template is not in the source any more. It goes, unless the source could
// not be read in full.
func (p *pass) orphan(key record.BindingKey) *bound {
	old := p.Previous.Bindings[key]
	b := &bound{old: old, row: BindingRow{Key: key, Template: templateOf(old), Previous: old.Spec.Clusters, Policy: old.Spec.Policy}}
	if refused := p.refused[b.row.Template.Unversioned()]; p.lost || refused {
		b.next, b.kept = old, true
		b.row.Clusters = old.Spec.Clusters
		b.row.Message = "the source could not be read in full; what is placed stays"
		if refused {
			b.row.Message = "the template stands where no project may have it; what is placed stays"
		}
		return b
	}
	b.row.Message = "the template is no longer in the source"
	return b
}

func templateOf(b *workv1alpha2.ResourceBinding) api.ID {
	r := b.Spec.Resource
	return record.ObjectRef{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}.ID()
}

func (p *pass) bindTemplate(b *bound, peers *schedule.Peers) {
	t := b.template
	if b.old != nil {
		b.row.Previous = b.old.Spec.Clusters
	}
	choice := p.choose(b)
	b.outranked, b.outranks = choice.Outranked()
	if p.Options.Explain {
		b.row.Choice = choice
	}
	var replicas interpret.Replicas
	var err error
	if choice.Policy != nil || b.old != nil && b.old.Spec.Placement != nil { // what runs as a dependency alone runs as it is
		replicas, err = p.replicasOf(b)
	}
	if p.open(err) != nil {
		p.keep(b, err.Error())
		return
	}
	if err != nil {
		p.failures.Add(err, "replicas of "+t.ID.String())
		p.find(t.Finding(render.Error, "interpret-replicas", nil, "its replicas cannot be told: %v", err))
		p.keep(b, fmt.Sprintf("its replicas cannot be told: %v", err))
		return
	}
	b.replicas = replicas
	switch {
	case choice.Skipped && b.old == nil:
		return // never looked at, so not without a policy either
	case choice.Policy == nil && b.old == nil:
		p.unbound(t.ID, choice.Message)
		p.settled(b, choice)
		return
	case choice.Skipped, choice.Undecided:
		p.keep(b, choice.Message)
		return
	case choice.Policy == nil && b.old.Spec.Placement == nil && len(b.old.Spec.RequiredBy) > 0:
		return // a dependency alone: depend decides
	case choice.Policy == nil:
		p.release(b, choice)
		return
	case len(choice.Waiting) > 0:
		message := "waits for the override policies " + strings.Join(choice.Waiting, ", ")
		if b.old == nil {
			p.unbound(t.ID, message)
		} else {
			p.keep(b, message)
		}
		return
	}
	if p.claim(b, choice) {
		p.tend(b)
		p.schedule(b, peers)
		p.threaten(b)
		if b.old != nil {
			p.settled(b, choice)
		}
	}
}

// choose asks the policies for the one that holds b's template.
func (p *pass) choose(b *bound) policy.Choice {
	var held policy.Claim
	if b.old != nil && b.old.Spec.Policy != nil {
		held = policyClaim(b.old.Spec.Policy)
	}
	t := policy.Template{ID: b.template.ID, Labels: labelsOf(b.template.Content)}
	mine := p.projectOf(b.template)
	seen := p.input.reaching(mine)
	o := policy.Options{OverrideExists: seen.overrides.value.Has, Unreadable: p.unreadable}
	choice := seen.policies.value.Choose(t, held, o)
	if choice.Policy == nil && !choice.Skipped && !choice.Undecided && mine != nil {
		if other := p.input.policies.value.Choose(t, policy.Claim{}, o).Policy; other != nil {
			choice.Message += fmt.Sprintf("; %s would, but is of project %s, and this is of project %s", other, p.projectOf(other.Source).Name(), mine.Name())
		}
	}
	return choice
}

// unreadable holds for policies that may be in the source all the same: it cannot be read in full now, or they stand
// where no project may have them.
func (p *pass) unreadable(c policy.Claim) bool {
	return p.lost || p.refused[api.ID{Group: policyv1alpha1.Group, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}]
}

func (p *pass) unbound(id api.ID, message string) {
	p.Unbound = append(p.Unbound, Unbound{Template: id, Message: message})
}

// keep leaves a binding and its works as they are.
func (p *pass) keep(b *bound, message string) {
	b.row.Message = message
	if b.old == nil {
		p.unbound(b.template.ID, message)
		return
	}
	b.next, b.kept = b.old, true
	b.row.Policy, b.row.Clusters = b.old.Spec.Policy, b.old.Spec.Clusters
}

// release takes the claim off a binding whose policy is gone or no longer selects the template. The
// clusters stay as they are until another policy takes it.
func (p *pass) release(b *bound, choice policy.Choice) {
	next := *b.old
	next.Spec.Policy = nil
	b.next = &next
	p.tend(b)
	p.threaten(b) // nobody takes failover away from what stays where it is
	b.row.Clusters, b.row.Message = next.Spec.Clusters, choice.Message
	p.unbound(b.template.ID, choice.Message)
}

// claim builds the binding from its policy and template, with the old one's assignment. It returns
// false if that cannot be done now and the binding stays as it is.
func (p *pass) claim(b *bound, choice policy.Choice) bool {
	t, held := b.template, choice.Policy
	next := &workv1alpha2.ResourceBinding{TypeMeta: metav1.TypeMeta{APIVersion: workv1alpha2.APIVersion, Kind: kindOf(b.row.Key)}}
	if b.old != nil {
		copied := *b.old
		next = &copied
	}
	next.ObjectMeta = metav1.ObjectMeta{
		Namespace: b.row.Key.Namespace, Name: b.row.Key.Name, UID: next.UID,
		Annotations: with(next.Annotations, annotationTemplate, p.Memo.templateHash(t)),
	}
	spec := &next.Spec
	spec.Resource = workv1alpha2.ObjectReference{APIVersion: t.APIVersion(), Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: spec.Resource.UID}
	sameHolder := b.old != nil && b.old.Spec.Policy != nil && policyClaim(b.old.Spec.Policy) == held.Claim()
	if !held.Lazy() || !sameHolder || b.old.Annotations[annotationTemplate] != next.Annotations[annotationTemplate] {
		if err := held.Into(spec, labelsOf(t.Content), p.input.priorities.value); err != nil {
			p.find(held.Source.Finding(render.Error, "priority-class-missing", []string{"spec", "schedulePriority", "priorityClassName"}, "%v", err))
			p.keep(b, fmt.Sprintf("%s: spec.schedulePriority.priorityClassName: %v", held, err))
			return false
		}
		if held.FailBack == nil {
			next.Annotations = without(next.Annotations, policy.AnnotationFailBack)
		} else {
			next.Annotations = with(next.Annotations, policy.AnnotationFailBack, "after="+held.FailBack.String())
		}
	}
	spec.Replicas, spec.ReplicaRequirements, spec.Components = b.replicas.Count, b.replicas.Requirements, b.replicas.Components
	for _, order := range p.input.orders.value {
		marker := order.marker(t.ID)
		if marker == "" || next.Annotations[annotationRebalanced] == marker {
			continue
		}
		next.Annotations = with(next.Annotations, annotationRebalanced, marker)
		if b.old != nil { // else all is divided afresh in any case
			spec.RescheduleTriggeredAt = order.triggeredAt(p.Now, next.Status.LastScheduledTime)
		}
	}
	b.next = next
	b.row.Policy = spec.Policy
	return true
}

func policyClaim(r *workv1alpha2.PolicyReference) policy.Claim {
	return policy.Claim{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

func kindOf(key record.BindingKey) string {
	if key.Namespace == "" {
		return workv1alpha2.KindClusterResourceBinding
	}
	return workv1alpha2.KindResourceBinding
}

// with is a copy of annotations with one key set, without the marks of Karmada's claims.
func with(annotations map[string]string, key, value string) map[string]string {
	next := map[string]string{key: value}
	for _, k := range []string{schedule.AnnotationAppliedPlacement, annotationTemplate, annotationRebalanced, annotationOperator, annotationZero, policy.AnnotationFailBack} {
		if v, ok := annotations[k]; ok && k != key {
			next[k] = v
		}
	}
	return next
}

// without is a copy of annotations without one.
func without(annotations map[string]string, key string) map[string]string {
	if _, ok := annotations[key]; !ok {
		return annotations
	}
	next := maps.Clone(annotations)
	delete(next, key)
	return next
}

// compilePriorities are the values of PriorityClasses by name.
func compilePriorities(classes []*manifest.Object) (map[string]int32, []render.Finding) {
	values := make(map[string]int32, len(classes))
	var findings []render.Finding
	for _, c := range classes {
		value, ok := c.Content["value"].(int64)
		if !ok || int64(int32(value)) != value {
			findings = append(findings, c.Finding(render.Warning, "priority-value", []string{"value"}, "is no whole number of 32 bits, so no policy can use the class; correct it"))
			continue
		}
		values[c.Name] = int32(value)
	}
	return values, findings
}

func labelsOf(o api.Object) map[string]string {
	meta, _ := o["metadata"].(map[string]any)
	m, _ := meta["labels"].(map[string]any)
	labels := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			labels[k] = s
		}
	}
	return labels
}

// schedule asks for clusters and writes the answer into the binding.
func (p *pass) schedule(b *bound, peers *schedule.Peers) schedule.Result {
	request := schedule.Request{
		Binding: b.next, Now: p.Now, Peers: peers, Unhealthy: p.unhealthy(b), Overdue: p.overdue(b), Project: p.projectOf(b.template),
		Compat: p.Options.CompatKarmada, Explain: p.Options.Explain,
	}
	result := p.fleet.schedule.Schedule(request)
	b.anew = p.dividedAnew(request, &result)
	p.admit(b, &result)
	next := b.next
	if p.Options.Explain {
		b.row.Schedule = &result
	}
	b.row.Clusters, b.row.Failure, b.row.Message = result.Clusters, string(result.Failure), result.Message
	if result.Failure == "" && len(result.Clusters) == 0 && result.Message == "" && next.Spec.Replicas == 0 && len(next.Spec.Components) == 0 {
		b.row.Message = nothingWanted
	}
	p.asked = p.asked || result.Trigger.Asks() && result.Trigger != schedule.Always
	if !result.Wake.IsZero() {
		p.wakeAt(result.Wake)
	}
	status := &next.Status
	switch {
	case result.Failure != "":
		next.Spec.Clusters = result.Clusters
		if result.Failure == schedule.NoClusterFit {
			setZero(next, nil)
		}
		status.Conditions = withScheduled(status.Conditions, metav1.ConditionFalse, string(result.Failure), result.Message, p.Now)
		peers.Put(next)
		return result
	case !result.Trigger.Asks():
		b.row.Message = standing[result.Trigger]
		if result.Trigger == schedule.Standing && overQuota(status.Conditions) {
			status.Conditions = withScheduled(status.Conditions, metav1.ConditionTrue, "Success", scheduled, p.Now)
		}
		return result
	}
	placement := p.fleet.schedule.AppliedPlacement(next.Spec.Placement)
	if !slices.EqualFunc(next.Spec.Clusters, result.Clusters, sameTarget) || next.Annotations[schedule.AnnotationAppliedPlacement] != placement || triggered(next) {
		t := metav1.NewTime(p.Now.UTC().Truncate(time.Second))
		if trigger := next.Spec.RescheduleTriggeredAt; trigger != nil && trigger.After(t.Time) {
			t = *trigger
		}
		status.LastScheduledTime = &t
	}
	next.Spec.Clusters = result.Clusters
	next.Annotations = with(next.Annotations, schedule.AnnotationAppliedPlacement, placement)
	setZero(next, result.ZeroReplicas)
	status.SchedulerObservedAffinityName, status.SchedulerObservedGeneration = result.Affinity, 0
	status.Conditions = withScheduled(status.Conditions, metav1.ConditionTrue, "Success", scheduled, p.Now)
	peers.Put(next)
	return result
}

// nothingWanted says why what was scheduled runs nowhere.
const nothingWanted = "it has 0 replicas, so no member gets a copy"

// scheduled is what the Scheduled condition says of success.
const scheduled = "Binding has been scheduled successfully."

// standing says why a binding was not scheduled.
var standing = map[schedule.Trigger]string{
	schedule.Suspended:      "scheduling is suspended; another system has taken the binding",
	schedule.OtherScheduler: "schedulerName names another scheduler, which decides",
	schedule.Standing:       "nothing that moves a divided workload has changed",
}

// triggered: an order to reschedule is not yet carried out.
func triggered(b *workv1alpha2.ResourceBinding) bool {
	trigger, last := b.Spec.RescheduleTriggeredAt, b.Status.LastScheduledTime
	return trigger != nil && last != nil && trigger.After(last.Time)
}

func withScheduled(conditions []metav1.Condition, status metav1.ConditionStatus, reason, message string, now time.Time) []metav1.Condition {
	c := metav1.Condition{Type: workv1alpha2.ConditionScheduled, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second))}
	conditions = slices.Clone(conditions)
	for i, old := range conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		conditions[i] = c
		return conditions
	}
	return append(conditions, c)
}

func sameTarget(a, b workv1alpha2.TargetCluster) bool { return reflect.DeepEqual(a, b) }

// unhealthy are the members whose copy is known to be sick: scaling takes nothing from them.
func (p *pass) unhealthy(b *bound) map[string]bool {
	if b.old == nil {
		return nil
	}
	var names map[string]bool
	items := b.copies
	if items == nil {
		items, _ = p.copies(b, b.old, p.Previous.Works)
	}
	for _, item := range items {
		if item.Health == workv1alpha2.ResourceUnhealthy {
			if names == nil {
				names = map[string]bool{}
			}
			names[item.ClusterName] = true
		}
	}
	return names
}

// peers are the bindings as they were; those decided in this pass are put over them.
// overdue are the members that the binding would have to leave at once, with the reason: what its policy tolerates it
// tolerates there no longer.
func (p *pass) overdue(b *bound) map[string]string {
	if p.Options.CompatKarmada {
		return nil
	}
	var overdue map[string]string
	for _, member := range p.fleet.executing {
		if c, ok := failover.Tainted(&b.next.Spec, member, failover.Facts{Taints: p.noExecute, Restart: operatorAt(b.next)}, p.Options.Failover); ok && c.Due(p.Now) {
			if overdue == nil {
				overdue = map[string]string{}
			}
			overdue[member] = c.Text
		}
	}
	return overdue
}

func (p *pass) peers() *schedule.Peers {
	var grouped []*workv1alpha2.ResourceBinding
	for _, key := range sortedBindings(p.Previous.Bindings) {
		if b := p.Previous.Bindings[key]; b.Spec.WorkloadAffinityGroups != nil {
			grouped = append(grouped, b)
		}
	}
	return schedule.NewPeers(grouped)
}

func sortedBindings(m map[record.BindingKey]*workv1alpha2.ResourceBinding) []record.BindingKey {
	keys := make([]record.BindingKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, record.BindingKey.Compare)
	return keys
}

func semanticEqual(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
