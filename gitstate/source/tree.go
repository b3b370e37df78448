package source

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Errors of names, for errors.Is.
var (
	// ErrOutside says that a symbolic link leads out of the source.
	ErrOutside = errors.New("leads outside the source")
	// ErrTooLarge says that a file is larger than is read.
	ErrTooLarge = errors.New("the file is too large")
	// ErrChanged says that a file of a folder is not what it was when the snapshot was taken.
	ErrChanged = errors.New("the file changed since the snapshot")
	// ErrSubmodule says that an entry is another repository, which is not read.
	ErrSubmodule = errors.New("a submodule is not read")
	// ErrBadName says that an entry has a name that no file may have in a repository.
	ErrBadName = errors.New("the name is not allowed in a repository")
	// ErrCaseClash says that names in one folder differ in letter case only. All can be read.
	ErrCaseClash = errors.New("another name differs in letter case only")
	// ErrTooDeep says that folders are nested deeper than is read.
	ErrTooDeep = errors.New("nested too deep")
	// ErrTooMany says that there are more than a million files and folders.
	ErrTooMany = errors.New("more than 1000000 files and folders")
)

const (
	maxDepth    = 128     // of folders in each other
	maxHops     = 40      // of links in one name
	maxLink     = 4 << 10 // bytes of a link's target
	maxProblems = 1000
	maxNames    = 1_000_000 // files and folders in a snapshot
)

// entry is one name in a folder. Its mode is fs.ModeDir, fs.ModeSymlink, modeSubmodule or 0 for a file.
type entry struct {
	name string
	mode fs.FileMode
	hash plumbing.Hash
}

// modeSubmodule marks entries that are commits of other repositories. They are sorted out early.
const modeSubmodule = fs.ModeIrregular

// objects holds folders and files by their hashes. It may be used concurrently.
type objects interface {
	tree(plumbing.Hash) (*listing, error)
	// blob returns a file's content or a link's target, of at most limit bytes.
	blob(hash plumbing.Hash, limit int64) ([]byte, error)
	size(plumbing.Hash) (int64, error)
}

// Tree is the file system of a snapshot. It is an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS,
// fs.ReadLinkFS and a gitstate.HashFS. A symbolic link is listed as one; to open it is to open what
// it leads to. All methods may be called concurrently.
type Tree struct {
	objects *watched
	root    entry
	maxFile int64
}

var (
	_ gitstate.HashFS = (*Tree)(nil)
	_ fs.ReadDirFS    = (*Tree)(nil)
	_ fs.ReadFileFS   = (*Tree)(nil)
	_ fs.StatFS       = (*Tree)(nil)
	_ fs.ReadLinkFS   = (*Tree)(nil)
)

func newTree(o objects, root plumbing.Hash, maxFile int64) *Tree {
	watched, ok := o.(*watched)
	if !ok {
		watched = watch(o)
	}
	return &Tree{watched, entry{".", fs.ModeDir, root}, maxFile}
}

// watched are objects that remember the first failure to read one: that is about the disk or the repository, and not about
// what somebody wrote into the source.
type watched struct {
	objects
	failure atomic.Pointer[error]
}

func watch(o objects) *watched { return &watched{objects: o} }

func (w *watched) note(err error) {
	var number syscall.Errno
	if err != nil && (errors.Is(err, remote.ErrDamaged) || errors.As(err, &number)) {
		w.failure.CompareAndSwap(nil, &err)
	}
}

func (w *watched) tree(hash plumbing.Hash) (*listing, error) {
	list, err := w.objects.tree(hash)
	w.note(err)
	return list, err
}

func (w *watched) blob(hash plumbing.Hash, limit int64) ([]byte, error) {
	content, err := w.objects.blob(hash, limit)
	w.note(err)
	return content, err
}

func (w *watched) size(hash plumbing.Hash) (int64, error) {
	size, err := w.objects.size(hash)
	w.note(err)
	return size, err
}

// Unread is for gitstate.Unread.
func (t *Tree) Unread() error {
	if err := t.objects.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// below is the part of the tree under a folder, which becomes the root: nothing leads out of it.
func (t *Tree) below(folder string) (*Tree, error) {
	at, err := t.find("open", folder, true)
	if err != nil {
		return nil, err
	}
	if !at.mode.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: folder, Err: errors.New("not a folder")}
	}
	return newTree(t.objects, at.hash, t.maxFile), nil
}

