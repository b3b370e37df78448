package hook

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Options of a Receiver. The zero value of each field means its default.
type Options struct {
	// ID is the last part of the path: who does not know it is told that there is nothing. It is required.
	ID *SecretFile
	// Secrets by provider; others are not served.
	Secrets map[Provider]*SecretFile
	// Clock, default the real one.
	Clock clock.PassiveClock
	// Log, default none.
	Log *slog.Logger
	// Count receives the outcome of each delivery, default nobody. The provider is empty for a path that does not exist.
	Count func(provider, result string)
	// MaxBody bounds a body, in bytes; default 25 MiB, which is GitHub's own limit.
	MaxBody int64
}

// Results of deliveries, as Count gets them.
const (
	Accepted  = "accepted"
	Unknown   = "unknown"   // there is no such path
	Malformed = "malformed" // or broken off
	Forged    = "forged"
	Stale     = "stale"
	Replayed  = "replayed"
	TooLarge  = "too_large"
	Limited   = "limited" // too many
)

// Results are all of them.
var Results = []string{Accepted, Unknown, Malformed, Forged, Stale, Replayed, TooLarge, Limited}

const (
	// perSecond is how many deliveries are looked at in the long run, and burst how many at once.
	perSecond = 5
	burst     = 30
	// inHand is how many are being read.
	inHand   = 16
	quietFor = time.Minute // between two lines of the log that say the same
)

// Receiver is an http.Handler below /hooks/.
type Receiver struct {
	o     Options
	hints chan struct{}
	slots chan struct{}

	mu     sync.Mutex
	bucket bucket
	memory memory
	said   map[string]time.Time // by provider and result
}

// New makes a Receiver.
func New(o Options) *Receiver {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Count == nil {
		o.Count = func(string, string) {}
	}
	if o.MaxBody == 0 {
		o.MaxBody = 25 << 20
	}
	return &Receiver{
		o: o, hints: make(chan struct{}, 1), slots: make(chan struct{}, inHand), said: map[string]time.Time{},
		bucket: bucket{tokens: burst, at: o.Clock.Now()}, memory: memory{came: make(map[Fingerprint]bool)},
	}
}

// Hints receives after a branch may have moved.
func (r *Receiver) Hints() <-chan struct{} { return r.hints }

// answers are the status of each result.
var answers = map[string]int{
	Accepted: http.StatusAccepted, Unknown: http.StatusNotFound, Malformed: http.StatusBadRequest, Forged: http.StatusUnauthorized,
	Stale: http.StatusUnauthorized, Replayed: http.StatusConflict, TooLarge: http.StatusRequestEntityTooLarge, Limited: http.StatusTooManyRequests,
}

// ServeHTTP takes one delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p, result, err := r.receive(w, q)
	r.o.Count(string(p), result)
	if result == Limited {
		w.Header().Set("Retry-After", strconv.Itoa(burst/perSecond))
	}
	if result == Accepted {
		select {
		case r.hints <- struct{}{}:
		default:
		}
	} else if result != Unknown && r.news(string(p)+" "+result) {
		r.o.Log.Warn("a push webhook was refused; more of them are only counted for a while", "provider", string(p), "result", result, "error", err)
	}
	w.WriteHeader(answers[result])
}

// receive tells what is to be thought of a delivery. The cheap questions come first.
func (r *Receiver) receive(w http.ResponseWriter, q *http.Request) (Provider, string, error) {
	p, secrets := r.provider(q.URL.Path)
	switch {
	case secrets == nil || q.Method != http.MethodPost:
		return "", Unknown, nil
	case q.ContentLength > r.o.MaxBody:
		return p, TooLarge, nil
	case !r.admit():
		return p, Limited, nil
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return p, Limited, nil
	}
	print, err := Verify(p, q.Header, http.MaxBytesReader(w, q.Body, r.o.MaxBody), secrets, r.o.Clock.Now())
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return p, TooLarge, nil
	case errors.Is(err, ErrForged):
		return p, Forged, err
	case errors.Is(err, ErrStale):
		return p, Stale, err
	case err != nil:
		return p, Malformed, err
	case print == Fingerprint{}:
		return p, Accepted, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return p, r.memory.take(print, r.o.Clock.Now()), nil
}

// provider is the one of a path, with its secrets; they are nil if there is no such path.
func (r *Receiver) provider(path string) (Provider, [][]byte) {
	rest, ok := strings.CutPrefix(path, "/hooks/")
	name, id, found := strings.Cut(rest, "/")
	file := r.o.Secrets[Provider(name)]
	if !ok || !found || file == nil {
		return "", nil
	}
	known := 0
	for _, want := range r.o.ID.Secrets() {
		known |= same([]byte(id), want)
	}
	if known == 0 {
		return "", nil
	}
	return Provider(name), file.Secrets()
}

func (r *Receiver) admit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bucket.take(r.o.Clock.Now())
}

// news tells whether something was not said for a while.
func (r *Receiver) news(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock.Now()
	if at, ok := r.said[what]; ok && now.Sub(at) < quietFor {
		return false
	}
	r.said[what] = now
	return true
}

// bucket limits a rate.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(burst, b.tokens+max(0, now.Sub(b.at).Seconds())*perSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// memory knows what came, for as long as its time could be right. The rate bounds it: it takes what the bucket lets
// through in twice the Window.
type memory struct {
	came  map[Fingerprint]bool
	order []arrival // oldest first
}

type arrival struct {
	print Fingerprint
	at    time.Time
}

// take remembers a delivery: Replayed if it came before.
func (m *memory) take(print Fingerprint, now time.Time) string {
	old := 0
	for old < len(m.order) && now.Sub(m.order[old].at) > 2*Window {
		delete(m.came, m.order[old].print)
		old++
	}
	m.order = m.order[old:]
	if m.came[print] {
		return Replayed
	}
	m.came[print] = true
	m.order = append(m.order, arrival{print, now})
	return Accepted
}
