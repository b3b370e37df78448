package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// workplace is a clone in which a person works: two files are committed, one is changed and one is staged besides.
func workplace(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "work")
	git(t, filepath.Dir(dir), "init", "-q", "-b", "main", dir)
	for _, name := range []string{"a/m1.yaml", "b.yaml", "c.yaml"} {
		writeText(t, filepath.Join(dir, name), "old\n")
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first")
	writeText(t, filepath.Join(dir, "b.yaml"), "changed\n")
	writeText(t, filepath.Join(dir, "c.yaml"), "staged\n")
	writeText(t, filepath.Join(dir, "d.yaml"), "new\n")
	git(t, dir, "add", "c.yaml", "d.yaml")
	return dir
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

const others = "M  c.yaml\nA  d.yaml"

func TestAFileIsCommittedAloneFromAWorkTree(t *testing.T) {
	for _, kind := range []string{"main", "linked"} {
		dir := workplace(t)
		status := " M b.yaml\n" + others
		if kind == "linked" {
			git(t, dir, "worktree", "add", "-q", "-b", "other", "../linked")
			dir, status = filepath.Join(dir, "..", "linked"), ""
		}
		before := git(t, dir, "rev-parse", "HEAD")
		branch, head, err := CommitFile(dir, "a/m1.yaml", []byte("new\n"), Signature{"Grace", "grace@example.com"}, Message{Subject: "cordon(m1)", When: noon})
		if err != nil {
			t.Fatal(err)
		}
		fsck(t, dir)
		if want := map[string]string{"main": "main", "linked": "other"}[kind]; branch != want || git(t, dir, "rev-parse", want) != string(head) {
			t.Errorf("%s: the commit %s is on %q, want %q", kind, head, branch, want)
		}
		if got := git(t, dir, "log", "--format=%an <%ae> %s %P", "--name-only", before+"..HEAD"); got != "Grace <grace@example.com> cordon(m1) "+before+"\n\na/m1.yaml" {
			t.Errorf("%s: git log says %q", kind, got)
		}
		if got := strings.TrimRight(untrimmed(t, dir, "status", "--porcelain"), "\n"); got != status {
			t.Errorf("%s: git status says %q, want %q", kind, got, status)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a/m1.yaml")); err != nil || string(text) != "new\n" {
			t.Errorf("%s: the file is %q, %v", kind, text, err)
		}
	}
}

func TestAFileIsMadeAndRemovedInAWorkTree(t *testing.T) {
	dir := workplace(t)
	who := Signature{"Grace", "grace@example.com"}
	check := func(what string) {
		t.Helper()
		fsck(t, dir)
		if got := git(t, dir, "log", "-1", "--format=", "--name-status"); got != what {
			t.Errorf("git log says %q, want %q", got, what)
		}
		if got := strings.TrimRight(untrimmed(t, dir, "status", "--porcelain"), "\n"); got != " M b.yaml\n"+others {
			t.Errorf("git status says %q", got)
		}
	}
	if _, _, err := CommitFile(dir, "new/m2.yaml", []byte("new\n"), who, Message{Subject: "join(m2)", When: noon}); err != nil {
		t.Fatal(err)
	}
	check("A\tnew/m2.yaml")
	if _, _, err := CommitFile(dir, "new/m2.yaml", nil, who, Message{Subject: "unjoin(m2)", When: noon}); err != nil {
		t.Fatal(err)
	}
	check("D\tnew/m2.yaml")
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty folder is there: %v", err)
	}
	for name, data := range map[string][]byte{"d.yaml": []byte("x"), "nowhere.yaml": nil} {
		if _, _, err := CommitFile(dir, name, data, who, Message{Subject: "x", When: noon}); !errors.Is(err, ErrUncommitted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "a", "b.yaml")
	if err := errors.Join(WriteFile(file, []byte("x")), WriteFile(file, nil)); err != nil {
		t.Error(err)
	}
	if err := WriteFile(file, nil); err == nil {
		t.Error("a file that is not there was removed")
	}
}

// A change that git knows by the time of the index alone is not lost with a new index.
func TestAChangeInTheSecondOfTheIndexIsStillSeen(t *testing.T) {
	dir := workplace(t)
	git(t, dir, "config", "core.trustctime", "false")
	file, at := filepath.Join(dir, "b.yaml"), noon
	for _, text := range []string{"old\n", "bad\n"} {
		writeText(t, file, text)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		if text == "old\n" {
			git(t, dir, "add", "b.yaml")
		}
	}
	if err := os.Chtimes(filepath.Join(dir, ".git", "index"), at, at); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CommitFile(dir, "a/m1.yaml", []byte("new\n"), Signature{"Grace", "g"}, Message{Subject: "x", When: noon}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimRight(untrimmed(t, dir, "status", "--porcelain"), "\n"); got != " M b.yaml\n"+others {
		t.Errorf("git status says %q", got)
	}
}

func untrimmed(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := run(dir, nil, args...)
	if err != nil {
		t.Fatal(out)
	}
	return out
}

func TestAFileThatIsNotAsCommittedIsLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name, file string
		prepare    func(dir string)
		want       error
	}{
		{"changed on disk", "b.yaml", nil, ErrUncommitted},
		{"staged", "c.yaml", nil, ErrUncommitted},
		{"staged, and back on disk", "c.yaml", func(dir string) { writeText(t, filepath.Join(dir, "c.yaml"), "old\n") }, ErrUncommitted},
		{"new", "d.yaml", nil, ErrUncommitted},
		{"no branch", "a/m1.yaml", func(dir string) { git(t, dir, "checkout", "-q", "--detach") }, ErrNoBranch},
		{"git at work", "a/m1.yaml", func(dir string) { writeText(t, filepath.Join(dir, ".git", "index.lock"), "") }, os.ErrExist},
		{"a broken index", "a/m1.yaml", func(dir string) { writeText(t, filepath.Join(dir, ".git", "index"), "DIRC") }, errAny},
		{"a link", "l.yaml", func(dir string) {
			if err := os.Symlink("b.yaml", filepath.Join(dir, "l.yaml")); err != nil {
				t.Fatal(err)
			}
			git(t, dir, "add", "l.yaml")
			git(t, dir, "commit", "-qm", "link", "l.yaml")
		}, errAny},
	} {
		dir := workplace(t)
		if test.prepare != nil {
			test.prepare(dir)
		}
		head := git(t, dir, "rev-parse", "HEAD")
		before, _ := os.ReadFile(filepath.Join(dir, test.file))
		_, _, err := CommitFile(dir, test.file, []byte("new\n"), Signature{"Grace", "g"}, Message{Subject: "x", When: noon})
		if err == nil || test.want != errAny && !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		after, _ := os.ReadFile(filepath.Join(dir, test.file))
		if now := git(t, dir, "rev-parse", "HEAD"); now != head || string(before) != string(after) {
			t.Errorf("%s: the head is %s, was %s, the file %q, was %q", test.name, now, head, after, before)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git", "index.lock")); test.name != "git at work" && err == nil {
			t.Errorf("%s: the lock is still there", test.name)
		}
	}
	if _, _, err := CommitFile(t.TempDir(), "a", nil, Signature{}, Message{}); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("no repository: %v, want %v", err, remote.ErrNotFound)
	}
}

var errAny = errors.New("any")
