package member

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/render/work"
)

// watching is the watch of one kind on one member. Its fields are guarded by member.mu.
type watching struct {
	*member
	kind   schema.GroupVersionResource
	cancel context.CancelFunc
	// known: the first list is there, or it is certain that it does not come soon.
	known bool
}

// beginWatches follows the kinds that copies are of, and no others. m.mu is held.
func (m *member) beginWatches() {
	used := map[schema.GroupVersionResource]bool{}
	for id, c := range m.copies {
		r, err := m.who.catalog.Find(c.versioned(id))
		if err != nil {
			continue
		}
		c.at = r.GroupVersionResource
		used[c.at] = true
		m.watch(c.at)
	}
	for kind, w := range m.watches {
		if !used[kind] {
			w.cancel()
			delete(m.watches, kind)
		}
	}
}

func (m *member) endWatches() {
	for kind, w := range m.watches {
		w.cancel()
		delete(m.watches, kind)
	}
}

// watch follows a kind. m.mu is held.
func (m *member) watch(kind schema.GroupVersionResource) *watching {
	if w := m.watches[kind]; w != nil {
		return w
	}
	ctx, cancel := context.WithCancel(m.ctx)
	w := &watching{member: m, kind: kind, cancel: cancel}
	m.watches[kind] = w
	watch := &observe.Watch{
		Client:   m.link.watches.Resource(kind),
		Selector: work.LabelManaged + "=true",
		Timeout:  m.options.RequestTimeout,
		RetryMin: m.options.RetryMin,
		RetryMax: 30 * time.Second,
		Clock:    m.options.Clock,
	}
	m.following.Go(func() { watch.Run(ctx, w) })
	return w
}

// follows makes sure that the object's kind is followed; false means that its first list is still to
// come, and the object waits for it, as the list may show that nothing has to be done.
func (m *member) follows(id api.ID, r observe.Resource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[id]
	if c == nil || m.gate.closed {
		return false
	}
	c.at = r.GroupVersionResource
	c.parked = !m.watch(c.at).known
	return !c.parked && !c.settled()
}

// mine gives the copy of an object that this watch is to tell of. w.mu is held.
func (w *watching) mine(id api.ID) *object {
	if w.watches[w.kind] != w {
		return nil
	}
	if c := w.copies[id]; c != nil && c.at == w.kind {
		return c
	}
	return nil
}

// Seen implements observe.Sink.
func (w *watching) Seen(o api.Object) {
	id := api.IDOf(o).Unversioned()
	w.mu.Lock()
	c := w.mine(id)
	if c == nil || newer(c.facts.Live, o) {
		w.mu.Unlock()
		return
	}
	began := *c
	w.mu.Unlock()
	clean, known, readOnly := false, began.known, w.readOnly.Load()
	var out apply.Outcome
	switch { // compared outside of the lock, it is most of the work
	case began.work == nil:
	case readOnly:
		out = apply.Delivered(*began.work, o, w.options.Fleet)
		clean = out.Reason == ""
	default:
		known, clean = apply.Check(*began.work, o, began.known, w.options.Fleet)
	}
	live := apply.Observed(o)

	w.mu.Lock()
	defer w.mu.Unlock()
	if c = w.mine(id); c == nil || newer(c.facts.Live, o) {
		return
	}
	before, now := c.facts, w.options.Clock.Now()
	c.facts.Live = live
	switch {
	case c.work == nil || !c.stands(began) || readOnly != w.readOnly.Load():
	case clean && c.known == began.known:
		c.clean, c.tried, c.waiting, c.failures, c.known = true, true, false, 0, known
		c.facts.Applied, c.facts.Reason, c.facts.Message = c.work.Hash, "", ""
	case readOnly: // it says itself what is missing, and whatever changes is seen
		c.clean, c.tried, c.waiting = false, true, false
		c.facts.Reason, c.facts.Message = out.Reason, out.Message
	case !clean:
		w.drifted(id, c, now)
	}
	if apply.Established(live) && !apply.Established(before.Live) {
		w.established(now)
	}
	w.told(before, c.facts)
	w.stirred()
}

// Lost implements observe.Sink.
func (w *watching) Lost(o api.Object) {
	id := api.IDOf(o).Unversioned()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.mine(id)
	if c == nil || c.facts.Live != nil && metaText(c.facts.Live, "uid") != metaText(o, "uid") {
		return
	}
	w.lost(id, c)
	w.stirred()
}

// Listed implements observe.Sink.
func (w *watching) Listed(seen map[api.ID]bool, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.copies {
		if c := w.mine(id); c != nil && !seen[id] && c.facts.Live != nil && !later(metaText(c.facts.Live, "resourceVersion"), version) {
			w.lost(id, c)
		}
	}
	w.unpark()
}

// Broken implements observe.Sink.
func (w *watching) Broken(err error) {
	if w.kind.Group == "" && w.kind.Resource == "secrets" {
		err = apply.Discreet(api.ID{Version: "v1", Kind: "Secret"}, err)
	}
	w.log.Debug("watch", "kind", w.kind.String(), "error", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unpark()
}

func (w *watching) unpark() {
	w.known = true
	now := w.options.Clock.Now()
	for id := range w.copies {
		if c := w.mine(id); c != nil && c.parked {
			c.parked = false
			w.enqueue(id, c, now)
		}
	}
	w.stirred()
}

func (w *watching) lost(id api.ID, c *object) {
	before, now := c.facts, w.options.Clock.Now()
	c.facts.Live = nil
	switch {
	case c.work == nil:
		w.enqueue(id, c, now)
	default:
		w.drifted(id, c, now)
	}
	w.told(before, c.facts)
}

// drifted looks at an object that is not as wanted. One that failed keeps its own pace.
func (w *watching) drifted(id api.ID, c *object, now time.Time) {
	if c.work.Suspended || c.failures > 0 && !c.waiting {
		return
	}
	c.stirs++
	if c.clean {
		c.clean, c.tried = false, false
	}
	w.enqueue(id, c, c.driftDue(now))
}

// established looks for kinds anew, as a CustomResourceDefinition began to be served.
func (w *watching) established(now time.Time) {
	w.who.at = time.Time{}
	for id, c := range w.copies {
		if c.facts.Reason == decide.ReasonNoKind {
			w.enqueue(id, c, now)
		}
	}
}
