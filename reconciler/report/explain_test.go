package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

var explaining = decide.Options{Explain: true}

var webKey = record.BindingKey{Namespace: "default", Name: "web-deployment"}

// explain explains default/web, or what kind/name says, of a source decided on previous.
func explain(t testing.TB, previous *record.State, source, what string) *report.Explanation {
	t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	e, err := report.Explain(step(t, previous, "head", source, explaining), kind, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func pageOf(e *report.Explanation) string {
	var b bytes.Buffer
	e.Text(&b, report.Style{})
	return b.String()
}

// changed is the state after a source, with web's binding changed.
func changed(t testing.TB, source string, change func(*record.State, *workv1alpha2.ResourceBinding)) *record.State {
	t.Helper()
	s := step(t, nil, "base", source, decide.Options{}).Next.Clone()
	b := *s.Bindings[webKey]
	s.Bindings[webKey] = &b
	change(s, &b)
	return s
}

// Each row is something people ask, and what the page must say.
func TestThePageAnswersTheTrouble(t *testing.T) {
	four := fmt.Sprintf(web, 4)
	placed := members + policy(divided) + four
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	policyWith := func(spec string) string {
		return strings.Replace(policy(divided), "placement:", spec+", placement:", 1)
	}
	override := func(name, spec string) string {
		return "== " + name + ".yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: " + name + ", namespace: default}\nspec: " + spec + "\n"
	}
	claims := func(placement string) string {
		return strings.Replace(policy(placement), "kind: ConfigMap", "kind: PersistentVolumeClaim", 1) + "== data.yaml ==\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: default}\nspec: {}\n"
	}
	tests := []struct {
		name     string
		previous func() *record.State
		source   string
		what     string
		want     []string
	}{
		{"no policy at all", nil, members + four, "Deployment/web", []string{"it runs nowhere: no policy selects it", "none: no policy selects it"}},
		{"the policy has an error", nil, members + four + "== p.yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: default}\nspec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {clusterAffinty: {}}}\n",
			"Deployment/web", []string{"runs nowhere", "Findings\np.yaml:", "clusterAffinty"}},
		{"no member", nil, policy("") + four, "Deployment/web", []string{"no cluster is registered"}},
		{"no binding any more, and its copy is to be deleted", func() *record.State { return step(t, nil, "base", placed, decide.Options{}).Next },
			members + policy("clusterAffinity: {clusterNames: [m1]}, "+divided) + four, "Deployment/web",
			[]string{"placement changed: clusterAffinity", "m2        refused   0 (was 2)", "ClusterAffinity: not in clusterNames", "retired m2: its copy is to be deleted (Unscheduled), until the member confirms it (since 2026-01-01T12:00:00Z)"}},
		{"the policy let it go", func() *record.State { return step(t, nil, "base", placed, decide.Options{}).Next }, members + four, "Deployment/web",
			[]string{"runs on: m1=2 m2=2", "held it and is gone and no other policy selects it; what runs stays as it is"}},
		{"suspended", nil, members + policyWith("suspension: {dispatching: true}") + four, "Deployment/web", []string{"suspended: nothing is sent to any member"}},
		{"suspended on one member", nil, members + policyWith("suspension: {dispatchingOnClusters: {clusterNames: [m2]}}") + four, "Deployment/web", []string{"suspended m2: nothing is sent there"}},
		{"scheduling is suspended", func() *record.State {
			return changed(t, placed, func(_ *record.State, b *workv1alpha2.ResourceBinding) {
				b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
			})
		}, placed, "Deployment/web", []string{"Suspended: scheduling is suspended", "suspended: scheduling is suspended"}},
		{"another scheduler", nil, members + policyWith("schedulerName: mine") + four, "Deployment/web", []string{"OtherScheduler: schedulerName names another scheduler"}},
		{"it waits for an override policy", func() *record.State { return step(t, nil, "base", placed, decide.Options{}).Next }, members + policyWith("dependentOverrides: [o]") + four, "Deployment/web",
			[]string{"waits for the override policies o"}},
		{"a member is down", func() *record.State {
			return changed(t, placed, func(s *record.State, _ *workv1alpha2.ResourceBinding) {
				m := *s.Members["m2"]
				m.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "etcd is gone", LastTransitionTime: noon}}
				m.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}}
				s.Members["m2"] = &m
			})
		}, placed, "Deployment/web", []string{"notReady m2: is NotReady: etcd is gone; nothing of it changes there until it is back (since 2026-01-01T12:00:00Z)"}},
		{"it is being evicted", func() *record.State {
			return changed(t, placed, func(_ *record.State, b *workv1alpha2.ResourceBinding) {
				b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "m2", Producer: "TaintManager", Reason: "TaintUntolerated", PurgeMode: policyv1alpha1.PurgeGracefully, GracePeriodSeconds: new(int32(600)), CreationTimestamp: &noon}}
				b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 4}}
			})
		}, placed, "Deployment/web", []string{"ClusterEviction: the workload is being evicted from the cluster (TaintManager: TaintUntolerated)", "evicting m2: is being left (TaintManager: TaintUntolerated), purge mode Gracefully, grace period 600s (since 2026-01-01T12:00:00Z)"}},
		{"it failed on a member not long ago", func() *record.State {
			return changed(t, placed, func(_ *record.State, b *workv1alpha2.ResourceBinding) {
				b.Spec.Failover = &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{}}
				b.Spec.ActiveEvictionHistory = []workv1alpha2.EvictionRecord{{ClusterName: "m2", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)), Reason: "ApplicationFailure"}}
				b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 4}}
			})
		}, members + policyWith("activationPreference: Lazy") + four, "Deployment/web",
			[]string{"timer block m2: new copies are refused after an eviction (ApplicationFailure) (2026-01-01T11:59:00Z to 2026-01-01T12:09:00Z)", "2026-01-01T12:09:00Z: block on m2 ends"}},
		{"a member left the fleet", func() *record.State { return step(t, nil, "base", placed, decide.Options{}).Next },
			strings.Replace(placed, "name: m2}", "name: m9}", 1), "Deployment/web", []string{"ClusterLeaving: a member that it runs on leaves the fleet", "ClusterLeaving: the cluster is being removed from the fleet"}},
		{"a deletion is held back", func() *record.State { return step(t, nil, "base", members+claims(""), decide.Options{}).Next }, members + claims("clusterAffinity: {clusterNames: [m1]}"), "pvc/data",
			[]string{"held m2: its deletion is held back: deleting a PersistentVolumeClaim deletes what is in it; a source commit with the trailer \"Godwit-Approve: delete\" lets it go"}},
		{"components go together", nil, members + strings.Replace(policy("spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], "+strings.Replace(divided, "Weighted", "Aggregated", 1)), "apiVersion: apps/v1, kind: Deployment", "apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment", 1) +
			"== f.yaml ==\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: flinkdeployments.flink.apache.org}\nspec: {group: flink.apache.org, scope: Namespaced, names: {plural: flinkdeployments, kind: FlinkDeployment}, versions: [{name: v1beta1, served: true, storage: true}]}\n---\napiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: web, namespace: default}\nspec: {jobManager: {replicas: 2}, taskManager: {replicas: 4}, job: {parallelism: 5}}\n", "FlinkDeployment/web",
			[]string{"all components (jobmanager 2, taskmanager 4) on m1", "m1 chosen", "m2 passed over"}},
		{"what it needs", nil, members + policyWith("propagateDeps: true") + strings.Replace(four, "containers:", "volumes: [{name: v, configMap: {name: c}}, {name: w, configMap: {name: gone}}], containers:", 1) + configMap("c", "x"), "Deployment/web",
			[]string{"needs ConfigMap default/c, which goes along", "needs ConfigMap default/gone, which is not in the source"}},
		{"what needs it", nil, members + strings.Replace(policyWith("propagateDeps: true"), "{apiVersion: v1, kind: ConfigMap}, ", "", 1) + strings.Replace(four, "containers:", "volumes: [{name: v, configMap: {name: c}}], containers:", 1) + configMap("c", "x"), "ConfigMap/c",
			[]string{"runs on: m1 m2\n", "none: it goes where what needs it goes", "needed by default/web-deployment"}},
		{"an override for another member, resource, label, and path", nil, placed +
			override("a", "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], overrideRules: [{targetCluster: {clusterNames: [m3]}, overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}]}") +
			override("b", "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: wbe}], overrideRules: [{overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}]}") +
			override("c", "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}], overrideRules: [{overriders: {plaintext: [{path: /spec/nothing/there, operator: replace, value: 1}]}}]}"), "Deployment/web",
			[]string{"not for m1, m2: OverridePolicy default/a spec.overrideRules[0].targetCluster: not in clusterNames (a.yaml:4)", "near: OverridePolicy default/b does not select it: name: wbe, and the template has web (b.yaml:4)", "refused: m1: c.yaml:4: OverridePolicy default/c", "there is no /spec/nothing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var previous *record.State
			if tt.previous != nil {
				previous = tt.previous()
			}
			e := explain(t, previous, tt.source, tt.what)
			page := pageOf(e)
			flat := strings.Join(strings.Fields(page), " ") // long lines of a table are broken
			for _, want := range tt.want {
				if !strings.Contains(flat, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("the page lacks %q:\n%s", want, page)
				}
			}
			// Markdown says the same in the same order, and JSON is never without a list of clusters.
			if got := strings.Count(e.Markdown(), "\n### "); got != strings.Count(page, "\n\n") {
				t.Errorf("%d parts in Markdown, the page:\n%s", got, page)
			}
			if data, err := json.Marshal(e); err != nil || !bytes.Contains(data, []byte(`"clusters":[`)) {
				t.Errorf("%s: %v", data, err)
			}
		})
	}
}

