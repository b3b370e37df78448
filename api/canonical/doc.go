// Package canonical is the one written form of an object: the same values always give the same
// bytes, so that an unchanged object is an unchanged blob in Git.
//
// [YAML] writes what sigs.k8s.io/yaml v1.6.0 would write (https://github.com/kubernetes-sigs/yaml),
// many times faster, since the state branch holds every object of every member. Only text whose
// quoting is obvious is written here; anything else is handed to the library underneath, scalar by
// scalar, and fuzzing keeps both sides equal. [Parse] reads such text, and any other YAML, into
// JSON-shaped values. [Blob] is the hash that Git gives to bytes.
//
// Differences from sigs.k8s.io/yaml are few: text with characters that it refuses (U+007F) or loses
// (U+0085) is written escaped, the key "<<" in quotes, and Parse refuses a second document instead of passing over it.
//
// Everything here is pure and may be called concurrently.
package canonical
