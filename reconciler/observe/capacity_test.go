package observe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// fromYAML reads short YAML as the type it is for.
func fromYAML[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// node writes a node: ready, with so much to give.
func node(name, allocatable string) string {
	return fmt.Sprintf(`{metadata: {name: %s}, status: {allocatable: {%s}, conditions: [{type: MemoryPressure, status: "False"}, {type: Ready, status: "True"}]}}`, name, allocatable)
}

// pod writes a pod on a node, with one container that asks for so much.
func pod(node, phase, requests string) string {
	return fmt.Sprintf(`{spec: {nodeName: %q, containers: [{resources: {requests: {%s}}}]}, status: {phase: %s}}`, node, requests, phase)
}

// twoByFour is a part of the grades Karmada has by default.
const twoByFour = `
- {grade: 0, ranges: [{name: cpu, min: 0, max: 1}, {name: memory, min: 0, max: 4Gi}]}
- {grade: 1, ranges: [{name: cpu, min: 1, max: 2}, {name: memory, min: 4Gi, max: 16Gi}]}
- {grade: 2, ranges: [{name: cpu, min: 2, max: "9223372036854775807"}, {name: memory, min: 16Gi, max: "9223372036854775807"}]}`

func TestCapacity(t *testing.T) {
	large := node("n", "cpu: 8, memory: 32Gi, pods: 10")
	for _, tt := range []struct {
		name        string
		nodes, pods []string
		models      string
		ready       int32
		want        string // of the ResourceSummary
	}{
		{"nothing", nil, nil, "", 0, "{}"},
		{"all nodes count, also those that are not ready", []string{
			node("a", "cpu: 1500m, memory: 1Gi, pods: 110, example.org/gpu: 2"), node("b", "cpu: 2, memory: 1Gi, pods: 110"),
			`{metadata: {name: c}, status: {allocatable: {cpu: 500m}, conditions: [{type: Ready, status: Unknown}]}}`,
		}, nil, "", 2, "allocatable: {cpu: 4, memory: 2Gi, pods: 220, example.org/gpu: 2}"},
		{"pods on nodes are allocated, those without allocating", []string{large}, []string{
			pod("n", "Running", "cpu: 100m, memory: 1Gi"), pod("n", "Pending", "cpu: 1"), pod("gone", "Unknown", ""), pod("", "Pending", "cpu: 250m"), pod("", "Pending", ""),
		}, "", 1, "{allocatable: {cpu: 8, memory: 32Gi, pods: 10}, allocated: {cpu: 1100m, memory: 1Gi, pods: 3}, allocating: {cpu: 250m, pods: 2}}"},
		{"finished pods ask for nothing", nil, []string{pod("n", "Succeeded", "cpu: 1"), pod("n", "Failed", "cpu: 1")}, "", 0, "{}"},
		{"init containers raise, overhead adds", nil, []string{`{spec: {nodeName: n, overhead: {memory: 10Mi},
			containers: [{resources: {requests: {cpu: 1, memory: 100Mi}}}, {resources: {requests: {cpu: 500m}}}, {}],
			initContainers: [{resources: {requests: {cpu: 1, memory: 300Mi}}}, {resources: {requests: {memory: 200Mi, example.org/gpu: 1}}}]}}`},
			"", 0, "allocated: {cpu: 1500m, memory: 310Mi, example.org/gpu: 1, pods: 1}"},
		{"the lowest grade over the resources is the node's", []string{node("a", "cpu: 64, memory: 4Gi, pods: 1"), node("b", "cpu: 1, memory: 64Gi, pods: 1"), node("c", "cpu: 2, memory: 16Gi, pods: 1")}, nil, twoByFour, 3,
			"{allocatable: {cpu: 67, memory: 84Gi, pods: 3}, allocatableModelings: [{grade: 0, count: 0}, {grade: 1, count: 2}, {grade: 2, count: 1}]}"},
		{"what pods ask for is not free", []string{node("a", "cpu: 2, memory: 16Gi, pods: 3")}, []string{pod("a", "Running", "cpu: 1m"), pod("a", "Failed", "cpu: 2"), pod("", "Pending", "cpu: 2")}, twoByFour, 1,
			"{allocatable: {cpu: 2, memory: 16Gi, pods: 3}, allocated: {cpu: 1m, pods: 1}, allocating: {cpu: 2, pods: 1}, allocatableModelings: [{grade: 0, count: 0}, {grade: 1, count: 1}, {grade: 2, count: 0}]}"},
		{"a resource the node lacks is grade 0", []string{node("a", "cpu: 2, pods: 3")}, nil, twoByFour, 1,
			"{allocatable: {cpu: 2, pods: 3}, allocatableModelings: [{grade: 0, count: 1}, {grade: 1, count: 0}, {grade: 2, count: 0}]}"},
		{"a full node is left out, those after it are not", []string{node("a", "cpu: 2, memory: 16Gi, pods: 1"), node("b", "cpu: 2, memory: 16Gi, pods: 1")}, []string{pod("a", "Running", "")}, twoByFour, 2,
			"{allocatable: {cpu: 4, memory: 32Gi, pods: 2}, allocated: {pods: 1}, allocatableModelings: [{grade: 0, count: 0}, {grade: 1, count: 0}, {grade: 2, count: 1}]}"},
		{"a node that gave more than it has is of no grade", []string{node("a", "cpu: 2, memory: 16Gi, pods: 9")}, []string{pod("a", "Running", "cpu: 3")}, twoByFour, 1,
			"{allocatable: {cpu: 2, memory: 16Gi, pods: 9}, allocated: {cpu: 3, pods: 1}, allocatableModelings: [{grade: 0, count: 0}, {grade: 1, count: 0}, {grade: 2, count: 0}]}"},
		{"models come in any order", []string{large}, nil, "[{grade: 7, ranges: [{name: pods, min: 5, max: 20}]}, {grade: 3, ranges: [{name: pods, min: 0, max: 5}]}]", 1,
			"{allocatable: {cpu: 8, memory: 32Gi, pods: 10}, allocatableModelings: [{grade: 3, count: 0}, {grade: 7, count: 1}]}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []Node
			for _, text := range tt.nodes {
				nodes = append(nodes, fromYAML[Node](t, text))
			}
			used := Usage{}
			for _, text := range tt.pods {
				p := fromYAML[Pod](t, text)
				used.Add(&p)
			}
			models := fromYAML[[]clusterv1alpha1.ResourceModel](t, tt.models)
			want := fromYAML[clusterv1alpha1.ResourceSummary](t, tt.want)
			for range 2 { // the first time changes nothing that the second one takes
				summary, resources := Capacity(nodes, used, models)
				if want := (clusterv1alpha1.NodeSummary{TotalNum: int32(len(nodes)), ReadyNum: tt.ready}); summary != want {
					t.Errorf("nodes %+v, want %+v", summary, want)
				}
				if !equality.Semantic.DeepEqual(resources, want) {
					t.Error(cmp.Diff(want, resources))
				}
			}
		})
	}
}

