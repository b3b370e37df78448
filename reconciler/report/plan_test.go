package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

// step decides about a source.
func step(t testing.TB, previous *record.State, revision, source string, o decide.Options) *decide.Decision {
	t.Helper()
	d, err := decide.Next(decide.Input{
		Source:   gitstate.Snapshot{Revision: gitstate.Revision(revision), FS: rendertest.Source(source)},
		Previous: previous, Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), Options: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// planOf is the plan from one source to the next.
func planOf(t testing.TB, before, after string, o decide.Options) *report.Plan {
	t.Helper()
	base := step(t, nil, "base", before, o)
	return report.New(step(t, base.Next, "head", after, o), base.Next, report.Revisions{Base: "base", Head: "head"})
}

const members = `== clusters.yaml ==
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {syncMode: Push}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {syncMode: Push}
`

func configMap(name, value string) string {
	return fmt.Sprintf("== %s.yaml ==\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s, namespace: default}\ndata: {key: %s}\n", name, value)
}

func policy(placement string) string {
	return "== policy.yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: default}\nspec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: apps/v1, kind: Deployment}], placement: {" + placement + "}}\n"
}

const web = `== web.yaml ==
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {replicas: %d, template: {spec: {containers: [{name: c, image: nginx}]}}}
`

const divided = "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}"

func TestJSON(t *testing.T) {
	plan := planOf(t,
		members+policy("")+fmt.Sprintf(web, 4)+configMap("gone", "x")+configMap("same", "x"),
		members+policy(divided)+fmt.Sprintf(web, 4)+configMap("same", "x")+
			"== lost.yaml ==\napiVersion: v1\nkind: Service\nmetadata: {name: lost, namespace: default}\nspec: {ports: [{port: 80}]}\n"+
			"== broken.yaml ==\nkind: ConfigMap\n", decide.Options{MaxDeletePercent: 100})
	got, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	rendertest.Golden(t, "plan.json", string(got)+"\n")
}

// Lists are never null, so that readers need not tell null from empty.
func TestEmptyPlan(t *testing.T) {
	plan := planOf(t, members, members, decide.Options{})
	got, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"source":{"base":"base","head":"head"},"bindings":[],"unbound":[],"works":[],"findings":[],"summary":{"bindings":{},"works":{},"replicasMoved":0}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if plan.Changes() || plan.Errors() {
		t.Errorf("changes %t, errors %t, want none", plan.Changes(), plan.Errors())
	}
}

func TestChangesAndErrors(t *testing.T) {
	base := members + policy("") + configMap("c", "x")
	for _, test := range []struct {
		name, after     string
		changes, errors bool
	}{
		{"nothing", base, false, false},
		{"a work", members + policy("") + configMap("c", "two"), true, false},
		{"an error alone", base + "== b.yaml ==\nkind: [\n", false, true},
		{"a removal", members + policy(""), true, false},
	} {
		plan := planOf(t, base, test.after, decide.Options{MaxDeletePercent: 100})
		if plan.Changes() != test.changes || plan.Errors() != test.errors {
			t.Errorf("%s: changes %t, errors %t, want %t, %t", test.name, plan.Changes(), plan.Errors(), test.changes, test.errors)
		}
	}
}

func TestReplicasMovedCountsGains(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after string
		want          int
	}{
		{"a first placement moves nothing", members, members + policy("") + fmt.Sprintf(web, 4), 0},
		{"from one member to the other", members + policy("clusterAffinity: {clusterNames: [m1]}") + fmt.Sprintf(web, 4), members + policy("clusterAffinity: {clusterNames: [m2]}") + fmt.Sprintf(web, 4), 4},
		{"scaled up on both", members + policy("") + fmt.Sprintf(web, 4), members + policy("") + fmt.Sprintf(web, 5), 2},
		{"scaled down", members + policy("") + fmt.Sprintf(web, 4), members + policy("") + fmt.Sprintf(web, 3), 0},
	} {
		if got := planOf(t, test.before, test.after, decide.Options{}).Summary.ReplicasMoved; got != test.want {
			t.Errorf("%s: %d moved, want %d", test.name, got, test.want)
		}
	}
}

func TestText(t *testing.T) {
	plan := planOf(t, members+policy("")+fmt.Sprintf(web, 4)+configMap("c", "x"),
		members+policy(divided)+fmt.Sprintf(web, 4)+"== lost.yaml ==\napiVersion: v1\nkind: Service\nmetadata: {name: lost, namespace: default}\n", decide.Options{})
	var plain, wide, colour bytes.Buffer
	plan.Text(&plain, report.Style{}, false)
	plan.Text(&wide, report.Style{}, true)
	plan.Text(&colour, report.Style{Colour: true}, false)
	rendertest.Golden(t, "plan.txt", plain.String())
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colour where none was asked for")
	}
	stripped := colour.String()
	for _, code := range []string{"1", "31", "32", "33", "36", "0"} {
		stripped = strings.ReplaceAll(stripped, "\x1b["+code+"m", "")
	}
	if diff := cmp.Diff(plain.String(), stripped); diff != "" {
		t.Errorf("colour changes the words (-plain +colour):\n%s", diff)
	}
}

