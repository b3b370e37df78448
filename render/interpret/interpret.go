package interpret

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// Operation is one question about a kind, in Karmada's words.
type Operation string

const (
	InterpretReplica    Operation = "InterpretReplica"
	InterpretComponent  Operation = "InterpretComponent"
	ReviseReplica       Operation = "ReviseReplica"
	Retain              Operation = "Retain"
	AggregateStatus     Operation = "AggregateStatus"
	InterpretStatus     Operation = "InterpretStatus"
	InterpretHealth     Operation = "InterpretHealth"
	InterpretDependency Operation = "InterpretDependency"
)

type operationRule struct {
	operation Operation
	field     string
	function  string
	rule      func(*configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule
}

// operations ties each operation to the member of a customization that answers it and to the
// function its script defines.
var operations = []operationRule{
	{InterpretReplica, "replicaResource", "GetReplicas", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.ReplicaResource }},
	{InterpretComponent, "componentResource", "GetComponents", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.ComponentResource }},
	{ReviseReplica, "replicaRevision", "ReviseReplica", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.ReplicaRevision }},
	{Retain, "retention", "Retain", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.Retention }},
	{AggregateStatus, "statusAggregation", "AggregateStatus", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.StatusAggregation }},
	{InterpretStatus, "statusReflection", "ReflectStatus", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.StatusReflection }},
	{InterpretHealth, "healthInterpretation", "InterpretHealth", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.HealthInterpretation }},
	{InterpretDependency, "dependencyInterpretation", "GetDependencies", func(r *configv1alpha1.CustomizationRules) *configv1alpha1.LuaRule { return r.DependencyInterpretation }},
}

// kind is what rules are kept by: a rule for apps/v1 says nothing about apps/v1beta1.
type kind struct{ group, version, name string }

func kindOf(o api.Object) kind {
	group, version := api.SplitAPIVersion(text(o["apiVersion"]))
	return kind{group, version, text(o["kind"])}
}

func kindOfID(id api.ID) kind { return kind{id.Group, id.Version, id.Kind} }

// Interpreter answers what kinds mean. It holds no state between calls and may be used by many
// goroutines. The zero value has the built-in rules alone.
type Interpreter struct {
	user     map[rule][]*script
	hash     string
	origins  map[string]*manifest.Object // of customizations, by name; only with Compile
	webhooks []*Webhook
	answers  Answers // nil: webhooks are left out
}

// rule is one operation of one kind.
type rule struct {
	kind
	operation Operation
}

// Problem is a customization, or one rule of it, that is not used.
type Problem struct {
	// Customization is its name.
	Customization string
	// Operation is the rule's; empty if the whole customization is at fault.
	Operation Operation
	// Field is the member of spec.customizations that holds the rule, empty like Operation.
	Field string
	// Line counts from 1 within the script; 0 means that the script as a whole is meant.
	Line int
	// Message says why and what to do.
	Message string
}

// String is "customization web: healthInterpretation: line 3: message".
func (p Problem) String() string {
	out := "customization " + p.Customization
	if p.Field != "" {
		out += ": " + p.Field
	}
	if p.Line > 0 {
		out += fmt.Sprintf(": line %d", p.Line)
	}
	return out + ": " + p.Message
}

