package remote

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// maxObject is the size of the largest object that is stored. Indexing holds objects in memory.
	maxObject = 512 << 20
	// maxInflation bounds what a pack may inflate to, as a multiple of the bytes it may have.
	maxInflation = 16
	// tempPack is how git names packs in the making; its gc removes old ones.
	tempPack = "tmp_pack_"
)

// emptyPack is a pack without objects: what a push sends when the server has them all.
func emptyPack() []byte {
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 0)
	sum := sha1.Sum(head)
	return append(head, sum[:]...)
}

// StorePack writes a pack of at most limit bytes into the repository at dir and indexes it. Both files
// are durable when it returns. On an error nothing stays.
func StorePack(dir string, pack io.Reader, limit int64) error {
	return storeWithin(dir, pack, limits{bytes: limit, object: maxObject})
}

// limits of a pack: its bytes, those of each object, and how many objects; 0 objects means any number.
type limits struct {
	bytes, object int64
	objects       uint32
}

func storeWithin(dir string, pack io.Reader, most limits) (err error) {
	folder := filepath.Join(dir, "objects", "pack")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, tempPack)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()

	// go-git's readers have panicked on crafted input before.
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the pack is malformed: %v", broken)
		}
	}()
	bounded := &bounded{r: pack, left: most.bytes}
	objects, sum, err := scan(io.TeeReader(bounded, file), most)
	if err == nil {
		err = checkEnd(file, bounded, sum)
	}
	switch {
	case bounded.err != nil:
		return bounded.err // what the scan made of it says less
	case err != nil:
		return fmt.Errorf("the pack is malformed: %w", err)
	case objects == 0:
		return nil
	}
	name, index, err := indexPack(file)
	if err != nil {
		return fmt.Errorf("the pack is malformed: %w", err)
	}
	return keep(folder, name, file, index)
}

// scan reads a pack and refuses too many objects, and objects and deltas that would become too large. It returns
// the number of objects and the checksum at the end.
func scan(pack io.Reader, most limits) (count uint32, sum plumbing.Hash, err error) {
	scanner := packfile.NewScanner(pack)
	if _, count, err = scanner.Header(); err != nil {
		return 0, sum, err
	}
	if most.objects > 0 && count > most.objects {
		return 0, sum, fmt.Errorf("%w: %d objects", ErrTooLarge, count)
	}
	var total int64
	var start bytes.Buffer
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return 0, sum, err
		}
		if total += header.Length; header.Length < 0 || header.Length > most.object || total > maxInflation*most.bytes {
			return 0, sum, fmt.Errorf("%w: an object has %d bytes, all so far %d", ErrTooLarge, header.Length, total)
		}
		start.Reset()
		if _, _, err := scanner.NextObject(&first{&start, 2 * binary.MaxVarintLen64}); err != nil {
			return 0, sum, err
		}
		if header.Type.IsDelta() {
			// A delta begins with the size of its base and the size of what it makes.
			_, n := binary.Uvarint(start.Bytes())
			size, m := binary.Uvarint(start.Bytes()[max(n, 0):])
			if n <= 0 || m <= 0 || size > uint64(most.object) {
				return 0, sum, fmt.Errorf("%w: a delta makes %d bytes", ErrTooLarge, size)
			}
		}
	}
	sum, err = scanner.Checksum()
	return count, sum, err
}

// checkEnd refuses bytes after the checksum, where the pack ends.
func checkEnd(file *os.File, rest io.Reader, sum plumbing.Hash) error {
	if n, err := io.Copy(io.Discard, rest); n > 0 || err != nil {
		return errors.Join(err, fmt.Errorf("%d bytes after its end", n))
	}
	var end plumbing.Hash
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := file.ReadAt(end[:], size-int64(len(end))); err != nil || end != sum {
		return errors.Join(err, errors.New("bytes after its end"))
	}
	return nil
}

// indexPack reads a complete pack again and returns its name and its index.
func indexPack(file io.ReadSeeker) (plumbing.Hash, *idxfile.MemoryIndex, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return plumbing.ZeroHash, nil, err
	}
	writer := new(idxfile.Writer)
	parser, err := packfile.NewParser(packfile.NewScanner(file), writer)
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	name, err := parser.Parse()
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	index, err := writer.Index()
	return name, index, err
}

// keep gives a pack its name, and then its index, which makes its objects visible.
func keep(folder string, name plumbing.Hash, pack *os.File, index *idxfile.MemoryIndex) error {
	file, err := os.CreateTemp(folder, "tmp_idx_")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := idxfile.NewEncoder(file).Encode(index); err != nil {
		return err
	}
	for _, f := range []struct {
		file   *os.File
		suffix string
	}{{pack, ".pack"}, {file, ".idx"}} {
		if err := errors.Join(f.file.Chmod(0o444), f.file.Sync()); err != nil {
			return err
		}
		if err := os.Rename(f.file.Name(), filepath.Join(folder, "pack-"+name.String()+f.suffix)); err != nil {
			return err
		}
	}
	return syncDir(folder)
}

// Recover removes what a crash left in the repository at dir: packs in the making and locks of refs.
// Only its one owner may call it, while no other process writes there.
func Recover(dir string) error {
	remove := func(root string, stale func(name string) bool) error {
		return filepath.WalkDir(filepath.Join(dir, root), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() || !stale(d.Name()) {
				return err
			}
			return os.Remove(path)
		})
	}
	return errors.Join(
		remove("objects/pack", func(name string) bool { return strings.HasPrefix(name, "tmp_") }),
		remove("refs", func(name string) bool { return strings.HasSuffix(name, ".lock") }),
		remove("packed-refs.lock", func(string) bool { return true }),
	)
}

// bounded fails when more than left bytes are read.
type bounded struct {
	r    io.Reader
	left int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.err = fmt.Errorf("%w: the remote sends more than the allowed bytes", ErrTooLarge)
		return 0, b.err
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// first keeps the first bytes written and drops the rest.
type first struct {
	into *bytes.Buffer
	size int
}

func (f *first) Write(p []byte) (int, error) {
	if room := f.size - f.into.Len(); room > 0 {
		f.into.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
