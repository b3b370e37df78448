package credential

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api/address"
)

// Access is the way to an API server, credentials included.
type Access struct {
	Server     string
	ProxyURL   string
	ServerName string
	Insecure   bool
	// CA, Cert and Key are PEM; empty CA means the authorities of the system.
	CA, Cert, Key []byte
	// Token, Username with Password, Cert with Key, or Exec; none of them is possible, too.
	Token              string
	Username, Password string
	Exec               *Exec
	DisableCompression bool
	// ProxyHeader is sent to the proxy; nil means nothing.
	ProxyHeader map[string]string
}

// Exec is a program that gives credentials.
type Exec struct {
	Command            string
	Args               []string
	Env                []Env // sorted by name
	APIVersion         string
	InstallHint        string
	ProvideClusterInfo bool
	// Config is JSON that the program is told; empty means none.
	Config []byte
}

// Env is one variable of a program's environment.
type Env struct{ Name, Value string }

// Format keeps credentials out of everything that is printed.
func (Access) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[credentials]") }

// MarshalText does so where package fmt is not asked.
func (Access) MarshalText() ([]byte, error) { return []byte("[credentials]"), nil }

// Version changes when anything of the way does, and tells nothing of it.
func (a Access) Version() string {
	type plain Access // without methods
	text, err := json.Marshal(plain(a))
	if err != nil {
		panic(err) // strings and booleans
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Rules say what a Secret may make us do.
type Rules struct {
	// ExecCommands are the programs that may be run for credentials, as the Secret writes them.
	ExecCommands []string
	// AllowedHosts are the only ones that servers and proxies may be at, "host" or "host:port"; none means all. The
	// cluster's own server may be there in any case.
	AllowedHosts []string
}

// InCluster is how clients in a cluster reach its own API server.
const InCluster = "https://kubernetes.default.svc"

// problem is what is wrong with one key.
type problem struct{ key, message string }

func (p *problem) Error() string { return p.key + ": " + p.message }

func wrong(key, format string, args ...any) error {
	return &problem{key, fmt.Sprintf(format, args...)}
}

// check says all that is wrong; keys are what a person has to look for.
func (a *Access) check(rules Rules, keys keys) error {
	var errs []error
	bad := func(key, format string, args ...any) { errs = append(errs, wrong(key, format, args...)) }
	if err := checkServer(keys.server, a.Server); err != nil || a.Server != InCluster {
		errs = append(errs, cmp.Or(err, rules.checkHost(keys.server, a.Server)))
	}
	if a.ProxyURL != "" {
		errs = append(errs, cmp.Or(checkProxy(keys.proxy, a.ProxyURL), rules.checkHost(keys.proxy, a.ProxyURL)))
	}
	if a.Insecure && len(a.CA) > 0 {
		bad(keys.insecure, "is set together with %s; drop %s, so that the server is verified, or else drop the certificate", keys.ca, keys.insecure)
	}
	if len(a.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(a.CA) {
		bad(keys.ca, "has no certificate in PEM")
	}
	switch {
	case len(a.Cert) > 0 != (len(a.Key) > 0):
		bad(keys.cert, "and %s go together; one of them is missing", keys.key)
	case len(a.Cert) > 0:
		if _, err := tls.X509KeyPair(a.Cert, a.Key); err != nil {
			bad(keys.cert, "and %s are no pair of a certificate and its key in PEM", keys.key)
		}
	}
	switch {
	case a.Token != "" && (a.Username != "" || a.Password != ""):
		bad("bearerToken", "is set together with username and password; drop one of them")
	case a.Username == "" && a.Password != "":
		bad("password", "is set without username")
	case strings.ContainsAny(a.Token, "\r\n\x00"):
		bad(keys.token, "has a line break in it")
	}
	if a.Exec != nil {
		errs = append(errs, a.checkExec(rules))
	}
	return errors.Join(errs...)
}

var execVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

func (a *Access) checkExec(rules Rules) error {
	const key = "execProviderConfig"
	switch {
	case a.Token != "" || a.Username != "" || a.Password != "" || len(a.Cert) > 0:
		return wrong(key, "is set together with other credentials; drop one of them")
	case a.Exec.Command == "":
		return wrong(key+".command", "is required")
	case !slices.Contains(rules.ExecCommands, a.Exec.Command):
		return wrong(key+".command", "%q may not be run here; to let it, add it to clusters.execCommands", a.Exec.Command)
	case !slices.Contains(execVersions, a.Exec.APIVersion):
		return wrong(key+".apiVersion", "%q is not known; it is one of %s", a.Exec.APIVersion, strings.Join(execVersions, ", "))
	}
	return nil
}

// keys are what the parts of an Access are called where it is written.
type keys struct{ server, proxy, insecure, ca, cert, key, token string }

func checkServer(key, server string) error {
	u, err := url.Parse(server)
	switch {
	case server == "":
		return wrong(key, "is required; write https://host:port")
	case err != nil, u.Host == "", u.Hostname() == "":
		return wrong(key, "is no URL; write https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return wrong(key, "must have no user, query or fragment")
	case u.Scheme == "http" && !loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return wrong(key, "has the scheme %q; credentials are sent over https alone", u.Scheme)
	case OutOfBounds(u.Hostname()):
		return wrong(key, "is a link-local address, or another one that no API server has")
	}
	return nil
}

// checkHost takes a URL that is one.
func (r Rules) checkHost(key, at string) error {
	u, err := url.Parse(at)
	if err != nil || !address.Listed(u, r.AllowedHosts) {
		return wrong(key, "is at a host that is not among clusters.allowedHosts; to let it, add it there")
	}
	return nil
}

var proxySchemes = []string{"http", "https", "socks5"}

func checkProxy(key, proxy string) error {
	u, err := url.Parse(proxy)
	switch {
	case err != nil, u.Hostname() == "":
		return wrong(key, "is no URL; write https://host:port")
	case !slices.Contains(proxySchemes, u.Scheme):
		return wrong(key, "has the scheme %q; it is one of %s", u.Scheme, strings.Join(proxySchemes, ", "))
	case OutOfBounds(u.Hostname()):
		return wrong(key, "is a link-local address, or another one that no proxy has")
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// OutOfBounds tells whether host is an address that credentials are never sent to. A name is none; what it resolves to is
// looked at when a connection is made.
func OutOfBounds(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && address.OutOfBounds(ip)
}
