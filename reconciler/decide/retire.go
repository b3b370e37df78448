package decide

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/work"
)

// reasonUnscheduled is why a copy is retired whose template is still there.
const reasonUnscheduled = "Unscheduled"

// approval is the trailer of a source commit that lets held deletions go.
const approval = "Godwit-Approve: delete"

// retire turns works that are no longer wanted into retired ones, unless the brake holds them, and
// drops retired ones that are confirmed gone or wanted again.
func (p *pass) retire() {
	p.approved = approves(p.Source.Message)
	live := map[string]int{} // works per member before
	gone := map[string][]string{}
	for _, works := range []map[string]record.Work{p.Previous.Works, p.Dropped} {
		for path, w := range works {
			live[w.Member]++
			if _, wanted := p.next.Works[path]; !wanted {
				gone[w.Member] = append(gone[w.Member], path)
			}
		}
	}
	approved := map[string]int{}
	for _, b := range p.Previous.Meta.Braked {
		live[b.Member], approved[b.Member] = b.Works, b.Approved
	}
	p.next.Meta.Braked = nil
	p.next.Meta.Approvals = nil // what they name goes with this pass, or is not asked for now and needs another one later
	placed := p.placedTemplates()
	for _, member := range sortedKeys(gone) {
		slices.Sort(gone[member])
		p.retireOn(member, gone[member], record.Braked{Member: member, Works: live[member], Approved: approved[member]}, placed)
	}
	for _, path := range sortedKeys(p.next.Retired) {
		p.confirm(path)
		r, still := p.next.Retired[path]
		if !still {
			continue
		}
		spared := p.spares(r)
		if spared {
			if p.Spared == nil {
				p.Spared = map[string]bool{}
			}
			p.Spared[path] = true
		}
		// Who takes it from the record has to read it there, and before its member is seen again.
		if spared = spared && (p.Options.Shared || p.delivery(r.Cluster) == DeliveryPull); spared != r.Spared {
			r.Spared = spared
			p.next.Retired[path] = r
		}
	}
	p.forget()
}

// was is the work at the path before this pass, also one that a person took out of the record.
func (p *pass) was(path string) record.Work {
	if w, ok := p.Previous.Works[path]; ok {
		return w
	}
	return p.Dropped[path]
}

// placedTemplates are the templates that run somewhere after this pass.
func (p *pass) placedTemplates() map[api.ID]bool {
	placed := make(map[api.ID]bool, len(p.bound))
	for _, b := range p.bound {
		if b.next != nil && len(targets(b.next)) > 0 {
			placed[b.row.Template.Unversioned()] = true
		}
	}
	return placed
}

// approves tells whether a commit message has the trailer.
func approves(message string) bool {
	for line := range strings.Lines(message) {
		if strings.EqualFold(strings.TrimSpace(line), approval) {
			return true
		}
	}
	return false
}

