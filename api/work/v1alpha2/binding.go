// Package v1alpha2 holds work.karmada.io/v1alpha2 ResourceBinding and ClusterResourceBinding: which
// clusters a template runs on, with how many replicas, and why it may have to leave one. Bindings
// are what the state branch keeps.
package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

const (
	// Group is the API group of the bindings.
	Group = "work.karmada.io"
	// APIVersion is what their manifests carry in apiVersion.
	APIVersion = Group + "/v1alpha2"

	KindResourceBinding        = "ResourceBinding"
	KindClusterResourceBinding = "ClusterResourceBinding"

	// ConditionScheduled and ConditionFullyApplied are the conditions of a binding.
	ConditionScheduled    = "Scheduled"
	ConditionFullyApplied = "FullyApplied"
)

// ResourceBinding is the decision about one template. A ClusterResourceBinding has the same shape
// and no namespace; Kind tells which it is.
type ResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ResourceBindingSpec   `json:"spec"`
	Status            ResourceBindingStatus `json:"status,omitempty"`
}

// ResourceBindingSpec is the decision.
type ResourceBindingSpec struct {
	Resource ObjectReference `json:"resource"`
	// Policy names the policy that claimed the template; nil for attached bindings.
	// It is godwit's own field: Karmada keeps the claim in labels and annotations.
	Policy                      *PolicyReference                  `json:"policy,omitempty"`
	PropagateDeps               bool                              `json:"propagateDeps,omitempty"`
	ReplicaRequirements         *ReplicaRequirements              `json:"replicaRequirements,omitempty"`
	Replicas                    int32                             `json:"replicas,omitempty"`
	Components                  []Component                       `json:"components,omitempty"`
	Clusters                    []TargetCluster                   `json:"clusters,omitempty"`
	Placement                   *policyv1alpha1.Placement         `json:"placement,omitempty"`
	GracefulEvictionTasks       []GracefulEvictionTask            `json:"gracefulEvictionTasks,omitempty"`
	ActiveEvictionHistory       []EvictionRecord                  `json:"activeEvictionHistory,omitempty"`
	RequiredBy                  []BindingSnapshot                 `json:"requiredBy,omitempty"`
	SchedulerName               string                            `json:"schedulerName,omitempty"`
	Failover                    *policyv1alpha1.FailoverBehavior  `json:"failover,omitempty"`
	ConflictResolution          policyv1alpha1.ConflictResolution `json:"conflictResolution,omitempty"`
	RescheduleTriggeredAt       *metav1.Time                      `json:"rescheduleTriggeredAt,omitempty"`
	Suspension                  *Suspension                       `json:"suspension,omitempty"`
	PreserveResourcesOnDeletion *bool                             `json:"preserveResourcesOnDeletion,omitempty"`
	SchedulePriority            *SchedulePriority                 `json:"schedulePriority,omitempty"`
	WorkloadAffinityGroups      *WorkloadAffinityGroups           `json:"workloadAffinityGroups,omitempty"`
}

// PolicyReference names a propagation policy.
type PolicyReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ObjectReference names the template.
type ObjectReference struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ReplicaRequirements is what one replica asks for.
type ReplicaRequirements struct {
	NodeClaim         *NodeClaim          `json:"nodeClaim,omitempty"`
	ResourceRequest   corev1.ResourceList `json:"resourceRequest,omitempty"`
	Namespace         string              `json:"namespace,omitempty"`
	PriorityClassName string              `json:"priorityClassName,omitempty"`
}

// NodeClaim is what one replica asks of its node.
type NodeClaim struct {
	HardNodeAffinity *corev1.NodeSelector `json:"hardNodeAffinity,omitempty"`
	NodeSelector     map[string]string    `json:"nodeSelector,omitempty"`
	Tolerations      []corev1.Toleration  `json:"tolerations,omitempty"`
}

