package signature

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// Key signs commits.
type Key struct {
	ssh ssh.Signer
	pgp *openpgp.Entity
}

// LoadKey reads a private key: one of SSH, or an armored one of OpenPGP. It signs once to see that it can.
func LoadKey(name string, passphrase []byte) (*Key, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	k, err := parseKey(text, passphrase)
	if err == nil {
		_, err = k.Sign([]byte("tree\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

func parseKey(text, passphrase []byte) (*Key, error) {
	if strings.Contains(string(text), "-----BEGIN PGP ") {
		entities, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text))
		switch {
		case err != nil:
			return nil, err
		case len(entities) != 1:
			return nil, fmt.Errorf("has %d OpenPGP keys; one is needed", len(entities))
		case entities[0].PrivateKey == nil:
			return nil, errors.New("is a public key; the private one is needed to sign")
		}
		if err := entities[0].DecryptPrivateKeys(passphrase); err != nil {
			return nil, fmt.Errorf("the passphrase does not open the key: %w", err)
		}
		return &Key{pgp: entities[0]}, nil
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked) && len(passphrase) == 0:
		return nil, errors.New("the key has a passphrase, and none is given")
	case errors.As(err, &locked):
		signer, err = ssh.ParsePrivateKeyWithPassphrase(text, passphrase)
	}
	if err != nil {
		return nil, fmt.Errorf("is neither a private key of SSH nor an armored one of OpenPGP: %w", err)
	}
	return &Key{ssh: signer}, nil
}

// Sign returns the armored signature of what a commit without one is.
func (k *Key) Sign(payload []byte) (string, error) {
	if k.ssh != nil {
		return signSSH(k.ssh, payload)
	}
	var b bytes.Buffer
	err := openpgp.ArmoredDetachSign(&b, k.pgp, bytes.NewReader(payload), &packet.Config{})
	return b.String() + "\n", err
}
