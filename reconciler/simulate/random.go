package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dice gives a number from 0 to n-1.
type Dice func(n int) int

// Case is a scenario with the sources that it needs.
type Case struct {
	Scenario *Scenario
	Sources  map[string]Files
}

// Random makes a fleet of a few members and workloads, and a schedule of faults for it. Equal dice give
// equal cases.
func Random(roll Dice) *Case {
	members := 2 + roll(4)
	g := &generator{roll: roll, members: members, workloads: 1 + roll(3)}
	first := g.fleet()
	second := g.changed(first)
	c := &Case{Scenario: RandomFaults(g.names(), g.workloadsOf(), []string{"fleet", "fleet-v2"}, roll), Sources: map[string]Files{"fleet": first, "fleet-v2": second}}
	c.Scenario.Source = "fleet"
	return c
}

// RandomFaults makes a schedule of faults for members and workloads; sources are what may be pushed.
func RandomFaults(members []string, workloads []Workload, sources []string, roll Dice) *Scenario {
	s := &Scenario{APIVersion: APIVersion, Kind: Kind, Source: sources[0], Until: 25 * time.Minute}
	s.Members.Startup = time.Duration(roll(4)*10) * time.Second
	for n := 2 + roll(10); n > 0; n-- {
		e := Event{At: time.Duration(5+roll(1200)) * time.Second}
		if len(members) == 0 {
			break
		}
		switch kind := roll(20); {
		case kind < 8:
			e.Cluster, e.Ready = members[roll(len(members))], []string{"True", "False", "Unknown", "True"}[roll(4)]
		case kind < 14 && len(workloads) > 0:
			w := workloads[roll(len(workloads))]
			e.Cluster, e.Workload, e.Health = members[roll(len(members))], &w, []string{"Healthy", "Unhealthy", "Unhealthy", "Unknown"}[roll(4)]
		case kind < 16:
			e.Restart = true
		case kind < 17:
			e.Source = sources[roll(len(sources))]
		case kind < 18:
			e.GitDown = time.Duration(1+roll(120)) * time.Second
		default:
			e.Revert = []string{"last", "failover"}[roll(2)]
		}
		s.Events = append(s.Events, e)
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return s
}

// Shrink takes events out of a scenario as long as fails holds of what is left.
func Shrink(s *Scenario, fails func(*Scenario) bool) *Scenario {
	for size := (len(s.Events) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(s.Events); {
			less := *s
			less.Events = slices.Delete(slices.Clone(s.Events), i, min(i+size, len(s.Events)))
			if fails(&less) {
				s = &less
			} else {
				i += size
			}
		}
	}
	return s
}

// generator writes the files of a random fleet.
type generator struct {
	roll               Dice
	members, workloads int
}

func (g *generator) names() []string {
	names := make([]string, g.members)
	for i := range names {
		names[i] = fmt.Sprintf("m%d", i+1)
	}
	return names
}

func (g *generator) workloadsOf() []Workload {
	list := make([]Workload, g.workloads)
	for i := range list {
		list[i] = Workload{Kind: "Deployment", Name: fmt.Sprintf("w%d", i+1)}
	}
	return list
}

func (g *generator) one(of ...string) string { return of[g.roll(len(of))] }

func (g *generator) seconds(choices ...int) int { return choices[g.roll(len(choices))] }

func (g *generator) fleet() Files {
	files := Files{}
	var b strings.Builder
	for _, name := range g.names() {
		fmt.Fprintf(&b, "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: %s, labels: {name: %[1]s}, annotations: {%s}}\nspec: {syncMode: Push, region: r%d}\n",
			name, g.one("", "", "", "godwit.dev/delivery: hydrate"), g.roll(2))
	}
	files["clusters.yaml"] = []byte(b.String())
	for i := range g.workloads {
		name := fmt.Sprintf("w%d", i+1)
		files[name+".yaml"] = []byte(g.workload(name))
	}
	return files
}

func (g *generator) workload(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s}}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: "nginx:1", envFrom: [{configMapRef: {name: %[1]s}}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: default}
data: {a: b}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: %[1]s, namespace: default, annotations: {%[5]s}}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: %[1]s}]
  propagateDeps: true
  placement: {%[3]s}
  failover: {%[4]s}
