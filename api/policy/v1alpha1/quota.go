package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FederatedResourceQuota bounds what a namespace may use over all clusters.
type FederatedResourceQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FederatedResourceQuotaSpec   `json:"spec"`
	Status            FederatedResourceQuotaStatus `json:"status,omitempty"`
}

// FederatedResourceQuotaSpec holds the limits.
type FederatedResourceQuotaSpec struct {
	Overall corev1.ResourceList `json:"overall"`
	// StaticAssignments make a ResourceQuota in each cluster named.
	StaticAssignments []StaticClusterAssignment `json:"staticAssignments,omitempty"`
}

// StaticClusterAssignment is the share of one cluster.
type StaticClusterAssignment struct {
	ClusterName string              `json:"clusterName"`
	Hard        corev1.ResourceList `json:"hard"`
}

// FederatedResourceQuotaStatus is what was observed.
type FederatedResourceQuotaStatus struct {
	Overall          corev1.ResourceList  `json:"overall,omitempty"`
	OverallUsed      corev1.ResourceList  `json:"overallUsed,omitempty"`
	AggregatedStatus []ClusterQuotaStatus `json:"aggregatedStatus,omitempty"`
}

// ClusterQuotaStatus is the quota's status in one cluster.
type ClusterQuotaStatus struct {
	corev1.ResourceQuotaStatus `json:",inline"`
	ClusterName                string `json:"clusterName"`
}

// ClusterTaintPolicy puts taints on clusters by their conditions.
type ClusterTaintPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterTaintPolicySpec `json:"spec"`
}

// ClusterTaintPolicySpec says which taints, where and when.
type ClusterTaintPolicySpec struct {
	// TargetClusters: nil means every cluster.
	TargetClusters *ClusterAffinity `json:"targetClusters,omitempty"`
	// AddOnConditions: empty means never.
	AddOnConditions []MatchCondition `json:"addOnConditions,omitempty"`
	// RemoveOnConditions: empty means never.
	RemoveOnConditions []MatchCondition `json:"removeOnConditions,omitempty"`
	Taints             []Taint          `json:"taints"`
}

// MatchCondition compares a cluster condition's status.
type MatchCondition struct {
	ConditionType string `json:"conditionType"`
	// Operator is In or NotIn.
	Operator     string   `json:"operator"`
	StatusValues []string `json:"statusValues"`
}

// Taint is what the policy puts on a cluster.
type Taint struct {
	Key    string             `json:"key"`
	Effect corev1.TaintEffect `json:"effect"`
	Value  string             `json:"value,omitempty"`
}
