package metrics

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
)

// Options of Metrics.
type Options struct {
	// Version of the program.
	Version string
	// Stats give figures of members; nil means none.
	Stats func() map[string]member.Stats
	// Replicas is the number of those that members are divided over; nil means that they are not.
	Replicas func() int
	// Packs is the number of packs of the state branch's clone; nil means not known.
	Packs func() (int, error)
}

// Metrics collects figures. Its methods may be called by many at once.
type Metrics struct {
	o        Options
	registry *prometheus.Registry

	passes        prometheus.Histogram
	errors        prometheus.Counter
	decisions     *prometheus.CounterVec
	applied       *prometheus.CounterVec
	hooks         *prometheus.CounterVec
	notifications *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	reloaded      prometheus.Gauge

	mu   sync.Mutex
	last *figures // nil before the first pass
}

// New makes Metrics, with those of the process, of the runtime and of client-go along with our own.
func New(o Options) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		o: o, registry: prometheus.NewRegistry(),
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "godwit_pass_duration_seconds", Help: "How long passes took that went through.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		errors:        prometheus.NewCounter(prometheus.CounterOpts{Name: "godwit_pass_errors_total", Help: "Passes that did not go through."}),
		decisions:     counter("godwit_decisions_total", "What was decided and committed, by reason.", "reason"),
		applied:       counter("godwit_apply_total", "Attempts at objects on members, by what came of them.", "result"),
		hooks:         counter("godwit_hooks_total", "Push webhooks that came, by provider and what came of them.", "provider", "result"),
		notifications: counter("godwit_notifications_total", "Notifications, by type and what came of them.", "type", "result"),
		reloads:       counter("godwit_config_reloads_total", "Configurations that came while running, by what came of them.", "result"),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "godwit_config_last_reload_successful", Help: "1 if the configuration as it is now is in force, 0 if the last one that could be used is.",
		}),
	}
	for _, reason := range []decide.Reason{decide.PolicyChange, decide.TemplateChange, decide.ClusterFailure, decide.ApplicationFailure,
		decide.TaintEviction, decide.Rebalance, decide.PurgeDone, decide.CooldownEnded, decide.Operator} {
		m.decisions.WithLabelValues(string(reason)) // so that the first one counts as an increase
	}
	for _, change := range []apply.Change{apply.Created, apply.Updated, apply.Adopted, apply.Recreated, apply.Deleted, apply.Released, apply.Unchanged, apply.Skipped} {
		m.applied.WithLabelValues(string(change))
	}
	m.applied.WithLabelValues(failed)
	m.reloaded.Set(1)
	for _, result := range []string{accepted, refused} {
		m.reloads.WithLabelValues(result)
	}
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "godwit_build_info", Help: "The program; the value is 1.",
		ConstLabels: prometheus.Labels{"version": o.Version, "revision": revision, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.passes, m.errors, m.decisions, m.applied, m.hooks, m.notifications, m.reloads, m.reloaded, build, m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(client()...)
	return m
}

// Reloaded takes a configuration that came in force, or back, or could not.
func (m *Metrics) Reloaded(ok bool) {
	m.reloaded.Set(truth(ok))
	result := accepted
	if !ok {
		result = refused
	}
	m.reloads.WithLabelValues(result).Inc()
}

// What can come of a configuration.
const (
	accepted = "accepted"
	refused  = "refused"
)

// failed is what came of an attempt that has a reason.
const failed = "failed"

