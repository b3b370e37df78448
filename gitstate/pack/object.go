package pack

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// ErrMissing says that a repository has no such object.
var ErrMissing = errors.New("object not found")

// ErrDamaged says that what was read is not what was once written.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Kind is the type of an object, with the number it has in a pack.
type Kind byte

// The kinds of objects.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4

	offsetDelta Kind = 6
	refDelta    Kind = 7
)

var kindNames = [...]string{Commit: "commit", Tree: "tree", Blob: "blob", Tag: "tag", offsetDelta: "ofs-delta", refDelta: "ref-delta"}

// String returns Git's word for the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

func (k Kind) whole() bool { return Commit <= k && k <= Tag }

// Object is one whole object. Data is never changed by this package.
type Object struct {
	Hash plumbing.Hash
	Kind Kind
	Data []byte
}

// New returns the object with its hash.
func New(kind Kind, data []byte) Object { return Object{Sum(kind, data), kind, data} }

var hashers = sync.Pool{New: func() any { return sha1.New() }}

// Sum returns the hash an object of that kind and content has.
func Sum(kind Kind, data []byte) (sum plumbing.Hash) {
	h := hashers.Get().(hash.Hash)
	defer hashers.Put(h)
	h.Reset()
	var header [32]byte
	b := append(header[:0], kindNames[kind]...)
	b = strconv.AppendInt(append(b, ' '), int64(len(data)), 10)
	h.Write(append(b, 0))
	h.Write(data)
	h.Sum(sum[:0])
	return sum
}
