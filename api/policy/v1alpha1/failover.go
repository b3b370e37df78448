package v1alpha1

// PurgeMode says when the copy on the failed cluster goes.
type PurgeMode string

const (
	PurgeDirectly   PurgeMode = "Directly"
	PurgeGracefully PurgeMode = "Gracefully"
	PurgeNever      PurgeMode = "Never"

	// PurgeImmediately and PurgeGraciously are the words of Karmada 1.6 to 1.18 for Directly and
	// Gracefully. They are accepted when decoding and never written.
	PurgeImmediately PurgeMode = "Immediately"
	PurgeGraciously  PurgeMode = "Graciously"
)

// FailoverBehavior switches failover on.
type FailoverBehavior struct {
	Application *ApplicationFailoverBehavior `json:"application,omitempty"`
	Cluster     *ClusterFailoverBehavior     `json:"cluster,omitempty"`
}

// ApplicationFailoverBehavior moves a workload whose health on a cluster is bad for long enough.
type ApplicationFailoverBehavior struct {
	// PreConditions must hold before the unhealthy time is counted; nil means none.
	PreConditions      *PreConditions     `json:"preConditions,omitempty"`
	DecisionConditions DecisionConditions `json:"decisionConditions"`
	// PurgeMode: empty means Gracefully.
	PurgeMode PurgeMode `json:"purgeMode,omitempty"`
	// GracePeriodSeconds: only with Gracefully; nil means 600.
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
	// BlockPredecessorSeconds: for how long the failed cluster is refused; nil means 600, 0 means for ever.
	BlockPredecessorSeconds *int32             `json:"blockPredecessorSeconds,omitempty"`
	StatePreservation       *StatePreservation `json:"statePreservation,omitempty"`
}

// PreConditions hold off the counting.
type PreConditions struct {
	// DelaySeconds after the status was first collected on the cluster; nil means 0.
	DelaySeconds *int32 `json:"delaySeconds,omitempty"`
	// HealthyState Healthy: only workloads that were healthy there once.
	HealthyState string `json:"healthyState,omitempty"`
}

// DecisionConditions say what counts as failed.
type DecisionConditions struct {
	// TolerationSeconds: nil means 300, 0 means at once.
	TolerationSeconds *int32 `json:"tolerationSeconds,omitempty"`
	// HealthyState: the states that count as unhealthy; empty means Unhealthy alone.
	HealthyState []string `json:"healthyState,omitempty"`
}

// ClusterFailoverBehavior moves a workload off a cluster that is gone.
type ClusterFailoverBehavior struct {
	// PurgeMode: Directly or Gracefully; empty means that of Application, else Gracefully.
	PurgeMode         PurgeMode          `json:"purgeMode,omitempty"`
	StatePreservation *StatePreservation `json:"statePreservation,omitempty"`
}

// StatePreservation carries parts of the old copy's status to the new copy as labels.
type StatePreservation struct {
	Rules []StatePreservationRule `json:"rules"`
}

// StatePreservationRule takes one value.
type StatePreservationRule struct {
	AliasLabelName string `json:"aliasLabelName"`
	// JSONPath is rooted at the object's status.
	JSONPath string `json:"jsonPath"`
}
