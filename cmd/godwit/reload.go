package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	githook "github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/watch"
	"github.com/godwit-gitops/godwit/reconciler/lead"
	"github.com/godwit-gitops/godwit/reconciler/notify"
	"github.com/godwit-gitops/godwit/reconciler/serve"
)

// service is godwit run: one loop after the other, each of the configuration in force. A configuration that changed is
// read and tried out as a whole while the loop goes on. Then the loop ends, between or within passes, as it does
// when the process is asked to stop: what it decided is on the state branch, and objects in work are finished. The
// next one goes on from there, in the same process, which holds its Lease and answers its probes meanwhile.
type service struct {
	*lasting
	cmd      *cobra.Command
	log      *slog.Logger
	profiles string // where they are served; empty means nowhere
	ready    atomic.Bool
	hangup   chan os.Signal

	inForce
	refused prints // what could not be used, so that it is said once
	hints   <-chan struct{}
	unwatch func()
}

// inForce is a configuration with what was made of it for the process.
type inForce struct {
	config    *Config
	files     prints
	listeners []listener
}

// candidate is a configuration that can come in force.
type candidate struct {
	inForce
	hooks   *githook.Receiver
	changed []string // settings
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
	l, err := c.loopIn(ctx, s.lasting, s.log, nil)
	if err != nil {
		return err
	}
	s.loop.Store(l)
	defer func() { s.loop.Load().close() }()
	if first.listeners, err = s.listen(c); err != nil {
		return err
	}
	s.adopt(ctx, first)
	defer func() { s.unwatch(); closeListeners(s.listeners, nil) }()
	s.hangup = make(chan os.Signal, 1)
	signal.Notify(s.hangup, syscall.SIGHUP)
	defer signal.Stop(s.hangup)
	if s.election == nil {
		return s.each(ctx, ctx, (*loop).Run)
	}
	err = s.election.Run(ctx, func(waiting context.Context) {
		if err := s.each(ctx, waiting, (*loop).follow); err != nil {
			end(err)
		}
	}, func(leading context.Context) error {
		err := s.each(ctx, leading, (*loop).Run)
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

// follow stands by.
func (l *loop) follow(ctx context.Context) error {
	l.Follow(ctx)
	return nil
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

// await returns the next configuration, or what came of that which ended before there was one.
func (s *service) await(ctx context.Context, ended <-chan error) (*candidate, error) {
	for {
		asked := false
		select {
		case err := <-ended:
			return nil, err
		case _, open := <-s.hints:
			if !open { // ctx ended
				return nil, <-ended
			}
		case <-s.hangup:
			asked = true
		}
		if next := s.look(ctx, asked); next != nil {
			return next, nil
		}
	}
}

// look reads the configuration. It returns nil unless another one can come in force. What could not before is tried
// again only if somebody asks.
func (s *service) look(ctx context.Context, asked bool) *candidate {
	c, files, err := s.settled(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case maps.Equal(files, s.files):
		s.unchanged(asked)
		return nil
	case maps.Equal(files, s.refused) && !asked:
		return nil
	}
	if err == nil {
		next := &candidate{inForce: inForce{config: c, files: files}, changed: changes(&s.inForce, c, files)}
		if len(next.changed) == 0 {
			s.config, s.files = c, files // such as a comment
			s.unchanged(asked)
			return nil
		}
		if err = s.prepare(next); err == nil {
			return next
		}
	}
	s.refuse(files, err)
	return nil
}

// unchanged says that all is as it was, where somebody wants to know.
func (s *service) unchanged(asked bool) {
	if s.refused != nil {
		s.refused = nil
		s.reloaded(true)
		asked = true
	}
	if asked {
		s.log.Info("the configuration says what is in force already")
	}
}

func (s *service) refuse(files prints, err error) {
	s.refused = files
	s.reloaded(false)
	file, _ := configFile(s.cmd)
	s.log.Error("the configuration cannot come in force, the last one stays", "file", file, "error", err)
}

func (s *service) reloaded(ok bool) {
	if s.metrics != nil {
		s.metrics.Reloaded(ok)
	}
}

const (
	// stillFor is how long files have to stay as they are before they are believed: somebody may be writing.
	stillFor = 100 * time.Millisecond
	// restless is how often they are read that never do.
	restless = 20
)

// settled reads the configuration once nobody writes it any more.
func (s *service) settled(ctx context.Context) (c *Config, files prints, err error) {
	c, files, err = s.read()
	for range restless {
		if maps.Equal(files, s.files) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(stillFor):
		}
		was := files
		if c, files, err = s.read(); maps.Equal(files, was) {
			break
		}
	}
	return c, files, err
}

// read reads the configuration as it is now. What was read is told even if it is no use.
func (s *service) read() (*Config, prints, error) {
	file, named := configFile(s.cmd)
	text, err := readConfig(file, named)
	blank := len(bytes.TrimSpace(text)) == 0
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named && s.config.text == nil:
		err = nil // there never was one
	case err != nil:
		err = fmt.Errorf("read %s: %w", file, err)
	case blank && len(bytes.TrimSpace(s.config.text)) > 0:
		err = fmt.Errorf("%s: is empty, which would put every setting back to its default; if that is meant, write one of them there", file)
	}
	var c *Config
	if err == nil {
		c, err = decodeConfig(s.cmd, text)
	}
	if err != nil {
		return nil, printsOf(text, s.config.named()), err
	}
	return c, c.prints(), nil
}

// prepare tries out all that can go wrong, and opens what the process is to listen on.
func (s *service) prepare(next *candidate) (err error) {
	c := next.config
	if fixed := s.config.fixed(c); len(fixed) > 0 {
		return fmt.Errorf("%s: takes a restart to change; until then nothing else that changed is in force either", strings.Join(fixed, ", "))
	}
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

// adopt puts a configuration in force for the process, and watches its files.
func (s *service) adopt(ctx context.Context, now inForce) {
	closeListeners(s.listeners, now.listeners)
	s.inForce, s.refused = now, nil
	if s.unwatch != nil {
		s.unwatch()
	}
	file, _ := configFile(s.cmd)
	paths := []string{file}
	for _, n := range now.config.named() {
		paths = append(paths, n.path)
	}
	ctx, cancel := context.WithCancel(ctx)
	hints := watch.Files(ctx, paths...)
	s.hints, s.unwatch = hints, func() { cancel(); drain(hints) }
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
	for _, try := range []func() error{
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
		func() error {
			n, err := notify.New(notify.Options{Fleet: c.Fleet, Targets: c.targets()})
			if err == nil {
				n.Close(context.Background()) // it has nothing to say
			}
			return err
		},
	} {
		if err := try(); err != nil {
			return err
		}
	}
	return nil
}

// prints tell by setting what the files were that a configuration was made from; the file itself has none.
type prints map[string][sha256.Size]byte

func (c *Config) prints() prints { return printsOf(c.text, c.named()) }

// printsOf gives files that cannot be read the zero value, as it does where there is none.
func printsOf(text []byte, files []namedFile) prints {
	all := prints{}
	if text != nil {
		all[""] = sha256.Sum256(text)
	}
	for _, f := range files {
		all[f.setting] = [sha256.Size]byte{}
		if text, err := os.ReadFile(f.path); err == nil {
			all[f.setting] = sha256.Sum256(text)
		}
	}
	return all
}

// changes are the settings that are others, or name files that are.
func changes(now *inForce, c *Config, files prints) []string {
	all := now.config.changed(c)
	for setting, print := range files {
		if was, ok := now.files[setting]; ok && setting != "" && was != print {
			all = append(all, setting)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
