package sops

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/godwit-gitops/godwit/api"
)

// Codes of problems, which are those of findings.
const (
	// CodeLocked: no key opens it.
	CodeLocked = "not-decrypted"
	// CodeChanged: it is not as it was encrypted.
	CodeChanged = "sops-changed"
	// CodeMetadata: it is not what SOPS writes.
	CodeMetadata = "sops-metadata"
	// CodeMisplaced: a ciphertext stands where no decrypted value may get to.
	CodeMisplaced = "sops-misplaced"
	// CodeKind: another kind than Secret is encrypted.
	CodeKind = "sops-kind"
	// CodeGenerated: a generator made a Secret of a file whose values are encrypted one by one.
	CodeGenerated = "sops-generated"
)

// Problem is why an object is not decrypted.
type Problem struct {
	Code string
	// File and Line are where it is; empty for the object's own.
	File string
	Line int
	// Path is the field of the object; nil for the object as a whole.
	Path    []string
	Message string

	keyless bool
}

func (p *Problem) Error() string { return p.Message }

// Keyless tells whether it is for want of any key alone: nobody here could know more.
func (p *Problem) Keyless() bool { return p.keyless }

// Vault is what the ciphertexts of one unit of the source stand for. A nil one knows none.
type Vault struct {
	docs map[string]*document // by checksum
	in   map[string][]string  // ciphertext -> the checksums of documents that have it
	// known are ciphertexts of any kind of file, with its name.
	known map[string]string
	// files are those that were encrypted as a whole, by their content, with the ciphertext in them.
	files map[string]string
	// built tells that the unit is what a kustomization builds: which document of its files an object is of, nobody knows then. In
	// a single file each document opens its own ciphertexts alone.
	built bool
}

// Mentions tells whether a file may hold anything that SOPS encrypted.
func Mentions(data []byte) bool { return bytes.Contains(data, []byte(begin)) }

// IsCiphertext tells whether a text is nothing but a ciphertext.
func IsCiphertext(text string) bool { return ciphertext.MatchString(text) }

// Open looks at the files of a unit, which is a file or the folder of a kustomization. It returns nil if nothing in them is
// encrypted.
func (r *Keyring) Open(unit string, files map[string][]byte) *Vault {
	return r.Read().Open(unit, files)
}

// Open is that of a Keyring, for one unit of many.
func (r *Reading) Open(unit string, files map[string][]byte) *Vault {
	var v *Vault
	in := r.ring.of(unit)
	_, single := files[unit]
	for _, file := range slices.Sorted(maps.Keys(files)) {
		data := files[file]
		if !Mentions(data) {
			continue
		}
		if v == nil {
			v = &Vault{map[string]*document{}, map[string][]string{}, map[string]string{}, map[string]string{}, !single}
		}
		for _, text := range ciphertexts.FindAll(data, -1) {
			if _, ok := v.known[string(text)]; !ok {
				v.known[string(text)] = file
			}
		}
		v.add(r, file, data, in)
	}
	return v
}

// add opens the documents of a file.
func (v *Vault) add(r *Reading, file string, data []byte, in realm) {
	together := map[string][]part{}
	var order []string
	for _, p := range parts(data) {
		if isFile(p.root) {
			v.files[string(data)] = entry(p.root, "data").Value
		}
		if p.meta.MAC == "" {
			continue // Seal says it of the object
		}
		if together[p.meta.MAC] == nil {
			order = append(order, p.meta.MAC)
		}
		together[p.meta.MAC] = append(together[p.meta.MAC], p)
	}
	for _, mac := range order {
		d := r.document(file, together[mac], in, r.ring.of(file))
		for _, p := range together[mac] {
			for _, text := range scalars(p.root) {
				v.in[text] = append(v.in[text], mac)
			}
		}
		// Of two files that share a checksum, as copies do, the worse one counts.
		if had := v.docs[mac]; had == nil || had.state < d.state {
			v.docs[mac] = d
		}
	}
}

// scalars are the ciphertexts that are values of their own.
func scalars(n *yaml.Node) (all []string) {
	if n.Kind == yaml.ScalarNode && ciphertext.MatchString(n.Value) {
		all = append(all, n.Value)
	}
	for _, e := range n.Content {
		all = append(all, scalars(e)...)
	}
	return all
}

// document is that with the checksum; nil if there is none.
func (v *Vault) document(mac string) *document {
	if v == nil {
		return nil
	}
	return v.docs[mac]
}

