package webhook

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// Options of an Asker. The zero value asks every host that is not this machine.
type Options struct {
	// AllowedHosts are the only hosts that are asked, "host" or "host:port"; none means all but those of
	// this machine.
	AllowedHosts []string
	// Clock says when an attempt failed; nil means the real one.
	Clock clock.PassiveClock
	// MaxMemory bounds the answers, in bytes; 0 means 64 MiB.
	MaxMemory int
	// MaxResponse bounds one response, in bytes; 0 means 1 MiB.
	MaxResponse int64
}

// How many questions are under way: to one webhook, so that one that hangs leaves room, and in all.
const (
	perWebhook = 8
	inAll      = 64
)

// Asker asks webhooks and keeps what they answer. Its methods may be called concurrently.
type Asker struct {
	options Options
	changed chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	clients  map[string]*http.Client // by CA bundle
	waiting  map[string][]decide.Unanswered
	turns    []string // the webhooks of waiting, in the order in which they are served
	underWay map[interpret.Key]*attempt
	busy     map[string]int // attempts by webhook, those that are given up included
	attempts int            // all of busy
	known    map[interpret.Key]*kept
	size     int
	pass     int             // counts calls of Ask
	snapshot *decide.Answers // nil if known changed since
}

// attempt is a question under way.
type attempt struct{ cancel context.CancelFunc }

// kept is an answer.
type kept struct {
	*interpret.Answer
	// used is the last pass that needed it.
	used int
}

// New makes an Asker that knows nothing.
func New(o Options) *Asker {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = 64 << 20
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 1 << 20
	}
	a := &Asker{
		options: o, changed: make(chan struct{}, 1), clients: map[string]*http.Client{}, waiting: map[string][]decide.Unanswered{},
		underWay: map[interpret.Key]*attempt{}, busy: map[string]int{}, known: map[interpret.Key]*kept{},
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Close gives up what is under way and waits for its end, or that of ctx.
func (a *Asker) Close(ctx context.Context) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	done := make(chan struct{})
	go func() { a.running.Wait(); close(done) }()
	select {
	case <-ctx.Done():
	case <-done:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropClients()
}

// Changed receives after Answers may give something new.
func (a *Asker) Changed() <-chan struct{} { return a.changed }

// Answers are those known as of now. As long as nothing changes they are the same.
func (a *Asker) Answers() *decide.Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.snapshot == nil {
		a.snapshot = &decide.Answers{ByKey: make(map[interpret.Key]*interpret.Answer, len(a.known))}
		for key, k := range a.known {
			a.snapshot.ByKey[key] = k.Answer
		}
	}
	return a.snapshot
}

// Ask asks what is due, and nothing else: what was under way and is not due any more is given up. heard
// are the answers that the decision looked for.
func (a *Asker) Ask(unanswered []decide.Unanswered, heard []interpret.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pass++
	for _, key := range heard {
		if k := a.known[key]; k != nil {
			k.used = a.pass
		}
	}
	for key, k := range a.known {
		if k.Failure != "" && k.used != a.pass {
			a.forget(key) // whoever needs it again begins anew
		}
	}
	due := map[interpret.Key]bool{}
	clear(a.waiting)
	a.turns = nil
	for _, u := range unanswered {
		if !u.Due {
			continue
		}
		due[u.Key] = true
		if a.underWay[u.Key] != nil {
			continue
		}
		name := u.Webhook.String()
		if a.waiting[name] == nil {
			a.turns = append(a.turns, name)
		}
		a.waiting[name] = append(a.waiting[name], u)
	}
	for key, attempt := range a.underWay {
		if !due[key] {
			attempt.cancel()
			delete(a.underWay, key)
		}
	}
	a.start()
}

// start begins as many attempts as may be under way, one webhook after the other.
func (a *Asker) start() {
	for a.attempts < inAll && !a.closed {
		i := slices.IndexFunc(a.turns, func(name string) bool { return a.busy[name] < perWebhook })
		if i < 0 {
			return
		}
		name := a.turns[i]
		a.turns = slices.Delete(a.turns, i, i+1)
		u := a.waiting[name][0]
		if a.waiting[name] = a.waiting[name][1:]; len(a.waiting[name]) > 0 {
			a.turns = append(a.turns, name)
		} else {
			delete(a.waiting, name)
		}
		ctx, cancel := context.WithCancel(a.ctx)
		this := &attempt{cancel}
		a.underWay[u.Key] = this
		a.busy[name]++
		a.attempts++
		client, err := a.client(u.Webhook)
		a.running.Go(func() {
			defer cancel()
			var answer *interpret.Answer
			if err == nil {
				answer, err = a.call(ctx, client, u.Question)
			}
			a.finish(this, u, answer, err)
		})
	}
}

// finish takes the outcome of an attempt, unless it was given up.
func (a *Asker) finish(this *attempt, u decide.Unanswered, answer *interpret.Answer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := u.Webhook.String()
	if a.busy[name]--; a.busy[name] == 0 {
		delete(a.busy, name)
	}
	a.attempts--
	if a.underWay[u.Key] == this && !a.closed {
		delete(a.underWay, u.Key)
		if err != nil {
			answer = a.failed(u, err.Error())
		}
		a.keep(u, answer)
	}
	a.start()
}

func (a *Asker) failed(u decide.Unanswered, reason string) *interpret.Answer {
	return interpret.Failed(reason, u.Failed, a.options.Clock.Now())
}

// keep puts an answer where the next decision finds it. What no pass needed for longest makes room; what
// the last one needed stays.
func (a *Asker) keep(u decide.Unanswered, answer *interpret.Answer) {
	a.forget(u.Key)
	if a.size+answer.Size > a.options.MaxMemory {
		a.makeRoom(answer.Size)
	}
	if answer.Failure == "" && a.size+answer.Size > a.options.MaxMemory {
		answer = a.failed(u, "there is no room for the answer: those in use take all the memory that is meant for them; let fewer objects be matched, or answers be shorter")
	}
	a.known[u.Key] = &kept{answer, a.pass}
	a.size += answer.Size
	a.snapshot = nil
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *Asker) makeRoom(size int) {
	oldest := slices.SortedFunc(maps.Keys(a.known), func(x, y interpret.Key) int { return a.known[x].used - a.known[y].used })
	// A quarter more than needed, so that this is not done for every answer.
	for goal := a.options.MaxMemory - a.options.MaxMemory/4 - size; len(oldest) > 0 && a.size > goal; oldest = oldest[1:] {
		if a.known[oldest[0]].used == a.pass {
			return
		}
		a.forget(oldest[0])
	}
}

func (a *Asker) forget(key interpret.Key) {
	if k := a.known[key]; k != nil {
		a.size -= k.Size
		delete(a.known, key)
		a.snapshot = nil
	}
}
