package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/divide"
)

// Outcome is what became of a member.
type Outcome string

const (
	// Kept: it was a target and is one.
	Kept Outcome = "kept"
	// Chosen: it is a new target.
	Chosen Outcome = "chosen"
	// Refused: it did not pass Rule.
	Refused Outcome = "refused"
	// PassedOver: it could be a target, but others were taken, or none could be.
	PassedOver Outcome = "passed over"
	// Dropped: it was selected and got no replicas.
	Dropped Outcome = "dropped"
)

// Verdict is what became of a member, and why.
type Verdict struct {
	Cluster string
	Outcome Outcome
	// Rule is the filter that refused it, or the step that passed over or dropped it; empty for targets.
	Rule string
	// Message says why, with the values compared.
	Message string
	// Before and Replicas are what it had and has; both 0 where the kind has none.
	Before, Replicas int32
	// Target tells that it was one before.
	Target bool
	// Rank is its place among the candidates, 1 for the best; 0 if it is none, or nothing was decided.
	Rank int
	// Score, Available and Tier are what candidates are ordered by: locality, room with the replicas
	// that are there, and which affinity matches (0: the term's own).
	Score, Available int64
	Tier             int
	// Scores are the parts of Score by the plugin that gave them.
	Scores []Score
	// Affinity is the name of the affinity that it matches: of clusterAffinities, or of an overflow.
	Affinity string
	// Groups are those it counts for, as "region eu"; only where spread constraints choose groups.
	Groups []string
	// Estimate is where Available comes from; nil if it is no candidate.
	Estimate *Estimate
}

// Score is what one plugin gave a candidate.
type Score struct {
	Plugin string
	Score  int64
}

// The steps that are not filters.
const (
	stepSelect = "SpreadConstraint"
	stepDivide = "ReplicaScheduling"
)

// Group is a region, provider or zone that a spread constraint chose, or did not.
type Group struct {
	Field  policyv1alpha1.SpreadFieldValue
	Name   string
	Chosen bool
	// Score is what groups are chosen by: room, as far as it is needed, counts most.
	Score int64
	// Clusters are its candidates, best first.
	Clusters []string
}

// Division is how the selected members came to their replicas.
type Division struct {
	// Strategy is Duplicated, StaticWeight, DynamicWeight or Aggregated.
	Strategy string
	// Wanted is the number of replicas of the template.
	Wanted int32
	// Before is what the members had, those that are members no more included.
	Before []divide.Share
	// Afresh: a reschedule was asked for, so that what was there plays no part.
	Afresh bool
	// Withheld: the result was not put into force.
	Withheld bool
	// Steps are the divisions in order; what they deal and keep, added up, is the result.
	Steps []Step
}

// Step is one division.
type Step struct {
	// For says of whom, where it is not all selected members.
	For string
	divide.Step
}

// Anew is what a reschedule would decide now.
type Anew struct {
	Clusters []workv1alpha2.TargetCluster
	Failure  Failure
	Message  string
}

// Block is a member that refuses a workload after an eviction, until the zero time for ever.
type Block struct {
	Cluster      string
	Since, Until time.Time
	Text         string
}

