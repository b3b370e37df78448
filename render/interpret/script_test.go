package interpret

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

func lines(script string) *configv1alpha1.LuaRule { return &configv1alpha1.LuaRule{LuaScript: script} }

// fleet has the rules for a kind that nothing else knows.
func fleet(t *testing.T, rules ...configv1alpha1.CustomizationRules) *Interpreter {
	t.Helper()
	var all []*configv1alpha1.ResourceInterpreterCustomization
	for n, r := range rules {
		all = append(all, customization(string(rune('a'+n)), "example.io/v1", "Fleet", r))
	}
	i, problems := New(all)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return i
}

func TestTheFirstLayerWithARuleAnswers(t *testing.T) {
	user := interpreter(t, configv1alpha1.CustomizationRules{
		ReplicaResource: lines(`function GetReplicas(o) return o.spec.replicas * 2, {resourceRequest = {cpu = "100m"}} end`),
	})
	o := of("apps/v1", "Deployment", `{spec: {replicas: 4}}`)
	if r, err := user.Replicas(o); r.Count != 8 || jsonText(r.Requirements) != `{"resourceRequest":{"cpu":"100m"}}` || err != nil {
		t.Errorf("the user's rule: %+v, %v", r, err)
	}
	// The other operations of the kind are still the native ones.
	if got, err := user.Revise(o, 2); number(at(got, "spec", "replicas")) != 2 || err != nil {
		t.Errorf("the native rule: %v, %v", got, err)
	}
	// A rule for one version says nothing about another.
	if r, err := user.Replicas(of("apps/v1beta1", "Deployment", `{spec: {replicas: 4}}`)); r.Workload || err != nil {
		t.Errorf("another version: %+v, %v", r, err)
	}

	shadow, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("x", "argoproj.io/v1alpha1", "Workflow", configv1alpha1.CustomizationRules{
		HealthInterpretation: lines(`function InterpretHealth(o) return o.metadata.name == "web" end`),
	})})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	flow := of("argoproj.io/v1alpha1", "Workflow", `{spec: {parallelism: 3}}`)
	if health, err := shadow.Health(flow); health != "Healthy" || err != nil {
		t.Errorf("the user's rule over the shipped one: %s, %v", health, err)
	}
	if r, err := shadow.Replicas(flow); r.Count != 3 || err != nil {
		t.Errorf("the shipped rule: %+v, %v", r, err)
	}

	// An error is final: the native rule is not asked instead.
	failing := interpreter(t, healthRule(`function InterpretHealth(o) error("no idea") end`))
	if health, err := failing.Health(of("apps/v1", "Deployment", rolled)); health != "Unknown" || err == nil {
		t.Errorf("a failing rule: %s, %v", health, err)
	}
}

