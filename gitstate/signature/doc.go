// Package signature tells who signed a commit, and signs commits.
//
// A commit is taken as the bytes of its object, as git has it: what a signature is over is cut out of them and never
// made anew. A signature is one of SSH (namespace "git", PROTOCOL.sshsig of OpenSSH) or of OpenPGP (RFC 9580). Allowed
// keys come from a file in the format of ssh-keygen's allowed_signers, from armored OpenPGP key rings, and keys that
// are allowed no more from a list of public keys.
//
// Verify is a function of its arguments: keys that expire, and valid-after and valid-before, are compared with the
// time of the commit, as git does. Whoever has a key can give a commit any time, so that a key that was stolen belongs
// on the list of those revoked, or out of the lists.
//
// Differs from ssh-keygen: a time in allowed_signers without a Z is UTC, and a binary revocation list (KRL) is refused.
//
// Signers and Key are safe for concurrent use.
package signature