// A member that loses much is no reason to scroll: one line for each member and reason.
func TestHeldDeletionsAreToldTogether(t *testing.T) {
	maps := ""
	for i := range 12 {
		maps += configMap(fmt.Sprintf("c%02d", i), "x")
	}
	plan := planOf(t, members+policy("")+maps, members+policy(""), decide.Options{})
	if len(plan.Held) != 24 {
		t.Fatalf("%d held, want 24", len(plan.Held))
	}
	var text bytes.Buffer
	plan.Text(&text, report.Style{}, false)
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, member := range []string{"m1", "m2"} {
		if want := "held: 12 objects on " + member + ": 12 of 12 works of " + member + " would be deleted, more than 50 %: ConfigMap default/c00, "; strings.Count(words, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, words)
		}
	}
	if n := strings.Count(words, "ConfigMap default/c09 and 2 more"); n != 2 {
		t.Errorf("the first ten are told %d times, want 2, in\n%s", n, words)
	}
	if n := strings.Count(words, " on m1: "); n != 1 {
		t.Errorf("m1 is told of %d times, want once, in\n%s", n, words)
	}
}

func TestHeldDeletionsAreShown(t *testing.T) {
	plan := planOf(t, members+policy("")+configMap("c", "x"), members+policy(""), decide.Options{})
	if len(plan.Held) != 2 || len(plan.Works) != 2 {
		t.Fatalf("held %v, works %v", plan.Held, plan.Works)
	}
	for _, work := range plan.Works {
		if work.Change != decide.Unchanged {
			t.Errorf("%s on %s is %s, and it is held", work.Resource, work.Cluster, work.Change)
		}
	}
	var text bytes.Buffer
	plan.Text(&text, report.Style{}, false)
	if want := "held: ConfigMap default/c on m1: it is among the last works of m1 and runs nowhere else\n"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, text.String())
	}
	markdown := plan.Markdown()
	for _, want := range []string{
		"**deletion-held** <code>ConfigMap default/c</code> on <code>m1</code>: it is among the last works of m1 and runs nowhere else; `godwit approve` lets it go\n",
		"**deletion-held** <code>ConfigMap default/c</code> on <code>m2</code>: ", "Deletions that are held: 2.",
	} {
		if strings.Count(markdown, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, markdown)
		}
	}
}