func TestUserRulesForEveryOperation(t *testing.T) {
	i := fleet(t, configv1alpha1.CustomizationRules{
		ReplicaRevision: lines(`function ReviseReplica(o, n) o.spec.size = n return o end`),
		Retention:       lines(`function Retain(desired, observed) desired.spec.node = observed.spec.node return desired end`),
		StatusReflection: lines(`
			function ReflectStatus(o)
			  return {size = o.status.size, half = o.status.size / 2, empty = {}, list = {1, 2}}
			end`),
		StatusAggregation: lines(`
			function AggregateStatus(o, items)
			  local size, names, applied = 0, "", 0
			  for i = 1, #items do
			    if items[i].status ~= nil then size = size + items[i].status.size end
			    if items[i].applied then applied = applied + 1 end
			    names = names .. items[i].clusterName .. "=" .. (items[i].health or "?") .. (items[i].appliedMessage or "") .. " "
			  end
			  o.status = {size = size, names = names, applied = applied}
			  o.spec = nil
			  return o
			end`),
		HealthInterpretation: lines(`function InterpretHealth(o) return o.status.size > 1 end`),
		DependencyInterpretation: lines(`
			function GetDependencies(o)
			  return {
			    {apiVersion = "v1", kind = "Secret", namespace = o.metadata.namespace, name = "b"},
			    {apiVersion = "v1", kind = "ConfigMap", namespace = o.metadata.namespace, labelSelector = {matchLabels = {app = "x"}}},
			  }
			end`),
		ComponentResource: lines(`
			function GetComponents(o)
			  return {{name = "a", replicas = 2, replicaRequirements = {resourceRequest = {cpu = 1, memory = "1Gi"}, namespace = "shop", priorityClassName = "high",
			    nodeClaim = {nodeSelector = {x = "y"}, tolerations = {{key = "k", operator = "Exists"}}}}}, {name = "b", replicas = 0}}
			end`),
	})
	o := of("example.io/v1", "Fleet", `{spec: {size: 2}, status: {size: 3}}`)

	if got := edited(t, o, func(o api.Object) (api.Object, error) { return i.Revise(o, 7) }); number(at(got, "spec", "size")) != 7 {
		t.Errorf("Revise = %v", got)
	}
	live := of("example.io/v1", "Fleet", `{spec: {node: n1}}`)
	if got := edited(t, o, func(o api.Object) (api.Object, error) { return i.Retain(o, live) }); text(at(got, "spec", "node")) != "n1" {
		t.Errorf("Retain = %v", got)
	}
	status, err := i.Status(o)
	if diff := cmp.Diff(api.Object{"size": int64(3), "half": 1.5, "list": []any{int64(1), int64(2)}}, status); diff != "" || err != nil {
		t.Errorf("Status: %v %s", err, diff)
	}
	aggregated, err := i.AggregateStatus(o, []StatusItem{
		{Cluster: "m1", Applied: true, Health: "Healthy", Status: api.Object{"size": int64(2)}}, {Cluster: "m2", AppliedMessage: "!"},
	})
	want := of("example.io/v1", "Fleet", `{spec: {size: 2}, status: {size: 2, names: "m1=Healthy m2=?! ", applied: 1}}`)
	if diff := cmp.Diff(want, aggregated); diff != "" || err != nil {
		t.Errorf("AggregateStatus: %v %s", err, diff)
	}
	if health, err := i.Health(o); health != workv1alpha2.ResourceHealthy || err != nil {
		t.Errorf("Health = %s, %v", health, err)
	}
	if health, err := i.Health(of("example.io/v1", "Fleet", `{status: {size: 1}}`)); health != workv1alpha2.ResourceUnhealthy || err != nil {
		t.Errorf("Health = %s, %v", health, err)
	}
	refs, err := i.Dependencies(o)
	wantRefs := []Reference{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "b"},
	}
	if diff := cmp.Diff(wantRefs, refs); diff != "" || err != nil {
		t.Errorf("Dependencies: %v %s", err, diff)
	}
	replicas, err := i.Replicas(o)
	const wantReplicas = `[{"name":"a","replicas":2,"replicaRequirements":{"nodeClaim":{"nodeSelector":{"x":"y"},"tolerations":[{"key":"k","operator":"Exists"}]},` +
		`"resourceRequest":{"cpu":"1","memory":"1Gi"},"namespace":"shop","priorityClassName":"high"}},{"name":"b","replicas":0}]`
	if diff := cmp.Diff(wantReplicas, jsonText(replicas.Components)); diff != "" || err != nil || !replicas.Workload || replicas.Count != 0 {
		t.Errorf("Replicas: %v %s", err, diff)
	}
}

