package decide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
	"github.com/godwit-gitops/godwit/render/work"
)

// quotaExceeded is the failure of a binding that a quota keeps from growing. Its old targets stay.
const quotaExceeded schedule.Failure = "QuotaExceeded"

// quota is a FederatedResourceQuota of the source.
//
// Differs from Karmada: it is enforced without a gate (differences, row 1), and its status is not
// written anywhere: what is used follows from the bindings.
type quota struct {
	*policyv1alpha1.FederatedResourceQuota
	object    *manifest.Object
	resources []corev1.ResourceName // of spec.overall, sorted
}

// quotas are those of the source, and those that cannot be used and have no earlier version.
type quotas struct {
	all    []*quota            // by namespace and name
	in     map[string][]*quota // by namespace
	broken []*manifest.Object
}

func compileQuotas(objects []*manifest.Object) (*quotas, []render.Finding) {
	c := &quotas{in: map[string][]*quota{}}
	var findings []render.Finding
	for _, o := range objects {
		decoded, found := policy.Quota(o)
		findings = append(findings, found...)
		if decoded == nil {
			c.broken = append(c.broken, o)
			continue
		}
		q := &quota{decoded, o, slices.Sorted(maps.Keys(decoded.Spec.Overall))}
		c.all, c.in[o.Namespace] = append(c.all, q), append(c.in[o.Namespace], q)
		for _, name := range q.resources {
			if !requested(name) && !slices.ContainsFunc(q.Spec.StaticAssignments, func(a policyv1alpha1.StaticClusterAssignment) bool { _, ok := a.Hard[name]; return ok }) {
				findings = append(findings, o.Finding(render.Warning, "quota-idle", []string{"spec", "overall", string(name)},
					"bounds nothing: workloads request cpu, memory, ephemeral-storage and resources with a domain, and no staticAssignment has it"))
			}
		}
	}
	return c, findings
}

