package failover

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Ended is a task that is over.
type Ended struct {
	Task workv1alpha2.GracefulEvictionTask
	// Why in a few words.
	Why string
}

// Finish sorts out the tasks that are over. scheduled tells whether the binding's last scheduling went
// well; copies say by applied and health whether its clusters run it as decided, which counts after
// since, when something was decided last: until then nothing has had time to become healthy. wake is
// when the next grace period ends; zero if none runs.
//
// Differs from Karmada: with no cluster scheduled no task ends but on a person's word, and a copy
// counts as healthy only at the version that was decided (differences, row 9).
func Finish(spec *workv1alpha2.ResourceBindingSpec, copies []workv1alpha2.AggregatedStatusItem, scheduled bool, since, now time.Time, o Options) (kept []workv1alpha2.GracefulEvictionTask, ended []Ended, wake time.Time) {
	placed := scheduled && len(spec.Clusters) > 0
	healthy := placed && allHealthy(spec, copies)
	for _, task := range spec.GracefulEvictionTasks {
		if task.CreationTimestamp == nil {
			task.CreationTimestamp = &metav1.Time{Time: now}
		}
		over := GraceEnd(task, o)
		switch suppressed := task.SuppressDeletion; {
		case suppressed != nil && !*suppressed:
			ended = append(ended, Ended{task, "its deletion was confirmed"})
			continue
		case suppressed != nil:
		case healthy && now.After(since):
			ended = append(ended, Ended{task, "the workload is healthy on " + clusterNames(spec)})
			continue
		case !now.Before(over) && (placed || o.Compat):
			ended = append(ended, Ended{task, fmt.Sprintf("its grace period ended %s", clock(over))})
			continue
		case placed || o.Compat:
			next := over
			if healthy {
				next = since.Add(time.Second)
			}
			if wake.IsZero() || next.Before(wake) {
				wake = next
			}
		}
		kept = append(kept, task)
	}
	return kept, ended, wake
}

// GraceEnd is when a task is over at the latest, as far as time alone ends it.
func GraceEnd(task workv1alpha2.GracefulEvictionTask, o Options) time.Time {
	timeout := defaultTimeout
	switch {
	case task.GracePeriodSeconds != nil:
		timeout = seconds(*task.GracePeriodSeconds)
	case o.Timeout > 0:
		timeout = o.Timeout
	}
	if task.CreationTimestamp == nil {
		return time.Time{}
	}
	return task.CreationTimestamp.Add(timeout).UTC()
}

// allHealthy: every cluster runs what was decided, and healthily.
func allHealthy(spec *workv1alpha2.ResourceBindingSpec, copies []workv1alpha2.AggregatedStatusItem) bool {
	for _, target := range spec.Clusters {
		if !slices.ContainsFunc(copies, func(i workv1alpha2.AggregatedStatusItem) bool {
			return i.ClusterName == target.Name && i.Applied && i.Health == workv1alpha2.ResourceHealthy
		}) {
			return false
		}
	}
	return true
}

func clusterNames(spec *workv1alpha2.ResourceBindingSpec) string {
	const most = 3
	text := ""
	for i, t := range spec.Clusters {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(spec.Clusters)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += t.Name
	}
	return text
}

// Unblock drops the records of members whose block has ended, unless they are kept. wake is when the
// next one ends; zero if none does.
func Unblock(spec *workv1alpha2.ResourceBindingSpec, now time.Time, o Options) (kept, ended []workv1alpha2.EvictionRecord, wake time.Time) {
	for _, r := range spec.ActiveEvictionHistory {
		end, blocks := schedule.BlockEnd(spec, r.CreationTimestamp.Time, o.Compat)
		switch over := !blocks || !end.IsZero() && !now.Before(end); {
		case over && !o.KeepHistory:
			ended = append(ended, r)
			continue
		case over:
			kept = append(kept, r)
			continue
		}
		if !end.IsZero() && (wake.IsZero() || end.Before(wake)) {
			wake = end
		}
		kept = append(kept, r)
	}
	return kept, ended, wake
}
