package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func FuzzSplit(f *testing.F) {
	f.Add([]byte("tree 1\ncommitter A <a> 1 +0000\ngpgsig a\n b\n\nmessage\n"))
	f.Add([]byte("gpgsig\n \n\n"))
	f.Add([]byte("gpgsig-sha256 a\n b\ngpgsig c\nx y\n z\n\n"))
	f.Fuzz(func(t *testing.T, commit []byte) {
		s, err := Split(commit)
		if err != nil {
			return
		}
		// What is signed says the same when it is signed again.
		again, err := Split(s.Payload)
		if err != nil || again.Armored != "" || !bytes.Equal(again.Payload, s.Payload) || again.When != s.When {
			t.Errorf("Split(%q) = %q, and of that %q, %v", commit, s.Payload, again.Payload, err)
		}
	})
}

func FuzzSSHArmor(f *testing.F) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	k := &Key{ssh: must(ssh.NewSignerFromKey(private))}
	f.Add(must(k.Sign([]byte("text"))))
	f.Add("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n")
	signers := (*Signers)(nil).With("me", k)
	f.Fuzz(func(t *testing.T, armored string) {
		sig, key, err := parseSSH(armored)
		if err != nil {
			return
		}
		again, same, err := parseSSH(sig.armor())
		if err != nil || !bytes.Equal(same.Marshal(), key.Marshal()) || again.armor() != sig.armor() {
			t.Errorf("%q is read as %+v, and that as %+v: %v", armored, sig, again, err)
		}
		sig.check(key, []byte("other"))
		signers.verifySSH(Signed{Armored: armored})
	})
}

func FuzzAllowedSigners(f *testing.F) {
	f.Add([]byte("ada@example.com,bob namespaces=\"git\",valid-after=\"20260101Z\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBl6nmyHFC9pHgCpVZTUHsLWEJHlZ3mYQ1RRgBVVqn4t\n"))
	f.Add([]byte("\"a b\" cert-authority ssh-ed25519 AAAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseAllowed("f", text)
		if err != nil && list != nil {
			t.Error("a broken list has entries")
		}
		for _, a := range list {
			if a.key == nil || len(a.principals) == 0 {
				t.Errorf("%q gives %+v", text, a)
			}
			matches("ada", a.principals)
		}
		if lines := strings.Count(string(text), "\n") + 1; len(list) > lines {
			t.Errorf("%d entries of %d lines", len(list), lines)
		}
	})
}

func FuzzOpenPGP(f *testing.F) {
	e := newEntity(f, "Ada", bob, must(Split([]byte("committer A <a> 1000 +0000\n\n"))).When)
	f.Add(must((&Key{pgp: e}).Sign([]byte("text"))))
	ring := keyRing{{e, []string{bob}}}
	f.Fuzz(func(t *testing.T, armored string) {
		if who, err := ring.verify(Signed{Payload: []byte("other"), Armored: armored}); err == nil {
			t.Errorf("%v signed what it did not", who)
		}
	})
}
