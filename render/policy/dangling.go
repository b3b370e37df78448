package policy

import (
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
)

// Dangling warns of names in policies that nothing has: clusters that are no members, affinities that no
// member matches, and override policies that are waited for. Without members nothing is said of clusters,
// since they are registered elsewhere then. has tells whether there is an override policy.
func (s *Set) Dangling(members []affinity.Cluster, has func(namespace, name string) bool) []render.Finding {
	d := dangling{members: members, names: make(map[string]bool, len(members))}
	for _, m := range members {
		d.names[m.Name] = true
	}
	for _, p := range s.Policies() {
		r := &Report{Object: p.Source}
		for i, name := range p.Spec.DependentOverrides {
			if !has(p.Namespace, name) {
				r.Warning("override-missing", Path{"spec", "dependentOverrides"}.At(i), "there is no such override policy, and until there is, nothing that the policy selects is placed; add it, or remove the name")
			}
		}
		if len(members) > 0 {
			d.placement(r, Path{"spec", "placement"}, &p.Spec.Placement)
			if suspension := p.Spec.Suspension; suspension != nil && suspension.DispatchingOnClusters != nil {
				d.known(r, Path{"spec", "suspension", "dispatchingOnClusters", "clusterNames"}, suspension.DispatchingOnClusters.ClusterNames)
			}
		}
		d.findings = append(d.findings, r.Findings...)
	}
	slices.SortStableFunc(d.findings, render.Finding.Compare)
	return d.findings
}

type dangling struct {
	members  []affinity.Cluster
	names    map[string]bool
	findings []render.Finding
}

func (d *dangling) placement(r *Report, at Path, p *policyv1alpha1.Placement) {
	d.affinity(r, at.At("clusterAffinity"), p.ClusterAffinity)
	for i := range p.ClusterAffinities {
		term := &p.ClusterAffinities[i]
		d.affinity(r, at.At("clusterAffinities", i), &term.ClusterAffinity)
		for j := range term.OverflowAffinities {
			d.affinity(r, at.At("clusterAffinities", i, "overflowAffinities", j), &term.OverflowAffinities[j].ClusterAffinity)
		}
	}
	if s := p.ReplicaScheduling; s != nil && s.WeightPreference != nil {
		for i := range s.WeightPreference.StaticWeightList {
			d.affinity(r, at.At("replicaScheduling", "weightPreference", "staticWeightList", i, "targetCluster"), &s.WeightPreference.StaticWeightList[i].TargetCluster)
		}
	}
}

// affinity says that no member matches only where names are not the reason.
func (d *dangling) affinity(r *Report, at Path, a *policyv1alpha1.ClusterAffinity) {
	if a == nil {
		return
	}
	good := d.known(r, at.At("clusterNames"), a.ClusterNames)
	good = d.known(r, at.At("exclude"), a.ExcludeClusters) && good
	if !good {
		return
	}
	m := affinity.Compile(a)
	if !slices.ContainsFunc(d.members, func(c affinity.Cluster) bool { return m.Matches(&c) }) {
		r.Warning("matches-no-member", at, "no member matches; check the names and labels")
	}
}

// known warns, once for the list, of clusters that are no members.
func (d *dangling) known(r *Report, at Path, names []string) bool {
	const shown = 5
	var unknown []string
	first := 0
	for i, name := range names {
		if d.names[name] {
			continue
		}
		if len(unknown) == 0 {
			first = i
		}
		if unknown = append(unknown, fmt.Sprintf("%q", name)); len(unknown) > shown {
			unknown[shown] = "others"
			break
		}
	}
	if len(unknown) == 0 {
		return true
	}
	r.Warning("unknown-cluster", at.At(first), "there is no member %s; check the name, or register the cluster", strings.Join(unknown, ", "))
	return false
}
