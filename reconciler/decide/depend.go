package decide

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// depend gives what templates refer to the clusters of those templates: attached bindings with a
// snapshot of each binding that needs them.
func (p *pass) depend() {
	byKey := make(map[record.BindingKey]*bound, len(p.bound))
	for _, b := range p.bound {
		byKey[b.row.Key] = b
	}
	owners := map[record.BindingKey][]*bound{}
	templates := map[record.BindingKey]*manifest.Object{}
	for _, b := range p.bound {
		if b.next == nil || !b.next.Spec.PropagateDeps || b.row.Key.Namespace == "" || !runs(b.next) {
			continue
		}
		for _, t := range p.dependencies(b) {
			key := record.BindingOf(t.ID)
			if !slices.Contains(owners[key], b) {
				owners[key] = append(owners[key], b)
			}
			templates[key] = t
		}
	}
	for _, key := range sortedBindings(p.Previous.Bindings) {
		if old := p.Previous.Bindings[key]; len(old.Spec.RequiredBy) > 0 && owners[key] == nil {
			p.detach(byKey[key])
		}
	}
	for key, t := range templates {
		b := byKey[key]
		if b == nil {
			b = &bound{template: t, old: p.Previous.Bindings[key], row: BindingRow{Key: key, Template: t.ID}}
			if b.old != nil {
				b.row.Previous = b.old.Spec.Clusters
			}
			p.bound = append(p.bound, b)
		}
		p.attach(b, owners[key])
	}
}

// runs tells whether there is, or is to be, a copy that needs something; one that is being evicted counts.
func runs(b *workv1alpha2.ResourceBinding) bool {
	return len(b.Spec.Clusters) > 0 || slices.ContainsFunc(b.Spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool {
		return t.PurgeMode != policyv1alpha1.PurgeDirectly
	})
}

// dependencies are the templates that b needs.
func (p *pass) dependencies(b *bound) []*manifest.Object {
	if b.template == nil {
		return p.stillNeeded(b, nil)
	}
	refs, err := p.references(b)
	if err == nil {
		return p.referenced(b, refs)
	}
	if p.open(err) == nil {
		p.failures.Add(err, "dependencies of "+b.template.ID.String())
		p.find(b.template.Finding(render.Error, "interpret-dependencies", nil, "what it depends on cannot be told, so that stays as it was: %v", err))
	}
	return p.stillNeeded(b, err)
}

// references are what b's template refers to. Where nobody asks a webhook and no record of b tells what
// it said, they are those by the kind's next rule.
func (p *pass) references(b *bound) ([]interpret.Reference, error) {
	refs, err := p.rules.Dependencies(b.template.Content)
	var missing *interpret.UnansweredError
	if p.Answers != nil || !errors.As(err, &missing) {
		return refs, err
	}
	recorded := p.onRecord().Bindings[b.row.Key] != nil
	p.standFor(missing, recorded)
	if recorded {
		return nil, err
	}
	return p.deaf().Dependencies(b.template.Content)
}

// ties are the templates that each binding needs, by a state.
type ties map[record.BindingKey][]api.ID

// stillNeeded are the templates that b needed, as the record has it, where nobody can tell now for err, or
// without b's template: neither a slip in a rule or a file nor an answer that is missing takes anything
// from what runs.
func (p *pass) stillNeeded(b *bound, err error) []*manifest.Object {
	state := p.Previous
	var missing *interpret.UnansweredError
	if errors.As(err, &missing) {
		state = p.onRecord()
	}
	known, ok := p.ties[state]
	if !ok {
		known = ties{}
		for _, key := range sortedBindings(state.Bindings) {
			needed := state.Bindings[key]
			id := templateOf(needed)
			if record.BindingOf(id) != key {
				continue // not ours
			}
			for _, by := range needed.Spec.RequiredBy {
				owner := record.BindingKey{Namespace: by.Namespace, Name: by.Name}
				known[owner] = append(known[owner], id.Unversioned())
			}
		}
		p.ties[state] = known
	}
	var found []*manifest.Object
	for _, id := range known[b.row.Key] {
		if t := p.input.all[id]; t != nil {
			found = append(found, t)
		}
	}
	return found
}

