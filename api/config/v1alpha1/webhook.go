package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

const (
	KindResourceInterpreterWebhookConfiguration = "ResourceInterpreterWebhookConfiguration"
	// KindResourceInterpreterContext is what goes to a webhook and what comes back.
	KindResourceInterpreterContext = "ResourceInterpreterContext"
)

// ResourceInterpreterWebhookConfiguration names servers that say what kinds mean.
type ResourceInterpreterWebhookConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Webhooks          []ResourceInterpreterWebhook `json:"webhooks"`
}

// ResourceInterpreterWebhook is one server and what it answers.
type ResourceInterpreterWebhook struct {
	// Name is a fully qualified domain name, unique in the configuration.
	Name         string              `json:"name"`
	ClientConfig WebhookClientConfig `json:"clientConfig"`
	// Rules: one that matches is enough. Without any the webhook is never asked.
	Rules []RuleWithOperations `json:"rules,omitempty"`
	// TimeoutSeconds is from 1 to 30; nil means 10.
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// InterpreterContextVersions are the versions of ResourceInterpreterContext that the server reads;
	// v1alpha1 must be among them.
	InterpreterContextVersions []string `json:"interpreterContextVersions"`
}

// WebhookClientConfig says where the server is: exactly one of URL and Service.
type WebhookClientConfig struct {
	URL     *string           `json:"url,omitempty"`
	Service *ServiceReference `json:"service,omitempty"`
	// CABundle is PEM; empty means the roots of the machine.
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference names a Service of the cluster that the caller runs in.
type ServiceReference struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Path      *string `json:"path,omitempty"`
	// Port: nil means 443.
	Port *int32 `json:"port,omitempty"`
}

// RuleWithOperations matches questions; "*" in a list, alone there, stands for all.
type RuleWithOperations struct {
	Operations []string `json:"operations"`
	Rule       `json:",inline"`
}

// Rule matches kinds. The core group is "".
type Rule struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Kinds       []string `json:"kinds"`
}

// ResourceInterpreterContext is a question or its answer.
type ResourceInterpreterContext struct {
	metav1.TypeMeta `json:",inline"`
	Request         *ResourceInterpreterRequest  `json:"request,omitempty"`
	Response        *ResourceInterpreterResponse `json:"response,omitempty"`
}

// ResourceInterpreterRequest is a question.
type ResourceInterpreterRequest struct {
	UID       types.UID               `json:"uid"`
	Kind      metav1.GroupVersionKind `json:"kind"`
	Name      string                  `json:"name"`
	Namespace string                  `json:"namespace,omitempty"`
	Operation string                  `json:"operation"`
	Object    runtime.RawExtension    `json:"object"`
	// ObservedObject is the member's; only for Retain.
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`
	// DesiredReplicas is only for ReviseReplica.
	DesiredReplicas *int32 `json:"replicas,omitempty"`
	// AggregatedStatus is only for AggregateStatus.
	AggregatedStatus []workv1alpha2.AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceInterpreterResponse is an answer. Which of its fields count depends on the operation.
type ResourceInterpreterResponse struct {
	// UID is that of the request.
	UID        types.UID      `json:"uid"`
	Successful bool           `json:"successful"`
	Status     *RequestStatus `json:"status,omitempty"`
	// Patch is a JSON patch of the request's object; none leaves it as it is.
	Patch               []byte                            `json:"patch,omitempty"`
	PatchType           string                            `json:"patchType,omitempty"`
	ReplicaRequirements *workv1alpha2.ReplicaRequirements `json:"replicaRequirements,omitempty"`
	Replicas            *int32                            `json:"replicas,omitempty"`
	Components          []workv1alpha2.Component          `json:"components,omitempty"`
	Dependencies        []DependentObjectReference        `json:"dependencies,omitempty"`
	RawStatus           *runtime.RawExtension             `json:"rawStatus,omitempty"`
	Healthy             *bool                             `json:"healthy,omitempty"`
}

// PatchTypeJSONPatch is the one type of patches.
const PatchTypeJSONPatch = "JSONPatch"

// RequestStatus says why a server has no answer.
type RequestStatus struct {
	Message string `json:"message,omitempty"`
	Code    int32  `json:"code,omitempty"`
}

// DependentObjectReference names one object by Name, or those that LabelSelector selects.
type DependentObjectReference struct {
	APIVersion    string                `json:"apiVersion"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
