package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestFilesThatComeOrGoAreDiffedLikeOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, line := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "a: b", "- c"}), 1, 10).Draw(t, "lines") {
			text += line + "\n"
		}
		for _, sides := range [][2]string{{"", text}, {text, ""}} {
			want, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(sides[0]), B: lines(sides[1]), Context: 3})
			if err != nil {
				t.Fatal(err)
			}
			if got := hunks(sides[0], sides[1]); got != want {
				t.Fatalf("%q to %q: got\n%s\nwant\n%s", sides[0], sides[1], got, want)
			}
		}
	})
}

func TestTheSameDiffIsShownOnceWithItsMembers(t *testing.T) {
	plan := &Plan{}
	for i := range 30 {
		plan.Works = append(plan.Works, Work{Cluster: fmt.Sprintf("m%02d", i), Resource: Resource{Kind: "ConfigMap", Name: "c"}, Change: decide.Added, Hunks: "@@ -0,0 +1 @@\n+a\n", path: fmt.Sprintf("works/m%02d/c.yaml", i)})
	}
	plan.Works[4].Hunks = "@@ -0,0 +1 @@\n+b\n"
	plan.Works[5].Change = decide.Unchanged
	var got strings.Builder
	plan.Text(&got, Style{}, false)
	want := `added ConfigMap c on m00, m01, m02, m03, m06, m07, m08, m09, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20, m21 and 8 more
--- /dev/null
+++ b/works/m00/c.yaml
@@ -0,0 +1 @@
+a

added ConfigMap c on m04
--- /dev/null
+++ b/works/m04/c.yaml
@@ -0,0 +1 @@
+b

bindings: none; works: none; replicas moved: 0; unbound: 0; findings: 0
`
	if got.String() != want {
		t.Errorf("got %s\nwant %s", got.String(), want)
	}
}

func TestLongDiffEndsWithANumber(t *testing.T) {
	text := func(n int) string {
		var got strings.Builder
		plan := &Plan{Works: []Work{{Cluster: "m", Resource: Resource{Kind: "ConfigMap", Name: "c"}, Change: decide.Added, Hunks: strings.Repeat("+a\n", n)}}}
		plan.Text(&got, Style{}, false)
		return got.String()
	}
	const head = 2 // lines that name the file
	if got := text(shownLines - head); strings.Contains(got, "more lines") || strings.Count(got, "\n+a") != shownLines-head {
		t.Errorf("%d lines: %d are shown", shownLines-head, strings.Count(got, "\n+a"))
	}
	if got := text(shownLines); !strings.Contains(got, "\n... and 2 more lines; -o json has them all\n") || strings.Count(got, "\n+a") != shownLines-head {
		t.Errorf("%d lines: %d are shown", shownLines, strings.Count(got, "\n+a"))
	}
}
