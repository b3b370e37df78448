package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

var webID = api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "web"}

const web = "default/web-deployment"

// tutorial is the policy of the failover tutorial: 3 to 1, members that are down tolerated for 60 s.
const tutorial = `placement: {
    clusterAffinity: {clusterNames: [m1, m2, m3]},
    clusterTolerations: [
      {key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 60},
      {key: cluster.karmada.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}],
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted,
      weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [m1]}, weight: 3}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}}},
  propagateDeps: true,
  failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Graciously, gracePeriodSeconds: 120}}`

func failoverSource(members int, replicas int, spec string) string {
	return fleet(members) + file("web.yaml", deployment("web", replicas), policyFor("p", "Deployment", spec))
}

// down lets a member stop answering now.
func (w *world) down(member string) {
	w.facts(member, func(f *decide.MemberFacts) {
		f.Ready, f.Reason, f.Since = metav1.ConditionUnknown, "ClusterStatusUnknown", w.now
	})
}

func (w *world) up(member string) {
	w.facts(member, func(f *decide.MemberFacts) { f.Ready, f.Reason, f.Since = metav1.ConditionTrue, "ClusterReady", w.now })
}

// healthOf lets the copy of web on a member be as given, applied as decided.
func (w *world) healthOf(member string, health workv1alpha2.ResourceHealth) {
	w.facts(member, func(f *decide.MemberFacts) {
		f.Copies[webID] = decide.CopyFacts{Applied: decide.HashText(w.state.Works[record.WorkPath(member, webID)].Hash), Health: health}
	})
}

// at moves the clock to so many seconds after the start and passes.
func (w *world) at(seconds int) *decide.Decision {
	w.Helper()
	w.now = start.Add(time.Duration(seconds) * time.Second)
	return w.pass()
}

// tasks are the members that a binding is leaving.
func (w *world) tasks(binding string) string {
	var names []string
	for _, t := range w.binding(binding).Spec.GracefulEvictionTasks {
		names = append(names, fmt.Sprintf("%s %s %s", t.FromCluster, t.PurgeMode, t.Reason))
	}
	return strings.Join(names, ", ")
}

func TestAMemberThatIsDownIsLeftWhenItsTolerationEnds(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, tutorial))
	want(t, "placed", w.placed(web), "m1=3 m2=1")
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(5)
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	d := w.pass()
	want(t, "wake", d.Wake, start.Add(70*time.Second))
	w.quiet(w.at(69))
	d = w.at(70)
	want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m2 -> m1")
	want(t, "reason", d.Commit.Reason, decide.ClusterFailure)
	want(t, "placed", w.placed(web), "m1=4")
	want(t, "tasks", w.tasks(web), "m2 Gracefully TaintUntolerated")
	want(t, "works", w.works(), []string{"m1/default/deployment.apps_web", "m2/default/deployment.apps_web"})

	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	d = w.at(75)
	want(t, "subject", d.Commit.Subject, "leave(default/web-deployment): m2")
	want(t, "retired", w.retired(), []string{"m2/default/deployment.apps_web"})
	w.now = start.Add(100 * time.Second)
	w.up("m2")
	w.pass()
	w.gone("m2")
	w.at(101)
	want(t, "retired", w.retired(), []string{})
	want(t, "placed", w.placed(web), "m1=4")
}

// The member is still down when a person reverts: the workload stays there for one more toleration, and
// what was decided is the person's.
// A taint that is tolerated for a while is no longer tolerated afterwards: nothing goes there just to leave again.
func TestAMemberIsNotTakenWhoseTolerationIsOver(t *testing.T) {
	for _, test := range []struct {
		compat        bool
		late          int
		placed, tasks string
	}{
		{false, 59, "m1=1 m2=1", ""},
		{false, 61, "m1=1", ""},
		{true, 61, "m1=1", "m2 Gracefully TaintUntolerated"}, // taken, and left in the same breath
	} {
		w := newWorld(t)
		w.options.CompatKarmada = test.compat
		tainted := strings.Replace(cluster("m2", `n: "2"`), "syncMode: Push", "syncMode: Push, taints: [{key: old, effect: NoExecute}]", 1)
		w.push(fleet(1) + "\n---\n" + tainted)
		w.look("m1", "m2")
		w.at(test.late)
		w.push(fleet(1) + "\n---\n" + tainted + file("web.yaml", deployment("web", 1), policyFor("p", "Deployment",
			`placement: {clusterTolerations: [{key: old, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]}`)))
		want(t, fmt.Sprintf("placed: %+v", test), w.placed(web), test.placed)
		want(t, fmt.Sprintf("leaves: %+v", test), w.tasks(web), test.tasks)
	}
}