func TestWrongResultsAreErrors(t *testing.T) {
	type rules = configv1alpha1.CustomizationRules
	health := func(body string) rules { return healthRule("function InterpretHealth(o) " + body + " end") }
	replicas := func(body string) rules {
		return rules{ReplicaResource: lines("function GetReplicas(o) " + body + " end")}
	}
	components := func(body string) rules {
		return rules{ComponentResource: lines("function GetComponents(o) " + body + " end")}
	}
	references := func(body string) rules {
		return rules{DependencyInterpretation: lines("function GetDependencies(o) " + body + " end")}
	}
	for _, tt := range []struct {
		rules rules
		want  string // "" means that the result is good
	}{
		{health(`return nil`), "must return a boolean, it returned a nil value"},
		{health(`return 1`), "must return a boolean, it returned a number value"},
		{health(`return true, "x"`), ""},
		{healthRule(`function Health(o) return true end`), "does not define the function InterpretHealth"},
		{healthRule(`InterpretHealth = true`), "does not define the function InterpretHealth"},
		{healthRule(`local function InterpretHealth(o) return true end`), "does not define the function InterpretHealth"},
		{healthRule("\nerror('at once')"), "line 2: at once"},
		{health("\n\nreturn o.status.phase == 'Ready'"), "line 3: attempt to index a non-table object(nil) with key 'phase'"},
		{replicas(`return "3"`), "must return the number of replicas first, it returned a string value"},
		{replicas(`return nil`), "must return the number of replicas first, it returned a nil value"},
		{replicas(`return 2.9`), ""},
		{replicas(`return -1`), "number of replicas, it must be from 0 to 2147483647"},
		{replicas(`return 3e9`), "number of replicas, it must be from 0 to 2147483647"},
		{replicas(`return 0/0`), "number of replicas, it must be from 0 to 2147483647"},
		{replicas(`return 1, nil`), ""},
		{replicas(`return 1, {}`), ""},
		{replicas(`return 1, "x"`), "the requirement as a table, it returned a string value"},
		{replicas(`return 1, {resourceRequest = {cpu = "many"}}`), `resourceRequest.cpu: "many" is no quantity`},
		{replicas(`return 1, {resourceRequest = {cpu = "1e-900000000"}}`), `is no quantity`},
		{replicas(`return 1, {nodeClaim = "x"}`), "the requirement that the function returned is not well formed"},
		{components(`return nil`), ""},
		{components(`return {}`), ""},
		{components(`return {{replicas = 1}}`), "component 1 has no name"},
		{components(`return {{name = "a"}, {name = "a"}}`), `two components are named "a"`},
		{components(`return {{name = "a", replicas = -1}}`), `component "a" has -1 replicas`},
		{components(`return {{name = "a", replicas = 1.5}}`), "the list of components that the function returned is not well formed"},
		{components(`return {{name = "a", replicaRequirements = {resourceRequest = {cpu = true}}}}`), "resourceRequest.cpu: true is no quantity"},
		{rules{ReplicaRevision: lines(`function ReviseReplica(o, n) end`)}, "must return a table, it returned a nil value"},
		{rules{ReplicaRevision: lines(`function ReviseReplica(o, n) return {1} end`)}, "must return an object, it returned a list"},
		{rules{Retention: lines(`function Retain(o, n) return true end`)}, "must return a table, it returned a boolean value"},
		{rules{StatusReflection: lines(`function ReflectStatus(o) return nil end`)}, "must return a table, it returned a nil value"},
		{rules{StatusReflection: lines(`function ReflectStatus(o) return {} end`)}, ""},
		{rules{StatusAggregation: lines(`function AggregateStatus(o, items) return nil end`)}, "must return the object as a table, it returned a nil value"},
		{rules{StatusAggregation: lines(`function AggregateStatus(o, items) return o end`)}, ""},
		{rules{StatusAggregation: lines(`function AggregateStatus(o, items) o.status = 1 return o end`)}, "must return a table, it returned a number value"},
		{references(`return nil`), "must return a list of references, it returned a nil value"},
		{references(`return {}`), ""},
		{references(`return {{kind = "Secret", name = "x"}}`), "a reference has no apiVersion"},
		{references(`return {{apiVersion = "v1", name = "x"}}`), "a reference has no kind"},
		{references(`return {{apiVersion = "v1", kind = "Secret"}}`), "neither name nor labelSelector"},
		{references(`return {{apiVersion = "v1", kind = "Secret", labelSelector = {matchExpressions = {{key = "a", operator = "Near"}}}}}`), "invalid labelSelector"},
		{references(`return {apiVersion = "v1"}`), "the list of references that the function returned is not well formed"},
	} {
		i := fleet(t, tt.rules)
		o := of("example.io/v1", "Fleet", `{}`)
		var errs []error
		for _, ask := range []func() error{
			func() error { _, err := i.Health(o); return err },
			func() error { _, err := i.Replicas(o); return err },
			func() error { _, err := i.Revise(o, 1); return err },
			func() error { _, err := i.Retain(o, o); return err },
			func() error { _, err := i.Status(o); return err },
			func() error { _, err := i.AggregateStatus(o, nil); return err },
			func() error { _, err := i.Dependencies(o); return err },
		} {
			errs = append(errs, ask())
		}
		err := errors.Join(errs...)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: error %v, want none", jsonText(tt.rules), err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q in it", jsonText(tt.rules), err, tt.want)
		}
	}
}

