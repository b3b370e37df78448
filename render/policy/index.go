package policy

import (
	"cmp"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// Precision says how closely a selector describes a template; the larger one wins. Karmada calls
// it implicit priority.
type Precision int

const (
	NoMatch     Precision = iota
	MatchKind             // every object of the kind, or every object
	MatchLabels           // by label selector, an empty one included
	MatchName             // by name
)

// String completes "it is selected ...".
func (p Precision) String() string {
	return [...]string{"not at all", "by kind", "by labels", "by name"}[p]
}

// Selection is what one policy selects.
type Selection struct {
	// Namespace limits a selection without selectors; empty means any namespace.
	Namespace string
	// Selectors: none means every object in Namespace.
	Selectors []policyv1alpha1.ResourceSelector
}

// Index finds the selections that match an object without looking at the others.
type Index struct {
	every map[string][]int // by namespace: selections without selectors
	kinds map[kindKey]*bucket
}

// Match is a selection that matches, by its position, and how precisely.
type Match struct {
	Position  int
	Precision Precision
}

type kindKey struct{ group, version, kind, namespace string }

// bucket holds the selectors of one kind and namespace.
type bucket struct {
	named    map[string][]int
	all      []int
	labelled map[label][]byLabels
	// unlabelled selectors look at labels, but no label must be there for them to match.
	unlabelled []byLabels
}

type label struct{ key, value string }

type byLabels struct {
	position int
	selector labels.Selector
}

// NewIndex indexes selections; their positions are the answers of Match. A selector with an invalid
// label selector matches nothing, as in Karmada.
func NewIndex(selections []Selection) *Index {
	x := &Index{every: map[string][]int{}, kinds: map[kindKey]*bucket{}}
	usage := map[label]int{}
	var waiting []func()
	for i, selection := range selections {
		if len(selection.Selectors) == 0 {
			x.every[selection.Namespace] = append(x.every[selection.Namespace], i)
		}
		for _, s := range selection.Selectors {
			b := x.bucket(s)
			switch {
			case s.Name != "":
				b.named[s.Name] = append(b.named[s.Name], i)
			case s.LabelSelector == nil:
				b.all = append(b.all, i)
			default:
				selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
				if err != nil {
					continue
				}
				for l := range demanded(selector) {
					usage[l]++
				}
				waiting = append(waiting, func() { b.add(byLabels{i, selector}, usage) })
			}
		}
	}
	for _, add := range waiting {
		add()
	}
	return x
}

func (x *Index) bucket(s policyv1alpha1.ResourceSelector) *bucket {
	key := kindKey{kind: s.Kind, namespace: s.Namespace}
	key.group, key.version = api.SplitAPIVersion(s.APIVersion)
	b := x.kinds[key]
	if b == nil {
		b = &bucket{named: map[string][]int{}, labelled: map[label][]byLabels{}}
		x.kinds[key] = b
	}
	return b
}

// demanded yields the labels of which a selector demands one, requirement by requirement, with the
// number of the requirement.
func demanded(selector labels.Selector) iter.Seq2[label, int] {
	return func(yield func(label, int) bool) {
		requirements, _ := selector.Requirements()
		for i, r := range requirements {
			switch r.Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				for value := range r.Values() {
					if !yield(label{r.Key(), value}, i) {
						return
					}
				}
			}
		}
	}
}

// add files the selector under the labels of the one requirement whose most common label is the
// rarest: a selector on app and tier is found through app if there are many apps and few tiers.
func (b *bucket) add(s byLabels, usage map[label]int) {
	cost := map[int]int{}
	for l, i := range demanded(s.selector) {
		cost[i] = max(cost[i], usage[l])
	}
	best := -1
	for i := range cost {
		if best < 0 || cmp.Or(cmp.Compare(cost[i], cost[best]), cmp.Compare(i, best)) < 0 {
			best = i
		}
	}
	if best < 0 {
		b.unlabelled = append(b.unlabelled, s)
	}
	for l, i := range demanded(s.selector) {
		if i == best {
			b.labelled[l] = append(b.labelled[l], s)
		}
	}
}

// Match returns the selections that match, each once with its best precision, by position.
func (x *Index) Match(id api.ID, set map[string]string) []Match {
	var matches []Match
	found := func(positions []int, p Precision) {
		for _, i := range positions {
			matches = append(matches, Match{i, p})
		}
	}
	tested := func(selectors []byLabels) {
		for _, s := range selectors {
			if s.selector.Matches(labels.Set(set)) {
				matches = append(matches, Match{s.position, MatchLabels})
			}
		}
	}
	namespaces := [...]string{id.Namespace, ""}
	for i, namespace := range namespaces {
		if i == 1 && id.Namespace == "" {
			break
		}
		found(x.every[namespace], MatchKind)
		b := x.kinds[kindKey{id.Group, id.Version, id.Kind, namespace}]
		if b == nil {
			continue
		}
		found(b.named[id.Name], MatchName)
		found(b.all, MatchKind)
		tested(b.unlabelled)
		if len(b.labelled) > 0 {
			for k, v := range set {
				tested(b.labelled[label{k, v}])
			}
		}
	}
	slices.SortFunc(matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(b.Precision, a.Precision))
	})
	return slices.CompactFunc(matches, func(a, b Match) bool { return a.Position == b.Position })
}
