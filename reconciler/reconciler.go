package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// Source reads what people push.
type Source interface {
	// Fetch returns the newest snapshot.
	Fetch(ctx context.Context) (gitstate.Snapshot, error)
	// At returns the snapshot of an earlier revision.
	At(ctx context.Context, rev string) (gitstate.Snapshot, error)
}

// Store is the state branch.
type Store interface {
	Load(ctx context.Context) (store.Tree, error)
	// Local is Load without asking the remote.
	Local(ctx context.Context) (store.Tree, error)
	Commit(ctx context.Context, base gitstate.Revision, changes []store.Change, m store.Message) (gitstate.Revision, error)
	Push(ctx context.Context) error
	At(ctx context.Context, rev string) (store.Tree, error)
	Log(ctx context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error]
	Bundle(ctx context.Context, since gitstate.Revision) (store.Bundle, error)
	Restore(ctx context.Context, b store.Bundle) error
}

// Fleet carries out what is decided and tells what it sees.
type Fleet interface {
	// Set replaces what every member should hold; it never blocks.
	Set(desired map[string]Desired)
	// Observe returns the facts as of now.
	Observe() decide.Observations
	// Changed receives after Observe may give something new.
	Changed() <-chan struct{}
}

// Registry tells which members a management cluster names.
type Registry interface {
	// Registrations are those known as of now: the same ones until Changed receives.
	Registrations() *decide.Registrations
	// Changed receives after Registrations may give something new.
	Changed() <-chan struct{}
}

// Webhooks ask interpreter webhooks what a decision has left open.
type Webhooks interface {
	// Ask replaces what is to be asked by what is due, and keeps the answers that were heard; it never blocks.
	Ask(unanswered []decide.Unanswered, heard []interpret.Key)
	// Answers are those known as of now: the same ones until Changed receives.
	Answers() *decide.Answers
	// Changed receives after Answers may give something new.
	Changed() <-chan struct{}
}

// Shards are the replicas that members are divided over, of which one leads.
type Shards interface {
	// Tell has the others carry out the state at a head, which they can read.
	Tell(head gitstate.Revision)
	// Told is the head that the leader told last; empty while that is not known. Of two tellings the later one has the
	// higher number.
	Told() (head gitstate.Revision, telling int64)
	// Heads receives after Told became another one.
	Heads() <-chan struct{}
	// Serve replaces what members should hold by a head, for those that are ours; it never blocks.
	Serve(head gitstate.Revision, desired map[string]Desired)
}

// Config is what a Reconciler needs.
type Config struct {
	Source  Source
	Store   Store
	Fleet   Fleet
	Clock   clock.WithTicker
	Log     *slog.Logger
	Options decide.Options

	// Gate judges commits of the source before they are in force; nil lets all of them in.
	Gate *Gate
	// Webhooks: nil means that nobody asks them; what they would say is then taken from the record.
	Webhooks Webhooks
	// Registry: nil means that no management cluster is asked; members are those of the source, and on record.
	Registry Registry
	// CutOff says why we know ourselves to be cut off from the world, empty where we do not; nil means
	// that nobody can tell.
	CutOff func() string
	// Shards divide the members over replicas; nil means that who leads serves them all. Fleet is one of its ends then.
	Shards Shards
	// Keeper keeps what is not pushed for the next leader; nil means that there is none.
	Keeper Keeper
	// Reopen closes Store and opens it anew, after its clone turned out to be damaged; nil means that
	// this is not mended while running.
	Reopen func(ctx context.Context) (Store, error)
	// Hints receives when the source or the state branch may have moved.
	Hints <-chan struct{}
	// PollInterval is how often both are looked at without a hint; 0 means 15 s.
	PollInterval time.Duration
	// Coalesce is the shortest time between two passes; 0 means 1 s.
	Coalesce time.Duration
	// Patience is how long the first pass waits for members to answer; 0 means 6 s.
	Patience time.Duration
	// RequirePush holds back acting until the commit is on the remote.
	RequirePush bool
	// AccurateEstimator tells that members have what single nodes have free measured, so that the first pass
	// waits for it where it is not on record.
	AccurateEstimator bool
	// At is called at each step of a pass, by name, for tests that stop the process there; nil means nothing.
	At func(step string)
	// Report receives each pass that went through; nil means nobody. It is called by the goroutine of the passes,
	// so that it must not wait for anything.
	Report func(Progress)
	// Failed receives the error of each pass that did not go through; nil means nobody. The same holds for it.
	Failed func(error)
}

