package store

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Load asks the remote where the branch is, fetches what is new there, brings it together with what was committed
// here and not pushed, and returns the result. If the remote does not answer, the tree is that of the clone and
// Tree.Offline says why. An error is one of the clone or of the context. While the remote is waited for, the clone
// can be committed to: the tree is of the moment in which Load returns.
func (s *Store) Load(ctx context.Context) (Tree, error) {
	if err := s.dial(ctx); err != nil {
		return Tree{}, err
	}
	defer s.hangUp()
	var theirs plumbing.Hash
	var offline error
	if s.o.Remote != nil {
		theirs, offline = s.fetch(ctx)
	}
	if err := s.lock(ctx); err != nil {
		return Tree{}, err
	}
	defer s.unlock()
	t, err := s.load(ctx, theirs, offline)
	if err != nil {
		return Tree{}, fmt.Errorf("load the state branch: %w", err)
	}
	return t, nil
}

// Local returns the branch as the clone has it. It asks no remote, and Tree.Offline is ErrNotAsked.
func (s *Store) Local(ctx context.Context) (Tree, error) {
	if err := s.lock(ctx); err != nil {
		return Tree{}, err
	}
	defer s.unlock()
	if err := s.readLocal(); err != nil {
		return Tree{}, fmt.Errorf("load the state branch: %w", err)
	}
	t := s.tree()
	t.Offline = ErrNotAsked
	return t, nil
}

// ErrNotAsked says that the remote was not asked, so that it may be elsewhere.
var ErrNotAsked = errors.New("the remote has not answered yet")

// load brings the branch together with the remote's, unless that is offline.
func (s *Store) load(ctx context.Context, theirs plumbing.Hash, offline error) (t Tree, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	if err := s.readLocal(); err != nil {
		return t, err
	}
	var rewritten plumbing.Hash
	if s.o.Remote != nil && offline == nil {
		if theirs, err = s.admit(ctx, theirs); err != nil {
			return t, err
		}
		s.heard = true
		if rewritten, err = s.meet(theirs); err != nil {
			return t, err
		}
	}
	if err := s.consolidate(); err != nil {
		return t, err
	}
	t = s.tree()
	t.Offline, t.Rewritten = offline, revision(rewritten)
	t.Unverified, t.Refused = s.verdict.problem, revision(s.verdict.refused())
	if t.Refused == "" {
		s.verdict.problem = nil // it was said
	}
	return t, nil
}

// ask returns where the remote's branch is, zero if it has none.
func (s *Store) ask(ctx context.Context) (plumbing.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	refs, err := s.o.Remote.Refs(ctx)
	if errors.Is(err, remote.ErrEmpty) {
		return plumbing.ZeroHash, nil
	}
	return refs[s.names.branch], err
}

// fetch returns where the remote's branch is, and has it here.
func (s *Store) fetch(ctx context.Context) (plumbing.Hash, error) {
	theirs, err := s.ask(ctx)
	if err != nil || theirs.IsZero() || theirs == s.remote || theirs == s.verdict.refused() {
		return theirs, err
	}
	if err := s.o.Remote.Fetch(ctx, s.o.Dir, map[string]string{s.names.branch: s.names.incoming}); err != nil {
		return plumbing.ZeroHash, err
	}
	s.o.At("load.fetched")
	return readRef(s.o.Dir, s.names.incoming) // it may have moved since it was asked for
}

// meet brings the branch together with the remote's. rewritten is the remote's former head if it is no longer in
// the remote's history.
//
// known -> theirs is what the remote did, base -> local is what we did and nobody has yet:
//
//	known is behind theirs            base is where the two histories part
//	known is not (rewound, replaced)  base is known; theirs once a crash interrupted us after our part was moved
//
// First the branch moves, then the tracking ref: until it has, all this is found and done again.
func (s *Store) meet(theirs plumbing.Hash) (rewritten plumbing.Hash, err error) {
	switch {
	case theirs == s.remote && (s.follows || theirs.IsZero()):
		return rewritten, nil
	case theirs.IsZero(): // the branch is gone there: all is unpushed
		s.remote = theirs
		return rewritten, s.setLocal(s.local)
	}
	if err := s.objects.Refresh(); err != nil {
		return rewritten, err
	}
	ours, base, rewritten, err := s.ours(theirs)
	if err != nil {
		return rewritten, err
	}
	target := theirs
	switch {
	case len(ours) == 0:
	case base == theirs:
		target = s.local
	default:
		slices.Reverse(ours)
		if target, err = s.replay(ours, base, theirs); err != nil {
			return rewritten, fmt.Errorf("replay %d unpushed commits on %s: %w", len(ours), theirs, err)
		}
	}
	if target != s.local {
		if err := s.move(target); err != nil {
			return rewritten, err
		}
		s.o.At("load.ref-moved")
	}
	if err := s.track(theirs); err != nil {
		return rewritten, err
	}
	s.o.At("load.tracked")
	return rewritten, s.setLocal(target)
}

