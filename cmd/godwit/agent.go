package main

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/metrics"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/reconciler/pull"
	"github.com/godwit-gitops/godwit/reconciler/serve"
)

func newAgent() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "agent --member NAME",
		Short: "Serve a member that nobody can reach, from within",
		Long: `agent runs in a member whose Cluster says syncMode: Pull. It takes what is for the member from the state branch, keeps
the member so, and reports on a branch of its own, named after the state branch: godwit/state-agents/NAME. All it needs
is that repository, state.url, which it reads and pushes its one branch to; the source and the management cluster it never
sees. With agent.url reports go to another repository, so that it needs only to read the first.

It uses its pod's service account, or the context of --kubeconfig, clusters.kubeconfig or $KUBECONFIG that is named as the
member, else the current one.

It follows its configuration file, and the files that are named there, as run does.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if name == "" {
				return errors.New("--member: name the member that this cluster is, as its Cluster manifest does")
			}
			log := logger(cmd, c)
			member.BridgeKlog(log)
			log.Debug("started", "version", version, "fips140", fips140.Enabled())
			t := &tending{follower: follower{cmd: cmd, log: log}, member: name}
			return t.run(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&name, "member", "", "name of the member that this cluster is")
	return cmd
}

// tending is godwit agent: one agent after the other, each of the configuration in force.
type tending struct {
	follower
	member  string
	metrics *metrics.Metrics // nil: nobody looks at them
	agent   atomic.Pointer[tended]
}

// tended is an agent with everything it works on.
type tended struct {
	*pull.Agent
	fleet *member.Fleet
	state *store.Store
}

func (a *tended) close() {
	within(stopTime, a.fleet.Close)
	a.state.Close()
}

// run serves the member until ctx ends.
func (t *tending) run(ctx context.Context, c *Config) (err error) {
	now := inForce{config: c, files: c.prints()}
	t.measure(c)
	a, err := t.open(ctx, c, nil)
	if err != nil {
		return err
	}
	t.agent.Store(a)
	defer func() { t.agent.Load().close() }()
	if now.listeners, err = t.listen(c); err != nil {
		return err
	}
	t.try, t.reloaded = t.prepare, t.count
	defer t.follow(ctx, now)()
	for {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func(a *tended) { ended <- a.Run(running) }(t.agent.Load())
		next, err := t.await(ctx, ended)
		stop()
		if next == nil {
			return err
		}
		if err := <-ended; err != nil || ctx.Err() != nil {
			closeListeners(next.listeners, t.listeners)
			return err
		}
		if err := t.replace(ctx, next); err != nil {
			return err
		}
	}
}

// measure begins to collect figures, if they are served and nobody does yet.
func (t *tending) measure(c *Config) {
	if c.Server.Address == "" || t.metrics != nil {
		return
	}
	dir := c.agentDir(t.member)
	t.metrics = metrics.New(metrics.Options{
		Version: version, Packs: func() (int, error) { return pack.Count(dir) },
		Stats: func() map[string]member.Stats {
			if a := t.agent.Load(); a != nil {
				return a.fleet.Stats()
			}
			return nil
		},
	})
}

func (t *tending) listen(c *Config) ([]listener, error) {
	if c.Server.Address == "" {
		return nil, nil
	}
	return t.follower.open([]serving{{"server.address", serve.Options{
		Address: c.Server.Address, Handler: serve.Operations(t.alive, t.isReady, t.metrics.Handler()),
	}}})
}

// alive and isReady answer probes for the agent that runs.
func (t *tending) alive() error   { return t.agent.Load().Alive() }
func (t *tending) isReady() error { return t.agent.Load().Ready() }

func (t *tending) count(ok bool) {
	if t.metrics != nil {
		t.metrics.Reloaded(ok)
	}
}

// prepare tries out all that can go wrong, and opens what the process is to listen on.
func (t *tending) prepare(next *candidate) (err error) {
	c := next.config
	if err := first(
		func() error { _, err := c.deliveryRemote(); return err },
		func() error { _, err := c.openReports(remote.Options{}); return err },
		func() error { _, err := c.trust(); return err },
	); err != nil {
		return err
	}
	t.measure(c)
	next.listeners, err = t.listen(c)
	return err
}

// replace ends the agent, which nobody runs any more, and begins the next one. If that turns out to be impossible it
// goes on with another one of the configuration in force.
func (t *tending) replace(ctx context.Context, next *candidate) error {
	old := t.agent.Load()
	old.close()
	probers := old.fleet.Probers()
	a, err := t.open(ctx, next.config, probers)
	if err == nil {
		t.agent.Store(a)
		t.adopt(ctx, next.inForce)
		t.reloaded(true)
		t.log.Info("the configuration changed", "settings", next.changed)
		return nil
	}
	closeListeners(next.listeners, t.listeners)
	if ctx.Err() != nil {
		return nil // the process was asked to stop meanwhile
	}
	t.refuse(next.files, err)
	if a, err = t.open(ctx, t.config, probers); err != nil {
		return fmt.Errorf("go on with the last configuration: %w", err)
	}
	t.agent.Store(a)
	return nil
}

// agentDir is where the agent of a member keeps what it knows.
func (c *Config) agentDir(name string) string {
	return filepath.Join(c.DataDir, "agent-"+record.AgentBranch(name))
}

// open makes an agent. probers are what the one before it saw.
func (t *tending) open(ctx context.Context, c *Config, probers map[string]observe.Prober) (*tended, error) {
	dir := c.agentDir(t.member)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	reports, err := c.openReports(remote.Options{})
	if err != nil {
		return nil, err
	}
	from, err := c.deliveryRemote()
	if err != nil {
		return nil, err
	}
	state, err := c.openDelivery(ctx, dir)
	if err != nil {
		return nil, err
	}
	options := c.fleetOptions(t.log)
	options.Probers = probers
	if t.metrics != nil {
		options.Tried = t.metrics.Tried
	}
	fleet := member.New(c.own(), options)
	branch := record.AgentPrefix(c.State.Branch) + record.AgentBranch(t.member)
	agent := pull.NewAgent(pull.AgentOptions{
		Member: t.member, State: state, Poster: store.NewPoster(reports, branch, c.author()), Fleet: fleet, Version: version,
		Marker: dir + ".json", Branch: fmt.Sprintf("%s %s", from, c.State.Branch), Interval: c.Agent.PollInterval, Heartbeat: c.Agent.Heartbeat, Rest: min(2*time.Second, c.Agent.Heartbeat), Log: t.log.With("member", t.member),
	})
	t.log.Info("serving the member", "member", t.member, "branch", c.State.Branch, "reports", reports, "to", branch)
	return &tended{agent, fleet, state}, nil
}

// deliveryRemote has the state branch, as an agent reads it.
func (c *Config) deliveryRemote() (*remote.Remote, error) {
	r, err := c.stateRemote()
	if err == nil && r == nil {
		err = errors.New("state.url: name the repository that has the state branch")
	}
	return r, err
}

// openDelivery opens the state branch for an agent, which only reads it.
func (c *Config) openDelivery(ctx context.Context, dir string) (*store.Store, error) {
	r, err := c.deliveryRemote()
	if err != nil {
		return nil, err
	}
	o := store.Options{Remote: r, Branch: c.State.Branch, Dir: dir, Author: c.author()}
	trust, err := c.trust()
	if err != nil {
		return nil, err
	}
	if trust != nil {
		o.Admit = trust.Admit
	}
	return store.Open(ctx, o)
}

// author makes commits.
func (c *Config) author() store.Signature {
	return store.Signature{Name: c.State.Author.Name, Email: c.State.Author.Email}
}

// openReports is where agents report: the repository of the state branch, unless something else is said. It is nil where
// there is none.
func (c *Config) openReports(o remote.Options) (*remote.Remote, error) {
	auth := c.Agent.Auth
	o.URL = c.Agent.URL
	if o.URL == "" {
		o.URL = c.stateURL()
		for _, other := range []authConfig{c.State.Auth, c.Source.Auth} {
			if auth == (authConfig{}) {
				auth = other
			}
		}
	}
	if o.URL == "" {
		return nil, nil
	}
	r, err := auth.open(o)
	if err != nil {
		return nil, fmt.Errorf("agent.url: %w", err)
	}
	return r, nil
}

// own is the way to the cluster that an agent is in.
func (c *Config) own() member.Own {
	if len(c.Clusters.Kubeconfig) == 0 && os.Getenv("KUBECONFIG") == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return member.Own{}
	}
	return member.Own{Kubeconfig: c.kubeconfig()}
}

// fleetOptions are how members are watched and written to, by the reconciler and by agents.
func (c *Config) fleetOptions(log *slog.Logger) member.Options {
	return member.Options{
		Fleet: c.Fleet, ProbeInterval: c.Clusters.ProbeInterval, ProbeTimeout: c.Clusters.ProbeTimeout,
		RetryInterval:     min(2*time.Second, c.Clusters.ProbeInterval),
		AccurateEstimator: c.Scheduling.AccurateEstimator,
		Thresholds:        &observe.Thresholds{Success: c.Clusters.SuccessThreshold, Failure: c.Clusters.FailureThreshold}, Logger: log,
	}
}

// openAgents adds the members that agents serve to the fleet of those that are pushed to.
func (c *Config) openAgents(pushed pull.Reachable, log *slog.Logger) (_ *pull.Fleet, done func(), err error) {
	prefix := record.AgentPrefix(c.State.Branch)
	o := pull.FleetOptions{Pushed: pushed, Branches: prefix, Interval: c.Agent.PollInterval, Lease: c.Agent.LeaseDuration, Log: log}
	// What agents push is not to fill this machine.
	r, err := c.openReports(remote.Options{MaxBytes: pull.MaxBytes, MaxObject: pull.MaxObject, MaxObjects: pull.MaxObjects})
	if err != nil {
		return nil, nil, err
	}
	release := func() {}
	if r != nil {
		board, err := store.OpenBoard(r, filepath.Join(c.DataDir, "agents"), prefix)
		if err != nil {
			return nil, nil, err
		}
		o.Board, release = board, board.Close
	}
	fleet := pull.NewFleet(o)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); fleet.Run(running) }()
	return fleet, func() { stop(); <-ended; release() }, nil
}
