package divide

import "slices"

// How is what a division starts from.
type How string

const (
	// ByWeight: all replicas, by given weights.
	ByWeight How = "weights"
	// Afresh: all replicas, by the room there would be if nothing were placed.
	Afresh How = "afresh"
	// More: the replicas that are missing, by the room that is left; they come on top.
	More How = "more"
	// Fewer: all replicas, by what each member has now.
	Fewer How = "fewer"
	// Same: nothing to divide, what is there stays.
	Same How = "same"
	// Kept: these stay as they are and take no part.
	Kept How = "kept"
	// Whole: each member gets all of it.
	Whole How = "whole"
)

// Step is one division as arithmetic: Seats are dealt out by Weights and give Dealt, which comes on
// top of Kept. The sums hold: Dealt adds up to Seats, or there is Short.
type Step struct {
	How   How
	Seats int32
	// Weights of those that took part, in the order of the pool.
	Weights []Weight
	// Spared are members of the pool that were not needed; Aggregated alone has them.
	Spared []Weight
	Kept   []Share
	Dealt  []Share
	// Short is set if there was not enough room; then Dealt is empty.
	Short *ShortError
}

// ExplainStatic is the arithmetic of Static.
func ExplainStatic(replicas int32, weights []Weight, tie Tie) Step {
	s := Step{How: ByWeight, Seats: replicas, Weights: orEqual(weights)}
	s.Dealt = Webster(replicas, s.Weights, nil, tie)
	return s
}

// Explain is the arithmetic of Divide.
func (d Dynamic) Explain() Step {
	split := d.split()
	s := Step{How: split.how, Seats: split.seats, Weights: split.pool, Kept: split.kept}
	if split.how == Same {
		return s
	}
	if room := sumOf(split.pool); room < int64(split.seats) {
		s.Short = &ShortError{Have: room, Need: split.seats}
		return s
	}
	if d.Aggregated {
		s.Weights = fewest(split.pool, split.kept, int64(split.seats))
		for _, w := range split.pool {
			if !slices.ContainsFunc(s.Weights, func(used Weight) bool { return used.Name == w.Name }) {
				s.Spared = append(s.Spared, w)
			}
		}
	}
	s.Dealt = Webster(split.seats, s.Weights, nil, d.Tie)
	return s
}
