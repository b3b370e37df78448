package membertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Extensions of a custom resource's schema that are followed here; the type converter follows
// those of lists and maps.
const (
	preserveUnknown  = "x-kubernetes-preserve-unknown-fields"
	embeddedResource = "x-kubernetes-embedded-resource"
)

// customType is the schema of one version of a custom resource.
type customType struct {
	schema    *spec.Schema
	validator *validate.SchemaValidator
	columns   []column
}

// customResources returns the versions of a definition that are served, and the collection they share: that of the
// definition before it changed, or a new one if it is nil.
func customResources(crd *apiextensionsv1.CustomResourceDefinition, objects *collection) (_ *collection, served []*resource, err error) {
	if objects == nil {
		objects = newCollection(nil)
	}
	names := crd.Spec.Names
	var versions []schema.GroupVersion
	managed := make(managedfields.ResourcePathMappings)
	var stored *resource
	for _, v := range crd.Spec.Versions {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		versions = append(versions, gv)
		managed[gv.String()] = nil
		if s := v.Subresources; s != nil && s.Scale != nil {
			for _, name := range fieldPath(s.Scale.SpecReplicasPath) {
				managed[gv.String()] = append(managed[gv.String()], fieldpath.PathElement{FieldName: &name})
			}
		}
	}
	for _, v := range crd.Spec.Versions {
		r := &resource{
			GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: names.Kind},
			plural:           names.Plural, singular: names.Singular, listKind: names.ListKind,
			short: names.ShortNames, categories: names.Categories,
			traits: generation, custom: new(customType), objects: objects,
		}
		if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
			r.traits |= cluster
		}
		if s := v.Subresources; s != nil && s.Status != nil {
			r.traits |= status
		}
		if s := v.Subresources; s != nil && s.Scale != nil {
			r.traits |= scale
			r.replicas = scalePaths{spec: fieldPath(s.Scale.SpecReplicasPath), status: fieldPath(s.Scale.StatusReplicasPath), managed: managed}
			if p := s.Scale.LabelSelectorPath; p != nil {
				r.replicas.selector = fieldPath(*p)
			}
		}
		for _, c := range v.AdditionalPrinterColumns {
			r.custom.columns = append(r.custom.columns, column{c.Name, c.Type, strings.TrimPrefix(c.JSONPath, "."), c.Priority})
		}
		if err := r.custom.read(v.Schema, crd.Spec.PreserveUnknownFields); err != nil {
			return nil, nil, fmt.Errorf("schema of version %s: %w", v.Name, err)
		}
		types, err := r.custom.typeConverter(r.GroupVersionKind)
		if err != nil {
			return nil, nil, fmt.Errorf("schema of version %s: %w", v.Name, err)
		}
		if err := r.setFields(types, versions...); err != nil {
			return nil, nil, err
		}
		if v.Storage {
			stored = r
		}
		if v.Served {
			served = append(served, r)
		}
	}
	objects.resource = stored
	return objects, served, nil
}

// fieldPath reads a path like ".spec.replicas".
func fieldPath(p string) []string { return strings.Split(strings.TrimPrefix(p, "."), ".") }

// read takes over a version's schema.
func (t *customType) read(v *apiextensionsv1.CustomResourceValidation, preserve bool) error {
	t.schema = new(spec.Schema)
	if v != nil && v.OpenAPIV3Schema != nil {
		b, err := json.Marshal(v.OpenAPIV3Schema) // the same JSON means the same in both types
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, t.schema); err != nil {
			return err
		}
	}
	if preserve || t.schema.Properties == nil {
		t.schema.AddExtension(preserveUnknown, true)
	}
	if err := complete(t.schema); err != nil {
		return err
	}
	t.validator = validate.NewSchemaValidator(t.schema, nil, "", strfmt.Default)
	return nil
}