// Report takes a pass that went through.
func (m *Metrics) Report(p reconciler.Progress) {
	f := figuresOf(p)
	m.passes.Observe(p.Took.Seconds())
	if c := p.Decision.Commit; c != nil && !c.StatusAlone {
		for _, e := range c.Events {
			m.decisions.WithLabelValues(string(e.Reason)).Inc()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = &f
}

// Failed takes a pass that did not.
func (m *Metrics) Failed(error) { m.errors.Inc() }

// Tried takes an attempt at an object.
func (m *Metrics) Tried(change apply.Change, reason string) {
	result := string(change)
	if reason != "" {
		result = failed
	}
	m.applied.WithLabelValues(result).Inc()
}

// Hook takes a push webhook, and Notified a notification.
func (m *Metrics) Hook(provider, result string) { m.hooks.WithLabelValues(provider, result).Inc() }
func (m *Metrics) Notified(kind, result string) { m.notifications.WithLabelValues(kind, result).Inc() }

// scrapes are how many may be answered at once, and scrapeLimit how long one may take.
const (
	scrapes     = 4
	scrapeLimit = 10 * time.Second
)

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: scrapeLimit, Registry: m.registry})
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// What the last pass was summed up to.
var (
	bindings    = gauge("godwit_bindings", "Bindings by state.", "state")
	evictions   = gauge("godwit_evictions_pending", "Graceful evictions that are not over.")
	oldestTimer = gauge("godwit_failover_oldest_timer_seconds", "How long the oldest failure lasts that will make a workload leave, or should; 0 if there is none.")
	braked      = gauge("godwit_failover_held", "1 while too much is down at once for anything to be moved.")
	held        = gauge("godwit_deletions_held", "Deletions that wait for an approval.")
	findings    = gauge("godwit_findings", "Findings in the source, by severity.", "severity")
	pending     = gauge("godwit_pending", "Objects and members that are not as decided yet.")
	up          = gauge("godwit_member_up", "1 if the member is ready.", "member")
	success     = gauge("godwit_member_last_success_timestamp_seconds", "When the member last answered well.", "member")
	ends        = gauge("godwit_member_credentials_end_timestamp_seconds", "When the credentials of the member end, where they tell.", "member")
	queue       = gauge("godwit_apply_queue_depth", "Objects of the member that are due or in work.", "member")
	members     = gauge("godwit_members_served", "Members that this process observes and applies to.")
	replicas    = gauge("godwit_replicas", "Replicas that members are divided over.")
	retries     = gauge("godwit_git_push_retries_total", "Pushes of the state branch that failed and are tried again.")
	unpushed    = gauge("godwit_git_unpushed_commits", "Commits of the state branch that the remote does not have.")
	packs       = gauge("godwit_state_packs", "Packs in the clone of the state branch.")
	fetched     = gauge("godwit_source_last_good_timestamp_seconds", "When the source was last read.")
)

// Describe is of prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bindings, evictions, oldestTimer, braked, held, findings, pending, up, success, ends, queue, members, replicas, retries, unpushed, packs, fetched} {
		out <- d
	}
}

// Collect is of prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d == retries {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	if m.o.Packs != nil {
		if n, err := m.o.Packs(); err == nil {
			send(packs, float64(n))
		}
	}
	if m.o.Replicas != nil {
		send(replicas, float64(m.o.Replicas()))
	}
	if m.o.Stats != nil { // of a replica that does not lead, too
		m.served(send)
	}
	m.mu.Lock()
	f := m.last
	m.mu.Unlock()
	if f == nil {
		return
	}
	for state, n := range f.bindings {
		send(bindings, float64(n), state)
	}
	for severity, n := range f.findings {
		send(findings, float64(n), string(severity))
	}
	for name, is := range f.up {
		send(up, truth(is), name)
	}
	send(evictions, float64(f.evictions))
	send(oldestTimer, f.oldestTimer.Seconds())
	send(braked, truth(f.braked))
	send(held, float64(f.held))
	send(pending, float64(f.pending))
	send(retries, float64(f.pushes))
	send(unpushed, float64(f.unpushed))
	if !f.fetched.IsZero() {
		send(fetched, seconds(f.fetched))
	}
}

// served sends the figures of the members that this process serves.
func (m *Metrics) served(send func(d *prometheus.Desc, value float64, labels ...string)) {
	all := m.o.Stats()
	send(members, float64(len(all)))
	for name, s := range all {
		send(queue, float64(s.Queue), name)
		if !s.LastSuccess.IsZero() {
			send(success, seconds(s.LastSuccess), name)
		}
		if !s.CredentialsEnd.IsZero() {
			send(ends, seconds(s.CredentialsEnd), name)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
