package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// planFleet writes and edits the files of a random fleet. Equal seeds write equal files.
type planFleet struct {
	*rand.Rand
	members []string // all names that there are servers for
	files   map[string]string
	// message is that of the next commit.
	message string
}

func newPlanFleet(seed uint64, members []string) *planFleet {
	f := &planFleet{Rand: rand.New(rand.NewPCG(seed, 0)), members: members, files: map[string]string{}}
	for _, name := range members[:len(members)-1] {
		f.files["clusters/"+name+".yaml"] = f.cluster(name)
	}
	for range 15 {
		f.template()
	}
	for range 8 {
		f.policy()
	}
	f.override()
	return f
}

func (f *planFleet) one(of ...string) string { return of[f.IntN(len(of))] }

// often is s in n of 10 cases.
func (f *planFleet) often(n int, s string) string {
	if f.IntN(10) < n {
		return s
	}
	return ""
}

func (f *planFleet) namespace() string { return f.one("default", "default", "shop") }

// edits are what people do, with how often.
var edits = []struct {
	weight int
	do     func(*planFleet)
}{
	{16, (*planFleet).template},
	{12, (*planFleet).policy},
	{6, (*planFleet).override},
	{8, (*planFleet).changeCluster},
	{3, (*planFleet).changeMembers},
	{12, (*planFleet).remove},
	{3, (*planFleet).removeMany},
	{6, (*planFleet).breakOne},
	{4, (*planFleet).mend},
	{3, (*planFleet).kustomize},
	{3, (*planFleet).quota},
	{3, (*planFleet).rebalance},
	{3, (*planFleet).taints},
	{3, (*planFleet).definition},
	{3, func(f *planFleet) { f.message = "let them go\n\nGodwit-Approve: delete\n" }},
}

// edit makes the next version of the files, of one or two edits.
func (f *planFleet) edit() {
	f.message = "another version"
	total := 0
	for _, e := range edits {
		total += e.weight
	}
	for range 1 + f.IntN(2) {
		n := f.IntN(total)
		for _, e := range edits {
			if n -= e.weight; n < 0 {
				e.do(f)
				break
			}
		}
	}
}

// below names the files of a folder.
func (f *planFleet) below(dir string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.files)), func(name string) bool { return !strings.HasPrefix(name, dir) })
}

func (f *planFleet) cluster(name string) string {
	taint := ""
	if f.IntN(6) == 0 {
		taint = fmt.Sprintf(", taints: [{key: %s, value: x, effect: %s}]", f.one("dedicated", "old"), f.one("NoSchedule", "NoExecute", "PreferNoSchedule"))
	}
	status := ""
	if f.IntN(4) == 0 {
		status = fmt.Sprintf("status: {resourceSummary: {allocatable: {cpu: \"%d\", memory: 64Gi, pods: \"50\"}}}\n", 1+f.IntN(12))
	}
	return fmt.Sprintf(`apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: %[1]s, labels: {tier: %[2]s, name: %[1]s}}
spec: {syncMode: Push, region: %[3]s, zones: [%[4]s]%[5]s}
%[6]s`, name, f.one("gold", "silver"), f.one("r1", "r2"), f.one("z1", "z2"), taint, status)
}

func (f *planFleet) changeCluster() {
	if names := f.below("clusters/"); len(names) > 0 {
		file := f.one(names...)
		f.files[file] = f.cluster(strings.TrimSuffix(strings.TrimPrefix(file, "clusters/"), ".yaml"))
	}
}

// changeMembers lets a member leave, come, or change its name.
func (f *planFleet) changeMembers() {
	name := f.one(f.members...)
	file := "clusters/" + name + ".yaml"
	text, there := f.files[file]
	if !there {
		f.files[file] = f.cluster(name)
		return
	}
	if len(f.below("clusters/")) < 3 {
		return
	}
	delete(f.files, file)
	for _, other := range f.members {
		if _, taken := f.files["clusters/"+other+".yaml"]; !taken && other != name && f.IntN(2) == 0 {
			f.files["clusters/"+other+".yaml"] = strings.ReplaceAll(text, name, other)
			return
		}
	}
}

const podTemplate = `selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: "registry.example.com/%[1]s:%[2]d", env: [{name: A, value: "%[3]d"}]%[4]s}]}
`

// templateKinds are those of w0, w1 and so on.
var templateKinds = []string{"Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "Job", "ConfigMap", "Secret", "Service", "ConfigMap"}

var versions = map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "ConfigMap": "v1", "Secret": "v1", "Service": "v1"}

