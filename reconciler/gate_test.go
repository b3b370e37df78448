package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/signature"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// fakeLineage is that of a fakeSource: each revision follows the one before, but for those that are cut off.
type fakeLineage struct {
	cut    map[gitstate.Revision]bool
	doubt  bool
	most   int // commits that are listed, 0 means any number
	lookup int
}

func (l *fakeLineage) chain(head gitstate.Revision) (list []gitstate.Revision) {
	for n, _ := strconv.Atoi(string(head)); n > 0; n-- {
		r := gitstate.Revision(fmt.Sprint(n))
		list = append(list, r)
		if l.cut[r] {
			break
		}
	}
	return list
}

func (l *fakeLineage) Descends(_ context.Context, head, from gitstate.Revision) (bool, error) {
	l.lookup++
	found := slices.Contains(l.chain(head), from)
	if !found && l.doubt {
		return false, gitstate.ErrHistory
	}
	return found, nil
}

func (l *fakeLineage) Commits(_ context.Context, head gitstate.Revision, known []gitstate.Revision, most int) ([]gitstate.Object, error) {
	l.lookup++
	list := []gitstate.Object{{Revision: head, Data: []byte(head)}}
	for _, r := range l.chain(head)[1:] {
		if slices.Contains(known, head) || slices.Contains(known, r) {
			break
		}
		list = append(list, gitstate.Object{Revision: r, Data: []byte(r)})
	}
	if l.most > 0 && len(list) > l.most {
		return nil, source.ErrTooMany
	}
	return list, nil
}

func (l *fakeLineage) Changed(_ context.Context, from, to gitstate.Revision) ([]string, error) {
	l.lookup++
	if l.doubt {
		return nil, gitstate.ErrHistory
	}
	return []string{"apps/" + string(from), "apps/" + string(to)}, nil
}

// signedBy are who signed, by the commit's text; what is not in it is not signed.
type signedBy map[string]string

func (s signedBy) Verify(commit []byte) (signature.Signer, error) {
	who := s[string(commit)]
	switch who {
	case "":
		return signature.Signer{}, signature.ErrUnsigned
	case "eve":
		return signature.Signer{Key: "SHA256:eve"}, signature.ErrNotAllowed
	}
	return signature.Signer{Key: "SHA256:" + who, Principals: []string{who}}, nil
}

// start runs the loop until the test ends.
func (w *world) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// TestABadCommitKeepsTheLastGoodOneInForce goes through one process and one that starts then.
func TestABadCommitKeepsTheLastGoodOneInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lineage, signed := &fakeLineage{cut: map[gitstate.Revision]bool{}}, signedBy{"1": "ada"}
		var turns []string // by the first process
		gate := func(c *Config) { c.Gate = &Gate{Lineage: lineage, Signers: signed} }
		w := newWorld(t, placed(), func(c *Config) {
			gate(c)
			c.Report = func(p Progress) {
				switch out := p.Decision.Refused; {
				case p.Turned && out != nil:
					turns = append(turns, "out "+string(out.Revision))
				case p.Turned:
					turns = append(turns, "in "+string(p.Decision.Revision))
				}
			}
		})
		stop := w.start(t)
		later(70 * time.Second) // status is written down once
		synctest.Wait()
		if n := w.fleet.works("m1"); n != 1 {
			t.Fatalf("%d works on m1, want 1", n)
		}
		before := lineage.lookup
		later(time.Minute)
		synctest.Wait()
		if lineage.lookup != before {
			t.Errorf("a source that did not move was looked at %d times", lineage.lookup-before)
		}
		more := placed()
		more["more.yaml"] = strings.Replace(config, "web", "more", 1)
		w.source.push(more) // 2, by nobody
		later(time.Minute)
		synctest.Wait()
		fresh := newWorld(t, placed(), gate)
		fresh.source, fresh.store, fresh.Source, fresh.Store = w.source, w.store, w.source, w.store
		fresh.runFor(t, 10*time.Second)
		synctest.Wait()
		for name, x := range map[string]*world{"the process": w, "one that starts": fresh} {
			if n := x.fleet.works("m1"); n != 1 {
				t.Errorf("%s: %d works on m1, want 1", name, n)
			}
			if log := x.log.String(); strings.Count(log, "code=source-unverified") != 1 || !strings.Contains(log, "commit 2: it is not signed") {
				t.Errorf("%s says %s", name, log)
			}
		}
		if x := w.state.Meta.Source.Commit; x != "1" {
			t.Errorf("in force is %s", x)
		}
		w.source.push(more) // 3, likewise
		later(time.Minute)
		synctest.Wait()
		signed["4"] = "forge"
		w.source.push(more)
		later(time.Minute)
		stop()
		if got := strings.Join(turns, ", "); got != "out 2, out 3, in 4" {
			t.Errorf("the source turned: %s", got)
		}
		if n := w.fleet.works("m1"); n != 2 {
			t.Errorf("a good commit is not followed: %d works", n)
		}
	})
}

