package signature

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Errors of Verify, besides ErrUnsigned.
var (
	// ErrNotAllowed says that the key is not among those allowed, or not for this.
	ErrNotAllowed = errors.New("no allowed signer has this key")
	errWrong      = errors.New("the signature does not fit the commit: one of them was changed")
)

// Files are where allowed keys stand.
type Files struct {
	// AllowedSigners is a file in the format of ssh-keygen's allowed_signers; empty means none.
	AllowedSigners string
	// OpenPGPKeys are armored key rings.
	OpenPGPKeys []string
	// RevokedKeys is a file of SSH public keys that count no more, one a line; empty means none.
	RevokedKeys string
}

// Signers are the keys that are allowed to sign.
type Signers struct {
	ssh     []allowed
	pgp     keyRing
	revoked map[string]bool // by the key's wire form
}

// Load reads the files. That no key is in them is an error: a list without keys refuses everything.
func Load(f Files) (*Signers, error) {
	s := &Signers{revoked: map[string]bool{}}
	var errs []error
	read := func(name string, parse func([]byte) error) {
		text, err := os.ReadFile(name)
		if err == nil {
			err = parse(text)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if f.AllowedSigners != "" {
		read(f.AllowedSigners, func(text []byte) (err error) {
			s.ssh, err = parseAllowed(f.AllowedSigners, text)
			return err
		})
	}
	for _, name := range f.OpenPGPKeys {
		read(name, func(text []byte) error { return s.pgp.add(name, text) })
	}
	if f.RevokedKeys != "" {
		read(f.RevokedKeys, func(text []byte) error { return s.revoke(f.RevokedKeys, text) })
	}
	if len(errs) == 0 && len(s.ssh) == 0 && len(s.pgp) == 0 {
		errs = append(errs, errors.New("no key is allowed: the list of signers is empty"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// revoke reads public keys, one a line.
func (s *Signers) revoke(name string, text []byte) error {
	if bytes.HasPrefix(text, []byte("SSHKRL\n\x00")) {
		return fmt.Errorf("%s: is a binary revocation list, which is not read; list the revoked public keys in it, one a line", name)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parsePublicKey(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		s.revoked[string(key.Marshal())] = true
	}
	return nil
}

// With returns the signers and one more, by the name given: a key's own.
func (s *Signers) With(principal string, k *Key) *Signers {
	more := &Signers{revoked: map[string]bool{}}
	if s != nil {
		*more = *s
	}
	if k.ssh != nil {
		more.ssh = append(more.ssh[:len(more.ssh):len(more.ssh)], allowed{principals: []string{principal}, key: k.ssh.PublicKey()})
	} else {
		more.pgp = append(more.pgp[:len(more.pgp):len(more.pgp)], ringKey{entity: k.pgp, principals: []string{principal}})
	}
	return more
}

// Signer is who signed.
type Signer struct {
	// Key is the fingerprint, as ssh-keygen and gpg print it.
	Key string
	// Principals are who the key belongs to as the lists say, which may be patterns, or as its certificate says.
	Principals []string
}

// Is tells whether a name is among the principals, as it stands there: a pattern is nobody's name.
func (s Signer) Is(name string) bool { return slices.Contains(s.Principals, name) }

// String is "ada@example.com (SHA256:...)".
func (s Signer) String() string {
	if len(s.Principals) == 0 {
		return s.Key
	}
	return strings.Join(s.Principals, ",") + " (" + s.Key + ")"
}

// Verify tells who of the signers signed a commit, which is the object as git has it. The error is ErrUnsigned or
// ErrNotAllowed, or says what is wrong with the signature; the Signer then has the key, if there is one to be read.
func (s *Signers) Verify(commit []byte) (Signer, error) {
	signed, err := Split(commit)
	switch {
	case err != nil:
		return Signer{}, err
	case signed.Armored == "":
		return Signer{}, ErrUnsigned
	case strings.HasPrefix(signed.Armored, "-----BEGIN "+sshArmor+"-----"):
		return s.verifySSH(signed)
	case strings.HasPrefix(signed.Armored, "-----BEGIN PGP "):
		return s.pgp.verify(signed)
	case strings.HasPrefix(signed.Armored, "-----BEGIN SIGNED MESSAGE-----"):
		return Signer{}, errors.New("it has an X.509 signature; those of SSH and OpenPGP are read")
	}
	return Signer{}, errors.New("its signature is neither one of SSH nor of OpenPGP")
}

func (s *Signers) verifySSH(signed Signed) (Signer, error) {
	sig, key, err := parseSSH(signed.Armored)
	if err != nil {
		return Signer{}, err
	}
	who := Signer{Key: ssh.FingerprintSHA256(key)}
	cert, certified := key.(*ssh.Certificate)
	if certified {
		who.Key = ssh.FingerprintSHA256(cert.Key)
	}
	switch {
	case sig.Namespace != namespace:
		return who, fmt.Errorf("the SSH signature was made for %.40q and not for git", sig.Namespace)
	case s.revoked[string(key.Marshal())] || certified && (s.revoked[string(cert.Key.Marshal())] || s.revoked[string(cert.SignatureKey.Marshal())]):
		return who, errors.New("the key is revoked")
	}
	reason := error(ErrNotAllowed)
	for _, a := range s.ssh {
		principals, err := a.admits(key, signed.When)
		if err != nil {
			reason = err
		}
		if len(principals) == 0 {
			continue
		}
		if err := sig.check(key, signed.Payload); err != nil {
			return who, err
		}
		who.Principals = principals
		return who, nil
	}
	return who, reason
}

// admits returns who a key belongs to that signed at the time; nobody if the line is about another key, and an error
// if it is about this one and does not let it sign.
func (a *allowed) admits(key ssh.PublicKey, at time.Time) (principals []string, err error) {
	cert, certified := key.(*ssh.Certificate)
	switch {
	case a.authority != certified:
		return nil, nil
	case certified && !bytes.Equal(cert.SignatureKey.Marshal(), a.key.Marshal()):
		return nil, nil
	case !certified && !bytes.Equal(key.Marshal(), a.key.Marshal()):
		return nil, nil
	case a.namespaces != nil && !matches(namespace, a.namespaces):
		return nil, errors.New(`the key is not allowed to sign commits: its namespaces do not have "git"`)
	case !a.after.IsZero() && at.Before(a.after):
		return nil, fmt.Errorf("the key is allowed from %s, and the commit is of %s", a.after.Format(time.RFC3339), at.Format(time.RFC3339))
	case !a.before.IsZero() && at.After(a.before):
		return nil, fmt.Errorf("the key was allowed until %s, and the commit is of %s", a.before.Format(time.RFC3339), at.Format(time.RFC3339))
	case !certified:
		return a.principals, nil
	}
	for _, p := range cert.ValidPrincipals {
		if matches(p, a.principals) {
			principals = append(principals, p)
		}
	}
	switch {
	case cert.CertType != ssh.UserCert:
		return nil, errors.New("the certificate is one of a host")
	case len(principals) == 0:
		return nil, errors.New("the certificate names nobody whom its authority may speak for")
	case cert.Signature.Format == ssh.KeyAlgoRSA:
		return nil, fmt.Errorf("the certificate is signed with %s, which is broken", cert.Signature.Format)
	}
	checker := ssh.CertChecker{Clock: func() time.Time { return at }}
	if err := checker.CheckCert(principals[0], cert); err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	return principals, nil
}
