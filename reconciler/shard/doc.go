// Package shard divides members over replicas: one leads and decides, all of them observe and apply, each its share. What
// they tell each other is in objects of the management cluster, beside the leader's Lease NAME:
//
//	Lease  NAME-replica-<identity>   of each replica: that it lives, which epoch it follows, when it last reported
//	Lease  NAME-roster               of the leader: who takes part, and the state branch's head to carry out
//	Secret NAME-report-<...>         of each member: what the replica that serves it sees there
//
// [Replica] keeps the Leases; who serves what is decided in package roster. [Fleet] is the fleet of a replica: it has the
// members of its share served, and reports on them. While its replica leads it gives what is known of all members, those
// of the other replicas by their reports. What to carry out comes from the state branch, not through here.
//
// Reports are Secrets, since what is observed may be private; values of Secrets are not in them. A report that says what the
// last one said is not written again: that its replica lives, and has reported all it knows, is on the replica's Lease. Each
// replica watches the metadata of all reports, and writes one of its own again that somebody deleted or changed.
//
// It promises:
//
//   - No request that could write leaves for a member that is not in the replica's share at that moment.
//   - What a replica got from another one it does not write to before it carries out the head that was told by then.
//   - An epoch is acknowledged once nothing is in work any more on members that were given up.
//   - Of two processes with one identity one serves. Who renews and cannot read gives its share up.
//   - Beside a leader that knows nothing of shares, as while they are switched on or off, nobody serves a member.
//   - A report is whole: what does not fit into one Secret is written before the one that names it.
//   - Nobody takes a member for silent while the management cluster cannot be listened to, or while it changes hands and
//     that takes no longer than the lease of reports. A replica that takes it over goes on with the Ready condition that
//     the one before saw.
package shard