// find walks to a name. The last link is followed only if follow is set.
func (t *Tree) find(op, name string, follow bool) (entry, error) {
	fail := func(err error) (entry, error) { return entry{}, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	at := []entry{t.root} // the folders walked through, and last where we are
	rest := strings.Split(name, "/")
	for hops := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		here := at[len(at)-1]
		switch {
		case !here.mode.IsDir():
			return fail(fs.ErrNotExist)
		case part == "." || part == "":
			continue
		case part == "..":
			if len(at) == 1 {
				return fail(ErrOutside)
			}
			at = at[:len(at)-1]
			continue
		case len(at) > maxDepth:
			return fail(ErrTooDeep)
		}
		next, err := t.lookup(here.hash, part)
		if err != nil {
			return fail(err)
		}
		if next.mode != fs.ModeSymlink || len(rest) == 0 && !follow {
			at = append(at, next)
			continue
		}
		if hops++; hops > maxHops {
			return fail(errors.New("too many links"))
		}
		target, err := t.objects.blob(next.hash, maxLink)
		if err != nil {
			return fail(err)
		}
		switch {
		case len(target) == 0:
			return fail(fs.ErrNotExist)
		case path.IsAbs(string(target)):
			return fail(ErrOutside)
		}
		rest = append(strings.Split(string(target), "/"), rest...)
	}
	return at[len(at)-1], nil
}

func (t *Tree) lookup(folder plumbing.Hash, name string) (entry, error) {
	list, err := t.objects.tree(folder)
	if err != nil {
		return entry{}, err
	}
	i, found := slices.BinarySearchFunc(list.good, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
	if !found {
		return entry{}, fs.ErrNotExist
	}
	return list.good[i], nil
}

// listing is a folder's entries: those that are shown, sorted by name, and why the others are not.
type listing struct {
	good []entry
	bad  []Problem
}

// sift takes a folder's entries as they are stored, which it sorts, and parts them.
func sift(stored []entry) *listing {
	list := &listing{good: make([]entry, 0, len(stored))}
	slices.SortStableFunc(stored, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i, e := range stored {
		switch {
		case !validName(e.name):
			list.bad = append(list.bad, Problem{e.name, ErrBadName})
		case i > 0 && stored[i-1].name == e.name:
			list.bad = append(list.bad, Problem{e.name, fmt.Errorf("%w: it is there twice", ErrBadName)})
		case e.mode == modeSubmodule:
			list.bad = append(list.bad, Problem{e.name, ErrSubmodule})
		default:
			list.good = append(list.good, e)
		}
	}
	return list
}

// validName tells whether a tree may hold the name. On some file systems git~1 is .git.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00") &&
		!strings.EqualFold(name, ".git") && !strings.EqualFold(name, "git~1")
}

// Open opens a file or folder. A file is read whole; one larger than the limit is ErrTooLarge.
func (t *Tree) Open(name string) (fs.File, error) {
	at, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	at.name = path.Base(name)
	if at.mode.IsDir() {
		entries, err := t.list("open", name, at)
		if err != nil {
			return nil, err
		}
		return &openDir{info{at, 0}, entries, 0}, nil
	}
	content, err := t.read("open", name, at)
	if err != nil {
		return nil, err
	}
	return &openFile{info{at, int64(len(content))}, bytes.NewReader(content)}, nil
}

// ReadFile returns a file's content. One larger than the limit is ErrTooLarge.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	at, err := t.find("read", name, true)
	if err != nil {
		return nil, err
	}
	content, err := t.read("read", name, at)
	return slices.Clone(content), err
}

func (t *Tree) read(op, name string, at entry) ([]byte, error) {
	if at.mode.IsDir() {
		return nil, &fs.PathError{Op: op, Path: name, Err: errors.New("is a folder")}
	}
	content, err := t.objects.blob(at.hash, t.maxFile)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return content, nil
}

// ReadDir returns a folder's entries in byte order of their names.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := t.find("readdir", name, true)
	if err != nil {
		return nil, err
	}
	return t.list("readdir", name, at)
}

func (t *Tree) list(op, name string, at entry) ([]fs.DirEntry, error) {
	if !at.mode.IsDir() {
		return nil, &fs.PathError{Op: op, Path: name, Err: errors.New("not a folder")}
	}
	stored, err := t.objects.tree(at.hash)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	list := make([]fs.DirEntry, len(stored.good))
	for i, e := range stored.good {
		list[i] = dirEntry{t, e}
	}
	return list, nil
}

// Stat describes a file or folder, what a link leads to instead of the link.
func (t *Tree) Stat(name string) (fs.FileInfo, error) { return t.stat("stat", name, true) }

// Lstat describes a file, folder or link.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) { return t.stat("lstat", name, false) }

func (t *Tree) stat(op, name string, follow bool) (fs.FileInfo, error) {
	at, err := t.find(op, name, follow)
	if err != nil {
		return nil, err
	}
	at.name = path.Base(name)
	return t.info(at)
}

func (t *Tree) info(e entry) (fs.FileInfo, error) {
	if e.mode.IsDir() {
		return info{e, 0}, nil
	}
	size, err := t.objects.size(e.hash)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: e.name, Err: err}
	}
	return info{e, size}, nil
}

// ReadLink returns a link's target as it is written.
func (t *Tree) ReadLink(name string) (string, error) {
	at, err := t.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if at.mode != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	target, err := t.objects.blob(at.hash, maxLink)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(target), nil
}

