package member

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
)

// Work and Retired are what a member should have, and should lose.
type (
	Work    = apply.Work
	Retired = apply.Retired
)

// Desired is what one member should hold. It and what it refers to are not changed after they were
// handed over.
type Desired struct {
	// Cluster is the member's registration.
	Cluster *clusterv1alpha1.Cluster
	// RecordedUID is the recorded UID of the kube-system namespace; empty takes the first one seen.
	RecordedUID string
	// Paused: nothing is written; what is there is still observed.
	Paused bool
	// Registration is what the management cluster says of the member: it may be paused there, or limited
	// to some namespaces. The zero value says nothing.
	Registration decide.Registration
	// ReadOnly: others apply what the member should hold, and delete what it should lose. It is looked whether they
	// did, and no request that could write is sent at all.
	ReadOnly bool
	// Works and Retired by identity without version. What is in both is a work.
	Works   map[api.ID]Work
	Retired map[api.ID]Retired
}

// Options of a fleet. The zero value of each field means its default.
type Options struct {
	// Fleet is the name in our marks; default "godwit".
	Fleet string
	// Migrate are the field managers whose fields become ours on adoption; nil means apply.LegacyManagers.
	Migrate []string
	// ProbeInterval is how often a member in order is probed, default 10s; RetryInterval how often one that is
	// not, default 2s.
	ProbeInterval, RetryInterval time.Duration
	// ProbeTimeout of a probe, default 5s; RequestTimeout of every other request, default 10s.
	ProbeTimeout, RequestTimeout time.Duration
	// Thresholds of the Ready condition; nil means 30s each.
	Thresholds *observe.Thresholds
	// Probers are those of a fleet before this one, so that its members need as many probes as there to become ready, or
	// not ready any more; nil means that there was none.
	Probers map[string]observe.Prober
	// DiscoveryInterval is how often the kinds are looked up without a cause, default 1m.
	DiscoveryInterval time.Duration
	// CapacityInterval is how often nodes and pods are listed, default 1m. It is looked at after good probes,
	// so that it is never less than the ProbeInterval.
	CapacityInterval time.Duration
	// AccurateEstimator asks for what single nodes have free, too.
	AccurateEstimator bool
	// QPS and Burst limit the requests to one member that are about objects, default 50 and 100; a
	// negative QPS means no limit.
	QPS   float32
	Burst int
	// Workers is how many objects of one member are in work at a time, default 8.
	Workers int
	// RetryMin and RetryMax bound the pause before an object that failed is tried again, which doubles; defaults
	// 500ms and 5m.
	RetryMin, RetryMax time.Duration
	// UserAgent of all requests, default "godwit".
	UserAgent string
	// May tells whether requests that could write may leave for a member at this moment; nil means that they always may.
	// It is asked before each of them, must not wait, and may be called from many goroutines.
	May func(member string) bool
	// Tried receives what came of each attempt at an object, the reason being empty if it went well; nil means nobody.
	// It must not wait, nor call the fleet.
	Tried func(change apply.Change, reason string)
	// Logger, default slog.Default(). Clock, default the real one.
	Logger *slog.Logger
	Clock  clock.WithDelayedExecution
}

