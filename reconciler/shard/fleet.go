package shard

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/reconciler/pull"
	"github.com/godwit-gitops/godwit/reconciler/roster"
)

// Local is the fleet that this replica serves members by; a *member.Fleet is one.
type Local interface {
	pull.Reachable
	Left(ctx context.Context) error
	Assume(probers map[string]observe.Prober)
}

// FleetOptions of a Fleet. Of the durations, the zero value means the default.
type FleetOptions struct {
	Replica *Replica
	Local   Local
	// Version is the program's.
	Version string
	// Lease is how long nobody may report on a member, default 2m.
	Lease time.Duration
	// Rest is how often a member is reported on that has news all the time, default 2s. The first few come at once, and
	// whenever it is not as ready as it was.
	Rest time.Duration
	// Log, default slog.Default(). Clock, default the real one.
	Log   *slog.Logger
	Clock clock.WithTickerAndDelayedExecution
}

// Fleet is that of one replica. Its methods may be called from many goroutines.
type Fleet struct {
	o       FleetOptions
	reports *pull.Fleet
	board   *board
	poster  *poster
	near    *near
	kick    chan struct{} // divide anew
	stirred chan struct{} // there may be something to report

	dividing sync.Mutex // what we serve and what is seen of it belong together
	serves   map[string]pull.Desired

	mu      sync.Mutex
	share   roster.Share // that is divided by
	desired map[string]pull.Desired
	decided bool              // here, and not read from the state branch
	at      gitstate.Revision // where it was read; empty if nothing is known
	leads   bool
	last    map[string]decide.MemberFacts // as they were known last, while a member changes hands
}

// near is the local fleet as that of the reports knows it.
type near struct {
	Local
	changed chan struct{}
}

func (n *near) Changed() <-chan struct{} { return n.changed }

// NewFleet makes a fleet without members; Run serves them.
func NewFleet(o FleetOptions) *Fleet {
	if o.Lease == 0 {
		o.Lease = 2 * time.Minute
	}
	if o.Rest == 0 {
		o.Rest = 2 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := o.Replica
	f := &Fleet{
		o: o, board: newBoard(r.secrets, r.o.Name, o.Clock.Now), near: &near{o.Local, make(chan struct{}, 1)},
		poster: newPoster(r.secrets, r.o.Name, r.o.Identity, partSize),
		kick:   make(chan struct{}, 1), stirred: make(chan struct{}, 1), last: map[string]decide.MemberFacts{},
	}
	f.reports = pull.NewFleet(pull.FleetOptions{
		Board: f.board, Pushed: f.near, Reporter: "replica", AnyAge: true, News: f.board.news,
		Branch:   func(member string) string { return member },
		Reported: func(name string, _ pull.Desired) bool { return !f.has(name) },
		Beat:     func(member string) string { return r.beat(member, f.board.author(member)) },
		Interval: min(5*time.Second, max(r.o.RetryPeriod, o.Lease/20)), Lease: o.Lease, Clock: o.Clock, Log: o.Log,
	})
	return f
}

// has tells whether a member is in the share that is divided by.
func (f *Fleet) has(member string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.share.Has(member)
}

// Set replaces what every member should hold. It reaches those of our share.
func (f *Fleet) Set(desired map[string]pull.Desired) { f.set(desired, true, "") }

func (f *Fleet) set(desired map[string]pull.Desired, decided bool, at gitstate.Revision) {
	f.mu.Lock()
	f.desired, f.decided, f.at = desired, decided, at
	f.mu.Unlock()
	signal(f.kick)
}

// Serve is Set by who does not lead, with the head that says so, and knows the members of agents as well, which it leaves
// alone.
func (f *Fleet) Serve(head gitstate.Revision, desired map[string]pull.Desired) {
	some := make(map[string]pull.Desired, len(desired))
	for name, d := range desired {
		if decide.DeliveryOf(d.Cluster) != decide.DeliveryPull {
			some[name] = d
		}
	}
	f.set(some, false, head)
}

// Tell has the others carry out what is decided by a head of the state branch.
func (f *Fleet) Tell(head gitstate.Revision) { f.o.Replica.Tell(head) }

// Told is the head that the leader told, and the number of the telling; Heads receives after it became another one.
func (f *Fleet) Told() (head gitstate.Revision, telling int64) { return f.o.Replica.Told() }

// Heads receives after Told became another one.
func (f *Fleet) Heads() <-chan struct{} { return f.o.Replica.heads }

// Observe gives what is known of all members now. One that changes hands is as it was known last.
func (f *Fleet) Observe() decide.Observations {
	seen := f.reports.Observe()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]decide.MemberFacts, len(f.desired))
	maps.Copy(all, seen.Members)
	for name, facts := range f.last {
		if _, wanted := f.desired[name]; !wanted {
			delete(f.last, name)
		} else if _, known := all[name]; !known {
			all[name] = facts
		}
	}
	maps.Copy(f.last, seen.Members)
	seen.Members = all
	return seen
}

