// Package install has no code: it tests the manifests, the chart and the Dockerfile beside it.
package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/render/kustomize"
)

// overlays are the ways to install godwit; each is a folder of overlays and a file of values for the chart.
// The last is the first with a component, as people add it.
var overlays = []string{"single", "high-availability", "argocd", "agent", webhooks}

const webhooks = "webhooks"

// shipped are the files of this folder, and an overlay as people make it.
func shipped(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{"overlays/webhooks/kustomization.yaml": {Data: []byte("resources: [../single]\ncomponents: [../../push-webhooks]\nnamespace: godwit-system\n")}}
	if err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

const namespace = "godwit-system"

// release is the name under which the chart makes what the overlay does.
func release(overlay string) string {
	if overlay == "agent" {
		return "godwit-agent"
	}
	return "godwit"
}

// object is one that is installed, as it is written and as Kubernetes reads it.
type object struct {
	*unstructured.Unstructured
	typed runtime.Object
}

func (o object) id() string {
	return strings.Trim(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), "/")
}

// strictly reads an object as its type; fields that the type does not have are errors.
func strictly(t *testing.T, o *unstructured.Unstructured) object {
	t.Helper()
	text, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	typed, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return object{o, typed}
}

func build(t *testing.T, overlay string) []object {
	t.Helper()
	return buildIn(t, shipped(t), overlay)
}

func buildIn(t *testing.T, files fs.FS, overlay string) []object {
	t.Helper()
	built, _, err := kustomize.Build(files, "overlays/"+overlay)
	if err != nil {
		t.Fatalf("%s: %v", overlay, err)
	}
	var all []object
	for _, o := range built {
		all = append(all, strictly(t, &unstructured.Unstructured{Object: o}))
	}
	return all
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load("chart")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// template renders the chart as helm template does. Values are YAML; later ones win.
func template(t *testing.T, name string, values ...string) (map[string]string, error) {
	t.Helper()
	all := map[string]any{}
	for _, text := range values {
		v, err := chartutil.ReadValues([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = chartutil.CoalesceTables(v, all)
	}
	c := loadChart(t)
	v, err := chartutil.ToRenderValues(c, all, chartutil.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, v)
}

func valuesOf(t *testing.T, overlay string) string {
	t.Helper()
	if overlay == webhooks {
		return valuesOf(t, "single") + "webhooks: {enabled: true}\n"
	}
	text, err := os.ReadFile("chart/values-" + overlay + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// charted are the objects of the chart.
func charted(t *testing.T, name string, values ...string) []object {
	t.Helper()
	files, err := template(t, name, values...)
	if err != nil {
		t.Fatal(err)
	}
	var all []object
	for _, o := range parsed(t, files) {
		all = append(all, strictly(t, o))
	}
	return all
}

// parsed are the objects in files of a chart.
func parsed(t *testing.T, files map[string]string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		for _, text := range regexp.MustCompile(`(?m)^---$`).Split(files[file], -1) {
			o := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, text)
			}
			if len(o) > 0 {
				all = append(all, &unstructured.Unstructured{Object: o})
			}
		}
	}
	return all
}

// everywhere runs a test on all that is shipped.
func everywhere(t *testing.T, test func(t *testing.T, overlay string, all []object)) {
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) { test(t, overlay, build(t, overlay)) })
		t.Run("chart/"+overlay, func(t *testing.T) { test(t, overlay, charted(t, release(overlay), valuesOf(t, overlay))) })
	}
}