// find is a document that has the ciphertext: one that is open, if there is any.
func (v *Vault) find(text string) (best *document) {
	if v == nil {
		return nil
	}
	for _, mac := range v.in[text] {
		if d := v.docs[mac]; best == nil || d.state == opened {
			best = d
		}
	}
	return best
}

// knows tells whether a file that was read has the ciphertext.
func (v *Vault) knows(text string) bool {
	if v == nil {
		return false
	}
	_, ok := v.known[text]
	return ok
}

// Sealed is what is encrypted in one object. A nil one holds nothing.
type Sealed struct {
	problem *Problem         // why it cannot be opened; nil if it can
	values  map[string]value // by ciphertext
	// files are values of which each is an encrypted file, in base64, and what stands for them; nil if that is not known.
	files map[string]*string
}

// Problem is why the object cannot be decrypted; nil if it can.
func (s *Sealed) Problem() *Problem {
	if s == nil {
		return nil
	}
	return s.problem
}

// native tells kinds of Kubernetes' own. What others are encrypted for is their operators' business.
func native(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// isSecret tells whether values may get into the object.
func isSecret(o api.Object) bool { return o["kind"] == "Secret" && o["apiVersion"] == "v1" }

// Seal finds what is encrypted in an object of the unit; nil if nothing is. Block is what SOPS added to the document that the
// object stands in, which is the object itself or a List of it; nil if there is none. With a problem the object is not as
// it was encrypted, and is not to be used.
func (v *Vault) Seal(id api.ID, o api.Object, block any) (*Sealed, *Problem) {
	has := block != nil
	if v == nil && !has || !native(id.Group) {
		return nil, nil
	}
	if !isSecret(o) {
		if at := v.stray(o); at != nil {
			return &Sealed{problem: &Problem{Code: CodeKind, Path: at, Message: fmt.Sprintf(
				"is encrypted, and only Secrets are decrypted: what a %s holds is recorded; put it into a Secret, or do not encrypt it", id.Kind)}}, nil
		}
		if !has {
			return nil, nil
		}
	}
	s := &Sealed{values: map[string]value{}, files: map[string]*string{}}
	var docs []*document
	also := func(d *document) {
		if d != nil && !slices.Contains(docs, d) {
			docs = append(docs, d)
		}
	}
	if has {
		meta, _ := block.(map[string]any)
		mac, _ := meta["mac"].(string)
		switch d := v.document(mac); {
		case d != nil:
			also(d)
		case mac == "":
			s.problem = &Problem{Code: CodeMetadata, Path: []string{"sops"}, Message: "has no checksum (mac), without which nobody knows whether the file is as it was encrypted; encrypt it again"}
		default:
			s.problem = &Problem{Code: CodeMetadata, Path: []string{"sops"}, Message: "is not what SOPS wrote in a file that was read here; encrypt the file again"}
		}
	}
	var own *document
	if len(docs) > 0 {
		own = docs[0]
		if own.state != bad && !v.built && isSecret(o) && !slices.Contains(own.secrets, lookOf(o)) {
			return nil, &Problem{Code: CodeChanged, Path: []string{"sops"}, Message: "sops: is the block of another document, so that nothing shows what this one was when it was encrypted; encrypt it again"}
		}
	}
	encrypted := false
	var copied *Problem
	each(o, nil, func(path []string, text string) {
		for _, c := range ciphertexts.FindAllString(text, -1) {
			encrypted = encrypted || c == text || v.knows(c)
			d := own
			switch {
			case v != nil && v.built:
				d = v.find(c)
			case copied == nil && !has && v != nil && v.in[c] != nil:
				copied = &Problem{Code: CodeChanged, File: v.known[c], Message: strings.Join(path, ".") +
					": is a ciphertext of another document of the file, and nothing shows who put it here; encrypt this document, too, or take it out"}
			}
			if d != nil {
				also(d)
				if val, ok := d.values[c]; ok {
					s.values[c] = val
				}
			}
		}
	})
	if copied != nil {
		return nil, copied
	}
	encrypted = v.generated(o, s, also) || encrypted
	if !has && !encrypted {
		return nil, nil // a text about SOPS, or nothing
	}
	for _, d := range docs {
		switch {
		case d.state == bad:
			return nil, &d.why
		case d.state == locked && s.problem == nil && encrypted: // else it stands in one file with what is
			s.problem = &d.why
		}
	}
	return s, nil
}

// stray is the first place of a ciphertext in an object that is no Secret; nil if it has none.
func (v *Vault) stray(o api.Object) (at []string) {
	each(o, nil, func(path []string, text string) {
		for _, c := range ciphertexts.FindAllString(text, -1) {
			if at == nil && (c == text || v.knows(c)) {
				at = slices.Clone(path)
			}
		}
	})
	return at
}

// generated finds values that a generator made of encrypted files, and tells whether there are any.
func (v *Vault) generated(o api.Object, s *Sealed, also func(*document)) (found bool) {
	values, _ := o["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text, _ := values[key].(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if v == nil || !isSecret(o) || err != nil || !Mentions(data) {
			continue
		}
		if c, ok := v.files[string(data)]; ok {
			found = true
			s.files[text] = nil
			if d := v.find(c); d != nil {
				also(d)
				if val, ok := d.values[c]; ok {
					opened := base64.StdEncoding.EncodeToString([]byte(*val.text))
					s.files[text] = &opened
				}
			}
			continue
		}
		for _, c := range ciphertexts.FindAllString(string(data), -1) {
			if v.knows(c) {
				found = true
				s.problem = cmp.Or(s.problem, &Problem{Code: CodeGenerated, Path: []string{"data", key}, Message: fmt.Sprintf(
					"is made by a generator of %s, whose values are encrypted one by one: encrypt it as a whole (sops encrypt --input-type binary) and name it under files, or encrypt a manifest of kind Secret", v.known[c])})
				break
			}
		}
	}
	return found
}

