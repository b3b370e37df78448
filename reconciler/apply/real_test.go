//go:build realcluster

package apply

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// What is worth a real API server: its defaults, its own way of writing values, and its managedFields.
func TestOnARealServer(t *testing.T) {
	binary := os.Getenv("GODWIT_MEMBERCLUSTER")
	if binary == "" {
		t.Fatal("GODWIT_MEMBERCLUSTER must be the path of the program built from testdata/membercluster")
	}
	real, err := membertest.StartReal(t.Context(), binary, "", "real")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := real.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := real.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	on := func(t *testing.T) *world {
		return &world{t, nil, client, Applier{Fleet: "godwit", Migrate: LegacyManagers}}
	}
	as := func(name, text string) string {
		return strings.Replace(text, "name: web, namespace", "name: "+name+", namespace", 1)
	}

	for name, text := range map[string]string{
		"a-deployment":   deployment,
		"a-config-map":   configMap,
		"a-secret":       `{apiVersion: v1, kind: Secret, metadata: {name: web, namespace: default, ` + marks + `}, stringData: {k: v}}`,
		"a-service":      `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default, ` + marks + `}, spec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 80, protocol: UDP}]}}`,
		"a-long-podspec": longPodSpec,
		"a-limit-range":  `{apiVersion: v1, kind: LimitRange, metadata: {name: web, namespace: default, ` + marks + `}, spec: {limits: [{type: Container, max: {cpu: 2000m}, default: {memory: 1024Mi}}]}}`,
		"a-quota":        `{apiVersion: v1, kind: ResourceQuota, metadata: {name: web, namespace: default, ` + marks + `}, spec: {hard: {pods: 10, limits.cpu: 10000m}}}`,
		"a-role":         `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: web, namespace: default, ` + marks + `}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		"an-ingress":     `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: default, ` + marks + `}, spec: {rules: [{host: a.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`,
		"a-cron-job":     `{apiVersion: batch/v1, kind: CronJob, metadata: {name: web, namespace: default, ` + marks + `}, spec: {schedule: "0 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`,
		"an-autoscaler":  `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: default, ` + marks + `}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 1000m}}}]}}`,
	} {
		t.Run(name+" needs no second write", func(t *testing.T) {
			w := on(t)
			work := workOf(t, as(name, text))
			out := w.applyAfterOthers(work, nil)
			expect(t, "first", out, Created)
			live := w.get(work.ID)
			if d := Compare(sent(work, true), live); len(d) > 0 && name != "a-limit-range" { // which takes the dry run
				t.Errorf("differences: %v", d)
			}
			expect(t, "again", w.applyAfterOthers(work, out.Known), Unchanged)
			expect(t, "after a restart", w.applyAfterOthers(work, nil), Unchanged)
		})
	}
	t.Run("replicas are given away and taken back", func(t *testing.T) {
		w := on(t)
		work := workOf(t, as("handed", deployment))
		replicas := func(want int64) {
			t.Helper()
			if got := value(w.get(work.ID), "spec", "replicas"); got != want {
				t.Fatalf("replicas = %v, want %d", got, want)
			}
		}
		known := w.applyAfterOthers(work, nil).Known
		work.Retain = true
		out := w.applyAfterOthers(work, known)
		expect(t, "given away", out, Updated)
		replicas(2)
		w.edit(work.ID, "autoscaler", `{spec: {replicas: 9}}`)
		expect(t, "scaled", w.applyAfterOthers(work, out.Known), Unchanged)
		work.Retain = false
		expect(t, "taken back", w.applyAfterOthers(work, nil), Updated)
		replicas(2)
	})
	t.Run("adoption takes over what kubectl apply owned", func(t *testing.T) {
		w := on(t)
		theirs := strings.NewReplacer("replicas: 2", "replicas: 5\n  minReadySeconds: 7", marks, "labels: {theirs: x}").Replace(as("adopted", deployment))
		w.create("kubectl-client-side-apply", theirs)
		work := workOf(t, as("adopted", deployment))
		if out := w.applyAfterOthers(work, nil); out.Reason != decide.ReasonNotOurs {
			t.Errorf("got %q %q", out.Reason, out.Message)
		}
		work.Overwrite = true
		expect(t, "adopt", w.applyAfterOthers(work, nil), Adopted)
		live := w.get(work.ID)
		if value(live, "spec", "replicas") != int64(2) || value(live, "spec", "minReadySeconds") != nil || label(live, "theirs") != "" {
			t.Errorf("what the template lacks is still there: %v %v", live["metadata"], live["spec"])
		}
		expect(t, "again", w.applyAfterOthers(work, nil), Unchanged)
	})
	t.Run("an immutable field needs leave to recreate", func(t *testing.T) {
		w := on(t)
		known := w.applyAfterOthers(workOf(t, as("fixed", deployment)), nil).Known
		changed := strings.ReplaceAll(as("fixed", deployment), "{app: web}", "{app: other}")
		if out := w.applyAfterOthers(workOf(t, changed), known); out.Reason != decide.ReasonImmutableField {
			t.Errorf("got %q %q", out.Reason, out.Message)
		}
		expect(t, "allowed", w.applyAfterOthers(workOf(t, strings.Replace(changed, "annotations: {", "annotations: {godwit.dev/recreate: allowed, ", 1)), known), Recreated)
	})
	t.Run("what is released can be adopted again", func(t *testing.T) {
		// Kinds that no controller of the server writes to: what it writes between two steps of an
		// adoption makes of it another outcome.
		ingress := `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: default, ` + marks + `}, spec: {rules: [{host: a.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`
		for _, text := range []string{as("released", configMap), as("released", ingress)} {
			w := on(t)
			work := workOf(t, text)
			w.applyAfterOthers(work, nil)
			if out := w.deleteAfterOthers(Retired{ID: work.ID, Preserve: true}); out.Change != Released || !out.Gone {
				t.Errorf("got %+v", out)
			}
			if mine, _ := claims(w.get(work.ID)); mine.parts != nil {
				t.Error("we still own a part")
			}
			work.Overwrite = true
			expect(t, "adopt", w.applyAfterOthers(work, nil), Adopted)
			expect(t, "again", w.applyAfterOthers(work, nil), Unchanged)
		}
	})
	t.Run("a kind that is not served and a namespace that is missing are told apart", func(t *testing.T) {
		w := on(t)
		work := workOf(t, as("lost", configMap))
		widgets := w.client.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}).Namespace("default")
		if out := w.applier.Apply(w.context(), widgets, work, nil); out.Reason != decide.ReasonNoKind {
			t.Errorf("kind: got %q %q", out.Reason, out.Message)
		}
		work.ID.Namespace = "nowhere"
		work.Object = with(work.Object, "metadata", map[string]any{"name": "lost", "namespace": "nowhere"})
		if out := w.applyAfterOthers(work, nil); out.Reason != decide.ReasonFailed || !strings.Contains(out.Message, `namespaces "nowhere" not found`) {
			t.Errorf("namespace: got %q %q", out.Reason, out.Message)
		}
	})
}

// applyAfterOthers applies again while the server's own controllers write the object at the same
// moment, as the queue of a member does.
func (w *world) applyAfterOthers(work Work, known *Known) Outcome {
	w.Helper()
	for range 50 {
		if out := w.apply(work, known); !strings.Contains(out.Message, "the object has been modified") {
			return out
		}
	}
	w.Fatal("the object is never left alone")
	return Outcome{}
}

// deleteAfterOthers deletes again, likewise.
func (w *world) deleteAfterOthers(r Retired) Outcome {
	w.Helper()
	for range 50 {
		if out := w.applier.Delete(w.context(), w.at(r.ID), r); !out.Waiting {
			return out
		}
	}
	w.Fatal("the object is never left alone")
	return Outcome{}
}
