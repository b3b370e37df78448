package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/godwit-gitops/godwit/render/interpret"
)

// maxClients bounds the clients that are kept, one for each CA bundle.
const maxClients = 64

// client is the one for the webhook's CA bundle.
func (a *Asker) client(w *interpret.Webhook) (*http.Client, error) {
	bundle := string(w.CABundle)
	if c := a.clients[bundle]; c != nil {
		return c, nil
	}
	var roots *x509.CertPool // nil: the machine's
	if bundle != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(w.CABundle) {
			return nil, errors.New("its caBundle holds no certificate in PEM")
		}
	}
	if len(a.clients) >= maxClients {
		a.dropClients()
	}
	dialer := &net.Dialer{KeepAlive: 30 * time.Second, Control: a.checkAddress}
	c := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: perWebhook, IdleConnTimeout: 90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		},
	}
	a.clients[bundle] = c
	return c, nil
}

func (a *Asker) dropClients() {
	for _, c := range a.clients {
		c.CloseIdleConnections()
	}
	clear(a.clients)
}

// refusal is an address that is not asked.
type refusal struct{ message string }

func (r *refusal) Error() string { return r.message }

// checkAddress refuses addresses at the moment when a connection is made: a name may resolve to another
// one each time.
func (a *Asker) checkAddress(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified():
		return &refusal{fmt.Sprintf("%s is a link-local or multicast address, which no webhook has", ip)}
	case ip.IsLoopback() && len(a.options.AllowedHosts) == 0:
		return &refusal{fmt.Sprintf("%s is an address of this machine; list the host in webhooks.allowedHosts if that is right", ip)}
	}
	return nil
}

// allowed tells whether the operator lets the host be asked.
func (a *Asker) allowed(u *url.URL) bool {
	if len(a.options.AllowedHosts) == 0 {
		return true
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return slices.Contains(a.options.AllowedHosts, u.Hostname()) || slices.Contains(a.options.AllowedHosts, net.JoinHostPort(u.Hostname(), port))
}

// call asks one question.
func (a *Asker) call(ctx context.Context, client *http.Client, q *interpret.Question) (*interpret.Answer, error) {
	body, err := q.Body()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.Webhook.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, q.Webhook.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if !a.allowed(request.URL) {
		return nil, fmt.Errorf("%s is not among the hosts of webhooks.allowedHosts", request.URL.Host)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "godwit")
	response, err := client.Do(request)
	if err != nil {
		return nil, explained(ctx, q.Webhook, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, fmt.Errorf("it answers with status %d, a redirect, which is not followed; give the address that it leads to", response.StatusCode)
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return nil, fmt.Errorf("it answers with status %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, a.options.MaxResponse+1))
	switch {
	case err != nil || ctx.Err() != nil: // a server may end its answer when it sees us leave
		return nil, explained(ctx, q.Webhook, cmp.Or(err, ctx.Err()))
	case int64(len(text)) > a.options.MaxResponse:
		return nil, fmt.Errorf("its answer has more than %d bytes", a.options.MaxResponse)
	}
	return q.Decode(text)
}

// explained says what went wrong on the way. It has no port of ours and no time in it, so that the
// same trouble gives the same words.
func explained(ctx context.Context, w *interpret.Webhook, err error) error {
	var refused *refusal
	var invalid x509.CertificateInvalidError
	var untrusted *tls.CertificateVerificationError
	var failed *net.OpError
	var sent *url.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it did not answer within %s", w.Timeout)
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // its words have the time in them
		return errors.New("its certificate has expired or is not valid yet")
	case errors.As(err, &untrusted):
		return fmt.Errorf("its certificate is not trusted: %w; caBundle is to have the authority that signed it", untrusted.Err)
	case errors.As(err, &failed):
		return fmt.Errorf("it cannot be reached: %s: %w", failed.Op, failed.Err)
	case errors.As(err, &sent):
		return fmt.Errorf("it cannot be asked: %w", sent.Err)
	}
	return fmt.Errorf("its answer breaks off: %w", err)
}
