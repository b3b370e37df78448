package render

import "testing"

func TestAFindingSaysOnlyWhatItKnows(t *testing.T) {
	for _, tt := range []struct {
		finding Finding
		want    string
	}{
		{Finding{Error, "a", "f.yaml", 3, "Pod x", "m"}, "f.yaml:3: error: a: Pod x: m"},
		{Finding{Warning, "a", "f.yaml", 0, "", "m"}, "f.yaml: warning: a: m"},
		{Finding{Info, "a", "", 0, "Cluster m1", "m"}, "info: a: Cluster m1: m"},
	} {
		if got := tt.finding.String(); got != tt.want {
			t.Errorf("String() = %q, want %q", got, tt.want)
		}
	}
}
