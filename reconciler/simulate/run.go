package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// Options are how a scenario is run.
type Options struct {
	// Sources by the names that the scenario gives them.
	Sources map[string]gitstate.Snapshot
	Decide  decide.Options
	// Previous is what was decided before, and runs on the members; nil means that nothing was.
	Previous *record.State
	// Only are the bindings that are decided on, as in decide.Input.
	Only map[record.BindingKey]bool
	// Unfiled: nobody reads the branch, so commits have no files. It is not for a scenario that goes back to what was
	// committed.
	Unfiled bool
	// Served are templates of the kinds that members serve who do not say so themselves; nil means that a decision
	// before the first tells.
	Served []api.ID
	// Stop is asked before each pass; an error ends the scenario. Nil means that nobody stops it.
	Stop func() error
	// Memo makes a scenario cheap that is much like the one before; nil means none.
	Memo *decide.Memo
	// Branch is where decisions go; nil means into memory.
	Branch Branch
	// Check verifies the invariants after every step.
	Check bool
	// Report receives each line of the timeline; nil means nobody.
	Report func(Line)
	// decide stands in for decide.Next where tests break a rule; nil means that one.
	decide func(decide.Input) (*decide.Decision, error)
}

// Line is one line of the timeline.
type Line struct {
	// At is the time since the start.
	At   time.Duration
	Time time.Time
	// Commit is empty for what no commit says.
	Commit string
	Reason decide.Reason
	// Binding or Cluster is what it is about.
	Binding, Cluster string
	// From are the clusters that lose replicas or the workload, with what they had; To are all clusters
	// in force then.
	From, To []workv1alpha2.TargetCluster
	// Causes made it leave clusters; nil for what is no failover.
	Causes  []failover.Cause
	Message string
}

// Result is how a scenario ends.
type Result struct {
	State *record.State
	// Last is the last pass.
	Last  *decide.Decision
	Lines []Line
	// Commits are the names of what is on the branch, oldest first.
	Commits []string
}

// Violation is an invariant that does not hold.
type Violation struct {
	// Invariant is its number in the package's documentation.
	Invariant int
	At        time.Duration
	Text      string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %d is broken at %s: %s", v.Invariant, v.At, v.Text)
}

// ErrNoSource says that a scenario names a source that Options does not have.
var ErrNoSource = errors.New("is not among the sources")

// Run plays a scenario. The error is a *Violation where an invariant broke; the result then is what
// there was until then.
func Run(s *Scenario, o Options) (*Result, error) {
	r := &runner{Scenario: s, Options: o, start: s.Begin(), result: &Result{}, memo: decide.NewMemo(), past: map[string]fs.FS{}, state: record.New()}
	if r.Branch == nil {
		r.Branch = NewMemory()
	}
	if r.decide == nil {
		r.decide = decide.Next
	}
	if o.Memo != nil {
		r.memo = o.Memo
	}
	r.now = r.start
	r.fleet = fleet{members: map[string]*member{}, startup: s.Members.Startup}
	if o.Previous != nil {
		r.state = o.Previous
		if err := r.fleet.restore(o.Previous, r.start); err != nil {
			return nil, err
		}
	}
	r.check = newChecker(r)
	if err := r.push(s.Source); err != nil {
		return nil, err
	}
	err := r.play()
	r.result.State = r.state
	return r.result, err
}

// runner is a scenario being played.
type runner struct {
	*Scenario
	Options
	start, now time.Time
	source     gitstate.Snapshot
	past       map[string]fs.FS
	state      *record.State
	memo       *decide.Memo
	fleet      fleet
	log        []Commit
	// edited and dropped are what people's commits since the last of ours did.
	edited  map[record.BindingKey]time.Time
	dropped map[string]record.Work
	// gitUp is when the Git server is back; waiting is what is pushed then.
	gitUp   time.Time
	waiting []string
	check   *checker
	result  *Result
}

// push makes the named source the newest.
func (r *runner) push(name string) error {
	snapshot, ok := r.Options.Sources[name]
	if !ok {
		return fmt.Errorf("source %s %w", name, ErrNoSource)
	}
	r.source = snapshot
	r.past[string(snapshot.Revision)] = snapshot.FS
	return nil
}

// most bounds the steps of a scenario: one that decides on and on at one instant would never end.
const most = 1_000_000

