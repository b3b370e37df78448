package source

import (
	"fmt"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// Each commit leaves folders parsed that differ from the last ones in one name. They are not kept for ever.
func TestFoldersOfManyCommitsAreNotKept(t *testing.T) {
	repo := gittest.NewRepo(t)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("apps/%d.yaml", i)] = "x"
	}
	repo.Commit("main", files, "all")
	g := openObjects(repo.Dir)
	defer g.close()
	g.keep(10)
	if g.room != fewNames {
		t.Errorf("room for %d names where there are few, want %d", g.room, fewNames)
	}
	if g.keep(fewNames); g.room != 2*fewNames {
		t.Errorf("room for %d names where there are %d", g.room, fewNames)
	}
	g.room = 250
	for i := range 40 {
		head := repo.Commit("main", map[string]string{"apps/0.yaml": fmt.Sprint(i)}, "one")
		commit, err := g.commit(head)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // read, and known
			names, err := newTree(g, commit.TreeHash, 1<<20).ReadDir("apps")
			if err != nil || len(names) != 50 {
				t.Fatalf("%d names, %v", len(names), err)
			}
		}
		kept := 0
		for _, list := range g.trees {
			kept += len(list.good) + len(list.bad)
		}
		if kept > g.room || kept != g.names {
			t.Fatalf("after %d commits %d names are kept, counted as %d, and there is room for %d", i+1, kept, g.names, g.room)
		}
	}
}