// Progress is a pass that went through.
type Progress struct {
	Decision *decide.Decision
	// Pending is what members do not hold yet as decided.
	Pending []Failure
	// Seen is what the members were seen like.
	Seen decide.Observations
	// Turned: with this pass the source began or ceased to be followed to its newest commit, or another one is kept
	// out; Decision.Refused says which.
	Turned bool
	// Pass counts passes from 1, those included that did not go through, and Took is how long it took.
	Pass int
	Took time.Duration
	// Head is the state branch after the pass, and Unpushed how many of its commits the remote does not have.
	Head     gitstate.Revision
	Unpushed int
	// PushFailures is how many pushes failed since the start.
	PushFailures int
	// Fetched is when the source was last read; zero means that it was not since the start.
	Fetched time.Time
}

// Reconciler is the loop. Run and Once may be called once, from one goroutine.
type Reconciler struct {
	Config
	log  *slog.Logger // Log, which says in addition which pass it is
	memo *decide.Memo
	handover
	serving serving

	snapshot gitstate.Snapshot
	followed string // what the record had in force when snapshot was let in
	refused  *decide.Refusal
	tree     store.Tree
	state    *record.State
	reload   bool // the state branch may have moved
	refetch  bool
	unpushed int       // commits
	fetched  time.Time // the source
	retryAt  time.Time // of the push
	backoff  time.Duration
	passes   int
	commits  int // that we made
	failures int // of pushes

	hurried bool // passes go on without remotes that do not answer
	reading *exchange[reading]
	pushing *exchange[error]

	activity atomic.Pointer[Activity]
	ready    atomic.Bool
	behind   atomic.Pointer[time.Time] // since when what the leader decided cannot be read; nil where it can

	dropped map[string]record.Work          // by people, until the next commit
	edited  map[record.BindingKey]time.Time // likewise

	desired    map[string]Desired
	unanswered []decide.Unanswered // by webhooks, at the last decision
	acted      bool
	spared     map[string]bool        // retired entries that were left out of desired
	rules      *interpret.Interpreter // that the fleet keeps by
	findings   string                 // what was last reported, so that it is said once
	outages    map[string]bool        // likewise
	distrust   string                 // likewise, of the state branch
	keptOut    decide.Refusal         // that was last reported; zero if all is followed
	missing    map[string]bool        // likewise, by commit of the source
}

// New prepares a Reconciler.
func New(c Config) *Reconciler {
	if c.PollInterval == 0 {
		c.PollInterval = 15 * time.Second
	}
	if c.Coalesce == 0 {
		c.Coalesce = time.Second
	}
	if c.Patience == 0 {
		c.Patience = 6 * time.Second
	}
	if c.At == nil {
		c.At = func(string) {}
	}
	return &Reconciler{Config: c, log: c.Log, memo: decide.NewMemo(), reload: true, refetch: true, outages: map[string]bool{}, missing: map[string]bool{}}
}

// ErrNewer says that a newer program wrote the state branch; nothing was touched.
var ErrNewer = record.ErrNewer

// Run passes until ctx ends. It returns nil then, and an error only for what no later pass can mend.
func (r *Reconciler) Run(ctx context.Context) error {
	poll := r.Clock.NewTicker(r.PollInterval)
	defer poll.Stop()
	r.hurried = true
	defer r.quiet()
	for err := r.start(ctx); err != nil; err = r.start(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, record.ErrNewer):
			return err
		}
		r.Log.Error("start", "error", err)
		if wait := r.failed(); !r.recall(ctx) && !r.rest(ctx, wait) {
			return nil
		}
	}
	for {
		started := r.Clock.Now()
		wake, err := r.Pass(ctx)
		r.doing(Waiting)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, record.ErrNewer):
			return err
		case err != nil:
			r.Log.Error("pass", "error", err)
			r.mend(ctx, err)
			wake = r.Clock.Now().Add(r.failed())
		default:
			r.backoff = 0
		}
		if !r.wait(ctx, started, wake, poll.C()) {
			return nil
		}
	}
}

