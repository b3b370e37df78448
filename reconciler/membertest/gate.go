package membertest

import (
	"net"
	"sync"
)

// gate is what stands between the network and a server: while it is closed, nothing
// that arrives is seen and nothing that is answered leaves.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	addr   string
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}

// pass waits until the gate is open, or one of the others ends the connection.
func (g *gate) pass(closed, down <-chan struct{}) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-closed:
		return net.ErrClosed
	case <-down:
		return net.ErrClosed
	}
	return nil
}

func (g *gate) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr
}

func (g *gate) listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr = l.Addr().String()
	return &listener{Listener: l, gate: g, down: make(chan struct{})}, nil
}

type listener struct {
	net.Listener
	gate *gate
	once sync.Once
	down chan struct{}
}

// Close ends the waiting at the gate as well: TLS has a last word to write before it closes a connection.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.down) })
	return l.Listener.Close()
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, listener: l, closed: make(chan struct{})}, nil
}

type conn struct {
	net.Conn
	listener *listener
	once     sync.Once
	closed   chan struct{}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err := c.pass(); err != nil {
		return 0, err
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *conn) pass() error { return c.listener.gate.pass(c.closed, c.listener.down) }

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
