// Package pack turns Git objects into packs and packs back into objects.
//
// Writing: [Writer] streams blobs, trees and commits as whole zlib level-1 entries, no deltas, into any io.Writer, be
// it a file or the body of a push; [Save] puts such a pack and its index into a repository so that a crash leaves
// either nothing visible or all of it. [EncodeTree] builds trees in Git's own order.
//
// Reading: [Objects] is the object store of one repository: every pack of it, entries that others wrote as deltas
// included, and loose objects. It serves concurrent readers, notices packs that came later, copies entries from
// one pack into another without inflating them, and melts many small packs into few ([Objects.Consolidate]).
//
// Promises:
//   - git index-pack --strict and git fsck --strict accept all that is written here.
//   - Equal objects in equal order make equal bytes, and so an equally named pack.
//   - Bytes that do not add up are [ErrDamaged], an object that is nowhere is [ErrMissing]; nothing panics, and no
//     length found in a file is trusted before it is plausible.
//
// Left to others: refs, transports, which objects to write, and the content of blobs and commits.
//
// The formats follow https://git-scm.com/docs/gitformat-pack and https://git-scm.com/docs/gitformat-index.
package pack