// requested tells whether a container can request a resource of that name. As in Karmada, limits and
// requests are compared by name: requests.cpu is not cpu.
func requested(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// has tells whether a ResourceQuota has the name of a quota of the source.
func (c *quotas) has(id api.ID) bool {
	return isQuota(id) && slices.ContainsFunc(c.in[id.Namespace], func(q *quota) bool { return q.object.Name == id.Name })
}

func isQuota(id api.ID) bool { return id.Group == "" && id.Kind == "ResourceQuota" }

// ledger is what the bindings of namespaces with quotas use: those decided so far in this pass by
// their new targets, the others by those they had.
type ledger struct {
	quotas  map[string][]*quota
	counted map[record.BindingKey]corev1.ResourceList
	used    map[string]corev1.ResourceList // by namespace
}

func newLedger(c *quotas, bindings map[record.BindingKey]*workv1alpha2.ResourceBinding) *ledger {
	l := &ledger{quotas: c.in, counted: map[record.BindingKey]corev1.ResourceList{}, used: map[string]corev1.ResourceList{}}
	if len(c.in) > 0 {
		for key, b := range bindings {
			l.count(key, b)
		}
	}
	return l
}

// count makes the binding count as it is now; nil counts nothing.
func (l *ledger) count(key record.BindingKey, b *workv1alpha2.ResourceBinding) {
	if l.quotas[key.Namespace] == nil {
		return
	}
	now := corev1.ResourceList{}
	if b != nil {
		now = usage(&b.Spec, b.Spec.Clusters)
	}
	used := l.used[key.Namespace]
	if used == nil {
		used = corev1.ResourceList{}
		l.used[key.Namespace] = used
	}
	for name, q := range l.counted[key] {
		sum := used[name]
		sum.Sub(q)
		used[name] = sum
	}
	for name, q := range now {
		sum := used[name]
		sum.Add(q)
		used[name] = sum
	}
	l.counted[key] = now
}

// exceeded says which limit a binding would break by using so much, empty if none. What does not grow
// breaks none, however much is used.
func (l *ledger) exceeded(key record.BindingKey, wanted corev1.ResourceList) string {
	for _, q := range l.quotas[key.Namespace] {
		for _, name := range q.resources {
			limit, used, more, before := q.Spec.Overall[name], l.used[key.Namespace][name], wanted[name].DeepCopy(), l.counted[key][name]
			more.Sub(before)
			total := more.DeepCopy()
			total.Add(used)
			if more.Sign() > 0 && total.Cmp(limit) > 0 {
				return fmt.Sprintf("quota %s: %s of %s are used and %s more wanted, at most %s allowed",
					q.object.Name, like(limit, used), name, like(limit, more), limit.String())
			}
		}
	}
	return ""
}

// like is q in the format of limit: that of a sum depends on the order of what was added.
func like(limit, q resource.Quantity) string {
	q = q.DeepCopy()
	q.Add(resource.Quantity{}) // forgets the text it had
	q.Format = limit.Format
	return q.String()
}

// usage is what the replicas of a binding request with these targets, all of them together.
func usage(spec *workv1alpha2.ResourceBindingSpec, targets []workv1alpha2.TargetCluster) corev1.ResourceList {
	total := corev1.ResourceList{}
	add := func(r *workv1alpha2.ReplicaRequirements, replicas int64) {
		if r == nil || replicas == 0 {
			return
		}
		for name, q := range r.ResourceRequest {
			q = q.DeepCopy()
			q.Mul(replicas)
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	for _, c := range spec.Components {
		add(c.ReplicaRequirements, int64(c.Replicas)*int64(len(targets)))
	}
	if len(spec.Components) == 0 {
		var replicas int64
		for _, t := range targets {
			replicas += int64(t.Replicas)
		}
		add(spec.ReplicaRequirements, replicas)
	}
	return total
}

// admit turns a result that a quota does not allow into a failure that keeps the old targets. Where a
// quota does not even allow them, as a replica requests more than before, the binding and its works
// stay as they were: Karmada refuses the update of the binding.
func (p *pass) admit(b *bound, result *schedule.Result) {
	if p.ledger.quotas[b.row.Key.Namespace] == nil {
		return
	}
	spec := &b.next.Spec
	wanted := usage(spec, result.Clusters)
	if p.ledger.exceeded(b.row.Key, wanted) == "" {
		return
	}
	b.refused = wanted
	result.Failure, result.Clusters, result.ZeroReplicas = quotaExceeded, spec.Clusters, nil
	if still := usage(spec, spec.Clusters); p.ledger.exceeded(b.row.Key, still) != "" {
		old := *b.old // there is one: without it there are no targets
		b.next, b.kept, b.held = &old, true, still
	}
}

// reconsider decides again, in order, about bindings that were refused before others freed room, and
// tells those that stay refused why. Without it the next pass would decide otherwise than this one.
func (p *pass) reconsider(peers *schedule.Peers) {
	for again := true; again; {
		again = false
		for _, b := range p.bound {
			fits := func(wanted corev1.ResourceList) bool {
				return wanted != nil && p.ledger.exceeded(b.row.Key, wanted) == ""
			}
			if !fits(b.refused) && !fits(b.held) {
				continue
			}
			before := *b
			*b = bound{template: b.template, old: b.old, row: BindingRow{Key: b.row.Key, Template: b.row.Template}}
			p.bindTemplate(b, peers)
			p.ledger.count(b.row.Key, b.next)
			again = again || b.refused == nil || before.held != nil && b.held == nil
		}
	}
	for _, b := range p.bound {
		if b.refused != nil {
			b.row.Message = p.ledger.exceeded(b.row.Key, b.refused)
			if s := b.row.Schedule; s != nil && s.Reasons != nil {
				s.Withhold("FederatedResourceQuota", b.row.Message)
			}
			b.next.Status.Conditions = withScheduled(b.next.Status.Conditions, metav1.ConditionFalse, string(quotaExceeded), b.row.Message, p.Now)
		}
	}
}

// overQuota tells whether a quota refused the last decision.
func overQuota(conditions []metav1.Condition) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == workv1alpha2.ConditionScheduled && c.Reason == string(quotaExceeded)
	})
}

