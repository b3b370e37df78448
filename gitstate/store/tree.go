package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/pack"
)

// A dir is one folder of a revision. It never changes; its entries are read when they are first needed.
// Revisions share the folders in which they do not differ.
type dir struct {
	hash    plumbing.Hash
	objects *pack.Objects
	once    sync.Once
	nodes   []node // in Git's order
	err     error
}

// node is one entry of a folder; sub is nil but for folders.
type node struct {
	pack.Entry
	sub *dir
}

var emptyTree = pack.New(pack.Tree, nil)

// newDir returns the folder with that hash, which is not read yet.
func newDir(objects *pack.Objects, hash plumbing.Hash) *dir {
	return &dir{hash: hash, objects: objects}
}

func madeDir(objects *pack.Objects, hash plumbing.Hash, nodes []node) *dir {
	d := newDir(objects, hash)
	d.once.Do(func() { d.nodes = nodes })
	return d
}

func emptyDir(objects *pack.Objects) *dir { return madeDir(objects, emptyTree.Hash, nil) }

func (d *dir) list() ([]node, error) {
	d.once.Do(func() {
		data, err := d.objects.GetKind(pack.Tree, d.hash)
		var entries []pack.Entry
		if err == nil {
			entries, err = pack.DecodeTree(data)
		}
		if err != nil {
			d.err = fmt.Errorf("read tree %s: %w", d.hash, err)
			return
		}
		d.nodes = make([]node, len(entries))
		for i, e := range entries {
			d.nodes[i].Entry = e
			if e.IsDir() {
				d.nodes[i].sub = newDir(d.objects, e.Hash)
			}
		}
	})
	return d.nodes, d.err
}

// at finds an entry of a folder; a file and a folder of one name are two places in Git's order.
func at(nodes []node, name string, isDir bool) (int, bool) {
	return slices.BinarySearchFunc(nodes, name, func(n node, name string) int {
		return pack.CompareNames(n.Name, n.IsDir(), name, isDir)
	})
}

// lookup finds a path that fs.ValidPath accepts. The node of "." is the folder itself; nil means that there is none.
func (d *dir) lookup(path string) (*node, error) {
	n := node{pack.Entry{Name: ".", Mode: pack.ModeDir, Hash: d.hash}, d}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == ".":
			continue
		case n.sub == nil:
			return nil, nil
		}
		nodes, err := n.sub.list()
		if err != nil {
			return nil, err
		}
		i, found := at(nodes, name, true)
		if !found {
			if i, found = at(nodes, name, false); !found {
				return nil, nil
			}
		}
		n = nodes[i]
	}
	return &n, nil
}

// edit puts an entry at a path, or removes the file there if its mode is zero.
type edit struct {
	path string
	pack.Entry
}

func sortEdits(edits []edit) {
	slices.SortFunc(edits, func(a, b edit) int { return comparePaths(a.path, b.path) })
}

// comparePaths sorts what is below a folder right behind the folder's own name.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

// A builder makes new objects and collects them, each once.
type builder struct {
	objects *pack.Objects
	made    []pack.Object
	seen    map[plumbing.Hash]bool
}

func newBuilder(objects *pack.Objects) *builder {
	return &builder{objects: objects, seen: map[plumbing.Hash]bool{}}
}

