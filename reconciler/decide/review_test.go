package decide_test

import (
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// message is what is said of a binding after a push.
func (w *world) message(binding, source string) string {
	w.Helper()
	previous, read := w.state, w.readBack()
	d := w.push(source)
	got := ""
	for key, message := range d.Messages(previous) {
		if row := row(w, d, key.String()); message == "" && row.Change != decide.Added && row.Change != decide.Unchanged {
			w.Errorf("%s is %s, and nobody says why", key, row.Change)
		}
		if key.String() == binding {
			got = message
		}
	}
	want(w, "with the state read back", d.Messages(read), d.Messages(previous))
	return got
}

func TestEachChangeSaysWhy(t *testing.T) {
	web := func(placement string) string { return policyFor("a", "Deployment", placement) }
	at := func(clusters, objects string) string { return clusters + file("web.yaml", objects, web(everywhere)) }
	gold := "placement: {clusterAffinity: {labelSelector: {matchLabels: {n: \"1\"}}}}"
	tolerant := func(cluster string) string {
		return strings.Replace(cluster, "spec: {", "spec: {taints: [{key: k, effect: NoSchedule}], ", 1)
	}
	override := func(tag string) string {
		return "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\nspec: {overrideRules: [{overriders: {imageOverrider: [{component: Tag, operator: replace, value: \"" + tag + "\"}]}}]}\n"
	}
	object := deployment("web", 2)
	for _, tt := range []struct {
		name, before, after string
		change              decide.Change
		want                string
	}{
		{"another placement", at(fleet(2), object), fleet(2) + file("web.yaml", object, web(only("m1"))), decide.Moved,
			"the policy changed: placement.clusterAffinity"},
		{"more replicas", at(fleet(2), object), at(fleet(2), deployment("web", 3)), decide.Scaled, "the template's replicas changed from 2 to 3"},
		{"another image", at(fleet(2), object), at(fleet(2), strings.Replace(object, "nginx:1", "nginx:2", 1)), decide.Updated, "the template changed"},
		{"a policy that takes over", at(fleet(2), object), fleet(2) + file("web.yaml", object, policyFor("b", "Deployment", only("m2"))), decide.Moved,
			"PropagationPolicy default/b takes it over from PropagationPolicy default/a, which is gone"},
		{"a member less", at(fleet(2), object), at(fleet(1), object), decide.Moved, "m2 left the fleet"},
		{"a member more", at(fleet(1), object), at(fleet(2), object), decide.Moved, "m2 joined the fleet"},
		{"other labels", fleet(2) + file("web.yaml", object, web(gold)),
			file("clusters.yaml", cluster("m1", "n: \"2\""), cluster("m2", "n: \"1\"")) + file("web.yaml", object, web(gold)), decide.Moved,
			"m1 has other labels; m2 has other labels"},
		{"taints", at(file("clusters.yaml", cluster("m1", ""), tolerant(cluster("m2", ""))), object), at(file("clusters.yaml", cluster("m1", ""), cluster("m2", "")), object), decide.Moved,
			"m2 has other taints"},
		{"terms alone", at(fleet(2), object), fleet(2) + file("web.yaml", object, web(everywhere+", failover: {cluster: {}}, conflictResolution: Overwrite")), decide.Updated,
			"the policy changed: failover and conflictResolution"},
		{"an override", at(fleet(2), object) + file("o.yaml", override("2")), at(fleet(2), object) + file("o.yaml", override("3")), decide.Updated,
			"what overrides make of it changed on m1 and m2: OverridePolicy default/o"},
		{"an override that goes", at(fleet(2), object) + file("o.yaml", override("2")), at(fleet(2), object), decide.Updated,
			"no override applies any more, or it is rendered in another way, on m1 and m2"},
		{"a policy that takes over, and other labels", fleet(2) + file("web.yaml", object, web(everywhere)),
			file("clusters.yaml", cluster("m1", "n: x"), cluster("m2", "")) + file("web.yaml", object, policyFor("b", "Deployment", only("m2"))), decide.Moved,
			"PropagationPolicy default/b takes it over from PropagationPolicy default/a, which is gone"},
		{"two things at once", at(fleet(2), object), fleet(2) + file("web.yaml", deployment("web", 4), web(only("m1"))), decide.Moved,
			"the policy changed: placement.clusterAffinity; the template's replicas changed from 2 to 4"},
	} {
		w := newWorld(t)
		w.push(tt.before)
		if got := w.message("default/web-deployment", tt.after); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		again := newWorld(t)
		again.push(tt.before)
		if d := again.push(tt.after); row(t, d, "default/web-deployment").Change != tt.change {
			t.Errorf("%s: is %s, want %s", tt.name, row(t, d, "default/web-deployment").Change, tt.change)
		}
	}
}

// What finds no place and whose copies cannot be deleted yet does not run nowhere.
func TestWhatIsHeldStillRuns(t *testing.T) {
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	w.look("m1", "m2")
	source := func(members string) string {
		return fleet(2) + file("web.yaml", deployment("web", 2), policyFor("a", "Deployment", only(members)))
	}
	w.push(source("m1"))
	previous := w.state
	d := w.push(source("m9"))
	if len(d.Held) != 1 {
		t.Fatalf("held: %v", d.Held)
	}
	const still = "still runs on m1 while its deletion is held"
	for key, message := range d.Messages(previous) {
		if !strings.HasSuffix(message, "; "+still) {
			t.Errorf("%s: %s", key, message)
		}
	}
	told := false
	for _, f := range d.Effects(previous) {
		if f.Code == decide.CodeNotPlaced {
			told = strings.HasSuffix(f.Message, "; it "+still)
		}
	}
	if !told {
		t.Errorf("got %v", d.Effects(previous))
	}
}

func TestMembersThatAreReachedOtherwiseAreToldOf(t *testing.T) {
	source := func(annotations, spec string) string {
		one := strings.Replace(cluster("m1", ""), "labels: {}", "labels: {}, annotations: {"+annotations+"}", 1)
		return file("clusters.yaml", strings.Replace(one, "spec: {", "spec: {"+spec, 1), cluster("m2", ""))
	}
	const is = "godwit reaches it in another way; if that is another cluster, what the record has there is created anew, and what the old one has stays"
	for _, tt := range []struct{ name, annotations, spec, want string }{
		{"nothing", "", "", ""},
		{"a label's neighbour", "example.com/a: b", "", ""},
		{"taints that a policy put there", "godwit.dev/policy-taints: other", "", ""},
		{"a place", "", "region: r, ", ""},
		{"a taint", "", "taints: [{key: k, effect: NoSchedule}], ", ""},
		{"a context", "godwit.dev/kubeconfig-context: other", "", "metadata.annotations[godwit.dev/kubeconfig-context]: changes: " + is},
		{"an address", "", "apiEndpoint: \"https://other\", ", "spec.apiEndpoint: changes: " + is},
		{"credentials", "", "secretRef: {namespace: keys, name: other}, ", "spec.secretRef: changes: " + is},
		{"several", "", "impersonatorSecretRef: {namespace: keys, name: i}, insecureSkipTLSVerification: true, proxyURL: \"http://user:hidden@proxy\", proxyHeader: {a: hidden}, ",
			"spec.impersonatorSecretRef: changes, with spec.insecureSkipTLSVerification, spec.proxyURL and spec.proxyHeader: " + is},
	} {
		w := newWorld(t)
		w.push(source("", ""))
		got := strings.Join(w.effects(source(tt.annotations, tt.spec)), "\n")
		if _, message, _ := strings.Cut(got, "member-changed: Cluster m1: "); message != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if strings.Contains(got, "hidden") || strings.Contains(got, "other\"") {
			t.Errorf("%s: tells what credentials are: %s", tt.name, got)
		}
	}
}

func TestRulesThatJudgeOtherwiseAreToldOf(t *testing.T) {
	rules := func(kind, script string) string {
		return "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: r}\nspec:\n  target: {apiVersion: example.io/v1, kind: " + kind +
			"}\n  customizations:\n    retention: {luaScript: \"function Retain(desired, observed) return desired end\"}\n    healthInterpretation: {luaScript: \"function InterpretHealth(observed) return " + script + " end\"}\n"
	}
	hook := func(operation string) string {
		return "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterWebhookConfiguration\nmetadata: {name: h}\nwebhooks:\n- name: a.example.io\n  clientConfig: {url: \"https://hook.example\"}\n  interpreterContextVersions: [v1alpha1]\n" +
			"  rules: [{operations: [" + operation + "], apiGroups: [example.io], apiVersions: [v1], kinds: [Fleet]}]\n"
	}
	source := func(objects ...string) string { return fleet(1) + file("r.yaml", objects...) }
	for _, tt := range []struct {
		name, before, after string
		want                string
	}{
		{"the same", source(rules("Fleet", "true")), source(rules("Fleet", "true")), ""},
		{"a new one", source(), source(rules("Fleet", "true")), "now says what becomes of Fleet: healthInterpretation, retention"},
		{"one script", source(rules("Fleet", "true")), source(rules("Fleet", "false")), "says something else of Fleet: healthInterpretation"},
		{"another kind", source(rules("Fleet", "true")), source(rules("Ship", "true")), "says something else of Ship: healthInterpretation, retention"},
		{"one that goes", source(rules("Fleet", "true")), source(), "is gone, and no longer says what becomes of Fleet: healthInterpretation, retention"},
		{"a webhook", source(), source(hook("InterpretHealth")), "now says what becomes of Fleet: InterpretHealth"},
		{"a webhook's operations", source(hook("InterpretHealth")), source(hook("Retain")), "says something else of Fleet: Retain"},
	} {
		w := newWorld(t)
		base := w.push(tt.before)
		found := w.push(tt.after).Interpretation(base)
		got := ""
		for _, f := range found {
			got += f.Message
			if f.Code != "interpreter-changed" || f.Severity != "info" {
				t.Errorf("%s: %s", tt.name, f)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
