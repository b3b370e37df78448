package interpret

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// of is the object of the kind with the rest in flow style: "spec: {replicas: 1}".
func of(apiVersion, kind, rest string) api.Object {
	o := yamlObject(rest)
	if o == nil {
		o = api.Object{}
	}
	o["apiVersion"], o["kind"] = apiVersion, kind
	meta := object(o["metadata"])
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"], meta["namespace"] = "web", "shop"
	o["metadata"] = meta
	return o
}

func TestHealthOfNativeKinds(t *testing.T) {
	const (
		healthy   = workv1alpha2.ResourceHealthy
		unhealthy = workv1alpha2.ResourceUnhealthy
		unknown   = workv1alpha2.ResourceUnknown
	)
	for _, tt := range []struct {
		apiVersion, kind, name, rest string
		want                         workv1alpha2.ResourceHealth
	}{
		{"apps/v1", "Deployment", "all there", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`, healthy},
		{"apps/v1", "Deployment", "more than wanted while rolling", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 4}}`, healthy},
		{"apps/v1", "Deployment", "rolling out", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 1, availableReplicas: 3}}`, unhealthy},
		{"apps/v1", "Deployment", "not available", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 2}}`, unhealthy},
		{"apps/v1", "Deployment", "old generation", `{metadata: {generation: 3}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`, unhealthy},
		{"apps/v1", "Deployment", "empty status", `{metadata: {generation: 1}, spec: {replicas: 3}, status: {}}`, unhealthy},
		{"apps/v1", "Deployment", "no status", `{metadata: {generation: 1}, spec: {replicas: 3}}`, unhealthy},
		{"apps/v1", "Deployment", "scaled to 0", `{metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2}}`, healthy},
		{"apps/v1", "Deployment", "no number of replicas", `{metadata: {generation: 2}, spec: {}, status: {observedGeneration: 2}}`, healthy},
		{"apps/v1", "Deployment", "nothing updated yet", `{metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 2, availableReplicas: 1}}`, unhealthy},
		{"apps/v1", "Deployment", "numbers read as floats", `{metadata: {generation: 2}, spec: {replicas: 3.0}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`, healthy},
		{"apps/v1", "StatefulSet", "all there", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`, healthy},
		{"apps/v1", "StatefulSet", "rolling out", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 3}}`, unhealthy},
		{"apps/v1", "StatefulSet", "not available", `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3}}`, unhealthy},
		{"apps/v1", "StatefulSet", "old generation", `{metadata: {generation: 3}, spec: {replicas: 1}, status: {observedGeneration: 2, updatedReplicas: 1, availableReplicas: 1}}`, unhealthy},
		{"apps/v1", "StatefulSet", "empty status", `{metadata: {generation: 1}, spec: {replicas: 1}, status: {}}`, unhealthy},
		{"apps/v1", "ReplicaSet", "all there", `{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, availableReplicas: 2}}`, healthy},
		{"apps/v1", "ReplicaSet", "not available", `{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, availableReplicas: 1}}`, unhealthy},
		{"apps/v1", "ReplicaSet", "old generation", `{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 1, availableReplicas: 2}}`, unhealthy},
		{"apps/v1", "ReplicaSet", "empty status", `{metadata: {generation: 1}, spec: {replicas: 1}, status: {}}`, unhealthy},
		{"apps/v1", "DaemonSet", "everywhere", `{metadata: {generation: 2}, status: {observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3}}`, healthy},
		{"apps/v1", "DaemonSet", "no node wants it", `{metadata: {generation: 2}, status: {observedGeneration: 2}}`, healthy},
		{"apps/v1", "DaemonSet", "rolling out", `{metadata: {generation: 2}, status: {observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 2, numberAvailable: 3}}`, unhealthy},
		{"apps/v1", "DaemonSet", "not available", `{metadata: {generation: 2}, status: {observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}}`, unhealthy},
		{"apps/v1", "DaemonSet", "old generation", `{metadata: {generation: 2}, status: {observedGeneration: 1}}`, unhealthy},
		{"apps/v1", "DaemonSet", "empty status", `{metadata: {generation: 1}, status: {}}`, unhealthy},
		{"v1", "Service", "inside the cluster", `{spec: {type: ClusterIP}}`, healthy},
		{"v1", "Service", "without type", `{spec: {}}`, healthy},
		{"v1", "Service", "balancer with ip", `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}, {ip: 10.0.0.1}]}}}`, healthy},
		{"v1", "Service", "balancer with host name", `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{hostname: a.example}]}}}`, healthy},
		{"v1", "Service", "balancer without address", `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}]}}}`, unhealthy},
		{"v1", "Service", "balancer with empty status", `{spec: {type: LoadBalancer}, status: {}}`, unhealthy},
		{"networking.k8s.io/v1", "Ingress", "address", `{status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}}`, healthy},
		{"networking.k8s.io/v1", "Ingress", "no address", `{status: {loadBalancer: {}}}`, unhealthy},
		{"networking.k8s.io/v1", "Ingress", "no status", `{}`, unhealthy},
		{"v1", "PersistentVolumeClaim", "bound", `{status: {phase: Bound}}`, healthy},
		{"v1", "PersistentVolumeClaim", "pending", `{status: {phase: Pending}}`, unhealthy},
		{"v1", "PersistentVolumeClaim", "lost", `{status: {phase: Lost}}`, unhealthy},
		{"v1", "PersistentVolumeClaim", "empty status", `{status: {}}`, unhealthy},
		{"v1", "Pod", "done", `{status: {phase: Succeeded}}`, healthy},
		{"v1", "Pod", "ready", `{status: {phase: Running, conditions: [{type: Initialized, status: "False"}, {type: Ready, status: "True"}]}}`, healthy},
		{"v1", "Pod", "not ready", `{status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}`, unhealthy},
		{"v1", "Pod", "running without conditions", `{status: {phase: Running}}`, unhealthy},
		{"v1", "Pod", "pending", `{status: {phase: Pending}}`, unhealthy},
		{"v1", "Pod", "failed", `{status: {phase: Failed}}`, unhealthy},
		{"v1", "Pod", "no status", `{}`, unhealthy},
		{"policy/v1", "PodDisruptionBudget", "enough", `{status: {currentHealthy: 2, desiredHealthy: 2}}`, healthy},
		{"policy/v1", "PodDisruptionBudget", "too few", `{status: {currentHealthy: 1, desiredHealthy: 2}}`, unhealthy},
		{"policy/v1", "PodDisruptionBudget", "empty status", `{status: {}}`, healthy},
		{"batch/v1", "Job", "running", `{spec: {completions: 2}, status: {active: 1}}`, healthy},
		{"batch/v1", "Job", "failed", `{status: {failed: 1, conditions: [{type: Failed, status: "True"}]}}`, healthy},
		{"batch/v1", "CronJob", "never run", `{}`, healthy},

		{"v1", "ConfigMap", "there", `{data: {a: b}}`, healthy},
		{"v1", "ConfigMap", "going", `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}}`, unknown},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "there", `{}`, healthy},
		{"example.io/v1", "Fleet", "no status", `{spec: {}}`, healthy},
		{"example.io/v1", "Fleet", "status without conditions", `{status: {n: 1}}`, healthy},
		{"example.io/v1", "Fleet", "ready", `{status: {conditions: [{type: Ready, status: "True"}]}}`, healthy},
		{"example.io/v1", "Fleet", "not ready", `{status: {conditions: [{type: Ready, status: "False"}]}}`, unknown},
		{"example.io/v1", "Fleet", "stalled", `{status: {conditions: [{type: Stalled, status: "True"}]}}`, unhealthy},
		{"example.io/v1", "Fleet", "reconciling", `{status: {conditions: [{type: Reconciling, status: "True"}]}}`, unknown},
		{"example.io/v1", "Fleet", "old generation", `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`, unknown},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "no status", `{}`, unknown},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "established", `{status: {conditions: [{type: Established, status: "True"}]}}`, healthy},
		{"apps/v1beta1", "DaemonSet", "a version without rule", `{status: {}}`, unknown},
	} {
		t.Run(tt.kind+" "+tt.name, func(t *testing.T) {
			got, err := (&Interpreter{}).Health(of(tt.apiVersion, tt.kind, tt.rest))
			if got != tt.want || err != nil {
				t.Errorf("Health = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestReplicasAndRequirements(t *testing.T) {
	for _, tt := range []struct {
		apiVersion, kind, rest string
		want                   string
	}{
		{"apps/v1", "Deployment", `{spec: {replicas: 3}}`, `3 null`},
		{"apps/v1", "Deployment", `{spec: {}}`, `0 null`},
		{"apps/v1", "ReplicaSet", `{spec: {replicas: 2}}`, `2 null`},
		{"apps/v1", "StatefulSet", `{spec: {replicas: 0}}`, `0 null`},
		{"batch/v1", "Job", `{spec: {parallelism: 3, completions: 2}}`, `2 null`},
		{"batch/v1", "Job", `{spec: {parallelism: 3, completions: 9}}`, `3 null`},
		{"batch/v1", "Job", `{spec: {parallelism: 3}}`, `3 null`},
		{"v1", "Pod", `{spec: {containers: [{resources: {requests: {cpu: 1}}}]}}`, `1 {"resourceRequest":{"cpu":"1"}}`},
		{"apps/v1", "DaemonSet", `{spec: {template: {spec: {containers: [{resources: {requests: {cpu: 1}}}]}}}}`, `none`},
		{"batch/v1", "CronJob", `{spec: {}}`, `none`},
		{"apps/v1beta1", "Deployment", `{spec: {replicas: 3}}`, `none`},
		{"v1", "ConfigMap", `{}`, `none`},

		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {containers: [
			{resources: {requests: {cpu: 100m, memory: 1Gi}}},
			{resources: {requests: {cpu: 200m}, limits: {cpu: 5, memory: 512Mi}}}]}}}}`,
			`1 {"resourceRequest":{"cpu":"300m","memory":"1536Mi"}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {containers: [{resources: {requests: {cpu: 100m, memory: 1Gi}}}],
			initContainers: [{resources: {requests: {cpu: 300m}}}, {resources: {limits: {cpu: 200m, "example.com/gpu": 1}}}],
			overhead: {cpu: 50m}}}}}`,
			`1 {"resourceRequest":{"cpu":"350m","example.com/gpu":"1","memory":"1Gi"}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {containers: [{resources: {requests: {cpu: 0}}}]}}}}`, `1 null`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {nodeSelector: {disk: ssd}, tolerations: [{key: spot, operator: Exists}],
			affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]},
			  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}}}}`,
			`1 {"nodeClaim":{"hardNodeAffinity":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]},"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"spot","operator":"Exists"}]}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {nodeSelector: {}, tolerations: []}}}}`, `1 null`},

		{"apps/v1", "Deployment", `{spec: {replicas: "3"}}`, `spec.replicas: want a whole number from 0 to 2147483647, have "3"`},
		{"apps/v1", "Deployment", `{spec: {replicas: -1}}`, `spec.replicas: want a whole number from 0 to 2147483647, have -1`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1.5}}`, `spec.replicas: want a whole number from 0 to 2147483647, have 1.5`},
		{"apps/v1", "Deployment", `{spec: {replicas: 3000000000}}`, `spec.replicas: want a whole number from 0 to 2147483647, have 3000000000`},
		{"batch/v1", "Job", `{spec: {parallelism: 1, completions: many}}`, `spec.completions: want a whole number from 0 to 2147483647, have "many"`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {containers: [{}, {resources: {requests: {cpu: much, memory: more}}}]}}}}`,
			`spec.template.spec: containers[1].resources.requests.cpu: "much" is no quantity such as 500m or 2Gi; requests.memory: "more" is no quantity such as 500m or 2Gi`},
		{"apps/v1", "Deployment", `{spec: {replicas: 1, template: {spec: {containers: [{resources: {requests: {cpu: 1e900000000}}}]}}}}`,
			`spec.template.spec: containers[0].resources.requests.cpu: "1e900000000" is no quantity such as 500m or 2Gi`},
	} {
		t.Run(tt.kind+" "+tt.rest, func(t *testing.T) {
			r, err := (&Interpreter{}).Replicas(of(tt.apiVersion, tt.kind, tt.rest))
			got := "none"
			switch {
			case err != nil:
				got = err.Error()
			case r.Workload:
				got = fmt.Sprintf("%d %s", r.Count, jsonText(r.Requirements))
			case r.Count != 0 || r.Requirements != nil:
				got = fmt.Sprintf("no workload, yet %+v", r)
			}
			if got != tt.want {
				t.Errorf("Replicas = %s\nwant %s", got, tt.want)
			}
		})
	}
}

