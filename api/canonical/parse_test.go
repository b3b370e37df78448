package canonical

import (
	encjson "encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text string
		want api.Object
		err  string
	}{
		{"a: 1\nb: [1.5, 1.0, 1e3, -0.0, 0x1F, 0o17, 017, 1_000]", api.Object{"a": int64(1), "b": []any{1.5, int64(1), int64(1000), int64(0), int64(31), int64(15), int64(15), int64(1000)}}, ""},
		{"a: [9223372036854775807, 9223372036854775808, 1e20]", api.Object{"a": []any{int64(math.MaxInt64), float64(1 << 63), 1e20}}, ""},
		{"a: [y, no, On, 'no', ~, null, ]", api.Object{"a": []any{true, false, true, "no", nil, nil}}, ""},
		{"a: [2001-12-14, !!timestamp 2001-12-14]", api.Object{"a": []any{"2001-12-14", "2001-12-14"}}, ""},
		{"1: a\nno: b\n1.5: c\n.inf: d\n.nan: e", api.Object{"1": "a", "false": "b", "1.5": "c", ".inf": "d", ".nan": "e"}, ""},
		{"a: !!binary /w==", api.Object{"a": "\ufffd"}, ""},
		{"a: 1\na: 2", api.Object{"a": int64(2)}, ""},
		{"a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}", api.Object{"a": api.Object{"x": int64(1), "z": int64(2)}, "b": api.Object{"x": int64(1), "z": int64(3)}}, ""},
		{`{"a": "\u00e9\ud83d\ude00", "b": [1, 1.0, 1e2, 0.5, 9223372036854775808, true, null]}`, api.Object{"a": "é😀", "b": []any{int64(1), int64(1), int64(100), 0.5, float64(1 << 63), true, nil}}, ""},
		{`{"a": "\ud83d\ude00", "b": 1e999}`, nil, "strconv.ParseFloat: parsing \"1e999\": value out of range"},
		{"# nothing", nil, ""},
		{"", nil, ""},
		{"null", nil, ""},
		{"- a", nil, "the document is no mapping"},
		{"a", nil, "the document is no mapping"},
		{"a: 1\n---\nb: 1", nil, "there is a second document"},
		{"{a: 1} {b: 1}", nil, "yaml: did not find expected <document start>"},
		{"a: .inf", nil, "+Inf is no number that JSON can hold"},
		{"a: [.nan]", nil, "NaN is no number that JSON can hold"},
		{"~: a", nil, "a key is <nil>, which is no text"},
		{"1: a\n'1': b", nil, "two keys of one mapping are the same text, such as 1 and \"1\""},
		{"a: [", nil, "yaml: line 1: did not find expected node content"},
		{"a: *b", nil, "yaml: unknown anchor 'b' referenced"},
	} {
		got, err := Parse([]byte(tc.text))
		if diff := cmp.Diff(tc.want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(errorOf(tc.err)) {
			t.Errorf("Parse(%q) = %#v, %v, want %#v, %s", tc.text, got, err, tc.want, tc.err)
		}
	}
}

func errorOf(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func TestDecodeTellsOfRepeatedKeys(t *testing.T) {
	for text, want := range map[string]bool{"a: 1": false, "a: 1\na: 1": true, "a: {b: 1}\nc: {b: 1}": false, "- {a: 1, a: 2}": true} {
		if _, got, err := Decode([]byte(text)); got != want || err != nil {
			t.Errorf("Decode(%q) says repeated %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{deployment, "a: [0x1F, 1e400, .nan, 2001-01-01, !!str 1, !!float 3]", "? [a]\n: b", "a: &a {<<: {b: 1}}\nc: {<<: [*a, {d: 1}], b: 2}", "\xff\xfea\x00", "%TAG ! x\n---\n!y a", "a: |+2\n   b\n\n", "{a: \"\\x41\\u263a\", ? b}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse(data)
		if err != nil {
			return
		}
		text, err := yaml.YAMLToJSON(data)
		if err != nil && encjson.Valid(data) {
			return
		}
		if err != nil {
			t.Fatalf("sigs.k8s.io/yaml refuses what Parse reads as %#v: %v", got, err)
		}
		var want map[string]any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Parse (-sigs +got):\n%s", diff)
		}
		checkYAML(t, got)
	})
}

func TestBlobIsTheHashOfGit(t *testing.T) {
	for data, want := range map[string]string{
		"":        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
		"hello\n": "ce013625030ba8dba906f756967f9e9ca394464a",
	} {
		if got := fmt.Sprintf("%x", Blob([]byte(data))); got != want {
			t.Errorf("Blob(%q) = %s, want %s", data, got, want)
		}
	}
}

func BenchmarkBlob(b *testing.B) {
	data := []byte(deployment)
	b.ReportAllocs()
	for b.Loop() {
		Blob(data)
	}
}
