package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.Address = "127.0.0.1:0"
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	answer, err := http.Get("http://" + s.Address() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestProbes(t *testing.T) {
	var live, ready error
	s := start(t, Options{Handler: Operations(func() error { return live }, func() error { return ready }, http.NotFoundHandler())})
	check := func(path string, status int, text string) {
		t.Helper()
		if gotStatus, got := get(t, s, path); gotStatus != status || got != text {
			t.Errorf("%s: %d %q, want %d %q", path, gotStatus, got, status, text)
		}
	}
	check("/healthz", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	live = errors.New("the loop hangs")
	check("/healthz", 503, "the loop hangs\n")
	check("/readyz", 200, "ok\n")
	live, ready = nil, errors.New("not yet")
	check("/healthz", 200, "ok\n")
	check("/readyz", 503, "not yet\n")
	for _, path := range []string{"/", "/debug/pprof/", "/hooks/github/x"} {
		if status, _ := get(t, s, path); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestALargeHeaderIsRefused(t *testing.T) {
	s := start(t, Options{Handler: Profiles()})
	q, err := http.NewRequest("GET", "http://"+s.Address()+"/debug/pprof/cmdline", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X", strings.Repeat("x", headerSize+8<<10))
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// Connections beyond the limit wait until one ends; none is lost.
func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, Options{Connections: 1, Handler: Operations(func() error { return nil }, nil, http.NotFoundHandler())})
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		return c, bufio.NewReader(c)
	}
	status := func(r *bufio.Reader) chan string {
		line := make(chan string, 1)
		go func() { text, _ := r.ReadString('\n'); line <- text }()
		return line
	}
	first, r := dial()
	if got := <-status(r); !strings.Contains(got, "200") {
		t.Fatalf("the first: %q", got)
	}
	_, other := dial()
	second := status(other)
	for range 200 { // in that time the second would be answered, too
		io.WriteString(first, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		for line := ""; line != "ok\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case got := <-second:
		t.Fatalf("the second is answered beside the first: %q", got)
	default:
	}
	first.Close()
	if got := <-second; !strings.Contains(got, "200") {
		t.Errorf("the second, after the first: %q", got)
	}
}

// A request in hand is finished; afterwards nobody listens.
func TestCloseWaitsForRequests(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := start(t, Options{Connections: 1, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		io.WriteString(w, "done")
	})})
	answered := make(chan string)
	go func() { _, text := get(t, s, "/"); answered <- text }()
	<-arrived
	closed := make(chan struct{})
	go func() { s.Close(context.Background()); close(closed) }()
	select {
	case <-closed:
		t.Fatal("it is closed, and a request is in hand")
	default:
	}
	close(release)
	if got := <-answered; got != "done" {
		t.Errorf("answer %q", got)
	}
	<-closed
	if c, err := net.Dial("tcp", s.Address()); err == nil {
		c.Close()
		t.Error("somebody still listens")
	}
}

// One that hangs is cut off when there is no time left.
func TestCloseEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	s := start(t, Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		close(arrived)
		<-q.Context().Done()
	})})
	go http.Get("http://" + s.Address())
	<-arrived
	over, cancel := context.WithCancel(context.Background())
	cancel()
	s.Close(over)
}

func TestProfilesAreForThisMachine(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:6060": true, "[::1]:0": true, "localhost:1": true, "127.9.9.9:1": true,
		":6060": false, "0.0.0.0:6060": false, "10.0.0.1:1": false, "[::]:1": false, "localhost": false, "": false, "example.com:1": false,
	} {
		if err := Loopback(address); (err == nil) != want {
			t.Errorf("Loopback(%s) = %v", address, err)
		}
	}
	if status, text := get(t, start(t, Options{Handler: Profiles(), Unhurried: true}), "/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(text, "goroutine profile") {
		t.Errorf("%d %.40q", status, text)
	}
}
