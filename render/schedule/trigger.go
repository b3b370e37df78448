package schedule

import (
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// Trigger is why a decision is made, or is not.
type Trigger string

const (
	// Suspended: spec.suspension.scheduling holds the binding back.
	Suspended Trigger = "Suspended"
	// OtherScheduler: spec.schedulerName is not ours.
	OtherScheduler Trigger = "OtherScheduler"
	// PlacementChanged since the last decision, or there was none.
	PlacementChanged Trigger = "PlacementChanged"
	// ReplicasChanged: the targets do not have the replicas wanted.
	ReplicasChanged Trigger = "ReplicasChanged"
	// Rescheduled: someone asked for it since the last decision.
	Rescheduled Trigger = "Rescheduled"
	// Always: everything but divided workloads is scheduled whenever it is looked at.
	Always Trigger = "Always"
	// ClusterLeaving: a target is being removed from the fleet, or is no longer in it.
	ClusterLeaving Trigger = "ClusterLeaving"
	// Standing: nothing asks for a decision. A divided workload does not move because labels, taints
	// or capacities changed, or a member joined.
	Standing Trigger = "Standing"
)

// Asks reports whether the trigger asks for a decision; otherwise the result stands.
func (t Trigger) Asks() bool {
	return t != Suspended && t != OtherScheduler && t != Standing
}

// defaultScheduler is the name of this scheduler.
const defaultScheduler = "default-scheduler"

// triggers are tried in order; the first that holds names the trigger.
var triggers = []struct {
	trigger Trigger
	holds   func(*run) bool
}{
	{Suspended, func(r *run) bool {
		s := r.spec.Suspension
		return s != nil && s.Scheduling != nil && *s.Scheduling
	}},
	{OtherScheduler, func(r *run) bool { return r.spec.SchedulerName != "" && r.spec.SchedulerName != defaultScheduler }},
	{PlacementChanged, func(r *run) bool {
		return r.fleet.placementChanged(r.spec.Placement, r.Binding.Annotations[AnnotationAppliedPlacement], r.Binding.Status.SchedulerObservedAffinityName)
	}},
	{ReplicasChanged, (*run).replicasChanged},
	{Rescheduled, (*run).rescheduled},
	{Always, (*run).always},
	{ClusterLeaving, (*run).targetLeaving},
	{Standing, func(*run) bool { return true }},
}

func (r *run) trigger() Trigger {
	for _, t := range triggers {
		if t.holds(r) {
			return t.trigger
		}
	}
	panic("the last trigger always holds")
}

func (r *run) replicasChanged() bool {
	scheduling := r.placement.source.ReplicaScheduling
	switch {
	case scheduling == nil:
		return false
	case len(r.spec.Components) > 0 && len(r.spec.Clusters) == 0:
		return true
	}
	var sum int64
	var different bool
	for _, t := range r.spec.Clusters {
		sum += int64(t.Replicas)
		different = different || t.Replicas != r.spec.Replicas
	}
	if scheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated {
		return different
	}
	return sum != int64(r.spec.Replicas)
}

func (r *run) rescheduled() bool {
	asked, last := r.spec.RescheduleTriggeredAt, r.Binding.Status.LastScheduledTime
	return asked != nil && last != nil && asked.After(last.Time)
}

func (r *run) always() bool {
	return !r.workload || r.placement.strategy == duplicated
}

func (r *run) targetLeaving() bool {
	for _, t := range r.spec.Clusters {
		if i, found := r.fleet.index[t.Name]; !found || r.fleet.members[i].leaving {
			return true
		}
	}
	return false
}
