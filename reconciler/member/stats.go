package member

import (
	"maps"
	"slices"
	"time"
)

// Stats are figures of one member that no decision needs.
type Stats struct {
	// LastSuccess is when a probe last went well; zero means that none did.
	LastSuccess time.Time
	// Queue is how many objects are due or in work.
	Queue int
	// CredentialsEnd is when those of the member end; zero means that they do not, or do not tell.
	CredentialsEnd time.Time
}

// Stats gives figures of the members that are set, for metrics. It waits for no member.
func (f *Fleet) Stats() map[string]Stats {
	f.mu.Lock()
	members := maps.Clone(f.members)
	f.mu.Unlock()
	all := make(map[string]Stats, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all[name] = members[name].stats()
	}
	return all
}

func (m *member) stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{LastSuccess: m.succeeded, Queue: m.queue.length(m.options.Clock.Now())}
	if m.link != nil {
		s.CredentialsEnd = m.link.valid.until
	}
	return s
}
