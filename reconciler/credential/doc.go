// Package credential turns Secrets of a management cluster into the way to a member.
//
//	ArgoCD(Secret)            -> Entry, findings   a cluster Secret of Argo CD, in full
//	Karmada(Secret, Cluster)  -> Access, error     the one that spec.secretRef of a Cluster names
//
// It promises: no I/O; what is wrong is said with the Secret's name and the key, and never with a value;
// no value is printed by any verb of package fmt. What would let somebody send the credentials elsewhere,
// or run a program here, is refused unless the caller's [Rules] let it.
//
// Upstream: https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters and the
// Cluster API of https://karmada.io/docs/reference/karmada-api/cluster-resources/cluster-v1alpha1/.
package credential