// of are the objects of a type.
func of[T runtime.Object](all []object) []T {
	var found []T
	for _, o := range all {
		if typed, ok := o.typed.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// deployment is the only one.
func deployment(t *testing.T, all []object) *appsv1.Deployment {
	t.Helper()
	found := of[*appsv1.Deployment](all)
	if len(found) != 1 || len(found[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d Deployments, want one, of one container", len(found))
	}
	return found[0]
}

// TestTheChartMakesWhatTheOverlaysAre holds that there is one truth: they differ in what belongs to the tools alone.
func TestTheChartMakesWhatTheOverlaysAre(t *testing.T) {
	for _, overlay := range overlays {
		want, got := plain(t, build(t, overlay)), plain(t, charted(t, release(overlay), valuesOf(t, overlay)))
		delete(want, "Namespace /"+namespace) // helm --create-namespace
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: - overlay, + chart\n%s", overlay, diff)
		}
	}
}

// TestTheKustomizationOfTheReadmeWorks builds the one that people are told to write, on each overlay.
func TestTheKustomizationOfTheReadmeWorks(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize.*?)```").FindSubmatch(readme)
	remote := regexp.MustCompile(`github\.com/\S+/overlays/high-availability\?ref=\S+`)
	if found == nil || !remote.Match(found[1]) {
		t.Fatal("there is none")
	}
	for _, overlay := range overlays {
		files := shipped(t)
		files["overlays/own/kustomization.yaml"] = &fstest.MapFile{Data: remote.ReplaceAll(found[1], []byte("../"+overlay))}
		files["overlays/own/godwit.yaml"] = &fstest.MapFile{Data: []byte("source: {url: own}\n")}
		all := buildIn(t, files, "own")
		d, config := deployment(t, all), of[*corev1.ConfigMap](all)
		if got := d.Spec.Template.Spec.Containers[0].Image; got != "registry.acme.test/tools/godwit:v0.1.0" {
			t.Errorf("%s: image %s", overlay, got)
		}
		if len(config) != 1 || config[0].Data["godwit.yaml"] != "source: {url: own}\n" ||
			!slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == config[0].Name }) {
			t.Errorf("%s: the configuration is not the one that was given: %+v", overlay, config)
		}
	}
}

// TestComponentsOfTheReadmeComeToThePods adds all components to that kustomization, as people are told to.
func TestComponentsOfTheReadmeComeToThePods(t *testing.T) {
	for _, overlay := range []string{"high-availability", "argocd"} {
		files := shipped(t)
		files["overlays/own/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [../" + overlay + "]\ncomponents: [../../sharding, ../../monitoring, ../../push-webhooks]\n")}
		built, _, err := kustomize.Build(files, "overlays/own")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range built {
			u := &unstructured.Unstructured{Object: o}
			switch kind := u.GetKind(); {
			case kind == "Namespace" || strings.HasPrefix(kind, "Cluster"):
			case u.GetNamespace() != namespace && (overlay != "argocd" || u.GetNamespace() != "argocd"):
				t.Errorf("%s: %s %s is in namespace %q", overlay, kind, u.GetName(), u.GetNamespace())
			case kind == "RoleBinding":
				subjects, _, _ := unstructured.NestedSlice(o, "subjects")
				for _, s := range subjects {
					if s.(map[string]any)["namespace"] != namespace {
						t.Errorf("%s: RoleBinding %s is for %v", overlay, u.GetName(), s)
					}
				}
			}
		}
	}
}

// plain are the objects without what differs between kustomize and Helm.
func plain(t *testing.T, all []object) map[string]any {
	t.Helper()
	found := map[string]any{}
	config := ""
	for _, o := range all {
		if o.GetKind() == "ConfigMap" {
			config = o.GetName()
		}
	}
	for _, o := range all {
		text, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]any{}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(o.GetKind(), " ", o.GetNamespace(), "/", o.GetName())
		if o.GetKind() == "ConfigMap" {
			id = "ConfigMap"
			u := unstructured.Unstructured{Object: m}
			u.SetName("config")
			data, _, _ := unstructured.NestedString(m, "data", "godwit.yaml")
			var settings any
			if err := yaml.UnmarshalStrict([]byte(data), &settings); err != nil {
				t.Fatal(err)
			}
			m["data"] = settings
		}
		found[id] = strip(m, config)
	}
	return found
}

// strip takes away the labels and annotations that only Helm has, and the name of the ConfigMap.
func strip(v any, config string) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch {
			case key == "helm.sh/chart" || key == "app.kubernetes.io/managed-by" || key == "app.kubernetes.io/version" ||
				key == "app.kubernetes.io/instance" || key == "checksum/config":
				delete(v, key)
			case key == "configMap":
				value.(map[string]any)["name"] = strings.Replace(fmt.Sprint(value.(map[string]any)["name"]), config, "config", 1)
			default:
				v[key] = strip(value, config)
			}
		}
		if a, ok := v["annotations"].(map[string]any); ok && len(a) == 0 {
			delete(v, "annotations")
		}
		for _, key := range []string{"volumes", "volumeMounts", "ports"} { // of pods, where their order means nothing
			list, _ := v[key].([]any)
			slices.SortStableFunc(list, func(a, b any) int {
				return strings.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
			})
		}
	case []any:
		for i := range v {
			v[i] = strip(v[i], config)
		}
	}
	return v
}

// TestPodsKeepToTheRestrictedStandard goes through https://kubernetes.io/docs/concepts/security/pod-security-standards/,
// and what is asked for besides: no writable root, no token that is not asked for, limits.
func TestPodsKeepToTheRestrictedStandard(t *testing.T) {
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		pod := deployment(t, all).Spec.Template.Spec
		c := pod.Containers[0]
		for what, ok := range map[string]bool{
			"no host namespaces":          !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
			"runAsNonRoot":                *pod.SecurityContext.RunAsNonRoot,
			"a user by number":            *pod.SecurityContext.RunAsUser > 0 && c.SecurityContext.RunAsUser == nil,
			"seccomp":                     pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"no privilege escalation":     !*c.SecurityContext.AllowPrivilegeEscalation && c.SecurityContext.Privileged == nil,
			"all capabilities dropped":    slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && c.SecurityContext.Capabilities.Add == nil,
			"a root that is read only":    *c.SecurityContext.ReadOnlyRootFilesystem,
			"no host ports":               !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }),
			"the token where it is asked": *pod.AutomountServiceAccountToken && !*of[*corev1.ServiceAccount](all)[0].AutomountServiceAccountToken,
			"no variables of Services":    !*pod.EnableServiceLinks,
			"a limit of memory":           !c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(),
			"no init or other containers": len(pod.InitContainers)+len(pod.EphemeralContainers) == 0,
		} {
			if !ok {
				t.Errorf("not so: %s", what)
			}
		}
		for _, v := range pod.Volumes {
			if v.EmptyDir == nil && v.Secret == nil && v.ConfigMap == nil && v.PersistentVolumeClaim == nil {
				t.Errorf("volume %s: is of a kind that is not restricted", v.Name)
			}
			if v.Secret != nil && *v.Secret.DefaultMode&0o007 != 0 {
				t.Errorf("volume %s: everybody may read the Secret", v.Name)
			}
		}
		for _, o := range of[*corev1.Namespace](all) {
			if o.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Errorf("namespace %s does not enforce it", o.Name)
			}
		}
	})
}

// TestWhatIsReferredToIsThere holds that all names in the manifests lead somewhere: to an object beside them, or to one
// that the README tells you to make.
func TestWhatIsReferredToIsThere(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		there := func(kind, namespace, name string) bool {
			return slices.ContainsFunc(all, func(o object) bool {
				return o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name
			})
		}
		d := deployment(t, all)
		pod := d.Spec.Template.Spec
		if !there("ServiceAccount", d.Namespace, pod.ServiceAccountName) {
			t.Errorf("no ServiceAccount %s", pod.ServiceAccountName)
		}
		mounted := map[string]bool{}
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted[m.Name] = true
		}
		for _, v := range pod.Volumes {
			switch {
			case !mounted[v.Name]:
				t.Errorf("volume %s is mounted nowhere", v.Name)
			case v.ConfigMap != nil && !there("ConfigMap", d.Namespace, v.ConfigMap.Name):
				t.Errorf("no ConfigMap %s", v.ConfigMap.Name)
			case v.PersistentVolumeClaim != nil && !there("PersistentVolumeClaim", d.Namespace, v.PersistentVolumeClaim.ClaimName):
				t.Errorf("no PersistentVolumeClaim %s", v.PersistentVolumeClaim.ClaimName)
			case v.Secret != nil && !there("Secret", d.Namespace, v.Secret.SecretName) &&
				!strings.Contains(string(readme), "create secret generic "+v.Secret.SecretName+" "):
				t.Errorf("the README does not say how to make Secret %s", v.Secret.SecretName)
			}
			delete(mounted, v.Name)
		}
		if len(mounted) > 0 {
			t.Errorf("mounts of no volume: %v", mounted)
		}
		subjects := map[string][]rbacv1.Subject{}
		for _, b := range of[*rbacv1.RoleBinding](all) {
			if !there(b.RoleRef.Kind, b.Namespace, b.RoleRef.Name) {
				t.Errorf("no %s %s in %s", b.RoleRef.Kind, b.RoleRef.Name, b.Namespace)
			}
			subjects[b.Namespace+"/"+b.Name] = b.Subjects
		}
		for _, b := range of[*rbacv1.ClusterRoleBinding](all) {
			if !there(b.RoleRef.Kind, "", b.RoleRef.Name) {
				t.Errorf("no %s %s", b.RoleRef.Kind, b.RoleRef.Name)
			}
			subjects[b.Name] = b.Subjects
		}
		for name, s := range subjects {
			if len(s) != 1 || s[0].Kind != "ServiceAccount" || s[0].Name != pod.ServiceAccountName || s[0].Namespace != d.Namespace {
				t.Errorf("binding %s is for %v, want the pod's account alone", name, s)
			}
		}
		for _, o := range all {
			if ns := o.GetNamespace(); ns != "" && ns != namespace && (overlay != "argocd" || ns != "argocd" || !strings.HasPrefix(o.GetKind(), "Role")) {
				t.Errorf("%s is in another namespace", o.id())
			}
		}
	})
}

// rules are the rows of the README's table that the manifests of an overlay come to, without what they are for.
func rules(all []object) []string {
	var rows []string
	add := func(where string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			what := slices.Clone(r.NonResourceURLs)
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range append(r.ResourceNames, "")[:max(1, len(r.ResourceNames))] {
						what = append(what, strings.TrimRight(strings.TrimRight(resource+"."+group, ".")+"/"+name, "/"))
					}
				}
			}
			slices.Sort(what)
			rows = append(rows, strings.Join([]string{where, strings.Join(what, ", "), strings.Join(r.Verbs, ", ")}, " | "))
		}
	}
	for _, r := range of[*rbacv1.Role](all) {
		add(r.Namespace, r.Rules)
	}
	for _, r := range of[*rbacv1.ClusterRole](all) {
		add("all", r.Rules)
	}
	return rows
}

// TestTheReadmeTellsEveryPermission holds that the table in the README and the manifests say the same.
func TestTheReadmeTellsEveryPermission(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \| (\S+) \| (.+) \| ((?:[a-z]+, )*[a-z]+) \| .+ \|$`).FindAllStringSubmatch(string(readme), -1) {
		for _, overlay := range strings.Split(row[1], ", ") {
			told[overlay] = append(told[overlay], strings.Join(row[2:5], " | "))
		}
	}
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		if overlay == webhooks {
			overlay = "single" // it may do no more
		}
		want, got := slices.Sorted(slices.Values(rules(all))), slices.Sorted(slices.Values(told[overlay]))
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("- manifests, + README\n%s", diff)
		}
	})
}

