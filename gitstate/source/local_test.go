package source_test

import (
	"context"
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

func localOptions(t testing.TB, dir, path string) source.Options {
	t.Helper()
	r, err := remote.New(remote.Options{URL: dir})
	must(t, err)
	return source.Options{Remote: r, Path: path}
}

func openLocal(t testing.TB, dir, path string) *source.Local {
	t.Helper()
	l, err := source.OpenLocal(localOptions(t, dir, path))
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
	dir := clone(t, repo)
	l := openLocal(t, dir, "fleet/")
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
		snapshot, err := l.Since(t.Context(), tt.rev)
		if err != nil || string(snapshot.Revision) != tt.want.String() {
			t.Errorf("Since(%s) = %s, %v, want %s", tt.rev, snapshot.Revision, err, tt.want)
		}
	}
	snapshot, err := l.Since(t.Context(), "HEAD~1")
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
	} {
		if _, err := openLocal(t, dir, tt.path).Since(t.Context(), tt.rev); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "shallow") {
			t.Errorf("Since(%s, %s): %v, want %v with %q", tt.rev, tt.path, err, tt.want, tt.text)
		}
	}
	if _, err := source.OpenLocal(localOptions(t, dir, "../x")); !errors.Is(err, source.ErrOutside) {
		t.Errorf("OpenLocal of a path outside: %v, want ErrOutside", err)
	}
}

func TestAShallowCloneSaysSo(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "1"}, "one")
	repo.SetRef("refs/heads/side", repo.Head("main"))
	repo.Commit("side", map[string]string{"s": "1"}, "side")
	head := repo.Commit("main", map[string]string{"a": "2"}, "two")
	l := openLocal(t, clone(t, repo, "--depth", "1", "--no-single-branch"), "")
	if snapshot, err := l.Since(t.Context(), "HEAD"); err != nil || string(snapshot.Revision) != head.String() {
		t.Errorf("Since(HEAD) = %s, %v, want %s", snapshot.Revision, err, head)
	}
	for _, rev := range []string{"HEAD~1", "origin/side", "v1"} {
		if _, err := l.Since(t.Context(), rev); !errors.Is(err, remote.ErrNotFound) || !strings.Contains(err.Error(), "the clone is shallow") {
			t.Errorf("Since(%s): %v, want that the clone is shallow", rev, err)
		}
	}
}

// A checkout of CI is detached: its HEAD is on no branch, and often no branch has its commit.
func TestADetachedHEADIsRead(t *testing.T) {
	repo := gittest.NewRepo(t)
	one := repo.Commit("main", map[string]string{"a": "1"}, "one")
	two := repo.Commit("main", map[string]string{"a": "2"}, "two")
	merge := repo.CommitTree("pull", repo.Tree(), "a merge that no branch has", two, one)
	linked := filepath.Join(t.TempDir(), "linked")
	repo.Git("worktree", "add", "-q", "--detach", linked, one.String())
	checkout := clone(t, repo)
	out, err := exec.Command("git", "-C", checkout, "checkout", "-q", "--detach", merge.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("git checkout: %v\n%s", err, out)
	}
	repo.Git("update-ref", "-d", "refs/heads/pull")
	for _, tt := range []struct {
		dir, rev, branch string
		want             plumbing.Hash
	}{
		{repo.Dir, "", "main", two},
		{linked, "", "", one},
		{linked, "HEAD", "", one},
		{linked, "main", "main", two},
		{filepath.Join(linked, ".git"), "", "", one},
		{filepath.Join(linked, ".git"), "main~1", "main", one},
		{checkout, "", "", merge},
		{filepath.Join(checkout, ".git"), "@", "", merge},
		{filepath.Join(checkout, ".git"), "HEAD~1", "", two},
		{filepath.Join(checkout, ".git"), "HEAD^2", "", one},
		{filepath.Join(checkout, ".git"), merge.String(), "", merge},
		{filepath.Join(checkout, ".git"), "origin/main", "", two},
	} {
		l := openLocal(t, tt.dir, "")
		snapshot, err := l.At(t.Context(), tt.rev)
		if tt.rev == "" {
			snapshot, err = l.Fetch(t.Context())
		}
		if err != nil || string(snapshot.Revision) != tt.want.String() || snapshot.Branch != tt.branch {
			t.Errorf("%q of %s = %s of %q, %v, want %s of %q", tt.rev, tt.dir, snapshot.Revision, snapshot.Branch, err, tt.want, tt.branch)
		}
	}
	for dir, want := range map[string]plumbing.Hash{linked: one, repo.Dir: two} {
		if snapshot, err := openLocal(t, dir, "").Since(t.Context(), "HEAD"); err != nil || string(snapshot.Revision) != want.String() {
			t.Errorf("%s: Since(HEAD) = %s, %v, want %s", dir, snapshot.Revision, err, want)
		}
	}
}

