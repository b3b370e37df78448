package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Keys open the data keys of files. The zero value opens none. They print as nothing.
type Keys struct {
	age []age.Identity
	pgp openpgp.EntityList
}

// String hides the keys.
func (Keys) String() string { return "(not shown)" }

// GoString hides the keys.
func (Keys) GoString() string { return "(not shown)" }

// Empty tells whether there are none.
func (k Keys) Empty() bool { return len(k.age) == 0 && len(k.pgp) == 0 }

// With is both.
func (k Keys) With(more Keys) Keys {
	return Keys{append(k.age[:len(k.age):len(k.age)], more.age...), append(k.pgp[:len(k.pgp):len(k.pgp)], more.pgp...)}
}

// ParseKeys reads a file of private keys: identities of age, one a line, as age-keygen writes them, or armored OpenPGP keys. Nothing
// of the file is in an error.
func ParseKeys(text []byte) (Keys, error) {
	if bytes.Contains(text, []byte("-----BEGIN PGP ")) {
		return parsePGP(text)
	}
	var keys Keys
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		identities, err := age.ParseIdentities(strings.NewReader(line))
		switch {
		case strings.HasPrefix(line, "AGE-PLUGIN-"):
			return Keys{}, fmt.Errorf("line %d: is the identity of a plugin, and plugins are not run; use a key of age itself", number)
		case err != nil:
			return Keys{}, fmt.Errorf("line %d: is no private key of age (AGE-SECRET-KEY-...), and the file has no armored OpenPGP key", number)
		}
		keys.age = append(keys.age, identities...)
	}
	if keys.Empty() {
		return Keys{}, errors.New("there is no key in it")
	}
	return keys, nil
}

// maxKeys is how many keys one file may have.
const maxKeys = 100

func parsePGP(text []byte) (keys Keys, err error) {
	defer func() {
		if recover() != nil {
			keys, err = Keys{}, errors.New("its OpenPGP keys cannot be read")
		}
	}()
	for range maxKeys {
		at := bytes.Index(text, []byte("-----BEGIN PGP "))
		if at < 0 {
			break
		}
		text = text[at:]
		end := len(text)
		if next := bytes.Index(text[1:], []byte("-----BEGIN PGP ")); next >= 0 {
			end = next + 1
		}
		list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text[:end]))
		if err != nil {
			return Keys{}, errors.New("its OpenPGP keys cannot be read")
		}
		keys.pgp = append(keys.pgp, list...)
		text = text[end:]
	}
	private := false
	for _, e := range keys.pgp {
		locked := e.PrivateKey != nil && e.PrivateKey.Encrypted
		private = private || e.PrivateKey != nil
		for _, sub := range e.Subkeys {
			locked = locked || sub.PrivateKey != nil && sub.PrivateKey.Encrypted
			private = private || sub.PrivateKey != nil
		}
		if locked {
			return Keys{}, fmt.Errorf("the OpenPGP key %X is locked with a passphrase; export it without one", e.PrimaryKey.Fingerprint)
		}
	}
	if !private {
		return Keys{}, errors.New("there is no private OpenPGP key in it; export it with gpg --export-secret-keys --armor")
	}
	return keys, nil
}

// dataKeySize is that of the key that the values are encrypted with.
const dataKeySize = 32

// openAge opens a data key that was encrypted for an age recipient; nil if no key fits.
func (k Keys) openAge(enc string) []byte {
	if len(k.age) == 0 {
		return nil
	}
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(enc)), k.age...)
	if err != nil {
		return nil
	}
	return readKey(r)
}

// openPGP opens one that was encrypted for an OpenPGP key.
func (k Keys) openPGP(enc string) (key []byte) {
	if len(k.pgp) == 0 {
		return nil
	}
	defer func() {
		if recover() != nil {
			key = nil
		}
	}()
	block, err := pgparmor.Decode(strings.NewReader(enc))
	if err != nil {
		return nil
	}
	message, err := openpgp.ReadMessage(block.Body, k.pgp, nil, nil)
	if err != nil {
		return nil
	}
	return readKey(message.UnverifiedBody)
}

// readKey reads to the end, where it is known whether it is whole.
func readKey(r io.Reader) []byte {
	key, err := io.ReadAll(io.LimitReader(r, dataKeySize+1))
	if err != nil || len(key) != dataKeySize {
		return nil
	}
	return key
}
