package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALoopThatHangs(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		phase Phase
		limit time.Duration
	}{{Deciding, decidingLimit}, {Talking, talkingLimit}, {Waiting, time.Hour + waitingLimit}} {
		a := Activity{test.phase, at}
		if err := a.Wedged(at.Add(test.limit), time.Hour); err != nil {
			t.Errorf("%s for as long as it may: %v", test.phase, err)
		}
		if err := a.Wedged(at.Add(test.limit+time.Second), time.Hour); err == nil {
			t.Errorf("%s for longer: all is well", test.phase)
		}
	}
}

// Neither probe fails because a remote is away; readiness comes with the first source and stays.
func TestProbesThroughOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		probes := func(when string, ready bool) {
			t.Helper()
			if err := w.Alive(); err != nil {
				t.Errorf("%s: Alive = %v", when, err)
			}
			if err := w.Ready(); (err == nil) != ready {
				t.Errorf("%s: Ready = %v", when, err)
			}
		}
		w.source.fail(errors.New("away"))
		probes("before the start", false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		later(time.Hour)
		probes("without a source", false)
		w.source.fail(nil)
		later(time.Minute)
		probes("with a source", true)
		w.source.fail(errors.New("away"))
		later(24*time.Hour + time.Second) // between two looks
		probes("a day without it", true)
		if a := w.activity.Load(); a.Phase != Waiting {
			t.Errorf("the loop is %s", a.Phase)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		later(2 * waitingLimit)
		if w.Alive() == nil {
			t.Error("the loop ended long ago, and is alive")
		}
	})
}

func TestWhatIsReportedOfPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Progress
		var failures []error
		w := newWorld(t, placed(), func(c *Config) {
			c.Report = func(p Progress) { all = append(all, p) }
			c.Failed = func(err error) { failures = append(failures, err) }
		})
		w.store.pushErr = errors.New("away")
		w.runFor(t, time.Minute)
		p := all[len(all)-1]
		commits, _, _ := w.store.state(t)
		if p.Pass < len(all) || p.Unpushed != commits || commits == 0 || p.Head != w.tree.Head || p.Seen.Members["m1"].UID != "uid-m1" || len(failures) > 0 {
			t.Errorf("reported %+v with %d commits, failures %v", p, commits, failures)
		}
		// Every 5 s one fails.
		if p.PushFailures < 10 || p.PushFailures > 13 || time.Since(p.Fetched) > 16*time.Second {
			t.Errorf("%d pushes failed, the source was read %s ago", p.PushFailures, time.Since(p.Fetched))
		}
		if !strings.Contains(w.log.String(), " pass=1 ") {
			t.Errorf("the log does not say which pass:\n%s", w.log)
		}
		w.store.pushErr = nil
		w.Reconciler = New(w.Config)
		w.store.loadErr = nil
		w.runFor(t, 20*time.Second)
		if p := all[len(all)-1]; p.Unpushed != 0 || p.PushFailures != 0 {
			t.Errorf("when it is back: %d unpushed, %d failed", p.Unpushed, p.PushFailures)
		}
		w.store.fail(errors.New("broken"))
		w.reload = true
		if _, err := w.Pass(t.Context()); err == nil || len(failures) != 1 {
			t.Errorf("Pass = %v, failures %v", err, failures)
		}
	})
}

func (s *fakeSource) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadErr = err
}
