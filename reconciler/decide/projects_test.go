package decide_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/project"
)

// tenants are two teams that share a namespace, and operators who have the rest.
var tenants = []project.Limits{
	{Name: "ops", Paths: []string{"."}, Namespaces: []string{"*"}, ClusterScoped: []string{"*"}},
	{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop", "shared"}, Members: []string{"m1", "m2"}},
	{Name: "pay", Paths: []string{"teams/pay"}, Namespaces: []string{"pay", "shared"}, Kinds: []string{"ConfigMap", "*.policy.karmada.io"}, MemberSelector: "number in (2,3)"},
}

// limited is a world of those tenants.
func limited(t testing.TB, projects ...project.Limits) *world {
	w := newWorld(t)
	w.limit(projects...)
	return w
}

func (w *world) limit(projects ...project.Limits) {
	w.Helper()
	var err error
	if w.options.Projects, err = project.Compile(projects); err != nil {
		w.Fatal(err)
	}
}

// in is a text about the namespace default, about another one.
func in(namespace, text string) string {
	return strings.ReplaceAll(text, "namespace: default", "namespace: "+namespace)
}

// numbered is fleet with a label that is no truth value in YAML.
func numbered(n int) string { return strings.ReplaceAll(fleet(n), `n: "`, `number: "`) }

// everything is a policy of operators that places all ConfigMaps everywhere.
var everything = file("policy.yaml", strings.Replace(strings.Replace(policyFor("all", "ConfigMap", everywhere), "PropagationPolicy", "ClusterPropagationPolicy", 1), ", namespace: default", "", 1))

// Whatever a tenant writes, it is used within the project's limits alone; all else goes on.
func TestProjectsLimitWhatFilesMayHold(t *testing.T) {
	const shop = "teams/shop/x.yaml"
	policies := func(kind string) string {
		return strings.Replace(strings.Replace(policyFor("x", "ConfigMap", everywhere), "PropagationPolicy", kind, 1), ", namespace: default", "", 1)
	}
	for _, c := range []struct{ name, files, want string }{
		{"another namespace", file(shop, in("pay", configMap("x", "1"))), "error project-namespace " + shop},
		{"no namespace, which is default", file(shop, in("", configMap("x", "1"))), "error project-namespace " + shop},
		{"in a List", file(shop, "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: pay}}]\n"), "error project-namespace " + shop},
		{"in a list of the kind", file(shop, "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: x, namespace: pay}}]\n"), "error project-namespace " + shop},
		{"a kind", file("teams/pay/x.yaml", in("pay", deployment("x", 1))), "error project-kind teams/pay/x.yaml"},
		{"a Namespace", file(shop, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"), "error project-cluster-scoped " + shop},
		{"a Namespace in a namespace", file(shop, "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-public, namespace: shop}\n"), "error project-cluster-scoped " + shop},
		{"a ClusterRole in a namespace", file(shop, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x, namespace: shop}\n"), "error project-cluster-scoped " + shop},
		{"a member", file(shop, cluster("m9", "")), "error project-cluster-scoped " + shop},
		{"another's member", file(shop, cluster("m1", "number: \"3\"")), "error project-cluster-scoped " + shop},
		{"a policy for all", file(shop, policies("ClusterPropagationPolicy")), "error project-cluster-scoped " + shop},
		{"a taint policy", file(shop, "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: x}\nspec: {taints: [{key: x, effect: NoExecute}]}\n"), "error project-cluster-scoped " + shop},
		{"a policy for others", file(shop, in("pay", policyFor("x", "ConfigMap", everywhere))), "error project-namespace " + shop},
		{"an override for others", file(shop, in("pay", override("x", "{overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}"))), "error project-namespace " + shop},
		{"an interpreter", file(shop, "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: x}\n"), "error project-cluster-scoped " + shop},
		{"an order to schedule again", file(shop, "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata: {name: x}\nspec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: pay}]}\n"), "error project-cluster-scoped " + shop},
		{"a quota for others", file(shop, "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: x, namespace: pay}\nspec: {overall: {cpu: 1}}\n"), "error project-namespace " + shop},
		{"another's object", file(shop, in("pay", configMap("theirs", "hijacked"))), "error project-namespace " + shop},
		{"a folder of nearly that name", file("teams/shop-2/x.yaml", in("shared", configMap("x", "1"))) + file("teams/shop/none.yaml"), ""},
		{"a kustomization that moves namespaces", file("teams/shop/kustomization.yaml", "namespace: pay\nresources: [c.yaml]\n") + file("teams/shop/c.yaml", in("shop", configMap("x", "1"))), "error project-namespace teams/shop/kustomization.yaml"},
		{"a kustomization that generates", file("teams/shop/kustomization.yaml", "configMapGenerator: [{name: x, namespace: pay, literals: [a=b]}]\n"), "error project-namespace teams/shop/kustomization.yaml"},
		{"a kustomization of another's folder", file("teams/shop/kustomization.yaml", "resources: [../pay/k]\n"), "error project-namespace teams/shop/kustomization.yaml"},
		{"another's folder, renamed", file("teams/shop/kustomization.yaml", "namePrefix: x\nresources: [../pay/k]\n"), "error project-namespace teams/shop/kustomization.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := limited(t, tenants...)
			others := numbered(3) + everything + file("teams/pay/theirs.yaml", in("pay", configMap("theirs", "theirs"))) +
				file("teams/pay/k/kustomization.yaml", "resources: [built.yaml]\n") + file("teams/pay/k/built.yaml", in("pay", configMap("built", "theirs")))
			w.push(others)
			before := w.works()
			want(t, "works before", before, []string{"m2/_cluster/namespace_pay", "m2/pay/configmap_built", "m2/pay/configmap_theirs", "m3/_cluster/namespace_pay", "m3/pay/configmap_built", "m3/pay/configmap_theirs"})
			d := w.push(others, c.files, file("teams/pay/theirs.yaml", in("pay", configMap("theirs", "newer"))))
			var found []string
			for _, f := range d.Findings {
				if f.Severity == "error" || strings.HasPrefix(f.Code, "project-") {
					found = append(found, fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.File))
				}
			}
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("findings %v", found)
				}
				return
			}
			want(t, "findings", found, []string{c.want})
			want(t, "works", w.works(), before)
			if text := w.text("m2/pay/configmap_theirs"); !strings.Contains(text, "key: newer") {
				t.Errorf("the others' objects do not go on:\n%s", text)
			}
			if len(d.Next.Members) != 3 || d.Next.Members["m1"].Labels["number"] != "1" {
				t.Errorf("the members are others: %v", d.Next.Members)
			}
			w.push(others)
			want(t, "works without it", w.works(), before)
		})
	}
}

