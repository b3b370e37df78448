package failover_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/reconciler/failover"
)

func TestWhenATaskEnds(t *testing.T) {
	// The tasks began at second 0, and it is second 100.
	const (
		plain = "m1"
		grace = "m1 grace=50"
		long  = "m1 grace=500"
	)
	for _, c := range []struct {
		name        string
		tasks       string // "m1 grace=50 suppressed new": by comma
		clusters    string
		copies      string
		unscheduled bool
		since       int // when something was decided last
		options     failover.Options
		kept, ended string
		wake        string
	}{
		{name: "all healthy", tasks: plain, clusters: "m2, m3", copies: "m2 Healthy applied, m3 Healthy applied", ended: "m1: the workload is healthy on m2, m3", wake: "-"},
		{name: "the names of a few", tasks: plain, clusters: "a, b, c, d, e", copies: "a Healthy applied, b Healthy applied, c Healthy applied, d Healthy applied, e Healthy applied",
			ended: "m1: the workload is healthy on a, b, c and 2 more", wake: "-"},
		{name: "one is not healthy", tasks: plain, clusters: "m2, m3", copies: "m2 Healthy applied, m3 Unknown applied", kept: "m1", wake: "600"},
		{name: "nothing is seen of one", tasks: plain, clusters: "m2, m3", copies: "m2 Healthy applied", kept: "m1", wake: "600"},
		{name: "the old copy's health does not count", tasks: plain, clusters: "m2", copies: "m1 Healthy applied, m2 Unhealthy applied", kept: "m1", wake: "600"},
		{name: "healthy in another version", tasks: plain, clusters: "m2", copies: "m2 Healthy", kept: "m1", wake: "600"},
		{name: "healthy before the decision", tasks: plain, clusters: "m2", copies: "m2 Healthy applied", since: 100, kept: "m1", wake: "101"},
		{name: "healthy a second after the decision", tasks: plain, clusters: "m2", copies: "m2 Healthy applied", since: 99, ended: "m1: the workload is healthy on m2", wake: "-"},
		{name: "healthy, but the scheduling failed", tasks: plain, clusters: "m2", copies: "m2 Healthy applied", unscheduled: true, kept: "m1", wake: "-"},
		{name: "the grace period is over", tasks: grace, clusters: "m2", ended: "m1: its grace period ended 2026-01-01T12:00:50Z", wake: "-"},
		{name: "the grace period ends now", tasks: "m1 grace=100", clusters: "m2", ended: "m1: its grace period ended 2026-01-01T12:01:40Z", wake: "-"},
		{name: "the grace period ends in a second", tasks: "m1 grace=101", clusters: "m2", kept: "m1", wake: "101"},
		{name: "no grace period", tasks: "m1 grace=0", clusters: "m2", ended: "m1: its grace period ended 2026-01-01T12:00:00Z", wake: "-"},
		{name: "the fleet's time-out", tasks: plain, clusters: "m2", options: failover.Options{Timeout: 90 * time.Second}, ended: "m1: its grace period ended 2026-01-01T12:01:30Z", wake: "-"},
		{name: "the fleet's time-out is not for one with its own", tasks: long, clusters: "m2", options: failover.Options{Timeout: 90 * time.Second}, kept: "m1", wake: "500"},
		{name: "the grace period is over and nothing runs", tasks: grace, kept: "m1", wake: "-"},
		{name: "the grace period is over and the scheduling failed", tasks: grace, clusters: "m2", unscheduled: true, kept: "m1", wake: "-"},
		{name: "nothing runs: in Karmada it goes all the same", tasks: grace, options: failover.Options{Compat: true}, ended: "m1: its grace period ended 2026-01-01T12:00:50Z", wake: "-"},
		{name: "nothing runs: in Karmada it waits for its time", tasks: long, options: failover.Options{Compat: true}, kept: "m1", wake: "500"},
		{name: "suppressed", tasks: "m1 grace=50 suppressed", clusters: "m2", copies: "m2 Healthy applied", kept: "m1", wake: "-"},
		{name: "confirmed", tasks: "m1 confirmed", clusters: "m2", ended: "m1: its deletion was confirmed", wake: "-"},
		{name: "confirmed, and nothing runs", tasks: "m1 confirmed", unscheduled: true, ended: "m1: its deletion was confirmed", wake: "-"},
		{name: "a new one begins now", tasks: "m1 grace=50 new", clusters: "m2", kept: "m1", wake: "150"},
		{name: "several, each by its own", tasks: "m1 grace=50, m4 grace=300, m5 suppressed, m6 confirmed, m7 grace=200", clusters: "m2", kept: "m4 m5 m7",
			ended: "m1: its grace period ended 2026-01-01T12:00:50Z, m6: its deletion was confirmed", wake: "200"},
		{name: "several, all healthy", tasks: "m1 grace=50, m5 suppressed, m4 grace=300", clusters: "m2", copies: "m2 Healthy applied", kept: "m5",
			ended: "m1: the workload is healthy on m2, m4: the workload is healthy on m2", wake: "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tasks []string
			for task := range strings.SplitSeq(c.tasks, ", ") {
				fields := "creationTimestamp: \"2026-01-01T12:00:00Z\""
				for i, word := range strings.Fields(task) {
					name, value, _ := strings.Cut(word, "=")
					switch {
					case i == 0:
						fields += ", reason: X, producer: Z, fromCluster: " + word
					case name == "grace":
						fields += ", gracePeriodSeconds: " + value
					case name == "suppressed":
						fields += ", suppressDeletion: true"
					case name == "confirmed":
						fields += ", suppressDeletion: false"
					case name == "new":
						_, fields, _ = strings.Cut(fields, ", ")
					}
				}
				tasks = append(tasks, "{"+fields+"}")
			}
			clusters := ""
			for name := range strings.SplitSeq(c.clusters, ", ") {
				if name != "" {
					clusters += "{name: " + name + "}, "
				}
			}
			text := "gracefulEvictionTasks: [" + strings.Join(tasks, ", ") + "], clusters: [" + clusters + "]"
			b := binding(t, text)
			kept, ended, wake := failover.Finish(&b.Spec, copiesOf(c.copies), !c.unscheduled, at(c.since), at(now), c.options)
			var names, reasons []string
			for _, task := range kept {
				names = append(names, task.FromCluster)
				if task.CreationTimestamp == nil {
					t.Errorf("the task of %s has no time", task.FromCluster)
				}
			}
			for _, e := range ended {
				reasons = append(reasons, e.Task.FromCluster+": "+e.Why)
			}
			same(t, "kept", strings.Join(names, " "), c.kept)
			same(t, "ended", strings.Join(reasons, ", "), c.ended)
			same(t, "wake", second(wake), c.wake)
			same(t, "the binding before", b, binding(t, text))
		})
	}
}