func TestProblemsOfCustomizations(t *testing.T) {
	type rules = configv1alpha1.CustomizationRules
	health := func(script string) rules { return rules{HealthInterpretation: lines(script)} }
	const good = `function InterpretHealth(o) return true end`
	for _, tt := range []struct {
		name string
		all  []*configv1alpha1.ResourceInterpreterCustomization
		want []string
	}{
		{"none", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health(good))}, nil},
		{"empty script", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health(""))}, nil},
		{"syntax", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health("function InterpretHealth(o)\n  retrun true\nend"))},
			[]string{`customization a: healthInterpretation: line 2: the script does not compile: parse error near "true"`}},
		{"ends too early", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health("function InterpretHealth(o)\n  return true\n"))},
			[]string{`customization a: healthInterpretation: line 2: the script does not compile: it ends in the middle of a statement`}},
		{"goto nowhere", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health("\ngoto nowhere"))},
			[]string{`customization a: healthInterpretation: line 3: the script does not compile: no visible label 'nowhere' for <goto> at line 2`}},
		{"too long", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health(good+strings.Repeat(" ", maxScript)))},
			[]string{`customization a: healthInterpretation: the script has 262187 bytes, at most 262144 are allowed`}},
		{"too deep", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health("x = "+strings.Repeat("not ", 300)+"true"))},
			[]string{`customization a: healthInterpretation: line 1: the script is nested more than 200 levels deep`}},
		{"no target", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "", "Pod", health(good))},
			[]string{`customization a: spec.target needs apiVersion and kind: name the kind whose rules these are`}},
		{"twice", []*configv1alpha1.ResourceInterpreterCustomization{customization("b", "v1", "Pod", health(good)), customization("a", "v1", "Pod", health(good))},
			[]string{`customization b: healthInterpretation: customization a already has this rule for v1 Pod, and the first by name is used: remove one of them`}},
		{"dependencies twice", []*configv1alpha1.ResourceInterpreterCustomization{
			customization("b", "v1", "Pod", rules{DependencyInterpretation: lines("function GetDependencies() end")}), customization("a", "v1", "Pod", rules{DependencyInterpretation: lines("function GetDependencies() end")})}, nil},
		{"different operations", []*configv1alpha1.ResourceInterpreterCustomization{
			customization("b", "v1", "Pod", health(good)), customization("a", "v1", "Pod", rules{Retention: lines("function Retain() end")})}, nil},
		{"one of two does not compile", []*configv1alpha1.ResourceInterpreterCustomization{customization("a", "v1", "Pod", health("(")), customization("b", "v1", "Pod", health(good))},
			[]string{`customization a: healthInterpretation: line 1: the script does not compile: it ends in the middle of a statement`}},
	} {
		_, problems := New(tt.all)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		_, checked := Check(tt.all)
		if diff := cmp.Diff(problems, checked); diff != "" {
			t.Errorf("%s: Check sees something else: %s", tt.name, diff)
		}
	}
}

func TestCheckRunsTheScripts(t *testing.T) {
	var got []string
	_, problems := Check([]*configv1alpha1.ResourceInterpreterCustomization{
		customization("a", "v1", "Pod", configv1alpha1.CustomizationRules{
			HealthInterpretation: lines("function Health(o) return true end"),
			Retention:            lines("local kube = require('kube')\nkube.nothing()\nfunction Retain() end"),
			StatusReflection:     lines("while true do end"),
		}),
	})
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		"customization a: healthInterpretation: the script does not define the function InterpretHealth",
		"customization a: retention: line 2: attempt to call a non-function object",
		"customization a: statusReflection: line 1: the script takes too long: it used up its 1000000 steps",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestARuleThatDoesNotCompileLeavesItsPlace to the next layer.
func TestARuleThatDoesNotCompileLeavesItsPlace(t *testing.T) {
	i, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("a", "apps/v1", "Deployment", healthRule("function"))})
	if len(problems) != 1 {
		t.Fatal(problems)
	}
	if health, err := i.Health(of("apps/v1", "Deployment", rolled)); health != "Healthy" || err != nil {
		t.Errorf("Health = %s, %v", health, err)
	}
	if i.Hash() != "" {
		t.Error("a rule that is not used changes the hash")
	}
}

