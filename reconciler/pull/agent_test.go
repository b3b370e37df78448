package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// serving is an agent at work: a look each 10s, a heartbeat each 30s, at most a report each 2s.
type serving struct {
	*Agent
	t      *testing.T
	state  *fakeState
	board  *fakeBoard
	fleet  *fakeFleet
	mark   string // the file
	branch string
	ended  chan error
	stop   func()
}

func serve(t *testing.T, story func(s *serving)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &serving{t: t, state: &fakeState{}, board: &fakeBoard{}, fleet: newFakeFleet(), mark: filepath.Join(t.TempDir(), "mark")}
		s.start()
		story(s)
		s.stop()
	})
}

func (s *serving) start() {
	s.Agent = NewAgent(AgentOptions{
		Member: "far", State: s.state, Poster: poster{s.board, "far"}, Fleet: s.fleet, Version: "v1", Marker: s.mark, Branch: s.branch,
		Interval: 10 * time.Second, Heartbeat: 30 * time.Second, Rest: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	s.ended = make(chan error, 1)
	go func() { defer close(ended); s.ended <- s.Run(ctx) }()
	s.stop = func() { cancel(); <-ended }
	synctest.Wait()
}

func (s *serving) after(d time.Duration) *serving {
	time.Sleep(d)
	synctest.Wait()
	return s
}

// branch is a state branch for the member far, written by a pass at a time.
type branch struct {
	passed  time.Time
	works   []api.Object
	retired []record.Retired
	others  map[string][]byte
	binding func(b *workv1alpha2.ResourceBinding)
	cluster *clusterv1alpha1.Cluster
}

var passed = time.Date(1999, 12, 31, 12, 0, 0, 0, time.UTC) // before the clock of a bubble begins

func (b branch) files(t *testing.T) map[string][]byte {
	t.Helper()
	meta, err := record.EncodeMeta(record.Meta{APIVersion: record.APIVersion, Kind: "State", FormatVersion: record.FormatVersion, PassTime: metav1.NewTime(b.passed)})
	check(t, err)
	files := map[string][]byte{record.MetaPath: meta}
	if b.cluster == nil {
		b.cluster = clusterOf("far", clusterv1alpha1.Pull, "uid-far")
	}
	files[record.ClusterPath("far")], err = record.EncodeCluster(b.cluster)
	check(t, err)
	for _, o := range b.works {
		id := api.IDOf(o)
		files[record.WorkPath("far", id)] = record.EncodeObject(o)
		key := record.BindingOf(id)
		bound := &workv1alpha2.ResourceBinding{TypeMeta: metav1.TypeMeta{APIVersion: workv1alpha2.APIVersion, Kind: workv1alpha2.KindResourceBinding}}
		if id.Namespace == "" {
			bound.Kind = workv1alpha2.KindClusterResourceBinding
		}
		bound.Namespace, bound.Name = key.Namespace, key.Name
		if b.binding != nil {
			b.binding(bound)
		}
		files[key.Path()], err = record.EncodeBinding(bound)
		check(t, err)
	}
	for _, r := range b.retired {
		text, err := json.Marshal(r)
		check(t, err)
		files[r.Path()] = text
	}
	maps.Copy(files, b.others)
	return files
}

// marked is a ConfigMap as a binding placed it.
func marked(name, value string) api.Object {
	o := configMap(name, value)
	o["metadata"].(map[string]any)["annotations"] = map[string]any{work.AnnotationBinding: "default/" + name + "-configmap", work.AnnotationFleet: "godwit"}
	return o
}

func names[V any](m map[api.ID]V) string {
	var all []string
	for id := range m {
		all = append(all, id.Kind+" "+id.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// wanted is what the agent asks of its member: "works / retired".
func (s *serving) wanted() string {
	d := s.fleet.wanted("far")
	return strings.Trim(names(d.Works)+" / "+names(d.Retired), " ")
}

func retiredAt(name string, since time.Time, spared bool) record.Retired {
	r := record.NewRetired("far", id("ConfigMap", name), since, "Unscheduled", false)
	r.Object.APIVersion, r.Spared = "v1", spared
	return r
}

func TestAnAgentTakesWhatIsOnTheBranchForItsMember(t *testing.T) {
	serve(t, func(s *serving) {
		want(t, "before it read anything, it is paused", s.fleet.wanted("far").Paused, true)
		secret := api.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "default"}, "data": map[string]any{"k": "placeholder"}}
		old := retiredAt("old", passed, false)
		old.ServiceAccount = "shop/deployer"
		b := branch{
			passed: passed, works: []api.Object{marked("a", "1"), secret},
			retired: []record.Retired{old, retiredAt("spared", passed, true)},
			others: map[string][]byte{
				"works/near/default/configmap_x.yaml":  record.EncodeObject(configMap("x", "1")),
				"clusters/near.yaml":                   []byte("broken: ["),
				"bindings/default/x-configmap.yaml":    []byte("broken: ["),
				"works/far/_cluster/namespace_n.yaml":  record.EncodeObject(work.Namespace("n", "godwit")),
				"works/far/default/configmap_odd.yaml": []byte("kind: ["),
			},
		}
		s.state.commit("1", b.files(t))
		s.after(10 * time.Second)
		want(t, "asked", s.wanted(), "ConfigMap a, Namespace n / ConfigMap old")
		d := s.fleet.wanted("far")
		want(t, "uid", d.RecordedUID, "uid-far")
		want(t, "paused", d.Paused, false)
		want(t, "hash", d.Works[id("ConfigMap", "a")].Hash, hashOf(marked("a", "1")))
		want(t, "a namespace that works need is shared", d.Works[api.ID{Kind: "Namespace", Name: "n"}].Overwrite, true)
		want(t, "other objects are not", d.Works[id("ConfigMap", "a")].Overwrite, false)
		want(t, "since", d.Retired[id("ConfigMap", "old")].Since, passed.Unix())
		want(t, "removed as", d.Retired[id("ConfigMap", "old")].Account, "shop/deployer")

		b.works, b.retired = []api.Object{marked("a", "2")}, nil
		b.binding = func(b *workv1alpha2.ResourceBinding) {
			b.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
			suspended := true
			b.Spec.Suspension = &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{Dispatching: &suspended}}
		}
		s.state.commit("2", b.files(t))
		s.after(10 * time.Second)
		a := s.fleet.wanted("far").Works[id("ConfigMap", "a")]
		want(t, "hash", a.Hash, hashOf(marked("a", "2")))
		want(t, "overwrite", a.Overwrite, true)
		want(t, "suspended", a.Suspended, true)
	})
}

func TestAnAgentWritesNothingBeforeItsMemberIsKnown(t *testing.T) {
	for name, cluster := range map[string]*clusterv1alpha1.Cluster{
		"without a UID":   clusterOf("far", clusterv1alpha1.Pull, ""),
		"that is pushed":  clusterOf("far", clusterv1alpha1.Push, "uid-far"),
		"of another name": clusterOf("near", clusterv1alpha1.Pull, "uid-far"),
	} {
		serve(t, func(s *serving) {
			s.state.commit("1", branch{passed: passed, works: []api.Object{marked("a", "1")}, cluster: cluster}.files(t))
			s.after(10 * time.Second)
			want(t, name+": asked", s.wanted(), "/")
			want(t, name+": paused", s.fleet.wanted("far").Paused, true)
		})
	}
}

// A file that cannot be used loses nothing, and nothing else.
func TestABrokenFileKeepsWhatWasThere(t *testing.T) {
	serve(t, func(s *serving) {
		b := branch{passed: passed, works: []api.Object{marked("a", "1"), marked("b", "1")}, retired: []record.Retired{retiredAt("old", passed, false)}}
		s.state.commit("1", b.files(t))
		s.after(10 * time.Second)
		files := branch{passed: passed, works: []api.Object{marked("a", "2"), marked("b", "2")}, retired: b.retired}.files(t)
		files["works/far/default/configmap_b.yaml"] = []byte("kind: [")
		files["bindings/default/a-configmap.yaml"] = []byte("kind: [")
		files["clusters/far.yaml"] = []byte("kind: [")
		files["retired/far/default/configmap_old.yaml"] = []byte("kind: [")
		s.state.commit("2", files)
		s.after(10 * time.Second)
		want(t, "asked", s.wanted(), "ConfigMap a, ConfigMap b / ConfigMap old")
		works := s.fleet.wanted("far").Works
		want(t, "the good one", works[id("ConfigMap", "a")].Hash, hashOf(marked("a", "2")))
		want(t, "the broken one", works[id("ConfigMap", "b")].Hash, hashOf(marked("b", "1")))

		newer := branch{passed: passed}.files(t)
		newer[record.MetaPath] = []byte(strings.Replace(string(newer[record.MetaPath]), "formatVersion: 1", "formatVersion: 2", 1))
		s.state.commit("3", newer)
		s.after(10 * time.Second)
		want(t, "asked by a newer one", s.wanted(), "ConfigMap a, ConfigMap b / ConfigMap old")
	})
}

// While the remote is away nobody knows whether a deletion still stands.
func TestNoDeletionBeginsWhileTheRemoteIsAway(t *testing.T) {
	serve(t, func(s *serving) {
		b := branch{passed: passed, works: []api.Object{marked("a", "1")}, retired: []record.Retired{retiredAt("one", passed, false)}}
		s.state.commit("1", b.files(t))
		s.after(10 * time.Second)
		want(t, "asked", s.wanted(), "ConfigMap a / ConfigMap one")
		s.state.with(func() { s.state.offline = errors.New("no route to host") })
		s.after(10 * time.Second)
		want(t, "what is under way goes on", s.wanted(), "ConfigMap a / ConfigMap one")
		s.stop()
		s.start()
		s.after(10 * time.Second)
		want(t, "after a restart", s.wanted(), "ConfigMap a /")
		s.state.with(func() { s.state.offline = nil })
		s.after(10 * time.Second)
		want(t, "when it is back", s.wanted(), "ConfigMap a / ConfigMap one")
	})
}

func TestHistoryThatWasTakenBack(t *testing.T) {
	serve(t, func(s *serving) {
		old := branch{passed: passed, works: []api.Object{marked("a", "1")}, retired: []record.Retired{retiredAt("b", passed, false)}}
		s.state.commit("1", old.files(t))
		s.state.commit("2", branch{passed: passed.Add(time.Minute), works: []api.Object{marked("a", "1"), marked("b", "1")}}.files(t))
		s.after(10 * time.Second)
		want(t, "asked", s.wanted(), "ConfigMap a, ConfigMap b /")

		s.state.with(func() { s.state.commits = s.state.commits[:1] })
		s.state.with(func() { s.state.logs = 0 })
		s.after(time.Minute)
		want(t, "taken back", s.wanted(), "ConfigMap a, ConfigMap b /")
		s.state.with(func() { want(t, "history was read so often", s.state.logs, 1) })
		s.fleet.see("far", decide.MemberFacts{Ready: metav1.ConditionTrue})
		s.after(10 * time.Second)
		if head := s.board.file(headFile); !strings.Contains(head, "does not descend from 2") {
			t.Errorf("the report says nothing of it: %s", head)
		}
		// The reconciler decides on what is there now.
		s.state.commit("3", branch{passed: passed.Add(2 * time.Minute), works: []api.Object{marked("a", "3")}}.files(t))
		s.after(10 * time.Second)
		want(t, "decided on", s.wanted(), "ConfigMap a /")
		// A person's revert may bring an earlier time along, and is no such thing.
		s.state.commit("4", old.files(t))
		s.after(10 * time.Second)
		want(t, "reverted", s.wanted(), "ConfigMap a / ConfigMap b")
	})
}

func TestTheNextAgentIsNotLedBackEither(t *testing.T) {
	serve(t, func(s *serving) {
		next := func() {
			s.stop()
			s.fleet.Set(nil)
			s.start()
		}
		old := branch{passed: passed, works: []api.Object{marked("a", "1")}, retired: []record.Retired{retiredAt("b", passed, false)}}
		s.state.commit("1", old.files(t))
		s.state.commit("2", branch{passed: passed.Add(time.Minute), works: []api.Object{marked("a", "1"), marked("b", "1")}}.files(t))
		s.after(10 * time.Second)
		next()
		want(t, "the same commit", s.wanted(), "ConfigMap a, ConfigMap b /")

		s.state.with(func() { s.state.commits = s.state.commits[:1] })
		next()
		want(t, "taken back meanwhile", s.wanted(), "/")
		if err := s.Ready(); err == nil {
			t.Error("an agent that does not follow the branch is ready")
		}
		s.state.commit("3", branch{passed: passed.Add(2 * time.Minute), works: []api.Object{marked("a", "3")}}.files(t))
		s.after(10 * time.Second)
		want(t, "decided on", s.wanted(), "ConfigMap a /")

		// Another branch is followed from wherever it is.
		s.branch = "elsewhere"
		s.state.with(func() { s.state.commits = nil })
		s.state.commit("old", old.files(t))
		next()
		want(t, "another branch", s.wanted(), "ConfigMap a / ConfigMap b")
		// A pass whose clock was wrong is no reason to wait for that time.
		s.state.commit("wrong", branch{passed: time.Now().Add(1e5 * time.Hour), works: []api.Object{marked("b", "1")}}.files(t))
		s.after(10 * time.Second)
		want(t, "of a time to come", s.wanted(), "ConfigMap b /")
		s.state.with(func() { s.state.commits = nil })
		s.state.commit("3", branch{passed: time.Now().Add(time.Second), works: []api.Object{marked("a", "3")}}.files(t))
		s.after(10 * time.Second)
		want(t, "mended", s.wanted(), "ConfigMap a /")

		// A file that says nothing holds nobody up.
		for _, text := range []string{"", "{", "{}", strings.Repeat("[", 1<<20)} {
			s.stop()
			check(t, os.WriteFile(s.mark, []byte(text), 0o600))
			s.fleet.Set(nil)
			s.start()
			want(t, "after "+text[:min(3, len(text))], s.wanted(), "ConfigMap a /")
			if now, err := readMark(s.mark, s.branch); err != nil || now.Head != "3" {
				t.Errorf("%v, %v", now, err)
			}
		}
	})
}

func TestReportsOfNewsAndHeartbeats(t *testing.T) {
	serve(t, func(s *serving) {
		s.after(2 * time.Minute)
		want(t, "reports before the member was looked at", s.board.taken(), 0)
		s.fleet.see("far", decide.MemberFacts{Ready: metav1.ConditionTrue, UID: "uid-far"})
		s.after(3 * time.Second)
		want(t, "reports of the first news", s.board.taken(), 1)
		want(t, "alive", s.Alive(), nil)
		want(t, "ready without a state branch", fmt.Sprint(s.Ready()), "the state branch was not read yet")
		s.after(90 * time.Second)
		want(t, "heartbeats", s.board.taken(), 4)

		// News all the time are reported less and less often, and each of them at last.
		s.board.with(func() { s.board.times = nil })
		for i := range 60 {
			s.fleet.see("far", decide.MemberFacts{Ready: metav1.ConditionTrue, UID: "uid-far", Version: fmt.Sprint("v1.", i)})
			s.after(time.Second)
		}
		if n := s.board.taken(); n < 5 || n > 10 {
			t.Errorf("%d reports in a minute of news", n)
		}
		s.after(10 * time.Second)
		if facts := s.board.file(factsFile); !strings.Contains(facts, "v1.59") {
			t.Errorf("the last news are not reported: %s", facts)
		}
	})
}

func TestAReportThatIsNotTakenIsTriedAgain(t *testing.T) {
	serve(t, func(s *serving) {
		s.board.with(func() { s.board.fails = 3 })
		s.fleet.see("far", decide.MemberFacts{Ready: metav1.ConditionTrue})
		s.after(time.Second)
		want(t, "taken at first", s.board.taken(), 0)
		s.after(20 * time.Second)
		want(t, "taken at last", s.board.taken(), 1)
	})
}

// What one end reports the other one reads.
func TestBothEndsAgree(t *testing.T) {
	serve(t, func(s *serving) {
		b := branch{passed: passed, works: []api.Object{marked("a", "1")}, retired: []record.Retired{retiredAt("old", passed, false)}}
		s.state.commit("1234567890123456789012345678901234567890", b.files(t))
		s.after(10 * time.Second)
		hash := hashOf(marked("a", "1"))
		s.fleet.see("far", decide.MemberFacts{Ready: metav1.ConditionTrue, Reason: "ClusterReady", UID: "uid-far", Copies: map[api.ID]decide.CopyFacts{
			id("ConfigMap", "a"): {Applied: hash, Live: marked("a", "1")}, id("ConfigMap", "old"): {Gone: true},
		}})
		s.after(10 * time.Second)
		want(t, "ready", s.Ready(), nil)
		f := NewFleet(FleetOptions{Board: s.board, Pushed: newFakeFleet(), Log: slog.New(slog.DiscardHandler)})
		f.Set(map[string]Desired{"far": s.fleet.wanted("far")})
		f.look(s.t.Context())
		got := f.Observe().Members["far"]
		want(t, "ready", got.Ready, metav1.ConditionTrue)
		want(t, "applied", got.Copies[id("ConfigMap", "a")].Applied, hash)
		want(t, "gone", got.Copies[id("ConfigMap", "old")].Gone, true)
	})
}

func TestADamagedCloneEndsTheAgent(t *testing.T) {
	serve(t, func(s *serving) {
		s.state.with(func() { s.state.err = fmt.Errorf("read: %w", pack.ErrDamaged) })
		s.after(10 * time.Second)
		select {
		case err := <-s.ended:
			if !errors.Is(err, pack.ErrDamaged) {
				t.Errorf("it ended with %v", err)
			}
		default:
			t.Error("it goes on")
		}
	})
}
