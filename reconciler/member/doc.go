// Package member keeps the members of a fleet as they should be: it turns what every member should
// hold into objects on the members, and what the members answer into [decide.Observations].
//
// [Fleet] is the door. Its two ends never wait for a member: Set replaces what is wanted, Observe
// gives what is known. In between every member has goroutines of its own:
//
//	health   looks up credentials, probes, identifies the member (UID, version, kinds), keeps the gate
//	capacity lists nodes and pods now and then, which may take its time
//	watches  one for each kind in use: follow our objects there, notice drift
//	tasks    one for each object in work, a bounded number at a time, handed out by the queue
//
// The gate is open while nothing speaks against writing: the member was identified, its last probe was
// good, its UID is the recorded one, it is not paused. Behind a closed gate objects wait, and
// are all looked at when it opens. A member that is back is looked at anew, its watches included.
//
// It promises:
//
//   - Members share nothing but the process: a frozen or dead one delays no other. Every request has a
//     deadline; rate limit, queue and pauses (429) are the member's own.
//   - Nothing is written to a member before its kube-system namespace's UID was compared with the
//     recorded one (or, with none recorded, the first one seen), and it is compared again whenever the
//     credentials changed or the member was away.
//   - What was seen to be as wanted costs no request until it, or what is wanted, changes. There is
//     no timer that applies again.
//   - What is marked with a service account is written, and deleted, as that one and never as ourselves, whatever becomes
//     of it; what is only read is read as ourselves.
//   - No request that could write leaves for a member that others write to (ReadOnly): its clients refuse to
//     send one.
//   - Drift is put back at once; an object that is changed again and again is put back more and more slowly.
//   - A failure of one object is on that object, in the API's words, and is tried again with growing
//     pauses.
//   - CustomResourceDefinitions and Namespaces go before the rest; in deleting they go last, and
//     only once everything in them is gone.
//
// What to apply where is decided in reconciler/decide, how one object is applied in reconciler/apply.
// Credentials come from a [Lookup]; [Kubeconfig] is the one that reads kubeconfig files, and package registry has
// the one that reads Secrets of a management cluster.
//
// All methods may be called from many goroutines.
package member
