package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// Marker is the hidden line by which the next run finds its comment.
const Marker = "<!-- godwit-plan -->"

// MarkdownLimit is the most characters that Markdown writes; forges cut comments a little above. Characters
// beyond the basic plane, such as emoji, count twice, as some forges do.
const MarkdownLimit = 60_000

// Markdown is the plan for a pull request: what changes in a sentence, what to watch out for, the workloads that
// change, removals first, what would come of a member's death where that was asked, and the diffs folded, equal
// ones once. What does not fit is counted.
func (p *Plan) Markdown() string {
	d := &document{command: "plan"}
	d.add(Marker + "\n")
	d.add("### godwit plan: " + p.headline() + "\n\n")
	d.add(p.sentence() + "\n")
	p.markdownWarnings(d)
	p.markdownBindings(d)
	p.markdownUnbound(d)
	p.markdownWhatIf(d)
	p.markdownNotes(d)
	p.markdownKnown(d)
	p.markdownWorks(d)
	return d.String()
}

// document adds parts as long as they fit and counts the rest.
type document struct {
	strings.Builder
	command    string // that prints all of it
	size, left int
	cut        bool // a list says of itself what it leaves out
}

const footnoteRoom = 200

func (d *document) add(part string) bool {
	if !d.fits(part, 0) {
		d.left++
		return false
	}
	d.size += units(part)
	d.WriteString(part)
	return true
}

// fits tells whether a part leaves so much room.
func (d *document) fits(part string, room int) bool {
	return units(part)+room <= d.room()
}

func (d *document) room() int { return MarkdownLimit - footnoteRoom - d.size }

// units counts as forges do.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// list is a part of many items: they are added as long as they fit, and a line counts the others by their kinds.
type list struct {
	head, tail string
	items      []item
	percent    int    // of the room that is left it may take
	more       string // says what is left out, by a %s
}

// item is made when its turn comes, and not at all where there is no room for it.
type item struct {
	kind string
	text func() string
}

// cutRoom is what the line about the rest may take.
const cutRoom = 200

// list adds nothing if there is no item.
func (d *document) list(l list) {
	if len(l.items) == 0 {
		return
	}
	end := d.room() - d.room()*l.percent/100
	if !d.fits(l.head+l.tail, end+cutRoom) {
		d.left++
		return
	}
	d.add(l.head)
	left := map[string]int{}
	var kinds []string
	for _, item := range l.items {
		if len(kinds) == 0 {
			if text := item.text(); d.fits(text+l.tail, end+cutRoom) {
				d.add(text)
				continue
			}
		}
		if left[item.kind]++; left[item.kind] == 1 {
			kinds = append(kinds, item.kind)
		}
	}
	if len(kinds) > 0 {
		for i, kind := range kinds {
			kinds[i] = fmt.Sprintf("%d %s", left[kind], kind)
		}
		d.cut = true
		d.add(fmt.Sprintf(l.more, strings.Join(kinds, ", ")))
	}
	d.add(l.tail)
}

// String closes with what was left out.
func (d *document) String() string {
	switch {
	case d.left > 0:
		return d.Builder.String() + fmt.Sprintf("\n_%d parts are left out to stay under %d characters; run `godwit %s` for all of it._\n", d.left, MarkdownLimit, d.command)
	case d.cut:
		return d.Builder.String() + fmt.Sprintf("\n_Cut to stay under %d characters; `godwit %s` prints all of it._\n", MarkdownLimit, d.command)
	}
	return d.Builder.String()
}

// cellLimit is how much of one text is shown: no single value eats the room of the others.
const cellLimit = 500

