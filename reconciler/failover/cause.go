package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Kind is what makes a workload leave a member.
type Kind string

const (
	// ApplicationFailure: the copy there has been unhealthy for too long.
	ApplicationFailure Kind = "ApplicationFailure"
	// ClusterFailure: the member is down.
	ClusterFailure Kind = "ClusterFailure"
	// TaintEviction: somebody tainted the member NoExecute.
	TaintEviction Kind = "TaintEviction"
)

// Cause is one reason to leave one member.
type Cause struct {
	Cluster string
	Kind    Kind
	// Since is when it began.
	Since time.Time
	// At is when the workload has to leave; zero means never, and Text says why.
	At time.Time
	// Text says what it is, how long it is tolerated and until when; Short says it without the times.
	Text, Short string
}

// Due tells whether it is time to leave.
func (c Cause) Due(now time.Time) bool { return !c.At.IsZero() && !now.Before(c.At) }

// Taint is a NoExecute taint of a member.
type Taint struct {
	corev1.Taint
	// Outage: the member's own health put it there, not a person or a ClusterTaintPolicy.
	Outage bool
}

// Facts are what causes are found in.
type Facts struct {
	// Copies are the binding's, as Watch gives them.
	Copies []workv1alpha2.AggregatedStatusItem
	// Taints gives the NoExecute taints of a member.
	Taints func(member string) []Taint
	// Restart is when a person put the binding where it is: what began before counts from then on.
	// Zero means that nobody did.
	Restart time.Time
}

// Causes lists what makes, or will make, the workload leave its clusters, sorted by cluster and the
// time to leave; what never does comes last.
func Causes(spec *workv1alpha2.ResourceBindingSpec, f Facts, o Options) []Cause {
	var causes []Cause
	for _, target := range spec.Clusters {
		if c, ok := application(spec, target.Name, f); ok {
			causes = append(causes, c)
		}
		if c, ok := Tainted(spec, target.Name, f, o); ok {
			causes = append(causes, c)
		}
	}
	slices.SortFunc(causes, func(a, b Cause) int {
		if a.Cluster == b.Cluster && a.At.IsZero() != b.At.IsZero() {
			if a.At.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind))
	})
	return causes
}

// application is the cause in the health of a copy.
func application(spec *workv1alpha2.ResourceBindingSpec, member string, f Facts) (Cause, bool) {
	if !Watched(spec) {
		return Cause{}, false
	}
	i := slices.IndexFunc(f.Copies, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == member })
	if i < 0 || f.Copies[i].LastHealthTransitionTime == nil {
		return Cause{}, false
	}
	item, a := f.Copies[i], spec.Failover.Application
	c := Cause{Cluster: member, Kind: ApplicationFailure, Since: item.LastHealthTransitionTime.UTC()}
	from, text := latest(c.Since, f.Restart), ""
	if p := a.PreConditions; p != nil && p.DelaySeconds != nil && item.CreationTimestamp != nil {
		if begin := item.CreationTimestamp.Add(seconds(*p.DelaySeconds)); begin.After(from) {
			from, text = begin.UTC(), fmt.Sprintf(", not counted for the first %s", seconds(*p.DelaySeconds))
		}
	}
	tolerated := defaultToleration
	if s := a.DecisionConditions.TolerationSeconds; s != nil {
		tolerated = seconds(*s)
	}
	// The first look notes the time, and the next one acts: a copy may just be changing.
	c.At = latest(from.Add(tolerated), c.Since.Add(time.Second))
	health := cmp.Or(item.Health, workv1alpha2.ResourceUnknown)
	c.Text = fmt.Sprintf("%s since %s%s, tolerated %s until %s", health, clock(c.Since), text, tolerated, clock(c.At))
	c.Short = fmt.Sprintf("%s%s, tolerated %s", health, text, tolerated)
	return c, true
}

