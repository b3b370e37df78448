package metrics

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/render"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func key(name string) record.BindingKey { return record.BindingKey{Namespace: "default", Name: name} }

// binding runs on m1, healthy, unless it is changed.
func binding(change func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1"}}
	b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.ConditionScheduled, Status: metav1.ConditionTrue}}
	b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "m1", Applied: true, Health: workv1alpha2.ResourceHealthy}}
	if change != nil {
		change(b)
	}
	return b
}

func TestStateOfABinding(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) {
			b.Status.Conditions = []metav1.Condition{{Type: kind, Status: status}}
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{}} // which weighs less
		}
	}
	for _, test := range []struct {
		want   string
		waits  bool
		change func(*workv1alpha2.ResourceBinding)
	}{
		{"healthy", false, nil},
		{"unschedulable", true, condition(workv1alpha2.ConditionScheduled, metav1.ConditionFalse)},
		{"failover_blocked", true, condition(decide.ConditionFailoverBlocked, metav1.ConditionTrue)},
		{"failover_waiting", true, condition(decide.ConditionFailoverBlocked, metav1.ConditionFalse)},
		{"evicting", false, condition(workv1alpha2.ConditionScheduled, metav1.ConditionTrue)},
		{"not_applied", false, func(b *workv1alpha2.ResourceBinding) { b.Status.AggregatedStatus[0].Applied = false }},
		{"not_applied", false, func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters[0].Name = "m2" }},
		{"unhealthy", false, func(b *workv1alpha2.ResourceBinding) {
			b.Status.AggregatedStatus[0].Health = workv1alpha2.ResourceUnhealthy
		}},
		{"unknown", false, func(b *workv1alpha2.ResourceBinding) {
			b.Status.AggregatedStatus[0].Health = workv1alpha2.ResourceUnknown
		}},
	} {
		if got := stateOf(binding(test.change), test.waits); got != test.want {
			t.Errorf("stateOf = %s, want %s", got, test.want)
		}
	}
}

// progress is a pass in which much is the matter.
func progress() reconciler.Progress {
	d := &decide.Decision{Time: now, Next: record.New()}
	d.Next.Members["m1"], d.Next.Members["m2"] = &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
	d.Next.Meta.FailoverBrake = &record.Brake{}
	task := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{}, {}}
	}
	d.Next.Bindings[key("a")], d.Next.Bindings[key("b")], d.Next.Bindings[key("c")] = binding(nil), binding(task), binding(task)
	d.Bindings = []decide.BindingRow{
		{Key: key("a"), Causes: []failover.Cause{{Since: now.Add(-time.Hour)}, {Since: now.Add(-30 * time.Second), At: now.Add(time.Minute)}}},
		{Key: key("b"), Causes: []failover.Cause{{Since: now.Add(-90 * time.Second), At: now.Add(-time.Second)}}},
		{Key: key("c")}, {Key: key("removed")},
	}
	d.Held = make([]decide.HeldDeletion, 3)
	d.Findings = []render.Finding{{Severity: render.Error}, {Severity: render.Warning}, {Severity: render.Warning}}
	d.Commit = &decide.Commit{Events: []decide.Event{{Verb: "failover", Reason: decide.ClusterFailure}, {Verb: "failover", Reason: decide.ClusterFailure}, {Verb: "schedule", Reason: decide.PolicyChange}}}
	return reconciler.Progress{
		Decision: d, Pending: make([]reconciler.Failure, 4), Took: 30 * time.Millisecond, PushFailures: 5, Unpushed: 2, Fetched: now,
		Seen: decide.Observations{Members: map[string]decide.MemberFacts{"m1": {Ready: metav1.ConditionTrue}, "m2": {Ready: metav1.ConditionUnknown}, "gone": {}}},
	}
}

func TestFiguresOfAPass(t *testing.T) {
	want := figures{
		bindings:  map[string]int{"unschedulable": 0, "failover_blocked": 0, "failover_waiting": 0, "evicting": 2, "not_applied": 0, "unhealthy": 0, "unknown": 0, "healthy": 1},
		evictions: 4, oldestTimer: 90 * time.Second, up: map[string]bool{"m1": true, "m2": false}, held: 3, braked: true,
		findings: map[render.Severity]int{render.Error: 1, render.Warning: 2, render.Info: 0}, pending: 4, pushes: 5, unpushed: 2, fetched: now,
	}
	p := progress()
	if diff := cmp.Diff(want, figuresOf(p), cmp.AllowUnexported(figures{})); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	p.Decision.Next.Meta.FailoverBrake.Approved = true
	if figuresOf(p).braked {
		t.Error("the brake holds, and was approved")
	}
}

// scrape reads /metrics as Prometheus does: each series by name and labels.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || answer.Code != 200 {
		t.Fatalf("status %d: %v\n%s", answer.Code, err, text)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("lint: %s: %s", p.Metric, p.Text)
	}
	series := map[string]float64{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, l := range metric.GetLabel() {
				if l.GetName() == "revision" || l.GetName() == "commit" {
					if name != "godwit_build_info" {
						t.Errorf("%s has a label %s", name, l.GetName())
					}
					continue
				}
				labels += fmt.Sprintf("{%s=%s}", l.GetName(), l.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			if h := metric.GetHistogram(); h != nil {
				value = float64(h.GetSampleCount())
			}
			series[name+labels] = value
		}
	}
	return series
}

