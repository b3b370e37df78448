package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// onOne places on one member, the first that fits.
const onOne = "placement: {clusterAffinity: {clusterNames: [%s]}, spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], replicaScheduling: {replicaSchedulingType: Duplicated}}"

// oneOf is a placement on the first of members that fits, with more fields of the policy.
func oneOf(members, more string) string {
	return strings.TrimSuffix(fmt.Sprintf(onOne, members)+", "+more, ", ")
}

const sickFor60 = "propagateDeps: true, failover: {application: {decisionConditions: {tolerationSeconds: 60}%s}}"

func sickPolicy(more string) string { return fmt.Sprintf(sickFor60, more) }

// copyOf lets the copy of an object on a member be as given, applied as decided.
func (w *world) copyOf(member string, id api.ID, health workv1alpha2.ResourceHealth, status string) {
	w.facts(member, func(f *decide.MemberFacts) {
		c := decide.CopyFacts{Applied: decide.HashText(w.state.Works[record.WorkPath(member, id)].Hash), Health: health}
		if status != "" {
			c.Status = &runtime.RawExtension{Raw: []byte(status)}
		}
		f.Copies[id] = c
	})
}

// history are the members that a binding is kept from.
func (w *world) history(binding string) string {
	var names []string
	for _, r := range w.binding(binding).Spec.ActiveEvictionHistory {
		names = append(names, r.ClusterName)
	}
	return strings.Join(names, " ")
}

