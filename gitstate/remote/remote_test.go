package remote_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
)

const (
	mainRef  = "refs/heads/main"
	tracking = "refs/remotes/origin/main"
	stateRef = "refs/heads/godwit/state"
)

var one = map[string]string{mainRef: tracking}

// transports are the ways to one repository.
var transports = []struct {
	name  string
	serve func(t *testing.T, dir string) remote.Options
}{
	{"path", func(_ *testing.T, dir string) remote.Options { return remote.Options{URL: dir} }},
	{"file URL", func(_ *testing.T, dir string) remote.Options { return remote.Options{URL: "file://" + dir} }},
	{"http", func(t *testing.T, dir string) remote.Options {
		return remote.Options{URL: gittest.ServeHTTP(t, dir, gittest.HTTPOptions{}).URL}
	}},
	{"https with password", func(t *testing.T, dir string) remote.Options {
		s := gittest.ServeHTTP(t, dir, gittest.HTTPOptions{Username: "ada", Password: "s3cret", TLS: true})
		return remote.Options{URL: s.URL, Auth: remote.Auth{Username: "ada", Password: "s3cret", CAFile: s.CAFile}}
	}},
	{"https with password in the URL", func(t *testing.T, dir string) remote.Options {
		s := gittest.ServeHTTP(t, dir, gittest.HTTPOptions{Username: "ada", Password: "s3cret", TLS: true})
		return remote.Options{URL: strings.Replace(s.URL, "://", "://ada:s3cret@", 1), Auth: remote.Auth{CAFile: s.CAFile}}
	}},
	{"https with token", func(t *testing.T, dir string) remote.Options {
		s := gittest.ServeHTTP(t, dir, gittest.HTTPOptions{Token: "t0ken", TLS: true})
		return remote.Options{URL: s.URL, Auth: remote.Auth{BearerToken: "t0ken", CAFile: s.CAFile}}
	}},
	{"ssh", func(t *testing.T, dir string) remote.Options {
		s := gittest.ServeSSH(t, dir)
		return remote.Options{URL: s.URL, Auth: remote.Auth{SSHKeyFile: s.KeyFile, KnownHostsFile: s.KnownHosts}}
	}},
}

func open(t *testing.T, o remote.Options) *remote.Remote {
	t.Helper()
	r, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// must fails the test if a step of it failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRef(t *testing.T, dir, ref string, want plumbing.Hash) {
	t.Helper()
	if got, err := remote.ReadRef(dir, ref); err != nil || got != want {
		t.Errorf("ReadRef(%s) = %v, %v, want %v", ref, got, err, want)
	}
}

// everything is the commits, trees and blobs that a bare repository can reach from a ref.
func everything(t *testing.T, dir, ref string) string {
	t.Helper()
	return gittest.At(t, dir).Git("rev-list", "--objects", ref)
}

// commitPack makes a commit in a scratch repository on top of parent and returns it and a pack of it.
func commitPack(t *testing.T, from *gittest.Repo, branch string, files map[string]string) (plumbing.Hash, []byte) {
	t.Helper()
	before := from.Head(branch)
	commit := from.Commit(branch, files, "state")
	revs := commit.String() + "\n"
	if !before.IsZero() {
		revs += "^" + before.String() + "\n"
	}
	return commit, from.GitInput(revs, "pack-objects", "--revs", "--stdout", "-q")
}

