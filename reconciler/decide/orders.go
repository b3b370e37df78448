package decide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	appsv1alpha1 "github.com/godwit-gitops/godwit/api/apps/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
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
			findings = append(findings, o.Finding(render.Error, "required", workloads, "name at least one workload"))
			continue
		}
		report := policy.Report{Object: o}
		selects := make(map[api.ID]bool, len(r.Spec.Workloads))
		for i, w := range r.Spec.Workloads {
			at := workloads.At(i)
			report.Required(at.At("apiVersion"), w.APIVersion)
			report.Required(at.At("kind"), w.Kind)
			report.Required(at.At("name"), w.Name)
			selects[idOf(w)] = true
		}
		findings = append(findings, report.Findings...)
		if report.Failed() {
			continue
		}
		orders = append(orders, &order{o, r, selects})
	}
	return orders, findings
}

// workloads is where an order names what it is for.
var workloads = policy.Path{"spec", "workloads"}

func idOf(w appsv1alpha1.ObjectReference) api.ID {
	id := api.ID{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
	id.Group, id.Version = api.SplitAPIVersion(w.APIVersion)
	return id
}

// idleOrders warns of workloads in orders that no template is.
func idleOrders(orders []*order, templates []*manifest.Object) []render.Finding {
	if len(orders) == 0 {
		return nil
	}
	known := make(map[api.ID]bool, len(templates))
	for _, t := range templates {
		known[t.ID] = true
	}
	var findings []render.Finding
	for _, o := range orders {
		for i, w := range o.rebalance.Spec.Workloads {
			if id := idOf(w); !known[id] {
				findings = append(findings, o.object.Finding(render.Warning, "no-workload", workloads.At(i),
					"there is no %s %s in the source, so nothing is divided anew; check apiVersion, kind, namespace and name", w.APIVersion, id))
			}
		}
	}
	return findings
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

// triggeredAt is the order's own time if it has one, as Karmada has it, else the pass that saw it first. That
// is later than the binding was last scheduled, even where both happen within one second or clocks differ:
// else the order would be noted as carried out and change nothing.
func (o *order) triggeredAt(now time.Time, last *metav1.Time) *metav1.Time {
	if t := o.rebalance.CreationTimestamp; !t.IsZero() {
		return &t
	}
	t := metav1.NewTime(now.UTC().Truncate(time.Second))
	if last != nil && !t.After(last.Time) {
		t = metav1.NewTime(last.UTC().Add(time.Second))
	}
	return &t
}
