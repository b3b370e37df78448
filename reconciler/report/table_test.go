package report

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/render"
)

func tableText(t testing.TB, s Style, indent int, rows [][]string) string {
	t.Helper()
	var b strings.Builder
	if err := table(&b, s, indent, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	rows := [][]string{
		{"BINDING", "CHANGE", "AFTER", "MESSAGE"},
		{"default/web-deployment", "added", "kube02=3 kube03=1", ""},
		{"shop/cart-deployment", "moved", "kube03=4", "kube02 is avoided, as the workload was not healthy there for five minutes"},
	}
	for _, test := range []struct {
		name string
		s    Style
		rows [][]string
		want string
	}{
		{"for programs each row is a line", Style{}, rows, `
BINDING                  CHANGE   AFTER               MESSAGE
default/web-deployment   added    kube02=3 kube03=1
shop/cart-deployment     moved    kube03=4            kube02 is avoided, as the workload was not healthy there for five minutes
`},
		{"a long text goes on in its column", Style{Width: 90}, rows, `
BINDING                 CHANGE  AFTER              MESSAGE
default/web-deployment  added   kube02=3 kube03=1
shop/cart-deployment    moved   kube03=4           kube02 is avoided, as the workload was
                                                   not healthy there for five minutes
`},
		{"more columns do", Style{Width: 72}, rows, `
BINDING                 CHANGE  AFTER     MESSAGE
default/web-deployment  added   kube02=3
                                kube03=1
shop/cart-deployment    moved   kube03=4  kube02 is avoided, as the
                                          workload was not healthy there
                                          for five minutes
`},
		{"names are parted where they are joined", Style{Width: 55}, rows, `
BINDING          CHANGE  AFTER     MESSAGE
default/         added   kube02=3
web-deployment           kube03=1
shop/            moved   kube03=4  kube02 is avoided,
cart-deployment                    as the workload was
                                   not healthy there
                                   for five minutes
`},
		{"too narrow for anything", Style{Width: 20}, rows, `
BINDING                  CHANGE   AFTER               MESSAGE
default/web-deployment   added    kube02=3 kube03=1
shop/cart-deployment     moved    kube03=4            kube02 is avoided, as the workload was not healthy there for five minutes
`},
		{"wide characters take two columns, accents none", Style{}, [][]string{{"NAME", "AGE"}, {"東京", "1d"}, {"e\u0301te\u0301", "2d"}, {"🚀", "3d"}, {"abcd", "4d"}},
			"\nNAME   AGE\n東京   1d\ne\u0301te\u0301    2d\n🚀     3d\nabcd   4d\n"},
		{"nothing of a cell makes a line or a column", Style{}, [][]string{{"A", "B"}, {"a\nb\tc", "\x1b[31mred"}},
			"\nA       B\na b c   \ufffd[31mred\n"},
		{"rows may be shorter", Style{Width: 10}, [][]string{{"A", "B"}, {"a"}, {"b", "some more words"}}, `
A   B
a
b   some
    more
    words
`},
	} {
		if diff := cmp.Diff(test.want, "\n"+tableText(t, test.s, 0, test.rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWordsArePartedAsGentlyAsGoes(t *testing.T) {
	for _, test := range []struct {
		room       int
		word, want string
	}{
		{20, "shop/web-deployment", "shop/web-deployment"},
		{15, "shop/web-deployment", "shop/ web-deployment"},
		{10, "shop/web-deployment", "shop/ web- deployment"},
		{5, "shop/web-deployment", "shop/ web- d e p l o y m e n t"},
		{12, "2026-01-31T12:30:00Z", "2026-01-31T 12:30:00Z"},
		{9, "PolicyChange", "Policy Change"},
		{12, "demoapp:v1.25", "demoapp: v1.25"},
		{4, "日本語", "日 本 語"},
		{1, "e\u0301e\u0301", "e\u0301 e\u0301"},
	} {
		if got := strings.Join(pieces(test.word, test.room, nowhere, anywhere), " "); got != test.want {
			t.Errorf("%s in %d columns: %s, want %s", test.word, test.room, got, test.want)
		}
	}
}

func TestColoursSayWhatWordsSay(t *testing.T) {
	rows := [][]string{{"NAME", "CHANGE", "HEALTH"}, {"added", "added", "Unhealthy"}, {"b", "unchanged", "Healthy"}}
	want := "NAME    CHANGE      HEALTH\nadded   \x1b[32madded\x1b[0m       \x1b[31mUnhealthy\x1b[0m\nb       unchanged   \x1b[32mHealthy\x1b[0m\n"
	if got := tableText(t, Style{Colour: true}, 0, rows); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

var colourCode = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestNothingOfATableIsLostAtAnyWidth(t *testing.T) {
	word := rapid.OneOf(
		rapid.StringMatching(`[a-z]{1,12}`),
		rapid.StringMatching(`[a-z]{1,9}[/=.-][a-z]{1,20}`),
		rapid.StringMatching(`[a-z]{25,60}`),
		rapid.SampledFrom([]string{"日本語", "🚀🚀", "e\u0301e\u0301e\u0301", "added", "removed", "Healthy", "\x1b[2J", "a\u202eb"}),
	)
	cell := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 0, 12).Draw(t, "words"), rapid.SampledFrom([]string{" ", "  ", "\n"}).Draw(t, "blank"))
	})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		heads := []string{"CHANGE", "HEALTH", "OUTCOME", "IN PART", "WHY", "MESSAGE"}
		rows := [][]string{heads[:n]}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			rows = append(rows, rapid.SliceOfN(cell, n, n).Draw(t, "row"))
		}
		width, indent := rapid.IntRange(0, 160).Draw(t, "width"), rapid.SampledFrom([]int{0, 2}).Draw(t, "indent")
		draw := func(s Style) string {
			var b strings.Builder
			if err := table(&b, s, indent, rows); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		text, coloured := draw(Style{Width: width}), draw(Style{Width: width, Colour: true})
		if strings.Contains(text, "\x1b") {
			t.Fatalf("plain text has colours: %q", text)
		}
		if got := colourCode.ReplaceAllString(coloured, ""); got != text {
			t.Fatalf("colours change the text:\n%s\n%s", text, got)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for _, line := range lines {
			if strings.TrimRight(line, " ") != line {
				t.Fatalf("trailing blanks: %q", line)
			}
		}
		least := indent + narrowGap*(n-1) + n*wholeWord // every column may become so narrow
		switch {
		case width == 0 && len(lines) != len(rows):
			t.Fatalf("%d rows on %d lines", len(rows), len(lines))
		case width >= least:
			for _, line := range lines {
				if columnsOf(line) > width {
					t.Fatalf("a line is %d wide, of %d:\n%s", columnsOf(line), width, text)
				}
			}
		}
		// Every column has all of its cells, from top to bottom, but for blanks.
		starts := startsOf(t, lines[0], rows[0])
		for j := range n {
			var want, got strings.Builder
			for _, row := range rows {
				want.WriteString(strings.ReplaceAll(flat(row[j]), " ", ""))
			}
			for _, line := range lines {
				end := 1 << 30
				if j+1 < n {
					end = starts[j+1]
				}
				got.WriteString(strings.ReplaceAll(between(line, starts[j], end), " ", ""))
			}
			if got.String() != want.String() {
				t.Fatalf("column %d is %q, want %q, in\n%s", j, got.String(), want.String(), text)
			}
		}
	})
}

// startsOf finds where columns begin: where the first words of the heads do, which may be parted.
func startsOf(t *rapid.T, line string, heads []string) []int {
	starts, from := make([]int, len(heads)), 0
	for j, head := range heads {
		part := strings.Fields(head)[0]
		for !strings.Contains(line[from:], part) {
			part = part[:len(part)-1]
		}
		starts[j] = from + strings.Index(line[from:], part)
		from = starts[j] + len(part)
	}
	return starts
}

// between cuts columns of a terminal out of a line.
func between(line string, start, end int) string {
	at := 0
	return strings.Map(func(r rune) rune {
		n := runeColumns(r)
		at += n
		if n == 0 && at > start && at <= end || n > 0 && at-n >= start && at <= end {
			return r
		}
		return -1
	}, line)
}

func TestProseGoesOnBelowItself(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, "  the template/of/this/one is what it was\n"},
		{24, "  the\n      template/of/this/one\n      is what it was\n"},
		{32, "  the template/of/this/one\n      is what it was\n"},
	} {
		var b strings.Builder
		if err := prose(&b, Style{Width: test.width}, "  ", "    ", "", "the template/of/this/one is what it was"); err != nil {
			t.Fatal(err)
		}
		if b.String() != test.want {
			t.Errorf("%d wide:\n%s\nwant\n%s", test.width, b.String(), test.want)
		}
	}
}

