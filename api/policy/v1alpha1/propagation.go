package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationPolicy says where the templates of its namespace run.
type PropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PropagationSpec `json:"spec"`
}

// ClusterPropagationPolicy says where templates of any namespace, and cluster-scoped ones, run.
type ClusterPropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PropagationSpec `json:"spec"`
}

// PropagationSpec is the spec of both propagation policies.
type PropagationSpec struct {
	// ResourceSelectors name the templates the policy is for; at least one.
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`
	// Association is accepted and never read, as in Karmada.
	Association bool `json:"association,omitempty"`
	// PropagateDeps sends along what a template refers to (ConfigMaps, Secrets, ...).
	PropagateDeps bool `json:"propagateDeps,omitempty"`
	// Placement chooses clusters and divides replicas; empty means every cluster.
	Placement Placement `json:"placement,omitempty"`
	// Priority: the larger wins; nil means 0.
	Priority *int32 `json:"priority,omitempty"`
	// Preemption: Always or Never; empty means Never.
	Preemption PreemptionBehavior `json:"preemption,omitempty"`
	// DependentOverrides are override policies that must exist before a template is placed.
	DependentOverrides []string `json:"dependentOverrides,omitempty"`
	// SchedulerName: empty means default-scheduler; bindings of other schedulers are not scheduled here.
	SchedulerName string `json:"schedulerName,omitempty"`
	// Failover: nil means off.
	Failover *FailoverBehavior `json:"failover,omitempty"`
	// ConflictResolution: Abort or Overwrite; empty means Abort.
	ConflictResolution ConflictResolution `json:"conflictResolution,omitempty"`
	// ActivationPreference: empty (changes take effect at once) or Lazy.
	ActivationPreference ActivationPreference `json:"activationPreference,omitempty"`
	// Suspension stops the sending of works; nil means nothing is suspended.
	Suspension *Suspension `json:"suspension,omitempty"`
	// PreserveResourcesOnDeletion keeps the copies on members when the template goes; nil means false.
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`
	// SchedulePriority orders bindings that wait to be scheduled; nil means priority 0.
	SchedulePriority *SchedulePriority `json:"schedulePriority,omitempty"`
}

// ResourceSelector selects templates of one kind.
type ResourceSelector struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace: empty means any namespace in cluster policies, the policy's own elsewhere.
	Namespace string `json:"namespace,omitempty"`
	// Name: if set, LabelSelector is not looked at.
	Name string `json:"name,omitempty"`
	// LabelSelector: nil means every object of the kind; empty means the same, but counts as more precise.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// FieldSelector selects clusters by provider, region and zone.
