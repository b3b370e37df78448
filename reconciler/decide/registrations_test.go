package decide_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// inSecret is a registration of a member, as a cluster Secret of that name gives it.
func inSecret(name string, change ...func(*decide.Registration)) decide.Registration {
	r := decide.Registration{Name: name, Secret: "argocd/" + name, Server: "https://" + name, Member: true, Labels: map[string]string{"from": "secret"}}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (w *world) register(r ...decide.Registration) *decide.Decision {
	w.Helper()
	w.registered = &decide.Registrations{Clusters: r}
	before := w.state
	d := w.pass()
	w.replays(before, d)
	return d
}

// replays decides again from the record, as replay does.
func (w *world) replays(before *record.State, d *decide.Decision) {
	w.Helper()
	in := decide.Repeat(decide.Input{Source: w.source, Past: w.past, Now: w.now, Options: w.options}, before, w.readBack())
	again, err := decide.Next(in)
	if err != nil {
		w.Fatal(err)
	}
	if differ, err := decide.Differ(again.Next, d.Next); err != nil || len(differ) > 0 {
		w.Fatalf("made again, these files differ: %v %v", differ, err)
	}
}

func (w *world) names() string { return strings.Join(slices.Sorted(maps.Keys(w.state.Members)), " ") }

func TestACoupleOfMembersWithoutAManifest(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere)))
	want(t, "nobody is asked", w.names(), "")
	d := w.register(inSecret("m1"), inSecret("m2", func(r *decide.Registration) { r.Region, r.Zone, r.Provider = "eu", "eu-1", "metal" }))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")
	want(t, "findings", codes(d), []string{})
	m2 := w.state.Members["m2"]
	want(t, "m2", []string{m2.Labels["from"], m2.Spec.Region, strings.Join(m2.Spec.Zones, ","), m2.Spec.Provider, m2.Spec.APIEndpoint, string(m2.Spec.SyncMode)},
		[]string{"secret", "eu", "eu-1", "metal", "https://m2", "Push"})
	w.restart()
	w.quiet(w.pass())

	// Who cannot ask decides with what is on record.
	w.registered = nil
	w.quiet(w.pass())
	w.registered = &decide.Registrations{Unknown: "nobody answers"}
	d = w.pass()
	w.quiet(d)
	want(t, "finding", codes(d), []string{"warning management-away Clusters"})

	w.registered = &decide.Registrations{Off: true}
	d = w.pass()
	w.quiet(d)
	want(t, "finding", codes(d), []string{"warning management-away Clusters"})

	// The labels of a Secret place workloads.
	w.push(file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", `placement: {clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}}`)))
	want(t, "none has the label", w.placed("default/web-deployment"), "-")
	w.register(inSecret("m1"), inSecret("m2", func(r *decide.Registration) { r.Labels["env"] = "prod" }))
	want(t, "one has", w.placed("default/web-deployment"), "m2=2")
}

func TestAManifestAddsToARegistration(t *testing.T) {
	w := newWorld(t)
	w.push(file("clusters.yaml",
		`{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1, labels: {from: manifest, tier: gold}}, spec: {syncMode: Push, region: us}}`+"\n",
		`{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: by-server}, spec: {syncMode: Push, apiEndpoint: "https://m2/"}}`+"\n",
		`{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3, labels: {from: manifest}}, spec: {syncMode: Push}}`+"\n",
		`{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m4}, spec: {syncMode: Push, zone: a, zones: [b]}}`))
	d := w.register(
		inSecret("m1", func(r *decide.Registration) { r.Region, r.Labels["env"] = "eu", "prod" }),
		inSecret("m2"),
		inSecret("m3", func(r *decide.Registration) { r.Member = false; r.Namespaces = []string{"web"} }),
		inSecret("m4"), // whose manifest cannot be used
		inSecret("https://m5"),
		inSecret("m6", func(r *decide.Registration) { r.Member = false }))
	want(t, "members", w.names(), "by-server m1 m3")
	m1 := w.state.Members["m1"]
	want(t, "m1", fmt.Sprint(m1.Labels, m1.Spec.Region, m1.Spec.APIEndpoint), "map[env:prod from:manifest tier:gold]ushttps://m1")
	r, ok := decide.RegistrationOf(w.state.Members["by-server"])
	want(t, "by its server", fmt.Sprint(r.Secret, ok), "argocd/m2true")
	m3 := w.state.Members["m3"]
	r, _ = decide.RegistrationOf(m3)
	want(t, "credentials alone", fmt.Sprint(m3.Labels, m3.Spec.APIEndpoint, r.Namespaces), "map[from:manifest][web]")
	want(t, "findings", codes(d), []string{"error cluster-name Secret argocd/https://m5", "error zone-conflict clusters.yaml"})
	want(t, "what to do", strings.Contains(d.Findings[0].String(), "Secret argocd/https://m5: name: ") && strings.Contains(d.Findings[0].Message, "push a Cluster manifest"), true)

	// The Secrets go, the manifests stay. Two of three are gone at once, which is too many, unless it is approved.
	d = w.register(inSecret("m3"))
	want(t, "members", w.names(), "by-server m1 m3")
	w.options.MaxDeletePercent = 50
	w.pass()
	_, ok = decide.RegistrationOf(w.state.Members["m1"])
	want(t, "m1 is registered", ok, false)
	want(t, "m1's labels", fmt.Sprint(w.state.Members["m1"].Labels), "map[from:manifest tier:gold]")
}

