package override

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/policy"
)

const (
	// KindOverridePolicy and KindClusterOverridePolicy are the kinds that a Set is made of.
	KindOverridePolicy        = "OverridePolicy"
	KindClusterOverridePolicy = "ClusterOverridePolicy"
)

// Set is all override policies of a source, indexed.
type Set struct {
	cluster, namespaced stage
	names               map[[2]string]bool // by namespace and name
}

// stage is the policies of one kind by namespace and name, and the index of their selectors.
type stage struct {
	policies []*compiled
	index    *policy.Index
	hash     string // of all policies
}

// compiled is one policy, ready to be applied.
type compiled struct {
	source    *manifest.Object
	selectors []policyv1alpha1.ResourceSelector
	rules     []rule
}

type rule struct {
	at         policy.Path // of the overriders
	target     *affinity.Matcher
	overriders policyv1alpha1.Overriders
	steps      []step
	hash       string
	// reselects: the rule may change what later policies select the object by.
	reselects bool
}

// step is one entry of a rule, or all its plaintext entries.
type step struct {
	at    policy.Path
	apply change
	entry any // of the policy; a pointer, or the list of plaintext
}

// Result is the object for one cluster, and where it comes from.
type Result struct {
	Object api.Object
	// Cluster and Namespaced are the rules applied, one entry each, by name of the policy; nil if none.
	Cluster, Namespaced []Applied
	// Effects has one entry for each rule applied, in this order.
	Effects []Effect
	// Steps in the order they were taken; nil unless asked for.
	Steps []Step
	// Skipped are rules of policies that select the object and do not apply to the cluster; nil unless
	// asked for.
	Skipped []Skipped
}

// Applied is an entry of the record of applied overrides.
type Applied struct {
	PolicyName string                    `json:"policyName"`
	Overriders policyv1alpha1.Overriders `json:"overriders"`
}

// Effect tells whether a rule changed an object.
type Effect struct {
	rule    string // hash
	changed bool
}

// Error says which entry of which policy cannot be applied, and why.
type Error struct {
	Source *manifest.Object
	At     policy.Path
	Err    error
}

func (e *Error) Error() string {
	f := e.Finding()
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Object, f.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Finding reports the error at the line of the entry.
func (e *Error) Finding() render.Finding {
	return e.Source.Finding(render.Error, "override-failed", e.At, "%v", e.Err)
}

// Has tells whether there is an OverridePolicy, or with an empty namespace a ClusterOverridePolicy,
// of that name. One with an error counts as there.
func (s *Set) Has(namespace, name string) bool { return s.names[[2]string{namespace, name}] }

// run is one rendering under way.
type run struct {
	object  api.Object
	cluster *affinity.Cluster
	explain bool
	steps   []Step
	skipped []Skipped
	effects []Effect
}

// Apply returns what c gets of the object o, whose replicas are set and whose identity is id. With
// explain the result has its steps, which costs a comparison for each. An error is an *Error;
// nothing may be rendered for c then, and the result has the steps that came before alone.
func (s *Set) Apply(o api.Object, id api.ID, c *affinity.Cluster, explain bool) (Result, error) {
	r := run{object: o, cluster: c, explain: explain}
	inCluster, err := r.stage(&s.cluster, id)
	if err != nil {
		return r.failed(), err
	}
	var inNamespace []Applied
	if id.Namespace != "" {
		// This stage sees the object as the first one left it; only the namespace is the template's.
		now := api.IDOf(r.object)
		now.Namespace = id.Namespace
		if inNamespace, err = r.stage(&s.namespaced, now); err != nil {
			return r.failed(), err
		}
	}
	settleSteps(r.steps, r.object)
	return Result{Object: r.object, Cluster: inCluster, Namespaced: inNamespace, Effects: r.effects, Steps: r.steps, Skipped: r.skipped}, nil
}

// stage applies the policies of one kind that select the object as it is now.
func (r *run) stage(s *stage, id api.ID) ([]Applied, error) {
	if len(s.policies) == 0 {
		return nil, nil
	}
	var applied []Applied
	for _, p := range s.selecting(id, labelsOf(r.object)) {
		for i := range p.rules {
			rule := &p.rules[i]
			if !rule.target.Matches(r.cluster) {
				if r.explain {
					r.skip(p, rule)
				}
				continue
			}
			if err := r.rule(p, rule); err != nil {
				return nil, err
			}
			applied = append(applied, Applied{p.source.Name, rule.overriders})
		}
	}
	slices.SortStableFunc(applied, func(a, b Applied) int { return cmp.Compare(a.PolicyName, b.PolicyName) })
	return applied, nil
}

// selecting returns the policies that select an object, the least precise first.
func (s *stage) selecting(id api.ID, labels map[string]string) []*compiled {
	matches := s.index.Match(id, labels)
	slices.SortStableFunc(matches, func(a, b policy.Match) int { return cmp.Compare(a.Precision, b.Precision) })
	policies := make([]*compiled, len(matches))
	for i, m := range matches {
		policies[i] = s.policies[m.Position]
	}
	return policies
}

func (r *run) rule(p *compiled, rule *rule) error {
	effect := Effect{rule: rule.hash}
	for _, step := range rule.steps {
		next, err := step.apply(r.object)
		if err != nil {
			at := step.at
			if entry := (*entryError)(nil); errors.As(err, &entry) {
				at = at.At(entry.entry)
			}
			return &Error{Source: p.source, At: at, Err: err}
		}
		effect.changed = effect.changed || next != nil && !reflect.DeepEqual(next, r.object)
		if r.explain {
			r.explainStep(p, &step, next)
		}
		if next != nil {
			r.object = next
		}
	}
	r.effects = append(r.effects, effect)
	return nil
}

func labelsOf(o api.Object) map[string]string {
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if len(labels) == 0 {
		return nil
	}
	texts := make(map[string]string, len(labels))
	for k, v := range labels {
		if text, ok := v.(string); ok {
			texts[k] = text
		}
	}
	return texts
}

// Key identifies the rules that Apply uses for one object and cluster; zero means none.
type Key [sha256.Size]byte

// Key returns a value that changes whenever Apply could answer differently for the same object:
// with equal objects and equal keys, an earlier result holds, also one for another cluster. labels are
// those of the object.
func (s *Set) Key(id api.ID, labels map[string]string, c *affinity.Cluster) Key {
	h, used, reselected := sha256.New(), false, false
	add := func(policies []*compiled) {
		for _, p := range policies {
			for i := range p.rules {
				if rule := &p.rules[i]; rule.target.Matches(c) {
					h.Write([]byte(rule.hash))
					used, reselected = true, reselected || rule.reselects
				}
			}
		}
	}
	add(s.cluster.selecting(id, labels))
	switch {
	case id.Namespace == "":
	case reselected:
		// Which of them will select the object is not known without applying.
		h.Write([]byte(s.namespaced.hash))
		add(s.namespaced.policies)
	default:
		add(s.namespaced.selecting(id, labels))
	}
	if !used {
		return Key{}
	}
	return Key(h.Sum(nil))
}

// Claimed returns o with labels and annotations, empty ones if it has none: what a template is when
// a policy holds it, since Karmada keeps the claim there. A patch may thus add a first label or
// annotation. It is for the caller to do so before Apply.
func Claimed(o api.Object) api.Object {
	meta, _ := o["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if meta[field] == nil {
			meta = with(meta, field, map[string]any{})
		}
	}
	return with(o, "metadata", meta)
}
