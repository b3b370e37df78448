package report_test

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
)

// planSaying is a plan in which all that comes from users is one text, which is also a line of its diff.
func planSaying(s string) *report.Plan {
	resource := report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: s}
	runs := report.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: s}
	return &report.Plan{
		Source: report.Revisions{Base: s, Head: s},
		Bindings: []report.Binding{
			{Namespace: "default", Name: s, Resource: runs, Policy: &report.Policy{Namespace: s, Name: s}, Change: decide.Moved,
				Previous: []report.Target{{Name: s, Replicas: 1}}, Clusters: []report.Target{{Name: s}}},
			{Namespace: "default", Name: s, Resource: runs, Change: decide.Unchanged, Failure: "Unschedulable", Message: s},
		},
		Unbound: []report.Unbound{{Resource: resource, Message: s}},
		Works: []report.Work{
			{Cluster: s, Resource: resource, Change: decide.Updated, Hunks: "+" + s + "\n " + s + "\n"},
			{Cluster: s, Resource: resource, Change: decide.Removed, Stays: true},
		},
		Held: []report.Held{{Cluster: s, Resource: resource, Message: s}},
		Findings: []report.Finding{
			{Finding: render.Finding{Severity: render.Error, Code: "x", File: s, Line: 1, Object: s, Message: s}},
			{Finding: render.Finding{Severity: render.Info, Code: "x", File: s, Object: s, Message: s}},
			{Finding: render.Finding{Severity: render.Warning, Code: "y", File: s, Object: s, Message: s}, Known: true},
		},
		Summary: report.Summary{Bindings: map[decide.Change]int{decide.Moved: 1}, Works: map[decide.Change]int{decide.Updated: 1}},
		WhatIf: &report.WhatIf{Clusters: []report.WhatIfCluster{{Cluster: s, Brake: s, Changes: []report.WhatIfChange{
			{Resource: resource, Worse: true, Before: "moves", After: "stays", MissingAfter: 2, Message: s},
		}}}},
	}
}

// structure is what a forge makes of Markdown, without the words: kinds of blocks and inlines, raw HTML as it
// stands, and the text between is only there or not.
func structure(t testing.TB, markdown string) string {
	t.Helper()
	source := []byte(markdown)
	tree := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	var b strings.Builder
	depth, last := 0, ""
	line := func(s string) {
		if s = strings.Repeat(" ", depth) + s + "\n"; s != last || !strings.HasSuffix(s, "Text\n") {
			b.WriteString(s)
		}
		last = s
	}
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text, *ast.String:
			line("Text")
		case *ast.RawHTML:
			line("RawHTML " + string(n.Segments.Value(source)))
		case *ast.HTMLBlock:
			line("HTMLBlock " + tags(string(n.Lines().Value(source))))
		case *ast.FencedCodeBlock:
			line(fmt.Sprintf("FencedCodeBlock %s %d", n.Language(source), n.Lines().Len()))
		default:
			line(n.Kind().String())
		}
		depth++
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tags are those of a block of HTML, and its comments; a < that begins none is one, too.
func tags(s string) string {
	var found []string
	for {
		at := strings.Index(s, "<")
		if at < 0 {
			return strings.Join(found, "")
		}
		s = s[at:]
		end := strings.Index(s, ">") + 1
		if end == 0 {
			end = len(s)
		}
		found = append(found, s[:end])
		s = s[end:]
	}
}

var nasty = []string{
	"a|b", "`", "```", strings.Repeat("`", 40), "~~~", "*b*", "__b__", "[x](http://evil.example)", "![x](y)", "[x]: y", "<script>alert(1)</script>", "</details>", "</summary>", "</code>", "<!--", "-->",
	"<b>", "&lt;", "&#64;all", "\\", "\\|", "\x1b[31m", "\x1b]8;;http://evil\x07", "\u202eevil", "\u2066", "\u200b", "\ufeff", "\U000e0041", "@everyone", "me@evil.example", "#123", "!1", ":tada:", "GH-1", "http://evil.example", "https://evil.example/?a=b", "www.evil.example", "ftp://evil.example",
	"\r\n", "\n", "\n\n", "\n# head", "\n- item", "\n```\n", "\n</details>\n", "\n| a | b |", "\n===", "\n---\n", "\t", "\x00", "\xff", "\u0085", "\u2028", "$x$", "$$", "1. ", "# ", "> ", "+ ", "%n", "<https://evil.example>", "😀", "é", strings.Repeat("x", 10_000), report.Marker,
}

