package interpret

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api"
)

// TestShippedFilesDefineWhatTheTableSays: no function is missing, and none is there in vain.
func TestShippedFilesDefineWhatTheTableSays(t *testing.T) {
	if len(shipped) != 27 {
		t.Errorf("rules for %d kinds, want 27", len(shipped))
	}
	used := map[string]bool{common: true}
	for k, entry := range shipped {
		used[entry.file] = true
		for _, op := range operations {
			listed := strings.IndexByte(entry.operations, letters[op.operation]) >= 0
			if defined := shippedFile(entry.file)[0].defines(op.function) == nil; listed != defined {
				t.Errorf("%v: %s is defined: %t, in the table: %t", k, op.function, defined, listed)
			}
			id := api.ID{Group: k.group, Version: k.version, Kind: k.name}
			if has := (&Interpreter{}).Has(id, op.operation); has != listed {
				t.Errorf("Has(%v, %s) = %t, in the table: %t", k, op.operation, has, listed)
			}
		}
	}
	files, err := thirdparty.ReadDir("thirdparty")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), ".lua"); !used[name] {
			t.Errorf("no kind uses %s", file.Name())
		}
	}
}

const (
	rolled  = `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`
	rolling = `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 1, availableReplicas: 3}}`
	lacking = `{metadata: {generation: 2}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 1}}`
	old     = `{metadata: {generation: 3}, spec: {replicas: 3}, status: {observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3}}`
	blank   = `{metadata: {generation: 1}, spec: {replicas: 3}, status: {}}`
	none    = `{metadata: {generation: 1}, spec: {replicas: 3}}`
)

func conditions(list string) string { return `{status: {conditions: [` + list + `]}}` }

func ready(status, reason string) string {
	return conditions(fmt.Sprintf(`{type: Other, status: "True"}, {type: Ready, status: %q, reason: %s}`, status, reason))
}