func TestNothingIsInForceBeforeTheFirstGoodCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, placed(), func(c *Config) { c.Gate = &Gate{Lineage: &fakeLineage{}, Signers: signedBy{}} })
		w.runFor(t, time.Minute)
		if commits, _, _ := w.store.state(t); commits != 0 || w.fleet.works("m1") != 0 {
			t.Error("a commit that nobody signed was decided on")
		}
		if !strings.Contains(w.log.String(), "nothing is in force until") {
			t.Errorf("the log is %s", w.log)
		}
	})
}

// TestTheRecordSaysWhatIsToBeFollowed: another process of ours may have put another commit in force.
func TestTheRecordSaysWhatIsToBeFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lineage := &fakeLineage{cut: map[gitstate.Revision]bool{}}
		gate := func(c *Config) { c.Gate = &Gate{Lineage: lineage} }
		w := newWorld(t, placed(), gate)
		stop := w.start(t)
		later(3 * time.Second)
		two := placed()
		two["more.yaml"] = strings.Replace(config, "web", "more", 1)
		other := newWorld(t, placed(), gate)
		other.Store, other.store = w.store, w.store
		other.source.push(two)
		other.runFor(t, 3*time.Second)
		later(time.Minute) // its source does not have that commit yet
		stop()
		if n := w.state.Meta.Source.Commit; n != "2" || len(w.state.Works) < 2 {
			t.Errorf("went back to %s with %d works", n, len(w.state.Works))
		}
		if !strings.Contains(w.log.String(), "what is in force cannot be read") {
			t.Errorf("the log is %s", w.log)
		}
	})
}