// edited runs a function from object to object and checks that it left its argument alone.
func edited(t *testing.T, o api.Object, edit func(api.Object) (api.Object, error)) api.Object {
	t.Helper()
	before := jsonText(o)
	got, err := edit(o)
	if err != nil {
		t.Fatal(err)
	}
	if after := jsonText(o); after != before {
		t.Errorf("the argument was changed from %s to %s", before, after)
	}
	return got
}

func TestReviseWritesOnlyAFieldThatExists(t *testing.T) {
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"apps/v1", "Deployment", `{spec: {replicas: 3, paused: true}}`, `{spec: {replicas: 7, paused: true}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: 0}}`, `{spec: {replicas: 7}}`},
		{"apps/v1", "Deployment", `{spec: {paused: true}}`, `{spec: {paused: true}}`},
		{"apps/v1", "ReplicaSet", `{spec: {replicas: 3}}`, `{spec: {replicas: 7}}`},
		{"apps/v1", "StatefulSet", `{spec: {replicas: 3}}`, `{spec: {replicas: 7}}`},
		{"batch/v1", "Job", `{spec: {parallelism: 3, completions: 9}}`, `{spec: {parallelism: 7, completions: 9}}`},
		{"v1", "Pod", `{spec: {replicas: 3}}`, `{spec: {replicas: 3}}`},
		{"example.io/v1", "Fleet", `{spec: {replicas: 3}}`, `{spec: {replicas: 3}}`},
	} {
		got := edited(t, of(tt.apiVersion, tt.kind, tt.rest), func(o api.Object) (api.Object, error) { return (&Interpreter{}).Revise(o, 7) })
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" {
			t.Errorf("Revise(%s %s, 7): %s", tt.kind, tt.rest, diff)
		}
	}
}

