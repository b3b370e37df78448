// Package registry tells which members a management cluster names, and the way to each.
//
// [Registry] follows Secrets in named namespaces: those of Argo CD by their label, and those that spec.secretRef of a
// Cluster names one by one, as they are asked for. It is a [member.Lookup] that looks for credentials in this order:
//
//  1. the Secret of spec.secretRef (token, caBundle), as Karmada writes it;
//  2. a cluster Secret of Argo CD whose name is the member's, or whose server is its apiEndpoint;
//  3. the in-cluster server, for which there may be no Secret;
//  4. what Fallback has, such as a context of a kubeconfig file.
//
// It promises:
//
//   - get, list and watch on Secrets of the namespaces it was given are enough; nothing is written there, and nothing is
//     looked for elsewhere, whatever a manifest names.
//   - What was seen last counts while the management cluster does not answer. Before it has answered for the first
//     time nothing is said: [Registry.Registrations] is Unknown, and Find returns [member.ErrNotYet].
//   - Two Secrets with one name or one server never take turns: the older one is used, the newer is a finding.
//   - A Secret that cannot be used any more leaves what it said last in use; one that is gone takes it away.
//   - A connection that credentials of a Secret are sent over is never made to a link-local address, whatever a name
//     resolves to.
//
// What a Secret says is read by package credential, and what follows for members is decided in reconciler/decide.
//
// All methods may be called from many goroutines.
package registry