func TestEveryTransportListsFetchesAndPushes(t *testing.T) {
	t.Parallel()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ctx := t.Context()
			repo := gittest.NewRepo(t)
			r := open(t, tr.serve(t, repo.Dir))
			clone := filepath.Join(t.TempDir(), "clone")

			if _, err := r.Refs(ctx); !errors.Is(err, remote.ErrEmpty) {
				t.Errorf("Refs of an empty remote: %v, want ErrEmpty", err)
			}
			if err := r.Fetch(ctx, clone, one); !errors.Is(err, remote.ErrEmpty) {
				t.Errorf("Fetch of an empty remote: %v, want ErrEmpty", err)
			}

			first := repo.Commit("main", map[string]string{"a/b.yaml": "one", "c": "two"}, "first")
			other := repo.Commit("other", map[string]string{"x": "y"}, "other")
			got, err := r.Refs(ctx)
			want := map[string]plumbing.Hash{"HEAD": first, mainRef: first, "refs/heads/other": other}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("Refs: %v\n%s", err, diff)
			}
			if branch, err := r.DefaultBranch(ctx); branch != "main" || err != nil {
				t.Errorf("DefaultBranch = %q, %v, want main", branch, err)
			}

			must(t, r.Fetch(ctx, clone, one))
			wantRef(t, clone, tracking, first)
			// The second fetch has something to build on, and the branch lost its last commit.
			repo.Commit("main", map[string]string{"c": "three", "d": "four"}, "second")
			must(t, r.Fetch(ctx, clone, one))
			rewound := repo.CommitTree("main", repo.Tree(), "rewound", first)
			must(t, r.Fetch(ctx, clone, one))
			wantRef(t, clone, tracking, rewound)
			if diff := cmp.Diff(everything(t, repo.Dir, mainRef), everything(t, clone, tracking)); diff != "" {
				t.Errorf("the clone differs:\n%s", diff)
			}
			if err := r.Fetch(ctx, clone, map[string]string{"refs/heads/none": tracking}); !errors.Is(err, remote.ErrNotFound) {
				t.Errorf("Fetch of a missing ref: %v, want ErrNotFound", err)
			}

			// Create, move on, and lose a race.
			scratch := gittest.NewRepo(t)
			born, pack := commitPack(t, scratch, "s", map[string]string{"state.yaml": "1"})
			must(t, r.Push(ctx, stateRef, plumbing.ZeroHash, born, bytes.NewReader(pack)))
			wantRef(t, repo.Dir, stateRef, born)
			next, pack := commitPack(t, scratch, "s", map[string]string{"state.yaml": "2"})
			must(t, r.Push(ctx, stateRef, born, next, bytes.NewReader(pack)))
			wantRef(t, repo.Dir, stateRef, next)
			late, pack := commitPack(t, scratch, "s", map[string]string{"state.yaml": "3"})
			for _, old := range []plumbing.Hash{born, plumbing.ZeroHash} {
				err = r.Push(ctx, stateRef, old, late, bytes.NewReader(pack))
				if !errors.Is(err, remote.ErrRefused) || !errors.Is(err, remote.ErrRefMoved) {
					t.Errorf("Push from %s: %v, want ErrRefused and ErrRefMoved", old, err)
				}
			}
			wantRef(t, repo.Dir, stateRef, next)
			// Objects that are there need no pack.
			must(t, r.Push(ctx, "refs/heads/again", plumbing.ZeroHash, born, nil))
			wantRef(t, repo.Dir, "refs/heads/again", born)
			if got := repo.Git("fsck", "--strict"); strings.Contains(got, "missing") {
				t.Errorf("fsck: %s", got)
			}
		})
	}
}

func TestLargePackOfUnknownLengthIsPushed(t *testing.T) {
	t.Parallel()
	random := make([]byte, 3<<20)
	for i, x := 0, uint32(1); i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = byte(x >> 24)
	}
	for _, tr := range transports[2:] {
		t.Run(tr.name, func(t *testing.T) {
			repo, scratch := gittest.NewRepo(t), gittest.NewRepo(t)
			r := open(t, tr.serve(t, repo.Dir))
			commit, pack := commitPack(t, scratch, "s", map[string]string{"large": string(random)})
			must(t, r.Push(t.Context(), stateRef, plumbing.ZeroHash, commit, io.MultiReader(bytes.NewReader(pack))))
			if repo.Files(stateRef)["large"] != string(random) {
				t.Error("the file did not arrive as it was")
			}
			clone := filepath.Join(t.TempDir(), "clone")
			must(t, r.Fetch(t.Context(), clone, map[string]string{stateRef: tracking}))
			wantRef(t, clone, tracking, commit)
		})
	}
}

