package hook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	secret = "sixteen or more characters"
	id     = "the-path-nobody-guesses"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func sum(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, text)
	return hex.EncodeToString(mac.Sum(nil))
}

// signed are the headers that the provider sends with a body.
func signed(p Provider, secret, id string, at time.Time, body string) http.Header {
	switch p {
	case GitHub:
		return header(headerGitHub, "sha256="+sum(secret, body))
	case Gitea:
		return header(headerGitea, sum(secret, body))
	case GitLab:
		return header(headerGitLab, secret)
	}
	h := http.Header{}
	Sign(h, []byte(secret), id, at, []byte(body))
	return h
}

// What the providers' own documentation gives as examples.
func TestPublishedExamples(t *testing.T) {
	for _, test := range []struct {
		provider     Provider
		secret, body string
		header       http.Header
		at           time.Time
	}{
		{GitHub, "It's a Secret to Everybody", "Hello, World!", header("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), now},
		{Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek",
			"webhook-timestamp", "1614265330", "webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), time.Unix(1614265330, 0)},
	} {
		if _, err := Verify(test.provider, test.header, strings.NewReader(test.body), [][]byte{[]byte(test.secret)}, test.at); err != nil {
			t.Errorf("%s: %v", test.provider, err)
		}
	}
}

func TestVerify(t *testing.T) {
	body := `{"ref": "refs/heads/main"}`
	standard := func(change func(http.Header)) http.Header {
		h := signed(Standard, secret, "m1", now, body)
		change(h)
		return h
	}
	for _, test := range []struct {
		name     string
		provider Provider
		header   http.Header
		want     error
	}{
		{"github", GitHub, signed(GitHub, secret, "", now, body), nil},
		{"github, another secret", GitHub, signed(GitHub, "another secret, as long", "", now, body), ErrForged},
		{"github, another body", GitHub, signed(GitHub, secret, "", now, body+" "), ErrForged},
		{"github, none", GitHub, header(), ErrMalformed},
		{"github, sha1", GitHub, header("X-Hub-Signature", "sha1=0000000000000000000000000000000000000000"), ErrMalformed},
		{"github, no prefix", GitHub, header(headerGitHub, sum(secret, body)), ErrMalformed},
		{"github, short", GitHub, header(headerGitHub, "sha256="+sum(secret, body)[:62]), ErrMalformed},
		{"github, twice", GitHub, header(headerGitHub, "sha256="+sum(secret, body), headerGitHub, "sha256="+sum(secret, body)), ErrMalformed},
		{"github, in capitals", GitHub, header(headerGitHub, "sha256="+strings.ToUpper(sum(secret, body))), nil},
		{"gitea", Gitea, signed(Gitea, secret, "", now, body), nil},
		{"gitea, another secret", Gitea, signed(Gitea, secret+"x", "", now, body), ErrForged},
		{"gitea, with prefix", Gitea, header(headerGitea, "sha256="+sum(secret, body)), ErrMalformed},
		{"gitea, signed as github", Gitea, signed(GitHub, secret, "", now, body), ErrMalformed},
		{"gitlab", GitLab, header(headerGitLab, secret), nil},
		{"gitlab, another token", GitLab, header(headerGitLab, secret+"x"), ErrForged},
		{"gitlab, part of it", GitLab, header(headerGitLab, secret[:10]), ErrForged},
		{"gitlab, empty", GitLab, header(headerGitLab, ""), ErrMalformed},
		{"standard", Standard, standard(func(http.Header) {}), nil},
		{"standard, another id", Standard, standard(func(h http.Header) { h.Set(headerID, "m2") }), ErrForged},
		{"standard, another time", Standard, standard(func(h http.Header) { h.Set(headerTimestamp, fmt.Sprint(now.Unix()+1)) }), ErrForged},
		{"standard, two signatures", Standard, standard(func(h http.Header) {
			h.Set(headerSignature, "v1a,xyz v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= "+h.Get(headerSignature))
		}), nil},
		{"standard, too many signatures", Standard, standard(func(h http.Header) { h.Set(headerSignature, strings.Repeat(h.Get(headerSignature)+" ", 9)) }), ErrMalformed},
		{"standard, unknown version", Standard, standard(func(h http.Header) { h.Set(headerSignature, "v2,AAAA") }), ErrMalformed},
		{"standard, no id", Standard, standard(func(h http.Header) { h.Del(headerID) }), ErrMalformed},
		{"standard, long id", Standard, signed(Standard, secret, strings.Repeat("x", 257), now, body), ErrMalformed},
		// "a" at 1 with the body "2.x" would be signed as "a.1" at 2 with the body "x".
		{"standard, id with a dot", Standard, signed(Standard, secret, "a.1", now, body), ErrMalformed},
		{"standard, time with a sign", Standard, standard(func(h http.Header) { h.Set(headerTimestamp, "+"+h.Get(headerTimestamp)) }), ErrMalformed},
		{"standard, no time", Standard, standard(func(h http.Header) { h.Del(headerTimestamp) }), ErrMalformed},
		{"standard, just not old", Standard, signed(Standard, secret, "m", now.Add(-Window), body), nil},
		{"standard, old", Standard, signed(Standard, secret, "m", now.Add(-Window-time.Second), body), ErrStale},
		{"standard, just not ahead", Standard, signed(Standard, secret, "m", now.Add(Window), body), nil},
		{"standard, ahead", Standard, signed(Standard, secret, "m", now.Add(Window+time.Second), body), ErrStale},
		{"standard, old and forged", Standard, signed(Standard, secret+"x", "m", time.Unix(1, 0), body), ErrForged},
		{"nobody", "svn", header(headerGitLab, secret), ErrMalformed},
	} {
		_, err := Verify(test.provider, test.header, strings.NewReader(body), [][]byte{[]byte("the old one, on its way out"), []byte(secret)}, now)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if _, err := Verify(test.provider, test.header, strings.NewReader(body), nil, now); err == nil {
			t.Errorf("%s: right without a secret", test.name)
		}
	}
}

func TestABodyThatBreaksOffIsNotRight(t *testing.T) {
	broken := errors.New("broken off")
	for _, p := range Providers {
		body := io.MultiReader(strings.NewReader("{}"), errorReader{broken})
		if _, err := Verify(p, signed(p, secret, "m", now, "{}"), body, [][]byte{[]byte(secret)}, now); !errors.Is(err, broken) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

type errorReader struct{ error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.error }

func FuzzVerify(f *testing.F) {
	h := signed(Standard, secret, "m1", now, "{}")
	f.Add(0, "sha256="+sum(secret, "{}"), "", "", []byte("{}"))
	f.Add(1, sum(secret, "{}"), "", "", []byte("{}"))
	f.Add(2, secret, "", "", []byte("{}"))
	f.Add(3, h.Get(headerSignature), h.Get(headerID), h.Get(headerTimestamp), []byte("{}"))
	f.Add(3, "v1, v1,AA==", "x", "-1", []byte(nil))
	f.Fuzz(func(t *testing.T, n int, signature, id, timestamp string, body []byte) {
		p := Providers[uint(n)%uint(len(Providers))]
		h := http.Header{headerGitHub: {signature}, headerGitea: {signature}, headerGitLab: {signature}, headerSignature: {signature}, headerID: {id}, headerTimestamp: {timestamp}}
		other := []byte("a secret that no input was made with")
		if print, err := Verify(p, h, bytes.NewReader(body), [][]byte{other}, now); err == nil && string(other) != signature || err != nil && print != (Fingerprint{}) {
			t.Fatalf("%s: %x, %v", p, print, err)
		}
		if _, err := Verify(p, h, bytes.NewReader(body), [][]byte{[]byte(secret)}, now); err == nil && p == Standard {
			again := http.Header{}
			Sign(again, []byte(secret), id, now, body)
			if _, err := Verify(p, again, bytes.NewReader(body), [][]byte{[]byte(secret)}, now); err != nil {
				t.Fatalf("signed anew: %v", err)
			}
		}
	})
}

// What is signed verifies, with any other byte it does not.
func TestASignatureIsOfOneMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]Provider{GitHub, Gitea, Standard}).Draw(t, "provider")
		body := rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "body")
		secrets := [][]byte{rapid.SliceOfN(rapid.Byte(), 16, 40).Draw(t, "secret")}
		h := signed(p, string(secrets[0]), "id", now, string(body))
		if _, err := Verify(p, h, bytes.NewReader(body), secrets, now); err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, len(body)-1).Draw(t, "i")
		body[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := Verify(p, h, bytes.NewReader(body), secrets, now); !errors.Is(err, ErrForged) {
			t.Fatalf("changed: %v", err)
		}
	})
}

