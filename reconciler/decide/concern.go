package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/render/manifest"
)

// narrow leaves out all templates but those that are asked for.
func (p *pass) narrow() {
	if p.Only == nil {
		return
	}
	narrowed := *p.input
	narrowed.templates = slices.DeleteFunc(slices.Clone(p.input.templates), func(t *manifest.Object) bool { return !p.Only[record.BindingOf(t.ID)] })
	p.input = &narrowed
}

// Coupled puts the bindings of before and those of the decision into groups, each of which has a number. What becomes of
// a binding depends on others of its group alone: on what needs it, on what shares an affinity or a quota with it, and
// on what defines its kind. There is one exception: who leaves a member counts for how many more may.
func (d *Decision) Coupled(before *record.State) map[record.BindingKey]int {
	numbers := map[record.BindingKey]int{}
	var joined []int // by number: where its group goes on; itself at the end
	end := func(n int) int {
		for joined[n] != n {
			joined[n] = joined[joined[n]]
			n = joined[n]
		}
		return n
	}
	of := func(key record.BindingKey) int {
		n, known := numbers[key]
		if !known {
			n = len(joined)
			joined, numbers[key] = append(joined, n), n
		}
		return end(n)
	}
	shared := map[string]record.BindingKey{} // by what is shared, one of those that do
	share := func(what string, key record.BindingKey) {
		if other, ok := shared[what]; ok {
			joined[of(key)] = of(other)
		}
		shared[what] = key
	}
	states := []*record.State{before, d.Next}
	defined := map[string]bool{} // API groups
	for _, s := range states {
		for _, b := range s.Bindings {
			if group, ok := definedGroup(templateOf(b)); ok {
				defined[group] = true
			}
		}
	}
	for _, s := range states {
		for key, b := range s.Bindings {
			of(key)
			for _, owner := range b.Spec.RequiredBy {
				joined[of(key)] = of(record.BindingKey{Namespace: owner.Namespace, Name: owner.Name})
			}
			if b.Spec.WorkloadAffinityGroups != nil {
				share("affinity", key)
			}
			if d.sources.quotas.value.in[key.Namespace] != nil {
				share("quota of "+key.Namespace, key)
			}
			id := templateOf(b)
			group, defines := definedGroup(id)
			if defines || defined[id.Group] {
				if !defines {
					group = id.Group
				}
				share("definition of "+group, key)
			}
		}
	}
	for key := range numbers {
		numbers[key] = of(key)
	}
	return numbers
}

// definedGroup is the API group of the kind that a CustomResourceDefinition defines.
func definedGroup(id api.ID) (group string, ok bool) {
	if id.Group != "apiextensions.k8s.io" || id.Kind != "CustomResourceDefinition" {
		return "", false
	}
	_, group, ok = strings.Cut(id.Name, ".")
	return group, ok
}

// Alike tells whether two decisions are made by the same rules and templates where these bindings are concerned. False
// means that it is not known. Both have to be of one Memo.
func Alike(a, b *Decision, keys map[record.BindingKey]bool) bool {
	if !a.sources.rulesLike(b.sources) || !AlikeStates(a.Next, b.Next, keys) {
		return false
	}
	for key := range keys {
		binding := a.Next.Bindings[key]
		if binding == nil {
			continue
		}
		id := templateOf(binding).Unversioned()
		t := a.sources.all[id]
		if t == nil || t != b.sources.all[id] {
			return false
		}
	}
	return true
}

// AlikeStates tells whether two states are the same to these bindings.
func AlikeStates(a, b *record.State, keys map[record.BindingKey]bool) bool {
	x, y := &a.Meta, &b.Meta
	if !semanticEqual(x.FailoverBrake, y.FailoverBrake) || !semanticEqual(x.Evictions, y.Evictions) || !semanticEqual(x.Held, y.Held) ||
		!maps.EqualFunc(a.Members, b.Members, sameOrEqual) {
		return false
	}
	for key := range keys {
		x, y := a.Bindings[key], b.Bindings[key]
		if x != y && (x == nil || y == nil || !semanticEqual(x, y)) {
			return false
		}
	}
	return retiresLike(a, b, keys) && retiresLike(b, a, keys)
}

// retiresLike tells whether what is to go of these bindings in a goes in b, too.
func retiresLike(a, b *record.State, keys map[record.BindingKey]bool) bool {
	for path, r := range a.Retired {
		if _, goes := b.Retired[path]; !goes && keys[record.BindingOf(r.Object.ID())] {
			return false
		}
	}
	return true
}

func sameOrEqual[T any](a, b *T) bool { return a == b || semanticEqual(a, b) }

// rulesLike tells whether all is the same that decisions are made by, but for templates.
func (c *compiled) rulesLike(o *compiled) bool {
	for _, part := range [][2][]*manifest.Object{
		{c.policies.objects, o.policies.objects}, {c.overrides.objects, o.overrides.objects}, {c.rules.objects, o.rules.objects}, {c.clusters.objects, o.clusters.objects},
		{c.orders.objects, o.orders.objects}, {c.taints.objects, o.taints.objects}, {c.quotas.objects, o.quotas.objects},
		{c.priorities.objects, o.priorities.objects},
	} {
		if !slices.Equal(part[0], part[1]) {
			return false
		}
	}
	return true
}
