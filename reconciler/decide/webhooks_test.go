package decide_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

const hooks = `apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: all.foo.example.com
  clientConfig: {url: "https://foo.example.com/"}
  rules: [{operations: ["*"], apiGroups: [example.com], apiVersions: ["*"], kinds: [Foo]}]
  interpreterContextVersions: [v1alpha1]
`

func foo(name string, size int) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: %s, namespace: default}\nspec: {size: %d, config: c}\n", name, size)
}

const (
	fooPolicy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: foo, namespace: default}\n" +
		"spec: {resourceSelectors: [{apiVersion: example.com/v1, kind: Foo}], propagateDeps: true, " + divided + "}\n"
	a = "default/a-foo"
)

// foos is a source of a Foo that needs a ConfigMap, and a Deployment that has nothing to do with it.
func foos(size int) string {
	return fleet(2) + file("hooks.yaml", hooks) + file("c.yaml", configMap("c", "one")) + file("foo.yaml", foo("a", size), fooPolicy) +
		file("web.yaml", deployment("web", 1), policyFor("web", "Deployment web", only("m1")))
}

// server answers for Foo. Down is why it does not; broken are the operations that it cannot.
type server struct {
	down   string
	broken map[string]string
	asked  []string
}

func (s *server) answer(t testing.TB, u decide.Unanswered, now time.Time) *interpret.Answer {
	t.Helper()
	body, err := u.Body()
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Request *configv1alpha1.ResourceInterpreterRequest
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	r := sent.Request
	s.asked = append(s.asked, r.Operation)
	var o struct {
		Spec struct {
			Size   int
			Config string
			Foo    string
		}
		Status struct {
			OK  bool
			Job string
		}
	}
	if err := json.Unmarshal(r.Object.Raw, &o); err != nil {
		t.Fatal(err)
	}
	response := map[string]any{"uid": r.UID, "successful": true}
	switch r.Operation {
	case "InterpretReplica":
		response["replicas"] = o.Spec.Size
		response["replicaRequirements"] = map[string]any{"resourceRequest": map[string]any{"cpu": "1"}}
	case "ReviseReplica":
		response["patchType"] = "JSONPatch"
		response["patch"] = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `[{"op":"replace","path":"/spec/size","value":%d}]`, *r.DesiredReplicas))
	case "InterpretHealth":
		response["healthy"] = o.Status.OK
	case "InterpretStatus":
		response["rawStatus"] = map[string]any{"job": o.Status.Job}
	case "InterpretDependency":
		var needs []any
		if o.Spec.Config != "" {
			needs = append(needs, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": o.Spec.Config})
		}
		if o.Spec.Foo != "" {
			needs = append(needs, map[string]any{"apiVersion": "example.com/v1", "kind": "Foo", "namespace": "default", "name": o.Spec.Foo})
		}
		response["dependencies"] = needs
	default:
		t.Errorf("asked for %s", r.Operation)
	}
	failure := s.down
	if s.broken[r.Operation] != "" {
		failure = s.broken[r.Operation]
	}
	if failure != "" {
		return interpret.Failed(failure, u.Failed, now)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": response})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := u.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// hear has the server answer what is due, and decides again until nothing is.
func (w *world) hear(d *decide.Decision, s *server) *decide.Decision {
	w.Helper()
	for range 10 {
		next := maps.Clone(w.answers.ByKey)
		if next == nil {
			next = map[interpret.Key]*interpret.Answer{}
		}
		due := false
		for _, u := range d.Unanswered {
			if u.Due {
				due = true
				next[u.Key] = s.answer(w, u, w.now)
			}
		}
		if !due {
			return d
		}
		w.answers = &decide.Answers{ByKey: next}
		d = w.pass()
	}
	w.Fatal("there is always another question")
	return nil
}

// newAsking is a world in which webhooks are asked.
func newAsking(t testing.TB) *world {
	w := newWorld(t)
	w.answers = &decide.Answers{}
	return w
}

func unanswered(d *decide.Decision) []string {
	list := []string{}
	for _, u := range d.Unanswered {
		list = append(list, u.Question.String())
	}
	return list
}

// found are the messages of findings with a code, with where they are.
func found(d *decide.Decision, code string) []string {
	list := []string{}
	for _, f := range d.Findings {
		if f.Code == code {
			list = append(list, fmt.Sprintf("%s:%d %s: %s", f.File, f.Line, f.Severity, f.Message))
		}
	}
	return list
}

func TestAWebhookSaysWhatAKindMeans(t *testing.T) {
	w, s := newAsking(t), &server{}
	d := w.push(foos(4))
	want(t, "nothing else waits", w.works(), []string{"m1/default/deployment.apps_web"})
	want(t, "unbound", unbound(d), []string{"ConfigMap default/c: no policy selects it", "Foo default/a: waits for the answer of webhook hooks/all.foo.example.com"})
	want(t, "open", unanswered(d), []string{"InterpretReplica of Foo default/a"})
	want(t, "findings", codes(d), []string{})

	d = w.hear(d, s)
	want(t, "placed", w.placed(a), "m1=2 m2=2")
	want(t, "works", w.works(), []string{
		"m1/default/configmap_c", "m1/default/deployment.apps_web", "m1/default/foo.example.com_a", "m2/default/configmap_c", "m2/default/foo.example.com_a"})
	if text := w.text("m2/default/foo.example.com_a"); !strings.Contains(text, "  size: 2\n") {
		t.Errorf("the work is\n%s", text)
	}
	if cpu := w.binding(a).Spec.ReplicaRequirements.ResourceRequest.Cpu().String(); cpu != "1" {
		t.Errorf("a replica asks for %s cpu", cpu)
	}
	want(t, "open", unanswered(d), []string{})
	want(t, "asked once each", slices.Sorted(slices.Values(s.asked)), []string{"InterpretDependency", "InterpretReplica", "ReviseReplica"}) // both members get 2
	w.quiet(w.pass())
	if len(d.Heard) != 3 {
		t.Errorf("%d answers are in use, want 3", len(d.Heard))
	}
	d = w.pass() // by the memo
	if len(d.Heard) != 3 {
		t.Errorf("%d answers are in use by the memo's account, want 3", len(d.Heard))
	}
}

func TestHealthByWebhook(t *testing.T) {
	w, s := newAsking(t), &server{}
	serve := apis("example.com/v1", "Foo")
	w.look("m1", "m2")
	for _, m := range []string{"m1", "m2"} {
		w.facts(m, func(f *decide.MemberFacts) { f.APIs = append(slices.Clone(f.APIs), serve) })
	}
	w.hear(w.push(foos(4)), s)
	live := func(member string, ok bool) {
		w.applied(member)
		w.facts(member, func(f *decide.MemberFacts) {
			id := api.ID{Group: "example.com", Kind: "Foo", Namespace: "default", Name: "a"}
			c := f.Copies[id]
			c.Live = maps.Clone(c.Live)
			c.Live["status"] = map[string]any{"ok": ok, "on": member}
			f.Copies[id] = c
		})
	}
	health := func() string {
		var words []string
		for _, i := range w.binding(a).Status.AggregatedStatus {
			words = append(words, fmt.Sprintf("%s=%s/%t", i.ClusterName, i.Health, i.Applied))
		}
		return strings.Join(words, " ")
	}
	live("m1", true)
	live("m2", false)
	d := w.pass()
	want(t, "not asked yet", health(), "m1=Unknown/false m2=Unknown/false")
	w.hear(d, s)
	want(t, "asked", health(), "m1=Healthy/true m2=Unhealthy/true")

	live("m2", true)
	d = w.pass()
	want(t, "while it is asked", health(), "m1=Healthy/true m2=Unhealthy/true")
	s.down = "connection refused"
	w.hear(d, s)
	want(t, "no answer about m2", health(), "m1=Healthy/true m2=Unknown/true")
	d = w.pass()
	want(t, "finding", found(d, "webhook-failed"), []string{
		"hooks.yaml:5 error: webhooks[0]: InterpretHealth of Foo default/a: connection refused; what depends on the answer stays as it is, and the webhook is asked again"})
	want(t, "wake", d.Wake, w.now.Add(time.Second))

	s.down = ""
	w.now = d.Wake
	d = w.hear(w.pass(), s)
	want(t, "asked again", health(), "m1=Healthy/true m2=Healthy/true")
	want(t, "findings", codes(d), []string{})

	// A process that starts anew knows no answers: what is on record stays until they are there.
	w.restart()
	w.answers = &decide.Answers{}
	w.quiet(w.pass())
	want(t, "after a restart", health(), "m1=Healthy/true m2=Healthy/true")
	w.quiet(w.hear(w.pass(), s))
}

func TestAWebhookThatFailsLeavesTheLastGoodResult(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	before := w.works()

	s.down = "it is down"
	over := file("web.yaml", deployment("web", 5), policyFor("web", "Deployment web", only("m2")))
	d := w.hear(w.push(foos(6), over), s)
	want(t, "placed", w.placed(a), "m1=2 m2=2")
	want(t, "others go on", w.placed("default/web-deployment"), "m2=5")
	want(t, "what it needs stays", w.placed("default/c-configmap"), "-")
	want(t, "works", w.works(), []string{before[0], before[2], before[3], "m2/default/deployment.apps_web", before[4]})
	want(t, "why", row(t, d, a).Message, "webhook hooks/all.foo.example.com: it is down")
	want(t, "finding", found(d, "webhook-failed"), []string{
		"hooks.yaml:5 error: webhooks[0]: InterpretDependency of Foo default/a and others: it is down; what depends on the answer stays as it is, and the webhook is asked again"})
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 2\n") {
		t.Errorf("the work is\n%s", text)
	}
	want(t, "wake", d.Wake, w.now.Add(time.Second))
	w.quiet(w.pass())

	for n := range 3 { // each attempt that fails doubles the time to the next
		w.now = d.Wake
		d = w.hear(w.pass(), s)
		want(t, "wake", d.Wake, w.now.Add(2<<n*time.Second))
	}
	s.down = ""
	w.now = d.Wake
	d = w.hear(w.pass(), s)
	want(t, "placed", w.placed(a), "m1=3 m2=3")
	want(t, "findings", codes(d), []string{})
	want(t, "wake", d.Wake, time.Time{})
}

