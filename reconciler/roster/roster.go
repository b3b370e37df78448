package roster

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Owner is the replica that a member belongs to, by the highest of their hashes; empty if there is no replica.
func Owner(replicas []string, member string) string {
	owner, best := "", uint64(0)
	for _, name := range replicas {
		sum := sha256.Sum256([]byte(name + "\x00" + member))
		if weight := binary.BigEndian.Uint64(sum[:]); owner == "" || weight > best || weight == best && name < owner {
			owner, best = name, weight
		}
	}
	return owner
}

// Roster is who takes part. The zero value is where nobody does, and nobody knows who did.
type Roster struct {
	// Epoch grows with each change of Replicas.
	Epoch int64 `json:"epoch"`
	// Replicas are those that members are divided over, sorted.
	Replicas []string `json:"replicas"`
	// Before are those of the epoch that was settled last, while this one is not. Where nobody knows there are none, and
	// nobody serves anything until it is settled.
	Before []string `json:"before,omitempty"`
	// Settled: what had to be given up was.
	Settled bool `json:"settled"`
}

// Serves is the replica that a member is served by now; empty if none is.
func (r Roster) Serves(member string) string {
	owner := Owner(r.Replicas, member)
	if !r.Settled && Owner(r.Before, member) != owner {
		return ""
	}
	return owner
}

// Same tells whether two rosters say the same.
func (r Roster) Same(o Roster) bool {
	return r.Epoch == o.Epoch && r.Settled == o.Settled && slices.Equal(r.Replicas, o.Replicas) && slices.Equal(r.Before, o.Before)
}

// MaxEpoch is more than there can be in any time. One that is larger was written by nobody of ours.
const MaxEpoch = 1 << 53

// Next is the roster that follows, given the replicas that live and the epoch that each of them acknowledged. It is the
// same where there is nothing to change.
func (r Roster) Next(live map[string]int64) Roster {
	now := slices.Sorted(maps.Keys(live))
	switch {
	case len(now) == 0: // we see nobody, not even ourselves
		return r
	case !slices.Equal(now, r.Replicas) || r.Epoch == 0:
		next := Roster{Epoch: r.Epoch, Replicas: now, Before: r.Before}
		if r.Settled {
			next.Before = r.Replicas
		}
		for _, acknowledged := range live { // more than ours where the roster was lost
			if acknowledged <= MaxEpoch {
				next.Epoch = max(next.Epoch, acknowledged)
			}
		}
		if next.Epoch++; next.Epoch <= MaxEpoch {
			return next
		}
		next.Epoch = 1 // anew, with one that nobody follows
		for next.Epoch == r.Epoch || slices.Contains(slices.Collect(maps.Values(live)), next.Epoch) {
			next.Epoch++
		}
		return next
	case r.Settled:
		return r
	}
	for _, acknowledged := range live {
		if acknowledged != r.Epoch {
			return r
		}
	}
	return Roster{Epoch: r.Epoch, Replicas: r.Replicas, Settled: true}
}

// Encode writes a roster down.
func (r Roster) Encode() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // there is nothing in it that could not be
	}
	return string(text)
}

// maxReplicas is more than anybody has.
const maxReplicas = 1000

// Decode reads a roster.
func Decode(text string) (Roster, error) {
	var r Roster
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Roster{}, fmt.Errorf("the roster of replicas: %w", err)
	}
	for _, names := range [][]string{r.Replicas, r.Before} {
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || slices.Contains(names, "") || len(names) > maxReplicas {
			return Roster{}, errors.New("the roster of replicas: names are not sorted, or not each there once")
		}
	}
	if r.Epoch < 1 || r.Epoch > MaxEpoch || len(r.Replicas) == 0 || r.Settled && len(r.Before) > 0 {
		return Roster{}, errors.New("the roster of replicas: is none that we wrote")
	}
	return r, nil
}
