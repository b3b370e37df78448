// Package v1alpha1 holds cluster.karmada.io/v1alpha1 Cluster: a member's registration, written by
// people in the source (spec, labels) and by godwit on the state branch (status).
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Group is the API group of Cluster.
	Group = "cluster.karmada.io"
	// APIVersion is what its manifests carry in apiVersion.
	APIVersion = Group + "/v1alpha1"

	// TaintNotReady and TaintUnreachable are put on members by health; TaintUnschedulable by cordon.
	TaintNotReady      = "cluster.karmada.io/not-ready"
	TaintUnreachable   = "cluster.karmada.io/unreachable"
	TaintUnschedulable = "cluster.karmada.io/unschedulable"

	// ConditionReady is True when the member's API server answers that it is ready.
	ConditionReady = "Ready"
	// ConditionCompleteAPIEnablements tells whether status.apiEnablements can be trusted.
	ConditionCompleteAPIEnablements = "CompleteAPIEnablements"
)

// Cluster is a member.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec   `json:"spec"`
	Status            ClusterStatus `json:"status,omitempty"`
}

// SyncMode is Push or Pull.
type SyncMode string

const (
	Push SyncMode = "Push"
	Pull SyncMode = "Pull"
)

// ClusterSpec is what people say of a member.
type ClusterSpec struct {
	// ID is the UID of the member's kube-system namespace, or its cluster property; empty means not yet known.
	ID                          string                `json:"id,omitempty"`
	SyncMode                    SyncMode              `json:"syncMode"`
	APIEndpoint                 string                `json:"apiEndpoint,omitempty"`
	SecretRef                   *LocalSecretReference `json:"secretRef,omitempty"`
	ImpersonatorSecretRef       *LocalSecretReference `json:"impersonatorSecretRef,omitempty"`
	InsecureSkipTLSVerification bool                  `json:"insecureSkipTLSVerification,omitempty"`
	ProxyURL                    string                `json:"proxyURL,omitempty"`
	ProxyHeader                 map[string]string     `json:"proxyHeader,omitempty"`
	Provider                    string                `json:"provider,omitempty"`
	Region                      string                `json:"region,omitempty"`
	// Zone is deprecated; a lone zone counts as the only entry of Zones.
	Zone           string          `json:"zone,omitempty"`
	Zones          []string        `json:"zones,omitempty"`
	Taints         []corev1.Taint  `json:"taints,omitempty"`
	ResourceModels []ResourceModel `json:"resourceModels,omitempty"`
}

// LocalSecretReference names a Secret in the management cluster.
type LocalSecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ResourceModel is a grade of nodes.
type ResourceModel struct {
	Grade  uint                 `json:"grade"`
	Ranges []ResourceModelRange `json:"ranges"`
}

// ResourceModelRange is the interval [Min, Max) of one resource.
type ResourceModelRange struct {
	Name corev1.ResourceName `json:"name"`
	Min  resource.Quantity   `json:"min"`
	Max  resource.Quantity   `json:"max"`
}

// ClusterStatus is what was observed of a member.
type ClusterStatus struct {
	KubernetesVersion string             `json:"kubernetesVersion,omitempty"`
	APIEnablements    []APIEnablement    `json:"apiEnablements,omitempty"`
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	NodeSummary       *NodeSummary       `json:"nodeSummary,omitempty"`
	ResourceSummary   *ResourceSummary   `json:"resourceSummary,omitempty"`
	// NodeCapacity is godwit's own: what the accurate estimator knows; nil means that only ResourceSummary counts.
	NodeCapacity  *NodeCapacity `json:"nodeCapacity,omitempty"`
	RemedyActions []string      `json:"remedyActions,omitempty"`
}

// APIEnablement lists the kinds of one group and version.
type APIEnablement struct {
	GroupVersion string        `json:"groupVersion"`
	Resources    []APIResource `json:"resources,omitempty"`
}

// APIResource is one kind.
type APIResource struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// NodeSummary counts nodes.
type NodeSummary struct {
	TotalNum int32 `json:"totalNum,omitempty"`
	ReadyNum int32 `json:"readyNum,omitempty"`
}

// ResourceSummary is a member's capacity.
type ResourceSummary struct {
	Allocatable          corev1.ResourceList   `json:"allocatable,omitempty"`
	Allocating           corev1.ResourceList   `json:"allocating,omitempty"`
	Allocated            corev1.ResourceList   `json:"allocated,omitempty"`
	AllocatableModelings []AllocatableModeling `json:"allocatableModelings,omitempty"`
}

// AllocatableModeling counts the nodes of one grade.
type AllocatableModeling struct {
	Grade uint `json:"grade"`
	Count int  `json:"count"`
}

// NodeCapacity is what single nodes have free, those that are alike counted together. Nodes that take no
// more pods are left out. It has a bounded size, so that of many nodes it is an estimate from below.
type NodeCapacity struct {
	Pools []NodePool `json:"pools,omitempty"`
	// UnrecordedLabels are labels of nodes that Pools leaves out, as they tell nearly all nodes apart.
	// For replicas that ask for one of them nothing is known.
	UnrecordedLabels []string `json:"unrecordedLabels,omitempty"`
}

// NodePool is nodes of the same labels and taints.
type NodePool struct {
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are those with the effects NoSchedule and NoExecute, without their times.
	Taints []corev1.Taint `json:"taints,omitempty"`
	Nodes  []NodeGroup    `json:"nodes"`
}

// NodeGroup is a number of nodes that have as much free.
type NodeGroup struct {
	Count int32 `json:"count"`
	// Free is what each of them has left, pods included; a resource that is not there is used up, or was never there.
	Free corev1.ResourceList `json:"free"`
}
