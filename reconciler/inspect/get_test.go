package inspect_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/inspect"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// members are two with a Deployment and a ConfigMap each.
func members(t *testing.T) (map[string]*rest.Config, *membertest.Server) {
	t.Helper()
	configs := map[string]*rest.Config{}
	var last *membertest.Server
	for _, name := range []string{"m1", "m2"} {
		last = membertest.Start(t, name)
		configs[name] = last.RestConfig()
		client, err := dynamic.NewForConfig(last.RestConfig())
		if err != nil {
			t.Fatal(err)
		}
		for resource, o := range map[string]map[string]any{
			"deployments": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}},
				"spec": map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
					"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
						"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "nginx:1"}}}}}},
			"configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"}, "data": map[string]any{"member": name}},
		} {
			group := ""
			if resource == "deployments" {
				group = "apps"
			}
			gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
			if _, err := client.Resource(gvr).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return configs, last
}

func TestGetGivesTheServersTableOfEachMember(t *testing.T) {
	configs, _ := members(t)
	for _, kind := range []string{"deployments", "deployment", "Deployment", "deploy", "deployments.apps", "deployments.v1.apps"} {
		answers := inspect.Get(t.Context(), configs, inspect.Query{Kind: kind, Namespace: "default"})
		if len(answers) != 2 || answers[0].Member != "m1" || answers[1].Member != "m2" {
			t.Fatalf("%s: answers %v, want m1 and m2", kind, answers)
		}
		for _, a := range answers {
			if a.Err != nil || a.Table == nil || !a.Namespaced {
				t.Fatalf("%s: %s: %v", kind, a.Member, a.Err)
			}
			columns := inspect.Columns(a.Table, false)
			if got := strings.Join(columns[:2], " "); got != "Name Ready" {
				t.Errorf("%s: columns %q", kind, columns)
			}
			rows := inspect.Rows(a.Table, columns)
			if len(rows) != 1 || rows[0].Namespace != "default" || rows[0].Cells[0] != "web" || rows[0].Cells[1] != "2/2" {
				t.Errorf("%s: rows %v, want web 2/2 in default", kind, rows)
			}
		}
	}
}

func TestWideColumnsAreShownOnDemand(t *testing.T) {
	configs, _ := members(t)
	a := inspect.Get(t.Context(), configs, inspect.Query{Kind: "deployments"})[0]
	if narrow, wide := inspect.Columns(a.Table, false), inspect.Columns(a.Table, true); len(wide) <= len(narrow) {
		t.Errorf("wide has %d columns, narrow %d", len(wide), len(narrow))
	}
	if rows := inspect.Rows(a.Table, []string{"Name", "No Such Column"}); rows[0].Cells[1] != "<none>" {
		t.Errorf("a column that is not there reads %q, want <none>", rows[0].Cells[1])
	}
}

func TestObjectsComeWithTheirType(t *testing.T) {
	configs, _ := members(t)
	for _, q := range []inspect.Query{
		{Kind: "cm", Namespace: "default", Objects: true, Name: "web"},
		{Kind: "cm", Objects: true, Selector: "!none", Namespace: "default"},
	} {
		for _, a := range inspect.Get(t.Context(), configs, q) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			i := -1
			for n, o := range a.Items {
				if api.IDOf(o) == (api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web"}) {
					i = n
				}
			}
			if i < 0 {
				t.Fatalf("%s: %v has no ConfigMap web", a.Member, a.Items)
			}
			marked := inspect.Annotated(a.Items[i], "a/b", a.Member)
			if got := marked["data"].(map[string]any)["member"]; got != a.Member {
				t.Errorf("%s answered with the object of %v", a.Member, got)
			}
			if _, ok := a.Items[i]["metadata"].(map[string]any)["annotations"]; ok {
				t.Error("Annotated changed its argument")
			}
		}
	}
}

func TestWhatIsNotThereIsNotFoundAndAnUnknownKindIsNot(t *testing.T) {
	configs, _ := members(t)
	for _, a := range inspect.Get(t.Context(), configs, inspect.Query{Kind: "deploy", Name: "nope", Namespace: "default"}) {
		if !inspect.NotFound(a.Err) {
			t.Errorf("%s: %v, want not found", a.Member, a.Err)
		}
	}
	for _, a := range inspect.Get(t.Context(), configs, inspect.Query{Kind: "nosuchkind"}) {
		if a.Err == nil || inspect.NotFound(a.Err) || !strings.Contains(a.Err.Error(), "nosuchkind") {
			t.Errorf("%s: %v, want an error that names the kind", a.Member, a.Err)
		}
	}
}

func TestAFrozenMemberIsAnErrorAndTheOthersAnswer(t *testing.T) {
	configs, m2 := members(t)
	m2.Freeze()
	defer m2.Thaw()
	answers := inspect.Get(t.Context(), configs, inspect.Query{Kind: "deployments", Timeout: time.Second})
	if answers[0].Err != nil || answers[1].Err == nil {
		t.Errorf("m1: %v, m2: %v; want an answer and an error", answers[0].Err, answers[1].Err)
	}
}
