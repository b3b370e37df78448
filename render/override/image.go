package override

import (
	"fmt"
	"strings"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// image is an image reference in its parts. At most one of tag and digest is written.
type image struct{ registry, repository, tag, digest string }

// parseImage reads a reference by the grammar of container registries, in which
//
//	reference = name [":" tag] ["@" digest]
//	name      = [domain "/"] component {"/" component}
//
// The part before the first slash is taken for the registry if it has a dot or a colon or is
// localhost. With both a tag and a digest the tag is kept, as in Karmada.
func parseImage(s string) (image, error) {
	name, digest, digested := strings.Cut(s, "@")
	tag, tagged := "", false
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag, tagged = name[:i], name[i+1:], true
	}
	switch {
	case !isName(name), tagged && !isTag(tag), digested && !(isDigest(digest) && isKnownDigest(digest)):
		return image{}, fmt.Errorf("%q is no image reference", s)
	case tagged:
		digest = ""
	}
	if first, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return image{first, rest, tag, digest}, nil
	}
	return image{"", name, tag, digest}, nil
}

// String puts the parts together, whether or not they make a reference.
func (i image) String() string {
	s := i.repository
	if i.registry != "" {
		s = i.registry + "/" + s
	}
	switch {
	case i.tag != "":
		return s + ":" + i.tag
	case i.digest != "":
		return s + "@" + i.digest
	}
	return s
}

// with returns the reference after one override.
func (i image) with(o *policyv1alpha1.ImageOverrider) image {
	switch o.Component {
	case policyv1alpha1.ImageRegistry:
		i.registry = changed(i.registry, o)
	case policyv1alpha1.ImageRepository:
		i.repository = changed(i.repository, o)
	case policyv1alpha1.ImageTag:
		return i.withTag(o)
	}
	return i
}

func changed(part string, o *policyv1alpha1.ImageOverrider) string {
	switch o.Operator {
	case policyv1alpha1.OverriderOpAdd:
		return part + o.Value
	case policyv1alpha1.OverriderOpReplace:
		return o.Value
	}
	return ""
}

// withTag changes the tag, or the digest of an image without one. A text that is neither changes nothing.
func (i image) withTag(o *policyv1alpha1.ImageOverrider) image {
	text := o.Value
	switch {
	case o.Operator == policyv1alpha1.OverriderOpRemove:
		if i.tag == "" {
			i.digest = ""
		}
		i.tag = ""
		return i
	case o.Operator == policyv1alpha1.OverriderOpAdd && i.tag != "":
		text = i.tag + text
	case o.Operator == policyv1alpha1.OverriderOpAdd:
		text = i.digest + text
	}
	switch {
	case isTag(text):
		i.tag, i.digest = text, ""
	case isDigest(text):
		i.tag, i.digest = "", text
	}
	return i
}

// maxName is the longest name, its domain not counted.
const maxName = 255

func isName(name string) bool {
	first, rest, several := strings.Cut(name, "/")
	if several && isDomain(first) {
		return isPath(rest)
	}
	return isPath(name)
}

func isPath(path string) bool {
	if len(path) > maxName {
		return false
	}
	for component := range strings.SplitSeq(path, "/") {
		if !isComponent(component) {
			return false
		}
	}
	return true
}

// isComponent: lower case letters and digits, in between one dot, one or two underscores, or dashes.
func isComponent(s string) bool {
	for separators := 0; s != ""; s = s[separators:] {
		n := span(s, isLowerAlnum)
		if n == 0 {
			return false
		}
		if s = s[n:]; s == "" {
			return true
		}
		separators = max(span(s, func(c byte) bool { return c == '-' }), span(s[:min(2, len(s))], func(c byte) bool { return c == '_' }))
		if separators == 0 && s[0] == '.' {
			separators = 1
		}
		if separators == 0 {
			return false
		}
	}
	return false
}

// isDomain: names of letters, digits and inner dashes joined by dots, or an IPv6 address in
// brackets; then perhaps a port.
func isDomain(s string) bool {
	if strings.HasPrefix(s, "[") {
		address, port, ok := strings.Cut(s[1:], "]")
		return ok && address != "" && span(address, func(c byte) bool { return isHex(c) || c == ':' }) == len(address) && (port == "" || isPort(port))
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		if !isPort(s[i:]) {
			return false
		}
		s = s[:i]
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' ||
			span(label, func(c byte) bool { return isAlnum(c) || c == '-' }) != len(label) {
			return false
		}
	}
	return true
}

func isPort(s string) bool { return len(s) > 1 && s[0] == ':' && span(s[1:], isDigit) == len(s)-1 }

// isTag: a word character, then up to 127 word characters, dots and dashes.
func isTag(s string) bool {
	word := func(c byte) bool { return isAlnum(c) || c == '_' }
	return s != "" && len(s) <= 128 && word(s[0]) && span(s, func(c byte) bool { return word(c) || c == '.' || c == '-' }) == len(s)
}

// isDigest: words joined by one of -_+. that begin with a letter, a colon, 32 or more hex digits.
func isDigest(s string) bool {
	algorithm, hex, ok := strings.Cut(s, ":")
	if !ok || len(hex) < 32 || span(hex, isHex) != len(hex) {
		return false
	}
	for {
		n := span(algorithm, isAlnum)
		if n == 0 || isDigit(algorithm[0]) {
			return false
		}
		if n == len(algorithm) {
			return true
		}
		if !strings.ContainsRune("-_+.", rune(algorithm[n])) {
			return false
		}
		algorithm = algorithm[n+1:]
	}
}

// digestLength is the number of lower case hex digits by algorithm.
var digestLength = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

func isKnownDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	return len(hex) == digestLength[algorithm] && strings.ToLower(hex) == hex
}

// span is the length of the prefix of s whose bytes all satisfy is.
func span(s string, is func(byte) bool) int {
	for i := range len(s) {
		if !is(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool      { return '0' <= c && c <= '9' }
func isLowerAlnum(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' }
func isAlnum(c byte) bool      { return isLowerAlnum(c) || 'A' <= c && c <= 'Z' }
func isHex(c byte) bool        { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
