package simulate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// member is a simulated cluster.
type member struct {
	ready  metav1.ConditionStatus
	since  time.Time
	copies map[api.ID]*replica
	gone   map[api.ID]bool
	// said: its manifest says which kinds it serves; else it serves all that there are templates of.
	said bool
	// set are healths and statuses that events gave, by workload.
	set []Event
	// facts are what was last seen of it; nil once something changed.
	facts *decide.MemberFacts
}

// replica is an object on a member.
type replica struct {
	hash string

	healthy time.Time
}

// fleet is all of them.
type fleet struct {
	members map[string]*member
	startup time.Duration
	kinds   []clusterv1alpha1.APIEnablement
}

// reasons of the Ready condition by status, as probes give them.
var reasons = map[metav1.ConditionStatus]string{
	metav1.ConditionTrue: "ClusterReady", metav1.ConditionFalse: "ClusterNotReady", metav1.ConditionUnknown: "ClusterStatusUnknown",
}

// meet adds members that are registered and not known yet: they have been up all the time.
func (f *fleet) meet(state *record.State, since time.Time) (met bool) {
	for name, c := range state.Members {
		if f.members[name] == nil {
			f.members[name] = &member{ready: metav1.ConditionTrue, since: since, said: len(c.Status.APIEnablements) > 0, copies: map[api.ID]*replica{}, gone: map[api.ID]bool{}}
			met = true
		}
	}
	return met
}

