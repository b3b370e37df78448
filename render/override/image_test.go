package override

import (
	"regexp"
	"strings"
	"testing"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

const (
	hex64  = "50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c"
	digest = "sha256:" + hex64
)

func TestImagesAreTakenApart(t *testing.T) {
	for _, test := range []struct {
		text string
		want image
	}{
		{"nginx", image{"", "nginx", "", ""}},
		{"nginx:1.20", image{"", "nginx", "1.20", ""}},
		{"library/nginx", image{"", "library/nginx", "", ""}},
		{"reg.io/a/b:v1", image{"reg.io", "a/b", "v1", ""}},
		{"reg.io:5000/a", image{"reg.io:5000", "a", "", ""}},
		{"host:5000/a:v1", image{"host:5000", "a", "v1", ""}},
		{"localhost/x:1", image{"localhost", "x", "1", ""}},
		{"localhost:5000", image{"", "localhost", "5000", ""}},
		{"[::1]:5000/x", image{"[::1]:5000", "x", "", ""}},
		{"Reg.IO/x", image{"Reg.IO", "x", "", ""}},
		{"a__b.c/d---e", image{"a__b.c", "d---e", "", ""}},
		{"nginx@" + digest, image{"", "nginx", "", digest}},
		{"reg.io/a:v1@" + digest, image{"reg.io", "a", "v1", ""}},
	} {
		got, err := parseImage(test.text)
		if err != nil || got != test.want {
			t.Errorf("parseImage(%q) = %+v, %v, want %+v", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{
		"", ":", "@", "/", "a/", "/a", "a//b", "BAD//Image::", "Nginx", "nginx:", "nginx:-v2", "a___b", "a..b", ".cn/nginx", "reg.io/:v1",
		"reg.io:x/a", "a@sha256:12", "a@md5:" + hex64, "a@" + strings.ToUpper(digest), "a@" + digest + "0", "-a/b", "a-/b", "[]/a", "[::1/a",
		"a/" + strings.Repeat("b", 256), "nginx:" + strings.Repeat("v", 129), "a b", "a\n", "ä",
	} {
		if got, err := parseImage(text); err == nil {
			t.Errorf("parseImage(%q) = %+v, want an error", text, got)
		}
	}
}

func TestImageOverrides(t *testing.T) {
	for _, test := range []struct{ text, override, want string }{
		{"nginx:1.20", "Registry replace reg.io:5000", "reg.io:5000/nginx:1.20"},
		{"nginx", "Registry add reg.io", "reg.io/nginx"},
		{"nginx", "Registry add .cn", ".cn/nginx"},
		{"nginx", "Registry remove", "nginx"},
		{"reg.io/a/b:v1", "Registry add .cn", "reg.io.cn/a/b:v1"},
		{"reg.io/a/b:v1", "Registry remove", "a/b:v1"},
		{"reg.io/a/b:v1", "Repository add -x", "reg.io/a/b-x:v1"},
		{"reg.io/a/b:v1", "Repository replace c", "reg.io/c:v1"},
		{"reg.io/a/b:v1", "Repository remove", "reg.io/:v1"},
		{"reg.io/a:v1", "Tag add -arm64", "reg.io/a:v1-arm64"},
		{"reg.io/a", "Tag add v1", "reg.io/a:v1"},
		{"reg.io/a", "Tag add -v1", "reg.io/a"},
		{"reg.io/a:v1", "Tag replace v1.1", "reg.io/a:v1.1"},
		{"reg.io/a:v1", "Tag replace " + digest, "reg.io/a@" + digest},
		{"reg.io/a:v1", "Tag replace @" + digest, "reg.io/a:v1"},
		{"reg.io/a:v1", "Tag replace", "reg.io/a:v1"},
		{"reg.io/a:v1", "Tag remove", "reg.io/a"},
		{"reg.io/a", "Tag remove", "reg.io/a"},
		{"a@" + digest, "Tag replace v1", "a:v1"},
		{"a@" + digest, "Tag remove", "a"},
		{"a@" + digest, "Tag add 00", "a@" + digest + "00"},
		{"a:v1@" + digest, "Tag remove", "a"},
		{"a:v1@" + digest, "Registry add b.io", "b.io/a:v1"},
	} {
		words := strings.Fields(test.override)
		o := &policyv1alpha1.ImageOverrider{Component: policyv1alpha1.ImageComponent(words[0]), Operator: policyv1alpha1.OverriderOperator(words[1])}
		if len(words) > 2 {
			o.Value = words[2]
		}
		if got, err := newImage(test.text, o); err != nil || got != test.want {
			t.Errorf("%s, %s = %q, %v, want %q", test.text, test.override, got, err, test.want)
		}
	}
}

// The grammar once more, as its specification writes it.
var (
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	label     = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domain    = `(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	remote    = component + `(?:/` + component + `)*`
	tagged    = `(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?`
	digested  = `(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?`
	reference = regexp.MustCompile(`^(?:(` + domain + `)/)?(` + remote + `)` + tagged + digested + `$`)
	known     = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})?$`)
)

func FuzzImage(f *testing.F) {
	for _, seed := range []string{"nginx:1.20", "reg.io:5000/a/b__c@" + digest, "[::1]:5000/x", "localhost/a-b:v1@" + digest, "BAD//Image::", "a.b/c", "A/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseImage(s)
		m := reference.FindStringSubmatch(s)
		valid := m != nil && len(m[2]) <= maxName && known.MatchString(m[4])
		if valid != (err == nil) {
			t.Fatalf("parseImage(%q) = %+v, %v; by the grammar it is valid: %v", s, got, err, valid)
		}
		if err != nil {
			return
		}
		again, err := parseImage(got.String())
		if err != nil || again != got {
			t.Errorf("%q: %+v is written as %q, which is %+v, %v", s, got, got.String(), again, err)
		}
	})
}