// TestNobodyIsAnAdministrator holds what no role may have, whatever the README says.
func TestNobodyIsAnAdministrator(t *testing.T) {
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		if n := len(of[*rbacv1.ClusterRole](all)) + len(of[*rbacv1.ClusterRoleBinding](all)); overlay != "agent" && n > 0 {
			t.Errorf("%d objects give something in all of the management cluster", n)
		}
		for _, row := range rules(all) {
			parts := strings.Split(row, " | ")
			for _, what := range strings.Split(parts[1], ", ") {
				if strings.Contains(what, "*") && what != "/api/*" && what != "/apis/*" {
					t.Errorf("%s: a wildcard", row)
				}
				if resource, group, _ := strings.Cut(what, "."); group == "rbac.authorization.k8s.io" || strings.Contains(resource, "/") && !strings.HasPrefix(what, "/") && !strings.HasPrefix(what, "namespaces/") {
					t.Errorf("%s: roles, or a subresource such as exec", row)
				}
				if parts[0] == "all" && strings.HasPrefix(what, "secrets") {
					t.Errorf("%s: Secrets of all namespaces", row)
				}
			}
			for _, verb := range strings.Split(parts[2], ", ") {
				if !slices.Contains([]string{"get", "list", "watch", "create", "update", "patch", "delete"}, verb) {
					t.Errorf("%s: verb %s", row, verb)
				}
			}
		}
		for _, b := range of[*rbacv1.ClusterRoleBinding](all) {
			if b.RoleRef.Name == "cluster-admin" || b.RoleRef.Name == "admin" || b.RoleRef.Name == "edit" {
				t.Errorf("%s gives %s", b.Name, b.RoleRef.Name)
			}
		}
	})
}

