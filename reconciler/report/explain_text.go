package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// section is a part of the page: lines, then a table, then more lines.
type section struct {
	title string
	lines []string
	table [][]string // the first row is the head
	after []string
}

func (s *section) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *section) note(format string, args ...any) {
	s.after = append(s.after, fmt.Sprintf(format, args...))
}

func (s *section) empty() bool { return len(s.lines)+len(s.table)+len(s.after) == 0 }

// headline says in one line where it runs, and in a second why it does not, or what is special.
func (e *Explanation) headline() []string {
	lines := []string{fmt.Sprintf("%s runs on: %s", e.Resource, targetsText(e.Clusters))}
	if e.Template != nil {
		lines = append(lines, "its template is "+e.Template.String())
	}
	if r := e.Record; r != nil {
		lines = append(lines, "as recorded "+r.text())
		if r.Source != "" {
			lines = append(lines, "decided on source commit "+r.Source)
		}
	}
	if e.Differs != "" {
		lines = append(lines, e.Differs)
	}
	if e.PlacedSince != nil {
		line := "placed so since " + e.PlacedSince.text()
		if e.Record == nil || e.Record.Commit != e.PlacedSince.Commit {
			line += " (explained with --at " + e.PlacedSince.short() + ")"
		}
		lines = append(lines, line)
	}
	switch {
	case e.Failure != "":
		lines = append(lines, e.Failure+": "+e.Message)
	case e.Message != "":
		lines = append(lines, e.Message)
	}
	return lines
}

// text is "2026-01-01T12:00:00Z by 1234567890ab: subject".
func (r *Moment) text() string {
	text := r.short()
	if r.Time != "" {
		text = r.Time + " by " + text
	}
	if r.Subject != "" {
		text += ": " + r.Subject
	}
	return text
}

func (r *Moment) short() string { return r.Commit[:min(len(r.Commit), 12)] }

// sections are the page in reading order; empty ones are left out.
func (e *Explanation) sections() []section {
	all := []section{e.whereSection(), e.policySection(), e.membersSection(), e.divisionSection(), e.overridesSection(), e.dependenciesSection(), e.pendingSection(), e.nextSection()}
	return slices.DeleteFunc(all, func(s section) bool { return s.empty() })
}

func (e *Explanation) whereSection() section {
	s := section{title: "Copies, as last recorded"}
	if len(e.Copies) == 0 {
		return s
	}
	s.table = [][]string{{"CLUSTER", "REPLICAS", "APPLIED", "HEALTH", "MESSAGE"}}
	for _, c := range e.Copies {
		applied := "yes"
		if !c.Applied {
			applied = "no"
		}
		cluster := c.Cluster
		if c.Delivery != "" {
			cluster += " (" + c.Delivery + ")"
		}
		s.table = append(s.table, []string{cluster, fmt.Sprint(c.Replicas), applied, c.Health, cmp.Or(c.Message, "-")})
	}
	return s
}

func (e *Explanation) policySection() section {
	s := section{title: "Policy"}
	switch {
	case e.Policy == nil:
		why := e.PolicyWhy
		if why == "" && len(e.DependencyOf) > 0 {
			why = "it goes where what needs it goes"
		}
		s.add("none: %s", why)
	default:
		s.add("%s", cmp.Or(e.PolicyWhy, policy.Claim(e.Policy.Policy).String()))
	}
	if p := e.Policy; p != nil && p.File != "" {
		text := fmt.Sprintf("%s: priority %d", p.Place, p.Priority)
		if p.Selector != "" {
			text += fmt.Sprintf(", selected %s (%s)", p.Precision, p.Selector)
		}
		s.add("%s", text)
	}
	if e.Since != nil {
		s.add("taken at %s", e.Since.text())
	}
	for _, p := range e.PassedOver {
		s.add("passed over: %s: %s (%s)", p.Policy, p.Why, p.Place)
	}
	for _, n := range e.Near {
		s.add("near: %s does not select it: %s (%s)", n.Policy, n.Why, n.Place)
	}
	return s
}