// blocked is why a binding cannot leave; empty if it can.
func (w *world) blocked(binding string) string {
	for _, c := range w.binding(binding).Status.Conditions {
		if c.Type == "FailoverBlocked" && c.Status == metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

const stateful = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default, labels: {app: db}}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "postgres:1"}]}
`

func TestTheCopyThatTakesOverCarriesPreservedState(t *testing.T) {
	id := api.ID{Group: "apps", Kind: "StatefulSet", Namespace: "default", Name: "db"}
	const db, label = "default/db-statefulset", "resume: j-7"
	w := newWorld(t)
	w.look("m1", "m2")
	for _, m := range []string{"m1", "m2"} {
		w.facts(m, func(f *decide.MemberFacts) { f.APIs = append(slices.Clone(serves), apis("apps/v1", "StatefulSet")) })
	}
	p := strings.Replace(policyFor("p", "Deployment db", oneOf("m1, m2",
		sickPolicy(`, purgeMode: Directly, statePreservation: {rules: [{aliasLabelName: resume, jsonPath: "{.job.id}"}]}`))), "kind: Deployment", "kind: StatefulSet", 1)
	w.push(fleet(2) + file("db.yaml", stateful, p))
	want(t, "placed", w.placed(db), "m1=1")
	// Its state is not known, so it stays.
	w.copyOf("m1", id, workv1alpha2.ResourceUnhealthy, "")
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(db), "m1=1")
	want(t, "blocked", w.blocked(db), "should leave m1 and has nowhere to go: its state on m1 is to be preserved, and no status of it is known")
	w.restart()
	w.quiet(w.at(75))
	w.copyOf("m1", id, workv1alpha2.ResourceUnhealthy, `{"job": {"id": "j-7"}}`)
	w.at(80)
	want(t, "placed", w.placed(db), "m2=1")
	want(t, "blocked", w.blocked(db), "")
	want(t, "tasks", w.tasks(db), "m1 Directly ApplicationFailure")
	// The new copy waits for the old one to be gone, also in a new process.
	want(t, "works", w.works(), []string{})
	want(t, "retired", w.retired(), []string{"m1/default/statefulset.apps_db"})
	w.restart()
	w.quiet(w.at(85))
	w.gone("m1")
	w.at(90)
	want(t, "works", w.works(), []string{"m2/default/statefulset.apps_db"})
	if text := w.text("m2/default/statefulset.apps_db"); !strings.Contains(text, label) {
		t.Errorf("the new copy does not carry %s:\n%s", label, text)
	}
	w.restart()
	w.quiet(w.at(91))
	w.copyOf("m2", id, workv1alpha2.ResourceHealthy, "")
	w.at(95)
	want(t, "tasks", w.tasks(db), "")
	if text := w.text("m2/default/statefulset.apps_db"); strings.Contains(text, label) {
		t.Errorf("the label stays when the task is over:\n%s", text)
	}
}

func TestPurgedDirectlyAndOutOfReachTheNewCopyWaitsForTheTimeOut(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "failover: {cluster: {purgeMode: Directly}}")))
	want(t, "placed", w.placed(web), "m1=1")
	w.now = start.Add(10 * time.Second)
	w.down("m1")
	w.pass()
	d := w.at(310)
	want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m1 -> m2")
	want(t, "wake", d.Wake, start.Add(910*time.Second))
	want(t, "works", w.works(), []string{})
	w.restart()
	d = w.at(400)
	w.quiet(d)
	want(t, "wake", d.Wake, start.Add(910*time.Second))
	w.quiet(w.at(909))
	d = w.at(910)
	want(t, "subject", d.Commit.Subject, "leave(default/web-deployment): m1")
	want(t, "works", w.works(), []string{"m2/default/deployment.apps_web"})
	want(t, "retired", w.retired(), []string{"m1/default/deployment.apps_web"})
	// Back too early: no other copy is known to work.
	w.now = start.Add(915 * time.Second)
	w.up("m1")
	want(t, "spared", w.pass().Spared, map[string]bool{"retired/m1/default/deployment.apps_web.yaml": true})
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	want(t, "spared", w.at(920).Spared, map[string]bool(nil))
	// The other one is well on record, and on a member that does not answer.
	w.now = start.Add(930 * time.Second)
	w.down("m2")
	want(t, "spared", w.pass().Spared, map[string]bool{"retired/m1/default/deployment.apps_web.yaml": true})
}

func TestPurgedDirectlyTheOldCopyGoesAsSoonAsItCan(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "failover: {cluster: {purgeMode: Directly}}")))
	w.down("m1")
	w.at(1)
	w.at(300)
	w.now = start.Add(400 * time.Second)
	w.up("m1")
	want(t, "spared", w.pass().Spared, map[string]bool(nil))
	w.gone("m1")
	w.at(401)
	want(t, "works", w.works(), []string{"m2/default/deployment.apps_web"})
}

// What was to go while its member was up is going, whatever becomes of the other copy.
func TestACopyOfAMemberThatWasUpIsNotSpared(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(failoverSource(2, 1, oneOf("m1, m2", sickPolicy(""))))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.at(70)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(75)
	want(t, "retired", w.retired(), []string{"m1/default/deployment.apps_web"})
	w.healthOf("m2", workv1alpha2.ResourceUnhealthy)
	want(t, "spared", w.at(80).Spared, map[string]bool(nil))
}

func TestWhatAFailoverTakesAwayIsNotHeld(t *testing.T) {
	w := newWorld(t)
	w.options.MaxDeletePercent = 40
	w.look("m1", "m2", "m3")
	var b strings.Builder
	b.WriteString(fleet(3))
	for i := range 4 {
		name := fmt.Sprintf("w%d", i)
		template := strings.Replace(deployment(name, 1), "spec: {containers", "spec: {volumes: [{name: v, configMap: {name: "+name+"}}], containers", 1)
		b.WriteString(file(name+".yaml", template, configMap(name, "one"), policyFor(name, "Deployment "+name, oneOf("m1, m2", "propagateDeps: true, failover: {cluster: {}}"))))
	}
	w.push(b.String())
	w.down("m1")
	w.at(1)
	w.at(300)
	for i := range 4 {
		w.copyOf("m2", api.ID{Group: "apps", Kind: "Deployment", Namespace: "default", Name: fmt.Sprintf("w%d", i)}, workv1alpha2.ResourceHealthy, "")
	}
	d := w.at(310)
	want(t, "held", len(d.Held), 0)
	want(t, "retired", len(w.retired()), 8)
}

func TestWhatIsNotSeenEndsNoTask(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 4, tutorial))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(web), "m2=4")
	w.now = start.Add(72 * time.Second)
	w.down("m2") // it was healthy as it was, and nobody knows about what it has to be now
	w.pass()
	want(t, "tasks", w.tasks(web), "m1 Gracefully ApplicationFailure")
	w.restart()
	w.at(80)
	want(t, "tasks", w.tasks(web), "m1 Gracefully ApplicationFailure")
	w.up("m2")
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(90)
	want(t, "tasks", w.tasks(web), "")
}

func TestBlockedEndsWithItsCause(t *testing.T) {
	w := newWorld(t)
	w.look("m1")
	w.push(failoverSource(1, 1, oneOf("m1", sickPolicy(""))))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.at(70)
	want(t, "blocked", w.blocked(web), "should leave m1 and has nowhere to go: there is no other member")
	w.healthOf("m1", workv1alpha2.ResourceHealthy)
	w.at(80)
	want(t, "blocked", w.blocked(web), "")
}

func TestAMemberThatIsBeingRemovedIsNotCounted(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	source := func(members int) string {
		return fleet(members) + file("web.yaml", deployment("web", 1), policyFor("p", "Deployment", everywhere))
	}
	w.push(source(3))
	w.now = start.Add(10 * time.Second)
	w.down("m3")
	w.down("m2")
	w.push(source(2))
	if b := w.state.Meta.FailoverBrake; b != nil {
		t.Errorf("one of two is down, and the brake is on: %v", b)
	}
	w.now = start.Add(20 * time.Second)
	w.up("m2")
	w.pass()
	w.push(source(1)) // a copy is still on m2, which is up
	w.now = start.Add(30 * time.Second)
	w.down("m1")
	w.pass()
	if b := w.state.Meta.FailoverBrake; b == nil || b.Message != "the only member is down" {
		t.Errorf("the only member is down, and the brake is %v", b)
	}
}

func TestWhatAnotherSchedulerPlacesIsNotTakenAway(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	policy := divided + ", " + sickPolicy("")
	w.push(failoverSource(2, 4, policy))
	want(t, "placed", w.placed(web), "m1=2 m2=2")
	w.push(failoverSource(2, 4, policy+", schedulerName: other"))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(web), "m1=2 m2=2")
	want(t, "blocked", w.blocked(web), "should leave m1 and has nowhere to go: schedulerName names another scheduler, which decides")
}

// herd is many workloads w000, w001.. with one policy each, which policy gives.
func herd(members, n int, policy func(i int) string) string {
	var b strings.Builder
	b.WriteString(fleet(members))
	for i := range n {
		name := fmt.Sprintf("w%03d", i)
		b.WriteString(file(name+".yaml", deployment(name, 4), policyFor(name, "Deployment "+name, policy(i))))
	}
	return b.String()
}

// leavers are the names of the bindings that have tasks.
func (w *world) leavers() []string {
	var names []string
	for key, b := range w.state.Bindings {
		if len(b.Spec.GracefulEvictionTasks) > 0 {
			names = append(names, strings.TrimSuffix(key.Name, "-deployment"))
		}
	}
	slices.Sort(names)
	return names
}

func TestAMemberWithManyWorkloadsIsLeftInOneCommit(t *testing.T) {
	const n = 500
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	share := "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [" +
		"{targetCluster: {clusterNames: [m1]}, weight: 2}, {targetCluster: {clusterNames: [m2]}, weight: 1}, {targetCluster: {clusterNames: [m3]}, weight: 1}]}}}, failover: {cluster: {}}"
	source := herd(3, n, func(int) string { return share })
	step := func(seconds int) *decide.Decision { // as world.pass, without deciding four times
		w.now = start.Add(time.Duration(seconds) * time.Second)
		d := decideOnce(w, source)
		w.state = d.Next
		return d
	}
	step(0)
	w.down("m1")
	step(1)
	d := step(300)
	want(t, "subject", d.Commit.Subject, "failover(m1): 500 bindings")
	want(t, "how many", len(w.leavers()), n)
	for key, b := range w.state.Bindings {
		sum := int32(0)
		for _, c := range b.Spec.Clusters {
			sum += c.Replicas
		}
		if text := clustersText(b.Spec.Clusters); sum != 4 || strings.Contains(text, "m1") {
			t.Fatalf("%s runs on %s", key, text)
		}
	}
	if d := step(300); d.Commit != nil {
		t.Errorf("and another commit: %s", d.Commit.Subject)
	}
}

func TestMoreMembersAreLeftSoManyAMinuteByPriority(t *testing.T) {
	w := newWorld(t)
	members := []string{"m1", "m2", "m3", "m4", "m5"}
	w.look(members...)
	var first []string
	source := herd(5, 50, func(i int) string {
		policy := oneOf([]string{"m1, m3, m4, m5", "m2, m3, m4, m5"}[i%2], "failover: {cluster: {}}")
		if i%4 == 3 {
			first = append(first, fmt.Sprintf("w%03d", i))
			policy += ", schedulePriority: {priorityClassSource: KubePriorityClass, priorityClassName: high}"
		}
		return policy
	}) + file("class.yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n")
	w.push(source)
	want(t, "some are on m2", w.placed("default/w001-deployment"), "m2=4")
	w.now = start.Add(10 * time.Second)
	w.down("m1")
	w.down("m2")
	w.pass()
	for i, c := range []struct{ at, total int }{{310, 20}, {369, 20}, {370, 40}, {430, 50}} {
		d := w.at(c.at)
		now := w.leavers()
		want(t, fmt.Sprintf("left at %d", c.at), len(now), c.total)
		if i == 0 {
			for _, name := range first {
				if !slices.Contains(now, name) {
					t.Errorf("%s has priority and waits while %v leave", name, now)
				}
			}
			want(t, "wake", d.Wake, start.Add(370*time.Second))
			w.restart() // the count is on record
		}
	}
}

func TestARateThatIsGivenHoldsForOneMemberToo(t *testing.T) {
	w := newWorld(t)
	w.options.MaxEvictionsPerMinute = 2
	w.look("m1", "m2", "m3")
	w.push(herd(3, 5, func(int) string { return oneOf("m1, m2", "failover: {cluster: {}}") }))
	w.down("m1")
	w.at(1)
	w.at(300)
	want(t, "left", w.leavers(), []string{"w000", "w001"})
	want(t, "the next one waits and is not blocked", w.blocked("default/w002-deployment"), "")
	w.at(360)
	want(t, "left", w.leavers(), []string{"w000", "w001", "w002", "w003"})
}

func TestWhatIsNeededStaysWithTheOldCopyAndMovesAlong(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	template := strings.Replace(deployment("web", 1), "spec: {containers", "spec: {volumes: [{name: v, configMap: {name: settings}}], containers", 1)
	w.push(fleet(2) + file("web.yaml", template, configMap("settings", "one"), policyFor("p", "Deployment", oneOf("m1, m2", sickPolicy("")))))
	want(t, "works", w.works(), []string{"m1/default/configmap_settings", "m1/default/deployment.apps_web"})
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.at(70)
	both := []string{"m1/default/configmap_settings", "m1/default/deployment.apps_web", "m2/default/configmap_settings", "m2/default/deployment.apps_web"}
	want(t, "works", w.works(), both)
	w.restart()
	w.quiet(w.at(72))
	want(t, "works", w.works(), both)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(80)
	want(t, "works", w.works(), both[2:])
	want(t, "retired", w.retired(), both[:2])
}

const taintPolicy = `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: evict}
spec:
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ["True"]}]
  removeOnConditions: [{conditionType: Ready, operator: In, statusValues: ["True"]}]
  taints: [{key: cluster.karmada.io/not-ready, effect: NoExecute}]
