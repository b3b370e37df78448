package manifest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/sops"
)

// karmadaKinds are the kinds of the groups that decide about others. A slip in one must not pass for
// the removal of what it was before.
var karmadaKinds = map[string][]string{
	"apps.karmada.io":    {"WorkloadRebalancer"},
	"cluster.karmada.io": {"Cluster"},
	"config.karmada.io":  {"ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration"},
	"policy.karmada.io": {"ClusterOverridePolicy", "ClusterPropagationPolicy", "ClusterTaintPolicy", "FederatedResourceQuota",
		"OverridePolicy", "PropagationPolicy"},
}

// karmadaVersion is the only version of these groups.
const karmadaVersion = "v1alpha1"

// nameProblems says what keeps an object from being stored under its name. Kubernetes' own kinds want the
// name of a domain, with few exceptions; what other API servers want is not known, but a name has to fit
// into a URL in any case.
func nameProblems(id api.ID) []string {
	native := !strings.Contains(id.Group, ".") || strings.HasSuffix(id.Group, ".k8s.io") || Karmada(id.Group)
	if native && id.Group != "rbac.authorization.k8s.io" && id.Kind != "IPAddress" {
		return validation.IsDNS1123Subdomain(id.Name)
	}
	problems := path.IsValidPathSegmentName(id.Name)
	if strings.ContainsFunc(id.Name, unicode.IsControl) {
		problems = append(problems, "may not contain control characters")
	}
	return problems
}

// admit adds o to the unit, or the items of it if it is a List, or the findings that say why not.
func (r *reader) admit(u *Unit, o *Object) {
	o.ID = api.IDOf(o.Content)
	refuse := func(code string, path []string, format string, args ...any) {
		u.Broken = true
		r.find(u, o.Finding(render.Error, code, path, format, args...))
	}
	mistaken := func(path []string, v any, want string) {
		code, message := mistyped(o, path, v, want)
		refuse(code, path, "%s", message)
	}
	const noManifest = "if this is no manifest, name the file in " + ignoreFile
	left := r.MaxBytes
	fit := fits(o.Content, r.MaxDepth, &left)
	r.written += r.MaxBytes - left
	if !fit {
		refuse("too-large", nil, "more than %d levels deep, or more than %d bytes with its aliases written out", r.MaxDepth, r.MaxBytes)
		return
	}
	for _, field := range []string{"apiVersion", "kind"} {
		v, ok := o.Content[field]
		if _, isText := v.(string); ok && v != nil && !isText {
			mistaken([]string{field}, v, "a string")
			return
		}
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if text, _ := o.Content[field].(string); sops.IsCiphertext(text) {
			refuse(sops.CodeMisplaced, []string{field}, "is encrypted, so that nobody knows what the object is; encrypt data and stringData of a Secret alone (--encrypted-regex '^(data|stringData)$')")
			return
		}
	}
	switch {
	case o.Kind == "":
		refuse("missing-kind", nil, "apiVersion without a kind; %s", noManifest)
		return
	case o.Version == "":
		refuse("missing-api-version", nil, "kind %s without an apiVersion; %s", o.Kind, noManifest)
		return
	}
	if kinds, ok := karmadaKinds[o.Group]; ok && !slices.Contains(kinds, o.Kind) && !strings.HasSuffix(o.Kind, "List") {
		refuse("unknown-kind", []string{"kind"}, "%s has no kind %s; it has %s", o.Group, o.Kind, strings.Join(kinds, ", "))
		return
	}
	if _, ok := karmadaKinds[o.Group]; ok && o.Version != karmadaVersion {
		refuse("unknown-version", []string{"apiVersion"}, "%s has no version %s; write %s/%s", o.Group, o.Version, o.Group, karmadaVersion)
		return
	}
	if o.Kind == "List" && o.Content["items"] == nil {
		return // a list of nothing, as an export without a match gives it
	}
	if items, ok := o.Content["items"].([]any); ok && strings.HasSuffix(o.Kind, "List") {
		r.items(u, o, items)
		return
	}

	broken := u.Broken
	u.Broken = false
	meta, ok := o.Content["metadata"].(map[string]any)
	switch {
	case o.Content["metadata"] == nil:
		refuse("missing-name", nil, "no metadata.name; %s", noManifest)
	case !ok:
		mistaken([]string{"metadata"}, o.Content["metadata"], "a mapping")
	default:
		for _, field := range []string{"name", "namespace"} {
			if _, ok := meta[field].(string); !ok && meta[field] != nil {
				mistaken([]string{"metadata", field}, meta[field], "a string")
			}
		}
		switch {
		case meta["name"] != nil && meta["name"] != "":
			if u.Broken {
				break
			}
			if problems := nameProblems(o.ID); len(problems) > 0 {
				refuse("invalid-name", []string{"metadata", "name"}, "%q is refused by every cluster: %s", o.Name, strings.Join(problems, "; "))
			}
			if problems := validation.IsDNS1123Label(o.Namespace); o.Namespace != "" && len(problems) > 0 {
				refuse("invalid-name", []string{"metadata", "namespace"}, "%q is no name of a namespace: %s", o.Namespace, strings.Join(problems, "; "))
			}
		case meta["generateName"] != nil:
			refuse("generate-name", []string{"metadata", "generateName"}, "an object in Git needs a metadata.name of its own")
		default:
			refuse("missing-name", []string{"metadata"}, "no metadata.name; %s", noManifest)
		}
	}
	if !Karmada(o.Group) {
		texts(o, mistaken)
		r.repeats(u, o)
	}
	if !u.Broken && r.seal(u, o) {
		u.Objects = append(u.Objects, o)
	}
	u.Broken = u.Broken || broken
}

