package decide_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// quota is the text of a FederatedResourceQuota; shares are "m1 cpu: 1, memory: 1Gi".
func quota(name, overall string, shares ...string) string {
	var list []string
	for _, share := range shares {
		member, hard, _ := strings.Cut(share, " ")
		list = append(list, fmt.Sprintf("{clusterName: %s, hard: {%s}}", member, hard))
	}
	return fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: %s, namespace: default}\nspec:\n  overall: {%s}\n  staticAssignments: [%s]\n",
		name, overall, strings.Join(list, ", "))
}

// asking is a Deployment each replica of which requests these resources.
func asking(name string, replicas int, requests string) string {
	return strings.Replace(deployment(name, replicas), `image: "nginx:1"`, `image: "nginx:1", resources: {requests: {`+requests+`}}`, 1)
}

func TestStaticAssignmentIsAResourceQuotaOnEachMemberThatIsListed(t *testing.T) {
	w := newWorld(t)
	source := func(shares ...string) string {
		return fleet(3) + file("quota.yaml", strings.ReplaceAll(quota("compute", `cpu: 8, pods: "20"`, shares...), "namespace: default", "namespace: team"))
	}
	d := w.push(source("m1 cpu: 1500m", "m2 cpu: 2, pods: 10"))
	want(t, "works", w.works(), []string{"m1/_cluster/namespace_team", "m1/team/resourcequota_compute", "m2/_cluster/namespace_team", "m2/team/resourcequota_compute"})
	want(t, "the share of m2", w.text("m2/team/resourcequota_compute"), `apiVersion: v1
kind: ResourceQuota
metadata:
  annotations:
    godwit.dev/fleet: godwit
  labels:
    godwit.dev/managed: "true"
  name: compute
  namespace: team
spec:
  hard:
    cpu: "2"
    pods: "10"
`)
	want(t, "findings", codes(d), []string{})
	want(t, "body", strings.Contains(d.Commit.Body, "- update team/compute: ResourceQuota on m1 m2\n"), true)
	w.quiet(w.pass())

	d = w.push(source("m1 cpu: 1", "m2 cpu: 2, pods: 10"))
	want(t, "subject of a change", d.Commit.Subject, "update(team/compute): ResourceQuota on m1")
	want(t, "status alone", d.Commit.StatusAlone, false)

	d = w.push(source("m1 cpu: 1", "m3 cpu: 1"))
	want(t, "works", w.works(), []string{"m1/_cluster/namespace_team", "m1/team/resourcequota_compute", "m3/_cluster/namespace_team", "m3/team/resourcequota_compute"})
	want(t, "retired", w.retired(), []string{"m2/_cluster/namespace_team", "m2/team/resourcequota_compute"})
	want(t, "why", w.state.Retired["retired/m2/team/resourcequota_compute.yaml"].Reason, "Unscheduled")
	want(t, "body", strings.Contains(d.Commit.Body, "- remove team/compute: ResourceQuota no longer on m2\n"), true)

	w.push(fleet(3))
	want(t, "works without the quota", w.works(), []string{})
	want(t, "why", w.state.Retired["retired/m1/team/resourcequota_compute.yaml"].Reason, "TemplateDeleted")
}

func TestNoOverrideReachesAStaticAssignment(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(1), file("q.yaml", quota("compute", "cpu: 8", "m1 cpu: 1"), override("o", "{overriders: {labelsOverrider: [{operator: add, value: {over: ridden}}]}}")))
	if text := w.text("m1/default/resourcequota_compute"); strings.Contains(text, "ridden") {
		t.Errorf("overridden:\n%s", text)
	}
}

func TestAssignmentToAClusterThatIsNoMember(t *testing.T) {
	w := newWorld(t)
	base := file("q.yaml", quota("compute", "cpu: 8", "m1 cpu: 1", "m2 cpu: 1"))
	d := w.push(fleet(1), base)
	want(t, "works", w.works(), []string{"m1/default/resourcequota_compute"})
	want(t, "findings", codes(d), []string{"warning no-member q.yaml"})
	want(t, "line", d.Findings[0].Line, 6)
	want(t, "message", d.Findings[0].Message, "spec.staticAssignments[1].clusterName: m2 is not a member, so it gets no ResourceQuota; register it, or take the assignment out")

	w.look("m1", "m2")
	w.push(fleet(2), base)
	want(t, "works once it joined", w.works(), []string{"m1/default/resourcequota_compute", "m2/default/resourcequota_compute"})
	d = w.push(fleet(1), base)
	want(t, "works while it leaves", w.works(), []string{"m1/default/resourcequota_compute"})
	want(t, "retired", w.retired(), []string{"m2/default/resourcequota_compute"})
	want(t, "findings", codes(d), []string{"warning no-member q.yaml"})
}

