package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// stateBranch is where the scripts expect decisions.
const stateBranch = "godwit/state"

func (w *world) makeRepo(ts *testscript.TestScript, _ []string) error {
	w.repo = gittest.NewRepo(w.tb)
	w.read = recorded{}
	ts.Setenv("REPO", w.repo.Dir)
	return nil
}

func (w *world) push(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: push DIR MESSAGE...")
	}
	disk, err := readTree(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	files := map[string]string{}
	if !w.repo.Head("main").IsZero() {
		for name := range w.repo.Files("main") {
			files[name] = "" // goes, unless it is on disk
		}
	}
	for name, text := range disk {
		files[name] = string(text)
	}
	head := w.repo.Commit("main", files, strings.Join(args[1:], "\n\n")+"\n")
	ts.Setenv("HEAD", head.String())
	return nil
}

// recorded is the state branch as it was read last.
type recorded struct {
	head  plumbing.Hash
	log   []gittest.Entry // newest first
	files map[string]string
}

// branch reads the state branch, if it moved.
func (w *world) branch() *recorded {
	if head := w.repo.Head(stateBranch); head != w.read.head {
		w.read = recorded{head, w.repo.Log(head.String()), w.repo.Files(head.String())}
	}
	return &w.read
}

func (w *world) history() []gittest.Entry { return w.branch().log }

func (w *world) stateFiles() map[string]string { return w.branch().files }

var reasonTrailer = regexp.MustCompile(`(?m)^Godwit-Reason: (\w+)$`)

func (w *world) stateLog(ts *testscript.TestScript, _ []string) error {
	for _, c := range slices.Backward(w.history()) {
		reason := "-"
		if m := reasonTrailer.FindStringSubmatch(c.Message); m != nil {
			reason = m[1]
		}
		fmt.Fprintf(ts.Stdout(), "%s [%s]\n", c.Subject, reason)
	}
	return nil
}

func (w *world) commits(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: commits N")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if got := len(w.history()); got != want {
		return fmt.Errorf("there are %d commits", got)
	}
	return nil
}

func (w *world) subject(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: subject PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	all := w.history()
	if len(all) == 0 {
		return errors.New("there is no commit")
	}
	if !pattern.MatchString(all[0].Subject) {
		return fmt.Errorf("the newest is %q", all[0].Subject)
	}
	return nil
}

func (w *world) logged(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: logged PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(w.history(), func(c gittest.Entry) bool { return pattern.MatchString(c.Subject) }) {
		return errors.New("there is no such commit")
	}
	return nil
}

var (
	timeTrailer = regexp.MustCompile(`(?m)^Godwit-Time: (\S+)$`)
	toleration  = regexp.MustCompile(`since (\S+), tolerated (\S+) until (\S+Z)`)
)

func (w *world) due(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: due DURATION PATTERN")
	}
	want, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	log := w.history()
	i := slices.IndexFunc(log, func(c gittest.Entry) bool { return pattern.MatchString(c.Subject) })
	if i < 0 || i+1 == len(log) {
		return errors.New("there is no such commit after the first")
	}
	m := timeTrailer.FindStringSubmatch(log[i].Message)
	if m == nil {
		return errors.New("it has no Godwit-Time")
	}
	decided, err := time.Parse(time.RFC3339, m[1])
	if err != nil {
		return err
	}
	text := strings.Join(strings.Fields(log[i].Message), " ")
	all := toleration.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return fmt.Errorf("it names no toleration: %s", text)
	}
	for _, m := range all {
		since, err := time.Parse(time.RFC3339, m[1])
		if err != nil {
			return err
		}
		until, err := time.Parse(time.RFC3339, m[3])
		if err != nil {
			return err
		}
		switch {
		case until.Sub(since) != want:
			return fmt.Errorf("it says that %s was tolerated: %s", until.Sub(since), text)
		case decided.Before(until):
			return fmt.Errorf("it was decided at %s, too early: %s", decided, text)
		case !w.known(log[i+1].Hash, m[1]):
			return fmt.Errorf("%s was not on record before", m[1])
		}
	}
	return nil
}

// known tells whether a time is in the record of members or bindings at a commit.
func (w *world) known(commit plumbing.Hash, at string) bool {
	for name, text := range w.repo.Files(commit.String()) {
		if (strings.HasPrefix(name, "clusters/") || strings.HasPrefix(name, "bindings/")) && strings.Contains(text, at) {
			return true
		}
	}
	return false
}

