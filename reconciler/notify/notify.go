package notify

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"text/template"
	"time"

	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// Options of a Notifier. The zero value of each field but Targets means its default.
type Options struct {
	// Fleet is the name that messages give.
	Fleet   string
	Targets []Target
	// Marker remembers up to which commit everything was delivered; nil means that what was not is lost when the
	// process ends.
	Marker Marker
	// Missed gives the notices of the commits after one up to another, the oldest first. It is called once, by the first
	// Report; nil means that there are none.
	Missed func(from, to string) []notice.Notice
	// Clock, default the real one.
	Clock clock.WithTicker
	// Log, default none.
	Log *slog.Logger
	// Count receives each attempt, default nobody.
	Count func(kind, result string)
}

// Results of attempts, as Count gets them.
const (
	Sent    = "sent"
	Failed  = "failed"
	Dropped = "dropped" // it failed, and is not tried again
)

// Notifier tells all targets.
type Notifier struct {
	o       Options
	targets []*target
	cancel  context.CancelFunc
	running sync.WaitGroup // of targets
	writing sync.WaitGroup // of the Marker
	unsaved chan struct{}

	mu      sync.Mutex // guards what follows, and the boxes and alerts of the targets
	head    string     // last reported
	marked  string     // the Marker has, or would not take
	begun   bool
	closing bool
}

// target is one with what it is still to be told.
type target struct {
	Target
	name  string // in the log
	words *template.Template
	// post sends a body; tests replace it.
	post func(ctx context.Context, body []byte, id string, now time.Time) error
	rest func() // closes the connections that post keeps
	kick chan struct{}

	box      box
	alerts   alerts
	underWay bool
	down     bool // the last attempt failed
}

