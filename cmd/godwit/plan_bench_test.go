package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/remote"
	"github.com/godwit-gitops/godwit/gitstate/source"
	"github.com/godwit-gitops/godwit/gitstate/store"
	"github.com/godwit-gitops/godwit/reconciler"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// What a reviewer waits for: 1,000 templates and 200 policies on 100 members, each template on 20 of them, and a
// branch that changes one file. The state branch is what a reconciler leaves: 20,000 works, and members with what
// was seen of them. Each plan starts as a process does, with nothing in memory.
func BenchmarkPlanOneOf1000(b *testing.B) {
	repo := largeRepo(b)
	clone := filepath.Join(b.TempDir(), "clone")
	repo.Git("clone", "--quiet", repo.Dir, clone)
	gittest.At(b, filepath.Join(clone, ".git")).Git("--work-tree", clone, "restore", "--source", "origin/topic", "apps/a0000.yaml")
	configured := func(url, dir string) *Config {
		c := planConfig(b.TempDir())
		c.Source.URL, c.sourceDir = url, dir
		return c
	}
	for _, bench := range []struct {
		name       string
		c          *Config
		base, head string
	}{
		{"revisions", configured(repo.Dir, ""), "main", "topic"},
		{"uncommitted", configured("", clone), "", ""},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var plans, reads time.Duration
			for b.Loop() {
				began := time.Now()
				plan, err := bench.c.plan(b.Context(), "", bench.base, bench.head, false)
				if err != nil {
					b.Fatal(err)
				}
				plans += time.Since(began)
				if n := plan.Summary.Works[decide.Updated]; n != 20 {
					b.Fatalf("%d works are updated, want 20", n)
				}
				began = time.Now()
				for _, rev := range []string{"main", "topic", stateBranch} {
					archive := exec.Command("git", "--git-dir", repo.Dir, "archive", rev)
					archive.Stdout = io.Discard
					if err := archive.Run(); err != nil {
						b.Fatal(err)
					}
				}
				reads += time.Since(began)
			}
			b.ReportMetric(plans.Seconds()/float64(b.N), "s/plan")
			b.ReportMetric(plans.Seconds()/reads.Seconds(), "x-git-archive")
		})
	}
}

// What a reviewer waits for besides, on the same fleet: the death of each of 100 members, before and after a change.
func BenchmarkWhatIfOf100(b *testing.B) {
	c := planConfig(b.TempDir())
	c.Source.URL = largeRepo(b).Dir
	var plain, ifs time.Duration
	for b.Loop() {
		for _, bench := range []struct {
			ifs   bool
			spent *time.Duration
		}{{false, &plain}, {true, &ifs}} {
			began := time.Now()
			plan, err := c.plan(b.Context(), "", "main", "topic", bench.ifs)
			if err != nil {
				b.Fatal(err)
			}
			*bench.spent += time.Since(began)
			if bench.ifs && len(plan.WhatIf.Clusters) != 100 {
				b.Fatalf("%d members, want 100", len(plan.WhatIf.Clusters))
			}
		}
	}
	b.ReportMetric(ifs.Seconds()/float64(b.N), "s/plan")
	b.ReportMetric(ifs.Seconds()/plain.Seconds(), "x-plan")
}

// planConfig is the configuration that commands have where nothing is set.
func planConfig(dir string) *Config {
	c := &Config{Fleet: "godwit", Namespaces: "needed", DataDir: dir, notes: io.Discard}
	c.Source.Path, c.Source.DefaultNamespace, c.State.Branch = ".", "default", stateBranch
	c.Safety.MaxDeletePercent = 50
	c.State.Author.Name, c.State.Author.Email = "godwit", "godwit@example.com"
	c.Failover.DefaultTolerationSeconds = 300
	return c
}