// The branch that Options name goes before HEAD.
func TestALocalOfABranchHasItsHead(t *testing.T) {
	repo := gittest.NewRepo(t)
	one := repo.Commit("main", map[string]string{"a": "1"}, "one")
	repo.SetRef("refs/heads/topic", one)
	two := repo.Commit("topic", map[string]string{"a": "2"}, "two")
	o := localOptions(t, repo.Dir, "")
	o.Branch = "topic"
	l, err := source.OpenLocal(o)
	must(t, err)
	defer l.Close()
	for rev, want := range map[string]plumbing.Hash{"HEAD": two, "HEAD~1": one, "main": one} {
		if snapshot, err := l.At(t.Context(), rev); err != nil || string(snapshot.Revision) != want.String() {
			t.Errorf("At(%s) = %s, %v, want %s", rev, snapshot.Revision, err, want)
		}
	}
	if snapshot, err := l.Fetch(t.Context()); err != nil || string(snapshot.Revision) != two.String() || snapshot.Branch != "topic" {
		t.Errorf("Fetch = %s of %s, %v, want %s of topic", snapshot.Revision, snapshot.Branch, err, two)
	}
	repo.Git("update-ref", "-d", "refs/heads/topic")
	if _, err := l.Fetch(t.Context()); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("Fetch of a branch that is gone: %v, want ErrNotFound", err)
	}
}

func TestARepositoryThatBorrowsObjectsIsNotReadInPlace(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "1"}, "one")
	must(t, os.WriteFile(filepath.Join(repo.Dir, "objects", "info", "alternates"), []byte("/nowhere\n"), 0o644))
	if _, err := source.OpenLocal(localOptions(t, repo.Dir, "")); !errors.Is(err, remote.ErrNotFound) || !strings.Contains(err.Error(), "git repack -a -d") {
		t.Errorf("OpenLocal: %v, want ErrNotFound and what to do", err)
	}
}

