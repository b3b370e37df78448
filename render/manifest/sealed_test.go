package manifest

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/render/sops"
)

func sealedFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../sops/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func sealedRing(t *testing.T) *sops.Keyring {
	t.Helper()
	keys, err := sops.ParseKeys([]byte(sealedFile(t, "keys/a.agekey")))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sops.Compile([]sops.Grant{{Paths: []string{"."}, Keys: keys}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// passwordOf is what the object's password stands for.
func passwordOf(t *testing.T, o *Object) string {
	t.Helper()
	opened, err := o.Sealed.Open(o.Content)
	if err != nil {
		return err.Error()
	}
	values, _ := opened["stringData"].(map[string]any)
	return fmt.Sprint(values["password"])
}

func TestObjectsKnowWhatIsEncryptedInThem(t *testing.T) {
	changed := strings.Replace(sealedFile(t, "sealed/several.yaml"), "name: one", "name: uno", 1)
	lone := "apiVersion: v1\nkind: Secret\nmetadata: {name: lone}\nstringData:\n  password: " + ciphertextIn(sealedFile(t, "sealed/hydrate.yaml")) + "\n"
	units := Read(fstest.MapFS{
		"list.yaml":    {Data: []byte(sealedFile(t, "sealed/list.yaml"))},
		"several.yaml": {Data: []byte(sealedFile(t, "sealed/several.yaml") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: plain}\nstringData: {password: x}\n")},
		"changed.yaml": {Data: []byte(changed)},
		"whole.yaml":   {Data: []byte(sealedFile(t, "sealed/whole.yaml"))},
		// What has nothing encrypted belongs to the whole, too.
		"long.yaml":   {Data: []byte(strings.Replace(sealedFile(t, "sealed/list.yaml"), "items:\n", "items:\n    - {apiVersion: v1, kind: ConfigMap, metadata: {name: more}}\n", 1))},
		"lone.yaml":   {Data: []byte(lone)},
		"values.yaml": {Data: []byte(strings.NewReplacer("kind: Secret\n", "", "apiVersion: v1\n", "").Replace(strings.Replace(sealedFile(t, "sealed/hydrate.yaml"), "name: db", "name: x", 1)))},
	}, Options{Keys: sealedRing(t)})
	var got strings.Builder
	for _, u := range units {
		for _, f := range u.Findings {
			fmt.Fprintf(&got, "%s:%d %s %s broken=%t\n", f.File, f.Line, f.Code, f.Object, u.Broken)
		}
		for _, o := range u.Objects {
			fmt.Fprintf(&got, "%s %s: %.30s\n", o.Origin, o.ID, passwordOf(t, o))
		}
	}
	const want = `changed.yaml:19 sops-changed Secret uno broken=true
changed.yaml:19 sops-changed ConfigMap two broken=true
changed.yaml:19 sops-changed Secret three broken=true
list.yaml:4 Secret one: correct-horse
list.yaml:10 Secret two: battery-staple
lone.yaml:1 Secret lone: is a ciphertext for which no f
long.yaml:29 sops-changed ConfigMap more broken=true
long.yaml:29 sops-changed Secret one broken=true
long.yaml:29 sops-changed Secret two broken=true
several.yaml:1 Secret one: correct-horse
several.yaml:23 ConfigMap two: <nil>
several.yaml:45 Secret three: battery-staple
several.yaml:67 Secret plain: x
whole.yaml:2 sops-misplaced ENC broken=true
`
	if got := lineOfKind.ReplaceAllString(got.String(), " ENC broken"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// lineOfKind is what a finding shows for a kind that is encrypted.
var lineOfKind = regexp.MustCompile(` ENC\[.*\] broken| ENC\[.* broken`)

// ciphertextIn is the first one in a text.
func ciphertextIn(text string) string {
	_, rest, _ := strings.Cut(text, "ENC[")
	text, _, _ = strings.Cut(rest, "]")
	return "ENC[" + text + "]"
}

// The block of a document opens no copy of it, wherever that hides from who looks for documents of SOPS.
func TestABlockIsOfOneDocument(t *testing.T) {
	whole := sealedFile(t, "sealed/regex.yaml")
	mac := regexp.MustCompile(`mac: ENC.*`).FindString(whole)
	user := regexp.MustCompile(`user: ENC.*`).FindString(whole)
	stolen := "{apiVersion: v1, kind: Secret, metadata: {name: stolen}, data: {" + strings.Replace(user, ": ", `: "`, 1) + `"}, sops: {` + strings.Replace(mac, ": ", `: "`, 1) + `"}}`
	for name, hidden := range map[string]string{
		"an item of a list":       "---\n{apiVersion: v1, kind: List, items: [" + stolen + "]}\n",
		"behind a broken one":     "...\n\tbroken: [\n...\n" + stolen + "\n",
		"behind another line end": "---\na: [\r---\r" + stolen + "\n",
	} {
		u := Parse("f.yaml", []byte(whole+hidden), Options{Keys: sealedRing(t)})
		if !strings.Contains(fmt.Sprint(u.Findings), "stolen") && name != "behind a broken one" {
			t.Errorf("%s: %v", name, u.Findings)
		}
		for _, o := range u.Objects {
			if opened, err := o.Sealed.Open(o.Content); err == nil && o.Name == "stolen" {
				t.Errorf("%s: it opens: %v", name, opened)
			}
		}
	}
}

// What a build has read counts, in whatever way, and what lies beside it does not.
func TestBuildsOpenTheFilesThatTheyRead(t *testing.T) {
	good := sealedFile(t, "sealed/list.yaml")
	tree := fstest.MapFS{
		"kustomization.yaml": {Data: []byte("{}")},
		"used.yaml":          {Data: []byte(good)},
		"beside.yaml":        {Data: []byte(strings.Replace(good, "name: one", "name: uno", 1))},
	}
	for name, read := range map[string]func(fsys fs.FS) ([]byte, error){
		"at once": func(fsys fs.FS) ([]byte, error) { return fs.ReadFile(fsys, "used.yaml") },
		"bit by bit": func(fsys fs.FS) ([]byte, error) {
			f, err := fsys.Open("used.yaml")
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return io.ReadAll(f)
		},
	} {
		build := func(fsys fs.FS, root string) ([]api.Object, []string, error) {
			data, err := read(fsys)
			if err != nil {
				return nil, nil, err
			}
			list, err := canonical.Parse(data)
			if err != nil {
				return nil, nil, err
			}
			return []api.Object{list["items"].([]any)[0].(map[string]any)}, []string{root}, nil
		}
		u := Read(tree, Options{Build: build, Keys: sealedRing(t)})[0]
		if len(u.Objects) != 1 || len(u.Findings) > 0 {
			t.Fatalf("%s: %d objects, %v", name, len(u.Objects), u.Findings)
		}
		if got := passwordOf(t, u.Objects[0]); got != "correct-horse" {
			t.Errorf("%s: the password is %s", name, got)
		}
	}
}

// A read makes so many attempts at keys and no more. Which files that leaves closed depends on the tree alone: not on what was read
// before it.
func TestAttemptsAtKeysAreThoseOfTheTree(t *testing.T) {
	var keys sops.Keys
	for range 10 {
		identity, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		more, err := sops.ParseKeys([]byte(identity.String()))
		if err != nil {
			t.Fatal(err)
		}
		keys = keys.With(more)
	}
	a, err := sops.ParseKeys([]byte(sealedFile(t, "keys/a.agekey")))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sops.Compile([]sops.Grant{{Paths: []string{"."}, Keys: keys.With(a)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	greedy := `apiVersion: v1
kind: Secret
metadata: {name: %s}
stringData: {a: "ENC[AES256_GCM,data:YQ==,iv:YWFh,tag:YWFh,type:str]"}
sops:
  mac: %[1]s
  age:
`
	for i := range 11 { // each for 16 recipients
		var enc strings.Builder
		w := armor.NewWriter(&enc)
		fmt.Fprint(w, "age-encryption.org/v1\n")
		for j := range 16 {
			fmt.Fprintf(w, "-> X25519 %s\n%[1]s\n", base64.RawStdEncoding.EncodeToString(fmt.Appendf(nil, "%032d", 16*i+j)))
		}
		fmt.Fprintf(w, "--- %043d\n%048d", 0, 0)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		greedy += "  - enc: |\n      " + strings.ReplaceAll(strings.TrimSpace(enc.String()), "\n", "\n      ") + "\n"
	}
	const cost = 11 * 16 * 11
	tree := fstest.MapFS{"plain.yaml": {Data: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: plain}\n")}, "z.yaml": {Data: []byte(sealedFile(t, "sealed/list.yaml"))}}
	for i := range 100_000/cost + 1 {
		name := fmt.Sprintf("a%02d", i)
		tree[name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, greedy, name)}
	}
	told := func(cache *Cache) string {
		var all strings.Builder
		for _, u := range Read(tree, Options{Keys: ring, Cache: cache}) {
			for _, o := range u.Objects {
				fmt.Fprintf(&all, "%s: %s\n", o.ID, passwordOf(t, o))
			}
		}
		return all.String()
	}
	var cache Cache
	const closed, opened = "Secret one: is encrypted, and what comes before it has used up", "Secret one: correct-horse\n"
	first := tree["a00.yaml"]
	for _, step := range []struct {
		name, want string
		change     func()
	}{
		{"all", closed, func() {}},
		{"again", closed, func() {}},
		{"without the first", opened, func() { delete(tree, "a00.yaml") }},
		{"with the first", closed, func() { tree["a00.yaml"] = first }},
	} {
		step.change()
		fresh, kept := told(nil), told(&cache)
		if fresh != kept {
			t.Errorf("%s: of a cache it is\n%s\nand of none\n%s", step.name, kept, fresh)
		}
		if !strings.Contains(fresh, step.want) {
			t.Errorf("%s: %s\nwant %s", step.name, fresh, step.want)
		}
	}
}
