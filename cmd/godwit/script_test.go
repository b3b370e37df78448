package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func TestMain(m *testing.M) {
	// Scripts wait for each other's processes, hardly for a core.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"godwit": main})
}

// update rewrites what scripts compare with; read the diff before you commit it.
var update = flag.Bool("update", false, "rewrite the golden files of the scripts")

// TestScripts runs the scripts of testdata/script, each in a world of its own. Besides testscript's
// commands they have these; those marked * are for "eventually", which tries one again until it holds.
//
//	members NAME...                       starts simulated members; $KUBECONFIG has a context for each, $KUBECONFIG-NAME for one
//	member NAME freeze|thaw|down|up|unready|ready|quotes|fail NS/NAME|heal NS/NAME|token TOKEN
//	cluster-secret MANAGEMENT [NS/]NAME MEMBER [KEY=VALUE...]   writes the cluster Secret of Argo CD for a member to another one
//	edit MEMBER MANAGER FILE              applies the object in FILE as another field manager, by force
//	patch MEMBER MANAGER KIND NS/NAME JSON   a merge patch, as kubectl edit, scale and label send it
//	delete MEMBER KIND NS/NAME
//	object MEMBER KIND NS/NAME            prints the object as JSON
//	field MEMBER KIND NS/NAME PATH WANT   * the field, by JSON pointer without the first slash, has the value
//	absent MEMBER KIND NS/NAME [PATH]     * there is no such object, or no such field
//	argocd                                * plays Argo CD, set up as in examples/argocd: one look at the state branch, one sync of each application
//	mark                                  remembers how many writes members were sent
//	unwritten [MEMBER...]                 * no write was sent since the mark
//
//	repo                                  makes an empty bare repository, $REPO
//	push DIR MESSAGE...                   commits DIR as the whole tree of main; prints the hash and sets $HEAD
//	statelog                              prints the state branch, oldest first: "subject [reason]"
//	commits N                             * the state branch has N commits
//	subject PATTERN                       * the newest subject on the state branch matches
//	logged PATTERN                        * a subject on the state branch matches
//	due DURATION PATTERN                  the newest commit that matches says of something, recorded before, how long it was tolerated:
//	                                      that long, and it was decided no earlier
//	state PATH [PATTERN]                  * prints a file of the state branch, or matches it
//	stateless PATH                        * no file of the state branch begins with PATH
//	statetree DIR                         writes the state branch's files into DIR
//	statesame DIR PREFIX                  * the files that begin with PREFIX are those of DIR
//	statehead NAME                        sets $NAME to the head of the state branch
//	clonehead NAME DIR                    the same of the clone in the data folder DIR
//	recorded HASH                         * the state branch has the commit
//	linear                                the state branch has no merges
//	edit-state PATH FILE MESSAGE          a person commits FILE to the state branch
//	revert PATTERN                        a person reverts the newest such commit of the state branch, but for state.yaml
//	serve http|ssh [tls] [password|token] serves $REPO: $URL, and $CA, $KEY, $KNOWN_HOSTS
//	gitserver down|up
//	interpreter up|down|hang|hostile [FILE...]  a webhook for the kind Cache; HOOK_URL and HOOK_CA in the files become its own
//
//	forge github|gitlab|gitea [LOGIN]     a forge with pull request 7 and the variables that its jobs get; LOGIN is whose the token is
//	remark LOGIN FILE                     somebody comments
//	remarks                               prints the comments: "id login first line / second line"
//	remarked ID FILE                      the comment is the file, byte by byte
//	called                                prints the calls since it was asked last
//	fault METHOD STATUS|cut [late] [HEADER VALUE]   the next such call goes wrong; late: but is done
//	crowd                                 adds comments that come near to ours
//	readonly                              the token may not comment from now on
//	every FILE                            writes a file with every kind of character
//	pullrequest DIR [REV]                 DIR is what pull request 7 makes of the revision of main; sets $PULL_HEAD
//	job FILE NAME [CONTEXT=VALUE...]      runs a job of a workflow in examples/ci; $JOB is its workspace, artifacts/ what it kept
//
//	terminal COLUMNS PROGRAM ARGS...      runs it with a real terminal for its output, which comes into the file tty (linux)
//	listen NAME...                        sets $NAME to an address of this machine that is free
//	fetch URL STATUS [PATTERN]            * GET is answered so
//	scraped URL PATTERN                   * the metrics parse, nothing is wrong with them, and a line matches
//	deliver PROVIDER URL SECRET BODY STATUS  * a push webhook, signed with the secret, is answered so
//	inbox up|down                         takes notifications at $INBOX; those to /signed have to be signed
//	notified N PATTERN                    * so many notifications that came match
//	jsonlog FILE SECRET...                each line is JSON with the keys that lines have, and no secret is in it
//	event MEMBER NAMESPACE PATTERN        * an Event matches: "type reason kind/name message"
//	fill FILE...                          replaces variables in the files
//
//	exits STATUS PROGRAM ARGS...          runs it and checks the exit status
//	killed STEP[:N] PROGRAM ARGS...       runs it to the step (the N-th time it comes there), where it dies by SIGKILL
//	same DIR DIR                          * both hold the same files with the same bytes
//	eventually COMMAND ARGS...
func TestScripts(t *testing.T) {
	cmds := map[string]func(ts *testscript.TestScript, neg bool, args []string){"eventually": eventually}
	for name, f := range commands {
		cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			err := f(worldOf(ts), ts, args)
			switch {
			case err != nil && !neg:
				ts.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
			case err == nil && neg:
				ts.Fatalf("%s %s: holds", name, strings.Join(args, " "))
			}
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script", Cmds: cmds, Setup: setup, RequireExplicitExec: true, RequireUniqueNames: true,
		UpdateScripts: *update,
	})
}

