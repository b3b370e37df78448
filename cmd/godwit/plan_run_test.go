package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/work"
)

var (
	planFleets = flag.Int("plan.fleets", 4, "how many random fleets are planned and run")
	planEdits  = flag.Int("plan.edits", 25, "how many edits each of them gets")
	planSeed   = flag.Uint64("plan.seed", 1, "the first seed")
)

// What plan says of a push is what run then does: it commits the bindings, the works and nothing else, and
// members hold them.
func TestPlanSaysWhatRunThenDoes(t *testing.T) {
	for i := range *planFleets {
		seed := *planSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newPlanWorld(t, seed)
			for n := range *planEdits {
				w.push(n)
				if t.Failed() {
					t.Fatalf("go test ./cmd/godwit -run TestPlanSaysWhatRunThenDoes -plan.seed %d -plan.fleets 1 -plan.edits %d\nlast edit: %s\n\nlast commits:\n%s", seed, n+1, w.lastEdit, w.repo.Git("log", "-6", "--format=%s%n%b", stateBranch))
				}
				w.fleet.edit()
			}
		})
	}
}

// planWorld is a fleet that runs.
type planWorld struct {
	*testing.T
	c        *Config
	repo     *gittest.Repo
	fleet    *planFleet
	hints    chan struct{}
	passes   chan reconciler.Progress
	looked   chan struct{}
	clients  map[string]dynamic.Interface
	lastEdit string
	pushed   map[string]string // the files that are in force
	// idle are the bindings whose works are not sent, as policies suspend them. A deletion that is held afterwards
	// leaves a work as it was.
	idle map[record.BindingKey]bool
}

func newPlanWorld(t *testing.T, seed uint64) *planWorld {
	w := &planWorld{T: t, c: planConfig(t.TempDir()), repo: gittest.NewRepo(t), clients: map[string]dynamic.Interface{}, pushed: map[string]string{}, idle: map[record.BindingKey]bool{},
		hints: make(chan struct{}, 1), passes: make(chan reconciler.Progress), looked: make(chan struct{})}
	names := []string{"m1", "m2", "m3", "m4"}
	servers := make([]*membertest.Server, len(names))
	for i, name := range names {
		servers[i] = membertest.Start(t, name)
		client, err := dynamic.NewForConfig(servers[i].RestConfig())
		if err != nil {
			t.Fatal(err)
		}
		w.clients[name] = client
	}
	w.c.Clusters.Kubeconfig = []string{filepath.Join(t.TempDir(), "kubeconfig")}
	w.c.Clusters.ProbeInterval, w.c.Clusters.ProbeTimeout = 100*time.Millisecond, 10*time.Second
	if err := membertest.WriteKubeconfig(w.c.Clusters.Kubeconfig[0], servers...); err != nil {
		t.Fatal(err)
	}
	w.c.Source.URL, w.c.Source.Branch = w.repo.Dir, "main"
	w.fleet = newPlanFleet(seed, names)
	return w
}

// start runs the reconciler. It stands still after each pass until the test looked at what came of it.
func (w *planWorld) start() {
	ctx, stop := context.WithCancel(w.Context())
	l, err := w.c.loop(ctx, slog.New(slog.DiscardHandler), func(p reconciler.Progress) {
		select {
		case w.passes <- p:
			select {
			case <-w.looked:
			case <-ctx.Done(): // the test failed while it looked
			}
		case <-ctx.Done():
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	l.Hints, l.Coalesce, l.PollInterval = w.hints, time.Millisecond, time.Hour
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.Errorf("Run: %v", err)
		}
		l.close()
	})
}

// hint asks for a pass.
func (w *planWorld) hint() {
	select {
	case w.hints <- struct{}{}:
	default:
	}
}

