package schedule

import (
	"cmp"
	"slices"
)

// chooseGroups chooses between least and most groups that together have at least target clusters,
// the heaviest in order; nil if there are none.
//
// It gives the answer of Karmada's search through all combinations, without the search. There,
// groups are sorted by size, weight and name; combinations grow in that order until they satisfy,
// and then are complete. The complete one with the largest weight wins, then the one with the most
// clusters, then the first. If, ordered by weight, the beginning of it is complete too, that is
// enough.
func chooseGroups(groups []*clusterGroup, least, most, target int) []*clusterGroup {
	sorted := slices.Clone(groups)
	slices.SortFunc(sorted, func(a, b *clusterGroup) int {
		return cmp.Or(cmp.Compare(len(a.members), len(b.members)), cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	s := groupSearch{groups: sorted, least: least, most: min(most, len(sorted)), target: target, known: map[groupState]groupSum{}}
	var best []*clusterGroup
	for at := (groupState{}); !s.complete(at); {
		sum := s.best(at)
		if !sum.possible {
			return nil
		}
		if sum.take {
			best = append(best, sorted[at.next])
			at = s.with(at)
		} else {
			at.next++
		}
	}
	slices.SortFunc(best, func(a, b *clusterGroup) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	for n := least; n < len(best); n++ {
		if s.completes(best[:n]) {
			return best[:n]
		}
	}
	return best
}

// groupSearch finds the best way to complete a combination, each state once.
type groupSearch struct {
	groups              []*clusterGroup
	least, most, target int
	known               map[groupState]groupSum
}

// groupState is a combination as far as what may follow depends on it.
type groupState struct{ next, count, clusters int } // clusters up to target

// groupSum is what the best completion adds.
type groupSum struct {
	possible bool
	take     bool // the next group is part of it
	weight   int64
	clusters int
}

func (s *groupSearch) complete(at groupState) bool {
	return at.clusters >= s.target && at.count >= s.least && at.count <= s.most
}

func (s *groupSearch) with(at groupState) groupState {
	return groupState{at.next + 1, at.count + 1, min(at.clusters+len(s.groups[at.next].members), s.target)}
}

func (s *groupSearch) best(at groupState) groupSum {
	if s.complete(at) {
		return groupSum{possible: true}
	}
	if at.count >= s.most || at.next == len(s.groups) {
		return groupSum{}
	}
	if sum, found := s.known[at]; found {
		return sum
	}
	without := s.best(groupState{at.next + 1, at.count, at.clusters})
	without.take = false
	with := s.best(s.with(at))
	with.take = true
	with.weight += s.groups[at.next].weight
	with.clusters += len(s.groups[at.next].members)
	best := without
	// Among equals the one with the earlier group comes first in Karmada's search.
	if with.possible && (!without.possible || cmp.Or(cmp.Compare(with.weight, without.weight), cmp.Compare(with.clusters, without.clusters)) >= 0) {
		best = with
	}
	s.known[at] = best
	return best
}

// completes reports whether exactly these groups are a complete combination: they satisfy, and without
// the last of them in the order of the search they would not.
func (s *groupSearch) completes(groups []*clusterGroup) bool {
	at := groupState{}
	for i, g := range s.groups {
		if !slices.Contains(groups, g) {
			continue
		}
		if s.complete(at) {
			return false
		}
		at.next = i
		at = s.with(at)
	}
	return s.complete(at)
}
