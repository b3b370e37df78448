package store

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// FuzzApply builds a tree in two steps from any paths, and the same tree at once from what must be left.
func FuzzApply(f *testing.F) {
	f.Add("a\na/b\na-b\na.b", "a\nc")
	f.Add("a/b/c\na/b/d\nx", "a/b/c\na/b/d")
	f.Fuzz(func(t *testing.T, put, remove string) {
		objects := &pack.Objects{}
		files := map[string]pack.Entry{}
		for path := range strings.SplitSeq(put, "\n") {
			files[path] = pack.Entry{Mode: pack.ModeFile, Hash: pack.Sum(pack.Blob, []byte(path))}
		}
		build := func(d *dir, files map[string]pack.Entry) (*dir, error) {
			var edits []edit
			for path, e := range files {
				edits = append(edits, edit{path, e})
			}
			sortEdits(edits)
			return newBuilder(objects).apply(d, 0, edits)
		}
		whole, err := build(emptyDir(objects), files)
		if err != nil {
			return // such a tree cannot be
		}
		gone := map[string]pack.Entry{}
		for path := range strings.SplitSeq(remove, "\n") {
			gone[path] = pack.Entry{}
		}
		rest, err := build(whole, gone)
		if err != nil {
			t.Fatal(err)
		}
		left := maps.Clone(files)
		maps.DeleteFunc(left, func(path string, _ pack.Entry) bool { _, removed := gone[path]; return removed })
		want, err := build(emptyDir(objects), left)
		if err != nil || rest.hash != want.hash {
			t.Errorf("%q without %q is %s, want %s, %v", put, remove, rest.hash, want.hash, err)
		}
		var got []string
		if err := diff(nil, rest, "", func(path string, _, n *node) error {
			if n.sub == nil {
				got = append(got, path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(left)); !slices.Equal(got, want) {
			t.Errorf("files %q, want %q", got, want)
		}
		for path, e := range left {
			if n, err := rest.lookup(path); err != nil || n == nil || n.Hash != e.Hash {
				t.Errorf("lookup(%q) = %v, %v", path, n, err)
			}
		}
	})
}
