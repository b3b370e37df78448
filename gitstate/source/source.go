package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// ErrLocked says that another process, or another Source of this one, owns the clone.
var ErrLocked = errors.New("the clone is in use")

// DefaultMaxFile is the size of the largest file that is read unless Options say otherwise.
const DefaultMaxFile = 4 << 20

// Options say what to read and where to keep it.
type Options struct {
	Remote *remote.Remote
	// Branch is followed; empty means the remote's default, asked for at each fetch.
	Branch string
	// Path is the folder that becomes the snapshot's root; empty means all.
	Path string
	// Dir is where the clone is kept. It is made if it is missing and belongs to the Source.
	Dir string
	// MaxFile is the size in bytes of the largest file that is read; 0 means DefaultMaxFile.
	MaxFile int64
}

// Source follows one branch of a remote through a bare clone. Its methods may be called
// concurrently; fetches wait for each other, and what needs no remote waits for none.
type Source struct {
	reader
	o    Options
	lock *os.File
	line sync.Mutex // held by who talks to the remote; taken before mu

	branch string // last resolved
	// renewed is the last commit that the clone was made again for.
	renewed plumbing.Hash
}

// reader reads commits of a repository.
type reader struct {
	name    *remote.Remote // as errors give it
	path    string
	maxFile int64

	mu      sync.Mutex // not held while a remote is waited for
	objects *gitObjects
	// checked is the last commit that was walked whole.
	checked plumbing.Hash
}

// complete fills in what the options leave out.
func (o *Options) complete() (err error) {
	o.Path, err = cleanPath(o.Path)
	o.MaxFile = cmp.Or(o.MaxFile, DefaultMaxFile)
	return err
}

// Open takes the clone at Options.Dir into possession; it does not connect. The error is ErrLocked
// if somebody else has it. Close gives it back.
func Open(o Options) (*Source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	lock, err := takeLock(filepath.Join(o.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	s := &Source{reader: reader{name: o.Remote, path: o.Path, maxFile: o.MaxFile}, o: o, lock: lock, branch: o.Branch}
	err = errors.Join(
		os.RemoveAll(s.dir("fresh")), os.RemoveAll(s.dir("old")), // of a crash while the clone was renewed
		remote.Init(s.dir("repo")),
		remote.Recover(s.dir("repo")),
		pack.Sweep(s.dir("repo")),
	)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("source: %w", err)
	}
	s.objects = openObjects(s.dir("repo"))
	return s, nil
}

// Close gives the clone back. Snapshots cannot be read after it. The remote is closed, too.
func (s *Source) Close() error {
	err := errors.Join(s.objects.close(), s.lock.Close())
	if s.o.Remote != nil { // one that never fetched needs none
		err = errors.Join(err, s.o.Remote.Close())
	}
	return err
}

// takeLock locks a file for as long as it is open; a crash unlocks it.
func takeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner := make([]byte, 32)
		n, _ := file.Read(owner)
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: process %s owns %s; stop it or use another directory",
				ErrLocked, strings.TrimSpace(string(owner[:n])), filepath.Dir(path))
		}
		return nil, err
	}
	err = errors.Join(file.Truncate(0), func() error {
		_, err := fmt.Fprintln(file, os.Getpid())
		return err
	}())
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func cleanPath(p string) (string, error) {
	p = path.Clean(filepath.ToSlash(p)) // "" is "."
	if !fs.ValidPath(p) {
		return "", fmt.Errorf("source path %q: %w", p, ErrOutside)
	}
	return p, nil
}

// dir is a folder of the clone: "repo", or one while the clone is renewed.
func (s *Source) dir(name string) string { return filepath.Join(s.o.Dir, name) }

// tracking is where a remote ref is kept.
func tracking(ref string) string {
	if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		return "refs/remotes/origin/" + branch
	}
	return ref
}