func TestDependenciesOfAllScriptsAreUnited(t *testing.T) {
	of2 := func(names string) configv1alpha1.CustomizationRules {
		return configv1alpha1.CustomizationRules{DependencyInterpretation: lines(`
			function GetDependencies(o)
			  local refs = {}
			  for name in string.gmatch("` + names + `", "%a") do
			    refs[#refs + 1] = {apiVersion = "v1", kind = "Secret", namespace = "shop", name = name}
			  end
			  return refs
			end`)}
	}
	got, err := fleet(t, of2("c a"), of2("b a c")).Dependencies(of("example.io/v1", "Fleet", `{}`))
	if text := references(got); text != "Secret/shop/a Secret/shop/b Secret/shop/c" || err != nil {
		t.Errorf("Dependencies = %s, %v", text, err)
	}
	// Native references of a kind are not added to those of a user's script.
	got, err = interpreter(t, of2("a")).Dependencies(bigDeployment())
	if text := references(got); text != "Secret/shop/a" || err != nil {
		t.Errorf("Dependencies = %s, %v", text, err)
	}
}

func TestEmptyTablesAreWhatTheOriginalHas(t *testing.T) {
	for _, tt := range []struct{ spec, edit, want string }{
		{`{a: {}, b: [], c: {d: []}}`, ``, `{a: {}, b: [], c: {d: []}}`},
		{`{l: [{a: {}}, {b: []}]}`, ``, `{l: [{a: {}}, {b: []}]}`},
		{`{l: [{a: [1]}, {a: []}]}`, `o.spec.l[1].a = {}`, `{l: [{a: []}, {a: []}]}`},
		{`{l: [[], [{}]]}`, ``, `{l: [[], [[]]]}`}, // places in lists are ignored, and the list is found first
		{`{a: 1}`, `o.spec.new = {}`, `{a: 1}`},
		{`{a: 1}`, `o.spec.new = {deep = {}, x = 1}`, `{a: 1, new: {x: 1}}`},
		{`{a: {b: 1}}`, `o.spec.a = {}`, `{}`},
		{`{a: {b: 1}}`, `o.spec.a.b = nil`, `{}`},
		{`{a: null, b: 1}`, ``, `{b: 1}`},
		{`{n: 3, big: 9007199254740991, half: 0.5, neg: -7, f: 2.0}`, `o.spec.third = 9 / 3`, `{n: 3, big: 9007199254740991, half: 0.5, neg: -7, f: 2, third: 3}`},
		{`{t: true, s: "", u: "ü"}`, ``, `{t: true, s: "", u: "ü"}`},
	} {
		i := fleet(t, configv1alpha1.CustomizationRules{ReplicaRevision: lines("function ReviseReplica(o, n)\n" + tt.edit + "\nreturn o\nend")})
		got, err := i.Revise(of("example.io/v1", "Fleet", `{spec: `+tt.spec+`}`), 1)
		want := of("example.io/v1", "Fleet", `{spec: `+tt.want+`}`)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s with %q: %v %s", tt.spec, tt.edit, err, diff)
		}
	}
	// Retain looks at both originals.
	i := fleet(t, configv1alpha1.CustomizationRules{Retention: lines(`function Retain(d, o) d.spec.a = o.spec.a return d end`)})
	got, err := i.Retain(of("example.io/v1", "Fleet", `{spec: {b: {}}}`), of("example.io/v1", "Fleet", `{spec: {a: []}}`))
	if diff := cmp.Diff(of("example.io/v1", "Fleet", `{spec: {a: [], b: {}}}`), got); diff != "" || err != nil {
		t.Errorf("Retain: %v %s", err, diff)
	}
}

