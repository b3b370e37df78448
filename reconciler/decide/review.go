package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Stays tells whether the object of a work that is removed stays on its member: it is only released. Previous is
// the state that the decision was made on.
func (d *Decision) Stays(previous *record.State, row WorkRow) bool {
	e := effects{Decision: d, previous: previous}
	return row.Change == Removed && e.stays(row)
}

// Messages say in a sentence why each binding is what it is, by key: what its row says or, where that is nothing
// and it changes, what became another than in the previous state, which the decision was made on. What is not
// wanted somewhere and still runs there, as its deletion is held, is told of, too.
func (d *Decision) Messages(previous *record.State) map[record.BindingKey]string {
	if previous == nil {
		previous = record.New()
	}
	e := &effects{Decision: d, previous: previous}
	held, on := e.heldOn(), map[api.ID][]string{}
	for _, w := range d.Works {
		if w.Change == Updated {
			on[w.ID.Unversioned()] = append(on[w.ID.Unversioned()], w.Cluster)
		}
	}
	messages := make(map[record.BindingKey]string, len(d.Bindings))
	for _, row := range d.Bindings {
		message := row.Message
		switch row.Change {
		case Moved, Scaled, Updated:
			if row.Failure == "" && (message == "" || message == standing[schedule.Standing]) {
				message = e.reason(row, on[row.Template.Unversioned()])
			}
		}
		if still := held[row.Template.Unversioned()]; len(still) > 0 && (row.Change != Unchanged || row.Failure != "") {
			if message != "" {
				message += "; "
			}
			message += stillRuns(still)
		}
		messages[row.Key] = message
	}
	return messages
}

// heldOn are the members of templates where a deletion is held.
func (e *effects) heldOn() map[api.ID][]string {
	on := map[api.ID][]string{}
	for _, h := range e.Held {
		on[h.ID.Unversioned()] = append(on[h.ID.Unversioned()], h.Cluster)
	}
	return on
}

func stillRuns(members []string) string {
	return "still runs on " + some(members) + " while its deletion is held"
}

// reason is why a binding that was there changes; updated are the members whose copy does.
func (e *effects) reason(row BindingRow, updated []string) string {
	old, next := e.previous.Bindings[row.Key], e.Next.Bindings[row.Key]
	if old == nil || next == nil {
		return ""
	}
	var why []string
	for _, c := range row.Evicted {
		why = append(why, "leaves "+c.Cluster+": "+c.Short)
	}
	why = append(why, e.termsNews(row, old, next)...)
	if row.Change != Updated {
		why = append(why, e.fleetNews(row, len(why) > 0)...)
	}
	template := old.Annotations[annotationTemplate] != next.Annotations[annotationTemplate]
	if template && (row.Change == Updated || len(why) == 0) && old.Spec.Replicas == next.Spec.Replicas {
		why = append(why, "the template changed")
	}
	if len(why) > 0 {
		return strings.Join(why, "; ")
	}
	if len(updated) == 0 {
		return "what the members report changed"
	}
	var names []string
	if t := e.sources.all[row.Template.Unversioned()]; t != nil {
		names = e.sources.overrides.value.Selecting(t.ID, labelsOf(t.Content))
	}
	if len(names) == 0 {
		return "no override applies any more, or it is rendered in another way, on " + some(updated)
	}
	return "what overrides make of it changed on " + some(updated) + ": " + some(names)
}

// termsNews are the fields of a binding that say something else now, and where that comes from.
func (e *effects) termsNews(row BindingRow, old, next *workv1alpha2.ResourceBinding) []string {
	var why []string
	was, is := old.Spec.Policy, next.Spec.Policy
	another := is != nil && (was == nil || policyClaim(was) != policyClaim(is))
	switch {
	case another && was == nil:
		why = append(why, policyClaim(is).String()+" takes it")
	case another:
		why = append(why, policyClaim(is).String()+" takes it over from "+e.taken(policyClaim(was), row.Template))
	case is == nil && was != nil && next.Spec.Placement != nil:
		why = append(why, "no policy holds it any more, it was held by "+e.lostPolicy(policyClaim(was)))
	}
	var said, needs []string
	for _, field := range differences(old.Spec, next.Spec) {
		switch field {
		case "placement":
			for _, f := range differences(placementOf(old), placementOf(next)) {
				said = append(said, "placement."+f)
			}
		case "propagateDeps", "schedulerName", "failover", "conflictResolution", "suspension", "preserveResourcesOnDeletion", "schedulePriority", "workloadAffinityGroups":
			said = append(said, field)
		case "replicas":
			needs = append(needs, fmt.Sprintf("the template's replicas changed from %d to %d", old.Spec.Replicas, next.Spec.Replicas))
		case "replicaRequirements", "components":
			needs = append(needs, "what the template asks of members changed")
		case "resource":
			if old.Spec.Resource.APIVersion != next.Spec.Resource.APIVersion {
				needs = append(needs, "the template's apiVersion changed to "+next.Spec.Resource.APIVersion)
			}
		case "requiredBy":
			needs = append(needs, "what needs it changed")
		case "gracefulEvictionTasks":
			if len(row.Evicted) == 0 && len(next.Spec.GracefulEvictionTasks) < len(old.Spec.GracefulEvictionTasks) {
				needs = append(needs, "a copy that it leaves behind may go now")
			}
		}
	}
	if len(said) > 0 && !another {
		why = append(why, "the policy changed: "+some(said))
	}
	why = append(why, slices.Compact(needs)...)
	if by := next.Annotations[annotationRebalanced]; by != old.Annotations[annotationRebalanced] {
		why = append(why, "a WorkloadRebalancer asks for it")
	}
	return why
}

