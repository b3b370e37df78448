package pack

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/godwit-gitops/godwit/gitstate/regular"
)

const (
	hashSize   = sha1.Size
	packHeader = 12
	indexFixed = 8 + 256*4
	// maxInflation is more than deflate can ever gain: a size beyond it is a lie.
	maxInflation = 1040
)

// A packed is one pack with its index. It is safe for concurrent use until closed.
type packed struct {
	name string // without extension
	f    *os.File
	size int64

	// The index as it is on disk, and its parts.
	index                              []byte
	hashes, crcs, offsets, bigs, trust []byte // trust is the checksum of the pack

	ordered sync.Once
	starts  []int64 // of the entries, ascending, and the end of the last one
}

func openPack(name string) (_ *packed, err error) {
	p := &packed{name: name}
	if p.index, err = regular.ReadFile(name+".idx", math.MaxInt64-1); err != nil {
		return nil, err
	}
	if err := p.parseIndex(); err != nil {
		return nil, err
	}
	if p.f, err = regular.Open(name + ".pack"); err != nil {
		return nil, err
	}
	if err := p.checkEnds(); err != nil {
		p.f.Close()
		return nil, err
	}
	return p, nil
}

// parseIndex checks the index by its checksum and takes it apart.
func (p *packed) parseIndex() error {
	b := p.index
	if len(b) < indexFixed+2*hashSize || !bytes.Equal(b[:len(indexMagic)], indexMagic) {
		return damaged("%s.idx is no version 2 pack index", p.name)
	}
	body, own := b[:len(b)-hashSize], b[len(b)-hashSize:]
	if sum := sha1.Sum(body); !bytes.Equal(sum[:], own) {
		return damaged("%s.idx does not match its checksum", p.name)
	}
	last := uint32(0)
	for i := range 256 {
		n := binary.BigEndian.Uint32(b[8+4*i:])
		if n < last {
			return damaged("%s.idx counts backwards", p.name)
		}
		last = n
	}
	n := int(last)
	rest := body[indexFixed:]
	if big := len(rest) - hashSize - n*(hashSize+8); big < 0 || big%8 != 0 {
		return damaged("%s.idx has the wrong size for %d objects", p.name, n)
	}
	cut := func(n int) (part []byte) { part, rest = rest[:n], rest[n:]; return part }
	p.hashes, p.crcs, p.offsets = cut(n*hashSize), cut(n*4), cut(n*4)
	p.bigs, p.trust = cut(len(rest)-hashSize), rest
	return nil
}

// checkEnds checks what can be seen of a pack without reading it all: its header and its last bytes.
func (p *packed) checkEnds() error {
	info, err := p.f.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size()
	var header [packHeader]byte
	var trailer [hashSize]byte
	if p.size < packHeader+hashSize {
		return damaged("%s.pack is cut off", p.name)
	}
	if _, err := p.f.ReadAt(header[:], 0); err != nil {
		return err
	}
	if _, err := p.f.ReadAt(trailer[:], p.size-hashSize); err != nil {
		return err
	}
	if string(header[:4]) != "PACK" || int(binary.BigEndian.Uint32(header[8:])) != p.count() {
		return damaged("%s.pack does not begin as its index says", p.name)
	}
	if !bytes.Equal(trailer[:], p.trust) {
		return damaged("%s.pack does not end as its index says", p.name)
	}
	return nil
}

// verify reads the whole pack and compares its checksum.
func (p *packed) verify() error {
	h := sha1.New()
	if _, err := io.CopyBuffer(h, io.NewSectionReader(p.f, 0, p.size-hashSize), make([]byte, 1<<17)); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), p.trust) {
		return damaged("%s.pack does not match its checksum", p.name)
	}
	return nil
}

func (p *packed) count() int { return len(p.hashes) / hashSize }

func (p *packed) hash(i int) plumbing.Hash { return plumbing.Hash(p.hashes[i*hashSize:][:hashSize]) }

// find returns the number of the object in the index.
func (p *packed) find(h plumbing.Hash) (int, bool) {
	fan := func(i int) int { return int(binary.BigEndian.Uint32(p.index[8+4*i:])) }
	low, high := 0, fan(int(h[0]))
	if h[0] > 0 {
		low = fan(int(h[0]) - 1)
	}
	i, found := sort.Find(high-low, func(i int) int {
		return bytes.Compare(h[:], p.hashes[(low+i)*hashSize:][:hashSize])
	})
	return low + i, found
}

func (p *packed) offset(i int) (int64, error) {
	o := binary.BigEndian.Uint32(p.offsets[4*i:])
	if o>>31 == 0 {
		return int64(o), nil
	}
	at := int(o&(1<<31-1)) * 8
	if at+8 > len(p.bigs) {
		return 0, damaged("%s.idx has no offset of object %d", p.name, i)
	}
	return int64(binary.BigEndian.Uint64(p.bigs[at:]) & (1<<63 - 1)), nil
}

