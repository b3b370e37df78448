package lead

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// held is a lock that knows until when it is ours for sure.
type held struct {
	resourcelock.Interface
	deadline time.Duration

	mu      sync.Mutex
	renewed time.Time // when the last renewal that went well was asked for; zero means that there is none
}

// Create is of resourcelock.Interface.
func (h *held) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return h.renew(r, func() error { return h.Interface.Create(ctx, r) })
}

// Update is of resourcelock.Interface.
func (h *held) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return h.renew(r, func() error { return h.Interface.Update(ctx, r) })
}

func (h *held) renew(r resourcelock.LeaderElectionRecord, write func() error) error {
	asked := time.Now()
	if err := write(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renewed = asked; r.HolderIdentity != h.Identity() {
		h.renewed = time.Time{} // it was given back
	}
	return nil
}

// now tells whether the lock is ours at this moment: nobody else takes it before the deadline is long over. A process that was
// stopped for a while finds out by this, and not when its next renewal fails. Of the two clocks that tell how long that
// was, one may stand still while the machine sleeps, and the other be set: the longer time counts.
func (h *held) now() bool {
	h.mu.Lock()
	renewed := h.renewed
	h.mu.Unlock()
	if renewed.IsZero() {
		return false
	}
	now := time.Now()
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) < h.deadline
}