func TestDefault(t *testing.T) {
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"apps/v1", "Deployment", `{spec: {paused: true}}`, `{spec: {paused: true, replicas: 1}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: null}}`, `{spec: {replicas: 1}}`},
		{"apps/v1", "Deployment", `{spec: {replicas: 0}}`, `{spec: {replicas: 0}}`},
		{"apps/v1", "Deployment", `{}`, `{spec: {replicas: 1}}`},
		{"apps/v1", "Deployment", `{spec: wrong}`, `{spec: wrong}`},
		{"apps/v1", "ReplicaSet", `{spec: {}}`, `{spec: {replicas: 1}}`},
		{"apps/v1", "StatefulSet", `{spec: {}}`, `{spec: {replicas: 1}}`},
		{"batch/v1", "Job", `{spec: {}}`, `{spec: {parallelism: 1, completions: 1}}`},
		{"batch/v1", "Job", `{spec: {parallelism: 4}}`, `{spec: {parallelism: 4}}`},
		{"batch/v1", "Job", `{spec: {completions: 4}}`, `{spec: {completions: 4, parallelism: 1}}`},
		{"v1", "Service", `{spec: {}}`, `{spec: {type: ClusterIP}}`},
		{"v1", "Service", `{spec: {type: LoadBalancer}}`, `{spec: {type: LoadBalancer}}`},
		{"apps/v1", "DaemonSet", `{spec: {}}`, `{spec: {}}`},
		{"batch/v1", "CronJob", `{spec: {jobTemplate: {spec: {}}}}`, `{spec: {jobTemplate: {spec: {}}}}`},
		{"apps/v1beta1", "Deployment", `{spec: {}}`, `{spec: {}}`},
	} {
		got := edited(t, of(tt.apiVersion, tt.kind, tt.rest), func(o api.Object) (api.Object, error) { return Default(o), nil })
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" {
			t.Errorf("Default(%s %s): %s", tt.kind, tt.rest, diff)
		}
		if diff := cmp.Diff(got, Default(got)); diff != "" {
			t.Errorf("Default(%s %s) has something to add to itself: %s", tt.kind, tt.rest, diff)
		}
	}
}

