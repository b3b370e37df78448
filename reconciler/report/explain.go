package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Explanation is why one workload runs where it runs, in reading order.
type Explanation struct {
	Resource Resource `json:"resource"`
	// Binding is "namespace/name"; empty if there is none.
	Binding  string   `json:"binding,omitempty"`
	Clusters []Target `json:"clusters"`
	Failure  string   `json:"failure,omitempty"`
	Message  string   `json:"message,omitempty"`

	Policy     *Policy      `json:"policy,omitempty"`
	PolicyWhy  string       `json:"policyWhy,omitempty"`
	PassedOver []PassedOver `json:"passedOver,omitempty"`

	// Trigger is what asked for scheduling, or why nothing did.
	Trigger string    `json:"trigger,omitempty"`
	Tried   []Tried   `json:"tried,omitempty"`
	Members []Verdict `json:"members,omitempty"`

	Overrides    []Override       `json:"overrides,omitempty"`
	RenderErrors []string         `json:"renderErrors,omitempty"`
	DependencyOf []string         `json:"dependencyOf,omitempty"`
	Copies       []Copy           `json:"copies,omitempty"`
	Findings     []render.Finding `json:"findings,omitempty"`
}

// PassedOver is a policy that selects the workload and does not get it.
type PassedOver struct {
	Policy string `json:"policy"`
	Why    string `json:"why"`
}

// Tried is an affinity group that did not work.
type Tried struct {
	Affinity string `json:"affinity"`
	Failure  string `json:"failure"`
	Message  string `json:"message"`
}

// Verdict is what became of a member.
type Verdict struct {
	Cluster   string `json:"cluster"`
	Outcome   string `json:"outcome"`
	Rule      string `json:"rule,omitempty"`
	Message   string `json:"message,omitempty"`
	Before    int32  `json:"before"`
	Replicas  int32  `json:"replicas"`
	Score     int64  `json:"score"`
	Available int64  `json:"available"`
}

// Override is one step that an override policy took for a member.
type Override struct {
	Cluster string `json:"cluster"`
	Policy  string `json:"policy"`
	Field   string `json:"field"`
	Changed bool   `json:"changed"`
}

// Copy is what was last seen of the workload on a member.
type Copy struct {
	Cluster string `json:"cluster"`
	Applied bool   `json:"applied"`
	Message string `json:"message,omitempty"`
	Health  string `json:"health"`
}

// shortNames are those of kubectl for kinds that are explained most.
var shortNames = map[string]string{
	"cm": "ConfigMap", "crd": "CustomResourceDefinition", "cj": "CronJob", "deploy": "Deployment", "ds": "DaemonSet", "hpa": "HorizontalPodAutoscaler",
	"ing": "Ingress", "ns": "Namespace", "pdb": "PodDisruptionBudget", "po": "Pod", "pv": "PersistentVolume", "pvc": "PersistentVolumeClaim",
	"rs": "ReplicaSet", "sa": "ServiceAccount", "sts": "StatefulSet", "svc": "Service",
}

// means tells whether the word names the kind: as it is written, in any case, in the plural, or short.
func means(word, kind string) bool {
	return strings.EqualFold(word, kind) || strings.EqualFold(word, kind+"s") || strings.EqualFold(word, strings.TrimSuffix(kind, "y")+"ies") ||
		shortNames[strings.ToLower(word)] == kind
}

// Explain explains the workload of that kind (as written, in any case) and name. With an empty
// namespace a cluster-scoped one is meant, or the only one of that name. The decision must have been
// made with Options.Explain.
func Explain(d *decide.Decision, kind, namespace, name string) (*Explanation, error) {
	var found []*Explanation
	for _, row := range d.Bindings {
		id := row.Template
		if means(kind, id.Kind) && id.Name == name && (namespace == "" || id.Namespace == "" || id.Namespace == namespace) {
			found = append(found, explainRow(d, row))
		}
	}
	for _, u := range d.Unbound {
		id := u.Template
		known := slices.ContainsFunc(found, func(e *Explanation) bool { return e.Resource == resource(id) })
		if means(kind, id.Kind) && id.Name == name && (namespace == "" || id.Namespace == "" || id.Namespace == namespace) && !known {
			found = append(found, &Explanation{Resource: resource(id), Clusters: []Target{}, PolicyWhy: u.Message, Message: "it runs nowhere"})
		}
	}
	switch len(found) {
	case 1:
		e := found[0]
		object := e.Resource.String()
		for _, f := range d.Findings {
			if f.Object == object {
				e.Findings = append(e.Findings, f)
			}
		}
		return e, nil
	case 0:
		return nil, fmt.Errorf("the source has no %s %s that policies could take; \"godwit plan -o wide\" lists what there is", kind, name)
	}
	return nil, fmt.Errorf("there are %d of kind %s and name %s; say the namespace with -n", len(found), kind, name)
}

