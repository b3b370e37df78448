package affinity

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// Cluster is what an affinity can see of a cluster. Empty means the cluster does not have it.
type Cluster struct {
	Name             string
	Labels           map[string]string
	Provider, Region string
	Zones            []string
}

// Of returns the part of c that affinities see; labels and zones are shared with c. The deprecated
// spec.zone counts as the only zone if spec.zones is empty.
func Of(c *clusterv1alpha1.Cluster) Cluster {
	zones := c.Spec.Zones
	if len(zones) == 0 && c.Spec.Zone != "" {
		zones = []string{c.Spec.Zone}
	}
	return Cluster{Name: c.Name, Labels: c.Labels, Provider: c.Spec.Provider, Region: c.Spec.Region, Zones: zones}
}

// Matcher is a compiled ClusterAffinity.
type Matcher struct {
	names, excluded []string // sorted
	labels, fields  labels.Selector
	zones           []corev1.NodeSelectorRequirement
	invalid         error
}

var everything = &Matcher{}

// Compile prepares a for matching. A nil or empty affinity matches every cluster; one with an
// invalid selector matches none. The affinity must not change afterwards.
func Compile(a *policyv1alpha1.ClusterAffinity) *Matcher {
	if a == nil {
		return everything
	}
	m := &Matcher{names: sorted(a.ClusterNames), excluded: sorted(a.ExcludeClusters)}
	if a.LabelSelector != nil {
		m.labels, m.invalid = metav1.LabelSelectorAsSelector(a.LabelSelector)
	}
	if a.FieldSelector != nil && m.invalid == nil {
		m.invalid = m.compileFields(a.FieldSelector.MatchExpressions)
	}
	return m
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// compileFields keeps expressions on zones, a list, apart from the others, which read like labels.
func (m *Matcher) compileFields(expressions []corev1.NodeSelectorRequirement) error {
	fields := labels.NewSelector()
	for _, e := range expressions {
		op, known := operators[e.Operator]
		if !known {
			return fmt.Errorf("fieldSelector: operator %q of %s is not In or NotIn", e.Operator, e.Key)
		}
		if e.Key == "zone" {
			m.zones = append(m.zones, e)
			continue
		}
		r, err := labels.NewRequirement(e.Key, op, e.Values)
		if err != nil {
			return fmt.Errorf("fieldSelector: %w", err)
		}
		fields = fields.Add(*r)
	}
	m.fields = fields
	return nil
}

// operators of field selectors. Validation lets only In and NotIn pass.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// part is the part of an affinity that a cluster does not satisfy.
type part int

const (
	none part = iota
	validity
	exclude
	labelSelector
	fieldSelector
	zoneSelector
	clusterNames
)

// Matches reports whether the affinity selects c.
func (m *Matcher) Matches(c *Cluster) bool { return m.failing(c) == none }

// Refusal says in a few words why the affinity does not select c, with the values compared; it is
// empty if it does.
func (m *Matcher) Refusal(c *Cluster) string {
	switch m.failing(c) {
	case validity:
		return m.invalid.Error()
	case exclude:
		return "excluded by name"
	case labelSelector:
		return fmt.Sprintf("labels do not match %s", m.labels)
	case fieldSelector:
		return fmt.Sprintf("provider %q and region %q do not match %s", c.Provider, c.Region, m.fields)
	case zoneSelector:
		for i := range m.zones {
			if e := &m.zones[i]; !zonesMatch(e, c.Zones) {
				return fmt.Sprintf("zones %q do not match zone %s %q", c.Zones, e.Operator, e.Values)
			}
		}
	case clusterNames:
		return "not in clusterNames"
	}
	return ""
}

func (m *Matcher) failing(c *Cluster) part {
	switch {
	case m.invalid != nil:
		return validity
	case contains(m.excluded, c.Name):
		return exclude
	case m.labels != nil && !m.labels.Matches(labels.Set(c.Labels)):
		return labelSelector
	case m.fields != nil && !m.fields.Matches((*fields)(c)):
		return fieldSelector
	case len(m.names) > 0 && !contains(m.names, c.Name):
		return clusterNames
	}
	for i := range m.zones {
		if !zonesMatch(&m.zones[i], c.Zones) {
			return zoneSelector
		}
	}
	return none
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// zonesMatch compares the values with all zones of a cluster: In wants one of them among the
// values, NotIn wants none.
func zonesMatch(e *corev1.NodeSelectorRequirement, zones []string) bool {
	listed := slices.ContainsFunc(zones, func(z string) bool { return slices.Contains(e.Values, z) })
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return listed
	case corev1.NodeSelectorOpNotIn:
		return !listed
	case corev1.NodeSelectorOpExists:
		return len(zones) > 0
	default: // DoesNotExist; compileFields knows no other
		return len(zones) == 0
	}
}

// fields shows provider and region as labels; an empty one is an absent label.
type fields Cluster

func (f *fields) Lookup(key string) (value string, exists bool) {
	switch key {
	case "provider":
		value = f.Provider
	case "region":
		value = f.Region
	}
	return value, value != ""
}

func (f *fields) Has(key string) bool { _, exists := f.Lookup(key); return exists }

func (f *fields) Get(key string) string { value, _ := f.Lookup(key); return value }

// Tolerates reports whether t tolerates the taint. An empty effect tolerates every effect, an empty
// key with Exists every key. Lt and Gt tolerate nothing, as in Karmada. For how long is not asked.
func Tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
