package member

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/reconciler/observe"
)

// lookup finds members by name. It can be changed while it is used.
type lookup struct {
	mu      sync.Mutex
	configs map[string]*rest.Config
	version int
}

func (l *lookup) Find(_ context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if config := l.configs[c.Name]; config != nil {
		return config, fmt.Sprint(l.version), nil
	}
	return nil, "", fmt.Errorf("%w: %s is unknown", ErrNoCredentials, c.Name)
}

func (l *lookup) set(name string, config *rest.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configs[name] = config
	l.version++
}

// world is a fleet on simulated members.
type world struct {
	*testing.T
	fleet   *Fleet
	lookup  *lookup
	servers map[string]*membertest.Server
	desired map[string]Desired
	options Options
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{T: t, lookup: &lookup{configs: map[string]*rest.Config{}}, servers: map[string]*membertest.Server{}, desired: map[string]Desired{}}
	w.options = Options{
		ProbeInterval: 50 * time.Millisecond, RetryInterval: 20 * time.Millisecond,
		ProbeTimeout: 300 * time.Millisecond, RequestTimeout: 500 * time.Millisecond,
		Thresholds: &observe.Thresholds{}, DiscoveryInterval: time.Hour,
		QPS: -1, RetryMin: 10 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, name := range names {
		w.servers[name] = membertest.Start(t, name)
		w.lookup.set(name, w.servers[name].RestConfig())
		w.desired[name] = Desired{Cluster: cluster(name)}
	}
	w.start()
	t.Cleanup(func() { w.fleet.Close(context.Background()) })
	return w
}

func (w *world) start() { w.fleet = New(w.lookup, w.options) }

// restart is what a new process sees.
func (w *world) restart() {
	w.fleet.Close(context.Background())
	w.start()
	w.fleet.Set(w.desired)
}

// want sets the works of members; others keep theirs.
func (w *world) want(member string, works ...Work) {
	d := w.desired[member]
	d.Works = map[api.ID]Work{}
	for _, work := range works {
		d.Works[work.ID.Unversioned()] = work
	}
	w.desired = maps.Clone(w.desired)
	w.desired[member] = d
	w.fleet.Set(w.desired)
}

// retire drops works of a member and orders them to be deleted.
func (w *world) retire(member string, ids ...api.ID) {
	d := w.desired[member]
	d.Works, d.Retired = maps.Clone(d.Works), map[api.ID]Retired{}
	for _, id := range ids {
		delete(d.Works, id.Unversioned())
		d.Retired[id.Unversioned()] = Retired{ID: id.Unversioned()}
	}
	w.desired = maps.Clone(w.desired)
	w.desired[member] = d
	w.fleet.Set(w.desired)
}

// eventually waits until a condition on what is observed holds.
func (w *world) eventually(what string, holds func(decide.Observations) bool) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(20 * time.Millisecond) // conditions may be about servers, too
	defer again.Stop()
	for {
		seen := w.fleet.Observe()
		if holds(seen) {
			return
		}
		select {
		case <-w.fleet.Changed():
		case <-again.C:
		case <-deadline:
			text, _ := json.MarshalIndent(summary(seen), "", " ")
			w.Fatalf("never: %s; observed:\n%s", what, text)
		}
	}
}

func summary(seen decide.Observations) map[string]any {
	out := map[string]any{}
	for name, m := range seen.Members {
		copies := map[string]string{}
		for id, c := range m.Copies {
			copies[id.String()] = fmt.Sprintf("applied=%q live=%v gone=%v %s %s", c.Applied, c.Live != nil, c.Gone, c.Reason, c.Message)
		}
		out[name] = map[string]any{"ready": m.Ready, "reason": m.Reason, "message": m.Message, "copies": copies}
	}
	return out
}

// applied waits until the works of a member are applied, and all is quiet there.
func (w *world) applied(member string) {
	w.Helper()
	w.eventually(member+" has what it should", func(seen decide.Observations) bool {
		for id, work := range w.desired[member].Works {
			c := seen.Members[member].Copies[id]
			if c.Applied != work.Hash || c.Reason != "" || c.Live == nil {
				return false
			}
		}
		return w.fleet.Idle(member)
	})
}

func (w *world) reason(member string, id api.ID, want string) decide.CopyFacts {
	w.Helper()
	var facts decide.CopyFacts
	w.eventually(id.String()+" on "+member+" says "+want, func(seen decide.Observations) bool {
		facts = seen.Members[member].Copies[id.Unversioned()]
		return facts.Reason == want
	})
	return facts
}

