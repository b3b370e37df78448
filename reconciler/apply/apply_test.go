package apply

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

const (
	marks = `labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/fleet: godwit, godwit.dev/binding: default/web}`

	configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default, ` + marks + `}, data: {a: "1", b: "2"}}`

	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, ` + marks + `}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        ports: [{containerPort: 80}]
        env: [{name: MODE, value: fast}]
        resources: {requests: {cpu: 1000m, memory: 1024Mi}}
`
)

// longPodSpec has what servers default, leave out, or own as a whole.
const longPodSpec = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, ` + marks + `}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      hostNetwork: false
      nodeSelector: {}
      tolerations: [{key: a}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}
      containers:
      - name: c
        image: i
        args: [a, b]
        command: []
        env:
        - {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: E, value: ""}
        - {name: R, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        livenessProbe: {httpGet: {path: /, port: 80}}
        resources: {limits: {cpu: 1, memory: 1024Mi}}
        securityContext: null
        volumeMounts: [{name: v, mountPath: /v, readOnly: false}]
      volumes:
      - {name: v, emptyDir: {}}
      - {name: m, configMap: {name: x, defaultMode: 420}}
      - {name: p, projected: {sources: [{configMap: {name: q}}]}}
`

// world is one member with a client.
type world struct {
	*testing.T
	server  *membertest.Server
	client  dynamic.Interface
	applier Applier
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := membertest.Start(t, "m1")
	client, err := dynamic.NewForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, server, client, Applier{Fleet: "godwit", Migrate: LegacyManagers}}
}

var resources = map[string]string{"ConfigMap": "configmaps", "Deployment": "deployments", "Secret": "secrets", "Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "Service": "services",
	"LimitRange": "limitranges", "ResourceQuota": "resourcequotas", "Role": "roles", "Ingress": "ingresses", "CronJob": "cronjobs", "HorizontalPodAutoscaler": "horizontalpodautoscalers",
	"DaemonSet": "daemonsets", "StatefulSet": "statefulsets", "Job": "jobs", "Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims", "StorageClass": "storageclasses", "VolumeAttributesClass": "volumeattributesclasses",
	"PriorityClass": "priorityclasses", "RuntimeClass": "runtimeclasses", "IngressClass": "ingressclasses", "RoleBinding": "rolebindings", "EndpointSlice": "endpointslices"}

func (w *world) at(id api.ID) dynamic.ResourceInterface {
	return w.client.Resource(schema.GroupVersionResource{Group: id.Group, Version: id.Version, Resource: resources[id.Kind]}).Namespace(id.Namespace)
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) apply(work Work, known *Known) Outcome {
	w.Helper()
	return w.applier.Apply(w.context(), w.at(work.ID), work, known)
}

// other applies by server-side apply as another manager.
func (w *world) other(manager, text string) {
	w.Helper()
	o := object(w.T, text)
	id := api.IDOf(o)
	if _, err := w.at(id).Apply(w.context(), id.Name, &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
		w.Fatal(err)
	}
}

// create writes as clients did before there was server-side apply.
func (w *world) create(manager, text string) {
	w.Helper()
	o := object(w.T, text)
	if _, err := w.at(api.IDOf(o)).Create(w.context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{FieldManager: manager}); err != nil {
		w.Fatal(err)
	}
}

// edit changes an object by hand.
func (w *world) edit(id api.ID, manager, patch string) {
	w.Helper()
	body, err := json.Marshal(object(w.T, patch))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.at(id).Patch(w.context(), id.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(id api.ID) api.Object {
	w.Helper()
	u, err := w.at(id).Get(w.context(), id.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return u.Object
}

func (w *world) writes() int64 {
	_, sent := w.server.Writes()
	return sent
}

func workOf(t *testing.T, text string) Work {
	t.Helper()
	o := object(t, text)
	return Work{ID: api.IDOf(o), Object: o, Hash: text}
}

func value(o api.Object, path ...string) any {
	var v any = o
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func expect(t *testing.T, what string, out Outcome, want Change) {
	t.Helper()
	if out.Change != want || out.Reason != "" {
		t.Fatalf("%s: got %s %q %q, want %s", what, out.Change, out.Reason, out.Message, want)
	}
}

func TestWhatIsAppliedNeedsNoSecondWrite(t *testing.T) {
	for name, text := range map[string]string{
		"config map": configMap,
		"quantities": deployment,
		"secret":     `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: default, ` + marks + `}, stringData: {k: v}}`,
		"service":    `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: default, ` + marks + `}, spec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 80, protocol: UDP}]}}`,
		"long":       longPodSpec,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			work := workOf(t, text)
			out := w.apply(work, nil)
			expect(t, "first", out, Created)
			written := w.writes()
			expect(t, "again", w.apply(work, out.Known), Unchanged)
			expect(t, "after a restart", w.apply(work, nil), Unchanged)
			if d := Compare(sent(work, true), w.get(work.ID)); len(d) > 0 {
				t.Errorf("differences remain: %v", d)
			}
			if n := w.writes() - written; n != 0 {
				t.Errorf("%d writes were sent", n)
			}
		})
	}
}

// webhook is a member whose admission rewrites a value of all that is applied, dry runs included.
type webhook struct{ dynamic.ResourceInterface }

func (w webhook) Apply(ctx context.Context, name string, o *unstructured.Unstructured, options metav1.ApplyOptions, sub ...string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	o.Object["data"].(map[string]any)["b"] = "rewritten"
	return w.ResourceInterface.Apply(ctx, name, o, options, sub...)
}

// What the server rewrites must not be applied for ever, nor hide what somebody changes beside it.
func TestServersOwnWayIsNotDrift(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	apply := func(known *Known) Outcome {
		return w.applier.Apply(w.context(), webhook{w.at(work.ID)}, work, known)
	}
	out := apply(nil)
	expect(t, "first", out, Created)
	if d := Compare(work.Object, w.get(work.ID)); len(d) != 1 {
		t.Fatalf("differences %v, want that of data.b", d)
	}
	written := w.writes()
	expect(t, "again", apply(out.Known), Unchanged)
	restarted := apply(nil)
	expect(t, "after a restart", restarted, Unchanged)
	if n := w.writes() - written; n != 0 {
		t.Errorf("%d writes were sent", n)
	}
	if _, ok := Check(work, w.get(work.ID), restarted.Known, "godwit"); !ok {
		t.Error("what was learnt after the restart is forgotten")
	}
	for name, known := range map[string]*Known{"known": out.Known, "after a restart": nil} {
		w.edit(work.ID, "kubectl-edit", `{data: {a: drift}}`)
		expect(t, "drift beside it, "+name, apply(known), Updated)
		if got := value(w.get(work.ID), "data", "a"); got != "1" {
			t.Errorf("%s: data.a = %v, want 1", name, got)
		}
	}
	w.edit(work.ID, "kubectl-edit", `{data: {b: "something else"}}`)
	expect(t, "drift of the value itself", apply(out.Known), Updated)
}

func TestDriftIsPutBack(t *testing.T) {
	for _, tt := range []struct{ name, manager, patch string }{
		{"scaled", "kubectl-scale", `{spec: {replicas: 7}}`},
		{"a label", "kubectl-label", `{metadata: {labels: {godwit.dev/managed: "no"}}}`},
		{"an annotation removed", "kubectl-annotate", `{metadata: {annotations: {godwit.dev/binding: null}}}`},
		{"an image", "kubectl-edit", `{spec: {template: {spec: {containers: [{name: web, image: "nginx:2"}]}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			work := workOf(t, deployment)
			out := w.apply(work, nil)
			w.edit(work.ID, tt.manager, tt.patch)
			expect(t, "apply", w.apply(work, out.Known), Updated)
			if d := Compare(work.Object, w.get(work.ID)); len(d) > 0 {
				t.Errorf("differences remain: %v", d)
			}
		})
	}
}

