package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// warn tells what only results show: what works, and probably not as meant.
func (p *pass) warn() {
	if !p.carried {
		p.find(p.input.overrides.value.Idle(p.effects)...)
	}
	p.warnOfCompat()
	p.warnOfOthers()
	p.warnOfAccounts()
	outranked, stuck, fallback := gathered{}, gathered{}, gathered{}
	for _, b := range p.bound {
		if b.next == nil || b.template == nil {
			continue
		}
		p.warnOfZero(b)
		p.warnOfRetention(b)
		p.warnOfInstance(b)
		p.warnOfMember(b)
		if b.next.Spec.Policy == nil || b.kept {
			continue
		}
		holder, name := p.input.policies.value.Get(policyClaim(b.next.Spec.Policy)), b.row.Key.String()
		if b.outranked != nil {
			outranked.add(b.outranked, b.outranks, name)
		}
		if holder == nil {
			continue
		}
		if b.anew != nil {
			stuck.add(holder, "", fmt.Sprintf("%s has %s and would have %s", name, targetsText(b.next.Spec.Clusters), targetsText(b.anew)))
		}
		if term := laterTerm(b.next); term != "" {
			fallback.add(holder, term, name)
		}
	}
	outranked.each(func(q *policy.Policy, why string, names []string) {
		p.find(q.Source.Finding(render.Warning, "claim-stands", []string{"spec", "resourceSelectors"}, "it does not get %s: it %s", some(names), why))
	})
	stuck.each(func(q *policy.Policy, _ string, lines []string) {
		p.find(q.Source.Finding(render.Warning, "not-divided-anew", []string{"spec", "placement"},
			"the change moves no replicas that are placed already; a WorkloadRebalancer divides them anew: %s", some(lines)))
	})
	fallback.each(func(q *policy.Policy, term string, names []string) {
		p.find(q.Source.Finding(render.Info, "affinity-fallback", []string{"spec", "placement", "clusterAffinities"},
			"not the first term but %s is in force for %s; there is no way back to an earlier one but a WorkloadRebalancer", term, some(names)))
	})
}

// warnOfRetention says where a rule of the source for what members' objects keep is not known: who takes objects from
// the state branch has the built-in rules alone.
func (p *pass) warnOfRetention(b *bound) {
	id := b.template.ID
	rule := p.rules.Layer(id, interpret.Retain)
	if rule == (&interpret.Interpreter{}).Layer(id, interpret.Retain) {
		return
	}
	var on []string
	for _, t := range targets(b.next) {
		if p.delivery(t.Name) == DeliveryPull {
			on = append(on, t.Name)
		}
	}
	if len(on) > 0 {
		p.find(b.template.Finding(render.Warning, "retention", nil,
			"on %s it comes from the state branch, where %s is not known: what others set on the object there is put back; place it on members that are pushed to if that matters", some(on), rule))
	}
}

// rowsOfCompat are the intended differences from Karmada that the compat switch turns off.
var rowsOfCompat = []string{"differs-2", "differs-5", "differs-8", "differs-9", "differs-10", "differs-18"}

// warnOfCompat takes back what is said of differences that the switch turns off, and warns of tolerations
// that do something only without it.
func (p *pass) warnOfCompat() {
	if !p.Options.CompatKarmada {
		return
	}
	p.Findings = slices.DeleteFunc(p.Findings, func(f render.Finding) bool { return slices.Contains(rowsOfCompat, f.Code) })
	if len(p.input.taints.value) > 0 {
		return // a ClusterTaintPolicy may put on what is tolerated
	}
	for _, q := range p.input.policies.value.Policies() {
		for i, t := range q.Spec.Placement.ClusterTolerations {
			if t.Effect == corev1.TaintEffectNoExecute && (t.Key == clusterv1alpha1.TaintNotReady || t.Key == clusterv1alpha1.TaintUnreachable) {
				p.find(q.Source.Finding(render.Warning, "toleration-no-effect", []string{"spec", "placement", "clusterTolerations", strconv.Itoa(i)},
					"has no effect with compat: karmada, which puts %s on with NoSchedule alone; a ClusterTaintPolicy puts it on with NoExecute", t.Key))
			}
		}
	}
}

// gathered are things to say, by policy and a word.
type gathered map[about][]string

