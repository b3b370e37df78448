package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// tree shows an fs.FS to kustomize, at "/" and read only. Nothing else exists.
type tree struct {
	fsys fs.FS
	seen map[string]bool // the files that were read
	left *int            // bytes that may be read; files count as often as they are
}

// name is the path as fs.FS has it. "/.." is "/", so nothing leads out.
func name(p string) string {
	if p = path.Clean("/" + p)[1:]; p == "" {
		return "."
	}
	return p
}

func (t tree) ReadFile(p string) ([]byte, error) {
	t.seen[name(p)] = true
	data, err := read(t.fsys, name(p))
	if *t.left -= len(data); err == nil && *t.left < 0 {
		return nil, errTooMuch
	}
	return data, err
}

func (t tree) Open(p string) (filesys.File, error) {
	t.seen[name(p)] = true
	f, err := t.fsys.Open(name(p))
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (t tree) IsDir(p string) bool {
	info, err := fs.Stat(t.fsys, name(p))
	return err == nil && info.IsDir()
}

func (t tree) Exists(p string) bool {
	_, err := fs.Stat(t.fsys, name(p))
	return err == nil
}

func (t tree) ReadDir(p string) (names []string, err error) {
	entries, err := fs.ReadDir(t.fsys, name(p))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (t tree) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	info, err := fs.Stat(t.fsys, name(p))
	if err != nil {
		return "", "", err
	}
	abs := path.Clean("/" + p)
	if info.IsDir() {
		return filesys.ConfirmedDir(abs), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(abs)), path.Base(abs), nil
}

func (t tree) Glob(pattern string) ([]string, error) {
	names, err := fs.Glob(t.fsys, strings.TrimPrefix(pattern, "/"))
	for i := range names {
		names[i] = "/" + names[i]
	}
	return names, err
}

func (t tree) Walk(p string, walk filepath.WalkFunc) error {
	return fs.WalkDir(t.fsys, name(p), func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return walk("/"+p, nil, err)
		}
		info, err := e.Info()
		return walk("/"+p, info, err)
	})
}

// errTooMuch: a few files stand for more than anybody has to hold.
var errTooMuch = fmt.Errorf("it reads more than %d bytes, each file counted as often as it is named", maxRead)

var errReadOnly = errors.New("the source is read only")

func (tree) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (tree) Mkdir(string) error                  { return errReadOnly }
func (tree) MkdirAll(string) error               { return errReadOnly }
func (tree) RemoveAll(string) error              { return errReadOnly }
func (tree) WriteFile(string, []byte) error      { return errReadOnly }

type file struct{ fs.File }

func (file) Write([]byte) (int, error) { return 0, errReadOnly }

// maxBytes limits a file.
const maxBytes = 4 << 20

// read reads a file that kustomize may read: neither too large nor an alias bomb, which kustomize would let go off.
func read(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxBytes)
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if explodes(data) {
		return nil, fmt.Errorf("%s: its aliases stand for more than %d values", name, maxNodes)
	}
	return data, nil
}
