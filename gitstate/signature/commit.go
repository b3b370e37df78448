package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// maxSignature bounds an armored signature, in bytes; one by an RSA key of 16384 bits has a fifth of it.
	maxSignature = 64 << 10
	// maxCommit bounds a commit that is looked at, in bytes.
	maxCommit = 1 << 20
)

// ErrUnsigned says that a commit has no signature.
var ErrUnsigned = errors.New("it is not signed")

// Signed is a commit taken apart.
type Signed struct {
	// Payload is what the signature is over.
	Payload []byte
	// Armored is the signature as it stands in the commit; empty if there is none.
	Armored string
	// When is the committer's time.
	When time.Time
}

// Split takes a commit object apart. Headers that begin with "gpgsig" belong to no payload: gpgsig is the signature,
// others are of other hash functions.
func Split(commit []byte) (Signed, error) {
	var s Signed
	if len(commit) > maxCommit {
		return s, fmt.Errorf("the commit has %d bytes, at most %d are looked at", len(commit), maxCommit)
	}
	var payload, armored bytes.Buffer
	of := "" // the header that a line goes on with
	for rest := commit; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			return s, errors.New("the commit has no message")
		}
		if len(line) == 0 {
			payload.Write(rest)
			break
		}
		rest = after
		value := line
		if line[0] == ' ' {
			value = line[1:]
		} else {
			key, text, _ := strings.Cut(string(line), " ")
			of, value = key, []byte(text)
			switch {
			case of == "gpgsig" && armored.Len() > 0:
				return s, errors.New("the commit has several signatures")
			case of == "committer":
				s.When = stampTime(text)
			}
		}
		switch {
		case of == "gpgsig":
			armored.Write(value)
			armored.WriteByte('\n')
		case !strings.HasPrefix(of, "gpgsig"):
			payload.Write(line)
			payload.WriteByte('\n')
		}
	}
	if armored.Len() > maxSignature {
		return s, fmt.Errorf("the signature has %d bytes, at most %d are looked at", armored.Len(), maxSignature)
	}
	s.Payload, s.Armored = payload.Bytes(), armored.String()
	return s, nil
}

// stampTime is the time in "Name <email> seconds zone"; what is none is the epoch, as for git log.
func stampTime(stamp string) time.Time {
	_, rest, _ := strings.Cut(stamp[strings.LastIndexByte(stamp, '<')+1:], ">")
	seconds, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(seconds, 10, 64)
	return time.Unix(n, 0).UTC()
}