// Deletions that a member holds for one reason are one line of a comment, which names some of them.
func TestMarkdownTellsOfHeldDeletionsByReason(t *testing.T) {
	plan := &report.Plan{Held: []report.Held{{Cluster: "m2", Resource: report.Resource{Kind: "Namespace", Name: "n"}, Message: "one"}}}
	for i := range 12 {
		plan.Held = append(plan.Held, report.Held{Cluster: "m1", Resource: report.Resource{Kind: "ConfigMap", Name: fmt.Sprint("c", i)}, Message: "too many"})
	}
	got := plan.Markdown()
	if n := strings.Count(got, "**deletion-held**"); n != 2 {
		t.Errorf("%d lines, want one for each reason:\n%s", n, got)
	}
	for _, want := range []string{"<code>Namespace n</code> on <code>m2</code>: one;", "<code>ConfigMap c9</code> and 2 more on <code>m1</code>: too many;"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestPlansSayWhichValuesOfASecretChange(t *testing.T) {
	secret := func(v string) string {
		return members + strings.Replace(policy(""), "kind: ConfigMap", "kind: Secret", 1) + "== s.yaml ==\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {p: " + v + ", same: correct-horse}\n"
	}
	plan := planOf(t, secret("hunter2, gone: tr0ub4dor"), secret("swordfish, come: tr0ub4dor"), decide.Options{SecretKey: []byte("k")})
	other, _ := json.Marshal(planOf(t, secret("hunter2, gone: tr0ub4dor"), secret("swordfish, come: tr0ub4dor"), decide.Options{SecretKey: []byte("l")}))
	all, _ := json.Marshal(plan)
	var text bytes.Buffer
	plan.Text(&text, report.Style{}, true)
	for _, got := range []string{string(all), text.String(), plan.Markdown()} {
		for _, value := range []string{"hunter2", "swordfish", "correct-horse", "tr0ub4dor", "hmac-sha256"} {
			if strings.Contains(got, value) {
				t.Errorf("%s is shown:\n%s", value, got)
			}
		}
		for _, line := range []string{"-  p: '(not shown: old)'", "+  p: '(not shown: new)'", "-  gone: (not shown)", "+  come: (not shown)", "   same: (not shown)"} {
			if !strings.Contains(got, line) {
				t.Errorf("%s is not shown:\n%s", line, got)
			}
		}
	}
	if !bytes.Equal(all, other) {
		t.Errorf("the plan depends on the key:\n%s\n%s", all, other)
	}
	for _, s := range plan.Sides() {
		if s.Before == s.After || strings.Contains(s.Before+s.After, "hmac-sha256") {
			t.Errorf("for another program %s is\n%s\nand\n%s", s.Name, s.Before, s.After)
		}
	}
}

func TestMarkdown(t *testing.T) {
	plan := planOf(t, members+policy("")+fmt.Sprintf(web, 4)+configMap("a", "x")+configMap("b", "x"),
		members+policy(divided)+fmt.Sprintf(web, 4)+configMap("a", "two")+"== broken.yaml ==\nkind: ConfigMap\n", decide.Options{MaxDeletePercent: 100})
	rendertest.Golden(t, "plan.md", plan.Markdown())
}

func TestMarkdownStaysBelowItsLimit(t *testing.T) {
	var before, after strings.Builder
	for i := range 1000 {
		before.WriteString(configMap(fmt.Sprintf("c%04d", i), `"ünïcödé `+strings.Repeat("x", i%50)+`"`))
		after.WriteString(configMap(fmt.Sprintf("c%04d", i), `"ünïcödé `+strings.Repeat("y", i%50)+`z"`))
	}
	plan := planOf(t, members+policy("")+before.String(), members+policy("")+after.String(), decide.Options{})
	if n := plan.Summary.Works[decide.Updated]; n != 2000 {
		t.Fatalf("%d works changed, want 2000", n)
	}
	got := plan.Markdown()
	if n := utf8.RuneCountInString(got); n >= report.MarkdownLimit || n < report.MarkdownLimit/2 {
		t.Errorf("%d characters, want a little under %d", n, report.MarkdownLimit)
	}
	for _, want := range []string{report.Marker, "2000 updated", "Cut to stay under"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if open, closed := strings.Count(got, "<details>"), strings.Count(got, "</details>"); open != closed {
		t.Errorf("%d <details>, %d </details>", open, closed)
	}
}

// bigPlan is one of which only a part can be shown: n of each kind of thing, with so long a text in each.
func bigPlan(n int, text string) *report.Plan {
	p := &report.Plan{Summary: report.Summary{Bindings: map[decide.Change]int{}, Works: map[decide.Change]int{}}, WhatIf: &report.WhatIf{}}
	for i := range n {
		name := fmt.Sprintf("c%04d", i)
		for j, change := range []decide.Change{decide.Updated, decide.Moved, decide.Removed} {
			r := report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprintf("%s-%d", name, j)}
			p.Bindings = append(p.Bindings, report.Binding{Resource: r, Change: change, Message: text, Clusters: []report.Target{{Name: "m1"}}})
			p.Summary.Bindings[change]++
			work := change
			if work == decide.Moved {
				work = decide.Added
			}
			p.Works = append(p.Works, report.Work{Cluster: "m1", Resource: r, Change: work, Hunks: "+" + text + "\n"})
			p.Summary.Works[work]++
		}
		p.Findings = append(p.Findings, report.Finding{Finding: render.Finding{Severity: render.Warning, Code: "w", File: name, Message: text}}, report.Finding{Finding: render.Finding{Severity: render.Info, Code: "i", File: name, Message: text}})
		p.Unbound = append(p.Unbound, report.Unbound{Resource: report.Resource{Kind: "Secret", Name: name}, Message: text})
		p.WhatIf.Clusters = append(p.WhatIf.Clusters, report.WhatIfCluster{Cluster: name, Changes: []report.WhatIfChange{{Resource: report.Resource{Kind: "Secret", Name: name}, Worse: true, Before: "moves", After: "stays", Message: text}}})
	}
	return p
}

// Whatever is cut, a comment is whole, below the limit of forges however they count, and says how much is not
// shown: every item is there or counted. What matters most is there first.
func TestMarkdownSaysWhatItCuts(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		n          int
	}{
		{"short texts", "changed", 700},
		{"texts beyond the basic plane", strings.Repeat("😀", 300), 700},
		{"giant texts", strings.Repeat("word ", 5000), 700},
		{"a few giant ones", strings.Repeat("x", 100_000), 3},
		{"all of it fits", "changed", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := bigPlan(tt.n, tt.text).Markdown()
			if n := len(utf16.Encode([]rune(got))); n > report.MarkdownLimit {
				t.Errorf("%d characters, want at most %d", n, report.MarkdownLimit)
			}
			if cut := strings.Contains(got, "_Cut to stay under 60000 characters"); cut != (tt.n > 3) {
				t.Errorf("cut: %t", cut)
			}
			if strings.Contains(got, "parts are left out") {
				t.Error("a whole part is left out")
			}
			at := -1
			for _, head := range []string{report.Marker, "### godwit plan: ", "#### Watch out", "#### Workloads", "#### Runs nowhere", "#### If a member died after this", "Worse than before:", "Notes (", "#### Diffs"} {
				next := strings.Index(got, head)
				if next <= at {
					t.Errorf("%q is not after what goes before it", head)
				}
				at = next
			}
			for _, list := range []struct {
				what, row, more string
			}{
				{"warnings", `(?m)^- :warning: `, `(\d+) warnings`},
				{"removed workloads", `(?m)^\| <code>ConfigMap [^|]*\| removed \|[^|]*\|[^|]*\|[^|]*\|$`, `workloads: .*?(\d+) removed`},
				{"moved workloads", `(?m)^\| <code>ConfigMap [^|]*\| moved \|[^|]*\|[^|]*\|[^|]*\|$`, `workloads: .*?(\d+) moved`},
				{"updated workloads", `(?m)^\| <code>ConfigMap [^|]*\| updated \|[^|]*\|[^|]*\|[^|]*\|$`, `workloads: .*?(\d+) updated`},
				{"unbound", `(?m)^- <code>Secret `, `(\d+) templates`},
				{"members", `(?m)^\| <code>c\d{4}</code> \| 0 \| 0 \| 0 \| 1 \|$`, `(\d+) members`},
				{"worse", `(?m)^- <code>c\d{4}</code>, `, `… and (\d+) objects`},
				{"notes", `(?m)^- :information_source: `, `(\d+) notes`},
				{"removed works", `<summary>removed `, `not shown: .*?(\d+) removed`},
				{"added works", `<summary>added `, `diffs that are not shown: .*?(\d+) added`},
				{"updated works", `<summary>updated `, `diffs that are not shown: .*?(\d+) updated`},
			} {
				shown, more := len(regexp.MustCompile(list.row).FindAllString(got, -1)), 0
				if m := regexp.MustCompile(list.more).FindStringSubmatch(got); m != nil {
					more, _ = strconv.Atoi(m[1])
				}
				if shown+more != tt.n {
					t.Errorf("%s: %d are shown and %d counted, want %d together", list.what, shown, more, tt.n)
				}
			}
			// Nothing is open: a harmless paragraph at the end is one.
			if tree := structure(t, got+"\n\nend\n"); !strings.HasSuffix(tree, "\n Paragraph\n  Text\n") {
				t.Errorf("something is open at the end:\n%s", tree[max(0, len(tree)-500):])
			}
			if open, closed := strings.Count(got, "<details>"), strings.Count(got, "</details>"); open != closed {
				t.Errorf("%d <details>, %d </details>", open, closed)
			}
			// One giant value does not eat the room of the others.
			if n := strings.Count(got, "- :warning: "); n < min(tt.n, 20) {
				t.Errorf("only %d warnings are shown", n)
			}
		})
	}
}

