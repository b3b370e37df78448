package affinity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

func TestNodes(t *testing.T) {
	affinity := func(terms string) string { return "hardNodeAffinity: {nodeSelectorTerms: [" + terms + "]}" }
	expression := func(text string) string { return affinity("{matchExpressions: [" + text + "]}") }
	tests := []struct {
		name, claim string
		node        string // labels k=v and taints k=v:Effect
		want        bool
	}{
		{"nothing asked", "", "disk=ssd", true},
		{"a taint keeps away who asks for nothing", "", "t=:NoSchedule", false},
		{"a taint is tolerated", "tolerations: [{key: t, operator: Exists}]", "t=1:NoExecute", true},
		{"one of two taints is tolerated", "tolerations: [{key: t, operator: Exists}]", "t=1:NoExecute u=:NoSchedule", false},
		{"a toleration for another effect", "tolerations: [{key: t, operator: Exists, effect: NoSchedule}]", "t=1:NoExecute", false},
		{"selector", "nodeSelector: {disk: ssd, arch: arm}", "disk=ssd arch=arm os=linux", true},
		{"half a selector", "nodeSelector: {disk: ssd, arch: arm}", "disk=ssd", false},
		{"another value", "nodeSelector: {disk: ssd}", "disk=hdd", false},
		{"a selector for an empty value wants the label", "nodeSelector: {worker: ''}", "disk=hdd", false},
		{"an empty value", "nodeSelector: {worker: ''}", "worker=", true},
		{"selector and affinity", "{nodeSelector: {disk: ssd}, " + expression("{key: arch, operator: Exists}") + "}", "disk=ssd", false},
		{"In", expression("{key: zone, operator: In, values: [a, b]}"), "zone=b", true},
		{"NotIn", expression("{key: zone, operator: NotIn, values: [a, b]}"), "zone=b", false},
		{"NotIn holds without the label", expression("{key: zone, operator: NotIn, values: [a, b]}"), "", true},
		{"Exists", expression("{key: zone, operator: Exists}"), "", false},
		{"DoesNotExist", expression("{key: zone, operator: DoesNotExist}"), "", true},
		{"Gt", expression("{key: cores, operator: Gt, values: ['8']}"), "cores=16", true},
		{"Gt is not at least", expression("{key: cores, operator: Gt, values: ['8']}"), "cores=8", false},
		{"Lt of no number", expression("{key: cores, operator: Lt, values: ['8']}"), "cores=few", false},
		{"all expressions of a term", expression("{key: zone, operator: Exists}, {key: disk, operator: Exists}"), "zone=a", false},
		{"one of the terms", affinity("{matchExpressions: [{key: zone, operator: Exists}]}, {matchExpressions: [{key: disk, operator: Exists}]}"), "disk=a", true},
		{"an empty term is no node", affinity("{}"), "disk=a", false},
		{"no term is no node", affinity(""), "disk=a", false},
		{"an invalid term is no node", expression("{key: zone, operator: Near}, {key: disk, operator: Exists}"), "disk=a zone=b", false},
		{"a valid term beside one", affinity("{matchExpressions: [{key: zone, operator: In}]}, {matchExpressions: [{key: disk, operator: Exists}]}"), "disk=a", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var claim *workv1alpha2.NodeClaim
			if err := yaml.UnmarshalStrict([]byte(tt.claim), &claim); err != nil {
				t.Fatal(err)
			}
			labels, taints := map[string]string{}, []corev1.Taint(nil)
			for f := range strings.FieldsSeq(tt.node) {
				key, value, _ := strings.Cut(f, "=")
				if value, effect, ok := strings.Cut(value, ":"); ok {
					taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
				} else {
					labels[key] = value
				}
			}
			if got := CompileNode(claim).Matches(labels, taints); got != tt.want {
				t.Errorf("%s matches %s: %v", tt.claim, tt.node, got)
			}
		})
	}
}

func TestWhatDecidesOnNodes(t *testing.T) {
	var claim workv1alpha2.NodeClaim
	if err := yaml.Unmarshal([]byte("{nodeSelector: {b: x}, hardNodeAffinity: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: c, operator: Exists}]}]}}"), &claim); err != nil {
		t.Fatal(err)
	}
	m := CompileNode(&claim)
	for label, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false, "x": false} {
		if got := m.LooksAt(label); got != want {
			t.Errorf("looks at %s: %v", label, got)
		}
	}
	if m.ByName() {
		t.Error("looks at names")
	}
	claim.HardNodeAffinity.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}
	if !CompileNode(&claim).ByName() {
		t.Error("does not look at names")
	}
}
