// Package v1alpha1 holds the kinds of policy.karmada.io/v1alpha1 as people write them:
// PropagationPolicy, ClusterPropagationPolicy, OverridePolicy, ClusterOverridePolicy,
// FederatedResourceQuota and ClusterTaintPolicy.
//
// The types have Karmada's field names and JSON tags and no behaviour. Defaults and validation are
// in render/policy and render/override. A nil pointer means "not written", which is often not the
// same as the zero value; each field says what it stands for.
package v1alpha1

const (
	// Group is the API group of the kinds in this package.
	Group = "policy.karmada.io"
	// APIVersion is what their manifests carry in apiVersion.
	APIVersion = Group + "/v1alpha1"
)
