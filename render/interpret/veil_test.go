package interpret

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
)

// everything is Lua that makes a text of everything in an object.
const everything = `
local function all(v)
  if type(v) ~= "table" then return tostring(v) end
  local s = ""
  for k, below in pairs(v) do s = s .. tostring(k) .. "=" .. all(below) .. ";" end
  return s
end
`

func secretRules(t testing.TB, rules configv1alpha1.CustomizationRules) *Interpreter {
	t.Helper()
	i, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("c", "v1", "Secret", rules)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return i
}

func luaRule(script string) *configv1alpha1.LuaRule {
	return &configv1alpha1.LuaRule{LuaScript: everything + script}
}

const hidden = `{stringData: {q: hunter2}, data: {p: aHVudGVyMg==, n: 4711, l: [hunter3]}, stringdata: {x: hunter4}, type: Opaque,
  metadata: {labels: {a: b}, annotations: {note: mine, kubectl.kubernetes.io/last-applied-configuration: '{"data": "hunter5"}'}}}`

// TestScriptsSeeNoValuesOfSecrets, whatever they are asked.
func TestScriptsSeeNoValuesOfSecrets(t *testing.T) {
	o, live := of("v1", "Secret", hidden), of("v1", "Secret", hidden)
	before := fmt.Sprint(o)
	i := secretRules(t, configv1alpha1.CustomizationRules{
		ReplicaResource:          luaRule(`function GetReplicas(o) return 1, {nodeClaim = {nodeSelector = {a = all(o)}}} end`),
		ReplicaRevision:          luaRule(`function ReviseReplica(o, n) o.metadata.labels.a = all(o) o.type = all(o) return o end`),
		Retention:                luaRule(`function Retain(o, live) o.data.new = all(o) .. all(live) o.data[all(live)] = "x" return o end`),
		StatusAggregation:        luaRule(`function AggregateStatus(o, items) o.status = {text = all(o)} return o end`),
		StatusReflection:         luaRule(`function ReflectStatus(o) return {text = all(o)} end`),
		HealthInterpretation:     luaRule(`function InterpretHealth(o) return all(o):find("hunter2") ~= nil end`),
		DependencyInterpretation: luaRule(`function GetDependencies(o) return {{apiVersion = "v1", kind = "ConfigMap", namespace = "shop", name = all(o)}} end`),
	})
	components := secretRules(t, configv1alpha1.CustomizationRules{ComponentResource: luaRule(`function GetComponents(o) return {{name = all(o), replicas = 1}} end`)})
	for name, ask := range map[string]func() (any, error){
		"Replicas":     func() (any, error) { return told(i.Replicas(o)) },
		"Components":   func() (any, error) { return told(components.Components(o)) },
		"Revise":       func() (any, error) { r, err := i.Revise(o, 3); return []any{r["metadata"], r["type"]}, err },
		"Aggregate":    func() (any, error) { r, err := i.AggregateStatus(o, nil); return r["status"], err },
		"Status":       func() (any, error) { return told(i.Status(live)) },
		"Health":       func() (any, error) { return told(i.Health(live)) },
		"Dependencies": func() (any, error) { return told(i.Dependencies(o)) },
		"Retain": func() (any, error) {
			r, err := i.Retain(o, live)
			values := object(r["data"])
			names := []any{values["new"]}
			for name := range values {
				names = append(names, name)
			}
			return names, err
		},
	} {
		got, err := ask()
		said := fmt.Sprint(got)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, value := range []string{"hunter", "aHVudGVyMg", "4711"} {
			if strings.Contains(said, value) {
				t.Errorf("%s tells a value: %s", name, said)
			}
		}
		if name != "Health" && !strings.Contains(said, "of a Secret)") {
			t.Errorf("%s is not about the values: %s", name, said)
		}
	}
	if health, _ := i.Health(live); health != "Unhealthy" {
		t.Errorf("the health depends on a value: %s", health)
	}
	if after := fmt.Sprint(o); after != before {
		t.Errorf("the argument was changed from %s to %s", before, after)
	}
}

func told[T any](v T, err error) (any, error) {
	text, _ := json.Marshal(v)
	return string(text), err
}

