package member

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// measuring is a world that measures often, with no members started yet.
func measuring(t *testing.T, names ...string) *world {
	w := newWorld(t, names...)
	w.options.CapacityInterval = time.Millisecond // with every probe, that is
	w.start()
	return w
}

var podID = api.ID{Version: "v1", Kind: "Pod", Namespace: "default"}

// pod makes a pod on a member; an empty node has it wait for one.
func (w *world) pod(member, name, node, cpu string) {
	w.Helper()
	o := workOf(w, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: %q, containers: [{name: c, image: i, resources: {requests: {cpu: %s}}}]}}`, name, node, cpu)).Object
	if _, err := w.client(member, podID).Create(w.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// empty is the capacity of a member without pods.
const empty = "1/1 nodes, 64000/1000, 0/0, 0/0"

// capacity waits until the capacity of a member is so: nodes that are ready of all; CPU in
// thousandths and pods, allocatable, allocated, allocating; nodes by grade.
func (w *world) capacity(member, want string) {
	w.Helper()
	w.eventually("the capacity of "+member+" is "+want, func(seen decide.Observations) bool { return capacityOf(seen.Members[member]) == want })
}

func capacityOf(m decide.MemberFacts) string {
	if m.Nodes == nil || m.Resources == nil {
		return "unknown"
	}
	r, s := m.Resources, fmt.Sprintf("%d/%d nodes", m.Nodes.ReadyNum, m.Nodes.TotalNum)
	for _, l := range []corev1.ResourceList{r.Allocatable, r.Allocated, r.Allocating} {
		s += fmt.Sprintf(", %d/%d", l.Cpu().MilliValue(), l.Pods().Value())
	}
	for _, m := range r.AllocatableModelings {
		s += fmt.Sprintf(" %d:%d", m.Grade, m.Count)
	}
	return s
}

// listed makes a channel of the lists of a kind that a member is asked for; answer, which may be nil, is what it answers.
func (w *world) listed(member, kind string, answer func() *metav1.Status) <-chan struct{} {
	asked := make(chan struct{}, 1000)
	w.servers[member].Intercept(func(r *http.Request) *metav1.Status {
		if r.URL.Path != "/api/v1/"+kind {
			return nil
		}
		asked <- struct{}{}
		if answer == nil {
			return nil
		}
		return answer()
	})
	return asked
}

// again waits for so many more lists.
func (w *world) again(lists <-chan struct{}, n int) {
	w.Helper()
	for len(lists) > 0 {
		<-lists
	}
	for range n {
		select {
		case <-lists:
		case <-time.After(20 * time.Second):
			w.Fatal("not listed again")
		}
	}
}

func TestCapacityIsMeasured(t *testing.T) {
	w := measuring(t, "kube02")
	w.pod("kube02", "a", "kube02-node", "1500m")
	w.pod("kube02", "b", "", "250m")
	w.fleet.Set(w.desired)
	w.capacity("kube02", "1/1 nodes, 64000/1000, 1500/1, 250/1")
	before := w.fleet.Observe().Members["kube02"]
	w.pod("kube02", "c", "kube02-node", "60")
	w.capacity("kube02", "1/1 nodes, 64000/1000, 61500/2, 250/1")
	if _, err := w.client("kube02", podID).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	w.capacity("kube02", "1/1 nodes, 64000/1000, 60000/1, 250/1")
	if got, want := capacityOf(before), "1/1 nodes, 64000/1000, 1500/1, 250/1"; got != want {
		t.Errorf("what was handed out changed to %s", got)
	}

	// Models come with the Cluster manifest.
	modelled := cluster("kube02")
	if err := yaml.Unmarshal([]byte(`[{grade: 0, ranges: [{name: cpu, min: 0, max: 4}]}, {grade: 1, ranges: [{name: cpu, min: 4, max: 5}]}, {grade: 2, ranges: [{name: cpu, min: 5, max: 6}]}]`), &modelled.Spec.ResourceModels); err != nil {
		t.Fatal(err)
	}
	w.fleet.Set(map[string]Desired{"kube02": {Cluster: modelled}})
	w.capacity("kube02", "1/1 nodes, 64000/1000, 60000/1, 250/1 0:0 1:1 2:0")
	w.fleet.Set(w.desired)
	w.capacity("kube02", "1/1 nodes, 64000/1000, 60000/1, 250/1")
}

func TestCapacityIsMeasuredInItsOwnTime(t *testing.T) {
	w := newWorld(t, "kube02")
	w.options.CapacityInterval = time.Hour
	w.start()
	var lists, probes atomic.Int64
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		switch r.URL.Path {
		case "/api/v1/nodes", "/api/v1/pods":
			lists.Add(1)
		case "/readyz":
			probes.Add(1)
		}
		return nil
	})
	w.fleet.Set(w.desired)
	w.capacity("kube02", empty)
	n := probes.Load()
	w.eventually("more probes", func(decide.Observations) bool { return probes.Load() > n+3 })
	if n := lists.Load(); n != 2 {
		t.Errorf("%d lists, want one of nodes and one of pods", n)
	}
	// Other models, and other credentials, are a reason to look.
	modelled := cluster("kube02")
	modelled.Spec.ResourceModels = []clusterv1alpha1.ResourceModel{{Grade: 3}}
	w.fleet.Set(map[string]Desired{"kube02": {Cluster: modelled}})
	w.capacity("kube02", "1/1 nodes, 64000/1000, 0/0, 0/0 3:1")
	w.lookup.set("kube02", w.servers["kube02"].RestConfig())
	w.eventually("it is measured over the new link", func(decide.Observations) bool { return lists.Load() == 6 })
}

func TestOnlyAChangeOfCapacityIsTold(t *testing.T) {
	w := measuring(t, "kube02")
	lists := w.listed("kube02", "pods", nil)
	w.want("kube02")
	w.capacity("kube02", empty)
	w.again(lists, 2)
	select { // what was told before
	case <-w.fleet.Changed():
	default:
	}
	w.again(lists, 4)
	select {
	case <-w.fleet.Changed():
		t.Error("told, though nothing changed")
	default:
	}
	w.pod("kube02", "a", "", "1")
	select {
	case <-w.fleet.Changed():
	case <-time.After(20 * time.Second):
		t.Error("a change is not told")
	}
}

func TestWhoMayNotListHasNoCapacityAndAllElse(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil).Status()
	for _, kind := range []string{"nodes", "pods"} {
		t.Run(kind, func(t *testing.T) {
			w := measuring(t, "kube02")
			lists := w.listed("kube02", kind, func() *metav1.Status { return &refused })
			w.want("kube02", configMap(t, "settings", "1"))
			w.applied("kube02")
			w.again(lists, 2)
			if m := w.fleet.Observe().Members["kube02"]; m.Ready != metav1.ConditionTrue || capacityOf(m) != "unknown" {
				t.Errorf("%s %s, capacity %s", m.Ready, m.Message, capacityOf(m))
			}
			w.servers["kube02"].Intercept(nil)
			w.capacity("kube02", empty)
			lists = w.listed("kube02", kind, func() *metav1.Status { return &refused })
			w.pod("kube02", "a", "", "1")
			w.again(lists, 3)
			if got := capacityOf(w.fleet.Observe().Members["kube02"]); got != empty {
				t.Errorf("capacity %s, want the last one", got)
			}
		})
	}
}

func TestMeasuringDelaysNothing(t *testing.T) {
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	busy := apierrors.NewTooManyRequests("slow down", 3600).Status()
	for name, answer := range map[string]func() *metav1.Status{
		"slow": func() *metav1.Status { <-held; return nil },
		"busy": func() *metav1.Status { return &busy },
	} {
		t.Run(name, func(t *testing.T) {
			w := measuring(t, "kube02")
			if name == "slow" {
				t.Cleanup(release)
			}
			w.options.RequestTimeout = time.Hour // nothing but the answer ends a list
			w.start()
			lists := w.listed("kube02", "pods", answer)
			w.fleet.Set(w.desired)
			<-lists
			w.want("kube02", configMap(t, "settings", "1"), deployment(t, "web", 2))
			w.applied("kube02")
			w.servers["kube02"].SetNotReady(true)
			w.eventually("the probe says so", func(seen decide.Observations) bool { return seen.Members["kube02"].Ready == metav1.ConditionFalse })
			if got := capacityOf(w.fleet.Observe().Members["kube02"]); got != "unknown" {
				t.Errorf("capacity %s", got)
			}
			if name == "slow" {
				w.servers["kube02"].SetNotReady(false)
				release()
				w.capacity("kube02", empty)
			}
		})
	}
}

func TestCapacityOfAnotherClusterIsNotTaken(t *testing.T) {
	w := measuring(t, "kube02", "other")
	w.pod("kube02", "a", "", "1")
	w.fleet.Set(w.desired)
	w.capacity("kube02", "1/1 nodes, 64000/1000, 0/0, 1000/1")
	begun, held := make(chan struct{}, 1000), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.URL.Path == "/api/v1/nodes" {
			begun <- struct{}{}
			<-held
		}
		return nil
	})
	<-begun // a list of the one is under way
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil).Status()
	lists := w.listed("other", "nodes", func() *metav1.Status { return &refused })
	w.lookup.set("kube02", w.servers["other"].RestConfig())
	w.capacity("kube02", "unknown")
	release()
	w.again(lists, 2)
	if got := capacityOf(w.fleet.Observe().Members["kube02"]); got != "unknown" {
		t.Errorf("capacity %s is another's", got)
	}
	w.servers["other"].Intercept(nil)
	w.capacity("kube02", empty)
}

func TestSingleNodesAreMeasuredIfAskedFor(t *testing.T) {
	text := func(seen decide.Observations) string {
		c := seen.Members["kube02"].NodeCapacity
		if c == nil {
			return "unknown"
		}
		s := ""
		for _, p := range c.Pools {
			for _, g := range p.Nodes {
				s += fmt.Sprintf("%d nodes %v with %s CPU %s pods;", g.Count, p.Labels, g.Free.Cpu(), g.Free.Pods())
			}
		}
		return s
	}
	w := measuring(t, "kube02")
	w.fleet.Set(w.desired)
	w.capacity("kube02", empty)
	if got := text(w.fleet.Observe()); got != "unknown" {
		t.Errorf("not asked for, and it is %s", got)
	}
	w = newWorld(t, "kube02")
	w.options.CapacityInterval, w.options.AccurateEstimator = time.Millisecond, true
	w.start()
	w.fleet.Set(w.desired)
	node := "1 nodes map[kubernetes.io/hostname:kube02-node] with "
	w.eventually("the node is empty", func(seen decide.Observations) bool { return text(seen) == node+"64 CPU 1k pods;" })
	w.pod("kube02", "a", "kube02-node", "1500m")
	w.eventually("a pod is on it", func(seen decide.Observations) bool { return text(seen) == node+"62500m CPU 999 pods;" })
	// A label changes nothing else that is measured.
	nodes := w.client("kube02", api.ID{Version: "v1", Kind: "Node"})
	if _, err := nodes.Patch(t.Context(), "kube02-node", types.MergePatchType, []byte(`{"metadata": {"labels": {"disk": "ssd"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("it has a label", func(seen decide.Observations) bool {
		return text(seen) == "1 nodes map[disk:ssd kubernetes.io/hostname:kube02-node] with 62500m CPU 999 pods;"
	})
}
