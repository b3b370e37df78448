package notify

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/hook"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestTargetsThatAreWrong(t *testing.T) {
	good := webhook(t)
	for _, test := range []struct {
		change func(*Target)
		want   string
	}{
		{func(*Target) {}, ""},
		{func(t *Target) { t.Type = "pager" }, `type: "pager" is not known`},
		{func(t *Target) { t.URL = "" }, "one of url and urlFile"},
		{func(t *Target) { t.URLFile = "x" }, "one of url and urlFile"},
		{func(t *Target) { t.SecretFile = "" }, "secretFile: is missing"},
		{func(t *Target) { t.Type = Slack }, "secretFile: nothing is signed for the type slack"},
		{func(t *Target) { t.TokenFile = "x" }, "tokenFile: is for the type alertmanager"},
		{func(t *Target) { t.Type, t.SecretFile, t.Template = Alertmanager, "", "x" }, "template: Alertmanager has"},
		{func(t *Target) { t.Interval = 5 }, "interval: 5ns is too short"},
		{func(t *Target) { t.Interval = -time.Minute }, "interval: -1m0s is too short"},
		{func(t *Target) { t.Reasons = []notice.Reason{"failedOver"} }, `reasons: "failedOver" is not known; they are [FailoverHeld FailedOver`},
		{func(t *Target) { t.URL = "http://hooks.example.com/SECRET" }, "is not https"},
		{func(t *Target) { t.URL = "http://127.0.0.1:9/SECRET" }, "allowLoopback allows that"},
		{func(t *Target) { t.URL, t.Loopback = "http://127.0.0.1:9/SECRET", true }, ""},
		{func(t *Target) { t.URL, t.Loopback = "http://127.0.0.1.example.com/SECRET", true }, "is not https"},
		{func(t *Target) { t.URL = "https://ann:SECRET@hooks.example.com/" }, "has a user in it"},
		{func(t *Target) { t.URL = "https:///SECRET" }, "is no URL"},
		{func(t *Target) { t.URL = "https://a b/SECRET" }, "is no URL"},
		{func(t *Target) { t.URL = "file:///SECRET" }, "is no URL"},
		{func(t *Target) { t.URL = "gopher://x/SECRET" }, "is not https"},
		{func(t *Target) { t.Template = "{{.Title" }, "template: "},
		{func(t *Target) { t.Template = "{{.Nothing}}" }, "template: "},
		{func(t *Target) { t.Template = "{{range .Items}}{{printf \"%10000d\" 1}}{{end}}" }, "it makes more than 8192 bytes"},
		{func(t *Target) { t.CAFile = t.SecretFile }, "has no certificate in PEM"},
		{func(t *Target) { t.CAFile = "missing" }, "caFile: open missing"},
	} {
		target := good
		test.change(&target)
		n, err := New(Options{Targets: []Target{target}})
		if err == nil {
			n.Close(t.Context())
		}
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), "notifications[0]: ") || !strings.Contains(err.Error(), test.want)):
			t.Errorf("New = %v, want %q", err, test.want)
		case err != nil && strings.Contains(err.Error(), "SECRET"):
			t.Errorf("New = %v", err)
		}
	}
}

// received is a request as it came.
type received struct {
	path   string
	header http.Header
	body   string
}

// serve answers with a status, over https, and gives what came and its CA file.
func serve(t *testing.T, answer http.HandlerFunc) (url, ca string, came *[]received) {
	t.Helper()
	came = &[]received{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		*came = append(*came, received{q.URL.Path, q.Header, string(body)})
		answer(w, q)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))), came
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }

// tell sends one notice, as the notifier would.
func tell(t *testing.T, target Target, n notice.Notice) error {
	t.Helper()
	notifier, err := New(Options{Targets: []Target{target}})
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.Close(t.Context())
	one := notifier.targets[0]
	content, err := body(one.Type, one.words, "f", n)
	if err != nil {
		return err
	}
	return one.post(t.Context(), content, idOf("f", n), time.Unix(1_800_000_000, 0))
}

func sample() notice.Notice {
	e := failover("default/web")
	e.Why = `m1: <!channel> & "down"`
	return notice.Of([]decide.Event{e}, notice.Stamp{Commit: "c1", Source: "s1", Time: time.Unix(1_700_000_000, 0).UTC()})[0]
}