// template writes one of a few templates anew.
func (f *planFleet) template() {
	n := f.IntN(len(templateKinds))
	name, kind := fmt.Sprintf("w%d", n), templateKinds[n]
	meta := fmt.Sprintf("metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s, team: %[3]s}}\n", name, []string{"default", "shop"}[n%2], f.one("a", "b"))
	refs := f.often(3, fmt.Sprintf(`, envFrom: [{configMapRef: {name: w%d}}]`, 6+3*(n%2))) + f.often(5, fmt.Sprintf(`, resources: {requests: {cpu: %s, memory: 64Mi}}`, f.one("100m", "250m", "\"1\"", "\"2\"")))
	pods := fmt.Sprintf(podTemplate, name, 1+f.IntN(3), f.IntN(3), refs)
	replicas := fmt.Sprintf("  replicas: %d\n", f.IntN(8))
	var text string
	switch kind {
	case "Deployment":
		text = "apiVersion: apps/v1\nkind: Deployment\n" + meta + "spec:\n" + replicas + "  " + pods
	case "StatefulSet":
		text = "apiVersion: apps/v1\nkind: StatefulSet\n" + meta + "spec:\n  serviceName: " + name + "\n" + replicas + "  " + pods
	case "DaemonSet":
		text = "apiVersion: apps/v1\nkind: DaemonSet\n" + meta + "spec:\n  " + pods
	case "Job":
		text = "apiVersion: batch/v1\nkind: Job\n" + meta + fmt.Sprintf("spec:\n  parallelism: %d\n  completions: 4\n  template: {spec: {restartPolicy: Never, containers: [{name: main, image: job}]}}\n", 1+f.IntN(4))
	case "ConfigMap":
		text = "apiVersion: v1\nkind: ConfigMap\n" + meta + fmt.Sprintf("data: {a: \"%d\", \"key.with.dots\": \"%s\"}\n", f.IntN(5), f.one(`a\nb\n`, "x y", ""))
	case "Secret":
		text = "apiVersion: v1\nkind: Secret\n" + meta + fmt.Sprintf("stringData: {password: \"hidden-%d\"}\n", f.IntN(4))
	case "Service":
		text = "apiVersion: v1\nkind: Service\n" + meta + fmt.Sprintf("spec: {selector: {app: w%d}, ports: [{port: %d}]}\n", f.IntN(3), 80+f.IntN(3))
	}
	f.files["apps/"+name+".yaml"] = text
}

// policy writes one of a few policies anew.
func (f *planFleet) policy() {
	n := f.IntN(6)
	kind, meta := "ClusterPropagationPolicy", fmt.Sprintf("{name: p%d}", n)
	if n < 4 {
		kind, meta = "PropagationPolicy", fmt.Sprintf("{name: p%d, namespace: %s}", n, []string{"default", "shop"}[n%2])
	}
	preempts := f.IntN(4) == 0
	var selectors []string
	for range 1 + f.IntN(3) {
		i := f.IntN(len(templateKinds))
		name := fmt.Sprintf(", name: w%d", i)
		if !preempts {
			name = f.one("", "", name, ", labelSelector: {matchLabels: {team: a}}")
		}
		selectors = append(selectors, fmt.Sprintf("{apiVersion: %s, kind: %s%s}", versions[templateKinds[i]], templateKinds[i], name))
	}
	preemption := ""
	if preempts {
		preemption = "preemption: Always"
	}
	fields := []string{
		"resourceSelectors: [" + strings.Join(selectors, ", ") + "]",
		"placement: {" + f.placement() + "}",
		f.one("propagateDeps: true", "propagateDeps: true\n  failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Gracefully}}", "", "", "failover: {cluster: {purgeMode: Directly}}"),
		f.often(4, fmt.Sprintf("priority: %d", f.IntN(4))),
		preemption,
		f.often(2, "conflictResolution: Overwrite"),
		f.often(2, "preserveResourcesOnDeletion: true"),
		f.often(1, "suspension: {dispatching: true}"),
		f.often(1, "activationPreference: Lazy"),
	}
	fields = slices.DeleteFunc(fields, func(s string) bool { return s == "" })
	f.files[fmt.Sprintf("policies/p%d.yaml", n)] = fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: %s\nmetadata: %s\nspec:\n  %s\n", kind, meta, strings.Join(fields, "\n  "))
}

func (f *planFleet) affinity() string {
	return f.one("labelSelector: {matchLabels: {tier: gold}}", "clusterNames: ["+f.one(f.members...)+", "+f.one(f.members...)+"]", "exclude: ["+f.one(f.members...)+"]",
		"fieldSelector: {matchExpressions: [{key: region, operator: In, values: [r1]}]}", "")
}

func (f *planFleet) placement() string {
	fields := []string{"clusterAffinity: {" + f.affinity() + "}"}
	if f.IntN(5) == 0 {
		fields[0] = "clusterAffinities: [{affinityName: near, " + f.affinity() + "}, {affinityName: far, " + f.affinity() + "}]"
		fields[0] = strings.ReplaceAll(fields[0], ", }", "}")
	}
	fields = append(fields,
		f.often(3, "clusterTolerations: [{key: dedicated, operator: Exists}, {key: old, operator: Exists, effect: NoExecute, tolerationSeconds: 3600}]"),
		f.one("", "", fmt.Sprintf("spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: %d}]", 1+f.IntN(3)),
			"spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}]"))
	const weighted = "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted"
	weights := make([]string, len(f.members))
	for i, name := range f.members {
		weights[i] = fmt.Sprintf("{targetCluster: {clusterNames: [%s]}, weight: %d}", name, 1+f.IntN(4))
	}
	fields = append(fields, f.one("", "replicaScheduling: {replicaSchedulingType: Duplicated}", weighted+"}",
		weighted+", weightPreference: {staticWeightList: ["+strings.Join(weights, ", ")+"]}}",
		weighted+", weightPreference: {dynamicWeight: AvailableReplicas}}",
		"replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"))
	return strings.Join(slices.DeleteFunc(fields, func(s string) bool { return s == "" }), ", ")
}

