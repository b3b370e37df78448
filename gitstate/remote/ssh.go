package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshBackend makes one connection a session.
type sshBackend struct {
	where address
	auth  Auth
}

func (b *sshBackend) open(p pulse, service string) (session, error) {
	signers, err := b.signers()
	if err != nil {
		return nil, err
	}
	defer signers.close()
	defer context.AfterFunc(p, signers.close)() // an agent may ask a person, who may be away
	hosts, err := loadKnownHosts(b.auth.KnownHostsFile)
	if err != nil {
		return nil, err
	}
	at := b.where.hostPort()
	raw, err := dialer.DialContext(p, "tcp", at)
	if err != nil {
		return nil, err
	}
	// From here on the end of the context cuts the connection, and that ends every wait.
	conn := pulsingConn{raw, p}
	stop := context.AfterFunc(p, func() { raw.Close() })
	fail := func(err error) (session, error) {
		stop()
		raw.Close()
		return nil, err
	}
	user := b.auth.Username
	if user == "" {
		user = "git"
	}
	transport, channels, requests, err := ssh.NewClientConn(conn, at, &ssh.ClientConfig{
		User:              user,
		Auth:              signers.methods,
		HostKeyCallback:   hosts.check,
		HostKeyAlgorithms: hosts.algorithms(at),
		ClientVersion:     "SSH-2.0-godwit",
	})
	if err != nil {
		return fail(hosts.explain(at, err))
	}
	client := ssh.NewClient(transport, channels, requests)
	command, err := client.NewSession()
	if err != nil {
		return fail(err)
	}
	s := &sshStream{stop: func() { stop(); client.Close() }}
	command.Stderr = &s.stderr
	if s.stdin, err = command.StdinPipe(); err != nil {
		return fail(err)
	}
	if s.stdout, err = command.StdoutPipe(); err != nil {
		return fail(err)
	}
	if err := command.Start(service + " " + shellQuote(b.where.path)); err != nil {
		return fail(err)
	}
	s.exited = make(chan struct{})
	go func() {
		command.Wait()
		close(s.exited)
	}()
	found, err := greet(s)
	if err != nil {
		s.Close()
		return nil, err
	}
	return found, nil
}

// sshStream is the remote command of one session.
type sshStream struct {
	stdin  io.WriteCloser
	stdout io.Reader
	stderr tail
	exited chan struct{}
	asked  bool
	stop   func()
}

func (s *sshStream) greeting() io.Reader { return s.stdout }

func (s *sshStream) ask(head []byte, pack io.Reader) (io.Reader, error) {
	s.asked = true
	body := io.Reader(bytes.NewReader(head))
	if pack != nil {
		body = io.MultiReader(body, pack)
	}
	sent := &tracked{r: body}
	// A server that refuses stops reading; its reason is in the answer, so the answer is read anyway.
	if _, err := io.Copy(s.stdin, sent); err != nil && sent.err != nil {
		return nil, sent.err
	}
	s.stdin.Close()
	return s.stdout, nil
}

// explain adds what the command wrote to its standard error, which is complete once it exited.
func (s *sshStream) explain(err error) error {
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errNoAnswer) {
		return err
	}
	<-s.exited
	if text := s.stderr.String(); text != "" {
		return said(text)
	}
	return err
}

func (s *sshStream) Close() {
	if !s.asked {
		io.WriteString(s.stdin, "0000") // the polite end of a session that asks for nothing
	}
	s.stdin.Close()
	s.stop()
	<-s.exited
}

// tracked tells an error of the reader from one of the writer it is copied to.
type tracked struct {
	r   io.Reader
	err error
}

func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// tail keeps the first kilobytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) < 4<<10 {
		t.text = append(t.text, b...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return printable(string(t.text))
}

// pulsingConn breaks the silence of an operation with every byte read or written.
type pulsingConn struct {
	net.Conn
	pulse pulse
}

func (c pulsingConn) Read(b []byte) (int, error) { return c.pulse.reader(c.Conn).Read(b) }

func (c pulsingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.pulse.beat()
	}
	return n, err
}

// shellQuote makes one word of s for the shell and for git-shell on the other side.
func shellQuote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}

// signers are the ways to log in.
type signers struct {
	methods []ssh.AuthMethod
	close   func()
}

func (b *sshBackend) signers() (signers, error) {
	s := signers{close: func() {}}
	var keys []func() ([]ssh.Signer, error)
	if b.auth.SSHKeyFile != "" {
		key, err := readKey(b.auth.SSHKeyFile, b.auth.SSHKeyPassphrase)
		if err != nil {
			return s, err
		}
		keys = append(keys, func() ([]ssh.Signer, error) { return []ssh.Signer{key}, nil })
	}
	if b.auth.UseAgent {
		conn, err := net.Dial("unix", os.Getenv("SSH_AUTH_SOCK"))
		if err != nil {
			return s, fmt.Errorf("SSH agent at $SSH_AUTH_SOCK: %w", err)
		}
		s.close = func() { conn.Close() }
		keys = append(keys, agent.NewClient(conn).Signers)
	}
	if len(keys) > 0 {
		// One method: a client tries each kind of method once.
		s.methods = append(s.methods, ssh.PublicKeysCallback(func() (all []ssh.Signer, err error) {
			for _, list := range keys {
				signers, err := list()
				if err != nil {
					return nil, err
				}
				all = append(all, signers...)
			}
			return all, nil
		}))
	}
	if b.auth.Password != "" {
		s.methods = append(s.methods, ssh.Password(b.auth.Password))
	}
	if len(s.methods) == 0 {
		return s, fmt.Errorf("%w: ssh needs a key file, the agent or a password", ErrUnauthorized)
	}
	return s, nil
}

