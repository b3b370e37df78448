//go:build realcluster

package main_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

func (w *realWorld) theQuickstart(t *testing.T) {
	f := w.fleet(t, "quickstart", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{"apps/demoapp.yaml": "quickstart/apps/demoapp.yaml"}), "an application and no policy")
	if out, status := f.call("run", "--once"); status != 0 {
		t.Fatalf("run --once = %d\n%s", status, out)
	}
	for _, m := range f.members {
		if ns := m.get(t, namespaces, "", f.ns); ns != nil {
			t.Errorf("%s has a namespace for an application that runs nowhere", m.Name())
		}
	}
	out, status := f.call("plan", "-o", "text")
	if i := strings.Index(strings.ToLower(out), "unbound"); status != 0 || i < 0 || !strings.Contains(out[i:], "demoapp") || !strings.Contains(out[i:], "no policy selects it") {
		t.Fatalf("plan = %d\n%s", status, out)
	}

	f.run()
	f.push(map[string]string{"policies/demoapp.yaml": "quickstart/variants/demoapp-duplicated.yaml"}, "Duplicated over two regions and clusters")
	f.ready("demoapp", 4, 4)
	f.everywhere("Service and ConfigMap", func(m *realMember) string {
		return want("hello", field(m.get(t, configMaps, f.ns, "demoapp"), "data", "GREETING"), "hello from the fleet") +
			want("type", field(m.get(t, services, f.ns, "demoapp"), "spec", "type"), "ClusterIP")
	})
	table, status := f.call("get", "deployment", "-n", f.ns)
	for _, row := range []string{`^NAME +CLUSTER +READY `, `\ndemoapp +kube02 +4/4 `, `\ndemoapp +kube03 +4/4 `} {
		if status != 0 || !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("get = %d, without %q\n%s", status, row, table)
		}
	}

	images := func(on02, on03 string) {
		t.Helper()
		eventually(t, "images", func() string {
			return want("kube02", image(f.members[0].get(t, deployments, f.ns, "demoapp")), "ikubernetes/demoapp:"+on02) +
				want("kube03", image(f.members[1].get(t, deployments, f.ns, "demoapp")), "ikubernetes/demoapp:"+on03)
		})
	}
	f.recorded(3)
	before, since := f.trees(), f.head()
	f.push(map[string]string{"policies/image.yaml": "quickstart/policies/demoapp-image.yaml"}, "an override")
	images("v1.0", "v1.1")
	f.recorded(3)
	if got := f.decisions(since); len(got) != 1 || !strings.HasPrefix(got[0], "PolicyChange: ") {
		t.Errorf("the override gave the commits %q, want one for PolicyChange", got)
	}
	since = f.head()
	f.push(map[string]string{"policies/image.yaml": ""}, "no override")
	images("v1.0", "v1.0")
	f.ready("demoapp", 4, 4)
	eventually(t, "bindings/ and works/", func() string { return want("as trees", f.trees(), before) })
	if got := f.decisions(since); len(got) != 1 || !strings.HasPrefix(got[0], "PolicyChange: ") {
		t.Errorf("its removal gave the commits %q, want one for PolicyChange", got)
	}

	since = f.head()
	f.push(map[string]string{"policies/demoapp.yaml": "quickstart/policies/demoapp.yaml"}, "Divided 3:1")
	f.ready("demoapp", 3, 1)
	if got := f.decisions(since); len(got) != 1 || got[0] != "PolicyChange: schedule("+f.ns+"/demoapp-deployment): kube02=3 kube03=1" {
		t.Errorf("3:1 gave the commits %q", got)
	}
	files := f.source.Files("main")
	f.push(map[string]string{
		"policies/demoapp.yaml": strings.Replace(files["policies/demoapp.yaml"], "weight: 3", "weight: 1", 1),
		"apps/demoapp.yaml":     strings.Replace(files["apps/demoapp.yaml"], "replicas: 4", "replicas: 5", 1),
	}, "Divided 1:1, five replicas")
	f.ready("demoapp", 3, 2) // the odd one to the earlier name
	f.recorded(3)
}

