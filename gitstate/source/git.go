package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// errNoCommit says that a ref or tag stands for something else.
var errNoCommit = errors.New("not a commit")

// fewNames are as many of files and folders as are kept parsed in any case, some 10 MB of them.
const fewNames = 100_000

// gitObjects reads objects of a bare repository. go-git's storage is not safe even for concurrent
// reads, so one lock is around it; what is read is in memory when the lock is given back.
type gitObjects struct {
	dir string
	// cut are commits whose parents a shallow clone lacks; nil means none.
	cut map[plumbing.Hash]bool
	// damaged is set when an object could not be read: the clone needs to be made again.
	damaged atomic.Bool

	mu      sync.Mutex
	storage *filesystem.Storage
	trees   map[plumbing.Hash]*listing
	names   int // in trees
	room    int // for names; each commit brings folders that differ in one from those before
}

func openObjects(dir string) *gitObjects {
	return &gitObjects{dir: dir, storage: remote.OpenStorage(dir), trees: map[plumbing.Hash]*listing{}, room: fewNames}
}

// keep makes room for the folders of two commits with so many names.
func (g *gitObjects) keep(names int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room = max(fewNames, 2*names)
}

// change runs f, which changes the repository behind the storage's back, while nobody reads.
func (g *gitObjects) change(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := f()
	g.renew()
	return err
}

func (g *gitObjects) renew() {
	g.storage.Close()
	g.storage = remote.OpenStorage(g.dir)
}

func (g *gitObjects) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.storage.Close()
}

// with runs read on the storage, once more on a fresh one if an object is not found. Any error that
// read does not mean for the caller is damage; go-git panics on some.
func (g *gitObjects) with(hash plumbing.Hash, read func(*filesystem.Storage) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	attempt := func() (err error) {
		defer func() {
			if broken := recover(); broken != nil {
				err = fmt.Errorf("%v", broken)
			}
		}()
		return read(g.storage)
	}
	err := attempt()
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		g.renew()
		err = attempt()
	}
	if err == nil || errors.Is(err, ErrTooLarge) || errors.Is(err, errNoCommit) {
		return err
	}
	g.damaged.Store(true)
	return fmt.Errorf("%w: object %s: %w", remote.ErrDamaged, hash, err)
}

// has tells whether the object is there, and takes its absence for no damage.
func (g *gitObjects) has(hash plumbing.Hash) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.storage.HasEncodedObject(hash) == nil {
		return true
	}
	g.renew()
	return g.storage.HasEncodedObject(hash) == nil
}

func (g *gitObjects) isCommit(hash plumbing.Hash) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	encoded, err := g.storage.EncodedObject(plumbing.CommitObject, hash)
	return err == nil && encoded.Type() == plumbing.CommitObject
}

// starting lists the objects whose hashes start with the bytes.
func (g *gitObjects) starting(prefix []byte) ([]plumbing.Hash, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.storage.HashesWithPrefix(prefix)
}

func (g *gitObjects) commit(hash plumbing.Hash) (commit *object.Commit, err error) {
	err = g.with(hash, func(s *filesystem.Storage) error {
		for range 10 { // an annotated tag of a tag, and so on
			encoded, err := s.EncodedObject(plumbing.AnyObject, hash)
			if err != nil {
				return err
			}
			switch encoded.Type() {
			case plumbing.CommitObject:
				commit, err = object.DecodeCommit(s, head{encoded})
				return err
			case plumbing.TagObject:
			default:
				return errNoCommit
			}
			tag, err := object.DecodeTag(s, encoded)
			if err != nil {
				return err
			}
			hash = tag.Target
		}
		return errNoCommit
	})
	return commit, err
}

// head is a commit of which no more than maxCommit bytes are read: what is behind them is of its message.
type head struct{ plumbing.EncodedObject }

func (h head) Reader() (io.ReadCloser, error) {
	r, err := h.EncodedObject.Reader()
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, maxCommit), r}, err
}

func (g *gitObjects) tree(hash plumbing.Hash) (*listing, error) {
	g.mu.Lock()
	list, cached := g.trees[hash]
	g.mu.Unlock()
	if cached {
		return list, nil
	}
	err := g.with(hash, func(s *filesystem.Storage) error {
		tree, err := object.GetTree(s, hash)
		if err != nil {
			return err
		}
		entries := make([]entry, len(tree.Entries))
		for i, e := range tree.Entries {
			entries[i] = entry{e.Name, modes[e.Mode], e.Hash}
		}
		if g.names += len(entries); g.names > g.room {
			clear(g.trees)
			g.names = len(entries)
		}
		list = sift(entries)
		g.trees[hash] = list
		return nil
	})
	return list, err
}

// modes are those of a tree; whatever else is in one is a file.
var modes = map[filemode.FileMode]fs.FileMode{
	filemode.Dir:       fs.ModeDir,
	filemode.Symlink:   fs.ModeSymlink,
	filemode.Submodule: modeSubmodule,
}

