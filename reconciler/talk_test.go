package reconciler

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// silence is a remote that takes requests of some kinds and does not answer them, until it is over.
type silence struct {
	mu    sync.Mutex
	kinds string
	over  chan struct{}
}

func (s *silence) begin(kinds string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds, s.over = kinds, make(chan struct{})
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.over = nil
}

func (s *silence) of(ctx context.Context, kind string) error {
	s.mu.Lock()
	over := s.over
	if !strings.Contains(s.kinds, kind) {
		over = nil
	}
	s.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-time.After(givenUp):
		return errors.New("it took too long")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// givenUp is how long the fakes wait for an answer, as package remote does.
const givenUp = time.Minute

type silentStore struct {
	*fakeStore
	*silence
}

func (s silentStore) Load(ctx context.Context) (store.Tree, error) {
	away := s.of(ctx, "load")
	if err := ctx.Err(); err != nil {
		return store.Tree{}, err
	}
	t, err := s.fakeStore.Load(ctx)
	t.Offline = away
	return t, err
}

func (s silentStore) Push(ctx context.Context) error {
	if err := s.of(ctx, "push"); err != nil {
		return err
	}
	return s.fakeStore.Push(ctx)
}

type silentSource struct {
	*fakeSource
	*silence
}

func (s silentSource) Fetch(ctx context.Context) (gitstate.Snapshot, error) {
	if err := s.of(ctx, "fetch"); err != nil {
		return gitstate.Snapshot{}, err
	}
	return s.fakeSource.Fetch(ctx)
}

// read is how often the source was.
func (s *fakeSource) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// in runs the loop while f looks at it from beside.
func (w *world) in(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	f()
	cancel()
	synctest.Wait()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	default:
		t.Error("the loop waits for a remote when it is asked to stop")
		<-ended
	}
}

// member has the members go down, or come back.
func (w *world) member(down bool) {
	w.fleet.mu.Lock()
	w.fleet.down = down
	w.fleet.mu.Unlock()
	w.fleet.signal()
}

func silentWorld(t *testing.T, change func(*Config)) (*world, *silence) {
	quiet := &silence{}
	w := newWorld(t, placed(), func(c *Config) {
		c.Source, c.Store = silentSource{c.Source.(*fakeSource), quiet}, silentStore{c.Store.(*fakeStore), quiet}
		if change != nil {
			change(c)
		}
	})
	return w, quiet
}

// A remote that takes connections and answers nothing, as behind a firewall that drops packets, is no reason to wait:
// what happens to members is decided, recorded and acted on.
func TestARemoteThatAnswersNothingHoldsUpNoDecision(t *testing.T) {
	for _, kinds := range []string{"load", "fetch", "push", "load fetch push"} {
		t.Run(kinds, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, quiet := silentWorld(t, nil)
				w.in(t, func() {
					later(70 * time.Second)
					quiet.begin(kinds)
					later(20 * time.Second) // it has been asked meanwhile
					for i, down := range []bool{true, false, true} {
						before, _, _ := w.store.state(t)
						w.member(down)
						later(answerTime + 2*time.Second)
						if now, _, subjects := w.store.state(t); now <= before || !strings.HasPrefix(subjects[before], "brake(fleet): ") {
							t.Errorf("%d: a member changed, and there are the commits %q", i, subjects[before:])
						}
					}
					if err := w.Alive(); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

// When it answers again, what was pushed there meanwhile comes, and what was decided here goes.
func TestWhatARemoteSaysLateIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, quiet := silentWorld(t, nil)
		w.in(t, func() {
			later(70 * time.Second)
			quiet.begin("load fetch push")
			more := placed()
			more["two.yaml"] = strings.Replace(config, "web", "two", 1)
			w.source.push(more)
			later(time.Minute)
			w.member(true)
			later(time.Minute)
			w.member(false)
			later(time.Minute)
			if n := w.fleet.works("m1"); n != 1 {
				t.Errorf("%d works before anything was heard", n)
			}
			if commits, pushed, _ := w.store.state(t); pushed == commits {
				t.Error("nothing was decided meanwhile")
			}
			quiet.end()
			later(5 * time.Second)
			if n := w.fleet.works("m1"); n != 2 {
				t.Errorf("%d works on m1 after it was heard, want 2", n)
			}
			if commits, pushed, _ := w.store.state(t); pushed != commits {
				t.Errorf("%d of %d commits are pushed", pushed, commits)
			}
		})
		// What was read of the branch before we committed to it is not taken for what is there.
		if strings.Contains(w.log.String(), "the state branch moved") {
			t.Errorf("a race was lost against nobody:\n%s", w.log)
		}
	})
}

// slowStore answers after a while what was so when it was asked.
type slowStore struct{ *fakeStore }

func (s slowStore) Load(ctx context.Context) (store.Tree, error) {
	t, err := s.fakeStore.Load(ctx)
	select {
	case <-time.After(4 * answerTime):
	case <-ctx.Done():
	}
	return t, err
}

// A remote that answers, and takes its time, while people commit to the state branch: their commits are in the clone before
// the answer is, and keep nothing from being decided.
func TestASlowRemoteAndCommitsByOthersHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, quiet := silentWorld(t, func(c *Config) { c.PollInterval = 10 * time.Second })
		w.in(t, func() {
			later(70 * time.Second)
			for range 4 {
				quiet.begin("load fetch")
				later(12 * time.Second)
				w.store.mu.Lock()
				edited := tree(nil)
				maps.Copy(edited.MapFS, w.store.heads[len(w.store.heads)-1].MapFS)
				edited.MapFS["NOTE"] = &fstest.MapFile{Data: []byte("by hand")}
				w.store.heads = append(w.store.heads, edited)
				w.store.pushed = len(w.store.heads)
				w.store.mu.Unlock()
				before, _, _ := w.store.state(t)
				w.member(true)
				later(answerTime + 2*time.Second)
				if now, _, _ := w.store.state(t); now == before {
					t.Error("a member went down, and nothing was decided")
				}
				quiet.end()
				w.member(false)
				later(15 * time.Second)
			}
			if n := strings.Count(w.log.String(), "level=ERROR"); n > 0 {
				t.Errorf("%d errors:\n%s", n, w.log)
			}
		})
	})
}

func TestABranchReadBeforeItWasCommittedToIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), func(c *Config) { c.Store = slowStore{c.Store.(*fakeStore)} })
		w.in(t, func() {
			for i := range 40 {
				w.member(i%2 == 1)
				later(5 * time.Second)
			}
			later(time.Minute)
			commits, pushed, _ := w.store.state(t)
			if commits < 20 || pushed != commits {
				t.Errorf("%d commits, %d of them pushed", commits, pushed)
			}
		})
		if strings.Contains(w.log.String(), "the state branch moved") {
			t.Errorf("a race was lost against nobody:\n%s", w.log)
		}
	})
}

// A hint that comes while the remote is asked may be about what it said before.
func TestAHintDuringTalkIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make(chan struct{}, 1)
		w, quiet := silentWorld(t, func(c *Config) { c.Hints, c.PollInterval = hints, time.Hour })
		w.in(t, func() {
			later(70 * time.Second)
			quiet.begin("load")
			hints <- struct{}{}
			later(givenUp / 3)
			fetches := w.source.read()
			hints <- struct{}{}
			later(givenUp / 3)
			quiet.end()
			later(5 * time.Second)
			if got := w.source.read() - fetches; got != 2 {
				t.Errorf("the source was read %d times after two hints", got)
			}
		})
	})
}

// With RequirePush nothing is acted on before the remote has it, however long it takes.
func TestWhatHasToBePushedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, quiet := silentWorld(t, func(c *Config) { c.RequirePush = true })
		w.in(t, func() {
			later(70 * time.Second)
			quiet.begin("push")
			more := placed()
			more["two.yaml"] = strings.Replace(config, "web", "two", 1)
			w.source.push(more)
			later(time.Hour)
			if n := w.fleet.works("m1"); n != 1 {
				t.Errorf("%d works on m1, and the remote does not know why", n)
			}
			quiet.end()
			later(time.Minute)
			if n := w.fleet.works("m1"); n != 2 {
				t.Errorf("%d works on m1, want 2", n)
			}
		})
	})
}

// A process that starts meanwhile, as each change of the configuration makes it, goes on with what is in the clones.
func TestAStartWhileARemoteAnswersNothing(t *testing.T) {
	for name, k := range map[string]*fakeKeeper{"alone": nil, "as the next leader": {}} {
		t.Run(name, func(t *testing.T) { startInSilence(t, k) })
	}
}

func startInSilence(t *testing.T, k *fakeKeeper) {
	synctest.Test(t, func(t *testing.T) {
		answers := 2 // that are waited for, of state branch and source
		w, quiet := silentWorld(t, func(c *Config) {
			if k != nil {
				c.Keeper = k
				answers++ // before it takes over
			}
		})
		w.in(t, func() {
			later(70 * time.Second)
			quiet.begin("load fetch push")
			w.member(true)
			later(10 * time.Second)
		})
		if commits, pushed, _ := w.store.state(t); commits == pushed {
			t.Fatal("nothing is left to be pushed")
		}
		w.Reconciler, w.fleet.desired = New(w.Config), nil
		w.in(t, func() {
			later(time.Duration(answers)*answerTime + 2*time.Second)
			if n := w.fleet.works("m1"); n != 1 {
				t.Errorf("%d works on m1, want 1", n)
			}
			before, _, _ := w.store.state(t)
			w.member(false)
			later(answerTime + 2*time.Second)
			if now, _, _ := w.store.state(t); now == before {
				t.Error("a member changed, and nothing was decided")
			}
			quiet.end()
			later(10 * time.Second)
			if commits, pushed, _ := w.store.state(t); commits != pushed {
				t.Errorf("%d of %d commits are pushed", pushed, commits)
			}
		})
	})
}

// Without a clone there is nothing to go on with.
func TestAFirstStartWaitsForTheRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, quiet := silentWorld(t, nil)
		quiet.begin("load fetch")
		w.in(t, func() {
			later(givenUp / 2)
			if commits, _, _ := w.store.state(t); commits > 0 || w.Ready() == nil {
				t.Errorf("%d commits before anything was read", commits)
			}
			quiet.end()
			later(5 * time.Second)
			if n := w.fleet.works("m1"); n != 1 {
				t.Errorf("%d works on m1, want 1", n)
			}
		})
	})
}
