package observe

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestOneAnchorThatAnswersIsEnough(t *testing.T) {
	down := map[string]bool{}
	a := &Anchors{Addresses: []string{"a:1", "b:2"}, Timeout: time.Minute, Dial: func(_ context.Context, address string) error {
		if down[address] {
			return errors.New("no route to " + address)
		}
		return nil
	}}
	for _, c := range []struct {
		down []string
		want string
	}{
		{nil, ""},
		{[]string{"a:1"}, ""},
		{[]string{"b:2"}, ""},
		{[]string{"a:1", "b:2"}, "none of the 2 anchors can be reached"},
		{[]string{"a:1"}, ""},
	} {
		clear(down)
		for _, address := range c.down {
			down[address] = true
		}
		a.look(t.Context())
		got := a.CutOff()
		if len(got) > len(c.want) && c.want != "" {
			got = got[:len(c.want)]
		}
		if got != c.want {
			t.Errorf("with %v down: %q, want %q", c.down, a.CutOff(), c.want)
		}
	}
}

func TestBeingStoppedIsNoOutage(t *testing.T) {
	a := &Anchors{Addresses: []string{"a:1"}, Timeout: time.Minute, Dial: func(ctx context.Context, _ string) error { return ctx.Err() }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a.look(ctx); a.CutOff() != "" {
		t.Errorf("cut off: %s", a.CutOff())
	}
}

func TestWhatWasKnownCountsUntilTheFirstLook(t *testing.T) {
	a := &Anchors{Addresses: []string{"a:1"}, Timeout: time.Minute, Dial: func(context.Context, string) error { return nil }}
	a.Assume("cut off before")
	if got := a.CutOff(); got != "cut off before" {
		t.Errorf("%q before the first look", got)
	}
	if a.look(t.Context()); a.CutOff() != "" {
		t.Errorf("%q after it", a.CutOff())
	}
	nobody := &Anchors{}
	if nobody.Assume("cut off before"); nobody.CutOff() != "" {
		t.Error("cut off without anchors, and for ever")
	}
}
