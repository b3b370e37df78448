// Package remote is the one door to Git remotes: it lists, fetches and pushes over https, http, ssh
// and local paths, and moves refs of a repository on disk.
//
// Promises:
//   - Every wait ends with the context, and also when nothing arrives for [Options].Timeout.
//   - A push moves one ref, from the hash the caller read to the new one, or not at all. What
//     somebody else pushed meanwhile is never replaced. The error of a failed push says what the server or network said and proves nothing:
//     read the ref again.
//   - What was fetched is on disk (fsync) before a ref names it. Refs are written by git's own
//     protocol (a .lock file created exclusively, fsync, rename), so git and godwit may write to one
//     repository at the same time and a reader always sees the old value or the new one.
//   - No password, token or key is in an error, a log line or a printed value.
//   - A host key that is not in known_hosts, and a redirect to another host, are refused. TLS is 1.2
//     or newer. Link-local addresses, where clouds keep their metadata, are never dialled.
//
// A pack is read once as it arrives, to refuse oversized and malformed objects before anything holds
// one in memory, and once more to index it. An object that is in the local store is taken to be
// there with everything it refers to: packs are only ever stored whole.
//
// Local paths are served in this process; the git binary is not needed and hooks of that repository
// do not run. Shallow and partial clones, protocol version 2, SHA-256 repositories, reftable and
// credential helpers are left out.
//
// A [Tracked] remote has a branch also as a clone last saw it at its origin; [Person] is who commits by hand.
//
// A Remote may be used by several goroutines. Two fetches into one directory are the caller's to
// keep apart.
//
// The protocol is that of gitprotocol-pack and gitprotocol-http:
// https://git-scm.com/docs/gitprotocol-pack, https://git-scm.com/docs/gitprotocol-http.
package remote
