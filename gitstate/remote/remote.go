package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Options say where a remote is and how to reach it.
type Options struct {
	// URL is https://, http://, ssh://, [user@]host:path, file:// or a local path, bare or not.
	URL  string
	Auth Auth
	// MaxBytes bounds what one fetch may receive; 0 means 2 GiB.
	MaxBytes int64
	// MaxObject bounds the bytes of each object in it, and MaxObjects how many there are; 0 means 512 MiB and any
	// number. They are for what strangers may push.
	MaxObject  int64
	MaxObjects uint32
	// Timeout ends an operation in which nothing was sent or received for so long; 0 means one
	// minute. It does not bound the whole operation: the context does.
	Timeout time.Duration
	// InsecureHTTP allows http:// to other hosts than this one. Passwords then travel readable.
	InsecureHTTP bool
}

// String prints the options without their secrets.
func (o Options) String() string {
	where, err := parseAddress(o.URL)
	if err != nil {
		return "an invalid URL"
	}
	return fmt.Sprintf("%s (%s)", where.printed, o.Auth)
}

// GoString is String, so that %#v prints no secret either.
func (o Options) GoString() string { return o.String() }

// Auth holds credentials. Over https a bearer token wins over user and password; over ssh a key
// file, the agent and the password are tried in this order. All empty means anonymous, or the
// user and password in the URL.
type Auth struct {
	Username, Password string
	BearerToken        string
	// CAFile is PEM certificates trusted for https besides the system's.
	CAFile string
	// SSHKeyFile is a private key in OpenSSH or PEM form, SSHKeyPassphrase what unlocks it.
	SSHKeyFile, SSHKeyPassphrase string
	// KnownHostsFile lists the accepted host keys; empty means ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts.
	KnownHostsFile string
	// UseAgent asks the SSH agent at $SSH_AUTH_SOCK for keys.
	UseAgent bool
}

// String says which kinds of credentials are set and prints none of them.
func (a Auth) String() string {
	var set []string
	for _, part := range []struct {
		name string
		set  bool
	}{
		{"bearer token", a.BearerToken != ""},
		{"user", a.Username != ""},
		{"password", a.Password != ""},
		{"CA file", a.CAFile != ""},
		{"SSH key", a.SSHKeyFile != ""},
		{"SSH agent", a.UseAgent},
	} {
		if part.set {
			set = append(set, part.name)
		}
	}
	if len(set) == 0 {
		return "anonymous"
	}
	return strings.Join(set, ", ")
}

// GoString is String, so that %#v prints no secret either.
func (a Auth) GoString() string { return a.String() }

// LogValue is what slog prints.
func (a Auth) LogValue() slog.Value { return slog.StringValue(a.String()) }

// secrets are the texts that must not be seen, as they are and as a server may echo them.
func (a Auth) secrets() []string {
	all := []string{a.Password, a.BearerToken, a.SSHKeyPassphrase}
	for _, secret := range all {
		all = append(all, url.PathEscape(secret), url.QueryEscape(secret))
	}
	if a.Password != "" {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password)))
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// Remote is one repository that is reached by its URL. Its methods may be called concurrently.
type Remote struct {
	address address
	auth    Auth
	most    limits
	idle    time.Duration
	backend backend
}

// backend opens sessions with one repository.
type backend interface {
	open(p pulse, service string) (session, error)
}

// session is one conversation with git-upload-pack or git-receive-pack.
type session interface {
	advertised() *Advertisement
	// fetch asks for wants and all they need that the clone does not have. The answer is a pack.
	fetch(wants []plumbing.Hash, into *clone) (io.Reader, error)
	// push asks to move ref from old to new. A nil pack means that the remote has all objects.
	push(ref string, old, new plumbing.Hash, pack io.Reader) error
	Close()
}

const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// New checks the options; it does not connect.
func New(o Options) (*Remote, error) {
	where, err := parseAddress(o.URL)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if where.scheme == "http" && !o.InsecureHTTP && !where.loopback() {
		return nil, fmt.Errorf("remote %s: plain http sends everything readable; use https or allow it explicitly", where.printed)
	}
	if o.Auth.Username == "" {
		o.Auth.Username = where.user
	}
	if o.Auth.Password == "" {
		o.Auth.Password = where.password
	}
	r := &Remote{address: where, auth: o.Auth, most: limits{o.MaxBytes, o.MaxObject, o.MaxObjects}, idle: o.Timeout}
	if r.most.bytes == 0 {
		r.most.bytes = 2 << 30
	}
	if r.most.object == 0 {
		r.most.object = maxObject
	}
	if r.idle == 0 {
		r.idle = time.Minute
	}
	switch where.scheme {
	case "https", "http":
		r.backend, err = newHTTP(where, r.auth)
	case "ssh":
		r.backend = &sshBackend{where, r.auth}
	default:
		r.backend = localBackend{where.path}
	}
	if err != nil {
		return nil, r.fail("set up", err)
	}
	return r, nil
}

// Close closes the connections that nothing uses. A remote may be used again after it, with new ones.
func (r *Remote) Close() error {
	if h, ok := r.backend.(*httpBackend); ok {
		h.client.CloseIdleConnections()
	}
	return nil
}

// String is the URL without user and password.
func (r *Remote) String() string { return r.address.printed }

// GoString is String, so that %#v prints no secret either.
func (r *Remote) GoString() string { return r.String() }

// LogValue is what slog prints.
func (r *Remote) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Advertisement is what a remote says it has.
type Advertisement struct {
	// Refs maps names such as refs/heads/main to hashes. HEAD is among them if it points to a commit.
	Refs map[string]plumbing.Hash
	// DefaultBranch is the branch HEAD points to, such as main; empty if the remote does not say.
	DefaultBranch string
}