// mend opens a damaged clone anew, which fetches what is missing.
func (r *Reconciler) mend(ctx context.Context, err error) {
	if r.Reopen == nil || !errors.Is(err, pack.ErrDamaged) && !errors.Is(err, pack.ErrMissing) {
		return
	}
	r.quiet() // it would talk of what is closed
	fresh, err := r.Reopen(ctx)
	if err != nil {
		r.Log.Error("open the damaged clone of the state branch anew", "error", err)
		return
	}
	r.Store, r.state = fresh, nil
}

// failed is how long to wait after an error: 1 s, doubling to 30 s.
func (r *Reconciler) failed() time.Duration {
	r.backoff = min(max(time.Second, 2*r.backoff), 30*time.Second)
	r.reload, r.refetch = true, true
	return r.backoff
}

// wait returns true when it is time for another pass and false when ctx ended.
func (r *Reconciler) wait(ctx context.Context, started, wake time.Time, poll <-chan time.Time) bool {
	var timer <-chan time.Time
	if r.unpushed > 0 && r.pushing == nil && (wake.IsZero() || r.retryAt.Before(wake)) {
		wake = r.retryAt
	}
	if !wake.IsZero() {
		t := r.Clock.NewTimer(max(0, wake.Sub(r.Clock.Now())))
		defer t.Stop()
		timer = t.C()
	}
	read, pushed := r.reading.heard(), r.pushing.heard()
	// What comes while the pass is held back is part of it: news of members never stands in the way of a push.
	for over := (<-chan time.Time)(nil); ; {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-timer:
			timer = nil
		case <-poll:
			r.reload, r.refetch = true, true
		case <-r.Hints:
			r.reload, r.refetch = true, true
		case <-read:
			read = nil
		case <-pushed:
			pushed = nil
		case <-r.Fleet.Changed():
		case <-r.answered():
		case <-r.registered():
		}
		if over == nil {
			rest := r.Coalesce - r.Clock.Since(started)
			if rest <= 0 {
				return true
			}
			t := r.Clock.NewTimer(rest)
			defer t.Stop()
			over = t.C()
		}
	}
}

// Pass goes through all steps once. It returns when to pass again even if nothing happens; zero means
// not before something does.
func (r *Reconciler) Pass(ctx context.Context) (wake time.Time, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil && r.Failed != nil {
			r.Failed(err)
		}
	}()
	for attempt := 0; ; attempt++ {
		r.passes++
		r.Log = r.log.With("pass", r.passes)
		wake, err = r.pass(ctx)
		// Losing a race is no failure: decide on what is there now. The bound only guards against a
		// branch that moves faster than we read it.
		if !errors.Is(err, gitstate.ErrConflict) || attempt == 10 {
			return wake, err
		}
		r.Log.Info("the state branch moved, deciding again", "attempt", attempt+1)
		r.reload, r.refetch = true, true
		if err := r.catchUp(ctx); err != nil {
			return time.Time{}, err
		}
	}
}

func (r *Reconciler) pass(ctx context.Context) (time.Time, error) {
	r.At("pass.start")
	started := r.Clock.Now()
	if err := r.read(ctx); err != nil {
		return time.Time{}, err
	}
	r.doing(Deciding)
	decision, seen, err := r.decide(ctx)
	if err != nil {
		return time.Time{}, err
	}
	r.report(decision)
	r.At("pass.decided")
	if err := r.commit(ctx, decision); err != nil {
		return time.Time{}, err
	}
	r.At("pass.committed")
	r.doing(Talking)
	if err := r.push(ctx); err != nil {
		return time.Time{}, err
	}
	r.At("pass.pushed")
	if err := r.keep(ctx); err != nil {
		return time.Time{}, err
	}
	r.At("pass.kept")
	if r.Shards != nil {
		r.Shards.Tell(r.tree.Head)
	}
	r.doing(Deciding)
	r.act(decision)
	r.At("pass.acted")
	if r.Report != nil {
		pending, _ := r.pending()
		r.Report(Progress{
			Decision: decision, Pending: pending, Seen: seen, Turned: r.turned(decision.Refused), Pass: r.passes, Took: r.Clock.Since(started),
			Head: r.tree.Head, Unpushed: r.unpushed, PushFailures: r.failures, Fetched: r.fetched,
		})
	}
	return decision.Wake, nil
}

