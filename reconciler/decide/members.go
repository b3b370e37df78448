package decide

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// registration is a Cluster of the source.
type registration struct {
	object  *manifest.Object
	cluster *clusterv1alpha1.Cluster
}

func compileClusters(objects []*manifest.Object) ([]*registration, []render.Finding) {
	var registered []*registration
	var findings []render.Finding
	for _, o := range objects {
		c, found := policy.Cluster(o)
		findings = append(findings, found...)
		if c == nil {
			continue
		}
		registered = append(registered, &registration{o, c})
	}
	return registered, findings
}

// fleet is the members as scheduling and overriding see them.
type fleet struct {
	clusters []*clusterv1alpha1.Cluster // sorted by name
	placed   map[string][]clusterv1alpha1.APIEnablement
	schedule *schedule.Fleet
	byName   map[string]*affinity.Cluster
	leaving  map[string]bool
	// executing have NoExecute taints; those that are leaving are not among them.
	executing []string
}

// members makes the next clusters/ and the fleet, and tells whether the fleet is another one than
// before. Capacities change all the time, and a commit for each would be a heartbeat: those on record
// count until something is to be placed, and only then the newest are taken.
func (p *pass) members(newest bool) bool {
	before := p.fleet
	registered := map[string]bool{}
	var clusters []*clusterv1alpha1.Cluster
	for _, r := range p.claimed {
		name := r.cluster.Name
		registered[name] = true
		facts, seen := p.Seen.Members[name]
		old := p.Previous.Members[name]
		next := p.member(&r, old, facts, seen, newest)
		if old != nil && equality.Semantic.DeepEqual(old, next) {
			next = old
		}
		if old != nil && old.Spec.ID != "" && seen && facts.UID != "" && facts.UID != next.Spec.ID {
			p.find(r.finding("foreign-member", []string{"metadata", "name"},
				"the cluster behind the credentials of %s has UID %s, the recorded member has %s: nothing is written there; to adopt the new cluster set spec.id to its UID", name, facts.UID, next.Spec.ID))
		}
		p.next.Members[name] = next
		clusters = append(clusters, next)
	}
	for _, name := range sortedKeys(p.Previous.Members) {
		if registered[name] {
			continue
		}
		if p.lost || p.refused[clusterID(name)] {
			clusters = append(clusters, p.Previous.Members[name])
			continue
		}
		// A member that left the source is being deleted: nothing new goes there, and its file stays
		// until nothing of ours is left on it.
		next := p.Previous.Members[name]
		if next.DeletionTimestamp == nil {
			left := *next
			t := metav1.NewTime(p.Now.UTC())
			left.DeletionTimestamp = &t
			left.Annotations = maps.Clone(left.Annotations)
			delete(left.Annotations, annotationRegistration)
			next = &left
		}
		if facts, seen := p.Seen.Members[name]; seen && facts.Ready != "" && facts.Ready != readiness(next).Status {
			left := *next // the credentials may have gone along with the registration
			left.Status = observed(left.Status, facts)
			next = &left
		}
		p.next.Members[name] = next
		clusters = append(clusters, next)
	}
	slices.SortFunc(clusters, func(a, b *clusterv1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	p.fleet = p.Memo.fleetOf(clusters, p.kinds)
	return p.fleet != before
}

// definedKinds are the kinds whose definitions are among the works of a member.
//
// Differs from Karmada: they count as served there. The list of a member's APIs lags behind, and a
// custom resource would wait for nothing: its apply waits for the definition anyway.
func definedKinds(works map[string]record.Work) map[string][]clusterv1alpha1.APIEnablement {
	var kinds map[string][]clusterv1alpha1.APIEnablement
	for path, w := range works {
		if !strings.Contains(path, "/_cluster/customresourcedefinition.apiextensions.k8s.io_") {
			continue
		}
		w, err := record.Identify(w)
		if err != nil {
			continue // retire reports it
		}
		spec, _ := w.Object["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		group, _ := spec["group"].(string)
		kind, _ := names["kind"].(string)
		plural, _ := names["plural"].(string)
		versions, _ := spec["versions"].([]any)
		for _, v := range versions {
			version, _ := v.(map[string]any)
			if name, ok := version["name"].(string); ok && version["served"] == true {
				if kinds == nil {
					kinds = map[string][]clusterv1alpha1.APIEnablement{}
				}
				kinds[w.Member] = append(kinds[w.Member], clusterv1alpha1.APIEnablement{
					GroupVersion: group + "/" + name, Resources: []clusterv1alpha1.APIResource{{Name: plural, Kind: kind}},
				})
			}
		}
	}
	for _, list := range kinds {
		slices.SortFunc(list, func(a, b clusterv1alpha1.APIEnablement) int {
			return cmp.Or(cmp.Compare(a.GroupVersion, b.GroupVersion), cmp.Compare(a.Resources[0].Kind, b.Resources[0].Kind))
		})
	}
	return kinds
}

// fleetOf compiles the fleet; the same clusters and kinds as last time give the same one.
func (m *Memo) fleetOf(clusters []*clusterv1alpha1.Cluster, placed map[string][]clusterv1alpha1.APIEnablement) *fleet {
	if m.fleet != nil && slices.Equal(m.fleet.clusters, clusters) && reflect.DeepEqual(m.fleet.placed, placed) {
		return m.fleet
	}
	f := &fleet{clusters: clusters, placed: placed, byName: make(map[string]*affinity.Cluster, len(clusters)), leaving: map[string]bool{}}
	serving := make([]*clusterv1alpha1.Cluster, 0, len(clusters))
	for _, c := range clusters {
		a := affinity.Of(c)
		f.byName[c.Name] = &a
		f.leaving[c.Name] = c.DeletionTimestamp != nil
		if more := placed[c.Name]; more != nil && len(c.Status.APIEnablements) > 0 {
			with := *c
			with.Status.APIEnablements = slices.Concat(c.Status.APIEnablements, more)
			c = &with
		}
		if !f.leaving[c.Name] {
			serving = append(serving, c)
			if slices.ContainsFunc(c.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
				f.executing = append(f.executing, c.Name)
			}
		}
	}
	f.schedule = schedule.NewFleet(serving)
	m.fleet = f
	return f
}

// member is the next clusters/<member>.yaml: what people say, and what was observed.
func (p *pass) member(claimed *claim, old *clusterv1alpha1.Cluster, facts MemberFacts, seen, newest bool) *clusterv1alpha1.Cluster {
	said := claimed.cluster
	next := &clusterv1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1alpha1.APIVersion, Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: said.Name, Labels: said.Labels, Annotations: said.Annotations},
		Spec:       said.Spec,
		Status:     said.Status,
	}
	if old != nil {
		if next.Spec.ID == "" {
			next.Spec.ID = old.Spec.ID
		}
		// What is observed builds on the record. So does who decides without looking, on a member that was met
		// once: its UID is on record. Of others the manifest's own status goes first.
		if seen || old.Spec.ID != "" || equality.Semantic.DeepEqual(said.Status, clusterv1alpha1.ClusterStatus{}) {
			next.Status = old.Status
		}
	}
	if seen {
		if next.Spec.ID == "" {
			next.Spec.ID = facts.UID
		}
		next.Status = observed(next.Status, facts)
		if facts.Resources != nil && (newest || next.Status.ResourceSummary == nil) {
			next.Status.NodeSummary, next.Status.ResourceSummary, next.Status.NodeCapacity = facts.Nodes, facts.Resources, facts.NodeCapacity
		}
	}
	next.Spec.Taints = p.taints(next, old, claimed.paused)
	p.deliver(next, old, func(message string) {
		p.find(claimed.finding("delivery", []string{"metadata", "annotations", AnnotationDelivery}, "%s", message))
	})
	return next
}

// observed is the status with the facts in it. What the member could not be asked for stays.
func observed(status clusterv1alpha1.ClusterStatus, facts MemberFacts) clusterv1alpha1.ClusterStatus {
	if facts.Version != "" {
		status.KubernetesVersion = facts.Version
	}
	if facts.APIs != nil {
		status.APIEnablements = facts.APIs
		complete := metav1.Condition{Type: clusterv1alpha1.ConditionCompleteAPIEnablements, Status: metav1.ConditionTrue, Reason: "Complete"}
		if !facts.APIsComplete {
			complete.Status, complete.Reason = metav1.ConditionFalse, "Partial"
		}
		status.Conditions = withCondition(status.Conditions, complete)
	}
	if facts.Ready != "" {
		status.Conditions = withCondition(status.Conditions, metav1.Condition{
			Type: clusterv1alpha1.ConditionReady, Status: facts.Ready, Reason: facts.Reason, Message: facts.Message,
			LastTransitionTime: metav1.NewTime(facts.Since.UTC()),
		})
	}
	return status
}

// withCondition replaces the condition of that type; a status that stays keeps its time and, so that
// a change of words alone is no commit, its message.
func withCondition(conditions []metav1.Condition, c metav1.Condition) []metav1.Condition {
	conditions = slices.Clone(conditions)
	c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC().Truncate(1e9))
	i := slices.IndexFunc(conditions, func(o metav1.Condition) bool { return o.Type == c.Type })
	if i < 0 {
		conditions = append(conditions, c)
		slices.SortFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
		return conditions
	}
	if old := conditions[i]; old.Status == c.Status && old.Reason == c.Reason {
		return conditions
	}
	conditions[i] = c
	return conditions
}

