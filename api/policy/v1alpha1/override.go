package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OverridePolicy changes the copies of templates of its namespace, cluster by cluster.
type OverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OverrideSpec `json:"spec"`
}

// ClusterOverridePolicy changes the copies of any template, cluster by cluster.
type ClusterOverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OverrideSpec `json:"spec"`
}

// OverrideSpec is the spec of both override policies.
type OverrideSpec struct {
	// ResourceSelectors: empty means every template in scope.
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`
	OverrideRules     []RuleWithCluster  `json:"overrideRules,omitempty"`
	// TargetCluster and Overriders are the deprecated single rule, used when OverrideRules is empty.
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`
	Overriders    Overriders       `json:"overriders,omitempty"`
}

// RuleWithCluster applies overriders on the clusters that match.
type RuleWithCluster struct {
	// TargetCluster: nil means every cluster.
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`
	Overriders    Overriders       `json:"overriders"`
}

// Overriders are applied in the order image, command, args, labels, annotations, field, plaintext.
type Overriders struct {
	Plaintext            []PlaintextOverrider       `json:"plaintext,omitempty"`
	ImageOverrider       []ImageOverrider           `json:"imageOverrider,omitempty"`
	CommandOverrider     []CommandArgsOverrider     `json:"commandOverrider,omitempty"`
	ArgsOverrider        []CommandArgsOverrider     `json:"argsOverrider,omitempty"`
	LabelsOverrider      []LabelAnnotationOverrider `json:"labelsOverrider,omitempty"`
	AnnotationsOverrider []LabelAnnotationOverrider `json:"annotationsOverrider,omitempty"`
	FieldOverrider       []FieldOverrider           `json:"fieldOverrider,omitempty"`
}

// OverriderOperator is add, remove or replace.
type OverriderOperator string

const (
	OverriderOpAdd     OverriderOperator = "add"
	OverriderOpRemove  OverriderOperator = "remove"
	OverriderOpReplace OverriderOperator = "replace"
)

// PlaintextOverrider is one JSON Patch operation.
type PlaintextOverrider struct {
	Path     string               `json:"path"`
	Operator OverriderOperator    `json:"operator"`
	Value    apiextensionsv1.JSON `json:"value,omitempty"`
}

// ImageOverrider changes one component of images.
type ImageOverrider struct {
	// Predicate: nil means the images of the kinds with containers.
	Predicate *ImagePredicate   `json:"predicate,omitempty"`
	Component ImageComponent    `json:"component"`
	Operator  OverriderOperator `json:"operator"`
	Value     string            `json:"value,omitempty"`
}

// ImagePredicate names the field that holds the image.
type ImagePredicate struct {
	Path string `json:"path"`
}

// ImageComponent is Registry, Repository or Tag.
type ImageComponent string

const (
	ImageRegistry   ImageComponent = "Registry"
	ImageRepository ImageComponent = "Repository"
	ImageTag        ImageComponent = "Tag"
)

// CommandArgsOverrider adds or removes elements of command or args of one container.
type CommandArgsOverrider struct {
	ContainerName string            `json:"containerName"`
	Operator      OverriderOperator `json:"operator"`
	Value         []string          `json:"value,omitempty"`
}

// LabelAnnotationOverrider changes labels or annotations of the object itself.
type LabelAnnotationOverrider struct {
	Operator OverriderOperator `json:"operator"`
	Value    map[string]string `json:"value,omitempty"`
}

// FieldOverrider patches a JSON or YAML document held in a text field.
type FieldOverrider struct {
	FieldPath string                `json:"fieldPath"`
	JSON      []FieldPatchOperation `json:"json,omitempty"`
	YAML      []FieldPatchOperation `json:"yaml,omitempty"`
}

// FieldPatchOperation is one JSON Patch operation on the document.
type FieldPatchOperation struct {
	SubPath  string               `json:"subPath"`
	Operator OverriderOperator    `json:"operator"`
	Value    apiextensionsv1.JSON `json:"value,omitempty"`
}
