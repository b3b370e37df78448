package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// cluster reads "name key=value ...": region, provider, zone=a,b, label=k:v, taint=key:effect,
// leaving, nostatus, noapis; anything else is a resource the cluster has free. It has 1000 pods
// free unless it says otherwise, and serves Deployments, Jobs and ConfigMaps.
func cluster(text string) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{}
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
		{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}},
	}
	free := corev1.ResourceList{"pods": resource.MustParse("1000")}
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: free}
	for i, f := range strings.Fields(text) {
		key, value, _ := strings.Cut(f, "=")
		switch {
		case i == 0:
			c.Name = f
		case key == "region":
			c.Spec.Region = value
		case key == "provider":
			c.Spec.Provider = value
		case key == "zone":
			c.Spec.Zones = strings.Split(value, ",")
		case key == "label":
			k, v, _ := strings.Cut(value, ":")
			c.Labels = map[string]string{k: v}
		case key == "taint":
			k, effect, _ := strings.Cut(value, ":")
			c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: k, Effect: corev1.TaintEffect(effect)})
		case key == "leaving":
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		case key == "nostatus":
			c.Status = clusterv1alpha1.ClusterStatus{}
		case key == "noapis":
			c.Status.APIEnablements = nil
		default:
			free[corev1.ResourceName(key)] = resource.MustParse(value)
		}
	}
	return c
}

// fleet reads clusters separated by ";".
func fleet(text string) *Fleet {
	var list []*clusterv1alpha1.Cluster
	for c := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(c) != "" {
			list = append(list, cluster(c))
		}
	}
	return NewFleet(list)
}

