package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render"
)

// source makes a tree of lines "== name ==", each followed by the content of that file.
func source(text string) fstest.MapFS {
	tree := fstest.MapFS{}
	for part := range strings.SplitSeq("\n"+text, "\n== ") {
		if name, content, ok := strings.Cut(part, " ==\n"); ok {
			tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return tree
}

// list is what was read, a line for each object and finding, in order of the units.
func list(units []Unit) string {
	var b strings.Builder
	for _, u := range units {
		for _, o := range u.Objects {
			fmt.Fprintf(&b, "%s#%d %s\n", o.Origin, o.Origin.Document, o.ID)
		}
		for _, f := range u.Findings {
			fmt.Fprintln(&b, f)
		}
		if u.Broken {
			fmt.Fprintf(&b, "%s is broken\n", u.Path)
		}
	}
	return b.String()
}

// fakeBuild builds an object for each manifest in the folder, and has no other wits than the real one.
func fakeBuild(fsys fs.FS, root string) (objects []api.Object, inputs []string, err error) {
	names, _ := fs.Glob(fsys, path.Join(root, "[a-j]*.yaml"))
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, nil, err
		}
		if strings.Contains(string(data), "refused") {
			return nil, nil, errors.Join(positioned{name, 7}, errors.New("and more"))
		}
		o, err := canonical.Parse(data)
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, o)
	}
	return objects, []string{root}, nil
}

type positioned struct {
	file string
	line int
}

func (p positioned) Error() string           { return "refused" }
func (p positioned) Position() (string, int) { return p.file, p.line }