// Whoever counts node by node and resource by resource, as Karmada's text says, comes to the same.
func TestGradeIsTheLowestOverTheResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grades := rapid.IntRange(1, 5).Draw(t, "grades")
		mins := map[string][]int{}
		var models []clusterv1alpha1.ResourceModel
		for _, name := range []string{"cpu", "memory"} {
			mins[name] = slices.Insert(slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.IntRange(1, 30), grades-1, grades-1, rapid.ID).Draw(t, name))), 0, 0)
		}
		for g := range grades {
			models = append(models, fromYAMLRapid(t, fmt.Sprintf(`{grade: %d, ranges: [{name: cpu, min: %d}, {name: memory, min: %d}]}`, g, mins["cpu"][g], mins["memory"][g])))
		}
		free := map[string]int{"cpu": rapid.IntRange(0, 35).Draw(t, "free cpu"), "memory": rapid.IntRange(0, 35).Draw(t, "free memory")}
		want := grades
		for name, list := range mins {
			last := 0
			for g, least := range list {
				if least <= free[name] {
					last = g
				}
			}
			want = min(want, last)
		}
		var n Node
		if err := yaml.Unmarshal([]byte(node("n", fmt.Sprintf("cpu: %d, memory: %d, pods: 1", free["cpu"], free["memory"]))), &n); err != nil {
			t.Fatal(err)
		}
		if got := gradeOf(&n, nil, models); got != want {
			t.Fatalf("grade %d, want %d", got, want)
		}
	})
}

