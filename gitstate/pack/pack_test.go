package pack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// git runs the git binary, which is the judge of all that is written here.
func git(t testing.TB, dir string, stdin []byte, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, stdin, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryGit(dir string, stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func newRepo(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, "init", "-q", "--bare")
	return dir
}

// someObjects makes n blobs of different sizes, the tree that has them and a commit of it.
func someObjects(n int, salt uint64) []Object {
	r := rand.New(rand.NewPCG(salt, 1))
	var objects []Object
	var entries []Entry
	for i := range n {
		text := fmt.Sprintf("kind: Deployment\nname: %d-%d\n", salt, i) + strings.Repeat(fmt.Sprintf("line %d\n", r.IntN(9)), r.IntN(200))
		o := New(Blob, []byte(text))
		objects = append(objects, o)
		entries = append(entries, Entry{fmt.Sprintf("%06d.yaml", i), ModeFile, o.Hash})
	}
	data, err := EncodeTree(entries)
	if err != nil {
		panic(err)
	}
	tree := New(Tree, data)
	commit := fmt.Sprintf("tree %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nall %d\n", tree.Hash, salt)
	return append(objects, tree, New(Commit, []byte(commit)))
}

func save(t testing.TB, repo string, objects []Object) string {
	t.Helper()
	name, err := Save(repo, len(objects), nil, func(w *Writer) error { return w.WriteAll(objects) })
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t testing.TB, repo string) *Objects {
	t.Helper()
	o, err := OpenObjects(repo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

func TestGitAcceptsEveryPackAndMakesTheSameIndex(t *testing.T) {
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		if round++; round > 12 {
			return // each round starts git three times
		}
		repo := filepath.Join(dir, fmt.Sprint(round))
		if out, err := tryGit(dir, nil, "init", "-q", "--bare", repo); err != nil {
			t.Fatal(out)
		}
		objects := someObjects(rapid.IntRange(0, 300).Draw(t, "blobs"), rapid.Uint64().Draw(t, "salt"))
		huge := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "blob")
		if o := New(Blob, huge); !slices.ContainsFunc(objects, func(p Object) bool { return p.Hash == o.Hash }) {
			objects = append(objects, o)
		}
		name, err := Save(repo, len(objects), nil, func(w *Writer) error { return w.WriteAll(objects) })
		if err != nil {
			t.Fatal(err)
		}
		theirs := filepath.Join(repo, "theirs.idx")
		if out, err := tryGit(repo, nil, "index-pack", "--strict", "-o", theirs, name+".pack"); err != nil {
			t.Fatalf("index-pack: %s", out)
		}
		ourIndex, _ := os.ReadFile(name + ".idx")
		if theirIndex, err := os.ReadFile(theirs); err != nil || !bytes.Equal(ourIndex, theirIndex) {
			t.Fatalf("our index differs from git's (%v)", err)
		}
		if out, err := tryGit(repo, nil, "fsck", "--strict", "--full"); err != nil || strings.Contains(out, "error") {
			t.Fatalf("fsck: %s", out)
		}
	})
}

func TestManyGoroutinesWriteTheBytesOfOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	objects := someObjects(1000, 7)
	var one, many bytes.Buffer
	w := NewWriter(&one, len(objects))
	for _, o := range objects {
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	a, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	w = NewWriter(&many, len(objects))
	if err := w.WriteAll(objects); err != nil {
		t.Fatal(err)
	}
	b, err := w.Close()
	if err != nil || a != b || !bytes.Equal(one.Bytes(), many.Bytes()) {
		t.Errorf("one goroutine wrote %s, many wrote %s, %v", a, b, err)
	}
}

