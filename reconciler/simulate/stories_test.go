package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
)

func TestAFailoverThatIsRevertedCountsFromThenOn(t *testing.T) {
	const fields = ", purgeMode: Gracefully, blockPredecessorSeconds: 600"
	s := story{spec: appFailover(fields), replicas: 1, until: "4m", events: "60s " + sick + "\n150s revert: failover"}
	r, lines := s.run(t)
	expect(t, lines,
		"2m0s ApplicationFailure failover: m1 -> m2; m1: Unhealthy since 2026-01-01T00:01:00Z, tolerated 1m0s until 2026-01-01T00:02:00Z",
		"2m1s PurgeDone leave: m1; the workload is healthy on m2",
		"3m31s ApplicationFailure failover: m1 -> m2; m1: Unhealthy since 2026-01-01T00:02:31Z, tolerated 1m0s until 2026-01-01T00:03:31Z",
		"3m32s PurgeDone leave: m1; the workload is healthy on m2")
	if got := placed(r, webDeployment); got != "m2=1" {
		t.Errorf("placed %s", got)
	}
	// In between it is back, and nothing keeps it from where it failed.
	s.until = "3m20s"
	r, _ = s.run(t)
	if got := placed(r, webDeployment); got != "m1=1" {
		t.Errorf("after the revert it is placed %s", got)
	}
	b := r.State.Bindings[record.BindingKey{Namespace: "default", Name: webDeployment}]
	if len(b.Spec.ActiveEvictionHistory) > 0 || len(b.Spec.GracefulEvictionTasks) > 0 {
		t.Errorf("after the revert: history %v, tasks %v", b.Spec.ActiveEvictionHistory, b.Spec.GracefulEvictionTasks)
	}
}

func TestACopyThatComesBackStaysWhileNoOtherWorks(t *testing.T) {
	const m2 = `cluster: m2, workload: {kind: Deployment, name: web}, health: `
	s := story{spec: fmt.Sprintf(one, "cluster: {}"), replicas: 1, until: "20m", events: `
		60s  cluster: m1, ready: "Unknown"
		400s ` + m2 + `Unhealthy
		420s cluster: m1, ready: "True"`}
	retired := func(r *Result) []string {
		var paths []string
		for path := range r.State.Retired {
			paths = append(paths, strings.TrimPrefix(path, "retired/"))
		}
		slices.Sort(paths)
		return paths
	}
	r, lines := s.run(t)
	expect(t, lines,
		"6m0s ClusterFailure failover: m1 -> m2; m1: the member is unreachable since 2026-01-01T00:01:00Z, tolerated 5m0s by default until 2026-01-01T00:06:00Z",
		"6m1s PurgeDone leave: m1; the workload is healthy on m2")
	if got, want := retired(r), []string{"m1/default/configmap_settings.yaml", "m1/default/deployment.apps_web.yaml"}; !slices.Equal(got, want) {
		t.Errorf("while m2 is unhealthy m1 still has %v, want %v", got, want)
	}
	s.events += "\n900s " + m2 + "Healthy"
	if r, _ = s.run(t); len(r.State.Retired) > 0 {
		t.Errorf("with m2 healthy m1 still has %v", retired(r))
	}
}

// The timers are on the branch: a process that dies every second decides what one does that lives on.
func TestARestartInEverySecondChangesNothing(t *testing.T) {
	for name, s := range map[string]story{
		"gracefully": {spec: appFailover(", purgeMode: Gracefully, gracePeriodSeconds: 30, blockPredecessorSeconds: 60"), startup: "50s", until: "3m10s", events: "60s " + sick},
		"directly, delayed, asked to be healthy once": {spec: appFailover(", purgeMode: Directly, blockPredecessorSeconds: 30, preConditions: {delaySeconds: 80, healthyState: Healthy}"),
			startup: "5s", until: "3m40s", events: "60s " + sick + "\n70s " + odd + "\n100s " + sick},
		"a member that is down": {spec: tutorialSpec, replicas: 4, startup: "5s", until: "3m", events: "60s cluster: m2, ready: \"Unknown\"\n150s cluster: m2, ready: \"True\""},
	} {
		t.Run(name, func(t *testing.T) {
			s.replicas, s.unchecked = max(s.replicas, 1), true
			end, err := time.ParseDuration(s.until)
			if err != nil {
				t.Fatal(err)
			}
			want, lines := s.run(t)
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, " failover: ") }) {
				t.Fatalf("nothing moves:\n%s", strings.Join(lines, "\n"))
			}
			for second := time.Second; second <= end; second += time.Second {
				s.events += fmt.Sprintf("\n%s restart: true", second)
			}
			got, again := s.run(t)
			if !slices.Equal(again, lines) {
				t.Errorf("timeline with restarts:\n%s\nwithout:\n%s", strings.Join(again, "\n"), strings.Join(lines, "\n"))
			}
			if files, err := record.Diff(want.State, got.State); err != nil || len(files) > 0 {
				t.Errorf("the state differs: %v %v", err, files)
			}
		})
	}
}
