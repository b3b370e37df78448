package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

func TestACommitIsAdmitted(t *testing.T) {
	bad := func(revs ...gitstate.Revision) (list []decide.Unverified) {
		for _, r := range revs {
			list = append(list, decide.Unverified{r, "SHA256:k", errors.New("no key")})
		}
		return list
	}
	for _, test := range []struct {
		name   string
		head   decide.Head
		follow bool
		want   string // code and part of the message; empty means admitted
	}{
		{"the first one", decide.Head{Revision: "b"}, false, ""},
		{"follows", decide.Head{Revision: "b", InForce: "a", Follows: true}, false, ""},
		{"rewritten", decide.Head{Revision: "b", InForce: "a"}, false, "source-rewritten: does not come after a"},
		{"rewritten, and may be", decide.Head{Revision: "b", InForce: "a"}, true, ""},
		{"in doubt", decide.Head{Revision: "b", InForce: "a", Doubt: gitstate.ErrHistory}, false, "source-rewritten: cannot be told: the history does not go back far enough"},
		{"in doubt, and may be", decide.Head{Revision: "b", InForce: "a", Doubt: gitstate.ErrHistory}, true, ""},
		{"follows an approved one though a is in doubt", decide.Head{Revision: "b", InForce: "a", Follows: true, Doubt: gitstate.ErrHistory}, false, ""},
		{"not signed", decide.Head{Revision: "b", InForce: "a", Follows: true, Unverified: bad("b")}, false, "source-unverified: commit b, signed with the key SHA256:k: no key; what was decided from a stays in force"},
		{"not signed at first", decide.Head{Revision: "b", Unverified: bad("b")}, false, "source-unverified: nothing is in force"},
		{"not signed before", decide.Head{Revision: "b", InForce: "a", Follows: true, Unverified: bad("c", "d")}, false, "source-unverified: because of commit c, signed with the key SHA256:k: no key (and 1 more)"},
		{"neither", decide.Head{Revision: "b", InForce: "a", Unverified: bad("b")}, true, "source-unverified: commit b"},
	} {
		got := decide.Admit(test.head, test.follow)
		text := ""
		if got != nil {
			text = got.Code + ": " + got.Message
		}
		code, part, _ := strings.Cut(test.want, ": ")
		if (got == nil) != (test.want == "") || !strings.HasPrefix(text, code) || !strings.Contains(text, part) {
			t.Errorf("%s: Admit = %s, want %s", test.name, text, test.want)
		}
		if got != nil && (got.InForce != test.head.InForce || got.Revision != test.head.Revision) {
			t.Errorf("%s: the refusal is of %s over %s", test.name, got.Revision, got.InForce)
		}
	}
}

func TestASignerHasLimits(t *testing.T) {
	limits := []decide.Limit{{"ada", []string{"apps/ada", "README"}}, {"bob", []string{"apps/bob"}}, {"ada", []string{"shared"}}}
	for _, test := range []struct{ signer, changed, want string }{
		{"ada", "apps/ada/x README shared/a/b", ""},
		{"ada", "", ""},
		{"ada", "apps/adam", "its signer may change apps/ada, README, shared, and it changes apps/adam"},
		{"ada", "README.md apps/ada/x apps/bob/x", "it changes README.md and 1 more"},
		{"bob", "apps/bob apps/ada/x", "its signer may change apps/bob, and it changes apps/ada/x"},
		{"carol", "apps/bob", ""},
	} {
		err := decide.Exceeds(limits, func(name string) bool { return name == test.signer }, strings.Fields(test.changed))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s changes %s: %v, want %s", test.signer, test.changed, err, test.want)
		}
	}
}

func TestWhatIsInForceIsThatOfTheConfiguredSource(t *testing.T) {
	was := record.Source{URL: "https://git/a", Branch: "main", Commit: "c"}
	for _, test := range []struct {
		url, branch string
		want        string
	}{
		{"https://git/a", "main", "c"},
		{"https://git/a", "", "c"}, // whatever the remote now calls its default
		{"https://git/a", "other", ""},
		{"https://git/b", "main", ""},
	} {
		if got := (decide.Options{SourceURL: test.url, SourceBranch: test.branch}).InForce(was); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.url, test.branch, got, test.want)
		}
	}
	if got := (decide.Options{}).InForce(record.Source{Commit: "tree:1"}); got != "" {
		t.Errorf("a folder's content is a commit: %q", got)
	}
}

