package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

func TestDeletedTemplateIsRetiredUntilTheMemberConfirms(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w.push(base + file("c.yaml", configMap("c", "one")))
	want(t, "works", w.works(), []string{"m1/default/configmap_c"})
	w.applied("m1")
	w.pass()
	d := w.push(base)
	want(t, "works", w.works(), []string{})
	want(t, "retired", w.retired(), []string{"m1/default/configmap_c"})
	want(t, "reason", w.state.Retired["retired/m1/default/configmap_c.yaml"].Reason, "TemplateDeleted")
	want(t, "change", d.Works, []decide.WorkRow{{Path: "works/m1/default/configmap_c.yaml", Cluster: "m1", ID: d.Works[0].ID, Change: decide.Removed}})
	w.restart()
	w.quiet(w.pass())
	w.gone("m1")
	d = w.pass()
	want(t, "confirmed", w.retired(), []string{})
	want(t, "subject", d.Commit.Subject, "purge(m1): 1 object gone")
	want(t, "reason", d.Commit.Reason, decide.PurgeDone)
}

func TestWhatIsWantedAgainIsNotRetired(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w.push(base + file("c.yaml", configMap("c", "one")))
	w.push(base)
	w.push(base + file("c.yaml", configMap("c", "one")))
	want(t, "works", w.works(), []string{"m1/default/configmap_c"})
	want(t, "retired", w.retired(), []string{})
}

// A member that confirmed an earlier deletion has not confirmed the next one.
func TestAnOldConfirmationDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w.push(base + file("c.yaml", configMap("c", "one")))
	w.push(base)
	w.gone("m1")
	w.pass()
	w.push(base + file("c.yaml", configMap("c", "one")))
	d := decideOnce(w, base)
	want(t, "retired", short(d.Next.Retired, "retired/"), []string{"m1/default/configmap_c"})
}

// decideOnce decides about a source without taking the result over.
func decideOnce(w *world, text string) *decide.Decision {
	w.Helper()
	source := w.source
	source.Revision, source.FS = "once", newTree(rendertest.Source(text))
	d, err := decide.Next(decide.Input{Source: source, Past: w.past, Previous: w.state, Seen: w.seen, Now: w.now, Options: w.options})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func TestPreservedObjectsAreGivenUp(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		w.push(fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere+", preserveResourcesOnDeletion: true")) + file("c.yaml", configMap("c", "one")))
		if restart {
			w.restart()
		}
		w.push(fleet(1)) // the policy goes with the template
		want(t, fmt.Sprintf("preserved, restarted %t", restart), w.state.Retired["retired/m1/default/configmap_c.yaml"].Preserve, true)
	}
}

func TestNamespacesFollowWorks(t *testing.T) {
	const team = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: team}\n"
	p := strings.Replace(policyFor("p", "ConfigMap", everywhere), "namespace: default", "namespace: team", 1)
	namespace := func(more string) string {
		return file("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team"+more+"}\n")
	}
	for _, test := range []struct {
		name, namespace string
		mode            decide.NamespaceMode
		works           []string
		text            string
	}{
		{"generated", "", "", []string{"m1/_cluster/namespace_team", "m1/team/configmap_c"}, ""},
		{"from its template", namespace(", labels: {a: b}"), "", []string{"m1/_cluster/namespace_team", "m1/team/configmap_c"}, "a: b"},
		{"kept back by its label", namespace(`, labels: {namespace.karmada.io/skip-auto-propagation: "true"}`), "", []string{"m1/team/configmap_c"}, ""},
		{"none", "", decide.NamespacesNone, []string{"m1/team/configmap_c"}, ""},
		{"all", strings.Replace(namespace(""), "name: team", "name: other", 1), decide.NamespacesAll, []string{"m1/_cluster/namespace_other", "m1/_cluster/namespace_team", "m1/team/configmap_c"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Namespaces = test.mode
			base := fleet(1) + test.namespace
			w.push(base + file("c.yaml", team, p))
			want(t, "works", w.works(), test.works)
			if test.text != "" && !strings.Contains(w.text("m1/_cluster/namespace_team"), test.text) {
				t.Errorf("the namespace is\n%s", w.text("m1/_cluster/namespace_team"))
			}
			w.restart()
			w.push(base)
			for path, r := range w.state.Retired {
				if namespaced := r.Object.Kind != "Namespace"; namespaced == r.Preserve {
					t.Errorf("%s: preserve is %t", path, r.Preserve)
				}
			}
		})
	}
}