// TestSelectorsSelectThePods holds for each selector that it is met by the pods of the Deployment, and by those of no
// other installation in the namespace.
func TestSelectorsSelectThePods(t *testing.T) {
	pods := map[string]labels.Set{}
	for _, overlay := range []string{"single", "agent"} {
		pods[overlay] = deployment(t, build(t, overlay)).Spec.Template.Labels
	}
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		d := deployment(t, all)
		other := pods["agent"]
		if overlay == "agent" {
			other = pods["single"]
		}
		selectors := map[string]map[string]string{"Deployment": d.Spec.Selector.MatchLabels}
		for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
			selectors["spread"] = c.LabelSelector.MatchLabels
		}
		for _, s := range of[*corev1.Service](all) {
			selectors["Service "+s.Name] = s.Spec.Selector
		}
		for _, b := range of[*policyv1.PodDisruptionBudget](all) {
			selectors["PodDisruptionBudget "+b.Name] = b.Spec.Selector.MatchLabels
		}
		for _, p := range of[*networkingv1.NetworkPolicy](all) {
			selectors["NetworkPolicy "+p.Name] = p.Spec.PodSelector.MatchLabels
		}
		want := 3
		if *d.Spec.Replicas > 1 || overlay == webhooks {
			want = 5 // a budget, and a spread over nodes; or another Service and NetworkPolicy
		}
		if len(selectors) != want {
			t.Errorf("selectors of %v, want %d", slices.Sorted(maps.Keys(selectors)), want)
		}
		for name, s := range selectors {
			if len(s) == 0 || !labels.SelectorFromSet(s).Matches(labels.Set(d.Spec.Template.Labels)) || labels.SelectorFromSet(s).Matches(other) {
				t.Errorf("%s: selects %v; the pods have %v, those of others %v", name, s, d.Spec.Template.Labels, other)
			}
		}
		for _, o := range all {
			for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/component"} {
				if o.GetLabels()[label] == "" {
					t.Errorf("%s: has no label %s", o.id(), label)
				}
			}
		}
	})
}

