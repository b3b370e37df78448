package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/policy"
)

// CodeDeletionHeld is that of a member with deletions that the brake holds.
const CodeDeletionHeld = "deletion-held"

// Codes of Effects.
const (
	codeImmutable      = "immutable-field"
	codeKept           = "kept-on-member"
	codeRecreate       = "recreate"
	codeMemberLost     = "member-lost"
	codeMemberGained   = "member-gained"
	codeMemberChanged  = "member-changed"
	codePolicyTakeover = "policy-takeover"
	codePolicyLost     = "policy-lost"
	codeFailoverLost   = "failover-lost"
	codeFailoverGained = "failover-gained"
	codeUncompared     = "secrets-not-compared"
	// CodeNotPlaced is that of a workload that cannot be placed as wanted; its object is the template.
	CodeNotPlaced = "not-placed"
	// codeInterpreterChanged is that of Interpretation.
	codeInterpreterChanged = "interpreter-changed"
)

// Effects are what a change does that the decision's rows do not say, for a person who is to agree to it:
// what is refused or created anew, members that come and go, workloads that pass to another policy, find no
// place, or lose or gain their failover. Previous is the state that the decision was made on. An effect is a
// warning where something is lost, else an info, at the file it comes from; it is no fault of the input.
func (d *Decision) Effects(previous *record.State) []render.Finding {
	if previous == nil {
		previous = record.New()
	}
	e := &effects{Decision: d, previous: previous}
	e.frozen()
	e.refusals()
	e.members()
	e.bindings()
	e.secrets()
	slices.SortFunc(e.found, render.Finding.Compare)
	return slices.Compact(e.found)
}

type effects struct {
	*Decision
	previous *record.State
	found    []render.Finding
}

// about is a finding about an object, at its place in the source if it is there.
func (e *effects) about(id api.ID, severity render.Severity, code string, path []string, format string, args ...any) {
	if o := e.sources.all[id.Unversioned()]; o != nil {
		e.found = append(e.found, o.Finding(severity, code, path, format, args...))
		return
	}
	e.found = append(e.found, render.Finding{Severity: severity, Code: code, Object: id.String(), Message: fmt.Sprintf(format, args...)})
}

// frozen finds works with another value in a field that cannot be changed in place.
func (e *effects) frozen() {
	type pair struct{ old, next record.Hash }
	type effect struct {
		code   string
		fields string
	}
	type about struct {
		id api.ID
		effect
	}
	known := map[pair][]effect{}
	on, order := map[about][]string{}, []about{}
	for _, row := range e.Works {
		if row.Change != Updated || frozen[frozenKind(row.ID)] == nil {
			continue
		}
		old, next := e.previous.Works[row.Path], e.Next.Works[row.Path]
		if next.Suspended {
			continue // nothing is sent
		}
		if e.refused(row) {
			continue // the record is not what is there
		}
		hashes := pair{old.Hash, next.Hash}
		found, ok := known[hashes]
		if !ok {
			before, errBefore := shownObject(old)
			after, errAfter := shownObject(next)
			if errBefore != nil || errAfter != nil {
				continue // the record is damaged; others say so
			}
			before = asLive(before)
			asked := Frozen(before, after)
			refused := asked
			// Some kinds keep what the member has.
			if kept, err := e.Rules.Retain(after, before); err == nil {
				refused = Frozen(before, kept)
				if fieldAt(before, headless) == "None" && fieldAt(after, headless) == nil && fieldAt(kept, headless) == "None" {
					asked = append(asked, headless)
				}
			}
			if len(refused) > 0 {
				code := codeImmutable
				if annotationOf(after, AnnotationRecreate) == "allowed" {
					code = codeRecreate
				}
				found = append(found, effect{code, strings.Join(refused, " ")})
			}
			if kept := slices.DeleteFunc(slices.Clone(asked), func(f string) bool { return slices.Contains(refused, f) }); len(kept) > 0 {
				found = append(found, effect{codeKept, strings.Join(kept, " ")})
			}
			known[hashes] = found
		}
		for _, f := range found {
			a := about{row.ID, f}
			if on[a] == nil {
				order = append(order, a)
			}
			on[a] = append(on[a], row.Cluster)
		}
	}
	for _, a := range order {
		fields := strings.Fields(a.fields)
		path, with := strings.Split(fields[0], "."), ""
		if len(fields) > 1 {
			with = ", with " + named(fields[1:], len(fields)-1)
		}
		members, severity := some(on[a]), render.Warning
		switch a.code {
		case codeImmutable:
			e.about(a.id, severity, a.code, path, "changes%s and cannot be changed in place: %s will refuse it, and what runs there stays as it is; undo the change, or let godwit delete the object and create it anew with the annotation %s: allowed", with, members, AnnotationRecreate)
		case codeRecreate:
			along := ""
			if guarded(a.id) {
				along = ", with what is in it"
			}
			e.about(a.id, severity, a.code, path, "changes%s and cannot be changed in place: the object is deleted%s and created anew on %s, as its annotation %s allows", with, along, members, AnnotationRecreate)
		case codeKept:
			e.about(a.id, severity, a.code, path, "changes%s to no effect: what is on %s keeps what it has", with, members)
		}
	}
}

