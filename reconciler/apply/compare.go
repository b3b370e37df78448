package apply

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
)

// A Difference is one field in which a live object is not as we want it.
type Difference struct {
	Field Field
	Kind  Kind
	// Live is what is there, as JSON; empty means nothing is.
	Live string
	// Holders are the other managers that own the field.
	Holders []Holder
}

// Kind says what is different.
type Kind string

const (
	// Changed: the value is another, or is missing.
	Changed Kind = "changed"
	// Unowned: the value is right, but nobody notes that it is ours.
	Unowned Kind = "unowned"
	// Extra: we own a field that is not wanted any more.
	Extra Kind = "extra"
)

// key tells differences apart across looks at one object.
func (d Difference) key() string {
	return string(d.Kind) + " " + strings.Join(d.Field, "\x00") + " " + d.Live
}

// Compare finds in what live is not as desired: a wanted value that is different or missing, a wanted field
// that we do not own, an owned field that is not wanted. What the server and others put beside
// the wanted fields is no difference. The result is sorted by field.
func Compare(desired, live api.Object) []Difference {
	ours, others := claims(live)
	c := comparison{others: others, path: make(Field, 0, 16)}
	for name, want := range desired {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			c.meta(want, live[name], ours.at("f:metadata"))
		default:
			have, present := live[name]
			c.down("f:"+name, want, have, present, ours)
		}
	}
	c.extra(desired, ours)
	slices.SortFunc(c.found, func(a, b Difference) int { return slices.Compare(a.Field, b.Field) })
	return c.found
}

// metaFields are the parts of metadata that an apply may own.
var metaFields = []string{"labels", "annotations", "finalizers", "ownerReferences"}

type comparison struct {
	others []holding
	path   Field
	found  []Difference
}

func (c *comparison) meta(want, have any, ours claim) {
	wanted, _ := want.(map[string]any)
	there, _ := have.(map[string]any)
	c.path = append(c.path, "f:metadata")
	for _, name := range metaFields {
		if v, ok := wanted[name]; ok {
			live, present := there[name]
			c.down("f:"+name, v, live, present, ours)
		}
	}
	c.path = c.path[:len(c.path)-1]
}

func (c *comparison) down(element string, want, have any, present bool, ours claim) {
	c.path = append(c.path, element)
	c.value(want, have, present, ours.at(element))
	c.path = c.path[:len(c.path)-1]
}

// value compares what is wanted with what is there, at c.path, of which we own what ours says.
func (c *comparison) value(want, have any, present bool, ours claim) {
	switch want := want.(type) {
	case nil: // null asks for nothing
	case map[string]any:
		m, ok := have.(map[string]any)
		switch {
		case !ok && len(want) == 0 && !present: // the server drops empty maps
		case !ok || ours.whole && !covers(c.name(1), c.name(0), want, have):
			c.differ(Changed, have, present)
		case !ours.whole:
			for name, v := range want {
				live, present := m[name]
				c.down("f:"+name, v, live, present, ours)
			}
		}
	case []any:
		list, ok := have.([]any)
		switch {
		case len(want) == 0 && len(list) == 0:
		case !ok || len(want) == 0 && !ours.here:
			c.differ(Changed, have, present)
		case ours.whole:
			if !covers(c.name(1), c.name(0), want, list) {
				c.differ(Changed, have, present)
			}
		default:
			c.list(want, list, ours)
		}
	default:
		switch {
		case !present && ours.here && empty(want): // ours, and the server does not write it out
		case !present || !same(c.name(1), c.name(0), want, have):
			c.differ(Changed, have, present)
		case !ours.here:
			c.differ(Unowned, have, present)
		}
	}
}