// until lets the reconciler pass until good holds of what came of a pass.
func (w *planWorld) until(what string, good func(reconciler.Progress) bool) reconciler.Progress {
	w.Helper()
	late := time.After(time.Minute)
	var last reconciler.Progress
	for {
		select {
		case last = <-w.passes:
			found := good(last)
			w.looked <- struct{}{}
			if found {
				return last
			}
		case <-late:
			w.Fatalf("never: %s; pending: %v", what, last.Pending)
		}
	}
}

// push plans the files as they are now, pushes them, and compares what comes of it.
func (w *planWorld) push(n int) {
	changed := map[string]string{}
	for name := range w.pushed {
		if _, kept := w.fleet.files[name]; !kept {
			changed[name] = ""
		}
	}
	for name, text := range w.fleet.files {
		if w.pushed[name] != text {
			changed[name] = text
		}
	}
	w.pushed = maps.Clone(w.fleet.files)
	var edit strings.Builder
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		fmt.Fprintf(&edit, "\n== %s\n%s", name, changed[name])
	}
	w.lastEdit = w.fleet.message + edit.String()

	if main := w.repo.Head("main"); !main.IsZero() {
		w.repo.SetRef("refs/heads/topic", main)
	}
	topic := w.repo.Commit("topic", changed, w.fleet.message)
	before := w.state()
	plan, err := w.c.plan(w.Context(), "", "", "topic", false)
	if err != nil {
		w.Fatal(err)
	}
	if n > 0 && !before.evicting {
		w.compareBased(plan)
	}
	w.repo.SetRef("refs/heads/main", topic)
	w.Logf("edit %d: bindings %v, works %v, %d held", n, plan.Summary.Bindings, plan.Summary.Works, len(plan.Held))
	if n == 0 {
		w.start()
	} else {
		w.hint()
	}
	var decided planState
	w.until("the push is decided on", func(p reconciler.Progress) bool {
		if string(p.Decision.Revision) != topic.String() {
			return false
		}
		decided = w.state()
		if n > 0 { // nothing was known of any member when the first was planned
			w.compare("the pass", plan, before, decided)
			w.comparePass(plan, before, p.Decision)
		}
		return true
	})
	w.hint()
	last := w.until("all is quiet", func(p reconciler.Progress) bool {
		if p.Decision.Commit != nil { // whether that was the last of it another pass tells
			w.hint()
		}
		soon := !p.Decision.Wake.IsZero() && time.Until(p.Decision.Wake) < 10*time.Second // as for a copy that leaves
		return p.Decision.Commit == nil && !soon && !slices.ContainsFunc(p.Pending, underWay)
	})
	after := w.state()
	// Two things are told later than by the plan: what a new member serves and has room for, which nobody knows
	// before it was met; and that what is evicted goes, once members say that others are healthy.
	met := slices.ContainsFunc(after.members, func(name string) bool { return !slices.Contains(before.members, name) })
	if n > 0 && !met && !decided.evicting {
		w.compare("in the end", plan, before, after)
	}
	w.compareMembers(after, last.Pending)
}

// underWay are failures that go by themselves.
func underWay(f reconciler.Failure) bool {
	return strings.HasPrefix(f.Message, "not ") || strings.Contains(f.Message, "not ready")
}

// compareBased compares the plan with that over the commit in force, which is the same: of that nothing is left to do.
func (w *planWorld) compareBased(plan *report.Plan) {
	based, err := w.c.plan(w.Context(), "", "main", "topic", false)
	if err != nil {
		w.Fatal(err)
	}
	says := func(p *report.Plan) (all []string) {
		for _, b := range p.Bindings {
			all = append(all, fmt.Sprintf("%s/%s %s: %v -> %v %s", b.Namespace, b.Name, b.Change, b.Previous, b.Clusters, b.Failure))
		}
		for _, work := range p.Works {
			all = append(all, fmt.Sprintf("%s on %s %s", work.Resource, work.Cluster, work.Change))
		}
		return all
	}
	if diff := gocmp.Diff(says(plan), says(based)); diff != "" {
		w.Errorf("over the state and over main (-state +main):\n%s", diff)
	}
	if in := w.repo.Head("main").String(); based.Source.Base != in {
		w.Errorf("the base is %s, want %s", based.Source.Base, in)
	}
}

