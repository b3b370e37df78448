package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// fakeKeeper is a management cluster that all replicas share.
type fakeKeeper struct {
	bundle  store.Bundle
	found   bool  // somebody kept something, once
	err     error // of every call
	readErr error // of Kept
	keeps   int
	tidied  bool
}

func (k *fakeKeeper) Kept(context.Context) (store.Bundle, bool, error) {
	return k.bundle, k.found, errors.Join(k.err, k.readErr)
}

func (k *fakeKeeper) Keep(_ context.Context, b store.Bundle) error {
	if k.err == nil {
		k.bundle, k.found = b, true
		k.keeps++
	}
	return k.err
}

func (k *fakeKeeper) Forget(_ context.Context, pushed gitstate.Revision) error {
	if k.err == nil {
		k.bundle, k.found = store.Bundle{Base: pushed}, true
	}
	return k.err
}

func (k *fakeKeeper) Tidy(context.Context) error {
	k.tidied = true
	return errAway // which is no reason not to lead
}

var errAway = errors.New("no route to host")

func TestNothingIsAppliedThatTheNextLeaderCouldNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{}
		var w *world
		w = newWorld(t, placed(), func(c *Config) {
			c.Keeper = k
			c.At = func(step string) {
				_, pushed, _ := w.store.state(t)
				if w.fleet.works("m1") > 0 && pushed == 0 && k.bundle.Head == "" {
					t.Errorf("at %s: works are out, and what was decided is only in this clone", step)
				}
			}
		})
		w.store.pushErr, k.err = errAway, errAway
		w.runFor(t, time.Minute)
		if n := w.fleet.works("m1"); n != 0 {
			t.Fatalf("%d works are out, though nothing is pushed or kept", n)
		}
		k.err = nil
		w.Reconciler = New(w.Config)
		w.runFor(t, time.Minute)
		if n := w.fleet.works("m1"); n != 1 || k.bundle.Head == "" {
			t.Fatalf("%d works are out, kept is %q", n, k.bundle.Head)
		}
		if commits, _, _ := w.store.state(t); k.keeps > commits {
			t.Errorf("%d commits were kept %d times", commits, k.keeps)
		}
	})
}

func TestWhatIsPushedIsKeptNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{}
		w := newWorld(t, placed(), func(c *Config) { c.Keeper = k })
		w.store.pushErr = errAway
		w.runFor(t, 3*time.Second)
		if k.bundle.Head == "" {
			t.Fatal("nothing is kept")
		}
		w.store.pushErr = nil
		w.Reconciler = New(w.Config)
		w.runFor(t, time.Minute)
		if _, pushed, _ := w.store.state(t); pushed == 0 || k.bundle.Head != "" {
			t.Errorf("%d commits are pushed, %q is kept", pushed, k.bundle.Head)
		}
		keeps := k.keeps
		w.source.push(map[string]string{"m1.yaml": member1, "policy.yaml": everything, "web.yaml": strings.Replace(config, "a: b", "a: c", 1)})
		w.Reconciler = New(w.Config)
		w.runFor(t, time.Minute)
		if k.keeps != keeps {
			t.Error("what could be pushed was kept, too")
		}
	})
}

