package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Each example of failover has a scenario, and beside it the timeline that it gives.
func TestExamplesOfFailover(t *testing.T) {
	scenarios, err := filepath.Glob("../../examples/failover/*/scenario.yaml")
	if err != nil || len(scenarios) < 3 {
		t.Fatalf("scenarios: %v %v", scenarios, err)
	}
	names := regexp.MustCompile(`(?m)^(\S+ +)[0-9a-f]{7} `) // of commits: they tell the version too
	for _, scenario := range scenarios {
		t.Run(filepath.Base(filepath.Dir(scenario)), func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			var out bytes.Buffer
			cmd := newRoot(func() {})
			cmd.SetArgs([]string{"simulate", "-f", scenario, "--record", t.TempDir()})
			cmd.SetOut(&out)
			cmd.SetErr(&bytes.Buffer{})
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			got := names.ReplaceAll(out.Bytes(), []byte("$1******* "))
			golden := filepath.Join(filepath.Dir(scenario), "timeline.txt")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("timeline (-want +got):\n%s", diff)
			}
		})
	}
}