// each calls do for every text of an object, but for the block of SOPS, in the order of paths.
func each(v any, path []string, do func(path []string, text string)) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, begin) {
			do(path, v)
		}
	case []any:
		for i, e := range v {
			each(e, append(path[:len(path):len(path)], strconv.Itoa(i)), do)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if len(path) > 0 || key != "sops" {
				each(v[key], append(path[:len(path):len(path)], key), do)
			}
		}
	}
}

// Open puts the values in and takes the block of SOPS away. The object is not changed. An error is a [Problem].
func (s *Sealed) Open(o api.Object) (api.Object, error) {
	if s == nil {
		return o, nil
	}
	if s.problem != nil {
		return nil, s.problem
	}
	return s.fill(o, func(field, key, text string) (string, error) {
		at := []string{field, key}
		if opened, ok := s.files[text]; ok && opened != nil {
			return *opened, nil
		}
		switch v, ok := s.values[text]; {
		case !ok:
			return "", misplaced(at, "is a ciphertext for which no file that was read here has the key: it lost the block of SOPS, or was copied from elsewhere")
		case v.field != field || v.key != key:
			return "", misplaced(at, "is a ciphertext that belongs elsewhere: SOPS binds each to its key")
		case !v.isText():
			return "", &Problem{Code: "wrong-type", Path: at, Message: "is encrypted as a value that is no string; put it in quotes, and encrypt it again"}
		default:
			return *v.text, nil
		}
	})
}

// Withheld is a value that nobody here can know.
type Withheld struct{ Field, Key, Ciphertext string }

// Withhold is Open where there are no keys: what stands for the values is empty, and they are returned as they were encrypted.
func (s *Sealed) Withhold(o api.Object) (without api.Object, values []Withheld, err error) {
	without, err = s.fill(o, func(field, key, text string) (string, error) {
		values = append(values, Withheld{field, key, text})
		return "", nil
	})
	return without, values, err
}

func misplaced(path []string, message string) *Problem {
	return &Problem{Code: CodeMisplaced, Path: path, Message: message}
}

// fill puts something in the place of each ciphertext, which may stand nowhere but in the values of a Secret.
func (s *Sealed) fill(o api.Object, with func(field, key, text string) (string, error)) (api.Object, error) {
	filled, secret := maps.Clone(o), isSecret(o)
	delete(filled, "sops")
	var failed error
	for _, field := range []string{"data", "stringData"} {
		values, ok := o[field].(map[string]any)
		if !ok || !secret {
			continue
		}
		values = maps.Clone(values)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text, _ := values[key].(string)
			if _, file := s.files[text]; failed != nil || !file && !ciphertext.MatchString(text) {
				continue
			}
			values[key], failed = with(field, key, text)
		}
		filled[field] = values
	}
	if failed != nil {
		return nil, failed
	}
	each(o, nil, func(path []string, text string) {
		value := secret && len(path) == 2 && (path[0] == "data" || path[0] == "stringData") && ciphertext.MatchString(text)
		if failed == nil && !value && ciphertexts.MatchString(text) {
			failed = misplaced(slices.Clone(path), "holds a ciphertext, and nothing is decrypted but whole values of data and stringData of a Secret; encrypt these alone (--encrypted-regex '^(data|stringData)$')")
		}
	})
	if failed != nil {
		return nil, failed
	}
	return filled, nil
}
