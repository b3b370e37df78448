package pack

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/regular"
)

// Objects is the object store of one repository. It is safe for concurrent use.
type Objects struct {
	repo string

	mu    sync.RWMutex // held for reading while a pack is read, so that none is closed under a reader
	packs []*packed    // the largest first: it has most of what is asked for

	basesMu   sync.Mutex
	bases     map[place]Object // delta bases in use, without hash
	basesSize int
}

type place struct {
	pack   *packed
	offset int64
}

const (
	// maxBases bounds the memory for delta bases.
	maxBases = 16 << 20
	// maxChain bounds a chain of deltas; Git makes them 50 long, and 4095 on request.
	maxChain = 4096
	// maxMelt is the size of a pack that is left alone by Consolidate.
	maxMelt = 512 << 20
)

// OpenObjects opens the object store of a bare repository. Each pack's index is checked, the packs themselves only at
// both ends: Verify reads them.
func OpenObjects(repo string) (*Objects, error) {
	o := &Objects{repo: repo, bases: map[place]Object{}}
	if err := o.Refresh(); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Close closes all packs. Reads must be over.
func (o *Objects) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.packs {
		p.f.Close()
	}
	o.packs = nil
	return nil
}

// Refresh looks for packs that came or went. A read that misses does so by itself.
func (o *Objects) Refresh() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	indexes, err := filepath.Glob(filepath.Join(Dir(o.repo), "pack-*.idx"))
	if err != nil {
		return err
	}
	known := make(map[string]*packed, len(o.packs))
	for _, p := range o.packs {
		known[p.name] = p
	}
	o.packs = o.packs[:0:0]
	var errs []error
	for _, index := range indexes {
		name := strings.TrimSuffix(index, ".idx")
		p := known[name]
		delete(known, name)
		if p == nil {
			p, err = openPack(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // half of a pair: being deleted, or never finished
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		o.packs = append(o.packs, p)
	}
	slices.SortStableFunc(o.packs, func(a, b *packed) int { return cmp.Compare(b.size, a.size) })
	for _, p := range known {
		p.f.Close()
	}
	if len(known) > 0 {
		o.forgetBases()
	}
	return errors.Join(errs...)
}

// Len returns how many packs there are.
func (o *Objects) Len() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.packs)
}

// Verify reads every pack and compares checksums: about a second for a gigabyte.
func (o *Objects) Verify() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, p := range o.packs {
		if err := p.verify(); err != nil {
			return err
		}
	}
	return nil
}

// Has says whether the object is there, without reading it.
func (o *Objects) Has(h plumbing.Hash) bool {
	o.mu.RLock()
	p, _ := o.find(h)
	o.mu.RUnlock()
	if p != nil {
		return true
	}
	_, err := os.Stat(o.loose(h))
	return err == nil
}

// Get reads an object. Its Data belongs to the caller.
func (o *Objects) Get(h plumbing.Hash) (Object, error) {
	obj, err := o.packed(h)
	if !errors.Is(err, ErrMissing) {
		return obj, err
	}
	if obj, err := o.readLoose(h); !errors.Is(err, fs.ErrNotExist) {
		return obj, err
	}
	if err := o.Refresh(); err != nil {
		return Object{}, err
	}
	return o.packed(h)
}

// GetKind is Get for an object that has to be of one kind.
func (o *Objects) GetKind(kind Kind, h plumbing.Hash) ([]byte, error) {
	obj, err := o.Get(h)
	if err == nil && obj.Kind != kind {
		err = damaged("object %s is a %s, not a %s", h, obj.Kind, kind)
	}
	return obj.Data, err
}

// Copy adds objects to a pack that is being written, without inflating them where their pack has them whole.
func (o *Objects) Copy(w *Writer, hashes []plumbing.Hash) error {
	for _, h := range hashes {
		if copied, err := o.copyRaw(w, h); err != nil {
			return err
		} else if copied {
			continue
		}
		obj, err := o.Get(h)
		if err != nil {
			return err
		}
		if err := w.Write(obj); err != nil {
			return err
		}
	}
	return nil
}

