package gittest

import (
	"bytes"
	"crypto/subtle"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// HTTPOptions say how a server is reached. All empty means plain http, open to all.
type HTTPOptions struct {
	Username, Password string
	Token              string // accepted as a bearer token
	TLS                bool
}

// Server is a Git server over HTTP. Its switches work while it runs and may be used concurrently.
type Server struct {
	URL    string // of the repository
	CAFile string // PEM of the certificate, with TLS

	switches
	dir     string
	t       testing.TB
	backend http.Handler
	open    atomic.Int64  // connections
	moved   chan struct{} // receives after that changed
}

// switches are the faults of a server.
type switches struct {
	mu     sync.Mutex
	down   bool
	hang   chan struct{} // not nil while hanging
	counts map[string]int
	fault  http.HandlerFunc
}

// Outage makes the server drop connections as soon as they are made, until it is called with false.
func (s *switches) Outage(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Hang makes the server take requests and not answer them, until it is called with false.
func (s *switches) Hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang != nil {
		close(s.hang)
		s.hang = nil
	}
	if on {
		s.hang = make(chan struct{})
	}
}

// Answer makes the server answer every request with f instead of Git; nil brings Git back.
func (s *switches) Answer(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Connections is how many are open.
func (s *Server) Connections() int { return int(s.open.Load()) }

// Deserted waits until no connection is open, which a server notices a little later than who closed it. The test fails
// if one stays for seconds, as it does where a client keeps it to use it again.
func (s *Server) Deserted(t testing.TB) {
	t.Helper()
	enough := time.After(10 * time.Second)
	for s.open.Load() > 0 {
		select {
		case <-s.moved:
		case <-enough:
			t.Fatalf("%d connections stay open", s.open.Load())
		}
	}
}

// count follows the connections.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// Git answers a request as Git does, for use in Answer.
func (s *Server) Git(w http.ResponseWriter, r *http.Request) {
	// CGI knows no chunked requests.
	if r.ContentLength < 0 {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	s.backend.ServeHTTP(w, r)
}

// Requests returns how many requests had the suffix in their path or query, such as
// "git-upload-pack" or "" for all.
func (s *switches) Requests(suffix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for what, count := range s.counts {
		if strings.HasSuffix(what, suffix) {
			n += count
		}
	}
	return n
}

func (s *switches) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// enter counts a request and returns what it meets.
func (s *switches) enter(r *http.Request) (hang chan struct{}, fault http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[r.URL.Path+"?"+r.URL.RawQuery]++
	return s.hang, s.fault
}

// ServeHTTP serves the repository at dir until the test ends.
func ServeHTTP(t testing.TB, dir string, o HTTPOptions) *Server {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git --exec-path: %v; these tests need git", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: append([]string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test",
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
			"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
		}, gitEnv...),
		Stderr: io.Discard,
	}
	s := &Server{dir: dir, t: t, backend: backend, switches: switches{counts: map[string]int{}}, moved: make(chan struct{}, 1)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hang, fault := s.enter(r)
		if hang != nil {
			select {
			case <-hang:
			case <-r.Context().Done():
				return
			}
		}
		switch {
		case fault != nil:
			fault(w, r)
		case !o.accepts(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no valid credentials", http.StatusUnauthorized)
		default:
			s.Git(w, r)
		}
	}))
	server.Listener, server.Config.ConnState = dropping{server.Listener, s.isDown}, s.count
	scheme := "http://"
	if o.TLS {
		scheme = "https://"
		server.StartTLS()
		s.CAFile = filepath.Join(t.TempDir(), "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(s.CAFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		server.Start()
	}
	s.URL = scheme + server.Listener.Addr().String() + "/" + filepath.Base(dir)
	t.Cleanup(func() {
		s.Hang(false)
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Reject makes the repository's pre-receive hook refuse every push with the message; "" accepts again.
func (s *Server) Reject(message string) {
	s.t.Helper()
	repo := At(s.t, s.dir)
	if message == "" {
		repo.Hook("pre-receive", "")
		return
	}
	repo.Hook("pre-receive", "cat >/dev/null; echo '"+strings.ReplaceAll(message, "'", `'\''`)+"' >&2; exit 1")
}

func (o HTTPOptions) accepts(r *http.Request) bool {
	same := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	if o.Token != "" && same(r.Header.Get("Authorization"), "Bearer "+o.Token) {
		return true
	}
	if o.Username == "" && o.Password == "" {
		return o.Token == ""
	}
	user, password, ok := r.BasicAuth()
	return ok && same(user, o.Username) && same(password, o.Password)
}

// dropping is a listener that resets connections while it is down.
type dropping struct {
	net.Listener
	down func() bool
}

func (d dropping) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil || !d.down() {
			if err == nil {
				conn = &outageConn{conn, d.down}
			}
			return conn, err
		}
		reset(conn)
	}
}

// outageConn is a connection made before an outage; it does not outlive it.
type outageConn struct {
	net.Conn
	down func() bool
}

func (c *outageConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.down() {
		reset(c.Conn)
		return 0, net.ErrClosed
	}
	return n, err
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
