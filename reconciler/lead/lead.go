package lead

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Options of an election and of what is kept beside it.
type Options struct {
	// Namespace and Name of the Lease. What is kept is in the Secret NAME-unpushed, and others of that prefix.
	Namespace, Name string
	// Identity of this replica, different from those of all others. Of two processes that have the same one, one leads.
	Identity string
	// Duration is how long the others wait for a leader that is silent, RenewDeadline how long a leader that cannot
	// renew goes on, and RetryPeriod how often both look. What is in work at the deadline has half of the time until
	// Duration is over to end. Duration counts in whole seconds.
	Duration, RenewDeadline, RetryPeriod time.Duration
	Log                                  *slog.Logger
}

// New is an election in the cluster, and what keeps commits there. Nothing is asked yet.
func New(config *rest.Config, o Options) (*Election, *Keeper, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/json" // the objects are few and small
	config.QPS, config.Burst = 20, 40       // no retry waits for another
	config.Timeout = o.RenewDeadline        // who keeps something does not wait longer than who leads
	leases, err := typedcoordinationv1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("management cluster: %w", err)
	}
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("management cluster: %w", err)
	}
	own := secrets.Secrets(o.Namespace)
	return &Election{options: o, leases: marked{leases, o.Identity, rand.Text()}, secrets: own}, &Keeper{Secrets: own, Name: o.Name + "-unpushed"}, nil
}
