package schedule

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/affinity"
)

// placement is a compiled Placement, with the answers for all members that depend on it alone.
type placement struct {
	source   *policyv1alpha1.Placement
	terms    []term
	named    bool // terms are clusterAffinities
	strategy strategy
	spreads  bool                              // there are constraints to select clusters by
	cluster  *policyv1alpha1.SpreadConstraint  // nil if there is none
	grouped  []policyv1alpha1.SpreadConstraint // by region, provider, zone, in this order
	taint    []int                             // by member: the first taint that is not tolerated; -1 if there is none
	lacking  []policyv1alpha1.SpreadFieldValue // by member: a field that a constraint needs and it does not have
	weights  []int64                           // by member: its static weight; nil if all count the same
	text     string                            // JSON, made when first asked for
}

// term is an affinity that is tried.
type term struct {
	name     string
	inline   *affinity.Matcher
	overflow []*affinity.Matcher
	tiers    []int // by member: 0 if inline matches, i+1 if overflow[i] does, -1 if none; made when first tried
}

// strategy is how replicas are given to the selected clusters.
type strategy string

const (
	duplicated  strategy = "Duplicated"
	static      strategy = "StaticWeight"
	dynamic     strategy = "DynamicWeight"
	aggregated  strategy = "Aggregated"
	unsupported strategy = "unsupported"
)

// strategyOf also says whether spread constraints are ignored, as Karmada does with static weights.
func strategyOf(s *policyv1alpha1.ReplicaSchedulingStrategy) (how strategy, ignoresSpread bool) {
	if s == nil || s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated {
		return duplicated, false
	}
	weights := s.WeightPreference
	switch s.ReplicaDivisionPreference {
	case policyv1alpha1.ReplicaDivisionPreferenceAggregated:
		return aggregated, false
	case policyv1alpha1.ReplicaDivisionPreferenceWeighted, "":
		if weights != nil && weights.DynamicWeight != "" {
			return dynamic, false
		}
		return static, weights == nil || len(weights.StaticWeightList) > 0
	}
	return unsupported, false
}

var everywhere = &policyv1alpha1.Placement{}

func (f *Fleet) compile(source *policyv1alpha1.Placement) *placement {
	if source == nil {
		source = everywhere
	}
	if p, found := f.placements[source]; found {
		return p
	}
	p := &placement{source: source}
	p.compileTerms()
	p.compileSpread()
	p.taint = make([]int, len(f.members))
	p.lacking = make([]policyv1alpha1.SpreadFieldValue, len(f.members))
	for i := range f.members {
		p.taint[i] = untolerated(f.members[i].taints, source.ClusterTolerations)
		for _, c := range source.SpreadConstraints {
			if g := f.groups[c.SpreadByField]; g != nil && len(g.of[i]) == 0 {
				p.lacking[i] = c.SpreadByField
				break
			}
		}
	}
	if p.strategy == static && source.ReplicaScheduling.WeightPreference != nil {
		p.weights = f.staticWeights(source.ReplicaScheduling.WeightPreference.StaticWeightList)
	}
	f.placements[source] = p
	return p
}

func (p *placement) compileTerms() {
	p.named = p.source.ClusterAffinity == nil && len(p.source.ClusterAffinities) > 0
	if !p.named {
		p.terms = []term{{inline: affinity.Compile(p.source.ClusterAffinity)}}
		return
	}
	p.terms = make([]term, len(p.source.ClusterAffinities))
	for i := range p.terms {
		a := &p.source.ClusterAffinities[i]
		p.terms[i] = term{name: a.AffinityName, inline: affinity.Compile(&a.ClusterAffinity)}
		for j := range a.OverflowAffinities {
			p.terms[i].overflow = append(p.terms[i].overflow, affinity.Compile(&a.OverflowAffinities[j].ClusterAffinity))
		}
	}
}

// groupFields is the order in which constraints on groups are satisfied.
var groupFields = []policyv1alpha1.SpreadFieldValue{
	policyv1alpha1.SpreadByFieldRegion, policyv1alpha1.SpreadByFieldProvider, policyv1alpha1.SpreadByFieldZone,
}

