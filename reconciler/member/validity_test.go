package member

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

var issued = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func certificate(t *testing.T, from, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestWhenCredentialsEnd(t *testing.T) {
	until := issued.Add(1000 * time.Hour)
	token := jwt(fmt.Sprintf(`{"iat": %d, "exp": %d}`, issued.Unix(), until.Unix()))
	certified := rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certificate(t, issued, until)}}
	for name, test := range map[string]struct {
		config rest.Config
		want   validity
	}{
		"a token":                         {rest.Config{BearerToken: token}, validity{issued, until}},
		"a certificate":                   {certified, validity{issued, until}},
		"a token that only ends":          {rest.Config{BearerToken: jwt(`{"exp": 1767225600.5}`)}, validity{until: issued}},
		"one that lasts":                  {rest.Config{BearerToken: jwt(`{"iss": "x"}`)}, validity{}},
		"one that is read from a file":    {rest.Config{BearerToken: token, BearerTokenFile: "/token"}, validity{}},
		"one that is no JWT":              {rest.Config{BearerToken: "a.b"}, validity{}},
		"one with other bytes":            {rest.Config{BearerToken: "a.!.c"}, validity{}},
		"one without claims":              {rest.Config{BearerToken: jwt(`[]`)}, validity{}},
		"one of a time that nobody lives": {rest.Config{BearerToken: jwt(`{"iat": -5, "exp": 1e300}`)}, validity{}},
		"nothing":                         {rest.Config{}, validity{}},
		"no certificate":                  {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}, validity{}},
	} {
		if got := validityOf(&test.config); !got.from.Equal(test.want.from) || !got.until.Equal(test.want.until) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestCredentialsThatEndSoon(t *testing.T) {
	for name, test := range map[string]struct {
		life, known time.Duration // known 0: they do not say since when they count
		early       time.Duration
	}{
		"of a year":         {life: 365 * 24 * time.Hour, known: 1, early: 14 * 24 * time.Hour},
		"of an hour":        {life: time.Hour, known: 1, early: 9 * time.Minute},
		"of nobody knows":   {life: time.Hour, early: 24 * time.Hour},
		"that never counts": {life: -time.Hour, known: 1, early: 24 * time.Hour},
	} {
		v := validity{until: issued.Add(test.life)}
		if test.known > 0 {
			v.from = issued
		}
		at := v.until.Add(-test.early)
		if v.ending(at.Add(-time.Second)) || !v.ending(at) || !v.ending(v.until.Add(time.Hour)) {
			t.Errorf("%s: they are not told of from %s before their end", name, test.early)
		}
	}
	if (validity{from: issued}).ending(issued.Add(1e9 * time.Second)) {
		t.Error("what lasts ends")
	}
}

// That credentials end is said once for each version of them.
func TestThatCredentialsEndIsSaid(t *testing.T) {
	w := newWorld(t, "m1")
	log := &said{}
	w.options.Logger = slog.New(slog.NewTextHandler(log, nil))
	w.restart()
	ends := func(in time.Duration) time.Time {
		at := time.Now().Add(in).Truncate(time.Second)
		token := jwt(fmt.Sprintf(`{"iat": %d, "exp": %d}`, at.Add(-1000*time.Hour).Unix(), at.Unix()))
		w.servers["m1"].SetToken(token)
		w.lookup.set("m1", w.servers["m1"].RestConfig())
		w.want("m1", configMap(t, "one", in.String()))
		w.applied("m1")
		return at
	}
	ends(500 * time.Hour)
	if n := log.count("end soon"); n != 0 {
		t.Errorf("credentials that are good for long are told of %d times", n)
	}
	for want, in := range []time.Duration{50 * time.Hour, 40 * time.Hour} {
		at := ends(in)
		w.eventually("it is said", func(decide.Observations) bool { return log.count("end soon") == want+1 })
		if got := w.fleet.Stats()["m1"].CredentialsEnd; !got.Equal(at) {
			t.Errorf("they end at %s, want %s", got, at)
		}
	}
}
