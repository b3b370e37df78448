package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

const agents = "godwit/state-agents/"

// counted is a remote that counts the objects that are pushed to it.
type counted struct {
	Remote
	objects []uint32
}

func (c *counted) Push(ctx context.Context, ref string, old, new plumbing.Hash, packed io.Reader) error {
	all, err := io.ReadAll(packed)
	if err != nil {
		return err
	}
	c.objects = append(c.objects, binary.BigEndian.Uint32(all[8:12]))
	return c.Remote.Push(ctx, ref, old, new, bytes.NewReader(all))
}

func post(t testing.TB, p *Poster, files string) gitstate.Revision {
	t.Helper()
	rev, err := p.Post(t.Context(), posted(files), "report", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// posted reads "a/b=text c=text".
func posted(text string) map[string][]byte {
	files := map[string][]byte{}
	for word := range strings.FieldsSeq(text) {
		name, content, _ := strings.Cut(word, "=")
		files[name] = []byte(content)
	}
	return files
}

// There is one commit, and what did not change is not sent again.
func TestAPostReplacesTheOneBefore(t *testing.T) {
	remotes(t, func(t *testing.T, w *world, r Remote) {
		c := &counted{Remote: r}
		p := NewPoster(c, agents+"kube03", Signature{"agent", "agent@example.com"})
		post(t, p, "head=1 copies/default/a=x copies/default/b=y")
		post(t, p, "head=2 copies/default/a=x copies/default/b=y")
		post(t, p, "head=3 copies/default/a=z")
		last := post(t, p, "head=3 copies/default/a=z")
		// Root, folders, files and commit; then root, head and commit; then all but what stayed.
		if got := fmt.Sprint(c.objects); got != "[7 3 6]" {
			t.Errorf("objects pushed: %s, want [7 3 6]", got)
		}
		wantSubjects(t, w.dir, agents+"kube03", "report")
		if got := git(t, w.dir, "ls-tree", "-r", "--name-only", string(last)); got != "copies/default/a\nhead" {
			t.Errorf("files:\n%s", got)
		}
		fsck(t, w.dir)

		// Another one, as after a restart, knows nothing and sends everything.
		c.objects = nil
		post(t, NewPoster(c, agents+"kube03", Signature{}), "head=4 copies/default/a=z")
		if got := fmt.Sprint(c.objects); got != "[6]" {
			t.Errorf("objects pushed after a restart: %s, want [6]", got)
		}
	})
}

func TestAPostGoesOnAfterTrouble(t *testing.T) {
	w := newWorld(t)
	p := NewPoster(w.remote, agents+"kube03", Signature{})
	post(t, p, "head=1 a=x")
	for name, trouble := range map[string]func(){
		"the answer was lost": func() { w.remote.lost = true },
		"the remote was away": func() { w.remote.down = true },
		"somebody else posted": func() {
			post(t, NewPoster(w.remote, agents+"kube03", Signature{"other", "o@example.com"}), "head=other")
		},
		"the branch was taken": func() { git(t, w.dir, "update-ref", "-d", "refs/heads/"+agents+"kube03") },
	} {
		t.Run(name, func(t *testing.T) {
			trouble()
			if _, err := p.Post(t.Context(), posted("head=2 a=x"), "report", time.Unix(1e9, 0)); err == nil {
				t.Error("no error")
			}
			w.remote.lost, w.remote.down = false, false
			last := post(t, p, "head=3 a=x")
			if got := git(t, w.dir, "rev-parse", agents+"kube03"); strings.TrimSpace(got) != string(last) {
				t.Errorf("the branch is at %s, want %s", got, last)
			}
			fsck(t, w.dir)
		})
	}
}

func TestAPostNeedsForcePushes(t *testing.T) {
	w := newWorld(t)
	git(t, w.dir, "config", "receive.denyNonFastForwards", "true")
	p := NewPoster(newRemote(t, gittest.ServeHTTP(t, w.dir, gittest.HTTPOptions{}).URL), agents+"kube03", Signature{})
	post(t, p, "head=1")
	_, err := p.Post(t.Context(), posted("head=2"), "report", time.Unix(1e9, 0))
	if !errors.Is(err, remote.ErrRefused) || !strings.Contains(err.Error(), "the branch has to allow force pushes") {
		t.Errorf("Post: %v", err)
	}
}

func openBoard(t testing.TB, r Remote, dir string) *Board {
	t.Helper()
	b, err := OpenBoard(r, dir, agents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestABoardHasWhatIsPosted(t *testing.T) {
	remotes(t, func(t *testing.T, w *world, r Remote) {
		b := openBoard(t, r, w.folder+"/board")
		if at, err := b.List(t.Context()); err != nil || len(at) != 0 {
			t.Fatalf("List() of an empty repository = %v, %v", at, err)
		}
		one, two := NewPoster(r, agents+"one", Signature{}), NewPoster(r, agents+"two", Signature{})
		want := map[string]gitstate.Revision{"one": post(t, one, "head=1 copies/default/a=x"), "two": post(t, two, "head=1")}
		post(t, NewPoster(r, "godwit/other", Signature{}), "head=1")
		for round := range 3 {
			at, err := b.List(t.Context())
			if err != nil || len(at) != len(want) {
				t.Fatalf("List() = %v, %v", at, err)
			}
			got, err := b.Fetch(t.Context(), "one", "two")
			if err != nil {
				t.Fatal(err)
			}
			for name, rev := range want {
				if got[name].Revision != rev || at[name] != rev || got[name].Err != nil {
					t.Errorf("%s is at %q, listed at %q: %v; want %q", name, got[name].Revision, at[name], got[name].Err, rev)
				}
			}
			if text, err := fs.ReadFile(got["one"].FS, "copies/default/a"); err != nil || string(text) != "x" {
				t.Errorf("the file has %q, %v", text, err)
			}
			if text, err := fs.ReadFile(got["two"].FS, "head"); err != nil || string(text) != fmt.Sprint(round+1) {
				t.Errorf("the second one has %q, %v", text, err)
			}
			want["two"] = post(t, two, fmt.Sprintf("head=%d", round+2))
		}
		if _, err := b.Fetch(t.Context(), "nobody"); !errors.Is(err, remote.ErrNotFound) && r != Remote(w.remote) {
			t.Errorf("Fetch of what is not there: %v", err)
		}
	})
}

func TestABoardBeginsAnew(t *testing.T) {
	w := newWorld(t)
	r := newRemote(t, w.dir)
	p := NewPoster(r, agents+"one", Signature{})
	dir := w.folder + "/board"
	post(t, p, "head=1")
	b := openBoard(t, r, dir)
	if _, err := b.Fetch(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.Close()
	again, err := OpenBoard(r, dir, agents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	if n := again.objects.Len(); n != 0 {
		t.Errorf("it opens with %d packs", n)
	}
	again.limit = 3
	for i := range 8 {
		post(t, p, fmt.Sprintf("head=%d", i))
		if _, err := again.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Fetch(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
	if n := again.objects.Len(); n > 4 {
		t.Errorf("it keeps %d packs", n)
	}

	// A damaged clone is thrown away as well.
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.idx"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, name := range packs {
		replaceByte(t, name, func(b []byte) []byte { return b[:len(b)/2] })
	}
	post(t, p, "head=last")
	if _, err := again.Fetch(t.Context(), "one"); !isDamage(err) {
		t.Errorf("Fetch into a damaged clone: %v", err)
	}
	if _, err := again.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := again.Fetch(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := fs.ReadFile(got["one"].FS, "head"); err != nil || string(text) != "last" {
		t.Errorf("it has %q, %v", text, err)
	}
}

// What strangers push is bounded, and is no trouble for others.
func TestABoardRefusesWhatIsTooLarge(t *testing.T) {
	w := newWorld(t)
	limited, err := remote.New(remote.Options{URL: w.dir, MaxObject: 1 << 10, MaxObjects: 20})
	if err != nil {
		t.Fatal(err)
	}
	b := openBoard(t, limited, w.folder+"/board")
	post(t, NewPoster(w.remote, agents+"good", Signature{}), "head=1")
	post(t, NewPoster(w.remote, agents+"large", Signature{}), "head="+strings.Repeat("x", 2<<10))
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("f%d=%d", i, i)
	}
	post(t, NewPoster(w.remote, agents+"many", Signature{}), strings.Join(many, " "))
	for _, name := range []string{"large", "many"} {
		if _, err := b.Fetch(t.Context(), name); !errors.Is(err, remote.ErrTooLarge) {
			t.Errorf("Fetch(%s): %v, want ErrTooLarge", name, err)
		}
	}
	if got, err := b.Fetch(t.Context(), "good"); err != nil || got["good"].Err != nil {
		t.Errorf("Fetch(good): %v, %v", err, got["good"].Err)
	}
	// A branch may also point to what is no commit, though git itself would not do that.
	blob := git(t, w.dir, "hash-object", "-w", w.dir+"/HEAD")
	if err := os.WriteFile(w.dir+"/refs/heads/"+agents+"odd", []byte(blob+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Fetch(t.Context(), "odd"); err == nil && got["odd"].Err == nil {
		t.Errorf("Fetch of a blob = %v", got)
	}
}
