package override

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/policy"
)

// check makes every check of Karmada's schema and admission, and says what may bite.
func check(r *policy.Report, spec *policyv1alpha1.OverrideSpec) {
	at := policy.Path{"spec"}
	policy.CheckSelectors(r, at.At("resourceSelectors"), spec.ResourceSelectors)
	checkDeprecated(r, at, spec)
	if len(spec.OverrideRules) == 0 {
		checkWords(r, at.At("overriders"), &spec.Overriders)
		policy.CheckAffinity(r, at.At("targetCluster"), spec.TargetCluster)
	}
	for i := range spec.OverrideRules {
		rule, at := &spec.OverrideRules[i], at.At("overrideRules", i)
		policy.CheckAffinity(r, at.At("targetCluster"), rule.TargetCluster)
		at = at.At("overriders")
		checkWords(r, at, &rule.Overriders)
		checkMarks(r, at, &rule.Overriders)
		checkImages(r, at.At("imageOverrider"), spec.ResourceSelectors, rule.Overriders.ImageOverrider)
		for j := range rule.Overriders.FieldOverrider {
			checkField(r, at.At("fieldOverrider", j), &rule.Overriders.FieldOverrider[j])
		}
	}
}

// checkDeprecated looks at the pair of fields that overrideRules replaced. A fieldOverrider alone
// is not counted, as in Karmada.
func checkDeprecated(r *policy.Report, at policy.Path, spec *policyv1alpha1.OverrideSpec) {
	o := &spec.Overriders
	overriders := len(o.Plaintext)+len(o.ImageOverrider)+len(o.CommandOverrider)+len(o.ArgsOverrider)+
		len(o.LabelsOverrider)+len(o.AnnotationsOverrider) > 0
	for _, field := range []struct {
		name string
		set  bool
	}{{"targetCluster", spec.TargetCluster != nil}, {"overriders", overriders}} {
		switch {
		case !field.set:
		case len(spec.OverrideRules) > 0:
			r.Error("override-conflict", at.At(field.name), "cannot be set together with overrideRules; move it into a rule")
		default:
			r.Warning("deprecated", at.At(field.name), "is deprecated; move it into overrideRules")
		}
	}
}

// checkWords checks operators, components and what must be there.
func checkWords(r *policy.Report, at policy.Path, o *policyv1alpha1.Overriders) {
	operator := func(at policy.Path, op policyv1alpha1.OverriderOperator, allowed ...policyv1alpha1.OverriderOperator) {
		r.Required(at.At("operator"), string(op))
		policy.OneOf(r, at.At("operator"), op, allowed...)
	}
	const add, remove, replace = policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpRemove, policyv1alpha1.OverriderOpReplace
	for i, e := range o.Plaintext {
		at := at.At("plaintext", i)
		operator(at, e.Operator, add, remove, replace)
		if _, err := parsePointer(e.Path); err != nil {
			r.Warning("json-pointer", at.At("path"), "fails on every object: %v", err)
		}
	}
	for i, e := range o.ImageOverrider {
		at := at.At("imageOverrider", i)
		operator(at, e.Operator, add, remove, replace)
		r.Required(at.At("component"), string(e.Component))
		policy.OneOf(r, at.At("component"), e.Component, policyv1alpha1.ImageRegistry, policyv1alpha1.ImageRepository, policyv1alpha1.ImageTag)
	}
	for _, list := range []struct {
		name    string
		entries []policyv1alpha1.CommandArgsOverrider
	}{{"commandOverrider", o.CommandOverrider}, {"argsOverrider", o.ArgsOverrider}} {
		for i, e := range list.entries {
			at := at.At(list.name, i)
			operator(at, e.Operator, add, remove)
			r.Required(at.At("containerName"), e.ContainerName)
		}
	}
	for _, list := range markLists(o) {
		for i, e := range list.entries {
			operator(at.At(list.name, i), e.Operator, add, remove, replace)
		}
	}
	for i, e := range o.FieldOverrider {
		for _, list := range fieldLists(&e) {
			for j, entry := range list.entries {
				operator(at.At("fieldOverrider", i, list.name, j), entry.Operator, add, remove, replace)
			}
		}
	}
}

type markList struct {
	name    string
	entries []policyv1alpha1.LabelAnnotationOverrider
}

