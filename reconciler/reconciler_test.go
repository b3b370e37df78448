package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// treeFS is a tree that knows hashes, as snapshots and the store's trees do.
type treeFS struct{ fstest.MapFS }

func (t treeFS) Hash(name string) (string, error) {
	if f, ok := t.MapFS[name]; ok {
		return fmt.Sprintf("%x", canonical.Blob(f.Data)), nil
	}
	var all []byte
	for _, path := range slices.Sorted(maps.Keys(t.MapFS)) {
		all = fmt.Appendf(all, "%s\x00%s\x00", path, t.MapFS[path].Data)
	}
	return fmt.Sprintf("%x", canonical.Blob(all)), nil
}

func tree(files map[string]string) treeFS {
	m := fstest.MapFS{}
	for path, text := range files {
		m[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return treeFS{m}
}

// fakeSource has revisions "1", "2", ... the last of which is the newest.
type fakeSource struct {
	mu        sync.Mutex
	revisions []treeFS
	err       error
	fetches   int
}

func (s *fakeSource) push(files map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions = append(s.revisions, tree(files))
}

func (s *fakeSource) Fetch(context.Context) (gitstate.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	n := len(s.revisions)
	return gitstate.Snapshot{Revision: gitstate.Revision(fmt.Sprint(n)), FS: s.revisions[n-1]}, s.err
}

func (s *fakeSource) At(_ context.Context, rev string) (gitstate.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.revisions {
		if fmt.Sprint(i+1) == rev {
			return gitstate.Snapshot{Revision: gitstate.Revision(rev), FS: r}, nil
		}
	}
	return gitstate.Snapshot{}, errors.New("no such revision")
}

// fakeStore is a branch in memory: heads are "c1", "c2", ...
type fakeStore struct {
	mu       sync.Mutex
	heads    []treeFS
	messages map[int]store.Message // by number of the head; people's commits have none
	pushed   int
	conflict int   // commits that lose a race before one wins
	pushErr  error // of every push
	loadErr  error // of the next load
	offline  error // of every load: the remote is away
}

func (s *fakeStore) treeAt(n int) store.Tree {
	t := store.Tree{FS: tree(nil), Unpushed: len(s.heads) - s.pushed, Offline: s.offline}
	if n > 0 {
		t.Head, t.FS = gitstate.Revision(fmt.Sprintf("c%d", n)), s.heads[n-1]
	}
	return t
}

func (s *fakeStore) Load(context.Context) (store.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.loadErr
	s.loadErr = nil
	return s.treeAt(len(s.heads)), err
}

func (s *fakeStore) Local(context.Context) (store.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.treeAt(len(s.heads))
	t.Offline = store.ErrNotAsked
	return t, nil
}

func (s *fakeStore) Commit(_ context.Context, base gitstate.Revision, changes []store.Change, m store.Message) (gitstate.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conflict > 0 {
		s.conflict--
		return "", fmt.Errorf("somebody was faster: %w", gitstate.ErrConflict)
	}
	if now := s.treeAt(len(s.heads)); now.Head != base {
		return "", gitstate.ErrConflict
	}
	next := tree(nil)
	if n := len(s.heads); n > 0 {
		maps.Copy(next.MapFS, s.heads[n-1].MapFS)
	}
	for _, c := range changes {
		if c.Data == nil {
			delete(next.MapFS, c.Path)
		} else {
			next.MapFS[c.Path] = &fstest.MapFile{Data: c.Data}
		}
	}
	s.heads = append(s.heads, next)
	if s.messages == nil {
		s.messages = map[int]store.Message{}
	}
	s.messages[len(s.heads)] = m
	return gitstate.Revision(fmt.Sprintf("c%d", len(s.heads))), nil
}

func (s *fakeStore) Push(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pushErr == nil {
		s.pushed = len(s.heads)
	}
	return s.pushErr
}

// Bundle and Restore take the same memory for both clones: only which commits there are tells them apart.
func (s *fakeStore) Bundle(_ context.Context, since gitstate.Revision) (store.Bundle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Bundle{Base: since, Head: s.treeAt(len(s.heads)).Head}, nil
}

func (s *fakeStore) Restore(_ context.Context, b store.Bundle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := s.pushed
	if b.Head != "" {
		if n, _ := fmt.Sscanf(string(b.Head), "c%d", &head); n != 1 {
			return store.ErrBundle
		}
	}
	s.heads = s.heads[:head]
	return nil
}

func (s *fakeStore) At(_ context.Context, rev string) (store.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var head, back int
	if n, _ := fmt.Sscanf(rev, "c%d~%d", &head, &back); n < 1 || head-back < 1 {
		return store.Tree{}, store.ErrNotFound
	}
	return s.treeAt(head - back), nil
}

func (s *fakeStore) Log(_ context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error] {
	return func(yield func(store.Commit, error) bool) {
		var head int
		fmt.Sscanf(string(from), "c%d", &head)
		for ; head > 0; head-- {
			if !yield(store.Commit{Revision: gitstate.Revision(fmt.Sprintf("c%d", head)), Trailers: s.messages[head].Trailers}, nil) {
				return
			}
		}
	}
}

func (s *fakeStore) state(t *testing.T) (commits, pushed int, subjects []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.heads {
		subjects = append(subjects, s.messages[n+1].Subject)
	}
	return len(s.heads), s.pushed, subjects
}

// fakeFleet does at once what it is told.
type fakeFleet struct {
	mu      sync.Mutex
	desired map[string]Desired
	sets    int
	changed chan struct{}
	silent  bool // members are not looked at
	strange bool // members are ready, and what room they have is not known
	down    bool // members are not ready any more
}

func newFleet() *fakeFleet { return &fakeFleet{changed: make(chan struct{}, 1)} }

func (f *fakeFleet) Set(desired map[string]Desired) {
	f.mu.Lock()
	f.desired = desired
	f.sets++
	f.mu.Unlock()
	f.signal()
}

func (f *fakeFleet) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fakeFleet) Changed() <-chan struct{} { return f.changed }

var served = []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{
	{Name: "configmaps", Kind: "ConfigMap"}, {Name: "secrets", Kind: "Secret"}, {Name: "services", Kind: "Service"},
}}}