// TestTheNetworkIsNoWiderThanNeeded holds what may connect: who scrapes to the operations, and the pods to names, the
// repository and API servers, but never to link-local addresses, where clouds keep their credentials.
func TestTheNetworkIsNoWiderThanNeeded(t *testing.T) {
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		policies := of[*networkingv1.NetworkPolicy](all)
		p := policies[0].Spec
		if !slices.Equal(p.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
			t.Errorf("it is of %v", p.PolicyTypes)
		}
		for _, rule := range p.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.String() != "operations" {
				t.Errorf("strangers may come in: %+v", rule)
			}
		}
		for _, rule := range p.Egress {
			var ports []string
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.String())
			}
			switch strings.Join(ports, " ") {
			case "53 53":
			case "22 443 6443":
				if len(rule.To) == 0 {
					t.Error("anything may be connected to")
				}
				for _, to := range rule.To {
					if b := to.IPBlock; b == nil || !slices.Contains([]string{"[169.254.0.0/16]", "[fe80::/10]"}, fmt.Sprint(b.Except)) {
						t.Errorf("link-local addresses may be connected to: %+v", to)
					}
				}
			default:
				t.Errorf("egress to %v", ports)
			}
		}
		if len(p.Ingress) != 1 || len(p.Egress) != 2 {
			t.Errorf("%d and %d rules", len(p.Ingress), len(p.Egress))
		}
		for _, more := range policies[1:] {
			in := more.Spec.Ingress
			if overlay != webhooks || len(in) != 1 || len(in[0].From) != 1 || len(in[0].Ports) != 1 || in[0].Ports[0].Port.String() != "webhooks" || more.Spec.Egress != nil {
				t.Errorf("NetworkPolicy %s adds %+v", more.Name, more.Spec)
			}
		}
	})
}

