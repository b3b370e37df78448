package canonical

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// YAML is o in canonical form, ending in a line break. JSON-shaped values are written directly;
// anything else as what encoding/json makes of it, and what that refuses makes YAML panic.
func YAML(o any) []byte { return AppendYAML(nil, o) }

// AppendYAML appends YAML(o) to dst.
func AppendYAML(dst []byte, o any) []byte {
	switch o := jsonShaped(o).(type) {
	case map[string]any:
		if len(o) > 0 {
			return appendMap(dst, o, 0, false)
		}
		return append(appendScalar(dst, o, place{root: true}), '\n')
	case []any:
		if len(o) > 0 {
			return appendList(dst, o, 0, false)
		}
		return append(appendScalar(dst, o, place{root: true}), '\n')
	default:
		return endLine(appendScalar(dst, o, place{root: true}))
	}
}

// appendMap writes the entries of m, each on a line indented by indent; the first continues the
// current line if inline is set.
func appendMap(dst []byte, m map[string]any, indent int, inline bool) []byte {
	var room [24]string
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	sortKeys(keys)
	for i, k := range keys {
		if i > 0 || !inline {
			dst = appendSpaces(dst, indent)
		}
		v := jsonShaped(m[k])
		start := len(dst)
		dst = appendKey(dst, k)
		if len(dst) == start {
			dst = appendEntry(dst, k, v, indent)
			continue
		}
		dst = append(dst, ':')
		dst = appendUnder(dst, v, place{indent: indent, column: indent + len(dst) - start + 1, key: k})
	}
	return dst
}

// appendUnder writes the value of the key at p, which begins on the key's line or below it.
func appendUnder(dst []byte, v any, p place) []byte {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return appendMap(append(dst, '\n'), v, p.indent+2, false)
		}
	case []any:
		if len(v) > 0 {
			return appendList(append(dst, '\n'), v, p.indent, false)
		}
	}
	return endLine(appendScalar(append(dst, ' '), v, p))
}

// appendList writes the items of list, as appendMap writes entries.
func appendList(dst []byte, list []any, indent int, inline bool) []byte {
	for i, e := range list {
		if i > 0 || !inline {
			dst = appendSpaces(dst, indent)
		}
		dst = append(dst, '-', ' ')
		switch e := jsonShaped(e).(type) {
		case map[string]any:
			if len(e) > 0 {
				dst = appendMap(dst, e, indent+2, true)
				continue
			}
			dst = append(appendScalar(dst, e, place{}), '\n')
		case []any:
			if len(e) > 0 {
				dst = appendList(dst, e, indent+2, true)
				continue
			}
			dst = append(appendScalar(dst, e, place{}), '\n')
		default:
			dst = endLine(appendScalar(dst, e, place{indent: indent, column: indent + 2, item: true}))
		}
	}
	return dst
}

// place is where a scalar stands. Quoting does not depend on it, but where long text is folded does.
type place struct {
	indent int // of the key or dash before it
	column int // of its first character
	key    string
	item   bool // it follows a dash
	root   bool // it is the document
}

// appendScalar writes a scalar, or an empty mapping or list. Only literal text ends in a line break.
func appendScalar(dst []byte, v any, p place) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return appendText(dst, v, p)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case map[string]any:
		if v == nil {
			return append(dst, "null"...)
		}
		return append(dst, "{}"...)
	case []any:
		if v == nil {
			return append(dst, "null"...)
		}
		return append(dst, "[]"...)
	default:
		panic(fmt.Sprintf("canonical: %T is not JSON-shaped", v)) // jsonShaped was called
	}
}

// appendFloat writes f as an integer wherever the text that JSON has for it is one.
func appendFloat(dst []byte, f float64) []byte {
	switch number := numberOf(f).(type) {
	case int64:
		return strconv.AppendInt(dst, number, 10)
	case uint64:
		return strconv.AppendUint(dst, number, 10)
	default:
		return strconv.AppendFloat(dst, f, 'g', -1, 64)
	}
}

func numberOf(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) >= 1e20 {
		return f
	}
	if math.Abs(f) < 1<<53 {
		return int64(f)
	}
	text := jsonFloat(f)
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u
	}
	return f
}

// style is how a text is written.
type style int

const (
	library style = iota // as the library writes it: nothing here is sure
	plain                // text
	single               // 'text'
	double               // "text", without anything to escape
	literal              // |, and the lines below
)

// foldAt is the column behind which the library breaks a line at the next single space.
const foldAt = 80

func appendText(dst []byte, s string, p place) []byte {
	style := styleOf(s)
	width := len(s) + strings.Count(s, "'") + 2 // within single quotes each of them is two
	wide := p.column+width > foldAt && strings.Contains(s, " ")
	switch {
	case style == plain && wide:
		return appendFolded(dst, s, p)
	case style == plain:
		return append(dst, s...)
	case style == literal:
		return appendLiteral(dst, s, p.indent+2)
	case style == single && !wide:
		return appendSingle(dst, s)
	case style == double && !wide:
		return appendDouble(dst, s)
	default:
		return append(dst, scalarByLibrary(s, p)...)
	}
}

