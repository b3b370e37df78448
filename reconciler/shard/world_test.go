package shard

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/reconciler/pull"
)

// cluster is what all members look like to whoever serves them, and who may write to them.
type cluster struct {
	*testing.T
	server *membertest.Server
	wants  map[string]pull.Desired

	blind string // the replica that looks at nothing

	hinder func(replica string, r *http.Request) error // nil: nothing does

	mu      sync.Mutex
	facts   map[string]decide.MemberFacts
	writers map[string]string // by member
	twice   []string
}

func newCluster(t *testing.T, members int) *cluster {
	c := &cluster{
		T: t, server: membertest.Start(t, "management"), wants: map[string]pull.Desired{},
		facts: map[string]decide.MemberFacts{}, writers: map[string]string{},
	}
	for i := range members {
		name := fmt.Sprintf("m%02d", i)
		c.wants[name] = pull.Desired{Cluster: &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, Works: map[api.ID]pull.Work{{Kind: "ConfigMap", Name: "c"}: {}}}
		c.facts[name] = decide.MemberFacts{Ready: metav1.ConditionTrue, Reason: "ClusterReady", UID: name, Copies: map[api.ID]decide.CopyFacts{}}
	}
	return c
}

// local is the fleet of one replica.
type local struct {
	*cluster
	name    string
	changed chan struct{}

	mu      sync.Mutex
	serves  map[string]pull.Desired
	assumed map[string]observe.Prober
	sees    func(member string) (decide.MemberFacts, bool) // nil: as the cluster says
	leaving chan struct{}                                  // nil: nothing is in work
}

func (l *local) Set(desired map[string]pull.Desired) {
	l.cluster.mu.Lock()
	for name := range l.serves {
		if _, still := desired[name]; !still && l.writers[name] == l.name {
			delete(l.writers, name)
		}
	}
	for name := range desired {
		if by := l.writers[name]; by != "" && by != l.name {
			l.twice = append(l.twice, fmt.Sprintf("%s by %s and %s", name, by, l.name))
		}
		l.writers[name] = l.name
	}
	l.cluster.mu.Unlock()
	l.mu.Lock()
	l.serves = desired
	l.mu.Unlock()
	signal(l.changed)
}

func (l *local) Observe() decide.Observations {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := decide.Observations{Members: map[string]decide.MemberFacts{}}
	for name := range l.serves {
		if l.sees != nil {
			if facts, ok := l.sees(name); ok {
				o.Members[name] = facts
			}
			continue
		}
		l.cluster.mu.Lock()
		o.Members[name] = l.facts[name]
		l.cluster.mu.Unlock()
	}
	return o
}

func (l *local) Changed() <-chan struct{} { return l.changed }

func (l *local) Left(ctx context.Context) error {
	l.mu.Lock()
	leaving := l.leaving
	l.mu.Unlock()
	if leaving == nil {
		return nil
	}
	select {
	case <-leaving:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *local) Assume(probers map[string]observe.Prober) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assumed = probers
}

// names of the members that are served.
func (l *local) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.serves))
}

// hindered is the way to the management cluster of one replica.
type hindered struct {
	*cluster
	replica string
	next    http.RoundTripper
}

func (h hindered) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.hinder != nil {
		if err := h.hinder(h.replica, r); err != nil {
			return nil, err
		}
	}
	return h.next.RoundTrip(r)
}

// process is a replica that runs.
type process struct {
	*Replica
	fleet *Fleet
	local *local
	kill  func()
	stop  func() // lead no more
}

func (c *cluster) start(name string, leads bool) *process {
	c.Helper()
	config := c.server.RestConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return hindered{c, name, next} })
	r, err := New(config, Options{
		Namespace: "default", Name: "godwit", Identity: name, Log: slog.New(slog.DiscardHandler),
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 50 * time.Millisecond,
		Ready: func() bool { return true }, Leading: func() bool { return true },
	})
	if err != nil {
		c.Fatal(err)
	}
	l := &local{cluster: c, name: name, changed: make(chan struct{}, 1)}
	if name == c.blind {
		l.sees = func(string) (decide.MemberFacts, bool) { return decide.MemberFacts{}, false }
	}
	p := &process{Replica: r, local: l, fleet: NewFleet(FleetOptions{
		Replica: r, Local: l, Version: "v1", Lease: 4 * time.Second, Rest: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { r.Run(ctx) })
	group.Go(func() { p.fleet.Run(ctx) })
	p.stop = func() {}
	if leads {
		p.stop = p.fleet.Lead(ctx)
	}
	p.kill = sync.OnceFunc(func() {
		cancel()
		p.stop()
		group.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.writers, func(_, by string) bool { return by == name })
	})
	c.Cleanup(p.kill)
	if leads {
		p.fleet.Set(c.wants)
		p.fleet.Tell("head")
	} else {
		p.fleet.Serve("head", c.wants)
	}
	return p
}

func (p *process) told() gitstate.Revision {
	head, _ := p.fleet.Told()
	return head
}

// eventually waits for what is on its way.
func (c *cluster) eventually(what string, holds func() bool) {
	c.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			c.Fatalf("not after 20s: %s", what)
		}
	}
}

// divided waits until each member is served by one of the processes.
func (c *cluster) divided(all ...*process) {
	c.Helper()
	c.eventually("all members are served, each by one", func() bool {
		var served []string
		for _, p := range all {
			served = append(served, p.local.names()...)
		}
		slices.Sort(served)
		return slices.Equal(served, slices.Sorted(maps.Keys(c.wants)))
	})
}
