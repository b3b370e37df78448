package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/reconciler/simulate"
)

func newSimulate() *cobra.Command {
	var file, recordDir string
	var random int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "simulate -f FILE | --random N",
		Short: "Play faults against simulated members under a simulated clock",
		Long: `simulate decides as "run" would, against simulated members and a simulated clock, what a scenario
says: members that go down, workloads that fail, pushes, restarts, outages of the Git server, reverts.
It prints what was decided when, and last where everything runs. The decisions are committed to a state
branch in a repository of its own, which stays for you to read.

With --random it makes that many random schedules of faults and verifies after every step what must
always hold; one that breaks something is printed with its seed, as short as it can be made. Without -f
the fleets are random too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if file == "" && random <= 0 {
				return errors.New("nothing to play: give a scenario with -f, or --random N")
			}
			s := &simulation{Config: c, file: file, cmd: cmd, json: output == "json", sources: map[string]gitstate.Snapshot{}}
			if file != "" {
				if err := s.open(cmd.Context(), file); err != nil {
					return err
				}
			}
			if random > 0 {
				return s.random(random, seed)
			}
			return s.play(cmd.Context(), recordDir)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the scenario; - is standard input")
	cmd.Flags().StringVar(&recordDir, "record", "", "folder for the repository with the state branch (default: a new one)")
	cmd.Flags().IntVar(&random, "random", 0, "play this many random schedules of faults and verify the invariants")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the seed of the first random schedule")
	return printing(cmd, "text", "json")
}

// simulation is one call of simulate.
type simulation struct {
	*Config
	cmd      *cobra.Command
	json     bool
	file     string
	scenario *simulate.Scenario
	sources  map[string]gitstate.Snapshot
}

// open reads the scenario and its sources.
func (s *simulation) open(ctx context.Context, file string) error {
	var text []byte
	var err error
	dir := filepath.Dir(file)
	if file == "-" {
		text, err = io.ReadAll(s.cmd.InOrStdin())
		dir = "."
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return err
	}
	if s.scenario, err = simulate.Parse(text); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range s.scenario.Sources() {
		snapshot, err := s.snapshot(ctx, dir, name)
		if err != nil {
			return fmt.Errorf("%s: source %s: %w", file, name, err)
		}
		s.sources[name] = snapshot
	}
	return nil
}

// snapshot reads a source: a folder as it is on disk, or the newest commit of a repository.
func (s *simulation) snapshot(ctx context.Context, dir, name string) (gitstate.Snapshot, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() && !isBare(path) {
		snapshot, err := source.OpenFolder(path, ".").Fetch(ctx)
		if err != nil {
			return snapshot, err
		}
		snapshot.FS, err = inMemory(snapshot.FS)
		return snapshot, err
	} else if err != nil && !strings.Contains(name, ":") {
		return gitstate.Snapshot{}, err
	} else if err == nil {
		name = path
	}
	at := *s.Config
	at.Source.URL, at.sourceDir = name, ""
	git, done, err := at.openSource(true)
	if err != nil {
		return gitstate.Snapshot{}, err
	}
	defer done()
	snapshot, err := git.Fetch(ctx)
	if err != nil {
		return snapshot, err
	}
	snapshot.FS, err = inMemory(snapshot.FS)
	return snapshot, err
}

// inMemory copies a tree, so that it stays what it is while it is played.
func inMemory(tree fs.FS) (simulate.Files, error) {
	files := simulate.Files{}
	return files, fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(tree, path)
		return err
	})
}

// rules are the settings that decisions are made with. The key is one of its own: a record that people
// look at must not tell anything of secrets, and equal scenarios give equal records. So nothing is decrypted either.
func (s *simulation) rules() decide.Options {
	o := s.options()
	o.SecretKey, o.Keyless = []byte("simulate"), true
	return o
}

// play plays the scenario into a repository.
func (s *simulation) play(ctx context.Context, dir string) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "godwit-simulate-"); err != nil {
			return err
		}
	}
	st, err := store.Open(ctx, store.Options{Dir: dir, Branch: s.State.Branch, Author: store.Signature{Name: s.State.Author.Name, Email: s.State.Author.Email}})
	if err != nil {
		return err
	}
	defer st.Close()
	if tree, err := st.Load(ctx); err != nil {
		return err
	} else if tree.Head != "" {
		return fmt.Errorf("--record %s: has a branch %s already; name an empty folder", dir, s.State.Branch)
	}
	timeline := report.NewTimeline(s.cmd.OutOrStdout(), style(s.cmd, s.cmd.OutOrStdout()), s.json)
	result, err := simulate.Run(s.scenario, simulate.Options{
		Sources: s.sources, Decide: s.rules(), Branch: &repository{ctx, st}, Check: true, Report: timeline.Step,
	})
	fmt.Fprintf(s.cmd.ErrOrStderr(), "the record: git -C %s log %s\n", dir, s.State.Branch)
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	return timeline.End(result.State)
}

// repository is a state branch as simulations write it.
type repository struct {
	ctx context.Context
	*store.Store
}

// Commit implements simulate.Branch.
func (r *repository) Commit(c simulate.Commit) (string, error) {
	tree, err := r.Load(r.ctx)
	if err != nil {
		return "", err
	}
	changes := make([]store.Change, len(c.Files))
	for i, f := range c.Files {
		changes[i] = store.Change{Path: f.Path, Data: f.Data}
	}
	m := store.Message{Subject: c.Subject, Body: c.Body, When: c.Time}
	if !c.Person() {
		m.Trailers = reconciler.Trailers(c.Source, c.Reason, c.Time, c.Version)
	}
	head, err := r.Store.Commit(r.ctx, tree.Head, changes, m)
	return string(head), err
}

// Tree implements simulate.Branch.
func (r *repository) Tree() (fs.FS, error) {
	tree, err := r.Load(r.ctx)
	return tree.FS, err
}

// Push implements simulate.Branch: there is nowhere else to send it.
func (r *repository) Push() error { return nil }

// random plays many schedules of faults. One that breaks an invariant ends it.
func (s *simulation) random(n int, seed uint64) error {
	if err := s.tryRandom(n, seed); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.cmd.OutOrStdout(), "%d random schedules of faults from seed %d: no invariant is broken\n", n, seed)
	return err
}

func (s *simulation) tryRandom(n int, seed uint64) error {
	end := sync.OnceFunc(s.progress.doing("playing schedule of faults"))
	defer end()
	for i := range n {
		s.progress.count(i+1, n)
		seed := seed + uint64(i)
		c, err := s.faults(rand.New(rand.NewPCG(seed, 0)).IntN)
		if err != nil {
			return err
		}
		broken := func(scenario *simulate.Scenario) error {
			_, err := simulate.Run(scenario, simulate.Options{Sources: c.snapshots, Decide: s.rules(), Check: true})
			return err
		}
		err = broken(c.Scenario)
		var violation *simulate.Violation
		switch {
		case err == nil:
			continue
		case !errors.As(err, &violation):
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		short := simulate.Shrink(c.Scenario, func(less *simulate.Scenario) bool { return errors.As(broken(less), &violation) })
		end()
		if err := c.write(s.cmd.OutOrStdout(), short); err != nil {
			return err
		}
		return fmt.Errorf("seed %d: %w", seed, broken(short))
	}
	return nil
}

// played is a random case ready to be played.
type played struct {
	*simulate.Case
	snapshots map[string]gitstate.Snapshot
}

// faults makes a random case: of the scenario's fleet, if there is one.
func (s *simulation) faults(roll simulate.Dice) (*played, error) {
	if s.scenario == nil {
		c := &played{simulate.Random(roll), map[string]gitstate.Snapshot{}}
		for name, files := range c.Sources {
			hash, err := files.Hash(".")
			if err != nil {
				return nil, err
			}
			c.snapshots[name] = gitstate.Snapshot{Revision: gitstate.Revision("tree:" + hash), FS: files}
		}
		return c, nil
	}
	first, err := decide.Next(decide.Input{Source: s.sources[s.scenario.Source], Now: s.scenario.Begin(), Options: s.rules()})
	if err != nil {
		return nil, err
	}
	var members []string
	for name := range first.Next.Members {
		members = append(members, name)
	}
	var workloads []simulate.Workload
	for _, b := range first.Bindings {
		workloads = append(workloads, simulate.Workload{APIVersion: b.Template.APIVersion(), Kind: b.Template.Kind, Namespace: b.Template.Namespace, Name: b.Template.Name})
	}
	if len(members) == 0 || len(workloads) == 0 {
		return nil, fmt.Errorf("source %s: has %d members and %d workloads that a policy places; there is nothing to break", s.scenario.Source, len(members), len(workloads))
	}
	slices.Sort(members)
	return &played{&simulate.Case{Scenario: simulate.RandomFaults(members, workloads, s.scenario.Sources(), roll)}, s.sources}, nil
}

// write prints the scenario, and the sources where they are random too.
func (c *played) write(w io.Writer, s *simulate.Scenario) error {
	if _, err := w.Write(s.Text()); err != nil {
		return err
	}
	for _, name := range s.Sources() {
		files := c.Sources[name]
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if _, err := fmt.Fprintf(w, "--- # %s/%s\n%s", name, path, strings.TrimPrefix(string(files[path]), "---\n")); err != nil {
				return err
			}
		}
	}
	return nil
}