func TestHealthOfShippedKinds(t *testing.T) {
	type objects map[string]string // object -> Healthy, Unhealthy or Unknown
	workload := objects{rolled: "Healthy", rolling: "Unhealthy", lacking: "Unhealthy", old: "Unhealthy", blank: "Unhealthy", none: "Unknown"}
	reconciled := objects{ready("True", "ReconciliationSucceeded"): "Healthy", ready("True", "Succeeded"): "Unhealthy", ready("False", "ReconciliationSucceeded"): "Unhealthy", blank: "Unhealthy", none: "Unhealthy"}
	succeeded := objects{ready("True", "Succeeded"): "Healthy", ready("True", "Other"): "Unhealthy", ready("Unknown", "Succeeded"): "Unhealthy", blank: "Unhealthy", none: "Unhealthy"}
	training := objects{
		conditions(`{type: Created, status: "True"}, {type: Running, status: "True"}`): "Healthy", conditions(`{type: Failed, status: "False"}`): "Healthy",
		conditions(`{type: Running, status: "False"}, {type: Failed, status: "True"}`): "Unhealthy", conditions(``): "Healthy", blank: "Unhealthy", none: "Unhealthy",
	}
	kyverno := maps.Clone(succeeded)
	maps.Copy(kyverno, objects{`{status: {ready: true}}`: "Healthy", `{status: {ready: false, conditions: [{type: Ready, status: "True", reason: Succeeded}]}}`: "Unhealthy"})
	chart := maps.Clone(succeeded)
	chart[ready("True", "ChartPullSucceeded")] = "Healthy"
	mpi := maps.Clone(training)
	mpi[conditions(``)] = "Unhealthy"
	united := maps.Clone(workload)
	united[none] = "Unhealthy"
	united[`{spec: null, status: {observedGeneration: 1}}`] = "Unhealthy"
	flinkState := func(state, rest string) string { return `{status: {jobStatus: {state: ` + state + `}` + rest + `}}` }

	for name, objects := range map[string]objects{
		"apps.kruise.io/v1alpha1 CloneSet":         workload,
		"apps.kruise.io/v1beta1 StatefulSet":       workload,
		"apps.kruise.io/v1alpha1 UnitedDeployment": united,
		"apps.kruise.io/v1alpha1 DaemonSet": {
			`{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}`: "Healthy",
			`{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}`: "Unhealthy",
			`{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}`: "Unhealthy",
			`{metadata: {generation: 2}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}`: "Unhealthy",
			blank: "Unhealthy", none: "Unknown",
		},
		"apps.kruise.io/v1alpha1 SidecarSet": {
			`{status: {matchedPods: 0}}`: "Healthy", `{status: {matchedPods: 2, updatedPods: 2}}`: "Healthy", `{status: {matchedPods: 2, updatedPods: 1}}`: "Unhealthy",
			`{status: {matchedPods: 2}}`: "Unhealthy", blank: "Healthy", none: "Unhealthy",
		},
		"apps.kruise.io/v1alpha1 BroadcastJob": {
			`{status: {desired: 2, active: 2}}`: "Healthy", `{status: {desired: 2, succeeded: 2}}`: "Healthy", `{status: {desired: 2, active: 1, failed: 1}}`: "Unhealthy",
			`{status: {desired: 2}}`: "Unhealthy", `{status: {desired: 0, active: 1}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"argoproj.io/v1alpha1 Workflow": {
			`{status: {phase: Running}}`: "Healthy", `{status: {phase: Succeeded}}`: "Healthy", `{status: {phase: Failed}}`: "Unhealthy", `{status: {phase: Error}}`: "Unhealthy",
			`{status: {phase: ""}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"batch.volcano.sh/v1alpha1 Job": {
			`{status: {state: {phase: Running}}}`: "Healthy", `{status: {state: {phase: Pending}}}`: "Healthy", `{status: {state: {phase: Aborted}}}`: "Healthy",
			`{status: {state: {phase: Failed}}}`: "Unhealthy", `{status: {state: {}}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"flink.apache.org/v1beta1 FlinkDeployment": {
			flinkState("RUNNING", ""): "Healthy", flinkState("FAILED", ""): "Healthy", flinkState("RESTARTING", ""): "Healthy", flinkState("CREATED", ""): "Unhealthy",
			flinkState("RECONCILING", ", error: 'ImagePullBackOff: x'"): "Healthy", flinkState("INITIALIZING", ", error: other"): "Unhealthy",
			`{status: {jobManagerDeploymentStatus: READY, lifecycleState: STABLE}}`: "Healthy", `{status: {jobManagerDeploymentStatus: DEPLOYING, lifecycleState: STABLE}}`: "Unhealthy",
			`{status: {jobManagerDeploymentStatus: READY, lifecycleState: UPGRADING}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"helm.toolkit.fluxcd.io/v2beta1 HelmRelease":      reconciled,
		"kustomize.toolkit.fluxcd.io/v1 Kustomization":    reconciled,
		"source.toolkit.fluxcd.io/v1 GitRepository":       succeeded,
		"source.toolkit.fluxcd.io/v1beta2 Bucket":         succeeded,
		"source.toolkit.fluxcd.io/v1beta2 HelmRepository": succeeded,
		"source.toolkit.fluxcd.io/v1beta2 OCIRepository":  succeeded,
		"source.toolkit.fluxcd.io/v1beta2 HelmChart":      chart,
		"kubeflow.org/v1 Notebook": {
			`{status: {containerState: {running: {startedAt: x}}}}`: "Healthy", `{status: {containerState: {waiting: {reason: ContainerCreating}}}}`: "Healthy",
			`{status: {containerState: {waiting: {reason: ImagePullBackOff}}}}`: "Unhealthy", `{status: {containerState: {terminated: {exitCode: 0, reason: Completed}}}}`: "Healthy",
			`{status: {containerState: {terminated: {exitCode: 1}}}}`: "Unhealthy", `{status: {containerState: {terminated: {exitCode: 0, reason: OOMKilled}}}}`: "Unhealthy",
			blank: "Unhealthy", none: "Unhealthy",
		},
		"kubeflow.org/v1 PyTorchJob":  training,
		"kubeflow.org/v1 TFJob":       training,
		"kubeflow.org/v2beta1 MPIJob": mpi,
		"kyverno.io/v1 Policy":        kyverno,
		"kyverno.io/v1 ClusterPolicy": kyverno,
		"ray.io/v1 RayCluster": {
			conditions(`{type: HeadPodReady, status: "True"}, {type: RayClusterProvisioned, status: "True"}, {type: RayClusterReplicaFailure, status: "False"}`): "Healthy",
			conditions(`{type: HeadPodReady, status: "True"}, {type: RayClusterProvisioned, status: "True"}`):                                                    "Healthy",
			conditions(`{type: HeadPodReady, status: "True"}, {type: RayClusterProvisioned, status: "True"}, {type: RayClusterReplicaFailure, status: "True"}`):  "Unhealthy",
			conditions(`{type: HeadPodReady, status: "True"}`): "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"ray.io/v1 RayJob": {
			`{status: {jobDeploymentStatus: Running}}`: "Healthy", `{status: {jobDeploymentStatus: Complete, jobStatus: SUCCEEDED}}`: "Healthy",
			`{status: {jobDeploymentStatus: Complete, jobStatus: FAILED}}`: "Unhealthy", `{status: {jobDeploymentStatus: Initializing}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
		"ray.io/v1 RayService": {ready("True", "x"): "Healthy", ready("False", "x"): "Unhealthy", blank: "Unhealthy", none: "Unhealthy"},
		"sparkoperator.k8s.io/v1beta2 SparkApplication": {
			`{status: {applicationState: {state: RUNNING}}}`: "Healthy", `{status: {applicationState: {state: COMPLETED}}}`: "Healthy",
			`{status: {applicationState: {state: FAILED}}}`: "Unhealthy", `{status: {applicationState: {}}}`: "Unhealthy", blank: "Unhealthy", none: "Unhealthy",
		},
	} {
		apiVersion, kind, _ := strings.Cut(name, " ")
		for rest, want := range objects {
			health, err := (&Interpreter{}).Health(of(apiVersion, kind, rest))
			if string(health) != want || (err != nil) != (want == "Unknown") {
				t.Errorf("%s %s: Health = %s, %v, want %s", kind, rest, health, err, want)
			}
		}
	}
}

const container = `{containers: [{resources: {requests: {cpu: 500m, memory: 512Mi}}}]}`

func TestReplicasOfShippedKinds(t *testing.T) {
	const (
		half   = `{"resourceRequest":{"cpu":"500m","memory":"512Mi"}}`
		groups = `{headGroupSpec: {template: {spec: {containers: [{resources: {requests: {cpu: 2, memory: 256Mi}}}]}}},
			workerGroupSpecs: [{groupName: small, replicas: 2, template: {spec: ` + container + `}}, {template: {spec: {}}}]}`
		ray = `ray-head=1 {"resourceRequest":{"cpu":"2","memory":"256Mi"}}; small=2 ` + half + `; worker-2=0 null`
	)
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"apps.kruise.io/v1alpha1", "CloneSet", `{spec: {replicas: 3, template: {spec: ` + container + `}}}`, "3 " + half},
		{"apps.kruise.io/v1beta1", "StatefulSet", `{spec: {replicas: 3, template: {spec: {}}}}`, "3 null"},
		{"apps.kruise.io/v1alpha1", "UnitedDeployment", `{spec: {replicas: 3, template: {deploymentTemplate: {spec: {template: {spec: ` + container + `}}}}}}`, "3 null"},
		{"apps.kruise.io/v1alpha1", "SidecarSet", `{spec: {containers: [{}]}}`, "0 null"},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {parallelism: 2, template: {spec: ` + container + `}}}`, "2 " + half},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {template: {spec: {}}}}`, "1 null"},
		{"argoproj.io/v1alpha1", "Workflow", `{spec: {parallelism: 4, nodeSelector: {a: b}}}`, `4 {"nodeClaim":{"nodeSelector":{"a":"b"}}}`},
		{"argoproj.io/v1alpha1", "Workflow", `{spec: {templates: [{container: {resources: {requests: {cpu: 1}}}}]}}`, "1 null"},
		{"kubeflow.org/v1", "Notebook", `{spec: {template: {spec: ` + container + `}}}`, "1 " + half},
		{"ray.io/v1", "RayService", `{spec: {rayClusterConfig: ` + groups + `}}`, `3 {"resourceRequest":{"cpu":"2","memory":"512Mi"}}`},
		{"ray.io/v1", "RayService", `{spec: {rayClusterConfig: {headGroupSpec: {template: {spec: {}}}}}}`, `1 null`},

		{"batch.volcano.sh/v1alpha1", "Job", `{spec: {tasks: [{name: a, replicas: 5, minAvailable: 3, template: {spec: ` + container + `}}, {replicas: 5, template: {spec: {}}}]}}`, "a=3 " + half + "; task-1=1 null"},
		{"flink.apache.org/v1beta1", "FlinkDeployment", `{spec: {jobManager: {resource: {cpu: 1, memory: 2048m}}, taskManager: {resource: {cpu: 2.5, memory: 4Gi}}, job: {parallelism: 5}, flinkConfiguration: {taskmanager.numberOfTaskSlots: "2"}}}`,
			`jobmanager=1 {"resourceRequest":{"cpu":"1","memory":"2Gi"}}; taskmanager=3 {"resourceRequest":{"cpu":"2500m","memory":"4Gi"}}`},
		{"flink.apache.org/v1beta1", "FlinkDeployment", `{spec: {jobManager: {replicas: 2}, taskManager: {replicas: 4}, job: {parallelism: 5}}}`, `jobmanager=2 {}; taskmanager=4 {}`},
		{"flink.apache.org/v1beta1", "FlinkDeployment", `{spec: {}}`, `jobmanager=1 {}; taskmanager=1 {}`},
		{"kubeflow.org/v1", "PyTorchJob", `{spec: {pytorchReplicaSpecs: {Worker: {replicas: 3, template: {spec: {}}}, Master: {template: {spec: ` + container + `}}}}}`, "master=1 " + half + "; worker=3 null"},
		{"kubeflow.org/v1", "TFJob", `{spec: {tfReplicaSpecs: {Worker: {replicas: 3}, PS: {}, Evaluator: {}, Chief: {replicas: 0}}}}`, "ps=1 null; worker=3 null; chief=0 null; evaluator=1 null"},
		{"kubeflow.org/v2beta1", "MPIJob", `{spec: {mpiReplicaSpecs: {Worker: {template: {spec: {}}}, Launcher: {template: {spec: ` + container + `}}}}}`, "launcher=1 " + half + "; worker=0 null"},
		{"ray.io/v1", "RayCluster", `{spec: ` + groups + `}`, ray},
		{"ray.io/v1", "RayJob", `{spec: {rayClusterSpec: ` + groups + `}}`, ray},
		{"sparkoperator.k8s.io/v1beta2", "SparkApplication", `{spec: {type: Scala, driver: {cores: 1, memory: 1g}, executor: {cores: 2, instances: 4, memory: 8192m, nodeSelector: {a: b}}}}`,
			`driver=1 {"resourceRequest":{"cpu":"1","memory":"1476395008"}}; executor=4 {"nodeClaim":{"nodeSelector":{"a":"b"}},"resourceRequest":{"cpu":"2","memory":"9448928052"}}`},
		{"sparkoperator.k8s.io/v1beta2", "SparkApplication", `{spec: {type: Python, driver: {memory: 2g}, executor: {memory: 2g, instances: 1}, dynamicAllocation: {enabled: true, initialExecutors: 3, minExecutors: 2}}}`,
			`driver=1 {"resourceRequest":{"cpu":"1","memory":"3006477108"}}; executor=3 {"resourceRequest":{"cpu":"1","memory":"3006477108"}}`},
		{"sparkoperator.k8s.io/v1beta2", "SparkApplication", `{spec: {type: Java}}`,
			`driver=1 {"resourceRequest":{"cpu":"1","memory":"1476395008"}}; executor=1 {"resourceRequest":{"cpu":"1","memory":"1476395008"}}`},
	} {
		r, err := (&Interpreter{}).Replicas(of(tt.apiVersion, tt.kind, tt.rest))
		got := fmt.Sprintf("%d %s", r.Count, jsonText(r.Requirements))
		if r.Components != nil {
			var parts []string
			for _, c := range r.Components {
				parts = append(parts, fmt.Sprintf("%s=%d %s", c.Name, c.Replicas, jsonText(c.ReplicaRequirements)))
			}
			got = strings.Join(parts, "; ")
		}
		if err != nil || !r.Workload || got != tt.want {
			t.Errorf("%s %s\n got %s, %v\nwant %s", tt.kind, tt.rest, got, err, tt.want)
		}
	}
}

func TestReviseOfShippedKinds(t *testing.T) {
	workers := func(replicas ...string) string {
		var groups []string
		for _, r := range replicas {
			groups = append(groups, "{groupName: g, replicas: "+r+"}")
		}
		return `{spec: {rayClusterConfig: {workerGroupSpecs: [` + strings.Join(groups, ", ") + `]}}}`
	}
	for _, tt := range []struct {
		apiVersion, kind, rest string
		replicas               int32
		want                   string
	}{
		{"apps.kruise.io/v1alpha1", "CloneSet", `{spec: {replicas: 3, empty: {}, none: []}}`, 7, `{spec: {replicas: 7, empty: {}, none: []}}`},
		{"apps.kruise.io/v1beta1", "StatefulSet", `{spec: {replicas: 3}}`, 7, `{spec: {replicas: 7}}`},
		{"apps.kruise.io/v1alpha1", "UnitedDeployment", `{spec: {replicas: 3}}`, 7, `{spec: {replicas: 7}}`},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {}}`, 7, `{spec: {parallelism: 7}}`},
		{"argoproj.io/v1alpha1", "Workflow", `{spec: {parallelism: 3}}`, 7, `{spec: {parallelism: 7}}`},
		{"ray.io/v1", "RayService", workers("3"), 7, workers("6")},
		{"ray.io/v1", "RayService", workers("3"), 0, workers("0")},
		{"ray.io/v1", "RayService", workers("1", "3"), 9, workers("2", "6")},
		{"ray.io/v1", "RayService", workers("1", "1", "1"), 6, workers("2", "2", "1")},
		{"ray.io/v1", "RayService", workers("0", "0", "0"), 6, workers("2", "2", "1")},
		{"ray.io/v1", "RayService", workers("1", "1", "1", "1", "0"), 3, workers("1", "1", "0", "0", "0")},
		{"ray.io/v1", "RayService", `{spec: {rayClusterConfig: {a: b}}}`, 6, `{spec: {rayClusterConfig: {a: b}}}`},
	} {
		got := edited(t, of(tt.apiVersion, tt.kind, tt.rest), func(o api.Object) (api.Object, error) { return (&Interpreter{}).Revise(o, tt.replicas) })
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" {
			t.Errorf("Revise(%s %s, %d): %s", tt.kind, tt.rest, tt.replicas, diff)
		}
	}
}

func TestRetainOfShippedKinds(t *testing.T) {
	suspendable := []string{
		"helm.toolkit.fluxcd.io/v2beta1 HelmRelease", "kustomize.toolkit.fluxcd.io/v1 Kustomization", "source.toolkit.fluxcd.io/v1 GitRepository",
		"source.toolkit.fluxcd.io/v1beta2 Bucket", "source.toolkit.fluxcd.io/v1beta2 HelmRepository", "source.toolkit.fluxcd.io/v1beta2 OCIRepository",
		"source.toolkit.fluxcd.io/v1beta2 HelmChart", "argoproj.io/v1alpha1 Workflow",
	}
	for _, name := range suspendable {
		apiVersion, kind, _ := strings.Cut(name, " ")
		for _, tt := range []struct{ desired, live, want string }{
			{`{spec: {a: b}}`, `{spec: {suspend: true}}`, `{spec: {a: b, suspend: true}}`},
			{`{spec: {suspend: true}}`, `{spec: {suspend: false}}`, `{spec: {suspend: false}}`},
			{`{spec: {suspend: true, empty: {}}}`, `{spec: {}}`, `{spec: {suspend: true, empty: {}}}`},
		} {
			got := edited(t, of(apiVersion, kind, tt.desired), func(o api.Object) (api.Object, error) {
				return (&Interpreter{}).Retain(o, of(apiVersion, kind, tt.live))
			})
			if diff := cmp.Diff(of(apiVersion, kind, tt.want), got); diff != "" {
				t.Errorf("Retain(%s, %s, %s): %s", kind, tt.desired, tt.live, diff)
			}
		}
	}
	for _, tt := range []struct{ apiVersion, kind, desired, live, want string }{
		{"argoproj.io/v1alpha1", "Workflow", `{spec: {a: b}}`, `{spec: {}, status: {phase: Running, nodes: {}}}`, `{spec: {a: b}, status: {phase: Running, nodes: {}}}`},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {template: {metadata: {labels: {a: b}}}}}`, `{spec: {template: {metadata: {labels: {a: b, uid: x}}}}}`, `{spec: {template: {metadata: {labels: {a: b, uid: x}}}}}`},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {template: {spec: {}}}}`, `{spec: {template: {metadata: {labels: {uid: x}}}}}`, `{spec: {template: {metadata: {labels: {uid: x}}, spec: {}}}}`},
		{"apps.kruise.io/v1alpha1", "SidecarSet", `{spec: {a: b}}`, `{spec: {c: d}}`, `{spec: {a: b}}`},
	} {
		got, err := (&Interpreter{}).Retain(of(tt.apiVersion, tt.kind, tt.desired), of(tt.apiVersion, tt.kind, tt.live))
		if diff := cmp.Diff(of(tt.apiVersion, tt.kind, tt.want), got); diff != "" || err != nil {
			t.Errorf("Retain(%s, %s, %s): %v %s", tt.kind, tt.desired, tt.live, err, diff)
		}
	}
}

