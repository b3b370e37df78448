package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// customization has one rule for the kind Fleet of example.io/v1.
func customization(field, script string) string {
	return fmt.Sprintf(`apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: fleet}
spec:
  target: {apiVersion: example.io/v1, kind: Fleet}
  customizations:
    %s:
      luaScript: |
        %s
`, field, strings.ReplaceAll(script, "\n", "\n        "))
}

// ship is an object of that kind.
func ship(name string) string {
	return fmt.Sprintf("apiVersion: example.io/v1\nkind: Fleet\nmetadata: {name: %s, namespace: default}\nspec: {size: 3}\n", name)
}

var shipPolicy = strings.Replace(policyFor("ships", "Fleet", everywhere), "apiVersion: v1,", "apiVersion: example.io/v1,", 1)

// harbours are members that serve the kind Fleet, too.
func (w *world) harbours(members ...string) {
	w.look(members...)
	for _, m := range members {
		w.facts(m, func(f *decide.MemberFacts) {
			f.APIs = append([]clusterv1alpha1.APIEnablement{apis("example.io/v1", "Fleet")}, f.APIs...)
		})
	}
}

// sees gives the copy of a Fleet on a member this status.
func (w *world) sees(member, name string, status api.Object) {
	w.facts(member, func(f *decide.MemberFacts) {
		id := api.ID{Group: "example.io", Kind: "Fleet", Namespace: "default", Name: name}
		c := f.Copies[id]
		c.Live = api.Object{"apiVersion": "example.io/v1", "kind": "Fleet", "metadata": map[string]any{"name": name, "namespace": "default"}, "status": status}
		f.Copies[id] = c
	})
}

func messages(d *decide.Decision) []string {
	list := []string{}
	for _, f := range d.Findings {
		list = append(list, f.String())
	}
	return list
}

const sizeRule = "function InterpretHealth(o)\n  return o.status.size.ready == 3\nend"

func TestHealthByAUsersRule(t *testing.T) {
	w := newWorld(t)
	w.harbours("m1", "m2")
	source := fleet(2) + file("fleet.yaml", ship("a"), shipPolicy) + file("rules.yaml", customization("healthInterpretation", sizeRule))
	w.push(source)
	w.applied("m1")
	w.applied("m2")
	w.sees("m1", "a", api.Object{"size": map[string]any{"ready": int64(3)}})
	w.sees("m2", "a", api.Object{"size": map[string]any{"ready": int64(2)}})
	w.quietFindings(w.pass())
	want(t, "status", w.statusOf("default/a-fleet"), []string{"m1 applied Healthy", "m2 applied Unhealthy"})
}

func (w *world) quietFindings(d *decide.Decision) {
	w.Helper()
	want(w, "findings", messages(d), []string{})
}

// One broken rule is one finding, where the rule stands, for as long as it is broken: what it was
// asked about is Unknown, and everything else goes on.
func TestABrokenHealthRuleIsAFinding(t *testing.T) {
	w := newWorld(t)
	w.harbours("m1")
	source := func(rule string) string {
		return fleet(1) + file("fleet.yaml", ship("a"), ship("b"), ship("c"), shipPolicy, configMap("c", "one"), policyFor("p", "ConfigMap", everywhere)) +
			"\n" + file("rules.yaml", customization("healthInterpretation", rule))
	}
	w.push(source(sizeRule))
	w.applied("m1")
	w.sees("m1", "a", api.Object{"size": map[string]any{"ready": int64(3)}})
	w.sees("m1", "b", nil)
	w.sees("m1", "c", nil)
	broken := []string{`rules.yaml:8: error: customization-fails: ResourceInterpreterCustomization fleet: spec.customizations.healthInterpretation.luaScript: ` +
		`InterpretHealth: health of Fleet default/b on m1 and 1 more: attempt to index a non-table object(nil) with key 'ready' (line 2 of the script)`}
	want(t, "finding", messages(w.pass()), broken)
	want(t, "b", w.statusOf("default/b-fleet"), []string{"m1 applied Unknown"})
	want(t, "a", w.statusOf("default/a-fleet"), []string{"m1 applied Healthy"})
	want(t, "another kind", w.statusOf("default/c-configmap"), []string{"m1 applied Healthy"})
	d := w.pass()
	w.quiet(d)
	want(t, "finding while nothing changes", messages(d), broken)

	d = w.push(source("function InterpretHealth(o)\n  while true do end\nend"))
	want(t, "endless", messages(d), []string{`rules.yaml:8: error: customization-fails: ResourceInterpreterCustomization fleet: spec.customizations.healthInterpretation.luaScript: ` +
		`InterpretHealth: health of Fleet default/a on m1 and 2 more: the script takes too long: it used up its 1000000 steps (line 2 of the script)`})
	w.quietFindings(w.push(source("function InterpretHealth(o)\n  return true\nend")))
	want(t, "mended", w.statusOf("default/b-fleet"), []string{"m1 applied Healthy"})
}