// New compiles the customizations. A rule with a problem is left out, and what it was to answer
// falls to the next layer that has a rule. Customizations count in the order of their names.
func New(customizations []*configv1alpha1.ResourceInterpreterCustomization) (*Interpreter, []Problem) {
	i := &Interpreter{user: make(map[rule][]*script)}
	var problems []Problem
	sum := sha256.New()
	sorted := slices.SortedFunc(slices.Values(customizations), func(a, b *configv1alpha1.ResourceInterpreterCustomization) int {
		return cmp.Compare(a.Name, b.Name)
	})
	for _, c := range sorted {
		target := c.Spec.Target
		if target.APIVersion == "" || target.Kind == "" {
			problems = append(problems, Problem{Customization: c.Name, Message: "spec.target needs apiVersion and kind: name the kind whose rules these are"})
			continue
		}
		of := kind{name: target.Kind}
		of.group, of.version = api.SplitAPIVersion(target.APIVersion)
		for _, op := range operations {
			lua := op.rule(&c.Spec.Customizations)
			if lua == nil || lua.LuaScript == "" {
				continue
			}
			problem := Problem{Customization: c.Name, Operation: op.operation, Field: op.field}
			key := rule{of, op.operation}
			if earlier := i.user[key]; len(earlier) > 0 && op.operation != InterpretDependency {
				problem.Message = fmt.Sprintf("customization %s already has this rule for %s %s, and the first by name is used: remove one of them",
					earlier[0].name, target.APIVersion, target.Kind)
				problems = append(problems, problem)
				continue
			}
			compiled, err := compile(c.Name, op.field, lua.LuaScript)
			if err != nil {
				problem.Line, problem.Message = err.line, err.message
				problems = append(problems, problem)
				continue
			}
			i.user[key] = append(i.user[key], compiled)
			for _, part := range []string{target.APIVersion, target.Kind, string(op.operation), lua.LuaScript} {
				fmt.Fprintf(sum, "%d:", len(part))
				io.WriteString(sum, part)
			}
		}
	}
	if len(i.user) > 0 {
		i.hash = hex.EncodeToString(sum.Sum(nil))
	}
	return i, problems
}

