package pack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTreesAreInTheOrderOfGit(t *testing.T) {
	repo := newRepo(t)
	blob, dir := New(Blob, nil), New(Tree, nil)
	save(t, repo, []Object{blob, dir})
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		if round++; round > 30 {
			return // each round starts git
		}
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-c.\-0_]{1,4}`).Filter(func(s string) bool { return s != "." && s != ".." }), rapid.ID).Draw(t, "names")
		var entries []Entry
		var listing strings.Builder
		for _, name := range names {
			if rapid.Bool().Draw(t, name) {
				entries = append(entries, Entry{name, ModeDir, dir.Hash})
				fmt.Fprintf(&listing, "040000 tree %s\t%s\x00", dir.Hash, name)
			} else {
				entries = append(entries, Entry{name, ModeFile, blob.Hash})
				fmt.Fprintf(&listing, "100644 blob %s\t%s\x00", blob.Hash, name)
			}
		}
		slices.SortFunc(entries, compareEntries)
		data, err := EncodeTree(entries)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tryGit(repo, []byte(listing.String()), "mktree", "-z")
		if got := Sum(Tree, data).String(); err != nil || got != strings.TrimSpace(want) {
			t.Fatalf("tree of %q is %s, git says %s", names, got, want)
		}
	})
}

func TestNamesThatGitRefusesAreRefused(t *testing.T) {
	names := []string{
		"", ".", "..", "a/b", "a\x00b", ".git", ".GIT", ".gIt ", ".git...", ".git:x", "git~1", "GIT~1", ".g\u200cit", ".git\ufeff",
		".gitmodules", ".gitmodules ", "\u200c.git", ".git\\x", "gitmod~1", "a\u200d.yaml", ".gitignore", ".github", "gitea", "git~12", "web.yaml", "ä", "-", "g", "gi", "...", "con", "a b",
	}
	repo := newRepo(t)
	for _, name := range names {
		err := CheckName(name)
		blob := New(Blob, []byte("[submodule \"x\"\n"))
		data := []byte("100644 " + name + "\x00" + string(blob.Hash[:]))
		tree := New(Tree, data)
		save(t, repo, []Object{blob, tree})
		out, fsck := tryGit(repo, nil, "fsck", "--strict", tree.Hash.String())
		if err == nil && (fsck != nil || strings.Contains(out, "error")) {
			t.Errorf("CheckName(%q) = nil, but git fsck says %s", name, out)
		}
		removePacks(t, repo)
	}
	for _, name := range []string{".gitignore", ".github", "gitea", "git~12", "web.yaml", "ä", "-", "g", "...", "a b", "a\u200d.yaml"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestEncodeTreeRefusesDisorder(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []Entry
	}{
		{"unsorted", []Entry{{Name: "b", Mode: ModeFile}, {Name: "a", Mode: ModeFile}}},
		{"twice", []Entry{{Name: "a", Mode: ModeFile}, {Name: "a", Mode: ModeFile}}},
		{"file and folder", []Entry{{Name: "a", Mode: ModeFile}, {Name: "a.b", Mode: ModeFile}, {Name: "a", Mode: ModeDir}}},
		{"a folder sorted as a file", []Entry{{Name: "a", Mode: ModeDir}, {Name: "a.b", Mode: ModeFile}}},
		{"a name of Git's own", []Entry{{Name: ".git", Mode: ModeFile}}},
	} {
		if data, err := EncodeTree(c.entries); err == nil {
			t.Errorf("%s: EncodeTree = %q, want an error", c.name, data)
		}
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Add([]byte("100644 a\x00short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := DecodeTree(data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("unexpected error %v", err)
			}
			return
		}
		again, err := EncodeTree(entries)
		if err != nil {
			return // Git reads names that it does not let anybody write
		}
		if back, err := DecodeTree(again); err != nil || !cmp.Equal(back, entries) {
			t.Errorf("decoded %v, then %v, %v", entries, back, err)
		}
		if len(again) == len(data) && !bytes.Equal(again, data) {
			t.Errorf("%q became %q", data, again)
		}
	})
}
