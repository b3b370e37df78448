package source_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

// A repository of this machine is read in place as it is read through a clone, and nothing is written there.
func TestAViewReadsWhatACloneReadsAndWritesNothing(t *testing.T) {
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
	r, err := remote.New(remote.Options{URL: repo.Dir})
	if err != nil {
		t.Fatal(err)
	}
	o := source.Options{Remote: r, Path: "fleet"}
	view, err := source.OpenView(o)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	o.Dir = t.TempDir()
	clone, err := source.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	read := func(s *source.Source, rev string) [3]string {
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
		if got, want := read(view, rev), read(clone, rev); got != want {
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
	if err := os.WriteFile(filepath.Join(repo.Dir, "objects", "info", "alternates"), []byte("/nowhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := source.OpenView(o); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("a repository that borrows its objects: %v, want ErrNotFound", err)
	}
}
