package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/reconciler/egress"
)

// sender posts to one target.
type sender struct {
	Target
	client *http.Client
}

func newSender(t Target, roots *x509.CertPool) *sender {
	return &sender{t, egress.Guard{Loopback: t.Loopback, Hint: "allowLoopback allows that"}.Client(roots, 1)}
}

// alertsPath is where Alertmanager takes alerts.
const alertsPath = "/api/v2/alerts"

// post sends a body. The error has neither the address nor a secret in it.
func (s *sender) post(ctx context.Context, body []byte, id string, now time.Time) error {
	u, err := s.address()
	if err != nil {
		return err
	}
	if s.Type == Alertmanager {
		u = u.JoinPath(alertsPath)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used") // its words have the URL in them
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "godwit")
	if s.SecretFile != "" {
		secret, err := readLine(s.SecretFile)
		if err != nil {
			return err
		}
		hook.Sign(request.Header, []byte(secret), id, now, body)
	}
	if s.TokenFile != "" {
		token, err := readLine(s.TokenFile)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(request)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it did not answer within %s", attemptTime)
	case err != nil:
		return egress.Explain(err, "caFile is to have the authority that signed it")
	}
	defer response.Body.Close()
	io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	return egress.Status(response.StatusCode)
}
