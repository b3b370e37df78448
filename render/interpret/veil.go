package interpret

import (
	"fmt"
	"maps"
	"slices"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/api"
)

// openFields are the fields of a Secret that hold no values. What is no field of a Secret is a value that somebody
// misspelt the place of.
var openFields = []string{"apiVersion", "kind", "metadata", "type", "immutable"}

// valueFields are the fields of a Secret that Retain may change.
var valueFields = []string{"data", "stringData"}

// A veil is what scripts see of their arguments. In a Secret something else stands for each value: a script may move
// values and drop them, but whatever it answers, it cannot tell what they are.
type veil struct {
	// shown are the objects among the arguments, in their order.
	shown []map[string]any
	// values by what stands for them.
	values map[string]any
}

// veiled hides what is in Secrets among the arguments of a script.
func veiled(arguments []any) (*veil, []any) {
	v := &veil{}
	shown := slices.Clone(arguments)
	for i, argument := range arguments {
		o, ok := argument.(api.Object)
		if !ok {
			continue
		}
		if isSecret(o) {
			o = v.over(o)
			shown[i] = o
		}
		v.shown = append(v.shown, o)
	}
	return v, shown
}

// over is a Secret without its values. Annotations that hold a copy of the whole manifest go.
func (v *veil) over(o api.Object) api.Object {
	o = maps.Clone(without(o, annotationsPath, corev1.LastAppliedConfigAnnotation))
	for _, field := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(openFields, field) {
			o[field] = v.hide(o[field])
		}
	}
	return o
}

func (v *veil) hide(value any) any {
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		hidden := make(map[string]any, len(value))
		for _, name := range slices.Sorted(maps.Keys(value)) {
			hidden[name] = v.hide(value[name])
		}
		return hidden
	}
	if value == "" {
		return value
	}
	if v.values == nil {
		v.values = map[string]any{}
	}
	name := fmt.Sprintf("(value %d of a Secret)", len(v.values)+1)
	v.values[name] = value
	return name
}

// lifted is a Secret with values where a script has what stands for them. Elsewhere that stays: in what others may see,
// and in names.
func (v *veil) lifted(o api.Object) api.Object {
	if len(v.values) == 0 {
		return o
	}
	o = maps.Clone(o)
	for field, value := range o {
		if !slices.Contains(openFields, field) {
			o[field] = v.lift(value)
		}
	}
	return o
}

func (v *veil) lift(value any) any {
	switch value := value.(type) {
	case map[string]any:
		lifted := make(map[string]any, len(value))
		for name, below := range value {
			lifted[name] = v.lift(below)
		}
		return lifted
	case string:
		if was, ok := v.values[value]; ok {
			return was
		}
	}
	return value
}

// answer is the object that a script made of its arguments.
func (m *machine) answer(got lua.LValue) (api.Object, error) {
	o, err := m.resultObject(got, m.veil.shown...)
	return m.veil.lifted(o), err
}

// keptValues is a Secret with the values that it keeps, and nothing else: all but values is on record as desired, and
// what is there for others to see is not for a rule to fill in.
func keptValues(desired, kept api.Object) api.Object {
	desired = maps.Clone(desired)
	for _, field := range valueFields {
		if values, ok := kept[field]; ok {
			desired[field] = values
		} else {
			delete(desired, field)
		}
	}
	return desired
}
