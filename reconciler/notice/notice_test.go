package notice_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

var stamp = notice.Stamp{Commit: "0123456789abcdef", Source: "fedcba9876543210", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func failover(name, from, to string) decide.Event {
	return decide.Event{Verb: decide.VerbFailover, Object: "default/" + name, From: from, What: from + " -> " + to, Why: from + ": down", Reason: decide.ClusterFailure}
}

func TestWhatPeopleAreToldOf(t *testing.T) {
	event := func(verb, object, what string) decide.Event {
		return decide.Event{Verb: verb, Object: object, What: what}
	}
	for _, test := range []struct {
		event   decide.Event
		reason  notice.Reason // empty: of nothing
		title   string
		warning bool
		members string
	}{
		{failover("web", "m1", "m2"), notice.FailedOver, "default/web failed over: m1 -> m2", true, "m1"},
		{failover("web", "m3, m1", "m2"), notice.FailedOver, "default/web failed over: m3, m1 -> m2", true, "m1 m3"},
		{event(decide.VerbFailback, "default/web", "back to m1"), notice.FailedBack, "default/web went back to m1", false, ""},
		{event(decide.VerbBlocked, "default/web", "should leave m1 and has nowhere to go"), notice.EvictionBlocked, "default/web cannot fail over: should leave m1 and has nowhere to go", true, ""},
		{event(decide.VerbBrake, "fleet", "3 of 4 are down"), notice.FailoverHeld, "failover is held back: 3 of 4 are down", true, ""},
		{event(decide.VerbBrake, "fleet", decide.BrakeReleased), notice.FailoverHeld, "failover goes on: most members are back", false, ""},
		{event(decide.VerbCluster, "m1", decide.MemberUnreachable), notice.MemberUnreachable, "member m1 is down: Unreachable", true, "m1"},
		{event(decide.VerbCluster, "m1", decide.MemberNotReady), notice.MemberUnreachable, "member m1 is down: NotReady", true, "m1"},
		{event(decide.VerbCluster, "m1", decide.MemberReady), notice.MemberUnreachable, "member m1 is ready", false, "m1"},
		{event(decide.VerbCluster, "m1", "joined, NotReady"), notice.MemberChanged, "member m1 joined, NotReady", false, "m1"},
		{event(decide.VerbHold, "m1", "the deletion of 9 objects waits for an approval"), notice.MassDeleteHeld, "member m1: the deletion of 9 objects waits for an approval", true, "m1"},
		{event(decide.VerbRewrite, "source", "1234567 -> 7654321"), notice.SourceRewritten, "the source went on from another history: 1234567 -> 7654321", false, ""},
		{event(decide.VerbDelete, "m1", "9 objects, approved by ann"), notice.MassDeleteApproved, "member m1: deletion of 9 objects, approved by ann", false, "m1"},
		{decide.Event{Verb: decide.VerbSchedule, Object: "default/web", What: "NoClusterFit", Binding: &decide.BindingRow{Failure: "NoClusterFit"}}, notice.Unschedulable, "default/web runs nowhere: NoClusterFit", true, ""},
		{decide.Event{Verb: decide.VerbSchedule, Object: "default/web", What: "m1=2", Binding: &decide.BindingRow{}}, "", "", false, ""},
		{event("update", "default/web", "m1"), "", "", false, ""},
		{event("status", "default/web", "m1 Healthy"), "", "", false, ""},
		{event("purge", "m1", "1 object gone"), "", "", false, ""},
	} {
		got := notice.Of([]decide.Event{test.event}, stamp)
		if test.reason == "" {
			if got != nil {
				t.Errorf("%+v: %+v, want nothing", test.event, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Reason != test.reason || got[0].Title() != test.title || got[0].Warning() != test.warning || strings.Join(got[0].Members, " ") != test.members {
			t.Errorf("%+v: %+v %q, want %+v", test.event, got, got[0].Title(), test)
		}
	}
}

func TestAMassFailoverIsOneNotice(t *testing.T) {
	var events []decide.Event
	for i := range 214 {
		events = append(events, failover(fmt.Sprintf("w%03d", i), fmt.Sprint("m", i%7), "m9"))
	}
	events = append(events, decide.Event{Verb: decide.VerbCluster, Object: "m1", What: decide.MemberUnreachable, Reason: decide.ClusterFailure})
	all := notice.Of(events, stamp)
	if len(all) != 2 {
		t.Fatalf("%d notices", len(all))
	}
	n := all[0]
	if n.Title() != "214 workloads failed over from m0, m1, m2, m3, m4 and 2 more" || n.Count != 214 || len(n.Items) != notice.MaxItems {
		t.Errorf("%q, %d items of %d", n.Title(), len(n.Items), n.Count)
	}
	text := n.Text()
	if !strings.HasSuffix(text, "\n- default/w019: m5 -> m9\n  m5: down\nand 194 more\ncommit 0123456789 of the state branch, from fedcba9876 of the source") {
		t.Errorf("the text is\n%s", text)
	}
	if got := notice.Of(events[:1], stamp)[0].Text(); got != "default/w000 failed over: m0 -> m9\n  m0: down\ncommit 0123456789 of the state branch, from fedcba9876 of the source" {
		t.Errorf("one alone: %s", got)
	}
}

func TestLongWordsAreCut(t *testing.T) {
	n := notice.Of([]decide.Event{{Verb: decide.VerbBlocked, Object: "default/web", What: strings.Repeat("é", 10_000)}}, stamp)[0]
	if len(n.Title()) > 400 || len(n.Text()) > 600 || !strings.Contains(n.Title(), "é...") {
		t.Errorf("title of %d bytes, text of %d", len(n.Title()), len(n.Text()))
	}
}

func TestAMemberThatGoesUpAndDownIsOne(t *testing.T) {
	down := decide.Event{Verb: decide.VerbCluster, Object: "m1", What: decide.MemberUnreachable}
	n := notice.Of([]decide.Event{down, down}, stamp)[0]
	if n.Title() != "member m1 is down: Unreachable" || n.Count != 2 {
		t.Errorf("%q, %d", n.Title(), n.Count)
	}
}

func events() *rapid.Generator[[]decide.Event] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) decide.Event {
		verb := rapid.SampledFrom([]string{decide.VerbFailover, decide.VerbCluster, decide.VerbHold, decide.VerbBrake, decide.VerbBlocked, "update"}).Draw(t, "verb")
		e := decide.Event{Verb: verb, Object: rapid.StringMatching(`[a-z]{1,3}(/[a-z:]{1,4})?`).Draw(t, "object"), What: rapid.SampledFrom([]string{decide.MemberReady, decide.MemberUnreachable, decide.BrakeReleased, "joined", "a: b"}).Draw(t, "what")}
		if verb == decide.VerbFailover {
			e.From = strings.Join(rapid.SliceOfNDistinct(rapid.StringMatching(`m[1-3]`), 1, 3, rapid.ID).Draw(t, "from"), ", ")
			e.What = e.From + " -> m4"
		}
		e.Why = rapid.SampledFrom([]string{"", "m1: because"}).Draw(t, "why")
		return e
	}), 0, 60)
}

