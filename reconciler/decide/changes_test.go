package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestWordsOfACommit(t *testing.T) {
	base := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere))
	divide := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", divided))
	for _, test := range []struct {
		name, before, after string
		subject             string
		reason              decide.Reason
	}{
		{"template and policy at once", fleet(2), base, "schedule(default/web-deployment): m1=2 m2=2", decide.PolicyChange},
		{"a template under a standing policy", base, base + file("a.yaml", deployment("api", 1)), "schedule(default/api-deployment): m1=1 m2=1", decide.TemplateChange},
		{"the policy moves it", base, fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", only("m2"))), "schedule(default/web-deployment): m2=2", decide.PolicyChange},
		{"the template scales", base, fleet(2) + file("web.yaml", deployment("web", 3), policyFor("p", "Deployment", everywhere)), "schedule(default/web-deployment): m1=3 m2=3", decide.TemplateChange},
		{"the policy divides", base, divide, "schedule(default/web-deployment): m1=1 m2=1", decide.PolicyChange},
		{"the template changes", base, strings.Replace(base, "nginx:1", "nginx:2", 1), "update(default/web-deployment): m1 m2", decide.TemplateChange},
		{"the policy's terms change", base, strings.Replace(base, "placement: {}", "placement: {}, conflictResolution: Overwrite", 1), "terms(default/web-deployment): what the policy says of it", decide.PolicyChange},
		{"the template goes", base, fleet(2) + file("web.yaml", policyFor("p", "Deployment", everywhere)), "remove(default/web-deployment): the template is gone", decide.TemplateChange},
		{"a member joins", base, fleet(3) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere)), "schedule(default/web-deployment): m1=2 m2=2 m3=2", decide.Operator},
		{"a member's labels change", base, strings.Replace(base, `n: "1"`, `n: "one"`, 1), "cluster(m1): registration changed", decide.Operator},
		{"nowhere to go", fleet(2), fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", only("elsewhere"))), "schedule(default/web-deployment): NoClusterFit", decide.PolicyChange},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Version = "v9"
			w.push(test.before)
			d := w.push(test.after)
			if d.Commit == nil {
				t.Fatal("nothing was decided")
			}
			want(t, "subject", d.Commit.Subject, test.subject)
			want(t, "reason", d.Commit.Reason, test.reason)
			want(t, "source, version and time", []any{d.Commit.Source, d.Commit.Version, d.Commit.Time}, []any{"c2", "v9", start})
			want(t, "status alone", d.Commit.StatusAlone, false)
			if !strings.Contains(d.Commit.Body, "- ") {
				t.Errorf("the body is %q", d.Commit.Body)
			}
		})
	}
}

func TestManyChangesAreCounted(t *testing.T) {
	var many strings.Builder
	for i := range 60 {
		many.WriteString(file(fmt.Sprintf("c%02d.yaml", i), configMap(fmt.Sprintf("c%02d", i), "x")) + "\n")
	}
	w := newWorld(t)
	w.push(fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere)))
	d := w.push(fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + many.String())
	want(t, "subject", d.Commit.Subject, "schedule: 60 bindings")
	if !strings.HasSuffix(d.Commit.Body, "and 10 more\n") {
		t.Errorf("the body is\n%s", d.Commit.Body)
	}
}

func TestUnchangedSourceAtANewCommitIsNoCommit(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere))
	w.push(base)
	for range 100 {
		w.quiet(w.push(base + "# a comment changes no object\n"))
	}
}

// Who reads the record later is told what who decided was told.
func TestEventsAreReadBackFromACommit(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(2) + file("p.yaml", policyFor("p", "Deployment", everywhere)))
	d := w.push(fleet(3) + file("p.yaml", policyFor("p", "Deployment", everywhere)) + file("a.yaml", deployment("web", 2)) + file("b.yaml", deployment("api", 2)))
	var bare []decide.Event
	for _, e := range d.Commit.Events {
		bare = append(bare, decide.Event{Verb: e.Verb, Object: e.Object, What: e.What, Why: e.Why, From: e.From})
	}
	want(t, "events", decide.EventsOf(d.Commit.Body), bare)
	want(t, "a failover", decide.EventsOf("a person's words\n- failover default/a:b: m1, m2 -> m3\n  m1: down: really\nand 3 more\n- fly default/web: away\n- update default/web\n"),
		[]decide.Event{{Verb: "failover", Object: "default/a:b", What: "m1, m2 -> m3", Why: "m1: down: really", From: "m1, m2"}})
}

func FuzzEventsOf(f *testing.F) {
	f.Add("- failover default/web: m1 -> m2\n  m1: down\nand 3 more\n")
	f.Add("  why\n- \n-  : \n")
	f.Fuzz(func(t *testing.T, body string) {
		var again strings.Builder
		events := decide.EventsOf(body)
		for _, e := range events {
			fmt.Fprintf(&again, "- %s %s: %s\n", e.Verb, e.Object, e.What)
			if e.Why != "" {
				fmt.Fprintf(&again, "  %s\n", e.Why)
			}
		}
		if got := decide.EventsOf(again.String()); len(got) != len(events) {
			t.Fatalf("%d events, read again %d", len(events), len(got))
		}
	})
}
