package failover_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

const now = 100

func evict(t testing.TB, spec string, kind failover.Kind, o failover.Options) workv1alpha2.ResourceBindingSpec {
	t.Helper()
	b := binding(t, "clusters: [{name: m1, replicas: 3}, {name: m2, replicas: 1}], "+spec)
	got, err := failover.Evict(b.Spec, true, failover.Cause{Cluster: "m1", Kind: kind, Text: "so it is"}, nil, at(now), o)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the binding before", b, binding(t, "clusters: [{name: m1, replicas: 3}, {name: m2, replicas: 1}], "+spec))
	return got
}

func TestEvictionMovesTheClusterToATask(t *testing.T) {
	b := binding(t, "clusters: [{name: m1, replicas: 3}, {name: m2}], gracefulEvictionTasks: [{fromCluster: m9, reason: X, producer: Z}], "+
		application(", purgeMode: Gracefully, gracePeriodSeconds: 30"))
	for _, c := range []struct {
		namespaced bool
		cause      failover.Cause
		left       string
		want       workv1alpha2.GracefulEvictionTask
	}{
		{true, failover.Cause{Cluster: "m1", Kind: failover.ApplicationFailure, Text: "sick"}, "m2", workv1alpha2.GracefulEvictionTask{
			FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeGracefully, Replicas: pointer(int32(3)), Reason: "ApplicationFailure", Message: "sick",
			Producer: "resource-binding-application-failover-controller", GracePeriodSeconds: pointer(int32(30)), CreationTimestamp: stamp(now)}},
		{false, failover.Cause{Cluster: "m2", Kind: failover.ApplicationFailure}, "m1", workv1alpha2.GracefulEvictionTask{
			FromCluster: "m2", PurgeMode: policyv1alpha1.PurgeGracefully, Reason: "ApplicationFailure",
			Producer: "cluster-resource-binding-application-failover-controller", GracePeriodSeconds: pointer(int32(30)), CreationTimestamp: stamp(now)}},
		{true, failover.Cause{Cluster: "m1", Kind: failover.ClusterFailure}, "m2", workv1alpha2.GracefulEvictionTask{
			FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeGracefully, Replicas: pointer(int32(3)), Reason: "TaintUntolerated",
			Producer: "TaintManager", CreationTimestamp: stamp(now)}},
		{true, failover.Cause{Cluster: "m1", Kind: failover.TaintEviction}, "m2", workv1alpha2.GracefulEvictionTask{
			FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeGracefully, Replicas: pointer(int32(3)), Reason: "TaintUntolerated",
			Producer: "TaintManager", CreationTimestamp: stamp(now)}},
	} {
		got, err := failover.Evict(b.Spec, c.namespaced, c.cause, nil, at(now), failover.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Clusters) != 1 || got.Clusters[0].Name != c.left {
			t.Errorf("clusters %v, want %s", got.Clusters, c.left)
		}
		same(t, "tasks", got.GracefulEvictionTasks, []workv1alpha2.GracefulEvictionTask{{FromCluster: "m9", Reason: "X", Producer: "Z"}, c.want})
		same(t, "history", got.ActiveEvictionHistory, []workv1alpha2.EvictionRecord{{ClusterName: c.cause.Cluster, CreationTimestamp: *stamp(now), Reason: c.want.Reason}})
	}
}

