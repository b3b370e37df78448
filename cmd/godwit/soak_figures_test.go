package main_test

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// series are the values of a scrape, by name and labels as they are written there.
func series(r io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all[line[:i]] = v
	}
	return all, lines.Err()
}

// figures are what a process holds at one moment.
type figures struct {
	goroutines, threads int
	files, packs        int     // that are open; packs of Git are not among the files
	heap, resident      float64 // bytes; heap is what is alive after a collection
}

// alive is how much of the heap is, by the profile that was made after a collection. What is scraped later has in it what
// the profile itself left behind, which is more with each stack that was ever seen.
var alive = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// figuresOf takes a scrape, a profile of the heap as text, and what the open files of the process are.
func figuresOf(s map[string]float64, profile string, open []string) figures {
	f := figures{goroutines: int(s["go_goroutines"]), threads: int(s["go_threads"]), resident: s["process_resident_memory_bytes"]}
	if found := alive.FindStringSubmatch(profile); found != nil {
		f.heap, _ = strconv.ParseFloat(found[1], 64)
	}
	for _, name := range open {
		if strings.HasSuffix(name, ".pack") { // and not " (deleted)"
			f.packs++
		} else {
			f.files++
		}
	}
	return f
}

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d packs, %d threads, heap %.1f MiB, resident %.1f MiB",
		f.goroutines, f.files, f.packs, f.threads, f.heap/(1<<20), f.resident/(1<<20))
}

const (
	// spareGoroutines and spareFiles are those of connections that happen to be open: one that idles has two goroutines
	// and a file, and closes by itself.
	spareGoroutines = 8
	spareFiles      = 4
	// mostPacks are as many as the clones of state branch and source have before small ones are put together.
	mostPacks = 50 + 30
	// growth is how much larger the heap may be at the end than after the warm-up.
	growth = 1.25
)

// more says what a process holds more than it did with the same fleet; empty if nothing worth mentioning.
func (f figures) more(than figures) string {
	switch {
	case f.goroutines > than.goroutines+spareGoroutines:
		return fmt.Sprintf("%d goroutines, which were %d", f.goroutines, than.goroutines)
	case f.files > than.files+spareFiles:
		return fmt.Sprintf("%d open files, which were %d", f.files, than.files)
	case f.packs > mostPacks:
		return fmt.Sprintf("%d open packs, of which there may be %d", f.packs, mostPacks)
	}
	return ""
}

// grown says how heaps grow from one quiet point to the next; empty if they do not. The first point is warm-up, then
// the median of the first third is compared with that of the last: one that is high by chance says nothing.
func grown(heaps []float64) string {
	if len(heaps) < 2 {
		return ""
	}
	heaps = heaps[1:]
	third := (len(heaps) + 2) / 3
	first, last := median(heaps[:third]), median(heaps[len(heaps)-third:])
	if last <= growth*first {
		return ""
	}
	return fmt.Sprintf("the heap grew from %.1f to %.1f MiB, by a factor of %.2f, and may by %.2f: %.1f", first/(1<<20), last/(1<<20), last/first, growth, mebibytes(heaps))
}

func mebibytes(bytes []float64) []float64 {
	all := make([]float64, len(bytes))
	for i, b := range bytes {
		all[i] = b / (1 << 20)
	}
	return all
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// The soak test fails by these rules, so they have to tell a leak from what happens by chance.
func TestWhatASoakTakesForALeak(t *testing.T) {
	base := figures{goroutines: 100, files: 20}
	for _, test := range []struct {
		name string
		now  figures
		leak bool
	}{
		{"the same", figures{goroutines: 100, files: 20}, false},
		{"less", figures{goroutines: 50, files: 10}, false},
		{"connections that idle", figures{goroutines: 108, files: 24}, false},
		{"goroutines", figures{goroutines: 109, files: 20}, true},
		{"files", figures{goroutines: 100, files: 25}, true},
		{"packs", figures{goroutines: 100, files: 20, packs: 80}, false},
		{"packs that nobody puts together", figures{goroutines: 100, files: 20, packs: 81}, true},
	} {
		if got := test.now.more(base); (got != "") != test.leak {
			t.Errorf("%s: more = %q", test.name, got)
		}
	}
	const m = 1 << 20
	for _, test := range []struct {
		name  string
		heaps []float64
		leak  bool
	}{
		{"nothing to compare", []float64{10 * m}, false},
		{"flat", []float64{10 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m}, false},
		{"the warm-up", []float64{10 * m, 20 * m, 20 * m}, false},
		{"one that is high by chance", []float64{10 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m, 20 * m, 90 * m}, false},
		{"shrinking", []float64{50 * m, 40 * m, 30 * m, 20 * m}, false},
		{"a little more each time", []float64{20 * m, 20 * m, 22 * m, 24 * m, 26 * m, 28 * m, 30 * m}, true},
		{"a short one", []float64{20 * m, 20 * m, 21 * m, 26 * m}, true},
	} {
		if got := grown(test.heaps); (got != "") != test.leak {
			t.Errorf("%s: grown = %q", test.name, got)
		}
	}
	got, err := series(strings.NewReader("# HELP go_goroutines Number.\ngo_goroutines 42\ngodwit_member_up{member=\"a b\"} 1\ngo_threads 9\n"))
	open := []string{"socket:[1]", "/a/b.pack", "/a/c.pack (deleted)", "/a/lock"}
	if f := figuresOf(got, "heap profile: 1: 2\n\n# runtime.MemStats\n# Alloc = 3\n# HeapAlloc = 1500000\n# HeapSys = 4\n", open); err != nil || f.goroutines != 42 || f.threads != 9 || f.files != 3 || f.packs != 1 || f.heap != 1.5e6 || got[`godwit_member_up{member="a b"}`] != 1 {
		t.Errorf("series = %v, %v", got, err)
	}
	if _, err := series(strings.NewReader("go_goroutines many\n")); err == nil {
		t.Error("a value that is no number is read")
	}
}
