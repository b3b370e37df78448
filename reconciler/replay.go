package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Recorded is a decision on record with what it was made of.
type Recorded struct {
	Commit store.Commit
	// Input is what was decided on, as far as it is on record; Next is what was recorded.
	Input decide.Input
	Next  *record.State
}

// ErrNotOurs says that a person made the commit, so that it holds no decision.
var ErrNotOurs = errors.New("a person made this commit")

// Recall reads a decision from the state branch. options are today's: they are not on record.
func Recall(ctx context.Context, h History, src Source, commit store.Commit, options decide.Options) (*Recorded, error) {
	if !Ours(commit) {
		return nil, ErrNotOurs
	}
	next, err := stateAt(ctx, h, string(commit.Revision))
	if err != nil {
		return nil, err
	}
	prev := record.New()
	if commit.Parent != "" {
		if prev, err = stateAt(ctx, h, string(commit.Parent)); err != nil {
			return nil, err
		}
	}
	in := decide.Input{Now: commit.When, Options: options, Past: map[string]fs.FS{}}
	rev := next.Meta.Source.Commit
	for _, t := range commit.Trailers {
		switch t.Key {
		case "Godwit-Source":
			rev = t.Value
		case "Godwit-Time":
			if in.Now, err = time.Parse(time.RFC3339, t.Value); err != nil {
				return nil, fmt.Errorf("commit %s: Godwit-Time: %w", commit.Revision, err)
			}
		}
	}
	if in.Source, err = src.At(ctx, rev); err != nil {
		return nil, fmt.Errorf("read the source at %s, which was in force: %w", rev, err)
	}
	for _, held := range prev.SourceCommits() {
		if snapshot, err := src.At(ctx, held); err == nil {
			in.Past[held] = snapshot.FS
		}
	}
	in.Dropped, in.Edited, err = peoplesWork(ctx, h, commit.Parent, prev, in.Now)
	if err != nil {
		return nil, err
	}
	return &Recorded{commit, decide.Repeat(in, prev, next), next}, nil
}

// Replay decides again and names the files that come out otherwise than they are on record, sorted. Without the key
// that tells secret values apart, or those that decrypt them, files that depend on them are left out.
func (r *Recorded) Replay() (*decide.Decision, []string, error) {
	d, err := decide.Next(r.Input)
	if err != nil {
		return nil, nil, err
	}
	differ, err := decide.Differ(d.Next, r.Next)
	if len(r.Input.Options.SecretKey) == 0 || d.Undecrypted {
		differ = slices.DeleteFunc(differ, ofSecret)
	}
	return d, differ, err
}

// ofSecret holds for files that the values of a Secret go into.
func ofSecret(name string) bool {
	if strings.HasPrefix(name, "bindings/") {
		return strings.HasSuffix(name, "-secret.yaml")
	}
	return strings.HasPrefix(path.Base(name), "secret_")
}

// stateAt reads a state of the past as a reconciler that started there would have.
func stateAt(ctx context.Context, h History, rev string) (*record.State, error) {
	tree, err := h.At(ctx, rev)
	if err != nil {
		return nil, err
	}
	state, problems, err := record.Decode(tree.FS)
	if err != nil {
		return nil, fmt.Errorf("state %s: %w", rev, err)
	}
	if len(problems) > 0 {
		record.Restore(state, problems, func(yield func(*record.State) bool) {
			for i := 1; i <= historyDepth; i++ {
				tree, err := h.At(ctx, fmt.Sprintf("%s~%d", rev, i))
				if err != nil {
					return
				}
				earlier, _, err := record.Decode(tree.FS)
				if err != nil || !yield(earlier) {
					return
				}
			}
		})
	}
	return state, nil
}
