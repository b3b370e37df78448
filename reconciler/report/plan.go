package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// Plan is what a source would change.
type Plan struct {
	Source   Revisions `json:"source"`
	Bindings []Binding `json:"bindings"`
	Unbound  []Unbound `json:"unbound"`
	Works    []Work    `json:"works"`
	Held     []Held    `json:"held,omitempty"`
	// Hydrated are the members among those that change whose works others apply, from the state branch.
	Hydrated []string  `json:"hydrated,omitempty"`
	Findings []Finding `json:"findings"`
	Summary  Summary   `json:"summary"`
	// WhatIf is only there where it is asked for.
	WhatIf *WhatIf `json:"whatIf,omitempty"`

	compared bool // with the findings of what it changes
	fleet    bool // members come, go, or are reached otherwise
}

// Revisions are the commits compared; empty where there is none.
type Revisions struct {
	Base string `json:"base"`
	Head string `json:"head"`
}

// Resource names an object.
type Resource struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is "Kind namespace/name".
func (r Resource) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Policy names a policy.
type Policy struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Target is a member with its replicas, 0 where the kind has none.
type Target struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

// Binding is the decision about one template.
type Binding struct {
	Namespace    string        `json:"namespace,omitempty"`
	Name         string        `json:"name"`
	Resource     Resource      `json:"resource"`
	Policy       *Policy       `json:"policy,omitempty"`
	Change       decide.Change `json:"change"`
	Previous     []Target      `json:"previous"`
	Clusters     []Target      `json:"clusters"`
	Failure      string        `json:"failure"`
	DependencyOf []string      `json:"dependencyOf,omitempty"`
	Message      string        `json:"message"`
}

// Key is "namespace/name".
func (b Binding) Key() string {
	return record.BindingKey{Namespace: b.Namespace, Name: b.Name}.String()
}

// Unbound is a template that runs nowhere.
type Unbound struct {
	Resource Resource `json:"resource"`
	Message  string   `json:"message"`
}

// Work is one object on one member.
type Work struct {
	Cluster  string        `json:"cluster"`
	Resource Resource      `json:"resource"`
	Change   decide.Change `json:"change"`
	// Stays: its file goes, and the object stays on the member.
	Stays bool `json:"stays,omitempty"`
	// Hunks are the diff without its first two lines, which name the member's file. The same text is the
	// same for all members. Hunks is empty where nothing changes.
	Hunks         string `json:"-"`
	path          string
	before, after record.Work
}

// Diff is unified; it is empty where nothing changes.
func (w Work) Diff() string {
	if w.Hunks == "" {
		return ""
	}
	from, to := "a/"+w.path, "b/"+w.path
	switch w.Change {
	case decide.Added:
		from = "/dev/null"
	case decide.Removed:
		to = "/dev/null"
	}
	return "--- " + from + "\n+++ " + to + "\n" + w.Hunks
}

// MarshalJSON adds the diff.
func (w Work) MarshalJSON() ([]byte, error) {
	type fields Work
	return json.Marshal(struct {
		fields
		Diff string `json:"diff"`
	}{fields(w), w.Diff()})
}

// same are works of which the same is shown: one object that changes in the same way on many members.
type same struct {
	Work    // of the first member
	members []string
}

// word is what happens to the object on the member, for people.
func (s *same) word() string {
	if s.Stays {
		return "released"
	}
	return string(s.Change)
}

// changeOrder is what a reviewer reads first.
var changeOrder = []decide.Change{decide.Removed, decide.Moved, decide.Scaled, decide.Added, decide.Updated, decide.Unchanged}

func compareChanges(a, b decide.Change) int {
	return cmp.Compare(slices.Index(changeOrder, a), slices.Index(changeOrder, b))
}

// changed are the bindings that change or cannot be placed, removals and moves first; with all, also the others.
func (p *Plan) changed(all bool) []Binding {
	bindings := slices.Clone(p.Bindings)
	if !all {
		bindings = slices.DeleteFunc(bindings, func(b Binding) bool { return b.Change == decide.Unchanged && b.Failure == "" })
	}
	slices.SortStableFunc(bindings, func(a, b Binding) int { return compareChanges(a.Change, b.Change) })
	return bindings
}

