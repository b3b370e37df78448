package decide_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// mounting is a Deployment that needs a ConfigMap.
func mounting(name, configMap string) string {
	return strings.Replace(deployment(name, 1), "spec: {containers", "spec: {volumes: [{name: v, configMap: {name: "+configMap+"}}], containers", 1)
}

func needing(name, template, spec string) string {
	return policyFor(name, "Deployment "+template, spec+", propagateDeps: true")
}

func TestDependencyGoesAlong(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	web, api := mounting("web", "c"), mounting("api", "c")
	cm := file("c.yaml", configMap("c", "one"))
	d := w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))))
	want(t, "attached", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
	want(t, "its own clusters", w.placed(c), "-")
	want(t, "why", row(t, d, c).DependencyOf, []string{"default/web-deployment"})
	want(t, "unbound", unbound(d), []string{})

	w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))) + "\n" + file("api.yaml", api, needing("api", "api", only("m1, m2"))))
	want(t, "shared", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_api", "m1/default/deployment.apps_web", "m2/default/configmap_c", "m2/default/deployment.apps_api"})
	want(t, "snapshots", len(w.binding(c).Spec.RequiredBy), 2)
	w.restart()
	w.quiet(w.pass())

	w.push(fleet(3) + cm + file("web.yaml", web, needing("web", "web", only("m1"))))
	want(t, "one owner less", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
	want(t, "retired", w.retired(), []string{"m1/default/deployment.apps_api", "m2/default/configmap_c", "m2/default/deployment.apps_api"})
}

func TestDependencyWithAPolicyOfItsOwn(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	base := fleet(3) + file("c.yaml", configMap("c", "one"), policyFor("c", "ConfigMap", only("m3")))
	w.push(base)
	w.pass()
	w.pass()
	w.push(base + file("web.yaml", mounting("web", "c"), needing("web", "web", only("m1"))))
	want(t, "own and needed", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m3/default/configmap_c"})
	want(t, "its own clusters", w.placed(c), "m3")
	w.push(base)
	want(t, "nothing needs it", w.works(), []string{"m3/default/configmap_c"})
	if b := w.binding(c); b == nil || len(b.Spec.RequiredBy) > 0 {
		t.Errorf("the binding is %+v", b)
	}
}

// What has no replicas is not scaled along with what needs it.
func TestDependencyHasNotTheReplicasOfItsOwner(t *testing.T) {
	w := newWorld(t)
	source := func(replicas string) string {
		return fleet(1) + file("c.yaml", configMap("c", "one")) +
			file("web.yaml", strings.Replace(mounting("web", "c"), "replicas: 1", "replicas: "+replicas, 1), needing("web", "web", everywhere))
	}
	w.push(source("2"))
	d := w.push(source("5"))
	want(t, "owner", row(t, d, "default/web-deployment").Change, decide.Scaled)
	c := row(t, d, "default/c-configmap")
	want(t, "dependency", c.Change, decide.Updated) // its record names the owner's targets
	want(t, "clusters", c.Clusters, []workv1alpha2.TargetCluster{{Name: "m1"}})
}

// A template that a policy released runs where it is, whatever else needs it.
func TestReleasedDependencyStaysWhereItIs(t *testing.T) {
	w := newWorld(t)
	base := fleet(3) + file("c.yaml", configMap("c", "one"))
	w.push(base + file("p.yaml", policyFor("c", "ConfigMap", only("m3"))))
	w.push(base + file("p.yaml", mounting("web", "c"), needing("web", "web", only("m1"))))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m3/default/configmap_c"})
	w.push(base)
	want(t, "works", w.works(), []string{"m3/default/configmap_c"})
}

func TestDependencyThatNothingNeedsGoes(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("c.yaml", configMap("c", "one"))
	w.push(base + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)))
	d := w.push(base + file("web.yaml", deployment("web", 1), needing("web", "web", everywhere)))
	want(t, "works", w.works(), []string{"m1/default/deployment.apps_web"})
	want(t, "retired", w.retired(), []string{"m1/default/configmap_c"})
	want(t, "binding", w.placed("default/c-configmap"), "none")
	want(t, "change", row(t, d, "default/c-configmap").Change, decide.Removed)
	want(t, "unbound", unbound(d), []string{"ConfigMap default/c: nothing needs it any more"})
}

