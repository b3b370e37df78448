package sops

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render/project"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func keysOf(t testing.TB, names ...string) Keys {
	t.Helper()
	var all Keys
	for _, name := range names {
		keys, err := ParseKeys(read(t, "keys/"+name))
		if err != nil {
			t.Fatal(err)
		}
		all = all.With(keys)
	}
	return all
}

// ringOf grants the keys to the whole source.
func ringOf(t testing.TB, names ...string) *Keyring {
	t.Helper()
	r, err := Compile([]Grant{{Paths: []string{"."}, Keys: keysOf(t, names...)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// objects are those of the documents of a file, and of the items of a List.
func objects(t testing.TB, data []byte) (all []api.Object) {
	t.Helper()
	for _, doc := range strings.Split(string(data), "\n---\n") {
		content, _, err := canonical.Decode([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		o := content.(map[string]any)
		if items, ok := o["items"].([]any); ok {
			for _, item := range items { // the block of the List is that of each
				item := item.(map[string]any)
				if o["sops"] != nil {
					item["sops"] = o["sops"]
				}
				all = append(all, item)
			}
			continue
		}
		all = append(all, o)
	}
	return all
}

// vectors are the files that hold nothing but Secrets and open with the key.
var vectors = []struct{ sealed, plain, key string }{
	{"regex.yaml", "secret.yaml", "a.agekey"},
	{"mac-only.yaml", "secret.yaml", "a.agekey"},
	{"several.yaml", "several.yaml", "a.agekey"},
	{"list.yaml", "list.yaml", "a.agekey"},
	{"secret.json", "secret.json", "a.agekey"},
	{"for-b.yaml", "secret.yaml", "b.agekey"},
	{"for-both.yaml", "secret.yaml", "a.agekey"},
	{"for-both.yaml", "secret.yaml", "b.agekey"},
	{"for-both.yaml", "secret.yaml", "pgp-rsa2048.asc"},
	{"pgp-ed25519.yaml", "secret.yaml", "pgp-ed25519.asc"},
	{"pgp-rsa2048.yaml", "secret.yaml", "pgp-rsa2048.asc"},
	{"rotated.yaml", "secret.yaml", "a.agekey"},
}

// What SOPS encrypted comes out as it was before.
func TestOpensWhatSOPSEncrypted(t *testing.T) {
	for _, tt := range vectors {
		t.Run(tt.sealed+" with "+tt.key, func(t *testing.T) {
			data := read(t, "sealed/"+tt.sealed)
			v := ringOf(t, tt.key).Open(tt.sealed, map[string][]byte{tt.sealed: data})
			want := objects(t, read(t, "plain/"+tt.plain))
			for i, o := range objects(t, data) {
				s, problem := v.Seal(api.IDOf(o), o, o["sops"])
				if problem != nil {
					t.Fatal(problem)
				}
				before := canonical.YAML(o)
				got, err := s.Open(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, field := range []string{"data", "stringData"} {
					if diff := cmp.Diff(want[i][field], got[field]); diff != "" {
						t.Errorf("%s: -want +got\n%s", field, diff)
					}
				}
				if _, has := got["sops"]; has {
					t.Error("the block of SOPS is there still")
				}
				if string(canonical.YAML(o)) != string(before) {
					t.Error("the object was changed")
				}
			}
		})
	}
}

// documentOf is the only document that a file has.
func documentOf(t testing.TB, r *Keyring, file string, data []byte) *document {
	t.Helper()
	v := r.Open(file, map[string][]byte{file: data})
	if v == nil || len(v.docs) != 1 {
		t.Fatalf("%s: has not one document", file)
	}
	for _, d := range v.docs {
		return d
	}
	return nil
}

// The checksum fits every file, whatever rule says what is encrypted in it, and types of values are told apart.
func TestTheChecksumFitsWhatSOPSWrote(t *testing.T) {
	entries, err := os.ReadDir("testdata/sealed")
	if err != nil {
		t.Fatal(err)
	}
	r := ringOf(t, "a.agekey", "b.agekey", "pgp-ed25519.asc", "pgp-rsa2048.asc")
	for _, e := range entries {
		switch e.Name() {
		case "groups.yaml", "env.env":
			continue
		}
		all := parts(read(t, "sealed/"+e.Name()))
		for i := range all {
			all[i].wrong = nil // some are refused whatever the checksum says
			mac := all[i].meta.MAC
			if err := entry(all[i].root, "sops").Decode(&all[i].meta); err != nil || all[i].meta.MAC != mac {
				t.Fatal(err)
			}
		}
		if d := r.Read().document(e.Name(), all, r.of(e.Name()), r.of(e.Name())); d.state != opened {
			t.Errorf("%s: %s (line %d)", e.Name(), d.why.Message, d.why.Line)
		}
	}
}

func TestWhyAFileStaysClosed(t *testing.T) {
	regexFile := string(read(t, "sealed/regex.yaml"))
	for _, tt := range []struct {
		name, file string
		data       []byte
		ring       *Keyring
		want       string
		keyless    bool
	}{
		{"no keys at all", "regex.yaml", nil, nil, "there is no key for its folder", true},
		{"another key", "regex.yaml", nil, ringOf(t, "b.agekey"), "no key for . opens it: it is for age1", false},
		{"another PGP key", "pgp-rsa2048.yaml", nil, ringOf(t, "pgp-ed25519.asc"), "no key for . opens it: it is for PGP ", false},
		{"a key of another kind", "pgp-rsa2048.yaml", nil, ringOf(t, "a.agekey"), "no key for . opens it: it is for PGP ", false},
		{"key groups", "groups.yaml", nil, ringOf(t, "a.agekey", "b.agekey"), "several parts (key_groups), which is not supported", false},
		{"AWS and Vault", "kms.yaml", []byte(regexp.MustCompile(`(?s)    age:\n.*?    lastmodified`).ReplaceAllString(regexFile,
			"    kms:\n        - arn: arn:aws:kms:us-east-1:1:key/1\n          enc: eA==\n    hc_vault:\n        - vault_address: https://vault\n          enc: eA==\n    lastmodified")),
			ringOf(t, "a.agekey"), "is encrypted, and for AWS KMS, Vault alone, which is not supported; add a key of age or PGP", false},
		{"many keys", "many.yaml", []byte(strings.Replace(regexFile, "    age:\n", "    age:\n"+strings.Repeat("        - {recipient: x, enc: y}\n", 100), 1)),
			ringOf(t, "a.agekey"), "for more than 100 keys", false},
		{"nobody", "none.yaml", []byte(regexp.MustCompile(`(?s)    age:\n.*?    lastmodified`).ReplaceAllString(regexFile, "    lastmodified")),
			ringOf(t, "a.agekey"), "for no key alone", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.data == nil {
				tt.data = read(t, "sealed/"+tt.file)
			}
			d := documentOf(t, tt.ring, tt.file, tt.data)
			if d.state != locked || !strings.Contains(d.why.Message, tt.want) || d.why.keyless != tt.keyless || d.why.Code != CodeLocked {
				t.Errorf("state %d, keyless %t, %s: %q, want %q in it", d.state, d.why.keyless, d.why.Code, d.why.Message, tt.want)
			}
			for _, o := range objects(t, tt.data) {
				v := tt.ring.Open(tt.file, map[string][]byte{tt.file: tt.data})
				s, bad := v.Seal(api.IDOf(o), o, o["sops"])
				if bad != nil {
					t.Fatal(bad)
				}
				if _, err := s.Open(o); err == nil || s.Problem() == nil {
					t.Error("it opens")
				}
			}
		})
	}
}

// Whatever is changed after the encryption, the file is not used, and no message has a value in it.
func TestAChangedFileIsNotUsed(t *testing.T) {
	r := ringOf(t, "a.agekey")
	for _, tt := range []struct {
		name, file, old, new string
		code, want           string
	}{
		{"a field in the clear", "regex.yaml", "namespace: shop", "namespace: pay", CodeChanged, "the checksum does not fit"},
		{"a number in the clear", "regex.yaml", "- 1.5\n", "- 2.5\n", CodeChanged, "the checksum does not fit"},
		{"a field added", "regex.yaml", "type: Opaque\n", "type: Opaque\nmore: x\n", CodeChanged, "the checksum does not fit"},
		{"a field added that has the name of the block of SOPS", "regex.yaml", "    annotations:", "    sops: x\n    annotations:", CodeChanged, "the checksum does not fit"},
		{"a field taken out", "regex.yaml", "    namespace: shop\n", "", CodeChanged, "the checksum does not fit"},
		{"a value in the clear", "regex.yaml", "\ndata:\n", "\ndata:\n    more: aHVudGVyMg==\n", CodeChanged, "data.more: is not encrypted"},
		{"a value in the clear, of the encrypted alone", "mac-only.yaml", "\ndata:\n", "\ndata:\n    more: aHVudGVyMg==\n", CodeChanged, "data.more: is not encrypted"},
		{"a value in the clear of another kind", "configmap.yaml", "\ndata:\n", "\ndata:\n    more: aHVudGVyMg==\n", CodeChanged, "data.more: is not encrypted"},
		{"a value under another name", "regex.yaml", "    user: ENC", "    admin: ENC", CodeChanged, "data.admin: cannot be decrypted"},
		{"a value in another field", "regex.yaml", "stringData:", "stringdata:", CodeChanged, "the checksum does not fit"},
		{"a bit of a value", "regex.yaml", "user: ENC[AES256_GCM,data:", "user: ENC[AES256_GCM,data:AAAA", CodeChanged, "data.user: cannot be decrypted"},
		{"a type", "regex.yaml", "type:str]\n    password", "type:word]\n    password", CodeChanged, "data.user: has a type that is not known here"},
		{"a value taken out, of the encrypted alone", "mac-only.yaml", "    notes: ENC", "    # notes: ENC", CodeChanged, "the checksum does not fit"},
		{"the time", "regex.yaml", `lastmodified: "20`, `lastmodified: "21`, CodeChanged, "sops.mac: cannot be decrypted"},
		{"no time", "regex.yaml", `lastmodified: "20`, `lastmodified: "yesterday 20`, CodeMetadata, "sops.lastmodified: is no time"},
		{"the rule", "regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: ^(data)$", CodeChanged, "the checksum does not fit"},
		{"two rules", "regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: ^(data|stringData)$\n    encrypted_suffix: x", CodeMetadata, "more than one rule"},
		{"a rule that is none", "regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: (data", CodeMetadata, "is no regular expression"},
		{"a rule that takes long", "regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: (a{30}){30}", CodeMetadata, "takes too long"},
		{"a rule without end", "regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: " + strings.Repeat("a", 2000), CodeMetadata, "more than 1024 letters"},
		{"what the checksum is of", "regex.yaml", "    encrypted_regex", "    mac_only_encrypted: true\n    encrypted_regex", CodeChanged, "the checksum does not fit"},
		{"what the checksum is of, the other way", "mac-only.yaml", "    mac_only_encrypted: true\n", "", CodeChanged, "the checksum does not fit"},
		{"a document taken out", "several.yaml", "    name: three\n", "    name: three\n    more: x\n", CodeChanged, "the checksum does not fit"},
		{"depth", "regex.yaml", "type: Opaque", "type: " + strings.Repeat("[", 300) + strings.Repeat("]", 300), CodeMetadata, "more than 256 levels deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := string(read(t, "sealed/"+tt.file))
			changed := strings.Replace(data, tt.old, tt.new, 1)
			if changed == data {
				t.Fatalf("%q is not in it", tt.old)
			}
			d := documentOf(t, r, tt.file, []byte(changed))
			if d.state != bad || d.why.Code != tt.code || !strings.Contains(d.why.Message, tt.want) {
				t.Errorf("state %d, %s: %q, want %s: %q in it", d.state, d.why.Code, d.why.Message, tt.code, tt.want)
			}
			if d.why.Line == 0 || d.why.File != tt.file {
				t.Errorf("it is said of %s:%d", d.why.File, d.why.Line)
			}
			if secretWord.MatchString(d.why.Message) || d.values != nil {
				t.Errorf("a value is told: %s", d.why.Message)
			}
		})
	}
}

// secretWord is in no message.
var secretWord = regexp.MustCompile(`correct-horse|battery-staple|YWRh|Y29ycmVjdC1ob3JzZQ|aHVudGVyMg|AGE-SECRET`)

// A document that is taken out of a file, or gets to another place in it, makes the others useless.
func TestDocumentsOfOneFileBelongTogether(t *testing.T) {
	r := ringOf(t, "a.agekey")
	docs := strings.Split(string(read(t, "sealed/several.yaml")), "\n---\n")
	for _, tt := range []struct {
		name string
		docs []string
		want state
	}{
		{"as they were", docs, opened},
		{"two of three", docs[1:], bad},
		{"another order", []string{docs[2], docs[1], docs[0]}, bad},
		{"one twice", []string{docs[0], docs[0], docs[1], docs[2]}, bad},
		{"one more in the clear", append(slices.Clone(docs), "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"), opened},
	} {
		if d := documentOf(t, r, "f.yaml", []byte(strings.Join(tt.docs, "\n---\n"))); d.state != tt.want {
			t.Errorf("%s: state %d, want %d: %s", tt.name, d.state, tt.want, d.why.Message)
		}
	}
	// One that is broken costs no other.
	broken := "a: [\n---\n" + strings.Join(docs, "\n---\n") + "\n---\n\tx: {\n"
	if d := documentOf(t, r, "f.yaml", []byte(broken)); d.state != opened {
		t.Errorf("beside a broken one: state %d: %s", d.state, d.why.Message)
	}
	moved := strings.Replace(broken, "    password: ENC", "    passwort: ENC", 1)
	if d := documentOf(t, r, "f.yaml", []byte(moved)); d.state != bad || d.why.Line != 1+strings.Count(moved[:strings.Index(moved, "passwort")], "\n") {
		t.Errorf("state %d at line %d of\n%s", d.state, d.why.Line, moved)
	}
	// Encrypted one by one they are independent.
	joined := slices.Concat(read(t, "sealed/regex.yaml"), []byte("---\n"), read(t, "sealed/list.yaml"))
	v := r.Open("f.yaml", map[string][]byte{"f.yaml": joined})
	if len(v.docs) != 2 {
		t.Fatalf("%d documents, want 2", len(v.docs))
	}
	for _, d := range v.docs {
		if d.state != opened {
			t.Error(d.why.Message)
		}
	}
}

// Of any change of one byte the file is either as good as before, or not used. What comes out is never another value.
func TestNoByteChangesAValue(t *testing.T) {
	r := ringOf(t, "a.agekey")
	for _, name := range []string{"regex.yaml", "mac-only.yaml", "secret.json", "several.yaml"} {
		data := read(t, "sealed/"+name)
		good := documentOf(t, r, name, data)
		rapid.Check(t, func(t *rapid.T) {
			changed := slices.Clone(data)
			changed[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			for _, d := range r.Open(name, map[string][]byte{name: changed}).docs {
				if secretWord.MatchString(d.why.Message) {
					t.Fatalf("a value is told: %s", d.why.Message)
				}
				if d.state != opened {
					continue
				}
				for text, val := range d.values {
					if had, ok := good.values[text]; !ok || *had.text != *val.text || had.kind != val.kind || had.field != val.field || had.key != val.key {
						t.Fatalf("%s stands for something else", text)
					}
				}
				if !strings.HasPrefix(name, "several") && len(d.values) != len(good.values) {
					t.Fatalf("%d values, want %d", len(d.values), len(good.values))
				}
			}
		})
	}
}

// opener opens the first object of a vector after it was changed, as kustomize and overrides change it.
func opener(t *testing.T, name string, change func(o api.Object)) error {
	t.Helper()
	data := read(t, "sealed/"+name)
	o := objects(t, data)[0]
	change(o)
	s, bad := ringOf(t, "a.agekey").Open("k", map[string][]byte{"k/" + name: data}).Seal(api.IDOf(o), o, o["sops"])
	if bad != nil {
		return bad
	}
	opened, err := s.Open(o)
	if err == nil && opened["kind"] != "Secret" && secretWord.Match(canonical.YAML(opened)) {
		t.Errorf("a value is in a %v", opened["kind"])
	}
	if err == nil {
		// What an override makes of it later is no other matter.
		o["kind"], o["data"] = "ConfigMap", objects(t, data)[0]["data"]
		if _, err := s.Open(o); err == nil && o["data"] != nil {
			t.Error("values get into another kind")
		}
	}
	return err
}

// A value gets to where it was encrypted for, in a Secret, and nowhere else.
func TestACiphertextOpensInItsPlaceAlone(t *testing.T) {
	data := func(o api.Object) map[string]any { return o["data"].(map[string]any) }
	meta := func(o api.Object) map[string]any { return o["metadata"].(map[string]any) }
	nothing := func(api.Object) {}
	for _, tt := range []struct {
		name, file string
		change     func(o api.Object)
		code, path string // empty: it opens
	}{
		{"as it was", "regex.yaml", nothing, "", ""},
		{"under another name and in another namespace", "regex.yaml", func(o api.Object) { meta(o)["name"], meta(o)["namespace"] = "x-db", "y" }, "", ""},
		{"with a label", "regex.yaml", func(o api.Object) { meta(o)["labels"] = map[string]any{"a": "b"} }, "", ""},
		{"without one of its values", "regex.yaml", func(o api.Object) { delete(data(o), "user") }, "", ""},
		{"with one in the clear beside", "regex.yaml", func(o api.Object) { data(o)["more"] = "eA==" }, "", ""},
		{"without the block of SOPS, as a patch may leave it", "regex.yaml", func(o api.Object) { delete(o, "sops") }, "", ""},
		{"under another key", "regex.yaml", func(o api.Object) { data(o)["admin"] = data(o)["user"] }, CodeMisplaced, "data.admin"},
		{"in the other field", "regex.yaml", func(o api.Object) { o["stringData"] = map[string]any{"user": data(o)["user"]} }, CodeMisplaced, "stringData.user"},
		{"in an annotation", "regex.yaml", func(o api.Object) { meta(o)["annotations"] = map[string]any{"x": data(o)["user"]} }, CodeMisplaced, "metadata.annotations.x"},
		{"within a text", "regex.yaml", func(o api.Object) { data(o)["user"] = "user=" + data(o)["user"].(string) }, CodeMisplaced, "data.user"},
		{"in a list", "regex.yaml", func(o api.Object) { data(o)["user"] = []any{data(o)["user"]} }, CodeMisplaced, "data.user.0"},
		{"of another file", "regex.yaml", func(o api.Object) {
			data(o)["user"] = objects(t, read(t, "sealed/for-b.yaml"))[0]["data"].(map[string]any)["user"]
		}, CodeMisplaced, "data.user"},
		{"with the block of another file", "regex.yaml", func(o api.Object) {
			o["sops"] = objects(t, read(t, "sealed/for-b.yaml"))[0]["sops"]
		}, CodeMetadata, "sops"},
		{"without a checksum", "regex.yaml", func(o api.Object) { o["sops"] = map[string]any{} }, CodeMetadata, "sops"},
		{"encrypted in more than its values", "unencrypted-regex.yaml", nothing, CodeMisplaced, "immutable"},
		{"no text", "types.yaml", nothing, "wrong-type", "stringData.debug"},
		{"another kind", "configmap.yaml", nothing, CodeKind, "data.password"},
		{"another kind without a value", "configmap.yaml", func(o api.Object) { delete(o, "data") }, "", ""},
		{"another version", "regex.yaml", func(o api.Object) { o["apiVersion"] = "v2" }, CodeKind, "data.password"},
		{"in a Deployment", "regex.yaml", func(o api.Object) { o["apiVersion"], o["kind"] = "apps/v1", "Deployment"; delete(o, "sops") }, CodeKind, "data.password"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := opener(t, tt.file, tt.change)
			if tt.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			p, ok := err.(*Problem)
			if !ok || p.Code != tt.code || strings.Join(p.Path, ".") != tt.path {
				t.Errorf("%v, want %s of %s", err, tt.code, tt.path)
			}
		})
	}
}

// What is no object of Kubernetes' own is for its operator, and a text about SOPS is a text.
func TestWhatIsLeftAlone(t *testing.T) {
	secret := objects(t, read(t, "sealed/regex.yaml"))[0]
	text := secret["data"].(map[string]any)["user"].(string)
	r := ringOf(t, "a.agekey")
	for name, tt := range map[string]struct {
		vault *Vault
		o     api.Object
	}{
		"a custom resource": {r.Open("f", map[string][]byte{"f": read(t, "sealed/regex.yaml")}),
			api.Object{"apiVersion": "isindir.github.com/v1alpha3", "kind": "SopsSecret", "metadata": map[string]any{"name": "x"}, "spec": text, "sops": secret["sops"]}},
		"a text about SOPS": {r.Open("f", map[string][]byte{"f": []byte("x: " + begin)}),
			api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"README": "looks like " + text}}},
		"a plain Secret": {nil, api.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"a": "eA=="}}},
	} {
		s, bad := tt.vault.Seal(api.IDOf(tt.o), tt.o, tt.o["sops"])
		if s != nil || bad != nil {
			t.Errorf("%s: %v, %v, want nothing", name, s.Problem(), bad)
		}
		if got, err := s.Open(tt.o); err != nil || !cmp.Equal(got, tt.o) {
			t.Errorf("%s: is changed", name)
		}
	}
}

// A generator makes values of files: of one that was encrypted as a whole they are what was in it.
func TestGeneratorsOfEncryptedFiles(t *testing.T) {
	changed := strings.Replace(string(read(t, "sealed/binary.bin")), `"lastmodified": "20`, `"lastmodified": "21`, 1)
	for _, tt := range []struct {
		name string
		data []byte
		ring *Keyring
		code string // empty: it opens
	}{
		{"as a whole", read(t, "sealed/binary.bin"), ringOf(t, "a.agekey"), ""},
		{"as a whole, and then changed", []byte(changed), ringOf(t, "a.agekey"), CodeChanged},
		{"as a whole, for another key", read(t, "sealed/binary.bin"), ringOf(t, "b.agekey"), CodeLocked},
		{"variables", read(t, "sealed/env.env"), ringOf(t, "a.agekey"), CodeGenerated},
		{"a manifest", read(t, "sealed/regex.yaml"), ringOf(t, "a.agekey"), CodeGenerated},
	} {
		v := tt.ring.Open("k", map[string][]byte{"k/file": tt.data, "k/kustomization.yaml": []byte("x")})
		text := base64Of(tt.data)
		text = text[:70] + "\n" + text[70:] // as kustomize writes it
		o := api.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"f": text, "g": "eA=="}}
		s, problem := v.Seal(api.IDOf(o), o, nil)
		if problem == nil {
			problem = s.Problem()
		}
		switch {
		case tt.code == "" && problem == nil:
			got, err := s.Open(o)
			if err != nil || got["data"].(map[string]any)["f"] != base64Of(read(t, "plain/plain.bin")) || got["data"].(map[string]any)["g"] != "eA==" {
				t.Errorf("%s: %v, %v", tt.name, got, err)
			}
			o["kind"] = "ConfigMap"
			if got, err := s.Open(o); err == nil && got["data"].(map[string]any)["f"] != text {
				t.Errorf("%s: it opens in a ConfigMap", tt.name)
			}
		case problem == nil || problem.Code != tt.code || tt.code == CodeGenerated && !strings.Contains(problem.Message, "k/file"):
			t.Errorf("%s: %v, want %s", tt.name, problem, tt.code)
		case tt.code == CodeLocked:
			without, values, err := s.Withhold(o)
			if err != nil || len(values) != 1 || values[0] != (Withheld{"data", "f", text}) || without["data"].(map[string]any)["f"] != "" {
				t.Errorf("%s: without it, %v, %v, %v", tt.name, without, values, err)
			}
		}
	}
}