// Equal changes on many members are shown once.
func TestMarkdownFoldsEqualDiffs(t *testing.T) {
	got := planOf(t, members+policy("")+configMap("c", "x"), members+policy("")+configMap("c", "two"), decide.Options{}).Markdown()
	if n := strings.Count(got, "```diff"); n != 1 {
		t.Errorf("%d diffs, want one for both members:\n%s", n, got)
	}
	if !strings.Contains(got, "</code> on m1, m2</summary>") {
		t.Errorf("the members are missing:\n%s", got)
	}
}

// A name with a line feed would forge lines of a terminal's table.
func TestTextIsOneLinePerRow(t *testing.T) {
	plan := &report.Plan{Bindings: []report.Binding{{Name: "a\nforged", Change: decide.Added, Message: "x\ty\nz"}},
		Unbound:  []report.Unbound{{Resource: report.Resource{Kind: "ConfigMap", Name: "b\nforged"}, Message: "m\nforged"}},
		Findings: []report.Finding{{Finding: render.Finding{Severity: render.Error, Message: "first\nforged: error: x"}}}}
	var got bytes.Buffer
	plan.Text(&got, report.Style{}, false)
	for line := range strings.Lines(got.String()) {
		if strings.HasPrefix(line, "forged") || strings.HasPrefix(line, "z") {
			t.Errorf("a forged line %q in\n%s", line, got.String())
		}
	}
}

