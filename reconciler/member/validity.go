package member

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// validity is when credentials count; a zero time is one that they do not tell.
type validity struct{ from, until time.Time }

// validityOf is that of a token that is a JWT, or of a client certificate. Nothing is told of what is read anew whenever it
// is used: files, and what programs give.
func validityOf(config *rest.Config) validity {
	if config.BearerToken != "" && config.BearerTokenFile == "" {
		return ofToken(config.BearerToken)
	}
	return ofCertificate(config.CertData)
}

// ofToken reads the claims of a token. Whether they are true its issuer knows alone.
func ofToken(token string) validity {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return validity{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return validity{}
	}
	var claims struct {
		From  float64 `json:"iat"`
		Until float64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return validity{}
	}
	return validity{secondsSince1970(claims.From), secondsSince1970(claims.Until)}
}

// secondsSince1970 is a time as JWTs have it; zero if it is none that a credential could have.
func secondsSince1970(s float64) time.Time {
	if !(s > 0 && s < math.MaxInt32*4) {
		return time.Time{}
	}
	return time.Unix(int64(s), 0)
}

// ofCertificate reads the first one of a chain.
func ofCertificate(chain []byte) validity {
	block, _ := pem.Decode(chain)
	if block == nil {
		return validity{}
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return validity{}
	}
	return validity{c.NotBefore, c.NotAfter}
}

const (
	// earliest is how long before they end credentials are told of at most,
	earliest = 14 * 24 * time.Hour
	// lastShare is the part of their time before which they are not: whoever renews them in time has done so by then,
	lastShare = 0.15
	// unknown is how long it is where they do not say since when they count.
	unknown = 24 * time.Hour
)

// ending tells whether somebody should have renewed the credentials by now.
func (v validity) ending(now time.Time) bool {
	if v.until.IsZero() {
		return false
	}
	early := unknown
	if !v.from.IsZero() && v.from.Before(v.until) {
		early = min(earliest, time.Duration(lastShare*float64(v.until.Sub(v.from))))
	}
	return !now.Before(v.until.Add(-early))
}
