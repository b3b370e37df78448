package remote

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

func TestABranchIsReadAsTheOriginHadIt(t *testing.T) {
	clone := gittest.NewRepo(t)
	clone.Commit("main", map[string]string{"a": "1"}, "source\n")
	own := clone.Commit("godwit/state", map[string]string{"a": "own"}, "own\n")
	theirs := clone.Commit("aside", map[string]string{"a": "theirs"}, "theirs\n")
	for _, test := range []struct {
		name        string
		own, origin plumbing.Hash
		want        plumbing.Hash
		used        bool
	}{
		{"both", own, theirs, own, false},
		{"the own one", own, plumbing.ZeroHash, own, false},
		{"the origin's", plumbing.ZeroHash, theirs, theirs, true},
		{"none", plumbing.ZeroHash, plumbing.ZeroHash, plumbing.ZeroHash, false},
	} {
		for ref, at := range map[string]plumbing.Hash{"refs/heads/godwit/state": test.own, "refs/remotes/origin/godwit/state": test.origin} {
			clone.SetRef(ref, own)
			clone.SetRef(ref, at)
		}
		r, err := New(Options{URL: clone.Dir})
		if err != nil {
			t.Fatal(err)
		}
		tracked := Tracking(r, "godwit/state")
		refs, err := tracked.Refs(t.Context())
		if err != nil || refs["refs/heads/godwit/state"] != test.want || tracked.Used() != test.used {
			t.Errorf("%s: %s, used %t, %v, want %s, %t", test.name, refs["refs/heads/godwit/state"], tracked.Used(), err, test.want, test.used)
		}
		into := t.TempDir()
		err = tracked.Fetch(t.Context(), into, map[string]string{"refs/heads/godwit/state": "refs/heads/here"})
		if test.want.IsZero() {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: fetched %v, want %v", test.name, err, ErrNotFound)
			}
			continue
		}
		if got, err2 := ReadRef(into, "refs/heads/here"); err != nil || err2 != nil || got != test.want {
			t.Errorf("%s: fetched %s, %v, %v, want %s", test.name, got, err, err2, test.want)
		}
		if err := tracked.Push(t.Context(), "refs/heads/godwit/state", test.want, own, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: push: %v, want %v", test.name, err, ErrRefused)
		}
	}
}

func TestACommitStandsForABranchInPlace(t *testing.T) {
	repo := gittest.NewRepo(t)
	at := repo.Commit("main", map[string]string{"a": "1"}, "one\n")
	r, err := New(Options{URL: repo.Dir})
	if err != nil {
		t.Fatal(err)
	}
	tracked := Tracking(r, at.String())
	refs, err := tracked.Refs(t.Context())
	if err != nil || refs["refs/heads/"+at.String()] != at || tracked.Used() {
		t.Errorf("%v, used %t, %v, want %s", refs, tracked.Used(), err, at)
	}
}

func TestAPersonIsWhoGitSaysItIs(t *testing.T) {
	home, repo := t.TempDir(), gittest.NewRepo(t)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("GIT_AUTHOR_NAME", "")
	t.Setenv("GIT_AUTHOR_EMAIL", "")
	want := func(step, wantName, wantEmail string) {
		t.Helper()
		name, email := Person(repo.Dir)
		if name != wantName && wantName != "" || email != wantEmail && wantEmail != "" || name == "" || email == "" {
			t.Errorf("%s: %q <%s>, want %q <%s>", step, name, email, wantName, wantEmail)
		}
	}
	append := func(file, text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want("nothing said", "", "")
	append(filepath.Join(home, ".gitconfig"), "[user]\n\tname = Home\n\temail = home@example.com\n")
	want("of the user", "Home", "home@example.com")
	append(filepath.Join(repo.Dir, "config"), "[user]\n\temail = repo@example.com\n")
	want("of the repository", "Home", "repo@example.com")
	t.Setenv("GIT_AUTHOR_NAME", "Env")
	want("of the environment", "Env", "repo@example.com")
	if name, email := Person(""); name != "Env" || email != "home@example.com" {
		t.Errorf("no repository: %q <%s>", name, email)
	}
}

func TestOnlyARepositoryOfThisMachineIsLocal(t *testing.T) {
	repo := gittest.NewRepo(t)
	for url, want := range map[string]string{repo.Dir: repo.Dir, "file://" + repo.Dir: repo.Dir, "https://example.com/repo.git": "", t.TempDir(): ""} {
		r, err := New(Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Local(); got != want {
			t.Errorf("Local of %s = %q, want %q", url, got, want)
		}
	}
}
