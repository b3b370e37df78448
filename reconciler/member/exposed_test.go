package member

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestExposed(t *testing.T) {
	insecure := rest.TLSClientConfig{Insecure: true}
	for _, test := range []struct {
		name   string
		config rest.Config
		want   string
	}{
		{"https", rest.Config{Host: "https://m1"}, ""},
		{"a host alone, with an authority", rest.Config{Host: "m1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}}, ""},
		{"not verified", rest.Config{Host: "https://m1", TLSClientConfig: insecure}, "its certificate is not verified"},
		{"not verified, on this machine", rest.Config{Host: "https://127.0.0.1", TLSClientConfig: insecure}, "its certificate is not verified"},
		{"plain", rest.Config{Host: "http://m1:8080"}, "over plain http"},
		{"plain, as nothing is said", rest.Config{Host: "m1:8080"}, "over plain http"},
		{"plain on this machine", rest.Config{Host: "http://localhost:8080"}, ""},
		{"plain on this machine by its address", rest.Config{Host: "http://[::1]:8080"}, ""},
		{"plain, and a name like this machine's", rest.Config{Host: "http://127.0.0.1.example.com"}, "over plain http"},
	} {
		if got := Exposed(&test.config); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// said is a log that can be read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) count(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), part)
}

// Whatever credentials come from, that a server is not verified is said, once for each version of them.
func TestThatNobodyIsVerifiedIsSaid(t *testing.T) {
	w := newWorld(t, "m1")
	log := &said{}
	w.options.Logger = slog.New(slog.NewTextHandler(log, nil))
	w.restart()
	w.want("m1", configMap(t, "one", "1"))
	w.applied("m1")
	if n := log.count("others can listen"); n != 0 {
		t.Errorf("a member that is verified is told of %d times", n)
	}
	config := w.servers["m1"].RestConfig()
	config.Insecure, config.CAData = true, nil
	for want := 1; want <= 2; want++ {
		w.lookup.set("m1", config)
		w.eventually("it is said", func(decide.Observations) bool { return log.count("others can listen") == want })
		w.want("m1", configMap(t, "one", strings.Repeat("x", want)))
		w.applied("m1")
	}
	since := w.servers["m1"].Requests("probe")
	w.eventually("it is probed again", func(decide.Observations) bool { return w.servers["m1"].Requests("probe") > since+2 })
	if n := log.count("its certificate is not verified"); n != 2 {
		t.Errorf("it is said %d times of two versions", n)
	}
}

// A member that speaks nothing newer than TLS 1.1 gets no credentials.
func TestOldTLSIsRefused(t *testing.T) {
	w := newWorld(t, "m1")
	asked := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, how := range []rest.TLSClientConfig{{CAData: authority}, {Insecure: true}, {CAData: authority, ServerName: "example.com"}} {
		l, err := newLink(&rest.Config{Host: server.URL, BearerToken: "secret", TLSClientConfig: how}, "1", w.options, func(time.Duration) {}, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.uid(t.Context()); err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("%+v: %v", how, err)
		}
	}
	select {
	case <-asked:
		t.Error("it was asked")
	default:
	}
}
