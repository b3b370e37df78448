package pull

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

// deployed is a live Deployment with what servers add.
func deployed(name string, replicas, ready int64) api.Object {
	return api.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": name, "namespace": "default", "uid": "u", "generation": int64(2), "resourceVersion": "17",
			"annotations": map[string]any{"note": "hunter2"},
		},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"env": []any{map[string]any{"name": "PASSWORD", "value": "hunter2"}}}}}},
		},
		"status": map[string]any{"observedGeneration": int64(2), "replicas": replicas, "updatedReplicas": ready, "availableReplicas": ready, "readyReplicas": ready},
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	words := rapid.SampledFrom([]string{"", "Conflict", "NotOurs"})
	rapid.Check(t, func(t *rapid.T) {
		facts := decide.MemberFacts{
			Ready: rapid.SampledFrom(states).Draw(t, "ready"), Reason: words.Draw(t, "reason"), Message: rapid.StringMatching(`[ -~ä]{0,40}`).Draw(t, "message"),
			UID: "uid", Version: "v1.36.1", APIsComplete: rapid.Bool().Draw(t, "complete"),
			Copies: map[api.ID]decide.CopyFacts{},
		}
		if rapid.Bool().Draw(t, "measured") {
			facts.Nodes = &clusterv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 2}
			facts.Resources = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7500m")}}
			facts.APIs = []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}}
			facts.Namespaced = map[string]bool{"/ConfigMap": true, "/Namespace": false}
		}
		orders := map[api.ID]Retired{}
		for i := range rapid.IntRange(0, 5).Draw(t, "copies") {
			id := api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: fmt.Sprint("d", i)}
			c := decide.CopyFacts{Reason: words.Draw(t, "why"), Message: "m"}
			switch rapid.IntRange(0, 2).Draw(t, "state") {
			case 0:
				c.Applied, c.Live = strings.Repeat("a", 40), deployed(id.Name, int64(i), 1)
			case 1:
				c.Gone = true
				orders[id] = Retired{ID: id, Since: int64(100 + i)}
			}
			facts.Copies[id] = c
		}
		r := reportOf("far", facts, orders)
		r.Time, r.Version, r.State = time.Unix(1e9, 0).UTC(), "v0.1.0+dirty", "0123456789abcdef0123456789abcdef01234567"
		files, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(treeOf(files), "far", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(r, &got.Report); diff != "" {
			t.Fatalf("it comes back as another (-want +got):\n%s", diff)
		}
		again, err := decode(treeOf(files), "far", got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(got.Report, again.Report); diff != "" {
			t.Fatalf("after an earlier one it is another:\n%s", diff)
		}
		if !same(got, again) {
			t.Fatal("an equal report is taken for news")
		}
	})
}

// No value that somebody put into an object leaves the member, and what is told gives the same health.
func TestWhatIsToldOfAnObject(t *testing.T) {
	for _, o := range []api.Object{
		deployed("web", 2, 2), deployed("web", 2, 1),
		{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "data": map[string]any{"k": "hunter2"}, "stringData": map[string]any{"k": "hunter2"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"k": "hunter2"}, "binaryData": map[string]any{"k": "hunter2"}},
		{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s"}, "spec": map[string]any{"type": "LoadBalancer"}, "status": map[string]any{"loadBalancer": map[string]any{}}},
	} {
		told, health := tell(o)
		if text := fmt.Sprint(told); strings.Contains(text, "hunter2") || health != "" {
			t.Errorf("%s %s", text, health)
		}
		was, _ := builtIn.Health(o)
		if is, _ := builtIn.Health(told); is != was {
			t.Errorf("%v is %s here and %s there", told, was, is)
		}
	}
	large := deployed("web", 2, 1)
	large["status"].(map[string]any)["note"] = strings.Repeat("x", maxLive)
	if told, health := tell(large); told != nil || health != workv1alpha2.ResourceUnhealthy {
		t.Errorf("a large object is told as %d fields, %s", len(told), health)
	}
	if told, health := tell(nil); told != nil || health != "" {
		t.Errorf("nothing is told as %v, %s", told, health)
	}
}

func TestALongReportIsCut(t *testing.T) {
	facts := decide.MemberFacts{
		Ready: metav1.ConditionTrue, Message: strings.Repeat("ä", maxMessage),
		Nodes: &clusterv1alpha1.NodeSummary{}, Resources: &clusterv1alpha1.ResourceSummary{}, NodeCapacity: &clusterv1alpha1.NodeCapacity{},
	}
	for i := range 5000 {
		facts.NodeCapacity.Pools = append(facts.NodeCapacity.Pools, clusterv1alpha1.NodePool{Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("a-node-with-a-name-of-its-own-%d", i)}})
	}
	r := reportOf("far", facts, nil)
	files, err := r.encode()
	check(t, err)
	got, err := decode(treeOf(files), "far", nil)
	check(t, err)
	want(t, "single nodes are told", got.NodeCapacity != nil, false)
	want(t, "the sum is", got.Nodes != nil, true)
}

func TestNamesOfFilesAreThoseOfWorks(t *testing.T) {
	for path, id := range map[string]api.ID{
		"copies/default/deployment.apps_web.json": {Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "web"},
		"copies/_cluster/namespace_a%2f.json":     {Kind: "Namespace", Name: "a/"},
	} {
		want(t, id.String(), copyPath(id), path)
	}
}

// Whatever an agent pushes is a report, or an error: nothing panics, and nothing is in it that has not its form.
func FuzzDecode(f *testing.F) {
	r := reportOf("far", decide.MemberFacts{Ready: metav1.ConditionTrue, UID: "uid", Version: "v1.36.1", Copies: map[api.ID]decide.CopyFacts{
		{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}: {Applied: strings.Repeat("a", 40), Live: deployed("web", 2, 2)},
	}}, nil)
	files, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(files[headFile], files[factsFile], "default", "deployment.apps_web.json", files["copies/default/deployment.apps_web.json"])
	f.Add(files[headFile], []byte(`{"nodes":{"totalNum":-1},"resources":{"allocatable":{"cpu":"1e999"}}}`), "..", "x", []byte(`{"live":{"a":1e999}}`))
	f.Fuzz(func(t *testing.T, head, facts []byte, namespace, name string, copied []byte) {
		tree := tree{fstest.MapFS{headFile: {Data: head}, factsFile: {Data: facts}, "copies/" + namespace + "/" + name: {Data: copied}}}
		d, err := decode(tree, "far", nil)
		if err != nil {
			return
		}
		for id, c := range d.Copies {
			if c.id() != id || len(c.Message) > maxMessage || c.Applied != "" && len(c.Applied) != 40 {
				t.Errorf("%v: %+v", id, c)
			}
			if c.Live != nil {
				(&interpret.Interpreter{}).Health(c.Live)
			}
		}
		again, err := d.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		twice, err := decode(treeOf(again), "far", nil)
		if err != nil || !reflect.DeepEqual(twice.Head, d.Head) && !gocmp.Equal(twice.Head, d.Head) {
			t.Fatalf("%v: %+v and %+v", err, d.Head, twice.Head)
		}
	})
}
