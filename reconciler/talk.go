package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/store"
)

// answerTime is how long a pass of the loop waits for a Git remote. Then it goes on with what it has, and what the
// remote says is for a later pass: one that takes connections and answers nothing delays no failover by more than that.
const answerTime = 3 * time.Second

// exchange is talk with a Git remote. It ends when the remote has answered, and when it takes too long for package
// remote, which is minutes.
type exchange[T any] struct {
	done    chan struct{} // closed when it is over
	stop    context.CancelFunc
	said    T    // once it is over
	late    bool // a pass went on without it
	commits int  // how many we had made when it began
}

// begin talks beside the passes; quiet ends it.
func begin[T any](ctx context.Context, r *Reconciler, talk func(context.Context) T) *exchange[T] {
	ctx, stop := context.WithCancel(ctx)
	x := &exchange[T]{done: make(chan struct{}), stop: stop, commits: r.commits}
	go func() { defer close(x.done); defer stop(); x.said = talk(ctx) }()
	return x
}

// over waits until it is, as long as that takes if it is needed. False means that it goes on.
func (x *exchange[T]) over(r *Reconciler, needed bool) bool {
	if needed || !r.hurried {
		<-x.done
		return true
	}
	if !x.late {
		t := r.Clock.NewTimer(answerTime)
		defer t.Stop()
		select {
		case <-x.done:
		case <-t.C():
			x.late = true
		}
	}
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// heard receives when it is over; a nil exchange never is.
func (x *exchange[T]) heard() <-chan struct{} {
	if x == nil {
		return nil
	}
	return x.done
}

func (x *exchange[T]) end() {
	if x != nil {
		x.stop()
		<-x.done
	}
}

// quiet ends all talk, and forgets what it was about: it has to be asked again.
func (r *Reconciler) quiet() {
	r.reading.end()
	r.pushing.end()
	r.reading, r.pushing = nil, nil
	r.reload, r.refetch = true, true
}

// reading is what was read of state branch and source; of each only if it was asked for.
type reading struct {
	load, fetch bool
	tree        store.Tree
	failed      error // of the state branch, and then nothing was read of the source
	snapshot    gitstate.Snapshot
	away        error // of the source
	at          time.Time
}

// read brings state and source up to date, in this order: what a person says on the state branch, such as an approval,
// is about a source that was there before. A source that cannot be read leaves the last one in force.
func (r *Reconciler) read(ctx context.Context) error {
	r.doing(Talking)
	for {
		switch {
		case r.reading != nil:
		case r.reload || r.refetch || r.state == nil:
			r.reading = r.ask(ctx)
		default:
			return nil
		}
		x := r.reading
		if !x.over(r, false) {
			if r.remember(ctx) {
				return nil
			}
			<-x.done // nothing can be decided without it
		}
		r.reading = nil
		if err := r.hear(ctx, x); err != nil || !x.late {
			return err
		}
	}
}

// catchUp takes the clone as it is by now, where the remote is still being asked: what somebody else committed may be there
// before the answer is, and then nothing can be committed on what was there before.
func (r *Reconciler) catchUp(ctx context.Context) error {
	if r.reading == nil {
		return nil
	}
	tree, err := r.Store.Local(ctx)
	if err != nil || tree.Head == r.tree.Head {
		return err
	}
	return r.loaded(ctx, tree)
}

// remember makes do with what the clones have where nothing was read yet. False means that it is not enough.
func (r *Reconciler) remember(ctx context.Context) bool {
	if r.state == nil {
		tree, err := r.Store.Local(ctx)
		if err != nil || tree.Head == "" || r.loaded(ctx, tree) != nil {
			return false
		}
	}
	return r.snapshot.FS != nil || r.recall(ctx)
}

// ask begins to read what is to be read.
func (r *Reconciler) ask(ctx context.Context) *exchange[reading] {
	said := reading{load: r.reload || r.state == nil, fetch: r.refetch}
	r.reload, r.refetch = false, false
	state, source := r.Store, r.Source
	return begin(ctx, r, func(ctx context.Context) reading {
		if said.load {
			if said.tree, said.failed = state.Load(ctx); said.failed != nil {
				return said
			}
		}
		if said.fetch {
			said.snapshot, said.away = source.Fetch(ctx)
			said.at = r.Clock.Now()
		}
		return said
	})
}

// hear takes what was read.
func (r *Reconciler) hear(ctx context.Context, x *exchange[reading]) error {
	said := x.said
	if said.load && said.failed == nil && x.commits != r.commits {
		r.reload = true // it does not have what we committed meanwhile
	} else if said.load {
		if said.failed != nil {
			said.failed = fmt.Errorf("read the state branch: %w", said.failed)
		} else {
			said.failed = r.loaded(ctx, said.tree)
		}
		if said.failed != nil {
			r.reload, r.refetch = true, r.refetch || said.fetch
			return said.failed
		}
	}
	if !said.fetch {
		return nil
	}
	err := said.away
	if err == nil {
		err = r.enter(ctx, said.snapshot)
	}
	if err == nil {
		r.fetched = said.at
		r.ready.Store(true)
		r.back("source", "the source can be read again")
		return nil
	}
	r.refetch = true
	if r.snapshot.FS == nil {
		return fmt.Errorf("read the source: %w", err)
	}
	r.away("source", "the source cannot be read, the last commit stays in force", "source", r.snapshot.Revision, "error", err)
	return nil
}

// push sends what is not on the remote yet. Without RequirePush only a lost race is an error.
func (r *Reconciler) push(ctx context.Context) error {
	if r.pushing == nil {
		if r.unpushed == 0 || r.Clock.Now().Before(r.retryAt) {
			return r.held()
		}
		r.pushing = begin(ctx, r, r.Store.Push)
	}
	x := r.pushing
	if !x.over(r, r.RequirePush) {
		return r.held()
	}
	r.pushing = nil
	switch {
	case x.said == nil:
		r.unpushed, r.retryAt = min(r.unpushed, r.commits-x.commits), time.Time{} // what came later is for the next one
		r.back("push", "what was decided meanwhile is pushed")
		return r.held()
	case errors.Is(x.said, gitstate.ErrConflict):
		return x.said
	}
	r.failures++
	r.retryAt = r.Clock.Now().Add(pushRetry)
	r.away("push", "the decision could not be pushed, it is kept and pushed later", "error", x.said)
	return r.held()
}

// pushRetry is how often a push that failed is tried again.
const pushRetry = 5 * time.Second

var errNotPushed = errors.New("the decision is not on the remote yet, and state.requirePush is set")

func (r *Reconciler) held() error {
	if r.unpushed > 0 && r.RequirePush {
		return errNotPushed
	}
	return nil
}
