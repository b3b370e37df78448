package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// checkPropagation makes every check of Karmada's schema and admission on a spec with its defaults,
// and says what may bite. Two checks have no place here: the permanent id, which godwit does not
// need, and that schedulerName never changes, since a file has no past.
func checkPropagation(r *Report, spec *policyv1alpha1.PropagationSpec) {
	at := Path{"spec"}
	if len(spec.ResourceSelectors) == 0 {
		r.Error("missing-value", at.At("resourceSelectors"), "select at least one kind of object")
	}
	CheckSelectors(r, at.At("resourceSelectors"), spec.ResourceSelectors)

	OneOf(r, at.At("preemption"), spec.Preemption, policyv1alpha1.PreemptAlways, policyv1alpha1.PreemptNever)
	if spec.Preemption == policyv1alpha1.PreemptAlways {
		checkPreemption(r, spec)
	}
	OneOf(r, at.At("conflictResolution"), spec.ConflictResolution, policyv1alpha1.ConflictAbort, policyv1alpha1.ConflictOverwrite)
	OneOf(r, at.At("activationPreference"), spec.ActivationPreference, policyv1alpha1.LazyActivation)
	if spec.Association {
		r.Warning("no-effect", at.At("association"), "has no effect; use propagateDeps")
	}
	if spec.SchedulerName != DefaultScheduler {
		r.Info("other-scheduler", at.At("schedulerName"), "bindings are left to the scheduler %q, godwit does not place them", spec.SchedulerName)
	}
	if p := spec.SchedulePriority; p != nil {
		at := at.At("schedulePriority")
		r.Required(at.At("priorityClassSource"), p.PriorityClassSource)
		OneOf(r, at.At("priorityClassSource"), p.PriorityClassSource, "KubePriorityClass")
		r.Required(at.At("priorityClassName"), p.PriorityClassName)
	}
	if s := spec.Suspension; s != nil && s.Dispatching != nil && *s.Dispatching &&
		s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > 0 {
		r.Error("suspension-conflict", at.At("suspension"), "dispatching: true stops every cluster, dispatchingOnClusters only some; keep one of the two")
	}
	checkPlacement(r, at.At("placement"), &spec.Placement)
	checkFailover(r, spec)
}

func checkPreemption(r *Report, spec *policyv1alpha1.PropagationSpec) {
	for i, s := range spec.ResourceSelectors {
		if s.Name == "" {
			r.Error("preemption-without-name", Path{"spec", "resourceSelectors"}.At(i, "name"), "is required with preemption: Always; name the object, or remove preemption")
		}
	}
	r.Info("differs-1", Path{"spec", "preemption"}, "works without a feature gate, which Karmada asks for")
}

func checkPlacement(r *Report, at Path, p *policyv1alpha1.Placement) {
	if p.ClusterAffinity != nil && p.ClusterAffinities != nil {
		r.Error("affinity-conflict", at, "clusterAffinity and clusterAffinities exclude each other; keep one of the two")
	}
	CheckAffinity(r, at.At("clusterAffinity"), p.ClusterAffinity)
	checkTerms(r, at.At("clusterAffinities"), p)
	checkTolerations(r, at.At("clusterTolerations"), p.ClusterTolerations)
	checkSpread(r, at.At("spreadConstraints"), p)
	if m, ok := r.written(at.At("replicaScheduling")).(map[string]any); ok && len(m) == 0 {
		r.Info("empty-replica-scheduling", at.At("replicaScheduling"), "stands for Divided and Weighted with equal weights; leave it out to give every cluster all replicas, or say what you mean")
	}
	checkReplicaScheduling(r, at.At("replicaScheduling"), p.ReplicaScheduling)
	checkWorkloadAffinity(r, at.At("workloadAffinity"), p.WorkloadAffinity)
}

// maxAffinityName is the longest name of an affinity term.
const maxAffinityName = 32

func checkAffinityName(r *Report, at Path, name string, taken map[string]bool) {
	switch {
	case name == "":
		r.Required(at, name)
	case len(name) > maxAffinityName:
		r.Error("affinity-name", at, "%q has more than %d characters; shorten it", name, maxAffinityName)
	case taken[name]:
		r.Error("duplicate-affinity-name", at, "%q is taken by another term; choose another name", name)
	default:
		checkLabelKey(r, at, name)
	}
	taken[name] = true
}

