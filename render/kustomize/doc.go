// Package kustomize builds kustomizations in memory with sigs.k8s.io/kustomize/api, from a file
// system that holds the source's tree and nothing else.
//
// Kustomize by itself fetches what is remote, clones repositories by running git, and keeps the
// OpenAPI schema of one build for the next. So [Build] first looks through everything that a
// kustomization refers to, in the types and with the tolerance of kustomize itself, and refuses what
// is remote, leaves the tree, goes in circles, multiplies beyond reason, or needs Helm, a plugin or a
// schema of its own. Only then does kustomize run, with plugins off, one build at a time, and the
// global schema is reset wherever a build may have changed it.
//
// The result depends on the tree alone. An error is an [Error], or joins several, and names the file and, where it is
// known, the line. Texts of patches and generators, which may hold secrets, are left out of messages.
//
// It leaves to others which folders to build, and what the objects mean (render/manifest).
//
// Kustomize itself writes a line to os.Stderr for fields that it calls deprecated, which cannot be turned off.
//
// Upstream: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
package kustomize
