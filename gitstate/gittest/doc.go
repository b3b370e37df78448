// Package gittest makes throw-away Git repositories and real Git servers for tests.
//
// Repositories are made from objects, without the git binary and without a work tree; commits have
// fixed authors and times, so the same calls give the same hashes. Servers are git's own
// http-backend and OpenSSH's sshd on loopback; they need git and /usr/sbin/sshd and fail the test,
// saying so, where those are missing.
//
// It imports nothing of this module and may be used by the tests of any package.
package gittest
