//go:build realcluster

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// A member that the reconciler has no way to: its agent and the reconciler meet in Git alone.
func TestAnAgentOnRealServers(t *testing.T) {
	w := newRealWorld(t, "kube02", "kube03")
	f := w.fleet(t, "pulled", "kube02", "kube03")
	f.settings = "agent: {heartbeat: 500ms, leaseDuration: 5s, pollInterval: 500ms}\n"
	near, far := f.members[0], f.members[1]
	files := f.clusters()
	files["clusters/kube03.yaml"] = strings.Replace(files["clusters/kube03.yaml"], "syncMode: Push", "syncMode: Pull", 1)
	files["clusters/kube03.yaml"] = strings.Replace(files["clusters/kube03.yaml"], "environment: prod", "environment: prod, home: shop", 1)
	f.push(files, "two members")
	f.members = f.members[:1] // whose credentials it has
	p := f.run()

	// The agent has the token of its own server, and of Git what everybody may read; it never sees the source.
	config := filepath.Join(f.dir, "agent.yaml")
	text := fmt.Sprintf("source: {url: http://127.0.0.1:1/nowhere.git}\nstate: {url: %s}\nclusters: {kubeconfig: [%s], probeInterval: 1s, successThreshold: 1s}\n%sfleet: %s\ndataDir: %s\n",
		f.server.URL, far.Kubeconfig(), f.settings, f.ns, filepath.Join(f.dir, "agent"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func() *process { return w.start(t, nil, "agent", "--member", "kube03", "--config", config) }
	agent := serve()
	eventually(t, "the member", func() string { return f.missing("clusters/kube03.yaml", "reason: ClusterReady") })

	files["shop.yaml"] = fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: web, image: "nginx:1.29"}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: shop, namespace: %[1]s}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement:
    clusterAffinities:
    - {affinityName: home, labelSelector: {matchLabels: {home: shop}}}
    - {affinityName: any}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}] # or it would come back as soon as it can
    clusterTolerations:
    - {key: cluster.karmada.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
  failover: {cluster: {purgeMode: Gracefully}}
`, f.ns)
	f.push(files, "the shop")
	runs := func(m *realMember) func() string {
		return func() string {
			return want("status.readyReplicas on "+m.Name(), field(m.get(t, deployments, f.ns, "shop"), "status", "readyReplicas"), int64(2))
		}
	}
	pushed := time.Now()
	eventually(t, "the workload", runs(far))
	t.Logf("ready on the member %v after the push", time.Since(pushed))
	binding := "bindings/" + f.ns + "/shop-deployment.yaml"
	eventually(t, "its status", func() string { return f.missing(binding, "clusterName: kube03\n    health: Healthy") })

	agent.cmd.Process.Kill()
	if status := agent.wait(); status != -int(syscall.SIGKILL) {
		t.Fatalf("the agent ended with %d", status)
	}
	died := time.Now()
	eventually(t, "the failover", runs(near))
	t.Logf("ready on the other member %v after the agent died", time.Since(died))
	if why := runs(far)(); why != "" {
		t.Errorf("nobody is there who could have deleted the old copy: %s", why)
	}
	agent = serve()
	eventually(t, "the old copy", func() string {
		if far.get(t, deployments, f.ns, "shop") != nil {
			return "there"
		}
		return ""
	})
	eventually(t, "the record", func() string {
		for name := range f.state.Files(stateBranch) {
			if strings.HasPrefix(name, "retired/") {
				return name
			}
		}
		return ""
	})
	agent.stop()
	p.stop()
	f.reported(t)
}

// missing is empty if the file of the state branch holds the text.
func (f *fleet) missing(file, text string) string {
	if f.head().IsZero() {
		return "there is no state branch"
	}
	if got := f.state.Files(stateBranch)[file]; !strings.Contains(got, text) {
		return file + ": " + got
	}
	return ""
}

// reported looks at the agent's branch: one commit, and git finds nothing wrong.
func (f *fleet) reported(t *testing.T) {
	t.Helper()
	if log := gittest.At(t, f.state.Dir).Log(stateBranch + "-agents/kube03"); len(log) != 1 {
		t.Errorf("%d reports are kept", len(log))
	}
	f.state.Git("fsck", "--strict")
	if !slices.Contains(strings.Fields(f.state.Git("ls-tree", "-r", "--name-only", stateBranch+"-agents/kube03")), "report.json") {
		t.Error("there is no report")
	}
}