// styleOf chooses the style as the library does, as far as it is simple to tell.
func styleOf(s string) style {
	if s == "" {
		return double
	}
	lines, spaceBreak, indicator := false, false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x7F || c < 0x20 && c != '\n':
			return library
		case c == '\n':
			lines = true
			spaceBreak = spaceBreak || i > 0 && s[i-1] == ' '
		case c == ':':
			indicator = indicator || i+1 == len(s) || s[i+1] == ' '
		case c == '#':
			indicator = indicator || i == 0 || s[i-1] == ' '
		}
	}
	last := s[len(s)-1]
	if lines {
		if spaceBreak || last == ' ' {
			return library
		}
		return literal
	}
	switch ambiguous(s) {
	case yes:
		if strings.ContainsAny(s, `"\`) {
			return library
		}
		return double
	case unsure:
		return library
	}
	switch s[0] {
	case ' ', '#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return single
	case '-', '?', ':':
		indicator = indicator || len(s) == 1 || s[1] == ' '
	}
	if indicator || last == ' ' || strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		return single
	}
	return plain
}

type answer int

const (
	no answer = iota
	yes
	unsure
)

// ambiguous tells whether s without quotes would be a number, a boolean, a null or a time.
func ambiguous(s string) answer {
	switch c := s[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		return numeric(s)
	case strings.IndexByte("yYnNtTfFoO~", c) >= 0:
		switch s {
		case "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
			"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "~":
			return yes
		}
	}
	return no
}

// numeric is ambiguous for what begins like a number.
func numeric(s string) answer {
	digits, dots := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			dots++
		case strings.IndexByte("GHJKLMPQRSUVWghjklmpqrsuvw/%=,@", c) >= 0:
			return no // these are in no number, time, infinity or NaN
		}
	}
	switch {
	case digits == len(s):
		return yes
	case digits+dots == len(s) && dots > 1:
		return no // a version, an IP address
	default:
		return unsure
	}
}

// appendKey writes a key, or nothing if it takes more than a line of its own.
func appendKey(dst []byte, k string) []byte {
	switch {
	case len(k) > 128:
		return dst
	case k == "<<":
		return appendDouble(dst, k) // the library writes a merge key, which it cannot read again
	}
	switch styleOf(k) {
	case plain:
		return append(dst, k...)
	case single:
		return appendSingle(dst, k)
	case double:
		return appendDouble(dst, k)
	case literal:
		return dst
	}
	text := strings.TrimSuffix(byLibrary(map[string]any{validText(k): nil}), ": null\n")
	if strings.HasPrefix(text, "? ") || utf8.RuneCountInString(text) != len(text) {
		return dst
	}
	return append(dst, text...)
}

func appendSingle(dst []byte, s string) []byte {
	dst = append(dst, '\'')
	for {
		i := strings.IndexByte(s, '\'')
		if i < 0 {
			return append(append(dst, s...), '\'')
		}
		dst = append(append(dst, s[:i+1]...), '\'')
		s = s[i+1:]
	}
}

func appendDouble(dst []byte, s string) []byte {
	return append(append(append(dst, '"'), s...), '"')
}

func appendFolded(dst []byte, s string, p place) []byte {
	column := p.column
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' && column > foldAt && s[i-1] != ' ' && s[i+1] != ' ' { // a plain text neither begins nor ends with one
			dst = appendSpaces(append(dst, '\n'), p.indent+2)
			column = p.indent + 2
			continue
		}
		dst = append(dst, s[i])
		column++
	}
	return dst
}

func appendLiteral(dst []byte, s string, indent int) []byte {
	dst = append(dst, '|')
	if s[0] == ' ' || s[0] == '\n' {
		dst = append(dst, '2')
	}
	switch {
	case s[len(s)-1] != '\n':
		dst = append(dst, '-')
	case len(s) == 1 || s[len(s)-2] == '\n':
		dst = append(dst, '+')
	}
	dst = append(dst, '\n')
	for line := range strings.Lines(s) {
		if line != "\n" {
			dst = appendSpaces(dst, indent)
		}
		dst = append(dst, line...)
	}
	return dst
}

// endLine ends the line, which a literal text with a line break at its end did already.
func endLine(dst []byte) []byte {
	if dst[len(dst)-1] == '\n' {
		return dst
	}
	return append(dst, '\n')
}

func appendSpaces(dst []byte, n int) []byte {
	const spaces = "                                                                "
	for ; n > len(spaces); n -= len(spaces) {
		dst = append(dst, spaces...)
	}
	return append(dst, spaces[:n]...)
}

// scalarByLibrary is what the library writes for s at p: it is given a document that has s at the same place.
func scalarByLibrary(s string, p place) string {
	var doc any = validText(s)
	switch {
	case p.root:
		return strings.TrimSuffix(byLibrary(doc), "\n")
	case p.item:
		text := nested(p.indent, map[string]any{"a": []any{doc}})
		return strings.TrimSuffix(text[len("a:\n")+2*p.indent+len("- "):], "\n")
	default:
		key := string(appendKey(nil, p.key))
		text := nested(p.indent, map[string]any{p.key: doc})
		return strings.TrimSuffix(text[p.indent+len(key)+len(": "):], "\n")
	}
}

// appendEntry writes an entry as the library does, for keys that take more than a line.
func appendEntry(dst []byte, k string, v any, indent int) []byte {
	text := nested(indent, map[string]any{validText(k): forLibrary(v)})
	return append(dst, text[indent:]...)
}

// nested is what the library writes for m at an indentation, without the lines above it.
func nested(indent int, m map[string]any) string {
	for range indent / 2 {
		m = map[string]any{"a": m}
	}
	text := byLibrary(m)
	for range indent / 2 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

func byLibrary(v any) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("canonical: the YAML library refuses JSON-shaped values: %v", err))
	}
	return string(text)
}

// forLibrary is v with each number and text as a trip through JSON leaves it.
func forLibrary(v any) any {
	switch v := jsonShaped(v).(type) {
	case map[string]any:
		if v == nil {
			return nil
		}
		keys := Keys(v)
		m := make(yaml.MapSlice, 0, len(v)) // of a map the library would sort the keys itself, by chance where they have no order
		for _, k := range keys {
			m = append(m, yaml.MapItem{Key: validText(k), Value: forLibrary(v[k])})
		}
		return m
	case []any:
		if v == nil {
			return nil
		}
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = forLibrary(e)
		}
		return list
	case string:
		return validText(v)
	case float64:
		return numberOf(v)
	default:
		return v
	}
}

// jsonShaped is v, by way of JSON if it has any other type.
func jsonShaped(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int64, uint64, map[string]any, []any:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			panic(fmt.Sprintf("canonical: %v has no JSON", v))
		}
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case json.Number:
		return number(v.String())
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("canonical: %v", err))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var shaped any
	if err := d.Decode(&shaped); err != nil {
		panic(fmt.Sprintf("canonical: %v", err)) // JSON of our own making
	}
	return jsonShaped(shaped)
}

// Keys are the keys of m in the order that YAML writes them in.
func Keys[V any](m map[string]V) []string {
	keys := slices.Collect(maps.Keys(m))
	sortKeys(keys)
	return keys
}

// sortKeys sorts as the library does, where numbers within keys count as such and letters come last.
func sortKeys(keys []string) {
	slices.Sort(keys)
	for _, k := range keys {
		for i := 0; i < len(k); i++ {
			if c := k[i] | 0x20; c < 'a' || c > 'z' {
				slices.SortStableFunc(keys, compareKeys)
				return
			}
		}
	}
	// Nothing but letters is in order already.
}

// compareKeys follows keyList.Less of go.yaml.in/yaml/v2. It is no order of all strings (10a < 1a < 02 < 10a),
// so the library's output depends on chance where such keys meet; ours, sorted by bytes first, does not.
func compareKeys(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for i > 0 && (i < len(a) && !utf8.RuneStart(a[i]) || i < len(b) && !utf8.RuneStart(b[i])) {
		i--
	}
	if i == len(a) || i == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	ar, _ := utf8.DecodeRuneInString(a[i:])
	br, _ := utf8.DecodeRuneInString(b[i:])
	al, bl := unicode.IsLetter(ar), unicode.IsLetter(br)
	switch {
	case al && bl:
		return cmp.Compare(ar, br)
	case al:
		return 1
	case bl:
		return -1
	}
	before := int64(0)
	if ar == '0' || br == '0' { // zeros are digits like others once another digit is before them
		before = digitBefore(a[:i])
	}
	an, al0 := digits(a[i:], before)
	bn, bl0 := digits(b[i:], before)
	return cmp.Or(cmp.Compare(an, bn), cmp.Compare(al0, bl0), cmp.Compare(ar, br))
}

// digitBefore is 1 if a digit other than 0 is among the digits at the end of s, else 0.
func digitBefore(s string) int64 {
	for s != "" {
		r, size := utf8.DecodeLastRuneInString(s)
		if !unicode.IsDigit(r) {
			return 0
		}
		if r != '0' {
			return 1
		}
		s = s[:len(s)-size]
	}
	return 0
}

// digits is the number at the begin of s, behind digits that stand for n, and how many digits it has.
func digits(s string, n int64) (value int64, length int) {
	for _, r := range s {
		if !unicode.IsDigit(r) {
			break
		}
		n = n*10 + int64(r-'0')
		length++
	}
	return n, length
}
