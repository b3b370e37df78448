package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/work"
)

// serving is what a replica that does not lead carries out.
type serving struct {
	head    gitstate.Revision      // in force here; empty if none is
	telling int64                  // of that
	whole   bool                   // nothing of it is missing
	serves  map[string]Desired     // by it
	works   map[string]record.Work // rendered, by path; those of earlier heads as long as they are wanted
	rules   *interpret.Interpreter // that members keep by, of the newest source that could be read
	memo    *decide.Memo
	missing map[string]bool // said already, by path
}

// serve brings the head that the leader told in force on the members that are ours. What cannot be had now is tried again
// at the next call; until then what was in force stays so.
func (r *Reconciler) serve(ctx context.Context) {
	s := &r.serving
	head, telling := r.Shards.Told()
	if head == "" {
		return
	}
	if head == s.head && s.whole {
		if telling > s.telling { // another one was told in between, that was not to be had
			s.telling = telling
			r.behind.Store(nil)
			r.back("head", "what the leader decided can be read again")
			r.Shards.Serve(head, s.serves)
		}
		return
	}
	r.doing(Talking)
	defer r.doing(Waiting)
	tree, err := r.reach(ctx, head, telling)
	var state *record.State
	if err == nil {
		state, err = r.decode(ctx, tree)
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, errOlder):
		return
	case err != nil:
		if now := r.Clock.Now(); r.behind.Load() == nil {
			r.behind.Store(&now)
		}
		r.away("head", "what the leader decided cannot be read, what was decided before stays in force", "commit", head, "error", err)
		return
	}
	r.behind.Store(nil)
	r.back("head", "what the leader decided can be read again")
	r.doing(Deciding)
	served, whole, spared := r.rendered(ctx, state)
	if s.head != head {
		r.Log.Info("carrying out what the leader decided", "commit", head)
	}
	s.head, s.telling, s.whole, s.serves = head, telling, whole, desired(served, spared, s.rules)
	r.Shards.Serve(head, s.serves)
}

// Behind is for how long what the leader decided could not be read here; 0 where it can. It may be called by anybody at
// any time.
func (r *Reconciler) Behind() time.Duration {
	if since := r.behind.Load(); since != nil {
		return r.Clock.Since(*since)
	}
	return 0
}

// errOlder says that what is in force comes after a commit, and that the leader did not go back to it since.
var errOlder = errors.New("what is in force comes after it")

// errUnknownHead says that a commit is not in the history that can be trusted and is here.
var errUnknownHead = errors.New("neither the remote nor what the leader kept has it")

// reach finds a head: in the clone, on the remote, or in what the leader keeps while the remote is away. One that comes
// before what is in force counts if it was told later, as where a Git server got a backup of its branches back.
func (r *Reconciler) reach(ctx context.Context, head gitstate.Revision, telling int64) (store.Tree, error) {
	if r.serving.head != "" && r.serving.head != head && telling <= r.serving.telling {
		if older, err := r.inHistory(ctx, r.serving.head, head); err == nil && older {
			return store.Tree{}, errOlder
		}
	}
	if r.tree.Head == "" { // nobody has looked yet
		if err := r.learn(ctx); err != nil {
			return store.Tree{}, err
		}
	}
	for _, bring := range []func(context.Context) error{func(context.Context) error { return nil }, r.learn, r.takeKept} {
		if err := bring(ctx); err != nil {
			return store.Tree{}, err
		}
		found, err := r.inHistory(ctx, r.tree.Head, head)
		switch {
		case err != nil:
			return store.Tree{}, err
		case found:
			return r.Store.At(ctx, string(head))
		}
	}
	return store.Tree{}, errUnknownHead
}

