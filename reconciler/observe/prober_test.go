package observe

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	up      = Result{metav1.ConditionTrue, ReasonReady, "ok"}
	broken  = Result{metav1.ConditionFalse, ReasonNotReady, "500"}
	dead    = Result{metav1.ConditionFalse, ReasonNotReachable, "refused"}
	unknown = Result{metav1.ConditionUnknown, "ClusterStatusUnknown", "silent"}
)

func TestProber(t *testing.T) {
	type step struct {
		at    int // seconds
		probe Result
		want  Result // Ready after it
		since int
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"the first probe is believed", []step{{0, dead, dead, 0}}},
		{"failure takes 30 s", []step{{0, up, up, 0}, {10, dead, up, 0}, {20, dead, up, 0}, {39, dead, up, 0}, {40, dead, dead, 40}}},
		{"so does recovery", []step{{0, dead, dead, 0}, {10, up, dead, 0}, {30, up, dead, 0}, {40, up, up, 40}}},
		{"a good probe in between restarts the time", []step{{0, up, up, 0}, {10, dead, up, 0}, {30, up, up, 0}, {40, dead, up, 0}, {60, dead, up, 0}, {70, dead, dead, 70}}},
		{"a change of reason does not", []step{{0, up, up, 0}, {10, dead, up, 0}, {30, broken, up, 0}, {40, broken, broken, 40}}},
		{"between not True and not True at once", []step{{0, unknown, unknown, 0}, {10, dead, dead, 10}, {20, broken, broken, 10}}},
		{"a change of status restarts the time", []step{{0, up, up, 0}, {10, unknown, up, 0}, {30, dead, up, 0}, {50, dead, up, 0}, {60, dead, dead, 60}}},
		{"a dip changes nothing", []step{{0, up, up, 0}, {10, dead, up, 0}, {20, up, up, 0}, {90, up, up, 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p := Prober{Thresholds: Thresholds{Success: 30 * time.Second, Failure: 30 * time.Second}}
			for _, s := range tt.steps {
				p = p.Step(s.probe, start.Add(time.Duration(s.at)*time.Second))
				want := Condition{s.want, start.Add(time.Duration(s.since) * time.Second)}
				if p.Ready != want {
					t.Errorf("at %d s after %s: Ready = %+v, want %+v", s.at, s.probe.Reason, p.Ready, want)
				}
			}
		})
	}
}
