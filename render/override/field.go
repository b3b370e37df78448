package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// document patches the JSON or YAML text that a field of the object holds.
func document(o *policyv1alpha1.FieldOverrider) change {
	edit, entries := patchJSON, o.JSON
	if len(o.YAML) > 0 {
		edit, entries = patchYAML, o.YAML
	}
	path, invalid := parsePointer(o.FieldPath)
	operations := make([]operation, len(entries))
	for i, e := range entries {
		subPath, err := parsePointer(e.SubPath)
		invalid = errors.Join(invalid, err)
		value := json.RawMessage(e.Value.Raw)
		if len(value) == 0 {
			value = json.RawMessage("null")
		}
		operations[i] = operation{e.Operator, subPath, value}
	}
	return func(object api.Object) (api.Object, error) {
		if invalid != nil {
			return nil, invalid
		}
		v, err := path.lookup(object)
		if err != nil {
			return nil, err
		}
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s is no string", path)
		}
		if text, err = edit(text, operations); err != nil {
			return nil, fmt.Errorf("the text in %s: %w", path, err)
		}
		return replace(object, path, text)
	}
}

// patchJSON keeps the order of keys and the way numbers are written. The text it returns is
// compact, with <, > and & escaped. An empty text stays empty, as in Karmada.
func patchJSON(text string, operations []operation) (string, error) {
	if text == "" {
		return "", nil
	}
	if !json.Valid([]byte(text)) {
		return "", errors.New("is no JSON")
	}
	var doc any = json.RawMessage(text)
	for _, o := range operations {
		next, err := o.apply(doc)
		if err != nil {
			return "", fmt.Errorf("%s: %w", o, err)
		}
		doc = next
	}
	switch root, err := open(doc); root.(type) {
	case members, []any:
	default:
		return "", errors.Join(errors.New("the document must be an object or a list"), err)
	}
	patched, err := json.Marshal(doc)
	return string(patched), err
}

// patchYAML sorts the keys; comments are lost, and aliases written out.
func patchYAML(text string, operations []operation) (string, error) {
	if strings.Contains(text, "*") { // there may be aliases, which YAMLToJSON writes out however much that is
		if v, _, err := canonical.Decode([]byte(text)); err != nil {
			return "", fmt.Errorf("is no YAML: %w", err)
		} else if !manifest.Fits(v) {
			return "", errors.New("is too large or too deep with its aliases written out")
		}
	}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "", fmt.Errorf("is no YAML: %w", err)
	}
	patched, err := patchJSON(string(asJSON), operations)
	if err != nil {
		return "", err
	}
	asYAML, err := yaml.JSONToYAML([]byte(patched))
	return string(asYAML), err
}
