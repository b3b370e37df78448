package interpret

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/godwit-gitops/godwit/api"
)

// withStatus is the template with the fields in its status; a field that is nil goes.
func withStatus(template api.Object, fields map[string]any) api.Object {
	status := maps.Clone(object(template["status"]))
	if status == nil {
		status = make(map[string]any, len(fields))
	}
	for field, value := range fields {
		if value == nil {
			delete(status, field)
		} else {
			status[field] = value
		}
	}
	return with(template, status, "status")
}

// sums adds up the counters over all copies; a sum of 0 is nil.
func sums(items []StatusItem, counters []string) map[string]any {
	out := make(map[string]any, len(counters)+1)
	for _, counter := range counters {
		var sum int64
		for _, item := range items {
			sum += number(item.Status[counter])
		}
		out[counter] = nil
		if sum != 0 {
			out[counter] = sum
		}
	}
	return out
}

// templateCaughtUp: the copy is made from the template as it is now, and its controller has seen it.
func templateCaughtUp(template api.Object, item StatusItem) bool {
	return item.Status != nil &&
		number(item.Status["observedGeneration"]) >= number(item.Status["generation"]) &&
		number(item.Status["resourceTemplateGeneration"]) >= number(at(template, "metadata", "generation"))
}

// memberCaughtUp is the rule for StatefulSets, whose copies do not report what was observed.
func memberCaughtUp(_ api.Object, item StatusItem) bool {
	return item.Status != nil && number(item.Status["resourceTemplateGeneration"]) >= number(item.Status["generation"])
}

// aggregateCounters sums the counters, and takes the template's generation for observed once every
// copy, including those that report nothing, has caught up.
func aggregateCounters(counters []string, caughtUp func(api.Object, StatusItem) bool) func(api.Object, []StatusItem) api.Object {
	return func(template api.Object, items []StatusItem) api.Object {
		status := sums(items, counters)
		behind := slices.ContainsFunc(items, func(item StatusItem) bool { return !caughtUp(template, item) })
		if generation := number(at(template, "metadata", "generation")); !behind && generation != 0 {
			status["observedGeneration"] = generation
		}
		return withStatus(template, status)
	}
}

func aggregateHorizontalPodAutoscaler(template api.Object, items []StatusItem) api.Object {
	return withStatus(template, sums(items, []string{"currentReplicas", "desiredReplicas"}))
}

func aggregatePodDisruptionBudget(template api.Object, items []StatusItem) api.Object {
	status := sums(items, []string{"disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy"})
	disrupted := map[string]any{}
	for _, item := range items {
		for pod, since := range object(item.Status["disruptedPods"]) {
			disrupted[item.Cluster+"/"+pod] = since
		}
	}
	status["disruptedPods"] = nil
	if len(disrupted) > 0 {
		status["disruptedPods"] = disrupted
	}
	return withStatus(template, status)
}

func aggregateService(template api.Object, items []StatusItem) api.Object {
	if text(at(template, "spec", "type")) != "LoadBalancer" {
		return template
	}
	return aggregateIngress(template, items)
}

// aggregateIngress unites the addresses that load balancers gave: one entry for each hostname, ip
// and ipMode with all ports; those with a hostname first.
func aggregateIngress(template api.Object, items []StatusItem) api.Object {
	type address struct{ hostname, ip, mode string }
	united := map[address]map[string]any{}
	for _, item := range items {
		for _, v := range list(at(item.Status, "loadBalancer", "ingress")) {
			entry := object(v)
			key := address{text(entry["hostname"]), text(entry["ip"]), text(entry["ipMode"])}
			if have, ok := united[key]; ok {
				entry = withPorts(have, list(entry["ports"]))
			}
			united[key] = entry
		}
	}
	addresses := slices.SortedFunc(maps.Keys(united), func(a, b address) int {
		unnamed := func(x address) int { return min(1, len(x.hostname)) * -1 }
		return cmp.Or(cmp.Compare(unnamed(a), unnamed(b)), cmp.Compare(a.hostname, b.hostname), cmp.Compare(a.ip, b.ip), cmp.Compare(a.mode, b.mode))
	})
	balancer := map[string]any{}
	if len(addresses) > 0 {
		ingress := make([]any, len(addresses))
		for n, key := range addresses {
			ingress[n] = united[key]
		}
		balancer["ingress"] = ingress
	}
	return withStatus(template, map[string]any{"loadBalancer": balancer})
}

func withPorts(entry map[string]any, more []any) map[string]any {
	ports := slices.Clone(list(entry["ports"]))
	for _, port := range more {
		if !slices.ContainsFunc(ports, func(have any) bool { return reflect.DeepEqual(have, port) }) {
			ports = append(ports, port)
		}
	}
	if len(ports) == 0 {
		return entry
	}
	return with(entry, ports, "ports")
}

