package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate"
)

var errForged = errors.New("forged")

// judge refuses commits whose subjects begin with "bad" and what comes after them, and remembers what it was asked.
type judge struct {
	warn  bool
	asked []string // "head known judged"
}

func (j *judge) admit(_ context.Context, in Incoming) (Admission, error) {
	j.asked = append(j.asked, fmt.Sprintf("%.4s %.4s %v", in.Head, in.Known, in.Judged))
	a := Admission{}
	for c, err := range in.Log {
		switch {
		case err != nil:
			return a, err
		case strings.HasPrefix(c.Subject, "bad"):
			a = Admission{Problem: errForged}
		case a.UpTo == "":
			a.UpTo = c.Revision
		}
	}
	if j.warn {
		a.UpTo = in.Head
	}
	return a, nil
}

func (w *world) judged(name string, j *judge) *Store {
	o := w.options(name)
	o.Admit = j.admit
	return openStore(w.t, o)
}

func write(file, subject string) [][]string {
	return [][]string{{"write", file, "x"}, {"commit", "-q", "-m", subject}}
}

func TestWhatIsRefusedIsNotBuiltUpon(t *testing.T) {
	w, j := newWorld(t), &judge{}
	s := w.judged("a", j)
	good := commit1(t, s, load(t, s).Head, "a=1")
	push(t, s)
	if load(t, s); len(j.asked) != 0 {
		t.Errorf("the first commit was our own, and was judged: %q", j.asked)
	}
	unpushed := commit1(t, s, good, "a=2")
	w.person(write("p", "bad")...)
	forged := w.head()
	for range 2 {
		tree := load(t, s)
		if tree.Head != unpushed || tree.Remote != good || tree.Refused != forged || !errors.Is(tree.Unverified, errForged) || tree.Unpushed != 1 {
			t.Errorf("Load = %+v, want %s over %s without %s", tree, unpushed, good, forged)
		}
	}
	if len(j.asked) != 1 {
		t.Errorf("one head was judged %d times", len(j.asked))
	}
	if err := s.Push(t.Context()); !errors.Is(err, errForged) || errors.Is(err, gitstate.ErrConflict) {
		t.Errorf("Push = %v", err)
	}
	commit1(t, s, unpushed, "a=3") // decisions go on
	if got := w.head(); got != forged {
		t.Errorf("the remote's branch was moved to %s", got)
	}
	w.person([]string{"reset", "-q", "--hard", string(good)}, []string{"write", "q", "y"}, []string{"commit", "-q", "-m", "good"})
	tree := load(t, s)
	if tree.Refused != "" || tree.Unverified != nil || tree.Unpushed != 2 {
		t.Errorf("Load = %+v", tree)
	}
	wantText(t, tree.FS, "a=3 q=y")
	push(t, s)
	wantSubjects(t, w.dir, branch, "set a=3; set a=2; good; set a=1")
	fsck(t, w.dir)
}

func TestAFreshCloneTakesWhatIsAdmitted(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	good := commit1(t, s, load(t, s).Head, "a=1")
	push(t, s)
	w.person(write("p", "bad")...)
	w.person(write("q", "more")...)
	forged := w.head()
	j := &judge{}
	fresh := w.judged("b", j)
	tree := load(t, fresh)
	if tree.Head != good || tree.Refused != forged {
		t.Errorf("Load = %+v, want %s", tree, good)
	}
	wantText(t, tree.FS, "a=1")
	fresh.Close()
	// A clone that has all of it from before goes back to what is admitted.
	load(t, s)
	s.Close()
	old := w.judged("a", j)
	if tree := load(t, old); tree.Head != good || tree.Refused != forged {
		t.Errorf("Load = %+v, want %s", tree, good)
	}
	want := []string{fmt.Sprintf("%.4s  false", forged), fmt.Sprintf("%.4s %.4s false", forged, forged)}
	if strings.Join(j.asked, ",") != strings.Join(want, ",") {
		t.Errorf("asked %q, want %q", j.asked, want)
	}
	commit1(t, old, good, "a=2")
	if err := old.Push(t.Context()); !errors.Is(err, errForged) {
		t.Errorf("Push = %v", err)
	}
}

func TestWhereNothingIsAdmittedNothingIsLoaded(t *testing.T) {
	w := newWorld(t)
	s := w.open("a")
	commit, err := s.Commit(t.Context(), load(t, s).Head, changes("a=1"), message("bad"))
	if err != nil {
		t.Fatal(err)
	}
	push(t, s)
	fresh := w.judged("b", &judge{})
	if tree, err := fresh.Load(t.Context()); !errors.Is(err, errForged) {
		t.Errorf("Load = %+v, %v", tree, err)
	}
	if head, err := fresh.Commit(t.Context(), "", changes("b=1"), message("m")); err == nil {
		t.Errorf("committed %s in place of %s", head, commit)
	}
}

func TestAWarningIsGivenOnce(t *testing.T) {
	w, j := newWorld(t), &judge{warn: true}
	s := w.judged("a", j)
	commit1(t, s, load(t, s).Head, "a=1")
	push(t, s)
	w.person(write("p", "bad")...)
	if tree := load(t, s); tree.Head != w.head() || tree.Refused != "" || !errors.Is(tree.Unverified, errForged) {
		t.Errorf("Load = %+v", tree)
	}
	if tree := load(t, s); tree.Unverified != nil {
		t.Errorf("said again: %v", tree.Unverified)
	}
	push(t, s)
}
