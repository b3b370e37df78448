package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
)

// LabelClaimedBy on a template, with any value, keeps all policies away from it.
const LabelClaimedBy = "resourcetemplate.karmada.io/claimed-by"

// Template is what a policy can see of a template.
type Template struct {
	ID     api.ID
	Labels map[string]string
}

// Options are the facts outside of the policies that Choose depends on.
type Options struct {
	// OverrideExists tells whether an OverridePolicy, or with an empty namespace a
	// ClusterOverridePolicy, is there; nil means that all are.
	OverrideExists func(namespace, name string) bool
	// Unreadable tells whether a policy that is not in the Set may be there all the same, in a file
	// that could not be read; nil means that none is.
	Unreadable func(Claim) bool
}

// Choice is which policy holds a template, and why. With Policy nil one of Skipped, Undecided and
// Released may tell what to do with a binding that is there.
type Choice struct {
	// Policy holds the template from now on; nil means none does.
	Policy    *Policy
	Precision Precision
	// Preempted is the holder that Policy takes the template over from by preemption; nil means none.
	Preempted *Claim
	// Released: the recorded holder is gone or no longer selects the template, and nobody takes
	// over. The binding and what it put on members stay; the claim goes.
	Released bool
	// Undecided: the recorded holder is there, but its file has an error. Everything stays as it is.
	Undecided bool
	// Skipped: the template's labels keep all policies away. Everything stays as it is.
	Skipped bool
	// Waiting names override policies that Policy asks for and that are not there. The claim
	// counts, but the binding is not created or changed until they are.
	Waiting []string
	// Message says in one sentence why.
	Message string

	matches []candidate // all policies that select the template, as they rank
}

// PassedOver is a policy that selects the template and does not get it.
type PassedOver struct {
	Policy *Policy
	Why    string
}

type candidate struct {
	policy    *Policy
	precision Precision
}

// rank orders candidates of one kind: priority, then precision, then name. Age never counts.
func rank(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(b.policy.Priority, a.policy.Priority),
		cmp.Compare(b.precision, a.precision),
		cmp.Compare(a.policy.Name, b.policy.Name),
	)
}

// Choose says which policy holds the template, given the policy recorded to hold it.
//
// An unclaimed template goes to the best PropagationPolicy of its namespace, or if there is none to
// the best ClusterPropagationPolicy. A claimed one stays where it is, unless its policy is gone or
// no longer selects it, or a policy with preemption: Always may take it over. Deciding again with
// the answer as the recorded holder gives the same answer.
func (s *Set) Choose(t Template, held Claim, o Options) Choice {
	if _, ok := t.Labels[LabelClaimedBy]; ok {
		return Choice{Skipped: true, Message: "the label " + LabelClaimedBy + " keeps policies away from it"}
	}
	if s.broken[held] || held != (Claim{}) && s.byClaim[held] == nil && o.Unreadable != nil && o.Unreadable(held) {
		return Choice{Undecided: true, Message: held.String() + " holds it and has an error; nothing changes until that is corrected"}
	}
	candidates := s.candidates(t)
	choice := Choice{matches: candidates}
	i := slices.IndexFunc(candidates, func(c candidate) bool { return c.policy.Claim() == held })
	switch {
	case i >= 0:
		holder := candidates[i]
		taker := candidate{}
		for _, c := range candidates {
			if preempts(c, holder) {
				taker = c
				break
			}
		}
		if taker.policy == nil {
			choice.take(holder, "holds it already")
			break
		}
		choice.Preempted = &held
		choice.take(taker, "takes it over from "+holder.policy.String()+" by preemption")
	case len(candidates) > 0:
		choice.take(candidates[0], "selects it "+candidates[0].precision.String())
	case held == Claim{}:
		choice.Message = "no policy selects it"
	default:
		choice.Released = true
		choice.Message = s.lost(held) + " and no other policy selects it; what runs stays as it is"
	}
	if p := choice.Policy; p != nil {
		choice.wait(p, o)
	}
	return choice
}

