package member

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// readOnly says whether others apply the works of a member.
func (w *world) readOnly(member string, is bool) {
	d := w.desired[member]
	d.ReadOnly = is
	w.desired = maps.Clone(w.desired)
	w.desired[member] = d
	w.fleet.Set(w.desired)
}

// argo applies an object as Argo CD does.
func (w *world) argo(member string, o api.Object) {
	w.Helper()
	if _, err := w.client(member, api.IDOf(o)).Apply(w.Context(), api.IDOf(o).Name, &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true}); err != nil {
		w.Fatal(err)
	}
}

func delivered(w Work) Work {
	w.Object = work.Deliver(w.Object, false)
	w.Hash += work.VersionOf(w.Object)
	return w
}

// While others apply, the member is only looked at: not one request that could write leaves, whatever there is to do.
func TestWhereOthersApplyNothingIsWritten(t *testing.T) {
	w := newWorld(t, "kube02")
	w.want("kube02", deployment(t, "web", 2)) // godwit applied it itself before
	w.applied("kube02")
	var written, looks atomic.Int64
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasPrefix(r.UserAgent(), "godwit") {
			written.Add(1)
		}
		if strings.Contains(r.URL.Path, "/namespaces/default/") && strings.HasPrefix(r.UserAgent(), "godwit") {
			looks.Add(1)
		}
		return nil
	})
	w.readOnly("kube02", true)
	settings, web := delivered(configMap(t, "settings", "1")), delivered(deployment(t, "web", 2))
	w.want("kube02", settings, web)
	w.reason("kube02", settings.ID, decide.ReasonNotDelivered)
	w.reason("kube02", web.ID, decide.ReasonNotDelivered)

	w.argo("kube02", settings.Object)
	w.argo("kube02", web.Object)
	w.applied("kube02")
	w.edit("kube02", settings.ID, `{"data": {"k": "theirs"}}`)
	if facts := w.reason("kube02", settings.ID, decide.ReasonNotDelivered); !strings.Contains(facts.Message, "kubectl-edit owns .data.k") {
		t.Errorf("message %q, want who changed what", facts.Message)
	}
	w.restart()
	w.reason("kube02", settings.ID, decide.ReasonNotDelivered)
	w.argo("kube02", settings.Object)
	w.applied("kube02")

	changed := delivered(configMap(t, "settings", "2"))
	w.want("kube02", changed, web)
	if facts := w.reason("kube02", changed.ID, decide.ReasonNotDelivered); facts.Live == nil || !strings.Contains(facts.Message, "earlier version") {
		t.Errorf("%q, live %v", facts.Message, facts.Live)
	}
	w.argo("kube02", changed.Object)
	w.applied("kube02")

	looks.Store(0)
	w.restart()
	w.applied("kube02")
	if n := looks.Load(); n != 0 {
		t.Errorf("%d single objects were read, though the first list shows them delivered", n)
	}

	w.retire("kube02", settings.ID)
	w.eventually("it is waited for", func(seen decide.Observations) bool {
		return strings.Contains(seen.Members["kube02"].Copies[settings.ID.Unversioned()].Message, "to delete")
	})
	if err := w.client("kube02", settings.ID).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is gone", func(seen decide.Observations) bool {
		return seen.Members["kube02"].Copies[settings.ID.Unversioned()].Gone
	})
	if n := written.Load(); n != 0 {
		t.Errorf("%d writes were sent", n)
	}
	if by := w.fleet.Observe().Members["kube02"].Tracked; by != nil {
		t.Errorf("tracked: %v; where others deliver, that is how it should be", by)
	}

	// And back. What it knew of the time before counts no more.
	w.readOnly("kube02", false)
	web.Object, web.Hash = deployment(t, "web", 3).Object, "3"
	w.want("kube02", web)
	w.reason("kube02", web.ID, decide.ReasonConflict) // Argo CD still holds the old count
	web.Overwrite = true
	w.want("kube02", web)
	w.applied("kube02")
}

// What a process applied before others took over is no reason to take a field from them when it is to apply again.
func TestWhatWasAppliedBeforeOthersTookOverIsForgotten(t *testing.T) {
	w := newWorld(t, "kube02")
	web := deployment(t, "web", 2)
	w.want("kube02", web)
	w.applied("kube02")
	w.readOnly("kube02", true)
	w.argo("kube02", delivered(deployment(t, "web", 7)).Object)
	w.reason("kube02", web.ID, decide.ReasonNotDelivered)
	w.readOnly("kube02", false)
	if facts := w.reason("kube02", web.ID, decide.ReasonConflict); !strings.Contains(facts.Message, "argocd-controller owns .spec.replicas") {
		t.Errorf("message %q", facts.Message)
	}
}