// TestRetainMovesValuesOfASecret as if it saw them, and changes nothing else.
func TestRetainMovesValuesOfASecret(t *testing.T) {
	for name, tt := range map[string]struct{ script, desired, live, want string }{
		"a value":         {`desired.data.a = observed.data.a`, `{data: {a: eA==, b: eQ==}}`, `{data: {a: eg==}}`, `{data: {a: eg==, b: eQ==}}`},
		"all values":      {`desired.data = observed.data`, `{data: {a: eA==}}`, `{data: {a: eg==, c: ""}}`, `{data: {a: eg==, c: ""}}`},
		"of a new field":  {`desired.data = observed.data desired.stringData = nil`, `{stringData: {a: x}}`, `{data: {a: eg==}}`, `{data: {a: eg==}}`},
		"taken out":       {`desired.data.a = nil`, `{data: {a: eA==, b: eQ==}}`, `{}`, `{data: {b: eQ==}}`},
		"of the script":   {`desired.data.a = "eA=="`, `{data: {a: eQ==}}`, `{}`, `{data: {a: eA==}}`},
		"none to keep":    {``, `{}`, `{data: {a: eg==}}`, `{}`},
		"no value":        {`desired.data = observed.data`, `{data: null}`, `{}`, `{}`},
		"a changed type":  {`desired.type = "x"`, `{type: Opaque, data: {a: eA==}}`, `{}`, `{type: Opaque, data: {a: eA==}}`},
		"a new type":      {`desired.type = "x"`, `{data: {a: eA==}}`, `{}`, `{data: {a: eA==}}`},
		"immutable":       {`desired.immutable = true`, `{immutable: false}`, `{}`, `{immutable: false}`},
		"metadata":        {`desired.metadata.labels = {x = "y"}`, `{metadata: {labels: {a: b}}}`, `{}`, `{metadata: {labels: {a: b}}}`},
		"an unknown one":  {`desired.spec = {a = desired.data.a}`, `{data: {a: eA==}}`, `{}`, `{data: {a: eA==}}`},
		"one to take out": {`desired.stringdata = nil`, `{stringdata: {a: x}}`, `{}`, `{stringdata: {a: x}}`},
	} {
		t.Run(name, func(t *testing.T) {
			i := secretRules(t, configv1alpha1.CustomizationRules{Retention: luaRule("function Retain(desired, observed) " + tt.script + " return desired end")})
			got, err := i.Retain(of("v1", "Secret", tt.desired), of("v1", "Secret", tt.live))
			if diff := cmp.Diff(of("v1", "Secret", tt.want), got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

// TestVeilLaws: what is lifted is as it was, and under the veil all but names and empty values is gone.
func TestVeilLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](""), rapid.Just[any](true), rapid.Map(rapid.StringMatching(`v[a-z]{2,8}`), func(s string) any { return s }),
			rapid.Map(rapid.Int64Range(1000, 9999), func(n int64) any { return n }))
		values := rapid.Map(rapid.MapOfN(rapid.StringMatching(`k[a-z]`), value, 0, 4), func(m map[string]any) any { return m })
		secret := func(what string) api.Object {
			o := rapid.MapOfN(rapid.SampledFrom([]string{"data", "stringData", "stringdata"}), rapid.OneOf(value, values), 0, 3).Draw(t, what)
			o["apiVersion"], o["kind"], o["metadata"] = "v1", "Secret", map[string]any{"name": "s"}
			return o
		}
		a, b := secret("a"), secret("b")
		v, shown := veiled([]any{a, int64(3), b})
		for i, o := range []api.Object{a, b} {
			under := v.shown[i]
			if !reflect.DeepEqual(shown[2*i], any(under)) {
				t.Fatalf("the script gets %v, its answer is compared with %v", shown[2*i], under)
			}
			if lifted := v.lifted(under); !reflect.DeepEqual(lifted, o) {
				t.Fatalf("%v is lifted to %v", o, lifted)
			}
			var look func(v any)
			look = func(v any) {
				m, ok := v.(map[string]any)
				for _, below := range m {
					look(below)
				}
				if s, _ := v.(string); !ok && v != nil && v != "" && !strings.HasSuffix(s, "of a Secret)") {
					t.Fatalf("%v is seen of %v", v, o)
				}
			}
			for _, field := range []string{"data", "stringData", "stringdata"} {
				look(under[field])
			}
		}
	})
}
