package simulate

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// checker verifies the invariants. It keeps its own books: what it compares with must not come from
// the code that it checks.
type checker struct {
	*runner
	// left is when a workload was made to leave a member, placed since when it is there, and sick since
	// when it has been unhealthy there without a healthy moment in between.
	left, placed, sick map[place]time.Time
	// healthy are the copies that are, before the step, and down since when members are.
	healthy map[place]bool
	down    map[string]time.Time
	// watched is since when a binding's policy has watched its health in the way it does now.
	watched map[record.BindingKey]time.Time
}

// place is a workload on a member.
type place struct {
	key    record.BindingKey
	member string
}

func newChecker(r *runner) *checker {
	return &checker{runner: r, left: map[place]time.Time{}, placed: map[place]time.Time{}, sick: map[place]time.Time{}, healthy: map[place]bool{}, down: map[string]time.Time{}, watched: map[record.BindingKey]time.Time{}}
}

func (c *checker) broken(invariant int, format string, args ...any) error {
	return &Violation{invariant, c.at(), fmt.Sprintf(format, args...)}
}

// reverted forgets what a person overruled.
func (c *checker) reverted(edited map[record.BindingKey]time.Time) {
	for key := range edited {
		for _, books := range []map[place]time.Time{c.left, c.placed, c.sick} {
			for p := range books {
				if p.key == key {
					delete(books, p)
				}
			}
		}
	}
}

// decided checks a decision before it is carried out.
func (c *checker) decided(in decide.Input, d *decide.Decision) error {
	c.observe(in)
	if err := c.sameAfterRestart(in, d); err != nil {
		return err
	}
	for key, next := range d.Next.Bindings {
		old := c.state.Bindings[key]
		if err := c.adds(key, next); err != nil {
			return err
		}
		if err := c.blocks(key, old, next); err != nil {
			return err
		}
		if err := c.leaves(in, d, key, old, next); err != nil {
			return err
		}
	}
	return nil
}

// observe notes what is really the case now.
func (c *checker) observe(in decide.Input) {
	c.healthy = map[place]bool{}
	for name, m := range c.fleet.members {
		if m.ready == metav1.ConditionTrue {
			delete(c.down, name)
		} else if _, known := c.down[name]; !known {
			c.down[name] = c.now
		}
	}
	for p, left := range c.left {
		// A block that has ended is over, whatever the policy says later.
		if b := c.state.Bindings[p.key]; b == nil || !blocks(b, c.now.Sub(left)) {
			delete(c.left, p)
		}
	}
	for key, b := range c.state.Bindings {
		id := identity(b)
		for name, m := range c.fleet.members {
			p := place{key, name}
			r := m.copies[id]
			if r == nil {
				delete(c.sick, p)
				continue
			}
			switch health, _ := m.healthOf(id, r, c.now); {
			case m.ready != metav1.ConditionTrue: // nobody sees it
			case health == workv1alpha2.ResourceHealthy:
				c.healthy[p] = true
				delete(c.sick, p)
			case health == workv1alpha2.ResourceUnhealthy:
				if _, known := c.sick[p]; !known {
					c.sick[p] = c.now
				}
			}
		}
	}
}

// sameAfterRestart is invariants 4 and 6: the branch holds all that the decision came from, and holds
// the decision whole.
func (c *checker) sameAfterRestart(in decide.Input, d *decide.Decision) error {
	state, err := c.readBack()
	if err != nil {
		return err
	}
	fresh := in
	fresh.Previous, fresh.Memo = state, nil
	again, err := c.decide(fresh)
	if err != nil {
		return err
	}
	if diff := difference(d, again); diff != "" {
		return c.broken(4, "a process that just started decides otherwise: %s", diff)
	}
	fixed := in
	fixed.Previous, fixed.Memo, fixed.Dropped, fixed.Edited = d.Next, nil, nil, nil
	if again, err = c.decide(fixed); err != nil {
		return err
	}
	if err := c.repeats(in, state, d); err != nil {
		return err
	}
	// What a person put back may be gone already, which only the next pass can take for an answer.
	if again.Commit != nil && len(in.Edited) == 0 && len(in.Dropped) == 0 {
		return c.broken(6, "deciding again on what was decided changes it: %s\n%s", again.Commit.Subject, again.Commit.Body)
	}
	return nil
}

// repeats is invariant 7: what is on record is enough to decide the same again.
func (c *checker) repeats(in decide.Input, before *record.State, d *decide.Decision) error {
	if d.Commit == nil {
		return nil
	}
	again, err := c.decide(decide.Repeat(in, before, d.Next))
	if err != nil {
		return err
	}
	if files, err := decide.Differ(again.Next, d.Next); err != nil || len(files) > 0 {
		instead := "nothing"
		if again.Commit != nil {
			instead = again.Commit.Subject
		}
		return c.broken(7, "deciding %q again from the record gives %s: %v %v", d.Commit.Subject, instead, err, files)
	}
	return nil
}