func TestAfterARestartHandMadeDriftIsPutBack(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, deployment)
	w.apply(work, nil)
	w.edit(work.ID, "kubectl-scale", `{spec: {replicas: 7}}`)
	expect(t, "apply", w.apply(work, nil), Updated)
	if got := value(w.get(work.ID), "spec", "replicas"); got != int64(2) {
		t.Errorf("replicas = %v, want 2", got)
	}
}

func TestFieldsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	out := w.apply(work, nil)
	w.edit(work.ID, "kubectl-edit", `{metadata: {labels: {theirs: x}}, data: {c: "3"}}`)
	before := w.get(work.ID)
	written := w.writes()
	expect(t, "apply", w.apply(work, out.Known), Unchanged)
	if diff := cmp.Diff(before, w.get(work.ID)); diff != "" || w.writes() != written {
		t.Errorf("%d writes, changed: %s", w.writes()-written, diff)
	}
}

func TestWhatTheTemplateDropsGoesAway(t *testing.T) {
	w := newWorld(t)
	out := w.apply(workOf(t, configMap), nil)
	less := workOf(t, strings.Replace(configMap, `, b: "2"`, "", 1))
	expect(t, "apply", w.apply(less, out.Known), Updated)
	if diff := cmp.Diff(map[string]any{"a": "1"}, value(w.get(less.ID), "data")); diff != "" {
		t.Error(diff)
	}
	// The same after a restart.
	more := workOf(t, configMap)
	w.apply(more, nil)
	expect(t, "apply", w.apply(less, nil), Updated)
	if diff := cmp.Diff(map[string]any{"a": "1"}, value(w.get(less.ID), "data")); diff != "" {
		t.Error(diff)
	}
}

