package override

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

func parse(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOperationsFollowTheRFC(t *testing.T) {
	const doc = `{"a":{"b":1},"l":[1,2,3],"m~n":{"o/p":0},"n":null,"":{"":5}}`
	for _, test := range []struct{ op, path, value, want string }{
		{"add", "/a/c", "2", `{"a":{"b":1,"c":2}}`},
		{"add", "/a/b", "[]", `{"a":{"b":[]}}`},
		{"replace", "/a", "true", `{"a":true}`},
		{"remove", "/a/b", "", `{"a":{}}`},
		{"add", "/m~0n/o~1p", "1", `{"m~n":{"o/p":1}}`},
		{"add", "/~2", "1", `{"~2":1}`},
		{"replace", "/n", "1", `{"n":1}`},
		{"replace", "//", "6", `{"":{"":6}}`},
		{"add", "/l/0", "0", `{"l":[0,1,2,3]}`},
		{"add", "/l/3", "4", `{"l":[1,2,3,4]}`},
		{"add", "/l/-", "4", `{"l":[1,2,3,4]}`},
		{"add", "/l/-1", "4", `{"l":[1,2,3,4]}`},
		{"add", "/l/-4", "0", `{"l":[0,1,2,3]}`},
		{"replace", "/l/-1", "4", `{"l":[1,2,4]}`},
		{"remove", "/l/-3", "", `{"l":[2,3]}`},
		{"replace", "", "[]", `[]`},

		{"remove", "", "", "the whole document cannot be removed"},
		{"remove", "/x", "", "there is no /x"},
		{"replace", "/x", "1", "there is no /x"},
		{"add", "/x/y", "1", "there is no /x"},
		{"add", "/m~0n/x~1y/z", "1", "there is no /m~0n/x~1y"},
		{"add", "/n/x", "1", "/n is neither an object nor a list"},
		{"add", "/a/b/c", "1", "/a/b is neither an object nor a list"},
		{"add", "/l/5", "1", "/l/5: the list has no position 5"},
		{"add", "/l/-5", "1", "/l/-5: the list has no position -5"},
		{"replace", "/l/3", "1", "/l/3: the list has no position 3"},
		{"replace", "/l/-", "1", `/l/-: "-" is no position in a list`},
		{"remove", "/l/-", "", `/l/-: "-" is no position in a list`},
		{"add", "/l/x/y", "1", `/l/x: "x" is no position in a list`},
	} {
		path, err := parsePointer(test.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := path.String(); got != test.path && test.path != "/~2" {
			t.Errorf("pointer %q is written as %q", test.path, got)
		}
		var value any
		if test.value != "" {
			value = parse(t, test.value)
		}
		before := parse(t, doc)
		got, err := operation{policyv1alpha1.OverriderOperator(test.op), path, value}.apply(before)
		if !cmp.Equal(before, parse(t, doc)) {
			t.Errorf("%s %s changed its argument", test.op, test.path)
		}
		if err != nil {
			if err.Error() != test.want {
				t.Errorf("%s %s: error %q, want %q", test.op, test.path, err, test.want)
			}
			continue
		}
		want := parse(t, test.want)
		if members, ok := want.(map[string]any); ok {
			// Only the member that the path begins with is written in the table.
			for k, v := range before.(map[string]any) {
				if _, ok := members[k]; !ok {
					members[k] = v
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s: %s", test.op, test.path, diff)
		}
	}
}

func TestAPathBeginsWithASlash(t *testing.T) {
	if p, err := parsePointer("spec/replicas"); err == nil {
		t.Errorf("parsePointer gave %q, want an error", p)
	}
}

func FuzzPointer(f *testing.F) {
	for _, seed := range []string{"", "/", "/a/b", "/a~1b/~0/-/0", "//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePointer(s)
		if err != nil {
			return
		}
		again, err := parsePointer(p.String())
		if err != nil || !cmp.Equal(p, again) {
			t.Errorf("%q: %q is written as %q, which is %q, %v", s, p, p.String(), again, err)
		}
	})
}

var operators = []policyv1alpha1.OverriderOperator{policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpRemove, policyv1alpha1.OverriderOpReplace}

// FuzzPatch compares with another implementation, on JSON texts and on parsed values alike.
func FuzzPatch(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"d"}]}}`, uint8(0), "/a/b/1/c", `"<e>"`)
	f.Add(`[[1,2],[]]`, uint8(1), "/0/-1", `null`)
	f.Add(`{"b":1,"a":null}`, uint8(2), "/a", `1.50`)
	f.Add(`{"a":{"x/y":1}}`, uint8(1), "/a/x~1y", `{}`)
	f.Fuzz(func(t *testing.T, text string, n uint8, pointer, value string) {
		op := operators[int(n)%len(operators)]
		var doc, v any
		if !utf8.ValidString(text + pointer + value) {
			return // no manifest is written so
		}
		if json.Unmarshal([]byte(text), &doc) != nil || json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		path, err := parsePointer(pointer)
		if err != nil || len(path) == 0 {
			return
		}
		switch doc.(type) {
		case map[string]any, []any:
		default:
			return
		}
		got, err := operation{op, path, v}.apply(doc)

		onText, textErr := patchJSON(text, []operation{{op, path, json.RawMessage(value)}})
		if (err == nil) != (textErr == nil) {
			t.Fatalf("on values %v, on text %v", err, textErr)
		}
		if err == nil {
			if diff := cmp.Diff(got, parse(t, onText)); diff != "" {
				t.Fatalf("values and text differ:\n%s", diff)
			}
		}

		want, wantErr := other(t, doc, operation{op, path, v})
		if op == "replace" && err != nil && wantErr == nil {
			return // that implementation lets replace add members
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err == nil && !cmp.Equal(got, want) {
			t.Fatalf("%s", cmp.Diff(want, got))
		}
	})
}

// other applies an operation with the library that Karmada's patches are made with.
func other(t *testing.T, doc any, o operation) (any, error) {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	operations, err := json.Marshal([]map[string]any{{"op": o.op, "path": o.path.String(), "value": o.value}})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(text)
	if err != nil {
		return nil, err
	}
	return parse(t, string(patched)), nil
}

func TestWhatAPathDoesNotTouchIsShared(t *testing.T) {
	shared := map[string]any{"x": "y"}
	doc := map[string]any{"a": map[string]any{"b": int64(1)}, "c": shared}
	got, err := operation{policyv1alpha1.OverriderOpReplace, pointer{"a", "b"}, int64(2)}.apply(doc)
	if err != nil {
		t.Fatal(err)
	}
	shared["x"] = "z"
	if x := got.(map[string]any)["c"].(map[string]any)["x"]; x != "z" {
		t.Errorf("c was copied: x is %v, want z", x)
	}
}

func TestFieldsKeepTheOrderOfTheirKeys(t *testing.T) {
	for _, test := range []struct{ name, text, subPath, op, value, want string }{
		{"replaced", `{"z":1, "a":{"y":2,"b":3}}`, "/a/y", "replace", "9", `{"z":1,"a":{"y":9,"b":3}}`},
		{"added last", `{"z":1,"a":2}`, "/m", "add", `{"q":1,"b":2}`, `{"z":1,"a":2,"m":{"q":1,"b":2}}`},
		{"removed", `{"z":1,"a":2,"m":3}`, "/a", "remove", "", `{"z":1,"m":3}`},
		{"numbers as written", `{"a":1.50,"b":1e3,"c":12345678901234567890}`, "/d", "add", "0.10", `{"a":1.50,"b":1e3,"c":12345678901234567890,"d":0.10}`},
		{"escaped for HTML", `{"a":"<&>"}`, "/b", "add", `"<"`, `{"a":"\u003c\u0026\u003e","b":"\u003c"}`},
		{"a key that stands twice", `{"a":1,"b":2,"a":3}`, "/c", "add", "4", `{"a":3,"b":2,"c":4}`},
		{"a list", " [1, 2]", "/-", "add", "3", `[1,2,3]`},
		{"empty", "", "/a", "add", "3", ""},
		{"whole", `{"a":1}`, "", "replace", "[1]", "[1]"},
		{"no value", `{"a":1}`, "/b", "add", "", `{"a":1,"b":null}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &policyv1alpha1.FieldOverrider{FieldPath: "/data/conf", JSON: []policyv1alpha1.FieldPatchOperation{{SubPath: test.subPath, Operator: policyv1alpha1.OverriderOperator(test.op)}}}
			o.JSON[0].Value.Raw = []byte(test.value)
			got, err := document(o)(map[string]any{"data": map[string]any{"conf": test.text, "other": "x"}})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"data": map[string]any{"conf": test.want, "other": "x"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFieldsOfYAMLAreWrittenAnew(t *testing.T) {
	for _, test := range []struct{ text, subPath, op, value, want string }{
		{"z: 1 # comment\na:\n  - b\n", "/a/-", "add", `"c"`, "a:\n- b\n- c\nz: 1\n"},
		{"a: 1.0\nb: 0x10\nc: 12345678901234567\n", "/d", "add", `{"y":1,"x":"true"}`, "a: 1\nb: 16\nc: 12345678901234567\nd:\n  x: \"true\"\n  \"y\": 1\n"},
		{`{"a": {"b": "<"}}`, "/a/c", "add", `2`, "a:\n  b: <\n  c: 2\n"},
		{"- a\n", "/0", "remove", "", "[]\n"},

		{"", "/a", "add", "1", "error: the text in /data/conf: add /a: the document is neither an object nor a list"},
		{"text", "/a", "add", "1", "error: the text in /data/conf: add /a: the document is neither an object nor a list"},
		{"a: 1", "", "replace", "1", "error: the text in /data/conf: the document must be an object or a list"},
		{"a: [", "/a", "add", "1", "error: the text in /data/conf: is no YAML"},
		{"a: &a [x]\nb: *a\n", "/c", "add", "1", "a:\n- x\nb:\n- x\nc: 1\n"},
		{"cron: '* * * * *'\n", "/c", "add", "1", "c: 1\ncron: '* * * * *'\n"},
		{"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 3000) + "*a]\n", "/c", "add", "1", "error: the text in /data/conf: is too large or too deep with its aliases written out"},
	} {
		o := &policyv1alpha1.FieldOverrider{FieldPath: "/data/conf", YAML: []policyv1alpha1.FieldPatchOperation{{SubPath: test.subPath, Operator: policyv1alpha1.OverriderOperator(test.op)}}}
		o.YAML[0].Value.Raw = []byte(test.value)
		object, err := document(o)(map[string]any{"data": map[string]any{"conf": test.text}})
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = object["data"].(map[string]any)["conf"].(string)
		}
		if got != test.want && !(strings.HasPrefix(test.want, "error: ") && strings.HasPrefix(got, test.want)) {
			t.Errorf("%q: %s %s = %q, want %q", test.text, test.op, test.subPath, got, test.want)
		}
	}
}