// blocks are those in force, also where the workload runs again.
func (r *run) blocks() (list []Block) {
	for _, record := range r.spec.ActiveEvictionHistory {
		began := record.CreationTimestamp.Time
		if end, blocks := r.blockEnd(began); blocks {
			text := "new copies are refused after an eviction"
			if record.Reason != "" {
				text += " (" + record.Reason + ")"
			}
			if end.IsZero() {
				text += ", for ever"
			}
			list = append(list, Block{record.ClusterName, began, end, text})
		}
	}
	slices.SortStableFunc(list, func(a, b Block) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return list
}

// anew asks what a reschedule would decide; nil where it makes no difference to ask for one.
func (f *Fleet) anew(q Request, trigger Trigger) *Anew {
	r := &f.run
	if trigger == Suspended || trigger == OtherScheduler || r.fresh || !r.workload || r.always() {
		return nil
	}
	asked := *q.Binding
	asked.Status.LastScheduledTime = &metav1.Time{}
	asked.Spec.RescheduleTriggeredAt = &metav1.Time{Time: time.Unix(0, 0)}
	q.Binding, q.Explain = &asked, false
	result := f.Schedule(q)
	return &Anew{result.Clusters, result.Failure, result.Message}
}

// Withhold makes the verdicts those of a decision that is not put into force, because of rule.
func (r *Reasons) Withhold(rule, message string) {
	if r.Division != nil {
		r.Division.Withheld = true
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		switch {
		case v.Target:
			v.Outcome, v.Rule, v.Message, v.Replicas = Kept, rule, "stays as it was: "+message, v.Before
		case v.Outcome == Chosen || v.Outcome == Dropped:
			v.Outcome, v.Rule, v.Message, v.Replicas = PassedOver, rule, message, 0
		}
	}
}

// verdicts explains what a try did with each member.
func (r *run) verdicts(candidates, selected []candidate, done *outcome) []Verdict {
	list := r.refusals()
	for at, c := range candidates {
		v := &list[c.member]
		v.Rank, v.Score, v.Available, v.Tier = at+1, c.score, c.available, c.tier
		v.Scores = []Score{{"ClusterLocality", c.score}}
		v.Affinity, v.Groups, v.Estimate = r.affinityOf(&c), r.groupsOf(c.member), r.estimate(c.member)
		v.Outcome, v.Rule = PassedOver, stepSelect
		v.Message = fmt.Sprintf("%d of %d candidates were selected%s; it is number %d (score %d, available %s)",
			len(selected), len(candidates), r.chosenGroups(), at+1, c.score, Available(c.available))
	}
	if done.failure != "" {
		r.stay(list, candidates, done)
		return list
	}
	for _, c := range selected {
		v := &list[c.member]
		v.Outcome, v.Rule, v.Message = Dropped, stepDivide, r.dropped(&c)
	}
	for _, t := range done.targets {
		v := &list[r.fleet.index[t.Name]]
		r.taken(v, t.Replicas)
		v.Message = r.why(v, len(candidates))
	}
	for _, s := range r.kept {
		v := &list[r.fleet.index[s.Name]]
		v.Message = "the workload is not healthy there; scaling down takes nothing from it"
	}
	return list
}

// why says what speaks for a target: the affinity, its place among the candidates, the groups, and
// what would have kept new replicas away.
func (r *run) why(v *Verdict, candidates int) string {
	var words []string
	switch {
	case v.Affinity != "" && v.Tier > 0:
		words = append(words, fmt.Sprintf("overflow affinity %s of %s", v.Affinity, r.term.name))
	case v.Affinity != "":
		words = append(words, "affinity "+v.Affinity)
	}
	place := fmt.Sprintf("number %d of %d candidates", v.Rank, candidates)
	if candidates == 1 {
		place = "the only candidate"
	}
	if v.Target && v.Score > 0 {
		place += ", as it runs there already"
	}
	words = append(words, place)
	if len(v.Groups) > 0 {
		words = append(words, strings.Join(v.Groups, " and "))
	}
	return strings.Join(append(words, r.spared(r.fleet.index[v.Cluster])...), "; ")
}

// spared says what would keep new replicas away from a member, and spares those that are there, and
// which taints are tolerated for how long.
func (r *run) spared(i int) (notes []string) {
	if r.mark[i]&target != 0 {
		if !r.serving[i] {
			notes = append(notes, "it does not list the kind among its API resources, which keeps only new copies away")
		}
		if r.placement.taint[i] >= 0 {
			notes = append(notes, "taint "+r.taint(i)+" is not tolerated, which keeps only new copies away")
		}
		if r.mark[i]&blocked != 0 {
			notes = append(notes, r.blockDetail(i)+", which keeps only new copies away")
		}
	}
	return append(notes, r.tolerations(i)...)
}

// tolerations says which taints of a member are tolerated, and until when.
func (r *run) tolerations(i int) (notes []string) {
	for _, taint := range r.fleet.members[i].taints {
		if ends := r.tolerated(&taint); ends != "" {
			notes = append(notes, "taint "+taint.ToString()+" "+ends)
		}
	}
	return notes
}

// tolerated is "tolerated", "tolerated 60s, until 12:01:00" or "tolerated 60s, ended 12:01:00"; empty
// if it is not. Of several tolerations the shortest counts, as when members are evicted.
func (r *run) tolerated(taint *corev1.Taint) string {
	text := ""
	least := int64(math.MaxInt64)
	for _, t := range r.placement.source.ClusterTolerations {
		if !affinity.Tolerates(&t, taint) {
			continue
		}
		if text == "" {
			text = "tolerated"
		}
		if t.TolerationSeconds != nil && *t.TolerationSeconds < least && taint.Effect == corev1.TaintEffectNoExecute {
			least = max(*t.TolerationSeconds, 0)
		}
	}
	if text == "" || least == math.MaxInt64 {
		return text
	}
	text += fmt.Sprintf(" %ds", least)
	if taint.TimeAdded == nil {
		return text
	}
	end := taint.TimeAdded.UTC().Add(time.Duration(least) * time.Second)
	if r.Now.Before(end) {
		return text + ", until " + r.clock(end)
	}
	return text + ", ended " + r.clock(end)
}

// clock is a time as people read it: of the day it is, the time alone.
func (r *run) clock(t time.Time) string {
	t = t.UTC()
	if r.Now.UTC().Format(time.DateOnly) == t.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.RFC3339)
}