func TestRead(t *testing.T) {
	subdomain, label := validation.IsDNS1123Subdomain("-")[0], validation.IsDNS1123Label("-")[0]
	for _, tc := range []struct{ name, tree, want string }{
		{"documents, comments and what is no object", `
== a.yaml ==
# a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
--- # another
# more

apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: n1}
...
---
---
values: only
--- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
- a list
--- text
== b.json ==
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}
== c.txt ==
apiVersion: v1
== values.yml ==
a: 1
`, `a.yaml:3#1 ConfigMap a
a.yaml:9#2 ConfigMap n1/b
a.yaml:16#5 ConfigMap c
b.json:1#1 ConfigMap d
`},
		{"byte order of paths", `
== a/x.yaml ==
{apiVersion: v1, kind: A, metadata: {name: a}}
== a-b.yaml ==
{apiVersion: v1, kind: A, metadata: {name: b}}
== a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: c}}
== B.yaml ==
{apiVersion: v1, kind: A, metadata: {name: d}}
`, `B.yaml:1#1 A d
a-b.yaml:1#1 A b
a.yaml:1#1 A c
a/x.yaml:1#1 A a
`},
		{"a broken document costs no neighbour", `
== a.yaml ==
apiVersion: v1
kind: A
metadata: {name: a}
---
apiVersion: v1
kind: A
metadata:
  name: b
 labels: {}
---
a: "
---
apiVersion: v1
kind: A
metadata: {name: c}
`, `a.yaml:1#1 A a
a.yaml:13#4 A c
a.yaml:9: error: broken-yaml: did not find expected key
a.yaml:11: error: broken-yaml: found unexpected end of stream
a.yaml is broken
`},
		{"lists", `
== a.yaml ==
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: A
  metadata: {name: a}
- apiVersion: apps/v1
  kind: DeploymentList
  items:
  - metadata: {name: b}
  - text
- apiVersion: v1
  kind: A
`, `a.yaml:4#1 A a
a.yaml:10#1 Deployment b
a.yaml:11: error: wrong-type: DeploymentList: items[1]: "text" where an object is wanted
a.yaml:12: error: missing-name: A: no metadata.name; if this is no manifest, name the file in .godwitignore
a.yaml is broken
`},
		{"half an identity", `
== a.yaml ==
apiVersion: v1
---
kind: Pod
---
apiVersion: v1
kind: Pod
metadata:
  generateName: x-
---
apiVersion: v1
kind: Pod
metadata: text
---
apiVersion: v1
kind: Pod
metadata: {}
---
apiVersion: 1
kind: Pod
---
apiVersion: v1
kind: {a: b}
`, `a.yaml:1: error: missing-kind: apiVersion without a kind; if this is no manifest, name the file in .godwitignore
a.yaml:3: error: missing-api-version: Pod: kind Pod without an apiVersion; if this is no manifest, name the file in .godwitignore
a.yaml:8: error: generate-name: Pod: metadata.generateName: an object in Git needs a metadata.name of its own
a.yaml:12: error: wrong-type: Pod: metadata: "text" where a mapping is wanted
a.yaml:16: error: missing-name: Pod: metadata: no metadata.name; if this is no manifest, name the file in .godwitignore
a.yaml:18: error: wrong-type: Pod: apiVersion: 1 where a string is wanted; put it in quotes
a.yaml:22: error: wrong-type: kind: a mapping where a string is wanted
a.yaml is broken
`},
		{"names that no API server takes", `
== a.yaml ==
apiVersion: v1
kind: ConfigMap
metadata: {name: ../x, namespace: A}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:A"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: a/b}
---
apiVersion: image.example.com/v1
kind: Tag
metadata: {name: "Web:v1", namespace: ns}
---
apiVersion: image.example.com/v1
kind: Tag
metadata: {name: "a\x1b[31m", namespace: ns}
---
apiVersion: networking.k8s.io/v1
kind: IPAddress
metadata: {name: "2001:db8::1"}
`, `a.yaml:5#2 ClusterRole system:A
a.yaml:13#4 Tag ns/Web:v1
a.yaml:21#6 IPAddress 2001:db8::1
a.yaml:3: error: invalid-name: ConfigMap A/../x: metadata.name: "../x" is refused by every cluster: ` + subdomain + `
a.yaml:3: error: invalid-name: ConfigMap A/../x: metadata.namespace: "A" is no name of a namespace: ` + label + `
a.yaml:11: error: invalid-name: ClusterRole a/b: metadata.name: "a/b" is refused by every cluster: may not contain '/'
a.yaml:19: error: invalid-name: Tag ns/a` + "\x1b" + `[31m: metadata.name: "a\x1b[31m" is refused by every cluster: may not contain control characters
a.yaml is broken
`},
		{"a list of nothing, and a version that is none", `
== a.yaml ==
apiVersion: v1
kind: List
items: null
---
apiVersion: v1
kind: List
---
apiVersion: policy.karmada.io/v1beta1
kind: OverridePolicy
metadata: {name: a}
`, `a.yaml:8: error: unknown-version: OverridePolicy a: apiVersion: policy.karmada.io has no version v1beta1; write policy.karmada.io/v1alpha1
a.yaml is broken
`},
		{"booleans of YAML 1.1", `
== a.yaml ==
apiVersion: v1
kind: ConfigMap
metadata:
  name: no
  namespace: n
  labels:
    tier: on
    version: 1.5
    active: true
data:
  flag: off
  list: [a]
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData:
  password: 12345
  pin: yes
data: hunter2
`, `a.yaml:4: error: yaml-boolean: ConfigMap: metadata.name: no without quotes means false in YAML 1.1; write "no"
a.yaml:5: error: yaml-boolean: ConfigMap: metadata.namespace: n without quotes means false in YAML 1.1; write "n"
a.yaml:9: error: wrong-type: ConfigMap: metadata.labels.active: true where a string is wanted; put it in quotes
a.yaml:7: error: yaml-boolean: ConfigMap: metadata.labels.tier: on without quotes means true in YAML 1.1; write "on"
a.yaml:8: error: wrong-type: ConfigMap: metadata.labels.version: 1.5 where a string is wanted; put it in quotes
a.yaml:11: error: yaml-boolean: ConfigMap: data.flag: off without quotes means false in YAML 1.1; write "off"
a.yaml:12: error: wrong-type: ConfigMap: data.list: a list where a string is wanted
a.yaml:20: error: wrong-type: Secret s: data: a string where a mapping is wanted
a.yaml:18: error: wrong-type: Secret s: stringData.password: a value that is no string where a string is wanted; put it in quotes
a.yaml:19: error: wrong-type: Secret s: stringData.pin: a value that is no string where a string is wanted; put it in quotes
a.yaml is broken
`},
		{"keys that stand twice", `
== a.yaml ==
apiVersion: v1
kind: A
metadata: {name: a}
spec:
  x: 1
  y: &y {z: 1}
  x: 2
  m: {<<: *y, z: 2}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, name: q}
---
apiVersion: v1
kind: A
metadata: {name: b}
spec:
  y: &y {z: 1}
  m: {<<: *y, z: 2}
---
{apiVersion: v1, kind: A, metadata: {name: c}, data: {1: a, "1": b}}
`, `a.yaml:1#1 A a
a.yaml:10#2 PropagationPolicy q
a.yaml:14#3 A b
a.yaml:7: warning: duplicate-key: A a: spec.x: the key stands twice, first in line 5; remove one
a.yaml:21: error: broken-yaml: two keys of one mapping are the same text, such as 1 and "1"
a.yaml is broken
`},
		{"ignored files", `
== .hidden/a.yaml ==
broken: [
== .godwitignore ==
# comment
charts/
*.tmpl.yaml
!keep.tmpl.yaml
/top.yaml
== charts/x/a.yaml ==
broken: [
== sub/.godwitignore ==
/b.yaml
== sub/b.yaml ==
broken: [
== sub/top.yaml ==
{apiVersion: v1, kind: A, metadata: {name: a}}
== top.yaml ==
broken: [
== a.tmpl.yaml ==
broken: [
== sub/keep.tmpl.yaml ==
{apiVersion: v1, kind: A, metadata: {name: b}}
`, `sub/keep.tmpl.yaml:1#1 A b
sub/top.yaml:1#1 A a
`},
		{"kustomizations own their folders, roots are built", `
== app/base/kustomization.yaml ==
resources: [a.yaml]
== app/base/a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: base}}
== app/base/deeper/b.yaml ==
{apiVersion: v1, kind: A, metadata: {name: not-read}}
== app/prod/kustomization.yml ==
resources: [../base]
components: [../part]
== app/prod/a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: prod}}
== app/prod/b.yaml ==
{apiVersion: v1, kind: A}
== app/part/kustomization.yaml ==
kind: Component
== app/unused/kustomization.yaml ==
kind: Component
resources: [x.yaml]
== app/other.yaml ==
{apiVersion: v1, kind: A, metadata: {name: other}}
== app/prod/own/Kustomization ==
resources: [a.yaml]
== app/prod/own/a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: own}}
`, `app/other.yaml:1#1 A other
app/prod/kustomization.yml#1 A prod
app/prod/kustomization.yml: error: missing-name: A: no metadata.name; if this is no manifest, name the file in .godwitignore
app/prod is broken
app/prod/own/Kustomization#1 A own
app/unused/kustomization.yaml: info: unused-component: nothing refers to this component, so nothing of it is used
`},
		{"a circle of kustomizations is not passed over", `
== a/kustomization.yaml ==
resources: [../b]
== a/a.yaml ==
refused
== b/kustomization.yaml ==
resources: [../a]
`, `a/a.yaml:7: error: kustomize: refused
a/kustomization.yaml: error: kustomize: and more
a is broken
`},
		{"objects one after the other", `
== a.json ==
{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
{"apiVersion": "v1", "kind": "A", "metadata": {"name": "b"}}
`, `a.json:2: error: broken-yaml: did not find expected <document start>; if these are several objects, put a line with --- between them
a.json is broken
`},
		{"what cannot be read may be a secret", `
== a.yaml ==
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {password: *hunter2}
---
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {password: !!int hunter2}
`, `a.yaml:1: error: broken-yaml: unknown anchor referenced
a.yaml:6: error: broken-yaml: cannot decode !!str as a !!int
a.yaml is broken
`},
		{"a list of objects is not passed over, other lists are", `
== a.json ==
[{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}]
== b.yaml ==
- {op: add, path: /kind, value: A}
- {kind: Deployment, name: a}
`, `a.json:1: error: list-of-objects: a list of objects is no manifest; put them into a kind: List, or a line with --- between them
a.json is broken
`},
		{"no encoding but UTF-8", `
== a.yaml ==
` + "\ufeff--- # with a mark\napiVersion: v1\r\nkind: A\r\nmetadata:\r\n  name: a\r\n---\r\napiVersion: v1\rkind: A\rmetadata:\r  name: b\r---\rapiVersion: v1\rkind: A\rmetadata: {name: c}" + `
== b.yaml ==
` + "\xff\xfea\x00" + `
== c.yaml ==
` + "a: \x00" + `
`, `a.yaml:2#1 A a
a.yaml:7#2 A b
a.yaml:12#3 A c
b.yaml:1: error: broken-yaml: the file is in UTF-16; save it as UTF-8
b.yaml is broken
c.yaml:1: error: broken-yaml: control characters are not allowed
c.yaml is broken
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, list(Read(source(tc.tree), Options{Build: fakeBuild}))); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	object := "{apiVersion: v1, kind: A, metadata: {name: a}}\n"
	bomb := "apiVersion: v1\nkind: A\nmetadata: {name: a}\na0: &a0 x\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	big := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: &x " + strings.Repeat("x", 1<<20) + "\ny: [*x, *x, *x, *x, *x]\n"
	for _, tc := range []struct {
		name, content string
		options       Options
		want          string
	}{
		{"bytes of a file", "#" + strings.Repeat("x", 5<<20), Options{}, "a.yaml: error: too-large: too large: more than 4194304 bytes; split the file, or name it in .godwitignore\na.yaml is broken\n"},
		{"an alias bomb", bomb, Options{}, "a.yaml:1: error: broken-yaml: document contains excessive aliasing\na.yaml is broken\n"},
		{"aliases of long text", big, Options{}, "a.yaml:1: error: too-large: A a: more than 256 levels deep, or more than 4194304 bytes with its aliases written out\na.yaml is broken\n"},
		{"what contains itself", "apiVersion: v1\nkind: A\nx: &x [*x]", Options{}, "a.yaml:1: error: broken-yaml: anchor value contains itself\na.yaml is broken\n"},
		{"levels of the parser", strings.Repeat("[", 10_001), Options{}, "a.yaml:1: error: broken-yaml: exceeded max depth of 10000\na.yaml is broken\n"},
		{"levels", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 256) + strings.Repeat("]", 256), Options{}, "a.yaml:1: error: too-large: A a: more than 256 levels deep, or more than 4194304 bytes with its aliases written out\na.yaml is broken\n"},
		{"levels, just", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 255) + strings.Repeat("]", 255), Options{}, "a.yaml:1#1 A a\n"},
		{"objects", object + "---\n" + object + "---\n" + object, Options{MaxObjects: 2}, "a.yaml: error: too-many-objects: more than 2 objects; nothing from here on is read\na.yaml is broken\nb.yaml is broken\n"},
		{"bytes of all", "#" + strings.Repeat("#", len(object)) + "\n" + object, Options{MaxTotal: 142}, "a.yaml:2#1 A a\nb.yaml: error: too-large: more than 142 bytes of manifests; nothing from here on is read. Split the source, or name what is no manifest in .godwitignore\nb.yaml is broken\n"},
		{"bytes of all objects", "{apiVersion: v1, kind: A, metadata: {name: a}, x: &x " + strings.Repeat("x", 100) + ", y: [*x, *x, *x, *x]}", Options{MaxTotal: 700}, "a.yaml:1#1 A a\nb.yaml:1#1 A a\n"},
		{"bytes of all objects, aliases written out", "{apiVersion: v1, kind: A, metadata: {name: a}, x: &x " + strings.Repeat("x", 100) + ", y: [*x, *x, *x, *x, *x, *x, *x]}", Options{MaxTotal: 700},
			"a.yaml: error: too-large: more than 700 bytes of manifests; nothing from here on is read. Split the source, or name what is no manifest in .godwitignore\na.yaml is broken\nb.yaml is broken\n"},
		{"bytes of all, just", object, Options{MaxTotal: 2 * len(object)}, "a.yaml:1#1 A a\nb.yaml:1#1 A a\n"},
		{"objects, just", object, Options{MaxObjects: 2}, "a.yaml:1#1 A a\nb.yaml:1#1 A a\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := fstest.MapFS{"a.yaml": {Data: []byte(tc.content)}}
			if tc.options.MaxObjects > 0 || tc.options.MaxTotal > 0 {
				tree["b.yaml"] = &fstest.MapFile{Data: []byte(object)}
			}
			if diff := cmp.Diff(tc.want, list(Read(tree, tc.options))); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
		})
	}
}

// troubled refuses to open some of the files, as a source does with a link that leads out.
type troubled struct {
	fs.FS
	trouble map[string]error
}

func (t troubled) Open(name string) (fs.File, error) {
	if err := t.trouble[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return t.FS.Open(name)
}

func TestTroubleWithOnePathIsAFinding(t *testing.T) {
	tree := troubled{source(`
== a.yaml ==
x
== b/c.yaml ==
x
== d.yaml ==
{apiVersion: v1, kind: A, metadata: {name: a}}
`), map[string]error{"a.yaml": errors.New("the link leads out of the repository"), "b": errors.New("gone")}}
	want := `a.yaml: error: unreadable: open: the link leads out of the repository
a.yaml is broken
b: error: unreadable: open: gone
b is broken
d.yaml:1#1 A a
`
	if diff := cmp.Diff(want, list(Read(tree, Options{}))); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
}

func TestAPanicIsOneUnitsTrouble(t *testing.T) {
	tree := source("== a/kustomization.yaml ==\nresources: []\n== b.yaml ==\n{apiVersion: v1, kind: A, metadata: {name: a}}\n")
	panics := func(fs.FS, string) ([]api.Object, []string, error) { panic("oh") }
	want := `a: error: unreadable: reading it went wrong inside godwit: oh
a is broken
b.yaml:1#1 A a
`
	if diff := cmp.Diff(want, list(Read(tree, Options{Build: panics}))); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
}

func TestWithoutABuilderKustomizationsAreRefused(t *testing.T) {
	tree := source("== a/kustomization.yaml ==\nresources: [b.yaml]\n== a/b.yaml ==\n{apiVersion: v1, kind: A, metadata: {name: a}}\n")
	want := "a/kustomization.yaml: error: kustomize: kustomizations are not built here\na is broken\n"
	if got := list(Read(tree, Options{})); got != want {
		t.Errorf("Read gives\n%s\nwant\n%s", got, want)
	}
}

func TestLinksToFoldersAreNotFollowed(t *testing.T) {
	tree := source("== a/b.yaml ==\n{apiVersion: v1, kind: A, metadata: {name: a}}\n")
	tree["link"] = &fstest.MapFile{Data: []byte("a"), Mode: fs.ModeSymlink}
	tree["out"] = &fstest.MapFile{Data: []byte("../x"), Mode: fs.ModeSymlink}
	want := `a/b.yaml:1#1 A a
link: info: link: a link to a folder is not followed; the folder is read where it is
out: error: unreadable: `
	if got := list(Read(tree, Options{})); !strings.HasPrefix(got, want) {
		t.Errorf("Read gives\n%s\nwant\n%s", got, want)
	}
}

// counting counts the files that are read, and knows hashes.
type counting struct {
	fstest.MapFS
	reads map[string]int
}

func (c counting) Open(name string) (fs.File, error) {
	c.reads[name]++
	return c.MapFS.Open(name)
}

func (c counting) Hash(name string) (string, error) {
	var all strings.Builder
	for _, n := range slices.Sorted(maps.Keys(c.MapFS)) {
		if n == name || name == "." || strings.HasPrefix(n, name+"/") {
			fmt.Fprintf(&all, "%s %q\n", n, c.MapFS[n].Data)
		}
	}
	return fmt.Sprintf("%x", canonical.Blob([]byte(all.String()))), nil
}

func TestTheCacheGivesWhatReadingGives(t *testing.T) {
	files := source(`
== a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: a}}
== b.yaml ==
{apiVersion: v1, kind: A, metadata: {name: b}}
---
kind: A
== k/kustomization.yaml ==
resources: [a.yaml]
== k/a.yaml ==
{apiVersion: v1, kind: A, metadata: {name: k}}
`)
	for _, hashed := range []bool{false, true} {
		builds := 0
		build := func(fsys fs.FS, root string) ([]api.Object, []string, error) {
			builds++
			return fakeBuild(fsys, root)
		}
		tree := counting{maps.Clone(files), map[string]int{}}
		var fsys fs.FS = tree
		if !hashed {
			fsys = struct{ fs.FS }{tree}
		}
		var cache Cache
		read := func() []Unit { return Read(fsys, Options{Build: build, Cache: &cache}) }
		check := func(what string, wantBuilds int, got []Unit) {
			t.Helper()
			if diff := cmp.Diff(list(Read(fsys, Options{Build: fakeBuild})), list(got)); diff != "" {
				t.Errorf("hashed %v, %s (-without +with a cache):\n%s", hashed, what, diff)
			}
			if builds != wantBuilds {
				t.Errorf("hashed %v, %s: %d builds, want %d", hashed, what, builds, wantBuilds)
			}
		}
		first := read()
		check("first", 1, first)

		clear(tree.reads)
		second := read()
		if hashed && (tree.reads["a.yaml"] > 0 || tree.reads["k/a.yaml"] > 0) {
			t.Errorf("unchanged files are read again: %v", tree.reads)
		}
		check("unchanged", 1, second)
		if first[0].Objects[0] != second[0].Objects[0] {
			t.Errorf("hashed %v: an unchanged object is another one", hashed)
		}

		tree.MapFS["a.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: A, metadata: {name: changed}}")}
		tree.MapFS["k/b.yaml"] = &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: A, metadata: {name: added}}")}
		check("changed", 2, read())
		delete(tree.MapFS, "b.yaml")
		check("removed", 2, read())
		tree.MapFS["k/a.yaml"] = &fstest.MapFile{Data: []byte("refused")}
		check("refused", 3, read())
		check("still refused", 4, read())
	}
}

func TestLines(t *testing.T) {
	units := Read(source(`
== a.yaml ==
a: 1
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: A
  metadata:
    name: a
  spec:
    base: &base
      deep:
        er: 1
    ports:
    - name: x
    -
      name: y
    merged:
      <<: *base
      own: 1
    alias: *base
    "quoted.key/x": 1
`), Options{})
	o := units[0].Objects[0]
	for _, tc := range []struct {
		path string
		want int
	}{
		{"", 6}, {"kind", 7}, {"metadata name", 9}, {"spec ports 1 name", 17}, {"spec ports 1", 17}, {"spec ports 0", 15},
		{"spec ports 7 name", 14}, {"spec nothing here", 10}, {"nothing", 6}, {"spec merged deep er", 13}, {"spec merged own", 20},
		{"spec alias deep", 12}, {"spec quoted.key/x", 22}, {"kind x", 7},
	} {
		if got := o.Line(strings.Fields(tc.path)...); got != tc.want {
			t.Errorf("Line(%s) = %d, want %d", tc.path, got, tc.want)
		}
	}
	built := &Object{Origin: Origin{File: "kustomization.yaml"}}
	if got := built.Line("spec"); got != 0 {
		t.Errorf("Line of a built object = %d, want 0", got)
	}
}

func TestFindingSaysWhereAndWhat(t *testing.T) {
	o := Read(source("== a.yaml ==\napiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels:\n    x/y: z\n"), Options{})[0].Objects[0]
	got := o.Finding(render.Warning, "some-code", []string{"metadata", "labels", "x/y"}, "%d reasons", 2)
	want := render.Finding{Severity: render.Warning, Code: "some-code", File: "a.yaml", Line: 6, Object: "A a", Message: "metadata.labels[x/y]: 2 reasons"}
	if got != want {
		t.Errorf("Finding = %v, want %v", got, want)
	}
}

// thousand is a tree of a thousand Deployments with a Service each, and the bytes in it.
func thousand() (tree fstest.MapFS, size int64) {
	tree = fstest.MapFS{}
	for i := range 1000 {
		data := strings.ReplaceAll(template, "NAME", fmt.Sprintf("app-%d", i))
		tree[fmt.Sprintf("team-%d/app-%d.yaml", i%20, i)] = &fstest.MapFile{Data: []byte(data)}
		size += int64(len(data))
	}
	return tree, size
}

func BenchmarkRead1000(b *testing.B) {
	tree, size := thousand()
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for b.Loop() {
			if n := len(Read(tree, Options{})); n != 1000 {
				b.Fatalf("%d units", n)
			}
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		b.ReportAllocs()
		var cache Cache
		Read(tree, Options{Cache: &cache})
		for b.Loop() {
			Read(tree, Options{Cache: &cache})
		}
	})
}

const template = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  namespace: shop
  labels:
    app.kubernetes.io/name: NAME
    team: checkout
spec:
  replicas: 4
  selector:
    matchLabels:
      app.kubernetes.io/name: NAME
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app.kubernetes.io/name: NAME
        team: checkout
    spec:
      serviceAccountName: NAME
      containers:
      - name: app
        image: registry.example.com/shop/NAME:1.27.3
        args: ["--port=8080", "--log-level=info"]
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: DATABASE_URL
          value: postgres://db.shop.svc:5432/shop
        resources:
          requests:
            cpu: 250m
            memory: 256Mi
        readinessProbe:
          httpGet:
            path: /ready
            port: http
          periodSeconds: 5
        volumeMounts:
        - name: config
          mountPath: /etc/app
      volumes:
      - name: config
        configMap:
          name: NAME-config
`

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		template, "a: &a [*a]", "---\n---\n...\n%YAML 1.1\n---\na: 1", "\ufeff--- x\r---\u0085--- y\u2028...", "{\"a\": 1}\n{}", "kind: List\napiVersion: v1\nitems: [1, {kind: A}]",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {a: on}}\nx: 1\nx: 2", "<<: {kind: A, apiVersion: v1}\n<<: [{metadata: {name: x}}]", "? {a: b}\n: c", "!!binary a", "1: a\n\"1\": b",
	} {
		f.Add([]byte(s), "*.yaml")
	}
	f.Fuzz(func(t *testing.T, data []byte, ignore string) {
		tree := fstest.MapFS{"a.yaml": {Data: data}, "b/c.yaml": {Data: data}, "b/" + ignoreFile: {Data: []byte(ignore)}}
		units := Read(tree, Options{})
		if diff := cmp.Diff(list(units), list(Read(tree, Options{}))); diff != "" {
			t.Errorf("Read twice:\n%s", diff)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 1
		for _, u := range units {
			for _, o := range u.Objects {
				if got := api.IDOf(o.Content); got != o.ID || o.Name == "" || o.Kind == "" || o.Version == "" {
					t.Errorf("object %+v is %+v", o.ID, got)
				}
				if line := o.Line("metadata", "name"); line < 1 || line > lines {
					t.Errorf("%s has its name in line %d of %d", o.ID, line, lines)
				}
			}
			for _, f := range u.Findings {
				if f.Line < 0 || f.Line > lines+1 || f.Message == "" || strings.Contains(f.Message, "inside godwit") {
					t.Errorf("finding %v in %d lines", f, lines)
				}
			}
		}
		Settle(units, NewScope(nil, nil), "default")
	})
}

