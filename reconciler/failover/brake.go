package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
)

const (
	// brakePercent: when more of the members than that went down together, it is rather the view of
	// them that is gone.
	brakePercent = 55
	// brakeFleet is how many members there must be for a share of them to mean anything.
	brakeFleet = 3
	// defaultBrakeWindow is how close together is together.
	defaultBrakeWindow = time.Minute
)

// Outages are the members that are down.
type Outages struct {
	// Total is how many members there are.
	Total int
	// Since has, for each that is down, since when, in any order.
	Since []time.Time
	// CutOff says why the reconciler knows itself to be cut off; empty means it does not.
	CutOff string
	// Window is how close together outages are one event; 0 means a minute.
	Window time.Duration
}

// Brake tells whether evictions may begin: with a brake they may not, unless it is approved. before is
// the brake on record, nil if there is none. It is put on when every member is down, or most of at
// least three went down within the window, or the reconciler is cut off; and taken off when none of
// that is so any more and most members are back.
//
// Differs from Karmada: there every member that is down is left, also all of them (differences, row 10).
func Brake(before *record.Brake, o Outages, now time.Time) *record.Brake {
	down := len(o.Since)
	why := ""
	switch {
	case o.CutOff != "":
		why = o.CutOff
	case o.Total > 0 && down == o.Total:
		why = fmt.Sprintf("all %d members are down", o.Total)
		if o.Total == 1 {
			why = "the only member is down"
		}
	case o.Total >= brakeFleet && most(together(o), o.Total):
		why = fmt.Sprintf("%d of %d members went down together", together(o), o.Total)
	case before != nil && most(down, o.Total):
		return before // whatever the reason was, it is not over
	}
	switch {
	case why == "":
		return nil
	case before != nil:
		return before
	}
	return &record.Brake{Since: now, Message: why}
}

func most(n, total int) bool { return n*100 > total*brakePercent }

// together is the largest number of members that went down within one window.
func together(o Outages) int {
	since := slices.SortedFunc(slices.Values(o.Since), time.Time.Compare)
	window := cmp.Or(o.Window, defaultBrakeWindow)
	largest, first := 0, 0
	for i, t := range since {
		for t.Sub(since[first]) > window {
			first++
		}
		largest = max(largest, i-first+1)
	}
	return largest
}

// rateWindow is over how long evictions are counted.
const rateWindow = time.Minute

// Budget counts evictions against the limit.
type Budget struct {
	perMinute int // 0 is the default
	spent     []record.Evictions
	now       time.Time
}

// NewBudget starts from the evictions on record. perMinute is how many may begin within a minute; 0
// means the default: any number from one member, 20 from more.
func NewBudget(recent []record.Evictions, perMinute int, now time.Time) *Budget {
	b := &Budget{perMinute: perMinute, now: now}
	for _, e := range recent {
		if now.Sub(e.Time) < rateWindow {
			b.spent = append(b.spent, e)
		}
	}
	return b
}

// defaultPerMinute is the limit where more than one member is left.
const defaultPerMinute = 20

// Allows tells whether one more eviction may begin, where the members in leaving are being left.
func (b *Budget) Allows(leaving map[string]bool) bool {
	limit := b.perMinute
	if limit == 0 {
		members := len(leaving)
		for _, e := range b.spent {
			if !leaving[e.Cluster] {
				members++
			}
		}
		if members <= 1 {
			return true
		}
		limit = defaultPerMinute
	}
	n := 0
	for _, e := range b.spent {
		n += e.Count
	}
	return n < limit
}

// Take counts an eviction from a member.
func (b *Budget) Take(member string) {
	i := slices.IndexFunc(b.spent, func(e record.Evictions) bool { return e.Cluster == member && e.Time.Equal(b.now) })
	if i < 0 {
		b.spent = append(b.spent, record.Evictions{Time: b.now, Cluster: member})
		i = len(b.spent) - 1
	}
	b.spent[i].Count++
}

// Spent is what to record: the evictions of the last minute, by time and member.
func (b *Budget) Spent() []record.Evictions {
	return slices.SortedFunc(slices.Values(b.spent), func(x, y record.Evictions) int {
		return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.Cluster, y.Cluster))
	})
}

// Frees is when the budget grows; zero if nothing is spent.
func (b *Budget) Frees() time.Time {
	var first time.Time
	for _, e := range b.spent {
		if first.IsZero() || e.Time.Before(first) {
			first = e.Time
		}
	}
	if first.IsZero() {
		return first
	}
	return first.Add(rateWindow)
}
