package pack

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// temporary is how the names of unfinished files begin.
const temporary = "tmp_godwit_"

// Dir is where a repository keeps its packs.
func Dir(repo string) string { return filepath.Join(repo, "objects", "pack") }

// Count is how many packs a repository has, as of now. It reads names alone.
func Count(repo string) (int, error) {
	packs, err := filepath.Glob(filepath.Join(Dir(repo), "pack-*.pack"))
	return len(packs), err
}

// Save writes a pack of the n objects that fill adds, and its index, into a repository. When it returns both are
// durable; before, the pack is invisible: it is renamed into place before its index, after both are on disk.
//
// at, if not nil, is told each step that was done: "objects-written", "pack-renamed", "index-renamed". The name
// returned has no extension.
func Save(repo string, n int, at func(step string), fill func(*Writer) error) (name string, err error) {
	if at == nil {
		at = func(string) {}
	}
	dir := Dir(repo)
	var sum fmt.Stringer
	var index []byte
	packed, err := writeTemp(dir, func(f *os.File) error {
		buffered := bufio.NewWriterSize(f, 1<<16)
		w := NewWriter(buffered, n)
		if err := fill(w); err != nil {
			return err
		}
		hash, err := w.Close()
		if err != nil {
			return err
		}
		sum = hash
		if index, err = w.index(hash); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return "", fmt.Errorf("write pack: %w", err)
	}
	indexed, err := writeTemp(dir, func(f *os.File) error {
		_, err := f.Write(index)
		return err
	})
	if err != nil {
		os.Remove(packed)
		return "", fmt.Errorf("write pack index: %w", err)
	}
	at("objects-written")
	name = filepath.Join(dir, "pack-"+sum.String())
	for _, move := range []struct{ from, to, step string }{
		{packed, name + ".pack", "pack-renamed"},
		{indexed, name + ".idx", "index-renamed"},
	} {
		if err == nil {
			err = os.Rename(move.from, move.to)
		}
		if err != nil {
			os.Remove(move.from)
			continue
		}
		at(move.step)
	}
	if err != nil {
		return "", fmt.Errorf("write pack: %w", err)
	}
	return name, SyncDir(dir)
}

// writeTemp makes a file that is durable, though its name is not.
func writeTemp(dir string, fill func(*os.File) error) (name string, err error) {
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return "", err
	}
	if err := f.Chmod(0o444); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Sweep removes what processes that died in [Save] or [Objects.Consolidate] left behind: temporary files, and packs
// and indexes without the other. Nobody may be writing to the repository, and it should be known to be sound: where
// an index got lost, its pack is all there is.
func Sweep(repo string) error {
	files, err := os.ReadDir(Dir(repo))
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name()] = true
	}
	other := map[string]string{".pack": ".idx", ".idx": ".pack"}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		half := strings.HasPrefix(f.Name(), "pack-") && other[ext] != "" && !there[strings.TrimSuffix(f.Name(), ext)+other[ext]]
		if half || strings.HasPrefix(f.Name(), temporary) {
			if err := os.Remove(filepath.Join(Dir(repo), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
