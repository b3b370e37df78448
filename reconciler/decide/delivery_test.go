package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// hydrated is m1, whose works others apply.
const hydrated = "== clusters.yaml ==\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1, annotations: {godwit.dev/delivery: hydrate}}\nspec: {syncMode: Push}\n"

func TestWhoDelivers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		setting    decide.Delivery
		annotation string
		before     string // the annotation of an earlier commit, - for none
		want       decide.Delivery
		finding    bool
	}{
		{name: "nobody says", want: decide.DeliveryPush},
		{name: "the configuration", setting: decide.DeliveryHydrate, want: decide.DeliveryHydrate},
		{name: "the member", annotation: "hydrate", want: decide.DeliveryHydrate},
		{name: "the member, against the configuration", setting: decide.DeliveryHydrate, annotation: "push", want: decide.DeliveryPush},
		{name: "another mind", before: "hydrate", want: decide.DeliveryPush},
		{name: "a slip writes nothing to a new member", annotation: "hydrte", want: decide.DeliveryHydrate, finding: true},
		{name: "a slip changes nothing", before: "push", annotation: "hydrte", want: decide.DeliveryPush, finding: true},
		{name: "a slip changes nothing, the other way", before: "hydrate", annotation: "psh", want: decide.DeliveryHydrate, finding: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Delivery = tt.setting
			source := func(annotation string) string {
				return "== clusters.yaml ==\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1, annotations: {" + annotation + "}}\nspec: {syncMode: Push}\n"
			}
			said := func(word string) string {
				if word == "" {
					return ""
				}
				return "godwit.dev/delivery: " + word
			}
			if tt.before != "" {
				w.push(source(said(tt.before)))
			}
			d := w.push(source(said(tt.annotation)))
			if got := decide.DeliveryOf(w.state.Members["m1"]); got != tt.want {
				t.Errorf("delivery %s, want %s", got, tt.want)
			}
			if got := decide.DeliveryOf(w.readBack().Members["m1"]); got != tt.want {
				t.Errorf("on record %s, want %s", got, tt.want)
			}
			if got := strings.Contains(fmt.Sprint(codes(d)), "error delivery clusters.yaml"); got != tt.finding {
				t.Errorf("findings %v", codes(d))
			}
		})
	}
}

// A work that others apply says its version, and that it is to stay, where it is.
func TestWorksForOthersAreMarked(t *testing.T) {
	for _, tt := range []struct {
		name, terms, meta string
		keeps             bool
	}{
		{"plain", "", "", false},
		{"preserved by the policy", ", preserveResourcesOnDeletion: true", "", true},
		{"preserved by itself", "", `, annotations: {godwit.dev/prune: disabled, argocd.argoproj.io/sync-options: "Replace=true,Prune=true"}`, true},
	} {
		w := newWorld(t)
		template := strings.Replace(configMap("c", "one"), "name: c", "name: c"+tt.meta, 1)
		w.push(hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere+tt.terms)) + file("c.yaml", template))
		made := w.state.Works["works/m1/default/configmap_c.yaml"]
		if v := work.VersionOf(made.Object); len(v) != 16 {
			t.Errorf("%s: version %q", tt.name, v)
		}
		if got := work.Keeps(made.Object); got != tt.keeps {
			t.Errorf("%s: keeps %t, want %t\n%s", tt.name, got, tt.keeps, w.text("m1/default/configmap_c"))
		}
		if tt.meta != "" && !strings.Contains(w.text("m1/default/configmap_c"), "Replace=true,Prune=false,Delete=false") {
			t.Errorf("%s: other options are lost:\n%s", tt.name, w.text("m1/default/configmap_c"))
		}
	}
	w := newWorld(t)
	for _, keep := range []bool{false, true, false} { // the policy alone changes
		w.push(hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere+fmt.Sprintf(", preserveResourcesOnDeletion: %t", keep))) + file("c.yaml", configMap("c", "one")))
		want(t, "keeps", work.Keeps(w.state.Works["works/m1/default/configmap_c.yaml"].Object), keep)
	}
	w = newWorld(t)
	w.push(fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere+", preserveResourcesOnDeletion: true")) + file("c.yaml", configMap("c", "one")))
	if text := w.text("m1/default/configmap_c"); strings.Contains(text, "godwit.dev/work") || strings.Contains(text, "argocd") {
		t.Errorf("godwit applies it itself:\n%s", text)
	}
}

