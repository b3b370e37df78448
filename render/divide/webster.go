package divide

import (
	"cmp"
	"slices"
)

// Weight is a name with its votes, weight or room; below 0 counts as 0.
type Weight struct {
	Name   string
	Weight int64
}

// Share is a name with what it has.
type Share struct {
	Name     string
	Replicas int32
}

// Tie says which name goes first when quotients and seats are equal.
type Tie bool

const (
	SmallerNameFirst Tie = false
	LargerNameFirst  Tie = true
)

// TieOf derives the tie rule from the UID of a template, so that the odd replicas of many templates
// do not all end up in the same place: an odd hash favours larger names. Without UID, smaller
// names go first.
func TieOf(uid string) Tie {
	if uid == "" {
		return SmallerNameFirst
	}
	hash := uint32(2166136261) // FNV-1a
	for i := range len(uid) {
		hash = (hash ^ uint32(uid[i])) * 16777619
	}
	return Tie(hash%2 == 1)
}

// Webster hands out seats one by one: each goes to the name with the largest votes/(2*seats+1),
// among equals to the one with fewer seats, then by tie. initial seats are there before the first;
// names that are only in initial have no votes. The result has all names with their seats, those
// with none too, sorted by name. Without any vote nothing is handed out.
func Webster(seats int32, votes []Weight, initial []Share, tie Tie) []Share {
	parties := parties(votes, initial)
	seats -= headStart(seats, parties)
	if seats > 0 {
		queue := newQueue(parties, tie)
		for ; seats > 0 && len(queue.order) > 0; seats-- {
			queue.seat()
		}
	}
	shares := make([]Share, len(parties))
	for i := range parties {
		shares[i] = Share{parties[i].name, parties[i].seats}
	}
	return shares
}

// party is a name that takes part. Its quotient is votes/(2*seats+1).
type party struct {
	name     string
	votes    float64
	seats    int32
	quotient float64
}

func (p *party) setSeats(n int32) {
	p.seats = n
	p.quotient = p.votes / float64(2*int64(n)+1)
}

// parties joins votes and initial seats, sorted by name.
func parties(votes []Weight, initial []Share) []party {
	list := make([]party, len(votes), len(votes)+len(initial))
	for i, v := range votes {
		list[i] = party{name: v.Name, votes: float64(max(v.Weight, 0))}
	}
	byName := func(a, b party) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(list, byName) {
		slices.SortFunc(list, byName)
	}
	voters := list
	for _, s := range initial {
		at, found := slices.BinarySearchFunc(voters, s.Name, func(p party, name string) int { return cmp.Compare(p.name, name) })
		if found {
			voters[at].seats = s.Replicas
		} else {
			list = append(list, party{name: s.Name, seats: s.Replicas})
		}
	}
	if len(list) > len(voters) {
		slices.SortFunc(list, byName)
	}
	for i := range list {
		list[i].setSeats(list[i].seats)
	}
	return list
}

// headStart seats at once what Webster would seat anyway, and returns how many that were; it spares
// the queue nearly all of a large number of seats.
//
// Let L be the quotient for which votes/(2L) adds up to seats - parties/2. A name takes at most
// votes/(2L) + 1/2 seats at quotients of L and above, so all names together take at most seats of
// them: none of these seats can be missing in the end. Rounding down, and leaving one seat more out
// of account, is far more than what floats can be wrong by.
func headStart(seats int32, parties []party) (seated int32) {
	var votes float64
	for i := range parties {
		votes += parties[i].votes
	}
	certain := float64(seats) - float64(len(parties))/2 - 1
	if votes == 0 || certain <= 0 {
		return 0
	}
	for i := range parties {
		p := &parties[i]
		if n := int32(certain * (p.votes / votes)); n > p.seats {
			seated += n - p.seats
			p.setSeats(n)
		}
	}
	return seated
}

// queue is a heap of the parties with votes; the one that gets the next seat is on top.
type queue struct {
	parties []party
	order   []int32 // indices of parties, which are sorted by name
	tie     Tie
}

func newQueue(parties []party, tie Tie) *queue {
	q := &queue{parties: parties, order: make([]int32, 0, len(parties)), tie: tie}
	for i := range parties {
		if parties[i].votes > 0 {
			q.order = append(q.order, int32(i))
		}
	}
	for i := len(q.order)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	return q
}

// seat gives a seat to the party on top.
func (q *queue) seat() {
	p := &q.parties[q.order[0]]
	p.setSeats(p.seats + 1)
	q.down(0)
}

func (q *queue) before(i, j int32) bool {
	a, b := &q.parties[i], &q.parties[j]
	if a.quotient != b.quotient {
		return a.quotient > b.quotient
	}
	if a.seats != b.seats {
		return a.seats < b.seats
	}
	return (i < j) != bool(q.tie)
}

func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.order) {
			return
		}
		if next := child + 1; next < len(q.order) && q.before(q.order[next], q.order[child]) {
			child = next
		}
		if !q.before(q.order[child], q.order[i]) {
			return
		}
		q.order[i], q.order[child] = q.order[child], q.order[i]
		i = child
	}
}
