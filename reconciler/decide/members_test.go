package decide_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestReadinessBecomesTaintsWithTheirTimes(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere))
	w.look("m1", "m2")
	w.push(base)
	want(t, "ready", taintKeys(w.state.Members["m2"]), []string{})

	turn := func(status metav1.ConditionStatus, at time.Duration) *decide.Decision {
		w.now = start.Add(at + 5*time.Second)
		w.facts("m2", func(f *decide.MemberFacts) { f.Ready, f.Reason, f.Since = status, "X", start.Add(at) })
		return w.pass()
	}
	d := turn(metav1.ConditionFalse, time.Minute)
	want(t, "not ready", taintKeys(w.state.Members["m2"]), []string{
		"cluster.karmada.io/not-ready:NoSchedule 12:01:00", "cluster.karmada.io/not-ready:NoExecute 12:01:00"})
	want(t, "subject", d.Commit.Subject, "cluster(m2): NotReady")
	want(t, "reason", d.Commit.Reason, decide.ClusterFailure)
	want(t, "what runs there stays", w.placed("default/web-deployment"), "m1=2 m2=2")
	w.restart()
	w.now = w.now.Add(time.Hour)
	w.quiet(w.pass())
	turn(metav1.ConditionUnknown, 2*time.Minute)
	want(t, "unreachable", taintKeys(w.state.Members["m2"]), []string{
		"cluster.karmada.io/unreachable:NoSchedule 12:02:00", "cluster.karmada.io/unreachable:NoExecute 12:02:00"})
	d = turn(metav1.ConditionTrue, 3*time.Minute)
	want(t, "ready again", taintKeys(w.state.Members["m2"]), []string{})
	want(t, "reason", d.Commit.Reason, decide.Status)
}

func TestCompatTaintsAreNoScheduleAlone(t *testing.T) {
	w := newWorld(t)
	w.options.CompatKarmada = true
	w.look("m1")
	w.facts("m1", func(f *decide.MemberFacts) { f.Ready = metav1.ConditionFalse })
	w.push(fleet(1))
	want(t, "taints", taintKeys(w.state.Members["m1"]), []string{"cluster.karmada.io/not-ready:NoSchedule 12:00:00"})
}

func TestManualTaintsKeepTheirTime(t *testing.T) {
	w := newWorld(t)
	tainted := strings.Replace(fleet(1), "spec: {", "spec: {taints: [{key: a, effect: NoExecute}, {key: b, effect: NoSchedule}], ", 1)
	w.push(tainted)
	want(t, "taints", taintKeys(w.state.Members["m1"]), []string{"a:NoExecute 12:00:00", "b:NoSchedule -"})
	w.now = start.Add(time.Hour)
	w.restart()
	w.quiet(w.pass())
	w.push(fleet(1))
	want(t, "taints taken off", taintKeys(w.state.Members["m1"]), []string{})
}

func TestForeignMemberIsFoundOut(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	w.push(fleet(1))
	want(t, "recorded", w.state.Members["m1"].Spec.ID, "uid-m1")
	w.facts("m1", func(f *decide.MemberFacts) { f.UID = "another" })
	d := w.pass()
	want(t, "findings", codes(d), []string{"error foreign-member clusters.yaml"})
	want(t, "recorded", w.state.Members["m1"].Spec.ID, "uid-m1")
	d = w.push(strings.Replace(fleet(1), "spec: {", "spec: {id: another, ", 1))
	want(t, "adopted", codes(d), []string{})
	want(t, "recorded", w.state.Members["m1"].Spec.ID, "another")
}

// Offline, a manifest's own status tells what the member serves.
func TestStatusOfAManifestCountsUntilTheMemberIsSeen(t *testing.T) {
	status := "status: {conditions: [{type: Ready, status: \"False\", reason: Down, lastTransitionTime: \"2026-01-01T11:00:00Z\", message: \"\"}]}\n"
	w := newWorld(t)
	w.push(fleet(1) + status)
	want(t, "taints", taintKeys(w.state.Members["m1"]), []string{"cluster.karmada.io/not-ready:NoSchedule 11:00:00", "cluster.karmada.io/not-ready:NoExecute 11:00:00"})
	w.look("m1")
	w.pass()
	want(t, "seen", taintKeys(w.state.Members["m1"]), []string{})
}

// A custom resource that comes with its definition is placed at once, not with the pass after.
func TestCustomResourceComesWithItsDefinition(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec: {group: example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}\n"
	const widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n"
	policy := `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: all}
spec: {resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}, {apiVersion: example.com/v1, kind: Widget}], placement: {}}
`
	w := newWorld(t)
	w.look("m1")
	w.facts("m1", func(f *decide.MemberFacts) {
		f.APIs = append(f.APIs, apis("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
	})
	w.push(fleet(1) + file("w.yaml", crd, widget, policy))
	want(t, "placed", w.placed("default/w-widget"), "m1")
}

// A member that was met is what the record says, also to who decides without looking: the status in a manifest is
// of some other day.
func TestTheRecordOfAMemberThatWasMetGoesBeforeItsManifest(t *testing.T) {
	w := newWorld(t)
	said := fleet(1) + "status: {kubernetesVersion: v1.0.0}\n"
	version := func(d *decide.Decision) string { return d.Next.Members["m1"].Status.KubernetesVersion }
	want(t, "never met", version(decideOnce(w, said)), "v1.0.0")
	w.look("m1")
	w.facts("m1", func(f *decide.MemberFacts) { f.UID, f.Version = "uid", "v1.36.1" })
	w.push(said)
	w.seen = decide.Observations{}
	want(t, "met", version(decideOnce(w, strings.Replace(said, "v1.0.0", "v1.2.3", 1))), "v1.36.1")
}
