package pull

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func liveOf(id api.ID, size int) api.Object {
	version := "v1"
	if id.Group != "" {
		version = id.Group + "/v1"
	}
	return api.Object{
		"apiVersion": version, "kind": id.Kind,
		"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace, "annotations": map[string]any{"applied": strings.Repeat("x", size)}},
		"spec":     map[string]any{"template": map[string]any{"a": int64(1)}, "ratio": 0.25},
		"status":   map[string]any{"replicas": int64(2)},
	}
}

// What did not change is not encoded again, and comes out as if it were.
func TestAnEncodingAfterAnotherIsTheSame(t *testing.T) {
	draw := func(t *rapid.T, what string, from decide.MemberFacts) (decide.MemberFacts, map[api.ID]Retired) {
		seen := decide.MemberFacts{Ready: metav1.ConditionTrue, UID: "u", Copies: map[api.ID]decide.CopyFacts{}, Tracked: map[api.ID]string{}}
		orders := map[api.ID]Retired{}
		for i := range rapid.IntRange(0, 5).Draw(t, what) {
			id := api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: fmt.Sprint("web", i)}
			c, known := from.Copies[id]
			if !known || rapid.Bool().Draw(t, "other") {
				c = decide.CopyFacts{
					Applied: fmt.Sprintf("%040x", rapid.IntRange(0, 2).Draw(t, "hash")), Gone: rapid.Bool().Draw(t, "gone"),
					Reason: rapid.SampledFrom([]string{"", "Conflict"}).Draw(t, "reason"), Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "message"),
				}
				if rapid.Bool().Draw(t, "live") {
					c.Live = liveOf(id, rapid.SampledFrom([]int{0, 10, MaxObject}).Draw(t, "size"))
				}
			}
			seen.Copies[id] = c
			if rapid.Bool().Draw(t, "tracked") {
				seen.Tracked[id] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "by")
			}
			if rapid.Bool().Draw(t, "ordered") {
				orders[id] = Retired{Since: int64(rapid.IntRange(1, 2).Draw(t, "since"))}
			}
		}
		return seen, orders
	}
	rapid.Check(t, func(t *rapid.T) {
		first, orders := draw(t, "first", decide.MemberFacts{})
		before, err := Encode("m", first, orders, "v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		second, orders := draw(t, "second", first)
		got, err := Encode("m", second, orders, "v1", before)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Encode("m", second, orders, "v1", nil)
		if err != nil || !maps.EqualFunc(got.Files, want.Files, bytes.Equal) {
			t.Fatalf("%v\n%q\nwant\n%q", err, got.Files, want.Files)
		}
		d, err := decode(treeOf(got.Files), "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		for id, c := range second.Copies {
			told := d.Copies[id]
			if small := c.Live != nil && len(fmt.Sprint(c.Live)) < MaxObject/2; small && fmt.Sprint(told.Live) != fmt.Sprint(c.Live) {
				t.Fatalf("%s is told as %v, it is %v", id, told.Live, c.Live)
			}
			if c.Gone && told.Gone != orders[id].Since || told.Applied != c.Applied || told.Reason != c.Reason || told.Message != c.Message || told.Tracked != second.Tracked[id] {
				t.Fatalf("%s is told as %+v, it is %+v, ordered %v", id, told, c, orders[id])
			}
		}
	})
}

func TestOfASecretNothingIsTold(t *testing.T) {
	id := api.ID{Kind: "Secret", Namespace: "default", Name: "token"}
	live := liveOf(id, 0)
	live["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
	live["data"] = map[string]any{"token": "hunter2"}
	e, err := Encode("m", decide.MemberFacts{Ready: metav1.ConditionTrue, Copies: map[api.ID]decide.CopyFacts{id: {Live: live}}}, nil, "v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range e.Files {
		if bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if d, err := decode(treeOf(e.Files), "m", nil); err != nil || d.Copies[id].Live == nil {
		t.Errorf("it is not told that it is there: %v", err)
	}
}

// A member that has more than is read is told of as agents do.
func TestAMemberWithTooMuchIsToldInShort(t *testing.T) {
	seen := decide.MemberFacts{Ready: metav1.ConditionTrue, Copies: map[api.ID]decide.CopyFacts{}}
	for i := range 200 {
		id := api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: fmt.Sprint("web", i)}
		seen.Copies[id] = decide.CopyFacts{Live: liveOf(id, maxWholeTotal/150)}
	}
	e, err := Encode("m", seen, nil, "v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decode(treeOf(e.Files), "m", nil)
	if err != nil || len(d.Copies) != 200 {
		t.Fatalf("%d objects, %v", len(d.Copies), err)
	}
	for id, c := range d.Copies {
		if c.Live["status"] == nil || c.Health == workv1alpha2.ResourceUnhealthy {
			t.Fatalf("%s: %+v", id, c)
		}
	}
	again, err := Encode("m", seen, nil, "v1", e)
	if err != nil || !maps.EqualFunc(again.Files, e.Files, bytes.Equal) {
		t.Errorf("it is told otherwise the next time: %v", err)
	}
}