const sopsSecret = `apiVersion: v1
kind: Secret
metadata: {name: s, namespace: default}
data:
  %s: ENC[AES256_GCM,data:eA==,iv:aQ==,tag:dA==,type:str]
  %s: ENC[AES256_GCM,data:eQ==,iv:aQ==,tag:dA==,type:str]
sops:
  mac: ENC[AES256_GCM,data:bQ==,type:str]
  mac_only_encrypted: %t
`

// What is encrypted in part is not even read.
func TestASecretEncryptedInPartIsNotDelivered(t *testing.T) {
	w := newWorld(t)
	secret := strings.Replace(fmt.Sprintf(sopsSecret, "a", "b", true), "ENC[AES256_GCM,data:eQ==,iv:aQ==,tag:dA==,type:str]", "aHVudGVyMg==", 1)
	d := w.push(hydrated + file("p.yaml", policyFor("p", "Secret", everywhere)) + file("s.yaml", secret))
	want(t, "works", w.works(), []string{})
	want(t, "findings", codes(d), []string{"warning selects-nothing p.yaml", "error sops-changed s.yaml"})
	for name, f := range w.branch {
		if strings.Contains(string(f.Data), "aHVudGVyMg==") {
			t.Errorf("the value is in %s", name)
		}
	}
}

func TestNoSecretGoesByTheRecordInTheClear(t *testing.T) {
	const plain = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {a: hunter2}\n"
	for _, tt := range []struct {
		name, secret string
		hint         string // empty: it is delivered
	}{
		{"in the clear", plain, "encrypt all of them with SOPS"},
		{"with a value where none belongs", fmt.Sprintf(sopsSecret, "a", "b", true) + "stringdata: {c: hunter2}\n", "encrypt all of them with SOPS"},
		{"checksum over our marks", fmt.Sprintf(sopsSecret, "a", "b", false), "sops --mac-only-encrypted"},
		{"values out of order", fmt.Sprintf(sopsSecret, "b", "a", true), "sort them"},
		{"encrypted", fmt.Sprintf(sopsSecret, "a", "b", true), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			d := w.push(hydrated + file("p.yaml", policyFor("p", "Secret", everywhere)) + file("s.yaml", tt.secret))
			branch := ""
			for _, f := range w.branch {
				branch += string(f.Data)
			}
			if strings.Contains(branch, "hunter2") || strings.Contains(branch, "aHVudGVyMg==") {
				t.Error("the value is on the branch")
			}
			if tt.hint == "" {
				want(t, "findings", codes(d), []string{})
				if text := w.text("m1/default/secret_s"); !strings.Contains(text, "ENC[AES256_GCM,data:eA==") || !strings.Contains(text, "mac_only_encrypted: true") {
					t.Errorf("it is not as it was encrypted:\n%s", text)
				}
				return
			}
			want(t, "works", w.works(), []string{})
			want(t, "findings", codes(d), []string{"error secret-values s.yaml"})
			if text := d.Findings[0].Message; !strings.Contains(text, tt.hint) {
				t.Errorf("%q, want %q in it", text, tt.hint)
			}
		})
	}
}

