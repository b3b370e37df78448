package report

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/divide"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
	"github.com/godwit-gitops/godwit/render/work"
)

// Explanation is why one workload runs where it runs, in reading order. Text, JSON, YAML and Markdown
// all print it.
type Explanation struct {
	Resource Resource `json:"resource"`
	// Template is where it stands in the source; nil if it is gone from there.
	Template *Place `json:"template,omitempty"`
	// Binding is "namespace/name"; empty if there is none.
	Binding string `json:"binding,omitempty"`
	// Record is the decision that is explained, if that is one of the past.
	Record *Moment `json:"record,omitempty"`
	// Differs says that deciding again gives something else than what was recorded, and what.
	Differs string `json:"differs,omitempty"`

	Clusters []Target `json:"clusters"`
	Failure  string   `json:"failure,omitempty"`
	Message  string   `json:"message,omitempty"`
	// PlacedSince is the decision since which it runs where it runs.
	PlacedSince *Moment `json:"placedSince,omitempty"`
	// Copies are what was last seen of it on members.
	Copies []Copy `json:"copies,omitempty"`

	Policy    *Holder `json:"policy,omitempty"`
	PolicyWhy string  `json:"policyWhy,omitempty"`
	// Since is when the policy took the workload, as the state branch has it.
	Since      *Moment      `json:"since,omitempty"`
	PassedOver []PassedOver `json:"passedOver,omitempty"`
	// Near are policies that do not select it and come close.
	Near []Near `json:"near,omitempty"`

	// Trigger is what asked for scheduling, or why nothing did; TriggerWhy says it in words.
	Trigger    string    `json:"trigger,omitempty"`
	TriggerWhy string    `json:"triggerWhy,omitempty"`
	Tried      []Tried   `json:"tried,omitempty"`
	Members    []Verdict `json:"members,omitempty"`
	Groups     []Group   `json:"groups,omitempty"`

	Division *Division `json:"division,omitempty"`
	// Rebalance is what a WorkloadRebalancer would bring about.
	Rebalance *Rebalance `json:"rebalance,omitempty"`

	Overrides        []Override    `json:"overrides,omitempty"`
	OverridesSkipped []Skipped     `json:"overridesSkipped,omitempty"`
	OverridesNear    []Near        `json:"overridesNear,omitempty"`
	RenderErrors     []RenderError `json:"renderErrors,omitempty"`

	Needs        []Need   `json:"needs,omitempty"`
	DependencyOf []string `json:"dependencyOf,omitempty"`

	Conditions []Condition `json:"conditions,omitempty"`
	Pending    []Pending   `json:"pending,omitempty"`
	Timers     []Timer     `json:"timers,omitempty"`
	Next       []Next      `json:"next,omitempty"`

	Findings []render.Finding `json:"findings,omitempty"`
}

