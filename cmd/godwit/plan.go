package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render"
)

func newPlan() *cobra.Command {
	var state, base, head string
	var detailed, ifs bool
	var failing []string
	var after time.Duration
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what the source would change: bindings, works with diffs, findings",
		Long: `plan decides on the source as "run" would and applies nothing. It needs no member to be reachable:
facts of members come from Cluster manifests (status included) and the state branch.

The source is what --source or source.url names, else the repository that this folder is in. A folder is read as it is on
disk, with what is not committed.

With --base and --head it compares two revisions of the source: what head changes over base. Those of a folder are commits
of the repository that it is in; without --head it is what is on disk. Findings that base has, too, are listed
apart and do not fail the change.

Its findings are those of "validate", and what the change does beside moving workloads: fields that cannot be
changed in place, members that come and go, workloads that pass to another policy, find no place, or lose or
gain their failover. -o sarif prints them for code scanning, -o markdown is a comment for a pull request.

With --fail-cluster it tells instead what would come of the workloads on these members if they died once
the plan is carried out: which would move, when and where to, and which would not and why.

KUBECTL_EXTERNAL_DIFF names a program that shows diffs in place of godwit, as for "kubectl diff": it is called with two
folders that have a file for each object that changes, named MEMBER.GROUP.VERSION.KIND.NAMESPACE.NAME.

Values of Secrets are not shown, only which of them change. To compare them with the record takes the key that it was
made with (state.secretKeyFile); --base with --head needs none.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if len(failing) > 0 {
				clusters, err := failClusters(failing)
				switch {
				case err != nil:
					return err
				case after <= 0:
					return fmt.Errorf("--after %s: is no time to come", after)
				case ifs:
					return errors.New("--fail-cluster plays the death of the members that it names, --what-if that of each alone: leave out one of them")
				case base != "" || detailed:
					return errors.New("--fail-cluster compares nothing: leave out --base and --detailed-exitcode")
				case output == "sarif":
					return errors.New("-o sarif is for findings, and --fail-cluster has none")
				}
				l, err := c.loss(cmd.Context(), state, head, clusters, after)
				if err != nil {
					return err
				}
				return printLoss(cmd, l, output)
			}
			if os.Getenv("GOGC") == "" {
				defer debug.SetGCPercent(debug.SetGCPercent(400)) // it ends soon: memory for time
			}
			plan, err := c.plan(cmd.Context(), state, base, head, ifs)
			if err != nil {
				return err
			}
			if output == "sarif" {
				err = writeJSON(cmd.OutOrStdout(), plan.SARIF(version, c.sourceRoot()))
			} else {
				err = printPlan(cmd, plan, output)
			}
			if err != nil {
				return err
			}
			switch {
			case plan.Errors():
				return &statusError{status: exitFindings}
			case detailed && plan.Changes():
				return &statusError{status: exitChanges}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "previous state: a branch, a folder, or none (default: the state branch, if there is one)")
	cmd.Flags().StringVar(&base, "base", "", "compare with this revision of the source")
	cmd.Flags().StringVar(&head, "head", "", "revision of the source to plan (default: the newest)")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "end with status 2 if there are changes")
	cmd.Flags().BoolVar(&ifs, "what-if", false, "tell also what would come of each member's death, and what gets worse")
	cmd.Flags().StringSliceVar(&failing, "fail-cluster", nil, "tell what would come of it if these members died now")
	cmd.Flags().DurationVar(&after, "after", lossTime, "with --fail-cluster, how much later")
	completeFlag(cmd, "fail-cluster", completeClusters)
	return printing(cmd, "text", "wide", "json", "yaml", "markdown", "sarif")
}

// plan decides on the head, after the base if there is one.
func (c *Config) plan(ctx context.Context, stateName, base, head string, ifs bool) (*report.Plan, error) {
	defer c.progress.doing("deciding")()
	if base != "" {
		c.passingKey = make([]byte, 32)
		rand.Read(c.passingKey)
	}
	// Both are read at once: they are most of the work.
	type read struct {
		state *record.State
		done  func()
		err   error
	}
	reading := make(chan read, 1)
	go func() {
		var r read
		r.state, r.done, r.err = c.readState(ctx, stateName)
		reading <- r
	}()
	memo := decide.NewMemo()
	src, snapshot, done, err := c.readHead(ctx, head, memo)
	if err == nil {
		defer done()
	}
	r := <-reading
	if r.err == nil {
		defer r.done()
	}
	if err := cmp.Or(r.err, err); err != nil {
		return nil, err
	}
	previous := r.state
	revisions := report.Revisions{Base: previous.Meta.Source.Commit}
	var before *playing
	var baseDecision *decide.Decision
	if base != "" || ifs && revisions.Base != "" {
		snapshot, err := src.At(ctx, cmp.Or(base, revisions.Base))
		switch {
		case err == nil:
			in, err := c.input(ctx, src, snapshot, previous)
			if err != nil {
				return nil, err
			}
			before = &playing{in, previous}
		case base != "":
			return nil, fmt.Errorf("--base %s: %w", base, err)
		default:
			c.note("the source at %.10s, which was decided on last, cannot be read: what gets worse is not told", revisions.Base)
		}
	}
	if base != "" {
		before.in.Memo = memo
		d, err := decideOn(before.in)
		if err != nil {
			return nil, err
		}
		before.in.Memo, baseDecision = nil, d
		previous, revisions.Base, before.state = d.Next, string(before.in.Source.Revision), d.Next
	}
	d, err := c.decideOffline(ctx, src, snapshot, previous, memo)
	if err != nil {
		return nil, err
	}
	if base == "" {
		d.Findings = append(d.Findings, c.kept(ctx, src, snapshot, previous.Meta)...)
	}
	revisions.Head = string(snapshot.Revision)
	keep(previous, d.Works)
	plan := report.New(d, previous, revisions)
	if baseDecision != nil {
		plan.Since(baseDecision, d)
	}
	if ifs {
		in, err := c.input(ctx, src, snapshot, d.Next)
		if err != nil {
			return nil, err
		}
		if plan.WhatIf, err = whatIf(ctx, c.progress, before, &playing{in, d.Next}, memo); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// kept warns of a commit that run would not follow. Of a pull request that is not known before it is merged.
func (c *Config) kept(ctx context.Context, src snapshots, s gitstate.Snapshot, meta record.Meta) []render.Finding {
	if src.lineage() == nil {
		return nil // what is on disk is no commit yet
	}
	gate, err := c.gate(src)
	var refused *decide.Refusal
	if err == nil {
		options := c.options()
		options.SourceURL, options.SourceBranch = meta.Source.URL, "" // in whatever clone it is read
		refused, err = gate.Judge(ctx, s.Revision, meta, options)
	}
	switch {
	case err != nil:
		c.note("whether run would follow %.10s cannot be told: %v", s.Revision, err)
	case refused != nil && !refused.Doubtful: // a clone may be shallow
		return []render.Finding{{Severity: render.Warning, Code: refused.Code, Message: refused.Message}}
	}
	return nil
}

// keep reads the texts of works that a plan shows, also when the files of the state are closed.
func keep(state *record.State, changed []decide.WorkRow) {
	for _, row := range changed {
		if w, ok := state.Works[row.Path]; ok {
			text := w.Text()
			w.Text = func() []byte { return text }
			state.Works[row.Path] = w
		}
	}
}

// readHead opens the source and reads the revision that is planned.
func (c *Config) readHead(ctx context.Context, head string, memo *decide.Memo) (_ snapshots, s gitstate.Snapshot, done func(), err error) {
	options, err := c.offlineOptions()
	if err != nil {
		return nil, s, nil, err
	}
	src, done, err := c.openSource(true)
	if err != nil {
		return nil, s, nil, err
	}
	if s, err = at(ctx, src, head); err != nil {
		done()
		return nil, s, nil, err
	}
	memo.Read(s.FS, options)
	return src, s, done, nil
}

// at is the snapshot of a revision, the newest if it is empty.
func at(ctx context.Context, src snapshots, rev string) (gitstate.Snapshot, error) {
	if rev == "" {
		snapshot, err := src.Fetch(ctx)
		if err != nil {
			return snapshot, fmt.Errorf("read the source: %w", err)
		}
		return snapshot, nil
	}
	snapshot, err := src.At(ctx, rev)
	if err != nil {
		return snapshot, fmt.Errorf("--head %s: %w", rev, err)
	}
	return snapshot, nil
}

// decideOffline decides without asking members.
func (c *Config) decideOffline(ctx context.Context, src snapshots, s gitstate.Snapshot, previous *record.State, memo *decide.Memo) (*decide.Decision, error) {
	in, err := c.input(ctx, src, s, previous)
	if err != nil {
		return nil, err
	}
	in.Memo = memo
	return decideOn(in)
}

// input is what is decided on where members are not asked.
func (c *Config) input(ctx context.Context, src snapshots, s gitstate.Snapshot, previous *record.State) (decide.Input, error) {
	options, err := c.offlineOptions()
	if err != nil {
		return decide.Input{}, err
	}
	past := map[string]fs.FS{}
	for _, commit := range previous.SourceCommits() {
		var number syscall.Errno
		switch snapshot, err := src.At(ctx, commit); {
		case err == nil:
			past[commit] = snapshot.FS
		case ctx.Err() != nil || errors.As(err, &number) && number != syscall.ENOENT:
			return decide.Input{}, fmt.Errorf("read the source at %.10s: %w", commit, err)
		}
	}
	return decide.Input{Source: s, Past: past, Previous: previous, Now: time.Now(), Options: options}, nil
}

// sourceRoot is where the source is within its repository; empty at the top, or where that is not known.
func (c *Config) sourceRoot() string {
	root := c.Source.Path
	if c.folder() == "" {
		return root
	}
	dir, err := filepath.Abs(c.folder())
	if err != nil {
		return root
	}
	below, err := filepath.Rel(cmp.Or(repositoryOf(dir), dir), dir)
	if err != nil {
		return root
	}
	return path.Join(filepath.ToSlash(below), root)
}

// offlineOptions are those of decisions that nobody carries out.
func (c *Config) offlineOptions() (o decide.Options, err error) {
	if o, err = c.withKeys(c.options()); err != nil {
		return o, err
	}
	o.ByCiphertext = c.passingKey != nil
	if o.SecretKey, err = c.knownSecretKey(); o.SecretKey == nil {
		o.SecretKey = c.passingKey
	}
	return o, err
}

func printPlan(cmd *cobra.Command, plan *report.Plan, output string) error {
	return printReport(cmd.OutOrStdout(), output, plan, plan.Markdown, func(w io.Writer) error {
		s, wide := style(cmd, w), output == "wide"
		var err error
		if program := os.Getenv(envExternalDiff); program != "" {
			err = plan.TextAround(w, s, wide, func(w io.Writer) error { return externalDiff(cmd, w, program, plan.Sides()) })
		} else {
			err = plan.Text(w, s, wide)
		}
		if err != nil || plan.WhatIf == nil {
			return err
		}
		return plan.WhatIf.Text(w, s)
	})
}
