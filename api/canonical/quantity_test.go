package canonical

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNumbersWithoutAnEnd(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // empty: there is none
	}{
		{"cpu: 500m", ""},
		{"cpu: 1e3", ""},
		{"cpu: 1E+09", ""},
		{"cpu: 1e0000000003", ""},
		{"memory: 2Ei", ""},
		{`cpu: "1e-99999999"`, "1e-99999999"},
		{"a: {cpu: 1e100}", "1e100"},
		{"-1.5E999", "1.5E999"},
		{"1e999", "1e999"},
		{"cpu: " + strings.Repeat("9", 65), strings.Repeat("9", 64)},
		{"cpu: " + strings.Repeat("9", 64), ""},
		{"time: 2026-01-01T00:00:00Z", ""},
		{"commit: 12e4567890123456789012345678901234567890abc", ""},
		{"commit: abc12e4567", ""},
		{"", ""},
	} {
		got, found := Endless([]byte(tt.text))
		if got != tt.want || found != (tt.want != "") {
			t.Errorf("Endless(%q) = %q, %v, want %q", tt.text, got, found, tt.want)
		}
	}
}

// What is sensible is parsed at once, and nothing that is parsed by people's rules is refused.
func FuzzSensible(f *testing.F) {
	for _, text := range []string{"500m", "1e3", "1e-99999999", "2Gi", "0.00000001", "-1E+99"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !Sensible(text) {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return
		}
		q.Add(resource.MustParse("1"))
		if q.String() == "" || len(q.String()) > 200 {
			t.Errorf("%q is %q", text, q.String())
		}
	})
}
