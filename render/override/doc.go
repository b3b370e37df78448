// Package override makes of a template the object that one cluster gets: it applies the
// OverridePolicies and ClusterOverridePolicies of a source to a template whose replicas are set.
//
// All ClusterOverridePolicies come first, then the OverridePolicies of the object's namespace; each
// stage matches the object as it finds it. Inside a stage the policies are applied from the least
// to the most precise and by name, so that the most precise and the last in the alphabet have the
// last word. Inside a rule the order is image, command, args, labels, annotations, field, plaintext.
//
// Objects are changed by path copy: the result shares with the input all that no rule touched, and
// the input is never changed. An entry that cannot be applied, and a result that no API server would
// take, is an Error that names the policy, the field and the line; no object is rendered then.
//
// Compile decodes, defaults and validates like package policy, whose Index it uses. Key tells
// whether an earlier result still holds. What a Set holds is immutable and safe for concurrent use.
//
// It follows https://karmada.io/docs/userguide/scheduling/override-policy and RFC 6901, RFC 6902.
// The object may end up with another name or kind if a patch says so; what becomes of it is left to
// the caller.
package override
