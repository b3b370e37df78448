package membertest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"
)

var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// discover answers /api, /apis and what is below them, down to one group and version.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, parts []string) error {
	s.mu.RLock()
	groups := s.groups()
	s.mu.RUnlock()
	form, err := accepts(r, "APIGroupDiscovery")
	if err != nil {
		return err
	}
	legacy := parts[0] == "api"
	groups = slices.DeleteFunc(groups, func(g apidiscovery.APIGroupDiscovery) bool { return (g.Name == "") != legacy })
	if form != "" && len(parts) == 1 {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		return writeJSON(w, http.StatusOK, apidiscovery.APIGroupDiscoveryList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}, Items: groups})
	}
	switch len(parts) {
	case 1:
		if legacy {
			return writeJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
		}
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, g := range groups {
			list.Groups = append(list.Groups, plainGroup(g))
		}
		return writeJSON(w, http.StatusOK, list)
	case 2:
		for _, g := range groups {
			if !legacy && g.Name == parts[1] {
				group := plainGroup(g)
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return writeJSON(w, http.StatusOK, group)
			}
		}
	}
	for _, g := range groups {
		for _, v := range g.Versions {
			if gv := (schema.GroupVersion{Group: g.Name, Version: v.Version}).String(); gv == strings.Join(parts[1:], "/") {
				return writeJSON(w, http.StatusOK, plainResources(gv, v))
			}
		}
	}
	return notFound()
}

// groups returns all that is served: groups by name, versions with the preferred one first, resources by name.
// The caller holds s.mu.
func (s *Server) groups() []apidiscovery.APIGroupDiscovery {
	served := make([]*resource, 0, len(s.served))
	for _, r := range s.served {
		served = append(served, r)
	}
	slices.SortFunc(served, func(a, b *resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), -utilversion.CompareKubeAwareVersionStrings(a.Version, b.Version), cmp.Compare(a.plural, b.plural))
	})
	var groups []apidiscovery.APIGroupDiscovery
	for _, r := range served {
		if n := len(groups); n == 0 || groups[n-1].Name != r.Group {
			groups = append(groups, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.Group}})
		}
		g := &groups[len(groups)-1]
		if n := len(g.Versions); n == 0 || g.Versions[n-1].Version != r.Version {
			g.Versions = append(g.Versions, apidiscovery.APIVersionDiscovery{Version: r.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent})
		}
		v := &g.Versions[len(g.Versions)-1]
		v.Resources = append(v.Resources, r.discovery())
	}
	return groups
}

func (r *resource) discovery() apidiscovery.APIResourceDiscovery {
	kind := metav1.GroupVersionKind(r.GroupVersionKind)
	d := apidiscovery.APIResourceDiscovery{
		Resource: r.plural, ResponseKind: &kind, Scope: apidiscovery.ScopeNamespace, SingularResource: r.singular,
		Verbs: verbs, ShortNames: r.short, Categories: r.categories,
	}
	if r.has(cluster) {
		d.Scope = apidiscovery.ScopeCluster
	}
	if r.has(scale) {
		kind := metav1.GroupVersionKind(scaleKind)
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: "scale", ResponseKind: &kind, Verbs: []string{"get", "patch", "update"}})
	}
	if r.has(status) {
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: "status", ResponseKind: &kind, Verbs: []string{"get", "patch", "update"}})
	}
	return d
}

// plainGroup is a group as the older form of discovery has it.
func plainGroup(g apidiscovery.APIGroupDiscovery) metav1.APIGroup {
	plain := metav1.APIGroup{Name: g.Name}
	for _, v := range g.Versions {
		plain.Versions = append(plain.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: schema.GroupVersion{Group: g.Name, Version: v.Version}.String(), Version: v.Version})
	}
	plain.PreferredVersion = plain.Versions[0]
	return plain
}

// plainResources are a version's resources as the older form of discovery has them.
func plainResources(gv string, v apidiscovery.APIVersionDiscovery) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for _, r := range v.Resources {
		namespaced := r.Scope == apidiscovery.ScopeNamespace
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Resource, SingularName: r.SingularResource, Namespaced: namespaced,
			Kind: r.ResponseKind.Kind, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories})
		for _, sub := range r.Subresources {
			a := metav1.APIResource{Name: r.Resource + "/" + sub.Subresource, Namespaced: namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs}
			if sub.ResponseKind.Group != r.ResponseKind.Group {
				a.Group, a.Version = sub.ResponseKind.Group, sub.ResponseKind.Version
			}
			list.APIResources = append(list.APIResources, a)
		}
	}
	return list
}
