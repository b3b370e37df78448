package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/regular"
)

const headRef = "HEAD"

// lockPatience is how long a ref that somebody else is writing is waited for.
const lockPatience = 3 * time.Second

// ReadRef returns what a ref of the repository at repoDir (a bare one, or a .git folder) points to,
// through symbolic refs. The error is ErrNotFound if there is none and ErrDamaged if its file
// cannot be read as a ref, as after a crash of a writer less careful than this one.
func ReadRef(repoDir, ref string) (plumbing.Hash, error) {
	for range 5 {
		hash, target, err := readLoose(repoDir, ref)
		if errors.Is(err, fs.ErrNotExist) {
			return readPacked(repoDir, ref)
		}
		if err != nil || target == "" {
			return hash, err
		}
		ref = target
	}
	return plumbing.ZeroHash, fmt.Errorf("ref %s: %w: too many symbolic refs", ref, ErrDamaged)
}

// readLoose reads a ref's own file: a hash, or the ref it stands for.
func readLoose(repoDir, ref string) (hash plumbing.Hash, target string, err error) {
	text, err := regular.ReadFile(refPath(repoDir, ref), maxLink)
	switch {
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return hash, "", fs.ErrNotExist // a folder of other refs, or below another ref
	case err != nil:
		return hash, "", err
	}
	line := strings.TrimSpace(string(text))
	if target, ok := strings.CutPrefix(line, "ref:"); ok {
		target = strings.TrimSpace(target)
		return hash, target, checkRefName(target)
	}
	if !plumbing.IsHash(line) {
		return hash, "", fmt.Errorf("ref %s: %w: its file holds no hash", ref, ErrDamaged)
	}
	return plumbing.NewHash(line), "", nil
}

func readPacked(repoDir, ref string) (found plumbing.Hash, err error) {
	err = eachPacked(repoDir, func(name string, hash plumbing.Hash) {
		if name == ref {
			found = hash
		}
	})
	if err == nil && found.IsZero() {
		err = fmt.Errorf("ref %s: %w", ref, ErrNotFound)
	}
	return found, err
}

// maxRefs is as much as the names of millions of refs need.
const maxRefs = 1 << 30

// eachPacked calls visit for each ref of the packed-refs file, if there is one.
func eachPacked(repoDir string, visit func(name string, hash plumbing.Hash)) error {
	text, err := regular.ReadFile(filepath.Join(repoDir, "packed-refs"), maxRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		hash, name, ok := strings.Cut(lines.Text(), " ")
		switch {
		case strings.HasPrefix(hash, "#"), strings.HasPrefix(hash, "^"):
		case !ok || !plumbing.IsHash(hash):
			return fmt.Errorf("packed-refs: %w: a line holds no hash", ErrDamaged)
		default:
			visit(name, plumbing.NewHash(hash))
		}
	}
	return lines.Err()
}

// listRefs returns all refs below refs/ that point to something.
func listRefs(repoDir string) (map[string]plumbing.Hash, error) {
	all := map[string]plumbing.Hash{}
	root := filepath.Join(repoDir, "refs")
	// Loose first: a ref that is packed meanwhile is then seen twice and not missed.
	loose := map[string]plumbing.Hash{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || strings.HasSuffix(path, ".lock")) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repoDir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		hash, err := ReadRef(repoDir, name)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		loose[name] = hash
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := eachPacked(repoDir, func(name string, hash plumbing.Hash) { all[name] = hash }); err != nil {
		return nil, err
	}
	for name, hash := range loose {
		all[name] = hash
	}
	return all, nil
}

// UpdateRef moves a ref of the repository at repoDir from old to new and is durable when it returns.
// A zero old means that the ref must not exist yet. If it is anywhere else, nothing changes and the
// error is ErrRefMoved. It keeps git's lock, so it may race with git and with other processes; for a
// lock that somebody else holds it waits up to three seconds.
func UpdateRef(repoDir, ref string, old, new plumbing.Hash) error {
	return writeRef(repoDir, ref, new, func(at plumbing.Hash) error {
		if at != old {
			return fmt.Errorf("%w: it is at %s and not at %s", ErrRefMoved, at, old)
		}
		return nil
	})
}