func (w *world) state(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("usage: state PATH [PATTERN]")
	}
	text, ok := w.stateFiles()[args[0]]
	switch {
	case !ok:
		return errors.New("there is no such file")
	case len(args) == 1:
		fmt.Fprint(ts.Stdout(), text)
		return nil
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	if err == nil && !pattern.MatchString(text) {
		err = fmt.Errorf("it does not match:\n%s", text)
	}
	return err
}

func (w *world) stateless(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: stateless PATH")
	}
	for name := range w.stateFiles() {
		if strings.HasPrefix(name, args[0]) {
			return fmt.Errorf("there is %s", name)
		}
	}
	return nil
}

func (w *world) stateTree(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: statetree DIR")
	}
	for name, text := range w.stateFiles() {
		path := filepath.Join(ts.MkAbs(args[0]), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) stateSame(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: statesame DIR PREFIX")
	}
	want, err := readTree(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	got := map[string][]byte{}
	for name, text := range w.stateFiles() {
		if rest, ok := strings.CutPrefix(name, args[1]); ok {
			got[rest] = []byte(text)
		}
	}
	return compareTrees(got, want)
}

func (w *world) stateHead(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: statehead NAME")
	}
	ts.Setenv(args[0], w.repo.Head(stateBranch).String())
	return nil
}

func (w *world) cloneHead(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: clonehead NAME DIR")
	}
	ts.Setenv(args[0], gittest.At(w.tb, filepath.Join(ts.MkAbs(args[1]), "state")).Head(stateBranch).String())
	return nil
}

// cloned tells whether a data folder has the state branch as it is in the repository.
func (w *world) cloned(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cloned DIR")
	}
	text, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "state", "refs", "heads", stateBranch))
	if err == nil && strings.TrimSpace(string(text)) != w.repo.Head(stateBranch).String() {
		err = errors.New("the clone is not up to date")
	}
	return err
}

func (w *world) isRecorded(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: recorded HASH")
	}
	if !slices.ContainsFunc(w.history(), func(c gittest.Entry) bool { return c.Hash.String() == args[0] }) {
		return errors.New("it is not on the state branch")
	}
	return nil
}

func (w *world) linear(*testscript.TestScript, []string) error {
	for _, c := range w.history() {
		if len(c.Parents) > 1 {
			return fmt.Errorf("%s is a merge", c.Hash)
		}
	}
	return nil
}

func (w *world) editState(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: edit-state PATH FILE MESSAGE")
	}
	w.repo.Commit(stateBranch, map[string]string{args[0]: ts.ReadFile(args[1])}, args[2]+"\n")
	return nil
}

func (w *world) revert(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: revert PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	for _, c := range w.history() {
		if !pattern.MatchString(c.Subject) || len(c.Parents) != 1 {
			continue
		}
		before, after := w.repo.Files(c.Parents[0].String()), w.repo.Files(c.Hash.String())
		back := map[string]string{}
		for name, text := range before {
			if after[name] != text && name != "state.yaml" {
				back[name] = text
			}
		}
		for name := range after {
			if _, ok := before[name]; !ok {
				back[name] = ""
			}
		}
		w.repo.Commit(stateBranch, back, "Revert \""+c.Subject+"\"\n")
		return nil
	}
	return errors.New("there is no such commit")
}

func (w *world) serve(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: serve http|ssh [tls] [password|token]")
	}
	if args[0] == "ssh" {
		s := gittest.ServeSSH(w.tb, w.repo.Dir)
		w.git = s
		ts.Setenv("URL", s.URL)
		ts.Setenv("KEY", s.KeyFile)
		ts.Setenv("OTHER_KEY", s.OtherKeyFile)
		ts.Setenv("KNOWN_HOSTS", s.KnownHosts)
		return nil
	}
	o := gittest.HTTPOptions{TLS: slices.Contains(args, "tls")}
	if slices.Contains(args, "password") {
		o.Username, o.Password = "ada", "correct-horse"
	}
	if slices.Contains(args, "token") {
		o.Token = "battery-staple"
	}
	s := gittest.ServeHTTP(w.tb, w.repo.Dir, o)
	w.git = s
	ts.Setenv("URL", s.URL)
	ts.Setenv("CA", s.CAFile)
	return nil
}

func (w *world) gitServer(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 || w.git == nil {
		return errors.New("usage: gitserver down|up, after serve")
	}
	w.git.Outage(args[0] == "down")
	return nil
}
