package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// filter is a condition on a member. reason is what Karmada says of those that do not pass, in the
// plural; detail says it of one member, with the values compared.
type filter struct {
	rule   string
	passes func(r *run, i int) bool
	reason func(r *run, i int) string
	detail func(r *run, i int) string
}

// filters are tried in order; the first that a member does not pass refuses it. Most spare what runs
// on a member already.
var filters = []filter{
	{
		rule:   "ClusterLeaving",
		passes: func(r *run, i int) bool { return !r.fleet.members[i].leaving },
		reason: say("cluster(s) are being deleted"),
		detail: say("the cluster is being removed from the fleet"),
	},
	{
		// Differs from Karmada: it knows no projects. What runs on a member that a project had stays there.
		rule:   "Project",
		passes: func(r *run, i int) bool { return r.allowed == nil || r.mark[i]&target != 0 || r.allowed[i] },
		reason: func(r *run, i int) string {
			return fmt.Sprintf("cluster(s) were not allowed by project %s", r.Project.Name())
		},
		detail: func(r *run, i int) string {
			return fmt.Sprintf("project %s does not allow the cluster; it has %s", r.Project.Name(), r.Project.MembersText())
		},
	},
	{
		rule:   "ClusterAffinity",
		passes: func(r *run, i int) bool { return r.tierOf(i) >= 0 },
		reason: say("cluster(s) did not match the placement cluster affinity constraint"),
		detail: (*run).affinityDetail,
	},
	{
		rule:   "APIEnablement",
		passes: func(r *run, i int) bool { return r.mark[i]&target != 0 || r.serving[i] },
		reason: say("cluster(s) did not have the API resource"),
		detail: func(r *run, i int) string {
			if len(r.fleet.members[i].apis) == 0 {
				return "the cluster's API resources are not known"
			}
			return fmt.Sprintf("%s %s is not among the cluster's API resources", r.spec.Resource.APIVersion, r.spec.Resource.Kind)
		},
	},
	{
		rule:   "TaintToleration",
		passes: func(r *run, i int) bool { return r.mark[i]&target != 0 || r.placement.taint[i] < 0 },
		reason: func(r *run, i int) string { return fmt.Sprintf("cluster(s) had untolerated taint {%s}", r.taint(i)) },
		detail: (*run).taintDetail,
	},
	{
		// Differs from Karmada: it places there, and evicts again at once, round and round.
		rule:   "TaintToleration",
		passes: func(r *run, i int) bool { return r.mark[i]&target != 0 || r.Overdue[r.fleet.members[i].Name] == "" },
		reason: say("cluster(s) had a taint whose toleration is over"),
		detail: func(r *run, i int) string { return r.Overdue[r.fleet.members[i].Name] },
	},
	{
		rule:   "SpreadConstraint",
		passes: func(r *run, i int) bool { return r.placement.lacking[i] == "" },
		reason: func(r *run, i int) string {
			return fmt.Sprintf("cluster(s) did not have %s property", r.placement.lacking[i])
		},
		detail: func(r *run, i int) string {
			return fmt.Sprintf("the cluster has no %s, which a spread constraint needs", r.placement.lacking[i])
		},
	},
	{
		rule:   "ClusterEviction",
		passes: func(r *run, i int) bool { return r.mark[i]&evicting == 0 },
		reason: say("cluster(s) is in the process of eviction"),
		detail: (*run).evictionDetail,
	},
	{
		// Differs from Karmada: it has no record of evictions that ended.
		rule:   "ClusterEvictionHistory",
		passes: func(r *run, i int) bool { return r.mark[i]&(blocked|target) != blocked },
		reason: say("cluster(s) are blocked after an eviction"),
		detail: (*run).blockDetail,
	},
	{
		rule:   "WorkloadAffinity",
		passes: func(r *run, i int) bool { return r.mark[i]&(apart|target) != apart },
		reason: say("cluster(s) did not match the workload affinity"),
		detail: func(r *run, i int) string {
			return fmt.Sprintf("not all scheduled workloads of affinity group %s run there", r.spec.WorkloadAffinityGroups.AffinityGroup)
		},
	},
	{
		rule:   "WorkloadAntiAffinity",
		passes: func(r *run, i int) bool { return r.mark[i]&(shared|target) != shared },
		reason: say("cluster(s) did not match the workload anti-affinity"),
		detail: func(r *run, i int) string {
			return fmt.Sprintf("another workload of anti-affinity group %s runs there", r.spec.WorkloadAffinityGroups.AntiAffinityGroup)
		},
	},
}

func say(words string) func(*run, int) string { return func(*run, int) string { return words } }

// refusal is the first filter that member i does not pass; nil if it passes all.
func (r *run) refusal(i int) *filter {
	for n := range filters {
		if !filters[n].passes(r, i) {
			return &filters[n]
		}
	}
	return nil
}