type FieldSelector struct {
	MatchExpressions []corev1.NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// PreemptionBehavior is Always or Never.
type PreemptionBehavior string

// ConflictResolution is Abort or Overwrite.
type ConflictResolution string

// ActivationPreference is empty or Lazy.
type ActivationPreference string

const (
	PreemptAlways PreemptionBehavior = "Always"
	PreemptNever  PreemptionBehavior = "Never"

	ConflictAbort     ConflictResolution = "Abort"
	ConflictOverwrite ConflictResolution = "Overwrite"

	LazyActivation ActivationPreference = "Lazy"
)

// Suspension stops the sending of works.
type Suspension struct {
	// Dispatching true stops all members; nil means false.
	Dispatching *bool `json:"dispatching,omitempty"`
	// DispatchingOnClusters stops the named members alone.
	DispatchingOnClusters *SuspendClusters `json:"dispatchingOnClusters,omitempty"`
}

// SuspendClusters names members.
type SuspendClusters struct {
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// SchedulePriority takes the priority of a binding from a PriorityClass.
type SchedulePriority struct {
	// PriorityClassSource: KubePriorityClass is the only value.
	PriorityClassSource string `json:"priorityClassSource"`
	PriorityClassName   string `json:"priorityClassName"`
}

// Placement chooses clusters and divides replicas over them.
type Placement struct {
	// ClusterAffinity and ClusterAffinities exclude each other; with neither, every cluster is a candidate.
	ClusterAffinity   *ClusterAffinity      `json:"clusterAffinity,omitempty"`
	ClusterAffinities []ClusterAffinityTerm `json:"clusterAffinities,omitempty"`
	// ClusterTolerations are matched against cluster taints.
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`
	SpreadConstraints  []SpreadConstraint  `json:"spreadConstraints,omitempty"`
	// ReplicaScheduling: nil means Duplicated; present but empty means Divided by weight.
	ReplicaScheduling *ReplicaSchedulingStrategy `json:"replicaScheduling,omitempty"`
	WorkloadAffinity  *WorkloadAffinity          `json:"workloadAffinity,omitempty"`
}

// ClusterAffinity selects clusters; all its parts must hold. An empty one selects every cluster.
type ClusterAffinity struct {
	LabelSelector   *metav1.LabelSelector `json:"labelSelector,omitempty"`
	FieldSelector   *FieldSelector        `json:"fieldSelector,omitempty"`
	ClusterNames    []string              `json:"clusterNames,omitempty"`
	ExcludeClusters []string              `json:"exclude,omitempty"`
}

// ClusterAffinityTerm is one of several alternatives, tried in order.
type ClusterAffinityTerm struct {
	AffinityName    string `json:"affinityName"`
	ClusterAffinity `json:",inline"`
	// OverflowAffinities take what the term's own clusters have no room for, in order.
	OverflowAffinities []OverflowClusterAffinity `json:"overflowAffinities,omitempty"`
}

// OverflowClusterAffinity is one tier of overflow.
type OverflowClusterAffinity struct {
	AffinityName    string `json:"affinityName"`
	ClusterAffinity `json:",inline"`
}

// SpreadFieldValue is a property of clusters that groups them.
type SpreadFieldValue string

const (
	SpreadByFieldCluster  SpreadFieldValue = "cluster"
	SpreadByFieldRegion   SpreadFieldValue = "region"
	SpreadByFieldZone     SpreadFieldValue = "zone"
	SpreadByFieldProvider SpreadFieldValue = "provider"
)

// SpreadConstraint bounds the number of groups chosen.
type SpreadConstraint struct {
	// SpreadByField: empty, with SpreadByLabel empty too, means cluster.
	SpreadByField SpreadFieldValue `json:"spreadByField,omitempty"`
	SpreadByLabel string           `json:"spreadByLabel,omitempty"`
	// MaxGroups: 0 is no "unlimited" in Karmada, it selects nothing.
	MaxGroups int `json:"maxGroups,omitempty"`
	// MinGroups: 0 means 1.
	MinGroups int `json:"minGroups,omitempty"`
}

// ReplicaSchedulingType is Duplicated or Divided.
type ReplicaSchedulingType string

// ReplicaDivisionPreference is Aggregated or Weighted.
type ReplicaDivisionPreference string

const (
	ReplicaSchedulingTypeDuplicated ReplicaSchedulingType = "Duplicated"
	ReplicaSchedulingTypeDivided    ReplicaSchedulingType = "Divided"

	ReplicaDivisionPreferenceAggregated ReplicaDivisionPreference = "Aggregated"
	ReplicaDivisionPreferenceWeighted   ReplicaDivisionPreference = "Weighted"

	DynamicWeightByAvailableReplicas = "AvailableReplicas"
)

// ReplicaSchedulingStrategy says how replicas are given to clusters.
type ReplicaSchedulingStrategy struct {
	// ReplicaSchedulingType: empty means Divided.
	ReplicaSchedulingType ReplicaSchedulingType `json:"replicaSchedulingType,omitempty"`
	// ReplicaDivisionPreference: empty with Divided means Weighted.
	ReplicaDivisionPreference ReplicaDivisionPreference `json:"replicaDivisionPreference,omitempty"`
	// WeightPreference: nil means equal weights.
	WeightPreference *ClusterPreferences `json:"weightPreference,omitempty"`
}

// ClusterPreferences are the weights of Divided, Weighted.
type ClusterPreferences struct {
	StaticWeightList []StaticClusterWeight `json:"staticWeightList,omitempty"`
	// DynamicWeight: AvailableReplicas or empty; set, StaticWeightList is ignored.
	DynamicWeight string `json:"dynamicWeight,omitempty"`
}

// StaticClusterWeight gives the clusters that match a weight of at least 1.
type StaticClusterWeight struct {
	TargetCluster ClusterAffinity `json:"targetCluster"`
	Weight        int64           `json:"weight"`
}

// WorkloadAffinity groups workloads by the value of a label.
type WorkloadAffinity struct {
	Affinity     *WorkloadAffinityTerm `json:"affinity,omitempty"`
	AntiAffinity *WorkloadAffinityTerm `json:"antiAffinity,omitempty"`
}

// WorkloadAffinityTerm names the label.
type WorkloadAffinityTerm struct {
	GroupByLabelKey string `json:"groupByLabelKey"`
}
