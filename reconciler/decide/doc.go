// Package decide is godwit's one decision: from the source, the previous state, what was observed
// and the time, to the next state.
//
//	Next(Input) -> Decision
//
//	read      source tree -> templates, policies, overrides, members' registrations (source.go)
//	register  what the management cluster says of members, else what is on record   (registrations.go)
//	members   registrations + observations -> members with taints and capacity       (members.go)
//	bind      template -> policy -> clusters with replicas                            (bind.go)
//	quotas    bindings of a namespace -> what may grow; shares of members -> works    (quota.go)
//	render    binding -> one work for each of its members                             (works.go)
//	deliver   who applies the works of a member, and what follows for its files (delivery.go)
//	retire    what is no longer wanted -> retired, held back by the brake             (retire.go)
//	changes   next against previous -> what changed, why, and the commit's words      (changes.go)
//	effects   what a change does beside its rows, for who reviews it         (effects.go, frozen.go)
//	explain   what an explanation says beyond the decision, when it is asked for     (explain.go)
//
// It promises: no I/O, clock, randomness, map order or log; equal inputs give equal bytes; deciding
// again on its own result changes nothing; an error in one file costs that file's objects their
// newest version and nothing else; a name that is gone is only ever gone because a readable source
// no longer has it. A Memo makes the next call cheap and never changes its answer.
//
// # Projects
//
// Options.Projects limit what files may hold, by their folders. What a project may not have is taken out before objects of
// different files are compared, so that it is no duplicate of anything, and counts as an error in its file: the last good
// version stays in force. Without one, as when the configuration became stricter, bindings, policies' claims and members that
// are on record stay as they are as long as the object stands in the source, whoever put it there; overrides, quotas and
// rules do not. Two projects that may both have an object and both declare it are a duplicate like any other: neither of the
// new versions is used. The projects in force are not on record: to decide again takes the same configuration.
//
// A project's service account is a mark on each of its works, and in the entry of each that is retired: who carries them
// out, here or as an agent, writes as that account. Namespaces that works need have none.
//
// # Encrypted Secrets
//
// What SOPS encrypted (render/sops) stays so in templates and is decrypted as the last step of making a copy, for members that are
// written to; those that others deliver to get it as it is. The record is of values, so that a Secret that is encrypted
// anew, or for another key, is the same Secret. One that no key opens is an error, and copies stay as they are; one that is
// not as it was encrypted is an error in its file, like any other. Where nobody carries out what is decided
// (Options.Keyless), a Secret without keys is one whose values are not known: they count as those on record, or are
// compared as they are encrypted. Keys are not on record: to decide again takes them.
//
// # Webhooks
//
// What interpreter webhooks answered is input (Answers), and what they have to be asked is part of the
// decision (Unanswered). Until there is an answer, a binding whose template did not change goes on with
// the replicas on its record, and one whose template did stays as it is; works and dependencies stay;
// health is what it was while the webhook is asked for the first time, and Unknown once that failed.
//
// No answer is recorded as such: what came of it is, and stands in for it where nobody asks, as in a plan
// or a replay. The replicas and requirements are in the binding's spec, the revised object is the work,
// dependencies are the requiredBy of other bindings, health is in aggregatedStatus. To decide again what
// was decided, Recorded is the state that came of it: see Repeat. What cannot be told from the record: the
// works of a template that changed since, what a webhook would answer to a template that was never placed,
// and whether an override that changed since would change the work; the finding webhook-not-asked says
// for how many answers that is so.
//
// It leaves reading, committing and applying to its callers.
package decide
