package source

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/godwit-gitops/godwit/gitstate"
)

// maxLineage is how many commits one question about the history looks at.
const maxLineage = 500_000

// Descends tells whether a commit is another one or comes after it, by any parents. Both need not be fetched by
// themselves, but only what head descends from is looked at. The error is gitstate.ErrHistory where the clone, of a
// shallow remote, ends before there is an answer.
func (s *reader) Descends(ctx context.Context, head, from gitstate.Revision) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := newWalk(s.objects)
	target := plumbing.NewHash(string(from))
	if _, err := w.add(plumbing.NewHash(string(head)), false); err != nil {
		return false, fmt.Errorf("source %s: %w", s.name, err)
	}
	short := false
	for n := w.next(); n != nil; n = w.next() {
		if n.hash == target {
			return true, nil
		}
		for _, p := range n.parents {
			switch ok, err := w.add(p, false); {
			case p == target:
				return true, nil
			case err != nil:
				return false, fmt.Errorf("source %s: %w", s.name, err)
			case !ok:
				short = true
			}
		}
		if short = short || len(w.nodes) > maxLineage; len(w.nodes) > maxLineage {
			break
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	if short {
		return false, fmt.Errorf("source %s: commit %s: %w", s.name, head, gitstate.ErrHistory)
	}
	return false, nil
}

// Commits returns head and the commits that it descends from and none of known does, head first. Known ones that are
// not here are left out, and times that are far off can only add commits. The error is ErrTooMany if there are more than most, and gitstate.ErrHistory where the
// clone ends before all are found.
func (s *reader) Commits(ctx context.Context, head gitstate.Revision, known []gitstate.Revision, most int) ([]gitstate.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.commits(ctx, head, known, most)
	if err != nil {
		return nil, fmt.Errorf("source %s: commits up to %s: %w", s.name, head, err)
	}
	return list, nil
}

func (s *reader) commits(ctx context.Context, head gitstate.Revision, known []gitstate.Revision, most int) ([]gitstate.Object, error) {
	w := newWalk(s.objects)
	w.keep = true
	if ok, err := w.add(plumbing.NewHash(string(head)), false); err != nil || !ok {
		return nil, cmp.Or(err, gitstate.ErrHistory)
	}
	first := w.nodes[plumbing.NewHash(string(head))]
	for _, k := range known {
		if _, err := w.add(plumbing.NewHash(string(k)), true); err != nil {
			return nil, err
		}
	}
	var found []*link
	for w.wanted(found) {
		n := w.next()
		if !n.known {
			found = append(found, n)
			if len(found) > most {
				return nil, fmt.Errorf("%w: more than %d", ErrTooMany, most)
			}
		}
		for _, p := range n.parents {
			if ok, err := w.add(p, n.known); err != nil || !ok && !n.known {
				return nil, cmp.Or(err, gitstate.ErrHistory)
			}
		}
		if len(w.nodes) > maxLineage {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, maxLineage)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	list := []gitstate.Object{{Revision: head, Data: first.data}}
	for _, n := range found {
		if !n.known && n != first {
			list = append(list, gitstate.Object{Revision: gitstate.Revision(n.hash.String()), Data: n.data})
		}
	}
	return list, nil
}

// Changed returns the paths of the files that differ between two commits, sorted, whatever source.path is. The error
// is gitstate.ErrHistory if one of them is not here.
func (s *reader) Changed(ctx context.Context, from, to gitstate.Revision) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var trees [2]*object.Tree
	for i, r := range []gitstate.Revision{from, to} {
		hash := plumbing.NewHash(string(r))
		if !s.objects.has(hash) {
			return nil, fmt.Errorf("source %s: commit %s: %w", s.name, r, gitstate.ErrHistory)
		}
		commit, err := s.objects.commit(hash)
		if err == nil {
			err = s.objects.with(commit.TreeHash, func(st *filesystem.Storage) (err error) {
				trees[i], err = object.GetTree(st, commit.TreeHash)
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("source %s: commit %s: %w", s.name, r, err)
		}
	}
	var paths []string
	err := s.objects.with(plumbing.NewHash(string(to)), func(*filesystem.Storage) error {
		changes, err := object.DiffTreeContext(ctx, trees[0], trees[1])
		for _, c := range changes {
			for _, name := range []string{c.From.Name, c.To.Name} {
				if name != "" {
					paths = append(paths, name)
				}
			}
		}
		return err
	})
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return nil, fmt.Errorf("source %s: compare %s with %s: %w", s.name, to, from, err)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// link is a commit in the history.
type link struct {
	hash    plumbing.Hash
	parents []plumbing.Hash
	when    int64
	data    []byte
	// known: one of those that are known descends from it, or is it.
	known  bool
	queued bool
}

// walk goes through commits by their times, newest first: that makes it short. A commit comes again if it turns out to
// be known.
type walk struct {
	objects *gitObjects
	nodes   map[plumbing.Hash]*link
	queue   queue
	unknown int  // in the queue
	keep    bool // the data of commits that are not known
	beyond  int  // commits after all times said that it is over
}

func newWalk(objects *gitObjects) *walk {
	return &walk{objects: objects, nodes: map[plumbing.Hash]*link{}}
}

// add puts a commit into the queue, if it was not there; false means that it is not in the clone.
func (w *walk) add(hash plumbing.Hash, known bool) (bool, error) {
	n := w.nodes[hash]
	if n == nil {
		if !w.objects.has(hash) {
			return false, nil
		}
		data, err := w.objects.raw(hash)
		if err != nil {
			return false, err
		}
		n = parseLink(hash, data)
		if n.known = known; !known && w.keep {
			n.data = data
		}
		w.nodes[hash] = n
		w.push(n)
		return true, nil
	}
	if known && !n.known {
		n.known = true
		if n.queued {
			w.unknown--
		} else {
			w.push(n)
		}
	}
	return true, nil
}

func (w *walk) push(n *link) {
	n.queued = true
	if !n.known {
		w.unknown++
	}
	heap.Push(&w.queue, n)
}

// next returns the newest commit of the queue, nil if it is empty.
func (w *walk) next() *link {
	if len(w.queue) == 0 {
		return nil
	}
	n := heap.Pop(&w.queue).(*link)
	n.queued = false
	if !n.known {
		w.unknown--
	}
	return n
}

// slack is how many commits are looked at after all times say that nothing is to be found any more. Where a commit is
// older than its parents that many generations on, a known one may be taken for one that is not.
const slack = 1000

// wanted tells whether what is in the queue may still add to what was found, or turn out to know some of it.
func (w *walk) wanted(found []*link) bool {
	if w.unknown > 0 || len(w.queue) == 0 {
		return w.unknown > 0
	}
	for _, n := range found {
		switch {
		case n.known:
		case n.when <= w.queue[0].when:
			return true
		default:
			w.beyond++
			return w.beyond <= slack
		}
	}
	return false
}

// parseLink reads what of a commit is needed here.
func parseLink(hash plumbing.Hash, data []byte) *link {
	n := &link{hash: hash}
	for line := range bytes.Lines(data) {
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		switch string(key) {
		case "parent":
			n.parents = append(n.parents, plumbing.NewHash(string(value)))
		case "committer":
			words := bytes.Fields(value)
			if len(words) > 1 {
				n.when, _ = strconv.ParseInt(string(words[len(words)-2]), 10, 64)
			}
			return n // parents come before
		case "":
			return n
		}
	}
	return n
}

// queue is a heap of commits, the newest first.
type queue []*link

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].when > q[j].when }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*link)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	n := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return n
}

// raw returns a commit as Git has it.
func (g *gitObjects) raw(hash plumbing.Hash) (data []byte, err error) {
	err = g.with(hash, func(s *filesystem.Storage) error {
		encoded, err := s.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return err
		}
		if encoded.Type() != plumbing.CommitObject {
			return errNoCommit
		}
		if encoded.Size() > maxCommit {
			return fmt.Errorf("%w: commit %s has %d bytes, at most %d are read", ErrTooLarge, hash, encoded.Size(), maxCommit)
		}
		reader, err := encoded.Reader()
		if err != nil {
			return err
		}
		defer reader.Close()
		data, err = io.ReadAll(reader)
		return err
	})
	return data, err
}

// maxCommit bounds a commit's own text, in bytes.
const maxCommit = 4 << 20