func TestHooksReasonReachesTheCaller(t *testing.T) {
	t.Parallel()
	repo, scratch := gittest.NewRepo(t), gittest.NewRepo(t)
	web, shell := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{}), gittest.ServeSSH(t, repo.Dir)
	web.Reject("only the bot\x1b[31m may push")
	commit, pack := commitPack(t, scratch, "s", map[string]string{"state.yaml": "1"})
	for _, o := range []remote.Options{
		{URL: web.URL},
		{URL: shell.URL, Auth: remote.Auth{SSHKeyFile: shell.KeyFile, KnownHostsFile: shell.KnownHosts}},
	} {
		r := open(t, o)
		err := r.Push(t.Context(), stateRef, plumbing.ZeroHash, commit, bytes.NewReader(pack))
		if !errors.Is(err, remote.ErrRefused) || !strings.Contains(err.Error(), "only the bot [31m may push") || errors.Is(err, remote.ErrRefMoved) {
			t.Errorf("%s: %v, want ErrRefused and the hook's words without control characters", r, err)
		}
	}
	web.Reject("")
	must(t, open(t, remote.Options{URL: web.URL}).Push(t.Context(), stateRef, plumbing.ZeroHash, commit, bytes.NewReader(pack)))
}

func TestUnchangedRemoteCostsOneRequest(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	r, clone := open(t, remote.Options{URL: s.URL}), t.TempDir()
	must(t, r.Fetch(t.Context(), clone, one))
	before := s.Requests("")
	must(t, r.Fetch(t.Context(), clone, one))
	if got := s.Requests("") - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	commit := repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeSSH(t, repo.Dir)
	other := gittest.ServeSSH(t, repo.Dir)
	at, ed25519, rsa := s.Address(), s.HostKeys[0], s.HostKeys[1]
	for _, test := range []struct {
		name  string
		known string // file
		want  string // part of the error, empty for none
	}{
		{"both keys", s.KnownHosts, ""},
		{"hashed", s.Hashed, ""},
		{"only ed25519", s.Write(t, at+" "+ed25519), ""},
		{"only rsa", s.Write(t, at+" "+rsa), ""},
		{"an old rsa key and the new one", s.Write(t, at+" "+other.HostKeys[1], at+" "+rsa), ""},
		{"several hosts in a line", s.Write(t, "# comment", "git.example.com,"+at+" "+ed25519), ""},
		{"another port of the host", s.Write(t, other.Address()+" "+ed25519), "is unknown"},
		{"no port", s.Write(t, s.Host+" "+ed25519), "is unknown"},
		{"nothing", s.Write(t, ""), "ssh-keyscan -p " + s.Port + " 127.0.0.1 >> "},
		{"another key of the same kind", s.Write(t, at+" "+other.HostKeys[0]), "changed: it offers ssh-ed25519 SHA256:"},
		{"revoked", s.Write(t, at+" "+ed25519, "@revoked * "+ed25519), "revoked"},
		{"a kind of key that the server has not", s.Write(t, at+" "+ecdsa), "no key of a kind that is known"},
		{"no file", filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := open(t, remote.Options{URL: s.URL, Auth: remote.Auth{SSHKeyFile: s.KeyFile, KnownHostsFile: test.known}})
			refs, err := r.Refs(t.Context())
			switch {
			case test.want == "" && (err != nil || refs[mainRef] != commit):
				t.Errorf("Refs = %v, %v, want %s", refs, err, commit)
			case test.want != "" && (!errors.Is(err, remote.ErrHostKey) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Refs: %v, want ErrHostKey with %q", err, test.want)
			}
		})
	}
}

const ecdsa = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="

