package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

func newApprove() *cobra.Command {
	var q report.WaitingQuery
	var list bool
	var seen string
	cmd := &cobra.Command{
		Use:   "approve [KIND/NAME]",
		Short: "Let go what waits for a person: held deletions, evictions, copies left behind, a rewritten source",
		Long: `approve lets go what godwit holds until a person says so:

  Deletions      objects that a brake keeps from being deleted (safety.maxDeletePercent)
  Failover       evictions, while so many members are down that it is rather the view of them that is gone
  PurgeNever     copies that an eviction with purge mode Never left on a member
  SourceRewrite  a history of the source that does not come after the commit in force (source.rewrites)

It writes the approval to the state branch as a commit of yours, so it takes the right to push there; the reconciler acts
on it at its next look. It names each thing that is approved: what comes to wait later is not covered. With --list it
only prints what waits, and an ID: with --seen ID nothing is approved unless that is still all that waits. A source commit
with the trailer "Godwit-Approve: delete" approves the deletions that this very commit asks for, and takes the right to
push to the source instead.`,
		Args: cobra.RangeArgs(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, output, err := configured(cmd)
			if err != nil {
				return err
			}
			if q.ObjectKind, q.Name, err = workload(args); err != nil {
				return err
			}
			for _, kind := range q.Kinds {
				if !slices.Contains(report.WaitingKinds, kind) {
					return fmt.Errorf("--kind %s: is not one of %s", kind, strings.Join(report.WaitingKinds, ", "))
				}
			}
			a, err := c.approve(cmd.Context(), q, seen, list)
			if err != nil {
				return err
			}
			return a.print(cmd, output)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "print what waits, and approve nothing")
	cmd.Flags().StringVar(&seen, "seen", "", "approve only if what waits is what --list printed with this ID")
	cmd.Flags().StringSliceVar(&q.Kinds, "kind", nil, "only these: "+strings.Join(report.WaitingKinds, ", "))
	cmd.Flags().StringVar(&q.Cluster, "cluster", "", "only what waits on this member")
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "", "namespace of the object (default: any)")
	completeFlag(cmd, "kind", cobra.FixedCompletions(report.WaitingKinds, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(cmd, "cluster", completeClusters)
	return printing(cmd, "text", "json", "yaml")
}

// approved is what waits, or was let go.
type approved struct {
	// Commit is the approval on the state branch, empty for a list.
	Commit string `json:"commit,omitempty"`
	// Seen names the list.
	Seen  string           `json:"seen"`
	Items []report.Waiting `json:"items"`
}

func (a *approved) print(cmd *cobra.Command, output string) error {
	w := cmd.OutOrStdout()
	switch output {
	case "json":
		return writeJSON(w, a)
	case "yaml":
		return writeYAML(w, a)
	}
	switch {
	case len(a.Items) == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing waits for an approval")
		return nil
	case a.Commit == "":
		fmt.Fprintf(cmd.ErrOrStderr(), "godwit: to approve these and nothing else, add --seen %s in place of --list\n", a.Seen)
		return report.WaitingText(w, style(cmd, w), a.Items)
	}
	for _, item := range a.Items {
		fmt.Fprintln(w, "approved:", report.Flat(item.String()))
	}
	_, err := io.WriteString(w, "commit "+a.Commit+"\n")
	return err
}

// approve finds what waits and, unless it is only to be listed, lets it go.
func (c *Config) approve(ctx context.Context, q report.WaitingQuery, seen string, list bool) (*approved, error) {
	defer c.progress.doing("deciding what waits")()
	src, done, err := c.openSource(true)
	if err != nil {
		return nil, err
	}
	defer done()
	snapshot, err := at(ctx, src, "")
	if err != nil {
		return nil, err
	}
	memo := decide.NewMemo()
	waits := func(state *record.State) ([]report.Waiting, error) {
		d, err := c.decideInForce(ctx, src, snapshot, state, memo)
		if err != nil {
			return nil, err
		}
		return q.Choose(report.Waits(d, state)), nil
	}
	state, closeState, err := c.readState(ctx, "")
	if err != nil {
		return nil, err
	}
	defer closeState()
	a := &approved{}
	if a.Items, err = waits(state); err != nil {
		return nil, err
	}
	a.Seen = report.SeenID(a.Items)
	switch {
	case seen != "" && seen != a.Seen:
		return nil, fmt.Errorf("--seen %s: what waits is not what that list showed; look at it again with --list", seen)
	case len(a.Items) == 0 && q.Named() && !list:
		return nil, errors.New("nothing of that waits for an approval; \"godwit approve --list\" prints what does")
	case len(a.Items) == 0 || list:
		return a, nil
	case c.State.Verify.Mode == "enforce" && c.State.SigningKey == "":
		return nil, errors.New("approve: state.verify.mode is enforce, and without a signature the approval would keep the state branch from being followed; set state.signingKey to your own key")
	}
	if a.Commit, err = c.commitApproval(ctx, a, waits); err != nil {
		return nil, fmt.Errorf("approve: %w", err)
	}
	return a, nil
}

// decideInForce decides as the reconciler does: where a rewritten history of the source is kept out, on the commit that
// is in force. If that one is gone, nothing is decided.
func (c *Config) decideInForce(ctx context.Context, src snapshots, head gitstate.Snapshot, state *record.State, memo *decide.Memo) (*decide.Decision, error) {
	var refused *decide.Refusal
	if lineage := src.lineage(); lineage != nil && c.Source.Rewrites != "follow" {
		options := c.options() // whatever names the person has for the source, it is that of the record
		options.SourceURL, options.SourceBranch = state.Meta.Source.URL, ""
		var err error
		if refused, err = (&reconciler.Gate{Lineage: lineage}).Judge(ctx, head.Revision, state.Meta, options); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		var err error
		if head, err = src.At(ctx, refused.InForce); err != nil {
			return &decide.Decision{Refused: refused}, nil
		}
	}
	d, err := c.decideOffline(ctx, src, head, state, memo)
	if err == nil {
		d.Refused = refused
	}
	return d, err
}

// commitApproval writes the approval of what was seen to the state branch. Losing a race only means to look which of
// it still waits.
func (c *Config) commitApproval(ctx context.Context, a *approved, waits func(*record.State) ([]report.Waiting, error)) (string, error) {
	r, err := c.ownStateRemote()
	switch {
	case err != nil:
		return "", err
	case r == nil:
		return "", errNoState
	}
	const attempts = 10
	for attempt := 1; ; attempt++ {
		head, err := c.tryApproval(ctx, r, a, waits)
		if !errors.Is(err, gitstate.ErrConflict) || attempt == attempts {
			return head, err
		}
	}
}

// tryApproval works in a clone of its own: what could not be pushed goes with it.
func (c *Config) tryApproval(ctx context.Context, r *remote.Remote, a *approved, waits func(*record.State) ([]report.Waiting, error)) (string, error) {
	dir, err := os.MkdirTemp("", "godwit-state-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var by store.Signature
	by.Name, by.Email = remote.Person(c.sourceURL())
	sign, err := c.signer()
	if err != nil {
		return "", err
	}
	s, err := store.Open(ctx, store.Options{Remote: r, Branch: c.State.Branch, Dir: dir, Author: by, Sign: sign})
	if err != nil {
		return "", err
	}
	defer s.Close()
	tree, err := s.Load(ctx)
	switch {
	case err != nil:
		return "", err
	case tree.Offline != nil:
		return "", tree.Offline
	case tree.Head == "":
		return "", fmt.Errorf("%w %s where it could be written", errNoState, c.State.Branch)
	}
	state, err := decodeState(tree.FS, c.State.Branch)
	if err != nil {
		return "", err
	}
	now, err := waits(state)
	if err != nil {
		return "", err
	}
	if a.Items = report.Still(a.Items, now); len(a.Items) == 0 {
		return "", errors.New("what was to be approved waits no more")
	}
	at := time.Now()
	files, subject, body, err := report.Approve(state, a.Items, by.String(), at)
	if err != nil {
		return "", err
	}
	changes := make([]store.Change, len(files))
	for i, f := range files {
		changes[i] = store.Change{Path: f.Path, Data: f.Data}
	}
	head, err := s.Commit(ctx, tree.Head, changes, store.Message{Subject: subject, Body: body, When: at, Trailers: []store.Trailer{
		{Key: "Godwit-Reason", Value: string(decide.Operator)}, {Key: "Godwit-Time", Value: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return "", err
	}
	return string(head), s.Push(ctx)
}

// ownStateRemote is where the state branch is: where it is shared, or else the clone of this machine's reconciler. One
// that was ever brought together with a remote belongs to another source.
func (c *Config) ownStateRemote() (*remote.Remote, error) {
	r, err := c.stateRemote()
	if r != nil || err != nil {
		return r, err
	}
	dir := filepath.Join(c.DataDir, "state")
	if _, err := remote.ReadRef(dir, "refs/remotes/origin/"+c.State.Branch); err == nil || !isBare(dir) {
		return nil, nil
	}
	return remote.New(remote.Options{URL: dir})
}
