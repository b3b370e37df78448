package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Remote is where the branch is shared; a *remote.Remote is one.
type Remote interface {
	// Refs lists the remote's refs by full name. remote.ErrEmpty is as good as none.
	Refs(ctx context.Context) (map[string]plumbing.Hash, error)
	// Fetch brings remote refs into local ones, wherever those were.
	Fetch(ctx context.Context, repoDir string, refs map[string]string) error
	// Push moves a remote ref from old to new, zero for one that does not exist, or fails. Its error proves nothing.
	Push(ctx context.Context, ref string, old, new plumbing.Hash, pack io.Reader) error
}

// Options say which branch to keep, and where.
type Options struct {
	// Remote is where the branch is shared; nil keeps it in Dir only. One that is an io.Closer is closed with the store.
	Remote Remote
	// Branch is its name without refs/heads/; empty means godwit/state.
	Branch string
	// Dir is the bare clone; it is made if it is missing.
	Dir string
	// Author is author and committer of all commits; the zero value means godwit.
	Author Signature
	// Sign returns an armored signature of a commit; nil means unsigned ones. Its errors fail the commit.
	Sign func(commit []byte) (signature string, err error)
	// Admit judges where the remote's branch went, before that is taken over; nil takes over everything.
	Admit func(ctx context.Context, in Incoming) (Admission, error)
	// PackLimit is the number of packs beyond which small ones are melted; 0 means 50.
	PackLimit int
	// Timeout is how long the remote may take to say where the branch is; 0 means 30 seconds. Transfers may take as
	// long as the context and the remote let them.
	Timeout time.Duration
	// At is told each step that was done, for tests that crash there; nil means nobody is.
	At func(step string)
}

// Store keeps one branch.
type Store struct {
	o       Options
	release func()
	turn    chan struct{} // holds a token while an operation works on the clone
	line    chan struct{} // holds one while an operation talks to the remote; taken before turn
	objects *pack.Objects
	names   refNames

	// What follows belongs to who has the turn.

	local    plumbing.Hash // the branch; zero if there is none
	root     *dir          // its tree
	tracked  plumbing.Hash // the tracking ref on disk
	unpushed int           // commits from remote to local
	follows  bool          // remote is in local's history
	damage   error

	// These change only where both are held, so that either is enough to read them.

	remote  plumbing.Hash // where the remote's branch was when last heard of; zero if it had none
	heard   bool          // the remote has answered since Open
	verdict verdict
}

// refNames are the refs of one branch.
type refNames struct{ branch, tracking, incoming string }

// Tree is the state at one revision.
type Tree struct {
	// Head is the commit, empty if the branch does not exist yet.
	Head gitstate.Revision
	// Remote is where the remote's branch was when it was last heard of, empty if it has none.
	Remote gitstate.Revision
	// Unpushed is the number of commits that the remote does not have.
	Unpushed int
	// FS is the whole tree. It stays as it is and readable until Close.
	FS gitstate.HashFS
	// Offline says why the remote could not be asked; nil means that it was, or that there is none. An offline tree
	// without a Head is not an empty state but an unknown one, and Commit refuses to go on from it.
	Offline error
	// Unverified is what Options.Admit had against commits of the remote that came since the last Load, or ever where
	// Refused is not empty.
	Unverified error
	// Refused is where the remote's branch is, if not all of it was admitted: Head then goes on from the part that was,
	// and nothing is pushed.
	Refused gitstate.Revision
	// Rewritten is the commit the remote's branch was on before somebody rewound or replaced its history; empty if
	// that did not happen since the last Load. What had been pushed and is gone from there is gone from Head.
	Rewritten gitstate.Revision
}