func TestRevisionThatFailsKeepsTheWork(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	s.broken = map[string]string{"ReviseReplica": "no idea"}
	d := w.hear(w.push(foos(6)), s)
	want(t, "placed", w.placed(a), "m1=3 m2=3")
	want(t, "errors", row(t, d, a).RenderErrors, []decide.RenderError{
		{Cluster: "m1", Message: "set 3 replicas: webhook hooks/all.foo.example.com: no idea"}, {Cluster: "m2", Message: "set 3 replicas: webhook hooks/all.foo.example.com: no idea"}})
	want(t, "findings", codes(d), []string{"error webhook-failed hooks.yaml"})
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 2\n") {
		t.Errorf("the work is\n%s", text)
	}
	s.broken, w.now = nil, d.Wake
	w.hear(w.pass(), s)
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 3\n") {
		t.Errorf("the work is\n%s", text)
	}
}

// What is on record of a template that did not change is as good as an answer: policies, members and
// failures are decided about all the same.
func TestThePlacementChangesWhileAWebhookIsDown(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	w.restart()
	w.answers, s.down = &decide.Answers{}, "it is down"
	w.quiet(w.hear(w.pass(), s))

	here := strings.Replace(fooPolicy, "placement: {", "placement: {clusterAffinity: {clusterNames: [m1]}, ", 1)
	d := w.hear(w.push(foos(4), file("foo.yaml", foo("a", 4), here)), s)
	want(t, "placed", w.placed(a), "m1=4")
	want(t, "what it needs stays with it", slices.Contains(w.works(), "m1/default/configmap_c"), true)
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 2\n") {
		t.Errorf("the work is\n%s", text)
	}
	s.down, w.now = "", d.Wake
	w.hear(w.pass(), s)
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 4\n") {
		t.Errorf("the work is\n%s", text)
	}
}