// Changed gets a value after observations changed, while the replica leads.
func (f *Fleet) Changed() <-chan struct{} { return f.reports.Changed() }

// Run serves the share, and reports on it, until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { f.runReports(ctx) })
	group.Go(func() {
		f.watch(f.o.Replica.metas).Run(ctx, &watched{poster: f.poster, doubtful: f.stirred, versions: map[string]string{}})
	})
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.o.Local.Changed():
				signal(f.near.changed)
				signal(f.stirred)
			}
		}
	})
	for ctx.Err() == nil {
		f.divide(ctx)
		select {
		case <-ctx.Done():
		case <-f.kick:
		case <-f.o.Replica.shares:
		}
	}
	group.Wait()
}

// Lead reads the reports of the others, until stop is called.
func (f *Fleet) Lead(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	f.setLead(true)
	var group sync.WaitGroup
	group.Go(func() { f.watch(f.o.Replica.objects).Run(ctx, f.board) })
	group.Go(func() { f.reports.Run(ctx) })
	group.Go(func() { f.runTidy(ctx) })
	return func() {
		cancel()
		group.Wait()
		f.setLead(false)
	}
}

// watch is of the Secrets of reports.
func (f *Fleet) watch(objects dynamic.Interface) *observe.Watch {
	return &observe.Watch{
		Client:   objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(f.o.Replica.o.Namespace),
		Selector: labelReport + "=" + f.o.Replica.o.Name,
		Timeout:  listTime, RetryMin: f.o.Replica.o.RetryPeriod / 4, RetryMax: watchRetry, Clock: f.o.Clock,
	}
}

func (f *Fleet) setLead(leads bool) {
	f.mu.Lock()
	f.leads = leads
	f.mu.Unlock()
	f.o.Replica.lead(leads)
	signal(f.kick)
}

// runTidy deletes now and then what nobody needs.
func (f *Fleet) runTidy(ctx context.Context) {
	ticker := f.o.Clock.NewTicker(unneeded)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		f.mu.Lock()
		desired := f.desired
		f.mu.Unlock()
		if len(desired) > 0 { // or it is not known yet
			f.board.tidy(ctx, func(member string) bool { _, ok := desired[member]; return ok })
		}
	}
}

// divide has those members served that are ours now. What they had before they became ours others saw: it is asked for.
func (f *Fleet) divide(ctx context.Context) {
	share := f.o.Replica.Share()
	f.mu.Lock()
	desired, leads, was := f.desired, f.leads, f.share
	told, _ := f.o.Replica.Told()
	current := f.decided && f.o.Replica.o.Leading() || f.at != "" && f.at == told
	f.mu.Unlock()
	mine := map[string]pull.Desired{}
	var gained []string
	known := f.o.Local.Observe().Members
	for name, d := range desired {
		if share.Has(name) {
			mine[name] = d
			if _, ours := known[name]; !ours {
				gained = append(gained, name)
			}
		}
	}
	f.o.Local.Assume(f.ask(ctx, gained))
	f.mu.Lock()
	f.share = share
	f.mu.Unlock()
	f.dividing.Lock()
	f.serves = mine
	if leads {
		f.reports.Set(desired)
	} else {
		f.near.Set(mine)
	}
	f.dividing.Unlock()
	if current {
		f.o.Replica.carries(share.Roster)
	}
	if !share.Same(was) && share.Name != "" {
		f.o.Log.Info("serving members", "members", len(mine), "of", len(desired), "epoch", share.Roster.Epoch)
	}
	if share.Name != "" && f.o.Local.Left(ctx) == nil {
		f.o.Replica.follow(share.Roster.Epoch)
	}
}