// Moment is a commit of the state branch.
type Moment struct {
	Commit string `json:"commit"`
	// Time is the clock of the decision, RFC 3339.
	Time    string `json:"time,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Source is the commit of the source that was in force.
	Source string `json:"source,omitempty"`
}

// Copy is what was last seen of the workload on a member.
type Copy struct {
	Cluster string `json:"cluster"`
	// Replicas it is to have there.
	Replicas int32  `json:"replicas"`
	Applied  bool   `json:"applied"`
	Message  string `json:"message,omitempty"`
	Health   string `json:"health"`
	// Delivery says who applies it where that is not godwit: hydrate or pull.
	Delivery string `json:"delivery,omitempty"`
}

// Place is where something stands in the source.
type Place struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Holder is the policy that holds the workload.
type Holder struct {
	Policy
	Place
	// Priority is spec.priority; Precision is the implicit one: by name, by labels or by kind.
	Priority  int32  `json:"priority"`
	Precision string `json:"precision,omitempty"`
	// Selector is the field that selects it.
	Selector string `json:"selector,omitempty"`
	Lazy     bool   `json:"lazy,omitempty"`
}

// PassedOver is a policy that selects the workload and does not get it.
type PassedOver struct {
	Policy string `json:"policy"`
	Place
	Priority int32  `json:"priority"`
	Why      string `json:"why"`
}

// Near is a policy that does not select the workload and comes close.
type Near struct {
	Policy string `json:"policy"`
	Place
	Why string `json:"why"`
}

// Tried is an affinity group that did not work.
type Tried struct {
	Affinity string    `json:"affinity"`
	Failure  string    `json:"failure"`
	Message  string    `json:"message"`
	Members  []Verdict `json:"members,omitempty"`
}

// Verdict is what became of a member.
type Verdict struct {
	Cluster  string `json:"cluster"`
	Outcome  string `json:"outcome"`
	Rule     string `json:"rule,omitempty"`
	Message  string `json:"message,omitempty"`
	Before   int32  `json:"before"`
	Replicas int32  `json:"replicas"`
	// Rank is the place among the candidates; 0 if it was none, or nothing was decided.
	Rank      int       `json:"rank,omitempty"`
	Score     int64     `json:"score"`
	Scores    []Score   `json:"scores,omitempty"`
	Available int64     `json:"available"`
	Estimate  *Estimate `json:"estimate,omitempty"`
	Affinity  string    `json:"affinity,omitempty"`
	Groups    []string  `json:"groups,omitempty"`
}

// Score is what a plugin gave a member.
type Score struct {
	Plugin string `json:"plugin"`
	Score  int64  `json:"score"`
}

// Estimate is for how many more replicas a member has room, and how that is known.
type Estimate struct {
	Estimator string `json:"estimator"`
	Limit     string `json:"limit,omitempty"`
	Room      int64  `json:"room"`
}

// Group is a region, provider or zone that spread constraints chose from.
type Group struct {
	Field    string   `json:"field"`
	Name     string   `json:"name"`
	Chosen   bool     `json:"chosen"`
	Score    int64    `json:"score"`
	Clusters []string `json:"clusters"`
}

// Division is how the replicas were divided, as arithmetic: over all steps, what was kept and dealt
// adds up to the result.
type Division struct {
	Strategy string   `json:"strategy"`
	Wanted   int32    `json:"wanted"`
	Before   []Target `json:"before"`
	// Afresh: a reschedule was asked for.
	Afresh bool `json:"afresh,omitempty"`
	// Withheld: the result was not put into force.
	Withheld bool   `json:"withheld,omitempty"`
	Steps    []Step `json:"steps"`
}

// Step is one division.
type Step struct {
	How    string   `json:"how"`
	For    string   `json:"for,omitempty"`
	Seats  int32    `json:"seats"`
	Weight []Weight `json:"weights,omitempty"`
	// Spared are members that were not needed.
	Spared []Weight `json:"spared,omitempty"`
	Kept   []Target `json:"kept,omitempty"`
	Dealt  []Target `json:"dealt,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

// Weight is a member with its weight, or the replicas it has room for.
type Weight struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// Rebalance is what a reschedule would decide.
type Rebalance struct {
	Clusters []Target `json:"clusters"`
	Failure  string   `json:"failure,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Changes: it would decide otherwise than what is in force.
	Changes bool `json:"changes"`
}

// Override is one step that an override policy took, for all members on which it did the same.
type Override struct {
	Clusters []string `json:"clusters"`
	Policy   string   `json:"policy"`
	Field    string   `json:"field"`
	Place
	Changed bool           `json:"changed"`
	Changes []ValueChanged `json:"changes,omitempty"`
	// Why says why it changed nothing.
	Why string `json:"why,omitempty"`
}

// ValueChanged is one value that a step changed. Values of Secrets are left out.
type ValueChanged struct {
	Path    string `json:"path"`
	Before  any    `json:"before,omitempty"`
	After   any    `json:"after,omitempty"`
	Added   bool   `json:"added,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	Hidden  bool   `json:"hidden,omitempty"`
	// Later is the step that changed it again.
	Later string `json:"later,omitempty"`
}

// Skipped is a rule that does not apply to these members.
type Skipped struct {
	Clusters []string `json:"clusters"`
	Policy   string   `json:"policy"`
	Field    string   `json:"field"`
	Place
	Why string `json:"why"`
}

// RenderError says why a member gets no new version.
type RenderError struct {
	Cluster string `json:"cluster"`
	Message string `json:"message"`
}

// Need is something that the workload refers to.
type Need struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Labels    string `json:"labels,omitempty"`
	// Along: it goes where the workload goes.
	Along   bool `json:"along"`
	Missing bool `json:"missing,omitempty"`
}

// Condition is a condition of the binding.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is empty for one that comes with the decision.
	Since string `json:"since,omitempty"`
}

// Pending is something that holds the workload up, or is still to be done.
type Pending struct {
	// What is one word: suspended, lazy, quota, held, retired, evicting, notReady, waiting, stale, brake.
	What    string `json:"what"`
	Cluster string `json:"cluster,omitempty"`
	Since   string `json:"since,omitempty"`
	Text    string `json:"text"`
}

