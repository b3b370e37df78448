package decide_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/rendertest"
	"github.com/godwit-gitops/godwit/render/sops"
)

// sealedFile is a file that SOPS made for tests, or what it made it of.
func sealedFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../render/sops/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// keysFor grants a key to the whole source.
func keysFor(t *testing.T, name string) *sops.Keyring {
	t.Helper()
	keys, err := sops.ParseKeys([]byte(sealedFile(t, "keys/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sops.Compile([]sops.Grant{{Paths: []string{"."}, Keys: keys}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// sealedWorld has the key, and policies for Secrets and ConfigMaps.
func sealedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.options.Keys = keysFor(t, "a.agekey")
	return w
}

var forSecrets = file("p.yaml", policyFor("p", "Secret", everywhere), policyFor("q", "ConfigMap", everywhere),
	strings.ReplaceAll(policyFor("r", "Secret", everywhere), "namespace: default", "namespace: shop"))

// errorsIn and sealedIn are findings, without those that have nothing to do with encryption, such as policies that select nothing.
func errorsIn(d *decide.Decision) []string {
	return findingsIn(d, func(f render.Finding) bool { return f.Severity == render.Error })
}

func sealedIn(d *decide.Decision) []string {
	return findingsIn(d, func(f render.Finding) bool { return f.Code == sops.CodeLocked })
}

func findingsIn(d *decide.Decision, which func(render.Finding) bool) []string {
	all := []string{}
	for _, f := range d.Findings {
		if which(f) {
			all = append(all, fmt.Sprintf("%s %s %s %s", f.Severity, f.Code, f.File, f.Object))
		}
	}
	slices.Sort(all)
	return all
}

// password is that of a Secret on a member, as it is to be applied; empty if there is none.
func (w *world) password(member, secret string) string {
	values, _ := w.state.Works["works/"+member+"/default/secret_"+secret+".yaml"].Object["stringData"].(map[string]any)
	text, _ := values["password"].(string)
	return text
}

// clean fails if the state branch has a value of a Secret.
func (w *world) clean() {
	w.Helper()
	for name, f := range w.branch {
		if bytes.Contains(f.Data, []byte("correct-horse")) || bytes.Contains(f.Data, []byte("battery-staple")) {
			w.Errorf("%s has a value:\n%s", name, f.Data)
		}
	}
}

func TestEncryptedSecretsAreDecryptedForTheMemberAlone(t *testing.T) {
	w := sealedWorld(t)
	d := w.push(fleet(2) + forSecrets + file("s.yaml", sealedFile(t, "sealed/several.yaml")))
	want(t, "errors", errorsIn(d), []string{})
	for _, member := range []string{"m1", "m2"} {
		if got := w.password(member, "one") + " " + w.password(member, "three"); got != "correct-horse battery-staple" {
			t.Errorf("%s gets %q", member, got)
		}
		// What is in one file with it has the block of SOPS, too, and nothing that is encrypted.
		if text := w.text(member + "/default/configmap_two"); strings.Contains(text, "sops") || !strings.Contains(text, "plain: eA==") {
			t.Errorf("the map on %s:\n%s", member, text)
		}
	}
	if text := w.text("m1/default/secret_one"); !strings.Contains(text, "password: hmac-sha256:") || strings.Contains(text, "ENC[") {
		t.Errorf("on record is\n%s", text)
	}
	w.clean()
}

// The record is of the values: who begins to encrypt them, or encrypts them anew, changes nothing.
func TestEncryptedAgainItIsTheSame(t *testing.T) {
	for _, files := range [][]string{
		{"sealed/regex.yaml", "sealed/rotated.yaml", "sealed/mac-only.yaml", "sealed/for-both.yaml"},
		{"plain/list.yaml", "sealed/list.yaml", "plain/list.yaml"},
	} {
		w := sealedWorld(t)
		for i, name := range files {
			d := w.push(fleet(1) + forSecrets + file("s.yaml", sealedFile(t, name)))
			want(t, name+": errors", errorsIn(d), []string{})
			if len(w.works()) == 0 || i > 0 && d.Commit != nil {
				t.Errorf("%s: works %v, commit %v", name, w.works(), d.Commit)
			}
		}
		w.clean()
	}
}

// Without the key that it takes, a Secret stays what it is on members, and there is one finding for all of them.
func TestWithoutTheKeyWhatIsInForceStays(t *testing.T) {
	for name, ring := range map[string]*sops.Keyring{"no key": nil, "another key": keysFor(t, "b.agekey")} {
		w := sealedWorld(t)
		secret := file("s.yaml", sealedFile(t, "sealed/list.yaml"))
		w.push(fleet(2) + forSecrets + secret)
		before := w.text("m1/default/secret_one")
		w.options.Keys = ring
		d := w.push(fleet(3) + forSecrets + secret)
		want(t, name+": findings", errorsIn(d), []string{"error not-decrypted s.yaml Secret default/one", "error not-decrypted s.yaml Secret default/two"})
		want(t, name+": works", w.works(), []string{"m1/default/secret_one", "m1/default/secret_two", "m2/default/secret_one", "m2/default/secret_two"})
		if after := w.text("m1/default/secret_one"); after != before || len(w.retired()) > 0 || !d.Undecrypted {
			t.Errorf("%s: the work was\n%sand is\n%s", name, before, after)
		}
		w.clean()
		w.options.Keys = keysFor(t, "a.agekey")
		want(t, name+": findings with the key", errorsIn(w.pass()), []string{})
		if got := w.password("m3", "one"); got != "correct-horse" {
			t.Errorf("%s: with the key the new member gets %q", name, got)
		}
	}
}

// What nobody can decrypt is not told apart by how it is encrypted either.
func TestEncryptedAgainWithoutTheKeyIsTheSame(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(1) + forSecrets + file("s.yaml", sealedFile(t, "sealed/regex.yaml")))
	if d := w.push(fleet(1) + forSecrets + file("s.yaml", sealedFile(t, "sealed/rotated.yaml"))); d.Commit != nil || !d.Undecrypted {
		t.Errorf("undecrypted %t, commit %v", d.Undecrypted, d.Commit)
	}
}

// A file that was changed after the encryption does not count, and its last good version goes to new members as well.
func TestAChangedFileKeepsItsLastGoodVersion(t *testing.T) {
	w := sealedWorld(t)
	secret := sealedFile(t, "sealed/several.yaml")
	w.push(fleet(1) + forSecrets + file("s.yaml", secret))
	before := w.text("m1/default/secret_one")
	d := w.push(fleet(2) + forSecrets + file("s.yaml", strings.Replace(secret, "name: one", "name: one\n    labels: {team: b}", 1)))
	want(t, "findings", errorsIn(d), []string{"error sops-changed s.yaml ConfigMap two", "error sops-changed s.yaml Secret one", "error sops-changed s.yaml Secret three"})
	if after := w.text("m1/default/secret_one"); after != before {
		t.Errorf("the work was\n%sand is\n%s", before, after)
	}
	if got := w.password("m2", "three"); got != "battery-staple" {
		t.Errorf("the new member gets %q", got)
	}
	w.clean()
}

// Who only looks and has no key sees all but the values, and is told so once for each Secret.
func TestWhoOnlyLooksNeedsNoKey(t *testing.T) {
	w := sealedWorld(t)
	secret := sealedFile(t, "sealed/several.yaml")
	w.push(fleet(2) + forSecrets + file("s.yaml", secret))
	look := func(text string, key []byte) *decide.Decision {
		t.Helper()
		o := *w
		o.source.FS = newTree(rendertest.Source(text))
		o.options.Keys, o.options.Keyless, o.options.SecretKey = nil, true, key
		return o.next(w.state, nil)
	}
	for name, key := range map[string][]byte{"with the key of the record": w.options.SecretKey, "without": nil} {
		d := look(fleet(2)+forSecrets+file("s.yaml", secret), key)
		want(t, name+": findings", sealedIn(d), []string{"info not-decrypted s.yaml Secret default/one", "info not-decrypted s.yaml Secret default/three"})
		if len(d.Works) > 0 || !d.Undecrypted {
			t.Errorf("%s: works %v, undecrypted %t", name, d.Works, d.Undecrypted)
		}
		d = look(fleet(2)+forSecrets+file("s.yaml", strings.Replace(secret, "name: one", "name: one\n    labels: {team: b}", 1)), key)
		if len(d.Works) != 2 || d.Works[0].Change != decide.Updated {
			t.Errorf("%s: another label makes %v", name, d.Works)
		}
	}
	// Of two such looks the one shows what changed since the other: SOPS leaves alone what did not.
	both := *w
	both.options.Keys, both.options.Keyless, both.options.SecretKey = nil, true, nil
	bare := func(secret string, previous *record.State) *decide.Decision {
		both.source.FS = newTree(rendertest.Source(fleet(1) + forSecrets + file("s.yaml", secret)))
		return both.next(previous, nil)
	}
	first := bare(secret, record.New())
	if again := bare(secret, first.Next); len(again.Works) > 0 {
		t.Errorf("the same makes %v", again.Works)
	}
	value := regexp.MustCompile(`password: ENC\[AES256_GCM,data:....`)
	if next := bare(value.ReplaceAllString(secret, "password: ENC[AES256_GCM,data:AAAA"), first.Next); len(next.Works) != 2 {
		t.Errorf("another value makes %v", next.Works)
	}
	// A key that is another one is no want of keys.
	o := *w
	o.options.Keys, o.options.Keyless = keysFor(t, "b.agekey"), true
	want(t, "another key: findings", sealedIn(o.next(w.state, nil)), []string{"error not-decrypted s.yaml Secret default/one", "error not-decrypted s.yaml Secret default/three"})
}

// Members that others deliver to get it as it was encrypted, with and without keys of ours.
func TestOthersGetItAsItWasEncrypted(t *testing.T) {
	for _, keys := range []*sops.Keyring{keysFor(t, "a.agekey"), nil} {
		w := newWorld(t)
		w.options.Keys = keys
		d := w.push(hydrated + forSecrets + file("s.yaml", sealedFile(t, "sealed/hydrate.yaml")))
		if text := w.text("m1/default/secret_db"); !strings.Contains(text, "password: ENC[AES256_GCM,") || !strings.Contains(text, "mac_only_encrypted: true") {
			t.Errorf("it is not as it was encrypted, %v:\n%s", codes(d), text)
		}
		w.clean()
	}
}
