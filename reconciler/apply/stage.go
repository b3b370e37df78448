package apply

import (
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

// Stage orders what is done on one member: nothing of a later stage starts while something of an
// earlier one is under way. Deleting goes the other way round than applying.
type Stage int

const (
	// Ground is for what others stand on: Namespaces and CustomResourceDefinitions.
	Ground Stage = iota
	Rest
	DeleteRest
	DeleteGround
)

// StageOf gives the stage in which an object is applied, or deleted.
func StageOf(id api.ID, deleted bool) Stage {
	ground := isNamespace(id) || isDefinition(id)
	switch {
	case deleted && ground:
		return DeleteGround
	case deleted:
		return DeleteRest
	case ground:
		return Ground
	}
	return Rest
}

// WaitsFor tells whether the deletion of id has to wait until other, which is to be deleted too, is gone:
// a Namespace or a CustomResourceDefinition takes with it all that is in it, unchecked.
func WaitsFor(id, other api.ID) bool {
	switch {
	case isNamespace(id):
		return other.Namespace == id.Name
	case isDefinition(id): // its name is <plural>.<group>
		_, group, _ := strings.Cut(id.Name, ".")
		return other.Group == group
	}
	return false
}

func isNamespace(id api.ID) bool { return id.Group == "" && id.Kind == "Namespace" }

func isDefinition(id api.ID) bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// Established tells whether a CustomResourceDefinition is served.
func Established(definition api.Object) bool {
	if !isDefinition(api.IDOf(definition)) {
		return false
	}
	status, _ := definition["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// Defines tells whether o is the CustomResourceDefinition of the object's kind.
func Defines(o api.Object, id api.ID) bool {
	spec, _ := o["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	return isDefinition(api.IDOf(o)) && spec["group"] == id.Group && names["kind"] == id.Kind
}

// ScaleTarget gives the object whose replicas a HorizontalPodAutoscaler sets; false if o is none.
func ScaleTarget(o api.Object) (api.ID, bool) {
	id := api.IDOf(o)
	if id.Group != "autoscaling" || id.Kind != "HorizontalPodAutoscaler" {
		return api.ID{}, false
	}
	spec, _ := o["spec"].(map[string]any)
	ref, _ := spec["scaleTargetRef"].(map[string]any)
	target := api.IDOf(ref)
	target.Namespace = id.Namespace
	target.Name, _ = ref["name"].(string)
	return target.Unversioned(), target.Kind != "" && target.Name != ""
}
