package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/work"
)

const (
	// Manager is our field manager.
	Manager = "godwit"
	// handover holds a replica count while we let go of it, until the autoscaler takes it.
	handover = "godwit-handover"

	// LabelRetainReplicas on a template says that somebody on the member sets spec.replicas.
	LabelRetainReplicas = "resourcetemplate.karmada.io/retain-replicas"
	// AnnotationRecreate: "allowed" on a template lets a change of an immutable field delete the object first.
	AnnotationRecreate = decide.AnnotationRecreate
)

// Work is one object that a member should have.
type Work struct {
	// ID with version.
	ID api.ID
	// Object is what to apply, marks included.
	Object api.Object
	// Hash changes when Object does.
	Hash string
	// Overwrite: adopt an object that is not ours, and take fields that others hold.
	Overwrite bool
	// Suspended: nothing is sent; what is there is still observed.
	Suspended bool
	// Retain leaves spec.replicas to whoever sets it on the member. The fleet sets it for the scale
	// targets of autoscalers among the works; the label of the object says the same.
	Retain bool
	// Rules are asked what the object keeps from the member; nil means nothing but what an apply leaves
	// alone anyway.
	Rules *interpret.Interpreter
}

// Known is what this process remembers of an object it applied. A value is never changed; nil means
// that it has not applied the object yet.
type Known struct {
	// UID of the object that was applied to.
	UID string
	// Work that was applied last.
	Work Work
	// taken counts how often a field was taken back from a manager that declares it as well.
	taken map[contest]int
	// settled differences were there right after the apply: the server has its own way with them.
	settled map[string]bool
}

// contest is a field that a manager and we both declare.
type contest struct{ manager, field string }

// contestLimit is how often a field is taken back from a manager that declares it. It comes back each time
// the other one does the same, and neither would ever give in.
const contestLimit = 3

// Forgive is what is known less the fields that others took back again and again.
func (k *Known) Forgive() *Known {
	if k == nil || len(k.taken) == 0 {
		return k
	}
	calm := *k
	calm.taken = nil
	return &calm
}

// taking is what is known once an apply that takes these differences went through.
func (k *Known) taking(differences []Difference, before *Known) *Known {
	if before != nil {
		k.taken = maps.Clone(before.taken)
	}
	for _, d := range differences {
		for _, h := range d.Holders {
			if d.Kind == Changed && h.declares() {
				if k.taken == nil {
					k.taken = map[contest]int{}
				}
				k.taken[contest{h.Manager, d.Field.String()}]++
			}
		}
	}
	return k
}

// contested tells whether one of those who hold the field takes it back whenever we put it right.
func (k *Known) contested(d Difference) bool {
	return k != nil && slices.ContainsFunc(d.Holders, func(h Holder) bool {
		return k.taken[contest{h.Manager, d.Field.String()}] >= contestLimit
	})
}

// of tells whether it is this very work that was applied.
func (k *Known) of(w Work) bool { return k.Work.Hash == w.Hash && retains(k.Work) == retains(w) }

// leave remembers that the work was found done.
func (k *Known) leave(w Work, live api.Object) *Known {
	if k != nil && k.of(w) && k.UID == meta(live, "uid") {
		return k
	}
	left := &Known{UID: meta(live, "uid"), Work: w}
	if k != nil {
		left.taken = k.taken
	}
	return left
}

// Check tells from a live object, with its managedFields, that nothing has to be done about a work, and what is
// known then. False means that Apply has to look.
func Check(w Work, live api.Object, known *Known, fleet string) (*Known, bool) {
	if live == nil {
		return known, false
	}
	w, err := w.keeping(live)
	if err != nil || Decide(w, live, known, fleet).Act != Leave {
		return known, false
	}
	return known.leave(w, live), true
}

// Act is what to do about a work.
type Act string

const (
	// Leave: everything is as wanted.
	Leave Act = "leave"
	// Create: nothing is there.
	Create Act = "create"
	// Update: it is ours and differs.
	Update Act = "update"
	// Adopt: it is not ours and the policy says Overwrite.
	Adopt Act = "adopt"
	// Refuse: writing would touch what is another's.
	Refuse Act = "refuse"
	// Wait: it is there, but about to go away.
	Wait Act = "wait"
)

