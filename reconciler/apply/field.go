package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
)

// A Field is the way to one field, in the elements of managedFields: "f:name" into a map,
// `k:{"name":"web"}` to an item of a list that has keys, "v:value" to an item of a set.
type Field []string

// String is how people write it: .spec.containers[name="web"].image
func (f Field) String() string {
	var b strings.Builder
	for _, element := range f {
		kind, text, _ := strings.Cut(element, ":")
		switch kind {
		case "f":
			if strings.ContainsAny(text, "./") {
				fmt.Fprintf(&b, "[%q]", text)
			} else {
				b.WriteString("." + text)
			}
		case "k":
			key, _ := parseKey(element)
			var pairs []string
			for _, name := range slices.Sorted(maps.Keys(key)) {
				pairs = append(pairs, name+"="+compact(key[name]))
			}
			b.WriteString("[" + strings.Join(pairs, ",") + "]")
		default:
			b.WriteString("[" + text + "]")
		}
	}
	return b.String()
}

// in tells whether o has the field.
func (f Field) in(o api.Object) bool {
	_, ok := f.of(o)
	return ok
}

// of is the field's value in o.
func (f Field) of(o api.Object) (v any, ok bool) {
	v = o
	for _, element := range f {
		if v, ok = child(v, element); !ok {
			return nil, false
		}
	}
	return v, true
}

// child goes one element down.
func child(at any, element string) (any, bool) {
	kind, text, _ := strings.Cut(element, ":")
	switch kind {
	case "f":
		m, _ := at.(map[string]any)
		v, ok := m[text]
		return v, ok
	case "k":
		list, _ := at.([]any)
		key, err := parseKey(element)
		if err != nil {
			return nil, false
		}
		if i := owner(key, list); i >= 0 {
			return list[i], true
		}
	case "v":
		list, _ := at.([]any)
		for _, item := range list {
			if compact(item) == text {
				return item, true
			}
		}
	}
	return nil, false
}

// parseKey reads an element that begins with "k:".
func parseKey(element string) (map[string]any, error) {
	var key map[string]any
	err := json.Unmarshal([]byte(strings.TrimPrefix(element, "k:")), &key)
	return key, err
}

// owner finds the item that a key means: the one that has all of it, else the first that contradicts
// none of it, because the server fills in key fields that a manifest leaves out.
func owner(key map[string]any, items []any) int {
	loose := -1
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		missing, agrees := 0, true
		for name, want := range key {
			have, ok := m[name]
			if !ok && name == "protocol" { // of ports, the one key of Kubernetes' own kinds that has a default
				have, ok = "TCP", true
			}
			switch {
			case !ok:
				missing++
			case !sameScalar(want, have):
				agrees = false
			}
		}
		switch {
		case !agrees || missing == len(key):
		case missing == 0:
			return i
		case loose < 0:
			loose = i
		}
	}
	return loose
}

func sameScalar(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a.(type) {
	case string, bool, nil:
		return a == b
	}
	return false
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// A claim is what one manager owns at one place of an object.
type claim struct {
	parts map[string]any // owned parts below, by element
	here  bool           // the place itself is owned
	whole bool           // with everything below
}

// at goes one element down.
func (c claim) at(element string) claim {
	if c.whole {
		return c
	}
	parts, ok := c.parts[element].(map[string]any)
	if !ok {
		return claim{}
	}
	if len(parts) == 0 {
		return claim{here: true, whole: true}
	}
	_, here := parts["."]
	return claim{parts: parts, here: here}
}

func (c claim) under(f Field) claim {
	for _, element := range f {
		c = c.at(element)
	}
	return c
}

// A Holder is a field manager as managedFields names it.
type Holder struct {
	Manager string
	// Applies: it declares what it wants by server-side apply, and does not just write.
	Applies bool
}

// deliveries are managers that put back what they want, whichever way they write.
var deliveries = []string{"argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller"}

// declares tells whether the manager says what it wants again and again, where others change something once.
func (h Holder) declares() bool { return h.Applies || slices.Contains(deliveries, h.Manager) }

type holding struct {
	Holder
	claim
}

// helper tells whether it only holds what we let go of, so that taking it back is nobody's loss.
func (h holding) helper() bool { return h.Manager == handover }

// claims reads who owns what of a live object: we, and the others. The managers of subresources count
// as well, as autoscalers write through one.
func claims(live api.Object) (ours claim, others []holding) {
	meta, _ := live["metadata"].(map[string]any)
	entries, _ := meta["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		name, _ := entry["manager"].(string)
		applies := entry["operation"] == "Apply"
		switch {
		case name == Manager && applies:
			ours = claim{parts: fields}
		case name == Manager:
		default:
			others = append(others, holding{Holder{name, applies}, claim{parts: fields}})
		}
	}
	return ours, others
}
