package membertest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// normalize brings content into the form in which objects of the resource are kept: unknown fields dropped
// (their paths are returned), values spelled one way ("1000m" is "1"), defaults set. What it returns shares
// nothing with content, whose metadata it changes. The Go object is nil for a custom resource.
func (r *resource) normalize(content map[string]any) (map[string]any, runtime.Object, []string, error) {
	if r.custom != nil {
		content = runtime.DeepCopyJSON(content)
		var meta metav1.ObjectMeta
		m, ok := content["metadata"].(map[string]any)
		if !ok {
			return nil, nil, nil, apierrors.NewBadRequest("metadata: an object is required")
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &meta); err != nil {
			return nil, nil, nil, apierrors.NewBadRequest(fmt.Sprintf("metadata: %v", err))
		}
		return content, nil, r.custom.fit(content), nil
	}
	typed, err := goTypes().New(r.GroupVersionKind)
	if err != nil {
		return nil, nil, nil, err
	}
	// Managed fields would be decoded and encoded only to stay what they are.
	managed, hasManaged, _ := unstructured.NestedFieldNoCopy(content, "metadata", "managedFields")
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	var unknown []string
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, typed, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			unknown = append(unknown, e.Error())
		}
	} else if err != nil {
		return nil, nil, nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", r.Kind, r.Version, r.Kind, err))
	}
	setDefaults(typed)
	content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, nil, nil, err
	}
	content["apiVersion"], content["kind"] = r.GroupVersion().String(), r.Kind
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		meta = make(map[string]any)
		content["metadata"] = meta
	}
	if meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	if hasManaged {
		meta["managedFields"] = managed
	}
	return content, typed, unknown, nil
}

// validate returns why content may not replace old (nil: may not be created), as one error.
func (r *resource) validate(content map[string]any, typed runtime.Object, old *object) error {
	u := &unstructured.Unstructured{Object: content}
	errs := r.metadataErrors(u)
	if r.custom != nil {
		errs = append(errs, r.custom.validate(content)...)
	} else {
		errs = append(errs, typedErrors(typed)...)
	}
	if old != nil {
		errs = append(errs, r.immutableErrors(content, old.Object)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(r.GroupVersionKind.GroupKind(), u.GetName(), errs)
}

func (r *resource) metadataErrors(u *unstructured.Unstructured) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	check := apivalidation.NameIsDNSSubdomain
	switch {
	case r.Kind == "Namespace", r.Kind == "Service":
		check = apivalidation.NameIsDNSLabel
	case r.Group == "rbac.authorization.k8s.io":
		check = func(name string, _ bool) []string {
			if strings.ContainsAny(name, "/%") || name == "." || name == ".." {
				return []string{"may not be '.' or '..' or contain '/' or '%'"}
			}
			return nil
		}
	}
	if u.GetName() == "" {
		errs = append(errs, field.Required(meta.Child("name"), "name or generateName is required"))
	} else {
		for _, msg := range check(u.GetName(), false) {
			errs = append(errs, field.Invalid(meta.Child("name"), u.GetName(), msg))
		}
	}
	errs = append(errs, metavalidation.ValidateLabels(u.GetLabels(), meta.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(u.GetAnnotations(), meta.Child("annotations"))...)
	for i, o := range u.GetOwnerReferences() {
		at := meta.Child("ownerReferences").Index(i)
		for _, f := range [][2]string{{"apiVersion", o.APIVersion}, {"kind", o.Kind}, {"name", o.Name}, {"uid", string(o.UID)}} {
			if f[1] == "" {
				errs = append(errs, field.Invalid(at.Child(f[0]), "", f[0]+" must not be empty"))
			}
		}
	}
	return errs
}

// typedErrors returns what is wrong with an object of a built-in kind, of what people get wrong.
func typedErrors(o runtime.Object) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	switch o := o.(type) {
	case *appsv1.Deployment:
		return workloadErrors(o.Spec.Replicas, o.Spec.Selector, &o.Spec.Template)
	case *appsv1.ReplicaSet:
		return workloadErrors(o.Spec.Replicas, o.Spec.Selector, &o.Spec.Template)
	case *appsv1.StatefulSet:
		return workloadErrors(o.Spec.Replicas, o.Spec.Selector, &o.Spec.Template)
	case *appsv1.DaemonSet:
		return workloadErrors(nil, o.Spec.Selector, &o.Spec.Template)
	case *batchv1.Job:
		errs = append(nonNegative(spec.Child("parallelism"), o.Spec.Parallelism), nonNegative(spec.Child("completions"), o.Spec.Completions)...)
		return append(errs, jobErrors(spec, &o.Spec)...)
	case *batchv1.CronJob:
		if o.Spec.Schedule == "" {
			errs = append(errs, field.Required(spec.Child("schedule"), ""))
		}
		return append(errs, jobErrors(spec.Child("jobTemplate", "spec"), &o.Spec.JobTemplate.Spec)...)
	case *corev1.Pod:
		return podErrors(spec, &o.Spec)
	case *corev1.Service:
		return serviceErrors(spec, &o.Spec)
	case *corev1.ConfigMap:
		return append(keyErrors(field.NewPath("data"), o.Data), keyErrors(field.NewPath("binaryData"), o.BinaryData)...)
	case *corev1.Secret:
		return keyErrors(field.NewPath("data"), o.Data)
	case *networkingv1.Ingress:
		for i, r := range o.Spec.Rules {
			if r.HTTP == nil {
				continue
			}
			for j, p := range r.HTTP.Paths {
				if p.PathType == nil {
					errs = append(errs, field.Required(spec.Child("rules").Index(i).Child("http", "paths").Index(j).Child("pathType"), "pathType must be specified"))
				}
			}
		}
	case *apiextensionsv1.CustomResourceDefinition:
		return definitionErrors(o)
	}
	return errs
}

func nonNegative(at *field.Path, n *int32) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), at)
}

