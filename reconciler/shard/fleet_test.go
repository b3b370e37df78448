package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/pull"
	"github.com/godwit-gitops/godwit/reconciler/roster"
)

// Members are divided over those who are there, and move no more than they have to.
func TestMembersAreServedByOneReplicaEach(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 30)
	a := c.start("a", true)
	c.divided(a)
	b, d := c.start("b", false), c.start("d", false)
	c.eventually("all three take part", func() bool { return len(b.local.names()) > 0 && len(d.local.names()) > 0 })
	c.divided(a, b, d)
	for _, p := range []*process{a, b, d} {
		for _, name := range p.local.names() {
			if want := roster.Owner([]string{"a", "b", "d"}, name); want != p.o.Identity {
				t.Errorf("%s is served by %s, and is of %s", name, p.o.Identity, want)
			}
		}
	}
	before := a.local.names()
	b.kill()
	c.divided(a, d)
	for _, name := range before {
		if !slices.Contains(a.local.names(), name) {
			t.Errorf("%s left a as b died", name)
		}
	}
	d.kill()
	d.Leave(t.Context())
	c.divided(a)
	if len(c.twice) > 0 {
		t.Errorf("served by two at a time: %v", c.twice)
	}
}

// Who cannot renew serves nothing, and goes on when it can again.
func TestAReplicaThatIsCutOffServesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	mine := b.local.names()[0]
	if !b.May(mine) || a.May(mine) {
		t.Fatalf("%s may be written to by b: %t, by a: %t", mine, b.May(mine), a.May(mine))
	}
	c.server.Freeze()
	c.eventually("nobody serves", func() bool { return len(a.local.names())+len(b.local.names()) == 0 })
	if b.May(mine) {
		t.Error("it may be written to still")
	}
	c.server.Thaw()
	c.divided(a, b)
	if len(c.twice) > 0 {
		t.Errorf("served by two at a time: %v", c.twice)
	}
}

// What a replica got from another one it leaves alone until it carries out what was decided by then.
func TestAReplicaThatIsBehindWritesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12)
	a, b := c.start("a", true), c.start("b", false)
	c.divided(a, b)
	may := func(p *process) bool {
		names := p.local.names()
		return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !p.May(name) })
	}
	c.eventually("both write", func() bool { return may(a) && may(b) })

	a.fleet.Tell("next") // b does not have that yet, which takes nothing from it
	c.eventually("b is told", func() bool { return b.told() == "next" })
	if !may(b) {
		t.Error("b lost what it had, as it does not have the newest head")
	}
	d := c.start("d", false) // with the head before
	c.eventually("d takes part", func() bool { return len(d.local.names()) > 0 && d.told() == "next" })
	c.divided(a, b, d)
	for _, p := range []*process{b, d} {
		if slices.ContainsFunc(p.local.names(), p.May) {
			t.Errorf("%s writes what was decided before", p.fleet.o.Replica.o.Identity)
		}
	}
	if !may(a) {
		t.Error("who decides may not write")
	}
	b.fleet.Serve("next", c.wants)
	c.eventually("b writes", func() bool { return may(b) })
	if may(d) {
		t.Error("d writes what was decided before")
	}
	d.fleet.Serve("next", c.wants)
	c.eventually("d writes", func() bool { return may(d) })
}

