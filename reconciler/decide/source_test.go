package decide_test

import (
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

const brokenYAML = "kind: [unclosed\n"

// held are the files held, as "path@commit".
func (w *world) held() []string {
	list := []string{}
	for _, h := range w.state.Meta.Held {
		list = append(list, h.Path+"@"+h.Commit)
	}
	return list
}

// A file with an error costs its objects their newest version and nothing else.
func TestBrokenFileKeepsItsLastGoodVersion(t *testing.T) {
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("other.yaml", configMap("other", "one"))
	good := file("c.yaml", configMap("c", "one"))
	for _, broken := range []struct{ name, text, code string }{
		{"no YAML", file("c.yaml", brokenYAML), "error broken-yaml c.yaml"},
		{"no name", file("c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"), "error missing-name c.yaml"},
		{"twice", file("c.yaml", configMap("c", "two"), configMap("c", "three")), "error duplicate-object c.yaml"},
	} {
		t.Run(broken.name, func(t *testing.T) {
			w := newWorld(t)
			w.push(base, good)
			d := w.push(base, broken.text)
			want(t, "findings", codes(d), []string{broken.code})
			want(t, "held", w.held(), []string{"c.yaml@c1"})
			want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/configmap_other"})
			w.restart()
			w.quiet(w.pass())

			w.push(base, broken.text, file("other.yaml", configMap("other", "two")))
			want(t, "held by the next commit", w.held(), []string{"c.yaml@c1"})
			if got := w.text("m1/default/configmap_other"); !strings.Contains(got, "key: two") {
				t.Errorf("all else does not go on:\n%s", got)
			}
			if got := w.text("m1/default/configmap_c"); !strings.Contains(got, "key: one") {
				t.Errorf("the last good version is\n%s", got)
			}

			// An older clone of the source may be gone: nothing is removed on its account.
			past := w.past
			w.past = map[string]fs.FS{}
			d = w.pass()
			want(t, "works without the past", w.works(), []string{"m1/default/configmap_c", "m1/default/configmap_other"})
			w.past = past
			w.pass()

			w.push(base, file("c.yaml", configMap("c", "mended")))
			want(t, "held when mended", w.held(), []string{})
			if got := w.text("m1/default/configmap_c"); !strings.Contains(got, "key: mended") {
				t.Errorf("the mended version is\n%s", got)
			}
			w.push(base)
			want(t, "works", w.works(), []string{"m1/default/configmap_other"})
		})
	}
}

func TestBrokenPolicyKeepsItsLastGoodVersion(t *testing.T) {
	const web = "default/web-deployment"
	base := fleet(2) + file("web.yaml", deployment("web", 2))
	broken := policyFor("p", "Deployment", "placement: {clusterAffinty: {}}")
	w := newWorld(t)
	w.push(base, file("p.yaml", policyFor("p", "Deployment", only("m1"))))
	d := w.push(base, file("p.yaml", broken))
	want(t, "findings", codes(d), []string{"error unknown-field p.yaml"})
	want(t, "held", w.held(), []string{"p.yaml@c1"})
	want(t, "placed", w.placed(web), "m1=2")
	w.push(base, file("p.yaml", strings.Replace(broken, "{}", "{clusterNames: [m2]}", 1)))
	want(t, "held by two broken ones in a row", w.held(), []string{"p.yaml@c1"})
	w.push(base, file("p.yaml", broken), file("api.yaml", deployment("api", 1)))
	want(t, "a new template under the version in force", w.placed("default/api-deployment"), "m1=1")
	w.restart()
	w.quiet(w.pass())
	w.push(base, file("p.yaml", policyFor("p", "Deployment", only("m2"))))
	want(t, "held when mended", w.held(), []string{})
	want(t, "placed", w.placed(web), "m2=2")
}

// A policy that was broken from its first day holds nothing, and there is nothing to hold it at.
func TestPolicyThatNeverWasGoodIsNotHeld(t *testing.T) {
	base := fleet(1) + file("web.yaml", deployment("web", 2)) + file("c.yaml", configMap("c", "x"), policyFor("c", "ConfigMap", everywhere))
	broken := file("p.yaml", policyFor("p", "Deployment", "placement: {clusterAffinty: {}}"))
	w := newWorld(t)
	w.push(base)
	w.push(base, broken)
	w.push(base, broken, file("c.yaml", configMap("c", "y"), policyFor("c", "ConfigMap", everywhere)))
	want(t, "held", w.held(), []string{})
	want(t, "placed", w.placed("default/web-deployment"), "none")
}

func TestBrokenPolicyInAFreshStateHoldsItsTemplatesWhereTheyAre(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("web.yaml", deployment("web", 2))
	w.push(base, file("p.yaml", policyFor("p", "Deployment", only("m1"))))
	w.past = map[string]fs.FS{} // the commit of the state cannot be read any more
	d := w.push(base, file("p.yaml", policyFor("p", "Deployment", "placement: {clusterAffinty: {}}")), file("q.yaml", policyFor("q", "Deployment", only("m2"))))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2")
	want(t, "message", strings.Contains(row(t, d, "default/web-deployment").Message, "nothing changes until that is corrected"), true)
}

// A name that is missing from a source that cannot be read in full proves nothing.
func TestLostSourceRemovesNothing(t *testing.T) {
	w := newWorld(t)
	base := fleet(2) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	w.push(base, file("c.yaml", configMap("c", "one")))
	w.past = map[string]fs.FS{}
	d := w.push(file("p.yaml", policyFor("p", "ConfigMap", everywhere)), file("new.yaml", brokenYAML))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m2/default/configmap_c"})
	want(t, "members", len(w.state.Members), 2)
	want(t, "message", row(t, d, "default/c-configmap").Message, "the source could not be read in full; what is placed stays")
	w.restart()
	w.pass()
	want(t, "works after a restart", w.works(), []string{"m1/default/configmap_c", "m2/default/configmap_c"})
	w.push(base)
	want(t, "works of a readable source", w.works(), []string{})
}

// What is there and cannot be used is no missing name either: with no last good version to go by, a
// member with a mistake in its manifest keeps what it has.
func TestUnusableMemberWithoutAPastKeepsItsWorks(t *testing.T) {
	w := newWorld(t)
	rest := file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("c.yaml", configMap("c", "one"), configMap("d", "one"), configMap("e", "one"))
	w.push(fleet(2) + rest)
	w.past = map[string]fs.FS{}
	mistaken := strings.Replace(fleet(2), "spec: {", "spec: {synMode: Push, ", 1)
	d := w.push(mistaken + rest)
	want(t, "findings", codes(d), []string{"error unknown-field clusters.yaml"})
	want(t, "members", len(w.state.Members), 2)
	want(t, "works", len(w.works()), 6)
	w.restart()
	w.pass()
	want(t, "works after a restart", len(w.works()), 6)
}

// A suspended work stays suspended while its template cannot be read, also after a restart.
func TestKeptWorksKeepTheirTerms(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere+", suspension: {dispatching: true}, conflictResolution: Overwrite, preserveResourcesOnDeletion: true"))
	w.push(base, file("c.yaml", configMap("c", "one")))
	w.past = map[string]fs.FS{}
	w.push(base, file("c.yaml", brokenYAML))
	w.restart()
	w.pass()
	work := w.state.Works["works/m1/default/configmap_c.yaml"]
	want(t, "suspended, overwrite, preserve", []bool{work.Suspended, work.Overwrite, work.Preserve}, []bool{true, true, true})
}

