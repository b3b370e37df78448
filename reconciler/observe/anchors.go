package observe

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Anchors are addresses that can be reached as long as we have a network. When none answers, it is us
// who are cut off, not the members. The zero value has none and never is.
type Anchors struct {
	// Addresses as "host:port".
	Addresses []string
	// Dial reaches one; nil means a TCP connection.
	Dial  func(ctx context.Context, address string) error
	Clock clock.WithTicker
	// Interval between two looks, and Timeout of each.
	Interval, Timeout time.Duration

	mu  sync.Mutex
	why string
}

// Watch looks until ctx ends. It is called once.
func (a *Anchors) Watch(ctx context.Context) {
	if len(a.Addresses) == 0 {
		return
	}
	ticker := a.Clock.NewTicker(a.Interval)
	defer ticker.Stop()
	for {
		a.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// CutOff says why we are cut off, empty if we are not as far as was seen. Any number may call it.
func (a *Anchors) CutOff() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// Assume says what was known before the first look.
func (a *Anchors) Assume(why string) {
	if len(a.Addresses) > 0 { // or else nobody would find out more
		a.set(why)
	}
}

// look asks all of them at once. One that answers is enough.
func (a *Anchors) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	dial := a.Dial
	if dial == nil {
		dial = dialTCP
	}
	answers := make(chan error, len(a.Addresses))
	for _, address := range a.Addresses {
		go func() { answers <- dial(ctx, address) }()
	}
	var last error
	for range a.Addresses {
		if err := <-answers; err == nil {
			a.set("")
			return
		} else {
			last = err
		}
	}
	if ctx.Err() == context.Canceled {
		return // we are being stopped, which says nothing about the network
	}
	a.set(fmt.Sprintf("none of the %d anchors can be reached: %v", len(a.Addresses), last))
}

func (a *Anchors) set(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if (a.why == "") != (why == "") { // the words of an outage do not change while it lasts
		a.why = why
	}
}

func dialTCP(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
