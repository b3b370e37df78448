package member

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/render/project"
	"github.com/godwit-gitops/godwit/render/work"
)

// An object is a copy of a template on one member. Guarded by member.mu.
type object struct {
	work    *Work    // what to apply; nil: to be deleted
	retired *Retired // what to delete; nil: to be applied
	facts   decide.CopyFacts
	known   *apply.Known
	at      schema.GroupVersionResource // where it was looked for last

	clean    bool // the live object was seen to be as the work says
	tried    bool // an attempt ended since it was set
	waiting  bool // what was begun goes on by itself
	parked   bool // waits for the first list of its kind
	failures int  // in a row
	stirs    int  // times that something was seen which has to be looked at

	putBack   int // times that drift was undone, the first of them not long ago
	putBackAt time.Time
}

func (c *object) settled() bool {
	if c.work != nil {
		return c.clean
	}
	return c.facts.Gone
}

// account is the service account to write as; empty means ourselves.
func (c *object) account() string {
	if c.work != nil {
		return work.AccountOf(c.work.Object)
	}
	return c.retired.Account
}

func (c *object) stage(id api.ID) apply.Stage { return apply.StageOf(id, c.work == nil) }

// versioned is the identity with the version in which the object is wanted.
func (c *object) versioned(id api.ID) api.ID {
	if c.work != nil {
		return c.work.ID
	}
	return c.retired.ID
}

// asks tells whether w is the order that stands.
func (c *object) asks(w *Work) bool {
	return c.work != nil && w.ID == c.work.ID && w.Hash == c.work.Hash &&
		w.Overwrite == c.work.Overwrite && w.Suspended == c.work.Suspended && w.Retain == c.work.Retain && w.Rules == c.work.Rules
}

// retires tells whether r is the order that stands.
func (c *object) retires(r *Retired) bool { return c.retired != nil && *r == *c.retired }

// stands tells whether the order that was begun still is the one.
func (c *object) stands(began object) bool {
	if began.work != nil {
		return c.asks(began.work)
	}
	return c.retires(began.retired)
}

// order takes a new order for an object. m.mu is held.
func (m *member) order(id api.ID, w *Work, r *Retired, now time.Time) {
	c := m.copies[id]
	if c == nil {
		c = &object{}
		m.copies[id] = c
	}
	c.work, c.retired, c.facts.Gone = w, r, false
	c.clean, c.tried, c.waiting, c.failures = false, false, false, 0
	m.queue.remove(id)
	m.enqueue(id, c, now)
	m.touch(false)
}

// enqueue asks for a look at a copy. m.mu is held.
func (m *member) enqueue(id api.ID, c *object, at time.Time) {
	m.queue.add(id, c.stage(id), at)
	m.wasIdle = false
}