func (o Options) withDefaults() Options {
	orText(&o.Fleet, "godwit")
	orText(&o.UserAgent, "godwit")
	for _, d := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{
		{&o.ProbeInterval, 10 * time.Second},
		{&o.RetryInterval, 2 * time.Second},
		{&o.ProbeTimeout, 5 * time.Second},
		{&o.RequestTimeout, 10 * time.Second},
		{&o.DiscoveryInterval, time.Minute},
		{&o.CapacityInterval, time.Minute},
		{&o.RetryMin, 500 * time.Millisecond},
		{&o.RetryMax, 5 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.fallback
		}
	}
	if o.Migrate == nil {
		o.Migrate = apply.LegacyManagers
	}
	if o.Thresholds == nil {
		o.Thresholds = &observe.Thresholds{Success: 30 * time.Second, Failure: 30 * time.Second}
	}
	if o.QPS == 0 {
		o.QPS = 50
	}
	if o.Burst == 0 {
		o.Burst = 100
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

func orText(field *string, fallback string) {
	if *field == "" {
		*field = fallback
	}
}

// Fleet keeps the members.
type Fleet struct {
	options Options
	lookup  Lookup
	applier *apply.Applier
	changed chan struct{}
	group   sync.WaitGroup // of members

	mu      sync.Mutex
	members map[string]*member
	leaving map[*member]bool          // not set any more, and still ending
	assumed map[string]observe.Prober // of members that are not set yet
	closed  bool
}

// New makes a fleet without members.
func New(lookup Lookup, options Options) *Fleet {
	options = options.withDefaults()
	return &Fleet{
		options: options,
		lookup:  lookup,
		applier: &apply.Applier{Fleet: options.Fleet, Migrate: options.Migrate},
		changed: make(chan struct{}, 1),
		members: map[string]*member{},
		leaving: map[*member]bool{},
	}
}

// Set replaces what every member should hold. Members that are not named are stopped and forgotten;
// nothing is deleted from them. It never waits for a member. After Close it does nothing.
func (f *Fleet) Set(desired map[string]Desired) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	for name, m := range f.members {
		if _, ok := desired[name]; !ok {
			m.stop()
			delete(f.members, name)
			f.leaving[m] = true
			f.notify()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		m := f.members[name]
		if m == nil {
			m = newMember(f, name)
			f.members[name] = m
		}
		m.set(desired[name])
		if !m.started {
			m.started = true
			f.group.Go(func() {
				defer f.left(m)
				m.run()
			})
		}
	}
}

// Observe gives what is known of the members now.
func (f *Fleet) Observe() decide.Observations {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := decide.Observations{Members: make(map[string]decide.MemberFacts, len(f.members))}
	for name, m := range f.members {
		if facts, ok := m.observe(); ok {
			o.Members[name] = facts
		}
	}
	return o
}

// left says that a member has ended.
func (f *Fleet) left(m *member) {
	f.mu.Lock()
	delete(f.leaving, m)
	f.mu.Unlock()
	close(m.ended)
}

// Left waits until nothing is in work any more on members that were set and are not. The error is that of ctx.
func (f *Fleet) Left(ctx context.Context) error {
	f.mu.Lock()
	leaving := slices.Collect(maps.Keys(f.leaving))
	f.mu.Unlock()
	for _, m := range leaving {
		select {
		case <-m.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Assume is Options.Probers for members that are set after it: others saw them so.
func (f *Fleet) Assume(probers map[string]observe.Prober) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.assumed = probers
}

// Probers are those of the members, for the next fleet.
func (f *Fleet) Probers() map[string]observe.Prober {
	f.mu.Lock()
	defer f.mu.Unlock()
	probers := make(map[string]observe.Prober, len(f.members))
	for name, m := range f.members {
		m.mu.Lock()
		probers[name] = m.prober
		m.mu.Unlock()
	}
	return probers
}

// Changed gets a value after observations changed in a way that a decision could see, or a member became
// idle. Changes that come before the value is taken share it.
func (f *Fleet) Changed() <-chan struct{} { return f.changed }

func (f *Fleet) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Idle tells whether nothing is under way on a member: it was probed, and everything that it should
// have or lose was tried since it was last set. What failed or cannot be tried, because the member
// does not answer, counts as tried; its copies say so. A member that is not set is idle.
func (f *Fleet) Idle(name string) bool {
	f.mu.Lock()
	m := f.members[name]
	f.mu.Unlock()
	return m == nil || m.idle()
}

// Quiet tells whether all members are idle.
func (f *Fleet) Quiet() bool {
	f.mu.Lock()
	members := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	return !slices.ContainsFunc(members, func(m *member) bool { return !m.idle() })
}

// Close starts nothing more, waits until the objects in work are finished, and ends all goroutines.
// When ctx ends, requests under way are cut off. It may be called once.
func (f *Fleet) Close(ctx context.Context) {
	f.mu.Lock()
	f.closed = true
	members := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	for _, m := range members {
		m.finish()
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for _, m := range members {
			m.tasks.Wait()
		}
	}()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	for _, m := range members {
		m.stop()
	}
	f.group.Wait()
	<-drained
}

// BridgeKlog sends what client-go logs through klog to logger, warnings and errors only. It changes
// a global, so it is called once, by main, before anything else.
func BridgeKlog(logger *slog.Logger) {
	klog.SetSlogLogger(slog.New(quiet{logger.Handler()}))
}

// quiet lets warnings and errors pass, but for those of what we ended ourselves.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	ended := false
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		ended = ok && errors.Is(err, context.Canceled)
		return !ended
	})
	if ended {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
