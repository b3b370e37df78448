package divide

import (
	"cmp"
	"fmt"
	"slices"
)

// Static divides replicas by weight. If no name has a weight, all count the same. The result has
// all names, sorted; what was there before plays no part.
func Static(replicas int32, weights []Weight, tie Tie) []Share {
	return Webster(replicas, orEqual(weights), nil, tie)
}

// orEqual are the weights, or, if there are none, the same one for all.
func orEqual(weights []Weight) []Weight {
	if slices.ContainsFunc(weights, func(w Weight) bool { return w.Weight > 0 }) {
		return weights
	}
	weights = slices.Clone(weights)
	for i := range weights {
		weights[i].Weight = 1
	}
	return weights
}

// Dynamic divides replicas by the room there is for them.
type Dynamic struct {
	// Replicas is the total wanted.
	Replicas int32
	// Room is how many more replicas each member can take, in order of preference.
	Room []Weight
	// Scheduled is what members of Room have now; its order breaks ties when scaling down.
	Scheduled []Share
	// Fresh divides everything anew; otherwise what is there stays where it is, as far as possible.
	Fresh bool
	// Aggregated uses as few members as possible, those that have replicas first.
	Aggregated bool
	Tie        Tie
}

// Divide returns the share of each member that takes part: sorted by name, then, also sorted by
// name, members that took no part and keep what they have. If nothing changes, it is Scheduled
// itself. The error is a *ShortError.
//
//   - Fresh: all replicas are divided by room, the room that Scheduled takes now included.
//   - More replicas than scheduled: the difference is divided by room, and comes on top.
//   - Fewer: they are divided by what each member has now.
func (d Dynamic) Divide() ([]Share, error) {
	s := d.split()
	if s.how == Same {
		return d.Scheduled, nil
	}
	if room := sumOf(s.pool); room < int64(s.seats) {
		return nil, &ShortError{Have: room, Need: s.seats}
	}
	if d.Aggregated {
		s.pool = fewest(s.pool, s.kept, int64(s.seats))
	}
	return merge(Webster(s.seats, s.pool, nil, d.Tie), s.kept), nil
}

// split is what is divided over whom.
type split struct {
	how   How
	seats int32
	pool  []Weight
	kept  []Share // what stays, and comes on top
}

func (d Dynamic) split() split {
	var assigned int64
	for _, s := range d.Scheduled {
		assigned += int64(s.Replicas)
	}
	switch {
	case d.Fresh:
		return split{Afresh, d.Replicas, d.roomOfAll(), nil}
	case assigned < int64(d.Replicas):
		return split{More, d.Replicas - int32(assigned), d.Room, d.Scheduled}
	case assigned > int64(d.Replicas):
		pool := make([]Weight, len(d.Scheduled))
		for i, s := range d.Scheduled {
			pool[i] = Weight{s.Name, int64(s.Replicas)}
		}
		return split{Fewer, d.Replicas, pool, nil}
	}
	return split{Same, 0, nil, d.Scheduled}
}

func sumOf(pool []Weight) (sum int64) {
	for _, w := range pool {
		sum += w.Weight
	}
	return sum
}

// ShortError: there is not enough room.
type ShortError struct {
	Have int64 // room of all members together
	Need int32 // replicas to place
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("available replicas %d are not enough for %d", e.Have, e.Need)
}

// roomOfAll is the room there would be if nothing were scheduled.
func (d Dynamic) roomOfAll() []Weight {
	pool := slices.Clone(d.Room)
	scheduled := byName(d.Scheduled)
	for i := range pool {
		pool[i].Weight += int64(scheduled[pool[i].Name])
	}
	return pool
}

// fewest cuts the pool to the largest members that suffice for target; those that keep replicas
// come before all others.
func fewest(pool []Weight, kept []Share, target int64) []Weight {
	pool = slices.Clone(pool)
	slices.SortStableFunc(pool, func(a, b Weight) int { return cmp.Compare(b.Weight, a.Weight) })
	if len(kept) > 0 {
		scheduled := byName(kept)
		pool = slices.Concat(
			slices.DeleteFunc(slices.Clone(pool), func(w Weight) bool { return scheduled[w.Name] == 0 }),
			slices.DeleteFunc(pool, func(w Weight) bool { return scheduled[w.Name] > 0 }))
	}
	var sum int64
	for i, w := range pool {
		if sum += w.Weight; sum >= target {
			return pool[:i+1]
		}
	}
	return pool
}

func byName(shares []Share) map[string]int32 {
	m := make(map[string]int32, len(shares))
	for _, s := range shares {
		m[s.Name] = s.Replicas
	}
	return m
}

// merge adds what was kept to shares; members that are only in kept follow, sorted by name.
func merge(shares, kept []Share) []Share {
	var rest []Share
	for _, k := range kept {
		if at, found := slices.BinarySearchFunc(shares, k.Name, func(s Share, name string) int { return cmp.Compare(s.Name, name) }); found {
			shares[at].Replicas += k.Replicas
		} else {
			rest = append(rest, k)
		}
	}
	slices.SortFunc(rest, func(a, b Share) int { return cmp.Compare(a.Name, b.Name) })
	return append(shares, rest...)
}