func (w *realWorld) aCustomResourceFollowsItsDefinition(t *testing.T) {
	f := w.fleet(t, "custom", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{
		"backup/crd.yaml": "quickstart/backup/crd.yaml", "backup/backup.yaml": "quickstart/backup/backup.yaml",
	}), "a kind and an object of it")
	f.run()
	f.everywhere("Backup", func(m *realMember) string {
		return want("spec.keep", field(m.get(t, backups, "default", "nightly"), "spec", "keep"), int64(7))
	})
	f.recorded(2)
}

func (w *realWorld) whatIsDeletedInGitIsDeletedOnMembers(t *testing.T) {
	f := w.fleet(t, "deleted", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{
		"policy.yaml": policyFor("{}", "Deployment", "ConfigMap"), "app.yaml": smallApp(4),
		"config.yaml": configMap("app", "keep"),
	}), "an application")
	f.run()
	f.ready("app", 4, 4)
	f.recorded(2)

	// The same name, where it is nobody's business.
	elsewhere, member := f.ns+"-elsewhere", w.members["kube04"]
	for _, m := range []*realMember{f.members[0], member} {
		m.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: "+elsewhere+"}}")
	}
	member.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: "+f.ns+"}}")
	byHand := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: app, namespace: %s}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}"
	uids := []any{
		f.members[0].create(t, deployments, fmt.Sprintf(byHand, elsewhere)).GetUID(),
		member.create(t, deployments, fmt.Sprintf(byHand, f.ns)).GetUID(),
	}

	since := f.head()
	f.push(map[string]string{"app.yaml": ""}, "the application goes")
	f.everywhere("Deployment", func(m *realMember) string {
		if m.get(t, deployments, f.ns, "app") != nil {
			return "there"
		}
		return ""
	})
	retired := func(at string) (paths []string) {
		for path := range f.state.Files(at) {
			if strings.HasPrefix(path, "retired/") {
				paths = append(paths, path)
			}
		}
		slices.Sort(paths)
		return paths
	}
	eventually(t, "retired/", func() string { return want("on the state branch", fmt.Sprint(retired(stateBranch)), "[]") })
	f.recorded(1)
	history := f.history(since)
	if got, want := retired(history[0].Hash.String()), []string{"retired/kube02/deleted/deployment.apps_app.yaml", "retired/kube03/deleted/deployment.apps_app.yaml"}; !slices.Equal(got, want) {
		t.Errorf("the first commit retired %q, want %q", got, want)
	}
	for path := range f.state.Files(stateBranch) {
		if strings.Contains(path, "deployment") {
			t.Errorf("the state branch still has %s", path)
		}
	}
	if got := []any{f.members[0].get(t, deployments, elsewhere, "app").GetUID(), member.get(t, deployments, f.ns, "app").GetUID()}; !slices.Equal(got, uids) {
		t.Errorf("what was made by hand is now %v, was %v", got, uids)
	}
	f.value("app", "keep")
}

