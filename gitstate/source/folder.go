package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
)

// Folder reads a folder, a work tree or not, as it is on disk. Its methods may be called concurrently.
type Folder struct {
	dir, path string

	mu   sync.Mutex
	seen map[string]stamp // by name, of the last fetch
}

// stamp is what tells a file's unchanged content without reading it.
type stamp struct {
	size     int64
	modified time.Time
	inode    uint64
	hash     plumbing.Hash
	// settled is false if the file was so young when it was hashed that a later change may have the
	// same time.
	settled bool
}

// settling is how long a file must have rested for its time to be trusted; some file systems count
// in whole seconds or two.
const settling = 2 * time.Second

// OpenFolder names the folder path below dir; an empty path means dir itself. Nothing is read yet.
func OpenFolder(dir, path string) *Folder {
	return &Folder{dir: dir, path: path, seen: map[string]stamp{}}
}

// onDisk is what revisions of a Folder begin with, and no name of a commit: Git has no ref with a colon.
const onDisk = "tree:"

// OnDisk tells whether a revision is one of a Folder.
func OnDisk(r gitstate.Revision) bool { return strings.HasPrefix(string(r), onDisk) }

// Fetch reads names, and the files that changed since the last fetch. What .git names is left out,
// as is what is neither file, folder nor link. The revision is "tree:" and the hash that Git would
// give the tree, all files taken as not executable.
func (f *Folder) Fetch(ctx context.Context) (gitstate.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(err error) (gitstate.Snapshot, error) {
		return gitstate.Snapshot{}, fmt.Errorf("source %s: %w", f.dir, err)
	}
	below, err := cleanPath(f.path)
	if err != nil {
		return fail(err)
	}
	// Links in dir are the user's; below it none is followed out. The root is closed with the last
	// snapshot that reads from it, by the garbage collector.
	dir, err := os.OpenRoot(f.dir)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	top, err := dir.OpenRoot(filepath.FromSlash(below))
	if err != nil {
		return fail(err)
	}
	reader := &folderReader{
		seen: f.seen, stamps: map[string]stamp{}, now: time.Now(),
		found: &folderObjects{root: top, folders: map[plumbing.Hash]*listing{}, links: map[plumbing.Hash][]byte{}, files: map[plumbing.Hash]file{}},
	}
	root, err := reader.folder(ctx, top, ".", 0)
	if err != nil {
		top.Close()
		return fail(err)
	}
	f.seen = reader.stamps
	return gitstate.Snapshot{
		Revision: gitstate.Revision(onDisk + root.String()),
		FS:       newTree(reader.found, root, DefaultMaxFile),
	}, nil
}

// folderReader is one reading of a folder.
type folderReader struct {
	seen, stamps map[string]stamp
	now          time.Time
	found        *folderObjects
}

// folder reads the folder of a name and what is below, and returns its hash.
func (r *folderReader) folder(ctx context.Context, in *os.Root, name string, depth int) (plumbing.Hash, error) {
	if ctx.Err() != nil {
		return plumbing.ZeroHash, context.Cause(ctx)
	}
	if depth > maxDepth {
		return plumbing.ZeroHash, fmt.Errorf("%s: %w", name, ErrTooDeep)
	}
	list, err := fs.ReadDir(in.FS(), ".")
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var entries []entry
	for _, d := range list {
		if d.Name() == ".git" {
			continue
		}
		e := entry{d.Name(), d.Type(), plumbing.ZeroHash}
		full := path.Join(name, d.Name())
		switch d.Type() {
		case fs.ModeDir:
			e.hash, err = r.below(ctx, in, d.Name(), full, depth+1)
		case fs.ModeSymlink:
			e.hash, err = r.link(in, d.Name())
		case 0:
			e.hash, err = r.file(in, d.Name(), full)
		default:
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed while we read
		}
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("%s: %w", full, err)
		}
		entries = append(entries, e)
	}
	hash := treeHash(entries)
	r.found.folders[hash] = sift(entries)
	return hash, nil
}

