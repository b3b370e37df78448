package interpret

import (
	"fmt"
	"strconv"

	"github.com/godwit-gitops/godwit/api"
)

// The counters that rolling kinds report. StatefulSets report no observedGeneration.
var (
	deploymentCounters  = []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"}
	replicaSetCounters  = []string{"replicas", "readyReplicas", "availableReplicas"}
	statefulSetCounters = []string{"availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"}
	daemonSetCounters   = []string{
		"currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled",
		"numberReady", "updatedNumberScheduled", "numberUnavailable",
	}

	reflectDeployment  = reflectCounters(true, append([]string{"observedGeneration"}, deploymentCounters...))
	reflectReplicaSet  = reflectCounters(true, append([]string{"observedGeneration"}, replicaSetCounters...))
	reflectDaemonSet   = reflectCounters(false, append([]string{"observedGeneration"}, daemonSetCounters...))
	reflectStatefulSet = reflectCounters(false, statefulSetCounters)
)

// templateGeneration is the annotation that carries the template's generation to the members.
const templateGeneration = "resourcetemplate.karmada.io/generation"

// reflectCounters reports the counters that are not 0, and two generations: the member object's
// own, and the template's that it was made from. With needed set, a status in which every counter
// is 0 counts as not collected.
func reflectCounters(needed bool, counters []string) func(api.Object) (api.Object, error) {
	return func(live api.Object) (api.Object, error) {
		status := object(live["status"])
		if status == nil {
			return nil, nil
		}
		var carried int64
		if s := text(at(live, "metadata", "annotations", templateGeneration)); s != "" {
			var err error
			if carried, err = strconv.ParseInt(s, 10, 64); err != nil {
				return nil, fmt.Errorf("metadata.annotations[%s]: want a number, have %q", templateGeneration, s)
			}
		}
		out := make(api.Object, len(counters)+2)
		for _, counter := range counters {
			set(out, counter, number(status[counter]))
		}
		if needed && len(out) == 0 {
			return nil, nil
		}
		set(out, "generation", number(at(live, "metadata", "generation")))
		set(out, "resourceTemplateGeneration", carried)
		return out, nil
	}
}

// set leaves a 0 out, as the API's own types do. It is for maps that are being made.
func set(out api.Object, field string, n int64) {
	if n != 0 {
		out[field] = n
	} else {
		delete(out, field)
	}
}

// reflectFields reports these fields of the status as they are.
func reflectFields(fields ...string) func(api.Object) (api.Object, error) {
	return func(live api.Object) (api.Object, error) {
		status := object(live["status"])
		if status == nil {
			return nil, nil
		}
		out := make(api.Object, len(fields))
		for _, field := range fields {
			if v := status[field]; v != nil {
				out[field] = v
			}
		}
		return out, nil
	}
}

// reflectService: only a load balancer has something to report.
func reflectService(live api.Object) (api.Object, error) {
	if text(at(live, "spec", "type")) != "LoadBalancer" {
		return nil, nil
	}
	return reflectFields("loadBalancer")(live)
}
