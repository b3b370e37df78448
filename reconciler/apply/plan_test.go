package apply

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// object reads one, with whole numbers as int64.
func object(t testing.TB, text string) api.Object {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var o api.Object
	if err := utiljson.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// held adds managedFields to an object: lines of "manager operation fieldsV1".
func held(t testing.TB, o api.Object, managers ...string) api.Object {
	t.Helper()
	var entries []any
	for _, line := range managers {
		name, rest, _ := strings.Cut(line, " ")
		operation, fields, _ := strings.Cut(rest, " ")
		entries = append(entries, map[string]any{"manager": name, "operation": operation, "fieldsV1": object(t, fields)})
	}
	m, _ := o["metadata"].(map[string]any)
	if m = maps.Clone(m); m == nil {
		m = map[string]any{}
	}
	m["managedFields"] = entries
	return with(o, "metadata", m)
}

func TestCompare(t *testing.T) {
	const ports = `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}},"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:name":{},"f:protocol":{}}}}}`
	for _, tt := range []struct {
		name, want, live string
		managers         []string
		differences      string
	}{
		{"the same", `data: {a: x}`, `data: {a: x}`, []string{`godwit Apply {"f:data":{"f:a":{}}}`}, ""},
		{"others add", `data: {a: x}`, `data: {a: x, b: y}`, []string{`godwit Apply {"f:data":{"f:a":{}}}`, `kubectl Update {"f:data":{"f:b":{}}}`}, ""},
		{"another value, held by another", `data: {a: x}`, `data: {a: z}`, []string{`godwit Apply {}`, `kubectl Update {"f:data":{"f:a":{}}}`}, `changed .data.a "z" by kubectl`},
		{"missing", `data: {a: x}`, `{}`, []string{`godwit Apply {}`}, `changed .data`},
		{"right but not noted as ours", `data: {a: x}`, `data: {a: x}`, []string{`kubectl Update {"f:data":{"f:a":{}}}`}, `unowned .data.a "x" by kubectl`},
		{"no longer wanted", `data: {a: x}`, `data: {a: x, b: y}`, []string{`godwit Apply {"f:data":{"f:a":{},"f:b":{}}}`}, `extra .data.b`},
		{"a part no longer wanted", `{}`, `data: {b: y}`, []string{`godwit Apply {"f:data":{"f:b":{}}}`}, `extra .data`},
		{"names and status are not compared", `{apiVersion: v2, kind: K, metadata: {name: n, uid: u}, status: {a: 1}}`, `{apiVersion: v1, metadata: {name: m}}`, nil, ""},
		{"labels are", `metadata: {labels: {a.b/c: x}}`, `metadata: {labels: {}}`, []string{`godwit Apply {}`}, `changed .metadata.labels["a.b/c"]`},
		{"null and empty ask for nothing", `spec: {a: null, b: {}, c: []}`, `spec: {}`, nil, ""},
		{"empty values that the server leaves out", `spec: {a: "", b: false, c: 0, d: [{e: ""}]}`, `spec: {d: [{}]}`, []string{`godwit Apply {"f:spec":{"f:a":{},"f:b":{},"f:c":{},"f:d":{}}}`}, ""},
		{"an empty value that is not ours any more", `spec: {a: false, b: 1}`, `spec: {b: 1}`, []string{`godwit Apply {"f:spec":{"f:b":{}}}`}, `changed .spec.a`},
		{"numbers", `spec: {a: 1, b: 2.0}`, `spec: {a: 1.0, b: 2}`, []string{`godwit Apply {"f:spec":{"f:a":{},"f:b":{}}}`}, ""},
		{"quantities", `spec: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 1}}`, `spec: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "1"}}`,
			[]string{`godwit Apply {"f:spec":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{}}}}`}, ""},
		{"no quantities", `data: {cpu: 1000m}`, `data: {cpu: "1"}`, []string{`godwit Apply {"f:data":{"f:cpu":{}}}`}, `changed .data.cpu "1"`},
		{"an atomic list with defaults", `spec: {list: [{a: 1}]}`, `spec: {list: [{a: 1, b: 2}]}`, []string{`godwit Apply {"f:spec":{"f:list":{}}}`}, ""},
		{"an atomic list that grew", `spec: {list: [1]}`, `spec: {list: [1, 2]}`, []string{`godwit Apply {}`, `kubectl Update {"f:spec":{"f:list":{}}}`}, `changed .spec.list [1,2] by kubectl`},
		{"a set with others' values", `metadata: {finalizers: [a]}`, `metadata: {finalizers: [b, a]}`,
			[]string{`godwit Apply {"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`, `other Update {"f:metadata":{"f:finalizers":{"v:\"b\"":{}}}}`}, ""},
		{"a value of a set is missing", `metadata: {finalizers: [a, c]}`, `metadata: {finalizers: [a]}`, []string{`godwit Apply {"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`}, `changed .metadata.finalizers["c"]`},
		{"keys that the server filled in", `spec: {ports: [{port: 80, name: a}, {port: 80, name: b, protocol: UDP}]}`,
			`spec: {ports: [{port: 80, name: a, protocol: TCP}, {port: 80, name: b, protocol: UDP}]}`, []string{"godwit Apply " + ports}, ""},
		{"an item in another order, changed", `spec: {ports: [{port: 80, name: a}, {port: 80, name: b, protocol: UDP}]}`,
			`spec: {ports: [{port: 80, name: c, protocol: UDP}, {port: 80, name: a, protocol: TCP}]}`, []string{"godwit Apply " + ports},
			`changed .spec.ports[port=80,protocol="UDP"].name "c"`},
		{"an item is missing", `spec: {ports: [{port: 80, name: a}, {port: 81, name: b}]}`, `spec: {ports: [{port: 80, name: a, protocol: TCP}]}`,
			[]string{`godwit Apply {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}}}}`}, `changed .spec.ports[port=81]`},
		{"an item no longer wanted", `spec: {ports: [{port: 80, name: a}]}`, `spec: {ports: [{port: 80, name: a, protocol: TCP}, {port: 80, name: b, protocol: UDP}]}`,
			[]string{"godwit Apply " + ports}, `extra .spec.ports[port=80,protocol="UDP"]`},
		{"an item that others injected", `spec: {c: [{name: a}]}`, `spec: {c: [{name: a}, {name: sidecar}]}`,
			[]string{`godwit Apply {"f:spec":{"f:c":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`, `injector Update {"f:spec":{"f:c":{"k:{\"name\":\"sidecar\"}":{".":{},"f:name":{}}}}}`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, d := range Compare(object(t, tt.want), held(t, object(t, tt.live), tt.managers...)) {
				line := fmt.Sprint(d.Kind, " ", d.Field)
				if d.Live != "" {
					line += " " + d.Live
				}
				for _, h := range d.Holders {
					line += " by " + h.Manager
				}
				lines = append(lines, line)
			}
			if got := strings.Join(lines, "; "); got != tt.differences {
				t.Errorf("got  %s\nwant %s", got, tt.differences)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	const (
		desired = `{apiVersion: v1, kind: ConfigMap, metadata: {name: m, ` + marks + `}, data: {a: "1", b: "2"}}`
		meta    = `apiVersion: v1, kind: ConfigMap, metadata: {name: m, uid: u1, resourceVersion: "7", ` + marks + `}`
		bare    = `apiVersion: v1, kind: ConfigMap, metadata: {name: m, uid: u1}`
		ours    = `"f:metadata":{"f:labels":{"f:godwit.dev/managed":{}},"f:annotations":{"f:godwit.dev/fleet":{},"f:godwit.dev/binding":{}}}`
		all     = `godwit Apply {` + ours + `,"f:data":{"f:a":{},"f:b":{}}}`
		onlyA   = `godwit Apply {` + ours + `,"f:data":{"f:a":{}}}`
	)
	had := workOf(t, desired)
	hadNot := workOf(t, strings.Replace(desired, `, b: "2"`, "", 1))
	for _, tt := range []struct {
		name      string
		live      string
		managers  []string
		overwrite bool
		known     *Known
		act       Act
		force     bool
		reason    string
	}{
		{name: "nothing there", act: Create},
		{name: "all there", live: `{` + meta + `, data: {a: "1", b: "2"}}`, managers: []string{all}, act: Leave},
		{name: "nobody holds what is missing", live: `{` + meta + `, data: {a: "1"}}`, managers: []string{onlyA}, act: Update},
		{name: "written over by hand, just started", live: `{` + meta + `, data: {a: "1", b: x}}`, managers: []string{onlyA, `kubectl-edit Update {"f:data":{"f:b":{}}}`}, act: Update, force: true},
		{name: "declared by another, just started", live: `{` + meta + `, data: {a: "1", b: x}}`, managers: []string{onlyA, `flux Apply {"f:data":{"f:b":{}}}`}, act: Refuse, reason: decide.ReasonConflict},
		{name: "taken by another applier", live: `{` + meta + `, data: {a: "1", b: x}}`, managers: []string{onlyA, `flux Apply {"f:data":{"f:b":{}}}`}, known: &Known{UID: "u1", Work: had}, act: Update, force: true},
		{name: "newly wanted, written by another", live: `{` + meta + `, data: {a: "1", b: x}}`, managers: []string{onlyA, `tuner Update {"f:data":{"f:b":{}}}`}, known: &Known{UID: "u1", Work: hadNot}, act: Refuse, reason: decide.ReasonConflict},
		{name: "newly wanted, with overwrite", live: `{` + meta + `, data: {a: "1", b: x}}`, managers: []string{onlyA, `flux Apply {"f:data":{"f:b":{}}}`}, overwrite: true, known: &Known{UID: "u1", Work: hadNot}, act: Update, force: true},
		{name: "another has the same value", live: `{` + meta + `, data: {a: "1", b: "2"}}`, managers: []string{onlyA, `flux Apply {"f:data":{"f:b":{}}}`}, known: &Known{UID: "u1", Work: hadNot}, act: Update},
		{name: "not ours", live: `{` + bare + `, data: {a: "1"}}`, managers: []string{`kubectl Update {"f:data":{"f:a":{}}}`}, act: Refuse, reason: decide.ReasonNotOurs},
		{name: "not ours, overwrite", live: `{` + bare + `, data: {a: "1"}}`, managers: []string{`kubectl Update {"f:data":{"f:a":{}}}`}, overwrite: true, act: Adopt, force: true},
		{name: "our marks were taken off", live: `{` + bare + `, data: {a: "1", b: "2"}}`, managers: []string{`godwit Apply {"f:data":{"f:a":{},"f:b":{}}}`}, known: &Known{UID: "u1", Work: had}, act: Update},
		{name: "made anew by somebody", live: `{` + bare + `, data: {a: "1", b: "2"}}`, managers: []string{`kubectl Update {"f:data":{"f:a":{},"f:b":{}}}`}, known: &Known{UID: "u0", Work: had}, act: Refuse, reason: decide.ReasonNotOurs},
		{name: "being deleted", live: `{apiVersion: v1, kind: ConfigMap, metadata: {name: m, deletionTimestamp: now}}`, act: Wait, reason: decide.ReasonFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workOf(t, desired)
			w.Overwrite = tt.overwrite
			var live api.Object
			if tt.live != "" {
				live = held(t, object(t, tt.live), tt.managers...)
			}
			plan := Decide(w, live, tt.known, "godwit")
			if plan.Act != tt.act || plan.Force != tt.force || plan.Reason != tt.reason {
				t.Errorf("got %s force=%v %q %q, want %s force=%v %q", plan.Act, plan.Force, plan.Reason, plan.Message, tt.act, tt.force, tt.reason)
			}
			if diff := cmp.Diff(object(t, desired), w.Object); diff != "" {
				t.Errorf("the work was changed: %s", diff)
			}
			if plan.Object == nil {
				return
			}
			sent := object(t, desired)
			if plan.Force { // nothing is added but the guard
				sent["metadata"].(map[string]any)["resourceVersion"], _ = value(live, "metadata", "resourceVersion").(string)
			}
			if diff := cmp.Diff(sent, plan.Object); diff != "" {
				t.Errorf("what is sent: %s", diff)
			}
		})
	}
}

// An object that holds what is wanted, all of it owned by us, has no difference, whatever else is there.
func TestWhatIsThereAndOursIsNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var build func(depth int) (want, live any, owned map[string]any)
		build = func(depth int) (any, any, map[string]any) {
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			if depth == 0 || kind == 0 {
				v := rapid.OneOf(rapid.Just[any]("s"), rapid.Just[any](int64(3)), rapid.Just[any](true)).Draw(t, "value")
				return v, v, map[string]any{}
			}
			if kind == 1 { // an atomic list
				v := []any{"x", int64(1)}
				return v, v, map[string]any{}
			}
			want, live, owned := map[string]any{}, map[string]any{"extra": "theirs"}, map[string]any{}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "names") {
				w, l, o := build(depth - 1)
				want[name], live[name], owned["f:"+name] = w, l, o
			}
			if kind == 3 { // a list with keys
				want["name"], live["name"], owned["f:name"], owned["."] = "k", "k", map[string]any{}, map[string]any{}
				return []any{want}, []any{map[string]any{"name": "other"}, live}, map[string]any{`k:{"name":"k"}`: owned}
			}
			return want, live, owned
		}
		want, live, owned := build(4)
		desired, there := api.Object{"spec": want}, api.Object{"spec": live, "metadata": map[string]any{
			"managedFields": []any{map[string]any{"manager": Manager, "operation": "Apply", "fieldsV1": map[string]any{"f:spec": owned}}}}}
		if d := Compare(desired, there); len(d) > 0 {
			t.Fatalf("Compare(%v, %v) = %v", desired, there, d)
		}
	})
}

