package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/godwit-gitops/godwit/api/address"
	"github.com/godwit-gitops/godwit/reconciler/egress"
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
	c := a.guard().Client(roots, perWebhook)
	a.clients[bundle] = c
	return c, nil
}

func (a *Asker) dropClients() {
	for _, c := range a.clients {
		c.CloseIdleConnections()
	}
	clear(a.clients)
}

// guard lets this machine be asked where the operator lists the hosts.
func (a *Asker) guard() egress.Guard {
	return egress.Guard{Loopback: len(a.options.AllowedHosts) > 0, Hint: "list the host in webhooks.allowedHosts if that is right"}
}

// allowed tells whether the operator lets the host be asked.
func (a *Asker) allowed(u *url.URL) bool {
	return address.Listed(u, a.options.AllowedHosts)
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
	if err := egress.Status(response.StatusCode); err != nil {
		return nil, err
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

// explained says what went wrong on the way.
func explained(ctx context.Context, w *interpret.Webhook, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %s", w.Timeout)
	}
	return egress.Explain(err, "caBundle is to have the authority that signed it")
}