func TestARosterThatIsLostIsMadeAgain(t *testing.T) {
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	epoch := a.Share().Roster.Epoch
	if err := a.leases.Delete(t.Context(), a.rosterName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually("there is a newer one", func() bool { s := a.Share().Roster; return s.Epoch > epoch && s.Settled })
	c.divided(a, b)
	if len(c.twice) > 0 {
		t.Errorf("served by two at a time: %v", c.twice)
	}
}

func TestTheOthersAreToldTheHead(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.start("a", true), c.start("b", false)
	c.divided(a, b)
	for _, head := range []gitstate.Revision{"one", "two"} {
		a.fleet.Tell(head)
		c.eventually("b is told", func() bool { return b.told() == head })
		select {
		case <-b.fleet.Heads():
		case <-time.After(10 * time.Second):
			t.Fatal("nobody says so")
		}
	}
}

// Each telling has a higher number than those before, that of a head that was told once already, too, whoever tells, and
// where the roster was lost. Who lost the Lease and does not know it tells nothing.
func TestTellingsAreInOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	last := int64(0)
	for i, head := range []gitstate.Revision{"one", "two", "one", "three"} {
		if i == 3 {
			if err := a.leases.Delete(t.Context(), "godwit-roster", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		a.fleet.Tell(head)
		c.eventually("b is told", func() bool { return b.told() == head })
		_, telling := b.fleet.Told()
		if telling <= last {
			t.Errorf("the telling of %s, the %d., has number %d after %d", head, i, telling, last)
		}
		last = telling
	}
	if _, err := a.leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "godwit"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &b.o.Identity}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var looks, writes atomic.Int64
	c.server.Intercept(func(r *http.Request) *metav1.Status {
		switch {
		case strings.HasSuffix(r.URL.Path, "/leases/godwit"):
			looks.Add(1)
		case strings.HasSuffix(r.URL.Path, "/leases/godwit-roster"):
			writes.Add(1)
		}
		return nil
	})
	a.fleet.Tell("old")
	c.eventually("a looked", func() bool { return looks.Load() > 20 })
	if writes.Load() > 0 {
		t.Error("a tells what b may know better")
	}
	b.stop = b.fleet.Lead(t.Context())
	b.fleet.Tell("four")
	c.eventually("a is told", func() bool { return a.told() == "four" })
}

// What decisions depend on comes through as if the leader had seen it itself.
func TestWhatOthersSeeReachesTheLeader(t *testing.T) {
	c := newCluster(t, 8)
	web, gone := api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}, api.ID{Kind: "ConfigMap", Namespace: "default", Name: "gone"}
	live := api.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u", "annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"replicas": int64(2), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}}},
		"status":   map[string]any{"ratio": 0.5},
	}
	hash := fmt.Sprintf("%040x", 7)
	for name, d := range c.wants {
		d.Works = map[api.ID]pull.Work{web: {ID: web}}
		d.Retired = map[api.ID]pull.Retired{gone: {ID: gone, Since: 5}}
		c.wants[name] = d
		c.facts[name] = decide.MemberFacts{
			Ready: metav1.ConditionTrue, Reason: "ClusterReady", Message: "ok", UID: "uid-" + name, Version: "v1.36.1", APIsComplete: true, Namespaced: map[string]bool{"apps/Deployment": true},
			Copies: map[api.ID]decide.CopyFacts{
				web:  {Applied: hash, Live: live, Reason: decide.ReasonConflict, Message: "another manager"},
				gone: {Gone: true},
			},
			Tracked: map[api.ID]string{web: "argo:apps/Deployment:default/web"},
		}
	}
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	c.eventually("all is known", func() bool { return len(a.fleet.Observe().Members) == len(c.wants) })
	for name, got := range a.fleet.Observe().Members {
		want := c.facts[name]
		if got.Ready != want.Ready || got.Reason != want.Reason || got.Message != want.Message || got.UID != want.UID || got.Version != want.Version || !got.APIsComplete || !got.Namespaced["apps/Deployment"] {
			t.Errorf("%s: %+v", name, got)
		}
		if fmt.Sprint(got.Copies) != fmt.Sprint(want.Copies) || fmt.Sprint(got.Tracked) != fmt.Sprint(want.Tracked) {
			t.Errorf("%s has %v, tracked %v; want %v and %v", name, got.Copies, got.Tracked, want.Copies, want.Tracked)
		}
	}
	// It is news that a member is gone, or that an object is worse.
	theirs := b.local.names()[0]
	c.mu.Lock()
	facts := c.facts[theirs]
	facts.Ready, facts.Reason = metav1.ConditionFalse, "ClusterNotReachable"
	facts.Copies = map[api.ID]decide.CopyFacts{web: {Health: workv1alpha2.ResourceUnhealthy}}
	c.facts[theirs] = facts
	c.mu.Unlock()
	signal(b.local.changed)
	c.eventually("the leader knows", func() bool { return a.fleet.Observe().Members[theirs].Ready == metav1.ConditionFalse })
	select {
	case <-a.fleet.Changed():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody says so")
	}
}

