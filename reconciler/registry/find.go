package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/credential"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/render"
)

// registration is what decisions are to know of a cluster Secret.
func registration(e *credential.Entry, members bool) decide.Registration {
	members = members && !e.NoMember
	r := decide.Registration{
		Name: e.Name, Secret: e.Secret, Server: e.Server, Member: members,
		Namespaces: e.Namespaces, ClusterResources: e.ClusterResources, Paused: e.Paused,
	}
	if members {
		r.Labels, r.Provider, r.Region, r.Zone = e.Labels, e.Provider, e.Region, e.Zone
	}
	if len(r.Labels) == 0 {
		r.Labels = nil // as it is read back
	}
	return r
}

func duplicate(e, taken *credential.Entry, what string) render.Finding {
	return render.Finding{Severity: render.Error, Code: "cluster-secret-duplicate", Object: "Secret " + e.Secret, Message: fmt.Sprintf(
		"%s: is that of Secret %s, too, which is older and stays in use; this one is not used. Remove one of them", what, taken.Secret)}
}

// Find implements [member.Lookup].
func (r *Registry) Find(ctx context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	var tried []string // without success
	if ref := c.Spec.SecretRef; ref != nil && r.client != nil {
		config, version, err := r.findNamed(ctx, c, place{ref.Namespace, ref.Name})
		if !errors.Is(err, member.ErrNoCredentials) {
			return config, version, err
		}
		tried = append(tried, err.Error())
	}
	if len(r.labels) > 0 {
		v := r.look()
		e := v.find(c.Name, c.Spec.APIEndpoint)
		switch {
		case e != nil && e.Err != nil:
			return nil, "", e.Err
		case e != nil && e.Server == credential.InCluster && anonymous(e.Access):
			return r.own(e.Access)
		case e != nil:
			config, err := restConfig(e.Access)
			return config, e.Access.Version(), err
		case v.registrations.Unknown != "":
			return nil, "", fmt.Errorf("%w: %s", member.ErrNotYet, v.registrations.Unknown)
		}
		tried = append(tried, fmt.Sprintf("no cluster Secret of Argo CD in %s has its name or server", strings.Join(r.options.Namespaces, ", ")))
	}
	if r.client != nil && strings.TrimRight(c.Spec.APIEndpoint, "/") == credential.InCluster {
		return r.own(&credential.Access{Server: credential.InCluster})
	}
	if r.options.Fallback != nil {
		config, version, err := r.options.Fallback.Find(ctx, c)
		if !errors.Is(err, member.ErrNoCredentials) || len(tried) == 0 {
			return config, version, err
		}
		tried = append(tried, err.Error())
	}
	for i := range tried {
		tried[i] = strings.TrimPrefix(tried[i], member.ErrNoCredentials.Error()+": ")
	}
	return nil, "", fmt.Errorf("%w: %s", member.ErrNoCredentials, strings.Join(tried, "; "))
}

// anonymous tells whether nothing is there to authenticate with.
func anonymous(a *credential.Access) bool {
	return a.Token == "" && a.Username == "" && len(a.Cert) == 0 && a.Exec == nil
}

// own is the way to the management cluster, as it is a member itself.
func (r *Registry) own(a *credential.Access) (*rest.Config, string, error) {
	return rest.CopyConfig(r.options.Config), "own " + a.Version(), nil
}

const (
	// firstLook is how long a Secret that nobody asked for before is waited for.
	firstLook = 2 * time.Second
	// unasked is how long a Secret is followed that nobody asks for.
	unasked = 10 * time.Minute
)

// findNamed reads the Secret that a Cluster names.
func (r *Registry) findNamed(ctx context.Context, c *clusterv1alpha1.Cluster, at place) (*rest.Config, string, error) {
	if !slices.Contains(r.options.Namespaces, at.namespace) {
		return nil, "", fmt.Errorf("%w: spec.secretRef names a Secret in %s, which is not among clusters.namespaces (%s)", member.ErrNoCredentials, at.namespace, strings.Join(r.options.Namespaces, ", "))
	}
	f := r.follow(at)
	if f == nil {
		return nil, "", fmt.Errorf("%w: it is being closed", member.ErrNotYet)
	}
	waiting, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	select {
	case <-f.synced:
	case <-waiting.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.err != nil {
			return nil, "", fmt.Errorf("%w: read Secret %s/%s: %w", member.ErrNotYet, at.namespace, at.name, f.err)
		}
		return nil, "", fmt.Errorf("%w: the management cluster has not answered yet", member.ErrNotYet)
	}
	o, there, err := f.informer.GetStore().GetByKey(at.namespace + "/" + at.name)
	switch {
	case err != nil:
		return nil, "", err
	case !there:
		return nil, "", fmt.Errorf("%w: there is no Secret %s/%s, which spec.secretRef names", member.ErrNoCredentials, at.namespace, at.name)
	}
	access, err := credential.Karmada(o.(*corev1.Secret), c, r.options.Rules)
	if err != nil {
		return nil, "", err
	}
	config, err := restConfig(access)
	return config, access.Version(), err
}

// follow begins to follow one Secret, or goes on; nil after Close. Those that nobody asks for end.
func (r *Registry) follow(at place) *follow {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	f := r.named[at]
	switch {
	case r.closed:
		return nil
	case f == nil:
		for other, old := range r.named {
			if now.Sub(old.asked) > unasked {
				old.stop()
				delete(r.named, other)
			}
		}
		selector := fields.OneTermEqualSelector("metadata.name", at.name).String()
		f = r.begin(at.namespace, func(l *metav1.ListOptions) { l.FieldSelector = selector })
		r.named[at] = f
	}
	f.asked = now
	return f
}