// affinityOf is the name of the affinity that matches a candidate.
func (r *run) affinityOf(c *candidate) string {
	if c.tier > 0 {
		return r.placement.source.ClusterAffinities[r.termIndex()].OverflowAffinities[c.tier-1].AffinityName
	}
	return r.term.name
}

// tierName says whose turn it is where there are overflow affinities.
func (r *run) tierName(tier int) string {
	switch {
	case tier < 0:
		return ""
	case tier == 0:
		return "affinity " + r.term.name
	}
	return "overflow affinity " + r.affinityOf(&candidate{tier: tier})
}

func (r *run) termIndex() int {
	for i := range r.placement.terms {
		if &r.placement.terms[i] == r.term {
			return i
		}
	}
	panic("the term that is tried is one of the placement")
}

// groupsOf are the chosen groups that a member is in.
func (r *run) groupsOf(member int) (names []string) {
	for _, groups := range r.chosen {
		for _, g := range groups {
			if g.has(r.fleet, member) {
				names = append(names, string(g.field)+" "+g.name)
			}
		}
	}
	return names
}

// groups are all groups among the candidates, constraint by constraint; later ones choose within what
// earlier ones chose.
func (r *run) groups(candidates []candidate) (list []Group) {
	s := spreading{run: r}
	if r.placement.cluster != nil {
		s.clusters = *r.placement.cluster
	}
	pool := candidates
	for i, chosen := range r.chosen {
		constraint := r.groupConstraints()[i]
		groups := s.group(constraint, pool)
		slices.SortFunc(groups, func(a, b *clusterGroup) int {
			return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
		})
		for _, g := range groups {
			v := Group{Field: g.field, Name: g.name, Score: g.weight}
			v.Chosen = slices.ContainsFunc(chosen, func(c *clusterGroup) bool { return c.value == g.value })
			for _, c := range g.members {
				v.Clusters = append(v.Clusters, r.fleet.members[c.member].Name)
			}
			list = append(list, v)
		}
		pool = slices.DeleteFunc(slices.Clone(pool), func(c candidate) bool { return !s.inAny(chosen, c) })
	}
	return list
}

// division is the arithmetic of a try, nil if it did not get so far.
func (r *run) division() *Division {
	if len(r.steps) == 0 {
		return nil
	}
	return &Division{Strategy: string(r.placement.strategy), Wanted: r.spec.Replicas, Before: sharesOf(r.spec.Clusters), Afresh: r.fresh, Steps: r.steps}
}

func sharesOf(targets []workv1alpha2.TargetCluster) []divide.Share {
	shares := make([]divide.Share, len(targets))
	for i, t := range targets {
		shares[i] = divide.Share{Name: t.Name, Replicas: t.Replicas}
	}
	slices.SortFunc(shares, func(a, b divide.Share) int { return cmp.Compare(a.Name, b.Name) })
	return shares
}

// note keeps a step of the division, if that is asked for.
func (r *run) note(whom string, step divide.Step) { r.steps = append(r.steps, Step{whom, step}) }

// wholes is the step that gives each member the same.
func wholes(targets []workv1alpha2.TargetCluster, replicas int32) divide.Step {
	return divide.Step{How: divide.Whole, Seats: replicas, Dealt: sharesOf(targets)}
}

// Estimate is for how many more replicas, or sets of components, a member has room, and how that is known.
type Estimate struct {
	// Estimator is "resource summary", "resource models", "single nodes", or why nothing was estimated.
	Estimator string
	// Limit is what bounds the room: "cpu: 2 free, 500m each"; empty if nothing does.
	Limit string
	Room  int64
}

// estimate explains the room of a member.
func (r *run) estimate(i int) *Estimate {
	c := &r.fleet.members[i].capacity
	e := &Estimate{Room: c.room(&r.demand)}
	switch {
	case r.demand.nothing:
		e.Estimator = "nothing to estimate"
	case !c.known:
		e.Estimator = "no status, so taken to have room"
	case c.free == nil:
		e.Estimator = "no resource summary, so taken to have none"
	default:
		e.Estimator, e.Limit = "resource summary", r.fleet.limit(c, &r.demand)
		if c.grades != nil && !r.demand.total.bare {
			e.Estimator = "resource models"
		}
		if c.estimate(&r.demand) >= unlimited {
			e.Limit = "" // more than is counted
		}
		general := c.estimate(&r.demand)
		switch accurate, known := c.nodes.room(&r.demand, general); {
		case c.nodes != nil && !known:
			e.Estimator += ", as what is asked of nodes is not on record"
		case known && accurate < general:
			e.Estimator, e.Limit = "single nodes", "what the nodes it may go to, one by one, have free"
		}
	}
	return e
}

