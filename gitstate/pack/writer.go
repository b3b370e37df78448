package pack

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxPack is where a pack ends: beyond it an index needs 64-bit offsets, which no pack written here shall need.
const maxPack = 1<<31 - 1

// A Writer streams one pack of a number of objects known beforehand. It is for one goroutine.
type Writer struct {
	w       io.Writer
	sum     hash.Hash
	size    int64
	left    int
	written []written
	deflate deflater
	err     error
}

// written is what the index has to know of an entry.
type written struct {
	hash   plumbing.Hash
	crc    uint32
	offset uint32
}

// NewWriter begins a pack of n objects on w, which it writes to once for each object.
func NewWriter(w io.Writer, n int) *Writer {
	p := &Writer{w: w, sum: sha1.New(), left: n, written: make([]written, 0, n)}
	header := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(n))
	p.emit(header)
	return p
}

// Write adds one object.
func (p *Writer) Write(o Object) error {
	p.entry(o.Hash, p.deflate.entry(o))
	return p.err
}

// batch is how many objects a goroutine of WriteAll deflates at once.
const batch = 64

// WriteAll adds all objects, deflating on every core that there is work for.
func (p *Writer) WriteAll(objects []Object) error {
	batches := slices.Collect(slices.Chunk(objects, batch))
	workers := min(runtime.GOMAXPROCS(0), len(batches))
	if workers < 2 {
		for _, o := range objects {
			if err := p.Write(o); err != nil {
				return err
			}
		}
		return p.err
	}
	// Worker i deflates batches i, i+workers, ...: they come back in order without anybody sorting them.
	done := make(chan struct{})
	ready := make([]chan [][]byte, workers)
	for i := range ready {
		ready[i] = make(chan [][]byte) // no buffer: see deflater
		go func() {
			defer close(ready[i])
			var d deflater
			for b := i; b < len(batches); b += workers {
				select {
				case ready[i] <- d.entries(batches[b]):
				case <-done:
					return
				}
			}
		}()
	}
	defer func() { // a goroutine has an owner who waits for it
		close(done)
		for _, r := range ready {
			for range r {
			}
		}
	}()
	for b, objects := range batches {
		for i, entry := range <-ready[b%workers] {
			p.entry(objects[i].Hash, entry)
		}
		if p.err != nil {
			break
		}
	}
	return p.err
}

// Close ends the pack and returns its checksum. It does not close the underlying writer.
func (p *Writer) Close() (sum plumbing.Hash, err error) {
	if p.err == nil && p.left != 0 {
		p.err = fmt.Errorf("pack is %d objects short", p.left)
	}
	p.sum.Sum(sum[:0])
	p.emit(sum[:])
	return sum, p.err
}

// entry adds an encoded entry.
func (p *Writer) entry(hash plumbing.Hash, entry []byte) {
	switch {
	case p.err != nil:
		return
	case p.left == 0:
		p.err = fmt.Errorf("pack has more objects than announced")
		return
	case p.size+int64(len(entry)) > maxPack:
		p.err = fmt.Errorf("pack would exceed 2 GiB at object %s: split what is written at once", hash)
		return
	}
	p.left--
	p.written = append(p.written, written{hash, crc32.ChecksumIEEE(entry), uint32(p.size)})
	p.emit(entry)
}

func (p *Writer) emit(b []byte) {
	if p.err != nil {
		return
	}
	p.sum.Write(b)
	p.size += int64(len(b))
	_, p.err = p.w.Write(b)
}

// A deflater encodes entries, one goroutine at a time. What it returns holds until the next call but one, so a batch
// can be written while the next one is deflated.
type deflater struct {
	bufs [2]bytes.Buffer
	turn int
	z    *zlib.Writer
}

func (d *deflater) entry(o Object) []byte {
	buf := d.buffer()
	d.append(buf, o)
	return buf.Bytes()
}

func (d *deflater) entries(objects []Object) [][]byte {
	buf := d.buffer()
	ends := make([]int, len(objects))
	for i, o := range objects {
		d.append(buf, o)
		ends[i] = buf.Len()
	}
	out, start := make([][]byte, len(objects)), 0
	for i, end := range ends {
		out[i], start = buf.Bytes()[start:end], end
	}
	return out
}

func (d *deflater) buffer() *bytes.Buffer {
	d.turn ^= 1
	d.bufs[d.turn].Reset()
	return &d.bufs[d.turn]
}

func (d *deflater) append(buf *bytes.Buffer, o Object) {
	var header [10]byte
	buf.Write(appendEntryHeader(header[:0], o.Kind, len(o.Data)))
	if d.z == nil {
		d.z, _ = zlib.NewWriterLevel(nil, zlib.BestSpeed) // an error means a wrong level
	}
	d.z.Reset(buf)
	d.z.Write(o.Data) // a bytes.Buffer never errs
	d.z.Close()
}

// appendEntryHeader appends kind and size: 3 bits of kind, 4 of size, then 7 of size a byte, low ones first.
func appendEntryHeader(b []byte, kind Kind, size int) []byte {
	c := byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

var indexMagic = []byte("\xfftOc\x00\x00\x00\x02")

// index returns the version 2 index of the pack that Close ended with that sum. An object that is twice in the pack
// is an error.
func (p *Writer) index(sum plumbing.Hash) ([]byte, error) {
	slices.SortFunc(p.written, func(a, b written) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	b := make([]byte, 0, len(indexMagic)+256*4+len(p.written)*28+2*sha1.Size)
	b = append(b, indexMagic...)
	i := 0
	for first := range 256 {
		for i < len(p.written) && int(p.written[i].hash[0]) == first {
			i++
		}
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	for i, o := range p.written {
		if i > 0 && o.hash == p.written[i-1].hash {
			return nil, fmt.Errorf("object %s is twice in the pack", o.hash)
		}
		b = append(b, o.hash[:]...)
	}
	for _, o := range p.written {
		b = binary.BigEndian.AppendUint32(b, o.crc)
	}
	for _, o := range p.written {
		b = binary.BigEndian.AppendUint32(b, o.offset)
	}
	b = append(b, sum[:]...)
	own := sha1.Sum(b)
	return append(b, own[:]...), nil
}