// evaluate runs the body of a function that returns a string.
func evaluate(t *testing.T, body string) string {
	t.Helper()
	i := fleet(t, configv1alpha1.CustomizationRules{StatusReflection: lines("local kube = require('kube')\nfunction ReflectStatus(o)\nlocal function f()\n" + body + "\nend\nreturn {result = f()}\nend")})
	got, err := i.Status(of("example.io/v1", "Fleet", `{}`))
	if err != nil {
		var failure *ScriptError
		if !errors.As(err, &failure) {
			t.Fatalf("error is %v, want a *ScriptError", err)
		}
		return "error: " + failure.Reason
	}
	s, ok := got["result"].(string)
	if !ok {
		return jsonText(got["result"])
	}
	return s
}

func TestKubeModule(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{`return kube.resourceAdd("100m", "1", nil, "0.5")`, "1600m"},
		{`return kube.resourceAdd("1Gi", "512Mi")`, "1536Mi"},
		{`return kube.resourceAdd()`, "0"},
		{`return kube.resourceAdd("x")`, `error: "x" is no quantity such as 500m or 2Gi`},
		{`return kube.resourceAdd({})`, `error: bad argument #1 (quantity expected, got table)`},
		{`return kube.getResourceQuantity("1500m")`, "1.5"},
		{`return kube.getResourceQuantity("1Gi")`, "1073741824"},
		{`return kube.getResourceQuantity(nil)`, "0"},
		{`return kube.getResourceQuantity("-1")`, "error: quantity -1 is negative or too large"},
		{`return kube.accuratePodRequirements({spec = {containers = {{resources = {limits = {cpu = "2"}}}}, nodeSelector = {a = "b"}}}).resourceRequest.cpu`, "2"},
		{`return kube.accuratePodRequirements({spec = {nodeSelector = {a = "b"}}}).nodeClaim.nodeSelector.a`, "b"},
		{`return tostring(kube.accuratePodRequirements({spec = {containers = {{}}}}))`, "nil"},
		{`return kube.accuratePodRequirements()`, "error: accuratePodRequirements takes one argument, the pod template"},
		{`return kube.accuratePodRequirements({}, {})`, "error: accuratePodRequirements takes one argument, the pod template"},
		{`return kube.accuratePodRequirements({spec = {containers = {{resources = {requests = {cpu = "x"}}}}}})`, `error: containers[0].resources.requests.cpu: "x" is no quantity such as 500m or 2Gi`},
		{`local d = kube.getPodDependencies({spec = {serviceAccountName = "sa"}}, "shop") return #d .. d[1].apiVersion .. d[1].kind .. d[1].namespace .. d[1].name`, "1v1ServiceAccountshopsa"},
		{`return kube.getPodDependencies({spec = {serviceAccountName = "sa"}}, nil)[1].namespace`, "default"},
		{`return tostring(#kube.getPodDependencies({}, nil))`, "0"},
		{`return kube.getPodDependencies({})`, "error: getPodDependencies takes two arguments, the pod template and the namespace"},
		{`return tostring(require("kube") == kube)`, "true"},
	} {
		if got := evaluate(t, tt.body); got != tt.want {
			t.Errorf("%s = %s, want %s", tt.body, got, tt.want)
		}
	}
}

