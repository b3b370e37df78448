package canonical

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// sigs is what sigs.k8s.io/yaml writes; false if it refuses v, or loses some of it on the way.
func sigs(v any) (string, bool) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return "", false
	}
	return string(text), !mangled(v)
}

// mangled tells whether v has text that YAML takes for something else in the JSON that sigs.k8s.io/yaml
// makes first, or keys that it writes in an order of chance.
func mangled(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "\u0085")
	case []any:
		for _, e := range v {
			if mangled(e) {
				return true
			}
		}
	case map[string]any:
		keys := slices.Collect(maps.Keys(v))
		sortKeys(keys)
		for i := range keys {
			for _, later := range keys[i+1:] {
				if compareKeys(keys[i], later) >= 0 {
					return true
				}
			}
		}
		for k, e := range v {
			if k == "<<" || mangled(k) || mangled(e) {
				return true
			}
		}
	}
	return false
}

func TestYAMLIsThatOfSigs(t *testing.T) {
	long := strings.Repeat("many words ", 20)
	texts := []string{
		"", " ", "a", "a b", "a ", " a", "\n", "\n\n", "a\n", "a\n\n", "a\nb", "\na", " a\nb", "a \nb", "a\n b", "a\nb ", "a\tb", "a\r\nb", "é", "日本", "\x7f", "\u0085", "\ufeffx", "\u2028",
		"true", "yes", "no", "n", "y", "on", "off", "Null", "~", "nullify", "1", "-1", "+1", "0x1F", "0b1", "0o7", "1_000", "1e3", "1.5", ".5", "5.", ".inf", "-.inf", "+.Inf", ".nan", "1:30", "1:30:30.5", "190:20:30",
		"2001-12-14", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "1.2.3", "10.0.0.1", "10.0.0.1/8", "1Gi", "100m", "0.5", "08", "1.27.3", "v1", "-", "--", "---", "---a", "...", "....", "- a", "-a", "--port=80", "? a", "?a", ": a", ":a", "a:", "a: b", "a:b", "a #b", "a#b", "#a", "*", "&a", "!a", "|", ">", "'", "\"", "it's", "'quoted'", "%", "@", "`", "{{ x }}", "[a]", "{a", ",", "a,b", "<<", "=", "\\", "1'2", "1\"2", "12e03", "infinity", "nan", "-inf", "+", ".", "..", "._", "0x", "-0", "1__0", "1.e1",
		long, long + "\n" + long, " " + long, long + ": x", "'" + long, "é" + long, strings.Repeat("x", 200), strings.Repeat("x", 79) + " y z", strings.Repeat("xy  z ", 40), "1 " + long, strings.Repeat("k", 128), strings.Repeat("k", 129),
	}
	for _, s := range texts {
		for what, v := range map[string]any{
			"root":    s,
			"value":   map[string]any{"k": s},
			"key":     map[string]any{s: "v", "a": map[string]any{s: s}},
			"complex": map[string]any{s: map[string]any{"a": s, "b": []any{s}}},
			"item":    []any{s, s},
			"deep":    map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": s, "d": []any{s, []any{s, map[string]any{s: s}}}}, s}}},
		} {
			if want, ok := sigs(v); ok {
				if got := string(YAML(v)); got != want {
					t.Errorf("%s %q:\n%s\nwant\n%s", what, s, got, want)
				}
			}
			if got, _, err := Decode(YAML(v)); err != nil || !cmp.Equal(got, v) {
				t.Errorf("%s %q: reading back gave %#v, %v from\n%s", what, s, got, err, YAML(v))
			}
		}
	}
	for _, v := range []any{
		nil, true, int64(-5), int64(math.MaxInt64), uint64(math.MaxUint64), 1.5, 3.0, 1e6, 1e15, 9007199254740993e3, 1e18, 1.2e19, 1.8446744073709552e19, 1e20, 1e21, 1e-7, 12345678.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1),
		map[string]any{}, []any{}, map[string]any(nil), []any(nil), []any{nil, map[string]any{}, []any{}, []any{[]any{}}},
		map[string]any{"a": nil, "b": map[string]any{}, "c": []any{}, "d": map[string]any(nil), "e": []any{map[string]any{"x": int64(1), "y": int64(2)}}},
		map[string]int{"a": 1}, struct {
			A []string `json:"a"`
			B float32
		}{[]string{"x", "80"}, 1.5}, 7, json.Number("12"),
	} {
		if want, ok := sigs(v); ok {
			if got := string(YAML(v)); got != want {
				t.Errorf("%#v:\n%s\nwant\n%s", v, got, want)
			}
		}
	}
}