func (p *placement) compileSpread() {
	how, ignored := strategyOf(p.source.ReplicaScheduling)
	p.strategy, p.spreads = how, len(p.source.SpreadConstraints) > 0 && !ignored
	if !p.spreads {
		return
	}
	byField := map[policyv1alpha1.SpreadFieldValue]policyv1alpha1.SpreadConstraint{}
	for _, c := range p.source.SpreadConstraints {
		if c.SpreadByField == "" && c.SpreadByLabel == "" {
			c.SpreadByField = policyv1alpha1.SpreadByFieldCluster
		}
		byField[c.SpreadByField] = c
	}
	if c, found := byField[policyv1alpha1.SpreadByFieldCluster]; found {
		p.cluster = &c
	}
	for _, field := range groupFields {
		if c, found := byField[field]; found {
			c.MinGroups = max(c.MinGroups, 1)
			p.grouped = append(p.grouped, c)
		}
	}
}

// pinned reports whether exactly one cluster is asked for.
func (p *placement) pinned() bool {
	return slices.ContainsFunc(p.source.SpreadConstraints, func(c policyv1alpha1.SpreadConstraint) bool {
		return c.SpreadByField == policyv1alpha1.SpreadByFieldCluster && c.MinGroups == 1 && c.MaxGroups == 1
	})
}

func untolerated(taints []corev1.Taint, tolerations []corev1.Toleration) int {
	return slices.IndexFunc(taints, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return affinity.Tolerates(&t, &taint) })
	})
}

// staticWeights gives each member the largest weight among the entries that match it.
func (f *Fleet) staticWeights(list []policyv1alpha1.StaticClusterWeight) []int64 {
	weights := make([]int64, len(f.members))
	for i := range list {
		m := affinity.Compile(&list[i].TargetCluster)
		for j := range f.members {
			if weights[j] < list[i].Weight && m.Matches(&f.members[j].Cluster) {
				weights[j] = list[i].Weight
			}
		}
	}
	return weights
}

// tiersOf tells for each member which part of the term matches it.
func (f *Fleet) tiersOf(t *term) []int {
	if t.tiers != nil || len(f.members) == 0 {
		return t.tiers
	}
	t.tiers = make([]int, len(f.members))
	for i := range f.members {
		c := &f.members[i].Cluster
		if !t.inline.Matches(c) {
			t.tiers[i] = 1 + slices.IndexFunc(t.overflow, func(m *affinity.Matcher) bool { return m.Matches(c) })
			if t.tiers[i] == 0 {
				t.tiers[i] = -1
			}
		}
	}
	return t.tiers
}

// AnnotationAppliedPlacement is the annotation of a binding that holds the placement of its last
// decision.
const AnnotationAppliedPlacement = "policy.karmada.io/applied-placement"

// AppliedPlacement returns what AnnotationAppliedPlacement is to hold after a successful run with
// this placement. It is made once for each placement.
func (f *Fleet) AppliedPlacement(source *policyv1alpha1.Placement) string {
	p := f.compile(source)
	if p.text == "" {
		text, err := json.Marshal(p.source)
		if err != nil {
			panic("a placement has nothing that JSON cannot hold: " + err.Error())
		}
		p.text = string(text)
	}
	return p.text
}

// readApplied reads a placement that was applied; nil if it cannot be read.
func (f *Fleet) readApplied(text string) *policyv1alpha1.Placement {
	old, known := f.applied[text]
	if !known {
		old = &policyv1alpha1.Placement{}
		if json.Unmarshal([]byte(text), old) != nil {
			old = nil
		}
		f.applied[text] = old
	}
	return old
}

// placementChanged compares p with what was applied. Of clusterAffinities only the term in force counts: a
// change of the others moves nothing.
func (f *Fleet) placementChanged(p *policyv1alpha1.Placement, applied string, observed string) bool {
	if applied == "" {
		return true
	}
	if applied == f.AppliedPlacement(p) {
		return false
	}
	old := f.readApplied(applied)
	if old == nil {
		return false
	}
	if p == nil {
		p = everywhere
	}
	same := equality.Semantic.DeepEqual
	switch {
	case same(p, old):
		return false
	case !same(p.ClusterAffinity, old.ClusterAffinity), !same(p.ClusterTolerations, old.ClusterTolerations),
		!same(p.SpreadConstraints, old.SpreadConstraints), !same(p.ReplicaScheduling, old.ReplicaScheduling):
		return true
	case observed == "":
		return true
	}
	now, before := termNamed(p, observed), termNamed(old, observed)
	return now == nil || before == nil || !same(now, before)
}

func termNamed(p *policyv1alpha1.Placement, name string) *policyv1alpha1.ClusterAffinityTerm {
	for i := range p.ClusterAffinities {
		if p.ClusterAffinities[i].AffinityName == name {
			return &p.ClusterAffinities[i]
		}
	}
	return nil
}
