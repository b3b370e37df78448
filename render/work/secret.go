package work

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/godwit-gitops/godwit/api"
)

// secretPrefix begins what stands for a secret value.
const secretPrefix = "hmac-sha256:"

// IsSecret tells whether the object is a Secret, whose values are never written to Git.
func IsSecret(id api.ID) bool { return id.Group == "" && id.Kind == "Secret" }

// Redact replaces each value of a Secret by its HMAC. The place is hashed along, so that equal
// values in two places do not look equal. Annotations that hold a copy of the whole manifest go.
// Without a key nothing can be told apart: every value is then the bare prefix.
func Redact(o api.Object, key []byte) api.Object {
	id := api.IDOf(o)
	o = maps.Clone(o)
	for _, field := range slices.Sorted(maps.Keys(o)) {
		if slices.Contains(notSecret, field) {
			continue
		}
		values, ok := o[field].(map[string]any)
		if !ok {
			o[field] = secretPrefix
			continue
		}
		redacted := make(map[string]any, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			redacted[name] = digest(key, id.Namespace, id.Name, field, name, fmt.Sprint(values[name]))
		}
		o[field] = redacted
	}
	if metaText(o, "annotations", lastApplied) != "" {
		o = withMeta(o, metaChange{field: "annotations", drop: []string{lastApplied}})
	}
	return o
}

// notSecret are the fields of a Secret that hold no values. A field that is no field of it, such as
// stringdata, is a value that somebody misspelt the place of.
var notSecret = []string{"apiVersion", "kind", "metadata", "type", "immutable"}

// lastApplied is where kubectl keeps the manifest, values included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func digest(key []byte, parts ...string) string {
	if len(key) == 0 {
		return secretPrefix
	}
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		fmt.Fprintf(mac, "%d:%s", len(p), p)
	}
	return secretPrefix + hex.EncodeToString(mac.Sum(nil))
}
