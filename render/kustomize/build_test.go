package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

// source makes a tree of lines "== name ==", each followed by the content of that file.
var source = rendertest.Source

func yamlOf(objects []api.Object) string { return rendertest.YAML(objects...) }

const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: c
data:
  k: v
`

const statefulSet = `
== app/kustomization.yaml ==
resources:
- set.yaml
patches:
- path: patch.yaml
== app/set.yaml ==
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - name: db
        image: db:1
      - name: sidecar
        image: sidecar:1
== app/patch.yaml ==
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  template:
    spec:
      containers:
      - name: db
        env:
        - {name: LEVEL, value: info}
`

func TestBuild(t *testing.T) {
	for _, tc := range []struct{ name, root, tree, want, inputs string }{
		{"an overlay of a base beside it", "overlays/prod", `
== base/kustomization.yaml ==
resources: [c.yaml]
== base/c.yaml ==
` + configMap + `
== overlays/prod/kustomization.yaml ==
namePrefix: prod-
namespace: shop
resources:
- ../../base
`, `---
apiVersion: v1
data:
  k: v
kind: ConfigMap
metadata:
  name: prod-c
  namespace: shop
`, "base overlays/prod"},
		{"at the root, with a generator and a component", ".", `
== kustomization.yml ==
components: [parts/labels]
configMapGenerator:
- name: g
  files: [a.txt=data/a.txt]
  options: {disableNameSuffixHash: true}
== data/a.txt ==
on
== parts/labels/Kustomization ==
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels:
- pairs: {team: "on"}
`, `---
apiVersion: v1
data:
  a.txt: |
    on
kind: ConfigMap
metadata:
  labels:
    team: "on"
  name: g
`, "."},
		{"whole numbers are int64", "a", `
== a/kustomization.yaml ==
resources: [d.yaml]
transformers:
- |-
  apiVersion: builtin
  kind: PrefixTransformer
  metadata: {name: p}
  prefix: x-
  fieldSpecs:
  - path: metadata/name
== a/d.yaml ==
apiVersion: v1
kind: Thing
metadata: {name: d}
spec: {big: 9007199254740993, part: 0.5}
`, `---
apiVersion: v1
kind: Thing
metadata:
  name: x-d
spec:
  big: 9007199254740993
  part: 0.5
`, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects, inputs, err := Build(source(tc.tree), tc.root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, yamlOf(objects)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if got := strings.Join(inputs, " "); got != tc.inputs {
				t.Errorf("inputs are %q, want %q", got, tc.inputs)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ name, tree, want string }{
		{"a URL", "resources:\n- c.yaml\n- https://example.com/c.yaml", "3: https://example.com/c.yaml: what is remote"},
		{"a URL in capitals", "resources: ['HTTPS://example.com/c.yaml']", "1: HTTPS://example.com/c.yaml: what is remote"},
		{"a URL under a field name in capitals", "Resources:\n- https://example.com/c.yaml", "2: https://example.com/c.yaml: what is remote"},
		{"a repository on GitHub", "resources: [github.com/org/repo]", "1: github.com/org/repo: what is remote"},
		{"a repository by ssh", "resources: ['git@example.com:org/repo.git']", "1: git@example.com:org/repo.git: what is remote"},
		{"another by ssh", "bases: ['ssh://git@example.com/org/repo']", "1: ssh://git@example.com/org/repo: what is remote"},
		{"a forced git URL", "components: ['git::https://example.com/org/repo']", "1: git::https://example.com/org/repo: what is remote"},
		{"a file URL", "resources: ['file:///etc']", "1: file:///etc: what is remote"},
		{"a folder at a ref", "resources: ['example.com/org/repo//folder?ref=main']", "1: example.com/org/repo//folder?ref=main: what is remote"},
		{"a remote patch", "resources: [c.yaml]\npatches:\n- path: https://example.com/p.yaml", "3: https://example.com/p.yaml: what is remote"},
		{"a remote patch of old", "patchesStrategicMerge:\n- http://example.com/p.yaml", "2: http://example.com/p.yaml: what is remote"},
		{"a remote JSON patch", "patchesJson6902:\n- path: http://example.com/p.yaml\n  target: {kind: A, name: a}", "2: http://example.com/p.yaml: what is remote"},
		{"a remote replacement", "replacements:\n- path: http://example.com/p.yaml", "2: http://example.com/p.yaml: what is remote"},
		{"remote data", "configMapGenerator:\n- name: a\n  files:\n  - k=http://example.com/p", "4: k=http://example.com/p: what is remote"},
		{"remote variables", "secretGenerator:\n- name: a\n  envs: [http://example.com/p]", "3: http://example.com/p: what is remote"},
		{"remote variables of old", "secretGenerator:\n- name: a\n  env: http://example.com/p", "3: http://example.com/p: what is remote"},
		{"a remote CRD", "crds: [http://example.com/p]", "1: http://example.com/p: what is remote"},
		{"a remote configuration", "configurations: [http://example.com/p]", "1: http://example.com/p: what is remote"},
		{"a remote transformer", "transformers: [http://example.com/p]", "1: http://example.com/p: what is remote"},
		{"a transformer with a remote file", "transformers:\n- |\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: p}\n  1: x\n  Path: http://example.com/p", "2: http://example.com/p: what is remote"},
		{"a generator file with a remote file", "generators: [remote.yaml]", "1: k=https://example.com/x: what is remote"},
		{"a plugin", "generators: [plugin.yaml]", "1: Mine: plugins, functions and Helm are not run"},
		{"a plugin folder", "transformers: [sub]", "1: sub: a folder cannot configure plugins"},
		{"Helm", "resources: [c.yaml]\nhelmCharts:\n- name: x\n  repo: https://example.com", "2: Helm is not run"},
		{"Helm of old", "helmChartInflationGenerator:\n- chartName: x", "1: Helm is not run"},
		{"a schema", "openapi:\n  path: schema.json", "2: openapi.path is not used"},
		{"outside", "resources:\n- ../../x", "2: ../../x: leads out of the source"},
		{"outside by a patch", "patches:\n- path: ../../../etc/passwd", "2: ../../../etc/passwd: leads out of the source"},
		{"absolute", "resources: [/app/c.yaml]", "1: /app/c.yaml: the path must be relative"},
		{"nothing there", "resources:\n- nothing.yaml", "2: nothing.yaml: there is no such file or folder"},
		{"a folder without a kustomization", "resources:\n- empty", "2: the folder app/empty has no kustomization file"},
		{"a file as a component", "components: [c.yaml]", "1: c.yaml: a component is a folder"},
		{"itself", "resources: [.]", "1: kustomizations refer to each other in a circle: app -> app"},
		{"a circle", "resources: [../circle]", "app/../circle/kustomization.yaml:1: kustomizations refer to each other in a circle: app -> circle -> app"},
		{"an unknown field", "resource: [c.yaml]", `0: invalid Kustomization: json: unknown field "resource"`},
		{"no YAML", "resources: [", "0: invalid Kustomization: yaml: line 1"},
		{"a file outside its root", "resources: [../other.yaml]", "0: accumulating resources: "},
		{"an empty kustomization", "{}", "0: kustomization.yaml is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := source(`
