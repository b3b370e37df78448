package work

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
)

// AnnotationVersion on a work that somebody else applies tells one version of it from another, so that the
// live object says which of them it is.
const AnnotationVersion = "godwit.dev/work"

// Deliver makes a work for others to apply, such as Argo CD or Flux: it is marked with its version, and with
// keep both are told to leave the object when the file goes, as they are for what asks us the same.
func Deliver(o api.Object, keep bool) api.Object {
	o = withMeta(o, metaChange{"annotations", []string{AnnotationVersion}, nil})
	if keep || metaText(o, "annotations", AnnotationPrune) == pruneDisabled {
		o = withMeta(o, metaChange{"annotations", nil, map[string]any{
			argoOptions: withOptions(metaText(o, "annotations", argoOptions), keepOptions...),
			fluxPrune:   pruneDisabled,
		}})
	}
	sum := canonical.Blob(canonical.YAML(o))
	return withMeta(o, metaChange{"annotations", nil, map[string]any{AnnotationVersion: hex.EncodeToString(sum[:8])}})
}

// VersionOf is the version of a work that Deliver made, or of the object that it became; empty if there is none.
func VersionOf(o api.Object) string { return metaText(o, "annotations", AnnotationVersion) }

const (
	// AnnotationPrune: "disabled" on a template keeps its copies when it goes.
	AnnotationPrune = "godwit.dev/prune"

	fluxPrune     = "kustomize.toolkit.fluxcd.io/prune"
	pruneDisabled = "disabled"
	argoOptions   = "argocd.argoproj.io/sync-options"
)

// keepOptions keep an object of Argo CD when its file goes, and when its Application does.
var keepOptions = []string{"Prune=false", "Delete=false"}

// StaysBehind tells whether an object asks to be left when its work goes.
func StaysBehind(o api.Object) bool {
	return metaText(o, "annotations", AnnotationPrune) == pruneDisabled || metaText(o, "annotations", fluxPrune) == pruneDisabled ||
		slices.Contains(options(metaText(o, "annotations", argoOptions)), keepOptions[0])
}

// Keeps tells whether everybody who may apply a work leaves its object when the file goes.
func Keeps(o api.Object) bool {
	has := options(metaText(o, "annotations", argoOptions))
	return metaText(o, "annotations", fluxPrune) == pruneDisabled &&
		!slices.ContainsFunc(keepOptions, func(option string) bool { return !slices.Contains(has, option) })
}

// options are the parts of a list with commas.
func options(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// withOptions is a list of "Name=value" with more of them, which take the place of those of the same name.
func withOptions(list string, more ...string) string {
	parts := slices.DeleteFunc(options(list), func(had string) bool {
		name, _, _ := strings.Cut(had, "=")
		return slices.ContainsFunc(more, func(option string) bool { return strings.HasPrefix(option, name+"=") })
	})
	return strings.Join(append(parts, more...), ",")
}

// Encrypted tells whether SOPS encrypted all values of a Secret in a way that survives our marks: its checksum
// has to be of encrypted values alone (mac_only_encrypted), as ours are not.
func Encrypted(o api.Object) (all, marked bool) {
	sops, _ := o["sops"].(map[string]any)
	if sops == nil || sops["mac"] == nil {
		return false, false
	}
	for _, field := range []string{"data", "stringData"} {
		values, ok := o[field].(map[string]any)
		if !ok && o[field] != nil {
			return false, false
		}
		for _, v := range values {
			if s, ok := v.(string); !ok || !strings.HasPrefix(s, "ENC[") {
				return false, false
			}
		}
	}
	for field := range o {
		if !slices.Contains(append([]string{"data", "stringData", "sops"}, notSecret...), field) {
			return false, false // a value that somebody misspelt the place of
		}
	}
	only, _ := sops["mac_only_encrypted"].(bool)
	return true, only
}

// TrackedBy says which other delivery holds a live object for its own, by the marks that it left; empty if none does.
func TrackedBy(live api.Object) string {
	if id := metaText(live, "annotations", argoTracking); id != "" {
		return "Argo CD (" + argoTracking + ": " + id + ")"
	}
	for _, flux := range []struct{ what, label string }{{"Kustomization", fluxKustomize}, {"HelmRelease", fluxHelm}} {
		if name := metaText(live, "labels", flux.label+"/name"); name != "" {
			return "Flux (" + flux.what + " " + metaText(live, "labels", flux.label+"/namespace") + "/" + name + ")"
		}
	}
	return ""
}

// IsTracking tells whether a label or annotation is one by which another delivery knows its own objects, or
// ours by which a version of a work is known.
func IsTracking(name string) bool {
	return name == AnnotationVersion || name == InstanceLabel || slices.Contains(trackingLabels, name) || slices.Contains(trackingAnnotations, name)
}
