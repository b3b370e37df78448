package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// A pass that has nothing to do costs members and the state branch nothing.
func TestHundredPassesOverAnUnchangedFleetWriteNothing(t *testing.T) {
	t.Parallel()
	servers := []*membertest.Server{membertest.Start(t, "kube02"), membertest.Start(t, "kube03")}
	c := &Config{Fleet: "godwit", Namespaces: "needed", DataDir: t.TempDir()}
	c.Clusters.Kubeconfig = []string{filepath.Join(t.TempDir(), "kubeconfig")}
	c.Clusters.ProbeInterval, c.Clusters.ProbeTimeout = 50*time.Millisecond, 10*time.Second
	if err := membertest.WriteKubeconfig(c.Clusters.Kubeconfig[0], servers...); err != nil {
		t.Fatal(err)
	}
	repo := gittest.NewRepo(t)
	fleet := map[string]string{}
	for name, text := range tree(t, "../../examples/quickstart") {
		fleet[name] = string(text)
	}
	repo.Commit("main", fleet, "the quickstart fleet")
	c.Source.URL, c.Source.Path, c.Source.DefaultNamespace = repo.Dir, ".", "default"
	c.Safety.MaxDeletePercent, c.State.Branch = 50, stateBranch
	c.State.Author.Name, c.State.Author.Email = "godwit", "godwit@example.com"

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := c.loop(ctx, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if failures, err := l.Once(ctx, time.Minute); err != nil || len(failures) > 0 {
		t.Fatalf("Once = %v, %v", failures, err)
	}
	// What was observed last may still have to be written down: status is due at once here.
	for {
		before := repo.Head(stateBranch)
		if _, err := l.Pass(ctx); err != nil {
			t.Fatal(err)
		}
		if repo.Head(stateBranch) == before {
			break
		}
	}
	head, writes := repo.Head(stateBranch), make([]int64, len(servers))
	for i, s := range servers {
		_, writes[i] = s.Writes()
	}
	for i := range 100 {
		if _, err := l.Pass(ctx); err != nil {
			t.Fatalf("pass %d: %v", i, err)
		}
	}
	if got := repo.Head(stateBranch); got != head {
		t.Errorf("the state branch is at %s, want %s:\n%s", got, head, repo.Git("log", "--stat", head.String()+".."+got.String()))
	}
	for i, s := range servers {
		if _, sent := s.Writes(); sent != writes[i] {
			t.Errorf("%s was sent %d writes, want none", s.Name(), sent-writes[i])
		}
	}
}

func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := readTree(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("read %s: %d files, %v", dir, len(files), err)
	}
	return files
}