// Rules that fail while something is decided are named with what they were asked; what is placed stays.
func TestABrokenRuleKeepsWhatIsPlaced(t *testing.T) {
	for _, tt := range []struct{ field, script, spec, asked string }{
		{"replicaResource", "function GetReplicas(o)\n  return 'many'\nend", everywhere, "GetReplicas: replicas of Fleet default/a: the function must return the number of replicas first, it returned a string value"},
		{"dependencyInterpretation", "function GetDependencies(o)\n  error('no idea')\nend", everywhere + ", propagateDeps: true", "GetDependencies: dependencies of Fleet default/a: no idea (line 2 of the script)"},
	} {
		t.Run(tt.field, func(t *testing.T) {
			w := newWorld(t)
			policy := strings.Replace(shipPolicy, everywhere, tt.spec, 1)
			source := fleet(1) + file("fleet.yaml", ship("a"), policy)
			w.push(source)
			d := w.push(source, file("rules.yaml", customization(tt.field, tt.script)))
			want(t, "works", w.works(), []string{"m1/default/fleet.example.io_a"})
			want(t, "blamed", strings.Contains(strings.Join(messages(d), "\n"), "rules.yaml:8: error: customization-fails: ResourceInterpreterCustomization fleet: spec.customizations."+
				tt.field+".luaScript: "+tt.asked), true)
		})
	}
	w := newWorld(t)
	source := fleet(1) + file("fleet.yaml", ship("a"), shipPolicy) + file("rules.yaml", customization("replicaResource", "function GetReplicas(o) return o.spec.size end"))
	w.push(source)
	revision := "---\n" + strings.Replace(customization("replicaRevision", "function ReviseReplica(o, n)\n  return n\nend"), "name: fleet", "name: revision", 1)
	d := w.push(source, file("revision.yaml", revision))
	want(t, "works", w.works(), []string{"m1/default/fleet.example.io_a"})
	want(t, "blamed", strings.Contains(strings.Join(messages(d), "\n"),
		"ReviseReplica: Fleet default/a for m1: the function must return a table, it returned a number value"), true)
}

// A workload of components has no one number that could be divided.
func TestComponentsAreNotRevised(t *testing.T) {
	w := newWorld(t)
	rules := func(name, field, script string) string {
		return strings.Replace(customization(field, script), "name: fleet", "name: "+name, 1)
	}
	w.push(fleet(1) + file("fleet.yaml", ship("a"), shipPolicy) + file("rules.yaml",
		rules("components", "componentResource", "function GetComponents(o) return {{name = 'x', replicas = o.spec.size}} end"),
		rules("revision", "replicaRevision", "function ReviseReplica(o, n) o.spec.size = n return o end")))
	want(t, "components", w.binding("default/a-fleet").Spec.Components[0].Replicas, int32(3))
	want(t, "its size", strings.Contains(w.text("m1/default/fleet.example.io_a"), "size: 3"), true)
}

// A customization whose script defines no such function is refused; the last good one stays in force.
func TestARuleWithoutItsFunctionIsRefused(t *testing.T) {
	w := newWorld(t)
	w.harbours("m1")
	source := fleet(1) + file("fleet.yaml", ship("a"), shipPolicy)
	w.push(source, file("rules.yaml", customization("healthInterpretation", sizeRule)))
	w.applied("m1")
	w.sees("m1", "a", api.Object{"size": map[string]any{"ready": int64(3)}})
	w.pass()
	d := w.push(source, file("rules.yaml", customization("healthInterpretation", "function Health(o) return false end")))
	want(t, "finding", messages(d), []string{"rules.yaml:8: error: customization: ResourceInterpreterCustomization fleet: " +
		"spec.customizations.healthInterpretation.luaScript: the script does not define the function InterpretHealth"})
	want(t, "the last good rule", w.statusOf("default/a-fleet"), []string{"m1 applied Healthy"})
}