func resources(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for f := range strings.FieldsSeq(text) {
		name, q, _ := strings.Cut(f, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	return list
}

// placed reads a placement as YAML.
func placed(text string) *policyv1alpha1.Placement {
	p := &policyv1alpha1.Placement{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		panic(err)
	}
	return p
}

// strategies by name, as YAML of replicaScheduling.
var strategies = map[string]string{
	"duplicated": "{replicaSchedulingType: Duplicated}",
	"even":       "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}",
	"static": `{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [
		{targetCluster: {clusterNames: [a]}, weight: 2}, {targetCluster: {clusterNames: [a, b]}, weight: 1}]}}`,
	"dynamic":    "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}",
	"aggregated": "{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}",
}

func scheduling(name string) *policyv1alpha1.ReplicaSchedulingStrategy {
	return placed("replicaScheduling: " + strategies[name]).ReplicaScheduling
}

// targets reads "a=2 b=1 c"; show writes it.
func targets(text string) (list []workv1alpha2.TargetCluster) {
	for f := range strings.FieldsSeq(text) {
		t := workv1alpha2.TargetCluster{}
		t.Name, _, _ = strings.Cut(f, "=")
		fmt.Sscanf(f, t.Name+"=%d", &t.Replicas)
		list = append(list, t)
	}
	return list
}

func show(list []workv1alpha2.TargetCluster) string {
	var fields []string
	for _, t := range list {
		f := t.Name
		if t.Replicas > 0 {
			f = fmt.Sprintf("%s=%d", t.Name, t.Replicas)
		}
		for _, c := range t.Components {
			f += fmt.Sprintf("(%s=%d)", c.Name, c.Replicas)
		}
		fields = append(fields, f)
	}
	return strings.Join(fields, " ")
}

// answer is the result in one line: the targets, and what went wrong.
func answer(r Result) string {
	if r.Failure == "" {
		return show(r.Clusters)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", show(r.Clusters), r.Failure, r.Message))
}

// binding of a Deployment that runs on the current targets.
func binding(replicas int32, current string, p *policyv1alpha1.Placement) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Name, b.Namespace = "web-deployment", "default"
	b.Spec = workv1alpha2.ResourceBindingSpec{
		Resource:  workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web"},
		Replicas:  replicas,
		Clusters:  targets(current),
		Placement: p,
	}
	return b
}

// configMap makes the template one without replicas.
func configMap(b *workv1alpha2.ResourceBinding) *workv1alpha2.ResourceBinding {
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web"}
	b.Spec.Replicas = 0
	return b
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// stored is the binding as a caller leaves it after the result.
func stored(f *Fleet, b *workv1alpha2.ResourceBinding, r Result) *workv1alpha2.ResourceBinding {
	next := *b
	next.Spec.Clusters = r.Clusters
	if r.Failure == "" && r.Trigger.Asks() {
		next.Annotations = map[string]string{AnnotationAppliedPlacement: f.AppliedPlacement(b.Spec.Placement)}
		next.Status.SchedulerObservedAffinityName = r.Affinity
		next.Status.LastScheduledTime = &metav1.Time{Time: noon}
	}
	return &next
}

func TestFilters(t *testing.T) {
	const six = "a region=eu; b region=us"
	tests := []struct {
		name      string
		members   string
		current   string
		placement string
		change    func(*workv1alpha2.ResourceBinding)
		want      string
		detail    string // of the verdict on member b
	}{
		{"nothing specified takes all", six, "", "{}", nil, "a=1 b=1", ""},
		{"affinity", six, "", "clusterAffinity: {clusterNames: [a]}", nil, "a=1", "ClusterAffinity: not in clusterNames"},
		{"affinity applies to targets too", six, "a=1 b=1", "clusterAffinity: {clusterNames: [a]}", nil, "a=1", "ClusterAffinity: not in clusterNames"},
		{"a leaving cluster is no candidate", "a; b leaving", "b=1", "{}", nil, "a=1", "ClusterLeaving: the cluster is being removed from the fleet"},
		{"taint", "a; b taint=k:NoSchedule", "", "{}", nil, "a=1", "TaintToleration: taint k:NoSchedule is not tolerated"},
		{"the first taint that is not tolerated counts", "a; b taint=k:NoSchedule taint=l:NoExecute", "", "clusterTolerations: [{key: k, operator: Exists}]", nil, "a=1", "TaintToleration: taint l:NoExecute is not tolerated"},
		{"tolerated taint", "a; b taint=k:NoExecute", "", "clusterTolerations: [{key: k, operator: Exists, tolerationSeconds: 0}]", nil, "a=1 b=1", ""},
		{"taints spare targets", "a; b taint=k:NoExecute", "b=1", "{}", nil, "b=1 a=1", ""},
		{"PreferNoSchedule is ignored", "a; b taint=k:PreferNoSchedule", "", "{}", nil, "a=1 b=1", ""},
		{"API missing", "a; b noapis", "", "{}", nil, "a=1", "APIEnablement: the cluster's API resources are not known"},
		{"API of another group", six, "", "{}", func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.APIVersion = "apps/v1beta1" },
			"NoClusterFit: 0/2 clusters are available: 2 cluster(s) did not have the API resource.", "APIEnablement: apps/v1beta1 Deployment is not among the cluster's API resources"},
		{"API missing spares targets", "a; b noapis", "b=1", "{}", nil, "b=1 a=1", ""},
		{"no status at all serves everything", "a; b nostatus", "", "{}", nil, "a=1 b=1", ""},
		{"no region", "a region=eu; b", "", "spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: cluster, minGroups: 1, maxGroups: 9}]", nil,
			"a=1", "SpreadConstraint: the cluster has no region, which a spread constraint needs"},
		{"no zone, static weights or not", "a zone=x; b", "", "{spreadConstraints: [{spreadByField: zone, minGroups: 1, maxGroups: 1}], replicaScheduling: " + strategies["even"] + "}", nil,
			"a=1", "SpreadConstraint: the cluster has no zone, which a spread constraint needs"},
		{"evicted", six, "", "{}", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "b", Producer: "TaintManager", Reason: "TaintUntolerated"}, {FromCluster: "gone"}}
		}, "a=1", "ClusterEviction: the workload is being evicted from the cluster (TaintManager: TaintUntolerated)"},
		{"all refused", "a region=eu taint=k:NoSchedule; b; c leaving; d", "a=1 x=1", "clusterAffinity: {clusterNames: [x]}", nil,
			"NoClusterFit: 0/4 clusters are available: 1 cluster(s) are being deleted, 3 cluster(s) did not match the placement cluster affinity constraint.", "ClusterAffinity: not in clusterNames"},
		{"reasons are sorted and name the taint", "a taint=k:NoSchedule; b noapis", "", "{}", nil,
			"NoClusterFit: 0/2 clusters are available: 1 cluster(s) did not have the API resource, 1 cluster(s) had untolerated taint {k:NoSchedule}.", "APIEnablement: the cluster's API resources are not known"},
		{"no members", "", "a=1", "{}", nil, "NoClusterFit: 0/0 clusters are available: no cluster is registered.", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := binding(1, tt.current, placed(tt.placement))
			if tt.change != nil {
				tt.change(b)
			}
			r := fleet(tt.members).Schedule(Request{Binding: b, Explain: true})
			if got := answer(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			detail := ""
			for _, v := range r.Verdicts {
				if v.Cluster == "b" && v.Rule != "" {
					detail = v.Rule + ": " + v.Message
				}
			}
			if detail != tt.detail {
				t.Errorf("verdict on b: %q, want %q", detail, tt.detail)
			}
		})
	}
}