// readKey never quotes what it read.
func readKey(file, passphrase string) (ssh.Signer, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w", err)
	}
	var locked *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey(pem)
	if errors.As(err, &locked) && passphrase != "" {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(pem, []byte(passphrase))
	}
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("SSH key %s is locked and no passphrase is given", file)
	case err != nil:
		return nil, fmt.Errorf("SSH key %s cannot be read: wrong passphrase, or not a private key", file)
	}
	return signer, nil
}

// knownHosts is the accepted host keys.
type knownHosts struct {
	files   []string
	matches ssh.HostKeyCallback
}

func loadKnownHosts(file string) (*knownHosts, error) {
	files := []string{file}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("known hosts: %w", err)
		}
		files = slices.DeleteFunc([]string{filepath.Join(home, ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"},
			func(f string) bool { return !exists(f) })
	}
	matches, err := knownhosts.New(files...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHostKey, err)
	}
	return &knownHosts{files, matches}, nil
}

func (k *knownHosts) check(at string, from net.Addr, key ssh.PublicKey) error {
	err := k.matches(at, from, key)
	if err == nil {
		return nil
	}
	offered := fmt.Sprintf("%s %s", key.Type(), ssh.FingerprintSHA256(key))
	host := knownhosts.Normalize(at)
	var mismatch *knownhosts.KeyError
	if !errors.As(err, &mismatch) {
		return fmt.Errorf("%w: %s offers %s: %w", ErrHostKey, host, offered, err)
	}
	if len(mismatch.Want) == 0 {
		return fmt.Errorf("%w: the key of %s is unknown: it offers %s. Compare this fingerprint with the one the server's operator publishes, then add the key: %s",
			ErrHostKey, host, offered, k.adding(at))
	}
	want := mismatch.Want[0]
	return fmt.Errorf("%w: the key of %s changed: it offers %s, %s:%d has %s %s. Somebody may be between you and the server. If the key was replaced on purpose, remove that line and add the new key: %s",
		ErrHostKey, host, offered, want.Filename, want.Line, want.Key.Type(), ssh.FingerprintSHA256(want.Key), k.adding(at))
}

// adding is the command that writes a host's keys to the file.
func (k *knownHosts) adding(at string) string {
	host, port, _ := net.SplitHostPort(at)
	file := "~/.ssh/known_hosts"
	if len(k.files) > 0 {
		file = k.files[0]
	}
	return fmt.Sprintf("ssh-keyscan -p %s %s >> %s", port, host, file)
}

// algorithms are those of the keys known for the host, so that a server with several keys shows one
// that is known. Without it the server would show the one it likes best. Nil means any.
func (k *knownHosts) algorithms(at string) []string {
	var mismatch *knownhosts.KeyError
	if err := k.matches(at, nowhere{}, noKey{}); !errors.As(err, &mismatch) {
		return nil
	}
	var all []string
	for _, known := range mismatch.Want {
		for _, algorithm := range offered(known) {
			if !slices.Contains(all, algorithm) {
				all = append(all, algorithm)
			}
		}
	}
	return all
}

// offered are the algorithms that a line of a known hosts file accepts: those of its key, or any
// certificate that its authority signed.
func offered(known knownhosts.KnownKey) []string {
	if isAuthority(known) {
		return []string{
			ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
		}
	}
	if known.Key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{known.Key.Type()}
}

// isAuthority tells whether the line is marked @cert-authority, which the parsed form does not show.
func isAuthority(known knownhosts.KnownKey) bool {
	text, err := os.ReadFile(known.Filename)
	if err != nil {
		return false
	}
	lines := bytes.Split(text, []byte("\n"))
	return known.Line <= len(lines) && bytes.HasPrefix(bytes.TrimSpace(lines[known.Line-1]), []byte("@cert-authority"))
}

// explain names the errors of a failed connection. For a refused login package ssh has no error value.
func (k *knownHosts) explain(at string, err error) error {
	var none *ssh.AlgorithmNegotiationError
	switch {
	case errors.Is(err, ErrHostKey):
		return errors.Unwrap(err)
	case errors.As(err, &none) && strings.Contains(err.Error(), "host key"):
		return fmt.Errorf("%w: %s has no key of a kind that is known for it (%w). Add its keys: %s",
			ErrHostKey, knownhosts.Normalize(at), err, k.adding(at))
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	return err
}

// noKey is a host key that no server has, to ask which ones are known.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// nowhere is an address for a lookup by name.
type nowhere struct{}

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return "0.0.0.0:0" }
