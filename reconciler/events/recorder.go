package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// Options of a Recorder. Client is required.
type Options struct {
	// Client writes Events, and reads the UID of Secrets that they are on: without it nobody who describes one sees them.
	Client Client
	// Component is who says it; empty means godwit.
	Component string
	// Clock, default the real one.
	Clock clock.WithTicker
	// Log, default none.
	Log *slog.Logger
}

// Client is what a Recorder needs of a cluster.
type Client interface {
	typedcorev1.EventsGetter
	typedcorev1.SecretsGetter
}

const (
	// attemptTime is how long a request may take, and attempts how many an Event gets, with pauses that double.
	attemptTime = 10 * time.Second
	attempts    = 8
	firstPause  = time.Second
)

// Recorder writes Events. Its methods may be called by many at once.
type Recorder struct {
	o      Options
	cancel context.CancelFunc
	kick   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	pending map[eventKey]*pending
	order   []eventKey // of pending
	down    bool
}

// eventKey tells Events apart.
type eventKey struct {
	object corev1.ObjectReference
	reason string
}

// pending is an Event to be written, or to be counted on.
type pending struct {
	Event
	count       int32
	first, last time.Time
}

// NewRecorder begins to write.
func NewRecorder(o Options) *Recorder {
	if o.Component == "" {
		o.Component = "godwit"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{o: o, cancel: cancel, kick: make(chan struct{}, 1), done: make(chan struct{}), pending: map[eventKey]*pending{}}
	go r.run(ctx)
	return r
}

// Record has the Events of a notice written.
func (r *Recorder) Record(n notice.Notice, p Places) {
	now := r.o.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range Of(n, p) {
		key := eventKey{e.Object, e.Reason}
		if p := r.pending[key]; p != nil {
			p.Event, p.last = e, now
			p.count++
			continue
		}
		r.pending[key] = &pending{e, 1, now, now}
		r.order = append(r.order, key)
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Close writes what is there, until ctx ends.
func (r *Recorder) Close(ctx context.Context) {
	tick := r.o.Clock.NewTicker(closeTick)
	defer tick.Stop()
	for !r.idle() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C():
		}
	}
	r.cancel()
	<-r.done
}

const closeTick = 20 * time.Millisecond

func (r *Recorder) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order) == 0 || r.down
}

// run writes one Event after the other.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	for {
		key, p := r.next()
		if p == nil {
			select {
			case <-ctx.Done():
				return
			case <-r.kick:
			}
			continue
		}
		r.write(ctx, key, p)
		if ctx.Err() != nil {
			return
		}
		r.finish(key, p)
	}
}

// next is the first Event, as of now: what comes while it is written is written after it.
func (r *Recorder) next() (eventKey, *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		return eventKey{}, nil
	}
	key := r.order[0]
	copied := *r.pending[key]
	return key, &copied
}

// finish takes off what was written.
func (r *Recorder) finish(key eventKey, written *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = r.order[1:]
	p := r.pending[key]
	if p.count -= written.count; p.count == 0 {
		delete(r.pending, key)
		return
	}
	p.first = p.last
	r.order = append(r.order, key)
}

// write tries until it is written, given up, or ctx ends.
func (r *Recorder) write(ctx context.Context, key eventKey, p *pending) {
	for i := range attempts {
		err := r.attempt(ctx, key, p)
		r.outcome(ctx, err)
		if err == nil {
			return
		}
		timer := r.o.Clock.NewTimer(firstPause << i)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// outcome logs when Events cannot be written any more, and when they can.
func (r *Recorder) outcome(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !r.down:
		r.o.Log.Warn("an Event cannot be written to the management cluster, it is tried again for some time", "error", err)
	case err == nil && r.down:
		r.o.Log.Info("Events can be written again")
	}
	r.down = err != nil
}

// attempt writes an Event, or counts on the one that is there.
func (r *Recorder) attempt(ctx context.Context, key eventKey, p *pending) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	namespace := key.object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	events := r.o.Client.Events(namespace)
	name := nameOf(key, r.o.Component)
	found, err := events.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		on := key.object
		if on.Kind == "Secret" && on.UID == "" {
			if s, err := r.o.Client.Secrets(on.Namespace).Get(ctx, on.Name, metav1.GetOptions{}); err == nil {
				on.UID = s.UID
			}
		}
		_, err = events.Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
			InvolvedObject: on, Type: p.Type, Reason: key.reason, Message: p.Message, Count: p.count,
			FirstTimestamp: metav1.NewTime(p.first), LastTimestamp: metav1.NewTime(p.last),
			Source: corev1.EventSource{Component: r.o.Component}, ReportingController: r.o.Component,
		}, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	}
	next := found.DeepCopy()
	next.Type, next.Message, next.LastTimestamp = p.Type, p.Message, metav1.NewTime(p.last)
	next.Count += p.count
	_, err = events.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// nameOf is the same for the same object and reason, so that the next process counts on.
func nameOf(key eventKey, component string) string {
	o := key.object
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q %q", component, o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, key.reason))
	return o.Name[:min(len(o.Name), 200)] + "." + hex.EncodeToString(sum[:8])
}
