package source_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

// rawCommit makes a commit with a time of its own.
func rawCommit(repo *gittest.Repo, tree plumbing.Hash, n, when int, parents ...plumbing.Hash) plumbing.Hash {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author A B <a@b> %d +0000\ncommitter A B <a@b> %d +0000\n\ncommit %d\n\nparent %s\n", when, when, n, plumbing.ZeroHash)
	return repo.Object(plumbing.CommitObject, []byte(b.String()))
}

func revs(hashes ...plumbing.Hash) []gitstate.Revision {
	var list []gitstate.Revision
	for _, h := range hashes {
		list = append(list, gitstate.Revision(h.String()))
	}
	return list
}

// TestLineageIsThatOfTheGraph compares with the sets of ancestors, whatever the commits' times are.
func TestLineageIsThatOfTheGraph(t *testing.T) {
	repo := gittest.NewRepo(t)
	tree := repo.Tree()
	var all []plumbing.Hash
	ancestors := map[plumbing.Hash]map[plumbing.Hash]bool{}
	dice := rand.New(rand.NewPCG(1, 2))
	const size = 60
	for n := range size {
		var parents []plumbing.Hash
		for range dice.IntN(4) {
			if i := n - 1 - dice.IntN(8); i >= 0 && !slices.Contains(parents, all[i]) {
				parents = append(parents, all[i])
			}
		}
		h := rawCommit(repo, tree, n, n/4+dice.IntN(10), parents...)
		ancestors[h] = map[plumbing.Hash]bool{h: true}
		for _, p := range parents {
			maps.Copy(ancestors[h], ancestors[p])
		}
		all = append(all, h)
	}
	repo.SetRef("refs/heads/main", rawCommit(repo, tree, size, 9, all...))
	s := openSource(t, repo.Dir, nil)
	fetch(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		pick := rapid.SampledFrom(all)
		head, known, from := pick.Draw(rt, "head"), rapid.SliceOfN(pick, 0, 2).Draw(rt, "known"), pick.Draw(rt, "from")
		if got, err := s.Descends(t.Context(), revs(head)[0], revs(from)[0]); err != nil || got != ancestors[head][from] {
			rt.Fatalf("Descends(%s, %s) = %v, %v", head, from, got, err)
		}
		want := revs(head)
		for _, h := range all {
			if h != head && ancestors[head][h] && !slices.ContainsFunc(known, func(k plumbing.Hash) bool { return ancestors[k][h] }) {
				want = append(want, revs(h)...)
			}
		}
		if slices.ContainsFunc(known, func(k plumbing.Hash) bool { return ancestors[k][head] }) {
			want = want[:1]
		}
		list, err := s.Commits(t.Context(), revs(head)[0], revs(known...), size)
		if err != nil {
			rt.Fatal(err)
		}
		var got []gitstate.Revision
		for _, o := range list {
			got = append(got, o.Revision)
			if !strings.HasPrefix(string(o.Data), "tree ") {
				rt.Errorf("the object is %q", o.Data)
			}
		}
		if got[0] != want[0] {
			rt.Errorf("the first is %s, want the head", got[0])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			rt.Errorf("Commits(%s, %s) = %s, want %s", head, known, got, want)
		}
	})
}

func TestAHistoryThatEndsHereIsNoAnswer(t *testing.T) {
	repo := gittest.NewRepo(t)
	tree := repo.Tree()
	first := rawCommit(repo, tree, 1, 1)
	second := rawCommit(repo, tree, 2, 2, first)
	third := rawCommit(repo, tree, 3, 3, second)
	repo.SetRef("refs/heads/main", third)
	s := openSource(t, repo.Dir, nil)
	fetch(t, s)
	elsewhere := plumbing.NewHash(strings.Repeat("1", 40))
	if got, err := s.Descends(t.Context(), revs(third)[0], revs(elsewhere)[0]); got || err != nil {
		t.Errorf("Descends from a commit that is not here = %v, %v", got, err)
	}
	if list, err := s.Commits(t.Context(), revs(third)[0], revs(elsewhere), 3); err != nil || len(list) != 3 {
		t.Errorf("a known one that is not here: %d, %v", len(list), err)
	}
	if _, err := s.Commits(t.Context(), revs(third)[0], nil, 2); !errors.Is(err, source.ErrTooMany) {
		t.Errorf("more than asked for: %v", err)
	}
	if _, err := s.Commits(t.Context(), revs(elsewhere)[0], nil, 2); !errors.Is(err, gitstate.ErrHistory) {
		t.Errorf("a head that is not here: %v", err)
	}
}

func TestChangedNamesEveryPath(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := repo.Commit("main", map[string]string{"a/x": "1", "b": "1", "c/.git-x": "1", "d@": "b"}, "first")
	second := repo.Commit("main", map[string]string{"a/x": "", "a/y": "1", "c/.git-x": "2", "d@": "a", "b": "1"}, "second")
	s := openSource(t, repo.Dir, func(o *source.Options) { o.Path = "a" })
	fetch(t, s)
	want := []string{"a/x", "a/y", "c/.git-x", "d"}
	for _, pair := range [][]gitstate.Revision{revs(first, second), revs(second, first)} {
		if got, err := s.Changed(t.Context(), pair[0], pair[1]); err != nil || !slices.Equal(got, want) {
			t.Errorf("Changed(%s) = %s, %v, want %s", pair, got, err, want)
		}
	}
	if got, err := s.Changed(t.Context(), revs(second)[0], revs(second)[0]); err != nil || len(got) > 0 {
		t.Errorf("a commit and itself: %s, %v", got, err)
	}
	if _, err := s.Changed(t.Context(), "1111111111111111111111111111111111111111", revs(second)[0]); !errors.Is(err, gitstate.ErrHistory) {
		t.Errorf("a commit that is not here: %v", err)
	}
}
