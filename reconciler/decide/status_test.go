package decide_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// statusOf is the aggregated status of a binding: "m1 applied Healthy".
func (w *world) statusOf(binding string) []string {
	list := []string{}
	for _, i := range w.binding(binding).Status.AggregatedStatus {
		word := "applied"
		if !i.Applied {
			word = "pending"
		}
		line := fmt.Sprintf("%s %s %s", i.ClusterName, word, i.Health)
		if i.AppliedMessage != "" {
			line += " " + i.AppliedMessage
		}
		list = append(list, line)
	}
	return list
}

func (w *world) condition(binding, kind string) string {
	for _, c := range w.binding(binding).Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

var configMapC = api.ID{Kind: "ConfigMap", Namespace: "default", Name: "c"}

func TestStatusOfCopies(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(fleet(2) + file("c.yaml", configMap("c", "one"), policyFor("p", "ConfigMap", everywhere)))
	want(t, "on its way", w.statusOf(c), []string{"m1 pending Unknown", "m2 pending Unknown"})

	w.applied("m1")
	w.facts("m2", func(f *decide.MemberFacts) {
		f.Copies[configMapC] = decide.CopyFacts{Reason: decide.ReasonConflict, Message: "field x"}
	})
	d := w.pass()
	want(t, "one refused", w.statusOf(c), []string{"m1 applied Healthy", "m2 pending Unknown Conflict: field x"})
	want(t, "condition", w.condition(c, "FullyApplied"), "False FullyAppliedFailed")
	want(t, "reason", d.Commit.Reason, decide.Status)
	want(t, "status alone", d.Commit.StatusAlone, true)
	want(t, "works", len(d.Works), 0)

	w.applied("m2")
	w.pass()
	want(t, "condition", w.condition(c, "FullyApplied"), "True FullyAppliedSuccess")
	w.facts("m1", func(f *decide.MemberFacts) { f.Ready = metav1.ConditionUnknown; f.Copies = nil })
	w.pass()
	want(t, "silence is no news", w.statusOf(c), []string{"m1 applied Healthy", "m2 applied Healthy"})
	w.restart()
	w.quiet(w.pass())
}

func TestOutdatedCopyIsNotReported(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	w.look("m1")
	source := func(v string) string {
		return fleet(1) + file("c.yaml", configMap("c", v), policyFor("p", "ConfigMap", everywhere))
	}
	w.push(source("one"))
	w.applied("m1")
	w.pass()
	w.push(source("two")) // the member still holds the first version
	want(t, "what was seen stays until there is news", w.statusOf(c), []string{"m1 applied Healthy"})
}

// Status alone waits for the interval; decisions never do.
func TestStatusIsGathered(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	w.options.StatusInterval = time.Minute
	w.look("m1")
	source := func(v string) string {
		return fleet(1) + file("c.yaml", configMap("c", v), policyFor("p", "ConfigMap", everywhere))
	}
	w.push(source("one"))
	w.applied("m1")
	w.now = start.Add(time.Second)
	d := w.pass()
	w.quiet(d)
	want(t, "first status: two seconds after the decision", d.Wake, start.Add(2*time.Second))
	w.quiet(w.pass())
	w.now = start.Add(2 * time.Second)
	w.pass()
	want(t, "written", w.statusOf(c), []string{"m1 applied Healthy"})

	w.facts("m1", func(f *decide.MemberFacts) {
		f.Copies[configMapC] = decide.CopyFacts{Reason: decide.ReasonFailed, Message: "x"}
	})
	w.now = start.Add(30 * time.Second)
	d = w.pass()
	w.quiet(d)
	want(t, "next status: an interval after the last", d.Wake, start.Add(62*time.Second))
	d = w.pass()
	w.quiet(d)
	want(t, "asked again", d.Wake, start.Add(62*time.Second))
	w.push(source("two"))
	want(t, "a decision does not wait", w.text("m1/default/configmap_c") != "", true)
	w.now = start.Add(63 * time.Second)
	w.pass()
	want(t, "written", w.statusOf(c), []string{"m1 pending Unknown Failed: x"})
}