func (w *world) client(member string, id api.ID) dynamic.ResourceInterface {
	w.Helper()
	client, err := dynamic.NewForConfig(w.servers[member].RestConfig())
	if err != nil {
		w.Fatal(err)
	}
	resource := client.Resource(schema.GroupVersionResource{Group: id.Group, Version: id.Version, Resource: strings.ToLower(id.Kind) + "s"})
	if id.Namespace == "" {
		return resource
	}
	return resource.Namespace(id.Namespace)
}

func (w *world) get(member string, id api.ID) (api.Object, error) {
	u, err := w.client(member, id).Get(w.Context(), id.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

func (w *world) edit(member string, id api.ID, patch string) {
	w.Helper()
	if _, err := w.client(member, id).Patch(w.Context(), id.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) writes(member string) int64 {
	_, sent := w.servers[member].Writes()
	return sent
}

const marks = `labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/fleet: godwit, godwit.dev/binding: default/b}`

func workOf(t testing.TB, text string) Work {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "MARKS", marks)))
	if err != nil {
		t.Fatal(err)
	}
	var o api.Object
	if err := utiljson.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return Work{ID: api.IDOf(o), Object: o, Hash: fmt.Sprintf("%x", raw)}
}

func configMap(t testing.TB, name, value string) Work {
	return workOf(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default, MARKS}, data: {k: %q}}`, name, value))
}

func deployment(t testing.TB, name string, replicas int) Work {
	return workOf(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: default, MARKS}, spec: {replicas: %d, selector: {matchLabels: {app: %[1]s}},
		template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 1000m}}}]}}}}`, name, replicas))
}

func field(o api.Object, path ...string) any {
	var v any = o
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func TestMemberIsIdentifiedAndFilled(t *testing.T) {
	w := newWorld(t, "kube02")
	w.want("kube02", deployment(t, "web", 3), configMap(t, "settings", "1"))
	w.applied("kube02")
	m := w.fleet.Observe().Members["kube02"]
	if m.Ready != metav1.ConditionTrue || m.Reason != observe.ReasonReady || m.UID == "" || m.Version == "" || !m.APIsComplete || len(m.APIs) == 0 || !m.Namespaced["apps/Deployment"] || m.Since.IsZero() {
		t.Errorf("facts are not complete: %+v", m)
	}
	live := m.Copies[deployment(t, "web", 3).ID.Unversioned()].Live
	if field(live, "spec", "replicas") != int64(3) || field(live, "metadata", "managedFields") != nil {
		t.Errorf("live object: %v", live)
	}
	w.eventually("the status is seen", func(seen decide.Observations) bool {
		return field(seen.Members["kube02"].Copies[deployment(t, "web", 3).ID.Unversioned()].Live, "status", "readyReplicas") == int64(3)
	})
}

// Row 13 of the fleet's promises: what is as it should be costs no write.
func TestNothingChangedMeansNoWrite(t *testing.T) {
	w := newWorld(t, "kube02")
	works := []Work{deployment(t, "web", 2), configMap(t, "settings", "1"), workOf(t, `{apiVersion: v1, kind: Namespace, metadata: {name: shop, MARKS}}`)}
	w.want("kube02", works...)
	w.applied("kube02")
	written := w.writes("kube02")
	var looks atomic.Int64
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if strings.Contains(r.URL.Path, "/namespaces/default/") {
			looks.Add(1)
		}
		return nil
	})
	for range 100 {
		w.want("kube02", works...)
	}
	w.applied("kube02")
	w.restart()
	w.applied("kube02")
	if n := w.writes("kube02") - written; n != 0 {
		t.Errorf("%d writes were sent", n)
	}
	if n := looks.Load(); n != 0 {
		t.Errorf("%d single objects were read, though the first list shows them", n)
	}
}

// Row 6.
func TestDriftIsPutBackAndOthersFieldsAreLeft(t *testing.T) {
	w := newWorld(t, "kube02")
	web := deployment(t, "web", 2)
	w.want("kube02", web)
	w.applied("kube02")
	for name, patch := range map[string]string{
		"replicas":  `{"spec": {"replicas": 9}}`,
		"our label": `{"metadata": {"labels": {"godwit.dev/managed": null}}}`,
	} {
		w.edit("kube02", web.ID, patch)
		w.eventually(name+" is put back", func(decide.Observations) bool {
			o, err := w.get("kube02", web.ID)
			return err == nil && field(o, "spec", "replicas") == int64(2) && field(o, "metadata", "labels", "godwit.dev/managed") == "true"
		})
		w.applied("kube02")
	}
	written := w.writes("kube02")
	w.edit("kube02", web.ID, `{"metadata": {"annotations": {"theirs": "x"}}, "spec": {"minReadySeconds": 7}}`)
	w.eventually("the edit is seen", func(seen decide.Observations) bool {
		return field(seen.Members["kube02"].Copies[web.ID.Unversioned()].Live, "spec", "minReadySeconds") == int64(7)
	})
	w.applied("kube02")
	if n := w.writes("kube02") - written; n != 1 { // the edit itself
		t.Errorf("%d writes, want the edit only", n)
	}
	if err := w.client("kube02", web.ID).Delete(t.Context(), web.ID.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a deleted object is back", func(decide.Observations) bool {
		_, err := w.get("kube02", web.ID)
		return err == nil
	})
	w.applied("kube02")
}