func TestNobodyAsksWebhooksOffline(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)

	w.answers, w.memo = nil, decide.NewMemo()
	w.quiet(w.pass())
	d := w.pass() // with a memo
	w.quiet(d)
	want(t, "open", unanswered(d), []string{})
	want(t, "wake", d.Wake, time.Time{})
	explained := row(t, w.explained(), a)
	want(t, "what it needs", explained.Why().Needs, []decide.Need{{ID: api.ID{Kind: "ConfigMap", Namespace: "default", Name: "c"}, Along: true}})
	want(t, "as recorded", found(d, "webhook-not-asked"), []string{
		"hooks.yaml:1 info: its webhooks are asked by run alone: 3 questions are answered as recorded, so that what would change their answers is not seen"})

	d = w.push(foos(4), file("foo.yaml", strings.Replace(foo("a", 4), "config: c", "config: c, image: two", 1), fooPolicy))
	want(t, "placed", w.placed(a), "m1=2 m2=2")
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  image: two\n") {
		t.Errorf("the change is not seen:\n%s", text)
	}
	want(t, "by the next rule", found(d, "webhook-not-asked"), []string{
		"hooks.yaml:1 info: its webhooks are asked by run alone: 2 questions are answered as recorded, so that what would change their answers is not seen; 1 question is answered by the kind's next rule, or as for a kind without rules"})

	w = newWorld(t)
	d = w.push(foos(4))
	want(t, "nothing on record", w.placed(a), "m1 m2")
	want(t, "by the next rule", found(d, "webhook-not-asked"), []string{
		"hooks.yaml:1 info: its webhooks are asked by run alone: 2 questions are answered by the kind's next rule, or as for a kind without rules"})
	d = w.push(fleet(1) + file("hooks.yaml", hooks))
	want(t, "no question", found(d, "webhook-not-asked"), []string{"hooks.yaml:1 info: its webhooks are asked by run alone: no answer of them was needed"})
}