// rest keeps facts of members out of a commit of their own: nothing was decided on them. What was not
// known before is written down when status may be; newer numbers wait for the next decision.
func (p *pass) rest() {
	due := p.statusDue()
	for _, name := range sortedKeys(p.next.Members) {
		next, old := p.next.Members[name], p.Previous.Members[name]
		if old == nil || old == next {
			continue
		}
		same := *next
		same.Status.NodeSummary, same.Status.ResourceSummary, same.Status.NodeCapacity = old.Status.NodeSummary, old.Status.ResourceSummary, old.Status.NodeCapacity
		switch {
		case old.Status.ResourceSummary != nil && semanticEqual(old, &same):
			p.next.Members[name] = old
		case p.Recorded != nil && semanticEqual(p.Recorded.Members[name], old), p.Recorded == nil && p.Now.Before(due):
			p.next.Members[name] = old
			p.wakeAt(due)
		}
	}
}

// readiness is the Ready condition, Unknown with an empty reason where nobody looked yet.
func readiness(c *clusterv1alpha1.Cluster) metav1.Condition {
	for _, cond := range c.Status.Conditions {
		if cond.Type == clusterv1alpha1.ConditionReady {
			return cond
		}
	}
	return metav1.Condition{Type: clusterv1alpha1.ConditionReady}
}

// What an Event says of a member whose readiness changed.
const (
	MemberReady       = "Ready"
	MemberNotReady    = "NotReady"
	MemberUnreachable = "Unreachable"
)

// readyText is how people say a member's readiness.
func readyText(c *clusterv1alpha1.Cluster) string {
	ready := readiness(c)
	switch ready.Status {
	case metav1.ConditionTrue:
		return MemberReady
	case metav1.ConditionFalse:
		return MemberNotReady
	case metav1.ConditionUnknown:
		return MemberUnreachable
	}
	return "not looked at yet"
}
