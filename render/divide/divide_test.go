package divide

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// weights reads "b:2 a:1".
func weights(text string) (list []Weight) {
	for f := range strings.FieldsSeq(text) {
		name, n, _ := strings.Cut(f, ":")
		weight, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			panic(err)
		}
		list = append(list, Weight{name, weight})
	}
	return list
}

// shares reads "b=2 a=1"; show writes it.
func shares(text string) (list []Share) {
	for _, w := range weights(strings.ReplaceAll(text, "=", ":")) {
		list = append(list, Share{w.Name, int32(w.Weight)})
	}
	return list
}

func show(list []Share) string {
	var fields []string
	for _, s := range list {
		fields = append(fields, fmt.Sprintf("%s=%d", s.Name, s.Replicas))
	}
	return strings.Join(fields, " ")
}

func TestWebster(t *testing.T) {
	tests := []struct {
		name           string
		seats          int32
		votes, initial string
		tie            Tie
		want           string
	}{
		{"1:2", 9, "a:1 b:2", "", SmallerNameFirst, "a=3 b=6"},
		{"1:3", 9, "a:1 b:3", "", SmallerNameFirst, "a=2 b=7"},
		{"a tie goes to the smaller name", 7, "b:1 c:1 a:1", "", SmallerNameFirst, "a=3 b=2 c=2"},
		{"or to the larger", 7, "b:1 c:1 a:1", "", LargerNameFirst, "a=2 b=2 c=3"},
		{"zero weight takes no part", 3, "a:1 b:0", "", SmallerNameFirst, "a=3 b=0"},
		{"negative weight neither", 3, "a:1 b:-5", "", SmallerNameFirst, "a=3 b=0"},
		{"no votes, no seats", 3, "a:0 b:0", "", SmallerNameFirst, "a=0 b=0"},
		{"no names", 3, "", "", SmallerNameFirst, ""},
		{"no seats", 0, "a:1", "", SmallerNameFirst, "a=0"},
		{"initial seats count", 2, "a:1 b:1", "a=2", SmallerNameFirst, "a=2 b=2"},
		{"names with initial seats alone stay as they are", 2, "b:1", "c=4 a=1", LargerNameFirst, "a=1 b=2 c=4"},
		{"equal quotients: fewer seats first, whatever the names", 1, "a:3 b:1", "a=1", SmallerNameFirst, "a=1 b=1"},
		{"weights beyond 2^53", 3, "a:9223372036854775807 b:9223372036854775807", "", SmallerNameFirst, "a=2 b=1"},
		{"largest number of replicas", 2147483647, "a:1 b:1", "", SmallerNameFirst, "a=1073741824 b=1073741823"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := show(Webster(tt.seats, weights(tt.votes), shares(tt.initial), tt.tie)); got != tt.want {
				t.Errorf("Webster(%d, %q, %q, %v) = %q, want %q", tt.seats, tt.votes, tt.initial, tt.tie, got, tt.want)
			}
		})
	}
}

func TestSeatsGoOutInOrder(t *testing.T) {
	votes := weights("A:100000 B:80000 C:30000 D:20000")
	var got string
	before := Webster(0, votes, nil, SmallerNameFirst)
	for n := int32(1); n <= 8; n++ {
		after := Webster(n, votes, nil, SmallerNameFirst)
		for i := range after {
			if after[i].Replicas > before[i].Replicas {
				got += after[i].Name
			}
		}
		before = after
	}
	if want := "ABACBDAB"; got != want {
		t.Errorf("seats go to %s, want %s", got, want)
	}
}

func TestTieOf(t *testing.T) {
	// FNV-1a of one byte is (2166136261 ^ byte) * 16777619; both factors' last bits decide.
	for uid, want := range map[string]Tie{"": SmallerNameFirst, "a": SmallerNameFirst, "b": LargerNameFirst, "foobar": SmallerNameFirst} {
		if got := TieOf(uid); got != want {
			t.Errorf("TieOf(%q) = %v, want %v", uid, got, want)
		}
	}
}

func TestStatic(t *testing.T) {
	for _, tt := range []struct {
		name, weights string
		replicas      int32
		want          string
	}{
		{"by weight", "a:3 b:1", 4, "a=3 b=1"},
		{"without any weight all are equal", "b:0 a:0 c:0", 4, "a=2 b=1 c=1"},
		{"unmatched names are left out", "a:0 b:2", 3, "a=0 b=3"},
	} {
		if got := show(Static(tt.replicas, weights(tt.weights), SmallerNameFirst)); got != tt.want {
			t.Errorf("%s: Static(%d, %q) = %q, want %q", tt.name, tt.replicas, tt.weights, got, tt.want)
		}
	}
}