// turned tells whether what is kept out of the source is another commit than at the last pass.
func (r *Reconciler) turned(refused *decide.Refusal) bool {
	was := r.keptOut
	r.keptOut = decide.Refusal{}
	if refused != nil {
		r.keptOut = *refused
	}
	return r.keptOut.Code != was.Code || r.keptOut.Revision != was.Revision
}

// away warns that something is out of reach, once until it is back.
func (r *Reconciler) away(what, message string, args ...any) {
	if !r.outages[what] {
		r.outages[what] = true
		r.Log.Warn(message, args...)
	}
}

// back says that it is in reach again, if it was not.
func (r *Reconciler) back(what, message string) {
	if r.outages[what] {
		delete(r.outages, what)
		r.Log.Info(message)
	}
}

// recall takes the commit that the state was decided from, if it is known here, in place of a source that
// cannot be read: a process that starts while the remote is away goes on with it.
func (r *Reconciler) recall(ctx context.Context) bool {
	if r.snapshot.FS != nil || r.state == nil && r.load(ctx) != nil {
		return false
	}
	was := r.state.Meta.Source
	if was.Commit == "" || was.URL != r.Options.SourceURL {
		return false
	}
	snapshot, err := r.Source.At(ctx, was.Commit)
	if err != nil {
		return false
	}
	r.Log.Warn("the source cannot be read, the last commit stays in force", "source", was.Commit)
	r.snapshot = snapshot
	r.ready.Store(true)
	return true
}

// load reads the state branch, if it moved.
func (r *Reconciler) load(ctx context.Context) error {
	tree, err := r.Store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the state branch: %w", err)
	}
	r.reload = false
	return r.loaded(ctx, tree)
}

// loaded takes the state branch as it was read.
func (r *Reconciler) loaded(ctx context.Context, tree store.Tree) error {
	if tree.Offline != nil {
		r.away("state", "the remote of the state branch cannot be reached, going on with the local clone", "error", tree.Offline)
	} else {
		r.back("state", "the remote of the state branch can be reached again")
	}
	r.tell(tree)
	r.unpushed = tree.Unpushed
	if r.state == nil || tree.Head != r.tree.Head {
		state, err := r.decode(ctx, tree)
		if err != nil {
			return err
		}
		if r.dropped, r.edited, err = peoplesWork(ctx, r.Store, tree.Head, state, r.Clock.Now()); err != nil {
			return err
		}
		r.state, r.acted = state, false
	}
	r.tree = tree
	return nil
}

// tell logs what is wrong with the signatures of the state branch, once.
func (r *Reconciler) tell(tree store.Tree) {
	now := ""
	if tree.Unverified != nil {
		now = tree.Unverified.Error()
	}
	switch {
	case now != "" && tree.Refused == "":
		r.Log.Warn("the state branch", "error", tree.Unverified)
		now = ""
	case now != "" && now != r.distrust:
		r.Log.Error("the state branch is not followed, going on with the last commit that can be trusted", "refused", tree.Refused, "error", tree.Unverified)
	case now == "" && r.distrust != "":
		r.Log.Info("the state branch is followed again")
	}
	r.distrust = now
}

// History is the past of the state branch.
type History interface {
	At(ctx context.Context, rev string) (store.Tree, error)
	Log(ctx context.Context, from gitstate.Revision) iter.Seq2[store.Commit, error]
}

