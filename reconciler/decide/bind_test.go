package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestTemplateWithoutPolicyRunsNowhere(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(2) + file("web.yaml", deployment("web", 2)))
	want(t, "unbound", unbound(d), []string{"Deployment default/web: no policy selects it"})
	want(t, "works", w.works(), []string{})
	want(t, "binding", w.placed("default/web-deployment"), "none")
	want(t, "rows", len(d.Bindings), 0)
}

func TestPolicyPlacesATemplate(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(2) + file("web.yaml", deployment("web", 2), policyFor("web", "Deployment web", everywhere)))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")
	want(t, "works", w.works(), []string{"m1/default/deployment.apps_web", "m2/default/deployment.apps_web"})
	want(t, "change", row(t, d, "default/web-deployment").Change, decide.Added)
	want(t, "unbound", unbound(d), []string{})
	b := w.binding("default/web-deployment")
	want(t, "policy", *b.Spec.Policy, *row(t, d, "default/web-deployment").Policy)
	want(t, "scheduled at", b.Status.LastScheduledTime.UTC(), start)
	w.now = start.Add(time.Hour)
	w.quiet(w.pass())
}

func TestPoliciesOfATemplate(t *testing.T) {
	const web = "default/web-deployment"
	kept := policyFor("b", "Deployment", only("m1"))
	for _, test := range []struct {
		name          string
		first, second string // policies
		want, then    string
	}{
		{"a better policy does not take a claimed template", kept, kept + "---\n" + policyFor("a", "Deployment web", only("m2")+", priority: 9"), "m1=2", "m1=2"},
		{"preemption by a higher priority does", kept, kept + "---\n" + policyFor("a", "Deployment web", only("m2")+", priority: 9, preemption: Always"), "m1=2", "m2=2"},
		{"preemption at the same priority does not", kept, kept + "---\n" + policyFor("a", "Deployment web", only("m2")+", preemption: Always"), "m1=2", "m1=2"},
		{"priority goes before precision", policyFor("a", "Deployment web", only("m1")) + "---\n" + policyFor("z", "Deployment", only("m2")+", priority: 1"), "", "m2=2", "m2=2"},
		{"precision goes before name", policyFor("a", "Deployment", only("m1")) + "---\n" + policyFor("z", "Deployment web", only("m2")), "", "m2=2", "m2=2"},
		{"then the name decides", policyFor("b", "Deployment web", only("m1")) + "---\n" + policyFor("a", "Deployment web", only("m2")), "", "m2=2", "m2=2"},
		{"the holder goes and another takes over in place", kept, policyFor("c", "Deployment", only("m2")), "m1=2", "m2=2"},
		{"the holder goes and what runs stays", kept, " ", "m1=2", "m1=2"},
		{"the holder selects something else and what runs stays", kept, policyFor("b", "Deployment other", only("m1")), "m1=2", "m1=2"},
		{"the holder's new placement takes effect at once", kept, policyFor("b", "Deployment", only("m2")), "m1=2", "m2=2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			base := fleet(2) + file("web.yaml", deployment("web", 2))
			w.push(base + file("policy.yaml", test.first))
			want(t, "at first", w.placed(web), test.want)
			if test.second != "" {
				w.push(base + file("policy.yaml", test.second))
			}
			want(t, "then", w.placed(web), test.then)
		})
	}
}

func TestReleasedTemplateIsTakenUpByTheNextPolicy(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2))
	w.push(base + file("p.yaml", policyFor("a", "Deployment", only("m1"))))
	d := w.push(base)
	want(t, "unbound", unbound(d), []string{"Deployment default/web: PropagationPolicy default/a held it and is gone and no other policy selects it; what runs stays as it is"})
	want(t, "claim", w.binding("default/web-deployment").Spec.Policy == nil, true)
	want(t, "works", w.works(), []string{"m1/default/deployment.apps_web"})
	w.restart()
	w.quiet(w.pass())
	d = w.push(base + file("p.yaml", policyFor("z", "Deployment", everywhere)))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")
	want(t, "change", row(t, d, "default/web-deployment").Change, decide.Moved)
	want(t, "retired", w.retired(), []string{})
}

