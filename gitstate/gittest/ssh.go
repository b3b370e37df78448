package gittest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// SSHServer is OpenSSH's sshd on loopback, with an Ed25519 and an RSA host key. It lets the user who
// runs the test in with one key and runs git for them.
type SSHServer struct {
	URL        string // of the repository, with the user
	Host, Port string
	// KeyFile is the client's private key, accepted; OtherKeyFile is one that is not.
	KeyFile, OtherKeyFile string
	// KnownHosts holds both host keys, plain; Hashed the same with the host hashed.
	KnownHosts, Hashed string
	// HostKeys are the public key lines, "ssh-ed25519 AAAA..." first, then "ssh-rsa AAAA...".
	HostKeys []string

	home string
	switches
}

// SignHostKey makes the server show a certificate of its Ed25519 host key, signed by a new
// authority whose public key line is returned.
func (s *SSHServer) SignHostKey(t testing.TB) string {
	t.Helper()
	authority, host := filepath.Join(s.home, "authority"), filepath.Join(s.home, "host_ed25519")
	run(t, "ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", authority)
	run(t, "ssh-keygen", "-q", "-s", authority, "-I", "host", "-h", "-n", s.Host, host+".pub")
	config, err := os.OpenFile(s.config(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	if _, err := fmt.Fprintf(config, "HostCertificate %s-cert.pub\n", host); err != nil {
		t.Fatal(err)
	}
	return publicKey(t, authority)
}

// Agent starts an SSH agent that holds the client's key and returns its socket.
func (s *SSHServer) Agent(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "s")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	output, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatalf("ssh-agent: %v", err)
	}
	t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
		os.RemoveAll(folder)
	})
	// It says where it listens once it does.
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatalf("ssh-agent: %v", err)
	}
	add := exec.Command("ssh-add", "-q", s.KeyFile)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v\n%s", err, out)
	}
	return socket
}

func (s *SSHServer) config() string { return filepath.Join(s.home, "sshd_config") }

// publicKey is the kind and the key of a public key file, without its comment.
func publicKey(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text))[:2], " ")
}

// Write makes a file of known hosts lines and returns its path.
func (s *SSHServer) Write(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Address is the server's host and port as known_hosts writes them.
func (s *SSHServer) Address() string { return fmt.Sprintf("[%s]:%s", s.Host, s.Port) }

const sshd = "/usr/sbin/sshd"

// ServeSSH serves the repository at dir until the test ends.
func ServeSSH(t testing.TB, dir string) *SSHServer {
	t.Helper()
	if _, err := os.Stat(sshd); err != nil {
		t.Fatalf("%v; these tests need OpenSSH's server (Debian: openssh-server)", err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		// sshd run by root wants the folder its service unit would have made.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := t.TempDir()
	s := &SSHServer{
		Host: "127.0.0.1", home: home, KeyFile: filepath.Join(home, "client"), OtherKeyFile: filepath.Join(home, "other"),
		switches: switches{counts: map[string]int{}},
	}
	for name, kind := range map[string][]string{"client": {"ed25519"}, "other": {"ed25519"}, "host_ed25519": {"ed25519"}, "host_rsa": {"rsa", "-b", "2048"}} {
		run(t, "ssh-keygen", append([]string{"-q", "-N", "", "-f", filepath.Join(home, name), "-t"}, kind...)...)
	}
	lines := []string{
		"HostKey " + filepath.Join(home, "host_ed25519"), "HostKey " + filepath.Join(home, "host_rsa"),
		"AuthorizedKeysFile " + s.KeyFile + ".pub",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"StrictModes no", "UsePAM no", "LogLevel ERROR", "PermitUserEnvironment no",
	}
	if err := os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, s.Port, _ = net.SplitHostPort(listener.Addr().String())
	s.URL = fmt.Sprintf("ssh://%s@%s%s", me.Username, listener.Addr(), dir)
	var known []string
	for _, name := range []string{"host_ed25519", "host_rsa"} {
		key := publicKey(t, filepath.Join(home, name))
		s.HostKeys = append(s.HostKeys, key)
		known = append(known, s.Address()+" "+key)
	}
	s.KnownHosts, s.Hashed = s.Write(t, known...), s.Write(t, known...)
	run(t, "ssh-keygen", "-q", "-H", "-f", s.Hashed)

	// One sshd for each connection, as inetd would start it: no port is lost and none is guessed.
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.connection(t, conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		s.Hang(false)
		listener.Close()
		running.Wait()
	})
	return s
}

func (s *SSHServer) connection(t testing.TB, conn *net.TCPConn) {
	defer conn.Close()
	s.mu.Lock()
	down, hang := s.down, s.hang
	s.counts["connection"]++
	s.mu.Unlock()
	if down {
		reset(conn)
		return
	}
	if hang != nil {
		<-hang
		return
	}
	socket, err := conn.File()
	if err != nil {
		t.Errorf("sshd: %v", err)
		return
	}
	defer socket.Close()
	conn.Close() // sshd's copy stays
	command := exec.Command(sshd, "-i", "-e", "-f", s.config())
	command.Env = append(os.Environ(), gitEnv...)
	command.Stdin, command.Stdout, command.Stderr = socket, socket, io.Discard
	command.WaitDelay = 5 * time.Second
	command.Run() // fails when the client is refused, which the client sees
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
