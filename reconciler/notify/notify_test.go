package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// world is a notifier whose targets are functions.
type world struct {
	*Notifier
	t        *testing.T
	state    *record.State
	commits  int
	mu       sync.Mutex
	got      []string // "target: title", in order
	ids      []string
	alerts   []wireAlert // as last sent
	err      error       // of every attempt
	attempts int
	counts   map[string]int
}

func newWorld(t *testing.T, change func(*Options), targets ...Target) *world {
	t.Helper()
	w := &world{t: t, state: record.New(), counts: map[string]int{}}
	o := Options{Fleet: "f", Targets: targets, Count: func(kind, result string) { w.counts[kind+" "+result]++ }}
	if change != nil {
		change(&o)
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, target := range n.targets {
		target.post = func(_ context.Context, body []byte, id string, _ time.Time) error {
			return w.take(i, target.Type, body, id)
		}
	}
	n.Resume(t.Context())
	w.Notifier = n
	return w
}

func (w *world) take(i int, kind Type, body []byte, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts++
	if w.err != nil {
		return w.err
	}
	switch kind {
	case Alertmanager:
		w.alerts = nil
		return json.Unmarshal(body, &w.alerts)
	case Slack:
		var m struct{ Text string }
		if err := json.Unmarshal(body, &m); err != nil {
			return err
		}
		w.got = append(w.got, fmt.Sprintf("%d: %s", i, strings.Split(m.Text, "\n")[0]))
	default:
		var m wireMessage
		if err := json.Unmarshal(body, &m); err != nil {
			return err
		}
		w.got = append(w.got, fmt.Sprintf("%d: %s", i, m.Title))
	}
	w.ids = append(w.ids, id)
	return nil
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// pass reports a pass with these events.
func (w *world) pass(events ...decide.Event) {
	d := &decide.Decision{Next: w.state, Time: time.Now()}
	if len(events) > 0 {
		w.commits++
		d.Commit = &decide.Commit{Events: events, Time: time.Now().Truncate(time.Second)}
	}
	w.Report(reconciler.Progress{Decision: d, Head: gitstate.Revision(fmt.Sprint("c", w.commits))})
}

// told checks what was told since the last time, sorted.
func (w *world) told(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.got)
	if !slices.Equal(w.got, want) {
		w.t.Errorf("told %q, want %q", w.got, want)
	}
	w.got = nil
}

func (w *world) close() { w.Close(w.t.Context()) }

// later moves the clock of the bubble on; nobody waits for it.
func later(d time.Duration) { time.Sleep(d) } // of synctest: takes no time

func failover(name string) decide.Event {
	return decide.Event{Verb: decide.VerbFailover, Object: name, From: "m1", What: "m1 -> m2", Reason: decide.ClusterFailure}
}

func held(member string) decide.Event {
	return decide.Event{Verb: decide.VerbHold, Object: member, What: "waits"}
}

func webhook(t *testing.T) Target {
	return Target{Type: Webhook, URL: "https://hooks.example.com/x", SecretFile: file(t, "a secret of some length")}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOneMessageForAMassFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, webhook(t), Target{Type: Slack, URL: "https://hooks.example.com/y"})
		defer w.close()
		var events []decide.Event
		for i := range 214 {
			events = append(events, failover(fmt.Sprint("w", i)))
		}
		w.pass(events...)
		w.pass()
		w.told("0: 214 workloads failed over from m1", "1: [f] 214 workloads failed over from m1")
		// The rate lets more go in each of the next passes: they are told together, a minute later.
		for i := range 10 {
			later(5 * time.Second)
			w.pass(failover(fmt.Sprint("x", i)), failover(fmt.Sprint("y", i)))
		}
		w.told()
		later(10*time.Second - time.Millisecond)
		w.told()
		later(time.Millisecond)
		w.told("0: 20 workloads failed over from m1", "1: [f] 20 workloads failed over from m1")
		later(time.Hour)
		w.told()
		w.pass(failover("z"))
		w.told("0: z failed over: m1 -> m2", "1: [f] z failed over: m1 -&gt; m2")
	})
}

func TestOtherKindsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := webhook(t)
		one.Reasons = []notice.Reason{notice.MassDeleteHeld}
		w := newWorld(t, nil, webhook(t), one)
		defer w.close()
		w.pass(failover("a"))
		w.told("0: a failed over: m1 -> m2")
		w.pass(held("m1"), decide.Event{Verb: "update", Object: "x", What: "m1"})
		w.told("0: member m1: waits", "1: member m1: waits")
	})
}

// A target that is away holds up nothing, and is told when it is back, all of it together.
func TestATargetThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &strings.Builder{}
		w := newWorld(t, func(o *Options) { o.Log = logger(log) }, webhook(t))
		defer w.close()
		w.fail(errors.New("away"))
		start := time.Now()
		for i := range 20 {
			w.pass(failover(fmt.Sprint("w", i)))
			later(time.Minute)
		}
		if took := time.Since(start); took != 20*time.Minute {
			t.Errorf("passes took %s more", took-20*time.Minute)
		}
		w.told()
		if w.attempts < 5 || w.attempts > 14 { // 1, 2, 4 ... s, then every 5 min
			t.Errorf("%d attempts within 20 minutes", w.attempts)
		}
		w.fail(nil)
		later(lastRetry)
		w.told("0: 20 workloads failed over from m1")
		if w.counts["webhook sent"] != 1 || w.counts["webhook failed"] != w.attempts-1 || w.counts["webhook dropped"] != 0 {
			t.Errorf("counted %v after %d attempts", w.counts, w.attempts)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("logged\n%s", log)
		}
		// What nobody takes for an hour is given up; what comes then is told by itself.
		w.fail(errors.New("away"))
		w.pass(failover("old"))
		later(2 * time.Hour)
		w.fail(nil)
		w.told()
		later(time.Hour)
		w.told()
		w.pass(failover("new"))
		w.told("0: new failed over: m1 -> m2")
		if w.counts["webhook dropped"] != 1 {
			t.Errorf("counted %v", w.counts)
		}
	})
}

// What was committed and not delivered is told by the next process.
func TestARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marker := filepath.Join(t.TempDir(), "notified")
		var asked []string
		again := func(o *Options) {
			o.Marker = File(marker)
			o.Missed = func(from, to string) []notice.Notice {
				asked = append(asked, from+" "+to)
				stamp := func(n int) notice.Stamp { return notice.Stamp{Commit: fmt.Sprint("c", n)} }
				return slices.Concat(notice.Of([]decide.Event{held("m2")}, stamp(2)), notice.Of([]decide.Event{failover("b")}, stamp(3)))
			}
		}
		mark := func(want string) {
			t.Helper()
			synctest.Wait()
			if got, _ := os.ReadFile(marker); string(got) != want {
				t.Errorf("the marker is %q, want %q", got, want)
			}
		}
		w := newWorld(t, again, webhook(t))
		w.pass(failover("a")) // c1
		w.told("0: a failed over: m1 -> m2")
		mark("c1\n")
		w.fail(errors.New("away"))
		w.pass(held("m2"))
		w.commits++ // c3 was committed, and the process died
		mark("c1\n")
		w.close()
		if len(asked) > 0 {
			t.Errorf("the first process asked for %q", asked)
		}

		w = newWorld(t, again, webhook(t))
		w.commits = 3
		w.pass()
		w.told("0: b failed over: m1 -> m2", "0: member m2: waits")
		mark("c3\n")
		w.pass()
		w.close()

		w = newWorld(t, again, webhook(t))
		w.commits = 3
		w.pass()
		w.told()
		w.close()

		// The first pass of another one decides c3: that is told from its events, and from the record only what is before.
		os.WriteFile(marker, []byte("c1"), 0o600)
		w = newWorld(t, again, webhook(t))
		w.commits = 2
		w.pass(failover("c"))
		w.told("0: c failed over: m1 -> m2", "0: member m2: waits")
		w.close()
		if want := []string{"c1 c3", "c1 c3"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	})
}

func TestASourceThatIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, webhook(t))
		defer w.close()
		pass := func(refused *decide.Refusal, turned bool) {
			w.Report(reconciler.Progress{Decision: &decide.Decision{Next: w.state, Refused: refused, Revision: "s", Time: time.Now()}, Turned: turned, Head: "c1"})
		}
		out := &decide.Refusal{Code: decide.CodeUnverified, Revision: "2", Message: "not followed to 2"}
		pass(nil, false)
		pass(out, true)
		pass(out, false)
		w.told("0: not followed to 2")
		pass(nil, true)
		w.told("0: the source is followed again")
	})
}

func TestTheSameMessageHasTheSameID(t *testing.T) {
	n := notice.Of([]decide.Event{failover("a")}, notice.Stamp{Commit: "c1"})[0]
	other := n
	other.Commit = "c2"
	if idOf("f", n) != idOf("f", n) || idOf("f", n) == idOf("f", other) || idOf("f", n) == idOf("g", n) || strings.Contains(idOf("f", n), ".") {
		t.Errorf("ids %s %s %s", idOf("f", n), idOf("f", other), idOf("g", n))
	}
}

func TestCloseTellsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, webhook(t))
		w.pass(failover("a"))
		w.close()
		w.told("0: a failed over: m1 -> m2")
		w = newWorld(t, nil, webhook(t))
		w.fail(errors.New("away"))
		w.pass(failover("a"))
		start := time.Now()
		w.close()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

func (w *world) down(name string, since time.Time) {
	c := &clusterv1alpha1.Cluster{}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Message: "no answer", LastTransitionTime: metav1.NewTime(since)}}
	w.state.Members[name] = c
}

// stands checks the alerts as last sent: name, member, when it began and ends, from now on.
func (w *world) stands(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := []string{}
	for _, a := range w.alerts {
		line := a.Labels["alertname"] + " " + a.Labels["member"]
		if a.StartsAt != nil {
			line += fmt.Sprintf(" from %s", a.StartsAt.Sub(time.Now()))
		}
		got = append(got, fmt.Sprintf("%s to %s", line, a.EndsAt.Sub(time.Now())))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("alerts %q, want %q", got, want)
	}
	w.alerts = nil
}

func TestAlertsStandAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, Target{Type: Alertmanager, URL: "https://alerts.example.com"})
		defer w.close()
		w.pass()
		w.stands()
		since := time.Now()
		w.down("m1", since)
		w.down("m2", since)
		w.pass()
		w.stands("GodwitMemberUnreachable m1 from 0s to 5m0s", "GodwitMemberUnreachable m2 from 0s to 5m0s")
		w.pass()
		w.stands() // nothing is new
		later(resend)
		w.stands("GodwitMemberUnreachable m1 from -1m0s to 5m0s", "GodwitMemberUnreachable m2 from -1m0s to 5m0s")
		delete(w.state.Members, "m2")
		w.pass()
		w.stands("GodwitMemberUnreachable m1 from -1m0s to 5m0s", "GodwitMemberUnreachable m2 from -1m0s to 0s")
		later(resend)
		w.stands("GodwitMemberUnreachable m1 from -2m0s to 5m0s")
		// While it is away an end is kept until it is over by itself.
		w.fail(errors.New("away"))
		delete(w.state.Members, "m1")
		w.pass()
		later(2 * time.Minute)
		w.fail(nil)
		later(resend)
		w.stands("GodwitMemberUnreachable m1 from -5m0s to -3m0s")
		later(time.Hour)
		w.stands()
		// An end that Alertmanager knows by itself by now is not sent.
		w.down("m1", time.Now())
		w.pass()
		w.stands("GodwitMemberUnreachable m1 from 0s to 5m0s")
		w.fail(errors.New("away"))
		delete(w.state.Members, "m1")
		w.pass()
		later(2 * lapse)
		w.fail(nil)
		later(resend)
		w.stands()
	})
}

