package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// tree is files that know their hashes.
type tree struct{ fstest.MapFS }

func (t tree) Hash(name string) (string, error) {
	if f, ok := t.MapFS[name]; ok {
		return fmt.Sprintf("%x", canonical.Blob(f.Data)), nil
	}
	return "", fs.ErrNotExist
}

func treeOf(files map[string][]byte) tree {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: data}
	}
	return tree{m}
}

// revisionOf tells two sets of files apart.
func revisionOf(files map[string][]byte) gitstate.Revision {
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = fmt.Appendf(all, "%s %x\n", name, canonical.Blob(files[name]))
	}
	return gitstate.Revision(fmt.Sprintf("%x", canonical.Blob(all)))
}

// fakeBoard has a set of files for each branch. It is the fake of both ends.
type fakeBoard struct {
	mu     sync.Mutex
	posts  map[string]map[string][]byte
	down   error
	broken map[string]error // by branch
	looks  int
	fails  int // of the next posts
	times  []time.Time
}

func (b *fakeBoard) List(context.Context) (map[string]gitstate.Revision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	at := map[string]gitstate.Revision{}
	for name, files := range b.posts {
		at[name] = revisionOf(files)
	}
	return at, b.down
}

func (b *fakeBoard) Fetch(_ context.Context, names ...string) (map[string]store.Post, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := map[string]store.Post{}
	for _, name := range names {
		if err := b.broken[name]; err != nil {
			return nil, err
		}
		got[name] = store.Post{Revision: revisionOf(b.posts[name]), FS: treeOf(b.posts[name])}
	}
	return got, b.down
}

// with changes the board.
func (b *fakeBoard) with(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// taken is how many posts were.
func (b *fakeBoard) taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.times)
}

// file is one of the member far.
func (b *fakeBoard) file(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.posts["far"][name])
}

// put is what an agent pushed.
func (b *fakeBoard) put(branch string, files map[string][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.posts == nil {
		b.posts = map[string]map[string][]byte{}
	}
	b.posts[branch] = files
}

// poster is one agent's end.
type poster struct {
	*fakeBoard
	branch string
}

func (p poster) Post(_ context.Context, files map[string][]byte, _ string, when time.Time) (gitstate.Revision, error) {
	p.mu.Lock()
	failing := p.fails > 0
	if failing {
		p.fails--
	} else {
		p.times = append(p.times, when)
	}
	p.mu.Unlock()
	if failing {
		return "", errors.New("pushes are refused")
	}
	p.put(p.branch, files)
	return revisionOf(files), nil
}

// fakeFleet is members that are what the test says.
type fakeFleet struct {
	mu      sync.Mutex
	desired map[string]Desired
	seen    decide.Observations
	changed chan struct{}
}

func newFakeFleet() *fakeFleet { return &fakeFleet{changed: make(chan struct{}, 1)} }

func (f *fakeFleet) Set(desired map[string]Desired) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.desired = desired
}

func (f *fakeFleet) Observe() decide.Observations {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *fakeFleet) Changed() <-chan struct{} { return f.changed }

// see is news of the member.
func (f *fakeFleet) see(name string, facts decide.MemberFacts) {
	f.mu.Lock()
	f.seen = decide.Observations{Members: map[string]decide.MemberFacts{name: facts}}
	f.mu.Unlock()
	signal(f.changed)
}

func (f *fakeFleet) wanted(name string) Desired {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desired[name]
}

// fakeState is a state branch as a list of commits, the last of which is the head.
type fakeState struct {
	mu      sync.Mutex
	commits []fakeCommit
	offline error
	err     error
	logs    int
}

type fakeCommit struct {
	rev   gitstate.Revision
	files map[string][]byte
}

func (s *fakeState) Load(context.Context) (store.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.commits) == 0 {
		return store.Tree{Offline: s.offline}, s.err
	}
	head := s.commits[len(s.commits)-1]
	return store.Tree{Head: head.rev, FS: treeOf(head.files), Offline: s.offline}, nil
}

func (s *fakeState) Log(_ context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs++
	commits := slices.Clone(s.commits)
	return func(yield func(store.Commit, error) bool) {
		for _, c := range slices.Backward(commits) {
			if !yield(store.Commit{Revision: c.rev}, nil) {
				return
			}
		}
	}
}

// with changes the branch.
func (s *fakeState) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeState) commit(rev string, files map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, fakeCommit{gitstate.Revision(rev), files})
}

func id(kind, name string) api.ID { return api.ID{Kind: kind, Namespace: "default", Name: name} }

// clusterOf is a member whose agent takes its objects.
func clusterOf(name string, mode clusterv1alpha1.SyncMode, uid string) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1alpha1.APIVersion, Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	c.Spec.SyncMode, c.Spec.ID = mode, uid
	return c
}

func configMap(name, value string) api.Object {
	return api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}, "data": map[string]any{"k": value}}
}

// hashOf is the hash of a work as facts give it.
func hashOf(o api.Object) string { return decide.HashText(canonical.Blob(record.EncodeObject(o))) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
