package affinity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

var (
	paris = Cluster{Name: "paris", Labels: map[string]string{"env": "prod", "tier": "1"}, Provider: "ovh", Region: "eu", Zones: []string{"a", "b"}}
	bare  = Cluster{Name: "bare"}
)

func field(key string, op corev1.NodeSelectorOperator, values ...string) *policyv1alpha1.ClusterAffinity {
	return &policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}}
}

func label(s metav1.LabelSelector) *policyv1alpha1.ClusterAffinity {
	return &policyv1alpha1.ClusterAffinity{LabelSelector: &s}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		name        string
		affinity    *policyv1alpha1.ClusterAffinity
		paris, bare string // what Refusal says; empty means it matches
	}{
		{"nil selects all", nil, "", ""},
		{"empty selects all", &policyv1alpha1.ClusterAffinity{}, "", ""},
		{"names", &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"x", "paris"}}, "", "not in clusterNames"},
		{"exclude", &policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{"x", "bare"}}, "", "excluded by name"},
		{"exclude wins over names", &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"paris", "bare"}, ExcludeClusters: []string{"paris"}},
			"excluded by name", ""},
		{"labels", label(metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}), "", "labels do not match env=prod"},
		{"empty label selector selects all", label(metav1.LabelSelector{}), "", ""},
		{"label expression", label(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "NotIn", Values: []string{"prod"}}}}),
			"labels do not match env notin (prod)", ""},
		{"invalid label selector selects none", label(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}),
			`"Like" is not a valid label selector operator`, `"Like" is not a valid label selector operator`},
		{"region In", field("region", "In", "us", "eu"), "", `provider "" and region "" do not match region in (eu,us)`},
		{"region NotIn takes a cluster without one", field("region", "NotIn", "eu"), `provider "ovh" and region "eu" do not match region notin (eu)`, ""},
		{"provider", field("provider", "In", "ovh"), "", `provider "" and region "" do not match provider in (ovh)`},
		{"provider Exists", field("provider", "Exists"), "", `provider "" and region "" do not match provider`},
		{"zone In is any zone", field("zone", "In", "b", "c"), "", `zones [] do not match zone In ["b" "c"]`},
		{"zone NotIn is no zone", field("zone", "NotIn", "b", "c"), `zones ["a" "b"] do not match zone NotIn ["b" "c"]`, ""},
		{"zone Exists", field("zone", "Exists"), "", `zones [] do not match zone Exists []`},
		{"zone DoesNotExist", field("zone", "DoesNotExist"), `zones ["a" "b"] do not match zone DoesNotExist []`, ""},
		{"unknown operator selects none", field("zone", "Gt", "1"), `fieldSelector: operator "Gt" of zone is not In or NotIn`,
			`fieldSelector: operator "Gt" of zone is not In or NotIn`},
		{"In without values selects none", field("region", "In"), "fieldSelector: ", "fieldSelector: "},
		{"all parts must hold", &policyv1alpha1.ClusterAffinity{
			ClusterNames:  []string{"bare", "paris"},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "1"}},
			FieldSelector: field("region", "In", "us").FieldSelector},
			`provider "ovh" and region "eu" do not match region in (us)`, "labels do not match tier=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := Compile(tt.affinity)
			for _, c := range []struct {
				cluster *Cluster
				want    string
			}{{&paris, tt.paris}, {&bare, tt.bare}} {
				got := m.Refusal(c.cluster)
				if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
					t.Errorf("Refusal(%s) = %q, want %q", c.cluster.Name, got, c.want)
				}
				if m.Matches(c.cluster) != (got == "") {
					t.Errorf("Matches(%s) = %v, but the refusal is %q", c.cluster.Name, m.Matches(c.cluster), got)
				}
			}
		})
	}
}

func TestOfTakesALoneZone(t *testing.T) {
	c := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{Zone: "old"}}
	if got := Of(c).Zones; len(got) != 1 || got[0] != "old" {
		t.Errorf("Of(zone: old).Zones = %q, want [old]", got)
	}
	c.Spec.Zones = []string{"new"}
	if got := Of(c).Zones; len(got) != 1 || got[0] != "new" {
		t.Errorf("Of(zone: old, zones: [new]).Zones = %q, want [new]", got)
	}
}

func TestInAndNotInAreOpposites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"provider", "region", "zone"}).Draw(t, "key")
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		values := rapid.SliceOfN(word, 1, 3).Draw(t, "values")
		c := Cluster{
			Provider: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "provider"),
			Region:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "region"),
			Zones:    rapid.SliceOf(word).Draw(t, "zones"),
		}
		if in, notIn := Compile(field(key, "In", values...)).Matches(&c), Compile(field(key, "NotIn", values...)).Matches(&c); in == notIn {
			t.Fatalf("%s In and NotIn %q both say %v for %+v", key, values, in, c)
		}
	})
}

func TestTolerates(t *testing.T) {
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}
	tests := []struct {
		toleration corev1.Toleration
		want       bool
	}{
		{corev1.Toleration{Key: "k", Value: "v"}, true},
		{corev1.Toleration{Key: "k", Operator: "Equal", Value: "w"}, false},
		{corev1.Toleration{Key: "k", Operator: "Exists"}, true},
		{corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoExecute"}, true},
		{corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"}, false},
		{corev1.Toleration{Key: "other", Operator: "Exists"}, false},
		{corev1.Toleration{Operator: "Exists"}, true},
		{corev1.Toleration{Key: "k", Operator: "Gt", Value: "0"}, false},
	}
	for _, tt := range tests {
		if got := Tolerates(&tt.toleration, &taint); got != tt.want {
			t.Errorf("Tolerates(%+v) = %v, want %v", tt.toleration, got, tt.want)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	m := Compile(&policyv1alpha1.ClusterAffinity{
		LabelSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		FieldSelector:   field("region", "In", "eu").FieldSelector,
		ExcludeClusters: []string{"x"},
	})
	if n := testing.AllocsPerRun(100, func() { m.Matches(&paris) }); n != 0 {
		t.Errorf("Matches allocates %v times", n)
	}
}

func BenchmarkMatches(b *testing.B) {
	m := Compile(label(metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod", "tier": "1"}}))
	b.ReportAllocs()
	for b.Loop() {
		m.Matches(&paris)
	}
}
