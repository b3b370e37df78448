package source_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

// write makes files as gittest's Commit does: "name@" is a link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if link, ok := strings.CutSuffix(path, "@"); ok {
			must(t, os.Symlink(text, link))
			continue
		}
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func folderOf(t testing.TB, files map[string]string) *source.Folder {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return source.OpenFolder(dir, "")
}

func TestFolderIsWhatGitWouldCommit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, some)
	write(t, dir, map[string]string{".git/config": "x", "sub/.git": "gitdir: x", "sub/f": "f"})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	repo := gittest.NewRepo(t)
	repo.Commit("main", some, "first")
	repo.Commit("main", map[string]string{"sub/f": "f"}, "second")
	snapshot := fetch(t, source.OpenFolder(dir, ""))
	if want := gitstate.Revision("tree:" + repo.Git("rev-parse", "main^{tree}")); snapshot.Revision != want {
		t.Errorf("Revision = %s, want %s", snapshot.Revision, want)
	}
	ours, err := snapshot.FS.(gitstate.HashFS).Hash("a.b")
	theirs, err2 := snapshotOf(t, repo).FS.(gitstate.HashFS).Hash("a.b")
	if ours != theirs || err != nil || err2 != nil {
		t.Errorf("hashes %s and %s differ (%v, %v)", ours, theirs, err, err2)
	}
	if snapshot.Branch != "" || snapshot.Author != "" || snapshot.Message != "" {
		t.Errorf("a folder has no commit: %+v", snapshot)
	}
}

func TestFolderSnapshotDoesNotChange(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"apps/same": "1", "apps/changed": "2", "apps/gone": "3", "apps/replaced": "4", "other": "5"})
	folder := source.OpenFolder(dir, "apps")
	before := fetch(t, folder)
	write(t, dir, map[string]string{"apps/changed": "6", "apps/new": "7"})
	must(t, os.Remove(filepath.Join(dir, "apps/gone")))
	must(t, os.Remove(filepath.Join(dir, "apps/replaced")))
	must(t, os.Symlink("same", filepath.Join(dir, "apps/replaced")))
	for name, want := range map[string]error{"same": nil, "changed": source.ErrChanged, "gone": source.ErrChanged, "replaced": source.ErrChanged, "new": fs.ErrNotExist, "other": fs.ErrNotExist} {
		if _, err := fs.ReadFile(before.FS, name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	after := fetch(t, folder)
	if after.Revision == before.Revision {
		t.Error("the revision did not change")
	}
	want := map[string]string{"same": "1", "changed": "6", "new": "7", "replaced": "1"}
	if diff := cmp.Diff(want, contents(t, after.FS)); diff != "" {
		t.Error(diff)
	}
	if again := fetch(t, folder); again.Revision != after.Revision {
		t.Errorf("an unchanged folder has revisions %s and %s", after.Revision, again.Revision)
	}
}

// A file whose size, time and inode are as they were is taken to be what it was, but not while its
// time is so young that a second change could hide behind it.
func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	folder := source.OpenFolder(dir, "")
	put := func(text string, at time.Time) gitstate.Revision {
		t.Helper()
		must(t, os.WriteFile(name, []byte(text), 0o644))
		must(t, os.Chtimes(name, at, at))
		return fetch(t, folder).Revision
	}
	old, young := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if put("1", old) != put("2", old) {
		t.Error("the file was read again")
	}
	if put("1", old.Add(time.Second)) == put("2", old.Add(2*time.Second)) {
		t.Error("another time, and the file was not read again")
	}
	if put("1", young) == put("2", young) {
		t.Error("a young file was not read again")
	}
}

func TestFolderRefusesWhatLeadsOut(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, map[string]string{"secret": "s", "dir/f": "f"})
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/f": "1", "a/out@": filepath.Join(outside, "secret"), "a/dir@": "../../" + filepath.Base(outside), "link@": outside})
	snapshot := fetch(t, source.OpenFolder(dir, "a"))
	for _, name := range []string{"out", "dir", "dir/secret"} {
		if _, err := fs.ReadFile(snapshot.FS, name); !errors.Is(err, source.ErrOutside) {
			t.Errorf("%s: %v, want ErrOutside", name, err)
		}
	}
	for _, path := range []string{"..", "/etc", "link"} {
		if _, err := source.OpenFolder(dir, path).Fetch(t.Context()); err == nil {
			t.Errorf("path %s: no error", path)
		}
	}
	if _, err := source.OpenFolder(filepath.Join(dir, "none"), "").Fetch(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: %v, want ErrNotExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.OpenFolder(dir, "").Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestLargeFilesOfAFolderAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"large": strings.Repeat("x", source.DefaultMaxFile+1), "fits": strings.Repeat("x", source.DefaultMaxFile)})
	snapshot := fetch(t, source.OpenFolder(dir, ""))
	if _, err := fs.ReadFile(snapshot.FS, "large"); !errors.Is(err, source.ErrTooLarge) {
		t.Errorf("large: %v, want ErrTooLarge", err)
	}
	if got, err := fs.ReadFile(snapshot.FS, "fits"); len(got) != source.DefaultMaxFile || err != nil {
		t.Errorf("fits: %d bytes, %v", len(got), err)
	}
}

// Links are resolved as the operating system does, for every name that does not lead outside.
func TestLinksLeadWhereTheSystemSays(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "c", "..", "."})
	name := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3), func(parts []string) string { return strings.Join(parts, "/") })
	target := rapid.Map(rapid.SliceOfN(part, 1, 5), func(parts []string) string { return strings.Join(parts, "/") })
	scratch := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(scratch, "")
		must(t, err)
		defer os.RemoveAll(dir)
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		for i := range rapid.IntRange(1, 8).Draw(rt, "names") {
			// A name that is taken, or below a file, is left out; so is one below a link.
			at := name.Draw(rt, "name")
			if real, err := filepath.EvalSymlinks(filepath.Dir(filepath.Join(dir, at))); err == nil && !strings.HasPrefix(real, dir) {
				continue
			}
			root.MkdirAll(filepath.Dir(at), 0o755)
			if rapid.Bool().Draw(rt, "link") {
				root.Symlink(target.Draw(rt, "target"), at)
			} else if f, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
				f.WriteString(strings.Repeat("x", i))
				f.Close()
			}
		}
		tree := fetch(t, source.OpenFolder(dir, "")).FS
		for range 20 {
			at := name.Draw(rt, "asked")
			want, wantErr := root.ReadFile(at)
			got, err := fs.ReadFile(tree, at)
			if (err == nil) != (wantErr == nil) || string(got) != string(want) {
				rt.Fatalf("%s: %q, %v; the system says %q, %v", at, got, err, want, wantErr)
			}
		}
	})
}

// A mounted ConfigMap is links to files behind a link that is swapped.
func TestMountedConfigMapIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"..v1/policy.yaml": "1", "..data@": "..v1", "policy.yaml@": "..data/policy.yaml"})
	folder := source.OpenFolder(dir, "")
	before := fetch(t, folder)
	write(t, dir, map[string]string{"..v2/policy.yaml": "2", "..tmp@": "..v2"})
	must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	after := fetch(t, folder)
	for want, snapshot := range map[string]gitstate.Snapshot{"1": before, "2": after} {
		if got, err := fs.ReadFile(snapshot.FS, "policy.yaml"); string(got) != want || err != nil {
			t.Errorf("policy.yaml = %q, %v, want %s", got, err, want)
		}
	}
}