// changes are the works that change, removals first; those with the same diff come together.
func (p *Plan) changes() []*same {
	type key struct {
		change   decide.Change
		stays    bool
		resource Resource
		hunks    string
	}
	var groups []*same
	known := map[key]*same{}
	for _, w := range p.Works {
		if w.Change == decide.Unchanged {
			continue
		}
		k := key{w.Change, w.Stays, w.Resource, w.Hunks}
		g := known[k]
		if g == nil {
			g = &same{Work: w}
			known[k] = g
			groups = append(groups, g)
		}
		g.members = append(g.members, w.Cluster)
	}
	slices.SortStableFunc(groups, func(a, b *same) int { return compareChanges(a.Change, b.Change) })
	return groups
}

// Held is a deletion that the brake holds.
type Held struct {
	Cluster  string   `json:"cluster"`
	Resource Resource `json:"resource"`
	Message  string   `json:"message"`
}

// Summary counts.
type Summary struct {
	Bindings map[decide.Change]int `json:"bindings"`
	Works    map[decide.Change]int `json:"works"`
	// ReplicasMoved is the sum of replicas that members gain.
	ReplicasMoved int `json:"replicasMoved"`
}

// Changes tells whether anything is added, removed, moved, scaled or updated, members among it.
func (p *Plan) Changes() bool {
	if p.fleet {
		return true
	}
	for change, n := range p.Summary.Bindings {
		if change != decide.Unchanged && n > 0 {
			return true
		}
	}
	for change, n := range p.Summary.Works {
		if change != decide.Unchanged && n > 0 {
			return true
		}
	}
	return false
}

// Errors tells whether a finding that was not there before is an error.
func (p *Plan) Errors() bool { return p.newErrors() > 0 }

// New is the plan of a decision made on previous. What a change does beside its rows, as to policies, members
// and failover, is among the findings.
func New(d *decide.Decision, previous *record.State, r Revisions) *Plan {
	if previous == nil {
		previous = record.New()
	}
	p := &Plan{
		Source: r, Bindings: []Binding{}, Unbound: []Unbound{}, Works: []Work{}, Findings: []Finding{},
		Summary: Summary{Bindings: map[decide.Change]int{}, Works: map[decide.Change]int{}},
	}
	messages := d.Messages(previous)
	for _, row := range d.Bindings {
		p.binding(row, messages[row.Key])
	}
	for _, u := range d.Unbound {
		p.Unbound = append(p.Unbound, Unbound{resource(u.Template), u.Message})
	}
	for _, h := range d.Held {
		p.Held = append(p.Held, Held{h.Cluster, resource(h.ID), h.Message})
	}
	p.works(d, previous)
	effects := d.Effects(previous)
	p.fleet = slices.ContainsFunc(effects, decide.AboutMember)
	p.find(slices.Concat(d.Findings, effects))
	slices.SortFunc(p.Bindings, func(a, b Binding) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource.Kind, b.Resource.Kind), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Unbound, func(a, b Unbound) int { return compareResources(a.Resource, b.Resource) })
	slices.SortFunc(p.Works, func(a, b Work) int {
		return cmp.Or(compareResources(a.Resource, b.Resource), cmp.Compare(a.Cluster, b.Cluster))
	})
	return p
}

func compareResources(a, b Resource) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIVersion, b.APIVersion))
}