// TestPortsAndProbesMeet holds that probes and Service ask where the configuration has the program listen.
func TestPortsAndProbesMeet(t *testing.T) {
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		c := deployment(t, all).Spec.Template.Spec.Containers[0]
		var settings struct {
			Server struct{ Address string }
		}
		if err := yaml.Unmarshal([]byte(of[*corev1.ConfigMap](all)[0].Data["godwit.yaml"]), &settings); err != nil {
			t.Fatal(err)
		}
		listens := map[string]string{"operations": settings.Server.Address}
		for _, v := range c.Env {
			if v.Name == "GODWIT_SERVER_WEBHOOKS_ADDRESS" {
				listens["webhooks"] = v.Value
			}
		}
		ports, led := map[string]string{}, map[string]bool{}
		for _, p := range c.Ports {
			ports[p.Name] = fmt.Sprint(":", p.ContainerPort)
		}
		if !maps.Equal(ports, listens) {
			t.Errorf("it listens at %v, the container's ports are %v", listens, ports)
		}
		for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe, "/healthz ": c.StartupProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != strings.TrimSpace(path) || probe.HTTPGet.Port.String() != "operations" {
				t.Errorf("the probe of %s is %+v", path, probe)
			}
		}
		for _, s := range of[*corev1.Service](all) {
			if len(s.Spec.Ports) != 1 || ports[s.Spec.Ports[0].TargetPort.String()] == "" {
				t.Errorf("Service %s leads to %v", s.Name, s.Spec.Ports)
			}
			led[s.Spec.Ports[0].TargetPort.String()] = true
		}
		if len(led) != len(ports) {
			t.Errorf("Services lead to %v, want all of %v", led, ports)
		}
	})
}

// TestReplicasLoseNothing holds what is needed when a pod goes: one replica has a volume and is never two, and of
// two that choose a leader one stays.
func TestReplicasLoseNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, overlay string, all []object) {
		d := deployment(t, all)
		var settings struct {
			LeaderElection struct{ Enabled bool }
		}
		if err := yaml.Unmarshal([]byte(of[*corev1.ConfigMap](all)[0].Data["godwit.yaml"]), &settings); err != nil {
			t.Fatal(err)
		}
		switch {
		case *d.Spec.Replicas > 1 && !settings.LeaderElection.Enabled:
			t.Error("replicas without a leader")
		case *d.Spec.Replicas > 1 && (d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || len(of[*policyv1.PodDisruptionBudget](all)) != 1):
			t.Error("replicas that may all go at once")
		case *d.Spec.Replicas == 1 && (d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || len(of[*policyv1.PodDisruptionBudget](all)) != 0):
			t.Error("one replica that is two for a while, or that no node can be emptied of")
		case overlay != "agent" && *d.Spec.Replicas == 1 && len(of[*corev1.PersistentVolumeClaim](all)) != 1:
			t.Error("commits that are not pushed go with the pod")
		}
	})
}

// TestTheChartRefusesWhatCannotWork gives values that people get wrong.
func TestTheChartRefusesWhatCannotWork(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"config: {source: {url: ''}}", "url"},
		{"replica: 2", "replica"},
		{"replicas: 0", "replicas"},
		{"config: {sharding: {enabled: true}}", "leaderElection"},
		{"{replicas: 2, persistence: {enabled: false}}", "leaderElection"},
		{"{replicas: 2, config: {leaderElection: {enabled: true}}, persistence: {enabled: true}}", "persistence: one volume is for one replica"},
		{"persistence: {enabled: false}", "what is not pushed goes with the pod"},
		{"mode: both", "mode"},
		{"{mode: agent, config: {state: {url: u}}}", "member"},
		{"{mode: agent, member: a}", "url"},
		{"{mode: agent, member: a, replicas: 2, config: {state: {url: u}, leaderElection: {enabled: true}}}", "a member has one agent"},
		{"image: {digest: latest}", "digest"},
		{"config: {dataDir: /data}", "dataDir"},
		{"{mode: agent, member: a, config: {state: {url: u}}, webhooks: {enabled: true}}", "an agent receives none"},
		{"webhooks: {provider: svn}", "provider"},
		{"config: {server: {address: ''}}", "address"},
	} {
		_, err := template(t, "godwit", "config: {source: {url: https://git.example.com/fleet.git}}", c.values)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a word of %s", c.values, err, c.want)
		}
	}
}