func (r *runner) play() error {
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	end := r.start.Add(r.Until)
	// A reconciler that starts waits for its members before it decides.
	if r.Served == nil {
		first, err := r.decide(r.input())
		if err != nil {
			return err
		}
		r.meet(first)
	} else {
		r.fleet.learn(r.Served)
	}
	if r.Memo == nil {
		r.memo = decide.NewMemo()
	}
	for step := 0; ; step++ {
		if step == most {
			return fmt.Errorf("no end after %d steps, at %s", most, r.at())
		}
		if r.Stop != nil {
			if err := r.Stop(); err != nil {
				return err
			}
		}
		for len(events) > 0 && !r.start.Add(events[0].At).After(r.now) {
			if err := r.happen(events[0]); err != nil {
				return err
			}
			events = events[1:]
		}
		if err := r.meetGit(); err != nil {
			return err
		}
		wake, changed, err := r.pass()
		if err != nil {
			return err
		}
		next := time.Time{}
		soonest := func(t time.Time) {
			if t.After(r.now) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
		if len(events) > 0 {
			soonest(r.start.Add(events[0].At))
		}
		soonest(r.gitUp)
		soonest(r.fleet.due(r.now))
		if !wake.IsZero() && !wake.After(r.now) {
			changed = true // it asks to be called again at once; passes are a second apart
		}
		soonest(wake)
		if changed {
			soonest(r.now.Add(time.Second))
		}
		if next.IsZero() || next.After(end) {
			r.now = end
			return nil
		}
		r.fleet.ripen(r.now, next)
		r.now = next
	}
}

func (r *runner) at() time.Duration { return r.now.Sub(r.start) }

// happen carries out an event.
func (r *runner) happen(e Event) error {
	m := r.fleet.members[e.Cluster]
	if e.Cluster != "" && m == nil {
		return fmt.Errorf("line %d: cluster %s is not registered in the source at %s", e.line, e.Cluster, e.At)
	}
	switch {
	case e.Ready != "":
		if ready := metav1.ConditionStatus(e.Ready); m.ready != ready {
			m.ready, m.since, m.facts = ready, r.now, nil
		}
		r.tell(Line{Cluster: e.Cluster, Message: "is made " + e.Ready})
	case e.Workload != nil:
		m.set, m.facts = append(slices.Clone(m.set), e), nil
		r.tell(Line{Cluster: e.Cluster, Message: fmt.Sprintf("%s %s is made %s", e.Workload.Kind, e.Workload.Name, cmp.Or(e.Health, "to report a status"))})
	case e.Restart:
		r.tell(Line{Message: "the reconciler restarts"})
		return r.restart()
	case e.Source != "":
		r.tell(Line{Message: "push of " + e.Source})
		if r.now.Before(r.gitUp) {
			r.waiting = append(r.waiting, e.Source)
			return nil
		}
		return r.push(e.Source)
	case e.GitDown != 0:
		r.tell(Line{Message: fmt.Sprintf("the Git server is down for %s", e.GitDown)})
		r.gitUp = r.now.Add(e.GitDown)
	case e.Revert != "":
		return r.revert(e)
	}
	return nil
}

// meetGit brings both sides up to date when the Git server is back.
func (r *runner) meetGit() error {
	if r.now.Before(r.gitUp) {
		return nil
	}
	for _, name := range r.waiting {
		if err := r.push(name); err != nil {
			return err
		}
	}
	r.waiting = nil
	return r.Branch.Push()
}

// restart forgets everything that is not on the branch.
func (r *runner) restart() error {
	state, err := r.readBack()
	if err != nil {
		return err
	}
	r.state, r.memo = state, decide.NewMemo()
	return nil
}

func (r *runner) readBack() (*record.State, error) {
	tree, err := r.Branch.Tree()
	if err != nil {
		return nil, err
	}
	state, problems, err := record.Decode(tree)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &Violation{6, r.at(), fmt.Sprintf("the branch does not read back: %v", problems[0])}
	}
	return state, nil
}