func fromYAMLRapid(t *rapid.T, text string) (m clusterv1alpha1.ResourceModel) {
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestInventoryGoesThroughThePages(t *testing.T) {
	server := membertest.Start(t, "m1")
	client, err := discovery.NewDiscoveryClientForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	const pods = pageSize + 1
	for i := range pods {
		o := api.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("p", i)}, "spec": map[string]any{
			"nodeName": "m1-node", "containers": []any{map[string]any{"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "10m"}}}}}}
		if _, err := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var asked []url.Values
	server.Intercept(func(r *http.Request) *metav1.Status {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Query())
		return nil
	})
	nodes, used, err := Inventory(t.Context(), client.RESTClient())
	if err != nil {
		t.Fatal(err)
	}
	summary, resources := Capacity(nodes, used, nil)
	want := fromYAML[clusterv1alpha1.ResourceSummary](t, fmt.Sprintf("{allocatable: {cpu: 64, memory: 256Gi, pods: 1000}, allocated: {cpu: %dm, pods: %d}}", 10*pods, pods))
	if summary != (clusterv1alpha1.NodeSummary{TotalNum: 1, ReadyNum: 1}) || !equality.Semantic.DeepEqual(resources, want) {
		t.Errorf("%+v %s", summary, cmp.Diff(want, resources))
	}
	if len(asked) != 3 {
		t.Fatalf("asked %v", asked)
	}
	for i, q := range asked { // nodes, pods, more pods; a token and a version together are refused by API servers
		if later := i == 2; q.Get("limit") == "" || q.Has("continue") != later || (q.Get("resourceVersion") == "0") == later {
			t.Errorf("request %d asks %v", i, q)
		}
	}

	for name, refuse := range map[string]string{"nodes": "/api/v1/nodes", "pods": "/api/v1/pods"} {
		server.Intercept(func(r *http.Request) *metav1.Status {
			if r.URL.Path != refuse {
				return nil
			}
			status := apierrors.NewForbidden(schema.GroupResource{Resource: name}, "", nil).Status()
			return &status
		})
		if _, _, err := Inventory(t.Context(), client.RESTClient()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "list "+name) {
			t.Errorf("%s refused: %v", name, err)
		}
	}
	server.Intercept(nil)
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if nodes, used, err := Inventory(ctx, client.RESTClient()); err == nil {
		t.Errorf("a frozen member has %v %v", nodes, used)
	}
}

const podList = `{"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "abc"}, "items": [
	{"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"nodeName": "n", "volumes": null}}, {"spec": {"nodeName": "m"}}], "more": [1, {"items": 2}]}`

func decodeNames(text string) (string, error) {
	var names []string
	next, err := decodeList(strings.NewReader(text), func(p *Pod) { names = append(names, p.Spec.NodeName) })
	return fmt.Sprint(names, next), err
}

func TestDecodeList(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{podList, "[n m]abc"},
		{`{"items": [], "metadata": {}}`, "[]"},
		{`{"items": null}`, "[]"},
	} {
		if got, err := decodeNames(tt.text); got != tt.want || err != nil {
			t.Errorf("decodeList(%s) = %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{``, `null`, `{}`, `[]`, `<html>`, `{"kind": "Status"}`, `{"items": {}}`, `{"items": [1]}`, `{"items": [{"spec": {"overhead": {"cpu": "much"}}}]}`, `{"items": [{"spec": {"overhead": {"cpu": "1e-99999999"}}}]}`} {
		if got, err := decodeNames(text); err == nil {
			t.Errorf("decodeList(%s) = %s", text, got)
		}
	}
}

func TestAnswerThatIsCutOffIsAnError(t *testing.T) {
	for n := range len(podList) {
		if got, err := decodeNames(podList[:n]); err == nil {
			t.Errorf("decodeList(%s) = %s", podList[:n], got)
		}
	}
}

func FuzzDecodeList(f *testing.F) {
	f.Add(podList)
	f.Add(`{"items": [{"spec": {"containers": [{"resources": {"requests": {"cpu": "1e3"}}}]}}]}`)
	f.Add(`{"items": [{"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"allocatable": {"cpu": "1500m", "pods": 3}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		used := Usage{}
		if _, err := decodeList(strings.NewReader(text), used.Add); err == nil {
			Capacity(nil, used, nil)
		}
		var nodes []Node
		if _, err := decodeList(strings.NewReader(text), func(n *Node) { nodes = append(nodes, *n) }); err == nil {
			NodeCapacity(nodes, used)
		}
	})
}

// A large member: the memory does not grow with the number of pods.
func BenchmarkDecodePods(b *testing.B) {
	items := make([]string, 10000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"metadata": {"name": "p%d", "labels": {"app": "web"}, "managedFields": [%s{}]}, "spec": {"nodeName": "n%d", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}]}, "status": {"phase": "Running"}}`,
			i, strings.Repeat(`{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": {}}}},`, 30), i%100)
	}
	text := `{"items": [` + strings.Join(items, ",") + `]}`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeList(strings.NewReader(text), Usage{}.Add); err != nil {
			b.Fatal(err)
		}
	}
}