// What is held depends on the state, not on which trees a Memo has seen.
func TestRevertToABrokenTreeHoldsTheNewestGoodVersion(t *testing.T) {
	w := newWorld(t)
	base := fleet(1) + file("p.yaml", policyFor("p", "ConfigMap", everywhere))
	broken := file("c.yaml", brokenYAML)
	w.push(base, file("c.yaml", configMap("a", "one"), configMap("b", "one")))
	w.push(base, broken)
	w.push(base, file("c.yaml", configMap("a", "two")))
	want(t, "works", w.works(), []string{"m1/default/configmap_a"})
	w.push(base, broken)
	want(t, "works", w.works(), []string{"m1/default/configmap_a"})
	want(t, "held", w.held(), []string{"c.yaml@c3"})
}

func TestWhatGoesNowhereIsSaid(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(1) + file("a.yaml", "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\nmetadata: {name: a, namespace: default}\n",
		strings.Replace(configMap("b", "x"), "namespace: default", "namespace: kube-system", 1), "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: c, namespace: default}\n") +
		file("p.yaml", policyFor("p", "ConfigMap", everywhere)) + file("z.yaml", configMap("z", "x")))
	const never = ": objects of this kind or namespace are never propagated, as in Karmada"
	want(t, "findings", messages(d), []string{
		"a.yaml:1: warning: not-supported: MultiClusterService default/a: kind MultiClusterService of networking.karmada.io is not acted upon; take it out of the source, or name its file in .godwitignore",
		"a.yaml:5: info: never-propagated: ConfigMap kube-system/b" + never,
		"a.yaml:10: info: never-propagated: Lease default/c" + never,
	})
	want(t, "works", w.works(), []string{"m1/default/configmap_z"})
}

