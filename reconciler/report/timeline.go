package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/simulate"
)

// Played is one line of a simulation's timeline.
type Played struct {
	// At is the time since the start, as 2m0s.
	At     string    `json:"at"`
	Time   time.Time `json:"time"`
	Commit string    `json:"commit,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// Binding or Cluster is what it is about.
	Binding string `json:"binding,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// From are the clusters that lose replicas or the workload, with what they had; To are all that have it then.
	From    []Target `json:"from"`
	To      []Target `json:"to"`
	Message string   `json:"message"`
}

// Ending is where bindings are when a simulation ends.
type Ending struct {
	Bindings []EndingBinding `json:"bindings"`
}

// EndingBinding is one of them.
type EndingBinding struct {
	Binding  string   `json:"binding"`
	Clusters []Target `json:"clusters"`
	// Leaving are clusters that still have a copy that is to go.
	Leaving []string `json:"leaving,omitempty"`
}

// Timeline prints the steps of a simulation as they come.
type Timeline struct {
	w     io.Writer
	style Style
	json  bool
	err   error
}

// NewTimeline prints to w, as text or one JSON object a line.
func NewTimeline(w io.Writer, s Style, asJSON bool) *Timeline {
	return &Timeline{w: w, style: s, json: asJSON}
}

// Step prints one.
func (t *Timeline) Step(l simulate.Line) {
	if t.json {
		t.line(Played{
			At: l.At.String(), Time: l.Time, Commit: l.Commit, Reason: string(l.Reason), Binding: l.Binding, Cluster: l.Cluster,
			From: sortedTargets(l.From), To: sortedTargets(l.To), Message: l.Message,
		})
		return
	}
	about := cmp.Or(l.Binding, l.Cluster, "-")
	// Lines come one by one, so columns are made for what is usual. On a narrow terminal the text goes below.
	when := fmt.Sprintf("%-8s %-8.7s %-19s ", l.At, cmp.Or(l.Commit, "-"), cmp.Or(string(l.Reason), "-"))
	first, hang := when, strings.Repeat(" ", len(when))
	if width := t.style.Width; width > 0 && width-len(when) < readable {
		hang = "    "
		first = strings.TrimRight(when, " ") + "\n" + hang
	}
	for _, line := range wrap(flat(about+": "+l.Message), max(0, t.style.Width-len(hang)), nowhere) {
		t.print("%s%s\n", first, line)
		first = hang
	}
}

// End prints where everything is, and returns the first error of writing.
func (t *Timeline) End(s *record.State) error {
	end := EndingOf(s)
	if t.json {
		t.line(end)
		return t.err
	}
	t.print("\n")
	for _, b := range end.Bindings {
		words := make([]string, len(b.Clusters))
		for i, c := range b.Clusters {
			words[i] = c.Name
			if c.Replicas > 0 {
				words[i] = fmt.Sprintf("%s=%d", c.Name, c.Replicas)
			}
		}
		where := cmp.Or(strings.Join(words, " "), "nowhere")
		if len(b.Leaving) > 0 {
			where += ", leaving " + strings.Join(b.Leaving, " ")
		}
		t.print("%s: %s\n", b.Binding, where)
	}
	return t.err
}

func (t *Timeline) print(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); t.err == nil {
		t.err = err
	}
}

func (t *Timeline) line(v any) {
	e := json.NewEncoder(t.w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); t.err == nil {
		t.err = err
	}
}

// EndingOf is where the bindings of a state are, sorted.
func EndingOf(s *record.State) Ending {
	end := Ending{Bindings: []EndingBinding{}}
	keys := make([]record.BindingKey, 0, len(s.Bindings))
	for key := range s.Bindings {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, record.BindingKey.Compare)
	for _, key := range keys {
		b := s.Bindings[key]
		row := EndingBinding{Binding: key.String(), Clusters: sortedTargets(decide.Targets(b))}
		for _, task := range b.Spec.GracefulEvictionTasks {
			row.Leaving = append(row.Leaving, task.FromCluster)
		}
		end.Bindings = append(end.Bindings, row)
	}
	return end
}