// Tainted is the first cause in the NoExecute taints of a member, also of one that the workload is not on. The order of
// tolerations counts: each taint uses the first that tolerates it, and the one that ends first decides.
func Tainted(spec *workv1alpha2.ResourceBindingSpec, member string, f Facts, o Options) (Cause, bool) {
	var tolerations []corev1.Toleration
	if spec.Placement != nil {
		tolerations = spec.Placement.ClusterTolerations
	}
	optIn := spec.Failover != nil && spec.Failover.Cluster != nil
	var first Cause
	found := false
	var used []corev1.Toleration // by taints that count
	taints := f.Taints(member)
	counting := make([]Taint, 0, len(taints))
	keep := func(c Cause) {
		if !found || first.At.IsZero() || !c.At.IsZero() && c.At.Before(first.At) {
			first, found = c, true
		}
	}
	for _, t := range taints {
		cause := Cause{Cluster: member, Kind: TaintEviction}
		if t.TimeAdded != nil {
			cause.Since = t.TimeAdded.UTC()
		}
		if t.Outage {
			cause.Kind = ClusterFailure
			if !optIn && !names(tolerations, t.Taint) {
				if !found {
					why := "the policy does not ask to leave members that are down: it has neither failover.cluster nor a NoExecute toleration for " + t.Key
					cause.Text, cause.Short = fmt.Sprintf("%s since %s; %s", words(t), clock(cause.Since), why), fmt.Sprintf("%s; %s", words(t), why)
					first, found = cause, true
				}
				continue
			}
		}
		counting = append(counting, t)
		i := slices.IndexFunc(tolerations, func(x corev1.Toleration) bool { return tolerates(x, t.Taint) })
		if i >= 0 {
			used = append(used, tolerations[i])
			continue
		}
		wait := time.Duration(0)
		if t.Outage {
			wait = defaultToleration
			if o.DefaultTolerationSeconds != nil {
				wait = seconds(*o.DefaultTolerationSeconds)
			}
		}
		cause.At = latest(cause.Since, f.Restart).Add(wait)
		cause.Text, cause.Short = fmt.Sprintf("%s since %s, not tolerated", words(t), clock(cause.Since)), words(t)+", not tolerated"
		if wait > 0 {
			cause.Text = fmt.Sprintf("%s since %s, tolerated %s by default until %s", words(t), clock(cause.Since), wait, clock(cause.At))
			cause.Short = fmt.Sprintf("%s, tolerated %s by default", words(t), wait)
		}
		if cause.At.IsZero() {
			cause.At = time.Unix(0, 0).UTC() // a taint without a time has always been there
		}
		keep(cause)
	}
	for _, t := range counting {
		if t.TimeAdded == nil {
			continue
		}
		cause := Cause{Cluster: member, Kind: TaintEviction, Since: t.TimeAdded.UTC()}
		if t.Outage {
			cause.Kind = ClusterFailure
		}
		for _, x := range used {
			if !tolerates(x, t.Taint) {
				continue
			}
			c := cause
			if x.TolerationSeconds == nil {
				c.Text, c.Short = fmt.Sprintf("%s since %s, tolerated for ever", words(t), clock(c.Since)), words(t)+", tolerated for ever"
			} else {
				c.At = latest(c.Since, f.Restart).Add(time.Duration(*x.TolerationSeconds) * time.Second)
				tolerated := time.Duration(*x.TolerationSeconds) * time.Second
				c.Text, c.Short = fmt.Sprintf("%s since %s, tolerated %s until %s", words(t), clock(c.Since), tolerated, clock(c.At)), fmt.Sprintf("%s, tolerated %s", words(t), tolerated)
			}
			if !found || !c.At.IsZero() {
				keep(c)
			}
		}
	}
	return first, found
}

// names tells whether a toleration names the key of an outage, or all keys, with NoExecute: that is
// how a policy without failover.cluster asks to leave members that are down.
//
// Differs from Karmada: there those taints are NoSchedule alone (differences, row 2).
func names(tolerations []corev1.Toleration, t corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(x corev1.Toleration) bool {
		return x.Effect == corev1.TaintEffectNoExecute && tolerates(x, t)
	})
}

// tolerates is the rule of Kubernetes: an empty effect matches any, an empty key with Exists matches
// all; Lt and Gt match nothing.
func tolerates(x corev1.Toleration, t corev1.Taint) bool {
	if x.Effect != "" && x.Effect != t.Effect || x.Key != "" && x.Key != t.Key {
		return false
	}
	switch x.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return x.Key != "" && x.Value == t.Value
	}
	return false
}

// words says what a taint is in the words of people.
func words(t Taint) string {
	switch {
	case t.Outage && t.Key == clusterv1alpha1.TaintNotReady:
		return "the member is not ready"
	case t.Outage && t.Key == clusterv1alpha1.TaintUnreachable:
		return "the member is unreachable"
	}
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return fmt.Sprintf("taint %s:%s", text, t.Effect)
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// clock is a time as explanations give it.
func clock(t time.Time) string {
	if t.IsZero() {
		return "always"
	}
	return t.UTC().Format(time.RFC3339)
}
