package schedule

import (
	"encoding/json"
	"testing"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Whatever people write into the record of a member, and members report: no panic, and no room below 0.
func FuzzRoom(f *testing.F) {
	f.Add(`{"status": {"resourceSummary": {"allocatable": {"cpu": "4", "pods": "10"}, "allocated": {"cpu": "1500m"}}, "nodeCapacity": {"pools": [
		{"labels": {"disk": "ssd"}, "taints": [{"key": "k", "effect": "NoSchedule"}], "nodes": [{"count": 3, "free": {"cpu": "1", "pods": "5"}}]}], "unrecordedLabels": ["host"]}}}`,
		`{"resourceRequest": {"cpu": "500m"}, "nodeClaim": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}}`)
	f.Add(`{"spec": {"resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]}]}, "status": {"resourceSummary": {"allocatable": {"pods": "9"}, "allocatableModelings": [{"grade": 1, "count": 3}]}}}`,
		`{"nodeClaim": {"hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]}}}`)
	f.Fuzz(func(t *testing.T, member, requirements string) {
		if len(member)+len(requirements) > 1<<12 {
			return
		}
		c, r := &clusterv1alpha1.Cluster{}, &workv1alpha2.ReplicaRequirements{}
		if json.Unmarshal([]byte(member), c) != nil || json.Unmarshal([]byte(requirements), r) != nil {
			return
		}
		fleet := NewFleet([]*clusterv1alpha1.Cluster{c})
		d := fleet.demandOf(&workv1alpha2.ResourceBindingSpec{Replicas: 3, ReplicaRequirements: r}, false)
		if room := fleet.members[0].capacity.room(&d); room < 0 {
			t.Errorf("room %d", room)
		}
	})
}