// Hash returns a hash of a file's content or of all that a folder shows. For a file it is Git's hash
// of the blob. For a folder it is Git's hash of the tree, unless there is a link in it: what that
// leads to may change while the tree does not, so then it stands for the whole source.
func (t *Tree) Hash(name string) (string, error) {
	at, err := t.find("hash", name, true)
	if err != nil {
		return "", err
	}
	if at.mode.IsDir() {
		linked, err := t.linked(at.hash, map[plumbing.Hash]bool{}, 0)
		if err != nil {
			return "", &fs.PathError{Op: "hash", Path: name, Err: err}
		}
		if linked {
			sum := sha1.Sum(fmt.Appendf(nil, "linked\x00%s\x00%s", t.root.hash, name))
			return hex.EncodeToString(sum[:]), nil
		}
	}
	return at.hash.String(), nil
}

// linked tells whether there is a link in the folder or below. A folder seen before has none.
func (t *Tree) linked(folder plumbing.Hash, seen map[plumbing.Hash]bool, depth int) (bool, error) {
	if seen[folder] || depth > maxDepth {
		return false, nil
	}
	seen[folder] = true
	list, err := t.objects.tree(folder)
	if err != nil {
		return false, err
	}
	for _, e := range list.good {
		found := e.mode == fs.ModeSymlink
		if e.mode.IsDir() {
			if found, err = t.linked(e.hash, seen, depth+1); err != nil {
				return false, err
			}
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

// Problem is something in a tree that its author should know of.
type Problem struct {
	// Path is relative to the source.
	Path string
	// Err is one of ErrOutside, ErrSubmodule, ErrBadName, ErrCaseClash and ErrTooDeep, maybe wrapped.
	Err error
}

// Problems lists entries that are not shown, links that lead outside, and names that differ in letter
// case only, in byte order of their paths. There are at most 1000.
func (t *Tree) Problems() ([]Problem, error) {
	var found []Problem
	_, err := t.inspect(t.root.hash, ".", map[plumbing.Hash]bool{}, &found)
	slices.SortStableFunc(found, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	return found, err
}

// inspect collects the problems of a folder and below. A folder that was clean once is not walked again.
func (t *Tree) inspect(folder plumbing.Hash, at string, clean map[plumbing.Hash]bool, found *[]Problem) (isClean bool, err error) {
	if clean[folder] || len(*found) >= maxProblems {
		return clean[folder], nil
	}
	if at != "." && strings.Count(at, "/")+1 > maxDepth {
		*found = append(*found, Problem{at, ErrTooDeep})
		return false, nil
	}
	list, err := t.objects.tree(folder)
	if err != nil {
		return false, &fs.PathError{Op: "readdir", Path: at, Err: err}
	}
	bad := slices.Concat(list.bad, clashes(list.good))
	linked := false
	for _, p := range bad {
		if len(*found) < maxProblems {
			*found = append(*found, Problem{path.Join(at, printedName(p.Path)), p.Err})
		}
	}
	isClean = len(bad) == 0
	for _, e := range list.good {
		name := path.Join(at, e.name)
		switch e.mode {
		case fs.ModeSymlink:
			linked = true
			if _, err := t.find("stat", name, true); errors.Is(err, ErrOutside) && len(*found) < maxProblems {
				*found = append(*found, Problem{name, ErrOutside})
			}
		case fs.ModeDir:
			below, err := t.inspect(e.hash, name, clean, found)
			if err != nil {
				return false, err
			}
			isClean = isClean && below
		}
	}
	// Whether a link leads outside depends on where it is.
	isClean = isClean && !linked
	clean[folder] = isClean
	return isClean, nil
}

// printedName keeps a bad name from being read as a path.
func printedName(name string) string {
	if validName(name) {
		return name
	}
	return fmt.Sprintf("%q", name)
}

// clashes finds names that differ in letter case only.
func clashes(entries []entry) []Problem {
	var found []Problem
	first := map[string]string{}
	for _, e := range entries {
		key := fold(e.name)
		if other, clash := first[key]; clash {
			found = append(found, Problem{e.name, fmt.Errorf("%w: %s", ErrCaseClash, other)})
			continue
		}
		first[key] = e.name
	}
	return found
}

// fold maps names that differ in letter case only to one.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// info describes an entry. There are no times in a tree.
type info struct {
	entry
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.mode.IsDir() {
		return i.mode | 0o555
	}
	return i.mode | 0o444
}

type dirEntry struct {
	tree *Tree
	e    entry
}

func (d dirEntry) Name() string               { return d.e.name }
func (d dirEntry) IsDir() bool                { return d.e.mode.IsDir() }
func (d dirEntry) Type() fs.FileMode          { return d.e.mode }
func (d dirEntry) Info() (fs.FileInfo, error) { return d.tree.info(d.e) }
func (d dirEntry) String() string             { return fs.FormatDirEntry(d) }

type openFile struct {
	info info
	*bytes.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct {
	info    info
	entries []fs.DirEntry
	next    int
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a folder")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.entries[d.next:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.next += len(rest)
	return slices.Clone(rest), nil
}