`, name, 1+g.roll(6), g.placement(), g.failover(), g.one("", "", "", "godwit.dev/failback: after=1m", "godwit.dev/failback: after=5m"))
}

func (g *generator) placement() string {
	fields := []string{g.where()}
	if g.roll(2) == 0 {
		var tolerations []string
		for _, key := range []string{"not-ready", "unreachable"} {
			if g.roll(4) > 0 {
				tolerations = append(tolerations, fmt.Sprintf("{key: cluster.karmada.io/%s, operator: Exists, effect: NoExecute, tolerationSeconds: %d}", key, g.seconds(10, 30, 60, 120)))
			}
		}
		fields = append(fields, "clusterTolerations: ["+strings.Join(tolerations, ", ")+"]")
	}
	return strings.Join(fields, ", ")
}

// where is one of the ways to place a workload.
func (g *generator) where() string {
	const duplicated, weighted = "replicaScheduling: {replicaSchedulingType: Duplicated}", "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted%s}"
	switch g.roll(5) {
	case 0:
		return duplicated
	case 1:
		return duplicated + ", spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"
	case 2:
		var weights []string
		for _, name := range g.names() {
			weights = append(weights, fmt.Sprintf("{targetCluster: {clusterNames: [%s]}, weight: %d}", name, 1+g.roll(4)))
		}
		return fmt.Sprintf(weighted, ", weightPreference: {staticWeightList: ["+strings.Join(weights, ", ")+"]}")
	case 3:
		half := (g.members + 1) / 2
		return duplicated + fmt.Sprintf(", clusterAffinities: [{affinityName: near, clusterNames: [%s]}, {affinityName: far, clusterNames: [%s]}]",
			strings.Join(g.names()[:half], ", "), strings.Join(g.names()[half:], ", "))
	}
	return fmt.Sprintf(weighted, "")
}

func (g *generator) failover() string {
	var fields []string
	if g.roll(4) > 0 {
		mode := g.one("Gracefully", "Gracefully", "Directly", "Never")
		app := fmt.Sprintf("decisionConditions: {tolerationSeconds: %d}, purgeMode: %s", g.seconds(0, 10, 60, 120), mode)
		if mode == "Gracefully" && g.roll(2) == 0 {
			app += fmt.Sprintf(", gracePeriodSeconds: %d", g.seconds(20, 120, 600))
		}
		if g.roll(2) == 0 {
			app += fmt.Sprintf(", blockPredecessorSeconds: %d", g.seconds(0, 60, 300))
		}
		if g.roll(3) == 0 {
			app += g.one(", preConditions: {delaySeconds: 60}", ", preConditions: {healthyState: Healthy}")
		}
		fields = append(fields, "application: {"+app+"}")
	}
	if g.roll(2) == 0 {
		fields = append(fields, g.one("cluster: {}", "cluster: {purgeMode: Directly}", "cluster: {purgeMode: Gracefully}"))
	}
	return strings.Join(fields, ", ")
}

// changed is the fleet with another version of its first workload, or with one workload less.
func (g *generator) changed(files Files) Files {
	next := Files{}
	for name, data := range files {
		next[name] = data
	}
	switch g.roll(3) {
	case 0:
		next["w1.yaml"] = []byte(strings.Replace(string(files["w1.yaml"]), "nginx:1", "nginx:2", 1))
	case 1:
		next["w1.yaml"] = []byte(g.workload("w1"))
	default:
		if g.workloads > 1 {
			delete(next, "w1.yaml")
		}
	}
	return next
}
