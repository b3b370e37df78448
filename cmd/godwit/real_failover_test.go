//go:build realcluster

package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
)

// The tutorial of failover on members that really die, or really hang. They are its own: others would miss them.
func TestFailoverOnRealServers(t *testing.T) {
	w := newRealWorld(t, "kube02", "kube03")
	for _, c := range []struct {
		ns        string
		away      func(*testing.T, *realMember)
		back      func(*testing.T, *realMember)
		condition string
	}{
		{"killed", func(_ *testing.T, m *realMember) { m.Kill() },
			func(t *testing.T, m *realMember) {
				if err := m.Restart(limited(t)); err != nil {
					t.Fatal(err)
				}
			}, "connection refused"},
		{"frozen", func(t *testing.T, m *realMember) {
			if err := m.Pause(); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, m *realMember) {
			if err := m.Resume(); err != nil {
				t.Fatal(err)
			}
		}, "(?i)time|deadline"},
	} {
		t.Run("a member that is "+c.ns+" is left and comes back", func(t *testing.T) {
			f := w.fleet(t, c.ns, "kube02", "kube03")
			f.tutorial(c.away, c.back, c.condition)
		})
	}
}

// tolerated is how long the tests' tutorial tolerates a member that is down.
const tolerated = 3 * time.Second

func (f *fleet) tutorial(away, back func(*testing.T, *realMember), condition string) {
	t := f.t
	f.settings = "  failureThreshold: 1s\n  probeTimeout: 1s\n"
	files := f.clusters()
	for _, name := range []string{"demoapp.yaml", "policy.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../examples/failover/tutorial/fleet", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = strings.NewReplacer(
			"namespace: default", "namespace: "+f.ns,
			"effect: NoExecute, tolerationSeconds: 60", "effect: NoExecute, tolerationSeconds: 3",
		).Replace(string(text))
	}
	f.push(files, "the tutorial")
	p := f.run()
	f.ready("demoapp", 3, 1)
	f.recorded(2)
	stays, leaves := f.members[0], f.members[1]
	since := f.head()

	went := time.Now()
	away(t, leaves)
	eventually(t, "Deployment on kube02", func() string {
		return want("status.readyReplicas", field(stays.get(t, deployments, f.ns, "demoapp"), "status", "readyReplicas"), int64(4))
	})
	t.Logf("4 replicas are ready on kube02 %v after kube03 went, of which %v are tolerated", time.Since(went), tolerated)
	key := f.ns + "/demoapp-deployment"
	wanted := []string{
		"ClusterFailure: cluster(kube03): NotReady",
		"ClusterFailure: failover(" + key + "): kube03 -> kube02",
		"PurgeDone: leave(" + key + "): kube03",
	}
	eventually(t, "the record", func() string {
		if got := f.decisions(since); !slices.Equal(got, wanted) {
			return strings.Join(got, "\n")
		}
		return ""
	})
	f.notBeforeTolerated(since)

	back(t, leaves)
	eventually(t, "the old copy", func() string {
		switch {
		case leaves.get(t, deployments, f.ns, "demoapp") != nil:
			return "the Deployment is on kube03"
		case leaves.get(t, configMaps, f.ns, "demoapp") != nil:
			return "the ConfigMap is on kube03"
		}
		for path := range f.state.Files(stateBranch) {
			if strings.HasPrefix(path, "retired/") {
				return path + " is on record"
			}
		}
		return ""
	})
	eventually(t, "kube03", func() string {
		out, _ := f.call("clusters")
		return want("lines with True", strings.Count(out, " True "), 2)
	})
	f.recorded(2)
	p.stop()
	// Nothing comes back by itself, neither in this process nor in the next one.
	if out, status := f.call("run", "--once"); status != 0 {
		t.Errorf("run --once = %d\n%s", status, out)
	}
	f.readyOn(stays, 4)
	if leaves.get(t, deployments, f.ns, "demoapp") != nil {
		t.Error("the Deployment is on kube03 again")
	}
	for _, d := range f.decisions(since)[len(wanted):] {
		if !strings.HasPrefix(d, "PurgeDone: ") {
			t.Errorf("kube03 came back, and it was decided: %s", d)
		}
	}

	if out, status := f.call("replay", "--all"); status != 0 {
		t.Errorf("replay = %d\n%s", status, out)
	}
	out, status := f.call("history", "deploy/demoapp", "-n", f.ns)
	for _, line := range []string{
		` ClusterFailure +` + key + ` +kube02=3 kube03=1 +kube02=4 +leaves kube03 \(TaintUntolerated: the member is not ready since 20\S+Z, tolerated 3s until 20\S+Z\)`,
		` PurgeDone +` + key + ` .*left kube03; to be deleted on kube03`,
		` PurgeDone +` + key + ` .*gone from kube03`,
	} {
		if status != 0 || !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("history = %d does not show %q:\n%s", status, line, out)
		}
	}
	out, _ = f.call("history", "--cluster", "kube03")
	if !regexp.MustCompile(`cluster/kube03 .*Ready True to False \(ClusterNotReachable: .*(` + condition + `)`).MatchString(out) {
		t.Errorf("history does not say how kube03 was:\n%s", out)
	}
}

func (f *fleet) readyOn(m *realMember, replicas int64) {
	f.t.Helper()
	if why := want("readyReplicas on "+m.Name(), field(m.get(f.t, deployments, f.ns, "demoapp"), "status", "readyReplicas"), replicas); why != "" {
		f.t.Error(why)
	}
}

// notBeforeTolerated: by its own clock, the failover was decided when the taint that was on record before it
// had been tolerated as long as it should.
func (f *fleet) notBeforeTolerated(since plumbing.Hash) {
	f.t.Helper()
	for i, d := range f.history(since) {
		if !strings.HasPrefix(d.Subject, "failover(") {
			continue
		}
		decided, err := time.Parse(time.RFC3339, trailer(d.Message, "Godwit-Time"))
		if err != nil {
			f.t.Fatal(err)
		}
		var c clusterv1alpha1.Cluster
		if err := yaml.Unmarshal([]byte(f.state.Files(d.Parents[0].String())["clusters/kube03.yaml"]), &c); err != nil {
			f.t.Fatal(err)
		}
		taints := 0
		for _, taint := range c.Spec.Taints {
			if taint.TimeAdded == nil {
				f.t.Errorf("taint %s has no time", taint.Key)
				continue
			}
			taints++
			if passed := decided.Sub(taint.TimeAdded.Time); passed < tolerated {
				f.t.Errorf("%q, commit %d, was decided %v after taint %s:%s", d.Subject, i, passed, taint.Key, taint.Effect)
			}
		}
		if taints == 0 {
			f.t.Errorf("%q was decided, and no taint was on record", d.Subject)
		}
	}
}