func TestWhatTheGateLooksAt(t *testing.T) {
	for _, test := range []struct {
		name   string
		gate   Gate
		signed signedBy
		cut    string
		doubt  bool
		force  string // in force; empty means nothing
		most   int
		want   string
	}{
		{"head alone", Gate{}, signedBy{"5": "ada"}, "", false, "2", 0, ""},
		{"all since", Gate{All: true}, signedBy{"5": "ada", "4": "ada", "3": "bob"}, "", false, "2", 0, ""},
		{"one of them", Gate{All: true}, signedBy{"5": "ada", "3": "bob"}, "", false, "2", 0, "because of commit 4: it is not signed"},
		{"the first time the head alone", Gate{All: true}, signedBy{"5": "ada"}, "", false, "", 0, ""},
		{"a history of its own", Gate{All: true, Follow: true}, signedBy{"5": "ada"}, "4", false, "2", 0, "because of commit 4"},
		{"too many", Gate{All: true}, signedBy{"5": "ada"}, "", false, "2", 2, "cannot be verified"},
		{"rewritten", Gate{}, signedBy{"5": "ada"}, "4", false, "2", 0, "its history was rewritten"},
		{"rewritten, and followed", Gate{Follow: true}, signedBy{"5": "ada"}, "4", false, "2", 0, ""},
		{"who knows", Gate{}, signedBy{"5": "ada"}, "4", true, "2", 0, "cannot be told"},
		{"within a limit", Gate{Limits: []decide.Limit{{Signer: "ada", Paths: []string{"apps"}}}}, signedBy{"5": "ada"}, "", false, "2", 0, ""},
		{"beyond it", Gate{Limits: []decide.Limit{{Signer: "ada", Paths: []string{"apps/2"}}}}, signedBy{"5": "ada"}, "", false, "2", 0, "its signer may change apps/2, and it changes apps/5"},
		{"another's limit", Gate{Limits: []decide.Limit{{Signer: "bob", Paths: []string{"x"}}}}, signedBy{"5": "ada"}, "", false, "2", 0, ""},
		{"limited, and the first", Gate{Limits: []decide.Limit{{Signer: "ada", Paths: []string{"apps"}}}}, signedBy{"5": "ada"}, "", false, "", 0, "with the first commit everything comes in force"},
		{"limited, and who knows", Gate{Limits: []decide.Limit{{Signer: "ada", Paths: []string{"apps"}}}}, signedBy{"5": "ada"}, "", true, "2", 0, "what changes cannot be told"},
		{"a stranger", Gate{}, signedBy{"5": "eve"}, "", false, "2", 0, "signed with the key SHA256:eve: " + signature.ErrNotAllowed.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := test.gate
			g.Lineage, g.Signers = &fakeLineage{cut: map[gitstate.Revision]bool{gitstate.Revision(test.cut): true}, doubt: test.doubt, most: test.most}, test.signed
			w := newWorld(t, placed(), nil)
			if err := w.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			meta := w.state.Meta
			meta.Source.Commit = test.force
			got, err := g.Judge(t.Context(), "5", meta, decide.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(got); (got == nil) != (test.want == "") || got != nil && !strings.Contains(got.Message, test.want) {
				t.Errorf("Judge = %s, want %s", text, test.want)
			}
		})
	}
}

