package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/godwit-gitops/godwit/api/address"
)

// Guard says which addresses are out of bounds. The zero value refuses those of this machine.
type Guard struct {
	// Loopback lets this machine be reached.
	Loopback bool
	// Hint tells how to allow it, where it is not.
	Hint string
}

// Refusal is an address that is not connected to.
type Refusal struct{ message string }

func (r *Refusal) Error() string { return r.message }

// Check refuses an address, "ip:port". A dialer calls it as its Control at the moment when a connection is made: a name
// may resolve to another one each time.
func (g Guard) Check(_, to string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	switch {
	case address.OutOfBounds(ip):
		return &Refusal{fmt.Sprintf("%s is a link-local or multicast address, or another one that no webhook has", ip)}
	case ip.IsLoopback() && !g.Loopback:
		return &Refusal{fmt.Sprintf("%s is an address of this machine; %s", ip, g.Hint)}
	}
	return nil
}

// Client makes a client. Roots are the authorities trusted; nil means the machine's. Idle is how many
// connections to a host are kept.
func (g Guard) Client(roots *x509.CertPool, idle int) *http.Client {
	dialer := &net.Dialer{KeepAlive: 30 * time.Second, Control: g.Check}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: idle, IdleConnTimeout: 90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		},
	}
}

// Status says what is wrong with the status of a response; nil means that it is one of success.
func Status(code int) error {
	switch {
	case code >= 300 && code < 400:
		return fmt.Errorf("it answers with status %d, a redirect, which is not followed; give the address that it leads to", code)
	case code < 200 || code >= 300:
		return fmt.Errorf("it answers with status %d %s", code, http.StatusText(code))
	}
	return nil
}

// Explain says what went wrong on the way. Untrusted tells what to do about a certificate that is not trusted.
func Explain(err error, untrusted string) error {
	var refused *Refusal
	var invalid x509.CertificateInvalidError
	var certificate *tls.CertificateVerificationError
	var failed *net.OpError
	var sent *url.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // its words have the time in them
		return errors.New("its certificate has expired or is not valid yet")
	case errors.As(err, &certificate):
		return fmt.Errorf("its certificate is not trusted: %w; %s", certificate.Err, untrusted)
	case errors.As(err, &failed):
		return fmt.Errorf("it cannot be reached: %s: %w", failed.Op, failed.Err)
	case errors.As(err, &sent):
		return fmt.Errorf("it cannot be asked: %w", sent.Err)
	}
	return fmt.Errorf("its answer breaks off: %w", err)
}