// Timer is something that the clock brings about on a member.
type Timer struct {
	Cluster string `json:"cluster"`
	What    string `json:"what"`
	Since   string `json:"since,omitempty"`
	// Until is empty if it never ends.
	Until string `json:"until,omitempty"`
	Text  string `json:"text"`
}

// Next is what happens next by itself.
type Next struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

// shortNames are those of kubectl for kinds that are explained most.
var shortNames = map[string]string{
	"cm": "ConfigMap", "crd": "CustomResourceDefinition", "cj": "CronJob", "deploy": "Deployment", "ds": "DaemonSet", "hpa": "HorizontalPodAutoscaler",
	"ing": "Ingress", "ns": "Namespace", "pdb": "PodDisruptionBudget", "po": "Pod", "pv": "PersistentVolume", "pvc": "PersistentVolumeClaim",
	"rs": "ReplicaSet", "sa": "ServiceAccount", "sts": "StatefulSet", "svc": "Service",
}

// means tells whether the word names the kind: as it is written, in any case, in the plural, or short,
// each with or without ".group".
func means(word string, id api.ID) bool {
	word, group, grouped := strings.Cut(word, ".")
	if grouped && !strings.EqualFold(group, id.Group) {
		return false
	}
	return strings.EqualFold(word, id.Kind) || strings.EqualFold(word, id.Kind+"s") || strings.EqualFold(word, id.Kind+"es") ||
		strings.EqualFold(word, strings.TrimSuffix(id.Kind, "y")+"ies") || shortNames[strings.ToLower(word)] == id.Kind
}

// Explain explains the workload of that kind (as written, in any case, short) and name. With an empty
// namespace a cluster-scoped one is meant, or the only one of that name. The decision must have been
// made with Options.Explain.
func Explain(d *decide.Decision, kind, namespace, name string) (*Explanation, error) {
	wanted := func(id api.ID) bool {
		return means(kind, id) && id.Name == name && (namespace == "" || id.Namespace == "" || id.Namespace == namespace)
	}
	var found []*Explanation
	for _, row := range d.Bindings {
		if wanted(row.Template) {
			found = append(found, explainRow(d, row))
		}
	}
	for _, u := range d.Unbound {
		known := slices.ContainsFunc(found, func(e *Explanation) bool { return e.Resource == resource(u.Template) })
		if wanted(u.Template) && !known {
			found = append(found, explainUnbound(d, u))
		}
	}
	switch len(found) {
	case 1:
		e := found[0]
		e.findings(d)
		return e, nil
	case 0:
		for _, i := range d.Ignored {
			if wanted(i.Object.ID) {
				return nil, fmt.Errorf("%s (%s) runs nowhere: %s", i.Object.ID, i.Object.Origin, i.Why)
			}
		}
		return nil, fmt.Errorf("the source has no %s %s that policies could take; \"godwit plan -o wide\" lists what there is", kind, name)
	}
	var which []string
	for _, e := range found {
		which = append(which, e.Resource.APIVersion+" "+e.Resource.String())
	}
	return nil, fmt.Errorf("there are %d of kind %s and name %s: %s; say the namespace with -n, or the kind as kind.group", len(found), kind, name, strings.Join(which, ", "))
}

func explainUnbound(d *decide.Decision, u decide.Unbound) *Explanation {
	e := &Explanation{Resource: resource(u.Template), Clusters: []Target{}, PolicyWhy: u.Message, Message: "it runs nowhere: " + u.Message}
	if w := u.Why(); w != nil {
		e.why(w)
		if len(w.Choice.Waiting) > 0 {
			e.pend("waiting", "", time.Time{}, "it is not placed until there are the override policies %s", strings.Join(w.Choice.Waiting, ", "))
		}
	}
	e.later(d, u.Template)
	return e
}