func TestPrune(t *testing.T) {
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"v1", "ConfigMap", `{data: {a: b}}`, `{data: {a: b}}`},
		{"v1", "ConfigMap", `{metadata: {creationTimestamp: x, deletionTimestamp: x, deletionGracePeriodSeconds: 1, generation: 1, managedFields: [], resourceVersion: x,
			selfLink: x, uid: x, ownerReferences: [], finalizers: [], generateName: w, labels: {a: b}, annotations: {c: d}}, status: {}}`,
			`{metadata: {generateName: w, labels: {a: b}, annotations: {c: d}}}`},
		{"apps/v1", "Deployment", `{metadata: {annotations: {deployment.kubernetes.io/revision: "1", deployment.kubernetes.io/revision-history: "1,2", a: b}}}`, `{metadata: {annotations: {a: b}}}`},
		{"apps/v1", "StatefulSet", `{metadata: {annotations: {deployment.kubernetes.io/revision: "1"}}}`, `{metadata: {annotations: {deployment.kubernetes.io/revision: "1"}}}`},
		{"batch/v1", "Job", `{spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {controller-uid: x, batch.kubernetes.io/controller-uid: x}},
			template: {metadata: {labels: {controller-uid: x, batch.kubernetes.io/controller-uid: x, job-name: x, batch.kubernetes.io/job-name: x, a: b}}}}}`,
			`{spec: {selector: {matchLabels: {}}, template: {metadata: {labels: {a: b}}}}}`},
		{"batch/v1", "Job", `{spec: {ttlSecondsAfterFinished: 5, manualSelector: true, selector: {matchLabels: {controller-uid: x}}}}`,
			`{spec: {manualSelector: true, selector: {matchLabels: {controller-uid: x}}}}`},
		{"v1", "ServiceAccount", `{secrets: [{name: web-token-a}, {name: web-token-b}, {name: mine}, {name: other-token-c}]}`, `{secrets: [{name: mine}, {name: other-token-c}]}`},
		{"v1", "ServiceAccount", `{secrets: [{name: web-token-a}]}`, `{secrets: []}`},
		{"v1", "Service", `{spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], type: ClusterIP}}`, `{spec: {type: ClusterIP}}`},
		{"v1", "Service", `{spec: {clusterIP: None, clusterIPs: [None]}}`, `{spec: {clusterIP: None, clusterIPs: [None]}}`},
		{"v1", "Secret", `{type: kubernetes.io/service-account-token, data: {token: x}, metadata: {annotations: {kubernetes.io/service-account.uid: x, kubernetes.io/service-account.name: web}}}`,
			`{type: kubernetes.io/service-account-token, data: null, metadata: {annotations: {kubernetes.io/service-account.name: web}}}`},
		{"v1", "Secret", `{type: Opaque, data: {token: x}}`, `{type: Opaque, data: {token: x}}`},
		{"v1", "PersistentVolumeClaim", `{metadata: {annotations: {volume.kubernetes.io/selected-node: n1, a: b}}}`, `{metadata: {annotations: {a: b}}}`},
	} {
		got := edited(t, of(tt.apiVersion, tt.kind, tt.rest), func(o api.Object) (api.Object, error) { return Prune(o), nil })
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" {
			t.Errorf("Prune(%s %s): %s", tt.kind, tt.rest, diff)
		}
	}
}

func TestCompletionsAreOfJobsAlone(t *testing.T) {
	for _, tt := range []struct {
		apiVersion, kind, rest string
		want                   int32
		ok                     bool
	}{
		{"batch/v1", "Job", `{spec: {completions: 5}}`, 5, true},
		{"batch/v1", "Job", `{spec: {parallelism: 5}}`, 0, false},
		{"batch/v1", "Job", `{spec: {completions: five}}`, 0, false},
		{"batch.volcano.sh/v1alpha1", "Job", `{spec: {completions: 5}}`, 0, false},
	} {
		o := of(tt.apiVersion, tt.kind, tt.rest)
		if got, ok := Completions(o); got != tt.want || ok != tt.ok {
			t.Errorf("Completions(%s) = %d, %t", tt.rest, got, ok)
		}
	}
	got := edited(t, of("batch/v1", "Job", `{spec: {completions: 5}}`), func(o api.Object) (api.Object, error) { return WithCompletions(o, 2), nil })
	if diff := cmp.Diff(of("batch/v1", "Job", `{spec: {completions: 2}}`), got); diff != "" {
		t.Error(diff)
	}
}

func TestRetain(t *testing.T) {
	for _, tt := range []struct{ apiVersion, kind, desired, live, want string }{
		{"apps/v1", "Deployment", `{spec: {replicas: 1}}`, `{spec: {replicas: 5}}`, `{spec: {replicas: 1}}`},
		{"apps/v1", "Deployment", `{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}, spec: {replicas: 1}}`, `{spec: {replicas: 5}}`,
			`{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}, spec: {replicas: 5}}`},
		{"v1", "Pod", `{spec: {containers: [{name: a, image: x}, {name: b}], initContainers: [{name: i}]}}`,
			`{spec: {nodeName: n1, serviceAccountName: s, volumes: [{name: v}], containers: [{name: b, volumeMounts: [{name: v}]}, {name: c}], initContainers: [{name: i, volumeMounts: [{name: w}]}]}}`,
			`{spec: {nodeName: n1, serviceAccountName: s, volumes: [{name: v}], containers: [{name: a, image: x}, {name: b, volumeMounts: [{name: v}]}], initContainers: [{name: i, volumeMounts: [{name: w}]}]}}`},
		{"v1", "Service", `{spec: {}}`, `{spec: {clusterIP: 10.0.0.1, healthCheckNodePort: 30000}}`, `{spec: {clusterIP: 10.0.0.1, healthCheckNodePort: 30000}}`},
		{"v1", "Service", `{spec: {}}`, `{spec: {clusterIP: "", healthCheckNodePort: 0}}`, `{spec: {}}`},
		{"v1", "ServiceAccount", `{secrets: [{name: a}], imagePullSecrets: [{name: p}]}`, `{secrets: [{name: b}, {name: a}]}`, `{secrets: [{name: a}, {name: b}], imagePullSecrets: [{name: p}]}`},
		{"v1", "PersistentVolumeClaim", `{spec: {}}`, `{spec: {volumeName: pv}}`, `{spec: {volumeName: pv}}`},
		{"v1", "PersistentVolume", `{spec: {}}`, `{spec: {claimRef: {name: c}}}`, `{spec: {claimRef: {name: c}}}`},
		{"batch/v1", "Job", `{spec: {template: {metadata: {labels: {a: b}}}}}`, `{spec: {selector: {matchLabels: {u: "1"}}, template: {metadata: {labels: {a: b, u: "1"}}}}}`,
			`{spec: {selector: {matchLabels: {u: "1"}}, template: {metadata: {labels: {a: b, u: "1"}}}}}`},
		{"v1", "Secret", `{type: kubernetes.io/service-account-token}`, `{data: {token: x}}`, `{type: kubernetes.io/service-account-token, data: {token: x}}`},
		{"v1", "Secret", `{type: Opaque}`, `{data: {token: x}}`, `{type: Opaque}`},
		{"apps/v1", "StatefulSet", `{spec: {replicas: 1}}`, `{spec: {replicas: 5}}`, `{spec: {replicas: 1}}`},
	} {
		live := of(tt.apiVersion, tt.kind, tt.live)
		got := edited(t, of(tt.apiVersion, tt.kind, tt.desired), func(o api.Object) (api.Object, error) { return (&Interpreter{}).Retain(o, live) })
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" {
			t.Errorf("Retain(%s, %s, %s): %s", tt.kind, tt.desired, tt.live, diff)
		}
	}
}

