package membertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// The kinds the contract uses.
var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefuls   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	daemons     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is one namespace of a member under test.
type world struct {
	*testing.T
	ctx    context.Context
	config *rest.Config
	dynamic.Interface
	ns string
}

// Contract is what every member does, simulated or real.
func Contract(t *testing.T, config *rest.Config) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*world)
	}{
		{"AnApplyThatChangesNothingKeepsTheVersion", applyTwice},
		{"AConflictNamesManagerAndField", conflict},
		{"ManyConflictsAreListed", conflicts},
		{"ForceTakesTheField", force},
		{"AFieldNoLongerAppliedGoes", unapply},
		{"ListsMergeByKey", mergeByKey},
		{"ADryRunLeavesNothingBehind", dryRun},
		{"AnApplyNeedsAManager", noManager},
		{"AnApplyOfAnUnknownFieldFails", applyUnknown},
		{"AnUnknownFieldIsDroppedUnlessValidationIsStrict", createUnknown},
		{"EveryWriteHasItsManager", managers},
		{"ManagedFieldsCanBeRewritten", rewriteManagers},
		{"AnUpdateOfAnOldVersionIsRefused", staleUpdate},
		{"PatchesOfAllTypes", patches},
		{"WhatIsMissingIsNotFound", missing},
		{"WhatExistsIsNotCreatedAgain", exists},
		{"GeneratedNamesAreNew", generateName},
		{"ListsSelectAndPage", lists},
		{"AWatchTellsWhatHappens", watches},
		{"AWatchWithASelectorSeesObjectsComeAndGo", watchSelected},
		{"AWatchStartsWithWhatIsThere", watchList},
		{"DeletionHonoursPreconditionsAndFinalizers", deletion},
		{"WhatAnObjectOwnsGoesWithIt", ownership},
		{"ForegroundDeletionWaitsForWhatIsOwned", foreground},
		{"ACollectionIsDeletedBySelector", deleteCollection},
		{"InvalidObjectsAreRefused", invalid},
		{"ImmutableFieldsStay", immutableFields},
		{"DefaultsAreFilledIn", defaults},
		{"ValuesAreSpelledOneWay", spelling},
		{"ServicesGetAnAddressAndKeepIt", serviceAddress},
		{"SecretsFoldStringData", stringData},
		{"WorkloadsBecomeReady", workloads},
		{"FailingPodsShow", failing},
		{"GenerationCountsChangesOfTheSpec", generations},
		{"ScaleIsASubresource", scaling},
		{"StatusIsASubresource", statusSubresource},
		{"CustomResources", customResources},
		{"ANamespaceTakesItsObjectsAlong", namespaceDeletion},
		{"DiscoveryKnowsTheKinds", discoveryKinds},
		{"OnlyTheTokenOpens", tokens},
		{"MetadataAndTables", forms},
		{"KubeSystemHasAUID", identity},
		{"ScriptsFailPodsByAConfigMap", failByConfigMap},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{T: t, ctx: t.Context(), config: config, Interface: dynamic.NewForConfigOrDie(config), ns: "t-" + strings.ToLower(c.name)}
			w.ns = w.ns[:min(len(w.ns), 60)]
			w.must(w.apply(namespaces, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+w.ns+`}}`, "contract", false))
			c.test(w)
		})
	}
}

// object reads YAML.
func (w *world) object(text string) *unstructured.Unstructured {
	w.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		w.Fatal(err)
	}
	u := new(unstructured.Unstructured)
	if err := u.UnmarshalJSON(b); err != nil {
		w.Fatal(err)
	}
	return u
}

func (w *world) in(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	return w.Resource(gvr).Namespace(w.ns)
}

func (w *world) api(gvr schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	if ns == "" {
		return w.Resource(gvr)
	}
	return w.Resource(gvr).Namespace(ns)
}

func (w *world) apply(gvr schema.GroupVersionResource, ns, text, manager string, force bool) (*unstructured.Unstructured, error) {
	w.Helper()
	o := w.object(text)
	return w.api(gvr, ns).Apply(w.ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: force})
}

func (w *world) create(gvr schema.GroupVersionResource, text string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.in(gvr).Create(w.ctx, w.object(text), metav1.CreateOptions{FieldManager: "creator"})
	return w.must(o, err)
}

func (w *world) must(o *unstructured.Unstructured, err error) *unstructured.Unstructured {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// poll waits until something holds: a real server takes its time.
func (w *world) poll(ok func() bool) {
	w.Helper()
	timeout, tick := time.NewTimer(time.Minute), time.NewTicker(20*time.Millisecond)
	defer timeout.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout.C:
			w.Fatal("not in a minute")
		}
	}
}

// eventually waits until an object is as wanted; nil stands for one that is gone.
func (w *world) eventually(gvr schema.GroupVersionResource, name string, ok func(*unstructured.Unstructured) bool) (last *unstructured.Unstructured) {
	w.Helper()
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("%s %s was last seen as %v", gvr.Resource, name, last)
		}
	})
	w.poll(func() bool {
		o, err := w.api(gvr, w.ns).Get(w.ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			o = nil
		case err != nil:
			w.Fatal(err)
		}
		last = o
		return ok(o)
	})
	return last
}

func gone(o *unstructured.Unstructured) bool { return o == nil }

// at returns a value by its path; numbers are list indices.
func at(o *unstructured.Unstructured, path string) any {
	var v any = o.Object
	for _, p := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			var i int
			if _, err := fmt.Sscan(p, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// wantStatus checks an API error.
func (w *world) wantStatus(err error, code int32, reason metav1.StatusReason, message string) *metav1.Status {
	w.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		w.Fatalf("error %v, want code %d", err, code)
	}
	st := status.Status()
	if st.Code != code || st.Reason != reason || !strings.Contains(st.Message, message) {
		w.Fatalf("status %d %s %q, want %d %s %q", st.Code, st.Reason, st.Message, code, reason, message)
	}
	return &st
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func deployment(name string, more string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `}
spec:
  ` + more + `
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec:
      containers:
      - {name: main, image: "ikubernetes/demoapp:v1.0", ports: [{containerPort: 80}]}`
}

func configMap(name, data string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `}, data: {` + data + `}}`
}

func applyTwice(w *world) {
	first := w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "godwit", false))
	settled := w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool { return at(o, "status.availableReplicas") == int64(2) })
	again := w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "godwit", false))
	w.want("version", again.GetResourceVersion(), settled.GetResourceVersion())
	w.want("uid", again.GetUID(), first.GetUID())
	cm := w.must(w.apply(configMaps, w.ns, configMap("c", "k: v"), "godwit", false))
	w.want("version", w.must(w.apply(configMaps, w.ns, configMap("c", "k: v"), "godwit", false)).GetResourceVersion(), cm.GetResourceVersion())
	w.want("managed fields", w.must(w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{})).GetManagedFields(), cm.GetManagedFields())
}

