package membertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientapply "k8s.io/client-go/applyconfigurations"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// trait is what sets a resource apart from a plain namespaced one.
type trait int

const (
	cluster    trait = 1 << iota // not in a namespace
	status                       // has a status subresource
	generation                   // counts changes of what is wanted in metadata.generation
	scale                        // has a scale subresource
)

// builtin lists the kinds every member serves.
var builtin = []struct {
	apiVersion, kind, plural, short string
	traits                          trait
}{
	{"v1", "ConfigMap", "configmaps", "cm", 0},
	{"v1", "Endpoints", "endpoints", "ep", 0},
	{"v1", "Event", "events", "ev", 0},
	{"v1", "LimitRange", "limitranges", "limits", 0},
	{"v1", "Namespace", "namespaces", "ns", cluster | status},
	{"v1", "Node", "nodes", "no", cluster | status},
	{"v1", "PersistentVolume", "persistentvolumes", "pv", cluster | status},
	{"v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", status},
	{"v1", "Pod", "pods", "po", status | generation},
	{"v1", "ResourceQuota", "resourcequotas", "quota", status},
	{"v1", "Secret", "secrets", "", 0},
	{"v1", "Service", "services", "svc", status},
	{"v1", "ServiceAccount", "serviceaccounts", "sa", 0},
	{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "", cluster | generation},
	{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "", cluster | generation},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd,crds", cluster | status | generation},
	{"apps/v1", "ControllerRevision", "controllerrevisions", "", 0},
	{"apps/v1", "DaemonSet", "daemonsets", "ds", status | generation},
	{"apps/v1", "Deployment", "deployments", "deploy", status | generation | scale},
	{"apps/v1", "ReplicaSet", "replicasets", "rs", status | generation | scale},
	{"apps/v1", "StatefulSet", "statefulsets", "sts", status | generation | scale},
	{"autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", status},
	{"batch/v1", "CronJob", "cronjobs", "cj", status | generation},
	{"batch/v1", "Job", "jobs", "", status | generation},
	{"coordination.k8s.io/v1", "Lease", "leases", "", 0},
	{"discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "", generation},
	{"networking.k8s.io/v1", "Ingress", "ingresses", "ing", status | generation},
	{"networking.k8s.io/v1", "IngressClass", "ingressclasses", "", cluster | generation},
	{"networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", generation},
	{"policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", status | generation},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "", cluster},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "", cluster},
	{"rbac.authorization.k8s.io/v1", "Role", "roles", "", 0},
	{"rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "", 0},
	{"scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", cluster | generation},
	{"storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", cluster},
}

// resource is one kind in one version, as it is served.
type resource struct {
	schema.GroupVersionKind
	plural, singular, listKind string
	short, categories          []string
	traits                     trait
	replicas                   scalePaths                             // with the trait scale
	custom                     *customType                            // nil for built-in kinds
	objects                    *collection                            // shared by all versions of a kind
	fields                     map[string]*managedfields.FieldManager // by subresource
}

// scalePaths are where a kind keeps what its scale subresource shows.
type scalePaths struct {
	spec, status, selector []string
	managed                managedfields.ResourcePathMappings // spec, for each version served
}

var scaleKind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

var workloadScale = scalePaths{
	spec: []string{"spec", "replicas"}, status: []string{"status", "replicas"}, selector: []string{"spec", "selector"},
	managed: managedfields.ResourcePathMappings{"apps/v1": fieldpath.MakePathOrDie("spec", "replicas")},
}

func (r *resource) has(t trait) bool { return r.traits&t != 0 }

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.plural}
}

// setFields makes the resource's field managers, one for each subresource.
func (r *resource) setFields(types managedfields.TypeConverter, served ...schema.GroupVersion) error {
	newManager := managedfields.NewDefaultFieldManager
	if r.custom != nil {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	reset := map[string][]fieldpath.Path{"": nil, "status": {fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels")}}
	if r.custom != nil {
		reset["status"][1] = fieldpath.MakePathOrDie("metadata")
	}
	if r.has(status) {
		reset[""] = []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	}
	r.fields = make(map[string]*managedfields.FieldManager, len(reset))
	for sub, paths := range reset {
		filters := make(map[fieldpath.APIVersion]fieldpath.Filter)
		for _, gv := range served {
			filters[fieldpath.APIVersion(gv.String())] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(paths...))
		}
		m, err := newManager(types, versions(served), noDefaults{}, empty{}, r.GroupVersionKind, r.GroupVersion(), sub, filters)
		if err != nil {
			return fmt.Errorf("field manager of %s: %w", r.GroupVersionKind, err)
		}
		r.fields[sub] = m
	}
	return nil
}

// builtinResources returns the kinds every member serves, each with no objects.
func builtinResources() ([]*resource, error) {
	var all []*resource
	for _, b := range builtin {
		gvk := schema.FromAPIVersionAndKind(b.apiVersion, b.kind)
		r := &resource{
			GroupVersionKind: gvk, plural: b.plural, singular: strings.ToLower(b.kind), listKind: b.kind + "List",
			traits: b.traits, replicas: workloadScale,
		}
		r.objects = newCollection(r)
		if b.short != "" {
			r.short = strings.Split(b.short, ",")
		}
		if b.apiVersion == "apps/v1" && b.traits&status != 0 || b.kind == "Service" || b.kind == "Pod" {
			r.categories = []string{"all"}
		}
		types := builtinTypes()
		if gvk.Group == apiextensionsv1.GroupName {
			types = definitionTypes()
		}
		if err := r.setFields(types, gvk.GroupVersion()); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// goTypes knows the Go type of every built-in kind.
var goTypes = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two kinds of one name: seen by every test
		}
	}
	return s
})

// The schemas are large: they are read once a process, and only by one that has simulated members.
var (
	builtinTypes    = sync.OnceValue(func() managedfields.TypeConverter { return clientapply.NewTypeConverter(goTypes()) })
	definitionTypes = sync.OnceValue(func() managedfields.TypeConverter {
		name := apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName()
		types, err := typesOf(models(name), name, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		if err != nil {
			panic(err) // the schema is a constant: seen by every test
		}
		return types
	})
)

// versions converts objects between the served versions of their kind, which
// differ in name only: Kubernetes calls it the conversion strategy None.
type versions []schema.GroupVersion

func (v versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	gv, ok := target.(schema.GroupVersion)
	switch {
	case !ok || !slices.Contains(v, gv):
		return nil, runtime.NewNotRegisteredGVKErrForTarget("member", gvk, target)
	case gv == gvk.GroupVersion():
		return in, nil
	}
	return &unstructured.Unstructured{Object: withVersion(in.(*unstructured.Unstructured).Object, gv)}, nil
}

func (versions) Convert(in, out, context any) error {
	return fmt.Errorf("conversion of %T into %T", in, out)
}

func (versions) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// withVersion returns content in another version; all but its top level is shared.
func withVersion(content map[string]any, gv schema.GroupVersion) map[string]any {
	if content["apiVersion"] == gv.String() {
		return content
	}
	c := maps.Clone(content)
	c["apiVersion"] = gv.String()
	return c
}

type noDefaults struct{} // admit sets them, once the merge is done

func (noDefaults) Default(runtime.Object) {}

type empty struct{}

func (empty) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return newObject(gvk), nil
}

func newObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: make(map[string]any)}
	u.SetGroupVersionKind(gvk)
	return u
}