// world is a receiver for all providers.
type world struct {
	*testing.T
	*Receiver
	clock  *testclock.FakePassiveClock
	log    *bytes.Buffer
	mu     sync.Mutex
	counts map[string]int
}

func newWorld(t *testing.T, change func(*Options)) *world {
	w := &world{T: t, clock: testclock.NewFakePassiveClock(now), log: &bytes.Buffer{}, counts: map[string]int{}}
	o := Options{
		ID: file(t, w.clock, id), Secrets: map[Provider]*SecretFile{}, Clock: w.clock, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Count: func(p, result string) { w.mu.Lock(); defer w.mu.Unlock(); w.counts[strings.TrimSpace(p+" "+result)]++ },
	}
	for _, p := range Providers {
		o.Secrets[p] = file(t, w.clock, secret)
	}
	if change != nil {
		change(&o)
	}
	w.Receiver = New(o)
	return w
}

func file(t *testing.T, c clock.PassiveClock, lines ...string) *SecretFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenSecretFile(path, c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// post sends a delivery and returns the status.
func (w *world) post(path string, h http.Header, body io.Reader) int {
	q := httptest.NewRequest(http.MethodPost, path, body)
	q.Header = h
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, q)
	if n := answer.Body.Len(); n > 0 {
		w.Errorf("%s: %d bytes of answer", path, n)
	}
	return answer.Code
}

