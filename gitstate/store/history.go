package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// ErrNotFound says that no commit has the name that was asked for.
var ErrNotFound = errors.New("no such commit")

// Signature is who made a commit.
type Signature struct{ Name, Email string }

// String is the form git prints, without what its format has no place for.
func (s Signature) String() string {
	clean := func(s string) string {
		return oneLine(strings.Map(func(r rune) rune {
			if r == '<' || r == '>' {
				return -1
			}
			return r
		}, s))
	}
	return clean(s.Name) + " <" + strings.ReplaceAll(clean(s.Email), " ", "") + ">"
}

// Commit is one entry of the branch's history.
type Commit struct {
	Revision gitstate.Revision
	// Parent is the first one, empty for the root.
	Parent  gitstate.Revision
	Subject string
	Body    string
	// Trailers are those of the last paragraph, in order.
	Trailers []Trailer
	// When is the committer's time, in UTC.
	When   time.Time
	Author Signature
	// Tree is the hash of the whole tree.
	Tree plumbing.Hash
	// Object is the commit as Git has it: what a signature is over.
	Object []byte
}

// commit is a commit object as Git has it.
type commit struct {
	hash              plumbing.Hash
	tree              plumbing.Hash
	parents           []plumbing.Hash
	author, committer string // name, email and time
	message           string
	data              []byte // as it was read
}

// encode returns the object, signed if sign is not nil.
func (c *commit) encode(sign func([]byte) (string, error)) (pack.Object, error) {
	var head bytes.Buffer
	fmt.Fprintf(&head, "tree %s\n", c.tree)
	for _, p := range c.parents {
		fmt.Fprintf(&head, "parent %s\n", p)
	}
	fmt.Fprintf(&head, "author %s\ncommitter %s\n", c.author, c.committer)
	text := "\n" + c.message
	if sign != nil {
		signature, err := sign([]byte(head.String() + text))
		if err != nil {
			return pack.Object{}, fmt.Errorf("sign: %w", err)
		}
		// A header goes on in lines that begin with a blank.
		fmt.Fprintf(&head, "gpgsig %s\n", strings.ReplaceAll(strings.TrimRight(signature, "\n"), "\n", "\n "))
	}
	head.WriteString(text)
	return pack.New(pack.Commit, head.Bytes()), nil
}

func decodeCommit(hash plumbing.Hash, data []byte) (*commit, error) {
	c := &commit{hash: hash, data: data}
	text := string(data)
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found {
			return nil, fmt.Errorf("commit %s: %w: no message", hash, pack.ErrDamaged)
		}
		text = rest
		if line == "" {
			break
		}
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree", "parent":
			if !plumbing.IsHash(value) {
				return nil, fmt.Errorf("commit %s: %w: %s %q", hash, pack.ErrDamaged, key, value)
			}
			if h := plumbing.NewHash(value); key == "tree" {
				c.tree = h
			} else {
				c.parents = append(c.parents, h)
			}
		case "author":
			c.author = value
		case "committer":
			c.committer = value
		}
	}
	if c.tree.IsZero() {
		return nil, fmt.Errorf("commit %s: %w: no tree", hash, pack.ErrDamaged)
	}
	c.message = text
	return c, nil
}

// parent is the first parent, zero for a root.
func (c *commit) parent() plumbing.Hash {
	if len(c.parents) == 0 {
		return plumbing.ZeroHash
	}
	return c.parents[0]
}

// public is the commit as callers see it.
func (c *commit) public() Commit {
	p := Commit{Revision: revision(c.hash), Parent: revision(c.parent()), Tree: c.tree, Object: c.data}
	p.Subject, p.Body, p.Trailers = parseMessage(c.message)
	p.Author, _ = parseStamp(c.author)
	_, p.When = parseStamp(c.committer)
	return p
}

// stamp is a person and a time as they stand in a commit.
func stamp(who Signature, when time.Time) string {
	return fmt.Sprintf("%s %d +0000", who, max(when.Unix(), 0))
}

