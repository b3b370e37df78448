package apply

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// retaining has a user's rule for Retain of ConfigMaps.
func retaining(t testing.TB, body string) *interpret.Interpreter {
	t.Helper()
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "keep"}}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "ConfigMap"}
	c.Spec.Customizations.Retention = &configv1alpha1.LuaRule{LuaScript: "function Retain(desired, observed)\n" + body + "\nend"}
	rules, problems := interpret.New([]*configv1alpha1.ResourceInterpreterCustomization{c})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return rules
}

// TestWhatIsKeptIsSentOnlyWhereItIsOurs, or we would take it from whoever sets it, or take it away.
func TestWhatIsKeptIsSentOnlyWhereItIsOurs(t *testing.T) {
	const keepA = `if observed.data then desired.data = desired.data or {} desired.data.a = observed.data.a end return desired`
	for _, tt := range []struct {
		name, body, wanted, live string
		managers                 []string
		sent                     string
	}{
		{"another's", keepA, `data: {a: x, b: y}`, `data: {a: z, b: y}`, []string{`godwit Apply {"f:data":{"f:b":{}}}`, `kubectl Update {"f:data":{"f:a":{}}}`}, `data: {b: y}`},
		{"ours", keepA, `data: {a: x, b: y}`, `data: {a: z, b: y}`, []string{`godwit Apply {"f:data":{"f:a":{},"f:b":{}}}`}, `data: {a: z, b: y}`},
		{"the same", keepA, `data: {a: x, b: y}`, `data: {a: x, b: z}`, nil, `data: {a: x, b: y}`},
		{"not in the template", keepA, `data: {b: y}`, `data: {a: z}`, []string{`kubectl Update {"f:data":{"f:a":{}}}`}, `data: {b: y}`},
		{"a map not in the template", keepA, `{}`, `data: {a: z}`, []string{`kubectl Update {"f:data":{"f:a":{}}}`}, `{}`},
		{"taken out by the rule", `desired.data.a = nil return desired`, `data: {a: x, b: y}`, `data: {a: x}`, []string{`godwit Apply {"f:data":{"f:a":{}}}`}, `data: {b: y}`},
		{"an owned list as a whole", `desired.list = observed.list return desired`, `list: [1]`, `list: [1, 2]`, []string{`godwit Apply {"f:list":{}}`}, `list: [1, 2]`},
		{"another's list", `desired.list = observed.list return desired`, `list: [1]`, `list: [1, 2]`, []string{`kubectl Update {"f:list":{}}`}, `{}`},
		{"additions to a list with keys", `desired.list = observed.list return desired`, `list: [{n: a}]`, `list: [{n: a}, {n: b}]`, []string{`godwit Apply {"f:list":{"k:{\"n\":\"a\"}":{".":{},"f:n":{}}}}`}, `list: [{n: a}]`},
		{"changes in a list with keys", `desired.list = observed.list return desired`, `list: [{n: a, v: 1}]`, `list: [{n: a, v: 2}]`, []string{`godwit Apply {"f:list":{"k:{\"n\":\"a\"}":{".":{},"f:n":{},"f:v":{}}}}`}, `list: [{n: a, v: 2}]`},
		{"an atomic map", `desired.map = observed.map return desired`, `map: {a: 1}`, `map: {a: 2}`, []string{`godwit Apply {"f:map":{}}`}, `map: {a: 2}`},
		{"another's atomic map", `desired.map.a = observed.map.a return desired`, `map: {a: 1, b: 2}`, `map: {a: 2, b: 2}`, []string{`godwit Apply {}`, `kubectl Update {"f:map":{}}`}, `{}`},
		{"a map of which nothing is left", `desired.map.a = observed.map.a return desired`, `map: {a: 1}`, `map: {a: 2}`, []string{`kubectl Update {"f:map":{".":{},"f:a":{}}}`}, `{}`},
		{"names, marks and status", `observed.data = desired.data return observed`, `data: {a: x}`, `{data: {b: y}, status: {c: z}}`, nil, `data: {a: x}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const names = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, labels: {a: b}}\n"
			w := Work{Object: object(t, names+strings.TrimPrefix(tt.wanted, "{}")), Rules: retaining(t, tt.body)}
			live := object(t, tt.live)
			live["apiVersion"], live["kind"] = "v1", "ConfigMap"
			live["metadata"] = map[string]any{"name": "web", "uid": "u", "resourceVersion": "7"}
			before := compact(w.Object)
			kept, err := w.keeping(held(t, live, tt.managers...))
			if err != nil {
				t.Fatal(err)
			}
			want := object(t, tt.sent)
			for _, name := range []string{"apiVersion", "kind", "metadata"} {
				want[name] = w.Object[name]
			}
			if diff := cmp.Diff(want, kept.Object); diff != "" {
				t.Error(diff)
			}
			if after := compact(w.Object); after != before {
				t.Errorf("the work was changed from %s to %s", before, after)
			}
		})
	}
}

// TestAMembersFieldSurvivesUnderItsRule: what somebody sets on the member stays, whatever the template
// says, costs no write, and changes with the rule alone.
func TestAMembersFieldSurvivesUnderItsRule(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	work.Rules = retaining(t, `desired.data.a = observed.data.a return desired`)
	out := w.apply(work, nil)
	expect(t, "create", out, Created)
	if got := value(w.get(work.ID), "data", "a"); got != "1" {
		t.Fatalf("a new object has a: %v", got)
	}
	w.edit(work.ID, "kubectl-edit", `{"data": {"a": "mine"}}`)
	out = w.apply(work, out.Known)
	expect(t, "after the edit", out, Unchanged)
	changed := workOf(t, strings.Replace(configMap, `{a: "1", b: "2"}`, `{a: "5", b: "6"}`, 1))
	changed.Rules = work.Rules
	out = w.apply(changed, out.Known)
	expect(t, "another template", out, Updated)
	if got := value(w.get(work.ID), "data"); !cmp.Equal(got, any(map[string]any{"a": "mine", "b": "6"})) {
		t.Errorf("data = %v", got)
	}
	writes := w.writes()
	expect(t, "again", w.apply(changed, out.Known), Unchanged)
	expect(t, "after a restart", w.apply(changed, nil), Unchanged)
	if known, clean := Check(changed, w.live(work.ID), nil, "godwit"); !clean || known == nil {
		t.Error("a look finds something to do")
	}
	if w.writes() != writes {
		t.Error("something was written")
	}
	changed.Rules, changed.Overwrite = nil, true
	expect(t, "without the rule", w.apply(changed, out.Known), Updated)
	if got := value(w.get(work.ID), "data", "a"); got != "5" {
		t.Errorf("without the rule a: %v", got)
	}
}

// TestAdoptionKeepsWhatTheRuleKeeps though the fields of the earlier manager become ours.
func TestAdoptionKeepsWhatTheRuleKeeps(t *testing.T) {
	w := newWorld(t)
	w.create("kubectl-client-side-apply", `{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}, data: {a: mine, b: old, c: gone}}`)
	work := workOf(t, configMap)
	work.Overwrite, work.Rules = true, retaining(t, `desired.data.a = observed.data.a return desired`)
	expect(t, "adopt", w.apply(work, nil), Adopted)
	if got := value(w.get(work.ID), "data"); !cmp.Equal(got, any(map[string]any{"a": "mine", "b": "2"})) {
		t.Errorf("data = %v", got)
	}
}

// TestABrokenRuleWritesNothing: an apply could take away what the rule is there to keep.
func TestABrokenRuleWritesNothing(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, configMap)
	work.Rules = retaining(t, `return observed.data.a.b.c`)
	out := w.apply(work, nil) // nothing is there, so nothing is asked
	expect(t, "create", out, Created)
	w.edit(work.ID, "kubectl-edit", `{"data": {"a": "mine"}}`)
	writes := w.writes()
	out = w.apply(work, out.Known)
	if out.Change != Skipped || out.Reason != decide.ReasonFailed || !strings.Contains(out.Message, "customization keep: Retain: line 2: ") || w.writes() != writes {
		t.Errorf("outcome %+v, %d writes", out, w.writes()-writes)
	}
}

// TestImagePullSecretsOfAMemberStay: the list is one value for the server, and registries add to it.
func TestImagePullSecretsOfAMemberStay(t *testing.T) {
	w := newWorld(t)
	work := workOf(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: default, `+marks+`}, imagePullSecrets: [{name: ours}]}`)
	work.Rules = &interpret.Interpreter{}
	out := w.apply(work, nil)
	expect(t, "create", out, Created)
	w.edit(work.ID, "registry", `{"imagePullSecrets": [{"name": "ours"}, {"name": "theirs"}]}`)
	out = w.apply(work, out.Known)
	if out.Reason != "" {
		t.Fatal(out.Message)
	}
	if got := compact(value(w.get(work.ID), "imagePullSecrets")); got != `[{"name":"ours"},{"name":"theirs"}]` {
		t.Errorf("imagePullSecrets = %s", got)
	}
	writes := w.writes()
	expect(t, "again", w.apply(work, out.Known), Unchanged)
	if w.writes() != writes {
		t.Error("something was written")
	}
}