func (w *world) send(p Provider, id string, body string) int {
	return w.post("/hooks/"+string(p)+"/the-path-nobody-guesses", signed(p, secret, id, w.clock.Now(), body), strings.NewReader(body))
}

// hinted takes the hint, if there is one.
func (w *world) hinted() bool {
	select {
	case <-w.Hints():
		return true
	default:
		return false
	}
}

func TestADeliveryIsAHint(t *testing.T) {
	for _, p := range Providers {
		w := newWorld(t, nil)
		if got := w.send(p, "m1", "{}"); got != http.StatusAccepted || !w.hinted() {
			t.Errorf("%s: %d, hinted %t", p, got, w.hinted())
		}
		for i := range 5 { // which nobody takes
			w.send(p, fmt.Sprint("n", i), fmt.Sprint(i))
		}
		if !w.hinted() || w.hinted() {
			t.Errorf("%s: hints are queued", p)
		}
	}
}

func TestRefusals(t *testing.T) {
	good := func() http.Header { return signed(GitHub, secret, "", now, "{}") }
	for _, test := range []struct {
		name   string
		path   string
		header http.Header
		body   io.Reader
		status int
		count  string
	}{
		{"forged", "/hooks/github/" + id, signed(GitHub, "something else altogether", "", now, "{}"), strings.NewReader("{}"), 401, "github forged"},
		{"no signature", "/hooks/github/" + id, header(), strings.NewReader("{}"), 400, "github malformed"},
		{"another id", "/hooks/github/the-path-nobody-guesse", good(), strings.NewReader("{}"), 404, "unknown"},
		{"no id", "/hooks/github/", good(), strings.NewReader("{}"), 404, "unknown"},
		{"more than an id", "/hooks/github/" + id + "/", good(), strings.NewReader("{}"), 404, "unknown"},
		{"no provider", "/hooks/svn/" + id, good(), strings.NewReader("{}"), 404, "unknown"},
		{"a provider that is not served", "/hooks/gitea/" + id, signed(Gitea, secret, "", now, "{}"), strings.NewReader("{}"), 404, "unknown"},
		{"old", "/hooks/standard/" + id, signed(Standard, secret, "m", now.Add(-time.Hour), "{}"), strings.NewReader("{}"), 401, "standard stale"},
		{"large, and says so", "/hooks/github/" + id, good(), strings.NewReader(strings.Repeat("x", 1001)), 413, "github too_large"},
		{"large", "/hooks/github/" + id, good(), io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))), 413, "github too_large"},
		{"large, with a token", "/hooks/gitlab/" + id, header(headerGitLab, secret), io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))), 413, "gitlab too_large"},
	} {
		w := newWorld(t, func(o *Options) { o.MaxBody = 1000; delete(o.Secrets, Gitea) })
		if got := w.post(test.path, test.header, test.body); got != test.status || w.counts[test.count] != 1 || w.hinted() {
			t.Errorf("%s: status %d, counted %v", test.name, got, w.counts)
		}
		if strings.Contains(w.log.String(), secret) || strings.Contains(w.log.String(), id) {
			t.Errorf("%s: logged %s", test.name, w.log)
		}
	}
	w := newWorld(t, func(o *Options) { o.MaxBody = 1000 })
	large := httptest.NewRequest(http.MethodPost, "/hooks/github/"+id, errorReader{errors.New("it is read")})
	large.ContentLength = 1001
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, large)
	if answer.Code != 413 {
		t.Errorf("one that says that it is large is answered with %d", answer.Code)
	}
	answer = httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/hooks/github/"+id, nil))
	if answer.Code != 404 {
		t.Errorf("GET: %d", answer.Code)
	}
}