func TestSignedHostKeyIsAccepted(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeSSH(t, repo.Dir)
	known := s.Write(t, "@cert-authority "+s.Address()+" "+s.SignHostKey(t))
	r := open(t, remote.Options{URL: s.URL, Auth: remote.Auth{SSHKeyFile: s.KeyFile, KnownHostsFile: known}})
	if _, err := r.Refs(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAgentHoldsTheKey(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeSSH(t, repo.Dir)
	t.Setenv("SSH_AUTH_SOCK", s.Agent(t))
	r := open(t, remote.Options{URL: s.URL, Auth: remote.Auth{UseAgent: true, KnownHostsFile: s.KnownHosts}})
	if _, err := r.Refs(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLockedKeyNeedsItsPassphrase(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeSSH(t, repo.Dir)
	if out, err := exec.Command("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", s.KeyFile).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	for passphrase, want := range map[string]string{"open sesame": "<nil>", "": "no passphrase", "wr0ng": "wrong passphrase"} {
		auth := remote.Auth{SSHKeyFile: s.KeyFile, SSHKeyPassphrase: passphrase, KnownHostsFile: s.KnownHosts}
		if _, err := open(t, remote.Options{URL: s.URL, Auth: auth}).Refs(t.Context()); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("passphrase %q: %v, want %s", passphrase, err, want)
		}
	}
}

func TestCertificateOfAnUnknownAuthorityIsRefused(t *testing.T) {
	repo := gittest.NewRepo(t)
	s := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{TLS: true})
	var unknown x509.UnknownAuthorityError
	if _, err := open(t, remote.Options{URL: s.URL}).Refs(t.Context()); !errors.As(err, &unknown) {
		t.Errorf("Refs: %v, want an unknown authority", err)
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), os.Args[0]} {
		if _, err := remote.New(remote.Options{URL: s.URL, Auth: remote.Auth{CAFile: file}}); err == nil || !strings.Contains(err.Error(), "CA file") {
			t.Errorf("CA file %s: %v", file, err)
		}
	}
}

// A server that speaks nothing newer than TLS 1.1 gets no password.
func TestOldTLSIsRefused(t *testing.T) {
	asked := false
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	r := open(t, remote.Options{URL: server.URL + "/repo.git", Auth: remote.Auth{Username: "ada", Password: "s3cret", CAFile: ca}})
	if _, err := r.Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "protocol version") || asked {
		t.Errorf("%v, asked %t", err, asked)
	}
}

// Repositories are at no address where clouds keep secrets, over any transport that connects.
func TestNoRepositoryIsAtALinkLocalAddress(t *testing.T) {
	key := gittest.ServeSSH(t, gittest.NewRepo(t).Dir)
	for _, url := range []string{
		"http://169.254.169.254/repo.git", "https://[::ffff:169.254.169.254]/repo.git", "https://[fe80::1%25lo]/repo.git",
		"http://[fd00:ec2::254]/repo.git", "ssh://git@169.254.169.254/repo.git", "git@[fe80::1]:repo.git",
	} {
		r := open(t, remote.Options{URL: url, InsecureHTTP: true, Auth: remote.Auth{SSHKeyFile: key.KeyFile, KnownHostsFile: key.KnownHosts}})
		if _, err := r.Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "is a link-local address, or another one that no repository has") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestWhoMayNotIsToldSo(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	web := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{Username: "ada", Password: "s3cret"})
	shell := gittest.ServeSSH(t, repo.Dir)
	for _, o := range []remote.Options{
		{URL: web.URL},
		{URL: web.URL, Auth: remote.Auth{Username: "ada", Password: "wr0ng"}},
		{URL: web.URL, Auth: remote.Auth{BearerToken: "wr0ng"}},
		{URL: shell.URL, Auth: remote.Auth{SSHKeyFile: shell.OtherKeyFile, KnownHostsFile: shell.KnownHosts}},
		{URL: shell.URL, Auth: remote.Auth{KnownHostsFile: shell.KnownHosts}},
	} {
		if _, err := open(t, o).Refs(t.Context()); !errors.Is(err, remote.ErrUnauthorized) {
			t.Errorf("%v: %v, want ErrUnauthorized", o, err)
		}
	}
}

