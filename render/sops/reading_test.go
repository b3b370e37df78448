package sops

import (
	"fmt"
	"strings"
	"testing"

	"filippo.io/age/armor"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
)

// ageEnc is a data key for so many recipients, none of which anybody has the key of.
func ageEnc(t testing.TB, number, recipients int) string {
	t.Helper()
	var out strings.Builder
	w := armor.NewWriter(&out)
	fmt.Fprintf(w, "age-encryption.org/v1\n")
	for i := range recipients {
		share := make([]byte, 32)
		share[0], share[1], share[2] = 9, byte(number), byte(i)
		text := strings.TrimRight(base64Of(share), "=")
		fmt.Fprintf(w, "-> X25519 %s\n%s\n", text, text)
	}
	fmt.Fprintf(w, "--- %s\n%048d", strings.Repeat("A", 43), 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// pgpEnc is one that many packets say they have the key of, for the key with the number.
func pgpEnc(t testing.TB, id uint64, packets int) string {
	t.Helper()
	var out strings.Builder
	w, err := pgparmor.Encode(&out, "PGP MESSAGE", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range packets {
		body := append(fmt.Appendf(nil, "\x03"), byte(id>>56), byte(id>>48), byte(id>>40), byte(id>>32), byte(id>>24), byte(id>>16), byte(id>>8), byte(id), 1, 7, 255)
		body = append(body, 0x41)
		body = append(body, make([]byte, 255)...)
		w.Write(append([]byte{0xc1, byte((len(body)-192)>>8) + 192, byte(len(body) - 192)}, body...))
	}
	w.Write(append([]byte{0xd2, 40, 1}, make([]byte, 39)...))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sealedFor is a file with these data keys, of age or else of OpenPGP.
func sealedFor(name string, pgp bool, encs ...string) []byte {
	field := "age"
	if pgp {
		field = "pgp"
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {a: \"ENC[AES256_GCM,data:YQ==,iv:YWFh,tag:YWFh,type:str]\"}\nsops:\n  mac: %s\n  %s:\n", name, name, field)
	for _, enc := range encs {
		text += "  - recipient: r\n    enc: |\n      " + strings.ReplaceAll(strings.TrimSpace(enc), "\n", "\n      ") + "\n"
	}
	return []byte(text)
}

// What opening data keys may take has bounds, and counts what is tried.
func TestAttemptsAtKeysAreBounded(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = ageEnc(t, i, maxWraps)
	}
	same := make([]string, 99)
	for i := range same {
		same[i] = ageEnc(t, 0, 3)
	}
	rsa := keysOf(t, "pgp-rsa2048.asc")
	own := rsa.pgp.DecryptionKeys()[0].PublicKey.KeyId
	const asRSA = 4 + 2*8
	for _, tt := range []struct {
		name  string
		ring  *Keyring
		data  []byte
		cost  int
		tried int
		want  string
	}{
		{"one", ringOf(t, "a.agekey"), sealedFor("x", false, ageEnc(t, 0, 1)), 1, 1, "no key for . opens it"},
		{"two identities", ringOf(t, "a.agekey", "b.agekey"), sealedFor("x", false, ageEnc(t, 0, 3)), 6, 1, "no key for . opens it"},
		{"equal ones", ringOf(t, "a.agekey"), sealedFor("x", false, same...), 3, 1, "no key for . opens it"},
		{"many recipients of one", ringOf(t, "a.agekey"), sealedFor("x", false, ageEnc(t, 0, maxWraps+1)), 0, 0, "no key for . opens it"},
		{"too many of all", ringOf(t, "a.agekey", "b.agekey"), sealedFor("x", false, many...), 0, 0, "for so many keys that they are not tried"},
		{"an OpenPGP key that is not named", ringOf(t, "pgp-rsa2048.asc"), sealedFor("x", true, pgpEnc(t, 0, 2)), 2 * asRSA, 1, "no key for . opens it"},
		{"an OpenPGP key that is named", ringOf(t, "pgp-rsa2048.asc"), sealedFor("x", true, pgpEnc(t, own, 2)), 2 * asRSA, 1, "no key for . opens it"},
		{"another OpenPGP key", ringOf(t, "pgp-rsa2048.asc"), sealedFor("x", true, pgpEnc(t, own+1, 2)), 0, 1, "no key for . opens it"},
		{"many packets", ringOf(t, "pgp-rsa2048.asc"), sealedFor("x", true, pgpEnc(t, 0, maxWraps+1)), 0, 0, "no key for . opens it"},
	} {
		r := tt.ring.Read()
		v := r.Open("f.yaml", map[string][]byte{"f.yaml": tt.data})
		for _, d := range v.docs {
			if d.state != locked || !strings.Contains(d.why.Message, tt.want) || r.Spent() != tt.cost || len(r.keys) != tt.tried {
				t.Errorf("%s: state %d, %d spent, %d tried: %s; want %d, %d: %s", tt.name, d.state, r.Spent(), len(r.keys), d.why.Message, tt.cost, tt.tried, tt.want)
			}
		}
		if len(v.docs) != 1 {
			t.Errorf("%s: %d documents", tt.name, len(v.docs))
		}
	}
}

// What is left closed for want of attempts says so, and so does all that comes after it; what needs none is as ever.
func TestAReadUsesUpItsAttempts(t *testing.T) {
	r := ringOf(t, "a.agekey").Read()
	open := func(data []byte) Problem {
		for _, d := range r.Open("f.yaml", map[string][]byte{"f.yaml": data}).docs {
			return d.why
		}
		return Problem{}
	}
	good := read(t, "sealed/regex.yaml")
	if !r.Spend(maxReading - 1) {
		t.Fatal("all but one attempt are too many")
	}
	if r.Spend(2) || r.Refused() > 0 {
		t.Fatal("more than are left are granted, or a question uses them up")
	}
	if why := open(good); why.Code != "" || r.Spent() != maxReading {
		t.Errorf("the last attempt: %s", why.Message)
	}
	for i := range 2 {
		if why := open(good); why.Code != CodeLocked || !strings.Contains(why.Message, "has used up the 100000 attempts") || r.Refused() != i+1 {
			t.Errorf("one more: %s: %s", why.Code, why.Message)
		}
	}
	if !r.Spend(0) || r.Spend(1) {
		t.Error("what costs nothing is refused, or what costs something is not")
	}
}