`

func TestATaintPolicyEvictsWithoutBeingAsked(t *testing.T) {
	for _, compat := range []bool{false, true} {
		w := newWorld(t)
		w.options.CompatKarmada = compat
		w.look("m1", "m2", "m3")
		w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "")) + file("taint.yaml", taintPolicy))
		w.now = start.Add(10 * time.Second)
		w.facts("m1", func(f *decide.MemberFacts) {
			f.Ready, f.Reason, f.Since = metav1.ConditionFalse, "ClusterNotReady", w.now
		})
		d := w.pass()
		want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m1 -> m2")
		want(t, "why it leaves", d.Commit.Events[0].Reason, decide.TaintEviction)
		want(t, "tasks", w.tasks(web), "m1 Gracefully TaintUntolerated")
		want(t, "history", w.history(web), "")
	}
}

func TestAPersonsTaintEvictsAtOnceAndTolerationsWait(t *testing.T) {
	for _, c := range []struct {
		tolerations string
		at          int // when it leaves
	}{{"", 10}, {"{key: repair, operator: Exists, tolerationSeconds: 30}", 40}} {
		w := newWorld(t)
		w.look("m1", "m2")
		source := failoverSource(2, 1, strings.Replace(oneOf("m1, m2", ""), "placement: {", "placement: {clusterTolerations: ["+c.tolerations+"], ", 1))
		w.push(source)
		w.now = start.Add(10 * time.Second)
		d := w.push(strings.Replace(source, "syncMode: Push", "syncMode: Push, taints: [{key: repair, effect: NoExecute}]", 1))
		if c.at > 10 {
			want(t, "wake", d.Wake, start.Add(time.Duration(c.at)*time.Second))
			w.restart()
			w.quiet(w.at(c.at - 1))
			d = w.at(c.at)
		}
		want(t, "reason", d.Commit.Reason, decide.TaintEviction)
		want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m1 -> m2")
		want(t, "tasks", w.tasks(web), "m1 Gracefully TaintUntolerated")
	}
}

func TestATaintThatIsGoneInTimeEvictsNothing(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	source := failoverSource(2, 1, strings.Replace(oneOf("m1, m2", ""), "placement: {", "placement: {clusterTolerations: [{key: repair, operator: Exists, tolerationSeconds: 30}], ", 1))
	w.push(strings.Replace(source, "syncMode: Push", "syncMode: Push, taints: [{key: repair, effect: NoExecute}]", 1))
	w.now = start.Add(20 * time.Second)
	w.push(source)
	w.quiet(w.at(100))
	want(t, "placed", w.placed(web), "m1=1")
}

// What "compat: karmada" turns back, each beside godwit's own answer.
func TestKarmadasAnswersOnRequest(t *testing.T) {
	for _, compat := range []bool{false, true} {
		answer := func(ours, karmadas string) string {
			if compat {
				return karmadas
			}
			return ours
		}
		world := func(members ...string) *world {
			w := newWorld(t)
			w.options.CompatKarmada = compat
			w.look(members...)
			return w
		}
		// Row 2: a member that is down evicts nobody.
		w := world("m1", "m2", "m3")
		w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "failover: {cluster: {}}")))
		w.down("m1")
		w.at(1)
		w.at(300)
		want(t, "down", w.placed(web), answer("m2=1", "m1=1"))

		// Row 8: unknown clears the timer. Row 5: nothing is blocked by default.
		w = world("m1", "m2")
		w.push(failoverSource(2, 1, oneOf("m1, m2", sickPolicy(""))))
		w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
		w.at(10)
		w.healthOf("m1", workv1alpha2.ResourceUnknown)
		w.at(20)
		w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
		w.at(30)
		w.at(70)
		want(t, "unknown in between", w.placed(web), answer("m2=1", "m1=1"))
		w.at(90)
		want(t, "unhealthy for long enough", w.placed(web), "m2=1")
		want(t, "history", w.history(web), answer("m1", ""))

		// Row 9: with nowhere to go the copy goes at the time-out.
		w = world("m1")
		w.push(failoverSource(1, 1, oneOf("m1", sickPolicy(", gracePeriodSeconds: 40, blockPredecessorSeconds: 600"))))
		w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
		w.at(10)
		d := w.at(70)
		want(t, "nowhere to go", w.placed(web), answer("m1=1", "-"))
		if compat {
			want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m1 -> nowhere")
		}
		want(t, "tasks", w.tasks(web), answer("", "m1 Gracefully ApplicationFailure"))
		want(t, "works", len(w.works()), 1)
		w.at(110)
		want(t, "works at the time-out", len(w.works()), map[bool]int{false: 1, true: 0}[compat])

		// Row 10: no brake.
		w = world("m1", "m2", "m3")
		w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "")) + file("taint.yaml", taintPolicy))
		w.now = start.Add(10 * time.Second)
		w.down("m1")
		w.down("m2")
		w.pass()
		want(t, "two of three down", w.placed(web), answer("m1=1", "m3=1"))
		want(t, "brake", w.state.Meta.FailoverBrake != nil, !compat)
	}
}

func TestABrakeThatIsApprovedLetsGo(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 1, oneOf("m1, m2, m3", "failover: {cluster: {}}")))
	w.now = start.Add(10 * time.Second)
	w.down("m1")
	w.down("m2")
	d := w.pass()
	want(t, "subject", d.Commit.Subject, "brake(fleet): 2 of 3 members went down together; no workload leaves a member until most are back or it is approved")
	w.restart()
	w.quiet(w.at(310))
	w.quiet(w.at(500))
	want(t, "held back, not blocked", w.blocked(web), "")
	approved := *w.state.Meta.FailoverBrake
	approved.Approved = true
	w.state = w.state.Clone()
	w.state.Meta.FailoverBrake = &approved
	d = w.at(510)
	want(t, "subject", d.Commit.Subject, "failover(default/web-deployment): m1 -> m3")
	want(t, "brake", w.readBack().Meta.FailoverBrake.Approved, true)
	w.now = start.Add(600 * time.Second)
	w.up("m1")
	w.up("m2")
	w.pass()
	if b := w.state.Meta.FailoverBrake; b != nil {
		t.Errorf("most are back, and the brake is on: %v", b)
	}
}

func TestCutOffNothingLeavesAndTimersRunOn(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(failoverSource(2, 1, oneOf("m1, m2", sickPolicy(""))))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.seen.CutOff = "no anchor answers"
	want(t, "subject", w.at(20).Commit.Subject, "brake(fleet): no anchor answers; no workload leaves a member until most are back or it is approved")
	w.quiet(w.at(70))
	want(t, "placed", w.placed(web), "m1=1")
	w.seen.CutOff = ""
	w.at(75)
	want(t, "placed", w.placed(web), "m2=1")
}

func TestAWorkloadWithoutANamespaceFailsOver(t *testing.T) {
	id := api.ID{Group: "example.io", Kind: "Site", Name: "web"}
	const site = "web-site"
	w := newWorld(t)
	w.look("m1", "m2")
	for _, m := range []string{"m1", "m2"} {
		w.facts(m, func(f *decide.MemberFacts) { f.APIs = append(slices.Clone(serves), apis("example.io/v1", "Site")) })
	}
	policy := strings.NewReplacer("PropagationPolicy", "ClusterPropagationPolicy", ", namespace: default", "", "apiVersion: v1, kind: Site", "apiVersion: example.io/v1, kind: Site").Replace(
		policyFor("p", "Site web", oneOf("m1, m2", sickPolicy(", purgeMode: Never"))))
	w.push(fleet(2) + file("site.yaml", "apiVersion: example.io/v1\nkind: Site\nmetadata: {name: web}\nspec: {size: 1}\n", policy))
	want(t, "placed", w.placed(site), "m1")
	w.copyOf("m1", id, workv1alpha2.ResourceUnhealthy, "")
	w.at(10)
	d := w.at(70)
	want(t, "subject", d.Commit.Subject, "failover(web-site): m1 -> m2")
	want(t, "producer", w.binding(site).Spec.GracefulEvictionTasks[0].Producer, "cluster-resource-binding-application-failover-controller")
	want(t, "works", w.works(), []string{"m1/_cluster/site.example.io_web", "m2/_cluster/site.example.io_web"})
	w.copyOf("m2", id, workv1alpha2.ResourceHealthy, "")
	w.at(7000)
	want(t, "retired", w.retired(), []string{})
	want(t, "works", w.works(), []string{"m1/_cluster/site.example.io_web", "m2/_cluster/site.example.io_web"})
}

func TestADividedJobTakesItsCompletionsAlong(t *testing.T) {
	id := api.ID{Group: "batch", Kind: "Job", Namespace: "default", Name: "sum"}
	const sum = "default/sum-job"
	w := newWorld(t)
	w.look("m1", "m2")
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: sum, namespace: default}\nspec:\n  parallelism: 4\n  completions: 8\n  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: \"busybox:1\"}]}\n"
	weights := "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [" +
		"{targetCluster: {clusterNames: [m1]}, weight: 1}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}}}, "
	w.push(fleet(2) + file("job.yaml", job, policyFor("p", "Job", weights+sickPolicy(""))))
	want(t, "placed", w.placed(sum), "m1=2 m2=2")
	w.copyOf("m1", id, workv1alpha2.ResourceUnhealthy, "")
	w.copyOf("m2", id, workv1alpha2.ResourceHealthy, "")
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(sum), "m2=4")
	if text := w.text("m2/default/job.batch_sum"); !strings.Contains(text, "completions: 8") || !strings.Contains(text, "parallelism: 4") {
		t.Errorf("not all of it moved along:\n%s", text)
	}
	if text := w.text("m1/default/job.batch_sum"); !strings.Contains(text, "completions: 4") {
		t.Errorf("the old copy changed:\n%s", text)
	}
}

func TestAWorkloadOnAllMembersLeavesTheSickOneAndReturnsAfterTheBlock(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 2, everywhere+", "+sickPolicy(", blockPredecessorSeconds: 100")))
	want(t, "placed", w.placed(web), "m1=2 m2=2 m3=2")
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.healthOf("m3", workv1alpha2.ResourceHealthy)
	w.at(10)
	want(t, "subject", w.at(70).Commit.Subject, "failover(default/web-deployment): m1 -> m2, m3")
	w.at(71)
	want(t, "placed", w.placed(web), "m2=2 m3=2")
	want(t, "retired", w.retired(), []string{"m1/default/deployment.apps_web"})
	w.gone("m1")
	w.at(75)
	w.quiet(w.at(169))
	d := w.at(170)
	want(t, "subject", d.Commit.Subject, "schedule(default/web-deployment): m1=2 m2=2 m3=2")
	want(t, "reason", d.Commit.Reason, decide.CooldownEnded)
	want(t, "history", w.history(web), "")
}

func TestTheNextAffinityGroupTakesOver(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3")
	w.push(failoverSource(3, 1, "placement: {clusterAffinities: [{affinityName: near, clusterNames: [m1]}, {affinityName: far, clusterNames: [m2, m3]}], replicaScheduling: {replicaSchedulingType: Duplicated}}, "+sickPolicy("")))
	want(t, "placed", w.placed(web), "m1=1")
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(web), "m2=1 m3=1")
	want(t, "group", w.binding(web).Status.SchedulerObservedAffinityName, "far")
	want(t, "tasks", w.tasks(web), "m1 Gracefully ApplicationFailure")
}

func TestItLeavesAsManyMembersAsThereIsRoomFor(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(failoverSource(2, 4, "placement: {replicaScheduling: {replicaSchedulingType: Duplicated}}, "+sickPolicy("")))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.healthOf("m2", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.at(70)
	want(t, "placed", w.placed(web), "m2=4")
	want(t, "blocked", w.blocked(web), "should leave m2 and has nowhere to go: m1: the workload is being evicted from the cluster (resource-binding-application-failover-controller: ApplicationFailure)")
}

func TestMembersThatAreDownAreNoPlaceToGo(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2", "m3", "m4", "m5")
	w.push(failoverSource(5, 4, "placement: {clusterAffinity: {clusterNames: [m1, m2]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: ["+
		"{targetCluster: {clusterNames: [m1]}, weight: 1}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}}}, "+sickPolicy("")))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.now = start.Add(10 * time.Second)
	w.down("m2")
	w.pass()
	w.at(70)
	want(t, "placed", w.placed(web), "m1=2 m2=2")
	want(t, "blocked", w.blocked(web), "should leave m1 and has nowhere to go: only members that are down have room: m2")
	w.now = start.Add(100 * time.Second)
	w.up("m2")
	w.pass()
	want(t, "placed", w.placed(web), "m2=4")
	want(t, "blocked", w.blocked(web), "")
}

func TestWithoutItsPolicyAWorkloadStillFailsOver(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(failoverSource(2, 1, oneOf("m1, m2", sickPolicy(""))))
	w.healthOf("m1", workv1alpha2.ResourceUnhealthy)
	w.at(10)
	w.push(fleet(2) + file("web.yaml", deployment("web", 1)))
	w.restart()
	w.at(70)
	want(t, "placed", w.placed(web), "m2=1")
	w.healthOf("m2", workv1alpha2.ResourceHealthy)
	w.at(75)
	want(t, "tasks", w.tasks(web), "")
	want(t, "works", w.works(), []string{"m2/default/deployment.apps_web"})
}