func check(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if found, ok := got[name]; !ok || found != value {
			t.Errorf("%s = %v (there: %t), want %v", name, found, ok, value)
		}
	}
}

func TestAScrape(t *testing.T) {
	stats := map[string]member.Stats{"m1": {LastSuccess: now, Queue: 7, CredentialsEnd: now}, "m2": {}}
	m := New(Options{Version: "v9", Stats: func() map[string]member.Stats { return stats }, Packs: func() (int, error) { return 3, nil }})
	check(t, scrape(t, m), map[string]float64{ // before the first pass
		"godwit_state_packs": 3, "godwit_pass_duration_seconds": 0, "godwit_pass_errors_total": 0,
		"godwit_decisions_total{reason=ClusterFailure}": 0, "godwit_apply_total{result=created}": 0, "godwit_apply_total{result=failed}": 0,
	})
	m.Report(progress())
	m.Failed(errors.New("x"))
	m.Tried(apply.Created, "")
	m.Tried(apply.Skipped, decide.ReasonConflict)
	m.Hook("github", "accepted")
	m.Notified("slack", "sent")
	m.Reloaded(true)
	m.Reloaded(false)
	got := scrape(t, m)
	check(t, got, map[string]float64{
		"godwit_pass_duration_seconds": 1, "godwit_pass_errors_total": 1,
		"godwit_decisions_total{reason=ClusterFailure}": 2, "godwit_decisions_total{reason=PolicyChange}": 1,
		"godwit_bindings{state=evicting}": 2, "godwit_bindings{state=healthy}": 1, "godwit_bindings{state=unschedulable}": 0,
		"godwit_evictions_pending": 4, "godwit_failover_oldest_timer_seconds": 90, "godwit_failover_held": 1, "godwit_deletions_held": 3,
		"godwit_findings{severity=warning}": 2, "godwit_pending": 4,
		"godwit_member_up{member=m1}": 1, "godwit_member_up{member=m2}": 0,
		"godwit_member_last_success_timestamp_seconds{member=m1}": 1767323045, "godwit_member_credentials_end_timestamp_seconds{member=m1}": 1767323045, "godwit_apply_queue_depth{member=m1}": 7, "godwit_apply_queue_depth{member=m2}": 0,
		"godwit_apply_total{result=created}": 1, "godwit_apply_total{result=failed}": 1, "godwit_apply_total{result=skipped}": 0,
		"godwit_git_push_retries_total": 5, "godwit_git_unpushed_commits": 2, "godwit_state_packs": 3,
		"godwit_source_last_good_timestamp_seconds":            1767323045,
		"godwit_hooks_total{provider=github}{result=accepted}": 1, "godwit_notifications_total{result=sent}{type=slack}": 1,
		"godwit_config_last_reload_successful": 0, "godwit_config_reloads_total{result=accepted}": 1, "godwit_config_reloads_total{result=refused}": 1,
	})
	for _, name := range []string{"godwit_member_last_success_timestamp_seconds{member=m2}", "godwit_member_credentials_end_timestamp_seconds{member=m2}", "godwit_member_up{member=gone}"} {
		if _, ok := got[name]; ok {
			t.Errorf("there is %s", name)
		}
	}
	for _, prefix := range []string{"go_goroutines", "process_cpu_seconds_total", "godwit_build_info{goversion=go"} {
		found := false
		for name := range got {
			found = found || strings.HasPrefix(name, prefix)
		}
		if !found {
			t.Errorf("there is no %s", prefix)
		}
	}
	// The alerts that are shipped ask for what there is.
	rules, err := os.ReadFile("../../examples/install/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`godwit_[a-z_]+`).FindAllString(string(rules), -1)
	if len(names) < 12 {
		t.Errorf("the alerts ask for %q alone", names)
	}
	for _, name := range names {
		name = strings.TrimSuffix(name, "_count") // of a histogram
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(series string) bool { return series == name || strings.HasPrefix(series, name+"{") }) {
			t.Errorf("the alerts ask for %s", name)
		}
	}
	// What is left by a pass that only wrote status, and by a member that left.
	p := progress()
	p.Decision.Commit = &decide.Commit{StatusAlone: true, Events: []decide.Event{{Verb: "status", Reason: decide.Status}}}
	delete(p.Decision.Next.Members, "m1")
	delete(stats, "m1")
	m.Report(p)
	got = scrape(t, m)
	for name := range got {
		if strings.Contains(name, "member=m1") || strings.Contains(name, "reason=Status") {
			t.Errorf("there is %s", name)
		}
	}
}

func TestRequestsOfClientsAreCounted(t *testing.T) {
	server := membertest.Start(t, "m1")
	m, other := New(Options{}), New(Options{}) // the second one has them as well
	client, err := discovery.NewDiscoveryClientForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL(), "https://")
	for _, m := range []*Metrics{m, other} {
		got := scrape(t, m)
		if got["rest_client_requests_total{code=200}{host="+host+"}{method=GET}"] == 0 || got["rest_client_request_duration_seconds{verb=GET}"] == 0 {
			t.Errorf("no requests are counted: %v", got)
		}
	}
}
