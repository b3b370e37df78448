package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Quota decodes and validates a FederatedResourceQuota; nil if a finding is an error.
func Quota(o *manifest.Object) (*policyv1alpha1.FederatedResourceQuota, []render.Finding) {
	return checked(o, checkQuota)
}

// checked decodes an object and runs a check on it; the result is nil if a finding is an error.
func checked[T any](o *manifest.Object, check func(*Report, *T)) (*T, []render.Finding) {
	r := &Report{Object: o}
	decoded, findings := manifest.Decode[T](o)
	r.Add(findings)
	if decoded != nil {
		check(r, decoded)
	}
	slices.SortStableFunc(r.Findings, render.Finding.Compare)
	if r.Failed() {
		return nil, r.Findings
	}
	return decoded, r.Findings
}

func checkQuota(r *Report, q *policyv1alpha1.FederatedResourceQuota) {
	if len(r.Object.Name) > validation.DNS1123LabelMaxLength {
		r.Error("name-too-long", Path{"metadata", "name"}, "has more than %d characters; shorten it", validation.DNS1123LabelMaxLength)
	}
	overall := Path{"spec", "overall"}
	if len(q.Spec.Overall) == 0 {
		r.Error("missing-value", overall, "is required; name at least one resource")
	}
	checkResources(r, overall, q.Spec.Overall)
	assigned := corev1.ResourceList{}
	for i, a := range q.Spec.StaticAssignments {
		at := Path{"spec", "staticAssignments"}.At(i)
		checkClusterName(r, at.At("clusterName"), a.ClusterName)
		checkResources(r, at.At("hard"), a.Hard)
		for _, name := range slices.Sorted(maps.Keys(a.Hard)) {
			if _, ok := q.Spec.Overall[name]; !ok {
				r.Error("quota-not-overall", at.At("hard", string(name)), "is not in spec.overall; add it there or remove it here")
				continue
			}
			sum := assigned[name]
			sum.Add(a.Hard[name])
			assigned[name] = sum
		}
	}
	for _, name := range slices.Sorted(maps.Keys(assigned)) {
		sum, limit := assigned[name], q.Spec.Overall[name]
		if sum.Cmp(limit) > 0 {
			r.Error("quota-over-assigned", overall.At(string(name)), "is %s, but %s is assigned to clusters; raise it or assign less", limit.String(), sum.String())
		}
	}
}

// checkResources follows the rules of a ResourceQuota: names that it knows or that have a domain, no
// negative amounts, whole numbers of what is counted.
func checkResources(r *Report, at Path, list corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, quantity := at.At(string(name)), list[name]
		counted, known := quotaResources[name]
		domain := strings.Contains(string(name), "/")
		switch problems := validation.IsQualifiedName(string(name)); {
		case len(problems) > 0:
			r.Error("resource-name", at, "%q is no name of a resource: %s", name, strings.Join(problems, "; "))
		case !known && !domain:
			r.Error("resource-name", at, "%q is no resource that a quota knows; use cpu, memory, pods and the like, or a name with a domain", name)
		}
		if domain && !strings.Contains(string(name), "kubernetes.io/") && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
			counted = true
		}
		if quantity.Sign() < 0 {
			r.Error("negative", at, "is %s; it cannot be negative", quantity.String())
		} else if counted && quantity.MilliValue()%1000 != 0 {
			r.Error("quantity", at, "is %s; it must be a whole number", quantity.String())
		}
	}
}

// quotaResources are the resources without a domain that a ResourceQuota knows, and whether they are counted.
var quotaResources = map[corev1.ResourceName]bool{
	corev1.ResourceCPU: false, corev1.ResourceMemory: false, corev1.ResourceEphemeralStorage: false,
	corev1.ResourceRequestsCPU: false, corev1.ResourceRequestsMemory: false,
	corev1.ResourceRequestsStorage: false, corev1.ResourceRequestsEphemeralStorage: false,
	corev1.ResourceLimitsCPU: false, corev1.ResourceLimitsMemory: false, corev1.ResourceLimitsEphemeralStorage: false,
	corev1.ResourcePods: true, corev1.ResourceServices: true, corev1.ResourceReplicationControllers: true,
	corev1.ResourceQuotas: true, corev1.ResourceSecrets: true, corev1.ResourceConfigMaps: true,
	corev1.ResourcePersistentVolumeClaims: true, corev1.ResourceServicesNodePorts: true, corev1.ResourceServicesLoadBalancers: true,
}

