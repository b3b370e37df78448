//go:build realcluster

package membertest_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// startReal starts a real API server for a test.
func startReal(t *testing.T) *membertest.Real {
	t.Helper()
	binary := os.Getenv("GODWIT_MEMBERCLUSTER")
	if binary == "" {
		t.Fatal("GODWIT_MEMBERCLUSTER must be the path of the program built from testdata/membercluster")
	}
	r, err := membertest.StartReal(t.Context(), binary, "", "real")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestARealMemberKeepsTheContract(t *testing.T) {
	cfg, err := startReal(t).RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	Contract(t, cfg)
}

func TestARealMemberIsPausedKilledAndRestarted(t *testing.T) {
	r := startReal(t)
	cfg, err := r.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, cfg)
	freezes(w, func() { check(r.Pause()) }, func() { check(r.Resume()) })
	dies(w, r.Kill, func() error { return r.Restart(t.Context()) })
	if err := r.Restart(t.Context()); err == nil {
		t.Error("a member that runs was started")
	}
	check(r.Pause()) // Stop ends one that is paused
}

func TestARealMemberCountsWritesAndFailsPods(t *testing.T) {
	r := startReal(t)
	cfg, err := r.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, cfg)
	w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 2"), "a", false))
	ready := func(n any) {
		w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool { return at(o, "status.readyReplicas") == n })
	}
	ready(int64(2))
	for _, name := range []string{"d", "*"} {
		if err := r.Fail(t.Context(), w.ns, name); err != nil {
			t.Fatal(err)
		}
		ready(nil)
		if err := r.Heal(t.Context(), w.ns, name); err != nil {
			t.Fatal(err)
		}
		ready(int64(2))
	}
	w.eventually(deployments, "d", func(o *unstructured.Unstructured) bool { return at(o, "status.availableReplicas") == int64(2) })
	before, err := r.Writes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.must(w.apply(configMaps, w.ns, configMap("c", ""), "a", false))
	after, err := r.Writes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("writes %d, then %d", before, after)
	}
}

func TestAMemberThatCannotStartSaysWhy(t *testing.T) {
	startReal(t)
	_, err := membertest.StartReal(t.Context(), os.Getenv("GODWIT_MEMBERCLUSTER"), "/proc/no", "m")
	if err == nil || !strings.Contains(err.Error(), "start member m: it exited: ") {
		t.Errorf("error %v", err)
	}
}
