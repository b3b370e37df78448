package pull

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// State is the state branch, which an agent only reads; a *store.Store is one.
type State interface {
	Load(ctx context.Context) (store.Tree, error)
	Log(ctx context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error]
}

// Poster is the agent's branch; a *store.Poster is one.
type Poster interface {
	Post(ctx context.Context, files map[string][]byte, subject string, when time.Time) (gitstate.Revision, error)
}

// AgentOptions of an Agent. Of the durations and below, the zero value means the default.
type AgentOptions struct {
	Member string
	State  State
	Poster Poster
	// Fleet is to have the one member.
	Fleet Reachable
	// Version is the program's.
	Version string
	// Marker is a file that remembers which commit is in force, so that the next agent is not led back either; empty
	// means that nobody does. It counts for the branch of this name alone, with the repository in it.
	Marker, Branch string
	// Interval is how often the state branch is looked at, default 15s.
	Interval time.Duration
	// Heartbeat is how often something is reported without news, default 30s.
	Heartbeat time.Duration
	// Rest is the shortest time between two reports, default 2s. While there is news all the time it grows to a third
	// of the Heartbeat: forges bear no push a second.
	Rest time.Duration
	// Timeout of a report, default 1m.
	Timeout time.Duration
	// Clock, default the real one. Log, default slog.Default().
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Agent serves one member. Run may be called once.
type Agent struct {
	o AgentOptions

	// Of the one who pulls:

	passed gitstate.Revision // over, as history was taken back
	mark   mark              // in force now, or with the last agent; zero if that is not known

	mu       sync.Mutex
	head     gitstate.Revision // in force; empty if none is yet
	delivery *delivery         // of it
	trouble  string            // why it is not the newest, for the report; empty if it is
	tried    time.Time         // the last report
	reported time.Time         // last with success
	outages  map[string]bool   // what was said already
}

// NewAgent prepares an agent.
func NewAgent(o AgentOptions) *Agent {
	for _, d := range []struct {
		field    *time.Duration
		fallback time.Duration
	}{{&o.Interval, 15 * time.Second}, {&o.Heartbeat, 30 * time.Second}, {&o.Rest, 2 * time.Second}, {&o.Timeout, time.Minute}} {
		if *d.field == 0 {
			*d.field = d.fallback
		}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Agent{o: o, outages: map[string]bool{}}
}

// Run reads and reports until ctx ends. Reading never delays a report. The error says that the clone of the state branch
// is damaged: open it anew.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var err error
	if a.mark, err = readMark(a.o.Marker, a.o.Branch); err != nil {
		a.o.Log.Warn("which commit was in force last is not known", "error", err)
	}
	a.o.Fleet.Set(map[string]Desired{a.o.Member: nothing(a.o.Member, nil)})
	var group sync.WaitGroup
	group.Go(func() {
		if err := a.runPull(ctx); err != nil {
			cancel(err)
		}
	})
	group.Go(func() { a.runReport(ctx) })
	group.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Alive is an error when the agent does not go on.
func (a *Agent) Alive() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if late := a.o.Clock.Since(a.tried); !a.tried.IsZero() && late > 2*(a.o.Heartbeat+a.o.Timeout) {
		return fmt.Errorf("nothing was reported for %s", late.Round(time.Second))
	}
	return nil
}

// Ready is an error until the agent follows the state branch and its reports are taken.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.head == "":
		return errors.New("the state branch was not read yet")
	case a.reported.IsZero():
		return errors.New("no report was taken yet")
	case a.trouble != "":
		return errors.New(a.trouble)
	}
	return nil
}

