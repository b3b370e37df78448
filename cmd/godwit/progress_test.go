package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMeter(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return begin.Add(d) }
	m := meter{width: 40}
	for _, step := range []struct {
		name string
		do   func() string
		want string
	}{
		{"nothing is done", func() string { return m.tick(begin) }, ""},
		{"work begins", func() string { m.begin(begin, "deciding"); return m.tick(begin) }, ""},
		{"it is not long yet", func() string { return m.tick(after(1999 * time.Millisecond)) }, ""},
		{"what is quick leaves no trace", func() string { return m.end() }, ""},
		{"nothing is done again", func() string { return m.tick(after(time.Hour)) }, ""},
		{"other work begins", func() string { m.begin(begin, "deciding"); return m.tick(after(time.Second)) }, ""},
		{"it is long", func() string { return m.tick(after(2 * time.Second)) }, "\rdeciding ... 2s\x1b[K"},
		{"the same is not written again", func() string { return m.tick(after(2500 * time.Millisecond)) }, ""},
		{"a second later", func() string { return m.tick(after(3 * time.Second)) }, "\rdeciding ... 3s\x1b[K"},
		{"within it", func() string { m.begin(after(3*time.Second), "reading"); return m.tick(after(3 * time.Second)) }, "\rreading ... 3s\x1b[K"},
		{"with a number", func() string { m.count(7, 0); return m.tick(after(3 * time.Second)) }, "\rreading 7 ... 3s\x1b[K"},
		{"of so many", func() string { m.count(8, 20); return m.tick(after(3 * time.Second)) }, "\rreading 8 of 20 ... 3s\x1b[K"},
		{"something is said meanwhile", func() string { return m.erase() }, "\r\x1b[K"},
		{"only once is it erased", func() string { return m.erase() }, ""},
		{"it comes back", func() string { return m.tick(after(3 * time.Second)) }, "\rreading 8 of 20 ... 3s\x1b[K"},
		{"the inner work ends", func() string { return m.end() }, ""},
		{"the outer goes on", func() string { return m.tick(after(64 * time.Second)) }, "\rdeciding ... 1m4s\x1b[K"},
		{"a long line is cut", func() string {
			m.begin(after(64*time.Second), strings.Repeat("東", 30))
			return m.tick(after(64 * time.Second))
		}, "\r" + strings.Repeat("東", 19) + "\x1b[K"},
		{"the innermost ends", func() string { return m.end() }, ""},
		{"all ends", func() string { return m.end() }, "\r\x1b[K"},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

func TestProgressLeavesNothingBehind(t *testing.T) {
	// The sleeps are of synctest's clock: they take no time.
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		p := &progress{w: &screen, meter: meter{width: 80}}
		end := p.doing("deciding")
		time.Sleep(quiet - time.Millisecond) // synctest's clock, as all below
		inner := p.doing("reading")
		time.Sleep(everyMoment + 2*time.Millisecond) // never at the moment of a tick: which of two comes first is anybody's guess
		if _, err := p.Write([]byte("godwit: a note\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(everyMoment) // synctest's clock
		inner()
		end()
		time.Sleep(time.Minute) // synctest's clock
		p.doing("something quick")()
		want := "\rreading ... 2s\x1b[K" + "\r\x1b[K" + "godwit: a note\n" + "\rreading ... 2s\x1b[K" + "\r\x1b[K"
		if diff := cmp.Diff(want, screen.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	var nobody *progress
	end := nobody.doing("deciding")
	nobody.count(1, 2)
	end()
}
