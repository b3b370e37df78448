// Package work renders one template for one member: replicas and completions revised, overrides
// applied, what a server fills in pruned, our marks added. Its result is the object exactly as it is
// applied and the text that the state branch keeps of it, which are the same but for Secrets: their
// values stand in the text as HMACs.
//
// The steps and their order are those of Karmada's Work rendering; the marks are godwit's own.
// Tracking marks of Argo CD and Flux are taken off, since either would prune an object that it
// believes to be its own.
//
// A work that others apply (Deliver) is marked with its version besides, so that the live object says which
// one it is, and with what keeps the object when the file goes, where it is to stay.
//
// The package is pure. Objects are shared with the template wherever they are equal.
package work
