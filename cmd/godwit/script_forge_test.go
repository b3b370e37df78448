package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

// forge is a GitHub, GitLab or Gitea as far as the comments of one pull request go, and as strict. As real ones do
// for tokens that may write, it lets the comments of others be changed.
type forge struct {
	*dialect
	name, token, login string
	server             *httptest.Server
	unexpected         func(format string, args ...any)

	mu       sync.Mutex
	comments []comment
	faults   []fault
	readOnly bool
	calls    []string
}

type comment struct {
	id           int
	author, body string
}

// fault is how a call of a method goes wrong, once.
type fault struct {
	method string
	status int  // 0 cuts the connection
	late   bool // what was asked for is done all the same
	header [2]string
}

// dialect is what forges differ in.
type dialect struct {
	list, item, user string // paths; item ends before the number
	update           string
	author, login    string // keys
	header, scheme   string // of the token
	size             string // the parameter for the size of pages
	page             int    // comments on a page, whatever is asked for
	limit            int    // characters in a comment
	tooLong          int    // status
	escaped          bool   // < and > are written as \u003c and \u003e
	bot              string // who a job's own token is; GET user is nothing for it
}

var dialects = map[string]*dialect{
	"github": {list: "/repos/you/fleet/issues/7/comments", item: "/repos/you/fleet/issues/comments/", user: "/user", update: "PATCH",
		author: "user", login: "login", header: "Authorization", scheme: "Bearer ", size: "per_page", page: 3, limit: 65536, tooLong: 422, bot: "github-actions[bot]"},
	"gitea": {list: "/api/v1/repos/you/fleet/issues/7/comments", item: "/api/v1/repos/you/fleet/issues/comments/", user: "/api/v1/user", update: "PATCH",
		author: "user", login: "login", header: "Authorization", scheme: "Bearer ", size: "limit", page: 1000, limit: 1 << 24, tooLong: 422, escaped: true, bot: "gitea-actions"},
	"gitlab": {list: "/api/v4/projects/12/merge_requests/7/notes", item: "/api/v4/projects/12/merge_requests/7/notes/", user: "/api/v4/user", update: "PUT",
		author: "author", login: "username", header: "PRIVATE-TOKEN", size: "per_page", page: 2, limit: 1_000_000, tooLong: 400, escaped: true},
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.calls = append(f.calls, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), "/api"))
	if strings.Contains(r.URL.String(), f.token) {
		f.unexpected("the token is in the address %s", r.URL)
	}
	if i := slices.IndexFunc(f.faults, func(x fault) bool { return x.method == r.Method }); i >= 0 {
		fault := f.faults[i]
		f.faults = slices.Delete(f.faults, i, i+1)
		if fault.late {
			f.answer(httptest.NewRecorder(), r, body)
		}
		if fault.status == 0 {
			panic(http.ErrAbortHandler)
		}
		if fault.header[0] != "" {
			w.Header().Set(fault.header[0], fault.header[1])
		}
		http.Error(w, "<h1>not now</h1>", fault.status)
		return
	}
	f.answer(w, r, body)
}

func (f *forge) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.Header.Get(f.header) != f.scheme+f.token:
		f.tell(w, 401, map[string]any{"message": "401 Unauthorized"})
	case r.UserAgent() == "":
		f.tell(w, 403, map[string]any{"message": "no User-Agent"})
	case r.Method == "GET" && r.URL.Path == f.user && f.login != f.bot:
		f.tell(w, 200, map[string]any{"id": 1, "plan": map[string]any{f.dialect.login: "pro"}, f.dialect.login: f.login})
	case r.Method == "GET" && r.URL.Path == f.user:
		f.tell(w, 403, map[string]any{"message": "Resource not accessible by integration"})
	case r.Method == "GET" && r.URL.Path == f.list:
		f.listed(w, r)
	case r.Method == "POST" && r.URL.Path == f.list:
		f.write(w, r, body, -1)
	case r.Method == f.update && strings.HasPrefix(r.URL.Path, f.item):
		id, err := strconv.Atoi(r.URL.Path[len(f.item):])
		i := slices.IndexFunc(f.comments, func(c comment) bool { return c.id == id })
		if err != nil || i < 0 {
			f.tell(w, 404, map[string]any{"message": "Not Found"})
			return
		}
		f.write(w, r, body, i)
	default:
		f.unexpected("%s %s is no call of %s", r.Method, r.URL, f.name)
		f.tell(w, 404, map[string]any{"message": "Not Found"})
	}
}