// New checks the targets and gets ready; it sends nothing. The error says which of them is wrong, and has no secret
// in it.
func New(o Options) (*Notifier, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Count == nil {
		o.Count = func(string, string) {}
	}
	n := &Notifier{o: o, unsaved: make(chan struct{}, 1)}
	for i, t := range o.Targets {
		words, err := t.check()
		if err != nil {
			return nil, fmt.Errorf("notifications[%d]: %w", i, err)
		}
		if t.Interval == 0 {
			t.Interval = time.Minute
		}
		var roots *x509.CertPool
		if t.CAFile != "" {
			pem, err := os.ReadFile(t.CAFile)
			if err != nil {
				return nil, fmt.Errorf("notifications[%d]: caFile: %w", i, err)
			}
			if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("notifications[%d]: caFile: %s has no certificate in PEM", i, t.CAFile)
			}
		}
		to := newSender(t, roots)
		n.targets = append(n.targets, &target{
			Target: t, name: fmt.Sprintf("notifications[%d]", i), words: words, post: to.post, rest: to.client.CloseIdleConnections,
			kick: make(chan struct{}, 1), box: box{interval: t.Interval},
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	for _, t := range n.targets {
		n.running.Go(func() { n.run(ctx, t) })
	}
	if o.Marker != nil {
		n.writing.Go(func() { n.runMarker(ctx) })
	}
	return n, nil
}

// Resume goes on where the last one stopped, who had the same Marker. It comes before the first Report, and may be left
// out: what was not delivered is lost then.
func (n *Notifier) Resume(ctx context.Context) {
	if n.o.Marker == nil {
		return
	}
	head, err := n.o.Marker.Read(ctx)
	if err != nil {
		n.o.Log.Warn("what was notified before is not known; what was not is not told any more", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marked = head
}

// News are the notices of what a pass decided, and of a source that is not followed.
func News(p reconciler.Progress) []notice.Notice {
	d := p.Decision
	var all []notice.Notice
	if p.Turned {
		all = append(all, notice.OfRefusal(d.Refused, notice.Stamp{Commit: string(p.Head), Source: string(d.Revision), Time: d.Time}))
	}
	if c := d.Commit; c != nil && !c.StatusAlone {
		all = append(all, notice.Of(c.Events, notice.Stamp{Commit: string(p.Head), Source: c.Source, Time: c.Time})...)
	}
	return all
}

// Report takes a pass that went through. It waits for nobody.
func (n *Notifier) Report(p reconciler.Progress) {
	d, head := p.Decision, string(p.Head)
	news := News(p)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.begun {
		n.begun = true
		if n.o.Missed != nil && n.marked != "" && n.marked != head {
			// What this pass decided is in the head, and in news as well, with more words.
			missed := n.o.Missed(n.marked, head)
			for i := range missed {
				if missed[i].Commit != head || d.Commit == nil {
					n.put(missed[i])
				}
			}
		}
	}
	for _, one := range news {
		n.put(one)
	}
	n.head = head
	now := n.o.Clock.Now()
	var standing []notice.Condition
	for i, t := range n.targets {
		if t.Type != Alertmanager {
			continue
		}
		if standing == nil {
			standing = notice.Stand(d)
		}
		var wanted []notice.Condition
		for _, c := range standing {
			if t.wants(c.Reason) {
				wanted = append(wanted, c)
			}
		}
		t.alerts.stand(wanted, head, now)
		n.wake(i)
	}
	n.mark()
}

// put gives a notice to all who want it. n.mu is held.
func (n *Notifier) put(one notice.Notice) {
	now := n.o.Clock.Now()
	for i, t := range n.targets {
		switch {
		case !t.wants(one.Reason):
			continue
		case t.Type != Alertmanager:
			t.box.put(one, now)
		case one.Reason == notice.FailedOver: // of the others it knows from what stands
			t.alerts.happened(one, now)
		}
		n.wake(i)
	}
}

func (n *Notifier) wake(i int) {
	signal(n.targets[i].kick)
}

// mark has it written down that all is delivered, if it is. n.mu is held.
func (n *Notifier) mark() {
	if n.o.Marker == nil || n.head == n.marked {
		return
	}
	for _, t := range n.targets {
		if t.underWay || !t.box.empty() {
			return
		}
	}
	n.marked = n.head
	signal(n.unsaved)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runMarker writes down what mark says.
func (n *Notifier) runMarker(ctx context.Context) {
	for {
		select {
		case <-n.unsaved:
			n.save(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// save writes down what mark said last. What ctx interrupted is left to be saved.
func (n *Notifier) save(ctx context.Context) {
	n.mu.Lock()
	head := n.marked
	n.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	switch err := n.o.Marker.Write(within, head); {
	case err != nil && ctx.Err() != nil:
		signal(n.unsaved)
	case err != nil:
		n.o.Log.Warn("what was notified cannot be written down, and may be told again", "error", err)
	}
}

// Close sends what is due, tries nothing again, and ends when all is done or ctx ends.
func (n *Notifier) Close(ctx context.Context) {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	for i := range n.targets {
		n.wake(i)
	}
	done := make(chan struct{})
	go func() { n.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	n.cancel()
	<-done
	for _, t := range n.targets {
		t.rest()
	}
	n.writing.Wait()
	select {
	case <-n.unsaved:
		n.save(ctx)
	default:
	}
}

// run tells one target, one message after the other.
func (n *Notifier) run(ctx context.Context, t *target) {
	for {
		wait, closing := n.step(ctx, t)
		switch {
		case ctx.Err() != nil || closing && wait != 0:
			return
		case wait == 0:
			continue
		}
		n.rest(ctx, t, wait)
	}
}

// rest waits until there is something to send; below 0 only a kick ends it.
func (n *Notifier) rest(ctx context.Context, t *target, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := n.o.Clock.NewTimer(wait)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-t.kick:
	case <-over:
	}
}

// step sends what is due, if there is something. It returns how long to wait for more: 0 means not at all, and less
// that only a kick brings some.
func (n *Notifier) step(ctx context.Context, t *target) (wait time.Duration, closing bool) {
	n.mu.Lock()
	now := n.o.Clock.Now()
	if t.Type == Alertmanager {
		return n.stepAlerts(ctx, t, now)
	}
	one, since, ok, wake := t.box.take(now)
	closing = n.closing
	if !ok {
		n.mu.Unlock()
		return until(wake, now), closing
	}
	t.underWay = true
	n.mu.Unlock()
	content, err := body(t.Type, t.words, n.o.Fleet, one)
	if err == nil {
		err = n.attempt(ctx, t, content, idOf(n.o.Fleet, one), now)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now = n.o.Clock.Now()
	t.underWay = false
	switch {
	case err == nil:
		t.box.sent(one, now)
		n.outcome(t, nil, Sent)
	case t.box.failed(one, since, now):
		n.outcome(t, err, Failed)
	default:
		n.outcome(t, err, Dropped)
		n.o.Log.Error("a notification is given up", "target", t.name, "type", t.Type, "reason", one.Reason, "title", one.Title())
	}
	n.mark()
	return 0, n.closing
}

// stepAlerts is step for alerts. n.mu is held when it begins.
func (n *Notifier) stepAlerts(ctx context.Context, t *target, now time.Time) (wait time.Duration, closing bool) {
	ok, wake := t.alerts.due(now)
	closing = n.closing
	if !ok {
		n.mu.Unlock()
		return until(wake, now), closing
	}
	sending, err := t.alerts.body(n.o.Fleet, now)
	n.mu.Unlock()
	if err == nil {
		err = n.attempt(ctx, t, sending.body, "", now)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now = n.o.Clock.Now()
	if err == nil {
		t.alerts.sent(sending, now)
		n.outcome(t, nil, Sent)
	} else {
		t.alerts.failed(now)
		n.outcome(t, err, Failed)
	}
	return 0, n.closing
}

// until is how long to wait for a time; a zero one never comes.
func until(t, now time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return max(t.Sub(now), time.Millisecond)
}

// attemptTime is how long a target may take.
const attemptTime = 10 * time.Second

func (n *Notifier) attempt(ctx context.Context, t *target, content []byte, id string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	return t.post(ctx, content, id, now)
}

// outcome counts an attempt, and logs when a target stops and begins to work. n.mu is held.
func (n *Notifier) outcome(t *target, err error, result string) {
	n.o.Count(string(t.Type), result)
	switch {
	case err != nil && !t.down:
		n.o.Log.Warn("a notification could not be sent, it is tried again", "target", t.name, "type", t.Type, "error", err)
	case err == nil && t.down:
		n.o.Log.Info("notifications arrive again", "target", t.name, "type", t.Type)
	}
	t.down = err != nil
}
