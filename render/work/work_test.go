package work_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/rendertest"
	"github.com/godwit-gitops/godwit/render/work"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
  uid: 0
  resourceVersion: "7"
  labels: {app: web, app.kubernetes.io/instance: argo, kustomize.toolkit.fluxcd.io/name: flux}
  annotations: {note: kept, argocd.argoproj.io/tracking-id: x}
spec:
  replicas: 2
  template: {spec: {containers: [{name: c, image: "nginx:1"}]}}
status: {replicas: 9}
`

func renderer(t testing.TB, overrides string) *work.Renderer {
	t.Helper()
	rules, problems := interpret.New(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set, findings := override.Compile(rendertest.Objects(t, overrides))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return &work.Renderer{Rules: rules, Overrides: set, Fleet: "fleet"}
}

func overriding(overriders string) string {
	return "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\nspec: {overrideRules: [{targetCluster: {clusterNames: [m1]}, overriders: {" + overriders + "}}]}\n"
}

func copyOf(t testing.TB, text string, replicas int32) work.Copy {
	t.Helper()
	o := rendertest.Object(t, text)
	return work.Copy{Template: o.Content, ID: o.ID, Binding: "default/web-deployment", Workload: replicas >= 0,
		Target: workv1alpha2.TargetCluster{Name: "m1", Replicas: max(replicas, 0)}, Cluster: &affinity.Cluster{Name: "m1"}}
}

func TestRender(t *testing.T) {
	text := strings.Replace(deployment, "  uid: 0\n", "", 1)
	for _, test := range []struct {
		name, overrides string
		replicas        int32
		want            string // of the object's spec
	}{
		{"as it is", "", -1, "replicas: 2\ntemplate: {spec: {containers: [{name: c, image: 'nginx:1'}]}}"},
		{"replicas of its own", "", 5, "replicas: 5\ntemplate: {spec: {containers: [{name: c, image: 'nginx:1'}]}}"},
		{"no replicas", "", 0, "replicas: 0\ntemplate: {spec: {containers: [{name: c, image: 'nginx:1'}]}}"},
		{"overridden", overriding(`imageOverrider: [{component: Tag, operator: replace, value: "2"}]`), 3, "replicas: 3\ntemplate: {spec: {containers: [{name: c, image: 'nginx:2'}]}}"},
		{"an override of the replicas comes last", overriding(`plaintext: [{path: /spec/replicas, operator: replace, value: 9}]`), 3, "replicas: 9\ntemplate: {spec: {containers: [{name: c, image: 'nginx:1'}]}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := copyOf(t, text, test.replicas)
			before := string(canonical.YAML(c.Template))
			got, err := renderer(t, test.overrides).Render(c)
			if err != nil {
				t.Fatal(err)
			}
			want := rendertest.Object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\n  labels: {app: web, godwit.dev/managed: \"true\"}\n"+
				"  annotations: {note: kept, godwit.dev/fleet: fleet, godwit.dev/binding: default/web-deployment}\nspec:\n  "+strings.ReplaceAll(test.want, "\n", "\n  ")+"\n").Content
			if diff := cmp.Diff(want, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, string(canonical.YAML(c.Template))); diff != "" {
				t.Errorf("the template changed:\n%s", diff)
			}
			if got.ID != c.ID {
				t.Errorf("ID %v, want %v", got.ID, c.ID)
			}
		})
	}
}

// No override takes our marks off: without them nobody would know whose the object is.
func TestMarksCannotBeOverridden(t *testing.T) {
	r := renderer(t, overriding(`labelsOverrider: [{operator: replace, value: {godwit.dev/managed: no-more}}], annotationsOverrider: [{operator: replace, value: {godwit.dev/fleet: another}}]`))
	got, err := r.Render(copyOf(t, deployment, 1))
	if err != nil {
		t.Fatal(err)
	}
	if !work.Owned(got.Object, "fleet") {
		t.Errorf("not ours any more:\n%s", canonical.YAML(got.Object))
	}
}

func TestOverridesMayNotRenameOrMove(t *testing.T) {
	for _, path := range []string{"/metadata/name", "/metadata/namespace", "/kind", "/apiVersion"} {
		r := renderer(t, overriding("plaintext: [{path: "+path+", operator: replace, value: other}]"))
		if got, err := r.Render(copyOf(t, deployment, 1)); err == nil || !strings.Contains(err.Error(), "overrides may not change") {
			t.Errorf("%s: %v, %v, want a refusal", path, got.ID, err)
		}
	}
}

func TestFailingOverrideIsAnError(t *testing.T) {
	r := renderer(t, overriding("plaintext: [{path: /spec/nowhere/x, operator: replace, value: 1}]"))
	if _, err := r.Render(copyOf(t, deployment, 1)); err == nil {
		t.Error("no error")
	}
}

func TestCompletions(t *testing.T) {
	c := copyOf(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: default}\nspec: {parallelism: 4, completions: 9, template: {spec: {restartPolicy: Never}}}\n", 2)
	share := int32(5)
	c.Completions = &share
	got, err := renderer(t, "").Render(c)
	if err != nil {
		t.Fatal(err)
	}
	spec := got.Object["spec"].(map[string]any)
	if spec["completions"] != int64(5) || spec["parallelism"] != int64(2) {
		t.Errorf("completions %v, parallelism %v, want 5 and 2", spec["completions"], spec["parallelism"])
	}
}

func TestOwned(t *testing.T) {
	for _, test := range []struct {
		meta string
		want bool
	}{
		{`{labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/fleet: f}}`, true},
		{`{labels: {godwit.dev/managed: "true"}, annotations: {godwit.dev/fleet: other}}`, false},
		{`{labels: {godwit.dev/managed: "true"}}`, false},
		{`{annotations: {godwit.dev/fleet: f}}`, false},
		{`{}`, false},
	} {
		o := rendertest.Object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: "+strings.Replace(test.meta, "{", "{name: c, namespace: default, ", 1)+"\n").Content
		if got := work.Owned(o, "f"); got != test.want {
			t.Errorf("Owned(%s) = %t, want %t", test.meta, got, test.want)
		}
	}
	if work.Owned(nil, "") {
		t.Error("nothing is owned")
	}
}

func TestOverwrite(t *testing.T) {
	for _, test := range []struct {
		annotation   string
		policy, want bool
	}{
		{"", false, false}, {"", true, true},
		{"overwrite", false, true}, {"abort", true, false},
		{"other", true, true}, {"Overwrite", false, false},
	} {
		o := api.Object{"metadata": map[string]any{"annotations": map[string]any{work.ConflictAnnotation: test.annotation}}}
		if got := work.Overwrite(o, test.policy); got != test.want {
			t.Errorf("Overwrite(%q, %t) = %t, want %t", test.annotation, test.policy, got, test.want)
		}
	}
	if work.Overwrite(nil, false) || !work.Overwrite(nil, true) {
		t.Error("without a template the policy decides")
	}
}

func TestNamespace(t *testing.T) {
	o := work.Namespace("team", "f")
	if id := api.IDOf(o); id != (api.ID{Version: "v1", Kind: "Namespace", Name: "team"}) || !work.Owned(o, "f") || work.BindingOf(o) != "" {
		t.Errorf("Namespace = %v", o)
	}
}

func secret(name, field, key string, value any) api.Object {
	return api.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "default"}, field: map[string]any{key: value}}
}

func digestOf(o api.Object, key string) string {
	for _, field := range []string{"data", "stringData"} {
		if m, ok := work.Redact(o, []byte(key))[field].(map[string]any); ok {
			for _, v := range m {
				return v.(string)
			}
		}
	}
	return ""
}

// A digest tells nothing but whether one place of one Secret changed.
func TestDigestsTellPlacesAndKeysApart(t *testing.T) {
	base := digestOf(secret("s", "data", "a", "v"), "key")
	for name, other := range map[string]string{
		"value":  digestOf(secret("s", "data", "a", "w"), "key"),
		"secret": digestOf(secret("t", "data", "a", "v"), "key"),
		"field":  digestOf(secret("s", "stringData", "a", "v"), "key"),
		"name":   digestOf(secret("s", "data", "b", "v"), "key"),
		"key":    digestOf(secret("s", "data", "a", "v"), "other"),
	} {
		if other == base {
			t.Errorf("another %s gives the same digest", name)
		}
	}
	if again := digestOf(secret("s", "data", "a", "v"), "key"); again != base {
		t.Errorf("the same twice: %s and %s", base, again)
	}
	if a, b := digestOf(secret("s", "data", "a", "v"), ""), digestOf(secret("s", "data", "a", "w"), ""); a != b || strings.Contains(a, "76") {
		t.Errorf("without a key: %s and %s, want nothing that tells them apart", a, b)
	}
}

func TestRedactLeavesNoValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z]{12,20}`).Draw(t, "value")
		o := secret("s", rapid.SampledFrom([]string{"data", "stringData", "stringdata"}).Draw(t, "field"), "k", rapid.SampledFrom([]any{value, []any{value}, map[string]any{"deep": value}}).Draw(t, "shape"))
		if rapid.Bool().Draw(t, "copied") {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": value, "note": "kept"}
		}
		if rapid.Bool().Draw(t, "no map") {
			o["data"] = value
		}
		before := string(canonical.YAML(o))
		got := string(canonical.YAML(work.Redact(o, []byte("key"))))
		if strings.Contains(got, value) {
			t.Errorf("the value is in\n%s", got)
		}
		if after := string(canonical.YAML(o)); after != before {
			t.Errorf("the Secret changed:\n%s", cmp.Diff(before, after))
		}
	})
}

