package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/render/work"
)

// A member is one cluster with its goroutines.
type member struct {
	*Fleet
	name string
	log  *slog.Logger
	ctx  context.Context
	stop context.CancelFunc
	// readOnly is that of desired; the clients look at it, without the lock.
	readOnly atomic.Bool
	started  bool           // guarded by Fleet.mu
	ended    chan struct{}  // closed when it has
	tasks    sync.WaitGroup // objects in work
	kick     chan struct{}  // the queue or the gate changed
	probe    chan struct{}  // probe now
	probed   chan struct{}  // with a good result

	mu        sync.Mutex // guards what follows; never held during a request
	desired   Desired
	copies    map[api.ID]*object
	queue     queue
	finishing bool
	rest      time.Time      // nothing is started before, the member asked for a pause
	link      *link          // nil: no credentials
	renew     bool           // the credentials were refused
	warned    string         // the version of the credentials that it was told of how exposed they are
	ending    string         // likewise, that they end
	result    observe.Result // of the last probe
	who       identity       // as last identified
	pinned    string         // the first UID seen
	served    string         // the UID that what is known of the copies is of
	capacity  capacity
	succeeded time.Time // when a probe last went well
	verified  bool      // identified since it was last away
	gate      gate
	prober    observe.Prober
	looked    bool // since it was made; before, the prober knows what another fleet saw
	watches   map[schema.GroupVersionResource]*watching
	snapshot  decide.MemberFacts // handed out, so never changed
	dirty     bool               // it is not up to date
	wasIdle   bool

	following sync.WaitGroup // watches
}

// A gate is open, or closed for a reason.
type gate struct {
	closed bool
	// reason and message for the copies that wait; empty reason: nothing to be said of them.
	reason, message string
	// all copies are told, not just those that wait.
	all bool
}

func newMember(f *Fleet, name string) *member {
	ctx, cancel := context.WithCancel(context.Background())
	prober, assumed := f.assumed[name]
	if !assumed {
		prober = f.options.Probers[name]
	}
	return &member{
		Fleet:   f,
		name:    name,
		log:     f.options.Logger.With("member", name),
		ctx:     ctx,
		stop:    cancel,
		kick:    make(chan struct{}, 1),
		probe:   make(chan struct{}, 1),
		probed:  make(chan struct{}, 1),
		copies:  map[api.ID]*object{},
		gate:    gate{closed: true},
		ended:   make(chan struct{}),
		prober:  prober.With(*f.options.Thresholds),
		watches: map[schema.GroupVersionResource]*watching{},
		dirty:   true,
	}
}

// run ends when the member is stopped and its last goroutine with it.
func (m *member) run() {
	var group sync.WaitGroup
	group.Go(m.runHealth)
	group.Go(m.runCapacity)
	m.dispatch()
	m.tasks.Wait()
	group.Wait()
	m.following.Wait()
	m.link.rest()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits until the time is over, or a signal comes; false means that the member was stopped.
func (m *member) pause(d time.Duration, c <-chan struct{}) bool {
	timer := m.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-c:
	case <-m.ctx.Done():
	}
	return m.ctx.Err() == nil
}

// runHealth probes until the member is stopped.
func (m *member) runHealth() {
	for {
		pause := m.options.ProbeInterval
		if !m.check() {
			pause = min(pause, m.options.RetryInterval)
		}
		if !m.pause(pause, m.probe) {
			return
		}
	}
}

// check examines the member once and draws the consequences; it tells whether all is well.
func (m *member) check() bool {
	m.mu.Lock()
	cluster, l, who, known := m.desired.Cluster, m.link, m.who, m.verified && !m.renew
	if m.renew {
		l, m.renew = nil, false
	}
	m.mu.Unlock()

	result, l, who := m.examine(cluster, l, who, known)
	if m.ctx.Err() != nil || result.Status == "" {
		return false
	}
	now := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l != m.link || !result.Healthy() && result.Reason != observe.ReasonNotReady {
		m.endWatches() // they are another's, or hang: they begin anew, with a list
		m.link.rest()
	}
	if l != m.link {
		m.capacity.at = time.Time{}
	}
	m.link, m.result, m.verified = l, result, result.Healthy()
	if l != nil && l.version != m.warned {
		if m.warned = l.version; l.exposed != "" {
			m.log.Warn("others can listen to what is sent to the member", "message", l.exposed)
		}
	}
	if l != nil && l.version != m.ending && l.valid.ending(now) {
		m.ending = l.version
		m.log.Warn("the credentials of the member end soon, or have ended", "at", l.valid.until.UTC())
	}
	if m.verified && (who.at.After(m.who.at) || who.uid != m.who.uid) {
		m.learn(who)
	}
	if m.verified {
		m.succeeded = now
	}
	if m.verified && m.pinned == "" {
		m.pinned = who.uid
	}
	was := m.prober.Ready
	m.prober = m.prober.Step(result, now)
	if ready := m.prober.Ready; ready != was || !m.looked {
		m.looked = true
		m.touch(true)
		if ready.Status != was.Status {
			m.log.Info("member changed", "ready", ready.Status, "reason", ready.Reason, "message", ready.Message)
		}
	}
	m.regate()
	if m.verified {
		signal(m.probed)
	}
	return m.verified
}