func parseStamp(s string) (who Signature, when time.Time) {
	name, rest, _ := strings.Cut(s, "<")
	email, rest, _ := strings.Cut(rest, ">")
	seconds, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(seconds, 10, 64) // what is no time is the epoch, as for git log
	return Signature{strings.TrimSpace(name), email}, time.Unix(n, 0).UTC()
}

func revision(h plumbing.Hash) gitstate.Revision {
	if h.IsZero() {
		return ""
	}
	return gitstate.Revision(h.String())
}

func (s *Store) readCommit(h plumbing.Hash) (*commit, error) {
	data, err := s.objects.GetKind(pack.Commit, h)
	if err != nil {
		return nil, fmt.Errorf("read commit: %w", err)
	}
	return decodeCommit(h, data)
}

// rootOf returns the tree of a commit; the zero hash has the empty one.
func (s *Store) rootOf(h plumbing.Hash) (*dir, error) {
	if h.IsZero() {
		return emptyDir(s.objects), nil
	}
	c, err := s.readCommit(h)
	if err != nil {
		return nil, err
	}
	if c.tree == emptyTree.Hash {
		return emptyDir(s.objects), nil
	}
	return newDir(s.objects, c.tree), nil
}

// reach collects the commits reachable from a commit, as far as stop, and says whether it met stop. A zero stop is
// never met.
func (s *Store) reach(from, stop plumbing.Hash) (seen map[plumbing.Hash]bool, met bool, err error) {
	seen = map[plumbing.Hash]bool{from: true}
	for queue := []plumbing.Hash{from}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		if at == stop {
			return seen, true, nil
		}
		c, err := s.readCommit(at)
		if err != nil {
			return nil, false, err
		}
		for _, p := range c.parents {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return seen, false, nil
}

// chain returns the first-parent commits from a commit back to one that end accepts, newest first, and that one;
// zero if the chain ends before.
func (s *Store) chain(from plumbing.Hash, end func(plumbing.Hash) bool) (chain []*commit, base plumbing.Hash, err error) {
	for at := from; !at.IsZero(); {
		if end(at) {
			return chain, at, nil
		}
		c, err := s.readCommit(at)
		if err != nil {
			return nil, at, err
		}
		chain = append(chain, c)
		at = c.parent()
	}
	return chain, plumbing.ZeroHash, nil
}

// Log yields the history from a revision on, newest first, along first parents. An empty revision means the head as
// this clone knows it. After an error it ends.
func (s *Store) Log(ctx context.Context, from gitstate.Revision) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		at, err := s.resolve(ctx, string(from))
		if err != nil {
			yield(Commit{}, fmt.Errorf("read history: %w", err))
			return
		}
		for c, err := range s.logFrom(ctx, at) {
			if !yield(c, err) {
				return
			}
		}
	}
}

// logFrom is Log from a commit.
func (s *Store) logFrom(ctx context.Context, at plumbing.Hash) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		for !at.IsZero() {
			c, err := s.readCommit(at)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Commit{}, fmt.Errorf("read history: %w", err))
				return
			}
			if !yield(c.public(), nil) {
				return
			}
			at = c.parent()
		}
	}
}

// FileChange is a file that a commit changed over its first parent: by the Git hashes of its content, the zero one
// where it is not there.
type FileChange struct {
	Path          string
	Before, After plumbing.Hash
}

// Changed is a commit and what it changed.
type Changed struct {
	Commit
	// Files are sorted as in Git's trees.
	Files []FileChange
	// Before and After are the trees of the first parent and of the commit. Their files are read when asked for.
	Before, After gitstate.HashFS
}

// Changes is Log with what each commit changed. It reads trees where they differ, each once, and no file: it takes
// the longer the more changed, however large the trees are.
func (s *Store) Changes(ctx context.Context, from gitstate.Revision) iter.Seq2[Changed, error] {
	return func(yield func(Changed, error) bool) {
		var after *dir // of the commit that comes next
		for c, err := range s.Log(ctx, from) {
			var changed Changed
			if err == nil {
				changed, after, err = s.changed(c, after)
			}
			if !yield(changed, err) || err != nil {
				return
			}
		}
	}
}