func resource(id api.ID) Resource {
	return Resource{APIVersion: id.APIVersion(), Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

func (r Resource) id() api.ID {
	return record.ObjectRef(r).ID()
}

func (p *Plan) binding(row decide.BindingRow, message string) {
	b := Binding{
		Namespace: row.Key.Namespace, Name: row.Key.Name, Resource: resource(row.Template), Change: row.Change,
		Previous: sortedTargets(row.Previous), Clusters: sortedTargets(row.Clusters),
		Failure: row.Failure, DependencyOf: row.DependencyOf, Message: message,
	}
	if row.Policy != nil {
		b.Policy = &Policy{row.Policy.Kind, row.Policy.Namespace, row.Policy.Name}
	}
	for _, e := range row.RenderErrors {
		if b.Message != "" {
			b.Message += "; "
		}
		b.Message += e.Cluster + ": " + e.Message
	}
	p.Bindings = append(p.Bindings, b)
	p.Summary.Bindings[b.Change]++
	before := map[string]int32{}
	for _, t := range b.Previous {
		before[t.Name] = t.Replicas
	}
	for _, t := range b.Clusters {
		if gain := t.Replicas - before[t.Name]; gain > 0 && len(b.Previous) > 0 {
			p.Summary.ReplicasMoved += int(gain)
		}
	}
}

func sortedTargets(clusters []workv1alpha2.TargetCluster) []Target {
	targets := make([]Target, len(clusters))
	for i, c := range clusters {
		targets[i] = Target{c.Name, c.Replicas}
	}
	slices.SortFunc(targets, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return targets
}

func (p *Plan) works(d *decide.Decision, previous *record.State) {
	changed := make(map[string]decide.Change, len(d.Works))
	known := map[[2]record.Hash]string{} // hunks by the hashes of the texts
	for _, row := range d.Works {
		changed[row.Path] = row.Change
		w := Work{Cluster: row.Cluster, Resource: resource(row.ID), Change: row.Change, Stays: d.Stays(previous, row), path: row.Path}
		before, after := previous.Works[row.Path], d.Next.Works[row.Path]
		if work.IsSecret(row.ID) {
			before, after = inWords(before, after)
		}
		w.before, w.after = before, after
		k := [2]record.Hash{before.Hash, after.Hash}
		if _, ok := known[k]; !ok {
			known[k] = hunks(text(before), text(after))
		}
		w.Hunks = known[k]
		if row.Change != decide.Unchanged && !slices.Contains(p.Hydrated, row.Cluster) && decide.DeliveryOf(d.Next.Members[row.Cluster]) == decide.DeliveryHydrate {
			p.Hydrated = append(p.Hydrated, row.Cluster)
		}
		p.Works = append(p.Works, w)
		p.Summary.Works[row.Change]++
	}
	slices.Sort(p.Hydrated)
	for path, w := range d.Next.Works {
		if _, ok := changed[path]; ok {
			continue
		}
		p.Summary.Works[decide.Unchanged]++
		if w, err := record.Identify(w); err == nil {
			p.Works = append(p.Works, Work{Cluster: w.Member, Resource: resource(w.ID), Change: decide.Unchanged})
		}
	}
}

// inWords are two versions of a Secret with words for their values.
func inWords(before, after record.Work) (record.Work, record.Work) {
	parse := func(w record.Work) (api.Object, error) {
		if w.Text == nil {
			return nil, nil
		}
		return canonical.Parse(w.Text())
	}
	old, errOld := parse(before)
	next, errNext := parse(after)
	if errOld != nil || errNext != nil {
		return before, after // a record that is damaged stays as it is
	}
	old, next = work.Words(old, next)
	if old != nil {
		before.Text = func() []byte { return canonical.YAML(old) }
	}
	if next != nil {
		after.Text = func() []byte { return canonical.YAML(next) }
	}
	return before, after
}

func text(w record.Work) string {
	if w.Text == nil {
		return ""
	}
	return string(w.Text())
}

// Diff is the unified diff of a file, empty if nothing differs; an empty side is a file that is not there.
func Diff(path, before, after string) string {
	w := Work{path: path, Change: decide.Updated, Hunks: hunks(before, after)}
	switch {
	case before == "":
		w.Change = decide.Added
	case after == "":
		w.Change = decide.Removed
	}
	return w.Diff()
}

// hunks compares two texts; an empty one is that of no file.
func hunks(before, after string) string {
	switch {
	case before == after:
		return ""
	case before == "":
		return whole("@@ -0,0 +%s @@\n", "+", after)
	case after == "":
		return whole("@@ -%s +0,0 @@\n", "-", before)
	}
	out, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(before), B: lines(after), Context: 3})
	if err != nil {
		return err.Error()
	}
	return out
}

// whole is the only hunk of a file that comes or goes.
func whole(head, mark, text string) string {
	all := lines(text)
	span := "1"
	if n := len(all); n > 1 {
		span = fmt.Sprintf("1,%d", n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, span)
	for _, line := range all {
		b.WriteString(mark)
		b.WriteString(line)
	}
	return b.String()
}

func lines(s string) []string { return slices.Collect(strings.Lines(s)) }
