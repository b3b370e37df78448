package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// Repeat is the input of the decision that made next of prev, with what was observed and what webhooks
// answered then, and with the registrations that were in force, as far as it is on record. The rest is in's: source, time, and options.
func Repeat(in Input, prev, next *record.State) Input {
	in.Previous, in.Recorded, in.Answers, in.Memo = prev, next, nil, nil
	in.Seen = Recall(prev, next, in.Edited)
	in.Registered = &Registrations{Clusters: recordedRegistrations(next)}
	return in
}

// Differ names the files of two states that differ, sorted; state.yaml, which tells when something was
// decided, is not among them.
func Differ(a, b *record.State) ([]string, error) {
	files, err := record.Diff(a, b)
	var paths []string
	for _, f := range files {
		if f.Path != record.MetaPath {
			paths = append(paths, f.Path)
		}
	}
	return paths, err
}

// Recall gives back what was observed when next was decided after prev, as far as decisions depend
// on it: what decisions depend on is on record. Copies that were applied were so as prev had them: what
// next changes of them nobody had applied yet. Bindings that people edited are the exception: what
// they put on the branch was on no member.
func Recall(prev, next *record.State, edited map[record.BindingKey]time.Time) Observations {
	seen := Observations{Members: map[string]MemberFacts{}}
	members := maps.Clone(next.Members)
	had := map[string]bool{}
	for _, w := range prev.Works {
		had[w.Member] = true
	}
	for name, c := range prev.Members {
		if members[name] == nil {
			members[name] = c // it left, as nothing of ours was there any more
		}
	}
	for name, c := range members {
		ready := readiness(c)
		if ready.Status == "" {
			continue // nobody looked
		}
		facts := MemberFacts{
			Ready: ready.Status, Reason: ready.Reason, Message: ready.Message, Since: ready.LastTransitionTime.UTC(),
			UID: c.Spec.ID, Version: c.Status.KubernetesVersion, APIs: c.Status.APIEnablements,
			Nodes: c.Status.NodeSummary, Resources: c.Status.ResourceSummary, NodeCapacity: c.Status.NodeCapacity, Copies: map[api.ID]CopyFacts{},
		}
		if next.Members[name] == nil && had[name] {
			facts.Ready = metav1.ConditionFalse // what it had at the time is given up for one that does not answer alone
		}
		facts.APIsComplete = slices.ContainsFunc(c.Status.Conditions, isComplete)
		seen.Members[name] = facts
	}
	for key, b := range next.Bindings {
		id := templateOf(b)
		_, edited := edited[key]
		for _, item := range b.Status.AggregatedStatus {
			facts, ok := seen.Members[item.ClusterName]
			if !ok {
				continue
			}
			path := record.WorkPath(item.ClusterName, id)
			before, there := prev.Works[path]
			after := next.Works[path]
			version := HashText(before.Hash)
			// While something is being left, applied means the version that was decided then; what was seen of
			// the one before says so by its health, or by being the first that was collected.
			leaving := len(b.Spec.GracefulEvictionTasks) > 0 && !failover.Leaving(&b.Spec, item.ClusterName)
			outdated := leaving && !item.Applied && there && before.Hash != after.Hash &&
				(item.Health != workv1alpha2.ResourceUnknown || item.CreationTimestamp != nil && !collectedOn(prev.Bindings[key], item.ClusterName) || healthOn(prev.Bindings[key], item.ClusterName) != item.Health)
			if !there || edited || leaving && !outdated {
				version = HashText(after.Hash)
			}
			if !item.Applied && !outdated {
				version = ""
			}
			facts.Copies[id.Unversioned()] = recalled(item, version)
		}
	}
	for key, b := range next.Bindings {
		recallLeft(seen, prev, prev.Bindings[key], b)
	}
	// What no binding tells of, such as Namespaces, was delivered where it is said nowhere that it was not.
	for path, w := range prev.Works {
		if facts, ok := seen.Members[w.Member]; ok && DeliveryOf(prev.Members[w.Member]) == DeliveryHydrate {
			if w, err := record.Identify(w); err == nil && next.Bindings[record.BindingOf(w.ID)] == nil {
				facts.Copies[w.ID.Unversioned()] = CopyFacts{Applied: HashText(prev.Works[path].Hash)}
			}
		}
	}
	for path, r := range prev.Retired {
		if _, still := next.Retired[path]; still {
			continue
		}
		if facts, ok := seen.Members[r.Cluster]; ok {
			id := r.Object.ID().Unversioned()
			c := facts.Copies[id]
			c.Gone = true
			facts.Copies[id] = c
		}
	}
	if b := next.Meta.FailoverBrake; b != nil {
		seen.CutOff = b.Message // whatever kept the brake on
	}
	return seen
}

// recallLeft gives back how copies were seen that were left for their health, and of which the record tells nothing more: the
// task says it.
func recallLeft(seen Observations, prev *record.State, before, b *workv1alpha2.ResourceBinding) {
	if before == nil {
		return
	}
	on := func(items []workv1alpha2.AggregatedStatusItem, member string) int {
		return slices.IndexFunc(items, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == member })
	}
	for _, task := range b.Spec.GracefulEvictionTasks {
		facts, ok := seen.Members[task.FromCluster]
		i := on(before.Status.AggregatedStatus, task.FromCluster)
		if !ok || i < 0 || task.Reason != failover.TaskApplicationFailure || failover.Leaving(&before.Spec, task.FromCluster) || on(b.Status.AggregatedStatus, task.FromCluster) >= 0 {
			continue
		}
		item, version := before.Status.AggregatedStatus[i], ""
		health, _, _ := strings.Cut(task.Message, " ")
		item.Health = workv1alpha2.ResourceHealth(health)
		id := templateOf(b)
		if item.Applied {
			version = HashText(prev.Works[record.WorkPath(task.FromCluster, id)].Hash)
		}
		facts.Copies[id.Unversioned()] = recalled(item, version)
	}
}

// recalled is a copy as it was seen, with the version of it that was applied; empty if none was.
func recalled(item workv1alpha2.AggregatedStatusItem, version string) CopyFacts {
	facts := CopyFacts{Applied: version, Health: item.Health, Status: item.Status}
	facts.Reason, facts.Message, _ = strings.Cut(item.AppliedMessage, ": ")
	return facts
}

// healthOn is the health on record of a copy, Unknown where there is none.
func healthOn(b *workv1alpha2.ResourceBinding, member string) workv1alpha2.ResourceHealth {
	if b != nil {
		for _, item := range b.Status.AggregatedStatus {
			if item.ClusterName == member {
				return item.Health
			}
		}
	}
	return workv1alpha2.ResourceUnknown
}

// collectedOn tells whether a status of the copy on a member is known to have been collected.
func collectedOn(b *workv1alpha2.ResourceBinding, member string) bool {
	return b != nil && slices.ContainsFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool {
		return i.ClusterName == member && i.CreationTimestamp != nil
	})
}

func isComplete(c metav1.Condition) bool {
	return c.Type == clusterv1alpha1.ConditionCompleteAPIEnablements && c.Status == metav1.ConditionTrue
}
