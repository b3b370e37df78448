package failover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// tolerates is a placement with tolerations.
func tolerates(list ...string) string {
	return "placement: {clusterTolerations: [{" + strings.Join(list, "}, {") + "}]}"
}

const (
	outage60  = "key: cluster.karmada.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60"
	outage    = "key: cluster.karmada.io/unreachable, operator: Exists, effect: NoExecute"
	onCluster = "failover: {cluster: {}}"
)

func TestCauses(t *testing.T) {
	two := pointer(int32(120))
	for _, c := range []struct {
		name    string
		spec    string // besides clusters m1 and m2
		copies  string
		taints  string // of m1
		restart time.Time
		options failover.Options
		want    []string
	}{
		{name: "nothing is wrong", spec: application(""), copies: "m1 Healthy applied settled created=0"},
		{name: "unhealthy", spec: application(""), copies: "m1 Unhealthy sick=10", want: []string{"m1 ApplicationFailure 10->70"}},
		{name: "unhealthy, on both", spec: application(""), copies: "m2 Unhealthy sick=5, m1 Unhealthy sick=10",
			want: []string{"m1 ApplicationFailure 10->70", "m2 ApplicationFailure 5->65"}},
		{name: "unhealthy where it does not run", spec: application(""), copies: "m3 Unhealthy sick=5"},
		{name: "unhealthy without failover.application", spec: onCluster, copies: "m1 Unhealthy sick=5"},
		{name: "300 s by default", spec: "failover: {application: {decisionConditions: {}}}", copies: "m1 Unhealthy sick=10", want: []string{"m1 ApplicationFailure 10->310"}},
		{name: "0 s is the next look", spec: "failover: {application: {decisionConditions: {tolerationSeconds: 0}}}", copies: "m1 Unhealthy sick=10", want: []string{"m1 ApplicationFailure 10->11"}},
		{name: "not counted within the delay", spec: application(", preConditions: {delaySeconds: 100}"), copies: "m1 Unhealthy created=5 sick=10", want: []string{"m1 ApplicationFailure 10->165"}},
		{name: "sick after the delay", spec: application(", preConditions: {delaySeconds: 100}"), copies: "m1 Unhealthy created=5 sick=200", want: []string{"m1 ApplicationFailure 200->260"}},
		{name: "a person put it there since", spec: application(""), copies: "m1 Unhealthy sick=10", restart: at(30), want: []string{"m1 ApplicationFailure 10->90"}},
		{name: "a person put it there before", spec: application(""), copies: "m1 Unhealthy sick=10", restart: at(5), want: []string{"m1 ApplicationFailure 10->70"}},
		{name: "a person put it there within the delay", spec: application(", preConditions: {delaySeconds: 100}"), copies: "m1 Unhealthy created=5 sick=10", restart: at(30), want: []string{"m1 ApplicationFailure 10->165"}},

		{name: "down, nobody asks", spec: "replicas: 1", taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "down, failover.application does not ask", spec: application(""), taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "down, failover.cluster asks: 300 s", spec: onCluster, taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->310"}},
		{name: "down, the fleet's default", spec: onCluster, taints: "unreachable@10", options: failover.Options{DefaultTolerationSeconds: two}, want: []string{"m1 ClusterFailure 10->130"}},
		{name: "down, the fleet's default is none", spec: onCluster, taints: "unreachable@10", options: failover.Options{DefaultTolerationSeconds: pointer(int32(0))}, want: []string{"m1 ClusterFailure 10->10"}},
		{name: "down, a person put it there since", spec: onCluster, taints: "unreachable@10", restart: at(100), want: []string{"m1 ClusterFailure 10->400"}},
		{name: "down, a toleration of the key asks", spec: tolerates(outage60), taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->70"}},
		{name: "down, a toleration of the key, a person put it there since", spec: tolerates(outage60), taints: "unreachable@10", restart: at(40), want: []string{"m1 ClusterFailure 10->100"}},
		{name: "down, a toleration of all keys asks", spec: tolerates("operator: Exists, effect: NoExecute, tolerationSeconds: 30"), taints: "not-ready@10", want: []string{"m1 ClusterFailure 10->40"}},
		{name: "down, a toleration of any effect does not ask", spec: tolerates("key: cluster.karmada.io/unreachable, operator: Exists, tolerationSeconds: 60"), taints: "unreachable@10",
			want: []string{"m1 ClusterFailure 10->-"}},
		{name: "down, but failover.cluster asks, and then it tolerates", spec: tolerates("key: cluster.karmada.io/unreachable, operator: Exists, tolerationSeconds: 60") + ", " + onCluster, taints: "unreachable@10",
			want: []string{"m1 ClusterFailure 10->70"}},
		{name: "down, a toleration of the other key does not ask", spec: tolerates(outage60), taints: "not-ready@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "down, tolerated for ever", spec: tolerates(outage), taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "down, for ever in spite of failover.cluster", spec: tolerates(outage) + ", " + onCluster, taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "the first toleration in the list counts", spec: tolerates(outage, outage60), taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->-"}},
		{name: "the first toleration in the list, turned round", spec: tolerates(outage60, outage), taints: "unreachable@10", want: []string{"m1 ClusterFailure 10->70"}},

		{name: "a person's taint", spec: "replicas: 1", taints: "fail@10", want: []string{"m1 TaintEviction 10->10"}},
		{name: "a person's taint without a time", spec: "replicas: 1", taints: "fail", want: []string{"m1 TaintEviction -->" + second(time.Unix(0, 0))}},
		{name: "a person's taint without a time, tolerated", spec: tolerates("key: fail, operator: Exists, tolerationSeconds: 5"), taints: "fail"},
		{name: "a person put it there since the taint", spec: "replicas: 1", taints: "fail@10", restart: at(50), want: []string{"m1 TaintEviction 10->50"}},
		{name: "a person's taint of another value", spec: tolerates("key: fail, value: a"), taints: "fail=b@10", want: []string{"m1 TaintEviction 10->10"}},
		{name: "a person's taint of that value", spec: tolerates("key: fail, value: b"), taints: "fail=b@10", want: []string{"m1 TaintEviction 10->-"}},
		{name: "tolerated without an effect", spec: tolerates("key: fail, operator: Exists, tolerationSeconds: 20"), taints: "fail@10", want: []string{"m1 TaintEviction 10->30"}},
		{name: "tolerated with another effect", spec: tolerates("key: fail, operator: Exists, effect: NoSchedule"), taints: "fail@10", want: []string{"m1 TaintEviction 10->10"}},
		{name: "Equal without a key tolerates nothing", spec: tolerates("operator: Equal, tolerationSeconds: 20"), taints: "fail@10", want: []string{"m1 TaintEviction 10->10"}},
		{name: "an operator that is not Kubernetes' tolerates nothing", spec: tolerates("key: fail, operator: Gt, value: \"1\", tolerationSeconds: 20"), taints: "fail@10", want: []string{"m1 TaintEviction 10->10"}},
		{name: "no time left", spec: tolerates("key: fail, operator: Exists, tolerationSeconds: -5"), taints: "fail@10", want: []string{"m1 TaintEviction 10->5"}},

		{name: "of several taints the earliest end counts", spec: tolerates("key: a, operator: Exists, tolerationSeconds: 100", "key: b, operator: Exists, tolerationSeconds: 20"), taints: "a@10, b@15",
			want: []string{"m1 TaintEviction 15->35"}},
		{name: "of several taints the earliest end, turned round", spec: tolerates("key: a, operator: Exists, tolerationSeconds: 100", "key: b, operator: Exists, tolerationSeconds: 20"), taints: "b@15, a@10",
			want: []string{"m1 TaintEviction 15->35"}},
		{name: "one tolerated for ever, one for a while", spec: tolerates("key: a, operator: Exists", "key: b, operator: Exists, tolerationSeconds: 20"), taints: "a@10, b@15",
			want: []string{"m1 TaintEviction 15->35"}},
		{name: "one for a while, one tolerated for ever", spec: tolerates("key: a, operator: Exists", "key: b, operator: Exists, tolerationSeconds: 20"), taints: "b@15, a@10",
			want: []string{"m1 TaintEviction 15->35"}},
		{name: "one tolerated, one not", spec: tolerates("key: a, operator: Exists, tolerationSeconds: 1"), taints: "a@10, b@50", want: []string{"m1 TaintEviction 10->11"}},
		{name: "a toleration that one taint uses ends for every taint that it tolerates",
			spec: tolerates("key: a, operator: Exists", "operator: Exists, tolerationSeconds: 20"), taints: "a@10, b@50", want: []string{"m1 TaintEviction 10->30"}},
		{name: "an outage that nobody asks about beside a person's taint", spec: "replicas: 1", taints: "unreachable@10, fail@20", want: []string{"m1 TaintEviction 20->20"}},
		{name: "a person's taint beside an outage that nobody asks about", spec: "replicas: 1", taints: "fail@20, unreachable@10", want: []string{"m1 TaintEviction 20->20"}},
		{name: "an outage that nobody asks about beside a taint tolerated for ever", spec: tolerates("key: fail, operator: Exists"), taints: "unreachable@10, fail@20",
			want: []string{"m1 ClusterFailure 10->-"}},
		{name: "an outage that nobody asks about is not what a toleration of all effects counts for", spec: tolerates("operator: Exists, tolerationSeconds: 20"), taints: "unreachable@10, fail@20",
			want: []string{"m1 TaintEviction 20->40"}},

		{name: "sick and down: by time", spec: application("") + ", " + tolerates(outage60), copies: "m1 Unhealthy sick=30", taints: "unreachable@10",
			want: []string{"m1 ClusterFailure 10->70", "m1 ApplicationFailure 30->90"}},
		{name: "sick and down for ever: that comes last", spec: application("") + ", " + tolerates(outage), copies: "m1 Unhealthy sick=30", taints: "unreachable@10",
			want: []string{"m1 ApplicationFailure 30->90", "m1 ClusterFailure 10->-"}},
		{name: "both at one time", spec: application("") + ", " + tolerates(outage60), copies: "m1 Unhealthy sick=10", taints: "unreachable@10",
			want: []string{"m1 ApplicationFailure 10->70", "m1 ClusterFailure 10->70"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := binding(t, "clusters: [{name: m1}, {name: m2}], "+c.spec)
			facts := failover.Facts{Copies: copiesOf(c.copies), Restart: c.restart, Taints: func(member string) []failover.Taint {
				if member == "m1" {
					return taintsOf(c.taints)
				}
				return nil
			}}
			causes := failover.Causes(&b.Spec, facts, c.options)
			same(t, "causes", causesText(causes), append([]string{}, c.want...))
			for _, cause := range causes {
				if cause.Text == "" || cause.Short == "" || strings.Contains(cause.Short, "2026") {
					t.Errorf("%v says nothing", cause)
				}
			}
		})
	}
}

func TestWhatACauseSays(t *testing.T) {
	for _, c := range []struct{ name, spec, copies, taints, want string }{
		{"sick", application(""), "m1 Unhealthy sick=10", "", "Unhealthy since 2026-01-01T12:00:10Z, tolerated 1m0s until 2026-01-01T12:01:10Z"},
		{"delayed", application(", preConditions: {delaySeconds: 100}"), "m1 Unhealthy created=5 sick=10", "",
			"Unhealthy since 2026-01-01T12:00:10Z, not counted for the first 1m40s, tolerated 1m0s until 2026-01-01T12:02:45Z"},
		{"nobody asks", "replicas: 1", "", "not-ready@10", "the member is not ready since 2026-01-01T12:00:10Z; the policy does not ask to leave members that are down: " +
			"it has neither failover.cluster nor a NoExecute toleration for cluster.karmada.io/not-ready"},
		{"by default", onCluster, "", "unreachable@10", "the member is unreachable since 2026-01-01T12:00:10Z, tolerated 5m0s by default until 2026-01-01T12:05:10Z"},
		{"for ever", tolerates(outage), "", "unreachable@10", "the member is unreachable since 2026-01-01T12:00:10Z, tolerated for ever"},
		{"for a while", tolerates(outage60), "", "unreachable@10", "the member is unreachable since 2026-01-01T12:00:10Z, tolerated 1m0s until 2026-01-01T12:01:10Z"},
		{"a person's", "replicas: 1", "", "fail=x@10", "taint fail=x:NoExecute since 2026-01-01T12:00:10Z, not tolerated"},
		{"a person's without a time", "replicas: 1", "", "fail", "taint fail:NoExecute since always, not tolerated"},
	} {
		b := binding(t, "clusters: [{name: m1}], "+c.spec)
		causes := failover.Causes(&b.Spec, failover.Facts{Copies: copiesOf(c.copies), Taints: func(string) []failover.Taint { return taintsOf(c.taints) }}, failover.Options{})
		if len(causes) != 1 || causes[0].Text != c.want {
			t.Errorf("%s: Causes say %v, want %q", c.name, causes, c.want)
		}
	}
}

func TestACauseIsDueAtItsTimeAndNotBefore(t *testing.T) {
	c := failover.Cause{At: at(10)}
	for second, want := range map[int]bool{9: false, 10: true, 11: true} {
		if got := c.Due(at(second)); got != want {
			t.Errorf("due at %d: %v, want %v", second, got, want)
		}
	}
	if (failover.Cause{}).Due(at(10)) {
		t.Error("what never makes a workload leave is due")
	}
}

// drawn is a random binding on m1 with the facts about it: a law holds for all of them.
func drawn(t *rapid.T) (spec, copies, taints string, restart time.Time, o failover.Options) {
	toleration := func() string {
		key := rapid.SampledFrom([]string{"key: cluster.karmada.io/unreachable, ", "key: fail, ", ""}).Draw(t, "key")
		effect := rapid.SampledFrom([]string{"", ", effect: NoExecute"}).Draw(t, "effect")
		for_ := rapid.SampledFrom([]string{"", ", tolerationSeconds: 0", ", tolerationSeconds: 45", ", tolerationSeconds: 90"}).Draw(t, "for")
		return key + "operator: Exists" + effect + for_
	}
	spec = tolerates(rapid.SliceOfN(rapid.Custom(func(*rapid.T) string { return toleration() }), 1, 3).Draw(t, "tolerations")...)
	app := rapid.SampledFrom([]string{"", "application: {decisionConditions: {tolerationSeconds: 60}}", "application: {decisionConditions: {}, preConditions: {delaySeconds: 30}}"}).Draw(t, "application")
	of := rapid.SampledFrom([]string{"", "cluster: {}"}).Draw(t, "cluster")
	spec += ", failover: {" + strings.Trim(app+", "+of, ", ") + "}"
	copies = rapid.SampledFrom([]string{"m1 Unhealthy applied created=0 sick=10", "m1 Healthy applied created=0", "m1 Unknown created=3 sick=7"}).Draw(t, "copies")
	taints = rapid.SampledFrom([]string{"", "unreachable@20", "fail=x@30", "unreachable@20, fail=y@5"}).Draw(t, "taints")
	if rapid.Bool().Draw(t, "edited") {
		restart = at(rapid.IntRange(0, 50).Draw(t, "restart"))
	}
	if rapid.Bool().Draw(t, "default") {
		o.DefaultTolerationSeconds = pointer(int32(rapid.IntRange(0, 100).Draw(t, "seconds")))
	}
	return spec, copies, taints, restart, o
}

// A deadline comes from what is on record, so one that reads the record finds the same.
func TestADeadlineIsTheSameAfterARestart(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec, copies, taints, restart, o := drawn(r)
		b := binding(t, "clusters: [{name: m1}], "+spec)
		b.Status.AggregatedStatus = failover.Watch(&b.Spec, copiesOf(copies), copiesOf(copies), nil, at(100), o)
		facts := failover.Facts{Copies: b.Status.AggregatedStatus, Restart: restart, Taints: func(string) []failover.Taint { return taintsOf(taints) }}
		want := failover.Causes(&b.Spec, facts, o)
		data, err := record.EncodeBinding(b)
		if err != nil {
			r.Fatal(err)
		}
		again, err := record.DecodeBinding("bindings/default/web-deployment.yaml", data)
		if err != nil {
			r.Fatal(err)
		}
		facts.Copies = again.Status.AggregatedStatus
		if got := failover.Causes(&again.Spec, facts, o); !slices.Equal(got, want) {
			r.Fatalf("causes %v, and after a restart %v", want, got)
		}
		// And watching on, with the same seen, moves no timer.
		later := failover.Watch(&again.Spec, again.Status.AggregatedStatus, copiesOf(copies), nil, at(1000), o)
		if !failover.SameTimers(&again.Spec, later, again.Status.AggregatedStatus) {
			r.Fatalf("timers %s became %s", copiesText(again.Status.AggregatedStatus), copiesText(later))
		}
	})
}