func (w *realWorld) aHandEditIsPutBack(t *testing.T) {
	f := w.fleet(t, "drift", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{"policies/demoapp.yaml": "quickstart/policies/demoapp.yaml", "apps/demoapp.yaml": "quickstart/apps/demoapp.yaml"}), "an application")
	f.run()
	f.ready("demoapp", 3, 1)
	f.recorded(3)
	since := f.head()
	m := f.members[0]
	m.patch(t, deployments, f.ns, "demoapp", `{"metadata": {"annotations": {"team": "blue"}}, "spec": {"revisionHistoryLimit": 3, "template": {"metadata": {"labels": {"sidecar": "yes"}}}}}`)
	m.patch(t, deployments, f.ns, "demoapp", `{"spec": {"replicas": 9}}`, "scale")
	m.patch(t, deployments, f.ns, "demoapp", `{"metadata": {"labels": {"app": "mine"}}}`)
	m.patch(t, configMaps, f.ns, "demoapp", `{"data": {"GREETING": null, "OTHER": "theirs"}}`)
	eventually(t, "what was edited", func() string {
		d, c := m.get(t, deployments, f.ns, "demoapp"), m.get(t, configMaps, f.ns, "demoapp")
		return want("replicas", field(d, "spec", "replicas"), int64(3)) + want("app", d.GetLabels()["app"], "demoapp") +
			want("GREETING", field(c, "data", "GREETING"), "hello from the fleet")
	})
	f.ready("demoapp", 3, 1)
	d := m.get(t, deployments, f.ns, "demoapp")
	for _, why := range []string{
		want("the foreign annotation", d.GetAnnotations()["team"], "blue"),
		want("revisionHistoryLimit", field(d, "spec", "revisionHistoryLimit"), int64(3)),
		want("the foreign label", field(d, "spec", "template", "metadata", "labels", "sidecar"), "yes"),
		want("OTHER", field(m.get(t, configMaps, f.ns, "demoapp"), "data", "OTHER"), "theirs"),
	} {
		if why != "" {
			t.Error(why)
		}
	}
	if got := f.decisions(since); len(got) != 0 {
		t.Errorf("the edits gave the commits %q", got)
	}
	// A copy that is deleted comes back.
	uid := m.get(t, configMaps, f.ns, "demoapp").GetUID()
	if err := m.client.Resource(configMaps).Namespace(f.ns).Delete(t.Context(), "demoapp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was deleted", func() string {
		if c := m.get(t, configMaps, f.ns, "demoapp"); c == nil || c.GetUID() == uid {
			return "gone"
		}
		return ""
	})
}

func (w *realWorld) whatIsNotOursIsRefusedOrAdopted(t *testing.T) {
	f := w.fleet(t, "adopted", "kube02", "kube03")
	m := f.members[1]
	m.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: "+f.ns+"}}")
	there := m.create(t, configMaps, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: "+f.ns+"}, data: {value: theirs}}")
	f.push(merged(f.clusters(), map[string]string{"policy.yaml": policyFor("{}", "ConfigMap"), "settings.yaml": configMap("settings", "ours")}), "an object that is there already")

	out, status := f.call("run", "--once", "--timeout", "5s")
	if status != 4 {
		t.Errorf("run --once = %d, want 4", status)
	}
	reported := "godwit: kube03: ConfigMap adopted/settings: NotOurs: is there already and is not godwit's: kubectl-create owns .data.value; set conflictResolution: Overwrite to adopt it\n"
	if !strings.Contains(out, reported) {
		t.Errorf("run --once does not say %q:\n%s", reported, out)
	}
	if got := m.get(t, configMaps, f.ns, "settings"); got.GetResourceVersion() != there.GetResourceVersion() {
		t.Errorf("it was written: %v", got.Object)
	}
	if got := field(f.members[0].get(t, configMaps, f.ns, "settings"), "data", "value"); got != "ours" {
		t.Errorf("kube02, where nothing was in the way, has %v", got)
	}
	binding := f.state.Files(stateBranch)["bindings/adopted/settings-configmap.yaml"]
	for _, part := range []string{"NotOurs", "kubectl-create", "data.value"} {
		if !strings.Contains(binding, part) {
			t.Errorf("the binding does not mention %s:\n%s", part, binding)
		}
	}

	f.run()
	f.push(map[string]string{"policy.yaml": policyFor("{}", "ConfigMap") + "  conflictResolution: Overwrite\n"}, "take it")
	f.value("settings", "ours")
	eventually(t, "adoption", func() string {
		o := m.get(t, configMaps, f.ns, "settings")
		return want("the mark", o.GetLabels()["godwit.dev/managed"], "true") + want("the UID", o.GetUID(), there.GetUID())
	})
	f.recorded(1)
}

// whileApplying is no fault point: the process dies once a first change is on a member.
const whileApplying = "applying"

// crashSteps are the fault points of a pass and of the Git writes in it. Those of load are met when
// there is no local clone.
var crashSteps = []string{
	"pass.start", "pass.decided",
	"commit.objects-written", "commit.pack-renamed", "commit.index-renamed", "commit.ref-moved",
	"pass.committed", "push.sent", "push.tracked", "pass.pushed", "pass.acted", whileApplying,
	"load.fetched", "load.ref-moved", "load.tracked",
}

