package policy

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestJSONPathsThatTakeForEver(t *testing.T) {
	for path, good := range map[string]bool{
		"{.job.id}": true, "{.a[*].b}": true, "{..id}": true, "{.a['b','c']}": true, "{.a[?(@.b==\"c\")].d}": true,
		"{range .a[*]}{.b}{end}": true, "text": true, "{.a[0:3]}": true,
		"{..a..b}": false, "{..a}{..b}": false, "{.a[?(@..b==@..c)]}": false, "{range ..a}{..b}{end}": false,
		"{" + strings.Repeat("['a','b']", 6) + "}": true, "{" + strings.Repeat("['a','b']", 7) + "}": false,
		"{.x[" + strings.TrimSuffix(strings.Repeat("*,", 65), ",") + "]}": false, "{.a": false, strings.Repeat("a", 5000): false,
	} {
		if _, err := JSONPath("x", path); (err == nil) != good {
			t.Errorf("%.60s: %v", path, err)
		}
	}
}

// What is taken for a path takes no longer than looking at everything a few times.
func FuzzJSONPath(f *testing.F) {
	for _, path := range []string{"{.job.id}", "{..a}", "{.a['b','c']}", "{range .a[*]}{.b}{end}", "{.a[?(@.b==1)]}", "{.a[-1:]}", "{$}", "{@}", "{..*}", "{[*,*]}"} {
		f.Add(path)
	}
	var deep any = "x"
	for range 40 {
		deep = map[string]any{"a": deep, "b": []any{"c", "d"}}
	}
	size, err := json.Marshal(deep)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := JSONPath("x", text)
		if err != nil {
			return
		}
		var out bytes.Buffer
		_ = path.Execute(io.Writer(&out), deep)
		if most := 40 * maxUnions * len(size) * (1 + len(text)); out.Len() > most {
			t.Errorf("%q gives %d bytes of %d", text, out.Len(), len(size))
		}
	})
}