func TestReflectedStatus(t *testing.T) {
	const carried = `generation: 3, annotations: {resourcetemplate.karmada.io/generation: "2"}`
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"apps/v1", "Deployment", `{metadata: {` + carried + `}, status: {replicas: 3, updatedReplicas: 0, readyReplicas: 2, availableReplicas: 2, unavailableReplicas: 1, observedGeneration: 3, conditions: [{}]}}`,
			`{generation: 3, resourceTemplateGeneration: 2, replicas: 3, readyReplicas: 2, availableReplicas: 2, unavailableReplicas: 1, observedGeneration: 3}`},
		{"apps/v1", "Deployment", `{metadata: {` + carried + `}, status: {replicas: 0, conditions: [{}]}}`, `null`},
		{"apps/v1", "Deployment", `{metadata: {` + carried + `}}`, `null`},
		{"apps/v1", "ReplicaSet", `{metadata: {` + carried + `}, status: {replicas: 3, readyReplicas: 2, availableReplicas: 1, observedGeneration: 3, fullyLabeledReplicas: 3}}`,
			`{generation: 3, resourceTemplateGeneration: 2, replicas: 3, readyReplicas: 2, availableReplicas: 1, observedGeneration: 3}`},
		{"apps/v1", "ReplicaSet", `{metadata: {` + carried + `}, status: {}}`, `null`},
		{"apps/v1", "StatefulSet", `{metadata: {` + carried + `}, status: {availableReplicas: 1, currentReplicas: 2, readyReplicas: 3, replicas: 4, updatedReplicas: 5, observedGeneration: 3, currentRevision: x}}`,
			`{generation: 3, resourceTemplateGeneration: 2, availableReplicas: 1, currentReplicas: 2, readyReplicas: 3, replicas: 4, updatedReplicas: 5}`},
		{"apps/v1", "StatefulSet", `{metadata: {generation: 1}, status: {}}`, `{generation: 1}`},
		{"apps/v1", "DaemonSet", `{metadata: {generation: 3}, status: {currentNumberScheduled: 1, desiredNumberScheduled: 2, numberAvailable: 3, numberMisscheduled: 0, numberReady: 4, updatedNumberScheduled: 5, numberUnavailable: 6, observedGeneration: 3, collisionCount: 1}}`,
			`{generation: 3, currentNumberScheduled: 1, desiredNumberScheduled: 2, numberAvailable: 3, numberReady: 4, updatedNumberScheduled: 5, numberUnavailable: 6, observedGeneration: 3}`},
		{"batch/v1", "Job", `{status: {active: 1, succeeded: 2, failed: 3, conditions: [{type: Complete}], startTime: a, completionTime: b, ready: 1}}`,
			`{active: 1, succeeded: 2, failed: 3, conditions: [{type: Complete}], startTime: a, completionTime: b}`},
		{"v1", "Service", `{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}, conditions: []}}`, `{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}`},
		{"v1", "Service", `{spec: {type: NodePort}, status: {loadBalancer: {}}}`, `null`},
		{"policy/v1", "PodDisruptionBudget", `{status: {disruptionsAllowed: 1, expectedPods: 2, desiredHealthy: 3, currentHealthy: 0, disruptedPods: {p: t}, observedGeneration: 1}}`,
			`{disruptionsAllowed: 1, expectedPods: 2, desiredHealthy: 3, currentHealthy: 0, disruptedPods: {p: t}}`},
		{"autoscaling/v2", "HorizontalPodAutoscaler", `{status: {currentReplicas: 1, desiredReplicas: 2, conditions: []}}`, `{currentReplicas: 1, desiredReplicas: 2}`},
		{"v1", "Pod", `{status: {phase: Running, podIP: x}}`, `{phase: Running, podIP: x}`},
		{"example.io/v1", "Fleet", `{status: {any: thing}}`, `{any: thing}`},
		{"v1", "ConfigMap", `{}`, `null`},
	} {
		got, err := (&Interpreter{}).Status(of(tt.apiVersion, tt.kind, tt.rest))
		if diff := cmp.Diff(yamlObject(tt.want), got); diff != "" || err != nil {
			t.Errorf("Status(%s %s): %v %s", tt.kind, tt.rest, err, diff)
		}
	}
	bad := of("apps/v1", "Deployment", `{metadata: {annotations: {resourcetemplate.karmada.io/generation: two}}, status: {replicas: 1}}`)
	if _, err := (&Interpreter{}).Status(bad); err == nil || !strings.Contains(err.Error(), `want a number, have "two"`) {
		t.Errorf("Status of a copy with generation two: error %v", err)
	}
}