// Component is one pod template of a workload that has several.
type Component struct {
	Name                string               `json:"name"`
	Replicas            int32                `json:"replicas"`
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`
}

// TargetCluster is a cluster with the replicas it gets; 0 where the kind has none.
type TargetCluster struct {
	Name       string            `json:"name"`
	Replicas   int32             `json:"replicas,omitempty"`
	Components []TargetComponent `json:"components,omitempty"`
}

// TargetComponent is a component's share.
type TargetComponent struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

// GracefulEvictionTask is a cluster being left.
type GracefulEvictionTask struct {
	FromCluster            string                   `json:"fromCluster"`
	PurgeMode              policyv1alpha1.PurgeMode `json:"purgeMode,omitempty"`
	Replicas               *int32                   `json:"replicas,omitempty"`
	Reason                 string                   `json:"reason"`
	Message                string                   `json:"message,omitempty"`
	Producer               string                   `json:"producer"`
	GracePeriodSeconds     *int32                   `json:"gracePeriodSeconds,omitempty"`
	SuppressDeletion       *bool                    `json:"suppressDeletion,omitempty"`
	PreservedLabelState    map[string]string        `json:"preservedLabelState,omitempty"`
	ClustersBeforeFailover []string                 `json:"clustersBeforeFailover,omitempty"`
	CreationTimestamp      *metav1.Time             `json:"creationTimestamp,omitempty"`
}

// EvictionRecord is a cluster that is refused for a while because the workload failed there.
type EvictionRecord struct {
	ClusterName       string      `json:"clusterName"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	Reason            string      `json:"reason,omitempty"`
}

// BindingSnapshot is where a binding that depends on this one runs.
type BindingSnapshot struct {
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	Clusters  []TargetCluster `json:"clusters,omitempty"`
}

// Suspension stops sending or scheduling.
type Suspension struct {
	policyv1alpha1.Suspension `json:",inline"`
	// Scheduling true: another system has taken the binding; nil means false.
	Scheduling *bool `json:"scheduling,omitempty"`
}

// SchedulePriority is the resolved priority.
type SchedulePriority struct {
	Priority int32 `json:"priority,omitempty"`
}

// WorkloadAffinityGroups are the groups as key=value.
type WorkloadAffinityGroups struct {
	AffinityGroup     string `json:"affinityGroup,omitempty"`
	AntiAffinityGroup string `json:"antiAffinityGroup,omitempty"`
}

// ResourceBindingStatus is what came of the decision.
type ResourceBindingStatus struct {
	SchedulerObservedGeneration   int64                  `json:"schedulerObservedGeneration,omitempty"`
	SchedulerObservedAffinityName string                 `json:"schedulerObservingAffinityName,omitempty"`
	LastScheduledTime             *metav1.Time           `json:"lastScheduledTime,omitempty"`
	Conditions                    []metav1.Condition     `json:"conditions,omitempty"`
	AggregatedStatus              []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceHealth is Healthy, Unhealthy or Unknown.
type ResourceHealth string

const (
	ResourceHealthy   ResourceHealth = "Healthy"
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	ResourceUnknown   ResourceHealth = "Unknown"
)

// AggregatedStatusItem is the state of one copy.
type AggregatedStatusItem struct {
	ClusterName    string                `json:"clusterName"`
	Status         *runtime.RawExtension `json:"status,omitempty"`
	Applied        bool                  `json:"applied,omitempty"`
	AppliedMessage string                `json:"appliedMessage,omitempty"`
	Health         ResourceHealth        `json:"health,omitempty"`
	// Settled: the copy was healthy there at least once.
	Settled bool `json:"settled,omitempty"`
	// CreationTimestamp: when a status was first collected there; only kept where a timer needs it.
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
	// LastHealthTransitionTime: when Health last changed; only kept where a timer needs it.
	LastHealthTransitionTime *metav1.Time `json:"lastHealthTransitionTime,omitempty"`
}