// A definition that is not allowed does not say either what is in a namespace.
func TestScopeIsNotForTenantsToSay(t *testing.T) {
	w := limited(t, tenants...)
	w.look("m1")
	w.facts("m1", func(f *decide.MemberFacts) { f.Namespaced = map[string]bool{"example.org/Grant": false} })
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: grants.example.org}\nspec: {group: example.org, scope: Namespaced, names: {kind: Grant, plural: grants}}\n"
	d := w.push(numbered(1), file("teams/shop/x.yaml", definition, in("shop", "apiVersion: example.org/v1\nkind: Grant\nmetadata: {name: x, namespace: default}\n"), in("shop", strings.ReplaceAll(policyFor("x", "Grant", everywhere), "apiVersion: v1", "apiVersion: example.org/v1"))))
	var found []string
	for _, f := range d.Findings {
		if f.Severity == "error" {
			found = append(found, f.Code+" "+f.Object)
		}
	}
	want(t, "findings", found, []string{"project-cluster-scoped CustomResourceDefinition grants.example.org", "project-cluster-scoped Grant shop/x"})
	want(t, "works", w.works(), []string{})
}

// The finding says which line and field, and whose it is.
func TestFindingOfAProject(t *testing.T) {
	d := limited(t, tenants...).push(numbered(1), file("teams/shop/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  namespace: pay\n"))
	want(t, "finding", d.Findings[0].String(), "teams/shop/x.yaml:5: error: project-namespace: ConfigMap pay/x: metadata.namespace: project shop may not use namespace pay; it has shop, shared")
	d = limited(t, tenants[1:]...).push(file("x.yaml", configMap("x", "1")))
	want(t, "finding", d.Findings[0].String(), "x.yaml:1: error: project-none: ConfigMap default/x: no project holds this folder, so nothing in it is used; put the file into the folder of one, or give the folder to one under projects in the configuration")
}