// Plan is what to do about a work, and why.
type Plan struct {
	Act Act
	// Object is what to send for Create, Update and Adopt.
	Object api.Object
	// Force takes fields from other managers.
	Force bool
	// HandOver: let the replica count be held by another manager before we let go of it.
	HandOver bool
	// Differences between what is wanted and what is there, those that are settled left out.
	Differences []Difference
	// Reason and Message of Refuse and Wait, in the words of CopyFacts.
	Reason, Message string
}

// Decide says what to do about a work, given the live object (nil: there is none) and what is known
// of it. Fleet is the name in our marks.
func Decide(w Work, live api.Object, known *Known, fleet string) Plan {
	if live == nil {
		return Plan{Act: Create, Object: sent(w, false)}
	}
	if meta(live, "deletionTimestamp") != "" {
		return Plan{Act: Wait, Reason: decide.ReasonFailed, Message: "is being deleted on the member" + finalizers(live) + "; it is applied again once it is gone"}
	}
	object := sent(w, true)
	differences := Compare(object, live)
	owned := ours(live, known, fleet)
	switch {
	case !owned && !w.Overwrite:
		return Plan{Act: Refuse, Differences: differences, Reason: decide.ReasonNotOurs, Message: notOurs(live, differences, fleet)}
	case !owned:
		return Plan{Act: Adopt, Object: guarded(object, live), Force: true, HandOver: handsOver(w, live), Differences: differences}
	}
	differences = unsettled(differences, w, known)
	if len(differences) == 0 {
		return Plan{Act: Leave}
	}
	plan := Plan{Act: Update, Object: object, HandOver: handsOver(w, live), Differences: differences}
	var refused []Difference
	for _, d := range differences {
		if d.Kind != Changed || len(d.Holders) == 0 {
			continue
		}
		plan.Force = true
		if !takes(d, w, known) {
			refused = append(refused, d)
		}
	}
	switch {
	case len(refused) > 0:
		return Plan{Act: Refuse, Differences: differences, Reason: decide.ReasonConflict, Message: conflict(refused, known, live)}
	case plan.Force:
		plan.Object = guarded(object, live)
	}
	return plan
}

// rules say, in order, whether a wanted field is taken from the managers that hold it. See the
// package comment for the reasons.
var rules = []struct {
	take  bool
	holds func(Difference, Work, *Known) bool
}{
	{false, func(d Difference, _ Work, k *Known) bool { return k.contested(d) }},
	{true, func(_ Difference, w Work, _ *Known) bool { return w.Overwrite }},
	{true, func(d Difference, _ Work, k *Known) bool { return k != nil && d.Field.in(sent(k.Work, false)) }},
	{true, func(d Difference, _ Work, k *Known) bool {
		return k == nil && !slices.ContainsFunc(d.Holders, Holder.declares)
	}},
	{false, func(Difference, Work, *Known) bool { return true }},
}

func takes(d Difference, w Work, known *Known) bool {
	for _, rule := range rules {
		if rule.holds(d, w, known) {
			return rule.take
		}
	}
	return false
}

// ours tells whether we may write to the object: it has our marks, or we applied this very object and
// somebody took the marks off.
func ours(live api.Object, known *Known, fleet string) bool {
	return work.Owned(live, fleet) || known != nil && known.UID != "" && known.UID == meta(live, "uid")
}

// unsettled leaves out the differences that were there right after the same work was applied.
func unsettled(differences []Difference, w Work, known *Known) []Difference {
	if known == nil || len(known.settled) == 0 || !known.of(w) {
		return differences
	}
	var left []Difference
	for _, d := range differences {
		if !known.settled[d.key()] {
			left = append(left, d)
		}
	}
	return left
}

// remember makes the memory of a work that was applied with this result.
func remember(w Work, result api.Object) *Known {
	known := &Known{UID: meta(result, "uid"), Work: w}
	for _, d := range Compare(sent(w, true), result) {
		if known.settled == nil {
			known.settled = map[string]bool{}
		}
		known.settled[d.key()] = true
	}
	return known
}