// Open opens the clone, or makes it, and takes its lock: the error is ErrInUse if somebody else has it. It asks no
// remote. Every pack is read once, and everything the branch needs is looked for. If something is missing or wrong
// and there is a remote, all of it is moved into a folder "damaged" in Dir and the next Load fetches it again; see
// Store.Damage. Without a remote the error is pack.ErrDamaged, pack.ErrMissing or remote.ErrDamaged.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if o.Branch == "" {
		o.Branch = "godwit/state"
	}
	if o.Author == (Signature{}) {
		o.Author = Signature{"godwit", "godwit@localhost"}
	}
	if o.PackLimit == 0 {
		o.PackLimit = 50
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.At == nil {
		o.At = func(string) {}
	}
	s := &Store{o: o, turn: make(chan struct{}, 1), line: make(chan struct{}, 1), names: refNames{
		branch:   "refs/heads/" + o.Branch,
		tracking: "refs/remotes/origin/" + o.Branch,
		incoming: "refs/godwit/incoming/" + o.Branch,
	}}
	if err := plumbing.ReferenceName(s.names.branch).Validate(); err != nil {
		return nil, fmt.Errorf("branch %q: %w", o.Branch, err)
	}
	release, first, err := Own(o.Dir, "branch "+o.Branch)
	if err != nil {
		return nil, fmt.Errorf("open the state branch: %w", err)
	}
	s.release = release
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if first { // locks and files that nobody is writing any more
		if err := remote.Recover(o.Dir); err != nil {
			return nil, fmt.Errorf("open the state branch: %w", err)
		}
	}
	err = s.open(ctx)
	if o.Remote != nil && isDamage(err) {
		s.damage = fmt.Errorf("the clone in %s was set aside into its folder %s: %w", o.Dir, asideDir, err)
		if err = s.setAside(); err == nil {
			err = s.open(ctx)
		}
	}
	if err == nil && first {
		err = pack.Sweep(o.Dir) // only now: in a damaged clone a pack without index may be all there is
	}
	if err != nil {
		return nil, fmt.Errorf("open the state branch in %s: %w", o.Dir, err)
	}
	return s, nil
}

func isDamage(err error) bool {
	return errors.Is(err, pack.ErrDamaged) || errors.Is(err, pack.ErrMissing) || errors.Is(err, remote.ErrDamaged)
}

// open reads the clone and checks that all that the branch needs is there.
func (s *Store) open(ctx context.Context) (err error) {
	if err := remote.Init(s.o.Dir); err != nil {
		return err
	}
	if text, err := os.ReadFile(filepath.Join(s.o.Dir, "HEAD")); err != nil {
		return err
	} else if line := strings.TrimSpace(string(text)); !strings.HasPrefix(line, "ref: refs/") && !plumbing.IsHash(line) {
		return fmt.Errorf("%w: HEAD names no ref", remote.ErrDamaged)
	}
	if s.tracked, err = readRef(s.o.Dir, s.names.tracking); err != nil {
		return err
	}
	if s.objects, err = pack.OpenObjects(s.o.Dir); err != nil {
		return err
	}
	if err := s.objects.Verify(); err != nil {
		return err
	}
	s.remote = s.tracked
	if err := s.readLocal(); err != nil {
		return err
	}
	return s.check(ctx)
}

