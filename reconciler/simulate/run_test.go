package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

// snapshot is rendertest.Source's files as a source.
func snapshot(name, text string) gitstate.Snapshot {
	files := Files{}
	for path, f := range rendertest.Source(text) {
		files[path] = f.Data
	}
	hash, err := files.Hash(".")
	if err != nil {
		panic(err)
	}
	return gitstate.Snapshot{Revision: gitstate.Revision(name + hash[:8]), Branch: "main", FS: files}
}

// story is a scenario on members m1, m2 and m3 with one Deployment, web.
type story struct {
	spec     string // of the policy
	replicas int
	members  int // 0 means 3
	startup  string
	until    string // empty means 15m
	events   string // in lines, the first word is the time
	more     string // of the source
	failback string // of the policy
	// unchecked: the invariants are verified elsewhere.
	unchecked bool
	broken    func(decide.Input) (*decide.Decision, error) // nil means decide.Next
}

const tutorialSpec = `placement: {clusterAffinity: {clusterNames: [m1, m2, m3]},
    clusterTolerations: [
      {key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60},
      {key: cluster.karmada.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}],
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted,
      weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [m1]}, weight: 3}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}}},
  propagateDeps: true,
  failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Graciously, gracePeriodSeconds: 120}}`

// one is a placement on one member out of three, first m1.
const one = `placement: {clusterAffinity: {clusterNames: [m1, m2, m3]}, spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}],
    replicaScheduling: {replicaSchedulingType: Duplicated}}, propagateDeps: true, failover: {%s}`

func (s story) source() string {
	var b strings.Builder
	b.WriteString("== clusters.yaml ==\n")
	members := s.members
	if members == 0 {
		members = 3
	}
	for i := 1; i <= members; i++ {
		fmt.Fprintf(&b, "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m%d}\nspec: {syncMode: Push}\n", i)
	}
	fmt.Fprintf(&b, `== web.yaml ==
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nginx:1", envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {a: b}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, namespace: default%s}
spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], %s}
`, s.replicas, s.failbackText(), s.spec)
	b.WriteString(s.more)
	return b.String()
}

func (s story) failbackText() string {
	if s.failback == "" {
		return ""
	}
	return ", annotations: {godwit.dev/failback: " + s.failback + "}"
}

// run plays the story with all checks and returns its timeline without what people did.
func (s story) run(t *testing.T) (*Result, []string) {
	t.Helper()
	result, err := s.play(t)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range result.Lines {
		if l.Commit != "" {
			lines = append(lines, fmt.Sprintf("%s %s %s", l.At, l.Reason, l.Message))
		}
	}
	return result, lines
}