func TestAQuotaLeavesNoMemberChosen(t *testing.T) {
	quota := "== q.yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: q, namespace: default}\nspec: {overall: {cpu: 1}}\n"
	app := strings.Replace(fmt.Sprintf(web, 4), "image: nginx", "image: nginx, resources: {requests: {cpu: 1}}", 1)
	e := explain(t, nil, members+policy(divided)+app+quota, "Deployment/web")
	for _, v := range e.Members {
		if v.Outcome != "passed over" || v.Rule != "FederatedResourceQuota" || v.Replicas != 0 {
			t.Errorf("%+v, want passed over by the quota", v)
		}
	}
	if e.Failure != "QuotaExceeded" || !e.Division.Withheld || e.Rebalance != nil || !strings.Contains(pageOf(e), "not put into force: quota q: ") {
		t.Errorf("failure %q, division %+v, page\n%s", e.Failure, e.Division, pageOf(e))
	}
}

// A file with an error is told, with the commit whose version is in force.
func TestFilesHeldBackAreTold(t *testing.T) {
	good := members + policy(divided) + fmt.Sprintf(web, 4)
	for _, broken := range []string{strings.Replace(good, "placement:", "placemnt:", 1), strings.Replace(good, "kind: Deployment\nmetadata: {name: web,", "kind: Deployment\nmetadata: {{name: web,", 1)} {
		base := step(t, nil, "base", good, decide.Options{})
		d, err := decide.Next(decide.Input{
			Source: gitstate.Snapshot{Revision: "head", FS: rendertest.Source(broken)}, Past: map[string]fs.FS{"base": rendertest.Source(good)},
			Previous: base.Next, Now: time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC), Options: explaining,
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := report.Explain(d, "Deployment", "default", "web")
		if err != nil {
			t.Fatal(err)
		}
		if page := pageOf(e); !strings.Contains(page, "has an error; its version of commit base is in force") || !strings.Contains(page, "runs on: m1=2 m2=2") {
			t.Errorf("the page is\n%s", page)
		}
	}
}

func TestNamesOfKinds(t *testing.T) {
	d := step(t, nil, "head", members+policy("")+fmt.Sprintf(web, 4)+configMap("c", "x")+strings.NewReplacer("c.yaml", "c2.yaml", "namespace: default", "namespace: other").Replace(configMap("c", "x"))+
		"== i.yaml ==\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: default}\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np, namespace: default}\n", explaining)
	for _, tt := range []struct{ kind, namespace, name, want string }{
		{"Deployment", "", "web", "Deployment default/web"}, {"deployments", "default", "web", "Deployment default/web"}, {"deploy", "", "web", "Deployment default/web"},
		{"deployments.apps", "", "web", "Deployment default/web"}, {"deployment.batch", "", "web", "error: the source has no"},
		{"cm", "default", "c", "ConfigMap default/c"}, {"configmap", "", "c", "error: there are 2 of kind configmap and name c: v1 ConfigMap default/c, v1 ConfigMap other/c"},
		{"ingresses", "", "i", "Ingress default/i"}, {"networkpolicies", "", "np", "NetworkPolicy default/np"}, {"Deployment", "other", "web", "error: the source has no"},
		{"propagationpolicy", "", "p", "error: PropagationPolicy default/p (policy.yaml:1) runs nowhere: it tells godwit what to do"},
	} {
		got := ""
		if e, err := report.Explain(d, tt.kind, tt.namespace, tt.name); err != nil {
			got = "error: " + err.Error()
		} else {
			got = e.Resource.String()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("Explain(%q, %q, %q) = %q, want %q", tt.kind, tt.namespace, tt.name, got, tt.want)
		}
	}
}

// No value of a Secret is in any form of the page, wherever an override puts it.
func TestNoValueOfASecretIsShown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.SampledFrom([]string{"/data/user", "/stringData/password", "/data", "/stringdata", "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", "/metadata/annotations", "/metadata/annotations/a", "/other"}).Draw(rt, "path")
		value := `"top-secret-too"`
		if slices.Contains([]string{"/data", "/metadata/annotations"}, path) {
			value = `{"k": "top-secret-too"}`
		}
		source := members + strings.Replace(policy(""), "{apiVersion: v1, kind: ConfigMap}", "{apiVersion: v1, kind: Secret}", 1) +
			"== s.yaml ==\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default, annotations: {b: top-secret-old}}\ndata: {user: dG9wLXNlY3JldA==}\nstringData: {password: top-secret}\n" +
			"== o.yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\nspec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], overrideRules: [{overriders: {plaintext: [{path: \"" + path + "\", operator: add, value: " + value + "}]}}]}\n"
		e := explain(t, nil, source, "Secret/s")
		data, err := json.Marshal(e)
		if err != nil {
			rt.Fatal(err)
		}
		for form, text := range map[string]string{"text": pageOf(e), "JSON": string(data), "Markdown": e.Markdown()} {
			if strings.Contains(text, "top-secret") || strings.Contains(text, "dG9wLXNlY3JldA") {
				rt.Fatalf("%s: %s shows a value:\n%s", path, form, text)
			}
		}
		if len(e.RenderErrors) == 0 && (len(e.Overrides) != 1 || !e.Overrides[0].Changed) {
			rt.Fatalf("%s: overrides are %+v, want one that changes something", path, e.Overrides)
		}
	})
}