// referenced are the templates that the references of b's template name. One that is not in the
// source may exist on the members already, so it is a warning.
func (p *pass) referenced(b *bound, refs []interpret.Reference) []*manifest.Object {
	var found []*manifest.Object
	for _, ref := range refs {
		id := api.ID{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
		id.Group, _ = api.SplitAPIVersion(ref.APIVersion)
		if ref.Name != "" {
			if t := p.input.all[id]; t != nil && p.projectOf(t) != p.projectOf(b.template) {
				p.find(b.template.Finding(render.Warning, "project-dependency", nil,
					"%s is needed (propagateDeps) and of another project (%s); it does not go along", id, t.Origin))
			} else if t != nil {
				found = append(found, t)
			} else {
				p.find(b.template.Finding(render.Warning, "dependency-missing", nil,
					"%s is needed (propagateDeps) and not in the source; it goes along as soon as it is there", id))
			}
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(ref.LabelSelector)
		if err != nil {
			continue
		}
		for _, t := range p.input.templates {
			if p.projectOf(t) == p.projectOf(b.template) && t.Group == id.Group && t.Kind == id.Kind && t.Namespace == id.Namespace && selector.Matches(labels.Set(labelsOf(t.Content))) {
				found = append(found, t)
			}
		}
	}
	return found
}

// attach records on b's binding where the bindings run that need it.
func (p *pass) attach(b *bound, owners []*bound) {
	if b.kept {
		return
	}
	next := b.next
	if next == nil {
		next = &workv1alpha2.ResourceBinding{TypeMeta: metav1.TypeMeta{APIVersion: workv1alpha2.APIVersion, Kind: kindOf(b.row.Key)}}
		if b.old != nil {
			next.Status, next.UID = b.old.Status, b.old.UID
		}
		t := b.template
		next.ObjectMeta = metav1.ObjectMeta{Namespace: b.row.Key.Namespace, Name: b.row.Key.Name, UID: next.UID,
			Annotations: map[string]string{annotationTemplate: p.Memo.templateHash(t)}}
		next.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: t.APIVersion(), Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
	}
	if next == b.old {
		copied := *next
		next = &copied
	}
	slices.SortFunc(owners, func(a, b *bound) int { return a.row.Key.Compare(b.row.Key) })
	next.Spec.RequiredBy = nil
	for _, o := range owners {
		next.Spec.RequiredBy = append(next.Spec.RequiredBy, workv1alpha2.BindingSnapshot{
			Namespace: o.row.Key.Namespace, Name: o.row.Key.Name, Clusters: o.next.Spec.Clusters,
		})
		b.row.DependencyOf = append(b.row.DependencyOf, o.row.Key.String())
		if len(o.evicted) > 0 && b.along == "" {
			b.along = Reason(o.evicted[0].Kind)
		}
		// Differs from Karmada: what a copy needs stays as long as the copy does.
		for _, task := range o.next.Spec.GracefulEvictionTasks {
			if task.PurgeMode != policyv1alpha1.PurgeDirectly {
				b.lingering = append(b.lingering, task.FromCluster)
			}
		}
	}
	if next.Spec.Placement == nil {
		b.replicas = interpret.Replicas{} // it has no policy that would divide it
		p.inherit(b, next, owners)
		p.dropUnbound(b.template.ID)
		b.row.Clusters = targets(next)
		if b.old != nil {
			b.row.Previous = targets(b.old)
		}
		b.row.Message = fmt.Sprintf("needed by %s", b.row.DependencyOf[0])
		if n := len(owners) - 1; n > 0 {
			b.row.Message += fmt.Sprintf(" and %d more", n)
		}
	}
	b.next = next
}

// inherit combines what the owners say: Overwrite and preservation win.
func (p *pass) inherit(b *bound, next *workv1alpha2.ResourceBinding, owners []*bound) {
	preserve, overwrites, preserves := false, 0, 0
	next.Spec.ConflictResolution = policyv1alpha1.ConflictAbort
	for _, o := range owners {
		if o.next.Spec.ConflictResolution == policyv1alpha1.ConflictOverwrite {
			next.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
			overwrites++
		}
		if k := o.next.Spec.PreserveResourcesOnDeletion; k != nil && *k {
			preserve = true
			preserves++
		}
	}
	next.Spec.PreserveResourcesOnDeletion = nil
	if preserve {
		next.Spec.PreserveResourcesOnDeletion = &preserve
	}
	if n := len(owners); overwrites%n != 0 || preserves%n != 0 {
		p.find(b.template.Finding(render.Warning, "dependency-conflict", nil,
			"the %d bindings that need it do not agree on conflictResolution or preserveResourcesOnDeletion; Overwrite and true win", n))
	}
}

// detach takes the snapshots off a binding that nothing needs any more; without a policy of its own it goes.
func (p *pass) detach(b *bound) {
	if b == nil || b.kept {
		return
	}
	if b.next == nil {
		b.row.Message = "nothing needs it any more"
		if b.template != nil {
			p.unbound(b.template.ID, b.row.Message)
		}
		return
	}
	next := *b.next
	next.Spec.RequiredBy = nil
	b.next = &next
}

func (p *pass) dropUnbound(id api.ID) {
	p.Unbound = slices.DeleteFunc(p.Unbound, func(u Unbound) bool { return u.Template == id })
}

// Targets are the clusters of a binding: its own, then those of what needs it, each once. What has no
// replicas itself has none of those that its owners have there.
func Targets(b *workv1alpha2.ResourceBinding) []workv1alpha2.TargetCluster { return targets(b) }

func targets(b *workv1alpha2.ResourceBinding) []workv1alpha2.TargetCluster {
	all := slices.Clone(b.Spec.Clusters)
	for _, owner := range b.Spec.RequiredBy {
		for _, c := range owner.Clusters {
			if !slices.ContainsFunc(all, func(t workv1alpha2.TargetCluster) bool { return t.Name == c.Name }) {
				target := workv1alpha2.TargetCluster{Name: c.Name}
				if b.Spec.Replicas > 0 {
					target.Replicas = c.Replicas
				}
				all = append(all, target)
			}
		}
	}
	return all
}
