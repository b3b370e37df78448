package lead

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost says that the Lease is no longer ours, or that nobody could be asked whether it is.
var ErrLost = errors.New("the lease is lost")

// Election is over one Lease.
type Election struct {
	options Options
	leases  typedcoordinationv1.LeasesGetter
	secrets typedcorev1.SecretInterface
	leading atomic.Bool
	lock    atomic.Pointer[held]
}

// Leading tells whether we hold the Lease.
func (e *Election) Leading() bool { return e.leading.Load() }

// May tells whether a leader may still write: it holds the Lease, and renewed it lately. It is asked before each write,
// since a process that was stopped for a while goes on where it was.
func (e *Election) May() bool {
	lock := e.lock.Load()
	return lock != nil && lock.now()
}

// Grace is how long a leader that lost the Lease may take to end what it has in work.
func (e *Election) Grace() time.Duration { return (e.options.Duration - e.options.RenewDeadline) / 2 }

// Run waits for the Lease and then leads. It calls standby at once, whose context ends when the Lease is ours or ctx
// ends, and lead after standby returned. The context of lead ends with ctx, and when the Lease is lost, which makes
// the error ErrLost. The Lease is given back after lead returned and not before: the next leader takes over
// at once, and never beside us.
func (e *Election) Run(ctx context.Context, standby func(ctx context.Context), lead func(ctx context.Context) error) error {
	// Neither the campaign nor the renewal ends with ctx: a leader holds the Lease until lead has returned.
	campaign, endCampaign := context.WithCancel(context.WithoutCancel(ctx))
	defer endCampaign()
	won, lost := make(chan struct{}), make(chan struct{})
	lock := &held{deadline: e.options.RenewDeadline, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name}, Client: e.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Identity},
	}}
	e.lock.Store(lock)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: e.options.Duration, RenewDeadline: e.options.RenewDeadline, RetryPeriod: e.options.RetryPeriod,
		ReleaseOnCancel: false, // it would give the Lease back while what we have in work still ends
		Name:            e.options.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(won) },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				switch identity {
				case e.options.Identity:
				case twin(e.options.Identity):
					e.options.Log.Warn("another process uses the same identity, or did until a moment ago: this one leads once that is silent; of several processes each needs its own: set leaderElection.identity, or unset it", "identity", e.options.Identity)
				default:
					e.options.Log.Info("another replica leads", "leader", identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	go func() { defer close(lost); elector.Run(campaign) }()

	waiting, enough := context.WithCancel(ctx)
	stood := make(chan struct{})
	go func() { defer close(stood); standby(waiting) }()
	select {
	case <-won:
	case <-ctx.Done():
	}
	enough()
	<-stood
	select {
	case <-won:
	default:
		endCampaign()
		<-lost
		e.release(lock) // it may have been won this moment
		return nil
	}
	e.options.Log.Info("this replica leads", "identity", e.options.Identity)
	e.leading.Store(true)
	defer e.leading.Store(false)
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { <-lost; stop(ErrLost) }()
	err = lead(leading)
	if errors.Is(context.Cause(leading), ErrLost) {
		return ErrLost
	}
	endCampaign()
	<-lost
	e.release(lock)
	return err
}

// release gives the Lease back, if it is ours. Where that does not work the next leader waits until it runs out.
func (e *Election) release(lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(context.Background(), e.options.RetryPeriod)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err == nil && held.HolderIdentity == e.options.Identity {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	}
	if err != nil {
		e.options.Log.Warn("the lease could not be given back, it runs out", "error", err)
	}
}