// A change of hands is no news of a member, whoever dies. Who takes a member over goes on with what the one before saw.
func TestAMemberThatChangesHandsIsAsItWas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 10)
	a, b, d := c.start("a", true), c.start("b", false), c.start("d", false)
	c.eventually("all take part", func() bool { return len(b.local.names()) > 0 && len(d.local.names()) > 0 })
	c.divided(a, b, d)
	c.eventually("all is known", func() bool { return len(a.fleet.Observe().Members) == len(c.wants) })
	ready := func(p *process) {
		t.Helper()
		seen := p.fleet.Observe().Members
		for name := range c.wants {
			if seen[name].Ready != metav1.ConditionTrue {
				t.Fatalf("%s is %+v", name, seen[name])
			}
		}
	}
	// For a moment nobody of those who take over has looked.
	blind := func(string) (decide.MemberFacts, bool) { return decide.MemberFacts{}, false }
	theirs := b.local.names()
	for _, p := range []*process{a, d} {
		had := p.local.Observe().Members
		p.local.mu.Lock()
		p.local.sees = func(name string) (decide.MemberFacts, bool) {
			if facts, ok := had[name]; ok {
				return facts, true
			}
			return blind(name)
		}
		p.local.mu.Unlock()
	}
	b.kill()
	c.eventually("they take over", func() bool {
		ready(a)
		return len(a.local.names())+len(d.local.names()) == len(c.wants)
	})
	for _, p := range []*process{a, d} {
		p.local.mu.Lock()
		for name, prober := range p.local.assumed {
			if slices.Contains(theirs, name) && prober.Ready.Status != metav1.ConditionTrue {
				t.Errorf("%s takes %s over as %+v", p.o.Identity, name, prober.Ready)
			}
		}
		if n := len(p.local.assumed); n == 0 && len(p.local.names()) > 3 {
			t.Errorf("%s took members over, and asked for nothing", p.o.Identity)
		}
		p.local.sees = nil
		p.local.mu.Unlock()
		signal(p.local.changed)
	}
	ready(a)
	// The leader dies, and the one that leads next knows all members at once.
	a.kill()
	d.stop = d.fleet.Lead(t.Context())
	c.eventually("the next leader knows all", func() bool { return len(d.fleet.Observe().Members) == len(c.wants) })
	ready(d)
	c.divided(d)
	ready(d)
}

// Nobody reports on a member that a replica serves which hangs: after the lease it is Unknown. One that lives and has nothing
// new to say writes nothing.
func TestAReplicaThatHangsMakesItsMembersUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	c.eventually("all is known", func() bool { return len(a.fleet.Observe().Members) == len(c.wants) })
	theirs := b.local.names()[0]
	c.eventually("its reports do not change", func() bool {
		s, err := b.secrets.Get(t.Context(), reportName("godwit", theirs), metav1.GetOptions{})
		if err != nil {
			return false
		}
		mark := func() string { b.Replica.mu.Lock(); defer b.Replica.mu.Unlock(); return b.reported }
		began := mark()
		c.eventually("b reports again", func() bool { return mark() != began })
		now, err := b.secrets.Get(t.Context(), s.Name, metav1.GetOptions{})
		return err == nil && now.ResourceVersion == s.ResourceVersion
	})
	b.local.mu.Lock() // whoever looks at it waits
	defer b.local.mu.Unlock()
	c.eventually("it is Unknown", func() bool { return a.fleet.Observe().Members[theirs].Ready == metav1.ConditionUnknown })
	if facts := a.fleet.Observe().Members[theirs]; facts.Reason != pull.ReasonSilent || facts.Message != "the replica stopped reporting" {
		t.Errorf("it is %+v", facts)
	}
}

// The Lease of a replica that died stays until it can be told apart from one that is slow, and not for ever.
func TestTheLeaseOfADeadReplicaGoesInTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	a, b := c.start("a", true), c.start("b", false)
	there := func() int {
		all, err := a.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	c.eventually("both have a Lease, and there is a roster", func() bool { return there() == 3 && a.Size() == 2 })
	b.kill()
	c.eventually("b takes no part", func() bool { return a.Size() == 1 })
	all, err := a.list(t.Context())
	if err != nil || len(all.Items) != 3 {
		t.Fatalf("%d Leases are there, %v", len(all.Items), err)
	}
	now := a.o.Clock.Now()
	a.kill() // so that its presence is ours
	a.bury(t.Context(), all.Items, now.Add(buried/2*a.o.Duration))
	if there() != 3 {
		t.Error("it went too early")
	}
	for i := range all.Items { // a was there a moment ago
		if *all.Items[i].Spec.HolderIdentity == "a" && all.Items[i].Name != a.rosterName() {
			all.Items = append(all.Items[:i], all.Items[i+1:]...)
			break
		}
	}
	a.bury(t.Context(), all.Items, now.Add((buried+2)*a.o.Duration))
	if there() != 2 {
		t.Errorf("%d Leases are there", there())
	}
}