func TestMissingDependencyIsAWarningUntilItComes(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere))
	want(t, "missing", codes(w.push(base)), []string{"warning dependency-missing web.yaml"})
	want(t, "still missing", codes(w.pass()), []string{"warning dependency-missing web.yaml"})
	want(t, "there", codes(w.push(base+file("c.yaml", configMap("c", "one")))), []string{})
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
}

func TestOwnersThatDisagreeAreWarnedOf(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(1) + file("c.yaml", configMap("c", "one")) +
		"\n" + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)) +
		file("api.yaml", mounting("api", "c"), needing("api", "api", everywhere+", conflictResolution: Overwrite, preserveResourcesOnDeletion: true")))
	want(t, "findings", codes(d), []string{"warning dependency-conflict c.yaml"})
	spec := w.binding("default/c-configmap").Spec
	want(t, "overwrite wins", string(spec.ConflictResolution), "Overwrite")
	want(t, "preserve wins", *spec.PreserveResourcesOnDeletion, true)
}

// A dependency has no policy that would divide its replicas: it runs as its template says, at once and later.
func TestADependencyThatIsAWorkloadRunsAsItIs(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(2) + file("rules.yaml", `apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: r}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    dependencyInterpretation:
      luaScript: 'function GetDependencies(o) if o.metadata.name == "side" then return {} end return {{apiVersion="apps/v1", kind="Deployment", namespace="default", name="side"}} end'
`) + file("web.yaml", deployment("web", 4), needing("web", "web", divided)) + file("side.yaml", deployment("side", 3)))
	w.pass()
	for _, member := range []string{"m1", "m2"} {
		if text := w.text(member + "/default/deployment.apps_side"); !strings.Contains(text, "replicas: 3\n") {
			t.Errorf("on %s it is\n%s", member, text)
		}
	}
}

// rigged is a Deployment that needs one object of every kind a pod can refer to.
const rigged = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      imagePullSecrets: [{name: registry}]
      containers: [{name: main, image: "nginx:1", envFrom: [{configMapRef: {name: settings}}]}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

func plain(kind, name, more string) string {
	return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: default}\n" + more
}

func (w *world) serveAll(members ...string) {
	w.look(members...)
	for _, m := range members {
		w.facts(m, func(f *decide.MemberFacts) {
			f.APIs = append(slices.Clone(f.APIs), apis("v1", "ServiceAccount"), apis("v1", "PersistentVolumeClaim"), apis("v1", "Service"),
				apis("networking.k8s.io/v1", "Ingress"), apis("multicluster.x-k8s.io/v1alpha1", "ServiceImport"), apis("discovery.k8s.io/v1", "EndpointSlice"))
		})
	}
}

// Moving a workload takes all that it needs along, in one commit.
func TestMovingTakesDependenciesAlong(t *testing.T) {
	w := newWorld(t)
	w.serveAll("m1", "m2")
	source := func(where string) string {
		return fleet(2) + file("needs.yaml", plain("ConfigMap", "settings", ""), plain("Secret", "registry", "type: kubernetes.io/dockerconfigjson\nstringData: {a: b}\n"),
			plain("ServiceAccount", "web", ""), plain("PersistentVolumeClaim", "data", "spec: {}\n")) + "\n" +
			file("web.yaml", rigged, needing("web", "web", only(where)))
	}
	on := func(m string) []string {
		return []string{m + "/default/configmap_settings", m + "/default/deployment.apps_web", m + "/default/persistentvolumeclaim_data", m + "/default/secret_registry", m + "/default/serviceaccount_web"}
	}
	d := w.push(source("m1"))
	want(t, "findings", codes(d), []string{})
	want(t, "together", w.works(), on("m1"))
	d = w.push(source("m2"))
	want(t, "moved", w.works(), on("m2"))
	want(t, "left", w.retired(), on("m1"))
	want(t, "how", row(t, d, "default/settings-configmap").Change, decide.Moved)
}

