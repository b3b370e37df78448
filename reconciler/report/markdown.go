package report

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// Marker is the hidden line by which the next run finds its comment.
const Marker = "<!-- godwit-plan -->"

// MarkdownLimit is the most characters that Markdown writes; forges cut comments a little above.
const MarkdownLimit = 60_000

// Markdown is the plan for a pull request: a summary, warnings, the bindings that change, removals
// first, and the diffs folded, equal ones once. What does not fit is counted.
func (p *Plan) Markdown() string {
	d := &document{command: "plan"}
	d.add(Marker + "\n")
	d.add(fmt.Sprintf("**godwit plan**: %s\n\n", p.Line()))
	p.markdownFindings(d)
	p.markdownBindings(d)
	p.markdownWhatIf(d)
	p.markdownWorks(d)
	return d.String()
}

// document adds parts as long as they fit and counts the rest.
type document struct {
	strings.Builder
	command    string // that prints all of it
	size, left int
}

const footnoteRoom = 200

func (d *document) add(part string) bool {
	n := utf8.RuneCountInString(part)
	if d.size+n > MarkdownLimit-footnoteRoom {
		d.left++
		return false
	}
	d.size += n
	d.WriteString(part)
	return true
}

// String closes with what was left out.
func (d *document) String() string {
	if d.left == 0 {
		return d.Builder.String()
	}
	return d.Builder.String() + fmt.Sprintf("\n_%d parts are left out to stay under %d characters; run `godwit %s` for all of it._\n", d.left, MarkdownLimit, d.command)
}

// cell makes text safe within a table: no HTML, no Markdown, one line.
func cell(s string) string {
	s = html.EscapeString(flat(s))
	return strings.NewReplacer("|", "&#124;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "]", "&#93;", "@", "&#64;", "~", "&#126;").Replace(s)
}

func (p *Plan) markdownFindings(d *document) {
	for _, h := range p.Held {
		d.add(fmt.Sprintf("- :warning: deletion held: %s on %s: %s\n", cell(h.Resource.String()), cell(h.Cluster), cell(h.Message)))
	}
	findings := slices.Clone(p.Findings)
	order := map[render.Severity]int{render.Error: 0, render.Warning: 1, render.Info: 2}
	slices.SortStableFunc(findings, func(a, b render.Finding) int { return order[a.Severity] - order[b.Severity] })
	for _, f := range findings {
		d.add(fmt.Sprintf("- %s %s\n", severityIcon[f.Severity], cell(f.String())))
	}
	if len(p.Held)+len(findings) > 0 {
		d.add("\n")
	}
}

// changeOrder is what a reviewer reads first.
var changeOrder = []decide.Change{decide.Removed, decide.Moved, decide.Scaled, decide.Added, decide.Updated}

func (p *Plan) markdownBindings(d *document) {
	bindings := slices.DeleteFunc(slices.Clone(p.Bindings), func(b Binding) bool { return b.Change == decide.Unchanged && b.Failure == "" })
	slices.SortStableFunc(bindings, func(a, b Binding) int {
		return slices.Index(changeOrder, a.Change) - slices.Index(changeOrder, b.Change)
	})
	if len(bindings) > 0 {
		d.add("| workload | change | before | after | why |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, b := range bindings {
		d.add(fmt.Sprintf("| %s | %s | %s | %s | %s |\n", cell(b.Resource.String()), b.Change, cell(targetsText(b.Previous)), cell(targetsText(b.Clusters)), cell(b.why())))
	}
	for _, u := range p.Unbound {
		d.add(fmt.Sprintf("\n%s runs nowhere: %s\n", cell(u.Resource.String()), cell(u.Message)))
	}
	d.add("\n")
}

func (b Binding) why() string {
	if m := b.message(); m != "" {
		return m
	}
	if b.Policy != nil {
		return "policy " + policyText(b.Policy)
	}
	return ""
}

// markdownWorks shows each diff once, with the members it is for.
func (p *Plan) markdownWorks(d *document) {
	groups := p.changes()
	slices.SortStableFunc(groups, func(a, b *same) int {
		return slices.Index(changeOrder, a.Change) - slices.Index(changeOrder, b.Change)
	})
	for _, g := range groups {
		diff, fence := g.Diff(), strings.Repeat("`", 3)
		for strings.Contains(diff, fence) {
			fence += "`"
		}
		d.add(fmt.Sprintf("<details><summary>%s %s on %s</summary>\n\n%sdiff\n%s\n%s\n</details>\n\n",
			g.Change, cell(g.Resource.String()), cell(strings.Join(g.members, ", ")), fence, clean(strings.TrimSuffix(diff, "\n")), fence))
	}
}
