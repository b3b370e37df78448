package work

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/sops"
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
		digests := make(map[string]any, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			digests[name] = digest(key, id.Namespace, id.Name, field, name, fmt.Sprint(values[name]))
		}
		o[field] = digests
	}
	if metaText(o, "annotations", lastApplied) != "" {
		o = withMeta(o, metaChange{field: "annotations", drop: []string{lastApplied}})
	}
	return o
}

// SameValues tells whether two Secrets are the same in all that may hold values, be they encrypted.
func SameValues(a, b api.Object) bool {
	within := func(a, b api.Object) bool {
		for field, v := range a {
			if was, ok := b[field]; !slices.Contains(notSecret, field) && (!ok || !reflect.DeepEqual(v, was)) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}

// sealedPrefix begins what stands for a value that is known as it was encrypted alone. SOPS leaves it as it is as long as the
// value is, so that two of them can be compared.
const sealedPrefix = secretPrefix + "sealed:"

// Unknown is a redacted Secret of which some values are not known.
func Unknown(o api.Object, unknown []sops.Withheld) api.Object {
	o = maps.Clone(o)
	for _, u := range unknown {
		values, _ := o[u.Field].(map[string]any)
		values = cloneOrNew(values)
		sum := sha256.Sum256([]byte(u.Ciphertext))
		values[u.Key], o[u.Field] = sealedPrefix+hex.EncodeToString(sum[:]), values
	}
	return o
}

// Adopt gives values of a Secret that are not known, or were redacted without a key, what stands for them in before, an
// earlier redaction of it, so that all but its values can be compared. It tells whether there were any.
func Adopt(o, before api.Object) (api.Object, bool) {
	o, adopted := maps.Clone(o), false
	each(o, before, func(values, old map[string]any, name string) {
		was, now := old[name], values[name]
		if now == secretPrefix && redacted(was) || sealed(now) && redacted(was) && !sealed(was) {
			values[name], adopted = was, true
		}
	})
	return o, adopted
}

// What a person reads in place of a value: who has no key learns nothing from a digest, and one of a key made up for
// the moment would be another one each time.
const (
	hiddenValue = "(not shown)"
	hiddenOld   = "(not shown: old)"
	hiddenNew   = "(not shown: new)"
)

// Words puts words in place of the digests in two versions of a Secret: they say what changed. Either may be nil.
func Words(before, after api.Object) (api.Object, api.Object) {
	wordsOf := func(o, other api.Object, changed string) api.Object {
		o = maps.Clone(o)
		each(o, other, func(values, others map[string]any, name string) {
			switch was, ok := others[name]; {
			case !redacted(values[name]):
			case ok && was != values[name]:
				values[name] = changed
			default:
				values[name] = hiddenValue
			}
		})
		return o
	}
	return wordsOf(before, after, hiddenOld), wordsOf(after, before, hiddenNew)
}

// each calls do for each value of a Secret: with the map that it is in, which is the caller's to change, and the same
// map of another Secret.
func each(o, other api.Object, do func(values, others map[string]any, name string)) {
	for field := range o {
		if slices.Contains(notSecret, field) {
			continue
		}
		values, ok := o[field].(map[string]any)
		if !ok { // a field that was redacted as a whole
			do(o, other, field)
			continue
		}
		values = maps.Clone(values)
		o[field] = values
		others, _ := other[field].(map[string]any)
		for name := range values {
			do(values, others, name)
		}
	}
}

// redacted tells whether something stands for a value.
func redacted(v any) bool {
	s, ok := v.(string)
	return ok && strings.HasPrefix(s, secretPrefix)
}

// sealed tells whether a value is known as it was encrypted alone.
func sealed(v any) bool {
	s, ok := v.(string)
	return ok && strings.HasPrefix(s, sealedPrefix)
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