func TestBrakeOnDeletions(t *testing.T) {
	maps := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(file(fmt.Sprintf("c%d.yaml", i), configMap(fmt.Sprintf("c%d", i), "x")) + "\n")
		}
		return b.String()
	}
	pvc := file("pvc.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: default}\n", policyFor("pvc", "PersistentVolumeClaim", everywhere))
	p := file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	for _, test := range []struct {
		name        string
		percent     int
		before      string
		after       string
		held, gone  int
		wantMessage string
	}{
		{"half goes", 50, maps(8), maps(4), 0, 4, ""},
		{"more than half", 50, maps(8), maps(3), 5, 0, "5 of 8 works of m1 would be deleted, more than 50 %"},
		{"three of four are few", 50, maps(4), maps(1), 0, 3, ""},
		{"four of five are not", 50, maps(5), maps(1), 4, 0, "4 of 5 works"},
		{"a lower limit", 20, maps(15), maps(11), 4, 0, "more than 20 %"},
		{"the last work", 50, maps(1), " ", 1, 0, "among the last works of m1 and runs nowhere else"},
		{"off", 100, maps(8), " ", 0, 8, ""},
		{"a guarded kind", 50, maps(8) + pvc, maps(8), 1, 0, "deleting a PersistentVolumeClaim deletes what is in it"},
		{"a guarded kind with the brake off", 100, maps(8) + pvc, maps(8), 0, 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.MaxDeletePercent = test.percent
			w.push(fleet(1) + p + test.before)
			d := w.push(fleet(1) + p + test.after)
			want(t, "held", len(d.Held), test.held)
			want(t, "retired", len(w.retired()), test.gone)
			for _, h := range d.Held {
				if !strings.Contains(h.Message, test.wantMessage) {
					t.Errorf("held: %s, want %s", h.Message, test.wantMessage)
				}
			}
			if test.held == 0 {
				return
			}
			want(t, "finding", codes(d)[0], "warning deletion-held Cluster m1")
			w.restart()
			d = w.pass()
			want(t, "held after a restart", len(d.Held), test.held)
			d = w.approve()
			want(t, "held when approved", len(d.Held), 0)
			want(t, "retired when approved", len(w.retired()), test.held)
			if !strings.Contains(d.Commit.Body, "approves its deletions") {
				t.Errorf("the commit says\n%s", d.Commit.Body)
			}
		})
	}
}

// What comes along does not make the deletions fewer, now or at the next look.
func TestBrakeCountsNamesNotNumbers(t *testing.T) {
	maps := func(prefix string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(file(fmt.Sprintf("c%d.yaml", i), configMap(fmt.Sprintf("%s%d", prefix, i), "x")) + "\n")
		}
		return b.String()
	}
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	w.push(base + maps("old", 8))
	want(t, "held", len(w.push(base+maps("new", 8)).Held), 8)
	w.restart()
	want(t, "held at the next look", len(w.pass().Held), 8)
	want(t, "works", len(w.works()), 16)
	want(t, "held when one more comes", len(w.push(base+maps("new", 9)).Held), 8)
	w.push(base + maps("old", 8))
	want(t, "braked when the old names are back", len(w.state.Meta.Braked), 1)
	w.approve()
	want(t, "braked when approved", len(w.state.Meta.Braked), 0)
}

// approveDeletions is a person's commit to the state branch, as "godwit approve" makes it.
func (w *world) approveDeletions(member string, works ...string) *decide.Decision {
	w.Helper()
	for i, name := range works {
		works[i] = "works/" + member + "/default/" + name + ".yaml"
	}
	slices.Sort(works)
	meta := w.state.Meta
	meta.Approvals = append(slices.Clone(meta.Approvals), record.Approval{Cluster: member, Works: works,
		Time: metav1.NewTime(w.now), By: "Ada <ada@example.com>"})
	text, err := record.EncodeMeta(meta)
	if err != nil {
		w.Fatal(err)
	}
	w.apply([]record.File{{Path: record.MetaPath, Data: text}})
	w.restart()
	return w.pass()
}