// changed compares a commit, whose tree may be known already, with its first parent, and returns that one's tree.
func (s *Store) changed(c Commit, after *dir) (_ Changed, before *dir, err error) {
	if after == nil {
		if after, err = s.rootOf(plumbing.NewHash(string(c.Revision))); err != nil {
			return Changed{}, nil, err
		}
	}
	if before, err = s.rootOf(plumbing.NewHash(string(c.Parent))); err != nil {
		return Changed{}, nil, err
	}
	changed := Changed{Commit: c, Before: treeFS{before}, After: treeFS{after}}
	err = diff(before, after, "", func(path string, old, new *node) error {
		if old.dir() != nil || new.dir() != nil {
			return nil // a folder is what is in it; one in the place of a file comes as both
		}
		f := FileChange{Path: path}
		if old != nil {
			f.Before = old.Hash
		}
		if new != nil {
			f.After = new.Hash
		}
		if f.Before != f.After { // else only the mode
			changed.Files = append(changed.Files, f)
		}
		return nil
	})
	if err != nil {
		return Changed{}, nil, fmt.Errorf("commit %s: %w", c.Revision, err)
	}
	return changed, before, nil
}

// At returns the tree of a revision: a commit's hash or at least four digits of it; empty, "HEAD" or the branch's
// name for the head as this clone knows it; each with an optional "~n" for the n-th ancestor. It asks no remote. The
// error is ErrNotFound if there is no such commit.
func (s *Store) At(ctx context.Context, rev string) (Tree, error) {
	h, err := s.resolve(ctx, rev)
	if err != nil {
		return Tree{}, err
	}
	root, err := s.rootOf(h)
	if err != nil {
		return Tree{}, err
	}
	return Tree{Head: revision(h), FS: treeFS{root}}, nil
}

func (s *Store) resolve(ctx context.Context, rev string) (plumbing.Hash, error) {
	name, back, found := strings.Cut(rev, "~")
	steps := 0
	if found {
		var err error
		if steps, err = strconv.Atoi(back); err != nil || steps < 0 {
			return plumbing.ZeroHash, fmt.Errorf("revision %q: %w: a number of steps is needed after ~", rev, ErrNotFound)
		}
	}
	at, err := s.named(ctx, name)
	for ; err == nil && steps > 0; steps-- {
		var c *commit
		if c, err = s.readCommit(at); err == nil {
			if at = c.parent(); at.IsZero() {
				err = fmt.Errorf("%w: the history is shorter", ErrNotFound)
			}
		}
	}
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("revision %q: %w", rev, err)
	}
	return at, nil
}

func (s *Store) named(ctx context.Context, name string) (plumbing.Hash, error) {
	if name == "" || name == "HEAD" || name == s.o.Branch {
		if err := s.lock(ctx); err != nil {
			return plumbing.ZeroHash, err
		}
		defer s.unlock()
		return s.local, nil
	}
	name = strings.ToLower(name)
	if _, err := hex.DecodeString(name[:len(name)&^1]); err != nil || len(name) < 4 || len(name) > 40 {
		return plumbing.ZeroHash, fmt.Errorf("%w: neither the branch nor a commit's hash", ErrNotFound)
	}
	candidates := []plumbing.Hash{plumbing.NewHash(name)}
	if len(name) < 40 {
		candidates = s.objects.Abbreviated(name)
	}
	candidates = slices.DeleteFunc(candidates, func(h plumbing.Hash) bool {
		_, err := s.objects.GetKind(pack.Commit, h)
		return err != nil
	})
	switch len(candidates) {
	case 0:
		return plumbing.ZeroHash, ErrNotFound
	case 1:
		return candidates[0], nil
	}
	return plumbing.ZeroHash, fmt.Errorf("%w: %d commits begin so", ErrNotFound, len(candidates))
}
