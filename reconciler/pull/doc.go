// Package pull serves members that nobody can reach: an agent in the member takes its objects from the state branch, and
// reports on a branch of its own. Both ends are here.
//
//	state branch:  clusters/<member>.yaml, works/<member>/, retired/<member>/, and of bindings/ what belongs to them
//	                  │ read by the agent                        ▲ written by the reconciler
//	                  ▼                                          │
//	          [Agent] + member.Fleet of one              [Fleet], which the reconciler asks
//	                  │ replaced at each report                  ▲ listed all at once, fetched when they moved
//	                  ▼                                          │
//	agent's branch:  report.json, facts.json, copies/<namespace|_cluster>/<kind>[.<group>_]<name>.json
//
// The agent's branch has one commit without a parent: no history grows, and a heartbeat sends one small file.
//
// The agent promises: what it applies and deletes is on the remote's state branch; the very code that applies to members
// that are pushed to applies here; while Git is away it keeps what it had, and begins no deletion; nothing is written
// before the member's UID is on record, or when it is another one; history that was taken back is followed once the
// reconciler decided on it. No value of a Secret is in a report, and of other objects only what tells their health.
//
// The Fleet promises: a report is about the member that its branch is named after, whatever it says; a report that is
// too large, of a newer form or broken is none; only objects that the member should have or lose are taken from it; a
// member is Unknown once nothing new came for the lease, counted by our clock and only while we could look, so that
// neither an agent's clock nor our own outage moves anything.
package pull