// difference is where two decisions would write something else; empty if nowhere.
func difference(a, b *decide.Decision) string {
	if (a.Commit == nil) != (b.Commit == nil) {
		for _, d := range []*decide.Decision{a, b} {
			if d.Commit != nil {
				return "one commits " + d.Commit.Subject + " and the other nothing"
			}
		}
	}
	if a.Commit == nil {
		return ""
	}
	if !slices.EqualFunc(a.Commit.Files, b.Commit.Files, func(x, y record.File) bool { return x.Path == y.Path && bytes.Equal(x.Data, y.Data) }) {
		return fmt.Sprintf("%s beside %s", a.Commit.Subject, b.Commit.Subject)
	}
	return ""
}

// adds is invariant 2.
func (c *checker) adds(key record.BindingKey, b *workv1alpha2.ResourceBinding) error {
	p := b.Spec.Placement
	if p == nil || p.ReplicaScheduling == nil || p.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDivided || b.Spec.Replicas == 0 || b.Spec.Policy == nil {
		return nil
	}
	for _, cond := range b.Status.Conditions {
		if cond.Type == workv1alpha2.ConditionScheduled && cond.Status != metav1.ConditionTrue {
			return nil // there is not room for all, and it says so
		}
	}
	var sum int32
	for _, t := range b.Spec.Clusters {
		sum += t.Replicas
	}
	if sum != b.Spec.Replicas {
		return c.broken(2, "%s has %d replicas on its clusters and %d in its template", key, sum, b.Spec.Replicas)
	}
	return nil
}

// blocks is invariant 3.
func (c *checker) blocks(key record.BindingKey, old, next *workv1alpha2.ResourceBinding) error {
	for _, t := range next.Spec.Clusters {
		p := place{key, t.Name}
		if old != nil && has(old, t.Name) {
			continue
		}
		c.placed[p] = c.now
		if left, known := c.left[p]; known && blocks(next, c.now.Sub(left)) {
			return c.broken(3, "%s comes back to %s %s after it left", key, t.Name, c.now.Sub(left))
		}
	}
	return nil
}

// blocks tells whether a member is refused so long after the binding left it.
func blocks(b *workv1alpha2.ResourceBinding, after time.Duration) bool {
	if b.Spec.Failover == nil || b.Spec.Failover.Application == nil {
		return false
	}
	block := 600 * time.Second
	if s := b.Spec.Failover.Application.BlockPredecessorSeconds; s != nil {
		block = time.Duration(*s) * time.Second
	}
	return block == 0 || after < block
}

// leaves is invariant 5, for what leaves by a task and what should.
func (c *checker) leaves(in decide.Input, d *decide.Decision, key record.BindingKey, old, next *workv1alpha2.ResourceBinding) error {
	if old == nil {
		return nil
	}
	for _, task := range next.Spec.GracefulEvictionTasks {
		if slices.ContainsFunc(old.Spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool { return t.FromCluster == task.FromCluster }) {
			continue
		}
		if task.Reason == "FailBack" {
			continue // it goes home, and nothing failed
		}
		p := place{key, task.FromCluster}
		c.left[p] = c.now
		since, tolerated := c.down[p.member], outageToleration(next)
		if task.Reason == "ApplicationFailure" {
			since, tolerated = c.sick[p], sickToleration(next)
		} else if !asks(next) {
			return c.broken(5, "%s leaves %s, which is down, and its policy does not ask for that", key, p.member)
		}
		if since.IsZero() || c.now.Sub(since) < tolerated {
			return c.broken(5, "%s leaves %s (%s) after %s, and that is tolerated for %s", key, p.member, task.Reason, c.now.Sub(since), tolerated)
		}
		if placed := c.placed[p]; c.now.Sub(placed) < tolerated {
			return c.broken(5, "%s leaves %s %s after it came, and failure is tolerated for %s", key, p.member, c.now.Sub(placed), tolerated)
		}
	}
	if next.Spec.Failover == nil || next.Spec.Failover.Application == nil || next.Spec.Failover.Application.PreConditions != nil || next.Spec.Policy == nil || len(in.Edited) > 0 {
		return nil
	}
	if !reflect.DeepEqual(old.Spec.Failover, next.Spec.Failover) {
		c.watched[key] = c.now // what was watched otherwise, or not at all, need not have counted before
	}
	for _, t := range next.Spec.Clusters {
		since, sick := c.sick[place{key, t.Name}]
		for _, t := range []time.Time{c.placed[place{key, t.Name}], c.watched[key]} {
			if t.After(since) {
				since = t
			}
		}
		// A copy that just got another version shows its health when that is applied, a second later.
		late := c.now.Sub(since) - sickToleration(next) - 2*time.Second
		if sick && late > 0 && has(old, t.Name) && d.Next.Meta.FailoverBrake == nil && in.Previous.Meta.Evictions == nil &&
			!blockedBinding(next) && c.fleet.members[t.Name].ready == metav1.ConditionTrue && next.Annotations[operator] == "" {
			return c.broken(5, "%s stays on %s although it has been unhealthy there for %s, and that is tolerated for %s", key, t.Name, c.now.Sub(since), sickToleration(next))
		}
	}
	return nil
}

