package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

func openLocal(t testing.TB, dir string) *source.Local {
	t.Helper()
	l, err := source.OpenLocal(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

// clone makes a work tree.
func clone(t testing.TB, repo *gittest.Repo, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	out, err := exec.Command("git", append(append([]string{"clone", "-q"}, args...), "file://"+repo.Dir, dir)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return dir
}

func TestWhereHEADLeftARevision(t *testing.T) {
	repo := gittest.NewRepo(t)
	root := repo.Commit("main", map[string]string{"fleet/a": "1"}, "root")
	repo.SetRef("refs/heads/side", root)
	two := repo.Commit("main", map[string]string{"fleet/a": "2"}, "two")
	repo.SetRef("refs/tags/v2", two)
	repo.Commit("side", map[string]string{"fleet/s": "1"}, "side")
	three := repo.Commit("main", map[string]string{"fleet/a": "3"}, "three")
	repo.SetRef("refs/heads/ahead", three)
	repo.Commit("ahead", map[string]string{"fleet/b": "1"}, "ahead")
	l := openLocal(t, clone(t, repo))
	for _, tt := range []struct {
		rev  string
		want plumbing.Hash
	}{
		{"HEAD", three},
		{"@", three},
		{"HEAD~1", two},
		{"HEAD~2", root},
		{"v2", two},
		{"v2^", root},
		{"refs/tags/v2", two},
		{"main", three},
		{"origin", three},
		{"origin/side", root},
		{"refs/remotes/origin/side", root},
		{"origin/ahead", three},
		{two.String(), two},
		{two.String()[:9], two},
	} {
		snapshot, err := l.Since(tt.rev, "fleet/")
		if err != nil || string(snapshot.Revision) != tt.want.String() {
			t.Errorf("Since(%s) = %s, %v, want %s", tt.rev, snapshot.Revision, err, tt.want)
		}
	}
	snapshot, err := l.Since("HEAD~1", "fleet")
	must(t, err)
	if diff := cmp.Diff(map[string]string{"a": "2"}, contents(t, snapshot.FS)); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		rev, path string
		want      error
		text      string
	}{
		{"side", "", remote.ErrNotFound, "no branch, tag, commit or fetched branch"},
		{"deadbeef", "", remote.ErrNotFound, "no branch, tag"},
		{strings.Repeat("d", 40), "", remote.ErrNotFound, "no branch, tag"},
		{"HEAD~3", "", remote.ErrNotFound, "no such parent"},
		{"", "", remote.ErrNotFound, ""},
		{"HEAD", "none", fs.ErrNotExist, ""},
		{"HEAD", "../x", source.ErrOutside, ""},
	} {
		if _, err := l.Since(tt.rev, tt.path); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "shallow") {
			t.Errorf("Since(%s, %s): %v, want %v with %q", tt.rev, tt.path, err, tt.want, tt.text)
		}
	}
}

func TestAShallowCloneSaysSo(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "1"}, "one")
	repo.SetRef("refs/heads/side", repo.Head("main"))
	repo.Commit("side", map[string]string{"s": "1"}, "side")
	head := repo.Commit("main", map[string]string{"a": "2"}, "two")
	l := openLocal(t, clone(t, repo, "--depth", "1", "--no-single-branch"))
	if snapshot, err := l.Since("HEAD", ""); err != nil || string(snapshot.Revision) != head.String() {
		t.Errorf("Since(HEAD) = %s, %v, want %s", snapshot.Revision, err, head)
	}
	for _, rev := range []string{"HEAD~1", "origin/side", "v1"} {
		if _, err := l.Since(rev, ""); !errors.Is(err, remote.ErrNotFound) || !strings.Contains(err.Error(), "the clone is shallow") {
			t.Errorf("Since(%s): %v, want that the clone is shallow", rev, err)
		}
	}
}