// revert is a person's.
func (r *runner) revert(e Event) error {
	i := len(r.log) - 1
	for ; i >= 0; i-- {
		c := r.log[i]
		verb, _, _ := strings.Cut(c.Subject, "(")
		if !c.person && (e.Revert == "last" && !c.status || verb == e.Revert) {
			break
		}
	}
	if i < 0 {
		r.tell(Line{Message: fmt.Sprintf("there is no commit to revert (%s)", e.Revert)})
		return nil
	}
	before := r.state
	c := reverse(r.log[i], r.now)
	if err := r.commit(&c); err != nil {
		return err
	}
	state, err := r.readBack()
	if err != nil {
		return err
	}
	r.state = state
	r.dropped, r.edited = before.Without(state), state.Edited(before, r.now)
	r.check.reverted(r.edited)
	r.tell(Line{Commit: c.id, Reason: decide.Operator, Message: "a person reverts " + r.log[i].Subject})
	return nil
}

func (r *runner) commit(c *Commit) error {
	tree, err := r.Branch.Tree()
	if err != nil {
		return err
	}
	c.before = make(map[string][]byte, len(c.Files))
	for _, f := range c.Files {
		c.before[f.Path] = content(tree, f.Path)
	}
	if c.id, err = r.Branch.Commit(*c); err != nil {
		return err
	}
	r.log = append(r.log, *c)
	r.result.Commits = append(r.result.Commits, c.id)
	return nil
}

func (r *runner) input() decide.Input {
	return decide.Input{
		Source: r.source, Past: r.past, Previous: r.state, Dropped: r.dropped, Edited: r.edited,
		Only: r.Only, Unfiled: r.Unfiled, Seen: r.fleet.observe(r.now), Now: r.now, Options: r.Decide, Memo: r.memo,
	}
}

// pass is one of the reconciler: decide, commit, push, act.
func (r *runner) pass() (wake time.Time, changed bool, err error) {
	in := r.input()
	d, err := r.decide(in)
	if err != nil {
		return wake, false, err
	}
	if r.Check {
		if err := r.check.decided(in, d); err != nil {
			return wake, false, err
		}
	}
	if d.Commit != nil {
		c := Commit{
			Subject: d.Commit.Subject, Body: d.Commit.Body, Reason: d.Commit.Reason, Source: d.Commit.Source, Time: d.Commit.Time,
			Version: d.Commit.Version, Files: d.Commit.Files, status: d.Commit.StatusAlone,
		}
		if err := r.commit(&c); err != nil {
			return wake, false, err
		}
		if !r.now.Before(r.gitUp) {
			if err := r.Branch.Push(); err != nil {
				return wake, false, err
			}
		}
		r.dropped, r.edited = nil, nil
		r.timeline(d, c.id)
	}
	r.state, r.result.Last = d.Next, d
	met := r.meet(d)
	changed, err = r.fleet.act(d, r.now)
	if err != nil {
		return wake, false, err
	}
	if r.Check {
		if err := r.check.acted(in, d); err != nil {
			return wake, false, err
		}
	}
	return d.Wake, changed || met, nil
}

// meet takes over what a decision tells of members and kinds that were not there before.
func (r *runner) meet(d *decide.Decision) bool {
	met, learnt := r.fleet.meet(d.Next, r.start), r.fleet.learn(templatesOf(d))
	return met || learnt
}

func templatesOf(d *decide.Decision) []api.ID {
	templates := make([]api.ID, 0, len(d.Bindings)+len(d.Unbound))
	for _, b := range d.Bindings {
		templates = append(templates, b.Template)
	}
	for _, u := range d.Unbound {
		templates = append(templates, u.Template)
	}
	return templates
}

// tell adds a line to the timeline.
func (r *runner) tell(l Line) {
	l.At, l.Time = r.at(), r.now
	r.result.Lines = append(r.result.Lines, l)
	if r.Report != nil {
		r.Report(l)
	}
}

// timeline tells what a pass decided.
func (r *runner) timeline(d *decide.Decision, commit string) {
	if d.Commit.StatusAlone {
		return
	}
	for _, e := range d.Commit.Events {
		l := Line{Commit: commit, Reason: e.Reason, Message: e.Verb + ": " + e.What}
		if e.Why != "" {
			l.Message += "; " + e.Why
		}
		switch {
		case e.Binding != nil:
			l.Binding = e.Binding.Key.String()
			l.From, l.To = decide.Lost(e.Binding.Previous, e.Binding.Clusters), e.Binding.Clusters
			if e.Verb == decide.VerbFailover {
				l.Causes = e.Binding.Evicted
			}
		default:
			l.Cluster = e.Object
		}
		r.tell(l)
	}
}