// history is a state branch: a letter for each commit, as it is in TestTrust.
func history(letters string) iter.Seq2[store.Commit, error] {
	return func(yield func(store.Commit, error) bool) {
		for i := len(letters) - 1; i >= 0; i-- {
			c := store.Commit{Revision: gitstate.Revision(fmt.Sprint("c", i)), Tree: plumbing.NewHash(fmt.Sprintf("%040x", i+1)), Object: []byte(letters[i : i+1])}
			switch letters[i] {
			case 'b', 'x':
				c.Trailers = []store.Trailer{{Key: trailerVersion, Value: "1"}}
			case 'v':
				c.Trailers = []store.Trailer{{Key: trailerApprove, Value: "history"}}
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

var keys = signedBy{"b": "bot@example.com", "p": "grace", "v": "grace", "e": "eve"}

func TestTheStateBranchIsVerified(t *testing.T) {
	for _, test := range []struct {
		name, letters string
		known         string
		judged        bool
		since         string
		want          string // up to; empty means nothing
		problem       string
	}{
		{"ours", "bbb", "c1", true, "", "c2", ""},
		{"a person", "bp", "c0", true, "", "c1", ""},
		{"a forged one", "bx", "c0", true, "", "c0", `commit c1 ("" by  <>): it is not signed; c0 stays in force`},
		{"a stranger's", "be", "c0", true, "", "c0", "signed with the key SHA256:eve"},
		{"a forged one, at the start", "bbx", "c2", false, "", "c1", "c1 stays in force"},
		{"nobody ever signed", "xxx", "c2", false, "", "", "nothing of it can be used"},
		{"many of them", "bxxxxx", "c0", true, "", "c0", "it is not signed; and 2 more; c0 stays"},
		{"nobody signed then", "xxxb", "c2", false, "", "c3", ""},
		{"nobody signed until", "xxp", "", false, "c1", "c2", ""},
		{"known, but it was not judged", "xp", "c0", false, "", "", "c0"},
		{"known and judged", "xp", "c0", true, "", "c1", ""},
		{"made good", "bxv", "c0", true, "", "c2", "makes good"},
		{"rewound", "bbb", "c9", true, "", "c9", "it was rewound: commit c9, which was the newest, is gone"},
		{"rewound, at the start", "bbb", "c9", false, "", "c9", "it was rewound"},
		{"rewound, and a person knows", "bbv", "c9", false, "", "c2", "makes good"},
	} {
		for _, enforce := range []bool{true, false} {
			trust := &Trust{Signers: keys, Bot: "bot@example.com", Since: gitstate.Revision(test.since), Enforce: enforce}
			head := fmt.Sprint("c", len(test.letters)-1)
			a, err := trust.Admit(t.Context(), store.Incoming{Head: gitstate.Revision(head), Known: gitstate.Revision(test.known), Judged: test.judged, Log: history(test.letters)})
			if err != nil {
				t.Fatal(err)
			}
			want, problem := test.want, test.problem
			if !enforce {
				want = head
				if problem != "" {
					problem = "used all the same"
				}
			}
			if string(a.UpTo) != want || (a.Problem == nil) != (problem == "") || a.Problem != nil && !strings.Contains(a.Problem.Error(), problem) {
				t.Errorf("%s, enforced %v: %s, %v, want %s, %s", test.name, enforce, a.UpTo, a.Problem, want, problem)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := (&Trust{Signers: keys}).Admit(t.Context(), store.Incoming{Log: func(yield func(store.Commit, error) bool) { yield(store.Commit{}, broken) }}); !errors.Is(err, broken) {
		t.Errorf("a history that cannot be read: %v", err)
	}
}

// TestLittleIsVerifiedOfALongHistory: the bot's newest signature vouches for what is before it.
func TestLittleIsVerifiedOfALongHistory(t *testing.T) {
	trust := &Trust{Signers: keys, Bot: "bot@example.com", Enforce: true}
	read := 0
	log := func(yield func(store.Commit, error) bool) {
		for c, err := range history(strings.Repeat("b", 1000)) {
			if read++; !yield(c, err) {
				return
			}
		}
	}
	if a, err := trust.Admit(t.Context(), store.Incoming{Head: "c999", Known: "c990", Log: log}); err != nil || a.UpTo != "c999" || read > 10 {
		t.Errorf("Admit = %v, %v after %d commits", a, err, read)
	}
	long := strings.Repeat("p", maxLinks+1)
	if a, err := trust.Admit(t.Context(), store.Incoming{Head: "c1", Log: history(long)}); err != nil || a.UpTo != "" || !strings.Contains(a.Problem.Error(), "state.verify.since") {
		t.Errorf("Admit = %v, %v", a, err)
	}
}

func TestSignaturesAreToldOf(t *testing.T) {
	trust := &Trust{Signers: signedBy{"b": "bot", "p": "grace", "f": "grace", "e": "eve"}, Bot: "bot"}
	got := map[string]string{}
	for letter := range maps.Keys(map[string]bool{"b": true, "p": true, "e": true, "n": true}) {
		for c := range history(letter) {
			got[letter] = trust.Signature(c)
		}
	}
	for letter, want := range map[string]string{"b": "good: bot (SHA256:bot)", "p": "good: grace (SHA256:grace)",
		"e": "bad: signed with the key SHA256:eve: " + signature.ErrNotAllowed.Error(), "n": "bad: " + signature.ErrUnsigned.Error()} {
		if got[letter] != want {
			t.Errorf("%s: %s, want %s", letter, got[letter], want)
		}
	}
	forged := store.Commit{Object: []byte("f"), Trailers: []store.Trailer{{Key: trailerVersion}}}
	if got := trust.Signature(forged); got != "bad: a person signed it: grace (SHA256:grace)" {
		t.Error(got)
	}
}
