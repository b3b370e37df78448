package failover_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

func outages(total int, since ...int) failover.Outages {
	o := failover.Outages{Total: total}
	for _, s := range since {
		o.Since = append(o.Since, at(s))
	}
	return o
}

func TestWhenEvictionsAreHeldBack(t *testing.T) {
	eleven := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	before := &record.Brake{Since: at(5), Message: "as it was"}
	approved := &record.Brake{Since: at(5), Message: "as it was", Approved: true}
	cutOff := func(o failover.Outages) failover.Outages { o.CutOff = "no anchor answers"; return o }
	within := func(o failover.Outages, window time.Duration) failover.Outages { o.Window = window; return o }
	fresh := func(message string) *record.Brake { return &record.Brake{Since: at(now), Message: message} }
	for _, c := range []struct {
		name   string
		before *record.Brake
		o      failover.Outages
		want   *record.Brake
	}{
		{"nothing is down", nil, outages(5), nil},
		{"no members", nil, outages(0), nil},
		{"one of five", nil, outages(5, 10), nil},
		{"the only one", nil, outages(1, 10), fresh("the only member is down")},
		{"one of two", nil, outages(2, 10), nil},
		{"both, long apart", nil, outages(2, 10, 5000), fresh("all 2 members are down")},
		{"two of three together", nil, outages(3, 10, 70), fresh("2 of 3 members went down together")},
		{"two of three, not together", nil, outages(3, 10, 71), nil},
		{"in any order", nil, outages(3, 70, 10), fresh("2 of 3 members went down together")},
		{"a wider window", nil, within(outages(3, 10, 130), 2*time.Minute), fresh("2 of 3 members went down together")},
		{"a narrower window", nil, within(outages(3, 10, 50), 30*time.Second), nil},
		{"the closest ones count", nil, outages(5, 5000, 1000, 1010, 1020), fresh("3 of 5 members went down together")},
		{"a window slides", nil, outages(5, 0, 50, 100), nil},
		{"two of four are not most", nil, outages(4, 10, 11), nil},
		{"exactly 55 %", nil, outages(20, eleven...), nil},
		{"more than 55 %", nil, outages(20, append(eleven, 0)...), fresh("12 of 20 members went down together")},
		{"cut off", nil, cutOff(outages(5)), fresh("no anchor answers")},
		{"cut off, and all are down", nil, cutOff(outages(1, 10)), fresh("no anchor answers")},

		{"on, and stays what it was", before, outages(3, 10, 20), before},
		{"on, and another reason", before, cutOff(outages(3)), before},
		{"on, and most are down, though not together any more", before, outages(3, 10, 5000), before},
		{"on, and most of two are down", before, outages(2, 10, 5000), before},
		{"on, and 55 % are down", before, outages(20, eleven...), nil},
		{"on, and one is down", before, outages(3, 10), nil},
		{"on, and all are back", before, outages(3), nil},
		{"approved stays so", approved, outages(3, 10, 20), approved},
		{"approved ends", approved, outages(3), nil},
	} {
		same(t, c.name, failover.Brake(c.before, c.o, at(now)), c.want)
	}
}

func TestTheBrakeIsOffOnceEverythingIsBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		total := rapid.IntRange(0, 12).Draw(r, "members")
		var brake *record.Brake
		for step := range rapid.IntRange(1, 8).Draw(r, "steps") {
			since := rapid.SliceOfN(rapid.IntRange(0, 500), 0, total).Draw(r, "since")
			o := outages(total, since...)
			next := failover.Brake(brake, o, at(1000+step))
			switch {
			case next != nil && len(since)*100 <= total*55:
				r.Fatalf("%d of %d members are down, and the brake is on: %v", len(since), total, next)
			case next == nil && brake != nil && len(since)*100 > total*55:
				r.Fatalf("%d of %d members are down, and the brake is off", len(since), total)
			case next != nil && brake != nil && *next != *brake:
				r.Fatalf("a brake that is on changes: %v, %v", brake, next)
			}
			brake = next
		}
		if off := failover.Brake(brake, outages(total), at(2000)); off != nil {
			r.Fatalf("all are back, and the brake is on: %v", off)
		}
	})
}