func explainRow(d *decide.Decision, row decide.BindingRow) *Explanation {
	e := &Explanation{
		Resource: resource(row.Template), Binding: row.Key.String(), Clusters: sortedTargets(row.Clusters),
		Failure: row.Failure, Message: row.Message, PolicyWhy: row.Choice.Message, DependencyOf: row.DependencyOf,
	}
	if row.Policy != nil {
		e.Policy = &Policy{row.Policy.Kind, row.Policy.Namespace, row.Policy.Name}
	}
	for _, p := range row.Choice.PassedOver() {
		e.PassedOver = append(e.PassedOver, PassedOver{p.Policy.String(), p.Why})
	}
	if s := row.Schedule; s != nil {
		e.Trigger = string(s.Trigger)
		for _, t := range s.Tried {
			e.Tried = append(e.Tried, Tried{t.Affinity, string(t.Failure), t.Message})
		}
		for _, v := range s.Verdicts {
			e.Members = append(e.Members, Verdict{v.Cluster, string(v.Outcome), v.Rule, v.Message, v.Before, v.Replicas, v.Score, v.Available})
		}
	}
	for cluster, result := range row.Overrides {
		for _, step := range result.Steps {
			e.Overrides = append(e.Overrides, Override{cluster, step.Policy, step.Field, step.Changed})
		}
	}
	slices.SortStableFunc(e.Overrides, func(a, b Override) int { return cmp.Compare(a.Cluster, b.Cluster) })
	for _, r := range row.RenderErrors {
		e.RenderErrors = append(e.RenderErrors, r.Cluster+": "+r.Message)
	}
	if b := d.Next.Bindings[record.BindingKey{Namespace: row.Key.Namespace, Name: row.Key.Name}]; b != nil {
		for _, item := range b.Status.AggregatedStatus {
			e.Copies = append(e.Copies, Copy{item.ClusterName, item.Applied, item.AppliedMessage, string(item.Health)})
		}
	}
	return e
}

// Text prints the explanation as one page.
func (e *Explanation) Text(w io.Writer, s Style) {
	line := func(format string, args ...any) { fmt.Fprintln(w, clean(fmt.Sprintf(format, args...))) }
	head := func(text string) { fmt.Fprintf(w, "\n%s\n", s.paint("1", text)) }
	line("%s runs on: %s", e.Resource, targetsText(e.Clusters))
	if e.Failure != "" {
		line("%s: %s", e.Failure, e.Message)
	} else if e.Message != "" {
		line("%s", e.Message)
	}
	head("Policy")
	if e.Policy == nil {
		line("  none: %s", e.PolicyWhy)
	} else {
		line("  %s", e.PolicyWhy)
	}
	for _, p := range e.PassedOver {
		line("  passed over: %s", p.Why)
	}
	for _, owner := range e.DependencyOf {
		line("  needed by %s", owner)
	}
	if e.Trigger != "" {
		head("Members (scheduled because: " + e.Trigger + ")")
		for _, t := range e.Tried {
			line("  tried %s: %s: %s", t.Affinity, t.Failure, t.Message)
		}
		t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
		fmt.Fprintln(t, "  CLUSTER\tOUTCOME\tREPLICAS\tSCORE\tAVAILABLE\tWHY")
		for _, v := range e.Members {
			why := v.Message
			if v.Rule != "" {
				why = v.Rule + ": " + why
			}
			score, available := fmt.Sprint(v.Score), fmt.Sprint(v.Available)
			if e.Trigger == string(schedule.Standing) || v.Outcome == string(schedule.Refused) {
				score, available = "-", "-" // nothing was computed
			} else if v.Available >= math.MaxInt32 {
				available = "any"
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", flat(v.Cluster), v.Outcome, replicasText(v), score, available, flat(why))
		}
		t.Flush()
	}
	if len(e.Overrides)+len(e.RenderErrors) > 0 {
		head("Overrides")
	}
	for _, o := range e.Overrides {
		effect := "changed nothing"
		if o.Changed {
			effect = "applied"
		}
		line("  %s: %s %s: %s", o.Cluster, o.Policy, o.Field, effect)
	}
	for _, r := range e.RenderErrors {
		line("  refused: %s", r)
	}
	if len(e.Copies) > 0 {
		head("Copies, as last recorded")
	}
	for _, c := range e.Copies {
		state := "applied, " + c.Health
		if !c.Applied {
			state = cmp.Or(c.Message, "not applied yet")
		}
		line("  %s: %s", c.Cluster, state)
	}
	if len(e.Findings) > 0 {
		head("Findings")
		Findings(w, s, e.Findings)
	}
}

func replicasText(v Verdict) string {
	if v.Before == v.Replicas {
		return fmt.Sprint(v.Replicas)
	}
	return fmt.Sprintf("%d (was %d)", v.Replicas, v.Before)
}
