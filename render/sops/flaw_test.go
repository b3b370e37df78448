package sops

import (
	"regexp"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/api"
)

// What the checksum does not cover, and what can be read in two ways, is refused, with the key and without it.
func TestWhatTheChecksumDoesNotCoverIsRefused(t *testing.T) {
	first := regexp.MustCompile(`    user: ENC.*\n`).FindString(string(read(t, "sealed/regex.yaml")))
	for _, tt := range []struct {
		name, file, old, new string
		code, want           string
	}{
		{"a field once more, with nothing", "regex.yaml", "sops:\n", "stringData: {}\nsops:\n", CodeMetadata, "stringData: stands there twice"},
		{"a field once more, with null", "regex.yaml", "sops:\n", "data:\nsops:\n", CodeMetadata, "data: stands there twice"},
		{"a value once more, empty", "regex.yaml", first, first + "    user: \"\"\n", CodeMetadata, "data.user: stands there twice"},
		{"a name once more", "mac-only.yaml", "    name: db\n", "    name: db\n    name: ''\n", CodeMetadata, "metadata.name: stands there twice"},
		{"a key in quotes once more", "regex.yaml", "    name: db\n", "    name: db\n    \"na\\u006de\": ''\n", CodeMetadata, "metadata.name: stands there twice"},
		{"the block once more", "regex.yaml", "sops:\n", "sops: {}\nsops:\n", CodeMetadata, "sops: stands there twice"},
		{"a field of the block once more", "regex.yaml", "    encrypted_regex:", "    encrypted_regex: x\n    encrypted_regex:", CodeMetadata, "sops.encrypted_regex: stands there twice"},
		{"in a list", "regex.yaml", "- b: c\n", "- {b: c, b: ''}\n", CodeMetadata, "b: stands there twice"},
		{"an empty value", "regex.yaml", "stringData:\n", "stringData:\n    more: ''\n", CodeChanged, "stringData.more: is empty"},
		{"no value", "regex.yaml", "stringData:\n", "stringData:\n    more:\n", CodeChanged, "stringData.more: is empty"},
		{"an empty value in a List", "list.yaml", "      stringData:\n", "      stringData:\n        more: ''\n", CodeChanged, "items.0.stringData.more: is empty"},
		{"an empty value in a SecretList", "list.yaml", "kind: List\nitems:\n", "kind: SecretList\nitems:\n    - metadata: {name: x}\n      data: {more: ''}\n", CodeChanged, "items.0.data.more: is empty"},
		{"a field with nothing", "list.yaml", "      stringData:\n", "      data: {}\n      stringData:\n", CodeChanged, "items.0.data: has no values"},
		{"a field that is null", "list.yaml", "      stringData:\n", "      data:\n      stringData:\n", CodeChanged, "items.0.data: has no values"},
		{"values that comments leave in the clear", "encrypted-comment.yaml", "", "", CodeChanged, "data.user: is not encrypted"},
		{"values that suffixes leave in the clear", "encrypted-suffix.yaml", "", "", CodeChanged, "data.user_open: is not encrypted"},
		{"a mapping as a value", "mac-only.yaml", "stringData:\n", "stringData:\n    more: {a: b}\n", CodeChanged, "stringData.more: is not encrypted"},
		{"an anchor", "regex.yaml", "name: db\n", "name: &x db\n", CodeMetadata, "metadata.name: has an anchor"},
		{"an anchor in the block", "regex.yaml", "    age:\n        - rec", "    age:\n        - &x\n          rec", CodeMetadata, "sops.age.0: has an anchor"},
		{"a merge", "regex.yaml", "metadata:\n", "metadata:\n    <<: {namespace: ''}\n", CodeMetadata, "metadata: merges"},
		{"a tag of a key", "regex.yaml", "sops:\n", "!!binary c3RyaW5nRGF0YQ==: {x: ''}\nsops:\n", CodeMetadata, "has a tag"},
		{"a tag of a value", "regex.yaml", "kind: Secret\n", "kind: !!binary U2VjcmV0\n", CodeMetadata, "kind: has a tag"},
		{"a key that is no text", "regex.yaml", "metadata:\n", "metadata:\n    [a]: ''\n", CodeMetadata, "metadata: has a key that is no text"},
		{"what is no block", "regex.yaml", "    age:\n", "    age: x\n    more:\n", CodeMetadata, "sops: is not what SOPS writes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := string(read(t, "sealed/"+tt.file))
			changed := strings.Replace(data, tt.old, tt.new, 1)
			if changed == data && tt.old != "" {
				t.Fatalf("%q is not in it", tt.old)
			}
			for _, r := range []*Keyring{ringOf(t, "a.agekey"), nil} {
				d := documentOf(t, r, tt.file, []byte(changed))
				if d.state != bad || d.why.Code != tt.code || !strings.Contains(d.why.Message, tt.want) || d.why.Line == 0 || d.why.File != tt.file || d.values != nil {
					t.Errorf("state %d, %s:%d %s: %q, want %s: %q in it", d.state, d.why.File, d.why.Line, d.why.Code, d.why.Message, tt.code, tt.want)
				}
			}
		})
	}
}