func workloadErrors(replicas *int32, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) field.ErrorList {
	spec := field.NewPath("spec")
	errs := nonNegative(spec.Child("replicas"), replicas)
	if selector == nil {
		errs = append(errs, field.Required(spec.Child("selector"), ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, spec.Child("selector"))...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(spec.Child("selector"), selector, "empty selector is invalid for deployment"))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(selector); selector != nil && err == nil && !s.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(spec.Child("template", "metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	if p := template.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("template", "spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	return append(errs, podErrors(spec.Child("template", "spec"), &template.Spec)...)
}

func jobErrors(spec *field.Path, s *batchv1.JobSpec) (errs field.ErrorList) {
	if p := s.Template.Spec.RestartPolicy; p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever {
		errs = append(errs, field.Required(spec.Child("template", "spec", "restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	return append(errs, podErrors(spec.Child("template", "spec"), &s.Template.Spec)...)
}

func podErrors(spec *field.Path, s *corev1.PodSpec) (errs field.ErrorList) {
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	seen := make(map[string]bool)
	for i, c := range s.Containers {
		at := spec.Child("containers").Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case seen[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			for _, msg := range validation.IsDNS1123Label(c.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), c.Name, msg))
			}
		}
		seen[c.Name] = true
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), ""))
		}
	}
	return errs
}

func serviceErrors(spec *field.Path, s *corev1.ServiceSpec) (errs field.ErrorList) {
	if len(s.Ports) == 0 && s.ClusterIP != corev1.ClusterIPNone && s.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	for i, p := range s.Ports {
		at := spec.Child("ports").Index(i)
		if p.Name == "" && len(s.Ports) > 1 {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		for _, msg := range validation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
		}
	}
	return errs
}