func (s story) play(t *testing.T) (*Result, error) {
	t.Helper()
	until := s.until
	if until == "" {
		until = "15m"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: godwit.dev/v1alpha1\nkind: Scenario\nsource: fleet\nuntil: %s\n", until)
	if s.startup != "" {
		fmt.Fprintf(&text, "members: {startup: %s}\n", s.startup)
	}
	text.WriteString("events:\n")
	for line := range strings.Lines(s.events) {
		if line = strings.TrimSpace(line); line != "" {
			at, event, _ := strings.Cut(line, " ")
			fmt.Fprintf(&text, "- {at: %s, %s}\n", at, event)
		}
	}
	scenario, err := Parse([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	more := s
	more.members, more.more = max(s.members, 1)+1, ""
	sources := map[string]gitstate.Snapshot{"fleet": snapshot("fleet", s.source()), "more": snapshot("more", more.source())}
	return Run(scenario, Options{Sources: sources, Check: !s.unchecked, decide: s.broken, Decide: decide.Options{SecretKey: []byte("key"), StatusInterval: time.Minute, MaxDeletePercent: 100}})
}

// expect compares the lines about failover.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	got = slices.DeleteFunc(got, func(l string) bool { return !about.contains(l) })
	if !slices.Equal(got, want) {
		t.Errorf("timeline:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

type words []string

var about = words{" failover: ", " leave: ", " cooldown: ", " failback: ", " blocked: ", " brake: "}

func (w words) contains(line string) bool {
	return slices.ContainsFunc(w, func(word string) bool { return strings.Contains(line, word) })
}

// placed is where a binding runs at the end.
func placed(r *Result, name string) string {
	for key, b := range r.State.Bindings {
		if key.Name == name {
			var words []string
			for _, c := range b.Spec.Clusters {
				words = append(words, fmt.Sprintf("%s=%d", c.Name, c.Replicas))
			}
			slices.Sort(words)
			return strings.Join(words, " ")
		}
	}
	return "none"
}

const webDeployment = "web-deployment"

func TestTutorial(t *testing.T) {
	r, lines := story{spec: tutorialSpec, replicas: 4, startup: "5s", events: `
		60s  cluster: m2, ready: "Unknown"
		300s cluster: m2, ready: "True"`}.run(t)
	expect(t, lines,
		"2m0s ClusterFailure failover: m2 -> m1; m2: the member is unreachable since 2026-01-01T00:01:00Z, tolerated 1m0s until 2026-01-01T00:02:00Z",
		"2m5s PurgeDone leave: m2; the workload is healthy on m1",
		"12m0s CooldownEnded cooldown: m2 may be taken again")
	if got := placed(r, webDeployment); got != "m1=4" {
		t.Errorf("placed %s", got)
	}
}

const sick = `cluster: m1, workload: {kind: Deployment, name: web}, health: Unhealthy`
const well = `cluster: m1, workload: {kind: Deployment, name: web}, health: Healthy`
const odd = `cluster: m1, workload: {kind: Deployment, name: web}, health: Unknown`

func appFailover(fields string) string {
	return fmt.Sprintf(one, "application: {decisionConditions: {tolerationSeconds: 60}"+fields+"}")
}

func TestStories(t *testing.T) {
	unhealthy := func(since, until string) string {
		return fmt.Sprintf("m1: Unhealthy since 2026-01-01T00:%sZ, tolerated 1m0s until 2026-01-01T00:%sZ", since, until)
	}
	for _, c := range []struct {
		name string
		story
		want []string
		at   string
	}{
		{name: "gracefully: the new copy first, the old one when that is healthy, m1 refused until its block ends",
			story: story{spec: appFailover(", purgeMode: Gracefully, blockPredecessorSeconds: 120"), startup: "10s", events: "60s " + sick},
			want: []string{
				"2m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00"),
				"2m10s PurgeDone leave: m1; the workload is healthy on m2",
				"4m0s CooldownEnded cooldown: m1 may be taken again",
			}, at: "m2=1"},
		{name: "gracefully: the grace period ends before the new copy is healthy",
			story: story{spec: appFailover(", purgeMode: Gracefully, gracePeriodSeconds: 30"), startup: "50s", until: "5m", events: "60s " + sick},
			want: []string{
				"2m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00"),
				"2m30s PurgeDone leave: m1; its grace period ended 2026-01-01T00:02:30Z",
			}, at: "m2=1"},
		{name: "a blip below the toleration",
			story: story{spec: appFailover(""), events: "60s " + sick + "\n110s " + well + "\n120s " + sick + "\n170s " + well}, at: "m1=1"},
		{name: "unknown neither starts nor clears the time",
			story: story{spec: appFailover(""), until: "5m", events: "30s " + odd + "\n100s " + sick + "\n120s " + odd + "\n150s " + sick},
			want:  []string{"2m40s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:40", "02:40"), "2m41s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "moves in the middle of unknown",
			story: story{spec: appFailover(""), until: "5m", events: "100s " + sick + "\n120s " + odd},
			want: []string{"2m40s ApplicationFailure failover: m1 -> m2; m1: Unknown since 2026-01-01T00:01:40Z, tolerated 1m0s until 2026-01-01T00:02:40Z",
				"2m41s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "never healthy, and healthyState asks for it",
			story: story{spec: appFailover(", preConditions: {healthyState: Healthy}"), startup: "20m", events: "5m " + sick}, at: "m1=1"},
		{name: "healthy once, then sick, and healthyState asks for it",
			story: story{spec: appFailover(", preConditions: {healthyState: Healthy}"), startup: "10s", until: "4m", events: "60s " + sick},
			want:  []string{"2m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00"), "2m10s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "not counted within delaySeconds",
			story: story{spec: appFailover(", preConditions: {delaySeconds: 120}"), until: "4m", events: "10s " + sick},
			want: []string{"3m1s ApplicationFailure failover: m1 -> m2; m1: Unhealthy since 2026-01-01T00:00:10Z, not counted for the first 2m0s, tolerated 1m0s until 2026-01-01T00:03:01Z",
				"3m2s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "directly: the old copy at once, the new one when it is gone",
			story: story{spec: appFailover(", purgeMode: Directly"), until: "5m", events: "60s " + sick},
			want:  []string{"2m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00"), "2m2s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "never: the old copy stays",
			story: story{spec: appFailover(", purgeMode: Never"), until: "9m", events: "60s " + sick},
			want:  []string{"2m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00")}, at: "m2=1"},
		{name: "nowhere to go: it stays, and moves when a member joins",
			story: story{spec: appFailover(""), members: 1, until: "9m", events: "60s " + sick + "\n5m source: more",
				more: "== more.txt ==\n"},
			want: []string{
				"2m0s ApplicationFailure blocked: should leave m1 and has nowhere to go: there is no other member",
				"5m0s ApplicationFailure failover: m1 -> m2; " + unhealthy("01:00", "02:00"), "5m1s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "no opt-in: a member that is down keeps it",
			story: story{spec: `placement: {clusterAffinity: {clusterNames: [m1, m2]}, spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]}, failover: {}`,
				events: `60s cluster: m1, ready: "Unknown"`}, at: "m1=1"},
		{name: "failover.cluster without tolerations: 300 s",
			story: story{spec: fmt.Sprintf(one, "cluster: {}"), events: `60s cluster: m1, ready: "False"`},
			want: []string{"6m0s ClusterFailure failover: m1 -> m2; m1: the member is not ready since 2026-01-01T00:01:00Z, tolerated 5m0s by default until 2026-01-01T00:06:00Z",
				"6m1s PurgeDone leave: m1; the workload is healthy on m2"}, at: "m2=1"},
		{name: "the member comes back in time",
			story: story{spec: fmt.Sprintf(one, "cluster: {}"), events: "60s cluster: m1, ready: \"False\"\n5m50s cluster: m1, ready: \"True\""}, at: "m1=1"},
		{name: "all members down at once: the brake",
			story: story{spec: tutorialSpec, replicas: 4, events: "60s cluster: m1, ready: \"Unknown\"\n61s cluster: m2, ready: \"Unknown\"\n62s cluster: m3, ready: \"Unknown\"\n" +
				"8m cluster: m1, ready: \"True\"\n8m1s cluster: m2, ready: \"True\"\n8m2s cluster: m3, ready: \"True\""},
			want: []string{
				"1m1s ClusterFailure brake: 2 of 3 members went down together; no workload leaves a member until most are back or it is approved",
				"8m1s Status brake: most members are back"}, at: "m1=3 m2=1"},
		{name: "failback: home again once that was healthy for so long",
			story: story{spec: tutorialSpec, replicas: 4, startup: "5s", failback: "after=10m", until: "30m", events: `
				60s cluster: m2, ready: "Unknown"
				5m cluster: m2, ready: "True"`},
			want: []string{
				"2m0s ClusterFailure failover: m2 -> m1; m2: the member is unreachable since 2026-01-01T00:01:00Z, tolerated 1m0s until 2026-01-01T00:02:00Z",
				"2m5s PurgeDone leave: m2; the workload is healthy on m1",
				"15m0s Rebalance failback: back to m2",
			}, at: "m1=3 m2=1"},
		{name: "failback of one copy: the other one stays until it is healthy",
			story: story{spec: fmt.Sprintf(one, "cluster: {}"), startup: "10s", failback: "after=5m", until: "30m", events: `
				60s cluster: m1, ready: "False"
				8m cluster: m1, ready: "True"`},
			want: []string{
				"6m0s ClusterFailure failover: m1 -> m2; m1: the member is not ready since 2026-01-01T00:01:00Z, tolerated 5m0s by default until 2026-01-01T00:06:00Z",
				"6m10s PurgeDone leave: m1; the workload is healthy on m2",
				"13m0s Rebalance failback: back to m1",
				"13m10s PurgeDone leave: m2; the workload is healthy on m1",
			}, at: "m1=1"},
		{name: "one by one",
			story: story{spec: fmt.Sprintf(one, "cluster: {}"), members: 3, until: "20m", events: "60s cluster: m1, ready: \"Unknown\"\n8m cluster: m2, ready: \"Unknown\""},
			want: []string{
				"6m0s ClusterFailure failover: m1 -> m2; m1: the member is unreachable since 2026-01-01T00:01:00Z, tolerated 5m0s by default until 2026-01-01T00:06:00Z",
				"6m1s PurgeDone leave: m1; the workload is healthy on m2",
				"13m0s ClusterFailure failover: m2 -> m3; m2: the member is unreachable since 2026-01-01T00:08:00Z, tolerated 5m0s by default until 2026-01-01T00:13:00Z",
				"13m1s PurgeDone leave: m2; the workload is healthy on m3",
			}, at: "m3=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.replicas == 0 {
				c.replicas = 1
			}
			r, lines := c.story.run(t)
			expect(t, lines, c.want...)
			if got := placed(r, webDeployment); got != c.at {
				t.Errorf("placed %s, want %s", got, c.at)
			}
		})
	}
}

func TestAScenarioEndsWhenItIsStopped(t *testing.T) {
	stop, passes := errors.New("stop"), 0
	s := &Scenario{Source: "head", Start: "2026-01-01T00:00:00Z", Until: time.Hour, Events: []Event{{At: time.Minute, Cluster: "m1", Ready: "False"}}}
	_, err := Run(s, Options{Sources: map[string]gitstate.Snapshot{"head": snapshot("head", story{spec: fmt.Sprintf(one, ""), replicas: 1}.source())}, Stop: func() error {
		if passes++; passes > 2 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || passes != 3 {
		t.Errorf("%v after %d questions", err, passes)
	}
}