func conflict(w *world) {
	o := w.object(deployment("d", "replicas: 2"))
	w.must(w.in(deployments).Create(w.ctx, o, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}))
	_, err := w.apply(deployments, w.ns, deployment("d", "replicas: 3"), "godwit", false)
	st := w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1")
	if !strings.HasSuffix(st.Message, ": .spec.replicas") {
		w.Errorf("message %q does not end with the field", st.Message)
	}
	if len(st.Details.Causes) != 1 || st.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict || st.Details.Causes[0].Field != ".spec.replicas" ||
		!strings.HasPrefix(st.Details.Causes[0].Message, `conflict with "kubectl-client-side-apply" using apps/v1`) {
		w.Errorf("causes %+v", st.Details.Causes)
	}
	w.must(w.apply(configMaps, w.ns, configMap("c", "k: v"), "a", false))
	_, err = w.apply(configMaps, w.ns, configMap("c", "k: w"), "b", false)
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, `Apply failed with 1 conflict: conflict with "a": .data.k`)
}

func conflicts(w *world) {
	w.must(w.apply(configMaps, w.ns, configMap("c", "k: v, l: v"), "a", false))
	_, err := w.apply(configMaps, w.ns, configMap("c", "k: w, l: w"), "b", false)
	st := w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.k\n- .data.l")
	w.want("causes", len(st.Details.Causes), 2)
}

func force(w *world) {
	w.must(w.apply(configMaps, w.ns, configMap("c", "k: v, l: v"), "a", false))
	o := w.must(w.apply(configMaps, w.ns, configMap("c", "k: w"), "b", true))
	w.want("data", at(o, "data"), map[string]any{"k": "w", "l": "v"})
	_, err := w.apply(configMaps, w.ns, configMap("c", "k: v, l: v"), "a", false)
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, `conflict with "b": .data.k`)
}

func unapply(w *world) {
	w.must(w.apply(configMaps, w.ns, configMap("c", "k: v, l: v"), "a", false))
	w.must(w.apply(configMaps, w.ns, configMap("c", "l: v"), "b", false))
	o := w.must(w.apply(configMaps, w.ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`, "a", false))
	w.want("data", at(o, "data"), map[string]any{"l": "v"})
}

func mergeByKey(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", ""), "a", false))
	o := w.must(w.apply(deployments, w.ns, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {containers: [{name: side, image: "side:v1"}]}}}`, "b", false))
	w.want("containers", []any{at(o, "spec.template.spec.containers.0.name"), at(o, "spec.template.spec.containers.1.name")}, []any{"main", "side"})
	o = w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 1"), "a", false))
	w.want("containers", len(at(o, "spec.template.spec.containers").([]any)), 2)
}

func dryRun(w *world) {
	o := w.object(configMap("c", "k: v"))
	dry := []string{metav1.DryRunAll}
	got := w.must(w.in(configMaps).Apply(w.ctx, "c", o, metav1.ApplyOptions{FieldManager: "a", DryRun: dry}))
	w.want("data", at(got, "data.k"), "v")
	_, err := w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, `configmaps "c" not found`)
	live := w.must(w.apply(configMaps, w.ns, configMap("c", "k: v"), "a", false))
	got = w.must(w.in(configMaps).Apply(w.ctx, "c", w.object(configMap("c", "k: w")), metav1.ApplyOptions{FieldManager: "a", DryRun: dry}))
	w.want("data", at(got, "data.k"), "w")
	w.want("version", got.GetResourceVersion(), live.GetResourceVersion())
	if err := w.in(configMaps).Delete(w.ctx, "c", metav1.DeleteOptions{DryRun: dry}); err != nil {
		w.Fatal(err)
	}
	w.want("object", w.must(w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{})), live)
}

func noManager(w *world) {
	_, err := w.in(configMaps).Patch(w.ctx, "c", types.ApplyPatchType, []byte(configMap("c", "")), metav1.PatchOptions{})
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "fieldManager: Required value: is required for apply patch")
}

func applyUnknown(w *world) {
	_, err := w.apply(deployments, w.ns, deployment("d", "replcas: 2"), "a", false)
	w.wantStatus(err, http.StatusInternalServerError, "", "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.replcas: field not declared in schema")
	_, err = w.apply(deployments, w.ns, deployment("d", "replicas: two"), "a", false)
	w.wantStatus(err, http.StatusInternalServerError, "", "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string")
}

func createUnknown(w *world) {
	o := w.object(deployment("d", "replcas: 2"))
	_, err := w.in(deployments).Create(w.ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	w.wantStatus(err, http.StatusBadRequest, metav1.StatusReasonBadRequest, `strict decoding error: unknown field "spec.replcas"`)
	got := w.must(w.in(deployments).Create(w.ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore}))
	w.want("unknown field", at(got, "spec.replcas"), nil)
}

// entries lists who manages what: manager, operation, subresource and the top fields.
func entries(o *unstructured.Unstructured) (all []string) {
	for _, m := range o.GetManagedFields() {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.Subresource)))
	}
	slices.Sort(all)
	return all
}

