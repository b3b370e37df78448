package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// fleet is the state of n objects on 50 members: files of about 1.5 KB, each of its own.
func fleet(n int) []Change {
	all := make([]Change, n)
	for i := range all {
		all[i] = work(i, 0)
	}
	return all
}

func work(i, version int) Change {
	r := rand.New(rand.NewPCG(uint64(i), uint64(version)))
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-%d\n  annotations:\n    version: %q\n", i, fmt.Sprint(version))
	for b.Len() < 1500 {
		fmt.Fprintf(&b, "  - name: setting-%d\n    value: %q\n", r.IntN(40), fmt.Sprint(r.Uint32()))
	}
	return Change{fmt.Sprintf("works/member%02d/ns%02d/deployment.apps_app-%d.yaml", i%50, i/50%20, i), b.Bytes()}
}

// some changes m of n objects, spread over all members.
func some(m, n, version int) []Change {
	all := make([]Change, m)
	for i := range all {
		all[i] = work((version*7919+i*n/m)%n, version)
	}
	return all
}

func TestAFewChangesInALargeTree(t *testing.T) {
	const files = 20000
	w := newWorld(t)
	s := w.open("a")
	head, err := s.Commit(t.Context(), load(t, s).Head, fleet(files), message("all"))
	if err != nil {
		t.Fatal(err)
	}
	push(t, s)
	for version, m := range []int{1, 100, 1000} {
		edits := some(m, files, version+1)
		before, _ := filepath.Glob(filepath.Join(s.o.Dir, "objects/pack/*.pack"))
		next, err := s.Commit(t.Context(), head, edits, message(fmt.Sprint(m)))
		if err != nil {
			t.Fatal(err)
		}
		after, _ := filepath.Glob(filepath.Join(s.o.Dir, "objects/pack/*.pack"))
		if len(after) != len(before)+1 {
			t.Errorf("%d packs after a commit, want one more than %d", len(after), len(before))
		}
		if got := strings.Count(git(t, s.o.Dir, "diff-tree", "-r", "--name-only", string(head), string(next)), "\n") + 1; got != m {
			t.Errorf("%d files differ, want %d", got, m)
		}
		// No more objects than blobs, the trees above them and a commit.
		if got, most := strings.Count(git(t, s.o.Dir, "rev-list", "--objects", string(head)+".."+string(next)), "\n")+1, m+min(m, 1000)+min(m, 50)+3; got > most {
			t.Errorf("%d changes made %d objects, want at most %d", m, got, most)
		}
		head = next
	}
	push(t, s)
	fsck(t, w.dir)
	tree := load(t, s)
	for _, c := range some(1000, files, 3) {
		if data, err := tree.FS.Open(c.Path); err != nil {
			t.Fatal(err)
		} else if info, err := data.Stat(); err != nil || info.Size() != int64(len(c.Data)) {
			t.Fatalf("%s has %d bytes, want %d, %v", c.Path, info.Size(), len(c.Data), err)
		}
	}
}

// peer runs ours and git's way to the same result in turns, so that both meet the same machine. What prepare does
// counts for neither.
func peer(b *testing.B, prepare, ours, theirs func(version int)) {
	var us, git time.Duration
	version := 0
	for b.Loop() {
		version++
		b.StopTimer()
		prepare(version)
		b.StartTimer()
		start := time.Now()
		ours(version)
		us += time.Since(start)
		b.StopTimer()
		start = time.Now()
		theirs(version)
		git += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(git.Nanoseconds())/float64(b.N), "ns/git")
	b.ReportMetric(us.Seconds()/git.Seconds(), "ours/git")
}

// fastImport commits the changes with git fast-import, as a peer.
func fastImport(tb testing.TB, dir string, changes []Change, version int) {
	tb.Helper()
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter a <a@b> %d +0000\ndata 1\nm\n", branch, noon.Unix())
	if version > 0 {
		fmt.Fprintf(&in, "from refs/heads/%s^0\n", branch)
	}
	for _, c := range changes {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", c.Path, len(c.Data), c.Data)
	}
	in.WriteString("done\n")
	if _, err := run(dir, &in, "fast-import", "--quiet", "--done"); err != nil {
		tb.Fatal(err)
	}
}