// That the replica lives which took a member over says nothing of the member until it reported, nor does the one before.
func TestAMemberThatNobodyLooksAtIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12)
	c.blind = "d"
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	c.eventually("all is known", func() bool { return len(a.fleet.Observe().Members) == len(c.wants) })
	before := b.local.names()
	d := c.start("d", false)
	c.eventually("d takes part", func() bool { return len(d.local.names()) > 0 })
	c.divided(a, b, d)
	lost := slices.DeleteFunc(d.local.names(), func(name string) bool { return !slices.Contains(before, name) })
	if len(lost) == 0 {
		t.Fatal("nothing went from b to d")
	}
	c.eventually("it is Unknown", func() bool { return a.fleet.Observe().Members[lost[0]].Ready == metav1.ConditionUnknown })
	for _, name := range b.local.names() {
		if facts := a.fleet.Observe().Members[name]; facts.Ready != metav1.ConditionTrue {
			t.Errorf("%s, which b reports on, is %+v", name, facts)
		}
	}
	// When it is looked at, it is as it is.
	d.local.mu.Lock()
	d.local.sees = nil
	d.local.mu.Unlock()
	signal(d.local.changed)
	c.eventually("it is ready", func() bool { return a.fleet.Observe().Members[lost[0]].Ready == metav1.ConditionTrue })
}

// What cannot be reported is not known, though the replica that sees it lives.
func TestWhatCannotBeReportedIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	c.eventually("all is known", func() bool { return len(a.fleet.Observe().Members) == len(c.wants) })
	var full atomic.Bool
	full.Store(true)
	c.server.Intercept(func(r *http.Request) *metav1.Status {
		if full.Load() && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets") {
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "exceeded quota"}
		}
		return nil
	})
	theirs := b.local.names()[0]
	c.mu.Lock()
	facts := c.facts[theirs]
	facts.Message, facts.Copies = "as ever", map[api.ID]decide.CopyFacts{}
	c.facts[theirs] = facts
	c.mu.Unlock()
	signal(b.local.changed)
	c.eventually("it is Unknown", func() bool { return a.fleet.Observe().Members[theirs].Ready == metav1.ConditionUnknown })
	full.Store(false)
	c.eventually("it is known", func() bool {
		now := a.fleet.Observe().Members[theirs]
		return now.Ready == metav1.ConditionTrue && now.Message == "as ever"
	})
}

// Nobody begins with a member while something is in work on it elsewhere.
func TestAMemberIsTakenOverWhenItIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12)
	a := c.start("a", true)
	c.divided(a)
	a.local.mu.Lock()
	a.local.leaving = make(chan struct{})
	a.local.mu.Unlock()
	b := c.start("b", false)
	c.eventually("a gave members up", func() bool { return len(a.local.names()) < 12 })
	c.eventually("b follows the epoch", func() bool { b.Replica.mu.Lock(); defer b.Replica.mu.Unlock(); return b.follows == 2 })
	turns := func() string { b.Replica.mu.Lock(); defer b.Replica.mu.Unlock(); return b.marks["a"] + b.marks["b"] }
	for range 3 { // and it stays so
		was := turns()
		c.eventually("time passes", func() bool { return turns() != was })
	}
	if n := len(b.local.names()); n != 0 || b.Share().Roster.Settled {
		t.Fatalf("b serves %d members that a has not left", n)
	}
	close(a.local.leaving)
	c.divided(a, b)
}

// A leader that comes back tells what it decides then, and not what it told before another one led.
func TestALeaderThatComesBackTellsNothingOld(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a, b := c.start("a", true), c.start("b", false)
	c.divided(a, b)
	a.fleet.Tell("one")
	c.eventually("b is told", func() bool { return b.told() == "one" })
	a.stop()
	b.stop = b.fleet.Lead(t.Context())
	b.fleet.Tell("two")
	c.eventually("a is told", func() bool { return a.told() == "two" })
	b.stop()
	b.stop = func() {}
	a.stop = a.fleet.Lead(t.Context())
	d := c.start("d", false) // which the leader has to let in
	c.eventually("d takes part", func() bool { return d.Size() == 3 && d.Share().Roster.Settled })
	if head := d.told(); head != "two" {
		t.Errorf("the head is %s", head)
	}
	a.fleet.Tell("one") // decided anew
	c.eventually("d is told", func() bool { return d.told() == "one" })
}

// While a process leads that knows nothing of shares, as while they are switched on, it serves all members, and nobody else any.
func TestNobodyServesBesideALeaderThatServesAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	old := "old"
	lease, err := a.leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "godwit"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &old}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually("nobody serves", func() bool { return len(a.local.names())+len(b.local.names()) == 0 })
	for _, holder := range []string{"a", "old", "", "b"} {
		lease.Spec.HolderIdentity = &holder
		if lease, err = a.leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if holder == "old" {
			c.eventually("nobody serves", func() bool { return len(a.local.names())+len(b.local.names()) == 0 })
		} else {
			c.divided(a, b)
		}
	}
}

