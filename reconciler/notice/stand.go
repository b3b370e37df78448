package notice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Condition is what holds now and should not. Reason and Member tell it from others.
type Condition struct {
	Reason Reason
	// Member is empty for what is about no single one.
	Member string
	// Since is when it began; zero means not known.
	Since time.Time
	Text  string
}

// Stand gives what holds as decided, sorted: one for each member that is down or has deletions held back, one for the
// brake and for a source that is not followed, and one each for all workloads that cannot leave where they should and for all that no member fits.
func Stand(d *decide.Decision) []Condition {
	var all []Condition
	if b := d.Next.Meta.FailoverBrake; b != nil && !b.Approved {
		all = append(all, Condition{FailoverHeld, "", b.Since.UTC(), b.Message})
	}
	if d.Refused != nil {
		all = append(all, Condition{Reason: SourceRefused, Text: cut(d.Refused.Message, maxWords)})
	}
	if c, ok := together(d.Next, decide.ConditionFailoverBlocked, metav1.ConditionTrue, EvictionBlocked, "cannot fail over"); ok {
		all = append(all, c)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Next.Members)) {
		for _, c := range d.Next.Members[name].Status.Conditions {
			if c.Type == clusterv1alpha1.ConditionReady && c.Status != metav1.ConditionTrue {
				all = append(all, Condition{MemberUnreachable, name, c.LastTransitionTime.UTC(), cut(strings.TrimSpace(c.Reason+" "+c.Message), maxWords)})
			}
		}
	}
	if c, ok := together(d.Next, workv1alpha2.ConditionScheduled, metav1.ConditionFalse, Unschedulable, "run nowhere, or not as asked"); ok {
		all = append(all, c)
	}
	held := map[string]int{}
	for _, h := range d.Held {
		held[h.Cluster]++
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		all = append(all, Condition{Reason: MassDeleteHeld, Member: name, Text: fmt.Sprintf("deletions that wait for an approval: %d", held[name])})
	}
	return all
}

// together is one condition for all bindings that have a condition of their own.
func together(s *record.State, kind string, status metav1.ConditionStatus, reason Reason, words string) (Condition, bool) {
	var since time.Time
	var names []string
	for key, b := range s.Bindings {
		for _, c := range b.Status.Conditions {
			if c.Type != kind || c.Status != status {
				continue
			}
			names = append(names, key.String())
			if at := c.LastTransitionTime.UTC(); since.IsZero() || at.Before(since) {
				since = at
			}
		}
	}
	slices.Sort(names)
	return Condition{Reason: reason, Since: since, Text: fmt.Sprintf("%d %s: %s", len(names), words, list(names, 5))}, len(names) > 0
}