// Row 7.
func TestObjectThatIsNotOursIsReportedOrAdopted(t *testing.T) {
	w := newWorld(t, "kube02")
	settings := configMap(t, "settings", "1")
	theirs := api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "default"}, "data": map[string]any{"k": "theirs"}}
	if _, err := w.client("kube02", settings.ID).Create(t.Context(), &unstructured.Unstructured{Object: theirs}, metav1.CreateOptions{FieldManager: "alice"}); err != nil {
		t.Fatal(err)
	}
	written := w.writes("kube02")
	w.want("kube02", settings)
	facts := w.reason("kube02", settings.ID, decide.ReasonNotOurs)
	if !strings.Contains(facts.Message, "alice owns .data.k") || facts.Applied != "" {
		t.Errorf("facts %+v", facts)
	}
	w.eventually("all was tried", func(decide.Observations) bool { return w.fleet.Quiet() })
	if w.writes("kube02") != written {
		t.Error("something was written")
	}
	settings.Overwrite = true
	w.want("kube02", settings)
	w.applied("kube02")
	if o, err := w.get("kube02", settings.ID); err != nil || field(o, "data", "k") != "1" {
		t.Errorf("not adopted: %v %v", o, err)
	}
}

// Row 5.
func TestRetiredObjectIsDeletedAndOnlyOurs(t *testing.T) {
	w := newWorld(t, "kube02", "kube03")
	settings := configMap(t, "settings", "1")
	w.want("kube02", settings)
	w.applied("kube02")
	theirs := api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "default"}}
	if _, err := w.client("kube03", settings.ID).Create(t.Context(), &unstructured.Unstructured{Object: theirs}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.retire("kube02", settings.ID)
	w.retire("kube03", settings.ID)
	for _, name := range []string{"kube02", "kube03"} {
		w.eventually("gone from "+name, func(seen decide.Observations) bool {
			return seen.Members[name].Copies[settings.ID.Unversioned()].Gone
		})
	}
	if _, err := w.get("kube02", settings.ID); !apierrors.IsNotFound(err) {
		t.Errorf("kube02: %v", err)
	}
	if _, err := w.get("kube03", settings.ID); err != nil {
		t.Errorf("the object made by hand: %v", err)
	}
	w.retire("kube02")
	w.eventually("forgotten", func(seen decide.Observations) bool { return len(seen.Members["kube02"].Copies) == 0 })
}

func TestNamespaceGoesLast(t *testing.T) {
	w := newWorld(t, "kube02")
	shop := workOf(t, `{apiVersion: v1, kind: Namespace, metadata: {name: shop, MARKS}}`)
	held := workOf(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: shop, finalizers: [example.org/hold], MARKS}}`)
	w.want("kube02", held, shop)
	w.applied("kube02")
	w.retire("kube02", held.ID, shop.ID)
	w.eventually("the namespace waits", func(seen decide.Observations) bool {
		copies := seen.Members["kube02"].Copies
		return strings.Contains(copies[held.ID.Unversioned()].Message, "example.org/hold") && strings.Contains(copies[shop.ID.Unversioned()].Message, "1 objects")
	})
	if o, err := w.get("kube02", shop.ID); err != nil || field(o, "metadata", "deletionTimestamp") != nil {
		t.Errorf("the namespace does not wait: %v %v", o, err)
	}
	w.edit("kube02", held.ID, `{"metadata": {"finalizers": null}}`)
	w.eventually("both are gone", func(seen decide.Observations) bool {
		copies := seen.Members["kube02"].Copies
		return copies[held.ID.Unversioned()].Gone && copies[shop.ID.Unversioned()].Gone && w.fleet.Quiet()
	})
}

const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.org, MARKS}, spec: {group: example.org, scope: Namespaced,
	names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
	versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]}}`