func TestNewlyWantedFieldOfAnotherIsAConflict(t *testing.T) {
	w := newWorld(t)
	less := workOf(t, strings.Replace(configMap, `, b: "2"`, "", 1))
	known := w.apply(less, nil).Known
	w.other("tuner", `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {b: tuned}}`)
	more := workOf(t, configMap)
	written := w.writes()
	for name, k := range map[string]*Known{"known": known, "after a restart": nil} {
		out := w.apply(more, k)
		if out.Reason != decide.ReasonConflict || !strings.Contains(out.Message, "tuner owns .data.b") {
			t.Errorf("%s: got %q %q", name, out.Reason, out.Message)
		}
	}
	if n := w.writes() - written; n != 0 {
		t.Errorf("%d writes were sent", n)
	}
	more.Overwrite = true
	expect(t, "overwrite", w.apply(more, known), Updated)
	if got := value(w.get(more.ID), "data", "b"); got != "2" {
		t.Errorf("data.b = %v, want 2", got)
	}
}

func TestFieldTakenByAnotherApplierIsTakenBack(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	known := w.apply(work, nil).Known
	w.other("rival", `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {b: theirs}}`)
	expect(t, "apply", w.apply(work, known), Updated)
	if got := value(w.get(work.ID), "data", "b"); got != "2" {
		t.Errorf("data.b = %v, want 2", got)
	}
}

func TestForeignObjectIsLeftAloneUnlessOverwrite(t *testing.T) {
	for _, manager := range []string{"kubectl-client-side-apply", "somebody"} {
		t.Run(manager, func(t *testing.T) {
			w := newWorld(t)
			w.create(manager, `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {a: theirs, old: "0"}}`)
			work := workOf(t, configMap)
			written := w.writes()
			out := w.apply(work, nil)
			if out.Reason != decide.ReasonNotOurs || !strings.Contains(out.Message, manager+" owns .data.a") {
				t.Errorf("got %q %q", out.Reason, out.Message)
			}
			if w.writes() != written {
				t.Error("something was written")
			}
			work.Overwrite = true
			out = w.apply(work, out.Known)
			expect(t, "overwrite", out, Adopted)
			want := map[string]any{"a": "1", "b": "2"}
			if manager == "somebody" { // who is no earlier manager: what is theirs stays
				want["old"] = "0"
			}
			if diff := cmp.Diff(want, value(w.get(work.ID), "data")); diff != "" {
				t.Error(diff)
			}
			written = w.writes()
			expect(t, "again", w.apply(work, nil), Unchanged)
			if w.writes() != written {
				t.Error("adoption does not settle")
			}
		})
	}
}

func TestAnotherFleetsObjectIsNotOurs(t *testing.T) {
	w := newWorld(t)
	w.create("godwit", strings.ReplaceAll(configMap, "fleet: godwit", "fleet: other"))
	out := w.apply(workOf(t, configMap), nil)
	if out.Reason != decide.ReasonNotOurs || !strings.Contains(out.Message, `"other"`) {
		t.Errorf("got %q %q", out.Reason, out.Message)
	}
}

func TestReplicasOfAnAutoscalerAreNotReset(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, deployment)
	out := w.apply(work, nil)
	retained := work
	retained.Retain = true
	expect(t, "give away", w.apply(retained, out.Known), Updated)
	if got := value(w.get(work.ID), "spec", "replicas"); got != int64(2) {
		t.Fatalf("replicas = %v after they were given away, want 2", got)
	}
	w.edit(work.ID, "kube-controller-manager", `{spec: {replicas: 9}}`)
	written := w.writes()
	expect(t, "scaled", w.apply(retained, nil), Unchanged)
	if w.writes() != written {
		t.Error("the autoscaler's count was written over")
	}
	// Once nobody scales any more, the template's count is back.
	expect(t, "take back", w.apply(work, w.apply(retained, nil).Known), Updated)
	if got := value(w.get(work.ID), "spec", "replicas"); got != int64(2) {
		t.Errorf("replicas = %v, want 2", got)
	}
}

func TestReplicasAreKeptOnAdoption(t *testing.T) {
	w := newWorld(t)
	w.create("kubectl-client-side-apply", strings.NewReplacer("replicas: 2", "replicas: 5", marks, "labels: {}").Replace(deployment))
	work := workOf(t, deployment)
	work.Overwrite, work.Retain = true, true
	expect(t, "adopt", w.apply(work, nil), Adopted)
	if got := value(w.get(work.ID), "spec", "replicas"); got != int64(5) {
		t.Errorf("replicas = %v, want 5", got)
	}
}