type about struct {
	policy *policy.Policy
	word   string
}

func (g gathered) add(p *policy.Policy, word, item string) {
	g[about{p, word}] = append(g[about{p, word}], item)
}

func (g gathered) each(say func(p *policy.Policy, word string, items []string)) {
	var order []about
	for a := range g {
		order = append(order, a)
	}
	slices.SortFunc(order, func(a, b about) int {
		return cmp.Or(cmp.Compare(a.policy.String(), b.policy.String()), cmp.Compare(a.word, b.word))
	})
	for _, a := range order {
		say(a.policy, a.word, g[a])
	}
}

// shown is how many names stand in a sentence.
const shown = 5

// some is "a, b and c", or "a, b, c, d, e and 7 more".
func some(names []string) string { return named(names[:min(len(names), shown)], len(names)) }

// named is some of n things: those named, and how many more there are.
func named(names []string, n int) string {
	if more := n - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	if n == 1 {
		return names[0]
	}
	return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
}

// annotationZero names the members that were selected by the last decision and got no replicas: the first
// of them and, if there are more, "+" and how many. A division that stands has them, too.
const annotationZero = "godwit.dev/zero-replicas"

func setZero(b *workv1alpha2.ResourceBinding, names []string) {
	if len(names) == 0 {
		b.Annotations = without(b.Annotations, annotationZero)
		return
	}
	text := strings.Join(names[:min(len(names), shown)], ",")
	if more := len(names) - shown; more > 0 {
		text += ",+" + strconv.Itoa(more)
	}
	b.Annotations = with(b.Annotations, annotationZero, text)
}

// zero are the members without replicas, as far as they are named, and their number. Those that left are none.
func (p *pass) zero(b *workv1alpha2.ResourceBinding) (names []string, n int) {
	for name := range strings.SplitSeq(b.Annotations[annotationZero], ",") {
		if more, ok := strings.CutPrefix(name, "+"); ok {
			if m, err := strconv.ParseUint(more, 10, 31); err == nil { // people edit the record, too
				n += int(m)
			}
		} else if p.fleet.byName[name] != nil && !p.fleet.leaving[name] {
			names = append(names, name)
			n++
		}
	}
	return names, n
}

func (p *pass) warnOfZero(b *bound) {
	names, n := p.zero(b.next)
	switch {
	case len(names) == 0:
	case n == 1:
		p.find(b.template.Finding(render.Warning, "zero-replicas", nil, "member %s is selected and gets 0 of %d replicas, so it gets no copy", names[0], b.next.Spec.Replicas))
	default:
		p.find(b.template.Finding(render.Warning, "zero-replicas", nil, "members %s are selected and get 0 of %d replicas, so they get no copy", named(names, n), b.next.Spec.Replicas))
	}
}

// laterTerm is the term of clusterAffinities in force if it is not the first one.
func laterTerm(b *workv1alpha2.ResourceBinding) string {
	term := b.Status.SchedulerObservedAffinityName
	if s := b.Spec.Placement; s == nil || len(b.Spec.Clusters) == 0 || s.ClusterAffinity != nil || len(s.ClusterAffinities) == 0 || s.ClusterAffinities[0].AffinityName == term {
		return ""
	}
	return term
}

// dividedAnew is what a division from scratch would give, where another placement left the replicas where
// they were because their number is the same; nil if that is no different.
func (p *pass) dividedAnew(q schedule.Request, result *schedule.Result) []workv1alpha2.TargetCluster {
	if result.Trigger != schedule.PlacementChanged || result.Failure != "" || len(q.Binding.Spec.Clusters) == 0 || !slices.EqualFunc(q.Binding.Spec.Clusters, result.Clusters, sameTarget) {
		return nil
	}
	b := *q.Binding
	asked, before := metav1.NewTime(q.Now), metav1.NewTime(q.Now.Add(-time.Second))
	b.Spec.RescheduleTriggeredAt, b.Status.LastScheduledTime = &asked, &before
	q.Binding, q.Explain = &b, false
	anew := p.fleet.schedule.Schedule(q)
	if anew.Failure != "" || targetsText(anew.Clusters) == targetsText(result.Clusters) {
		return nil
	}
	return anew.Clusters
}