// TestTheTokenOfAMemberIsNotClaimed: its controller fills the Secret, and the template has null there.
func TestTheTokenOfAMemberIsNotClaimed(t *testing.T) {
	w := newWorld(t)
	secret := func(label string) Work {
		work := workOf(t, `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, data: null, metadata: {name: web, namespace: default, `+
			strings.NewReplacer("labels: {", "labels: {x: "+label+", ", "annotations: {", "annotations: {kubernetes.io/service-account.name: web, ").Replace(marks)+`}}`)
		work.Rules = &interpret.Interpreter{}
		return work
	}
	work := secret("one")
	out := w.apply(work, nil)
	expect(t, "create", out, Created)
	w.edit(work.ID, "kube-controller-manager", `{data: {token: eA==}}`)
	expect(t, "another label", w.apply(secret("two"), out.Known), Updated)
	live := w.live(work.ID)
	if got := value(live, "data", "token"); got != "eA==" {
		t.Errorf("token = %v", got)
	}
	if ours, _ := claims(live); ours.at("f:data").here {
		t.Error("the data is claimed")
	}
}

func (w *world) live(id api.ID) api.Object {
	live, err := look(w.context(), w.at(id), id.Name)
	if err != nil {
		w.Fatal(err)
	}
	return live
}

// TestSettleLaws: what a rule leaves alone is sent as the template has it; anything else is sent as the
// rule has it where the field is ours, and not at all where it is not.
func TestSettleLaws(t *testing.T) {
	var tree func(depth int) *rapid.Generator[map[string]any]
	tree = func(depth int) *rapid.Generator[map[string]any] {
		value := rapid.Map(rapid.Int64Range(0, 2), func(n int64) any { return n })
		if depth > 0 {
			value = rapid.OneOf(value, rapid.Map(tree(depth-1), func(m map[string]any) any { return m }))
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3)
	}
	var leaves func(path string, v any, visit func(path string, v any))
	leaves = func(path string, v any, visit func(string, any)) {
		m, ok := v.(map[string]any)
		if !ok {
			visit(path, v)
		}
		for name, below := range m {
			leaves(path+"."+name, below, visit)
		}
	}
	flat := func(v any) map[string]any {
		all := map[string]any{}
		leaves("", v, func(path string, v any) { all[path] = v })
		return all
	}
	rapid.Check(t, func(t *rapid.T) {
		wanted, kept := tree(2).Draw(t, "wanted"), tree(2).Draw(t, "kept")
		owned := map[string]bool{}
		var fields func(path string, v any) map[string]any
		fields = func(path string, v any) map[string]any {
			m, _ := v.(map[string]any)
			out := map[string]any{}
			for name, below := range m {
				p := path + "." + name
				inner, isMap := below.(map[string]any)
				if !isMap && rapid.Bool().Draw(t, "owned "+p) {
					out["f:"+name], owned[p] = map[string]any{}, true
				} else if sub := fields(p, inner); len(sub) > 0 {
					out["f:"+name] = sub
				}
			}
			return out
		}
		ours := claim{parts: fields("", wanted)}
		before, sent := compact(wanted), maps.Clone(wanted)
		for name := range union(wanted, kept) {
			(&keeper{}).settle(sent, name, wanted[name], kept[name], ours.at("f:"+name))
		}
		if compact(wanted) != before {
			t.Fatal("the template was changed")
		}
		was, rule, got := flat(wanted), flat(kept), flat(sent)
		for path, v := range was {
			if r, ok := rule[path]; ok && r == v && got[path] != v {
				t.Errorf("%s is %v in template and rule, and %v is sent", path, v, got[path])
			}
		}
		for path, v := range got {
			if w, ok := was[path]; ok && w == v && rule[path] == v {
				continue
			}
			if rule[path] != v {
				t.Errorf("%s: %v is sent, the rule has %v", path, v, rule[path])
			}
		}
		for path := range rule {
			if _, in := was[path]; !in && len(owned) == 0 {
				if v, ok := got[path]; ok {
					t.Errorf("%s: %v is sent, which was not the template's and is not ours", path, v)
				}
			}
		}
	})
}