// What is told apart is told together: it makes no difference in how many commits things happen.
func TestMergingIsSaying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := events().Draw(t, "events")
		at := rapid.IntRange(0, len(all)).Draw(t, "at")
		merged := notice.Of(all[:at], stamp)
		for _, n := range notice.Of(all[at:], stamp) {
			found := false
			for i := range merged {
				if found = merged[i].Like(n); found {
					merged[i] = notice.Merge(merged[i], n)
					break
				}
			}
			if !found {
				merged = append(merged, n)
			}
		}
		want := notice.Of(all, stamp)
		if len(want) != len(merged) {
			t.Fatalf("%d notices, want %d", len(merged), len(want))
		}
		total := 0
		for _, n := range merged {
			for _, w := range want {
				if w.Like(n) && !reflect.DeepEqual(w, n) {
					t.Fatalf("merged (-want +got):\n%s", cmp.Diff(w, n))
				}
			}
			total += n.Count
			if n.Title() == "" || strings.Contains(n.Title(), "{") {
				t.Fatalf("%+v has the title %q", n, n.Title())
			}
		}
	})
}

func TestEveryReasonHasWords(t *testing.T) {
	for _, r := range notice.Reasons() {
		for count := 1; count <= 2; count++ {
			n := notice.Notice{Reason: r, Count: count, Items: []notice.Item{{Object: "o", What: "w"}}, Members: []string{"o", "p"}[:count]}
			if n.Title() == "" || strings.Contains(n.Title(), "{") {
				t.Errorf("%s has the title %q", r, n.Title())
			}
		}
	}
}

