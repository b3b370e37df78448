package metrics

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// figures are what a pass is summed up to.
type figures struct {
	bindings         map[string]int // by state
	evictions        int
	oldestTimer      time.Duration
	up               map[string]bool // by member
	held             int
	braked           bool
	findings         map[render.Severity]int
	pending          int
	pushes, unpushed int
	fetched          time.Time
}

// Of a binding, the first of these that holds is its state.
var states = []struct {
	name  string
	holds func(b *workv1alpha2.ResourceBinding, waits bool) bool
}{
	{"unschedulable", func(b *workv1alpha2.ResourceBinding, _ bool) bool {
		return has(b, workv1alpha2.ConditionScheduled, metav1.ConditionFalse)
	}},
	{"failover_blocked", func(b *workv1alpha2.ResourceBinding, _ bool) bool {
		return has(b, decide.ConditionFailoverBlocked, metav1.ConditionTrue)
	}},
	{"failover_waiting", func(_ *workv1alpha2.ResourceBinding, waits bool) bool { return waits }},
	{"evicting", func(b *workv1alpha2.ResourceBinding, _ bool) bool { return len(b.Spec.GracefulEvictionTasks) > 0 }},
	{"not_applied", func(b *workv1alpha2.ResourceBinding, _ bool) bool {
		return slices.ContainsFunc(b.Spec.Clusters, func(t workv1alpha2.TargetCluster) bool { i, ok := statusOn(b, t.Name); return !ok || !i.Applied })
	}},
	{"unhealthy", func(b *workv1alpha2.ResourceBinding, _ bool) bool {
		return anyHealth(b, workv1alpha2.ResourceUnhealthy)
	}},
	{"unknown", func(b *workv1alpha2.ResourceBinding, _ bool) bool { return anyHealth(b, workv1alpha2.ResourceUnknown) }},
	{"healthy", func(*workv1alpha2.ResourceBinding, bool) bool { return true }},
}

func has(b *workv1alpha2.ResourceBinding, condition string, status metav1.ConditionStatus) bool {
	return slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Type == condition && c.Status == status })
}

func statusOn(b *workv1alpha2.ResourceBinding, member string) (workv1alpha2.AggregatedStatusItem, bool) {
	i := slices.IndexFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == member })
	if i < 0 {
		return workv1alpha2.AggregatedStatusItem{}, false
	}
	return b.Status.AggregatedStatus[i], true
}

func anyHealth(b *workv1alpha2.ResourceBinding, health workv1alpha2.ResourceHealth) bool {
	return slices.ContainsFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool { return i.Health == health })
}

func stateOf(b *workv1alpha2.ResourceBinding, waits bool) string {
	for _, s := range states {
		if s.holds(b, waits) {
			return s.name
		}
	}
	panic("the last one holds always")
}

var severities = []render.Severity{render.Error, render.Warning, render.Info}

// figuresOf sums up a pass.
func figuresOf(p reconciler.Progress) figures {
	d := p.Decision
	f := figures{
		bindings: map[string]int{}, up: map[string]bool{}, findings: map[render.Severity]int{}, held: len(d.Held),
		pending: len(p.Pending), pushes: p.PushFailures, unpushed: p.Unpushed, fetched: p.Fetched,
	}
	for _, s := range states {
		f.bindings[s.name] = 0
	}
	for _, row := range d.Bindings {
		b := d.Next.Bindings[row.Key]
		if b == nil {
			continue // it is removed
		}
		f.bindings[stateOf(b, row.Waits)]++
		f.evictions += len(b.Spec.GracefulEvictionTasks)
		for _, c := range row.Causes {
			if !c.At.IsZero() {
				f.oldestTimer = max(f.oldestTimer, d.Time.Sub(c.Since))
			}
		}
	}
	for name := range d.Next.Members {
		f.up[name] = p.Seen.Members[name].Ready == metav1.ConditionTrue
	}
	brake := d.Next.Meta.FailoverBrake
	f.braked = brake != nil && !brake.Approved
	for _, s := range severities {
		f.findings[s] = 0
	}
	for _, finding := range d.Findings {
		f.findings[finding.Severity]++
	}
	return f
}
