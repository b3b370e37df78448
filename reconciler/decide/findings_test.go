package decide_test

import (
	"maps"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// What is checked before a commit is what a run would say: also where one memo serves a source and then another one.
func TestFindingsAreThoseOfTheDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files, memo := genFleet(t), decide.NewMemo()
		for range 3 {
			in := decide.Input{Source: gitstate.Snapshot{FS: newTree(maps.Clone(files))}, Now: start, Options: decide.Options{CompatKarmada: rapid.Bool().Draw(t, "compat")}}
			d, err := decide.Next(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d.Findings, decide.Findings(in)); diff != "" {
				t.Error(diff)
			}
			in.Memo = memo
			if diff := cmp.Diff(d.Findings, decide.Findings(in)); diff != "" {
				t.Errorf("with a memo: %s", diff)
			}
			edit(t, files)
		}
	})
}

// A memo of findings has works without a text, which a decision must not take over.
func TestADecisionDoesNotRelyOnFindings(t *testing.T) {
	source := gitstate.Snapshot{FS: newTree(fstest.MapFS{
		"m.yaml": {Data: []byte(cluster("m1", ""))}, "a.yaml": {Data: []byte(configMap("a", "one"))}, "p.yaml": {Data: []byte(policyFor("p", "ConfigMap", everywhere))},
	})}
	in := decide.Input{Source: source, Now: start, Memo: decide.NewMemo()}
	decide.Findings(in)
	got, err := decide.Next(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Memo = nil
	want, err := decide.Next(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Commit.Files, got.Commit.Files); diff != "" {
		t.Error(diff)
	}
}

// To check a source is not to decide on it: it costs little more than reading its files. Allocations stand for the cost.
func TestFindingsCostLittle(t *testing.T) {
	in := decide.Input{Source: gitstate.Snapshot{FS: newTree(size{100, 20, 30}.source())}, Now: start}
	read := testing.AllocsPerRun(3, func() { manifest.Read(in.Source.FS, manifest.Options{}) })
	if findings := testing.AllocsPerRun(3, func() { decide.Findings(in) }); findings > 2*read {
		t.Errorf("%.0f allocations for findings, %.0f to read the files", findings, read)
	}
}
