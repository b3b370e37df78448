package signature

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

const (
	bob  = "bob@example.com"
	when = "1767225600 +0000" // 2026-01-01
)

// world is a repository, keys and git.
type world struct {
	testing.TB
	dir string
}

func newWorld(t testing.TB) *world {
	w := &world{t, t.TempDir()}
	w.run("git", "init", "-q", "-b", "main", "repo")
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "GIT_CONFIG_NOSYSTEM=1", "GNUPGHOME="+w.path("gnupg"), "SSH_AUTH_SOCK=",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_AUTHOR_DATE="+when, "GIT_COMMITTER_DATE="+when)
	return cmd
}

func (w *world) run(name string, args ...string) string {
	w.Helper()
	out, err := w.command(name, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (w *world) git(args ...string) string {
	w.Helper()
	return w.run("git", append([]string{"-C", "repo", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile=" + w.path("allowed")}, args...)...)
}

func (w *world) write(name, text string) string {
	w.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return w.path(name)
}

// key makes an SSH key pair and returns the public part.
func (w *world) key(name, kind string, args ...string) string {
	w.Helper()
	w.run("ssh-keygen", append([]string{"-q", "-t", kind, "-N", "", "-C", name, "-f", name}, args...)...)
	return w.read(name + ".pub")
}

func (w *world) read(name string) string {
	w.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// commit makes one that git signs with the key and returns the object; without a key it is not signed.
func (w *world) commit(key string) []byte {
	w.Helper()
	args := []string{"commit", "-q", "--allow-empty", "-m", "subject\n\nbody"}
	if key != "" {
		args = append(args, "-S"+w.path(key))
	}
	w.git(args...)
	return w.object()
}

func (w *world) object() []byte {
	w.Helper()
	out, err := w.command("git", "-C", "repo", "cat-file", "commit", "HEAD").Output()
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *world) signers(lines ...string) *Signers {
	w.Helper()
	s, err := Load(Files{AllowedSigners: w.write("allowed", strings.Join(lines, "\n")+"\n")})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// TestWhatGitSignsIsVerified compares every kind of line with what git says of it.
func TestWhatGitSignsIsVerified(t *testing.T) {
	w := newWorld(t)
	ed, rsa, ec := w.key("ed", "ed25519"), w.key("rsa", "rsa", "-b", "2048"), w.key("ec", "ecdsa")
	ca := w.key("ca", "ed25519")
	w.key("certified", "ed25519")
	w.run("ssh-keygen", "-q", "-s", "ca", "-I", "id", "-n", "carol@example.com,ops", "-V", "20251201:20270101", "certified.pub")
	w.key("late", "ed25519")
	w.run("ssh-keygen", "-q", "-s", "ca", "-I", "id", "-n", "carol@example.com", "-V", "20260601:20270101", "late.pub")
	for _, name := range []string{"certified", "late"} {
		w.write(name+"-cert", w.read(name)) // where ssh-keygen looks for the key of a certificate
	}
	for _, test := range []struct {
		name, key, allowed string
		want               string // principals, or part of the error
		ok                 bool
	}{
		{"ed25519", "ed", "ada@example.com " + ed, "ada@example.com", true},
		{"rsa", "rsa", "ada@example.com,bob " + rsa, "ada@example.com,bob", true},
		{"ecdsa", "ec", "# who\n\n*@example.com " + ec, "*@example.com", true},
		{"the second line fits", "ed", bob + " " + rsa + "\nada " + ed, "ada", true},
		{"for git", "ed", `ada namespaces="file,git" ` + ed, "ada", true},
		{"for files only", "ed", `ada namespaces="file" ` + ed, `namespaces do not have "git"`, false},
		{"not for git", "ed", `ada namespaces="*,!git" ` + ed, `namespaces do not have "git"`, false},
		{"valid then", "ed", `ada valid-after="20251231Z",valid-before="202601020000Z" ` + ed, "ada", true},
		{"not yet", "ed", `ada valid-after="20260102Z" ` + ed, "allowed from 2026-01-02T00:00:00Z", false},
		{"no more", "ed", `ada valid-before="20251231235959Z" ` + ed, "allowed until 2025-12-31T23:59:59Z", false},
		{"another key", "ed", "ada " + rsa, ErrNotAllowed.Error(), false},
		{"certificate", "certified-cert.pub", "*@example.com cert-authority " + ca, "carol@example.com", true},
		{"certificate for another", "certified-cert.pub", "*@example.org cert-authority " + ca, "names nobody", false},
		{"certificate, but the key is none of an authority", "certified-cert.pub", "* " + ca, ErrNotAllowed.Error(), false},
		{"certificate of later", "late-cert.pub", "* cert-authority " + ca, "cert is not yet valid", false},
		{"a key and an authority are two things", "ca", "* cert-authority " + ca, ErrNotAllowed.Error(), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &world{t, w.dir}
			s := w.signers(test.allowed)
			commit := w.commit(test.key)
			who, err := s.Verify(commit)
			_, gitErr := w.command("git", "-C", "repo", "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+w.path("allowed"), "verify-commit", "HEAD").CombinedOutput()
			if (gitErr == nil) != test.ok {
				t.Errorf("git says %v", gitErr)
			}
			if who.Is("carol") || strings.Contains(test.want, "*") && who.Is("ada@example.com") {
				t.Errorf("a pattern is taken for a name: %v", who)
			}
			switch {
			case test.ok && (err != nil || strings.Join(who.Principals, ",") != test.want):
				t.Errorf("Verify = %v, %v, want %s", who, err, test.want)
			case !test.ok && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Verify = %v, %v, want the error %s", who, err, test.want)
			case !strings.HasPrefix(who.Key, "SHA256:"):
				t.Errorf("the key is %q", who.Key)
			}
		})
	}
}

func TestAChangedCommitIsRefused(t *testing.T) {
	w := newWorld(t)
	ed := w.key("ed", "ed25519")
	s := w.signers("ada " + ed)
	commit := w.commit("ed")
	for _, test := range []struct {
		name, old, new, want string
	}{
		{"message", "subject", "Subject", errWrong.Error()},
		{"author", "Ada", "Eve", errWrong.Error()},
		{"a header more", "committer ", "encoding x\ncommitter ", errWrong.Error()},
		{"a header after the signature", "\n\nsubject", "\nparent 0\n\nsubject", errWrong.Error()},
		{"no signature", "gpgsig ", "gpgsig-sha256 ", ErrUnsigned.Error()},
		{"two signatures", "gpgsig ", "gpgsig x\ngpgsig ", "several signatures"},
		{"not armored", "-----BEGIN SSH SIGNATURE", "-----BEGIN SSH SIGNATURES", "neither one of SSH nor of OpenPGP"},
		{"cut", "-----END SSH SIGNATURE-----", "", "malformed"},
		{"X.509", "-----BEGIN SSH SIGNATURE", "-----BEGIN SIGNED MESSAGE", "X.509"},
		{"no message", "\n\nsubject\n\nbody\n", "", "no message"},
		{"too large", "subject", strings.Repeat("x", maxCommit), "at most"},
		{"signature too large", "gpgsig ", "gpgsig " + strings.Repeat("x", maxSignature), "at most"},
	} {
		changed := bytes.Replace(commit, []byte(test.old), []byte(test.new), 1)
		if bytes.Equal(changed, commit) {
			t.Fatalf("%s changes nothing in %s", test.name, commit)
		}
		if who, err := s.Verify(changed); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Verify = %v, %v, want the error %s", test.name, who, err, test.want)
		}
	}
	if _, err := s.Verify(w.commit("")); !errors.Is(err, ErrUnsigned) {
		t.Errorf("an unsigned commit: %v", err)
	}
	w.run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", "ed", w.write("text", string(must(Split(commit)).Payload)))
	forged := signedBy(commit, w.read("text.sig"))
	if _, err := s.Verify(forged); err == nil || !strings.Contains(err.Error(), `made for "file"`) {
		t.Errorf("a signature made for files: %v", err)
	}
	if who, err := s.Verify(append(commit, 0)); err == nil {
		t.Errorf("a byte more: %v", who)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// signedBy puts another signature on a commit.
func signedBy(commit []byte, armored string) []byte {
	payload := must(Split(commit)).Payload
	head, text, _ := bytes.Cut(payload, []byte("\n\n"))
	return slices.Concat(head, []byte("\ngpgsig "+strings.ReplaceAll(strings.TrimRight(armored, "\n"), "\n", "\n ")+"\n\n"), text)
}

func TestARevokedKeyCountsNoMore(t *testing.T) {
	w := newWorld(t)
	ed, ca := w.key("ed", "ed25519"), w.key("ca", "ed25519")
	commit := w.commit("ed")
	files := Files{AllowedSigners: w.write("allowed", "ada "+ed), RevokedKeys: w.write("revoked", "# stolen\n"+ca)}
	if _, err := must(Load(files)).Verify(commit); err != nil {
		t.Errorf("another key is revoked: %v", err)
	}
	w.write("revoked", ed)
	if who, err := must(Load(files)).Verify(commit); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("Verify = %v, %v", who, err)
	}
	w.key("certified", "ed25519")
	w.run("ssh-keygen", "-q", "-s", "ca", "-I", "id", "-n", "ada", "-V", "20251201:20270101", "certified.pub")
	w.write("certified-cert", w.read("certified"))
	certified := w.commit("certified-cert.pub")
	w.write("allowed", "ada cert-authority "+ca)
	for _, revoked := range []string{ca, w.read("certified.pub"), w.read("certified-cert.pub")} {
		w.write("revoked", ed)
		if _, err := must(Load(files)).Verify(certified); err != nil {
			t.Errorf("another key is revoked: %v", err)
		}
		w.write("revoked", revoked)
		if who, err := must(Load(files)).Verify(certified); err == nil || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("%s is revoked: Verify = %v, %v", revoked, who, err)
		}
	}
	w.run("ssh-keygen", "-q", "-k", "-f", "revoked", "ed.pub")
	if _, err := Load(files); err == nil || !strings.Contains(err.Error(), "binary revocation list") {
		t.Errorf("a KRL: %v", err)
	}
}

func TestABrokenListIsRefusedAsAWhole(t *testing.T) {
	w := newWorld(t)
	ed := strings.TrimSpace(w.key("ed", "ed25519"))
	for _, test := range []struct{ text, want string }{
		{"", "the list of signers is empty"},
		{"# nobody\n", "the list of signers is empty"},
		{"ada " + ed + "\nbob\n", "allowed:2: the line ends before the key"},
		{"ada ssh-ed25519 AAAA\n", "allowed:1: the public key is malformed"},
		{"ada ssh-rsa" + strings.TrimPrefix(ed, "ssh-ed25519"), "malformed"},
		{"ada,, " + ed, "a principal is empty"},
		{`ada namespace="git" ` + ed, `option "namespace" is not known`},
		{`ada namespaces=git ` + ed, `option "namespaces" is not known`},
		{`ada namespaces="git ` + ed, "quote is not closed"},
		{`ada valid-after="tomorrow" ` + ed, "option valid-after"},
		{`ada valid-after="20261301" ` + ed, "is no time"},
		{`ada cert-authority, ` + ed, "a comma and another option"},
		{`ada cert-authority;x ` + ed, "is not known"},
	} {
		if _, err := Load(Files{AllowedSigners: w.write("allowed", test.text)}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		}
	}
	for _, f := range []Files{{}, {AllowedSigners: "missing"}, {OpenPGPKeys: []string{w.write("ring", ed)}}, {AllowedSigners: w.write("allowed", "ada "+ed), RevokedKeys: w.write("revoked", "x")}} {
		if _, err := Load(f); err == nil {
			t.Errorf("%+v is loaded", f)
		}
	}
}

func TestGitVerifiesWhatIsSigned(t *testing.T) {
	w := newWorld(t)
	ed, rsa, ec := w.key("ed", "ed25519"), w.key("rsa", "rsa", "-b", "2048"), w.key("ec", "ecdsa")
	w.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", "locked")
	w.write("allowed", "ada "+ed+"ada "+rsa+"ada "+ec+"ada "+w.read("locked.pub"))
	commit := w.commit("")
	for _, test := range []struct{ key, passphrase string }{{"ed", ""}, {"rsa", ""}, {"ec", ""}, {"locked", "secret"}} {
		k, err := LoadKey(w.path(test.key), []byte(test.passphrase))
		if err != nil {
			t.Fatal(err)
		}
		signed := signedBy(commit, must(k.Sign(commit)))
		hash := strings.TrimSpace(w.run("git", "-C", "repo", "hash-object", "-w", "-t", "commit", w.write("commit", string(signed))))
		w.git("verify-commit", hash)
		own := (*Signers)(nil).With("me", k)
		if who, err := own.Verify(signed); err != nil || !who.Is("me") || who.Is("you") {
			t.Errorf("%s: Verify = %v, %v", test.key, who, err)
		}
	}
}

func TestABrokenKeyIsAnError(t *testing.T) {
	w := newWorld(t)
	w.key("ed", "ed25519")
	w.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", "locked")
	for _, test := range []struct{ file, passphrase, want string }{
		{"missing", "", "no such file"},
		{"locked", "", "has a passphrase, and none is given"},
		{"locked", "wrong", "neither a private key"},
		{"ed.pub", "", "neither a private key"},
		{"ring", "", "public key; the private one is needed"},
	} {
		w.write("ring", armored(t, newEntity(t, "Ada", bob, time.Unix(0, 0)), false))
		if _, err := LoadKey(w.path(test.file), []byte(test.passphrase)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.file, err, test.want)
		}
	}
}

// TestBrokenAlgorithmsAreRefused: who can make two texts of one SHA-1 could have one signed and push the other.
func TestBrokenAlgorithmsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.key("rsa", "rsa", "-b", "2048")
	k := must(LoadKey(w.path("rsa"), nil))
	commit := w.commit("")
	old := &sshSignature{Version: 1, PublicKey: k.ssh.PublicKey().Marshal(), Namespace: namespace, Hash: "sha512"}
	for _, algorithm := range []string{ssh.KeyAlgoRSA, ssh.KeyAlgoRSASHA256} {
		old.Signature = ssh.Marshal(must(k.ssh.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, must(old.signed(commit)), algorithm)))
		who, err := (*Signers)(nil).With("me", k).Verify(signedBy(commit, old.armor()))
		if broken := algorithm == ssh.KeyAlgoRSA; (err != nil) != broken || broken && !strings.Contains(err.Error(), "ssh-rsa, which is broken") {
			t.Errorf("%s: Verify = %v, %v", algorithm, who, err)
		}
	}
	old.Hash = "sha1"
	if _, err := (*Signers)(nil).With("me", k).Verify(signedBy(commit, old.armor())); err == nil || !strings.Contains(err.Error(), `"sha1"`) {
		t.Errorf("SHA-1 of the message: %v", err)
	}
}

// newEntity makes an OpenPGP key.
func newEntity(t testing.TB, name, email string, at time.Time) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity(name, "", email, &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func armored(t testing.TB, e *openpgp.Entity, private bool) string {
	t.Helper()
	var b bytes.Buffer
	kind := openpgp.PublicKeyType
	if private {
		kind = openpgp.PrivateKeyType
	}
	out := must(armor.Encode(&b, kind, nil))
	var err error
	if private {
		err = e.SerializePrivate(out, nil)
	} else {
		err = e.Serialize(out)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

func TestOpenPGPSignatures(t *testing.T) {
	w := newWorld(t)
	early, _ := time.Parse(time.RFC3339, "2025-06-01T00:00:00Z")
	ada, eve := newEntity(t, "Ada", "ada@example.com", early), newEntity(t, "Eve", "eve@example.com", early)
	commit := w.commit("")
	sign := func(e *openpgp.Entity, text []byte, c *packet.Config) string {
		var b bytes.Buffer
		if err := openpgp.ArmoredDetachSign(&b, e, bytes.NewReader(text), c); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	then := &packet.Config{Time: func() time.Time { return must(Split(commit)).When }}
	s := must(Load(Files{OpenPGPKeys: []string{w.write("ring", armored(t, newEntity(t, "Bob", bob, early), false)+armored(t, ada, false))}}))
	good := signedBy(commit, sign(ada, commit, then))
	if who, err := s.Verify(good); err != nil || !slices.Equal(who.Principals, []string{"ada@example.com"}) || len(who.Key) != 40 {
		t.Errorf("Verify = %v, %v", who, err)
	}
	if who, err := s.Verify(bytes.Replace(good, []byte("subject"), []byte("Subject"), 1)); !errors.Is(err, errWrong) || len(who.Key) != 40 {
		t.Errorf("a changed commit: %v, %v", who, err)
	}
	if who, err := s.Verify(signedBy(commit, sign(eve, commit, then))); !errors.Is(err, ErrNotAllowed) || len(who.Key) != 40 {
		t.Errorf("another key: %v, %v", who, err)
	}
	if _, err := s.Verify(bytes.Replace(good, []byte("committer Ada <ada@example.com> 1767225600"), []byte("committer Ada <ada@example.com> 0"), 1)); err == nil {
		t.Error("the key signed before it was made")
	}
	young := newEntity(t, "Young", "young@example.com", must(Split(commit)).When.AddDate(0, 0, 1))
	ring := must(Load(Files{OpenPGPKeys: []string{w.write("ring", armored(t, young, false))}}))
	if who, err := ring.Verify(signedBy(commit, sign(young, commit, nil))); err == nil {
		t.Errorf("the commit is older than its key: %v", who)
	}
	if err := ada.RevokeKey(packet.KeyCompromised, "stolen", nil); err != nil {
		t.Fatal(err)
	}
	stolen := must(Load(Files{OpenPGPKeys: []string{w.write("ring", armored(t, ada, false))}}))
	if who, err := stolen.Verify(good); err == nil {
		t.Errorf("the key is revoked: %v", who)
	}
}

func TestAnOpenPGPKeySigns(t *testing.T) {
	w := newWorld(t)
	e := newEntity(t, "Bot", "bot@example.com", time.Unix(1000, 0))
	k, err := LoadKey(w.write("key", armored(t, e, true)), nil)
	if err != nil {
		t.Fatal(err)
	}
	commit := w.commit("")
	late := bytes.ReplaceAll(commit, []byte(when), []byte("4102444800 +0000")) // the signature is of now, whenever that is
	signed := signedBy(late, must(k.Sign(late)))
	s := must(Load(Files{OpenPGPKeys: []string{w.write("ring", armored(t, e, false))}}))
	if who, err := s.Verify(signed); err != nil || !who.Is("bot@example.com") {
		t.Errorf("Verify = %v, %v", who, err)
	}
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("gpg is not here") // all of ours is tested above; git asks gpg for a second opinion
	}
	if err := os.Mkdir(w.path("gnupg"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.run("gpg", "--batch", "--quiet", "--import", "ring")
	hash := strings.TrimSpace(w.run("git", "-C", "repo", "hash-object", "-w", "-t", "commit", w.write("commit", string(signed))))
	w.run("git", "-C", "repo", "verify-commit", hash)

	w.run("gpg", "--batch", "--quiet", "--allow-secret-key-import", "--import", "key")
	w.write("text", string(late))
	for _, digest := range []string{"SHA512", "SHA1"} {
		w.run("gpg", "--batch", "--yes", "--quiet", "--digest-algo", digest, "--armor", "--detach-sign", "text")
		who, err := s.Verify(signedBy(late, w.read("text.asc")))
		if broken := digest == "SHA1"; (err != nil) != broken {
			t.Errorf("%s of gpg: Verify = %v, %v", digest, who, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		word, patterns string
		want           bool
	}{
		{"git", "git", true}, {"git", "*", true}, {"git", "g?t", true}, {"git", "gi", false}, {"git", "", false},
		{"a@b.c", "*@b.c", true}, {"a@b.c", "*@b.d", false}, {"a@b.c", "*,!a@*", false}, {"b@b.c", "*,!a@*", true},
		{"aaab", "*a*b", true}, {"aaab", "*a*c", false}, {"", "*", true}, {"ab", "a*?b", false},
	} {
		if got := matches(test.word, strings.Split(test.patterns, ",")); got != test.want {
			t.Errorf("matches(%q, %q) = %v", test.word, test.patterns, got)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	ed := w.key("ed", "ed25519")
	s, commit := w.signers("ada "+ed), w.commit("ed")
	for b.Loop() {
		if _, err := s.Verify(commit); err != nil {
			b.Fatal(err)
		}
	}
}