// candidates returns the policies that select the template: those of its namespace first, each kind ranked.
func (s *Set) candidates(t Template) []candidate {
	var all []candidate
	collect := func(from scope) {
		start := len(all)
		for _, m := range from.index.Match(t.ID, t.Labels) {
			all = append(all, candidate{from.policies[m.Position], m.Precision})
		}
		slices.SortFunc(all[start:], rank)
	}
	if t.ID.Namespace != "" {
		collect(s.namespaced)
	}
	collect(s.cluster)
	return all
}

// preempts tells whether c takes a template from its holder. Of several that do, the one that
// ranks first ends up with it, in whatever order they try.
//
// Differs from Karmada: there it needs a feature gate.
func preempts(c, holder candidate) bool {
	switch {
	case c.policy.Spec.Preemption != policyv1alpha1.PreemptAlways || c.precision != MatchName:
		return false
	case c.policy.Kind == holder.policy.Kind:
		return c.policy.Priority > holder.policy.Priority
	}
	return c.policy.Kind == KindPropagationPolicy
}

func (c *Choice) take(chosen candidate, why string) {
	c.Policy, c.Precision = chosen.policy, chosen.precision
	c.Message = chosen.policy.String() + " " + why
}

// wait looks for the override policies that must be there first.
func (c *Choice) wait(p *Policy, o Options) {
	if o.OverrideExists == nil {
		return
	}
	for _, name := range p.Spec.DependentOverrides {
		if !o.OverrideExists(p.Namespace, name) {
			c.Waiting = append(c.Waiting, name)
		}
	}
	if len(c.Waiting) > 0 {
		c.Message += "; waiting for dependent overrides " + strings.Join(c.Waiting, ", ")
	}
}

func (s *Set) lost(held Claim) string {
	if s.byClaim[held] == nil {
		return held.String() + " held it and is gone"
	}
	return held.String() + " held it and no longer selects it"
}

// PassedOver tells why the other policies that select the template do not hold it, best first.
func (c *Choice) PassedOver() []PassedOver {
	var others []PassedOver
	for _, m := range c.matches {
		if m.policy != c.Policy {
			others = append(others, PassedOver{m.policy, m.policy.String() + ": " + c.against(m)})
		}
	}
	return others
}

// Outranked returns the policy that would hold the template if it were free, and why it does not, which
// completes a sentence about it; nil if the one that holds it would anyway.
func (c *Choice) Outranked() (*Policy, string) {
	if c.Policy == nil || c.matches[0].policy == c.Policy {
		return nil, ""
	}
	return c.matches[0].policy, c.against(c.matches[0])
}

// against completes "ClusterPropagationPolicy base: ...".
func (c *Choice) against(m candidate) string {
	chosen := candidate{c.Policy, c.Precision}
	kindsDiffer := m.policy.Kind != c.Policy.Kind
	switch {
	case kindsDiffer && c.Policy.Kind == KindPropagationPolicy:
		return "a PropagationPolicy comes before every ClusterPropagationPolicy"
	case kindsDiffer || rank(m, chosen) < 0:
		return fmt.Sprintf("would win if the template were free, but %s holds it%s", c.Policy, c.hint(m))
	case m.policy.Priority != c.Policy.Priority:
		return fmt.Sprintf("priority %d, the chosen has %d", m.policy.Priority, c.Policy.Priority)
	case m.precision != c.Precision:
		return fmt.Sprintf("selects it %s, the chosen %s", m.precision, c.Precision)
	}
	return "the same priority and precision, and its name comes later"
}

// hint tells how a policy that would win could get the template.
func (c *Choice) hint(m candidate) string {
	switch {
	case m.policy.Spec.Preemption == policyv1alpha1.PreemptAlways:
		return " and its priority is not lower"
	case m.precision != MatchName:
		return "; select it by name with preemption: Always to take it over"
	}
	return "; preemption: Always with a higher priority takes it over"
}