// Whoever puts a guess in place of a value is told the same, whether the guess is right.
func TestAGuessIsAnsweredTheSame(t *testing.T) {
	r := ringOf(t, "a.agekey")
	plain := regexp.MustCompile(`    url: .*\n`).FindString(string(read(t, "plain/secret.yaml")))
	sealed := regexp.MustCompile(`    url: ENC.*\n`)
	for _, rule := range []string{"^(data|stringData)$", "^(data|notes)$"} {
		var told []Problem
		for _, guess := range []string{plain, "    url: wrong\n"} {
			data := sealed.ReplaceAllLiteralString(string(read(t, "sealed/regex.yaml")), guess)
			data = strings.Replace(data, "encrypted_regex: ^(data|stringData)$", "encrypted_regex: "+rule, 1)
			d := documentOf(t, r, "f.yaml", []byte(data))
			if d.state != bad {
				t.Fatalf("%s: state %d", rule, d.state)
			}
			told = append(told, d.why)
		}
		if told[0].Message != told[1].Message || told[0].Line != told[1].Line || told[0].Code != told[1].Code {
			t.Errorf("%s: the right one is answered %v, and a wrong one %v", rule, told[0], told[1])
		}
	}
}

// In a file each document opens its own ciphertexts alone; in what a kustomization builds nobody knows which is whose.
func TestACiphertextOpensInItsOwnDocument(t *testing.T) {
	data := string(read(t, "sealed/regex.yaml"))
	url := regexp.MustCompile(`url: ENC.*\n`).FindString(data)
	data += "---\napiVersion: v1\nkind: Secret\nmetadata: {name: stolen, namespace: evil}\nstringData:\n  " + url
	r := ringOf(t, "a.agekey")
	all := objects(t, []byte(data))
	for _, unit := range []string{"f.yaml", "."} {
		v := r.Open(unit, map[string][]byte{"f.yaml": []byte(data)})
		if _, problem := v.Seal(api.IDOf(all[0]), all[0], all[0]["sops"]); problem != nil {
			t.Errorf("%s: %v", unit, problem)
		}
		_, problem := v.Seal(api.IDOf(all[1]), all[1], nil)
		if refused := problem != nil && problem.Code == CodeChanged; refused != (unit == "f.yaml") {
			t.Errorf("%s: the copy: %v", unit, problem)
		}
	}
	// Nor does the block of a document open a copy that is no document of its own, or that SOPS would not find.
	for _, tt := range []struct {
		name   string
		change func(o api.Object)
		want   bool
	}{
		{"itself", func(api.Object) {}, true},
		{"another namespace", func(o api.Object) { o["metadata"].(map[string]any)["namespace"] = "evil" }, false},
		{"another name", func(o api.Object) { o["metadata"].(map[string]any)["name"] = "evil" }, false},
		{"one value less", func(o api.Object) { delete(o["data"].(map[string]any), "user") }, false},
		{"one more", func(o api.Object) { o["data"].(map[string]any)["more"] = "eA==" }, false},
		{"another field", func(o api.Object) { o["stringData"], o["data"] = o["data"], o["stringData"] }, false},
	} {
		o := objects(t, read(t, "sealed/regex.yaml"))[0]
		tt.change(o)
		v := r.Open("f.yaml", map[string][]byte{"f.yaml": read(t, "sealed/regex.yaml")})
		s, problem := v.Seal(api.IDOf(o), o, o["sops"])
		if problem == nil {
			_, err := s.Open(o)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if (problem == nil) != tt.want || problem != nil && problem.Code != CodeChanged {
			t.Errorf("%s: %v", tt.name, problem)
		}
	}
}