// What nobody knows of a template that is new is what the kind's next rule says, in an explanation, too.
func TestDependenciesByTheNextRuleOffline(t *testing.T) {
	w := newWorld(t)
	w.options.Explain = true
	d := w.push(fleet(1) + file("hooks.yaml", strings.NewReplacer("[example.com]", `["*"]`, "[Foo]", "[Deployment]").Replace(hooks)) + file("c.yaml", configMap("c", "one")) +
		file("web.yaml", mounting("web", "c"), needing("web", "web", everywhere)))
	want(t, "works", w.works(), []string{"m1/default/configmap_c", "m1/default/deployment.apps_web"})
	web := row(t, d, "default/web-deployment")
	want(t, "explained", web.Why().Needs, []decide.Need{{ID: api.ID{Kind: "ConfigMap", Namespace: "default", Name: "c"}, Along: true}})
}

func TestAWorkOfOtherReplicasIsNoRecordOffline(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	w.answers, w.memo = nil, decide.NewMemo()
	w.push(foos(4), file("foo.yaml", foo("a", 4), strings.Replace(fooPolicy, "placement: {", "placement: {clusterAffinity: {clusterNames: [m1]}, ", 1)))
	want(t, "placed", w.placed(a), "m1=4")
	if text := w.text("m1/default/foo.example.com_a"); !strings.Contains(text, "  size: 4\n") {
		t.Errorf("the work is that of 2 replicas:\n%s", text)
	}
}