func TestResourceQuotaOfAPolicyIsNotReplacedByAnAssignment(t *testing.T) {
	w := newWorld(t)
	own := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: compute, namespace: default}\nspec: {hard: {cpu: 5}}\n"
	d := w.push(fleet(2), file("own.yaml", own, policyFor("p", "ResourceQuota", only("m1"))), file("q.yaml", quota("compute", "cpu: 8", "m1 cpu: 1", "m2 cpu: 1")))
	want(t, "findings", codes(d), []string{"warning quota-clash q.yaml"})
	want(t, "that of the policy stays", strings.Contains(w.text("m1/default/resourcequota_compute"), "cpu: 5"), true)
	want(t, "the other is made", strings.Contains(w.text("m2/default/resourcequota_compute"), `cpu: "1"`), true)
}

func TestAQuotaThatCannotBeReadRemovesNothing(t *testing.T) {
	for what, broken := range map[string]string{"no YAML": brokenYAML, "no quota": quota("compute", "cpu: -1", "m1 cpu: 1")} {
		for _, past := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, earlier version %v", what, past), func(t *testing.T) {
				w := newWorld(t)
				w.push(fleet(2), file("q.yaml", quota("compute", "cpu: 8", "m1 cpu: 1")))
				if !past {
					clear(w.past)
					w.restart()
				}
				w.push(fleet(2), file("q.yaml", broken))
				want(t, "works", w.works(), []string{"m1/default/resourcequota_compute"})
				w.push(fleet(2), file("q.yaml", quota("compute", "cpu: 8", "m2 cpu: 1")))
				want(t, "works of the next good version", w.works(), []string{"m2/default/resourcequota_compute"})
			})
		}
	}
}

func TestALimitThatNothingCanReachIsNamed(t *testing.T) {
	d := newWorld(t).push(fleet(1), file("q.yaml", quota("compute", "cpu: 8, requests.cpu: 8, pods: 4", "m1 pods: 2")))
	want(t, "findings", codes(d), []string{"warning quota-idle q.yaml"})
	want(t, "field", strings.HasPrefix(d.Findings[0].Message, "spec.overall[requests.cpu]: "), true)
}

func TestQuotaRefusesGrowthAndTheOldTargetsStay(t *testing.T) {
	w := newWorld(t)
	source := func(replicas int, limit string) string {
		return fleet(2) + file("all.yaml", asking("web", replicas, "cpu: 500m, memory: 1Gi"), policyFor("p", "Deployment", divided), quota("compute", limit))
	}
	w.push(source(4, "cpu: 4, memory: 6Gi"))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")

	d := w.push(source(10, "cpu: 4, memory: 6Gi"))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")
	want(t, "condition", w.condition("default/web-deployment", "Scheduled"), "False QuotaExceeded")
	r := row(t, d, "default/web-deployment")
	want(t, "failure", r.Failure, "QuotaExceeded")
	want(t, "message", r.Message, "quota compute: 2 of cpu are used and 3 more wanted, at most 4 allowed")
	want(t, "the copies", strings.Contains(w.text("m1/default/deployment.apps_web"), "replicas: 2"), true)
	w.quiet(w.pass())

	d = w.push(source(8, "cpu: 4, memory: 6Gi"))
	want(t, "message", row(t, d, "default/web-deployment").Message, "quota compute: 4Gi of memory are used and 4Gi more wanted, at most 6Gi allowed")
	w.restart()
	w.push(source(8, "cpu: 4, memory: 8Gi"))
	want(t, "placed exactly at the limit", w.placed("default/web-deployment"), "m1=4 m2=4")
	want(t, "condition", w.condition("default/web-deployment", "Scheduled"), "True Success")
}

func TestWhatIsNewIsRefusedWithoutTargets(t *testing.T) {
	w := newWorld(t)
	d := w.push(fleet(2), file("all.yaml", asking("web", 3, "cpu: 1"), policyFor("p", "Deployment", everywhere), quota("compute", "cpu: 5")))
	want(t, "placed", w.placed("default/web-deployment"), "-")
	want(t, "works", w.works(), []string{})
	want(t, "duplicated replicas count on each member", row(t, d, "default/web-deployment").Message, "quota compute: 0 of cpu are used and 6 more wanted, at most 5 allowed")
	w.push(fleet(2), file("all.yaml", asking("web", 3, "cpu: 1"), policyFor("p", "Deployment", only("m2")), quota("compute", "cpu: 5")))
	want(t, "placed on one", w.placed("default/web-deployment"), "m2=3")
}

