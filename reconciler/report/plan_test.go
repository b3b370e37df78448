package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
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
	for _, got := range []string{text.String(), plan.Markdown()} {
		if !strings.Contains(got, "held: ConfigMap default/c on m1: it is among the last works of m1 and runs nowhere else") {
			t.Errorf("the held deletion is not in\n%s", got)
		}
	}
}

func TestSecretsAreShownAsTheirDigests(t *testing.T) {
	secret := func(v string) string {
		return members + strings.Replace(policy(""), "kind: ConfigMap", "kind: Secret", 1) + "== s.yaml ==\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {p: " + v + "}\n"
	}
	plan := planOf(t, secret("hunter2"), secret("swordfish"), decide.Options{SecretKey: []byte("k")})
	all, _ := json.Marshal(plan)
	var text bytes.Buffer
	plan.Text(&text, report.Style{}, true)
	for _, got := range []string{string(all), text.String(), plan.Markdown()} {
		if strings.Contains(got, "hunter2") || strings.Contains(got, "swordfish") {
			t.Errorf("a value is shown:\n%s", got)
		}
		if !strings.Contains(got, "hmac-sha256:") {
			t.Errorf("the change is not shown:\n%s", got)
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
	for _, want := range []string{report.Marker, "2000 updated", "parts are left out"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if open, closed := strings.Count(got, "<details>"), strings.Count(got, "</details>"); open != closed {
		t.Errorf("%d <details>, %d </details>", open, closed)
	}
}

// Equal changes on many members are shown once.
func TestMarkdownFoldsEqualDiffs(t *testing.T) {
	got := planOf(t, members+policy("")+configMap("c", "x"), members+policy("")+configMap("c", "two"), decide.Options{}).Markdown()
	if n := strings.Count(got, "<details>"); n != 1 {
		t.Errorf("%d diffs, want one for both members:\n%s", n, got)
	}
	if !strings.Contains(got, "on m1, m2</summary>") {
		t.Errorf("the members are missing:\n%s", got)
	}
}

// Names and messages come from users, and from whoever writes the files they run.
func TestHostileTextBreaksNothing(t *testing.T) {
	hostile := "a|b`c`*d*_e_[x](http://evil)<script>alert(1)</script>\n# head\x1b[31m\u202e@everyone ~~~ <!-- godwit-plan -->"
	resource := report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: hostile}
	plan := &report.Plan{
		Bindings: []report.Binding{{Namespace: "default", Name: hostile, Resource: resource, Policy: &report.Policy{Name: hostile}, Change: decide.Moved,
			Previous: []report.Target{{Name: hostile, Replicas: 1}}, Clusters: []report.Target{{Name: hostile}}, Failure: hostile, Message: hostile}},
		Unbound:  []report.Unbound{{Resource: resource, Message: hostile}},
		Works:    []report.Work{{Cluster: hostile, Resource: resource, Change: decide.Updated, Hunks: "+```\n+````\n+</details>\n+\x1b[31m" + hostile + "\n"}},
		Held:     []report.Held{{Cluster: hostile, Resource: resource, Message: hostile}},
		Findings: []render.Finding{{Severity: render.Error, Code: "x", File: hostile, Object: hostile, Message: hostile}},
		Summary:  report.Summary{Works: map[decide.Change]int{decide.Updated: 1}},
	}
	got := plan.Markdown()
	outside, fenced := []string{}, ""
	for line := range strings.Lines(got) {
		switch {
		case fenced == "" && strings.HasPrefix(line, "```"):
			fenced = strings.TrimSuffix(strings.TrimSpace(line), "diff")
		case fenced != "" && strings.TrimSpace(line) == fenced:
			fenced = ""
		case fenced == "":
			outside = append(outside, line)
		}
	}
	if fenced != "" {
		t.Errorf("the diff is not closed:\n%s", got)
	}
	text := strings.Join(outside, "")
	for _, bad := range []string{"<script", "`", "*d*", "_e_", "](", "@everyone", "~~~", "\n# head"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is outside of the diff:\n%s", bad, text)
		}
	}
	if n := strings.Count(text, report.Marker); n != 1 {
		t.Errorf("%d markers, want one", n)
	}
	for _, line := range outside {
		if strings.HasPrefix(line, "| ") && strings.Count(line, "|") != 6 {
			t.Errorf("a row of %d columns: %s", strings.Count(line, "|")-1, line)
		}
	}
	var terminal bytes.Buffer
	plan.Text(&terminal, report.Style{}, true)
	for _, all := range []string{got, terminal.String()} {
		if strings.ContainsAny(all, "\x1b\u202e\x07") {
			t.Errorf("control characters reach the reader: %q", all)
		}
	}
}

// A name with a line feed would forge lines of a terminal's table.
func TestTextIsOneLinePerRow(t *testing.T) {
	plan := &report.Plan{Bindings: []report.Binding{{Name: "a\nforged", Change: decide.Added, Message: "x\ty\nz"}},
		Unbound:  []report.Unbound{{Resource: report.Resource{Kind: "ConfigMap", Name: "b\nforged"}, Message: "m\nforged"}},
		Findings: []render.Finding{{Severity: render.Error, Message: "first\nforged: error: x"}}}
	var got bytes.Buffer
	plan.Text(&got, report.Style{}, false)
	for line := range strings.Lines(got.String()) {
		if strings.HasPrefix(line, "forged") || strings.HasPrefix(line, "z") {
			t.Errorf("a forged line %q in\n%s", line, got.String())
		}
	}
}

func TestSARIF(t *testing.T) {
	got, err := json.MarshalIndent(report.SARIF("v1", []render.Finding{
		{Severity: render.Error, Code: "b", File: "x.yaml", Line: 7, Object: "ConfigMap default/c", Message: "wrong"},
		{Severity: render.Warning, Code: "a", File: "y.yaml", Message: "odd\x1b"},
		{Severity: render.Info, Code: "b", Message: "by the way"},
	}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	rendertest.Golden(t, "findings.sarif", string(got)+"\n")
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