func (f *planFleet) override() {
	n := f.IntN(4)
	kind, meta := "ClusterOverridePolicy", fmt.Sprintf("{name: o%d}", n)
	if n < 2 {
		kind, meta = "OverridePolicy", fmt.Sprintf("{name: o%d, namespace: %s}", n, []string{"default", "shop"}[n])
	}
	overriders := f.one(
		"imageOverrider: [{component: Registry, operator: replace, value: mirror.example.com}]",
		fmt.Sprintf("labelsOverrider: [{operator: add, value: {extra: v%d}}]", f.IntN(3)),
		fmt.Sprintf("annotationsOverrider: [{operator: add, value: {note: n%d}}]", f.IntN(3)),
		fmt.Sprintf("plaintext: [{path: /spec/replicas, operator: replace, value: %d}]", f.IntN(4)),
		"argsOverrider: [{containerName: main, operator: add, value: [--more]}]",
		"plaintext: [{path: /data/a, operator: replace, value: overridden}]")
	f.files[fmt.Sprintf("policies/o%d.yaml", n)] = fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: %s\nmetadata: %s\nspec:\n%s  overrideRules: [{targetCluster: {%s}, overriders: {%s}}]\n",
		kind, meta, f.one("", "  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n"), f.affinity(), overriders)
}

func (f *planFleet) remove() {
	if names := append(f.below("apps/"), f.below("policies/")...); len(names) > 0 {
		delete(f.files, f.one(names...))
	}
}

// removeMany removes all templates or all policies: more than the brake lets go.
func (f *planFleet) removeMany() {
	dir := f.one("apps/", "policies/p")
	for _, name := range f.below(dir) {
		if f.IntN(4) > 0 {
			delete(f.files, name)
		}
	}
}

func (f *planFleet) breakOne() {
	names := f.below("")
	name := f.one(names...)
	text := f.files[name]
	if f.files[name] = "a: ["; !strings.HasPrefix(name, "apps/") && !strings.HasPrefix(name, "kustom/") { // what is wrong in a template members find
		f.files[name] = f.one("a: [", text+"surprise: {}\n", strings.Replace(text, "spec:", "spec: no object\nother:", 1))
	}
}

// mend writes anew what may be broken.
func (f *planFleet) mend() {
	for _, name := range f.below("clusters/") {
		if member := strings.TrimSuffix(strings.TrimPrefix(name, "clusters/"), ".yaml"); !strings.Contains(f.files[name], "kind: Cluster") || strings.Contains(f.files[name], "surprise") {
			f.files[name] = f.cluster(member)
		}
	}
	f.template()
	f.policy()
}

func (f *planFleet) kustomize() {
	f.files["kustom/kustomization.yaml"] = fmt.Sprintf("resources: [app.yaml]\nnamePrefix: %s-\nnamespace: %s\n", f.one("k", "l"), f.namespace())
	f.files["kustom/app.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kust}\ndata: {a: \"%d\"}\n", f.IntN(3))
}

func (f *planFleet) quota() {
	f.files["policies/quota.yaml"] = fmt.Sprintf(`apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: quota, namespace: default}
spec: {overall: {cpu: "%d"}%s}
`, 1+f.IntN(10), f.often(5, fmt.Sprintf(`, staticAssignments: [{clusterName: %s, hard: {cpu: "1"}}]`, f.one(f.members...))))
}

func (f *planFleet) rebalance() {
	f.files["policies/again.yaml"] = fmt.Sprintf(`apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: again%d}
spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: w%d}]}
`, f.IntN(3), 2*f.IntN(2))
}

func (f *planFleet) taints() {
	f.files["policies/taints.yaml"] = fmt.Sprintf(`apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: taints}
spec:
  addOnConditions: [{conditionType: Ready, operator: In, statusValues: ["True"]}]
  removeOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ["True"]}]
  taints: [{key: %s, effect: %s}]
  targetClusters: {clusterNames: [%s]}
`, f.one("dedicated", "old"), f.one("NoSchedule", "NoExecute"), f.one(f.members...))
}

func (f *planFleet) definition() {
	f.files["apps/crd.yaml"] = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	f.files["apps/gadget.yaml"] = fmt.Sprintf("apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: gadget, namespace: default}\nspec: {size: %d}\n", f.IntN(3))
	f.files["policies/crd.yaml"] = `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: crd}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}, {apiVersion: example.org/v1, kind: Gadget}]
  placement: {` + f.placement() + "}\n"
}
