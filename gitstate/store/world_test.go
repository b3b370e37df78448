package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// run runs the git binary, which is the judge of all that is written here.
func run(dir string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=a person", "GIT_AUTHOR_EMAIL=p@example.com", "GIT_COMMITTER_NAME=a person", "GIT_COMMITTER_EMAIL=p@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := run(dir, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func fsck(t testing.TB, dir string) {
	t.Helper()
	if out := git(t, dir, "fsck", "--strict", "--full"); strings.Contains(out, "error") || strings.Contains(out, "missing") {
		t.Fatalf("fsck: %s", out)
	}
}

const branch = "godwit/state"

// gitRemote is a repository served by the git binary, which checks what is pushed as a forge would.
type gitRemote struct {
	dir  string
	down bool
	// lost makes pushes succeed and report an error; beforePush runs first.
	lost       bool
	beforePush func()
}

var errDown = errors.New("connection refused")

func (r *gitRemote) Refs(context.Context) (map[string]plumbing.Hash, error) {
	if r.down {
		return nil, errDown
	}
	out, err := run(r.dir, nil, "for-each-ref", "--format=%(objectname) %(refname)")
	refs := map[string]plumbing.Hash{}
	for line := range strings.Lines(out) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs[name] = plumbing.NewHash(hash)
	}
	return refs, err
}

func (r *gitRemote) Fetch(_ context.Context, repoDir string, refs map[string]string) error {
	if r.down {
		return errDown
	}
	for from, to := range refs {
		if _, err := run(repoDir, nil, "fetch", "-q", "--no-tags", r.dir, "+"+from+":"+to); err != nil {
			return err
		}
	}
	return nil
}

func (r *gitRemote) Push(_ context.Context, ref string, old, new plumbing.Hash, pack io.Reader) error {
	if r.beforePush != nil {
		r.beforePush()
	}
	if r.down {
		return errDown
	}
	if _, err := run(r.dir, pack, "index-pack", "--stdin", "--strict"); err != nil {
		return err
	}
	if _, err := run(r.dir, nil, "rev-list", "--quiet", "--objects", new.String(), "--not", "--all"); err != nil {
		return err
	}
	if _, err := run(r.dir, nil, "update-ref", ref, new.String(), old.String()); err != nil {
		return err
	}
	if r.lost {
		return errors.New("connection reset")
	}
	return nil
}

// world is one remote repository and the stores that share it.
type world struct {
	t      testing.TB
	dir    string // the remote's
	remote *gitRemote
	folder string // for clones
	people int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir()}
	w.dir = filepath.Join(w.folder, "remote.git")
	git(t, w.folder, "init", "-q", "--bare", w.dir)
	w.remote = &gitRemote{dir: w.dir}
	return w
}

func (w *world) options(name string) Options {
	return Options{Remote: w.remote, Dir: filepath.Join(w.folder, name)}
}

func (w *world) open(name string) *Store { return openStore(w.t, w.options(name)) }

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// head is where the remote's branch is.
func (w *world) head() gitstate.Revision {
	w.t.Helper()
	return gitstate.Revision(git(w.t, w.dir, "rev-parse", "refs/heads/"+branch))
}

// person clones the remote's branch, runs steps with git and pushes.
func (w *world) person(steps ...[]string) {
	w.t.Helper()
	w.people++
	dir := filepath.Join(w.folder, fmt.Sprint("person", w.people))
	git(w.t, w.folder, "clone", "-q", "-b", branch, w.dir, dir)
	for _, args := range steps {
		if args[0] == "write" {
			name := filepath.Join(dir, args[1])
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(args[2]), 0o644)); err != nil {
				w.t.Fatal(err)
			}
			args = []string{"add", "."}
		}
		git(w.t, dir, args...)
	}
	git(w.t, dir, "push", "-q", "-f", "origin", "HEAD:"+branch)
}

func load(t testing.TB, s *Store) Tree {
	t.Helper()
	tree, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func push(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func message(subject string) Message {
	return Message{Subject: subject, When: noon, Trailers: []Trailer{{"Godwit-Reason", "PolicyChange"}}}
}

// changes reads "path=content path=content path-": a dash removes.
func changes(text string) (all []Change) {
	for word := range strings.FieldsSeq(text) {
		if path, found := strings.CutSuffix(word, "-"); found {
			all = append(all, Change{Path: path})
			continue
		}
		path, data, _ := strings.Cut(word, "=")
		all = append(all, Change{path, []byte(data)})
	}
	return all
}

func commit1(t testing.TB, s *Store, base gitstate.Revision, text string) gitstate.Revision {
	t.Helper()
	head, err := s.Commit(t.Context(), base, changes(text), message("set "+text))
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// text is the inverse of changes.
func text(t testing.TB, fsys fs.FS) string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		words = append(words, path+"="+files[path])
	}
	return strings.Join(words, " ")
}

func wantText(t testing.TB, fsys fs.FS, want string) {
	t.Helper()
	if got := text(t, fsys); got != want {
		t.Errorf("the tree is %q, want %q", got, want)
	}
}

// subjects is the history, newest first.
func subjects(t testing.TB, dir, rev string) string {
	t.Helper()
	return strings.ReplaceAll(git(t, dir, "log", "--format=%s", rev), "\n", "; ")
}

func wantSubjects(t testing.TB, dir, rev, want string) {
	t.Helper()
	if diff := cmp.Diff(want, subjects(t, dir, rev)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// remotes are the kinds of remote that every test of the contract runs against.
func remotes(t *testing.T, test func(t *testing.T, w *world, r Remote)) {
	for _, kind := range []struct {
		name string
		make func(w *world) Remote
	}{
		{"git binary", func(w *world) Remote { return w.remote }},
		{"local path", func(w *world) Remote { return newRemote(w.t, w.dir) }},
		{"http", func(w *world) Remote { return newRemote(w.t, gittest.ServeHTTP(w.t, w.dir, gittest.HTTPOptions{}).URL) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			w := newWorld(t)
			test(t, w, kind.make(w))
		})
	}
}

func newRemote(t testing.TB, url string) *remote.Remote {
	t.Helper()
	r, err := remote.New(remote.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func replaceByte(t testing.TB, name string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(name, 0o644)
	if err := os.WriteFile(name, change(bytes.Clone(data)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (r refusing) Push(context.Context, string, plumbing.Hash, plumbing.Hash, io.Reader) error {
	return r.err
}
