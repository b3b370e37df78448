package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate"
)

func bundle(t testing.TB, s *Store, since gitstate.Revision) Bundle {
	t.Helper()
	b, err := s.Bundle(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func restore(t testing.TB, s *Store, b Bundle) {
	t.Helper()
	if err := s.Restore(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// pair is a world with a first commit that two clones know.
func pair(t testing.TB) (w *world, a, b *Store, base gitstate.Revision) {
	w = newWorld(t)
	a, b = w.open("a"), w.open("b")
	base = commit1(t, a, load(t, a).Head, "a=1")
	push(t, a)
	load(t, b)
	return w, a, b, base
}

func TestAnotherCloneGoesOnWithABundle(t *testing.T) {
	w, a, b, base := pair(t)
	w.remote.down = true
	second := commit1(t, a, base, "a=2 x/y=1")
	kept := bundle(t, a, "")
	if kept.Base != base || kept.Head != second {
		t.Fatalf("the bundle goes from %s to %s", kept.Base, kept.Head)
	}
	load(t, b)
	restore(t, b, kept)
	tree := load(t, b)
	if tree.Head != second || tree.Unpushed != 1 || tree.Offline == nil {
		t.Fatalf("restored: %+v", tree)
	}
	wantText(t, tree.FS, "a=2 x/y=1")
	third := commit1(t, b, second, "a=3")
	restore(t, a, bundle(t, b, "")) // back again, with one more
	if tree := load(t, a); tree.Head != third || tree.Unpushed != 2 {
		t.Fatalf("back: %+v", tree)
	}
	w.remote.down = false
	push(t, a)
	push(t, b) // it was pushed already
	restore(t, b, kept)
	if tree := load(t, b); tree.Head != third || tree.Unpushed != 0 {
		t.Fatalf("what the remote has is not made again: %+v", tree)
	}
	wantSubjects(t, w.dir, branch, "set a=3; set a=2 x/y=1; set a=1")
	fsck(t, w.dir)
}

func TestABundleOfAWholeHistory(t *testing.T) {
	w := newWorld(t)
	a, b := w.open("a"), w.open("b")
	first := commit1(t, a, load(t, a).Head, "a=1")
	w.remote.down = true
	load(t, b)
	kept := bundle(t, a, "")
	if kept.Base != "" {
		t.Fatalf("it goes on from %s", kept.Base)
	}
	restore(t, b, kept)
	if tree := load(t, b); tree.Head != first || tree.Unpushed != 1 {
		t.Fatalf("restored: %+v", tree)
	}
	commit1(t, b, first, "a=2") // though b never heard of the remote
}

func TestABundleMayBeginEarlier(t *testing.T) {
	w, a, b, base := pair(t)
	second := commit1(t, a, base, "a=2")
	push(t, a)
	w.remote.down = true
	third := commit1(t, a, second, "a=3")
	late := bundle(t, a, "")
	if late.Base != second {
		t.Fatalf("it goes on from %s, want what was pushed last", late.Base)
	}
	if err := b.Restore(t.Context(), late); !errors.Is(err, ErrBundle) { // b was not told of the second
		t.Fatalf("a bundle on an unknown commit: %v", err)
	}
	if tree := load(t, b); tree.Head != base {
		t.Fatalf("an unusable bundle changed the branch: %+v", tree)
	}
	restore(t, b, bundle(t, a, base))
	if tree := load(t, b); tree.Head != third || tree.Remote != base {
		t.Fatalf("restored: %+v", tree)
	}
	w.remote.down = false
	if tree := load(t, b); tree.Head != third || tree.Unpushed != 1 {
		t.Fatalf("the remote is back: %+v", tree)
	}
	push(t, b)
	wantSubjects(t, w.dir, branch, "set a=3; set a=2; set a=1")
}

func TestARestoredCommitGoesOnTopOfWhatPeoplePushed(t *testing.T) {
	w, a, b, base := pair(t)
	commit1(t, a, base, "b=2")
	kept := bundle(t, a, "")
	w.person([]string{"write", "p", "x"}, []string{"commit", "-q", "-m", "person"})
	load(t, b)
	restore(t, b, kept)
	push(t, b)
	wantSubjects(t, w.dir, branch, "set b=2; person; set a=1")
	wantText(t, load(t, b).FS, "a=1 b=2 p=x")
}

func TestRestoringDropsWhatWasNeverKept(t *testing.T) {
	w, a, b, base := pair(t)
	w.remote.down = true
	commit1(t, a, base, "a=stale")
	commit1(t, b, base, "a=2")
	restore(t, a, bundle(t, b, ""))
	if tree := load(t, a); text(t, tree.FS) != "a=2" || tree.Unpushed != 1 {
		t.Fatalf("%+v", tree)
	}
	restore(t, a, Bundle{})
	if tree := load(t, a); tree.Head != base || tree.Unpushed != 0 {
		t.Fatalf("with a bundle of nothing: %+v", tree)
	}
	if b := bundle(t, a, ""); b.Head != "" {
		t.Fatalf("nothing is unpushed, and the bundle has %s", b.Head)
	}
}

func TestADamagedBundleIsRefused(t *testing.T) {
	w, a, b, base := pair(t)
	w.remote.down = true
	commit1(t, a, base, "a=2 x/y=1")
	good := bundle(t, a, "")
	flipped := bytes.Clone(good.Pack)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string]Bundle{
		"cut":          {good.Base, good.Head, good.Pack[:len(good.Pack)-1]},
		"changed":      {good.Base, good.Head, flipped},
		"empty":        {good.Base, good.Head, nil},
		"no commit":    {good.Base, "main", good.Pack},
		"other commit": {good.Base, "0123456789012345678901234567890123456789", good.Pack},
	} {
		if err := b.Restore(t.Context(), bad); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
		if tree := load(t, b); tree.Head != base {
			t.Errorf("%s: the branch moved to %s", name, tree.Head)
		}
	}
	// The pack is sound, and not of this head.
	other := good
	other.Head = commit1(t, a, good.Head, "z=9")
	if err := b.Restore(t.Context(), other); !errors.Is(err, ErrBundle) {
		t.Errorf("a head that is not in the pack: %v", err)
	}
}