func TestMissingRepositoryIsNotFound(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	web, shell := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{}), gittest.ServeSSH(t, repo.Dir)
	for _, o := range []remote.Options{
		{URL: repo.Dir + "-none"},
		{URL: web.URL + "-none"},
		{URL: shell.URL + "-none", Auth: remote.Auth{SSHKeyFile: shell.KeyFile, KnownHostsFile: shell.KnownHosts}},
	} {
		if _, err := open(t, o).Refs(t.Context()); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("%v: %v, want ErrNotFound", o, err)
		}
	}
}

func TestHungServerEndsWithTheContextOrTheTimeout(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	web, shell := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{}), gittest.ServeSSH(t, repo.Dir)
	web.Hang(true)
	shell.Hang(true)
	gone := errors.New("operator left")
	for _, o := range []remote.Options{
		{URL: web.URL},
		{URL: shell.URL, Auth: remote.Auth{SSHKeyFile: shell.KeyFile, KnownHostsFile: shell.KnownHosts}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
		defer stop.Stop()
		if _, err := open(t, o).Refs(ctx); !errors.Is(err, gone) {
			t.Errorf("Refs of a hung %s: %v, want the cause of the context", o, err)
		}
		o.Timeout = 50 * time.Millisecond
		if err := open(t, o).Push(t.Context(), stateRef, plumbing.ZeroHash, plumbing.NewHash(strings.Repeat("1", 40)), nil); !errors.Is(err, remote.ErrTimeout) {
			t.Errorf("Push to a hung %s: %v, want ErrTimeout", o, err)
		}
	}
}

func TestServerThatHangsBeforeThePackIsATimeout(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	for _, begun := range []string{"", "0008NAK\n"} {
		s.Answer(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodGet {
				s.Git(w, q)
				return
			}
			io.Copy(io.Discard, q.Body)
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			io.WriteString(w, begun)
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		})
		r := open(t, remote.Options{URL: s.URL, Timeout: 300 * time.Millisecond})
		if err := r.Fetch(t.Context(), t.TempDir(), one); !errors.Is(err, remote.ErrTimeout) {
			t.Errorf("after %q: %v, want ErrTimeout", begun, err)
		}
	}
}

func TestServerThatStopsInTheMiddleIsAnError(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	r, clone := open(t, remote.Options{URL: s.URL}), t.TempDir()
	for _, body := range []string{"", "0008NAK\n", "0008NAK\n0010\x01PACK\x00\x00\x00\x02", "0008NAK\n000d\x03go away", "000dERR quiet"} {
		s.Answer(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodPost {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				io.WriteString(w, body)
				return
			}
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s%s\x00 side-band-64k\n0000", 4+40+1+len(mainRef)+1+15, repo.Head("main"), " "+mainRef)
		})
		if err := r.Fetch(t.Context(), clone, one); err == nil {
			t.Errorf("answer %q: no error", body)
		}
	}
	entries, err := os.ReadDir(filepath.Join(clone, "objects", "pack"))
	if len(entries) > 0 || err != nil {
		t.Errorf("broken fetches left %v (%v)", entries, err)
	}
	s.Answer(nil)
	must(t, r.Fetch(t.Context(), clone, one))
}

func TestOutageEndsAndTheNextCallWorks(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": "b"}, "first")
	s := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	r := open(t, remote.Options{URL: s.URL})
	for _, down := range []bool{false, true, false, true, false} {
		s.Outage(down)
		if _, err := r.Refs(t.Context()); (err != nil) != down {
			t.Errorf("outage %t: %v", down, err)
		}
	}
}

