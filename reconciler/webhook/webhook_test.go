package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

// serve runs a server over https and returns a webhook that names it.
func serve(t *testing.T, answer http.HandlerFunc) *interpret.Webhook {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return webhookFor(t, server.URL, server.Certificate())
}

var names atomic.Int64

func webhookFor(t *testing.T, url string, authority *x509.Certificate) *interpret.Webhook {
	t.Helper()
	ca := ""
	if authority != nil {
		ca = ", caBundle: " + base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))
	}
	webhooks, findings := interpret.CompileWebhooks([]*manifest.Object{rendertest.Object(t, fmt.Sprintf(`
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: w%d.example.com
  clientConfig: {url: %q%s}
  rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], kinds: ["*"]}]
  interpreterContextVersions: [v1alpha1]
`, names.Add(1), url, ca))})
	if len(webhooks) != 1 {
		t.Fatal(findings)
	}
	webhooks[0].Timeout = time.Minute
	return webhooks[0]
}

// deaf has no answers.
type deaf struct{}

func (deaf) Answer(interpret.Key) *interpret.Answer { return nil }

// health is the question whether an object is healthy.
func health(t *testing.T, w *interpret.Webhook, name string) decide.Unanswered {
	t.Helper()
	_, err := (&interpret.Interpreter{}).WithWebhooks([]*interpret.Webhook{w}).Hearing(deaf{}).Health(foo(name))
	var missing *interpret.UnansweredError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	return decide.Unanswered{Question: missing.Question, Due: true}
}

func foo(name string) api.Object {
	return api.Object{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": map[string]any{"namespace": "default", "name": name}}
}

// healthy answers that everything is.
func healthy(w http.ResponseWriter, r *http.Request) {
	var sent struct{ Request struct{ UID string } }
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": {"uid": %q, "successful": true, "healthy": true}}`, sent.Request.UID)
}

// newAsker may ask this machine.
func newAsker(t *testing.T, change func(*Options)) *Asker {
	t.Helper()
	o := Options{AllowedHosts: []string{"127.0.0.1"}}
	if change != nil {
		change(&o)
	}
	a := New(o)
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

// answers waits until there are n answers.
func answers(t *testing.T, a *Asker, n int) map[interpret.Key]*interpret.Answer {
	t.Helper()
	for {
		if known := a.Answers().ByKey; len(known) >= n {
			return known
		}
		select {
		case <-a.Changed():
		case <-t.Context().Done():
			t.Fatal("no answer")
		}
	}
}

func TestAQuestionIsAskedOnceAndAnswered(t *testing.T) {
	var requests atomic.Int64
	arrived, release := make(chan struct{}), make(chan struct{})
	w := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("asked by %s %s", r.Method, r.Header.Get("Content-Type"))
		}
		arrived <- struct{}{}
		<-release
		healthy(w, r)
	})
	a, u := newAsker(t, nil), health(t, w, "a")
	none := a.Answers()
	a.Ask([]decide.Unanswered{u}, nil)
	<-arrived
	a.Ask([]decide.Unanswered{u, u}, nil) // the passes in between
	if a.Answers() != none {
		t.Error("nothing was answered, and the answers are others")
	}
	close(release)
	known := answers(t, a, 1)
	if answer := known[u.Key]; answer == nil || answer.Failure != "" {
		t.Fatalf("answers %v", known)
	}
	got, err := (&interpret.Interpreter{}).WithWebhooks([]*interpret.Webhook{w}).Hearing(table(known)).Health(foo("a"))
	if got != "Healthy" || err != nil {
		t.Errorf("Health = %s, %v", got, err)
	}
	a.Ask(nil, []interpret.Key{u.Key})
	if n := requests.Load(); n != 1 || len(a.Answers().ByKey) != 1 {
		t.Errorf("%d requests, %d answers, want one of each", n, len(a.Answers().ByKey))
	}
}

type table map[interpret.Key]*interpret.Answer

func (t table) Answer(k interpret.Key) *interpret.Answer { return t[k] }