// items are named a, b, c; each is "status", or "-" for a copy that reported none.
func items(statuses ...string) []StatusItem {
	var out []StatusItem
	for n, status := range statuses {
		item := StatusItem{Cluster: string(rune('a' + n)), Applied: true, Health: workv1alpha2.ResourceHealthy}
		if status != "-" {
			item.Status = yamlObject(status)
		}
		out = append(out, item)
	}
	return out
}

func TestAggregateStatus(t *testing.T) {
	for _, tt := range []struct {
		apiVersion, kind, rest string
		items                  []StatusItem
		want                   string // of the status
	}{
		{"apps/v1", "Deployment", `{metadata: {generation: 2}, status: {replicas: 9, observedGeneration: 1, conditions: [{type: x}]}}`,
			items(`{replicas: 1, readyReplicas: 1, generation: 5, observedGeneration: 5, resourceTemplateGeneration: 2}`, `{replicas: 2, generation: 7, observedGeneration: 7, resourceTemplateGeneration: 2}`),
			`{replicas: 3, readyReplicas: 1, observedGeneration: 2, conditions: [{type: x}]}`},
		{"apps/v1", "Deployment", `{metadata: {generation: 2}, status: {observedGeneration: 1}}`,
			items(`{replicas: 1, generation: 5, observedGeneration: 4, resourceTemplateGeneration: 2}`), `{replicas: 1, observedGeneration: 1}`},
		{"apps/v1", "Deployment", `{metadata: {generation: 2}, status: {observedGeneration: 1}}`,
			items(`{replicas: 1, generation: 5, observedGeneration: 5, resourceTemplateGeneration: 1}`), `{replicas: 1, observedGeneration: 1}`},
		{"apps/v1", "Deployment", `{metadata: {generation: 2}, status: {observedGeneration: 1}}`,
			items(`{replicas: 1, generation: 5, observedGeneration: 5, resourceTemplateGeneration: 2}`, "-"), `{replicas: 1, observedGeneration: 1}`},
		{"apps/v1", "StatefulSet", `{metadata: {generation: 2}}`, items(`{replicas: 1, generation: 2, resourceTemplateGeneration: 2}`), `{replicas: 1, observedGeneration: 2}`},
		{"apps/v1", "StatefulSet", `{metadata: {generation: 2}}`, items(`{replicas: 1, generation: 5, resourceTemplateGeneration: 2}`), `{replicas: 1}`},
		{"apps/v1", "DaemonSet", `{metadata: {generation: 1}}`, items(`{numberReady: 1, resourceTemplateGeneration: 1}`, `{numberReady: 2, numberUnavailable: 1, resourceTemplateGeneration: 1}`),
			`{numberReady: 3, numberUnavailable: 1, observedGeneration: 1}`},
		{"apps/v1", "ReplicaSet", `{}`, items(`{replicas: 1, availableReplicas: 1}`, `{replicas: 1}`), `{replicas: 2, availableReplicas: 1}`},

		{"v1", "Service", `{spec: {type: LoadBalancer}}`,
			items(`{loadBalancer: {ingress: [{ip: 10.0.0.2}, {hostname: b.example}]}}`, "-", `{loadBalancer: {ingress: [{ip: 10.0.0.1}, {hostname: a.example}, {ip: 10.0.0.2}]}}`),
			`{loadBalancer: {ingress: [{hostname: a.example}, {hostname: b.example}, {ip: 10.0.0.1}, {ip: 10.0.0.2}]}}`},
		{"v1", "Service", `{spec: {type: LoadBalancer}}`,
			items(`{loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80}]}, {ip: 10.0.0.1, ipMode: VIP}]}}`, `{loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80}, {port: 443}]}]}}`),
			`{loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80}, {port: 443}]}, {ip: 10.0.0.1, ipMode: VIP}]}}`},
		{"v1", "Service", `{spec: {type: ClusterIP}, status: {loadBalancer: {}}}`, items(`{loadBalancer: {ingress: [{ip: 10.0.0.2}]}}`), `{loadBalancer: {}}`},
		{"networking.k8s.io/v1", "Ingress", `{}`, items(`{loadBalancer: {ingress: [{ip: 10.0.0.2}]}}`, `{loadBalancer: {ingress: [{ip: 10.0.0.2}]}}`), `{loadBalancer: {ingress: [{ip: 10.0.0.2}]}}`},
		{"networking.k8s.io/v1", "Ingress", `{status: {loadBalancer: {ingress: [{ip: 10.0.0.2}]}}}`, items("-"), `{loadBalancer: {}}`},

		{"batch/v1", "Job", `{}`, items(`{active: 1, startTime: "2026-01-01T00:00:02Z"}`, `{succeeded: 1, failed: 2, startTime: "2026-01-01T02:00:01+02:00", completionTime: "2026-01-01T00:01:00Z"}`),
			`{active: 1, succeeded: 1, failed: 2, startTime: "2026-01-01T02:00:01+02:00"}`},
		{"batch/v1", "Job", `{}`, items(`{active: 1, startTime: "2026-01-01T00:00:02Z"}`, "-"), `{active: 1}`},
		{"batch/v1", "Job", `{status: {startTime: "2025-01-01T00:00:00Z"}}`,
			items(`{succeeded: 1, startTime: "2026-01-01T00:00:02Z", completionTime: "2026-01-01T00:02:00Z", conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-01-01T00:02:00Z"}]}`,
				`{succeeded: 1, startTime: "2026-01-01T00:00:01Z", completionTime: "2026-01-01T00:01:00Z", conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-01-01T00:01:00Z"}]}`),
			`{succeeded: 2, startTime: "2025-01-01T00:00:00Z", completionTime: "2026-01-01T00:02:00Z", conditions: [
				{type: Complete, status: "True", reason: Completed, message: Job completed in all member clusters, lastTransitionTime: "2026-01-01T00:02:00Z"}]}`},
		{"batch/v1", "Job", `{}`, items(`{conditions: [{type: Complete, status: "True"}, {type: SuccessCriteriaMet, status: "True"}]}`),
			`{conditions: [{type: SuccessCriteriaMet, status: "True", reason: CompletionsReached, message: Reached expected number of succeeded pods in all member clusters},
				{type: Complete, status: "True", reason: Completed, message: Job completed in all member clusters}]}`},
		{"batch/v1", "Job", `{}`, items(`{conditions: [{type: Failed, status: "True"}]}`, `{active: 1}`, `{conditions: [{type: Failed, status: "True"}]}`),
			`{active: 1, conditions: [{type: Failed, status: "True", reason: JobFailed, message: "Job executed failed in member clusters: a, c"}]}`},
		{"batch/v1", "Job", `{status: {succeeded: 1, conditions: [{type: Complete, status: "True"}]}}`, items(`{active: 1}`), `{succeeded: 1, conditions: [{type: Complete, status: "True"}]}`},

		{"batch/v1", "CronJob", `{}`, items(`{active: [{name: a}], lastScheduleTime: "2026-01-01T00:00:00Z"}`, `{active: [{name: b}], lastScheduleTime: "2026-01-02T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:00Z"}`),
			`{active: [{name: a}, {name: b}], lastScheduleTime: "2026-01-02T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:00Z"}`},

		{"v1", "Pod", `{}`, items(`{phase: Running, containerStatuses: [{name: c, ready: true, state: {running: {}}, image: x}]}`, `{phase: Running, containerStatuses: [{ready: false}]}`),
			`{phase: Running, containerStatuses: [{ready: true, state: {running: {}}}, {ready: false}]}`},
		{"v1", "Pod", `{}`, items(`{phase: Running}`, "-"), `{phase: Pending}`},
		{"v1", "Pod", `{}`, items(`{phase: Pending}`, `{phase: Failed}`, `{phase: Succeeded}`), `{phase: Failed}`},
		{"v1", "Pod", `{}`, items(`{phase: Succeeded}`), `{phase: Succeeded}`},

		{"v1", "PersistentVolume", `{}`, items(`{phase: Bound}`, `{phase: Released}`), `{phase: Bound}`},
		{"v1", "PersistentVolume", `{}`, items(`{phase: Bound}`, "-"), `{phase: Pending}`},
		{"v1", "PersistentVolumeClaim", `{}`, items(`{phase: Bound}`, "-"), `{phase: Bound}`},
		{"v1", "PersistentVolumeClaim", `{}`, items(`{phase: Pending}`, `{phase: Bound}`), `{phase: Pending}`},
		{"v1", "PersistentVolumeClaim", `{}`, items(`{phase: Lost}`, `{phase: Pending}`), `{phase: Lost}`},

		{"policy/v1", "PodDisruptionBudget", `{}`, items(`{currentHealthy: 1, desiredHealthy: 1, disruptedPods: {p: t}}`, `{currentHealthy: 2, disruptionsAllowed: 1, expectedPods: 2, disruptedPods: {p: u}}`),
			`{currentHealthy: 3, desiredHealthy: 1, disruptionsAllowed: 1, expectedPods: 2, disruptedPods: {a/p: t, b/p: u}}`},
		{"autoscaling/v2", "HorizontalPodAutoscaler", `{}`, items(`{currentReplicas: 1, desiredReplicas: 2}`, `{currentReplicas: 1}`), `{currentReplicas: 2, desiredReplicas: 2}`},
		{"example.io/v1", "Fleet", `{status: {a: b}}`, items(`{c: d}`), `{a: b}`},
	} {
		t.Run(tt.kind+" "+tt.want, func(t *testing.T) {
			got := edited(t, of(tt.apiVersion, tt.kind, tt.rest), func(o api.Object) (api.Object, error) { return (&Interpreter{}).AggregateStatus(o, tt.items) })
			if diff := cmp.Diff(yamlObject(tt.want), object(got["status"])); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(without(of(tt.apiVersion, tt.kind, tt.rest), nil, "status"), without(got, nil, "status")); diff != "" {
				t.Errorf("more than the status changed: %s", diff)
			}
		})
	}
}

