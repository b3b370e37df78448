package schedule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/divide"
)

// world is any fleet with any binding.
type world struct {
	clusters []*clusterv1alpha1.Cluster
	request  Request
}

func (w world) String() string {
	return fmt.Sprintf("%d replicas, now %s, placement %+v", w.request.Binding.Spec.Replicas, show(w.request.Binding.Spec.Clusters), w.request.Binding.Spec.Placement)
}

var anyWorld = rapid.Custom(func(t *rapid.T) world {
	oneOf := func(label string, list ...string) string { return rapid.SampledFrom(list).Draw(t, label) }
	var w world
	var current []string
	for i := range rapid.IntRange(0, 8).Draw(t, "clusters") {
		name := string(rune('a' + i))
		w.clusters = append(w.clusters, cluster(strings.Join([]string{name,
			oneOf("region", "", "region=eu", "region=us", "region=ap"),
			oneOf("zone", "", "zone=x", "zone=y", "zone=x,z"),
			oneOf("provider", "", "provider=p", "provider=q"),
			oneOf("taint", "", "", "taint=k:NoSchedule", "taint=l:NoExecute"),
			oneOf("status", "", "", "", "nostatus", "noapis", "leaving"),
			fmt.Sprintf("pods=%d", rapid.IntRange(0, 12).Draw(t, "pods")),
			fmt.Sprintf("label=tier:%s", oneOf("tier", "1", "2")),
		}, " ")))
		if c := w.clusters[i]; c.Status.ResourceSummary != nil && rapid.IntRange(0, 3).Draw(t, "nodes") == 0 {
			withNodes(c, fmt.Sprintf("%d*pods=2 | taint=t:NoSchedule 9*pods=2", rapid.IntRange(0, 5).Draw(t, "count")))
		}
		if rapid.IntRange(0, 3).Draw(t, "target") == 0 {
			current = append(current, fmt.Sprintf("%s=%d", name, rapid.IntRange(1, 6).Draw(t, "current")))
		}
	}
	var spread []string
	for _, field := range []string{"cluster", "region", "zone", "provider"} {
		if rapid.IntRange(0, 2).Draw(t, field) == 0 {
			least := rapid.IntRange(1, 3).Draw(t, "minGroups")
			spread = append(spread, fmt.Sprintf("{spreadByField: %s, minGroups: %d, maxGroups: %d}", field, least, least+rapid.IntRange(0, 3).Draw(t, "more")))
		}
	}
	text := fmt.Sprintf("%s\nspreadConstraints: [%s]\nclusterTolerations: [%s]",
		oneOf("affinity", "", "clusterAffinity: {labelSelector: {matchLabels: {tier: '1'}}}", "clusterAffinity: {exclude: [a]}",
			"clusterAffinities: [{affinityName: near, clusterNames: [a, b]}, {affinityName: far, labelSelector: {matchLabels: {tier: '2'}}, overflowAffinities: [{affinityName: over, clusterNames: [c, d, e]}]}]"),
		strings.Join(spread, ", "), oneOf("toleration", "", "{operator: Exists}"))
	if s := oneOf("strategy", "", "duplicated", "even", "static", "dynamic", "aggregated"); s != "" {
		text += "\nreplicaScheduling: " + strategies[s]
	}
	b := binding(rapid.Int32Range(0, 20).Draw(t, "replicas"), strings.Join(current, " "), placed(text))
	if rapid.Bool().Draw(t, "evicting") {
		b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: oneOf("from", "a", "b")}}
	}
	if rapid.IntRange(0, 4).Draw(t, "reschedule") == 0 {
		b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: noon}
		b.Status.LastScheduledTime = &metav1.Time{Time: noon.Add(-1)}
	}
	b.Status.SchedulerObservedAffinityName = oneOf("observed", "", "far")
	b.Spec.Resource.UID = oneOf("uid", "", "b")
	w.request = Request{Binding: b, Now: noon, Explain: true}
	if rapid.Bool().Draw(t, "unhealthy") {
		w.request.Unhealthy = map[string]bool{"b": true, "c": true}
	}
	return w
})

func TestADecisionIsSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		f := NewFleet(w.clusters)
		first := f.Schedule(w.request)
		again := w.request
		again.Binding = stored(f, w.request.Binding, first)
		second := f.Schedule(again)
		if answer(second) != answer(first) && first.Failure == "" {
			t.Fatalf("%s: first %q, then %q", w, answer(first), answer(second))
		}
		if first.Failure != second.Failure {
			t.Fatalf("%s: first %q, then %q", w, first.Failure, second.Failure)
		}
	})
}

func TestCirclesEndAtTheSmallest(t *testing.T) {
	tests := []struct{ name, steps, start, want string }{
		{"it stands at once", "a>a", "a", "a"},
		{"it stands later", "a>b b>c c>c", "a", "c"},
		{"a circle", "a>d d>c c>b b>d", "a", "b"},
		{"a circle, from the smallest", "d>c c>b b>d", "b", "b"},
		{"a circle, from another", "d>c c>b b>d", "c", "b"},
		{"a failure", "a>b b>!", "a", "!"},
	}
	for _, tt := range tests {
		to := func(name string) outcome {
			if name == "!" {
				return failed(SchedulerError, "!")
			}
			return outcome{targets: targets(name)}
		}
		step := func(o outcome) outcome {
			_, rest, _ := strings.Cut(tt.steps, show(o.targets)+">")
			return to(rest[:1])
		}
		got := fixedPoint(to(tt.start), step(to(tt.start)), step)
		if show(got.targets)+got.message != tt.want {
			t.Errorf("%s: %s from %s ends at %q, want %q", tt.name, tt.steps, tt.start, show(got.targets)+got.message, tt.want)
		}
	}
}

func TestNoRefusedClusterIsChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		r := NewFleet(w.clusters).Schedule(w.request)
		if r.Failure != "" || !r.Trigger.Asks() {
			return
		}
		outcomes := map[string]Outcome{}
		for _, v := range r.Verdicts {
			outcomes[v.Cluster] = v.Outcome
		}
		for _, target := range r.Clusters {
			if o := outcomes[target.Name]; o != Kept && o != Chosen {
				t.Fatalf("%s is a target, but its verdict is %q: %s", target.Name, o, w)
			}
			i := slices.IndexFunc(w.clusters, func(c *clusterv1alpha1.Cluster) bool { return c.Name == target.Name })
			if w.clusters[i].DeletionTimestamp != nil {
				t.Fatalf("%s is leaving: %s", target.Name, w)
			}
		}
		for _, task := range w.request.Binding.Spec.GracefulEvictionTasks {
			if o := outcomes[task.FromCluster]; o != Refused && o != "" {
				t.Fatalf("%s is being left, but its verdict is %q: %s", task.FromCluster, o, w)
			}
		}
	})
}

func TestDividedReplicasAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		r := NewFleet(w.clusters).Schedule(w.request)
		spec := &w.request.Binding.Spec
		if r.Failure != "" || !r.Trigger.Asks() || spec.Replicas == 0 {
			return
		}
		if how, _ := strategyOf(spec.Placement.ReplicaScheduling); how == duplicated {
			for _, target := range r.Clusters {
				if target.Replicas != spec.Replicas {
					t.Fatalf("%s has %d of %d replicas", target.Name, target.Replicas, spec.Replicas)
				}
			}
			return
		}
		var sum int32
		for _, target := range r.Clusters {
			sum += target.Replicas
		}
		if sum != spec.Replicas {
			t.Fatalf("%s adds up to %d: %s", answer(r), sum, w)
		}
	})
}

// The arithmetic that is shown is the one that was done.
func TestTheDivisionShownIsTheResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		r := NewFleet(w.clusters).Schedule(w.request)
		d := r.Division
		if d == nil {
			return
		}
		sums, short := map[string]int32{}, false
		for _, step := range d.Steps {
			short = short || step.Short != nil
			var dealt int32
			for _, s := range step.Dealt {
				sums[s.Name] += s.Replicas
				dealt += s.Replicas
			}
			for _, s := range step.Kept {
				sums[s.Name] += s.Replicas
			}
			if step.Short == nil && step.How != divide.Whole && dealt != step.Seats {
				t.Fatalf("%s: %s deals %d of %d", w, step.How, dealt, step.Seats)
			}
		}
		if r.Failure != "" {
			if overflows := strings.Contains(fmt.Sprint(w.request.Binding.Spec.Placement.ClusterAffinities), "over"); r.Failure == Unschedulable && !short && !overflows {
				t.Fatalf("%s: %s, and the steps are %+v", w, r.Message, d.Steps)
			}
			return
		}
		for _, target := range r.Clusters {
			if sums[target.Name] != target.Replicas {
				t.Fatalf("%s: %s has %d, the steps say %d: %+v", w, target.Name, target.Replicas, sums[target.Name], d.Steps)
			}
			delete(sums, target.Name)
		}
		for name, n := range sums {
			if n != 0 {
				t.Fatalf("%s: the steps give %s %d, it is no target", w, name, n)
			}
		}
	})
}

// What a reschedule would decide is what it decides.
func TestAnewIsWhatARescheduleDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		f := NewFleet(w.clusters)
		first := f.Schedule(w.request)
		if first.Reasons == nil || first.Anew == nil {
			return
		}
		asked := *w.request.Binding
		asked.Status.LastScheduledTime = &metav1.Time{Time: noon}
		asked.Spec.RescheduleTriggeredAt = &metav1.Time{Time: noon.Add(1)}
		again := w.request
		again.Binding = &asked
		second := f.Schedule(again)
		if show(second.Clusters) != show(first.Anew.Clusters) || second.Failure != first.Anew.Failure {
			t.Fatalf("%s: said %s %s, decided %s", w, show(first.Anew.Clusters), first.Anew.Failure, answer(second))
		}
		if second.Anew != nil {
			t.Fatalf("%s: a reschedule says what another would decide", w)
		}
	})
}

func TestTheOrderOfClustersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		want := answer(NewFleet(w.clusters).Schedule(w.request))
		if got := answer(NewFleet(rapid.Permutation(w.clusters).Draw(t, "shuffled")).Schedule(w.request)); got != want {
			t.Fatalf("got %q, in the other order %q", got, want)
		}
	})
}

func TestWhatCameBeforeDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, other := anyWorld.Draw(t, "world"), anyWorld.Draw(t, "other")
		text := func(r Result) string {
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		want := text(NewFleet(w.clusters).Schedule(w.request))
		f := NewFleet(w.clusters)
		f.Schedule(other.request)
		if got := text(f.Schedule(w.request)); got != want {
			t.Fatalf("got %s, after another binding %s", want, got)
		}
	})
}

func TestTheRequestIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		before := fmt.Sprintf("%+v", w.request.Binding)
		NewFleet(w.clusters).Schedule(w.request)
		if after := fmt.Sprintf("%+v", w.request.Binding); after != before {
			t.Fatalf("%s became %s", before, after)
		}
	})
}