// What makes a workload leave does so no sooner than the shortest toleration that could have applied.
func TestNothingLeavesBeforeItsToleration(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec, copies, taints, restart, o := drawn(r)
		b := binding(t, "clusters: [{name: m1}], "+spec)
		for _, c := range failover.Causes(&b.Spec, failover.Facts{Copies: copiesOf(copies), Restart: restart, Taints: func(string) []failover.Taint { return taintsOf(taints) }}, o) {
			if c.At.IsZero() {
				continue
			}
			from := c.Since
			if restart.After(from) {
				from = restart
			}
			shortest := 300 * time.Second
			switch {
			case c.Kind == failover.ApplicationFailure && b.Spec.Failover.Application.DecisionConditions.TolerationSeconds != nil:
				shortest = time.Minute
			case c.Kind == failover.ClusterFailure && o.DefaultTolerationSeconds != nil:
				shortest = time.Duration(*o.DefaultTolerationSeconds) * time.Second
			}
			if c.Kind != failover.ApplicationFailure {
				tolerated := c.Kind == failover.ClusterFailure // a person's taint that nothing tolerates leaves no time
				for _, x := range b.Spec.Placement.ClusterTolerations {
					tolerated = tolerated || x.Key != clusterv1alpha1.TaintUnreachable
					if x.TolerationSeconds != nil {
						shortest = min(shortest, time.Duration(*x.TolerationSeconds)*time.Second)
					}
				}
				if !tolerated {
					shortest = 0
				}
			}
			if c.At.Sub(from) < shortest {
				r.Fatalf("%s: leaves %s after %s (%s); the shortest toleration is %s", spec, c.Cluster, c.At.Sub(from), c.Text, shortest)
			}
			if c.Due(c.At.Add(-time.Second)) {
				r.Fatalf("due before %s", c.At)
			}
		}
	})
}
