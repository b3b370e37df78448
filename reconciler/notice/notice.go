package notice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Reason is what kind of thing happened.
type Reason string

const (
	// FailedOver: workloads left members that fail. FailedBack: they went back.
	FailedOver Reason = "FailedOver"
	FailedBack Reason = "FailedBack"
	// EvictionBlocked: workloads should leave a member and have nowhere to go.
	EvictionBlocked Reason = "EvictionBlocked"
	// FailoverHeld: too much is down at once, so that nothing is moved.
	FailoverHeld Reason = "FailoverHeld"
	// MemberUnreachable: members are down.
	MemberUnreachable Reason = "MemberUnreachable"
	// MemberChanged: members joined, left or are registered otherwise.
	MemberChanged Reason = "MemberChanged"
	// MassDeleteHeld: deletions wait for an approval. MassDeleteApproved: they got it.
	MassDeleteHeld     Reason = "MassDeleteHeld"
	MassDeleteApproved Reason = "MassDeleteApproved"
	// Unschedulable: no member fits workloads that were to be placed.
	Unschedulable Reason = "Unschedulable"
	// SourceRefused: the newest commit of the source is not followed. SourceRewritten: another history of it is in force.
	SourceRefused   Reason = "SourceRefused"
	SourceRewritten Reason = "SourceRewritten"
)

// kind is a reason with its words.
type kind struct {
	reason  Reason
	warning bool
	// one and many are titles; over and manyOver those of what is over again.
	one, many, over, manyOver string
	// members: the objects are members, not workloads.
	members bool
}

// kinds are all reasons, those that matter most first.
var kinds = []kind{
	{FailoverHeld, true, "failover is held back: {what}", "", "failover goes on: {what}", "", false},
	{FailedOver, true, "{object} failed over: {what}", "{count} workloads failed over from {members}", "", "", false},
	{SourceRefused, true, "{what}", "", "the source is followed again", "", false},
	{EvictionBlocked, true, "{object} cannot fail over: {what}", "{count} workloads cannot fail over", "", "", false},
	{MemberUnreachable, true, "member {object} is down: {what}", "{count} members are down: {members}", "member {object} is ready", "{count} members are ready: {members}", true},
	{MassDeleteHeld, true, "member {object}: {what}", "deletions on {count} members wait for an approval: {members}", "", "", true},
	{Unschedulable, true, "{object} runs nowhere: {what}", "{count} workloads run nowhere", "", "", false},
	{MassDeleteApproved, false, "member {object}: deletion of {what}", "deletions on {count} members were approved: {members}", "", "", true},
	{SourceRewritten, false, "the source went on from another history: {what}", "", "", "", false},
	{FailedBack, false, "{object} went {what}", "{count} workloads went back to members that they had left", "", "", false},
	{MemberChanged, false, "member {object} {what}", "{count} members changed: {members}", "", "", true},
}

// Reasons are all of them, those that matter most first.
func Reasons() []Reason {
	all := make([]Reason, len(kinds))
	for i, k := range kinds {
		all[i] = k.reason
	}
	return all
}

func rank(r Reason) int {
	for i, k := range kinds {
		if k.reason == r {
			return i
		}
	}
	return len(kinds)
}

// Item is one thing that a Notice tells of.
type Item struct {
	// Object is a binding, a member or the fleet.
	Object string `json:"object"`
	What   string `json:"what"`
	// Why may be empty.
	Why string `json:"why,omitempty"`
}

// Notice is what happened, of one kind.
type Notice struct {
	Reason Reason
	// Resolved: it is over.
	Resolved bool
	// Items are the first MaxItems of Count.
	Items []Item
	Count int
	// Members are concerned, sorted.
	Members []string
	// Commit of the state branch, the last of them, the Source that it was decided from, and when it was.
	Commit, Source string
	Time           time.Time
}

// MaxItems bounds what one Notice tells in full.
const MaxItems = 20

// Stamp is the commit that events are of.
type Stamp struct {
	Commit, Source string
	Time           time.Time
}

// Of gives the notices of a commit's events: one of a kind, those that matter most first.
func Of(events []decide.Event, s Stamp) []Notice {
	var all []Notice
	for _, e := range events {
		reason, resolved, ok := classify(e)
		if !ok {
			continue
		}
		n := Notice{
			Reason: reason, Resolved: resolved, Items: []Item{{e.Object, e.What, e.Why}}, Count: 1, Members: membersOf(reason, e),
			Commit: s.Commit, Source: s.Source, Time: s.Time,
		}
		i := slices.IndexFunc(all, n.Like)
		if i < 0 {
			all = append(all, n)
		} else {
			all[i] = Merge(all[i], n)
		}
	}
	slices.SortStableFunc(all, func(a, b Notice) int { return cmp.Compare(rank(a.Reason), rank(b.Reason)) })
	return all
}

