package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
)

type testContext = context.Context

func TestFetchFollowsTheBranch(t *testing.T) {
	repo := gittest.NewRepo(t)
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	s := openSource(t, server.URL, func(o *source.Options) { o.Path = "apps/" })
	if _, err := s.Fetch(t.Context()); !errors.Is(err, remote.ErrEmpty) {
		t.Errorf("Fetch of an empty remote: %v, want ErrEmpty", err)
	}
	first := repo.Commit("main", map[string]string{"apps/a": "1", "other": "x"}, "first\n\nWhy.\n")
	one := fetch(t, s)
	want := gitstate.Snapshot{Revision: gitstate.Revision(first.String()), Branch: "main", FS: one.FS, Message: "first\n\nWhy.\n", Author: "Ada <ada@example.com>"}
	if one != want {
		t.Errorf("Fetch = %v, want %v", one, want)
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, contents(t, one.FS)); diff != "" {
		t.Error(diff)
	}
	second := repo.Commit("main", map[string]string{"apps/a": "2"}, "second")
	two := fetch(t, s)
	if two.Revision != gitstate.Revision(second.String()) {
		t.Errorf("Revision = %s, want %s", two.Revision, second)
	}
	before := server.Requests("")
	fetch(t, s)
	if n := server.Requests("") - before; n != 1 {
		t.Errorf("an unchanged branch cost %d requests, want 1", n)
	}
	// Rewound, and the first snapshot still stands.
	repo.SetRef("refs/heads/main", first)
	if got := fetch(t, s); got.Revision != one.Revision {
		t.Errorf("after a rewind: %s, want %s", got.Revision, one.Revision)
	}
	if diff := cmp.Diff(map[string]string{"a": "2"}, contents(t, two.FS)); diff != "" {
		t.Error(diff)
	}
	// The default branch may change.
	repo.Commit("trunk", map[string]string{"apps/t": "t"}, "trunk")
	repo.Git("symbolic-ref", "HEAD", "refs/heads/trunk")
	if got := fetch(t, s); got.Branch != "trunk" {
		t.Errorf("Branch = %s, want trunk", got.Branch)
	}
}

func TestWhatIsNotThereIsSaid(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"file": "1"}, "first")
	for _, test := range []struct {
		branch, path string
		want         error
	}{
		{"none", "", remote.ErrNotFound},
		{"", "none", fs.ErrNotExist},
		{"main", "file", nil},
	} {
		s := openSource(t, repo.Dir, func(o *source.Options) { o.Branch, o.Path = test.branch, test.path })
		if _, err := s.Fetch(t.Context()); err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("branch %q, path %q: %v, want %v", test.branch, test.path, err, test.want)
		}
	}
	for _, path := range []string{"..", "../x", "/etc", "a/../../b"} {
		if _, err := source.Open(source.Options{Path: path, Dir: t.TempDir()}); !errors.Is(err, source.ErrOutside) {
			t.Errorf("path %q: %v, want ErrOutside", path, err)
		}
	}
}

func TestAt(t *testing.T) {
	repo := gittest.NewRepo(t)
	var all []plumbing.Hash
	for i := range 4 {
		all = append(all, repo.Commit("main", map[string]string{"f": fmt.Sprint(i + 1)}, fmt.Sprint(i)))
	}
	side := repo.CommitTree("side", repo.Tree(), "side", all[0])
	merge := repo.CommitTree("merged", repo.Tree(), "merge", all[3], side)
	repo.Git("tag", "-a", "-m", "annotated", "v1", all[1].String())
	repo.Git("tag", "light", all[2].String())
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	s := openSource(t, server.URL, nil)
	for _, test := range []struct {
		rev    string
		want   plumbing.Hash // zero for ErrNotFound
		branch string
	}{
		{"HEAD", all[3], "main"}, // before the first fetch
		{"HEAD~1", all[2], "main"},
		{"HEAD~", all[2], "main"},
		{"HEAD^", all[2], "main"},
		{"HEAD~0", all[3], "main"},
		{"main~2", all[1], "main"},
		{"main^^~", all[0], "main"},
		{"main~4", plumbing.ZeroHash, ""},
		{"main^2", plumbing.ZeroHash, ""},
		{all[1].String(), all[1], ""},
		{all[1].String()[:7], all[1], ""},
		{all[1].String()[:8] + "~", all[0], ""},
		{side.String(), side, ""}, // not here yet
		{"side", side, "side"},
		{"merged^2", side, "merged"},
		{"merged^1~", all[2], "merged"},
		{merge.String()[:10], merge, ""},
		{"v1", all[1], ""},
		{"v1^", all[0], ""},
		{"light", all[2], ""},
		{"none", plumbing.ZeroHash, ""},
		{"", plumbing.ZeroHash, ""},
		{"~1", plumbing.ZeroHash, ""},
		{strings.Repeat("1", 40), plumbing.ZeroHash, ""},
		{"-x", plumbing.ZeroHash, ""},
		{"main~99999999999999999999", plumbing.ZeroHash, ""},
	} {
		got, err := s.At(t.Context(), test.rev)
		if test.want.IsZero() {
			if err == nil {
				t.Errorf("At(%q) = %s, want an error", test.rev, got.Revision)
			}
			continue
		}
		if err != nil || got.Revision != gitstate.Revision(test.want.String()) || got.Branch != test.branch {
			t.Errorf("At(%q) = %s of %q, %v, want %s of %q", test.rev, got.Revision, got.Branch, err, test.want, test.branch)
		}
	}
	// What is here needs no remote.
	server.Outage(true)
	for _, rev := range []string{"HEAD", "HEAD~2", all[0].String()[:6]} {
		if _, err := s.At(t.Context(), rev); err != nil {
			t.Errorf("At(%q) in an outage: %v", rev, err)
		}
	}
	if _, err := s.Fetch(t.Context()); err == nil {
		t.Error("Fetch in an outage: no error")
	}
}