// aggregateJob never changes a Job that has ended. It fails with the first copy that fails, and is
// complete when every copy is.
func aggregateJob(template api.Object, items []StatusItem) api.Object {
	if isTrue(condition(template["status"], "Complete")) || isTrue(condition(template["status"], "Failed")) {
		return template
	}
	status := sums(items, []string{"active", "succeeded", "failed"})
	conditions := slices.Clone(list(at(template, "status", "conditions")))
	add := func(kind, reason, message string) {
		entry := map[string]any{"type": kind, "status": "True", "reason": reason, "message": message}
		for _, when := range []string{"lastProbeTime", "lastTransitionTime"} {
			if t := extreme(items, later, func(s api.Object) any { return condition(s, kind)[when] }); t != "" {
				entry[when] = t
			}
		}
		conditions = append(conditions, entry)
	}
	if failed := clustersWith(items, "Failed"); len(failed) > 0 {
		add("Failed", "JobFailed", "Job executed failed in member clusters: "+strings.Join(failed, ", "))
	}
	if len(items) > 0 && len(clustersWith(items, "Complete")) == len(items) {
		if len(clustersWith(items, "SuccessCriteriaMet")) == len(items) {
			add("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods in all member clusters")
		}
		add("Complete", "Completed", "Job completed in all member clusters")
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	if at(template, "status", "startTime") == nil && all(items, "startTime") {
		status["startTime"] = extreme(items, earlier, field("startTime"))
	}
	if all(items, "completionTime") {
		status["completionTime"] = extreme(items, later, field("completionTime"))
	}
	return withStatus(template, status)
}

func clustersWith(items []StatusItem, kind string) []string {
	var names []string
	for _, item := range items {
		if isTrue(condition(item.Status, kind)) {
			names = append(names, item.Cluster)
		}
	}
	return names
}

// all: there are copies, and each of them reports the field.
func all(items []StatusItem, name string) bool {
	return len(items) > 0 && !slices.ContainsFunc(items, func(item StatusItem) bool { return text(item.Status[name]) == "" })
}

func field(name string) func(api.Object) any {
	return func(status api.Object) any { return status[name] }
}

// extreme is the time, as written, that comes before all others by the order; empty if there is none.
func extreme(items []StatusItem, before func(a, b string) bool, of func(status api.Object) any) string {
	best := ""
	for _, item := range items {
		if t := text(of(item.Status)); t != "" && (best == "" || before(t, best)) {
			best = t
		}
	}
	return best
}

// earlier compares times as instants; what is no time compares as text.
func earlier(a, b string) bool {
	x, errX := time.Parse(time.RFC3339, a)
	y, errY := time.Parse(time.RFC3339, b)
	if errX != nil || errY != nil {
		return a < b
	}
	return x.Before(y)
}

func later(a, b string) bool { return earlier(b, a) }

func aggregateCronJob(template api.Object, items []StatusItem) api.Object {
	status := map[string]any{"active": nil}
	var active []any
	for _, item := range items {
		active = append(active, list(item.Status["active"])...)
	}
	if len(active) > 0 {
		status["active"] = active
	}
	for _, when := range []string{"lastScheduleTime", "lastSuccessfulTime"} {
		if t := extreme(items, later, field(when)); t != "" {
			status[when] = t
		}
	}
	return withStatus(template, status)
}

// worstPhase is the first phase of the order that some copy is in. A copy that reports none is
// Pending.
func worstPhase(items []StatusItem, order ...string) any {
	for _, phase := range order {
		for _, item := range items {
			if cmp.Or(text(item.Status["phase"]), "Pending") == phase {
				return phase
			}
		}
	}
	return nil
}

func aggregatePod(template api.Object, items []StatusItem) api.Object {
	status := map[string]any{}
	if phase := worstPhase(items, "Failed", "Pending", "Running", "Succeeded"); phase != nil {
		status["phase"] = phase
	}
	for _, name := range []string{"containerStatuses", "initContainerStatuses"} {
		var all []any
		for _, item := range items {
			for _, container := range list(item.Status[name]) {
				kept := map[string]any{}
				for _, field := range []string{"ready", "state"} {
					if v := at(container, field); v != nil {
						kept[field] = v
					}
				}
				all = append(all, kept)
			}
		}
		if all != nil {
			status[name] = all
		}
	}
	return withStatus(template, status)
}

func aggregatePersistentVolume(template api.Object, items []StatusItem) api.Object {
	phase := worstPhase(items, "Failed", "Pending", "Available", "Bound", "Released")
	if phase == nil {
		return template
	}
	return withStatus(template, map[string]any{"phase": phase})
}

func aggregatePersistentVolumeClaim(template api.Object, items []StatusItem) api.Object {
	phase := "Bound"
	for _, item := range items {
		if p := text(item.Status["phase"]); p != "" && p != "Bound" {
			phase = p
		}
		if phase == "Lost" {
			break
		}
	}
	return withStatus(template, map[string]any{"phase": phase})
}