// restore lets members be as a state has them: they hold their works, in the health on record.
func (f *fleet) restore(state *record.State, now time.Time) error {
	f.meet(state, now)
	for name, c := range state.Members {
		for _, cond := range c.Status.Conditions {
			if cond.Type == clusterv1alpha1.ConditionReady {
				f.members[name].ready, f.members[name].since = cond.Status, cond.LastTransitionTime.UTC()
			}
		}
	}
	for _, w := range state.Works {
		w, err := record.Identify(w)
		if err != nil {
			return err
		}
		if m := f.members[w.Member]; m != nil {
			m.copies[w.ID.Unversioned()] = &replica{hash: decide.HashText(w.Hash)}
		}
	}
	for _, b := range state.Bindings {
		r := b.Spec.Resource
		for _, item := range b.Status.AggregatedStatus {
			m := f.members[item.ClusterName]
			if m == nil || item.Health == "" || item.Health == workv1alpha2.ResourceHealthy || !item.Applied {
				continue
			}
			m.set = append(m.set, Event{Workload: &Workload{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, Health: string(item.Health)})
		}
	}
	return nil
}

// learn lets members serve the kinds of these templates.
func (f *fleet) learn(templates []api.ID) (learnt bool) {
	for _, id := range templates {
		kind := clusterv1alpha1.APIEnablement{GroupVersion: id.APIVersion(), Resources: []clusterv1alpha1.APIResource{{Name: strings.ToLower(id.Kind) + "s", Kind: id.Kind}}}
		i, found := slices.BinarySearchFunc(f.kinds, kind, func(a, b clusterv1alpha1.APIEnablement) int {
			return cmp.Or(cmp.Compare(a.GroupVersion, b.GroupVersion), cmp.Compare(a.Resources[0].Kind, b.Resources[0].Kind))
		})
		if !found {
			f.kinds, learnt = slices.Insert(slices.Clone(f.kinds), i, kind), true
		}
	}
	for _, m := range f.members {
		if learnt && !m.said {
			m.facts = nil
		}
	}
	return learnt
}

// observe is what is seen now.
func (f *fleet) observe(now time.Time) decide.Observations {
	seen := decide.Observations{Members: make(map[string]decide.MemberFacts, len(f.members))}
	for name, m := range f.members {
		if m.facts == nil {
			m.facts = m.look(name, now)
			if !m.said {
				m.facts.APIs, m.facts.APIsComplete = f.kinds, true
			}
		}
		seen.Members[name] = *m.facts
	}
	return seen
}

func (m *member) look(name string, now time.Time) *decide.MemberFacts {
	facts := &decide.MemberFacts{
		Ready: m.ready, Reason: reasons[m.ready], Since: m.since, UID: "uid-of-" + name, Version: "v1.36.1",
		Copies: make(map[api.ID]decide.CopyFacts, len(m.copies)+len(m.gone)),
	}
	for id, c := range m.copies {
		health, status := m.healthOf(id, c, now)
		facts.Copies[id] = decide.CopyFacts{Applied: c.hash, Health: health, Status: status}
	}
	for id := range m.gone {
		c := facts.Copies[id]
		c.Gone = true
		facts.Copies[id] = c
	}
	return facts
}

// healthOf is what an event says last, else whether the copy has had its time.
func (m *member) healthOf(id api.ID, c *replica, now time.Time) (health workv1alpha2.ResourceHealth, status *runtime.RawExtension) {
	health = workv1alpha2.ResourceHealthy
	if now.Before(c.healthy) {
		health = workv1alpha2.ResourceUnhealthy
	}
	said := workv1alpha2.ResourceHealthy
	for _, e := range m.set {
		if !e.Workload.is(id) {
			continue
		}
		if e.Health != "" {
			said = workv1alpha2.ResourceHealth(e.Health)
		}
		if e.Status != nil {
			if raw, err := json.Marshal(e.Status); err == nil {
				status = &runtime.RawExtension{Raw: raw}
			}
		}
	}
	if said != workv1alpha2.ResourceHealthy {
		health = said
	}
	return health, status
}

// act lets members that are up take over what was decided. It tells whether anything changed.
func (f *fleet) act(d *decide.Decision, now time.Time) (changed bool, err error) {
	state := d.Next
	for _, path := range slices.Sorted(maps.Keys(state.Works)) {
		w := state.Works[path]
		m := f.members[w.Member]
		if m == nil {
			continue
		}
		if w, err = record.Identify(w); err != nil {
			return false, err
		}
		id, hash := w.ID.Unversioned(), decide.HashText(w.Hash)
		if m.gone[id] { // what is wanted again is not to be gone any more, whether the member can be asked or not
			delete(m.gone, id)
			m.facts, changed = nil, true
		}
		if m.ready != metav1.ConditionTrue || w.Suspended {
			continue
		}
		if c := m.copies[id]; c == nil || c.hash != hash {
			c := &replica{hash: hash}
			if _, works := w.Object["spec"].(map[string]any); works {
				c.healthy = now.Add(f.startup)
			}
			m.copies[id] = c
			m.facts, changed = nil, true
		}
	}
	for name, m := range f.members {
		for id := range m.gone { // nobody asks about what is neither wanted nor to go
			if _, asked := state.Retired[record.RetiredPath(name, id)]; !asked {
				delete(m.gone, id)
				m.facts = nil
			}
		}
	}
	for path, r := range state.Retired {
		if d.Spared[path] {
			continue
		}
		m, id := f.members[r.Cluster], r.Object.ID().Unversioned()
		if m == nil || m.ready != metav1.ConditionTrue || m.gone[id] {
			continue
		}
		delete(m.copies, id)
		m.gone[id] = true
		m.facts, changed = nil, true
	}
	return changed, nil
}

// due is when a copy becomes healthy next; zero if none does.
func (f *fleet) due(now time.Time) time.Time {
	var next time.Time
	for _, m := range f.members {
		for _, c := range m.copies {
			if c.healthy.After(now) && (next.IsZero() || c.healthy.Before(next)) {
				next = c.healthy
			}
		}
	}
	return next
}

// ripen forgets what was seen of members on which a copy became healthy by now.
func (f *fleet) ripen(before, now time.Time) {
	for _, m := range f.members {
		for _, c := range m.copies {
			if c.healthy.After(before) && !c.healthy.After(now) {
				m.facts = nil
			}
		}
	}
}