// refused tells whether the member refused an earlier change of the object in place.
func (e *effects) refused(row WorkRow) bool {
	b := e.previous.Bindings[record.BindingOf(row.ID)]
	return b != nil && slices.ContainsFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool {
		return i.ClusterName == row.Cluster && !i.Applied && strings.HasPrefix(i.AppliedMessage, ReasonImmutableField+": ")
	})
}

// refusals are works that change where an earlier change was refused: nobody knows here what is there.
func (e *effects) refusals() {
	type about struct {
		id      api.ID
		allowed bool
	}
	on, order := map[about][]string{}, []about{}
	for _, row := range e.Works {
		next := e.Next.Works[row.Path]
		if row.Change != Updated || next.Suspended || !e.refused(row) {
			continue
		}
		a := about{row.ID, annotationOf(next.Object, AnnotationRecreate) == "allowed"}
		if on[a] == nil {
			order = append(order, a)
		}
		on[a] = append(on[a], row.Cluster)
	}
	for _, a := range order {
		const earlier = "an earlier change, which cannot be made in place, was refused on %s; unless this one takes it back, "
		if a.allowed {
			e.about(a.id, render.Warning, codeRecreate, nil, earlier+"the object is deleted and created anew there, as its annotation %s allows", some(on[a]), AnnotationRecreate)
		} else {
			e.about(a.id, render.Warning, codeImmutable, nil, earlier+"it is refused, too, and what runs there stays as it is", some(on[a]))
		}
	}
}

// headless is where a Service says None to have no address; it stays so when nothing is said any more.
const headless = "spec.clusterIP"

// shownObject is what a work says where the record shows it: a Secret has the digests of its values, which are
// all that the record has of what was there before.
func shownObject(w record.Work) (api.Object, error) {
	if w.ID.Kind == "Secret" && w.Text != nil {
		w.Object = nil
	}
	w, err := record.Identify(w)
	return w.Object, err
}

func annotationOf(o api.Object, name string) string {
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	s, _ := annotations[name].(string)
	return s
}