func checkTerms(r *Report, at Path, p *policyv1alpha1.Placement) {
	taken := map[string]bool{}
	for i := range p.ClusterAffinities {
		term := &p.ClusterAffinities[i]
		at := at.At(i)
		checkAffinityName(r, at.At("affinityName"), term.AffinityName, taken)
		CheckAffinity(r, at, &term.ClusterAffinity)
		if len(term.OverflowAffinities) == 0 {
			continue
		}
		at = at.At("overflowAffinities")
		if !overflows(p.ReplicaScheduling) {
			r.Error("overflow-undivided", at, "needs replicas divided by what fits: replicaSchedulingType Divided with Aggregated, or with Weighted and dynamicWeight; change replicaScheduling or remove the overflow")
		}
		if emptyAffinity(&term.ClusterAffinity) {
			r.Error("overflow-of-everything", at, "the term itself selects every cluster, so nothing is left to overflow to; narrow the term")
		}
		tiers := map[string]bool{term.AffinityName: true}
		for j := range term.OverflowAffinities {
			tier := &term.OverflowAffinities[j]
			checkAffinityName(r, at.At(j, "affinityName"), tier.AffinityName, tiers)
			CheckAffinity(r, at.At(j), &tier.ClusterAffinity)
		}
	}
}

// overflows tells whether replicas are divided by what the clusters have room for.
func overflows(s *policyv1alpha1.ReplicaSchedulingStrategy) bool {
	if s == nil || s.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDivided {
		return false
	}
	return s.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceAggregated ||
		s.WeightPreference != nil && s.WeightPreference.DynamicWeight != ""
}

