package roster

import "time"

// Standing is what one replica knows of its own part. Lease and roster are read and written by others, who tell it.
type Standing struct {
	// Name of the replica.
	Name string
	// Deadline is how long after a renewal was sent the replica may still serve. It is shorter than what the others
	// wait before they take it for dead.
	Deadline time.Duration

	held   bool
	sent   time.Time // the last renewal that came through
	since  time.Time // when the Lease was last regained: what was asked for before says nothing
	known  bool      // the roster was read since
	roster Roster
}

// Renewed says that a renewal, sent at one time and answered at another, came through.
func (s *Standing) Renewed(sent, answered time.Time) {
	if !s.held || answered.After(s.Until()) {
		// Others may have taken us for dead meanwhile, and serve what we did.
		s.held, s.since, s.known, s.roster = true, answered, false, Roster{}
	}
	s.sent = sent
}

// Released says that the Lease was given back.
func (s *Standing) Released() { *s = Standing{Name: s.Name, Deadline: s.Deadline} }

// Until is when the replica stops to serve, unless it renews before.
func (s *Standing) Until() time.Time { return s.sent.Add(s.Deadline) }

// Saw says what the roster was when it was asked for, or later.
func (s *Standing) Saw(r Roster, asked time.Time) {
	if !s.held || asked.Before(s.since) {
		return
	}
	s.known, s.roster = true, r
}

// Share is what the replica serves at a time.
func (s *Standing) Share(now time.Time) Share {
	if !s.held || !s.known || now.After(s.Until()) {
		return Share{}
	}
	return Share{Name: s.Name, Roster: s.roster}
}

// Share is the part of one replica; the zero value is none.
type Share struct {
	Name   string
	Roster Roster
}

// Has tells whether a member is in it.
func (s Share) Has(member string) bool { return s.Name != "" && s.Roster.Serves(member) == s.Name }

// Same tells whether two shares are of the same members.
func (s Share) Same(o Share) bool { return s.Name == o.Name && s.Roster.Same(o.Roster) }

// Presence tells which replicas renew their Leases. The times on them, of other clocks, do not count.
type Presence struct {
	// Duration is how long a replica may be silent.
	Duration time.Duration

	seen map[string]sight
}

type sight struct {
	mark string
	at   time.Time
}

// Silent is how long a replica has been silent, at least, at a time that was asked at; 0 for one that nobody knows.
func (p *Presence) Silent(name string, asked time.Time) time.Duration {
	if s, known := p.seen[name]; known {
		return asked.Sub(s.at)
	}
	return 0
}

// Live are those of the replicas that are not silent. marks are what their Leases said, which change with each renewal,
// as of a time between asked and answered.
func (p *Presence) Live(marks map[string]string, asked, answered time.Time) map[string]bool {
	seen, live := make(map[string]sight, len(marks)), map[string]bool{}
	for name, mark := range marks {
		s, known := p.seen[name]
		if !known || s.mark != mark {
			s = sight{mark, answered}
		}
		seen[name] = s
		if asked.Sub(s.at) < p.Duration {
			live[name] = true
		}
	}
	p.seen = seen
	return live
}
