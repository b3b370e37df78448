package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// Keeper keeps commits that are not pushed where the next leader finds them.
type Keeper interface {
	// Kept gives what the last leader kept, a bundle of nothing if all was pushed; false means that nobody ever kept
	// anything. It comes before the first Keep.
	Kept(ctx context.Context) (store.Bundle, bool, error)
	// Keep replaces it; what is kept is found once Keep returned without an error.
	Keep(ctx context.Context, b store.Bundle) error
	// Forget says that nothing has to be kept any more: all is pushed up to a head, which Kept gives as the Base of a bundle
	// of nothing.
	Forget(ctx context.Context, pushed gitstate.Revision) error
	// Tidy removes what leaders left that died while they kept something. It comes after Kept.
	Tidy(ctx context.Context) error
}

// handover is what a leader owes the next one. Its rule is that nothing is carried out that the next leader could not
// read: it is on the remote, or kept.
type handover struct {
	took   bool              // what the last leader left
	kept   gitstate.Revision // the head that is kept; empty if nothing is
	told   gitstate.Revision // the head that was last said to be pushed
	pushed []pushed          // heads that the remote had, oldest first
}

type pushed struct {
	head gitstate.Revision
	at   time.Time
}

// Follow keeps the local clones of source and state branch up to date until ctx ends, so that this replica can lead
// at once, and with what it has if the remotes are away by then. It decides nothing. With Shards it carries out what the
// leader decided on the members that are its own.
func (r *Reconciler) Follow(ctx context.Context) {
	poll := r.Clock.NewTicker(r.PollInterval)
	defer poll.Stop()
	var heads <-chan struct{}
	if r.Shards != nil {
		heads = r.Shards.Heads()
	}
	for told := false; ; {
		if !told {
			r.follow(ctx)
		}
		if r.Shards != nil && ctx.Err() == nil {
			r.serve(ctx)
		}
		told = false
		select {
		case <-ctx.Done():
			return
		case <-poll.C():
		case <-r.Hints:
		case <-heads:
			told = true
		}
	}
}

func (r *Reconciler) follow(ctx context.Context) {
	r.doing(Talking)
	defer r.doing(Waiting)
	_, missing := r.Source.Fetch(ctx)
	r.standing(ctx, "source", "the source", missing)
	tree, err := r.Store.Load(ctx)
	if err == nil {
		err = tree.Offline
	}
	r.standing(ctx, "state", "the state branch", err)
	r.tree = tree
	if missing == nil && err == nil {
		r.ready.Store(true)
	}
}

// standing tells what a standby cannot read, once, and that it can be read again.
func (r *Reconciler) standing(ctx context.Context, key, name string, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.away(key, name+" cannot be read", "error", err)
	default:
		r.back(key, name+" can be read again")
	}
}

// start takes over, once, and looks at the members.
func (r *Reconciler) start(ctx context.Context) error {
	if !r.took {
		if err := r.takeOver(ctx); err != nil {
			return err
		}
		r.took = true
		r.behind.Store(nil) // who leads is at the head
	}
	return r.meet(ctx)
}

// takeOver goes on where the last leader stopped. Commits of this clone that are neither pushed nor kept were
// never carried out, and are dropped. Where nobody ever kept anything that is not known, such as after a time without an
// election: they stand then, as they do for one that is alone.
func (r *Reconciler) takeOver(ctx context.Context) error {
	if r.Keeper == nil {
		return nil
	}
	tree, err := r.found(ctx)
	if err != nil {
		return fmt.Errorf("read the state branch: %w", err)
	}
	kept, found, err := r.Keeper.Kept(ctx)
	if err == nil && found {
		err = r.Store.Restore(ctx, kept)
	}
	if err == nil {
		if err := r.Keeper.Tidy(ctx); err != nil { // the next leader may
			r.Log.Debug("what is left of what other leaders kept is not removed", "error", err)
		}
	}
	if err == nil && kept.Head == "" {
		err = r.knows(ctx, kept.Base, tree.Offline)
	}
	switch {
	case err == nil && kept.Head != "":
		r.Log.Info("going on with what the last leader kept", "commit", kept.Head)
	case errors.Is(err, store.ErrBundle) && tree.Offline == nil:
		// The remote has all that it was ever told. What is missing there is decided again.
		r.Log.Error("what the last leader could not push cannot be used, going on with what is on the remote", "error", err)
		if err = r.Store.Restore(ctx, store.Bundle{}); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	r.reload, r.kept = true, kept.Head
	return nil
}

// knows is an error where the last leader pushed a decision that is not here, and the remote cannot be asked for it: members
// have it, and going on with what was before would take it back.
func (r *Reconciler) knows(ctx context.Context, pushed gitstate.Revision, offline error) error {
	if pushed == "" || offline == nil {
		return nil
	}
	tree, err := r.Store.Local(ctx)
	if err != nil {
		return err
	}
	here, err := r.inHistory(ctx, tree.Head, pushed)
	if err == nil && !here {
		err = fmt.Errorf("the last leader decided %s, which is not here, and the remote of the state branch cannot be reached; nothing is decided before that: %w", pushed, offline)
	}
	return err
}

// found is the state branch as the remote has it, or the clone if that does not answer soon.
func (r *Reconciler) found(ctx context.Context) (store.Tree, error) {
	type answer struct {
		tree store.Tree
		err  error
	}
	x := begin(ctx, r, func(ctx context.Context) (a answer) {
		a.tree, a.err = r.Store.Load(ctx)
		return a
	})
	if !x.over(r, false) {
		x.end()
		return r.Store.Local(ctx)
	}
	return x.said.tree, x.said.err
}

// keep makes sure that the next leader finds what is not pushed.
func (r *Reconciler) keep(ctx context.Context) error {
	if r.Keeper == nil {
		return nil
	}
	h := &r.handover
	switch {
	case r.unpushed == 0:
		h.note(r.tree.Head, r.Clock.Now(), 2*r.PollInterval)
		if h.kept == "" && h.told == r.tree.Head {
			return nil
		}
		if err := r.Keeper.Forget(ctx, r.tree.Head); err != nil {
			r.Log.Debug("what is pushed could not be told to the next leader", "error", err)
			return nil // what is still kept does no harm: what the remote has is not made again
		}
		h.kept, h.told = "", r.tree.Head
	case h.kept != r.tree.Head:
		b, err := r.Store.Bundle(ctx, h.since())
		if err != nil {
			return err
		}
		if err := r.Keeper.Keep(ctx, b); err != nil {
			return err
		}
		h.kept = r.tree.Head
	}
	return nil
}

// note remembers a head that the remote has. Standbys look at it every half of margin: those noted before that are
// known to all.
func (h *handover) note(head gitstate.Revision, now time.Time, margin time.Duration) {
	if n := len(h.pushed); n == 0 || h.pushed[n-1].head != head {
		h.pushed = append(h.pushed, pushed{head, now})
	}
	for len(h.pushed) > 1 && now.Sub(h.pushed[1].at) > margin {
		h.pushed = h.pushed[1:]
	}
}

// since is the newest commit that all standbys can be expected to have; empty if that is not known.
func (h *handover) since() gitstate.Revision {
	if len(h.pushed) == 0 {
		return ""
	}
	return h.pushed[0].head
}
