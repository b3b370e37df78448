package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

// question is what "explain" is asked.
type question struct {
	kind, namespace, name string
	// state is a branch, a folder, or none; empty for the state branch.
	state string
	// at is a commit of the state branch; empty asks for the decision that would be made now.
	at string
}

func newExplain() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Say why a workload runs where it runs",
		Long: `explain decides like "plan" and prints one page about one workload: the policy that took it and those
passed over, every member with the rule that chose or refused it and the values compared, the division
of the replicas as arithmetic, the overrides step by step with what they changed, dependencies, what
holds it up, and what happens next.

With --at it explains a decision of the past from the record: REV is a commit of the state branch, such
as "godwit history" prints, HEAD or HEAD~2. It is decided again from what was recorded before, with the
source of that time.`,
		Args:              cobra.RangeArgs(0, 2),
		ValidArgsFunction: completeWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if q.kind, q.name, err = workload(args); err != nil {
				return err
			}
			if q.name == "" {
				return errors.New("name the workload as KIND/NAME, such as Deployment/web; \"godwit plan -o wide\" lists what there is")
			}
			e, err := c.explain(cmd.Context(), q)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				return writeJSON(cmd.OutOrStdout(), e)
			case "yaml":
				return writeYAML(cmd.OutOrStdout(), e)
			case "markdown":
				_, err := io.WriteString(cmd.OutOrStdout(), e.Markdown())
				return err
			}
			return e.Text(cmd.OutOrStdout(), style(cmd, cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringVar(&q.state, "state", "", "previous state: a branch, a folder, or none (default: the state branch, if there is one)")
	cmd.Flags().StringVar(&q.at, "at", "", "explain the decision that this commit of the state branch records")
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "namespace (default: whichever has the only one)")
	return printing(cmd, "text", "json", "yaml", "markdown")
}

func (c *Config) explain(ctx context.Context, q question) (*report.Explanation, error) {
	defer c.progress.doing("deciding")()
	src, done, err := c.openSource(true)
	if err != nil {
		return nil, err
	}
	defer done()
	branch, close, err := c.openRecord(ctx, q.state)
	if err != nil {
		return nil, err
	}
	defer close()
	if q.at != "" {
		if branch == nil {
			return nil, errors.New("--at: there is no state branch to read the past from; name its repository with --source URL or state.url")
		}
		return c.explainPast(ctx, src, branch, q)
	}
	snapshot, err := at(ctx, src, "")
	if err != nil {
		return nil, err
	}
	var previous *record.State
	if branch == nil {
		var closeState func()
		if previous, closeState, err = c.readState(ctx, cmp.Or(q.state, "none")); err == nil {
			defer closeState()
		}
	} else {
		previous, err = stateAt(ctx, branch, "")
	}
	if err != nil {
		return nil, err
	}
	in, err := c.input(ctx, src, snapshot, previous)
	if err != nil {
		return nil, err
	}
	in.Options.Explain = true
	d, err := decideOn(in)
	if err != nil {
		return nil, err
	}
	e, err := report.Explain(d, q.kind, q.namespace, q.name)
	if err != nil || branch == nil {
		return e, err
	}
	return e, past{branch, e}.since(ctx, "HEAD")
}

// explainPast decides again what a commit of the state branch records: from the state before, with the
// source and the clock of that time and what was recorded of members.
func (c *Config) explainPast(ctx context.Context, src snapshots, branch reconciler.History, q question) (*report.Explanation, error) {
	commit, err := commitAt(ctx, branch, c.stateRev(q.state, q.at))
	if err != nil {
		return nil, fmt.Errorf("--at: %w", err)
	}
	now, err := stateAt(ctx, branch, string(commit.Revision))
	if err != nil {
		return nil, err
	}
	previous := record.New()
	if commit.Parent != "" {
		if previous, err = stateAt(ctx, branch, string(commit.Parent)); err != nil {
			return nil, err
		}
	}
	previous = previous.Clone()
	previous.Members = now.Members
	moment := momentOf(commit)
	moment.Source = cmp.Or(moment.Source, now.Meta.Source.Commit)
	snapshot, err := src.At(ctx, moment.Source)
	if err != nil {
		return nil, fmt.Errorf("--at %s: read the source at commit %s, which was in force: %w", q.at, moment.Source, err)
	}
	in, err := c.input(ctx, src, snapshot, previous)
	if err != nil {
		return nil, err
	}
	if in.Now, err = time.Parse(time.RFC3339, moment.Time); err != nil {
		in.Now = commit.When
	}
	if reconciler.Ours(commit) {
		recorded, err := reconciler.Recall(ctx, branch, src, commit, in.Options)
		if err != nil {
			return nil, fmt.Errorf("--at %s: %w", q.at, err)
		}
		in = recorded.Input
	}
	in.Options.Explain = true
	d, err := decideOn(in)
	if err != nil {
		return nil, err
	}
	d.Next = d.Next.Clone()
	d.Next.Bindings, d.Next.Retired = now.Bindings, now.Retired // conditions and copies are those on record
	e, err := report.Explain(d, q.kind, q.namespace, q.name)
	if err != nil {
		return nil, err
	}
	e.Recall(moment, now)
	return e, past{branch, e}.since(ctx, string(commit.Revision))
}