// forceRef moves a ref wherever it was, also if its file is damaged.
func forceRef(repoDir, ref string, to plumbing.Hash) error {
	if at, err := ReadRef(repoDir, ref); err == nil && at == to {
		return nil
	}
	return writeRef(repoDir, ref, to, nil)
}

// writeRef moves a ref under its lock if allow, told where it is, returns nil. A nil allow always does.
func writeRef(repoDir, ref string, to plumbing.Hash, allow func(at plumbing.Hash) error) (err error) {
	if err := checkRefName(ref); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("ref %s: %w", ref, err)
		}
	}()
	if to.IsZero() {
		return errors.New("a ref cannot point to nothing")
	}
	path := refPath(repoDir, ref)
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		lock.Close()
		if !renamed {
			os.Remove(lock.Name())
		}
	}()
	// Only under the lock does what is read stay true.
	at, target, err := readLoose(repoDir, ref)
	if errors.Is(err, fs.ErrNotExist) {
		if at, err = readPacked(repoDir, ref); errors.Is(err, ErrNotFound) {
			err = checkFree(repoDir, ref)
		}
	}
	switch {
	case target != "":
		return fmt.Errorf("it stands for %s; write that one", target)
	case allow == nil && errors.Is(err, ErrDamaged):
	case err != nil:
		return err
	}
	if allow != nil {
		if err := allow(at); err != nil {
			return err
		}
	}
	if _, err := lock.WriteString(to.String() + "\n"); err != nil {
		return err
	}
	if err := lock.Sync(); err != nil {
		return err
	}
	if err := os.Rename(lock.Name(), path); err != nil {
		// A folder that once held refs may be in the way. It goes if it is empty.
		if !removeEmpty(path) {
			return err
		}
		if err := os.Rename(lock.Name(), path); err != nil {
			return err
		}
	}
	renamed = true
	return syncDir(filepath.Dir(path))
}

// takeLock creates the lock file, as git does, and waits a little if it is there.
func takeLock(path string) (*os.File, error) {
	deadline := time.Now().Add(lockPatience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		lock, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		switch {
		case err == nil:
			return lock, nil
		case errors.Is(err, fs.ErrNotExist):
			// Git removes folders that became empty; one may go between these two lines.
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return nil, err
			}
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%s has been there for %s; if no Git process is at work, one crashed: remove the file", path, lockPatience)
		default:
			time.Sleep(wait/2 + rand.N(wait))
		}
	}
}

// checkFree refuses a new ref where git could not store it: below another ref, or above one.
func checkFree(repoDir, ref string) error {
	taken := ""
	err := eachPacked(repoDir, func(name string, _ plumbing.Hash) {
		if strings.HasPrefix(name, ref+"/") || strings.HasPrefix(ref, name+"/") {
			taken = name
		}
	})
	if err == nil && taken != "" {
		err = fmt.Errorf("%s is in the way", taken)
	}
	return err
}

// removeEmpty removes a folder of folders without files, deepest first.
func removeEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if !entry.IsDir() || !removeEmpty(filepath.Join(path, entry.Name())) {
			return false
		}
	}
	return os.Remove(path) == nil
}

// checkRefName accepts full names below refs/, and HEAD nowhere.
func checkRefName(ref string) error {
	if !strings.HasPrefix(ref, "refs/") {
		return fmt.Errorf("ref %q: a full name such as refs/heads/main is needed", ref)
	}
	if err := plumbing.ReferenceName(ref).Validate(); err != nil {
		return fmt.Errorf("ref %q: %w", ref, err)
	}
	return nil
}

func refPath(repoDir, ref string) string { return filepath.Join(repoDir, filepath.FromSlash(ref)) }

// syncDir makes renames in a folder durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