func TestStages(t *testing.T) {
	crd := api.ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "widgets.example.org"}
	namespace := api.ID{Kind: "Namespace", Name: "shop"}
	widget := api.ID{Group: "example.org", Kind: "Widget", Namespace: "shop", Name: "w"}
	for _, tt := range []struct {
		id      api.ID
		deleted bool
		want    Stage
	}{
		{crd, false, Ground}, {namespace, false, Ground}, {widget, false, Rest},
		{widget, true, DeleteRest}, {namespace, true, DeleteGround}, {crd, true, DeleteGround},
	} {
		if got := StageOf(tt.id, tt.deleted); got != tt.want {
			t.Errorf("StageOf(%s, %v) = %d, want %d", tt.id, tt.deleted, got, tt.want)
		}
	}
	other := api.ID{Kind: "ConfigMap", Namespace: "default", Name: "c"}
	for _, tt := range []struct {
		id, other api.ID
		want      bool
	}{
		{namespace, widget, true}, {crd, widget, true}, {namespace, other, false}, {crd, other, false}, {widget, namespace, false}, {namespace, crd, false},
	} {
		if got := WaitsFor(tt.id, tt.other); got != tt.want {
			t.Errorf("WaitsFor(%s, %s) = %v, want %v", tt.id, tt.other, got, tt.want)
		}
	}
}

func TestScaleTarget(t *testing.T) {
	hpa := object(t, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: default}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`)
	got, ok := ScaleTarget(hpa)
	want := api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}
	if !ok || got != want {
		t.Errorf("ScaleTarget = %v %v, want %v", got, ok, want)
	}
	if got, ok := ScaleTarget(object(t, configMap)); ok {
		t.Errorf("a ConfigMap scales %v", got)
	}
}

func BenchmarkCompare(b *testing.B) {
	want := object(b, deployment)
	live := held(b, object(b, deployment), `godwit Apply {"f:metadata":{"f:labels":{"f:godwit.dev/managed":{}},"f:annotations":{"f:godwit.dev/fleet":{},"f:godwit.dev/binding":{}}},
		"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{},
		"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:env":{"k:{\"name\":\"MODE\"}":{".":{},"f:name":{},"f:value":{}}},
		"f:resources":{"f:requests":{"f:cpu":{},"f:memory":{}}}}}}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if d := Compare(want, live); len(d) > 0 {
			b.Fatal(d)
		}
	}
}
