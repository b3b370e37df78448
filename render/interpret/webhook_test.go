package interpret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

// configured is a configuration whose webhooks begin in line 5.
func configured(t *testing.T, name, webhooks string) *manifest.Object {
	t.Helper()
	return rendertest.Object(t, fmt.Sprintf("apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterWebhookConfiguration\nmetadata: {name: %s}\nwebhooks:\n%s", name, webhooks))
}

const hookRest = `, interpreterContextVersions: [v1alpha1]}`

// hook is a webhook of one line for operations on kinds.
func hook(name, operations, groups, versions, kinds string) string {
	return fmt.Sprintf("- {name: %s, clientConfig: {url: \"https://%s/\"}, rules: [{operations: [%s], apiGroups: [%s], apiVersions: [%s], kinds: [%s]}]%s\n",
		name, name, operations, groups, versions, kinds, hookRest)
}

func TestFindingsOfWebhooks(t *testing.T) {
	const rule = `rules: [{operations: ["*"], apiGroups: [a.b], apiVersions: ["*"], kinds: [Foo]}]`
	const address = `clientConfig: {url: "https://a.b/c"}`
	for _, test := range []struct {
		name, webhooks string
		want           []string
	}{
		{"clean", "- {name: x.a.b, timeoutSeconds: 30, " + address + ", " + rule + hookRest, nil},
		{"name of two parts", "- {name: a.b, " + address + ", " + rule + hookRest, []string{"5 error webhook-name webhooks[0].name"}},
		{"name twice", "- {name: x.a.b, " + address + ", " + rule + hookRest + "\n- {name: x.a.b, " + address + ", " + rule + hookRest,
			[]string{"6 error duplicate-webhook-name webhooks[1].name"}},
		{"no address", "- {name: x.a.b, clientConfig: {}, " + rule + hookRest, []string{"5 error webhook-address webhooks[0].clientConfig"}},
		{"two addresses", "- {name: x.a.b, clientConfig: {url: 'https://a.b', service: {name: a, namespace: b}}, " + rule + hookRest, []string{"5 error webhook-address webhooks[0].clientConfig"}},
		{"http", "- {name: x.a.b, clientConfig: {url: 'http://a.b'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"no host", "- {name: x.a.b, clientConfig: {url: 'https:///x'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"user", "- {name: x.a.b, clientConfig: {url: 'https://me:secret@a.b'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"query", "- {name: x.a.b, clientConfig: {url: 'https://a.b?x=y'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"empty query", "- {name: x.a.b, clientConfig: {url: 'https://a.b?'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"fragment", "- {name: x.a.b, clientConfig: {url: 'https://a.b#x'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"no URL", "- {name: x.a.b, clientConfig: {url: 'https://a.b:x'}, " + rule + hookRest, []string{"5 error webhook-url webhooks[0].clientConfig.url"}},
		{"service", "- {name: x.a.b, clientConfig: {service: {name: a, namespace: b, path: /x, port: 8443}}, " + rule + hookRest, []string{"5 info webhook-service webhooks[0].clientConfig.service"}},
		{"bad service", "- {name: x.a.b, clientConfig: {service: {name: a.evil, namespace: '', path: '//evil/', port: 0}}, " + rule + hookRest, []string{
			"5 error missing-value webhooks[0].clientConfig.service.namespace", "5 error webhook-service webhooks[0].clientConfig.service.name",
			"5 error webhook-service webhooks[0].clientConfig.service.port", "5 error webhook-service webhooks[0].clientConfig.service.path",
			"5 info webhook-service webhooks[0].clientConfig.service"}},
		{"CA", "- {name: x.a.b, clientConfig: {url: 'https://a.b', caBundle: aGVsbG8=}, " + rule + hookRest, []string{"5 error webhook-ca webhooks[0].clientConfig.caBundle"}},
		{"too quick", "- {name: x.a.b, timeoutSeconds: 0, " + address + ", " + rule + hookRest, []string{"5 error webhook-timeout webhooks[0].timeoutSeconds"}},
		{"too slow", "- {name: x.a.b, timeoutSeconds: 31, " + address + ", " + rule + hookRest, []string{"5 error webhook-timeout webhooks[0].timeoutSeconds"}},
		{"versions", "- {name: x.a.b, interpreterContextVersions: [v2, v2], " + address + ", " + rule + "}", []string{
			"5 error webhook-versions webhooks[0].interpreterContextVersions[1]", "5 error webhook-versions webhooks[0].interpreterContextVersions"}},
		{"no versions", "- {name: x.a.b, " + address + ", " + rule + "}", []string{"5 error webhook-versions webhooks[0].interpreterContextVersions"}},
		{"no rules", "- {name: x.a.b, " + address + hookRest, []string{"5 warning no-effect webhooks[0].rules"}},
		{"empty lists", "- {name: x.a.b, " + address + ", rules: [{apiVersions: ['']}]" + hookRest, []string{
			"5 error missing-value webhooks[0].rules[0].operations", "5 error missing-value webhooks[0].rules[0].apiGroups",
			"5 error missing-value webhooks[0].rules[0].apiVersions[0]", "5 error missing-value webhooks[0].rules[0].kinds"}},
		{"unknown operation", hook("x.a.b", "Prune", `""`, "v1", "Foo"), []string{"5 error unknown-value webhooks[0].rules[0].operations[0]"}},
		{"* among others", hook("x.a.b", `"*", Retain`, `"*", a`, `v1, "*"`, `"*", Foo`), []string{
			"5 error webhook-rule webhooks[0].rules[0].operations", "5 error webhook-rule webhooks[0].rules[0].apiGroups",
			"5 error webhook-rule webhooks[0].rules[0].apiVersions", "5 error webhook-rule webhooks[0].rules[0].kinds"}},
		{"Secrets", hook("x.a.b", `"*"`, `""`, "v1", "Foo, Secret"), []string{"5 warning no-effect webhooks[0].rules[0].kinds"}},
		{"none", "", []string{"4 warning no-effect webhooks"}},
		{"typo", "- {name: x.a.b, timeout: 3, " + address + ", " + rule + hookRest, []string{"5 error unknown-field webhooks[0].timeout"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			webhooks, findings := CompileWebhooks([]*manifest.Object{configured(t, "hooks", test.webhooks)})
			var got []string
			failed := false
			for _, f := range findings {
				path, _, _ := strings.Cut(f.Message, ": ")
				got = append(got, fmt.Sprintf("%d %s %s %s", f.Line, f.Severity, f.Code, path))
				failed = failed || f.Severity == "error"
				if strings.Contains(f.Message, "secret") {
					t.Errorf("%q shows the password", f.Message)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if failed && len(webhooks) > 0 {
				t.Errorf("a configuration with an error gives webhooks")
			}
		})
	}
}

func TestWebhooksHaveAddressesAndTimeouts(t *testing.T) {
	webhooks, findings := CompileWebhooks([]*manifest.Object{configured(t, "hooks", `
- {name: a.x.y, clientConfig: {service: {name: s, namespace: ns}}`+hookRest+`
- {name: b.x.y, timeoutSeconds: 3, clientConfig: {service: {name: s, namespace: ns, port: 8443, path: /a/b}}`+hookRest+`
- {name: c.x.y, clientConfig: {url: "https://h:1/p"}`+hookRest)})
	var got []string
	for _, w := range webhooks {
		got = append(got, fmt.Sprint(w, " ", w.URL, " ", w.Timeout))
	}
	want := []string{"hooks/a.x.y https://s.ns.svc:443 10s", "hooks/b.x.y https://s.ns.svc:8443/a/b 3s", "hooks/c.x.y https://h:1/p 10s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s\n%v", diff, findings)
	}
}

// interpreterOf has webhooks of the configurations and hears answers.
func interpreterOf(t *testing.T, answers Answers, configurations ...*manifest.Object) *Interpreter {
	t.Helper()
	webhooks, findings := CompileWebhooks(configurations)
	for _, f := range findings {
		if f.Severity == "error" {
			t.Fatal(f)
		}
	}
	return (&Interpreter{}).WithWebhooks(webhooks).Hearing(answers)
}

// known answers are by key.
type knownAnswers map[Key]*Answer

func (k knownAnswers) Answer(key Key) *Answer { return k[key] }

func TestTheFirstWebhookThatMatchesIsAsked(t *testing.T) {
	i := interpreterOf(t, knownAnswers{},
		configured(t, "b", hook("z.first.b", "InterpretHealth", `"*"`, `"*"`, `"*"`)+hook("a.all.b", `"*"`, "apps", "v1", "Foo, Bar")),
		configured(t, "c", hook("a.components.c", "InterpretComponent", `""`, "v1", `"*"`)),
		configured(t, "a-b", hook("a.last.b", "ReviseReplica", "apps", `"*"`, `Foo`)),
	)
	for _, test := range []struct {
		apiVersion, kind string
		op               Operation
		want             string
	}{
		{"apps/v1", "Foo", InterpretReplica, "b/a.all.b"},
		{"apps/v1", "Foo", InterpretHealth, "b/a.all.b"},
		{"apps/v1", "Foo", ReviseReplica, "a-b/a.last.b"}, // "a-b/" is before "b/"
		{"apps/v1", "Foo", InterpretComponent, "<nil>"},   // "*" leaves it out
		{"apps/v2", "Foo", InterpretReplica, "<nil>"},
		{"apps/v2", "Foo", ReviseReplica, "a-b/a.last.b"},
		{"apps/v2", "Foo", InterpretHealth, "b/z.first.b"},
		{"apps/v1", "Baz", InterpretReplica, "<nil>"},
		{"v1", "Pod", InterpretComponent, "c/a.components.c"},
		{"v1", "Secret", InterpretHealth, "<nil>"},
		{"other/v1", "Secret", InterpretHealth, "b/z.first.b"},
	} {
		group, version := api.SplitAPIVersion(test.apiVersion)
		id := api.ID{Group: group, Version: version, Kind: test.kind, Name: "x"}
		if got := fmt.Sprint(i.Webhook(id, test.op)); got != test.want {
			t.Errorf("Webhook(%s %s, %s) = %s, want %s", test.apiVersion, test.kind, test.op, got, test.want)
		}
	}
}

func foo() api.Object {
	return api.Object{"apiVersion": "x.y/v1", "kind": "Foo", "metadata": map[string]any{"namespace": "ns", "name": "a"},
		"spec": map[string]any{"size": int64(3), "list": []any{"a", "b"}}, "status": map[string]any{"ok": true}}
}

var everyFoo = hook("all.x.y", `"*"`, "x.y", "v1", "Foo") + hook("components.x.y", "InterpretComponent", "x.y", "v1", "Bar")

// answered asks about o, has respond answer what is missing, and asks again.
func answered[T any](t *testing.T, ask func(*Interpreter) (T, error), respond func(*configv1alpha1.ResourceInterpreterRequest) map[string]any) (T, error) {
	t.Helper()
	known := knownAnswers{}
	i := interpreterOf(t, known, configured(t, "hooks", everyFoo))
	got, err := ask(i)
	var missing *UnansweredError
	if !errors.As(err, &missing) {
		t.Fatalf("without an answer: %v, %v, want an *UnansweredError", got, err)
	}
	body, err := missing.Body()
	if err != nil {
		t.Fatal(err)
	}
	var sent configv1alpha1.ResourceInterpreterContext
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	response := respond(sent.Request)
	if response["uid"] == nil {
		response["uid"] = string(sent.Request.UID)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": sent.APIVersion, "kind": sent.Kind, "response": response})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := missing.Decode(text)
	if err != nil {
		var none T
		return none, err
	}
	known[missing.Key] = answer
	return ask(i)
}

func patch(steps string) map[string]any {
	return map[string]any{"successful": true, "patchType": "JSONPatch", "patch": base64.StdEncoding.EncodeToString([]byte(steps))}
}

func bar() api.Object {
	o := foo()
	o["kind"] = "Bar"
	return o
}

// asking lists every question that can be asked, with its answer as JSON.
var asking = map[string]func(*Interpreter) (any, error){
	"replicas":     func(i *Interpreter) (any, error) { return i.Replicas(foo()) },
	"components":   func(i *Interpreter) (any, error) { return i.Replicas(bar()) },
	"revise":       func(i *Interpreter) (any, error) { return i.Revise(foo(), 7) },
	"retain":       func(i *Interpreter) (any, error) { return i.Retain(foo(), foo()) },
	"health":       func(i *Interpreter) (any, error) { return i.Health(foo()) },
	"status":       func(i *Interpreter) (any, error) { return i.Status(foo()) },
	"dependencies": func(i *Interpreter) (any, error) { return i.Dependencies(foo()) },
	"aggregate": func(i *Interpreter) (any, error) {
		return i.AggregateStatus(foo(), []StatusItem{{Cluster: "m1", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: api.Object{"n": int64(1)}}, {Cluster: "m2", AppliedMessage: "no"}})
	},
}

func TestAnswersOfWebhooks(t *testing.T) {
	yes := func(field string, v any) map[string]any { return map[string]any{"successful": true, field: v} }
	var deep any = "x"
	for range maxDepth + 2 {
		deep = []any{deep}
	}
	for _, test := range []struct {
		name, ask string
		response  map[string]any
		want      string // JSON of the answer, or what the error has in it
	}{
		{"replicas", "replicas", yes("replicas", 4), `{"Workload":true,"Count":4,"Requirements":null,"Components":null}`},
		{"requirements", "replicas", map[string]any{"successful": true, "replicas": 1, "replicaRequirements": map[string]any{"resourceRequest": map[string]any{"cpu": "1500m"}, "namespace": "ns"}},
			`{"Workload":true,"Count":1,"Requirements":{"resourceRequest":{"cpu":"1500m"},"namespace":"ns"},"Components":null}`},
		{"no replicas", "replicas", yes("healthy", true), "error: no response.replicas"},
		{"negative replicas", "replicas", yes("replicas", -1), "error: replicas: want a whole number"},
		{"too many replicas", "replicas", yes("replicas", 1<<31), "error: replicas: want a whole number"},
		{"text for replicas", "replicas", yes("replicas", "3"), "error: replicas: want a whole number"},
		{"requirements of another type", "replicas", map[string]any{"successful": true, "replicas": 1, "replicaRequirements": 3}, "error: response.replicaRequirements is not well formed"},
		{"absurd quantity", "replicas", map[string]any{"successful": true, "replicas": 1, "replicaRequirements": map[string]any{"resourceRequest": map[string]any{"cpu": "lots"}}}, "error: response.replicaRequirements"},
		{"components", "components", yes("components", []any{map[string]any{"name": "a", "replicas": 2}}), `{"Workload":true,"Count":0,"Requirements":null,"Components":[{"name":"a","replicas":2}]}`},
		{"no components", "components", yes("replicas", 1), `{"Workload":true,"Count":0,"Requirements":null,"Components":null}`},
		{"a component twice", "components", yes("components", []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}), "error: two components"},
		{"a component's absurd quantity", "components", yes("components", []any{map[string]any{"name": "a", "replicaRequirements": map[string]any{"resourceRequest": map[string]any{"cpu": "x"}}}}), "error: response.components"},
		{"revise", "revise", patch(`[{"op":"replace","path":"/spec/size","value":7}]`), `{"apiVersion":"x.y/v1","kind":"Foo","metadata":{"name":"a","namespace":"ns"},"spec":{"list":["a","b"],"size":7},"status":{"ok":true}}`},
		{"nothing to revise", "revise", map[string]any{"successful": true}, `{"apiVersion":"x.y/v1","kind":"Foo","metadata":{"name":"a","namespace":"ns"},"spec":{"list":["a","b"],"size":3},"status":{"ok":true}}`},
		{"another type of patch", "revise", map[string]any{"successful": true, "patchType": "MergePatch", "patch": "e30="}, `error: response.patchType is "MergePatch", it must be JSONPatch`},
		{"no type of patch", "revise", map[string]any{"successful": true, "patch": "e30="}, "error: response.patchType"},
		{"no base64", "revise", map[string]any{"successful": true, "patchType": "JSONPatch", "patch": "[]"}, "error: response.patch: is no base64"},
		{"no patch", "revise", patch("{}"), "error: response.patch: is no JSON list"},
		{"a patch that does not fit", "revise", patch(`[{"op":"remove","path":"/spec/no"}]`), `error: response.patch: step 1 (remove /spec/no): there is no "no"`},
		{"another object", "revise", patch(`[{"op":"replace","path":"/metadata/name","value":"b"}]`), "error: a webhook may not change apiVersion, kind, namespace or name"},
		{"another kind", "revise", patch(`[{"op":"replace","path":"/kind","value":"Secret"}]`), "error: a webhook may not change apiVersion, kind, namespace or name"},
		{"retain", "retain", patch(`[{"op":"remove","path":"/status"}]`), `{"apiVersion":"x.y/v1","kind":"Foo","metadata":{"name":"a","namespace":"ns"},"spec":{"list":["a","b"],"size":3}}`},
		{"healthy", "health", yes("healthy", true), `"Healthy"`},
		{"unhealthy", "health", yes("healthy", false), `"Unhealthy"`},
		{"no health", "health", yes("replicas", 1), "error: no response.healthy"},
		{"a word for healthy", "health", yes("healthy", "true"), "error: no response.healthy"},
		{"status", "status", yes("rawStatus", map[string]any{"n": 1}), `{"n":1}`},
		{"no status", "status", yes("healthy", true), "error: no response.rawStatus"},
		{"list for status", "status", yes("rawStatus", []any{1}), "error: no response.rawStatus"},
		{"dependencies", "dependencies", yes("dependencies", []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "namespace": "ns", "name": "b"}, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "b"}}),
			`[{"apiVersion":"v1","kind":"ConfigMap","namespace":"ns","name":"b"},{"apiVersion":"v1","kind":"Secret","namespace":"ns","name":"b"}]`},
		{"no dependencies", "dependencies", yes("healthy", true), "null"},
		{"a dependency without a name", "dependencies", yes("dependencies", []any{map[string]any{"apiVersion": "v1", "kind": "Secret"}}), "error: has neither name nor labelSelector"},
		{"aggregate", "aggregate", patch(`[{"op":"replace","path":"/status","value":{"n":1}},{"op":"remove","path":"/spec"}]`),
			`{"apiVersion":"x.y/v1","kind":"Foo","metadata":{"name":"a","namespace":"ns"},"spec":{"list":["a","b"],"size":3},"status":{"n":1}}`},
		{"not successful", "health", map[string]any{"healthy": true, "status": map[string]any{"message": "no\nidea", "code": 404}}, "error: the webhook says that it did not succeed: no idea (code 404)"},
		{"not successful, no word", "health", map[string]any{"successful": "yes", "healthy": true}, "error: no message (code 0)"},
		{"another uid", "health", map[string]any{"uid": "1-2", "successful": true, "healthy": true}, `error: the answer is to another question: its uid is "1-2"`},
		{"deep", "revise", patch(`[{"op":"add","path":"/spec/x","value":` + jsonText(deep) + `}]`), "error: too large or nested too deep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := answered(t, asking[test.ask], func(*configv1alpha1.ResourceInterpreterRequest) map[string]any { return test.response })
			if want, ok := strings.CutPrefix(test.want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, %v, want an error with %q", jsonText(got), err, want)
				}
				return
			}
			if text := jsonText(got); err != nil || text != test.want {
				t.Errorf("got %s, %v, want %s", text, err, test.want)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	i := interpreterOf(t, knownAnswers{}, configured(t, "hooks", everyFoo))
	_, err := i.Health(foo())
	var missing *UnansweredError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	for _, test := range []struct{ body, want string }{
		{"", "no JSON object"},
		{"<html>", "no JSON object"},
		{"[]", "no JSON object"},
		{"null", "it must be a config.karmada.io/v1alpha1 ResourceInterpreterContext"},
		{`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, `the answer is a "admission.k8s.io/v1 AdmissionReview"`},
		{`{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext"}`, "no response"},
		{`{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": []}`, "no response"},
		{`{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": {"healthy": true, "successful": true}}`, "another question"},
	} {
		if _, err := missing.Decode([]byte(test.body)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Decode(%s): %v, want an error with %q", test.body, err, test.want)
		}
	}
}

func TestRequestsOfWebhooks(t *testing.T) {
	for _, test := range []struct{ ask, want string }{
		{"replicas", `{"kind":{"group":"x.y","kind":"Foo","version":"v1"},"name":"a","namespace":"ns","object":OBJECT,"operation":"InterpretReplica"}`},
		{"revise", `{"kind":{"group":"x.y","kind":"Foo","version":"v1"},"name":"a","namespace":"ns","object":OBJECT,"operation":"ReviseReplica","replicas":7}`},
		{"retain", `{"kind":{"group":"x.y","kind":"Foo","version":"v1"},"name":"a","namespace":"ns","object":OBJECT,"observedObject":OBJECT,"operation":"Retain"}`},
		{"aggregate", `{"aggregatedStatus":[{"applied":true,"clusterName":"m1","health":"Healthy","status":{"n":1}},{"appliedMessage":"no","clusterName":"m2"}],` +
			`"kind":{"group":"x.y","kind":"Foo","version":"v1"},"name":"a","namespace":"ns","object":OBJECT,"operation":"AggregateStatus"}`},
	} {
		i := interpreterOf(t, knownAnswers{}, configured(t, "hooks", everyFoo))
		_, err := asking[test.ask](i)
		var missing *UnansweredError
		if !errors.As(err, &missing) {
			t.Fatal(err)
		}
		body, err := missing.Body()
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]any
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		request := object(sent["request"])
		if len(text(request["uid"])) != 36 || sent["kind"] != "ResourceInterpreterContext" || sent["apiVersion"] != "config.karmada.io/v1alpha1" {
			t.Errorf("%s: sent %s", test.ask, body)
		}
		delete(request, "uid")
		if got, want := jsonText(request), strings.ReplaceAll(test.want, "OBJECT", jsonText(foo())); got != want {
			t.Errorf("%s: request %s, want %s", test.ask, got, want)
		}
	}
}

func TestOneQuestionIsOneKey(t *testing.T) {
	key := func(configuration string, ask func(*Interpreter) (any, error)) Key {
		i := interpreterOf(t, knownAnswers{}, rendertest.Object(t, configuration))
		_, err := ask(i)
		var missing *UnansweredError
		if !errors.As(err, &missing) {
			t.Fatal(err)
		}
		return missing.Key
	}
	base := "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterWebhookConfiguration\nmetadata: {name: hooks}\nwebhooks:\n" + everyFoo
	health := func(change func(o, meta map[string]any)) func(*Interpreter) (any, error) {
		return func(i *Interpreter) (any, error) {
			o := foo()
			change(o, object(o["metadata"]))
			return i.Health(o)
		}
	}
	same := func(_, _ map[string]any) {}
	want := key(base, health(same))
	for _, test := range []struct {
		name          string
		configuration string
		ask           func(*Interpreter) (any, error)
		same          bool
	}{
		{"the same", base, health(same), true},
		{"another time-out", strings.Replace(base, "{name: all.x.y,", "{timeoutSeconds: 3, name: all.x.y,", 1), health(same), true},
		{"a write without a change", base, health(func(_, meta map[string]any) {
			meta["resourceVersion"], meta["managedFields"] = "7", []any{map[string]any{}}
		}), true},
		{"another status", base, health(func(o, _ map[string]any) { o["status"] = map[string]any{} }), false},
		{"another operation", base, asking["status"], false},
		{"another address", strings.Replace(base, "https://all.x.y/", "https://all.x.y/v2", 1), health(same), false},
		{"another mark", strings.Replace(base, "{name: hooks}", "{name: hooks, annotations: {release: '2'}}", 1), health(same), false},
	} {
		if got := key(test.configuration, test.ask) == want; got != test.same {
			t.Errorf("%s: the same key: %t, want %t", test.name, got, test.same)
		}
	}
	if key(base, asking["revise"]) == key(base, func(i *Interpreter) (any, error) { return i.Revise(foo(), 8) }) {
		t.Error("the number of replicas is not in the key")
	}
}

func TestWebhooksStandBetweenTheUsersScriptsAndTheShippedOnes(t *testing.T) {
	configuration := configured(t, "hooks", hook("all.x.y", `"*"`, "apps, apps.kruise.io", `"*"`, "Deployment, CloneSet"))
	deployment := api.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicas": int64(2)}}
	cloneSet := api.Object{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{}}}}
	var missing *UnansweredError
	i := interpreterOf(t, knownAnswers{}, configuration)
	for _, o := range []api.Object{deployment, cloneSet} {
		if _, err := i.Replicas(o); !errors.As(err, &missing) {
			t.Errorf("%s: %v, want the webhook to be asked", o["kind"], err)
		}
		if deaf, err := (&Interpreter{}).WithWebhooks(i.Webhooks()).Replicas(o); err != nil || deaf.Count != 2 {
			t.Errorf("%s without answers: %v %v, want the next rule's 2", o["kind"], deaf, err)
		}
	}
	scripts, problems := New([]*configv1alpha1.ResourceInterpreterCustomization{customization("web", "apps/v1", "Deployment", configv1alpha1.CustomizationRules{
		ReplicaResource: lines(`function GetReplicas(o) return 5 end`),
	})})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	i = scripts.WithWebhooks(i.Webhooks()).Hearing(knownAnswers{})
	if got, err := i.Replicas(deployment); err != nil || got.Count != 5 {
		t.Errorf("with a script: %v %v, want its 5", got, err)
	}
	if _, err := i.Health(deployment); !errors.As(err, &missing) {
		t.Errorf("health: %v, want the webhook to be asked: layers are by operation", err)
	}
	if !i.Has(api.IDOf(cloneSet), Retain) || i.Webhook(api.IDOf(deployment), InterpretReplica) != nil || !i.Asks(api.IDOf(deployment)) || i.Asks(api.ID{Kind: "Pod", Version: "v1"}) {
		t.Error("Has, Webhook or Asks do not say so")
	}
}

func TestFailuresAreRetriedLater(t *testing.T) {
	now := time.Unix(1000, 0)
	var last *Answer
	var waits []string
	for range 8 {
		last = Failed("no", last, now)
		waits = append(waits, last.RetryAt.Sub(now).String())
	}
	if want := strings.Fields("1s 2s 4s 8s 16s 32s 1m0s 1m0s"); !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	for range 100 {
		last = Failed("no", last, now)
	}
	if wait := last.RetryAt.Sub(now); wait != longestRetry {
		t.Errorf("after many attempts: %s", wait)
	}
	// Decisions know full seconds alone: one at RetryAt is not too early.
	if a := Failed("no", nil, now.Add(time.Millisecond)); !a.RetryAt.Equal(now.Add(2 * time.Second)) {
		t.Errorf("a failure between seconds is retried %s after the second", a.RetryAt.Sub(now))
	}
	if a := Failed(strings.Repeat("é\n", 1000), nil, now); len(a.Failure) > 510 || strings.Contains(a.Failure, "\n") {
		t.Errorf("the reason is shown as %q", a.Failure)
	}
	known := failing{last}
	_, err := interpreterOf(t, known, configured(t, "hooks", everyFoo)).Health(foo())
	var missing *UnansweredError
	if !errors.As(err, &missing) || missing.Failed != last || err.Error() != "webhook hooks/all.x.y: no" {
		t.Errorf("health with a failure: %v", err)
	}
}

// failing has one answer for everything.
type failing struct{ answer *Answer }

func (f failing) Answer(Key) *Answer { return f.answer }

func TestJSONPatch(t *testing.T) {
	for _, test := range []struct{ name, doc, patch, want string }{
		{"add a field", `{"a":1}`, `[{"op":"add","path":"/b","value":{"c":[]}}]`, `{"a":1,"b":{"c":[]}}`},
		{"add null", `{}`, `[{"op":"add","path":"/b","value":null}]`, `{"b":null}`},
		{"add replaces", `{"a":1}`, `[{"op":"add","path":"/a","value":2}]`, `{"a":2}`},
		{"add into a list", `{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1,2,3]}`},
		{"append", `{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/a/2","value":3}]`, `{"a":[1,2,3]}`},
		{"beyond the end", `{"a":[1]}`, `[{"op":"add","path":"/a/2","value":2}]`, `error: the list has no position 2`},
		{"no parent", `{}`, `[{"op":"add","path":"/a/b","value":2}]`, `error: there is no "a"`},
		{"parent is a text", `{"a":"x"}`, `[{"op":"add","path":"/a/b","value":2}]`, `error: there is no "b"`},
		{"remove", `{"a":1,"b":[1,2]}`, `[{"op":"remove","path":"/a"},{"op":"remove","path":"/b/0"}]`, `{"b":[2]}`},
		{"replace", `{"a":{"b":[1]}}`, `[{"op":"replace","path":"/a/b/0","value":"x"}]`, `{"a":{"b":["x"]}}`},
		{"replace nothing", `{}`, `[{"op":"replace","path":"/a","value":1}]`, `error: there is no "a"`},
		{"replace at the end", `{"a":[1]}`, `[{"op":"replace","path":"/a/-","value":1}]`, `error: "-" is no position`},
		{"escapes", `{"a/b":1,"c~d":2}`, `[{"op":"remove","path":"/a~1b"},{"op":"replace","path":"/c~0d","value":3}]`, `{"c~d":3}`},
		{"empty key", `{"":1}`, `[{"op":"remove","path":"/"}]`, `{}`},
		{"leading zero", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, `error: "01" is no position`},
		{"negative", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/-1"}]`, `error: "-1" is no position`},
		{"move", `{"a":{"b":1},"c":[]}`, `[{"op":"move","from":"/a/b","path":"/c/-"}]`, `{"a":{},"c":[1]}`},
		{"move into itself", `{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, `error: moved into itself`},
		{"move to where it is", `{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`},
		{"copy", `{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/a/c"}]`, `{"a":{"b":1,"c":{"b":1}}}`},
		{"copy nothing", `{}`, `[{"op":"copy","from":"/a","path":"/b"}]`, `error: there is no "a"`},
		{"test", `{"a":[1,{"b":2.0}]}`, `[{"op":"test","path":"/a","value":[1.0,{"b":2}]}]`, `{"a":[1,{"b":2}]}`},
		{"test fails", `{"a":[1,{"b":2}]}`, `[{"op":"test","path":"/a","value":[1,{"b":3}]},{"op":"remove","path":"/a"}]`, `error: step 1 (test /a): the value is another one`},
		{"test of null", `{"a":null}`, `[{"op":"test","path":"/a","value":null}]`, `{"a":null}`},
		{"the whole object", `{}`, `[{"op":"add","path":"","value":{}}]`, `error: path is the whole object`},
		{"no slash", `{}`, `[{"op":"add","path":"a","value":{}}]`, `error: must begin with /`},
		{"no path", `{}`, `[{"op":"remove"}]`, `error: step 1: has no path`},
		{"no from", `{}`, `[{"op":"copy","path":"/a"}]`, `error: step 1: has no from`},
		{"no value", `{}`, `[{"op":"add","path":"/a"}]`, `error: step 1: add has no value`},
		{"no step", `{}`, `[1]`, `error: step 1: op is ""`},
		{"no such op", `{}`, `[{"op":"merge","path":"/a"}]`, `error: op is "merge"`},
		{"no steps", `{"a":1}`, `[]`, `{"a":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var doc map[string]any
			if err := utiljson.Unmarshal([]byte(test.doc), &doc); err != nil {
				t.Fatal(err)
			}
			before := jsonText(doc)
			steps, err := parsePatch(base64.StdEncoding.EncodeToString([]byte(test.patch)))
			var got api.Object
			if err == nil {
				got, err = apply(steps, doc)
			}
			if want, ok := strings.CutPrefix(test.want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %s, %v, want an error with %q", jsonText(got), err, want)
				}
			} else if text := jsonText(got); err != nil || text != test.want {
				t.Errorf("got %s, %v, want %s", text, err, test.want)
			}
			if after := jsonText(doc); after != before {
				t.Errorf("the document itself became %s", after)
			}
		})
	}
}

func TestAPatchCannotFillTheMemory(t *testing.T) {
	double := `{"op":"copy","from":"/a","path":"/a/b"},{"op":"copy","from":"/a","path":"/a/c"}`
	for name, patch := range map[string]string{
		"copies of copies": "[" + strings.Repeat(double+",", 100) + double + "]",
		"many steps":       "[" + strings.Repeat(`{"op":"remove","path":"/a"},`, maxPatchSteps) + `{"op":"remove","path":"/a"}]`,
		"a large list":     `[{"op":"add","path":"/l","value":[` + strings.Repeat("0,", 100_000) + "0]}," + strings.Repeat(`{"op":"add","path":"/l/-","value":0},`, 5000) + `{"op":"remove","path":"/l"}]`,
	} {
		steps, err := parsePatch(base64.StdEncoding.EncodeToString([]byte(patch)))
		if err == nil {
			_, err = apply(steps, api.Object{"a": map[string]any{"x": "y"}})
		}
		if err == nil || !strings.Contains(err.Error(), "too much") && !strings.Contains(err.Error(), "are allowed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAnswer: whatever a server sends is an answer that can be used, or an error.
func FuzzAnswer(f *testing.F) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range asking {
			if !yield(name) {
				return
			}
		}
	})
	for n, response := range []string{
		`{"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}`, `{"components": [{"name": "a", "replicas": 1}]}`,
		`{"patchType": "JSONPatch", "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMveCIsInZhbHVlIjp7fX1d"}`, `{"healthy": false}`,
		`{"rawStatus": {"a": [1, 2.5, null]}}`, `{"dependencies": [{"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchLabels": {"a": "b"}}}]}`,
	} {
		for i := range names {
			f.Add(uint8(i), []byte(response))
			f.Add(uint8(i+n), []byte(`{"uid": "x", "successful": 1}`))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, response []byte) {
		ask := asking[names[int(which)%len(names)]]
		known := knownAnswers{}
		i := interpreterOf(t, known, configured(t, "hooks", everyFoo))
		_, err := ask(i)
		var missing *UnansweredError
		if !errors.As(err, &missing) {
			t.Fatal(err)
		}
		// The frame is right, so that what is inside is reached.
		var v map[string]any
		if utiljson.Unmarshal(response, &v) == nil && v != nil {
			v["uid"], v["successful"] = string(missing.uid()), true
			response, err = json.Marshal(map[string]any{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": v})
			if err != nil {
				t.Fatal(err)
			}
		}
		answer, err := missing.Decode(response)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		known[missing.Key] = answer
		first, err := ask(i)
		if err != nil {
			t.Fatalf("an answer that was good before fails: %v", err)
		}
		if second, err := ask(i); err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("asked again: %v, %v, first %v", second, err, first)
		}
	})
}

// TestAddAndRemoveIsNothing is a law of patches; each document stays as it is on the way.
func TestAddAndRemoveIsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{"a": rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "n") }), 0, 4).Draw(t, "list"), "m": map[string]any{"k": "v"}}
		before := jsonText(doc)
		at := rapid.IntRange(0, len(doc["a"].([]any))).Draw(t, "at")
		path := rapid.SampledFrom([][]string{{"new"}, {"m", "new"}, {"a", fmt.Sprint(at)}}).Draw(t, "path")
		added, err := apply([]patchStep{{op: "add", path: path, value: "x"}}, doc)
		if err != nil {
			t.Fatal(err)
		}
		removed, err := apply([]patchStep{{op: "test", path: path, value: "x"}, {op: "remove", path: path}}, added)
		if err != nil || jsonText(removed) != before || jsonText(doc) != before {
			t.Fatalf("%s after add and remove at %v: %s %v, and itself %s", before, path, jsonText(removed), err, jsonText(doc))
		}
	})
}
