package remote

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// localBackend serves a repository of this machine in this process.
type localBackend struct{ path string }

func (b localBackend) open(p pulse, _ string) (session, error) {
	head, common, err := locate(b.path)
	if err != nil {
		return nil, err
	}
	refs, err := listRefs(common)
	if err != nil {
		return nil, err
	}
	found := &Advertisement{Refs: refs}
	hash, target, err := readLoose(head, headRef)
	switch {
	case err != nil:
		return nil, err
	case target != "":
		found.DefaultBranch, _ = strings.CutPrefix(target, "refs/heads/")
		hash = refs[target]
	}
	if !hash.IsZero() {
		refs[headRef] = hash
	}
	return &local{p, common, found, nil}, nil
}

// Local returns where the objects and refs of a repository of this machine are; empty for any other remote, and for
// one that cannot be read in place.
func (r *Remote) Local() string {
	dir, err := r.InPlace()
	if err != nil {
		return ""
	}
	return dir
}

// InPlace is Local with why it is empty: the error is ErrNotFound if the repository is not there, or not on this machine.
func (r *Remote) InPlace() (dir string, err error) {
	b, ok := r.backend.(localBackend)
	if !ok {
		return "", fmt.Errorf("%w on this machine", ErrNotFound)
	}
	_, common, err := locate(b.path)
	return common, err
}

// local is a session with a repository of this machine.
type local struct {
	pulse pulse
	dir   string
	found *Advertisement
	end   func() // of the goroutine that writes the pack, nil if there is none
}

func (l *local) advertised() *Advertisement { return l.found }

func (l *local) Close() {
	if l.end != nil {
		l.end()
	}
}

// fetch makes a pack of what the clone lacks. Nothing is compressed well: it is read at once.
func (l *local) fetch(wants []plumbing.Hash, into *clone) (io.Reader, error) {
	from := openClone(l.dir)
	missing, err := from.missing(l.pulse, wants, into)
	if err != nil {
		from.close()
		return nil, err
	}
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		writer.CloseWithError(from.writePack(writer, missing))
		from.close()
		close(done)
	}()
	l.end = func() {
		reader.Close()
		<-done
	}
	return l.pulse.reader(reader), nil
}

// missing lists what is reachable from wants and not in the clone. What the clone has it has with
// all that belongs to it, so the walk ends there.
func (c *clone) missing(p pulse, wants []plumbing.Hash, into *clone) ([]plumbing.Hash, error) {
	seen := map[plumbing.Hash]bool{}
	var found []plumbing.Hash
	add := func(hashes ...plumbing.Hash) {
		for _, hash := range hashes {
			if !seen[hash] && !into.has(hash) {
				seen[hash] = true
				found = append(found, hash)
			}
		}
	}
	add(wants...)
	for i := 0; i < len(found); i++ {
		if p.Err() != nil {
			return nil, context.Cause(p)
		}
		p.beat()
		encoded, err := c.storage.EncodedObject(plumbing.AnyObject, found[i])
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", found[i], err)
		}
		switch encoded.Type() {
		case plumbing.CommitObject:
			commit, err := object.DecodeCommit(c.storage, encoded)
			if err != nil {
				return nil, fmt.Errorf("commit %s: %w", found[i], err)
			}
			add(commit.TreeHash)
			add(commit.ParentHashes...)
		case plumbing.TreeObject:
			tree, err := object.DecodeTree(c.storage, encoded)
			if err != nil {
				return nil, fmt.Errorf("tree %s: %w", found[i], err)
			}
			for _, entry := range tree.Entries {
				if entry.Mode != filemode.Submodule {
					add(entry.Hash)
				}
			}
		case plumbing.TagObject:
			tag, err := object.DecodeTag(c.storage, encoded)
			if err != nil {
				return nil, fmt.Errorf("tag %s: %w", found[i], err)
			}
			add(tag.Target)
		}
	}
	return found, nil
}

// writePack writes the objects as a pack without deltas.
func (c *clone) writePack(w io.Writer, objects []plumbing.Hash) error {
	sum := sha1.New()
	w = io.MultiWriter(w, sum)
	if _, err := w.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))); err != nil {
		return err
	}
	deflate, err := zlib.NewWriterLevel(w, zlib.BestSpeed)
	if err != nil {
		return err
	}
	for _, hash := range objects {
		encoded, err := c.storage.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return fmt.Errorf("object %s: %w", hash, err)
		}
		if _, err := w.Write(objectHeader(encoded.Type(), encoded.Size())); err != nil {
			return err
		}
		deflate.Reset(w)
		if err := copyObject(deflate, encoded); err != nil {
			return fmt.Errorf("object %s: %w", hash, err)
		}
		if err := deflate.Close(); err != nil {
			return err
		}
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

func copyObject(w io.Writer, encoded plumbing.EncodedObject) error {
	reader, err := encoded.Reader()
	if err != nil {
		return err
	}
	defer reader.Close()
	_, err = io.Copy(w, reader)
	return err
}

// objectHeader is the type and the size of an object as a pack has them.
func objectHeader(kind plumbing.ObjectType, size int64) []byte {
	head := []byte{byte(kind)<<4 | byte(size&0xf)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	return head
}

// push stores the pack and moves the ref as git's receive-pack would, but for hooks.
func (l *local) push(ref string, old, new plumbing.Hash, objects io.Reader) error {
	if new.IsZero() {
		return fmt.Errorf("%w: refs of a local repository are not deleted here", ErrRefused)
	}
	if err := l.checkedOut(ref); err != nil {
		return err
	}
	if objects == nil {
		objects = bytes.NewReader(emptyPack())
	}
	if err := StorePack(l.dir, l.pulse.reader(objects), 1<<62/maxInflation); err != nil {
		return err
	}
	// Others may be storing packs at this moment: a pack whose index is still to come must not be in the way.
	now, err := pack.OpenObjects(l.dir)
	if err != nil {
		return err
	}
	defer now.Close()
	if !now.Has(new) {
		return fmt.Errorf("%w: the pack does not hold %s", ErrRefused, new)
	}
	if l.pulse.Err() != nil {
		return context.Cause(l.pulse)
	}
	err = UpdateRef(l.dir, ref, old, new)
	if errors.Is(err, ErrRefMoved) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// checkedOut refuses to move a branch below a work tree, as git does: its files would look changed.
func (l *local) checkedOut(ref string) error {
	trees, err := filepath.Glob(filepath.Join(l.dir, "worktrees", "*"))
	if err != nil {
		return err
	}
	config, err := OpenStorage(l.dir).Config()
	if err != nil {
		return err
	}
	if !config.Core.IsBare {
		trees = append(trees, l.dir)
	}
	for _, tree := range trees {
		_, target, err := readLoose(tree, headRef)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if target == ref {
			return fmt.Errorf("%w: %s is checked out in a work tree of %s", ErrRefused, ref, l.dir)
		}
	}
	return nil
}
