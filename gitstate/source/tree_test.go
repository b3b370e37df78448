package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSource(t testing.TB, url string, change func(*source.Options)) *source.Source {
	t.Helper()
	r, err := remote.New(remote.Options{URL: url})
	must(t, err)
	o := source.Options{Remote: r, Dir: t.TempDir()}
	if change != nil {
		change(&o)
	}
	s, err := source.Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func fetch(t testing.TB, s interface {
	Fetch(ctx testContext) (gitstate.Snapshot, error)
}) gitstate.Snapshot {
	t.Helper()
	snapshot, err := s.Fetch(t.Context())
	must(t, err)
	return snapshot
}

// snapshotOf is a tree of a repository as a source shows it.
func snapshotOf(t testing.TB, repo *gittest.Repo) gitstate.Snapshot {
	t.Helper()
	return fetch(t, openSource(t, repo.Dir, nil))
}

func treeOf(t testing.TB, repo *gittest.Repo) *source.Tree {
	t.Helper()
	return snapshotOf(t, repo).FS.(*source.Tree)
}

// some is a tree with everything that is allowed in it.
var some = map[string]string{
	"a.yaml":        "a: 1\n",
	"a/b.yaml":      "b: 2\n",
	"a/deep/c.yaml": "c: 3\n",
	"a.b/d":         "d",
	"empty":         " ",
	"link@":         "a/b.yaml",
	"folder@":       "a/deep",
	"a/up@":         "../a.yaml",
	"a/chain@":      "../folder/c.yaml",
	"loop@":         "a/../.",
}

func TestTreesAreFileSystems(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", some, "first")
	names := []string{"a.yaml", "a/b.yaml", "a/deep/c.yaml", "a.b/d", "empty", "link", "folder", "a/up", "a/chain", "loop"}
	for name, snapshot := range map[string]gitstate.Snapshot{"commit": snapshotOf(t, repo), "folder": fetch(t, folderOf(t, some))} {
		if err := fstest.TestFS(snapshot.FS, names...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for name, want := range map[string]string{
			"a/b.yaml": "b: 2\n", "link": "b: 2\n", "folder/c.yaml": "c: 3\n", "a/up": "a: 1\n", "a/chain": "c: 3\n", "loop/loop/a.yaml": "a: 1\n",
		} {
			if got, err := fs.ReadFile(snapshot.FS, name); string(got) != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
		}
		for name, want := range map[string]error{
			"none": fs.ErrNotExist, "a.yaml/x": fs.ErrNotExist, "../a": fs.ErrInvalid, "/a": fs.ErrInvalid, "a//b": fs.ErrInvalid, "": fs.ErrInvalid,
		} {
			if _, err := fs.Stat(snapshot.FS, name); !errors.Is(err, want) {
				t.Errorf("Stat(%q): %v, want %v", name, err, want)
			}
		}
		if problems, err := snapshot.FS.(*source.Tree).Problems(); len(problems) > 0 || err != nil {
			t.Errorf("Problems() = %v, %v, want none", problems, err)
		}
	}
}

func TestLinksNeverLeadOutside(t *testing.T) {
	files := map[string]string{"a/b": "b", "outside": "secret"}
	links := map[string]error{ // below a, which is the source's path
		"../outside":          source.ErrOutside,
		"../../x":             source.ErrOutside,
		"/etc/passwd":         source.ErrOutside,
		"/":                   source.ErrOutside,
		"..":                  source.ErrOutside,
		"./../outside":        source.ErrOutside,
		"none":                fs.ErrNotExist,
		"none/../b":           fs.ErrNotExist,
		"b":                   nil,
		"./././b":             nil,
		"nowhere\x00/../../x": fs.ErrNotExist,
		"b/.":                 fs.ErrNotExist,
		"b/../b":              fs.ErrNotExist,
		" ":                   fs.ErrNotExist,
	}
	i := 0
	want := map[string]error{}
	for target, err := range links {
		name := fmt.Sprintf("l%d", i)
		i++
		files["a/"+name+"@"] = target
		want[name] = err
	}
	files["a/x@"], files["a/y@"] = "y", "x"
	files["a/self@"] = "self/self"
	repo := gittest.NewRepo(t)
	repo.Commit("main", files, "first")
	tree := fetch(t, openSource(t, repo.Dir, func(o *source.Options) { o.Path = "a" })).FS
	for name, want := range want {
		for what, err := range map[string]error{
			"Stat":     second(fs.Stat(tree, name)),
			"ReadFile": second(fs.ReadFile(tree, name)),
			"Open":     second(tree.Open(name)),
			"Hash":     second(tree.(gitstate.HashFS).Hash(name)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s of a link to %q: %v, want %v", what, files["a/"+name+"@"], err, want)
			}
		}
	}
	for _, name := range []string{"x", "y", "self"} {
		if _, err := tree.Open(name); err == nil || !strings.Contains(err.Error(), "too many links") {
			t.Errorf("Open(%s): %v", name, err)
		}
	}
	problems, err := tree.(*source.Tree).Problems()
	must(t, err)
	outside := 0
	for _, p := range problems {
		if !errors.Is(p.Err, source.ErrOutside) || !errors.Is(want[p.Path], source.ErrOutside) {
			t.Errorf("unexpected problem %v", p)
		}
		outside++
	}
	if outside != 6 {
		t.Errorf("%d links lead outside, want 6: %v", outside, problems)
	}
}

func second[T any](_ T, err error) error { return err }

func TestHostileTreesShowNothingHostile(t *testing.T) {
	repo := gittest.NewRepo(t)
	blob := repo.Object(plumbing.BlobObject, []byte("x"))
	file := func(name string) object.TreeEntry {
		return object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: blob}
	}
	folder := func(name string, hash plumbing.Hash) object.TreeEntry {
		return object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: hash}
	}
	inner := repo.Tree(file("config"))
	root := repo.Tree(
		folder("..", inner), folder(".", inner), folder(".GIT", inner), folder(".git", inner), folder("GIT~1", inner),
		file("../x"), file("a/b"), file("good"), file("good"), file("Readme"), file("README"), file("straße"), file("STRASSE"),
		file("K"), file("\u212a"), // the Kelvin sign
		object.TreeEntry{Name: "module", Mode: filemode.Submodule, Hash: blob},
		folder("sub", repo.Tree(folder(".Git", inner), file("fine"))),
		object.TreeEntry{Name: "shared", Mode: filemode.FileMode(0o100664), Hash: blob},
	)
	repo.CommitTree("main", root, "hostile")
	tree := treeOf(t, repo)
	if err := fstest.TestFS(tree, "good", "sub/fine", "Readme", "README", "shared"); err != nil {
		t.Error(err)
	}
	var names []string
	must(t, fs.WalkDir(tree, ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	want := []string{".", "K", "README", "Readme", "STRASSE", "good", "shared", "straße", "sub", "sub/fine", "\u212a"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names:\n%s", diff)
	}
	for _, name := range []string{".git/config", "sub/.Git/config", "GIT~1", "module"} {
		if _, err := tree.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%s): %v, want ErrNotExist", name, err)
		}
	}
	problems, err := tree.Problems()
	must(t, err)
	got := map[string]string{}
	for _, p := range problems {
		for name, kind := range map[string]error{"name": source.ErrBadName, "case": source.ErrCaseClash, "module": source.ErrSubmodule} {
			if errors.Is(p.Err, kind) {
				got[p.Path] = name
			}
		}
	}
	wantProblems := map[string]string{
		`".."`: "name", `"."`: "name", `".GIT"`: "name", `".git"`: "name", `"GIT~1"`: "name", `"../x"`: "name", `"a/b"`: "name", "good": "name",
		`sub/".Git"`: "name", "Readme": "case", "\u212a": "case", "module": "module",
	}
	if diff := cmp.Diff(wantProblems, got); diff != "" {
		t.Errorf("problems:\n%s", diff)
	}
}

