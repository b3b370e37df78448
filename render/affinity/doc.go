// Package affinity says which clusters a ClusterAffinity selects, which nodes a NodeClaim does, and which
// taints a toleration tolerates. Placements, static weights, override rules and taint policies all select clusters in
// these words.
//
// A Matcher, of clusters or nodes, is compiled once and asked often: it allocates nothing when asked. Everything here is
// immutable once made and may be used concurrently.
//
// The rules are those of Karmada's API (https://karmada.io/docs/userguide/scheduling/propagation-policy):
// a cluster matches when it is not excluded by name, its labels match, its fields match and it is
// among the names, if any are given. What validation should have refused (an invalid selector)
// matches no cluster; saying so to the user is left to render/policy.
package affinity