// peoplesWork is what people's commits at the end of the branch made of the last commit that was ours:
// works that are in neither works/ nor retired/ now, and bindings that are others, with the time of
// the newest of those commits, which is no later than clock.
func peoplesWork(ctx context.Context, h History, head gitstate.Revision, now *record.State, clock time.Time) (map[string]record.Work, map[record.BindingKey]time.Time, error) {
	if head == "" {
		return nil, nil, nil
	}
	depth := 0
	var last time.Time
	for commit, err := range h.Log(ctx, head) {
		if err != nil {
			return nil, nil, fmt.Errorf("read the history of the state branch: %w", err)
		}
		ours := Ours(commit)
		if ours && depth == 0 {
			return nil, nil, nil
		}
		if depth == 0 {
			last = commit.When
		}
		if depth++; !ours && depth < historyDepth {
			continue
		}
		tree, err := h.At(ctx, string(commit.Revision))
		if err != nil {
			return nil, nil, fmt.Errorf("read commit %s of the state branch: %w", commit.Revision, err)
		}
		before, _, err := record.Decode(tree.FS)
		if err != nil {
			return nil, nil, err
		}
		if last.After(clock) {
			last = clock // a clock that is ahead holds up no failover
		}
		return before.Without(now), now.Edited(before, last), nil
	}
	return nil, nil, nil
}

// Ours tells whether a reconciler made a commit of the state branch.
func Ours(c store.Commit) bool {
	return slices.ContainsFunc(c.Trailers, func(t store.Trailer) bool { return t.Key == trailerVersion })
}

// trailerVersion is on every commit that a reconciler makes.
const trailerVersion = "Godwit-Version"

// decode reads the tree. What does not decode in it stays as it last did.
func (r *Reconciler) decode(ctx context.Context, tree store.Tree) (*record.State, error) {
	state, problems, err := record.Decode(tree.FS)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		if errors.Is(problem, record.ErrNewer) {
			return nil, fmt.Errorf("the state branch: %w; use that version, nothing was touched", problem)
		}
		r.Log.Warn("a file of the state branch cannot be used, the last version that can stays in force", "file", problem.Path, "error", problem.Err)
	}
	if len(problems) > 0 {
		record.Restore(state, problems, r.earlier(ctx, tree.Head))
	}
	return state, nil
}

// historyDepth bounds how far back an earlier version of a file is looked for.
const historyDepth = 100

// earlier yields the states before head, newest first: the one in memory, then the branch's past.
func (r *Reconciler) earlier(ctx context.Context, head gitstate.Revision) func(yield func(*record.State) bool) {
	return func(yield func(*record.State) bool) {
		if r.state != nil && !yield(r.state) {
			return
		}
		for i := 1; i <= historyDepth; i++ {
			tree, err := r.Store.At(ctx, fmt.Sprintf("%s~%d", head, i))
			if err != nil {
				return
			}
			state, _, err := record.Decode(tree.FS)
			if err != nil || !yield(state) {
				return
			}
		}
	}
}

// decide decides, and has webhooks asked what the decision leaves open. Their answers are for a later pass:
// no webhook holds one up.
func (r *Reconciler) decide(ctx context.Context) (*decide.Decision, decide.Observations, error) {
	seen := r.Fleet.Observe()
	if r.CutOff != nil {
		seen.CutOff = r.CutOff()
	}
	in := decide.Input{
		Source: r.snapshot, Refused: r.refused, Past: r.past(ctx, r.state, r.snapshot), Previous: r.state, Dropped: r.dropped, Edited: r.edited, Seen: seen,
		Now: r.Clock.Now(), Options: r.Options, Memo: r.memo,
	}
	if r.Webhooks != nil {
		in.Answers = r.Webhooks.Answers()
	}
	if r.Registry != nil {
		in.Registered = r.Registry.Registrations()
	}
	d, err := decide.Next(in)
	if err != nil {
		return nil, seen, err
	}
	if r.Webhooks != nil {
		r.Webhooks.Ask(d.Unanswered, d.Heard)
	}
	r.unanswered = d.Unanswered
	return d, seen, nil
}

// answered receives when a webhook answered.
func (r *Reconciler) answered() <-chan struct{} {
	if r.Webhooks == nil {
		return nil
	}
	return r.Webhooks.Changed()
}

// registered receives when the management cluster names other members.
func (r *Reconciler) registered() <-chan struct{} {
	if r.Registry == nil {
		return nil
	}
	return r.Registry.Changed()
}