// members finds those that come and go. Of the first fleet that is seen nothing is told: all of it is new.
func (e *effects) members() {
	works := map[string]map[Change]int{}
	for _, w := range e.Works {
		if works[w.Cluster] == nil {
			works[w.Cluster] = map[Change]int{}
		}
		if w.Change != Removed || !e.stays(w) {
			works[w.Cluster][w.Change]++
		}
	}
	held := map[string]int{}
	for _, h := range e.Held {
		held[h.Cluster]++
	}
	var lost []*clusterv1alpha1.Cluster
	for _, name := range sortedKeys(e.previous.Members) {
		old, next := e.previous.Members[name], e.Next.Members[name]
		if old.DeletionTimestamp != nil || next != nil && next.DeletionTimestamp == nil {
			continue
		}
		lost = append(lost, old)
		fate := "nothing is deleted there"
		if n := works[name][Removed]; n > 0 {
			fate = "what it has is deleted there: " + count(n, "object")
			if ready := readiness(old).Status; ready != metav1.ConditionTrue && ready != "" {
				fate = count(n, "object") + " there cannot be deleted and may stay, as it is " + readyText(old)
			}
		}
		if n := held[name]; n > 0 {
			fate += fmt.Sprintf("; %s held", count(n, "deletion"))
		}
		e.about(clusterID(name), render.Warning, codeMemberLost, nil, "leaves the fleet, as its manifest is gone; %s", fate)
	}
	if len(e.previous.Members) == 0 {
		return
	}
	e.repointed()
	for _, name := range sortedKeys(e.Next.Members) {
		old, next := e.previous.Members[name], e.Next.Members[name]
		if next.DeletionTimestamp != nil || old != nil && old.DeletionTimestamp == nil {
			continue
		}
		gets := "gets nothing yet"
		if n := works[name][Added]; n > 0 {
			gets = "gets " + count(n, "object")
		}
		twin := slices.IndexFunc(lost, func(c *clusterv1alpha1.Cluster) bool { return sameCluster(c, next) })
		if twin < 0 {
			e.about(clusterID(name), render.Info, codeMemberGained, nil, "joins the fleet and %s", gets)
			continue
		}
		e.about(clusterID(name), render.Warning, codeMemberGained, nil,
			"joins the fleet and %s; it is the cluster that %s was: what is deleted there under the old name and created under the new one is the same", gets, lost[twin].Name)
	}
}

// secrets says of how many Secrets it is not known whether their values change.
func (e *effects) secrets() {
	if n := len(e.uncompared); n > 0 {
		e.found = append(e.found, render.Finding{Severity: render.Info, Code: codeUncompared, Message: fmt.Sprintf(
			"values of %s are on record and were not compared, for want of the key that the record was made with; changes of these values alone do not show: let state.secretKeyFile name the key, or compare two revisions of the source", count(n, "Secret"))})
	}
}

// stays tells whether an object stays on the member when its work goes.
func (e *effects) stays(row WorkRow) bool {
	w, err := record.Identify(e.previous.Works[row.Path])
	return err == nil && (w.Preserve || isGeneratedNamespace(w) || preserved(e.previous, w.ID) || preserved(e.Next, w.ID))
}

func clusterID(name string) api.ID {
	return api.ID{Group: clusterv1alpha1.Group, Kind: "Cluster", Name: name}
}