func (o *Objects) copyRaw(w *Writer, h plumbing.Hash) (bool, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	p, i := o.find(h)
	if p == nil {
		return false, nil
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	offset, err := p.offset(i)
	if err != nil {
		return false, err
	}
	e, err := p.entry(offset, buf)
	if err != nil || !e.kind.whole() {
		return false, err
	}
	if err := p.sound(i, e.raw); err != nil {
		return false, err
	}
	w.entry(h, e.raw)
	return true, w.err
}

// Consolidate keeps the number of packs near limit: beyond it, small packs are melted into one, in geometric steps,
// so that each byte is copied only a few times however many packs there have been. Every object of theirs is kept,
// reachable or not. Packs marked .keep, .promisor or .mtimes and those over 512 MiB are left alone. at, if not
// nil, is told the steps of Save and "pack-removed" for each pack that went.
func (o *Objects) Consolidate(limit int, at func(step string)) error {
	if o.Len() <= limit {
		return nil
	}
	melt, hashes := o.melting(limit)
	if len(melt) < 2 {
		return nil
	}
	if at == nil {
		at = func(string) {}
	}
	name, err := Save(o.repo, len(hashes), at, func(w *Writer) error { return o.Copy(w, hashes) })
	if err != nil {
		return fmt.Errorf("consolidate %d packs: %w", len(melt), err)
	}
	// A multi-pack index of somebody's git would name packs that are gone; git goes on without it.
	if err := remove(filepath.Join(Dir(o.repo), "multi-pack-index")); err != nil {
		return err
	}
	for _, p := range melt {
		if p.name == name {
			continue
		}
		// The pack first: git passes over an index without a pack, and go-git fails on a pack without an index.
		for _, ext := range []string{".pack", ".idx", ".rev", ".bitmap"} {
			if err := remove(p.name + ext); err != nil {
				return err
			}
			if ext == ".pack" {
				at("pack-removed")
			}
		}
	}
	return o.Refresh()
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// melting chooses the packs to melt and lists their objects, each once.
func (o *Objects) melting(limit int) (melt []*packed, hashes []plumbing.Hash) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, p := range o.packs {
		kept := slices.ContainsFunc([]string{".keep", ".promisor", ".mtimes"}, func(ext string) bool {
			_, err := os.Lstat(p.name + ext)
			return err == nil
		})
		if !kept && p.size <= maxMelt {
			melt = append(melt, p)
		}
	}
	if len(melt) <= limit {
		return nil, nil
	}
	slices.SortStableFunc(melt, func(a, b *packed) int { return cmp.Compare(a.size, b.size) })
	sizes := make([]int64, len(melt))
	for i, p := range melt {
		sizes[i] = p.size
	}
	melt = melt[:rollup(sizes)]

	seen := map[plumbing.Hash]bool{}
	for _, p := range melt {
		start := len(hashes)
		at := map[plumbing.Hash]int64{}
		for i := range p.count() {
			if h := p.hash(i); !seen[h] {
				seen[h] = true
				at[h], _ = p.offset(i)
				hashes = append(hashes, h)
			}
		}
		// As they lie in their pack: read front to back, and an object stays near those it came with.
		slices.SortFunc(hashes[start:], func(a, b plumbing.Hash) int { return cmp.Compare(at[a], at[b]) })
	}
	return melt, hashes
}

// rollup returns how many of the smallest packs, sizes ascending, to melt so that afterwards each pack is at least
// twice as large as all smaller ones together, as far as one pack can hold them.
func rollup(sizes []int64) int {
	n := 0
	for i := len(sizes) - 1; i > 0; i-- {
		if sizes[i] < 2*sizes[i-1] {
			n = i + 1
			break
		}
	}
	sum := int64(0)
	for i, size := range sizes {
		if i >= n && size >= 2*sum || sum+size > maxPack/2 {
			return i
		}
		sum += size
	}
	return len(sizes)
}

// find returns the pack that has the object and its number there.
func (o *Objects) find(h plumbing.Hash) (*packed, int) {
	for _, p := range o.packs {
		if i, found := p.find(h); found {
			return p, i
		}
	}
	return nil, 0
}

func (o *Objects) packed(h plumbing.Hash) (Object, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	obj, err := o.resolve(h, 0)
	obj.Hash = h
	return obj, err
}

func (o *Objects) resolve(h plumbing.Hash, depth int) (Object, error) {
	p, i := o.find(h)
	if p == nil {
		return Object{}, fmt.Errorf("%w: %s", ErrMissing, h)
	}
	offset, err := p.offset(i)
	if err != nil {
		return Object{}, err
	}
	obj, err := o.read(place{p, offset}, depth)
	if err != nil {
		return Object{}, fmt.Errorf("read object %s: %w", h, err)
	}
	return obj, nil
}

// read returns the object at a place; its hash is not known.
func (o *Objects) read(at place, depth int) (Object, error) {
	if depth > maxChain {
		return Object{}, damaged("%s.pack: deltas without a base at %d", at.pack.name, at.offset)
	}
	buf := buffers.Get().(*[]byte)
	e, err := at.pack.entry(at.offset, buf)
	var data []byte
	if err == nil {
		data, err = inflate(e.z, e.size)
	}
	buffers.Put(buf)
	if err != nil || e.kind.whole() {
		return Object{Kind: e.kind, Data: data}, err
	}
	base, err := o.base(at, e, depth+1)
	if err != nil {
		return Object{}, err
	}
	base.Data, err = patch(base.Data, data)
	return base, err
}

// base returns the base of a delta and remembers it: siblings mostly have the same.
func (o *Objects) base(at place, e entry, depth int) (Object, error) {
	if e.kind == refDelta {
		return o.resolve(e.on, depth)
	}
	at.offset = e.base
	o.basesMu.Lock()
	base, found := o.bases[at]
	o.basesMu.Unlock()
	if found {
		return base, nil
	}
	base, err := o.read(at, depth)
	if err == nil {
		o.basesMu.Lock()
		defer o.basesMu.Unlock()
		if o.basesSize += len(base.Data); o.basesSize > maxBases {
			clear(o.bases)
			o.basesSize = len(base.Data)
		}
		o.bases[at] = base
	}
	return base, err
}

func (o *Objects) forgetBases() {
	o.basesMu.Lock()
	defer o.basesMu.Unlock()
	clear(o.bases)
	o.basesSize = 0
}

func (o *Objects) loose(h plumbing.Hash) string {
	hex := h.String()
	return filepath.Join(o.repo, "objects", hex[:2], hex[2:])
}

// readLoose reads an object that has a file of its own: git and go-git may leave some.
func (o *Objects) readLoose(h plumbing.Hash) (Object, error) {
	z, err := regular.ReadFile(o.loose(h), math.MaxInt64-1)
	if err != nil {
		return Object{}, err
	}
	bad := func(err any) (Object, error) { return Object{}, damaged("loose object %s: %v", h, err) }
	r, err := zlib.NewReader(bytes.NewReader(z))
	if err != nil {
		return bad(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return bad(err)
	}
	header, data, _ := bytes.Cut(all, []byte{0})
	kind, size, _ := strings.Cut(string(header), " ")
	obj := Object{Hash: h, Kind: Kind(max(slices.Index(kindNames[:], kind), 0)), Data: data}
	if size != strconv.Itoa(len(data)) || !obj.Kind.whole() || Sum(obj.Kind, data) != h {
		return bad("not what its name says")
	}
	return obj, nil
}

// Abbreviated returns the packed objects whose hash begins with these hex digits.
func (o *Objects) Abbreviated(prefix string) []plumbing.Hash {
	o.mu.RLock()
	defer o.mu.RUnlock()
	low := plumbing.NewHash((prefix + strings.Repeat("0", 2*hashSize))[:2*hashSize])
	var found []plumbing.Hash
	for _, p := range o.packs {
		i, _ := p.find(low)
		for ; i < p.count() && strings.HasPrefix(p.hash(i).String(), prefix); i++ {
			if h := p.hash(i); !slices.Contains(found, h) {
				found = append(found, h)
			}
		}
	}
	return found
}
