package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

func TestSpreadConstraints(t *testing.T) {
	const three = "a region=eu zone=x provider=p; b region=eu zone=y provider=q; c region=us zone=z provider=p"
	by := func(constraints string, strategy string) string {
		return fmt.Sprintf("{spreadConstraints: [%s], replicaScheduling: %s}", constraints, strategies[strategy])
	}
	const (
		cluster2 = "{spreadByField: cluster, minGroups: 1, maxGroups: 2}"
		all      = "{spreadByField: cluster, minGroups: 1, maxGroups: 9}"
	)
	tests := []struct {
		name      string
		members   string
		replicas  int32
		current   string
		placement string
		want      string
	}{
		{"the first in order", three, 2, "", by(cluster2, "duplicated"), "a=2 b=2"},
		{"where it runs comes first", three, 2, "c=2", by(cluster2, "duplicated"), "c=2 a=2"},
		{"then where most room is", "a pods=5; b pods=9; c pods=7", 2, "", by(cluster2, "duplicated"), "b=2 c=2"},
		{"no field means cluster", three, 2, "", by("{minGroups: 1, maxGroups: 1}", "duplicated"), "a=2"},
		{"too few clusters", three, 2, "a=1", by("{spreadByField: cluster, minGroups: 4, maxGroups: 9}", "duplicated"),
			"a=1 SchedulerError: the number of feasible clusters (3) is less than spreadConstraint.minGroups (4)"},
		{"maxGroups 0 is not unlimited", three, 2, "", by("{spreadByField: cluster, minGroups: 1}", "duplicated"),
			"SchedulerError: spreadConstraints: maxGroups of cluster is 0, which selects no cluster; set it to 1 or more"},
		{"roomier clusters are exchanged for the worst", "a pods=1; b pods=2; c pods=6", 8, "a=1 b=1", by(cluster2, "dynamic"), "b=3 c=5"},
		{"as many as it takes", "a pods=1; b pods=1; c pods=6; d pods=5", 11, "a=1 b=1", by(cluster2, "dynamic"), "c=6 d=5"},
		{"room that is short", "a pods=1; b pods=2; c pods=3", 6, "", by(cluster2, "dynamic"), "SchedulerError: no 2 clusters have room for 6 replicas: 5 at most"},
		{"static weights ignore constraints", three, 3, "", by("{spreadByField: cluster, minGroups: 1, maxGroups: 1}", "even"), "a=1 b=1 c=1"},
		{"an empty weight list does not", three, 3, "", "{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {}}}", "a=3"},
		{"labels alone", three, 2, "", by("{spreadByLabel: rack, minGroups: 1, maxGroups: 1}", "duplicated"),
			"SchedulerError: spreadConstraints: none of them can be enforced alone; add one with spreadByField: cluster"},
		{"labels besides clusters are ignored", three, 2, "", by("{spreadByLabel: rack, minGroups: 1, maxGroups: 1}, "+cluster2, "duplicated"), "a=2 b=2"},

		{"one region: the one with more clusters", three, 2, "", by("{spreadByField: region, minGroups: 1, maxGroups: 1}, "+all, "duplicated"), "a=2 b=2"},
		{"one cluster of each region, then the best", three, 2, "", by("{spreadByField: region, minGroups: 2, maxGroups: 2}, "+cluster2, "duplicated"), "a=2 c=2"},
		{"clusters are counted in total", three, 2, "", by("{spreadByField: region, minGroups: 2, maxGroups: 2}, "+all, "duplicated"), "a=2 c=2 b=2"},
		{"more regions than clusters", three, 2, "", by("{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 1}", "duplicated"), "a=2 c=2"},
		{"too few regions", three, 2, "", by("{spreadByField: region, minGroups: 3, maxGroups: 3}, "+all, "duplicated"),
			"SchedulerError: the number of feasible regions (2) is less than spreadConstraint.minGroups (3)"},
		{"too few clusters in them", three, 2, "", by("{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: cluster, minGroups: 3, maxGroups: 9}", "duplicated"),
			"SchedulerError: no 1 to 1 regions have the number of clusters in spreadConstraint.minGroups (3)"},
		{"maxGroups 0 of regions", three, 2, "", by("{spreadByField: region, minGroups: 1}, "+all, "duplicated"),
			"SchedulerError: spreadConstraints: maxGroups of region is 0, which selects no region; set it to 1 or more"},
		{"regions with room first", "a region=eu pods=4; b region=us pods=9; c region=ap pods=8", 12, "", by("{spreadByField: region, minGroups: 2, maxGroups: 2}, "+all, "dynamic"), "b=6 c=6"},
		{"room is seen in division", "a region=eu pods=1; b region=us pods=1", 3, "", by("{spreadByField: region, minGroups: 1, maxGroups: 2}, "+all, "dynamic"),
			"Unschedulable: available replicas 1 are not enough for 3"},

		{"zones are enforced like regions", three, 2, "", by("{spreadByField: zone, minGroups: 2, maxGroups: 2}, "+all, "duplicated"), "a=2 b=2"},
		{"so are providers", three, 2, "", by("{spreadByField: provider, minGroups: 1, maxGroups: 1}, "+all, "duplicated"), "a=2 c=2"},
		{"too few zones", three, 2, "", by("{spreadByField: zone, minGroups: 4, maxGroups: 4}, "+all, "duplicated"),
			"SchedulerError: the number of feasible zones (3) is less than spreadConstraint.minGroups (4)"},
		{"a cluster in several zones stands for each", "a zone=x,y; b zone=z", 2, "", by("{spreadByField: zone, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 1}", "duplicated"), "a=2"},
		{"but counts once", "a zone=x,y; b zone=z", 2, "", by("{spreadByField: zone, minGroups: 2, maxGroups: 3}, {spreadByField: cluster, minGroups: 2, maxGroups: 2}", "duplicated"), "a=2 b=2"},

		{"regions, then zones in them", "a region=eu zone=x; b region=eu zone=x; c region=us zone=y; d region=us zone=z", 2, "",
			by("{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: zone, minGroups: 3, maxGroups: 3}, "+all, "duplicated"), "a=2 c=2 d=2 b=2"},
		{"a region in which the zones can be had", "a region=eu zone=x; b region=eu zone=x; e region=eu zone=x; c region=us zone=y; d region=us zone=z", 2, "",
			by("{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: zone, minGroups: 2, maxGroups: 2}, "+all, "duplicated"), "c=2 d=2"},
		{"more regions if the zones need them", "a region=eu zone=x; b region=eu zone=x; c region=us zone=y", 2, "",
			by("{spreadByField: region, minGroups: 1, maxGroups: 2}, {spreadByField: zone, minGroups: 2, maxGroups: 2}, "+all, "duplicated"), "a=2 c=2 b=2"},
		{"zones that cannot be had in the regions", "a region=eu zone=x; b region=us zone=y", 2, "",
			by("{spreadByField: region, minGroups: 1, maxGroups: 1}, {spreadByField: zone, minGroups: 2, maxGroups: 2}, "+all, "duplicated"),
			"SchedulerError: the number of feasible zones (1) is less than spreadConstraint.minGroups (2)"},
		{"a region that the zones leave out", "a region=eu zone=x; b region=us zone=y", 2, "",
			by("{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: zone, minGroups: 1, maxGroups: 1}, "+all, "duplicated"),
			"SchedulerError: spreadConstraints: no cluster of region us is in the other groups chosen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := answer(fleet(tt.members).Schedule(Request{Binding: binding(tt.replicas, tt.current, placed(tt.placement))}))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestKarmadaDoesNotEnforceZonesAndProviders(t *testing.T) {
	const members = "a region=eu zone=x provider=p; b region=eu zone=x provider=p; c region=us zone=y provider=p; d"
	for _, tt := range []struct{ constraints, want string }{
		{"{spreadByField: zone, minGroups: 5, maxGroups: 5}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}", "a=2 b=2"},
		{"{spreadByField: provider, minGroups: 5, maxGroups: 5}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}", "a=2 b=2"},
		{"{spreadByField: zone, minGroups: 5, maxGroups: 5}, {spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 1, maxGroups: 2}", "a=2 c=2"},
		{"{spreadByField: zone, minGroups: 1, maxGroups: 1}", "SchedulerError: spreadConstraints: none of them can be enforced alone; add one with spreadByField: cluster"},
	} {
		b := binding(2, "", placed("spreadConstraints: ["+tt.constraints+"]"))
		if got := answer(fleet(members).Schedule(Request{Binding: b, Compat: true})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.constraints, got, tt.want)
		}
	}
}

func TestGroupWeight(t *testing.T) {
	candidates := func(text string, score int64) (list []candidate) {
		for f := range strings.FieldsSeq(text) {
			c := candidate{score: score}
			fmt.Sscan(f, &c.available)
			list = append(list, c)
		}
		return list
	}
	tests := []struct {
		name      string
		strategy  strategy
		replicas  int32
		available string
		score     int64
		least     int64
		clusters  int
		want      int64
	}{
		{"divided: enough room, where nothing runs", dynamic, 100, "40 30 10 10", 0, 2, 1, 50000},
		{"divided: short of room, where it runs", dynamic, 100, "10 10 10 10 5", 100, 2, 1, 45100},
		{"divided: enough room, where it runs", dynamic, 100, "40 40 1 1", 100, 2, 1, 50100},
		{"duplicated: clusters that take all", duplicated, 10, "20 10 9", 100, 1, 1, 2100},
		{"duplicated: none does", duplicated, 10, "9 9", 100, 1, 1, 0},
	}
	for _, tt := range tests {
		r := &run{fleet: fleet(""), placement: &placement{strategy: tt.strategy}, spec: &binding(tt.replicas, "", nil).Spec}
		s := spreading{run: r, clusters: policyv1alpha1.SpreadConstraint{MinGroups: tt.clusters}}
		if got := s.weigh(candidates(tt.available, tt.score), tt.least); got != tt.want {
			t.Errorf("%s: weight %d, want %d", tt.name, got, tt.want)
		}
	}
}

// searchGroups is what chooseGroups spares: it looks at all combinations.
func searchGroups(groups []*clusterGroup, least, most, target int) []*clusterGroup {
	type combination struct {
		groups           []*clusterGroup
		weight, clusters int
	}
	sorted := slices.Clone(groups)
	slices.SortFunc(sorted, func(a, b *clusterGroup) int {
		return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	var found []combination
	var search func(path []*clusterGroup, clusters, next int)
	search = func(path []*clusterGroup, clusters, next int) {
		if clusters >= target && len(path) >= least && len(path) <= most {
			c := combination{groups: slices.Clone(path), clusters: clusters}
			for _, g := range path {
				c.weight += int(g.weight)
			}
			slices.SortFunc(c.groups, func(a, b *clusterGroup) int {
				return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
			})
			found = append(found, c)
			return
		}
		if len(path) >= most {
			return
		}
		for i := next; i < len(sorted); i++ {
			search(append(slices.Clone(path), sorted[i]), clusters+len(sorted[i].members), i+1)
		}
	}
	search(nil, 0, 0)
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b combination) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.clusters, a.clusters))
	})
	best := found[0].groups
	for _, c := range found[1:] {
		if len(c.groups) < len(best) && slices.Equal(c.groups, best[:len(c.groups)]) {
			best = c.groups
		}
	}
	return best
}

