package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/pull"
)

// noise is text that does not get smaller.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return b
}

func report(objects, size int) map[string][]byte {
	files := map[string][]byte{"report.json": []byte("{}"), "facts.json": []byte("{}")}
	for i := range objects {
		files[fmt.Sprintf("copies/default/configmap_%d.json", i)] = noise(size, uint64(i))
	}
	return files
}

func unpack(t interface{ Fatal(...any) }, p packed) map[string][]byte {
	files := map[string][]byte{}
	for _, part := range append([][]byte{p.head}, p.parts...) {
		if err := unzip(part, files); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestAReportComesOutOfItsPartsAsItWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := report(rapid.IntRange(0, 2*partFiles).Draw(t, "objects"), rapid.IntRange(0, 100).Draw(t, "bytes"))
		size := rapid.IntRange(2000, 20000).Draw(t, "size")
		p, err := pack(files, size, packed{})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range append(p.parts, p.head) {
			if len(part) > size {
				t.Fatalf("a part has %d bytes of at most %d", len(part), size)
			}
		}
		if !maps.EqualFunc(unpack(t, p), files, bytes.Equal) {
			t.Fatal("files are missing, or others")
		}
		next := maps.Clone(files)
		for name := range next {
			if rapid.IntRange(0, 99).Draw(t, "change") == 0 {
				next[name] = []byte("else")
			}
		}
		fresh, err := pack(next, size, packed{})
		if err != nil {
			t.Fatal(err)
		}
		again, _ := pack(next, size, p)
		if !bytes.Equal(again.head, fresh.head) || !slices.EqualFunc(again.parts, fresh.parts, bytes.Equal) {
			t.Fatal("the same files are other parts after others")
		}
	})
}

func TestOneObjectThatChangesIsInOnePart(t *testing.T) {
	files := report(4*partFiles, 20)
	before, err := pack(files, partSize, packed{})
	if err != nil {
		t.Fatal(err)
	}
	if len(before.parts) != 4 {
		t.Fatalf("%d objects are in %d parts", 4*partFiles, len(before.parts))
	}
	files["copies/default/configmap_7.json"] = []byte("else")
	after, _ := pack(files, partSize, before)
	changed := 0
	for i := range after.parts {
		if !bytes.Equal(after.parts[i], before.parts[i]) {
			changed++
		}
	}
	if changed != 1 || !bytes.Equal(after.head, before.head) {
		t.Errorf("%d parts changed", changed)
	}
	if _, err := pack(map[string][]byte{"facts.json": noise(10_000, 1)}, 1000, packed{}); !errors.Is(err, errTooLarge) {
		t.Errorf("too much: %v", err)
	}
}

func TestATreeIsAFileSystem(t *testing.T) {
	files := report(3, 5)
	files["copies/_cluster/namespace_x.json"] = []byte("x")
	if err := fstest.TestFS(treeOf(files), slices.Collect(maps.Keys(files))...); err != nil {
		t.Error(err)
	}
	hostile := treeOf(map[string][]byte{"../x": nil, "/x": nil, "a//b": nil, ".": nil, "": nil, "a/../b": nil, "ok": nil})
	if got, err := fs.ReadDir(hostile, "."); err != nil || len(got) != 1 {
		t.Errorf("of names that are none it has %v, %v", got, err)
	}
}

// seen gives the board what is in the management cluster.
func (c *cluster) seen(b *board, p *poster) {
	c.Helper()
	all, err := p.secrets.List(c.Context(), metav1.ListOptions{LabelSelector: labelReport})
	if err != nil {
		c.Fatal(err)
	}
	there := map[api.ID]bool{}
	for i := range all.Items {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&all.Items[i])
		if err != nil {
			c.Fatal(err)
		}
		b.Seen(o)
		there[api.ID{Kind: "Secret", Namespace: "default", Name: all.Items[i].Name}] = true
	}
	b.Listed(there, "")
}