// Advertise asks the remote what it has: one round trip, nothing is transferred. The error is
// ErrEmpty for a repository without commits and ErrNotFound for none.
func (r *Remote) Advertise(ctx context.Context) (*Advertisement, error) {
	var found *Advertisement
	err := r.converse(ctx, "list", uploadPack, func(s session) error {
		if found = s.advertised(); len(found.Refs) == 0 {
			return ErrEmpty
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Refs returns the remote's refs and, under "HEAD", what its HEAD points to.
func (r *Remote) Refs(ctx context.Context) (map[string]plumbing.Hash, error) {
	found, err := r.Advertise(ctx)
	if err != nil {
		return nil, err
	}
	return found.Refs, nil
}

// DefaultBranch returns the branch that the remote's HEAD points to, such as main. The error is
// ErrNotFound if the remote does not say.
func (r *Remote) DefaultBranch(ctx context.Context) (string, error) {
	found, err := r.Advertise(ctx)
	if err != nil {
		return "", err
	}
	if found.DefaultBranch == "" {
		return "", r.fail("list", fmt.Errorf("default branch: %w; name the branch to use", ErrNotFound))
	}
	return found.DefaultBranch, nil
}

// Fetch brings the named remote refs with all their history into the bare repository at repoDir,
// which is made if it is missing, and points the local refs at them, wherever those were. If one
// remote ref is missing, nothing is fetched and the error is ErrNotFound. If the repository at
// repoDir cannot be read, it is ErrDamaged: make another.
func (r *Remote) Fetch(ctx context.Context, repoDir string, refs map[string]string) error {
	if err := Init(repoDir); err != nil {
		return r.fail("fetch", err)
	}
	targets := map[string]plumbing.Hash{}
	err := r.converse(ctx, "fetch", uploadPack, func(s session) error {
		found := s.advertised()
		if len(found.Refs) == 0 {
			return ErrEmpty
		}
		for from, to := range refs {
			hash, ok := found.Refs[from]
			if !ok {
				return fmt.Errorf("%s: %w", from, ErrNotFound)
			}
			targets[to] = hash
		}
		return r.receive(s, repoDir, targets)
	})
	if err != nil {
		return err
	}
	for _, ref := range sortedKeys(targets) {
		if err := forceRef(repoDir, ref, targets[ref]); err != nil {
			return r.fail("fetch", err)
		}
	}
	return nil
}

// receive stores the objects that the targets need and the clone lacks.
func (r *Remote) receive(s session, repoDir string, targets map[string]plumbing.Hash) error {
	into := openClone(repoDir)
	defer into.close()
	if err := into.check(); err != nil {
		return err
	}
	var wants []plumbing.Hash
	for _, ref := range sortedKeys(targets) {
		if hash := targets[ref]; !into.has(hash) && !slices.Contains(wants, hash) {
			wants = append(wants, hash)
		}
	}
	if len(wants) == 0 {
		return nil
	}
	pack, err := s.fetch(wants, into)
	if err != nil {
		return err
	}
	if err := storeWithin(repoDir, pack, r.most); err != nil {
		return err
	}
	now := openClone(repoDir)
	defer now.close()
	for _, want := range wants {
		if !now.has(want) {
			return fmt.Errorf("the remote advertised %s and did not send it", want)
		}
	}
	return nil
}

// Push moves the remote's ref from old to new; a zero old creates it, a zero new deletes it. Whether new has to
// descend from old is the caller's to see to: what the caller saw is replaced, and nothing else. The
// pack holds every object that the remote does not have, complete in itself (no thin pack); nil
// means that it has them all.
//
// After any error the caller reads the ref again: a push can succeed and its answer get lost. The
// error is ErrRefused if the server said no, and also ErrRefMoved if the ref was seen elsewhere.
func (r *Remote) Push(ctx context.Context, ref string, old, new plumbing.Hash, pack io.Reader) error {
	if err := checkRefName(ref); err != nil {
		return r.fail("push to", err)
	}
	return r.converse(ctx, "push to", receivePack, func(s session) error {
		if found := s.advertised().Refs[ref]; found != old {
			return fmt.Errorf("%w: %w: %s is at %s and not at %s", ErrRefused, ErrRefMoved, ref, found, old)
		}
		return s.push(ref, old, new, pack)
	})
}

// converse runs talk in one session that ends with ctx, and when nothing moves for the idle time.
func (r *Remote) converse(ctx context.Context, doing, service string, talk func(session) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(r.idle, func() { cancel(fmt.Errorf("%w for %s", ErrTimeout, r.idle)) })
	defer silence.Stop()

	s, err := r.backend.open(pulse{ctx, silence, r.idle}, service)
	if err == nil {
		err = talk(s)
		s.Close()
	}
	// What a cut connection reports depends on where it was cut; why it was cut is the reason.
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%v)", cause, err)
	}
	return r.fail(doing, err)
}

// pulse is the context of one operation, which is over when its silence has lasted too long.
type pulse struct {
	context.Context
	silence *time.Timer
	idle    time.Duration
}

// beat breaks the silence.
func (p pulse) beat() { p.silence.Reset(p.idle) }

// reader returns r such that what it reads breaks the silence, and that it ends with the operation.
func (p pulse) reader(r io.Reader) io.Reader { return pulsing{p, r} }

type pulsing struct {
	pulse
	r io.Reader
}

func (p pulsing) Read(b []byte) (int, error) {
	if p.Err() != nil {
		return 0, context.Cause(p)
	}
	n, err := p.r.Read(b)
	if n > 0 {
		p.beat()
	}
	return n, err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// exists tells whether a file or folder is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