func (g *gitObjects) blob(hash plumbing.Hash, limit int64) (content []byte, err error) {
	err = g.with(hash, func(s *filesystem.Storage) error {
		size, err := sizeOf(s, hash)
		if err != nil {
			return err
		}
		if size > limit {
			return fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, size, limit)
		}
		encoded, err := s.EncodedObject(plumbing.BlobObject, hash)
		if err != nil {
			return err
		}
		reader, err := encoded.Reader()
		if err != nil {
			return err
		}
		defer reader.Close()
		content = make([]byte, size)
		_, err = io.ReadFull(reader, content)
		return err
	})
	return content, err
}

// sizeOf is the size of an object. go-git leaves the file of a loose one open when it is asked for that.
func sizeOf(s *filesystem.Storage, hash plumbing.Hash) (int64, error) {
	name := hash.String()
	f, err := s.Filesystem().Open("objects/" + name[:2] + "/" + name[2:])
	if errors.Is(err, fs.ErrNotExist) {
		return s.EncodedObjectSize(hash)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := objfile.NewReader(f)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	_, size, err := r.Header()
	return size, err
}

func (g *gitObjects) size(hash plumbing.Hash) (size int64, err error) {
	err = g.with(hash, func(s *filesystem.Storage) error {
		size, err = sizeOf(s, hash)
		return err
	})
	return size, err
}

// complete walks a tree, as deep as it is shown, and returns how many names it shows and the first
// object that is missing. Trees may be within themselves many times over, so counted has what each
// tree came to, and a blob that was looked for.
func (g *gitObjects) complete(tree plumbing.Hash, counted map[plumbing.Hash]int, depth int) (names int, err error) {
	if names, done := counted[tree]; done || depth > maxDepth {
		return names, nil
	}
	list, err := g.tree(tree)
	if err != nil {
		return 0, err
	}
	for _, e := range list.good {
		below := 0
		if e.mode == fs.ModeDir {
			if below, err = g.complete(e.hash, counted, depth+1); err != nil {
				return 0, err
			}
		} else if _, done := counted[e.hash]; !done {
			counted[e.hash] = 0
			if err := g.with(e.hash, func(s *filesystem.Storage) error { return s.HasEncodedObject(e.hash) }); err != nil {
				return 0, err
			}
		}
		names = min(names+1+below, maxNames+1)
	}
	counted[tree] = names
	return names, nil
}

// parents are those of a commit that are there.
func (g *gitObjects) parents(commit *object.Commit) []plumbing.Hash {
	if g.cut[commit.Hash] {
		return nil
	}
	return commit.ParentHashes
}

// back follows steps such as ~2^2 from a commit.
func (g *gitObjects) back(commit *object.Commit, steps string) (plumbing.Hash, error) {
	for _, step := range regexp.MustCompile(`[~^][0-9]*`).FindAllString(steps, -1) {
		n := 1
		if len(step) > 1 {
			var err error
			if n, err = strconv.Atoi(step[1:]); err != nil {
				return plumbing.ZeroHash, err
			}
		}
		// ^n is the nth parent, ~n the first parent of the first parent and so on.
		times, parent := n, 0
		if step[0] == '^' {
			times, parent = min(n, 1), n-1
		}
		for range times {
			all := g.parents(commit)
			if parent >= len(all) {
				return plumbing.ZeroHash, fmt.Errorf("commit %s has no such parent: %w", commit.Hash, remote.ErrNotFound)
			}
			next, err := g.commit(all[parent])
			if err != nil {
				return plumbing.ZeroHash, err
			}
			commit = next
		}
	}
	return commit.Hash, nil
}

// byHash finds a commit by its hash or the start of it.
func (g *gitObjects) byHash(name string) (plumbing.Hash, error) {
	if !isHex(name) {
		return plumbing.ZeroHash, remote.ErrNotFound
	}
	if plumbing.IsHash(name) {
		if hash := plumbing.NewHash(name); g.has(hash) {
			return hash, nil
		}
		return plumbing.ZeroHash, remote.ErrNotFound
	}
	start, err := hex.DecodeString(name[:len(name)/2*2])
	if err != nil {
		return plumbing.ZeroHash, remote.ErrNotFound
	}
	hashes, err := g.starting(start)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var found []plumbing.Hash
	for _, hash := range hashes {
		if strings.HasPrefix(hash.String(), name) && g.isCommit(hash) {
			found = append(found, hash)
		}
	}
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, remote.ErrNotFound
	case 1:
		return found[0], nil
	}
	return plumbing.ZeroHash, errors.New("several commits start so; use more digits")
}

// isHex tells whether a name can be a hash or the start of one.
func isHex(name string) bool {
	return len(name) >= 4 && len(name) <= 40 && strings.Trim(name, "0123456789abcdef") == ""
}