// A Foo that runs because another one needs it has no replicas on record, and its health is asked for all the same.
func TestADependencyIsAskedAboutToo(t *testing.T) {
	const b = "default/b-foo"
	w, s := newAsking(t), &server{}
	w.look("m1")
	w.facts("m1", func(f *decide.MemberFacts) { f.APIs = append(slices.Clone(f.APIs), apis("example.com/v1", "Foo")) })
	only := strings.Replace(fooPolicy, "kind: Foo}", "kind: Foo, name: a}", 1)
	source := fleet(1) + file("hooks.yaml", hooks) + file("b.yaml", foo("b", 2))
	needs := file("foo.yaml", strings.Replace(foo("a", 4), "config: c", "foo: b", 1), only) + file("c.yaml", configMap("c", "one"))
	w.hear(w.push(source+needs), s)
	want(t, "works", w.works(), []string{"m1/default/foo.example.com_a", "m1/default/foo.example.com_b"})
	w.applied("m1")
	w.facts("m1", func(f *decide.MemberFacts) {
		id := api.ID{Group: "example.com", Kind: "Foo", Namespace: "default", Name: "b"}
		c := f.Copies[id]
		c.Live = maps.Clone(c.Live)
		c.Live["status"] = map[string]any{"ok": true}
		f.Copies[id] = c
	})
	health := func() workv1alpha2.ResourceHealth { return w.binding(b).Status.AggregatedStatus[0].Health }
	s.broken = map[string]string{"InterpretHealth": "no idea"}
	d := w.hear(w.pass(), s)
	want(t, "failed", health(), workv1alpha2.ResourceUnknown)
	w.quiet(w.pass())
	s.broken, w.now = nil, d.Wake
	w.hear(w.pass(), s)
	want(t, "asked again", health(), workv1alpha2.ResourceHealthy)
	w.quiet(w.pass())
	w.quiet(w.pass()) // what is remembered counts as heard: pass compares
	w.answers = &decide.Answers{}
	want(t, "answers that are lost", slices.Contains(unanswered(w.pass()), "InterpretHealth of Foo default/b"), true)

	// A policy takes it over while nobody knows its replicas: it stays as it is, with none on record.
	w.restart()
	w.answers, s.down = &decide.Answers{}, "it is down"
	d = w.hear(w.push(source+needs, file("policy.yaml", strings.NewReplacer("{name: foo,", "{name: b,", "kind: Foo}", "kind: Foo, name: b}").Replace(fooPolicy))), s)
	want(t, "why", row(t, d, b).Message, "webhook hooks/all.foo.example.com: it is down")
	want(t, "works", w.works(), []string{"m1/default/foo.example.com_a", "m1/default/foo.example.com_b"})
	s.down, w.now = "", w.now.Add(time.Hour)
	w.hear(w.pass(), s)
	want(t, "its own policy", w.placed(b), "m1=2")
}

// What webhooks said is on record in what came of it, so that a decision can be made again without them.
func TestADecisionIsMadeAgainFromTheRecord(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	before := w.state
	next := foos(6) + file("b.yaml", foo("b", 3), strings.Replace(fooPolicy, "{name: foo,", "{name: b,", 1))
	w.hear(w.push(next), s)
	recorded := w.readBack()
	d, err := decide.Next(decide.Repeat(decide.Input{Source: w.source, Past: w.past, Answers: w.answers, Now: w.now, Options: w.options}, before, recorded))
	if err != nil {
		t.Fatal(err)
	}
	for key, b := range recorded.Bindings {
		got := d.Next.Bindings[key]
		if got == nil {
			t.Errorf("no binding %s", key)
			continue
		}
		want(t, key.String(), got.Spec, b.Spec)
	}
	want(t, "works", short(d.Next.Works, "works/"), short(recorded.Works, "works/"))
	for path, work := range recorded.Works {
		want(t, path, d.Next.Works[path].Hash, work.Hash)
	}
}