// past opens the earlier commits that the state refers to. One that cannot be opened is left out,
// and decide then removes nothing on its account.
func (r *Reconciler) past(ctx context.Context, state *record.State, now gitstate.Snapshot) map[string]fs.FS {
	past := map[string]fs.FS{}
	for _, commit := range state.SourceCommits() {
		if commit == string(now.Revision) {
			past[commit] = now.FS
			continue
		}
		snapshot, err := r.Source.At(ctx, commit)
		if err != nil {
			if !r.missing[commit] {
				r.missing[commit] = true
				level := slog.LevelWarn
				if errors.Is(err, gitstate.ErrHistory) {
					level = slog.LevelDebug // a folder never has any
				}
				r.Log.Log(ctx, level, "an earlier commit of the source cannot be read", "source", commit, "error", err)
			}
			continue
		}
		delete(r.missing, commit)
		past[commit] = snapshot.FS
	}
	return past
}

// report logs what is new among findings.
func (r *Reconciler) report(d *decide.Decision) {
	var all string
	for _, f := range d.Findings {
		all += f.String() + "\n"
	}
	if all != r.findings {
		r.findings = all
		for _, f := range d.Findings {
			level := slog.LevelWarn
			switch f.Severity {
			case render.Error:
				level = slog.LevelError
			case render.Info:
				level = slog.LevelInfo
			}
			r.Log.Log(context.Background(), level, f.Message, "code", f.Code, "file", f.File, "line", f.Line, "object", f.Object)
		}
	}
}

// commit writes the decision to the local clone; when it returns, no crash can lose it.
func (r *Reconciler) commit(ctx context.Context, d *decide.Decision) error {
	if d.Commit == nil {
		r.state = d.Next
		return nil
	}
	changes := make([]store.Change, len(d.Commit.Files))
	for i, f := range d.Commit.Files {
		changes[i] = store.Change{Path: f.Path, Data: f.Data}
	}
	head, err := r.Store.Commit(ctx, r.tree.Head, changes, message(d.Commit))
	if err != nil {
		return fmt.Errorf("commit the decision: %w", err)
	}
	r.announce(ctx, d.Commit, head)
	r.tree.Head, r.state, r.dropped, r.edited = head, d.Next, nil, nil
	r.acted = false // on this one; what comes between may fail
	r.unpushed++
	r.commits++
	r.retryAt = time.Time{}
	return nil
}

// announce logs a commit, and what it consists of where more than that is asked for.
func (r *Reconciler) announce(ctx context.Context, c *decide.Commit, head gitstate.Revision) {
	args := []any{"commit", head, "reason", c.Reason, "source", c.Source}
	if len(c.Events) == 1 {
		args = append(args, about(c.Events[0])...)
	}
	r.Log.Log(ctx, loudness(c), c.Subject, args...)
	if len(c.Events) == 1 || !r.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	for _, e := range c.Events {
		r.Log.Debug(e.Verb+": "+e.What, append([]any{"commit", head, "reason", e.Reason}, about(e)...)...)
	}
}

// about is the key of a log line that tells of an event.
func about(e decide.Event) []any {
	switch {
	case e.Binding != nil:
		return []any{"binding", e.Object}
	case slices.Contains([]string{decide.VerbCluster, decide.VerbHold, decide.VerbDelete, "purge"}, e.Verb):
		return []any{"member", e.Object}
	}
	return []any{"object", e.Object}
}

// loudness is that of a commit in the log: what waits for a person, or for better times, is a warning.
func loudness(c *decide.Commit) slog.Level {
	if slices.ContainsFunc(c.Events, func(e decide.Event) bool { return slices.Contains(loud, e.Verb) && e.Reason != decide.Status }) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

var loud = []string{"brake", "blocked", "hold"}

func message(c *decide.Commit) store.Message {
	return store.Message{Subject: c.Subject, Body: c.Body, When: c.Time, Trailers: Trailers(c.Source, c.Reason, c.Time, c.Version)}
}

// Trailers are what machines read of a commit.
func Trailers(source string, reason decide.Reason, now time.Time, version string) []store.Trailer {
	return []store.Trailer{
		{Key: "Godwit-Source", Value: source},
		{Key: "Godwit-Reason", Value: string(reason)},
		{Key: "Godwit-Time", Value: now.UTC().Format(time.RFC3339)},
		{Key: trailerVersion, Value: version},
	}
}