func TestBlocksAfterEviction(t *testing.T) {
	evicted := func(cluster string, ago time.Duration) workv1alpha2.EvictionRecord {
		return workv1alpha2.EvictionRecord{ClusterName: cluster, CreationTimestamp: metav1.Time{Time: noon.Add(-ago)}, Reason: "ApplicationFailure"}
	}
	tests := []struct {
		name     string
		seconds  *int32
		failover bool
		ago      time.Duration
		compat   bool
		now      time.Time
		current  string
		want     string
		wake     time.Duration // after noon; 0 for none
		message  string
	}{
		{name: "for as long as the policy says", seconds: new(int32(60)), failover: true, ago: 30 * time.Second, now: noon, want: "a=1", wake: 30 * time.Second,
			message: "blocked until 2026-01-01T12:00:30Z, 30s left (ApplicationFailure)"},
		{name: "ended", seconds: new(int32(60)), failover: true, ago: 60 * time.Second, now: noon, want: "a=1 b=1", message: "number 2 of 2 candidates"},
		{name: "ten minutes by default", failover: true, ago: 9 * time.Minute, now: noon, want: "a=1", wake: time.Minute,
			message: "blocked until 2026-01-01T12:01:00Z, 1m0s left (ApplicationFailure)"},
		{name: "no default in Karmada", failover: true, ago: time.Minute, now: noon, compat: true, want: "a=1 b=1", message: "number 2 of 2 candidates"},
		{name: "0 is for ever", seconds: new(int32(0)), failover: true, ago: 1000 * time.Hour, now: noon, want: "a=1", message: "blocked for ever (ApplicationFailure)"},
		{name: "without a clock nothing has ended", seconds: new(int32(60)), failover: true, ago: time.Hour, want: "a=1", wake: -59 * time.Minute,
			message: "blocked until 2026-01-01T11:01:00Z (ApplicationFailure)"},
		{name: "no failover, no block", ago: time.Second, now: noon, want: "a=1 b=1", message: "number 2 of 2 candidates"},
		{name: "targets are spared", failover: true, ago: time.Second, now: noon, current: "b=1", want: "b=1 a=1",
			message: "number 1 of 2 candidates, as it runs there already; blocked until 2026-01-01T12:09:59Z, 9m59s left (ApplicationFailure), which keeps only new copies away"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := binding(1, tt.current, placed("{}"))
			b.Spec.ActiveEvictionHistory = []workv1alpha2.EvictionRecord{evicted("b", tt.ago), evicted("gone", 0)}
			if tt.failover {
				b.Spec.Failover = &policyv1alpha1.FailoverBehavior{Application: &policyv1alpha1.ApplicationFailoverBehavior{BlockPredecessorSeconds: tt.seconds}}
			}
			r := fleet("a; b").Schedule(Request{Binding: b, Now: tt.now, Compat: tt.compat, Explain: true})
			if got := answer(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var wake time.Time
			if tt.wake != 0 {
				wake = noon.Add(tt.wake)
			}
			if !r.Wake.Equal(wake) {
				t.Errorf("wakes at %v, want %v", r.Wake, wake)
			}
			if got := r.Verdicts[1].Message; got != tt.message {
				t.Errorf("message %q, want %q", got, tt.message)
			}
		})
	}
}

