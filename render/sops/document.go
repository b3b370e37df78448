package sops

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits on what one file may hold.
const (
	// maxDepth is how far mappings and lists may be within each other.
	maxDepth = 256
	// maxEnc is the size of one encrypted data key.
	maxEnc = 8 << 10
	// maxRule is the length of a rule that says what is encrypted, and maxSteps what it may cost for each letter of a key.
	maxRule, maxSteps = 1 << 10, 200
)

// metadata is the block that SOPS adds to a document.
type metadata struct {
	MAC          string `yaml:"mac"`
	LastModified string `yaml:"lastmodified"`
	Age          []struct {
		Recipient string `yaml:"recipient"`
		Enc       string `yaml:"enc"`
	} `yaml:"age"`
	PGP []struct {
		FP  string `yaml:"fp"`
		Enc string `yaml:"enc"`
	} `yaml:"pgp"`
	KMS       []yaml.Node `yaml:"kms"`
	GCP       []yaml.Node `yaml:"gcp_kms"`
	Azure     []yaml.Node `yaml:"azure_kv"`
	Vault     []yaml.Node `yaml:"hc_vault"`
	Huawei    []yaml.Node `yaml:"hckms"`
	KeyGroups []yaml.Node `yaml:"key_groups"`

	UnencryptedSuffix       string `yaml:"unencrypted_suffix"`
	EncryptedSuffix         string `yaml:"encrypted_suffix"`
	UnencryptedRegex        string `yaml:"unencrypted_regex"`
	EncryptedRegex          string `yaml:"encrypted_regex"`
	UnencryptedCommentRegex string `yaml:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string `yaml:"encrypted_comment_regex"`
	MACOnlyEncrypted        bool   `yaml:"mac_only_encrypted"`
}

// state is how far a document could be opened.
type state int

const (
	opened state = iota
	// locked: no key fits, or there is none.
	locked
	// bad: it is not as it was encrypted.
	bad
)

// document is what was encrypted in one go: documents of one file that have the same checksum.
type document struct {
	state state
	// why it is not open.
	why Problem
	// values are those that are open, by ciphertext.
	values map[string]value
	// secrets are the Secrets in it, by their looks.
	secrets []string
}

// value is what one ciphertext stands for.
type value struct {
	plain
	field, key string // where in a Secret it belongs; empty if nowhere
}

// part is one document of the text.
type part struct {
	root  *yaml.Node
	first int // the line of the file that it counts as its first
	line  int // of the checksum
	meta  metadata
	wrong *Problem // why it is not even looked at; nil if nothing is
	// secrets are the Secrets in it, by their looks.
	secrets []string
}

// parts are the documents of a file that SOPS encrypted and that are manifests, or the file if it was encrypted as a whole: what
// else it encrypted is for others. One that is broken costs no other, as it does where objects are read.
func parts(data []byte) (all []part) {
	first := 1
	for _, piece := range pieces(data) {
		for d := yaml.NewDecoder(bytes.NewReader(piece)); ; {
			var doc yaml.Node
			if d.Decode(&doc) != nil {
				break // the end, or what others say is broken
			}
			if p, ok := partOf(&doc, first); ok {
				all = append(all, p)
			}
		}
		first += bytes.Count(piece, []byte("\n"))
	}
	return all
}

// pieces cuts a file where documents begin.
func pieces(data []byte) (all [][]byte) {
	at := 0
	for _, mark := range marks.FindAllIndex(data, -1) {
		all, at = append(all, data[at:mark[0]]), mark[0]
	}
	return append(all, data[at:])
}

var marks = regexp.MustCompile(`(?m)^---(\s|$)`)

func partOf(doc *yaml.Node, first int) (part, bool) {
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return part{}, false
	}
	root := doc.Content[0]
	block := entry(root, "sops")
	if block == nil || entry(root, "kind") == nil && !isFile(root) {
		return part{}, false
	}
	p := part{root: root, first: first}
	mac := entry(block, "mac")
	if mac == nil || mac.Kind != yaml.ScalarNode {
		return p, true // nothing can be told of it
	}
	p.line = mac.Line + first - 1
	if p.wrong = p.flaw(); p.wrong == nil && block.Decode(&p.meta) != nil {
		p.wrong = &Problem{Code: CodeMetadata, Line: p.line, Message: "sops: is not what SOPS writes; encrypt the file again"}
	}
	p.meta.MAC = mac.Value
	return p, true
}

// isFile tells whether a document is a file that was encrypted as a whole, whatever was in it.
func isFile(root *yaml.Node) bool {
	data := entry(root, "data")
	return len(root.Content) == 4 && data != nil && data.Kind == yaml.ScalarNode && entry(root, "sops") != nil
}

// entry is the value of a key of a mapping; nil if it has none. The last of equal ones counts.
func entry(n *yaml.Node, key string) *yaml.Node {
	for i := len(n.Content) - 2; n.Kind == yaml.MappingNode && i >= 0; i -= 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// document opens documents of a file that have one checksum.
func (r *Reading) document(file string, parts []part, in, from realm) *document {
	d := &document{values: map[string]value{}}
	for _, p := range parts {
		d.secrets = append(d.secrets, p.secrets...)
		if p.wrong != nil {
			d.state, d.values, d.why = bad, nil, *p.wrong
			d.why.File = file
			return d
		}
	}
	meta := &parts[0].meta
	key, why := r.dataKey(meta, file, in, from)
	if key == nil {
		d.state, d.why = locked, why
		return d
	}
	w := walk{meta: meta, key: key, hash: sha512.New(), values: d.values}
	fail := func(line int, code, format string, args ...any) *document {
		d.state, d.values = bad, nil
		d.why = Problem{Code: code, File: file, Line: line, Message: fmt.Sprintf(format, args...)}
		return d
	}
	var err error
	if w.rule, err = meta.rule(); err != nil {
		return fail(parts[0].line, CodeMetadata, "sops: %v; encrypt the file again", err)
	}
	modified, err := time.Parse(time.RFC3339, meta.LastModified)
	if err != nil {
		return fail(parts[0].line, CodeMetadata, "sops.lastmodified: is no time as SOPS writes it; encrypt the file again")
	}
	mac, err := decrypt(meta.MAC, key, modified.Format(time.RFC3339))
	if err != nil {
		return fail(parts[0].line, CodeChanged, "sops.mac: %v", err)
	}
	if meta.MACOnlyEncrypted {
		w.hash.Write(onlyEncrypted)
	}
	for _, p := range parts {
		if w.mapping(p.root, nil, w.rule.outset, 0); w.failed != nil {
			return fail(w.failed.Line+p.first-1, w.failed.Code, "%s", w.failed.Message)
		}
	}
	if want := strings.ToUpper(hex.EncodeToString(w.hash.Sum(nil))); *mac.text != want {
		return fail(parts[0].line, CodeChanged,
			"sops.mac: the checksum does not fit: something was changed, added or taken out after the file was encrypted; put it back, or change it with sops")
	}
	return d
}

// onlyEncrypted begins the checksum where it is of encrypted values alone: SHA-256 of the word sops.
var onlyEncrypted = []byte{
	0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
	0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
}

// dataKey opens the key of a document, or says why not.
func (r *Reading) dataKey(meta *metadata, file string, in, from realm) ([]byte, Problem) {
	why := func(format string, args ...any) ([]byte, Problem) {
		return nil, Problem{Code: CodeLocked, File: file, Message: "is encrypted, and " + fmt.Sprintf(format, args...)}
	}
	switch {
	case len(meta.KeyGroups) > 0:
		return why("its key is in several parts (key_groups), which is not supported; encrypt it for one group")
	case len(meta.Age) == 0 && len(meta.PGP) == 0:
		return why("for %s alone, which is not supported; add a key of age or PGP with sops updatekeys", cmp.Or(strings.Join(meta.services(), ", "), "no key"))
	case len(meta.Age)+len(meta.PGP) > maxKeys:
		return why("for more than %d keys, which are not tried", maxKeys)
	case in != from:
		return why("%s is decrypted with %s, and what reads it belongs to %s; put both under the same keys", file, from, in)
	case from.grant == nil || from.grant.keys.Empty():
		_, p := why("there is no key for its folder; name one under decryption in the configuration")
		if from.grant != nil {
			_, p = why("the key for %s is not at hand", from.grant.folders)
		}
		p.keyless = true
		return nil, p
	}
	var all []wrapped
	var recipients []string
	for _, k := range meta.Age {
		all = append(all, wrapped{from.grant, false, k.Enc})
		recipients = append(recipients, printable(k.Recipient))
	}
	for _, k := range meta.PGP {
		all = append(all, wrapped{from.grant, true, k.Enc})
		recipients = append(recipients, "PGP "+printable(k.FP))
	}
	var tried []wrapped
	cost := 0
	for _, w := range all {
		if c, ok := w.cost(); ok && !slices.Contains(tried, w) {
			tried, cost = append(tried, w), cost+c
		}
	}
	switch {
	case cost > maxAttempts:
		return why("for so many keys that they are not tried; encrypt it for fewer")
	case !r.Spend(cost):
		r.refused++
		return why("what comes before it has used up the %d attempts at keys that one read of a source makes; encrypt files for fewer keys, or take some out", maxReading)
	}
	for _, w := range tried {
		if key := r.open(w); key != nil {
			return key, Problem{}
		}
	}
	const most = 4
	if len(recipients) > most {
		recipients = append(recipients[:most], fmt.Sprintf("%d more", len(recipients)-most))
	}
	return why("no key for %s opens it: it is for %s; encrypt it for the key of that folder (sops updatekeys)", from.grant.folders, strings.Join(recipients, ", "))
}

// printable is a name that somebody wrote, fit for a message.
func printable(name string) string {
	const most = 80
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return strings.Trim(strconv.Quote(name), `"`)
}