// References of every kind that has some: by name, by label, and without the claims a set makes itself.
func TestDependenciesOfOtherKinds(t *testing.T) {
	const pod = `{serviceAccountName: web, containers: [{name: c, image: i}], volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}`
	for _, tt := range []struct {
		name, object, selector string
		want                   []string
	}{
		{"StatefulSet", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x, namespace: default}\nspec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: " + pod + "}}\n",
			"apiVersion: apps/v1, kind: StatefulSet", []string{"m1/default/serviceaccount_web", "m1/default/statefulset.apps_x"}},
		{"CronJob", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x, namespace: default}\nspec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: " + pod + "}}}}\n",
			"apiVersion: batch/v1, kind: CronJob", []string{"m1/default/cronjob.batch_x", "m1/default/persistentvolumeclaim_data", "m1/default/serviceaccount_web"}},
		{"Ingress", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x, namespace: default}\nspec: {tls: [{secretName: tls}]}\n",
			"apiVersion: networking.k8s.io/v1, kind: Ingress", []string{"m1/default/ingress.networking.k8s.io_x", "m1/default/secret_tls"}},
		{"ServiceImport", "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {name: x, namespace: default}\nspec: {type: ClusterSetIP}\n",
			"apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport", []string{"m1/default/endpointslice.discovery.k8s.io_one", "m1/default/endpointslice.discovery.k8s.io_two",
				"m1/default/service_derived-x", "m1/default/serviceimport.multicluster.x-k8s.io_x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			policy := strings.NewReplacer("{apiVersion: apps/v1, kind: Deployment, name: web}", "{"+tt.selector+"}", ", propagateDeps: true", map[bool]string{true: "", false: ", propagateDeps: true"}[tt.name == "ServiceImport"]).
				Replace(needing("x", "web", everywhere))
			slice := func(name, of string) string {
				return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: " + name + ", namespace: default, labels: {kubernetes.io/service-name: " + of + "}}\naddressType: IPv4\nendpoints: []\n"
			}
			w.push(fleet(1) + file("x.yaml", tt.object, policy) + file("needs.yaml", plain("ServiceAccount", "web", ""), plain("PersistentVolumeClaim", "data", "spec: {}\n"),
				plain("Secret", "tls", "data: {}\n"), plain("Service", "derived-x", "spec: {}\n"), slice("one", "derived-x"), slice("two", "derived-x"), slice("three", "other")))
			want(t, "works", w.works(), tt.want)
		})
	}
}

// An override of a dependency applies to its copies. One that makes the workload name something else
// on a member sends nothing more there: dependencies are those of the template.
func TestDependenciesAndOverrides(t *testing.T) {
	w := newWorld(t)
	const overrides = `apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: o, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: c}]
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders: {plaintext: [{path: /data/key, operator: replace, value: two}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: w, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders: {plaintext: [{path: /spec/template/spec/volumes/0/configMap/name, operator: replace, value: other}]}
`
	w.push(fleet(2) + file("c.yaml", configMap("c", "one"), configMap("other", "x")) + "\n" + file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)) + file("o.yaml", overrides))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m2/default/configmap_c", "m2/default/deployment.apps_web"})
	want(t, "m1", strings.Contains(w.text("m1/default/configmap_c"), "key: one"), true)
	want(t, "m2", strings.Contains(w.text("m2/default/configmap_c"), "key: two"), true)
	want(t, "overridden", strings.Contains(w.text("m2/default/deployment.apps_web"), "name: other"), true)
}

// What somebody needs that cannot be read, or whose rule is broken, stays where it is.
func TestASlipTakesNoDependencyAway(t *testing.T) {
	both := []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"}
	base := fleet(1) + file("c.yaml", configMap("c", "one"))
	web := file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere))
	t.Run("the owner's file", func(t *testing.T) {
		w := newWorld(t)
		w.push(base + web)
		w.past = map[string]fs.FS{} // no earlier version is at hand
		w.push(base + file("policy.yaml", needing("web", "web", everywhere)) + file("web.yaml", "kind: [\n"))
		want(t, "works", w.works(), both)
		want(t, "still attached", len(w.binding("default/c-configmap").Spec.RequiredBy), 1)
	})
	t.Run("the rule", func(t *testing.T) {
		w := newWorld(t)
		w.push(base + web)
		rule := strings.Replace(customization("dependencyInterpretation", "function GetDependencies(o)\n  error('no idea')\nend"), "{apiVersion: example.io/v1, kind: Fleet}", "{apiVersion: apps/v1, kind: Deployment}", 1)
		d := w.push(base + web + file("rules.yaml", rule))
		want(t, "works", w.works(), both)
		want(t, "findings", codes(d), []string{"error customization-fails rules.yaml", "error interpret-dependencies web.yaml"})
		needs := []decide.Need{{ID: api.ID{Kind: "ConfigMap", Namespace: "default", Name: "c"}, Along: true}}
		owner := row(t, w.explained(), "default/web-deployment")
		want(t, "explained", owner.Why().Needs, needs)
		w.push(base + web)
		want(t, "mended", w.works(), both)
	})
}