// maxClusterName is the longest name of a cluster.
const maxClusterName = 48

func checkClusterName(r *Report, at Path, name string) {
	if problem := ClusterNameProblem(name); problem != "" {
		r.Error("cluster-name", at, "%s", problem)
	}
}

// ClusterNameProblem says what is wrong with the name of a member; empty means nothing.
func ClusterNameProblem(name string) string {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Sprintf("%q is no name of a cluster: %s", name, strings.Join(problems, "; "))
	}
	if len(name) > maxClusterName {
		return fmt.Sprintf("%q has more than %d characters; shorten it", name, maxClusterName)
	}
	return ""
}

// TaintPolicy decodes and validates a ClusterTaintPolicy; nil if a finding is an error.
func TaintPolicy(o *manifest.Object) (*policyv1alpha1.ClusterTaintPolicy, []render.Finding) {
	return checked(o, checkTaintPolicy)
}

func checkTaintPolicy(r *Report, p *policyv1alpha1.ClusterTaintPolicy) {
	at := Path{"spec"}
	CheckAffinity(r, at.At("targetClusters"), p.Spec.TargetClusters)
	checkConditions(r, at.At("addOnConditions"), p.Spec.AddOnConditions)
	checkConditions(r, at.At("removeOnConditions"), p.Spec.RemoveOnConditions)
	if len(p.Spec.AddOnConditions) == 0 && len(p.Spec.RemoveOnConditions) == 0 {
		r.Warning("no-effect", at, "has neither addOnConditions nor removeOnConditions, so no taint is ever put on or taken off; add the conditions")
	}
	at = at.At("taints")
	if len(p.Spec.Taints) == 0 {
		r.Error("missing-value", at, "is required; name at least one taint")
	}
	evicts := false
	taints := make([]corev1.Taint, len(p.Spec.Taints))
	for i, t := range p.Spec.Taints {
		taints[i] = corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
		evicts = evicts || t.Effect == corev1.TaintEffectNoExecute
	}
	checkTaints(r, at, taints)
	if evicts {
		// Differs from Karmada: there a flag of the webhook must allow it.
		r.Info("differs-1", at, "NoExecute is allowed without the flag that Karmada's webhook asks for")
	}
}

func checkConditions(r *Report, at Path, conditions []policyv1alpha1.MatchCondition) {
	for i, c := range conditions {
		at := at.At(i)
		r.Required(at.At("conditionType"), c.ConditionType)
		r.Required(at.At("operator"), c.Operator)
		OneOf(r, at.At("operator"), c.Operator, "In", "NotIn")
		if len(c.StatusValues) == 0 {
			r.Error("missing-value", at.At("statusValues"), "is required; name True, False or Unknown")
		}
		for j, status := range c.StatusValues {
			OneOf(r, at.At("statusValues", j), status, "True", "False", "Unknown")
		}
	}
}

// checkTaints checks the taints of a cluster or a policy: names, effects, and that none stands twice.
func checkTaints(r *Report, at Path, taints []corev1.Taint) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range taints {
		at := at.At(i)
		checkLabelKey(r, at.At("key"), t.Key)
		checkLabelValue(r, at.At("value"), t.Value)
		r.Required(at.At("effect"), string(t.Effect))
		OneOf(r, at.At("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
		if seen[identity{t.Key, t.Effect}] {
			r.Error("duplicate-taint", at, "%s:%s stands twice; remove one", t.Key, t.Effect)
		}
		seen[identity{t.Key, t.Effect}] = true
	}
}

func checkLabelValue(r *Report, at Path, value string) {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		r.Error("label-value", at, "%q must be written like the value of a label: %s", value, strings.Join(problems, "; "))
	}
}
