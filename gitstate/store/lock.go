package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// ErrInUse says that a clone, or the part of it that was asked for, has an owner.
var ErrInUse = errors.New("in use")

// lockFile lies in the clone. It is never removed: who locked a removed file would own nothing.
const lockFile = "godwit.lock"

// owners are the clones this process owns.
var owners = struct {
	sync.Mutex
	of map[string]*owner
}{of: map[string]*owner{}}

type owner struct {
	file  *os.File
	parts map[string]bool
}

// Own makes this process the owner of the clone at dir, until the last part of it is released. Within the process
// each part, such as "branch godwit/state", has one owner. It does not wait: the error is ErrInUse. first says that
// no other part was owned, so nobody is writing. The kernel releases a clone whose owner dies.
func Own(dir, part string) (release func(), first bool, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, false, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, false, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, false, err
	}
	owners.Lock()
	defer owners.Unlock()
	o := owners.of[dir]
	if first = o == nil; first {
		file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, false, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = fmt.Errorf("%s: %w by another process: stop that one, or give this one a directory of its own", dir, ErrInUse)
			}
			return nil, false, err
		}
		o = &owner{file, map[string]bool{}}
		owners.of[dir] = o
	}
	if o.parts[part] {
		return nil, false, fmt.Errorf("%s: %s: %w in this process", dir, part, ErrInUse)
	}
	o.parts[part] = true
	return sync.OnceFunc(func() {
		owners.Lock()
		defer owners.Unlock()
		if delete(o.parts, part); len(o.parts) == 0 {
			delete(owners.of, dir)
			// Closing is not enough: a child that is being started holds a copy of the file until it runs.
			syscall.Flock(int(o.file.Fd()), syscall.LOCK_UN)
			o.file.Close()
		}
	}), first, nil
}
