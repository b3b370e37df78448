package decide

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/godwit-gitops/godwit/api"
)

// AnnotationRecreate: "allowed" on a template lets a change of a field that cannot be changed in place delete
// the object on the member and create it anew.
const AnnotationRecreate = "godwit.dev/recreate"

// frozen says by kind which fields that differ a member refuses to change in place, sorted. They are those of
// the validation of Kubernetes' API server; what admission plugins and webhooks refuse nobody knows here.
var frozen = map[string]func(old, next api.Object) []string{
	"Deployment.apps":  fields("spec.selector"),
	"ReplicaSet.apps":  fields("spec.selector"),
	"DaemonSet.apps":   fields("spec.selector"),
	"StatefulSet.apps": statefulSetFields,
	"Job.batch":        jobFields,

	"Pod":                   podFields,
	"Service":               serviceFields,
	"PersistentVolumeClaim": claimFields,
	"ConfigMap":             sealed,
	"Secret": func(old, next api.Object) []string {
		return append(sealed(inData(old), inData(next)), fields("type")(old, next)...)
	},

	"StorageClass.storage.k8s.io":          fields("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
	"VolumeAttributesClass.storage.k8s.io": fields("driverName", "parameters"),
	"PriorityClass.scheduling.k8s.io":      fields("preemptionPolicy", "value"),
	"RuntimeClass.node.k8s.io":             fields("handler"),
	"IngressClass.networking.k8s.io":       fields("spec.controller"),
	"EndpointSlice.discovery.k8s.io":       fields("addressType"),

	"RoleBinding.rbac.authorization.k8s.io":         fields("roleRef"),
	"ClusterRoleBinding.rbac.authorization.k8s.io":  fields("roleRef"),
	"CustomResourceDefinition.apiextensions.k8s.io": fields("spec.group", "spec.names.kind", "spec.names.plural", "spec.scope"),
}

// whereUnset is what the server takes fields for that are not given.
var whereUnset = map[string]any{
	"preemptionPolicy":         "PreemptLowerPriority",
	"reclaimPolicy":            "Delete",
	"spec.completionMode":      "NonIndexed",
	"spec.podManagementPolicy": "OrderedReady",
	"spec.volumeMode":          "Filesystem",
	"type":                     "Opaque",
	"volumeBindingMode":        "Immediate",
}

func frozenKind(id api.ID) string {
	if id.Group == "" {
		return id.Kind
	}
	return id.Kind + "." + id.Group
}

// Frozen lists the fields that a member refuses to change in place when it is to make next of old.
func Frozen(old, next api.Object) []string {
	if refuses := frozen[frozenKind(api.IDOf(old))]; refuses != nil {
		return refuses(old, next)
	}
	return nil
}

// fields compares those at the paths.
func fields(paths ...string) func(old, next api.Object) []string {
	return func(old, next api.Object) []string {
		var differ []string
		for _, path := range paths {
			if !sameValue(fieldAt(old, path), fieldAt(next, path)) {
				differ = append(differ, path)
			}
		}
		return differ
	}
}

// specBut compares all fields of the spec but some.
func specBut(mutable ...string) func(old, next api.Object) []string {
	return func(old, next api.Object) []string {
		a, _ := old["spec"].(map[string]any)
		b, _ := next["spec"].(map[string]any)
		var paths []string
		for _, m := range []map[string]any{a, b} {
			for name := range m {
				if !slices.Contains(mutable, name) {
					paths = append(paths, "spec."+name)
				}
			}
		}
		slices.Sort(paths)
		return fields(slices.Compact(paths)...)(old, next)
	}
}

var statefulSetFields = specBut("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds")

// jobFields: an Indexed Job may get other completions along with its parallelism. What a suspended Job may
// change of its template depends on whether it ran before, which nobody knows here.
func jobFields(old, next api.Object) []string {
	paths := []string{"spec.backoffLimitPerIndex", "spec.completionMode", "spec.completions", "spec.managedBy", "spec.podFailurePolicy", "spec.selector", "spec.successPolicy", "spec.template"}
	differ := fields(paths...)(old, next)
	return slices.DeleteFunc(differ, func(path string) bool {
		switch path {
		case "spec.completions":
			return fieldAt(next, "spec.completionMode") == "Indexed" && sameValue(fieldAt(next, path), fieldAt(next, "spec.parallelism"))
		case "spec.template":
			return fieldAt(old, "spec.suspend") == true
		}
		return false
	})
}

// podFields: images, tolerations that are added, gates that go and a few numbers may change.
func podFields(old, next api.Object) []string {
	return specBut("activeDeadlineSeconds", "tolerations", "schedulingGates")(withoutImages(old), withoutImages(next))
}

func withoutImages(pod api.Object) api.Object {
	spec, _ := pod["spec"].(map[string]any)
	bare := make(map[string]any, len(spec))
	for name, v := range spec {
		list, ok := v.([]any)
		if name == "containers" || name == "initContainers" {
			stripped := make([]any, len(list))
			for i, item := range list {
				stripped[i] = item
				if c, isMap := item.(map[string]any); isMap {
					stripped[i] = withoutKey(c, "image")
				}
			}
			if ok {
				v = stripped
			}
		}
		bare[name] = v
	}
	return api.Object{"spec": bare}
}

func withoutKey(m map[string]any, key string) map[string]any {
	rest := maps.Clone(m)
	delete(rest, key)
	return rest
}

// serviceFields: a Service has its first address for good, unless its type is or becomes ExternalName. Where
// none was asked for it is the server's choice, which is never None.
func serviceFields(old, next api.Object) []string {
	was, is := fieldAt(old, "spec.type"), fieldAt(next, "spec.type")
	var differ []string
	if was != "ExternalName" && is != "ExternalName" {
		before, after := fieldAt(old, "spec.clusterIP"), fieldAt(next, "spec.clusterIP")
		if after != nil && after != "" && before != after && (before != nil && before != "" || after == "None") {
			differ = append(differ, "spec.clusterIP")
		}
	}
	if was == "LoadBalancer" && is == "LoadBalancer" {
		differ = append(differ, fields("spec.loadBalancerClass")(old, next)...)
	}
	return differ
}

// asLive is an object that was applied, as the server has it: a Service has an address.
func asLive(o api.Object) api.Object {
	if o["kind"] != "Service" || o["apiVersion"] != "v1" || fieldAt(o, "spec.type") == "ExternalName" || fieldAt(o, "spec.clusterIP") != nil {
		return o
	}
	spec, _ := o["spec"].(map[string]any)
	spec = maps.Clone(spec)
	spec["clusterIP"] = "the server's choice"
	o = maps.Clone(o)
	o["spec"] = spec
	return o
}

// claimFields: a claim may grow, and get a class of attributes.
func claimFields(old, next api.Object) []string {
	differ := specBut("resources", "volumeAttributesClassName")(old, next)
	const size = "spec.resources.requests.storage"
	before, errBefore := resource.ParseQuantity(fmt.Sprint(fieldAt(old, size)))
	after, errAfter := resource.ParseQuantity(fmt.Sprint(fieldAt(next, size)))
	if errBefore == nil && errAfter == nil && after.Cmp(before) < 0 {
		differ = append(differ, size)
	}
	return differ
}

// sealed compares the data of what says of itself that it is immutable.
func sealed(old, next api.Object) []string {
	if old["immutable"] != true {
		return nil
	}
	return fields("binaryData", "data", "immutable")(old, next)
}

// inData is a Secret with all its values where the server has them. A value that moves from one place to the
// other counts as changed: the record cannot tell.
func inData(o api.Object) api.Object {
	given, _ := o["stringData"].(map[string]any)
	if len(given) == 0 {
		return o
	}
	data, _ := o["data"].(map[string]any)
	all := maps.Clone(given)
	for key, v := range data {
		if _, over := given[key]; !over {
			all[key] = v
		}
	}
	o = maps.Clone(o)
	o["data"] = all
	return o
}

// fieldAt is the value at a dotted path, nil if there is none.
func fieldAt(o api.Object, path string) any {
	var v any = map[string]any(o)
	for step := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[step]
	}
	if v == nil {
		return whereUnset[path]
	}
	return v
}

// sameValue compares as the server does: what is empty is not there.
func sameValue(a, b any) bool {
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if isMap && both {
		for key := range x {
			if !sameValue(x[key], y[key]) {
				return false
			}
		}
		for key := range y {
			if _, known := x[key]; !known && !empty(y[key]) {
				return false
			}
		}
		return true
	}
	list, isList := a.([]any)
	other, both := b.([]any)
	if isList && both {
		return slices.EqualFunc(list, other, sameValue)
	}
	return reflect.DeepEqual(a, b)
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
