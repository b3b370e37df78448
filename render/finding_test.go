package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAFindingSaysOnlyWhatItKnows(t *testing.T) {
	for _, tt := range []struct {
		finding Finding
		want    string
	}{
		{Finding{Error, "a", "f.yaml", 3, "Pod x", "m"}, "f.yaml:3: error: a: Pod x: m"},
		{Finding{Warning, "a", "f.yaml", 0, "", "m"}, "f.yaml: warning: a: m"},
		{Finding{Info, "a", "", 0, "Cluster m1", "m"}, "info: a: Cluster m1: m"},
	} {
		if got := tt.finding.String(); got != tt.want {
			t.Errorf("String() = %q, want %q", got, tt.want)
		}
	}
}

func TestFindingsOfOneCodeAndFileAreLimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type group struct{ file, code string }
		var all []Finding
		want := map[group]int{}
		for _, file := range []string{"", "a.yaml", "b.yaml"} {
			for _, code := range []string{"one", "two"} {
				n := rapid.SampledFrom([]int{0, 1, MostFindings - 1, MostFindings, MostFindings + 1, 3 * MostFindings}).Draw(t, "n")
				for i := range n {
					all = append(all, Finding{Severity: rapid.SampledFrom([]Severity{Error, Warning, Info}).Draw(t, "severity"), File: file, Code: code, Line: i + 1, Message: "m"})
				}
				want[group{file, code}] = n
			}
		}
		slices.SortFunc(all, Finding.Compare)
		limited := Limit(all)
		got, more := map[group]int{}, map[group]Finding{}
		for _, f := range limited {
			if f.Code == "more-findings" {
				code := strings.Fields(f.Message)[4]
				more[group{f.File, code}] = f
				continue
			}
			got[group{f.File, f.Code}]++
		}
		for g, n := range want {
			most := MostFindings
			if g.file == "" {
				most = n
			}
			f, counted := more[g]
			switch {
			case got[g] != min(n, most), counted != (n > most):
				t.Fatalf("%v: %d of %d are listed, counted: %t", g, got[g], n, counted)
			case counted && f.Message != fmt.Sprintf("%d more of code %s are in this file and not listed", n-most, g.code):
				t.Fatalf("%v: %d findings, and it says %q", g, n, f.Message)
			}
		}
		worst := func(list []Finding) (w Severity) {
			for _, f := range list {
				w = Worse(w, f.Severity)
			}
			return w
		}
		if worst(all) != worst(limited) || !slices.IsSortedFunc(limited, Finding.Compare) {
			t.Fatalf("worst %q, listed %q, sorted %t", worst(all), worst(limited), slices.IsSortedFunc(limited, Finding.Compare))
		}
		if again := Limit(limited); !slices.Equal(again, limited) {
			t.Fatal("to limit twice is something else")
		}
	})
}