// quotas makes a ResourceQuota for each member that has a share of a quota.
func (w *works) quotas() {
	for _, q := range w.input.quotas.value.all {
		id := api.ID{Version: "v1", Kind: "ResourceQuota", Namespace: q.object.Namespace, Name: q.object.Name}
		for i, share := range q.Spec.StaticAssignments {
			warn := func(code, format string) {
				w.find(q.object.Finding(render.Warning, code, []string{"spec", "staticAssignments", strconv.Itoa(i), "clusterName"}, format, share.ClusterName))
			}
			if w.fleet.byName[share.ClusterName] == nil || w.fleet.leaving[share.ClusterName] {
				warn("no-member", "%s is not a member, so it gets no ResourceQuota; register it, or take the assignment out")
				continue
			}
			if _, made := w.next.Works[record.WorkPath(share.ClusterName, id)]; made {
				warn("quota-clash", "%s gets another ResourceQuota of this name, which stays; rename or remove one")
				continue
			}
			if cluster := w.fleet.byName[share.ClusterName]; !w.projectOf(q.object).AllowsMember(cluster.Name, cluster.Labels) {
				warn("project-member", "the project does not have member %s, so it gets no ResourceQuota; take the assignment out")
				if old, ok := w.Previous.Works[record.WorkPath(share.ClusterName, id)]; ok {
					w.put(old, id)
				}
				continue
			}
			w.put(w.quota(q, id, share), id)
		}
	}
	if broken := w.input.quotas.value.broken; w.lost || len(broken) > 0 {
		w.carryQuotas(broken)
	}
}

func (w *works) quota(q *quota, id api.ID, share policyv1alpha1.StaticClusterAssignment) record.Work {
	key, want := workKey{id, share.ClusterName}, workMemo{template: q.object, fleet: w.Options.Fleet, delivery: w.delivery(share.ClusterName)}
	if had := w.Memo.works[key]; had != nil && sameInputs(had, &want) {
		return had.work
	}
	want.work, _ = w.recorded(share.ClusterName, id, work.ResourceQuota(id, share.Hard, w.Options.Fleet, w.projectOf(q.object).ServiceAccount()), false)
	w.Memo.works[key] = &want
	return want.work
}

// carryQuotas keeps the works of quotas that cannot be read now.
func (w *works) carryQuotas(broken []*manifest.Object) {
	for path, old := range w.Previous.Works {
		if _, made := w.next.Works[path]; made || !strings.Contains(path, "/resourcequota_") {
			continue
		}
		old, err := record.Identify(old)
		if err != nil || !w.ofQuota(old.ID) {
			continue // retire reports the error
		}
		same := func(o *manifest.Object) bool { return o.Namespace == old.ID.Namespace && o.Name == old.ID.Name }
		if w.lost || slices.ContainsFunc(broken, same) {
			w.put(old, old.ID)
		}
	}
}

// ofQuota holds for ResourceQuotas that no binding places.
func (p *pass) ofQuota(id api.ID) bool {
	key := record.BindingOf(id)
	return isQuota(id) && p.Previous.Bindings[key] == nil && p.next.Bindings[key] == nil
}

// quotaEvents says which members' shares changed. It reads p.Works.
func (p *pass) quotaEvents() []Event {
	on := map[Event][]string{}
	for _, w := range p.Works {
		if !p.ofQuota(w.ID) {
			continue
		}
		e := Event{Verb: "update", Object: w.ID.Namespace + "/" + w.ID.Name, Reason: PolicyChange}
		if w.Change == Removed {
			e.Verb = "remove"
		}
		on[e] = append(on[e], w.Cluster)
	}
	events := make([]Event, 0, len(on))
	for e, members := range on {
		e.What = "ResourceQuota on " + strings.Join(members, " ")
		if e.Verb == "remove" {
			e.What = "ResourceQuota no longer on " + strings.Join(members, " ")
		}
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(a.Object+a.Verb, b.Object+b.Verb) })
	return events
}