// TestStatusOfShippedKinds: what a kind reports comes together again, with the template caught up.
func TestStatusOfShippedKinds(t *testing.T) {
	const meta = `metadata: {generation: 4, annotations: {resourcetemplate.karmada.io/generation: "1"}}`
	for _, tt := range []struct{ apiVersion, kind, one, other, want string }{
		{"apps.kruise.io/v1alpha1", "CloneSet", `{observedGeneration: 4, replicas: 2, readyReplicas: 1, updateRevision: r, conditions: []}`, `{observedGeneration: 4, replicas: 3}`,
			`{replicas: 5, readyReplicas: 1, updatedReplicas: 0, updatedReadyReplicas: 0, availableReplicas: 0, expectedUpdatedReplicas: 0, updateRevision: r, observedGeneration: 1}`},
		{"apps.kruise.io/v1alpha1", "DaemonSet", `{observedGeneration: 4, numberReady: 2}`, `{observedGeneration: 3, numberReady: 3}`,
			`{currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 5, updatedNumberScheduled: 0, numberAvailable: 0, numberUnavailable: 0}`},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{active: 1, desired: 2, phase: running, startTime: "2026-01-02T00:00:00Z"}`, `{succeeded: 2, desired: 2, phase: completed, startTime: "2026-01-01T00:00:00Z"}`,
			`{active: 1, succeeded: 2, failed: 0, desired: 4, phase: running, startTime: "2026-01-01T00:00:00Z"}`},
		{"apps.kruise.io/v1alpha1", "AdvancedCronJob", `{type: Job, active: [{name: a}], lastScheduleTime: "2026-01-01T00:00:00Z"}`, `{type: Job, active: [{name: b}], lastScheduleTime: "2026-01-02T00:00:00Z"}`,
			`{type: Job, active: [{name: a}, {name: b}], lastScheduleTime: "2026-01-02T00:00:00Z"}`},
		{"batch.volcano.sh/v1alpha1", "Job", `{running: 1, state: {phase: Running}}`, `{pending: 1, state: {phase: Pending}}`,
			`{pending: 1, running: 1, succeeded: 0, failed: 0, terminating: 0, unknown: 0, state: {phase: Pending}}`},
		{"kubeflow.org/v2beta1", "MPIJob", `{conditions: [{type: Running, status: "True", reason: R, message: m}], replicaStatuses: {Worker: {active: 2}}}`, `{conditions: [{type: Running, status: "False", reason: S}], replicaStatuses: {Worker: {active: 1, failed: 1}}}`,
			`{conditions: [{type: Running, status: "True", reason: R, message: "a: m, b: False"}], replicaStatuses: {Worker: {active: 3, failed: 1}}}`},
		{"kyverno.io/v1", "Policy", `{ready: true}`, `{ready: false}`, `{ready: false}`},
		{"kustomize.toolkit.fluxcd.io/v1", "Kustomization", `{observedGeneration: 4, lastAppliedRevision: main, conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
			`{observedGeneration: 4, lastAppliedRevision: main, conditions: [{type: Ready, status: "True", reason: R, message: k, lastTransitionTime: "2026-01-02T00:00:00Z"}]}`,
			`{lastAppliedRevision: main, observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: R, message: "a: m, b: k", lastTransitionTime: "2026-01-02T00:00:00Z"}]}`},
	} {
		template := of(tt.apiVersion, tt.kind, `{metadata: {generation: 1}}`)
		var copies []StatusItem
		for n, status := range []string{tt.one, tt.other} {
			reported, err := (&Interpreter{}).Status(of(tt.apiVersion, tt.kind, `{`+meta+`, status: `+status+`}`))
			if err != nil {
				t.Errorf("Status(%s %s): %v", tt.kind, status, err)
			}
			copies = append(copies, StatusItem{Cluster: string(rune('a' + n)), Applied: true, Status: reported})
		}
		got, err := (&Interpreter{}).AggregateStatus(template, copies)
		if err != nil {
			t.Errorf("AggregateStatus(%s): %v", tt.kind, err)
			continue
		}
		status := object(got["status"])
		if tt.kind != "CloneSet" && tt.kind != "Kustomization" {
			status = without(status, nil, "observedGeneration")
		}
		if diff := cmp.Diff(yamlObject(tt.want), status); diff != "" {
			t.Errorf("AggregateStatus(%s): %s", tt.kind, diff)
		}
	}
}

