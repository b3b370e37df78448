package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
)

// effects are those of a push, as text; they are the same where the state was read back from its branch.
func (w *world) effects(source string) []string {
	w.Helper()
	previous, read := w.state, w.readBack()
	d := w.push(source)
	texts := func(from *record.State) []string {
		list := []string{}
		for _, f := range d.Effects(from) {
			if f.Severity == render.Error {
				w.Errorf("an effect is an error of the input: %s", f)
			}
			list = append(list, f.String())
		}
		return list
	}
	got := texts(previous)
	want(w, "with the state read back", texts(read), got)
	for _, f := range d.Effects(previous) {
		if slices.Contains(d.Findings, f) {
			w.Errorf("the decision says so, too: %s", f)
		}
	}
	return got
}

func TestEffectsOfNothing(t *testing.T) {
	source := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("a", "Deployment", everywhere+", failover: {cluster: {}}"))
	w := newWorld(t)
	want(t, "of the first push, where all is new", w.effects(source), []string{})
	want(t, "of the same again", w.effects(source), []string{})
	want(t, "of an image", w.effects(strings.Replace(source, "nginx:1", "nginx:2", 1)), []string{})
	want(t, "of a removal", w.effects(fleet(2)), []string{})
}

// Without the key of the record all of a Secret is compared but its values, and people are told.
func TestSecretsWithoutTheKeyOfTheRecord(t *testing.T) {
	source := func(meta, rest string) string {
		return fleet(2) + file("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default"+meta+"}\n"+rest+"\n", policyFor("p", "Secret", everywhere))
	}
	const first = "type: Opaque\nstringData: {a: one, b: two}"
	for name, c := range map[string]struct {
		source string
		change []string
		lines  []string
	}{
		"a value":      {source("", "type: Opaque\nstringData: {a: other, b: two}"), nil, nil},
		"a new key":    {source("", "type: Opaque\nstringData: {a: one, b: two, c: three}"), []string{"updated m1", "updated m2"}, []string{"c: 'hmac-sha256:'"}},
		"no key left":  {source("", "type: Opaque"), []string{"updated m1", "updated m2"}, nil},
		"a key less":   {source("", "type: Opaque\nstringData: {b: two}"), []string{"updated m1", "updated m2"}, nil},
		"another type": {source("", "type: x/y\nstringData: {a: one, b: two}"), []string{"updated m1", "updated m2"}, []string{"type: x/y"}},
		"a label":      {source(", labels: {team: a}", first), []string{"updated m1", "updated m2"}, []string{"team: a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.push(source("", first))
			before := w.text("m1/default/secret_s")
			previous := w.state
			w.options.SecretKey = nil
			d := w.push(c.source)
			var changes []string
			for _, row := range d.Works {
				changes = append(changes, string(row.Change)+" "+row.Cluster)
			}
			want(t, "changes", changes, c.change)
			after := w.text("m1/default/secret_s")
			want(t, "the same text", after == before, c.change == nil)
			for _, line := range c.lines {
				if !strings.Contains(after, line) {
					t.Errorf("%s is not in\n%s", line, after)
				}
			}
			effects := d.Effects(previous)
			effects = slices.DeleteFunc(effects, func(f render.Finding) bool { return f.Code == "immutable-field" }) // of the type
			if name == "no key left" {
				want(t, "effects", len(effects), 0)
				return
			}
			want(t, "effects", len(effects), 1)
			want(t, "severity", effects[0].Severity, render.Info)
			want(t, "code", effects[0].Code, "secrets-not-compared")
			if !strings.Contains(effects[0].Message, "1 Secret") {
				t.Errorf("%s does not count", effects[0])
			}
		})
	}
}

