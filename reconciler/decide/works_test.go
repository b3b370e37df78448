package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/rendertest"
)

func override(name, rule string) string {
	return fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: %s, namespace: default}\nspec: {overrideRules: [%s]}\n", name, rule)
}

func TestOverrideIsUndoneByTakingItOut(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere))
	w.push(base)
	before := fmt.Sprint(w.branchWithout("state.yaml"))
	d := w.push(base, file("o.yaml", override("o", `{targetCluster: {clusterNames: [m2]}, overriders: {imageOverrider: [{component: Tag, operator: replace, value: "2"}]}}`)))
	want(t, "works", len(d.Works), 1)
	want(t, "subject", d.Commit.Subject, "update(default/web-deployment): m2")
	if got := w.text("m2/default/deployment.apps_web"); !strings.Contains(got, "nginx:2") {
		t.Errorf("the copy is\n%s", got)
	}
	w.push(base)
	want(t, "the branch", fmt.Sprint(w.branchWithout("state.yaml")), before)
}

func (w *world) branchWithout(name string) map[string]string {
	texts := map[string]string{}
	for p, f := range w.branch {
		if p != name {
			texts[p] = string(f.Data)
		}
	}
	return texts
}

func TestRenderErrorKeepsTheOldWork(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere))
	w.push(base)
	before := w.text("m2/default/deployment.apps_web")
	wrong := override("o", `{targetCluster: {clusterNames: [m2]}, overriders: {plaintext: [{path: /spec/nowhere/x, operator: replace, value: 1}]}}`)
	changed := fleet(2) + file("web.yaml", deployment("web", 3), policyFor("p", "Deployment", everywhere)) + file("o.yaml", wrong)
	d := w.push(changed)
	r := row(t, d, "default/web-deployment")
	if len(r.RenderErrors) != 1 || r.RenderErrors[0].Cluster != "m2" {
		t.Errorf("render errors %+v", r.RenderErrors)
	}
	want(t, "old work", w.text("m2/default/deployment.apps_web"), before)
	if got := w.text("m1/default/deployment.apps_web"); !strings.Contains(got, "replicas: 3") {
		t.Errorf("others do not go on:\n%s", got)
	}
	want(t, "said again", len(row(t, w.pass(), "default/web-deployment").RenderErrors), 1)
	w.push(changed + "\n" + fleet(3))
	want(t, "no first version is made either", w.state.Works["works/m3/default/deployment.apps_web.yaml"].Path != "", true)
}

func TestSecretValuesAreNeverWritten(t *testing.T) {
	secret := func(password string) string {
		return fleet(2) + file("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {password: "+password+"}\n", policyFor("p", "Secret", everywhere))
	}
	const path = "works/m1/default/secret_s.yaml"
	for _, key := range []string{"", "key"} {
		t.Run(fmt.Sprintf("key %q", key), func(t *testing.T) {
			w := newWorld(t)
			w.options.SecretKey = []byte(key)
			w.push(secret("hunter2"))
			first := w.text("m1/default/secret_s")
			w.push(secret("correct-horse"))
			second := w.text("m1/default/secret_s")
			for name, f := range w.branch {
				for _, value := range []string{"hunter2", "correct-horse"} {
					if strings.Contains(string(f.Data), value) {
						t.Errorf("%s holds the value:\n%s", name, f.Data)
					}
				}
			}
			want(t, "a changed value shows", first != second, key != "")
			want(t, "the member gets the value", w.state.Works[path].Object["stringData"], any(map[string]any{"password": "correct-horse"}))
			w.restart()
			w.quiet(w.pass())
			want(t, "also after a restart", w.state.Works[path].Object["stringData"], any(map[string]any{"password": "correct-horse"}))
		})
	}
}

// Without the key nobody can tell from the branch what a Secret's value was, guessing included.
func TestRecordOfASecretDependsOnTheKey(t *testing.T) {
	branch := func(key, password string) string {
		w := newWorld(t)
		w.options.SecretKey = []byte(key)
		w.push(fleet(1) + file("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {password: "+password+"}\n", policyFor("p", "Secret", everywhere)))
		return fmt.Sprint(w.branch["works/m1/default/secret_s.yaml"], w.branch["bindings/default/s-secret.yaml"])
	}
	for _, other := range []string{branch("other", "a"), branch("", "a")} {
		if branch("key", "a") == other {
			t.Error("another key writes the same")
		}
	}
	want(t, "no key", branch("", "a"), branch("", "b"))
}

func TestJobCompletionsAreDividedWithTheReplicas(t *testing.T) {
	job := func(parallelism, completions int) string {
		return fleet(2) + file("j.yaml", fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: default}\nspec: {parallelism: %d, completions: %d, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}\n", parallelism, completions), policyFor("p", "Job", divided))
	}
	w := newWorld(t)
	w.push(job(4, 10))
	for _, m := range []string{"m1", "m2"} {
		got := w.text(m + "/default/job.batch_j")
		if !strings.Contains(got, "completions: 5") || !strings.Contains(got, "parallelism: 2") {
			t.Errorf("on %s:\n%s", m, got)
		}
	}
	w.push(job(4, 1))
	want(t, "fewer completions than members", w.works(), []string{"m1/default/job.batch_j"})
}

// A value that a rule adds to each object on each member is not paid for by who wrote it once: beyond a bound no more copies
// get it, and those that are there stay as they are.
func TestOverridesDoNotMultiplyWithoutEnd(t *testing.T) {
	w := newWorld(t)
	decided := func(bytes, objects int) (works int, told int) {
		t.Helper()
		rule := fmt.Sprintf("{overriders: {plaintext: [{path: /data/key, operator: add, value: %s}]}}", strings.Repeat("x", bytes))
		files := fleet(2) + file("policy.yaml", policyFor("p", "ConfigMap", everywhere), override("o", rule))
		for i := range objects {
			files += file(fmt.Sprintf("c%02d.yaml", i), configMap(fmt.Sprintf("c%02d", i), "1"))
		}
		w.source = gitstate.Snapshot{Revision: "c1", Branch: "main", FS: newTree(rendertest.Source(files))}
		memo := decide.NewMemo()
		d := w.next(nil, memo)
		if again := w.next(d.Next, memo); len(again.Next.Works) != len(d.Next.Works) {
			t.Errorf("%d works, and with a memo %d", len(d.Next.Works), len(again.Next.Works))
		}
		for path := range d.Next.Works {
			if strings.Contains(path, "/configmap_") {
				works++
			}
		}
		for _, f := range d.Findings {
			if f.Code == "render" && strings.Contains(f.Message, "overrides add more than 268435456 bytes to all works together") {
				told++
			}
		}
		return works, told
	}
	const large = 3_900_000
	if works, told := decided(large, 40); works != (256<<20)/(large-16<<10) || told != 80-works {
		t.Errorf("%d works of 80, and %d are told of", works, told)
	}
	if works, told := decided(16_000, 40); works != 80 || told != 0 {
		t.Errorf("a small one: %d works of 80, and %d are told of", works, told)
	}
}