func TestASlipInAKindThatDecidesIsNoRemoval(t *testing.T) {
	units := Read(fstest.MapFS{"p.yaml": {Data: []byte("apiVersion: policy.karmada.io/v1alpha1\nkind: OveridePolicy\nmetadata: {name: tag}\n")}}, Options{})
	if len(units) != 1 || !units[0].Broken || len(units[0].Findings) != 1 {
		t.Fatalf("units %+v, want one that is broken, with a finding", units)
	}
	f := units[0].Findings[0]
	if f.Code != "unknown-kind" || f.Line != 2 || !strings.Contains(f.Message, "OverridePolicy") {
		t.Errorf("finding %s, want unknown-kind at line 2 that names OverridePolicy", f)
	}
}

// TestParseIsReadOfOneFile: a text gives the same unit as a file of a tree, but for its hash.
func TestParseIsReadOfOneFile(t *testing.T) {
	for _, text := range []string{
		"", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Pod\n---\nkind: [\n", "\xff\xfea",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a}}, 1]\n",
	} {
		want := Read(fstest.MapFS{"a.yaml": {Data: []byte(text)}}, Options{})[0]
		got := Parse("a.yaml", []byte(text), Options{})
		want.Hash = ""
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Object{})); diff != "" {
			t.Errorf("Parse(%q): %s", text, diff)
		}
	}
	u := Parse("<stdin>", []byte("apiVersion: v1\n"), Options{MaxBytes: 5})
	if !u.Broken || len(u.Findings) != 1 || u.Findings[0].Code != "too-large" {
		t.Errorf("a text over the limit gives %+v", u)
	}
}

