package kustomize

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// FuzzContent holds the short way against the long one.
func FuzzContent(f *testing.F) {
	for _, text := range []string{
		"a: 1\nb: -1\nc: 0x10\nd: 0o17\ne: 017\nf: 1_000\ng: 9223372036854775807\nh: 9223372036854775808\ni: 18446744073709551616\n",
		"a: 1.0\nb: 1.5\nc: 1e3\nd: .5\n", "a: .inf\n", "a: [.nan]\n",
		"a: \"1\"\nb: '1'\nc: !!str 1\nd: !!int \"1\"\ne: !!float 1\n",
		"a: true\nb: yes\nc: on\nd: null\ne: ~\nf:\ng: \"\"\n",
		"a: 2001-01-01\nb: 2001-01-01T00:00:00Z\nc: 12:30\n",
		"a: !!binary aGVsbG8=\nb: !!binary /w==\n", "!!binary /w==: a\n",
		"a: &x {b: 1, c: [1, {d: 2}]}\ne: *x\nf: {<<: *x, b: 2}\n",
		"a: |\n  text\n  more\nb: >\n  folded\n  text\n", "a: {}\nb: []\nc: [[]]\n", "1: a\n", "true: a\n", "&0:", "? [a]\n: b\n", "a: !x {}\nb: !!null x\n", "a: -0\nb: +1\n", "a: 1\na: 2\n", "a: \"\\x80\\u2028\"\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		r, err := yaml.Parse(text)
		if err != nil || r.YNode() == nil || r.YNode().Kind != yaml.MappingNode {
			return
		}
		want, wantErr := throughJSON(r)
		got, err := content(r)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", text, err, wantErr)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
