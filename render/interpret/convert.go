package interpret

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// value is a JSON-shaped value as scripts see it: maps and lists are tables, null is nil, every
// number is a floating-point number. Fields come in the order of their names, so pairs gives them
// in that order.
func (m *machine) value(v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case string:
		m.longText(len(v))
		return lua.LString(v)
	case []any:
		table := m.state.CreateTable(len(v), 0)
		for _, element := range v {
			table.Append(m.value(element))
		}
		return table
	case map[string]any:
		table := m.state.CreateTable(0, len(v))
		var buffer [24]string
		for _, name := range sortedKeys(v, buffer[:0]) {
			m.longText(len(name))
			table.RawSetString(name, m.value(v[name]))
		}
		return table
	}
	return lua.LNil
}

func sortedKeys(m map[string]any, into []string) []string {
	into = slices.AppendSeq(into, maps.Keys(m))
	slices.Sort(into)
	return into
}

// result is the way back. Whole numbers become integers. An empty table could be a map or a list:
// it is what one of the originals has in the same place, and gone if none has an empty one there.
func (m *machine) result(v lua.LValue, originals ...map[string]any) (any, error) {
	r := reader{machine: m, originals: originals}
	return r.read(v)
}

// resultObject is a result that must be a table of named fields.
func (m *machine) resultObject(v lua.LValue, originals ...map[string]any) (map[string]any, error) {
	table, ok := v.(*lua.LTable)
	if !ok {
		return nil, wrongType("a table", v)
	}
	value, err := m.result(table, originals...)
	switch value := value.(type) {
	case map[string]any:
		return value, err
	case nil:
		return map[string]any{}, err
	}
	return nil, fmt.Errorf("the function must return an object, it returned a list")
}

type reader struct {
	*machine
	originals []map[string]any
	// path to what is being read, without places in lists.
	path  []string
	depth int
}

func (r *reader) read(v lua.LValue) (any, error) {
	if err := r.take(32); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		return r.text(v)
	case lua.LNumber:
		return r.number(float64(v))
	case *lua.LTable:
		if r.depth++; r.depth > maxDepth {
			return nil, r.errorf("tables are nested more than %d deep, or in themselves", maxDepth)
		}
		defer func() { r.depth-- }()
		return r.table(v)
	}
	return nil, r.errorf("a %s cannot be part of an object", v.Type())
}

func (r *reader) errorf(format string, args ...any) error {
	path := strings.Join(r.path[:min(len(r.path), 10)], ".")
	return fmt.Errorf("in what the script returned, at .%s: %s", path, fmt.Sprintf(format, args...))
}

// text replaces each byte that is not UTF-8, as encoding/json does: a script that cuts a text after so many
// bytes may cut a letter in two, and neither JSON nor YAML can hold the half of one.
func (r *reader) text(s lua.LString) (string, error) {
	text := string(s)
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	return text, r.take(len(text))
}

func (r *reader) number(n float64) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, r.errorf("%v is no number an object can hold", n)
	case n == math.Trunc(n) && n >= math.MinInt64 && n < math.MaxInt64:
		return int64(n), nil
	}
	return n, nil
}

// table reads what has keys 1 to n as a list and what has names as a map. An empty one is nil
// unless an original says what it is.
func (r *reader) table(t *lua.LTable) (any, error) {
	if err := r.take(224); err != nil {
		return nil, err
	}
	key, value := t.Next(lua.LNil)
	switch key.(type) {
	case *lua.LNilType:
		for _, original := range r.originals {
			if like := emptyAt(original, r.path); like != nil {
				return like, nil
			}
		}
		return nil, nil
	case lua.LNumber:
		return r.list(t, key, value)
	}
	out := make(map[string]any)
	for ; key != lua.LNil; key, value = t.Next(key) {
		name, ok := key.(lua.LString)
		if !ok {
			return nil, r.errorf("a table has a key that is a %s beside names", key.Type())
		}
		text, err := r.text(name)
		if err != nil {
			return nil, err
		}
		r.path = append(r.path, text)
		field, err := r.read(value)
		r.path = r.path[:len(r.path)-1]
		if err != nil {
			return nil, err
		}
		if field != nil {
			out[text] = field
		}
	}
	return out, nil
}

func (r *reader) list(t *lua.LTable, key, value lua.LValue) (any, error) {
	out, place := make([]any, 0, t.Len()), 0
	for ; key != lua.LNil; key, value = t.Next(key) {
		place++
		if n, ok := key.(lua.LNumber); !ok || n != lua.LNumber(place) {
			return nil, r.errorf("a list has no element %d, or named fields beside its elements", place)
		}
		element, err := r.read(value)
		if err != nil {
			return nil, err
		}
		if element != nil {
			out = append(out, element)
		}
	}
	return out, nil
}

// emptyAt is the empty map or list that the original has under the path, in whatever element of a
// list on the way; nil if there is none.
func emptyAt(v any, path []string) any {
	switch v := v.(type) {
	case []any:
		if len(v) == 0 && len(path) == 0 {
			return v
		}
		for _, element := range v {
			if found := emptyAt(element, path); found != nil {
				return found
			}
		}
	case map[string]any:
		if len(path) > 0 {
			return emptyAt(v[path[0]], path[1:])
		}
		if len(v) == 0 {
			return v
		}
	}
	return nil
}