func TestAPackKeepsItsPromise(t *testing.T) {
	o := New(Blob, []byte("x"))
	for _, c := range []struct {
		name  string
		write func(w *Writer)
		want  string
	}{
		{"too few", func(w *Writer) { w.Write(o) }, "pack is 1 objects short"},
		{"too many", func(w *Writer) { w.WriteAll([]Object{o, o, o}) }, "pack has more objects than announced"},
		{"beyond 2 GiB", func(w *Writer) { w.size = maxPack - 3; w.Write(o) }, "pack would exceed 2 GiB"},
	} {
		w := NewWriter(io.Discard, 2)
		c.write(w)
		if _, err := w.Close(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	w := NewWriter(io.Discard, 2)
	w.WriteAll([]Object{o, o})
	if _, err := w.index(plumbing.ZeroHash); err == nil {
		t.Error("an object twice in a pack was indexed")
	}
}

type failing struct{ after int }

func (f *failing) Write(b []byte) (int, error) {
	if f.after -= len(b); f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestAFullDiskStopsAllGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	before := runtime.NumGoroutine()
	objects := someObjects(2000, 1)
	w := NewWriter(&failing{after: 20000}, len(objects))
	if err := w.WriteAll(objects); err == nil || err.Error() != "disk full" {
		t.Errorf("WriteAll = %v, want disk full", err)
	}
	// Their channels are closed as their last act, so at most the exit itself is still to come.
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
	repo := newRepo(t)
	if _, err := Save(repo, 1, nil, func(*Writer) error { return errors.New("no") }); err == nil {
		t.Error("Save did not report what fill said")
	}
	if left, _ := os.ReadDir(Dir(repo)); len(left) > 0 {
		t.Errorf("a save that went wrong left %v", left)
	}
}

func TestAPackIsInvisibleUntilItIsWhole(t *testing.T) {
	repo := newRepo(t)
	objects := someObjects(3, 1)
	var got []string
	at := func(step string) {
		got = append(got, fmt.Sprintf("%s: %v", step, open(t, repo).Has(objects[0].Hash)))
		git(t, repo, nil, "fsck", "--strict")
	}
	_, err := Save(repo, len(objects), at, func(w *Writer) error { return w.WriteAll(objects) })
	want := []string{"objects-written: false", "pack-renamed: false", "index-renamed: true"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestSweepRemovesOnlyWhatDeadProcessesLeft(t *testing.T) {
	repo := newRepo(t)
	name := save(t, repo, someObjects(3, 1))
	for _, file := range []string{temporary + "123", "pack-" + strings.Repeat("ab", 20) + ".pack", "pack-" + strings.Repeat("cd", 20) + ".idx"} {
		if err := os.WriteFile(filepath.Join(Dir(repo), file), nil, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(repo); err != nil {
		t.Fatal(err)
	}
	var got []string
	files, _ := os.ReadDir(Dir(repo))
	for _, f := range files {
		got = append(got, f.Name())
	}
	if diff := cmp.Diff([]string{filepath.Base(name) + ".idx", filepath.Base(name) + ".pack"}, got); diff != "" {
		t.Error(diff)
	}
}

// everything lists kind and content of each object as the git binary sees it.
func everything(t testing.TB, repo string) map[string]string {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(git(t, repo, nil, "cat-file", "--batch-all-objects", "--batch", "--unordered")))
	all := map[string]string{}
	for {
		var hash, kind string
		var size int
		if _, err := fmt.Fscanf(r, "%s %s %d\n", &hash, &kind, &size); err != nil {
			return all
		}
		data := make([]byte, size+1)
		if _, err := io.ReadFull(r, data); err != nil {
			t.Fatal(err)
		}
		all[hash] = kind + " " + string(data[:size])
	}
}

func compareWithGit(t *testing.T, repo string) {
	t.Helper()
	o := open(t, repo)
	all := everything(t, repo)
	if len(all) == 0 {
		t.Fatal("git sees nothing")
	}
	for hash, want := range all {
		got, err := o.Get(plumbing.NewHash(hash))
		if text := got.Kind.String() + " " + string(got.Data); err != nil || text != want {
			t.Fatalf("Get(%s) = %.60q, %v, want %.60q", hash, text, err, want)
		}
		if !o.Has(plumbing.NewHash(hash)) {
			t.Fatalf("Has(%s) = false", hash)
		}
	}
	if err := o.Verify(); err != nil {
		t.Error(err)
	}
}

// deltaRepo is a repository that git itself packed, with long chains of deltas.
func deltaRepo(t testing.TB, offsets bool) string {
	t.Helper()
	repo := newRepo(t)
	text := strings.Repeat("a line that is the same in each version of it\n", 100)
	for i := range 40 {
		text = text[:i*50] + fmt.Sprint("version ", i, "\n") + text[i*50:]
		save(t, repo, []Object{New(Blob, []byte(text))})
	}
	objects := someObjects(200, 3)
	save(t, repo, objects)
	git(t, repo, nil, "update-ref", "refs/heads/main", objects[len(objects)-1].Hash.String())
	git(t, repo, nil, "-c", fmt.Sprint("repack.useDeltaBaseOffset=", offsets), "repack", "-q", "-a", "-d", "-f", "-k", "--depth=50", "--window=20")
	return repo
}

func TestGetReadsWhatGitReads(t *testing.T) {
	for _, offsets := range []bool{true, false} {
		repo := deltaRepo(t, offsets)
		packs, _ := filepath.Glob(filepath.Join(Dir(repo), "*.idx"))
		if out := git(t, repo, nil, "verify-pack", "-v", packs[0]); !strings.Contains(out, "chain length = 4") {
			t.Fatalf("git made no long chains of deltas:\n%s", out[max(0, len(out)-600):])
		}
		compareWithGit(t, repo)
	}
	loose := newRepo(t)
	hash := strings.TrimSpace(git(t, loose, []byte("hello"), "hash-object", "-w", "--stdin"))
	compareWithGit(t, loose)
	file := filepath.Join(loose, "objects", hash[:2], hash[2:])
	os.Remove(file)
	if err := os.WriteFile(file, []byte("x\x9c"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, loose).Get(plumbing.NewHash(hash)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a broken loose object: %v, want %v", err, ErrDamaged)
	}
}

func TestAnObjectThatCameLaterIsFound(t *testing.T) {
	repo := newRepo(t)
	o := open(t, repo)
	blob := New(Blob, []byte("late"))
	if _, err := o.Get(blob.Hash); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v, want %v", err, ErrMissing)
	}
	save(t, repo, []Object{blob})
	if got, err := o.GetKind(Blob, blob.Hash); err != nil || string(got) != "late" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := o.GetKind(Tree, blob.Hash); !errors.Is(err, ErrDamaged) {
		t.Errorf("a blob for a tree: %v, want %v", err, ErrDamaged)
	}
}

func TestConsolidateKeepsEveryObjectInFewPacks(t *testing.T) {
	repo := deltaRepo(t, true)
	o := open(t, repo)
	kept := save(t, repo, someObjects(5, 99))
	if err := os.WriteFile(kept+".keep", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const commits, limit = 200, 8
	for i := range commits {
		save(t, repo, append(someObjects(3, uint64(i)), New(Blob, []byte("in every pack"))))
		if i%50 == 20 {
			git(t, repo, nil, "multi-pack-index", "write")
		}
		if err := o.Refresh(); err != nil {
			t.Fatal(err)
		}
		if err := o.Consolidate(limit, nil); err != nil {
			t.Fatal(err)
		}
		if o.Len() > limit+1 {
			t.Fatalf("%d packs after commit %d, want at most %d and the kept one", o.Len(), i, limit)
		}
	}
	if out := git(t, repo, nil, "fsck", "--strict", "--full"); strings.Contains(out, "error") {
		t.Error(out)
	}
	for i := range commits {
		for _, obj := range someObjects(3, uint64(i)) {
			if !o.Has(obj.Hash) {
				t.Fatalf("%s %s of commit %d is gone", obj.Kind, obj.Hash, i)
			}
		}
	}
	compareWithGit(t, repo)
	if _, err := os.Stat(kept + ".pack"); err != nil {
		t.Error("a pack marked .keep was melted")
	}
}

func TestRollupLeavesAGeometricRow(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int64
		want  int
	}{
		{"nothing", nil, 0},
		{"one", []int64{5}, 0},
		{"geometric already", []int64{1, 2, 4, 8}, 0},
		{"equal ones", []int64{1, 1, 1, 1}, 4},
		{"small beside large", []int64{1, 1, 1, 100}, 3},
		{"the sum reaches the next", []int64{4, 4, 4, 8, 100}, 4},
		{"no pack over the limit", []int64{maxPack / 4, maxPack / 4, maxPack / 4}, 2},
	} {
		if got := rollup(c.sizes); got != c.want {
			t.Errorf("%s: rollup(%v) = %d, want %d", c.name, c.sizes, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOf(rapid.Int64Range(1, 1000)).Draw(t, "sizes")
		slices.Sort(sizes)
		n := rollup(sizes)
		sum := int64(0)
		for i, s := range sizes {
			if i >= n && i > 0 && s < 2*sizes[i-1] && i > n {
				t.Fatalf("rollup(%v) = %d leaves %d beside %d", sizes, n, s, sizes[i-1])
			}
			if i == n && n > 0 && s < 2*sum {
				t.Fatalf("rollup(%v) = %d makes %d beside %d", sizes, n, sum, s)
			}
			sum += s
		}
	})
}

func TestNoFlippedBitGoesUnseen(t *testing.T) {
	repo := deltaRepo(t, true)
	packs, _ := filepath.Glob(filepath.Join(Dir(repo), "*.pack"))
	all := everything(t, repo)
	r := rand.New(rand.NewPCG(1, 2))
	for _, ext := range []string{".pack", ".idx"} {
		file := strings.TrimSuffix(packs[0], ".pack") + ext
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(file, 0o644)
		for range 60 {
			bad := bytes.Clone(good)
			at := r.IntN(len(bad))
			bad[at] ^= 1 << r.IntN(8)
			if r.IntN(5) == 0 {
				bad = good[:at]
			}
			if err := os.WriteFile(file, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			o, err := OpenObjects(repo)
			if err == nil {
				err = o.Verify()
				for hash, want := range all { // even unverified, nothing wrong comes out
					if got, e := o.Get(plumbing.NewHash(hash)); e == nil && got.Kind.String()+" "+string(got.Data) != want {
						t.Fatalf("%s with byte %d changed: wrong content of %s", ext, at, hash)
					}
				}
				o.Close()
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s with byte %d changed: %v, want %v", ext, at, err, ErrDamaged)
			}
		}
		if err := os.WriteFile(file, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzPatchStaysInItsBounds(f *testing.F) {
	f.Add([]byte("hello world"), []byte("\x0b\x06\x91\x00\x05\x01!"))
	f.Add([]byte("hello"), []byte("\x05\x05\x05abcde"))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		out, err := patch(base, delta)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("unexpected error %v", err)
		}
		_, n := binary.Uvarint(delta)
		if size, _ := binary.Uvarint(delta[max(n, 0):]); err == nil && uint64(len(out)) != size {
			t.Errorf("%d bytes, announced %d", len(out), size)
		}
	})
}

// FuzzEntry lets anything be the body of a pack whose index is right.
func FuzzEntry(f *testing.F) {
	var d deflater
	f.Add(bytes.Clone(d.entry(New(Blob, []byte("hello")))), bytes.Clone(d.entry(New(Commit, nil))))
	f.Add([]byte{0x65, 0x10, 'x'}, append([]byte{0x75}, bytes.Repeat([]byte{7}, 30)...))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		repo := t.TempDir()
		if err := os.MkdirAll(Dir(repo), 0o755); err != nil {
			t.Fatal(err)
		}
		hashes := []plumbing.Hash{Sum(Blob, a), Sum(Tree, b)}
		if _, err := Save(repo, 2, nil, func(w *Writer) error {
			w.entry(hashes[0], a)
			w.entry(hashes[1], b)
			return w.err
		}); err != nil {
			t.Fatal(err)
		}
		o, err := OpenObjects(repo)
		if err != nil {
			return // two empty entries begin at the same place
		}
		defer o.Close()
		for _, h := range hashes {
			if obj, err := o.Get(h); err == nil && !obj.Kind.whole() || err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMissing) {
				t.Errorf("Get = %v, %v", obj, err)
			}
		}
	})
}

func BenchmarkWriteAll20000(b *testing.B) {
	objects := someObjects(20000, 1)
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard, len(objects))
		if err := w.WriteAll(objects); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	repo := newRepo(b)
	objects := someObjects(20000, 1)
	save(b, repo, objects)
	o := open(b, repo)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := o.Get(objects[i%20000].Hash); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func removePacks(t *testing.T, repo string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(Dir(repo), "pack-*"))
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}
