package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

func newReplay() *cobra.Command {
	var branch string
	var all bool
	cmd := &cobra.Command{
		Use:   "replay [REV|FROM..TO]",
		Short: "Decide again from what is on record and compare",
		Long: `replay takes commits of the state branch, the newest one if none is named, decides again from the state
before, the source that was in force, the clock and what was observed then, all as they are on record,
and compares the result with what was recorded. FROM..TO takes all commits after FROM up to TO.

Settings are those of today: where one was another then, a decision may come out otherwise. Values of
Secrets are compared only where the key is known that tells them apart.

Exit status 1 if a decision comes out otherwise, or cannot be made again.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			revs := ""
			if len(args) == 1 {
				revs = args[0]
			}
			if all && revs != "" {
				return errors.New("--all means the whole history; leave out the revision")
			}
			r, err := c.replay(cmd.Context(), branch, revs, all)
			if err != nil {
				return err
			}
			if err := printReplay(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()), r, output); err != nil {
				return err
			}
			switch s := r.Summary; {
			case s.Differ > 0:
				return fmt.Errorf("%d of %d decisions do not come out as they are on record", s.Differ, s.Differ+s.Identical)
			case s.Unreadable > 0:
				return fmt.Errorf("%d decisions could not be made again", s.Unreadable)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&branch, "state", "", "the branch to read (default: the state branch)")
	cmd.Flags().BoolVar(&all, "all", false, "the whole history")
	return printing(cmd, "text", "json", "yaml")
}

// replayed is what replay prints.
type replayed struct {
	Items   []replayedCommit `json:"items"`
	Summary struct {
		Identical  int `json:"identical"`
		Differ     int `json:"differ"`
		People     int `json:"people"`
		Unreadable int `json:"unreadable"`
	} `json:"summary"`
}

// replayedCommit is one commit, newest first.
type replayedCommit struct {
	Commit  string `json:"commit"`
	Time    string `json:"time"`
	Subject string `json:"subject"`
	// Result is identical, differs, person or unreadable.
	Result string `json:"result"`
	// Differs names files that come out otherwise.
	Differs []string `json:"differs,omitempty"`
	Message string   `json:"message,omitempty"`
}

func (c *Config) replay(ctx context.Context, branch, revs string, all bool) (*replayed, error) {
	h, closeState, err := c.openState(ctx, branch)
	if err != nil {
		return nil, err
	}
	defer closeState()
	src, closeSource, err := c.openSource(true)
	if err != nil {
		return nil, err
	}
	defer closeSource()
	options, err := c.withKeys(c.options())
	if err != nil {
		return nil, err
	}
	if options.SecretKey, err = c.knownSecretKey(); err != nil {
		return nil, err
	}
	from, to, isRange := strings.Cut(revs, "..")
	if !isRange {
		from, to = "", revs
	}
	from, to = c.stateRev(branch, from), c.stateRev(branch, to)
	first, err := commitAt(ctx, h, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to, err)
	}
	var stop store.Commit
	if from != "" {
		if stop, err = commitAt(ctx, h, from); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	}
	r := &replayed{Items: []replayedCommit{}}
	defer c.progress.doing("deciding again: commit")()
	for commit, err := range h.Log(ctx, first.Revision) {
		if err != nil {
			return nil, err
		}
		if commit.Revision == stop.Revision {
			break
		}
		c.progress.count(len(r.Items)+1, 0)
		r.add(c.replayOne(ctx, h, src, commit, options))
		if !all && !isRange {
			break
		}
	}
	return r, nil
}

func (c *Config) replayOne(ctx context.Context, h reconciler.History, src snapshots, commit store.Commit, options decide.Options) replayedCommit {
	m := momentOf(commit)
	one := replayedCommit{Commit: m.Commit, Time: m.Time, Subject: m.Subject}
	recorded, err := reconciler.Recall(ctx, h, src, commit, options)
	var d *decide.Decision
	if err == nil {
		d, one.Differs, err = recorded.Replay()
	}
	switch {
	case errors.Is(err, reconciler.ErrNotOurs):
		one.Result, one.Message = "person", "by "+commit.Author.String()
	case err != nil:
		one.Result, one.Message = "unreadable", err.Error()
	case len(one.Differs) == 0:
		one.Result = "identical"
	default:
		one.Result, one.Message = "differs", "nothing is decided"
		if d.Commit != nil {
			one.Message = d.Commit.Subject
		}
	}
	return one
}

func (r *replayed) add(one replayedCommit) {
	r.Items = append(r.Items, one)
	switch one.Result {
	case "identical":
		r.Summary.Identical++
	case "differs":
		r.Summary.Differ++
	case "person":
		r.Summary.People++
	default:
		r.Summary.Unreadable++
	}
}

func printReplay(w io.Writer, s report.Style, r *replayed, output string) error {
	switch output {
	case "json":
		return writeJSON(w, r)
	case "yaml":
		return writeYAML(w, r)
	}
	rows := [][]string{{"COMMIT", "TIME", "RESULT", "SUBJECT"}}
	for _, one := range r.Items {
		rows = append(rows, []string{fmt.Sprintf("%.7s", one.Commit), one.Time, one.Result, one.Subject})
	}
	if err := report.Table(w, s, rows); err != nil {
		return err
	}
	for _, one := range r.Items {
		if one.Message == "" || one.Result == "person" {
			continue
		}
		fmt.Fprintf(w, "\n%.7s: %s\n", one.Commit, report.Flat(one.Message))
		for _, path := range one.Differs {
			fmt.Fprintf(w, "  %s\n", report.Flat(path))
		}
	}
	_, err := fmt.Fprintf(w, "\n%d identical, %d differ, %d by people, %d unreadable\n", r.Summary.Identical, r.Summary.Differ, r.Summary.People, r.Summary.Unreadable)
	return err
}
