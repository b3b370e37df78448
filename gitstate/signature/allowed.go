package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// allowed is one line of an allowed_signers file.
type allowed struct {
	// principals are patterns of who the key belongs to.
	principals []string
	// authority: the key signs certificates, and no commits.
	authority bool
	// namespaces are patterns; nil means any.
	namespaces []string
	// after and before bound the time of a signature; zero means that nothing does.
	after, before time.Time
	key           ssh.PublicKey
}

// parseAllowed reads an allowed_signers file. The error has all that is wrong with it, by file and line: a list of
// which some lines do not count is none to rely on.
func parseAllowed(name string, text []byte) (list []allowed, err error) {
	var errs []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSpace(string(line))
		if line == "" || line[0] == '#' {
			continue
		}
		a, err := parseAllowedLine(line)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, number, err))
			continue
		}
		list = append(list, a)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return list, nil
}

func parseAllowedLine(line string) (a allowed, err error) {
	principals, rest, err := field(line)
	if err != nil {
		return a, err
	}
	for _, p := range strings.Split(strings.ReplaceAll(principals, `"`, ""), ",") {
		if p = strings.TrimSpace(p); p == "" {
			return a, errors.New("a principal is empty")
		}
		a.principals = append(a.principals, p)
	}
	first, after, err := field(rest)
	if err != nil {
		return a, err
	}
	if !isKeyType(first) {
		if err := a.options(first); err != nil {
			return a, err
		}
		rest = after
	}
	a.key, err = parsePublicKey(rest)
	return a, err
}

// parsePublicKey reads "type base64 comment".
func parsePublicKey(line string) (ssh.PublicKey, error) {
	kind, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !isKeyType(kind) {
		return nil, fmt.Errorf("%.40q is neither an option nor a type of key such as ssh-ed25519", kind)
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || len(rest) > 0 || key.Type() != kind {
		return nil, errors.New("the public key is malformed")
	}
	return key, nil
}

var keyTypes = []string{"ssh-", "ecdsa-", "sk-"}

func isKeyType(word string) bool {
	for _, prefix := range keyTypes {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// field cuts off what stands before the first blank that is not in quotes.
func field(line string) (first, rest string, err error) {
	line = strings.TrimLeft(line, " \t")
	quoted := false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimLeft(line[i:], " \t"), nil
		}
	}
	if quoted {
		return "", "", errors.New("a quote is not closed")
	}
	return "", "", errors.New("the line ends before the key; it is: principals [options] type key")
}

// options reads cert-authority, namespaces="", valid-after="" and valid-before="".
func (a *allowed) options(text string) error {
	for text != "" {
		name, rest := text, ""
		value, quoted := "", false
		if i := strings.IndexAny(text, "=,"); i >= 0 {
			name, rest = text[:i], text[i:]
		}
		if after, ok := strings.CutPrefix(rest, `="`); ok {
			if value, rest, quoted = strings.Cut(after, `"`); !quoted {
				return fmt.Errorf("option %s: the quote is not closed", name)
			}
		}
		var err error
		switch name = strings.ToLower(name); {
		case name == "cert-authority" && !quoted:
			a.authority = true
		case name == "namespaces" && quoted && value != "" && a.namespaces == nil:
			a.namespaces = strings.Split(value, ",")
		case name == "valid-after" && quoted && a.after.IsZero():
			a.after, err = parseTime(value)
		case name == "valid-before" && quoted && a.before.IsZero():
			a.before, err = parseTime(value)
		default:
			return fmt.Errorf(`option %.40q is not known, or not written like it should be: cert-authority, namespaces="git", valid-after="20260131", valid-before="20261231235959Z"`, name)
		}
		if err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
		if rest == "" {
			return nil
		}
		var more bool
		if text, more = strings.CutPrefix(rest, ","); !more || text == "" {
			return fmt.Errorf("after option %s a comma and another option is expected", name)
		}
	}
	return nil
}

// parseTime reads YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, each with an optional Z.
func parseTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) == len(digits) {
			if t, err := time.Parse(layout, digits); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%.20q is no time; write it like 20260131 or 20260131235959Z", text)
}

// matches tells whether a pattern of the list fits and none that begins with "!" does.
func matches(word string, patterns []string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(strings.TrimSpace(p), "!")
		if !glob(word, p) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// glob matches with * for any characters and ? for one. It goes back only to the last *, so that no pattern takes
// longer than the product of both lengths.
func glob(word, pattern string) bool {
	w, p, star, from := 0, 0, -1, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			w, p = w+1, p+1
		case star >= 0:
			from++
			w, p = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