// A released template still follows its own changes: the copies are godwit's to keep in step.
func TestReleasedTemplateKeepsItsCopiesInStep(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(1) + file("c.yaml", configMap("c", "one"), policyFor("a", "ConfigMap", everywhere)))
	w.push(fleet(1) + file("c.yaml", configMap("c", "one")))
	w.push(fleet(1) + file("c.yaml", configMap("c", "two")))
	if got := w.text("m1/default/configmap_c"); !strings.Contains(got, "key: two") {
		t.Errorf("the copy is\n%s", got)
	}
}

func TestHandOverBetweenPoliciesRetiresNothingThatStays(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2))
	w.push(base + file("p.yaml", policyFor("a", "Deployment", everywhere)))
	d := w.push(base + file("p.yaml", policyFor("b", "Deployment", everywhere)))
	want(t, "works", d.Works, nil)
	want(t, "retired", w.retired(), []string{})
	want(t, "policy", w.binding("default/web-deployment").Spec.Policy.Name, "b")
}

func TestLazyPolicyWaitsForTheTemplate(t *testing.T) {
	const web = "default/web-deployment"
	lazy := func(placement string) string {
		return policyFor("a", "Deployment", placement+", activationPreference: Lazy")
	}
	w := newWorld(t)
	w.push(fleet(2) + file("web.yaml", deployment("web", 2)) + "\n" + file("p.yaml", lazy(only("m1"))))
	want(t, "new template of a lazy policy", w.placed(web), "m1=2")
	w.push(fleet(2) + file("web.yaml", deployment("web", 2)) + file("p.yaml", lazy(only("m2"))))
	want(t, "the policy alone changed", w.placed(web), "m1=2")
	w.restart()
	w.quiet(w.pass())
	w.push(fleet(2) + file("web.yaml", deployment("web", 3)) + file("p.yaml", lazy(only("m2"))))
	want(t, "the template changed", w.placed(web), "m2=3")
}

func TestDependentOverridesAreWaitedFor(t *testing.T) {
	const override = "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: tag, namespace: default}\nspec: {overrideRules: [{overriders: {labelsOverrider: [{operator: add, value: {x: \"y\"}}]}}]}\n"
	base := fleet(1) + file("web.yaml", deployment("web", 1)) + file("p.yaml", policyFor("a", "Deployment", everywhere+", dependentOverrides: [tag]"))
	w := newWorld(t)
	d := w.push(base)
	want(t, "unbound", unbound(d), []string{"Deployment default/web: waits for the override policies tag"})
	want(t, "works", w.works(), []string{})
	w.push(base + file("o.yaml", override))
	want(t, "placed", w.placed("default/web-deployment"), "m1=1")
	w.push(base)
	want(t, "the override goes again: what runs stays", w.works(), []string{"m1/default/deployment.apps_web"})
	if got := w.text("m1/default/deployment.apps_web"); !strings.Contains(got, "x: \"y\"") {
		t.Errorf("the copy lost its override:\n%s", got)
	}
}

func TestTemplateThatOthersClaimIsLeftAsItIs(t *testing.T) {
	w := newWorld(t)
	fresh := w.push(fleet(1) + file("c.yaml", strings.Replace(configMap("c", "two"), "labels: {", "labels: {resourcetemplate.karmada.io/claimed-by: x, ", 1)))
	want(t, "unbound", unbound(fresh), []string{})
	base := fleet(1) + file("p.yaml", policyFor("a", "ConfigMap", everywhere))
	claimed := strings.Replace(configMap("c", "two"), "labels: {", "labels: {resourcetemplate.karmada.io/claimed-by: x, ", 1)
	w.push(base + file("c.yaml", configMap("c", "one")))
	w.push(base + file("c.yaml", claimed))
	want(t, "works", w.works(), []string{"m1/default/configmap_c"})
	if got := w.text("m1/default/configmap_c"); !strings.Contains(got, "key: one") {
		t.Errorf("the copy is\n%s", got)
	}
}

func TestTwoTemplatesWithOneBindingNameAreAnError(t *testing.T) {
	w := newWorld(t)
	role := func(name string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + name + "}\n"
	}
	d := w.push(fleet(1) + file("r.yaml", role(`"a:b"`), role("a.b")))
	want(t, "findings", codes(d), []string{"error binding-clash r.yaml"})
}