// listed has the pages and says by the header Link whether there is another.
func (f *forge) listed(w http.ResponseWriter, r *http.Request) {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if size, err2 := strconv.Atoi(r.URL.Query().Get(f.size)); err != nil || err2 != nil || page < 1 || size < 30 {
		f.unexpected("%s asks for no page, or for small ones", r.URL)
	}
	from, to := min((page-1)*f.page, len(f.comments)), min(page*f.page, len(f.comments))
	list := []any{}
	for _, c := range f.comments[from:to] {
		list = append(list, f.show(c))
	}
	link := fmt.Sprintf(`<%s%s?page=1>; rel="first"`, f.server.URL, f.list)
	if to < len(f.comments) {
		link += fmt.Sprintf(`, <%s%s?page=%d>; rel="next"`, f.server.URL, f.list, page+1)
	}
	w.Header().Set("Link", link)
	f.tell(w, 200, list)
}

// show has keys besides those that are asked for, nested ones of the same names among them.
func (f *forge) show(c comment) any {
	return map[string]any{
		"id": c.id, "body": c.body, "node_id": `"},{"id":1`, "system": false, "labels": []any{map[string]any{"id": 3, "body": "<!-- godwit-plan -->"}},
		f.author:   map[string]any{"id": 5, f.dialect.login: c.author, "badge": map[string]any{f.dialect.login: "owner"}},
		"resolver": map[string]any{f.dialect.login: f.login}, "updated_at": nil, "reactions": map[string]any{"id": 9},
	}
}

func (f *forge) write(w http.ResponseWriter, r *http.Request, body []byte, at int) {
	var in struct{ Body *string }
	switch {
	case f.readOnly:
		f.tell(w, 403, map[string]any{"message": "Resource not accessible by integration"})
		return
	case r.Header.Get("Content-Type") != "application/json":
		f.tell(w, 415, map[string]any{"message": "Unsupported Media Type"})
		return
	case json.Unmarshal(body, &in) != nil || in.Body == nil:
		f.tell(w, 400, map[string]any{"message": "Problems parsing JSON"})
		return
	case utf8.RuneCountInString(*in.Body) > f.limit:
		f.tell(w, f.tooLong, map[string]any{"message": fmt.Sprintf("body is too long (maximum is %d characters)", f.limit)})
		return
	}
	status := 200
	if at < 0 {
		at, status = len(f.comments), 201
		f.comments = append(f.comments, comment{id: 100 + len(f.comments), author: f.login})
	}
	f.comments[at].body = *in.Body
	f.tell(w, status, f.show(f.comments[at]))
}

func (f *forge) tell(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(f.escaped)
	e.Encode(v)
}

// forgeToken is what only headers may have.
const forgeToken = "ghs_A1.b2-C3_d4"

// startForge starts the forge and sets the variables that its runner gives a job. curl is watched for the token
// among its arguments.
func (w *world) startForge(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 || len(args) > 2 || dialects[args[0]] == nil {
		return errors.New("usage: forge github|gitlab|gitea [LOGIN]")
	}
	f := &forge{dialect: dialects[args[0]], name: args[0], token: forgeToken, unexpected: w.tb.Errorf}
	if f.login = f.bot; len(args) == 2 {
		f.login = args[1]
	}
	f.server = httptest.NewServer(f)
	w.tb.Cleanup(f.server.Close)
	w.forge = f

	curl, err := exec.LookPath("curl")
	if err != nil {
		return err
	}
	bin := ts.MkAbs("bin")
	watch := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *%s*) echo 'curl: the token is an argument' >&2; exit 99 ;; esac\nexec %s \"$@\"\n", forgeToken, curl)
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "curl"), []byte(watch), 0o755)); err != nil {
		return err
	}
	ts.Setenv("PATH", bin+string(filepath.ListSeparator)+ts.Getenv("PATH"))
	ts.Setenv("TMPDIR", ts.Getenv("WORK"))
	ts.Setenv("COMMENT_TOKEN", f.token)
	ts.Setenv("COMMENT_RETRY_SECONDS", "0")
	for name, value := range f.environment() {
		ts.Setenv(name, value)
	}
	return nil
}

// environment is what the runner of the forge tells every job of the pull request.
func (f *forge) environment() map[string]string {
	if f.name == "gitlab" {
		return map[string]string{"GITLAB_CI": "true", "CI_API_V4_URL": f.server.URL + "/api/v4", "CI_PROJECT_ID": "12", "CI_MERGE_REQUEST_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7"}
	}
	v := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_API_URL": f.server.URL, "GITHUB_SERVER_URL": f.server.URL, "GITHUB_REPOSITORY": "you/fleet", "GITHUB_REF": "refs/pull/7/merge"}
	if f.name == "gitea" {
		v["GITEA_ACTIONS"], v["GITHUB_API_URL"], v["GITHUB_REF"] = "true", f.server.URL+"/api/v1", "refs/pull/7/head"
	}
	return v
}

