// Package source turns a branch of a remote, or a folder of this machine, into snapshots: an fs.FS
// of one revision each.
//
// Promises:
//   - A snapshot never changes. A commit's files are read from Git's objects by hash, when they are
//     asked for, and never from a checkout. A folder's files are read when they are asked for and
//     compared with the hash they had; a file that changed meanwhile is ErrChanged.
//   - Nothing outside the source's path can be read through a snapshot: links are resolved inside it
//     or refused. Names that a hostile tree may hold (.., .git, a slash) are not shown. Submodules
//     are not shown either. Tree.Problems lists all of these.
//   - Fetch costs one round trip when the branch has not moved. Of each commit it returns, all
//     that is shown was looked for once and is there.
//   - The clone may be thrown away at any time. A damaged one is replaced by a new one, once for
//     each commit.
//   - One process owns a clone; a second one is told so.
//   - A Local reads a repository that belongs to somebody else in place, and leaves no trace.
//
// A Source, a Folder, a Local and the file systems of their snapshots may be used concurrently.
//
// Descends, Commits and Changed tell what a caller needs to judge a commit: whether it comes after
// the last one, what its signatures are over, and which paths it changes. To judge is left to the
// caller; what the files mean is for package render/manifest.
//
// Tree objects: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects; names that Git refuses:
// fsck.hasDotdot, fsck.hasDotgit and fsck.fullPathname of git-fsck.
package source