func FuzzField(f *testing.F) {
	f.Add(`{"a":[1,{"b":"c"}]}`, "/a/1/b", uint8(2), `"d"`, false)
	f.Add("a:\n- b: &x 1\n  c: *x\n", "/a/0/b", uint8(1), ``, true)
	f.Fuzz(func(t *testing.T, text, subPath string, n uint8, value string, asYAML bool) {
		if value != "" && !json.Valid([]byte(value)) {
			return
		}
		entries := []policyv1alpha1.FieldPatchOperation{{SubPath: subPath, Operator: operators[int(n)%len(operators)]}}
		entries[0].Value.Raw = []byte(value)
		o := &policyv1alpha1.FieldOverrider{FieldPath: "/data/conf", JSON: entries}
		if asYAML {
			o.YAML = entries
		}
		object := map[string]any{"data": map[string]any{"conf": text}}
		got, err := document(o)(object)
		if object["data"].(map[string]any)["conf"] != text {
			t.Fatal("the object was changed")
		}
		if err != nil || asYAML || text == "" {
			return
		}
		if out := got["data"].(map[string]any)["conf"].(string); !json.Valid([]byte(out)) {
			t.Fatalf("%q is no JSON", out)
		}
	})
}

func TestPatchingMembersAgreesWithPatchingMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]`), 0, 3, rapid.ID).Draw(t, "keys")
		ordered, plain := members{}, map[string]any{}
		for _, k := range keys {
			ordered, plain[k] = append(ordered, member{k, k}), k
		}
		op := operation{
			rapid.SampledFrom(operators).Draw(t, "op"),
			pointer{rapid.StringMatching(`[a-d]`).Draw(t, "key")}, "new",
		}
		got, err := op.apply(ordered)
		want, wantErr := op.apply(plain)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v on members, %v on a map", err, wantErr)
		}
		if err != nil {
			return
		}
		asMap := map[string]any{}
		for _, m := range got.(members) {
			asMap[m.key] = m.value
		}
		if diff := cmp.Diff(want, any(asMap)); diff != "" {
			t.Fatal(diff)
		}
	})
}