func TestAReplayIsRefusedForAsLongAsItsTimeIsRight(t *testing.T) {
	for _, p := range []Provider{GitHub, Gitea, Standard} {
		w := newWorld(t, nil)
		h := signed(p, secret, "m1", now.Add(Window), "{}")
		path := "/hooks/" + string(p) + "/" + id
		w.post(path, h, strings.NewReader("{}"))
		w.hinted()
		for _, later := range []time.Duration{0, time.Second, Window, 2 * Window} {
			w.clock.SetTime(now.Add(later))
			if got := w.post(path, h, strings.NewReader("{}")); got != 409 || w.hinted() {
				t.Errorf("%s, %s later: %d", p, later, got)
			}
		}
		w.clock.SetTime(now.Add(2*Window + time.Second))
		if got := w.post(path, h, strings.NewReader("{}")); p == Standard && got != 401 {
			t.Errorf("%s, when it is forgotten: %d", p, got)
		}
	}
	w := newWorld(t, nil)
	w.send(Standard, "m1", "{}")
	w.clock.SetTime(now.Add(time.Second))
	if got := w.send(Standard, "m1", "{}"); got != 409 {
		t.Errorf("one id, signed twice: %d", got)
	}
	if got := w.send(Standard, "m2", "{}"); got != 202 {
		t.Errorf("another id: %d", got)
	}
}