// A tampered copy beside the good file spoils both: which of them kustomize took nobody knows.
func TestTheWorseOfTwoCopiesCounts(t *testing.T) {
	good := read(t, "sealed/regex.yaml")
	changed := []byte(strings.Replace(string(good), "namespace: shop", "namespace: pay", 1))
	for _, files := range []map[string][]byte{{"a.yaml": good, "b.yaml": changed}, {"a.yaml": changed, "b.yaml": good}} {
		o := objects(t, good)[0]
		if _, bad := ringOf(t, "a.agekey").Open(".", files).Seal(api.IDOf(o), o, o["sops"]); bad == nil || bad.Code != CodeChanged {
			t.Errorf("%v, want %s", bad, CodeChanged)
		}
	}
}

func TestWithoutKeysThePlacesAreKnown(t *testing.T) {
	data := read(t, "sealed/regex.yaml")
	o := objects(t, data)[0]
	var none *Keyring
	s, bad := none.Open("f.yaml", map[string][]byte{"f.yaml": data}).Seal(api.IDOf(o), o, o["sops"])
	if bad != nil || !s.Problem().Keyless() {
		t.Fatalf("%v, %v", s.Problem(), bad)
	}
	without, values, err := s.Withhold(o)
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, v := range values {
		places = append(places, v.Field+"."+v.Key)
		if v.Ciphertext != o[v.Field].(map[string]any)[v.Key] {
			t.Errorf("%s.%s is %s", v.Field, v.Key, v.Ciphertext)
		}
	}
	if diff := cmp.Diff([]string{"data.password", "data.user", "stringData.notes", "stringData.url"}, places); diff != "" {
		t.Errorf("places: -want +got\n%s", diff)
	}
	if text := string(canonical.YAML(without)); strings.Contains(text, "ENC[") || strings.Contains(text, "sops") {
		t.Errorf("something of SOPS is left:\n%s", text)
	}
}