func (f *fakeFleet) Observe() decide.Observations {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := decide.Observations{Members: map[string]decide.MemberFacts{}}
	if f.silent {
		return o
	}
	for name, d := range f.desired {
		facts := decide.MemberFacts{Ready: metav1.ConditionTrue, Reason: "ClusterReady", Since: time.Unix(0, 0), UID: "uid-" + name, APIs: served, Copies: map[api.ID]decide.CopyFacts{},
			Nodes: &clusterv1alpha1.NodeSummary{}, Resources: &clusterv1alpha1.ResourceSummary{}}
		if f.strange {
			facts.Nodes, facts.Resources = nil, nil
		}
		if f.down {
			facts.Ready, facts.Reason = metav1.ConditionFalse, "ClusterNotReachable"
		}
		if !d.Paused {
			for id, w := range d.Works {
				facts.Copies[id] = decide.CopyFacts{Applied: w.Hash, Live: w.Object}
			}
			for id := range d.Retired {
				facts.Copies[id] = decide.CopyFacts{Gone: true}
			}
		}
		o.Members[name] = facts
	}
	return o
}

func (f *fakeFleet) works(member string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.desired[member].Works)
}

const member1 = `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {syncMode: Push}
`

const config = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {a: b}
`

const everything = `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
`

func placed() map[string]string {
	return map[string]string{"m1.yaml": member1, "web.yaml": config, "policy.yaml": everything}
}

// world is a reconciler on fakes, with a clock that the bubble of synctest moves.
type world struct {
	*Reconciler
	source *fakeSource
	store  *fakeStore
	fleet  *fakeFleet
	log    *strings.Builder
}

func newWorld(t *testing.T, files map[string]string, change func(*Config)) *world {
	t.Helper()
	w := &world{source: &fakeSource{}, store: &fakeStore{}, fleet: newFleet(), log: &strings.Builder{}}
	w.source.push(files)
	c := Config{
		Source: w.source, Store: w.store, Fleet: w.fleet, Clock: clock.RealClock{},
		Log: slog.New(slog.NewTextHandler(w.log, nil)), Options: decide.Options{StatusInterval: time.Minute},
	}
	if change != nil {
		change(&c)
	}
	w.Reconciler = New(c)
	return w
}

// later moves the clock of the bubble on; nobody waits for it.
func later(d time.Duration) { time.Sleep(d) } // of synctest: takes no time

// runFor runs the loop for a while.
func (w *world) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestNothingIsAppliedBeforeItIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, placed(), func(c *Config) {
			c.At = func(step string) {
				commits := len(w.store.heads)
				if works := w.fleet.works("m1"); works > 0 && commits == 0 {
					t.Errorf("at %s: %d works are out and no commit is made", step, works)
				}
			}
		})
		w.runFor(t, 3*time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1, want 1", n)
		}
	})
}

func TestAPassThatChangesNothingCommitsAndSetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.runFor(t, 70*time.Second) // status is written down once
		commits, _, _ := w.store.state(t)
		sets := w.fleet.sets
		fetches := w.source.fetches
		w.Reconciler = New(w.Config)
		for range 100 {
			if _, err := w.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.refetch, w.reload = true, true
		}
		if now, _, subjects := w.store.state(t); now != commits {
			t.Errorf("100 passes without a change made %d commits: %q", now-commits, subjects[commits:])
		}
		if w.fleet.sets != sets+1 {
			t.Errorf("the fleet was set %d times, want once by the new process", w.fleet.sets-sets)
		}
		if w.source.fetches-fetches != 100 {
			t.Errorf("the source was fetched %d times, want 100", w.source.fetches-fetches)
		}
	})
}

func TestALostRaceIsDecidedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.store.conflict = 3
		w.runFor(t, time.Second)
		if commits, _, _ := w.store.state(t); commits != 1 {
			t.Errorf("%d commits, want 1", commits)
		}
	})
}

// busyStore is a branch to which somebody pushes while others push to the source.
type busyStore struct {
	*fakeStore
	loaded, lost func()
}

func (s *busyStore) Load(ctx context.Context) (store.Tree, error) {
	t, err := s.fakeStore.Load(ctx)
	s.loaded()
	return t, err
}

func (s *busyStore) Commit(ctx context.Context, base gitstate.Revision, changes []store.Change, m store.Message) (gitstate.Revision, error) {
	head, err := s.fakeStore.Commit(ctx, base, changes, m)
	if errors.Is(err, gitstate.ErrConflict) {
		s.lost()
	}
	return head, err
}

// What people say on the state branch is about a source that was there before: it never meets an older one.
func TestTheSourceIsNeverOlderThanTheState(t *testing.T) {
	more := placed()
	more["two.yaml"] = strings.Replace(config, "web", "two", 1)
	for name, conflict := range map[string]int{"while the state is loaded": 0, "while a race is lost": 1} {
		synctest.Test(t, func(t *testing.T) {
			var w *world
			pushed := false
			push := func() {
				if !pushed {
					pushed = true
					w.source.push(more)
				}
			}
			w = newWorld(t, placed(), func(c *Config) {
				busy := &busyStore{fakeStore: c.Store.(*fakeStore), loaded: push, lost: func() {}}
				if conflict > 0 {
					busy.loaded, busy.lost = func() {}, push
				}
				busy.conflict = conflict
				c.Store = busy
			})
			if _, err := w.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := w.snapshot.Revision; got != "2" {
				t.Errorf("%s: decided on revision %s, want 2", name, got)
			}
		})
	}
}

func TestARemoteThatIsGoneHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.store.pushErr = errors.New("no route to host")
		w.runFor(t, 3*time.Second)
		if _, pushed, _ := w.store.state(t); pushed != 0 || w.fleet.works("m1") != 1 {
			t.Fatalf("%d pushed, %d works; want none pushed and 1 work", pushed, w.fleet.works("m1"))
		}
		before := slices.Clone(w.store.heads)
		w.store.pushErr = nil
		w.runFor(t, 20*time.Second)
		commits, pushed, _ := w.store.state(t)
		if pushed != commits || len(w.store.heads) < len(before) {
			t.Errorf("%d of %d commits are pushed after the remote came back", pushed, commits)
		}
	})
}

// What could not be acted on when it was decided is acted on by the pass that can, though that decides nothing.
func TestWhatWasHeldIsActedOnLater(t *testing.T) {
	for name, configure := range map[string]func(*Config, *fakeKeeper){
		"until it is pushed": func(c *Config, _ *fakeKeeper) { c.RequirePush = true },
		"until it is kept":   func(c *Config, k *fakeKeeper) { c.Keeper = k },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &fakeKeeper{}
				w := newWorld(t, placed(), func(c *Config) { configure(c, k) })
				away := func(err error) {
					w.store.mu.Lock()
					defer w.store.mu.Unlock()
					w.store.pushErr, k.err = err, err
				}
				stop := w.start(t)
				defer stop()
				later(70 * time.Second)
				synctest.Wait()
				away(errAway)
				more := placed()
				more["two.yaml"] = strings.Replace(config, "web", "two", 1)
				w.source.push(more)
				later(time.Minute)
				synctest.Wait()
				if n := w.fleet.works("m1"); n != 1 {
					t.Errorf("%d works on m1, and the second is to wait", n)
				}
				away(nil)
				later(time.Minute)
				if n := w.fleet.works("m1"); n != 2 {
					t.Errorf("%d works on m1 once nothing holds it up, want 2", n)
				}
			})
		})
	}
}

func TestRequirePushActsOnlyOnWhatIsPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), func(c *Config) { c.RequirePush = true })
		w.store.pushErr = errors.New("no route to host")
		w.runFor(t, 20*time.Second)
		if n := w.fleet.works("m1"); n != 0 {
			t.Fatalf("%d works are out, and the decision is not pushed", n)
		}
		w.store.pushErr = nil
		w.runFor(t, time.Minute)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1 after the push, want 1", n)
		}
	})
}

func TestASourceThatCannotBeReadKeepsTheLastCommitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		w.source.mu.Lock()
		w.source.err = io.ErrUnexpectedEOF
		w.source.mu.Unlock()
		w.source.push(map[string]string{"m1.yaml": member1})
		later(2 * time.Minute)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1 while the source cannot be read, want 1", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnOutageIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.store.pushErr, w.store.offline = io.ErrUnexpectedEOF, io.ErrUnexpectedEOF
		w.runFor(t, time.Second)
		w.source.err = io.ErrUnexpectedEOF
		w.runFor(t, 5*time.Minute)
		w.store.pushErr, w.store.offline, w.source.err = nil, nil, nil
		w.runFor(t, time.Minute)
		w.store.offline = io.ErrUnexpectedEOF
		w.runFor(t, time.Minute)
		for message, n := range map[string]int{
			"the remote of the state branch cannot be reached":       2,
			"the remote of the state branch can be reached again":    1,
			"the decision could not be pushed, it is kept":           1,
			"what was decided meanwhile is pushed":                   1,
			"the source cannot be read, the last commit stays in fo": 1,
			"the source can be read again":                           1,
		} {
			if got := strings.Count(w.log.String(), message); got != n {
				t.Errorf("%q is logged %d times, want %d:\n%s", message, got, n, w.log)
			}
		}
	})
}

func TestWhatWaitsForAPersonIsAWarning(t *testing.T) {
	for _, c := range []struct {
		verb   string
		reason decide.Reason
		want   slog.Level
	}{
		{"brake", decide.ClusterFailure, slog.LevelWarn},
		{"brake", decide.Status, slog.LevelInfo}, // it is off
		{"blocked", decide.ApplicationFailure, slog.LevelWarn},
		{"hold", decide.Operator, slog.LevelWarn},
		{"failover", decide.ClusterFailure, slog.LevelInfo},
	} {
		events := []decide.Event{{Verb: "cluster", Reason: decide.ClusterFailure}, {Verb: c.verb, Reason: c.reason}}
		if got := loudness(&decide.Commit{Events: events}); got != c.want {
			t.Errorf("loudness of %s %s = %s, want %s", c.verb, c.reason, got, c.want)
		}
	}
}

func TestThePollSeesAPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]string{"m1.yaml": member1}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		later(5 * time.Second)
		w.source.push(placed())
		later(16 * time.Second)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1 a poll after the push, want 1", n)
		}
		cancel()
		<-done
	})
}

func TestMembersAreLookedAtBeforeTheFirstDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.fleet.silent = true
		start := time.Now()
		w.Config.At = func(step string) {
			if step == "pass.committed" && time.Since(start) < w.Patience {
				t.Errorf("decided after %s, without waiting for the members", time.Since(start))
			}
		}
		w.runFor(t, w.Patience+time.Second)
		if commits, _, _ := w.store.state(t); commits == 0 {
			t.Error("members that never answer hold up the first decision for ever")
		}
	})
}

// What the manifest says of the room on a member that nobody met would be replaced by what is measured a moment later.
func TestTheRoomOnMembersIsMeasuredBeforeTheFirstDecision(t *testing.T) {
	for _, status := range []string{"", "status: {resourceSummary: {allocatable: {pods: 50}}}\n"} {
		synctest.Test(t, func(t *testing.T) {
			files := placed()
			files["m1.yaml"] += status
			w := newWorld(t, files, nil)
			w.fleet.strange = true
			start := time.Now()
			w.Config.At = func(step string) {
				if step == "pass.committed" && time.Since(start) < w.Patience {
					t.Errorf("with %q decided after %s", status, time.Since(start))
				}
			}
			w.runFor(t, w.Patience+time.Second)
			if commits, _, _ := w.store.state(t); commits == 0 {
				t.Errorf("with %q nothing is decided", status)
			}
		})
	}
}

func TestPassesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := 0
		w := newWorld(t, placed(), func(c *Config) {
			c.At = func(step string) {
				if step == "pass.start" {
					passes++
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		for range 1000 {
			later(10 * time.Millisecond)
			w.fleet.signal()
		}
		cancel()
		<-done
		if passes > 15 {
			t.Errorf("%d passes in 10 s of constant news, want about one a second", passes)
		}
	})
}

func TestNewsOfMembersDelaysNoPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make(chan struct{}, 1)
		w := newWorld(t, map[string]string{"m1.yaml": member1}, func(c *Config) { c.Hints = hints })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		news := func(d time.Duration) {
			for range d / (10 * time.Millisecond) {
				later(10 * time.Millisecond)
				w.fleet.signal()
			}
		}
		news(5*time.Second + w.Coalesce/2)
		w.source.push(placed())
		hints <- struct{}{}
		news(w.Coalesce + 50*time.Millisecond)
		if n := w.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1 a pass after the push, want 1", n)
		}
		cancel()
		<-done
	})
}

func TestADamagedCloneIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		healthy := w.store
		w.Config.Store = &fakeStore{loadErr: nil}
		broken := &brokenStore{fakeStore: &fakeStore{}}
		w.Config.Store = broken
		w.Config.Reopen = func(context.Context) (Store, error) { return healthy, nil }
		w.runFor(t, time.Minute)
		if commits, _, _ := healthy.state(t); commits == 0 {
			t.Errorf("the store was not opened anew; log:\n%s", w.log)
		}
	})
}

// brokenStore finds its clone damaged with every commit.
type brokenStore struct{ *fakeStore }

func (*brokenStore) Commit(context.Context, gitstate.Revision, []store.Change, store.Message) (gitstate.Revision, error) {
	return "", fmt.Errorf("commit: %w", pack.ErrDamaged)
}

func TestAHandEditThatDoesNotDecodeKeepsTheLastVersionThatDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.runFor(t, 5*time.Second)
		path := record.BindingKey{Namespace: "default", Name: "web-configmap"}.Path()
		edited := tree(nil)
		maps.Copy(edited.MapFS, w.store.heads[len(w.store.heads)-1].MapFS)
		edited.MapFS[path] = &fstest.MapFile{Data: []byte("{{{")}
		w.store.heads = append(w.store.heads, edited)
		commits := len(w.store.heads)

		fresh := newWorld(t, placed(), func(c *Config) { c.Store, c.Source = w.store, w.source })
		fresh.runFor(t, 5*time.Second)
		if !strings.Contains(fresh.log.String(), path) {
			t.Errorf("the log does not name %s:\n%s", path, fresh.log)
		}
		if n := fresh.fleet.works("m1"); n != 1 {
			t.Errorf("%d works on m1, want the 1 of before", n)
		}
		for _, tree := range w.store.heads[commits:] {
			if _, ok := tree.MapFS["works/m1/default/configmap_web.yaml"]; !ok {
				t.Error("a commit after the hand edit removed the work")
			}
		}
	})
}

func TestAWorkThatAPersonTookOutOfTheRecordIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := placed()
		files["m2.yaml"] = strings.ReplaceAll(member1, "m1", "m2")
		w := newWorld(t, files, nil)
		w.runFor(t, 5*time.Second)
		// A person reverts by hand to a state in which the copy on m2 never was.
		reverted := tree(nil)
		maps.Copy(reverted.MapFS, w.store.heads[len(w.store.heads)-1].MapFS)
		delete(reverted.MapFS, "works/m2/default/configmap_web.yaml")
		w.store.heads = append(w.store.heads, reverted)
		files["policy.yaml"] = everything + "  placement: {clusterAffinity: {clusterNames: [m1]}}\n"
		w.source.push(files)

		fresh := newWorld(t, files, func(c *Config) { c.Store, c.Source = w.store, w.source })
		fresh.Options.MaxDeletePercent = 100
		fresh.runFor(t, 5*time.Second)
		retired := false
		for _, tree := range w.store.heads {
			_, ok := tree.MapFS["retired/m2/default/configmap_web.yaml"]
			retired = retired || ok
		}
		if !retired {
			t.Error("the copy on m2 is on no record: it would run on for ever")
		}
	})
}

func TestABranchOfANewerFormatStopsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.store.heads = []treeFS{tree(map[string]string{"state.yaml": "formatVersion: 99\n"})}
		err := w.Run(t.Context())
		if !errors.Is(err, ErrNewer) {
			t.Errorf("Run = %v, want ErrNewer", err)
		}
		if commits, _, _ := w.store.state(t); commits != 1 || w.fleet.sets != 0 {
			t.Errorf("%d commits and %d sets; nothing may be touched", commits-1, w.fleet.sets)
		}
	})
}

func TestOnceEndsWhenEverythingIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		start := time.Now()
		failures, err := w.Once(t.Context(), time.Hour)
		if err != nil || len(failures) > 0 {
			t.Fatalf("Once = %v, %v", failures, err)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("Once took %s of an hour", d)
		}
		last := w.store.heads[len(w.store.heads)-1].MapFS
		if b := last["bindings/default/web-configmap.yaml"]; b == nil || !strings.Contains(string(b.Data), "applied: true") {
			t.Error("the record does not say that the copy is applied")
		}
	})
}

func TestOnceNamesWhatIsMissingAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), nil)
		w.fleet.silent = true
		failures, err := w.Once(t.Context(), time.Minute)
		if err != nil || len(failures) != 1 || failures[0].Member != "m1" {
			t.Errorf("Once = %v, %v; want the one member that does not answer", failures, err)
		}
	})
}

var _ fs.FS = treeFS{}