// A flood gets short answers, uses memory within a bound, and leaves room again when it is over.
func TestAFlood(t *testing.T) {
	w := newWorld(t, nil)
	body := strings.Repeat("x", 100)
	for i := range 10_000 {
		h := signed(Standard, secret+"x", fmt.Sprint("m", i), now, body)
		w.post("/hooks/standard/"+id, h, strings.NewReader(body))
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/hooks/standard/"+id, nil))
	if got := answer.Header().Get("Retry-After"); answer.Code != 429 || got != "6" {
		t.Errorf("status %d, Retry-After %q", answer.Code, got)
	}
	w.counts["standard limited"]--
	if w.counts["standard forged"] != burst || w.counts["standard limited"] != 10_000-burst || w.hinted() {
		t.Errorf("counted %v", w.counts)
	}
	if lines := strings.Count(w.log.String(), "\n"); lines != 2 {
		t.Errorf("%d lines of log", lines)
	}
	if n := len(w.memory.order); n != 0 {
		t.Errorf("%d forged deliveries are remembered", n)
	}
	w.clock.SetTime(now.Add(time.Second))
	for i := range 2 * perSecond {
		if got, want := w.send(Standard, fmt.Sprint(i), body), map[bool]int{true: 202, false: 429}[i < perSecond]; got != want {
			t.Errorf("%d after a second: %d, want %d", i, got, want)
		}
	}
	// Those that are signed are remembered, within a bound, for no longer than needed.
	remembered := burst + perSecond*int(2*Window/time.Second) + 1
	for range 3 * remembered {
		w.clock.SetTime(w.clock.Now().Add(100 * time.Millisecond))
		w.send(Standard, fmt.Sprint(w.clock.Now().UnixNano()), body)
		if len(w.memory.order) > remembered || len(w.memory.came) > remembered {
			t.Fatalf("%d are remembered", len(w.memory.order))
		}
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	if got := w.send(Standard, "later", body); got != 202 || len(w.memory.order) != 1 || len(w.memory.came) != 1 {
		t.Errorf("an hour later: %d, %d remembered", got, len(w.memory.order))
	}
}

// Those that are being read take their places, so that slow ones do not add up.
func TestSlowDeliveries(t *testing.T) {
	w := newWorld(t, nil)
	release := make(chan struct{})
	reading := make(chan struct{}, inHand)
	var group sync.WaitGroup
	for i := range inHand {
		group.Go(func() {
			body := fmt.Sprint(i)
			w.post("/hooks/github/"+id, signed(GitHub, secret, "", now, body), io.MultiReader(&slow{reading: reading, release: release}, strings.NewReader(body)))
		})
	}
	for range inHand {
		<-reading
	}
	if got := w.send(GitHub, "", "{}"); got != 429 {
		t.Errorf("one more: %d", got)
	}
	close(release)
	group.Wait()
	if got := w.send(GitHub, "", "{}"); got != 202 || w.counts["github accepted"] != inHand+1 {
		t.Errorf("after them: %d, counted %v", got, w.counts)
	}
}

// slow has nothing until it is released.
type slow struct {
	reading chan<- struct{}
	release <-chan struct{}
}

func (s *slow) Read([]byte) (int, error) {
	s.reading <- struct{}{}
	<-s.release
	return 0, io.EOF
}

func TestALargeBodyTakesNoMemory(t *testing.T) {
	w := newWorld(t, nil)
	mac := hmac.New(sha256.New, []byte(secret))
	io.Copy(mac, io.LimitReader(zeros{}, 24<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := w.post("/hooks/github/"+id, header(headerGitHub, "sha256="+hex.EncodeToString(mac.Sum(nil))), io.LimitReader(zeros{}, 24<<20))
	runtime.ReadMemStats(&after)
	if got != 202 || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("status %d, %d bytes allocated", got, after.TotalAlloc-before.TotalAlloc)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestSecretsThatChange(t *testing.T) {
	c := testclock.NewFakePassiveClock(now)
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"":                                      "has 0 secrets",
		"too short\n":                           "secret 1 has fewer than 16 characters",
		strings.Repeat(secret+"\n", 5):          "has 5 secrets",
		secret + "\n" + strings.Repeat("x", 15): "secret 2 has fewer",
	} {
		write(text)
		if _, err := OpenSecretFile(path, c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	write("  the first secret there is\r\n\n")
	f, err := OpenSecretFile(path, c)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if got := string(bytes.Join(f.Secrets(), []byte("|"))); got != want {
			t.Errorf("secrets %q, want %q", got, want)
		}
	}
	check("the first secret there is")
	write("the first secret there is\nthe second one, as long")
	check("the first secret there is")
	c.SetTime(now.Add(rereadAfter))
	check("the first secret there is|the second one, as long")
	os.Remove(path)
	c.SetTime(now.Add(2 * rereadAfter))
	check("the first secret there is|the second one, as long")
	write("short")
	c.SetTime(now.Add(3 * rereadAfter))
	check("the first secret there is|the second one, as long")
}
