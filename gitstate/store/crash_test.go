package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// crashEnv tells a copy of the test binary to play a scenario in a folder and to die at a step of it.
const crashEnv = "GODWIT_STORE_CRASH"

func TestMain(m *testing.M) {
	if order := os.Getenv(crashEnv); order != "" {
		scenario, rest, _ := strings.Cut(order, ":")
		step, folder, _ := strings.Cut(rest, ":")
		left, _ := strconv.Atoi(step)
		err := play(scenario, folder, func(string) {
			if left--; left < 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scenarios are what a process does that may die at any step of it. Each can be done again after it was.
var scenarios = map[string]struct {
	// before makes the world it begins in; dir is the clone.
	before func(t *testing.T, w *world, dir string)
	limit  int
	commit string
	// want is the text of the tree in the end, and the subjects of the history.
	want, subjects string
	// steps are all fault points passed.
	steps string
}{
	"first": {
		before:   func(*testing.T, *world, string) {},
		commit:   "a=1",
		want:     "a=1",
		subjects: "set a=1",
		steps: "commit.objects-written commit.pack-renamed commit.index-renamed commit.ref-moved " +
			"push.sent push.tracked",
	},
	"replay": {
		before: func(t *testing.T, w *world, dir string) {
			s := openStore(t, Options{Remote: w.remote, Dir: dir})
			head := commit1(t, s, load(t, s).Head, "a=1")
			push(t, s)
			commit1(t, s, commit1(t, s, head, "a=2 b=1"), "b=2")
			w.person([]string{"write", "a", "person"}, []string{"commit", "-q", "-m", "person"})
			s.Close()
		},
		commit:   "c/d=3",
		want:     "a=person b=2 c/d=3",
		subjects: "set c/d=3; set b=2; set a=2 b=1; person; set a=1",
		steps: "load.fetched load.objects-written load.pack-renamed load.index-renamed load.ref-moved load.tracked " +
			"commit.objects-written commit.pack-renamed commit.index-renamed commit.ref-moved push.sent push.tracked",
	},
	"rewound": {
		before: func(t *testing.T, w *world, dir string) {
			s := openStore(t, Options{Remote: w.remote, Dir: dir})
			first := commit1(t, s, load(t, s).Head, "a=1")
			second := commit1(t, s, first, "a=2")
			push(t, s)
			commit1(t, s, second, "b=1")
			w.person([]string{"reset", "-q", "--hard", string(first)})
			s.Close()
		},
		commit:   "c=1",
		want:     "a=1 b=1 c=1",
		subjects: "set c=1; set b=1; set a=1",
		steps: "load.fetched load.objects-written load.pack-renamed load.index-renamed load.ref-moved load.tracked " +
			"commit.objects-written commit.pack-renamed commit.index-renamed commit.ref-moved push.sent push.tracked",
	},
	"consolidate": {
		before: func(t *testing.T, w *world, dir string) {
			s := openStore(t, Options{Remote: w.remote, Dir: dir})
			head := load(t, s).Head
			for i := range 4 {
				head = commit1(t, s, head, fmt.Sprintf("a=%d", i))
			}
			push(t, s)
			s.Close()
		},
		limit:    3,
		commit:   "c=1",
		want:     "a=3 c=1",
		subjects: "set c=1; set a=3; set a=2; set a=1; set a=0",
		steps: "consolidate.objects-written consolidate.pack-renamed consolidate.index-renamed " +
			"consolidate.pack-removed consolidate.pack-removed consolidate.pack-removed consolidate.pack-removed " +
			"commit.objects-written commit.pack-renamed commit.index-renamed commit.ref-moved push.sent push.tracked",
	},
	"damaged": {
		before: func(t *testing.T, w *world, dir string) {
			s := openStore(t, Options{Remote: w.remote, Dir: dir})
			commit1(t, s, load(t, s).Head, "a=1")
			push(t, s)
			s.Close()
			if err := os.WriteFile(filepath.Join(dir, "refs/heads", branch), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		commit:   "c=1",
		want:     "a=1 c=1",
		subjects: "set c=1; set a=1",
		steps: "open.aside-refs open.aside-HEAD open.aside-config open.aside-objects load.fetched load.ref-moved load.tracked " +
			"commit.objects-written commit.pack-renamed commit.index-renamed commit.ref-moved push.sent push.tracked",
	},
}

// play runs a scenario in a folder that holds the remote and the clone.
func play(name, folder string, at func(step string)) error {
	r, err := remote.New(remote.Options{URL: filepath.Join(folder, "remote.git")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Remote: r, Dir: filepath.Join(folder, "clone"), PackLimit: scenarios[name].limit, At: at})
	if err != nil {
		return err
	}
	defer s.Close()
	tree, err := s.Load(ctx)
	if err != nil {
		return err
	}
	text := scenarios[name].commit
	if _, err := s.Commit(ctx, tree.Head, changes(text), message("set "+text)); err != nil {
		return err
	}
	return s.Push(ctx)
}

func TestAKilledProcessLeavesTheOldOrTheNew(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scenario.before(t, w, filepath.Join(w.folder, "clone"))
			fresh := func() string {
				folder := t.TempDir()
				for _, dir := range []string{"remote.git", "clone"} {
					if _, err := os.Stat(filepath.Join(w.folder, dir)); err == nil {
						if err := os.CopyFS(filepath.Join(folder, dir), os.DirFS(filepath.Join(w.folder, dir))); err != nil {
							t.Fatal(err)
						}
					}
				}
				return folder
			}
			local := func(folder string) plumbing.Hash {
				h, err := remote.ReadRef(filepath.Join(folder, "clone"), "refs/heads/"+branch)
				if err != nil && !errors.Is(err, remote.ErrNotFound) && !errors.Is(err, remote.ErrDamaged) {
					t.Fatal(err)
				}
				return h
			}
			// Once without a crash, to know all steps, and where the branch may be.
			folder := fresh()
			heads := []plumbing.Hash{local(folder)}
			var steps []string
			if err := play(name, folder, func(step string) {
				steps = append(steps, step)
				heads = append(heads, local(folder))
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(scenario.steps), steps); diff != "" {
				t.Fatalf("fault points (-want +got):\n%s", diff)
			}
			for i, step := range steps {
				folder := fresh()
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d:%s", crashEnv, name, i, folder))
				if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
					t.Fatalf("%s: the process lived: %s", step, out)
				}
				clone := filepath.Join(folder, "clone")
				if name != "damaged" {
					fsck(t, clone)
				}
				if at := local(folder); !slices.Contains(heads, at) {
					t.Errorf("%s: the branch is at %s", step, at)
				}
				if err := play(name, folder, func(string) {}); err != nil {
					t.Fatalf("after a crash at %s: %v", step, err)
				}
				fsck(t, clone)
				fsck(t, filepath.Join(folder, "remote.git"))
				wantSubjects(t, filepath.Join(folder, "remote.git"), branch, scenario.subjects)
				s := openStore(t, Options{Dir: clone})
				tree := load(t, s)
				wantText(t, tree.FS, scenario.want)
				if got := git(t, filepath.Join(folder, "remote.git"), "rev-parse", branch); gitstate.Revision(got) != tree.Head {
					t.Errorf("%s: the remote is at %s, the clone at %s", step, got, tree.Head)
				}
				s.Close()
				if left, _ := filepath.Glob(filepath.Join(pack.Dir(clone), "tmp*")); len(left) > 0 {
					t.Errorf("%s: %v was left behind", step, left)
				}
			}
		})
	}
}

func TestADamagedCloneIsSetAsideAndFetchedAgain(t *testing.T) {
	glob := func(t *testing.T, pattern string) []string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s", pattern)
		}
		return files
	}
	empty := func(t *testing.T, name string) { replaceByte(t, name, func([]byte) []byte { return nil }) }
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
	}{
		{"empty ref", func(t *testing.T, dir string) { empty(t, filepath.Join(dir, "refs/heads", branch)) }},
		{"empty tracking ref", func(t *testing.T, dir string) { empty(t, filepath.Join(dir, "refs/remotes/origin", branch)) }},
		{"empty HEAD", func(t *testing.T, dir string) { empty(t, filepath.Join(dir, "HEAD")) }},
		{"a ref to nothing", func(t *testing.T, dir string) {
			replaceByte(t, filepath.Join(dir, "refs/heads", branch), func(b []byte) []byte { return []byte(strings.Repeat("1", 40)) })
		}},
		{"a pack and its index are gone", func(t *testing.T, dir string) {
			for _, f := range glob(t, dir+"/objects/pack/pack-*") {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(f, ".pack") {
					return
				}
			}
		}},
		{"an index is gone", func(t *testing.T, dir string) { os.Remove(glob(t, dir+"/objects/pack/*.idx")[0]) }},
		{"a pack is gone", func(t *testing.T, dir string) { os.Remove(glob(t, dir+"/objects/pack/*.pack")[1]) }},
		{"a pack is cut off", func(t *testing.T, dir string) {
			replaceByte(t, glob(t, dir+"/objects/pack/*.pack")[0], func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{"a pack is empty", func(t *testing.T, dir string) { empty(t, glob(t, dir+"/objects/pack/*.pack")[0]) }},
		{"a bit flipped in a pack", func(t *testing.T, dir string) {
			replaceByte(t, glob(t, dir+"/objects/pack/*.pack")[1], func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}},
		{"a bit flipped in an index", func(t *testing.T, dir string) {
			replaceByte(t, glob(t, dir+"/objects/pack/*.idx")[1], func(b []byte) []byte { b[len(b)-50] ^= 4; return b })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.open("a")
			head := commit1(t, s, load(t, s).Head, "a=1 b/c=2")
			head = commit1(t, s, head, "b/c=3")
			push(t, s)
			s.Close()
			alone := filepath.Join(w.folder, "alone")
			if err := os.CopyFS(alone, os.DirFS(s.o.Dir)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, s.o.Dir)
			s = w.open("a")
			if s.Damage() == nil || !isDamage(s.Damage()) {
				t.Errorf("Damage() = %v", s.Damage())
			}
			if _, err := os.Stat(filepath.Join(s.o.Dir, asideDir, "refs")); err != nil {
				t.Error(err)
			}
			tree := load(t, s)
			if tree.Head != head {
				t.Errorf("fetched again: %+v", tree)
			}
			wantText(t, tree.FS, "a=1 b/c=3")
			fsck(t, s.o.Dir)
			commit1(t, s, head, "d=1")
			push(t, s)
			s.Close()
			s = w.open("a")
			if s.Damage() != nil {
				t.Errorf("a healed clone is damaged: %v", s.Damage())
			}

			// Without a remote there is nothing to fetch from, so nothing is touched.
			c.damage(t, alone)
			if _, err := Open(t.Context(), Options{Dir: alone}); !isDamage(err) {
				t.Errorf("without a remote: %v", err)
			}
			if _, err := os.Stat(filepath.Join(alone, asideDir)); err == nil {
				t.Error("without a remote the clone was set aside")
			}
		})
	}
}