func TestRedirectsStayOnTheirHost(t *testing.T) {
	repo := gittest.NewRepo(t)
	commit := repo.Commit("main", map[string]string{"a": "b"}, "first")
	there := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	here := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	auth := remote.Auth{Username: "ada", Password: "s3cret"}

	moved := strings.Replace(here.URL, "repo.git", "old.git", 1)
	here.Answer(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "old.git") {
			http.Redirect(w, q, strings.Replace(q.URL.String(), "old.git", "repo.git", 1), http.StatusMovedPermanently)
			return
		}
		here.Git(w, q)
	})
	clone := t.TempDir()
	must(t, open(t, remote.Options{URL: moved, Auth: auth}).Fetch(t.Context(), clone, one))
	wantRef(t, clone, tracking, commit)

	here.Answer(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, there.URL+"/info/refs?"+q.URL.RawQuery, http.StatusFound)
	})
	if _, err := open(t, remote.Options{URL: here.URL, Auth: auth}).Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("redirect to another host: %v", err)
	}
	if n := there.Requests(""); n != 0 {
		t.Errorf("the other host saw %d requests", n)
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	const secret = "hunter2%2Fx"
	repo := gittest.NewRepo(t)
	echo := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	echo.Answer(func(w http.ResponseWriter, q *http.Request) {
		_, password, _ := q.BasicAuth()
		http.Error(w, password+" "+url.QueryEscape(password)+" "+q.Header.Get("Authorization"), http.StatusForbidden)
	})
	host := strings.TrimPrefix(echo.URL, "http://")
	auth := remote.Auth{Username: "ada", Password: "hunter2/x", BearerToken: "hunter2/x", SSHKeyPassphrase: "hunter2/x", SSHKeyFile: os.Args[0]}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "auth", auth)
	printed := []string{log.String(), fmt.Sprint(auth), fmt.Sprintf("%#v %+v", auth, auth)}
	for _, at := range []string{
		echo.URL, "http://ada:" + secret + "@" + host, "http://ada:" + secret + "@127.0.0.1:1/x", "https://ada:" + secret + "@host:port:1/x",
		"https://ada:" + secret + "@h/x?hunter2", "ftp://ada:" + secret + "@h/x", "http://ada:" + secret + "@example.com/x",
		"ssh://ada:" + secret + "@127.0.0.1:1/x", "https://" + secret + "\x7f@h/", "file://ada:" + secret + "@h/x",
	} {
		for _, auth := range []remote.Auth{{}, auth} {
			o := remote.Options{URL: at, Auth: auth}
			printed = append(printed, fmt.Sprintf("%v %+v %#v %s", o, o, o, o))
			r, err := remote.New(o)
			if err == nil {
				printed = append(printed, fmt.Sprintf("%v %+v %#v %s", r, r, r, r), r.LogValue().String())
				_, err = r.Refs(t.Context())
			}
			if err == nil {
				t.Errorf("%s: no error", at)
				continue
			}
			printed = append(printed, err.Error())
		}
	}
	for _, text := range printed {
		for _, secret := range []string{"hunter2", base64.StdEncoding.EncodeToString([]byte("ada:hunter2/x"))} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret in %q", text)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"https://example.com/a/b.git", "https://example.com/a/b.git"},
		{"https://example.com:8443/a/b.git/", "https://example.com:8443/a/b.git/"},
		{"ssh://git@example.com:2222/a.git", "ssh://example.com:2222/a.git"},
		{"git@example.com:team/a.git", "example.com:team/a.git"},
		{"example.com:a.git", "example.com:a.git"},
		{"git@[::1]:a.git", "[::1]:a.git"},
		{"http://localhost:1/a", "http://localhost:1/a"},
		{"http://[::1]:1/a", "http://[::1]:1/a"},
		{"file:///srv/a.git", "/srv/a.git"},
		{"/srv/a:b.git", "/srv/a:b.git"},
		{"http://example.com/a", "plain http"},
		{"git://example.com/a", "not supported"},
		{"ext::sh -c true", "not supported"},
		{"ext://x/y", "not supported"},
		{"", "empty"},
		{"https:///a", "no valid host"},
		{"https://example.com", "no path"},
		{"ssh://-oProxyCommand=x/a", "no valid host"},
		{"-oProxyCommand=x:a", "no valid host"},
		{"git@example.com:-a", "dash"},
		{"ssh://-x@example.com/a", "dash"},
		{"file://host/a", "names no host"},
		{"https://example.com/a?b=c", `"?"`},
		{"https://example.com/a\nb", "line break"},
	} {
		r, err := remote.New(remote.Options{URL: test.url})
		got := fmt.Sprint(err)
		if err == nil {
			got = r.String()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("New(%q) = %s, want %s", test.url, got, test.want)
		}
	}
}

