package remote

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound says that the repository or the ref is not there.
	ErrNotFound = errors.New("not found")
	// ErrEmpty says that the remote is there and has no commit yet.
	ErrEmpty = errors.New("the repository is empty")
	// ErrRefused says that the server answered a push and did not take it.
	ErrRefused = errors.New("the push was refused")
	// ErrRefMoved says that a ref is not where the caller last saw it.
	ErrRefMoved = errors.New("the ref moved")
	// ErrUnauthorized says that the credentials are missing, wrong or not enough.
	ErrUnauthorized = errors.New("not authorized")
	// ErrHostKey says that an SSH server's key is unknown or not the known one.
	ErrHostKey = errors.New("host key not accepted")
	// ErrTooLarge says that the remote sends more than Options.MaxBytes or an object over 512 MiB.
	ErrTooLarge = errors.New("too large")
	// ErrDamaged says that a file of a local repository cannot be what it should be.
	ErrDamaged = errors.New("damaged repository")
	// ErrTimeout says that nothing arrived for Options.Timeout.
	ErrTimeout = errors.New("no answer")
)

// failure is an error as it leaves this package: no secret is in its text.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// fail wraps err with what was done to this remote and blanks out its secrets.
func (r *Remote) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("%s %s: %v", doing, r, err)
	for _, secret := range r.auth.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return &failure{text, err}
}

// printable keeps what a server wrote for people: one line, no control characters, not too long.
func printable(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "..."
	}
	return s
}
