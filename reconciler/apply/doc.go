// Package apply turns one work, or one order to delete, into what has to be done with that object on
// one member, and does it.
//
// The decision is [Decide], a pure function of what is wanted, what is there and what this process
// last applied; [Applier] looks, decides and carries out. Field ownership is read from the live
// object's managedFields, so a restart needs no memory of its own to see that nothing has to be done.
//
// # Whose field is it
//
// An object is ours if it carries our marks (render/work), or is the very object (by UID) that this
// process applied before. An object that is there and not ours is left alone ([decide.ReasonNotOurs])
// unless the policy says Overwrite, which adopts it: fields held by the managers of
// [Applier.Migrate] become ours, so that what the template lacks goes away, and the work is applied
// by force.
//
// On an object of ours a wanted field may have another value because another manager holds it:
//
//   - The work that this process applied last had the field: it was taken from us. That is drift,
//     and it is taken back by force, whoever did it.
//   - The work that this process applied last did not have it: the template newly wants a field that
//     is another's. That is a conflict: Abort writes nothing and names manager and field, Overwrite
//     takes it.
//   - This process has applied nothing yet (it just started): what was written over by hand or by a
//     controller (operation Update) is taken for drift; what another applier declares (operation
//     Apply) is a conflict, as two appliers would take it from each other for ever.
//
// A manager that declares what it wants, by Apply or as a delivery like Argo CD, takes such a field back whenever we do. So
// it is taken from the same one three times and then left ([decide.ReasonConflict]), whatever the policy says, until
// it lets go or ten minutes went by without it.
//
// Force reaches all fields of an object, so a forced apply carries the resourceVersion it was decided
// on: it takes what was seen, nothing that appeared since.
//
// # Promises
//
//   - A work that is already there costs no write; differences that remain right after an apply
//     (values the server writes its own way, fields it drops) are remembered and do not count again.
//     On the first look after a start a dry run tells them from drift.
//   - Wanted objects are sent as they are, less a replica count that an autoscaler sets and what the
//     kind's rule for Retain leaves to the member (keep.go); nothing is added but the resourceVersion of
//     a forced apply. Arguments are never changed.
//   - A count is given away in two steps (a second manager takes it first), so it never falls to 1.
//   - Nothing without our marks is deleted. A deletion names the UID that was looked at. "Gone" is said only
//     after the member answered that the object is not there, or is not ours.
//   - Everything here may be used from many goroutines, but one object must be in one call at a time.
//
// Where others apply the works, [Applier.Await] and [Applier.AwaitGone] look whether they did, by the version that
// render/work marks such a work with and by who owns what differs. They write nothing.
//
// When to try, in which order and how often is left to reconciler/member; [StageOf] and [WaitsFor]
// give it the order.
//
// Upstream text: https://kubernetes.io/docs/reference/using-api/server-side-apply/.
//
// Differs from Karmada: it reads, merges and updates whole objects, so all of an object is its own;
// here only the fields of the template are, and a conflict with another applier is not overrun.
package apply