func managers(w *world) {
	w.create(configMaps, configMap("c", "a: v"))
	w.must(w.in(configMaps).Patch(w.ctx, "c", types.MergePatchType, []byte(`{"data":{"b":"v"}}`), metav1.PatchOptions{FieldManager: "merger"}))
	w.must(w.in(configMaps).Patch(w.ctx, "c", types.JSONPatchType, []byte(`[{"op":"add","path":"/data/c","value":"v"}]`), metav1.PatchOptions{FieldManager: "json"}))
	w.must(w.in(configMaps).Patch(w.ctx, "c", types.StrategicMergePatchType, []byte(`{"data":{"d":"v"}}`), metav1.PatchOptions{FieldManager: "strategic"}))
	o := w.must(w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{}))
	o.Object["data"].(map[string]any)["e"] = "v"
	w.must(w.in(configMaps).Update(w.ctx, o, metav1.UpdateOptions{FieldManager: "updater"}))
	o = w.must(w.apply(configMaps, w.ns, configMap("c", "f: v"), "applier", false))
	w.want("managers", entries(o), []string{"applier Apply", "creator Update", "json Update", "merger Update", "strategic Update", "updater Update"})
	for _, m := range o.GetManagedFields() {
		if m.Manager == "merger" {
			w.want("fields of merger", string(m.FieldsV1.Raw), `{"f:data":{"f:b":{}}}`)
		}
	}
}

func rewriteManagers(w *world) {
	w.create(configMaps, configMap("c", "a: v"))
	o := w.must(w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{}))
	m := o.GetManagedFields()
	m[0].Manager, m[0].Operation = "godwit", metav1.ManagedFieldsOperationApply
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": m},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
	})
	if err != nil {
		w.Fatal(err)
	}
	o = w.must(w.in(configMaps).Patch(w.ctx, "c", types.JSONPatchType, patch, metav1.PatchOptions{}))
	w.want("managers", entries(o), []string{"godwit Apply"})
	_, err = w.in(configMaps).Patch(w.ctx, "c", types.JSONPatchType, patch, metav1.PatchOptions{})
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	o = w.must(w.apply(configMaps, w.ns, configMap("c", "b: v"), "godwit", false))
	w.want("data", at(o, "data"), map[string]any{"b": "v"})
}

func staleUpdate(w *world) {
	old := w.create(configMaps, configMap("c", "a: v"))
	w.must(w.apply(configMaps, w.ns, configMap("c", "b: v"), "a", false))
	_, err := w.in(configMaps).Update(w.ctx, old, metav1.UpdateOptions{})
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict,
		`Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`)
	old.SetResourceVersion("")
	o := w.must(w.in(configMaps).Update(w.ctx, old, metav1.UpdateOptions{}))
	w.want("data", at(o, "data"), map[string]any{"a": "v"})
	same := w.must(w.in(configMaps).Update(w.ctx, o, metav1.UpdateOptions{}))
	w.want("version of an update that changes nothing", same.GetResourceVersion(), o.GetResourceVersion())
}

func patches(w *world) {
	w.create(deployments, deployment("d", "replicas: 1"))
	o := w.must(w.in(deployments).Patch(w.ctx, "d", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:v1"}]}}}}`), metav1.PatchOptions{}))
	w.want("strategic merge", len(at(o, "spec.template.spec.containers").([]any)), 2)
	o = w.must(w.in(deployments).Patch(w.ctx, "d", types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"only:v1"}]}}}}`), metav1.PatchOptions{}))
	w.want("merge", len(at(o, "spec.template.spec.containers").([]any)), 1)
	o = w.must(w.in(deployments).Patch(w.ctx, "d", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/replicas","value":0}]`), metav1.PatchOptions{}))
	w.want("json", at(o, "spec.replicas"), int64(0))
	_, err := w.in(deployments).Patch(w.ctx, "d", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":7}]`), metav1.PatchOptions{})
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "")
	_, err = w.in(deployments).Patch(w.ctx, "other", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, `deployments.apps "other" not found`)
}

func missing(w *world) {
	_, err := w.in(deployments).Get(w.ctx, "x", metav1.GetOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, `deployments.apps "x" not found`)
	_, err = w.apply(configMaps, "nowhere", configMap("c", ""), "a", false)
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, `namespaces "nowhere" not found`)
	_, err = w.Resource(schema.GroupVersionResource{Group: "none.example", Version: "v1", Resource: "nones"}).List(w.ctx, metav1.ListOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

func exists(w *world) {
	w.create(configMaps, configMap("c", ""))
	_, err := w.in(configMaps).Create(w.ctx, w.object(configMap("c", "")), metav1.CreateOptions{})
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonAlreadyExists, `configmaps "c" already exists`)
}

func generateName(w *world) {
	for range 2 {
		o := w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}`)
		if n := o.GetName(); !strings.HasPrefix(n, "c-") || len(n) != len("c-")+5 {
			w.Errorf("generated name %q", n)
		}
	}
}

func names(list *unstructured.UnstructuredList) (all []string) {
	for _, o := range list.Items {
		all = append(all, o.GetName())
	}
	return all
}

func lists(w *world) {
	for _, n := range []string{"d", "b", "a", "c"} {
		w.create(secrets, `{apiVersion: v1, kind: Secret, metadata: {name: `+n+`, labels: {set: `+map[bool]string{true: "low", false: "high"}[n < "c"]+`}}}`)
	}
	for _, c := range []struct {
		opts metav1.ListOptions
		want []string
	}{
		{metav1.ListOptions{}, []string{"a", "b", "c", "d"}},
		{metav1.ListOptions{LabelSelector: "set=low"}, []string{"a", "b"}},
		{metav1.ListOptions{LabelSelector: "set notin (low)"}, []string{"c", "d"}},
		{metav1.ListOptions{FieldSelector: "metadata.name=c"}, []string{"c"}},
		{metav1.ListOptions{FieldSelector: "metadata.name!=c,metadata.namespace=" + w.ns}, []string{"a", "b", "d"}},
		{metav1.ListOptions{FieldSelector: "metadata.namespace=elsewhere"}, nil},
		{metav1.ListOptions{ResourceVersion: "0"}, []string{"a", "b", "c", "d"}},
	} {
		list, err := w.in(secrets).List(w.ctx, c.opts)
		if err != nil {
			w.Fatal(err)
		}
		w.want(fmt.Sprintf("list %+v", c.opts), names(list), c.want)
		if list.GetResourceVersion() == "" || list.GetKind() != "SecretList" {
			w.Errorf("list %s at version %q", list.GetKind(), list.GetResourceVersion())
		}
	}
	var pages [][]string
	opts := metav1.ListOptions{Limit: 3}
	for {
		list, err := w.in(secrets).List(w.ctx, opts)
		if err != nil {
			w.Fatal(err)
		}
		pages = append(pages, names(list))
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			break
		}
	}
	w.want("pages", pages, [][]string{{"a", "b", "c"}, {"d"}})
	all, err := w.Resource(secrets).List(w.ctx, metav1.ListOptions{FieldSelector: "metadata.namespace=" + w.ns})
	if err != nil {
		w.Fatal(err)
	}
	w.want("in all namespaces", names(all), []string{"a", "b", "c", "d"})
	_, err = w.in(secrets).List(w.ctx, metav1.ListOptions{FieldSelector: "data.x=y"})
	w.wantStatus(err, http.StatusBadRequest, metav1.StatusReasonBadRequest, "field label not supported")
}

// next returns the next event of a watch, as one line, but for bookmarks.
func (w *world) next(from watch.Interface) string {
	w.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for {
		select {
		case e, ok := <-from.ResultChan():
			if !ok {
				w.Fatal("the watch ended")
			}
			if e.Type == watch.Bookmark {
				continue
			}
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				w.Fatalf("event %s with %T", e.Type, e.Object)
			}
			return strings.TrimSpace(fmt.Sprint(e.Type, " ", o.GetName(), " ", at(o, "data.k")))
		case <-timeout.C:
			w.Fatal("no event in a minute")
		}
	}
}

func watches(w *world) {
	list, err := w.in(secrets).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	secret := func(k string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: ` + k + `}}`
	}
	w.must(w.apply(secrets, w.ns, secret("YQ=="), "a", false))
	from, err := w.in(secrets).Watch(w.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		w.Fatal(err)
	}
	defer from.Stop()
	w.must(w.apply(secrets, w.ns, secret("YQ=="), "a", false)) // no event
	w.must(w.apply(secrets, w.ns, secret("Yg=="), "a", false))
	if err := w.in(secrets).Delete(w.ctx, "s", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.want("events", []string{w.next(from), w.next(from), w.next(from)}, []string{"ADDED s YQ==", "MODIFIED s Yg==", "DELETED s Yg=="})
}