// TestMonitoring holds that what is scraped is the Service, and that component and chart have the same alerts. Their kinds
// are the Prometheus operator's, which the other tests do not know.
func TestMonitoring(t *testing.T) {
	type found struct {
		monitor, rules map[string]any
		services       []*corev1.Service
	}
	sort := func(t *testing.T, objects []map[string]any) (f found) {
		for _, o := range objects {
			switch u := (&unstructured.Unstructured{Object: o}); u.GetKind() {
			case "ServiceMonitor":
				f.monitor = o
			case "PrometheusRule":
				f.rules = o
			case "Service":
				f.services = append(f.services, strictly(t, u).typed.(*corev1.Service))
			}
		}
		return f
	}
	files := shipped(t)
	files["overlays/watched/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [../single]\ncomponents: [../../monitoring]\nnamespace: godwit-system\n")}
	built, _, err := kustomize.Build(files, "overlays/watched")
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for _, o := range built {
		objects = append(objects, o)
	}
	component := sort(t, objects)
	objects = nil
	rendered, err := template(t, "godwit", valuesOf(t, "single"), "monitoring: {enabled: true, labels: {release: prometheus}}")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range parsed(t, rendered) {
		objects = append(objects, o.Object)
	}
	chart := sort(t, objects)
	for name, f := range map[string]found{"component": component, "chart": chart} {
		selector, _, err := unstructured.NestedStringMap(f.monitor, "spec", "selector", "matchLabels")
		endpoints, _, _ := unstructured.NestedSlice(f.monitor, "spec", "endpoints")
		if err != nil || len(selector) == 0 || len(endpoints) != 1 {
			t.Fatalf("%s: it scrapes %v", name, f.monitor)
		}
		scraped := 0
		for _, s := range f.services {
			if labels.SelectorFromSet(selector).Matches(labels.Set(s.Labels)) && s.Spec.Ports[0].Name == endpoints[0].(map[string]any)["port"] {
				scraped++
			}
		}
		if scraped != 1 {
			t.Errorf("%s: it scrapes %d Services", name, scraped)
		}
	}
	if diff := cmp.Diff(component.rules["spec"], chart.rules["spec"]); diff != "" {
		t.Errorf("the alerts (-component +chart):\n%s", diff)
	}
	if l := (&unstructured.Unstructured{Object: chart.rules}).GetLabels(); l["release"] != "prometheus" {
		t.Errorf("the rules have the labels %v", l)
	}
	// What an agent has is scraped, and judged where the reconciler is.
	agent, err := template(t, "godwit-agent", valuesOf(t, "agent"), "monitoring: {enabled: true}")
	if err != nil || !strings.Contains(text(agent), "kind: ServiceMonitor") || strings.Contains(text(agent), "kind: PrometheusRule") {
		t.Errorf("an agent: %v", err)
	}
}

// TestSharding holds that replicas that members are divided over may do the same by the component and by the chart, and what
// that is.
func TestSharding(t *testing.T) {
	files := shipped(t)
	files["overlays/divided/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [../high-availability]\ncomponents: [../../sharding]\nnamespace: godwit-system\n")}
	component := buildIn(t, files, "divided")
	chart := charted(t, "godwit", valuesOf(t, "high-availability"), "config: {sharding: {enabled: true}}")
	for name, all := range map[string][]object{"component": component, "chart": chart} {
		more := slices.DeleteFunc(rules(all), func(row string) bool { return slices.Contains(rules(build(t, "high-availability")), row) })
		want := []string{"godwit-system | leases.coordination.k8s.io | get, list, watch, create, update, delete", "godwit-system | secrets | get, list, watch, create, update, delete"}
		if !slices.Equal(more, want) {
			t.Errorf("%s: it may do %q besides, want %q", name, more, want)
		}
		for _, b := range of[*rbacv1.RoleBinding](all) {
			if len(b.Subjects) != 1 || b.Subjects[0].Name != "godwit" || b.Subjects[0].Namespace != namespace {
				t.Errorf("%s: %s is for %v", name, b.Name, b.Subjects)
			}
		}
	}
	if env := deployment(t, component).Spec.Template.Spec.Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "GODWIT_SHARDING_ENABLED", Value: "true"}) {
		t.Errorf("nobody says that members are divided: %v", env)
	}
}

