package decide_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

const gpuTaints = `

apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1, labels: {pool: gpu}}
spec:
  syncMode: Push
  taints: [{key: team, value: a, effect: NoSchedule}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {syncMode: Push}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: gone}
spec:
  targetClusters: {labelSelector: {matchLabels: {pool: gpu}}}
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ["True"]}]
  removeOnConditions: [{conditionType: Ready, operator: In, statusValues: ["True"]}]
  taints: [{key: fail, effect: NoExecute}, {key: team, effect: NoSchedule}]
`

// taintsOf lists the taints of a member as "key:effect@seconds since the start".
func taintsOf(w *world, member string) []string {
	var texts []string
	for _, t := range w.state.Members[member].Spec.Taints {
		text := t.Key + ":" + string(t.Effect)
		if t.TimeAdded != nil {
			text += "@" + t.TimeAdded.Sub(start).String()
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

func TestATaintPolicyAddsAndRemovesItsTaintsByConditions(t *testing.T) {
	w := newWorld(t)
	ready := func(status metav1.ConditionStatus) {
		w.seen = decide.Observations{Members: map[string]decide.MemberFacts{}}
		for _, name := range []string{"m1", "m2"} {
			w.seen.Members[name] = decide.MemberFacts{Ready: status, Reason: "Probe", Since: w.now, UID: name}
		}
	}
	steps := []struct {
		name   string
		after  time.Duration
		status metav1.ConditionStatus
		m1, m2 []string
	}{
		{"ready: the manual taint alone", 0, metav1.ConditionTrue, []string{"team:NoSchedule"}, nil},
		{"not ready: the policy's taint with its time, on the member it is for", time.Minute, metav1.ConditionFalse,
			[]string{"cluster.karmada.io/not-ready:NoExecute@1m0s", "cluster.karmada.io/not-ready:NoSchedule@1m0s", "fail:NoExecute@1m0s", "team:NoSchedule"},
			[]string{"cluster.karmada.io/not-ready:NoExecute@1m0s", "cluster.karmada.io/not-ready:NoSchedule@1m0s"}},
		{"unreachable: the policy's taint keeps its time", 2 * time.Minute, metav1.ConditionUnknown,
			[]string{"cluster.karmada.io/unreachable:NoExecute@2m0s", "cluster.karmada.io/unreachable:NoSchedule@2m0s", "fail:NoExecute@1m0s", "team:NoSchedule"},
			[]string{"cluster.karmada.io/unreachable:NoExecute@2m0s", "cluster.karmada.io/unreachable:NoSchedule@2m0s"}},
		{"ready again: the manual taint is not the policy's to remove", 3 * time.Minute, metav1.ConditionTrue, []string{"team:NoSchedule"}, nil},
	}
	for i, s := range steps {
		w.now = start.Add(s.after)
		ready(s.status)
		if i == 0 {
			w.push(file("clusters.yaml", gpuTaints))
		} else {
			w.pass()
		}
		if got := taintsOf(w, "m1"); !slices.Equal(got, s.m1) {
			t.Errorf("%s: m1 has %q, want %q", s.name, got, s.m1)
		}
		if got := taintsOf(w, "m2"); !slices.Equal(got, s.m2) {
			t.Errorf("%s: m2 has %q, want %q", s.name, got, s.m2)
		}
	}
}
