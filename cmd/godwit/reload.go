package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"

	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/reconciler/lead"
	"github.com/godwit-gitops/godwit/reconciler/notify"
	"github.com/godwit-gitops/godwit/reconciler/serve"
)

// service is godwit run: one loop after the other, each of the configuration in force. When another one can come in
// force the loop ends, between or within passes, as it does when the process is asked to stop: what it decided is
// on the state branch, and objects in work are finished. The next one goes on from there, in the same process, which
// holds its Lease and answers its probes meanwhile.
type service struct {
	*lasting
	follower
	profiles string // where they are served; empty means nowhere
	ready    atomic.Bool
}

func (s *service) run(ctx context.Context, c *Config) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if s.profiles != "" {
		if err := serve.Loopback(s.profiles); err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
	}
	first := inForce{config: c, files: c.prints()}
	if s.lasting, err = c.lasting(s.log); err != nil {
		return err
	}
	defer s.takePart(ctx)()
	l, err := c.loopIn(ctx, s.lasting, s.log, nil)
	if err != nil {
		return err
	}
	s.loop.Store(l)
	defer func() { s.loop.Load().close() }()
	if first.listeners, err = s.listen(c); err != nil {
		return err
	}
	s.try, s.reloaded = s.prepare, s.count
	defer s.follow(ctx, first)()
	if s.election == nil {
		return s.each(ctx, ctx, (*loop).Run)
	}
	err = s.election.Run(ctx, func(waiting context.Context) {
		if err := s.each(ctx, waiting, (*loop).standBy); err != nil {
			end(err)
		}
	}, func(leading context.Context) error {
		err := s.each(ctx, leading, (*loop).lead)
		l := s.loop.Load()
		if errors.Is(context.Cause(leading), lead.ErrLost) {
			l.stopTime = s.election.Grace() // somebody else may lead after it
		}
		l.stopFleet()
		l.close() // before the Lease is given back: what is in work ends first
		return err
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(err, lead.ErrLost):
		return fmt.Errorf("%w: this process ends, to stand by when it is started again", err)
	case err == nil && cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	}
	return err
}

// standBy keeps up with the one who leads.
func (l *loop) standBy(ctx context.Context) error {
	l.Follow(ctx)
	return nil
}

// lead decides.
func (l *loop) lead(ctx context.Context) error {
	if l.shards != nil {
		defer l.shards.Lead(ctx)()
	}
	return l.Run(ctx)
}

// each does something with the loop, and with the next one whenever the configuration changed, until ctx ends. What
// loops work with may last longer, until whole ends.
func (s *service) each(whole, ctx context.Context, do func(*loop, context.Context) error) error {
	for {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func(l *loop) { ended <- do(l, running) }(s.loop.Load())
		next, err := s.await(ctx, ended)
		stop()
		if next == nil {
			return err
		}
		if err := <-ended; err != nil || ctx.Err() != nil {
			closeListeners(next.listeners, s.listeners)
			return err
		}
		if err := s.replace(whole, next); err != nil {
			return err
		}
	}
}

// count tells the metrics whether a configuration came in force.
func (s *service) count(ok bool) {
	if s.metrics != nil {
		s.metrics.Reloaded(ok)
	}
}

// prepare tries out all that can go wrong, and opens what the process is to listen on.
func (s *service) prepare(next *candidate) (err error) {
	c := next.config
	if err := c.rehearse(); err != nil {
		return err
	}
	before := s.metrics
	c.measure(s.lasting)
	next.hooks = s.hooks.Load() // which knows the deliveries that came already
	if c.Server.Webhooks != s.config.Server.Webhooks || before != s.metrics {
		if next.hooks, err = c.receiver(s.lasting, s.log); err != nil {
			return err
		}
	}
	next.listeners, err = s.listen(c)
	return err
}

// replace ends the loop, which nobody runs any more, and begins the next one. If that turns out to be impossible it
// goes on with another one of the configuration in force.
func (s *service) replace(ctx context.Context, next *candidate) error {
	old := s.loop.Load()
	if old.Ready() == nil {
		s.ready.Store(true)
	}
	if s.election != nil {
		old.stopTime = min(old.stopTime, s.election.Grace()) // the Lease may be lost meanwhile
	}
	old.stopFleet()
	old.close()
	s.probers, s.cutOff = old.fleet.Probers(), old.CutOff()
	hooks := s.hooks.Swap(next.hooks)
	l, err := next.config.loopIn(ctx, s.lasting, s.log, nil)
	if err == nil {
		s.loop.Store(l)
		s.adopt(ctx, next.inForce)
		s.reloaded(true)
		s.log.Info("the configuration changed", "settings", next.changed)
		return nil
	}
	s.hooks.Store(hooks)
	closeListeners(next.listeners, s.listeners)
	if ctx.Err() != nil {
		return nil // the process was asked to stop meanwhile
	}
	s.refuse(next.files, err)
	if l, err = s.config.loopIn(ctx, s.lasting, s.log, nil); err != nil {
		return fmt.Errorf("go on with the last configuration: %w", err)
	}
	s.loop.Store(l)
	return nil
}

// alive and isReady answer probes for the loop that runs. Ready is what was once.
func (s *service) alive() error { return s.loop.Load().Alive() }

func (s *service) isReady() error {
	if s.ready.Load() {
		return nil
	}
	return s.loop.Load().Ready()
}

// receive takes a push webhook.
func (s *service) receive(w http.ResponseWriter, q *http.Request) {
	if hooks := s.hooks.Load(); hooks != nil {
		hooks.ServeHTTP(w, q)
		return
	}
	http.NotFound(w, q)
}

// rehearse finds what would keep a loop from being made, without making one.
func (c *Config) rehearse() error {
	src := snapshots(clone{})
	if c.sourceDir != "" {
		if _, err := filepath.EvalSymlinks(filepath.Join(c.sourceDir, c.Source.Path)); err != nil {
			return fmt.Errorf("source.path: %w", err)
		}
		src = folder{}
	} else if _, err := c.sourceRemote(); err != nil {
		return err
	}
	return first(
		func() error { _, err := c.gate(src); return err },
		func() error { _, err := c.stateRemote(); return err },
		func() error { _, err := c.openReports(remote.Options{}); return err },
		func() error { _, err := c.signer(); return err },
		func() error { _, err := c.trust(); return err },
		func() error { _, _, err := c.management(); return err },
		func() error {
			if c.State.SecretKeyFile == "" {
				return nil // it is in nobody else's hands
			}
			_, err := c.knownSecretKey()
			return err
		},
		func() error { _, err := c.keyring(true); return err },
		func() error {
			n, err := notify.New(notify.Options{Fleet: c.Fleet, Targets: c.targets()})
			if err == nil {
				n.Close(context.Background()) // it has nothing to say
			}
			return err
		},
	)
}

// first is the first error of all that is tried.
func first(tries ...func() error) error {
	for _, try := range tries {
		if err := try(); err != nil {
			return err
		}
	}
	return nil
}
