package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
member, else the current one.`,
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
			return c.agent(cmd.Context(), name, log)
		},
	}
	cmd.Flags().StringVar(&name, "member", "", "name of the member that this cluster is")
	return cmd
}

// agent serves a member until ctx ends.
func (c *Config) agent(ctx context.Context, name string, log *slog.Logger) error {
	dir := filepath.Join(c.DataDir, "agent-"+record.AgentBranch(name))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	state, err := c.openDelivery(ctx, dir)
	if err != nil {
		return err
	}
	defer state.Close()
	reports, err := c.openReports(remote.Options{})
	if err != nil {
		return err
	}
	options := c.fleetOptions(log)
	var figures *metrics.Metrics
	var fleet *member.Fleet
	if c.Server.Address != "" {
		figures = metrics.New(metrics.Options{
			Version: version, Stats: func() map[string]member.Stats { return fleet.Stats() }, Packs: func() (int, error) { return pack.Count(dir) },
		})
		options.Tried = figures.Tried
	}
	fleet = member.New(c.own(), options)
	defer within(stopTime, fleet.Close)
	branch := record.AgentPrefix(c.State.Branch) + record.AgentBranch(name)
	agent := pull.NewAgent(pull.AgentOptions{
		Member: name, State: state, Poster: store.NewPoster(reports, branch, c.author()), Fleet: fleet, Version: version,
		Interval: c.Agent.PollInterval, Heartbeat: c.Agent.Heartbeat, Rest: min(2*time.Second, c.Agent.Heartbeat), Log: log.With("member", name),
	})
	if figures != nil {
		s, err := serve.Start(serve.Options{Address: c.Server.Address, Handler: serve.Operations(agent.Alive, agent.Ready, figures.Handler()), Log: log})
		if err != nil {
			return fmt.Errorf("server.address: %w", err)
		}
		log.Info("listening", "for", "server.address", "address", s.Address())
		defer within(stopTime, s.Close)
	}
	log.Info("serving the member", "member", name, "branch", c.State.Branch, "reports", reports, "to", branch)
	return agent.Run(ctx)
}

// openDelivery opens the state branch for an agent, which only reads it.
func (c *Config) openDelivery(ctx context.Context, dir string) (*store.Store, error) {
	r, err := c.stateRemote()
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errors.New("state.url: name the repository that has the state branch")
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