// retireOn retires the works at paths, which are sorted, of a member. Was is how many it had, and how
// many of them went since the brake took hold.
func (p *pass) retireOn(member string, paths []string, was record.Braked, placed map[api.ID]bool) {
	total := was.Works
	works, preserve, left := make([]record.Work, len(paths)), make([]bool, len(paths)), make([]bool, len(paths))
	doomed := 0
	for i, path := range paths {
		w, err := record.Identify(p.was(path))
		if err != nil {
			p.find(render.Finding{Severity: render.Error, Code: "state-file", File: path, Message: err.Error() + "; what it stands for is left alone"})
			p.next.Works[path] = p.was(path)
			total--
			continue
		}
		works[i], preserve[i] = w, w.Preserve || p.preserves(w.ID) || isGeneratedNamespace(w) || p.valueless(w, w.ID) ||
			work.Keeps(w.Object) && p.delivery(member) == DeliveryHydrate
		left[i] = !preserve[i] && !guarded(w.ID) && p.left(member, w.ID)
		switch {
		case preserve[i]:
			total--
		case !left[i]:
			doomed++
		}
	}
	doomed += was.Approved
	many := doomed > 3 && doomed*100 > total*p.Options.MaxDeletePercent
	brake, counted := p.Options.MaxDeletePercent < 100 && !p.approved, false
	for i, path := range paths {
		w := works[i]
		if w.Object == nil {
			continue
		}
		var why string
		switch {
		case !brake || preserve[i] || left[i]:
		case many:
			why = fmt.Sprintf("%d of %d works of %s would be deleted, more than %d %%", doomed, total, member, p.Options.MaxDeletePercent)
		case doomed >= total && !placed[w.ID.Unversioned()]:
			why = fmt.Sprintf("it is among the last works of %s and runs nowhere else", member)
		case guarded(w.ID):
			why = fmt.Sprintf("deleting a %s deletes what is in it", w.ID.Kind)
		}
		if by, ok := p.Previous.Meta.DeletionApproved(paths[i]); ok && why != "" {
			why = ""
			p.approvers[member] = by
		}
		if why == "" && p.outstays(path, w, preserve[i]) {
			continue
		}
		if why == "" && !preserve[i] && !left[i] {
			was.Approved++ // what goes now makes what is held no fewer in the next pass
		}
		counted = counted || why != "" && (many || doomed >= total)
		if why != "" {
			p.next.Works[path] = p.was(path)
			p.Held = append(p.Held, HeldDeletion{Cluster: member, Path: path, ID: w.ID, Message: why})
			continue
		}
		reason := reasonUnscheduled
		switch {
		case p.fleet.leaving[member]:
			reason = "MemberRemoved"
		case p.input.all[w.ID.Unversioned()] == nil && !p.input.quotas.value.has(w.ID):
			reason = "TemplateDeleted"
		}
		r := record.NewRetired(member, w.ID, p.Now, reason, preserve[i])
		r.ServiceAccount = work.AccountOf(w.Object)
		p.next.Retired[r.Path()] = r
		p.Works = append(p.Works, WorkRow{Path: path, Cluster: member, ID: w.ID, Change: Removed})
	}
	if counted {
		p.next.Meta.Braked = append(p.next.Meta.Braked, record.Braked{Member: member, Works: total, Approved: was.Approved})
	}
	if n := len(p.Held); n > 0 && p.Held[n-1].Cluster == member {
		p.find(render.Finding{Severity: render.Warning, Code: CodeDeletionHeld, Object: "Cluster " + member,
			Message: fmt.Sprintf("%s; held until \"godwit approve\" lets it go, or a source commit with the trailer %q", p.Held[n-1].Message, approval)})
	}
}

// left tells whether a copy goes because a failover took its workload off the member. That has a brake
// and a rate of its own, and went on only once the workload was placed elsewhere.
func (p *pass) left(member string, id api.ID) bool {
	key := record.BindingOf(id)
	leaves := func(b *workv1alpha2.ResourceBinding) bool { return b != nil && failover.Leaving(&b.Spec, member) }
	if leaves(p.Previous.Bindings[key]) || leaves(p.next.Bindings[key]) {
		return true
	}
	for _, b := range []*workv1alpha2.ResourceBinding{p.Previous.Bindings[key], p.next.Bindings[key]} {
		if b == nil {
			continue
		}
		for _, owner := range b.Spec.RequiredBy {
			key := record.BindingKey{Namespace: owner.Namespace, Name: owner.Name}
			if leaves(p.Previous.Bindings[key]) || leaves(p.next.Bindings[key]) {
				return true
			}
		}
	}
	return false
}

// preserves tells whether the binding that placed the object wants it to stay on the member, or wants it from now on: a
// policy may say so and take the object away in one change. A work that was read from the branch does not say so itself.
func (p *pass) preserves(id api.ID) bool { return preserved(p.Previous, id) || preserved(p.next, id) }

func preserved(s *record.State, id api.ID) bool {
	b := s.Bindings[record.BindingOf(id)]
	return b != nil && keepsObjects(&b.Spec)
}