func watchSelected(w *world) {
	labelled := func(name, value string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, labels: {color: ` + value + `}}, data: {k: ` + value + `}}`
	}
	first := w.must(w.apply(configMaps, w.ns, labelled("c", "blue"), "a", false))
	from, err := w.in(configMaps).Watch(w.ctx, metav1.ListOptions{ResourceVersion: first.GetResourceVersion(), LabelSelector: "color=red"})
	if err != nil {
		w.Fatal(err)
	}
	defer from.Stop()
	w.must(w.apply(configMaps, w.ns, labelled("c", "red"), "a", false))
	w.must(w.apply(configMaps, w.ns, labelled("other", "blue"), "a", false))
	w.must(w.apply(configMaps, w.ns, labelled("c", "blue"), "a", false))
	if got := []string{w.next(from), w.next(from)}; !strings.HasPrefix(got[0], "ADDED c red") || !strings.HasPrefix(got[1], "DELETED c") {
		w.Errorf("events %q", got)
	}
}

func watchList(w *world) {
	w.create(configMaps, configMap("c", "k: v"))
	yes := true
	from, err := w.in(configMaps).Watch(w.ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		FieldSelector: "metadata.name=c"})
	if err != nil {
		w.Fatal(err)
	}
	defer from.Stop()
	first, second := <-from.ResultChan(), <-from.ResultChan()
	if first.Type != watch.Added || second.Type != watch.Bookmark {
		w.Fatalf("events %s and %s", first.Type, second.Type)
	}
	w.want("bookmark", second.Object.(*unstructured.Unstructured).GetAnnotations()[metav1.InitialEventsAnnotationKey], "true")
	w.must(w.apply(configMaps, w.ns, configMap("c", "k: w"), "a", true))
	w.want("event", w.next(from), "MODIFIED c w")
}

func deletion(w *world) {
	o := w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, finalizers: [example.com/held]}}`)
	other := types.UID("other")
	err := w.in(configMaps).Delete(w.ctx, "c", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition (other) does not match the UID in record")
	uid := o.GetUID()
	if err := w.in(configMaps).Delete(w.ctx, "c", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		w.Fatal(err)
	}
	o = w.must(w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{}))
	if o.GetDeletionTimestamp() == nil {
		w.Error("no deletionTimestamp")
	}
	w.must(w.in(configMaps).Patch(w.ctx, "c", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	_, err = w.in(configMaps).Get(w.ctx, "c", metav1.GetOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, "")
	err = w.in(configMaps).Delete(w.ctx, "c", metav1.DeleteOptions{})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, "")
}

func (w *world) owned(name string, owner *unstructured.Unstructured, more string) {
	w.Helper()
	w.create(configMaps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, %s ownerReferences: [
		{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s, blockOwnerDeletion: true}]}}`, name, more, owner.GetName(), owner.GetUID()))
}

func ownership(w *world) {
	owner := w.create(configMaps, configMap("owner", ""))
	w.owned("one", owner, "")
	if err := w.in(configMaps).Delete(w.ctx, "owner", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.eventually(configMaps, "one", gone)
	owner = w.create(configMaps, configMap("owner", ""))
	w.owned("two", owner, "")
	orphan := metav1.DeletePropagationOrphan
	if err := w.in(configMaps).Delete(w.ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		w.Fatal(err)
	}
	w.eventually(configMaps, "owner", gone)
	w.want("owners", len(w.must(w.in(configMaps).Get(w.ctx, "two", metav1.GetOptions{})).GetOwnerReferences()), 0)
}

func foreground(w *world) {
	owner := w.create(configMaps, configMap("owner", ""))
	w.owned("one", owner, "finalizers: [example.com/held],")
	policy := metav1.DeletePropagationForeground
	if err := w.in(configMaps).Delete(w.ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		w.Fatal(err)
	}
	w.eventually(configMaps, "one", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
	o := w.must(w.in(configMaps).Get(w.ctx, "owner", metav1.GetOptions{}))
	w.want("finalizers", o.GetFinalizers(), []string{metav1.FinalizerDeleteDependents})
	w.must(w.in(configMaps).Patch(w.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	w.eventually(configMaps, "owner", gone)
}

func deleteCollection(w *world) {
	for _, n := range []string{"a", "b", "c"} {
		w.create(secrets, `{apiVersion: v1, kind: Secret, metadata: {name: `+n+`, labels: {which: `+n+`}}}`)
	}
	if err := w.in(secrets).DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "which in (a,b)"}); err != nil {
		w.Fatal(err)
	}
	list, err := w.in(secrets).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.want("left", names(list), []string{"c"})
}

func invalid(w *world) {
	for _, c := range []struct {
		gvr                  schema.GroupVersionResource
		text, message, field string
	}{
		{deployments, deployment("d", "replicas: -1"), `Deployment.apps "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`, "spec.replicas"},
		{deployments, strings.Replace(deployment("d", ""), "labels: {app: d}", "labels: {app: e}", 1), "`selector` does not match template `labels`", "spec.template.metadata.labels"},
		{deployments, strings.Replace(deployment("d", ""), "name: main, ", "name: MAIN, ", 1), "spec.template.spec.containers[0].name: Invalid value", "spec.template.spec.containers[0].name"},
		{deployments, strings.Replace(deployment("d", ""), `image: "ikubernetes/demoapp:v1.0", `, "", 1), "spec.template.spec.containers[0].image: Required value", "spec.template.spec.containers[0].image"},
		{configMaps, configMap("Upper", ""), `ConfigMap "Upper" is invalid: metadata.name: Invalid value: "Upper"`, "metadata.name"},
		{configMaps, configMap("c", `"a b": v`), "data[a b]: Invalid value", "data[a b]"},
		{services, `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: []}}`, "spec.ports: Required value", "spec.ports"},
		{services, `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 70000}]}}`, "spec.ports[0].port: Invalid value: 70000", "spec.ports[0].port"},
	} {
		_, err := w.apply(c.gvr, w.ns, c.text, "a", false)
		st := w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, c.message)
		w.want("field of "+c.message, st.Details.Causes[0].Field, c.field)
	}
}

