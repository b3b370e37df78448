package override

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

// Step is what one entry of a rule did.
type Step struct {
	// Policy is "OverridePolicy default/web".
	Policy string
	// Field is the entry: spec.overrideRules[0].overriders.imageOverrider[1].
	Field string
	// File and Line are where the entry stands.
	File string
	Line int
	// Changed: the object is another one after the step.
	Changed bool
	// Changes are what it changed; none if it changed nothing.
	Changes []Change
	// Why says why nothing was changed, empty if something was.
	Why string
}

// Change is one value of the object that a step changed.
type Change struct {
	// Path is a JSON Pointer.
	Path string
	// Before and After are the values; Added and Removed tell that there is none before or after.
	Before, After  any
	Added, Removed bool
	// Later is the step that changed it again, "OverridePolicy default/web spec....", empty if none did.
	Later string

	path pointer
}

// Skipped is a rule that does not apply to the cluster.
type Skipped struct {
	Policy string
	// Field is the rule: spec.overrideRules[0].
	Field string
	File  string
	Line  int
	Why   string
}

// NearMiss is a policy that comes close to selecting an object and does not.
type NearMiss struct {
	Policy string
	File   string
	Line   int
	Why    string
}

// failed is what is known of a rendering that failed.
func (r *run) failed() Result { return Result{Steps: r.steps, Skipped: r.skipped} }

// explainStep remembers what a step makes of r.object; next is nil if it makes nothing of it.
func (r *run) explainStep(p *compiled, s *step, next api.Object) {
	done := Step{Policy: p.source.ID.String(), Field: manifest.Dotted(s.at), File: p.source.Origin.File, Line: p.source.Line(s.at...)}
	if next != nil {
		done.Changes = compare(nil, r.object, next, nil)
	}
	if done.Changed = len(done.Changes) > 0; !done.Changed {
		done.Why = idle(r.object, s)
	}
	r.steps = append(r.steps, done)
}

// skip remembers a rule for other clusters.
func (r *run) skip(p *compiled, rule *rule) {
	at := rule.at[:len(rule.at)-1]
	target := at.At("targetCluster")
	r.skipped = append(r.skipped, Skipped{
		Policy: p.source.ID.String(), Field: manifest.Dotted(target), File: p.source.Origin.File, Line: p.source.Line(target...),
		Why: rule.target.Refusal(r.cluster),
	})
}

// settleSteps tells which changes did not last, and whose fault that is.
func settleSteps(steps []Step, final api.Object) {
	for i := range steps {
		for j := range steps[i].Changes {
			c := &steps[i].Changes[j]
			now, err := c.path.lookup(final)
			if there := err == nil; there == !c.Removed && (c.Removed || reflect.DeepEqual(now, c.After)) {
				continue
			}
			for _, later := range steps[i+1:] {
				if slices.ContainsFunc(later.Changes, func(o Change) bool { return overlap(c.path, o.path) }) {
					c.Later = later.Policy + " " + later.Field
				}
			}
		}
	}
}

// overlap tells whether one path leads to or through the other.
func overlap(a, b pointer) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// compare appends the differences between a and b, in the order of their paths.
func compare(at pointer, a, b any, list []Change) []Change {
	below := func(key string) pointer { return append(slices.Clip(at), key) }
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Collect(maps.Keys(x))
		for key := range y {
			if _, both := x[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			before, had := x[key]
			after, has := y[key]
			if had && has {
				list = compare(below(key), before, after, list)
			} else {
				list = append(list, Change{Path: below(key).String(), Before: before, After: after, Added: !had, Removed: !has, path: below(key)})
			}
		}
		return list
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		return compareLists(at, x, y, list)
	}
	if !reflect.DeepEqual(a, b) {
		list = append(list, Change{Path: cmp.Or(at.String(), "/"), Before: a, After: b, path: at})
	}
	return list
}

// compareLists leaves out what is the same at the beginning and at the end; an item that is inserted
// is one change.
func compareLists(at pointer, x, y []any, list []Change) []Change {
	first := 0
	for first < min(len(x), len(y)) && reflect.DeepEqual(x[first], y[first]) {
		first++
	}
	last := 0
	for last < min(len(x), len(y))-first && reflect.DeepEqual(x[len(x)-1-last], y[len(y)-1-last]) {
		last++
	}
	for i := first; i < max(len(x), len(y))-last; i++ {
		item := append(slices.Clip(at), strconv.Itoa(i))
		switch {
		case i >= len(x)-last:
			list = append(list, Change{Path: item.String(), After: y[i], Added: true, path: item})
		case i >= len(y)-last:
			list = append(list, Change{Path: item.String(), Before: x[i], Removed: true, path: item})
		default:
			list = compare(item, x[i], y[i], list)
		}
	}
	return list
}

// same is why an entry changes nothing that finds what it looks for.
const same = "the object has that value already"

// idle says why an entry changed nothing of o.
func idle(o api.Object, s *step) string {
	switch e := s.entry.(type) {
	case *policyv1alpha1.ImageOverrider:
		if e.Predicate == nil && len(containers(o)) == 0 {
			return noContainers(o)
		}
	case *policyv1alpha1.CommandArgsOverrider:
		names := containers(o)
		switch {
		case len(names) == 0:
			return noContainers(o)
		case !slices.Contains(names, e.ContainerName):
			return fmt.Sprintf("there is no container %s; there is %s", e.ContainerName, strings.Join(names, ", "))
		}
	case *policyv1alpha1.LabelAnnotationOverrider:
		meta, _ := o["metadata"].(map[string]any)
		field := strings.TrimSuffix(s.at[len(s.at)-2], "Overrider")
		there, _ := meta[field].(map[string]any)
		missing := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Value)), func(key string) bool { _, ok := there[key]; return ok })
		if len(missing) > 0 {
			return fmt.Sprintf("metadata.%s has no %s to %s", field, strings.Join(missing, ", "), e.Operator)
		}
	}
	return same
}

func noContainers(o api.Object) string {
	kind, _ := o["kind"].(string)
	return fmt.Sprintf("a %s has no containers where they are looked for; use plaintext or an imageOverrider with a predicate", cmp.Or(kind, "nameless kind"))
}

// containers are the names of the regular containers.
func containers(o api.Object) (names []string) {
	kind, _ := o["kind"].(string)
	path := podSpecs[kind]
	if path == nil {
		return nil
	}
	v, err := pointer(append(slices.Clip(path), "containers")).lookup(o)
	if err != nil {
		return nil
	}
	list, _ := v.([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		name, _ := c["name"].(string)
		names = append(names, name)
	}
	return names
}

// Nearest returns at most n policies that do not select the object, as if by a slip.
func (s *Set) Nearest(id api.ID, labels map[string]string, n int) []NearMiss {
	t := policy.Template{ID: id, Labels: labels}
	var near []NearMiss
	for _, p := range slices.Concat(s.cluster.policies, s.namespaced.policies) {
		m := policy.Compare(p.source.Namespace, p.selectors, t)
		if !m.Slip() {
			continue
		}
		at := policy.Path{"spec", "resourceSelectors"}
		if m.Selector >= 0 {
			at = at.At(m.Selector)
		}
		near = append(near, NearMiss{p.source.ID.String(), p.source.Origin.File, p.source.Line(at...), m.String()})
	}
	return near[:min(n, len(near))]
}