// check looks for everything the branch needs: all commits, the head's whole tree and what is not pushed yet. Older
// trees came and stay with their commits, in packs whose checksums were compared.
func (s *Store) check(ctx context.Context) error {
	for _, head := range []plumbing.Hash{s.local, s.tracked} {
		if head.IsZero() {
			continue
		}
		if _, _, err := s.reach(head, plumbing.ZeroHash); err != nil {
			return err
		}
	}
	if s.local.IsZero() {
		return nil
	}
	if err := diff(nil, s.root, "", func(path string, _, n *node) error {
		if n.sub == nil && n.Mode != pack.ModeSubmodule && !s.objects.Has(n.Hash) {
			return fmt.Errorf("%w: %s: %s", pack.ErrMissing, path, n.Hash)
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	unpushed, _, err := s.chain(s.local, func(h plumbing.Hash) bool { return h == s.remote })
	if err != nil {
		return err
	}
	needed, err := s.contents(hashesOf(unpushed))
	if err != nil {
		return err
	}
	for _, h := range needed {
		if !s.objects.Has(h) {
			return fmt.Errorf("%w: %s of a commit not pushed yet", pack.ErrMissing, h)
		}
	}
	return nil
}

// asideDir is where a damaged clone is kept, in its own folder: Dir may be a mount point.
const asideDir = "damaged"

// setAside moves everything out of the way, refs first: a clone without refs is merely empty.
func (s *Store) setAside() error {
	s.closeObjects()
	aside := filepath.Join(s.o.Dir, asideDir)
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	later := func(e os.DirEntry) int { return slices.Index([]string{"packed-refs", "refs"}, e.Name()) }
	slices.SortStableFunc(entries, func(a, b os.DirEntry) int { return later(b) - later(a) })
	for _, e := range entries {
		if e.Name() == asideDir || e.Name() == lockFile {
			continue
		}
		if err := os.Rename(filepath.Join(s.o.Dir, e.Name()), filepath.Join(aside, e.Name())); err != nil {
			return err
		}
		s.o.At("open.aside-" + e.Name())
	}
	return pack.SyncDir(s.o.Dir)
}

// Damage says what was wrong with the clone that Open found and where it lies now; nil if nothing was. Commits that
// had not been pushed are only there.
func (s *Store) Damage() error { return s.damage }

// Close ends the store; trees it gave out can no longer be read. It waits for the running operations.
func (s *Store) Close() error {
	s.line <- struct{}{}
	defer s.hangUp()
	s.turn <- struct{}{}
	defer s.unlock()
	s.closeObjects()
	if c, ok := s.o.Remote.(io.Closer); ok {
		c.Close() // its connections; they would idle for a while, and nobody waits for that
	}
	s.release()
	return nil
}

func (s *Store) closeObjects() {
	if s.objects != nil {
		s.objects.Close()
	}
}

// lock waits for the clone, and dial for the remote.
func (s *Store) lock(ctx context.Context) error { return take(ctx, s.turn) }
func (s *Store) dial(ctx context.Context) error { return take(ctx, s.line) }

func (s *Store) unlock() { <-s.turn }
func (s *Store) hangUp() { <-s.line }

func take(ctx context.Context, token chan struct{}) error {
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step returns the fault points of one operation.
func (s *Store) step(operation string) func(step string) {
	return func(step string) { s.o.At(operation + "." + step) }
}

// readRef returns the zero hash for a ref that does not exist.
func readRef(dir, ref string) (plumbing.Hash, error) {
	h, err := remote.ReadRef(dir, ref)
	if errors.Is(err, remote.ErrNotFound) {
		return plumbing.ZeroHash, nil
	}
	return h, err
}

// readLocal reads the branch, which a person with a git may have moved.
func (s *Store) readLocal() error {
	at, err := readRef(s.o.Dir, s.names.branch)
	if err != nil || at == s.local && s.root != nil {
		return err
	}
	return s.setLocal(at)
}

// setLocal takes note of where the branch is.
func (s *Store) setLocal(at plumbing.Hash) error {
	root, err := s.rootOf(at)
	if err != nil {
		return err
	}
	ahead, base, err := s.chain(at, func(h plumbing.Hash) bool { return h == s.remote })
	if err != nil {
		return err
	}
	s.local, s.root, s.unpushed, s.follows = at, root, len(ahead), base == s.remote
	return nil
}

// save writes objects as one pack.
func (s *Store) save(objects []pack.Object, at func(string)) error {
	_, err := pack.Save(s.o.Dir, len(objects), at, func(w *pack.Writer) error { return w.WriteAll(objects) })
	if err != nil {
		return err
	}
	return s.objects.Refresh()
}

func (s *Store) consolidate() error {
	return s.objects.Consolidate(s.o.PackLimit, s.step("consolidate"))
}

// tree describes the branch as it is.
func (s *Store) tree() Tree {
	return Tree{Head: revision(s.local), Remote: revision(s.remote), Unpushed: s.unpushed, FS: treeFS{s.root}}
}