func immutableFields(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", ""), "a", false))
	_, err := w.apply(deployments, w.ns, strings.ReplaceAll(deployment("d", ""), "app: d", "app: e"), "a", false)
	st := w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `Deployment.apps "d" is invalid: spec.selector: Invalid value:`)
	w.want("field", st.Details.Causes[0].Field, "spec.selector")
	if !strings.HasSuffix(st.Message, ": field is immutable") {
		w.Errorf("message %q", st.Message)
	}
	w.must(w.apply(statefuls, w.ns, strings.Replace(deployment("s", "serviceName: s"), "Deployment", "StatefulSet", 1), "a", false))
	_, err = w.apply(statefuls, w.ns, strings.Replace(deployment("s", "serviceName: t"), "Deployment", "StatefulSet", 1), "a", false)
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', ")
	w.must(w.apply(secrets, w.ns, `{apiVersion: v1, kind: Secret, type: a, metadata: {name: s}}`, "a", false))
	_, err = w.apply(secrets, w.ns, `{apiVersion: v1, kind: Secret, type: b, metadata: {name: s}}`, "a", false)
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `type: Invalid value: "b": field is immutable`)
}

func defaults(w *world) {
	o := w.must(w.apply(deployments, w.ns, deployment("d", ""), "a", false))
	for path, want := range map[string]any{
		"spec.replicas":                                            int64(1),
		"spec.revisionHistoryLimit":                                int64(10),
		"spec.progressDeadlineSeconds":                             int64(600),
		"spec.strategy.type":                                       "RollingUpdate",
		"spec.strategy.rollingUpdate.maxSurge":                     "25%",
		"spec.template.spec.restartPolicy":                         "Always",
		"spec.template.spec.dnsPolicy":                             "ClusterFirst",
		"spec.template.spec.terminationGracePeriodSeconds":         int64(30),
		"spec.template.spec.containers.0.imagePullPolicy":          "IfNotPresent",
		"spec.template.spec.containers.0.ports.0.protocol":         "TCP",
		"spec.template.spec.containers.0.resources":                map[string]any{},
		"spec.template.spec.containers.0.terminationMessagePolicy": "File",
		"spec.template.metadata.creationTimestamp":                 nil,
		"metadata.generation":                                      int64(1),
		"metadata.namespace":                                       w.ns,
	} {
		w.want(path, at(o, path), want)
	}
	w.want("managers of what was created", entries(o)[0], "a Apply")
	ns := w.must(w.Resource(namespaces).Get(w.ctx, w.ns, metav1.GetOptions{}))
	w.want("label", ns.GetLabels()["kubernetes.io/metadata.name"], w.ns)
	w.want("phase", at(ns, "status.phase"), "Active")
	w.want("finalizers", at(ns, "spec.finalizers.0"), "kubernetes")
	w.eventually(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "default", func(o *unstructured.Unstructured) bool { return o != nil })
}

func spelling(w *world) {
	text := strings.Replace(deployment("d", "replicas: 0"), "containerPort: 80}]", `containerPort: 80}], resources: {requests: {cpu: "1000m", memory: "1024Mi"}}`, 1)
	o := w.must(w.apply(deployments, w.ns, text, "a", false))
	w.want("cpu", at(o, "spec.template.spec.containers.0.resources.requests"), map[string]any{"cpu": "1", "memory": "1Gi"})
	settled := w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool {
		return at(o, "status.observedGeneration") == int64(1) && at(o, "status.conditions.1") != nil
	})
	w.want("version", w.must(w.apply(deployments, w.ns, text, "a", false)).GetResourceVersion(), settled.GetResourceVersion())
}

func serviceAddress(w *world) {
	text := `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: NodePort, selector: {app: d}, ports: [{port: 80}]}}`
	o := w.must(w.apply(services, w.ns, text, "a", false))
	ip, port := at(o, "spec.clusterIP"), at(o, "spec.ports.0.nodePort")
	if ip == nil || at(o, "spec.clusterIPs.0") != ip || port == nil || at(o, "spec.ports.0.targetPort") != int64(80) {
		w.Errorf("spec %v", o.Object["spec"])
	}
	update := w.object(text)
	update.SetLabels(map[string]string{"new": "yes"})
	o = w.must(w.in(services).Update(w.ctx, update, metav1.UpdateOptions{}))
	w.want("address after an update without one", []any{at(o, "spec.clusterIP"), at(o, "spec.ports.0.nodePort")}, []any{ip, port})
	_, err := w.in(services).Patch(w.ctx, "s", types.MergePatchType, []byte(`{"spec":{"clusterIP":"10.0.0.200","clusterIPs":["10.0.0.200"]}}`), metav1.PatchOptions{})
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "may not change once set")
	o = w.must(w.apply(services, w.ns, `{apiVersion: v1, kind: Service, metadata: {name: h}, spec: {clusterIP: None, selector: {app: d}}}`, "a", false))
	w.want("headless", at(o, "spec.clusterIPs.0"), "None")
}