func TestKeysSortAsThoseOfSigs(t *testing.T) {
	m := map[string]any{}
	for _, k := range strings.Split("a,b,B,a1,a2,a10,a01,a001,a0,a,1,10,2,02,a-b,a.b,a/b,a_b,ab,a1.5,é,éa,x9,x10,x09,app.kubernetes.io/name,app,app-1,_,-,100,1000,1001,10010", ",") {
		m[k] = int64(1)
	}
	want, _ := sigs(m)
	if got := string(YAML(m)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// anyValue makes JSON-shaped values with the texts and shapes that matter to YAML.
func anyValue(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(
		rapid.StringMatching(`[a-z ]{0,4}[-:#?.0-9'"\n {}\[\],&*!|>%@<=~_+/]{0,4}[a-zA-Z \n]{0,6}`),
		rapid.StringMatching(`([a-z0-9:'\-]{1,9} {1,2}){5,30}[a-z]`),
		rapid.StringMatching(`[-+.]?[0-9_:.eExob+\-TtZ ]{1,12}`),
		rapid.StringMatching(`[a-z]{1,6}(\.[a-z]{1,6})?(/[a-z]{1,5})?`),
		rapid.String(),
	)
	leaf := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.MapOfN(text, anyValue(depth-1), 0, 5), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 4), func(l []any) any { return l }),
	)
}

func TestAnyValueIsThatOfSigs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkYAML(t, anyValue(4).Draw(t, "value")) })
}

func checkYAML(t interface{ Fatalf(string, ...any) }, v any) {
	got := string(YAML(v))
	// The library's order of keys is none for some sets of them: it then depends on the order of a map, and
	// ours is one of those that it gives.
	const tries = 50
	for i := range tries {
		want, ok := sigs(v)
		if !ok || got == want {
			break
		}
		if i == tries-1 {
			t.Fatalf("%#v is\n%s\nwant\n%s", v, got, want)
		}
	}
	back, _, err := Decode([]byte(got))
	if err != nil {
		t.Fatalf("%#v cannot be read back: %v\n%s", v, err, got)
	}
	if again := string(YAML(back)); again != got {
		t.Fatalf("%#v read back and written again is\n%s\nand was\n%s", v, again, got)
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{`{"a":[1,"x",null,{"b":"c d"}]}`, `{"k":"a\nb\n"}`, `["- a",": b","#c"]`, `{"a":{"a":{"a":["` + strings.Repeat("word ", 30) + `"]}}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil || !utf8.ValidString(s) {
			return
		}
		checkYAML(t, fromJSON(v))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a b", "a\nb ", "-1.5", "2001-01-01", strings.Repeat("x y ", 40)} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, depth int) {
		if !utf8.ValidString(s) {
			return
		}
		var v any = map[string]any{"key": s, s: []any{s}}
		for range depth & 31 {
			v = map[string]any{"a": v}
		}
		checkYAML(t, v)
	})
}

func fromJSON(v any) any {
	switch v := v.(type) {
	case json.Number:
		n := number(v.String())
		if f, ok := n.(float64); ok && math.IsInf(f, 0) {
			return nil
		}
		return n
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = fromJSON(v[k])
		}
	}
	return v
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels:
    app.kubernetes.io/name: web
    app.kubernetes.io/part-of: shop
    team: checkout
  annotations:
    owner: "team-a@example.com"
spec:
  replicas: 4
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      app.kubernetes.io/name: web
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app.kubernetes.io/name: web
        team: checkout
    spec:
      serviceAccountName: web
      containers:
      - name: web
        image: registry.example.com/shop/web:1.27.3
        args: ["--port=8080", "--log-level=info"]
        ports:
        - name: http
          containerPort: 8080
        env:
        - name: REGION
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['topology.kubernetes.io/region']
        - name: DATABASE_URL
          value: postgres://db.shop.svc:5432/shop
        resources:
          requests:
            cpu: 250m
            memory: 256Mi
          limits:
            memory: 512Mi
        readinessProbe:
          httpGet:
            path: /ready
            port: http
          periodSeconds: 5
        volumeMounts:
        - name: config
          mountPath: /etc/web
      volumes:
      - name: config
        configMap:
          name: web-config
`

func BenchmarkYAML(b *testing.B) {
	o, err := Parse([]byte(deployment))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("canonical", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendYAML(buf[:0], o)
		}
	})
	b.Run("sigs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := yaml.Marshal(o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	data := []byte(deployment)
	b.Run("canonical", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sigs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var o map[string]any
			if err := yaml.Unmarshal(data, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func ExampleYAML() {
	fmt.Printf("%s", YAML(map[string]any{"b": []any{"true", true, int64(8)}, "a": "one\ntwo\n"}))
	// Output:
	// a: |
	//   one
	//   two
	// b:
	// - "true"
	// - true
	// - 8
}

// A quote within single quotes takes two columns, and lines are folded by columns.
func TestQuotesCountTwiceWhereLinesAreFolded(t *testing.T) {
	for n := range 40 {
		checkYAML(t, map[string]any{"' ' ' a": "' ' " + strings.Repeat("'", n) + " a b"})
	}
}