const (
	// askTime is how long is waited for what others saw of members.
	askTime = 3 * time.Second
	// listTime is how long a page of reports may take.
	listTime = 30 * time.Second
	// postTime is how long reports may take that are written together.
	postTime = 20 * time.Second
	// hands is how many Secrets are read or written at a time.
	hands = 8
)

// ask reads how ready others saw members.
func (f *Fleet) ask(ctx context.Context, members []string) map[string]observe.Prober {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var mu sync.Mutex
	probers := map[string]observe.Prober{}
	each(members, func(member string) {
		s, err := f.o.Replica.secrets.Get(ctx, reportName(f.o.Replica.o.Name, member), metav1.GetOptions{})
		if err != nil {
			return // as where nobody saw it
		}
		files := map[string][]byte{}
		if unzip(s.Data[keyHead], files) != nil {
			return
		}
		status, reason, message, err := pull.Heading(treeOf(files), member)
		if err != nil || status == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		probers[member] = observe.Prober{Ready: observe.Condition{
			Result: observe.Result{Status: status, Reason: reason, Message: message}, Since: f.o.Clock.Now(),
		}}
	})
	return probers
}

// each does something for each name, some at a time.
func each(names []string, do func(name string)) {
	var group sync.WaitGroup
	next := make(chan string)
	for range min(hands, len(names)) {
		group.Go(func() {
			for name := range next {
				do(name)
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	group.Wait()
}

// reported is what was reported last on a member.
type reported struct {
	facts   decide.MemberFacts
	encoded *pull.Encoding // nil: nothing was yet
	next    time.Time      // when it would be due if reports came evenly
	failed  bool
}

// few is how many reports on a member may come at once.
const few = 5

// runReports reports what is new of our members.
func (f *Fleet) runReports(ctx context.Context) {
	told := map[string]*reported{}
	ticker := f.o.Clock.NewTicker(f.o.Replica.o.RetryPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		case <-f.stirred:
		}
		f.report(ctx, told)
		timer := f.o.Clock.NewTimer(f.o.Rest / 20) // what comes together is one report
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (f *Fleet) report(ctx context.Context, told map[string]*reported) {
	began := f.o.Clock.Now()
	f.dividing.Lock()
	seen, serves := f.o.Local.Observe().Members, f.serves
	f.dividing.Unlock()
	for name := range told {
		if _, ours := serves[name]; !ours {
			delete(told, name)
			f.poster.forget(name)
		}
	}
	failed := false
	var due []string
	for name, facts := range seen {
		t := told[name]
		switch {
		case t == nil:
			told[name] = &reported{}
		case !t.failed && !f.poster.doubted(name) && sameFacts(t.facts, facts):
			continue
		case t.facts.Ready == facts.Ready && t.next.Sub(began) > (few-1)*f.o.Rest:
			failed = failed || t.failed
			continue // it is soon looked at again
		}
		due = append(due, name)
	}
	slices.Sort(due)
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	var mu sync.Mutex
	each(due, func(name string) {
		t := told[name]
		next, err := pull.Encode(name, seen[name], serves[name].Retired, f.o.Version, t.encoded)
		if err == nil {
			t.encoded = next
			err = f.poster.post(ctx, name, next.Files)
		}
		if t.next.Before(began) {
			t.next = began
		}
		t.next = t.next.Add(f.o.Rest)
		if err != nil && !errors.Is(err, context.Canceled) && !t.failed {
			f.o.Log.Warn("what is seen of a member cannot be reported, it is tried again", "member", name, "error", err)
		}
		t.facts, t.failed = seen[name], err != nil
		mu.Lock()
		defer mu.Unlock()
		failed = failed || err != nil
	})
	if !failed {
		f.o.Replica.report(began)
	}
}

// sameFacts tells whether two snapshots of one member are one: it makes another one whenever something changed.
func sameFacts(a, b decide.MemberFacts) bool {
	return reflect.ValueOf(a.Copies).Pointer() == reflect.ValueOf(b.Copies).Pointer()
}
