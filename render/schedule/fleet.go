package schedule

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/project"
)

// Fleet is a snapshot of all members, compiled for scheduling. A placement is compiled once for each
// pointer, so bindings of one policy best share theirs, and nobody may change it while the Fleet is in
// use. The caches make a Fleet fit for one goroutine at a time.
type Fleet struct {
	members []member // sorted by name, so that an index orders like a name
	index   map[string]int
	columns map[corev1.ResourceName]int // of capacity.free
	groups  map[policyv1alpha1.SpreadFieldValue]*grouping

	placements map[*policyv1alpha1.Placement]*placement
	applied    map[string]*policyv1alpha1.Placement // by JSON text; nil if it cannot be read
	enabled    map[kind][]bool
	projects   map[*project.Project][]bool
	run        run // buffers of the last run
}

// member is a cluster as the scheduler sees it.
type member struct {
	affinity.Cluster
	leaving  bool
	known    bool           // it has a status
	taints   []corev1.Taint // NoSchedule and NoExecute
	apis     []clusterv1alpha1.APIEnablement
	capacity capacity
}

type kind struct{ apiVersion, kind string }

// NewFleet compiles clusters, which come in any order. A cluster with a deletion timestamp is
// leaving: it is no candidate, and what runs there is scheduled anew. Clusters must not change
// while the Fleet is used.
func NewFleet(clusters []*clusterv1alpha1.Cluster) *Fleet {
	sorted := slices.Clone(clusters)
	slices.SortFunc(sorted, func(a, b *clusterv1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	f := &Fleet{
		members:    make([]member, len(sorted)),
		index:      make(map[string]int, len(sorted)),
		columns:    columnsOf(sorted),
		placements: map[*policyv1alpha1.Placement]*placement{},
		applied:    map[string]*policyv1alpha1.Placement{},
		enabled:    map[kind][]bool{},
		projects:   map[*project.Project][]bool{},
	}
	for i, c := range sorted {
		f.index[c.Name] = i
		f.members[i] = member{
			Cluster:  affinity.Of(c),
			leaving:  c.DeletionTimestamp != nil,
			known:    hasStatus(&c.Status),
			taints:   repelling(c.Spec.Taints),
			apis:     c.Status.APIEnablements,
			capacity: f.compileCapacity(c),
		}
	}
	f.groups = map[policyv1alpha1.SpreadFieldValue]*grouping{
		policyv1alpha1.SpreadByFieldRegion:   f.groupBy(func(m *member) []string { return nonEmpty(m.Region) }),
		policyv1alpha1.SpreadByFieldProvider: f.groupBy(func(m *member) []string { return nonEmpty(m.Provider) }),
		policyv1alpha1.SpreadByFieldZone:     f.groupBy(func(m *member) []string { return m.Zones }),
	}
	return f
}

func hasStatus(s *clusterv1alpha1.ClusterStatus) bool {
	return s.KubernetesVersion != "" || len(s.APIEnablements) > 0 || len(s.Conditions) > 0 ||
		s.NodeSummary != nil || s.ResourceSummary != nil || s.NodeCapacity != nil || len(s.RemedyActions) > 0
}

func repelling(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute
	})
}

// grouping numbers the values of a field, in the order of their names.
type grouping struct {
	names []string
	of    [][]int // by member: the values it has
}

func (f *Fleet) groupBy(values func(*member) []string) *grouping {
	g := &grouping{of: make([][]int, len(f.members))}
	for i := range f.members {
		g.names = append(g.names, values(&f.members[i])...)
	}
	slices.Sort(g.names)
	g.names = slices.Compact(g.names)
	for i := range f.members {
		for _, v := range values(&f.members[i]) {
			n, _ := slices.BinarySearch(g.names, v)
			if !slices.Contains(g.of[i], n) {
				g.of[i] = append(g.of[i], n)
			}
		}
	}
	return g
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// serving tells for each member whether it serves the kind. A member without any status is taken to
// serve everything; with a status, a kind it does not list is missing.
func (f *Fleet) serving(k kind) []bool {
	if list, found := f.enabled[k]; found {
		return list
	}
	list := make([]bool, len(f.members))
	for i := range f.members {
		m := &f.members[i]
		list[i] = !m.known || slices.ContainsFunc(m.apis, func(a clusterv1alpha1.APIEnablement) bool {
			return a.GroupVersion == k.apiVersion &&
				slices.ContainsFunc(a.Resources, func(r clusterv1alpha1.APIResource) bool { return r.Kind == k.kind })
		})
	}
	f.enabled[k] = list
	return list
}

// allowed tells for each member whether the project has it; nil if there is no project.
func (f *Fleet) allowed(p *project.Project) []bool {
	if p == nil {
		return nil
	}
	list, found := f.projects[p]
	if !found {
		list = make([]bool, len(f.members))
		for i := range f.members {
			list[i] = p.AllowsMember(f.members[i].Name, f.members[i].Labels)
		}
		f.projects[p] = list
	}
	return list
}