// What comes from users forges no line of the page and steers no terminal.
func TestHostileNamesStayOnTheirLine(t *testing.T) {
	hostile := `x\u001b[2J\nPolicy\n  none: forged</details>|`
	source := members + policy("") + fmt.Sprintf(web, 1) +
		"== o.yaml ==\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: default}\nspec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], overrideRules: [{overriders: {argsOverrider: [{containerName: \"" + hostile +
		"\", operator: add, value: [a]}, {containerName: c, operator: add, value: [\"" + hostile + "\"]}]}}]}\n"
	e := explain(t, nil, source, "Deployment/web")
	page := pageOf(e)
	if strings.Contains(page, "\x1b") || strings.Contains(page, "\n  none: forged") || !strings.Contains(page, "none: forged") {
		t.Errorf("the page is\n%s", page)
	}
	if md := e.Markdown(); strings.Contains(md, "</details>") || strings.Contains(md, "\n  none: forged") {
		t.Errorf("Markdown is\n%s", md)
	}
}

// The arithmetic on the page ends at what is in force.
func TestTheArithmeticShownSumsToTheResult(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		preference := rapid.SampledFrom([]string{
			"replicaSchedulingType: Divided, replicaDivisionPreference: Weighted",
			"replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated",
			"replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}",
			"replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [m1]}, weight: 3}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}",
			"replicaSchedulingType: Duplicated",
		}).Draw(rt, "preference")
		source := func(n int) string {
			return members + policy("replicaScheduling: {"+preference+"}") + fmt.Sprintf(web, n)
		}
		first := step(t, nil, "base", source(rapid.IntRange(1, 9).Draw(rt, "first")), decide.Options{})
		e := explain(t, first.Next, source(rapid.IntRange(1, 9).Draw(rt, "second")), "Deployment/web")
		sums := map[string]int32{}
		for _, s := range e.Division.Steps {
			for _, share := range slices.Concat(s.Kept, s.Dealt) {
				sums[share.Name] += share.Replicas
				if !strings.Contains(s.Text, fmt.Sprintf("%s %d", share.Name, share.Replicas)) && s.How != "whole" {
					rt.Fatalf("%q does not say %s %d", s.Text, share.Name, share.Replicas)
				}
			}
		}
		var total int32
		for _, c := range e.Clusters {
			if total += c.Replicas; sums[c.Name] != c.Replicas {
				rt.Fatalf("%s has %d, the steps say %d: %+v", c.Name, c.Replicas, sums[c.Name], e.Division.Steps)
			}
		}
		if e.Division.Strategy != "Duplicated" && total != e.Division.Wanted {
			rt.Fatalf("%d of %d", total, e.Division.Wanted)
		}
	})
}