// The clients themselves refuse to write, also if somebody forgets to ask.
func TestClientsOfAReadOnlyMemberCannotWrite(t *testing.T) {
	w := newWorld(t, "kube02")
	w.want("kube02")
	w.applied("kube02")
	m := w.fleet.members["kube02"]
	m.mu.Lock()
	l := m.link
	m.mu.Unlock()
	o := &unstructured.Unstructured{Object: configMap(t, "settings", "1").Object}
	before := w.writes("kube02")
	w.readOnly("kube02", true)
	for name, write := range map[string]func() error{
		"objects": func() error {
			_, err := l.objects.Resource(namespaces).Namespace("default").Apply(t.Context(), "settings", o, metav1.ApplyOptions{FieldManager: "godwit"})
			return err
		},
		"watches": func() error {
			return l.watches.Resource(namespaces).Delete(t.Context(), "default", metav1.DeleteOptions{})
		},
		"info": func() error {
			return l.info.RESTClient().Post().AbsPath("/api/v1/namespaces").Body([]byte("{}")).Do(t.Context()).Error()
		},
		"lists": func() error {
			return l.lists.Put().AbsPath("/api/v1/namespaces/default").Body([]byte("{}")).Do(t.Context()).Error()
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "others write to this member") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if n := w.writes("kube02") - before; n != 0 {
		t.Errorf("%d writes came through", n)
	}
}

// Argo CD applies its own value again whenever it is changed. After a few times godwit leaves the field alone and says
// who holds it.
func TestTwoManagersDoNotFightForAHundredPasses(t *testing.T) {
	w := newWorld(t, "kube02")
	web := deployment(t, "web", 2)
	w.want("kube02", web)
	w.applied("kube02")
	theirs := func() api.Object {
		return api.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "default",
			"annotations": map[string]any{"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:default/web"}}, "spec": map[string]any{"replicas": int64(7)}}
	}
	sent, before := int64(0), w.writes("kube02")
	var facts decide.CopyFacts
	for range 100 {
		if o, err := w.get("kube02", web.ID); err != nil || field(o, "spec", "replicas") != int64(7) {
			w.argo("kube02", theirs())
			sent++
		}
		w.fleet.Set(w.desired)
		w.eventually("the pass is over", func(seen decide.Observations) bool {
			facts = seen.Members["kube02"].Copies[web.ID.Unversioned()]
			settled := facts.Reason == decide.ReasonConflict
			if !settled { // or it was put back
				o, err := w.get("kube02", web.ID)
				settled = err == nil && field(o, "spec", "replicas") == int64(2)
			}
			return settled && w.fleet.Quiet()
		})
	}
	if ours := w.writes("kube02") - before - sent; ours > 3 {
		t.Errorf("%d writes of godwit and %d of Argo CD in 100 passes", ours, sent)
	}
	for _, part := range []string{"argocd-controller owns .spec.replicas", "took it back 3 times", "shop:apps/Deployment:default/web"} {
		if !strings.Contains(facts.Message, part) {
			t.Errorf("message %q, want %q in it", facts.Message, part)
		}
	}
	if got, want := w.fleet.Observe().Members["kube02"].Tracked, "map[Deployment default/web:Argo CD (argocd.argoproj.io/tracking-id: shop:apps/Deployment:default/web)]"; fmt.Sprint(got) != want {
		t.Errorf("tracked %v, want %s", got, want)
	}
}

// Ten minutes of peace are the end of a fight: what Argo CD does once in a while is put right each time.
func TestAFightIsForgottenWhenItWasCalm(t *testing.T) {
	w := newWorld(t, "kube02")
	settings := configMap(t, "settings", "1")
	w.want("kube02", settings)
	w.applied("kube02")
	theirs := api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "default"}, "data": map[string]any{"k": "theirs"}}
	m := w.fleet.members["kube02"]
	for i := range 7 {
		w.argo("kube02", theirs)
		w.eventually(fmt.Sprintf("change %d is put right", i+1), func(decide.Observations) bool {
			o, err := w.get("kube02", settings.ID)
			return err == nil && field(o, "data", "k") == "1" && w.fleet.Quiet()
		})
		w.applied("kube02")
		if i%3 == 2 {
			m.mu.Lock()
			m.copies[settings.ID.Unversioned()].putBackAt = w.fleet.options.Clock.Now().Add(-calmDown - 1)
			m.mu.Unlock()
		}
	}
}
