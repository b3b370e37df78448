package notify

import (
	"time"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

const (
	// firstRetry and lastRetry bound the pause before another attempt, which doubles.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// giveUp is how long something is worth telling.
	giveUp = time.Hour
)

// kind tells notices apart that are told by themselves.
type kind struct {
	reason   notice.Reason
	resolved bool
}

func kindOf(n notice.Notice) kind { return kind{n.Reason, n.Resolved} }

// box holds what one target is still to be told. It reads no clock and takes no lock. It holds one notice of a kind,
// besides one that is under way.
type box struct {
	interval time.Duration
	entries  map[kind]*entry
}

type entry struct {
	waiting  *notice.Notice // nil: nothing
	since    time.Time      // of waiting
	next     time.Time      // not before
	failures int
}

// put adds a notice.
func (b *box) put(n notice.Notice, now time.Time) {
	if b.entries == nil {
		b.entries = map[kind]*entry{}
	}
	e := b.entries[kindOf(n)]
	switch {
	case e == nil:
		b.entries[kindOf(n)] = &entry{waiting: &n, since: now}
	case e.waiting == nil:
		e.waiting, e.since = &n, now
	default:
		merged := notice.Merge(*e.waiting, n)
		e.waiting = &merged
	}
}

// take gives what is due, the longest waiting first, with the time since when it waits: it is under way until
// sent or failed is called. If nothing is due, wake is when something will be; zero means not before a put.
func (b *box) take(now time.Time) (n notice.Notice, since time.Time, ok bool, wake time.Time) {
	var first *entry
	for k, e := range b.entries {
		switch {
		case e.waiting == nil && !e.next.After(now):
			delete(b.entries, k) // so that it is as if nothing had been
		case e.waiting == nil:
		case e.next.After(now):
			if wake.IsZero() || e.next.Before(wake) {
				wake = e.next
			}
		case first == nil || before(e, first):
			first = e
		}
	}
	if first == nil {
		return notice.Notice{}, time.Time{}, false, wake
	}
	n, first.waiting = *first.waiting, nil
	first.next = now.Add(b.interval)
	return n, first.since, true, time.Time{}
}

func before(a, b *entry) bool {
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	x, y := a.waiting, b.waiting
	if x.Reason != y.Reason {
		return x.Reason < y.Reason
	}
	return !x.Resolved && y.Resolved
}

// sent: what was under way arrived.
func (b *box) sent(n notice.Notice, now time.Time) {
	e := b.entries[kindOf(n)]
	e.failures, e.next = 0, now.Add(b.interval)
}

// failed: what was under way did not arrive; false means that it is given up.
func (b *box) failed(n notice.Notice, since, now time.Time) bool {
	e := b.entries[kindOf(n)]
	pause := firstRetry << min(e.failures, 20)
	e.failures, e.next = e.failures+1, now.Add(min(pause, lastRetry))
	if now.Sub(since) >= giveUp {
		return false
	}
	if e.waiting != nil {
		n = notice.Merge(n, *e.waiting)
	}
	e.waiting, e.since = &n, since
	return true
}

// empty tells whether nothing waits.
func (b *box) empty() bool {
	for _, e := range b.entries {
		if e.waiting != nil {
			return false
		}
	}
	return true
}