func explainRow(d *decide.Decision, row decide.BindingRow) *Explanation {
	e := &Explanation{
		Resource: resource(row.Template), Binding: row.Key.String(), Clusters: sortedTargets(row.Clusters),
		Failure: row.Failure, Message: row.Message, PolicyWhy: row.Choice.Message, DependencyOf: row.DependencyOf,
	}
	if row.Policy != nil {
		e.Policy = &Holder{Policy: Policy{row.Policy.Kind, row.Policy.Namespace, row.Policy.Name}}
	}
	why := row.Why()
	if why != nil {
		e.why(why)
	}
	if row.Schedule != nil {
		e.schedule(row.Schedule, why)
	}
	e.leaving(row)
	e.overrides(row)
	for _, r := range row.RenderErrors {
		e.RenderErrors = append(e.RenderErrors, RenderError{r.Cluster, r.Message})
	}
	if b := d.Next.Bindings[record.BindingKey{Namespace: row.Key.Namespace, Name: row.Key.Name}]; b != nil {
		e.binding(d, b)
	}
	e.later(d, row.Template)
	return e
}

func placeOf(o *manifest.Object, path ...string) Place { return Place{o.Origin.File, o.Line(path...)} }

// why fills in the policies, the dependencies and the timers.
func (e *Explanation) why(w *decide.Why) {
	if w.Template != nil {
		at := placeOf(w.Template)
		e.Template = &at
	}
	if p := w.Choice.Policy; p != nil {
		e.Policy = &Holder{
			Policy: Policy{p.Kind, p.Namespace, p.Name}, Place: placeOf(p.Source),
			Priority: p.Priority, Precision: w.Choice.Precision.String(), Lazy: p.Lazy(),
		}
		if w.Selector >= 0 {
			at := policy.Path{"spec", "resourceSelectors"}.At(w.Selector)
			e.Policy.Selector, e.Policy.Place = manifest.Dotted(at), placeOf(p.Source, at...)
		}
	}
	for _, p := range w.Choice.PassedOver() {
		e.PassedOver = append(e.PassedOver, PassedOver{p.Policy.String(), placeOf(p.Policy.Source), p.Policy.Priority, strings.TrimPrefix(p.Why, p.Policy.String()+": ")})
	}
	for _, n := range w.Near {
		e.Near = append(e.Near, Near{n.Policy.String(), Place{n.Policy.Source.Origin.File, n.Line()}, n.Miss.String()})
	}
	for _, n := range w.NearOverrides {
		e.OverridesNear = append(e.OverridesNear, Near{n.Policy, Place{n.File, n.Line}, n.Why})
	}
	for _, n := range w.Needs {
		e.Needs = append(e.Needs, Need{n.ID.Kind, n.ID.Namespace, n.ID.Name, n.Labels, n.Along, n.Missing})
	}
	for _, t := range w.Timers {
		e.Timers = append(e.Timers, Timer{t.Cluster, t.What, stamp(t.Since), stamp(t.Until), t.Text})
	}
	if len(w.Lazy) > 0 {
		e.pend("lazy", "", time.Time{}, "the policy is Lazy: what it says now (%s) counts from the next change of the template on; until then what it said before does", strings.Join(w.Lazy, ", "))
	}
}

// stamp is a time as JSON has it; empty for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (e *Explanation) pend(what, cluster string, since time.Time, format string, args ...any) {
	e.Pending = append(e.Pending, Pending{what, cluster, stamp(since), fmt.Sprintf(format, args...)})
}

// schedule fills in what became of the members and the division.
func (e *Explanation) schedule(s *schedule.Result, why *decide.Why) {
	e.Trigger, e.TriggerWhy = string(s.Trigger), triggerWhy(s.Trigger, why)
	for _, t := range s.Tried {
		tried := Tried{Affinity: t.Affinity, Failure: string(t.Failure), Message: t.Message}
		if t.Reasons != nil {
			tried.Members = verdicts(t.Verdicts)
		}
		e.Tried = append(e.Tried, tried)
	}
	if s.Reasons == nil {
		return
	}
	e.Members = verdicts(s.Verdicts)
	for _, g := range s.Groups {
		e.Groups = append(e.Groups, Group{string(g.Field), g.Name, g.Chosen, g.Score, g.Clusters})
	}
	if d := s.Division; d != nil {
		e.Division = &Division{d.Strategy, d.Wanted, targetsOf(d.Before), d.Afresh, d.Withheld, []Step{}}
		for _, step := range d.Steps {
			e.Division.Steps = append(e.Division.Steps, Step{
				string(step.How), step.For, step.Seats, weightsOf(step.Weights), weightsOf(step.Spared), targetsOf(step.Kept), targetsOf(step.Dealt), stepText(step, why),
			})
		}
	}
	if a := s.Anew; a != nil && (s.Division == nil || !s.Division.Withheld) {
		clusters := sortedTargets(a.Clusters)
		e.Rebalance = &Rebalance{clusters, string(a.Failure), a.Message, a.Failure != "" || !slices.Equal(clusters, e.Clusters)}
	}
}