func (w *realWorld) aCrashAtAnyStepLosesAndRepeatsNothing(t *testing.T) {
	f := w.fleet(t, "crash", "kube02", "kube03")
	policy := policyFor("{}", "ConfigMap", "Deployment")
	f.push(merged(f.clusters(), map[string]string{"policy.yaml": policy, "round.yaml": configMap("round", "first"), "old.yaml": configMap("gone-0", "x"), "app.yaml": smallApp(1)}), "first")
	p := f.run()
	f.value("round", "first")
	f.ready("app", 1, 1)
	f.recorded(3)
	p.stop()

	for i, step := range crashSteps {
		data := "data"
		if strings.HasPrefix(step, "load.") {
			data = "data-" + step
		}
		since := f.head()
		source := f.push(map[string]string{
			"round.yaml": configMap("round", step),                    // one changes,
			"app.yaml":   smallApp(1 + (i+1)%2),                       // one scales,
			"old.yaml":   configMap(fmt.Sprintf("gone-%d", i+1), "x"), // and one goes and another comes
		}, step)
		dies := f.runAt(data, "GODWIT_KILL_AT="+step)
		if step == whileApplying {
			eventually(t, "a first change", func() string {
				return want("value", field(f.members[0].get(t, configMaps, f.ns, "round"), "data", "value"), step)
			})
			dies.cmd.Process.Kill()
		}
		if status := dies.wait(); status != -int(syscall.SIGKILL) {
			t.Fatalf("%s: ended with %d and not by its fault point", step, status)
		}
		var made plumbing.Hash // by the process that died
		if local := gittest.At(t, filepath.Join(f.dir, data, "state")); local.Head(stateBranch) != since {
			made = local.Head(stateBranch)
		}
		p := f.runAt(data)
		f.value("round", step)
		f.value(fmt.Sprintf("gone-%d", i+1), "x")
		f.everywhere("the ConfigMap that goes", func(m *realMember) string {
			if m.get(t, configMaps, f.ns, fmt.Sprintf("gone-%d", i)) != nil {
				return "there"
			}
			return ""
		})
		f.ready("app", int64(1+(i+1)%2), int64(1+(i+1)%2))
		eventually(t, step+": retired/", func() string {
			for path := range f.state.Files(stateBranch) {
				if strings.HasPrefix(path, "retired/") {
					return path
				}
			}
			return ""
		})
		f.recorded(3)
		p.stop()

		var reasons []string
		kept := made.IsZero()
		for _, d := range f.history(since) {
			kept = kept || d.Hash == made
			if d.reason != "Status" && d.reason != "PurgeDone" {
				reasons = append(reasons, d.reason)
			}
			if d.source != source.String() {
				t.Errorf("%s: commit %q is about source %s, want %s", step, d.Subject, d.source, source)
			}
		}
		if !kept {
			t.Errorf("%s: the commit %s of the process that died is lost", step, made)
		}
		if !slices.Equal(reasons, []string{"TemplateChange"}) {
			t.Errorf("%s: decisions for %q, want one: %q", step, reasons, f.decisions(since))
		}
	}
}