// ours returns the commits that only this clone has, newest first, and the one they begin on; see meet.
func (s *Store) ours(theirs plumbing.Hash) (ours []*commit, base, rewritten plumbing.Hash, err error) {
	if s.local.IsZero() {
		return nil, base, rewritten, nil
	}
	seen, met, err := s.reach(theirs, s.remote)
	if err != nil {
		return nil, base, rewritten, err
	}
	if !met {
		rewritten = s.remote
	}
	ours, base, err = s.chain(s.local, func(h plumbing.Hash) bool { return h == s.remote || seen[h] })
	if err != nil || !base.IsZero() || !met {
		return ours, base, rewritten, err
	}
	// The branch was moved back here, by hand: look among all of theirs.
	if seen, _, err = s.reach(theirs, plumbing.ZeroHash); err == nil {
		ours, base, err = s.chain(s.local, func(h plumbing.Hash) bool { return seen[h] })
	}
	return ours, base, rewritten, err
}

// move points the branch elsewhere, if nobody did so before.
func (s *Store) move(to plumbing.Hash) error {
	err := remote.UpdateRef(s.o.Dir, s.names.branch, s.local, to)
	if errors.Is(err, remote.ErrRefMoved) {
		return fmt.Errorf("%w: %w", gitstate.ErrConflict, err)
	}
	return err
}

// track remembers where the remote's branch is.
func (s *Store) track(at plumbing.Hash) error {
	if at != s.tracked {
		if err := remote.UpdateRef(s.o.Dir, s.names.tracking, s.tracked, at); err != nil {
			return err
		}
	}
	s.tracked, s.remote = at, at
	return nil
}

// replay makes our commits, oldest first, again on top of theirs, and returns the last one. What both sides changed
// since base stays as they have it; a commit of which nothing is left is dropped.
func (s *Store) replay(ours []*commit, base, theirs plumbing.Hash) (plumbing.Hash, error) {
	before, err := s.rootOf(base)
	if err != nil {
		return theirs, err
	}
	on, err := s.rootOf(theirs)
	if err != nil {
		return theirs, err
	}
	taken := taken{files: map[string]bool{}, folders: map[string]bool{}}
	if err := diff(before, on, "", taken.note); err != nil {
		return theirs, err
	}
	b := newBuilder(s.objects)
	head := theirs
	for _, c := range ours {
		old, err := s.rootOf(c.parent())
		if err != nil {
			return theirs, err
		}
		new, err := s.rootOf(c.hash)
		if err != nil {
			return theirs, err
		}
		var edits []edit
		if err := diff(old, new, "", func(path string, was, is *node) error {
			switch {
			case is.dir() != nil || was.dir() != nil || taken.has(path):
			case is == nil:
				edits = append(edits, edit{path: path})
			default:
				edits = append(edits, edit{path, is.Entry})
			}
			return nil
		}); err != nil {
			return theirs, err
		}
		sortEdits(edits)
		after, err := b.apply(on, 0, edits)
		if err != nil {
			return theirs, err
		}
		if after.hash == on.hash {
			continue
		}
		again := &commit{tree: after.hash, parents: []plumbing.Hash{head}, author: c.author, committer: c.committer, message: c.message}
		object, err := again.encode(s.o.Sign)
		if err != nil {
			return theirs, err
		}
		b.add(object)
		head, on = object.Hash, after
	}
	if len(b.made) > 0 {
		err = s.save(b.made, s.step("load"))
	}
	return head, err
}

// taken are the paths that the remote's side changed.
type taken struct{ files, folders map[string]bool }

func (t taken) note(name string, old, new *node) error {
	if old.dir() == nil && new.dir() == nil {
		t.files[name] = true
		for dir := path.Dir(name); dir != "." && !t.folders[dir]; dir = path.Dir(dir) {
			t.folders[dir] = true
		}
	}
	return nil
}

// has says whether the remote's side changed that file, has one where this one needs a folder, or a folder where
// this one needs a file.
func (t taken) has(name string) bool {
	if t.folders[name] {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		if t.files[name] {
			return true
		}
	}
	return false
}
