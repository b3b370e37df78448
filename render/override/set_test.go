package override

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// manifests reads the documents of one file, policies.yaml.
func manifests(t testing.TB, text string) []*manifest.Object {
	t.Helper()
	units := manifest.Read(fstest.MapFS{"policies.yaml": {Data: []byte(text)}}, manifest.Options{})
	objects, _, findings := manifest.Settle(units, manifest.NewScope(nil, nil), "default")
	for _, u := range units {
		findings = append(findings, u.Findings...)
	}
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return objects
}

// compile fails the test if there are findings.
func compile(t testing.TB, text string) *Set {
	t.Helper()
	s, findings := Compile(manifests(t, text))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return s
}

// object reads a template.
func object(t testing.TB, text string) api.Object {
	t.Helper()
	o := manifests(t, text)
	if len(o) != 1 {
		t.Fatalf("%d objects, want 1", len(o))
	}
	return o[0].Content
}

// policy writes a policy with one rule, whose overriders are given with or without their indent.
func policyText(kind, name, selectors, overriders string) string {
	return fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec:\n  resourceSelectors: %s\n  overrideRules:\n  - overriders: %s\n---\n",
		kind, name, selectors, overriders)
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 3
  template:
    spec:
      initContainers:
      - {name: init, image: "busybox:1"}
      containers:
      - {name: app, image: "reg.io/team/web:v1", command: [run], args: [-a, -b, -a]}
      - {name: proxy, image: "envoy:v2"}