// guarded are the kinds whose deletion takes more along than themselves.
func guarded(id api.ID) bool {
	switch {
	case id.Group == "" && (id.Kind == "Namespace" || id.Kind == "PersistentVolume" || id.Kind == "PersistentVolumeClaim"):
		return true
	case id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition":
		return true
	}
	return false
}

// isGeneratedNamespace holds for a Namespace that no binding placed: its work names none.
func isGeneratedNamespace(w record.Work) bool {
	if w.ID.Group != "" || w.ID.Kind != "Namespace" {
		return false
	}
	return work.BindingOf(w.Object) == ""
}

// confirm drops a retired entry whose object is gone or wanted again.
func (p *pass) confirm(path string) {
	r := p.next.Retired[path]
	id := r.Object.ID()
	if _, wanted := p.next.Works[record.WorkPath(r.Cluster, id)]; wanted {
		delete(p.next.Retired, path)
		return
	}
	cluster, known := p.next.Members[r.Cluster]
	_, asked := p.Previous.Retired[path]
	switch {
	case asked && p.Seen.Members[r.Cluster].Copies[id.Unversioned()].Gone:
		delete(p.next.Retired, path)
	case !known:
		delete(p.next.Retired, path) // nobody is left who could confirm
	case cluster.DeletionTimestamp != nil && readiness(cluster).Status != metav1.ConditionTrue:
		delete(p.next.Retired, path) // a member that leaves and cannot be reached keeps its objects
	}
}

// spares tells whether a copy that is to be deleted stays for now: its member was down when that was
// decided, and when it comes back no other copy may be left that works.
//
// Differs from Karmada: it deletes what it decided to delete, whatever happened since.
func (p *pass) spares(r record.Retired) bool {
	b := p.next.Bindings[record.BindingOf(r.Object.ID())]
	member := p.next.Members[r.Cluster]
	if b == nil || member == nil || member.DeletionTimestamp != nil || r.Reason != reasonUnscheduled {
		return false
	}
	if ready := readiness(member); ready.Status == metav1.ConditionTrue && !ready.LastTransitionTime.After(r.Since.Time) {
		return false // it was up, and the deletion was carried out then
	}
	if b.Spec.Failover != nil {
		return p.lastHope(b, r.Cluster)
	}
	for _, owner := range b.Spec.RequiredBy { // what a copy needs stays with it
		o := p.next.Bindings[record.BindingKey{Namespace: owner.Namespace, Name: owner.Name}]
		if o == nil || o.Spec.Failover == nil {
			continue
		}
		if _, going := p.next.Retired[record.RetiredPath(r.Cluster, templateOf(o))]; going && p.lastHope(o, r.Cluster) {
			return true
		}
	}
	return false
}

// lastHope tells whether no target of the binding is known to work while one on a member that it left
// may. A task that purges directly does not care.
func (p *pass) lastHope(b *workv1alpha2.ResourceBinding, member string) bool {
	for _, task := range b.Spec.GracefulEvictionTasks {
		if task.FromCluster == member && task.PurgeMode == policyv1alpha1.PurgeDirectly {
			return false
		}
	}
	items, ok := p.unwritten[record.BindingKey{Namespace: b.Namespace, Name: b.Name}]
	if !ok || p.delivery(member) == DeliveryPull { // what is on record follows from what is on record
		items = b.Status.AggregatedStatus
	}
	for _, item := range items {
		c := p.next.Members[item.ClusterName]
		if item.Applied && item.Health == workv1alpha2.ResourceHealthy && c != nil && readiness(c).Status == metav1.ConditionTrue {
			return false
		}
	}
	return true
}

// forget drops members that left and have nothing of ours any more.
func (p *pass) forget() {
	busy := map[string]bool{}
	for _, w := range p.next.Works {
		busy[w.Member] = true
	}
	for _, r := range p.next.Retired {
		busy[r.Cluster] = true
	}
	for name, c := range p.next.Members {
		if c.DeletionTimestamp != nil && !busy[name] {
			delete(p.next.Members, name)
		}
	}
}