// Keys are for the files of a folder, in its project.
func TestKeysCountInTheirFolder(t *testing.T) {
	limits := func(name string, paths ...string) project.Limits {
		return project.Limits{Name: name, Paths: paths, Namespaces: []string{"*"}}
	}
	projects, err := project.Compile([]project.Limits{limits("ops", "."), limits("a", "teams/a"), limits("b", "teams/b")})
	if err != nil {
		t.Fatal(err)
	}
	a, b := keysOf(t, "a.agekey"), keysOf(t, "b.agekey")
	for _, tt := range []struct {
		name         string
		projects     *project.Set
		grants       []Grant
		file, sealed string
		unit         string
		want         string // empty: it opens
	}{
		{"the own folder", projects, []Grant{{[]string{"teams/a"}, a}}, "teams/a/x/s.yaml", "regex.yaml", "teams/a/x", ""},
		{"another team's file in the own folder", projects, []Grant{{[]string{"teams/a"}, a}, {[]string{"teams/b"}, b}}, "teams/a/s.yaml", "for-b.yaml", "teams/a", "no key for teams/a opens it"},
		{"a file of another team", projects, []Grant{{[]string{"teams/a"}, a}, {[]string{"teams/b"}, b}}, "teams/b/s.yaml", "for-b.yaml", "teams/a", "teams/b/s.yaml is decrypted with the keys for teams/b of project b, and what reads it belongs to the keys for teams/a of project a"},
		{"a file of another team with the same key", projects, []Grant{{[]string{"teams/a", "teams/b"}, a}}, "teams/b/s.yaml", "regex.yaml", "teams/a", "belongs to"},
		{"the keys of a folder above of another project", projects, []Grant{{[]string{"."}, a}}, "teams/a/s.yaml", "regex.yaml", "teams/a", "there is no key for its folder"},
		{"a longer folder", nil, []Grant{{[]string{"."}, a}, {[]string{"teams/b"}, b}}, "teams/b/s.yaml", "for-b.yaml", "teams/b", ""},
		{"a longer folder hides the shorter one", nil, []Grant{{[]string{"."}, a}, {[]string{"teams/b"}, b}}, "teams/b/s.yaml", "regex.yaml", "teams/b", "no key for teams/b opens it"},
		{"a longer name", nil, []Grant{{[]string{"teams/a"}, a}}, "teams/ab/s.yaml", "regex.yaml", "teams/ab", "there is no key for its folder"},
		{"two folders of one entry", nil, []Grant{{[]string{"base", "prod"}, a}}, "base/s.yaml", "regex.yaml", "prod", ""},
		{"keys that are not at hand", nil, []Grant{{[]string{"teams/a"}, Keys{}}}, "teams/a/s.yaml", "regex.yaml", "teams/a", "the key for teams/a is not at hand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Compile(tt.grants, tt.projects)
			if err != nil {
				t.Fatal(err)
			}
			v := r.Open(tt.unit, map[string][]byte{tt.file: read(t, "sealed/"+tt.sealed)})
			for _, d := range v.docs {
				if d.state == opened != (tt.want == "") || !strings.Contains(d.why.Message, tt.want) {
					t.Errorf("state %d: %q, want %q in it", d.state, d.why.Message, tt.want)
				}
			}
		})
	}
}

