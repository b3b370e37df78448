package membertest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// history is how many events a collection keeps for watches that start late.
const history = 16384

// key is an object's place in its collection.
type key struct{ namespace, name string }

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.namespace, o.namespace), cmp.Compare(k.name, o.name))
}

// object is one version of one object. Nothing in it changes once it is stored.
type object struct {
	*unstructured.Unstructured
	key
	version uint64 // its resourceVersion
	wire    []byte // as JSON, in the version it is stored in
}

func newStored(content map[string]any, version uint64) (*object, error) {
	u := &unstructured.Unstructured{Object: content}
	u.SetResourceVersion(strconv.FormatUint(version, 10))
	wire, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return &object{Unstructured: u, key: key{u.GetNamespace(), u.GetName()}, version: version, wire: wire}, nil
}

// encode returns the object as JSON in version gv.
func (o *object) encode(gv schema.GroupVersion) []byte {
	if o.GetAPIVersion() == gv.String() {
		return o.wire
	}
	b, err := json.Marshal(withVersion(o.Object, gv))
	if err != nil {
		panic(err) // it was encoded before
	}
	return b
}

// event is one step of a collection's history.
type event struct {
	kind             watch.EventType
	object, previous *object // previous is nil for one added
}

// collection holds the objects of one kind and its latest history.
type collection struct {
	resource *resource // in the version objects are kept in
	objects  map[key]*object
	events   []event       // oldest first
	floor    uint64        // the version up to which events are forgotten
	changed  chan struct{} // closed by the next event
	ended    bool          // the kind is no longer served
}

func newCollection(r *resource) *collection {
	return &collection{resource: r, objects: make(map[key]*object), changed: make(chan struct{})}
}

// sorted returns the objects in a namespace, or in all, by namespace and name.
func (c *collection) sorted(namespace string) []*object {
	all := make([]*object, 0, len(c.objects))
	for k, o := range c.objects {
		if namespace == "" || k.namespace == namespace {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *object) int { return a.key.compare(b.key) })
	return all
}

// after returns the events younger than version; ok is false when some of them are forgotten.
func (c *collection) after(version uint64) (events []event, ok bool) {
	i, found := slices.BinarySearchFunc(c.events, version, func(e event, v uint64) int { return cmp.Compare(e.object.version, v) })
	if found {
		i++
	}
	return c.events[i:], version >= c.floor
}

// end ends the watches: the kind is gone.
func (c *collection) end() {
	c.ended = true
	close(c.changed)
}

func (c *collection) record(e event) {
	if len(c.events) >= 2*history { // amortized: each event moves at most once
		c.floor = c.events[history-1].object.version
		c.events = slices.Clone(c.events[history:])
	}
	c.events = append(c.events, e)
	close(c.changed)
	c.changed = make(chan struct{})
}

// ref names a stored object.
type ref struct {
	objects *collection
	key
}

// change is one step for the controllers to look at.
type change struct {
	objects       *collection
	before, after *object // after is nil when the object is gone
}

// put stores content as the next version of the object, and has the controllers look at it.
// content belongs to the store from here on. The caller holds s.mu.
func (s *Server) put(c *collection, before *object, content map[string]any) (*object, error) {
	after, err := newStored(withVersion(content, c.resource.GroupVersion()), s.version+1)
	if err != nil {
		return nil, err
	}
	s.version++
	kind := watch.Modified
	if before == nil {
		kind = watch.Added
	}
	c.objects[after.key] = after
	c.record(event{kind, after, before})
	s.own(c, before, after)
	s.changes = append(s.changes, change{c, before, after})
	return after, nil
}

// remove takes the object out. The caller holds s.mu.
func (s *Server) remove(c *collection, before *object) (*object, error) {
	last, err := newStored(before.DeepCopy().Object, s.version+1)
	if err != nil {
		return nil, err
	}
	s.version++
	delete(c.objects, before.key)
	c.record(event{watch.Deleted, last, before})
	s.own(c, before, nil)
	s.changes = append(s.changes, change{c, before, nil})
	return last, nil
}

// own keeps the indexes: what exists, what owns it, how much of it is in each namespace.
func (s *Server) own(c *collection, before, after *object) {
	if before != nil {
		for _, o := range before.GetOwnerReferences() {
			delete(s.owned[o.UID], ref{c, before.key})
		}
	}
	if after != nil {
		for _, o := range after.GetOwnerReferences() {
			if s.owned[o.UID] == nil {
				s.owned[o.UID] = make(map[ref]struct{})
			}
			s.owned[o.UID][ref{c, after.key}] = struct{}{}
		}
		if before == nil {
			s.uids[after.GetUID()] = ref{c, after.key}
			s.inNamespace[after.namespace]++
		}
		return
	}
	delete(s.uids, before.GetUID())
	s.inNamespace[before.namespace]--
}

// dependents returns what names uid as an owner, in order.
func (s *Server) dependents(uid types.UID) []ref {
	var all []ref
	for d := range s.owned[uid] {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b ref) int {
		return cmp.Or(cmp.Compare(a.objects.resource.groupResource().String(), b.objects.resource.groupResource().String()), a.key.compare(b.key))
	})
	return all
}
