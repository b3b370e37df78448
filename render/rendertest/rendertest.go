package rendertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

var update = flag.Bool("update", false, "rewrite golden files instead of comparing with them")

// Source makes a tree of a text in which each file begins with a line "== name ==".
func Source(text string) fstest.MapFS {
	tree := fstest.MapFS{}
	for part := range strings.SplitSeq("\n"+text, "\n== ") {
		if name, content, ok := strings.Cut(part, " ==\n"); ok {
			tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return tree
}

// Objects reads the documents of a YAML text, with namespaces filled in, ordered by ID. Anything
// wrong with them fails the test.
func Objects(t testing.TB, text string) []*manifest.Object {
	t.Helper()
	units := manifest.Read(fstest.MapFS{"test.yaml": {Data: []byte(text)}}, manifest.Options{})
	var all []*manifest.Object
	for _, u := range units {
		all = append(all, u.Objects...)
		fail(t, u.Findings)
	}
	objects, _, findings := manifest.Settle(units, manifest.NewScope(all, nil), "default")
	fail(t, findings)
	return objects
}

func fail(t testing.TB, findings []render.Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
	if len(findings) > 0 {
		t.FailNow()
	}
}

// Object is the only object of a YAML text.
func Object(t testing.TB, text string) *manifest.Object {
	t.Helper()
	objects := Objects(t, text)
	if len(objects) != 1 {
		t.Fatalf("%d objects, want one, in:\n%s", len(objects), text)
	}
	return objects[0]
}

// Decode is the only object of a YAML text, in its Go type.
func Decode[T any](t testing.TB, text string) *T {
	t.Helper()
	v, findings := manifest.Decode[T](Object(t, text))
	fail(t, findings)
	return v
}

// YAML is the objects as one text of many documents.
func YAML(objects ...api.Object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "---\n%s", canonical.YAML(o))
	}
	return b.String()
}

// Golden compares got with the file testdata/name of the package under test, or with -update writes it there.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update makes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
