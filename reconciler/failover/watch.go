package failover

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Options are settings of the whole fleet. The zero value is usable.
type Options struct {
	// DefaultTolerationSeconds is how long a member that is down is tolerated by a policy that has
	// failover.cluster and no toleration for it; nil means 300, 0 means not at all.
	DefaultTolerationSeconds *int32
	// ResetUnknown: an unknown health stops the timer of an unhealthy copy, as in Karmada.
	ResetUnknown bool
	// Timeout ends tasks without a grace period of their own; 0 means 10 minutes.
	Timeout time.Duration
	// KeepHistory remembers members that were left also when nothing blocks them any more: the workload
	// is to come back.
	KeepHistory bool
	// Compat gives Karmada's answer where there is a switch for it.
	Compat bool
}

const (
	defaultToleration = 300 * time.Second
	defaultTimeout    = 10 * time.Minute
)

// Watched tells whether the health of a binding's copies can make it move.
func Watched(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Failover != nil && spec.Failover.Application != nil
}

// Watch carries the timers of copies on. seen is what the copies of a binding look like now, old what
// the record says of them; the result is what to record. A copy that stale names was not seen now, and
// starts and stops no timer. Per copy:
//
//   - settled: it was healthy there once;
//   - creationTimestamp: when a status was first collected there;
//   - lastHealthTransitionTime: since when it has been counting as unhealthy, nil if it is not.
//
// A copy that is being evicted, and every copy of a binding whose health moves nothing, has none of them.
//
// Differs from Karmada: an unknown health leaves the timer as it is (differences, row 8).
func Watch(spec *workv1alpha2.ResourceBindingSpec, old, seen []workv1alpha2.AggregatedStatusItem, stale map[string]bool, now time.Time, o Options) []workv1alpha2.AggregatedStatusItem {
	watched := make([]workv1alpha2.AggregatedStatusItem, len(seen))
	for i, item := range seen {
		item.Settled, item.CreationTimestamp, item.LastHealthTransitionTime = false, nil, nil
		if Watched(spec) && !Leaving(spec, item.ClusterName) {
			var before workv1alpha2.AggregatedStatusItem
			if j := slices.IndexFunc(old, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == item.ClusterName }); j >= 0 {
				before = old[j]
			}
			item.Settled, item.CreationTimestamp, item.LastHealthTransitionTime = before.Settled, before.CreationTimestamp, before.LastHealthTransitionTime
			if !stale[item.ClusterName] {
				item.Settled = before.Settled || item.Applied && item.Health == workv1alpha2.ResourceHealthy
				if item.CreationTimestamp == nil && collected(item) {
					item.CreationTimestamp = &metav1.Time{Time: now}
				}
				item.LastHealthTransitionTime = sickSince(spec.Failover.Application, before, item, now, o)
			}
		}
		watched[i] = item
	}
	return watched
}

func collected(item workv1alpha2.AggregatedStatusItem) bool {
	return item.Applied || item.Health == workv1alpha2.ResourceHealthy || item.Health == workv1alpha2.ResourceUnhealthy
}

// sickSince is since when a copy counts as unhealthy; nil if it does not.
func sickSince(a *policyv1alpha1.ApplicationFailoverBehavior, before, item workv1alpha2.AggregatedStatusItem, now time.Time, o Options) *metav1.Time {
	if p := a.PreConditions; p != nil && p.HealthyState != "" && !item.Settled {
		return nil
	}
	running := before.LastHealthTransitionTime
	switch {
	case countsAsUnhealthy(a, item.Health):
		if running == nil {
			return &metav1.Time{Time: now}
		}
		return running
	case item.Health == workv1alpha2.ResourceHealthy, o.ResetUnknown, o.Compat:
		return nil
	}
	return running
}

// countsAsUnhealthy: the states that a policy lists, else Unhealthy alone.
func countsAsUnhealthy(a *policyv1alpha1.ApplicationFailoverBehavior, health workv1alpha2.ResourceHealth) bool {
	states := a.DecisionConditions.HealthyState
	if len(states) == 0 {
		return health == workv1alpha2.ResourceUnhealthy
	}
	return slices.Contains(states, string(health))
}

// SameTimers tells whether two lists of copies have the same timers: what differs in nothing else may
// wait to be recorded, a timer may not.
func SameTimers(spec *workv1alpha2.ResourceBindingSpec, a, b []workv1alpha2.AggregatedStatusItem) bool {
	timers := func(items []workv1alpha2.AggregatedStatusItem) map[string]timer {
		m := map[string]timer{}
		for _, item := range items {
			t := timer{sick: unix(item.LastHealthTransitionTime)}
			if Watched(spec) {
				if p := spec.Failover.Application.PreConditions; p != nil {
					t.settled = item.Settled && p.HealthyState != ""
					if p.DelaySeconds != nil {
						t.created = unix(item.CreationTimestamp)
					}
				}
			}
			if len(spec.GracefulEvictionTasks) > 0 && !Leaving(spec, item.ClusterName) {
				t.healthy = item.Applied && item.Health == workv1alpha2.ResourceHealthy
			}
			if t != (timer{}) {
				m[item.ClusterName] = t
			}
		}
		return m
	}
	x, y := timers(a), timers(b)
	if len(x) != len(y) {
		return false
	}
	for name, t := range x {
		if y[name] != t {
			return false
		}
	}
	return true
}

// timer is what decisions depend on of one copy.
type timer struct {
	sick, created    int64
	settled, healthy bool
}

func unix(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// Leaving tells whether the binding has a task to leave the member.
func Leaving(spec *workv1alpha2.ResourceBindingSpec, member string) bool {
	return slices.ContainsFunc(spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool { return t.FromCluster == member })
}