func TestAnyQuotaOfTheNamespaceRefusesAndNoneOfAnother(t *testing.T) {
	w := newWorld(t)
	web := file("web.yaml", asking("web", 3, "cpu: 1"), policyFor("p", "Deployment", divided))
	other := strings.ReplaceAll(quota("other", "cpu: 1"), "namespace: default", "namespace: team")
	w.push(fleet(2)+web, file("q.yaml", quota("a", "cpu: 9"), other))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=1")
	web = file("web.yaml", asking("web", 4, "cpu: 1"), policyFor("p", "Deployment", divided))
	d := w.push(fleet(2)+web, file("q.yaml", quota("a", "cpu: 9"), quota("b", "memory: 1, cpu: 3"), other))
	want(t, "message", row(t, d, "default/web-deployment").Message, "quota b: 3 of cpu are used and 1 more wanted, at most 3 allowed")
}

func TestShrinkingIsAlwaysAllowed(t *testing.T) {
	w := newWorld(t)
	source := func(replicas int, quotas ...string) string {
		return fleet(2) + file("all.yaml", append(quotas, asking("web", replicas, "cpu: 1"), policyFor("p", "Deployment", divided))...)
	}
	w.push(source(8))
	d := w.push(source(8, quota("compute", "cpu: 2")))
	want(t, "what is there stays", w.placed("default/web-deployment"), "m1=4 m2=4")
	want(t, "failure", row(t, d, "default/web-deployment").Failure, "")
	w.push(source(6, quota("compute", "cpu: 2")))
	want(t, "still over the limit", w.placed("default/web-deployment"), "m1=3 m2=3")
	w.push(source(7, quota("compute", "cpu: 2")))
	want(t, "does not grow", w.placed("default/web-deployment"), "m1=3 m2=3")
	want(t, "condition", w.condition("default/web-deployment", "Scheduled"), "False QuotaExceeded")
	w.push(source(6, quota("compute", "cpu: 2")))
	want(t, "nothing is asked for any more", w.condition("default/web-deployment", "Scheduled"), "True Success")
	w.push(source(7))
	want(t, "without the quota", w.placed("default/web-deployment"), "m1=4 m2=3")
}

func TestReplicasThatRequestMoreStayAsTheyWere(t *testing.T) {
	w := newWorld(t)
	source := func(cpu, limit string) string {
		return fleet(2) + file("all.yaml", asking("web", 4, "cpu: "+cpu), policyFor("p", "Deployment", divided), quota("compute", "cpu: "+limit))
	}
	w.push(source("1", "6"))
	before := w.text("m1/default/deployment.apps_web")
	d := w.push(source("2", "6"))
	want(t, "the copy", w.text("m1/default/deployment.apps_web"), before)
	want(t, "message", row(t, d, "default/web-deployment").Message, "quota compute: 4 of cpu are used and 4 more wanted, at most 6 allowed")
	want(t, "condition", w.condition("default/web-deployment", "Scheduled"), "False QuotaExceeded")
	w.restart()
	w.quiet(w.pass())

	w.push(source("1", "6"))
	want(t, "condition once it is taken back", w.condition("default/web-deployment", "Scheduled"), "True Success")
	w.push(source("2", "6"))
	w.push(source("2", "8"))
	want(t, "with more room", strings.Contains(w.text("m1/default/deployment.apps_web"), `cpu: "2"`) || strings.Contains(w.text("m1/default/deployment.apps_web"), "cpu: 2"), true)
	want(t, "condition", w.condition("default/web-deployment", "Scheduled"), "True Success")
}

func TestRoomGoesToTheEarlierTemplate(t *testing.T) {
	w := newWorld(t)
	source := func(a, b, c int) string {
		documents := []string{policyFor("p", "Deployment", divided), quota("compute", "cpu: 6")}
		for _, d := range []struct {
			name     string
			replicas int
		}{{"a", a}, {"b", b}, {"c", c}} {
			if d.replicas > 0 {
				documents = append(documents, asking(d.name, d.replicas, "cpu: 1"))
			}
		}
		return fleet(2) + file("all.yaml", documents...)
	}
	placed := func() string {
		return w.placed("default/a-deployment") + ", " + w.placed("default/b-deployment") + ", " + w.placed("default/c-deployment")
	}
	w.push(source(4, 4, 0))
	want(t, "one has room", placed(), "m1=2 m2=2, -, none")
	w.push(source(4, 4, 2))
	want(t, "a smaller one fits beside it", placed(), "m1=2 m2=2, -, m1=1 m2=1")
	w.push(source(4, 4, 0))
	want(t, "too little freed", placed(), "m1=2 m2=2, -, none")
	w.push(source(2, 4, 0))
	want(t, "room freed by an earlier one", placed(), "m1=1 m2=1, m1=2 m2=2, none")

	w.push(source(5, 4, 0))
	want(t, "what is there goes first", placed(), "m1=1 m2=1, m1=2 m2=2, none")
	w.push(source(5, 1, 0))
	want(t, "room freed by a later one in the same pass", placed(), "m1=3 m2=2, m1=1, none")
	w.push(source(0, 6, 0))
	want(t, "room of what is gone", placed(), "none, m1=3 m2=3, none")
}

