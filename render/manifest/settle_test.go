package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
)

func all(units []Unit) (objects []*Object) {
	for _, u := range units {
		objects = append(objects, u.Objects...)
	}
	return objects
}

func TestSettle(t *testing.T) {
	units := Read(source(`
== a.yaml ==
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, namespace: wrong}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: twice}}
---
{apiVersion: example.com/v1, kind: Wide, metadata: {name: w}}
---
{apiVersion: example.com/v1, kind: Narrow, metadata: {name: nn}}
---
{apiVersion: example.org/v1, kind: Found, metadata: {name: f}}
---
{apiVersion: example.org/v1, kind: Unknown, metadata: {name: u}}
---
{apiVersion: example.org/v1, kind: Unknown, metadata: {name: u, namespace: z}}
== b.yaml ==
{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: twice, namespace: default}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wides.example.com}
spec: {group: example.com, names: {kind: Wide}, scope: Cluster}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: narrows.example.com}
spec: {group: example.com, names: {kind: Narrow}, scope: Namespaced}
== c.yaml ==
{apiVersion: apps/v1, kind: Deployment, metadata: {name: twice}}
`), Options{})
	extra := map[string]bool{"example.org/Found": true, "example.com/Wide": true, "/ConfigMap": false}
	before := list(units)
	objects, bad, findings := Settle(units, NewScope(all(units), extra), "default")

	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintln(&b, o.APIVersion(), o.ID)
		if api.IDOf(o.Content) != o.ID {
			t.Errorf("the content of %s is that of %s", o.ID, api.IDOf(o.Content))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(toStrings(bad))) {
		fmt.Fprintln(&b, "bad:", id)
	}
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	want := `v1 ConfigMap default/b
v1 ConfigMap x/a
v1 Namespace shop
apiextensions.k8s.io/v1 CustomResourceDefinition narrows.example.com
apiextensions.k8s.io/v1 CustomResourceDefinition wides.example.com
example.com/v1 Narrow default/nn
example.com/v1 Wide w
example.org/v1 Found default/f
example.org/v1 Unknown u
example.org/v1 Unknown z/u
bad: Deployment default/twice x 3
a.yaml:5: warning: cluster-scoped: Namespace wrong/shop: metadata.namespace: Namespace is not in any namespace; "wrong" is left out
a.yaml:7: error: duplicate-object: Deployment default/twice: the same object stands in b.yaml:1 too; neither is used until one is removed
b.yaml:1: error: duplicate-object: Deployment default/twice: the same object stands in a.yaml:7 too; neither is used until one is removed
c.yaml:1: error: duplicate-object: Deployment default/twice: the same object stands in a.yaml:7 too; neither is used until one is removed
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("Settle (-want +got):\n%s", diff)
	}
	if after := list(units); after != before {
		t.Error("Settle changed its argument")
	}
	if o := objects[0]; o.Line("metadata", "name") != 1 {
		t.Errorf("a moved object lost its lines")
	}
}

func toStrings(bad map[api.ID][]*Object) map[string]bool {
	m := map[string]bool{}
	for id, objects := range bad {
		m[fmt.Sprintf("%s x %d", id, len(objects))] = true
	}
	return m
}

func TestEveryObjectIsSettledOnceOrBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c"}))
		var units []Unit
		n := 0
		for range rapid.IntRange(0, 5).Draw(t, "units") {
			u := Unit{}
			for _, name := range names.Draw(t, "names") {
				meta := map[string]any{"name": name}
				if rapid.Bool().Draw(t, "in default") {
					meta["namespace"] = "default"
				}
				content := map[string]any{"apiVersion": rapid.SampledFrom([]string{"apps/v1", "apps/v2"}).Draw(t, "version"), "kind": "Deployment", "metadata": meta}
				u.Objects = append(u.Objects, &Object{ID: api.IDOf(content), Content: content})
				n++
			}
			units = append(units, u)
		}
		before := canonical.YAML(contents(all(units)))
		objects, bad, findings := Settle(units, NewScope(nil, nil), "default")
		got := len(objects)
		for id, same := range bad {
			got += len(same)
			if len(same) < 2 || id.Version != "" {
				t.Fatalf("%v is bad with %d objects", id, len(same))
			}
		}
		if got != n {
			t.Fatalf("%d objects settled, %d in all", got, n)
		}
		for i := 1; i < len(objects); i++ {
			if objects[i-1].ID.Compare(objects[i].ID) >= 0 {
				t.Fatalf("%v is before %v", objects[i-1].ID, objects[i].ID)
			}
		}
		if len(findings) != n-len(objects) {
			t.Fatalf("%d findings for %d bad objects", len(findings), n-len(objects))
		}
		if after := canonical.YAML(contents(all(units))); string(after) != string(before) {
			t.Fatal("Settle changed its argument")
		}
	})
}

func contents(objects []*Object) (list []any) {
	for _, o := range objects {
		list = append(list, o.Content)
	}
	return list
}

func TestScopeKnowsEachKindOnce(t *testing.T) {
	n := 0
	for _, groups := range []map[string]string{clusterKinds, namespaceKinds} {
		for _, kinds := range groups {
			names := strings.Fields(kinds)
			n += len(names)
			if !slices.IsSorted(names) {
				t.Errorf("not in order: %s", kinds)
			}
		}
	}
	if n != len(builtin) {
		t.Errorf("%d kinds are listed, %d are different", n, len(builtin))
	}
}

func TestRoleOf(t *testing.T) {
	for _, tc := range []struct {
		apiVersion, kind, namespace, label string
		want                               Role
	}{
		{"apps/v1", "Deployment", "default", "", Template},
		{"v1", "Namespace", "", "", Template},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "", "", Template},
		{"v1", "Pod", "karmada", "", Template},
		{"v1", "Pod", "kube", "", Template},
		{"v1", "Pod", "my-kube-system", "", Template},
		{"v1", "Pod", "kube-system", "", Ignored},
		{"v1", "Pod", "karmada-system", "", Ignored},
		{"v1", "Pod", "karmada-cluster", "", Ignored},
		{"v1", "Pod", "karmada-es-m1", "", Ignored},
		{"v1", "Pod", "karmada-mine", "", Template},
		{"v1", "Event", "default", "", Ignored},
		{"events.k8s.io/v1", "Event", "default", "", Ignored},
		{"example.com/v1", "Event", "default", "", Template},
		{"coordination.k8s.io/v1", "Lease", "default", "", Ignored},
		{"apps/v1", "Deployment", "default", "resourcetemplate.karmada.io/claimed-by", Template},
		{"policy.karmada.io/v1alpha1", "PropagationPolicy", "kube-system", "", Policy},
		{"cluster.karmada.io/v1alpha1", "Cluster", "", "", Cluster},
		{"config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", "", "", Interpreter},
		{"apps.karmada.io/v1alpha1", "WorkloadRebalancer", "", "", Rebalancer},
		{"work.karmada.io/v1alpha2", "ResourceBinding", "default", "", Ignored},
		{"networking.karmada.io/v1alpha1", "MultiClusterService", "default", "", Ignored},
		{"policy/v1", "PodDisruptionBudget", "default", "", Template},
	} {
		content := map[string]any{"apiVersion": tc.apiVersion, "kind": tc.kind, "metadata": map[string]any{"name": "x", "namespace": tc.namespace, "labels": map[string]any{tc.label: "x"}}}
		if got := RoleOf(&Object{ID: api.IDOf(content), Content: content}); got != tc.want {
			t.Errorf("RoleOf(%s %s in %q, label %q) = %d, want %d", tc.apiVersion, tc.kind, tc.namespace, tc.label, got, tc.want)
		}
	}
}

// What was made of an object can be found by its pointer at the next reading.
func TestSettleGivesTheSameObjectsAgain(t *testing.T) {
	tree := fstest.MapFS{"a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team, namespace: wrong}\n")}}
	var cache Cache
	settled := func(namespace string) []*Object {
		objects, _, _ := cache.Settle(Read(tree, Options{Cache: &cache}), NewScope(nil, nil), namespace)
		return objects
	}
	first, again, other := settled("default"), settled("default"), settled("other")
	if len(first) != 2 || !slices.Equal(first, again) {
		t.Errorf("the second reading gives other objects: %v, then %v", first, again)
	}
	if other[0] == first[0] || other[0].Namespace != "other" {
		t.Errorf("in another namespace: %v", other[0].ID)
	}
}
