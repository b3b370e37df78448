package manifest

import (
	"path"
	"strings"
	"testing"
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
		ig := parseIgnores(nil, ".", tc.rules)
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
	top := parseIgnores(nil, ".", "*.yaml\n!b.yaml")
	deeper := parseIgnores(top, "x", "!a.yaml\n/b.yaml")
	for name, want := range map[string]bool{"x/a.yaml": false, "x/b.yaml": true, "x/c.yaml": true, "x/y/a.yaml": false, "x/y/b.yaml": false, "x/y/c.txt": false} {
		if got := deeper.ignored(name, false); got != want {
			t.Errorf("ignored(%s) = %v, want %v", name, got, want)
		}
	}
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"a/**/b", "[!a-", "\\", "**", "[[:x:]]", "!/*/"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, rules, name string) {
		ig := parseIgnores(nil, ".", rules)
		first := ig.ignored(name, false)
		if again := parseIgnores(parseIgnores(nil, ".", rules), "elsewhere", rules).ignored(name, false); first && !again && !strings.HasPrefix(name, "elsewhere/") && !strings.Contains(rules, "!") {
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