func TestManyRegistrationsThatGoAtOnceAreHeld(t *testing.T) {
	w := newWorld(t)
	w.options.MaxDeletePercent = 50
	w.look("m1", "m2", "m3")
	w.push(file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere)))
	all := []decide.Registration{inSecret("m1"), inSecret("m2"), inSecret("m3")}
	w.register(all...)
	d := w.register()
	w.quiet(d)
	want(t, "none is left", codes(d), []string{"error registrations-gone Clusters"})
	d = w.register(inSecret("m3"))
	w.quiet(d)
	want(t, "one is left", codes(d), []string{"error registrations-gone Clusters"})
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2 m3=2")
	// The setting that makes members of them is taken back.
	none := slices.Clone(all)
	for i := range none {
		none[i].Member = false
	}
	d = w.register(none...)
	w.quiet(d)
	want(t, "none is a member", codes(d), []string{"error registrations-gone Clusters"})
	w.look("m4")
	w.register(append(all, inSecret("m4"))...)
	w.register(inSecret("m3"), inSecret("m4"), inSecret("m2"))
	want(t, "one went", w.state.Members["m1"].DeletionTimestamp != nil, true)
	want(t, "placed", w.placed("default/web-deployment"), "m2=2 m3=2 m4=2")
	w.register(inSecret("m3"))
	want(t, "held", w.state.Members["m2"].DeletionTimestamp == nil, true)
	w.registered = &decide.Registrations{Off: true}
	w.quiet(w.pass())
	w.registered = &decide.Registrations{Clusters: []decide.Registration{inSecret("m3")}}
	before := w.state
	d = w.approve()
	w.replays(before, d)
	want(t, "approved", fmt.Sprint(w.state.Members["m2"].DeletionTimestamp != nil, w.state.Members["m4"].DeletionTimestamp != nil), "true true")
	want(t, "placed", w.placed("default/web-deployment"), "m3=2")
	// With the approval nobody needs to be asked any more.
	w.registered, before = &decide.Registrations{Off: true}, w.state
	d = w.pass()
	w.replays(before, d)
	want(t, "approved", w.state.Members["m3"].DeletionTimestamp != nil, true)
}

func TestAMemberThatLeavesWithItsCredentialsIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere)))
	w.register(inSecret("m1"), inSecret("m2"))
	w.register(inSecret("m1"))
	want(t, "it is asked to give back what it has", w.retired(), []string{"m2/default/deployment.apps_web"})
	_, ok := decide.RegistrationOf(w.state.Members["m2"])
	want(t, "it is registered", ok, false)
	w.now = w.now.Add(time.Minute)
	w.facts("m2", func(f *decide.MemberFacts) {
		f.Ready, f.Reason, f.Since = metav1.ConditionFalse, "StatusCollectionFailed", w.now
	})
	before := w.state
	d := w.pass()
	want(t, "nobody can get there", w.names(), "m1")
	w.replays(before, d)

	// Both at once.
	w.look("m3")
	w.register(inSecret("m1"), inSecret("m3"))
	w.facts("m3", func(f *decide.MemberFacts) {
		f.Ready, f.Reason, f.Since = metav1.ConditionFalse, "StatusCollectionFailed", w.now
	})
	w.register(inSecret("m1"))
	want(t, "at once", w.names(), "m1")
	// It comes back.
	w.look("m2")
	w.register(inSecret("m1"), inSecret("m2"))
	want(t, "placed", w.placed("default/web-deployment"), "m1=2 m2=2")
}