// inHistory tells whether a commit is among the last ones of a history.
func (r *Reconciler) inHistory(ctx context.Context, from, commit gitstate.Revision) (bool, error) {
	if from == "" {
		return false, nil
	}
	n := 0
	for c, err := range r.Store.Log(ctx, from) {
		if err != nil {
			return false, err
		}
		if c.Revision == commit {
			return true, nil
		}
		if n++; n > historyDepth {
			break
		}
	}
	return false, nil
}

// learn brings the clone up to date.
func (r *Reconciler) learn(ctx context.Context) error {
	tree, err := r.Store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the state branch: %w", err)
	}
	r.tell(tree)
	r.tree = tree
	return nil
}

// takeKept takes in what the leader keeps. If we lead one day, takeOver decides what of it counts.
func (r *Reconciler) takeKept(ctx context.Context) error {
	if r.Keeper == nil {
		return nil
	}
	kept, _, err := r.Keeper.Kept(ctx)
	if err == nil && kept.Head != "" {
		err = r.Store.Restore(ctx, kept)
	}
	if err != nil {
		return err
	}
	return r.learn(ctx)
}

// rendered is a state with the objects of its works. The record has all of them, but for the values of Secrets: those are
// rendered again from the source that was in force, and count where they give what is on record, byte by byte. whole tells
// whether none is missing, and spared names the deletions that wait.
func (r *Reconciler) rendered(ctx context.Context, state *record.State) (_ *record.State, whole bool, spared map[string]bool) {
	s := &r.serving
	again, err := r.repeat(ctx, state)
	if err != nil {
		r.away("render", "the source that was decided on cannot be read: values of Secrets that changed are missing", "source", state.Meta.Source.Commit, "error", err)
	} else {
		r.back("render", "the source that was decided on can be read")
		s.rules = again.Rules
	}
	if s.rules == nil {
		s.rules = &interpret.Interpreter{}
	}
	works := make(map[string]record.Work, len(state.Works))
	whole = err == nil
	for path, w := range state.Works {
		known := s.works[path]
		if again != nil {
			if fresh, ok := again.Next.Works[path]; ok && fresh.Hash == w.Hash && fresh.Object != nil {
				known = fresh
			}
		}
		if known.Object == nil || known.Hash != w.Hash {
			read, err := record.Identify(w)
			if err == nil && work.IsSecret(read.ID) && !readOnly(state.Members[w.Member]) {
				err = errors.New("the values of the Secret are not what was decided")
				whole = false
			}
			if err != nil {
				r.lacks(path, err)
				continue
			}
			known = read
		}
		delete(s.missing, path)
		works[path] = decide.Terms(known, state.Bindings[record.BindingOf(known.ID)])
	}
	s.works = works
	served := *state
	served.Works = works
	spared = map[string]bool{}
	for path, entry := range state.Retired {
		if entry.Spared {
			spared[path] = true
		}
	}
	return &served, whole, spared
}

// lacks tells that a work is left alone, once.
func (r *Reconciler) lacks(path string, err error) {
	s := &r.serving
	if s.missing == nil {
		s.missing = map[string]bool{}
	}
	if !s.missing[path] {
		s.missing[path] = true
		r.Log.Warn("an object is left as it is on the member", "file", path, "error", err)
	}
}

// repeat makes the decision that a state is the outcome of once more. Nothing comes of it but the works with all they have.
func (r *Reconciler) repeat(ctx context.Context, state *record.State) (*decide.Decision, error) {
	if state.Meta.Source.Commit == "" {
		return nil, errors.New("the record does not say which")
	}
	snapshot, err := r.Source.At(ctx, state.Meta.Source.Commit)
	if err != nil {
		return nil, err
	}
	if r.serving.memo == nil {
		r.serving.memo = decide.NewMemo()
	}
	in := decide.Repeat(decide.Input{
		Source: snapshot, Past: r.past(ctx, state, snapshot), Now: state.Meta.PassTime.Time, Options: r.Options, Unfiled: true,
	}, state, state)
	in.Memo = r.serving.memo
	return decide.Next(in)
}