func TestTheBoardHasWhatIsWhole(t *testing.T) {
	c := newCluster(t, 0)
	r := c.start("a", false).Replica
	now := time.Unix(0, 0)
	p := newPoster(r.secrets, "godwit", "a", 3000)
	b := newBoard(r.secrets, "godwit", func() time.Time { return now })
	if _, err := b.List(t.Context()); !errors.Is(err, pull.ErrNotYet) {
		t.Errorf("before it was listed: %v", err)
	}
	files := report(20, 1000)
	if err := p.post(t.Context(), "kube01", files); err != nil {
		t.Fatal(err)
	}
	if err := p.post(t.Context(), "kube02", report(1, 1)); err != nil {
		t.Fatal(err)
	}
	version := func() string {
		s, err := p.secrets.Get(t.Context(), reportName("godwit", "kube01"), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.ResourceVersion
	}
	var sent atomic.Int64
	c.server.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets") {
			sent.Add(1)
		}
		return nil
	})
	first := version()
	if err := p.post(t.Context(), "kube01", files); err != nil {
		t.Fatal(err)
	}
	if version() != first || sent.Load() != 0 {
		t.Errorf("the same report was written again, with %d requests", sent.Load())
	}
	fresh := newPoster(r.secrets, "godwit", "a", 3000)
	c.seen(b, p)
	at, err := b.List(t.Context())
	if err != nil || len(at) != 2 || b.author("kube01") != "a" {
		t.Fatalf("%v, %v, by %q", at, err, b.author("kube01"))
	}
	read := func() map[string][]byte {
		t.Helper()
		posts, err := b.Fetch(t.Context(), "kube01")
		post := posts["kube01"]
		if err != nil || post.Err != nil || post.Revision != at["kube01"] {
			t.Fatalf("%+v, %v", post, err)
		}
		return post.FS.(tree).files
	}
	if !maps.EqualFunc(read(), files, bytes.Equal) {
		t.Error("it is another report")
	}

	// Another replica takes the member over. While a part of its report is missing the last one counts.
	fresh.author = "b"
	files["copies/default/configmap_3.json"] = noise(1000, 77)
	if err := fresh.post(t.Context(), "kube01", files); err != nil {
		t.Fatal(err)
	}
	if n := sent.Load(); n != 3 { // a part that is new, the head, and a part that is old
		t.Errorf("one object that changed took %d writes", n)
	}
	if err := p.post(t.Context(), "kube01", report(2, 1)); err == nil {
		t.Error("one that does not serve it any more wrote over the newer report")
	}
	all, _ := p.secrets.List(t.Context(), metav1.ListOptions{LabelSelector: labelReport})
	for i := range all.Items { // the head comes before its new part
		if all.Items[i].Name == reportName("godwit", "kube01") {
			o, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&all.Items[i])
			b.Seen(o)
		}
	}
	if next, _ := b.List(t.Context()); next["kube01"] != at["kube01"] || b.author("kube01") != "a" {
		t.Errorf("half a report counts: %v", next)
	}
	c.seen(b, p)
	if at, err = b.List(t.Context()); err != nil || b.author("kube01") != "b" {
		t.Fatalf("%v, by %q", err, b.author("kube01"))
	}
	if !maps.EqualFunc(read(), files, bytes.Equal) {
		t.Error("it is another report")
	}

	// What nobody needs goes: reports on members that are no more at once, parts of those who died writing in time.
	if _, err := p.secrets.Create(t.Context(), p.secret(partName(reportName("godwit", "kube01"), "00"), map[string][]byte{keyPart: {1}}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.seen(b, p)
	there := func() (n int, names string) {
		all, err := p.secrets.List(t.Context(), metav1.ListOptions{LabelSelector: labelReport})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			names += s.Name + " "
		}
		return len(all.Items), names
	}
	before, _ := there()
	exists := func(member string) bool { return member == "kube01" }
	b.tidy(t.Context(), exists)
	if n, names := there(); n != before-1 || strings.Contains(names, reportName("godwit", "kube02")) {
		t.Errorf("of %d there are %s", before, names)
	}
	now = now.Add(unneeded + 1)
	b.tidy(t.Context(), exists)
	if n, names := there(); n != before-2 || strings.Contains(names, "-00 ") {
		t.Errorf("of %d there are %s", before, names)
	}
	if !maps.EqualFunc(read(), files, bytes.Equal) {
		t.Error("something was deleted that is needed")
	}
	b.Broken(errors.New("no"))
	if _, err := b.List(t.Context()); err == nil {
		t.Error("it can be listed while it is not watched")
	}
	now = now.Add(2 * watchRetry)
	if _, err := b.List(t.Context()); err != nil {
		t.Errorf("nobody complained any more: %v", err)
	}
}