func TestCustomResourceFollowsItsDefinition(t *testing.T) {
	w := newWorld(t, "kube02")
	w.want("kube02",
		workOf(t, `{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: default, MARKS}, spec: {size: 3}}`),
		workOf(t, definition))
	w.eventually("quiet", func(decide.Observations) bool { return w.fleet.Quiet() })
	w.applied("kube02") // quiet comes only once the definition is served
}

// Who may write to a namespace must not get to the whole cluster by naming one in an object that is in none.
func TestObjectOfTheClusterIsNotAppliedFromANamespace(t *testing.T) {
	w := newWorld(t, "kube02")
	role := workOf(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all, MARKS}, rules: []}`)
	w.want("kube02", role)
	w.applied("kube02")
	inside := workOf(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all, namespace: shop, MARKS}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}`)
	w.want("kube02", role, inside)
	w.reason("kube02", inside.ID, decide.ReasonInvalid)
	w.retire("kube02", inside.ID)
	w.eventually("it counts as gone", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Copies[inside.ID.Unversioned()].Gone && w.fleet.Quiet()
	})
	if live, err := w.get("kube02", role.ID); err != nil || len(field(live, "rules").([]any)) > 0 {
		t.Errorf("the ClusterRole is %v, %v", live, err)
	}
}

func TestKindThatComesLaterIsApplied(t *testing.T) {
	w := newWorld(t, "kube02")
	widget := workOf(t, `{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: default, MARKS}, spec: {size: 3}}`)
	w.want("kube02", widget, configMap(t, "settings", "1"))
	w.reason("kube02", widget.ID, decide.ReasonNoKind)
	w.eventually("the rest is there, and all was tried", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Copies[configMap(t, "settings", "1").ID.Unversioned()].Applied != "" && w.fleet.Quiet()
	})
	crd := workOf(t, definition)
	if _, err := w.client("kube02", crd.ID).Apply(t.Context(), crd.ID.Name, &unstructured.Unstructured{Object: crd.Object}, metav1.ApplyOptions{FieldManager: "helm"}); err != nil {
		t.Fatal(err)
	}
	w.applied("kube02")
}

// Row 11.
func TestFrozenAndDeadMembersDelayNobody(t *testing.T) {
	w := newWorld(t, "frozen", "dead", "fine")
	for _, name := range []string{"frozen", "dead", "fine"} {
		w.want(name, configMap(t, "settings", "1"))
		w.applied(name)
	}
	w.servers["frozen"].Freeze()
	w.servers["dead"].Down()
	many := []Work{configMap(t, "settings", "2")}
	for i := range 50 {
		many = append(many, configMap(t, fmt.Sprint("m", i), "1"))
	}
	w.want("frozen", many...)
	w.want("dead", many...)
	w.want("fine", many...)
	w.applied("fine")
	for _, name := range []string{"frozen", "dead"} {
		w.reason(name, many[0].ID, decide.ReasonUnreachable)
		w.eventually(name+" is not ready", func(seen decide.Observations) bool {
			m := seen.Members[name]
			return m.Ready == metav1.ConditionFalse && m.Reason == observe.ReasonNotReachable
		})
	}
	w.eventually("nothing more can be done", func(decide.Observations) bool { return w.fleet.Quiet() })
	w.servers["frozen"].Thaw()
	if err := w.servers["dead"].Up(); err != nil {
		t.Fatal(err)
	}
	w.applied("frozen")
	w.applied("dead")
	// The watches work again as well.
	for _, name := range []string{"frozen", "dead"} {
		w.edit(name, many[0].ID, `{"data": {"k": "drift"}}`)
		w.eventually("drift on "+name+" is put back", func(decide.Observations) bool {
			o, err := w.get(name, many[0].ID)
			return err == nil && field(o, "data", "k") == "2"
		})
	}
}

func TestNotReadyMemberIsNotWrittenTo(t *testing.T) {
	w := newWorld(t, "kube02")
	w.servers["kube02"].SetNotReady(true)
	w.want("kube02", configMap(t, "settings", "1"))
	w.reason("kube02", configMap(t, "settings", "1").ID, decide.ReasonUnreachable)
	if m := w.fleet.Observe().Members["kube02"]; m.Reason != observe.ReasonNotReady {
		t.Errorf("reason %s", m.Reason)
	}
	if n := w.writes("kube02"); n != 0 {
		t.Errorf("%d writes", n)
	}
	w.servers["kube02"].SetNotReady(false)
	w.applied("kube02")
}

