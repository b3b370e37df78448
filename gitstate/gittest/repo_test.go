package gittest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

func TestGitReadsWhatWasCommitted(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := repo.Commit("main", map[string]string{"a": "1", "b.c/d": "2", "b/x": "x", "d/e/f": "3", "link@": "d/e"}, "first\n\nWhy.\n")
	if got := repo.Git("fsck", "--strict"); got != "" {
		t.Errorf("fsck: %s", got)
	}
	second := repo.Commit("main", map[string]string{"a": "", "d/e/f": "4", "link": ""}, "second")
	if diff := cmp.Diff(map[string]string{"b.c/d": "2", "b/x": "x", "d/e/f": "4"}, repo.Files("main")); diff != "" {
		t.Errorf("files:\n%s", diff)
	}
	if got := repo.Git("show", first.String()+":link"); got != "d/e" {
		t.Errorf("link = %q", got)
	}
	log := repo.Log("main")
	if len(log) != 2 || log[0].Hash != second || log[1].Hash != first || log[1].Subject != "first" || log[1].Message != "first\n\nWhy.\n" {
		t.Errorf("log = %v", log)
	}
	if got := repo.Git("log", "--format=%H %an %at", "main"); got != second.String()+" Ada 1767225601\n"+first.String()+" Ada 1767225600" {
		t.Errorf("git log = %s", got)
	}
	if got := repo.Log("none"); got != nil {
		t.Errorf("log of an unborn branch = %v", got)
	}
}

func TestEqualCallsMakeEqualHashes(t *testing.T) {
	make := func() string {
		repo := gittest.NewRepo(t)
		repo.Commit("main", map[string]string{"a": "1", "b/c": "2"}, "first")
		return repo.Commit("main", map[string]string{"a": "2"}, "second").String()
	}
	if a, b := make(), make(); a != b {
		t.Errorf("%s and %s differ", a, b)
	}
}
