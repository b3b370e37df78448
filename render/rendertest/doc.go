// Package rendertest helps tests of what turns objects into objects: it makes objects from short
// YAML and compares output with golden files, which the flag -update rewrites.
//
//	go test ./render/... -update
//
// It is for tests alone.
package rendertest