func TestFrozenFieldsAreToldOf(t *testing.T) {
	source := func(objects ...string) string {
		return fleet(2) + file("web.yaml", append(objects, policyFor("a", "Deployment", everywhere), policyFor("b", "Secret", everywhere), policyFor("c", "Service", everywhere), policyFor("d", "ConfigMap", everywhere))...)
	}
	other := strings.ReplaceAll(deployment("web", 1), "{app: web}", "{app: other}")
	allowed := func(object string) string {
		return strings.Replace(object, "namespace: default,", "namespace: default, annotations: {godwit.dev/recreate: allowed},", 1)
	}
	secret := func(more string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\n" + more + "\n"
	}
	service := func(more string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: default}\nspec: {ports: [{port: 80}]" + more + "}\n"
	}
	const kept = "web.yaml:4: warning: kept-on-member: Service default/s: spec.clusterIP: changes to no effect: what is on m1 and m2 keeps what it has"
	const leave = " and cannot be changed in place: m1 and m2 will refuse it, and what runs there stays as it is; undo the change, or let godwit delete the object and create it anew with the annotation godwit.dev/recreate: allowed"
	for _, tt := range []struct {
		name, before, after string
		want                []string
	}{
		{"a selector", deployment("web", 1), other, []string{"web.yaml:6: warning: immutable-field: Deployment default/web: spec.selector: changes" + leave}},
		{"with leave to recreate", deployment("web", 1), allowed(other), []string{"web.yaml:6: warning: recreate: Deployment default/web: spec.selector: changes and cannot be changed in place: the object is deleted and created anew on m1 and m2, as its annotation godwit.dev/recreate allows"}},
		{"leave alone", deployment("web", 1), allowed(deployment("web", 1)), []string{}},
		{"a value of a Secret", secret("data: {a: Yg==}"), secret("data: {a: Yw==}"), []string{}},
		{"a value of a sealed Secret, and its type", secret("immutable: true\ndata: {a: Yg==}"), secret("immutable: true\ndata: {a: Yw==}\ntype: a.org/b"),
			[]string{"web.yaml:5: warning: immutable-field: Secret default/s: data: changes, with type" + leave}},
		{"a text of a sealed Secret", secret("immutable: true\nstringData: {a: b}"), secret("immutable: true\nstringData: {a: c}"),
			[]string{"web.yaml:1: warning: immutable-field: Secret default/s: data: changes" + leave}},
		{"an address, which members choose", service(", clusterIP: 10.0.0.1"), service(", clusterIP: 10.0.0.2"), []string{}},
		{"an address taken away", service(""), service(", clusterIP: None"), []string{kept}},
		{"an address given", service(", clusterIP: None"), service(""), []string{kept}},
		{"a class of load balancers", service(", type: LoadBalancer, loadBalancerClass: a.org/a"), service(", type: LoadBalancer, loadBalancerClass: a.org/b"),
			[]string{"web.yaml:4: warning: immutable-field: Service default/s: spec.loadBalancerClass: changes" + leave}},
		{"what does not run yet", configMap("x", "x"), configMap("x", "x") + "---\n" + other, []string{}},
	} {
		w := newWorld(t)
		w.push(source(tt.before))
		want(t, tt.name, w.effects(source(tt.after)), tt.want)
	}
}

// What is suspended is not sent, so nothing refuses it.
func TestFrozenFieldsOfSuspendedWorksAreNotToldOf(t *testing.T) {
	source := func(object string) string {
		return fleet(2) + file("web.yaml", object, policyFor("a", "Deployment", everywhere+", suspension: {dispatchingOnClusters: {clusterNames: [m1]}}"))
	}
	w := newWorld(t)
	w.push(source(deployment("web", 1)))
	got := w.effects(source(strings.ReplaceAll(deployment("web", 1), "{app: web}", "{app: other}")))
	if len(got) != 1 || !strings.Contains(got[0], "in place: m2 will refuse it") {
		t.Errorf("got %q", got)
	}
}

