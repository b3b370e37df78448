package kustomize

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// secrets are the values of Secrets among what a build reads, in the forms in which messages may quote them.
type secrets map[string]bool

// hide is the message without the values of Secrets that are in the files, or that generators there make them of.
func hide(fsys fs.FS, files map[string]bool, message string) string {
	s := secrets{}
	for name := range files {
		s.file(fsys, name)
	}
	longestFirst := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(longestFirst))
	for _, value := range longestFirst {
		pairs = append(pairs, value, "(redacted)")
	}
	return strings.NewReplacer(pairs...).Replace(message)
}

func (s secrets) file(fsys fs.FS, name string) {
	data, err := read(fsys, name)
	if err != nil {
		return
	}
	for d := yaml.NewDecoder(bytes.NewReader(data)); err == nil; {
		var doc any
		if err = d.Decode(&doc); err == nil {
			s.look(fsys, path.Dir(name), doc, 0)
		}
	}
	if err != io.EOF && bytes.Contains(data, []byte("Secret")) { // broken; line by line, what may be a value
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, ": "); ok && !slices.Contains(open, strings.Trim(key, " -")) {
				s.add(strings.Trim(strings.TrimSpace(value), `'"`))
			}
		}
	}
}

// open are the fields of Secrets, and of what is about them, whose values anybody may read.
var open = []string{"apiVersion", "kind", "metadata", "type", "immutable", "name", "namespace"}

// maxDepth limits texts within texts.
const maxDepth = 8

// look finds Secrets, patches of them and generators in a document, and in texts within it, such as inline patches.
func (s secrets) look(fsys fs.FS, dir string, v any, depth int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s.look(fsys, dir, e, depth)
		}
	case string:
		var inner any
		if depth < maxDepth && strings.ContainsAny(v, "\n{[") {
			if yaml.Unmarshal([]byte(v), &inner) == nil && inner != any(v) {
				s.look(fsys, dir, inner, depth+1)
			}
		}
	case map[string]any:
		if v["kind"] == "Secret" {
			for field, value := range v {
				if !slices.Contains(open, field) {
					s.all(value)
				}
			}
		}
		if at, _ := v["path"].(string); v["op"] != nil && (strings.HasPrefix(at, "/data") || strings.HasPrefix(at, "/stringData")) {
			s.all(v["value"])
		}
		if v["kind"] == "SecretGenerator" {
			s.generator(fsys, dir, v)
		}
		generators, _ := v["secretGenerator"].([]any)
		for _, g := range generators {
			if g, ok := g.(map[string]any); ok {
				s.generator(fsys, dir, g)
			}
		}
		for _, value := range v {
			s.look(fsys, dir, value, depth)
		}
	}
}

// generator adds what a generator of a Secret makes its values of.
func (s secrets) generator(fsys fs.FS, dir string, g map[string]any) {
	pair := func(text string) {
		_, value, ok := strings.Cut(text, "=")
		if !ok {
			value = text
		}
		s.add(value)
		s.add(strings.Trim(strings.TrimSpace(value), `'"`))
	}
	content := func(file string) string {
		data, _ := read(fsys, name(path.Join(dir, file)))
		return string(data)
	}
	for _, literal := range texts(g["literals"]) {
		pair(literal)
	}
	for _, file := range texts(g["files"]) {
		_, at, ok := strings.Cut(file, "=")
		if !ok {
			at = file
		}
		s.add(content(at))
	}
	for _, file := range append(texts(g["envs"]), texts(g["env"])...) {
		for line := range strings.Lines(content(file)) {
			pair(line)
		}
	}
}

// texts are a text, or those of a list.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		all = append(all, v)
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	}
	return all
}

// all adds every value below v.
func (s secrets) all(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			s.all(value)
		}
	case []any:
		for _, value := range v {
			s.all(value)
		}
	case nil, bool:
	default:
		s.add(fmt.Sprint(v))
	}
}

const (
	// shortest is what is taken for a value: what is shorter is a part of any text.
	shortest = 3
	// cutAt is where YAML's errors cut what they quote.
	cutAt = 7
)

// add takes a value in its forms: as it is, encoded, decoded, each line of it alone, and cut.
func (s secrets) add(value string) {
	forms := []string{value, base64.StdEncoding.EncodeToString([]byte(value))}
	if plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value), "")); err == nil {
		forms = append(forms, string(plain))
	}
	for _, form := range forms {
		for _, text := range append(strings.Split(form, "\n"), form) {
			if text = strings.TrimSpace(text); len(text) >= shortest {
				s[text] = true
			}
			if len(text) > cutAt {
				s[text[:cutAt]+"..."] = true
			}
		}
	}
}