// OfRefusal is the notice of a commit of the source that is not followed; with nil it is that all are again.
func OfRefusal(r *decide.Refusal, s Stamp) Notice {
	n := Notice{Reason: SourceRefused, Resolved: r == nil, Items: []Item{{Object: "source"}}, Count: 1, Commit: s.Commit, Source: s.Source, Time: s.Time}
	if r != nil {
		n.Items[0].What = r.Message
	}
	return n
}

// classify tells what kind of thing an event is; ok is false if nobody has to be told. It needs no more than a commit's
// body says, but for what is unschedulable.
func classify(e decide.Event) (r Reason, resolved, ok bool) {
	switch e.Verb {
	case decide.VerbFailover:
		return FailedOver, false, true
	case decide.VerbFailback:
		return FailedBack, false, true
	case decide.VerbBlocked:
		return EvictionBlocked, false, true
	case decide.VerbBrake:
		return FailoverHeld, e.What == decide.BrakeReleased, true
	case decide.VerbHold:
		return MassDeleteHeld, false, true
	case decide.VerbDelete:
		return MassDeleteApproved, false, true
	case decide.VerbRewrite:
		return SourceRewritten, false, true
	case decide.VerbSchedule:
		return Unschedulable, false, e.Binding != nil && e.Binding.Failure != ""
	case decide.VerbCluster:
		switch e.What {
		case decide.MemberNotReady, decide.MemberUnreachable:
			return MemberUnreachable, false, true
		case decide.MemberReady:
			return MemberUnreachable, true, true
		}
		return MemberChanged, false, true
	}
	return "", false, false
}

func membersOf(r Reason, e decide.Event) []string {
	switch {
	case e.From != "":
		return slices.Compact(slices.Sorted(strings.SplitSeq(e.From, ", ")))
	case slices.ContainsFunc(kinds, func(k kind) bool { return k.reason == r && k.members }):
		return []string{e.Object}
	}
	return nil
}

// Like tells whether two notices are of a kind, so that they can be merged.
func (n Notice) Like(o Notice) bool { return n.Reason == o.Reason && n.Resolved == o.Resolved }

// Warning tells whether somebody should look at it.
func (n Notice) Warning() bool {
	return !n.Resolved && rank(n.Reason) < len(kinds) && kinds[rank(n.Reason)].warning
}

// Merge makes one of two that are of a kind; b is the later one.
func Merge(a, b Notice) Notice {
	m := b
	m.Items = slices.Concat(a.Items, b.Items)
	m.Items = slices.Clip(m.Items[:min(len(m.Items), MaxItems)])
	m.Count = a.Count + b.Count
	m.Members = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Members, b.Members))))
	if len(m.Members) == 0 {
		m.Members = nil
	}
	return m
}

// maxWords bounds what a title quotes, in bytes.
const maxWords = 300

// Title says it in one line.
func (n Notice) Title() string {
	k := kinds[rank(n.Reason)]
	one, many := k.one, k.many
	if n.Resolved {
		one, many = k.over, k.manyOver
	}
	count := n.Count
	if k.members {
		count = len(n.Members) // one that goes up and down is one
	}
	text := many
	if count == 1 || many == "" {
		text = one
	}
	last := n.Items[len(n.Items)-1]
	return strings.NewReplacer(
		"{object}", last.Object, "{what}", cut(last.What, maxWords), "{count}", fmt.Sprint(count), "{members}", list(n.Members, 5),
	).Replace(text)
}

// Text says it in full: the title, and where there are several a line for each.
func (n Notice) Text() string {
	var b strings.Builder
	b.WriteString(n.Title())
	for _, item := range n.Items {
		if n.Count > 1 {
			fmt.Fprintf(&b, "\n- %s: %s", item.Object, cut(item.What, maxWords))
		}
		if item.Why != "" {
			fmt.Fprintf(&b, "\n  %s", cut(item.Why, maxWords))
		}
	}
	if more := n.Count - len(n.Items); more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	if n.Commit != "" {
		fmt.Fprintf(&b, "\ncommit %s of the state branch", short(n.Commit))
	}
	if n.Source != "" {
		fmt.Fprintf(&b, ", from %s of the source", short(n.Source))
	}
	return b.String()
}

// cut shortens a text at the border of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

func list(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func short(commit string) string { return commit[:min(len(commit), 10)] }
