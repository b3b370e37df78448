package sops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/godwit-gitops/godwit/api"
)

// flaw is what a document has that SOPS does not write, or that no checksum of SOPS covers; nil if there is nothing. It is looked for
// before the checksum is, and needs no key: what a guess at a value is answered with is the same whether the guess is right.
func (p *part) flaw() *Problem {
	f := flaws{first: p.first}
	f.form(p.root, nil)
	if !isFile(p.root) {
		f.secrets(p.root, nil, "")
	}
	p.secrets = f.looks
	return f.found
}

type flaws struct {
	first int
	found *Problem // the first one
	looks []string // of Secrets
}

// look is what a Secret has to have in common with one that was read, to be that one: readers of YAML may differ about where a document
// begins and what is in it.
func look(kind, namespace, name string, values []string) string {
	slices.Sort(values)
	return fmt.Sprintf("%q", append([]string{kind, namespace, name}, values...))
}

// lookOf is that of an object.
func lookOf(o api.Object) string {
	id := api.IDOf(o)
	var values []string
	for _, field := range []string{"data", "stringData"} {
		m, _ := o[field].(map[string]any)
		for key, v := range m {
			values = append(values, fmt.Sprintf("%q", []any{field, key, v}))
		}
	}
	return look(id.Kind, id.Namespace, id.Name, values)
}

func (f *flaws) add(n *yaml.Node, path []string, code, format string, args ...any) {
	if f.found == nil {
		f.found = &Problem{Code: code, Line: n.Line + f.first - 1, Message: printable(strings.Join(path, ".")) + ": " + fmt.Sprintf(format, args...)}
	}
}

// form refuses what makes of one text two documents, for those who read it in two ways: the checksum is of the nodes as they stand there,
// and the object is what YAML makes of them.
func (f *flaws) form(n *yaml.Node, path []string) {
	const wrote = "as nothing that SOPS wrote has; encrypt the file again"
	switch {
	case f.found != nil:
		return
	case n.Anchor != "": // before it there is no alias
		f.add(n, path, CodeMetadata, "has an anchor, %s", wrote)
	case n.Style&yaml.TaggedStyle != 0:
		f.add(n, path, CodeMetadata, "has a tag, %s", wrote)
	}
	if n.Kind != yaml.MappingNode {
		for i, e := range n.Content {
			f.form(e, under(path, strconv.Itoa(i)))
		}
		return
	}
	had := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		way := under(path, key.Value)
		f.form(key, way)
		switch {
		case key.Kind != yaml.ScalarNode:
			f.add(key, path, CodeMetadata, "has a key that is no text, %s", wrote)
		case key.Value == "<<":
			f.add(key, path, CodeMetadata, "merges another mapping into it, %s", wrote)
		case had[key.Value]:
			f.add(key, way, CodeMetadata, "stands there twice, and of the two only one counts; take one out, and encrypt the file again")
		}
		had[key.Value] = true
		f.form(n.Content[i+1], way)
	}
}

// secrets refuses Secrets with values that are not encrypted. Whatever the rule of the file says: who has no key can add such a value
// where the checksum is of encrypted ones alone, and an empty one or null anywhere. Implied is the kind of an item that names none.
func (f *flaws) secrets(n *yaml.Node, path []string, implied string) {
	kind := implied
	if k := entry(n, "kind"); k != nil {
		kind = k.Value
	}
	if items := entry(n, "items"); items != nil && strings.HasSuffix(kind, "List") {
		for i, item := range items.Content {
			f.secrets(item, under(path, "items", strconv.Itoa(i)), strings.TrimSuffix(kind, "List"))
		}
	}
	if kind != "Secret" {
		return
	}
	var all []string
	for _, field := range []string{"data", "stringData"} {
		values := entry(n, field)
		if values == nil {
			continue
		}
		if values.Kind != yaml.MappingNode || len(values.Content) == 0 {
			f.add(values, under(path, field), CodeChanged, "has no values, and nothing shows whether it had any when the file was encrypted; leave it out")
		}
		for i := 0; i+1 < len(values.Content); i += 2 {
			way := under(path, field, values.Content[i].Value)
			all = append(all, fmt.Sprintf("%q", []any{field, values.Content[i].Value, values.Content[i+1].Value}))
			switch v := values.Content[i+1]; {
			case v.Kind == yaml.ScalarNode && ciphertext.MatchString(v.Value):
			case v.Kind == yaml.ScalarNode && (v.Value == "" || v.ShortTag() == "!!null"):
				f.add(v, way, CodeChanged, "is empty, which SOPS does not encrypt, so that anybody may have put it there; leave the key out, or encrypt a space")
			default:
				f.add(v, way, CodeChanged, "is not encrypted, and beside values that are, every one has to be: nothing shows who put it there; "+
					"encrypt all of data and stringData (--encrypted-regex '^(data|stringData)$'), or put it into another object")
			}
		}
	}
	text := func(field string) string {
		if meta := entry(n, "metadata"); meta != nil {
			if v := entry(meta, field); v != nil && v.ShortTag() != "!!null" {
				return v.Value
			}
		}
		return ""
	}
	f.looks = append(f.looks, look(kind, text("namespace"), text("name"), all))
}

// under is a longer path, which shares nothing with others.
func under(path []string, more ...string) []string {
	return append(path[:len(path):len(path)], more...)
}