// sent is the object as it is applied: without the replica count if somebody on the member sets it,
// though a new object begins with it; and a Secret with its stringData where the server keeps it, as
// managedFields would note a field that is never there.
func sent(w Work, exists bool) api.Object {
	o := w.Object
	if exists && retains(w) {
		o = without(o, "spec", "replicas")
	}
	if w.ID.Group == "" && w.ID.Kind == "Secret" {
		o = withData(o)
	}
	return o
}

func retains(w Work) bool { return w.Retain || label(w.Object, LabelRetainReplicas) == "true" }

// handsOver tells whether applying without the replica count would take the count from the object,
// because nobody but us holds it.
func handsOver(w Work, live api.Object) bool {
	if !retains(w) {
		return false
	}
	field := Field{"f:spec", "f:replicas"}
	mine, others := claims(live)
	return mine.under(field).here && !slices.ContainsFunc(others, func(h holding) bool { return h.under(field).here })
}

// guarded makes an apply fail if the object is not the one that was looked at.
func guarded(o, live api.Object) api.Object {
	m, _ := o["metadata"].(map[string]any)
	m = maps.Clone(m)
	m["resourceVersion"] = meta(live, "resourceVersion")
	return with(o, "metadata", m)
}

func with(o api.Object, field string, v any) api.Object {
	o = maps.Clone(o)
	o[field] = v
	return o
}

func without(o api.Object, parent, field string) api.Object {
	m, _ := o[parent].(map[string]any)
	if _, ok := m[field]; !ok {
		return o
	}
	m = maps.Clone(m)
	delete(m, field)
	return with(o, parent, m)
}

func meta(o api.Object, field string) string {
	m, _ := o["metadata"].(map[string]any)
	s, _ := m[field].(string)
	return s
}

func label(o api.Object, name string) string      { return mark(o, "labels", name) }
func annotation(o api.Object, name string) string { return mark(o, "annotations", name) }

func mark(o api.Object, field, name string) string {
	m, _ := o["metadata"].(map[string]any)
	marks, _ := m[field].(map[string]any)
	s, _ := marks[name].(string)
	return s
}

func finalizers(live api.Object) string {
	m, _ := live["metadata"].(map[string]any)
	list, _ := m["finalizers"].([]any)
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it waits for %s)", strings.Join(texts(list), ", "))
}

func texts(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// conflict says who holds what.
func conflict(differences []Difference, known *Known, live api.Object) string {
	if slices.ContainsFunc(differences, known.contested) {
		text := holders(differences) + fmt.Sprintf(", and took it back %d times", contestLimit)
		if by := work.TrackedBy(live); by != "" {
			text += ": " + by + " manages this object, too"
		}
		return text + "; it is left alone until one of the two lets go: take the object, or the field, out of one of them"
	}
	return holders(differences) + "; set conflictResolution: Overwrite to take it, or leave the field out of the template"
}

func notOurs(live api.Object, differences []Difference, fleet string) string {
	if other := annotation(live, work.AnnotationFleet); other != "" && other != fleet {
		return fmt.Sprintf("is there already and belongs to the fleet %q; set conflictResolution: Overwrite to adopt it", other)
	}
	who := holders(slices.DeleteFunc(slices.Clone(differences), func(d Difference) bool { return d.Kind != Changed }))
	if who == "" {
		who = managers(live)
	}
	return "is there already and is not godwit's: " + who + "; set conflictResolution: Overwrite to adopt it"
}

// shownFields is how many fields of one manager a message names.
const shownFields = 3

func holders(differences []Difference) string {
	fields := map[string][]string{}
	for _, d := range differences {
		for _, h := range d.Holders {
			fields[h.Manager] = append(fields[h.Manager], d.Field.String())
		}
	}
	var parts []string
	for _, manager := range slices.Sorted(maps.Keys(fields)) {
		list := slices.Compact(slices.Sorted(slices.Values(fields[manager])))
		more := ""
		if n := len(list) - shownFields; n > 0 {
			list, more = list[:shownFields], fmt.Sprintf(" and %d more", n)
		}
		parts = append(parts, manager+" owns "+strings.Join(list, ", ")+more)
	}
	return strings.Join(parts, "; ")
}

// managers names who wrote an object, when no single field can be named.
func managers(live api.Object) string {
	_, others := claims(live)
	var names []string
	for _, other := range others {
		names = append(names, other.Manager)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "no manager is recorded for it"
	}
	return "its managers are " + strings.Join(names, ", ")
}
