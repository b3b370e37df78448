package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// bigFleet has n members in ten regions, four of five of them for production.
func bigFleet(n int) *Fleet {
	clusters := make([]*clusterv1alpha1.Cluster, n)
	for i := range clusters {
		clusters[i] = cluster(fmt.Sprintf("member-%04d region=region-%d zone=zone-%d cpu=%d pods=500", i, i%10, i%30, 10+i*7919%90))
		clusters[i].Labels = map[string]string{"env": "prod"}
		if i%5 == 0 {
			clusters[i].Labels["env"] = "test"
		}
	}
	return NewFleet(clusters)
}

func BenchmarkSchedule(b *testing.B) {
	prod := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}
	spread := func(field policyv1alpha1.SpreadFieldValue, least, most int) policyv1alpha1.SpreadConstraint {
		return policyv1alpha1.SpreadConstraint{SpreadByField: field, MinGroups: least, MaxGroups: most}
	}
	placements := []struct {
		name      string
		placement policyv1alpha1.Placement
	}{
		{"duplicated", policyv1alpha1.Placement{ClusterAffinity: prod}},
		{"static", policyv1alpha1.Placement{ClusterAffinity: prod, ReplicaScheduling: scheduling("static")}},
		{"dynamic", policyv1alpha1.Placement{ClusterAffinity: prod, ReplicaScheduling: scheduling("dynamic")}},
		{"aggregated", policyv1alpha1.Placement{ClusterAffinity: prod, ReplicaScheduling: scheduling("aggregated")}},
		{"regions", policyv1alpha1.Placement{ClusterAffinity: prod, ReplicaScheduling: scheduling("dynamic"),
			SpreadConstraints: []policyv1alpha1.SpreadConstraint{spread("region", 2, 4), spread("cluster", 3, 8)}}},
		{"zones", policyv1alpha1.Placement{ClusterAffinity: prod,
			SpreadConstraints: []policyv1alpha1.SpreadConstraint{spread("zone", 2, 12), spread("cluster", 8, 20)}}},
	}
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("dynamic with nodes/clusters=%d", n), func(b *testing.B) { benchmarkNodes(b, n) })
		fleet := bigFleet(n)
		for _, p := range placements {
			binding := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
				Resource:            workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				Replicas:            100,
				ReplicaRequirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: resources("cpu=500m")},
				Placement:           &p.placement,
			}}
			b.Run(fmt.Sprintf("%s/clusters=%d", p.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if r := fleet.Schedule(Request{Binding: binding}); r.Failure != "" {
						b.Fatal(r.Message)
					}
				}
			})
			if p.name == "duplicated" {
				b.Run(fmt.Sprintf("new placement/clusters=%d", n), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						fresh := p.placement
						copied := *binding
						copied.Spec.Placement = &fresh
						fleet.Schedule(Request{Binding: &copied})
					}
				})
			}
		}
	}
}

// benchmarkNodes has the accurate estimator look at three pools of four groups in each cluster.
func benchmarkNodes(b *testing.B, n int) {
	clusters := make([]*clusterv1alpha1.Cluster, n)
	for i := range clusters {
		clusters[i] = withNodes(cluster(fmt.Sprintf("member-%04d cpu=%d pods=500", i, 10+i*7919%90)),
			strings.Repeat("| label=disk:ssd label=zone:a 3*cpu=1,pods=9 2*cpu=2,pods=9 2*cpu=3,pods=9 1*cpu=4,pods=9", 3)[1:])
	}
	fleet := NewFleet(clusters)
	binding := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Replicas: 100,
		ReplicaRequirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: resources("cpu=500m"), NodeClaim: &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"disk": "ssd"}}},
		Placement:           &policyv1alpha1.Placement{ReplicaScheduling: scheduling("dynamic")},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if r := fleet.Schedule(Request{Binding: binding}); r.Failure != "" {
			b.Fatal(r.Message)
		}
	}
}

// BenchmarkLabels compiles a fleet, and a placement that selects half of it by a label, with few and many
// labels on each cluster. of-1 is the cost against that with one label.
func BenchmarkLabels(b *testing.B) {
	half := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"half": "0"}}}
	var least time.Duration
	for _, labels := range []int{1, 50} {
		clusters := make([]*clusterv1alpha1.Cluster, 5000)
		for i := range clusters {
			clusters[i] = cluster(fmt.Sprintf("member-%04d cpu=10 pods=500", i))
			clusters[i].Labels = map[string]string{"half": fmt.Sprint(i % 2)}
			for j := 1; j < labels; j++ {
				clusters[i].Labels[fmt.Sprintf("example.com/label-%d", j)] = fmt.Sprint(i % (j + 1))
			}
		}
		b.Run(fmt.Sprintf("labels=%d", labels), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fleet := NewFleet(clusters)
				binding := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
					Resource: workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}, Placement: &policyv1alpha1.Placement{ClusterAffinity: half}}}
				if r := fleet.Schedule(Request{Binding: binding}); len(r.Clusters) != 2500 {
					b.Fatalf("%d clusters: %s", len(r.Clusters), r.Message)
				}
			}
			each := b.Elapsed() / time.Duration(b.N)
			if least == 0 {
				least = each
			}
			b.ReportMetric(float64(each)/float64(least), "of-1")
		})
	}
}

func BenchmarkNewFleet(b *testing.B) {
	clusters := make([]*clusterv1alpha1.Cluster, 1000)
	for i := range clusters {
		clusters[i] = cluster(fmt.Sprintf("member-%04d region=region-%d cpu=%d pods=500", i, i%10, 10+i%90))
	}
	b.ReportAllocs()
	for b.Loop() {
		NewFleet(clusters)
	}
}