func TestRequiredWorkloadsOfARebalancer(t *testing.T) {
	w := newWorld(t)
	d := w.push(file("r.yaml", "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata: {name: r}\nspec: {workloads: []}\n"))
	want(t, "findings", codes(d), []string{"error required r.yaml"})
	order := func(workloads string) string {
		return file("r.yaml", "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata: {name: r}\nspec:\n  workloads:\n"+workloads)
	}
	d = w.push(order("  - {apiVersion: apps/v1, kind: Deployment, namespace: default}\n"))
	want(t, "findings", messages(d), []string{"r.yaml:6: error: missing-value: WorkloadRebalancer r: spec.workloads[0].name: is required; add it"})
	d = w.push(fleet(1) + file("web.yaml", deployment("web", 1), policyFor("a", "Deployment", everywhere)) +
		order("  - {apiVersion: apps/v1, kind: Deployment, namespace: default, name: web}\n  - {apiVersion: apps/v1, kind: Deployment, name: web}\n"))
	want(t, "findings", messages(d), []string{"r.yaml:7: warning: no-workload: WorkloadRebalancer r: spec.workloads[1]: there is no apps/v1 Deployment web in the source, so nothing is divided anew; check apiVersion, kind, namespace and name"})
}

// The namespace that a document leaves out is filled in anew at each reading; what was made of the
// object before is found all the same.
func TestDefaultedNamespaceCostsNothingAgain(t *testing.T) {
	w := newWorld(t)
	source := func(value string) string {
		return fleet(1) + file("a.yaml", strings.Replace(deployment("web", 1), "namespace: default, ", "", 1)) +
			file("p.yaml", policyFor("p", "Deployment", everywhere)) + file("c.yaml", configMap("c", value))
	}
	w.push(source("one"))
	before := w.state.Works["works/m1/default/deployment.apps_web.yaml"]
	w.push(source("two"))
	after := w.state.Works["works/m1/default/deployment.apps_web.yaml"]
	if reflect.ValueOf(before.Object).Pointer() != reflect.ValueOf(after.Object).Pointer() {
		t.Error("the work was rendered again")
	}
}

// failing is a tree one file of which cannot be read, through no fault of who wrote it.
type failing struct {
	*tree
	file    string
	failure error
}

func (f *failing) Open(name string) (fs.File, error) {
	if name == f.file && f.failure == nil {
		f.failure = &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		return nil, f.failure
	}
	return f.tree.Open(name)
}

func (f *failing) Unread() error { return f.failure }

// A tree of which a part could not be read is read again by the next decision, though it is still the same.
func TestAFailureToReadIsNotRemembered(t *testing.T) {
	files := newTree(fstest.MapFS{
		"a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
		"b.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")},
	})
	memo := decide.NewMemo()
	for _, tt := range []struct {
		fsys fs.FS
		want string
	}{{&failing{tree: files, file: "b.yaml"}, "unreadable"}, {files, ""}} {
		var got []string
		for _, f := range decide.Findings(decide.Input{Source: gitstate.Snapshot{FS: tt.fsys}, Now: start, Memo: memo}) {
			got = append(got, f.Code)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("findings %q, want %q", got, tt.want)
		}
	}
}