// largeRepo has the branches main, topic and the state of main.
func largeRepo(b *testing.B) *gittest.Repo {
	b.Helper()
	repo := gittest.NewRepo(b)
	files := largeFleet()
	main := repo.Commit("main", files, "the fleet")
	repo.SetRef("refs/heads/topic", main)
	repo.Commit("topic", map[string]string{"apps/a0000.yaml": strings.Replace(files["apps/a0000.yaml"], ":v1.0", ":v1.1", 1)}, "one more version")

	r, err := remote.New(remote.Options{URL: repo.Dir})
	if err != nil {
		b.Fatal(err)
	}
	src, err := source.Open(source.Options{Remote: r, Path: ".", Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	snapshot, err := src.Fetch(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(b.Context(), store.Options{Remote: r, Branch: stateBranch, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tree, err := s.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	head, options := tree.Head, planConfig("").options()
	options.SourceURL = repo.Dir
	in := decide.Input{Source: snapshot, Now: gittest.Start, Options: options, Memo: decide.NewMemo()}
	for range 3 {
		d, err := decide.Next(in)
		if err != nil {
			b.Fatal(err)
		}
		in.Previous, in.Seen, in.Now = d.Next, allWell(d), in.Now.Add(time.Minute)
		if d.Commit == nil {
			continue
		}
		changes := make([]store.Change, len(d.Commit.Files))
		for i, f := range d.Commit.Files {
			changes[i] = store.Change{Path: f.Path, Data: f.Data}
		}
		head, err = s.Commit(b.Context(), head, changes, store.Message{
			Subject: d.Commit.Subject, When: d.Commit.Time, Trailers: reconciler.Trailers(d.Commit.Source, d.Commit.Reason, d.Commit.Time, "test"),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if n := len(in.Previous.Works); n < 20_000 {
		b.Fatalf("%d works, want 20000", n)
	}
	if err := s.Push(b.Context()); err != nil {
		b.Fatal(err)
	}
	repo.Git("repack", "-adq") // as in a clone
	return repo
}

// allWell is that every copy is applied and healthy, on members that serve what clusters do.
func allWell(d *decide.Decision) decide.Observations {
	apis := []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}}
	for group := range 30 {
		enabled := clusterv1alpha1.APIEnablement{GroupVersion: fmt.Sprintf("group%02d/v1", group)}
		for k := range 4 {
			enabled.Resources = append(enabled.Resources, clusterv1alpha1.APIResource{Name: fmt.Sprintf("kind%ds", k), Kind: fmt.Sprintf("Kind%d", k)})
		}
		apis = append(apis, enabled)
	}
	seen := decide.Observations{Members: map[string]decide.MemberFacts{}}
	for name := range d.Next.Members {
		seen.Members[name] = decide.MemberFacts{
			Ready: metav1.ConditionTrue, Reason: "ClusterReady", Since: gittest.Start, UID: name, Version: "v1.36.1", APIs: apis, APIsComplete: true,
			Copies: map[api.ID]decide.CopyFacts{},
		}
	}
	for _, w := range d.Next.Works {
		seen.Members[w.Member].Copies[w.ID.Unversioned()] = decide.CopyFacts{Applied: decide.HashText(w.Hash), Health: "Healthy"}
	}
	return seen
}

// largeFleet are the files of the source: a policy holds five templates and sends them to a fifth of the members.
func largeFleet() map[string]string {
	files := map[string]string{"overrides.yaml": `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: registry}
spec:
  overrideRules:
  - targetCluster: {labelSelector: {matchLabels: {group: g1}}}
    overriders: {imageOverrider: [{component: Registry, operator: replace, value: mirror.example.com}]}
`}
	for i := range 100 {
		files[fmt.Sprintf("clusters/m%03d.yaml", i)] = fmt.Sprintf(`apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m%03d, labels: {group: g%d}}
spec: {syncMode: Push, region: r%d}
`, i, i%5, i%3)
	}
	for i := range 1000 {
		files[fmt.Sprintf("apps/a%04d.yaml", i)] = fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: app%04[1]d
  namespace: ns%[2]d
  labels: {app: app%04[1]d, team: t%03[3]d}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: app%04[1]d}}
  template:
    metadata: {labels: {app: app%04[1]d}}
    spec:
      containers:
      - name: main
        image: registry.example.com/team/app%04[1]d:v1.0
        args: [--listen, ":8080", --log-level=info]
        ports: [{containerPort: 8080, name: http}]
        env:
        - {name: MODE, value: production}
        - {name: REGION, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: "1", memory: 512Mi}}
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 5}
`, i, i%10, i%200, 20+i%7)
	}
	for i := range 200 {
		division := "Duplicated"
		if i%4 == 3 {
			division = "Divided, replicaDivisionPreference: Weighted"
		}
		failover := ""
		if i%2 == 0 {
			failover = "  failover: {cluster: {purgeMode: Directly}}\n"
		}
		files[fmt.Sprintf("policies/p%03d.yaml", i)] = fmt.Sprintf(`apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: p%03d}
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    labelSelector: {matchLabels: {team: t%03[1]d}}
  placement:
    clusterAffinity: {labelSelector: {matchLabels: {group: g%d}}}
    replicaScheduling: {replicaSchedulingType: %s}
%s`, i, i%5, division, failover)
	}
	return files
}
