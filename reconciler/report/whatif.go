package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// WhatIf is what would come of each member's death once a plan is carried out.
type WhatIf struct {
	Clusters []WhatIfCluster `json:"clusters"`
}

// WhatIfCluster is one member.
type WhatIfCluster struct {
	Cluster string      `json:"cluster"`
	Brake   string      `json:"brake,omitempty"`
	Summary LossSummary `json:"summary"`
	// Changes are objects for which it would be otherwise than before the plan: worse ones first.
	Changes []WhatIfChange `json:"changes,omitempty"`
}

// WhatIfChange is an object whose lot changes.
type WhatIfChange struct {
	Resource Resource `json:"resource"`
	// Worse: it would lose more than before, also where the word is the same. What comes anew and would stay
	// there is worse, too.
	Worse bool `json:"worse"`
	// Before and After are moves, partly, stays, or elsewhere where it does not run on the member.
	Before string `json:"before"`
	After  string `json:"after"`
	// MissingBefore and MissingAfter are the replicas that would not run any more or, with Copies, the copies of what
	// has no replicas.
	MissingBefore int  `json:"missingBefore,omitempty"`
	MissingAfter  int  `json:"missingAfter,omitempty"`
	Copies        bool `json:"copies,omitempty"`
	// Message says why After.
	Message string `json:"message,omitempty"`
}

// elsewhere is the outcome of an object that does not run on the member.
const elsewhere = "elsewhere"

// outcomes from good to bad.
var outcomes = []string{elsewhere, "moves", "partly", "stays"}

// Compare adds what would come of a member: before is without the plan, nil if that is not known.
func (w *WhatIf) Compare(cluster string, before, after *Loss) {
	c := WhatIfCluster{Cluster: cluster, Brake: after.Brake, Summary: after.Summary}
	was := map[string]LossBinding{}
	if before != nil {
		for _, b := range before.Bindings {
			was[b.Namespace+"/"+b.Name] = b
		}
	}
	for _, b := range after.Bindings {
		key := b.Namespace + "/" + b.Name
		old, known := was[key]
		if !known {
			old.Outcome = elsewhere
		}
		delete(was, key)
		c.note(before, b.Resource, old, b, known)
	}
	for _, old := range was {
		c.note(before, old.Resource, old, LossBinding{Outcome: elsewhere}, true)
	}
	slices.SortFunc(c.Changes, func(a, b WhatIfChange) int {
		if a.Worse != b.Worse {
			if a.Worse {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(a.Resource.String(), b.Resource.String()), strings.Compare(a.Resource.APIVersion, b.Resource.APIVersion))
	})
	w.Clusters = append(w.Clusters, c)
}

func (c *WhatIfCluster) note(before *Loss, r Resource, from, to LossBinding, known bool) {
	if before == nil || from.Outcome == to.Outcome && from.Missing == to.Missing {
		return
	}
	x, y := slices.Index(outcomes, from.Outcome), slices.Index(outcomes, to.Outcome)
	// That an object comes to a member that it would leave again is no loss.
	worse := y > x && (known || to.Outcome != "moves") || x == y && to.Missing > from.Missing
	c.Changes = append(c.Changes, WhatIfChange{
		Resource: r, Worse: worse, Before: from.Outcome, After: to.Outcome, MissingBefore: from.Missing, MissingAfter: to.Missing, Message: to.Message,
		Copies: from.Missing+to.Missing > 0 && !from.counted() && !to.counted(),
	})
}

// text is both outcomes, with what is lost.
func (x WhatIfChange) text() string {
	lot := func(outcome string, missing int) string {
		if missing == 0 {
			return outcome
		}
		return outcome + " with " + lost(missing, !x.Copies) + " lost"
	}
	return lot(x.Before+" before", x.MissingBefore) + ", " + lot(x.After+" now", x.MissingAfter)
}

// worse are the changes for the worse.
func (c *WhatIfCluster) worse() []WhatIfChange {
	return slices.DeleteFunc(slices.Clone(c.Changes), func(x WhatIfChange) bool { return !x.Worse })
}

// Text prints it for people.
func (w *WhatIf) Text(out io.Writer, s Style) error {
	fmt.Fprintln(out, "\n"+s.paint(title, "If a member died after this:"))
	rows := [][]string{{"CLUSTER", "MOVE", "IN PART", "STAY", "WORSE THAN BEFORE"}}
	for _, c := range w.Clusters {
		rows = append(rows, []string{c.Cluster, fmt.Sprint(c.Summary.Moves), fmt.Sprint(c.Summary.Partly), fmt.Sprint(c.Summary.Stays), c.worseText()})
	}
	if err := Table(out, s, rows); err != nil {
		return err
	}
	notes := w.notes()
	for _, c := range w.Clusters {
		for _, x := range c.worse() {
			line := fmt.Sprintf("%s: %s: %s: %s", flat(c.Cluster), flat(x.Resource.String()), x.text(), flat(notes.of(x.Message)))
			if err := prose(out, s, "  ", "  ", bad, line); err != nil {
				return err
			}
		}
	}
	return notes.print(out, s)
}

// notes are the reasons that several changes for the worse share.
func (w *WhatIf) notes() *notes {
	var notes notes
	for _, c := range w.Clusters {
		for _, x := range c.worse() {
			notes.count(x.Message)
		}
	}
	return &notes
}

// worseText counts them, and says what holds them all.
func (c *WhatIfCluster) worseText() string {
	text := "-"
	if n := len(c.worse()); n > 0 {
		text = fmt.Sprint(n)
	}
	if c.Brake != "" {
		text += " (brake: " + c.Brake + ")"
	}
	return text
}

// markdownWhatIf is the section of a pull request's comment.
func (p *Plan) markdownWhatIf(d *document) {
	if p.WhatIf == nil || len(p.WhatIf.Clusters) == 0 {
		return
	}
	table := list{head: "\n#### If a member died after this\n\n| member | objects that move | in part | stay | worse than before |\n| --- | --- | --- | --- | --- |\n", percent: 30, more: "\n… and %s more\n"}
	worse := list{head: "\nWorse than before:\n\n", percent: 30, more: "- … and %s more\n"}
	notes := p.WhatIf.notes()
	for _, c := range p.WhatIf.Clusters {
		table.items = append(table.items, item{"members", func() string {
			return fmt.Sprintf("| %s | %d | %d | %d | %s |\n", code(c.Cluster), c.Summary.Moves, c.Summary.Partly, c.Summary.Stays, cell(c.worseText()))
		}})
		for _, x := range c.worse() {
			worse.items = append(worse.items, item{"objects", func() string {
				return fmt.Sprintf("- %s, %s: %s: %s\n", code(c.Cluster), code(x.Resource.String()), x.text(), cell(notes.of(x.Message)))
			}})
		}
	}
	for i, note := range notes.order {
		worse.items = append(worse.items, item{"reasons", func() string { return fmt.Sprintf("- %s %s\n", cell(fmt.Sprintf("[%d]", i+1)), cell(note)) }})
	}
	d.list(table)
	d.list(worse)
}