func TestALinkedWorkTreeHasItsOwnHEAD(t *testing.T) {
	repo := gittest.NewRepo(t)
	one := repo.Commit("main", map[string]string{"a": "1"}, "one")
	two := repo.Commit("main", map[string]string{"a": "2"}, "two")
	linked := filepath.Join(t.TempDir(), "linked")
	repo.Git("worktree", "add", "-q", "--detach", linked, one.String())
	for dir, want := range map[string]plumbing.Hash{linked: one, repo.Dir: two} {
		if snapshot, err := openLocal(t, dir).Since("HEAD", ""); err != nil || string(snapshot.Revision) != want.String() {
			t.Errorf("%s: Since(HEAD) = %s, %v, want %s", dir, snapshot.Revision, err, want)
		}
	}
}

func TestARepositoryWithoutCommitsHasNoRevision(t *testing.T) {
	if _, err := source.OpenLocal(t.Context(), gittest.NewRepo(t).Dir); !errors.Is(err, remote.ErrEmpty) {
		t.Errorf("OpenLocal: %v, want ErrEmpty", err)
	}
	if _, err := source.OpenLocal(t.Context(), t.TempDir()); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("OpenLocal of no repository: %v, want ErrNotFound", err)
	}
}

// Git itself is asked about histories with merges across each other.
func TestTheForkIsGitsMergeBase(t *testing.T) {
	repo := gittest.NewRepo(t)
	random := rand.New(rand.NewPCG(1, 2))
	tree := repo.Tree()
	var commits []plumbing.Hash
	for i := range 60 {
		var parents []plumbing.Hash
		for range min(i, 1+random.IntN(2)) {
			if p := commits[max(0, i-1-random.IntN(6))]; !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		commits = append(commits, repo.CommitTree("b", tree, fmt.Sprint(i), parents...))
	}
	for range 60 {
		one, other := commits[random.IntN(60)], commits[random.IntN(60)]
		repo.SetRef("refs/heads/main", one)
		snapshot, err := openLocal(t, repo.Dir).Since(other.String(), "")
		must(t, err)
		if best := strings.Fields(repo.Git("merge-base", "--all", one.String(), other.String())); !slices.Contains(best, string(snapshot.Revision)) {
			t.Errorf("%s of HEAD %s and %s, want one of %s", snapshot.Revision, one, other, best)
		}
	}
}

func TestChangedFilesAreFoundByTheirHashes(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{
		"same/a.yaml": "1", "edited/a.yaml": "1", "edited/b.yaml": "1", "gone/a.yaml": "1", "moved.yaml": "2",
		"to-edited@": "edited/a.yaml", "to-same@": "same/a.yaml", "to-nothing@": "nothing", "elsewhere@": "nothing", "folder": "1",
	}, "one")
	dir := clone(t, repo)
	for name, text := range map[string]string{"edited/a.yaml": "9", "new/deep/a.yaml": "1", "edited/moved.yaml": "2", "folder/a.yaml": "1"} {
		if name == "folder/a.yaml" {
			must(t, os.Remove(filepath.Join(dir, "folder")))
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)) // executable, which is no change
	}
	must(t, os.Chmod(filepath.Join(dir, "same/a.yaml"), 0o755))
	must(t, os.RemoveAll(filepath.Join(dir, "gone")))
	must(t, os.Remove(filepath.Join(dir, "moved.yaml")))
	must(t, os.Remove(filepath.Join(dir, "elsewhere")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "elsewhere")))
	before, err := openLocal(t, dir).Since("HEAD", "")
	must(t, err)
	after, err := source.OpenFolder(dir, "").Fetch(t.Context())
	must(t, err)
	changed, err := source.Changed(before.FS.(gitstate.HashFS), after.FS.(gitstate.HashFS))
	must(t, err)
	want := []string{"edited/a.yaml", "edited/moved.yaml", "elsewhere", "folder/a.yaml", "new/deep/a.yaml", "to-edited"}
	if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got, want) {
		t.Errorf("Changed = %q, want %q", got, want)
	}
	all, err := source.Changed(nil, after.FS.(gitstate.HashFS))
	must(t, err)
	if want = append(want, "edited/b.yaml", "same/a.yaml", "to-nothing", "to-same"); len(all) != len(want) || !all["same/a.yaml"] {
		t.Errorf("Changed since nothing = %v, want also what is the same", all)
	}
}
