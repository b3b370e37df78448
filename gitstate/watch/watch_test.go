package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// waiting tells whether a signal is there once all goroutines have come to rest.
func waiting(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case _, open := <-c:
		return open
	default:
		return false
	}
}

func TestTicksComeAtTheirTimeAndAreNotQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticks := Ticks(ctx, time.Minute)
		pass(59 * time.Second)
		if waiting(ticks) {
			t.Error("a tick after 59 seconds")
		}
		pass(time.Second)
		if !waiting(ticks) {
			t.Error("no tick after a minute")
		}
		pass(10 * time.Minute)
		if !waiting(ticks) || waiting(ticks) {
			t.Error("ten missed ticks are not one")
		}
		cancel()
		for range ticks {
		}
	})
}

// pass lets the bubble's clock advance.
func pass(d time.Duration) { <-time.After(d) }

func TestSignalComesWhenEventsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan struct{}, 1)
		settled := settle(ctx, events)
		for range 5 {
			signal(events)
			pass(quiet / 2)
			if waiting(settled) {
				t.Error("a signal while events come")
			}
		}
		pass(quiet)
		if !waiting(settled) || waiting(settled) {
			t.Error("five events are not one signal")
		}
		// Events that never rest are passed on after a while.
		var passed bool
		for start := time.Now(); time.Since(start) <= atMost; pass(quiet / 2) {
			signal(events)
			passed = passed || waiting(settled)
		}
		if !passed && !waiting(settled) {
			t.Error("no signal of events that never rest")
		}
		cancel()
		for range settled {
		}
	})
}

func TestMergeEndsWithAllItsChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := make(chan struct{}), make(chan struct{})
		merged := Merge(t.Context(), a, b)
		a <- struct{}{}
		b <- struct{}{}
		if !waiting(merged) || waiting(merged) {
			t.Error("two signals that nobody received are not one")
		}
		close(a)
		b <- struct{}{}
		if !waiting(merged) {
			t.Error("the end of one channel ended the other")
		}
		close(b)
		for range merged {
			t.Error("a signal after the end")
		}
	})
}

func TestFolderSignalsEveryKindOfChange(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) func() error {
		return func() error { return os.WriteFile(at(name), []byte(time.Now().String()), 0o644) }
	}
	swap := func() error {
		if err := os.Symlink("..v2", at("..tmp")); err != nil {
			return err
		}
		return os.Rename(at("..tmp"), at("..data"))
	}
	for _, step := range []func() error{
		write("a"),
		func() error { return os.MkdirAll(at("sub/deeper"), 0o755) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	signals, err := Folder(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []func() error{
		write("a"),
		write("b"),
		write("sub/deeper/c"),
		func() error { return os.MkdirAll(at("new/folder"), 0o755) },
		write("new/folder/d"),
		func() error { return os.Rename(at("new"), at("renamed")) },
		write("renamed/folder/d"),
		func() error { return os.Remove(at("a")) },
		func() error { return os.RemoveAll(at("sub")) },
		func() error { return os.Symlink("..v1", at("..data")) },
		swap,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if _, open := <-signals; !open { // or the test's own time limit
			t.Fatalf("step %d: the channel ended", i)
		}
	}
	cancel()
	for range signals {
	}
}

func TestMissingFolderIsAnError(t *testing.T) {
	if _, err := Folder(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error")
	}
}

func ExampleMerge() {
	ctx, cancel := context.WithCancel(context.Background())
	webhook := make(chan struct{}, 1)
	webhook <- struct{}{}
	look := Merge(ctx, webhook, Ticks(ctx, time.Hour))
	<-look
	fmt.Println("look again")
	cancel()
	for range look {
	}
	// Output: look again
}
