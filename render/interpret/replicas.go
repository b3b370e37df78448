package interpret

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// templateReplicas reads spec.replicas and spec.template. Without the field there are 0 replicas:
// Default sets it first, as an API server would.
func templateReplicas(o api.Object) (Replicas, error) {
	n, _, err := count(o, specReplicas...)
	if err != nil {
		return Replicas{Workload: true}, err
	}
	return workload(n, at(o, podTemplate...), "spec.template")
}

// jobReplicas: a Job runs no more pods at once than it has completions to reach.
func jobReplicas(o api.Object) (Replicas, error) {
	n, _, err := count(o, "spec", "parallelism")
	if err != nil {
		return Replicas{Workload: true}, err
	}
	completions, bounded, err := count(o, "spec", "completions")
	if err != nil {
		return Replicas{Workload: true}, err
	}
	if bounded {
		n = min(n, completions)
	}
	return workload(n, at(o, podTemplate...), "spec.template")
}

func podReplicas(o api.Object) (Replicas, error) { return workload(1, o, "") }

func workload(n int32, template any, where string) (Replicas, error) {
	requirements, err := podRequirements(template)
	if err != nil {
		return Replicas{Workload: true}, fmt.Errorf("%s.spec: %w", where, err)
	}
	return Replicas{Workload: true, Count: n, Requirements: requirements}, nil
}

// podRequirements is what one pod of the template asks for: the sum over its containers, or what an
// init container asks for if that is more, and the overhead. It is nil for a pod that asks for
// nothing and goes to any node.
func podRequirements(template any) (*workv1alpha2.ReplicaRequirements, error) {
	spec := object(at(template, "spec"))
	request, err := podRequest(spec)
	if err != nil {
		return nil, err
	}
	claim, err := nodeClaim(spec)
	if err != nil {
		return nil, err
	}
	if request == nil && claim == nil {
		return nil, nil
	}
	return &workv1alpha2.ReplicaRequirements{NodeClaim: claim, ResourceRequest: request}, nil
}

func podRequest(spec map[string]any) (corev1.ResourceList, error) {
	total := corev1.ResourceList{}
	for n, container := range list(spec["containers"]) {
		request, err := containerRequest(container)
		if err != nil {
			return nil, fmt.Errorf("containers[%d].resources.%w", n, err)
		}
		add(total, request)
	}
	for n, container := range list(spec["initContainers"]) {
		request, err := containerRequest(container)
		if err != nil {
			return nil, fmt.Errorf("initContainers[%d].resources.%w", n, err)
		}
		for name, quantity := range request {
			if quantity.Cmp(total[name]) > 0 {
				total[name] = quantity
			}
		}
	}
	overhead, err := resources(spec["overhead"], "overhead", corev1.ResourceList{})
	if err != nil {
		return nil, err
	}
	add(total, overhead)
	for name, quantity := range total {
		if quantity.Sign() <= 0 {
			delete(total, name)
		}
	}
	if len(total) == 0 {
		return nil, nil
	}
	return total, nil
}

// containerRequest is what the container requests, and its limit where it does not say.
func containerRequest(container any) (corev1.ResourceList, error) {
	limits, err := resources(at(container, "resources", "limits"), "limits", corev1.ResourceList{})
	if err != nil {
		return nil, err
	}
	return resources(at(container, "resources", "requests"), "requests", limits)
}

// resources reads the quantities in v over those in into.
func resources(v any, where string, into corev1.ResourceList) (corev1.ResourceList, error) {
	var failed []string
	for name, value := range object(v) {
		q, err := quantity(value)
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s.%s: %v", where, name, err))
			continue
		}
		into[corev1.ResourceName(name)] = q
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		return nil, errors.New(strings.Join(failed, "; "))
	}
	return into, nil
}

// quantity reads "500m", or a number as YAML has it without quotes.
func quantity(v any) (resource.Quantity, error) {
	switch v := v.(type) {
	case nil:
		return resource.Quantity{}, nil
	case string:
		if canonical.Sensible(v) {
			if q, err := resource.ParseQuantity(v); err == nil {
				return q, nil
			}
		}
		return resource.Quantity{}, fmt.Errorf("%.100q is no quantity such as 500m or 2Gi", v)
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), nil
	case float64:
		if text := fmt.Sprint(v); canonical.Sensible(text) {
			return resource.ParseQuantity(text)
		}
	}
	return resource.Quantity{}, fmt.Errorf("%.100v is no quantity such as 500m or 2Gi", v)
}

func add(total, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := total[name]
		sum.Add(quantity)
		total[name] = sum
	}
}

// nodeClaim is what the pod asks of its node; nil means nothing.
func nodeClaim(spec map[string]any) (*workv1alpha2.NodeClaim, error) {
	selector, tolerations := object(spec["nodeSelector"]), list(spec["tolerations"])
	affinity := object(at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))
	if len(selector) == 0 && len(tolerations) == 0 && affinity == nil {
		return nil, nil
	}
	claim := &workv1alpha2.NodeClaim{}
	in := map[string]any{"nodeSelector": selector, "tolerations": tolerations, "hardNodeAffinity": affinity}
	for field, value := range in {
		if empty(value) {
			delete(in, field)
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in, claim); err != nil {
		return nil, fmt.Errorf("nodeSelector, tolerations or affinity: %w", err)
	}
	return claim, nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

// Completions is spec.completions of a Job that has it; false for everything else. The caller
// divides it over the clusters by the replicas they got, and gives each its share with
// WithCompletions.
func Completions(o api.Object) (int32, bool) {
	if kindOf(o) != job {
		return 0, false
	}
	n, ok, err := count(o, "spec", "completions")
	return n, ok && err == nil
}

// WithCompletions is the Job with that many completions.
func WithCompletions(o api.Object, completions int32) api.Object {
	return with(o, int64(completions), "spec", "completions")
}