// What happened stands for a while, once for however many workloads.
func TestAlertsOfFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, Target{Type: Alertmanager, URL: "https://alerts.example.com", Reasons: []notice.Reason{notice.FailedOver}})
		defer w.close()
		w.down("m1", time.Now()) // nobody wants to know
		w.pass(failover("a"), failover("b"), held("m2"))
		w.stands("GodwitFailedOver  from 0s to 15m0s")
		later(14*time.Minute + 59*time.Second)
		w.stands("GodwitFailedOver  from -14m59s to 1s")
		later(time.Hour)
		w.stands()
	})
}

// What changes while alerts are under way is sent after them.
func TestAlertsThatChangeUnderWay(t *testing.T) {
	var a alerts
	now := time.Now()
	stand := func(members ...string) {
		var all []notice.Condition
		for _, m := range members {
			all = append(all, notice.Condition{Reason: notice.MemberUnreachable, Member: m, Text: "x"})
		}
		a.stand(all, "c1", now)
	}
	stand("m1")
	s, _ := a.body("f", now)
	stand("m1", "m2")
	a.sent(s, now)
	if ok, _ := a.due(now); !ok {
		t.Error("m2 is not due")
	}
	stand()
	s, _ = a.body("f", now)
	stand("m1")
	now = now.Add(time.Second)
	stand()
	a.sent(s, now)
	if _, kept := a.over[alertKey{notice.MemberUnreachable, "m1"}]; !kept || len(a.over) != 1 {
		t.Errorf("over are %v", a.over)
	}
}

func TestWhatWasMissed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	body := func(object string) string { return fmt.Sprintf("- failover %s: m1 -> m2\n  m1: down\n", object) }
	commit := func(rev string, age time.Duration, body string) store.Commit {
		return store.Commit{Revision: gitstate.Revision(rev), When: now.Add(-age), Body: body, Trailers: reconciler.Trailers("s"+rev, decide.ClusterFailure, now, "v9")}
	}
	person := commit("4", 0, body("person"))
	person.Trailers = nil
	log := func(yield func(store.Commit, error) bool) {
		for _, c := range []store.Commit{commit("5", 0, body("e")), person, commit("3", time.Minute, "- update x: m1\n"), commit("2", time.Minute, body("b")), commit("1", 59*time.Minute, body("a")), commit("0", 2*time.Hour, body("old"))} {
			if !yield(c, nil) {
				return
			}
		}
		yield(store.Commit{}, errors.New("broken"))
	}
	for from, want := range map[string]string{"5": "", "1": "b e", "gone": "a b e"} {
		var got []string
		for _, n := range Missed(log, from, now) {
			got = append(got, n.Items[0].Object)
			if n.Source != "s"+n.Commit || n.Items[0].Why != "m1: down" || n.Members[0] != "m1" {
				t.Errorf("%+v", n)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("missed since %s: %v, want %s", from, got, want)
		}
	}
}

// What comes while a message is under way is told with it, if that fails; and until then nothing counts as delivered.
func TestWhatComesWhileAMessageIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marker := filepath.Join(t.TempDir(), "notified")
		w := newWorld(t, func(o *Options) { o.Marker = File(marker) }, webhook(t))
		defer w.close()
		gate := make(chan error)
		post := w.targets[0].post
		w.targets[0].post = func(ctx context.Context, body []byte, id string, now time.Time) error {
			if err := <-gate; err != nil {
				return err
			}
			return post(ctx, body, id, now)
		}
		w.pass(failover("a"))
		synctest.Wait()
		w.pass()
		if text, err := os.ReadFile(marker); err == nil {
			t.Errorf("%s counts as delivered", text)
		}
		w.pass(failover("b"))
		gate <- errors.New("away")
		later(firstRetry)
		gate <- nil
		w.told("0: 2 workloads failed over from m1")
		synctest.Wait()
		if text, _ := os.ReadFile(marker); string(text) != "c2\n" {
			t.Errorf("the marker is %q", text)
		}
	})
}
