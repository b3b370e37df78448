package decide

import (
	"testing"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
)

func TestWhatSharesSomethingIsCoupled(t *testing.T) {
	before := record.New()
	put := func(apiVersion, kind, namespace, name string, change func(*workv1alpha2.ResourceBindingSpec)) record.BindingKey {
		b := &workv1alpha2.ResourceBinding{}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
		if change != nil {
			change(&b.Spec)
		}
		key := record.BindingOf(templateOf(b))
		before.Bindings[key] = b
		return key
	}
	affine := func(s *workv1alpha2.ResourceBindingSpec) {
		s.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: "x"}
	}
	alone := put("apps/v1", "Deployment", "a", "alone", nil)
	other := put("apps/v1", "Deployment", "a", "other", nil)
	owner := put("apps/v1", "Deployment", "a", "owner", nil)
	needed := put("v1", "ConfigMap", "a", "needed", func(s *workv1alpha2.ResourceBindingSpec) {
		s.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: owner.Namespace, Name: owner.Name}}
	})
	bounded, too := put("apps/v1", "Deployment", "q", "bounded", nil), put("v1", "ConfigMap", "q", "too", nil)
	near, by := put("apps/v1", "Deployment", "a", "near", affine), put("apps/v1", "Deployment", "b", "by", affine)
	definition := put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.example.org", nil)
	gadget := put("example.org/v1", "Gadget", "a", "one", nil)

	d := &Decision{Next: before, sources: &compiled{quotas: part[*quotas]{value: &quotas{in: map[string][]*quota{"q": {}}}}}}
	group := d.Coupled(record.New())
	for _, pair := range [][2]record.BindingKey{{owner, needed}, {bounded, too}, {near, by}, {definition, gadget}} {
		if group[pair[0]] != group[pair[1]] {
			t.Errorf("%s and %s are not coupled", pair[0], pair[1])
		}
	}
	seen := map[int]record.BindingKey{}
	for _, key := range []record.BindingKey{alone, other, owner, bounded, near, definition} {
		if with, ok := seen[group[key]]; ok {
			t.Errorf("%s and %s are coupled", key, with)
		}
		seen[group[key]] = key
	}
}
