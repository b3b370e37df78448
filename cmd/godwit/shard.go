package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/pull"
	"github.com/godwit-gitops/godwit/reconciler/shard"
)

// replica is this process among those that members are divided over; nil if they are not.
func (c *Config) replica(k *lasting, log *slog.Logger) (*shard.Replica, error) {
	if !c.Sharding.Enabled {
		return nil, nil
	}
	config, o, err := c.place(log)
	if err != nil {
		return nil, err
	}
	return shard.New(config, shard.Options{
		Namespace: o.Namespace, Name: o.Name, Identity: o.Identity, Log: log,
		Duration: o.Duration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Ready: func() bool {
			l := k.loop.Load()
			return l != nil && l.Ready() == nil && l.Behind() < behindTime
		},
		Leading: func() bool { return k.election.Leading() && k.election.May() },
	})
}

// behindTime is for how long a replica serves its members by what was decided before, as it cannot read what is decided
// now. Then others may be able to.
const behindTime = 45 * time.Second

// takePart has members served by this replica until it is left, which comes after nothing is in work any more.
func (s *service) takePart(ctx context.Context) (leave func()) {
	if s.replica == nil {
		return func() {}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { defer close(ended); s.replica.Run(running) }()
	return func() {
		stop()
		<-ended
		within(stopTime, s.replica.Leave)
	}
}

// share is the fleet of members that are pushed to: all of them, or those of this replica and what the others report.
func (c *Config) share(l *loop, log *slog.Logger) pull.Reachable {
	if l.lasting.replica == nil {
		return l.fleet
	}
	l.shards = shard.NewFleet(shard.FleetOptions{
		Replica: l.lasting.replica, Local: l.fleet, Version: version, Log: log,
		// A change of hands is no silence: a replica that dies is noticed first.
		Lease: max(c.Agent.LeaseDuration, 4*c.LeaderElection.LeaseDuration),
	})
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func(f *shard.Fleet) { defer close(ended); f.Run(running) }(l.shards)
	l.closers = append(l.closers, func() { stop(); <-ended })
	return l.shards
}