// list compares a list that we do not own as a whole. Whether its items have keys, are a set, or make
// one value together is known from how managers own them.
func (c *comparison) list(want, have []any, ours claim) {
	elements := slices.Collect(maps.Keys(ours.parts))
	for _, other := range c.others {
		elements = append(elements, slices.Collect(maps.Keys(other.under(c.path).parts))...)
	}
	slices.Sort(elements)
	var names []string // of a key's fields
	items := map[int]string{}
	set := false
	for _, element := range elements {
		switch {
		case strings.HasPrefix(element, "v:"):
			set = true
		case strings.HasPrefix(element, "k:"):
			key, err := parseKey(element)
			if err != nil {
				continue
			}
			names = slices.Sorted(maps.Keys(key))
			if i := owner(key, want); i >= 0 {
				items[i] = element
			}
		}
	}
	switch {
	case names != nil:
		for i, item := range want {
			element, ok := items[i]
			if !ok {
				element = keyOf(item, names)
			}
			live, present := child(have, element)
			c.down(element, item, live, present, ours)
		}
	case set:
		for _, item := range want {
			element := "v:" + compact(item)
			live, present := child(have, element)
			c.down(element, item, live, present, ours)
		}
	case !covers(c.name(1), c.name(0), want, have):
		c.differ(Changed, have, true)
	case !ours.here:
		c.differ(Unowned, have, true)
	}
}

func keyOf(item any, names []string) string {
	m, _ := item.(map[string]any)
	key := map[string]any{}
	for _, name := range names {
		if v, ok := m[name]; ok {
			key[name] = v
		}
	}
	return "k:" + compact(key)
}

// extra finds what we own below c.path and want does not have.
func (c *comparison) extra(want any, ours claim) {
	for element, parts := range ours.parts {
		if element == "." || strings.HasPrefix(element, "i:") {
			continue
		}
		v, ok := child(want, element)
		c.path = append(c.path, element)
		if !ok {
			c.differ(Extra, nil, false)
		} else if below, _ := parts.(map[string]any); len(below) > 0 {
			c.extra(v, claim{parts: below})
		}
		c.path = c.path[:len(c.path)-1]
	}
}

func (c *comparison) differ(kind Kind, have any, present bool) {
	d := Difference{Field: slices.Clone(c.path), Kind: kind}
	if present {
		d.Live = compact(have)
	}
	for _, other := range c.others {
		if at := other.under(c.path); !other.helper() && (at.here || at.parts != nil) {
			d.Holders = append(d.Holders, other.Holder)
		}
	}
	c.found = append(c.found, d)
}

// name is the name of the field that is n elements up, empty where that is no field of a map.
func (c *comparison) name(n int) string {
	if n >= len(c.path) {
		return ""
	}
	name, ok := strings.CutPrefix(c.path[len(c.path)-1-n], "f:")
	if !ok {
		return ""
	}
	return name
}

// covers tells whether have holds all of want: maps may have more fields, lists are as long. The names
// are those of the field and of the one above.
func covers(above, name string, want, have any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		m, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		for k, v := range want {
			if !covers(name, k, v, m[k]) {
				return false
			}
		}
		return true
	case []any:
		list, ok := have.([]any)
		if !ok {
			return len(want) == 0 && have == nil
		}
		return slices.EqualFunc(want, list, func(a, b any) bool { return covers(name, "", a, b) })
	}
	return have == nil && empty(want) || same(above, name, want, have)
}

// empty tells whether a value is one that servers leave out.
func empty(want any) bool {
	return want == "" || want == false || want == int64(0) || want == float64(0)
}

// Fields that hold quantities, which the server writes its own way ("1000m" becomes "1").
var (
	quantityMaps   = []string{"limits", "requests", "capacity", "hard", "overhead"}
	quantityFields = []string{"sizeLimit", "divisor", "averageValue"}
)

func same(above, name string, want, have any) bool {
	if sameScalar(want, have) {
		return true
	}
	if !slices.Contains(quantityMaps, above) && !slices.Contains(quantityFields, name) {
		return false
	}
	textA, textB := strings.Trim(compact(want), `"`), strings.Trim(compact(have), `"`)
	if !canonical.Sensible(textA) || !canonical.Sensible(textB) {
		return false
	}
	a, errA := resource.ParseQuantity(textA)
	b, errB := resource.ParseQuantity(textB)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}