func (w *world) remark(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 || w.forge == nil {
		return errors.New("usage, after forge: remark LOGIN FILE")
	}
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	w.forge.comments = append(w.forge.comments, comment{100 + len(w.forge.comments), args[0], ts.ReadFile(args[1])})
	return nil
}

func (w *world) remarks(ts *testscript.TestScript, _ []string) error {
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	for _, c := range w.forge.comments {
		lines := strings.SplitN(c.body, "\n", 3)
		fmt.Fprintf(ts.Stdout(), "%d %s %s\n", c.id, c.author, strings.Join(lines[:min(2, len(lines))], " / "))
	}
	return nil
}

func (w *world) remarked(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: remarked ID FILE")
	}
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	for _, c := range w.forge.comments {
		if strconv.Itoa(c.id) != args[0] {
			continue
		}
		want := ts.ReadFile(args[1])
		if c.body == want {
			return nil
		}
		n := 0
		for n < len(want) && n < len(c.body) && want[n] == c.body[n] {
			n++
		}
		return fmt.Errorf("has %d bytes, want %d; they differ from byte %d: %.20q, want %.20q", len(c.body), len(want), n, c.body[n:], want[n:])
	}
	return errors.New("there is no such comment")
}

func (w *world) called(ts *testscript.TestScript, _ []string) error {
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	for _, c := range w.forge.calls {
		fmt.Fprintln(ts.Stdout(), c)
	}
	w.forge.calls = nil
	return nil
}

func (w *world) fault(_ *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: fault METHOD STATUS|cut [late] [HEADER VALUE]")
	}
	f := fault{method: args[0]}
	if args[1] != "cut" {
		var err error
		if f.status, err = strconv.Atoi(args[1]); err != nil {
			return err
		}
	}
	rest := args[2:]
	if len(rest) > 0 && rest[0] == "late" {
		f.late, rest = true, rest[1:]
	}
	if len(rest) == 2 {
		f.header = [2]string{rest[0], rest[1]}
	}
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	w.forge.faults = append(w.forge.faults, f)
	return nil
}

func (w *world) readOnly(_ *testscript.TestScript, _ []string) error {
	w.forge.mu.Lock()
	defer w.forge.mu.Unlock()
	w.forge.readOnly = true
	return nil
}

// crowd adds comments that are not ours, however near they come: of our login without the mark as the first line, and
// with it of logins like ours.
func (w *world) crowd(_ *testscript.TestScript, _ []string) error {
	const mark = "<!-- godwit-plan -->"
	f := w.forge
	f.mu.Lock()
	defer f.mu.Unlock()
	add := func(author, body string) {
		f.comments = append(f.comments, comment{100 + len(f.comments), author, body})
	}
	for _, before := range []string{"", " ", "\\", "\"", "\n", "\u00a0", "\ufeff", "> ", `\u003c`, `","body":"`, "\x00", "\u2028"} {
		for _, after := range []string{" ", "\\", "\"", `\n`, "\u0000", "\t", `"},{"id":1,"body":"`, strings.Repeat(`\"`, 5000)} {
			add(f.login, before+mark+after)
			if before != "" {
				add(f.login, before+mark+"\n"+after)
			}
			if login := before + f.login + after; login != f.login {
				add(login, mark+"\n")
			}
		}
	}
	add(f.login, "")
	add("", mark)
	add(f.login, mark[:len(mark)-1])
	add(f.login, strings.ToUpper(mark))
	return nil
}

// every writes a file with the mark and then with all that may go wrong on the way: each ASCII character, code
// points of every length and at every border, what shells and JSON take for theirs, and no newline at the end.
func every(_ *world, ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: every FILE")
	}
	var b strings.Builder
	b.WriteString("<!-- godwit-plan -->\n$(touch pwned) `touch pwned` ${IFS} \"'\\\\\" \\u003c %s %n &amp; @- </script>\r\n")
	for c := rune(0); c < 256; c++ {
		b.WriteRune(c)
	}
	for c := rune(256); c <= utf8.MaxRune; c += 149 {
		if utf8.ValidRune(c) {
			b.WriteRune(c)
		}
	}
	b.WriteString("\u07ff\u0800\ud7ff\ue000\ufffd\uffff\U00010000\U0010ffff🦊\n\n\\")
	return os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o644)
}
