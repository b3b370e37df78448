package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Provider is who sends.
type Provider string

const (
	GitHub   Provider = "github"
	Gitea    Provider = "gitea"
	GitLab   Provider = "gitlab"
	Standard Provider = "standard"
)

// Providers are all of them.
var Providers = []Provider{GitHub, Gitea, GitLab, Standard}

// The headers.
const (
	headerGitHub    = "X-Hub-Signature-256"
	headerGitea     = "X-Gitea-Signature"
	headerGitLab    = "X-Gitlab-Token"
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// Why a delivery is refused.
var (
	// ErrMalformed: a header is missing or not what it should be.
	ErrMalformed = errors.New("malformed")
	// ErrForged: the signature is not one of who knows a secret.
	ErrForged = errors.New("the signature is not right")
	// ErrStale: the time that is signed is too far from ours.
	ErrStale = errors.New("the time is too far from ours")
)

const (
	// Window is how far the time of a delivery may be from ours, before and after.
	Window = 5 * time.Minute
	// maxSignatures is how many signatures one delivery may have: a sender that changes its secret sends two.
	maxSignatures = 8
	maxID         = 256
)

// Fingerprint tells deliveries apart; the zero value tells nothing.
type Fingerprint [sha256.Size]byte

// claim is what the headers of a delivery say.
type claim struct {
	token  string   // in place of a signature
	prefix string   // is signed before the body
	sums   [][]byte // one of which has to be right
	id     string
	at     time.Time
}

// claimOf reads the headers. The error is ErrMalformed.
func claimOf(p Provider, h http.Header) (claim, error) {
	malformed := func(format string, args ...any) (claim, error) {
		return claim{}, fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	one := func(name string) (string, bool) {
		values := h.Values(name)
		if len(values) != 1 || values[0] == "" {
			return "", false
		}
		return values[0], true
	}
	switch p {
	case GitHub, Gitea:
		name, prefix := headerGitHub, "sha256="
		if p == Gitea {
			name, prefix = headerGitea, ""
		}
		text, _ := one(name)
		text, ok := strings.CutPrefix(text, prefix)
		sum, err := hex.DecodeString(text)
		if !ok || err != nil || len(sum) != sha256.Size {
			return malformed("there is to be one %s with %s64 hexadecimal digits", name, prefix)
		}
		return claim{sums: [][]byte{sum}}, nil
	case GitLab:
		token, ok := one(headerGitLab)
		if !ok {
			return malformed("there is to be one %s", headerGitLab)
		}
		return claim{token: token}, nil
	case Standard:
		id, ok := one(headerID)
		if !ok || len(id) > maxID || strings.Contains(id, ".") {
			return malformed("there is to be one webhook-id of at most %d characters, without a dot", maxID)
		}
		text, _ := one(headerTimestamp)
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != text {
			return malformed("there is to be one webhook-timestamp, in seconds")
		}
		c := claim{id: id, at: time.Unix(seconds, 0), prefix: id + "." + text + "."}
		signatures, _ := one(headerSignature)
		words := strings.Fields(signatures)
		if len(words) > maxSignatures {
			return malformed("there are more than %d signatures", maxSignatures)
		}
		for _, word := range words {
			text, ok := strings.CutPrefix(word, "v1,")
			if !ok {
				continue // of a version that we do not know
			}
			sum, err := base64.StdEncoding.DecodeString(text)
			if err != nil || len(sum) != sha256.Size {
				return malformed("a signature in webhook-signature is not v1, and 32 bytes in base64")
			}
			c.sums = append(c.sums, sum)
		}
		if len(c.sums) == 0 {
			return malformed("there is no signature of version v1 in webhook-signature")
		}
		return c, nil
	}
	return malformed("%q is no provider", string(p))
}

// Verify checks a delivery of a provider against secrets, any of which may have signed it. The body is read to its
// end, in constant memory. The error is ErrMalformed, ErrForged, ErrStale or that of reading. The fingerprint of a
// delivery that is right is that of no other one; GitLab's have none.
func Verify(p Provider, h http.Header, body io.Reader, secrets [][]byte, now time.Time) (Fingerprint, error) {
	c, err := claimOf(p, h)
	if err != nil {
		return Fingerprint{}, err
	}
	if p == GitLab {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return Fingerprint{}, err
		}
		right := 0
		for _, secret := range secrets {
			right |= same([]byte(c.token), secret)
		}
		if right == 0 {
			return Fingerprint{}, ErrForged
		}
		return Fingerprint{}, nil
	}
	macs := make([]hash.Hash, len(secrets))
	writers := make([]io.Writer, len(secrets))
	for i, secret := range secrets {
		macs[i] = hmac.New(sha256.New, key(p, secret))
		io.WriteString(macs[i], c.prefix)
		writers[i] = macs[i]
	}
	if _, err := io.Copy(io.MultiWriter(writers...), body); err != nil {
		return Fingerprint{}, err
	}
	right := 0
	var print Fingerprint
	for _, mac := range macs {
		sum := mac.Sum(nil)
		for _, claimed := range c.sums {
			if hmac.Equal(sum, claimed) {
				right, print = 1, Fingerprint(sum)
			}
		}
	}
	switch {
	case right == 0:
		return Fingerprint{}, ErrForged
	case p == Standard && (now.Sub(c.at) > Window || c.at.Sub(now) > Window):
		return Fingerprint{}, fmt.Errorf("%w: it says %s", ErrStale, c.at.UTC().Format(time.RFC3339))
	case p == Standard:
		print = sha256.Sum256([]byte(c.id)) // the same one signed anew is the same one
	}
	return print, nil
}

// same compares in a time that tells nothing, not even of lengths.
func same(a, b []byte) int {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// standardPrefix is that of secrets that are base64, as senders show them.
const standardPrefix = "whsec_"

// key is what a secret signs with.
func key(p Provider, secret []byte) []byte {
	if text, ok := strings.CutPrefix(string(secret), standardPrefix); p == Standard && ok {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			return decoded
		}
	}
	return secret
}

// Sign sets the headers of Standard Webhooks on a message that we send.
func Sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key(Standard, secret))
	io.WriteString(mac, id+"."+timestamp+".")
	mac.Write(body)
	h.Set(headerID, id)
	h.Set(headerTimestamp, timestamp)
	h.Set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