// TestAnApprovalOfARewriteIsUsedOnce goes through what becomes of it in a pass.
func TestAnApprovalOfARewriteIsUsedOnce(t *testing.T) {
	for _, test := range []struct {
		name, source, inForce, from string
		kept, told                  bool
	}{
		{"the source has not moved yet", "a", "a", "a", true, false},
		{"it went on", "b", "a", "a", false, true},
		{"it was about another commit", "a", "a", "x", false, false},
		{"it was about another commit, and the source went on", "b", "a", "x", false, false},
	} {
		previous := record.New()
		previous.Meta.Source.Commit = test.inForce
		previous.Meta.Rewrite = &record.Rewrite{From: test.from, To: "b", By: "Grace"}
		refused := &decide.Refusal{Code: decide.CodeUnverified, Revision: "z", Message: "because"}
		d, err := decide.Next(decide.Input{Source: gitstate.Snapshot{Revision: gitstate.Revision(test.source), FS: fstest.MapFS{}}, Previous: previous, Refused: refused})
		if err != nil {
			t.Fatal(err)
		}
		if kept := d.Next.Meta.Rewrite != nil; kept != test.kept {
			t.Errorf("%s: kept is %v", test.name, kept)
		}
		if (d.Commit == nil) != test.kept {
			t.Errorf("%s: the commit is %+v", test.name, d.Commit)
		}
		if told := d.Commit != nil && d.Commit.Subject == "rewrite(source): a -> b" && strings.Contains(d.Commit.Body, "approved by Grace"); told != test.told {
			t.Errorf("%s: the commit is %+v", test.name, d.Commit)
		}
		if want := (render.Finding{Severity: render.Error, Code: decide.CodeUnverified, Message: "because"}); !slices.Contains(d.Findings, want) || d.Refused != refused {
			t.Errorf("%s: the findings are %v", test.name, d.Findings)
		}
	}
}

func TestTrust(t *testing.T) {
	// b is a commit of the bot, p of a person, v of one who vouches, x of nobody, f of a person in the bot's name, and
	// 0 one of a person who puts everything back. Of those in the end a number can be used.
	for _, test := range []struct {
		commits string
		base    string
		rewound bool
		use     int
		bad     int
	}{
		{"", "0", false, 0, 0},
		{"b", "0", false, 1, 0},
		{"bpb", "", false, 3, 0},
		{"bx", "", false, 1, 1},
		{"x", "0", false, 0, 1},
		{"x", "", false, 0, 1},
		{"f", "0", false, 0, 1},
		{"xp", "0", false, 0, 1},
		{"x0", "0", false, 2, 1},
		{"xv", "0", false, 2, 1},
		{"xb", "0", false, 2, 1},
		{"px0", "0", false, 1, 1}, // the person's one is not put back
		{"bx0", "", false, 1, 1},
		{"xxpp", "0", false, 0, 2},
		{"xvx", "0", false, 2, 2},
		{"b", "0", true, 0, 0},
		{"bp0", "0", true, 0, 0},
		{"bv", "0", true, 2, 0},
		{"bvb", "0", true, 3, 0},
		{"v", "", true, 1, 0},
	} {
		use, problems := decide.Trust(test.base, linksOf(test.commits), test.rewound)
		if use != test.use || len(problems) != test.bad {
			t.Errorf("Trust(%q, %q, %v) = %d, %v, want %d and %d", test.base, test.commits, test.rewound, use, problems, test.use, test.bad)
		}
	}
}

func linksOf(commits string) []decide.Link {
	var links []decide.Link
	for i, c := range commits {
		l := decide.Link{Name: fmt.Sprint(i), Tree: fmt.Sprint(i + 1)}
		switch c {
		case 'b':
			l.By, l.Ours = decide.Bot, true
		case 'p':
			l.By = decide.Person
		case 'v':
			l.By, l.Vouches = decide.Person, true
		case 'x':
			l.Ours, l.Vouches, l.Why = true, true, errors.New("it is not signed")
		case 'f':
			l.By, l.Ours = decide.Person, true
		case '0':
			l.By, l.Tree = decide.Person, "0"
		}
		links = append(links, l)
	}
	return links
}

// TestNothingBadIsUsedLast: what is used ends with a commit that is good by itself, and what follows a good end is used.
func TestNothingBadIsUsedLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commits, rewound := rapid.StringMatching(`[bpvxf0]{0,8}`).Draw(t, "commits"), rapid.Bool().Draw(t, "rewound")
		use, problems := decide.Trust("0", linksOf(commits), rewound)
		if use > 0 && strings.ContainsAny(commits[use-1:use], "xf") {
			t.Fatalf("%d of %s is used", use, commits)
		}
		if got := strings.Count(commits, "x") + strings.Count(commits, "f"); got != len(problems) {
			t.Fatalf("%d problems of %s", len(problems), commits)
		}
		if !rewound && len(problems) == 0 && use != len(commits) {
			t.Fatalf("only %d of %s is used", use, commits)
		}
		if longer, _ := decide.Trust("0", linksOf(commits+"v"), rewound); longer != len(commits)+1 {
			t.Fatalf("a person's word does not let in %s", commits)
		}
	})
}
