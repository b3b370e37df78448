// Package observe turns what member API servers answer into facts: whether a member is ready, which
// kinds it serves, and how the objects that carry our mark look now.
//
//   - [Probe] asks once; [Prober] is the pure rule that turns single answers into a Ready condition
//     with thresholds.
//   - [Discover] asks once for the kinds; [Catalog] is the pure value that holds them.
//   - [Inventory] lists nodes and pods; [Capacity] is the pure rule that sums them up, [NodeCapacity] the one
//     that keeps single nodes apart, for the accurate estimator.
//   - [Watch] lists and follows the objects of one kind, again and again, until it is told to stop.
//
// It promises:
//
//   - The pure parts read no clock; [Watch] reads the one it was given.
//   - A part of discovery that fails takes nothing else with it, and is named in [Catalog.Broken].
//   - A [Catalog] is never changed and may be shared.
//   - Every request ends with its context; the ones of [Watch] have deadlines of their own, except the
//     watch itself, which the server is asked to end after some minutes.
//
// What follows from the facts is left to others: taints and evictions to reconciler/decide, when to
// probe and which kinds to watch to reconciler/member.
//
// Upstream texts: https://karmada.io/docs/userguide/failover/cluster-status-maintenance and
// https://kubernetes.io/docs/reference/using-api/api-concepts/ (watches, discovery).
package observe
