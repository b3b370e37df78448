// Package schedule turns a binding and the members of the fleet into target clusters with replicas,
// and the reasons for it. It follows Karmada's scheduler
// (https://karmada.io/docs/userguide/scheduling/propagation-policy); where it differs on purpose,
// the code says so.
//
// One call of Fleet.Schedule goes these steps:
//
//	trigger   does anything ask for a new decision?  no: the result stands
//	filter    every member -> candidates             none: NoClusterFit, the targets are cleared
//	order     tier, locality, room, name
//	select    spread constraints                     impossible: SchedulerError, the old result stands
//	divide    replicas over the selected             no room: Unschedulable, the old result stands
//
// With clusterAffinities these steps are gone through for one term after the other, from the
// one in force on, until one succeeds.
//
// Promises:
//
//   - The same request against the same members gives the same result; the order of members does
//     not matter.
//   - A decision is settled: scheduled again at once with its own result, it changes nothing.
//     For this the caller stores Result.Clusters, Result.Affinity, Fleet.AppliedPlacement and the time.
//   - No refused member is among the targets, and divided replicas add up to what was asked for.
//   - Nothing given to it is changed. What it returns may share memory with what was given to it.
//
// A Fleet caches what it has compiled and reuses its buffers: it belongs to one goroutine.
//
// Left to others: which bindings to look at and when, storing the result, evictions, the replicas
// and requirements of a template (render/interpret), the defaults of a placement (render/policy).
package schedule