// An error costs the object that has it, and never the one that runs.
func TestABindingStaysWithTheTemplateThatHasIt(t *testing.T) {
	base := fleet(1) + file("p.yaml", policyFor("p", "Role", everywhere))
	role := func(name, key string) string { // roles may have large letters in their names
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: " + name + ", namespace: default}\nkey: " + key + "\n"
	}
	other := strings.Replace(role("c", "new"), "rbac.authorization.k8s.io", "a.example.com", 1)
	const works = "m1/default/role.rbac.authorization.k8s.io_"
	for _, test := range []struct{ name, path, newcomer, works string }{
		{"another group", "a.yaml", other, ""},
		{"other letters", "a.yaml", role("C", "new"), works + "%43"},
		{"other letters, in a file after its own", "z.yaml", role("C", "new"), works + "%43"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.push(base + file("c.yaml", role("c", "one")))
			d := w.push(base + file("c.yaml", role("c", "two")) + file(test.path, test.newcomer))
			want(t, "findings", codes(d), []string{"error binding-clash " + test.path})
			want(t, "works", w.works(), []string{works + "c"})
			if got := w.text(works + "c"); !strings.Contains(got, "key: two") {
				t.Errorf("the copy is\n%s", got)
			}
			w.restart()
			w.quiet(w.pass())
			w.push(base + file(test.path, test.newcomer))
			want(t, "works when it is gone", strings.Join(w.works(), " "), test.works)
		})
	}
}

func TestSuspension(t *testing.T) {
	const web = "default/web-deployment"
	for _, test := range []struct {
		name, spec string
		want       string // the members suspended
	}{
		{"none", "", ""},
		{"all", ", suspension: {dispatching: true}", "m1 m2"},
		{"one", ", suspension: {dispatchingOnClusters: {clusterNames: [m2]}}", "m2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.push(fleet(2) + file("web.yaml", deployment("web", 2), policyFor("a", "Deployment", everywhere+test.spec)))
			want(t, "placed", w.placed(web), "m1=2 m2=2")
			for range 2 {
				var suspended []string
				for _, name := range w.works() {
					if work := w.state.Works["works/"+name+".yaml"]; work.Suspended {
						suspended = append(suspended, work.Member)
					}
				}
				want(t, "suspended", strings.Join(suspended, " "), test.want)
				w.restart()
				w.pass()
			}
		})
	}
}

func TestDividedReplicasStandUntilSomethingAsks(t *testing.T) {
	const web = "default/web-deployment"
	w := newWorld(t)
	source := func(members, replicas int) string {
		return fleet(members) + file("web.yaml", deployment("web", replicas), policyFor("a", "Deployment", divided))
	}
	w.push(source(2, 4))
	want(t, "two members", w.placed(web), "m1=2 m2=2")
	w.push(source(3, 4))
	want(t, "a member joins", w.placed(web), "m1=2 m2=2")
	w.push(source(3, 6))
	want(t, "the template scales", w.placed(web), "m1=2 m2=2 m3=2")
	d := w.push(source(2, 6))
	want(t, "a member leaves", w.placed(web), "m1=3 m2=3")
	want(t, "change", row(t, d, web).Change, decide.Moved)
}

func TestMemberWithoutReplicasIsWarnedOf(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(2) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", divided)))
	want(t, "placed", w.placed("default/web-deployment"), "m1=1")
	want(t, "findings", codes(d), []string{"warning zero-replicas web.yaml"})
}

