package remote_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Two pushes store their packs at the same time: neither may take the other's pack, whose index is
// still to come, for a damaged repository.
func TestConcurrentPushesToALocalRepositoryAllArrive(t *testing.T) {
	repo := gittest.NewRepo(t)
	r, err := remote.New(remote.Options{URL: repo.Dir})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for n := range 15 {
				tree := pack.New(pack.Tree, nil)
				commit := pack.New(pack.Commit, fmt.Appendf(nil, "tree %s\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n%d %d\n", tree.Hash, writer, n))
				var text bytes.Buffer
				w := pack.NewWriter(&text, 2)
				if err := w.WriteAll([]pack.Object{commit, tree}); err != nil {
					t.Error(err)
					return
				}
				if _, err := w.Close(); err != nil {
					t.Error(err)
					return
				}
				ref := fmt.Sprintf("refs/heads/w%d-%d", writer, n)
				if err := r.Push(t.Context(), ref, plumbing.ZeroHash, commit.Hash, &text); err != nil {
					t.Errorf("push %s: %v", ref, err)
				}
			}
		})
	}
	group.Wait()
	refs, err := r.Refs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for writer := range 4 {
		for n := range 15 {
			if ref := fmt.Sprintf("refs/heads/w%d-%d", writer, n); refs[ref].IsZero() {
				t.Errorf("%s did not arrive", ref)
			}
		}
	}
}
