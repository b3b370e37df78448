package roster

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	slices.Sort(all)
	return all
}

func drawNames(t *rapid.T, least int) []string {
	all := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,8}`), least, 8, rapid.ID[string]).Draw(t, "replicas")
	slices.Sort(all)
	return all
}

func TestAReplicaThatComesOrGoesMovesOnlyItsMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawNames(t, 2)
		gone := rapid.SampledFrom(replicas).Draw(t, "gone")
		rest := slices.DeleteFunc(slices.Clone(replicas), func(n string) bool { return n == gone })
		for _, member := range names(rapid.StringMatching(`[a-z]{0,6}`).Draw(t, "prefix"), 50) {
			with, without := Owner(replicas, member), Owner(rest, member)
			if !slices.Contains(replicas, with) || !slices.Contains(rest, without) {
				t.Fatalf("%s is of %q, and of %q", member, with, without)
			}
			if with != gone && with != without {
				t.Fatalf("%s moves from %s to %s as %s goes", member, with, without, gone)
			}
			mixed := rapid.Permutation(replicas).Draw(t, "order")
			if again := Owner(mixed, member); again != with {
				t.Fatalf("%s is of %s or %s, by the order", member, with, again)
			}
		}
	})
}

func TestMembersAreSpreadEvenly(t *testing.T) {
	for _, n := range []int{2, 3, 5, 10} {
		count := map[string]int{}
		const members = 5000
		for _, m := range names("member", members) {
			count[Owner(names("godwit-7d9f", n), m)]++
		}
		mean := float64(members) / float64(n)
		for name, got := range count {
			if math.Abs(float64(got)-mean) > 5*math.Sqrt(mean) {
				t.Errorf("%s of %d has %d members, the mean is %.0f", name, n, got, mean)
			}
		}
	}
}

func TestNobodyOwnsWhereThereIsNobody(t *testing.T) {
	if got := Owner(nil, "m"); got != "" {
		t.Errorf("Owner(nil) = %q", got)
	}
	if got := (Roster{}).Serves("m"); got != "" {
		t.Errorf("the zero roster serves by %q", got)
	}
}

// Which member is served by whom follows from the epoch: what moves waits, what stays is served throughout.
func TestMembersMoveInTwoSteps(t *testing.T) {
	r := Roster{}.Next(map[string]int64{"a": 0, "b": 7})
	if want := (Roster{Epoch: 8, Replicas: []string{"a", "b"}}); !r.Same(want) {
		t.Fatalf("first: %+v, want %+v", r, want)
	}
	if next := r.Next(map[string]int64{"a": 8, "b": 7}); !next.Same(r) {
		t.Fatalf("settled before b acknowledged: %+v", next)
	}
	r = r.Next(map[string]int64{"a": 8, "b": 8})
	if want := (Roster{Epoch: 8, Replicas: []string{"a", "b"}, Settled: true}); !r.Same(want) {
		t.Fatalf("settled: %+v, want %+v", r, want)
	}
	was := r
	if r = r.Next(map[string]int64{"a": 8, "b": 8, "c": 0}); !slices.Equal(r.Before, was.Replicas) || r.Settled || r.Epoch != 9 {
		t.Fatalf("c comes: %+v", r)
	}
	moved := 0
	for _, m := range names("m", 100) {
		switch before, now := was.Serves(m), r.Serves(m); {
		case now == "" && Owner(r.Replicas, m) == "c":
			moved++
		case now != before:
			t.Errorf("%s: %s, and %q while c comes", m, before, now)
		}
	}
	if moved == 0 || moved == 100 {
		t.Errorf("%d of 100 wait for c", moved)
	}
	// b dies meanwhile: what was settled last stays what counts.
	if r = r.Next(map[string]int64{"a": 9, "c": 9}); !slices.Equal(r.Before, was.Replicas) || r.Epoch != 10 || r.Settled {
		t.Fatalf("b goes: %+v", r)
	}
	if got := r.Next(map[string]int64{"a": 9, "c": 10}); !got.Same(r) {
		t.Fatalf("an older epoch was acknowledged: %+v", got)
	}
	if r = r.Next(map[string]int64{"a": 10, "c": 10}); !r.Settled || len(r.Before) > 0 {
		t.Fatalf("settled: %+v", r)
	}
	if got := r.Next(nil); !got.Same(r) {
		t.Fatalf("nobody is seen: %+v", got)
	}
}

func TestARosterIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Roster{Epoch: rapid.Int64Range(1, MaxEpoch).Draw(t, "epoch"), Replicas: drawNames(t, 1), Settled: rapid.Bool().Draw(t, "settled")}
		if !r.Settled {
			r.Before = drawNames(t, 0)
		}
		got, err := Decode(r.Encode())
		if err != nil || !got.Same(r) {
			t.Fatalf("%+v, %v; want %+v", got, err, r)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", Roster{Epoch: 1, Replicas: []string{"a"}}.Encode(), Roster{Epoch: 2, Replicas: []string{"a"}, Before: []string{"a", "b"}}.Encode(),
		`{"epoch":1,"replicas":["b","a"],"settled":true}`, `{"epoch":1,"replicas":["a","a"],"settled":true}`, `{"epoch":-1,"replicas":["a"],"settled":true}`,
		`{"epoch":1,"replicas":["a"],"before":["b"],"settled":true}`, `{"epoch":1,"replicas":[""],"settled":true}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(text)
		if err != nil {
			if !r.Same(Roster{}) {
				t.Fatalf("an error, and %+v", r)
			}
			return
		}
		if again, err := Decode(r.Encode()); err != nil || !again.Same(r) {
			t.Fatalf("%+v comes back as %+v, %v", r, again, err)
		}
		if owner := r.Serves("m"); owner != "" && !slices.Contains(r.Replicas, owner) {
			t.Fatalf("%+v is served by %q", r, owner)
		}
	})
}

// Epochs that nobody of ours wrote are not believed, and the last one is followed by one that nobody follows.
func TestAbsurdEpochs(t *testing.T) {
	for _, c := range []struct {
		epoch int64
		live  map[string]int64
		want  int64
	}{
		{7, map[string]int64{"a": 7, "b": MaxEpoch + 1}, 8},
		{7, map[string]int64{"a": 7, "b": math.MaxInt64}, 8},
		{7, map[string]int64{"a": 7, "b": MaxEpoch - 1}, MaxEpoch},
		{7, map[string]int64{"a": 7, "b": MaxEpoch}, 1},
		{MaxEpoch, map[string]int64{"a": 1, "b": 2}, 3},
		{1, map[string]int64{"a": 2, "b": MaxEpoch}, 3},
	} {
		next := Roster{Epoch: c.epoch, Replicas: []string{"a"}, Settled: true}.Next(c.live)
		if next.Epoch != c.want || next.Settled {
			t.Errorf("%v after %d: %+v, want epoch %d", c.live, c.epoch, next, c.want)
		}
		if _, err := Decode(next.Encode()); err != nil {
			t.Errorf("what we write we cannot read: %v", err)
		}
	}
	for _, epoch := range []int64{math.MinInt64, -1, 0, MaxEpoch + 1, math.MaxInt64} {
		if r, err := Decode(Roster{Epoch: epoch, Replicas: []string{"a"}, Settled: true}.Encode()); err == nil {
			t.Errorf("%+v is believed", r)
		}
	}
}
