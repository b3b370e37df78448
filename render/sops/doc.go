// Package sops opens Secrets that SOPS encrypted, in its YAML and JSON form, with keys of age and OpenPGP.
//
// Nothing is decrypted where it stands. While kustomize builds and overrides are applied, the object stays as it was
// encrypted, and its ciphertexts are words like any other. A [Vault] knows what the ciphertexts of a file, or of all files
// that one kustomization reads, stand for; [Vault.Seal] gives each object its own; and [Sealed.Open] puts the values in
// when the object is rendered, in memory: into data and stringData of a Secret, under the key that the value was encrypted
// for. A ciphertext anywhere else is an error, so that no value can get to where it is recorded, logged or shown. A value
// that a generator of kustomize made of a file is decrypted if the file was encrypted as a whole.
//
// The checksum that SOPS makes (mac) is of whole files, so it is checked on the file as it was read, before anything
// changes the objects in it. What fails it is not used. A vault that has no key, the wrong one or one of another kind
// says so when an object is opened, since those who get the object as it is encrypted need no key of ours.
//
// The checksum is of the values of a file, one after the other, and of nothing else: not of keys, nor of where values end, nor of
// empty ones, nor of those in the clear if mac_only_encrypted is set, nor of the rule that says which are encrypted. A ciphertext is bound to
// the keys on the way to it, and not to the object. So some documents are refused whatever their checksum says, and before it is
// looked at, so that it answers no guesses: with a key that stands twice, an anchor, a merge or a tag, and Secrets with
// anything in data and stringData but ciphertexts. That includes empty values, which SOPS leaves as they are: leave such a key out, or
// encrypt a space. In a file each document opens its own ciphertexts alone, and its block is of
// no object but those that SOPS would find in it; what a kustomization builds may use those of all files
// that it reads. What cannot be told, since SOPS has nothing to tell it by: whether the name and the namespace were swapped or
// cut elsewhere, labels and annotations renamed, or added with empty values, and whether a value was taken out and put in the clear into a
// field that is not encrypted, by somebody who guessed it.
//
// Attempts at data keys have bounds, for one data key, one document and one [Reading] of a source. They are counted by what is in the
// files, in the order in which these are asked for, so that the same tree is answered the same way.
//
// Keys are given by folder ([Compile]): a file is opened with those of the longest folder that holds it, and never with
// those of another project. What a kustomization reads from a folder with other keys stays closed to it.
//
// Differs from SOPS: documents that were encrypted one by one may stand in one file; all values of a Secret have to be encrypted, and
// none may be empty; aliases, anchors, tags and keys that stand twice are refused; key groups
// (Shamir) and keys of cloud services are not supported; comments are left as they are.
// Differs from Flux: the checksum is checked; values get into Secrets alone; files for generators are decrypted
// only if they were encrypted as a whole.
//
// The package is pure. No plaintext and no key is in an error or in what a type prints. A Vault, a Sealed and a Keyring
// never change and may be shared.
//
// Upstream: https://getsops.io/docs/ and https://fluxcd.io/flux/components/kustomize/kustomizations/#decryption
package sops