func stringData(w *world) {
	o := w.create(secrets, `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}`)
	w.want("data", at(o, "data"), map[string]any{"k": "dg=="})
	w.want("type", at(o, "type"), "Opaque")
	w.want("stringData", at(o, "stringData"), nil)
}

// conditionOf returns the status of a condition.
func conditionOf(o *unstructured.Unstructured, kind string) any {
	if o == nil {
		return nil
	}
	list, _ := at(o, "status.conditions").([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == kind {
			return c["status"]
		}
	}
	return nil
}

func workloads(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 3"), "a", false))
	o := w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool {
		return at(o, "status.availableReplicas") == int64(3) && conditionOf(o, "Progressing") == "True" && conditionOf(o, "Available") == "True"
	})
	for _, f := range []string{"replicas", "readyReplicas", "updatedReplicas", "availableReplicas"} {
		w.want(f, at(o, "status."+f), int64(3))
	}
	w.want("observedGeneration", at(o, "status.observedGeneration"), o.GetGeneration())
	w.want("unavailableReplicas", at(o, "status.unavailableReplicas"), nil)
	w.want("revision", o.GetAnnotations()["deployment.kubernetes.io/revision"], "1")
	w.want("managers", entries(o), []string{"a Apply", "kube-controller-manager Update status"})

	w.must(w.apply(statefuls, w.ns, strings.Replace(deployment("s", "replicas: 2"), "Deployment", "StatefulSet", 1), "a", false))
	o = w.eventually(statefuls, "s", func(o *unstructured.Unstructured) bool {
		return at(o, "status.readyReplicas") == int64(2) && at(o, "status.availableReplicas") == int64(2)
	})
	w.want("revisions", at(o, "status.currentRevision"), at(o, "status.updateRevision"))
	w.want("observedGeneration", at(o, "status.observedGeneration"), o.GetGeneration())

	w.must(w.apply(daemons, w.ns, strings.Replace(deployment("ds", ""), "Deployment", "DaemonSet", 1), "a", false))
	w.eventually(daemons, "ds", func(o *unstructured.Unstructured) bool {
		return at(o, "status.numberReady") == int64(1) && at(o, "status.numberAvailable") == int64(1) && at(o, "status.desiredNumberScheduled") == int64(1) && at(o, "status.updatedNumberScheduled") == int64(1)
	})

	w.must(w.apply(jobs, w.ns, `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: "m:v1"}]}}}}`, "a", false))
	o = w.eventually(jobs, "j", func(o *unstructured.Unstructured) bool { return conditionOf(o, "Complete") == "True" })
	w.want("succeeded", at(o, "status.succeeded"), int64(1))
	w.want("selector", at(o, "spec.selector.matchLabels"), map[string]any{"batch.kubernetes.io/controller-uid": string(o.GetUID())})
}

func failing(w *world) {
	text := strings.Replace(deployment("d", "replicas: 2"), "metadata: {labels: {app: d}}", `metadata: {labels: {app: d}, annotations: {test/fail: "true"}}`, 1)
	w.must(w.apply(deployments, w.ns, text, "a", false))
	o := w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool {
		return at(o, "status.unavailableReplicas") == int64(2) && at(o, "status.replicas") == int64(2) && conditionOf(o, "Available") == "False"
	})
	w.want("replicas", []any{at(o, "status.replicas"), at(o, "status.readyReplicas"), at(o, "status.availableReplicas")}, []any{int64(2), nil, nil})
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "a", false))
	o = w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool {
		return at(o, "status.availableReplicas") == int64(2) && at(o, "status.unavailableReplicas") == nil
	})
	w.want("revision", o.GetAnnotations()["deployment.kubernetes.io/revision"], "2")
}

func generations(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 1"), "a", false))
	o := w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "a", false))
	w.want("after a change of the spec", o.GetGeneration(), int64(2))
	o = w.must(w.in(deployments).Patch(w.ctx, "d", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
	w.want("after a change of labels", o.GetGeneration(), int64(2))
	cm := w.must(w.apply(configMaps, w.ns, configMap("c", "k: v"), "a", false))
	w.want("of a ConfigMap", cm.GetGeneration(), int64(0))
}

func scaling(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 1"), "godwit", false))
	shown := w.must(w.in(deployments).Get(w.ctx, "d", metav1.GetOptions{}, "scale"))
	w.want("scale", []any{shown.GetKind(), at(shown, "spec.replicas"), at(shown, "status.selector")}, []any{"Scale", int64(1), "app=d"})
	w.must(w.in(deployments).Patch(w.ctx, "d", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "kubectl"}, "scale"))
	o := w.must(w.in(deployments).Get(w.ctx, "d", metav1.GetOptions{}))
	w.want("replicas", at(o, "spec.replicas"), int64(3))
	if !slices.Contains(entries(o), "kubectl Update scale") {
		w.Errorf("managers %q", entries(o))
	}
	_, err := w.apply(deployments, w.ns, deployment("d", "replicas: 1"), "godwit", false)
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, `conflict with "kubectl" with subresource "scale" using apps/v1`)
	shown = w.must(w.in(deployments).Get(w.ctx, "d", metav1.GetOptions{}, "scale"))
	shown.SetResourceVersion("") // that of the Deployment, whose status is being written
	if err := unstructured.SetNestedField(shown.Object, int64(2), "spec", "replicas"); err != nil {
		w.Fatal(err)
	}
	shown = w.must(w.in(deployments).Update(w.ctx, shown, metav1.UpdateOptions{FieldManager: "hpa"}, "scale"))
	w.want("replicas", at(shown, "spec.replicas"), int64(2))
	_, err = w.in(deployments).Patch(w.ctx, "d", types.MergePatchType, []byte(`{"spec":{"replicas":-3}}`), metav1.PatchOptions{}, "scale")
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "must be greater than or equal to 0")
}

