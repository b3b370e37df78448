package egress

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAddressesOutOfBounds(t *testing.T) {
	for _, test := range []struct {
		address         string
		never, loopback bool // refused in any case; of this machine
	}{
		{"10.0.0.1:443", false, false},
		{"[2001:db8::1]:443", false, false},
		{"127.0.0.1:443", false, true},
		{"[::1]:443", false, true},
		{"[::ffff:127.9.9.9]:443", false, true},
		{"169.254.169.254:80", true, false},
		{"[::ffff:169.254.169.254]:80", true, false},
		{"[64:ff9b::a9fe:a9fe]:80", true, false},
		{"[fd00:ec2::254]:80", true, false},
		{"[fe80::1%eth0]:443", true, false},
		{"100.100.100.200:80", true, false},
		{"0.0.0.0:443", true, false},
		{"no address", true, false},
	} {
		for _, loopback := range []bool{false, true} {
			err := Guard{Loopback: loopback, Hint: "allow it"}.Check("tcp", test.address, nil)
			if want := test.never || test.loopback && !loopback; (err != nil) != want {
				t.Errorf("%s, with this machine %t: %v", test.address, loopback, err)
			}
		}
	}
}

// server is one over https with what a test changes, its authority, and how often it was asked.
func server(t *testing.T, change func(*tls.Config), answer http.HandlerFunc) (*httptest.Server, *x509.CertPool, *atomic.Int64) {
	t.Helper()
	asked := &atomic.Int64{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10}
	change(s.TLS)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, roots, asked
}

func ok(http.ResponseWriter, *http.Request) {}

func TestTLS(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
		roots  bool
		want   string
	}{
		{"1.3", func(*tls.Config) {}, true, ""},
		{"1.2", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true, ""},
		{"1.1", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }, true, "protocol version"},
		{"1.0", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS10 }, true, "protocol version"},
		{"of another authority", func(*tls.Config) {}, false, "its certificate is not trusted"},
	} {
		s, roots, asked := server(t, test.change, ok)
		if !test.roots {
			roots = x509.NewCertPool()
		}
		answer, err := Guard{Loopback: true}.Client(roots, 1).Get(s.URL)
		if err == nil {
			answer.Body.Close()
		}
		switch {
		case test.want == "" && (err != nil || asked.Load() != 1):
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(Explain(err, "").Error(), test.want) || asked.Load() != 0):
			t.Errorf("%s: %v, asked %d times", test.name, err, asked.Load())
		}
	}
}

// A name is looked at when it is connected to, every time: the first answer that it resolved to says nothing of the next.
func TestTheAddressCountsAndNotTheName(t *testing.T) {
	s, roots, asked := server(t, func(*tls.Config) {}, ok)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Guard{Hint: "allow it"}.Client(roots, 1).Get("https://localhost:" + port)
	if err == nil || !strings.HasSuffix(Explain(err, "").Error(), "is an address of this machine; allow it") || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	there, roots, reached := server(t, func(*tls.Config) {}, ok)
	here, _, _ := server(t, func(*tls.Config) {}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, there.URL, http.StatusTemporaryRedirect)
	})
	roots.AddCert(here.Certificate())
	answer, err := Guard{Loopback: true}.Client(roots, 1).Post(here.URL, "text/plain", strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if err := Status(answer.StatusCode); err == nil || !strings.Contains(err.Error(), "a redirect, which is not followed") || reached.Load() != 0 {
		t.Errorf("%v, and the other host was reached %d times", err, reached.Load())
	}
}

// A proxy of the environment would do the connecting, and look at nothing.
func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	transport := Guard{}.Client(nil, 1).Transport.(*http.Transport)
	if transport.Proxy != nil {
		t.Error("there is a proxy")
	}
}
