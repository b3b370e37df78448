package decide

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// taintPolicy is a ClusterTaintPolicy of the source.
type taintPolicy struct {
	*policyv1alpha1.ClusterTaintPolicy
	target *affinity.Matcher
}

// annotationPolicyTaints on a member's file names the taints that policies put there, as
// "key:effect" joined by commas. They stay when the policy goes or the member no longer matches, as
// in Karmada, until a policy's removeOnConditions take them off.
const annotationPolicyTaints = "godwit.dev/policy-taints"

// compileTaintPolicies sorts by creationTimestamp where there is one, as Karmada does, else by name.
func compileTaintPolicies(objects []*manifest.Object) ([]*taintPolicy, []render.Finding) {
	var policies []*taintPolicy
	var findings []render.Finding
	for _, o := range objects {
		p, found := policy.TaintPolicy(o)
		findings = append(findings, found...)
		if p == nil {
			continue
		}
		policies = append(policies, &taintPolicy{p, affinity.Compile(p.Spec.TargetClusters)})
	}
	slices.SortStableFunc(policies, func(a, b *taintPolicy) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return policies, findings
}

// taints are the manual ones, those of the member's health, and those of ClusterTaintPolicies, each
// with the time it was put on.
//
// Differs from Karmada: a member that is not ready or unreachable gets NoExecute besides NoSchedule
// (differences, row 2). One that is paused gets NoSchedule alone.
func (p *pass) taints(next, old *clusterv1alpha1.Cluster, paused bool) []corev1.Taint {
	taints := slices.Clone(next.Spec.Taints)
	add := func(t corev1.Taint) bool {
		if slices.ContainsFunc(taints, sameTaint(t)) {
			return false
		}
		taints = append(taints, t)
		return true
	}
	ours := p.policyTaints(next, old, add, &taints)
	ready := readiness(next)
	key := outageKeys[ready.Status]
	if key != "" {
		add(corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		if !p.Options.CompatKarmada && !paused {
			add(corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
		}
	}
	if len(ours) > 0 {
		next.Annotations = withAnnotation(next.Annotations, annotationPolicyTaints, strings.Join(ours, ","))
	}
	for i := range taints {
		t := &taints[i]
		if t.TimeAdded != nil {
			continue
		}
		switch before := taintOf(old, *t); {
		case before != nil:
			t.TimeAdded = before.TimeAdded
		case t.Key == key && !ready.LastTransitionTime.IsZero():
			t.TimeAdded = &metav1.Time{Time: ready.LastTransitionTime.UTC()}
		case t.Effect == corev1.TaintEffectNoExecute || slices.Contains(ours, taintText(*t)):
			t.TimeAdded = &metav1.Time{Time: p.Now.UTC().Truncate(time.Second)}
		}
	}
	return taints
}

// outageKeys are the keys of the taints that a member's health puts on it.
var outageKeys = map[metav1.ConditionStatus]string{
	metav1.ConditionFalse:   clusterv1alpha1.TaintNotReady,
	metav1.ConditionUnknown: clusterv1alpha1.TaintUnreachable,
}

// isOutage tells whether a NoExecute taint of a member is there because of its health alone. One that
// a person or a ClusterTaintPolicy put there evicts as in Karmada.
func (p *pass) isOutage(member string, t corev1.Taint) bool {
	if t.Key != clusterv1alpha1.TaintNotReady && t.Key != clusterv1alpha1.TaintUnreachable {
		return false
	}
	if slices.Contains(strings.Split(p.next.Members[member].Annotations[annotationPolicyTaints], ","), taintText(t)) {
		return false
	}
	return !slices.ContainsFunc(p.input.clusters.value, func(r *registration) bool {
		return r.cluster.Name == member && slices.ContainsFunc(r.cluster.Spec.Taints, sameTaint(t))
	})
}

// policyTaints applies the policies in order and returns the taints that are theirs, sorted.
func (p *pass) policyTaints(next, old *clusterv1alpha1.Cluster, add func(corev1.Taint) bool, taints *[]corev1.Taint) []string {
	var ours []string
	if old != nil && old.Annotations[annotationPolicyTaints] != "" {
		for _, text := range strings.Split(old.Annotations[annotationPolicyTaints], ",") {
			i := slices.IndexFunc(old.Spec.Taints, func(t corev1.Taint) bool { return taintText(t) == text })
			if i >= 0 && add(old.Spec.Taints[i]) {
				ours = append(ours, text)
			}
		}
	}
	member := affinity.Of(next)
	for _, tp := range p.input.taints.value {
		if !tp.target.Matches(&member) {
			continue
		}
		if holds(tp.Spec.AddOnConditions, next.Status.Conditions) {
			for _, t := range tp.Spec.Taints {
				if taint := (corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}); add(taint) {
					ours = append(ours, taintText(taint))
				}
			}
		}
		if holds(tp.Spec.RemoveOnConditions, next.Status.Conditions) {
			for _, t := range tp.Spec.Taints {
				text := taintText(corev1.Taint{Key: t.Key, Effect: t.Effect})
				if i := slices.Index(ours, text); i >= 0 {
					ours = slices.Delete(ours, i, i+1)
					*taints = slices.DeleteFunc(*taints, func(o corev1.Taint) bool { return taintText(o) == text })
				}
			}
		}
	}
	slices.Sort(ours)
	return ours
}

// holds tells whether every condition is met. None means never; a type that the member does not have
// is never met, not even by NotIn.
func holds(wanted []policyv1alpha1.MatchCondition, have []metav1.Condition) bool {
	for _, w := range wanted {
		i := slices.IndexFunc(have, func(c metav1.Condition) bool { return c.Type == w.ConditionType })
		if i < 0 {
			return false
		}
		in := slices.Contains(w.StatusValues, string(have[i].Status))
		if w.Operator == "In" && !in || w.Operator == "NotIn" && in || w.Operator != "In" && w.Operator != "NotIn" {
			return false
		}
	}
	return len(wanted) > 0
}

func taintText(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

func sameTaint(t corev1.Taint) func(corev1.Taint) bool {
	return func(o corev1.Taint) bool { return taintText(o) == taintText(t) }
}

// taintOf is the taint of that key and effect on the cluster, nil if there is none.
func taintOf(c *clusterv1alpha1.Cluster, t corev1.Taint) *corev1.Taint {
	if c == nil {
		return nil
	}
	if i := slices.IndexFunc(c.Spec.Taints, sameTaint(t)); i >= 0 {
		return &c.Spec.Taints[i]
	}
	return nil
}

func withAnnotation(annotations map[string]string, key, value string) map[string]string {
	next := map[string]string{key: value}
	for k, v := range annotations {
		if k != key {
			next[k] = v
		}
	}
	return next
}