// What SOPS encrypted is delivered as it was encrypted, whatever overrides make of it.
func TestNoOverrideGoesIntoAnEncryptedSecret(t *testing.T) {
	secret := fmt.Sprintf(sopsSecret, "a", "b", true)
	for _, tt := range []struct {
		name, overrider string
		refused         bool
	}{
		{"a new value", `{path: /data/c, operator: add, value: hunter2}`, true},
		{"another value", `{path: /data/a, operator: replace, value: hunter2}`, true},
		{"one that looks encrypted", `{path: /data/a, operator: replace, value: "ENC[hunter2"}`, true},
		{"one less", `{path: /data/a, operator: remove}`, true},
		{"texts", `{path: /stringData, operator: add, value: {c: hunter2}}`, true},
		{"a field misspelt", `{path: /stringdata, operator: add, value: {c: hunter2}}`, true},
		{"the checksum", `{path: /sops/mac, operator: replace, value: hunter2}`, true},
		{"nothing of SOPS left", `{path: /sops, operator: remove}`, true},
		{"a label", `{path: /metadata/labels/team, operator: add, value: a}`, false},
		{"the type", `{path: /type, operator: add, value: example.com/a}`, false},
		{"a type by which its values go", `{path: /type, operator: add, value: kubernetes.io/service-account-token}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			files := hydrated + file("p.yaml", policyFor("p", "Secret", everywhere)) + file("s.yaml", secret)
			w.push(files)
			before := w.text("m1/default/secret_s")
			d := w.push(files + file("o.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\n"+
				"spec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], overrideRules: [{overriders: {plaintext: ["+tt.overrider+"]}}]}\n"))
			for name, f := range w.branch {
				if strings.HasPrefix(name, "works/") && strings.Contains(string(f.Data), "hunter2") {
					t.Errorf("the value is in %s", name)
				}
			}
			if !tt.refused {
				want(t, "findings", codes(d), []string{})
				return
			}
			want(t, "findings", codes(d), []string{"error secret-values s.yaml"})
			if text := d.Findings[0].Message; !strings.Contains(text, "has to stay as SOPS encrypted it") {
				t.Error(text)
			}
			if after := w.text("m1/default/secret_s"); after != before || after == "" {
				t.Errorf("the last good version is not kept:\n%s", after)
			}
		})
	}
}

// Placeholders of a Secret that godwit applied itself leave works/ when others begin to apply that, and the Secret stays.
func TestASecretIsGivenUpWhenOthersBeginToDeliver(t *testing.T) {
	w := newWorld(t)
	rest := file("p.yaml", policyFor("p", "Secret", everywhere)) + file("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {a: hunter2}\n")
	w.push(strings.Replace(hydrated, "hydrate", "push", 1) + rest)
	want(t, "works", w.works(), []string{"m1/default/secret_s"})
	w.push(hydrated + rest)
	want(t, "works", w.works(), []string{})
	want(t, "retired", w.retired(), []string{"m1/default/secret_s"})
	if r := w.state.Retired["retired/m1/default/secret_s.yaml"]; !r.Preserve {
		t.Error("it is to be deleted")
	}
}

// A suspended work keeps the file that it has: others apply whatever is there.
func TestASuspendedFileDoesNotChange(t *testing.T) {
	w := newWorld(t)
	source := func(terms, value string) string {
		return hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere+terms)) + file("c.yaml", configMap("c", value))
	}
	w.push(source("", "one"))
	w.push(source(", suspension: {dispatching: true}", "two"))
	if text := w.text("m1/default/configmap_c"); !strings.Contains(text, "key: one") {
		t.Errorf("it changed:\n%s", text)
	}
	w.restart()
	w.quiet(w.pass())
	w.push(source("", "two"))
	if text := w.text("m1/default/configmap_c"); !strings.Contains(text, "key: two") {
		t.Errorf("it did not:\n%s", text)
	}
}

// What is to stay on the member keeps its file until who prunes was seen to know.
func TestAPreservedFileStaysUntilItIsKnown(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	base := hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w.push(base + file("c.yaml", configMap("c", "one")))
	w.applied("m1")
	w.pass()
	kept := strings.Replace(configMap("c", "one"), "name: c", "name: c, annotations: {godwit.dev/prune: disabled}", 1)
	w.push(base + file("c.yaml", kept))
	d := w.push(base)
	want(t, "works", w.works(), []string{"m1/default/configmap_c"})
	want(t, "retired", w.retired(), []string{})
	if !strings.Contains(fmt.Sprint(d.Findings), "file-stays") {
		t.Errorf("findings %v", d.Findings)
	}
	w.restart()
	w.quiet(w.pass())
	w.applied("m1")
	d = w.pass()
	want(t, "subject", d.Commit.Subject, "purge(m1): 1 file no longer kept")
	want(t, "works", w.works(), []string{})
	r := w.state.Retired["retired/m1/default/configmap_c.yaml"]
	if !r.Preserve {
		t.Error("it is to be deleted")
	}
	w.gone("m1")
	w.pass()
	want(t, "retired", w.retired(), []string{})
}

// The policy says to preserve in the commit that takes the template away: the file is told first.
func TestAFileIsToldToStayBeforeItGoes(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	base := func(terms string) string {
		return hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere+terms))
	}
	w.push(strings.Replace(base(", preserveResourcesOnDeletion: true"), "hydrate", "push", 1) + file("c.yaml", configMap("c", "one")))
	w.applied("m1")
	w.pass()
	w.push(base(""))
	if made := w.state.Works["works/m1/default/configmap_c.yaml"]; !work.Keeps(made.Object) {
		t.Fatalf("works %v, and nobody is told:\n%s", w.works(), w.text("m1/default/configmap_c"))
	}
	w.applied("m1")
	w.pass()
	want(t, "works", w.works(), []string{})
}

// A copy that its workload left while the member was down keeps its file as long as no other one is known to work.
func TestTheLastCopyKeepsItsFile(t *testing.T) {
	w := newWorld(t)
	source := strings.ReplaceAll("== clusters.yaml ==\n---\n"+cluster("m1", "")+"---\n"+cluster("m2", ""), "labels: {}", "annotations: {godwit.dev/delivery: hydrate}") +
		file("p.yaml", policyFor("p", "Deployment web", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 0}]}, propagateDeps: true, failover: {cluster: {purgeMode: Gracefully}}")) +
		file("web.yaml", strings.Replace(deployment("web", 2), `image: "nginx:1"`, `image: "nginx:1", envFrom: [{configMapRef: {name: c}}]`, 1), configMap("c", "one"))
	on := func(members ...string) (paths []string) { // what the workload needs goes along with it
		for _, m := range members {
			paths = append(paths, m+"/default/configmap_c", m+"/default/deployment.apps_web")
		}
		return paths
	}
	health := func(member, health string) {
		w.applied(member)
		w.facts(member, func(f *decide.MemberFacts) {
			for id, c := range f.Copies {
				if id.Kind == "Deployment" {
					ready := int64(2)
					if health != "Healthy" {
						ready = 0
					}
					live := map[string]any{}
					for k, v := range c.Live {
						live[k] = v
					}
					live["status"] = map[string]any{"readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": ready, "replicas": int64(2)}
					c.Live = live
					f.Copies[id] = c
				}
			}
		})
	}
	ready := func(member string, is metav1.ConditionStatus) {
		w.facts(member, func(f *decide.MemberFacts) { f.Ready, f.Since = is, w.now })
	}
	later := func(d time.Duration) { w.now = w.now.Add(d); w.pass() }
	w.look("m1", "m2")
	w.push(source)
	want(t, "placed", w.placed("default/web-deployment"), "m1=2")
	health("m1", "Healthy")
	later(time.Minute)
	ready("m1", metav1.ConditionFalse)
	later(time.Minute)
	later(time.Minute)
	want(t, "placed", w.placed("default/web-deployment"), "m2=2")
	want(t, "works", w.works(), on("m1", "m2"))
	health("m2", "Unhealthy")
	later(time.Minute)
	later(time.Hour) // the task is given up
	if tasks := w.binding("default/web-deployment").Spec.GracefulEvictionTasks; len(tasks) > 0 {
		t.Fatalf("tasks %v", tasks)
	}
	want(t, "works", w.works(), on("m1", "m2"))
	ready("m1", metav1.ConditionTrue)
	w.restart()
	later(time.Minute)
	want(t, "works", w.works(), on("m1", "m2"))
	health("m2", "Healthy")
	later(time.Minute)
	later(time.Minute)
	want(t, "works", w.works(), on("m2"))
	want(t, "retired", w.retired(), on("m1"))
}

// While an update waits for who delivers it, the copy that runs is judged; the new one does not count as applied.
func TestACopyThatWaitsForItsDeliveryKeepsItsHealth(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	w.push(hydrated + file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("c.yaml", configMap("c", "one")))
	for live, want := range map[bool]string{true: "false Healthy NotDelivered: later", false: "false Unknown NotDelivered: later"} {
		w.facts("m1", func(f *decide.MemberFacts) {
			for _, made := range w.state.Works {
				c := decide.CopyFacts{Reason: decide.ReasonNotDelivered, Message: "later"}
				if live {
					c.Live = made.Object
				}
				f.Copies[made.ID.Unversioned()] = c
			}
		})
		w.now = w.now.Add(time.Hour)
		w.pass()
		item := w.binding("default/c-configmap").Status.AggregatedStatus[0]
		if got := fmt.Sprint(item.Applied, " ", item.Health, " ", item.AppliedMessage); got != want {
			t.Errorf("live %t: %s, want %s", live, got, want)
		}
	}
}

func TestObjectsOfAnotherDeliveryAreNamed(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	source := fleet(2) + file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("c.yaml", configMap("c", "one"))
	w.push(source)
	for _, member := range []string{"m1", "m2"} {
		w.facts(member, func(f *decide.MemberFacts) {
			f.Tracked = nil
			for _, made := range w.state.Works {
				f.Tracked = map[api.ID]string{made.ID.Unversioned(): "Argo CD (x)"}
			}
		})
	}
	d := w.pass()
	want(t, "findings", codes(d), []string{"warning two-managers c.yaml"})
	if text := d.Findings[0].Message; !strings.Contains(text, "m1: Argo CD (x) and m2: Argo CD (x)") {
		t.Errorf("%q", text)
	}
}

func TestASelectorOfALabelThatIsTakenOffIsNamed(t *testing.T) {
	monitor := "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: web, namespace: default}\nspec: {selector: {matchLabels: {app.kubernetes.io/instance: shop}}}\n"
	source := fleet(1) + file("p.yaml", strings.Replace(policyFor("p", "ServiceMonitor", everywhere), "apiVersion: v1,", "apiVersion: monitoring.coreos.com/v1,", 1)) + file("m.yaml", monitor)
	w := newWorld(t)
	want(t, "findings", codes(w.push(source)), []string{"warning label-taken-off m.yaml"})
	w.options.KeepInstanceLabel = true
	want(t, "findings", codes(w.pass()), []string{})
}

// A copy is made anew for who delivers it now, and members that differ in that do not share one.
func TestAnotherDeliveryMakesAnotherWork(t *testing.T) {
	w := newWorld(t)
	rest := file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("c.yaml", configMap("c", "one"))
	clusters := "== clusters.yaml ==\n---\n" + cluster("m0", "") + "---\n" + strings.TrimPrefix(hydrated, "== clusters.yaml ==\n")
	marked := func(member string) bool {
		return work.VersionOf(w.state.Works["works/"+member+"/default/configmap_c.yaml"].Object) != ""
	}
	for _, hydrates := range []bool{true, false, true} {
		word := map[bool]string{true: "hydrate", false: "push"}[hydrates]
		w.push(strings.Replace(clusters, "hydrate", word, 1) + rest)
		if marked("m0") || marked("m1") != hydrates {
			t.Errorf("%s: marked %t and %t, want false and %t", word, marked("m0"), marked("m1"), hydrates)
		}
	}
}
