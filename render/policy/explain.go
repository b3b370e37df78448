package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// Mismatch is one thing in which a selector and a template differ.
type Mismatch struct {
	// Field of the selector: apiVersion, kind, namespace, name or labelSelector.
	Field string
	// Want is what the selector says, Have what the template is.
	Want, Have string
}

// String is "name: web, and the template has wbe".
func (m Mismatch) String() string {
	return fmt.Sprintf("%s: %s, and the template has %s", m.Field, cmp.Or(m.Want, "none"), cmp.Or(m.Have, "none"))
}

// Miss is how close selectors come to a template.
type Miss struct {
	// Selector is the closest one; -1 if there are none.
	Selector int
	// Mismatches of it; none if it selects the template.
	Mismatches []Mismatch
	distance   int // of the names or labels
}

// Slip tells whether the difference may be one: one field alone, and if that is a name or labels, a
// few letters.
func (m Miss) Slip() bool {
	const letters = 3
	return len(m.Mismatches) == 1 && m.Mismatches[0].Field != "kind" && m.distance <= letters
}

// NearMiss is a policy that does not select a template.
type NearMiss struct {
	Policy *Policy
	Miss
}

// Compare tells which selector comes closest to the template, and what it differs in. namespace is
// that of the policy, empty for one of the cluster.
func Compare(namespace string, selectors []policyv1alpha1.ResourceSelector, t Template) Miss {
	if namespace != "" && t.ID.Namespace != namespace && len(selectors) == 0 {
		return Miss{Selector: -1, Mismatches: []Mismatch{{"namespace", namespace, t.ID.Namespace}}}
	}
	best := Miss{Selector: -1}
	for i := range selectors {
		m := Miss{i, mismatches(&selectors[i], t), 0}
		for _, f := range m.Mismatches {
			switch f.Field {
			case "name":
				m.distance += distance(f.Want, f.Have)
			case "labelSelector":
				m.distance += nearestLabel(f.Want, t.Labels)
			}
		}
		if i == 0 || m.compare(best) < 0 {
			best = m
		}
	}
	return best
}

func (m Miss) compare(o Miss) int {
	return cmp.Or(cmp.Compare(m.weight(), o.weight()), cmp.Compare(m.distance, o.distance))
}

// weight counts mismatches; another kind is further away than all else.
func (m Miss) weight() int {
	n := len(m.Mismatches)
	if slices.ContainsFunc(m.Mismatches, func(f Mismatch) bool { return f.Field == "kind" }) {
		n += 3
	}
	return n
}

func mismatches(s *policyv1alpha1.ResourceSelector, t Template) (list []Mismatch) {
	differ := func(field, want, have string) {
		if want != have {
			list = append(list, Mismatch{field, want, have})
		}
	}
	differ("apiVersion", s.APIVersion, t.ID.APIVersion())
	differ("kind", s.Kind, t.ID.Kind)
	if s.Namespace != "" {
		differ("namespace", s.Namespace, cmp.Or(t.ID.Namespace, "none, as it is cluster-scoped"))
	}
	switch {
	case s.Name != "":
		differ("name", s.Name, t.ID.Name)
	case s.LabelSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		switch {
		case err != nil:
			list = append(list, Mismatch{"labelSelector", "an invalid one", labelsText(t.Labels)})
		case !selector.Matches(labels.Set(t.Labels)):
			list = append(list, Mismatch{"labelSelector", selector.String(), labelsText(t.Labels)})
		}
	}
	return list
}

func labelsText(set map[string]string) string {
	if len(set) == 0 {
		return "no labels"
	}
	return labels.Set(set).String()
}

// Nearest returns at most n policies that do not select the template and come closest to it. A
// policy for another kind is not near.
func (s *Set) Nearest(t Template, n int) []NearMiss {
	var near []NearMiss
	for _, p := range s.Policies() {
		m := NearMiss{p, Compare(p.Namespace, p.Spec.ResourceSelectors, t)}
		if len(m.Mismatches) > 0 && !slices.ContainsFunc(m.Mismatches, func(f Mismatch) bool { return f.Field == "kind" }) {
			near = append(near, m)
		}
	}
	slices.SortStableFunc(near, func(a, b NearMiss) int { return a.compare(b.Miss) })
	return near[:min(n, len(near))]
}

// Line is the line of the selector that comes closest in the policy's file.
func (m NearMiss) Line() int {
	if m.Selector < 0 {
		return m.Policy.Source.Line("spec", "resourceSelectors")
	}
	return m.Policy.Source.Line(Path{"spec", "resourceSelectors"}.At(m.Selector)...)
}

// String says what keeps the policy from the template.
func (m Miss) String() string {
	words := make([]string, len(m.Mismatches))
	for i, f := range m.Mismatches {
		words[i] = f.String()
	}
	return strings.Join(words, "; ")
}

// Selector is the position of the selector by which the policy holds the template.
func (c *Choice) Selector(t Template) int {
	return Compare(c.Policy.Namespace, c.Policy.Spec.ResourceSelectors, t).Selector
}

// nearestLabel is the distance of a selector's text from the label that comes closest.
func nearestLabel(selector string, set map[string]string) int {
	nearest := len(selector)
	for k, v := range set {
		nearest = min(nearest, distance(selector, k+"="+v))
	}
	return nearest
}

// distance is how many letters must be added, removed or exchanged to make b of a. Long names are
// compared by their beginnings.
func distance(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			exchange := diagonal
			if a[i] != b[j] {
				exchange++
			}
			diagonal = row[j+1]
			row[j+1] = min(exchange, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
