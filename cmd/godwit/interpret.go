package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// interpretation is a call of "godwit interpret".
type interpretation struct {
	files             []string // with customizations and webhook configurations
	desired, observed string
	statuses          []string
	replicas          int32
	operation         string
	check             bool

	stdin    io.Reader
	reads    string // what reads stdin
	rules    *interpret.Interpreter
	findings []render.Finding
	targets  []target
}

// target is a customization with what it has rules for.
type target struct {
	Name       string   `json:"name"`
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Operations []string `json:"operations"`
}

// hook is a webhook of a configuration.
type hook struct {
	Name string `json:"name"` // "configuration/name"
	URL  string `json:"url"`
}

func newInterpret() *cobra.Command {
	var q interpretation
	cmd := &cobra.Command{
		Use:   "interpret [-f CUSTOMIZATION] --observed FILE [--desired FILE] --operation OP",
		Short: "Run one interpreter operation on an object, offline",
		Long: `interpret answers what a kind means as the reconciler would: by the customizations of -f, else by the rule that is
built in for the kind. Webhooks are not asked: where run would ask one of a configuration in -f, that is said, and the
next rule answers. Every file may be "-", the standard input. The operations, and what they need:

  interpretReplica     --desired                 replicas, and what one of them asks for
  interpretComponent   --desired                 the components of a workload that has several
  reviseReplica        --desired --desired-replica N
  retain               --desired --observed      the desired object with what the member's one keeps
  interpretStatus      --observed                the part of the status that is reported
  aggregateStatus      --desired --status-file   the template with the status of all members
  interpretHealth      --observed                Healthy, Unhealthy or Unknown
  interpretDependency  --desired                 the objects it needs

Where one object is enough, --desired and --observed are the same. A status file holds documents, or a list, of
{clusterName, status, applied, health}. With --check the customizations themselves are looked at: their fields, whether the
scripts compile, and whether they define their functions; and so are webhook configurations.

Exit status: 0 done; 1 a rule gave no answer; 3 there is something wrong with a customization or webhook configuration.`,
		Example: `  godwit interpret --observed deployment.yaml --operation interpretHealth
  godwit interpret -f rules.yaml --desired job.yaml --desired-replica 3 --operation reviseReplica
  godwit interpret -f rules.yaml --check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, output, err := configured(cmd)
			if err != nil {
				return err
			}
			q.stdin = cmd.InOrStdin()
			if err := q.compile(); err != nil {
				return err
			}
			if q.check {
				return q.printCheck(cmd, output)
			}
			if err := report.Findings(cmd.ErrOrStderr(), style(cmd, cmd.ErrOrStderr()), q.findings); err != nil {
				return err
			}
			if slices.ContainsFunc(q.findings, isError) {
				return &statusError{status: exitFindings}
			}
			return q.run(cmd, output)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&q.files, "filename", "f", nil, "file with customizations or webhook configurations; may be given several times")
	f.StringVar(&q.operation, "operation", "", "what to ask, see above")
	f.StringVar(&q.desired, "desired", "", "file with the object as written in Git")
	f.StringVar(&q.observed, "observed", "", "file with the object as it is on a member")
	f.StringArrayVar(&q.statuses, "status-file", nil, "file with the statuses of members; may be given several times")
	f.Int32Var(&q.replicas, "desired-replica", -1, "the number of replicas that reviseReplica sets")
	f.BoolVar(&q.check, "check", false, "look at the customizations of -f and run nothing")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // as karmadactl has them
		case "desired-file", "observed-file":
			name = strings.TrimSuffix(name, "-file")
		}
		return pflag.NormalizedName(name)
	})
	return printing(cmd, "text", "json", "yaml")
}

// read reads a file that a flag names, at most one of them from the standard input.
func (q *interpretation) read(flag, name string) (data []byte, shown string, err error) {
	if name != "-" {
		data, err = os.ReadFile(name)
		return data, name, err
	}
	if q.reads != "" {
		return nil, "", fmt.Errorf("%s -: the standard input is read by %s already", flag, q.reads)
	}
	q.reads = flag
	data, err = io.ReadAll(q.stdin)
	return data, "<stdin>", err
}

// compiled are the kinds that -f takes, and what they are called.
var compiled = map[string]string{
	"ResourceInterpreterCustomization":                         "customization",
	configv1alpha1.KindResourceInterpreterWebhookConfiguration: "webhook configuration",
}

// compile reads the customizations and webhook configurations.
func (q *interpretation) compile() error {
	var objects []*manifest.Object
	files := map[string]string{} // by what is in them
	for _, name := range q.files {
		data, shown, err := q.read("-f", name)
		if err != nil {
			return err
		}
		u := manifest.Parse(shown, data, manifest.Options{})
		q.findings = append(q.findings, u.Findings...)
		found := slices.DeleteFunc(u.Objects, func(o *manifest.Object) bool { return compiled[o.Kind] == "" })
		if len(found) == 0 && len(u.Findings) == 0 {
			return fmt.Errorf("-f %s: no ResourceInterpreterCustomization or ResourceInterpreterWebhookConfiguration (config.karmada.io/v1alpha1) is in it", shown)
		}
		for _, o := range found {
			called := compiled[o.Kind] + " " + o.Name
			if other, ok := files[called]; ok {
				return fmt.Errorf("-f %s: the %s is in %s as well; give one of them", shown, called, other)
			}
			files[called] = shown
		}
		objects = append(objects, found...)
	}
	if q.check && len(q.files) == 0 {
		return errors.New("--check needs the customizations: give -f FILE")
	}
	var found []render.Finding
	q.rules, found = decide.CompileRules(objects)
	q.findings = append(q.findings, found...)
	slices.SortStableFunc(q.findings, render.Finding.Compare)
	for _, o := range objects {
		if o.Kind == "ResourceInterpreterCustomization" {
			q.targets = append(q.targets, targetOf(o))
		}
	}
	return nil
}

func isError(f render.Finding) bool { return f.Severity == render.Error }

func targetOf(o *manifest.Object) target {
	spec, _ := o.Content["spec"].(map[string]any)
	of, _ := spec["target"].(map[string]any)
	t := target{Name: o.Name, Operations: []string{}}
	t.APIVersion, _ = of["apiVersion"].(string)
	t.Kind, _ = of["kind"].(string)
	rules, _ := spec["customizations"].(map[string]any)
	for _, op := range operations {
		if rules[op.field] != nil {
			t.Operations = append(t.Operations, op.name)
		}
	}
	return t
}

func (q *interpretation) printCheck(cmd *cobra.Command, output string) error {
	out := cmd.OutOrStdout()
	var err error
	findings := append([]render.Finding{}, q.findings...)
	hooks := []hook{}
	for _, w := range q.rules.Webhooks() {
		hooks = append(hooks, hook{w.String(), w.URL})
	}
	switch result := map[string]any{"customizations": append([]target{}, q.targets...), "webhooks": hooks, "findings": findings}; output {
	case "json":
		err = writeJSON(out, result)
	case "yaml":
		err = writeYAML(out, result)
	default:
		if err := report.Findings(out, style(cmd, out), findings); err != nil {
			return err
		}
		for _, t := range q.targets {
			if !slices.ContainsFunc(findings, func(f render.Finding) bool { return strings.HasSuffix(f.Object, " "+t.Name) }) {
				fmt.Fprintf(out, "%s: %s %s: %s: ok\n", t.Name, t.APIVersion, t.Kind, cmp.Or(strings.Join(t.Operations, ", "), "no rules"))
			}
		}
		for _, h := range hooks {
			fmt.Fprintf(out, "%s: %s: ok\n", h.Name, h.URL)
		}
	}
	if err == nil && slices.ContainsFunc(findings, isError) {
		return &statusError{status: exitFindings}
	}
	return err
}

// operation is something that the command answers, in the words of Karmada's tool.
type operation struct {
	name      string
	operation interpret.Operation
	field     string // of a customization
	answer    func(*interpretation, answer) (answer, error)
}

var operations = []operation{
	{"interpretReplica", interpret.InterpretReplica, "replicaResource", (*interpretation).replica},
	{"interpretComponent", interpret.InterpretComponent, "componentResource", (*interpretation).component},
	{"reviseReplica", interpret.ReviseReplica, "replicaRevision", (*interpretation).revise},
	{"retain", interpret.Retain, "retention", (*interpretation).retain},
	{"interpretStatus", interpret.InterpretStatus, "statusReflection", (*interpretation).status},
	{"aggregateStatus", interpret.AggregateStatus, "statusAggregation", (*interpretation).aggregate},
	{"interpretHealth", interpret.InterpretHealth, "healthInterpretation", (*interpretation).health},
	{"interpretDependency", interpret.InterpretDependency, "dependencyInterpretation", (*interpretation).dependency},
}

// answer is the result of an operation. Of the pointers and lists one is set, the others are left out.
type answer struct {
	Operation string                       `json:"operation"`
	Resource  workv1alpha2.ObjectReference `json:"resource"`
	// Rule says who answered; empty where no layer has a rule of its own.
	Rule string `json:"rule,omitempty"`
	// Webhook is the one that the reconciler asks instead; empty if none.
	Webhook      string                            `json:"webhook,omitempty"`
	Replicas     *int32                            `json:"replicas,omitempty"`
	Requirements *workv1alpha2.ReplicaRequirements `json:"requirements,omitempty"`
	Components   []workv1alpha2.Component          `json:"components,omitempty"`
	Object       api.Object                        `json:"object,omitempty"`
	Status       api.Object                        `json:"status,omitempty"`
	Health       workv1alpha2.ResourceHealth       `json:"health,omitempty"`
	Dependencies []interpret.Reference             `json:"dependencies,omitempty"`

	text any // what is printed for people
}

func (q *interpretation) run(cmd *cobra.Command, output string) error {
	at := slices.IndexFunc(operations, func(o operation) bool { return strings.EqualFold(o.name, q.operation) })
	if at < 0 {
		var names []string
		for _, o := range operations {
			names = append(names, o.name)
		}
		return fmt.Errorf("--operation %q: give one of %s", q.operation, strings.Join(names, ", "))
	}
	op := operations[at]
	a, err := op.answer(q, answer{Operation: op.name})
	if a.Resource.Kind != "" {
		a.Rule = q.rules.Layer(a.id(), op.operation)
		if w := q.rules.Webhook(a.id(), op.operation); w != nil && decide.AsksWebhooks(op.operation) {
			a.Webhook = w.String()
			fmt.Fprintf(cmd.ErrOrStderr(), "godwit: run asks the webhook %s for %s of %s %s; here it is not asked, and the answer is by the next rule: %s\n",
				w, op.name, a.Resource.APIVersion, a.Resource.Kind, cmp.Or(a.Rule, "what holds for any kind"))
		}
	}
	if err != nil {
		return q.located(err, a)
	}
	switch {
	case a.Webhook != "": // was said
	case a.Rule == "":
		fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %s %s has no rule for %s; this is what holds for any kind\n", a.Resource.APIVersion, a.Resource.Kind, op.name)
	case len(q.targets) > 0 && !strings.HasPrefix(a.Rule, "customization "):
		fmt.Fprintf(cmd.ErrOrStderr(), "godwit: no customization of -f has %s for %s %s; the rule is %s\n", op.name, a.Resource.APIVersion, a.Resource.Kind, a.Rule)
	}
	out := cmd.OutOrStdout()
	switch output {
	case "json":
		return writeJSON(out, a)
	case "yaml":
		return writeYAML(out, a)
	}
	if text, ok := a.text.(string); ok {
		_, err = fmt.Fprintln(out, text)
		return err
	}
	return writeYAML(out, a.text)
}

// located says where the script stands that gave no answer.
func (q *interpretation) located(err error, a answer) error {
	var failures interpret.Failures
	if a.Resource.Kind != "" && failures.Add(err, a.id().String()) {
		for _, f := range q.rules.Findings(failures) {
			return errors.New(f.String())
		}
	}
	return err
}

func (a answer) id() api.ID {
	id := api.ID{Kind: a.Resource.Kind, Namespace: a.Resource.Namespace, Name: a.Resource.Name}
	id.Group, id.Version = api.SplitAPIVersion(a.Resource.APIVersion)
	return id
}

// about makes the answer one about o.
func (a answer) about(o api.Object) answer {
	id := api.IDOf(o)
	a.Resource = workv1alpha2.ObjectReference{APIVersion: id.APIVersion(), Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
	return a
}

// object reads the one object of a file.
func (q *interpretation) object(flag, name string) (api.Object, error) {
	data, shown, err := q.read(flag, name)
	if err != nil {
		return nil, err
	}
	u := manifest.Parse(shown, data, manifest.Options{})
	for _, f := range u.Findings {
		if f.Severity == render.Error {
			return nil, errors.New(f.String())
		}
	}
	if len(u.Objects) != 1 {
		return nil, fmt.Errorf("%s %s: holds %d objects, and one is asked about", flag, shown, len(u.Objects))
	}
	return u.Objects[0].Content, nil
}

// template is the desired object with the defaults that templates in Git get.
func (q *interpretation) template() (api.Object, error) {
	if q.desired == "" {
		return nil, fmt.Errorf("%s needs the object as written in Git: give --desired FILE", q.operation)
	}
	o, err := q.object("--desired", q.desired)
	if err != nil {
		return nil, err
	}
	return interpret.Default(o), nil
}

func (q *interpretation) live() (api.Object, error) {
	if q.observed == "" {
		return nil, fmt.Errorf("%s needs the object as it is on a member: give --observed FILE", q.operation)
	}
	return q.object("--observed", q.observed)
}

// either is the object where it does not matter which one it is.
func (q *interpretation) either() (api.Object, error) {
	switch {
	case q.desired != "" && q.observed != "":
		return nil, fmt.Errorf("%s is about one object: give --desired or --observed", q.operation)
	case q.observed != "":
		return q.live()
	case q.desired != "":
		return q.template()
	}
	return nil, fmt.Errorf("%s needs an object: give --desired FILE or --observed FILE", q.operation)
}

func (q *interpretation) replica(a answer) (answer, error) {
	o, err := q.either()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	r, err := q.rules.Count(o)
	if err != nil {
		return a, err
	}
	if !r.Workload {
		a.text = "no workload"
		return a, nil
	}
	a.Replicas, a.Requirements = &r.Count, r.Requirements
	a.text = struct {
		Replicas     int32                             `json:"replicas"`
		Requirements *workv1alpha2.ReplicaRequirements `json:"requirements,omitempty"`
	}{r.Count, r.Requirements}
	return a, nil
}

func (q *interpretation) component(a answer) (answer, error) {
	o, err := q.either()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	a.Components, err = q.rules.Components(o)
	a.text = "no components"
	if len(a.Components) > 0 {
		a.text = a.Components
	}
	return a, err
}

func (q *interpretation) revise(a answer) (answer, error) {
	if q.replicas < 0 {
		return a, fmt.Errorf("%s needs the number of replicas: give --desired-replica N", q.operation)
	}
	o, err := q.either()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	a.Object, err = q.rules.Revise(o, q.replicas)
	a.text = a.Object
	return a, err
}

func (q *interpretation) retain(a answer) (answer, error) {
	desired, err := q.template()
	if err != nil {
		return a, err
	}
	a = a.about(desired)
	observed, err := q.live()
	if err != nil {
		return a, err
	}
	if of := (answer{}).about(observed); of.Resource != a.Resource {
		return a, fmt.Errorf("--desired is %s %s, --observed is %s %s: give two versions of one object",
			a.Resource.APIVersion, a.id(), of.Resource.APIVersion, of.id())
	}
	a.Object, err = q.rules.Retain(desired, observed)
	a.text = a.Object
	return a, err
}

func (q *interpretation) status(a answer) (answer, error) {
	o, err := q.live()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	a.Status, err = q.rules.Status(o)
	a.text = "no status"
	if a.Status != nil {
		a.text = a.Status
	}
	return a, err
}

func (q *interpretation) health(a answer) (answer, error) {
	o, err := q.live()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	a.Health, err = q.rules.Health(o)
	a.text = string(a.Health)
	return a, err
}

func (q *interpretation) dependency(a answer) (answer, error) {
	o, err := q.either()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	a.Dependencies, err = q.rules.Dependencies(o)
	lines := []string{}
	for _, ref := range a.Dependencies {
		lines = append(lines, ref.String())
	}
	a.text = cmp.Or(strings.Join(lines, "\n"), "no dependencies")
	return a, err
}

func (q *interpretation) aggregate(a answer) (answer, error) {
	o, err := q.template()
	if err != nil {
		return a, err
	}
	a = a.about(o)
	if len(q.statuses) == 0 {
		return a, fmt.Errorf("%s needs the statuses of members: give --status-file FILE", q.operation)
	}
	items := []interpret.StatusItem{}
	for _, name := range q.statuses {
		data, shown, err := q.read("--status-file", name)
		if err != nil {
			return a, err
		}
		more, err := statusItems(data)
		if err != nil {
			return a, fmt.Errorf("--status-file %s: %w", shown, err)
		}
		items = append(items, more...)
	}
	slices.SortStableFunc(items, func(a, b interpret.StatusItem) int { return cmp.Compare(a.Cluster, b.Cluster) })
	for n := range items {
		if n > 0 && items[n].Cluster == items[n-1].Cluster {
			return a, fmt.Errorf("--status-file: the status of %s is there twice", items[n].Cluster)
		}
	}
	a.Object, err = q.rules.AggregateStatus(o, items)
	a.text = a.Object
	return a, err
}

// statusItems reads documents that are items or lists of them.
func statusItems(data []byte) ([]interpret.StatusItem, error) {
	var items []interpret.StatusItem
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		var v any
		if err == nil {
			v, _, err = canonical.Decode(text)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		list, isList := v.([]any)
		if !isList && v != nil {
			list = []any{v}
		}
		for _, v := range list {
			item, err := statusItem(v)
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", n, err)
			}
			items = append(items, item)
		}
	}
}

func statusItem(v any) (interpret.StatusItem, error) {
	var item interpret.StatusItem
	m, ok := v.(map[string]any)
	if !ok {
		return item, errors.New("want {clusterName, status, applied, appliedMessage, health}, or a list of them")
	}
	for name, v := range m {
		ok := v == nil
		switch name {
		case "clusterName":
			item.Cluster, ok = v.(string)
		case "status":
			if v != nil {
				item.Status, ok = v.(map[string]any)
			}
		case "applied":
			item.Applied, ok = v.(bool)
		case "appliedMessage":
			item.AppliedMessage, ok = v.(string)
		case "health":
			var health string
			health, ok = v.(string)
			item.Health = workv1alpha2.ResourceHealth(health)
		default:
			return item, fmt.Errorf("unknown field %s: the fields are clusterName, status, applied, appliedMessage, health", name)
		}
		if !ok {
			return item, fmt.Errorf("%s: %v has the wrong type", name, v)
		}
	}
	if item.Cluster == "" {
		return item, errors.New("an item without clusterName")
	}
	return item, nil
}