func TestTreesWithinThemselvesEnd(t *testing.T) {
	repo := gittest.NewRepo(t)
	dirs := func(names string, hashes ...plumbing.Hash) plumbing.Hash {
		var entries []object.TreeEntry
		for i, name := range strings.Split(names, "") {
			entries = append(entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: hashes[i%len(hashes)]})
		}
		return repo.Tree(entries...)
	}
	leaf := repo.Tree(object.TreeEntry{Name: "f", Mode: filemode.Regular, Hash: repo.Object(plumbing.BlobObject, []byte("x"))})
	bad, bomb := dirs("\\", repo.Tree(object.TreeEntry{Name: "..", Mode: filemode.Dir, Hash: leaf})), leaf
	for range 4 {
		bad = dirs("0123456789", bad)
	}
	repo.CommitTree("main", bad, "10,000 problems")
	tree := treeOf(t, repo)
	problems, err := tree.Problems()
	if len(problems) != 1000 || err != nil {
		t.Errorf("%d problems, %v, want 1000", len(problems), err)
	}
	if _, err := tree.Hash("."); err != nil {
		t.Error(err)
	}
	for range 30 {
		bomb = dirs("0123456789", bomb)
	}
	repo.CommitTree("main", bomb, "10^30 files")
	if _, err := openSource(t, repo.Dir, nil).Fetch(t.Context()); !errors.Is(err, source.ErrTooMany) {
		t.Errorf("Fetch: %v, want ErrTooMany", err)
	}
}

