package remote

import (
	"context"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// Tracked is a remote that has a branch also where it only has it as it last was at its own origin: a person's
// clone, most often. It is read-only.
type Tracked struct {
	*Remote
	branch, origin string // full names of refs
	used           bool
}

// Tracking returns r with a branch, named without refs/heads/, taken from refs/remotes/origin/ where r has none. In a
// repository of this machine the full hash of a commit may stand for a branch; it cannot be fetched.
func Tracking(r *Remote, branch string) *Tracked {
	return &Tracked{Remote: r, branch: "refs/heads/" + branch, origin: "refs/remotes/origin/" + branch}
}

// Used tells whether Refs gave out what was tracked.
func (t *Tracked) Used() bool { return t.used }

// Refs has the tracked branch under the name of the own one.
func (t *Tracked) Refs(ctx context.Context) (map[string]plumbing.Hash, error) {
	refs, err := t.Remote.Refs(ctx)
	if err != nil {
		return nil, err
	}
	at, tracked := refs[t.origin]
	if t.used = tracked && refs[t.branch].IsZero(); t.used {
		refs[t.branch] = at
	}
	if name := strings.TrimPrefix(t.branch, "refs/heads/"); refs[t.branch].IsZero() && plumbing.IsHash(name) && t.Local() != "" {
		refs[t.branch] = plumbing.NewHash(name)
	}
	return refs, nil
}

// Fetch fetches what Refs has.
func (t *Tracked) Fetch(ctx context.Context, repoDir string, refs map[string]string) error {
	if into, ok := refs[t.branch]; ok && t.used {
		refs = map[string]string{t.origin: into}
	}
	return t.Remote.Fetch(ctx, repoDir, refs)
}

// Push is refused.
func (t *Tracked) Push(context.Context, string, plumbing.Hash, plumbing.Hash, io.Reader) error {
	return t.fail("push to", ErrRefused)
}