func TestSecondOwnerIsToldWhoTheFirstIs(t *testing.T) {
	o := source.Options{Dir: t.TempDir()}
	first, err := source.Open(o)
	must(t, err)
	if _, err := source.Open(o); !errors.Is(err, source.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrLocked with the process", err)
	}
	must(t, first.Close())
	again, err := source.Open(o)
	must(t, err)
	must(t, again.Close())
}

func TestDamagedCloneIsReplaced(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("line\n", 1000)
	for name, damage := range map[string]func(t *testing.T, clone string){
		"nothing": func(*testing.T, string) {},
		"empty ref": func(t *testing.T, clone string) {
			must(t, os.WriteFile(filepath.Join(clone, "refs/remotes/origin/main"), nil, 0o644))
		},
		"ref to nothing": func(t *testing.T, clone string) {
			must(t, os.WriteFile(filepath.Join(clone, "refs/remotes/origin/main"), []byte(strings.Repeat("1", 40)+"\n"), 0o644))
		},
		"no packs": func(t *testing.T, clone string) { must(t, os.RemoveAll(filepath.Join(clone, "objects/pack"))) },
		"no objects": func(t *testing.T, clone string) {
			must(t, os.RemoveAll(filepath.Join(clone, "objects")))
		},
		"empty pack": func(t *testing.T, clone string) { change(t, clone, "*.pack", func([]byte) []byte { return nil }) },
		"pack cut short": func(t *testing.T, clone string) {
			change(t, clone, "*.pack", func(b []byte) []byte { return b[:len(b)/2] })
		},
		"pack of zeros": func(t *testing.T, clone string) {
			change(t, clone, "*.pack", func(b []byte) []byte { clear(b[12 : len(b)-20]); return b })
		},
		"empty index": func(t *testing.T, clone string) { change(t, clone, "*.idx", func([]byte) []byte { return nil }) },
		"index of nonsense": func(t *testing.T, clone string) {
			change(t, clone, "*.idx", func(b []byte) []byte { copy(b[8+1024:], make([]byte, 20*4)); return b })
		},
		"no HEAD": func(t *testing.T, clone string) { must(t, os.Remove(filepath.Join(clone, "HEAD"))) },
		"left locks": func(t *testing.T, clone string) {
			must(t, os.WriteFile(filepath.Join(clone, "refs/remotes/origin/main.lock"), nil, 0o644))
			must(t, os.MkdirAll(filepath.Join(filepath.Dir(clone), "fresh/objects"), 0o755))
		},
	} {
		for _, restarted := range []bool{true, false} {
			for _, moved := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/restarted=%t/moved=%t", name, restarted, moved), func(t *testing.T) {
					if name == "left locks" && !restarted {
						return // a crash of somebody else
					}
					repo := gittest.NewRepo(t)
					repo.Commit("main", map[string]string{"a/b": "1", "big": big}, "first")
					dir := t.TempDir()
					r, err := remote.New(remote.Options{URL: repo.Dir})
					must(t, err)
					s, err := source.Open(source.Options{Remote: r, Dir: dir})
					must(t, err)
					defer func() { s.Close() }()
					fetch(t, s)
					if restarted {
						must(t, s.Close())
					}
					damage(t, filepath.Join(dir, "repo"))
					if restarted {
						if s, err = source.Open(source.Options{Remote: r, Dir: dir}); err != nil {
							t.Fatal(err)
						}
					}
					want := map[string]string{"a/b": "1", "big": big}
					if moved {
						repo.Commit("main", map[string]string{"c": "2"}, "second")
						want["c"] = "2"
					}
					// Damage that only reading shows is healed by the next fetch.
					snapshot, err := s.Fetch(t.Context())
					if err == nil {
						fs.WalkDir(snapshot.FS, ".", func(name string, d fs.DirEntry, err error) error {
							fs.ReadFile(snapshot.FS, name)
							return nil
						})
					}
					if diff := cmp.Diff(want, contents(t, fetch(t, s).FS)); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	}
}

// change rewrites the files of a clone's packs.
func change(t *testing.T, clone, pattern string, edit func([]byte) []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(clone, "objects/pack", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s (%v)", pattern, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		must(t, err)
		must(t, os.Chmod(name, 0o644))
		must(t, os.WriteFile(name, edit(content), 0o644))
	}
}

func TestRemoteThatIsDamagedItselfIsNotClonedForEver(t *testing.T) {
	repo := gittest.NewRepo(t)
	blob := repo.Object(plumbing.BlobObject, []byte("x"))
	repo.CommitTree("main", repo.Object(plumbing.TreeObject, fmt.Appendf(nil, "77777777777777777100644 f\x00%s", blob[:])), "malformed tree")
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	s := openSource(t, server.URL, nil)
	var counts []int
	for range 3 {
		if _, err := s.Fetch(t.Context()); !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("Fetch: %v, want ErrDamaged", err)
		}
		counts = append(counts, server.Requests("git-upload-pack?"))
	}
	if counts[1] != counts[0] || counts[2] != counts[0] {
		t.Errorf("packs fetched after each try: %v, want no more after the first", counts)
	}
}