func TestARevertedFailoverIsTriedOnceMore(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, tutorial))
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(5)
	before := w.branch
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.pass()
	w.at(70)
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.at(71)
	want(t, "placed", w.placed(web), "m1=4")
	want(t, "retired", w.retired(), []string{"m2/default/deployment.apps_web"})

	w.now = start.Add(100 * time.Second)
	w.revert(web, before)
	d := w.pass()
	want(t, "placed", w.placed(web), "m1=3 m2=1")
	want(t, "records", len(w.binding(web).Spec.ActiveEvictionHistory), 0)
	want(t, "reason", d.Commit.Reason, decide.Operator)
	want(t, "wake", d.Wake, start.Add(160*time.Second))
	w.at(159)
	want(t, "placed", w.placed(web), "m1=3 m2=1")
	d = w.at(160)
	want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m2 -> m1")
}

// What is known now counts, also where it is not on record yet.
func TestACopyIsSparedAsSoonAsItsReplacementFails(t *testing.T) {
	const path = "retired/m2/default/deployment.apps_web.yaml"
	w := newWorld(t)
	w.options.StatusInterval = time.Hour
	w.look("m1", "m2")
	w.push(failoverSource(2, 4, strings.Replace(tutorial, "failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Graciously, gracePeriodSeconds: 120}}", "failover: {cluster: {}}", 1)))
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(5)
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.pass()
	w.at(70)
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	d := w.at(75)
	want(t, "retired", w.retired(), []string{"m2/default/deployment.apps_web"})
	want(t, "spared", d.Spared, map[string]bool(nil))

	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	d = w.at(76)
	want(t, "spared", d.Spared, map[string]bool{path: true})
	w.now = start.Add(80 * time.Second)
	w.up("m2")
	d = w.pass()
	want(t, "spared", d.Spared, map[string]bool{path: true})
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	d = w.at(90)
	want(t, "spared", d.Spared, map[string]bool(nil))
}

func TestADecisionWhileCutOffRepeatsFromTheRecord(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, strings.ReplaceAll(tutorial, "tolerationSeconds: 60}", "tolerationSeconds: 0}")))
	const why = "no anchor can be reached"
	w.seen.CutOff = why
	w.at(5)
	before := w.readBack()
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.seen.CutOff = why
	d := w.pass()
	want(t, "subject", d.Commit.Subject, "cluster(m2): Unreachable")
	want(t, "placed", w.placed(web), "m1=3 m2=1")

	w.repeats(before, d)
}

// The failover is the first decision that knows of the copies, and it changes them.
func TestAFailoverBeforeAnyStatusRepeatsFromTheRecord(t *testing.T) {
	for _, health := range []workv1alpha2.ResourceHealth{workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown} {
		w := newWorld(t)
		w.options.StatusInterval = time.Hour
		w.look("m1", "m2", "m3")
		w.push(failoverSource(3, 4, tutorial))
		w.now = start.Add(time.Second)
		w.down("m2")
		w.pass()
		w.facts("m1", func(f *decide.MemberFacts) {
			work := w.state.Works["works/m1/default/deployment.apps_web.yaml"]
			f.Copies[webID] = decide.CopyFacts{Applied: decide.HashText(work.Hash), Health: health}
		})
		before := w.readBack()
		w.now = start.Add(61 * time.Second)
		d := w.pass()
		want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m2 -> m1")
		w.repeats(before, d)
	}
}

// How a copy was seen that is left at once, the task alone tells: its status goes from the record in the same decision.
func TestAFailoverForAHealthThatWasNotOnRecordRepeats(t *testing.T) {
	w := newWorld(t)
	w.options.StatusInterval = time.Hour
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, strings.Replace(tutorial, "purgeMode: Graciously, gracePeriodSeconds: 120", "purgeMode: Directly", 1)))
	for _, member := range []string{"m1", "m2"} {
		w.healthOf(member, workv1alpha2.ResourceHealthy)
	}
	w.at(5)
	w.healthOf("m2", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	before := w.readBack()
	w.healthOf("m2", workv1alpha2.ResourceUnknown)
	d := w.at(71)
	want(t, "leaves", w.tasks(web), "m2 Directly ApplicationFailure")
	w.repeats(before, d)
}

// repeats checks that a decision comes out the same from what is on record.
func (w *world) repeats(before *record.State, d *decide.Decision) {
	w.Helper()
	again, err := decide.Next(decide.Repeat(decide.Input{Source: w.source, Past: w.past, Now: w.now, Options: w.options}, before, d.Next))
	if err != nil {
		w.Fatal(err)
	}
	differ, err := decide.Differ(d.Next, again.Next)
	if err != nil || len(differ) > 0 {
		w.Errorf("decided from the record, %v differ (%v)", differ, err)
	}
}