// services are the keys that we cannot use.
func (m *metadata) services() (names []string) {
	for _, s := range []struct {
		name string
		keys []yaml.Node
	}{{"AWS KMS", m.KMS}, {"GCP KMS", m.GCP}, {"Azure Key Vault", m.Azure}, {"Vault", m.Vault}, {"Huawei KMS", m.Huawei}} {
		if len(s.keys) > 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// rule says which values are encrypted, by the keys on the way to them.
type rule struct {
	// outset is what holds if no key says otherwise, and otherwise tells whether one does.
	outset    bool
	otherwise func(key string) bool
	// byComment: comments say it, so that a value tells by its form.
	byComment bool
}

// rule is that of the document. SOPS allows one.
func (m *metadata) rule() (rule, error) {
	given := 0
	for _, text := range []string{m.UnencryptedSuffix, m.EncryptedSuffix, m.UnencryptedRegex, m.EncryptedRegex, m.UnencryptedCommentRegex, m.EncryptedCommentRegex} {
		if text != "" {
			given++
		}
		if len(text) > maxRule {
			return rule{}, fmt.Errorf("the rule that says what is encrypted has more than %d letters", maxRule)
		}
	}
	suffix := func(suffix string, outset bool) (rule, error) {
		return rule{outset: outset, otherwise: func(key string) bool { return strings.HasSuffix(key, suffix) }}, nil
	}
	matches := func(pattern string, outset bool) (rule, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return rule{}, errors.New("the rule that says what is encrypted is no regular expression")
		}
		if steps(pattern) > maxSteps {
			return rule{}, errors.New("the rule that says what is encrypted takes too long")
		}
		return rule{outset: outset, otherwise: re.MatchString}, nil
	}
	switch {
	case given > 1:
		return rule{}, errors.New("there is more than one rule that says what is encrypted")
	case m.EncryptedSuffix != "":
		return suffix(m.EncryptedSuffix, false)
	case m.UnencryptedRegex != "":
		return matches(m.UnencryptedRegex, true)
	case m.EncryptedRegex != "":
		return matches(m.EncryptedRegex, false)
	case m.UnencryptedCommentRegex != "", m.EncryptedCommentRegex != "":
		return rule{otherwise: func(string) bool { return false }, byComment: true}, nil
	}
	return suffix(cmp.Or(m.UnencryptedSuffix, "_unencrypted"), true)
}

// steps is the size of the program that a regular expression is.
func steps(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

// walk goes through a document in the order of the text.
type walk struct {
	meta   *metadata
	rule   rule
	key    []byte
	hash   hash.Hash
	values map[string]value
	failed *Problem
}

func (w *walk) fail(n *yaml.Node, path []string, code, format string, args ...any) {
	if w.failed == nil {
		w.failed = &Problem{Code: code, Line: n.Line, Message: printable(strings.Join(path, ".")) + ": " + fmt.Sprintf(format, args...)}
	}
}

// mapping goes through a mapping. The block of SOPS itself is no part of the document.
func (w *walk) mapping(n *yaml.Node, path []string, encrypted bool, depth int) {
	for i := 0; i+1 < len(n.Content) && w.failed == nil; i += 2 {
		key := n.Content[i]
		if depth == 0 && key.Value == "sops" {
			continue
		}
		way := under(path, key.Value)
		now := encrypted
		if now == w.rule.outset && w.rule.otherwise(key.Value) {
			now = !w.rule.outset
		}
		w.value(n.Content[i+1], way, now, depth+1)
	}
}

func (w *walk) value(n *yaml.Node, path []string, encrypted bool, depth int) {
	switch {
	case w.failed != nil:
	case depth > maxDepth:
		w.fail(n, path[:1], CodeMetadata, "is more than %d levels deep", maxDepth)
	case n.Kind == yaml.MappingNode:
		w.mapping(n, path, encrypted, depth)
	case n.Kind == yaml.SequenceNode:
		for _, e := range n.Content {
			w.value(e, path, encrypted, depth+1)
		}
	case n.Kind == yaml.ScalarNode:
		w.scalar(n, path, encrypted)
	}
}

func (w *walk) scalar(n *yaml.Node, path []string, encrypted bool) {
	var v any
	if err := n.Decode(&v); err != nil || v == nil {
		return
	}
	text, isText := v.(string)
	if w.rule.byComment {
		encrypted = isText && ciphertext.MatchString(text)
	}
	switch {
	case !encrypted:
		if !w.meta.MACOnlyEncrypted {
			w.hash.Write([]byte(sum(v)))
		}
		return
	case text == "" && isText:
		return // SOPS leaves it as it is
	case !isText || !ciphertext.MatchString(text):
		w.fail(n, path, CodeChanged, "is not encrypted, and the file was encrypted with a rule by which it is; write it with sops")
		return
	}
	p, err := decrypt(text, w.key, place(path))
	if err != nil {
		w.fail(n, path, CodeChanged, "%v", err)
		return
	}
	summed, err := p.summed()
	if err != nil {
		w.fail(n, path, CodeChanged, "%v", errKind)
		return
	}
	w.hash.Write([]byte(summed))
	opened := value{plain: p}
	if n := len(path) - 2; n == 0 || n == 1 && path[0] == "items" {
		opened.field, opened.key = path[n], path[n+1]
	}
	w.values[text] = opened
}
