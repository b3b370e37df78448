package affinity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// NodeMatcher is a compiled NodeClaim.
type NodeMatcher struct {
	selector    labels.Selector
	terms       []labels.Selector // one of them must match
	anyTerm     bool              // there is no affinity
	tolerations []corev1.Toleration
	keys        []string
	byName      bool
}

var anyNode = &NodeMatcher{selector: labels.Everything(), anyTerm: true}

// nodeOperators of node affinities.
var nodeOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// CompileNode prepares c for matching; nil asks for any node without taints. As on a member, one term
// of the affinity must match, and one that is empty or invalid matches no node.
func CompileNode(c *workv1alpha2.NodeClaim) *NodeMatcher {
	if c == nil {
		return anyNode
	}
	m := &NodeMatcher{selector: labels.SelectorFromSet(c.NodeSelector), anyTerm: c.HardNodeAffinity == nil, tolerations: c.Tolerations}
	for key := range c.NodeSelector {
		m.keys = append(m.keys, key)
	}
	if c.HardNodeAffinity != nil {
		for i := range c.HardNodeAffinity.NodeSelectorTerms {
			m.add(&c.HardNodeAffinity.NodeSelectorTerms[i])
		}
	}
	slices.Sort(m.keys)
	return m
}

func (m *NodeMatcher) add(term *corev1.NodeSelectorTerm) {
	m.byName = m.byName || len(term.MatchFields) > 0 // metadata.name is the only field there is
	selector, valid := labels.NewSelector(), len(term.MatchExpressions) > 0
	for _, e := range term.MatchExpressions {
		m.keys = append(m.keys, e.Key)
		r, err := labels.NewRequirement(e.Key, nodeOperators[e.Operator], e.Values)
		if err != nil {
			valid = false
			continue
		}
		selector = selector.Add(*r)
	}
	if valid {
		m.terms = append(m.terms, selector)
	}
}

// LooksAt tells whether the label decides.
func (m *NodeMatcher) LooksAt(label string) bool {
	_, found := slices.BinarySearch(m.keys, label)
	return found
}

// ByName tells whether nodes are also chosen by their names, which Matches is not given.
func (m *NodeMatcher) ByName() bool { return m.byName }

// Matches reports whether a pod may go to nodes with these labels and taints, which are of the effects
// NoSchedule and NoExecute.
func (m *NodeMatcher) Matches(set map[string]string, taints []corev1.Taint) bool {
	for i := range taints {
		if !slices.ContainsFunc(m.tolerations, func(t corev1.Toleration) bool { return Tolerates(&t, &taints[i]) }) {
			return false
		}
	}
	return m.selector.Matches(labels.Set(set)) && (m.anyTerm || slices.ContainsFunc(m.terms, func(s labels.Selector) bool { return s.Matches(labels.Set(set)) }))
}
