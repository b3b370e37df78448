package decide_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// explained decides as the next pass would, and explains.
func (w *world) explained() *decide.Decision {
	w.Helper()
	before := w.options
	w.options.Explain = true
	defer func() { w.options = before }()
	return w.next(w.state, nil)
}

// Explaining changes no decision, and members are shown as targets exactly if they are.
func TestExplainingChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(quietTB{t, rt})
		if rapid.Bool().Draw(rt, "seen") {
			w.look("m1", "m2", "m3", "m4")
		}
		files := genFleet(rt)
		for i := range rapid.IntRange(1, 3).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "later")) * time.Second)
			edit(rt, files)
			w.commit(maps.Clone(files), fmt.Sprintf("c%d", i))
			full := w.explained()
			plain := w.next(w.state, nil)
			if diff := gocmp.Diff(w.account(plain), w.account(full)); diff != "" {
				rt.Fatalf("unexplained and explained (-unexplained +explained):\n%s", diff)
			}
			for _, row := range full.Bindings {
				checkVerdicts(rt, row)
			}
			for _, row := range plain.Bindings {
				if row.Why() != nil || row.Schedule != nil || row.Overrides != nil {
					rt.Fatalf("%s: explained unasked", row.Key)
				}
			}
			w.state = full.Next
		}
	})
}

func checkVerdicts(t *rapid.T, row decide.BindingRow) {
	why := row.Why()
	if why == nil {
		t.Fatalf("%s: not explained", row.Key)
	}
	if row.Schedule == nil || row.Schedule.Reasons == nil || why.Next == nil {
		return
	}
	targets := map[string]int32{}
	for _, c := range why.Next.Spec.Clusters {
		targets[c.Name] = c.Replicas
	}
	for _, v := range row.Schedule.Verdicts {
		replicas, is := targets[v.Cluster]
		if shown := v.Outcome == schedule.Kept || v.Outcome == schedule.Chosen; shown != is || v.Replicas != replicas {
			t.Fatalf("%s: %s is %s with %d replicas, the targets are %v", row.Key, v.Cluster, v.Outcome, v.Replicas, targets)
		}
		if v.Message == "" || v.Outcome == schedule.Refused && v.Rule == "" {
			t.Fatalf("%s: no reason for %s: %+v", row.Key, v.Cluster, v)
		}
	}
}

func whyOf(t *testing.T, d *decide.Decision) *decide.Why {
	t.Helper()
	r := row(t, d, web)
	return r.Why()
}

// timersOf writes the timers of web as "ClusterFailure m2 10s-70s: text", in seconds after the start.
func timersOf(t *testing.T, d *decide.Decision) (lines []string) {
	t.Helper()
	after := func(at time.Time) string {
		if at.IsZero() {
			return "?"
		}
		return at.Sub(start).String()
	}
	for _, timer := range whyOf(t, d).Timers {
		lines = append(lines, fmt.Sprintf("%s %s %s-%s: %s", timer.What, timer.Cluster, after(timer.Since), after(timer.Until), timer.Text))
	}
	return lines
}

func TestTimersOfAFailover(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, tutorial))
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(5)
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.pass()
	lines := timersOf(t, w.explained())
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "ClusterFailure m2 10s-1m10s: ") {
		t.Errorf("while it is tolerated: %q", lines)
	}
	w.now = start.Add(70 * time.Second)
	lines = timersOf(t, w.explained())
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "; it leaves now") || !strings.HasPrefix(lines[1], "purge m2 1m10s-11m10s: ") || !strings.HasPrefix(lines[2], "block m2 1m10s-") {
		t.Errorf("when that is over: %q", lines)
	}
	w.pass()
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.now = start.Add(71 * time.Second)
	if lines = timersOf(t, w.explained()); len(lines) != 1 || !strings.HasPrefix(lines[0], "block m2 ") {
		t.Errorf("after it: %q", lines)
	}
}

func TestWhyAFailoverDoesNotStart(t *testing.T) {
	tests := []struct {
		name, spec string
		members    int
		seconds    int
		happens    func(*world)
		want       string
	}{
		{"an unhealthy copy that nobody watches", "placement: {}", 2, 600, func(w *world) { w.healthOf("m2", workv1alpha2.ResourceUnhealthy) }, "unhealthy m2 ?-?: nothing counts how long the copy is unhealthy: the policy has no failover.application"},
		{"a member is down, and the policy does not say to leave it", "placement: {}", 2, 600, func(w *world) { w.down("m2") }, "ClusterFailure m2 10s-?: "},
		{"nowhere to go", strings.Replace(tutorial, "[m1, m2, m3]", "[m2]", 1), 2, 70, func(w *world) { w.down("m2") }, "; it stays, as there is no other place for it"},
		{"most are down", tutorial, 3, 70, func(w *world) { w.down("m1"); w.down("m2") }, "; the brake holds it: 2 of 3 members went down together; "},
		{"many left just now", tutorial, 3, 70, func(w *world) {
			w.options.MaxEvictionsPerMinute = 1
			w.state.Meta.Evictions = []record.Evictions{{Time: w.now.Add(30 * time.Second), Cluster: "m3", Count: 1}}
			w.down("m2")
		}, "; it waits, as many leave at once: more may from 2026-01-01T12:01:40Z"},
		{"what goes directly is still there", strings.Replace(tutorial, "purgeMode: Graciously, gracePeriodSeconds: 120", "purgeMode: Directly", 1), 3, 70, func(w *world) { w.down("m2") }, "purge m2 1m10s-11m10s: the copy there goes first: those that replace it wait until it is gone, "},
	}
	for _, tt := range tests {
		w := newWorld(t)
		w.look("m1", "m2", "m3")
		w.push(failoverSource(tt.members, 4, tt.spec))
		w.healthOf("m1", workv1alpha2.ResourceHealthy)
		w.healthOf("m2", workv1alpha2.ResourceHealthy)
		w.at(5)
		w.now = start.Add(10 * time.Second)
		tt.happens(w)
		w.pass()
		w.now = start.Add(time.Duration(tt.seconds) * time.Second)
		if lines := strings.Join(timersOf(t, w.explained()), "\n"); !strings.Contains(lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}

func TestWhyTellsWhatAPolicyChanged(t *testing.T) {
	w := newWorld(t)
	source := fleet(2) + file("web.yaml", deployment("web", 4))
	w.push(source + file("p.yaml", policyFor("p", "Deployment", "placement: {}, activationPreference: Lazy")))
	w.push(source + file("p.yaml", policyFor("p", "Deployment", "placement: {clusterAffinity: {clusterNames: [m1]}}, activationPreference: Lazy, conflictResolution: Overwrite")))
	want(t, "lazy", whyOf(t, w.explained()).Lazy, []string{"placement", "conflictResolution"})
	w.push(source + file("p.yaml", policyFor("p", "Deployment", "placement: {}")))
	want(t, "lazy", whyOf(t, w.explained()).Lazy, nil)
	before := w.state
	w.push(source + file("p.yaml", policyFor("p", "Deployment", "placement: {clusterAffinity: {clusterNames: [m1]}, spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]}")))
	w.state = before
	want(t, "placement", whyOf(t, w.explained()).Placement, []string{"clusterAffinity", "spreadConstraints"})
}