// A Secret that somebody else made, or that is damaged, is no report.
func TestADamagedReportIsNone(t *testing.T) {
	b := newBoard(nil, "godwit", time.Now)
	name := reportName("godwit", "m")
	secret := func(name string, data map[string]any) api.Object {
		return api.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "resourceVersion": "1"}, "data": data}
	}
	b.Listed(nil, "")
	b.Seen(secret("theirs", map[string]any{"member": "bQ==", "head": "bQ=="}))
	b.Seen(secret("theirs", nil))
	b.Seen(api.Object{})
	if at, err := b.List(t.Context()); err != nil || len(at) != 0 {
		t.Errorf("%v, %v", at, err)
	}
	b.Seen(secret(name, map[string]any{"member": "bQ==", "head": "bQ=="}))
	if at, _ := b.List(t.Context()); at["m"] != gitstate.Revision("1") {
		t.Fatalf("%v", at)
	}
	posts, err := b.Fetch(t.Context(), "m")
	if err != nil || !errors.Is(posts["m"].Err, errIncomplete) {
		t.Errorf("%v, %v", posts, err)
	}
}

func FuzzUnzip(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(zip(map[string][]byte{"report.json": []byte("{}"), "copies/a/b.json": {}}))
	f.Add(zip(nil)[:10])
	f.Fuzz(func(t *testing.T, part []byte) {
		files := map[string][]byte{}
		if err := unzip(part, files); err != nil {
			if len(files) > 0 {
				t.Fatal("an error, and files")
			}
			return
		}
		again := map[string][]byte{}
		if err := unzip(zip(files), again); err != nil || !maps.EqualFunc(files, again, bytes.Equal) {
			t.Fatalf("%v, and others come back", err)
		}
		_, _ = treeOf(files).ReadDir(".")
	})
}

// Whoever wrote a report writes it again when somebody deletes or changes it, and only then.
func TestAReportThatIsLostIsWrittenAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6)
	a, b := c.start("a", true), c.start("b", false)
	c.eventually("b takes part", func() bool { return len(b.local.names()) > 0 })
	c.divided(a, b)
	c.eventually("all are ready", func() bool {
		for name := range c.wants {
			if a.fleet.Observe().Members[name].Ready != metav1.ConditionTrue {
				return false
			}
		}
		return true
	})
	member := b.local.names()[0]
	name := reportName("godwit", member)
	read := func() *corev1.Secret {
		s, err := a.secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return &corev1.Secret{}
		}
		return s
	}
	want := read()
	for what, harm := range map[string]func(s *corev1.Secret) error{
		"deleted": func(s *corev1.Secret) error {
			return a.secrets.Delete(t.Context(), name, metav1.DeleteOptions{})
		},
		"garbled": func(s *corev1.Secret) error {
			s.Data = map[string][]byte{keyMember: s.Data[keyMember], keyHead: []byte("garbage")}
			_, err := a.secrets.Update(t.Context(), s, metav1.UpdateOptions{})
			return err
		},
		"not labelled": func(s *corev1.Secret) error {
			s.Labels = nil
			_, err := a.secrets.Update(t.Context(), s, metav1.UpdateOptions{})
			return err
		},
	} {
		if err := harm(read()); err != nil {
			t.Fatal(what, err)
		}
		c.eventually("it is there again, after it was "+what, func() bool {
			s := read()
			return string(s.Data[keyAuthor]) == "b" && bytes.Equal(s.Data[keyHead], want.Data[keyHead]) && maps.Equal(s.Labels, want.Labels)
		})
		if facts := a.fleet.Observe().Members[member]; facts.Ready != metav1.ConditionTrue {
			t.Errorf("%s: %s is %q", what, member, facts.Ready)
		}
	}
}