func verdicts(list []schedule.Verdict) []Verdict {
	out := make([]Verdict, len(list))
	for i, v := range list {
		out[i] = Verdict{
			Cluster: v.Cluster, Outcome: string(v.Outcome), Rule: v.Rule, Message: v.Message, Before: v.Before, Replicas: v.Replicas,
			Rank: v.Rank, Score: v.Score, Available: v.Available, Affinity: v.Affinity, Groups: v.Groups,
		}
		for _, s := range v.Scores {
			out[i].Scores = append(out[i].Scores, Score(s))
		}
		if v.Estimate != nil {
			estimate := Estimate(*v.Estimate)
			out[i].Estimate = &estimate
		}
	}
	return out
}

// triggerWhy says what asked for scheduling.
func triggerWhy(trigger schedule.Trigger, why *decide.Why) string {
	switch trigger {
	case schedule.PlacementChanged:
		if why == nil || len(why.Placement) == 0 {
			return "it was not placed before"
		}
		return "the placement changed: " + strings.Join(why.Placement, ", ")
	case schedule.ReplicasChanged:
		return "the members do not have the replicas that are wanted"
	case schedule.Rescheduled:
		return "a WorkloadRebalancer asked for it"
	case schedule.Always:
		return "a workload that is not divided is looked at in every pass"
	case schedule.ClusterLeaving:
		return "a member that it runs on leaves the fleet"
	case schedule.Suspended:
		return "scheduling is suspended; another system has taken the binding"
	case schedule.OtherScheduler:
		return "schedulerName names another scheduler, which decides"
	}
	return "nothing asks for a new decision: labels, taints and capacities of members do not move a divided workload"
}

