package gittest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Start is the time of a repository's first commit; each later one is a second after.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Repo is a bare repository in a folder of its own, whose HEAD is the branch main.
type Repo struct {
	Dir string

	t       testing.TB
	commits atomic.Int64
}

// NewRepo makes an empty repository that goes with the test.
func NewRepo(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{Dir: filepath.Join(t.TempDir(), "repo.git"), t: t}
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "hooks"} {
		r.check(os.MkdirAll(filepath.Join(r.Dir, dir), 0o755))
	}
	r.write("HEAD", "ref: refs/heads/main\n")
	r.write("config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n[gc]\n\tauto = 0\n")
	return r
}

// Commit puts a commit on top of a branch, or makes the branch, and returns its hash. The files
// are added to those there; "" removes one. A file "name@" holds the target of a symbolic link "name".
func (r *Repo) Commit(branch string, files map[string]string, message string) plumbing.Hash {
	r.t.Helper()
	store := r.storage()
	entries := map[string]object.TreeEntry{}
	var parents []plumbing.Hash
	if parent := r.Head(branch); !parent.IsZero() {
		parents = []plumbing.Hash{parent}
		commit, err := object.GetCommit(store, parent)
		r.check(err)
		tree, err := commit.Tree()
		r.check(err)
		walk := object.NewTreeWalker(tree, true, nil)
		defer walk.Close()
		for {
			name, entry, err := walk.Next()
			if err == io.EOF {
				break
			}
			r.check(err)
			if entry.Mode != filemode.Dir {
				entries[name] = entry
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		link, isLink := strings.CutSuffix(name, "@")
		switch text := files[name]; {
		case text == "":
			delete(entries, link)
		case isLink:
			entries[link] = object.TreeEntry{Mode: filemode.Symlink, Hash: r.put(store, plumbing.BlobObject, []byte(text))}
		default:
			entries[name] = object.TreeEntry{Mode: filemode.Regular, Hash: r.put(store, plumbing.BlobObject, []byte(text))}
		}
	}
	return r.CommitTree(branch, r.tree(store, "", entries), message, parents...)
}

// CommitTree makes a commit of a tree, with the given parents, and points the branch at it.
func (r *Repo) CommitTree(branch string, tree plumbing.Hash, message string, parents ...plumbing.Hash) plumbing.Hash {
	r.t.Helper()
	who := object.Signature{Name: "Ada", Email: "ada@example.com", When: Start.Add(time.Duration(r.commits.Add(1)-1) * time.Second)}
	commit := &object.Commit{Author: who, Committer: who, Message: message, TreeHash: tree, ParentHashes: parents}
	store := r.storage()
	encoded := store.NewEncodedObject()
	r.check(commit.Encode(encoded))
	hash, err := store.SetEncodedObject(encoded)
	r.check(err)
	r.SetRef(refName(branch), hash)
	return hash
}

// Object stores raw bytes as an object of the kind, however malformed, and returns its hash.
func (r *Repo) Object(kind plumbing.ObjectType, content []byte) plumbing.Hash {
	r.t.Helper()
	return r.put(r.storage(), kind, content)
}

// Tree stores a tree with just these entries, in this order, however malformed.
func (r *Repo) Tree(entries ...object.TreeEntry) plumbing.Hash {
	r.t.Helper()
	var raw []byte
	for _, entry := range entries {
		raw = fmt.Appendf(raw, "%o %s\x00%s", uint32(entry.Mode), entry.Name, entry.Hash[:])
	}
	return r.Object(plumbing.TreeObject, raw)
}

// SetRef points a ref, by its full name, at a hash; the zero hash removes it.
func (r *Repo) SetRef(ref string, hash plumbing.Hash) {
	r.t.Helper()
	if hash.IsZero() {
		r.check(os.Remove(filepath.Join(r.Dir, ref)))
		return
	}
	r.write(ref, hash.String()+"\n")
}

// Head returns what a branch, or a ref by its full name, points to; zero if there is none.
func (r *Repo) Head(ref string) plumbing.Hash {
	r.t.Helper()
	found, err := storer.ResolveReference(r.storage(), plumbing.ReferenceName(refName(ref)))
	if err == plumbing.ErrReferenceNotFound {
		return plumbing.ZeroHash
	}
	r.check(err)
	return found.Hash()
}

// Files returns the path and content of every file at a branch, a ref by its full name, or a commit hash.
func (r *Repo) Files(ref string) map[string]string {
	r.t.Helper()
	tree, err := r.commit(ref).Tree()
	r.check(err)
	files := map[string]string{}
	r.check(tree.Files().ForEach(func(f *object.File) error {
		text, err := f.Contents()
		files[f.Name] = text
		return err
	}))
	return files
}

// Entry is one commit of a log.
type Entry struct {
	Hash    plumbing.Hash
	Parents []plumbing.Hash
	Subject string // first line of the message
	Message string
	Author  object.Signature
}

// Log returns the commits from ref back along first parents, newest first; none for an unborn branch.
func (r *Repo) Log(ref string) []Entry {
	r.t.Helper()
	var log []Entry
	if !plumbing.IsHash(ref) && r.Head(ref).IsZero() {
		return nil
	}
	for commit := r.commit(ref); ; {
		subject, _, _ := strings.Cut(commit.Message, "\n")
		log = append(log, Entry{commit.Hash, commit.ParentHashes, subject, commit.Message, commit.Author})
		if commit.NumParents() == 0 {
			return log
		}
		parent, err := commit.Parent(0)
		r.check(err)
		commit = parent
	}
}

// At looks at any bare repository.
func At(t testing.TB, dir string) *Repo { return &Repo{Dir: dir, t: t} }

// Git runs the git binary in the repository and returns what it printed, trimmed.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	return strings.TrimSpace(string(r.GitInput("", args...)))
}

// GitInput runs the git binary in the repository with the input and returns what it printed.
func (r *Repo) GitInput(input string, args ...string) []byte {
	r.t.Helper()
	command := exec.Command("git", append([]string{"--git-dir", r.Dir}, args...)...)
	command.Env = append(os.Environ(), gitEnv...)
	command.Stdin = strings.NewReader(input)
	var complaint strings.Builder
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return out
}

// Hook installs a shell script as a hook such as pre-receive; an empty one removes it.
func (r *Repo) Hook(name, script string) {
	r.t.Helper()
	path := filepath.Join(r.Dir, "hooks", name)
	if script == "" {
		r.check(os.RemoveAll(path))
		return
	}
	r.write(filepath.Join("hooks", name), "#!/bin/sh\n"+script+"\n")
	r.check(os.Chmod(path, 0o755))
}

func (r *Repo) commit(ref string) *object.Commit {
	r.t.Helper()
	hash := plumbing.NewHash(ref)
	if !plumbing.IsHash(ref) {
		hash = r.Head(ref)
	}
	commit, err := object.GetCommit(r.storage(), hash)
	if err != nil {
		r.t.Fatalf("commit %s: %v", ref, err)
	}
	return commit
}

// tree stores the trees of all entries below prefix and returns the topmost.
func (r *Repo) tree(store *filesystem.Storage, prefix string, entries map[string]object.TreeEntry) plumbing.Hash {
	r.t.Helper()
	here := map[string]object.TreeEntry{}
	for path, entry := range entries {
		rest, below := strings.CutPrefix(path, prefix)
		if !below {
			continue
		}
		name, _, isDir := strings.Cut(rest, "/")
		switch _, done := here[name]; {
		case done:
		case isDir:
			here[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: r.tree(store, prefix+name+"/", entries)}
		default:
			entry.Name = name
			here[name] = entry
		}
	}
	tree := &object.Tree{Entries: slices.Collect(maps.Values(here))}
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	encoded := store.NewEncodedObject()
	r.check(tree.Encode(encoded))
	hash, err := store.SetEncodedObject(encoded)
	r.check(err)
	return hash
}

// sortKey orders folders as if their names ended in a slash, as git does.
func sortKey(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

func (r *Repo) put(store *filesystem.Storage, kind plumbing.ObjectType, content []byte) plumbing.Hash {
	r.t.Helper()
	encoded := store.NewEncodedObject()
	encoded.SetType(kind)
	w, err := encoded.Writer()
	r.check(err)
	_, err = w.Write(content)
	r.check(err)
	hash, err := store.SetEncodedObject(encoded)
	r.check(err)
	return hash
}

// storage is opened anew each time, to see what others wrote.
func (r *Repo) storage() *filesystem.Storage {
	return filesystem.NewStorage(indexed{osfs.New(r.Dir)}, cache.NewObjectLRUDefault())
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

// write replaces a file so that no reader sees half of it.
func (r *Repo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.Dir, name)
	r.check(os.MkdirAll(filepath.Dir(path), 0o755))
	temp, err := os.CreateTemp(r.Dir, "write")
	r.check(err)
	_, err = temp.WriteString(text)
	r.check(err)
	r.check(temp.Close())
	r.check(os.Rename(temp.Name(), path))
}

func (r *Repo) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func refName(branch string) string {
	if strings.HasPrefix(branch, "refs/") || branch == "HEAD" {
		return branch
	}
	return "refs/heads/" + branch
}

// gitEnv keeps the machine's own Git settings out of tests.
var gitEnv = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
}
