package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

func newHistory() *cobra.Command {
	var q report.HistoryQuery
	var since, state string
	var limit int
	cmd := &cobra.Command{
		Use:   "history [KIND/NAME]",
		Short: "Print the record: what was decided, newest first",
		Long: `history reads the state branch, newest commit first, and prints what each commit changed: which binding went
from which members to which and why, and what happened to members. A commit that a person made, such as a
revert, is shown with its author. With KIND/NAME it prints the workload and what follows it as a dependency,
with --cluster what came to that member, left it or happened to it. Where state.verify names the keys of
those who may sign, commits that are not signed so are marked, and -o json and yaml say who signed each.`,
		Args:              cobra.RangeArgs(0, 2),
		ValidArgsFunction: completeWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if q.Kind, q.Name, err = workload(args); err != nil {
				return err
			}
			if q.Since, err = sinceTime(since, time.Now()); err != nil {
				return err
			}
			if limit < 0 {
				return fmt.Errorf("--limit %d: is below 0; 0 means no limit", limit)
			}
			entries, err := c.history(cmd.Context(), state, q, limit)
			if err != nil {
				return err
			}
			return printHistory(cmd, q, entries, output)
		},
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "", "namespace of the workload (default: any)")
	cmd.Flags().StringVar(&q.Cluster, "cluster", "", "only what concerns this member")
	cmd.Flags().StringVar(&since, "since", "", "only what was decided since: a duration such as 90m or 7d, or a time such as 2026-01-31T12:00:00Z")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many commits; 0 means all")
	cmd.Flags().BoolVar(&q.Status, "status", false, "also what was only seen, such as the health of copies")
	cmd.Flags().StringVar(&state, "state", "", "the branch to read (default: the state branch)")
	completeFlag(cmd, "cluster", completeClusters)
	return printing(cmd, "text", "json", "yaml", "markdown")
}

// workload reads KIND/NAME, or KIND and NAME; both are empty without arguments.
func workload(args []string) (kind, name string, err error) {
	if len(args) == 0 {
		return "", "", nil
	}
	kind, name, ok := strings.Cut(args[0], "/")
	if len(args) == 2 && !ok {
		name, ok = args[1], true
	}
	if !ok || kind == "" || name == "" {
		return "", "", errors.New("name the workload as KIND/NAME, such as Deployment/web")
	}
	return kind, name, nil
}

// sinceTime reads a duration before now, in which days may stand, or a time.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	days, rest, found := strings.Cut(text, "d")
	n := 0
	var err error
	if found {
		n, err = strconv.Atoi(days)
	} else {
		rest = text
	}
	var d time.Duration
	if err == nil && rest != "" {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || n < 0 || n > 100*365 || d < 0 {
		return time.Time{}, fmt.Errorf("--since %s: is neither a duration, such as 90m, 12h or 7d, nor a time, such as 2026-01-31 or 2026-01-31T12:00:00Z", text)
	}
	return now.AddDate(0, 0, -n).Add(-d), nil
}

// history reads the state branch through a clone of its own.
func (c *Config) history(ctx context.Context, branch string, q report.HistoryQuery, limit int) ([]report.Entry, error) {
	s, done, err := c.openState(ctx, branch)
	if err != nil {
		return nil, err
	}
	defer done()
	trust, err := c.trust()
	if err != nil {
		return nil, err
	}
	h := report.NewHistory(q)
	entries := []report.Entry{}
	commits, read := 0, 0
	defer c.progress.doing("reading the record: commit")()
	for changed, err := range s.Changes(ctx, "") {
		if err != nil {
			return nil, err
		}
		read++
		c.progress.count(read, 0)
		recorded := asRecorded(changed)
		if trust != nil {
			recorded.Signature = trust.Signature(changed.Commit)
		}
		lines, over, err := h.Of(recorded)
		if err != nil {
			return nil, err
		}
		entries = append(entries, lines...)
		if len(lines) > 0 {
			commits++
		}
		if over || limit > 0 && commits == limit {
			break
		}
	}
	return entries, nil
}

func asRecorded(c store.Changed) report.Recorded {
	r := report.Recorded{
		Commit: string(c.Revision), Subject: c.Subject, Author: c.Author.String(), When: c.When,
		Trailers: make(map[string]string, len(c.Trailers)), Files: make([]report.RecordedFile, len(c.Files)), Before: c.Before, After: c.After,
	}
	for _, t := range c.Trailers {
		r.Trailers[t.Key] = t.Value
	}
	for i, f := range c.Files {
		r.Files[i] = report.RecordedFile{Path: f.Path, Before: record.Hash(f.Before), After: record.Hash(f.After)}
	}
	return r
}

func printHistory(cmd *cobra.Command, q report.HistoryQuery, entries []report.Entry, output string) error {
	w := cmd.OutOrStdout()
	switch output {
	case "json":
		return writeJSON(w, map[string]any{"items": entries})
	case "yaml":
		return writeYAML(w, map[string]any{"items": entries})
	case "markdown":
		_, err := io.WriteString(w, report.HistoryMarkdown(entries))
		return err
	}
	if len(entries) == 0 {
		about := ""
		if q.Name != "" {
			about = " about " + q.Kind + "/" + q.Name
		}
		if q.Cluster != "" {
			about += " on " + q.Cluster
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "No decisions found"+about)
		return nil
	}
	return report.HistoryText(w, style(cmd, w), entries)
}