// spent reads evictions: "m1@90x3".
func spent(list ...string) []record.Evictions {
	var all []record.Evictions
	for _, text := range list {
		var e record.Evictions
		var s int
		if _, err := fmt.Sscanf(text, "%2s@%dx%d", &e.Cluster, &s, &e.Count); err != nil {
			panic(err)
		}
		e.Time = at(s)
		all = append(all, e)
	}
	return all
}

func TestHowManyMayBegin(t *testing.T) {
	for _, c := range []struct {
		name      string
		recent    []record.Evictions
		perMinute int
		leaving   string
		allows    bool
		frees     string
	}{
		{"nothing yet", nil, 0, "m1", true, "-"},
		{"any number from one member", spent("m1@99x500"), 0, "m1", true, "159"},
		{"20 from more", spent("m1@99x19"), 0, "m1 m2", true, "159"},
		{"20 from more, and they are spent", spent("m1@99x20"), 0, "m1 m2", false, "159"},
		{"more, because another was left within the minute", spent("m2@90x20"), 0, "m1", false, "150"},
		{"the other was left a minute ago", spent("m2@40x20"), 0, "m1", true, "-"},
		{"the other was left a second less than a minute ago", spent("m2@41x20"), 0, "m1", false, "101"},
		{"several counts add up", spent("m1@50x5", "m2@60x5", "m1@70x10"), 0, "m1", false, "110"},
		{"what is old does not add up", spent("m1@30x15", "m2@60x5", "m1@70x10"), 0, "m1", true, "120"},
		{"explicit", spent("m1@99x2"), 3, "m1", true, "159"},
		{"explicit, spent, also for one member", spent("m1@99x3"), 3, "m1", false, "159"},
		{"explicit, more than the default", spent("m1@99x20"), 50, "m1 m2", true, "159"},
	} {
		leaving := map[string]bool{}
		for i := 0; i+2 <= len(c.leaving); i += 3 {
			leaving[c.leaving[i:i+2]] = true
		}
		b := failover.NewBudget(c.recent, c.perMinute, at(now))
		if got := b.Allows(leaving); got != c.allows {
			t.Errorf("%s: allows %v, want %v", c.name, got, c.allows)
		}
		if got := second(b.Frees()); got != c.frees {
			t.Errorf("%s: frees at %s, want %s", c.name, got, c.frees)
		}
	}
}

func TestWhatIsSpentIsRecorded(t *testing.T) {
	b := failover.NewBudget(spent("m2@40x7", "m2@50x1"), 0, at(now))
	for _, member := range []string{"m3", "m1", "m3"} {
		b.Take(member)
	}
	same(t, "spent", b.Spent(), spent("m2@50x1", "m1@100x1", "m3@100x2"))
}

// However a minute is cut, no more begin in it than may; and when it frees, one more may.
func TestNoMinuteSeesMoreThanMayBegin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(r, "limit")
		leaving := map[string]bool{"m1": true, "m2": true}
		var recorded []record.Evictions
		var begun []int
		now := 0
		for range rapid.IntRange(1, 12).Draw(r, "passes") {
			b := failover.NewBudget(recorded, limit, at(now))
			for range rapid.IntRange(0, 10).Draw(r, "wanted") {
				if b.Allows(leaving) {
					b.Take(rapid.SampledFrom([]string{"m1", "m2"}).Draw(r, "member"))
					begun = append(begun, now)
				}
			}
			recorded = b.Spent()
			if !b.Allows(leaving) {
				if at := b.Frees(); !failover.NewBudget(recorded, limit, at).Allows(leaving) || failover.NewBudget(recorded, limit, at.Add(-time.Second)).Allows(leaving) {
					r.Fatalf("frees at %s", second(at))
				}
			}
			now += rapid.IntRange(0, 70).Draw(r, "later")
		}
		for i := range begun {
			n := 0
			for _, t := range begun[i:] {
				if t < begun[i]+60 {
					n++
				}
			}
			if n > limit {
				r.Fatalf("%d begin within a minute from %d on, and %d may", n, begun[i], limit)
			}
		}
	})
}