`

var kube01 = &affinity.Cluster{Name: "kube01", Labels: map[string]string{"env": "prod"}, Provider: "aws"}

// apply renders o for kube01; the answer is the object as YAML, or the error.
func apply(t testing.TB, s *Set, o api.Object) string {
	t.Helper()
	r, err := s.Apply(o, api.IDOf(o), kube01, false)
	if err != nil {
		return "error: " + err.Error()
	}
	return text(t, r.Object)
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mark is an overrider that sets the annotation by to a value and appends the value to args.
func mark(value string) string {
	return fmt.Sprintf("{annotationsOverrider: [{operator: add, value: {by: %s}}], argsOverrider: [{containerName: app, operator: add, value: [%s]}]}", value, value)
}

func TestTheMostPreciseAndLastNameHasTheLastWord(t *testing.T) {
	byKind := "[{apiVersion: apps/v1, kind: Deployment}]"
	byLabel := "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}]"
	byName := "[{apiVersion: apps/v1, kind: Deployment, name: web}]"
	for _, test := range []struct {
		name, policies, want string
	}{
		{"cluster before namespaced", policyText("OverridePolicy", "a", "[]", mark("op")) + policyText("ClusterOverridePolicy", "z", byName, mark("cop")), "cop op"},
		{"kind, label, name", policyText("OverridePolicy", "a", byName, mark("name")) + policyText("OverridePolicy", "b", byLabel, mark("label")) + policyText("OverridePolicy", "c", byKind, mark("kind")), "kind label name"},
		{"names ascending", policyText("OverridePolicy", "b", byKind, mark("b")) + policyText("OverridePolicy", "a", byKind, mark("a")), "a b"},
		{"no selectors count as kind", policyText("OverridePolicy", "b", "[]", mark("b")) + policyText("OverridePolicy", "a", byKind, mark("a")), "a b"},
		{"best selector counts", policyText("OverridePolicy", "a", "[{apiVersion: apps/v1, kind: Deployment}, {apiVersion: apps/v1, kind: Deployment, name: web}]", mark("a")) + policyText("OverridePolicy", "b", byLabel, mark("b")), "b a"},
		{"other kinds", policyText("OverridePolicy", "a", "[{apiVersion: apps/v1, kind: StatefulSet}]", mark("a")) + policyText("OverridePolicy", "b", "[{apiVersion: v1, kind: Deployment}]", mark("b")), ""},
		{"other namespaces", strings.Replace(policyText("OverridePolicy", "a", "[]", mark("a")), "{name: a}", "{name: a, namespace: prod}", 1), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := compile(t, test.policies)
			r, err := s.Apply(object(t, web), api.IDOf(object(t, web)), kube01, false)
			if err != nil {
				t.Fatal(err)
			}
			pod := r.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			var got []string
			for _, arg := range pod["containers"].([]any)[0].(map[string]any)["args"].([]any)[3:] {
				got = append(got, arg.(string))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("applied %q, want %q", got, test.want)
			}
		})
	}
}

func TestRulesApplyWhereTheirTargetMatches(t *testing.T) {
	rule := func(target, value string) string {
		return "  - {targetCluster: " + target + ", overriders: " + mark(value) + "}\n"
	}
	s := compile(t, "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: a}\nspec:\n  overrideRules:\n"+
		rule("{clusterNames: [kube01]}", "name")+rule("{clusterNames: [kube02]}", "other")+rule("{labelSelector: {matchLabels: {env: prod}}}", "label")+
		rule("{exclude: [kube01]}", "exclude")+rule("{fieldSelector: {matchExpressions: [{key: provider, operator: In, values: [aws]}]}}", "field")+rule("null", "nil"))
	r, err := s.Apply(object(t, web), api.IDOf(object(t, web)), kube01, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range r.Steps {
		if strings.Contains(step.Field, "args") {
			got = append(got, fmt.Sprintf("{%s %s %t}", step.Policy, step.Field, step.Changed))
		}
	}
	want := []string{
		"{OverridePolicy default/a spec.overrideRules[0].overriders.argsOverrider[0] true}",
		"{OverridePolicy default/a spec.overrideRules[2].overriders.argsOverrider[0] true}",
		"{OverridePolicy default/a spec.overrideRules[4].overriders.argsOverrider[0] true}",
		"{OverridePolicy default/a spec.overrideRules[5].overriders.argsOverrider[0] true}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.Namespaced) != 4 || r.Cluster != nil {
		t.Errorf("record has %d and %d entries, want 4 and none", len(r.Namespaced), len(r.Cluster))
	}
}

func TestTheSecondStageSeesLabelsOfTheFirst(t *testing.T) {
	s := compile(t, policyText("ClusterOverridePolicy", "a", "[]", "{labelsOverrider: [{operator: add, value: {tier: gold}}]}")+
		policyText("ClusterOverridePolicy", "b", "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: gold}}}]", mark("cluster"))+
		policyText("OverridePolicy", "c", "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: gold}}}]", mark("namespaced")))
	got := apply(t, s, object(t, web))
	if !strings.Contains(got, "by: namespaced") || strings.Contains(got, "- cluster\n") {
		t.Errorf("got\n%s\nwant the marks of the namespaced policy only", got)
	}
}

func TestOverridersHaveAFixedOrder(t *testing.T) {
	s := compile(t, policyText("OverridePolicy", "a", "[]", `
      plaintext: [{path: /metadata/annotations/conf, operator: replace, value: last}]
      fieldOverrider: [{fieldPath: /metadata/annotations/conf, json: [{subPath: /a, operator: replace, value: 2}]}]
      annotationsOverrider: [{operator: add, value: {conf: '{"a":1}'}}]
      labelsOverrider: [{operator: add, value: {l: x}}]
      argsOverrider: [{containerName: app, operator: remove, value: [-a]}]
      commandOverrider: [{containerName: app, operator: add, value: [now]}]
      imageOverrider: [{component: Tag, operator: replace, value: v9}]`))
	r, err := s.Apply(object(t, web), api.IDOf(object(t, web)), kube01, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range r.Steps {
		_, field, _ := strings.Cut(step.Field, "overriders.")
		got = append(got, field)
	}
	want := []string{"imageOverrider[0]", "commandOverrider[0]", "argsOverrider[0]", "labelsOverrider[0]", "annotationsOverrider[0]", "fieldOverrider[0]", "plaintext"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := text(t, r.Object["metadata"]); !strings.Contains(got, "conf: last") {
		t.Errorf("metadata is\n%s\nwant conf: last", got)
	}
}

func TestEntriesDoWhatTheySay(t *testing.T) {
	for _, test := range []struct {
		name, overriders string
		before, after    string // a piece of the object, as YAML, and what it becomes
	}{
		{"image of every container, not of init containers", "{imageOverrider: [{component: Registry, operator: replace, value: eu.io}]}",
			"image: reg.io/team/web:v1\n|image: envoy:v2\n", "image: eu.io/team/web:v1\n|image: eu.io/envoy:v2\n"},
		{"image at a path", "{imageOverrider: [{predicate: {path: /spec/template/spec/initContainers/0/image}, component: Tag, operator: replace, value: '2'}]}",
			"image: busybox:1\n", "image: busybox:2\n"},
		{"command added", "{commandOverrider: [{containerName: proxy, operator: add, value: [x]}]}", "- image: envoy:v2\n", "- command:\n        - x\n        image: envoy:v2\n"},
		{"command removed where none is", "{commandOverrider: [{containerName: proxy, operator: remove, value: [x]}]}", "- image: envoy:v2\n", "- command: []\n        image: envoy:v2\n"},
		{"args removed", "{argsOverrider: [{containerName: app, operator: remove, value: [-a]}]}", "- -a\n        - -b\n        - -a\n", "- -b\n"},
		{"no such container", "{argsOverrider: [{containerName: nobody, operator: remove, value: [-a]}]}", "", ""},
		{"label added", "{labelsOverrider: [{operator: add, value: {app: x, m: z}}]}", "app: web\n", "app: x\n    m: z\n"},
		{"label replaced if there", "{labelsOverrider: [{operator: replace, value: {app: x, m: z}}]}", "app: web\n", "app: x\n"},
		{"label removed", "{labelsOverrider: [{operator: remove, value: {app: x, m: z}}]}", "labels:\n    app: web\n", "labels: {}\n"},
		{"annotations made", "{annotationsOverrider: [{operator: add, value: {m: z}}]}", "labels:\n", "annotations:\n    m: z\n  labels:\n"},
		{"annotations not made", "{annotationsOverrider: [{operator: replace, value: {m: z}}, {operator: remove, value: {m: z}}]}", "", ""},
		{"plaintext", "{plaintext: [{path: /spec/replicas, operator: replace, value: 7}, {path: /spec/paused, operator: add, value: true}]}", "replicas: 3\n", "paused: true\n  replicas: 7\n"},
		{"plaintext without value", "{plaintext: [{path: /spec/replicas, operator: replace}]}", "replicas: 3\n", "replicas: null\n"},
		{"plaintext in lists", "{plaintext: [{path: /spec/template/spec/containers/-1, operator: remove}, {path: /spec/template/spec/containers/0/args/-, operator: add, value: -c}]}",
			"- -a\n        command:|      - image: envoy:v2\n        name: proxy\n", "- -a\n        - -c\n        command:|"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := object(t, web)
			want := text(t, o)
			before, after := strings.Split(test.before, "|"), strings.Split(test.after, "|")
			for i := range before {
				if !strings.Contains(want, before[i]) {
					t.Fatalf("no %q in\n%s", before[i], want)
				}
				want = strings.Replace(want, before[i], after[i], 1)
			}
			got := apply(t, compile(t, policyText("OverridePolicy", "a", "[]", test.overriders)), o)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, web), o); diff != "" {
				t.Errorf("the template was changed:\n%s", diff)
			}
		})
	}
}

func TestAFailureNamesTheEntryAndTheLine(t *testing.T) {
	for _, test := range []struct{ overriders, want string }{
		{"{plaintext: [{path: /spec/replicas, operator: remove}, {path: /spec/x/y, operator: add, value: 1}]}", "plaintext[1]: add /spec/x/y: there is no /spec/x"},
		{"{plaintext: [{path: /metadata/labels/app, operator: replace, value: 1}]}", "plaintext: metadata.labels of the result has a value that is no string; put it in quotes"},
		{"{plaintext: [{path: /metadata/labels, operator: replace, value: []}]}", "plaintext: metadata.labels of the result is no mapping"},
		{"{plaintext: [{path: /kind, operator: remove}]}", "plaintext: the result has no kind"},
		{"{plaintext: [{path: /metadata, operator: remove}]}", "plaintext: metadata of the result is no mapping"},
		{"{plaintext: [{path: /metadata/name, operator: replace, value: ''}]}", "plaintext: the result has no metadata.name"},
		{"{plaintext: [{path: '', operator: replace, value: [1]}]}", "plaintext: the result is no object"},
		{"{plaintext: [{path: '', operator: remove}]}", "plaintext[0]: remove \"\": the whole document cannot be removed"},
		{"{imageOverrider: [{component: Repository, operator: remove}, {component: Tag, operator: remove}]}", `imageOverrider[1]: containers[0].image: "reg.io/:v1" is no image reference`},
		{"{imageOverrider: [{predicate: {path: /spec/template/spec/containers/9/image}, component: Tag, operator: remove}]}", "imageOverrider[0]: there is no /spec/template/spec/containers/9, the list has 2 items"},
		{"{imageOverrider: [{predicate: {path: /spec/replicas}, component: Tag, operator: remove}]}", "imageOverrider[0]: /spec/replicas: is no string"},
		{"{fieldOverrider: [{fieldPath: /spec/replicas, json: [{subPath: /a, operator: remove}]}]}", "fieldOverrider[0]: /spec/replicas is no string"},
		{"{fieldOverrider: [{fieldPath: /data/x, json: [{subPath: /a, operator: remove}]}]}", "fieldOverrider[0]: there is no /data"},
		{"{fieldOverrider: [{fieldPath: /metadata/name, json: [{subPath: /a, operator: remove}]}]}", "fieldOverrider[0]: the text in /metadata/name: is no JSON"},
		{"{plaintext: [{path: /spec/template/spec/containers/0, operator: replace, value: 7}]}\n  - overriders: {commandOverrider: [{containerName: x, operator: add, value: [z]}]}", "overrideRules[1].overriders.commandOverrider[0]: containers[0] is no mapping"},
	} {
		s := compile(t, policyText("OverridePolicy", "a", "[]", test.overriders))
		got := apply(t, s, object(t, web))
		if !strings.HasPrefix(got, "error: policies.yaml:7: OverridePolicy default/a: spec.overrideRules") &&
			!strings.HasPrefix(got, "error: policies.yaml:8: OverridePolicy default/a: spec.overrideRules[1]") || !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: got %q, want it to end with %q", test.overriders, got, test.want)
		}
	}
}

func TestAnEqualKeyMeansAnEqualResult(t *testing.T) {
	byLabel := "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}]"
	base := policyText("OverridePolicy", "a", byLabel, mark("a"))
	o := object(t, web)
	key := func(policies string, c *affinity.Cluster) Key {
		return compile(t, policies).Key(api.IDOf(o), labelsOf(o), c)
	}
	same := []string{
		base + policyText("OverridePolicy", "b", "[{apiVersion: apps/v1, kind: Deployment, name: other}]", mark("b")),
		base + strings.Replace(policyText("ClusterOverridePolicy", "b", "[]", mark("b")), "- overriders", "- targetCluster: {clusterNames: [kube02]}\n    overriders", 1),
	}
	other := []string{
		"",
		policyText("OverridePolicy", "a", byLabel, mark("b")),
		base + policyText("OverridePolicy", "b", "[]", mark("b")),
		base + policyText("ClusterOverridePolicy", "b", "[]", mark("b")),
	}
	want := key(base, kube01)
	if want == (Key{}) {
		t.Error("the key is zero, though a policy applies")
	}
	for _, policies := range same {
		if key(policies, kube01) != want {
			t.Errorf("another key for\n%s", policies)
		}
	}
	for _, policies := range other {
		if key(policies, kube01) == want {
			t.Errorf("the same key for\n%s", policies)
		}
	}

	// A policy that gives labels makes every policy of the namespace count.
	relabel := policyText("ClusterOverridePolicy", "r", "[]", "{labelsOverrider: [{operator: add, value: {tier: gold}}]}")
	gold := func(value string) string {
		return policyText("OverridePolicy", "g", "[{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: gold}}}]", mark(value))
	}
	if key(relabel+gold("x"), kube01) == key(relabel+gold("z"), kube01) {
		t.Error("the same key, though the second stage applies another rule")
	}
	here := strings.Replace(gold("x"), "- overriders", "- targetCluster: {clusterNames: [kube02]}\n    overriders", 1)
	if key(relabel+here, kube01) == key(relabel+here, &affinity.Cluster{Name: "kube02"}) {
		t.Error("the same key for two clusters, though the second stage applies its rule to one of them")
	}
}

func TestAddingAndRemovingIsIdentity(t *testing.T) {
	o := object(t, web)
	value := rapid.StringMatching(`[a-z]{1,8}`)
	rapid.Check(t, func(rt *rapid.T) {
		key, word := "new-"+value.Draw(rt, "key"), "new-"+value.Draw(rt, "word")
		field := rapid.SampledFrom([]string{"labels", "annotations", "args", "command", "plaintext"}).Draw(rt, "field")
		pair := map[string]string{
			"labels":      fmt.Sprintf("{labelsOverrider: [{operator: add, value: {%[1]s: %[2]s}}, {operator: remove, value: {%[1]s: ''}}]}", key, word),
			"annotations": fmt.Sprintf("{annotationsOverrider: [{operator: add, value: {%[1]s: %[2]s}}, {operator: remove, value: {%[1]s: ''}}]}", key, word),
			"args":        fmt.Sprintf("{argsOverrider: [{containerName: app, operator: add, value: [%[1]s]}, {containerName: app, operator: remove, value: [%[1]s]}]}", word),
			"command":     fmt.Sprintf("{commandOverrider: [{containerName: app, operator: add, value: [%[1]s]}, {containerName: app, operator: remove, value: [%[1]s]}]}", word),
			"plaintext":   fmt.Sprintf("{plaintext: [{path: /spec/%[1]s, operator: add, value: %[2]s}, {path: /spec/%[1]s, operator: remove}]}", key, word),
		}[field]
		s := compile(t, policyText("OverridePolicy", "a", "[]", pair))
		want := text(t, Claimed(o))
		if got := apply(t, s, Claimed(o)); got != want {
			rt.Errorf("%s\n%s", pair, cmp.Diff(want, got))
		}
	})
}

func TestAPolicyWithAnErrorIsNotUsedAndStillThere(t *testing.T) {
	s, findings := Compile(manifests(t, policyText("OverridePolicy", "a", "[]", "{imageOverrider: [{component: Tga, operator: add, value: x}]}")))
	if len(findings) != 1 || findings[0].Code != "unknown-value" || findings[0].Line == 0 {
		t.Errorf("findings %v, want one unknown-value with a line", findings)
	}
	if got, want := apply(t, s, object(t, web)), text(t, object(t, web)); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if !s.Has("default", "a") || s.Has("", "a") || s.Has("default", "b") {
		t.Error("Has tells of other policies than default/a")
	}
}

func TestNoMessageShowsAValueOfASecret(t *testing.T) {
	o := object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {k: 'HUNTER 2', d: 'HUNTER: [2'}\n")
	for _, overriders := range []string{
		"{imageOverrider: [{predicate: {path: /stringData/k}, component: Tag, operator: remove}]}",
		"{fieldOverrider: [{fieldPath: /stringData/k, json: [{subPath: /a, operator: remove}]}]}",
		"{fieldOverrider: [{fieldPath: /stringData/d, yaml: [{subPath: /a, operator: remove}]}]}",
		"{plaintext: [{path: /stringData/k/x, operator: remove}]}",
	} {
		got := apply(t, compile(t, policyText("OverridePolicy", "a", "[]", overriders)), o)
		if !strings.HasPrefix(got, "error: ") || strings.Contains(got, "HUNTER") {
			t.Errorf("%s: %s", overriders, got)
		}
	}
}

func TestAnErrorIsAFindingAtItsLine(t *testing.T) {
	s := compile(t, policyText("OverridePolicy", "a", "[]", "\n      plaintext:\n      - {path: /spec/x, operator: add, value: 1}\n      - {path: /spec/z, operator: remove}"))
	_, err := s.Apply(object(t, web), api.IDOf(object(t, web)), kube01, false)
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("error %v, want an *Error", err)
	}
	want := "policies.yaml:10: error: override-failed: OverridePolicy default/a: spec.overrideRules[0].overriders.plaintext[1]: remove /spec/z: there is no /spec/z"
	if got := failed.Finding().String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestAClaimedTemplateHasLabelsAndAnnotations(t *testing.T) {
	o := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n")
	s := compile(t, policyText("OverridePolicy", "a", "[]", "{plaintext: [{path: /metadata/labels/a, operator: add, value: b}]}"))
	if got := apply(t, s, o); !strings.HasSuffix(got, "there is no /metadata/labels") {
		t.Errorf("without a claim: %s", got)
	}
	if got := apply(t, s, Claimed(o)); !strings.Contains(got, "labels:\n    a: b") {
		t.Errorf("with a claim: %s", got)
	}
}
