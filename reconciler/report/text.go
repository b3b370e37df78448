package report

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

var severityColour = map[render.Severity]string{render.Error: bad, render.Warning: heed, render.Info: plain}

// Findings prints one line each, as compilers do; on a terminal a long one goes on below.
func Findings(w io.Writer, s Style, findings []render.Finding) error {
	for _, f := range findings {
		word, indent := string(f.Severity)+":", ""
		for _, line := range wrap(flat(f.String()), max(0, s.Width-len(hangFinding)), nowhere) {
			if before, after, ok := strings.Cut(line, word); ok && word != "" {
				line, word = before+s.paint(severityColour[f.Severity], word)+after, ""
			}
			if _, err := fmt.Fprintln(w, indent+line); err != nil {
				return err
			}
			indent = hangFinding
		}
	}
	return nil
}

const hangFinding = "  "

// Flat is clean text on one line: what comes from users forges no line and no column.
func Flat(s string) string { return flat(s) }

func flat(s string) string { return orderless(strings.Join(strings.Fields(clean(s)), " ")) }

// order is how lines begin that a CI runner takes for orders, or what they have in them: "::error file=x::text" at the
// beginning, behind blanks too, "##[error]text" and "##vso[task.complete]" anywhere.
var order = regexp.MustCompile(`^\s*::|##[A-Za-z]*\[`)

// orderless is a line that gives no orders. A file's name at its beginning is the same file's as before.
func orderless(line string) string {
	if !strings.Contains(line, "::") && !strings.Contains(line, "##") {
		return line
	}
	return order.ReplaceAllStringFunc(line, func(o string) string {
		if before, ok := strings.CutSuffix(o, "::"); ok {
			return before + "./::"
		}
		return "# " + o[1:]
	})
}

// invisible are characters that steer a terminal, turn the direction of text or show nothing, so that a text
// is not what it looks like.
func invisible(r rune) bool {
	return r >= 0x7f && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// clean takes out what could steer a terminal or deceive its reader.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || invisible(r) {
			return '�'
		}
		return r
	}, s)
}

// Text prints the plan for a terminal: findings, what is held, bindings that change, templates that
// run nowhere, and the diffs of works.
func (p *Plan) Text(w io.Writer, s Style, wide bool) error {
	return p.TextAround(w, s, wide, func(w io.Writer) error {
		for i, g := range p.changes() {
			if i > 0 {
				fmt.Fprintln(w)
			}
			line := fmt.Sprintf("%s %s on %s", g.word(), flat(g.Resource.String()), flat(some(g.members)))
			if g.Stays {
				line += staysThere
			}
			if err := prose(w, s, "", "  ", title, line); err != nil {
				return err
			}
			if g.Stays {
				continue
			}
			PrintDiff(w, s, g.Diff())
		}
		return nil
	})
}

// staysThere is said of what is only released.
const staysThere = " (stays on the member)"

// TextAround is Text where somebody else shows the diffs of works, if there are any.
func (p *Plan) TextAround(w io.Writer, s Style, wide bool, diffs func(io.Writer) error) error {
	var parts []func() error // an empty line between two
	if len(p.Findings) > 0 {
		parts = append(parts, func() error {
			if err := Findings(w, s, p.found(false)); err != nil {
				return err
			}
			known := p.found(true)
			if len(known) == 0 {
				return nil
			}
			fmt.Fprintln(w, "were there before:")
			return Findings(w, s, known)
		})
	}
	if len(p.Held) > 0 {
		parts = append(parts, func() error { return p.held(w, s) })
	}
	rows := [][]string{{"BINDING", "CHANGE", "BEFORE", "AFTER", "POLICY", "MESSAGE"}}
	for _, b := range p.changed(wide) {
		rows = append(rows, []string{b.Key(), string(b.Change), targetsText(b.Previous), targetsText(b.Clusters), policyText(b.Policy), b.message()})
	}
	if len(rows) > 1 {
		parts = append(parts, func() error { return Table(w, s, rows) })
	}
	if len(p.Unbound) > 0 {
		rows := [][]string{{"UNBOUND", "WHY"}}
		for _, u := range p.Unbound {
			rows = append(rows, []string{u.Resource.String(), u.Message})
		}
		parts = append(parts, func() error { return Table(w, s, rows) })
	}
	if slices.ContainsFunc(p.Works, func(w Work) bool { return w.Change != decide.Unchanged }) {
		parts = append(parts, func() error { return diffs(w) })
	}
	if len(p.Hydrated) > 0 {
		parts = append(parts, func() error { return prose(w, s, "", "  ", "", flat(some(p.Hydrated))+": "+hydrated) })
	}
	parts = append(parts, func() error { return prose(w, s, "", "  ", "", p.Line()) })
	for i, print := range parts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := print(); err != nil {
			return err
		}
	}
	return nil
}

// held prints a line for what one member holds for one reason. The first few objects are named; JSON has all.
func (p *Plan) held(w io.Writer, s Style) error {
	for _, h := range p.heldTogether() {
		line := fmt.Sprintf("held: %s on %s: %s", flat(h.Resource.String()), flat(h.Cluster), flat(h.Message))
		if n := len(h.resources); n > 1 {
			line = fmt.Sprintf("held: %d objects on %s: %s: %s", n, flat(h.Cluster), flat(h.Message), h.names(flat))
		}
		if err := prose(w, s, "", "  ", heed, line); err != nil {
			return err
		}
	}
	return nil
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
			code = good
		case strings.HasPrefix(line, "-"):
			code = bad
		case strings.HasPrefix(line, "@@"):
			code = plain
		}
		line = orderless(clean(strings.TrimSuffix(line, "\n")))
		if code != "" {
			line = s.paint(code, line)
		}
		fmt.Fprintln(w, line)
	}
	if n > shownLines {
		fmt.Fprintf(w, "... and %d more lines; -o json has them all\n", n-shownLines)
	}
}

// hydrated is what a plan says of members whose works others apply.
const hydrated = "Argo CD or Flux applies this from works/ of the state branch, godwit only looks"

// Line sums the plan up.
func (p *Plan) Line() string {
	line := fmt.Sprintf("bindings: %s; works: %s; replicas moved: %d; unbound: %d; findings: %d",
		counts(p.Summary.Bindings, decide.Added, decide.Removed, decide.Moved, decide.Scaled, decide.Updated, decide.Unchanged),
		counts(p.Summary.Works, decide.Added, decide.Removed, decide.Updated, decide.Unchanged),
		p.Summary.ReplicasMoved, len(p.Unbound), len(p.Findings))
	if known := len(p.found(true)); known > 0 {
		line += fmt.Sprintf(", of which were there before: %d", known)
	}
	return line
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
