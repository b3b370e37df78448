package source

import (
	"errors"
	"io/fs"
	"path"

	"github.com/godwit-gitops/godwit/gitstate"
)

// Changed names the files of after that before does not have with the same content; a nil before has none. Folders with equal
// hashes are not looked into, and no file is read.
func Changed(before, after gitstate.HashFS) (map[string]bool, error) {
	found := map[string]bool{}
	var walk func(dir string) error
	walk = func(dir string) error {
		if same(before, after, dir) {
			return nil
		}
		entries, err := fs.ReadDir(after, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				if err := walk(name); err != nil {
					return err
				}
			} else if !same(before, after, name) {
				found[name] = true
			}
		}
		return nil
	}
	return found, walk(".")
}

// same tells whether a name has the same content. A link that leads nowhere is known by its text.
func same(before, after gitstate.HashFS, name string) bool {
	if before == nil {
		return false
	}
	a, errA := before.Hash(name)
	b, errB := after.Hash(name)
	if errA == nil && errB == nil {
		return a == b
	}
	if errA == nil || errB == nil {
		return false
	}
	a, errA = fs.ReadLink(before, name)
	b, errB = fs.ReadLink(after, name)
	return errors.Join(errA, errB) == nil && a == b
}