func TestManyFetchesLeaveFewPacks(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	dir := t.TempDir()
	s := openSource(t, repo.Dir, func(o *source.Options) { o.Dir = dir })
	want := map[string]string{}
	var first gitstate.Snapshot
	for i := range 40 {
		name := fmt.Sprintf("f%d", i)
		want[name] = fmt.Sprint(i)
		repo.Commit("main", map[string]string{name: want[name]}, name)
		snapshot := fetch(t, s)
		if i == 0 {
			first = snapshot
		}
	}
	packs, err := filepath.Glob(filepath.Join(dir, "repo/objects/pack/*.pack"))
	if len(packs) > 31 || err != nil {
		t.Errorf("%d packs (%v), want at most 31", len(packs), err)
	}
	if diff := cmp.Diff(want, contents(t, fetch(t, s).FS)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"f0": "0"}, contents(t, first.FS)); diff != "" {
		t.Error(diff)
	}
	gittest.At(t, filepath.Join(dir, "repo")).Git("fsck", "--strict")
}

func TestCancelledFetchEnds(t *testing.T) {
	repo := gittest.NewRepo(t)
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	server.Answer(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := openSource(t, server.URL, nil).Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch: %v, want context.Canceled", err)
	}
}

func BenchmarkReadAll1200Files(b *testing.B) {
	repo := gittest.NewRepo(b)
	files := map[string]string{}
	for i := range 1200 {
		files[fmt.Sprintf("apps/%d/deployment.yaml", i)] = strings.Repeat(fmt.Sprintf("key%d: value\n", i), 100)
	}
	repo.Commit("main", files, "first")
	s := openSource(b, repo.Dir, nil)
	b.Run("fetch unchanged", func(b *testing.B) {
		for b.Loop() {
			fetch(b, s)
		}
	})
	tree := fetch(b, s).FS
	b.Run("walk and read", func(b *testing.B) {
		for b.Loop() {
			if got := contents(b, tree); len(got) != len(files) {
				b.Fatalf("%d files", len(got))
			}
		}
	})
	folder := folderOf(b, files)
	b.Run("folder unchanged", func(b *testing.B) {
		for b.Loop() {
			fetch(b, folder)
		}
	})
}

// A remote that answers nothing is waited for by who talks to it, and by nobody else.
func TestTheCloneIsReadWhileTheRemoteIsWaitedFor(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := repo.Commit("main", map[string]string{"f": "1"}, "1")
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	s := openSource(t, server.URL, nil)
	fetch(t, s)
	second := repo.Commit("main", map[string]string{"f": "2"}, "2")
	for _, request := range []string{"info/refs", "git-upload-pack"} { // it is asked what it has, and for that
		taken, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		take := sync.OnceFunc(func() { close(taken) })
		server.Answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, request) {
				take()
				<-over
			}
			server.Git(w, r)
		})
		var got gitstate.Snapshot
		go func() {
			var err error
			got, err = s.Fetch(t.Context())
			ended <- err
		}()
		<-taken
		at, err := s.At(t.Context(), first.String())
		must(t, err)
		if text, err := fs.ReadFile(at.FS, "f"); err != nil || string(text) != "1" {
			t.Errorf("%s: f of the first commit = %q, %v", request, text, err)
		}
		if ok, err := s.Descends(t.Context(), gitstate.Revision(first.String()), gitstate.Revision(first.String())); !ok || err != nil {
			t.Errorf("%s: Descends = %v, %v", request, ok, err)
		}
		server.Answer(nil)
		close(over)
		must(t, <-ended)
		if string(got.Revision) != second.String() {
			t.Errorf("%s: Fetch = %s, want %s", request, got.Revision, second)
		}
		second = repo.Commit("main", map[string]string{"f": request}, request)
	}
}

func TestAClosedSourceKeepsNoConnection(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"f": "1"}, "1")
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	r, err := remote.New(remote.Options{URL: server.URL})
	must(t, err)
	s, err := source.Open(source.Options{Remote: r, Dir: t.TempDir()})
	must(t, err)
	fetch(t, s)
	must(t, s.Close())
	server.Deserted(t)
}
