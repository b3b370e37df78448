package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Reasons of the Ready condition of members that nobody reports on, in Karmada's words.
const (
	ReasonSilent       = "ClusterStatusUnknown"
	ReasonNeverUpdated = "ClusterStatusNeverUpdated"
)

// ErrNotYet is of a board that was not looked at itself yet.
var ErrNotYet = errors.New("the reports were not listed yet")

// Board is where agents report; a *store.Board is one.
type Board interface {
	List(ctx context.Context) (map[string]gitstate.Revision, error)
	Fetch(ctx context.Context, names ...string) (map[string]store.Post, error)
}

// Reachable is the fleet of members that are pushed to; a *member.Fleet is one.
type Reachable interface {
	Set(desired map[string]Desired)
	Observe() decide.Observations
	Changed() <-chan struct{}
}

// FleetOptions of a Fleet. Of the durations and below, the zero value means the default.
type FleetOptions struct {
	// Board has the reports; nil means that there is no remote that agents could report to.
	Board Board
	// Pushed has the members that are pushed to.
	Pushed Reachable
	// Branches is what the agents' branches begin with, for people; empty where it is no matter of branches.
	Branches string
	// Reported tells which members others report on; nil means those that are served by agents, and the next three are
	// for who says otherwise.
	Reported func(name string, d Desired) bool
	// Branch is where the report of a member is on the board; nil means record.AgentBranch.
	Branch func(member string) string
	// Reporter is who reports, for people; empty means "agent".
	Reporter string
	// AnyAge: a first report counts however long ago it was made, as one that says the same is not made again.
	AnyAge bool
	// Beat is another one from time to time while whoever made the last report on a member lives and has nothing new to
	// say; empty while nobody is known to. Nil means that a report that is new is all that tells.
	Beat func(member string) string
	// News receives when the board may have something new; nil means that nobody tells.
	News <-chan struct{}
	// Interval is how often the board is looked at, default 15s.
	Interval time.Duration
	// Lease is how long a member may be silent, default 2m.
	//
	// Differs from Karmada: there it is 40s. Its agents renew a Lease in the control plane, ours push to a forge.
	Lease time.Duration
	// Timeout of a look, default 1m.
	Timeout time.Duration
	// Clock, default the real one. Log, default slog.Default().
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Fleet carries out what is decided for members of both modes: Push itself by another fleet, Pull by their agents.
// Its methods may be called from many goroutines.
type Fleet struct {
	o       FleetOptions
	changed chan struct{}
	kick    chan struct{}

	mu      sync.Mutex
	members map[string]*pulled

	// Of Run alone:

	lost   bool      // the last look failed
	looked time.Time // last, with an answer
}

// pulled is a member whose agent reports. All but the name is guarded by Fleet.mu; report is not changed.
type pulled struct {
	desired  Desired
	revision gitstate.Revision // of the report
	report   *decoded          // nil: none yet
	problem  string            // why the newest report is none; empty if it is
	refused  gitstate.Revision // of that
	retry    time.Time         // when it is fetched again
	reporter string
	beat     string           // as last heard
	silent   time.Duration    // since something new came, while we looked
	alive    bool             // something new came, and within the lease
	lapsed   bool             // nothing came for the lease
	ready    metav1.Condition // as of our clock
	facts    decide.MemberFacts
	dirty    bool
}

// again is how long a report that cannot be used is left alone.
const again = 5 * time.Minute

// NewFleet makes a fleet without members; Run keeps it up to date.
func NewFleet(o FleetOptions) *Fleet {
	for _, d := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{{&o.Interval, 15 * time.Second}, {&o.Lease, 2 * time.Minute}, {&o.Timeout, time.Minute}} {
		if *d.field == 0 {
			*d.field = d.fallback
		}
	}
	if o.Reported == nil {
		o.Reported = func(_ string, d Desired) bool { return decide.DeliveryOf(d.Cluster) == decide.DeliveryPull }
	}
	if o.Branch == nil {
		o.Branch = record.AgentBranch
	}
	if o.Reporter == "" {
		o.Reporter = "agent"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Fleet{o: o, changed: make(chan struct{}, 1), kick: make(chan struct{}, 1), members: map[string]*pulled{}}
}

// Set replaces what every member should hold. For a member whose agent takes it from the record that says which of its
// reports count.
func (f *Fleet) Set(desired map[string]Desired) {
	pushed := make(map[string]Desired, len(desired))
	f.mu.Lock()
	for name, d := range desired {
		if !f.o.Reported(name, d) {
			pushed[name] = d
			continue
		}
		m := f.members[name]
		if m == nil {
			m = &pulled{reporter: f.o.Reporter}
			f.members[name] = m
			signal(f.kick)
		}
		if m.desired.Works == nil && d.Works != nil && m.report != nil {
			signal(f.changed) // more of the report counts
		}
		m.desired, m.dirty = d, true
	}
	for name := range f.members {
		if _, mine := pushed[name]; mine || desired[name].Cluster == nil {
			delete(f.members, name)
		}
	}
	f.mu.Unlock()
	f.o.Pushed.Set(pushed)
}

// Observe gives what is known of all members now.
func (f *Fleet) Observe() decide.Observations {
	seen := f.o.Pushed.Observe()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 0 {
		return seen
	}
	seen.Members = maps.Clone(seen.Members)
	if seen.Members == nil {
		seen.Members = map[string]decide.MemberFacts{}
	}
	for name, m := range f.members {
		if m.report == nil && !m.lapsed {
			continue // nobody has looked yet
		}
		if m.dirty {
			m.facts, m.dirty = m.observe(), false
		}
		seen.Members[name] = m.facts
	}
	return seen
}

// Changed gets a value after observations changed.
func (f *Fleet) Changed() <-chan struct{} { return f.changed }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run looks at the board until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	ticker := f.o.Clock.NewTicker(f.o.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.o.Pushed.Changed():
			signal(f.changed)
			continue
		case <-ticker.C():
		case <-f.kick:
		case <-f.o.News:
		}
		f.look(ctx)
	}
}