// What breaks the limits costs the file its newest version. Nothing that runs is removed, whoever broke them.
func TestWhatRunsStaysWhenLimitsAreBroken(t *testing.T) {
	good := file("teams/shop/x.yaml", in("shop", configMap("x", "one")), in("shop", configMap("z", "one")))
	base := numbered(2) + everything
	both := []string{"m1/_cluster/namespace_shop", "m1/shop/configmap_x", "m1/shop/configmap_z", "m2/_cluster/namespace_shop", "m2/shop/configmap_x", "m2/shop/configmap_z"}
	t.Run("by an edit", func(t *testing.T) {
		w := limited(t, tenants...)
		w.push(base, good)
		want(t, "works", w.works(), both)
		w.push(base, file("teams/shop/x.yaml", in("pay", configMap("x", "two")), in("shop", configMap("z", "two"))))
		want(t, "works", w.works(), both)
		want(t, "held", w.held(), []string{"teams/shop/x.yaml@c1"})
		if text := w.text("m1/shop/configmap_z"); !strings.Contains(text, "key: two") {
			t.Errorf("what is within the limits does not go on:\n%s", text)
		}
		w.restart()
		w.quiet(w.pass())
		w.push(base, file("teams/shop/x.yaml", in("pay", configMap("x", "three"))))
		want(t, "works", w.works(), both)
		w.push(base, file("teams/shop/x.yaml", in("shop", configMap("x", "four"))))
		want(t, "held", w.held(), []string{})
		want(t, "works when mended", w.works(), []string{"m1/_cluster/namespace_shop", "m1/shop/configmap_x", "m2/_cluster/namespace_shop", "m2/shop/configmap_x"})
	})
	t.Run("by a move", func(t *testing.T) {
		w := limited(t, tenants...)
		w.push(base, good)
		moved := strings.Replace(good, "teams/shop", "teams/pay", 1)
		d := w.push(base, moved)
		want(t, "findings", codes(d), []string{"warning selects-nothing policy.yaml", "error project-namespace teams/pay/x.yaml"})
		want(t, "works", w.works(), both)
		w.push(base)
		want(t, "works without it", w.works(), []string{})
	})
	t.Run("by the configuration", func(t *testing.T) {
		w := limited(t, tenants...)
		own := file("teams/shop/p.yaml", in("shop", policyFor("p", "ConfigMap", only("m2"))))
		w.push(base, good, own)
		before := w.works()
		w.limit(tenants[0], project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"other"}})
		w.pass()
		want(t, "works", w.works(), before)
		w.push(base, good, own)
		want(t, "works at the next commit", w.works(), before)
		w.push(base)
		want(t, "works without the files", w.works(), []string{})
	})
	t.Run("of policies by the configuration", func(t *testing.T) {
		w := limited(t, tenants...)
		own := file("teams/shop/p.yaml", in("shop", policyFor("p", "ConfigMap", only("m2"))))
		w.push(numbered(2), good, own)
		before := w.works()
		w.limit(tenants[0], project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop"}, Kinds: []string{"ConfigMap"}})
		w.pass()
		want(t, "works", w.works(), before)
		if held := w.binding("shop/x-configmap").Spec.Policy; held == nil || held.Name != "p" {
			t.Errorf("the binding is held by %v", held)
		}
	})
	t.Run("all along", func(t *testing.T) {
		w := limited(t, tenants...)
		bad := in("elsewhere", configMap("bad", "1"))
		w.push(base, file("teams/shop/x.yaml", in("shop", configMap("x", "one")), bad))
		want(t, "works", w.works(), []string{"m1/_cluster/namespace_shop", "m1/shop/configmap_x", "m2/_cluster/namespace_shop", "m2/shop/configmap_x"})
		w.push(base, file("teams/shop/x.yaml", bad))
		want(t, "works when its author takes out what was good", w.works(), []string{})
	})
	t.Run("of members by the configuration", func(t *testing.T) {
		w := limited(t, tenants...)
		w.push(base, good)
		w.limit(project.Limits{Name: "ops", Paths: []string{"."}, Namespaces: []string{"*"}, ClusterScoped: []string{"ClusterPropagationPolicy.policy.karmada.io"}}, tenants[1])
		d := w.pass()
		want(t, "works", w.works(), both)
		if len(d.Next.Members) != 2 || d.Next.Members["m1"].DeletionTimestamp != nil {
			t.Errorf("members leave: %v", d.Next.Members)
		}
	})
}