func TestPeers(t *testing.T) {
	in := func(name, current, affinity, anti string) *workv1alpha2.ResourceBinding {
		b := binding(1, current, placed("{}"))
		b.Name = name
		b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: affinity, AntiAffinityGroup: anti}
		return b
	}
	elsewhere := in("p", "c=1", "g", "g")
	elsewhere.Namespace = "other"
	tests := []struct {
		name  string
		self  *workv1alpha2.ResourceBinding
		peers []*workv1alpha2.ResourceBinding
		want  string
	}{
		{"no peers", in("self", "", "g", ""), nil, "a=1 b=1 c=1"},
		{"together with all that run", in("self", "", "g", ""), []*workv1alpha2.ResourceBinding{in("p", "a=1 b=1", "g", ""), in("q", "b=1 c=1", "g", ""), in("r", "", "g", "")}, "b=1"},
		{"itself does not count", in("self", "a=1", "g", "g"), []*workv1alpha2.ResourceBinding{in("self", "a=1", "g", "g")}, "a=1 b=1 c=1"},
		{"targets are spared", in("self", "a=1", "g", ""), []*workv1alpha2.ResourceBinding{in("p", "b=1", "g", "")}, "a=1 b=1"},
		{"other groups do not count", in("self", "", "g", ""), []*workv1alpha2.ResourceBinding{in("p", "b=1", "h", "")}, "a=1 b=1 c=1"},
		{"nor do other namespaces", in("self", "", "g", "g"), []*workv1alpha2.ResourceBinding{elsewhere}, "a=1 b=1 c=1"},
		{"together, but nowhere is common", in("self", "", "g", ""), []*workv1alpha2.ResourceBinding{in("p", "a=1", "g", ""), in("q", "b=1", "g", "")},
			"NoClusterFit: 0/3 clusters are available: 3 cluster(s) did not match the workload affinity."},
		{"apart from any that runs", in("self", "", "", "g"), []*workv1alpha2.ResourceBinding{in("p", "a=1", "", "g"), in("q", "c=1", "", "g")}, "b=1"},
		{"apart spares targets", in("self", "a=1", "", "g"), []*workv1alpha2.ResourceBinding{in("p", "a=1 b=1", "", "g")}, "a=1 c=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := answer(fleet("a; b; c").Schedule(Request{Binding: tt.self, Peers: NewPeers(tt.peers)})); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatRunsNowCounts(t *testing.T) {
	p := binding(1, "a=1", placed("{}"))
	p.Name, p.Spec.WorkloadAffinityGroups = "p", &workv1alpha2.WorkloadAffinityGroups{AntiAffinityGroup: "g"}
	peers := NewPeers([]*workv1alpha2.ResourceBinding{p})
	moved := *p
	moved.Spec.Clusters = targets("b=1")
	peers.Put(&moved)
	self := binding(1, "", placed("{}"))
	self.Spec.WorkloadAffinityGroups = p.Spec.WorkloadAffinityGroups
	if got, want := answer(fleet("a; b").Schedule(Request{Binding: self, Peers: peers})), "a=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTriggers(t *testing.T) {
	const divided = "{clusterAffinity: {clusterNames: [a, b]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}"
	const terms = "{clusterAffinities: [{affinityName: near, clusterNames: [a]}, {affinityName: far, clusterNames: [b]}], replicaScheduling: {replicaSchedulingType: Divided}}"
	const otherTerm = "{clusterAffinities: [{affinityName: near, clusterNames: [a]}, {affinityName: far, clusterNames: [c]}], replicaScheduling: {replicaSchedulingType: Divided}}"
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	yes := true
	tests := []struct {
		name       string
		applied    string // YAML of the placement applied before; "-" for none
		wanted     string
		replicas   int32
		current    string
		change     func(*workv1alpha2.ResourceBinding)
		want       Trigger
		wantResult string
	}{
		{"nothing changed", divided, divided, 2, "a=1 b=1", nil, Standing, "a=1 b=1"},
		{"a divided workload does not move to a better place", divided, divided, 2, "a=2", nil, Standing, "a=2"},
		{"never applied", "-", divided, 2, "a=2", nil, PlacementChanged, "a=1 b=1"},
		{"placement changed", "clusterAffinity: {clusterNames: [a]}", divided, 2, "a=2", nil, PlacementChanged, "a=1 b=1"},
		{"tolerations changed", "{clusterAffinity: {clusterNames: [a, b]}, clusterTolerations: [{key: k}], replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}", divided, 2, "a=2", nil, PlacementChanged, "a=1 b=1"},
		{"what was applied cannot be read", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Annotations[AnnotationAppliedPlacement] = "{" }, Standing, "a=2"},
		{"the same in other words", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) {
			b.Annotations[AnnotationAppliedPlacement] = `{"replicaScheduling": {"replicaDivisionPreference": "Weighted", "replicaSchedulingType": "Divided"}, "clusterAffinity": {"clusterNames": ["a", "b"]}, "spreadConstraints": []}`
		}, Standing, "a=2"},
		{"another term changed", otherTerm, terms, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedAffinityName = "near" }, Standing, "a=2"},
		{"the term in force changed", otherTerm, terms, 2, "c=2", func(b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedAffinityName = "far" }, PlacementChanged, "b=2"},
		{"the term in force is gone", otherTerm, terms, 2, "c=2", func(b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedAffinityName = "last" }, PlacementChanged, "a=2"},
		{"a term changed, none is in force", otherTerm, terms, 2, "a=2", nil, PlacementChanged, "a=2"},
		{"replicas changed", divided, divided, 4, "a=1 b=1", nil, ReplicasChanged, "a=2 b=2"},
		{"duplicated replicas changed", "replicaScheduling: {replicaSchedulingType: Duplicated}", "replicaScheduling: {replicaSchedulingType: Duplicated}", 4, "a=1 b=1 c=1", nil, ReplicasChanged, "a=4 b=4 c=4"},
		{"components without targets", divided, divided, 0, "", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Components = []workv1alpha2.Component{{Name: "m", Replicas: 1}}
		}, ReplicasChanged, "a b"},
		{"components with targets", divided, divided, 0, "a", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Components = []workv1alpha2.Component{{Name: "m", Replicas: 1}}
		}, Standing, "a"},
		{"reschedule", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.RescheduleTriggeredAt, b.Status.LastScheduledTime = at(2), at(1)
		}, Rescheduled, "a=1 b=1"},
		{"reschedule was done", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.RescheduleTriggeredAt, b.Status.LastScheduledTime = at(2), at(2)
		}, Standing, "a=2"},
		{"reschedule before the first time", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Spec.RescheduleTriggeredAt = at(2) }, Standing, "a=2"},
		{"duplicated is scheduled always", "{}", "{}", 2, "a=2", nil, Always, "a=2 b=2 c=2"},
		{"so is what has no replicas", divided, divided, 0, "a", func(b *workv1alpha2.ResourceBinding) { configMap(b) }, Always, "a b"},
		{"a target is leaving", divided, divided, 2, "a=1 l=1", nil, ClusterLeaving, "a=1 b=1"},
		{"a target is gone", divided, divided, 2, "a=1 gone=1", nil, ClusterLeaving, "a=1 b=1"},
		{"suspended", "-", divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: &yes} }, Suspended, "a=2"},
		{"another scheduler's", "-", divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = "other" }, OtherScheduler, "a=2"},
		{"ours by name", divided, divided, 2, "a=2", func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = "default-scheduler" }, Standing, "a=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fleet("a; b; c; l leaving")
			b := binding(tt.replicas, tt.current, placed(tt.wanted))
			if tt.applied != "-" {
				b.Annotations = map[string]string{AnnotationAppliedPlacement: f.AppliedPlacement(placed(tt.applied))}
			}
			if tt.change != nil {
				tt.change(b)
			}
			r := f.Schedule(Request{Binding: b})
			if r.Trigger != tt.want || answer(r) != tt.wantResult {
				t.Errorf("got %s and %q, want %s and %q", r.Trigger, answer(r), tt.want, tt.wantResult)
			}
		})
	}
}