func TestGrantsThatMakeNoSense(t *testing.T) {
	projects, err := project.Compile([]project.Limits{{Name: "a", Paths: []string{"teams/a"}, Namespaces: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compile([]Grant{{}, {Paths: []string{"/etc", "teams/*", "teams/a", "teams/a", "teams/b"}}}, projects)
	want := []string{"decryption[0].paths: is missing", `decryption[1].paths[0]: "/etc" is no folder`, `decryption[1].paths[1]: "teams/*" is a pattern`,
		"decryption[1].paths[3]: teams/a has keys already", "decryption[1].paths[4]: no project holds teams/b"}
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%v, want %d errors", err, len(want))
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("%q, want %q", line, want[i])
		}
	}
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	good := string(read(t, "keys/a.agekey"))
	secret := regexp.MustCompile(`AGE-SECRET-KEY-\S+`).FindString(good)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "# nothing\n\n", "there is no key in it"},
		{"cut", good[:len(good)-5], "line 4: is no private key of age"},
		{"a public key", "age17dzegudfj6fzf00sfdgvlxa4hg9rktjvnedcngnv4cvac84pnv9q2p3996\n", "line 1: is no private key of age"},
		{"a plugin's", "AGE-PLUGIN-YUBIKEY-1QQQQQ\n", "line 1: is the identity of a plugin"},
		{"locked", string(read(t, "keys/locked.asc")), "is locked with a passphrase"},
		{"public", string(read(t, "keys/public.asc")), "no private OpenPGP key"},
		{"broken", strings.Replace(string(read(t, "keys/pgp-rsa2048.asc")), "\n\n", "\n\nAAAA", 1), "cannot be read"},
	} {
		keys, err := ParseKeys([]byte(tt.text))
		if err == nil || !keys.Empty() || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret[:30]) {
			t.Errorf("%s: %v, want %q in it", tt.name, err, tt.want)
		}
	}
	both := keysOf(t, "a.agekey", "pgp-rsa2048.asc")
	if text := fmt.Sprintf("%v %+v %#v %s", both, both, both, both); strings.Contains(text, "SECRET") || strings.Contains(text, "0x") {
		t.Errorf("keys print as %.80s", text)
	}
}