func TestAnApprovalOnRecordLetsGoWhatItNames(t *testing.T) {
	maps := func(names string) string {
		var b strings.Builder
		for _, n := range strings.Fields(names) {
			b.WriteString(file(n+".yaml", configMap(n, "x")) + "\n")
		}
		return b.String()
	}
	base := fleet(2) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	w.push(base + maps("a b c d e f g h"))
	want(t, "held", len(w.push(base+maps("g h")).Held), 12)

	d := w.approveDeletions("m1", "configmap_a", "configmap_b", "configmap_c")
	want(t, "held when three are approved", len(d.Held), 9)
	want(t, "retired", w.retired(), []string{"m1/default/configmap_a", "m1/default/configmap_b", "m1/default/configmap_c"})
	want(t, "subject", d.Commit.Subject, "delete(m1): 3 objects, approved by Ada <ada@example.com>")
	want(t, "approvals left", len(w.state.Meta.Approvals), 0)
	// The other three are few by themselves, and part of many: they wait on.
	w.restart()
	want(t, "held at the next look", len(w.pass().Held), 9)
	want(t, "held when one more goes", len(w.push(base+maps("h")).Held), 11)
	d = w.approveDeletions("m1", "configmap_d", "configmap_e", "configmap_f")
	want(t, "what came after the listing", d.Held[0].Path, "works/m1/default/configmap_g.yaml")
	want(t, "held on m1", d.Held[1].Cluster, "m2")

	// What is wanted again needs an approval again when it goes.
	w.push(base + maps("a b c d e f g h"))
	want(t, "held when all is back", len(w.approveDeletions("m2", "configmap_a").Held), 0)
	want(t, "approvals of what nobody deletes", len(w.state.Meta.Approvals), 0)
	want(t, "held when all go", len(w.push(base).Held), 16)
}

// The last work of a member may go if the template runs elsewhere: that is a move.
func TestBrakeLetsMovesPass(t *testing.T) {
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	w.push(fleet(2) + file("c.yaml", configMap("c", "one"), policyFor("p", "ConfigMap", only("m1"))))
	d := w.push(fleet(2) + file("c.yaml", configMap("c", "one"), policyFor("p", "ConfigMap", only("m2"))))
	want(t, "held", len(d.Held), 0)
	want(t, "retired", w.retired(), []string{"m1/default/configmap_c"})
	want(t, "reason", w.state.Retired["retired/m1/default/configmap_c.yaml"].Reason, "Unscheduled")
}

func TestMemberThatLeaves(t *testing.T) {
	source := func(members int) string {
		return fleet(members) + file("c.yaml", configMap("c", "one"), policyFor("p", "ConfigMap", everywhere))
	}
	t.Run("reachable", func(t *testing.T) {
		w := newWorld(t)
		w.look("m1", "m2")
		w.push(source(2))
		d := w.push(source(1))
		want(t, "subject", d.Commit.Subject, "schedule(default/c-configmap): m1")
		want(t, "retired", w.retired(), []string{"m2/default/configmap_c"})
		want(t, "reason", w.state.Retired["retired/m2/default/configmap_c.yaml"].Reason, "MemberRemoved")
		want(t, "leaving", w.state.Members["m2"].DeletionTimestamp != nil, true)
		w.restart()
		w.quiet(w.pass())
		w.gone("m2")
		w.pass()
		want(t, "left", w.state.Members["m2"] == nil, true)
	})
	t.Run("unreachable", func(t *testing.T) {
		w := newWorld(t)
		w.look("m1", "m2")
		w.push(source(2))
		w.facts("m2", func(f *decide.MemberFacts) { f.Ready = metav1.ConditionUnknown })
		w.pass()
		w.push(source(1))
		want(t, "retired", w.retired(), []string{})
		want(t, "left", w.state.Members["m2"] == nil, true)
	})
	t.Run("comes back", func(t *testing.T) {
		w := newWorld(t)
		w.look("m1", "m2")
		w.push(source(2))
		w.push(source(1))
		w.push(source(2))
		want(t, "works", w.works(), []string{"m1/default/configmap_c", "m2/default/configmap_c"})
		want(t, "leaving", w.state.Members["m2"].DeletionTimestamp != nil, false)
	})
}

// What goes in the pass that holds the last works of a member, as it runs elsewhere, lets them go in no later one.
func TestLastWorksStayHeldWhenTheOthersAreGone(t *testing.T) {
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	source := func(others string) string {
		return fleet(2) + file("c.yaml", configMap("b", "x"), configMap("c", "x"), policyFor("b", "ConfigMap b", only(others)), policyFor("c", "ConfigMap c", only(others)), policyFor("a", "ConfigMap a", only("m2")))
	}
	w.push(source("m1, m2") + file("a.yaml", configMap("a", "x")))
	for pass, d := range []*decide.Decision{w.push(source("m1")), w.pass(), w.pass()} {
		if len(d.Held) != 1 || d.Held[0].Path != "works/m2/default/configmap_a.yaml" {
			t.Errorf("pass %d holds %v, want the last work of m2", pass, d.Held)
		}
	}
	want(t, "works", w.works(), []string{"m1/default/configmap_b", "m1/default/configmap_c", "m2/default/configmap_a"})
}
