package decide_test

import (
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// mounting is a Deployment that needs a ConfigMap.
func mounting(name, configMap string) string {
	return strings.Replace(deployment(name, 1), "spec: {containers", "spec: {volumes: [{name: v, configMap: {name: "+configMap+"}}], containers", 1)
}

func needing(name, template, spec string) string {
	return policyFor(name, "Deployment "+template, spec+", propagateDeps: true")
}

func TestDependencyGoesAlong(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	web, api := mounting("web", "c"), mounting("api", "c")
	cm := file("c.yaml", configMap("c", "one"))
	d := w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))))
	want(t, "attached", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
	want(t, "its own clusters", w.placed(c), "-")
	want(t, "why", row(t, d, c).DependencyOf, []string{"default/web-deployment"})
	want(t, "unbound", unbound(d), []string{})

	w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))) + "\n" + file("api.yaml", api, needing("api", "api", only("m1, m2"))))
	want(t, "shared", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_api", "m1/default/deployment.apps_web", "m2/default/configmap_c", "m2/default/deployment.apps_api"})
	want(t, "snapshots", len(w.binding(c).Spec.RequiredBy), 2)
	w.restart()
	w.quiet(w.pass())

	w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))))
	want(t, "one owner less", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
	want(t, "retired", w.retired(), []string{"m1/default/deployment.apps_api", "m2/default/configmap_c", "m2/default/deployment.apps_api"})
}

func TestDependencyWithAPolicyOfItsOwn(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	base := fleet(3) + file("c.yaml", configMap("c", "one"), policyFor("c", "ConfigMap", only("m3")))
	w.push(base)
	w.pass()
	w.pass()
	w.push(base + file("web.yaml", mounting("web", "c"), needing("web", "web", only("m1"))))
	want(t, "own and needed", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m3/default/configmap_c"})
	want(t, "its own clusters", w.placed(c), "m3")
	w.push(base)
	want(t, "nothing needs it", w.works(), []string{"m3/default/configmap_c"})
	if b := w.binding(c); b == nil || len(b.Spec.RequiredBy) > 0 {
		t.Errorf("the binding is %+v", b)
	}
}

// A template that a policy released runs where it is, whatever else needs it.
func TestReleasedDependencyStaysWhereItIs(t *testing.T) {
	w := newWorld(t)
	base := fleet(3) + file("c.yaml", configMap("c", "one"))
	w.push(base + file("p.yaml", policyFor("c", "ConfigMap", only("m3"))))
	w.push(base + file("p.yaml", mounting("web", "c"), needing("web", "web", only("m1"))))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m3/default/configmap_c"})
	w.push(base)
	want(t, "works", w.works(), []string{"m3/default/configmap_c"})
}

func TestDependencyThatNothingNeedsGoes(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("c.yaml", configMap("c", "one"))
	w.push(base + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)))
	d := w.push(base + file("web.yaml", deployment("web", 1), needing("web", "web", everywhere)))
	want(t, "works", w.works(), []string{"m1/default/deployment.apps_web"})
	want(t, "retired", w.retired(), []string{"m1/default/configmap_c"})
	want(t, "binding", w.placed("default/c-configmap"), "none")
	want(t, "change", row(t, d, "default/c-configmap").Change, decide.Removed)
	want(t, "unbound", unbound(d), []string{"ConfigMap default/c: nothing needs it any more"})
}

func TestMissingDependencyIsAWarningUntilItComes(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere))
	want(t, "missing", codes(w.push(base)), []string{"warning dependency-missing web.yaml"})
	want(t, "still missing", codes(w.pass()), []string{"warning dependency-missing web.yaml"})
	want(t, "there", codes(w.push(base+file("c.yaml", configMap("c", "one")))), []string{})
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
}

func TestOwnersThatDisagreeAreWarnedOf(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(1) + file("c.yaml", configMap("c", "one")) +
		"\n" + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)) +
		file("api.yaml", mounting("api", "c"), needing("api", "api", everywhere+", conflictResolution: Overwrite, preserveResourcesOnDeletion: true")))
	want(t, "findings", codes(d), []string{"warning dependency-conflict c.yaml"})
	spec := w.binding("default/c-configmap").Spec
	want(t, "overwrite wins", string(spec.ConflictResolution), "Overwrite")
	want(t, "preserve wins", *spec.PreserveResourcesOnDeletion, true)
}

// A dependency has no policy that would divide its replicas: it runs as its template says, at once and later.
func TestADependencyThatIsAWorkloadRunsAsItIs(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(2) + file("rules.yaml", `apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: r}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    dependencyInterpretation:
      luaScript: 'function GetDependencies(o) if o.metadata.name == "side" then return {} end return {{apiVersion="apps/v1", kind="Deployment", namespace="default", name="side"}} end'
`) + file("web.yaml", deployment("web", 4), needing("web", "web", divided)) + file("side.yaml", deployment("side", 3)))
	w.pass()
	for _, member := range []string{"m1", "m2"} {
		if text := w.text(member + "/default/deployment.apps_side"); !strings.Contains(text, "replicas: 3\n") {
			t.Errorf("on %s it is\n%s", member, text)
		}
	}
}
