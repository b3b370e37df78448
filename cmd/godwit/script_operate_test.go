package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	githook "github.com/godwit-gitops/godwit/gitstate/hook"
)

// listen finds free addresses of this machine.
func (w *world) listen(ts *testscript.TestScript, args []string) error {
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		ts.Setenv(name, l.Addr().String())
	}
	return nil
}

// request sends one request and checks the status, and the body if there is a pattern.
func request(q *http.Request, status, pattern string) error {
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if fmt.Sprint(answer.StatusCode) != status {
		return fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	if ok, err := regexp.Match(pattern, text); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("it answers %q", text))
	}
	return nil
}

func (w *world) fetch(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return errors.New("usage: fetch URL STATUS [PATTERN]")
	}
	q, err := http.NewRequest(http.MethodGet, args[0], nil)
	if err != nil {
		return err
	}
	return request(q, args[1], append(args, "")[2])
}

// deliver sends a push webhook as a provider does.
func (w *world) deliver(ts *testscript.TestScript, args []string) error {
	if len(args) != 5 {
		return errors.New("usage: deliver PROVIDER URL SECRET BODY STATUS")
	}
	provider, secret, body := args[0], args[2], args[3]
	q, err := http.NewRequest(http.MethodPost, args[1], strings.NewReader(body))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, body)
	sum := hex.EncodeToString(mac.Sum(nil))
	switch provider {
	case "github":
		q.Header.Set("X-Hub-Signature-256", "sha256="+sum)
	case "gitea":
		q.Header.Set("X-Gitea-Signature", sum)
	case "gitlab":
		q.Header.Set("X-Gitlab-Token", secret)
	case "standard":
		githook.Sign(q.Header, []byte(secret), "message-"+body, time.Now(), []byte(body))
	}
	return request(q, args[4], "")
}

// scraped reads the metrics as Prometheus does, lints them, and looks for a line.
func (w *world) scraped(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: scraped URL PATTERN")
	}
	answer, err := http.Get(args[0])
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
		return err
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		return errors.Join(err, fmt.Errorf("lint: %v", problems))
	}
	if ok, err := regexp.Match("(?m)"+args[1], text); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("no line matches %s", args[1]))
	}
	return nil
}

// inbox takes notifications, as a webhook, Slack and Alertmanager would.
type inbox struct {
	mu       sync.Mutex
	down     bool
	messages []string // by path: their text, on one line
}

// useInbox starts the inbox, or changes it.
func (w *world) useInbox(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: inbox up|down")
	}
	if w.inbox == nil {
		w.inbox = &inbox{}
		server := httptest.NewServer(w.inbox)
		w.tb.Cleanup(server.Close)
		ts.Setenv("INBOX", server.URL)
	}
	w.inbox.mu.Lock()
	defer w.inbox.mu.Unlock()
	w.inbox.down = args[0] == "down"
	return nil
}

// inboxSecret is what messages to /signed are signed with.
const inboxSecret = "the secret of the inbox"

func (i *inbox) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err != nil || i.down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case q.URL.Path == "/signed":
		if _, err := githook.Verify(githook.Standard, q.Header, bytes.NewReader(body), [][]byte{[]byte(inboxSecret)}, time.Now()); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	i.messages = append(i.messages, q.URL.Path+" "+string(body))
}

// notified counts the messages that match.
func (w *world) notified(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: notified N PATTERN")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	w.inbox.mu.Lock()
	defer w.inbox.mu.Unlock()
	matching := slices.DeleteFunc(slices.Clone(w.inbox.messages), func(m string) bool { return !pattern.MatchString(m) })
	if len(matching) != want {
		return fmt.Errorf("%d of these match: %s", len(matching), strings.Join(w.inbox.messages, "\n"))
	}
	return nil
}

// logKeys are those that lines of a log have, with what they are about.
var logKeys = map[string]*regexp.Regexp{
	"binding": regexp.MustCompile(`^[a-z0-9.-]+(/[a-z0-9.:-]+)?$`), "member": regexp.MustCompile(`^[a-z0-9.-]+$`), "commit": regexp.MustCompile(`^[0-9a-f]{40}$`),
	"source": regexp.MustCompile(`^[0-9a-f]{40}$`), "pass": regexp.MustCompile(`^[1-9][0-9]*$`),
}

// jsonLog checks that each line of a file is JSON, that keys mean the same in all of them and are all there, and that no
// secret is.
func (w *world) jsonLog(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: jsonlog FILE SECRET...")
	}
	text := ts.ReadFile(args[0])
	for _, secret := range args[1:] {
		if strings.Contains(text, secret) {
			return fmt.Errorf("the log has %s in it", secret)
		}
	}
	if m := regexp.MustCompile(`://[^/"\s]*@`).FindString(text); m != "" {
		return fmt.Errorf("the log has a URL with a user in it: %s", m)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		var entry map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&entry); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		for _, key := range []string{"time", "level", "msg"} {
			if entry[key] == nil {
				return fmt.Errorf("no %s: %s", key, line)
			}
		}
		if entry["err"] != nil {
			return fmt.Errorf("an error has the key error: %s", line)
		}
		for key, pattern := range logKeys {
			value, ok := entry[key]
			if !ok {
				continue
			}
			seen[key] = true
			if !pattern.MatchString(fmt.Sprint(value)) {
				return fmt.Errorf("%s is %v: %s", key, value, line)
			}
		}
	}
	for key := range logKeys {
		if !seen[key] {
			return fmt.Errorf("no line has %s", key)
		}
	}
	return nil
}

// fill replaces variables in files.
func (w *world) fill(ts *testscript.TestScript, args []string) error {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(v string) string { return ts.Getenv(v) })
		if err := os.WriteFile(ts.MkAbs(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// event looks for an Event among those of a namespace, as "type reason kind/name message".
func (w *world) event(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: event MEMBER NAMESPACE PATTERN")
	}
	c, err := w.client(args[0])
	if err != nil {
		return err
	}
	r, err := c.resource("events", args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	list, err := r.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var lines []string
	for _, item := range list.Items {
		var e corev1.Event
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &e); err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s %s/%s %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		if ok, err := regexp.MatchString(args[2], line); err != nil || ok {
			return err
		}
		lines = append(lines, line)
	}
	return fmt.Errorf("there are %q", lines)
}