func TestWorkTreesAreServedAndNotPushedInto(t *testing.T) {
	repo := gittest.NewRepo(t)
	commit := repo.Commit("main", map[string]string{"a": "b"}, "first")
	tree, linked := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "linked")
	repo.Git("clone", "-q", repo.Dir, tree)
	repo.Git("-C", tree, "--git-dir", filepath.Join(tree, ".git"), "worktree", "add", "-q", "-b", "side", linked)
	repo.Git("--git-dir", filepath.Join(tree, ".git"), "pack-refs", "--all")

	for path, branch := range map[string]string{tree: "main", linked: "side"} {
		r, clone := open(t, remote.Options{URL: path}), t.TempDir()
		if got, err := r.DefaultBranch(t.Context()); got != branch || err != nil {
			t.Errorf("DefaultBranch of %s = %q, %v, want %s", path, got, err, branch)
		}
		must(t, r.Fetch(t.Context(), clone, one))
		wantRef(t, clone, tracking, commit)
		for _, ref := range []string{mainRef, "refs/heads/side"} {
			if err := r.Push(t.Context(), ref, commit, commit, nil); !errors.Is(err, remote.ErrRefused) {
				t.Errorf("Push to the checked out %s: %v, want ErrRefused", ref, err)
			}
		}
		must(t, r.Push(t.Context(), "refs/heads/"+branch+"-state", plumbing.ZeroHash, commit, nil))
	}
	// A repository that borrows its objects from another.
	shared, clone := filepath.Join(t.TempDir(), "shared"), t.TempDir()
	repo.Git("clone", "-q", "--bare", "--shared", tree, shared)
	must(t, open(t, remote.Options{URL: shared}).Fetch(t.Context(), clone, one))
	wantRef(t, clone, tracking, commit)
}

func TestUnknownFormatsAreRefused(t *testing.T) {
	repo := gittest.NewRepo(t)
	dir := filepath.Join(t.TempDir(), "sha256")
	repo.Git("init", "-q", "--bare", "--object-format=sha256", dir)
	web := gittest.ServeHTTP(t, dir, gittest.HTTPOptions{})
	for _, url := range []string{dir, web.URL} {
		if _, err := open(t, remote.Options{URL: url}).Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "sha256") {
			t.Errorf("%s: %v, want a word about sha256", url, err)
		}
	}
}

// rawPack puts objects, as a pack has them, into a pack.
func rawPack(objects ...[]byte) []byte {
	raw := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	raw = append(raw, bytes.Join(objects, nil)...)
	sum := sha1.Sum(raw)
	return append(raw, sum[:]...)
}

func deflate(text string) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

