package observe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func list(gv string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: gv, APIResources: resources}
}

func TestCatalog(t *testing.T) {
	groups := []*metav1.APIGroup{{Name: "example.org", Versions: []metav1.GroupVersionForDiscovery{{Version: "v2"}, {Version: "v1"}}}}
	broken := map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1beta1"}: errors.New("503")}
	c := NewCatalog(groups, []*metav1.APIResourceList{
		list("v1", metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true}, metav1.APIResource{Name: "pods/log", Kind: "Pod"}, metav1.APIResource{Name: "namespaces", Kind: "Namespace"}),
		list("example.org/v1", metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true}, metav1.APIResource{Name: "gears", Kind: "Gear", Namespaced: true}),
		list("example.org/v2", metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true}),
	}, broken)
	if diff := cmp.Diff([]clusterv1alpha1.APIEnablement{
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "namespaces", Kind: "Namespace"}, {Name: "pods", Kind: "Pod"}}},
		{GroupVersion: "example.org/v1", Resources: []clusterv1alpha1.APIResource{{Name: "gears", Kind: "Gear"}, {Name: "widgets", Kind: "Widget"}}},
		{GroupVersion: "example.org/v2", Resources: []clusterv1alpha1.APIResource{{Name: "widgets", Kind: "Widget"}}},
	}, c.APIs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"/Pod": true, "/Namespace": false, "example.org/Widget": true, "example.org/Gear": true}, c.Namespaced); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		id   api.ID
		want string // the resource, or a part of the error
	}{
		{api.ID{Group: "example.org", Version: "v1", Kind: "Widget"}, "example.org/v1, Resource=widgets"},
		{api.ID{Group: "example.org", Kind: "Widget"}, "example.org/v2, Resource=widgets"},
		{api.ID{Group: "example.org", Kind: "Gear"}, "example.org/v1, Resource=gears"},
		{api.ID{Group: "example.org", Version: "v3", Kind: "Widget"}, "kind Widget of example.org/v3 is not served; served versions are v2, v1"},
		{api.ID{Group: "example.com", Version: "v1", Kind: "Widget"}, "kind Widget of example.com/v1 is not served"},
		{api.ID{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "NodeMetrics"}, "cannot be looked up: 503"},
	} {
		r, err := c.Find(tt.id)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("Find(%v) = %q, want %q", tt.id, got, tt.want)
		}
	}
}

func TestDiscover(t *testing.T) {
	server := membertest.Start(t, "m1")
	client, err := discovery.NewDiscoveryClientForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Discover(client)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Find(api.ID{Group: "apps", Kind: "Deployment"})
	want := Resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true}
	if err != nil || r != want {
		t.Errorf("Find = %v %v, want %v", r, err, want)
	}
	server.Down()
	if c, err := Discover(client); err == nil {
		t.Errorf("a dead member serves %v", c.APIs)
	}
}

// partial is a member of whose groups one cannot be told.
type partial struct {
	discovery.ServerResourcesInterface
}

func (partial) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return []*metav1.APIGroup{{Name: "apps"}}, []*metav1.APIResourceList{list("apps/v1", metav1.APIResource{Name: "deployments", Kind: "Deployment"})},
		&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: errors.New("503")}}
}

func TestABrokenGroupTakesNothingElseWithIt(t *testing.T) {
	c, err := Discover(partial{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Find(api.ID{Group: "apps", Kind: "Deployment"}); err != nil {
		t.Error(err)
	}
	if len(c.Broken) != 1 {
		t.Errorf("Broken = %v", c.Broken)
	}
}