func TestABlockEnds(t *testing.T) {
	const history = `, activeEvictionHistory: [{clusterName: m1, creationTimestamp: "2026-01-01T12:00:00Z"}, {clusterName: m2, creationTimestamp: "2026-01-01T12:00:30Z"}]`
	for _, c := range []struct {
		name, spec        string
		now               int
		compat            bool
		kept, ended, wake string
	}{
		{"600 s by default: not yet", application(""), 599, false, "m1 m2", "", "600"},
		{"600 s by default", application(""), 600, false, "m2", "m1", "630"},
		{"both", application(""), 630, false, "", "m1 m2", "-"},
		{"its own", application(", blockPredecessorSeconds: 20"), 49, false, "m2", "m1", "50"},
		{"for ever", application(", blockPredecessorSeconds: 0"), 1000000, false, "m1 m2", "", "-"},
		{"none without failover.application", onCluster, 1, false, "", "m1 m2", "-"},
		{"none by default in Karmada", application(""), 1, true, "", "m1 m2", "-"},
		{"its own beside Karmada's answers", application(", blockPredecessorSeconds: 20"), 1, true, "m1 m2", "", "20"},
	} {
		b := binding(t, c.spec+history)
		kept, ended, wake := failover.Unblock(&b.Spec, at(c.now), failover.Options{Compat: c.compat})
		var keeps, ends []string
		for _, r := range kept {
			keeps = append(keeps, r.ClusterName)
		}
		for _, r := range ended {
			ends = append(ends, r.ClusterName)
		}
		if got := [3]string{strings.Join(keeps, " "), strings.Join(ends, " "), second(wake)}; got != [3]string{c.kept, c.ended, c.wake} {
			t.Errorf("%s: Unblock at %d = %q, want %q", c.name, c.now, got, []string{c.kept, c.ended, c.wake})
		}
	}
}

func TestATaskWithoutATimeHasNoEnd(t *testing.T) {
	task := binding(t, "gracefulEvictionTasks: [{fromCluster: m1, reason: X, producer: Z, gracePeriodSeconds: 5}]").Spec.GracefulEvictionTasks[0]
	if end := failover.GraceEnd(task, failover.Options{}); !end.IsZero() {
		t.Errorf("a task that has not begun ends at %s", end)
	}
	task.CreationTimestamp = &metav1.Time{Time: at(1)}
	same(t, "end", failover.GraceEnd(task, failover.Options{}), at(6))
}