// examine looks at the member without changing anything of it: are there credentials, is it ready,
// and, unless that is known and not old, who is it. A result without a status means that it cannot be looked at yet.
func (m *member) examine(cluster *clusterv1alpha1.Cluster, l *link, who identity, known bool) (observe.Result, *link, identity) {
	failed := func(err error) observe.Result {
		return observe.Result{Status: metav1.ConditionFalse, Reason: observe.ReasonCollectionFailed, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.options.RequestTimeout)
	defer cancel()
	config, version, err := m.lookup.Find(ctx, cluster)
	switch {
	case errors.Is(err, ErrNotYet) && l == nil:
		return observe.Result{}, nil, who
	case errors.Is(err, ErrNoCredentials), err != nil && l == nil:
		return failed(err), nil, who
	case err != nil:
		m.log.Warn("credentials cannot be read again, the last ones stay in use", "error", err)
	case l == nil || version != l.version:
		if l, err = newLink(config, version, m.options, m.throttled, m.others); err != nil {
			return failed(fmt.Errorf("make a client: %w", err)), nil, who
		}
		known = false
	}
	probing, cancel := context.WithTimeout(m.ctx, m.options.ProbeTimeout)
	defer cancel()
	result, err := observe.Probe(probing, l.info.RESTClient())
	switch {
	case apierrors.IsUnauthorized(err):
		return result, nil, who // so that the next look makes a new client
	case err != nil:
		return result, l, who
	}
	identifying, cancel := context.WithTimeout(m.ctx, m.options.RequestTimeout)
	defer cancel()
	uid, err := l.uid(identifying)
	now := m.options.Clock.Now()
	switch {
	case err != nil:
		return failed(err), l, who
	case known && uid == who.uid && now.Sub(who.at) < m.options.DiscoveryInterval:
		return result, l, who
	}
	found, err := l.identify(uid, now)
	switch {
	case err != nil && known && uid == who.uid: // the rest comes with the next look
		m.log.Warn("the member's APIs cannot be looked up again", "error", err)
		return result, l, who
	case err != nil:
		return failed(err), l, who
	}
	return result, l, found
}

// others tells whether it is for others to write to the member.
func (m *member) others() bool {
	return m.readOnly.Load() || m.options.May != nil && !m.options.May(m.name)
}

// learn takes in what the member said of itself. m.mu is held.
func (m *member) learn(who identity) {
	old := m.who
	m.who = who
	if old.uid != who.uid {
		m.capacity = capacity{}
	}
	switch {
	case old.catalog == nil, old.uid != who.uid, old.version != who.version,
		(len(old.catalog.Broken) == 0) != (len(who.catalog.Broken) == 0),
		!reflect.DeepEqual(old.catalog.APIs, who.catalog.APIs),
		!reflect.DeepEqual(old.catalog.Namespaced, who.catalog.Namespaced):
		m.touch(true)
	}
	now := m.options.Clock.Now()
	for id, c := range m.copies {
		if c.facts.Reason != decide.ReasonNoKind {
			continue
		}
		if _, err := who.catalog.Find(c.versioned(id)); err == nil {
			m.enqueue(id, c, now)
		}
	}
}

// expected is the UID that the member must have; empty means that any is right.
func (m *member) expected() string {
	if m.desired.RecordedUID != "" {
		return m.desired.RecordedUID
	}
	return m.pinned
}

// regate opens or closes the gate by what is known now. m.mu is held.
func (m *member) regate() {
	was, expected := m.gate, m.expected()
	switch {
	case !m.looked:
		m.gate = gate{closed: true}
	case !m.verified:
		m.gate = gate{closed: true, reason: decide.ReasonUnreachable, message: m.result.Message}
	case expected != "" && m.who.uid != expected:
		m.gate = gate{closed: true, all: true, reason: decide.ReasonForeign, message: fmt.Sprintf(
			"this is another cluster: its kube-system namespace has UID %s, recorded is %s; nothing is written until it is adopted", m.who.uid, expected)}
	case m.desired.Registration.Paused:
		m.gate = gate{closed: true, reason: decide.ReasonPaused, message: fmt.Sprintf(
			"Secret %s has the annotation argocd.argoproj.io/skip-reconcile: nothing is written to this member", m.desired.Registration.Secret)}
	default:
		m.gate = gate{closed: m.desired.Paused}
	}
	switch {
	case m.gate.all:
		m.endWatches() // nothing there is ours
	case m.verified:
		m.beginWatches()
	}
	switch {
	case m.gate.closed:
		m.tellCopies()
	case was.closed:
		m.reopen(was)
	}
	if m.gate != was {
		m.log.Debug("gate", "closed", m.gate.closed, "reason", m.gate.reason, "message", m.gate.message)
	}
	m.stirred()
}

// reopen looks at every copy anew. m.mu is held.
func (m *member) reopen(was gate) {
	now, moved := m.options.Clock.Now(), m.served != "" && m.served != m.who.uid
	m.served = m.who.uid
	for id, c := range m.copies {
		c.failures = 0
		switch {
		case moved: // what is known is of another cluster
			c.clean, c.known, c.facts = false, nil, decide.CopyFacts{}
		case was.all:
			c.clean, c.facts.Gone = false, false
		}
		m.enqueue(id, c, now)
	}
	m.touch(moved)
}

// tellCopies notes on the copies that wait why they do. m.mu is held.
func (m *member) tellCopies() {
	if m.gate.reason == "" {
		return
	}
	for _, c := range m.copies {
		if (m.gate.all || !c.settled()) && (c.facts.Reason != m.gate.reason || c.facts.Message != m.gate.message) {
			c.facts.Reason, c.facts.Message = m.gate.reason, m.gate.message
			m.touch(true)
		}
	}
}

// throttled makes the member's queue rest.
func (m *member) throttled(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := m.options.Clock.Now().Add(d); until.After(m.rest) {
		m.rest = until
	}
}

// dispatch hands objects to tasks until the member is stopped or finishes.
func (m *member) dispatch() {
	slots := make(chan struct{}, m.options.Workers)
	for {
		select {
		case slots <- struct{}{}:
		case <-m.ctx.Done():
			return
		}
		id, ok, wait := m.next()
		if ok {
			go func() {
				defer func() { m.tasks.Done(); <-slots }()
				m.task(id)
			}()
			continue
		}
		<-slots
		if !m.pause(wait, m.kick) {
			return
		}
	}
}

// idleWait is how long the dispatcher waits when nothing is to come: a signal ends it.
const idleWait = time.Hour

// next takes an object from the queue, or tells how long to wait for one.
func (m *member) next() (id api.ID, ok bool, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	switch {
	case m.gate.closed, m.finishing:
		return api.ID{}, false, idleWait
	case now.Before(m.rest):
		return api.ID{}, false, m.rest.Sub(now)
	}
	if id, ok = m.queue.next(now); ok {
		m.tasks.Add(1)
		return id, true, 0
	}
	if at, ok := m.queue.wake(); ok && at.After(now) {
		return api.ID{}, false, at.Sub(now)
	}
	return api.ID{}, false, idleWait
}

// finish lets nothing more start.
func (m *member) finish() {
	m.mu.Lock()
	m.finishing = true
	m.mu.Unlock()
	signal(m.kick)
}

// touch notes that observations changed; visible changes are told. m.mu is held.
func (m *member) touch(visible bool) {
	m.dirty = true
	if visible {
		m.notify()
	}
}

// stirred wakes the dispatcher, and tells when the member became idle. m.mu is held.
func (m *member) stirred() {
	signal(m.kick)
	if m.wasIdle { // only an order for the queue changes that
		return
	}
	if m.wasIdle = m.isIdle(); m.wasIdle {
		m.notify()
	}
}

// observe gives the member's facts; false before the first probe.
func (m *member) observe() (decide.MemberFacts, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirty {
		ready := m.prober.Ready
		m.snapshot = decide.MemberFacts{
			Ready: ready.Status, Reason: ready.Reason, Message: ready.Message, Since: ready.Since,
			UID: m.who.uid, Version: m.who.version,
			Nodes: m.capacity.nodes, Resources: m.capacity.resources, NodeCapacity: m.capacity.single,
			Copies: make(map[api.ID]decide.CopyFacts, len(m.copies)),
		}
		if catalog := m.who.catalog; catalog != nil {
			m.snapshot.APIs, m.snapshot.APIsComplete, m.snapshot.Namespaced = catalog.APIs, len(catalog.Broken) == 0, catalog.Namespaced
		}
		for id, c := range m.copies {
			m.snapshot.Copies[id] = c.facts
			if by := work.TrackedBy(c.facts.Live); by != "" && !m.desired.ReadOnly && c.work != nil {
				if m.snapshot.Tracked == nil {
					m.snapshot.Tracked = map[api.ID]string{}
				}
				m.snapshot.Tracked[id] = by
			}
		}
		m.dirty = false
	}
	return m.snapshot, m.looked
}

func (m *member) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isIdle()
}

