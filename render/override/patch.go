package override

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// pointer is a JSON Pointer (RFC 6901); nil points at the whole document.
type pointer []string

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// parsePointer is lenient in one thing: a ~ that begins no escape stands for itself.
func parsePointer(s string) (pointer, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%q is no JSON Pointer; begin it with /", s)
	}
	p := pointer(strings.Split(s[1:], "/"))
	for i := range p {
		p[i] = unescape.Replace(p[i])
	}
	return p, nil
}

func (p pointer) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteByte('/')
		b.WriteString(escape.Replace(step))
	}
	return b.String()
}

// operation is one step of a JSON Patch (RFC 6902). Add and replace share value with the result.
type operation struct {
	op    policyv1alpha1.OverriderOperator
	path  pointer
	value any
}

func (o operation) String() string { return string(o.op) + " " + cmp.Or(o.path.String(), `""`) }

// apply returns doc with the operation done. doc itself stays as it is.
//
// The document may be made of JSON-shaped values, of members and of json.RawMessage, which is
// looked into only as far as the path leads.
func (o operation) apply(doc any) (any, error) {
	if len(o.path) == 0 {
		if o.op == policyv1alpha1.OverriderOpRemove {
			return nil, errors.New("the whole document cannot be removed")
		}
		return o.value, nil
	}
	return o.edit(doc, 0)
}

// edit changes doc, which stands where the first depth steps of the path lead.
func (o operation) edit(doc any, depth int) (any, error) {
	key, last := o.path[depth], depth == len(o.path)-1
	add, remove := o.op == policyv1alpha1.OverriderOpAdd, o.op == policyv1alpha1.OverriderOpRemove
	container, err := open(doc)
	if err != nil {
		return nil, err
	}
	switch c := container.(type) {
	case map[string]any:
		child, ok := c[key]
		switch {
		case last && add:
		case !ok:
			return nil, o.missing(depth)
		case last && remove:
			c = maps.Clone(c)
			delete(c, key)
			return c, nil
		}
		if child, err = o.child(child, depth); err != nil {
			return nil, err
		}
		c = maps.Clone(c)
		if c == nil {
			c = map[string]any{}
		}
		c[key] = child
		return c, nil

	case members:
		i := slices.IndexFunc(c, func(m member) bool { return m.key == key })
		switch {
		case i < 0 && last && add:
			return append(slices.Clip(c), member{key, o.value}), nil
		case i < 0:
			return nil, o.missing(depth)
		case last && remove:
			return slices.Delete(slices.Clone(c), i, i+1), nil
		}
		child, err := o.child(c[i].value, depth)
		if err != nil {
			return nil, err
		}
		c = slices.Clone(c)
		c[i].value = child
		return c, nil

	case []any:
		i, err := position(key, len(c), last && add)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.path[:depth+1], err)
		}
		switch {
		case last && add:
			return slices.Insert(slices.Clip(c), i, o.value), nil
		case last && remove:
			return slices.Delete(slices.Clone(c), i, i+1), nil
		}
		child, err := o.child(c[i], depth)
		if err != nil {
			return nil, err
		}
		c = slices.Clone(c)
		c[i] = child
		return c, nil
	}
	if depth == 0 {
		return nil, errors.New("the document is neither an object nor a list")
	}
	return nil, fmt.Errorf("%s is neither an object nor a list", o.path[:depth])
}

// child is what takes the place of the value that the first depth+1 steps lead to.
func (o operation) child(old any, depth int) (any, error) {
	if depth == len(o.path)-1 {
		return o.value, nil
	}
	return o.edit(old, depth+1)
}

func (o operation) missing(depth int) error {
	return fmt.Errorf("there is no %s", o.path[:depth+1])
}

// position reads the position in a list of n. Negative ones count from the end; an insertion may
// also be at the end, which - stands for.
func position(key string, n int, insert bool) (int, error) {
	if insert {
		if key == "-" {
			return n, nil
		}
		n++
	}
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, fmt.Errorf("%q is no position in a list", key)
	}
	if i < -n || i >= n {
		return 0, fmt.Errorf("the list has no position %d", i)
	}
	if i < 0 {
		i += n
	}
	return i, nil
}

// members is a JSON object that keeps the order of its keys.
type members []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in their order.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, member := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(member.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(member.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// open looks one level into a JSON text; other values are as they are.
func open(v any) (any, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return v, nil
	}
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return nil, errors.New("the JSON text is empty")
	}
	switch raw[0] {
	case '[':
		var texts []json.RawMessage
		if err := json.Unmarshal(raw, &texts); err != nil {
			return nil, err
		}
		list := make([]any, len(texts))
		for i, text := range texts {
			list[i] = text
		}
		return list, nil
	case '{':
		return openObject(raw)
	}
	return raw, nil
}

// openObject reads the members in their order. Of a key that stands twice the last value counts.
func openObject(raw json.RawMessage) (members, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	m := members{}
	at := map[string]int{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if i, ok := at[key]; ok {
			m[i].value = value
			continue
		}
		at[key] = len(m)
		m = append(m, member{key, value})
	}
	return m, nil
}
