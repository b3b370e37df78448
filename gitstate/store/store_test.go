package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

func TestGitReadsWhatIsCommitted(t *testing.T) {
	remotes(t, func(t *testing.T, w *world, r Remote) {
		o := w.options("a")
		o.Remote = r
		s := openStore(t, o)
		tree := load(t, s)
		if tree.Head != "" || tree.Offline != nil {
			t.Fatalf("an empty remote loads as %+v", tree)
		}
		wantText(t, tree.FS, "")
		first := commit1(t, s, "", "state.yaml=1 works/kube01/default/web.yaml=x works/kube02/default/web.yaml=x")
		second, err := s.Commit(t.Context(), first, changes("works/kube01/default/web.yaml- works/kube02/default/api.yaml=y"), Message{
			Subject:  "failover(default/web): kube01 -> kube02",
			Body:     "kube01 has not been Ready since 11:55:00.",
			Trailers: []Trailer{{"Godwit-Source", "abc"}, {"Godwit-Reason", "ClusterFailure"}},
			When:     noon,
		})
		if err != nil {
			t.Fatal(err)
		}
		if tree := load(t, s); tree.Head != second || tree.Unpushed != 2 || tree.Remote != "" {
			t.Errorf("before the push: %+v", tree)
		}
		push(t, s)
		if w.head() != second {
			t.Fatalf("the remote is at %s, want %s", w.head(), second)
		}
		fsck(t, w.dir)
		fsck(t, o.Dir)
		if got, want := git(t, w.dir, "ls-tree", "-r", "--name-only", branch), "state.yaml\nworks/kube02/default/api.yaml\nworks/kube02/default/web.yaml"; got != want {
			t.Errorf("git lists %q, want %q", got, want)
		}
		got := git(t, w.dir, "log", "-1", "--format=%an <%ae> %cI%n%B%(trailers:key=Godwit-Reason)", branch)
		want := `godwit <godwit@localhost> 2026-08-01T12:00:00+00:00
failover(default/web): kube01 -> kube02

kube01 has not been Ready since 11:55:00.

Godwit-Source: abc
Godwit-Reason: ClusterFailure
Godwit-Reason: ClusterFailure`
		if diff := cmp.Diff(want, strings.TrimSpace(got)); diff != "" {
			t.Error(diff)
		}
		tree = load(t, w.open("b"))
		if tree.Head != second || tree.Remote != second || tree.Unpushed != 0 {
			t.Errorf("another clone: %+v", tree)
		}
		wantText(t, tree.FS, "state.yaml=1 works/kube02/default/api.yaml=y works/kube02/default/web.yaml=x")
		if err := fstest.TestFS(tree.FS, "state.yaml", "works/kube02/default/api.yaml"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"state.yaml", "works"} {
			if got, err := tree.FS.Hash(name); err != nil || got != git(t, w.dir, "rev-parse", branch+":"+name) {
				t.Errorf("Hash(%s) = %s, %v", name, got, err)
			}
		}
		if got, err := tree.FS.Hash("."); err != nil || got != git(t, w.dir, "rev-parse", branch+"^{tree}") {
			t.Errorf("Hash(.) = %s, %v", got, err)
		}
		if _, err := tree.FS.Hash("nothing"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Hash(nothing): %v", err)
		}
	})
}

func TestCommitChangesWhatItIsTold(t *testing.T) {
	for _, c := range []struct {
		name, before, changes, want string
	}{
		{"first file", "", "a/b=1", "a/b=1"},
		{"one of two", "a=1 b=2", "a=3", "a=3 b=2"},
		{"any order", "", "z=1 a/z=2 a/a=3 m=4", "a/a=3 a/z=2 m=4 z=1"},
		{"a name that begins like a folder", "a/b=1 a-b=2 a.b=3", "a/c=4 a-=", "a-= a-b=2 a.b=3 a/b=1 a/c=4"},
		{"an empty folder goes, up to its root", "a/b/c/d=1 z=1", "a/b/c/d-", "z=1"},
		{"the last file", "a/b=1", "a/b-", ""},
		{"a missing file", "a=1", "b- c/d-", "a=1"},
		{"below a file", "a=1", "a/b-", "a=1"},
		{"a folder's name", "a/b=1", "a-", "a/b=1"},
		{"a file becomes a folder", "a=1", "a- a/b=2", "a/b=2"},
		{"a folder becomes a file", "a/b=1 a/c/d=2", "a=3 a/b- a/c/d-", "a=3"},
		{"an empty file", "a=1", "a=", "a="},
	} {
		s := openStore(t, Options{Dir: t.TempDir()})
		head := gitstate.Revision("")
		if c.before != "" {
			head = commit1(t, s, head, c.before)
		}
		head = commit1(t, s, head, c.changes)
		tree := load(t, s)
		if got := text(t, tree.FS); got != c.want || tree.Head != head {
			t.Errorf("%s: %q on %q = %q, want %q", c.name, c.changes, c.before, got, c.want)
		}
		fsck(t, s.o.Dir)
	}
}

func TestCommitRefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct{ name, changes, want string }{
		{"a file for a folder that stays", "a/b=1 a=2", "a would be both a file and a folder"},
		{"a folder for a file that stays", "f/g/h=1", "f would be both a file and a folder"},
		{"one deeper", "d/e/f=2 d/e/f/g=1", "d/e/f would be both a file and a folder"},
		{"twice", "a=1 a-", "a is changed twice"},
		{"absolute", "/a=1", `"/a" is no path of a file`},
		{"upwards", "a/../b=1", `"a/../b" is no path of a file`},
		{"the root", ".=1", `"." is no path of a file`},
		{"git's own", "a/.git/config=1", `".git" cannot be a name in a Git tree`},
	} {
		s := openStore(t, Options{Dir: t.TempDir()})
		base := commit1(t, s, "", "f=1 d/e/x=1")
		_, err := s.Commit(t.Context(), base, changes(c.changes), message("m"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if tree := load(t, s); tree.Head != base {
			t.Errorf("%s: the branch moved", c.name)
		}
	}
}

func TestNoChangeIsNoCommit(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir()})
	if head := commit1(t, s, "", "a-"); head != "" {
		t.Errorf("nothing on nothing made %s", head)
	}
	base := commit1(t, s, "", "a=1 b/c=2")
	before, _ := os.ReadDir(pack.Dir(s.o.Dir))
	if head := commit1(t, s, base, "a=1 b/c=2 x-"); head != base {
		t.Errorf("no change made %s, want %s", head, base)
	}
	if after, _ := os.ReadDir(pack.Dir(s.o.Dir)); len(after) != len(before) {
		t.Error("no change wrote a pack")
	}
}

func TestEqualInputMakesEqualCommits(t *testing.T) {
	var heads []gitstate.Revision
	for _, order := range []string{"a=1 b/c=2 b/d=1", "b/d=1 b/c=2 a=1"} {
		s := openStore(t, Options{Dir: t.TempDir()})
		head, err := s.Commit(t.Context(), "", changes(order), message("m"))
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	if heads[0] != heads[1] {
		t.Errorf("commits %s and %s", heads[0], heads[1])
	}
}

func TestTheTreeIsTheSumOfItsCommits(t *testing.T) {
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		if round++; round > 40 {
			return // each commit waits for the disk
		}
		repo := filepath.Join(dir, fmt.Sprint(round))
		s, err := Open(context.Background(), Options{Dir: repo, PackLimit: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		model := map[string]string{}
		head := gitstate.Revision("")
		// Folders are upper case and files lower, so that none is both.
		path := rapid.StringMatching(`([A-C][.\-A]?/){0,3}[a-c][.\-a]?x`)
		for range rapid.IntRange(1, 8).Draw(t, "commits") {
			var edits []Change
			for _, p := range rapid.SliceOfNDistinct(path, 1, 12, rapid.ID).Draw(t, "paths") {
				if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
					edits = append(edits, Change{Path: p})
					delete(model, p)
					continue
				}
				data := rapid.StringMatching(`[a-d]{0,2}`).Draw(t, "data")
				edits = append(edits, Change{p, []byte(data)})
				model[p] = data
			}
			if head, err = s.Commit(context.Background(), head, edits, message("m")); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]string{}
		tree, err := s.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fs.WalkDir(tree.FS, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			if d.IsDir() {
				if entries, _ := fs.ReadDir(tree.FS, p); len(entries) == 0 && p != "." {
					t.Fatalf("folder %s is empty", p)
				}
				return nil
			}
			data, err := fs.ReadFile(tree.FS, p)
			got[p] = string(data)
			return err
		})
		if diff := cmp.Diff(model, got); diff != "" {
			t.Fatal(diff)
		}
		if round%8 == 0 {
			if out, err := run(repo, nil, "fsck", "--strict", "--full"); err != nil {
				t.Fatal(out)
			}
		}
	})
}

func TestCommitOnAnythingButTheHeadIsAConflict(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir()})
	first := commit1(t, s, "", "a=1")
	second := commit1(t, s, first, "a=2")
	for _, base := range []gitstate.Revision{"", first, "nonsense"} {
		if _, err := s.Commit(t.Context(), base, changes("a=3"), message("m")); !errors.Is(err, gitstate.ErrConflict) {
			t.Errorf("commit on %q: %v, want %v", base, err, gitstate.ErrConflict)
		}
	}
	// A person's git may move the branch in the clone itself.
	git(t, s.o.Dir, "update-ref", "refs/heads/"+branch, string(first))
	if _, err := s.Commit(t.Context(), second, changes("a=3"), message("m")); !errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("commit on a branch that was moved: %v, want %v", err, gitstate.ErrConflict)
	}
	tree := load(t, s)
	wantText(t, tree.FS, "a=1")
	commit1(t, s, tree.Head, "a=4")
}