// planState is the state branch as it is in the repository.
type planState struct {
	record   *record.State // nil if there is none yet
	works    map[string]string
	bindings map[record.BindingKey][]string // the clusters, as texts
	members  []string
	// evicting: copies go once others are healthy.
	evicting bool
}

func (w *planWorld) state() planState {
	s := planState{works: map[string]string{}, bindings: map[record.BindingKey][]string{}}
	if w.repo.Head(stateBranch).IsZero() {
		return s
	}
	tree := fstest.MapFS{}
	for path, text := range w.repo.Files(stateBranch) {
		tree[path] = &fstest.MapFile{Data: []byte(text)}
		if strings.HasPrefix(path, "works/") {
			s.works[path] = text
		}
	}
	state, problems, err := record.Decode(tree)
	if err != nil || len(problems) > 0 {
		w.Fatalf("decode the state branch: %v %v", problems, err)
	}
	s.record = state
	for key, b := range state.Bindings {
		s.bindings[key] = []string{}
		w.idle[key] = b.Spec.Suspension != nil
		s.evicting = s.evicting || len(b.Spec.GracefulEvictionTasks) > 0
		for _, c := range decide.Targets(b) {
			s.bindings[key] = append(s.bindings[key], fmt.Sprintf("%s=%d", c.Name, c.Replicas))
		}
		slices.Sort(s.bindings[key])
	}
	s.members = membersOf(state)
	return s
}

// compare compares the plan with what is committed.
func (w *planWorld) compare(when string, plan *report.Plan, before, after planState) {
	texts := func(targets []report.Target) []string {
		all := []string{}
		for _, t := range targets {
			all = append(all, fmt.Sprintf("%s=%d", t.Name, t.Replicas))
		}
		slices.Sort(all)
		return all
	}
	said, was := map[record.BindingKey][]string{}, map[record.BindingKey][]string{}
	for _, b := range plan.Bindings {
		key := record.BindingKey{Namespace: b.Namespace, Name: b.Name}
		if b.Change != decide.Removed {
			said[key] = texts(b.Clusters)
		}
		if b.Change != decide.Added {
			was[key] = texts(b.Previous)
		}
		if unchanged := slices.Equal(texts(b.Previous), texts(b.Clusters)); unchanged != (b.Change == decide.Unchanged || b.Change == decide.Updated) && b.Change != decide.Added && b.Change != decide.Removed {
			w.Errorf("plan calls %v -> %v of %s %s", b.Previous, b.Clusters, key, b.Change)
		}
	}
	if diff := gocmp.Diff(after.bindings, said); diff != "" {
		w.Errorf("bindings, %s (-committed +planned):\n%s", when, diff)
	}
	if diff := gocmp.Diff(before.bindings, was); diff != "" {
		w.Errorf("bindings before, %s (-committed +planned):\n%s", when, diff)
	}
	changes, diffs := map[string]decide.Change{}, map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(after.works)) {
		switch old, known := before.works[path]; {
		case !known:
			changes[path] = decide.Added
		case old != after.works[path]:
			changes[path] = decide.Updated
		default:
			changes[path] = decide.Unchanged
		}
	}
	for path := range before.works {
		if _, still := after.works[path]; !still {
			changes[path] = decide.Removed
		}
	}
	for path := range changes {
		old, next := inWords(w, before.works[path], after.works[path])
		if d := report.Diff(path, old, next); d != "" {
			diffs[path] = d
		}
	}
	planned, shown := map[string]decide.Change{}, map[string]string{}
	for _, x := range plan.Works {
		path := record.WorkPath(x.Cluster, record.ObjectRef(x.Resource).ID())
		planned[path] = x.Change
		if d := x.Diff(); d != "" {
			shown[path] = d
		}
	}
	if diff := gocmp.Diff(changes, planned); diff != "" {
		w.Errorf("works, %s (-committed +planned):\n%s", when, diff)
	}
	if diff := gocmp.Diff(diffs, shown); diff != "" {
		w.Errorf("diffs of works, %s (-committed +planned):\n%s", when, diff)
	}
}

