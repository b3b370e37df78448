// Package store keeps the state branch: it reads it as a file system, commits changes to it by compare-and-swap and
// walks its history.
//
// The branch lives in a bare clone on disk and, if there is a remote, on that remote. A pass of the reconciler calls
// [Store.Load], decides, calls [Store.Commit], which is durable when it returns, and [Store.Push].
//
// Promises:
//   - History is linear and never rewritten here. Nothing is ever forced onto the remote.
//   - A commit changes what its caller read, or nothing: if the branch is elsewhere by now, the error is
//     [gitstate.ErrConflict].
//   - An unreachable remote stops neither Load nor Commit. What was committed meanwhile is pushed later, the same
//     commits with the same hashes, unless others committed too: then Load replays ours on theirs, file by file, and
//     where both changed a file theirs stays. The caller decides again on the result.
//   - Where [Options].Admit judges what comes from the remote, what it refuses is neither taken over nor built upon, and
//     nothing is pushed over it: as with an unreachable remote, Load and Commit go on from what was admitted.
//   - Equal input makes equal commits, to the byte. A commit that changes nothing is not made.
//   - After a crash at any moment the next [Open] works, and the branch is where it was before the step or after it.
//   - A damaged clone is noticed by Open, set aside and fetched again.
//
// How: blobs are hashed, only the trees on the way to a change are built anew, and one pack goes to disk for each
// commit (see gitstate/pack); there is no index and no work tree. Many packs are melted into few. The clone holds
// three refs of the branch: itself, refs/remotes/origin/<branch>, which is where the remote was when last heard of,
// and refs/godwit/incoming/<branch>, which a fetch writes; the order in which they move makes each step repeatable.
//
// Besides, for people: a [View] reads a branch of a repository of this machine in place, and [CommitFile] commits one
// file out of a work tree, whose index it changes along.
//
// Left to others: what the files mean (gitstate/record), transports and refs (gitstate/remote), when to try again.
//
// A Store may be used by several goroutines: one operation works on the clone at a time, and one talks to the remote,
// for which nothing else waits; reading a [Tree] waits for none.
// One process owns a clone: see [Own].
package store
