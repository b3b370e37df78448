//go:build realcluster

package membertest_test

import (
	"os"
	"testing"

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
