package interpret

import (
	"embed"
	"fmt"
	"sync"
)

//go:embed thirdparty/*.lua
var thirdparty embed.FS

// shipped is what godwit knows of other people's kinds: the file with the rules, and which there are.
// R replicas, C components, V revise, T retain, A aggregate, S reflect status, H health, D dependencies.
var shipped = map[kind]struct{ file, operations string }{
	{"apps.kruise.io", "v1alpha1", "CloneSet"}:         {"kruise_cloneset", "RVASHD"},
	{"apps.kruise.io", "v1beta1", "StatefulSet"}:       {"kruise_statefulset", "RVASHD"},
	{"apps.kruise.io", "v1alpha1", "UnitedDeployment"}: {"kruise_uniteddeployment", "RVASHD"},
	{"apps.kruise.io", "v1alpha1", "DaemonSet"}:        {"kruise_daemonset", "ASHD"},
	{"apps.kruise.io", "v1alpha1", "SidecarSet"}:       {"kruise_sidecarset", "RTASHD"},
	{"apps.kruise.io", "v1alpha1", "BroadcastJob"}:     {"kruise_broadcastjob", "RVTASHD"},
	{"apps.kruise.io", "v1alpha1", "AdvancedCronJob"}:  {"kruise_advancedcronjob", "AD"},

	{"argoproj.io", "v1alpha1", "Workflow"}:                 {"argo_workflow", "RVTHD"},
	{"batch.volcano.sh", "v1alpha1", "Job"}:                 {"volcano_job", "CASH"},
	{"flink.apache.org", "v1beta1", "FlinkDeployment"}:      {"flink_deployment", "RCASH"},
	{"kubeflow.org", "v1", "Notebook"}:                      {"kubeflow_notebook", "RASH"},
	{"kubeflow.org", "v1", "PyTorchJob"}:                    {"kubeflow_pytorchjob", "CAHD"},
	{"kubeflow.org", "v1", "TFJob"}:                         {"kubeflow_tfjob", "CAHD"},
	{"kubeflow.org", "v2beta1", "MPIJob"}:                   {"kubeflow_mpijob", "CASH"},
	{"kyverno.io", "v1", "Policy"}:                          {"kyverno_policy", "ASH"},
	{"kyverno.io", "v1", "ClusterPolicy"}:                   {"kyverno_policy", "ASH"},
	{"ray.io", "v1", "RayCluster"}:                          {"ray_cluster", "CAH"},
	{"ray.io", "v1", "RayJob"}:                              {"ray_job", "CAHD"},
	{"ray.io", "v1", "RayService"}:                          {"ray_service", "RVAHD"},
	{"sparkoperator.k8s.io", "v1beta2", "SparkApplication"}: {"spark_application", "CASH"},

	{"helm.toolkit.fluxcd.io", "v2beta1", "HelmRelease"}:      {"flux_helmrelease", "TASHD"},
	{"kustomize.toolkit.fluxcd.io", "v1", "Kustomization"}:    {"flux_kustomization", "TASHD"},
	{"source.toolkit.fluxcd.io", "v1", "GitRepository"}:       {"flux_source", "TASHD"},
	{"source.toolkit.fluxcd.io", "v1beta2", "Bucket"}:         {"flux_source", "TASHD"},
	{"source.toolkit.fluxcd.io", "v1beta2", "HelmRepository"}: {"flux_source", "TASHD"},
	{"source.toolkit.fluxcd.io", "v1beta2", "OCIRepository"}:  {"flux_source", "TASHD"},
	{"source.toolkit.fluxcd.io", "v1beta2", "HelmChart"}:      {"flux_helmchart", "TASHD"},
}

var letters = map[Operation]byte{
	InterpretReplica: 'R', InterpretComponent: 'C', ReviseReplica: 'V', Retain: 'T',
	AggregateStatus: 'A', InterpretStatus: 'S', InterpretHealth: 'H', InterpretDependency: 'D',
}

// common is the module that the files share by require("common"); scripts of users do not see it.
const common = "common"

// compiled holds the files that were asked for, by name. They are the same for every interpreter.
var compiled sync.Map

func shippedModule(name string) *script {
	if name != common {
		return nil
	}
	return shippedFile(name)[0]
}

func shippedScripts(k kind, op Operation) []*script {
	entry, ok := shipped[k]
	if !ok {
		return nil
	}
	for n := range len(entry.operations) {
		if entry.operations[n] == letters[op] {
			return shippedFile(entry.file)
		}
	}
	return nil
}

// shippedFile is the one script of the file, as the list that callers want.
func shippedFile(name string) []*script {
	if list, ok := compiled.Load(name); ok {
		return list.([]*script)
	}
	source, err := thirdparty.ReadFile("thirdparty/" + name + ".lua")
	if err != nil {
		panic(err) // the table above names a file that is not there
	}
	s, failure := compile("built-in "+name+".lua", "", string(source))
	if failure != nil {
		panic(fmt.Sprintf("%s.lua: line %d: %s", name, failure.line, failure.message))
	}
	s.shipped = true
	list, _ := compiled.LoadOrStore(name, []*script{s})
	return list.([]*script)
}
