package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/report"
)

func TestWhatIfCountsWhatIsLost(t *testing.T) {
	const reason = "m1: the member is unreachable; the policy does not ask to leave members that are down"
	loss := func(outcome string, missing int, names ...string) *report.Loss {
		l := &report.Loss{}
		for _, name := range names {
			l.Bindings = append(l.Bindings, report.LossBinding{Name: name, Resource: report.Resource{Kind: "Deployment", Name: name}, Outcome: outcome,
				Previous: []report.Target{{Name: "m1", Replicas: 4}}, Missing: missing, Message: reason})
		}
		return l
	}
	for _, test := range []struct {
		before, after *report.Loss
		changes       int
		worse         bool
		says          string
	}{
		{loss("stays", 2, "a"), loss("stays", 4, "a"), 1, true, "stays before with 2 replicas lost, stays now with 4 replicas lost"},
		{loss("partly", 1, "a"), loss("partly", 2, "a"), 1, true, "partly before with 1 replica lost, partly now with 2 replicas lost"},
		{loss("stays", 4, "a"), loss("stays", 2, "a"), 1, false, ""},
		{loss("stays", 4, "a"), loss("stays", 4, "a"), 0, false, ""},
		{loss("moves", 0, "a"), loss("partly", 2, "a"), 1, true, "moves before, partly now with 2 replicas lost"},
		{loss("moves", 0), loss("moves", 0, "a"), 1, false, ""},
		{loss("moves", 0), loss("stays", 4, "a"), 1, true, "elsewhere before, stays now with 4 replicas lost"},
	} {
		w := &report.WhatIf{}
		w.Compare("m1", test.before, test.after)
		changes := w.Clusters[0].Changes
		if len(changes) != test.changes || test.changes > 0 && changes[0].Worse != test.worse {
			t.Errorf("%s: got %+v", test.says, changes)
		}
		var out bytes.Buffer
		w.Text(&out, report.Style{})
		if !strings.Contains(out.String(), test.says) {
			t.Errorf("%q is not in\n%s", test.says, out.String())
		}
		if markdown := (&report.Plan{WhatIf: w}).Markdown(); !strings.Contains(markdown, test.says) {
			t.Errorf("%q is not in\n%s", test.says, markdown)
		}
	}

	// What has no replicas is counted by its copies.
	copies := func(missing int) *report.Loss {
		return &report.Loss{Bindings: []report.LossBinding{{Name: "a", Outcome: "partly", Missing: missing, Previous: []report.Target{{Name: "m1"}, {Name: "m2"}}}}}
	}
	w := &report.WhatIf{}
	w.Compare("m1", copies(1), copies(2))
	if markdown := (&report.Plan{WhatIf: w}).Markdown(); !strings.Contains(markdown, "partly before with 1 copy lost, partly now with 2 copies lost") {
		t.Errorf("got\n%s", markdown)
	}

	// A reason that many have is told once.
	w = &report.WhatIf{}
	w.Compare("m1", loss("stays", 2, "a", "b", "c"), loss("stays", 4, "a", "b", "c"))
	var out bytes.Buffer
	w.Text(&out, report.Style{})
	markdown := (&report.Plan{WhatIf: w}).Markdown()
	if strings.Count(out.String(), reason) != 1 || strings.Count(out.String(), "[1]") != 4 || strings.Count(markdown, "the policy does not ask") != 1 {
		t.Errorf("got\n%s\n%s", out.String(), markdown)
	}
}