// A record that says something else than the decision made again is believed, and the difference told.
func TestTheRecordIsBelieved(t *testing.T) {
	placed := members + policy(divided) + fmt.Sprintf(web, 4)
	now := changed(t, placed, func(_ *record.State, b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 4}}
	})
	at := report.Moment{Commit: "0123456789abcdef", Time: "2026-01-01T12:00:00Z", Subject: "schedule", Source: "abc"}
	e := explain(t, nil, placed, "Deployment/web")
	e.Recall(at, now)
	if page := pageOf(e); !strings.HasPrefix(page, "Deployment default/web runs on: m1=4\nits template is web.yaml:1\nas recorded 2026-01-01T12:00:00Z by 0123456789ab: schedule\ndecided on source commit abc\ndeciding again from the record gives m1=2 m2=2") {
		t.Errorf("the page is\n%s", page)
	}
	e = explain(t, nil, placed, "Deployment/web")
	e.Recall(at, step(t, nil, "base", placed, decide.Options{}).Next)
	if e.Differs != "" {
		t.Errorf("the same, and yet: %s", e.Differs)
	}
	e.Recall(at, record.New())
	if !strings.Contains(e.Differs, "the record has no binding of it") || len(e.Clusters) != 0 {
		t.Errorf("no binding, and yet: %q %v", e.Differs, e.Clusters)
	}
}
