package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/manifest"
)

const (
	// KindPropagationPolicy and KindClusterPropagationPolicy are the kinds of a Policy.
	KindPropagationPolicy        = "PropagationPolicy"
	KindClusterPropagationPolicy = "ClusterPropagationPolicy"
)

// Policy is a valid propagation policy.
type Policy struct {
	Kind string
	// Namespace is empty for a ClusterPropagationPolicy.
	Namespace string
	Name      string
	// Spec has its defaults filled in. It is shared and never changed.
	Spec policyv1alpha1.PropagationSpec
	// Priority is the explicit priority; the larger wins.
	Priority int32
	// FailBack is for how long a member that a workload left has to be well before the workload goes back
	// to it; nil means that it does not.
	FailBack *time.Duration
	Source   *manifest.Object
	// Hash is of the identity, the defaulted spec and FailBack, hex.
	Hash string
}

// AnnotationFailBack on a policy is "after=" and a duration.
const AnnotationFailBack = "godwit.dev/failback"

// failBack reads the annotation. Without it, or if it says nothing, there is none.
func failBack(r *Report) *time.Duration {
	meta, _ := r.Object.Content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, ok := annotations[AnnotationFailBack].(string)
	if !ok {
		return nil
	}
	at := Path{"metadata", "annotations", AnnotationFailBack}
	after, found := strings.CutPrefix(text, "after=")
	d, err := time.ParseDuration(after)
	if !found || err != nil || d < 0 {
		r.Error("failback", at, "%q says nothing; write it like after=30m", text)
		return nil
	}
	return &d
}

// Claim names the policy that holds a template; the zero value means nobody does.
type Claim struct{ Kind, Namespace, Name string }

// String is "PropagationPolicy default/web", "ClusterPropagationPolicy base", or "".
func (c Claim) String() string {
	switch {
	case c == Claim{}:
		return ""
	case c.Namespace == "":
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Claim is what a binding records when p holds its template.
func (p *Policy) Claim() Claim { return Claim{p.Kind, p.Namespace, p.Name} }

// String names the policy as people do.
func (p *Policy) String() string { return p.Claim().String() }

// Lazy: a change of the policy reaches a binding with the next change of its template only.
func (p *Policy) Lazy() bool { return p.Spec.ActivationPreference == policyv1alpha1.LazyActivation }

// Set is all propagation policies of a source, indexed.
type Set struct {
	namespaced, cluster scope
	byClaim             map[Claim]*Policy
	// broken policies exist, but have an error that keeps them from being used.
	broken map[Claim]bool
	hash   string
}

// scope is the policies of one kind, by namespace and name, and the index of their selectors.
type scope struct {
	policies []*Policy
	index    *Index
}

// Compile decodes, defaults and validates the propagation policies among objs; other kinds are
// passed over. Findings are sorted. Of two objects with one identity the first is used.
func Compile(objs []*manifest.Object) (*Set, []render.Finding) {
	s := &Set{byClaim: map[Claim]*Policy{}, broken: map[Claim]bool{}}
	var findings []render.Finding
	for _, o := range objs {
		if !isPropagationPolicy(o) {
			continue
		}
		claim := Claim{o.Kind, o.Namespace, o.Name}
		if s.byClaim[claim] != nil || s.broken[claim] {
			continue
		}
		p, found := decode(o)
		findings = append(findings, found...)
		if p == nil {
			s.broken[claim] = true
			continue
		}
		s.byClaim[claim] = p
		if p.Namespace == "" {
			s.cluster.policies = append(s.cluster.policies, p)
		} else {
			s.namespaced.policies = append(s.namespaced.policies, p)
		}
	}
	s.namespaced.compile()
	s.cluster.compile()
	s.hash = s.digest()
	findings = append(findings, ties(s.namespaced.policies)...)
	findings = append(findings, ties(s.cluster.policies)...)
	slices.SortFunc(findings, render.Finding.Compare)
	return s, findings
}

func isPropagationPolicy(o *manifest.Object) bool {
	if o.Group != policyv1alpha1.Group {
		return false
	}
	return o.Kind == KindPropagationPolicy || o.Kind == KindClusterPropagationPolicy
}

func (s *scope) compile() {
	slices.SortFunc(s.policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	selections := make([]Selection, len(s.policies))
	for i, p := range s.policies {
		selections[i] = Selection{Namespace: p.Namespace, Selectors: p.Spec.ResourceSelectors}
	}
	s.index = NewIndex(selections)
}

// digest covers everything that Choose depends on.
func (s *Set) digest() string {
	h := sha256.New()
	for _, p := range slices.Concat(s.namespaced.policies, s.cluster.policies) {
		h.Write([]byte(p.Hash))
	}
	broken := make([]string, 0, len(s.broken))
	for claim := range s.broken {
		broken = append(broken, claim.String())
	}
	slices.Sort(broken)
	for _, name := range broken {
		h.Write([]byte(name + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Hash changes whenever Choose could answer differently.
func (s *Set) Hash() string { return s.hash }

// Policies returns all policies, PropagationPolicies by namespace and name first.
func (s *Set) Policies() []*Policy {
	return slices.Concat(s.namespaced.policies, s.cluster.policies)
}

// Get returns the policy of a claim, nil if there is none or it has an error.
func (s *Set) Get(c Claim) *Policy { return s.byClaim[c] }

// decode returns nil if a finding is an error.
func decode(o *manifest.Object) (*Policy, []render.Finding) {
	r := &Report{Object: o}
	spec := decodeSpec(r)
	if spec == nil || r.Failed() {
		return nil, r.Findings
	}
	setDefaults(r, spec)
	checkPropagation(r, spec)
	back := failBack(r)
	if back != nil && spec.Failover == nil && len(spec.Placement.ClusterTolerations) == 0 {
		r.Warning("failback", Path{"metadata", "annotations", AnnotationFailBack}, "has no effect: nothing makes the workload leave a member; set spec.failover, or take it out")
	}
	if r.Failed() {
		return nil, r.Findings
	}
	p := &Policy{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Spec: *spec, Priority: *spec.Priority, FailBack: back, Source: o}
	if back == nil {
		p.Hash = Hash(p.Claim(), p.Spec)
	} else {
		p.Hash = Hash(p.Claim(), p.Spec, *back)
	}
	return p, r.Findings
}

// Hash is the SHA-256 of the values' JSON, hex. The values must have one.
func Hash(values ...any) string {
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for _, v := range values {
		if err := encoder.Encode(v); err != nil {
			panic("policy: hash of a value without JSON: " + err.Error())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ties warns of policies that only their names tell apart: same scope, same priority, same selector.
func ties(policies []*Policy) []render.Finding {
	type key struct {
		namespace string
		priority  int32
		selector  string
	}
	var findings []render.Finding
	first := map[key]*Policy{}
	for _, p := range policies {
		for i, selector := range p.Spec.ResourceSelectors {
			k := key{p.Namespace, p.Priority, selectorHash(selector)}
			winner := first[k]
			if winner == nil {
				first[k] = p
				continue
			}
			if winner == p {
				continue
			}
			at := Path{"spec", "resourceSelectors"}.At(i)
			findings = append(findings, p.Source.Finding(render.Warning, "policy-tie", at,
				"%s has the same selector and the same priority %d, so the name decides and %s wins, whichever is older; give one of them a higher spec.priority",
				winner, p.Priority, winner.Name))
		}
	}
	return findings
}

// selectorHash is equal for selectors that select the same.
func selectorHash(s policyv1alpha1.ResourceSelector) string {
	if s.Name != "" {
		s.LabelSelector = nil
	}
	return Hash(s)
}