// String is "file:line".
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func (e *Explanation) membersSection() section {
	s := section{title: "Members"}
	if e.Trigger == "" {
		return s
	}
	s.add("%s: %s", e.Trigger, e.TriggerWhy)
	for _, t := range e.Tried {
		s.add("tried affinity %s: %s: %s", t.Affinity, t.Failure, t.Message)
		for _, v := range t.Members {
			if v.Rule != "" && v.Rule != "ClusterAffinity" {
				s.add("  %s %s: %s: %s", v.Cluster, v.Outcome, v.Rule, v.Message)
			}
		}
	}
	decided := e.Trigger != string(schedule.Standing) && e.Trigger != string(schedule.Suspended) && e.Trigger != string(schedule.OtherScheduler)
	numbered := e.Division != nil && e.Division.Wanted > 0 || slices.ContainsFunc(e.Members, func(v Verdict) bool { return v.Before+v.Replicas > 0 })
	s.table = [][]string{{"CLUSTER", "OUTCOME", "REPLICAS", "SCORE", "AVAILABLE", "WHY"}}
	for _, v := range e.Members {
		why := v.Message
		if v.Rule != "" {
			why = v.Rule + ": " + why
		}
		score, available := "-", "-" // nothing was computed
		if decided && v.Rank > 0 {
			score, available = fmt.Sprint(v.Score), amount(v.Available)
		}
		replicas := "-" // the kind has none
		if numbered {
			replicas = replicasText(v)
		}
		s.table = append(s.table, []string{v.Cluster, v.Outcome, replicas, score, available, cmp.Or(why, "-")})
	}
	for i, g := range e.Groups {
		state := "not chosen"
		if g.Chosen {
			state = "chosen"
		}
		if i == 0 {
			s.note("groups that spread constraints chose from:")
		}
		s.note("  %s %s %s: score %d (%s)", g.Field, g.Name, state, g.Score, membersText(g.Clusters))
	}
	return s
}

func replicasText(v Verdict) string {
	if v.Before == v.Replicas {
		return fmt.Sprint(v.Replicas)
	}
	return fmt.Sprintf("%d (was %d)", v.Replicas, v.Before)
}

func (e *Explanation) divisionSection() section {
	s := section{title: "Division"}
	d := e.Division
	if d == nil {
		e.rebalanceLines(&s)
		return s
	}
	if d.divides() {
		s.add("%s, %s wanted, before: %s", d.Strategy, count(d.Wanted), cmp.Or(sharesText(d.Before), "nothing"))
	}
	for _, v := range e.Members {
		// Only these strategies look at the room there is.
		if v.Estimate != nil && (d.Strategy == "DynamicWeight" || d.Strategy == "Aggregated") {
			s.add("%s", v.estimateText())
		}
	}
	for _, step := range d.Steps {
		s.add("%s", step.Text)
	}
	if total := d.total(); len(d.Steps) > 1 || len(d.Steps) == 1 && len(d.Steps[0].Kept)*len(d.Steps[0].Dealt) > 0 {
		s.add("together: %s", sharesText(total))
	}
	if d.Withheld {
		s.add("not put into force: %s", e.Message)
	}
	e.rebalanceLines(&s)
	return s
}

// divides tells whether there are replicas to give; otherwise each member gets a whole copy.
func (d *Division) divides() bool {
	return d.Wanted > 0 || len(d.Before) > 0 && d.Strategy != "Duplicated"
}