// short cuts a text.
func short(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// marks are the characters that mean something in Markdown, as HTML writes them.
var marks = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "]", "&#93;", "~", "&#126;", `\`, "&#92;", "$", "&#36;")

// What forges make links and messages of after everything else was read, each in two parts: a space without a
// width between them takes the sense away and stays unseen.
var (
	references = regexp.MustCompile(`([@#!%$~&])([\p{L}\p{N}_/+-])`) // @people, #1, !1
	issues     = regexp.MustCompile(`(?i)\b(gh)(-)`)
	addresses  = regexp.MustCompile(`(?i)\b(www|https?:|ftp:)([./])`)
	people     = regexp.MustCompile(`(@)([\p{L}\p{N}_+-])`)
	emoji      = regexp.MustCompile(`(?i)(:)((?:[\w+-]*[a-z_+-][\w+-]*|100|1234):)`)
)

// cell makes text safe wherever it stands within a line: no HTML, no Markdown, one line, nobody called. Of :a:b:
// both emoji are taken apart in two rounds.
func cell(s string) string { return quiet(s, references, issues, addresses, emoji, emoji) }

// code is text as code, which forges take for no more than it is; only addresses are seen before that is known.
func code(s string) string { return "<code>" + quiet(s, addresses, people) + "</code>" }

func quiet(s string, calls ...*regexp.Regexp) string {
	s = short(flat(short(s, 4*cellLimit)), cellLimit) // what is cut anyway is not looked at
	for _, c := range calls {
		s = c.ReplaceAllString(s, "${1}\u200b${2}")
	}
	return strings.ReplaceAll(marks.Replace(s), "\u200b", "&#8203;")
}

// headline is what changes, in a few words.
func (p *Plan) headline() string {
	var words []string
	if n := p.newErrors(); n > 0 {
		words = append(words, plural(n, "error"))
	}
	if !p.Changes() {
		return strings.Join(append(words, "nothing changes"), ", ")
	}
	errors := len(words)
	for _, c := range changeOrder {
		if n := p.Summary.Bindings[c]; n > 0 && c != decide.Unchanged {
			words = append(words, fmt.Sprintf("%d %s", n, c))
		}
	}
	if len(words) == errors {
		what := "members do"
		for change, n := range p.Summary.Works {
			if change != decide.Unchanged && n > 0 {
				what = "other objects do"
			}
		}
		words = append(words, "no workload changes", what)
	}
	return strings.Join(words, ", ")
}

// sentence is what the plan comes to on the members.
func (p *Plan) sentence() string {
	members := map[string]bool{}
	works, stay := 0, 0
	for _, w := range p.Works {
		if w.Stays {
			stay++
		}
		if w.Change != decide.Unchanged {
			members[w.Cluster] = true
			works++
		}
	}
	text := "Nothing changes on any member."
	if works > 0 {
		text = fmt.Sprintf("%s on %s: %s.", plural(works, "object"), plural(len(members), "member"), counts(p.Summary.Works, decide.Removed, decide.Added, decide.Updated))
	}
	if stay > 0 {
		text += fmt.Sprintf(" Removed and left on its member: %d.", stay)
	}
	if p.Summary.ReplicasMoved > 0 {
		text += fmt.Sprintf(" Replicas that move: %d.", p.Summary.ReplicasMoved)
	}
	if len(p.Hydrated) > 0 {
		text += " " + code(some(p.Hydrated)) + ": " + hydrated + "."
	}
	if n := len(p.Held); n > 0 {
		text += fmt.Sprintf(" Deletions that are held: %d.", n)
	}
	if p.Source.Base != "" && p.Source.Head != "" {
		text += " From " + code(revision(p.Source.Base)) + " to " + code(revision(p.Source.Head)) + "."
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// revision is as much of one as people need; that of a folder begins with a word.
func revision(s string) string {
	word, hash, ok := strings.Cut(s, ":")
	if !ok {
		return s[:min(len(s), 10)]
	}
	return word + ":" + hash[:min(len(hash), 10)]
}

var severityOrder = []render.Severity{render.Error, render.Warning, render.Info}

// markdownWarnings are errors, warnings, and deletions that are held, one by one.
func (p *Plan) markdownWarnings(d *document) {
	l := list{head: "\n#### Watch out\n\n", percent: 50, more: "- … and more that is not shown: %s\n"}
	for _, severity := range []render.Severity{render.Error, render.Warning} {
		for _, f := range p.found(false) {
			if f.Severity == severity && (f.Code != decide.CodeDeletionHeld || len(p.Held) == 0) {
				l.items = append(l.items, item{string(severity) + "s", func() string { return markdownFinding(f) }})
			}
		}
	}
	for _, h := range p.heldTogether() {
		l.items = append(l.items, item{"reasons to hold deletions", func() string {
			return fmt.Sprintf("- %s **deletion-held** %s on %s: %s; `godwit approve` lets it go\n",
				severityIcon[render.Warning], h.names(func(name string) string { return code(short(name, 120)) }), code(h.Cluster), cell(h.Message))
		}})
	}
	d.list(l)
}

// heldTogether are deletions that one member holds for one reason.
func (p *Plan) heldTogether() []*heldObjects {
	type key struct{ cluster, message string }
	var groups []*heldObjects
	known := map[key]*heldObjects{}
	for _, h := range p.Held {
		k := key{h.Cluster, h.Message}
		if known[k] == nil {
			known[k] = &heldObjects{Held: h}
			groups = append(groups, known[k])
		}
		known[k].resources = append(known[k].resources, h.Resource)
	}
	return groups
}

type heldObjects struct {
	Held      // the first
	resources []Resource
}

// names are those of the first few, as word writes each.
func (h *heldObjects) names(word func(string) string) string {
	var words []string
	for _, r := range h.resources[:min(len(h.resources), shownHeld)] {
		words = append(words, word(r.String()))
	}
	text := strings.Join(words, ", ")
	if more := len(h.resources) - len(words); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shownHeld is how many objects of one reason are named.
const shownHeld = 10

func (p *Plan) markdownNotes(d *document) {
	l := list{tail: "\n</details>\n", percent: 25, more: "- … and %s more\n"}
	for _, f := range p.found(false) {
		if f.Severity == render.Info {
			l.items = append(l.items, item{"notes", func() string { return markdownFinding(f) }})
		}
	}
	l.head = fmt.Sprintf("\n<details><summary>Notes (%d)</summary>\n\n", len(l.items))
	d.list(l)
}

// markdownKnown are findings that the change is not to blame for.
func (p *Plan) markdownKnown(d *document) {
	l := list{tail: "\n</details>\n", percent: 25, more: "- … and %s more\n"}
	for _, severity := range severityOrder {
		for _, f := range p.found(true) {
			if f.Severity == severity && (f.Code != decide.CodeDeletionHeld || len(p.Held) == 0) {
				l.items = append(l.items, item{"findings", func() string { return markdownFinding(f) }})
			}
		}
	}
	l.head = fmt.Sprintf("\n<details><summary>Were there before (%d)</summary>\n\n", len(l.items))
	d.list(l)
}

func markdownFinding(f render.Finding) string {
	var b strings.Builder
	b.WriteString("- " + severityIcon[f.Severity] + " **" + cell(f.Code) + "**")
	if f.Object != "" {
		b.WriteString(" " + code(f.Object))
	}
	b.WriteString(": " + cell(f.Message))
	switch {
	case f.File != "" && f.Line > 0:
		b.WriteString(" (" + code(fmt.Sprintf("%s:%d", short(f.File, 200), f.Line)) + ")")
	case f.File != "":
		b.WriteString(" (" + code(short(f.File, 200)) + ")")
	}
	return b.String() + "\n"
}

func (p *Plan) markdownBindings(d *document) {
	l := list{
		head: "\n#### Workloads\n\n| workload | change | before | after | why |\n| --- | --- | --- | --- | --- |\n", percent: 60,
		more: "\n… and more workloads: %s\n",
	}
	for _, b := range p.changed(false) {
		l.items = append(l.items, item{string(b.Change), func() string {
			before, after := shortTargets(b.Previous, b.Clusters), shortTargets(b.Clusters, b.Previous)
			return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", code(b.Resource.String()), b.Change, before, after, cell(p.why(b)))
		}})
	}
	d.list(l)
}

// shownTargets is how many members of a workload a row names.
const shownTargets = 12

// shortTargets names targets; where they are many, those first that are not the same on the other side.
func shortTargets(targets, other []Target) string {
	if len(targets) <= shownTargets {
		return cell(targetsText(targets))
	}
	targets = slices.Clone(targets)
	slices.SortStableFunc(targets, func(a, b Target) int {
		x, y := slices.Contains(other, a), slices.Contains(other, b)
		switch {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	})
	first := targets[:shownTargets]
	slices.SortFunc(first, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return cell(short(targetsText(first), cellLimit-30) + fmt.Sprintf(" and %d more", len(targets)-shownTargets))
}

// why is the last column. What a warning says is not said again.
func (p *Plan) why(b Binding) string {
	warned := func(f Finding) bool {
		return f.Code == decide.CodeNotPlaced && f.Object == b.Resource.String()
	}
	switch m := b.message(); {
	case b.Failure != "" && slices.ContainsFunc(p.Findings, warned):
		return b.Failure
	case m != "":
		return m
	case b.Policy != nil:
		return "policy " + policyText(b.Policy)
	}
	return ""
}

// markdownUnbound are templates that no policy takes. What runs nevertheless, having lost its policy, is warned of.
func (p *Plan) markdownUnbound(d *document) {
	runs := map[Resource]bool{}
	for _, b := range p.Bindings {
		if len(b.Clusters) > 0 {
			runs[b.Resource] = true
		}
	}
	l := list{head: "\n#### Runs nowhere\n\n", percent: 40, more: "- … and %s more\n"}
	for _, u := range p.Unbound {
		if !runs[u.Resource] {
			l.items = append(l.items, item{"templates", func() string {
				return fmt.Sprintf("- %s: %s\n", code(u.Resource.String()), cell(u.Message))
			}})
		}
	}
	d.list(l)
}

const (
	// shownDiff is what each diff may take at least, if there is that much room.
	shownDiff = 1500
	// shownLine is how much of a line of a diff is shown.
	shownLine = 500
	// diffFrame is what is around a diff, more or less.
	diffFrame = 300
)

// markdownWorks shows each diff once, with the members it is for.
func (p *Plan) markdownWorks(d *document) {
	groups := p.changes()
	p.markdownReleased(d, groups)
	groups = slices.DeleteFunc(groups, func(g *same) bool { return g.Stays })
	l := list{head: "\n#### Diffs\n\n", percent: 100, more: "… and diffs that are not shown: %s\n"}
	limit := shownDiff
	if len(groups) > 0 {
		limit = max(limit, d.room()/len(groups)-diffFrame)
	}
	for _, g := range groups {
		l.items = append(l.items, item{string(g.Change), func() string {
			diff, fence := shortDiff(g.Diff(), limit), "```"
			for strings.Contains(diff, fence) {
				fence += "`"
			}
			return fmt.Sprintf("<details><summary>%s %s on %s</summary>\n\n%sdiff\n%s%s\n\n</details>\n\n",
				g.Change, code(g.Resource.String()), cell(some(g.members)), fence, diff, fence)
		}})
	}
	d.list(l)
}

// markdownReleased are objects that godwit lets go of and does not delete: there is no diff to read.
func (p *Plan) markdownReleased(d *document, groups []*same) {
	l := list{head: "\n#### Released\n\n", percent: 25, more: "- … and %s more\n"}
	for _, g := range groups {
		if g.Stays {
			l.items = append(l.items, item{"objects", func() string {
				return fmt.Sprintf("- %s %s on %s%s\n", g.word(), code(g.Resource.String()), cell(some(g.members)), staysThere)
			}})
		}
	}
	d.list(l)
}

// shortDiff is as much of a diff as fits, each line ended; it says how many lines it lacks.
func shortDiff(diff string, limit int) string {
	var b strings.Builder
	lines, left := 0, 0
	for line := range strings.Lines(diff) {
		if left > 0 {
			left++
			continue
		}
		line = clean(short(strings.TrimSuffix(line, "\n"), shownLine)) + "\n"
		n := units(line)
		if lines+n > limit {
			left++
			continue
		}
		lines += n
		b.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "… %d more lines\n", left)
	}
	return b.String()
}