// A project's refusal is no reason to keep what others have removed.
func TestRefusalsKeepNothingOfOthers(t *testing.T) {
	w := limited(t, tenants...)
	base := numbered(3) + everything
	w.push(base, file("teams/pay/x.yaml", in("pay", configMap("x", "1"))), file("teams/pay/other.yaml", in("pay", configMap("z", "1"))))
	w.push(base, file("teams/shop/z.yaml", in("elsewhere", configMap("z", "1"))), file("teams/pay/x.yaml", in("pay", configMap("x", "1"))))
	want(t, "works", w.works(), []string{"m2/_cluster/namespace_pay", "m2/pay/configmap_x", "m3/_cluster/namespace_pay", "m3/pay/configmap_x"})
}

// In a namespace that two projects share, the policies and overrides of one do not concern the other.
func TestPoliciesReachTheirOwnProject(t *testing.T) {
	w := limited(t, tenants...)
	label := func(by string) string {
		return in("shared", override(by, "{overriders: {labelsOverrider: [{operator: add, value: {by: "+by+"}}]}}"))
	}
	w.push(numbered(3),
		file("teams/shop/x.yaml", in("shared", configMap("a", "1")), in("shared", policyFor("shop", "ConfigMap", everywhere+", priority: 9")), label("shop")),
		file("teams/pay/x.yaml", in("shared", configMap("b", "1")), label("pay")))
	d := w.pass()
	want(t, "works", w.works(), []string{"m1/_cluster/namespace_shared", "m1/shared/configmap_a", "m2/_cluster/namespace_shared", "m2/shared/configmap_a"})
	want(t, "unbound", unbound(d), []string{"ConfigMap shared/b: no policy selects it; PropagationPolicy shared/shop would, but is of project shop, and this is of project pay"})
	if text := w.text("m1/shared/configmap_a"); !strings.Contains(text, "by: shop") {
		t.Errorf("the override is\n%s", text)
	}
	w.push(numbered(3), file("teams/pay/x.yaml", in("shared", configMap("b", "1")), in("shared", policyFor("pay", "ConfigMap", everywhere))),
		file("teams/shop/x.yaml", in("shared", policyFor("shop", "ConfigMap", everywhere+", priority: 9")), label("shop")))
	want(t, "works", w.works(), []string{"m2/_cluster/namespace_shared", "m2/shared/configmap_b", "m3/_cluster/namespace_shared", "m3/shared/configmap_b"})
	if text := w.text("m2/shared/configmap_b"); strings.Contains(text, "by: ") {
		t.Errorf("another project's override reaches it:\n%s", text)
	}
}

