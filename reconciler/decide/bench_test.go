package decide_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// size of a generated fleet: each policy selects templates/policies Deployments by a label and sends
// them to a fifth of the members, at least three; every fourth one divides.
type size struct{ templates, policies, members int }

func (s size) String() string {
	return fmt.Sprintf("%dx%dx%d", s.templates, s.policies, s.members)
}

const groups = 5

func (s size) source() fstest.MapFS {
	files := fstest.MapFS{}
	put := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	for i := range s.members {
		put(fmt.Sprintf("clusters/m%03d.yaml", i), cluster(fmt.Sprintf("m%03d", i), fmt.Sprintf(`group: g%d`, i%groups)))
	}
	for i := range s.templates {
		put(fmt.Sprintf("apps/a%04d.yaml", i), fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: app%04d
  namespace: ns%d
  labels: {app: app%04d, team: t%03d}
spec:
  replicas: %d
  selector: {matchLabels: {app: app%04d}}
  template:
    metadata: {labels: {app: app%04d}}
    spec:
      containers:
      - name: main
        image: registry.example.com/team/app%04d:v1.0
        args: [--listen, ":8080", --log-level=info]
        ports: [{containerPort: 8080, name: http}]
        env:
        - {name: MODE, value: production}
        - {name: REGION, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: "1", memory: 512Mi}}
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 5}
`, i, i%10, i, i%s.policies, 20+i%7, i, i, i))
	}
	for i := range s.policies {
		put(fmt.Sprintf("policies/p%03d.yaml", i), s.policy(i, ""))
	}
	put("overrides.yaml", `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: registry}
spec:
  overrideRules:
  - targetCluster: {labelSelector: {matchLabels: {group: g1}}}
    overriders: {imageOverrider: [{component: Registry, operator: replace, value: mirror.example.com}]}
`)
	return files
}

func (s size) policy(i int, extra string) string {
	division := "replicaSchedulingType: Duplicated"
	if i%4 == 3 {
		division = "replicaSchedulingType: Divided\n      replicaDivisionPreference: Weighted"
	}
	return fmt.Sprintf(`apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: p%03d}
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    labelSelector: {matchLabels: {team: t%03d}}
  placement:
    clusterAffinity: {labelSelector: {matchLabels: {group: g%d}}}
    replicaScheduling:
      %s
%s`, i, i, i%groups, division, extra)
}

// bench is a decided fleet.
type bench struct {
	size
	in   decide.Input
	d    *decide.Decision
	cold time.Duration // what the first pass took
}

func newBench(t testing.TB, s size) *bench {
	t.Helper()
	b := &bench{size: s}
	b.in = decide.Input{Source: gitstate.Snapshot{Revision: "c1", FS: newTree(s.source())}, Now: start, Memo: decide.NewMemo()}
	began := time.Now()
	b.step(t)
	b.cold = time.Since(began)
	b.in.Previous = b.d.Next
	b.in.Seen = b.observe()
	b.step(t)
	b.in.Previous = b.d.Next
	return b
}

// observe is every copy applied and healthy, on members that serve the usual kinds.
func (b *bench) observe() decide.Observations {
	seen := decide.Observations{Members: map[string]decide.MemberFacts{}}
	for name := range b.d.Next.Members {
		f := decide.MemberFacts{Ready: metav1.ConditionTrue, Since: start, UID: name, Version: "v1.36.1", APIsComplete: true,
			Namespaced: map[string]bool{}, Copies: map[api.ID]decide.CopyFacts{}}
		for g := range 30 {
			enabled := clusterv1alpha1.APIEnablement{GroupVersion: fmt.Sprintf("group%02d/v1", g)}
			for k := range 4 {
				kind := fmt.Sprintf("Kind%d", k)
				enabled.Resources = append(enabled.Resources, clusterv1alpha1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind})
				f.Namespaced[fmt.Sprintf("group%02d/%s", g, kind)] = true
			}
			f.APIs = append(f.APIs, enabled)
		}
		f.APIs = append(f.APIs, clusterv1alpha1.APIEnablement{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}})
		seen.Members[name] = f
	}
	for _, w := range b.d.Next.Works {
		live := maps.Clone(w.Object)
		live["status"] = map[string]any{"readyReplicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
		seen.Members[w.Member].Copies[w.ID.Unversioned()] = decide.CopyFacts{Applied: decide.HashText(w.Hash), Live: live}
	}
	return seen
}

func (b *bench) step(t testing.TB) {
	d, err := decide.Next(b.in)
	if err != nil {
		t.Fatal(err)
	}
	b.d = d
}

var sizes = []size{{10, 2, 15}, {100, 20, 15}, {1000, 200, 100}}

// BenchmarkPass is a whole decision: cold, with nothing changed, and with one policy changed.
func BenchmarkPass(b *testing.B) {
	for _, s := range sizes {
		b.Run("cold/"+s.String(), func(b *testing.B) {
			b.ReportAllocs()
			source := gitstate.Snapshot{Revision: "c1", FS: newTree(s.source())}
			for b.Loop() {
				d, err := decide.Next(decide.Input{Source: source, Now: start})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(d.Works)), "works")
			}
		})
		b.Run("nochange/"+s.String(), func(b *testing.B) {
			b.ReportAllocs()
			pass := newBench(b, s)
			pass.step(b) // the first look at what was decided fills the memo
			for b.Loop() {
				pass.step(b)
			}
			if pass.d.Commit != nil {
				b.Fatal(pass.d.Commit.Subject)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(pass.cold), "of-cold")
		})
		b.Run("onepolicy/"+s.String(), func(b *testing.B) {
			b.ReportAllocs()
			pass := newBench(b, s)
			var trees []*tree
			for i := range 2 {
				files := s.source()
				files["policies/p000.yaml"].Data = []byte(s.policy(0, fmt.Sprintf("  conflictResolution: %s\n", []string{"Overwrite", "Abort"}[i])))
				trees = append(trees, newTree(files))
			}
			i := 0
			for b.Loop() {
				i++
				pass.in.Source = gitstate.Snapshot{Revision: gitstate.Revision(fmt.Sprint("c", i)), FS: trees[(i+1)%2]}
				pass.step(b)
				if pass.d.Commit == nil || !strings.HasPrefix(pass.d.Commit.Subject, "terms") {
					b.Fatal("the change of the policy decided nothing")
				}
				pass.in.Previous = pass.d.Next
			}
		})
	}
}

// BenchmarkScale is a first decision in which every template goes to three members: with more members, and
// with more templates. each is the cost of one template, of-10 that cost against the one at size 10.
func BenchmarkScale(b *testing.B) {
	for _, scale := range []struct {
		name  string
		sizes []size
	}{
		{"members", []size{{100, 1, 10}, {100, 1, 100}, {100, 1, 1000}, {100, 1, 5000}}},
		{"templates", []size{{10, 1, 100}, {100, 1, 100}, {1000, 1, 100}, {10000, 1, 100}}},
	} {
		var least float64
		for _, s := range scale.sizes {
			b.Run(scale.name+"/"+s.String(), func(b *testing.B) {
				files := s.source()
				files["policies/p000.yaml"].Data = []byte(`apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: p000}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 3}]}
