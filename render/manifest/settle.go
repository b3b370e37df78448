package manifest

import (
	"maps"
	"slices"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render"
)

// Settle makes one set of the objects of units, ordered by ID, in which each has the namespace it
// belongs to: defaultNamespace if it is namespaced and names none, and none if its kind has none.
//
// Objects that stand in the source twice, whatever their versions, are in bad under their
// unversioned ID and not in objects: which of them is meant, only their author can say. The
// findings of the units are not repeated.
func Settle(units []Unit, s *Scope, defaultNamespace string) (objects []*Object, bad map[api.ID][]*Object, findings []render.Finding) {
	return new(Cache).Settle(units, s, defaultNamespace)
}

// Settle is the function of that name. Of objects that were there the last time it gives the same
// pointers again, so that what was made of them can be found by them.
func (c *Cache) Settle(units []Unit, s *Scope, defaultNamespace string) (objects []*Object, bad map[api.ID][]*Object, findings []render.Finding) {
	before := c.placed
	c.placed = make(map[*Object]*Object, len(before))
	in := func(o *Object, namespace string) *Object {
		moved := before[o]
		if moved == nil || moved.Namespace != namespace {
			moved = o.in(namespace)
		}
		c.placed[o] = moved
		return moved
	}
	n := 0
	for _, u := range units {
		n += len(u.Objects)
	}
	objects = make([]*Object, 0, n)
	for _, u := range units {
		for _, o := range u.Objects {
			switch namespaced := s.Namespaced(o.ID, o.Namespace != ""); {
			case namespaced && o.Namespace == "":
				o = in(o, defaultNamespace)
			case !namespaced && o.Namespace != "":
				findings = append(findings, o.Finding(render.Warning, "cluster-scoped", []string{"metadata", "namespace"},
					"%s is not in any namespace; %q is left out", o.Kind, o.Namespace))
				o = in(o, "")
			}
			objects = append(objects, o)
		}
	}
	slices.SortStableFunc(objects, func(a, b *Object) int { return a.ID.Unversioned().Compare(b.ID.Unversioned()) })

	unique := objects[:0]
	for len(objects) > 0 {
		id := objects[0].ID.Unversioned()
		same := 1
		for same < len(objects) && objects[same].ID.Unversioned() == id {
			same++
		}
		if same == 1 {
			unique = append(unique, objects[0])
		} else {
			if bad == nil {
				bad = map[api.ID][]*Object{}
			}
			bad[id] = slices.Clone(objects[:same])
			findings = append(findings, twice(bad[id])...)
		}
		objects = objects[same:]
	}
	slices.SortFunc(unique, func(a, b *Object) int { return a.ID.Compare(b.ID) })
	slices.SortFunc(findings, render.Finding.Compare)
	return unique, bad, findings
}

// twice names, at each place where the object stands, another one.
func twice(same []*Object) (findings []render.Finding) {
	for i, o := range same {
		other := same[0]
		if i == 0 {
			other = same[1]
		}
		findings = append(findings, o.Finding(render.Error, "duplicate-object", nil,
			"the same object stands in %s too; neither is used until one is removed", other.Origin))
	}
	return findings
}

// in is a copy of o in another namespace; empty means in none.
func (o *Object) in(namespace string) *Object {
	moved := *o
	moved.Namespace = namespace
	meta, _ := o.Content["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if namespace == "" {
		delete(meta, "namespace")
	} else {
		meta["namespace"] = namespace
	}
	moved.Content = maps.Clone(o.Content)
	moved.Content["metadata"] = meta
	return &moved
}