// look reads what is new on the board, and counts the silence of the others.
func (f *Fleet) look(ctx context.Context) {
	f.mu.Lock()
	names := slices.Sorted(maps.Keys(f.members))
	f.mu.Unlock()
	if len(names) == 0 {
		f.looked = time.Time{}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.o.Timeout)
	defer cancel()
	at := map[string]gitstate.Revision{}
	if f.o.Board != nil {
		var err error
		if at, err = f.o.Board.List(ctx); err != nil {
			if !f.lost && ctx.Err() != context.Canceled && !errors.Is(err, ErrNotYet) {
				f.o.Log.Warn("reports cannot be looked for; members stay as they were last known", "of", f.o.Reporter+"s", "error", err)
			}
			f.lost, f.looked = !errors.Is(err, ErrNotYet), time.Time{} // nobody is silent while we do not listen
			return
		}
	}
	if f.lost {
		f.o.Log.Info("reports can be looked for again", "of", f.o.Reporter+"s")
		f.lost = false
	}
	now := f.o.Clock.Now()
	// What passed since a look that is long ago passed while we did not listen.
	passed := time.Duration(0)
	if !f.looked.IsZero() {
		passed = min(now.Sub(f.looked), 2*f.o.Interval)
	}
	f.looked = now

	posts := f.fetch(ctx, f.moved(names, at, now), at)
	changed := false
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		m := f.members[name]
		if m == nil {
			continue
		}
		post, ok := posts[name]
		heard := f.hear(name, m, now, &changed)
		if taken := ok && f.take(name, m, post, now, &changed); !taken && !heard {
			changed = f.wait(name, m, passed, now) || changed
		}
	}
	if changed {
		signal(f.changed)
	}
}

// moved are the members whose agents reported since.
func (f *Fleet) moved(names []string, at map[string]gitstate.Revision, now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var moved []string
	for _, name := range names {
		m, rev := f.members[name], at[f.o.Branch(name)]
		switch {
		case m == nil, rev == "", rev == m.revision:
		case rev == m.refused && now.Before(m.retry):
		default:
			moved = append(moved, name)
		}
	}
	return moved
}

// fetch brings reports here, all at once if that goes well, else each by itself: what one of them sends is nothing to
// the others.
func (f *Fleet) fetch(ctx context.Context, names []string, at map[string]gitstate.Revision) map[string]store.Post {
	posts := make(map[string]store.Post, len(names))
	if len(names) == 0 {
		return posts
	}
	branches := make([]string, len(names))
	for i, name := range names {
		branches[i] = f.o.Branch(name)
	}
	got, err := f.o.Board.Fetch(ctx, branches...)
	for i, name := range names {
		if err != nil && len(names) > 1 {
			one := f.fetch(ctx, names[i:i+1], at)
			posts[name] = one[name]
			continue
		}
		post := got[branches[i]]
		if err != nil {
			post = store.Post{Revision: at[branches[i]], Err: err}
		}
		posts[name] = post
	}
	return posts
}

// take takes a new report in; false means that it is none. f.mu is held.
func (f *Fleet) take(name string, m *pulled, post store.Post, now time.Time, changed *bool) bool {
	var report *decoded
	err := post.Err
	if err == nil {
		report, err = decode(post.FS, name, m.report)
	}
	if err != nil {
		if m.problem != err.Error() && !errors.Is(err, context.Canceled) {
			f.o.Log.Warn("a report cannot be used", "member", name, "of", f.o.Reporter, "error", err)
		}
		m.problem, m.refused, m.retry = err.Error(), post.Revision, now.Add(again)
		return false
	}
	first := m.revision == ""
	m.revision, m.problem, m.refused = post.Revision, "", ""
	// That a report is there says nothing of when it was made. Until there is another one, that is left to the agent's
	// clock: at worst a member that is gone is noticed one lease later.
	if age := now.Sub(report.Time); !f.o.AnyAge && first && !m.lapsed && (age > f.o.Lease || age < -f.o.Lease) {
		f.o.Log.Info("an agent's last report is old, or its clock is wrong; waiting for another one", "member", name, "time", report.Time)
	} else {
		m.alive, m.lapsed = true, false
	}
	m.silent = 0
	before := m.report
	m.report = report
	*changed = m.judge(now) || !same(before, report) || *changed
	return true
}