func TestFailures(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	}
	release := make(chan struct{})
	defer close(release)
	for _, test := range []struct {
		name    string
		answer  http.HandlerFunc
		webhook func(*interpret.Webhook) // another webhook
		options func(*Options)
		want    string
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret of the server", 500) }, nil, nil, "it answers with status 500 Internal Server Error"},
		{"404", status(404), nil, nil, "it answers with status 404 Not Found"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, nil, nil, "it answers with status 307, a redirect, which is not followed; give the address that it leads to"},
		{"not JSON", says("<html>"), nil, nil, "the answer is no JSON object"},
		{"empty", says(""), nil, nil, "the answer is no JSON object"},
		{"another uid", says(`{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": {"uid": "x", "successful": true, "healthy": true}}`), nil, nil,
			"the answer is to another question"},
		{"huge", says(strings.Repeat(" ", 2000)), nil, func(o *Options) { o.MaxResponse = 1999 }, "its answer has more than 1999 bytes"},
		{"broken off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, nil, nil, "its answer breaks off: unexpected EOF"},
		{"large header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 100_000)) }, nil, nil, "it cannot be asked: "},
		{"time-out", func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}, func(w *interpret.Webhook) { w.Timeout = 50 * time.Millisecond }, nil, "it did not answer within 50ms"},
		{"time-out in the middle", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}, func(w *interpret.Webhook) { w.Timeout = 50 * time.Millisecond }, nil, "it did not answer within 50ms"},
		{"untrusted", healthy, func(w *interpret.Webhook) { w.CABundle = nil }, nil, "its certificate is not trusted: "},
		{"this machine", healthy, nil, func(o *Options) { o.AllowedHosts = nil }, "127.0.0.1 is an address of this machine; list the host in webhooks.allowedHosts if that is right"},
		{"not on the list", healthy, nil, func(o *Options) { o.AllowedHosts = []string{"127.0.0.1:1", "localhost"} }, "is not among the hosts of webhooks.allowedHosts"},
		{"link-local", healthy, func(w *interpret.Webhook) { w.URL = "https://169.254.169.254/" }, func(o *Options) { o.AllowedHosts = []string{"169.254.169.254"} },
			"169.254.169.254 is a link-local or multicast address, or another one that no webhook has"},
		{"link-local in disguise", healthy, func(w *interpret.Webhook) { w.URL = "https://[::ffff:169.254.169.254]/" }, func(o *Options) { o.AllowedHosts = []string{"::ffff:169.254.169.254"} },
			"169.254.169.254 is a link-local or multicast address, or another one that no webhook has"},
		{"bad bundle", healthy, func(w *interpret.Webhook) { w.CABundle = []byte("x") }, nil, "its caBundle holds no certificate in PEM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := serve(t, test.answer)
			if test.webhook != nil {
				test.webhook(w)
			}
			failure(t, newAsker(t, test.options), w, test.want)
		})
	}
}

func failure(t *testing.T, a *Asker, w *interpret.Webhook, want string) {
	t.Helper()
	u := health(t, w, "a")
	a.Ask([]decide.Unanswered{u}, nil)
	if answer := answers(t, a, 1)[u.Key]; !strings.Contains(answer.Failure, want) || answer.Attempts != 1 || strings.Contains(answer.Failure, "secret") {
		t.Errorf("failure %q after %d attempts, want %q after 1", answer.Failure, answer.Attempts, want)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	failure(t, newAsker(t, nil), webhookFor(t, "https://"+l.Addr().String(), nil), "it cannot be reached: dial: connect: connection refused")
}

// certificate is one of its own authority.
func certificate(t *testing.T, notAfter time.Time) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Unix(0, 0), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, parsed
}

func TestTLSIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		name     string
		notAfter time.Time
		config   func(*tls.Config)
		want     string
	}{
		{"expired", time.Unix(1, 0), nil, "its certificate has expired or is not valid yet"},
		{"old TLS", time.Now().Add(time.Hour), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }, "it cannot be "},
	} {
		t.Run(test.name, func(t *testing.T) {
			pair, authority := certificate(t, test.notAfter)
			server := httptest.NewUnstartedServer(http.HandlerFunc(healthy))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10}
			if test.config != nil {
				test.config(server.TLS)
			}
			server.StartTLS()
			defer server.Close()
			failure(t, newAsker(t, nil), webhookFor(t, server.URL, authority), test.want)
		})
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		address        string
		listed, others bool // with and without a list of hosts
	}{
		{"10.0.0.1", true, true},
		{"8.8.8.8", true, true},
		{"127.0.0.1", true, false},
		{"127.8.8.8", true, false},
		{"::1", true, false},
		{"::ffff:127.0.0.1", true, false},
		{"169.254.169.254", false, false},
		{"::ffff:169.254.169.254", false, false},
		{"fe80::1%eth0", false, false},
		{"224.0.0.1", false, false},
		{"ff02::1", false, false},
		{"0.0.0.0", false, false},
		{"::", false, false},
	} {
		address := netip.AddrPortFrom(netip.MustParseAddr(test.address), 443).String()
		for _, list := range [][]string{{"a"}, nil} {
			want := test.others
			if list != nil {
				want = test.listed
			}
			if err := New(Options{AllowedHosts: list}).guard().Check("tcp", address, nil); (err == nil) != want {
				t.Errorf("%s with the list %v: %v, allowed %t", address, list, err, want)
			}
		}
	}
}

func TestHostsThatAreListed(t *testing.T) {
	a := New(Options{AllowedHosts: []string{"a.example.com", "b.example.com:8443", "c.example.com:443", "::1"}})
	for host, want := range map[string]bool{
		"a.example.com": true, "a.example.com:1": true, "b.example.com": false, "b.example.com:8443": true, "c.example.com": true,
		"c.example.com:8443": false, "example.com": false, "[::1]:5": true, "x.a.example.com": false,
	} {
		if got := a.allowed(&url.URL{Scheme: "https", Host: host}); got != want {
			t.Errorf("allowed(%s) = %t, want %t", host, got, want)
		}
	}
	if !New(Options{}).allowed(&url.URL{Host: "anything"}) {
		t.Error("without a list something is refused")
	}
}

// underWayNow is how many questions are under way, in all and to one webhook.
func (a *Asker) underWayNow(w *interpret.Webhook) (all, to int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attempts, a.busy[w.String()]
}

func TestAHangingWebhookLeavesOthersAlone(t *testing.T) {
	var now, most atomic.Int64
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	hanging := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		arrived <- struct{}{}
		<-release
		now.Add(-1)
		healthy(w, r)
	})
	good := serve(t, healthy)
	var all []decide.Unanswered
	for n := range 3 * perWebhook {
		all = append(all, health(t, hanging, fmt.Sprintf("a%02d", n)))
	}
	good1 := health(t, good, "b")
	a := newAsker(t, nil)
	a.Ask(append(all, good1), nil)
	if _, busy := a.underWayNow(hanging); busy != perWebhook {
		t.Errorf("%d questions to the hanging webhook under way, want %d", busy, perWebhook)
	}
	for range perWebhook {
		<-arrived
	}
	if known := answers(t, a, 1); known[good1.Key] == nil {
		t.Errorf("the good webhook's answer is missing")
	}
	close(release)
	answers(t, a, len(all)+1)
	if most.Load() > perWebhook {
		t.Errorf("%d questions at once, want at most %d", most.Load(), perWebhook)
	}
}

func TestQuestionsAtOnceAreBounded(t *testing.T) {
	var now, most atomic.Int64
	arrived, release := make(chan struct{}, 2*inAll), make(chan struct{})
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		arrived <- struct{}{}
		<-release
		now.Add(-1)
		healthy(w, r)
	})
	var all []decide.Unanswered
	for n := range 2 * inAll {
		other := *first
		other.Name = fmt.Sprintf("w%d", n/perWebhook)
		all = append(all, health(t, &other, fmt.Sprintf("a%03d", n)))
	}
	a := newAsker(t, nil)
	a.Ask(all, nil)
	if n, _ := a.underWayNow(first); n != inAll {
		t.Errorf("%d questions under way, want %d", n, inAll)
	}
	for range inAll {
		<-arrived
	}
	close(release)
	answers(t, a, len(all))
	if most.Load() > inAll {
		t.Errorf("%d questions at once, want at most %d", most.Load(), inAll)
	}
}

