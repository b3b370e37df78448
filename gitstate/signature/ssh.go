package signature

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	sshArmor = "SSH SIGNATURE"
	sshMagic = "SSHSIG"
	// namespace is what git signs in: a signature that was made for another purpose is none of a commit.
	namespace = "git"
)

// sshSignature is a signature as it is transported, without the magic before it.
type sshSignature struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshSigned is what is signed, without the magic before it.
type sshSigned struct {
	Namespace string
	Reserved  string
	Hash      string
	Digest    []byte
}

// parseSSH reads an armored signature and its key.
func parseSSH(armored string) (*sshSignature, ssh.PublicKey, error) {
	block, rest := pem.Decode([]byte(armored))
	if block == nil || block.Type != sshArmor || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, errors.New("the SSH signature is malformed")
	}
	body, ok := bytes.CutPrefix(block.Bytes, []byte(sshMagic))
	if !ok {
		return nil, nil, errors.New("the SSH signature is malformed: no " + sshMagic)
	}
	s := &sshSignature{}
	if err := ssh.Unmarshal(body, s); err != nil {
		return nil, nil, fmt.Errorf("the SSH signature is malformed: %w", err)
	}
	if s.Version != 1 {
		return nil, nil, fmt.Errorf("the SSH signature is of version %d; only 1 is known", s.Version)
	}
	key, err := ssh.ParsePublicKey(s.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("the key of the SSH signature is malformed: %w", err)
	}
	return s, key, nil
}

func (s *sshSignature) armor() string {
	body := append([]byte(sshMagic), ssh.Marshal(s)...)
	text := base64.StdEncoding.EncodeToString(body)
	var b strings.Builder
	b.WriteString("-----BEGIN " + sshArmor + "-----\n")
	for len(text) > 0 {
		n := min(70, len(text)) // as ssh-keygen writes it
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END " + sshArmor + "-----\n")
	return b.String()
}

// signed is what the signature of a message is over.
func (s *sshSignature) signed(message []byte) ([]byte, error) {
	var digest []byte
	switch s.Hash {
	case "sha256":
		sum := sha256.Sum256(message)
		digest = sum[:]
	case "sha512":
		sum := sha512.Sum512(message)
		digest = sum[:]
	default:
		return nil, fmt.Errorf("the hash function %q of the SSH signature is not allowed; sha256 and sha512 are", s.Hash)
	}
	return append([]byte(sshMagic), ssh.Marshal(sshSigned{s.Namespace, s.Reserved, s.Hash, digest})...), nil
}

// check tells whether the key signed the message.
func (s *sshSignature) check(key ssh.PublicKey, message []byte) error {
	var sig ssh.Signature
	if err := ssh.Unmarshal(s.Signature, &sig); err != nil {
		return fmt.Errorf("the SSH signature is malformed: %w", err)
	}
	if sig.Format == ssh.KeyAlgoRSA || sig.Format == ssh.InsecureKeyAlgoDSA {
		return fmt.Errorf("the SSH signature is of the algorithm %s, which is broken", sig.Format)
	}
	signed, err := s.signed(message)
	if err != nil {
		return err
	}
	if key.Verify(signed, &sig) != nil {
		return errWrong
	}
	return nil
}

// signSSH signs a message.
func signSSH(signer ssh.Signer, message []byte) (string, error) {
	s := &sshSignature{Version: 1, PublicKey: signer.PublicKey().Marshal(), Namespace: namespace, Hash: "sha512"}
	signed, err := s.signed(message)
	if err != nil {
		return "", err
	}
	var sig *ssh.Signature
	if algorithms, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		sig, err = algorithms.SignWithAlgorithm(rand.Reader, signed, ssh.KeyAlgoRSASHA512)
	} else {
		sig, err = signer.Sign(rand.Reader, signed)
	}
	if err != nil {
		return "", err
	}
	s.Signature = ssh.Marshal(sig)
	return s.armor(), nil
}
