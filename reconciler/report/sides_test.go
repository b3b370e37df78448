package report

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestFileNames(t *testing.T) {
	for _, test := range []struct {
		members string
		r       Resource
		want    string
	}{
		{"m1", Resource{"apps/v1", "Deployment", "shop", "web"}, "m1.apps.v1.Deployment.shop.web"},
		{"m1 m2", Resource{"v1", "Namespace", "", "shop"}, "m1+m2.v1.Namespace.shop"},
		{"m1 m2 m3", Resource{"v1", "Namespace", "", "shop"}, "m1+m2+m3.v1.Namespace.shop"},
		{"m1 m2 m3 m4", Resource{"v1", "Namespace", "", "shop"}, "m1+3.v1.Namespace.shop"},
		{"m1", Resource{"v1", "Secret", "shop", "../../etc:x"}, "m1.v1.Secret.shop..._.._etc_x"},
	} {
		if got := fileName(strings.Fields(test.members), test.r); got != test.want {
			t.Errorf("%s on %s: %s, want %s", test.r, test.members, got, test.want)
		}
	}
}

func TestEachObjectThatChangesHasItsOwnFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := &Plan{}
		seen := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "works") {
			w := Work{
				Cluster: rapid.SampledFrom([]string{"m1", "M1"}).Draw(t, "member"), Change: decide.Updated,
				Resource: Resource{"v1", "ConfigMap", "n", rapid.SampledFrom([]string{"a:b", "a_b", "a/b", "A_b", "../x", strings.Repeat("n", 250), strings.Repeat("n", 251)}).Draw(t, "name")},
			}
			if key := fmt.Sprint(w.Cluster, w.Resource); !seen[key] {
				seen[key] = true
				w.Hunks = key
				plan.Works = append(plan.Works, w)
			}
		}
		names := map[string]bool{}
		for _, s := range plan.Sides() {
			if names[strings.ToLower(s.Name)] {
				t.Fatalf("%s is there twice", s.Name)
			}
			names[strings.ToLower(s.Name)] = true
			if len(s.Name) > 255 || strings.ContainsAny(s.Name, "/:") || s.Name == ".." {
				t.Fatalf("%s is no good name of a file", s.Name)
			}
		}
		if len(names) != len(plan.Works) {
			t.Fatalf("%d files for %d works", len(names), len(plan.Works))
		}
	})
}
