package failover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Producers and reasons of tasks, in Karmada's words.
const (
	ProducerApplication        = "resource-binding-application-failover-controller"
	ProducerClusterApplication = "cluster-resource-binding-application-failover-controller"
	ProducerTaint              = "TaintManager"

	TaskApplicationFailure = "ApplicationFailure"
	TaskTaintUntolerated   = "TaintUntolerated"

	// ProducerReturn and TaskReturn are ours: a workload goes back to where it was.
	ProducerReturn = "godwit-failback"
	TaskReturn     = "FailBack"
)

// Evict moves a cluster of a binding to a graceful eviction task and remembers that it was left. The
// error says what of the copy's state cannot be preserved; the copy then has to stay. namespaced
// tells which of the two kinds of binding it is.
func Evict(spec workv1alpha2.ResourceBindingSpec, namespaced bool, c Cause, copies []workv1alpha2.AggregatedStatusItem, now time.Time, o Options) (workv1alpha2.ResourceBindingSpec, error) {
	i := slices.IndexFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Name == c.Cluster })
	if i < 0 || Leaving(&spec, c.Cluster) {
		return spec, nil
	}
	at := metav1.NewTime(now)
	task := workv1alpha2.GracefulEvictionTask{
		FromCluster: c.Cluster, PurgeMode: purgeMode(spec.Failover, c.Kind), Reason: TaskTaintUntolerated, Message: c.Text, Producer: ProducerTaint, CreationTimestamp: &at,
	}
	if n := spec.Clusters[i].Replicas; n > 0 {
		task.Replicas = &n
	}
	if task.PurgeMode == policyv1alpha1.PurgeNever {
		suppress := true
		task.SuppressDeletion = &suppress
	}
	var preserve *policyv1alpha1.StatePreservation
	if spec.Failover != nil && spec.Failover.Cluster != nil {
		preserve = spec.Failover.Cluster.StatePreservation
	}
	if c.Kind == ApplicationFailure {
		task.Reason, task.Producer = TaskApplicationFailure, ProducerClusterApplication
		if namespaced {
			task.Producer = ProducerApplication
		}
		preserve = spec.Failover.Application.StatePreservation
		if task.PurgeMode == policyv1alpha1.PurgeGracefully {
			task.GracePeriodSeconds = spec.Failover.Application.GracePeriodSeconds
		}
	}
	if preserve != nil && len(preserve.Rules) > 0 {
		state, err := preserved(preserve.Rules, c.Cluster, copies)
		if err != nil {
			return spec, err
		}
		task.PreservedLabelState = state
		if c.Kind == ApplicationFailure {
			for _, t := range spec.Clusters {
				task.ClustersBeforeFailover = append(task.ClustersBeforeFailover, t.Name)
			}
		}
	}
	spec.Clusters = slices.Delete(slices.Clone(spec.Clusters), i, i+1)
	spec.GracefulEvictionTasks = append(slices.Clone(spec.GracefulEvictionTasks), task)
	record := workv1alpha2.EvictionRecord{ClusterName: c.Cluster, CreationTimestamp: at, Reason: task.Reason}
	if _, blocks := schedule.BlockEnd(&spec, now, o.Compat); blocks || o.KeepHistory {
		spec.ActiveEvictionHistory = slices.DeleteFunc(slices.Clone(spec.ActiveEvictionHistory), func(r workv1alpha2.EvictionRecord) bool { return r.ClusterName == c.Cluster })
		spec.ActiveEvictionHistory = append(spec.ActiveEvictionHistory, record)
	}
	return spec, nil
}

// Return lets the copy on a member go that a workload goes back from, by the purge mode of its policy.
// What it goes back from may be taken again at once.
func Return(spec workv1alpha2.ResourceBindingSpec, from workv1alpha2.TargetCluster, to string, now time.Time) workv1alpha2.ResourceBindingSpec {
	at := metav1.NewTime(now)
	task := workv1alpha2.GracefulEvictionTask{
		FromCluster: from.Name, PurgeMode: purgeMode(spec.Failover, ClusterFailure), Reason: TaskReturn, Producer: ProducerReturn,
		Message: to + " is back", CreationTimestamp: &at,
	}
	if task.PurgeMode == policyv1alpha1.PurgeNever {
		task.PurgeMode = policyv1alpha1.PurgeGracefully // nothing failed here that somebody would want to look at
	}
	if from.Replicas > 0 {
		task.Replicas = &from.Replicas
	}
	spec.GracefulEvictionTasks = append(slices.Clone(spec.GracefulEvictionTasks), task)
	return spec
}

// purgeMode is what happens to the old copy.
//
// Differs from Karmada: a member that is left takes the mode of failover.application where
// failover.cluster has none (differences, row 3).
func purgeMode(f *policyv1alpha1.FailoverBehavior, kind Kind) policyv1alpha1.PurgeMode {
	mode := policyv1alpha1.PurgeMode("")
	if f != nil {
		if kind != ApplicationFailure && f.Cluster != nil {
			mode = f.Cluster.PurgeMode
		}
		if mode == "" && f.Application != nil {
			mode = f.Application.PurgeMode
		}
	}
	if mode == "" {
		return policyv1alpha1.PurgeGracefully
	}
	return mode
}

// preserved takes out of the status of the copy on a member what rules ask for.
func preserved(rules []policyv1alpha1.StatePreservationRule, member string, copies []workv1alpha2.AggregatedStatusItem) (map[string]string, error) {
	i := slices.IndexFunc(copies, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == member })
	if i < 0 || copies[i].Status == nil || len(copies[i].Status.Raw) == 0 {
		return nil, fmt.Errorf("its state on %s is to be preserved, and no status of it is known", member)
	}
	var status any
	if err := json.Unmarshal(copies[i].Status.Raw, &status); err != nil {
		return nil, fmt.Errorf("its state on %s is to be preserved: %w", member, err)
	}
	state := make(map[string]string, len(rules))
	for _, rule := range rules {
		path, err := policy.JSONPath(rule.AliasLabelName, rule.JSONPath)
		if err != nil {
			return nil, fmt.Errorf("statePreservation %s: %w", rule.AliasLabelName, err)
		}
		var text bounded
		if err := path.Execute(&text, status); err != nil {
			return nil, fmt.Errorf("its state on %s is to be preserved as %s: %w", member, rule.AliasLabelName, err)
		}
		state[rule.AliasLabelName] = text.String()
	}
	return state, nil
}

// maxState is how much of a status is preserved by one rule. It becomes a label, which has less.
const maxState = 4 << 10

// bounded is a text that does not grow beyond maxState.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxState {
		return 0, fmt.Errorf("it is more than %d bytes", maxState)
	}
	return b.Buffer.Write(p)
}

// Injected are the labels that the new copy on member gets of the one before: where it is the only
// one, has just taken the place of one that went at once, and was not there already.
func Injected(spec *workv1alpha2.ResourceBindingSpec, member string) map[string]string {
	n := len(spec.GracefulEvictionTasks)
	if n == 0 || len(spec.Clusters) != 1 {
		return nil
	}
	last := spec.GracefulEvictionTasks[n-1]
	if last.PurgeMode != policyv1alpha1.PurgeDirectly || slices.Contains(last.ClustersBeforeFailover, member) {
		return nil
	}
	return last.PreservedLabelState
}