const operator = "godwit.dev/operator-at"

func blockedBinding(b *workv1alpha2.ResourceBinding) bool {
	return slices.ContainsFunc(b.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "FailoverBlocked" })
}

func sickToleration(b *workv1alpha2.ResourceBinding) time.Duration {
	if s := b.Spec.Failover.Application.DecisionConditions.TolerationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 300 * time.Second
}

// asks tells whether a binding is to leave members that are down.
func asks(b *workv1alpha2.ResourceBinding) bool {
	return b.Spec.Failover != nil && b.Spec.Failover.Cluster != nil ||
		b.Spec.Placement != nil && slices.ContainsFunc(b.Spec.Placement.ClusterTolerations, func(t corev1.Toleration) bool {
			return t.Effect == corev1.TaintEffectNoExecute && (t.Key == "" || strings.HasPrefix(t.Key, "cluster.karmada.io/"))
		})
}

// outageToleration is the shortest for a member that is down.
func outageToleration(b *workv1alpha2.ResourceBinding) time.Duration {
	shortest := time.Duration(-1)
	if b.Spec.Placement != nil {
		for _, t := range b.Spec.Placement.ClusterTolerations {
			if t.TolerationSeconds == nil || t.Key != "" && !strings.HasPrefix(t.Key, "cluster.karmada.io/") {
				continue
			}
			if d := time.Duration(*t.TolerationSeconds) * time.Second; shortest < 0 || d < shortest {
				shortest = d
			}
		}
	}
	if shortest < 0 {
		return 300 * time.Second
	}
	return shortest
}

func has(b *workv1alpha2.ResourceBinding, member string) bool {
	return slices.ContainsFunc(b.Spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Name == member })
}

func identity(b *workv1alpha2.ResourceBinding) api.ID {
	r := b.Spec.Resource
	return record.ObjectRef{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}.ID().Unversioned()
}

// acted is invariant 1: what was just carried out left a healthy copy, where there was one that a
// failover with purge mode Gracefully had to care for.
func (c *checker) acted(in decide.Input, d *decide.Decision) error {
	if string(in.Source.Revision) != in.Previous.Meta.Source.Commit || len(in.Edited) > 0 {
		return nil // people may take away what they want
	}
	for key, old := range in.Previous.Bindings {
		next := d.Next.Bindings[key]
		if next == nil {
			continue
		}
		var had, lost []string
		for name, m := range c.fleet.members {
			if !c.healthy[place{key, name}] {
				continue
			}
			had = append(had, name)
			if m.copies[identity(old)] == nil {
				lost = append(lost, name)
			}
		}
		if len(had) == 0 || len(lost) < len(had) {
			continue
		}
		for _, name := range lost {
			if !mayGo(old, name, c.now) {
				return c.broken(1, "%s loses its last healthy copy, on %s", key, name)
			}
		}
	}
	return nil
}

// mayGo tells whether a copy may be taken away for what the binding said before.
func mayGo(b *workv1alpha2.ResourceBinding, member string, now time.Time) bool {
	for _, task := range b.Spec.GracefulEvictionTasks {
		if task.FromCluster != member {
			continue
		}
		if task.PurgeMode == policyv1alpha1.PurgeDirectly || task.SuppressDeletion != nil && !*task.SuppressDeletion {
			return true
		}
		grace := 10 * time.Minute
		if task.GracePeriodSeconds != nil {
			grace = time.Duration(*task.GracePeriodSeconds) * time.Second
		}
		return task.CreationTimestamp != nil && now.Sub(task.CreationTimestamp.Time) >= grace
	}
	// It goes by no task: it was purged directly, or it is a copy that went before its task was over.
	return b.Spec.Failover == nil || purgesDirectly(b.Spec.Failover)
}

func purgesDirectly(f *policyv1alpha1.FailoverBehavior) bool {
	return f.Application != nil && f.Application.PurgeMode == policyv1alpha1.PurgeDirectly || f.Cluster != nil && f.Cluster.PurgeMode == policyv1alpha1.PurgeDirectly
}