// complete adds to a schema what it leaves to be understood: the type and the name of embedded
// resources. It also makes whole numbers of the defaults integers, as they are in objects.
func complete(s *spec.Schema) error {
	if s.Extensions[embeddedResource] == true {
		s.SetProperty("apiVersion", *spec.StringProperty())
		s.SetProperty("kind", *spec.StringProperty())
		free := spec.MapProperty(nil)
		free.AdditionalProperties = nil
		free.AddExtension(preserveUnknown, true)
		s.SetProperty("metadata", *free)
	}
	if s.Default != nil {
		b, err := json.Marshal(s.Default)
		if err != nil {
			return err
		}
		if err := utiljson.Unmarshal(b, &s.Default); err != nil {
			return err
		}
	}
	for name, p := range s.Properties {
		if err := complete(&p); err != nil {
			return err
		}
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		if err := complete(s.Items.Schema); err != nil {
			return err
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		return complete(a.Schema)
	}
	return nil
}

// typeConverter returns how objects of this type merge.
func (t *customType) typeConverter(gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	root := *t.schema
	root.Type = spec.StringOrArray{"object"}
	root.Properties = maps.Clone(t.schema.Properties)
	root.SetProperty("apiVersion", *spec.StringProperty())
	root.SetProperty("kind", *spec.StringProperty())
	metadata := metav1.ObjectMeta{}.OpenAPIModelName()
	root.SetProperty("metadata", spec.Schema{SchemaProps: spec.SchemaProps{Ref: model(metadata)}})
	models := models(metadata)
	models[gvk.String()] = &root
	return typesOf(models, gvk.String(), gvk)
}

// typesOf returns how objects of a kind merge, by a schema among models. The schema is changed.
func typesOf(models map[string]*spec.Schema, name string, gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	models[name].Extensions = maps.Clone(models[name].Extensions)
	models[name].AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	return managedfields.NewTypeConverter(models, false)
}

// models returns the schema of an API type, and of all types it is made of, by name.
func models(name string) map[string]*spec.Schema {
	all := openapi.GetOpenAPIDefinitions(model)
	found := make(map[string]*spec.Schema)
	for names := []string{name}; len(names) > 0; names = names[1:] {
		if d, ok := all[names[0]]; ok && found[names[0]] == nil {
			found[names[0]] = &d.Schema
			names = append(names, d.Dependencies...)
		}
	}
	return found
}

func model(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }

// fit drops what the schema does not know and sets its defaults, in place. It returns the paths dropped, in order.
func (t *customType) fit(content map[string]any) (unknown []string) {
	root := *t.schema
	root.Properties = maps.Clone(root.Properties)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		any := spec.Schema{}
		any.AddExtension(preserveUnknown, true)
		root.SetProperty(name, any)
	}
	fit(content, &root, "", &unknown)
	slices.Sort(unknown)
	return unknown
}

func fit(value any, s *spec.Schema, path string, unknown *[]string) {
	switch value := value.(type) {
	case []any:
		if s.Items != nil && s.Items.Schema != nil {
			for i, v := range value {
				fit(v, s.Items.Schema, fmt.Sprintf("%s[%d]", path, i), unknown)
			}
		}
	case map[string]any:
		for k, v := range value {
			p, known := s.Properties[k]
			at := strings.TrimPrefix(path+"."+k, ".")
			switch {
			case known && v == nil && !p.Nullable:
				delete(value, k)
			case known:
				fit(v, &p, at, unknown)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				fit(v, s.AdditionalProperties.Schema, at, unknown)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Allows, s.Extensions[preserveUnknown] == true:
			default:
				delete(value, k)
				*unknown = append(*unknown, at)
			}
		}
		for k, p := range s.Properties {
			if _, ok := value[k]; !ok && p.Default != nil {
				value[k] = runtime.DeepCopyJSONValue(p.Default)
				fit(value[k], &p, path, unknown)
			}
		}
	}
}

// validate returns what the schema has against content.
func (t *customType) validate(content map[string]any) (errs field.ErrorList) {
	for _, err := range t.validator.Validate(content).Errors {
		v, ok := err.(*openapierrors.Validation)
		if !ok {
			errs = append(errs, field.Invalid(nil, "", err.Error()))
			continue
		}
		path := field.NewPath(strings.TrimPrefix(v.Name, "."))
		value := v.Value
		if value == nil {
			value = ""
		}
		switch v.Code() {
		case openapierrors.RequiredFailCode:
			errs = append(errs, field.Required(path, ""))
		case openapierrors.EnumFailCode:
			allowed := make([]string, len(v.Values))
			for i, a := range v.Values {
				allowed[i] = fmt.Sprint(a)
			}
			errs = append(errs, field.NotSupported(path, value, allowed))
		case openapierrors.InvalidTypeCode:
			errs = append(errs, field.TypeInvalid(path, value, v.Error()))
		default:
			errs = append(errs, field.Invalid(path, value, v.Error()))
		}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

// definitionErrors returns what is wrong with a definition, of what people get wrong.
func definitionErrors(crd *apiextensionsv1.CustomResourceDefinition) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if want := crd.Spec.Names.Plural + "." + crd.Spec.Group; crd.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), crd.Name, `must be spec.names.plural+"."+spec.group`))
	}
	for _, required := range []struct {
		at    *field.Path
		value string
	}{
		{spec.Child("group"), crd.Spec.Group},
		{spec.Child("scope"), string(crd.Spec.Scope)},
		{spec.Child("names", "plural"), crd.Spec.Names.Plural},
		{spec.Child("names", "kind"), crd.Spec.Names.Kind},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(required.at, ""))
		}
	}
	stored := 0
	for i, v := range crd.Spec.Versions {
		if v.Storage {
			stored++
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(spec.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), "schemas are required"))
		}
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(spec.Child("versions"), len(crd.Spec.Versions), "must have exactly one version marked as storage version"))
	}
	return errs
}