// A fleet that takes over from another one believes a failure no sooner than that would have, and recovery neither.
func TestTheNextFleetKeepsTheThresholds(t *testing.T) {
	w := newWorld(t, "up", "down")
	w.servers["down"].Down()
	w.fleet.Set(w.desired)
	w.eventually("both were looked at", func(seen decide.Observations) bool {
		return seen.Members["up"].Ready == metav1.ConditionTrue && seen.Members["down"].Ready == metav1.ConditionFalse
	})
	before := w.fleet.Observe()
	w.options.Probers = w.fleet.Probers()
	w.options.Thresholds = &observe.Thresholds{Success: time.Hour, Failure: time.Hour}
	w.servers["up"].Down()
	w.servers["down"].Up()
	w.fleet.Close(context.Background())
	w.start()
	if seen := w.fleet.Observe(); len(seen.Members) > 0 {
		t.Errorf("%v is known of members before they are looked at", seen)
	}
	w.fleet.Set(w.desired)
	w.eventually("both were looked at again", func(seen decide.Observations) bool { return len(seen.Members) == 2 })
	for name, m := range w.fleet.Observe().Members {
		if was := before.Members[name]; m.Ready != was.Ready || !m.Since.Equal(was.Since) {
			t.Errorf("%s is %s since %s, want %s since %s", name, m.Ready, m.Since, was.Ready, was.Since)
		}
	}
}

func TestMissingCredentialsAreThatMembersProblem(t *testing.T) {
	w := newWorld(t, "kube02")
	w.desired["lost"] = Desired{Cluster: cluster("lost")}
	w.want("lost", configMap(t, "settings", "1"))
	w.want("kube02", configMap(t, "settings", "1"))
	w.applied("kube02")
	w.eventually("lost is not ready", func(seen decide.Observations) bool {
		m := seen.Members["lost"]
		return m.Ready == metav1.ConditionFalse && m.Reason == observe.ReasonCollectionFailed && strings.Contains(m.Message, "no credentials")
	})
	// They come.
	w.servers["lost"] = membertest.Start(t, "lost")
	w.lookup.set("lost", w.servers["lost"].RestConfig())
	w.applied("lost")
}

func TestRenewedCredentialsAreUsed(t *testing.T) {
	w := newWorld(t, "kube02")
	bad := rest.CopyConfig(w.servers["kube02"].RestConfig())
	bad.BearerToken = "expired"
	w.lookup.set("kube02", bad)
	w.want("kube02", configMap(t, "settings", "1"))
	w.eventually("refused", func(seen decide.Observations) bool { return seen.Members["kube02"].Ready == metav1.ConditionFalse })
	w.lookup.set("kube02", w.servers["kube02"].RestConfig())
	w.applied("kube02")
}

func TestAnotherClusterIsNotWrittenTo(t *testing.T) {
	w := newWorld(t, "kube02", "other")
	settings := configMap(t, "settings", "1")
	w.want("kube02", settings)
	w.applied("kube02")
	uid := w.fleet.Observe().Members["kube02"].UID

	w.lookup.set("kube02", w.servers["other"].RestConfig()) // somebody swaps the kubeconfig
	facts := w.reason("kube02", settings.ID, decide.ReasonForeign)
	if !strings.Contains(facts.Message, uid) {
		t.Errorf("the message does not name the recorded UID: %s", facts.Message)
	}
	w.want("kube02", configMap(t, "settings", "2"), configMap(t, "more", "1"))
	w.reason("kube02", configMap(t, "more", "1").ID, decide.ReasonForeign)
	if n := w.writes("other"); n != 0 {
		t.Errorf("%d writes to another cluster", n)
	}
	// It is swapped back.
	w.lookup.set("kube02", w.servers["kube02"].RestConfig())
	w.applied("kube02")
	// Swapped again, this time on purpose: the other's UID is recorded.
	w.lookup.set("kube02", w.servers["other"].RestConfig())
	w.reason("kube02", settings.ID, decide.ReasonForeign)
	d := w.desired["kube02"]
	d.RecordedUID = w.fleet.Observe().Members["kube02"].UID
	w.desired["kube02"] = d
	w.fleet.Set(w.desired)
	w.applied("kube02")
	if n := w.writes("other"); n != 2 {
		t.Errorf("%d writes after the adoption, want both works", n)
	}
	// After a restart the recorded UID decides.
	d.RecordedUID = uid
	w.desired["kube02"] = d
	w.restart()
	w.reason("kube02", settings.ID, decide.ReasonForeign)
}

