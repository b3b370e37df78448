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

// pass waits until the gate is open, or done.
func (g *gate) pass(done <-chan struct{}) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-done:
	}
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
	return &listener{l, g}, nil
}

type listener struct {
	net.Listener
	gate *gate
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, gate: l.gate, closed: make(chan struct{})}, nil
}

type conn struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.pass(c.closed)
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.gate.pass(c.closed)
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