func TestPurgeModeAndItsTimes(t *testing.T) {
	app := func(mode, more string) string {
		return "application: {decisionConditions: {}, purgeMode: " + mode + ", gracePeriodSeconds: 30" + more + "}"
	}
	for _, c := range []struct{ failover, kind, want string }{
		{app("Gracefully", ""), "ApplicationFailure", "Gracefully 30s"},
		{app("Directly", ""), "ApplicationFailure", "Directly"},
		{app("Never", ""), "ApplicationFailure", "Never suppressed"},
		{"application: {decisionConditions: {}, gracePeriodSeconds: 30}", "ApplicationFailure", "Gracefully 30s"},
		{app("Directly", "") + ", cluster: {purgeMode: Gracefully}", "ApplicationFailure", "Directly"},
		{"application: {decisionConditions: {}}, cluster: {purgeMode: Directly}", "ApplicationFailure", "Gracefully"},
		{app("Directly", ""), "ClusterFailure", "Directly"},
		{app("Never", ""), "ClusterFailure", "Never suppressed"},
		{app("Gracefully", ""), "ClusterFailure", "Gracefully"},
		{app("Directly", "") + ", cluster: {purgeMode: Gracefully}", "ClusterFailure", "Gracefully"},
		{app("Gracefully", "") + ", cluster: {purgeMode: Directly}", "ClusterFailure", "Directly"},
		{app("Directly", "") + ", cluster: {}", "ClusterFailure", "Directly"},
		{app("Directly", ""), "TaintEviction", "Directly"},
		{app("Gracefully", "") + ", cluster: {purgeMode: Directly}", "TaintEviction", "Directly"},
		{"cluster: {}", "ClusterFailure", "Gracefully"},
		{"", "TaintEviction", "Gracefully"},
	} {
		spec := "replicas: 4"
		if c.failover != "" {
			spec = "failover: {" + c.failover + "}"
		}
		task := evict(t, spec, failover.Kind(c.kind), failover.Options{}).GracefulEvictionTasks[0]
		got := string(task.PurgeMode)
		if task.GracePeriodSeconds != nil {
			got += fmt.Sprintf(" %ds", *task.GracePeriodSeconds)
		}
		if task.SuppressDeletion != nil {
			got += map[bool]string{true: " suppressed", false: " confirmed"}[*task.SuppressDeletion]
		}
		if got != c.want {
			t.Errorf("%s with {%s}: task %q, want %q", c.kind, c.failover, got, c.want)
		}
	}
}