func TestAffinityGroupsFallThrough(t *testing.T) {
	const groups = "clusterAffinities: [{affinityName: near, clusterNames: [a]}, {affinityName: far, clusterNames: [b]}, {affinityName: last, clusterNames: [c]}]"
	const roomy = groups + "\nreplicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"
	tests := []struct {
		name      string
		members   string
		placement string
		observed  string
		fresh     bool
		current   string
		want      string
		affinity  string
		tried     string
	}{
		{"the first that fits", "a; b; c", groups, "", false, "", "a=2", "near", ""},
		{"the next if no cluster fits", "a taint=k:NoSchedule; b; c", groups, "", false, "", "b=2", "far", "near:NoClusterFit"},
		{"or there is no room", "a pods=1; b pods=1; c", roomy, "", false, "", "c=2", "last", "near:Unschedulable far:Unschedulable"},
		{"it stays where it went", "a; b; c", groups, "far", false, "b=2", "b=2", "far", ""},
		{"goes on from there", "a; c", groups, "far", false, "b=2", "c=2", "last", "far:NoClusterFit"},
		{"and never back", "a; b", groups, "last", false, "c=2", "NoClusterFit: 0/2 clusters are available: 2 cluster(s) did not match the placement cluster affinity constraint.", "last", "last:NoClusterFit"},
		{"unless rescheduled", "a; b; c", groups, "last", true, "c=2", "a=2", "near", ""},
		{"an unknown name is the beginning", "a; b; c", groups, "unknown", false, "", "a=2", "near", ""},
		{"the first failure counts; a fit error clears", "b pods=1", roomy, "near", false, "a=2", "NoClusterFit: 0/1 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.", "near",
			"near:NoClusterFit far:Unschedulable last:NoClusterFit"},
		{"others keep what is there", "a pods=0; c taint=k:NoSchedule", roomy, "near", false, "a=1", "a=1 Unschedulable: available replicas 0 are not enough for 1", "near",
			"near:Unschedulable far:NoClusterFit last:NoClusterFit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := binding(2, tt.current, placed(tt.placement))
			b.Status.SchedulerObservedAffinityName = tt.observed
			if tt.fresh {
				b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: noon}
				b.Status.LastScheduledTime = &metav1.Time{Time: noon.Add(-time.Hour)}
			}
			r := fleet(tt.members).Schedule(Request{Binding: b})
			var tried []string
			for _, a := range r.Tried {
				tried = append(tried, fmt.Sprintf("%s:%s", a.Affinity, a.Failure))
			}
			if answer(r) != tt.want || r.Affinity != tt.affinity || strings.Join(tried, " ") != tt.tried {
				t.Errorf("got %q, affinity %q, tried %q; want %q, %q, %q", answer(r), r.Affinity, tried, tt.want, tt.affinity, tt.tried)
			}
		})
	}
}

