// Package decide is godwit's one decision: from the source, the previous state, what was observed
// and the time, to the next state.
//
//	Next(Input) -> Decision
//
//	read      source tree -> templates, policies, overrides, members' registrations (source.go)
//	members   registrations + observations -> members with taints and capacity       (members.go)
//	bind      template -> policy -> clusters with replicas                            (bind.go)
//	quotas    bindings of a namespace -> what may grow; shares of members -> works    (quota.go)
//	render    binding -> one work for each of its members                             (works.go)
//	retire    what is no longer wanted -> retired, held back by the brake             (retire.go)
//	changes   next against previous -> what changed, why, and the commit's words      (changes.go)
//	explain   what an explanation says beyond the decision, when it is asked for     (explain.go)
//
// It promises: no I/O, clock, randomness, map order or log; equal inputs give equal bytes; deciding
// again on its own result changes nothing; an error in one file costs that file's objects their
// newest version and nothing else; a name that is gone is only ever gone because a readable source
// no longer has it. A Memo makes the next call cheap and never changes its answer.
//
// It leaves reading, committing and applying to its callers.
package decide
