package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"time"
)

// Limits of one server.
const (
	headerTime = 5 * time.Second
	readTime   = time.Minute // 25 MiB at 4 Mbit/s
	writeTime  = time.Minute
	idleTime   = 2 * time.Minute
	headerSize = 16 << 10
)

// Options of a server.
type Options struct {
	// Address to listen on, "host:port"; an empty host is all of this machine's.
	Address string
	Handler http.Handler
	// Connections bounds those that are open at once; 0 means any number.
	Connections int
	// Unhurried: answers may take as long as they want, as profiles do.
	Unhurried bool
	// Log, default none.
	Log *slog.Logger
}

// Server is one that listens.
type Server struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// Start listens, and answers until Close.
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, done: make(chan struct{}), server: &http.Server{
		Handler: o.Handler, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerSize, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	if o.Unhurried {
		s.server.WriteTimeout = 0
	}
	if o.Connections > 0 {
		listener = &limited{Listener: listener, slots: make(chan struct{}, o.Connections), closed: make(chan struct{})}
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the server ended", "address", s.Address(), "error", err)
		}
	}()
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close takes no more requests, and waits for those in hand until ctx ends.
func (s *Server) Close(ctx context.Context) {
	if s.server.Shutdown(ctx) != nil {
		s.server.Close()
	}
	<-s.done
}

// limited has so many connections open at most; more of them wait to be accepted.
type limited struct {
	net.Listener
	slots   chan struct{}
	closed  chan struct{}
	closing sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &connection{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type connection struct {
	net.Conn
	release func()
}

func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// Operations answers /healthz by live, /readyz by ready and /metrics by metrics; an error is what is wrong.
func Operations(live, ready func() error, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", probe(live))
	mux.Handle("GET /readyz", probe(ready))
	mux.Handle("GET /metrics", metrics)
	return mux
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		text := "ok"
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = err.Error()
		}
		io.WriteString(w, text+"\n")
	}
}

// Profiles answers /debug/pprof/.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// Loopback refuses an address that others than this machine reach: what a process has in memory is in its profiles.
func Loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is no address of this machine alone; write it like 127.0.0.1:6060", address)
}