func TestARepositoryWithoutCommitsHasNoRevision(t *testing.T) {
	l := openLocal(t, gittest.NewRepo(t).Dir, "")
	if _, err := l.Since(t.Context(), "HEAD"); !errors.Is(err, remote.ErrEmpty) {
		t.Errorf("Since: %v, want ErrEmpty", err)
	}
	if _, err := l.Fetch(t.Context()); !errors.Is(err, remote.ErrEmpty) {
		t.Errorf("Fetch: %v, want ErrEmpty", err)
	}
	for _, url := range []string{t.TempDir(), "https://git.example.com/fleet.git"} {
		if _, err := source.OpenLocal(localOptions(t, url, "")); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("OpenLocal of %s: %v, want ErrNotFound", url, err)
		}
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
		snapshot, err := openLocal(t, repo.Dir, "").Since(t.Context(), other.String())
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
	before, err := openLocal(t, dir, "").Since(t.Context(), "HEAD")
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

// A repository of this machine is read in place as it is read through a clone, and nothing is written there.
func TestALocalReadsWhatACloneReadsAndWritesNothing(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := repo.Commit("main", map[string]string{"fleet/a.yaml": "a: 1\n", "other": "x"}, "one")
	repo.Commit("main", map[string]string{"fleet/a.yaml": "a: 2\n"}, "two")
	repo.SetRef("refs/heads/topic", first)
	repo.Commit("topic", map[string]string{"fleet/b.yaml": "b: 1\n"}, "three")
	repo.SetRef("refs/tags/v1", first)
	listed := func() (all []string) {
		filepath.WalkDir(repo.Dir, func(path string, e fs.DirEntry, err error) error {
			info, _ := e.Info()
			all = append(all, path, info.ModTime().String())
			return err
		})
		return all
	}
	before := listed()
	o := localOptions(t, repo.Dir, "fleet")
	local := openLocal(t, repo.Dir, "fleet")
	o.Dir = t.TempDir()
	clone, err := source.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	read := func(s interface {
		Fetch(context.Context) (gitstate.Snapshot, error)
		At(context.Context, string) (gitstate.Snapshot, error)
	}, rev string) [3]string {
		snapshot, err := s.At(t.Context(), rev)
		if rev == "" {
			snapshot, err = s.Fetch(t.Context())
		}
		if err != nil {
			if !errors.Is(err, remote.ErrNotFound) {
				t.Errorf("%q: %v", rev, err)
			}
			return [3]string{"missing"}
		}
		text := ""
		for _, name := range []string{"a.yaml", "b.yaml", "other"} {
			data, _ := fs.ReadFile(snapshot.FS, name)
			text += name + ": " + string(data)
		}
		return [3]string{string(snapshot.Revision), snapshot.Branch, text}
	}
	for _, rev := range []string{"", "main", "topic", "topic~1", "v1", "HEAD", "HEAD~1", first.String(), first.String()[:8], "nothing", "deadbeef"} {
		if got, want := read(local, rev), read(clone, rev); got != want {
			t.Errorf("%q in place is %q, in a clone %q", rev, got, want)
		}
	}
	if after := listed(); len(after) != len(before) {
		t.Errorf("the repository has %d files, want %d", len(after)/2, len(before)/2)
	} else {
		for i := range after {
			if after[i] != before[i] {
				t.Errorf("%s was touched", after[i])
			}
		}
	}
}

func TestReadingLooseObjectsLeavesNoFileOpen(t *testing.T) {
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("open files are not listed here:", err)
		}
		return len(list)
	}
	repo := gittest.NewRepo(t)
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprint(i)
	}
	repo.Commit("main", files, "many\n")
	l := openLocal(t, repo.Dir, "")
	snapshot, err := l.Fetch(t.Context())
	must(t, err)
	before := open()
	for name, want := range files {
		if _, err := fs.Stat(snapshot.FS, name); err != nil {
			t.Fatal(err)
		}
		got, err := fs.ReadFile(snapshot.FS, name)
		if err != nil || string(got) != want {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
	if after := open(); after > before+20 {
		t.Errorf("%d files were open, and %d are after %d were read", before, after, len(files))
	}
	must(t, gitstate.Unread(snapshot.FS))
}

func TestALongMessageIsNotReadWhole(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := repo.Commit("main", map[string]string{"a": "1"}, "one\n")
	second := repo.Commit("main", map[string]string{"a": "2"}, "two\n"+strings.Repeat("x", 6<<20))
	l := openLocal(t, repo.Dir, "")
	snapshot, err := l.Fetch(t.Context())
	must(t, err)
	if n := len(snapshot.Message); snapshot.Revision != gitstate.Revision(second.String()) || !strings.HasPrefix(snapshot.Message, "two\n") || n > 4<<20 {
		t.Errorf("%s with a message of %d bytes", snapshot.Revision, n)
	}
	snapshot, err = l.At(t.Context(), "HEAD~1")
	if err != nil || snapshot.Revision != gitstate.Revision(first.String()) {
		t.Errorf("its parent is %s, %v", snapshot.Revision, err)
	}
}

// What somebody wrote into the source is no failure to read it; a file that is gone from the disk is.
func TestWhatCannotBeReadIsTold(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "1", "b": "2", "large": strings.Repeat("x", 2000)}, "one\n")
	o := localOptions(t, repo.Dir, "")
	o.MaxFile = 1000
	l, err := source.OpenLocal(o)
	must(t, err)
	defer l.Close()
	snapshot, err := l.Fetch(t.Context())
	must(t, err)
	for _, name := range []string{"a", "large", "nothing"} {
		_, _ = fs.ReadFile(snapshot.FS, name)
		must(t, gitstate.Unread(snapshot.FS))
	}
	hash := repo.Git("rev-parse", "main:b")
	must(t, os.Remove(filepath.Join(repo.Dir, "objects", hash[:2], strings.TrimSpace(hash[2:]))))
	_, err = fs.ReadFile(snapshot.FS, "b")
	if unread := gitstate.Unread(snapshot.FS); err == nil || !errors.Is(unread, remote.ErrDamaged) {
		t.Errorf("read: %v; told: %v", err, unread)
	}
}

// go-git opens the pack of a larger file once more, by the name that the pack was first opened by.
func TestALargerFileOfAPackIsRead(t *testing.T) {
	repo := gittest.NewRepo(t)
	large := strings.Repeat("0123456789abcdef", 4<<10)
	repo.Commit("main", map[string]string{"small": "1", "large": large}, "one")
	repo.Git("repack", "-a", "-d", "-q")
	snapshot, err := openLocal(t, repo.Dir, "").Fetch(t.Context())
	must(t, err)
	text, err := fs.ReadFile(snapshot.FS, "large")
	if err != nil || string(text) != large {
		t.Errorf("%d bytes of %d: %v", len(text), len(large), err)
	}
}