`)
				source := gitstate.Snapshot{Revision: "c1", FS: newTree(files)}
				b.ReportAllocs()
				for b.Loop() {
					d, err := decide.Next(decide.Input{Source: source, Now: start})
					if err != nil {
						b.Fatal(err)
					}
					if len(d.Works) < 3*s.templates {
						b.Fatalf("%d works", len(d.Works))
					}
				}
				each := float64(b.Elapsed()) / float64(b.N) / float64(s.templates)
				if least == 0 {
					least = each
				}
				b.ReportMetric(each, "ns/template")
				b.ReportMetric(each/least, "of-10")
			})
		}
	}
}

// BenchmarkLargeObject is a first decision about one object of 3 MiB for ten members. of-text is the cost
// against writing the object once.
func BenchmarkLargeObject(b *testing.B) {
	var large strings.Builder
	large.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large, namespace: default}\ndata:\n")
	content := map[string]any{}
	for i := 0; large.Len() < 3<<20; i++ {
		key, value := fmt.Sprintf("key%06d", i), strings.Repeat("text ", 10)
		fmt.Fprintf(&large, "  %s: %q\n", key, value)
		content[key] = value
	}
	files := size{0, 1, 10}.source()
	delete(files, "policies/p000.yaml")
	files["large.yaml"] = &fstest.MapFile{Data: []byte(large.String())}
	files["policy.yaml"] = &fstest.MapFile{Data: []byte(policyFor("p", "ConfigMap large", everywhere))}
	source := gitstate.Snapshot{Revision: "c1", FS: newTree(files)}
	b.ReportAllocs()
	b.SetBytes(int64(large.Len()))
	for b.Loop() {
		d, err := decide.Next(decide.Input{Source: source, Now: start})
		if err != nil {
			b.Fatal(err)
		}
		if len(d.Works) != 10 {
			b.Fatalf("%d works: %v", len(d.Works), d.Findings)
		}
	}
	each := b.Elapsed() / time.Duration(b.N)
	began := time.Now()
	canonical.YAML(map[string]any{"data": content})
	b.ReportMetric(float64(each)/float64(time.Since(began)), "of-text")
}

// A pass over a fleet in which nothing changed costs a fraction of the first one. Allocations stand
// for the cost: they do not depend on what else the machine does.
func TestPassWithoutChangesCostsLittle(t *testing.T) {
	pass := newBench(t, size{100, 20, 15})
	source := pass.in.Source
	cold := testing.AllocsPerRun(3, func() {
		if _, err := decide.Next(decide.Input{Source: source, Now: start}); err != nil {
			t.Fatal(err)
		}
	})
	pass.step(t)
	nochange := testing.AllocsPerRun(3, func() { pass.step(t) })
	if pass.d.Commit != nil {
		t.Fatal(pass.d.Commit.Subject)
	}
	if nochange*10 > cold {
		t.Errorf("%.0f allocations where nothing changed, %.0f in the first pass, want less than a tenth", nochange, cold)
	}
}

// BenchmarkMemory is what a fleet of the largest size keeps between passes.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		pass := newBench(b, sizes[len(sizes)-1])
		b.ReportMetric((heap()-before)/(1<<20), "MiB")
		runtime.KeepAlive(pass)
	}
}
