package shard

import (
	"bytes"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/api/canonical"
)

// tree is the files of a report as a file system that knows their hashes.
type tree struct {
	files map[string][]byte
	dirs  map[string][]fs.DirEntry
}

func treeOf(files map[string][]byte) tree {
	t := tree{files, map[string][]fs.DirEntry{".": nil}}
	for name, text := range files {
		if !fs.ValidPath(name) || name == "." {
			continue // which nobody finds
		}
		entry := fs.FileInfoToDirEntry(info{path.Base(name), int64(len(text)), false})
		for {
			dir := path.Dir(name)
			_, known := t.dirs[dir]
			t.dirs[dir] = append(t.dirs[dir], entry)
			if known {
				break
			}
			name, entry = dir, fs.FileInfoToDirEntry(info{path.Base(dir), 0, true})
		}
	}
	for _, entries := range t.dirs {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return t
}

// Open implements fs.FS.
func (t tree) Open(name string) (fs.File, error) {
	if entries, ok := t.dirs[name]; ok {
		return &opened{info: info{path.Base(name), 0, true}, rest: entries}, nil
	}
	text, err := t.ReadFile(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &opened{bytes.NewReader(text), info{path.Base(name), int64(len(text)), false}, nil}, nil
}

// ReadFile implements fs.ReadFileFS.
func (t tree) ReadFile(name string) ([]byte, error) {
	if text, ok := t.files[name]; ok && fs.ValidPath(name) {
		return bytes.Clone(text), nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if entries, ok := t.dirs[name]; ok {
		return slices.Clone(entries), nil
	}
	return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
}

// Hash implements gitstate.HashFS, for files.
func (t tree) Hash(name string) (string, error) {
	text, ok := t.files[name]
	if !ok || !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "hash", Path: name, Err: fs.ErrNotExist}
	}
	sum := canonical.Blob(text)
	return hex.EncodeToString(sum[:]), nil
}

// opened is a file or a folder.
type opened struct {
	*bytes.Reader // nil for a folder
	info          info
	rest          []fs.DirEntry
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *opened) Close() error               { return nil }

func (o *opened) Read(b []byte) (int, error) {
	if o.Reader == nil {
		return 0, &fs.PathError{Op: "read", Path: o.info.name, Err: fs.ErrInvalid}
	}
	return o.Reader.Read(b)
}

// ReadDir implements fs.ReadDirFile.
func (o *opened) ReadDir(n int) ([]fs.DirEntry, error) {
	switch {
	case o.Reader != nil:
		return nil, &fs.PathError{Op: "readdir", Path: o.info.name, Err: fs.ErrInvalid}
	case n <= 0:
		n = len(o.rest)
	case len(o.rest) == 0:
		return nil, io.EOF
	}
	n = min(n, len(o.rest))
	entries := o.rest[:n:n]
	o.rest = o.rest[n:]
	return entries, nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
