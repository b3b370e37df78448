//go:build realcluster

package apply

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/render/work"
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

	texts := map[string]string{
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
	}
	for name, text := range texts {
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
	for name, text := range texts {
		for how, deliver := range map[string]func(w *world, text string){
			"by apply":  func(w *world, text string) { w.other("argocd-controller", text) },
			"by create": func(w *world, text string) { w.create("argocd-controller", text) },
		} {
			t.Run(name+" that Argo CD delivers "+how, func(t *testing.T) {
				w := on(t)
				wanted := workOf(t, as("argo-"+name+"-"+how[3:], text))
				wanted.Object = work.Deliver(wanted.Object, false)
				deliver(w, string(canonical.YAML(wanted.Object)))
				out := w.applier.Await(w.context(), w.at(wanted.ID), wanted)
				if out.Reason != "" {
					t.Errorf("%s: %s", out.Reason, out.Message)
				}
				w.edit(wanted.ID, "kubectl-label", `{metadata: {labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/binding: other}}}`)
				if out = w.applier.Await(w.context(), w.at(wanted.ID), wanted); !strings.Contains(out.Message, "kubectl-label owns .metadata.annotations") {
					t.Errorf("changed by hand: %q %q", out.Reason, out.Message)
				}
			})
		}
	}
	t.Run("two deliveries do not fight", func(t *testing.T) {
		w := on(t)
		work := workOf(t, as("fought-over", deployment))
		known, taken := w.applyAfterOthers(work, nil).Known, 0
		var out Outcome
		for range 100 {
			w.other("argocd-controller", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: fought-over, namespace: default}, spec: {replicas: 7}}`)
			if out = w.applyAfterOthers(work, known); out.Change == Updated {
				taken++
			}
			known = out.Known
		}
		if taken != contestLimit || out.Reason != decide.ReasonConflict || !strings.Contains(out.Message, "argocd-controller owns .spec.replicas") {
			t.Errorf("taken back %d times, then %q %q", taken, out.Reason, out.Message)
		}
	})
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
	t.Run("a plan knows what is refused", func(t *testing.T) {
		pod := `{restartPolicy: Never, containers: [{name: c, image: i}]}`
		for _, tt := range []struct{ name, kind, before, after string }{
			{"deployment", "apps/v1, kind: Deployment", `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`, `spec: {selector: {matchLabels: {a: c}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}}`},
			{"daemonset", "apps/v1, kind: DaemonSet", `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`, `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, x: y}}, spec: {containers: [{name: c, image: j}]}}}`},
			{"statefulset", "apps/v1, kind: StatefulSet", `spec: {serviceName: a, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`, `spec: {serviceName: b, podManagementPolicy: OrderedReady, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
			{"statefulset-scaled", "apps/v1, kind: StatefulSet", `spec: {serviceName: a, replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`, `spec: {serviceName: a, podManagementPolicy: OrderedReady, replicas: 2, minReadySeconds: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
			{"job-template", "batch/v1, kind: Job", `spec: {template: {spec: ` + pod + `}}`, `spec: {template: {spec: ` + strings.Replace(pod, "image: i", "image: j", 1) + `}}`},
			{"job-parallelism", "batch/v1, kind: Job", `spec: {parallelism: 1, template: {spec: ` + pod + `}}`, `spec: {parallelism: 2, completionMode: NonIndexed, template: {spec: ` + pod + `}}`},
			{"job-completions", "batch/v1, kind: Job", `spec: {completions: 1, template: {spec: ` + pod + `}}`, `spec: {completions: 2, template: {spec: ` + pod + `}}`},
			{"job-indexed", "batch/v1, kind: Job", `spec: {completionMode: Indexed, parallelism: 1, completions: 1, template: {spec: ` + pod + `}}`, `spec: {completionMode: Indexed, parallelism: 2, completions: 2, template: {spec: ` + pod + `}}`},
			{"pod-image", "v1, kind: Pod", `spec: ` + pod, `spec: ` + strings.Replace(pod, "image: i", "image: j", 1)},
			{"pod-args", "v1, kind: Pod", `spec: ` + pod, `spec: ` + strings.Replace(pod, "image: i", "image: i, args: [a]", 1)},
			{"service-headless", "v1, kind: Service", `spec: {ports: [{port: 80}]}`, `spec: {clusterIP: None, ports: [{port: 80}]}`},
			{"service-external", "v1, kind: Service", `spec: {type: ClusterIP, ports: [{port: 80}]}`, `spec: {type: ExternalName, externalName: a.example.org, ports: [{port: 80}]}`},
			{"service-class", "v1, kind: Service", `spec: {type: LoadBalancer, loadBalancerClass: a.org/a, ports: [{port: 80}]}`, `spec: {type: LoadBalancer, loadBalancerClass: a.org/b, ports: [{port: 80}]}`},
			{"claim-mode", "v1, kind: PersistentVolumeClaim", `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}`, `spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}`},
			{"claim-shrinks", "v1, kind: PersistentVolumeClaim", `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}`, `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`},
			{"sealed", "v1, kind: ConfigMap", `immutable: true, data: {a: b}`, `immutable: true, data: {a: c}`},
			{"sealing", "v1, kind: ConfigMap", `data: {a: b}`, `immutable: true, data: {a: c}`},
			{"secret-type", "v1, kind: Secret", `data: {a: Yg==}`, `type: a.org/b, data: {a: Yg==}`},
			{"secret-opaque", "v1, kind: Secret", `data: {a: Yg==}`, `type: Opaque, data: {a: Yw==}`},
			{"storage", "storage.k8s.io/v1, kind: StorageClass", `provisioner: a.org/a, parameters: {a: b}`, `provisioner: a.org/a, parameters: {a: c}`},
			{"storage-named", "storage.k8s.io/v1, kind: StorageClass", `provisioner: a.org/a`, `provisioner: a.org/a, reclaimPolicy: Delete, volumeBindingMode: Immediate, allowVolumeExpansion: true`},
			{"attributes", "storage.k8s.io/v1, kind: VolumeAttributesClass", `driverName: a.org, parameters: {a: b}`, `driverName: a.org, parameters: {a: c}`},
			{"priority", "scheduling.k8s.io/v1, kind: PriorityClass", `value: 1`, `value: 2`},
			{"runtime", "node.k8s.io/v1, kind: RuntimeClass", `handler: a`, `handler: b`},
			{"ingress-class", "networking.k8s.io/v1, kind: IngressClass", `spec: {controller: a.org/a}`, `spec: {controller: a.org/b}`},
			{"role-binding", "rbac.authorization.k8s.io/v1, kind: RoleBinding", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}`, `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}`},
			{"slice", "discovery.k8s.io/v1, kind: EndpointSlice", `addressType: IPv4, endpoints: []`, `addressType: IPv6, endpoints: []`},
		} {
			w := on(t)
			text := func(fields string) string {
				namespace := `namespace: default, `
				if strings.HasSuffix(tt.kind, "Class") {
					namespace = ""
				}
				return `{apiVersion: ` + tt.kind + `, metadata: {name: frozen-` + tt.name + `, ` + namespace + marks + `}, ` + fields + `}`
			}
			before, after := workOf(t, text(tt.before)), workOf(t, text(tt.after))
			out := w.applyAfterOthers(before, nil)
			if out.Change != Created {
				t.Errorf("%s: %s %s %s", tt.name, out.Change, out.Reason, out.Message)
				continue
			}
			fields, out := decide.Frozen(before.Object, after.Object), w.applyAfterOthers(after, out.Known)
			if refused := out.Reason == decide.ReasonImmutableField; refused != (len(fields) > 0) {
				t.Errorf("%s: a plan knows %q, and the server says: %s %s %s", tt.name, fields, out.Change, out.Reason, out.Message)
			}
		}
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