func TestTwoStoresLoseNothingInARace(t *testing.T) {
	t.Parallel()
	const each = 50
	w := newWorld(t)
	server := gittest.ServeHTTP(t, w.dir, gittest.HTTPOptions{})
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		o := w.options(name)
		o.Remote = newRemote(t, server.URL)
		s := openStore(t, o)
		// A file of its own for each commit shows that none is lost; all change one file, so that each race is a real one.
		decide := func(i int) error {
			tree, err := s.Load(t.Context())
			if err != nil || tree.Offline != nil {
				return errors.Join(err, tree.Offline)
			}
			own := fmt.Sprintf("%s/%02d", name, i)
			if _, err := fs.Stat(tree.FS, own); err == nil {
				return s.Push(t.Context()) // replayed on what was in the way
			}
			if _, err := s.Commit(t.Context(), tree.Head, changes(own+"=x last="+own), message(own)); err != nil {
				return err
			}
			return s.Push(t.Context())
		}
		wg.Go(func() {
			for i := range each {
				for tries := 1; ; tries++ {
					err := decide(i)
					if err == nil {
						break
					}
					// A server with its hands full may refuse for other reasons than having been moved.
					if !errors.Is(err, gitstate.ErrConflict) && !errors.Is(err, remote.ErrRefused) || tries > 1000 {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	fsck(t, w.dir)
	if merges := git(t, w.dir, "rev-list", "--merges", branch); merges != "" {
		t.Errorf("the history is not linear: %s", merges)
	}
	var want []string
	for _, name := range []string{"a", "b"} {
		for i := range each {
			want = append(want, fmt.Sprintf("%s/%02d", name, i))
		}
	}
	got := strings.Split(git(t, w.dir, "log", "--format=%s", branch), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	files := strings.Split(git(t, w.dir, "ls-tree", "-r", "--name-only", branch, "a/", "b/"), "\n")
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestAfterAnOutageTheSameCommitsArePushed(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	base := commit1(t, s, load(t, s).Head, "a=1")
	push(t, s)
	w.remote.down = true
	tree := load(t, s)
	if !errors.Is(tree.Offline, errDown) || tree.Head != base {
		t.Fatalf("offline: %+v", tree)
	}
	second := commit1(t, s, base, "a=2")
	third := commit1(t, s, second, "a=3")
	if err := s.Push(t.Context()); !errors.Is(err, errDown) {
		t.Fatalf("push without a remote: %v", err)
	}
	s.Close()
	s = w.open("a") // a restart in between
	if tree := load(t, s); tree.Head != third || tree.Unpushed != 2 || tree.Remote != base || tree.Offline == nil {
		t.Fatalf("after a restart: %+v", tree)
	}
	w.remote.down = false
	if tree := load(t, s); tree.Head != third || tree.Unpushed != 2 || tree.Offline != nil {
		t.Fatalf("the remote is back: %+v", tree)
	}
	push(t, s)
	if got, want := git(t, w.dir, "rev-list", branch), string(third+"\n"+second+"\n"+base); got != want {
		t.Errorf("the remote has %s, want %s", got, want)
	}
	if tree := load(t, s); tree.Unpushed != 0 || tree.Remote != third {
		t.Errorf("after the push: %+v", tree)
	}
}

func TestOursIsReplayedOnWhatAPersonPushedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name              string
		ours              []string
		theirs            [][]string
		wantText, wantLog string
		wantUnpushed      int
	}{
		{
			name:         "different files",
			ours:         []string{"b=2", "c/d=3"},
			theirs:       [][]string{{"write", "p", "x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=1 b=2 c/d=3 c/x=1 p=x",
			wantLog:      "set c/d=3; set b=2; person; set a=1 c/x=1",
			wantUnpushed: 2,
		},
		{
			name:         "the same file stays theirs",
			ours:         []string{"a=2 b=2", "a=3"},
			theirs:       [][]string{{"write", "a", "x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=x b=2 c/x=1",
			wantLog:      "set a=2 b=2; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
		{
			name:     "nothing is left of ours",
			ours:     []string{"a=2"},
			theirs:   [][]string{{"write", "a", "2"}, {"commit", "-q", "-m", "person"}},
			wantText: "a=2 c/x=1",
			wantLog:  "person; set a=1 c/x=1",
		},
		{
			name:         "a file of theirs where we have a folder",
			ours:         []string{"d/e=1 b=2"},
			theirs:       [][]string{{"write", "d", "x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=1 b=2 c/x=1 d=x",
			wantLog:      "set d/e=1 b=2; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
		{
			name:         "a folder of theirs where we have a file",
			ours:         []string{"d=1 b=2"},
			theirs:       [][]string{{"write", "d/e/f", "x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=1 b=2 c/x=1 d/e/f=x",
			wantLog:      "set d=1 b=2; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
		{
			name:         "they removed, we changed",
			ours:         []string{"c/x=2 b=2"},
			theirs:       [][]string{{"rm", "-q", "c/x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=1 b=2",
			wantLog:      "set c/x=2 b=2; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
		{
			name:         "we removed",
			ours:         []string{"c/x-"},
			theirs:       [][]string{{"write", "p", "x"}, {"commit", "-q", "-m", "person"}},
			wantText:     "a=1 p=x",
			wantLog:      "set c/x-; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
		{
			name:         "they merged",
			ours:         []string{"b=2"},
			theirs:       [][]string{{"checkout", "-q", "-b", "side"}, {"write", "p", "x"}, {"commit", "-q", "-m", "person"}, {"checkout", "-q", branch}, {"merge", "-q", "--no-ff", "-m", "merge", "side"}},
			wantText:     "a=1 b=2 c/x=1 p=x",
			wantLog:      "set b=2; merge; person; set a=1 c/x=1",
			wantUnpushed: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.open("a")
			head := commit1(t, s, load(t, s).Head, "a=1 c/x=1")
			push(t, s)
			w.remote.down = true
			for _, text := range c.ours {
				head = commit1(t, s, head, text)
			}
			w.person(c.theirs...)
			theirs := w.head()
			w.remote.down = false
			if err := s.Push(t.Context()); !errors.Is(err, gitstate.ErrConflict) {
				t.Fatalf("push: %v, want %v", err, gitstate.ErrConflict)
			}
			tree := load(t, s)
			wantText(t, tree.FS, c.wantText)
			wantSubjects(t, s.o.Dir, string(tree.Head), c.wantLog)
			if tree.Unpushed != c.wantUnpushed || tree.Remote != theirs || tree.Rewritten != "" {
				t.Errorf("%+v, want %d unpushed on %s", tree, c.wantUnpushed, theirs)
			}
			if again := load(t, s); again.Head != tree.Head {
				t.Error("a second Load moved the branch")
			}
			push(t, s)
			if w.head() != tree.Head {
				t.Error("the push did not arrive")
			}
			fsck(t, w.dir)
			fsck(t, s.o.Dir)
		})
	}
}

func TestAReplayedCommitKeepsItsMessageAndTime(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	head := commit1(t, s, load(t, s).Head, "a=1")
	push(t, s)
	m := Message{Subject: "failover(x): a -> b", Body: "because", Trailers: []Trailer{{"Godwit-Time", "now"}}, When: noon}
	before, err := s.Commit(t.Context(), head, changes("b=1"), m)
	if err != nil {
		t.Fatal(err)
	}
	w.person([]string{"write", "p", "x"}, []string{"commit", "-q", "-m", "person"})
	tree := load(t, s)
	show := func(rev gitstate.Revision) string {
		return git(t, s.o.Dir, "show", "-s", "--format=%an %ae %ai %cn %ce %ci %B", string(rev))
	}
	if tree.Head == before || show(tree.Head) != show(before) {
		t.Errorf("replayed as %s, was %s", show(tree.Head), show(before))
	}
}

func TestARewrittenBranchIsReportedAndOursGoesOnTop(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	first := commit1(t, s, load(t, s).Head, "a=1")
	second := commit1(t, s, first, "a=2 b=1")
	push(t, s)
	w.remote.down = true
	commit1(t, s, second, "c=1")
	w.remote.down = false
	w.person([]string{"reset", "-q", "--hard", string(first)})
	tree := load(t, s)
	if tree.Rewritten != second || tree.Unpushed != 1 || tree.Remote != first {
		t.Errorf("rewound: %+v, want %s rewritten", tree, second)
	}
	wantText(t, tree.FS, "a=1 c=1")
	wantSubjects(t, s.o.Dir, string(tree.Head), "set c=1; set a=1")
	push(t, s)
	if again := load(t, s); again.Rewritten != "" {
		t.Error("a rewrite was reported twice")
	}

	w.person([]string{"checkout", "-q", "--orphan", "fresh"}, []string{"write", "z", "9"}, []string{"commit", "-q", "-m", "fresh"})
	was := tree.Head
	tree = load(t, s)
	if tree.Rewritten != was || tree.Unpushed != 0 || tree.Head != w.head() {
		t.Errorf("replaced: %+v", tree)
	}
	commit1(t, s, tree.Head, "y=1")
	push(t, s)
	fsck(t, w.dir)
}

func TestADeletedBranchIsPushedAgain(t *testing.T) {
	remotes(t, func(t *testing.T, w *world, r Remote) {
		o := w.options("a")
		o.Remote = r
		s := openStore(t, o)
		head := commit1(t, s, load(t, s).Head, "a=1")
		head = commit1(t, s, head, "b=1")
		push(t, s)
		git(t, w.dir, "update-ref", "-d", "refs/heads/"+branch)
		git(t, w.dir, "gc", "-q", "--prune=now")
		tree := load(t, s)
		if tree.Head != head || tree.Remote != "" || tree.Unpushed != 2 {
			t.Errorf("deleted: %+v", tree)
		}
		push(t, s)
		if w.head() != head {
			t.Error("the branch did not come back")
		}
		fsck(t, w.dir)
		// And the same if the process does not know yet.
		git(t, w.dir, "update-ref", "-d", "refs/heads/"+branch)
		s.Close()
		s = openStore(t, o)
		head = commit1(t, s, head, "c=1")
		if err := s.Push(t.Context()); !errors.Is(err, gitstate.ErrConflict) {
			t.Errorf("push to a deleted branch: %v, want %v", err, gitstate.ErrConflict)
		}
		load(t, s)
		push(t, s)
		if w.head() != head {
			t.Error("the branch did not come back after a restart")
		}
	})
}

func TestWhoCreatesTheBranchSecondHasAConflict(t *testing.T) {
	remotes(t, func(t *testing.T, w *world, r Remote) {
		var stores []*Store
		for _, name := range []string{"a", "b"} {
			o := w.options(name)
			o.Remote = r
			s := openStore(t, o)
			commit1(t, s, load(t, s).Head, name+"=1 both="+name)
			stores = append(stores, s)
		}
		push(t, stores[0])
		if err := stores[1].Push(t.Context()); !errors.Is(err, gitstate.ErrConflict) {
			t.Fatalf("got %v, want %v", err, gitstate.ErrConflict)
		}
		tree := load(t, stores[1])
		wantText(t, tree.FS, "a=1 b=1 both=a")
		push(t, stores[1])
		fsck(t, w.dir)
	})
}

func TestWhatThePushDidCountsNotWhatItSaid(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	commit1(t, s, load(t, s).Head, "a=1")
	w.remote.lost = true
	if err := s.Push(t.Context()); err != nil {
		t.Errorf("the answer got lost, the push did not: %v", err)
	}
	w.remote.lost = false
	if tree := load(t, s); tree.Unpushed != 0 {
		t.Errorf("%+v", tree)
	}
	commit1(t, s, w.head(), "a=2")
	w.remote.beforePush = func() { w.remote.down = true }
	if err := s.Push(t.Context()); !errors.Is(err, errDown) || errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("the network broke: %v", err)
	}
	refused := errors.New("hook declined")
	s.o.Remote = refusing{w.remote, refused}
	w.remote.down = false
	if err := s.Push(t.Context()); !errors.Is(err, refused) || errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("refused: %v", err)
	}
}

type refusing struct {
	*gitRemote
	err error
}

func TestAnUnknownBranchIsNotCommittedTo(t *testing.T) {
	w := newWorld(t)
	a := w.open("a")
	commit1(t, a, load(t, a).Head, "a=1")
	push(t, a)
	w.remote.down = true
	s := w.open("b")
	tree := load(t, s)
	if tree.Head != "" || tree.Offline == nil {
		t.Fatalf("never read: %+v", tree)
	}
	if _, err := s.Commit(t.Context(), "", changes("a=2"), message("m")); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want %v", err, ErrUnknown)
	}
	w.remote.down = false
	commit1(t, s, load(t, s).Head, "a=2")
}

func TestAPersonsRevertIsRead(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	head := commit1(t, s, load(t, s).Head, "bindings/web=kube03 works/kube03/web=x")
	head = commit1(t, s, head, "bindings/web=kube02 works/kube03/web- works/kube02/web=x")
	push(t, s)
	w.person([]string{"revert", "--no-edit", string(head)})
	tree := load(t, s)
	wantText(t, tree.FS, "bindings/web=kube03 works/kube03/web=x")
	if tree.Unpushed != 0 || tree.Head != w.head() {
		t.Errorf("%+v", tree)
	}
	for c, err := range s.Log(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		want := `Revert "set bindings/web=kube02 works/kube03/web- works/kube02/web=x"`
		if c.Subject != want || c.Author.Name != "a person" || c.Parent != head || c.Body != "This reverts commit "+string(head)+"." {
			t.Errorf("read as %+v", c)
		}
		break
	}
	commit1(t, s, tree.Head, "bindings/web=kube01")
	push(t, s)
}

func TestLogAndAtWalkTheHistory(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir(), Author: Signature{"the <fleet>", "f@example.com"}})
	for range s.Log(t.Context(), "") {
		t.Error("an empty branch has a history")
	}
	var heads []gitstate.Revision
	head := gitstate.Revision("")
	for i := range 5 {
		head = commit1(t, s, head, fmt.Sprint("a=", i))
		heads = append(heads, head)
	}
	var got []Commit
	for c, err := range s.Log(t.Context(), heads[3]) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if len(got) != 4 {
		t.Fatalf("%d commits, want 4", len(got))
	}
	want := Commit{heads[3], heads[2], "set a=3", "", []Trailer{{"Godwit-Reason", "PolicyChange"}}, noon, Signature{"the fleet", "f@example.com"}, got[0].Tree, got[0].Object}
	if raw := git(t, s.o.Dir, "cat-file", "commit", string(heads[3])); raw != strings.TrimSpace(string(got[0].Object)) || !strings.HasPrefix(raw, "tree "+got[0].Tree.String()) {
		t.Errorf("the object is %q with the tree %s, want %q", got[0].Object, got[0].Tree, raw)
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if got[3].Parent != "" {
		t.Errorf("the root has the parent %s", got[3].Parent)
	}
	for rev, want := range map[string]string{
		"": "a=4", "HEAD": "a=4", branch: "a=4", "HEAD~4": "a=0", "~1": "a=3",
		string(heads[1]): "a=1", string(heads[1][:12]): "a=1", strings.ToUpper(string(heads[1][:7])) + "~1": "a=0",
	} {
		tree, err := s.At(t.Context(), rev)
		if err != nil {
			t.Fatalf("At(%q): %v", rev, err)
		}
		wantText(t, tree.FS, want)
	}
	blob := git(t, s.o.Dir, "rev-parse", branch+":a")
	for _, rev := range []string{"HEAD~5", "HEAD~x", "HEAD~-1", "main", "abc", "0123456789", blob, strings.Repeat("0", 40), strings.Repeat("a", 41)} {
		if tree, err := s.At(t.Context(), rev); !errors.Is(err, ErrNotFound) {
			t.Errorf("At(%q) = %v, %v, want %v", rev, tree.Head, err, ErrNotFound)
		}
	}
}

func TestACommitIsSignedOverWhatGitVerifies(t *testing.T) {
	w := newWorld(t)
	var signed []string
	o := w.options("a")
	o.Sign = func(b []byte) (string, error) {
		signed = append(signed, string(b))
		return "-----BEGIN SSH SIGNATURE-----\n\nabc\n-----END SSH SIGNATURE-----\n", nil
	}
	s := openStore(t, o)
	head := commit1(t, s, load(t, s).Head, "a=1")
	raw := git(t, o.Dir, "cat-file", "commit", string(head))
	header := "gpgsig -----BEGIN SSH SIGNATURE-----\n \n abc\n -----END SSH SIGNATURE-----\n"
	if !strings.Contains(raw, header) || strings.TrimSpace(strings.Replace(raw, header, "", 1)) != strings.TrimSpace(signed[0]) {
		t.Errorf("signed %q, commit is %q", signed[0], raw)
	}
	push(t, s)
	fsck(t, w.dir)
	commit1(t, s, head, "b=1")
	w.person([]string{"write", "p", "x"}, []string{"commit", "-q", "-m", "person"})
	if raw := git(t, o.Dir, "cat-file", "commit", string(load(t, s).Head)); len(signed) != 3 || strings.Count(raw, header) != 1 {
		t.Errorf("replayed without a new signature: %s", raw)
	}
	s.o.Sign = func([]byte) (string, error) { return "", errors.New("the agent is gone") }
	tree := load(t, s)
	if _, err := s.Commit(t.Context(), tree.Head, changes("c=1"), message("m")); err == nil || load(t, s).Head != tree.Head {
		t.Errorf("a commit that could not be signed was made (%v)", err)
	}
}

func TestACloneHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second store of one branch: %v, want %v", err, ErrInUse)
	}
	other := openStore(t, Options{Dir: dir, Branch: "godwit/other"})
	commit1(t, other, commit1(t, other, "", "a=1"), "a=2")
	commit1(t, s, "", "b=1")
	fsck(t, dir)
	s.Close()
	s.Close()
	openStore(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir, Branch: "a..b"}); err == nil {
		t.Error("an impossible branch was opened")
	}
}

func TestManyPacksBecomeFew(t *testing.T) {
	w := newWorld(t)
	o := w.options("a")
	o.PackLimit = 6
	s := openStore(t, o)
	// A ref of somebody else in the same clone.
	git(t, o.Dir, "fetch", "-q", makeSource(t), "+refs/heads/*:refs/remotes/source/*")
	head := load(t, s).Head
	var middle Tree
	for i := range 60 {
		head = commit1(t, s, head, fmt.Sprintf("a/%d=x b=%d c/d/e=%d", i, i, i))
		if i == 10 {
			middle = load(t, s)
		}
		packs, _ := filepath.Glob(filepath.Join(pack.Dir(o.Dir), "*.pack"))
		if len(packs) > o.PackLimit+1 {
			t.Fatalf("%d packs after commit %d, want at most %d", len(packs), i, o.PackLimit+1)
		}
	}
	push(t, s)
	fsck(t, w.dir)
	fsck(t, o.Dir)
	git(t, o.Dir, "rev-list", "--objects", "--all")
	if got := text(t, middle.FS); !strings.Contains(got, "b=10 ") {
		t.Errorf("a tree read before does not read the same any more: %s", got)
	}
	s.Close()
	if tree := load(t, openStore(t, o)); tree.Head != head {
		t.Errorf("%+v", tree)
	}

	// A standby that only reads gets a pack with each fetch, or loose objects, and does not drown either.
	standby := openStore(t, Options{Remote: newRemote(t, w.dir), Dir: filepath.Join(w.folder, "standby"), PackLimit: 4})
	leader := w.open("leader")
	head = load(t, leader).Head
	for i := range 12 {
		head = commit1(t, leader, head, fmt.Sprint("b=", i))
		push(t, leader)
		if tree := load(t, standby); tree.Head != head {
			t.Fatal("the standby does not follow")
		}
	}
	if packs, _ := filepath.Glob(filepath.Join(pack.Dir(standby.o.Dir), "*.pack")); len(packs) > 4 {
		t.Errorf("the standby has %d packs", len(packs))
	}
	fsck(t, standby.o.Dir)
}

func makeSource(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(strings.Repeat("line\n", 100)+fmt.Sprint(i)), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", fmt.Sprint(i))
	}
	return dir
}

func TestManyGoroutinesMayUseAStore(t *testing.T) {
	w := newWorld(t)
	s := openStore(t, Options{Remote: newRemote(t, w.dir), Dir: filepath.Join(w.folder, "a"), PackLimit: 3})
	tree := load(t, s)
	commit1(t, s, tree.Head, "n=0 a/b=1 c/d/e=2")
	tree = load(t, s)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 10 {
				now, err := s.Load(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Commit(t.Context(), now.Head, changes(fmt.Sprintf("g%d=%d", g, i)), message("m")); err != nil && !errors.Is(err, gitstate.ErrConflict) {
					t.Error(err)
				}
				if err := s.Push(t.Context()); err != nil {
					t.Error(err)
				}
				if got := text(t, tree.FS); got != "a/b=1 c/d/e=2 n=0" {
					t.Errorf("an old tree reads %q", got)
				}
				for _, err := range s.Log(t.Context(), "") {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	fsck(t, w.dir)
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	commit1(t, s, load(t, s).Head, "a=1")
	ctx, cancel := context.WithCancel(t.Context())
	w.remote.beforePush = func() {
		cancel()
		if _, err := s.Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Load during a push = %v, want %v", err, context.Canceled)
		}
	}
	push(t, s)
	if _, err := s.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Load with a dead context = %v", err)
	}
}

func TestAServerThatHangsIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	server := gittest.ServeHTTP(t, w.dir, gittest.HTTPOptions{})
	o := w.options("a")
	o.Remote = newRemote(t, server.URL)
	s := openStore(t, o)
	head := commit1(t, s, load(t, s).Head, "a=1")
	s.o.Timeout = 50 * time.Millisecond
	server.Hang(true)
	if tree := load(t, s); tree.Offline == nil || tree.Head != head {
		t.Errorf("a server that hangs: %+v", tree)
	}
	server.Hang(false)
	s.o.Timeout = time.Minute
	server.Outage(true)
	if err := s.Push(t.Context()); err == nil || errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("push in an outage: %v", err)
	}
	server.Outage(false)
	server.Reject("only on Mondays")
	if err := s.Push(t.Context()); !errors.Is(err, remote.ErrRefused) || errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("push against a hook: %v", err)
	}
}

// What each commit changed is what git says it did, and reads the tree on either side.
func TestChangesAreThoseThatGitSees(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	head := load(t, s).Head
	for _, edits := range []string{"A/a=1 A/b=1 B/c/d=1 e=1", "A/b=2 f=1", "B/c/d- A/c=1", "e- e/f=1 A/a-", "A/b=1"} {
		head = commit1(t, s, head, edits)
	}
	push(t, s)
	w.person([]string{"write", "A/b", "3"}, []string{"commit", "-qm", "by hand"}, []string{"commit", "--allow-empty", "-qm", "nothing"},
		[]string{"update-index", "--chmod=+x", "A/b"}, []string{"commit", "-qm", "a mode"})
	load(t, s)
	n := 0
	for c, err := range s.Changes(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		got := []string{}
		for _, f := range c.Files {
			mark := "M"
			switch {
			case f.Before.IsZero():
				mark = "A"
			case f.After.IsZero():
				mark = "D"
			}
			for tree, hash := range map[gitstate.HashFS]string{c.Before: f.Before.String(), c.After: f.After.String()} {
				if at, err := tree.Hash(f.Path); err == nil && at != hash && hash != strings.Repeat("0", 40) {
					t.Errorf("%s: %s has the hash %s, want %s", c.Subject, f.Path, at, hash)
				}
			}
			got = append(got, mark+"\t"+f.Path)
		}
		slices.Sort(got)
		want := strings.Split(git(t, s.o.Dir, "diff-tree", "-r", "--root", "--no-commit-id", "--name-status", string(c.Revision)), "\n")
		want = slices.DeleteFunc(want, func(line string) bool { return line == "" || c.Subject == "a mode" })
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-git +got):\n%s", c.Subject, diff)
		}
		if c.Subject == "by hand" {
			wantText(t, c.Before, "A/b=1 A/c=1 e/f=1 f=1")
			wantText(t, c.After, "A/b=3 A/c=1 e/f=1 f=1")
		}
	}
	if n != 8 {
		t.Errorf("%d commits, want 8", n)
	}
	for _, err := range s.Changes(t.Context(), "abcd1234") {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown commit: %v, want %v", err, ErrNotFound)
		}
	}
}

func TestAViewReadsInPlace(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	head := commit1(t, s, load(t, s).Head, "a=1")
	head = commit1(t, s, head, "a=2")
	push(t, s)
	before := git(t, w.dir, "count-objects", "-v")
	v, err := OpenView(w.dir, s.local)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for rev, want := range map[string]string{"": "a=2", "HEAD~1": "a=1", string(head)[:8]: "a=2"} {
		tree, err := v.At(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, tree.FS, want)
	}
	logged, changed := 0, 0
	for _, err := range v.Log(t.Context(), "") {
		if logged++; err != nil {
			t.Fatal(err)
		}
	}
	for c, err := range v.Changes(t.Context(), "") {
		if changed += len(c.Files); err != nil {
			t.Fatal(err)
		}
	}
	if logged != 2 || changed != 2 {
		t.Errorf("%d commits with %d changes, want 2 with 2", logged, changed)
	}
	if after := git(t, w.dir, "count-objects", "-v"); after != before {
		t.Errorf("reading left %s, was %s", after, before)
	}
	git(t, w.folder, "clone", "-q", "--shared", "--bare", w.dir, "borrower")
	for dir, at := range map[string]string{w.dir: strings.Repeat("12", 20), filepath.Join(w.folder, "borrower"): string(head)} {
		if _, err := OpenView(dir, plumbing.NewHash(at)); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of %s: %v, want %v", at, dir, err, ErrNotFound)
		}
	}
}

// A remote that answers nothing is waited for by who talks to it, and by nobody else.
func TestTheCloneIsOfUseWhileTheRemoteIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	server := gittest.ServeHTTP(t, w.dir, gittest.HTTPOptions{})
	o := w.options("a")
	o.Remote = newRemote(t, server.URL)
	s := openStore(t, o)
	head := commit1(t, s, load(t, s).Head, "a=1")
	if err := s.Push(t.Context()); err != nil {
		t.Fatal(err)
	}

	// silent has the remote take a request, in hand once begin returns, and answer it when the test ends the silence.
	silent := func(begin func() error) (end func() error) {
		t.Helper()
		taken, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		take := sync.OnceFunc(func() { close(taken) })
		server.Answer(func(w http.ResponseWriter, r *http.Request) { take(); <-over; server.Git(w, r) })
		go func() { ended <- begin() }()
		<-taken
		return func() error { server.Answer(nil); close(over); return <-ended }
	}
	var tree Tree
	end := silent(func() (err error) { tree, err = s.Load(t.Context()); return err })
	head = commit1(t, s, head, "a=2")
	if at, err := s.At(t.Context(), string(head)); err != nil || at.Head != head {
		t.Errorf("At while a Load waits = %v, %v", at.Head, err)
	}
	if at, err := s.Local(t.Context()); err != nil || at.Head != head || at.Unpushed != 1 || !errors.Is(at.Offline, ErrNotAsked) {
		t.Errorf("Local while a Load waits = %+v, %v", at, err)
	}
	if err := end(); err != nil || tree.Head != head || tree.Unpushed != 1 {
		t.Errorf("Load = %+v, %v, want what was committed meanwhile", tree, err)
	}

	end = silent(func() error { return s.Push(t.Context()) })
	next := commit1(t, s, head, "a=3")
	if b, err := s.Bundle(t.Context(), ""); err != nil || b.Head != next {
		t.Errorf("Bundle while a Push waits = %v, %v", b.Head, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a Load beside a Push, given up: %v", err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if tree := load(t, s); tree.Head != next || tree.Remote != head || tree.Unpushed != 1 {
		t.Errorf("after the push: %+v, want one commit left of %s", tree, head)
	}
	if err := s.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tree := load(t, s); tree.Head != next || tree.Remote != next || tree.Unpushed != 0 {
		t.Errorf("after the next push: %+v", tree)
	}
}

func TestWhatIsClosedKeepsNoConnection(t *testing.T) {
	w := newWorld(t)
	server := gittest.ServeHTTP(t, w.dir, gittest.HTTPOptions{})
	o := w.options("a")
	o.Remote = newRemote(t, server.URL)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	load(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server.Deserted(t)

	b, err := OpenBoard(newRemote(t, server.URL), t.TempDir(), "agents/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Close()
	server.Deserted(t)
}