// total is what was kept and dealt in all steps, by member.
func (d *Division) total() (total []Target) {
	for _, step := range d.Steps {
		for _, t := range slices.Concat(step.Kept, step.Dealt) {
			if i := slices.IndexFunc(total, func(o Target) bool { return o.Name == t.Name }); i >= 0 {
				total[i].Replicas += t.Replicas
			} else {
				total = append(total, t)
			}
		}
	}
	slices.SortFunc(total, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return total
}

// estimateText is "available on kube02: 5 = 3 more and 2 there (resource summary; cpu: 2 free, 500m each)".
func (v Verdict) estimateText() string {
	text := fmt.Sprintf("available on %s: %s", v.Cluster, amount(v.Available))
	if there := v.Available - v.Estimate.Room; there > 0 {
		text += fmt.Sprintf(" = %s more and %d there", amount(v.Estimate.Room), there)
	}
	text += " (" + v.Estimate.Estimator
	if v.Estimate.Limit != "" {
		text += "; " + v.Estimate.Limit
	}
	return text + ")"
}

// rebalanceLines say what a reschedule would change, and how one is asked for.
func (e *Explanation) rebalanceLines(s *section) {
	r := e.Rebalance
	switch {
	case r == nil:
	case !r.Changes:
		s.add("a WorkloadRebalancer would decide the same")
	case r.Failure != "":
		s.add("a WorkloadRebalancer would fail: %s: %s", r.Failure, r.Message)
	default:
		s.add("what runs stays where it is; a WorkloadRebalancer that names %s %s would give: %s", e.Resource.APIVersion, e.Resource, targetsText(r.Clusters))
	}
}

func (e *Explanation) overridesSection() section {
	s := section{title: "Overrides"}
	for _, o := range e.Overrides {
		s.add("%s: %s %s: %s (%s)", membersText(o.Clusters), o.Policy, o.Field, o.effect(), o.Place)
		for i, c := range o.Changes {
			if i == mostChanges {
				s.add("  and %d more", len(o.Changes)-i)
				break
			}
			s.lines = append(s.lines, c.lines()...)
		}
	}
	for _, r := range e.RenderErrors {
		s.add("refused: %s: %s", r.Cluster, r.Message)
	}
	for _, o := range e.OverridesSkipped {
		s.add("not for %s: %s %s: %s (%s)", membersText(o.Clusters), o.Policy, o.Field, o.Why, o.Place)
	}
	for _, n := range e.OverridesNear {
		s.add("near: %s does not select it: %s (%s)", n.Policy, n.Why, n.Place)
	}
	return s
}

// membersText names members; of many the page names the first, JSON has them all.
func membersText(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most-1], ", "), len(names)-most+1)
}

// mostChanges is how many changes of one step the page shows; JSON has them all.
const mostChanges = 12

func (o Override) effect() string {
	if !o.Changed {
		return "changed nothing: " + o.Why
	}
	if !slices.ContainsFunc(o.Changes, func(c ValueChanged) bool { return c.Later == "" }) {
		return "without effect in the end, as a later one changes the same"
	}
	return "applied"
}

// lines are a small diff of one value.
func (c ValueChanged) lines() []string {
	later := ""
	if c.Later != "" {
		later = ", changed again by " + c.Later
	}
	if c.Hidden {
		return []string{fmt.Sprintf("  ~ %s (a value of a Secret is not shown)%s", c.Path, later)}
	}
	var lines []string
	if !c.Added {
		lines = append(lines, fmt.Sprintf("  - %s: %s", c.Path, valueText(c.Before)))
	}
	if !c.Removed {
		lines = append(lines, fmt.Sprintf("  + %s: %s", c.Path, valueText(c.After)))
	}
	lines[len(lines)-1] += later
	return lines
}

// longestValue is how many characters of a value the page shows; JSON has all of it.
const longestValue = 120

func valueText(v any) string {
	text, ok := v.(string)
	if !ok {
		data, err := json.Marshal(v)
		if err != nil {
			return "(not readable)"
		}
		text = string(data)
	}
	text = flat(text)
	if utf8.RuneCountInString(text) > longestValue {
		text = string([]rune(text)[:longestValue]) + "..."
	}
	return text
}

func (e *Explanation) dependenciesSection() section {
	s := section{title: "Dependencies"}
	for _, owner := range e.DependencyOf {
		s.add("needed by %s", owner)
	}
	for _, n := range e.Needs {
		name := n.Name
		if name == "" {
			name = "with labels " + n.Labels
		}
		what := Resource{Kind: n.Kind, Namespace: n.Namespace, Name: name}.String()
		switch {
		case n.Missing && n.Along:
			s.add("needs %s, which is not in the source; it goes along as soon as it is", what)
		case n.Along:
			s.add("needs %s, which goes along", what)
		case n.Missing:
			s.add("refers to %s, which is not in the source", what)
		default:
			s.add("refers to %s; with propagateDeps: true the policy would send it along", what)
		}
	}
	return s
}

