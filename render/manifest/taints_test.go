package manifest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/godwit-gitops/godwit/api/canonical"
)

// taint reads "key=value:Effect".
func taint(s string) corev1.Taint {
	rest, effect, _ := strings.Cut(s, ":")
	key, value, _ := strings.Cut(rest, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
}

// change reads "+key=value:Effect" and "-key:Effect", separated by blanks.
func change(text string) func([]corev1.Taint) ([]corev1.Taint, error) {
	return func(old []corev1.Taint) ([]corev1.Taint, error) {
		for word := range strings.FieldsSeq(text) {
			t := taint(word[1:])
			i := slices.IndexFunc(old, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
			switch {
			case word[0] == '-' && i >= 0:
				old = slices.Delete(old, i, i+1)
			case word[0] == '+' && i >= 0:
				old[i].Value = t.Value
			case word[0] == '+':
				old = append(old, t)
			}
		}
		return old, nil
	}
}

const head = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata:\n  name: m1\n"

func TestTaintsAreEditedInPlace(t *testing.T) {
	for _, test := range []struct{ name, before, change, after string }{
		{"the first", head + "spec:\n  syncMode: Push # how\n  # end\n", "+a=b:NoSchedule",
			head + "spec:\n  syncMode: Push # how\n  taints:\n  - key: a\n    value: b\n    effect: NoSchedule\n  # end\n"},
		{"spec before the name", "spec:\n    syncMode: Push\n\n# what it is\n" + head, "+a:NoExecute",
			"spec:\n    syncMode: Push\n    taints:\n    - key: a\n      effect: NoExecute\n\n# what it is\n" + head},
		{"no break at the end", head + "spec:\n  syncMode: Push", "+a:NoSchedule", head + "spec:\n  syncMode: Push\n  taints:\n  - key: a\n    effect: NoSchedule"},
		{"CRLF", strings.ReplaceAll(head+"spec:\n  syncMode: Push\n", "\n", "\r\n"), "+a:NoSchedule",
			strings.ReplaceAll(head+"spec:\n  syncMode: Push\n  taints:\n  - key: a\n    effect: NoSchedule\n", "\n", "\r\n")},
		{"one more", head + "spec:\n  taints: # these\n    # first\n    - effect: NoSchedule # e\n      key: a\n    # behind\n  syncMode: Push\n", "+b=1:NoExecute",
			head + "spec:\n  taints: # these\n    # first\n    - effect: NoSchedule # e\n      key: a\n    - key: b\n      value: \"1\"\n      effect: NoExecute\n    # behind\n  syncMode: Push\n"},
		{"one less", head + "spec:\n  taints:\n  # first\n  - key: a\n    effect: NoSchedule\n  # second\n  - {key: b, effect: NoSchedule}\n  syncMode: Push\n", "-a:NoSchedule",
			head + "spec:\n  taints:\n  # first\n  # second\n  - {key: b, effect: NoSchedule}\n  syncMode: Push\n"},
		{"one more in flow", head + "spec:\n  taints:\n  - {key: b, effect: NoSchedule}\n  syncMode: Push\n", "+a=y:NoSchedule",
			head + "spec:\n  taints:\n  - {key: b, effect: NoSchedule}\n  - {key: a, value: \"y\", effect: NoSchedule}\n  syncMode: Push\n"},
		{"the last", head + "spec:\n  syncMode: Push\n  taints:\n  - key: a\n    effect: NoSchedule\n", "-a:NoSchedule", head + "spec:\n  syncMode: Push\n"},
		{"the last without a break", head + "spec:\n  syncMode: Push\n  taints:\n  - key: a\n    effect: NoSchedule", "-a:NoSchedule", head + "spec:\n  syncMode: Push"},
		{"a dash alone", head + "spec:\n  syncMode: Push\n  taints:\n  -\n    key: a\n    effect: NoSchedule\n  -\n    key: b\n    effect: NoSchedule\n", "-b:NoSchedule",
			head + "spec:\n  syncMode: Push\n  taints:\n  -\n    key: a\n    effect: NoSchedule\n"},
		{"a value", head + "spec:\n  taints:\n  - key: a\n    value: \"old\" # why\n    effect: NoSchedule\n  syncMode: Push\n", "+a=new:NoSchedule",
			head + "spec:\n  taints:\n  - key: a\n    value: new # why\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"a value where there was none", head + "spec:\n  taints:\n  - key: a # k\n    effect: NoSchedule\n  syncMode: Push\n", "+a=new:NoSchedule",
			head + "spec:\n  taints:\n  - key: a # k\n    value: new\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"a value where there was none, no comment", head + "spec:\n  taints:\n  - key: a\n    effect: NoSchedule\n  syncMode: Push\n", "+a=new:NoSchedule",
			head + "spec:\n  taints:\n  - key: a\n    value: new\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"a value no more", head + "spec:\n  taints:\n  - key: a\n    value: 'x'\n    effect: NoSchedule\n  syncMode: Push\n", "+a:NoSchedule",
			head + "spec:\n  taints:\n  - key: a\n    value: \"\"\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"flow spec", head + "spec: {syncMode: Push} # all\n", "+a:NoSchedule", head + "spec: {syncMode: Push, taints: [{key: a, effect: NoSchedule}]} # all\n"},
		{"flow spec, less", head + "spec: {taints: [{key: a, effect: NoSchedule}], syncMode: Push}\n", "-a:NoSchedule", head + "spec: {syncMode: Push}\n"},
		{"flow list", head + "spec:\n  syncMode: Push\n  taints: [{key: a, effect: NoSchedule}, {key: b, effect: NoSchedule}] # two\n", "-a:NoSchedule +c=d:NoExecute +b=x:NoSchedule",
			head + "spec:\n  syncMode: Push\n  taints: [{key: b, value: x, effect: NoSchedule}, {key: c, value: d, effect: NoExecute}] # two\n"},
		{"an empty list", head + "spec:\n  taints: []\n  syncMode: Push\n", "+a:NoSchedule", head + "spec:\n  taints: [{key: a, effect: NoSchedule}]\n  syncMode: Push\n"},
		{"nothing", head + "spec:\n  taints:\n  syncMode: Push\n", "+a:NoSchedule", head + "spec:\n  taints:\n  - key: a\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"null", head + "spec:\n  taints: null\n  syncMode: Push\n", "+a:NoSchedule", head + "spec:\n  taints: [{key: a, effect: NoSchedule}]\n  syncMode: Push\n"},
		{"literal text is no comment", head + "  annotations:\n    note: |\n      one\n\n      # two\nspec:\n  syncMode: Push\n  proxyURL: |\n    x\n    # y\n", "+a:NoSchedule",
			head + "  annotations:\n    note: |\n      one\n\n      # two\nspec:\n  syncMode: Push\n  proxyURL: |\n    x\n    # y\n  taints:\n  - key: a\n    effect: NoSchedule\n"},
		{"one of several documents", "# first\nkind: Namespace\napiVersion: v1\nmetadata: {name: n}\n---\n" + head + "spec:\n  syncMode: Push\n---\n" + strings.Replace(head, "m1", "m2", 1) + "spec: {syncMode: Push}\n", "+a:NoSchedule",
			"# first\nkind: Namespace\napiVersion: v1\nmetadata: {name: n}\n---\n" + head + "spec:\n  syncMode: Push\n  taints:\n  - key: a\n    effect: NoSchedule\n---\n" + strings.Replace(head, "m1", "m2", 1) + "spec: {syncMode: Push}\n"},
		{"in a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: cluster.karmada.io/v1alpha1\n  kind: Cluster\n  metadata: {name: m1}\n  spec:\n    syncMode: Push\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: n}\n", "+a:NoSchedule",
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: cluster.karmada.io/v1alpha1\n  kind: Cluster\n  metadata: {name: m1}\n  spec:\n    syncMode: Push\n    taints:\n    - key: a\n      effect: NoSchedule\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: n}\n"},
		{"JSON", "{\n  \"apiVersion\": \"cluster.karmada.io/v1alpha1\",\n  \"kind\": \"Cluster\",\n  \"metadata\": {\"name\": \"m1\"},\n  \"spec\": {\n    \"syncMode\": \"Push\"\n  }\n}\n", "+a=b:NoSchedule",
			"{\n  \"apiVersion\": \"cluster.karmada.io/v1alpha1\",\n  \"kind\": \"Cluster\",\n  \"metadata\": {\"name\": \"m1\"},\n  \"spec\": {\n    \"syncMode\": \"Push\",\n    \"taints\": [{\"key\": \"a\", \"value\": \"b\", \"effect\": \"NoSchedule\"}]\n  }\n}\n"},
		{"only taints", head + "spec:\n  taints:\n  # c\n  - key: a\n    effect: NoSchedule\n", "-a:NoSchedule", head + "spec:\n  taints: []\n  # c\n"},
		{"no change", head + "spec: {syncMode: Push}", "-a:NoSchedule", head + "spec: {syncMode: Push}"},
		{"an anchor", head + "spec:\n  syncMode: Push\n  taints: &t\n  - key: a\n    effect: NoSchedule\n", "+b:NoSchedule", ErrStyle.Error()},
		{"used elsewhere", head + "  annotations: {x: &e NoSchedule}\nspec:\n  taints:\n  - key: a\n    effect: *e\n  syncMode: Push\n", "+b:NoSchedule",
			head + "  annotations: {x: &e NoSchedule}\nspec:\n  taints:\n  - key: a\n    effect: *e\n  - key: b\n    effect: NoSchedule\n  syncMode: Push\n"},
		{"no spec", head, "+a:NoSchedule", "the Cluster has no spec; write one with its syncMode first"},
		{"another one", strings.Replace(head, "m1", "m2", 1) + "spec: {syncMode: Push}\n", "+a:NoSchedule", "the file has no Cluster m1"},
		{"twice", head + "spec: {syncMode: Push}\n---\n" + head + "spec: {syncMode: Push}\n", "+a:NoSchedule", "Cluster m1 is in the file twice"},
		{"no taints", head + "spec: {syncMode: Push, taints: 1}\n", "+a:NoSchedule", "spec.taints: json: cannot unmarshal number into Go value of type []v1.Taint"},
	} {
		got, err := EditTaints([]byte(test.before), "m1", change(test.change))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(test.after, text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// FuzzEditTaints: whatever the file looks like, an edit changes the taints and nothing else, keeps every comment on a
// line of its own, and one that is taken back leaves what was there.
func FuzzEditTaints(f *testing.F) {
	for _, spec := range []string{"\n  syncMode: Push\n", " {syncMode: Push}\n", "\n  taints: [{key: x, effect: NoSchedule}]\n  syncMode: Push", "\n  taints:\n  # c\n  - key: x\n    value: |\n      # v\n    effect: NoExecute\n",
		"\n  taints:\n  -\n    key: unschedulable\n    effect: NoSchedule\n  # end\n  region: a\n", "\n  ? taints\n  : - {key: x, effect: NoSchedule}\n", " &s\n  <<: *s\n"} {
		f.Add(head + "spec:" + spec)
	}
	f.Add("apiVersion: v1\nkind: List\nitems:\n- apiVersion: cluster.karmada.io/v1alpha1\n  kind: Cluster\n  metadata: {name: m1}\n  spec: {'syncMode': \"P'u#sh\", taints: [ ] } # c\n")
	f.Add("{\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"Cluster\", \"metadata\": {\"name\": \"m1\"}, \"spec\": {}}\n---\na: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		cordon, uncordon := change("+unschedulable:NoSchedule"), change("-unschedulable:NoSchedule")
		var before []corev1.Taint
		edited, err := EditTaints([]byte(text), "m1", func(old []corev1.Taint) ([]corev1.Taint, error) {
			before = slices.Clone(old)
			return cordon(old)
		})
		if err != nil {
			return
		}
		want, _ := cordon(slices.Clone(before))
		was, is := split([]byte(text)), split(edited)
		if len(was) != len(is) {
			t.Fatalf("%d documents became %d", len(was), len(is))
		}
		for i := range was {
			a, _, errA := canonical.Decode(was[i].data)
			b, _, errB := canonical.Decode(is[i].data)
			if (errA == nil) != (errB == nil) {
				t.Fatalf("document %d: %v became %v", i, errA, errB)
			}
			for _, item := range append([]int{-1}, indexes(a)...) {
				if o := objectAt(b, item); errA == nil && isCluster(o, "m1") {
					got, err := taintsOf(o)
					if err != nil || !slices.EqualFunc(got, want, sameTaint) {
						t.Fatalf("taints are %v, %v, want %v", got, err, want)
					}
					spec, old := o["spec"].(map[string]any), objectAt(a, item)["spec"].(map[string]any)
					delete(spec, "taints")
					delete(old, "taints")
				}
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("document %d differs: %s", i, diff)
			}
		}
		rest := edited
		for line := range bytes.Lines([]byte(text)) {
			if c := bytes.TrimSpace(line); bytes.HasPrefix(c, []byte("#")) {
				at := bytes.Index(rest, c)
				if at < 0 {
					t.Fatalf("the comment %q is gone from\n%s", c, edited)
				}
				rest = rest[at+len(c):]
			}
		}
		if len(want) != len(before)+1 || len(before) > 0 {
			return
		}
		back, err := EditTaints(edited, "m1", uncordon)
		if errors.Is(err, ErrStyle) {
			return
		}
		if again, err2 := EditTaints(back, "m1", cordon); err != nil || err2 != nil || strings.Contains(text, "taints") == false && string(back) != text {
			t.Fatalf("taken back it is %q, %v, was %q (%q, %v)", back, err, text, again, err2)
		}
	})
}