func markLists(o *policyv1alpha1.Overriders) []markList {
	return []markList{{"labelsOverrider", o.LabelsOverrider}, {"annotationsOverrider", o.AnnotationsOverrider}}
}

type fieldList struct {
	name    string
	entries []policyv1alpha1.FieldPatchOperation
}

func fieldLists(o *policyv1alpha1.FieldOverrider) []fieldList {
	return []fieldList{{"json", o.JSON}, {"yaml", o.YAML}}
}

// maxAnnotations is how much the keys and values of annotations may take together, in bytes.
const maxAnnotations = 256 << 10

func checkMarks(r *policy.Report, at policy.Path, o *policyv1alpha1.Overriders) {
	for _, list := range markLists(o) {
		for i, e := range list.entries {
			at := at.At(list.name, i, "value")
			size := 0
			for _, key := range slices.Sorted(maps.Keys(e.Value)) {
				value := e.Value[key]
				size += len(key) + len(value)
				lowered := key
				if list.name == "annotationsOverrider" {
					lowered = strings.ToLower(key)
				}
				if problems := validation.IsQualifiedName(lowered); len(problems) > 0 {
					r.Error("label-key", at.At(key), "the key is not allowed: %s", strings.Join(problems, "; "))
				}
				if list.name == "annotationsOverrider" {
					continue
				}
				if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
					r.Error("label-value", at.At(key), "%q is not allowed: %s", value, strings.Join(problems, "; "))
				}
			}
			if list.name == "annotationsOverrider" && size > maxAnnotations {
				r.Error("annotations-too-long", at, "takes %d bytes, more than %d; shorten it", size, maxAnnotations)
			}
		}
	}
}

func checkImages(r *policy.Report, at policy.Path, selectors []policyv1alpha1.ResourceSelector, entries []policyv1alpha1.ImageOverrider) {
	for i, e := range entries {
		at := at.At(i)
		switch {
		case e.Predicate == nil && !knowsImages(selectors):
			r.Warning(codeImageNoEffect, at, "has no effect on %s: only the containers of Pods, ReplicaSets, Deployments, DaemonSets, StatefulSets and Jobs are known; name the field in predicate.path", selectors[0].Kind)
		case e.Predicate != nil:
			r.Required(at.At("predicate", "path"), e.Predicate.Path)
			if _, err := parsePointer(e.Predicate.Path); err != nil {
				r.Error("json-pointer", at.At("predicate", "path"), "%v", err)
			}
		}
		if e.Component != policyv1alpha1.ImageTag || e.Operator == policyv1alpha1.OverriderOpRemove {
			continue
		}
		switch {
		case strings.HasPrefix(e.Value, "@"):
			r.Warning("tag-at-sign", at.At("value"), "%q has no effect because of the @; write a digest as sha256:...", e.Value)
		case e.Operator == policyv1alpha1.OverriderOpReplace && !isTag(e.Value) && !isDigest(e.Value):
			r.Warning("tag-no-effect", at.At("value"), "%q is neither a tag nor a digest and has no effect; correct it", e.Value)
		}
	}
}

func checkField(r *policy.Report, at policy.Path, o *policyv1alpha1.FieldOverrider) {
	switch {
	case len(o.JSON) > 0 && len(o.YAML) > 0:
		r.Error("field-conflict", at, "json and yaml exclude each other; keep the one that the text is written in")
	case len(o.JSON)+len(o.YAML) == 0:
		r.Error("missing-value", at, "json or yaml is required; say what to change")
	}
	if _, err := parsePointer(o.FieldPath); err != nil {
		r.Error("json-pointer", at.At("fieldPath"), "%v", err)
	}
	for _, list := range fieldLists(o) {
		for i, e := range list.entries {
			at := at.At(list.name, i)
			if _, err := parsePointer(e.SubPath); err != nil {
				r.Error("json-pointer", at.At("subPath"), "%v", err)
			}
			switch remove := e.Operator == policyv1alpha1.OverriderOpRemove; {
			case remove && len(e.Value.Raw) > 0:
				r.Error("value-not-wanted", at.At("value"), "must not be given with remove; delete it")
			case !remove && len(e.Value.Raw) == 0:
				r.Error("missing-value", at.At("value"), "is required with %s; add it", e.Operator)
			}
		}
	}
}
