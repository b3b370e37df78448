package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

var lossFleets = flag.Int("loss.fleets", 40, "how many random fleets are asked what becomes of them")

// What a death does not concern is not played. The answers are those of playing everything: on random fleets, some of
// which have a member or a copy that is sick, before and after a random edit.
func TestWhatIfSaysWhatPlayingEverythingSays(t *testing.T) {
	said := map[string]int{}
	for seed := range uint64(*lossFleets) {
		before, after := randomPlan(t, seed)
		var p *progress
		got, err := whatIf(t.Context(), p, before, after, decide.NewMemo())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := &report.WhatIf{Clusters: []report.WhatIfCluster{}}
		for _, name := range membersOf(after.state) {
			is, err := lossOf(t.Context(), after.in, after.state, []string{name}, lossTime)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var was *report.Loss
			if before.state.Members[name] != nil {
				if was, err = lossOf(t.Context(), before.in, before.state, []string{name}, lossTime); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			want.Compare(name, was, is)
			for _, b := range is.Bindings {
				said[b.Outcome]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: want -, got +:\n%s", seed, diff)
		}
		for _, c := range got.Clusters {
			said["changes"] += len(c.Changes)
		}
	}
	t.Logf("outcomes: %v", said)
	for _, outcome := range []string{"moves", "stays", "changes"} {
		if said[outcome] < 4 {
			t.Errorf("%d %s in all fleets: they say too little", said[outcome], outcome)
		}
	}
}

func TestWhatIfEndsWhenItIsToldTo(t *testing.T) {
	before, after := randomPlan(t, 1)
	for _, before := range []*playing{nil, before} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if w, err := whatIf(ctx, nil, before, after, decide.NewMemo()); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", w, err)
		}
	}
}

// randomPlan is a fleet that runs, and an edit of its source.
func randomPlan(t *testing.T, seed uint64) (before, after *playing) {
	t.Helper()
	fleet := newPlanFleet(seed, []string{"m1", "m2", "m3", "m4", "m5", "m6"})
	for range 6 {
		fleet.edit() // which brings quotas, definitions and the like
	}
	options := planConfig("").options()
	if seed%2 == 0 {
		options.MaxEvictionsPerMinute = 1 // whoever else leaves a member makes others wait
	}
	if seed%4 < 2 {
		fleet.quota()
	}
	random := rand.New(rand.NewPCG(seed, 1))
	past := map[string]gitstate.Snapshot{}
	input := func(state *record.State, now time.Time) decide.Input {
		files := fstest.MapFS{}
		for name, text := range fleet.files {
			// A toleration that ends within the time that is looked at lets a workload leave and come back for ever.
			files[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "tolerationSeconds: 3600", "tolerationSeconds: 360000"))}
		}
		in := decide.Input{Previous: state, Now: now, Options: options}
		in.Source = gitstate.Snapshot{Revision: gitstate.Revision(fmt.Sprintf("%040x", len(past)+1)), FS: files, Message: fleet.message}
		past[string(in.Source.Revision)] = in.Source
		return in
	}
	next := func(in decide.Input) *decide.Decision {
		t.Helper()
		d, err := decide.Next(in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return d
	}
	in := input(nil, gittest.Start)
	d := next(in)
	for range 3 {
		in.Previous, in.Now, in.Seen = d.Next, in.Now.Add(time.Minute), sickly(d, random, seed)
		d = next(in)
	}
	in.Previous, in.Seen = d.Next, decide.Observations{}
	before = &playing{in, d.Next}
	fleet.edit()
	head := input(d.Next, in.Now)
	d = next(head)
	return before, &playing{head, d.Next}
}

// sickly is what is seen where all is well but a member, in every third fleet, and one of ten copies, in every second one.
func sickly(d *decide.Decision, random *rand.Rand, seed uint64) decide.Observations {
	seen := decide.Observations{Members: map[string]decide.MemberFacts{}}
	for _, name := range membersOf(d.Next) {
		seen.Members[name] = decide.MemberFacts{Ready: metav1.ConditionTrue, Since: gittest.Start, UID: name, Version: "v1.36.1", Copies: map[api.ID]decide.CopyFacts{}}
	}
	if down, ok := seen.Members["m2"]; ok && seed%3 == 0 {
		down.Ready, down.Since = metav1.ConditionUnknown, gittest.Start.Add(time.Minute)
		seen.Members["m2"] = down
	}
	paths := make([]string, 0, len(d.Next.Works))
	for path := range d.Next.Works {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		w := d.Next.Works[path]
		health := workv1alpha2.ResourceHealthy
		if random.IntN(10) == 0 && seed%2 == 0 {
			health = workv1alpha2.ResourceUnhealthy
		}
		if m, ok := seen.Members[w.Member]; ok {
			m.Copies[w.ID.Unversioned()] = decide.CopyFacts{Applied: decide.HashText(w.Hash), Health: health}
		}
	}
	return seen
}