func TestSARIF(t *testing.T) {
	got, err := json.MarshalIndent(report.SARIF("v1", "fleet", []render.Finding{
		{Severity: render.Error, Code: "b", File: "x.yaml", Line: 7, Object: "ConfigMap default/c", Message: "wrong"},
		{Severity: render.Warning, Code: "a", File: "y.yaml", Message: "odd\x1b"},
		{Severity: render.Info, Code: "b", Message: "by the way"},
	}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	rendertest.Golden(t, "findings.sarif", string(got)+"\n")
}

// A result is the same one after edits above it, two equal ones are two, and a file is a URI below the repository.
func TestSARIFResultsAreToldApart(t *testing.T) {
	type result struct{ Fingerprint, URI string }
	results := func(root string, findings ...render.Finding) (list []result) {
		text, err := json.Marshal(report.SARIF("v1", root, findings))
		if err != nil {
			t.Fatal(err)
		}
		var log struct {
			Runs []struct {
				Results []struct {
					Prints    map[string]string `json:"partialFingerprints"`
					Locations []struct {
						Physical struct {
							Artifact struct{ URI string } `json:"artifactLocation"`
						} `json:"physicalLocation"`
					}
				}
			}
		}
		if err := json.Unmarshal(text, &log); err != nil {
			t.Fatal(err)
		}
		for _, r := range log.Runs[0].Results {
			list = append(list, result{r.Prints["primaryLocationLineHash"], r.Locations[0].Physical.Artifact.URI})
		}
		return list
	}
	f := render.Finding{Severity: render.Warning, Code: "a", File: "x y#1.yaml", Line: 7, Object: "ConfigMap default/c", Message: "odd"}
	moved, other := f, f
	moved.Line, other.Message = 99, "odder"
	got := results("fleets/a", f, f, other)
	if got[0] == got[1] || got[0] == got[2] || results("fleets/a", moved)[0] != got[0] {
		t.Errorf("got %v", got)
	}
	for root, want := range map[string]string{"fleets/a": "fleets/a/x%20y%231.yaml", "": "x%20y%231.yaml", ".": "x%20y%231.yaml"} {
		if got := results(root, f)[0].URI; got != want {
			t.Errorf("below %q: %q, want %q", root, got, want)
		}
	}
}

// What is lost and what moves is read first.
func TestRemovalsAndMovesComeFirst(t *testing.T) {
	plan := planOf(t,
		members+policy("clusterAffinity: {clusterNames: [m1]}")+fmt.Sprintf(web, 4)+configMap("a", "x")+configMap("z", "x"),
		members+policy("clusterAffinity: {clusterNames: [m2]}")+fmt.Sprintf(web, 4)+configMap("a", "x")+configMap("b", "x"), decide.Options{MaxDeletePercent: 100})
	var text bytes.Buffer
	plan.Text(&text, report.Style{}, false)
	for form, got := range map[string]string{"text": text.String(), "markdown": plan.Markdown()} {
		var order []string
		for _, m := range regexp.MustCompile(`(?m)^(?:default/|\| <code>)\S.*?\b(removed|moved|added|updated)\b`).FindAllStringSubmatch(got, -1) {
			order = append(order, m[1])
		}
		if diff := cmp.Diff([]string{"removed", "moved", "moved", "added"}, order); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", form, diff, got)
		}
		order = nil
		for _, m := range regexp.MustCompile(`(?m)^(?:<details><summary>)?(removed|added|updated) \S*(?:ConfigMap|Deployment)`).FindAllStringSubmatch(got, -1) {
			order = append(order, m[1])
		}
		if diff := cmp.Diff([]string{"removed", "removed", "removed", "added", "added", "added"}, order); diff != "" {
			t.Errorf("diffs in %s (-want +got):\n%s\n%s", form, diff, got)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	var before, after strings.Builder
	for i := range 200 {
		before.WriteString(configMap(fmt.Sprintf("c%04d", i), "x"))
		after.WriteString(configMap(fmt.Sprintf("c%04d", i), "two"))
	}
	base := step(b, nil, "base", members+policy("")+before.String(), decide.Options{})
	d := step(b, base.Next, "head", members+policy("")+after.String(), decide.Options{})
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			report.New(d, base.Next, report.Revisions{})
		}
	})
	plan := report.New(d, base.Next, report.Revisions{})
	b.Run("markdown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plan.Markdown()
		}
	})
}

