// Package record turns the state branch's files into values and back. It is what the state branch
// means: members, bindings, works and retired works, each in one canonical file.
//
//	state.yaml                                             Meta
//	clusters/<member>.yaml                                 Cluster with status
//	bindings/<namespace|_cluster>/<name>.yaml              ResourceBinding, ClusterResourceBinding
//	works/<member>/<namespace|_cluster>/<kind>[.<group>]_<name>.yaml
//	retired/<member>/<namespace|_cluster>/<kind>[.<group>]_<name>.yaml
//
// It promises: encoding is canonical (sorted keys, one document, no null), so an unchanged value is
// an unchanged blob; two objects never share a path; Decode(Encode(x)) is x; a file that does not
// decode is a Problem that names it and loses nothing else. Works are known by their blob's hash
// and read only when somebody needs their text.
//
// The package is pure: it reads through fs.FS and leaves commits to gitstate/store.
package record
