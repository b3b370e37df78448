package work

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/sops"
)

// Renderer holds what all works of a pass have in common.
type Renderer struct {
	Rules     *interpret.Interpreter
	Overrides *override.Set
	// Fleet is the name in our marks.
	Fleet string
	// Account is the service account that the works are written as, in their mark; empty means our own.
	Account string
	// KeepInstance leaves the label app.kubernetes.io/instance on objects.
	KeepInstance bool
}

// Copy is one template for one member.
type Copy struct {
	Template api.Object
	// Sealed is what SOPS encrypted in the template, and is decrypted in the copy; nil leaves it encrypted.
	Sealed *sops.Sealed
	ID     api.ID
	// Binding is the name that our mark gives: "namespace/name", or "name".
	Binding string
	// Workload: the binding has replicas, so the copy gets its own number.
	Workload bool
	Target   workv1alpha2.TargetCluster
	// Completions is the copy's share of a divided Job; nil leaves the template's.
	Completions *int32
	// Labels are put on the object after the overrides: the state of a copy it takes the place of.
	Labels  map[string]string
	Cluster *affinity.Cluster
	// Explain asks for the steps of the overrides.
	Explain bool
}

// Rendered is a copy ready to be applied.
type Rendered struct {
	ID        api.ID
	Object    api.Object
	Overrides override.Result
}

// Render makes the object for one member. An error names the step that refused; nothing may then be
// applied to that member, while others go on. Of the result it has the steps of the overrides alone.
func (r *Renderer) Render(c Copy) (Rendered, error) {
	o := c.Template
	if c.Workload {
		revised, err := r.Rules.Revise(o, c.Target.Replicas)
		if err != nil {
			return Rendered{}, fmt.Errorf("set %d replicas: %w", c.Target.Replicas, err)
		}
		o = revised
	}
	if c.Completions != nil {
		o = interpret.WithCompletions(o, *c.Completions)
	}
	// Overrides may reach into labels and annotations that a template has only through its marks,
	// so the marks are there before them, and again after them.
	foreign, ours := foreignLabels(o, r.KeepInstance), marks{r.Fleet, c.Binding, r.Account}
	o = mark(o, ours, foreign)
	result, err := r.Overrides.Apply(o, c.ID, c.Cluster, c.Explain)
	if err != nil {
		return Rendered{Overrides: result}, err
	}
	id := api.IDOf(result.Object)
	if id != c.ID {
		return Rendered{Overrides: result}, fmt.Errorf("an override turns %s %s into %s %s: overrides may not change apiVersion, kind, namespace or name",
			c.ID.APIVersion(), c.ID, id.APIVersion(), id)
	}
	o = mark(withLabels(interpret.Prune(result.Object), c.Labels), ours, foreign)
	if o, err = c.Sealed.Open(o); err != nil { // the last step: none but this one sees values
		return Rendered{Overrides: result}, err
	}
	return Rendered{ID: id, Object: o, Overrides: result}, nil
}

// withLabels is the object with more labels.
func withLabels(o api.Object, labels map[string]string) api.Object {
	if len(labels) == 0 {
		return o
	}
	o = maps.Clone(o)
	meta, _ := o["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	all := map[string]any{}
	if had, ok := meta["labels"].(map[string]any); ok {
		maps.Copy(all, had)
	}
	for key, value := range labels {
		all[key] = value
	}
	meta["labels"], o["metadata"] = all, meta
	return o
}

// Overwrite tells whether the copy may take over an object that is not ours: the template's own
// annotation decides, else the policy.
func Overwrite(template api.Object, policy bool) bool {
	switch metaText(template, "annotations", ConflictAnnotation) {
	case "overwrite":
		return true
	case "abort":
		return false
	}
	return policy
}

// Namespace is the Namespace object that works in it need on a member, where no template says more.
func Namespace(name, fleet string) api.Object {
	return mark(api.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, marks{fleet: fleet}, nil)
}

// ResourceQuota is the share of one member in a FederatedResourceQuota, written as account, empty for our own. No override
// applies to it.
func ResourceQuota(id api.ID, hard corev1.ResourceList, fleet, account string) api.Object {
	limits := make(map[string]any, len(hard))
	for name, q := range hard {
		limits[string(name)] = q.String()
	}
	return mark(api.Object{
		"apiVersion": id.APIVersion(), "kind": id.Kind,
		"metadata": map[string]any{"namespace": id.Namespace, "name": id.Name},
		"spec":     map[string]any{"hard": limits},
	}, marks{fleet: fleet, account: account}, nil)
}
