package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// checkFailover checks spec.failover. Like all of this package it reports each intended difference
// from Karmada that touches the file as an info, whose code ends in the number the README gives it.
func checkFailover(r *Report, spec *policyv1alpha1.PropagationSpec) {
	at := Path{"spec", "failover"}
	f := spec.Failover
	if f == nil {
		f = &policyv1alpha1.FailoverBehavior{}
	}
	if a := f.Application; a != nil {
		if !spec.PropagateDeps {
			r.Error("failover-without-deps", Path{"spec", "propagateDeps"}, "must be true with failover.application, so that what the workload refers to moves along; set it")
		}
		checkApplication(r, at.At("application"), a)
		if f.Cluster == nil && !slices.ContainsFunc(spec.Placement.ClusterTolerations, optsIn) {
			r.Info("application-failover-only", at.At("application"), "reacts to copies that report to be unhealthy; add failover.cluster to leave clusters that no longer answer")
		}
	}
	if c := f.Cluster; c != nil {
		OneOf(r, at.At("cluster", "purgeMode"), c.PurgeMode, policyv1alpha1.PurgeDirectly, policyv1alpha1.PurgeGracefully)
		checkStatePreservation(r, at.At("cluster", "statePreservation"), c.StatePreservation)
		r.Info("differs-2", at.At("cluster"), "a cluster that is not ready or unreachable is left without a feature gate, flag or ClusterTaintPolicy, which Karmada asks for")
		if c.PurgeMode == "" && f.Application != nil {
			r.Info("differs-3", at.At("cluster"), "purgeMode is that of failover.application, %s; Karmada takes a flag of its controller", f.Application.PurgeMode)
		}
	}
	if f.Cluster == nil {
		checkOptIn(r, spec.Placement.ClusterTolerations)
	}
}

// optsIn tells whether a toleration asks, by its effect, to leave members that are down.
func optsIn(t corev1.Toleration) bool { return outage(t) && t.Effect == corev1.TaintEffectNoExecute }

// checkOptIn tells what tolerations of the outage taints do in a policy without failover.cluster.
func checkOptIn(r *Report, tolerations []corev1.Toleration) {
	for i, t := range tolerations {
		at := Path{"spec", "placement", "clusterTolerations"}.At(i)
		switch {
		case optsIn(t):
			r.Info("differs-2", at, "asks to leave clusters that are down when this toleration ends; in Karmada it has no effect by itself, since those taints are NoSchedule there")
		case outage(t) && t.Effect == "" && t.TolerationSeconds != nil:
			r.Warning("toleration-no-effect", at.At("tolerationSeconds"), "has no effect for clusters that are down; write effect: NoExecute, or set failover.cluster, to leave them")
		}
	}
}

func checkApplication(r *Report, at Path, a *policyv1alpha1.ApplicationFailoverBehavior) {
	if r.written(at.At("decisionConditions")) == nil {
		r.Error("missing-value", at.At("decisionConditions"), "is required; write {} for the default of 300 seconds")
	}
	OneOf(r, at.At("purgeMode"), a.PurgeMode, policyv1alpha1.PurgeDirectly, policyv1alpha1.PurgeGracefully, policyv1alpha1.PurgeNever)
	d := a.DecisionConditions
	notNegative(r, at.At("decisionConditions", "tolerationSeconds"), d.TolerationSeconds)
	for i, state := range d.HealthyState {
		at := at.At("decisionConditions", "healthyState", i)
		r.Required(at, state)
		OneOf(r, at, workv1alpha2.ResourceHealth(state), workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy, workv1alpha2.ResourceUnknown)
	}
	if len(d.HealthyState) > 0 {
		r.Info("differs-6", at.At("decisionConditions", "healthyState"), "is not in Karmada, where Unhealthy alone counts")
	}
	checkGracePeriod(r, at.At("gracePeriodSeconds"), a)
	if p := a.PreConditions; p != nil {
		at := at.At("preConditions")
		notNegative(r, at.At("delaySeconds"), p.DelaySeconds)
		OneOf(r, at.At("healthyState"), workv1alpha2.ResourceHealth(p.HealthyState), workv1alpha2.ResourceHealthy)
		r.Info("differs-5", at, "is in no release of Karmada")
	}
	notNegative(r, at.At("blockPredecessorSeconds"), a.BlockPredecessorSeconds)
	r.Info("differs-5", at.At("blockPredecessorSeconds"), "%s; Karmada, and compat: karmada, take it at once", blocked(a.BlockPredecessorSeconds))
	r.Info("differs-8", at, "an unknown health leaves the timer as it is; Karmada clears it (failover.unknownHealth: reset does too)")
	r.Info("differs-9", at, "with nowhere to go the copy stays; Karmada removes it at the timeout")
	checkStatePreservation(r, at.At("statePreservation"), a.StatePreservation)
}

func checkGracePeriod(r *Report, at Path, a *policyv1alpha1.ApplicationFailoverBehavior) {
	switch grace := a.GracePeriodSeconds; {
	case grace == nil:
	case a.PurgeMode != policyv1alpha1.PurgeGracefully:
		r.Error("grace-period", at, "works with purgeMode Gracefully only, not %s; remove one of the two", a.PurgeMode)
	case *grace <= 0:
		r.Error("grace-period", at, "is %d; it must be more than 0", *grace)
	}
}

func blocked(seconds *int32) string {
	switch {
	case seconds == nil:
		return "a cluster that the workload failed on is not taken again for 600 seconds"
	case *seconds == 0:
		return "a cluster that the workload failed on is never taken again"
	}
	return "a cluster that the workload failed on is not taken again for a while"
}

func checkStatePreservation(r *Report, at Path, s *policyv1alpha1.StatePreservation) {
	if s == nil {
		return
	}
	for i, rule := range s.Rules {
		checkLabelKey(r, at.At("rules", i, "aliasLabelName"), rule.AliasLabelName)
		at := at.At("rules", i, "jsonPath")
		r.Required(at, rule.JSONPath)
		checkJSONPath(r, at, rule.JSONPath)
	}
	r.Info("differs-1", at, "works without a feature gate, which Karmada asks for")
}

func checkJSONPath(r *Report, at Path, path string) {
	if len(path) > maxJSONPath {
		r.Error("json-path", at, "has %d characters, more than %d; shorten it", len(path), maxJSONPath)
		return
	}
	if _, err := JSONPath("", path); errors.Is(err, errJSONPath) {
		r.Error("json-path", at, "%v; name each step, and use .. and lists of names in brackets sparingly", err)
	} else if err != nil {
		r.Warning("json-path", at, "cannot be read, so no copy is ever moved away: %v; write it like {.jobStatus.jobId}", err)
	} else if path != "" && !strings.Contains(path, "{") {
		r.Warning("json-path", at, "is plain text without {}, which is kept as it stands and takes nothing out of the status; write it like {.jobStatus.jobId}")
	}
}

func notNegative(r *Report, at Path, n *int32) {
	if n != nil && *n < 0 {
		r.Error("negative", at, "is %d; it cannot be negative", *n)
	}
}

// written is what the manifest has there, before defaults; nil if nothing.
func (r *Report) written(at Path) any {
	var v any = r.Object.Content
	for _, step := range at {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(in) {
				v = in[i]
				continue
			}
			return nil
		default:
			return nil
		}
	}
	return v
}