func TestTheNextLeaderGoesOnWithWhatWasKept(t *testing.T) {
	for name, c := range map[string]struct {
		kept           store.Bundle
		readErr        error
		never, offline bool
		commits, works int
	}{
		"kept":                             {kept: store.Bundle{Head: "c1"}, offline: true, commits: 1, works: 1},
		"not kept was never carried out":   {commits: 1, works: 1}, // decided again
		"nobody ever kept, it may be out":  {never: true, commits: 1, works: 1},
		"nor can the remote be read":       {never: true, offline: true, commits: 1, works: 1},
		"unusable, the remote is there":    {kept: store.Bundle{Head: "?"}, commits: 1, works: 1},
		"unusable, and the remote is away": {kept: store.Bundle{Head: "?"}, offline: true, commits: 1},
		"unreadable":                       {readErr: errAway, commits: 1},
		"damaged, the remote is there":     {readErr: store.ErrBundle, commits: 1, works: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &fakeKeeper{bundle: c.kept, readErr: c.readErr, found: !c.never}
				w := newWorld(t, placed(), nil)
				w.store.pushErr = errAway
				w.runFor(t, 2*time.Second) // the last leader
				w.Config.Keeper = k
				w.fleet = newFleet()
				w.Config.Fleet = w.fleet
				if c.offline {
					w.store.offline = errAway
				}
				before := w.store.messages[1].When
				later(time.Minute)
				w.Reconciler = New(w.Config)
				w.runFor(t, 30*time.Second)
				if commits, _, subjects := w.store.state(t); commits < c.commits || w.fleet.works("m1") != c.works {
					t.Fatalf("%d works, commits %q\n%s", w.fleet.works("m1"), subjects, w.log)
				}
				if usable := c.readErr == nil && c.kept.Head != "?"; k.tidied != usable {
					t.Errorf("it tidied up: %v; what is kept can be used: %v", k.tidied, usable)
				}
				if same := w.store.messages[1].When.Equal(before); same != (c.kept.Head == "c1" || c.never || c.works == 0) {
					t.Errorf("the last leader's commit is still there: %v", same)
				}
			})
		})
	}
}

// What the last leader pushed, and had carried out, is not taken back by one whose clone does not have it.
func TestADecisionThatIsNotHereIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{}
		w := newWorld(t, placed(), func(c *Config) { c.Keeper = k })
		w.runFor(t, 70*time.Second)
		commits, pushed, _ := w.store.state(t)
		if commits != pushed || k.bundle.Base == "" || k.bundle.Head != "" {
			t.Fatalf("%d of %d commits are pushed, kept is %+v", pushed, commits, k.bundle)
		}
		fresh := func() {
			w.Reconciler, w.fleet = New(w.Config), newFleet()
			w.Reconciler.Config.Fleet = w.fleet
		}
		w.store.offline = errAway
		fresh()
		w.runFor(t, 20*time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("with a clone that has what was decided last %d works are out", n)
		}
		k.bundle.Base = "c99"
		fresh()
		w.runFor(t, 20*time.Second)
		if n := w.fleet.works("m1"); n != 0 || !strings.Contains(w.log.String(), "the last leader decided c99, which is not here") {
			t.Errorf("%d works are out by a clone that is behind\n%s", n, w.log)
		}
		w.store.offline = nil // and the remote has no such commit: it was rewritten
		w.runFor(t, 70*time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("when the remote is back %d works are out", n)
		}
	})
}

func TestStandbysMayBeAPollBehind(t *testing.T) {
	h := &handover{}
	start := time.Unix(0, 0)
	if got := h.since(); got != "" {
		t.Errorf("before anything is known since is %q", got)
	}
	for i, step := range []struct {
		head gitstate.Revision
		at   int // seconds
		want gitstate.Revision
	}{
		{"a", 0, "a"}, {"a", 100, "a"}, {"b", 200, "a"}, {"c", 210, "a"}, {"c", 229, "a"}, {"c", 231, "b"}, {"c", 239, "b"}, {"c", 241, "c"}, {"d", 1000, "c"},
	} {
		h.note(step.head, start.Add(time.Duration(step.at)*time.Second), 30*time.Second)
		if got := h.since(); got != step.want {
			t.Errorf("step %d: since is %q, want %q", i, got, step.want)
		}
	}
}

func TestAStandbyReadsAndDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.store.offline = errAway
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.Follow(ctx)
		if w.Ready() == nil {
			t.Error("a standby is ready that never read the state branch")
		}
		w.store.offline = nil
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.Follow(ctx)
		if err := errors.Join(w.Ready(), w.Alive()); err != nil {
			t.Errorf("a standby that read both: %v", err)
		}
		if commits, _, _ := w.store.state(t); commits != 0 || w.fleet.sets != 0 || w.source.fetches < 8 {
			t.Errorf("%d commits, the fleet was set %d times, the source fetched %d times", commits, w.fleet.sets, w.source.fetches)
		}
		w.source.err, w.store.offline = errAway, errAway
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.Follow(ctx)
		if n := strings.Count(w.log.String(), "cannot be read"); n != 3 {
			t.Errorf("an outage of both is said %d times:\n%s", n, w.log)
		}
	})
}
