package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/godwit-gitops/godwit/gitstate/regular"
)

// Init makes repoDir a bare repository if it is not one yet.
func Init(repoDir string) error {
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(repoDir, dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
		headRef:  "ref: refs/heads/main\n",
	} {
		file, err := os.OpenFile(filepath.Join(repoDir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := file.WriteString(text); err != nil {
			return errors.Join(err, file.Close())
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return syncDir(repoDir)
}

// clone is a repository on disk, opened for one operation: go-git's storage is neither safe for
// concurrent use nor does it see packs that came after it was opened.
type clone struct {
	dir     string
	storage *filesystem.Storage
}

// largeObject is the size from which objects are streamed and not read into memory.
const largeObject = 4 << 20

func openClone(dir string) *clone {
	return &clone{dir, OpenStorage(dir)}
}

// OpenStorage opens the objects of the repository at dir (a bare one, or a .git folder). The storage
// is not safe for concurrent use, and does not see packs stored after it was opened: open another.
// It holds packs open until it is closed.
func OpenStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(indexed{osfs.New(dir)}, cache.NewObjectLRU(16*cache.MiByte), filesystem.Options{
		LargeObjectThreshold: largeObject,
		KeepDescriptors:      true, // to open a pack for each object takes longer than to read it
		AlternatesFS:         osfs.New("/"),
	})
}

// indexed hides packs whose index is still to come, as git does: somebody is storing them at this moment, and
// go-git would take them for damage.
type indexed struct{ billy.Filesystem }

func (f indexed) ReadDir(dir string) ([]os.FileInfo, error) {
	all, err := f.Filesystem.ReadDir(dir)
	return slices.DeleteFunc(slices.Clone(all), func(e os.FileInfo) bool {
		pack, ok := strings.CutSuffix(e.Name(), ".pack")
		return ok && !slices.ContainsFunc(all, func(e os.FileInfo) bool { return e.Name() == pack+".idx" })
	}), err
}

// Open opens files alone.
func (f indexed) Open(name string) (billy.File, error) {
	opened, err := regular.Open(filepath.Join(f.Root(), name))
	if err != nil {
		return nil, err
	}
	return file{opened, name}, nil
}

// file is one that is only read: nobody locks it. Its name is the one it was opened by, by which go-git opens it again.
type file struct {
	*os.File
	name string
}

func (f file) Name() string { return f.name }

func (file) Lock() error   { return nil }
func (file) Unlock() error { return nil }

func (c *clone) close() { c.storage.Close() }

// check tells whether the objects can be looked up at all.
func (c *clone) check() error {
	if err := c.storage.HasEncodedObject(plumbing.ZeroHash); !errors.Is(err, plumbing.ErrObjectNotFound) {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, c.dir, err)
	}
	return nil
}

func (c *clone) has(hash plumbing.Hash) bool { return c.storage.HasEncodedObject(hash) == nil }

// Bounds of what a fetch tells the server that is here already.
const (
	maxTips      = 256
	maxAncestors = 1 << 12 // commits behind a tip
)

// haves are the tips of all refs and some of the commits behind them, farther and farther apart:
// after a rewind of the remote's branch one of those still is common.
func (c *clone) haves() []plumbing.Hash {
	refs, err := listRefs(c.dir)
	if err != nil {
		return nil // then everything is fetched
	}
	var all []plumbing.Hash
	seen := map[plumbing.Hash]bool{}
	for _, ref := range sortedKeys(refs) {
		if len(all) >= maxTips {
			break
		}
		at := refs[ref]
		for distance, next := 0, 0; distance < maxAncestors && !seen[at]; distance++ {
			commit, err := object.GetCommit(c.storage, at)
			if err != nil {
				break
			}
			if distance == next {
				seen[at] = true
				all = append(all, at)
				next = max(1, 2*next)
			}
			if len(commit.ParentHashes) == 0 {
				break
			}
			at = commit.ParentHashes[0]
		}
	}
	return all
}

// Locate finds the repository of a local path, a bare one or a work tree: the folder of its HEAD and index, and the
// one of its objects and refs, which differ for a linked work tree.
func Locate(path string) (head, common string, err error) { return locate(path) }

// locate finds the repository of a local path: the folder of its HEAD, and the one of its objects
// and refs, which differ for a linked work tree.
func locate(path string) (head, common string, err error) {
	head = path
	if dot := filepath.Join(path, ".git"); exists(dot) {
		head = dot
	}
	text, err := regular.ReadFile(head, maxLink)
	switch {
	case unreadable(err):
		return "", "", err
	case err == nil:
		target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		if !ok {
			return "", "", fmt.Errorf("%w: %s is no repository", ErrNotFound, path)
		}
		head = absolute(filepath.Dir(head), target)
	}
	common = head
	text, err = regular.ReadFile(filepath.Join(head, "commondir"), maxLink)
	switch {
	case unreadable(err):
		return "", "", err
	case err == nil:
		common = absolute(head, strings.TrimSpace(string(text)))
	}
	if !exists(filepath.Join(head, headRef)) || !exists(filepath.Join(common, "objects")) {
		return "", "", fmt.Errorf("%w: %s is no repository", ErrNotFound, path)
	}
	return head, common, checkFormat(common)
}

// maxLink is more than a file has that names another folder of a repository, or the ref of a symbolic one.
const maxLink = 1 << 16

// maxConfig is more than the configuration of a repository has.
const maxConfig = 1 << 20

// unreadable tells whether a file that may be missing, or be a folder, is unreadable for another reason.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.ENOTDIR)
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// checkFormat refuses repositories whose refs or objects are stored in a way not known here.
func checkFormat(dir string) error {
	// go-git reads it whole.
	if described, err := os.Stat(filepath.Join(dir, "config")); err == nil && described.Size() > maxConfig {
		return fmt.Errorf("%s: %w: more than %d bytes", filepath.Join(dir, "config"), regular.ErrTooLarge, maxConfig)
	}
	config, err := OpenStorage(dir).Config()
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, "config"), err)
	}
	extensions := config.Raw.Section("extensions")
	for _, e := range []struct{ key, known string }{{"objectformat", "sha1"}, {"refstorage", "files"}} {
		if value := extensions.Option(e.key); value != "" && value != e.known {
			return fmt.Errorf("%s: extensions.%s is %s; only %s is supported", dir, e.key, printable(value), e.known)
		}
	}
	return nil
}