func groupNames(groups []*clusterGroup) string {
	var list []string
	for _, g := range groups {
		list = append(list, fmt.Sprintf("%s(%d,%d)", g.name, len(g.members), g.weight))
	}
	return strings.Join(list, " ")
}

func TestChooseGroupsAgreesWithTheSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []*clusterGroup
		for i := range rapid.IntRange(0, 8).Draw(t, "groups") {
			groups = append(groups, &clusterGroup{
				name:    fmt.Sprintf("g%d", i),
				members: make([]candidate, rapid.IntRange(1, 4).Draw(t, "clusters")),
				weight:  rapid.Int64Range(0, 6).Draw(t, "weight"),
			})
		}
		least := rapid.IntRange(1, 4).Draw(t, "least")
		most := rapid.IntRange(0, 6).Draw(t, "most")
		target := rapid.IntRange(0, 12).Draw(t, "target")
		got, want := groupNames(chooseGroups(groups, least, most, target)), groupNames(searchGroups(groups, least, most, target))
		if got != want {
			t.Fatalf("chooseGroups(%s, %d, %d, %d) = %q, want %q", groupNames(groups), least, most, target, got, want)
		}
	})
}

func TestTheSettledAnswerIsGivenAtOnce(t *testing.T) {
	// At first only c has room, and both regions are needed. What was placed counts as room: then us alone is enough.
	f := fleet("a region=ap pods=2; b region=us pods=0; c region=us pods=3")
	b := binding(2, "", placed("spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 2}, {spreadByField: cluster, minGroups: 2, maxGroups: 3}]"))
	first := f.Schedule(Request{Binding: b, Compat: true})
	second := f.Schedule(Request{Binding: stored(f, b, first), Compat: true})
	settled := f.Schedule(Request{Binding: b})
	got := []string{answer(first), answer(second), answer(settled)}
	if want := []string{"a=2 c=2 b=2", "c=2 b=2", "c=2 b=2"}; !slices.Equal(got, want) {
		t.Errorf("first, second, settled: %q, want %q", got, want)
	}
}
