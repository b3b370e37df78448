package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

// sinceBase is the plan from one source to the next, whose findings are compared.
func sinceBase(t *testing.T, before, after string) *report.Plan {
	t.Helper()
	base := step(t, nil, "base", before, decide.Options{MaxDeletePercent: 100})
	head := step(t, base.Next, "head", after, decide.Options{MaxDeletePercent: 100})
	plan := report.New(head, base.Next, report.Revisions{Base: "base", Head: "head"})
	plan.Since(base, head)
	return plan
}

func said(plan *report.Plan) string {
	var b bytes.Buffer
	plan.Text(&b, report.Style{}, false)
	return b.String()
}

const broken = "kind: [\n"

func TestFindingsOfTheBaseDoNotFailTheChange(t *testing.T) {
	source := members + policy("") + configMap("c", "x") + fmt.Sprintf(web, 1)
	old := "== old.yaml ==\n" + broken
	// What was there is not to blame, also where it is on another line now.
	twin := func(names ...string) string {
		twins := "== twins.yaml ==\n"
		for _, name := range names {
			twins += "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: " + name + ", namespace: default}\nspec: {resourceSelectors: [{apiVersion: v1, kind: Secret}]}\n---\n"
		}
		return twins
	}
	for _, test := range []struct {
		name, before, after string
		errors              bool
		known, total        int
	}{
		{"the same", old, old, false, 1, 1},
		{"a new one", "", old, true, 0, 1},
		{"another one", old, old + "== new.yaml ==\n" + broken, true, 1, 2},
		{"in another file", old, "== moved.yaml ==\n" + broken, true, 0, 1},
		{"mended", old, "", false, 0, 0},
		{"lines above it", twin("a"), strings.Replace(twin("a"), "apiVersion", "# one\n# two\napiVersion", 1), false, 1, 1},
		{"of another object", twin("a"), twin("b"), false, 0, 1},
		{"of one more object", twin("a"), twin("a", "b"), false, 1, 3},
	} {
		plan := sinceBase(t, source+test.before, source+test.after)
		known, total := 0, 0
		for _, f := range plan.Findings {
			total++
			if f.Known {
				known++
			}
		}
		if plan.Errors() != test.errors || known != test.known || total != test.total {
			t.Errorf("%s: errors %t, known %d of %d, want %t, %d of %d:\n%v", test.name, plan.Errors(), known, total, test.errors, test.known, test.total, plan.Findings)
		}
	}
}

func TestKnownFindingsAreShownApart(t *testing.T) {
	source := members + policy("") + configMap("c", "x") + fmt.Sprintf(web, 1)
	plan := sinceBase(t, source+"== a-old.yaml ==\n"+broken, source+"== a-old.yaml ==\n"+broken+"== b-new.yaml ==\n"+broken)
	got := said(plan)
	before, after, found := strings.Cut(got, "were there before:\n")
	if !found || !strings.Contains(before, "b-new.yaml") || strings.Contains(before, "a-old.yaml") || !strings.Contains(after, "a-old.yaml") || strings.Contains(after, "b-new.yaml") {
		t.Errorf("what is new does not come first:\n%s", got)
	}
	markdown := plan.Markdown()
	for _, want := range []string{"### godwit plan: 1 error, nothing changes\n", "<details><summary>Were there before (1)</summary>\n"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("%q is not in\n%s", want, markdown)
		}
	}
	watch, folded, _ := strings.Cut(markdown, "<details>")
	if !strings.Contains(watch, "b-new.yaml") || strings.Contains(watch, "a-old.yaml") || !strings.Contains(folded, "a-old.yaml") {
		t.Errorf("what was there before is not folded:\n%s", markdown)
	}
	raw, err := json.Marshal(plan)
	if err != nil || strings.Count(string(raw), `"known":true`) != 1 || !strings.Contains(string(raw), `"severity":"error"`) {
		t.Errorf("%v, %s", err, raw)
	}
	raw, err = json.Marshal(plan.SARIF("v1", ""))
	if err != nil || strings.Count(string(raw), `"baselineState":"unchanged"`) != 1 || strings.Count(string(raw), `"baselineState":"new"`) != 1 {
		t.Errorf("%v, %s", err, raw)
	}
	if raw, _ := json.Marshal(planOf(t, source, source+"== b.yaml ==\n"+broken, decide.Options{}).SARIF("v1", "")); strings.Contains(string(raw), "baselineState") {
		t.Errorf("nothing was compared: %s", raw)
	}
}

func TestWhatIsReleasedStays(t *testing.T) {
	keep := strings.Replace(policy(""), "spec: {", "spec: {preserveResourcesOnDeletion: true, ", 1)
	plan := sinceBase(t, members+keep+configMap("c", "x"), members+keep)
	got, markdown := said(plan), plan.Markdown()
	if !strings.Contains(got, "released ConfigMap default/c on m1, m2 (stays on the member)\n") || strings.Contains(got, "\n-") || strings.Contains(got, "removed ConfigMap") {
		t.Errorf("got\n%s", got)
	}
	if !strings.Contains(markdown, "- released <code>ConfigMap default/c</code> on m1, m2 (stays on the member)\n") || strings.Contains(markdown, "```diff") {
		t.Errorf("got\n%s", markdown)
	}
	raw, _ := json.Marshal(plan)
	if strings.Count(string(raw), `"change":"removed","stays":true`) != 2 {
		t.Errorf("got %s", raw)
	}
	if got := said(sinceBase(t, members+policy("")+configMap("c", "x"), members+policy(""))); !strings.Contains(got, "removed ConfigMap default/c on m1, m2\n") || !strings.Contains(got, "\n-kind: ConfigMap") {
		t.Errorf("what is deleted has no diff:\n%s", got)
	}
}

func TestAnotherClusterBehindANameIsAChange(t *testing.T) {
	source := members + policy("") + configMap("c", "x")
	for _, test := range []struct {
		name, before, after string
		want                bool
	}{
		{"context", "{name: m2}", "{name: m2, annotations: {godwit.dev/kubeconfig-context: other}}", true},
		{"a note", "{name: m2}", "{name: m2, annotations: {example.com/note: other}}", false},
	} {
		plan := sinceBase(t, source, strings.Replace(source, test.before, test.after, 1))
		if plan.Changes() != test.want || strings.Contains(said(plan), "member-changed") != test.want {
			t.Errorf("%s: changes %t\n%s", test.name, plan.Changes(), said(plan))
		}
		if test.want && !strings.Contains(plan.Markdown(), "### godwit plan: no workload changes, members do\n") {
			t.Errorf("got\n%s", plan.Markdown())
		}
	}
	third := "== third.yaml ==\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m3}\nspec: {syncMode: Push}\n"
	if !sinceBase(t, members, members+third).Changes() || !sinceBase(t, members+third, members).Changes() {
		t.Error("a member that comes or goes is no change")
	}
}
