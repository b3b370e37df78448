package decide_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// about are the findings of a code.
func about(d *decide.Decision, code string) []string {
	list := []string{}
	for _, f := range d.Findings {
		if f.Code == code {
			list = append(list, f.String())
		}
	}
	return list
}

func TestMembersWithoutReplicasStayWarnedOf(t *testing.T) {
	finding := func(members string) []string {
		return []string{"web.yaml:1: warning: zero-replicas: Deployment default/web: " + members}
	}
	for _, tt := range []struct {
		members int
		want    []string
	}{
		{1, nil},
		{2, finding("member m2 is selected and gets 0 of 1 replicas, so it gets no copy")},
		{3, finding("members m2 and m3 are selected and get 0 of 1 replicas, so they get no copy")},
		{6, finding("members m2, m3, m4, m5 and m6 are selected and get 0 of 1 replicas, so they get no copy")},
		{8, finding("members m2, m3, m4, m5, m6 and 2 more are selected and get 0 of 1 replicas, so they get no copy")},
	} {
		t.Run(fmt.Sprint(tt.members), func(t *testing.T) {
			source := func(replicas int) string {
				return fleet(tt.members) + file("web.yaml", deployment("web", replicas), policyFor("a", "Deployment", divided))
			}
			w := newWorld(t)
			if tt.want == nil {
				tt.want = []string{}
			}
			want(t, "in the pass that divides", about(w.push(source(1)), "zero-replicas"), tt.want)
			want(t, "in the next one", about(w.pass(), "zero-replicas"), tt.want)
			w.restart()
			d := w.pass()
			want(t, "after a restart", about(d, "zero-replicas"), tt.want)
			w.quiet(d)
			want(t, "when all have replicas", about(w.push(source(tt.members)), "zero-replicas"), []string{})
			w.quiet(w.pass())
		})
	}
}

func TestMembersWithoutReplicasThatLeaveAreNotWarnedOf(t *testing.T) {
	w := newWorld(t)
	source := func(members int, placement string) string {
		return fleet(members) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", placement))
	}
	w.push(source(3, divided))
	d := w.push(source(2, divided))
	if got := about(d, "zero-replicas"); len(got) != 1 || !strings.Contains(got[0], "member m2 is selected") {
		t.Errorf("m3 left: %q", got)
	}
	d = w.push(source(2, only("elsewhere")))
	want(t, "no member fits", about(d, "zero-replicas"), []string{})
}

func TestPolicyThatWouldWinIsToldThatTheClaimStands(t *testing.T) {
	w := newWorld(t)
	web := file("web.yaml", deployment("web", 1), deployment("api", 1))
	low := file("a.yaml", policyFor("a", "Deployment", everywhere))
	high := func(more string) string {
		return file("b.yaml", policyFor("b", "Deployment", everywhere+", priority: 5"+more))
	}
	want(t, "alone", about(w.push(fleet(1)+web+low), "claim-stands"), []string{})
	finding := []string{"b.yaml:4: warning: claim-stands: PropagationPolicy default/b: spec.resourceSelectors: it does not get default/api-deployment and default/web-deployment: " +
		"it would win if the template were free, but PropagationPolicy default/a holds it; select it by name with preemption: Always to take it over"}
	want(t, "a later one of higher priority", about(w.push(fleet(1)+web+low+high("")), "claim-stands"), finding)
	want(t, "in the next pass", about(w.pass(), "claim-stands"), finding)
	want(t, "without the first", about(w.push(fleet(1)+web+high("")), "claim-stands"), []string{})
	want(t, "with a lower one beside it", about(w.push(fleet(1)+web+low+high("")), "claim-stands"), []string{})
}

func TestAnotherDivisionThatMovesNothingIsToldOf(t *testing.T) {
	source := func(placement string) string {
		return fleet(2) + file("web.yaml", deployment("web", 4), policyFor("a", "Deployment", placement))
	}
	const aggregated = "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}"
	w := newWorld(t)
	w.look("m1", "m2")
	w.room("m1", 100)
	w.room("m2", 100)
	want(t, "first", about(w.push(source(byRoom)), "not-divided-anew"), []string{})
	d := w.push(source(aggregated))
	want(t, "nothing moves", w.placed("default/web-deployment"), "m1=2 m2=2")
	want(t, "told", about(d, "not-divided-anew"), []string{"web.yaml:14: warning: not-divided-anew: PropagationPolicy default/a: spec.placement: " +
		"the change moves no replicas that are placed already; a WorkloadRebalancer divides them anew: default/web-deployment has m1=2 m2=2 and would have m1=4"})
	want(t, "back, which is no difference", about(w.push(source(byRoom)), "not-divided-anew"), []string{})
	want(t, "static weights divide anew themselves", about(w.push(source(divided)), "not-divided-anew"), []string{})
}

