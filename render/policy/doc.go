// Package policy turns the propagation policies of a source into answers to one question: which
// policy holds this template? It also decodes, defaults and validates FederatedResourceQuota,
// ClusterTaintPolicy and Cluster manifests.
//
// A manifest goes through three steps: strict decoding, the defaults of Karmada's schema and
// admission, and every check that Karmada's admission makes. All problems of a file are reported at
// once, each at its line. A policy with an error is not part of the Set; the Set only remembers
// that it is there, so that what it holds stays as it is.
//
// Choose is a pure function of the policies, the template and the recorded claim. A claim is kept
// while its policy selects the template, and passes on by preemption alone (Differs from Karmada:
// no feature gate). Policies are found through an Index by kind, namespace, name and label, so a
// template does not pay for policies that have nothing to do with it.
//
// The package leaves to others: the scope of kinds (api.ID.Namespace is taken as it is), priority
// classes and override policies that exist (passed in), and everything about placement.
//
// It follows the API comments of policy.karmada.io/v1alpha1, see
// https://karmada.io/docs/userguide/scheduling/propagation-policy.
//
// Values are immutable after Compile and safe for concurrent use.
package policy