func placementOf(b *workv1alpha2.ResourceBinding) policyv1alpha1.Placement {
	if b.Spec.Placement == nil {
		return policyv1alpha1.Placement{}
	}
	return *b.Spec.Placement
}

// fleetNews is what happened to members that a binding leaves or comes to: that they come or go and, where nothing
// else explains the change, what else is another about them or, if nothing is, about the others.
func (e *effects) fleetNews(row BindingRow, explained bool) []string {
	before, after := names(row.Previous), names(row.Clusters)
	var why []string
	tell := func(members []string) {
		for _, name := range members {
			if news := memberNews(e.previous.Members[name], e.Next.Members[name], !explained); news != "" {
				why = append(why, name+" "+news)
			}
		}
	}
	var turned []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(before, after...)))) {
		if slices.Contains(before, name) != slices.Contains(after, name) {
			turned = append(turned, name)
		}
	}
	if tell(turned); len(why) > 0 || explained {
		return why
	}
	all := maps.Clone(e.previous.Members)
	maps.Copy(all, e.Next.Members)
	tell(sortedKeys(all))
	if len(why) > shown {
		why = append(why[:shown], "other members changed, too")
	}
	return why
}

// memberNews says what became another about a member, as scheduling sees it; without all, only that it comes or goes.
func memberNews(old, next *clusterv1alpha1.Cluster, all bool) string {
	switch gone := next == nil || next.DeletionTimestamp != nil; {
	case gone && (old == nil || old.DeletionTimestamp != nil):
		return ""
	case gone:
		return "left the fleet"
	case old == nil || old.DeletionTimestamp != nil:
		return "joined the fleet"
	case !all:
		return ""
	}
	var changed []string
	if !maps.Equal(old.Labels, next.Labels) {
		changed = append(changed, "labels")
	}
	for _, f := range differences(old.Spec, next.Spec) {
		switch f {
		case "provider", "region", "zone", "zones", "taints":
			changed = append(changed, f)
		}
	}
	ready := readiness(old).Status != readiness(next).Status
	switch {
	case len(changed) > 0:
		return "has other " + some(changed)
	case ready && readiness(next).Status == metav1.ConditionTrue:
		return "is ready again"
	case ready:
		return "is " + readyText(next)
	case !semanticEqual(old.Status.APIEnablements, next.Status.APIEnablements):
		return "serves other APIs"
	case !semanticEqual(old.Status.ResourceSummary, next.Status.ResourceSummary), !semanticEqual(old.Spec.ResourceModels, next.Spec.ResourceModels):
		return "has other room"
	}
	return ""
}

// AboutMember tells whether an effect is that a member comes, goes, or is reached in another way.
func AboutMember(f render.Finding) bool {
	return f.Code == codeMemberGained || f.Code == codeMemberLost || f.Code == codeMemberChanged
}

// repointed finds members that are reached in another way: what is there may be another cluster.
func (e *effects) repointed() {
	for _, name := range sortedKeys(e.Next.Members) {
		old, next := e.previous.Members[name], e.Next.Members[name]
		if old == nil || old.DeletionTimestamp != nil || next.DeletionTimestamp != nil {
			continue
		}
		fields := connectionChanges(old, next)
		if len(fields) == 0 {
			continue
		}
		e.about(clusterID(name), render.Warning, codeMemberChanged, fields[0], "changes%s: godwit reaches it in another way; if that is another cluster, what the record has there is created anew, and what the old one has stays", along(fields[1:]))
	}
}