func TestLaterTermInForceIsToldOf(t *testing.T) {
	const terms = "placement: {clusterAffinities: [{affinityName: near, clusterNames: [m2]}, {affinityName: far, clusterNames: [m1]}]}"
	source := func(members int) string {
		return fleet(members) + file("web.yaml", deployment("web", 4), policyFor("a", "Deployment", terms))
	}
	w := newWorld(t)
	want(t, "the first", about(w.push(source(2)), "affinity-fallback"), []string{})
	w = newWorld(t)
	finding := []string{"web.yaml:14: info: affinity-fallback: PropagationPolicy default/a: spec.placement.clusterAffinities: " +
		"not the first term but far is in force for default/web-deployment; there is no way back to an earlier one but a WorkloadRebalancer"}
	want(t, "the second", about(w.push(source(1)), "affinity-fallback"), finding)
	want(t, "still, with a member for the first", about(w.push(source(2)), "affinity-fallback"), finding)
}

func TestOverrideWithoutEffectIsToldOf(t *testing.T) {
	override := func(image string) string {
		return file("o.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\nspec:\n  overrideRules:\n  - overriders: {imageOverrider: [{component: Tag, operator: replace, value: "+image+"}]}\n")
	}
	source := fleet(2) + file("web.yaml", deployment("web", 4), policyFor("a", "Deployment", everywhere))
	w := newWorld(t)
	if d := w.push(source + override("v9")); len(about(d, "override-no-effect")) > 0 || !strings.Contains(w.text("m1/default/deployment.apps_web"), ":v9") {
		t.Fatalf("findings %v, work %s", d.Findings, w.text("m1/default/deployment.apps_web"))
	}
	finding := []string{"o.yaml:6: warning: override-no-effect: OverridePolicy default/o: spec.overrideRules[0].overriders: " +
		"changes nothing: whatever it is applied to is as it says already, or has no such field; correct it, or remove the rule"}
	want(t, "the tag it has", about(w.push(source+override(`"1"`)), "override-no-effect"), finding)
	want(t, "in the next pass", about(w.pass(), "override-no-effect"), finding)
	// Where a copy cannot be made, it is not known what the rule would do.
	broken := file("x.yaml", deployment("api", 1), policyFor("x", "Deployment api", everywhere)) +
		file("y.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: broken, namespace: default}\nspec:\n  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: api}]\n  overrideRules:\n  - overriders: {plaintext: [{path: /spec/none/such, operator: replace, value: 1}]}\n")
	d := w.push(source + override(`"1"`) + broken)
	if len(about(d, "override-failed"))+len(about(d, "render")) == 0 {
		t.Fatal(d.Findings)
	}
	want(t, "with a copy that cannot be made", about(d, "override-no-effect"), []string{})
}

func TestTolerationsThatCompatMakesIdleAreToldOf(t *testing.T) {
	const tolerations = "placement: {clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60}, {key: other, operator: Exists, effect: NoExecute}]}"
	source := fleet(1) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", tolerations))
	taintPolicy := file("t.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: t}\nspec: {addOnConditions: [{conditionType: Ready, operator: In, statusValues: [\"False\"]}], taints: [{key: cluster.karmada.io/not-ready, effect: NoExecute}]}\n")
	found := func(compat bool, source string) []string {
		w := newWorld(t)
		w.options.CompatKarmada = compat
		d := w.push(source)
		return append(about(d, "toleration-no-effect"), about(d, "differs-2")...)
	}
	want(t, "with compat", found(true, source), []string{"web.yaml:14: warning: toleration-no-effect: PropagationPolicy default/a: spec.placement.clusterTolerations[0]: " +
		"has no effect with compat: karmada, which puts cluster.karmada.io/not-ready on with NoSchedule alone; a ClusterTaintPolicy puts it on with NoExecute"})
	want(t, "with a policy that puts it on", found(true, source+taintPolicy), []string{})
	if got := found(false, source); len(got) != 1 || !strings.Contains(got[0], "differs-2") {
		t.Errorf("without compat: %q", got)
	}
}

func TestNothingIsToldOfTheQuickstart(t *testing.T) {
	in := decide.Input{Source: gitstate.Snapshot{Revision: "c1", FS: os.DirFS("../../examples/quickstart")}, Now: start, Options: decide.Options{SecretKey: []byte("key")}}
	for range 2 {
		d, err := decide.Next(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Findings) > 0 || len(d.Bindings) == 0 {
			t.Errorf("%d bindings, findings %v", len(d.Bindings), d.Findings)
		}
		in.Previous = d.Next
	}
}
