package failover_test

import (
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/failover"
)

func TestTimersRunOnWhatIsSeen(t *testing.T) {
	const now = 100
	reset, compat := failover.Options{ResetUnknown: true}, failover.Options{Compat: true}
	for _, c := range []struct {
		name      string
		spec      string
		old, seen string
		stale     string
		options   failover.Options
		want      string
	}{
		{name: "healthy settles and starts nothing", seen: "m1 Healthy applied", want: "m1 Healthy applied settled created=100"},
		{name: "healthy in a version that is not the decided one settles nothing", seen: "m1 Healthy", want: "m1 Healthy created=100"},
		{name: "unhealthy starts the timer", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied created=100 sick=100"},
		{name: "unhealthy goes on", old: "m1 Unhealthy applied created=5 sick=40", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied created=5 sick=40"},
		{name: "healthy stops it", old: "m1 Unhealthy applied created=5 sick=40", seen: "m1 Healthy applied", want: "m1 Healthy applied settled created=5"},
		{name: "unknown keeps it", old: "m1 Unhealthy applied created=5 sick=40", seen: "m1 Unknown applied", want: "m1 Unknown applied created=5 sick=40"},
		{name: "unknown starts none", old: "m1 Healthy applied created=5", seen: "m1 Unknown applied", want: "m1 Unknown applied created=5"},
		{name: "unknown stops it where told so", old: "m1 Unhealthy created=5 sick=40", seen: "m1 Unknown", options: reset, want: "m1 Unknown created=5"},
		{name: "unknown stops it as in Karmada", old: "m1 Unhealthy created=5 sick=40", seen: "m1 Unknown", options: compat, want: "m1 Unknown created=5"},
		{name: "unhealthy goes on where unknown stops it", old: "m1 Unhealthy created=5 sick=40", seen: "m1 Unhealthy", options: compat, want: "m1 Unhealthy created=5 sick=40"},
		{name: "nothing collected yet", seen: "m1 Unknown", want: "m1 Unknown"},
		{name: "settled stays", old: "m1 Healthy applied settled created=5", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied settled created=5 sick=100"},
		{name: "stale: no timer starts", old: "m1 Unhealthy created=5", seen: "m1 Unhealthy", stale: "m1", want: "m1 Unhealthy created=5"},
		{name: "stale: no timer stops", old: "m1 Unhealthy created=5 sick=40", seen: "m1 Healthy applied", stale: "m1", want: "m1 Healthy applied created=5 sick=40"},
		{name: "stale: nothing settles and nothing is collected", seen: "m1 Healthy applied", stale: "m1", want: "m1 Healthy applied"},
		{name: "another copy is stale", seen: "m1 Unhealthy applied, m2 Unhealthy applied", stale: "m2",
			want: "m1 Unhealthy applied created=100 sick=100, m2 Unhealthy applied"},
		{name: "each copy has its own", old: "m2 Unhealthy created=1 sick=2, m1 Unhealthy created=3 sick=4", seen: "m1 Unhealthy, m2 Healthy applied",
			want: "m1 Unhealthy created=3 sick=4, m2 Healthy applied settled created=1"},
		{name: "what the seen ones say of timers does not count", seen: "m1 Healthy applied created=1 sick=2", want: "m1 Healthy applied settled created=100"},

		{name: "states that count: Unknown among them", spec: application(", decisionConditions: {healthyState: [Unhealthy, Unknown]}"),
			seen: "m1 Unknown applied, m2 Unhealthy applied", want: "m1 Unknown applied created=100 sick=100, m2 Unhealthy applied created=100 sick=100"},
		{name: "states that count: Unknown alone", spec: application(", decisionConditions: {healthyState: [Unknown]}"),
			old: "m1 Unknown created=5 sick=40", seen: "m1 Unhealthy applied, m2 Unhealthy applied", want: "m1 Unhealthy applied created=5 sick=40, m2 Unhealthy applied created=100"},
		{name: "states that count and a reset: a listed Unknown counts", spec: application(", decisionConditions: {healthyState: [Unhealthy, Unknown]}"),
			options: reset, old: "m1 Unhealthy created=5 sick=40", seen: "m1 Unknown", want: "m1 Unknown created=5 sick=40"},

		{name: "healthyState: never healthy, never counted", spec: application(", preConditions: {healthyState: Healthy}"),
			old: "m1 Unhealthy created=5 sick=40", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied created=5"},
		{name: "healthyState: healthy once", spec: application(", preConditions: {healthyState: Healthy}"),
			old: "m1 Healthy settled created=5", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied settled created=5 sick=100"},
		{name: "preConditions without healthyState ask for no health", spec: application(", preConditions: {delaySeconds: 5}"),
			seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied created=100 sick=100"},

		{name: "a copy that is being evicted has no timers", spec: application("") + ", gracefulEvictionTasks: [{fromCluster: m1, reason: X, producer: Z}]",
			old: "m1 Unhealthy settled created=5 sick=40", seen: "m1 Unhealthy applied, m2 Unhealthy applied", want: "m1 Unhealthy applied, m2 Unhealthy applied created=100 sick=100"},
		{name: "nor has one whose health moves nothing", spec: "failover: {cluster: {}}", old: "m1 Unhealthy settled created=5 sick=40", seen: "m1 Unhealthy applied", want: "m1 Unhealthy applied"},
		{name: "nor has one without failover", spec: "replicas: 1", old: "m1 Unhealthy settled created=5 sick=40", seen: "m1 Healthy applied", want: "m1 Healthy applied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec == "" {
				c.spec = application("")
			}
			c.spec = strings.Replace(c.spec, "decisionConditions: {tolerationSeconds: 60}, decisionConditions: ", "decisionConditions: ", 1)
			old, seen := copiesOf(c.old), copiesOf(c.seen)
			got := failover.Watch(&binding(t, c.spec).Spec, old, seen, map[string]bool{c.stale: true}, at(now), c.options)
			same(t, "copies", copiesText(got), c.want)
			same(t, "what was seen", copiesText(seen), c.seen)
			same(t, "what was on record", copiesText(old), c.old)
		})
	}
}

func TestTimersThatDifferCannotWait(t *testing.T) {
	const leaving = ", gracefulEvictionTasks: [{fromCluster: m9, reason: X, producer: Z}]"
	for _, c := range []struct {
		name, spec, a, b string
		want             bool
	}{
		{"another health", application(""), "m1 Healthy", "m1 Unknown", true},
		{"a copy more, without timers", application(""), "m1 Healthy", "m1 Healthy, m2 Healthy", true},
		{"a timer starts", application(""), "m1 Unhealthy", "m1 Unhealthy sick=5", false},
		{"a timer starts anew", application(""), "m1 Unhealthy sick=4", "m1 Unhealthy sick=5", false},
		{"a timer goes with its copy", application(""), "m1 Unhealthy sick=4", "", false},
		{"a timer goes over to another copy", application(""), "m1 Unhealthy sick=4", "m2 Unhealthy sick=4", false},
		{"settled where nothing asks for it", application(""), "m1 Healthy", "m1 Healthy settled", true},
		{"settled where healthyState asks for it", application(", preConditions: {healthyState: Healthy}"), "m1 Healthy", "m1 Healthy settled", false},
		{"settled where only a delay is asked for", application(", preConditions: {delaySeconds: 5}"), "m1 Healthy", "m1 Healthy settled", true},
		{"collected where nothing asks for it", application(""), "m1 Healthy", "m1 Healthy created=5", true},
		{"collected where a delay asks for it", application(", preConditions: {delaySeconds: 5}"), "m1 Healthy", "m1 Healthy created=5", false},
		{"collected where only a health is asked for", application(", preConditions: {healthyState: Healthy}"), "m1 Healthy", "m1 Healthy created=5", true},
		{"a target becomes healthy that a task waits for", application("") + leaving, "m1 Unhealthy applied", "m1 Healthy applied", false},
		{"so it does without failover.application", "replicas: 1" + leaving, "m1 Unhealthy applied", "m1 Healthy applied", false},
		{"healthy in the decided version that a task waits for", application("") + leaving, "m1 Healthy", "m1 Healthy applied", false},
		{"healthy and nothing waits", application(""), "m1 Unhealthy applied", "m1 Healthy applied", true},
		{"the old copy becomes healthy", application("") + leaving, "m9 Unhealthy applied", "m9 Healthy applied", true},
	} {
		spec := &binding(t, c.spec).Spec
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := failover.SameTimers(spec, copiesOf(pair[0]), copiesOf(pair[1])); got != c.want {
				t.Errorf("%s: SameTimers(%q, %q) = %v, want %v", c.name, pair[0], pair[1], got, c.want)
			}
		}
	}
}
