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
// Keys are given by folder ([Compile]): a file is opened with those of the longest folder that holds it, and never with
// those of another project. What a kustomization reads from a folder with other keys stays closed to it.
//
// Differs from SOPS: documents that were encrypted one by one may stand in one file; aliases are refused; key groups
// (Shamir) and keys of cloud services are not supported; comments are left as they are.
// Differs from Flux: the checksum is checked; values get into Secrets alone; files for generators are decrypted
// only if they were encrypted as a whole.
//
// The package is pure. No plaintext and no key is in an error or in what a type prints. A Vault, a Sealed and a Keyring
// never change and may be shared.
//
// Upstream: https://getsops.io/docs/ and https://fluxcd.io/flux/components/kustomize/kustomizations/#decryption
package sops
