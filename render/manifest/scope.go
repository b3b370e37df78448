package manifest

import (
	"maps"
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

// clusterKinds and namespaceKinds are the kinds of Kubernetes and Karmada by group, including kinds
// and groups of old that manifests still name.
var (
	clusterKinds = map[string]string{
		"":                             "ComponentStatus Namespace Node PersistentVolume",
		"admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
		"apiextensions.k8s.io":         "CustomResourceDefinition",
		"apiregistration.k8s.io":       "APIService",
		"authentication.k8s.io":        "SelfSubjectReview TokenReview",
		"authorization.k8s.io":         "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
		"certificates.k8s.io":          "CertificateSigningRequest ClusterTrustBundle",
		"extensions":                   "PodSecurityPolicy",
		"flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
		"internal.apiserver.k8s.io":    "StorageVersion",
		"networking.k8s.io":            "IPAddress IngressClass ServiceCIDR",
		"node.k8s.io":                  "RuntimeClass",
		"policy":                       "PodSecurityPolicy",
		"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding",
		"resource.k8s.io":              "DeviceClass DeviceTaintRule ResourceClass ResourceSlice",
		"scheduling.k8s.io":            "PriorityClass",
		"storage.k8s.io":               "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
		"storagemigration.k8s.io":      "StorageVersionMigration",

		"apps.karmada.io":    "WorkloadRebalancer",
		"cluster.karmada.io": "Cluster",
		"config.karmada.io":  "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration",
		"policy.karmada.io":  "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
		"remedy.karmada.io":  "Remedy",
		"search.karmada.io":  "ResourceRegistry",
		"work.karmada.io":    "ClusterResourceBinding",
	}
	namespaceKinds = map[string]string{
		"":                          "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
		"apps":                      "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
		"authorization.k8s.io":      "LocalSubjectAccessReview",
		"autoscaling":               "HorizontalPodAutoscaler",
		"batch":                     "CronJob Job",
		"certificates.k8s.io":       "PodCertificateRequest",
		"coordination.k8s.io":       "Lease LeaseCandidate",
		"discovery.k8s.io":          "EndpointSlice",
		"events.k8s.io":             "Event",
		"extensions":                "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet",
		"networking.k8s.io":         "Ingress NetworkPolicy",
		"policy":                    "PodDisruptionBudget",
		"rbac.authorization.k8s.io": "Role RoleBinding",
		"resource.k8s.io":           "PodSchedulingContext ResourceClaim ResourceClaimTemplate",
		"scheduling.k8s.io":         "Workload",
		"storage.k8s.io":            "CSIStorageCapacity",

		"autoscaling.karmada.io": "CronFederatedHPA FederatedHPA",
		"networking.karmada.io":  "MultiClusterIngress MultiClusterService",
		"policy.karmada.io":      "FederatedResourceQuota OverridePolicy PropagationPolicy",
		"work.karmada.io":        "ResourceBinding Work",
	}
)

// builtin says of each kind, written group/Kind, whether it is namespaced.
var builtin = func() map[string]bool {
	table := map[string]bool{}
	for namespaced, groups := range map[bool]map[string]string{false: clusterKinds, true: namespaceKinds} {
		for group, kinds := range groups {
			for kind := range strings.FieldsSeq(kinds) {
				table[group+"/"+kind] = namespaced
			}
		}
	}
	return table
}()

// Scope knows which kinds live in namespaces. It is safe for concurrent use.
type Scope struct{ kinds map[string]bool }

// NewScope knows, in this order, Kubernetes' and Karmada's own kinds, those of the
// CustomResourceDefinitions among objs, and extra: whether a kind, written group/Kind, is namespaced.
func NewScope(objs []*Object, extra map[string]bool) *Scope {
	kinds := maps.Clone(extra)
	if kinds == nil {
		kinds = map[string]bool{}
	}
	for _, o := range objs {
		if o.Group != "apiextensions.k8s.io" || o.Kind != "CustomResourceDefinition" {
			continue
		}
		spec, _ := o.Content["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		group, _ := spec["group"].(string)
		kind, _ := names["kind"].(string)
		switch spec["scope"] {
		case "Namespaced":
			kinds[group+"/"+kind] = true
		case "Cluster":
			kinds[group+"/"+kind] = false
		}
	}
	return &Scope{kinds: kinds}
}

// Namespaced tells whether the kind of id is namespaced. Of a kind that nobody knows it is what
// hasNamespace says: whether the document has a namespace.
func (s *Scope) Namespaced(id api.ID, hasNamespace bool) bool {
	key := id.Group + "/" + id.Kind
	if namespaced, ok := builtin[key]; ok {
		return namespaced
	}
	if namespaced, ok := s.kinds[key]; ok {
		return namespaced
	}
	return hasNamespace
}
