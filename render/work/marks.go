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
	// AnnotationAccount is the service account, as namespace/name, that the object is written as on the member. It is
	// there if the object's project has one, and says nothing wherever else it stands.
	AnnotationAccount = "godwit.dev/service-account"

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

// marks are what is different about our marks from one object to the next.
type marks struct{ fleet, binding, account string }

// mark adds our marks and takes off those of others, and one of an account that nobody who may gave it. Without a
// binding, as for a Namespace that only its works need, there is no mark of one.
func mark(o api.Object, m marks, foreign []string) api.Object {
	ours := map[string]any{AnnotationFleet: m.fleet}
	if m.binding != "" {
		ours[AnnotationBinding] = m.binding
	}
	if m.account != "" {
		ours[AnnotationAccount] = m.account
	}
	return withMeta(o,
		metaChange{"labels", foreign, map[string]any{LabelManaged: "true"}},
		metaChange{"annotations", annotationsOfOthers, ours})
}

var annotationsOfOthers = append([]string{AnnotationAccount}, trackingAnnotations...)

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

// AccountOf is the service account that an object's work is written as; empty means our own.
func AccountOf(o api.Object) string { return metaText(o, "annotations", AnnotationAccount) }

// BindingOf is the binding that an object's mark names, empty if none does.
func BindingOf(o api.Object) string { return metaText(o, "annotations", AnnotationBinding) }

func metaText(o api.Object, field, key string) string {
	meta, _ := o["metadata"].(map[string]any)
	m, _ := meta[field].(map[string]any)
	s, _ := m[key].(string)
	return s
}