func TestPausedAndSuspendedAreNotWritten(t *testing.T) {
	w := newWorld(t, "kube02")
	d := w.desired["kube02"]
	d.Paused = true
	w.desired["kube02"] = d
	w.want("kube02", configMap(t, "settings", "1"))
	w.eventually("quiet", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Ready == metav1.ConditionTrue && w.fleet.Quiet()
	})
	d = w.desired["kube02"]
	d.Paused = false
	w.desired["kube02"] = d
	suspended := configMap(t, "settings", "1")
	suspended.Suspended = true
	w.want("kube02", suspended, configMap(t, "other", "1"))
	w.eventually("the other is there", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Copies[configMap(t, "other", "1").ID.Unversioned()].Applied != "" && w.fleet.Quiet()
	})
	if n := w.writes("kube02"); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	w.want("kube02", configMap(t, "settings", "1"), configMap(t, "other", "1"))
	w.applied("kube02")
}

func TestScaleTargetKeepsTheCountOfItsAutoscaler(t *testing.T) {
	w := newWorld(t, "kube02")
	web := deployment(t, "web", 2)
	hpa := workOf(t, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: default, MARKS}, spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`)
	w.want("kube02", web, hpa)
	w.applied("kube02")
	w.edit("kube02", web.ID, `{"spec": {"replicas": 7}}`)
	w.eventually("scaled", func(seen decide.Observations) bool {
		return field(seen.Members["kube02"].Copies[web.ID.Unversioned()].Live, "spec", "replicas") == int64(7)
	})
	w.applied("kube02")
	w.restart()
	w.applied("kube02")
	if o, err := w.get("kube02", web.ID); err != nil || field(o, "spec", "replicas") != int64(7) {
		t.Errorf("replicas %v, want the autoscaler's 7 (%v)", field(o, "spec", "replicas"), err)
	}
}

func TestFailureIsTriedAgain(t *testing.T) {
	w := newWorld(t, "kube02")
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/settings") {
			status := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", fmt.Errorf("a webhook says no")).Status()
			return &status
		}
		return nil
	})
	w.want("kube02", configMap(t, "settings", "1"), configMap(t, "other", "1"))
	facts := w.reason("kube02", configMap(t, "settings", "1").ID, decide.ReasonFailed)
	if !strings.Contains(facts.Message, "a webhook says no") {
		t.Errorf("not in the words of the API: %s", facts.Message)
	}
	w.eventually("the other is there", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Copies[configMap(t, "other", "1").ID.Unversioned()].Applied != ""
	})
	w.servers["kube02"].Intercept(nil)
	w.applied("kube02")
}

func TestBusyMemberIsGivenTime(t *testing.T) {
	w := newWorld(t, "busy", "fine")
	var refused atomic.Int64
	w.servers["busy"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodPatch || refused.Add(1) > 3 {
			return nil
		}
		status := apierrors.NewTooManyRequests("slow down", 1).Status()
		return &status
	})
	works := []Work{configMap(t, "a", "1"), configMap(t, "b", "1"), configMap(t, "c", "1")}
	w.want("busy", works...)
	w.want("fine", works...)
	w.applied("fine")
	w.applied("busy")
	if n := refused.Load(); n > 3+int64(len(works)) {
		t.Errorf("%d tries for %d objects", n, len(works))
	}
}

func TestSecretValuesAreNotKept(t *testing.T) {
	w := newWorld(t, "kube02")
	secret := workOf(t, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: default, MARKS}, stringData: {password: hunter2}}`)
	w.want("kube02", secret)
	w.applied("kube02")
	live := w.fleet.Observe().Members["kube02"].Copies[secret.ID.Unversioned()].Live
	if live["data"] != nil {
		t.Errorf("kept: %v", live["data"])
	}
	w.edit("kube02", secret.ID, `{"data": {"password": "eA=="}}`)
	w.eventually("drift is seen all the same", func(decide.Observations) bool {
		o, err := w.get("kube02", secret.ID)
		return err == nil && field(o, "data", "password") == "aHVudGVyMg=="
	})
}

func TestForgottenMemberIsLeftAsItIs(t *testing.T) {
	w := newWorld(t, "kube02")
	settings := configMap(t, "settings", "1")
	w.want("kube02", settings)
	w.applied("kube02")
	written := w.writes("kube02")
	w.fleet.Set(nil)
	if n := len(w.fleet.Observe().Members); n != 0 {
		t.Errorf("%d members are observed", n)
	}
	w.fleet.Close(context.Background())
	if _, err := w.get("kube02", settings.ID); err != nil || w.writes("kube02") != written {
		t.Errorf("something was done: %v", err)
	}
}