func TestDynamic(t *testing.T) {
	const weighted, aggregated = false, true
	const steady, fresh = false, true
	tests := []struct {
		name              string
		replicas          int32
		room, scheduled   string
		aggregated, fresh bool
		want              string
	}{
		{"first time", 12, "A:6 B:12 C:18", "", weighted, steady, "A=2 B=4 C=6"},
		{"scaling up moves nothing", 6, "a:1 b:9", "a=4", weighted, steady, "a=4 b=2"},
		{"scaling up counts room alone, not what is there", 12, "a:2 b:2", "a=8", weighted, steady, "a=10 b=2"},
		{"scaling down is in proportion to what is there", 3, "a:0 b:0", "a=4 b=2", weighted, steady, "a=2 b=1"},
		{"the same total changes nothing, not even the order", 6, "a:9 b:9", "b=2 a=4", weighted, steady, "b=2 a=4"},
		{"replicas lost with a member are assigned again", 6, "a:5 b:5", "a=2", weighted, steady, "a=4 b=2"},
		{"fresh forgets", 6, "a:2 b:3", "a=4", weighted, fresh, "a=4 b=2"},
		{"fresh with the same total", 4, "a:0 b:4", "a=4", weighted, fresh, "a=2 b=2"},
		{"down to nothing", 0, "a:1", "a=3", weighted, steady, "a=0"},
		{"aggregated takes the fewest", 5, "a:2 b:3 c:4", "", aggregated, steady, "b=2 c=3"},
		{"aggregated takes one if it suffices", 3, "a:2 b:3 c:4", "", aggregated, steady, "c=3"},
		{"aggregated: equal room keeps the order of preference", 3, "b:3 a:3", "", aggregated, steady, "b=3"},
		{"aggregated scales up where replicas are", 5, "a:2 b:9", "a=3", aggregated, steady, "a=5"},
		{"aggregated: what takes no part is kept", 6, "c:9 b:1 a:1", "c=1 b=1 a=1", aggregated, steady, "c=4 a=1 b=1"},
		{"aggregated: 0 replicas is not there", 5, "a:2 b:9", "a=0", aggregated, steady, "b=5 a=0"},
		{"aggregated scales down to the largest", 4, "a:0 b:0 c:0", "a=2 b=3 c=4", aggregated, steady, "c=4"},
		{"aggregated: scaling down breaks ties in scheduled order", 3, "a:0 b:0", "b=3 a=3", aggregated, steady, "b=3"},
		{"aggregated fresh", 4, "a:1 b:4", "a=2", aggregated, fresh, "b=4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Dynamic{Replicas: tt.replicas, Room: weights(tt.room), Scheduled: shares(tt.scheduled), Fresh: tt.fresh, Aggregated: tt.aggregated}.Divide()
			if err != nil || show(got) != tt.want {
				t.Errorf("Divide(%d, room %q, scheduled %q) = %q, %v, want %q", tt.replicas, tt.room, tt.scheduled, show(got), err, tt.want)
			}
		})
	}
}

func TestShortOfRoom(t *testing.T) {
	for _, d := range []Dynamic{
		{Replicas: 5, Room: weights("a:2 b:2")},
		{Replicas: 7, Room: weights("a:2 b:2"), Scheduled: shares("a=2")},
		{Replicas: 7, Room: weights("a:2 b:2"), Scheduled: shares("a=2"), Fresh: true},
	} {
		_, err := d.Divide()
		var short *ShortError
		if !errors.As(err, &short) || short.Have >= int64(short.Need) {
			t.Errorf("%+v: got %v, want a *ShortError", d, err)
		}
	}
}