// task looks at one object and makes it be as it should.
func (m *member) task(id api.ID) {
	began, l, ok := m.begin(id)
	var out apply.Outcome
	if ok {
		out, ok = m.attempt(id, began, l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue.done(id)
	switch c := m.copies[id]; {
	case !ok || c == nil:
	case m.link != l: // it may be of another cluster
		m.enqueue(id, c, m.options.Clock.Now())
	default:
		m.take(id, c, began, out)
	}
	m.stirred()
}

// begin gives the order for an object as it stands; false means that there is nothing to do.
func (m *member) begin(id api.ID) (object, *link, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[id]
	if c == nil || m.gate.closed {
		return object{}, nil, false
	}
	if !c.putBackAt.IsZero() && c.facts.Reason == "" && m.options.Clock.Since(c.putBackAt) > calmDown {
		c.known = c.known.Forgive()
	}
	if c.settled() || c.work != nil && c.work.Suspended {
		c.tried = true
		return object{}, nil, false
	}
	if why := m.desired.Registration.Refuses(id.Namespace); why != "" && c.work != nil {
		c.tried = true
		before := c.facts
		c.facts.Reason, c.facts.Message = decide.ReasonNotAllowed, why
		m.told(before, c.facts)
		return object{}, nil, false
	}
	return *c, m.link, true
}

// attempt carries an order out; false means that it waits for the first list of its kind, or that the
// list showed it done.
func (m *member) attempt(id api.ID, began object, l *link) (apply.Outcome, bool) {
	readOnly := m.readOnly.Load()
	if message := m.holdsBack(id, began); message != "" && !readOnly {
		return apply.Outcome{Change: apply.Skipped, Live: began.facts.Live, Waiting: true, Message: message}, true
	}
	resource, err := m.find(l, began.versioned(id))
	if err != nil {
		return m.unserved(began, err), true
	}
	if !resource.Namespaced && id.Namespace != "" {
		return misplaced(began, resource, id), true
	}
	if !m.follows(id, resource) {
		return apply.Outcome{}, false
	}
	// Each request has its time-out; this one bounds what an object costs in all.
	ctx, cancel := context.WithTimeout(m.ctx, 3*m.options.RequestTimeout)
	defer cancel()
	where, account := client(l.objects, resource, id.Namespace), began.account()
	if account != "" {
		if _, _, err := project.ParseAccount(account); err != nil { // somebody edited the record
			return apply.Outcome{Change: apply.Skipped, Live: began.facts.Live, Reason: decide.ReasonForbidden, Message: err.Error()}, true
		}
		ctx = as(ctx, account)
	}
	switch {
	case readOnly && began.work == nil:
		return m.applier.AwaitGone(ctx, where, *began.retired), true
	case readOnly:
		return m.applier.Await(ctx, where, *began.work), true
	case began.work == nil:
		return told(m.applier.Delete(ctx, where, *began.retired), account), true
	}
	return told(m.applier.Apply(ctx, where, *began.work, began.known), account), true
}

// told is an outcome that says, if somebody may not do what was asked, what there is to do about it.
func told(out apply.Outcome, account string) apply.Outcome {
	if account != "" && apierrors.IsForbidden(out.Err) && out.Reason == decide.ReasonFailed {
		out.Reason = decide.ReasonForbidden
		out.Message += fmt.Sprintf("; the object's project is written as service account %s: on this member that account needs the right, and godwit's own to impersonate it", account)
	}
	return out
}

// holdsBack says why the deletion of a Namespace or CustomResourceDefinition has to wait; empty if not.
func (m *member) holdsBack(id api.ID, began object) string {
	if began.stage(id) != apply.DeleteGround {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for other, c := range m.copies {
		if c.work == nil && !c.facts.Gone && other != id && apply.WaitsFor(id, other) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("is deleted once %d objects in it are gone", n)
}

// find tells how to reach an object; what is not known is looked up once more.
func (m *member) find(l *link, id api.ID) (observe.Resource, error) {
	if r, err := m.identity().catalog.Find(id); err == nil {
		return r, nil
	}
	l.discovering.Lock()
	defer l.discovering.Unlock()
	who, now := m.identity(), m.options.Clock.Now()
	if now.Sub(who.at) < m.options.RetryMin { // another object has just asked
		return who.catalog.Find(id)
	}
	catalog, err := observe.Discover(l.info)
	if err != nil {
		return observe.Resource{}, err
	}
	m.mu.Lock()
	if m.link == l {
		who = m.who
		who.catalog, who.at = catalog, now
		m.learn(who)
	}
	m.mu.Unlock()
	return catalog.Find(id)
}

func (m *member) identity() identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.who
}

// unserved is how an order ends whose kind is not served.
func (m *member) unserved(began object, err error) apply.Outcome {
	out := apply.Outcome{Change: apply.Skipped, Live: began.facts.Live, Reason: apply.Reason(err), Message: err.Error(), Err: err}
	var missing *observe.NoKindError
	if !errors.As(err, &missing) {
		return out
	}
	if began.work == nil && missing.Unknown == nil {
		return apply.Outcome{Change: apply.Unchanged, Gone: true} // no kind, no object
	}
	out.Reason = decide.ReasonNoKind
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.copies {
		if c.work != nil && apply.Defines(c.work.Object, missing.ID) {
			out.Waiting = true // for the definition to be established
		}
	}
	return out
}

// misplaced is what comes of an object in a namespace whose kind has none on the member. The server would leave the
// namespace out, and who may write to that would have written to the whole cluster.
func misplaced(began object, r observe.Resource, id api.ID) apply.Outcome {
	if began.work == nil {
		return apply.Outcome{Change: apply.Unchanged, Gone: true}
	}
	return apply.Outcome{Change: apply.Skipped, Reason: decide.ReasonInvalid,
		Message: fmt.Sprintf("%s is not in any namespace on this member, and the object is in %s; it is not applied", r.Resource, id.Namespace)}
}

// take notes how an order ended. m.mu is held.
func (m *member) take(id api.ID, c *object, began object, out apply.Outcome) {
	now := m.options.Clock.Now()
	before := c.facts
	overtaken := c.stirs != began.stirs || newer(c.facts.Live, out.Live)
	if !overtaken && (out.Err == nil || out.Live != nil) {
		c.facts.Live = out.Live
	}
	if out.Known != nil {
		c.known = out.Known
	}
	done := out.Reason == "" && !out.Waiting
	if done && began.work != nil {
		c.facts.Applied = began.work.Hash
		if out.Change != apply.Unchanged && began.known != nil && began.known.Work.Hash == began.work.Hash {
			c.driftUndone(now)
		}
	}
	if !c.stands(began) { // there is a newer order by now, and it is in the queue
		m.told(before, c.facts)
		return
	}
	if c.clean && overtaken && !done && !out.Gone { // what the attempt found was so before it was seen as wanted
		m.told(before, c.facts)
		return
	}
	c.tried, c.waiting = true, out.Waiting
	c.facts.Reason, c.facts.Message = out.Reason, out.Message
	switch {
	case out.Gone:
		c.facts.Gone, c.facts.Applied, c.known = true, "", nil
		m.wakeGround(now)
	case done:
		c.failures = 0
		c.clean = c.clean || !overtaken
	default:
		c.clean = false // whatever was seen was older
		c.failures++
		m.enqueue(id, c, now.Add(backoff{m.options.RetryMin, m.options.RetryMax}.pause(c.failures)))
	}
	m.told(before, c.facts)
	m.report(id, before, out)
}

// report logs what was done or went wrong, the latter once, and looks after the member if it is to blame.
func (m *member) report(id api.ID, before decide.CopyFacts, out apply.Outcome) {
	switch {
	case out.Reason == decide.ReasonNotDelivered:
		m.log.Debug("object awaited", "object", id.String(), "message", out.Message)
	case out.Reason != "" && (out.Reason != before.Reason || out.Message != before.Message):
		m.log.Warn("object refused", "object", id.String(), "reason", out.Reason, "message", out.Message)
	case out.Reason == "" && out.Change != apply.Unchanged && out.Change != apply.Skipped:
		m.log.Info("object "+string(out.Change), "object", id.String())
	}
	if m.options.Tried != nil {
		m.options.Tried(out.Change, out.Reason)
	}
	var missing *observe.NoKindError
	switch {
	case apierrors.IsUnauthorized(out.Err):
		m.renew = true
	case out.Reason == decide.ReasonUnreachable:
	case out.Reason == decide.ReasonNoKind && !errors.As(out.Err, &missing):
		m.who.at = time.Time{} // the catalog is wrong
	default:
		return
	}
	signal(m.probe)
}

// wakeGround looks again at the Namespaces and CustomResourceDefinitions that wait to be deleted.
func (m *member) wakeGround(now time.Time) {
	for id, c := range m.copies {
		if c.waiting && c.stage(id) == apply.DeleteGround {
			m.enqueue(id, c, now)
		}
	}
}

// told tells of a change of facts. m.mu is held.
func (m *member) told(before, now decide.CopyFacts) {
	visible := before.Applied != now.Applied || before.Reason != now.Reason || before.Message != now.Message ||
		before.Gone != now.Gone || !sameLive(before.Live, now.Live)
	m.touch(visible)
}

// Drift is put back at once, but for an object that somebody changes again and again.
const (
	freely   = 5 // times
	calmDown = 10 * time.Minute
)

var fight = backoff{time.Second, 5 * time.Minute}

func (c *object) driftUndone(now time.Time) {
	if now.Sub(c.putBackAt) > calmDown {
		c.putBack = 0
	}
	c.putBack++
	c.putBackAt = now
}

// driftDue is when drift seen now is put back.
func (c *object) driftDue(now time.Time) time.Time {
	if c.putBack < freely || now.Sub(c.putBackAt) > calmDown {
		return now
	}
	return now.Add(fight.pause(c.putBack - freely + 1))
}

// sameLive compares what a decision could see of a live object: all but the marks that every write moves.
func sameLive(a, b api.Object) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for name, v := range a {
		if name != "metadata" && !reflect.DeepEqual(v, b[name]) {
			return false
		}
	}
	metaA, _ := a["metadata"].(map[string]any)
	metaB, _ := b["metadata"].(map[string]any)
	for _, name := range []string{"uid", "generation", "labels", "annotations", "finalizers", "deletionTimestamp"} {
		if !reflect.DeepEqual(metaA[name], metaB[name]) {
			return false
		}
	}
	return true
}

// newer tells whether a is a later state of the same object than b.
func newer(a, b api.Object) bool {
	if a == nil || b == nil || metaText(a, "uid") != metaText(b, "uid") {
		return false
	}
	return later(metaText(a, "resourceVersion"), metaText(b, "resourceVersion"))
}

// later compares resource versions, which count up; those that are no numbers are not compared.
func later(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && x > y
}

func metaText(o api.Object, field string) string {
	m, _ := o["metadata"].(map[string]any)
	s, _ := m[field].(string)
	return s
}