func checkTolerations(r *Report, at Path, tolerations []corev1.Toleration) {
	for i, t := range tolerations {
		at := at.At(i)
		switch t.Operator {
		case "", corev1.TolerationOpExists, corev1.TolerationOpEqual:
		default:
			r.Error("toleration-operator", at.At("operator"), "%q does not work here; use Exists or Equal", t.Operator)
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
		default:
			r.Warning("toleration-no-effect", at.At("effect"), "%q is no effect of a cluster's taint, so nothing is tolerated; write NoSchedule or NoExecute, or leave it out for both", t.Effect)
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute && t.Effect != "" {
			r.Warning("toleration-no-effect", at.At("tolerationSeconds"), "counts for the effect NoExecute only and has no effect with %s", t.Effect)
		}
	}
}

// outage tells whether t speaks of the taints of clusters that are down.
func outage(t corev1.Toleration) bool {
	return t.Key == "" || t.Key == clusterv1alpha1.TaintNotReady || t.Key == clusterv1alpha1.TaintUnreachable
}

func checkSpread(r *Report, at Path, p *policyv1alpha1.Placement) {
	var fields []policyv1alpha1.SpreadFieldValue
	repeated := map[policyv1alpha1.SpreadFieldValue]bool{}
	for i, c := range p.SpreadConstraints {
		at := at.At(i)
		OneOf(r, at.At("spreadByField"), c.SpreadByField, policyv1alpha1.SpreadByFieldCluster,
			policyv1alpha1.SpreadByFieldRegion, policyv1alpha1.SpreadByFieldZone, policyv1alpha1.SpreadByFieldProvider)
		switch {
		case c.SpreadByField != "" && c.SpreadByLabel != "":
			r.Error("spread-conflict", at, "spreadByField and spreadByLabel exclude each other; keep one of the two")
		case c.SpreadByLabel != "":
			r.Warning("no-effect", at.At("spreadByLabel"), "has no effect, as in Karmada; use spreadByField")
		case slices.Contains(fields, c.SpreadByField):
			if !repeated[c.SpreadByField] {
				r.Error("duplicate-spread-field", at.At("spreadByField"), "%q is used twice; merge the two constraints", c.SpreadByField)
			}
			repeated[c.SpreadByField] = true
		}
		if c.SpreadByField != "" {
			fields = append(fields, c.SpreadByField)
		}
		checkGroups(r, at, c)
		if c.SpreadByField == policyv1alpha1.SpreadByFieldZone || c.SpreadByField == policyv1alpha1.SpreadByFieldProvider {
			r.Info("differs-18", at, "the number of %ss is kept to, which Karmada does not do (compat: karmada turns it off)", c.SpreadByField)
		}
	}
	if len(fields) > 0 && !slices.Contains(fields, policyv1alpha1.SpreadByFieldCluster) {
		r.Error("spread-without-cluster", at, "add a constraint with spreadByField: cluster, which says how many clusters in total")
	}
	checkTotal(r, at, p.SpreadConstraints)
	if s := p.ReplicaScheduling; len(fields) > 0 && staticWeights(s) {
		r.Warning("spread-ignored", at, "has no effect with static weights, as in Karmada; use dynamicWeight or Aggregated, or remove the constraints")
	}
}

// checkTotal warns where the number of clusters seems to be meant for each group.
func checkTotal(r *Report, at Path, constraints []policyv1alpha1.SpreadConstraint) {
	i := slices.IndexFunc(constraints, func(c policyv1alpha1.SpreadConstraint) bool {
		return c.SpreadByField == policyv1alpha1.SpreadByFieldCluster
	})
	if i < 0 || constraints[i].MaxGroups == 0 {
		return
	}
	for _, c := range constraints {
		if c.SpreadByField != policyv1alpha1.SpreadByFieldCluster && c.SpreadByField != "" && c.MinGroups > constraints[i].MaxGroups {
			r.Warning("spread-total", at.At(i, "maxGroups"), "is %d clusters altogether and not for each %s, of which minGroups asks for %d; raise it", constraints[i].MaxGroups, c.SpreadByField, c.MinGroups)
		}
	}
}

func checkGroups(r *Report, at Path, c policyv1alpha1.SpreadConstraint) {
	switch {
	case c.MinGroups < 0:
		r.Error("spread-groups", at.At("minGroups"), "is %d; it cannot be negative", c.MinGroups)
	case c.MaxGroups < 0:
		r.Error("spread-groups", at.At("maxGroups"), "is %d; it cannot be negative", c.MaxGroups)
	case c.MaxGroups > 0 && c.MaxGroups < c.MinGroups:
		r.Error("spread-groups", at.At("maxGroups"), "is %d, less than minGroups %d; raise it", c.MaxGroups, c.MinGroups)
	case c.MaxGroups == 0:
		r.Warning("spread-without-max", at.At("maxGroups"), "is 0, which means none and not unlimited: nothing can be scheduled; set it")
	}
}

// staticWeights tells whether replicas are divided by weights that stand in the policy, equal ones included.
func staticWeights(s *policyv1alpha1.ReplicaSchedulingStrategy) bool {
	return s != nil && s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided &&
		s.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceWeighted &&
		(s.WeightPreference == nil || s.WeightPreference.DynamicWeight == "")
}

func checkReplicaScheduling(r *Report, at Path, s *policyv1alpha1.ReplicaSchedulingStrategy) {
	if s == nil {
		return
	}
	OneOf(r, at.At("replicaSchedulingType"), s.ReplicaSchedulingType,
		policyv1alpha1.ReplicaSchedulingTypeDuplicated, policyv1alpha1.ReplicaSchedulingTypeDivided)
	OneOf(r, at.At("replicaDivisionPreference"), s.ReplicaDivisionPreference,
		policyv1alpha1.ReplicaDivisionPreferenceAggregated, policyv1alpha1.ReplicaDivisionPreferenceWeighted)
	w := s.WeightPreference
	if w == nil {
		return
	}
	at = at.At("weightPreference")
	OneOf(r, at.At("dynamicWeight"), w.DynamicWeight, policyv1alpha1.DynamicWeightByAvailableReplicas)
	for i := range w.StaticWeightList {
		weight := &w.StaticWeightList[i]
		at := at.At("staticWeightList", i)
		if weight.Weight < 1 {
			r.Error("weight", at.At("weight"), "is %d; it must be at least 1, leave a cluster out to give it none", weight.Weight)
		}
		if r.written(at.At("targetCluster")) == nil {
			r.Error("missing-value", at.At("targetCluster"), "is required; write {} if the weight is for every cluster")
		}
		checkLabelSelector(r, at.At("targetCluster", "labelSelector"), weight.TargetCluster.LabelSelector)
	}
	switch {
	case !staticWeights(s) && w.DynamicWeight == "":
		r.Warning("no-effect", at, "has no effect with %s%s; use Divided and Weighted", s.ReplicaSchedulingType, s.ReplicaDivisionPreference)
	case w.DynamicWeight != "" && len(w.StaticWeightList) > 0:
		r.Warning("no-effect", at.At("staticWeightList"), "has no effect beside dynamicWeight; remove one of the two")
	}
}

func checkWorkloadAffinity(r *Report, at Path, w *policyv1alpha1.WorkloadAffinity) {
	if w == nil {
		return
	}
	if w.Affinity != nil {
		checkLabelKey(r, at.At("affinity", "groupByLabelKey"), w.Affinity.GroupByLabelKey)
	}
	if w.AntiAffinity != nil {
		checkLabelKey(r, at.At("antiAffinity", "groupByLabelKey"), w.AntiAffinity.GroupByLabelKey)
	}
	if w.Affinity != nil && w.AntiAffinity != nil && w.Affinity.GroupByLabelKey == w.AntiAffinity.GroupByLabelKey {
		r.Error("workload-affinity-conflict", at, "both terms use the label %q; use two different ones", w.Affinity.GroupByLabelKey)
	}
	r.Info("differs-1", at, "works without a feature gate, which Karmada asks for")
}