func TestASignedMessage(t *testing.T) {
	url, ca, came := serve(t, ok)
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	target := Target{Type: Webhook, URLFile: file(t, url+"/in\n"), SecretFile: file(t, secret+"\n"), CAFile: ca, Loopback: true}
	for range 2 {
		if err := tell(t, target, sample()); err != nil {
			t.Fatal(err)
		}
	}
	got := (*came)[0]
	if _, err := hook.Verify(hook.Standard, got.header, strings.NewReader(got.body), [][]byte{[]byte(secret)}, time.Unix(1_800_000_000, 0)); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if a, b := got.header.Get("Webhook-Id"), (*came)[1].header.Get("Webhook-Id"); a != b || a == "" {
		t.Errorf("the ids are %q and %q", a, b)
	}
	want := `{"version":"v1","fleet":"f","reason":"FailedOver","severity":"warning","resolved":false,"title":"default/web failed over: m1 -\u003e m2",` +
		`"text":"[f] default/web failed over: m1 -\u003e m2\n  m1: \u003c!channel\u003e \u0026 \"down\"\ncommit c1 of the state branch, from s1 of the source","count":1,` +
		`"items":[{"object":"default/web","what":"m1 -\u003e m2","why":"m1: \u003c!channel\u003e \u0026 \"down\""}],"members":["m1"],"commit":"c1","source":"s1","time":"2023-11-14T22:13:20Z"}`
	if got.path != "/in" || got.body != want || got.header.Get("Content-Type") != "application/json" || got.header.Get("Authorization") != "" {
		t.Errorf("%s %v\n%s\nwant\n%s", got.path, got.header, got.body, want)
	}
}