func smallApp(replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: %d
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: app, image: app:v1}]}
`, replicas)
}

func (w *realWorld) twoReconcilersShareOneHistory(t *testing.T) {
	f := w.fleet(t, "race", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{"policy.yaml": policyFor("{}", "ConfigMap"), "round.yaml": configMap("round", "0")}), "0")
	// Decisions of the same second are the same commits, and no race, unless the authors differ.
	one, two := f.runAt("one", "GODWIT_STATE_AUTHOR_NAME=one"), f.runAt("two", "GODWIT_STATE_AUTHOR_NAME=two")
	f.value("round", "0")
	f.recorded(1)

	heads := []plumbing.Hash{f.head()}
	for i := range 3 {
		since := f.head()
		// Both have decided before either may push.
		f.server.Answer(meetAt(f.server, "/git-receive-pack", 2, limited(t).Done()))
		value := fmt.Sprint(i + 1)
		source := f.push(map[string]string{"round.yaml": configMap("round", value)}, value)
		f.value("round", value)
		f.server.Answer(nil)
		f.recorded(1)
		made := 0
		for _, d := range f.history(since) {
			if d.reason == "TemplateChange" && d.source == source.String() {
				made++
			}
		}
		if made != 1 {
			t.Errorf("round %s was decided %d times: %q", value, made, f.decisions(since))
		}
		heads = append(heads, f.head())
	}
	one.stop()
	two.stop()
	if lost := strings.Count(one.out.String()+two.out.String(), "the state branch moved, deciding again"); lost < 3 {
		t.Errorf("%d races were lost in 3 rounds where both pushed", lost)
	}
	log := f.history(plumbing.ZeroHash)
	for i, d := range log {
		if len(d.Parents) > 1 || i > 0 && d.Parents[0] != log[i-1].Hash {
			t.Errorf("%s %q has parents %v", d.Hash, d.Subject, d.Parents)
		}
	}
	for _, head := range heads {
		if !slices.ContainsFunc(log, func(d decision) bool { return d.Hash == head }) {
			t.Errorf("%s was on the branch and is not in its history", head)
		}
	}
	if out, status := f.call("run", "--once"); status != 0 { // a third one finds nothing to do
		t.Errorf("run --once = %d\n%s", status, out)
	}
	if got := f.decisions(heads[3]); len(got) > 0 {
		t.Errorf("a third one decided %q", got)
	}
}

// meetAt answers as Git does, but holds the first n requests to the path until the n-th has come.
func meetAt(s *gittest.Server, path string, n int, giveUp <-chan struct{}) http.HandlerFunc {
	var mu sync.Mutex
	all := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, path) {
			mu.Lock()
			if n--; n == 0 {
				close(all)
			}
			mu.Unlock()
			select {
			case <-all:
			case <-giveUp:
			}
		}
		s.Git(w, r)
	}
}

func (w *realWorld) decisionsOutliveAnOutage(t *testing.T) {
	f := w.fleet(t, "outage", "kube02", "kube03")
	f.state = gittest.NewRepo(t)
	f.server = gittest.ServeHTTP(t, f.state.Dir, gittest.HTTPOptions{})
	f.sourceAt = f.source.Dir
	f.push(merged(f.clusters(), map[string]string{"policies/demoapp.yaml": "quickstart/variants/demoapp-duplicated.yaml", "apps/demoapp.yaml": "quickstart/apps/demoapp.yaml"}), "an application")
	p := f.run()
	f.ready("demoapp", 4, 4)
	f.recorded(3)

	f.server.Outage(true)
	since := f.head()
	f.push(map[string]string{"policies/demoapp.yaml": "quickstart/policies/demoapp.yaml"}, "Divided 3:1")
	f.ready("demoapp", 3, 1)
	p.stop()
	p = f.run() // a restart knows no more than the local clone
	f.push(map[string]string{"policies/image.yaml": "quickstart/policies/demoapp-image.yaml"}, "an override")
	eventually(t, "image on kube03", func() string {
		return want("image", image(f.members[1].get(t, deployments, f.ns, "demoapp")), "ikubernetes/demoapp:v1.1")
	})
	if got := f.head(); got != since {
		t.Fatalf("the state branch moved to %s during the outage", got)
	}
	var made []plumbing.Hash
	for _, e := range gittest.At(t, filepath.Join(f.dir, "data", "state")).Log(stateBranch) {
		if e.Hash == since {
			break
		}
		made = append(made, e.Hash)
	}
	if len(made) < 2 {
		t.Fatalf("the local clone has %d new commits", len(made))
	}
	f.server.Outage(false)
	eventually(t, "the push", func() string {
		pushed := f.history(since)
		for _, hash := range made {
			if !slices.ContainsFunc(pushed, func(d decision) bool { return d.Hash == hash }) {
				return "without " + hash.String()
			}
		}
		return ""
	})
	f.recorded(3)
	if got := f.decisions(since); len(got) != 2 || !strings.HasPrefix(got[0], "PolicyChange: ") || !strings.HasPrefix(got[1], "PolicyChange: ") {
		t.Errorf("the outage gave the commits %q, want two for PolicyChange", got)
	}
}

func (w *realWorld) aMemberThatIsOutDelaysNobody(t *testing.T) {
	f := w.fleet(t, "isolated", "kube02", "kube03", "kube04")
	f.settings = "  failureThreshold: 2s\n"
	f.push(merged(f.clusters(), map[string]string{"policy.yaml": policyFor("{}", "ConfigMap", "Deployment"), "app.yaml": smallApp(2), "round.yaml": configMap("round", "0")}), "0")
	p := f.run()
	f.ready("app", 2, 2, 2)
	f.value("round", "0")
	f.recorded(2)

	well, frozen, dead := f.members[0], f.members[1], f.members[2]
	push := func(value string) time.Duration {
		t.Helper()
		began := time.Now()
		f.push(map[string]string{"round.yaml": configMap("round", value)}, value)
		eventually(t, well.Name(), func() string {
			return want("round", field(well.get(t, configMaps, f.ns, "round"), "data", "value"), value)
		})
		return time.Since(began)
	}
	var with, without []time.Duration
	for i := range 3 {
		without = append(without, push(fmt.Sprintf("all-%d", i)))
	}
	if err := frozen.Pause(); err != nil {
		t.Fatal(err)
	}
	dead.Kill()
	for i := range 5 {
		with = append(with, push(fmt.Sprintf("two-%d", i)))
	}
	t.Logf("one member converged in %v with all there, in %v with two out", without, with)
	// One request that waits for a time-out in the way of the others would show in each of them.
	if slices.Min(with) > 3*slices.Max(without) {
		t.Error("two members that are out delay the third")
	}
	// Stopping and starting does not wait for them either.
	p.stop()
	f.run()
	push("again")
	eventually(t, "what is known of the members", func() string {
		out, _ := f.call("clusters")
		for _, m := range []string{"kube03", "kube04"} {
			if !regexp.MustCompile(`\n` + m + ` .* (False|Unknown) `).MatchString(out) {
				return m + " in order:\n" + out
			}
		}
		return ""
	})
	if err := frozen.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := dead.Restart(limited(t)); err != nil {
		t.Fatal(err)
	}
	f.value("round", "again")
	f.recorded(2)
	eventually(t, "what is known of the members", func() string {
		out, _ := f.call("clusters")
		return want("lines with True", strings.Count(out, " True "), 3)
	})
	f.ready("app", 2, 2, 2)
}

func (w *realWorld) aBrokenFileStopsNothingButItself(t *testing.T) {
	f := w.fleet(t, "broken", "kube02", "kube03")
	f.push(merged(f.clusters(), map[string]string{
		"policy.yaml": policyFor("{}", "ConfigMap"), "a.yaml": configMap("a", "first"), "b.yaml": configMap("b", "first"), "twin.yaml": configMap("twin", "first"),
	}), "in order")
	p := f.run()
	for _, name := range []string{"a", "b", "twin"} {
		f.value(name, "first")
	}
	f.recorded(3)
	since := f.head()
	f.push(map[string]string{
		"a.yaml":                  configMap("a", "second"),
		"b.yaml":                  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {value: \"sec\n",
		"typo.yaml":               strings.Replace(policyFor("{clusterAffinty: {clusterNames: [kube02]}}", "Secret"), "name: all", "name: typo", 1),
		"again.yaml":              configMap("twin", "second"),
		"outside.yaml@":           "/etc/passwd",
		"base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- https://github.com/example/fleet//base?ref=v1\n",
	}, "five things broken and one changed")
	f.value("a", "second")
	f.value("b", "first")
	f.value("twin", "first")
	eventually(t, "decisions", func() string { return want("as commits", len(f.decisions(since)), 1) })
	out, status := f.call("validate")
	if status != 3 {
		t.Errorf("validate = %d, want 3", status)
	}
	for _, finding := range []string{
		"b.yaml:4: error: broken-yaml: ",
		"typo.yaml:7: error: unknown-field: PropagationPolicy broken/typo: spec.placement.clusterAffinty: unknown field; did you mean clusterAffinity?",
		"twin.yaml:1: error: duplicate-object: ConfigMap broken/twin: ",
		"again.yaml:1: error: duplicate-object: ConfigMap broken/twin: ",
		"outside.yaml: error: unreadable: ",
		"base/kustomization.yaml:4: error: kustomize: https://github.com/example/fleet//base?ref=v1: ",
	} {
		if !strings.Contains("\n"+out, "\n"+finding) {
			t.Errorf("validate does not say %q:\n%s", finding, out)
		}
		_, file, _ := strings.Cut(p.out.String(), "file="+strings.SplitN(finding, ":", 2)[0]+" ")
		if file == "" {
			t.Errorf("the log of the running fleet has no finding like %q", finding)
		}
	}
	// Mended, they are in force again.
	f.push(map[string]string{"b.yaml": configMap("b", "third"), "again.yaml": "", "typo.yaml": "", "outside.yaml@": "", "base/kustomization.yaml": ""}, "mended")
	f.value("b", "third")
	if out, status := f.call("validate"); status != 0 {
		t.Errorf("validate = %d\n%s", status, out)
	}
	f.recorded(3)
}

// passes is how often nothing may change.
const passes = 100

func (w *realWorld) nothingChangedIsNothingWritten(t *testing.T) {
	quiet := w.member(t, "quiet") // of its own, for its writes are counted
	if quiet == nil {
		t.FailNow()
	}
	f := w.fleet(t, "unchanged")
	f.members = []*realMember{quiet}
	f.push(merged(f.clusters(), map[string]string{"policy.yaml": policyFor("{}", "Deployment", "Service", "ConfigMap"), "apps/demoapp.yaml": "quickstart/apps/demoapp.yaml"}), "an application")
	p := f.run()
	f.ready("demoapp", 4)
	f.recorded(3)
	p.stop()
	writes := func() int64 {
		n, err := quiet.Writes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	last, same := writes(), 0
	eventually(t, "the member's own controllers", func() string {
		if n := writes(); n != last {
			last, same = n, 0
		} else {
			same++
		}
		if same < 20 {
			return "busy"
		}
		return ""
	})
	head := f.head()
	// It dies when it begins the pass after the last: so many there were.
	p = f.run(fmt.Sprintf("GODWIT_KILL_AT=pass.start:%d", passes+1))
	edits := time.NewTicker(5 * time.Second)
	defer edits.Stop()
	for n := 0; ; n++ {
		select {
		case <-edits.C:
			f.push(map[string]string{"README.md": fmt.Sprintln("edit", n)}, "what decides nothing")
			continue
		case <-p.done:
		}
		if n == 0 {
			t.Error("the source never changed")
		}
		break
	}
	if status := p.wait(); status != -int(syscall.SIGKILL) {
		t.Fatalf("ended with %d before %d passes", status, passes)
	}
	if n := writes(); n != last {
		t.Errorf("%d writes in %d passes that change nothing", n-last, passes)
	}
	if got := f.head(); got != head {
		t.Errorf("commits in passes that change nothing: %q", f.history(head))
	}
}

func (w *realWorld) theDemoRunsOnRealMembers(t *testing.T) {
	p := w.start(t, nil, "demo", "--members", "real", "--once", "--timeout", patience.String())
	if status := p.wait(); status != 0 {
		t.Fatalf("demo = %d", status)
	}
	out := p.out.String()
	for _, line := range []string{
		`Deployment default/demoapp runs nowhere: no policy selects it`,
		`schedule: 3 bindings  \[PolicyChange\]`,
		`default +demoapp +kube02 +4/4 .*:v1\.0 `,
		`default +demoapp +kube03 +4/4 .*:v1\.1 `,
		`schedule\(default/demoapp-deployment\): kube02=3 kube03=1  \[PolicyChange\]`,
		`shop +web +kube03 +2/2 `,
		`default +demoapp +kube03 +1/1 .*:v1\.0 `,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("the demo does not show %q:\n%s", line, out)
		}
	}
}
