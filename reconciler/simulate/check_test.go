package simulate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// change changes the binding of web, in a state.
type change func(*workv1alpha2.ResourceBinding, *record.State)

// tampered decides on a previous state that was changed, and changes what follows.
func tampered(before, after change) func(decide.Input) (*decide.Decision, error) {
	key := record.BindingKey{Namespace: "default", Name: webDeployment}
	changed := func(s *record.State, c change) *record.State {
		if s == nil || s.Bindings[key] == nil || c == nil {
			return s
		}
		data, err := record.EncodeBinding(s.Bindings[key])
		if err != nil {
			panic(err)
		}
		b, err := record.DecodeBinding(key.Path(), data)
		if err != nil {
			panic(err)
		}
		next := s.Clone()
		next.Bindings[key] = b
		c(b, next)
		return next
	}
	return func(in decide.Input) (*decide.Decision, error) {
		in.Previous, in.Memo = changed(in.Previous, before), nil
		d, err := decide.Next(in)
		if err != nil {
			return nil, err
		}
		d.Next = changed(d.Next, after)
		return d, nil
	}
}

func TestABrokenRuleIsNoticed(t *testing.T) {
	everywhere := "placement: {}, propagateDeps: true, failover: {application: {decisionConditions: {tolerationSeconds: 60}, blockPredecessorSeconds: 300}}"
	calls := 0
	otherwise := func(change func(*decide.Options)) func(decide.Input) (*decide.Decision, error) {
		return func(in decide.Input) (*decide.Decision, error) {
			change(&in.Options)
			in.Memo = nil
			return decide.Next(in)
		}
	}
	soon := int32(10)
	for _, c := range []struct {
		name      string
		invariant int
		spec      string
		startup   string
		events    string
		broken    func(decide.Input) (*decide.Decision, error)
	}{
		{"the old copy, back with its member, goes before its time", 1, fmt.Sprintf(one, "cluster: {}"), "30s", "60s cluster: m1, ready: \"Unknown\"\n365s cluster: m1, ready: \"True\"",
			otherwise(func(o *decide.Options) { o.Failover.Timeout = 15 * time.Second })},
		{"a replica too few", 6, tutorialSpec, "", "60s " + sick, tampered(nil, func(b *workv1alpha2.ResourceBinding, _ *record.State) {
			if len(b.Spec.GracefulEvictionTasks) > 0 {
				b.Spec.Clusters[0].Replicas--
			}
		})},
		{"the block is forgotten", 3, everywhere, "", "60s " + sick + "\n200s " + well,
			tampered(func(b *workv1alpha2.ResourceBinding, _ *record.State) { b.Spec.ActiveEvictionHistory = nil }, nil)},
		{"what is in memory decides", 4, appFailover(""), "", "60s " + sick, func(in decide.Input) (*decide.Decision, error) {
			if calls++; calls%2 == 0 {
				in.Now = in.Now.Add(-time.Second)
			}
			return decide.Next(in)
		}},
		{"a member that is down is left too early", 5, fmt.Sprintf(one, "cluster: {}"), "", "60s cluster: m1, ready: \"Unknown\"",
			otherwise(func(o *decide.Options) { o.Failover.DefaultTolerationSeconds = &soon })},
		{"a member on which it is sick is left too late", 5, appFailover(""), "", "60s " + sick + "\n90s " + odd + "\n100s " + sick + "\n130s " + sick,
			otherwise(func(o *decide.Options) { o.Failover.ResetUnknown = true })},
		{"a decision is not the last word", 6, appFailover(""), "", "", tampered(nil, func(b *workv1alpha2.ResourceBinding, _ *record.State) { b.Spec.Clusters = nil })},
		{"what goes is not in the record", 7, appFailover(""), "30s", "60s " + sick, tampered(nil, func(b *workv1alpha2.ResourceBinding, s *record.State) {
			for path, w := range s.Works {
				if len(b.Spec.GracefulEvictionTasks) > 0 && w.Member == "m1" {
					delete(s.Works, path)
					r := record.NewRetired("m1", w.ID, s.Meta.PassTime.Time, "Unscheduled", false)
					s.Retired[r.Path()] = r
				}
			}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := story{spec: c.spec, replicas: 4, startup: c.startup, until: "8m", broken: c.broken, events: c.events}.play(t)
			var v *Violation
			if !errors.As(err, &v) || v.Invariant != c.invariant {
				t.Errorf("%v, want invariant %d to be broken", err, c.invariant)
			}
		})
	}
}
