// Package events puts Events on objects of the management cluster.
//
//	notice.Notice  ->  Of (pure)  ->  Recorder  ->  core/v1 Events
//
// What is about a member is on the object that registers it, what is about the fleet on one that stands for it. The
// reasons are those of package notice, but for what is over.
//
// It promises: Record never waits; there is one Event for each object and reason, which counts how often it happened, also
// across restarts, for as long as the cluster keeps Events; a cluster that is away costs memory for as many Events as
// there are objects and reasons, and what cannot be written for some minutes is lost: Events are for looking at, the
// state branch is the record.
package events