// end returns where the entry at an offset ends: where the next one starts.
func (p *packed) end(offset int64) (int64, error) {
	p.ordered.Do(func() {
		p.starts = make([]int64, p.count(), p.count()+1)
		for i := range p.starts {
			p.starts[i], _ = p.offset(i)
		}
		p.starts = append(p.starts, p.size-hashSize)
		slices.Sort(p.starts)
	})
	i, found := slices.BinarySearch(p.starts, offset)
	if !found || i+1 >= len(p.starts) || p.starts[i+1] > p.size-hashSize || offset < packHeader {
		return 0, damaged("%s.pack has no entry at %d", p.name, offset)
	}
	return p.starts[i+1], nil
}

// An entry is one object of a pack as it is stored.
type entry struct {
	kind Kind
	size int           // inflated
	base int64         // offset of an offset delta's base
	on   plumbing.Hash // a ref delta's base
	raw  []byte        // all of it
	z    []byte        // the deflated part of raw
}

// entry reads the entry at an offset into buf.
func (p *packed) entry(offset int64, buf *[]byte) (e entry, err error) {
	end, err := p.end(offset)
	if err != nil {
		return e, err
	}
	b := slices.Grow((*buf)[:0], int(end-offset))[:end-offset]
	*buf = b
	if _, err := p.f.ReadAt(b, offset); err != nil {
		return e, damaged("%s.pack at %d: %v", p.name, offset, err)
	}
	return parseEntry(b, offset)
}

func parseEntry(raw []byte, offset int64) (entry, error) {
	e := entry{raw: raw}
	bad := func() (entry, error) { return e, damaged("pack entry at %d", offset) }
	b := raw
	for shift := 0; ; {
		if len(b) == 0 || shift > 40 {
			return bad()
		}
		c := b[0]
		b = b[1:]
		if shift == 0 {
			e.kind, e.size, shift = Kind(c>>4&7), int(c&15), 4
		} else {
			e.size |= int(c&0x7f) << shift
			shift += 7
		}
		if c&0x80 == 0 {
			break
		}
	}
	switch {
	case e.kind.whole():
	case e.kind == refDelta && len(b) >= hashSize:
		b = b[copy(e.on[:], b):]
	case e.kind == offsetDelta:
		back := int64(-1)
		for more := true; more; b = b[1:] {
			if len(b) == 0 || back > offset {
				return bad()
			}
			back = (back+1)<<7 | int64(b[0]&0x7f)
			more = b[0]&0x80 != 0
		}
		if e.base = offset - back; back <= 0 || e.base < packHeader {
			return bad()
		}
	default:
		return bad()
	}
	e.z = b
	if e.size > (len(b)+1)*maxInflation {
		return bad()
	}
	return e, nil
}

// A inflater is a zlib reader that can be used again.
type inflater struct {
	src bytes.Reader
	z   io.ReadCloser
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// inflate returns exactly size bytes and checks their checksum.
func inflate(z []byte, size int) ([]byte, error) {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	f.src.Reset(z)
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(&f.src)
	} else {
		err = f.z.(zlib.Resetter).Reset(&f.src, nil)
	}
	if err != nil {
		return nil, damaged("%v", err)
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(f.z, out); err != nil {
		return nil, damaged("%v", err)
	}
	var one [1]byte // the checksum is compared at the very end of the stream
	if n, err := f.z.Read(one[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, damaged("longer than it says, or wrong checksum: %v", err)
	}
	return out, nil
}

// patch applies a delta to its base.
func patch(base, delta []byte) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, damaged("delta for a base of another size")
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > uint64(len(delta))*(1<<24) {
		return nil, damaged("delta without a size")
	}
	delta = delta[n:]
	// A small delta may say a large size; the memory is taken as the content comes.
	out := make([]byte, 0, min(size, uint64(len(base)+len(delta))))
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		part := delta
		if op&0x80 == 0 {
			if op == 0 || int(op) > len(delta) {
				return nil, damaged("delta with a wrong insertion")
			}
			part, delta = delta[:op], delta[op:]
		} else {
			var arg [7]int // four bytes of offset, three of length
			for i := range arg {
				if op>>i&1 == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, damaged("delta is cut off")
				}
				arg[i], delta = int(delta[0]), delta[1:]
			}
			start := arg[0] | arg[1]<<8 | arg[2]<<16 | arg[3]<<24
			length := arg[4] | arg[5]<<8 | arg[6]<<16
			if length == 0 {
				length = 1 << 16
			}
			if start+length > len(base) {
				return nil, damaged("delta copies beyond its base")
			}
			part = base[start : start+length]
		}
		if uint64(len(out)+len(part)) > size {
			return nil, damaged("delta makes more than it says")
		}
		out = append(out, part...)
	}
	if uint64(len(out)) != size {
		return nil, damaged("delta makes less than it says")
	}
	return out, nil
}

// sound checks a raw entry against the index.
func (p *packed) sound(i int, raw []byte) error {
	if crc32.ChecksumIEEE(raw) != binary.BigEndian.Uint32(p.crcs[4*i:]) {
		return damaged("%s.pack: entry of %s does not match its checksum", p.name, p.hash(i))
	}
	return nil
}
