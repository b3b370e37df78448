package roster

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What the machine is played with: whole seconds, so that edges meet.
const (
	duration = 6 * time.Second
	deadline = 4 * time.Second
)

var members = names("m", 12)

// server is what the management cluster has.
type server struct {
	leases  map[string]lease
	roster  Roster
	version int
	leader  string // who holds the leader's Lease
	turns   int
}

type lease struct {
	turn  int
	acked int64
}

// replica is a process. What it began is under way until the schedule lets it end, so that all delays occur.
type replica struct {
	name     string
	running  bool
	paused   bool
	standing *Standing
	presence *Presence
	acked    int64
	serving  map[string]bool // by the fleet: it follows the share when it is told
	renewal  *time.Time      // sent, and not answered
	arrived  bool            // but at the server
	list     *listing
	write    *writing
}

type listing struct {
	asked, answered time.Time
	read            bool
	marks           map[string]string
	acks            map[string]int64
	roster          Roster
	version         int
}

type writing struct {
	next    Roster
	version int
}

type world struct {
	*server
	now      time.Time
	replicas []*replica
}

func (r *replica) start() {
	*r = replica{name: r.name, running: true, standing: &Standing{Name: r.name, Deadline: deadline}, presence: &Presence{Duration: duration}, serving: map[string]bool{}}
}

// writes tells whether a replica may write to a member at this moment: its fleet has it, and each write asks again.
func (w *world) writes(r *replica, member string) bool {
	return r.running && !r.paused && r.serving[member] && r.standing.Share(w.now).Has(member)
}

// follow has the fleet serve the share, and tells whether what it lost has ended.
func (w *world) follow(r *replica) {
	share := r.standing.Share(w.now)
	clear(r.serving)
	for _, m := range members {
		if share.Has(m) {
			r.serving[m] = true
		}
	}
	if share.Name != "" {
		r.acked = share.Roster.Epoch
	}
}

// step does one thing of a replica.
func (w *world) step(r *replica, what string) {
	switch what {
	case "renew": // send, arrive, be answered
		switch {
		case r.renewal == nil:
			sent := w.now
			r.renewal, r.arrived = &sent, false
		case !r.arrived:
			w.turns++
			w.leases[r.name], r.arrived = lease{w.turns, r.acked}, true
		default:
			r.standing.Renewed(*r.renewal, w.now)
			r.renewal = nil
		}
	case "list":
		switch l := r.list; {
		case l == nil:
			r.list = &listing{asked: w.now}
		case !l.read:
			l.read, l.marks, l.acks, l.roster, l.version = true, map[string]string{}, map[string]int64{}, w.roster, w.version
			for name, at := range w.leases {
				l.marks[name], l.acks[name] = fmt.Sprint(at.turn), at.acked
			}
		default:
			r.standing.Saw(l.roster, l.asked)
			live := r.presence.Live(l.marks, l.asked, w.now)
			if w.leader == r.name && r.write == nil {
				maps.DeleteFunc(l.acks, func(name string, _ int64) bool { return !live[name] })
				if next := l.roster.Next(l.acks); !next.Same(l.roster) {
					r.write = &writing{next, l.version}
				}
			}
			r.list = nil
		}
	case "follow":
		w.follow(r)
	case "write":
		if r.write != nil && r.write.version == w.version {
			w.roster = r.write.next
			w.version++
		}
		r.write = nil
	}
}

func (w *world) check(t *rapid.T) {
	for _, m := range members {
		var by []string
		for _, r := range w.replicas {
			if w.writes(r, m) {
				by = append(by, r.name)
			}
		}
		if len(by) > 1 {
			t.Fatalf("%s is written to by %v at %s; the roster is %+v", m, by, w.now.Sub(time.Time{}), w.roster)
		}
	}
}

var chaos = []string{
	"step", "step", "step", "step", "round", "round", "second", "second", "second", "second", "tick", "tick",
	"pause", "kill", "start", "lead", "lose", "leave",
}