// references writes "Kind/namespace/name" for each.
func references(refs []Reference) string {
	var out []string
	for _, r := range refs {
		name := r.Name
		if r.LabelSelector != nil {
			name = "{" + r.selector() + "}"
		}
		out = append(out, r.Kind+"/"+r.Namespace+"/"+name)
	}
	return strings.Join(out, " ")
}

func TestDependencies(t *testing.T) {
	const podSpec = `{
		serviceAccountName: sa, imagePullSecrets: [{name: pull}],
		initContainers: [{envFrom: [{configMapRef: {name: cm-init}}]}],
		containers: [{env: [{name: A, value: b}, {name: B, valueFrom: {configMapKeyRef: {name: cm-env, key: k}}}, {name: C, valueFrom: {secretKeyRef: {name: s-env, key: k}}}],
		  envFrom: [{configMapRef: {name: cm-from}}, {secretRef: {name: s-from}}]}, {envFrom: [{secretRef: {name: s-from}}]}],
		ephemeralContainers: [{envFrom: [{configMapRef: {name: cm-ephemeral}}]}],
		volumes: [{configMap: {name: cm-volume}}, {secret: {secretName: s-volume}}, {persistentVolumeClaim: {claimName: data}},
		  {projected: {sources: [{configMap: {name: cm-projected}}, {secret: {name: s-projected}}, {serviceAccountToken: {path: t}}]}},
		  {azureFile: {secretName: s-azure}}, {cephfs: {secretRef: {name: s-cephfs}}}, {cinder: {secretRef: {name: s-cinder}}}, {flexVolume: {secretRef: {name: s-flex}}},
		  {rbd: {secretRef: {name: s-rbd}}}, {scaleIO: {secretRef: {name: s-scaleio}}}, {iscsi: {secretRef: {name: s-iscsi}}}, {storageos: {secretRef: {name: s-storageos}}},
		  {csi: {nodePublishSecretRef: {name: s-csi}}}, {emptyDir: {}}, {configMap: {name: ""}}]}`
	const all = "ConfigMap/shop/cm-env ConfigMap/shop/cm-ephemeral ConfigMap/shop/cm-from ConfigMap/shop/cm-init ConfigMap/shop/cm-projected ConfigMap/shop/cm-volume " +
		"PersistentVolumeClaim/shop/data Secret/shop/pull Secret/shop/s-azure Secret/shop/s-cephfs Secret/shop/s-cinder Secret/shop/s-csi Secret/shop/s-env Secret/shop/s-flex " +
		"Secret/shop/s-from Secret/shop/s-iscsi Secret/shop/s-projected Secret/shop/s-rbd Secret/shop/s-scaleio Secret/shop/s-storageos Secret/shop/s-volume ServiceAccount/shop/sa"
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"v1", "Pod", `{spec: ` + podSpec + `}`, all},
		{"apps/v1", "Deployment", `{spec: {template: {spec: ` + podSpec + `}}}`, all},
		{"apps/v1", "ReplicaSet", `{spec: {template: {spec: ` + podSpec + `}}}`, all},
		{"apps/v1", "DaemonSet", `{spec: {template: {spec: ` + podSpec + `}}}`, all},
		{"batch/v1", "Job", `{spec: {template: {spec: ` + podSpec + `}}}`, all},
		{"batch/v1", "CronJob", `{spec: {jobTemplate: {spec: {template: {spec: ` + podSpec + `}}}}}`, all},
		{"apps/v1", "StatefulSet", `{spec: {template: {spec: ` + podSpec + `}}}`, all},
		{"apps/v1", "StatefulSet", `{spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: ` + podSpec + `}}}`, strings.Replace(all, "PersistentVolumeClaim/shop/data ", "", 1)},
		{"v1", "Pod", `{spec: {serviceAccountName: default}}`, ""},
		{"v1", "Pod", `{}`, ""},
		{"networking.k8s.io/v1", "Ingress", `{spec: {tls: [{secretName: b}, {secretName: a}, {hosts: [x]}, {secretName: a}]}}`, "Secret/shop/a Secret/shop/b"},
		{"multicluster.x-k8s.io/v1alpha1", "ServiceImport", `{}`, "EndpointSlice/shop/{kubernetes.io/service-name=derived-web} Service/shop/derived-web"},
		{"v1", "Service", `{spec: {selector: {a: b}}}`, ""},
		{"example.io/v1", "Fleet", `{spec: {template: {spec: ` + podSpec + `}}}`, ""},
	} {
		got, err := (&Interpreter{}).Dependencies(of(tt.apiVersion, tt.kind, tt.rest))
		if diff := cmp.Diff(tt.want, references(got)); diff != "" || err != nil {
			t.Errorf("Dependencies(%s): %v %s", tt.kind, err, diff)
		}
	}
}