// While a copy is being evicted it still runs, and needs what it needs, whether or not there is another.
func TestDependencyStaysUnderACopyThatIsEvicted(t *testing.T) {
	for _, tt := range []struct {
		members, other string
		want           []string
	}{
		{"m1, m2", "m2", []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m2/default/configmap_c", "m2/default/deployment.apps_web"}},
		{"m1", "", []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"}},
	} {
		w := newWorld(t)
		w.push(fleet(2) + file("c.yaml", configMap("c", "one")) + "\n" + file("web.yaml", mounting("web", "c"), needing("web", "web", only(tt.members))))
		key := record.BindingKey{Namespace: "default", Name: "web-deployment"}
		next := w.state.Clone()
		b := *next.Bindings[key]
		b.Spec.Clusters = nil
		if tt.other != "" {
			b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: tt.other, Replicas: 1}}
		}
		at := metav1.NewTime(start)
		b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{
			{FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeGracefully, Reason: "TaintUntolerated", Producer: "TaintManager", CreationTimestamp: &at},
		}
		next.Bindings[key] = &b
		files, err := record.Diff(w.state, next)
		if err != nil {
			t.Fatal(err)
		}
		w.apply(files)
		w.restart()
		w.pass()
		want(t, "works on "+tt.members, w.works(), tt.want)
		if len(w.binding("default/web-deployment").Spec.GracefulEvictionTasks) == 0 {
			t.Error("the eviction is over")
		}
	}
}

// A dependency that gets a policy of its own later goes where that says as well, on its own terms; the
// policies of what needs it decide nothing any more.
func TestDependencyGetsAPolicyOfItsOwn(t *testing.T) {
	const c = "default/c-configmap"
	w := newWorld(t)
	base := fleet(3) + file("c.yaml", configMap("c", "one")) + "\n" + file("web.yaml", mounting("web", "c"), needing("web", "web", only("m1")+", conflictResolution: Overwrite"))
	w.push(base)
	want(t, "inherited", string(w.binding(c).Spec.ConflictResolution), "Overwrite")
	w.push(base + file("p.yaml", policyFor("c", "ConfigMap c", only("m3"))))
	want(t, "both", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web", "m3/default/configmap_c"})
	want(t, "its own terms", string(w.binding(c).Spec.ConflictResolution), "Abort")
	want(t, "snapshots", len(w.binding(c).Spec.RequiredBy), 1)
	w.restart()
	w.quiet(w.pass())
}

// The ways in which the last need ends: the owner goes, or its policy does not ask for it any more.
func TestTheLastNeedEnds(t *testing.T) {
	base := fleet(1) + file("c.yaml", configMap("c", "one"))
	web := file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere))
	for name, after := range map[string]string{
		"the owner goes":      base,
		"propagateDeps: off":  base + file("web.yaml", mounting("web", "c"), policyFor("web", "Deployment web", everywhere)),
		"the owner moves off": base + file("web.yaml", mounting("web", "c"), needing("web", "web", only("nowhere"))),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.push(base + web)
			want(t, "attached", slices.Contains(w.works(), "m1/default/configmap_c"), true)
			w.push(after)
			want(t, "works", slices.Contains(w.works(), "m1/default/configmap_c"), slices.Contains(w.works(), "m1/default/deployment.apps_web") && name == "the owner moves off")
			w.push(base + web)
			want(t, "needed again", slices.Contains(w.works(), "m1/default/configmap_c"), true)
		})
	}
}

// The row says where a binding runs, also on account of others.
func TestTheRowOfADependencyWithAPolicyOfItsOwnNamesAllItsClusters(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("c.yaml", configMap("c", "one"), policyFor("c", "ConfigMap", only("m1")))
	w.push(base)
	d := w.push(base + file("web.yaml", mounting("web", "c"), needing("web", "web", only("m2"))))
	r := row(t, d, "default/c-configmap")
	want(t, "change", r.Change, decide.Moved)
	want(t, "from", clustersText(r.Previous), "m1")
	want(t, "to", clustersText(r.Clusters), "m1 m2")
}