func TestCloseFinishesTheObjectInHand(t *testing.T) {
	w := newWorld(t, "kube02")
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodPatch {
			once.Do(func() { close(begun) })
			<-goOn
		}
		return nil
	})
	settings := configMap(t, "settings", "1")
	w.want("kube02", settings)
	<-begun
	closed := make(chan struct{})
	go func() { defer close(closed); w.fleet.Close(context.Background()) }()
	select {
	case <-closed:
		t.Error("closed while an object was in work")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	<-closed
	if _, err := w.get("kube02", settings.ID); err != nil {
		t.Errorf("the object in hand: %v", err)
	}
}

func TestCloseDoesNotWaitForAHungMember(t *testing.T) {
	w := newWorld(t, "kube02")
	w.fleet.Close(context.Background())
	w.options.RequestTimeout = time.Hour
	w.start()
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	var once sync.Once
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodPatch {
			once.Do(func() { close(begun) })
			<-release
		}
		return nil
	})
	w.want("kube02", configMap(t, "settings", "1"))
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.fleet.Close(ctx) // an hour, if it waited
}

func TestSnapshotsDoNotChange(t *testing.T) {
	w := newWorld(t, "kube02")
	w.want("kube02", configMap(t, "settings", "1"))
	w.applied("kube02")
	before := w.fleet.Observe()
	was := before.Members["kube02"].Copies[configMap(t, "settings", "1").ID.Unversioned()]
	w.want("kube02", configMap(t, "settings", "2"))
	w.applied("kube02")
	if now := before.Members["kube02"].Copies[configMap(t, "settings", "1").ID.Unversioned()]; now.Applied != was.Applied || field(now.Live, "data", "k") != "1" {
		t.Errorf("an old snapshot has new facts: %+v", now)
	}
}

// Faults, edits by hand and new orders in any order: once they end, the member holds what it should.
func TestWhateverHappensTheMemberConverges(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, seed))
			w := newWorld(t, "kube02", "other")
			server := w.servers["kube02"]
			pick := func() string { return fmt.Sprint("m", random.IntN(6)) }
			works, uid := map[string]Work{}, ""
			frozen, down := false, false
			recover := func() {
				if frozen {
					server.Thaw()
				}
				if down {
					if err := server.Up(); err != nil {
						t.Fatal(err)
					}
				}
				frozen, down = false, false
				server.Intercept(nil)
			}
			set := func() {
				var retired []api.ID
				for i := range 6 {
					if _, ok := works[fmt.Sprint("m", i)]; !ok {
						retired = append(retired, configMap(t, fmt.Sprint("m", i), "").ID)
					}
				}
				d := Desired{Cluster: cluster("kube02"), RecordedUID: uid, Works: map[api.ID]Work{}}
				for _, work := range works {
					d.Works[work.ID.Unversioned()] = work
				}
				w.desired["kube02"] = d
				w.retire("kube02", retired...)
			}
			byHand := func(do func(dynamic.ResourceInterface, string) error) {
				if name := pick(); !frozen && !down {
					// It may well fail: the object is not there, or writes are refused.
					if err := do(w.client("kube02", configMap(t, name, "").ID), name); err != nil {
						t.Logf("by hand: %v", err)
					}
				}
			}
			acts := []func(){
				func() { name := pick(); works[name] = configMap(t, name, fmt.Sprint(random.IntN(3))); set() },
				func() { name := pick(); works[name] = configMap(t, name, fmt.Sprint(random.IntN(3))); set() },
				func() { delete(works, pick()); set() },
				func() {
					byHand(func(c dynamic.ResourceInterface, name string) error {
						return c.Delete(t.Context(), name, metav1.DeleteOptions{})
					})
				},
				func() {
					byHand(func(c dynamic.ResourceInterface, name string) error {
						_, err := c.Patch(t.Context(), name, types.MergePatchType, []byte(`{"data": {"k": "by hand"}}`), metav1.PatchOptions{})
						return err
					})
				},
				func() { recover(); server.Freeze(); frozen = true },
				func() { recover(); server.Down(); down = true },
				func() {
					server.Intercept(func(r *http.Request) *metav1.Status {
						if r.Method == http.MethodGet {
							return nil
						}
						status := apierrors.NewServiceUnavailable("no writes now").Status()
						return &status
					})
				},
				func() { w.lookup.set("kube02", server.RestConfig()) },
				func() { w.lookup.set("kube02", w.servers["other"].RestConfig()) },
				recover, recover,
				func() { w.restart() },
				func() { // let something of it happen
					select {
					case <-w.fleet.Changed():
					case <-time.After(10 * time.Millisecond):
					}
				},
			}
			set()
			w.eventually("ready", func(seen decide.Observations) bool { uid = seen.Members["kube02"].UID; return uid != "" })
			for range 60 {
				acts[random.IntN(len(acts))]()
			}
			recover()
			w.lookup.set("kube02", server.RestConfig())
			works["last"] = configMap(t, "last", "1")
			set()
			// What was done by hand at the end may be seen a moment later.
			w.eventually("the member holds what it should", func(seen decide.Observations) bool {
				for id, c := range seen.Members["kube02"].Copies {
					o, err := w.get("kube02", api.ID{Version: "v1", Kind: id.Kind, Namespace: id.Namespace, Name: id.Name})
					work, wanted := works[id.Name]
					switch {
					case wanted && (err != nil || c.Applied != work.Hash || field(o, "data", "k") != field(work.Object, "data", "k")):
						return false
					case !wanted && (!c.Gone || !apierrors.IsNotFound(err)):
						return false
					}
				}
				return len(seen.Members["kube02"].Copies) == 7 && w.fleet.Quiet()
			})
			if n := w.writes("other"); n != 0 {
				t.Errorf("%d writes to another cluster", n)
			}
		})
	}
}