// Members outside of the project are refused, with the reason. What runs on one that the project loses stays.
func TestProjectsLimitMembers(t *testing.T) {
	w := limited(t, tenants...)
	files := numbered(3) + file("teams/shop/x.yaml", in("shop", configMap("x", "1")), in("shop", policyFor("p", "ConfigMap", "placement: {clusterAffinity: {clusterNames: [m2, m3]}}")))
	w.options.Explain = true
	d := w.push(files)
	want(t, "placed", w.placed("shop/x-configmap"), "m2")
	var refused []string
	for _, v := range row(t, d, "shop/x-configmap").Schedule.Verdicts {
		if v.Rule != "" {
			refused = append(refused, v.Cluster+" "+v.Rule+": "+v.Message)
		}
	}
	want(t, "refused", refused, []string{"m1 ClusterAffinity: not in clusterNames", "m3 Project: project shop does not allow the cluster; it has m1, m2"})

	w.options.Explain = false
	w.limit(tenants[0], project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop"}, Members: []string{"m3"}})
	d = w.pass()
	want(t, "placed where it was, and where it may be now", w.placed("shop/x-configmap"), "m2 m3")
	want(t, "findings", codes(d), []string{"warning project-member teams/shop/x.yaml"})

	w = limited(t, tenants[0], project.Limits{Name: "shop", Paths: []string{"teams/shop"}, Namespaces: []string{"shop"}, Members: []string{"none"}})
	d = w.push(files)
	want(t, "placed", w.placed("shop/x-configmap"), "-")
	want(t, "message", row(t, d, "shop/x-configmap").Message, "0/3 clusters are available: 3 cluster(s) were not allowed by project shop.")
}

// Shares of quotas, dependencies and Namespaces are ways to a member, too.
func TestOtherWaysToAMember(t *testing.T) {
	w := limited(t, tenants...)
	w.options.Namespaces = decide.NamespacesAll
	d := w.push(numbered(3),
		file("teams/shop/q.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: q, namespace: shop}\nspec: {overall: {cpu: 2}, staticAssignments: [{clusterName: m1, hard: {cpu: 1}}, {clusterName: m3, hard: {cpu: 1}}]}\n"),
		file("teams/shop/web.yaml", in("shared", mounting("web", "settings")), in("shared", policyFor("p", "Deployment", everywhere+", propagateDeps: true"))),
		file("teams/pay/c.yaml", in("shared", configMap("settings", "theirs"))))
	want(t, "works", w.works(), []string{"m1/_cluster/namespace_shared", "m1/_cluster/namespace_shop", "m1/shared/deployment.apps_web", "m1/shop/resourcequota_q", "m2/_cluster/namespace_shared", "m2/shared/deployment.apps_web"})
	var found []string
	for _, f := range d.Findings {
		if strings.HasPrefix(f.Code, "project-") {
			found = append(found, f.Code+" "+f.Object)
		}
	}
	want(t, "findings", found, []string{"project-member FederatedResourceQuota shop/q", "project-dependency Deployment shared/web"})

	wide := tenants[1]
	wide.ClusterScoped = []string{"Namespace"}
	w = limited(t, tenants[0], wide)
	w.options.Namespaces = decide.NamespacesAll
	w.push(numbered(3), file("teams/shop/n.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {a: b}}\n"))
	want(t, "works", w.works(), []string{"m1/_cluster/namespace_shop", "m2/_cluster/namespace_shop"})
}

// A Namespace that one project describes is, for another that shares it, no more than a name.
func TestNamespaceOfAnotherProject(t *testing.T) {
	wide := tenants[1]
	wide.ClusterScoped = []string{"Namespace"}
	w := limited(t, tenants[0], wide, tenants[2])
	w.push(numbered(3), file("teams/shop/n.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared, labels: {by: shop}}\n"),
		file("teams/pay/x.yaml", in("shared", configMap("x", "1")), in("shared", policyFor("p", "ConfigMap", everywhere))))
	want(t, "works", w.works(), []string{"m2/_cluster/namespace_shared", "m2/shared/configmap_x", "m3/_cluster/namespace_shared", "m3/shared/configmap_x"})
	for member, described := range map[string]bool{"m2": true, "m3": false} {
		if text := w.text(member + "/_cluster/namespace_shared"); strings.Contains(text, "by: shop") != described {
			t.Errorf("on %s, as described: want %t\n%s", member, described, text)
		}
	}
}

// Equal projects that were compiled anew are the same ones.
func TestProjectsCompiledAnewChangeNothing(t *testing.T) {
	w := limited(t, tenants...)
	w.push(numbered(3), file("teams/shop/x.yaml", in("shared", configMap("a", "1")), in("shared", policyFor("p", "ConfigMap", everywhere))),
		file("teams/pay/x.yaml", in("shared", configMap("b", "1"))))
	before := w.works()
	w.limit(tenants...)
	w.quiet(w.pass())
	w.push(numbered(3), file("teams/shop/x.yaml", in("shared", configMap("a", "1")), in("shared", policyFor("p", "ConfigMap", everywhere))),
		file("teams/pay/x.yaml", in("shared", configMap("b", "2"))))
	want(t, "works", w.works(), before)
}

// Whatever is pushed, in whatever order, no work is outside of the limits of the project that its template stands in.
func TestNoWorkIsOutsideItsProject(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := limited(quietTB{t, rt}, tenants...)
		w.options.Namespaces = decide.NamespaceMode(pick(rt, "namespaces", "needed", "all"))
		if rapid.Bool().Draw(rt, "seen") {
			w.look("m1", "m2", "m3")
		}
		files := fstest.MapFS{}
		for name, f := range fleetFiles(3) {
			files[name] = f
		}
		for i := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			for range rapid.IntRange(1, 5).Draw(rt, "edits") {
				// The name of an object says whose it is; what nobody has is called x.
				folder, owner := "teams/shop/", "shop"
				switch pick(rt, "owner", "shop", "pay", "shop-2") {
				case "pay":
					folder, owner = "teams/pay/", "pay"
				case "shop-2": // of the operators, who have no limits
					folder, owner = "teams/shop-2/", "ops"
				}
				namespace := pick(rt, "namespace", "shop", "pay", "shared", "shared", "kube", "")
				object := owner + pick(rt, "object", "-a", "-b")
				text := ""
				switch pick(rt, "what", "template", "template", "policy", "cluster policy", "override", "namespace", "gone") {
				case "template":
					text = configMap(object, pick(rt, "value", "1", "2"))
					if rapid.Bool().Draw(rt, "deployment") {
						text = mounting(object, pick(rt, "mounts", "shop-a", "pay-a", "ops-b"))
					}
				case "policy":
					text = policyFor(object, pick(rt, "kind", "ConfigMap", "Deployment"), everywhere+pick(rt, "more", "", ", propagateDeps: true", ", priority: 3, preemption: Always"))
				case "cluster policy":
					text = strings.Replace(strings.Replace(policyFor(object, pick(rt, "kind", "ConfigMap", "Deployment"), everywhere), "PropagationPolicy", "ClusterPropagationPolicy", 1), ", namespace: default", "", 1)
				case "override":
					text = override(object, "{overriders: {labelsOverrider: [{operator: add, value: {by: "+owner+"}}]}}")
				case "namespace":
					text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + pick(rt, "name", "shop", "pay", "kube") + ", labels: {by: " + owner + "}}\n"
				}
				name := folder + pick(rt, "file", "1", "2", "3") + ".yaml"
				if text == "" {
					delete(files, name)
				} else {
					files[name] = &fstest.MapFile{Data: []byte(in(namespace, text))}
				}
			}
			w.commit(maps.Clone(files), fmt.Sprintf("c%d", i))
			d := w.pass()
			for path, work := range d.Next.Works {
				if work.ID.Kind == "Namespace" {
					if by := labelOf(work.Object, "by"); by != "" && by != "ops" {
						rt.Errorf("%s is a Namespace of %s, which may have none", path, by)
					}
					continue
				}
				owner, _, _ := strings.Cut(work.ID.Name, "-")
				p := w.options.Projects.Of(map[string]string{"ops": "", "shop": "teams/shop/", "pay": "teams/pay/"}[owner] + "x.yaml")
				if why := p.Refuses(work.ID); why != nil {
					rt.Errorf("%s: %s", path, why.Message)
				}
				if !p.AllowsMember(work.Member, d.Next.Members[work.Member].Labels) {
					rt.Errorf("%s is on a member that project %s does not have: %s", path, owner, p.MembersText())
				}
				if by := labelOf(work.Object, "by"); by != "" && by != owner {
					rt.Errorf("%s was changed by an override of %s", path, by)
				}
			}
			for key, b := range d.Next.Bindings {
				owner, _, _ := strings.Cut(b.Spec.Resource.Name, "-")
				if by := b.Spec.Policy; by != nil && by.Namespace != "" && !strings.HasPrefix(by.Name, owner) {
					rt.Errorf("%s is held by %s", key, by.Name)
				}
			}
			for name, m := range d.Next.Members {
				if m.DeletionTimestamp != nil {
					rt.Errorf("member %s leaves", name)
				}
			}
		}
	})
}

