package manifest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render"
)

// Decode reads an object into its Go type, field by field along the JSON tags, and is strict: a
// field that T does not know, a value of another type and a key that stands twice are errors, all
// of which are returned, in the order of the file. With one or more errors the result is nil. A null counts as not written.
func Decode[T any](o *Object) (*T, []render.Finding) {
	into := new(T)
	d := decoder{object: o}
	d.value(o.Content, reflect.ValueOf(into).Elem())
	d.repeats()
	if len(d.findings) > 0 {
		slices.SortStableFunc(d.findings, render.Finding.Compare)
		return nil, d.findings
	}
	return into, nil
}

type decoder struct {
	object   *Object
	path     []string
	findings []render.Finding
}

func (d *decoder) report(code, format string, args ...any) {
	d.findings = append(d.findings, d.object.Finding(render.Error, code, slices.Clone(d.path), format, args...))
}

// at runs f one step deeper.
func (d *decoder) at(elem string, f func()) {
	d.path = append(d.path, elem)
	f()
	d.path = d.path[:len(d.path)-1]
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	quantity    = reflect.TypeFor[resource.Quantity]()
)

func (d *decoder) value(v any, into reflect.Value) {
	if v == nil {
		return
	}
	if reflect.PointerTo(into.Type()).Implements(unmarshaler) {
		// Quantity, Time, IntOrString, RawExtension and the like: leaves with a text of their own.
		data, err := json.Marshal(v)
		if into.Type() == quantity && !canonical.Sensible(strings.Trim(string(data), `"`)) {
			err = errors.New("it has too many digits")
		}
		if err == nil {
			err = into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(data)
		}
		if err != nil {
			d.wrong(v, "a "+into.Type().Name())
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.value(v, into.Elem())
	case reflect.Interface:
		into.Set(reflect.ValueOf(v))
	case reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			d.fields(m, into)
			return
		}
		d.wrong(v, "a mapping")
	case reflect.Map:
		if m, ok := v.(map[string]any); ok {
			d.entries(m, into)
			return
		}
		d.wrong(v, "a mapping")
	case reflect.Slice:
		if into.Type().Elem().Kind() == reflect.Uint8 {
			d.bytes(v, into)
			return
		}
		if list, ok := v.([]any); ok {
			into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
			for i, e := range list {
				d.at(strconv.Itoa(i), func() { d.value(e, into.Index(i)) })
			}
			return
		}
		d.wrong(v, "a list")
	default:
		if want, ok := scalar(v, into); !ok {
			d.wrong(v, want)
		}
	}
}

// scalar sets into to v if it fits, else says what would.
func scalar(v any, into reflect.Value) (want string, ok bool) {
	switch into.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if ok {
			into.SetString(s)
		}
		return "a string", ok
	case reflect.Bool:
		b, ok := v.(bool)
		if ok {
			into.SetBool(b)
		}
		return "true or false", ok
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, ok := v.(int64)
		if ok = ok && !into.OverflowInt(i); ok {
			into.SetInt(i)
		}
		return fmt.Sprintf("a whole number of %d bits", into.Type().Bits()), ok
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, ok := v.(int64)
		if ok = ok && i >= 0 && !into.OverflowUint(uint64(i)); ok {
			into.SetUint(uint64(i))
		}
		return "a whole number that is not negative", ok
	case reflect.Float32, reflect.Float64:
		switch n := v.(type) {
		case int64:
			into.SetFloat(float64(n))
			return "", true
		case float64:
			into.SetFloat(n)
			return "", true
		}
		return "a number", false
	default:
		panic(fmt.Sprintf("manifest: no API type has a field of type %s", into.Type()))
	}
}

func (d *decoder) bytes(v any, into reflect.Value) {
	if s, ok := v.(string); ok {
		if b, err := base64.StdEncoding.DecodeString(s); err == nil {
			into.SetBytes(b)
			return
		}
	}
	d.wrong(v, "a string in base64")
}

func (d *decoder) entries(m map[string]any, into reflect.Value) {
	t := into.Type()
	into.Set(reflect.MakeMapWithSize(t, len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e := reflect.New(t.Elem()).Elem()
		d.at(k, func() { d.value(m[k], e) })
		into.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), e)
	}
}

