package main

import (
	"cmp"
	"context"
	"crypto/fips140"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	githook "github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/lead"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/metrics"
	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/reconciler/shard"
	"github.com/godwit-gitops/godwit/reconciler/webhook"
	"github.com/godwit-gitops/godwit/render"
)

func newRun() *cobra.Command {
	var once bool
	var timeout time.Duration
	var profiles string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the reconciler",
		Long: `run follows the source and keeps the members as it says, committing every decision to the state
branch before it is carried out. With --once it makes one pass, waits until everything is applied or
--timeout is over, and ends: with status 4 if a member does not have what it should by then.

It follows its configuration file, and the files that are named there, as well: what changes is in force without a restart.
What cannot be used is reported, and the last one that could stays in force. SIGHUP has it read at once.

With server.address it answers /healthz, /readyz and /metrics there; with server.webhooks.address it takes push webhooks
of the forge, POST /hooks/github|gitea|gitlab|standard/ID, and looks at the source at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log := logger(cmd, c)
			member.BridgeKlog(log)
			log.Debug("started", "version", version, "fips140", fips140.Enabled())
			if once {
				return c.once(cmd, log, timeout)
			}
			s := &service{follower: follower{cmd: cmd, log: log}, profiles: profiles}
			return s.run(cmd.Context(), c)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "make one pass, wait until it is applied, and end; with leaderElection, while it holds the Lease")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long --once waits")
	cmd.Flags().StringVar(&profiles, "pprof", "", "address of this machine to serve profiles of the process at, such as 127.0.0.1:6060")
	return cmd
}

func (c *Config) once(cmd *cobra.Command, log *slog.Logger, timeout time.Duration) error {
	invalid := false
	if c.LeaderElection.Enabled {
		own := *c
		identity, err := own.identity()
		if err != nil {
			return err
		}
		own.LeaderElection.Identity = fmt.Sprintf("%s-once-%d", identity, os.Getpid()) // the replica beside us is another
		c = &own
	}
	l, err := c.loop(cmd.Context(), log, func(p reconciler.Progress) {
		invalid = false
		for _, f := range p.Decision.Findings {
			invalid = invalid || f.Severity == render.Error
		}
	})
	if err != nil {
		return err
	}
	defer l.close()
	var failures []reconciler.Failure
	once := func(ctx context.Context) (err error) {
		l.resume(ctx)
		failures, err = l.Once(ctx, timeout)
		return err
	}
	if l.lasting.election != nil {
		err = l.leadOnce(cmd.Context(), timeout, once)
	} else {
		err = once(cmd.Context())
	}
	if err != nil {
		return err
	}
	for _, f := range failures {
		fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %s: %s: %s\n", cmp.Or(f.Member, "webhooks"), f.Object, f.Message)
	}
	switch {
	case len(failures) > 0:
		return &statusError{exitMembers, fmt.Sprintf("%d objects or members are not as decided after %s", len(failures), timeout)}
	case invalid:
		return &statusError{status: exitFindings}
	}
	return nil
}

// loop is a reconciler with everything it works on.
type loop struct {
	*reconciler.Reconciler
	*audience
	lasting  *lasting
	stopTime time.Duration // how long objects in hand may take at the end
	closers  []func()
	closing  sync.Once
	fleet    *member.Fleet
	shards   *shard.Fleet // nil: who leads serves all members
	// stopFleet begins nothing more on members, and waits for what is in work.
	stopFleet func()
}

// lasting is what stays where one loop takes the place of another.
type lasting struct {
	election *lead.Election   // nil: nobody else leads
	keeper   *lead.Keeper     // of the election
	key      []byte           // for Secret values, which the replicas share; nil before it is known
	replica  *shard.Replica   // nil: who leads serves all members
	metrics  *metrics.Metrics // nil: nobody looks at them
	hooks    atomic.Pointer[githook.Receiver]
	loop     atomic.Pointer[loop] // the one that runs, or ran last

	// What the loop before the next one saw.
	probers map[string]observe.Prober
	cutOff  string
}

// lasting makes what the first loop needs of it.
func (c *Config) lasting(log *slog.Logger) (*lasting, error) {
	k := &lasting{}
	c.measure(k)
	hooks, err := c.receiver(k, log)
	if err != nil {
		return nil, err
	}
	k.hooks.Store(hooks)
	if k.election, k.keeper, err = c.election(log); err != nil {
		return nil, err
	}
	k.replica, err = c.replica(k, log)
	return k, err
}

// leadOnce does something while we hold the Lease. Whoever has it gets so much time to give it back.
func (l *loop) leadOnce(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	timer := time.AfterFunc(timeout, giveUp)
	defer timer.Stop()
	led := false
	err := l.lasting.election.Run(waiting, func(ctx context.Context) { <-ctx.Done() }, func(ctx context.Context) error {
		if !timer.Stop() {
			return nil // it was given up this moment
		}
		led = true
		defer l.stopFleet()
		return do(ctx)
	})
	switch {
	case led || err != nil:
	case ctx.Err() != nil: // nothing was done, and nobody is to believe it was
		err = context.Cause(ctx)
	default:
		err = fmt.Errorf("another replica holds the Lease, and did so for %s: it does what there is to do; --timeout says how long to wait for it", timeout)
	}
	return err
}

// Run decides and acts until ctx ends.
func (l *loop) Run(ctx context.Context) error {
	l.resume(ctx)
	return l.Reconciler.Run(ctx)
}

func (l *loop) close() {
	l.closing.Do(func() {
		for i := len(l.closers) - 1; i >= 0; i-- {
			l.closers[i]()
		}
	})
}

// stopTime is how long objects in hand may take when the process is asked to stop.
const stopTime = 10 * time.Second

// loop is a first and only one.
func (c *Config) loop(ctx context.Context, log *slog.Logger, report func(reconciler.Progress)) (*loop, error) {
	k, err := c.lasting(log)
	if err != nil {
		return nil, err
	}
	k.replica = nil // it serves all members, whoever else there is
	return c.loopIn(ctx, k, log, report)
}

// loopIn is the next loop. The one before is closed.
func (c *Config) loopIn(ctx context.Context, k *lasting, log *slog.Logger, report func(reconciler.Progress)) (_ *loop, err error) {
	l := &loop{lasting: k, stopTime: stopTime}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, err
	}
	src, done, err := c.openSource(false)
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, done)
	gate, err := c.gate(src)
	if err != nil {
		return nil, err
	}
	at := killAt(os.Getenv("GODWIT_KILL_AT"))
	st, err := c.openStore(ctx, log, at)
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, func() { st.Close() })
	reopen := func(ctx context.Context) (reconciler.Store, error) {
		st.Close()
		fresh, err := c.openStore(ctx, log, at)
		if err != nil {
			return nil, err
		}
		st = fresh
		return st, nil
	}
	clusters, err := c.openRegistry(log)
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, clusters.Close)
	if l.audience, err = c.audience(l, log, report); err != nil {
		return nil, err
	}
	fleetOptions := c.fleetOptions(log)
	fleetOptions.Tried, fleetOptions.Probers = l.tried(), k.probers
	switch {
	case k.replica != nil:
		fleetOptions.May = k.replica.May
	case k.election != nil:
		fleetOptions.May = func(string) bool { return k.election.May() }
	}
	l.fleet = member.New(clusters, fleetOptions)
	l.stopFleet = sync.OnceFunc(func() { within(l.stopTime, l.fleet.Close) })
	l.closers = append(l.closers, l.stopFleet)
	agents, done, err := c.openAgents(c.share(l, log), log)
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, done)
	options := c.options()
	if options.SecretKey, err = c.sharedKey(ctx, k); err != nil {
		return nil, err
	}
	if options.Keys, err = c.keyring(true); err != nil {
		return nil, err
	}
	if url := c.sourceURL(); url != "" {
		if r, err := c.Source.Auth.remote(url); err == nil {
			options.SourceURL = r.String()
		}
	}
	webhooks := webhook.New(webhook.Options{AllowedHosts: c.Webhooks.AllowedHosts})
	l.closers = append(l.closers, func() { within(l.stopTime, webhooks.Close) })
	hints, quit, err := c.hints(ctx, k.hooks.Load())
	if err != nil {
		return nil, err
	}
	l.closers = append(l.closers, quit)
	anchors := &observe.Anchors{Addresses: c.Failover.Anchors, Clock: clock.RealClock{}, Interval: c.Clusters.ProbeInterval, Timeout: c.Clusters.ProbeTimeout}
	anchors.Assume(k.cutOff)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); anchors.Watch(watching) }()
	l.closers = append(l.closers, func() { stop(); <-watched })
	config := reconciler.Config{
		Source: src, Gate: gate, Store: st, Fleet: agents, Registry: clusters, Webhooks: webhooks, Clock: clock.RealClock{}, Log: log, Options: options,
		Reopen: reopen, Hints: hints, PollInterval: c.Source.PollInterval, RequirePush: c.State.RequirePush,
		AccurateEstimator: c.Scheduling.AccurateEstimator, At: at, Report: l.told(), Failed: l.failed(), CutOff: anchors.CutOff,
	}
	if k.election != nil {
		config.Keeper = k.keeper
	}
	if l.shards != nil {
		config.Shards = l.shards
	}
	l.Reconciler = reconciler.New(config)
	return l, nil
}

func (c *Config) openStore(ctx context.Context, log *slog.Logger, at func(string)) (*store.Store, error) {
	r, err := c.stateRemote()
	if err != nil {
		return nil, err
	}
	o := store.Options{
		Branch: c.State.Branch, Dir: c.stateDir(), At: at,
		Author: c.author(),
	}
	if o.Sign, err = c.signer(); err != nil {
		return nil, err
	}
	trust, err := c.trust()
	if err != nil {
		return nil, err
	}
	if trust != nil {
		o.Admit = trust.Admit
	}
	if r != nil {
		o.Remote = r
	} else {
		log.Warn("the source is a folder in no repository and state.url is not set: decisions are kept on this machine alone", "dir", o.Dir)
	}
	return store.Open(ctx, o)
}

// stateDir is the clone of the state branch.
func (c *Config) stateDir() string { return filepath.Join(c.DataDir, "state") }

// sharedKey is the key for values of Secrets: of the file, that of all replicas, or our own.
func (c *Config) sharedKey(ctx context.Context, k *lasting) (key []byte, err error) {
	if k.election == nil || c.State.SecretKeyFile != "" {
		return c.secretKey()
	}
	if k.key == nil {
		k.key, err = k.election.Key(ctx)
	}
	return k.key, err
}

// secretKey reads the key that tells secret values apart in the record, or makes one. It is kept
// outside Git: who has it and the branch could test guesses of a value.
func (c *Config) secretKey() ([]byte, error) {
	if key, err := c.knownSecretKey(); key != nil || err != nil {
		return key, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	return key, os.WriteFile(c.secretKeyFile(), []byte(hex.EncodeToString(key)+"\n"), 0o600)
}

func (c *Config) secretKeyFile() string {
	return cmp.Or(c.State.SecretKeyFile, filepath.Join(c.DataDir, "secret.key"))
}

// knownSecretKey reads the key; it is nil if there is none yet.
func (c *Config) knownSecretKey() ([]byte, error) {
	file := c.secretKeyFile()
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.State.SecretKeyFile == "":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the key for secret values: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < 16 {
		return nil, fmt.Errorf("%s: is no key of at least 16 bytes in hex; remove it to have one made", file)
	}
	return key, nil
}

// killAt makes the process die by SIGKILL at the n-th time a step is reached, as "step:n" says. It
// shows that a crash anywhere loses nothing.
func killAt(spec string) func(step string) {
	if spec == "" {
		return nil
	}
	want, count, _ := strings.Cut(spec, ":")
	n, err := strconv.Atoi(count)
	if err != nil {
		n = 1
	}
	var mu sync.Mutex
	return func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if step != want {
			return
		}
		if n--; n == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}