// BenchmarkManyMembers is a change of one object of 1,000 lines on few and many members: the diff is made once.
func BenchmarkManyMembers(b *testing.B) {
	object := func(value string) string {
		return "== big.yaml ==\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: big, namespace: default}\ndata:\n" + fields(value)
	}
	var least time.Duration
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			fleet := "== clusters.yaml ==\n"
			for i := range n {
				fleet += fmt.Sprintf("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m%04d}\nspec: {syncMode: Push}\n---\n", i)
			}
			base := step(b, nil, "base", fleet+policy("")+object("x"), decide.Options{})
			d := step(b, base.Next, "head", fleet+policy("")+object("two"), decide.Options{})
			b.ReportAllocs()
			for b.Loop() {
				report.New(d, base.Next, report.Revisions{}).Text(io.Discard, report.Style{}, false)
			}
			each := b.Elapsed() / time.Duration(b.N)
			if least == 0 {
				least = each
			}
			b.ReportMetric(float64(each)/float64(least), "of-10")
		})
	}
}

// fields are 1,000 lines, the last one with a value of its own.
func fields(value string) string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "  line%04d: text\n", i)
	}
	return b.String() + "  last: " + value + "\n"
}

func TestAPlanSaysWhoApplies(t *testing.T) {
	hydrated := strings.Replace(members, "name: m2", "name: m2, annotations: {godwit.dev/delivery: hydrate}", 1)
	before, after := hydrated+policy(""), hydrated+policy("")+configMap("c", "x")
	for _, test := range []struct {
		name, before, after string
		want                []string
	}{
		{"one of two", before, after, []string{"m2"}},
		{"nothing changes there", after, after, nil},
		{"none", members + policy(""), members + policy("") + configMap("c", "x"), nil},
	} {
		plan := planOf(t, test.before, test.after, decide.Options{MaxDeletePercent: 100})
		if diff := cmp.Diff(test.want, plan.Hydrated); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		var text bytes.Buffer
		if err := plan.Text(&text, report.Style{}, false); err != nil {
			t.Fatal(err)
		}
		for form, got := range map[string]string{"text": text.String(), "markdown": plan.Markdown()} {
			if said := strings.Contains(got, "godwit only looks"); said != (test.want != nil) {
				t.Errorf("%s, %s:\n%s", test.name, form, got)
			}
		}
	}
}
