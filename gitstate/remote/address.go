package remote

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// address is a remote's URL taken apart.
type address struct {
	scheme         string // https, http, ssh or file
	user, password string
	host, port     string // port is empty for the scheme's own
	path           string
	printed        string // for people: without user and password
}

var errScheme = errors.New("the scheme of the URL is not supported; use https, ssh, file or a local path")

// scpLike matches git's short form of an SSH address, [user@]host:path.
var scpLike = regexp.MustCompile(`^(?:([^@/:]+)@)?(\[[0-9A-Fa-f:.]+\]|[^@/:\[\]]+):(.*)$`)

// parseAddress reads a Git URL or a local path. Its errors never quote the input, which may hold a password.
func parseAddress(raw string) (address, error) {
	switch {
	case raw == "":
		return address{}, errors.New("the URL is empty")
	case strings.ContainsAny(raw, "\x00\r\n"):
		return address{}, errors.New("the URL has a line break or a NUL in it")
	case strings.Contains(raw, "://"):
		return parseURL(raw)
	}
	if helper, _, found := strings.Cut(raw, "::"); found && !strings.ContainsAny(helper, "/@[:") {
		return address{}, errScheme
	}
	if m := scpLike.FindStringSubmatch(raw); m != nil {
		if strings.HasPrefix(m[3], ":") { // without its user it would be printed as what names a helper
			return address{}, errors.New("the path of the URL begins with a colon")
		}
		a := address{scheme: "ssh", user: m[1], host: strings.Trim(m[2], "[]"), path: m[3], printed: m[2] + ":" + m[3]}
		return a, a.check()
	}
	return localAddress(raw)
}

func localAddress(path string) (address, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return address{}, err
	}
	return address{scheme: "file", path: abs, printed: abs}, nil
}

func parseURL(raw string) (address, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return address{}, errors.New("the URL is malformed; special characters in its user, password and path need percent encoding")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return address{}, errors.New(`the URL has a "?" or "#" part; Git URLs have none`)
	}
	a := address{scheme: u.Scheme, host: u.Hostname(), port: u.Port(), path: u.Path, user: u.User.Username()}
	a.password, _ = u.User.Password()
	a.printed = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	switch a.scheme {
	case "https", "http":
		a.path = strings.TrimSuffix(a.path, "/")
	case "ssh":
		// As git reads it: ssh://host/~user/repo is below that user's home.
		if strings.HasPrefix(a.path, "/~") {
			a.path = a.path[1:]
		}
	case "file":
		if a.host != "" && a.host != "localhost" {
			return address{}, errors.New("a file URL names no host: file:///path")
		}
		return localAddress(a.path)
	default:
		return address{}, errScheme
	}
	return a, a.check()
}

// check refuses what could be read as an option by a program on the other side, and addresses without a host or path.
func (a address) check() error {
	switch {
	case a.host == "" || strings.HasPrefix(a.host, "-"):
		return errors.New("the URL has no valid host")
	case strings.Trim(a.path, "/") == "":
		return errors.New("the URL has no path to a repository")
	case a.scheme == "ssh" && strings.HasPrefix(a.path, "-"):
		return errors.New("the path of the URL begins with a dash")
	case a.scheme == "ssh" && strings.HasPrefix(a.user, "-"):
		return errors.New("the user of the URL begins with a dash")
	}
	return nil
}

// hostPort is what to dial.
func (a address) hostPort() string {
	port := a.port
	if port == "" {
		port = map[string]string{"https": "443", "http": "80", "ssh": "22"}[a.scheme]
	}
	return net.JoinHostPort(a.host, port)
}

func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "localhost" || err == nil && ip.IsLoopback()
}
