// Package v1alpha1 holds apps.karmada.io/v1alpha1 WorkloadRebalancer: an order to schedule
// workloads afresh.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// Group is the API group of the kinds in this package.
	Group = "apps.karmada.io"
	// APIVersion is what their manifests carry in apiVersion.
	APIVersion = Group + "/v1alpha1"
)

// WorkloadRebalancer names workloads to schedule afresh, once.
type WorkloadRebalancer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadRebalancerSpec `json:"spec"`
}

// WorkloadRebalancerSpec is the order.
type WorkloadRebalancerSpec struct {
	Workloads []ObjectReference `json:"workloads"`
	// TTLSecondsAfterFinished is accepted; an order in Git goes when it is removed there.
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ObjectReference names a workload; an empty namespace means a cluster-scoped one.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
}