func targetsOf(shares []divide.Share) []Target {
	targets := make([]Target, len(shares))
	for i, s := range shares {
		targets[i] = Target(s)
	}
	slices.SortFunc(targets, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return targets
}

func weightsOf(list []divide.Weight) []Weight {
	weights := make([]Weight, len(list))
	for i, w := range list {
		weights[i] = Weight(w)
	}
	slices.SortFunc(weights, func(a, b Weight) int { return cmp.Compare(a.Name, b.Name) })
	return weights
}

// stepText is a division in words. The weights stand in the order of the names that follow.
func stepText(s schedule.Step, why *decide.Why) string {
	text := ""
	if s.For != "" {
		text = s.For + ": "
	}
	dealt, kept := sharesText(targetsOf(s.Dealt)), sharesText(targetsOf(s.Kept))
	var assigned int64
	for _, k := range s.Kept {
		assigned += int64(k.Replicas)
	}
	over := ratio(weightsOf(s.Weights), s.How == divide.ByWeight)
	switch s.How {
	case divide.Whole:
		return text + wholeText(s, why)
	case divide.Kept:
		return text + "they keep " + kept
	case divide.Same:
		return text + fmt.Sprintf("%d wanted, %d assigned: nothing to divide, what is there stays: %s", assigned, assigned, cmp.Or(kept, "nothing"))
	case divide.ByWeight:
		return text + fmt.Sprintf("weights %s of %s: %s", over, count(s.Seats), dealt)
	case divide.Fewer:
		text += fmt.Sprintf("%s instead of %d, in the proportion of what is there, %s", count(s.Seats), sum(s.Weights), over)
	case divide.Afresh:
		text += fmt.Sprintf("afresh, %s over available (with what is there) %s", count(s.Seats), over)
	default:
		if assigned > 0 {
			text += fmt.Sprintf("%d wanted, %d assigned, %d more over available %s", assigned+int64(s.Seats), assigned, s.Seats, over)
		} else {
			text += fmt.Sprintf("%s over available %s", count(s.Seats), over)
		}
	}
	if s.Short != nil {
		return text + fmt.Sprintf(": there is room for %d only", s.Short.Have)
	}
	text += ": " + dealt
	if len(s.Spared) > 0 {
		text += "; not needed: " + weightsText(weightsOf(s.Spared))
	}
	if assigned > 0 {
		text += "; on top of " + kept
	}
	return text
}

// wholeText is the step that gives each member all of it.
func wholeText(s schedule.Step, why *decide.Why) string {
	members := fmt.Sprintf("each of %d members", len(s.Dealt))
	if len(s.Dealt) == 1 {
		members = s.Dealt[0].Name
	}
	if why != nil && why.Next != nil && len(why.Next.Spec.Components) > 0 {
		var parts []string
		for _, c := range why.Next.Spec.Components {
			parts = append(parts, fmt.Sprintf("%s %d", c.Name, c.Replicas))
		}
		return fmt.Sprintf("all components (%s) on %s", strings.Join(parts, ", "), members)
	}
	if s.Seats == 0 {
		return "nothing to divide, a whole copy on " + members
	}
	return fmt.Sprintf("%s on %s", count(s.Seats), members)
}

func count(n int32) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

func sum(weights []divide.Weight) (n int64) {
	for _, w := range weights {
		n += w.Weight
	}
	return n
}

// ratio is "3:1"; a room without limit is "any", a weight is what it is.
func ratio(weights []Weight, exact bool) string {
	words := make([]string, len(weights))
	for i, w := range weights {
		if words[i] = amount(w.Weight); exact {
			words[i] = fmt.Sprint(w.Weight)
		}
	}
	return cmp.Or(strings.Join(words, ":"), "nothing")
}

func weightsText(weights []Weight) string {
	words := make([]string, len(weights))
	for i, w := range weights {
		words[i] = w.Name + " " + amount(w.Weight)
	}
	return strings.Join(words, ", ")
}

// amount is a room as people read it.
func amount(n int64) string {
	if n >= math.MaxInt32 {
		return "any"
	}
	return fmt.Sprint(n)
}

// sharesText is "kube02 3, kube03 1".
func sharesText(targets []Target) string {
	words := make([]string, len(targets))
	for i, t := range targets {
		words[i] = fmt.Sprintf("%s %d", t.Name, t.Replicas)
	}
	return strings.Join(words, ", ")
}

// leaving adds members that it ran on and that are in no verdict, as they leave the fleet, and tells what
// those had that it was taken off before it was scheduled.
func (e *Explanation) leaving(row decide.BindingRow) {
	if len(e.Members) == 0 {
		return
	}
	for _, t := range sortedTargets(row.Previous) {
		if i := slices.IndexFunc(e.Members, func(v Verdict) bool { return v.Cluster == t.Name }); i >= 0 {
			if e.Members[i].Outcome == string(schedule.Refused) {
				e.Members[i].Before = t.Replicas
			}
			continue
		}
		v := Verdict{Cluster: t.Name, Outcome: string(schedule.Refused), Rule: "ClusterLeaving", Before: t.Replicas, Message: "the cluster is being removed from the fleet, or is no longer in it"}
		if i := slices.IndexFunc(e.Clusters, func(c Target) bool { return c.Name == t.Name }); i >= 0 {
			v.Outcome, v.Replicas = string(schedule.Kept), e.Clusters[i].Replicas
		}
		e.Members = append(e.Members, v)
	}
	slices.SortStableFunc(e.Members, func(a, b Verdict) int { return cmp.Compare(a.Cluster, b.Cluster) })
}

// overrides gathers the steps of all members; what is the same on several stands once.
func (e *Explanation) overrides(row decide.BindingRow) {
	clusters := make([]string, 0, len(row.Overrides))
	for c := range row.Overrides {
		clusters = append(clusters, c)
	}
	slices.Sort(clusters)
	for _, c := range clusters {
		result := row.Overrides[c]
		for _, step := range result.Steps {
			o := Override{[]string{c}, step.Policy, step.Field, Place{step.File, step.Line}, step.Changed, changesOf(row.Template, step.Changes), step.Why}
			at := slices.IndexFunc(e.Overrides, func(other Override) bool { other.Clusters = o.Clusters; return reflect.DeepEqual(other, o) })
			if at >= 0 {
				e.Overrides[at].Clusters = append(e.Overrides[at].Clusters, c)
			} else {
				e.Overrides = append(e.Overrides, o)
			}
		}
		for _, s := range result.Skipped {
			o := Skipped{[]string{c}, s.Policy, s.Field, Place{s.File, s.Line}, s.Why}
			at := slices.IndexFunc(e.OverridesSkipped, func(other Skipped) bool { other.Clusters = o.Clusters; return reflect.DeepEqual(other, o) })
			if at >= 0 {
				e.OverridesSkipped[at].Clusters = append(e.OverridesSkipped[at].Clusters, c)
			} else {
				e.OverridesSkipped = append(e.OverridesSkipped, o)
			}
		}
	}
}

func changesOf(id api.ID, changes []override.Change) (list []ValueChanged) {
	for _, c := range changes {
		v := ValueChanged{Path: c.Path, Before: c.Before, After: c.After, Added: c.Added, Removed: c.Removed, Later: c.Later}
		if work.IsSecret(id) && !shownOfSecret(c) {
			v.Before, v.After, v.Hidden = nil, nil, true
		}
		list = append(list, v)
	}
	return list
}

// shownOfSecret tells whether a change of a Secret may be shown: single values at the places where a
// Secret has none of its own. Everything else is hidden, whatever it is.
func shownOfSecret(c override.Change) bool {
	for _, v := range []any{c.Before, c.After} {
		switch v.(type) {
		case nil, string, bool, int64, float64:
		default:
			return false
		}
	}
	return strings.HasPrefix(c.Path, "/metadata/labels/") || slices.Contains([]string{"/type", "/immutable", "/metadata/name"}, c.Path)
}

// binding fills in what the record says of the binding.
func (e *Explanation) binding(d *decide.Decision, b *workv1alpha2.ResourceBinding) {
	replicas := map[string]int32{}
	for _, t := range e.Clusters {
		replicas[t.Name] = t.Replicas
	}
	for _, item := range b.Status.AggregatedStatus {
		c := Copy{
			Cluster: item.ClusterName, Replicas: replicas[item.ClusterName], Applied: item.Applied, Message: item.AppliedMessage,
			Health: cmp.Or(string(item.Health), string(workv1alpha2.ResourceUnknown)),
		}
		if delivery := decide.DeliveryOf(d.Next.Members[item.ClusterName]); delivery != decide.DeliveryPush {
			c.Delivery = string(delivery)
		}
		e.Copies = append(e.Copies, c)
	}
	for _, c := range b.Status.Conditions {
		since := stamp(c.LastTransitionTime.Time)
		if c.LastTransitionTime.Time.Equal(d.Time) {
			since = "" // with this decision
		}
		e.Conditions = append(e.Conditions, Condition{c.Type, string(c.Status), c.Reason, c.Message, since})
	}
	if s := b.Spec.Suspension; s != nil {
		if s.Scheduling != nil && *s.Scheduling {
			e.pend("suspended", "", time.Time{}, "scheduling is suspended (spec.suspension.scheduling of the binding): another system decides")
		}
		if s.Dispatching != nil && *s.Dispatching {
			e.pend("suspended", "", time.Time{}, "nothing is sent to any member (spec.suspension.dispatching of the policy)")
		}
		if on := s.DispatchingOnClusters; on != nil {
			for _, name := range on.ClusterNames {
				e.pend("suspended", name, time.Time{}, "nothing is sent there (spec.suspension.dispatchingOnClusters of the policy)")
			}
		}
	}
	if e.Failure == "QuotaExceeded" {
		e.pend("quota", "", time.Time{}, "%s; raise the quota, or ask for less", e.Message)
	}
	for _, task := range b.Spec.GracefulEvictionTasks {
		since := time.Time{}
		if task.CreationTimestamp != nil {
			since = task.CreationTimestamp.Time
		}
		text := fmt.Sprintf("is being left (%s: %s)", task.Producer, task.Reason)
		if task.PurgeMode != "" {
			text += ", purge mode " + string(task.PurgeMode)
		}
		if task.GracePeriodSeconds != nil {
			text += fmt.Sprintf(", grace period %ds", *task.GracePeriodSeconds)
		}
		if task.Message != "" {
			text += ": " + task.Message
		}
		e.pend("evicting", task.FromCluster, since, "%s", text)
	}
	for _, t := range e.Clusters {
		if ready, known := readiness(d.Next.Members[t.Name]); known && ready.Status != metav1.ConditionTrue {
			state := "is NotReady"
			if ready.Status == metav1.ConditionUnknown {
				state = "cannot be reached"
			}
			if ready.Message != "" {
				state += ": " + ready.Message
			}
			e.pend("notReady", t.Name, ready.LastTransitionTime.Time, "%s; nothing of it changes there until it is back", state)
		}
	}
}

func readiness(c *clusterv1alpha1.Cluster) (metav1.Condition, bool) {
	if c == nil {
		return metav1.Condition{}, false
	}
	for _, cond := range c.Status.Conditions {
		if cond.Type == clusterv1alpha1.ConditionReady {
			return cond, true
		}
	}
	return metav1.Condition{}, false
}

// later fills in what is still to be done about the workload, and when.
func (e *Explanation) later(d *decide.Decision, id api.ID) {
	id = id.Unversioned()
	for _, h := range d.Held {
		if h.ID.Unversioned() == id {
			e.pend("held", h.Cluster, time.Time{}, "its deletion is held back: %s; a source commit with the trailer \"Godwit-Approve: delete\" lets it go", h.Message)
		}
	}
	var retired []record.Retired
	for _, r := range d.Next.Retired {
		if r.Object.ID().Unversioned() == id {
			retired = append(retired, r)
		}
	}
	slices.SortFunc(retired, func(a, b record.Retired) int { return cmp.Compare(a.Cluster, b.Cluster) })
	for _, r := range retired {
		if d.Spared[record.RetiredPath(r.Cluster, r.Object.ID())] {
			e.pend("retired", r.Cluster, r.Since.Time, "its copy was to be deleted while the member was down (%s), and stays until another copy is known to work", r.Reason)
			continue
		}
		what := "its copy is to be deleted"
		if r.Preserve {
			what = "its copy is given up and stays"
		}
		e.pend("retired", r.Cluster, r.Since.Time, "%s (%s), until the member confirms it", what, r.Reason)
	}
	for _, h := range d.Next.Meta.Held {
		if e.Policy != nil && e.Policy.File == h.Path || e.Template != nil && e.Template.File == h.Path {
			e.pend("stale", "", time.Time{}, "%s has an error; its version of commit %s is in force", h.Path, h.Commit)
		}
	}
	if brake := d.Next.Meta.FailoverBrake; brake != nil && !brake.Approved && len(e.Timers) > 0 {
		e.pend("brake", "", brake.Since, "no workload leaves a member: %s", brake.Message)
	}
	for _, t := range e.Timers {
		if until, err := time.Parse(time.RFC3339, t.Until); err == nil && until.After(d.Time) {
			text := "ends"
			if t.What != "block" && t.What != "purge" {
				text = "is due: it leaves, if there is another place for it"
			}
			e.Next = append(e.Next, Next{t.Until, fmt.Sprintf("%s on %s %s", t.What, t.Cluster, text)})
		}
	}
	if !d.Wake.IsZero() {
		e.Next = append(e.Next, Next{stamp(d.Wake), "godwit decides again, whatever happens until then"})
	}
	slices.SortStableFunc(e.Next, func(a, b Next) int { return cmp.Compare(a.At, b.At) })
}

// findings keeps those that have to do with the workload: its own, those of the policies named, and,
// if it runs nowhere for want of a policy, those of policies and files that cannot be used.
func (e *Explanation) findings(d *decide.Decision) {
	objects := map[string]bool{e.Resource.String(): true}
	if e.Policy != nil {
		objects[policy.Claim{Kind: e.Policy.Kind, Namespace: e.Policy.Namespace, Name: e.Policy.Name}.String()] = true
	}
	for _, n := range slices.Concat(e.Near, e.OverridesNear) {
		objects[n.Policy] = true
	}
	for _, o := range e.Overrides {
		objects[o.Policy] = true
	}
	for _, o := range e.OverridesSkipped {
		objects[o.Policy] = true
	}
	lost := e.Policy == nil && len(e.DependencyOf) == 0
	for _, f := range d.Findings {
		unusable := f.Severity == render.Error && (f.Object == "" || strings.Contains(strings.SplitN(f.Object, " ", 2)[0], "PropagationPolicy"))
		if objects[f.Object] || lost && unusable {
			e.Findings = append(e.Findings, f)
		}
	}
}

// Recall makes the explanation of a decision made again one of the decision that is on record as now.
func (e *Explanation) Recall(at Moment, now *record.State) {
	e.Record = &at
	key := record.BindingKey{Namespace: e.Resource.Namespace}
	if _, name, found := strings.Cut(e.Binding, "/"); found {
		key.Name = name
	} else {
		key.Name = e.Binding
	}
	b := now.Bindings[key]
	if b == nil {
		if e.Binding != "" && len(e.Clusters) > 0 {
			e.Differs = "the record has no binding of it; deciding again from the record gives " + targetsText(e.Clusters)
			e.Clusters = []Target{}
		}
		return
	}
	if recorded := sortedTargets(decide.Targets(b)); !slices.Equal(recorded, e.Clusters) {
		e.Differs = fmt.Sprintf("deciding again from the record gives %s: what members said at that moment, or the version of the program, made the difference", targetsText(e.Clusters))
		e.Clusters = recorded
	}
}
