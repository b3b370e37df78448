package remote_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Four writers, two of them git, count in one ref. Each accepted move stands for one step of a
// chain of commits, so the chain's length tells whether one was lost.
func TestNoUpdateIsLostBetweenGitAndUs(t *testing.T) {
	const steps = 30 // for each writer
	repo := gittest.NewRepo(t)
	chain := []plumbing.Hash{repo.Commit("chain", nil, "0")}
	place := map[plumbing.Hash]int{chain[0]: 0}
	for i := 1; i <= 4*steps; i++ {
		chain = append(chain, repo.Commit("chain", nil, strconv.Itoa(i)))
		place[chain[i]] = i
	}
	must(t, remote.UpdateRef(repo.Dir, stateRef, plumbing.ZeroHash, chain[0]))

	var writers, reader sync.WaitGroup
	var done atomic.Bool
	reader.Go(func() {
		last := 0
		for !done.Load() {
			hash, err := remote.ReadRef(repo.Dir, stateRef)
			if at := place[hash]; err != nil || at < last {
				t.Errorf("a reader saw %d after %d: %v", at, last, err)
				return
			} else {
				last = at
			}
		}
	})
	git := func(old, new plumbing.Hash) error {
		return exec.Command("git", "--git-dir", repo.Dir, "update-ref", stateRef, new.String(), old.String()).Run()
	}
	ours := func(old, new plumbing.Hash) error {
		err := remote.UpdateRef(repo.Dir, stateRef, old, new)
		if err != nil && !errors.Is(err, remote.ErrRefMoved) {
			t.Errorf("UpdateRef: %v", err)
		}
		return err
	}
	for _, update := range []func(old, new plumbing.Hash) error{git, git, ours, ours} {
		writers.Go(func() {
			for accepted := 0; accepted < steps; {
				old, err := remote.ReadRef(repo.Dir, stateRef)
				if err != nil {
					t.Error(err)
					return
				}
				if update(old, chain[place[old]+1]) == nil {
					accepted++
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	reader.Wait()
	if got, err := remote.ReadRef(repo.Dir, stateRef); err != nil || place[got] != 4*steps {
		t.Errorf("%d updates were accepted and %d survived (%v)", 4*steps, place[got], err)
	}
}

func TestReaderMissesNothingWhileRefsArePacked(t *testing.T) {
	repo := gittest.NewRepo(t)
	commits := []plumbing.Hash{repo.Commit("main", nil, "0"), repo.Commit("main", nil, "1")}
	must(t, remote.UpdateRef(repo.Dir, stateRef, plumbing.ZeroHash, commits[0]))
	var reader sync.WaitGroup
	var done atomic.Bool
	reader.Go(func() {
		for !done.Load() {
			if _, err := remote.ReadRef(repo.Dir, stateRef); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 20 {
		must(t, remote.UpdateRef(repo.Dir, stateRef, commits[i%2], commits[(i+1)%2]))
		repo.Git("pack-refs", "--all", "--prune")
		wantRef(t, repo.Dir, stateRef, commits[(i+1)%2])
	}
	done.Store(true)
	reader.Wait()
}

func TestUpdateRef(t *testing.T) {
	repo := gittest.NewRepo(t)
	a, b := repo.Commit("main", nil, "a"), repo.Commit("main", nil, "b")
	write := func(name, text string) func() {
		return func() {
			path := filepath.Join(repo.Dir, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
	for _, test := range []struct {
		name     string
		prepare  func()
		ref      string
		old, new plumbing.Hash
		want     string // part of the error
	}{
		{"create", nil, "refs/heads/c1", plumbing.ZeroHash, a, ""},
		{"create what is there", nil, "refs/heads/main", plumbing.ZeroHash, a, "moved"},
		{"move", nil, "refs/heads/c1", a, b, ""},
		{"move from elsewhere", nil, "refs/heads/c1", a, b, "moved"},
		{"move what is not there", nil, "refs/heads/none", a, b, "moved"},
		{"packed", func() { repo.Git("pack-refs", "--all", "--prune") }, "refs/heads/c1", b, a, ""},
		{"below a packed ref", func() { repo.Git("pack-refs", "--all", "--prune") }, "refs/heads/c1/x", plumbing.ZeroHash, a, "in the way"},
		{"above a packed ref", func() {
			repo.SetRef("refs/heads/d/e", a)
			repo.Git("pack-refs", "--all", "--prune")
		}, "refs/heads/d", plumbing.ZeroHash, a, "in the way"},
		{"below a loose ref", func() { repo.SetRef("refs/heads/f", a) }, "refs/heads/f/x", plumbing.ZeroHash, a, "not a directory"},
		{"where empty folders are", func() { must(t, os.MkdirAll(filepath.Join(repo.Dir, "refs/heads/g/h/i"), 0o755)) }, "refs/heads/g", plumbing.ZeroHash, a, ""},
		{"where a ref is below", func() { repo.SetRef("refs/heads/j/k", a) }, "refs/heads/j", plumbing.ZeroHash, a, ""},
		{"symbolic", write("refs/heads/l", "ref: refs/heads/main\n"), "refs/heads/l", b, a, "stands for refs/heads/main"},
		{"empty file", write("refs/heads/m", ""), "refs/heads/m", plumbing.ZeroHash, a, "damaged"},
		{"garbage", write("refs/heads/n", strings.Repeat("z", 40)), "refs/heads/n", plumbing.ZeroHash, a, "damaged"},
		{"escape", nil, "refs/heads/../../x", plumbing.ZeroHash, a, "ref"},
		{"HEAD", nil, "HEAD", plumbing.ZeroHash, a, "full name"},
		{"a lock's name", nil, "refs/heads/x.lock", plumbing.ZeroHash, a, "ref"},
		{"to nothing", nil, "refs/heads/main", b, plumbing.ZeroHash, "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.prepare != nil {
				test.prepare()
			}
			err := remote.UpdateRef(repo.Dir, test.ref, test.old, test.new)
			got := fmt.Sprint(err)
			switch {
			case test.name == "where a ref is below":
				if err == nil {
					t.Error("no error")
				}
			case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(got, test.want)):
				t.Errorf("UpdateRef: %v, want %q", err, test.want)
			case err == nil:
				wantRef(t, repo.Dir, test.ref, test.new)
				if got := repo.Git("rev-parse", test.ref); got != test.new.String() {
					t.Errorf("git sees %s, want %s", got, test.new)
				}
			}
			if locks, err := filepath.Glob(filepath.Join(repo.Dir, "refs/heads/*.lock")); len(locks) > 0 || err != nil {
				t.Errorf("locks stay: %v", locks)
			}
		})
	}
}

func TestFetchReplacesADamagedRef(t *testing.T) {
	repo := gittest.NewRepo(t)
	commit := repo.Commit("main", map[string]string{"a": "b"}, "first")
	clone := t.TempDir()
	r := open(t, remote.Options{URL: repo.Dir})
	must(t, r.Fetch(t.Context(), clone, one))
	must(t, os.WriteFile(filepath.Join(clone, tracking), nil, 0o644))
	if _, err := remote.ReadRef(clone, tracking); !errors.Is(err, remote.ErrDamaged) {
		t.Errorf("ReadRef: %v, want ErrDamaged", err)
	}
	must(t, r.Fetch(t.Context(), clone, one))
	wantRef(t, clone, tracking, commit)
}

func TestRecoverRemovesWhatACrashLeft(t *testing.T) {
	repo := gittest.NewRepo(t)
	commit := repo.Commit("main", map[string]string{"a": "b"}, "first")
	left := []string{"refs/heads/main.lock", "objects/pack/tmp_pack_1", "packed-refs.lock"}
	for _, name := range left {
		must(t, os.WriteFile(filepath.Join(repo.Dir, name), nil, 0o644))
	}
	must(t, remote.Recover(repo.Dir))
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(repo.Dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it gone", name, err)
		}
	}
	wantRef(t, repo.Dir, "refs/heads/main", commit)
}

func FuzzReadRef(f *testing.F) {
	f.Add("ref: refs/heads/main\n", "# pack-refs\n0123456789012345678901234567890123456789 refs/heads/main\n")
	f.Add("0123456789012345678901234567890123456789\n", "^0123456789012345678901234567890123456789")
	f.Add("ref: refs/../x", "x y")
	f.Fuzz(func(t *testing.T, loose, packed string) {
		dir := t.TempDir()
		must(t, remote.Init(dir))
		must(t, os.WriteFile(filepath.Join(dir, "refs/heads/x"), []byte(loose), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "packed-refs"), []byte(packed), 0o644))
		hash, err := remote.ReadRef(dir, "refs/heads/x")
		if (err == nil) == hash.IsZero() && strings.Trim(loose, "0\n\r\t ") != "" {
			t.Errorf("ReadRef = %s, %v: either a hash or an error", hash, err)
		}
	})
}