// same tells whether two reports say the same of a member and its objects.
func same(a, b *decoded) bool {
	if a == nil || a.UID != b.UID || a.files[factsFile] != b.files[factsFile] || len(a.files) != len(b.files) {
		return false
	}
	for file, k := range b.files {
		if a.files[file].hash != k.hash {
			return false
		}
	}
	return true
}

// hear tells whether who made the last report still lives. f.mu is held.
func (f *Fleet) hear(name string, m *pulled, now time.Time, changed *bool) bool {
	if f.o.Beat == nil || m.report == nil {
		return false
	}
	beat := f.o.Beat(name)
	if beat == "" || beat == m.beat {
		return false
	}
	m.beat, m.silent = beat, 0
	if m.lapsed {
		m.alive, m.lapsed = true, false
		*changed = m.judge(now) || *changed
	}
	return true
}

// wait counts the silence of a member. f.mu is held.
func (f *Fleet) wait(name string, m *pulled, passed time.Duration, now time.Time) (changed bool) {
	if m.silent += passed; m.silent < f.o.Lease || m.lapsed {
		return false
	}
	m.lapsed, m.alive = true, false
	changed = m.judge(now)
	if m.report == nil && f.o.Branches != "" {
		m.ready.Message += fmt.Sprintf(" to %s; run godwit agent --member %s in the member", f.o.Branches+f.o.Branch(name), name)
	}
	f.o.Log.Warn("nobody reports on a member any more", "member", name, "message", m.ready.Message)
	return changed
}

// judge tells how the member is, and whether that is new.
func (m *pulled) judge(now time.Time) (changed bool) {
	next := metav1.Condition{}
	switch {
	case m.lapsed && m.report == nil:
		next.Status, next.Reason, next.Message = metav1.ConditionUnknown, ReasonNeverUpdated, "no "+m.reporter+" reported yet"
	case m.lapsed:
		next.Status, next.Reason, next.Message = metav1.ConditionUnknown, ReasonSilent, "the "+m.reporter+" stopped reporting"
	case m.alive:
		next.Status, next.Reason, next.Message = m.report.Ready, m.report.Reason, m.report.Message
	}
	if m.lapsed && m.problem != "" {
		next.Message += "; what it sent last cannot be used: " + cut(m.problem)
	}
	next.LastTransitionTime = m.ready.LastTransitionTime
	if next.Status != m.ready.Status {
		next.LastTransitionTime = metav1.NewTime(now)
	}
	changed = next != m.ready
	m.ready, m.dirty = next, true
	return changed
}

// observe is what the report says of what the member should have or lose, and of itself.
func (m *pulled) observe() decide.MemberFacts {
	facts := decide.MemberFacts{
		Ready: m.ready.Status, Reason: m.ready.Reason, Message: m.ready.Message, Since: m.ready.LastTransitionTime.Time,
		Copies: make(map[api.ID]decide.CopyFacts, len(m.desired.Works)+len(m.desired.Retired)),
	}
	r := m.report
	if r == nil {
		return facts
	}
	facts.UID = r.UID
	foreign := m.desired.RecordedUID != "" && r.UID != "" && r.UID != m.desired.RecordedUID
	if foreign {
		refused := decide.CopyFacts{Reason: decide.ReasonForeign, Message: fmt.Sprintf(
			"the %s is in another cluster: its kube-system namespace has UID %s, recorded is %s; nothing is written until it is adopted", m.reporter, r.UID, m.desired.RecordedUID)}
		for id := range m.desired.Works {
			facts.Copies[id] = refused
		}
		for id := range m.desired.Retired {
			facts.Copies[id] = refused
		}
		return facts
	}
	facts.Version, facts.APIs, facts.APIsComplete, facts.Namespaced = r.KubernetesVersion, r.APIs, r.APIsComplete, r.Namespaced
	facts.Nodes, facts.Resources, facts.NodeCapacity = r.Nodes, r.Resources, r.NodeCapacity
	for id := range m.desired.Works {
		if c, told := r.Copies[id]; told {
			facts.Copies[id] = decide.CopyFacts{Applied: c.Applied, Live: c.Live, Health: c.Health, Reason: c.Reason, Message: c.Message}
			if c.Tracked != "" {
				if facts.Tracked == nil {
					facts.Tracked = map[api.ID]string{}
				}
				facts.Tracked[id] = c.Tracked
			}
		}
	}
	for id, order := range m.desired.Retired {
		if _, wanted := m.desired.Works[id]; wanted {
			continue
		}
		if c, told := r.Copies[id]; told {
			facts.Copies[id] = decide.CopyFacts{Reason: c.Reason, Message: c.Message, Gone: c.Gone != 0 && c.Gone == order.Since}
		}
	}
	return facts
}