func TestAPausedMemberIsNotLeftForItsHealth(t *testing.T) {
	w := newWorld(t)
	w.look("m1", "m2")
	w.push(file("web.yaml", deployment("web", 2), strings.Replace(policyFor("p", "Deployment", everywhere), "spec: {", "spec: {failover: {cluster: {purgeMode: Directly}}, ", 1)))
	pause := func(r *decide.Registration) { r.Paused = true }
	w.register(inSecret("m1", pause), inSecret("m2"))
	w.facts("m1", func(f *decide.MemberFacts) { f.Ready, f.Reason, f.Since = metav1.ConditionFalse, "X", w.now })
	w.pass()
	want(t, "taints", taintKeys(w.state.Members["m1"]), []string{"cluster.karmada.io/not-ready:NoSchedule 12:00:00"})
	w.now = w.now.Add(time.Hour)
	w.quiet(w.pass())
	w.register(inSecret("m1"), inSecret("m2"))
	want(t, "no longer paused", len(taintKeys(w.state.Members["m1"])), 2)
}

func TestASlipInTheRecordTakesNoMemberAway(t *testing.T) {
	w := newWorld(t)
	w.push(fleet(0))
	w.register(inSecret("m1"))
	edited := *w.state.Members["m1"]
	edited.Annotations = map[string]string{"godwit.dev/registration": "{"}
	w.state.Members["m1"], w.registered = &edited, nil
	d, err := decide.Next(decide.Input{Source: w.source, Previous: w.state, Now: w.now, Options: w.options})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "it stays", d.Next.Members["m1"] != nil && d.Next.Members["m1"].DeletionTimestamp == nil, true)
}

func TestNobodySaysInAManifestThatAMemberIsRegistered(t *testing.T) {
	w := newWorld(t)
	w.push(file("c.yaml", `{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1, annotations: {godwit.dev/registration: '{"name":"m1"}'}}, spec: {syncMode: Push}}`))
	_, ok := decide.RegistrationOf(w.state.Members["m1"])
	want(t, "m1 is registered", ok, false)
}

func TestWhatARegistrationRefuses(t *testing.T) {
	for _, tt := range []struct {
		r         decide.Registration
		namespace string
		refused   bool
	}{
		{decide.Registration{}, "a", false},
		{decide.Registration{}, "", false},
		{decide.Registration{Namespaces: []string{"a", "b"}}, "b", false},
		{decide.Registration{Namespaces: []string{"a", "b"}}, "c", true},
		{decide.Registration{Namespaces: []string{"a"}}, "", true},
		{decide.Registration{Namespaces: []string{"a"}, ClusterResources: true}, "", false},
		{decide.Registration{Namespaces: []string{"a"}, ClusterResources: true}, "b", true},
	} {
		if got := tt.r.Refuses(tt.namespace); (got != "") != tt.refused {
			t.Errorf("%+v.Refuses(%q) = %q", tt.r, tt.namespace, got)
		}
	}
}

// inRapid fails the run of a property, so that it is shrunk.
type inRapid struct {
	testing.TB
	run *rapid.T
}

func (r inRapid) Fatalf(format string, args ...any) { r.run.Fatalf(format, args...) }
func (r inRapid) Errorf(format string, args ...any) { r.run.Errorf(format, args...) }

// Whatever the management cluster says over time, replay comes to the same, asking nobody changes nothing, and no two
// thirds of the members go at once.
func TestRegistrationsAreReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.TB = inRapid{t, rt}
		w.options.MaxDeletePercent = 50
		names := []string{"m1", "m2", "m3", "m4"}
		w.look(names...)
		w.push(file("web.yaml", deployment("web", 2), policyFor("p", "Deployment", everywhere)) + "\n" + fleet(1))
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			before := w.state
			var now []decide.Registration
			for _, name := range names {
				if rapid.Bool().Draw(rt, name) {
					now = append(now, inSecret(name, func(r *decide.Registration) {
						r.Member, r.Paused = rapid.Bool().Draw(rt, "member"), rapid.Bool().Draw(rt, "paused")
						if !r.Member {
							r.Labels = nil
						}
					}))
				}
				status := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}).Draw(rt, "ready")
				w.facts(name, func(f *decide.MemberFacts) {
					if f.Ready != status {
						f.Ready, f.Since, f.Copies = status, w.now, map[api.ID]decide.CopyFacts{}
					}
				})
			}
			w.registered = &decide.Registrations{Clusters: now}
			d := w.pass()
			w.replays(before, d)
			asked := w.registered
			w.registered = nil
			w.quiet(w.pass())
			w.registered = asked
			w.now = w.now.Add(time.Second)
		}
	})
}