// filter returns the members that pass, as candidates in the order of their names.
func (r *run) filter() []candidate {
	r.fleet.tiersOf(r.term)
	list := r.candidates[:0]
	for i := range r.fleet.members {
		if r.refusal(i) == nil {
			list = append(list, candidate{member: i, tier: r.tierOf(i)})
		}
	}
	r.candidates = list
	return list
}

// tierOf is 0 if the term's own affinity matches, more if only an overflow affinity does, -1 if none.
// Overflow is for workloads.
func (r *run) tierOf(i int) int {
	if tier := r.term.tiers[i]; tier == 0 || r.workload {
		return tier
	}
	return -1
}

// fitError counts the reasons for which members were refused, as Karmada does.
func (r *run) fitError() string {
	if len(r.fleet.members) == 0 {
		return "0/0 clusters are available: no cluster is registered."
	}
	counts := map[string]int{}
	for i := range r.fleet.members {
		if f := r.refusal(i); f != nil {
			counts[f.reason(r, i)]++
		}
	}
	var reasons []string
	for reason, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d clusters are available: %s.", len(r.fleet.members), strings.Join(reasons, ", "))
}

func (r *run) affinityDetail(i int) string {
	text := r.term.inline.Refusal(&r.fleet.members[i].Cluster)
	if r.placement.named {
		text = fmt.Sprintf("affinity %s: %s", r.term.name, text)
	}
	if r.workload && len(r.term.overflow) > 0 {
		text += ", nor does an overflow affinity match"
	}
	return text
}

func (r *run) taint(i int) string {
	t := &r.fleet.members[i].taints[r.placement.taint[i]]
	return t.ToString()
}

func (r *run) taintDetail(i int) string {
	text := fmt.Sprintf("taint %s is not tolerated", r.taint(i))
	if t := r.fleet.members[i].taints[r.placement.taint[i]].TimeAdded; t != nil {
		text += " (there since " + r.clock(t.Time) + ")"
	}
	return text
}

// markEvictions marks the members that the binding leaves or has left.
func (r *run) markEvictions() {
	for _, task := range r.spec.GracefulEvictionTasks {
		if i, found := r.fleet.index[task.FromCluster]; found {
			r.mark[i] |= evicting
		}
	}
	for _, record := range r.spec.ActiveEvictionHistory {
		i, found := r.fleet.index[record.ClusterName]
		end, blocks := r.blockEnd(record.CreationTimestamp.Time)
		if !found || !blocks {
			continue
		}
		r.mark[i] |= blocked
		if !end.IsZero() && r.mark[i]&target == 0 && (r.wake.IsZero() || end.Before(r.wake)) {
			r.wake = end
		}
	}
}

// defaultBlock is for how long a cluster is refused after an eviction.
const defaultBlock = 600 * time.Second

// BlockEnd is for how long a cluster is refused that was left at began: until end, the zero time
// meaning for ever. It is false if the binding refuses none. compat takes away the default.
func BlockEnd(spec *workv1alpha2.ResourceBindingSpec, began time.Time, compat bool) (end time.Time, blocks bool) {
	if spec.Failover == nil || spec.Failover.Application == nil {
		return end, false
	}
	length := defaultBlock
	switch seconds := spec.Failover.Application.BlockPredecessorSeconds; {
	case seconds == nil && compat:
		return end, false
	case seconds != nil && *seconds == 0:
		return end, true
	case seconds != nil:
		length = time.Duration(*seconds) * time.Second
	}
	return began.Add(length).UTC(), true
}

// blockEnd is BlockEnd for a block that has not ended.
func (r *run) blockEnd(began time.Time) (end time.Time, blocks bool) {
	end, blocks = BlockEnd(r.spec, began, r.Compat)
	return end, blocks && (end.IsZero() || r.Now.Before(end))
}

func (r *run) evictionDetail(i int) string {
	for _, task := range r.spec.GracefulEvictionTasks {
		if task.FromCluster == r.fleet.members[i].Name {
			text := fmt.Sprintf("the workload is being evicted from the cluster (%s: %s)", task.Producer, task.Reason)
			return strings.Join(append([]string{text}, r.tolerations(i)...), "; ")
		}
	}
	return ""
}

func (r *run) blockDetail(i int) string {
	text := ""
	for _, record := range r.spec.ActiveEvictionHistory {
		if record.ClusterName != r.fleet.members[i].Name {
			continue
		}
		end, blocks := r.blockEnd(record.CreationTimestamp.Time)
		switch {
		case !blocks:
			continue
		case end.IsZero():
			text = "blocked for ever"
		case r.Now.IsZero():
			text = fmt.Sprintf("blocked until %s", end.UTC().Format(time.RFC3339))
		default:
			text = fmt.Sprintf("blocked until %s, %s left", end.UTC().Format(time.RFC3339), end.Sub(r.Now).Round(time.Second))
		}
		if record.Reason != "" {
			text += " (" + record.Reason + ")"
		}
	}
	return text
}
