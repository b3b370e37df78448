package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// checkedFleet writes 1,000 templates in a file each, 200 policies that divide or duplicate them over a fifth of 100
// members, and overrides. Built ones are a kustomization each.
func checkedFleet(t testing.TB, dir string, built bool) {
	t.Helper()
	put := func(name, format string, args ...any) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		put(fmt.Sprintf("clusters/m%03d.yaml", i), `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: m%03d
  labels: {tier: t%d}
spec:
  syncMode: Push
`, i, i%5)
	}
	for i := range 1000 {
		name := fmt.Sprintf("apps/a%04d.yaml", i)
		if built {
			name = fmt.Sprintf("apps/a%04d/deployment.yaml", i)
			put(fmt.Sprintf("apps/a%04d/kustomization.yaml", i), "resources: [deployment.yaml]\n")
		}
		put(name, `apiVersion: apps/v1
kind: Deployment
metadata:
  name: app%[1]d
  namespace: team%[2]d
  labels: {team: p%[3]d}
spec:
  replicas: %[4]d
  selector:
    matchLabels: {app: app%[1]d}
  template:
    metadata:
      labels: {app: app%[1]d}
    spec:
      containers:
      - name: app
        image: registry.example.com/team/app:v1.%[1]d
        env:
        - name: LOG_LEVEL
          value: info
        ports:
        - containerPort: 8080
          name: http
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {cpu: "1", memory: 256Mi}
        livenessProbe:
          httpGet: {path: /healthz, port: http}
`, i, i%20, i%200, 1+i%40)
	}
	for i := range 200 {
		put(fmt.Sprintf("policies/p%03d.yaml", i), `apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: p%[1]d
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    labelSelector:
      matchLabels: {team: p%[1]d}
  placement:
    clusterAffinity:
      labelSelector:
        matchLabels: {tier: t%[2]d}
    replicaScheduling:
      replicaSchedulingType: %[3]s
`, i, i%5, []string{"Duplicated", "Divided"}[i%2])
	}
	for i := range 20 {
		put(fmt.Sprintf("overrides/o%02d.yaml", i), `apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata:
  name: tier
  namespace: team%d
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
  overrideRules:
  - targetCluster:
      labelSelector:
        matchLabels: {tier: t1}
    overriders:
      labelsOverrider:
      - operator: add
        value: {tier: t1}
`, i)
	}
}

// BenchmarkValidate is a check of 1,300 files, plain or kustomizations, and of a change to one of them. of-parsing is the
// cost against reading the same files and parsing their YAML, and nothing else.
func BenchmarkValidate(b *testing.B) {
	for _, bench := range []struct {
		name, since string
		built       bool
	}{{"files", "", false}, {"changed", "HEAD", false}, {"kustomizations", "", true}} {
		b.Run(bench.name, func(b *testing.B) {
			dir := b.TempDir()
			checkedFleet(b, dir, bench.built)
			if bench.since != "" {
				for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qm", "one"}} {
					command := exec.Command("git", append([]string{"-C", dir}, args...)...)
					if out, err := command.CombinedOutput(); err != nil {
						b.Fatalf("git %s: %v\n%s", args, err, out)
					}
				}
				if err := os.Remove(filepath.Join(dir, "apps/a0007.yaml")); err != nil {
					b.Fatal(err)
				}
			}
			c := offline(b, dir)
			var parsing time.Duration
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.validate(b.Context(), bench.since, nil); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				began := time.Now()
				parseAll(b, dir)
				parsing += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(parsing), "of-parsing")
		})
	}
}

// offline is the configuration of a folder and nothing else.
func offline(t testing.TB, dir string) *Config {
	t.Helper()
	cmd := newValidate()
	commonFlags(cmd.Flags())
	cmd.SetErr(io.Discard)
	if err := cmd.Flags().Set("source", dir); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseAll(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var o map[string]any
		return yaml.Unmarshal(text, &o)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A check must not read what is no part of the source, however large it is.
func TestValidateLeavesGitAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".git/objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/broken.yaml"), []byte("kind: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	v, findings, err := offline(t, dir).validate(context.Background(), "", nil)
	if err != nil || len(findings) > 0 || v.repository != dir {
		t.Errorf("validate = %v, %v of %q, want no findings of %q", findings, err, v.repository, dir)
	}
}

// The hooks are what people install: their commands and flags are ours.
func TestPreCommitHooksNameCommandsThatThereAre(t *testing.T) {
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID            string   `json:"id"`
		Name          string   `json:"name"`
		Description   string   `json:"description"`
		Entry         string   `json:"entry"`
		Language      string   `json:"language"`
		PassFilenames *bool    `json:"pass_filenames"`
		AlwaysRun     bool     `json:"always_run"`
		TypesOr       []string `json:"types_or"`
		Minimum       string   `json:"minimum_pre_commit_version"`
	}
	if err := yaml.UnmarshalStrict(text, &hooks); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, h := range hooks {
		ids = append(ids, h.ID)
		words := strings.Fields(h.Entry)
		cmd, rest, err := newRoot(func() {}).Find(words[1:])
		if words[0] != "godwit" || err != nil || cmd.Name() != "validate" {
			t.Errorf("%s: entry %q is no command of ours: %v", h.ID, h.Entry, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil || cmd.Flags().NArg() > 0 {
			t.Errorf("%s: %q: %v", h.ID, h.Entry, err)
		}
		if h.Language != "golang" || h.PassFilenames == nil || *h.PassFilenames {
			t.Errorf("%s is installed with go, and its files are not passed on: %+v", h.ID, h)
		}
	}
	if want := []string{"godwit-validate", "godwit-validate-changed"}; !slices.Equal(ids, want) {
		t.Errorf("hooks %q, want %q", ids, want)
	}
}
