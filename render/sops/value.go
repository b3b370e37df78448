package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// begin is how each ciphertext begins.
const begin = "ENC[AES256_GCM,"

var (
	// ciphertexts are those within a text.
	ciphertexts = regexp.MustCompile(`ENC\[AES256_GCM,data:[A-Za-z0-9+/=]*,iv:[A-Za-z0-9+/=]+,tag:[A-Za-z0-9+/=]+,type:[a-z]+\]`)
	// ciphertext is a text that is one, with its parts.
	ciphertext = regexp.MustCompile(`^ENC\[AES256_GCM,data:([A-Za-z0-9+/=]*),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z]+)\]$`)
)

// plain is what a ciphertext stands for. It prints as an address at most, whatever holds it.
type plain struct {
	text *string
	kind string // the type that SOPS gives it
}

var (
	errForm   = errors.New("is no ciphertext of SOPS")
	errKind   = errors.New("has a type that is not known here")
	errOpened = errors.New("cannot be decrypted: it was changed, or moved to another place, since it was encrypted; encrypt the file again")
)

// maxIV bounds the nonce. SOPS takes 32 bytes.
const maxIV = 64

// decrypt opens a ciphertext that was made for a place.
func decrypt(text string, key []byte, place string) (plain, error) {
	m := ciphertext.FindStringSubmatch(text)
	if m == nil {
		return plain{}, errForm
	}
	var parts [3][]byte
	for i := range parts {
		var err error
		if parts[i], err = base64.StdEncoding.DecodeString(m[i+1]); err != nil {
			return plain{}, errForm
		}
	}
	data, iv, tag := parts[0], parts[1], parts[2]
	if len(iv) == 0 || len(iv) > maxIV {
		return plain{}, errForm
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return plain{}, errForm
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil || len(tag) != gcm.Overhead() {
		return plain{}, errForm
	}
	opened, err := gcm.Open(nil, iv, append(data, tag...), []byte(place))
	if err != nil {
		return plain{}, errOpened
	}
	switch m[4] {
	case "str", "bytes", "int", "float", "bool", "time", "comment":
		text := string(opened)
		return plain{&text, m[4]}, nil
	}
	return plain{}, errKind
}

// isText tells whether the value is what Secrets hold.
func (p plain) isText() bool { return p.kind == "str" || p.kind == "bytes" }

// summed is the value as the checksum has it.
func (p plain) summed() (string, error) {
	switch p.kind {
	case "str", "bytes":
		return *p.text, nil
	case "int":
		n, err := strconv.Atoi(*p.text)
		return sum(n), err
	case "float":
		f, err := strconv.ParseFloat(*p.text, 64)
		return sum(f), err
	case "bool":
		b, err := strconv.ParseBool(*p.text)
		return sum(b), err
	case "time":
		var t time.Time
		err := t.UnmarshalText([]byte(*p.text))
		return sum(t), err
	}
	return "", nil // comments are not in it
}

// sum is a value that is not encrypted as the checksum has it.
func sum(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		if v {
			return "True"
		}
		return "False"
	case time.Time:
		text, err := v.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	}
	return ""
}

// place is what a ciphertext is bound to: the keys on the way to it. The places of a list have none.
func place(path []string) string { return strings.Join(path, ":") + ":" }