// seal finds what is encrypted in an object that is admitted, and refuses it if that is not as it was encrypted. Whether it can
// be decrypted concerns only those who need it so.
func (r *reader) seal(u *Unit, o *Object) bool {
	block := o.Content["sops"]
	if block == nil {
		block = r.block
	}
	sealed, changed := r.vault.Seal(o.ID, o.Content, block)
	if changed != nil {
		u.Broken = true
		r.find(u, render.Finding{Severity: render.Error, Code: changed.Code, File: changed.File, Line: changed.Line, Object: o.ID.String(), Message: changed.Message})
		return false
	}
	o.Sealed = sealed
	return true
}

// texts checks the mappings that hold nothing but strings, where YAML 1.1 most often surprises.
func texts(o *Object, mistaken func(path []string, v any, want string)) {
	paths := [][]string{{"metadata", "labels"}, {"metadata", "annotations"}}
	if o.Group == "" && (o.Kind == "ConfigMap" || o.Kind == "Secret") {
		paths = append(paths, []string{"data"}, []string{"binaryData"}, []string{"stringData"})
	}
	for _, path := range paths {
		var v any = o.Content
		for _, field := range path {
			m, _ := v.(map[string]any)
			v = m[field]
		}
		m, ok := v.(map[string]any)
		if v != nil && !ok {
			mistaken(path, v, "a mapping")
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if _, ok := m[k].(string); !ok && m[k] != nil {
				mistaken(append(slices.Clone(path), k), m[k], "a string")
			}
		}
	}
}

// repeats warns of keys that stand twice. In Karmada's kinds they are errors, which Decode reports.
func (r *reader) repeats(u *Unit, o *Object) {
	if o.text == nil || !o.text.repeated {
		return
	}
	for _, rep := range o.text.repeats() {
		if rep.within(o) {
			r.find(u, rep.finding(o, render.Warning))
		}
	}
}

// items admits the items of a List. Those of a typed one, such as a DeploymentList, may leave out
// what the list says.
func (r *reader) items(u *Unit, list *Object, items []any) {
	defer func(before any) { r.block = before }(r.block)
	if block := list.Content["sops"]; block != nil {
		r.block = block
	}
	for i, item := range items {
		path := []string{"items", strconv.Itoa(i)}
		content, ok := item.(map[string]any)
		if !ok {
			u.Broken = true
			r.find(u, list.Finding(render.Error, "wrong-type", path, "%s where an object is wanted", list.show(item)))
			continue
		}
		o := &Object{Origin: list.Origin, text: list.text, path: slices.Concat(list.path, path)}
		o.Origin.Line = list.Line(path...)
		if kind := strings.TrimSuffix(list.Kind, "List"); kind != "" && content["kind"] == nil && content["apiVersion"] == nil {
			content = maps.Clone(content)
			content["kind"], content["apiVersion"] = kind, list.Content["apiVersion"]
		}
		o.Content = content
		r.admit(u, o)
	}
}

// Fits tells whether a value that aliases may have made large is one that a file could hold without them.
func Fits(v any) bool {
	left := maxBytes
	return fits(v, maxDepth, &left)
}

// fits tells whether v is at most depth levels deep and not larger than left bytes, which it uses up.
// Aliases make a small file large.
func fits(v any, depth int, left *int) bool {
	*left--
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case []any:
		if depth == 0 {
			return false
		}
		for _, e := range v {
			if !fits(e, depth-1, left) {
				return false
			}
		}
	case map[string]any:
		if depth == 0 {
			return false
		}
		for k, e := range v {
			*left -= len(k)
			if !fits(e, depth-1, left) {
				return false
			}
		}
	}
	return *left >= 0
}