func keyErrors[V any](at *field.Path, data map[string]V) (errs field.ErrorList) {
	for _, k := range slices.Sorted(maps.Keys(data)) {
		for _, msg := range validation.IsConfigMapKey(k) {
			errs = append(errs, field.Invalid(at.Key(k), k, msg))
		}
	}
	return errs
}

// immutable lists the fields that cannot change, by kind.
var immutable = map[string][]string{
	"Deployment.apps":                       {"spec.selector"},
	"ReplicaSet.apps":                       {"spec.selector"},
	"DaemonSet.apps":                        {"spec.selector"},
	"Job.batch":                             {"spec.completions", "spec.selector", "spec.template"},
	"Secret":                                {"type"},
	"StorageClass.storage.k8s.io":           {"parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"},
	"RoleBinding.rbac.authorization.k8s.io": {"roleRef"},
	"ClusterRoleBinding.rbac.authorization.k8s.io":  {"roleRef"},
	"CustomResourceDefinition.apiextensions.k8s.io": {"spec.group", "spec.scope", "spec.names.kind", "spec.names.plural"},
	"PriorityClass.scheduling.k8s.io":               {"value"},
}

// mutable lists the fields of a spec that can change where all others cannot.
var mutable = map[string][]string{
	"StatefulSet.apps":      {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds"},
	"PersistentVolumeClaim": {"resources", "volumeName", "volumeAttributesClassName"},
}

func (r *resource) immutableErrors(content, old map[string]any) (errs field.ErrorList) {
	gk := r.GroupVersionKind.GroupKind().String()
	for _, p := range immutable[gk] {
		path := strings.Split(p, ".")
		was, _, _ := unstructured.NestedFieldNoCopy(old, path...)
		is, _, _ := unstructured.NestedFieldNoCopy(content, path...)
		if !reflect.DeepEqual(was, is) {
			errs = append(errs, field.Invalid(field.NewPath(path[0], path[1:]...), is, apivalidation.FieldImmutableErrorMsg))
		}
	}
	if except, ok := mutable[gk]; ok {
		was, is := specWithout(old, except), specWithout(content, except)
		if !reflect.DeepEqual(was, is) {
			errs = append(errs, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("updates to %s spec for fields other than '%s' are forbidden",
				strings.ToLower(r.Kind), strings.Join(except, "', '"))))
		}
	}
	switch gk {
	case "Service":
		was, _, _ := unstructured.NestedString(old, "spec", "clusterIP")
		is, _, _ := unstructured.NestedString(content, "spec", "clusterIP")
		if was != "" && is != "" && was != is {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), []string{is}, "may not change once set"))
		}
	case "ConfigMap", "Secret":
		if old["immutable"] == true {
			for _, f := range []string{"immutable", "data", "binaryData"} {
				if !reflect.DeepEqual(old[f], content[f]) {
					errs = append(errs, field.Forbidden(field.NewPath(f), "field is immutable when `immutable` is set"))
				}
			}
		}
	}
	return errs
}

func specWithout(content map[string]any, fields []string) map[string]any {
	spec, _ := content["spec"].(map[string]any)
	rest := maps.Clone(spec)
	for _, f := range fields {
		delete(rest, f)
	}
	return rest
}

// decode reads a JSON or YAML document into an object of the resource, and checks that it is one.
func (r *resource) decode(body []byte) (map[string]any, error) {
	var content map[string]any
	if err := unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized (must be of type " + r.Kind + "): " + err.Error())
	}
	if content == nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized (must be of type " + r.Kind + "): it is empty")
	}
	for _, f := range [][2]string{{"apiVersion", r.GroupVersion().String()}, {"kind", r.Kind}} {
		name, want := f[0], f[1]
		if got, ok := content[name]; ok && got != "" && got != want {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the %s in the data (%v) does not match the expected %s (%s)", name, got, name, want))
		}
		content[name] = want
	}
	if content["metadata"] == nil {
		content["metadata"] = make(map[string]any)
	}
	return content, nil
}