// Names and messages come from users, and from whoever writes the files they run: whatever they are, a comment
// has the structure that it has with a harmless name, is one comment, and calls nobody.
func TestHostileTextBreaksNoComment(t *testing.T) {
	want := structure(t, planSaying("harmless").Markdown())
	for _, blocks := range []string{"Table\n", "FencedCodeBlock diff 4\n", "HTMLBlock <details><summary><code></code></summary>"} {
		if !strings.Contains(want, blocks) {
			t.Fatalf("the test is blind: no %q in\n%s", blocks, want)
		}
	}
	check := func(t testing.TB, s string) {
		// A line feed in a diff would be a line of it; names and values have none there, as YAML escapes them.
		plan := planSaying(s)
		line := strings.Trim(strings.ReplaceAll(s, "\n", ""), "n")
		plan.Works[0].Hunks = "+" + line + "\n " + line + "\n"
		got := plan.Markdown()
		if !strings.HasPrefix(got, report.Marker+"\n") || strings.Contains(got, "\n"+report.Marker) {
			t.Errorf("%.200q: a line is the marker, and not the first alone", s)
		}
		if diff := cmp.Diff(want, structure(t, got)); diff != "" {
			t.Errorf("%.200q breaks the comment (-harmless +hostile):\n%s\n%s", s, diff, got)
		}
		if bad := steering(got); bad != "" {
			t.Errorf("%.200q: %q reaches the reader", s, bad)
		}
		if len(got) > 40_000 {
			t.Errorf("%.200q makes a comment of %d bytes", s, len(got))
		}
	}
	for _, s := range nasty {
		check(t, "n"+s+"n")
		check(t, s+"n")
	}
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(nasty), rapid.String()), 0, 5).Draw(rt, "parts")
		check(t, "n"+strings.Join(parts, "")+"n")
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// steering is the first character that steers a terminal or deceives a reader.
func steering(s string) string {
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			return string(r)
		}
	}
	return ""
}

// What is harmless is shown as it was written.
func TestTextIsShownAsItIs(t *testing.T) {
	for _, s := range []string{`a\|b`, `a\&b \\ c\<d>`, "*a* _b_ `c` ~~d~~", "&lt;b&gt; &#64;", "[a](b) ![c](d)", "a|b", "$x$", "it's \"quoted\"", "nginx:1.25@x 50 % a:b"} {
		var page bytes.Buffer
		plan := &report.Plan{Findings: []report.Finding{{Finding: render.Finding{Severity: render.Warning, Code: "w", Object: s, Message: s}}}}
		if err := goldmark.Convert([]byte(plan.Markdown()), &page); err != nil {
			t.Fatal(err)
		}
		if shown := html.UnescapeString(strings.ReplaceAll(page.String(), "\u200b", "")); !strings.Contains(shown, ": "+s+"</li>") {
			t.Errorf("%q is shown as\n%s", s, shown)
		}
	}
}

// On a terminal a text is a part of its line, and steers nothing.
func TestHostileTextSteersNoTerminal(t *testing.T) {
	lines := func(plan *report.Plan) (string, int) {
		var b bytes.Buffer
		if err := plan.Text(&b, report.Style{}, true); err != nil {
			t.Fatal(err)
		}
		if err := plan.WhatIf.Text(&b, report.Style{}); err != nil {
			t.Fatal(err)
		}
		return b.String(), strings.Count(b.String(), "\n")
	}
	_, want := lines(planSaying("harmless"))
	for _, s := range nasty {
		plan := planSaying("n" + s + "n")
		plan.Works[0].Hunks = "+" + strings.ReplaceAll(s, "\n", "") + "\n n\n"
		got, n := lines(plan)
		if n != want {
			t.Errorf("%.100q: %d lines, want %d:\n%s", s, n, want, got)
		}
		if bad := steering(got); bad != "" {
			t.Errorf("%.100q: %q reaches the terminal", s, bad)
		}
	}
}

// No forge calls people, links issues or follows URLs that stand in a file.
func TestNobodyIsCalled(t *testing.T) {
	got := planSaying("x @everyone #123 !45 :tada: :a:b:c: GH-7 http://evil.example www.evil.example me@evil.example y").Markdown()
	outside, _, _ := strings.Cut(got, "```diff")
	for strings.Contains(outside, "<code>") { // forges look for none of it there
		before, rest, _ := strings.Cut(outside, "<code>")
		_, after, _ := strings.Cut(rest, "</code>")
		outside = before + after
	}
	for _, bad := range []string{"@e", "#1", "!4", ":t", ":a:", ":b:", ":c:", "GH-7", "://", "www.", "@evil"} {
		if strings.Contains(strings.ReplaceAll(outside, "&#", ""), bad) {
			t.Errorf("%q is in\n%s", bad, outside)
		}
	}
}

// Lines of text are read by CI runners, too, some of which take orders from them.
func TestTextGivesNoOrders(t *testing.T) {
	for said, want := range map[string]string{
		"::error file=x::forged.yaml": "./::error file=x::forged.yaml",
		"##vso[task.complete]a.yaml":  "# #vso[task.complete]a.yaml",
		"a ##[error]b.yaml":           "a # #[error]b.yaml",
		"##teamcity[x].yaml":          "# #teamcity[x].yaml",
		"a::b##c.yaml":                "a::b##c.yaml",
	} {
		var out bytes.Buffer
		if err := report.Findings(&out, report.Style{}, []render.Finding{{Severity: render.Error, Code: "x", File: said, Message: "m"}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want+": error: x: m\n" {
			t.Errorf("%s: %q", said, got)
		}
		out.Reset()
		report.PrintDiff(&out, report.Style{}, "   "+said+"\n")
		if got := out.String(); got != "   "+want+"\n" {
			t.Errorf("a diff with %s: %q", said, got)
		}
		plan := planSaying(said)
		plan.Works[0].Hunks = " " + said + "\n"
		out.Reset()
		if err := plan.Text(&out, report.Style{}, true); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "::") || strings.Contains(line, "##vso[") || strings.Contains(line, "##[") || strings.Contains(line, "##teamcity[") {
				t.Errorf("an order: %s", line)
			}
		}
	}
}
