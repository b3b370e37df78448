package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// Style colours text; the zero value leaves it plain.
type Style struct{ Colour bool }

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

var severityColour = map[render.Severity]string{render.Error: "31", render.Warning: "33", render.Info: "36"}

// Findings prints one line each, as compilers do.
func Findings(w io.Writer, s Style, findings []render.Finding) {
	for _, f := range findings {
		line := flat(f.String())
		line = strings.Replace(line, string(f.Severity)+":", s.paint(severityColour[f.Severity], string(f.Severity)+":"), 1)
		fmt.Fprintln(w, line)
	}
}

// Flat is clean text on one line: what comes from users forges no line and no column.
func Flat(s string) string { return flat(s) }

func flat(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean takes out what could steer a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '�'
		}
		return r
	}, s)
}

// Text prints the plan for a terminal: findings, what is held, bindings that change, templates that
// run nowhere, and the diffs of works.
func (p *Plan) Text(w io.Writer, s Style, wide bool) {
	Findings(w, s, p.Findings)
	if len(p.Findings) > 0 {
		fmt.Fprintln(w)
	}
	for _, h := range p.Held {
		fmt.Fprintf(w, "%s %s on %s: %s\n", s.paint("33", "held:"), flat(h.Resource.String()), flat(h.Cluster), flat(h.Message))
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	rows := 0
	for _, b := range p.Bindings {
		if b.Change == decide.Unchanged && b.Failure == "" && !wide {
			continue
		}
		if rows++; rows == 1 {
			fmt.Fprintln(t, "BINDING\tCHANGE\tBEFORE\tAFTER\tPOLICY\tMESSAGE")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", flat(b.Key()), b.Change, targetsText(b.Previous), targetsText(b.Clusters), policyText(b.Policy), flat(b.message()))
	}
	t.Flush()
	if len(p.Unbound) > 0 {
		if rows > 0 {
			fmt.Fprintln(w)
		}
		t = tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
		fmt.Fprintln(t, "UNBOUND\tWHY")
		for _, u := range p.Unbound {
			fmt.Fprintf(t, "%s\t%s\n", flat(u.Resource.String()), flat(u.Message))
		}
		t.Flush()
	}
	for _, g := range p.changes() {
		fmt.Fprintf(w, "\n%s %s on %s\n", g.Change, flat(g.Resource.String()), flat(some(g.members)))
		PrintDiff(w, s, g.Diff())
	}
	fmt.Fprintf(w, "\n%s\n", p.Line())
}

// shown is how many members are named where a diff is the same for many. The table above names all.
const shown = 20

func some(members []string) string {
	if more := len(members) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(members[:shown], ", "), more)
	}
	return strings.Join(members, ", ")
}

func (b Binding) message() string {
	if b.Failure != "" {
		return b.Failure + ": " + b.Message
	}
	if len(b.DependencyOf) > 0 && b.Message == "" {
		return "needed by " + strings.Join(b.DependencyOf, ", ")
	}
	return b.Message
}

// shownLines is how much of one diff a person reads.
const shownLines = 1000

// PrintDiff prints a diff for a terminal.
func PrintDiff(w io.Writer, s Style, diff string) {
	n := 0
	for line := range strings.Lines(diff) {
		if n++; n > shownLines {
			continue
		}
		code := ""
		switch {
		case strings.HasPrefix(line, "+"):
			code = "32"
		case strings.HasPrefix(line, "-"):
			code = "31"
		case strings.HasPrefix(line, "@@"):
			code = "36"
		}
		line = clean(strings.TrimSuffix(line, "\n"))
		if code != "" {
			line = s.paint(code, line)
		}
		fmt.Fprintln(w, line)
	}
	if n > shownLines {
		fmt.Fprintf(w, "... and %d more lines; -o json has them all\n", n-shownLines)
	}
}

// Line sums the plan up.
func (p *Plan) Line() string {
	return fmt.Sprintf("bindings: %s; works: %s; replicas moved: %d; unbound: %d; findings: %d",
		counts(p.Summary.Bindings, decide.Added, decide.Removed, decide.Moved, decide.Scaled, decide.Updated, decide.Unchanged),
		counts(p.Summary.Works, decide.Added, decide.Removed, decide.Updated, decide.Unchanged),
		p.Summary.ReplicasMoved, len(p.Unbound), len(p.Findings))
}

func counts(n map[decide.Change]int, order ...decide.Change) string {
	var parts []string
	for _, c := range order {
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], c))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func targetsText(targets []Target) string {
	if len(targets) == 0 {
		return "-"
	}
	words := make([]string, len(targets))
	for i, t := range targets {
		words[i] = flat(t.Name)
		if t.Replicas > 0 {
			words[i] = fmt.Sprintf("%s=%d", words[i], t.Replicas)
		}
	}
	return strings.Join(words, " ")
}

func policyText(p *Policy) string {
	switch {
	case p == nil:
		return "-"
	case p.Namespace == "":
		return flat(p.Name)
	}
	return flat(p.Namespace + "/" + p.Name)
}