// commands are the scripts' own; an error is what is not as it should be.
var commands = map[string]func(w *world, ts *testscript.TestScript, args []string) error{
	"members": (*world).startMembers, "member": (*world).member, "edit": (*world).edit, "patch": (*world).patch, "delete": (*world).delete,
	"object": (*world).object, "field": (*world).field, "absent": (*world).absent, "mark": (*world).mark, "unwritten": (*world).unwritten,
	"cluster-secret": (*world).clusterSecret, "argocd": (*world).argocd,
	"repo": (*world).makeRepo, "push": (*world).push, "statelog": (*world).stateLog, "commits": (*world).commits, "subject": (*world).subject, "logged": (*world).logged, "due": (*world).due,
	"state": (*world).state, "stateless": (*world).stateless, "statetree": (*world).stateTree, "statesame": (*world).stateSame, "statehead": (*world).stateHead,
	"edit-state": (*world).editState, "revert": (*world).revert, "serve": (*world).serve, "gitserver": (*world).gitServer,
	"linear": (*world).linear, "clonehead": (*world).cloneHead, "cloned": (*world).cloned, "recorded": (*world).isRecorded, "interpreter": (*world).interpret, "exits": exits, "killed": killed, "same": same,
	"forge": (*world).startForge, "remark": (*world).remark, "remarks": (*world).remarks, "remarked": (*world).remarked, "called": (*world).called,
	"crowd": (*world).crowd, "fault": (*world).fault, "readonly": (*world).readOnly, "every": every, "pullrequest": (*world).pullRequest, "job": (*world).job,
	"listen": (*world).listen, "fetch": (*world).fetch, "deliver": (*world).deliver, "scraped": (*world).scraped, "inbox": (*world).useInbox,
	"notified": (*world).notified, "jsonlog": (*world).jsonLog, "event": (*world).event, "fill": (*world).fill,
}

// world is what a script has besides its files.
type world struct {
	tb      testing.TB
	members map[string]*simulated
	repo    *gittest.Repo
	read    recorded
	git     interface{ Outage(bool) }

	interpreter *interpreter
	argo        *argo

	forge   *forge
	jobs    int               // run so far
	outputs map[string]string // of jobs, for those that need them
	inbox   *inbox
}

// simulated is a member with what the script remembers of it.
type simulated struct {
	*membertest.Server
	client *client
	marked int64
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// setup makes everything quick: real times are for real networks.
func setup(e *testscript.Env) error {
	e.Values[worldKey{}] = &world{tb: e.T().(testing.TB), members: map[string]*simulated{}}
	ci, err := filepath.Abs("../../examples/ci")
	if err != nil {
		return err
	}
	argocd, err := filepath.Abs(examplesArgoCD)
	if err != nil {
		return err
	}
	for _, v := range [][2]string{
		{"EXAMPLES_CI", ci}, {"EXAMPLES_ARGOCD", argocd}, {"HOME", filepath.Join(e.WorkDir, "home")}, {"KUBECONFIG", filepath.Join(e.WorkDir, "kubeconfig")},
		{"GODWIT_DATADIR", filepath.Join(e.WorkDir, "data")}, {"GODWIT_SOURCE_POLLINTERVAL", "200ms"},
		{"GODWIT_CLUSTERS_PROBEINTERVAL", "200ms"}, {"GODWIT_CLUSTERS_PROBETIMEOUT", "1s"},
		{"GODWIT_AGENT_POLLINTERVAL", "200ms"}, {"GODWIT_AGENT_HEARTBEAT", "400ms"}, {"GODWIT_AGENT_LEASEDURATION", "2s"},
		{"GODWIT_STATE_STATUSINTERVAL", "1s"}, {"GODWIT_CLUSTERS_SUCCESSTHRESHOLD", "200ms"}, {"GODWIT_CLUSTERS_FAILURETHRESHOLD", "500ms"},
	} {
		e.Setenv(v[0], v[1])
	}
	return nil
}

// patience bounds eventually; it is there for what is broken, not for what is slow.
const patience = 30 * time.Second

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || commands[args[0]] == nil || neg {
		ts.Fatalf("usage: eventually COMMAND ARGS..., with a command of these scripts")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := commands[args[0]](worldOf(ts), ts, args[1:])
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("not after %s: %s: %v", patience, strings.Join(args, " "), err)
		}
	}
}

func killed(_ *world, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: killed STEP[:N] PROGRAM ARGS...")
	}
	ts.Setenv("GODWIT_KILL_AT", args[0])
	defer ts.Setenv("GODWIT_KILL_AT", "")
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		return fmt.Errorf("it never came to %s: %v", args[0], err)
	}
	return nil
}

func exits(_ *world, ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: exits STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode() // -1 if it was killed
	case err != nil:
		return err
	}
	if got != want {
		return fmt.Errorf("status %d, want %d", got, want)
	}
	return nil
}

func same(_ *world, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: same DIR DIR")
	}
	a, err := readTree(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	b, err := readTree(ts.MkAbs(args[1]))
	if err != nil {
		return err
	}
	return compareTrees(a, b)
}

func compareTrees(a, b map[string][]byte) error {
	var differ []string
	for name, text := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(text, other) {
			differ = append(differ, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			differ = append(differ, name)
		}
	}
	if slices.Sort(differ); len(differ) > 0 {
		return fmt.Errorf("these differ: %s", strings.Join(differ, ", "))
	}
	return nil
}

// readTree reads the files below a folder; a link is "name@" with its target.
func readTree(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			files[name+"@"] = []byte(target)
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	return files, err
}