// Fetch returns the newest commit of the branch. A branch or repository that is not there is
// remote.ErrNotFound, one without commits remote.ErrEmpty, a Path that is not in the commit
// fs.ErrNotExist. What it returned before stays readable.
func (s *Source) Fetch(ctx context.Context) (gitstate.Snapshot, error) {
	s.line.Lock()
	defer s.line.Unlock()
	found, err := s.o.Remote.Advertise(ctx)
	if err != nil {
		return gitstate.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branch = s.o.Branch
	if s.branch == "" {
		if s.branch = found.DefaultBranch; s.branch == "" {
			return gitstate.Snapshot{}, fmt.Errorf("source %s: default branch: %w; name the branch to read", s.o.Remote, remote.ErrNotFound)
		}
	}
	return s.fetch(ctx, found, "refs/heads/"+s.branch, s.branch)
}

// fetch brings a remote ref here, if it is not, and returns its snapshot.
func (s *Source) fetch(ctx context.Context, found *remote.Advertisement, ref, branch string) (gitstate.Snapshot, error) {
	hash, ok := found.Refs[ref]
	if !ok {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: %s: %w", s.o.Remote, ref, remote.ErrNotFound)
	}
	local, err := remote.ReadRef(s.dir("repo"), tracking(ref))
	if err != nil || local != hash || !s.objects.has(hash) {
		err := s.update(ctx, s.dir("repo"), ref)
		if errors.Is(err, remote.ErrDamaged) {
			err = s.renew(ctx, ref, hash)
		}
		if err != nil {
			return gitstate.Snapshot{}, err
		}
		// The remote may have moved since it was asked first.
		if hash, err = remote.ReadRef(s.dir("repo"), tracking(ref)); err != nil {
			return gitstate.Snapshot{}, fmt.Errorf("source %s: %w", s.o.Remote, err)
		}
	}
	snapshot, err := s.snapshot(hash, branch)
	if (err == nil || errors.Is(err, remote.ErrDamaged)) && s.objects.damaged.Load() && s.renewed != hash {
		if err := s.renew(ctx, ref, hash); err != nil {
			return gitstate.Snapshot{}, err
		}
		return s.snapshot(hash, branch)
	}
	return snapshot, err
}

// update fetches refs into a folder. Both locks are held, but mu not while the remote is waited for.
func (s *Source) update(ctx context.Context, dir string, refs ...string) error {
	want := map[string]string{}
	for _, ref := range refs {
		want[ref] = tracking(ref)
	}
	s.mu.Unlock()
	err := s.o.Remote.Fetch(ctx, dir, want)
	s.mu.Lock()
	if err != nil {
		return err
	}
	err = s.objects.change(func() error { return consolidate(dir) })
	if errors.Is(err, pack.ErrDamaged) {
		s.objects.damaged.Store(true)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("source %s: %w", s.o.Remote, err)
	}
	return nil
}

// consolidate puts small packs together: each fetch leaves one, and all are searched for each object.
func consolidate(dir string) error {
	objects, err := pack.OpenObjects(dir)
	if err != nil {
		return err
	}
	return errors.Join(objects.Consolidate(maxPacks, nil), objects.Close())
}

// maxPacks is how many packs, one for each fetch, are kept before they are put together.
const maxPacks = 30

// renew makes the clone again beside the damaged one and puts it in its place.
func (s *Source) renew(ctx context.Context, ref string, hash plumbing.Hash) error {
	if err := os.RemoveAll(s.dir("fresh")); err != nil {
		return fmt.Errorf("source %s: %w", s.o.Remote, err)
	}
	if err := s.update(ctx, s.dir("fresh"), ref); err != nil {
		return err
	}
	err := s.objects.change(func() error {
		return errors.Join(
			os.Rename(s.dir("repo"), s.dir("old")),
			os.Rename(s.dir("fresh"), s.dir("repo")),
			os.RemoveAll(s.dir("old")),
		)
	})
	if err != nil {
		return fmt.Errorf("source %s: %w", s.o.Remote, err)
	}
	s.renewed, s.checked = hash, plumbing.ZeroHash
	s.objects.damaged.Store(false)
	return nil
}

// snapshot reads a commit that is here. It walks what the snapshot shows the first time.
func (s *reader) snapshot(hash plumbing.Hash, branch string) (gitstate.Snapshot, error) {
	fail := func(err error) (gitstate.Snapshot, error) {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: commit %s: %w", s.name, hash, err)
	}
	commit, err := s.objects.commit(hash)
	if err != nil {
		return fail(err)
	}
	tree, err := newTree(s.objects, commit.TreeHash, s.maxFile).below(s.path)
	if err != nil {
		return fail(err)
	}
	if s.checked != commit.Hash {
		names, err := s.objects.complete(tree.root.hash, map[plumbing.Hash]int{}, 0)
		if err != nil {
			return fail(err)
		}
		if names > maxNames {
			return fail(ErrTooMany)
		}
		s.objects.keep(names)
		s.checked = commit.Hash
	}
	return gitstate.Snapshot{
		Revision: gitstate.Revision(commit.Hash.String()),
		Branch:   branch,
		FS:       tree,
		Message:  commit.Message,
		Author:   author(commit),
	}, nil
}

func author(c *object.Commit) string { return fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email) }

