package sops

import (
	"bytes"
	"io"
	"math"
	"strings"

	"filippo.io/age/armor"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Limits on what opening data keys may take. What is counted are attempts at a key of age; one at an OpenPGP key counts for as many as
// take as long.
const (
	// maxWraps is for how many keys one encrypted data key may be: SOPS makes one for each recipient.
	maxWraps = 16
	// maxAttempts is what one document may take, and maxReading what all of a source may.
	maxAttempts, maxReading = 2_000, 100_000
)

// Reading opens the files of one read of a source, in the order in which it is asked for them. It belongs to one caller.
type Reading struct {
	ring *Keyring
	// spent is what opening data keys took, and refused is how many documents stayed closed for want of more.
	spent, refused int
	keys           map[wrapped][]byte // data keys that were tried; nil if none of ours fits
}

// wrapped is a data key that was encrypted for somebody.
type wrapped struct {
	grant *grant // whose keys are tried
	pgp   bool
	enc   string
}

// Read begins to read a source.
func (r *Keyring) Read() *Reading { return &Reading{ring: r, keys: map[wrapped][]byte{}} }

// Spent is what opening data keys took up to now.
func (r *Reading) Spent() int { return r.spent }

// Refused is how many documents stayed closed up to now, since opening them would take more than a read may.
func (r *Reading) Refused() int { return r.refused }

// Spend counts what takes so much, such as what is kept of another read. If that is more than is left, it is not to be done, and what
// was kept has to be read again. What comes after a document that was refused is refused, too.
func (r *Reading) Spend(cost int) bool {
	if cost > 0 && (r.refused > 0 || r.spent+cost > maxReading) {
		return false
	}
	r.spent += cost
	return true
}

// open opens a data key. Equal ones are tried once.
func (r *Reading) open(w wrapped) []byte {
	key, tried := r.keys[w]
	if !tried {
		if w.pgp {
			key = w.grant.keys.openPGP(w.enc)
		} else {
			key = w.grant.keys.openAge(w.enc)
		}
		r.keys[w] = key
	}
	return key
}

// cost is what trying to open it takes at most; false if it is not what SOPS writes, and not to be tried.
func (w wrapped) cost() (int, bool) {
	if len(w.enc) > maxEnc {
		return 0, false
	}
	if w.pgp {
		return w.grant.keys.costPGP(w.enc)
	}
	return w.grant.keys.costAge(w.enc)
}

func (k Keys) costAge(enc string) (int, bool) {
	data, err := io.ReadAll(armor.NewReader(strings.NewReader(enc)))
	if err != nil {
		return 0, false
	}
	header, _, _ := bytes.Cut(data, []byte("\n---"))
	wraps := bytes.Count(header, []byte("\n-> "))
	return wraps * len(k.age), wraps <= maxWraps
}

func (k Keys) costPGP(enc string) (cost int, ok bool) {
	defer func() {
		if recover() != nil {
			cost, ok = 0, false
		}
	}()
	block, err := pgparmor.Decode(strings.NewReader(enc))
	if err != nil {
		return 0, false
	}
	const encryptedKey = 1 // the tag of such a packet
	wraps := 0
	for packets := packet.NewOpaqueReader(block.Body); ; {
		p, err := packets.Next()
		if err == io.EOF {
			return cost, wraps <= maxWraps
		}
		if err != nil {
			return 0, false
		}
		if p.Tag == encryptedKey {
			wraps++
			cost += k.costOf(p.Contents)
		}
	}
}

// costOf is what trying the keys that one packet may be for takes: those with the number in it, or all, if it names none.
func (k Keys) costOf(contents []byte) (cost int) {
	const version3, number = 3, 8
	keys := k.pgp.DecryptionKeys()
	if len(contents) > number && contents[0] == version3 {
		id := uint64(0)
		for _, b := range contents[1 : 1+number] {
			id = id<<8 | uint64(b)
		}
		if id != 0 {
			keys = k.pgp.KeysById(id)
		}
	}
	for _, key := range keys {
		if key.PrivateKey == nil {
			continue
		}
		// A key of RSA takes the third power of its length.
		const asLong = 4
		cost += asLong
		if bits, err := key.PublicKey.BitLength(); err == nil && bits >= 1<<10 {
			cost += int(2 * math.Pow(float64(bits)/(1<<10), 3))
		}
	}
	return cost
}
