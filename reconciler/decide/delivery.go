package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/work"
)

// Delivery says who applies the works of a member.
type Delivery string

const (
	// DeliveryPush: the reconciler does.
	DeliveryPush Delivery = "push"
	// DeliveryPull: an agent in the member does, from the state branch.
	DeliveryPull Delivery = "pull"
	// DeliveryHydrate: Argo CD or Flux does, from the state branch; the reconciler only looks.
	DeliveryHydrate Delivery = "hydrate"
)

// AnnotationDelivery on a Cluster says push or hydrate for this member; without it the configuration does. The
// Cluster on record has it where the answer is hydrate, wherever that came from.
const AnnotationDelivery = "godwit.dev/delivery"

// DeliveryOf is who applies the works of a member on record.
func DeliveryOf(c *clusterv1alpha1.Cluster) Delivery {
	switch {
	case c == nil:
	case c.Spec.SyncMode == clusterv1alpha1.Pull:
		return DeliveryPull
	case c.Annotations[AnnotationDelivery] == string(DeliveryHydrate):
		return DeliveryHydrate
	}
	return DeliveryPush
}

// ByRecord tells whether the files of works/ are all that reaches the member: what is not in them does not get
// there, and what leaves them goes.
func (d Delivery) ByRecord() bool { return d != DeliveryPush }

func (p *pass) delivery(member string) Delivery { return DeliveryOf(p.next.Members[member]) }
func (p *pass) byRecord(member string) bool     { return p.delivery(member).ByRecord() }

// deliver writes down who applies the works of a member. What cannot be understood changes nothing, and writes
// nothing to a new member.
func (p *pass) deliver(next, old *clusterv1alpha1.Cluster, find func(message string)) {
	said, ok := next.Annotations[AnnotationDelivery]
	mode := Delivery(said)
	switch {
	case !ok:
		mode = p.Options.Delivery
	case next.Spec.SyncMode == clusterv1alpha1.Pull:
		find("says nothing of a member with syncMode Pull, whose agent applies its works; remove it, or write syncMode: Push")
		return
	case mode != DeliveryPush && mode != DeliveryHydrate:
		if mode = DeliveryHydrate; old != nil {
			mode = DeliveryOf(old)
		}
		find(fmt.Sprintf("%q is not known, so that %s counts; it is push or hydrate", said, mode))
	}
	annotations := make(map[string]string, len(next.Annotations)+1)
	for key, value := range next.Annotations {
		if key != AnnotationDelivery {
			annotations[key] = value
		}
	}
	if mode == DeliveryHydrate && next.Spec.SyncMode != clusterv1alpha1.Pull {
		annotations[AnnotationDelivery] = string(DeliveryHydrate)
	}
	if len(annotations) > 0 || ok {
		next.Annotations = annotations
	}
}

// errSecretValues: a Secret cannot go where works are all that a member gets.
//
// Differs from Karmada: its agents read works from the control plane, values included.
var errSecretValues = errors.New("the member gets what is in works/ of the state branch, where values of Secrets never are")

