package policy

import (
	"fmt"
	"maps"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// systemPriorities are the priority classes that every API server has.
var systemPriorities = map[string]int32{
	"system-cluster-critical": 2000000000,
	"system-node-critical":    2000001000,
}

// Into copies into a binding what it takes from its policy, in place of what it took before; the
// rest of the binding is not touched. b.Resource must name the template, and labels be the
// template's. priorities are the values of the PriorityClasses in the source by name; that of a
// class that is not there is an error about spec.schedulePriority.priorityClassName, and the binding stays as it was.
//
// The binding shares placement, failover and the like with the policy; they must not be changed.
func (p *Policy) Into(b *workv1alpha2.ResourceBindingSpec, labels map[string]string, priorities map[string]int32) error {
	namespaced := b.Resource.Namespace != ""
	var priority *workv1alpha2.SchedulePriority
	if s := p.Spec.SchedulePriority; s != nil && namespaced {
		value, ok := priorities[s.PriorityClassName]
		if !ok {
			value, ok = systemPriorities[s.PriorityClassName]
		}
		if !ok {
			return fmt.Errorf("there is no PriorityClass %q; add it to the source or name another", s.PriorityClassName)
		}
		priority = &workv1alpha2.SchedulePriority{Priority: value}
	}

	if fresh := b.Placement == nil; namespaced || fresh {
		// A binding of a cluster-scoped template keeps the value it was created with.
		b.PropagateDeps = p.Spec.PropagateDeps
	}
	b.Policy = &workv1alpha2.PolicyReference{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
	b.SchedulerName = p.Spec.SchedulerName
	b.Placement = &p.Spec.Placement
	b.Failover = p.Spec.Failover
	b.ConflictResolution = p.Spec.ConflictResolution
	b.PreserveResourcesOnDeletion = p.Spec.PreserveResourcesOnDeletion
	b.Suspension = suspension(b.Suspension, p.Spec.Suspension)
	if namespaced {
		b.SchedulePriority = priority
		b.WorkloadAffinityGroups = affinityGroups(p.Spec.Placement.WorkloadAffinity, labels)
	}
	return nil
}

// suspension puts what the policy says of sending in place of what it said before; that scheduling
// is suspended comes from elsewhere and stays.
func suspension(old *workv1alpha2.Suspension, s *policyv1alpha1.Suspension) *workv1alpha2.Suspension {
	merged := workv1alpha2.Suspension{}
	if s != nil {
		merged.Suspension = *s
	}
	if old != nil {
		merged.Scheduling = old.Scheduling
	}
	if s == nil && merged.Scheduling == nil {
		return nil
	}
	return &merged
}

// affinityGroups are the values of the template's labels that the policy groups by, as key=value.
func affinityGroups(w *policyv1alpha1.WorkloadAffinity, labels map[string]string) *workv1alpha2.WorkloadAffinityGroups {
	if w == nil {
		return nil
	}
	group := func(t *policyv1alpha1.WorkloadAffinityTerm) string {
		if t == nil {
			return ""
		}
		value, ok := labels[t.GroupByLabelKey]
		if !ok {
			return ""
		}
		return t.GroupByLabelKey + "=" + value
	}
	groups := workv1alpha2.WorkloadAffinityGroups{AffinityGroup: group(w.Affinity), AntiAffinityGroup: group(w.AntiAffinity)}
	if groups == (workv1alpha2.WorkloadAffinityGroups{}) {
		return nil
	}
	return &groups
}

// ClaimOf returns the claim that a binding records: in spec.policy, or, if Karmada wrote it, in a
// label and annotations that must all be there. The zero value means that nobody holds the template.
func ClaimOf(b *workv1alpha2.ResourceBinding) Claim {
	if p := b.Spec.Policy; p != nil {
		return Claim{p.Kind, p.Namespace, p.Name}
	}
	for _, kind := range []string{KindPropagationPolicy, KindClusterPropagationPolicy} {
		prefix := strings.ToLower(kind) + ".karmada.io/"
		_, marked := b.Labels[prefix+"permanent-id"]
		name, named := b.Annotations[prefix+"name"]
		namespace, placed := b.Annotations[prefix+"namespace"]
		if marked && named && placed == (kind == KindPropagationPolicy) {
			return Claim{kind, namespace, name}
		}
	}
	return Claim{}
}

// labelSkipAutoPropagation is the one label of Karmada's that its users set.
const labelSkipAutoPropagation = "namespace.karmada.io/skip-auto-propagation"

// ContentHash is equal for two versions of a template exactly if no user changed anything between
// them. The binding of a Lazy policy takes over the policy's changes when it changes. Status, what
// the API server writes, and Karmada's own labels and annotations do not count.
func ContentHash(template api.Object) string {
	content := maps.Clone(template)
	delete(content, "status")
	if meta, ok := content["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(meta, field)
		}
		for _, field := range []string{"labels", "annotations"} {
			if marks, ok := meta[field].(map[string]any); ok {
				marks = maps.Clone(marks)
				maps.DeleteFunc(marks, func(k string, _ any) bool {
					return strings.Contains(k, ".karmada.io") && (field != "labels" || k != labelSkipAutoPropagation)
				})
				meta[field] = marks
				if len(marks) == 0 {
					delete(meta, field)
				}
			}
		}
		content["metadata"] = meta
	}
	return Hash(content)
}
