package pull

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// reader is a Fleet at work, with a lease of 1m and a look each 10s.
type reader struct {
	*Fleet
	t       *testing.T
	board   *fakeBoard
	pushed  *fakeFleet
	beats   int
	desired map[string]Desired
}

// reading runs a story in a time of its own.
func reading(t *testing.T, story func(r *reader)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{t: t, board: &fakeBoard{}, pushed: newFakeFleet()}
		r.Fleet = NewFleet(FleetOptions{
			Board: r.board, Pushed: r.pushed, Branches: "godwit/state-agents/", Interval: 10 * time.Second, Lease: time.Minute, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.desired = map[string]Desired{
			"near": {Cluster: clusterOf("near", clusterv1alpha1.Push, "")},
			"far":  {Cluster: clusterOf("far", clusterv1alpha1.Pull, "uid-far"), RecordedUID: "uid-far", Works: map[api.ID]Work{}, Retired: map[api.ID]Retired{}},
		}
		r.Set(r.desired)
		synctest.Wait()
		story(r)
	})
}

// ask is what the far member should have and lose.
func (r *reader) ask(works []api.ID, retired map[api.ID]int64) {
	d := r.desired["far"]
	d.Works, d.Retired = map[api.ID]Work{}, map[api.ID]Retired{}
	for _, id := range works {
		d.Works[id] = Work{ID: id}
	}
	for id, since := range retired {
		d.Retired[id] = Retired{ID: id, Since: since}
	}
	r.desired = maps.Clone(r.desired)
	r.desired["far"] = d
	r.Set(r.desired)
}

// heartbeat is a report of the far member, pushed now, unless change makes it another.
func (r *reader) heartbeat(change func(*Report)) {
	r.beats++
	report := reportOf("far", decide.MemberFacts{Ready: metav1.ConditionTrue, Reason: "ClusterReady", UID: "uid-far", Version: "v1.36.1"}, nil)
	report.Time = time.Now().UTC()
	if change != nil {
		change(report)
	}
	files, err := report.encode()
	check(r.t, err)
	r.board.put("far", files)
}

// after lets time pass.
func (r *reader) after(d time.Duration) *reader {
	time.Sleep(d)
	synctest.Wait()
	return r
}

func (r *reader) far() decide.MemberFacts { return r.Observe().Members["far"] }

func (r *reader) ready(what string, want metav1.ConditionStatus, reason string) {
	r.t.Helper()
	if got := r.far(); got.Ready != want || got.Reason != reason {
		r.t.Errorf("%s: %q %q, want %q %q", what, got.Ready, got.Reason, want, reason)
	}
}

// news tells whether something changed since it was asked last.
func (r *reader) news() bool {
	select {
	case <-r.Changed():
		return true
	default:
		return false
	}
}

func TestMembersGoWhereTheirModeSays(t *testing.T) {
	reading(t, func(r *reader) {
		want(t, "pushed to", len(r.pushed.desired), 1)
		_, ok := r.pushed.desired["near"]
		want(t, "near is among them", ok, true)
		r.pushed.see("near", decide.MemberFacts{Ready: metav1.ConditionTrue})
		synctest.Wait()
		want(t, "news of those that are pushed to", r.news(), true)
		want(t, "seen", r.Observe().Members["near"].Ready, metav1.ConditionTrue)
		_, seen := r.Observe().Members["far"]
		want(t, "nobody looked at the other yet", seen, false)

		r.heartbeat(nil)
		r.after(10 * time.Second)
		r.ready("reported", metav1.ConditionTrue, "ClusterReady")
		moved := maps.Clone(r.desired)
		moved["far"] = Desired{Cluster: clusterOf("far", clusterv1alpha1.Push, "uid-far")}
		r.Set(moved)
		want(t, "pushed to in another mode", len(r.pushed.desired), 2)
		_, seen = r.Observe().Members["far"]
		want(t, "its reports count no more", seen, false)
	})
}