== app/c.yaml ==
` + configMap + `
== app/empty/x.txt ==
x
== app/sub/kustomization.yaml ==
resources: [../c.yaml]
== circle/kustomization.yaml ==
resources: [../app]
== other.yaml ==
` + strings.Replace(configMap, "name: c", "name: d", 1) + `
== app/plugin.yaml ==
apiVersion: example.com/v1
kind: Mine
metadata: {name: x, annotations: {config.kubernetes.io/function: "container: {image: x}"}}
== app/remote.yaml ==
apiVersion: builtin
kind: ConfigMapGenerator
metadata: {name: x}
FILES: [k=https://example.com/x]
== app/schema.json ==
{}
`)
			tree["app/kustomization.yaml"] = &fstest.MapFile{Data: []byte(tc.tree + "\n")}
			_, _, err := Build(tree, "app")
			got := where(err)
			want := tc.want
			if !strings.HasPrefix(want, "app/") {
				want = "app/kustomization.yaml:" + want
			}
			want = strings.Replace(want, "app/../", "", 1)
			if !strings.HasPrefix(got, want) {
				t.Errorf("Build refuses with %q, want %q", got, want)
			}
		})
	}
}

func where(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Error())
}

func TestAllRefusalsComeAtOnce(t *testing.T) {
	_, _, err := Build(source(`
== kustomization.yaml ==
resources:
- https://example.com/a
- base
== base/kustomization.yaml ==
resources:
- nothing.yaml
`), ".")
	want := "https://example.com/a: what is remote is not fetched; copy it into the repository\nnothing.yaml: there is no such file or folder"
	if err == nil || err.Error() != want {
		t.Errorf("Build refuses with %v, want %s", err, want)
	}
}

func TestNothingIsFetched(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer server.Close()
	for _, text := range []string{
		"resources: [URL/a]", "RESOURCES: [URL/a]", "reſources: [URL/a]", "bases: [URL/a]", "components: [URL/a]", "crds: [URL/a]", "configurations: [URL/a]",
		"generators: [URL/a]", "transformers: [URL/a]", "validators: [URL/a]", "openapi: {path: URL/a}", "Openapi: {path: URL/a}",
		"patches: [{path: URL/a}]", "patchesStrategicMerge: [URL/a]", "patchesJson6902: [{path: URL/a, target: {kind: a, name: a}}]", "replacements: [{path: URL/a}]",
		"configMapGenerator: [{name: a, files: [URL/a]}]", "configMapGenerator: [{name: a, envs: [URL/a]}]", "secretGenerator: [{name: a, env: URL/a}]",
		"x: &a [URL/a]\nresources: *a", "<<: {resources: [URL/a]}", "resources: [c.yaml]\nresources: [URL/a]\nResources: [c.yaml]",
		"transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, path: URL/a}']",
		"transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, <<: {pAth: URL/a}}']",
		"transformers: ['{apiVersion: builtin, kind: PatchStrategicMergeTransformer, metadata: {name: a}, paths: [URL/a]}']",
		"transformers: ['{apiVersion: builtin, kind: ReplacementTransformer, metadata: {name: a}, replacements: [{path: URL/a}]}']",
		"transformers: ['{apiVersion: builtin, kind: ValueAddTransformer, metadata: {name: a}, value: x, targetFilePath: URL/a}']",
		"generators: ['{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: a}, files: [k=URL/a]}']",
		"generators: ['{apiVersion: v1, kind: List, items: [{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: a}, files: [k=URL/a]}]}']",
	} {
		tree := source("== c.yaml ==\n" + configMap)
		tree["kustomization.yaml"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "URL", server.URL))}
		if _, _, err := Build(tree, "."); err == nil {
			t.Errorf("Build accepts %s", text)
		}
		if n := calls.Swap(0); n > 0 {
			t.Errorf("Build makes %d requests for %s", n, text)
		}
	}
}

// A schema of its own in one build must not drop the image and the sidecar of another's StatefulSet
// (fluxcd/pkg#1237).
func TestASchemaDoesNotOutliveItsBuild(t *testing.T) {
	tree := source(statefulSet)
	before, _, err := Build(tree, "app")
	if err != nil {
		t.Fatal(err)
	}
	chosen := source(`
== kustomization.yaml ==
openapi:
  version: v1.21.2
resources: [c.yaml]
== c.yaml ==
` + configMap)
	if _, _, err := Build(chosen, "."); err != nil {
		t.Fatal(err)
	}
	if got := openapi.GetSchemaVersion(); got != initialSchema {
		t.Errorf("the build leaves the schema %s, want %s", got, initialSchema)
	}
	// What a build with a schema would leave behind, were it let through.
	if err := openapi.SetSchema(nil, []byte(`{"definitions": {}}`), true); err != nil {
		t.Fatal(err)
	}
	after, _, err := Build(tree, "app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(yamlOf(before), yamlOf(after)); diff != "" {
		t.Errorf("a build after another's (-before +after):\n%s", diff)
	}
	if got := yamlOf(after); !strings.Contains(got, "sidecar:1") || !strings.Contains(got, "db:1") || !strings.Contains(got, "LEVEL") {
		t.Errorf("the StatefulSet lost some of its fields:\n%s", got)
	}
}

func TestManifestReadsBuilds(t *testing.T) {
	tree := source(statefulSet + `
== bad/kustomization.yaml ==
resources:
- https://example.com/a
- nothing.yaml
== part/kustomization.yaml ==
resources: [../app]
nameSuffix: -x
`)
	var cache manifest.Cache
	for range 2 {
		units := manifest.Read(tree, manifest.Options{Build: Build, Cache: &cache})
		if len(units) != 2 || len(units[1].Objects) != 1 || units[1].Objects[0].Name != "db-x" || units[1].Broken {
			t.Fatalf("units are %+v", units)
		}
		if got, want := units[1].Objects[0].Origin.String(), "part/kustomization.yaml"; got != want {
			t.Errorf("the object comes from %s, want %s", got, want)
		}
		var got []string
		for _, f := range units[0].Findings {
			got = append(got, f.String())
		}
		want := []string{
			"bad/kustomization.yaml:2: error: kustomize: https://example.com/a: what is remote is not fetched; copy it into the repository",
			"bad/kustomization.yaml:3: error: kustomize: nothing.yaml: there is no such file or folder",
		}
		if diff := cmp.Diff(want, got); diff != "" || !units[0].Broken {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	}
	tree["app/patch.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(string(tree["app/patch.yaml"].Data), "info", "debug", 1))}
	units := manifest.Read(tree, manifest.Options{Build: Build, Cache: &cache})
	if got := rendertest.YAML(units[1].Objects[0].Content); !strings.Contains(got, "value: debug") {
		t.Errorf("a change in the base is not seen:\n%s", got)
	}
}

func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 x\n")
	for i := range levels {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String()
}

func TestBombsDoNotGoOff(t *testing.T) {
	object := configMap + "x:\n  " + strings.ReplaceAll(bomb(9), "\n", "\n  ") + "\n"
	indented := "    " + strings.ReplaceAll(object, "\n", "\n    ")
	var chain strings.Builder
	for i := range 20 {
		fmt.Fprintf(&chain, "== a%d/kustomization.yaml ==\nnamePrefix: a\nresources: [../a%d, ../b%d]\n== b%d/kustomization.yaml ==\nnamePrefix: b\nresources: [../a%d, ../b%d]\n", i, i+1, i+1, i, i+1, i+1)
	}
	chain.WriteString("== a20/kustomization.yaml ==\nresources: [c.yaml]\n== a20/c.yaml ==\n" + configMap + "\n== b20/kustomization.yaml ==\nnamePrefix: b\nresources: [c.yaml]\n== b20/c.yaml ==\n" + configMap)
	var row strings.Builder
	for i := range 60 {
		fmt.Fprintf(&row, "== a%d/kustomization.yaml ==\nresources: [../a%d]\n", i, i+1)
	}
	for _, tc := range []struct{ name, root, tree, want string }{
		{"in a resource", ".", "== kustomization.yaml ==\nresources: [c.yaml]\n== c.yaml ==\n" + object, "aliases stand for more than"},
		{"in the kustomization", ".", "== kustomization.yaml ==\n" + bomb(9), "aliases stand for more than"},
		{"in an inline patch", ".", "== kustomization.yaml ==\nresources: [c.yaml]\npatches:\n- patch: |-\n" + indented + "\n== c.yaml ==\n" + configMap, "aliases stand for more than"},
		{"in what contains itself", ".", "== kustomization.yaml ==\nresources: [c.yaml]\n== c.yaml ==\n" + configMap + "x: &a [*a]\n", "aliases stand for more than"},
		{"of long text", ".", "== kustomization.yaml ==\nresources: [c.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"add\", \"path\": \"/z\", \"value\": 1}]'}]\n== c.yaml ==\n" +
			configMap + "x: &x " + strings.Repeat("x", 1<<20) + "\ny: [" + strings.TrimSuffix(strings.Repeat("*x, ", 3000), ", ") + "]\n", "aliases stand for more than"},
		{"of one file many times", ".", "== kustomization.yaml ==\nconfigMapGenerator:\n- name: c\n  files:\n" + strings.Repeat("  - k=big\n", 200) + "== big ==\n" + strings.Repeat("x", 1<<20), "it reads more than 134217728 bytes, each file counted as often as it is named"},
		{"of kustomizations", "a0", chain.String(), "more than 2000 kustomizations"},
		{"of levels", "a0", row.String(), "more than 50 kustomizations refer to each other in a row"},
		{"of bytes", ".", "== kustomization.yaml ==\nresources: [c.yaml]\n== c.yaml ==\n#" + strings.Repeat("x", 5<<20), "more than 4194304 bytes"},
		{"of levels in a file", ".", "== kustomization.yaml ==\nresources: [c.yaml]\n== c.yaml ==\n" + strings.Repeat("[", 10_001), "exceeded max depth"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Build(source(tc.tree), tc.root)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Build refuses with %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMessagesKeepSecrets(t *testing.T) {
	for _, text := range []string{
		"secretGenerator:\n- name: s\n  literals: [hunter2]",
		"secretGenerator:\n- name: s\n  literals: ['a b=hunter2']",
		"secretGenerator:\n- name: s\n  envs: [lines]",
		"patches:\n- patch: 'hunter2 {'",
		"patches:\n- patch: |-\n    - op: add\n      path: /data/password\n      value: \"hunter2\"",
		"resources: [c.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |-\n    - op: test\n      path: /data/k\n      value: hunter2",
		"transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, patch: \"hunter2: {\"}']",
	} {
		tree := source("== c.yaml ==\n" + configMap + "\n== lines ==\nhunter2 hunter2\n")
		tree["kustomization.yaml"] = &fstest.MapFile{Data: []byte(text)}
		_, _, err := Build(tree, ".")
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Build says %v", text, err)
		}
	}
}

// What kustomize says of a Secret, or of what is made of one, has none of its values, and still says what is wrong.
func TestMessagesKeepValuesOfSecrets(t *testing.T) {
	const kept = `== s.yaml ==
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {a: aHVudGVyMi1hYmNkZWZn, b: LXN3b3JkZmlzaA==}
stringData: {q: hunter2-abcdefg, n: 4711}
== c.yaml ==
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {k: v}
== file ==
hunter2-abcdefg
second swordfish
== lines ==
a=hunter2-abcdefg
`
	for name, tc := range map[string]struct{ text, says string }{
		"node contents": {"resources: [s.yaml]\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: Secret\n    metadata: {name: s}\n    stringData: password=hunter2-abcdefg", "wrong node kind"},
		"out of bounds": {"resources: [s.yaml, c.yaml]\nreplacements:\n- source: {kind: Secret, name: s, fieldPath: stringData.q, options: {delimiter: '-', index: 99}}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.k]", "99 is out of bounds"},
		"a test fails":  {"resources: [s.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n    - op: test\n      path: /stringData/q\n      value: swordfish", "testing value"},
		"a literal":     {"secretGenerator:\n- name: s\n  literals: ['q=hunter2-abcdefg']\nresources: [c.yaml]\nreplacements:\n- source: {kind: Secret, name: s, fieldPath: data.q, options: {delimiter: '-', index: 99}}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.k]", "99 is out of bounds"},
		"a file":        {"secretGenerator:\n- name: s\n  files: [q=file]\nresources: [c.yaml]\nreplacements:\n- source: {kind: Secret, name: s, fieldPath: data.q.x}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.k]", "wrong node kind"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := source(kept)
			tree["kustomization.yaml"] = &fstest.MapFile{Data: []byte(tc.text)}
			_, _, err := Build(tree, ".")
			if err == nil {
				t.Fatal("the test is blind: the build is good")
			}
			for _, value := range []string{"hunter2", "aHVudG", "swordfish", "LXN3b3", "4711", "abcdefg", "password"} {
				if strings.Contains(err.Error(), value) {
					t.Errorf("%s is in %v", value, err)
				}
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Build says %v and not %s", err, tc.says)
			}
		})
	}
}

// Every value of a Secret, of a patch of one and of a generator goes from messages, in whatever form it is quoted.
func TestValuesAreHidden(t *testing.T) {
	for text, values := range map[string][]string{
		"kind: Secret\ndata: {a: aHVudGVyMg==}":                                     {"aHVudGVyMg==", "hunter2"},
		"kind: Secret\nstringData: {a: hunter2}":                                    {"aHVudGVyMg==", "hunter2"},
		"kind: Secret\nstringdata: {a: [{b: hunter2}]}":                             {"hunter2"},
		"kind: Secret\nstringData: {a: 12345}":                                      {"12345"},
		"kind: Secret\nstringData: {a: \"one two\\nthree\"}":                        {"one two", "three"},
		"kind: Secret\nstringData: {a: hunter2-and-more}":                           {"hunter2..."},
		"kind: List\nitems: [{kind: Secret, data: {a: hunter2}}]":                   {"hunter2"},
		"a: b\n---\nkind: Secret\ndata: {a: hunter2}":                               {"hunter2"},
		"kind: Secret\ndata:\n  a: hunter2\n b: [":                                  {"hunter2"},
		"- {op: add, path: /data/a, value: hunter2}":                                {"hunter2"},
		"patches: [{patch: '[{op: add, path: /stringData, value: {a: hunter2}}]'}]": {"hunter2"},
		"patchesStrategicMerge: ['{kind: Secret, data: {a: hunter2}}']":             {"hunter2"},
		"secretGenerator: [{literals: [a=hunter2, b='x=yz']}]":                      {"hunter2", "aHVudGVyMg==", "x=yz"},
		"secretGenerator: [{literals: [hunter2]}]":                                  {"hunter2"},
		"secretGenerator: [{files: [a=more/file, more/other]}]":                     {"swordfish", "plugh"},
		"secretGenerator: [{envs: [more/lines]}, {env: more/others}]":               {"correct", "horse"},
		"generators: ['{kind: SecretGenerator, literals: [a=hunter2]}']":            {"hunter2"},
	} {
		tree := source("== app/more/file ==\nswordfish\n== app/more/other ==\nplugh\n== app/more/lines ==\na=correct\n== app/more/others ==\nhorse\n")
		tree["app/f.yaml"] = &fstest.MapFile{Data: []byte(text)}
		for _, value := range values {
			if got := hide(tree, map[string]bool{"app/f.yaml": true}, "it says ["+value+"]"); got != "it says [(redacted)]" {
				t.Errorf("%s: %s", text, got)
			}
		}
		const harmless = "it says kind, data and ab"
		if got := hide(tree, map[string]bool{"app/f.yaml": true}, harmless); got != harmless {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestTheTreeIsReadOnly(t *testing.T) {
	tree := tree{source("== a/b.yaml ==\nx\n"), map[string]bool{}, new(1 << 20)}
	_, err := tree.Create("/x")
	for _, err := range []error{err, tree.Mkdir("/x"), tree.MkdirAll("/x"), tree.RemoveAll("/a"), tree.WriteFile("/x", nil)} {
		if !errors.Is(err, errReadOnly) {
			t.Errorf("a write gives %v, want %v", err, errReadOnly)
		}
	}
	if dir, file, err := tree.CleanedAbs("/../../a/./b.yaml"); dir != "/a" || file != "b.yaml" || err != nil {
		t.Errorf("CleanedAbs = %s, %s, %v, want /a, b.yaml", dir, file, err)
	}
	if _, err := tree.ReadFile("/etc/passwd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/etc/passwd gives %v, want that it does not exist", err)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("resources: [c.yaml]\nnamePrefix: x", configMap)
	f.Add("patches:\n- patch: |-\n    a: b", "kind: List")
	f.Fuzz(func(t *testing.T, kustomization, resource string) {
		tree := fstest.MapFS{"kustomization.yaml": {Data: []byte(kustomization)}, "c.yaml": {Data: []byte(resource)}}
		first, _, err := Build(tree, ".")
		again, _, errAgain := Build(tree, ".")
		if diff := cmp.Diff(yamlOf(first), yamlOf(again)); diff != "" {
			t.Errorf("a second build differs:\n%s", diff)
		}
		if (err == nil) != (errAgain == nil) {
			t.Errorf("Build gives %v, and then %v", err, errAgain)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	tree := source(statefulSet)
	for b.Loop() {
		if _, _, err := Build(tree, "app"); err != nil {
			b.Fatal(err)
		}
	}
}