func TestWhatNobodyNeedsIsGivenUp(t *testing.T) {
	arrived, ended, hang := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	hang.Store(true)
	w := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !hang.Load() {
			healthy(w, r)
			return
		}
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	a, u := newAsker(t, nil), health(t, w, "a")
	a.Ask([]decide.Unanswered{u}, nil)
	<-arrived
	a.Ask(nil, nil)
	hang.Store(false)
	a.Ask([]decide.Unanswered{u}, nil) // at once, whether or not the first attempt has ended
	<-ended
	if answer := answers(t, a, 1)[u.Key]; answer.Failure != "" {
		t.Errorf("the attempt that was given up counts: %s", answer.Failure)
	}
	later := u
	later.Key[0]++
	later.Due = false
	a.Ask([]decide.Unanswered{later}, []interpret.Key{u.Key})
	if n := len(a.Answers().ByKey); n != 1 {
		t.Errorf("%d answers, want the one: what is not due is not asked", n)
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	a, u := newAsker(t, nil), health(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), "a")
	a.Ask([]decide.Unanswered{u}, nil)
	first := answers(t, a, 1)[u.Key]
	u.Failed = first
	a.Ask([]decide.Unanswered{u}, []interpret.Key{u.Key})
	var second *interpret.Answer
	for second = first; second == first; second = answers(t, a, 1)[u.Key] {
		<-a.Changed()
	}
	if second.Attempts != 2 {
		t.Errorf("%d attempts, want 2", second.Attempts)
	}
	a.Ask(nil, nil)
	if n := len(a.Answers().ByKey); n != 0 {
		t.Errorf("%d answers, want none: nobody looks for a failure any more", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := serve(t, healthy)
	one := func(name string) decide.Unanswered { return health(t, w, name) }
	size := func() int {
		a := newAsker(t, nil)
		u := one("size")
		a.Ask([]decide.Unanswered{u}, nil)
		return answers(t, a, 1)[u.Key].Size
	}()
	a := newAsker(t, func(o *Options) { o.MaxMemory = 8 * size })
	ask := func(name string, heard []interpret.Key) *interpret.Answer {
		u := one(name)
		a.Ask([]decide.Unanswered{u}, heard)
		for a.Answers().ByKey[u.Key] == nil {
			<-a.Changed()
		}
		return a.Answers().ByKey[u.Key]
	}
	var used []interpret.Key
	for n := range 4 {
		name := fmt.Sprint("used", n)
		ask(name, used)
		used = append(used, one(name).Key)
	}
	for n := range 40 {
		if answer := ask(fmt.Sprint("passing", n), used); answer.Failure != "" {
			t.Fatalf("answer %d: %s", n, answer.Failure)
		}
		if a.size > a.options.MaxMemory {
			t.Fatalf("%d bytes, at most %d are allowed", a.size, a.options.MaxMemory)
		}
	}
	for _, key := range used {
		if a.Answers().ByKey[key] == nil {
			t.Error("an answer in use is gone")
		}
	}
	for n := range 4 {
		name := fmt.Sprint("more", n)
		if answer := ask(name, used); answer.Failure != "" {
			t.Errorf("%s: %s", name, answer.Failure)
		}
		used = append(used, one(name).Key)
	}
	if answer := ask("too many", used); !strings.Contains(answer.Failure, "no room") {
		t.Errorf("failure %q, want that there is no room", answer.Failure)
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	arrived := make(chan struct{})
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	a := newAsker(t, nil)
	a.Ask([]decide.Unanswered{health(t, w, "a")}, nil)
	<-arrived
	a.Close(t.Context())
	a.Ask([]decide.Unanswered{health(t, w, "b")}, nil)
	if n := len(a.Answers().ByKey); n != 0 || a.attempts != 0 {
		t.Errorf("%d answers, %d attempts after Close", n, a.attempts)
	}
}
