package reconciler

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/work"
)

// Desired is what one member should hold.
type Desired = member.Desired

// act hands the decision to the fleet. Members whose share did not change keep theirs.
func (r *Reconciler) act(d *decide.Decision) {
	if r.acted && d.Commit == nil && maps.Equal(r.spared, d.Spared) && d.Rules == r.rules {
		return
	}
	r.desired, r.spared = desired(d.Next, d.Spared, d.Rules), d.Spared
	r.Fleet.Set(r.desired)
	r.acted, r.rules = true, d.Rules
}

// desired sorts the state by member, without the deletions that wait. Rules are what objects keep from
// their members by.
func desired(s *record.State, spared map[string]bool, rules *interpret.Interpreter) map[string]Desired {
	all := make(map[string]Desired, len(s.Members))
	for name, c := range s.Members {
		registration, _ := decide.RegistrationOf(c)
		all[name] = Desired{Cluster: c, RecordedUID: c.Spec.ID, ReadOnly: readOnly(c), Registration: registration, Works: map[api.ID]apply.Work{}, Retired: map[api.ID]apply.Retired{}}
	}
	for path, w := range s.Works {
		d, ok := all[w.Member]
		if !ok {
			continue
		}
		if w.Object == nil {
			var err error
			if w, err = record.Identify(s.Works[path]); err != nil || work.IsSecret(w.ID) && !d.ReadOnly {
				continue // nobody knows the values of a Secret that was not rendered since the start
			}
		}
		order := apply.Work{ID: w.ID, Object: w.Object, Hash: decide.HashText(w.Hash), Overwrite: w.Overwrite, Suspended: w.Suspended}
		if rules.Keeps(w.ID) {
			order.Rules = rules
		}
		d.Works[w.ID.Unversioned()] = order
	}
	for path, entry := range s.Retired {
		if d, ok := all[entry.Cluster]; ok && !spared[path] {
			id := entry.Object.ID()
			d.Retired[id.Unversioned()] = apply.Retired{ID: id, Preserve: entry.Preserve, Since: entry.Since.Unix(), Account: entry.ServiceAccount}
		}
	}
	return all
}

// readOnly tells whether others apply the works of a member, while we look.
func readOnly(c *clusterv1alpha1.Cluster) bool {
	return decide.DeliveryOf(c) == decide.DeliveryHydrate
}

// meet finds out which members there are, and lets the fleet look at them, before anything is decided. Each takes at
// most r.Patience: what is not known by then is decided about as what it was last.
func (r *Reconciler) meet(ctx context.Context) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	r.acquaint(ctx)
	r.doing(Deciding)
	d, _, err := r.decide(ctx)
	if err != nil {
		return err
	}
	r.desired = make(map[string]Desired, len(d.Next.Members))
	for name, c := range d.Next.Members {
		r.desired[name] = Desired{Cluster: c, RecordedUID: c.Spec.ID, Paused: true, ReadOnly: readOnly(c)}
	}
	r.Fleet.Set(r.desired)
	r.doing(Waiting)
	deadline := r.Clock.NewTimer(r.Patience)
	defer deadline.Stop()
	for !r.met() {
		select {
		case <-ctx.Done():
			return nil
		case <-deadline.C():
			return nil
		case <-r.Fleet.Changed():
		}
	}
	return nil
}

// acquaint waits until the management cluster has said which members it names.
func (r *Reconciler) acquaint(ctx context.Context) {
	deadline := r.Clock.NewTimer(r.Patience)
	defer deadline.Stop()
	for r.Registry != nil {
		if known := r.Registry.Registrations(); known == nil || known.Off || known.Unknown == "" {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-deadline.C():
			return
		case <-r.registered():
		}
	}
}