func TestASilentAgentIsUnknownAfterTheLease(t *testing.T) {
	reading(t, func(r *reader) {
		r.heartbeat(nil)
		r.after(10 * time.Second)
		r.ready("reported", metav1.ConditionTrue, "ClusterReady")
		since := r.far().Since
		for range 10 {
			r.heartbeat(nil)
			r.after(30 * time.Second)
		}
		want(t, "ready since", r.far().Since, since)
		r.heartbeat(nil)
		r.news()
		silent := time.Now()
		r.after(60 * time.Second)
		r.ready("within the lease", metav1.ConditionTrue, "ClusterReady")
		r.after(20 * time.Second)
		r.ready("after it", metav1.ConditionUnknown, ReasonSilent)
		want(t, "news", r.news(), true)
		if got := r.far().Since.Sub(silent); got < 60*time.Second || got > 80*time.Second {
			t.Errorf("unknown since %s after the last report", got)
		}
		r.after(time.Hour)
		want(t, "no more news", r.news(), false)
		r.heartbeat(nil)
		r.after(10 * time.Second)
		r.ready("back", metav1.ConditionTrue, "ClusterReady")
	})
}

func TestAHeartbeatIsNoNews(t *testing.T) {
	reading(t, func(r *reader) {
		r.heartbeat(nil)
		r.after(10 * time.Second)
		want(t, "the first is", r.news(), true)
		for range 5 {
			r.heartbeat(nil)
			r.after(10 * time.Second)
		}
		want(t, "heartbeats are not", r.news(), false)
		for name, change := range map[string]func(*Report){
			"not ready": func(c *Report) { c.Ready, c.Reason = metav1.ConditionFalse, "ClusterNotReady" },
			"version":   func(c *Report) { c.KubernetesVersion = "v1.37.0" },
			"a copy": func(c *Report) {
				c.Copies[id("ConfigMap", "a")] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "a"}
			},
			"another UID": func(c *Report) { c.UID = "uid-other" },
		} {
			r.heartbeat(nil)
			r.after(10 * time.Second)
			r.news()
			r.heartbeat(change)
			r.after(10 * time.Second)
			want(t, name, r.news(), true)
		}
	})
}

func TestAMemberThatNobodyEverReportedOn(t *testing.T) {
	reading(t, func(r *reader) {
		r.after(50 * time.Second)
		_, seen := r.Observe().Members["far"]
		want(t, "looked at", seen, false)
		r.after(20 * time.Second)
		r.ready("after the lease", metav1.ConditionUnknown, ReasonNeverUpdated)
		want(t, "message", r.far().Message, "no agent reported yet to godwit/state-agents/far; run godwit agent --member far in the member")
	})
}

// While we cannot look, nobody is silent: our outage, or that of the forge, moves nothing.
func TestOurOutageIsNobodysSilence(t *testing.T) {
	reading(t, func(r *reader) {
		r.heartbeat(nil)
		r.after(10 * time.Second)
		r.news()
		r.board.with(func() { r.board.down = errors.New("no route to host") })
		r.after(time.Hour)
		r.ready("while it lasts", metav1.ConditionTrue, "ClusterReady")
		want(t, "news", r.news(), false)
		r.board.with(func() { r.board.down = nil })
		r.after(50 * time.Second)
		r.ready("within a lease of its end", metav1.ConditionTrue, "ClusterReady")
		r.after(30 * time.Second)
		r.ready("after that", metav1.ConditionUnknown, ReasonSilent)
	})
}

// Only our clock counts, but for the first report that is found: nobody saw when that came.
func TestTheAgentsClockMovesNothing(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		reading(t, func(r *reader) {
			skewed := func(c *Report) { c.Time = c.Time.Add(skew) }
			r.heartbeat(skewed)
			r.after(10 * time.Second)
			r.ready("the first that was found", "", "")
			want(t, "what it says is known", r.far().Version, "v1.36.1")
			r.heartbeat(skewed)
			r.after(10 * time.Second)
			r.ready("the next", metav1.ConditionTrue, "ClusterReady")
			r.after(70 * time.Second)
			r.ready("silence", metav1.ConditionUnknown, ReasonSilent)
		})
	}
	reading(t, func(r *reader) {
		r.heartbeat(func(c *Report) { c.Time = c.Time.Add(-time.Hour) })
		r.after(80 * time.Second)
		r.ready("an old report that stays alone", metav1.ConditionUnknown, ReasonSilent)
	})
}