func (d *decoder) fields(m map[string]any, into reflect.Value) {
	known := fieldsOf(into.Type())
	for _, k := range slices.Sorted(maps.Keys(m)) {
		d.at(k, func() {
			f, ok := known[k]
			if !ok {
				d.report("unknown-field", "unknown field; %s", instead(k, known))
				return
			}
			d.value(m[k], into.FieldByIndex(f.Index))
		})
	}
}

// wrong reports a value of the wrong type, and a YAML 1.1 boolean that somebody took for a text.
func (d *decoder) wrong(v any, want string) {
	code, message := mistyped(d.object, d.path, v, want)
	d.report(code, "%s", message)
}

// mistyped says that the value v at path of o should be what want says.
func mistyped(o *Object, path []string, v any, want string) (code, message string) {
	if _, isBool := v.(bool); isBool && want == "a string" && o.text != nil && !o.secret() {
		if word, ok := o.text.plain(o.path, path); ok && word != "true" && word != "false" {
			return "yaml-boolean", fmt.Sprintf("%s without quotes means %v in YAML 1.1; write %q", word, v, word)
		}
	}
	advice := ""
	switch v.(type) {
	case bool, int64, float64:
		if want == "a string" {
			advice = "; put it in quotes"
		}
	}
	return "wrong-type", fmt.Sprintf("%s where %s is wanted%s", o.show(v), want, advice)
}

// show is v in few words for a message. Nothing of a Secret is shown.
func (o *Object) show(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case nil:
		return "null"
	case string:
		if o.secret() {
			return "a string"
		}
		if len(v) > 40 {
			v = strings.ToValidUTF8(v[:37], "") + "..."
		}
		return strconv.Quote(v)
	default:
		if o.secret() {
			return "a value that is no string"
		}
		return fmt.Sprint(v)
	}
}

func (d *decoder) repeats() {
	o := d.object
	if o.text == nil || !o.text.repeated {
		return
	}
	for _, r := range o.text.repeats() {
		if r.within(o) {
			d.findings = append(d.findings, r.finding(o, render.Error))
		}
	}
}

func (r repeat) within(o *Object) bool {
	return len(r.path) > len(o.path) && slices.Equal(r.path[:len(o.path)], o.path)
}

// finding reports the repeated key, which lies within o.
func (r repeat) finding(o *Object, sev render.Severity) render.Finding {
	f := o.Finding(sev, "duplicate-key", r.path[len(o.path):], "the key stands twice, first in line %d; remove one", r.first)
	f.Line = r.line
	return f
}

// fieldTables holds a map from JSON name to field for each struct type seen.
var fieldTables sync.Map

func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	if table, ok := fieldTables.Load(t); ok {
		return table.(map[string]reflect.StructField)
	}
	table := map[string]reflect.StructField{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			for name, inner := range fieldsOf(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				if _, ok := table[name]; !ok {
					table[name] = inner
				}
			}
		default:
			table[cmp.Or(name, f.Name)] = f
		}
	}
	fieldTables.Store(t, table)
	return table
}

// instead tells what to write in place of a field that is not known: the names that are nearest to
// it, the field one level down that has its name, or else all that there are.
func instead(name string, known map[string]reflect.StructField) string {
	names := slices.Sorted(maps.Keys(known))
	for _, parent := range names {
		t := known[parent].Type
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshaler) {
			continue
		}
		if _, ok := fieldsOf(t)[name]; ok {
			return fmt.Sprintf("did you mean %s.%s? Then indent it further", parent, name)
		}
	}
	near := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return distance(name, n) > max(2, len(name)/3) })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	near = slices.DeleteFunc(near, func(n string) bool { return distance(name, n) > distance(name, near[0])+1 })
	switch {
	case len(near) > 0:
		return "did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
	case len(names) == 0:
		return "there are no fields here"
	default:
		return "the fields here are " + strings.Join(names, ", ")
	}
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to get
// from a to b; case does not count.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > 100 {
		return len(a)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := 1
			if a[i] == b[j] {
				replace = 0
			}
			row[j+1] = min(last[j]+replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
