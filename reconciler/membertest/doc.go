// Package membertest makes member clusters: names into API servers that clients
// reach over HTTPS with a kubeconfig, as they reach any cluster.
//
// There are two sorts of them, and one contract (contract_test.go) that both keep:
//
//   - [New] gives a [Server] simulated in this process, up in no time. Unit
//     tests, scripts and "godwit demo" use it.
//   - [StartReal] gives a [Real]: a process of its own that runs a real
//     kube-apiserver, built from testdata/membercluster.
//
// What is real about a simulated member: discovery, the verbs and their options,
// watches, optimistic locking, server-side apply with its conflicts (by the code
// that API servers run, k8s.io/apimachinery/pkg/util/managedfields), finalizers,
// owner references, custom resources with their schemas pruned, defaulted and
// checked, and the defaults and the immutable fields people meet.
//
// What is not: there are no pods and no ReplicaSets. Deployments, StatefulSets,
// DaemonSets, ReplicaSets and Jobs get the status they would have once their
// pods run, in the moment they are written; see [Server.Fail] for the contrary. The tokens of all service accounts are
// the one that everybody has.
// A Namespace or CustomResourceDefinition that is deleted is gone at once. Who
// has the token may do everything; there is no RBAC, no CEL, no webhook, no quota, no
// OpenAPI document and no protobuf. Nothing survives [Server.Close].
//
// All of it may be used from many goroutines. A Server serves writes one at a
// time; a write is visible to every read that starts after it was answered.
//
// Upstream texts: https://kubernetes.io/docs/reference/using-api/api-concepts/ and
// https://kubernetes.io/docs/reference/using-api/server-side-apply/.
package membertest