// met tells whether every member was looked at. How much room there is belongs to it where it is not on
// record: or else the first decision would hang on which member was measured first.
func (r *Reconciler) met() bool {
	seen := r.Fleet.Observe()
	for name, d := range r.desired {
		facts := seen.Members[name]
		status := &d.Cluster.Status
		// What the manifest of a member says that nobody met is no measure: it would be replaced a moment later.
		recorded := d.RecordedUID != "" && status.ResourceSummary != nil && (status.NodeCapacity != nil || !r.AccurateEstimator)
		measured := facts.Resources != nil || recorded
		if facts.Ready == "" || facts.Ready == metav1.ConditionTrue && !measured {
			return false
		}
	}
	return true
}

// rest waits; false means that ctx ended.
func (r *Reconciler) rest(ctx context.Context, d time.Duration) bool {
	t := r.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// Failure is a member that does not hold what it should, or a webhook that did not say what that is.
type Failure struct {
	// Member is empty where a webhook is missing.
	Member  string
	Object  string
	Message string
}

// Once passes until every member holds what was decided, or timeout is over. Whether workloads are
// healthy by then is in the record, and not waited for. The failures name what is missing at the end; an
// error is that of the pass itself.
func (r *Reconciler) Once(ctx context.Context, timeout time.Duration) ([]Failure, error) {
	if err := r.meet(ctx); err != nil {
		return nil, err
	}
	deadline := r.Clock.NewTimer(timeout)
	defer deadline.Stop()
	interval := r.Options.StatusInterval
	for over := false; ; {
		// The last pass writes down what was seen, whenever that was.
		pending, final := r.pending()
		r.Options.StatusInterval = interval
		if over || final {
			r.Options.StatusInterval = 0
		}
		wake, err := r.Pass(ctx)
		if err != nil {
			return nil, err
		}
		if over {
			return pending, nil
		}
		if _, done := r.pending(); done {
			if final {
				return nil, nil
			}
			continue // nothing is under way that would tell of its end
		}
		retry := r.retry(wake)
		select {
		case <-ctx.Done():
			return pending, ctx.Err()
		case <-deadline.C():
			over = true
		case <-r.Fleet.Changed():
		case <-r.answered():
		case <-r.registered():
		case <-retry.C():
		}
		retry.Stop()
	}
}

// retry rings when a webhook that failed is to be asked again, and never if there is none.
func (r *Reconciler) retry(wake time.Time) clock.Timer {
	wait := time.Duration(math.MaxInt64)
	if len(r.unanswered) > 0 && !wake.IsZero() {
		wait = max(0, wake.Sub(r.Clock.Now()))
	}
	return r.Clock.NewTimer(wait)
}

// pending lists what is not as it should be yet; done means that nothing is.
func (r *Reconciler) pending() (failures []Failure, done bool) {
	if !r.acted {
		return nil, false
	}
	seen := r.Fleet.Observe()
	for _, name := range slices.Sorted(maps.Keys(r.desired)) {
		d := r.desired[name]
		facts := seen.Members[name]
		if facts.Ready != metav1.ConditionTrue {
			failures = append(failures, Failure{name, "", fmt.Sprintf("the member is not ready: %s %s", facts.Reason, facts.Message)})
			continue
		}
		for _, id := range slices.SortedFunc(maps.Keys(d.Works), api.ID.Compare) {
			w, c := d.Works[id], facts.Copies[id]
			switch {
			case w.Suspended:
			case c.Reason != "":
				failures = append(failures, Failure{name, id.String(), c.Reason + ": " + c.Message})
			case c.Applied != w.Hash:
				failures = append(failures, Failure{name, id.String(), "not applied yet"})
			}
		}
		for _, id := range slices.SortedFunc(maps.Keys(d.Retired), api.ID.Compare) {
			if c := facts.Copies[id]; !c.Gone {
				failures = append(failures, Failure{name, id.String(), "not deleted yet " + c.Message})
			}
		}
	}
	for _, u := range r.unanswered {
		failures = append(failures, Failure{"", u.Question.String(), u.Message()})
	}
	return failures, len(failures) == 0
}
