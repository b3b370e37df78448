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
// file has to be as it was committed. If somebody else commits meanwhile, the error is gitstate.ErrConflict and the
// file is as before. Hooks are not run.
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
	switch {
	case err != nil:
		return "", err
	case n == nil:
		return "", fmt.Errorf("the file %w: it is not in the last commit", ErrUncommitted)
	case n.Mode != pack.ModeFile && n.Mode != pack.ModeExecutable:
		return "", errors.New("it is no regular file")
	}
	file := filepath.Join(w.root, filepath.FromSlash(w.name))
	was, mode, err := readRegular(file)
	if err != nil {
		return "", err
	}
	if pack.Sum(pack.Blob, was) != n.Hash {
		return "", fmt.Errorf("the file %w", ErrUncommitted)
	}
	blob := pack.New(pack.Blob, data)
	staged, err := lockIndex(w.dir)
	if err != nil {
		return "", err
	}
	defer staged.abandon()
	entry, err := staged.Entry(w.name)
	if err != nil || entry.Hash != n.Hash || entry.Stage != 0 {
		return "", fmt.Errorf("the file %w: it is staged otherwise", ErrUncommitted)
	}

	b := newBuilder(objects)
	b.add(blob)
	tree, err := b.apply(root, 0, []edit{{w.name, pack.Entry{Mode: n.Mode, Hash: blob.Hash}}})
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
	if err := replace(file, data, mode); err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err == nil {
		// Of what git remembers of a file on disk only this is set: it looks at the content where something is missing.
		*entry = index.Entry{Hash: blob.Hash, Name: entry.Name, Mode: entry.Mode, ModifiedAt: info.ModTime(), Size: uint32(len(data))}
		err = staged.write()
	}
	if err == nil {
		err = remote.UpdateRef(w.common, w.ref, at, object.Hash)
	}
	if err != nil {
		if errors.Is(err, remote.ErrRefMoved) {
			err = fmt.Errorf("%w: %w", gitstate.ErrConflict, err)
		}
		return "", errors.Join(err, replace(file, was, mode))
	}
	return revision(object.Hash), staged.use()
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

// WriteFile replaces the content of a regular file in a folder without a repository.
func WriteFile(file string, data []byte) error {
	_, mode, err := readRegular(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
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
