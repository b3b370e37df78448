package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/reconciler/lead"
	"github.com/godwit-gitops/godwit/reconciler/registry"
)

type electionConfig struct {
	Enabled       bool          `mapstructure:"enabled"`
	Namespace     string        `mapstructure:"namespace"`
	Name          string        `mapstructure:"name"`
	Identity      string        `mapstructure:"identity"`
	LeaseDuration time.Duration `mapstructure:"leaseDuration"`
	RenewDeadline time.Duration `mapstructure:"renewDeadline"`
	RetryPeriod   time.Duration `mapstructure:"retryPeriod"`
}

// maxLease leaves room in a label for what is named after the Lease.
const maxLease = 50

// problem says what is wrong with it, empty if nothing is.
func (c *electionConfig) problem() string {
	switch {
	case c.LeaseDuration < time.Second || c.LeaseDuration%time.Second != 0:
		return fmt.Sprintf("leaseDuration: %s is not in whole seconds", c.LeaseDuration)
	case c.RenewDeadline >= c.LeaseDuration:
		return fmt.Sprintf("renewDeadline: %s is not shorter than leaseDuration, %s: two replicas would lead at once", c.RenewDeadline, c.LeaseDuration)
	case c.RetryPeriod < time.Millisecond || c.RetryPeriod > c.RenewDeadline/2:
		return fmt.Sprintf("retryPeriod: %s is not at most half of renewDeadline, %s", c.RetryPeriod, c.RenewDeadline)
	case len(validation.IsDNS1123Subdomain(c.Name)) > 0:
		return fmt.Sprintf("name: %q is no name of a Lease", c.Name)
	case len(c.Name) > maxLease:
		return fmt.Sprintf("name: %q has more than %d characters, so that labels cannot name what is kept beside the Lease", c.Name, maxLease)
	}
	return ""
}

// identity is that of this replica.
func (c *Config) identity() (string, error) {
	if c.LeaderElection.Identity != "" {
		return c.LeaderElection.Identity, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("leaderElection.identity is not set: %w", err)
	}
	return name, nil
}

// place is where the Lease is, and who we are there.
func (c *Config) place(log *slog.Logger) (*rest.Config, lead.Options, error) {
	config, own, err := registry.Management(c.Management.Kubeconfig, c.Management.Context)
	if err == nil && config == nil {
		err = errors.New("leaderElection.enabled is set, and there is no management cluster: set management.kubeconfig, or run in it")
	}
	if err != nil {
		return nil, lead.Options{}, err
	}
	identity, err := c.identity()
	if err != nil {
		return nil, lead.Options{}, err
	}
	return config, lead.Options{
		Namespace: cmp.Or(c.LeaderElection.Namespace, own), Name: c.LeaderElection.Name, Identity: identity, Log: log,
		Duration: c.LeaderElection.LeaseDuration, RenewDeadline: c.LeaderElection.RenewDeadline, RetryPeriod: c.LeaderElection.RetryPeriod,
	}, nil
}

// election is over a Lease of the management cluster; nil if there is none to hold.
func (c *Config) election(log *slog.Logger) (*lead.Election, *lead.Keeper, error) {
	if !c.LeaderElection.Enabled {
		return nil, nil, nil
	}
	config, o, err := c.place(log)
	if err != nil {
		return nil, nil, err
	}
	return lead.New(config, o)
}