func TestAReasonThatRowsShareIsToldOnce(t *testing.T) {
	long := "m1: the member is unreachable; the policy does not ask to leave members that are down"
	l := &Loss{Clusters: []string{"m1"}, Summary: LossSummary{Stays: 3, Moves: 1}}
	for _, b := range [][2]string{{"a", long}, {"b", "short"}, {"c", long}, {"d", "short"}, {"e", long + " at all"}} {
		l.Bindings = append(l.Bindings, LossBinding{Resource: Resource{Kind: "Service", Name: b[0]}, Outcome: "stays", Message: b[1]})
	}
	var got strings.Builder
	if err := l.Text(&got, Style{}); err != nil {
		t.Fatal(err)
	}
	want := `
OBJECT      OUTCOME   AT   BEFORE   AFTER     WHY
Service a   stays     -    -        nowhere   [1]
Service b   stays     -    -        nowhere   short
Service c   stays     -    -        nowhere   [1]
Service d   stays     -    -        nowhere   short
Service e   stays     -    -        nowhere   m1: the member is unreachable; the policy does not ask to leave members that are down at all

[1] m1: the member is unreachable; the policy does not ask to leave members that are down

If m1 died now: 1 of 4 objects there would move, 0 in part, 3 would stay.
`
	if diff := cmp.Diff(want, "\n"+got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindingsGoOnBelowThemselves(t *testing.T) {
	f := []render.Finding{{Severity: render.Warning, Code: "c", File: "policies/web.yaml", Line: 7, Message: "this warning: says more"}}
	for _, test := range []struct {
		s    Style
		want string
	}{
		{Style{}, "policies/web.yaml:7: warning: c: this warning: says more\n"},
		{Style{Width: 34, Colour: true}, "policies/web.yaml:7: \x1b[33mwarning:\x1b[0m c:\n  this warning: says more\n"},
		{Style{Width: 24, Colour: true}, "policies/web.yaml:7:\n  \x1b[33mwarning:\x1b[0m c: this\n  warning: says more\n"},
	} {
		var got strings.Builder
		if Findings(&got, test.s, f); got.String() != test.want {
			t.Errorf("%+v: %q, want %q", test.s, got.String(), test.want)
		}
	}
}
