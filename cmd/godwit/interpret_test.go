package main

import (
	"testing"
)

// FuzzStatusItems: whatever a status file holds, it is refused, or every item names its member.
func FuzzStatusItems(f *testing.F) {
	for _, seed := range []string{
		"", "---\n", "clusterName: m1\napplied: true\nstatus: {replicas: 2}\n---\n- {clusterName: m2, health: Healthy}\n- {clusterName: m3, appliedMessage: x}\n",
		"clusterName: 1", "- 1", "{clusterName: m1, status: []}", "clusterName: m1\nclusterName: m2\n", "[[", "{clusterName: a, nosuch: 1}", "null\n---\nnull",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := statusItems(data)
		if err != nil && items != nil {
			t.Errorf("items and an error: %v", err)
		}
		for _, item := range items {
			if item.Cluster == "" {
				t.Errorf("%q has an item of no member", data)
			}
		}
	})
}