func benchmarkCommit(b *testing.B, m int) {
	const files = 20000
	s := openStore(b, Options{Dir: b.TempDir()})
	head, err := s.Commit(b.Context(), "", fleet(files), message("all"))
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	git(b, dir, "init", "-q", "--bare")
	fastImport(b, dir, fleet(files), 0)
	b.ReportAllocs()
	var edits []Change
	peer(b, func(version int) { edits = some(m, files, version) }, func(int) {
		if head, err = s.Commit(b.Context(), head, edits, message("m")); err != nil {
			b.Fatal(err)
		}
	}, func(version int) { fastImport(b, dir, edits, version) })
	if ours, theirs := git(b, s.o.Dir, "rev-parse", branch+"^{tree}"), git(b, dir, "rev-parse", branch+"^{tree}"); ours != theirs {
		b.Fatalf("our tree is %s, fast-import's %s", ours, theirs)
	}
}

func BenchmarkCommit1Of20000(b *testing.B)    { benchmarkCommit(b, 1) }
func BenchmarkCommit100Of20000(b *testing.B)  { benchmarkCommit(b, 100) }
func BenchmarkCommit1000Of20000(b *testing.B) { benchmarkCommit(b, 1000) }

func BenchmarkCommitAll20000(b *testing.B) {
	all := fleet(20000)
	b.ReportAllocs()
	peer(b, func(int) {}, func(int) {
		s := openStore(b, Options{Dir: b.TempDir()})
		if _, err := s.Commit(b.Context(), "", all, message("m")); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}, func(int) {
		dir := b.TempDir()
		git(b, dir, "init", "-q", "--bare")
		fastImport(b, dir, all, 0)
	})
}

// BenchmarkPush1Of20000 pushes over HTTP, to git's own server, a commit of one file with a history behind it.
func BenchmarkPush1Of20000(b *testing.B) {
	for _, history := range []int{10, 300} {
		b.Run(fmt.Sprint("history=", history), func(b *testing.B) {
			const files = 20000
			w := newWorld(b)
			o := w.options("a")
			o.Remote = newRemote(b, gittest.ServeHTTP(b, w.dir, gittest.HTTPOptions{}).URL)
			s := openStore(b, o)
			head, err := s.Commit(b.Context(), load(b, s).Head, fleet(files), message("all"))
			if err != nil {
				b.Fatal(err)
			}
			version := 0
			next := func() {
				version++
				if head, err = s.Commit(b.Context(), head, some(1, files, version), message("m")); err != nil {
					b.Fatal(err)
				}
			}
			for range history {
				next()
			}
			push(b, s)
			// The peer pushes the same commits out of the same clone, to a copy of the server.
			twin := filepath.Join(w.folder, "twin.git")
			if err := os.CopyFS(twin, os.DirFS(w.dir)); err != nil {
				b.Fatal(err)
			}
			url := gittest.ServeHTTP(b, twin, gittest.HTTPOptions{}).URL
			peer(b, func(int) { next() }, func(int) { push(b, s) }, func(int) { git(b, o.Dir, "push", "-q", url, branch) })
		})
	}
}

// BenchmarkLoadUnchanged is what a pass without news pays.
func BenchmarkLoadUnchanged(b *testing.B) {
	w := newWorld(b)
	s := openStore(b, Options{Remote: newRemote(b, w.dir), Dir: filepath.Join(w.folder, "a")})
	if _, err := s.Commit(b.Context(), load(b, s).Head, fleet(20000), message("all")); err != nil {
		b.Fatal(err)
	}
	push(b, s)
	for b.Loop() {
		load(b, s)
	}
}