func TestWhatCannotBeScheduledSaysSo(t *testing.T) {
	const web = "default/web-deployment"
	w := newWorld(t)
	d := w.push(fleet(1) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", only("elsewhere"))))
	want(t, "placed", w.placed(web), "-")
	want(t, "failure", row(t, d, web).Failure, "NoClusterFit")
	want(t, "subject", d.Commit.Subject, "schedule(default/web-deployment): NoClusterFit")
	for _, c := range w.binding(web).Status.Conditions {
		if c.Type == "Scheduled" && (c.Status != "False" || c.Reason != "NoClusterFit") {
			t.Errorf("condition %+v", c)
		}
	}
	w.quiet(w.pass())
}

func TestRebalancerSchedulesAfreshOnce(t *testing.T) {
	const web = "default/web-deployment"
	rebalancer := func(created string) string {
		return file("r.yaml", fmt.Sprintf("apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata: {name: again%s}\nspec: {workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}]}\n", created))
	}
	source := func(members int) string {
		return fleet(members) + file("web.yaml", deployment("web", 4), policyFor("a", "Deployment", divided))
	}
	w := newWorld(t)
	w.push(source(1))
	w.push(source(2))
	want(t, "a member joined", w.placed(web), "m1=4")
	w.now = start.Add(time.Minute)
	d := w.push(source(2) + rebalancer(""))
	want(t, "rebalanced", w.placed(web), "m1=2 m2=2")
	want(t, "reason", d.Commit.Reason, decide.Rebalance)
	w.push(source(3) + rebalancer(""))
	want(t, "the order is carried out once", w.placed(web), "m1=2 m2=2")
	w.restart()
	w.quiet(w.pass())
	w.now = start.Add(2 * time.Minute)
	w.push(source(4) + rebalancer(`, creationTimestamp: "2026-01-01T12:01:30Z"`))
	want(t, "an order of another time is another order", w.placed(web), "m1=1 m2=1 m3=1 m4=1")
}

// An order counts, though the clock says that the binding was scheduled in the same second, or later.
func TestRebalancerCountsWithinTheSecondOfTheLastDecision(t *testing.T) {
	const web = "default/web-deployment"
	order := file("r.yaml", "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata: {name: again}\nspec: {workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}]}\n")
	source := func(members int) string {
		return fleet(members) + file("web.yaml", deployment("web", 4), policyFor("a", "Deployment", divided))
	}
	for _, later := range []time.Duration{0, 300 * time.Millisecond, -time.Hour} {
		w := newWorld(t)
		w.push(source(1))
		w.now = start.Add(later)
		w.push(source(2) + order)
		want(t, "rebalanced "+later.String()+" after the decision", w.placed(web), "m1=2 m2=2")
		w.quiet(w.pass())
		w.push(source(3) + order)
		want(t, "the order is carried out once", w.placed(web), "m1=2 m2=2")
	}
}

func TestAnotherSchedulersBindingIsLeftToIt(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(1) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", everywhere+", schedulerName: mine")))
	want(t, "placed", w.placed("default/web-deployment"), "-")
	want(t, "message", row(t, d, "default/web-deployment").Message, "schedulerName names another scheduler, which decides")
}

// A divided workload of no replicas that asks for something runs nowhere, and says so.
func TestNoReplicasIsAReason(t *testing.T) {
	web := strings.Replace(deployment("web", 0), "spec: {containers", "spec: {nodeSelector: {disk: ssd}, containers", 1)
	w := newWorld(t)
	d := w.push(fleet(1) + file("web.yaml", web, policyFor("a", "Deployment", divided)))
	want(t, "placed", w.placed("default/web-deployment"), "-")
	want(t, "message", row(t, d, "default/web-deployment").Message, "it has 0 replicas, so no member gets a copy")
}

func TestValueOfAPriorityClass(t *testing.T) {
	class := func(name, value string) string {
		return file(name+".yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: "+name+"}\nvalue: "+value+"\n")
	}
	use := func(name string) string {
		return policyFor(name, "ConfigMap "+name, everywhere+", schedulePriority: {priorityClassSource: KubePriorityClass, priorityClassName: "+name+"}")
	}
	w := newWorld(t)
	d := w.push(fleet(1) + class("good", "7") + class("wide", "4294967303") +
		file("c.yaml", configMap("good", "x"), configMap("wide", "x"), use("good"), use("wide")))
	want(t, "findings", codes(d), []string{"error priority-class-missing c.yaml", "warning priority-value wide.yaml"})
	want(t, "priority", w.binding("default/good-configmap").Spec.SchedulePriority.Priority, int32(7))
	want(t, "placed", w.placed("default/wide-configmap"), "none")
}
