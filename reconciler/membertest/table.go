package membertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// column is a column of the tables that kubectl prints.
type column struct {
	name, kind string
	path       string // of the value, without the leading dot
	priority   int32  // 0 is always shown, others with -o wide
}

// columns are those between the name and the age, by kind; a kind without has none.
var columns = map[string][]column{
	"DaemonSet.apps": {{"Desired", "integer", "status.desiredNumberScheduled", 0}, {"Current", "integer", "status.currentNumberScheduled", 0},
		{"Ready", "integer", "status.numberReady", 0}, {"Up-to-date", "integer", "status.updatedNumberScheduled", 0}, {"Available", "integer", "status.numberAvailable", 0}},
	"Deployment.apps": {{"Ready", "string", "status.readyReplicas/spec.replicas", 0}, {"Up-to-date", "integer", "status.updatedReplicas", 0},
		{"Available", "integer", "status.availableReplicas", 0}, {"Containers", "string", "spec.template.spec.containers[*].name", 1},
		{"Images", "string", "spec.template.spec.containers[*].image", 1}},
	"Job.batch":        {{"Completions", "string", "status.succeeded/spec.completions", 0}},
	"Namespace":        {{"Status", "string", "status.phase", 0}},
	"ReplicaSet.apps":  {{"Desired", "integer", "spec.replicas", 0}, {"Current", "integer", "status.replicas", 0}, {"Ready", "integer", "status.readyReplicas", 0}},
	"Secret":           {{"Type", "string", "type", 0}},
	"Service":          {{"Type", "string", "spec.type", 0}, {"Cluster-IP", "string", "spec.clusterIP", 0}, {"Port(s)", "string", "spec.ports[*].port", 0}},
	"StatefulSet.apps": {{"Ready", "string", "status.readyReplicas/spec.replicas", 0}},
}

func (r *resource) columns() []column {
	if r.custom != nil && len(r.custom.columns) > 0 {
		return r.custom.columns
	}
	return append(columns[r.GroupVersionKind.GroupKind().String()], column{"Age", "date", "metadata.creationTimestamp", 0})
}

// table returns objects in the form that kubectl prints.
func (q *request) table(objects []*object, version, next string) []byte {
	t := metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}}
	t.ResourceVersion, t.Continue = version, next
	t.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}}
	all := q.resource.columns()
	for _, c := range all {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.name, Type: c.kind, Priority: c.priority})
	}
	for _, o := range objects {
		row := metav1.TableRow{Cells: []any{o.name}, Object: runtime.RawExtension{Raw: partial(o, true)}}
		if q.query.Get("includeObject") == string(metav1.IncludeObject) {
			row.Object.Raw = o.encode(q.resource.GroupVersion())
		}
		for _, c := range all {
			row.Cells = append(row.Cells, c.cell(o.Object))
		}
		t.Rows = append(t.Rows, row)
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // it is made of values that were decoded
	}
	return b
}

// cell is the value of a column: a/b stands for two counts.
func (c column) cell(content map[string]any) any {
	if a, b, ok := strings.Cut(c.path, "/"); ok {
		return fmt.Sprintf("%v/%v", count(content, a), count(content, b))
	}
	if c.kind == "integer" && !strings.Contains(c.path, "[") {
		return count(content, c.path)
	}
	p := jsonpath.New(c.name).AllowMissingKeys(true)
	if err := p.Parse("{." + c.path + "}"); err != nil {
		return "<invalid>"
	}
	found, err := p.FindResults(content)
	if err != nil {
		return "<invalid>"
	}
	var values []string
	for _, results := range found {
		for _, v := range results {
			values = append(values, fmt.Sprint(v.Interface()))
		}
	}
	text := strings.Join(values, ",")
	if at, err := time.Parse(time.RFC3339, text); c.kind == "date" && err == nil {
		return duration.HumanDuration(time.Since(at))
	}
	return text
}

func count(content map[string]any, path string) int64 {
	n, _, _ := unstructured.NestedInt64(content, strings.Split(path, ".")...)
	return n
}
