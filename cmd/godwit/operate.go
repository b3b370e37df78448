package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/gitstate"
	githook "github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/watch"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/events"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/metrics"
	"github.com/godwit-gitops/godwit/reconciler/notice"
	"github.com/godwit-gitops/godwit/reconciler/notify"
	"github.com/godwit-gitops/godwit/reconciler/registry"
	"github.com/godwit-gitops/godwit/reconciler/serve"
)

// audience is who is told of what a loop does: nobody, unless the configuration says so.
type audience struct {
	metrics  *metrics.Metrics
	notifier *notify.Notifier
	reports  []func(reconciler.Progress)
}

// measure begins to collect figures, if they are served and nobody does yet.
func (c *Config) measure(k *lasting) {
	if c.Server.Address == "" || k.metrics != nil {
		return
	}
	var replicas func() int
	if c.Sharding.Enabled {
		replicas = func() int { return k.replica.Size() }
	}
	k.metrics = metrics.New(metrics.Options{
		Version: version, Replicas: replicas, Packs: func() (int, error) { return pack.Count(c.stateDir()) },
		Stats: func() map[string]member.Stats {
			if l := k.loop.Load(); l != nil {
				return l.fleet.Stats()
			}
			return nil
		},
	})
}

// audience gets ready who is told of the loop. Nobody is before the first pass.
func (c *Config) audience(l *loop, log *slog.Logger, report func(reconciler.Progress)) (*audience, error) {
	a := &audience{metrics: l.lasting.metrics}
	if report != nil {
		a.reports = append(a.reports, report)
	}
	if a.metrics != nil {
		a.reports = append(a.reports, a.metrics.Report)
	}
	if err := c.recordEvents(a, l, log); err != nil || len(c.Notifications) == 0 {
		return a, err
	}
	o := notify.Options{
		Fleet: c.Fleet, Targets: c.targets(), Marker: notify.File(filepath.Join(c.DataDir, "notified")), Log: log,
		Missed: func(from, to string) []notice.Notice { // by the goroutine of the passes, which the store is for
			return notify.Missed(l.Store.Log(context.Background(), gitstate.Revision(to)), from, time.Now())
		},
	}
	if l.lasting.election != nil {
		o.Marker = l.lasting.election.Note("notified") // whoever leads next goes on with it
	}
	if a.metrics != nil {
		o.Count = a.metrics.Notified
	}
	var err error
	if a.notifier, err = notify.New(o); err != nil {
		return nil, err
	}
	a.reports = append(a.reports, a.notifier.Report)
	l.closers = append(l.closers, func() { within(l.stopTime, a.notifier.Close) })
	return a, nil
}

// recordEvents has Events written to the management cluster, if we were told of one.
func (c *Config) recordEvents(a *audience, l *loop, log *slog.Logger) error {
	if !c.managed() {
		return nil
	}
	config, namespace, err := registry.Management(c.Management.Kubeconfig, c.Management.Context)
	if err != nil || config == nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.UserAgent, config.ContentType, config.WarningHandlerWithContext = "godwit", runtime.ContentTypeJSON, rest.NoWarnings{}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the management cluster: %w", err)
	}
	recorder := events.NewRecorder(events.Options{Client: client, Log: log})
	l.closers = append(l.closers, func() { within(l.stopTime, recorder.Close) })
	// The Lease stands for the fleet, whether there is one or not.
	fleet := corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: c.Fleet}
	a.reports = append(a.reports, func(p reconciler.Progress) {
		places := events.PlacesOf(fleet, p.Decision.Next.Members)
		for _, n := range notify.News(p) {
			recorder.Record(n, places)
		}
	})
	return nil
}

// resume has those told who were not when the last process ended.
func (a *audience) resume(ctx context.Context) {
	if a.notifier != nil {
		a.notifier.Resume(ctx)
	}
}

// within gives something so much time.
func within(d time.Duration, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	f(ctx)
}

func (c *Config) targets() []notify.Target {
	all := make([]notify.Target, len(c.Notifications))
	for i, n := range c.Notifications {
		reasons := make([]notice.Reason, len(n.Reasons))
		for j, r := range n.Reasons {
			reasons[j] = notice.Reason(r)
		}
		all[i] = notify.Target{
			Type: notify.Type(n.Type), URL: n.URL, URLFile: n.URLFile, SecretFile: n.SecretFile, TokenFile: n.TokenFile, CAFile: n.CAFile,
			Reasons: reasons, Template: n.Template, Interval: n.Interval, Loopback: n.AllowLoopback,
		}
	}
	return all
}

// told, failed and tried are nil where nobody wants to know.
func (a *audience) told() func(reconciler.Progress) {
	if len(a.reports) == 0 {
		return nil
	}
	return func(p reconciler.Progress) {
		for _, report := range a.reports {
			report(p)
		}
	}
}

