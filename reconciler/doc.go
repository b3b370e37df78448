// Package reconciler runs the pass, over and over:
//
//	source.Fetch  ->  store.Load  ->  fleet.Observe  ->  decide.Next  ->  store.Commit  ->  store.Push  ->  fleet.Set
//
// What a decision asks of interpreter webhooks is asked beside the passes; the answers are input of a
// later one.
//
// It promises: nothing is applied or deleted that is not committed; a lost race means deciding again
// on what is there now; a remote that does not answer delays a pass by seconds, and what it says then is for a later one; a pass that
// changes nothing writes nothing; a source or state that cannot be read leaves the last good one in
// force. So does a newest commit of the source that the Gate does not let in, because it is not signed as
// it should be or because the history was rewritten; and Trust does the same for the state branch.
// The process may die between any two steps: the next start reads the state branch and goes on.
//
// Of several replicas one runs the passes, and hands what it could not push to the next one: see Keeper. With Shards the
// others serve a part of the members each. They decide nothing: Follow brings the state in force that the leader told of,
// once it is on the remote or kept, with the values of Secrets rendered again from the source that was decided on.
//
// One goroutine runs the passes. It leaves what to decide to decide, Git to gitstate, and members to
// the fleet, which works on its own and reports by Changed.
package reconciler
