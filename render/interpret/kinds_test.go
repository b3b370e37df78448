package interpret

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
)

// table is a file of testdata/kinds: the answers of every operation for a kind, written from its rules
// in Karmada's interpreter. Objects get their kind and a name, shop/web.
type table struct {
	// Kinds are "apps/v1 Deployment"; several where they share all rules.
	Kinds []string `json:"kinds"`
	// Operations are those with a rule of the kind's own, by the letters of the shipped table.
	Operations string `json:"operations"`
	// Template is what is in Git.
	Template api.Object `json:"template"`
	// Replicas is "3 {requirements}", Components "name=3 {requirements}; ...".
	Replicas   string `json:"replicas"`
	Components string `json:"components"`
	// Revised is what changes in the template with 7 replicas, Retained with Member as what is there.
	Revised  map[string]any `json:"revised"`
	Member   api.Object     `json:"member"`
	Retained map[string]any `json:"retained"`
	// Dependencies are "Kind/namespace/name ...".
	Dependencies string `json:"dependencies"`
	// Copies are on members a, b, c, ... in this order.
	Copies []struct {
		Name   string     `json:"name"`
		Object api.Object `json:"object"`
		Health string     `json:"health"`
		Status api.Object `json:"status"`
	} `json:"copies"`
	// Aggregated is the template's status with those of all copies.
	Aggregated api.Object `json:"aggregated"`
}

// situations are the copies that every table has.
var situations = []string{"healthy", "unhealthy", "progressing", "old generation", "empty status"}

func readTables(t *testing.T) map[string]*table {
	t.Helper()
	files, err := filepath.Glob("testdata/kinds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]*table{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		into := &table{}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range []any{into.Template, into.Revised, into.Member, into.Retained, into.Aggregated} {
			shaped(v)
		}
		for _, c := range into.Copies {
			shaped(c.Object)
			shaped(c.Status)
		}
		for _, k := range into.Kinds {
			if tables[k] != nil {
				t.Errorf("%s: there are two tables of %s", name, k)
			}
			tables[k] = into
		}
	}
	return tables
}

// TestTablesOfKinds asks every operation about every kind that has a rule. A kind without a complete
// table fails, and an operation without a rule must give what holds for any kind.
func TestTablesOfKinds(t *testing.T) {
	tables := readTables(t)
	for _, k := range slices.Concat(slices.Collect(maps.Keys(native)), slices.Collect(maps.Keys(shipped))) {
		id := api.ID{Group: k.group, Version: k.version, Kind: k.name}
		name := id.APIVersion() + " " + k.name
		tt := tables[name]
		if tt == nil {
			t.Errorf("testdata/kinds has no table of %s", name)
			continue
		}
		delete(tables, name)
		t.Run(name, func(t *testing.T) { tt.check(t, id) })
	}
	for name := range tables {
		t.Errorf("testdata/kinds has a table of %s, which has no rules", name)
	}
}

func (tt *table) check(t *testing.T, id api.ID) {
	i := &Interpreter{}
	has := func(op Operation) bool { return strings.IndexByte(tt.Operations, letters[op]) >= 0 }
	for _, op := range operations {
		if got := i.Has(id, op.operation); got != has(op.operation) {
			t.Errorf("Has(%s) = %t", op.operation, got)
		}
	}
	object := func(rest api.Object) api.Object { return of(id.APIVersion(), id.Kind, jsonText(rest)) }
	same := func(what string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", what, err, diff)
		}
	}
	template := object(tt.Template)
	before := jsonText(template)

	count, err := i.Count(template)
	got := ""
	if count.Workload {
		got = fmt.Sprintf("%d %s", count.Count, jsonText(count.Requirements))
	}
	same("InterpretReplica", tt.Replicas, got, err)

	components, err := i.Components(template)
	var parts []string
	for _, c := range components {
		parts = append(parts, fmt.Sprintf("%s=%d %s", c.Name, c.Replicas, jsonText(c.ReplicaRequirements)))
	}
	same("InterpretComponent", tt.Components, strings.Join(parts, "; "), err)

	revised, err := i.Revise(template, 7)
	same("ReviseReplica", tt.Revised, changes(template, revised), err)

	if has(Retain) != (tt.Member != nil) {
		t.Errorf("a member's object is for kinds with a rule for Retain")
	}
	retained, err := i.Retain(template, object(tt.Member))
	same("Retain", tt.Retained, changes(template, retained), err)

	refs, err := i.Dependencies(template)
	same("InterpretDependency", tt.Dependencies, references(refs), err)

	var items []StatusItem
	missing := slices.Clone(situations)
	for n, c := range tt.Copies {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Name })
		live := object(c.Object)
		health, err := i.Health(live)
		if string(health) != c.Health || (err != nil) != (health == "Unknown" && has(InterpretHealth)) {
			t.Errorf("InterpretHealth of the copy %q = %s, %v, want %s", c.Name, health, err, c.Health)
		}
		status, err := i.Status(live)
		same(fmt.Sprintf("InterpretStatus of the copy %q", c.Name), c.Status, status, err)
		items = append(items, StatusItem{Cluster: string(rune('a' + n)), Status: status, Applied: true, Health: health})
	}
	if len(missing) > 0 {
		t.Errorf("the table has no copy for: %s", strings.Join(missing, ", "))
	}
	aggregated, err := i.AggregateStatus(template, items)
	same("AggregateStatus", tt.Aggregated, statusOf(aggregated), err)
	same("what AggregateStatus leaves", without(template, nil, "status"), without(aggregated, nil, "status"), nil)
	if after := jsonText(template); after != before {
		t.Errorf("the template was changed from %s to %s", before, after)
	}
}

func statusOf(o api.Object) api.Object { return object(o["status"]) }

// changes are the fields in which b differs from a, by their paths; nil stands for one that is gone.
func changes(a, b any) map[string]any {
	var found map[string]any
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if reflect.DeepEqual(a, b) {
			return
		}
		x, y := object(a), object(b)
		l, m := list(a), list(b)
		switch {
		case x != nil && y != nil:
			all := maps.Clone(x)
			maps.Copy(all, y)
			for name := range all {
				walk(path+"."+name, x[name], y[name])
			}
		case l != nil && len(l) == len(m):
			for n := range l {
				walk(fmt.Sprintf("%s[%d]", path, n), l[n], m[n])
			}
		default:
			if found == nil {
				found = map[string]any{}
			}
			found[strings.TrimPrefix(path, ".")] = b
		}
	}
	walk("", a, b)
	return found
}