func TestMembersOfARefusedBindingAreNotAskedAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.room("m1", 10)
	w.room("m2", 10)
	w.push(fleet(2), file("all.yaml", asking("web", 4, "cpu: 1"), policyFor("p", "Deployment", byRoom), quota("compute", "cpu: 3")))
	want(t, "placed", w.placed("default/web-deployment"), "-")
	w.now = w.now.Add(time.Hour)
	w.room("m1", 40)
	w.quiet(w.pass())
}

// Whatever is edited, nothing grows beyond a quota, what the ledger says is what the record says, and
// (world.pass) deciding again changes nothing, with and without a memo.
func TestRandomEditsUnderQuotas(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(quietTB{t, rt})
		files := fstest.MapFS{}
		put := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
		put("clusters.yaml", strings.SplitN(fleet(3), "\n", 2)[1])
		put("policy.yaml", policyFor("p", "Deployment", divided))
		for i := range rapid.IntRange(2, 10).Draw(rt, "steps") {
			for range rapid.IntRange(1, 3).Draw(rt, "edits") {
				name := rapid.SampledFrom(names).Draw(rt, "name")
				switch pick(rt, "edit", "workload", "workload", "workload", "gone", "quota", "policy", "restart") {
				case "workload":
					put(name+".yaml", asking(name, rapid.IntRange(0, 6).Draw(rt, "replicas"), pick(rt, "requests", "cpu: 1", "cpu: 500m, memory: 1Gi", "memory: 1G", "cpu: 2")))
				case "gone":
					delete(files, name+".yaml")
				case "quota":
					put("quota.yaml", quota("q", pick(rt, "limit", "cpu: 4", "cpu: 6, memory: 4Gi", "memory: 3G"), pick(rt, "share", "m1", "m4")))
					if rapid.Bool().Draw(rt, "none") {
						delete(files, "quota.yaml")
					}
				case "policy":
					put("policy.yaml", policyFor("p", "Deployment", pick(rt, "placement", divided, everywhere, only("m1"))))
				case "restart":
					w.restart()
				}
			}
			before := w.state
			w.commit(maps.Clone(files), fmt.Sprintf("c%d", i))
			checkQuotas(rt, before, w.pass(), files["quota.yaml"])
		}
	})
}

func checkQuotas(t *rapid.T, before *record.State, d *decide.Decision, quota *fstest.MapFile) {
	if quota == nil {
		return
	}
	_, limits, _ := strings.Cut(string(quota.Data), "overall: {")
	limits, _, _ = strings.Cut(limits, "}")
	for _, limit := range strings.Split(limits, ", ") {
		name, amount, _ := strings.Cut(limit, ": ")
		was, now := requested(before, corev1.ResourceName(name)), requested(d.Next, corev1.ResourceName(name))
		if allowed := resource.MustParse(amount); now.Cmp(allowed) > 0 && now.Cmp(was) > 0 {
			t.Errorf("%s of %s used, %s before, %s allowed", now.String(), name, was.String(), amount)
		}
	}
}

// requested is the slow, obvious sum of what bindings use.
func requested(s *record.State, name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for _, b := range s.Bindings {
		for _, c := range b.Spec.Clusters {
			for range c.Replicas {
				if r := b.Spec.ReplicaRequirements; r != nil {
					sum.Add(r.ResourceRequest[name])
				}
			}
		}
	}
	return sum
}

// A workload of several components counts all of them on each of its clusters.
func TestComponentsCountTogether(t *testing.T) {
	w := newWorld(t)
	job := `apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {name: f, namespace: default}
spec:
  jobManager: {replicas: 1, resource: {cpu: 1, memory: 1024m}}
  taskManager: {replicas: 3, resource: {cpu: 2, memory: 1024m}}
`
	policy := strings.Replace(policyFor("p", "FlinkDeployment", everywhere), "apiVersion: v1,", "apiVersion: flink.apache.org/v1beta1,", 1)
	d := w.push(fleet(2), file("all.yaml", job, policy, quota("compute", "cpu: 13")))
	if len(d.Bindings) != 1 || len(d.Next.Bindings[d.Bindings[0].Key].Spec.Components) != 2 {
		t.Fatalf("no components: %+v", slices.Collect(maps.Values(d.Next.Bindings)))
	}
	want(t, "message", d.Bindings[0].Message, "quota compute: 0 of cpu are used and 14 more wanted, at most 13 allowed")
	w.push(fleet(2), file("all.yaml", job, policy, quota("compute", "cpu: 14")))
	want(t, "placed", w.placed("default/f-flinkdeployment"), "m1 m2")
}