func TestAReportThatIsNoneIsSilence(t *testing.T) {
	for name, spoil := range map[string]func(files map[string][]byte){
		"no JSON":       func(f map[string][]byte) { f[headFile] = []byte("{") },
		"more than one": func(f map[string][]byte) { f[headFile] = append(f[headFile], "{}"...) },
		"of another":    func(f map[string][]byte) { f[headFile] = replaced(f[headFile], `"member":"far"`, `"member":"near"`) },
		"of a newer form": func(f map[string][]byte) {
			f[headFile] = replaced(f[headFile], `"formatVersion":1`, `"formatVersion":2`)
		},
		"of another kind": func(f map[string][]byte) { f[headFile] = replaced(f[headFile], `"AgentReport"`, `"Cluster"`) },
		"an odd state":    func(f map[string][]byte) { f[headFile] = replaced(f[headFile], `"ready":"True"`, `"ready":"Perhaps"`) },
		"an odd UID":      func(f map[string][]byte) { f[headFile] = replaced(f[headFile], `"uid-far"`, `"uid\u001b[2J"`) },
		"without facts":   func(f map[string][]byte) { delete(f, factsFile) },
		"negative nodes":  func(f map[string][]byte) { f[factsFile] = []byte(`{"nodes":{"totalNum":-1},"resources":{}}`) },
		"an odd quantity": func(f map[string][]byte) {
			f[factsFile] = []byte(`{"nodes":{},"resources":{"allocatable":{"cpu":"lots"}}}`)
		},
		"an endless one": func(f map[string][]byte) {
			f[factsFile] = []byte(`{"nodes":{},"resources":{"allocatable":{"cpu":"1e-900000000"}}}`)
		},
		"an infinite one": func(f map[string][]byte) {
			f["copies/default/configmap_a.json"] = []byte(`{"kind":"ConfigMap","namespace":"default","name":"a","live":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","generation":1e999}}}`)
		},
		"a large file":     func(f map[string][]byte) { f["copies/default/configmap_a.json"] = make([]byte, MaxObject+1) },
		"a file elsewhere": func(f map[string][]byte) { f["copies/default/configmap_b.json"] = f["copies/default/configmap_a.json"] },
		"a file too deep":  func(f map[string][]byte) { f["copies/default/deep/x.json"] = []byte("{}") },
		"a file too high":  func(f map[string][]byte) { f["copies/x.json"] = []byte("{}") },
		"another's object": func(f map[string][]byte) {
			f["copies/default/configmap_a.json"] = []byte(`{"kind":"ConfigMap","namespace":"default","name":"a","live":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			reading(t, func(r *reader) {
				copied := func(c *Report) {
					c.Copies[id("ConfigMap", "a")] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "a", Applied: strings.Repeat("a", 40)}
				}
				r.ask([]api.ID{id("ConfigMap", "a")}, nil)
				r.heartbeat(copied)
				r.after(10 * time.Second)
				r.ready("before", metav1.ConditionTrue, "ClusterReady")
				for range 8 { // a new one each time, so that it is no silence of Git
					r.heartbeat(copied)
					r.board.with(func() { files := maps.Clone(r.board.posts["far"]); spoil(files); r.board.posts["far"] = files })
					r.after(10 * time.Second)
				}
				r.ready("after the lease", metav1.ConditionUnknown, ReasonSilent)
				if message := r.far().Message; !strings.Contains(message, "cannot be used: ") {
					t.Errorf("message %q says nothing of the report", message)
				}
				want(t, "what was known stays", r.far().Copies[id("ConfigMap", "a")].Applied, strings.Repeat("a", 40))
				r.heartbeat(copied)
				r.after(10 * time.Second)
				r.ready("a good one", metav1.ConditionTrue, "ClusterReady")
			})
		})
	}
}

func replaced(text []byte, old, new string) []byte {
	s := string(text)
	if !strings.Contains(s, old) {
		panic(old + " is not in " + s)
	}
	return []byte(strings.Replace(s, old, new, 1))
}

// One that cannot be fetched is nothing to the others.
func TestOneBranchIsNothingToAnother(t *testing.T) {
	reading(t, func(r *reader) {
		r.desired = maps.Clone(r.desired)
		r.desired["bad"] = Desired{Cluster: clusterOf("bad", clusterv1alpha1.Pull, "")}
		r.Set(r.desired)
		r.board.with(func() { r.board.broken = map[string]error{"bad": errors.New("too large")} })
		r.board.put("bad", map[string][]byte{"x": nil})
		r.heartbeat(nil)
		r.after(10 * time.Second)
		r.ready("the other", metav1.ConditionTrue, "ClusterReady")
		r.after(80 * time.Second)
		bad := r.Observe().Members["bad"]
		want(t, "the bad one", bad.Reason, ReasonNeverUpdated)
		if !strings.Contains(bad.Message, "too large") {
			t.Errorf("message %q", bad.Message)
		}
	})
}

func TestOnlyWhatIsAskedForIsSeen(t *testing.T) {
	reading(t, func(r *reader) {
		a, b, c := id("ConfigMap", "a"), id("ConfigMap", "b"), id("ConfigMap", "c")
		hash := strings.Repeat("a", 40)
		says := func(report *Report) {
			report.Copies[a] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "a", Applied: hash, Live: configMap("a", "1")}
			report.Copies[b] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "b", Gone: 100}
			report.Copies[c] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "c", Applied: hash}
		}
		r.ask([]api.ID{a}, map[api.ID]int64{b: 100})
		r.heartbeat(says)
		r.after(10 * time.Second)
		seen := r.far().Copies
		want(t, "copies", len(seen), 2)
		want(t, "applied", seen[a].Applied, hash)
		want(t, "gone", seen[b].Gone, true)

		// What was gone by an earlier order is not gone by a later one, and what is wanted again is not gone.
		r.ask([]api.ID{a}, map[api.ID]int64{b: 200})
		want(t, "gone by another order", r.far().Copies[b].Gone, false)
		r.ask([]api.ID{a, b}, map[api.ID]int64{b: 100})
		want(t, "gone and wanted", r.far().Copies[b].Gone, false)

		// In another cluster nothing of it counts.
		r.ask([]api.ID{a}, map[api.ID]int64{b: 100})
		r.heartbeat(func(report *Report) { says(report); report.UID = "uid-other" })
		r.after(10 * time.Second)
		seen = r.far().Copies
		want(t, "applied in another cluster", seen[a].Applied, "")
		want(t, "why", seen[a].Reason, decide.ReasonForeign)
		want(t, "gone in another cluster", seen[b].Gone, false)
		want(t, "the UID is seen", r.far().UID, "uid-other")
		want(t, "its facts are not", r.far().Version, "")
	})
}

// When a reconciler starts it asks for nothing first; what was reported before it asked counts then.
func TestWhatWasReportedBeforeItWasAskedForIsNews(t *testing.T) {
	reading(t, func(r *reader) {
		d := r.desired["far"]
		d.Works, d.Retired = nil, nil
		r.desired["far"] = d
		r.Set(r.desired)
		r.heartbeat(func(c *Report) {
			c.Copies[id("ConfigMap", "a")] = Copy{Kind: "ConfigMap", Namespace: "default", Name: "a", Applied: strings.Repeat("a", 40)}
		})
		r.after(10 * time.Second)
		r.news()
		r.ask([]api.ID{id("ConfigMap", "a")}, nil)
		want(t, "news", r.news(), true)
		want(t, "applied", r.far().Copies[id("ConfigMap", "a")].Applied, strings.Repeat("a", 40))
		r.ask([]api.ID{id("ConfigMap", "a")}, nil)
		want(t, "news again", r.news(), false)
	})
}

func TestNobodyIsAskedWithoutMembersThatReport(t *testing.T) {
	reading(t, func(r *reader) {
		r.Set(map[string]Desired{"near": r.desired["near"]})
		r.board.with(func() { r.board.looks = 0 })
		r.after(time.Hour)
		want(t, "looks", r.board.looks, 0)
	})
}

func TestBranchesAreNamedAfterMembers(t *testing.T) {
	for member, branch := range map[string]string{"kube03": "kube03", "a.lock": "a%2elock", "Ä/..": "%c3%84%2f%2e%2e"} {
		want(t, member, record.AgentBranch(member), branch)
	}
}