func TestMembersThatComeAndGoAreToldOf(t *testing.T) {
	at := func(name, endpoint string) string {
		return strings.Replace(cluster(name, ""), "spec: {", "spec: {apiEndpoint: \""+endpoint+"\", ", 1)
	}
	web := file("web.yaml", deployment("web", 2), configMap("c", "x"), policyFor("a", "Deployment", everywhere), policyFor("b", "ConfigMap", everywhere))
	source := func(clusters ...string) string { return file("clusters.yaml", clusters...) + web }
	w := newWorld(t)
	w.push(source(cluster("m1", ""), at("m2", "https://two")))
	want(t, "one more", w.effects(source(cluster("m1", ""), at("m2", "https://two"), cluster("m3", ""))),
		[]string{"clusters.yaml:11: info: member-gained: Cluster m3: joins the fleet and gets 2 objects"})
	want(t, "one less", w.effects(source(cluster("m1", ""), at("m2", "https://two"))),
		[]string{"warning: member-lost: Cluster m3: leaves the fleet, as its manifest is gone; what it has is deleted there: 2 objects"})
	want(t, "another name", w.effects(source(cluster("m1", ""), at("m4", "https://two"))), []string{
		"warning: member-lost: Cluster m2: leaves the fleet, as its manifest is gone; what it has is deleted there: 2 objects",
		"clusters.yaml:6: warning: member-gained: Cluster m4: joins the fleet and gets 2 objects; it is the cluster that m2 was: what is deleted there under the old name and created under the new one is the same",
	})
	kept := strings.ReplaceAll(web, "placement: {}", "placement: {}, preserveResourcesOnDeletion: true")
	w.push(file("clusters.yaml", cluster("m1", ""), at("m4", "https://two")) + kept)
	want(t, "what is preserved", w.effects(file("clusters.yaml", cluster("m1", ""))+kept), []string{"warning: member-lost: Cluster m4: leaves the fleet, as its manifest is gone; nothing is deleted there"})
	w.push(source(cluster("m1", ""), at("m4", "https://two")))
	want(t, "labels", w.effects(source(cluster("m1", "a: b"), at("m4", "https://two"))), []string{})

	// Deletions that the brake holds are not told as done, and a member that cannot be reached keeps what it has.
	w = newWorld(t)
	w.options.MaxDeletePercent = 50
	w.look("m1", "m2")
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: p, namespace: default}\nspec: {accessModes: [ReadWriteOnce]}\n"
	source = func(clusters ...string) string {
		return file("clusters.yaml", clusters...) + web + file("p.yaml", claim, policyFor("p", "PersistentVolumeClaim", everywhere))
	}
	w.facts("m2", func(f *decide.MemberFacts) {
		f.APIs = append(slices.Clone(serves), apis("v1", "PersistentVolumeClaim"))
	})
	w.push(source(cluster("m1", ""), cluster("m2", ""), cluster("m3", "")))
	w.facts("m2", func(f *decide.MemberFacts) { f.Ready, f.Reason, f.Since = "Unknown", "ClusterNotReachable", w.now })
	w.pass()
	want(t, "a member that cannot be reached", w.effects(source(cluster("m1", ""), cluster("m3", ""))), []string{
		"warning: member-lost: Cluster m2: leaves the fleet, as its manifest is gone; 2 objects there cannot be deleted and may stay, as it is Unreachable; 1 deletion held"})
}

func TestTemplatesThatPassToAnotherPolicyAreToldOf(t *testing.T) {
	web := fleet(2) + file("web.yaml", deployment("api", 1), deployment("web", 1))
	all, byName := policyFor("all", "Deployment", everywhere), policyFor("web", "Deployment web", everywhere+", priority: 1, preemption: Always")
	w := newWorld(t)
	w.push(web + file("all.yaml", all))
	want(t, "by preemption", w.effects(web+file("all.yaml", all)+file("b.yaml", byName)),
		[]string{"b.yaml:4: warning: policy-takeover: PropagationPolicy default/web: takes over Deployment default/web from PropagationPolicy default/all, by preemption"})
	want(t, "as the holder is gone", w.effects(web+file("all.yaml", all)),
		[]string{"all.yaml:4: warning: policy-takeover: PropagationPolicy default/all: takes over Deployment default/web from PropagationPolicy default/web, which is gone"})
	want(t, "as the holder selects something else", w.effects(web+file("all.yaml", policyFor("all", "Deployment other", everywhere))+file("b.yaml", policyFor("both", "Deployment", everywhere))),
		[]string{"b.yaml:4: warning: policy-takeover: PropagationPolicy default/both: takes over Deployment default/api and Deployment default/web from PropagationPolicy default/all, which no longer selects it"})
	want(t, "to nobody", w.effects(web), []string{"web.yaml:1: warning: policy-lost: Deployment default/api: PropagationPolicy default/both, which is gone, no longer holds Deployment default/api and Deployment default/web, and no other policy does; what runs stays as it is"})
	want(t, "told once", w.effects(web), []string{})
}

