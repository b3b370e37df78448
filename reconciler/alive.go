package reconciler

import (
	"errors"
	"fmt"
	"time"
)

// Phase is what the loop may be busy with.
type Phase string

const (
	// Deciding uses this machine alone: it takes what the processor and the disk take.
	Deciding Phase = "deciding"
	// Talking waits for a Git remote, which has time-outs of its own.
	Talking Phase = "talking to Git"
	// Waiting is what the loop does between passes; it looks at the source every PollInterval at least.
	Waiting Phase = "waiting"
)

// Activity is what the loop does, and since when.
type Activity struct {
	Phase Phase
	Since time.Time
}

// doing notes what the loop is about to do.
func (r *Reconciler) doing(p Phase) { r.activity.Store(&Activity{p, r.Clock.Now()}) }

// How long each phase may take before the loop counts as wedged. They are far beyond what any phase takes where
// something goes on: a process that is started anew for no reason is worse than one that is started anew late.
const (
	decidingLimit = 10 * time.Minute
	talkingLimit  = time.Hour
	waitingLimit  = 10 * time.Minute // beyond PollInterval
)

// Wedged says what the loop hangs in; nil means that it goes on. Members and remotes that do not answer hold up
// no loop, so that they never make it wedged.
func (a Activity) Wedged(now time.Time, poll time.Duration) error {
	limit := map[Phase]time.Duration{Deciding: decidingLimit, Talking: talkingLimit, Waiting: poll + waitingLimit}[a.Phase]
	if now.Sub(a.Since) <= limit {
		return nil
	}
	return fmt.Errorf("the loop has been %s since %s", a.Phase, a.Since.UTC().Format(time.RFC3339))
}

// Alive says what the loop hangs in, for a liveness probe; nil means that it goes on, or was not started. It may be
// called by anybody at any time.
func (r *Reconciler) Alive() error {
	if a := r.activity.Load(); a != nil {
		return a.Wedged(r.Clock.Now(), r.PollInterval)
	}
	return nil
}

// Ready says what is missing before passes can go through, for a readiness probe: nil once the source was read and the
// state with it, or the state's own source was found in the clone. It stays nil, whatever is away later. It may be
// called by anybody at any time.
func (r *Reconciler) Ready() error {
	if r.ready.Load() {
		return nil
	}
	return errors.New("source and state were not read yet")
}
