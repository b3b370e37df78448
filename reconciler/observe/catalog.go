package observe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// Resource is how objects of a kind are reached.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// Catalog is what a member serves, as of one look.
type Catalog struct {
	// APIs are sorted by group and version, their resources by name.
	APIs []clusterv1alpha1.APIEnablement
	// Namespaced tells the scope by "group/Kind".
	Namespaced map[string]bool
	// Broken holds the groups and versions whose part of discovery failed, with the error.
	Broken map[schema.GroupVersion]error

	kinds map[schema.GroupKind][]Resource // preferred version first
}

// NoKindError: the member does not serve a kind.
type NoKindError struct {
	ID api.ID
	// Served are the versions in which it does serve the kind.
	Served []string
	// Unknown: the part of discovery that would tell failed.
	Unknown error
}

func (e *NoKindError) Error() string {
	kind := fmt.Sprintf("kind %s of %s", e.ID.Kind, cmp.Or(e.ID.APIVersion(), "v1"))
	switch {
	case e.Unknown != nil:
		return fmt.Sprintf("%s cannot be looked up: %v", kind, e.Unknown)
	case len(e.Served) > 0:
		return fmt.Sprintf("%s is not served; served versions are %s", kind, strings.Join(e.Served, ", "))
	}
	return kind + " is not served"
}

// NewCatalog arranges the answers of discovery.
func NewCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, broken map[schema.GroupVersion]error) *Catalog {
	c := &Catalog{Namespaced: map[string]bool{}, Broken: broken, kinds: map[schema.GroupKind][]Resource{}}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		enabled := clusterv1alpha1.APIEnablement{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") { // a subresource
				continue
			}
			enabled.Resources = append(enabled.Resources, clusterv1alpha1.APIResource{Name: r.Name, Kind: r.Kind})
			gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
			c.Namespaced[gv.Group+"/"+r.Kind] = r.Namespaced
			c.kinds[gk] = append(c.kinds[gk], Resource{gv.WithResource(r.Name), r.Namespaced})
		}
		slices.SortFunc(enabled.Resources, func(a, b clusterv1alpha1.APIResource) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
		})
		c.APIs = append(c.APIs, enabled)
	}
	slices.SortFunc(c.APIs, func(a, b clusterv1alpha1.APIEnablement) int {
		groupA, versionA := api.SplitAPIVersion(a.GroupVersion)
		groupB, versionB := api.SplitAPIVersion(b.GroupVersion)
		return cmp.Or(cmp.Compare(groupA, groupB), cmp.Compare(versionA, versionB))
	})
	rank := ranks(groups)
	for _, resources := range c.kinds {
		slices.SortStableFunc(resources, func(a, b Resource) int {
			return cmp.Or(cmp.Compare(rank[a.GroupVersion()], rank[b.GroupVersion()]), cmp.Compare(a.Resource, b.Resource))
		})
	}
	return c
}

// ranks number the versions of each group in the member's order of preference.
func ranks(groups []*metav1.APIGroup) map[schema.GroupVersion]int {
	rank := map[schema.GroupVersion]int{}
	for _, g := range groups {
		for i, v := range g.Versions {
			rank[schema.GroupVersion{Group: g.Name, Version: v.Version}] = i
		}
	}
	return rank
}

// Find tells how to reach an object. An ID without version gets the member's preferred one. The
// error is a *NoKindError.
func (c *Catalog) Find(id api.ID) (Resource, error) {
	resources := c.kinds[schema.GroupKind{Group: id.Group, Kind: id.Kind}]
	missing := &NoKindError{ID: id}
	for _, r := range resources {
		if id.Version == "" || r.Version == id.Version {
			return r, nil
		}
		missing.Served = append(missing.Served, r.Version)
	}
	for _, gv := range slices.SortedFunc(maps.Keys(c.Broken), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }) {
		if gv.Group == id.Group && (id.Version == "" || gv.Version == id.Version) {
			missing.Unknown = c.Broken[gv]
			break
		}
	}
	return Resource{}, missing
}

// Discover asks a member what it serves. An error means that nothing is known; parts that failed
// are in the catalog.
func Discover(client discovery.ServerResourcesInterface) (*Catalog, error) {
	groups, lists, err := client.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partial):
		return NewCatalog(groups, lists, partial.Groups), nil
	case err != nil:
		return nil, fmt.Errorf("discover the member's APIs: %w", err)
	}
	return NewCatalog(groups, lists, nil), nil
}
