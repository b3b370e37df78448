package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/simulate"
)

// Loss is what would come of members that die.
type Loss struct {
	// Clusters are the members.
	Clusters []string `json:"clusters"`
	// After is how much time passes, as 1h0m0s.
	After string `json:"after"`
	// Brake says why no workload moves at all; empty if they may.
	Brake    string        `json:"brake,omitempty"`
	Bindings []LossBinding `json:"bindings"`
	Summary  LossSummary   `json:"summary"`
}

// LossBinding is an object that runs on one of them.
type LossBinding struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Resource  Resource `json:"resource"`
	// Outcome is moves, where it leaves the dead and nothing is missing then; partly, where some of it does,
	// or it leaves and less of it runs than before, as of a copy that nothing replaces; or stays.
	Outcome string `json:"outcome"`
	// At is when it begins to move, as 1m0s from now; empty if it does not.
	At string `json:"at,omitempty"`
	// Previous is where it runs now, Clusters where it runs then; what stays on a dead member does not run.
	Previous []Target `json:"previous"`
	Clusters []Target `json:"clusters"`
	// Lost are the clusters among them that are dead.
	Lost []string `json:"lost,omitempty"`
	// Missing are the replicas that run before and not then; of a kind that has none, the copies.
	Missing int `json:"missing,omitempty"`
	// Message says why it moves when it does, or why it does not.
	Message string `json:"message"`
}

// LossSummary counts them.
type LossSummary struct {
	Moves  int `json:"moves"`
	Partly int `json:"partly"`
	Stays  int `json:"stays"`
}

// NewLoss tells what happened in a simulation that began with the state before, when the members died.
func NewLoss(clusters []string, after time.Duration, before *record.State, r *simulate.Result) *Loss {
	l := &Loss{Clusters: clusters, After: after.String(), Bindings: []LossBinding{}}
	if b := r.State.Meta.FailoverBrake; b != nil && !b.Approved {
		l.Brake = b.Message
	}
	began, why := map[string]time.Duration{}, map[string]string{}
	for _, line := range r.Lines {
		if _, known := began[line.Binding]; !known && len(line.Causes) > 0 {
			words := make([]string, len(line.Causes))
			for i, c := range line.Causes {
				words[i] = c.Cluster + ": " + c.Short
			}
			began[line.Binding], why[line.Binding] = line.At, strings.Join(words, "; ")
		}
	}
	for _, row := range r.Last.Bindings {
		old := before.Bindings[row.Key]
		if old == nil || old.Spec.Placement == nil { // what only follows others goes where they go
			continue
		}
		previous := sortedTargets(decide.Targets(old))
		if !slices.ContainsFunc(previous, func(t Target) bool { return slices.Contains(clusters, t.Name) }) {
			continue
		}
		b := LossBinding{
			Namespace: row.Key.Namespace, Name: row.Key.Name, Resource: resource(row.Template),
			Previous: previous, Clusters: sortedTargets(row.Clusters), Message: why[row.Key.String()],
		}
		for _, t := range b.Clusters {
			if slices.Contains(clusters, t.Name) {
				b.Lost = append(b.Lost, t.Name)
			}
		}
		at, moved := began[row.Key.String()]
		if moved {
			b.At = at.String()
		}
		b.Missing = max(0, b.size(b.Previous)-b.size(slices.DeleteFunc(slices.Clone(b.Clusters), func(t Target) bool { return slices.Contains(b.Lost, t.Name) })))
		switch {
		case len(b.Lost) == 0 && b.Missing > 0:
			b.Outcome = "partly"
			b.Message = strings.TrimPrefix(b.Message+"; nothing replaces "+lost(b.Missing, b.counted())+" of "+fmt.Sprint(b.size(b.Previous)), "; ")
			l.Summary.Partly++
		case len(b.Lost) == 0:
			b.Outcome = "moves"
			l.Summary.Moves++
		case moved:
			b.Outcome, b.Message = "partly", cmp.Or(l.why(row), b.Message)
			l.Summary.Partly++
		default:
			b.Outcome, b.Message = "stays", l.why(row)
			l.Summary.Stays++
		}
		l.Bindings = append(l.Bindings, b)
	}
	return l
}

// counted tells whether it has replicas.
func (b LossBinding) counted() bool {
	return slices.ContainsFunc(b.Previous, func(t Target) bool { return t.Replicas > 0 })
}

// size is how much of it runs on members.
func (b LossBinding) size(targets []Target) int {
	if !b.counted() {
		return len(targets)
	}
	n := 0
	for _, t := range targets {
		n += int(t.Replicas)
	}
	return n
}

// lost is so much of an object, in words; counted tells whether it has replicas.
func lost(n int, counted bool) string {
	switch {
	case counted:
		return plural(n, "replica")
	case n == 1:
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// why says why a workload does not leave the dead members.
func (l *Loss) why(row decide.BindingRow) string {
	if row.Waits && l.Brake != "" {
		return "brake: " + l.Brake
	}
	if row.Blocked != "" {
		return row.Blocked
	}
	for _, c := range row.Causes {
		if slices.Contains(l.Clusters, c.Cluster) {
			return c.Cluster + ": " + c.Short
		}
	}
	return cmp.Or(row.Message, "nothing makes it leave")
}

// Text prints it for people. A reason that several workloads share is told once, below the table.
func (l *Loss) Text(w io.Writer, s Style) error {
	if l.Brake != "" {
		if err := prose(w, s, "", "  ", heed, "Nothing moves: "+flat(l.Brake)+"."); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if len(l.Bindings) > 0 {
		var notes notes
		for _, b := range l.Bindings {
			notes.count(b.Message)
		}
		rows := [][]string{{"OBJECT", "OUTCOME", "AT", "BEFORE", "AFTER", "WHY"}}
		for _, b := range l.Bindings {
			rows = append(rows, []string{b.Resource.String(), b.Outcome, cmp.Or(b.At, "-"), targetsText(b.Previous), l.then(b), notes.of(b.Message)})
		}
		if err := Table(w, s, rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := notes.print(w, s); err != nil {
			return err
		}
	}
	return prose(w, s, "", "  ", "", l.Line())
}

// then is where a workload runs afterwards, with the dead ones marked.
func (l *Loss) then(b LossBinding) string {
	words := make([]string, len(b.Clusters))
	for i, t := range b.Clusters {
		words[i] = targetsText([]Target{t})
		if slices.Contains(b.Lost, t.Name) {
			words[i] += " (dead)"
		}
	}
	return cmp.Or(strings.Join(words, " "), "nowhere")
}

// Line sums it up.
func (l *Loss) Line() string {
	s := l.Summary
	return fmt.Sprintf("If %s died now: %d of %d objects there would move, %d in part, %d would stay.",
		strings.Join(l.Clusters, ", "), s.Moves, s.Moves+s.Partly+s.Stays, s.Partly, s.Stays)
}

// Markdown is for a pull request.
func (l *Loss) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n", cell(l.Line()))
	if l.Brake != "" {
		fmt.Fprintf(&b, "\nNothing moves: %s.\n", cell(l.Brake))
	}
	if len(l.Bindings) > 0 {
		b.WriteString("\n| object | outcome | at | before | after | why |\n| --- | --- | --- | --- | --- | --- |\n")
		for _, r := range l.Bindings {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(r.Resource.String()), r.Outcome, cmp.Or(r.At, "-"), cell(targetsText(r.Previous)), cell(l.then(r)), cell(r.Message))
		}
	}
	return b.String()
}