// limit is the resource of which a member has the least for its purpose, among all it has free.
func (f *Fleet) limit(c *capacity, d *demand) string {
	least := c.pods
	text := fmt.Sprintf("pods: %d free", c.pods)
	if d.set {
		least /= max(d.total.pods, 1)
		text += fmt.Sprintf(", %d a set", d.total.pods)
	}
	for _, n := range d.total.needs {
		if n.column < 0 {
			return "it has none of a resource that is asked for"
		}
		if fit := c.free[n.column] / n.amount; fit < least {
			least = fit
			name := f.column(n.column)
			text = fmt.Sprintf("%s: %s free, %s each", name, quantity(name, c.free[n.column]), quantity(name, n.amount))
		}
	}
	if c.grades != nil && !d.total.bare && c.estimate(d) < least {
		text = "what its nodes, one by one, have free"
	}
	return text
}

func (f *Fleet) column(n int) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(f.columns)) {
		if f.columns[name] == n {
			return name
		}
	}
	return ""
}

func quantity(name corev1.ResourceName, n int64) string {
	switch name {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

// Available is a number of replicas as people read it: beyond what is counted it is "any number".
func Available(n int64) string {
	if n >= unlimited {
		return "any number"
	}
	return fmt.Sprint(n)
}

// stay explains a failure: the message goes to every candidate, and unless there was none, targets
// stay what they are.
func (r *run) stay(list []Verdict, candidates []candidate, done *outcome) {
	rule := stepSelect
	if done.failure == Unschedulable {
		rule = stepDivide
	}
	for _, c := range candidates {
		list[c.member].Rule, list[c.member].Message = rule, done.message
	}
	for i := range list {
		if v := &list[i]; v.Target && done.failure != NoClusterFit {
			v.Outcome, v.Replicas = Kept, v.Before
		}
	}
}

// chosenGroups reads " in region eu, us and zone a".
func (r *run) chosenGroups() string {
	var text string
	for i, groups := range r.chosen {
		text += []string{" in", " and"}[min(i, 1)]
		for j, g := range groups {
			if j == 0 {
				text += fmt.Sprintf(" %s %s", g.field, g.name)
			} else {
				text += ", " + g.name
			}
		}
	}
	return text
}

func (r *run) dropped(c *candidate) string {
	if r.placement.strategy == static && r.placement.weights != nil {
		return fmt.Sprintf("selected, but its weight of %d gives it none of %d replicas", r.placement.weights[c.member], r.spec.Replicas)
	}
	return fmt.Sprintf("selected, but it gets none of %d replicas (available %s)", r.spec.Replicas, Available(c.available))
}

// unasked says why nothing is decided.
var unasked = map[Trigger]string{
	Suspended:      "scheduling is suspended",
	OtherScheduler: "another scheduler decides",
	Standing:       "nothing asks for a new decision",
}

// standing explains a result that stands: what is kept, and what would be said of the others.
func (r *run) standing(why string) []Verdict {
	r.fleet.tiersOf(r.term)
	list := r.refusals()
	for i := range list {
		if v := &list[i]; v.Outcome == "" {
			v.Outcome, v.Message = PassedOver, why
		}
	}
	for _, t := range r.current {
		if i, found := r.fleet.index[t.Name]; found {
			v := &list[i]
			refused := v.Outcome == Refused
			rule, message := v.Rule, v.Message
			r.taken(v, t.Replicas)
			v.Message = strings.Join(append([]string{why}, r.spared(i)...), "; ")
			if refused {
				v.Message += fmt.Sprintf("; a new one would refuse it (%s: %s)", rule, message)
			}
		}
	}
	return list
}

// standingDivision says that there is nothing to divide.
func (r *run) standingDivision() *Division {
	if !r.numbered || r.placement.strategy == duplicated {
		return nil
	}
	same := divide.Step{How: divide.Same, Kept: sharesOf(r.current)}
	return &Division{Strategy: string(r.placement.strategy), Wanted: r.spec.Replicas, Before: same.Kept, Steps: []Step{{"", same}}}
}

func (r *run) taken(v *Verdict, replicas int32) {
	v.Outcome, v.Rule, v.Message, v.Replicas = Chosen, "", "", replicas
	if v.Target {
		v.Outcome = Kept
	}
}

// refusals begins the verdicts: with what members had, and the filters they did not pass.
func (r *run) refusals() []Verdict {
	list := make([]Verdict, len(r.fleet.members))
	for i := range list {
		list[i].Cluster = r.fleet.members[i].Name
		if f := r.refusal(i); f != nil {
			list[i].Outcome, list[i].Rule, list[i].Message = Refused, f.rule, f.detail(r, i)
		}
	}
	for _, t := range r.spec.Clusters {
		if i, found := r.fleet.index[t.Name]; found {
			list[i].Target, list[i].Before = true, t.Replicas
		}
	}
	return list
}