func TestDivision(t *testing.T) {
	with := func(scheduling string) string { return "replicaScheduling: " + strategies[scheduling] }
	requests := func(text string) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) {
			b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: resources(text)}
		}
	}
	fresh := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: noon}
		b.Status.LastScheduledTime = &metav1.Time{Time: noon.Add(-time.Hour)}
	}
	tests := []struct {
		name      string
		members   string
		replicas  int32
		current   string
		placement string
		change    func(*workv1alpha2.ResourceBinding)
		want      string
		zero      string
	}{
		{"no replicaScheduling duplicates", "a; b", 3, "", "{}", nil, "a=3 b=3", ""},
		{"duplicated: by room, then name", "a; b pods=2000; c", 3, "", with("duplicated"), nil, "b=3 a=3 c=3", ""},
		{"duplicated needs no room", "a pods=0", 3, "", with("duplicated"), nil, "a=3", ""},
		{"even", "a; b; c", 7, "", with("even"), nil, "a=3 b=2 c=2", ""},
		{"an odd UID gives the odd replica to the last", "a; b; c", 7, "", with("even"), func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.UID = "b" }, "a=2 b=2 c=3", ""},
		{"an empty replicaScheduling is even", "a; b", 2, "", "replicaScheduling: {}", nil, "a=1 b=1", ""},
		{"static takes the largest weight and leaves others out", "a; b; c", 6, "", with("static"), nil, "a=4 b=2", "c"},
		{"static without any weight is even", "c; d", 4, "", with("static"), nil, "c=2 d=2", ""},
		{"static forgets what was there and needs no room", "a pods=0; b pods=0", 3, "b=2", with("static"), nil, "a=2 b=1", ""},
		{"an empty weight list is even", "a; b", 2, "", "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {}}", nil, "a=1 b=1", ""},
		{"dynamic", "a pods=6; b pods=12; c pods=18", 12, "", with("dynamic"), nil, "a=2 b=4 c=6", ""},
		{"dynamic by requests", "a cpu=3; b cpu=1", 4, "", with("dynamic"), requests("cpu=500m"), "a=3 b=1", ""},
		{"dynamic scales up where room is", "a pods=1; b pods=3", 8, "a=4", with("dynamic"), nil, "a=5 b=3", ""},
		{"dynamic scales down in proportion", "a; b", 3, "a=4 b=2", with("dynamic"), nil, "a=2 b=1", ""},
		{"dynamic fresh", "a pods=1; b pods=5", 6, "a=5 b=1", with("dynamic"), fresh, "a=3 b=3", ""},
		{"dynamic replaces what is lost", "a; b", 4, "a=2 gone=2", with("dynamic"), nil, "a=3 b=1", ""},
		{"not enough room", "a pods=1; b pods=1", 4, "a=1", with("dynamic"), nil, "a=1 Unschedulable: available replicas 2 are not enough for 3", ""},
		{"unknown room is as much as is wanted", "a nostatus; b nostatus", 4, "", with("dynamic"), nil, "a=2 b=2", ""},
		{"aggregated", "a pods=2; b pods=9; c pods=3", 4, "", with("aggregated"), nil, "b=4", ""},
		{"aggregated scales up at home", "a pods=2; b pods=9", 4, "a=2", with("aggregated"), nil, "a=4", ""},
		{"scaled to nothing leaves all members", "a; b", 0, "a=1 b=1", with("dynamic"), requests("cpu=1"), "", "a b"},
		{"duplicated too", "a; b", 0, "a=1 b=1", with("duplicated"), requests("cpu=1"), "", "a b"},
		{"scaled to nothing without requirements is no workload, and goes everywhere", "a; b", 0, "a=1", with("dynamic"), nil, "a b", ""},
		{"fewer replicas than members", "a; b; c", 2, "", with("even"), nil, "a=1 b=1", "c"},
		{"an unknown preference", "a", 2, "a=1", "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Random}", nil,
			`a=1 SchedulerError: replicaDivisionPreference "Random" is not Aggregated or Weighted`, ""},
		{"several components go everywhere whole", "a; b", 0, "", with("dynamic"), func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Components = []workv1alpha2.Component{{Name: "m", Replicas: 1}, {Name: "w", Replicas: 2}}
		}, "a b", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := binding(tt.replicas, tt.current, placed(tt.placement))
			if tt.change != nil {
				tt.change(b)
			}
			r := fleet(tt.members).Schedule(Request{Binding: b})
			if answer(r) != tt.want || strings.Join(r.ZeroReplicas, " ") != tt.zero {
				t.Errorf("got %q and none for %q, want %q and %q", answer(r), r.ZeroReplicas, tt.want, tt.zero)
			}
		})
	}
}