// apply returns the folder with the edits, which are sorted and whose paths from depth on are below
// it. It is the same folder if they change nothing.
func (b *builder) apply(d *dir, depth int, edits []edit) (*dir, error) {
	old, err := d.list()
	if err != nil {
		return nil, err
	}
	nodes := slices.Clone(old)
	changed, unsorted := false, false
	// set replaces the file or folder of a name; a node without mode is none.
	set := func(name string, isDir bool, n node) {
		i, found := at(old, name, isDir)
		switch {
		case found && n.Mode == 0:
			nodes[i] = node{}
			unsorted = true
		case found:
			nodes[i] = n
		case n.Mode != 0:
			nodes = append(nodes, n)
			unsorted = true
		default:
			return
		}
		changed = true
	}
	for len(edits) > 0 {
		name, _, _ := strings.Cut(edits[0].path[depth:], "/")
		inner := depth + len(name) + 1
		path := edits[0].path[:inner-1]
		n := 0
		for n < len(edits) && strings.HasPrefix(edits[n].path[depth:], name) && (len(edits[n].path) == inner-1 || edits[n].path[inner-1] == '/') {
			n++
		}
		group := edits[:n]
		edits = edits[n:]

		file, folder := find(old, name, false), find(old, name, true)
		if leaf := group[0]; len(leaf.path) == inner-1 {
			group = group[1:]
			wanted := node{Entry: pack.Entry{Name: name, Mode: leaf.Mode, Hash: leaf.Hash}}
			if wanted.Hash != file.Hash || (wanted.Mode == 0) != (file.Mode == 0) {
				file = wanted
				set(name, false, file)
			}
		}
		if len(group) > 0 {
			before := folder.sub
			if before == nil {
				before = emptyDir(b.objects)
			}
			after, err := b.apply(before, inner, group)
			if err != nil {
				return nil, err
			}
			switch {
			case after == before:
			case after.hash == emptyTree.Hash:
				folder = node{}
				set(name, true, folder)
			default:
				folder = node{pack.Entry{Name: name, Mode: pack.ModeDir, Hash: after.hash}, after}
				set(name, true, folder)
			}
		}
		if file.Mode != 0 && folder.Mode != 0 {
			return nil, fmt.Errorf("%s would be both a file and a folder", path)
		}
	}
	if !changed {
		return d, nil
	}
	if unsorted {
		nodes = slices.DeleteFunc(nodes, func(n node) bool { return n.Mode == 0 })
		slices.SortFunc(nodes, func(a, b node) int { return pack.CompareNames(a.Name, a.IsDir(), b.Name, b.IsDir()) })
	}
	return b.make(nodes)
}

func find(nodes []node, name string, isDir bool) node {
	if i, found := at(nodes, name, isDir); found {
		return nodes[i]
	}
	return node{}
}

// make encodes a tree and collects it, but for the empty one.
func (b *builder) make(nodes []node) (*dir, error) {
	if len(nodes) == 0 {
		return emptyDir(b.objects), nil
	}
	entries := make([]pack.Entry, len(nodes))
	for i, n := range nodes {
		entries[i] = n.Entry
	}
	data, err := pack.EncodeTree(entries)
	if err != nil {
		return nil, err
	}
	tree := pack.New(pack.Tree, data)
	b.add(tree)
	return madeDir(b.objects, tree.Hash, nodes), nil
}

func (b *builder) add(o pack.Object) {
	if !b.seen[o.Hash] {
		b.seen[o.Hash] = true
		b.made = append(b.made, o)
	}
}

// diff calls visit for each entry in which two folders differ, folders before what is in them. A side that has no
// such entry is nil, as is a folder that does not exist.
func diff(old, new *dir, path string, visit func(path string, old, new *node) error) error {
	if old != nil && new != nil && old.hash == new.hash {
		return nil
	}
	var sides [2][]node
	for i, d := range []*dir{old, new} {
		if d == nil {
			continue
		}
		var err error
		if sides[i], err = d.list(); err != nil {
			return err
		}
	}
	a, b := sides[0], sides[1]
	for len(a) > 0 || len(b) > 0 {
		var x, y *node
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = pack.CompareNames(a[0].Name, a[0].IsDir(), b[0].Name, b[0].IsDir())
		}
		if order <= 0 {
			x, a = &a[0], a[1:]
		}
		if order >= 0 {
			y, b = &b[0], b[1:]
		}
		if x != nil && y != nil && x.Entry == y.Entry {
			continue
		}
		name := x.orElse(y).Name
		if path != "" {
			name = path + "/" + name
		}
		if err := visit(name, x, y); err != nil {
			return err
		}
		if x.dir() != nil || y.dir() != nil {
			if err := diff(x.dir(), y.dir(), name, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *node) orElse(m *node) *node {
	if n != nil {
		return n
	}
	return m
}

// dir is the folder the entry stands for, or nil.
func (n *node) dir() *dir {
	if n == nil {
		return nil
	}
	return n.sub
}