// A leader that cannot serve yet is one of those that divide members, and serves none.
func TestAReplicaThatIsNotReadyTakesNoPart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a := c.start("a", true)
	c.divided(a)
	holder := "late"
	led, err := a.leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "godwit"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	led.Spec.HolderIdentity = &a.o.Identity
	c.eventually("nobody serves", func() bool { return len(a.local.names()) == 0 })
	var ready atomic.Bool
	late, err := New(c.server.RestConfig(), Options{
		Namespace: "default", Name: "godwit", Identity: holder, Log: slog.New(slog.DiscardHandler), Ready: ready.Load, Leading: func() bool { return true },
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); late.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	c.divided(a)
	if a.Size() != 1 {
		t.Errorf("%d replicas take part", a.Size())
	}
	if _, err := a.leases.Update(t.Context(), led, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready.Store(true)
	c.eventually("it takes part", func() bool { return a.Size() == 2 && late.Share().Name == holder })
}

// Two processes that were given one identity do not serve at the same time: the second one waits until the first is gone.
func TestOfTwoProcessesWithOneIdentityOneServes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a := c.start("a", true)
	c.divided(a)
	var asked atomic.Int64
	c.server.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases/godwit-replica-a") {
			asked.Add(1)
		}
		return nil
	})
	twin := c.start("a", false)
	c.eventually("the other one asked whether it may", func() bool { return asked.Load() > 60 || len(twin.local.names()) > 0 }) // for longer than a Lease lasts
	if c.divided(a); len(twin.local.names()) > 0 || twin.Share().Name != "" {
		t.Fatalf("the other one serves %v", twin.local.names())
	}
	a.kill()
	twin.stop = twin.fleet.Lead(t.Context())
	c.divided(twin)
}

// Who renews and cannot read knows of no epoch, and the others would wait for it for ever.
func TestAReplicaThatCannotReadGivesItsShareUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12)
	var deaf atomic.Bool
	c.hinder = func(replica string, r *http.Request) error {
		if replica == "b" && deaf.Load() && r.Method == http.MethodGet {
			return errors.New("no answer")
		}
		return nil
	}
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	deaf.Store(true)
	d := c.start("d", false)
	c.eventually("b serves nothing, and d some", func() bool { return len(b.local.names()) == 0 && len(d.local.names()) > 0 })
	c.divided(a, d)
	deaf.Store(false)
	c.eventually("b takes part again", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b, d)
	if len(c.twice) > 0 {
		t.Errorf("served by two at a time: %v", c.twice)
	}
}

// Whatever a person writes into Leases, members are served, and what has no use is not written again and again.
func TestAbsurdLeasesHinderNobody(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	theirs := b.local.names()
	mark := func() string { b.Replica.mu.Lock(); defer b.Replica.mu.Unlock(); return b.reported }
	lease := func(name, holder string) {
		t.Helper()
		l := a.lease(name)
		l.Annotations[annotationEpoch] = "9223372036854775807"
		l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &metav1.MicroTime{Time: time.Now()}
		if _, err := a.leases.Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lease("zzz", "b") // as if b had another one, that it does not renew
	began := time.Now()
	c.eventually("a Lease ran out since", func() bool { return mark() > fmt.Sprint(began.Add(3*time.Second).UnixMilli()) })
	if got := b.local.names(); !slices.Equal(got, theirs) {
		t.Errorf("b serves %v, and served %v", got, theirs)
	}
	lease("godwit-replica-x", "x")
	c.eventually("x is awaited", func() bool { return a.Size() == 3 })
	c.eventually("x is dead", func() bool { return a.Size() == 2 && a.Share().Roster.Settled })
	c.divided(a, b)
	l, err := a.leases.Get(t.Context(), a.rosterName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.Annotations[annotationList] = roster.Roster{Epoch: 1<<63 - 1, Replicas: []string{"a", "b"}, Settled: true}.Encode()
	if _, err := a.leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.kill()
	c.eventually("b is dead", func() bool { return a.Size() == 1 })
	c.divided(a)
	if epoch := a.Share().Roster.Epoch; epoch > 100 {
		t.Errorf("the epoch is %d", epoch)
	}
	if len(c.twice) > 0 {
		t.Errorf("served by two at a time: %v", c.twice)
	}
}