func TestAConfigurationThatCannotBeUsedKeepsItsLastGoodVersion(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	d := w.hear(w.push(foos(6), file("hooks.yaml", strings.Replace(hooks, "https:", "http:", 1))), s)
	want(t, "finding", found(d, "webhook-url"), []string{"hooks.yaml:6 error: webhooks[0].clientConfig.url: must begin with https://, since objects go over it"})
	want(t, "placed", w.placed(a), "m1=3 m2=3")
}

func TestOperationsThatNobodyAsksFor(t *testing.T) {
	w := newAsking(t)
	d := w.push(file("all.yaml", cluster("m1", ""), strings.Replace(hooks, `operations: ["*"]`, `operations: [Retain, InterpretHealth, AggregateStatus]`, 1)))
	want(t, "codes", found(d, "no-effect"), []string{
		"all.yaml:10 warning: webhooks[0]: is not asked for AggregateStatus: webhooks are asked what a decision depends on, which is replicas, components, revision, health, dependencies, and status where failover.*.statePreservation wants it",
		"all.yaml:10 warning: webhooks[0]: is not asked for Retain: webhooks are asked what a decision depends on, which is replicas, components, revision, health, dependencies, and status where failover.*.statePreservation wants it"})
}

// Of an answer that changes only what depends on it is decided anew.
func TestNewAnswersLeaveOtherKindsToTheMemo(t *testing.T) {
	w, s := newAsking(t), &server{}
	w.hear(w.push(foos(4)), s)
	w.pass()
	web := w.binding("default/web-deployment")
	other := &decide.Answers{ByKey: map[interpret.Key]*interpret.Answer{}}
	for key, answer := range w.answers.ByKey {
		other.ByKey[key] = answer
	}
	w.answers = other
	w.quiet(w.pass())
	if w.binding("default/web-deployment") != web {
		t.Error("the Deployment was decided about again")
	}
	// An answer that is lost is asked for again, and what it said stays.
	w.answers = &decide.Answers{}
	d := w.pass()
	w.quiet(d)
	want(t, "open", unanswered(d), []string{"InterpretDependency of Foo default/a", "InterpretReplica of Foo default/a", "ReviseReplica of Foo default/a"})
	want(t, "health", w.binding(a).Status.AggregatedStatus, []workv1alpha2.AggregatedStatusItem(nil))
}

// preserving is a policy under which a sick Foo moves after ten seconds and takes a field of its status along.
const preserving = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: foo, namespace: default}\n" +
	"spec: {resourceSelectors: [{apiVersion: example.com/v1, kind: Foo}], propagateDeps: true, placement: {clusterAffinity: {clusterNames: [m1, m2]}, spreadConstraints: [{spreadByField: cluster, maxGroups: 1, minGroups: 1}]},\n" +
	"  failover: {application: {decisionConditions: {tolerationSeconds: 10}, purgeMode: Directly, statePreservation: {rules: [{aliasLabelName: job, jsonPath: \"{ .job }\"}]}}}}\n"