// TestEveryShippedRuleTakesASparseObject: all operations answer for an object with an empty spec,
// and for copies without status.
func TestEveryShippedRuleTakesASparseObject(t *testing.T) {
	specs := map[string]string{
		"CloneSet": `{template: {}}`, "StatefulSet": `{template: {}}`, "UnitedDeployment": `{template: {}}`, "DaemonSet": `{template: {}}`, "BroadcastJob": `{template: {}}`, "Notebook": `{template: {}}`,
	}
	for _, k := range slices.SortedFunc(maps.Keys(shipped), func(a, b kind) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		spec := specs[k.name]
		if spec == "" {
			spec = "{}"
		}
		id := api.ID{Group: k.group, Version: k.version, Kind: k.name}
		o := of(id.APIVersion(), k.name, `{spec: `+spec+`}`)
		i := &Interpreter{}
		if _, err := i.Replicas(o); err != nil {
			t.Errorf("Replicas: %v", err)
		}
		if _, err := i.Revise(o, 3); err != nil {
			t.Errorf("Revise: %v", err)
		}
		if _, err := i.Retain(o, o); err != nil {
			t.Errorf("Retain: %v", err)
		}
		if got, err := i.Status(o); err != nil || len(got) > 0 {
			t.Errorf("Status(%s) = %v, %v", k.name, got, err)
		}
		if got, err := i.AggregateStatus(o, []StatusItem{{Cluster: "a"}, {Cluster: "b", Status: api.Object{}}}); err != nil || got["kind"] != k.name {
			t.Errorf("AggregateStatus: %v", err)
		}
		if got, err := i.Dependencies(o); err != nil || len(got) > 0 {
			t.Errorf("Dependencies(%s) = %v, %v", k.name, got, err)
		}
	}
}

