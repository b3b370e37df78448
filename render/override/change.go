package override

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// change makes another object of an object, sharing what it does not touch; nil means that there
// is nothing to change.
type change func(api.Object) (api.Object, error)

// podSpecs is where kinds, whatever their group, keep their containers.
var podSpecs = map[string][]string{
	"Pod":         {"spec"},
	"ReplicaSet":  {"spec", "template", "spec"},
	"Deployment":  {"spec", "template", "spec"},
	"DaemonSet":   {"spec", "template", "spec"},
	"StatefulSet": {"spec", "template", "spec"},
	"Job":         {"spec", "template", "spec"},
}

// inContainers sets one field of the regular containers to what value makes of it; value also says
// whether it does. Init containers and other kinds are left alone, as in Karmada.
func inContainers(o api.Object, field string, value func(container map[string]any) (any, bool, error)) (api.Object, error) {
	kind, _ := o["kind"].(string)
	return inMap(o, podSpecs[kind], func(pod map[string]any) (map[string]any, error) {
		list, ok := pod["containers"].([]any)
		if !ok && pod["containers"] != nil {
			return nil, errors.New("containers is no list")
		}
		changed := false
		for i := range list {
			c, ok := list[i].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("containers[%d] is no mapping", i)
			}
			v, ok, err := value(c)
			if err != nil {
				return nil, fmt.Errorf("containers[%d].%s: %w", i, field, err)
			}
			if !ok {
				continue
			}
			if !changed {
				list, changed = slices.Clone(list), true
			}
			list[i] = with(c, field, v)
		}
		if !changed {
			return nil, nil
		}
		return with(pod, "containers", list), nil
	})
}

// inMap gives the mapping that path leads to to edit and copies the way there. It returns nil if
// edit does, without a path, and if the path leads nowhere.
func inMap(m map[string]any, path []string, edit change) (map[string]any, error) {
	if len(path) == 0 || m[path[0]] == nil {
		return nil, nil
	}
	next, ok := m[path[0]].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no mapping", path[0])
	}
	var err error
	if len(path) > 1 {
		next, err = inMap(next, path[1:], edit)
	} else {
		next, err = edit(next)
	}
	if next == nil || err != nil {
		return nil, err
	}
	return with(m, path[0], next), nil
}

func with(m map[string]any, key string, value any) map[string]any {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	m[key] = value
	return m
}

// images changes the images of the regular containers.
func images(o *policyv1alpha1.ImageOverrider) change {
	return func(object api.Object) (api.Object, error) {
		return inContainers(object, "image", func(c map[string]any) (any, bool, error) {
			text, err := newImage(c["image"], o)
			return text, true, err
		})
	}
}

func newImage(v any, o *policyv1alpha1.ImageOverrider) (string, error) {
	text, ok := v.(string)
	if !ok {
		return "", errors.New("is no string")
	}
	i, err := parseImage(text)
	if err != nil {
		return "", err
	}
	return i.with(o).String(), nil
}

