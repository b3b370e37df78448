package events

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
	"github.com/godwit-gitops/godwit/reconciler/notice"
)

func secret(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "argocd", Name: name}
}

var places = Places{
	Fleet: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "godwit", Name: "godwit"},
	Member: func(name string) (corev1.ObjectReference, bool) {
		return secret("cluster-" + name), !strings.HasPrefix(name, "k")
	},
}

func failover(name, from string) decide.Event {
	return decide.Event{Verb: decide.VerbFailover, Object: name, From: from, What: from + " -> m9"}
}

func TestEventsOfANotice(t *testing.T) {
	for _, test := range []struct {
		events []decide.Event
		want   string // "object type reason message", by line
	}{
		{[]decide.Event{failover("a", "m1")}, "cluster-m1 Warning FailedOver a failed over: m1 -> m9"},
		{[]decide.Event{failover("a", "m1"), failover("b", "m2"), failover("c", "k1"), failover("d", "k2")}, `
cluster-m1 Warning FailedOver 4 workloads failed over from k1, k2, m1, m2
cluster-m2 Warning FailedOver 4 workloads failed over from k1, k2, m1, m2
godwit Warning FailedOver 4 workloads failed over from k1, k2, m1, m2`},
		{[]decide.Event{{Verb: decide.VerbBlocked, Object: "a", What: "nowhere"}}, "godwit Warning EvictionBlocked a cannot fail over: nowhere"},
		{[]decide.Event{{Verb: decide.VerbHold, Object: "m1", What: "9 wait"}}, "cluster-m1 Warning MassDeleteHeld member m1: 9 wait"},
		{[]decide.Event{{Verb: decide.VerbCluster, Object: "m1", What: decide.MemberUnreachable}}, "cluster-m1 Warning MemberUnreachable member m1 is down: Unreachable"},
		{[]decide.Event{{Verb: decide.VerbCluster, Object: "m1", What: decide.MemberReady}}, "cluster-m1 Normal MemberReady member m1 is ready"},
		{[]decide.Event{{Verb: decide.VerbBrake, What: decide.BrakeReleased}}, "godwit Normal FailoverReleased failover goes on: most members are back"},
		{[]decide.Event{{Verb: decide.VerbDelete, Object: "m1", What: "9"}}, "cluster-m1 Normal MassDeleteApproved member m1: deletion of 9"},
	} {
		var got []string
		for _, e := range Of(notice.Of(test.events, notice.Stamp{})[0], places) {
			got = append(got, fmt.Sprintf("%s %s %s %s", e.Object.Name, e.Type, e.Reason, e.Message))
		}
		if diff := cmp.Diff(strings.TrimSpace(test.want), strings.Join(got, "\n")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	// Whatever can be over has a word for it.
	for _, r := range notice.Reasons() {
		n := notice.Notice{Reason: r, Resolved: true, Count: 1, Items: []notice.Item{{Object: "o", What: "w"}}}
		if (n.Title() != "") != (over[r] != "") {
			t.Errorf("%s, when it is over: %q, titled %q", r, over[r], n.Title())
		}
	}
	long := notice.Notice{Reason: notice.FailedOver, Count: 1, Items: []notice.Item{{Object: strings.Repeat("é", 2000)}}}
	if m := Of(long, places)[0].Message; len(m) > maxMessage || !strings.HasSuffix(m, "é...") {
		t.Errorf("a message of %d bytes", len(m))
	}
}

// management is a management cluster.
func management(t *testing.T) (*membertest.Server, *typedcorev1.CoreV1Client) {
	t.Helper()
	server := membertest.Start(t, "management")
	config := server.RestConfig()
	config.ContentType = runtime.ContentTypeJSON
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// list gives the Events as "type reason on kind name: message" with their count.
func list(t *testing.T, client *typedcorev1.CoreV1Client) map[string]int32 {
	t.Helper()
	all, err := client.Events("argocd").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int32{}
	for _, e := range all.Items {
		got[fmt.Sprintf("%s %s on %s %s by %s: %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Source.Component, e.Message)] = e.Count
		if e.LastTimestamp.IsZero() || e.FirstTimestamp.IsZero() {
			t.Errorf("%s has no times", e.Name)
		}
	}
	return got
}

// Who describes the Secret of a member sees the Events: they have its UID.
func TestEventsHaveTheUIDOfTheirSecret(t *testing.T) {
	_, client := management(t)
	s, err := client.Secrets("argocd").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cluster-m1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(Options{Client: client})
	r.Record(down("m1"), places)
	r.Close(t.Context())
	all, err := client.Events("argocd").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].InvolvedObject.UID != s.UID || s.UID == "" {
		t.Errorf("events %+v, %v, want one with UID %s", all, err, s.UID)
	}
}

func down(member string) notice.Notice {
	return notice.Of([]decide.Event{{Verb: decide.VerbCluster, Object: member, What: decide.MemberUnreachable}}, notice.Stamp{})[0]
}

// The same thing many times is one Event with a count, also for the next process.
func TestEventsAreWrittenAndCounted(t *testing.T) {
	_, client := management(t)
	for range 2 {
		r := NewRecorder(Options{Client: client})
		for range 5 {
			r.Record(down("m1"), places)
		}
		r.Record(notice.Of([]decide.Event{failover("a", "m1")}, notice.Stamp{})[0], places)
		r.Close(t.Context())
	}
	want := map[string]int32{
		"Warning MemberUnreachable on Secret cluster-m1 by godwit: member m1 is down: Unreachable": 10,
		"Warning FailedOver on Secret cluster-m1 by godwit: a failed over: m1 -> m9":               2,
	}
	if diff := cmp.Diff(want, list(t, client)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A management cluster that is away holds up nobody, and costs no more memory than there are Events.
func TestACLusterThatIsAway(t *testing.T) {
	server, client := management(t)
	server.Freeze()
	log := &strings.Builder{}
	r := NewRecorder(Options{Client: client, Log: slog.New(slog.NewTextHandler(log, nil))})
	for i := range 3000 {
		r.Record(notice.Of([]decide.Event{failover(fmt.Sprint(i), "m1")}, notice.Stamp{})[0], places)
		r.Record(down("m2"), places)
	}
	r.mu.Lock()
	if len(r.pending) != 2 || len(r.order) != 2 {
		t.Errorf("%d and %d are pending", len(r.pending), len(r.order))
	}
	r.mu.Unlock()
	server.Thaw()
	r.Close(t.Context())
	got := list(t, client)
	if got["Warning FailedOver on Secret cluster-m1 by godwit: 2999 failed over: m1 -> m9"] != 3000 || len(got) != 2 {
		t.Errorf("events %v", got)
	}

	server.Down()
	r = NewRecorder(Options{Client: client, Log: slog.New(slog.NewTextHandler(log, nil))})
	r.Record(down("m1"), places)
	r.Close(t.Context()) // ends with the first failure
	if n := strings.Count(log.String(), "cannot be written"); n != 1 {
		t.Errorf("logged\n%s", log)
	}
}
