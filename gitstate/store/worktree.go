package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

// Errors of CommitFile that leave everything as it was.
var (
	// ErrUncommitted says that a file is not on disk, or not staged, as it was committed last.
	ErrUncommitted = errors.New("has changes that are not committed")
	// ErrNoBranch says that a work tree is on no branch.
	ErrNoBranch = errors.New("no branch is checked out")
)

// CommitFile commits new content of one file that a person works on, to the branch that is checked out in the work
// tree at root, and returns the branch and the commit. The file on disk and its entry in the index change along; all
// else that is changed or staged there stays so, and is not in the commit. Name is relative to root, with slashes; the
// file has to be as it was committed; one that is nowhere is made, and nil data removes it. If somebody else commits
// meanwhile, the error is gitstate.ErrConflict and the file is as before. Hooks are not run.
func CommitFile(root, name string, data []byte, who Signature, m Message) (branch string, head gitstate.Revision, err error) {
	dir, common, err := remote.Locate(root)
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil {
		return "", "", err
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: ")
	if branch, ok = strings.CutPrefix(ref, "refs/heads/"); !ok {
		return "", "", fmt.Errorf("%s: %w", root, ErrNoBranch)
	}
	w := workTree{root: root, dir: dir, common: common, ref: ref, name: name}
	if head, err = w.commit(data, who, m); err != nil {
		return "", "", fmt.Errorf("commit %s in %s: %w", name, root, err)
	}
	return branch, head, nil
}

type workTree struct{ root, dir, common, ref, name string }

func (w *workTree) commit(data []byte, who Signature, m Message) (gitstate.Revision, error) {
	at, err := readRef(w.common, w.ref)
	if err != nil {
		return "", err
	}
	objects, err := pack.OpenObjects(w.common)
	if err != nil {
		return "", err
	}
	s := &Store{objects: objects}
	defer s.closeObjects()
	root, err := s.rootOf(at)
	if err != nil {
		return "", err
	}
	n, err := root.lookup(w.name)
	if err != nil {
		return "", err
	}
	staged, err := lockIndex(w.dir)
	if err != nil {
		return "", err
	}
	defer staged.abandon()
	file := filepath.Join(w.root, filepath.FromSlash(w.name))
	was, mode, err := w.before(file, n, staged, data == nil)
	if err != nil {
		return "", err
	}

	b := newBuilder(objects)
	change := edit{path: w.name}
	if data != nil {
		blob := pack.New(pack.Blob, data)
		b.add(blob)
		change.Entry = pack.Entry{Mode: pack.ModeFile, Hash: blob.Hash}
		if n != nil {
			change.Mode = n.Mode
		}
	}
	tree, err := b.apply(root, 0, []edit{change})
	if err != nil {
		return "", err
	}
	stamped := stamp(who, m.When)
	c := &commit{tree: tree.hash, parents: []plumbing.Hash{at}, author: stamped, committer: stamped, message: m.Format()}
	object, err := c.encode(nil)
	if err != nil {
		return "", err
	}
	b.add(object)
	if _, err := pack.Save(w.common, len(b.made), nil, func(p *pack.Writer) error { return p.WriteAll(b.made) }); err != nil {
		return "", err
	}
	if err := put(file, data, mode); err != nil {
		return "", err
	}
	if err = w.stage(file, data, change.Hash, staged); err == nil {
		err = remote.UpdateRef(w.common, w.ref, at, object.Hash)
	}
	if err != nil {
		if errors.Is(err, remote.ErrRefMoved) {
			err = fmt.Errorf("%w: %w", gitstate.ErrConflict, err)
		}
		return "", errors.Join(err, put(file, was, mode))
	}
	return revision(object.Hash), staged.use()
}

// before checks that the file is everywhere as it was committed last, and returns what it holds; nil if it is nowhere.
func (w *workTree) before(file string, n *node, staged *lockedIndex, remove bool) (was []byte, mode fs.FileMode, err error) {
	entry, missing := staged.Entry(w.name)
	if n == nil {
		_, err := os.Lstat(file)
		switch {
		case remove:
			return nil, 0, fmt.Errorf("the file %w: it is not in the last commit", ErrUncommitted)
		case missing == nil, !errors.Is(err, fs.ErrNotExist):
			return nil, 0, fmt.Errorf("the file %w: it is there, and not in the last commit", ErrUncommitted)
		}
		return nil, 0o644, nil
	}
	if n.Mode != pack.ModeFile && n.Mode != pack.ModeExecutable {
		return nil, 0, errors.New("it is no regular file")
	}
	if was, mode, err = readRegular(file); err != nil {
		return nil, 0, err
	}
	if pack.Sum(pack.Blob, was) != n.Hash {
		return nil, 0, fmt.Errorf("the file %w", ErrUncommitted)
	}
	if missing != nil || entry.Hash != n.Hash || entry.Stage != 0 {
		return nil, 0, fmt.Errorf("the file %w: it is staged otherwise", ErrUncommitted)
	}
	return was, mode, nil
}

// stage writes the index with the file as it is on disk now.
func (w *workTree) stage(file string, data []byte, hash plumbing.Hash, staged *lockedIndex) error {
	if data == nil {
		if _, err := staged.Remove(w.name); err != nil {
			return err
		}
		return staged.write()
	}
	entry, err := staged.Entry(w.name)
	if err != nil {
		entry = staged.Add(w.name)
		entry.Mode = filemode.Regular
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	// Of what git remembers of a file on disk only this is set: it looks at the content where something is missing.
	*entry = index.Entry{Hash: hash, Name: entry.Name, Mode: entry.Mode, ModifiedAt: info.ModTime(), Size: uint32(len(data))}
	return staged.write()
}

// put makes a file of the work tree hold data; nil removes it, along with folders that are empty then.
func put(file string, data []byte, mode fs.FileMode) error {
	if data != nil {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return replace(file, data, mode)
	}
	err := os.Remove(file)
	for dir := filepath.Dir(file); err == nil && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
	return err
}

// readRegular reads a file that is no link.
func readRegular(file string) ([]byte, fs.FileMode, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is no regular file")
	}
	data, err := os.ReadFile(file)
	return data, info.Mode().Perm(), err
}

// replace puts a file in the place of another one, whole or not at all.
func replace(file string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".godwit-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// WriteFile makes a regular file in a folder without a repository hold data; nil removes it.
func WriteFile(file string, data []byte) error {
	_, mode, err := readRegular(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && data != nil:
		mode = 0o644
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	}
	if data == nil {
		return os.Remove(file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return replace(file, data, mode)
}

// lockedIndex is the index of a work tree, under git's lock.
type lockedIndex struct {
	index.Index
	path string
	lock *os.File
	used bool
}

func lockIndex(dir string) (_ *lockedIndex, err error) {
	x := &lockedIndex{path: filepath.Join(dir, "index")}
	if x.lock, err = os.OpenFile(x.path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("another Git process is at work there, or one crashed: %w", err)
		}
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // the decoder trusts its input
			err = fmt.Errorf("read the index: %v", p)
		}
		if err != nil {
			x.abandon()
		}
	}()
	info, err := os.Stat(x.path)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(x.path)
	if err != nil {
		return nil, err
	}
	if err := index.NewDecoder(bytes.NewReader(data)).Decode(&x.Index); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	// A file that was changed in the second in which the index was written looks to git as if it might be changed, by
	// the time of the index. A new index has another time: no size is git's word that its content has to be compared.
	for _, e := range x.Entries {
		if e.ModifiedAt.Unix() >= info.ModTime().Unix() {
			e.Size = 0
		}
	}
	return x, nil
}

// write makes the lock file what the index is to be.
func (x *lockedIndex) write() error {
	var buf bytes.Buffer
	err := index.NewEncoder(&buf).Encode(&x.Index)
	if err == nil {
		_, err = x.lock.Write(buf.Bytes())
	}
	if err = errors.Join(err, x.lock.Sync()); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	return nil
}

// use puts what was written in the place of the index.
func (x *lockedIndex) use() error {
	err := os.Rename(x.lock.Name(), x.path)
	x.used = err == nil
	return err
}

// abandon gives the lock back.
func (x *lockedIndex) abandon() {
	x.lock.Close()
	if !x.used {
		os.Remove(x.lock.Name())
	}
}
