package simulate

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/failover"
)

// Outlook is what comes of a state if nothing happens, and on it the deaths of members are played, each by itself: of
// what a death does not concern nothing is decided again. It may be used concurrently.
type Outlook struct {
	scenario Scenario
	options  Options
	before   *record.State
	// last is the last pass if nothing happens.
	last   *decide.Decision
	served []api.ID
	// groups are the numbers of bindings that depend on each other, and members the bindings of each.
	groups  map[record.BindingKey]int
	members map[int][]record.BindingKey
	// restless are bindings that move, or are about to, if nothing happens.
	restless []record.BindingKey
	works    map[record.BindingKey][]record.Work
	// apart are the works of no binding.
	apart []record.Work
}

// NewOutlook plays what comes of a state until then. Memo serves it alone, and while it lasts.
func NewOutlook(ctx context.Context, in decide.Input, before *record.State, until time.Duration, memo *decide.Memo) (*Outlook, error) {
	const head = "head"
	o := &Outlook{
		scenario: Scenario{Source: head, Start: in.Now.UTC().Format(time.RFC3339), Until: until},
		options:  Options{Sources: map[string]gitstate.Snapshot{head: in.Source}, Previous: before, Decide: in.Options, Unfiled: true},
		before:   before, members: map[int][]record.BindingKey{}, works: map[record.BindingKey][]record.Work{},
	}
	options := o.options
	options.Memo, options.Stop = memo, ctx.Err
	calm, err := Run(&o.scenario, options)
	if err != nil {
		return nil, err
	}
	o.last = calm.Last
	o.served = slices.Clip(append([]api.ID{}, templatesOf(calm.Last)...))
	o.groups = calm.Last.Coupled(before)
	for key, n := range o.groups {
		o.members[n] = append(o.members[n], key)
	}
	o.restless = restless(before, calm)
	for _, w := range before.Works {
		w, err := record.Identify(w)
		if err != nil {
			return nil, err
		}
		key := record.BindingOf(w.ID)
		if _, bound := o.groups[key]; bound {
			o.works[key] = append(o.works[key], w)
		} else {
			o.apart = append(o.apart, w)
		}
	}
	return o, nil
}

// restless are the bindings that something happens to, now or later.
func restless(before *record.State, calm *Result) []record.BindingKey {
	told := map[string]bool{}
	for _, l := range calm.Lines {
		told[l.Binding] = true
	}
	for _, row := range calm.Last.Bindings {
		if len(row.Causes) > 0 || row.Blocked != "" || row.Waits {
			told[row.Key.String()] = true
		}
	}
	var keys []record.BindingKey
	for _, s := range []*record.State{before, calm.State} {
		for key, b := range s.Bindings {
			other := before.Bindings[key]
			if other == b {
				other = calm.State.Bindings[key]
			}
			if told[key.String()] || other == nil || other != b && !equality.Semantic.DeepEqual(other.Spec, b.Spec) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Concerned are the bindings whose future the death of a member may change, as far as they run on it.
func (o *Outlook) Concerned(member string) map[record.BindingKey]bool {
	concerned := map[record.BindingKey]bool{}
	add := func(key record.BindingKey) {
		if !concerned[key] {
			for _, other := range o.members[o.groups[key]] {
				concerned[other] = true
			}
		}
	}
	for _, key := range o.restless {
		add(key)
	}
	for _, s := range []*record.State{o.before, o.last.Next} {
		for key, b := range s.Bindings {
			if runsOn(b, member) {
				add(key)
			}
		}
	}
	return concerned
}

// runsOn tells whether a member has a copy, or still has one.
func runsOn(b *workv1alpha2.ResourceBinding, member string) bool {
	return slices.ContainsFunc(decide.Targets(b), func(t workv1alpha2.TargetCluster) bool { return t.Name == member }) || failover.Leaving(&b.Spec, member)
}

// Death plays that a member dies at once. The result tells of all bindings that run on it, and of others maybe not.
func (o *Outlook) Death(ctx context.Context, member string, memo *decide.Memo) (*Result, error) {
	s, options := o.scenario, o.options
	s.Events = []Event{{Cluster: member, Ready: "Unknown"}}
	options.Memo, options.Served, options.Stop = memo, o.served, ctx.Err
	options.Only = o.Concerned(member)
	options.Previous = o.part(options.Only)
	return Run(&s, options)
}

// part is the state with these bindings alone.
func (o *Outlook) part(only map[record.BindingKey]bool) *record.State {
	part := *o.before
	part.Bindings, part.Works = make(map[record.BindingKey]*workv1alpha2.ResourceBinding, len(only)), make(map[string]record.Work, len(o.apart))
	for key := range only {
		if b := o.before.Bindings[key]; b != nil {
			part.Bindings[key] = b
		}
		for _, w := range o.works[key] {
			part.Works[w.Path] = w
		}
	}
	for _, w := range o.apart {
		part.Works[w.Path] = w
	}
	part.Retired = maps.Clone(part.Retired)
	return &part
}

// Alike tells whether a member's death would come to the same on another outlook, whose Memo was the same. False means that
// nobody knows.
func (o *Outlook) Alike(other *Outlook, member string) bool {
	concerned := o.Concerned(member)
	return maps.Equal(concerned, other.Concerned(member)) && decide.Alike(o.last, other.last, concerned) &&
		decide.AlikeStates(o.before, other.before, concerned) && o.holdsLike(other, concerned)
}

// holdsLike tells whether members have the same copies of bindings.
func (o *Outlook) holdsLike(other *Outlook, keys map[record.BindingKey]bool) bool {
	for key := range keys {
		if len(o.works[key]) != len(other.works[key]) {
			return false
		}
		for _, w := range o.works[key] {
			if other.before.Works[w.Path].Hash != w.Hash {
				return false
			}
		}
	}
	return true
}