// past is where the past of what is explained is read.
type past struct {
	reconciler.History
	*report.Explanation
}

// since walks back from a commit to those that gave the workload to its policy and put it where it is.
// A binding whose file is the same is read once.
func (p past) since(ctx context.Context, from string) error {
	if p.Policy == nil || p.Explanation.Binding == "" {
		return nil
	}
	namespace, name, found := strings.Cut(p.Explanation.Binding, "/")
	if !found {
		namespace, name = "", namespace
	}
	path := record.BindingKey{Namespace: namespace, Name: name}.Path()
	head, err := commitAt(ctx, p.History, from)
	if errors.Is(err, errNoCommits) {
		return nil
	}
	if err != nil {
		return err
	}
	var hash string
	var holds, placed bool
	var first *workv1alpha2.ResourceBinding
	for commit, err := range p.Log(ctx, head.Revision) {
		if err != nil {
			return err
		}
		tree, err := p.At(ctx, string(commit.Revision))
		if err != nil {
			return err
		}
		now, err := tree.FS.Hash(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if now != hash {
			hash = now
			data, err := fs.ReadFile(tree.FS, path)
			if err != nil {
				return err
			}
			b, err := record.DecodeBinding(path, data)
			if err != nil {
				return nil // a person's edit that nobody could read
			}
			if first == nil {
				first, placed = b, p.runsAs(b)
			}
			holds = b.Spec.Policy != nil && report.Policy(*b.Spec.Policy) == p.Policy.Policy
			placed = placed && slices.EqualFunc(b.Spec.Clusters, first.Spec.Clusters, func(x, y workv1alpha2.TargetCluster) bool { return x.Name == y.Name && x.Replicas == y.Replicas })
		}
		if !holds {
			return nil
		}
		moment := momentOf(commit)
		p.Since = &moment
		if placed {
			p.PlacedSince = &moment
		}
	}
	return nil
}

// runsAs tells whether what is explained runs where the binding says.
func (p past) runsAs(b *workv1alpha2.ResourceBinding) bool {
	targets := decide.Targets(b)
	return len(targets) == len(p.Clusters) && !slices.ContainsFunc(targets, func(t workv1alpha2.TargetCluster) bool {
		return !slices.Contains(p.Clusters, report.Target{Name: t.Name, Replicas: t.Replicas})
	})
}

// errNoCommits says that the branch has none.
var errNoCommits = errors.New("the state branch has no commits")

func commitAt(ctx context.Context, branch reconciler.History, rev string) (store.Commit, error) {
	tree, err := branch.At(ctx, rev)
	if err != nil {
		return store.Commit{}, err
	}
	if tree.Head == "" {
		return store.Commit{}, errNoCommits
	}
	for commit, err := range branch.Log(ctx, tree.Head) {
		return commit, err
	}
	return store.Commit{}, errNoCommits
}

func momentOf(c store.Commit) report.Moment {
	m := report.Moment{Commit: string(c.Revision), Subject: c.Subject, Time: c.When.UTC().Format(time.RFC3339)}
	for _, t := range c.Trailers {
		switch t.Key {
		case "Godwit-Source":
			m.Source = t.Value
		case "Godwit-Time":
			m.Time = t.Value
		}
	}
	return m
}

func stateAt(ctx context.Context, branch reconciler.History, rev string) (*record.State, error) {
	tree, err := branch.At(ctx, rev)
	if err != nil {
		return nil, err
	}
	return decodeState(tree.FS, cmp.Or(rev, "branch"))
}

// openRecord opens the state branch to look at its past. It is nil where the state is a folder, or none,
// or where there is no such branch and nobody asked for one.
func (c *Config) openRecord(ctx context.Context, what string) (_ stateReader, done func(), err error) {
	nothing := func() {}
	if info, err := os.Stat(what); what == "none" || what != "" && err == nil && info.IsDir() {
		return nil, nothing, nil
	}
	branch, done, err := c.openState(ctx, what)
	if what == "" && errors.Is(err, errNoState) {
		return nil, nothing, nil
	}
	return branch, done, err
}