func (a *Agent) runPull(ctx context.Context) error {
	ticker := a.o.Clock.NewTicker(a.o.Interval)
	defer ticker.Stop()
	for {
		if err := a.pull(ctx); errors.Is(err, pack.ErrDamaged) || errors.Is(err, pack.ErrMissing) {
			return fmt.Errorf("read the state branch: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// pull takes what the state branch asks of the member into force.
func (a *Agent) pull(ctx context.Context) error {
	tree, err := a.o.State.Load(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		a.away("state", "the state branch cannot be read", err)
		return err
	case tree.Offline != nil:
		a.away("remote", "the remote of the state branch cannot be reached, going on with what was there last; nothing more is deleted", tree.Offline)
	default:
		a.back("remote", "the remote of the state branch can be reached again")
	}
	a.back("state", "the state branch can be read again")
	untrusted := ""
	if tree.Refused != "" {
		untrusted = fmt.Sprintf("commit %s of the state branch is not followed: %v", tree.Refused, tree.Unverified)
		a.away("trust", "the state branch is not followed, going on with the last commit that can be trusted", tree.Unverified)
	} else {
		a.back("trust", "the state branch can be trusted again")
	}
	a.mu.Lock()
	head, before := a.head, a.delivery
	a.mu.Unlock()
	cautious := tree.Offline != nil
	if tree.Head == head {
		a.troubled(untrusted)
	}
	if tree.Head == "" || tree.Head == a.passed || before != nil && tree.Head == head && cautious == before.cautious {
		return nil
	}
	next, err := deliver(tree.FS, a.o.Member, before)
	if err != nil {
		a.away("branch", "what the state branch asks of the member cannot be read, the last one stays in force", err)
		a.troubled(err.Error())
		return err
	}
	if why := a.takenBack(ctx, tree.Head, next); why != "" {
		a.away("branch", "history of the state branch was taken back, the last one stays in force", errors.New(why))
		a.troubled(why)
		a.passed = tree.Head
		return nil
	}
	a.passed = ""
	a.back("branch", "the state branch is followed again")
	a.troubled(untrusted)
	if cautious {
		next.hesitate(before)
	}
	for _, p := range next.problems {
		a.o.Log.Warn("a file of the state branch cannot be used, the last version that can stays in force", "file", p.Path, "error", p.Err)
	}
	a.o.Log.Info("following the state branch", "commit", tree.Head, "works", len(next.desired.Works), "retired", len(next.desired.Retired))
	a.mu.Lock()
	a.head, a.delivery = tree.Head, next
	a.mu.Unlock()
	// A pass of a time that is still to come holds up none of those that come.
	a.mark = mark{a.o.Branch, tree.Head, earlier(next.passed.Time, a.o.Clock.Now())}
	if err := a.mark.write(a.o.Marker); err != nil {
		a.away("marker", "which commit is in force cannot be written down", err)
	} else {
		a.back("marker", "which commit is in force is written down again")
	}
	a.o.Fleet.Set(map[string]Desired{a.o.Member: next.desired})
	return nil
}

// hesitate leaves out deletions that were not under way: whether they still stand is not known while the remote is away.
func (d *delivery) hesitate(before *delivery) {
	d.cautious = true
	for id, r := range d.desired.Retired {
		if before == nil || before.desired.Retired[id] != r {
			delete(d.desired.Retired, id)
		}
	}
}

// takenBack says why a commit is not followed; empty if it is. One that does not descend from the one in force is, once
// it is of no earlier pass: the reconciler knows of it then.
func (a *Agent) takenBack(ctx context.Context, next gitstate.Revision, d *delivery) string {
	head := a.mark.Head
	if head == "" || next == head || !d.passed.Time.Before(a.mark.Passed) {
		return ""
	}
	for commit, err := range a.o.State.Log(ctx, next) {
		if err != nil {
			return err.Error()
		}
		if commit.Revision == head {
			return ""
		}
	}
	return fmt.Sprintf("commit %s does not descend from %s, and was decided earlier; it is followed once godwit decides on it", next, head)
}

func (a *Agent) troubled(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = why
}

// away warns that something is wrong, once until it is right.
func (a *Agent) away(what, message string, err error) {
	a.mu.Lock()
	said := a.outages[what]
	a.outages[what] = true
	a.mu.Unlock()
	if !said {
		a.o.Log.Warn(message, "error", err)
	}
}

func (a *Agent) back(what, message string) {
	a.mu.Lock()
	said := a.outages[what]
	delete(a.outages, what)
	a.mu.Unlock()
	if said {
		a.o.Log.Info(message)
	}
}

// runReport reports news, and now and then that there are none.
func (a *Agent) runReport(ctx context.Context) {
	pause, longest := a.o.Rest, max(a.o.Rest, a.o.Heartbeat/3)
	retry := a.o.Rest
	for due := a.o.Heartbeat; ; {
		began := a.o.Clock.Now()
		timer := a.o.Clock.NewTimer(due)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			pause = a.o.Rest
		case <-a.o.Fleet.Changed():
			timer.Stop()
			if quiet := a.o.Clock.Since(began); quiet >= pause {
				pause = max(a.o.Rest, pause/2)
			} else if a.rest(ctx, pause-quiet) {
				pause = min(2*pause, longest)
			} else {
				return
			}
		}
		switch err := a.report(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			a.back("report", "reports are taken again")
			due, retry = a.o.Heartbeat, a.o.Rest
		default:
			a.away("report", "the report could not be pushed, it is tried again", err)
			due = retry
			retry = min(2*retry, a.o.Heartbeat)
		}
	}
}

// rest waits; false means that ctx ended.
func (a *Agent) rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := a.o.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// report pushes what is known of the member. Before it was looked at there is nothing to say.
func (a *Agent) report(ctx context.Context) error {
	a.mu.Lock()
	a.tried = a.o.Clock.Now()
	head, delivery, trouble := a.head, a.delivery, a.trouble
	a.mu.Unlock()
	seen, ok := a.o.Fleet.Observe().Members[a.o.Member]
	if !ok {
		return nil
	}
	r := reportOf(a.o.Member, seen, nil)
	if delivery != nil {
		r = reportOf(a.o.Member, seen, delivery.desired.Retired)
	}
	r.State, r.Version, r.Time = head, a.o.Version, a.o.Clock.Now().UTC().Truncate(time.Second)
	if trouble != "" {
		r.Message = cut(strings.TrimPrefix(r.Message+"; "+trouble, "; "))
	}
	files, err := r.encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	subject := fmt.Sprintf("report(%s): ready %s, %d objects", a.o.Member, r.Ready, len(r.Copies))
	if _, err := a.o.Poster.Post(ctx, files, subject, r.Time); err != nil {
		return err
	}
	a.mu.Lock()
	a.reported = a.o.Clock.Now()
	a.mu.Unlock()
	return nil
}