// TestNativeTable: the rules that kinds have, kind by kind.
func TestNativeTable(t *testing.T) {
	for _, tt := range []struct{ kind, want string }{
		{"apps/v1 Deployment", "InterpretReplica ReviseReplica Retain AggregateStatus InterpretDependency InterpretHealth InterpretStatus"},
		{"apps/v1 ReplicaSet", "InterpretReplica ReviseReplica AggregateStatus InterpretDependency InterpretHealth InterpretStatus"},
		{"apps/v1 StatefulSet", "InterpretReplica ReviseReplica AggregateStatus InterpretDependency InterpretHealth InterpretStatus"},
		{"apps/v1 DaemonSet", "AggregateStatus InterpretDependency InterpretHealth InterpretStatus"},
		{"batch/v1 Job", "InterpretReplica ReviseReplica Retain AggregateStatus InterpretDependency InterpretHealth InterpretStatus"},
		{"batch/v1 CronJob", "AggregateStatus InterpretDependency InterpretHealth"},
		{"v1 Pod", "InterpretReplica Retain AggregateStatus InterpretDependency InterpretHealth"},
		{"v1 Service", "Retain AggregateStatus InterpretHealth InterpretStatus"},
		{"networking.k8s.io/v1 Ingress", "AggregateStatus InterpretDependency InterpretHealth"},
		{"v1 PersistentVolume", "Retain AggregateStatus"},
		{"v1 PersistentVolumeClaim", "Retain AggregateStatus InterpretHealth"},
		{"v1 ServiceAccount", "Retain"},
		{"v1 Secret", "Retain"},
		{"policy/v1 PodDisruptionBudget", "AggregateStatus InterpretHealth InterpretStatus"},
		{"autoscaling/v2 HorizontalPodAutoscaler", "AggregateStatus InterpretStatus"},
		{"multicluster.x-k8s.io/v1alpha1 ServiceImport", "InterpretDependency"},
		{"v1 ConfigMap", ""},
		{"apps/v1beta1 Deployment", ""},
	} {
		apiVersion, kind, _ := strings.Cut(tt.kind, " ")
		id := api.ID{Kind: kind}
		id.Group, id.Version = api.SplitAPIVersion(apiVersion)
		var has []string
		for _, op := range []Operation{InterpretReplica, ReviseReplica, Retain, AggregateStatus, InterpretDependency, InterpretHealth, InterpretStatus, InterpretComponent, "Prune"} {
			if (&Interpreter{}).Has(id, op) {
				has = append(has, string(op))
			}
		}
		if got := strings.Join(has, " "); got != tt.want {
			t.Errorf("%s has %s\nwant %s", tt.kind, got, tt.want)
		}
	}
}
