package report_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

// waiting is a state in which something of each kind waits, and the decision on it.
func waiting() (*decide.Decision, *record.State) {
	yes, no := true, false
	since := metav1.NewTime(noon)
	s := record.New()
	s.Meta.FailoverBrake = &record.Brake{Since: since.Time, Message: "all 4 members are down"}
	s.Bindings[record.BindingKey{Namespace: "default", Name: "a-configmap"}] = &workv1alpha2.ResourceBinding{}
	s.Bindings[record.BindingKey{Namespace: "default", Name: "web-deployment"}] = &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web"},
		GracefulEvictionTasks: []workv1alpha2.GracefulEvictionTask{
			{FromCluster: "m1", Reason: "ApplicationFailure", SuppressDeletion: &yes, CreationTimestamp: &since},
			{FromCluster: "m2", Reason: "ApplicationFailure", SuppressDeletion: &no}, {FromCluster: "m3", Reason: "TaintUntolerated"},
			{FromCluster: "m4", Reason: "ApplicationFailure", SuppressDeletion: &yes},
		},
	}}
	d := &decide.Decision{}
	for _, h := range []struct{ cluster, name string }{{"m2", "b"}, {"m2", "a"}, {"m1", "a"}} {
		d.Held = append(d.Held, decide.HeldDeletion{Cluster: h.cluster, ID: api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: h.name}, Message: "many"})
	}
	return d, s
}

func short(waits []report.Waiting) string {
	var b strings.Builder
	for _, w := range waits {
		at := ""
		if w.Since != nil {
			at = w.Since.Format(" 15:04")
		}
		fmt.Fprintf(&b, "%s %s %s %s%s\n", w.Kind, w.Cluster, w.Binding, w.Resource, at)
	}
	return b.String()
}

func TestWhatWaitsIsChosenByName(t *testing.T) {
	d, s := waiting()
	waits := report.Waits(d, s)
	const all = `Deletions m1 default/a-configmap ConfigMap default/a
Deletions m2 default/a-configmap ConfigMap default/a
Deletions m2  ConfigMap default/b
Failover   <nil> 12:00
PurgeNever m1 default/web-deployment Deployment default/web 12:00
PurgeNever m4 default/web-deployment Deployment default/web
`
	if diff := cmp.Diff(all, short(waits)); diff != "" {
		t.Fatalf("all (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		q    report.WaitingQuery
		keep string // what the lines have in common; empty means none
	}{
		{report.WaitingQuery{}, "\n"},
		{report.WaitingQuery{Cluster: "m2"}, " m2 "},
		{report.WaitingQuery{Kinds: []string{report.WaitingFailover}}, "Failover"},
		{report.WaitingQuery{ObjectKind: "cm", Name: "a"}, "default/a\n"},
		{report.WaitingQuery{ObjectKind: "cm", Name: "a", Namespace: "default"}, "default/a\n"},
		{report.WaitingQuery{ObjectKind: "cm", Name: "a", Namespace: "other"}, ""},
		{report.WaitingQuery{ObjectKind: "deploy", Name: "web", Cluster: "m4"}, "PurgeNever m4"},
		{report.WaitingQuery{ObjectKind: "deploy", Name: "a"}, ""},
	} {
		want := ""
		for line := range strings.Lines(all) {
			if test.keep != "" && strings.Contains(line, test.keep) {
				want += line
			}
		}
		if diff := cmp.Diff(want, short(test.q.Choose(waits))); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.q, diff)
		}
	}
}

// What came after the listing is not in what still waits of it, and makes another list of it.
func TestAListCoversNothingThatCameLater(t *testing.T) {
	d, s := waiting()
	seen := report.Waits(d, s)
	d.Held = append(d.Held[1:], decide.HeldDeletion{Cluster: "m1", ID: api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "c"}})
	d.Held[0].Message = "other words"
	s.Meta.FailoverBrake = &record.Brake{Since: noon.Add(time.Second)}
	now := report.Waits(d, s)
	want := "Deletions m1 default/a-configmap ConfigMap default/a\nDeletions m2 default/a-configmap ConfigMap default/a\n" +
		"PurgeNever m1 default/web-deployment Deployment default/web 12:00\nPurgeNever m4 default/web-deployment Deployment default/web\n"
	if diff := cmp.Diff(want, short(report.Still(seen, now))); diff != "" {
		t.Errorf("what still waits (-want +got):\n%s", diff)
	}
	if report.SeenID(seen) == report.SeenID(now) || report.SeenID(seen[1:]) == report.SeenID(seen) {
		t.Error("different lists have one ID")
	}
	seen[0].Message = "other words"
	if d, s := waiting(); report.SeenID(seen) != report.SeenID(report.Waits(d, s)) {
		t.Error("words alone make another list")
	}
}

