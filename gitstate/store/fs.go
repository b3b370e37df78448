package store

import (
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// A treeFS is the tree of one revision. It implements gitstate.HashFS, fs.ReadFileFS, fs.ReadDirFS and fs.StatFS, and
// is safe for concurrent use. Symbolic links are not followed; submodules are irregular files.
type treeFS struct{ root *dir }

func (f treeFS) node(op, name string) (*node, error) {
	var n *node
	err := fs.ErrInvalid
	if fs.ValidPath(name) {
		if n, err = f.root.lookup(name); err == nil && n == nil {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return n, nil
}

// Hash returns the Git hash of the file's blob or the folder's tree.
func (f treeFS) Hash(name string) (string, error) {
	n, err := f.node("hash", name)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(n.Hash[:]), nil
}

// Open opens a file or a folder.
func (f treeFS) Open(name string) (fs.File, error) {
	n, err := f.node("open", name)
	if err != nil {
		return nil, err
	}
	if n.sub != nil {
		entries, err := f.ReadDir(name)
		return &openDir{info: info{node: n, root: f.root}, entries: entries}, err
	}
	data, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &openFile{info{node: n, root: f.root, size: int64(len(data))}, strings.NewReader(string(data))}, nil
}

// ReadFile returns a file's content, which belongs to the caller.
func (f treeFS) ReadFile(name string) ([]byte, error) {
	n, err := f.node("read", name)
	if err != nil {
		return nil, err
	}
	data, err := f.root.content(n)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func (d *dir) content(n *node) ([]byte, error) {
	if n.sub != nil || n.Mode == pack.ModeSubmodule {
		return nil, fmt.Errorf("%w: not a file", fs.ErrInvalid)
	}
	return d.objects.GetKind(pack.Blob, n.Hash)
}

// ReadDir lists a folder in the order of names.
func (f treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := f.node("readdir", name)
	if err != nil {
		return nil, err
	}
	if n.sub == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fmt.Errorf("%w: not a folder", fs.ErrInvalid)}
	}
	nodes, err := n.sub.list()
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	entries := make([]fs.DirEntry, len(nodes))
	for i := range nodes {
		entries[i] = dirEntry{&nodes[i], f.root}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Stat describes a file or folder; it reads a file to tell its size.
func (f treeFS) Stat(name string) (fs.FileInfo, error) {
	n, err := f.node("stat", name)
	if err != nil {
		return nil, err
	}
	return dirEntry{n, f.root}.Info()
}

// info is the fs.FileInfo of a node. A revision's files have no time of their own.
type info struct {
	*node
	root *dir
	size int64
}

func (i info) Name() string       { return i.node.Name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return fileMode(i.node) }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.sub != nil }
func (i info) Sys() any           { return nil }

func fileMode(n *node) fs.FileMode {
	switch {
	case n.sub != nil:
		return fs.ModeDir | 0o755
	case n.Mode == pack.ModeSymlink:
		return fs.ModeSymlink | 0o777
	case n.Mode == pack.ModeSubmodule:
		return fs.ModeIrregular
	}
	return fs.FileMode(n.Mode & 0o777)
}

type dirEntry struct {
	node *node
	root *dir
}

func (e dirEntry) Name() string      { return e.node.Name }
func (e dirEntry) IsDir() bool       { return e.node.sub != nil }
func (e dirEntry) Type() fs.FileMode { return fileMode(e.node).Type() }
func (e dirEntry) String() string    { return fs.FormatDirEntry(e) }

func (e dirEntry) Info() (fs.FileInfo, error) {
	i := info{node: e.node, root: e.root}
	if e.node.sub == nil && e.node.Mode != pack.ModeSubmodule {
		data, err := e.root.content(e.node)
		if err != nil {
			return nil, &fs.PathError{Op: "stat", Path: e.Name(), Err: err}
		}
		i.size = int64(len(data))
	}
	return i, nil
}

type openFile struct {
	info
	*strings.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }
func (f *openFile) Size() int64                { return f.info.size } // both embedded types have one

type openDir struct {
	info
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.Name(), Err: fmt.Errorf("%w: is a folder", fs.ErrInvalid)}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 {
		n = len(d.entries)
	}
	n = min(n, len(d.entries))
	part := d.entries[:n:n]
	d.entries = d.entries[n:]
	return part, nil
}