func statusSubresource(w *world) {
	pdbs := schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	text := `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: p}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}, status: {currentHealthy: 7, desiredHealthy: 7, disruptionsAllowed: 7, expectedPods: 7}}`
	o := w.must(w.apply(pdbs, w.ns, text, "godwit", false))
	if at(o, "status.currentHealthy") == int64(7) {
		w.Error("an object was created with a status")
	}
	if err := unstructured.SetNestedMap(o.Object, map[string]any{"currentHealthy": int64(2), "desiredHealthy": int64(1), "disruptionsAllowed": int64(1), "expectedPods": int64(2)}, "status"); err != nil {
		w.Fatal(err)
	}
	if err := unstructured.SetNestedField(o.Object, int64(5), "spec", "minAvailable"); err != nil {
		w.Fatal(err)
	}
	o = w.must(w.in(pdbs).UpdateStatus(w.ctx, o, metav1.UpdateOptions{FieldManager: "disruption"}))
	w.want("status", at(o, "status.currentHealthy"), int64(2))
	w.want("spec", at(o, "spec.minAvailable"), int64(1))
	w.want("generation", o.GetGeneration(), int64(1))
	w.want("managers", entries(o), []string{"disruption Update status", "godwit Apply"})
	for _, m := range o.GetManagedFields() {
		if strings.Contains(string(m.FieldsV1.Raw), "f:minAvailable") != (m.Manager == "godwit") {
			w.Errorf("%s owns %s", m.Manager, m.FieldsV1.Raw)
		}
	}
	again := w.must(w.apply(pdbs, w.ns, text, "godwit", false))
	w.want("version", again.GetResourceVersion(), o.GetResourceVersion())
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.contract.example.com}
spec:
  group: contract.example.com
  scope: Namespaced
  names: {plural: apps, kind: App, shortNames: [ap]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.replicas}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string}
              replicas: {type: integer, minimum: 0, default: 1}
              mode: {type: string, enum: [fast, slow]}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}
          status: {type: object, properties: {replicas: {type: integer}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func customResources(w *world) {
	apps := schema.GroupVersionResource{Group: "contract.example.com", Version: "v1", Resource: "apps"}
	text := func(spec string) string {
		return `{apiVersion: contract.example.com/v1, kind: App, metadata: {name: a}, spec: {` + spec + `}}`
	}
	_, err := w.apply(apps, w.ns, text("image: i"), "a", false)
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	w.must(w.apply(crds, "", definition, "a", false))
	all := &world{T: w.T, ctx: w.ctx, Interface: w.Interface} // not in a namespace
	all.eventually(crds, "apps.contract.example.com", func(o *unstructured.Unstructured) bool { return conditionOf(o, "Established") == "True" })
	var o *unstructured.Unstructured
	w.poll(func() bool { // served a moment after it is established
		o, err = w.apply(apps, w.ns, text("image: i, ports: [{name: a, port: 1}], free: {a: {b: 1}}"), "a", false)
		return !apierrors.IsNotFound(err)
	})
	w.must(o, err)
	w.want("default", at(o, "spec.replicas"), int64(1))
	w.want("free", at(o, "spec.free.a.b"), int64(1))
	w.want("generation", o.GetGeneration(), int64(1))
	again := w.must(w.apply(apps, w.ns, text("image: i, ports: [{name: a, port: 1}], free: {a: {b: 1}}"), "a", false))
	w.want("version", again.GetResourceVersion(), o.GetResourceVersion())
	o = w.must(w.apply(apps, w.ns, text("image: i, ports: [{name: b, port: 2}]"), "b", false))
	w.want("ports", len(at(o, "spec.ports").([]any)), 2)
	_, err = w.apply(apps, w.ns, text("image: j"), "b", false)
	w.wantStatus(err, http.StatusConflict, metav1.StatusReasonConflict, `conflict with "a": .spec.image`)
	for spec, message := range map[string]string{
		"{}":                     `spec.image: Required value`,
		"image: i, mode: other":  `spec.mode: Unsupported value: "other": supported values: "fast", "slow"`,
		"image: i, replicas: -1": `spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0`,
	} {
		o := w.object(text(strings.Trim(spec, "{}")))
		o.SetName("b")
		_, err = w.in(apps).Create(w.ctx, o, metav1.CreateOptions{})
		w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, message)
	}
	o = w.object(text("image: i, unknown: 1"))
	o.SetName("c")
	_, err = w.in(apps).Create(w.ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	w.wantStatus(err, http.StatusBadRequest, metav1.StatusReasonBadRequest, `unknown field "spec.unknown"`)
	w.want("pruned", at(w.must(w.in(apps).Create(w.ctx, o, metav1.CreateOptions{})), "spec.unknown"), nil)
	o.SetResourceVersion("")
	_, err = w.in(apps).Update(w.ctx, o, metav1.UpdateOptions{})
	w.wantStatus(err, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
	o = w.must(w.in(apps).Patch(w.ctx, "a", types.MergePatchType, []byte(`{"status":{"replicas":5},"spec":{"replicas":9}}`), metav1.PatchOptions{FieldManager: "ctl"}, "status"))
	w.want("status", []any{at(o, "status.replicas"), at(o, "spec.replicas"), o.GetGeneration()}, []any{int64(5), int64(1), int64(2)})
	shown := w.must(w.in(apps).Get(w.ctx, "a", metav1.GetOptions{}, "scale"))
	w.want("scale", []any{at(shown, "spec.replicas"), at(shown, "status.replicas")}, []any{int64(1), int64(5)})
	_, err = w.in(apps).Patch(w.ctx, "a", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	w.wantStatus(err, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "")

	beta := apps
	beta.Version = "v1beta1"
	o = w.must(w.in(beta).Get(w.ctx, "a", metav1.GetOptions{}))
	w.want("in another version", []any{o.GetAPIVersion(), at(o, "spec.image")}, []any{"contract.example.com/v1beta1", "i"})

	if err := w.Resource(crds).Delete(w.ctx, "apps.contract.example.com", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	all.eventually(crds, "apps.contract.example.com", gone)
	w.poll(func() bool {
		_, err = w.in(apps).List(w.ctx, metav1.ListOptions{})
		return err != nil
	})
	w.wantStatus(err, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

func namespaceDeletion(w *world) {
	w.create(configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, finalizers: [example.com/held]}}`)
	if err := w.Resource(namespaces).Delete(w.ctx, w.ns, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	o := w.must(w.Resource(namespaces).Get(w.ctx, w.ns, metav1.GetOptions{}))
	w.want("phase", at(o, "status.phase"), "Terminating")
	_, err := w.apply(configMaps, w.ns, configMap("d", ""), "a", false)
	w.wantStatus(err, http.StatusForbidden, metav1.StatusReasonForbidden, "because it is being terminated")
	if !apierrors.HasStatusCause(err, "NamespaceTerminating") {
		w.Errorf("no cause NamespaceTerminating in %v", err)
	}
	w.eventually(configMaps, "c", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
	w.must(w.in(configMaps).Patch(w.ctx, "c", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	w.eventually(configMaps, "c", gone)
	err = w.Resource(namespaces).Delete(w.ctx, "default", metav1.DeleteOptions{})
	w.wantStatus(err, http.StatusForbidden, metav1.StatusReasonForbidden, "this namespace may not be deleted")
}

func discoveryKinds(w *world) {
	client := discovery.NewDiscoveryClientForConfigOrDie(w.config)
	for _, legacy := range []bool{false, true} {
		client.UseLegacyDiscovery = legacy
		groups, resources, err := client.ServerGroupsAndResources()
		if err != nil {
			w.Fatal(err)
		}
		found := make(map[string]metav1.APIResource)
		for _, l := range resources {
			for _, r := range l.APIResources {
				found[l.GroupVersion+" "+r.Name] = r
			}
		}
		for name, want := range map[string]string{
			"v1 configmaps": "ConfigMap true", "v1 namespaces": "Namespace false", "v1 nodes": "Node false", "v1 services": "Service true", "v1 pods": "Pod true",
			"apps/v1 deployments": "Deployment true", "apps/v1 deployments/status": "Deployment true", "apps/v1 deployments/scale": "Scale true", "batch/v1 cronjobs": "CronJob true",
			"networking.k8s.io/v1 ingresses": "Ingress true", "policy/v1 poddisruptionbudgets": "PodDisruptionBudget true", "rbac.authorization.k8s.io/v1 clusterroles": "ClusterRole false",
			"autoscaling/v2 horizontalpodautoscalers": "HorizontalPodAutoscaler true", "storage.k8s.io/v1 storageclasses": "StorageClass false",
			"apiextensions.k8s.io/v1 customresourcedefinitions": "CustomResourceDefinition false", "coordination.k8s.io/v1 leases": "Lease true",
		} {
			if got := fmt.Sprint(found[name].Kind, " ", found[name].Namespaced); got != want {
				w.Errorf("legacy %v: %s is %s, want %s", legacy, name, got, want)
			}
		}
		w.want("short names", found["apps/v1 deployments"].ShortNames, []string{"deploy"})
		if !slices.Contains(found["v1 configmaps"].Verbs, "watch") {
			w.Errorf("verbs %v", found["v1 configmaps"].Verbs)
		}
		if !slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == "apps" && g.PreferredVersion.GroupVersion == "apps/v1" }) {
			w.Error("no group apps that prefers v1")
		}
	}
	version, err := client.ServerVersion()
	if err != nil {
		w.Fatal(err)
	}
	w.want("version", version.GitVersion, "v1.36.1")
	for _, path := range []string{"/readyz", "/healthz"} {
		b, err := client.RESTClient().Get().AbsPath(path).DoRaw(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		w.want(path, string(b), "ok")
	}
}

func tokens(w *world) {
	for token, want := range map[string]struct {
		code   int32
		reason metav1.StatusReason
	}{"wrong": {http.StatusUnauthorized, metav1.StatusReasonUnauthorized}, "": {http.StatusForbidden, metav1.StatusReasonForbidden}} {
		cfg := rest.CopyConfig(w.config)
		cfg.BearerToken = token
		_, err := dynamic.NewForConfigOrDie(cfg).Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{})
		w.wantStatus(err, want.code, want.reason, "")
	}
	cfg := rest.CopyConfig(w.config)
	cfg.BearerToken = ""
	if _, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerVersion(); err != nil {
		w.Errorf("version without a token: %v", err)
	}
}

func forms(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "a", false))
	w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool { return at(o, "status.availableReplicas") == int64(2) })
	list, err := metadata.NewForConfigOrDie(w.config).Resource(deployments).Namespace(w.ns).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.want("metadata", []any{len(list.Items), list.Items[0].Name, list.Items[0].Kind}, []any{1, "d", ""})
	client := discovery.NewDiscoveryClientForConfigOrDie(w.config).RESTClient()
	b, err := client.Get().AbsPath("/apis/apps/v1/namespaces/"+w.ns+"/deployments").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").DoRaw(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(b, &table); err != nil {
		w.Fatal(err)
	}
	var head []string
	for _, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			head = append(head, c.Name)
		}
	}
	w.want("columns", head, []string{"Name", "Ready", "Up-to-date", "Available", "Age"})
	w.want("cells", table.Rows[0].Cells[:4], []any{"d", "2/2", float64(2), float64(2)})
	var row metav1.PartialObjectMetadata
	if err := json.Unmarshal(table.Rows[0].Object.Raw, &row); err != nil {
		w.Fatal(err)
	}
	w.want("object of a row", []string{row.Name, row.Namespace}, []string{"d", w.ns})
}

func identity(w *world) {
	o := w.must(w.Resource(namespaces).Get(w.ctx, "kube-system", metav1.GetOptions{}))
	if len(o.GetUID()) != 36 {
		w.Errorf("uid %q", o.GetUID())
	}
}

func failByConfigMap(w *world) {
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "a", false))
	w.must(w.apply(deployments, w.ns, deployment("e", "replicas: 1"), "a", false))
	ready := func(n any) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return at(o, "status.readyReplicas") == n }
	}
	w.eventually(deployments, "d", ready(int64(2)))
	w.must(w.apply(configMaps, "kube-system", configMap("test-fail", "contract: "+w.ns+"/d"), "a", false))
	o := w.eventually(deployments, "d", ready(nil))
	w.want("observedGeneration", at(o, "status.observedGeneration"), o.GetGeneration())
	w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool {
		return conditionOf(o, "Available") == "False" && at(o, "status.unavailableReplicas") == int64(2)
	})
	w.eventually(deployments, "e", ready(int64(1)))
	w.must(w.apply(configMaps, "kube-system", configMap("test-fail", ""), "a", false))
	w.eventually(deployments, "d", ready(int64(2)))
}
