package notify

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/notice"
)

// Type is the form of what is sent.
type Type string

const (
	// Webhook is JSON of our own, signed by Standard Webhooks.
	Webhook Type = "webhook"
	// Slack is what its incoming webhooks take, and those of others that copied it.
	Slack Type = "slack"
	// Teams is a card, as the webhooks of Microsoft Teams' workflows take it.
	Teams Type = "teams"
	// Alertmanager is its API v2.
	Alertmanager Type = "alertmanager"
)

// Target is somebody who is told.
type Target struct {
	Type Type
	// URL, or a file with it where it is a secret. Alertmanager's is without /api/v2/alerts.
	URL, URLFile string
	// SecretFile has what signs messages of the type webhook. TokenFile has a bearer token for Alertmanager.
	SecretFile, TokenFile string
	// CAFile has certificates in PEM that are trusted in place of the machine's.
	CAFile string
	// Reasons are what is told; none means everything.
	Reasons []notice.Reason
	// Template makes the text of a message, from a View; empty means DefaultTemplate.
	Template string
	// Interval is the shortest time between two messages of a kind: more of it is told together. 0 means a minute.
	Interval time.Duration
	// Loopback lets this machine be told, and without TLS.
	Loopback bool
}

// DefaultTemplate says it in full.
const DefaultTemplate = `[{{.Fleet}}] {{.Text}}`

// View is what templates see.
type View struct {
	Fleet             string
	Reason            notice.Reason
	Title, Text       string
	Warning, Resolved bool
	Count             int
	Items             []notice.Item
	Members           []string
	Commit, Source    string
	Time              time.Time
}

func viewOf(fleet string, n notice.Notice) View {
	return View{
		Fleet: fleet, Reason: n.Reason, Title: n.Title(), Text: n.Text(), Warning: n.Warning(), Resolved: n.Resolved,
		Count: n.Count, Items: n.Items, Members: n.Members, Commit: n.Commit, Source: n.Source, Time: n.Time,
	}
}

// maxText bounds what a template makes, in bytes.
const maxText = 8 << 10

// bounded takes so much and then fails.
type bounded struct {
	bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, fmt.Errorf("it makes more than %d bytes", maxText)
	}
	return b.Buffer.Write(p)
}

func render(t *template.Template, v View) (string, error) {
	var b bounded
	if err := t.Execute(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

// check tells what is wrong with a target, and compiles its template.
func (t *Target) check() (*template.Template, error) {
	switch {
	case !slices.Contains([]Type{Webhook, Slack, Teams, Alertmanager}, t.Type):
		return nil, fmt.Errorf("type: %q is not known; it is webhook, slack, teams or alertmanager", t.Type)
	case (t.URL == "") == (t.URLFile == ""):
		return nil, errors.New("there is to be one of url and urlFile")
	case t.Type == Webhook && t.SecretFile == "":
		return nil, errors.New("secretFile: is missing; messages of the type webhook are signed with what is in it")
	case t.Type != Webhook && t.SecretFile != "":
		return nil, fmt.Errorf("secretFile: nothing is signed for the type %s", t.Type)
	case t.Type != Alertmanager && t.TokenFile != "":
		return nil, fmt.Errorf("tokenFile: is for the type alertmanager, not for %s", t.Type)
	case t.Type == Alertmanager && t.Template != "":
		return nil, errors.New("template: Alertmanager has templates of its own")
	case t.Interval < 0 || t.Interval > 0 && t.Interval < time.Millisecond: // a number without a unit is nanoseconds
		return nil, fmt.Errorf("interval: %s is too short; durations are written like 1m", t.Interval)
	}
	for _, r := range t.Reasons {
		if !slices.Contains(notice.Reasons(), r) {
			return nil, fmt.Errorf("reasons: %q is not known; they are %v", r, notice.Reasons())
		}
	}
	if t.URL != "" {
		if _, err := parseURL(t.URL, t.Loopback); err != nil {
			return nil, fmt.Errorf("url: %w", err)
		}
	}
	text := t.Template
	if text == "" {
		text = DefaultTemplate
	}
	compiled, err := template.New("template").Parse(text)
	if err == nil {
		sample := notice.Notice{Reason: notice.FailedOver, Count: 1, Items: []notice.Item{{Object: "default/web", What: "m1 -> m2"}}, Members: []string{"m1"}}
		_, err = render(compiled, viewOf("fleet", sample))
	}
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return compiled, nil
}

func (t *Target) wants(r notice.Reason) bool {
	return len(t.Reasons) == 0 || slices.Contains(t.Reasons, r)
}

// parseURL takes an address that messages may go to. Its errors do not have it in them: it may be a secret.
func parseURL(text string, loopback bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("is no URL like https://hooks.example.com/godwit")
	case u.User != nil:
		return nil, errors.New("has a user in it; secrets belong into files")
	case u.Scheme == "http" && loopback && isLoopback(u.Hostname()):
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil, errors.New("is one of this machine without TLS; allowLoopback allows that")
	case u.Scheme != "https":
		return nil, errors.New("is not https, so that everybody on the way could read and change it")
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// address is where to send now.
func (t *Target) address() (*url.URL, error) {
	if t.URLFile == "" {
		return parseURL(t.URL, t.Loopback)
	}
	text, err := readLine(t.URLFile)
	if err != nil {
		return nil, err
	}
	u, err := parseURL(text, t.Loopback)
	if err != nil {
		return nil, fmt.Errorf("the URL in %s %w", t.URLFile, err)
	}
	return u, nil
}

func readLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s: is to have one line", path)
	}
	return line, nil
}
