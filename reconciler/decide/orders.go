package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	appsv1alpha1 "github.com/godwit-gitops/godwit/api/apps/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// order is a WorkloadRebalancer of the source.
type order struct {
	object    *manifest.Object
	rebalance *appsv1alpha1.WorkloadRebalancer
	selects   map[api.ID]bool
}

func compileOrders(objects []*manifest.Object) ([]*order, []render.Finding) {
	var orders []*order
	var findings []render.Finding
	for _, o := range objects {
		r, found := manifest.Decode[appsv1alpha1.WorkloadRebalancer](o)
		findings = append(findings, found...)
		if r == nil {
			continue
		}
		if len(r.Spec.Workloads) == 0 {
			findings = append(findings, o.Finding(render.Error, "required", []string{"spec", "workloads"}, "name at least one workload"))
			continue
		}
		selects := make(map[api.ID]bool, len(r.Spec.Workloads))
		for _, w := range r.Spec.Workloads {
			id := api.ID{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
			id.Group, id.Version = api.SplitAPIVersion(w.APIVersion)
			selects[id] = true
		}
		orders = append(orders, &order{o, r, selects})
	}
	return orders, findings
}

// marker names the order on the bindings it was carried out for, empty if it does not select id. An
// order of the same name with another creationTimestamp is another order.
func (o *order) marker(id api.ID) string {
	if !o.selects[id] {
		return ""
	}
	if t := o.rebalance.CreationTimestamp; !t.IsZero() {
		return o.rebalance.Name + "@" + t.UTC().Format(time.RFC3339)
	}
	return o.rebalance.Name
}

// triggeredAt is the order's own time if it has one, as Karmada has it, else the pass that saw it first.
func (o *order) triggeredAt(now time.Time) *metav1.Time {
	if t := o.rebalance.CreationTimestamp; !t.IsZero() {
		return &t
	}
	return &metav1.Time{Time: now.UTC().Truncate(time.Second)}
}