// slowWebster is the definition, with exact fractions.
func slowWebster(seats int32, votes []Weight, tie Tie) []Share {
	var list []Share
	weight := map[string]int64{}
	for _, v := range votes {
		list = append(list, Share{Name: v.Name})
		weight[v.Name] = v.Weight
	}
	slices.SortFunc(list, func(a, b Share) int { return strings.Compare(a.Name, b.Name) })
	for range seats {
		best := -1
		for i := range list {
			if weight[list[i].Name] == 0 {
				continue
			}
			if best < 0 {
				best = i
				continue
			}
			a := big.NewRat(weight[list[i].Name], int64(2*list[i].Replicas+1))
			b := big.NewRat(weight[list[best].Name], int64(2*list[best].Replicas+1))
			switch c := a.Cmp(b); {
			case c > 0,
				c == 0 && list[i].Replicas < list[best].Replicas,
				c == 0 && list[i].Replicas == list[best].Replicas && tie == LargerNameFirst:
				best = i
			}
		}
		if best >= 0 {
			list[best].Replicas++
		}
	}
	return list
}

var anyVotes = rapid.Custom(func(t *rapid.T) []Weight {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d][0-9]?`), 0, 12, rapid.ID[string]).Draw(t, "names")
	top := rapid.SampledFrom([]int64{1, 3, 20, 100000}).Draw(t, "top")
	var list []Weight
	for _, n := range names {
		list = append(list, Weight{n, rapid.Int64Range(0, top).Draw(t, n)})
	}
	return list
})

func sum(list []Share) (n int64) {
	for _, s := range list {
		n += int64(s.Replicas)
	}
	return n
}

func TestWebsterAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes, seats := anyVotes.Draw(t, "votes"), rapid.Int32Range(0, 200).Draw(t, "seats")
		tie := Tie(rapid.Bool().Draw(t, "larger name first"))
		got := Webster(seats, votes, nil, tie)
		if want := slowWebster(seats, votes, tie); !slices.Equal(got, want) {
			t.Fatalf("got %s, want %s", show(got), show(want))
		}
		shuffled := rapid.Permutation(votes).Draw(t, "shuffled")
		if again := Webster(seats, shuffled, nil, tie); !slices.Equal(got, again) {
			t.Fatalf("in another order: %s, before %s", show(again), show(got))
		}
	})
}

func TestSeatsAreHandedOutExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes, seats := anyVotes.Draw(t, "votes"), rapid.Int32Range(0, 1_000_000).Draw(t, "seats")
		var want int64
		for _, v := range votes {
			if v.Weight > 0 {
				want = int64(seats)
			}
		}
		got := Webster(seats, votes, nil, SmallerNameFirst)
		if sum(got) != want {
			t.Fatalf("%s adds up to %d, want %d", show(got), sum(got), want)
		}
		for _, v := range votes {
			if i := slices.IndexFunc(got, func(s Share) bool { return s.Name == v.Name }); v.Weight == 0 && got[i].Replicas != 0 {
				t.Fatalf("%s has no weight and got %d", v.Name, got[i].Replicas)
			}
		}
	})
}

func TestOneMoreReplicaTakesNoneAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes, seats := anyVotes.Draw(t, "votes"), rapid.Int32Range(0, 100_000).Draw(t, "seats")
		before, after := Webster(seats, votes, nil, SmallerNameFirst), Webster(seats+1, votes, nil, SmallerNameFirst)
		for i := range before {
			if after[i].Replicas < before[i].Replicas {
				t.Fatalf("%d seats: %s; one more: %s", seats, show(before), show(after))
			}
		}
	})
}

func TestInitialSeatsAreSeatsAlreadyTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes := anyVotes.Draw(t, "votes")
		first, then := rapid.Int32Range(0, 300).Draw(t, "first"), rapid.Int32Range(0, 300).Draw(t, "then")
		inTwo := Webster(then, votes, Webster(first, votes, nil, LargerNameFirst), LargerNameFirst)
		if atOnce := Webster(first+then, votes, nil, LargerNameFirst); !slices.Equal(inTwo, atOnce) {
			t.Fatalf("in two steps %s, at once %s", show(inTwo), show(atOnce))
		}
	})
}

func TestDynamicLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := anyVotes.Draw(t, "room")
		d := Dynamic{Room: room, Replicas: rapid.Int32Range(0, 60).Draw(t, "replicas"),
			Fresh: rapid.Bool().Draw(t, "fresh"), Aggregated: rapid.Bool().Draw(t, "aggregated")}
		now := map[string]int32{}
		for _, w := range room {
			if rapid.Bool().Draw(t, "is scheduled") {
				d.Scheduled = append(d.Scheduled, Share{w.Name, rapid.Int32Range(0, 20).Draw(t, "scheduled")})
				now[w.Name] = d.Scheduled[len(d.Scheduled)-1].Replicas
			}
		}
		got, err := d.Divide()
		if err != nil {
			return
		}
		if sum(got) != int64(d.Replicas) {
			t.Fatalf("%s adds up to %d, want %d", show(got), sum(got), d.Replicas)
		}
		for _, s := range got {
			up := sum(d.Scheduled) < int64(d.Replicas)
			if !d.Fresh && up && s.Replicas < now[s.Name] {
				t.Fatalf("scaling up took from %s: %s", s.Name, show(got))
			}
			if !d.Fresh && !up && s.Replicas > now[s.Name] {
				t.Fatalf("scaling down gave to %s: %s", s.Name, show(got))
			}
		}
		d.Scheduled, d.Fresh = got, false
		if again, err := d.Divide(); err != nil || !slices.Equal(again, got) {
			t.Fatalf("dividing again: %s, %v, before %s", show(again), err, show(got))
		}
	})
}

// What is explained is what is done.
func TestTheStepExplainedIsTheDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := anyVotes.Draw(t, "room")
		d := Dynamic{Room: room, Replicas: rapid.Int32Range(0, 60).Draw(t, "replicas"),
			Fresh: rapid.Bool().Draw(t, "fresh"), Aggregated: rapid.Bool().Draw(t, "aggregated")}
		for _, w := range room {
			if rapid.Bool().Draw(t, "is scheduled") {
				d.Scheduled = append(d.Scheduled, Share{w.Name, rapid.Int32Range(0, 20).Draw(t, "scheduled")})
			}
		}
		got, err := d.Divide()
		step := d.Explain()
		if (err != nil) != (step.Short != nil) {
			t.Fatalf("error %v, and the step says %v", err, step.Short)
		}
		if err != nil {
			return
		}
		sums := byName(step.Dealt)
		for _, s := range step.Kept {
			sums[s.Name] += s.Replicas
		}
		for _, s := range got {
			if sums[s.Name] != s.Replicas {
				t.Fatalf("%s has %d, the step says %d: %+v", s.Name, s.Replicas, sums[s.Name], step)
			}
		}
		if sum(step.Dealt) != int64(step.Seats) {
			t.Fatalf("%d dealt of %d", sum(step.Dealt), step.Seats)
		}
		if len(step.Weights)+len(step.Spared) != len(room) && step.How != Fewer && step.How != Same {
			t.Fatalf("%d members took part and %d were spared of %d", len(step.Weights), len(step.Spared), len(room))
		}
	})
}

func TestExplainStatic(t *testing.T) {
	for _, text := range []string{"a:3 b:1", "a:0 b:0 c:0", "b:1 a:2"} {
		step := ExplainStatic(5, weights(text), SmallerNameFirst)
		if want := Static(5, weights(text), SmallerNameFirst); show(step.Dealt) != show(want) || sum(step.Dealt) != int64(step.Seats) {
			t.Errorf("%s: explained as %s, divided as %s", text, show(step.Dealt), show(want))
		}
	}
}

func TestArgumentsAreLeftAlone(t *testing.T) {
	room, scheduled := weights("c:1 b:5 a:3"), shares("b=2 a=1")
	wantRoom, wantScheduled := slices.Clone(room), slices.Clone(scheduled)
	for _, fresh := range []bool{true, false} {
		for _, replicas := range []int32{2, 3, 7} {
			if _, err := (Dynamic{Replicas: replicas, Room: room, Scheduled: scheduled, Fresh: fresh, Aggregated: true}).Divide(); err != nil {
				t.Fatal(err)
			}
		}
	}
	Static(3, room, LargerNameFirst)
	Webster(3, room, scheduled, LargerNameFirst)
	if !slices.Equal(room, wantRoom) || !slices.Equal(scheduled, wantScheduled) {
		t.Errorf("arguments changed to %v and %v", room, scheduled)
	}
}

func BenchmarkWebster(b *testing.B) {
	for _, size := range []struct {
		names int
		seats int32
	}{{3, 10}, {100, 100}, {1000, 100}, {1000, 100_000}, {5000, 1_000_000}} {
		votes := make([]Weight, size.names)
		for i := range votes {
			votes[i] = Weight{fmt.Sprintf("member-%04d", i), int64(i*7919%1000 + 1)}
		}
		b.Run(fmt.Sprintf("names=%d/seats=%d", size.names, size.seats), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Webster(size.seats, votes, nil, SmallerNameFirst)
			}
		})
	}
}