func TestWhatStands(t *testing.T) {
	since := metav1.NewTime(stamp.Time)
	member := func(status metav1.ConditionStatus) *clusterv1alpha1.Cluster {
		c := &clusterv1alpha1.Cluster{}
		c.Status.Conditions = []metav1.Condition{{Type: "Other", Status: "False"}, {Type: clusterv1alpha1.ConditionReady, Status: status, Reason: "R", Message: "m", LastTransitionTime: since}}
		return c
	}
	binding := func(at time.Time, kind string, status metav1.ConditionStatus) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{}
		b.Status.Conditions = []metav1.Condition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)}}
		return b
	}
	d := &decide.Decision{Next: record.New()}
	if got := notice.Stand(d); got != nil {
		t.Errorf("all is well, and %v stands", got)
	}
	d.Next.Members["m1"], d.Next.Members["m2"], d.Next.Members["m3"] = member("True"), member("Unknown"), member("False")
	d.Next.Bindings[record.BindingKey{Namespace: "default", Name: "b"}] = binding(stamp.Time, decide.ConditionFailoverBlocked, metav1.ConditionTrue)
	d.Next.Bindings[record.BindingKey{Namespace: "default", Name: "a"}] = binding(stamp.Time.Add(-time.Hour), decide.ConditionFailoverBlocked, metav1.ConditionTrue)
	d.Next.Bindings[record.BindingKey{Namespace: "default", Name: "c"}] = binding(stamp.Time, decide.ConditionFailoverBlocked, metav1.ConditionFalse)
	d.Next.Bindings[record.BindingKey{Namespace: "default", Name: "d"}] = binding(stamp.Time, workv1alpha2.ConditionScheduled, metav1.ConditionFalse)
	d.Next.Bindings[record.BindingKey{Namespace: "default", Name: "e"}] = binding(stamp.Time, workv1alpha2.ConditionScheduled, metav1.ConditionTrue)
	d.Next.Meta.FailoverBrake = &record.Brake{Since: stamp.Time, Message: "2 of 3 are down"}
	d.Refused = &decide.Refusal{Code: decide.CodeUnverified, Message: "the source is not followed"}
	d.Held = []decide.HeldDeletion{{Cluster: "m2"}, {Cluster: "m1"}, {Cluster: "m2"}}
	want := []notice.Condition{
		{notice.FailoverHeld, "", stamp.Time, "2 of 3 are down"},
		{notice.SourceRefused, "", time.Time{}, "the source is not followed"},
		{notice.EvictionBlocked, "", stamp.Time.Add(-time.Hour), "2 cannot fail over: default/a, default/b"},
		{notice.MemberUnreachable, "m2", stamp.Time, "R m"},
		{notice.MemberUnreachable, "m3", stamp.Time, "R m"},
		{notice.Unschedulable, "", stamp.Time, "1 run nowhere, or not as asked: default/d"},
		{notice.MassDeleteHeld, "m1", time.Time{}, "deletions that wait for an approval: 1"},
		{notice.MassDeleteHeld, "m2", time.Time{}, "deletions that wait for an approval: 2"},
	}
	if diff := cmp.Diff(want, notice.Stand(d)); diff != "" {
		t.Errorf("stands (-want +got):\n%s", diff)
	}
	d.Next.Meta.FailoverBrake.Approved = true
	if got := notice.Stand(d); got[0].Reason == notice.FailoverHeld {
		t.Error("the brake stands, and was approved")
	}
}