// Check is New for those who want to know all that is wrong: it also runs each script once, with
// nothing to work on, and reports the ones that do not define their function. They stay, and give no
// answer when they are asked.
func Check(customizations []*configv1alpha1.ResourceInterpreterCustomization) (*Interpreter, []Problem) {
	i, problems := New(customizations)
	for _, op := range operations {
		for key, scripts := range i.user {
			if key.operation != op.operation {
				continue
			}
			for _, s := range scripts {
				if err := s.defines(op.function); err != nil {
					problems = append(problems, Problem{Customization: s.name, Operation: op.operation, Field: op.field, Line: err.Line, Message: err.Reason})
				}
			}
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Customization, b.Customization), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return i, problems
}

// Hash names the user's scripts: two interpreters with one hash give the same answers about kinds that
// no webhook speaks of. It is empty with the built-in rules alone.
func (i *Interpreter) Hash() string { return i.hash }

// rules are those of the first layer above the native one that has any: the user's scripts, the
// webhook, or the shipped scripts.
func (i *Interpreter) rules(k kind, op Operation) ([]*script, *Webhook) {
	if own := i.user[rule{k, op}]; len(own) > 0 {
		return own, nil
	}
	if i.answers != nil {
		if w := i.webhook(k, op); w != nil {
			return nil, w
		}
	}
	return shippedScripts(k, op), nil
}

// Has tells whether some layer has a rule of its own for the operation on the object's kind. For
// InterpretStatus and InterpretHealth there is an answer without one, too.
func (i *Interpreter) Has(id api.ID, op Operation) bool {
	k := kindOfID(id)
	scripts, webhook := i.rules(k, op)
	return len(scripts) > 0 || webhook != nil || native[k].has(op)
}

// Layer names who answers the operation for the object's kind: "customization web", "built-in
// ray_job.lua", "webhook rules/health.example.com", "native", or "" where no layer has a rule of its own.
func (i *Interpreter) Layer(id api.ID, op Operation) string {
	k := kindOfID(id)
	scripts, webhook := i.rules(k, op)
	var names []string
	for _, s := range scripts {
		names = append(names, s.where())
	}
	switch {
	case webhook != nil:
		return "webhook " + webhook.String()
	case len(names) > 0:
		return strings.Join(names, ", ")
	case native[k].has(op):
		return "native"
	}
	return ""
}

// Replicas is how much of a workload is to run.
type Replicas struct {
	// Workload: some rule knows the kind's replicas or components. If false the rest is zero.
	Workload bool
	// Count is what is divided over clusters; 0 for a workload of components.
	Count int32
	// Requirements are what one replica asks for; nil means nothing in particular.
	Requirements *workv1alpha2.ReplicaRequirements
	// Components have unique names, in the order the rule gives.
	Components []workv1alpha2.Component
}

// Replicas reads the size of a template. A kind with a rule for components has those and no count.
func (i *Interpreter) Replicas(o api.Object) (Replicas, error) {
	if scripts, webhook := i.rules(kindOf(o), InterpretComponent); len(scripts) > 0 || webhook != nil {
		components, err := i.Components(o)
		return Replicas{Workload: true, Components: components}, err
	}
	return i.Count(o)
}

// Components are the parts of a workload that has several; nil where no rule knows any.
func (i *Interpreter) Components(o api.Object) ([]workv1alpha2.Component, error) {
	if scripts, webhook := i.rules(kindOf(o), InterpretComponent); len(scripts) > 0 {
		return scripts[0].components(o)
	} else if webhook != nil {
		replicas, err := i.askReplicas(webhook, InterpretComponent, o)
		return replicas.Components, err
	}
	return nil, nil
}

// Count is Replicas without components: the number that a rule for InterpretReplica gives.
func (i *Interpreter) Count(o api.Object) (Replicas, error) {
	k := kindOf(o)
	if scripts, webhook := i.rules(k, InterpretReplica); len(scripts) > 0 {
		return scripts[0].replicas(o)
	} else if webhook != nil {
		return i.askReplicas(webhook, InterpretReplica, o)
	}
	if replicas := native[k].replicas; replicas != nil {
		return replicas(o)
	}
	return Replicas{}, nil
}

// Revise gives o the number of replicas. It is o itself where no rule says how, and where the
// native field is not in the object.
func (i *Interpreter) Revise(o api.Object, replicas int32) (api.Object, error) {
	k := kindOf(o)
	if scripts, webhook := i.rules(k, ReviseReplica); len(scripts) > 0 {
		return scripts[0].revise(o, replicas)
	} else if webhook != nil {
		return i.askPatched(webhook, ReviseReplica, o, configv1alpha1.ResourceInterpreterRequest{DesiredReplicas: &replicas})
	}
	if path := native[k].revise; path != nil && at(o, path...) != nil {
		return with(o, int64(replicas), path...), nil
	}
	return o, nil
}

// Retain is desired with what the kind keeps from the member's object; desired itself if nothing. A Secret keeps
// values alone.
func (i *Interpreter) Retain(desired, live api.Object) (api.Object, error) {
	kept, err := i.kept(desired, live)
	if err != nil || !isSecret(desired) {
		return kept, err
	}
	return keptValues(desired, kept), nil
}

func (i *Interpreter) kept(desired, live api.Object) (api.Object, error) {
	k := kindOf(desired)
	if scripts, webhook := i.rules(k, Retain); len(scripts) > 0 {
		return scripts[0].retain(desired, live)
	} else if webhook != nil {
		observed, err := rawObject(live)
		if err != nil {
			return nil, err
		}
		return i.askPatched(webhook, Retain, desired, configv1alpha1.ResourceInterpreterRequest{ObservedObject: &observed})
	}
	if retain := native[k].retain; retain != nil {
		return retain(desired, live), nil
	}
	return desired, nil
}

// Keeps tells whether Retain has to be asked before objects of the kind are applied. Server-side apply
// leaves alone what it does not send, which is all that most native rules keep.
func (i *Interpreter) Keeps(id api.ID) bool {
	k := kindOfID(id)
	scripts, webhook := i.rules(k, Retain)
	return len(scripts) > 0 || webhook != nil || native[k].shared
}

// Health says how the object on a member is. A rule that fails gives Unknown and the error.
//
// Differs from Karmada: a kind without any rule is judged by the conventions of kstatus; Karmada
// takes it for Healthy. Failed is Unhealthy; what is on its way up or down is Unknown, which
// starts no failover.
func (i *Interpreter) Health(live api.Object) (workv1alpha2.ResourceHealth, error) {
	k := kindOf(live)
	if scripts, webhook := i.rules(k, InterpretHealth); len(scripts) > 0 {
		healthy, err := scripts[0].health(live)
		if err != nil {
			return workv1alpha2.ResourceUnknown, err
		}
		return verdict(healthy), nil
	} else if webhook != nil {
		a, err := i.ask(webhook, InterpretHealth, live, configv1alpha1.ResourceInterpreterRequest{})
		if err != nil {
			return workv1alpha2.ResourceUnknown, err
		}
		return verdict(a.healthy), nil
	}
	if health := native[k].health; health != nil {
		return verdict(health(live)), nil
	}
	return conventional(live)
}

func verdict(healthy bool) workv1alpha2.ResourceHealth {
	if healthy {
		return workv1alpha2.ResourceHealthy
	}
	return workv1alpha2.ResourceUnhealthy
}

// Status is the part of the object's status that is worth reporting; nil means none was collected.
func (i *Interpreter) Status(live api.Object) (api.Object, error) {
	k := kindOf(live)
	if scripts, webhook := i.rules(k, InterpretStatus); len(scripts) > 0 {
		return scripts[0].status(live)
	} else if webhook != nil {
		a, err := i.ask(webhook, InterpretStatus, live, configv1alpha1.ResourceInterpreterRequest{})
		if err != nil {
			return nil, err
		}
		return a.status, nil
	}
	if reflect := native[k].reflect; reflect != nil {
		return reflect(live)
	}
	return object(live["status"]), nil
}

// StatusItem is what is known of the copy on one member.
type StatusItem struct {
	Cluster string
	// Status as Status gave it; nil if nothing was collected.
	Status         api.Object
	Applied        bool
	AppliedMessage string
	Health         workv1alpha2.ResourceHealth
}

// AggregateStatus is the template with the status of all copies together; the template itself for
// kinds without a rule. Items must be sorted by cluster.
func (i *Interpreter) AggregateStatus(template api.Object, items []StatusItem) (api.Object, error) {
	k := kindOf(template)
	if scripts, webhook := i.rules(k, AggregateStatus); len(scripts) > 0 {
		return scripts[0].aggregate(template, items)
	} else if webhook != nil {
		return i.askStatus(webhook, template, items)
	}
	if aggregate := native[k].aggregate; aggregate != nil {
		return aggregate(template, items), nil
	}
	return template, nil
}

// Reference names objects that a template needs beside it: one by Name, or those that
// LabelSelector selects.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for cluster-scoped kinds.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// LabelSelector is nil where Name is set.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// Compare orders by apiVersion, kind, namespace, name and selector.
func (r Reference) Compare(other Reference) int {
	return cmp.Or(
		cmp.Compare(r.APIVersion, other.APIVersion),
		cmp.Compare(r.Kind, other.Kind),
		cmp.Compare(r.Namespace, other.Namespace),
		cmp.Compare(r.Name, other.Name),
		cmp.Compare(r.selector(), other.selector()),
	)
}

// Dependencies are the objects that o needs, sorted, each once; nil if it needs none or no rule
// says so. Every script that users give for the kind adds to them.
func (i *Interpreter) Dependencies(o api.Object) ([]Reference, error) {
	k := kindOf(o)
	var found []Reference
	if scripts, webhook := i.rules(k, InterpretDependency); webhook != nil {
		a, err := i.ask(webhook, InterpretDependency, o, configv1alpha1.ResourceInterpreterRequest{})
		if err != nil {
			return nil, err
		}
		found = slices.Clone(a.dependencies)
	} else if len(scripts) > 0 {
		for _, s := range scripts {
			refs, err := s.dependencies(o)
			if err != nil {
				return nil, err
			}
			found = append(found, refs...)
		}
	} else if dependencies := native[k].dependencies; dependencies != nil {
		found = dependencies(o)
	}
	var errs []error
	for _, ref := range found {
		errs = append(errs, ref.validate())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("dependencies of %s: %w", strings.TrimSpace(api.IDOf(o).String()), err)
	}
	slices.SortFunc(found, Reference.Compare)
	return slices.CompactFunc(found, func(a, b Reference) bool { return a.Compare(b) == 0 }), nil
}