func TestImmutableFieldIsItsOwnReason(t *testing.T) {
	w := newWorld(t)
	first := w.apply(workOf(t, deployment), nil)
	changed := strings.ReplaceAll(deployment, "{app: web}", "{app: other}")
	out := w.apply(workOf(t, changed), first.Known)
	if out.Reason != decide.ReasonImmutableField {
		t.Fatalf("got %q %q", out.Reason, out.Message)
	}
	allowed := workOf(t, strings.Replace(changed, "annotations: {", "annotations: {godwit.dev/recreate: allowed, ", 1))
	expect(t, "allowed", w.apply(allowed, first.Known), Recreated)
	if got := value(w.get(allowed.ID), "spec", "selector", "matchLabels", "app"); got != "other" {
		t.Errorf("selector = %v, want other", got)
	}
}

func TestInvalidObjectIsRefusedInTheWordsOfTheAPI(t *testing.T) {
	w := newWorld(t)
	out := w.apply(workOf(t, strings.Replace(deployment, "replicas: 2", "replicas: -1", 1)), nil)
	if out.Reason != decide.ReasonInvalid || !strings.Contains(out.Message, "spec.replicas") {
		t.Errorf("got %q %q", out.Reason, out.Message)
	}
}

func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		name     string
		object   string
		preserve bool
		want     Change
		stays    bool
	}{
		{"ours", configMap, false, Deleted, false},
		{"preserved", configMap, true, Released, true},
		{"prune disabled", strings.Replace(configMap, "annotations: {", "annotations: {godwit.dev/prune: disabled, ", 1), false, Released, true},
		{"Flux's word", strings.Replace(configMap, "annotations: {", "annotations: {kustomize.toolkit.fluxcd.io/prune: disabled, ", 1), false, Released, true},
		{"Argo CD's word", strings.Replace(configMap, "annotations: {", "annotations: {argocd.argoproj.io/sync-options: 'Validate=false, Prune=false', ", 1), false, Released, true},
		{"not ours", strings.Replace(configMap, marks, "labels: {a: b}", 1), false, Unchanged, true},
		{"another fleet's", strings.Replace(configMap, "fleet: godwit", "fleet: other", 1), false, Unchanged, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			work := workOf(t, tt.object)
			w.other(Manager, tt.object)
			out := w.applier.Delete(w.context(), w.at(work.ID), Retired{ID: work.ID, Preserve: tt.preserve})
			if out.Change != tt.want || !out.Gone || out.Reason != "" {
				t.Errorf("got %s gone=%v %q %q, want %s", out.Change, out.Gone, out.Reason, out.Message, tt.want)
			}
			_, err := w.at(work.ID).Get(w.context(), work.ID.Name, metav1.GetOptions{})
			if (err == nil) != tt.stays {
				t.Fatalf("get: %v, stays %v", err, tt.stays)
			}
			if tt.want == Released {
				live := w.get(work.ID)
				mine, _ := claims(live)
				if mine.parts != nil || label(live, "godwit.dev/managed") != "" || annotation(live, "godwit.dev/fleet") != "" || annotation(live, "godwit.dev/binding") != "" {
					t.Errorf("our marks or our ownership are still there: %v", live["metadata"])
				}
				if diff := cmp.Diff(work.Object["data"], live["data"]); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestGoneIsSaidOnlyWhenGone(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, strings.Replace(configMap, "metadata: {", "metadata: {finalizers: [example.org/hold], ", 1))
	w.apply(work, nil)
	remove := func() Outcome {
		return w.applier.Delete(w.context(), w.at(work.ID), Retired{ID: work.ID})
	}
	out := remove()
	if out.Gone || !out.Waiting || !strings.Contains(out.Message, "example.org/hold") {
		t.Errorf("held: got gone=%v waiting=%v %q", out.Gone, out.Waiting, out.Message)
	}
	w.edit(work.ID, "holder", `{metadata: {finalizers: null}}`)
	if out := remove(); !out.Gone {
		t.Errorf("released: got %+v", out)
	}
}

func TestChangeBetweenLookAndWriteIsLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	known := w.apply(work, nil).Known
	w.edit(work.ID, "kubectl-edit", `{data: {a: drift}}`)
	raced := false
	w.server.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.RawQuery, "fieldManager=godwit") && !raced {
			raced = true
			w.server.Intercept(nil)
			w.edit(work.ID, "kubectl-edit", `{data: {a: "drift again"}}`)
		}
		return nil
	})
	expect(t, "apply", w.apply(work, known), Updated)
	if !raced {
		t.Error("nothing was raced")
	}
	if got := value(w.get(work.ID), "data", "a"); got != "1" {
		t.Errorf("data.a = %v, want 1", got)
	}
}