func (e *Explanation) pendingSection() section {
	s := section{title: "Conditions"}
	for _, c := range e.Conditions {
		text := fmt.Sprintf("%s %s: %s", c.Type, c.Status, cmp.Or(c.Reason, "-"))
		if c.Message != "" {
			text += ": " + c.Message
		}
		if c.Since != "" {
			text += " (since " + c.Since + ")"
		}
		s.add("%s", text)
	}
	for _, p := range e.Pending {
		text := p.What
		if p.Cluster != "" {
			text += " " + p.Cluster
		}
		text += ": " + p.Text
		if p.Since != "" {
			text += " (since " + p.Since + ")"
		}
		s.add("%s", text)
	}
	for _, t := range e.Timers {
		text := fmt.Sprintf("timer %s %s: %s", t.What, t.Cluster, t.Text)
		switch {
		case t.Since != "" && t.Until != "":
			text += fmt.Sprintf(" (%s to %s)", t.Since, t.Until)
		case t.Until != "":
			text += " (until " + t.Until + ")"
		case t.Since != "":
			text += " (since " + t.Since + ")"
		}
		s.add("%s", text)
	}
	return s
}

func (e *Explanation) nextSection() section {
	s := section{title: "Next"}
	for _, n := range e.Next {
		s.add("%s: %s", n.At, n.Text)
	}
	if len(e.Next) == 0 {
		s.add("nothing waits on the clock; the source, a member or an order must change first")
	}
	return s
}

// Text prints the explanation as one page.
func (e *Explanation) Text(w io.Writer, s Style) error {
	for i, line := range e.headline() {
		code := ""
		if i == 0 {
			code = title
		}
		if err := prose(w, s, "", "  ", code, flat(line)); err != nil {
			return err
		}
	}
	for _, part := range e.sections() {
		fmt.Fprintf(w, "\n%s\n", s.paint(title, part.title))
		if err := printLines(w, s, part.lines); err != nil {
			return err
		}
		if err := table(w, s, 2, part.table); err != nil {
			return err
		}
		if err := printLines(w, s, part.after); err != nil {
			return err
		}
	}
	if len(e.Findings) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.paint(title, "Findings"))
		return Findings(w, s, e.Findings)
	}
	return nil
}

// printLines indents lines, which may be indented more themselves; those are values before and after.
func printLines(w io.Writer, s Style, lines []string) error {
	for _, line := range lines {
		text := strings.TrimLeft(line, " ")
		code := ""
		switch {
		case len(text) == len(line):
		case strings.HasPrefix(text, "+ "):
			code = good
		case strings.HasPrefix(text, "- "):
			code = bad
		}
		if err := prose(w, s, "  "+line[:len(line)-len(text)], "  ", code, flat(text)); err != nil {
			return err
		}
	}
	return nil
}

// Markdown is the explanation for a pull request or an issue.
func (e *Explanation) Markdown() string {
	d := &document{command: "explain"}
	for i, line := range e.headline() {
		if i == 0 {
			d.add("**" + cell(line) + "**\n")
		} else {
			d.add("\n" + cell(line) + "\n")
		}
	}
	for _, s := range e.sections() {
		d.add("\n### " + s.title + "\n\n")
		markdownLines(d, s.lines)
		if len(s.table) > 0 && len(s.lines) > 0 {
			d.add("\n")
		}
		for i, row := range s.table {
			cells := make([]string, len(row))
			for j := range row {
				cells[j] = cell(row[j])
			}
			d.add("| " + strings.Join(cells, " | ") + " |\n")
			if i == 0 {
				d.add("|" + strings.Repeat(" --- |", len(row)) + "\n")
			}
		}
		if len(s.table) > 0 && len(s.after) > 0 {
			d.add("\n")
		}
		markdownLines(d, s.after)
	}
	if len(e.Findings) > 0 {
		d.add("\n### Findings\n\n")
		for _, f := range e.Findings {
			d.add(fmt.Sprintf("- %s %s\n", severityIcon[f.Severity], cell(f.String())))
		}
	}
	return d.String()
}

var severityIcon = map[render.Severity]string{render.Error: ":x:", render.Warning: ":warning:", render.Info: ":information_source:"}

// markdownLines are items of a list. A sign at the beginning of one must not begin another list.
func markdownLines(d *document, lines []string) {
	for _, line := range lines {
		text := cell(line)
		if text != "" && strings.ContainsRune("-+#", rune(text[0])) {
			text = fmt.Sprintf("&#%d;%s", text[0], text[1:])
		}
		d.add(line[:len(line)-len(strings.TrimLeft(line, " "))] + "- " + text + "\n")
	}
}