func TestApproveWritesWhatWasListed(t *testing.T) {
	d, s := waiting()
	waits := report.Waits(d, s)
	files, subject, body, err := report.Approve(s, waits, "Ada <ada@example.com>", noon)
	if err != nil {
		t.Fatal(err)
	}
	if subject != "approve: 6 that waited" || strings.Count(body, "\n") != 6 {
		t.Errorf("message %q\n%s", subject, body)
	}
	var got strings.Builder
	for _, f := range files {
		fmt.Fprintf(&got, "== %s\n%s", f.Path, f.Data)
	}
	for _, want := range []string{
		"  failoverBrake:\n    approved: true\n    message: all 4 members are down\n    since: \"2026-01-01T12:00:00Z\"\n",
		"  - by: Ada <ada@example.com>\n    cluster: m1\n    time: \"2026-01-01T12:00:00Z\"\n    works:\n    - works/m1/default/configmap_a.yaml\n",
		"    - works/m2/default/configmap_a.yaml\n    - works/m2/default/configmap_b.yaml\n",
	} {
		if !strings.Contains(got.String(), strings.ReplaceAll(want, "\n  ", "\n")[2:]) {
			t.Errorf("the files lack\n%s\nthey are\n%s", want, got.String())
		}
	}
	if n := strings.Count(got.String(), "suppressDeletion: false"); len(files) != 2 || n != 3 || strings.Contains(got.String(), "suppressDeletion: true") {
		t.Errorf("%d files, suppressDeletion is false %d times, want 2 and 3:\n%s", len(files), n, got.String())
	}
	if *s.Bindings[record.BindingKey{Namespace: "default", Name: "web-deployment"}].Spec.GracefulEvictionTasks[0].SuppressDeletion == false || len(s.Meta.Approvals) > 0 || s.Meta.FailoverBrake.Approved {
		t.Error("the state that was given changed")
	}
	for _, test := range []struct {
		list []report.Waiting
		want string
	}{
		{waits[:1], "approve: the deletion of ConfigMap default/a on m1"},
		{waits[1:3], "approve(m2): the deletion of 2 objects"},
		{waits[:2], "approve: 2 that waited"},
		{waits[3:4], "approve: evictions that the brake holds"},
		{waits[4:5], "approve: the deletion of the copy of Deployment default/web left on m1"},
	} {
		if _, subject, _, err := report.Approve(s, test.list, "Ada", noon); err != nil || subject != test.want {
			t.Errorf("subject %q, %v, want %q", subject, err, test.want)
		}
	}
}

func TestAnApprovedBrakeWaitsNoMore(t *testing.T) {
	d, s := waiting()
	s.Meta.FailoverBrake.Approved = true
	if got := short(report.Waits(d, s)); strings.Contains(got, "Failover") {
		t.Errorf("it waits still:\n%s", got)
	}
}

// A history of the source that was rewritten waits for a word that names it, and one that nobody signed does not.
func TestARewrittenSourceIsApprovedByItsCommit(t *testing.T) {
	s := record.New()
	s.Meta.Source.Commit = strings.Repeat("a", 40)
	d := &decide.Decision{Refused: &decide.Refusal{Code: decide.CodeRewritten, InForce: s.Meta.Source.Commit, Revision: gitstate.Revision(strings.Repeat("b", 40)), Message: "rewritten"}}
	waits := report.Waits(d, s)
	if len(waits) != 1 || waits[0].Kind != report.WaitingRewrite {
		t.Fatalf("what waits is %v", waits)
	}
	var text strings.Builder
	if err := report.WaitingText(&text, report.Style{}, waits); err != nil || !strings.Contains(text.String(), "SourceRewrite   -         aaaaaaa -> bbbbbbb   -       rewritten") {
		t.Errorf("%v\n%s", err, text.String())
	}
	files, subject, _, err := report.Approve(s, waits, "Ada", noon)
	if err != nil || len(files) != 1 || subject != "approve: the source going on from aaaaaaa to bbbbbbb" {
		t.Fatalf("%v, %q, %v", files, subject, err)
	}
	next, problems, err := record.Decode(fstest.MapFS{files[0].Path: {Data: files[0].Data}})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	want := &record.Rewrite{From: d.Refused.InForce, To: string(d.Refused.Revision), By: "Ada", Time: metav1.NewTime(noon)}
	if got := next.Meta.RewriteApproved(); !got.Same(want) {
		t.Errorf("approved is %+v, want %+v", got, want)
	}
	later := report.Waits(&decide.Decision{Refused: &decide.Refusal{Code: decide.CodeRewritten, InForce: d.Refused.InForce, Revision: "c"}}, s)
	if still := report.Still(waits, later); len(still) != 0 {
		t.Errorf("an approval covers what was pushed later: %v", still)
	}
	d.Refused.Code = decide.CodeUnverified
	if waits := report.Waits(d, s); len(waits) != 0 {
		t.Errorf("a missing signature can be approved: %v", waits)
	}
}
