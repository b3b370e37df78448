package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/reconciler/simulate"
)

// lossTime is how long is looked ahead where nobody says: a day is longer than tolerations are.
const lossTime = 24 * time.Hour

// loss tells what would come of members that die after what the source wants now is carried out.
func (c *Config) loss(ctx context.Context, stateName, head string, clusters []string, after time.Duration) (*report.Loss, error) {
	defer c.progress.doing("playing the outage")()
	previous, closeState, err := c.readState(ctx, stateName)
	if err != nil {
		return nil, err
	}
	defer closeState()
	src, done, err := c.openSource(true)
	if err != nil {
		return nil, err
	}
	defer done()
	snapshot, err := at(ctx, src, head)
	if err != nil {
		return nil, err
	}
	in, err := c.input(ctx, src, snapshot, previous)
	if err != nil {
		return nil, err
	}
	d, err := decideOn(in)
	if err != nil {
		return nil, err
	}
	for _, name := range clusters {
		if d.Next.Members[name] == nil {
			return nil, fmt.Errorf("--fail-cluster %s: %w", name, noMember(membersOf(d.Next)))
		}
	}
	return lossOf(ctx, in, d.Next, clusters, after)
}

// whatIf plays the death of each member, before and after a plan. before is nil where nothing ran before. The
// deaths have nothing to do with each other, so as many are played at a time as there are processors.
func whatIf(ctx context.Context, p *progress, before, after *playing, memo *decide.Memo) (*report.WhatIf, error) {
	type lot struct {
		was, is *report.Loss
		err     error
	}
	defer p.doing("playing the death of member")()
	var was, is *simulate.Outlook
	var err error
	if before != nil {
		if was, err = simulate.NewOutlook(ctx, before.in, before.state, lossTime, memo); err != nil {
			return nil, err
		}
	}
	if is, err = simulate.NewOutlook(ctx, after.in, after.state, lossTime, memo); err != nil {
		return nil, err
	}
	names := membersOf(after.state)
	lots := make([]lot, len(names))
	play := func(i int, memo *decide.Memo) lot {
		var l lot
		if l.is, l.err = deathOf(ctx, is, after.state, names[i], memo); l.err != nil {
			return l
		}
		switch {
		case before == nil || before.state.Members[names[i]] == nil:
		case was.Alike(is, names[i]):
			l.was = l.is
		default:
			l.was, l.err = deathOf(ctx, was, before.state, names[i], memo)
		}
		return l
	}
	var next atomic.Int64
	var players sync.WaitGroup
	for n := range min(runtime.GOMAXPROCS(0), len(names)) {
		memo := memo
		if n > 0 {
			memo = decide.NewMemo() // it serves one caller at a time
		}
		players.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				p.count(i+1, len(names))
				lots[i] = play(i, memo)
			}
		})
	}
	players.Wait()
	w := &report.WhatIf{Clusters: []report.WhatIfCluster{}}
	for i, name := range names {
		if lots[i].err != nil {
			return nil, lots[i].err
		}
		w.Compare(name, lots[i].was, lots[i].is)
	}
	return w, nil
}

// playing is a state with the source that it goes on with.
type playing struct {
	in    decide.Input
	state *record.State
}

// deathOf is what comes of the death of one member.
func deathOf(ctx context.Context, o *simulate.Outlook, before *record.State, member string, memo *decide.Memo) (*report.Loss, error) {
	result, err := o.Death(ctx, member, memo)
	if err != nil {
		return nil, err
	}
	return report.NewLoss([]string{member}, lossTime, before, result), nil
}

// lossOf plays the outage, beginning where before is carried out.
func lossOf(ctx context.Context, in decide.Input, before *record.State, clusters []string, after time.Duration) (*report.Loss, error) {
	const head = "head"
	s := &simulate.Scenario{Source: head, Start: in.Now.UTC().Format(time.RFC3339), Until: after}
	for _, name := range clusters {
		s.Events = append(s.Events, simulate.Event{Cluster: name, Ready: "Unknown"})
	}
	result, err := simulate.Run(s, simulate.Options{Sources: map[string]gitstate.Snapshot{head: in.Source}, Previous: before, Decide: in.Options, Stop: ctx.Err})
	if err != nil {
		return nil, err
	}
	return report.NewLoss(clusters, after, before, result), nil
}

func membersOf(s *record.State) []string {
	names := make([]string, 0, len(s.Members))
	for name := range s.Members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// failClusters reads what --fail-cluster names, each once.
func failClusters(given []string) ([]string, error) {
	var names []string
	for _, name := range given {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("--fail-cluster: names no member; write it like --fail-cluster kube02,kube03")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func printLoss(cmd *cobra.Command, l *report.Loss, output string) error {
	return printReport(cmd.OutOrStdout(), output, l, l.Markdown, func(w io.Writer) error { return l.Text(w, style(cmd, w)) })
}