// imageAt changes the image in the one field that the predicate names. Its path knows no escapes.
func imageAt(o *policyv1alpha1.ImageOverrider) change {
	path := pointer(strings.Split(strings.Trim(o.Predicate.Path, "/"), "/"))
	return func(object api.Object) (api.Object, error) {
		if !strings.HasPrefix(o.Predicate.Path, "/") {
			return nil, fmt.Errorf("the path %q must begin with /", o.Predicate.Path)
		}
		v, err := path.lookup(object)
		if err != nil {
			return nil, err
		}
		text, err := newImage(v, o)
		switch {
		case err != nil && object["kind"] == "Secret": // whose values appear in no message
			return nil, fmt.Errorf("%s is no image reference", path)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return replace(object, path, text)
	}
}

// lookup returns what p points at. Unlike an operation it counts in lists from the front only.
func (p pointer) lookup(v any) (any, error) {
	for i, step := range p {
		switch c := v.(type) {
		case map[string]any:
			child, ok := c[step]
			if !ok {
				return nil, fmt.Errorf("there is no %s", p[:i+1])
			}
			v = child
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(c) {
				return nil, fmt.Errorf("there is no %s, the list has %d items", p[:i+1], len(c))
			}
			v = c[n]
		default:
			return nil, fmt.Errorf("%s is neither a mapping nor a list", p[:i])
		}
	}
	return v, nil
}

// replace puts a value in the place of one that is there.
func replace(o api.Object, path pointer, value any) (api.Object, error) {
	next, err := operation{policyv1alpha1.OverriderOpReplace, path, value}.apply(o)
	if err != nil {
		return nil, err
	}
	return next.(api.Object), nil
}

// words changes command or args of the containers with one name.
func words(field string, o *policyv1alpha1.CommandArgsOverrider) change {
	return func(object api.Object) (api.Object, error) {
		return inContainers(object, field, func(c map[string]any) (any, bool, error) {
			if name, _ := c["name"].(string); name != o.ContainerName {
				return nil, false, nil
			}
			old, ok := c[field].([]any)
			if !ok && c[field] != nil {
				return nil, false, errors.New("is no list")
			}
			next := make([]any, 0, len(old)+len(o.Value))
			for _, v := range old {
				word, ok := v.(string)
				if !ok {
					return nil, false, errors.New("is no list of strings")
				}
				if o.Operator == policyv1alpha1.OverriderOpAdd || !slices.Contains(o.Value, word) {
					next = append(next, word)
				}
			}
			if o.Operator == policyv1alpha1.OverriderOpAdd {
				for _, word := range o.Value {
					next = append(next, word)
				}
			}
			return next, true, nil
		})
	}
}

// marks changes labels or annotations of the object itself.
func marks(field string, o *policyv1alpha1.LabelAnnotationOverrider) change {
	return func(object api.Object) (api.Object, error) {
		meta, _ := object["metadata"].(map[string]any)
		old, ok := meta[field].(map[string]any)
		if !ok && meta[field] != nil {
			return nil, fmt.Errorf("metadata.%s is no mapping", field)
		}
		var next map[string]any
		for key, value := range o.Value {
			_, there := old[key]
			add := o.Operator == policyv1alpha1.OverriderOpAdd
			if !there && !add {
				continue
			}
			if next == nil {
				next = maps.Clone(old)
			}
			switch {
			case o.Operator == policyv1alpha1.OverriderOpRemove:
				delete(next, key)
			case next == nil:
				next = map[string]any{key: value}
			default:
				next[key] = value
			}
		}
		if next == nil {
			return nil, nil
		}
		return with(object, "metadata", with(meta, field, next)), nil
	}
}

// entryError is the failure of one entry of several that are applied together.
type entryError struct {
	entry int
	err   error
}

func (e *entryError) Error() string { return e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

// patch applies the entries of plaintext as one JSON Patch, all or nothing.
func patch(operations []operation) change {
	return func(object api.Object) (api.Object, error) {
		var doc any = object
		for i, o := range operations {
			next, err := o.apply(doc)
			if err != nil {
				return nil, &entryError{i, fmt.Errorf("%s: %w", o, err)}
			}
			doc = next
		}
		return wellTyped(doc)
	}
}

// wellTyped refuses what no API server would take for an object.
//
// Differs from Karmada: there labels that are no strings get lost on the way, or fail a later step.
func wellTyped(doc any) (api.Object, error) {
	o, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("the result is no object")
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if text, _ := o[field].(string); text == "" {
			return nil, fmt.Errorf("the result has no %s", field)
		}
	}
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata of the result is no mapping")
	}
	if name, _ := meta["name"].(string); name == "" {
		return nil, errors.New("the result has no metadata.name")
	}
	for _, field := range []string{"labels", "annotations"} {
		values, ok := meta[field].(map[string]any)
		if !ok && meta[field] != nil {
			return nil, fmt.Errorf("metadata.%s of the result is no mapping", field)
		}
		for _, v := range values {
			if _, ok := v.(string); !ok {
				return nil, fmt.Errorf("metadata.%s of the result has a value that is no string; put it in quotes", field)
			}
		}
	}
	return o, nil
}
