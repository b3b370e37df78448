// Package v1alpha1 holds the kinds of config.karmada.io/v1alpha1, which say what other kinds mean:
// ResourceInterpreterCustomization in Lua, ResourceInterpreterWebhookConfiguration by servers.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// Group is the API group of the kinds in this package.
	Group = "config.karmada.io"
	// APIVersion is what their manifests carry in apiVersion.
	APIVersion = Group + "/v1alpha1"
)

// ResourceInterpreterCustomization gives rules for one kind.
type ResourceInterpreterCustomization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ResourceInterpreterCustomizationSpec `json:"spec"`
}

// ResourceInterpreterCustomizationSpec names the kind and its rules.
type ResourceInterpreterCustomizationSpec struct {
	Target         CustomizationTarget `json:"target"`
	Customizations CustomizationRules  `json:"customizations"`
}

// CustomizationTarget is exact.
type CustomizationTarget struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// CustomizationRules has a script for each operation that the customization defines; nil means it
// does not define it.
type CustomizationRules struct {
	Retention                *LuaRule `json:"retention,omitempty"`
	ReplicaResource          *LuaRule `json:"replicaResource,omitempty"`
	ComponentResource        *LuaRule `json:"componentResource,omitempty"`
	ReplicaRevision          *LuaRule `json:"replicaRevision,omitempty"`
	StatusReflection         *LuaRule `json:"statusReflection,omitempty"`
	StatusAggregation        *LuaRule `json:"statusAggregation,omitempty"`
	HealthInterpretation     *LuaRule `json:"healthInterpretation,omitempty"`
	DependencyInterpretation *LuaRule `json:"dependencyInterpretation,omitempty"`
}

// LuaRule is one script.
type LuaRule struct {
	LuaScript string `json:"luaScript"`
}
