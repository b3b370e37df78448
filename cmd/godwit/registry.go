package main

import (
	"errors"
	"log/slog"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/reconciler/credential"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/registry"
)

// argoNamespace is where Argo CD and its cluster Secrets are unless somebody moved them.
const argoNamespace = "argocd"

// management is the cluster that Secrets are kept in, nil if there is none, and the namespaces that they are read in.
func (c *Config) management() (config *rest.Config, namespaces []string, err error) {
	config, own, err := registry.Management(c.Management.Kubeconfig, c.Management.Context)
	if err == nil && config == nil && c.Clusters.ArgoCD {
		err = errors.New("clusters.argocd is set, and there is no management cluster to read from: set management.kubeconfig, or run in it")
	}
	if err != nil || config == nil {
		return nil, nil, err
	}
	namespaces = slices.Clone(c.Clusters.Namespaces)
	if len(namespaces) == 0 {
		namespaces = append(namespaces, own)
		if c.Clusters.ArgoCD && own != argoNamespace {
			namespaces = append(namespaces, argoNamespace)
		}
	}
	return config, namespaces, nil
}

// openRegistry finds the ways to members: Secrets of the management cluster, if there is one, then the kubeconfig files.
func (c *Config) openRegistry(log *slog.Logger) (*registry.Registry, error) {
	config, namespaces, err := c.management()
	if err != nil {
		return nil, err
	}
	if config != nil {
		if how := member.Exposed(config); how != "" {
			log.Warn("others can listen to what is sent to the management cluster", "message", how)
		}
	}
	return registry.New(registry.Options{
		Config: config, Namespaces: namespaces, ArgoCD: c.managed(), Members: c.Clusters.ArgoCD,
		Rules: credential.Rules{ExecCommands: c.Clusters.ExecCommands, AllowedHosts: c.Clusters.AllowedHosts}, Fallback: c.kubeconfig(), Logger: log,
	})
}

// managed: somebody told us of a management cluster. A pod that nobody did need not be allowed to list Secrets there, nor
// to write Events.
func (c *Config) managed() bool {
	return c.Clusters.ArgoCD || len(c.Clusters.Namespaces) > 0 || c.Management.Kubeconfig != "" || c.Management.Context != ""
}