func TestFailoverLostAndGainedIsToldOf(t *testing.T) {
	toleration := func(key, more string) string {
		return "placement: {clusterTolerations: [{key: " + key + ", operator: Exists, effect: NoExecute" + more + "}]}"
	}
	const unreachable, notReady = "cluster.karmada.io/unreachable", "cluster.karmada.io/not-ready"
	whole := everywhere + ", failover: {cluster: {}}"
	application := everywhere + ", propagateDeps: true, failover: {application: {decisionConditions: {}, purgeMode: Gracefully}"
	for _, tt := range []struct{ name, before, after, want string }{
		{"none", everywhere, everywhere, ""},
		{"cluster failover", everywhere, whole, "info: failover-gained: PropagationPolicy default/a: Deployment default/web leaves members that are down from now on"},
		{"by a toleration that ends", everywhere, toleration(unreachable, ", tolerationSeconds: 60"), "info: failover-gained: PropagationPolicy default/a: Deployment default/web leaves members that cannot be reached from now on"},
		{"by one that does not", everywhere, toleration(unreachable, ""), ""},
		{"another time alone", toleration(notReady, ", tolerationSeconds: 60"), toleration(notReady, ", tolerationSeconds: 90"), ""},
		{"one key less", whole, toleration(notReady, ", tolerationSeconds: 90"), "warning: failover-lost: PropagationPolicy default/a: Deployment default/web no longer leaves members that cannot be reached"},
		{"all of it", application + ", cluster: {}}", everywhere, "warning: failover-lost: PropagationPolicy default/a: Deployment default/web no longer leaves members where copies are unhealthy or that are down"},
		{"one for another", application + "}", whole, "info: failover-gained: PropagationPolicy default/a: Deployment default/web leaves members that are down from now on" +
			"\nwarning: failover-lost: PropagationPolicy default/a: Deployment default/web no longer leaves members where copies are unhealthy"},
	} {
		source := func(spec string) string {
			return fleet(2) + file("web.yaml", deployment("web", 1)) + file("a.yaml", policyFor("a", "Deployment", spec))
		}
		w := newWorld(t)
		w.push(source(tt.before))
		got := strings.ReplaceAll(strings.Join(w.effects(source(tt.after)), "\n"), "a.yaml:4: ", "")
		want(t, tt.name, got, tt.want)
	}
	w := newWorld(t)
	w.options.CompatKarmada = true
	w.push(fleet(2) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", whole)))
	want(t, "compat: karmada leaves no member that is down", w.effects(fleet(2)+file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", everywhere))), []string{})
}

func TestWorkloadsWithoutAPlaceAreToldOf(t *testing.T) {
	source := func(placement string, replicas int) string {
		return fleet(2) + file("web.yaml", deployment("web", replicas), policyFor("a", "Deployment", placement))
	}
	w := newWorld(t)
	w.look("m1", "m2")
	w.room("m1", 2)
	w.room("m2", 2)
	w.push(source(byRoom, 2))
	got := w.effects(source(byRoom, 9))
	if len(got) != 1 || !strings.HasPrefix(got[0], "web.yaml:1: warning: not-placed: Deployment default/web: Unschedulable: ") || !strings.HasSuffix(got[0], "; it stays on m1=1 m2=1, 2 of 9 replicas") {
		t.Errorf("got %q", got)
	}
	want(t, "told once", w.effects(source(byRoom, 9)), []string{})
	w = newWorld(t)
	w.push(fleet(2))
	got = w.effects(source(only("elsewhere"), 1))
	if len(got) != 1 || !strings.HasPrefix(got[0], "web.yaml:1: warning: not-placed: Deployment default/web: NoClusterFit: ") || !strings.HasSuffix(got[0], "; it runs nowhere") {
		t.Errorf("got %q", got)
	}
}
