package manifest

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

func TestIgnored(t *testing.T) {
	for _, tc := range []struct{ rules, names, want string }{
		// The names that the rules ignore; a name that ends in "/" is a folder.
		{"a", "a a/ b/a b/a/ ab x/", "a a/ b/a b/a/"},
		{"/a", "a b/a", "a"},
		{"a/", "a a/ b/a b/a/", "a/ b/a/"},
		{"b/a", "a b/a c/b/a", "b/a"},
		{"*.yaml", "a.yaml b/c.yaml a.yml .yaml", "a.yaml b/c.yaml .yaml"},
		{"a*/b", "a/b ax/b a/x/b", "a/b ax/b"},
		{"?.x", "a.x ab.x /.x", "a.x"},
		{"[a-c]x", "ax bx dx -x", "ax bx"},
		{"[!a-c]x", "ax dx", "dx"},
		{"[^a]x", "ax dx", "dx"},
		{"[]a]x", "]x ax bx", "]x ax"},
		{"[[:digit:]]x", "1x ax :x", "1x"},
		{`[\]]x`, `]x \x`, "]x"},
		{"[a", "a [a", "[a"},
		{"[b-a]x\nc", "ax bx c", "c"},
		{"**/a", "a b/a b/c/a", "a b/a b/c/a"},
		{"a/**", "a a/ a/b a/b/c b/a/c", "a/b a/b/c"},
		{"a/**/b", "a/b a/x/b a/x/y/b ab a/xb", "a/b a/x/b a/x/y/b"},
		{"a**b", "ab axb a/b", "ab axb"},
		{"#a\n\\#a", "#a a", "#a"},
		{"a\n!a\n", "a", ""},
		{"*\n!keep\n", "a keep", "a"},
		{`\!a`, "!a a", "!a"},
		{"a  \n", "a", "a"},
		{`a\ ` + "\n", "a|a ", ""},
		{"a\r\nb\r\n", "a b", "a b"},
		{"\n/\n  \n", "a /", ""},
		{"\ufeffa", "a", "a"},
		{`a\`, `a a\`, `a\`},
	} {
		ig := ignoring(t, nil, ".", tc.rules)
		var got []string
		for name := range strings.FieldsSeq(tc.names) {
			if ig.ignored(path.Clean(name), strings.HasSuffix(name, "/")) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("the rules %q ignore %q of %q, want %q", tc.rules, got, tc.names, tc.want)
		}
	}
}

func TestDeeperIgnoreFilesHaveTheLastWord(t *testing.T) {
	top := ignoring(t, nil, ".", "*.yaml\n!b.yaml")
	deeper := ignoring(t, top, "x", "!a.yaml\n/b.yaml")
	for name, want := range map[string]bool{"x/a.yaml": false, "x/b.yaml": true, "x/c.yaml": true, "x/y/a.yaml": false, "x/y/b.yaml": false, "x/y/c.txt": false} {
		if got := deeper.ignored(name, false); got != want {
			t.Errorf("ignored(%s) = %v, want %v", name, got, want)
		}
	}
}

func ignoring(t *testing.T, above *ignores, dir, rules string) *ignores {
	t.Helper()
	ig, err := parseIgnores(above, dir, rules)
	if err != nil {
		t.Fatal(err)
	}
	return ig
}

// Every name is compared with every rule, so that there may not be any number of them. What a folder with too many has is
// not read: it may be what they are about.
func TestThereAreNotTooManyRules(t *testing.T) {
	object := &fstest.MapFile{Data: []byte("{apiVersion: v1, kind: A, metadata: {name: a}}\n")}
	rules := func(n int) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Repeat("a*b*c*d\n", n))} }
	tree := fstest.MapFS{"a.yaml": object, ".godwitignore": rules(1024), "x/b.yaml": object, "x/.godwitignore": rules(1024), "x/y/c.yaml": object, "x/y/.godwitignore": rules(1), "z/d.yaml": object}
	want := "a.yaml:1#1 A a\n" + "x/b.yaml:1#1 A a\n" +
		"x/y/.godwitignore: error: too-large: too large: more than 16384 bytes of rules, with those of the folders above; nothing in this folder is read\nx/y/.godwitignore is broken\n" +
		"z/d.yaml:1#1 A a\n"
	if got := list(Read(tree, Options{})); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	delete(tree, "x/y/.godwitignore")
	if got := list(Read(tree, Options{})); !strings.Contains(got, "x/y/c.yaml:1#1 A a\n") {
		t.Errorf("with fewer rules\n%s", got)
	}
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"a/**/b", "[!a-", "\\", "**", "[[:x:]]", "!/*/"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, rules, name string) {
		ig, err := parseIgnores(nil, ".", rules)
		if err != nil {
			return
		}
		first := ig.ignored(name, false)
		deeper, err := parseIgnores(ig, "elsewhere", rules)
		if err != nil {
			return
		}
		if again := deeper.ignored(name, false); first && !again && !strings.HasPrefix(name, "elsewhere/") && !strings.Contains(rules, "!") {
			t.Errorf("more rules ignore less: %q of %q", name, rules)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"a\n---\nb", "%YAML 1.1\n---\na\n...\n", "\ufeff---\r---\u0085...", "--- |\n ---\n---x\n", "'\n---\n'"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		line := 0
		for _, c := range split(data) {
			if c.first < 1 || c.content != 0 && c.content < c.first || c.first < line {
				t.Errorf("a document at line %d with content at %d after line %d", c.first, c.content, line)
			}
			line = c.first
			if !strings.Contains(string(data), string(c.data)) {
				t.Errorf("%q is not in %q", c.data, data)
			}
			if again := split(c.data); len(again) != 1 {
				t.Errorf("%q is split into %d", c.data, len(again))
			}
		}
	})
}
