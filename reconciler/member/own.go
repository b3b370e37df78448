package member

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Own is the way to the one cluster that a process belongs to: that of its service account where it runs in a pod, unless
// kubeconfig files say otherwise. In those it is the context named as the member, else the current one.
type Own struct {
	// Kubeconfig may be nil: then it is a pod.
	Kubeconfig *Kubeconfig
}

// Find implements [Lookup].
func (o Own) Find(ctx context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	if o.Kubeconfig == nil {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w; name a kubeconfig file where this is no pod", ErrNoCredentials, err)
		}
		return config, "service account", nil // its token is read anew from its file by every client
	}
	merged, err := o.Kubeconfig.load()
	if err != nil {
		return nil, "", err
	}
	named := &clusterv1alpha1.Cluster{}
	if named.Name = merged.CurrentContext; merged.Contexts[c.Name] != nil {
		named.Name = c.Name
	}
	return o.Kubeconfig.Find(ctx, named)
}
