package interpret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/godwit-gitops/godwit/api"
)

// Limits of a patch: how many steps it has, and how much its steps may write and look at, counted in
// values and bytes of text. A few copies of copies would fill any memory.
const (
	maxPatchSteps  = 10_000
	maxPatchEffort = 16 << 20
)

// patchStep is one step of a JSON Patch (RFC 6902).
type patchStep struct {
	op         string
	path, from []string
	value      any
}

// parsePatch reads a patch, which is base64 of JSON.
func parsePatch(v any) ([]patchStep, error) {
	encoded, ok := v.(string)
	if !ok {
		return nil, errors.New("is no base64 text")
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("is no base64 text")
	}
	var list []any
	if err := utiljson.Unmarshal(decoded, &list); err != nil {
		return nil, errors.New("is no JSON list of steps")
	}
	if len(list) > maxPatchSteps {
		return nil, fmt.Errorf("has %d steps, at most %d are allowed", len(list), maxPatchSteps)
	}
	steps := make([]patchStep, len(list))
	for n, v := range list {
		if steps[n], err = parseStep(object(v)); err != nil {
			return nil, fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return steps, nil
}

func parseStep(fields map[string]any) (s patchStep, err error) {
	s.op = text(fields["op"])
	wantsValue, wantsFrom := false, false
	switch s.op {
	case "add", "replace", "test":
		wantsValue = true
	case "move", "copy":
		wantsFrom = true
	case "remove":
	default:
		return s, fmt.Errorf("op is %q, it must be add, remove, replace, move, copy or test", shown(s.op))
	}
	if s.path, err = parsePointer(fields, "path"); err != nil {
		return s, err
	}
	if wantsFrom {
		if s.from, err = parsePointer(fields, "from"); err != nil {
			return s, err
		}
	}
	value, has := fields["value"]
	if wantsValue && !has {
		return s, fmt.Errorf("%s has no value", s.op)
	}
	s.value = value
	return s, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// parsePointer reads a JSON Pointer (RFC 6901).
func parsePointer(fields map[string]any, name string) ([]string, error) {
	s, ok := fields[name].(string)
	switch {
	case !ok:
		return nil, fmt.Errorf("has no %s", name)
	case s == "":
		return nil, fmt.Errorf("%s is the whole object, which cannot be exchanged; name a field", name)
	case s[0] != '/':
		return nil, fmt.Errorf("%s is %q, it must begin with /", name, shown(s))
	}
	path := strings.Split(s[1:], "/")
	if len(path) > maxDepth {
		return nil, fmt.Errorf("%s leads more than %d deep", name, maxDepth)
	}
	for i := range path {
		path[i] = unescape.Replace(path[i])
	}
	return path, nil
}

// apply does the steps one after the other. What it returns shares with o what stays as it is.
func apply(steps []patchStep, o api.Object) (api.Object, error) {
	if len(steps) == 0 {
		return o, nil
	}
	p := patching{left: maxPatchEffort}
	var doc any = o
	for n, s := range steps {
		next, err := p.step(doc, s)
		if err == nil && p.left < 0 {
			err = errors.New("the patch writes too much")
		}
		if err != nil {
			return nil, fmt.Errorf("step %d (%s %s): %w", n+1, s.op, shown("/"+strings.Join(s.path, "/")), err)
		}
		doc = next
	}
	patched, ok := doc.(map[string]any)
	if !ok || !p.fits(doc, 0) {
		return nil, errors.New("what comes out is too large or nested too deep")
	}
	return patched, nil
}

// patching counts what the steps of a patch cost.
type patching struct{ left int }

// fits takes the size of v from what is left; false means that it is too large or too deep.
func (p *patching) fits(v any, depth int) bool {
	p.left--
	if depth > maxDepth {
		return false
	}
	switch v := v.(type) {
	case string:
		p.left -= len(v)
	case []any:
		for _, e := range v {
			if p.left < 0 || !p.fits(e, depth+1) {
				return false
			}
		}
	case map[string]any:
		for k, e := range v {
			p.left -= len(k)
			if p.left < 0 || !p.fits(e, depth+1) {
				return false
			}
		}
	}
	return p.left >= 0
}

func (p *patching) step(doc any, s patchStep) (any, error) {
	switch s.op {
	case "test":
		have, err := lookUp(doc, s.path)
		switch {
		case err != nil:
			return nil, err
		case !p.fits(s.value, 0) || !same(have, s.value):
			return nil, errors.New("the value is another one")
		}
		return doc, nil
	case "move", "copy":
		value, err := lookUp(doc, s.from)
		if err != nil {
			return nil, err
		}
		if s.op == "copy" {
			if !p.fits(value, 0) {
				return nil, errors.New("the patch writes too much")
			}
			return p.edit(doc, s.path, "add", value)
		}
		if len(s.path) > len(s.from) && slices.Equal(s.path[:len(s.from)], s.from) {
			return nil, errors.New("a value cannot be moved into itself")
		}
		if doc, err = p.edit(doc, s.from, "remove", nil); err != nil {
			return nil, err
		}
		return p.edit(doc, s.path, "add", value)
	}
	return p.edit(doc, s.path, s.op, s.value)
}

// same compares numbers by what they are.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case int64:
		if b, ok := b.(float64); ok {
			return float64(a) == b
		}
	case float64:
		if b, ok := b.(int64); ok {
			return a == float64(b)
		}
	}
	return reflect.DeepEqual(a, b)
}

func lookUp(doc any, path []string) (any, error) {
	for _, key := range path {
		switch c := doc.(type) {
		case map[string]any:
			v, ok := c[key]
			if !ok {
				return nil, absent(key)
			}
			doc = v
		case []any:
			i, err := place(key, len(c))
			if err != nil {
				return nil, err
			}
			doc = c[i]
		default:
			return nil, absent(key)
		}
	}
	return doc, nil
}

func absent(key string) error { return fmt.Errorf("there is no %q", shown(key)) }

// place reads a position in a list of n.
func place(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 || strconv.Itoa(i) != key {
		return 0, fmt.Errorf("%q is no position in a list", shown(key))
	}
	if i >= n {
		return 0, fmt.Errorf("the list has no position %d", i)
	}
	return i, nil
}

// edit is doc with one value added, replaced or removed. The maps and lists on the way are copied.
func (p *patching) edit(doc any, path []string, op string, value any) (any, error) {
	key, last := path[0], len(path) == 1
	switch c := doc.(type) {
	case map[string]any:
		p.left -= len(c)
		child, ok := c[key]
		switch {
		case !ok && (!last || op != "add"):
			return nil, absent(key)
		case last && op == "remove":
			c = maps.Clone(c)
			delete(c, key)
			return c, nil
		case last:
			child = value
		default:
			var err error
			if child, err = p.edit(child, path[1:], op, value); err != nil {
				return nil, err
			}
		}
		c = maps.Clone(c)
		c[key] = child
		return c, nil
	case []any:
		p.left -= len(c)
		n := len(c)
		if last && op == "add" {
			if key == "-" {
				key = strconv.Itoa(n)
			}
			n++
		}
		i, err := place(key, n)
		switch {
		case err != nil:
			return nil, err
		case last && op == "add":
			return slices.Insert(slices.Clone(c), i, value), nil
		case last && op == "remove":
			return slices.Delete(slices.Clone(c), i, i+1), nil
		}
		child := value
		if !last {
			if child, err = p.edit(c[i], path[1:], op, value); err != nil {
				return nil, err
			}
		}
		c = slices.Clone(c)
		c[i] = child
		return c, nil
	}
	return nil, absent(key)
}
