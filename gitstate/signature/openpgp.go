package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// ringKey is an OpenPGP key and who it belongs to.
type ringKey struct {
	entity     *openpgp.Entity
	principals []string
}

type keyRing []ringKey

// add reads armored public keys; there may be several blocks.
func (r *keyRing) add(name string, text []byte) error {
	rest := bytes.NewReader(text)
	for n := 0; ; n++ {
		block, err := armor.Decode(rest)
		if errors.Is(err, io.EOF) && n > 0 {
			return nil
		}
		if err != nil || block.Type != openpgp.PublicKeyType {
			return fmt.Errorf("%s: is not an armored OpenPGP public key (%q)", name, "-----BEGIN "+openpgp.PublicKeyType+"-----")
		}
		entities, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, e := range entities {
			*r = append(*r, ringKey{e, emails(e)})
		}
	}
}

// emails are those of a key's user IDs, sorted; the whole ID where it has none.
func emails(e *openpgp.Entity) []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(e.Identities)) {
		u := e.Identities[id].UserId
		if u != nil && u.Email != "" {
			id = u.Email
		}
		all = append(all, id)
	}
	return all
}

// verify tells who of the ring signed.
func (r keyRing) verify(signed Signed) (who Signer, err error) {
	defer func() {
		if broken := recover(); broken != nil { // the decoder is another's, and what it reads an attacker's
			who, err = Signer{}, fmt.Errorf("the OpenPGP signature is malformed: %v", broken)
		}
	}()
	block, err := armor.Decode(strings.NewReader(signed.Armored))
	if err != nil || block.Type != openpgp.SignatureType {
		return Signer{}, errors.New("the OpenPGP signature is malformed")
	}
	raw, err := io.ReadAll(io.LimitReader(block.Body, maxSignature))
	if err != nil {
		return Signer{}, fmt.Errorf("the OpenPGP signature is malformed: %w", err)
	}
	said := claim(raw)
	who.Key = issuer(said)
	entities := make(openpgp.EntityList, len(r))
	for i, k := range r {
		entities[i] = k.entity
	}
	config := &packet.Config{Time: func() time.Time { return signed.When }}
	sig, entity, err := openpgp.VerifyDetachedSignature(entities, bytes.NewReader(signed.Payload), bytes.NewReader(raw), config)
	switch {
	case entity == nil && knows(entities, said):
		return who, errWrong
	case entity == nil:
		return who, ErrNotAllowed
	case err != nil:
		return who, fmt.Errorf("the OpenPGP signature: %w", err)
	case sig.SigType != packet.SigTypeBinary && sig.SigType != packet.SigTypeText:
		return who, errors.New("the OpenPGP signature is none of a document")
	case sig.Hash == crypto.SHA1 || sig.Hash == crypto.MD5 || sig.Hash == crypto.RIPEMD160:
		return who, fmt.Errorf("the OpenPGP signature is made with %s, which is broken", sig.Hash)
	}
	who.Key = fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint)
	for _, k := range r {
		if k.entity == entity {
			who.Principals = k.principals
		}
	}
	return who, nil
}

// claim is the first signature of what may be several; nil if it is malformed.
func claim(raw []byte) *packet.Signature {
	p, err := packet.NewReader(bytes.NewReader(raw)).Next()
	if sig, ok := p.(*packet.Signature); err == nil && ok {
		return sig
	}
	return nil
}

// issuer is the ID of the key that a signature says it is by, empty if it does not.
func issuer(sig *packet.Signature) string {
	switch {
	case sig == nil:
	case sig.IssuerFingerprint != nil:
		return fmt.Sprintf("%X", sig.IssuerFingerprint)
	case sig.IssuerKeyId != nil:
		return fmt.Sprintf("%016X", *sig.IssuerKeyId)
	}
	return ""
}

// knows tells whether the key that a signature says it is by is in the ring.
func knows(ring openpgp.EntityList, sig *packet.Signature) bool {
	return sig != nil && sig.IssuerKeyId != nil && len(ring.KeysById(*sig.IssuerKeyId)) > 0
}