func TestOversizedPacksAreRefused(t *testing.T) {
	repo, scratch := gittest.NewRepo(t), gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"a": strings.Repeat("0123456789", 1000)}, "first")
	for _, tr := range transports[:3] {
		o := tr.serve(t, repo.Dir)
		o.MaxBytes = 100
		if err := open(t, o).Fetch(t.Context(), t.TempDir(), one); !errors.Is(err, remote.ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", tr.name, err)
		}
	}
	// A local push meets the same reader.
	commit, good := commitPack(t, scratch, "s", map[string]string{"a": "b"})
	bomb := append([]byte{0xb0, 0x80, 0x80, 0x80, 0x80, 0x7f}, 0x78, 0x9c) // a blob of petabytes
	copies := append([]byte{0x74}, bytes.Repeat([]byte{1}, 20)...)         // a delta...
	copies = append(copies, deflate("\x01\xff\xff\xff\xff\x7f\x80")...)    // ...that makes 34 GB
	truncated, flipped := good[:len(good)-30], append(bytes.Clone(good[:40]), good[41:]...)
	r := open(t, remote.Options{URL: repo.Dir})
	for name, pack := range map[string][]byte{
		"bomb": rawPack(bomb), "delta": rawPack(copies), "truncated": truncated, "flipped": flipped,
		"empty": {}, "trailing": append(bytes.Clone(good), "x"...), "not all": rawPack(), "count": []byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"),
	} {
		if err := r.Push(t.Context(), stateRef, plumbing.ZeroHash, commit, bytes.NewReader(pack)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := remote.ReadRef(repo.Dir, stateRef); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("ReadRef: %v, want ErrNotFound", err)
	}
}

func TestFetchedRepositorySatisfiesFsck(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t)
	for i := range 20 {
		repo.Commit("main", map[string]string{
			"long":                        strings.Repeat(fmt.Sprintf("line %d\n", i), 500),
			fmt.Sprintf("dir%d/f", i%3):   fmt.Sprint(i),
			fmt.Sprintf("dir%d/d/e", i%5): fmt.Sprint(i),
		}, fmt.Sprint(i))
	}
	repo.Git("repack", "-adfq", "--depth=10") // with deltas
	for _, tr := range transports[1:3] {
		clone := t.TempDir()
		must(t, open(t, tr.serve(t, repo.Dir)).Fetch(t.Context(), clone, one))
		bare := gittest.At(t, clone)
		bare.Git("fsck", "--strict", "--full")
		if diff := cmp.Diff(repo.Files("main"), bare.Files(tracking)); diff != "" {
			t.Errorf("%s: %s", tr.name, diff)
		}
	}
}

// Packs come before their indexes: somebody who pushes at this moment is not in the way.
func TestPackThatIsBeingStoredIsNotThereYet(t *testing.T) {
	repo := gittest.NewRepo(t)
	want := repo.Commit("main", map[string]string{"a": "b"}, "first")
	repo.Git("repack", "-adq")
	must(t, os.WriteFile(filepath.Join(repo.Dir, "objects/pack/pack-"+strings.Repeat("1", 40)+".pack"), rawPack(), 0o644))
	clone := t.TempDir()
	must(t, open(t, remote.Options{URL: repo.Dir}).Fetch(t.Context(), clone, one))
	wantRef(t, clone, tracking, want)
}

func BenchmarkFetch1200Files(b *testing.B) {
	repo := gittest.NewRepo(b)
	files := map[string]string{}
	for i := range 1200 {
		files[fmt.Sprintf("apps/%d/deployment.yaml", i)] = strings.Repeat(fmt.Sprintf("key%d: value\n", i), 100)
	}
	repo.Commit("main", files, "first")
	repo.Git("repack", "-adq")
	s := gittest.ServeHTTP(b, repo.Dir, gittest.HTTPOptions{})
	for name, url := range map[string]string{"path": repo.Dir, "http": s.URL} {
		r, err := remote.New(remote.Options{URL: url})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := r.Fetch(b.Context(), b.TempDir(), one); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+" unchanged", func(b *testing.B) {
			clone := b.TempDir()
			for b.Loop() {
				if err := r.Fetch(b.Context(), clone, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Who is done with a remote leaves no connection open to it, and may still come back.
func TestAClosedRemoteKeepsNoConnection(t *testing.T) {
	repo := gittest.NewRepo(t)
	repo.Commit("main", map[string]string{"f": "1"}, "1")
	server := gittest.ServeHTTP(t, repo.Dir, gittest.HTTPOptions{})
	r, err := remote.New(remote.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Refs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if server.Connections() != 1 {
			t.Errorf("%d connections are kept to be used again, want 1", server.Connections())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		server.Deserted(t)
	}
}
