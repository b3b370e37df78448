package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// builtin knows the kinds that are the same everywhere.
var builtin = manifest.NewScope(nil, nil)

// CheckSelectors reports what is wrong with resource selectors, at the place they stand. The
// selectors of an object with a namespace must stay in it.
func CheckSelectors(r *Report, at Path, selectors []policyv1alpha1.ResourceSelector) {
	for i, s := range selectors {
		at := at.At(i)
		r.Required(at.At("apiVersion"), s.APIVersion)
		r.Required(at.At("kind"), s.Kind)
		if own := r.Object.Namespace; own != "" && s.Namespace != own {
			r.Error("other-namespace", at.At("namespace"),
				"a policy of this kind selects in its own namespace %q only, not in %q; remove the field, or use a Cluster%s", own, s.Namespace, r.Object.Kind)
		}
		id := api.ID{Kind: s.Kind}
		id.Group, id.Version = api.SplitAPIVersion(s.APIVersion)
		if r.Object.Namespace != "" && !builtin.Namespaced(id, true) {
			r.Warning("cluster-scoped-kind", at.At("kind"), "a %s is in no namespace, so no %s selects it; use a Cluster%s", s.Kind, r.Object.Kind, r.Object.Kind)
		}
		if s.Name != "" && s.LabelSelector != nil {
			r.Warning("label-selector-ignored", at.At("labelSelector"), "is not looked at, since name is given too; remove one of the two")
			continue
		}
		checkLabelSelector(r, at.At("labelSelector"), s.LabelSelector)
	}
}

// checkLabelSelector refuses a selector that cannot be compiled.
//
// Differs from Karmada: there it is accepted and matches nothing, so a slip takes a workload off every
// member. Here the last good version of the policy stays in force.
func checkLabelSelector(r *Report, at Path, s *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		r.Error("invalid-label-selector", at, "cannot match anything: %v; correct it", err)
	}
}

// CheckAffinity reports what is wrong with a cluster affinity; nil is fine.
func CheckAffinity(r *Report, at Path, a *policyv1alpha1.ClusterAffinity) {
	if a == nil {
		return
	}
	checkLabelSelector(r, at.At("labelSelector"), a.LabelSelector)
	if a.FieldSelector == nil {
		return
	}
	for i, e := range a.FieldSelector.MatchExpressions {
		at := at.At("fieldSelector", "matchExpressions", i)
		if !slices.Contains([]string{"provider", "region", "zone"}, e.Key) {
			r.Error("field-selector", at.At("key"), "%q is no field of clusters; use provider, region or zone, or labelSelector for labels", e.Key)
		}
		switch e.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(e.Values) == 0 {
				r.Warning("field-selector-empty", at.At("values"), "without values the affinity selects no cluster; add at least one")
			}
		default:
			r.Error("field-selector", at.At("operator"), "%q does not work here; use In or NotIn", e.Operator)
		}
	}
}

// checkLabelKey reports a text that cannot be the key of a label.
func checkLabelKey(r *Report, at Path, key string) {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		r.Error("label-key", at, "%q must be written like the key of a label: %s", key, strings.Join(problems, "; "))
	}
}

// emptyAffinity tells whether a selects every cluster because nothing is asked for.
func emptyAffinity(a *policyv1alpha1.ClusterAffinity) bool {
	return a.LabelSelector == nil && a.FieldSelector == nil && len(a.ClusterNames) == 0 && len(a.ExcludeClusters) == 0
}