// No schedule of replicas that die, pause and come back, of requests that take their time and leaders that change gives
// a member two writers; and once the chaos ends all members are served.
func TestNoScheduleGivesAMemberTwoWriters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{server: &server{leases: map[string]lease{}}}
		for _, name := range []string{"a", "b", "c"} {
			r := &replica{name: name}
			r.start()
			w.replicas = append(w.replicas, r)
		}
		w.leader = "a"
		actions := []string{"renew", "list", "follow", "write"}
		one := rapid.IntRange(0, len(w.replicas)-1)
		for range 250 {
			r := w.replicas[one.Draw(t, "replica")]
			switch what := rapid.SampledFrom(chaos).Draw(t, "what"); what {
			case "step":
				if r.running && !r.paused {
					w.step(r, rapid.SampledFrom(actions).Draw(t, "action"))
				}
			case "round":
				w.round(t, r)
			case "tick":
				w.now = w.now.Add(time.Second)
			case "second":
				w.second(t)
			case "pause":
				r.paused = !r.paused
			case "kill":
				r.running = false
			case "start":
				if !r.running {
					r.start()
				}
			case "lead":
				w.leader = r.name // the one before may have a write under way
			case "lose":
				if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 { // somebody deletes the roster
					w.roster = Roster{}
					w.version++
				}
			case "leave":
				if r.running && !r.paused {
					r.running = false
					delete(w.leases, r.name)
				}
			}
			w.check(t)
		}
		for _, r := range w.replicas {
			if r.paused = false; !r.running && rapid.Bool().Draw(t, "again") {
				r.start()
			}
		}
		i := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.running })
		if i < 0 {
			return
		}
		w.leader = w.replicas[i].name
		for range 20 {
			w.second(t)
		}
		for _, m := range members {
			if !slices.ContainsFunc(w.replicas, func(r *replica) bool { return w.writes(r, m) }) {
				t.Fatalf("nobody serves %s; the roster is %+v", m, w.roster)
			}
		}
	})
}

// second is one in which nothing hinders anybody.
func (w *world) second(t *rapid.T) {
	for _, r := range w.replicas {
		w.round(t, r)
	}
	w.now = w.now.Add(time.Second)
}

// round is what a replica does when nothing hinders it.
func (w *world) round(t *rapid.T, r *replica) {
	if !r.running || r.paused {
		return
	}
	for _, what := range []string{"renew", "renew", "renew", "list", "list", "list", "write", "follow"} {
		w.step(r, what)
		w.check(t)
	}
}

// What was asked for before the Lease was regained says nothing of what others began meanwhile.
func TestARosterFromBeforeTheLeaseWasRegainedDoesNotCount(t *testing.T) {
	at := func(seconds int) time.Time { return time.Time{}.Add(time.Duration(seconds) * time.Second) }
	alone := Roster{Epoch: 1, Replicas: []string{"a"}, Settled: true}
	s := &Standing{Name: "a", Deadline: deadline}
	s.Saw(alone, at(0))
	if s.Share(at(0)).Has("m") {
		t.Error("it serves without a Lease")
	}
	s.Renewed(at(1), at(2))
	s.Saw(alone, at(1))
	if s.Share(at(2)).Has("m") {
		t.Error("it follows what it asked for before it had the Lease")
	}
	s.Saw(alone, at(2))
	s.Renewed(at(4), at(5)) // in time
	if !s.Share(at(8)).Has("m") {
		t.Error("it does not serve what is its own")
	}
	if s.Share(at(9)).Has("m") {
		t.Error("it serves after the deadline")
	}
	s.Renewed(at(8), at(9)) // sent in time, and answered too late to know
	if s.Share(at(9)).Has("m") {
		t.Error("it serves without having looked again")
	}
	s.Saw(alone, at(8))
	if s.Share(at(9)).Has("m") {
		t.Error("it follows what it asked for before it had the Lease again")
	}
	s.Saw(alone, at(9))
	if !s.Share(at(10)).Has("m") {
		t.Error("it does not serve again")
	}
	s.Released()
	if s.Share(at(10)).Has("m") {
		t.Error("it serves after it gave the Lease back")
	}
}

func TestAReplicaIsSilentByOurOwnClock(t *testing.T) {
	at := func(seconds int) time.Time { return time.Time{}.Add(time.Duration(seconds) * time.Second) }
	p := &Presence{Duration: duration}
	for _, c := range []struct {
		asked, answered int
		mark            string
		live            bool
	}{
		{0, 1, "one", true}, // whenever it was renewed
		{6, 7, "one", true}, // it was there at 1, at the latest
		{7, 7, "one", false},
		{8, 9, "two", true},
		{14, 14, "two", true},
		{15, 15, "two", false},
	} {
		if live := p.Live(map[string]string{"a": c.mark}, at(c.asked), at(c.answered)); live["a"] != c.live {
			t.Errorf("at %d: live is %t, want %t", c.asked, live["a"], c.live)
		}
	}
	if got := p.Silent("a", at(20)); got != 11*time.Second {
		t.Errorf("it is silent for %s", got)
	}
	if got := p.Silent("b", at(20)); got != 0 {
		t.Errorf("one that nobody knows is silent for %s", got)
	}
	if live := p.Live(nil, at(15), at(15)); len(live) > 0 {
		t.Errorf("one that gave its Lease back lives: %v", live)
	}
}