func TestLibraries(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{`return os.date("%Y-%m-%d %H:%M:%S", 1767225600)`, "2026-01-01 00:00:00"},
		{`return os.date("!%a %A %b %B %d %I %j %p %x %X %y %Z %%", 1767225600)`, "Thu Thursday Jan January 01 12 001 AM 01/01/26 00:00:00 26 UTC %"},
		{`return os.date("!*t", 1767225600).yday + os.date("*t", 1767225600).year`, "2027"},
		{`return os.date("%Q", 0)`, "error: os.date does not know %Q"},
		{`return os.time({year = 2026, month = 1, day = 1, hour = 0})`, "1767225600"},
		{`return os.time({year = 2026, month = 1, day = 1})`, "1767268800"},
		{`return os.time({year = 2026, month = 1})`, "error: field 'day' missing in date table"},
		{`return string.format("%s %5.2f %03d %x %q %%", "a", 1.5, 7, 255, "b")`, `a  1.50 007 ff "b" %`},
		{`return string.format("%s %s", true, nil)`, "true nil"},
		{`return string.format("%s", {})`, "error: bad argument #2 to format (string or number expected, got table)"},
		{`return ("abc"):upper():lower():reverse():sub(2, 3) .. ("x"):len() .. ("a"):byte() .. string.char(98, 99)`, "ba197bc"},
		{`local t = {3, 1, 2} table.sort(t) table.insert(t, 4) table.insert(t, 1, 0) table.remove(t) return table.concat(t, ",") .. table.remove(t, 1) .. #t`, "0,1,2,303"},
		{`local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t, "", 2, 3)`, "21"},
		{`return tostring(table.remove({})) .. tostring(table.remove({1}, 5))`, "nilnil"},
		{`local t = {} t[3] = 1 t[2] = 1 t[1] = 1 return #t .. table.getn(t) .. table.maxn(t)`, "333"},
		{`local t = {1, 2, 3} t[2] = nil t[3] = nil return tostring(#t) .. tostring(next(t))`, "11"},
		{`local n = 0 for k, v in pairs({1, 2, a = 3}) do n = n + v end return n`, "6"},
		{`local ok, e = pcall(error, {code = 7}) return tostring(ok) .. e.code`, "false7"},
		{`local ok, e = xpcall(function() error("x", 0) end, function(e) return e .. "!" end) return tostring(ok) .. e`, "falsex!"},
		{`return select("#", 1, 2, 3) .. select(2, "a", "b") .. tonumber("0x10") .. tonumber("z", 36) .. type(nil)`, "3b1635nil"},
		{`return math.max(1, 2) .. math.floor(2.5) .. math.huge`, "221.7976931348623157e+308"},
		{`print("nothing") return _VERSION .. type(_G) .. tostring(undefined)`, "Lua 5.1tablenil"},
		{`assert(false, "said so")`, "error: said so"},
	} {
		if got := evaluate(t, tt.body); got != tt.want {
			t.Errorf("%s = %s, want %s", tt.body, got, tt.want)
		}
	}
}

// TestGuardsChangeNoMeaning: programs that use what is guarded give the same result as without guards.
func TestGuardsChangeNoMeaning(t *testing.T) {
	for _, program := range []string{
		`return "a" .. 1 .. 2.5 .. "b"`,
		`local function two() return "x", "y" end return two() .. two()`,
		`local function two() return "x", "y" end return "a" .. two(), "z"`,
		`local function f(...) return #{...} .. select("#", ...) end return f(nil, 2, nil)`,
		`local function f(...) return "a" .. ... end return f("b", "c")`,
		`local t = {} t[1], t[2], t[3] = 1, 2 return #t`,
		`local t, i = {}, 1 i, t[i] = i + 1, 20 return i .. t[1] .. tostring(t[2])`,
		`local a, b = {1}, {2} a[1], b[1] = b[1], a[1] return a[1] .. b[1]`,
		`local log = "" local function f(x) log = log .. x return x end local t = {} t[f(1)] = f(2) return log .. t[1]`,
		`local log = "" local function f(x) log = log .. x return x end local t = {} t[f(1)], t[f(2)] = f(3), f(4) return t[1] .. t[2]`,
		`local t = {n = 1} t.n, t["m"] = t.n + 1, t.n return t.n .. t.m`,
		`local t = {[1] = "a", ["b"] = "c", [2] = "d", x = {y = {z = 1}}} return t[1] .. t.b .. t[2] .. t.x.y.z`,
		`local function f() return 1, 2, 3 end local t = {f(), f()} return #t`,
		`local function f() return 1, 2, 3 end local t = {(f())} return #t`,
		`local t = {} function t.f(x) return x .. "f" end function t:g(x) return self.f(x) .. "g" end return t:g("a")`,
		`local function fact(n) if n <= 1 then return 1 end return n * fact(n - 1) end return fact(10)`,
		`local s = "" for i = 10, 1, -3 do s = s .. i end return s`,
		`local s, n = "", 0 repeat local m = n s = s .. m n = n + 1 until m >= 3 return s`,
		`local s = "" for i = 1, 3 do for j = 1, 3 do if j == 2 then goto continue end s = s .. i .. j ::continue:: end end return s`,
		`local s, i = "", 0 while true do i = i + 1 if i > 3 then break end s = s .. i end return s`,
		`return tostring("a" < "b") .. tostring("a" >= "b") .. tostring(1 < 2) .. tostring(not (1 == 1.0))`,
		`return tostring(#"abc" + #{1, 2} == 5 and "x" or "y")`,
		`return -"2" + "10" * 2 .. ""`,
		`local t = setmetatable and {} or {} t[#t + 1] = "a" t[#t + 1] = "b" t[#t] = nil return #t .. t[1]`,
		`local up = 0 local function inc() up = up + 1 return up end inc() inc() return up .. inc()`,
		`local t = {} for i = 1, 100 do t[i] = i end for i = 100, 51, -1 do t[i] = nil end return #t`,
		`x = {} x["y"] = 1 x.z = 2 return x.y .. x.z`,
		`return (function(...) local a, b = ... return (a or 0) .. (b or 0) end)(1)`,
	} {
		plain := lua.NewState()
		if err := plain.DoString(program); err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		want := plain.Get(1).String()
		plain.Close()
		if got := evaluate(t, program); got != want {
			t.Errorf("%s = %s, without guards %s", program, got, want)
		}
	}
}