// TestValuesOfTheChartAreUsed sets each value, and looks for it in what comes out.
func TestValuesOfTheChartAreUsed(t *testing.T) {
	base := "config: {source: {url: https://git.example.com/fleet.git}}"
	for _, c := range []struct{ values, want string }{
		{"image: {digest: 'sha256:" + strings.Repeat("0a", 32) + "', tag: x}", "image: registry.example.com/godwit@sha256:0a0a"},
		{"image: {repository: r.test/g}", "image: r.test/g:v0.1.0"},
		{"image: {pullPolicy: Always}", "imagePullPolicy: Always"},
		{"image: {pullSecrets: [{name: pull}]}", "- name: pull"},
		{"config: {server: {address: ':9090'}}", "containerPort: 9090"},
		{"config: {safety: {maxDeletePercent: 7}}", "maxDeletePercent: 7"},
		{"config: {clusters: {namespaces: [a, b]}}", "namespace: b"},
		{"config: {clusters: {argocd: true}}", "namespace: argocd"},
		{"config: {clusters: {argocd: true}}", "namespaces:\n      - godwit-system\n      - argocd"},
		{"config: {leaderElection: {enabled: true, name: lease}}", "resourceNames: [lease]"},
		{"config: {leaderElection: {enabled: true}}", "resourceNames: [godwit]"},
		{"config: {leaderElection: {enabled: true}, sharding: {enabled: true}}", "godwit-replicas"},
		{"gitSecret: other", "secretName: other"},
		{"persistence: {storageClassName: fast}", "storageClassName: fast"},
		{"persistence: {size: 5Gi}", "storage: 5Gi"},
		{"resources: {limits: {memory: 3Gi}}", "memory: 3Gi"},
		{"networkPolicy: {scrapedFrom: prometheus}", "kubernetes.io/metadata.name: prometheus"},
		{"networkPolicy: {ports: [8443]}", "port: 8443"},
		{"webhooks: {enabled: true, secret: other}", "secretName: other"},
		{"webhooks: {enabled: true, from: gateway}", "kubernetes.io/metadata.name: gateway"},
		{"webhooks: {enabled: true, provider: gitlab}", "GODWIT_SERVER_WEBHOOKS_GITLABTOKENFILE"},
		{"webhooks: {enabled: true, provider: gitea}", "GODWIT_SERVER_WEBHOOKS_GITEASECRETFILE"},
		{"env: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}]", "HTTPS_PROXY"},
		{"volumes: [{name: more, emptyDir: {}}]", "name: more"},
		{"volumeMounts: [{name: more, mountPath: /more}]", "mountPath: /more"},
		{"nodeSelector: {disk: ssd}", "disk: ssd"},
		{"tolerations: [{key: infra}]", "key: infra"},
		{"affinity: {nodeAffinity: {}}", "nodeAffinity"},
		{"priorityClassName: high", "priorityClassName: high"},
		{"{mode: agent, member: kube07, config: {state: {url: u}}}", `"kube07"`},
		{"{mode: agent, member: a, config: {state: {url: u}}, kinds: [{apiGroup: demo.godwit.dev, resources: [backups]}]}", "backups"},
	} {
		before, err := template(t, "godwit", base)
		if err != nil {
			t.Fatal(err)
		}
		after, err := template(t, "godwit", base, c.values)
		if err != nil {
			t.Errorf("%s: %v", c.values, err)
			continue
		}
		if strings.Contains(text(before), c.want) || !strings.Contains(text(after), c.want) {
			t.Errorf("%s: gives no %s", c.values, c.want)
		}
		charted(t, "godwit", base, c.values) // and all of it is still what Kubernetes knows
	}
	elsewhere := rules(charted(t, "godwit", base, "config: {clusters: {namespaces: [a]}}"))
	if want := []string{"a | secrets | get, list, watch", "a | events | get, create, update", "godwit-system | events | get, create, update"}; !slices.Equal(elsewhere, want) {
		t.Errorf("with credentials elsewhere it may %q, want %q", elsewhere, want)
	}
	without, err := template(t, "godwit", base, "networkPolicy: {enabled: false}")
	if err != nil || strings.Contains(text(without), "NetworkPolicy") {
		t.Errorf("networkPolicy cannot be left out: %v", err)
	}
	// A new configuration is a new pod.
	checksum := func(values string) string {
		return deployment(t, charted(t, "godwit", base, values)).Spec.Template.Annotations["checksum/config"]
	}
	if same, other := checksum("resources: {}"), checksum("config: {fleet: b}"); checksum("{}") != same || same == other {
		t.Errorf("checksums %s, and %s of another configuration", same, other)
	}
}

func text(files map[string]string) string {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.WriteString(files[name])
	}
	return b.String()
}
