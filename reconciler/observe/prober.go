package observe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the Ready condition, in Karmada's words.
const (
	ReasonReady            = "ClusterReady"
	ReasonNotReady         = "ClusterNotReady"
	ReasonNotReachable     = "ClusterNotReachable"
	ReasonCollectionFailed = "StatusCollectionFailed"
)

// Result is what one probe said.
type Result struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Healthy tells whether the member may be written to.
func (r Result) Healthy() bool { return r.Status == metav1.ConditionTrue }

// Condition is the Ready condition of a member.
type Condition struct {
	Result
	// Since is when Status took its value.
	Since time.Time
}

// Thresholds are how long a new state has to last before it is believed.
type Thresholds struct {
	// Success towards True, Failure away from it. Zero believes the first probe.
	Success, Failure time.Duration
}

// Prober keeps the Ready condition of a member over its probes. It is a value: Step gives the next one.
//
//	         first probe: as it is
//	                │
//	 not True for Failure │ ▲ True for Success, without a break
//	                ▼     │
//	True ──────────────▶ not True (False, Unknown: at once between the two)
//
// A probe that says what the one before did not restarts the time.
type Prober struct {
	Thresholds
	// Ready is the condition after the last step; the zero value means that there was none.
	Ready Condition

	seen  metav1.ConditionStatus
	since time.Time // seen without a break
}

// With is the same after the same probes, with other thresholds from now on.
func (p Prober) With(t Thresholds) Prober {
	p.Thresholds = t
	return p
}

// Step takes the next probe into account.
func (p Prober) Step(r Result, now time.Time) Prober {
	if r.Status != p.seen {
		p.seen, p.since = r.Status, now
	}
	threshold := p.Failure
	if r.Healthy() {
		threshold = p.Success
	}
	crosses := r.Healthy() != p.Ready.Healthy()
	switch {
	case p.Ready.Status == "":
	case crosses && now.Sub(p.since) < threshold:
		return p
	}
	since := p.Ready.Since
	if p.Ready.Status != r.Status {
		since = now
	}
	p.Ready = Condition{Result: r, Since: since}
	return p
}