// revision is a name and steps back from it, as in main~2^2.
var revision = regexp.MustCompile(`^(.+?)((?:[~^][0-9]*)*)$`)

// At returns the commit that rev names: a hash, full or at least four digits of it, HEAD for the
// newest commit of the branch that was fetched, or a branch or tag of the remote; each may be
// followed by ~n and ^n. Hashes and HEAD are looked up in the clone first. The error is
// remote.ErrNotFound if rev names nothing.
func (s *Source) At(ctx context.Context, rev string) (gitstate.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := revision.FindStringSubmatch(rev)
	if parts == nil {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: revision %q: %w", s.o.Remote, rev, remote.ErrNotFound)
	}
	hash, branch, err := s.resolve(ctx, parts[1])
	if err != nil {
		return gitstate.Snapshot{}, err
	}
	commit, err := s.objects.commit(hash)
	if err != nil {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: revision %s: %w", s.o.Remote, rev, err)
	}
	hash, err = s.objects.back(commit, parts[2])
	if err != nil {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: revision %s: %w", s.o.Remote, rev, err)
	}
	return s.snapshot(hash, branch)
}

// resolve finds what a name without steps stands for, and the branch if it is one. mu is held, but not while the remote
// is waited for.
func (s *Source) resolve(ctx context.Context, name string) (hash plumbing.Hash, branch string, err error) {
	if name == "HEAD" && s.branch != "" {
		if hash, err := remote.ReadRef(s.dir("repo"), tracking("refs/heads/"+s.branch)); err == nil && s.objects.has(hash) {
			return hash, s.branch, nil
		}
	}
	hash, err = s.objects.byHash(name)
	switch {
	case err == nil:
		return hash, "", nil
	case !errors.Is(err, remote.ErrNotFound):
		return hash, "", fmt.Errorf("revision %s: %w", name, err)
	}
	s.mu.Unlock()
	s.line.Lock()
	defer s.line.Unlock()
	found, err := s.o.Remote.Advertise(ctx)
	s.mu.Lock()
	if err != nil {
		return hash, "", err
	}
	// A name that is none of these may be a hash that is not here yet; then everything is fetched.
	branch = name
	if name == "HEAD" {
		if branch = s.o.Branch; branch == "" {
			branch = found.DefaultBranch
		}
		s.branch = branch
	}
	for _, ref := range []string{"refs/heads/" + branch, "refs/tags/" + name} {
		if hash, ok := found.Refs[ref]; ok {
			if strings.HasPrefix(ref, "refs/tags/") {
				branch = ""
			}
			if err := s.update(ctx, s.dir("repo"), ref); err != nil {
				return hash, "", err
			}
			hash, err := remote.ReadRef(s.dir("repo"), tracking(ref))
			return hash, branch, err
		}
	}
	if isHex(name) {
		var all []string
		for ref := range found.Refs {
			if strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/") {
				all = append(all, ref)
			}
		}
		if err := s.update(ctx, s.dir("repo"), all...); err != nil {
			return hash, "", err
		}
		if hash, err := s.objects.byHash(name); err == nil {
			return hash, "", nil
		}
	}
	return hash, "", fmt.Errorf("source %s: revision %s: %w", s.o.Remote, name, remote.ErrNotFound)
}
