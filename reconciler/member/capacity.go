package member

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/observe"
)

// capacity is what was measured last. Guarded by member.mu.
type capacity struct {
	nodes     *clusterv1alpha1.NodeSummary // handed out, so never changed
	resources *clusterv1alpha1.ResourceSummary
	single    *clusterv1alpha1.NodeCapacity
	// at is when measuring it began, be it in vain; zero measures anew after the next good probe.
	at time.Time
}

// runCapacity measures until the member is stopped.
func (m *member) runCapacity() {
	failed := false
	for m.pause(idleWait, m.probed) {
		began, err := m.measure()
		if !began || m.ctx.Err() != nil {
			continue
		}
		if err != nil && !failed {
			m.log.Warn("capacity cannot be measured, what is known of it stays", "error", err)
		}
		failed = err != nil
	}
}

// measure takes the member's capacity if it is time and the member answers. A failure changes nothing.
func (m *member) measure() (began bool, err error) {
	m.mu.Lock()
	now := m.options.Clock.Now()
	if !m.verified || now.Sub(m.capacity.at) < m.options.CapacityInterval {
		m.mu.Unlock()
		return false, nil
	}
	m.capacity.at = now
	l, uid, models := m.link, m.who.uid, m.desired.Cluster.Spec.ResourceModels
	m.mu.Unlock()

	// Long lists take longer than other requests. Nothing waits for them.
	ctx, cancel := context.WithTimeout(m.ctx, 6*m.options.RequestTimeout)
	defer cancel()
	listed, used, err := observe.Inventory(ctx, l.lists)
	if err != nil {
		return true, err
	}
	nodes, resources := observe.Capacity(listed, used, models)
	var single *clusterv1alpha1.NodeCapacity
	if m.options.AccurateEstimator {
		single = observe.NodeCapacity(listed, used)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.capacity
	switch {
	case m.link != l, m.who.uid != uid: // it may be another cluster's
	case c.nodes != nil && *c.nodes == nodes && equality.Semantic.DeepEqual(*c.resources, resources) && equality.Semantic.DeepEqual(c.single, single):
	default:
		if m.options.AccurateEstimator && single == nil && (c.nodes == nil || c.single != nil) {
			m.log.Warn("nodes have too many different taints to be recorded, only the general estimator counts")
		}
		c.nodes, c.resources, c.single = &nodes, &resources, single
		m.touch(true)
	}
	return true, nil
}
