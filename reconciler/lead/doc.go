// Package lead lets several replicas share one fleet: one leads, the others stand by, and what the leader decided
// while Git was away is there for the next one.
//
//   - [Election] is a Lease of coordination.k8s.io. Who holds it decides and applies; who loses it stops before
//     another one may begin. Lease and renewal are client-go's, with its rules about clocks: only the rates of
//     the replicas' clocks have to agree.
//   - [Keeper] keeps a bundle of commits (gitstate/store) in Secrets beside the Lease. Secrets, since the state branch may
//     be in a private repository; values of Secrets are not in it.
//
// It promises:
//
//   - What [Keeper.Keep] has returned for is there for the next leader, whole: what does not fit into one Secret is
//     written before the one that names it.
//   - A leader that was overtaken cannot write over what its successor kept.
package lead