// comparePass compares the plan with what the pass says beside what it commits.
func (w *planWorld) comparePass(plan *report.Plan, before planState, d *decide.Decision) {
	said := report.New(d, before.record, report.Revisions{})
	for _, c := range []struct {
		what          string
		planned, told any
	}{
		{"held deletions", plan.Held, said.Held},
		{"unbound templates", plan.Unbound, said.Unbound},
		{"findings", plan.Findings, said.Findings},
	} {
		if diff := gocmp.Diff(c.told, c.planned); diff != "" {
			w.Errorf("%s (-run +plan):\n%s", c.what, diff)
		}
	}
}

// planKinds are those that a fleet has.
var planKinds = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "resourcequotas"}, {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Group: "example.org", Version: "v1", Resource: "gadgets"},
}

// compareMembers compares what members hold of ours with the works on record, but for what members refuse.
func (w *planWorld) compareMembers(s planState, refused []reconciler.Failure) {
	want := map[string]string{}
	idle := map[string]bool{}
	for path, text := range s.works {
		o, err := canonical.Parse([]byte(text))
		if err != nil {
			w.Fatal(err)
		}
		id := api.IDOf(o)
		idle[path] = w.idle[record.BindingOf(id)] || slices.ContainsFunc(refused, func(f reconciler.Failure) bool {
			return f.Object == id.String() && path == record.WorkPath(f.Member, id)
		})
		if !idle[path] {
			want[path] = text
		}
	}
	got := map[string]string{}
	for _, member := range s.members {
		for _, kind := range planKinds {
			list, err := w.clients[member].Resource(kind).List(w.Context(), metav1.ListOptions{LabelSelector: work.LabelManaged + "=true"})
			if err != nil {
				continue // a kind that the member does not serve
			}
			for _, o := range list.Items {
				path := record.WorkPath(member, api.IDOf(o.Object))
				if idle[path] {
					continue
				}
				got[path] = want[path]
				wanted, err := canonical.Parse([]byte(want[path]))
				if want[path] == "" || err != nil {
					got[path] = "an object of ours that is not on record"
					continue
				}
				if err := holds(o.Object, wanted); err != nil && !work.IsSecret(api.IDOf(wanted)) {
					got[path] = err.Error()
				}
			}
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.Errorf("members (-recorded +held):\n%s", diff)
	}
}

// holds tells whether a live object has all fields of another.
func holds(live, want any) error {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", live)
		}
		for key, value := range want {
			if err := holds(have[key], value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	case []any:
		have, ok := live.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Errorf("%v is not %v", live, want)
		}
		for i := range want {
			if err := holds(have[i], want[i]); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	}
	if fmt.Sprint(live) != fmt.Sprint(want) {
		return fmt.Errorf("%v is not %v", live, want)
	}
	return nil
}

// inWords are two versions of a work's text as a plan shows them: a Secret has words in place of digests.
func inWords(t testing.TB, before, after string) (string, string) {
	parse := func(text string) api.Object {
		if text == "" {
			return nil
		}
		o, err := canonical.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	old, next := parse(before), parse(after)
	if !work.IsSecret(api.IDOf(old)) && !work.IsSecret(api.IDOf(next)) {
		return before, after
	}
	old, next = work.Words(old, next)
	if old != nil {
		before = string(canonical.YAML(old))
	}
	if next != nil {
		after = string(canonical.YAML(next))
	}
	return before, after
}