func TestHashIsOfTheRules(t *testing.T) {
	rule := func(name, apiVersion, script string) *configv1alpha1.ResourceInterpreterCustomization {
		return customization(name, apiVersion, "Fleet", healthRule(script))
	}
	hash := func(all ...*configv1alpha1.ResourceInterpreterCustomization) string {
		i, _ := New(all)
		return i.Hash()
	}
	a, b := rule("a", "example.io/v1", "function InterpretHealth() return true end"), rule("b", "example.io/v2", "function InterpretHealth() return true end")
	if hash() != "" || (&Interpreter{}).Hash() != "" {
		t.Error("without rules there is a hash")
	}
	if hash(a, b) != hash(b, a) {
		t.Error("the order counts")
	}
	if hash(a) == hash(b) || hash(a) == hash(a, b) || hash(a) == hash(rule("a", "example.io/v1", "function InterpretHealth() return false end")) {
		t.Error("other rules have the same hash")
	}
}

func TestManyGoroutinesMayAsk(t *testing.T) {
	i := interpreter(t, healthRule(luaDeploymentHealth))
	o := bigDeployment()
	clone := of("apps.kruise.io/v1alpha1", "CloneSet", rolled)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				if health, err := i.Health(o); health != "Healthy" || err != nil {
					t.Errorf("Health = %s, %v", health, err)
				}
				if health, err := i.Health(clone); health != "Healthy" || err != nil {
					t.Errorf("Health = %s, %v", health, err)
				}
			}
		})
	}
	wait.Wait()
}

// TestHalfALetterIsNoText: status goes into JSON and YAML, which hold whole letters only.
func TestHalfALetterIsNoText(t *testing.T) {
	i := fleet(t, configv1alpha1.CustomizationRules{StatusReflection: lines(
		`function ReflectStatus(o) return {message = ("Größe"):sub(1, 3), [("ö"):sub(1, 1)] = {"\255", "good"}} end`)})
	got, err := i.Status(of("example.io/v1", "Fleet", `{}`))
	want := api.Object{"message": "Gr\ufffd", "\ufffd": []any{"\ufffd", "good"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Status: %v %s", err, diff)
	}
}

// What a script says of a Secret may hold its values in any form.
func TestErrorsKeepTheValuesOfSecrets(t *testing.T) {
	for name, script := range map[string]string{
		"error":    `function InterpretHealth(o) error("is " .. o.stringData.q) end`,
		"reversed": `function InterpretHealth(o) error(string.reverse(o.stringData.q)) end`,
		"field":    `function InterpretHealth(o) return o.stringData.q.x.y end`,
		"answer":   `function InterpretHealth(o) return o.stringData.q end`,
	} {
		t.Run(name, func(t *testing.T) {
			i, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("c", "v1", "Secret", healthRule(script))})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			_, err := i.Health(of("v1", "Secret", `{stringData: {q: hunter2}}`))
			var failure *ScriptError
			if !errors.As(err, &failure) || failure.Function != "InterpretHealth" {
				t.Fatalf("error is %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "2retnuh") || !strings.Contains(err.Error(), "Secret") {
				t.Errorf("the message is %q", err)
			}
		})
	}
}