// What others do to Secrets of a report raises a doubt, and what we wrote ourselves none that lasts.
func TestADoubtIsLookedInto(t *testing.T) {
	c := newCluster(t, 0)
	r := c.start("a", false).Replica
	p := newPoster(r.secrets, "godwit", "a", 3000)
	w := &watched{poster: p, doubtful: make(chan struct{}, 1), versions: map[string]string{}}
	files := report(20, 1000)
	post := func() {
		t.Helper()
		if err := p.post(t.Context(), "kube01", files); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() *board {
		b := newBoard(r.secrets, "godwit", time.Now)
		c.seen(b, p)
		return b
	}
	list := func() map[string]corev1.Secret {
		t.Helper()
		all, err := p.secrets.List(t.Context(), metav1.ListOptions{LabelSelector: labelReport})
		if err != nil {
			t.Fatal(err)
		}
		there, ids := map[string]corev1.Secret{}, map[api.ID]bool{}
		for _, s := range all.Items {
			o, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
			w.Seen(o)
			there[s.Name], ids[api.ID{Name: s.Name}] = s, true
		}
		w.Listed(ids, "")
		return there
	}
	post()
	before := list()
	if len(before) < 3 || p.doubted("kube01") {
		t.Fatalf("of %d Secrets there are doubts: %t", len(before), p.doubted("kube01"))
	}
	files["copies/default/configmap_3.json"] = noise(1000, 78)
	post()
	if list(); p.doubted("kube01") {
		t.Error("what we changed ourselves is in doubt")
	}
	var sent atomic.Int64
	c.server.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets") {
			sent.Add(1)
		}
		return nil
	})
	p.mu.Lock()
	p.doubt("kube01", "an older one")
	p.mu.Unlock()
	if post(); sent.Load() != 0 || p.doubted("kube01") {
		t.Errorf("a doubt about nothing took %d writes", sent.Load())
	}
	for name := range list() {
		for _, harm := range []string{"deleted", "changed"} {
			s, err := p.secrets.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if harm == "deleted" {
				err = p.secrets.Delete(t.Context(), name, metav1.DeleteOptions{})
			} else {
				for key := range s.Data {
					if key != keyMember && key != keyAuthor {
						s.Data[key] = []byte("else")
					}
				}
				_, err = p.secrets.Update(t.Context(), s, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if list(); !p.doubted("kube01") {
				t.Fatalf("%s was %s and nobody doubts", name, harm)
			}
			post()
			posts, err := func() (map[string]store.Post, error) {
				b := whole()
				if _, err := b.List(t.Context()); err != nil {
					return nil, err
				}
				return b.Fetch(t.Context(), "kube01")
			}()
			if post := posts["kube01"]; err != nil || post.Err != nil || post.FS == nil || !maps.EqualFunc(post.FS.(tree).files, files, bytes.Equal) {
				t.Fatalf("%s was %s, and the report is not what it was: %v, %v", name, harm, err, post.Err)
			}
			list()
			if p.doubted("kube01") {
				post()
			}
			if list(); p.doubted("kube01") {
				t.Errorf("%s was %s, and doubts do not end", name, harm)
			}
		}
	}
}

// A report that went is no silence of who wrote it.
func TestTheAuthorOfAReportThatWentIsKnown(t *testing.T) {
	c := newCluster(t, 0)
	r := c.start("a", false).Replica
	p := newPoster(r.secrets, "godwit", "a", partSize)
	b := newBoard(r.secrets, "godwit", time.Now)
	if err := p.post(t.Context(), "kube01", report(1, 1)); err != nil {
		t.Fatal(err)
	}
	c.seen(b, p)
	if at, err := b.List(t.Context()); err != nil || len(at) != 1 {
		t.Fatal(at, err)
	}
	b.Listed(nil, "")
	if at, err := b.List(t.Context()); err != nil || len(at) != 0 || b.author("kube01") != "a" {
		t.Errorf("%v, %v, by %q", at, err, b.author("kube01"))
	}
	b.tidy(t.Context(), func(string) bool { return false })
	if by := b.author("kube01"); by != "" {
		t.Errorf("a member that is no more is by %q", by)
	}
}