// along names more fields.
func along(fields [][]string) string {
	if len(fields) == 0 {
		return ""
	}
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = manifest.Dotted(f)
	}
	return ", with " + some(words)
}

// connectionChanges are the fields by which a member is reached and written to that differ.
// What they say is not told: a proxy's header or address may hold a password.
func connectionChanges(old, next *clusterv1alpha1.Cluster) [][]string {
	var fields [][]string
	annotations := map[string]string{}
	maps.Copy(annotations, old.Annotations)
	maps.Copy(annotations, next.Annotations)
	for _, a := range sortedKeys(annotations) {
		if strings.HasPrefix(a, "godwit.dev/") && a != annotationPolicyTaints && old.Annotations[a] != next.Annotations[a] {
			fields = append(fields, []string{"metadata", "annotations", a})
		}
	}
	for _, f := range differences(old.Spec, next.Spec) {
		switch f {
		case "syncMode", "apiEndpoint", "secretRef", "impersonatorSecretRef", "insecureSkipTLSVerification", "proxyURL", "proxyHeader":
			fields = append(fields, []string{"spec", f})
		}
	}
	if old.Spec.ID != "" && old.Spec.ID != next.Spec.ID {
		fields = append(fields, []string{"spec", "id"})
	}
	return fields
}

// Interpretation tells which rules of the source say something else of a kind than those of the base, which
// another decision was made on.
func (d *Decision) Interpretation(base *Decision) []render.Finding {
	before := map[api.ID]*manifest.Object{}
	for _, o := range base.sources.rules.objects {
		before[o.ID.Unversioned()] = o
	}
	var found []render.Finding
	tell := func(o *manifest.Object, what string, judged []string) {
		if len(judged) > 0 {
			found = append(found, o.Finding(render.Info, codeInterpreterChanged, nil, "%s %s", what, strings.Join(judged, "; ")))
		}
	}
	for _, o := range d.sources.rules.objects {
		old := before[o.ID.Unversioned()]
		delete(before, o.ID.Unversioned())
		if old == nil {
			tell(o, "now says what becomes of", judgements(o.Content, nil))
			continue
		}
		tell(o, "says something else of", judgements(o.Content, old.Content))
	}
	for _, o := range before {
		f := render.Finding{Severity: render.Info, Code: codeInterpreterChanged, Object: o.ID.String()}
		if judged := judgements(o.Content, nil); len(judged) > 0 {
			f.Message = "is gone, and no longer says what becomes of " + strings.Join(judged, "; ")
			found = append(found, f)
		}
	}
	slices.SortFunc(found, render.Finding.Compare)
	return found
}

// judgements are the kinds and operations of a customization or a configuration of webhooks that differ from
// those of another version of it, as "Kind: operation, operation".
func judgements(now, old api.Object) []string {
	if webhooks, ok := now["webhooks"].([]any); ok {
		was, _ := old["webhooks"].([]any)
		var judged []string
		for _, w := range webhooks {
			if slices.ContainsFunc(was, func(o any) bool { return semanticEqual(o, w) }) {
				continue
			}
			webhook, _ := w.(map[string]any)
			rules, _ := webhook["rules"].([]any)
			for _, r := range rules {
				rule, _ := r.(map[string]any)
				judged = append(judged, texts(rule["kinds"])+": "+texts(rule["operations"]))
			}
		}
		if len(judged) == 0 && len(was) > len(webhooks) {
			judged = append(judged, "fewer kinds")
		}
		return judged
	}
	spec, _ := now["spec"].(map[string]any)
	was, _ := old["spec"].(map[string]any)
	target, _ := spec["target"].(map[string]any)
	rules, _ := spec["customizations"].(map[string]any)
	then, _ := was["customizations"].(map[string]any)
	if !semanticEqual(spec["target"], was["target"]) {
		then = nil
	}
	all := map[string]any{}
	maps.Copy(all, then)
	maps.Copy(all, rules)
	var operations []string
	for _, op := range sortedKeys(all) {
		if !semanticEqual(rules[op], then[op]) {
			operations = append(operations, op)
		}
	}
	if len(operations) == 0 {
		return nil
	}
	kind, _ := target["kind"].(string)
	return []string{kind + ": " + strings.Join(operations, ", ")}
}

// texts joins a list of strings.
func texts(list any) string {
	items, _ := list.([]any)
	words := make([]string, 0, len(items))
	for _, i := range items {
		if s, ok := i.(string); ok {
			words = append(words, s)
		}
	}
	return strings.Join(words, ", ")
}