// sameCluster tells whether two members are one cluster under two names.
func sameCluster(a, b *clusterv1alpha1.Cluster) bool {
	return a.Spec.ID != "" && a.Spec.ID == b.Spec.ID || a.Spec.APIEndpoint != "" && a.Spec.APIEndpoint == b.Spec.APIEndpoint
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bindings finds what happens to workloads beside where they run. What happens to many for one reason is told once.
func (e *effects) bindings() {
	type about struct {
		code   string
		policy policy.Claim
		words  string
	}
	held := e.heldOn()
	names, order := map[about][]api.ID{}, []about{}
	gather := func(code string, held *workv1alpha2.PolicyReference, words string, id api.ID) {
		a := about{code: code, words: words}
		if held != nil {
			a.policy = policyClaim(held)
		}
		if names[a] == nil {
			order = append(order, a)
		}
		names[a] = append(names[a], id)
	}
	for _, row := range e.Bindings {
		old, next := e.previous.Bindings[row.Key], e.Next.Bindings[row.Key]
		if next == nil || row.Change == Removed {
			continue
		}
		e.notPlaced(row, old, next, held[row.Template.Unversioned()])
		if old == nil {
			continue
		}
		switch was, is := old.Spec.Policy, next.Spec.Policy; {
		case was == nil || is != nil && policyClaim(was) == policyClaim(is):
		case is == nil && next.Spec.Placement != nil: // what only follows others needs none
			gather(codePolicyLost, nil, e.lostPolicy(policyClaim(was)), row.Template)
		case is != nil:
			gather(codePolicyTakeover, is, e.taken(policyClaim(was), row.Template), row.Template)
		}
		before, after := failover.TermsOf(&old.Spec, e.terms), failover.TermsOf(&next.Spec, e.terms)
		if lost := termsText(before, after); lost != "" {
			gather(codeFailoverLost, next.Spec.Policy, lost, row.Template)
		}
		if gained := termsText(after, before); gained != "" {
			gather(codeFailoverGained, next.Spec.Policy, gained, row.Template)
		}
	}
	for _, a := range order {
		words := make([]string, len(names[a]))
		for i, id := range names[a] {
			words[i] = id.String()
		}
		all, severity, path, message := some(words), render.Warning, []string{"spec", "failover"}, ""
		leave := "leave"
		if len(words) == 1 {
			leave = "leaves"
		}
		switch a.code {
		case codePolicyTakeover:
			path, message = []string{"spec", "resourceSelectors"}, "takes over "+all+" from "+a.words
		case codePolicyLost:
			message = a.words + ", no longer holds " + all + ", and no other policy does; what runs stays as it is"
		case codeFailoverLost:
			message = all + " no longer " + leave + " members " + a.words
		case codeFailoverGained:
			severity, message = render.Info, all+" "+leave+" members "+a.words+" from now on"
		}
		if holder := e.sources.policies.value.Get(a.policy); holder != nil {
			f := holder.Source.Finding(severity, a.code, nil, "%s", message)
			f.Line = holder.Source.Line(path...)
			e.found = append(e.found, f)
		} else {
			e.about(names[a][0], severity, a.code, nil, "%s", message)
		}
	}
}

// taken says from whom a template passes to another policy, and why.
func (e *effects) taken(from policy.Claim, id api.ID) string {
	set := e.sources.policies.value
	if t := e.sources.all[id.Unversioned()]; t != nil && set.Get(from) != nil {
		choice := set.Choose(policy.Template{ID: t.ID, Labels: labelsOf(t.Content)}, from, policy.Options{})
		if choice.Preempted != nil {
			return from.String() + ", by preemption"
		}
	}
	return e.lostPolicy(from)
}

func (e *effects) lostPolicy(from policy.Claim) string {
	if e.sources.policies.value.Get(from) == nil {
		return from.String() + ", which is gone"
	}
	return from.String() + ", which no longer selects it"
}

// termsText says what a workload leaves for by one kind of terms and not by another; empty if there is nothing.
func termsText(terms, but failover.Terms) string {
	var words []string
	if terms.Unhealthy && !but.Unhealthy {
		words = append(words, "where copies are unhealthy")
	}
	ready, reach := terms.NotReady && !but.NotReady, terms.Unreachable && !but.Unreachable
	switch {
	case ready && reach:
		words = append(words, "that are down")
	case ready:
		words = append(words, "that are not ready")
	case reach:
		words = append(words, "that cannot be reached")
	}
	return strings.Join(words, " or ")
}

// notPlaced tells of a workload that finds no place, or too little, unless that was so before and nothing changes.
// Held are members where its deletion is held.
func (e *effects) notPlaced(row BindingRow, old, next *workv1alpha2.ResourceBinding, held []string) {
	if row.Failure == "" || old != nil && row.Change == Unchanged && scheduledReason(old) == row.Failure {
		return
	}
	var got int32
	for _, c := range next.Spec.Clusters {
		got += c.Replicas
	}
	stays := "it runs nowhere"
	switch {
	case len(next.Spec.Clusters) > 0 && got < next.Spec.Replicas && divided(next.Spec.Placement):
		stays = fmt.Sprintf("it stays on %s, %d of %d replicas", targetsText(next.Spec.Clusters), got, next.Spec.Replicas)
	case len(next.Spec.Clusters) > 0:
		stays = "it stays on " + targetsText(next.Spec.Clusters)
	case len(held) > 0:
		stays = "it " + stillRuns(held)
	}
	e.about(row.Template, render.Warning, CodeNotPlaced, nil, "%s: %s; %s", row.Failure, cmp.Or(row.Message, "it cannot be placed"), stays)
}

// scheduledReason is why a binding was not scheduled; empty if it was.
func scheduledReason(b *workv1alpha2.ResourceBinding) string {
	for _, c := range b.Status.Conditions {
		if c.Type == workv1alpha2.ConditionScheduled && c.Status == metav1.ConditionFalse {
			return c.Reason
		}
	}
	return ""
}