// undeliverable says why a template cannot reach a member that gets nothing but the files of the record.
func (p *pass) undeliverable(t *manifest.Object, member string) error {
	if !work.IsSecret(t.ID) || !p.byRecord(member) {
		return nil
	}
	hint := "use a kind that fetches them there, such as ExternalSecret or SealedSecret"
	encrypted, marked := work.Encrypted(t.Content)
	switch {
	case p.delivery(member) == DeliveryPull && t.Sealed != nil:
		hint = "its agent has no keys that decrypt it; " + hint + ", or let godwit write to the member (syncMode: Push)"
	case p.delivery(member) == DeliveryPull:
	case !encrypted:
		hint = "encrypt all of them with SOPS, or " + hint
	case !marked:
		hint = "the checksum of SOPS covers labels and annotations, to which godwit adds its marks: encrypt it with mac_only_encrypted: true (sops --mac-only-encrypted)"
	case !inOrder(t):
		hint = "the checksum of SOPS covers the order of values, which works/ has sorted by name: sort them, and encrypt it again"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", errSecretValues, hint)
}

// altered says why a copy of an encrypted Secret cannot go to others as it is: it has values that SOPS did not encrypt, or not
// all that its checksum is of.
func altered(t *manifest.Object, made api.Object) error {
	if !work.IsSecret(t.ID) || work.SameValues(t.Content, made) {
		return nil
	}
	return fmt.Errorf("%w: what others decrypt has to stay as SOPS encrypted it, checksum included: let no override change data, stringData or sops; where members differ, give them a file each", errSecretValues)
}

// inOrder tells whether the values of a Secret stand in the file in the order that the record has them in.
func inOrder(t *manifest.Object) bool {
	for _, field := range []string{"data", "stringData"} {
		values, _ := t.Content[field].(map[string]any)
		last := 0
		for _, key := range canonical.Keys(values) {
			line := t.Line(field, key)
			if line < last {
				return false
			}
			last = line
		}
	}
	return true
}

// valueless tells whether a work on record would give a member a Secret without its values: it was written while the
// member was served otherwise.
func (p *pass) valueless(w record.Work, id api.ID) bool {
	if !work.IsSecret(id) || !p.byRecord(w.Member) {
		return false
	}
	w, err := record.Identify(w)
	if err != nil {
		return false // retire reports it
	}
	encrypted, _ := work.Encrypted(w.Object)
	return !encrypted
}

// outstays keeps the file of a work that is not wanted any more, if it may not go yet, and tells whether it did: where
// others apply works/, what leaves it is deleted, whatever retired/ says.
func (p *pass) outstays(path string, w record.Work, preserve bool) bool {
	if p.delivery(w.Member) != DeliveryHydrate || p.valueless(w, w.ID) {
		return false
	}
	stays, next := false, p.was(path)
	why := "it is the last copy that may work, and would be deleted"
	if preserve {
		why = "whoever applies it was not seen to know yet that the object is to stay, and would delete it"
	}
	switch {
	case p.Recorded != nil: // what was seen then says so
		next, stays = p.Recorded.Works[path]
	case preserve:
		next, stays = p.preserved(w)
	default:
		stays = p.lastOfAll(path, w)
	}
	if stays {
		next.Preserve = preserve
		p.next.Works[path] = next
		p.find(render.Finding{Severity: render.Info, Code: "file-stays", Object: w.ID.Kind + " " + w.ID.String(), File: path,
			Message: "is not wanted on " + w.Member + " any more, and its file stays for now: " + why})
	}
	return stays
}

// preserved is a work that is to leave its object on the member: those who apply it have to be told so before
// its file goes.
func (p *pass) preserved(w record.Work) (record.Work, bool) {
	member := p.next.Members[w.Member]
	facts := p.Seen.Members[w.Member]
	c, known := facts.Copies[w.ID.Unversioned()]
	switch {
	case member.DeletionTimestamp != nil && readiness(member).Status != metav1.ConditionTrue:
		return w, false // nobody can tell any more
	case !work.Keeps(w.Object):
		text := canonical.YAML(work.Deliver(w.Object, true))
		next := w
		next.Object, next.Hash, next.Text = work.Deliver(w.Object, true), canonical.Blob(text), func() []byte { return text }
		return next, true
	case known && c.Applied == HashText(w.Hash):
		return w, false
	case known && c.Applied == "" && c.Live == nil && c.Health == "" && facts.Ready == metav1.ConditionTrue && c.Reason == ReasonNotDelivered:
		return w, false // it never came to be
	}
	return w, true
}

// lastOfAll tells whether a copy that its workload left is to stay, as that was while its member was down, and no
// other copy is known to work. Where godwit itself deletes, spares says the same of retired entries.
func (p *pass) lastOfAll(path string, w record.Work) bool {
	member := p.next.Members[w.Member]
	if _, approved := p.Previous.Meta.DeletionApproved(path); approved || p.approved || member == nil || member.DeletionTimestamp != nil {
		return false
	}
	down := readiness(member).Status != metav1.ConditionTrue
	left := func(key record.BindingKey) bool {
		now, before := p.next.Bindings[key], p.Previous.Bindings[key]
		if now == nil || before == nil || now.Spec.Failover == nil || slices.Contains(expectedClusters(now), w.Member) {
			return false
		}
		return (down || !slices.Contains(expectedClusters(before), w.Member)) && p.lastHope(now, w.Member)
	}
	key := record.BindingOf(w.ID)
	b := p.next.Bindings[key]
	switch {
	case b == nil:
		return false
	case b.Spec.Failover != nil:
		return left(key)
	}
	return slices.ContainsFunc(b.Spec.RequiredBy, func(owner workv1alpha2.BindingSnapshot) bool {
		return left(record.BindingKey{Namespace: owner.Namespace, Name: owner.Name})
	})
}

// warnOfInstance tells of an extension, such as a ServiceMonitor, that selects objects by the label that is taken off them.
// Kinds of Kubernetes' own select pods, which keep it.
func (p *pass) warnOfInstance(b *bound) {
	if p.Options.KeepInstanceLabel || !strings.Contains(b.template.Group, ".") || strings.HasSuffix(b.template.Group, ".k8s.io") {
		return
	}
	spec, _ := b.template.Content["spec"].(map[string]any)
	selector, _ := spec["selector"].(map[string]any)
	labels, _ := selector["matchLabels"].(map[string]any)
	if _, ok := labels[work.InstanceLabel]; ok {
		p.find(b.template.Finding(render.Warning, "label-taken-off", []string{"spec", "selector", "matchLabels", work.InstanceLabel},
			"is taken off copies, other than Pods and pod templates, as Argo CD may know its own objects by it: select by another label, or set tracking.stripInstanceLabel: false if no Argo CD of these members tracks by label"))
	}
}

// warnOfOthers tells of objects of ours that another delivery holds for its own.
func (p *pass) warnOfOthers() {
	on := map[api.ID][]string{}
	for _, member := range sortedKeys(p.Seen.Members) {
		for id, by := range p.Seen.Members[member].Tracked {
			on[id] = append(on[id], member+": "+by)
		}
	}
	const message = "another delivery holds it for its own, and may change or delete it: %s; take it out of one of the two"
	for id, where := range on {
		if t := p.input.all[id]; t != nil {
			p.find(t.Finding(render.Warning, "two-managers", nil, message, some(where)))
		} else {
			p.find(render.Finding{Severity: render.Warning, Code: "two-managers", Object: id.String(), Message: fmt.Sprintf(message, some(where))})
		}
	}
}