// A value prints as nothing, whatever holds it.
func TestValuesDoNotPrint(t *testing.T) {
	data := read(t, "sealed/regex.yaml")
	o := objects(t, data)[0]
	v := ringOf(t, "a.agekey").Open("f.yaml", map[string][]byte{"f.yaml": data})
	s, _ := v.Seal(api.IDOf(o), o, o["sops"])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, d := range v.docs {
			for _, x := range []any{d.values, *d, *s} {
				if text := fmt.Sprintf(verb, x); secretWord.MatchString(text) {
					t.Errorf("%s: a value is printed", verb)
				}
			}
		}
	}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// FuzzOpen: no bytes make it panic, and none of what it says has a value in it.
func FuzzOpen(f *testing.F) {
	for _, tt := range vectors {
		f.Add(read(f, "sealed/"+tt.sealed))
	}
	r := ringOf(f, "a.agekey", "b.agekey", "pgp-ed25519.asc")
	f.Fuzz(func(t *testing.T, data []byte) {
		v := r.Open("f.yaml", map[string][]byte{"f.yaml": data})
		if v == nil {
			return
		}
		for _, d := range v.docs {
			if secretWord.MatchString(d.why.Message) && !secretWord.Match(data) {
				t.Errorf("a value is told: %s", d.why.Message)
			}
		}
		content, _, err := canonical.Decode(data)
		o, ok := content.(map[string]any)
		if err != nil || !ok {
			return
		}
		s, _ := v.Seal(api.ID{Version: "v1", Kind: "Secret", Name: "x"}, o, o["sops"])
		if filled, err := s.Open(o); err == nil && ciphertexts.Match(canonical.YAML(filled)) && s != nil {
			t.Error("a ciphertext is left")
		}
	})
}

// FuzzKeys: no bytes make it panic, and an error has nothing of them.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{"a.agekey", "pgp-ed25519.asc", "locked.asc", "public.asc"} {
		f.Add(read(f, "keys/"+name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if keys, err := ParseKeys(data); (err == nil) == keys.Empty() {
			t.Errorf("%v, and empty is %t", err, keys.Empty())
		}
	})
}
