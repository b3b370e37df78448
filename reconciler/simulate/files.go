package simulate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/api/canonical"
)

// Files is a tree in memory, by slash-separated path. It knows the hashes of its files, which are
// those of Git, and of its folders.
type Files map[string][]byte

// Open implements fs.FS.
func (f Files) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if data, ok := f[name]; ok {
		return &opened{info{path.Base(name), int64(len(data)), false}, bytes.NewReader(data), nil}, nil
	}
	entries := f.entries(name)
	if len(entries) == 0 && name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &opened{info{path.Base(name), 0, true}, nil, entries}, nil
}

// ReadFile implements fs.ReadFileFS.
func (f Files) ReadFile(name string) ([]byte, error) {
	if data, ok := f[name]; ok {
		return slices.Clone(data), nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (f Files) ReadDir(name string) ([]fs.DirEntry, error) {
	entries := f.entries(name)
	if len(entries) == 0 && name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return entries, nil
}

// Hash implements gitstate.HashFS.
func (f Files) Hash(name string) (string, error) {
	if data, ok := f[name]; ok {
		blob := canonical.Blob(data)
		return hex.EncodeToString(blob[:]), nil
	}
	sum := sha256.New()
	found := false
	for _, p := range slices.Sorted(maps.Keys(f)) {
		if below, ok := strings.CutPrefix(p, name+"/"); ok || name == "." {
			found = true
			if name == "." {
				below = p
			}
			one := canonical.Blob(f[p])
			io.WriteString(sum, below+"\x00"+hex.EncodeToString(one[:])+"\n")
		}
	}
	if !found && name != "." {
		return "", &fs.PathError{Op: "hash", Path: name, Err: fs.ErrNotExist}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// entries are the files and folders of a folder, by name.
func (f Files) entries(dir string) []fs.DirEntry {
	found := map[string]info{}
	for p, data := range f {
		rest := p
		if dir != "." {
			var below bool
			if rest, below = strings.CutPrefix(p, dir+"/"); !below {
				continue
			}
		}
		name, _, deep := strings.Cut(rest, "/")
		if deep {
			found[name] = info{name, 0, true}
		} else {
			found[name] = info{name, int64(len(data)), false}
		}
	}
	var entries []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(found)) {
		entries = append(entries, fs.FileInfoToDirEntry(found[name]))
	}
	return entries
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

type opened struct {
	info
	*bytes.Reader
	entries []fs.DirEntry
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *opened) Close() error               { return nil }
func (o *opened) Size() int64                { return o.info.size }
func (o *opened) Read(b []byte) (int, error) {
	if o.Reader == nil {
		return 0, &fs.PathError{Op: "read", Path: o.info.name, Err: fs.ErrInvalid}
	}
	return o.Reader.Read(b)
}

func (o *opened) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(o.entries) {
		if n > 0 && len(o.entries) == 0 {
			return nil, io.EOF
		}
		n = len(o.entries)
	}
	list := o.entries[:n]
	o.entries = o.entries[n:]
	return list, nil
}