func TestOverflow(t *testing.T) {
	const p = `
clusterAffinities: [{affinityName: x, clusterNames: [a, b], overflowAffinities: [{affinityName: o, clusterNames: [b, c]}, {affinityName: p, clusterNames: [d]}]}]
replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}`
	tests := []struct {
		name     string
		replicas int32
		current  string
		want     string
	}{
		{"the first tier suffices", 4, "", "a=2 b=2"},
		{"the second takes what is left", 12, "", "a=5 b=5 c=2"},
		{"and the third", 16, "", "a=5 b=5 c=5 d=1"},
		{"not enough in any", 30, "c=1", "c=1 Unschedulable: available replicas 21 are not enough for 30"},
		{"scaling down empties the last tiers first", 6, "a=2 b=2 c=2 d=2", "a=3 b=3"},
		{"replicas return to earlier tiers", 5, "c=4", "a=3 b=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := answer(fleet("a pods=5; b pods=5; c pods=5; d pods=5").Schedule(Request{Binding: binding(tt.replicas, tt.current, placed(p))})); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got, want := answer(fleet("a; b; c; d").Schedule(Request{Binding: configMap(binding(0, "", placed(p)))})), "a b"; got != want {
		t.Errorf("without replicas: got %q, want %q", got, want)
	}
}

func TestScalingDownTakesNothingFromTheUnhealthy(t *testing.T) {
	tests := []struct {
		name      string
		strategy  string
		replicas  int32
		current   string
		unhealthy string
		fresh     bool
		want      string
	}{
		{"the others shrink", "dynamic", 4, "a=2 b=2 c=2", "b", false, "a=1 b=2 c=1"},
		{"static too", "static", 4, "a=3 b=3", "b", false, "a=1 b=3"},
		{"aggregated too", "aggregated", 3, "a=1 b=4 c=2", "c", false, "b=1 c=2"},
		{"as in Karmada if nothing would be left for healthy ones", "dynamic", 2, "a=2 b=2 c=2", "b", false, "a=1 b=1"},
		{"growing is not touched", "dynamic", 8, "a=2 b=2 c=2", "b", false, "a=3 b=3 c=2"},
		{"nor is a reschedule", "dynamic", 4, "a=2 b=2 c=2", "b", true, "a=2 b=1 c=1"},
		{"nor one that has nothing", "dynamic", 3, "a=2 c=2", "b", false, "a=2 c=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := binding(tt.replicas, tt.current, placed("replicaScheduling: "+strategies[tt.strategy]))
			if tt.fresh {
				b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: noon}
				b.Status.LastScheduledTime = &metav1.Time{Time: noon.Add(-time.Hour)}
			}
			if got := answer(fleet("a; b; c").Schedule(Request{Binding: b, Unhealthy: map[string]bool{tt.unhealthy: true}})); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestComponentsGoToOneClusterAllTogether(t *testing.T) {
	b := binding(0, "", placed("{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}"))
	b.Spec.Components = []workv1alpha2.Component{
		{Name: "manager", Replicas: 1, ReplicaRequirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: resources("cpu=1")}},
		{Name: "worker", Replicas: 2, ReplicaRequirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: resources("cpu=2")}},
	}
	for _, tt := range []struct{ members, want string }{
		{"a cpu=4; b cpu=5", "b(manager=1)(worker=2)"},
		{"a cpu=4; b cpu=4", "SchedulerError: no 1 clusters have room for 1 replicas: 0 at most"},
		{"a nostatus; b cpu=4", "a(manager=1)(worker=2)"},
		{"a cpu=50 pods=2; b cpu=5 pods=3", "b(manager=1)(worker=2)"},
	} {
		if got := answer(fleet(tt.members).Schedule(Request{Binding: b})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.members, got, tt.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	f := fleet("a pods=9; b pods=4; c taint=k:NoSchedule; d pods=1; e pods=2")
	b := binding(3, "b=1", placed("{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 3}], replicaScheduling: "+strategies["dynamic"]+"}"))
	got := f.Schedule(Request{Binding: b, Explain: true})
	want := []Verdict{
		{Cluster: "a", Outcome: Chosen, Message: "number 2 of 4 candidates", Replicas: 1, Rank: 2, Available: 9},
		{Cluster: "b", Outcome: Kept, Message: "number 1 of 4 candidates, as it runs there already", Target: true, Before: 1, Replicas: 2, Rank: 1, Score: 100, Available: 5},
		{Cluster: "c", Outcome: Refused, Rule: "TaintToleration", Message: "taint k:NoSchedule is not tolerated"},
		{Cluster: "d", Outcome: PassedOver, Rule: "SpreadConstraint", Message: "3 of 4 candidates were selected; it is number 4 (score 0, available 1)", Rank: 4, Available: 1},
		{Cluster: "e", Outcome: Dropped, Rule: "ReplicaScheduling", Message: "selected, but it gets none of 3 replicas (available 2)", Rank: 3, Available: 2},
	}
	details := cmpopts.IgnoreFields(Verdict{}, "Scores", "Estimate")
	if diff := cmp.Diff(want, got.Verdicts, details); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if plain := f.Schedule(Request{Binding: b}); plain.Reasons != nil || answer(plain) != answer(got) {
		t.Errorf("without explanation: %q and %v, with: %q", answer(plain), plain.Reasons, answer(got))
	}

	got = f.Schedule(Request{Binding: stored(f, b, got), Explain: true})
	var lines []string
	for _, v := range got.Verdicts {
		lines = append(lines, fmt.Sprintf("%s %s %s", v.Cluster, v.Outcome, v.Message))
	}
	wantLines := []string{"a kept nothing asks for a new decision", "b kept nothing asks for a new decision", "c refused taint k:NoSchedule is not tolerated", "d passed over nothing asks for a new decision", "e passed over nothing asks for a new decision"}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("a result that stands: -want +got:\n%s", diff)
	}
}

func TestVerdictsOfAFailure(t *testing.T) {
	b := binding(9, "b=1", placed("replicaScheduling: "+strategies["dynamic"]))
	got := fleet("a pods=2; b pods=1; c noapis").Schedule(Request{Binding: b, Explain: true}).Verdicts
	const short = "available replicas 3 are not enough for 8"
	want := []Verdict{
		{Cluster: "a", Outcome: PassedOver, Rule: "ReplicaScheduling", Message: short, Rank: 2, Available: 2},
		{Cluster: "b", Outcome: Kept, Rule: "ReplicaScheduling", Message: short, Target: true, Before: 1, Replicas: 1, Rank: 1, Score: 100, Available: 2},
		{Cluster: "c", Outcome: Refused, Rule: "APIEnablement", Message: "the cluster's API resources are not known"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Verdict{}, "Scores", "Estimate")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestVerdictsNameGroupsAndTiers(t *testing.T) {
	line := func(v Verdict) string {
		return fmt.Sprintf("%s %s tier %d: %s", v.Cluster, v.Outcome, v.Tier, v.Message)
	}
	b := binding(1, "", placed("spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: zone, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}]"))
	verdicts := fleet("a region=eu zone=x; b region=eu zone=y; c region=us zone=z").Schedule(Request{Binding: b, Explain: true}).Verdicts
	if got, want := line(verdicts[2]), "c passed over tier 0: 2 of 3 candidates were selected in region eu and zone x, y; it is number 3 (score 0, available 1000)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b = binding(4, "a=3 b=3", placed("clusterAffinities: [{affinityName: near, clusterNames: [a], overflowAffinities: [{affinityName: over, clusterNames: [b]}]}]\nreplicaScheduling: "+strategies["dynamic"]))
	verdicts = fleet("a pods=0; b").Schedule(Request{Binding: b, Explain: true, Unhealthy: map[string]bool{"b": true}}).Verdicts
	if got, want := line(verdicts[1]), "b kept tier 1: the workload is not healthy there; scaling down takes nothing from it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoPlacementIsEverywhere(t *testing.T) {
	f := fleet("a; b")
	b := binding(1, "", nil)
	first := f.Schedule(Request{Binding: b})
	if got, want := answer(first), "a=1 b=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if second := f.Schedule(Request{Binding: stored(f, b, first)}); second.Trigger != Always {
		t.Errorf("looked at again, the trigger is %s, want %s", second.Trigger, Always)
	}
}