// A pass that changes nothing costs little.
func BenchmarkSetAndObserveUnchanged(b *testing.B) {
	fleet := New(&lookup{}, Options{Logger: slog.New(slog.DiscardHandler)})
	defer fleet.Close(context.Background())
	works := map[api.ID]Work{}
	for i := range 1000 {
		w := deployment(b, fmt.Sprint("web", i), 3)
		works[w.ID.Unversioned()] = w
	}
	desired := map[string]Desired{}
	for i := range 100 {
		name := fmt.Sprint("m", i)
		desired[name] = Desired{Cluster: cluster(name), Works: works}
	}
	fleet.Set(desired)
	b.ReportAllocs()
	for b.Loop() {
		fleet.Set(desired)
		fleet.Observe()
	}
}

func TestARegistrationPausesAMemberAndLimitsItsNamespaces(t *testing.T) {
	w := newWorld(t, "kube02")
	register := func(r decide.Registration) {
		d := w.desired["kube02"]
		d.Registration = r
		w.desired = maps.Clone(w.desired)
		w.desired["kube02"] = d
		w.fleet.Set(w.desired)
	}
	settings := configMap(t, "settings", "1")
	reason := func(want string) {
		t.Helper()
		w.eventually("it is "+want, func(seen decide.Observations) bool {
			return seen.Members["kube02"].Copies[settings.ID.Unversioned()].Reason == want && w.fleet.Quiet()
		})
	}
	register(decide.Registration{Name: "kube02", Secret: "argocd/kube02", Namespaces: []string{"elsewhere"}})
	w.want("kube02", settings)
	reason(decide.ReasonNotAllowed)
	register(decide.Registration{Name: "kube02", Secret: "argocd/kube02", Paused: true})
	reason(decide.ReasonPaused)
	if n := w.writes("kube02"); n != 0 {
		t.Errorf("%d writes, want 0", n)
	}
	register(decide.Registration{Name: "kube02", Secret: "argocd/kube02", Namespaces: []string{"elsewhere", "default"}})
	w.applied("kube02")
	register(decide.Registration{Name: "kube02", Secret: "argocd/kube02", Namespaces: []string{"elsewhere"}})
	settings = configMap(t, "settings", "2")
	w.want("kube02", settings)
	reason(decide.ReasonNotAllowed)
	register(decide.Registration{})
	w.applied("kube02")
}

// unknowing is a lookup that cannot tell yet.
type unknowing struct{ Lookup }

func (unknowing) Find(context.Context, *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	return nil, "", fmt.Errorf("%w: nobody answers", ErrNotYet)
}

func TestAMemberWhoseCredentialsCannotBeKnownYetIsNotJudged(t *testing.T) {
	w := newWorld(t, "kube02")
	f := New(unknowing{}, w.options)
	defer f.Close(t.Context())
	f.Set(w.desired)
	m := f.members["kube02"]
	m.check()
	if seen := f.Observe(); len(seen.Members) != 0 {
		t.Errorf("Observe() = %+v, want nothing", seen)
	}
}

func TestCredentialsFollowNoRedirectToAnotherHost(t *testing.T) {
	w := newWorld(t, "kube02")
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/readyz", http.StatusTemporaryRedirect))
	defer first.Close()
	w.lookup.set("kube02", &rest.Config{Host: first.URL, BearerToken: "secret"})
	w.fleet.Set(w.desired)
	w.eventually("the member is not ready", func(seen decide.Observations) bool {
		ready := seen.Members["kube02"].Ready
		return ready != "" && ready != metav1.ConditionTrue
	})
	if n := asked.Load(); n != 0 {
		t.Errorf("the other host got %d requests", n)
	}
}
