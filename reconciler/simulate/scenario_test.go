package simulate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What can be read is written so that it reads the same, and nothing that is read makes the reader fail
// otherwise than by an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: godwit.dev/v1alpha1\nkind: Scenario\nsource: ./fleet\nuntil: 15m\nmembers: {startup: 5s}\nevents:\n- {at: 60s, cluster: a, ready: \"False\"}\n- {at: 1m, cluster: a, workload: {kind: Deployment, name: web}, health: Unhealthy, status: {a: [1]}}\n- {at: 2m, restart: true}\n- {at: 3m, gitDown: 30s}\n- {at: 4m, revert: last}\n- {at: 5m, source: other}\n"))
	f.Add([]byte("events: [{at: -1h}, {at: x}, 3]\nstart: never\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.Text())
		if err != nil {
			t.Fatalf("%s\nis written as\n%s\nwhich is refused: %v", text, s.Text(), err)
		}
		if diff := cmp.Diff(s, again, cmpopts.IgnoreUnexported(Event{}), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s reads differently when written again:\n%s", text, diff)
		}
	})
}