// below reads a folder of the folder in. Each is opened from the one above, not from the top.
func (r *folderReader) below(ctx context.Context, in *os.Root, base, name string, depth int) (plumbing.Hash, error) {
	folder, err := in.OpenRoot(base)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer folder.Close()
	return r.folder(ctx, folder, name, depth)
}

func (r *folderReader) link(in *os.Root, base string) (plumbing.Hash, error) {
	target, err := in.Readlink(base)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	hash := plumbing.ComputeHash(plumbing.BlobObject, []byte(target))
	r.found.links[hash] = []byte(target)
	return hash, nil
}

func (r *folderReader) file(in *os.Root, base, name string) (plumbing.Hash, error) {
	described, err := in.Lstat(base)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	now := stampOf(described)
	before, ok := r.seen[name]
	now.hash = before.hash
	now.settled = r.now.Sub(now.modified) > settling
	if !ok || !before.settled || before != now {
		if now.hash, err = hashFile(in, base, now.size); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	r.stamps[name] = now
	r.found.files[now.hash] = file{name, now.size}
	return now.hash, nil
}

// hashFile returns Git's hash of a file. One too large to be read later is not read now either.
func hashFile(in *os.Root, base string, size int64) (plumbing.Hash, error) {
	if size > DefaultMaxFile {
		return plumbing.ComputeHash(plumbing.BlobObject, fmt.Appendf(nil, "%s: %d bytes", ErrTooLarge, size)), nil
	}
	content, err := readRegular(in, base)
	return plumbing.ComputeHash(plumbing.BlobObject, content), err
}

func stampOf(described fs.FileInfo) stamp {
	s := stamp{size: described.Size(), modified: described.ModTime()}
	if sys, ok := described.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

// readRegular reads a file that was one when it was looked at. It does not wait for a writer should
// it have become a pipe.
func readRegular(root *os.Root, name string) ([]byte, error) {
	opened, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if described, err := opened.Stat(); err != nil || !described.Mode().IsRegular() {
		return nil, errors.Join(err, ErrChanged)
	}
	var content bytes.Buffer
	_, err = io.Copy(&content, io.LimitReader(opened, DefaultMaxFile+1))
	return content.Bytes(), err
}

// treeHash is Git's hash of a folder with these entries.
func treeHash(entries []entry) plumbing.Hash {
	entries = slices.Clone(entries)
	// Git orders folders as if their names ended in a slash.
	key := func(e entry) string {
		if e.mode.IsDir() {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(key(a), key(b)) })
	var raw []byte
	for _, e := range entries {
		raw = fmt.Appendf(raw, "%s %s\x00%s", gitModes[e.mode], e.name, e.hash[:])
	}
	return plumbing.ComputeHash(plumbing.TreeObject, raw)
}

var gitModes = map[fs.FileMode]string{fs.ModeDir: "40000", fs.ModeSymlink: "120000", 0: "100644"}

// folderObjects are the objects of one reading. It does not change after that.
type folderObjects struct {
	root    *os.Root
	folders map[plumbing.Hash]*listing
	links   map[plumbing.Hash][]byte
	files   map[plumbing.Hash]file
}

// file is one of the files that had a content.
type file struct {
	name string
	size int64
}

func (f *folderObjects) tree(hash plumbing.Hash) (*listing, error) { return f.folders[hash], nil }

func (f *folderObjects) blob(hash plumbing.Hash, limit int64) ([]byte, error) {
	if target, ok := f.links[hash]; ok {
		return target, nil
	}
	found := f.files[hash]
	if found.size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, found.size, limit)
	}
	content, err := readRegular(f.root, found.name)
	if err != nil {
		return nil, errors.Join(ErrChanged, err)
	}
	if plumbing.ComputeHash(plumbing.BlobObject, content) != hash {
		return nil, ErrChanged
	}
	return content, nil
}

func (f *folderObjects) size(hash plumbing.Hash) (int64, error) {
	if target, ok := f.links[hash]; ok {
		return int64(len(target)), nil
	}
	return f.files[hash].size, nil
}
