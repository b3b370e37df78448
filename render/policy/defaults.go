package policy

import (
	"maps"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// defaultGracePeriodSeconds is how long an old copy stays at most when it is purged gracefully.
const defaultGracePeriodSeconds = 600

// decodeSpec reads the spec; nil if it cannot be read.
func decodeSpec(r *Report) *policyv1alpha1.PropagationSpec {
	o := r.Object
	if spec, ok := o.Content["spec"].(map[string]any); ok {
		if _, list := spec["failover"].([]any); list {
			r.Error("failover-per-kind", Path{"spec", "failover"},
				"a list of behaviours per kind is not supported; write one policy per kind, each with its own failover.application")
			o = withoutFailover(o, spec)
		}
	}
	policy, findings := manifest.Decode[policyv1alpha1.PropagationPolicy](o)
	r.Add(findings)
	if policy == nil {
		return nil
	}
	return &policy.Spec
}

// withoutFailover lets the rest of the file be looked at.
func withoutFailover(o *manifest.Object, spec map[string]any) *manifest.Object {
	rest := maps.Clone(spec)
	delete(rest, "failover")
	copied := *o
	copied.Content = maps.Clone(o.Content)
	copied.Content["spec"] = rest
	return &copied
}

// setDefaults fills in what Karmada's schema and then its admission fill in. spec is the caller's own.
func setDefaults(r *Report, spec *policyv1alpha1.PropagationSpec) {
	setDefault(&spec.Priority, new(int32(0)))
	setDefaultText(&spec.Preemption, policyv1alpha1.PreemptNever)
	setDefaultText(&spec.SchedulerName, DefaultScheduler)
	setDefaultText(&spec.ConflictResolution, policyv1alpha1.ConflictAbort)
	for i := range spec.ResourceSelectors {
		s := &spec.ResourceSelectors[i]
		setDefaultText(&s.Namespace, r.Object.Namespace)
		if s.Kind == "ServiceImport" && s.APIVersion == "multicluster.x-k8s.io/v1alpha1" {
			spec.PropagateDeps = true
		}
	}
	setPlacementDefaults(&spec.Placement)
	if spec.Failover != nil {
		setFailoverDefaults(r, spec.Failover)
	}
}

// DefaultScheduler is the scheduler of policies that name none. Bindings of others are not scheduled.
const DefaultScheduler = "default-scheduler"

func setPlacementDefaults(p *policyv1alpha1.Placement) {
	for i := range p.SpreadConstraints {
		c := &p.SpreadConstraints[i]
		if c.SpreadByLabel == "" {
			setDefaultText(&c.SpreadByField, policyv1alpha1.SpreadByFieldCluster)
		}
		if c.MinGroups == 0 {
			c.MinGroups = 1
		}
	}
	if s := p.ReplicaScheduling; s != nil {
		setDefaultText(&s.ReplicaSchedulingType, policyv1alpha1.ReplicaSchedulingTypeDivided)
		if s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided {
			setDefaultText(&s.ReplicaDivisionPreference, policyv1alpha1.ReplicaDivisionPreferenceWeighted)
		}
	}
}

// setFailoverDefaults leaves two fields empty whose meaning depends on more than the policy:
// Differs from Karmada: cluster.purgeMode falls back to that of application before it is
// Gracefully, and blockPredecessorSeconds, which Karmada does not have, is 600 unless the
// compatibility switch is on.
func setFailoverDefaults(r *Report, f *policyv1alpha1.FailoverBehavior) {
	at := Path{"spec", "failover"}
	if a := f.Application; a != nil {
		currentPurgeMode(r, at.At("application", "purgeMode"), &a.PurgeMode)
		setDefault(&a.DecisionConditions.TolerationSeconds, new(int32(300)))
		setDefaultText(&a.PurgeMode, policyv1alpha1.PurgeGracefully)
		if a.PurgeMode == policyv1alpha1.PurgeGracefully {
			setDefault(&a.GracePeriodSeconds, new(int32(defaultGracePeriodSeconds)))
		}
	}
	if c := f.Cluster; c != nil {
		currentPurgeMode(r, at.At("cluster", "purgeMode"), &c.PurgeMode)
	}
}

// currentPurgeMode puts the current word in place of that of Karmada before 1.15.
//
// Differs from Karmada: since 1.19 it refuses the old words.
func currentPurgeMode(r *Report, at Path, mode *policyv1alpha1.PurgeMode) {
	current, old := map[policyv1alpha1.PurgeMode]policyv1alpha1.PurgeMode{
		policyv1alpha1.PurgeImmediately: policyv1alpha1.PurgeDirectly,
		policyv1alpha1.PurgeGraciously:  policyv1alpha1.PurgeGracefully,
	}[*mode]
	if !old {
		return
	}
	r.Warning("old-purge-mode", at, "%s is the word of Karmada before 1.15 and refused by 1.19; write %s, which is what it is taken for", *mode, current)
	*mode = current
}

func setDefault[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}

func setDefaultText[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}