func TestTeamsGetsACardOfPlainText(t *testing.T) {
	url, ca, came := serve(t, ok)
	target := Target{Type: Teams, URL: url + "/workflows/1", CAFile: ca, Loopback: true, Template: "[x](https://evil) {{.Title}}\n{{range .Items}}{{.Why}}{{end}}"}
	if err := tell(t, target, sample()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type    string
					Inlines []struct{ Type, Text, Weight, Color string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte((*came)[0].body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "message" || len(got.Attachments) != 1 || got.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		t.Fatalf("the message is %s", (*came)[0].body)
	}
	var lines []string
	for _, block := range got.Attachments[0].Content.Body {
		run := block.Inlines[0]
		if block.Type != "RichTextBlock" || run.Type != "TextRun" { // a TextBlock would make links of Markdown
			t.Errorf("a line of the type %s, %s", block.Type, run.Type)
		}
		lines = append(lines, strings.Join([]string{run.Text, run.Weight, run.Color}, "|"))
	}
	want := []string{"[x](https://evil) default/web failed over: m1 -> m2|bolder|attention", "m1: <!channel> & \"down\"||"}
	if !slices.Equal(lines, want) {
		t.Errorf("the lines are %q, want %q", lines, want)
	}
}

func TestSlackSeesNoMarkup(t *testing.T) {
	url, ca, came := serve(t, ok)
	target := Target{Type: Slack, URL: url, CAFile: ca, Loopback: true, Template: "*{{.Reason}}* {{.Title}}{{range .Items}} {{.Why}}{{end}}"}
	if err := tell(t, target, sample()); err != nil {
		t.Fatal(err)
	}
	var m map[string]string
	if err := json.Unmarshal([]byte((*came)[0].body), &m); err != nil || len(m) != 1 || m["text"] != `*FailedOver* default/web failed over: m1 -&gt; m2 m1: &lt;!channel&gt; &amp; "down"` {
		t.Errorf("%v, %v", m, err)
	}
}

func TestAlertsAreSentToTheirPath(t *testing.T) {
	url, ca, came := serve(t, ok)
	n, err := New(Options{Fleet: "f", Targets: []Target{{Type: Alertmanager, URL: url + "/prefix/", TokenFile: file(t, "the token\n"), CAFile: ca, Loopback: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(t.Context())
	var a alerts
	at := time.Unix(1_700_000_000, 0)
	a.stand([]notice.Condition{{Reason: notice.MassDeleteHeld, Member: "m1", Text: "9"}, {Reason: notice.FailoverHeld, Since: at, Text: "all down"}}, "c1", at)
	sending, err := a.body("f", at)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.targets[0].post(t.Context(), sending.body, "", at); err != nil {
		t.Fatal(err)
	}
	got := (*came)[0]
	want := `[{"labels":{"alertname":"GodwitFailoverHeld","fleet":"f","severity":"warning"},"annotations":{"commit":"c1","summary":"all down"},"startsAt":"2023-11-14T22:13:20Z","endsAt":"2023-11-14T22:18:20Z"},` +
		`{"labels":{"alertname":"GodwitMassDeleteHeld","fleet":"f","member":"m1","severity":"warning"},"annotations":{"commit":"c1","summary":"m1: 9"},"endsAt":"2023-11-14T22:18:20Z"}]`
	if got.path != "/prefix/api/v2/alerts" || got.body != want || got.header.Get("Authorization") != "Bearer the token" || got.header.Get("Webhook-Id") != "" {
		t.Errorf("%s %v\n%s\nwant\n%s", got.path, got.header, got.body, want)
	}
}

// What goes wrong is told without the address, the secret, or what the server says.
func TestAttemptsThatFail(t *testing.T) {
	url, ca, came := serve(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/SECRET/redirect":
			http.Redirect(w, q, "/SECRET/ok", http.StatusPermanentRedirect)
		default:
			http.Error(w, "SECRET of the server", 500)
		}
	})
	good := Target{Type: Webhook, URL: url + "/SECRET/x", SecretFile: file(t, "a SECRET of some length"), CAFile: ca, Loopback: true}
	for _, test := range []struct {
		name   string
		change func(*Target)
		want   string
	}{
		{"status", func(*Target) {}, "it answers with status 500 Internal Server Error"},
		{"redirect", func(t *Target) { t.URL = url + "/SECRET/redirect" }, "it answers with status 308, a redirect, which is not followed"},
		{"untrusted", func(t *Target) { t.CAFile = "" }, "its certificate is not trusted: "},
		{"this machine", func(t *Target) { t.Loopback = false }, "is an address of this machine; allowLoopback allows that"},
		{"link-local", func(t *Target) { t.URL = "https://169.254.169.254/SECRET" }, "is a link-local or multicast address"},
		{"link-local over http", func(to *Target) { to.URL, to.URLFile = "", file(t, "http://169.254.169.254/SECRET") }, "is not https"},
		{"file with more lines", func(to *Target) { to.URL, to.URLFile = "", file(t, url+"\nSECRET\n") }, "is to have one line"},
		{"no file", func(to *Target) { to.SecretFile += "x" }, "no such file"},
	} {
		target := good
		test.change(&target)
		err := tell(t, target, sample())
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if n := len(*came); n != 2 {
		t.Errorf("%d requests came: the redirect was followed?", n)
	}
}

func TestSecretsAreReadForEachMessage(t *testing.T) {
	url, ca, came := serve(t, ok)
	target := Target{Type: Webhook, URL: url, SecretFile: file(t, "the first secret"), CAFile: ca, Loopback: true}
	for _, secret := range []string{"the first secret", "the second secret"} {
		if err := os.WriteFile(target.SecretFile, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tell(t, target, sample()); err != nil {
			t.Fatal(err)
		}
		got := (*came)[len(*came)-1]
		if _, err := hook.Verify(hook.Standard, got.header, strings.NewReader(got.body), [][]byte{[]byte(secret)}, time.Unix(1_800_000_000, 0)); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

// What is taken is https, or of this machine where that is allowed; what is not taken is not repeated.
func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"https://a/b", "http://127.0.0.1:1", "http://localhost", "https://u:p@h", "https://[::1%25x]/", "http://127.0.0.1.example.com", "//h", "https:h", "\x00"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, loopback bool) {
		u, err := parseURL(text, loopback)
		switch {
		case err != nil && len(text) > 8 && strings.Contains(err.Error(), text):
			t.Fatalf("the error has the URL in it: %v", err)
		case err == nil && (u.User != nil || u.Hostname() == "" && u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback && isLoopback(u.Hostname()))):
			t.Fatalf("%q is taken", text)
		}
	})
}

func TestAClosedNotifierKeepsNoConnection(t *testing.T) {
	gone := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(ok))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			gone <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	if err := tell(t, Target{Type: Slack, URL: server.URL, Loopback: true}, sample()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the connection stays open")
	}
}
