package interpret

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
)

// FuzzScript: whatever a script is, it is refused or it answers, or it fails with a *ScriptError.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{
		luaDeploymentHealth,
		`function InterpretHealth(o) local t = {} t[#t + 1], t.x = "a" .. 1, {[2] = 3} return t[1] < "b" end`,
		`function ReviseReplica(o, n) o.spec.replicas = n return o end function Retain(d, o) return o end`,
		`local kube = require("kube") function GetReplicas(o) return 1, kube.accuratePodRequirements(o.spec.template) end`,
		`function GetDependencies(o) return require("kube").getPodDependencies(o.spec.template, o.metadata.namespace) end`,
		`function ReflectStatus(o) return {m = string.match(o.metadata.name, "(%w+)-?%b()$")} end`,
		`function AggregateStatus(o, items) for i, item in pairs(items) do goto next ::next:: end o.status = {} return o end`,
		`function InterpretHealth(o) while true do pcall(error, {}) end end`,
		`function InterpretHealth(o) local function f(...) return f(..., 1) end return f() end`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script string) {
		rule := lines(script)
		i, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("web", "apps/v1", "Deployment", configv1alpha1.CustomizationRules{
			Retention: rule, ReplicaResource: rule, ComponentResource: rule, ReplicaRevision: rule,
			StatusReflection: rule, StatusAggregation: rule, HealthInterpretation: rule, DependencyInterpretation: rule,
		})})
		if len(problems) > 0 || script == "" {
			return
		}
		for _, err := range answers(t, i, bigDeployment()) {
			var failure *ScriptError
			if err != nil && !errors.As(err, &failure) && errors.Unwrap(err) == nil {
				t.Errorf("error %v is no *ScriptError", err)
			}
		}
	})
}

// FuzzObject: no JSON-shaped object stops a native or shipped rule, or is changed by one.
func FuzzObject(f *testing.F) {
	f.Add([]byte(jsonText(bigDeployment())))
	f.Add([]byte(`{"metadata": 1, "spec": [], "status": "x"}`))
	f.Add([]byte(`{"metadata": {"annotations": [], "labels": 5, "generation": 1.5, "deletionTimestamp": 7}, "spec": {"template": 3, "replicas": -1, "selector": null}, "status": {"conditions": {}}}`))
	f.Add([]byte(`{"secrets": [1, null, {"name": 2}], "type": [], "data": 1, "spec": {"containers": [null, 1, {"env": [1], "resources": {"requests": []}}], "volumes": [[], {"projected": 1}]}}`))
	f.Add([]byte(`{"status": {"conditions": [1, null, {"type": 1, "status": true}], "loadBalancer": {"ingress": [1, {"ports": 1}]}, "observedGeneration": "x"}}`))
	f.Add([]byte(`{"spec": {"tasks": [1], "tfReplicaSpecs": {"PS": 1}, "workerGroupSpecs": {}, "executor": [], "job": {"parallelism": 1e308}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return
		}
		o, ok := shaped(v).(map[string]any)
		if !ok {
			return
		}
		kinds := []kind{kindOf(o), {"apiextensions.k8s.io", "v1", "CustomResourceDefinition"}, {"apps", "v1beta2", "Deployment"}}
		for k := range native {
			kinds = append(kinds, k)
		}
		for k := range shipped {
			kinds = append(kinds, k)
		}
		before := jsonText(o)
		for _, k := range kinds {
			typed := with(with(o, api.ID{Group: k.group, Version: k.version}.APIVersion(), "apiVersion"), k.name, "kind")
			answers(t, &Interpreter{}, typed)
			if diff := cmp.Diff(Prune(typed), Prune(Prune(typed))); diff != "" {
				t.Errorf("pruning again prunes more of %v: %s", k, diff)
			}
			if diff := cmp.Diff(Default(typed), Default(Default(typed))); diff != "" {
				t.Errorf("defaulting again sets more of %v: %s", k, diff)
			}
		}
		if after := jsonText(o); after != before {
			t.Errorf("the object was changed from %s to %s", before, after)
		}
	})
}

// answers asks everything about the object, and each question twice: the answers must be the same.
func answers(t *testing.T, i *Interpreter, o api.Object) []error {
	t.Helper()
	ask := func() ([]any, []error) {
		health, err1 := i.Health(o)
		replicas, err2 := i.Replicas(o)
		revised, err3 := i.Revise(o, 3)
		retained, err4 := i.Retain(o, o)
		status, err5 := i.Status(o)
		aggregated, err6 := i.AggregateStatus(o, []StatusItem{{Cluster: "a", Status: object(o["status"])}, {Cluster: "b"}})
		refs, err7 := i.Dependencies(o)
		return []any{health, jsonText(replicas), revised, retained, status, aggregated, refs}, []error{err1, err2, err3, err4, err5, err6, err7}
	}
	got, errs := ask()
	again, _ := ask()
	if diff := cmp.Diff(jsonText(got), jsonText(again)); diff != "" {
		t.Errorf("asked again, the answers differ: %s", diff)
	}
	return errs
}

// TestRevisedReplicasAreReadBack: what Revise writes is what Replicas finds, native or in Lua.
func TestRevisedReplicasAreReadBack(t *testing.T) {
	kinds := []kind{
		deployment, replicaSet, statefulSet, job, {"apps.kruise.io", "v1alpha1", "CloneSet"}, {"apps.kruise.io", "v1beta1", "StatefulSet"},
		{"apps.kruise.io", "v1alpha1", "BroadcastJob"}, {"argoproj.io", "v1alpha1", "Workflow"}, {"ray.io", "v1", "RayService"},
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		n := rapid.Int32Range(1, 1000).Draw(t, "replicas")
		workers := rapid.SliceOfN(rapid.Map(rapid.Int64Range(0, 50), func(n int64) any { return map[string]any{"replicas": n, "template": map[string]any{}} }), 1, 5).Draw(t, "workers")
		o := Default(api.Object{
			"apiVersion": api.ID{Group: k.group, Version: k.version}.APIVersion(), "kind": k.name,
			"spec": map[string]any{
				"template":         map[string]any{"spec": map[string]any{}},
				"rayClusterConfig": map[string]any{"headGroupSpec": map[string]any{}, "workerGroupSpecs": workers},
			},
		})
		o = without(o, []string{"spec"}, "completions")
		i := &Interpreter{}
		revised, err := i.Revise(o, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := i.Replicas(revised); got.Count != n || err != nil {
			t.Fatalf("%s with %d replicas is read as %d, %v", k.name, n, got.Count, err)
		}
	})
}
