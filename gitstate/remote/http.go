package remote

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	reserved "github.com/godwit-gitops/godwit/api/address"
)

// httpBackend speaks smart HTTP. One is shared by all sessions of a remote, so connections are kept.
type httpBackend struct {
	base   *url.URL // without user and password
	auth   Auth
	client *http.Client
}

func newHTTP(where address, auth Auth) (*httpBackend, error) {
	pool, err := certificates(auth.CAFile)
	if err != nil {
		return nil, err
	}
	host := where.host
	if where.port != "" {
		host = net.JoinHostPort(where.host, where.port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return &httpBackend{
		base: &url.URL{Scheme: where.scheme, Host: host, Path: where.path},
		auth: auth,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         dialer.DialContext,
				TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
				TLSHandshakeTimeout: 20 * time.Second,
				ForceAttemptHTTP2:   true,
				MaxIdleConnsPerHost: 4,
				IdleConnTimeout:     90 * time.Second,
			},
			CheckRedirect: checkRedirect,
		},
	}, nil
}

// certificates are the system's and those of the file; nil means the system's.
func certificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: no PEM certificate in it", file)
	}
	return pool, nil
}

// checkRedirect follows only the first request of a session, and only on its own host.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case via[0].Method != http.MethodGet || len(via) > 5:
		return errors.New("the server redirects again and again")
	case next.URL.Host != first.Host && !(first.Scheme == "http" && next.URL.Scheme == "https" && next.URL.Hostname() == first.Hostname()),
		next.URL.Scheme != first.Scheme && next.URL.Scheme != "https":
		return fmt.Errorf("the server redirects to %s://%s, which is another host; if that is right, use its URL", next.URL.Scheme, next.URL.Host)
	}
	return nil
}

// dialer refuses addresses where clouds serve a machine's credentials, whatever name they were found by.
var dialer = &net.Dialer{
	KeepAlive: 30 * time.Second,
	Control: func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err == nil && reserved.OutOfBounds(at.Addr()) {
			return fmt.Errorf("%s is a link-local address, or another one that no repository has", at.Addr())
		}
		return nil
	},
}

func (b *httpBackend) open(p pulse, service string) (session, error) {
	s := &httpStream{httpBackend: b, pulse: p, service: service, at: b.base}
	request, err := http.NewRequestWithContext(p, http.MethodGet, b.base.JoinPath("info", "refs").String()+"?service="+service, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.do(request, "application/x-"+service+"-advertisement")
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	session, err := greet(s)
	if err != nil {
		s.Close()
		return nil, err
	}
	return session, nil
}

// httpStream is one session: its requests and the body that is being read.
type httpStream struct {
	*httpBackend
	pulse   pulse
	service string
	at      *url.URL // where the first request was redirected to
	body    io.ReadCloser
}

func (s *httpStream) greeting() io.Reader     { return s.pulse.reader(s.body) }
func (s *httpStream) explain(err error) error { return err }
func (s *httpStream) Close() {
	if s.body != nil {
		io.CopyN(io.Discard, s.body, 1<<10) // a connection is used again once its answer is read to the end
		s.body.Close()
	}
}

// smallPack is what is buffered of a pack of unknown length before its request goes out in chunks,
// which not every proxy takes.
const smallPack = 1 << 20

func (s *httpStream) ask(head []byte, pack io.Reader) (io.Reader, error) {
	body, length := io.Reader(bytes.NewReader(head)), int64(len(head))
	if pack != nil {
		sized, size, err := measure(pack)
		if err != nil {
			return nil, err
		}
		body = io.MultiReader(body, sized)
		if length += size; size < 0 {
			length = -1
		}
	}
	request, err := http.NewRequestWithContext(s.pulse, http.MethodPost, s.at.JoinPath(s.service).String(), io.NopCloser(s.pulse.reader(body)))
	if err != nil {
		return nil, err
	}
	request.ContentLength = length
	request.Header.Set("Content-Type", "application/x-"+s.service+"-request")
	answer, err := s.do(request, "application/x-"+s.service+"-result")
	if err != nil {
		return nil, err
	}
	return s.pulse.reader(answer), nil
}

// measure returns the pack and its length, -1 if it is long and does not know.
func measure(pack io.Reader) (io.Reader, int64, error) {
	switch p := pack.(type) {
	case interface{ Len() int }:
		return pack, int64(p.Len()), nil
	case io.Seeker:
		from, err := p.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, 0, err
		}
		to, err := p.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, 0, err
		}
		_, err = p.Seek(from, io.SeekStart)
		return pack, to - from, err
	}
	buffered := bufio.NewReaderSize(pack, smallPack)
	start, err := buffered.Peek(smallPack)
	switch {
	case err == io.EOF:
		return buffered, int64(len(start)), nil
	case err != nil:
		return nil, 0, err
	}
	return buffered, -1, nil
}

// do sends a request and returns the body of a good answer of the wanted type.
func (s *httpStream) do(request *http.Request, wanted string) (io.ReadCloser, error) {
	request.Header.Set("User-Agent", "git/2 (godwit)") // some servers show others than git a web page
	request.Header.Set("Accept", wanted)
	switch {
	case s.auth.BearerToken != "":
		request.Header.Set("Authorization", "Bearer "+s.auth.BearerToken)
	case s.auth.Username != "" || s.auth.Password != "":
		request.SetBasicAuth(s.auth.Username, s.auth.Password)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL: the remote's own name goes in front
		}
		return nil, err
	}
	s.Close()
	s.body = answer.Body
	if answer.StatusCode != http.StatusOK {
		return nil, statusError(answer)
	}
	if got := answer.Header.Get("Content-Type"); got != wanted {
		return nil, fmt.Errorf("not a Git server: its answer is %q and not %q; check the URL", printable(got), wanted)
	}
	if request.Method == http.MethodGet {
		at := *answer.Request.URL
		at.RawQuery, at.Path = "", strings.TrimSuffix(at.Path, "/info/refs")
		s.at = &at
	}
	return answer.Body, nil
}

// statusErrors say what an HTTP status means for a repository.
var statusErrors = map[int]error{
	http.StatusUnauthorized:          ErrUnauthorized,
	http.StatusForbidden:             ErrUnauthorized,
	http.StatusNotFound:              ErrNotFound,
	http.StatusGone:                  ErrNotFound,
	http.StatusRequestEntityTooLarge: ErrTooLarge,
}

func statusError(answer *http.Response) error {
	text := answer.Status
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		text += ": " + string(body)
	}
	text = printable(text)
	if kind := statusErrors[answer.StatusCode]; kind != nil {
		return fmt.Errorf("%w: the server answered %s", kind, text)
	}
	return fmt.Errorf("the server answered %s", text)
}
