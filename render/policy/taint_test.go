package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTaintChanges(t *testing.T) {
	for _, test := range []struct{ name, old, change, want string }{
		{"add", "", "a=b:NoSchedule c:NoExecute", "a=b:NoSchedule c:NoExecute"},
		{"add behind", "x:NoExecute", "a=b:NoSchedule", "x:NoExecute a=b:NoSchedule"},
		{"another effect is another taint", "a:NoExecute", "a:NoSchedule", "a:NoExecute a:NoSchedule"},
		{"there already", "a=1:NoSchedule", "a=2:NoSchedule", "! there is a taint a=1:NoSchedule already; --overwrite gives it another value"},
		{"overwrite", "a=1:NoSchedule b:NoExecute", "--overwrite a=2:NoSchedule", "a=2:NoSchedule b:NoExecute"},
		{"remove", "a=1:NoSchedule a:NoExecute b:NoExecute", "a:NoSchedule-", "a:NoExecute b:NoExecute"},
		{"remove with a value", "a=1:NoSchedule", "a=1:NoSchedule-", ""},
		{"remove every effect", "a=1:NoSchedule b:NoExecute a:NoExecute", "a-", "b:NoExecute"},
		{"remove and add", "a:NoSchedule b:NoSchedule", "a- c:NoSchedule", "b:NoSchedule c:NoSchedule"},
		{"not there", "a:NoSchedule", "b- a:NoExecute-", "! taint b not found\ntaint a:NoExecute not found"},
		{"both", "", "a=b:NoSchedule a-", "! a=b:NoSchedule: is to come and to go at once"},
		{"both, one effect", "", "a=b:NoSchedule a:NoSchedule-", "! a=b:NoSchedule: is to come and to go at once"},
		{"another effect goes", "a:NoExecute", "a=b:NoSchedule a:NoExecute-", "a=b:NoSchedule"},
		{"twice", "", "a=1:NoSchedule a=2:NoSchedule", "! a=2:NoSchedule: a:NoSchedule is given twice"},
		{"no effect", "", "a=b", "! a=b: has no effect; write key=value:NoSchedule or key=value:NoExecute"},
		{"no effect, to be removed", "", "a=b-", "! a=b-: has no effect; write key=value:NoSchedule or key=value:NoExecute"},
		{"an effect of nodes", "", "a:PreferNoSchedule", `! a:PreferNoSchedule: effect "PreferNoSchedule" is neither NoSchedule nor NoExecute, which are those of clusters`},
		{"nothing", "", "", "! at least one taint is needed, as key=value:Effect, or as key:Effect- or key- to remove it"},
	} {
		var old []corev1.Taint
		for word := range strings.FieldsSeq(test.old) {
			o, _, err := parseTaint(word)
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, o)
		}
		words := strings.Fields(test.change)
		overwrite := len(words) > 0 && words[0] == "--overwrite"
		if overwrite {
			words = words[1:]
		}
		c, err := ParseTaintChange(words)
		var next []corev1.Taint
		if err == nil {
			c.Overwrite = overwrite
			next, err = c.Apply(old)
		}
		var got []string
		for _, n := range next {
			got = append(got, n.ToString())
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = "! " + err.Error()
		}
		if text != test.want {
			t.Errorf("%s: %q on %q = %q, want %q", test.name, test.change, test.old, text, test.want)
		}
	}
	for _, bad := range []string{"=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule", "-", ":NoSchedule", "a=b=c:NoSchedule"} {
		if _, err := ParseTaintChange([]string{bad}); err == nil || !strings.HasPrefix(err.Error(), bad+": ") {
			t.Errorf("%q: %v, want an error that names it", bad, err)
		}
	}
}
