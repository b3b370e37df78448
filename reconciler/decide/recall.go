package decide

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
)

// Recall gives back what was observed when next was decided after prev, as far as decisions depend
// on it: what decisions depend on is on record. Deciding on it again gives next.
func Recall(prev, next *record.State) Observations {
	seen := Observations{Members: map[string]MemberFacts{}}
	for name, c := range next.Members {
		ready := readiness(c)
		if ready.Status == "" || c.DeletionTimestamp != nil {
			continue // nobody looked
		}
		facts := MemberFacts{
			Ready: ready.Status, Reason: ready.Reason, Message: ready.Message, Since: ready.LastTransitionTime.UTC(),
			UID: c.Spec.ID, Version: c.Status.KubernetesVersion, APIs: c.Status.APIEnablements,
			Nodes: c.Status.NodeSummary, Resources: c.Status.ResourceSummary, Copies: map[api.ID]CopyFacts{},
		}
		facts.APIsComplete = slices.ContainsFunc(c.Status.Conditions, isComplete)
		seen.Members[name] = facts
	}
	for _, b := range next.Bindings {
		id := templateOf(b).Unversioned()
		for _, item := range b.Status.AggregatedStatus {
			if facts, ok := seen.Members[item.ClusterName]; ok {
				facts.Copies[id] = recalled(item)
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
	if b := next.Meta.FailoverBrake; b != nil && prev.Meta.FailoverBrake == nil {
		seen.CutOff = b.Message
	}
	return seen
}

// recalled is a copy as it was seen.
func recalled(item workv1alpha2.AggregatedStatusItem) CopyFacts {
	facts := CopyFacts{Health: item.Health, Status: item.Status}
	if item.Applied {
		facts.Applied = AppliedAsDecided
	}
	facts.Reason, facts.Message, _ = strings.Cut(item.AppliedMessage, ": ")
	return facts
}

func isComplete(c metav1.Condition) bool {
	return c.Type == clusterv1alpha1.ConditionCompleteAPIEnablements && c.Status == metav1.ConditionTrue
}
