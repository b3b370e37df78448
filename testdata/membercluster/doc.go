// Command membercluster runs real Kubernetes API servers for tests and demos: names into
// clusters, each with its own etcd, port, token and kubeconfig, all kept in a directory.
//
// For each cluster it prints "ready NAME KUBECONFIG" once /readyz is ok, and serves until
// SIGINT or SIGTERM, or with -stdin until its standard input ends. Started again on the same
// directory, it serves the same objects at the same port. SIGKILL loses nothing; the death of the
// machine may: etcd does not wait for the disk. Arguments after -- go to kube-apiserver as they are.
//
// What is real: the API server with its admission, RBAC, custom resources and field ownership, and
// the controllers of workloads, namespaces, service accounts and garbage. What is not: there is one
// node, which runs nothing; see kubelet.go for how its pods become ready, and how to make them fail.
//
// The program wires k8s.io/kubernetes as its own cmd/kube-apiserver does
// (https://github.com/kubernetes/kubernetes/tree/v1.36.1/cmd/kube-apiserver), and is a Go module of its
// own so that nothing else depends on that module.
package main
