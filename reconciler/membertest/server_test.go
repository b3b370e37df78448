package membertest_test

import (
	"testing"

	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func TestASimulatedMemberKeepsTheContract(t *testing.T) {
	Contract(t, membertest.Start(t, "simulated").RestConfig())
}