func TestManyFindingsOfAFileAreCounted(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + strings.Repeat("  a: b\n", 1000)
	units := Read(fstest.MapFS{"a.yaml": {Data: []byte(text)}, "b.yaml": {Data: []byte(text)}}, Options{})
	for _, u := range units {
		last := u.Findings[len(u.Findings)-1]
		if len(u.Findings) != render.MostFindings+1 || last != render.More(u.Path, "duplicate-key", render.Warning, 999-render.MostFindings) || u.Broken || len(u.Objects) != 1 {
			t.Errorf("%s: %d findings, the last is %s, broken %t, %d objects", u.Path, len(u.Findings), last, u.Broken, len(u.Objects))
		}
	}
}

// opened is a file system that knows which files were opened.
type opened struct {
	fstest.MapFS
	names []string
}

func (o *opened) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".yaml") {
		o.names = append(o.names, name)
	}
	return o.MapFS.Open(name)
}

func (o *opened) Hash(name string) (string, error) {
	f, ok := o.MapFS[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return fmt.Sprintf("%x", canonical.Blob(f.Data)), nil
}

// What is too much is not read first and given up then: a million objects would be in memory by that time.
func TestWhatIsTooMuchIsNotRead(t *testing.T) {
	object := "{apiVersion: v1, kind: A, metadata: {name: a}}\n"
	for name, options := range map[string]Options{"objects": {MaxObjects: 2}, "bytes": {MaxTotal: 3*len(object) - 1}} {
		tree := &opened{MapFS: fstest.MapFS{}}
		for i := range 9 {
			tree.MapFS[fmt.Sprintf("f%d.yaml", i)] = &fstest.MapFile{Data: []byte(object)}
		}
		options.Cache = &Cache{}
		first := list(Read(tree, options))
		if got := strings.Join(tree.names, " "); got != "f0.yaml f1.yaml f2.yaml" {
			t.Errorf("%s: opened %s", name, got)
		}
		if again := list(Read(tree, options)); again != first {
			t.Errorf("%s: with a cache it is\n%s, without\n%s", name, again, first)
		}
		// When there is less, all of it is read.
		for i := range 7 {
			delete(tree.MapFS, fmt.Sprintf("f%d.yaml", i))
		}
		if got := list(Read(tree, options)); got != "f7.yaml:1#1 A a\nf8.yaml:1#1 A a\n" {
			t.Errorf("%s: later it is\n%s", name, got)
		}
		tree.MapFS = fstest.MapFS{"f2.yaml": &fstest.MapFile{Data: []byte(object)}}
		if got := list(Read(tree, options)); got != "f2.yaml:1#1 A a\n" {
			t.Errorf("%s: alone it is\n%s", name, got)
		}
	}
}

// Whatever a file holds, reading it takes memory in proportion to its bytes, and so time.
func TestHostileYAMLCostsLittle(t *testing.T) {
	const head = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"
	for _, tc := range []struct{ name, head, again, end string }{
		{"documents", "", "---\n", ""},
		{"equal keys", head, "k: 1\n", ""},
		{"keys without a value", head, "? ", ""},
		{"a list", head + "x: [", "1,", "]"},
		{"lists", head + "x: [", "[],", "]"},
		{"mappings", head + "x: [", "{a: 1},", "]"},
		{"open lists", head + "x: ", "[", ""},
		{"lists in lists", head + "x:\n", "- ", ""},
		{"aliases", head + "x: &x 1\ny: [", "*x,", "]"},
		{"merges", head + "x: &x {a: 1, b: 2}\ny:\n", "- {<<: *x}\n", ""},
		{"an open quote", head + "x: \"", "a\n", ""},
		{"open quotes", head, "x: \"\n", ""},
		{"escapes", head + "x: \"", "\\u0041", "\""},
		{"folded lines", head + "x: >\n", "  a\n\n", ""},
		{"a long number", head + "x: 1e", "9", ""},
		{"colons", head, ":", ""},
		{"carriage returns", head + "x: ", "\r", ""},
		{"objects", "apiVersion: v1\nkind: List\nitems:\n", "- {apiVersion: v1, kind: A, metadata: {name: a}}\n", ""},
	} {
		cost := func(size int) int {
			text := []byte(tc.head + strings.Repeat(tc.again, size/len(tc.again)) + tc.end)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Parse("a.yaml", text, Options{})
			runtime.ReadMemStats(&after)
			return int(after.TotalAlloc - before.TotalAlloc)
		}
		const size = 1 << 15
		if one, four := cost(size), cost(4*size); four > 10*one+(1<<20) || four > 4*size*1500 {
			t.Errorf("%s: %d bytes cost %d, and four times as many %d", tc.name, size, one, four)
		}
	}
}

// What kustomizations build counts as well: they repeat what is in few files.
func TestWhatIsBuiltCounts(t *testing.T) {
	tree := fstest.MapFS{"a/kustomization.yaml": {Data: []byte("x")}, "b/kustomization.yaml": {Data: []byte("x")}, "c.yaml": {Data: []byte("{apiVersion: v1, kind: A, metadata: {name: a}}")}}
	options := Options{Cache: &Cache{}, MaxTotal: 1000, Build: func(_ fs.FS, root string) ([]api.Object, []string, error) {
		return []api.Object{{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": root}, "x": strings.Repeat("x", 600)}}, []string{root}, nil
	}}
	for _, how := range []string{"first", "with a cache"} {
		if got := list(Read(tree, options)); !strings.Contains(got, "b: error: too-large: more than 1000 bytes of manifests") || !strings.Contains(got, "c.yaml is broken") {
			t.Errorf("%s:\n%s", how, got)
		}
	}
}