func (a *audience) failed() func(error) {
	if a.metrics == nil {
		return nil
	}
	return a.metrics.Failed
}

func (a *audience) tried() func(apply.Change, string) {
	if a.metrics == nil {
		return nil
	}
	return a.metrics.Tried
}

// hookSecrets are the files with the secrets of push webhooks, by provider.
func (c *Config) hookSecrets() map[githook.Provider]string {
	files := map[githook.Provider]string{}
	for p, file := range map[githook.Provider]string{
		githook.GitHub: c.Server.Webhooks.GitHubSecretFile, githook.Gitea: c.Server.Webhooks.GiteaSecretFile,
		githook.GitLab: c.Server.Webhooks.GitLabTokenFile, githook.Standard: c.Server.Webhooks.StandardSecretFile,
	} {
		if file != "" {
			files[p] = file
		}
	}
	return files
}

// receiver takes push webhooks; nil if nobody sends any.
func (c *Config) receiver(k *lasting, log *slog.Logger) (*githook.Receiver, error) {
	if c.Server.Webhooks.Address == "" {
		return nil, nil
	}
	id, err := githook.OpenSecretFile(c.Server.Webhooks.IDFile, nil)
	if err != nil {
		return nil, fmt.Errorf("server.webhooks: %w", err)
	}
	o := githook.Options{ID: id, Secrets: map[githook.Provider]*githook.SecretFile{}, Log: log}
	if k.metrics != nil {
		o.Count = k.metrics.Hook
	}
	for p, file := range c.hookSecrets() {
		if o.Secrets[p], err = githook.OpenSecretFile(file, nil); err != nil {
			return nil, fmt.Errorf("server.webhooks: %w", err)
		}
	}
	return githook.New(o), nil
}

// hints tells when the source may have changed: a folder is watched, and a forge may say so. Both are polled as well.
// After stop nobody listens any more to the forge, who may still speak.
func (c *Config) hints(ctx context.Context, hooks *githook.Receiver) (hints <-chan struct{}, stop func(), err error) {
	if c.sourceDir == "" {
		if hooks == nil {
			return nil, func() {}, nil
		}
		return hooks.Hints(), func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	if hints, err = watch.Folder(ctx, filepath.Join(c.sourceDir, c.Source.Path)); err != nil {
		cancel()
		return nil, nil, err
	}
	if hooks != nil {
		hints = watch.Merge(ctx, hints, hooks.Hints())
	}
	return hints, func() { cancel(); drain(hints) }, nil
}

// drain waits until the channel is closed.
func drain(c <-chan struct{}) {
	for range c {
	}
}

// hookConnections is how many connections strangers may have open.
const hookConnections = 128

// listener is one of the addresses that are listened on.
type listener struct {
	*serve.Server
	setting, address string
}

// listen listens where the configuration says.
func (s *service) listen(c *Config) ([]listener, error) {
	var all []serving
	if c.Server.Address != "" {
		all = append(all, serving{"server.address", serve.Options{Address: c.Server.Address, Handler: serve.Operations(s.alive, s.isReady, s.metrics.Handler())}})
	}
	return s.open(append(all,
		serving{"server.webhooks.address", serve.Options{Address: c.Server.Webhooks.Address, Handler: http.HandlerFunc(s.receive), Connections: hookConnections}},
		serving{"--pprof", serve.Options{Address: s.profiles, Handler: serve.Profiles(), Unhurried: true}}))
}

// serving is what a setting, or a flag, asks to be served; without an address it asks for nothing.
type serving struct {
	setting string
	serve.Options
}

// open listens. It takes those that are there already, and what is no longer wanted is left to the caller; after an
// error nothing new is open.
func (f *follower) open(wanted []serving) (all []listener, err error) {
	for _, w := range wanted {
		i := slices.IndexFunc(f.listeners, func(l listener) bool { return l.setting == w.setting && l.address == w.Address })
		switch {
		case w.Address == "":
		case i >= 0:
			all = append(all, f.listeners[i])
		default:
			w.Log = f.log
			server, err := serve.Start(w.Options)
			if err != nil {
				closeListeners(all, f.listeners)
				return nil, fmt.Errorf("%s: %w", w.setting, err)
			}
			f.log.Info("listening", "for", w.setting, "address", server.Address())
			all = append(all, listener{server, w.setting, w.Address})
		}
	}
	return all, nil
}

// closeListeners closes those that are not kept.
func closeListeners(all, kept []listener) {
	for _, l := range all {
		if !slices.Contains(kept, l) {
			within(stopTime, l.Close)
		}
	}
}