func TestWhatIsNotThereOrLeavesAlreadyIsNotEvicted(t *testing.T) {
	b := binding(t, "clusters: [{name: m1}, {name: m2}], gracefulEvictionTasks: [{fromCluster: m2, reason: X, producer: Z}], "+application(""))
	for _, member := range []string{"m2", "m3"} {
		got, err := failover.Evict(b.Spec, true, failover.Cause{Cluster: member, Kind: failover.ApplicationFailure}, nil, at(now), failover.Options{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, member, got, b.Spec)
	}
}

func TestTheRecordOfWhatWasLeft(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		kind       failover.Kind
		compat     bool
		want       string
	}{
		{"a block by default", application(""), failover.ApplicationFailure, false, "m1@100"},
		{"by a member that is down, too", application(""), failover.ClusterFailure, false, "m1@100"},
		{"for ever", application(", blockPredecessorSeconds: 0"), failover.ApplicationFailure, false, "m1@100"},
		{"none without failover.application", "failover: {cluster: {}}", failover.ClusterFailure, false, ""},
		{"none without failover", "replicas: 1", failover.TaintEviction, false, ""},
		{"none by default in Karmada", application(""), failover.ApplicationFailure, true, ""},
		{"one that is asked for beside Karmada's answers", application(", blockPredecessorSeconds: 5"), failover.ApplicationFailure, true, "m1@100"},
		{"a newer one takes the place of an older", application("") + `, activeEvictionHistory: [{clusterName: m1, creationTimestamp: "2026-01-01T11:00:00Z"}, {clusterName: m3, creationTimestamp: "2026-01-01T12:00:01Z"}]`,
			failover.ApplicationFailure, false, "m3@1 m1@100"},
	} {
		var words []string
		for _, r := range evict(t, c.spec, c.kind, failover.Options{Compat: c.compat}).ActiveEvictionHistory {
			words = append(words, r.ClusterName+"@"+second(r.CreationTimestamp.Time))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s: history %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatIsToComeBackIsRemembered(t *testing.T) {
	if got := evict(t, "failover: {cluster: {}}", failover.ClusterFailure, failover.Options{KeepHistory: true}).ActiveEvictionHistory; len(got) != 1 || got[0].ClusterName != "m1" {
		t.Errorf("history %v, want m1", got)
	}
	b := binding(t, application("")+`, activeEvictionHistory: [{clusterName: m1, creationTimestamp: "2026-01-01T12:00:00Z"}]`)
	for _, c := range []struct {
		now         int
		kept, ended int
		wake        string
	}{{599, 1, 0, "600"}, {600, 1, 0, "-"}} {
		kept, ended, wake := failover.Unblock(&b.Spec, at(c.now), failover.Options{KeepHistory: true})
		if len(kept) != c.kept || len(ended) != c.ended || second(wake) != c.wake {
			t.Errorf("Unblock at %d = %v, %v, %s, want %d, %d, %s", c.now, kept, ended, second(wake), c.kept, c.ended, c.wake)
		}
	}
}

func TestTheWayBackLeavesATaskToo(t *testing.T) {
	for _, c := range []struct {
		failover string
		replicas int32
		mode     policyv1alpha1.PurgeMode
	}{
		{"cluster: {}", 3, policyv1alpha1.PurgeGracefully},
		{"cluster: {purgeMode: Directly}", 0, policyv1alpha1.PurgeDirectly},
		{"application: {decisionConditions: {}, purgeMode: Never}", 3, policyv1alpha1.PurgeGracefully},
	} {
		b := binding(t, "clusters: [{name: m1}], gracefulEvictionTasks: [{fromCluster: m9, reason: X, producer: Z}], failover: {"+c.failover+"}")
		want := workv1alpha2.GracefulEvictionTask{FromCluster: "m2", PurgeMode: c.mode, Reason: "FailBack", Producer: "godwit-failback", Message: "m1 is back", CreationTimestamp: stamp(now)}
		if c.replicas > 0 {
			want.Replicas = &c.replicas
		}
		got := failover.Return(b.Spec, workv1alpha2.TargetCluster{Name: "m2", Replicas: c.replicas}, "m1", at(now))
		same(t, c.failover, got.GracefulEvictionTasks, []workv1alpha2.GracefulEvictionTask{{FromCluster: "m9", Reason: "X", Producer: "Z"}, want})
		same(t, "the tasks before", len(b.Spec.GracefulEvictionTasks), 1)
	}
}

func TestStateIsPreserved(t *testing.T) {
	rules := func(paths ...string) string {
		var list []string
		for i, p := range paths {
			list = append(list, fmt.Sprintf("{aliasLabelName: l%d, jsonPath: %q}", i, p))
		}
		return "statePreservation: {rules: [" + strings.Join(list, ", ") + "]}"
	}
	app := func(rules string) string { return "application: {decisionConditions: {}, " + rules + "}" }
	const status = `{"job": {"id": "j-7", "n": 3}, "list": [{"a": "x"}, {"a": "y"}]}`
	for _, c := range []struct {
		name     string
		failover string
		kind     failover.Kind
		status   string // of the copy on m1
		want     map[string]string
		before   []string
		err      string
	}{
		{name: "application", failover: app(rules("{.job.id}", "{.job.n}", "{.list[1].a}")), kind: failover.ApplicationFailure, status: status,
			want: map[string]string{"l0": "j-7", "l1": "3", "l2": "y"}, before: []string{"m1", "m2"}},
		{name: "cluster", failover: "cluster: {" + rules("{.job.id}") + "}", kind: failover.ClusterFailure, status: status, want: map[string]string{"l0": "j-7"}},
		{name: "a person's taint", failover: "cluster: {" + rules("{.job.id}") + "}", kind: failover.TaintEviction, status: status, want: map[string]string{"l0": "j-7"}},
		{name: "the other one's rules do not count", failover: app(rules("{.job.id}")) + ", cluster: {}", kind: failover.ClusterFailure, status: status},
		{name: "nor do they the other way round", failover: app("purgeMode: Directly") + ", cluster: {" + rules("{.job.id}") + "}", kind: failover.ApplicationFailure, status: status},
		{name: "no rules", failover: app("statePreservation: {rules: []}"), kind: failover.ApplicationFailure},
		{name: "no status", failover: app(rules("{.job.id}")), kind: failover.ApplicationFailure, err: "its state on m1 is to be preserved, and no status of it is known"},
		{name: "no such key", failover: app(rules("{.job.id}", "{.job.nothing}")), kind: failover.ApplicationFailure, status: status, err: "its state on m1 is to be preserved as l1: nothing is not found"},
		{name: "no path", failover: app(rules("{.job")), kind: failover.ApplicationFailure, status: status, err: "statePreservation l0: unclosed action"},
		{name: "a path without end", failover: app(rules("{..a..a..a}")), kind: failover.ApplicationFailure, status: status, err: "statePreservation l0: goes through the same things again and again"},
		{name: "all of it", failover: app(rules("{.a}")), kind: failover.ApplicationFailure, status: `{"a": "` + strings.Repeat("x", 5000) + `"}`, err: "its state on m1 is to be preserved as l0: it is more than 4096 bytes"},
		{name: "not JSON", failover: app(rules("{.job.id}")), kind: failover.ApplicationFailure, status: "{", err: "its state on m1 is to be preserved: unexpected end of JSON input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := binding(t, "clusters: [{name: m1}, {name: m2}], failover: {"+c.failover+"}")
			copies := copiesOf("m2 Healthy applied, m1 Unhealthy applied")
			copies[0].Status = &runtime.RawExtension{Raw: []byte(`{"job": {"id": "another's"}}`)}
			if c.status != "" {
				copies[1].Status = &runtime.RawExtension{Raw: []byte(c.status)}
			}
			got, err := failover.Evict(b.Spec, true, failover.Cause{Cluster: "m1", Kind: c.kind}, copies, at(now), failover.Options{})
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %s", err, c.err)
				}
				same(t, "a binding whose state is lost", got, b.Spec)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			task := got.GracefulEvictionTasks[0]
			same(t, "state", task.PreservedLabelState, c.want)
			same(t, "clusters before", task.ClustersBeforeFailover, c.before)
		})
	}
	b := binding(t, "clusters: [{name: m1}], failover: {"+app(rules("{.job.id}"))+"}")
	if _, err := failover.Evict(b.Spec, true, failover.Cause{Cluster: "m1", Kind: failover.ApplicationFailure}, nil, at(now), failover.Options{}); err == nil {
		t.Error("a copy that nobody knows has its state preserved")
	}
}

func TestLabelsForTheCopyThatTakesOver(t *testing.T) {
	task := func(mode, before string) string {
		return "{fromCluster: m1, reason: X, producer: Z, purgeMode: " + mode + ", preservedLabelState: {id: j-7}, clustersBeforeFailover: [" + before + "]}"
	}
	for _, c := range []struct {
		name, spec string
		labelled   bool
	}{
		{"the only one", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Directly", "m1") + "]", true},
		{"the member's failover says no clusters before", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Directly", "") + "]", true},
		{"was there before", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Directly", "m1, m2") + "]", false},
		{"one of two", "clusters: [{name: m2}, {name: m3}], gracefulEvictionTasks: [" + task("Directly", "m1") + "]", false},
		{"gracefully", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Gracefully", "m1") + "]", false},
		{"never", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Never", "m1") + "]", false},
		{"the last task counts", "clusters: [{name: m2}], gracefulEvictionTasks: [" + task("Directly", "m1") + ", {fromCluster: m3, reason: X, producer: Z, purgeMode: Directly}]", false},
		{"the last task counts, turned round", "clusters: [{name: m2}], gracefulEvictionTasks: [{fromCluster: m3, reason: X, producer: Z, purgeMode: Gracefully}, " + task("Directly", "m1") + "]", true},
		{"no task", "clusters: [{name: m2}]", false},
	} {
		got := failover.Injected(&binding(t, c.spec).Spec, "m2")
		if (got["id"] == "j-7") != c.labelled {
			t.Errorf("%s: labels %v", c.name, got)
		}
	}
}
