package work

import (
	"maps"

	"github.com/godwit-gitops/godwit/api"
)

// Marks on every object that godwit applies. An object on a member is ours if it has the managed
// label and the fleet annotation names our fleet.
const (
	LabelManaged      = "godwit.dev/managed"
	AnnotationFleet   = "godwit.dev/fleet"
	AnnotationBinding = "godwit.dev/binding"

	// ConflictAnnotation on a template overrules the policy's conflictResolution.
	ConflictAnnotation = "work.karmada.io/conflict-resolution"
)

// trackingLabels and trackingAnnotations are how Argo CD and Flux know their own objects.
var (
	trackingLabels = []string{
		"argocd.argoproj.io/instance",
		fluxKustomize + "/name", fluxKustomize + "/namespace", fluxKustomize + "/checksum",
		fluxHelm + "/name", fluxHelm + "/namespace",
		"resourceset.fluxcd.controlplane.io/name", "resourceset.fluxcd.controlplane.io/namespace",
		"fluxcd.controlplane.io/name", "fluxcd.controlplane.io/namespace",
	}
	trackingAnnotations = []string{
		argoTracking,
		"argocd.argoproj.io/installation-id",
		fluxKustomize + "/checksum",
	}
)

const (
	argoTracking  = "argocd.argoproj.io/tracking-id"
	fluxKustomize = "kustomize.toolkit.fluxcd.io"
	fluxHelm      = "helm.toolkit.fluxcd.io"

	// InstanceLabel is Argo CD's own in older installations, and one that charts have.
	InstanceLabel = "app.kubernetes.io/instance"
)

// foreignLabels are the labels to take off an object. The instance label goes unless it is to be kept; a Pod
// keeps it, as Services find it by its labels. Those of other workloads are in their pod template, which is
// left as it is.
func foreignLabels(o api.Object, keepInstance bool) []string {
	if keepInstance || o["kind"] == "Pod" && o["apiVersion"] == "v1" {
		return trackingLabels
	}
	return labelsWithInstance
}

var labelsWithInstance = append([]string{InstanceLabel}, trackingLabels...)

// mark adds our marks and takes off those of others. Without a binding, as for a Namespace that only
// its works need, there is no mark of one.
func mark(o api.Object, fleet, binding string, foreign []string) api.Object {
	ours := map[string]any{AnnotationFleet: fleet}
	if binding != "" {
		ours[AnnotationBinding] = binding
	}
	return withMeta(o,
		metaChange{"labels", foreign, map[string]any{LabelManaged: "true"}},
		metaChange{"annotations", trackingAnnotations, ours})
}

// metaChange changes one map of metadata.
type metaChange struct {
	field string
	drop  []string
	set   map[string]any
}

// withMeta copies the path to metadata's maps and changes them.
func withMeta(o api.Object, changes ...metaChange) api.Object {
	o = maps.Clone(o)
	meta, _ := o["metadata"].(map[string]any)
	meta = cloneOrNew(meta)
	o["metadata"] = meta
	for _, change := range changes {
		m, _ := meta[change.field].(map[string]any)
		m = cloneOrNew(m)
		for _, k := range change.drop {
			delete(m, k)
		}
		maps.Copy(m, change.set)
		meta[change.field] = m
	}
	return o
}

func cloneOrNew(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}

// Owned tells whether a live object carries the marks of the fleet.
func Owned(live api.Object, fleet string) bool {
	return metaText(live, "labels", LabelManaged) == "true" && metaText(live, "annotations", AnnotationFleet) == fleet
}

// BindingOf is the binding that an object's mark names, empty if none does.
func BindingOf(o api.Object) string { return metaText(o, "annotations", AnnotationBinding) }

func metaText(o api.Object, field, key string) string {
	meta, _ := o["metadata"].(map[string]any)
	m, _ := meta[field].(map[string]any)
	s, _ := m[key].(string)
	return s
}