func TestDeepTreesEnd(t *testing.T) {
	repo := gittest.NewRepo(t)
	at := repo.Tree()
	for range 300 {
		at = repo.Tree(object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: at})
	}
	repo.CommitTree("main", at, "deep")
	tree := treeOf(t, repo)
	if _, err := tree.Open(strings.Repeat("d/", 200) + "d"); !errors.Is(err, source.ErrTooDeep) {
		t.Errorf("Open: %v, want ErrTooDeep", err)
	}
	problems, err := tree.Problems()
	if len(problems) != 1 || !errors.Is(problems[0].Err, source.ErrTooDeep) || err != nil {
		t.Errorf("Problems() = %v, %v, want one ErrTooDeep", problems, err)
	}
}

func TestLargeFilesAreRefused(t *testing.T) {
	repo := gittest.NewRepo(t)
	files := map[string]string{"fits": strings.Repeat("x", 100), "large": strings.Repeat("x", 101)}
	repo.Commit("main", files, "first")
	s := openSource(t, repo.Dir, func(o *source.Options) { o.MaxFile = 100 })
	tree := fetch(t, s).FS
	if _, err := fs.ReadFile(tree, "fits"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"ReadFile": second(fs.ReadFile(tree, "large")), "Open": second(tree.Open("large"))} {
		if !errors.Is(err, source.ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", what, err)
		}
	}
	if info, err := fs.Stat(tree, "large"); err != nil || info.Size() != 101 {
		t.Errorf("Stat: %v, %v, want 101 bytes", info, err)
	}
}

// Equal hashes mean equal content: the parse of a folder is kept under its hash.
func TestHashChangesWithWhatIsShown(t *testing.T) {
	repo := gittest.NewRepo(t)
	s := openSource(t, repo.Dir, nil)
	hashes := func(change map[string]string) map[string]string {
		repo.Commit("main", change, "change")
		tree := fetch(t, s).FS.(gitstate.HashFS)
		got := map[string]string{}
		for _, name := range []string{".", "a", "b", "b/link", "c", "c/f", "common/f"} {
			hash, err := tree.Hash(name)
			must(t, err)
			got[name] = hash
		}
		return got
	}
	changed := func(before, after map[string]string) []string {
		var names []string
		for _, name := range []string{".", "a", "b", "b/link", "c", "c/f", "common/f"} {
			if before[name] != after[name] {
				names = append(names, name)
			}
		}
		return names
	}
	one := hashes(map[string]string{"a/f": "1", "b/link@": "../common/f", "c/f": "1", "common/f": "1"})
	if one["a"] != one["c"] || one["b/link"] != one["common/f"] {
		t.Error("equal content has different hashes")
	}
	two := hashes(map[string]string{"common/f": "2"})
	if diff := cmp.Diff([]string{".", "b", "b/link", "common/f"}, changed(one, two)); diff != "" {
		t.Errorf("after a change behind a link:\n%s", diff)
	}
	three := hashes(map[string]string{"a/f": "3"})
	if diff := cmp.Diff([]string{".", "a", "b"}, changed(two, three)); diff != "" {
		t.Errorf("after a change of a:\n%s", diff)
	}
}

func TestConcurrentReaders(t *testing.T) {
	repo := gittest.NewRepo(t)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("d%d/f", i)] = strings.Repeat(fmt.Sprint(i), 1000)
	}
	repo.Commit("main", files, "first")
	s := openSource(t, repo.Dir, nil)
	first := fetch(t, s)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for name, want := range files {
				if got, err := fs.ReadFile(first.FS, name); string(got) != want || err != nil {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
		})
	}
	for i := range 5 {
		repo.Commit("main", map[string]string{"d0/f": fmt.Sprint(i)}, "change")
		fetch(t, s)
	}
	readers.Wait()
}

// contents are all files a file system shows, those behind links too.
func contents(t testing.TB, tree fs.FS) map[string]string {
	t.Helper()
	got := map[string]string{}
	must(t, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		got[name] = string(text)
		return err
	}))
	return got
}