func labelOf(o map[string]any, key string) string {
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	text, _ := labels[key].(string)
	return text
}

func fleetFiles(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 1; i <= n; i++ {
		files[fmt.Sprintf("clusters/m%d.yaml", i)] = &fstest.MapFile{Data: []byte(cluster(fmt.Sprintf("m%d", i), fmt.Sprintf(`number: "%d"`, i)))}
	}
	return files
}

// What a project has is written as its service account, and removed as the one that it was written as.
func TestObjectsOfAProjectHaveItsServiceAccount(t *testing.T) {
	projects := append([]project.Limits{}, tenants...)
	projects[1].ServiceAccount = "shop/deployer"
	w := limited(t, projects...)
	const text = "metadata: {name: x, namespace: shop, annotations: {godwit.dev/service-account: kube-system/admin}}"
	source := numbered(2) + everything + file("teams/pay/p.yaml", in("pay", configMap("p", "1"))) + file("ops.yaml", in("ops", configMap("o", "1")))
	tenant := file("teams/shop/x.yaml", "apiVersion: v1\nkind: ConfigMap\n"+text+"\n", in("shop", configMap("z", "1")))
	source += file("teams/shop/q.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: q, namespace: shop}\nspec: {overall: {cpu: 1}, staticAssignments: [{clusterName: m1, hard: {cpu: 1}}]}\n")
	account := func(name, want string) {
		t.Helper()
		if has := strings.Contains(w.text(name), "service-account: "+want+"\n"); has != (want != "") || want == "" && strings.Contains(w.text(name), "service-account") {
			t.Errorf("%s is to be written as %q:\n%s", name, want, w.text(name))
		}
	}
	w.push(source, tenant)
	account("m1/shop/configmap_x", "shop/deployer")
	account("m2/shop/configmap_z", "shop/deployer")
	account("m1/shop/resourcequota_q", "shop/deployer")
	account("m2/pay/configmap_p", "")
	account("m1/ops/configmap_o", "")
	account("m1/_cluster/namespace_shop", "")

	// Another account: all is written anew as that one.
	projects[1].ServiceAccount = "shop/other"
	w.limit(projects...)
	w.push(source, tenant)
	account("m1/shop/configmap_x", "shop/other")

	// The file goes, and nothing says any more whose it was, but the record does.
	d := w.push(source, file("teams/shop/z.yaml", in("shop", configMap("z", "1"))))
	want(t, "retired", w.retired(), []string{"m1/shop/configmap_x", "m2/shop/configmap_x"})
	for path, r := range d.Next.Retired {
		if r.ServiceAccount != "shop/other" {
			t.Errorf("%s is to be removed as %q", path, r.ServiceAccount)
		}
	}
	w.restart()
	for path, r := range w.state.Retired {
		if r.ServiceAccount != "shop/other" {
			t.Errorf("%s is read back as to be removed as %q", path, r.ServiceAccount)
		}
	}
}

// Where others apply works, they write as whoever they are told to, which has to be said.
func TestAServiceAccountThatDoesNothingIsTold(t *testing.T) {
	projects := append([]project.Limits{}, tenants...)
	projects[1].ServiceAccount = "shop/deployer"
	w := limited(t, projects...)
	hydrate := strings.ReplaceAll(numbered(1), "metadata: {", "metadata: {annotations: {godwit.dev/delivery: hydrate}, ")
	d := w.push(hydrate+file("m2.yaml", cluster("m2", "")), everything, file("teams/shop/x.yaml", in("shop", configMap("x", "1")), in("shop", configMap("z", "1"))))
	var found []string
	for _, f := range d.Findings {
		if f.Code == "project-account" {
			found = append(found, f.Object+" "+f.Message)
		}
	}
	if len(found) != 1 || !strings.HasPrefix(found[0], "project shop its objects are not written as service account shop/deployer on m1, where others apply works") {
		t.Errorf("findings %q", found)
	}
	if d = w.push(numbered(2), everything, file("teams/shop/x.yaml", in("shop", configMap("x", "1")))); strings.Contains(fmt.Sprint(codes(d)), "project-account") {
		t.Errorf("findings %v", codes(d))
	}
}