// patience is how many looks a thing that goes on by itself is waited for.
const patience = 8

func (m *member) isIdle() bool {
	switch {
	case !m.looked:
		return false
	case m.gate.closed:
		return true
	case m.queue.busy():
		return false
	}
	for _, c := range m.copies {
		if !c.tried || c.waiting && c.failures < patience {
			return false
		}
	}
	return true
}

// set replaces what the member should hold.
func (m *member) set(d Desired) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reregistered := m.desired.Cluster == nil || !reflect.DeepEqual(m.desired.Cluster.Spec, d.Cluster.Spec) ||
		m.desired.Cluster.Annotations[AnnotationContext] != d.Cluster.Annotations[AnnotationContext]
	if reregistered {
		m.capacity.at = time.Time{} // it may have other models
	}
	limits := !reflect.DeepEqual(m.desired.Registration, d.Registration)
	regate := m.desired.RecordedUID != d.RecordedUID || m.desired.Paused != d.Paused || limits
	if m.readOnly.Swap(d.ReadOnly) != d.ReadOnly {
		regate = true
		m.relearn()
	}
	m.desired = d
	now := m.options.Clock.Now()
	for id, c := range m.copies {
		if limits && c.facts.Reason == decide.ReasonNotAllowed {
			m.enqueue(id, c, now)
		}
	}
	targets := scaleTargets(d.Works)
	changed, named := false, len(d.Works)
	for id, w := range d.Works {
		w.Retain = w.Retain || targets[id]
		if c := m.copies[id]; c == nil || !c.asks(&w) {
			order := w // so that those that stand cost no memory
			m.order(id, &order, nil, now)
			changed = true
		}
	}
	for id, r := range d.Retired {
		if _, ok := d.Works[id]; ok {
			continue
		}
		named++
		if c := m.copies[id]; c == nil || !c.retires(&r) {
			order := r
			m.order(id, nil, &order, now)
			changed = true
		}
	}
	if len(m.copies) > named {
		m.forget(d)
		changed = true
	}
	if reregistered {
		signal(m.probe)
	}
	if regate || changed {
		m.regate()
	}
}

// relearn forgets how orders ended, as they are judged otherwise now. m.mu is held.
func (m *member) relearn() {
	now := m.options.Clock.Now()
	for id, c := range m.copies {
		c.clean, c.tried, c.waiting, c.failures, c.known = false, false, false, 0, nil
		c.stirs++ // what is under way was begun otherwise
		c.facts.Applied, c.facts.Gone = "", false
		m.enqueue(id, c, now)
	}
	m.touch(false)
}

// forget drops the copies that are not named any more. m.mu is held.
func (m *member) forget(d Desired) {
	for id := range m.copies {
		_, work := d.Works[id]
		_, retired := d.Retired[id]
		if !work && !retired {
			delete(m.copies, id)
			m.queue.remove(id)
		}
	}
	m.touch(false)
}

// scaleTargets are the objects whose replicas an autoscaler among the works sets.
func scaleTargets(works map[api.ID]Work) map[api.ID]bool {
	var targets map[api.ID]bool
	for _, w := range works {
		if w.ID.Kind != "HorizontalPodAutoscaler" {
			continue
		}
		if target, ok := apply.ScaleTarget(w.Object); ok {
			if targets == nil {
				targets = map[api.ID]bool{}
			}
			targets[target] = true
		}
	}
	return targets
}
