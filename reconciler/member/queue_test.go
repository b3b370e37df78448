package member

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/apply"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func named(name string) api.ID { return api.ID{Kind: "ConfigMap", Name: name} }

// take empties what may start now.
func (q *queue) take(now time.Time) string {
	names := ""
	for id, ok := q.next(now); ok; id, ok = q.next(now) {
		names += id.Name
	}
	return names
}

func TestQueueGivesEarlierStagesFirst(t *testing.T) {
	var q queue
	q.add(named("d"), apply.DeleteRest, start)
	q.add(named("c"), apply.Rest, start)
	q.add(named("b"), apply.Rest, start)
	q.add(named("z"), apply.Ground, start)
	for _, want := range []string{"z", "bc", "d"} {
		got := q.take(start)
		if got != want {
			t.Errorf("took %q, want %q", got, want)
		}
		for _, name := range got {
			q.done(named(string(name)))
		}
	}
	if q.busy() {
		t.Error("busy with nothing")
	}
}

func TestQueueDoesNotHoldUpAStageForWhatIsNotDue(t *testing.T) {
	var q queue
	q.add(named("z"), apply.Ground, start.Add(time.Minute)) // failed, tried again later
	q.add(named("a"), apply.Rest, start)
	if got := q.take(start); got != "a" {
		t.Errorf("took %q, want a", got)
	}
	if at, ok := q.wake(); !ok || at != start.Add(time.Minute) {
		t.Errorf("wakes at %v %v, want a minute later", at, ok)
	}
}

func TestQueueTakesTheEarlierTime(t *testing.T) {
	for _, tt := range []struct{ first, second, due time.Duration }{
		{time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Second},
	} {
		var q queue
		q.add(named("a"), apply.Rest, start.Add(tt.first))
		q.add(named("a"), apply.Rest, start.Add(tt.second))
		if got := q.take(start.Add(tt.due - 1)); got != "" {
			t.Errorf("took %q too early", got)
		}
		if got := q.take(start.Add(tt.due)); got != "a" {
			t.Errorf("took %q, want a", got)
		}
	}
}

func TestQueueHasAnObjectInWorkOnce(t *testing.T) {
	var q queue
	q.add(named("a"), apply.Rest, start)
	q.take(start)
	q.add(named("a"), apply.DeleteRest, start)
	if got := q.take(start); got != "" {
		t.Errorf("took %q while it is in work", got)
	}
	q.done(named("a"))
	if got := q.take(start); got != "a" {
		t.Errorf("took %q, want a again", got)
	}
	q.add(named("a"), apply.Rest, start)
	q.remove(named("a"))
	q.done(named("a"))
	if got := q.take(start); got != "" || q.busy() {
		t.Errorf("took %q after it was removed", got)
	}
}

// Whatever happens, what was added last and not removed is given in the end, and stages never mix.
func TestQueueLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		now := start
		wanted, working := map[string]bool{}, map[string]apply.Stage{}
		stages := map[string]apply.Stage{"a": apply.Ground, "b": apply.Ground, "c": apply.Rest, "d": apply.DeleteRest, "e": apply.DeleteGround}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		next := func(t *rapid.T) bool {
			id, ok := q.next(now)
			if !ok {
				return false
			}
			for other, stage := range working {
				if stage < stages[id.Name] {
					t.Fatalf("%s started while %s is in work", id.Name, other)
				}
			}
			if !wanted[id.Name] {
				t.Fatalf("%s was given and not wanted", id.Name)
			}
			delete(wanted, id.Name)
			working[id.Name] = stages[id.Name]
			return true
		}
		done := func() {
			for _, n := range []string{"a", "b", "c", "d", "e"} {
				if _, ok := working[n]; ok {
					delete(working, n)
					q.done(named(n))
					return
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := name.Draw(t, "name")
				wanted[n] = true
				q.add(named(n), stages[n], now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "wait"))*time.Second))
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				delete(wanted, n)
				q.remove(named(n))
			},
			"next": func(t *rapid.T) { next(t) },
			"done": func(*rapid.T) { done() },
			"wait": func(*rapid.T) { now = now.Add(time.Second) },
		})
		now = now.Add(time.Minute)
		for len(working) > 0 || len(wanted) > 0 {
			if !next(t) && len(working) == 0 {
				t.Fatalf("%v were lost", wanted)
			}
			done()
		}
	})
}

func TestPausesGrowToTheirBound(t *testing.T) {
	b := backoff{time.Second, 5 * time.Second}
	var got []time.Duration
	for n := 1; n <= 5; n++ {
		got = append(got, b.pause(n))
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
}

func TestDriftIsPutBackSlowerTheMoreOftenItComes(t *testing.T) {
	var c object
	now := start
	for n := 1; n <= 8; n++ {
		pause := c.driftDue(now).Sub(now)
		want := time.Duration(0)
		if n > freely {
			want = fight.pause(n - freely)
		}
		if pause != want {
			t.Errorf("%d: put back after %v, want %v", n, pause, want)
		}
		now = now.Add(pause)
		c.driftUndone(now)
	}
	now = now.Add(calmDown + 1)
	if pause := c.driftDue(now).Sub(now); pause != 0 {
		t.Errorf("after a calm time: put back after %v, want at once", pause)
	}
}