func TestDependenciesOfShippedKinds(t *testing.T) {
	const pod = `{serviceAccountName: sa, volumes: [{configMap: {name: cm}}, {persistentVolumeClaim: {claimName: data}}]}`
	const all = "ConfigMap/shop/cm PersistentVolumeClaim/shop/data ServiceAccount/shop/sa"
	source := `{spec: {secretRef: {name: s}, certSecretRef: {name: c}, verify: {secretRef: {name: v}}, serviceAccountName: sa}}`
	const ofSource = "Secret/shop/c Secret/shop/s Secret/shop/v ServiceAccount/shop/sa"
	for _, tt := range []struct{ apiVersion, kind, rest, want string }{
		{"apps.kruise.io/v1alpha1", "CloneSet", `{spec: {template: {spec: ` + pod + `}}}`, all},
		{"apps.kruise.io/v1alpha1", "DaemonSet", `{spec: {template: {spec: ` + pod + `}}}`, all},
		{"apps.kruise.io/v1alpha1", "BroadcastJob", `{spec: {template: {spec: ` + pod + `}}}`, all},
		{"apps.kruise.io/v1beta1", "StatefulSet", `{spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: ` + pod + `}}}`, "ConfigMap/shop/cm ServiceAccount/shop/sa"},
		{"apps.kruise.io/v1alpha1", "UnitedDeployment", `{spec: {template: {cloneSetTemplate: {spec: {template: {spec: ` + pod + `}}}}}}`, all},
		{"apps.kruise.io/v1alpha1", "SidecarSet", `{spec: {namespace: shop, volumes: [{configMap: {name: cm}}]}}`, "ConfigMap/shop/cm"},
		{"apps.kruise.io/v1alpha1", "AdvancedCronJob", `{spec: {template: {jobTemplate: {spec: {template: {spec: ` + pod + `}}}}}}`, all},
		{"argoproj.io/v1alpha1", "Workflow", `{spec: {serviceAccountName: sa, volumes: [{configMap: {name: cm}}], artifactRepositoryRef: {configMap: ar},
			templates: [{script: {envFrom: [{secretRef: {name: s}}]}}, {container: {}, sidecars: [{envFrom: [{secretRef: {name: t}}]}]}]}}`,
			"ConfigMap/shop/ar ConfigMap/shop/cm Secret/shop/s Secret/shop/t ServiceAccount/shop/sa"},
		{"helm.toolkit.fluxcd.io/v2beta1", "HelmRelease", `{spec: {valuesFrom: [{kind: ConfigMap, name: v}, {kind: Secret, name: w}, {kind: Other, name: x}], kubeConfig: {secretRef: {name: k}}, serviceAccountName: sa}}`,
			"ConfigMap/shop/v Secret/shop/k Secret/shop/w ServiceAccount/shop/sa"},
		{"kustomize.toolkit.fluxcd.io/v1", "Kustomization", `{spec: {postBuild: {substituteFrom: [{kind: ConfigMap, name: v}]}, decryption: {secretRef: {name: d}}, kubeConfig: {secretRef: {name: k}}}}`,
			"ConfigMap/shop/v Secret/shop/d Secret/shop/k"},
		{"source.toolkit.fluxcd.io/v1", "GitRepository", source, ofSource},
		{"source.toolkit.fluxcd.io/v1beta2", "Bucket", source, ofSource},
		{"source.toolkit.fluxcd.io/v1beta2", "HelmRepository", source, ofSource},
		{"source.toolkit.fluxcd.io/v1beta2", "OCIRepository", source, ofSource},
		{"source.toolkit.fluxcd.io/v1beta2", "HelmChart", `{spec: {verify: {secretRef: {name: v}}}}`, "Secret/shop/v"},
		{"kubeflow.org/v1", "PyTorchJob", `{spec: {pytorchReplicaSpecs: {Master: {template: {spec: ` + pod + `}}, Worker: {template: {spec: ` + pod + `}}}}}`, all},
		{"kubeflow.org/v1", "TFJob", `{spec: {tfReplicaSpecs: {PS: {template: {spec: ` + pod + `}}}}}`, all},
		{"ray.io/v1", "RayJob", `{spec: {rayClusterSpec: {headGroupSpec: {template: {spec: ` + pod + `}}}, submitterPodTemplate: {spec: {volumes: [{secret: {secretName: s}}]}}}}`,
			"ConfigMap/shop/cm PersistentVolumeClaim/shop/data Secret/shop/s ServiceAccount/shop/sa"},
		{"ray.io/v1", "RayService", `{spec: {rayClusterConfig: {workerGroupSpecs: [{template: {spec: ` + pod + `}}]}}}`, all},
	} {
		got, err := (&Interpreter{}).Dependencies(of(tt.apiVersion, tt.kind, tt.rest))
		if diff := cmp.Diff(tt.want, references(got)); diff != "" || err != nil {
			t.Errorf("Dependencies(%s): %v %s", tt.kind, err, diff)
		}
	}
}
