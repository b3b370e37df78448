//go:build realcluster

package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/render/kustomize"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// divided are the manifests with the component that divides members over replicas.
func divided(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files := fstest.MapFS{"overlays/divided/kustomization.yaml": {Data: []byte("resources: [../high-availability]\ncomponents: [../../sharding]\nnamespace: godwit-system\n")}}
	if err := fs.WalkDir(os.DirFS(installFolder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(installFolder, path))
		files[path] = &fstest.MapFile{Data: text}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	built, _, err := kustomize.Build(files, "overlays/divided")
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, o := range built {
		all = append(all, &unstructured.Unstructured{Object: o})
	}
	return all
}

// Two replicas share two members, with the token of their account and what it may: the first, which leads, serves kube03, and
// the second kube02. What is decided gets to both, a Secret with its values; that kube02 is out gets to the leader; and when the
// leader is killed the second one leads, and serves both.
func TestReplicasShareMembersOnRealServers(t *testing.T) {
	w := newRealWorld(t, "mgmt", "kube02", "kube03")
	mgmt := w.members["mgmt"]
	f := w.fleet(t, "shared", "kube02", "kube03")
	secret := func(value string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {token: " + value + "}\n"
	}
	f.push(merged(f.clusters(), map[string]string{
		"policy.yaml": policyFor("{}", "ConfigMap", "Secret"), "settings.yaml": configMap("settings", "one"), "token.yaml": secret("one"),
	}), "two members")

	all := divided(t)
	mgmt.install(t, false, all...)
	config, err := mgmt.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	seen := newWitness(t, config)
	pod := &one[podTemplate](t, all, "Deployment").Spec.Template.Spec
	account := seen.kubeconfig(t, mgmt, filepath.Join(f.dir, "account"), pod.ServiceAccountName)
	f.settings = "management: {kubeconfig: " + account + "}\nleaderElection: {enabled: true, namespace: " + installNamespace + ", leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}\n"
	replica := func(name string) *process {
		env := []string{"GODWIT_LEADERELECTION_IDENTITY=" + name, "GODWIT_CLUSTERS_FAILURETHRESHOLD=1s", "GODWIT_CLUSTERS_PROBETIMEOUT=1s"}
		for _, v := range pod.Containers[0].Env {
			env = append(env, v.Name+"="+v.Value)
		}
		return w.start(t, env, "run", "--config", f.configFile(name))
	}
	first := replica("first")
	f.value("settings", "one")
	second := replica("second")
	replicas := func(n int) {
		t.Helper()
		eventually(t, "the replicas", func() string {
			text, _ := field(mgmt.get(t, leases, installNamespace, "godwit-roster"), "metadata", "annotations", "godwit.dev/roster").(string)
			if strings.Count(text, "\"first\"")+strings.Count(text, "\"second\"") != n || !strings.Contains(text, `"settled":true`) {
				return text
			}
			return ""
		})
	}
	replicas(2)
	holds := func(value, token string) {
		t.Helper()
		f.value("settings", value)
		for _, m := range f.members {
			eventually(t, "the Secret on "+m.Name(), func() string {
				return want("its value", field(m.get(t, secrets, f.ns, "token"), "data", "token"), token)
			})
		}
	}
	f.push(map[string]string{"settings.yaml": configMap("settings", "two"), "token.yaml": secret("two")}, "two")
	holds("two", "dHdv")

	out := f.members[0]
	recorded := func(reason string) {
		t.Helper()
		eventually(t, out.Name(), func() string { return f.missing("clusters/"+out.Name()+".yaml", "reason: "+reason) })
	}
	recorded("ClusterReady")
	if err := out.Pause(); err != nil {
		t.Fatal(err)
	}
	recorded("ClusterNotReachable")
	if err := out.Resume(); err != nil {
		t.Fatal(err)
	}
	recorded("ClusterReady")

	first.cmd.Process.Kill()
	if status := first.wait(); status != -int(syscall.SIGKILL) {
		t.Fatalf("the first ended with %d", status)
	}
	replicas(1)
	f.push(map[string]string{"settings.yaml": configMap("settings", "three"), "token.yaml": secret("three")}, "three")
	holds("three", "dGhyZWU=")
	second.stop()
	if l := mgmt.get(t, leases, installNamespace, "godwit-replica-second"); l != nil {
		t.Error("the second one kept its Lease")
	}

	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.denied) > 0 {
		t.Errorf("they want more than they may: %q", seen.denied)
	}
	may := granted(t, all)
	for what := range seen.asked {
		if !slices.Contains(may, what) && !strings.HasPrefix(what, "GET ") {
			t.Errorf("they asked for what no rule is about: %s", what)
		}
	}
	for _, what := range []string{"watch leases.coordination.k8s.io", "delete leases.coordination.k8s.io", "watch secrets", "update secrets"} {
		if !seen.asked[installNamespace+" "+what] {
			t.Errorf("they may, and do not need to: %s", what)
		}
	}
}
