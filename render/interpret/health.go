package interpret

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/godwit-gitops/godwit/api"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// observed: the controller has seen the newest spec.
func observed(live api.Object) bool {
	return number(at(live, "status", "observedGeneration")) == number(at(live, "metadata", "generation"))
}

// atLeast: the status counter is as high as wanted; a missing counter is 0.
func atLeast(live api.Object, counter string, wanted int64) bool {
	return number(at(live, "status", counter)) >= wanted
}

// rolledOut is the rule for Deployments and StatefulSets. One scaled to 0 is healthy.
func rolledOut(live api.Object) bool {
	return observed(live) &&
		atLeast(live, "updatedReplicas", number(at(live, "spec", "replicas"))) &&
		atLeast(live, "availableReplicas", number(at(live, "status", "updatedReplicas")))
}

func replicaSetHealthy(live api.Object) bool {
	return observed(live) && atLeast(live, "availableReplicas", number(at(live, "spec", "replicas")))
}

func daemonSetHealthy(live api.Object) bool {
	return observed(live) &&
		atLeast(live, "updatedNumberScheduled", number(at(live, "status", "desiredNumberScheduled"))) &&
		atLeast(live, "numberAvailable", number(at(live, "status", "updatedNumberScheduled")))
}

// applied is the rule for what is healthy once it is there: a Job that fails has run, and running
// it elsewhere is not what its author asked for.
func applied(api.Object) bool { return true }

// addressed: some load balancer gave an address.
func addressed(live api.Object) bool {
	for _, ingress := range list(at(live, "status", "loadBalancer", "ingress")) {
		if text(at(ingress, "hostname")) != "" || text(at(ingress, "ip")) != "" {
			return true
		}
	}
	return false
}

func serviceHealthy(live api.Object) bool {
	return text(at(live, "spec", "type")) != "LoadBalancer" || addressed(live)
}

func claimHealthy(live api.Object) bool { return text(at(live, "status", "phase")) == "Bound" }

func podHealthy(live api.Object) bool {
	switch text(at(live, "status", "phase")) {
	case "Succeeded":
		return true
	case "Running":
		return isTrue(condition(live["status"], "Ready"))
	}
	return false
}

func budgetHealthy(live api.Object) bool {
	return atLeast(live, "currentHealthy", number(at(live, "status", "desiredHealthy")))
}

// conventional judges a kind nobody wrote a rule for by what controllers conventionally report:
// observedGeneration and the conditions Ready, Reconciling and Stalled.
func conventional(live api.Object) (health workv1alpha2.ResourceHealth, err error) {
	if saysNothing(live) {
		return workv1alpha2.ResourceHealthy, nil
	}
	// The conventions are read by code that expects well-formed objects; one that is not must not
	// stop the others.
	defer func() {
		if cause := recover(); cause != nil {
			health, err = workv1alpha2.ResourceUnknown, fmt.Errorf("health of %s: malformed object: %v", api.IDOf(live), cause)
		}
	}()
	result, err := status.Compute(&unstructured.Unstructured{Object: live})
	if err != nil {
		return workv1alpha2.ResourceUnknown, fmt.Errorf("health of %s: %w", api.IDOf(live), err)
	}
	switch result.Status {
	case status.CurrentStatus:
		return workv1alpha2.ResourceHealthy, nil
	case status.FailedStatus:
		return workv1alpha2.ResourceUnhealthy, nil
	}
	return workv1alpha2.ResourceUnknown, nil
}

// saysNothing is true of most objects, ConfigMaps and the like, and spares them the full reading: no
// status, and not being deleted. A CustomResourceDefinition without status is not yet usable.
func saysNothing(live api.Object) bool {
	return live["status"] == nil && at(live, "metadata", "deletionTimestamp") == nil && live["kind"] != "CustomResourceDefinition"
}