func TestFailoverGoesByWhatAWebhookSays(t *testing.T) {
	w, s := newAsking(t), &server{}
	serve := apis("example.com/v1", "Foo")
	w.look("m1", "m2")
	for _, m := range []string{"m1", "m2"} {
		w.facts(m, func(f *decide.MemberFacts) { f.APIs = append(slices.Clone(f.APIs), serve) })
	}
	source := fleet(2) + file("hooks.yaml", hooks) + file("foo.yaml", foo("a", 4), preserving)
	w.hear(w.push(source), s)
	want(t, "placed", w.placed(a), "m1=4")
	live := func(ok bool, job string) {
		w.applied("m1")
		w.facts("m1", func(f *decide.MemberFacts) {
			id := api.ID{Group: "example.com", Kind: "Foo", Namespace: "default", Name: "a"}
			c := f.Copies[id]
			c.Live = maps.Clone(c.Live)
			c.Live["status"] = map[string]any{"ok": ok, "job": job}
			f.Copies[id] = c
		})
	}
	live(true, "one")
	w.hear(w.pass(), s)
	if status := w.binding(a).Status.AggregatedStatus[0].Status; status == nil || string(status.Raw) != `{"job":"one"}` {
		t.Fatalf("the status on record is %v", status)
	}

	// Nobody can tell how it is: nothing moves, and what was known of its status stays.
	s.down = "it is down"
	live(false, "two")
	w.now = w.now.Add(time.Minute)
	w.hear(w.pass(), s)
	item := w.binding(a).Status.AggregatedStatus[0]
	want(t, "health", item.Health, workv1alpha2.ResourceUnknown)
	want(t, "status", string(item.Status.Raw), `{"job":"one"}`)
	w.now = w.now.Add(time.Hour)
	w.hear(w.pass(), s)
	want(t, "placed", w.placed(a), "m1=4")

	s.down = ""
	w.now = w.now.Add(time.Hour)
	w.hear(w.pass(), s)
	want(t, "health", w.binding(a).Status.AggregatedStatus[0].Health, workv1alpha2.ResourceUnhealthy)
	want(t, "placed", w.placed(a), "m1=4")
	w.now = w.now.Add(10 * time.Second)
	w.hear(w.pass(), s)
	want(t, "placed", w.placed(a), "m2=4")
	w.gone("m1")
	w.hear(w.pass(), s)
	if text := w.text("m2/default/foo.example.com_a"); !strings.Contains(text, "job: two") {
		t.Errorf("the state is not taken along:\n%s", text)
	}
}

// Whatever webhooks do in between, nothing that runs is taken away for the lack of an answer, and once
// they answer the fleet is what it would be had they always answered.
func TestWebhooksThatComeAndGoLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		t := quietTB{t, rt}
		w, s := newAsking(t), &server{}
		var source string
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			s.down, s.broken = "", nil
			switch rapid.SampledFrom([]string{"up", "down", "broken"}).Draw(rt, "server") {
			case "down":
				s.down = "it is down"
			case "broken":
				s.broken = map[string]string{rapid.SampledFrom([]string{"InterpretReplica", "ReviseReplica", "InterpretDependency"}).Draw(rt, "operation"): "no idea"}
			}
			if rapid.Bool().Draw(rt, "restart") {
				w.restart()
				w.answers = &decide.Answers{}
			}
			where := rapid.SampledFrom([]string{"m1", "m2", "m1, m2"}).Draw(rt, "members")
			policy := strings.Replace(fooPolicy, "placement: {", "placement: {clusterAffinity: {clusterNames: ["+where+"]}, ", 1)
			source = foos(0) + file("foo.yaml", foo("a", rapid.IntRange(2, 6).Draw(rt, "size")), policy)
			before := w.works()
			d := w.hear(w.push(source), s)
			for _, name := range before {
				member, object, _ := strings.Cut(name, "/")
				if strings.Contains(where, member) && object != "default/deployment.apps_web" && !slices.Contains(w.works(), name) {
					t.Fatalf("%s is gone while its member is wanted: %v", name, d.Findings)
				}
			}
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
		}
		s.down, s.broken = "", nil
		w.now = w.now.Add(time.Hour)
		w.hear(w.pass(), s)

		fresh := newAsking(t)
		fresh.hear(fresh.push(source), s)
		want(t, "placed", w.placed(a), fresh.placed(a))
		want(t, "works", w.works(), fresh.works())
		for _, name := range fresh.works() {
			want(t, name, w.text(name), fresh.text(name))
		}
	})
}