func TestIsSecret(t *testing.T) {
	for id, want := range map[api.ID]bool{
		{Version: "v1", Kind: "Secret"}:                       true,
		{Version: "v1", Kind: "ConfigMap"}:                    false,
		{Group: "example.com", Version: "v1", Kind: "Secret"}: false,
	} {
		if got := work.IsSecret(id); got != want {
			t.Errorf("IsSecret(%v) = %t, want %t", id, got, want)
		}
	}
}

// Objects are shared with the template: what a copy does not change is not copied.
func TestCopiesShareWhatTheyDoNotChange(t *testing.T) {
	c := copyOf(t, deployment, 5)
	got, err := renderer(t, "").Render(c)
	if err != nil {
		t.Fatal(err)
	}
	share := func(o api.Object) string { return fmt.Sprintf("%p", o["spec"].(map[string]any)["template"]) }
	if share(got.Object) != share(c.Template) {
		t.Error("the pod template was copied")
	}
}

func BenchmarkRender(b *testing.B) {
	for name, overrides := range map[string]string{"plain": "", "image": overriding(`imageOverrider: [{component: Tag, operator: replace, value: "2"}]`)} {
		r, c := renderer(b, overrides), copyOf(b, deployment, 5)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Render(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Tracking marks go from the object alone: what selects pods finds them as before.
func TestTrackingMarks(t *testing.T) {
	all := `labels: {app: web, app.kubernetes.io/instance: shop, argocd.argoproj.io/instance: shop, kustomize.toolkit.fluxcd.io/name: f, kustomize.toolkit.fluxcd.io/namespace: f, kustomize.toolkit.fluxcd.io/checksum: f,
    helm.toolkit.fluxcd.io/name: f, helm.toolkit.fluxcd.io/namespace: f, resourceset.fluxcd.controlplane.io/name: f, resourceset.fluxcd.controlplane.io/namespace: f, fluxcd.controlplane.io/name: f, fluxcd.controlplane.io/namespace: f}
  annotations: {note: kept, argocd.argoproj.io/tracking-id: x, argocd.argoproj.io/installation-id: x, kustomize.toolkit.fluxcd.io/checksum: x, argocd.argoproj.io/sync-wave: "1", kustomize.toolkit.fluxcd.io/ssa: Merge}`
	const pods = "labels: {app: web, app.kubernetes.io/instance: shop}"
	for _, tt := range []struct {
		name, kind string
		keep       bool
		labels     string
	}{
		{"a workload", "Deployment", false, "app=web godwit.dev/managed=true"},
		{"a workload, with the label kept", "Deployment", true, "app.kubernetes.io/instance=shop app=web godwit.dev/managed=true"},
		{"a Pod, which Services find by it", "Pod", false, "app.kubernetes.io/instance=shop app=web godwit.dev/managed=true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\n  " + all + "\nspec:\n  selector: {matchLabels: {app: web, app.kubernetes.io/instance: shop}}\n  template: {metadata: {" + pods + "}, spec: {containers: [{name: c, image: nginx}]}}\n"
			if tt.kind == "Pod" {
				text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: default\n  " + all + "\nspec: {containers: [{name: c, image: nginx}]}\n"
			}
			r := renderer(t, "")
			r.KeepInstance = tt.keep
			got, err := r.Render(copyOf(t, text, -1))
			if err != nil {
				t.Fatal(err)
			}
			meta := got.Object["metadata"].(map[string]any)
			if labels := pairs(meta["labels"]); labels != tt.labels {
				t.Errorf("labels %s, want %s", labels, tt.labels)
			}
			if notes, want := pairs(meta["annotations"]), "argocd.argoproj.io/sync-wave=1 godwit.dev/binding=default/web-deployment godwit.dev/fleet=fleet kustomize.toolkit.fluxcd.io/ssa=Merge note=kept"; notes != want {
				t.Errorf("annotations %s, want %s", notes, want)
			}
			if tt.kind == "Pod" {
				return
			}
			spec := got.Object["spec"].(map[string]any)
			selects := pairs(spec["selector"].(map[string]any)["matchLabels"])
			carries := pairs(spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"])
			if want := "app.kubernetes.io/instance=shop app=web"; selects != want || carries != want {
				t.Errorf("the selector has %s, the pods %s, want %s", selects, carries, want)
			}
		})
	}
}

func pairs(m any) string {
	var list []string
	for k, v := range m.(map[string]any) {
		list = append(list, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestTrackedBy(t *testing.T) {
	for meta, want := range map[string]string{
		`{}`: "",
		`{labels: {app.kubernetes.io/instance: web}}`:                                                            "", // most charts have it
		`{annotations: {argocd.argoproj.io/tracking-id: "web:apps/Deployment:d/web"}}`:                           "Argo CD (argocd.argoproj.io/tracking-id: web:apps/Deployment:d/web)",
		`{labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}}`: "Flux (Kustomization flux-system/apps)",
		`{labels: {helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: shop}}`:                   "Flux (HelmRelease shop/web)",
	} {
		o := rendertest.Object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: "+strings.Replace(strings.Replace(meta, "{", "{name: c, namespace: default, ", 1), ", }", "}", 1)+"\n").Content
		if got := work.TrackedBy(o); got != want {
			t.Errorf("TrackedBy(%s) = %q, want %q", meta, got, want)
		}
	}
}

// The version of a work is told by all of it but the version itself, and made again it is the same.
func TestVersionsTellWorksApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) api.Object {
			return secret("s", "data", rapid.SampledFrom([]string{"a", "b"}).Draw(t, name+" key"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, name+" value"))
		}
		a, b := draw("one"), draw("other")
		keepA, keepB := rapid.Bool().Draw(t, "keep one"), rapid.Bool().Draw(t, "keep other")
		before := string(canonical.YAML(a))
		one, other := work.Deliver(a, keepA), work.Deliver(b, keepB)
		if same := cmp.Equal(a, b) && keepA == keepB; (work.VersionOf(one) == work.VersionOf(other)) != same {
			t.Errorf("versions %s and %s of\n%s%s", work.VersionOf(one), work.VersionOf(other), canonical.YAML(one), canonical.YAML(other))
		}
		if diff := cmp.Diff(one, work.Deliver(one, keepA)); diff != "" {
			t.Errorf("again: %s", diff)
		}
		if work.Keeps(one) != keepA || keepA && !work.StaysBehind(one) {
			t.Errorf("keeps %t, want %t", work.Keeps(one), keepA)
		}
		if after := string(canonical.YAML(a)); after != before {
			t.Errorf("the argument changed: %s", cmp.Diff(before, after))
		}
	})
}

// Only the renderer says who writes an object: neither its template nor an override does.
func TestTheAccountIsNotForTemplatesToSay(t *testing.T) {
	forged := strings.Replace(deployment, "annotations: {", "annotations: {godwit.dev/service-account: kube-system/admin, ", 1)
	for _, account := range []string{"", "shop/deployer"} {
		for name, overrides := range map[string]string{
			"none":  `labelsOverrider: [{operator: add, value: {a: b}}]`,
			"adds":  `annotationsOverrider: [{operator: add, value: {godwit.dev/service-account: kube-system/admin}}]`,
			"sets":  `annotationsOverrider: [{operator: replace, value: {godwit.dev/service-account: kube-system/admin}}]`,
			"drops": `annotationsOverrider: [{operator: remove, value: {godwit.dev/service-account: ""}}]`,
		} {
			for _, template := range []string{deployment, forged} {
				r := renderer(t, overriding(overrides))
				r.Account = account
				got, err := r.Render(copyOf(t, template, 1))
				if err != nil {
					t.Fatal(err)
				}
				if is := work.AccountOf(got.Object); is != account {
					t.Errorf("with the account %q, %s overridden: %q", account, name, is)
				}
			}
		}
	}
	if o := work.ResourceQuota(api.ID{Version: "v1", Kind: "ResourceQuota", Namespace: "a", Name: "b"}, nil, "fleet", "a/b"); work.AccountOf(o) != "a/b" {
		t.Error("a quota is nobody's")
	}
	if o := work.Namespace("a", "fleet"); work.AccountOf(o) != "" {
		t.Error("a Namespace that works need is somebody's")
	}
}
