package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/divide"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/project"
	"github.com/godwit-gitops/godwit/render/sops"
	"github.com/godwit-gitops/godwit/render/work"
)

// render makes the works of every binding, and the Namespaces that they need.
func (p *pass) render() {
	w := &works{pass: p, needed: map[string]map[string]bool{}}
	w.renderers = map[*project.Project]*work.Renderer{}
	p.next.Works = make(map[string]record.Work, len(p.Previous.Works))
	p.effects, p.carried = override.Effects{}, false
	before := p.Memo.rendered
	p.Memo.rendered = make(map[record.BindingKey]*rendered, len(p.bound))
	if p.Only != nil {
		maps.Copy(p.Memo.rendered, before) // nobody knows what the next pass is about
	}
	for _, b := range p.bound {
		if b.next == nil {
			continue
		}
		p.keyless(b)
		key := w.inputsOf(b)
		if had := before[b.row.Key]; had != nil && had.renderKey == key && p.heard.same(had.heard) && !p.Options.Explain {
			b.same = true
			p.Memo.rendered[b.row.Key] = had
			p.heard.again(had.heard)
			for _, r := range had.works {
				w.put(r, r.ID)
			}
			w.growth += had.growth
			p.effects.Merge(had.effects)
			continue
		}
		w.now = rendered{renderKey: key, repeats: true}
		looked := len(p.heard.looked)
		w.binding(b)
		w.now.heard = p.heard.since(looked)
		if now := w.now; now.repeats && len(b.row.RenderErrors) == 0 {
			p.Memo.rendered[b.row.Key] = &now
		}
	}
	w.quotas()
	w.namespaces()
	if len(p.Memo.works) > len(p.next.Works) && p.Only == nil {
		maps.DeleteFunc(p.Memo.works, func(k workKey, _ *workMemo) bool {
			_, wanted := p.next.Works[record.WorkPath(k.member, k.id)]
			return !wanted
		})
	}
}

// renderKey is all that the works of a binding depend on besides the options.
type renderKey struct {
	template  *manifest.Object
	binding   *workv1alpha2.ResourceBinding
	workload  bool
	rules     *interpret.Interpreter
	overrides *override.Set
	fleet     *fleet
}

// rendered is the works of a binding.
type rendered struct {
	renderKey
	works   []record.Work
	effects override.Effects // of the rules on them; nil if there were none
	growth  int              // of them all
	// repeats: the same key gives the same works, whatever the previous state.
	repeats bool
	// settled: the binding's status says what was seen of the works.
	settled bool
	// slips are what a rule cannot say of the copies.
	slips []slip
	// heard are the answers of webhooks that the works depend on, and seen those that the status does.
	heard, seen []heard
}

func (w *works) inputsOf(b *bound) renderKey {
	return renderKey{b.template, b.next, b.divides(), w.input.rules.value, w.renderer(b.template).Overrides, w.fleet}
}

// renderer renders templates with the overrides that reach them.
func (w *works) renderer(template *manifest.Object) *work.Renderer {
	of := w.projectOf(template)
	r := w.renderers[of]
	if r == nil {
		r = &work.Renderer{Rules: w.rules, Overrides: w.input.reaching(of).overrides.value, Fleet: w.Options.Fleet, Account: of.ServiceAccount(), KeepInstance: w.Options.KeepInstanceLabel}
		w.renderers[of] = r
	}
	return r
}

// works is the rendering stage.
type works struct {
	*pass
	renderers map[*project.Project]*work.Renderer // by whose the template is
	needed    map[string]map[string]bool          // member -> namespaces
	now       rendered                            // of the binding that is being rendered
	growth    int                                 // of all works so far
	twin      *workMemo                           // the last one made, which other members may get as well; nil if there is none
}

func (w *works) binding(b *bound) {
	spec := &b.next.Spec
	all := targets(b.next)
	if b.kept || b.template == nil || w.purging(b) {
		w.carry(b, all)
		return
	}
	completions, err := divideCompletions(b.template.Content, spec, all)
	for _, target := range all {
		cluster := w.fleet.byName[target.Name]
		if cluster == nil {
			continue
		}
		if w.delivery(target.Name) == DeliveryHydrate && suspended(spec.Suspension, target.Name) {
			w.carryTo(b, target.Name) // its file is all that there is to hold back
			continue
		}
		if err == nil {
			err = w.undeliverable(b.template, target.Name)
		}
		if err == nil {
			err = w.copy(b, target, completions[target.Name], cluster)
		}
		if err != nil {
			w.refused(b, target.Name, err)
			err = nil
		}
	}
	for _, task := range spec.GracefulEvictionTasks {
		if task.PurgeMode != policyv1alpha1.PurgeDirectly {
			w.carryTo(b, task.FromCluster)
		}
	}
	for _, member := range b.lingering {
		w.carryTo(b, member)
	}
}

// carry keeps the works as they were.
func (w *works) carry(b *bound, all []workv1alpha2.TargetCluster) {
	for _, target := range all {
		w.carryTo(b, target.Name)
	}
	for _, task := range b.next.Spec.GracefulEvictionTasks {
		if task.PurgeMode != policyv1alpha1.PurgeDirectly {
			w.carryTo(b, task.FromCluster)
		}
	}
	for _, member := range b.lingering {
		w.carryTo(b, member)
	}
}

func (w *works) carryTo(b *bound, member string) {
	w.now.repeats, w.carried = false, true
	path := record.WorkPath(member, b.row.Template)
	if _, made := w.next.Works[path]; made {
		return
	}
	if old, ok := w.Previous.Works[path]; ok && !w.valueless(old, b.row.Template) {
		w.put(withTerms(old, b), b.row.Template)
	}
}

// withTerms is a work with what the binding says of it, which its file does not.
func withTerms(r record.Work, b *bound) record.Work {
	var template api.Object
	if b.template != nil {
		template = b.template.Content
	}
	return onTerms(r, template, &b.next.Spec)
}

// Terms is a work that was read from the state branch, with what its binding on record says of it. A work without a
// binding, nil, is one that others need.
func Terms(r record.Work, b *workv1alpha2.ResourceBinding) record.Work {
	switch {
	case isGeneratedNamespace(r):
		return shared(r)
	case b == nil || work.BindingOf(r.Object) == "":
		return r
	}
	return onTerms(r, r.Object, &b.Spec)
}

// shared is a Namespace that works need. It may be there already and hold what others put into it: it is never taken away.
func shared(r record.Work) record.Work {
	r.Overwrite, r.Preserve = true, true
	return r
}

func onTerms(r record.Work, template api.Object, spec *workv1alpha2.ResourceBindingSpec) record.Work {
	r.Overwrite = work.Overwrite(template, spec.ConflictResolution == policyv1alpha1.ConflictOverwrite)
	r.Suspended = suspended(spec.Suspension, r.Member)
	r.Preserve = keepsObjects(spec)
	return r
}

// refused keeps the old version on the member, if there is one, and says why there is no new one.
func (w *works) refused(b *bound, member string, err error) {
	w.failures.Add(err, fmt.Sprintf("%s for %s", b.template.ID, member))
	b.row.RenderErrors = append(b.row.RenderErrors, RenderError{member, err.Error()})
	if w.open(err) != nil {
		w.carryTo(b, member)
		return
	}
	if problem, ok := errors.AsType[*sops.Problem](err); ok { // it is of no member
		w.Undecrypted = w.Undecrypted || problem.Code == sops.CodeLocked
		w.find(sealedFinding(b.template, render.Error, problem, ""))
		w.carryTo(b, member)
		return
	}
	code := "render"
	if errors.Is(err, errSecretValues) {
		code = "secret-values"
	}
	w.find(b.template.Finding(render.Error, code, nil, "no copy can be made for member %s: %v", member, err))
	w.carryTo(b, member)
}

func (w *works) put(r record.Work, id api.ID) {
	w.next.Works[r.Path] = r
	if id.Namespace != "" {
		w.need(r.Member, id.Namespace)
	}
}

// copy makes one work, or finds it made.
func (w *works) copy(b *bound, target workv1alpha2.TargetCluster, completions *int32, cluster *affinity.Cluster) error {
	c := work.Copy{
		Template: b.template.Content, ID: b.template.ID, Binding: b.row.Key.String(),
		Workload: b.divides(), Target: target, Completions: completions, Cluster: cluster, Explain: w.Options.Explain,
		Labels: failover.Injected(&b.next.Spec, target.Name),
	}
	made, result, err := w.make(b.template, c, keepsObjects(&b.next.Spec))
	if e := w.open(err); e != nil && w.Answers == nil {
		made, result, err = w.unheard(b, c, e)
	}
	if w.Options.Explain {
		if b.row.Overrides == nil {
			b.row.Overrides = map[string]override.Result{}
		}
		b.row.Overrides[target.Name] = result
	}
	if err != nil {
		return err
	}
	if len(result.Effects) > 0 && w.now.effects == nil {
		w.now.effects = override.Effects{}
	}
	w.now.effects.Add(result.Effects)
	if had := w.Memo.works[workKey{c.ID, target.Name}]; had != nil {
		if w.growth+had.growth > maxGrowth {
			return errGrowth
		}
		w.growth += had.growth
		w.now.growth += had.growth
	}
	made = withTerms(made, b)
	w.now.works = append(w.now.works, made)
	w.put(made, made.ID)
	return nil
}

const (
	// maxGrowth is how many bytes overrides may add to all works together.
	maxGrowth = 256 << 20
	// freeGrowth is what any work may have more than its template, such as marks.
	freeGrowth = 16 << 10
)

// errGrowth: a large value in one rule is one in every object that it selects, on every member.
var errGrowth = fmt.Errorf("overrides add more than %d bytes to all works together; let them add less, or to fewer objects", maxGrowth)

// growth is how much larger a work is than its template, beyond what any may be.
func growth(template *manifest.Object, size int) int {
	if size <= freeGrowth {
		return 0
	}
	return max(0, size-len(canonical.YAML(template.Content))-freeGrowth)
}

// unheard makes the work of a copy about which nobody asked the webhook: the one on record, if that is of
// the same template and replicas, else one by the kind's next rule.
func (w *works) unheard(b *bound, c work.Copy, e *interpret.UnansweredError) (record.Work, override.Result, error) {
	w.now.repeats = false
	recorded, ok := w.workOnRecord(b, c.Target)
	w.standFor(e, ok)
	if ok && !c.Explain {
		return recorded, override.Result{}, nil
	}
	renderer := *w.renderer(b.template)
	renderer.Rules = w.deaf()
	rendered, unknown, err := w.unsealed(&renderer, b.template, c)
	if err != nil {
		return record.Work{}, override.Result{}, err
	}
	if !ok {
		recorded, _ = w.recorded(c.Cluster.Name, rendered.ID, rendered.Object, keepsObjects(&b.next.Spec), unknown...)
	}
	return recorded, rendered.Overrides, nil
}

// workKey names a work in the memo.
type workKey struct {
	id     api.ID
	member string
}

// workMemo is a work with everything it was made from.
type workMemo struct {
	template    *manifest.Object
	replicas    int32
	workload    bool
	completions int32 // -1 stands for none
	labels      map[string]string
	overrides   override.Key
	rules       string
	fleet       string
	delivery    Delivery
	keep        bool
	growth      int
	work        record.Work
	effects     []override.Effect
}

// make makes a work whose object, with keep, is to stay when the work goes.
func (w *works) make(template *manifest.Object, c work.Copy, keep bool) (record.Work, override.Result, error) {
	key, renderer := workKey{c.ID, c.Cluster.Name}, w.renderer(template)
	want := workMemo{
		delivery: w.delivery(c.Cluster.Name), keep: keep,
		template: template, replicas: c.Target.Replicas, workload: c.Workload, completions: -1, labels: c.Labels,
		overrides: renderer.Overrides.Key(c.ID, labelsOf(c.Template), c.Cluster), rules: renderer.Rules.Hash(), fleet: w.Options.Fleet,
	}
	if c.Completions != nil {
		want.completions = *c.Completions
	}
	// What webhooks say is no part of the memo's key.
	if had := w.Memo.works[key]; had != nil && !c.Explain && !w.asks(c.ID) {
		want.work = had.work
		if sameInputs(had, &want) {
			w.effects.Add(had.effects)
			return had.work, override.Result{Effects: had.effects}, nil
		}
	}
	// Most members of a binding get the same object. What is on record of a Secret depends on the member's earlier one.
	if !c.Explain && !w.asks(c.ID) && !work.IsSecret(c.ID) && w.twin != nil && sameInputs(w.twin, &want) {
		want.work, want.effects, want.growth = w.twin.work, w.twin.effects, w.twin.growth
		want.work.Path, want.work.Member = record.WorkPath(c.Cluster.Name, want.work.ID), c.Cluster.Name
		w.effects.Add(want.effects)
		w.Memo.works[key] = &want
		return want.work, override.Result{Effects: want.effects}, nil
	}
	rendered, unknown, err := w.unsealed(renderer, template, c)
	if err != nil {
		return record.Work{}, rendered.Overrides, err
	}
	size := 0
	want.work, size = w.recorded(c.Cluster.Name, rendered.ID, rendered.Object, keep, unknown...)
	want.effects, want.growth = rendered.Overrides.Effects, growth(template, size)
	w.effects.Add(want.effects)
	w.Memo.works[key], w.twin = &want, &want
	return want.work, rendered.Overrides, nil
}

func sameInputs(a, b *workMemo) bool {
	return a.template == b.template && a.replicas == b.replicas && a.workload == b.workload && a.completions == b.completions &&
		maps.Equal(a.labels, b.labels) && a.overrides == b.overrides && a.rules == b.rules && a.fleet == b.fleet &&
		a.delivery == b.delivery && a.keep == b.keep
}

// recorded is the work of an object: its text, which for a Secret has no values in it unless they are encrypted for
// a member that gets them from here, and its hash. Some values of a Secret may be unknown. It tells the length of the text,
// 0 where none is made.
func (w *works) recorded(member string, id api.ID, o api.Object, keep bool, unknown ...sops.Withheld) (record.Work, int) {
	if w.delivery(member) == DeliveryHydrate {
		o = work.Deliver(o, keep)
	}
	r := record.Work{Path: record.WorkPath(member, id), Member: member, ID: id, Object: o}
	if w.Options.unwritten {
		return r, 0
	}
	shown := o
	if work.IsSecret(id) && !w.byRecord(member) {
		shown = work.Unknown(work.Redact(o, w.Options.SecretKey), unknown)
		if old, ok := w.Previous.Works[r.Path]; ok && (len(w.Options.SecretKey) == 0 || len(unknown) > 0 && !w.Options.ByCiphertext) {
			w.now.repeats = false
			before, err := shownObject(old)
			if err != nil {
				r.Hash, r.Text = old.Hash, old.Text // the record is damaged; others say so
				return r, 0
			}
			var values bool
			if shown, values = work.Adopt(shown, before); values && len(w.Options.SecretKey) == 0 {
				w.uncompared[id] = true
			}
		}
	}
	r.Text = func() []byte { return canonical.YAML(shown) }
	text := r.Text()
	r.Hash = canonical.Blob(text)
	return r, len(text)
}

// keepsObjects tells whether the policy leaves copies on members when they are not wanted there any more.
func keepsObjects(spec *workv1alpha2.ResourceBindingSpec) bool {
	keep := spec.PreserveResourcesOnDeletion
	return keep != nil && *keep
}

func suspended(s *workv1alpha2.Suspension, member string) bool {
	switch {
	case s == nil:
		return false
	case s.Dispatching != nil && *s.Dispatching:
		return true
	}
	return s.DispatchingOnClusters != nil && slices.Contains(s.DispatchingOnClusters.ClusterNames, member)
}

// divideCompletions gives each copy of a divided Job its share of the completions.
func divideCompletions(template api.Object, spec *workv1alpha2.ResourceBindingSpec, all []workv1alpha2.TargetCluster) (map[string]*int32, error) {
	completions, ok := interpret.Completions(template)
	if !ok || spec.Replicas == 0 || !divided(spec.Placement) {
		return nil, nil
	}
	votes := make([]divide.Weight, len(all))
	for i, target := range all {
		votes[i] = divide.Weight{Name: target.Name, Weight: int64(target.Replicas)}
	}
	shares := make(map[string]*int32, len(all))
	for _, share := range divide.Webster(completions, votes, nil, divide.TieOf(spec.Resource.UID)) {
		shares[share.Name] = &share.Replicas
	}
	for _, target := range all {
		if shares[target.Name] == nil {
			return nil, fmt.Errorf("%d completions leave no share for %s", completions, target.Name)
		}
	}
	return shares, nil
}

// divided tells whether the placement divides replicas.
func divided(p *policyv1alpha1.Placement) bool {
	return p != nil && p.ReplicaScheduling != nil && p.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDuplicated
}

// reservedNamespace holds for namespaces that every cluster has or that are not ours to make.
func reservedNamespace(name string) bool {
	return name == "default" || strings.HasPrefix(name, "kube-")
}

const skipAutoPropagation = "namespace.karmada.io/skip-auto-propagation"

// namespaces adds the Namespaces that works need. A Namespace that a policy placed is already there.
//
// Differs from Karmada: a Namespace goes where a work needs it, not everywhere (differences, row 13).
func (w *works) namespaces() {
	switch w.Options.Namespaces {
	case NamespacesNone:
		return
	case NamespacesAll:
		for _, t := range w.input.templates {
			if t.Group != "" || t.Kind != "Namespace" {
				continue
			}
			for _, c := range w.fleet.clusters {
				if w.projectOf(t).AllowsMember(c.Name, c.Labels) {
					w.need(c.Name, t.Name)
				}
			}
		}
	}
	for _, member := range sortedKeys(w.needed) {
		cluster := w.fleet.byName[member]
		if cluster == nil {
			continue
		}
		for _, name := range sortedKeys(w.needed[member]) {
			if !reservedNamespace(name) {
				w.namespace(name, cluster)
			}
		}
	}
}

func (w *works) need(member, namespace string) {
	if w.needed[member] == nil {
		w.needed[member] = map[string]bool{}
	}
	w.needed[member][namespace] = true
}

func (w *works) namespace(name string, cluster *affinity.Cluster) {
	id := api.ID{Version: "v1", Kind: "Namespace", Name: name}
	path := record.WorkPath(cluster.Name, id)
	if _, placed := w.next.Works[path]; placed {
		return
	}
	template := w.input.all[id.Unversioned()]
	if template != nil && !w.projectOf(template).AllowsMember(cluster.Name, cluster.Labels) {
		template = nil // another project that shares the namespace has work there
	}
	var made record.Work
	if template == nil {
		made = w.generated(cluster.Name, id)
	} else {
		if strings.EqualFold(labelsOf(template.Content)[skipAutoPropagation], "true") {
			if old, ok := w.Previous.Works[path]; ok {
				w.next.Works[path] = old
			}
			return
		}
		var err error
		if made, _, err = w.make(template, work.Copy{Template: template.Content, ID: template.ID, Cluster: cluster}, true); err != nil {
			w.find(template.Finding(render.Error, "render", nil, "no copy can be made for member %s: %v", cluster.Name, err))
			if old, ok := w.Previous.Works[path]; ok {
				w.next.Works[path] = old
			}
			return
		}
	}
	w.next.Works[path] = shared(made)
}

func (w *works) generated(member string, id api.ID) record.Work {
	key := workKey{id, member}
	if had := w.Memo.works[key]; had != nil && had.template == nil && had.fleet == w.Options.Fleet && had.delivery == w.delivery(member) {
		return had.work
	}
	made, _ := w.recorded(member, id, work.Namespace(id.Name, w.Options.Fleet), true)
	w.Memo.works[key] = &workMemo{fleet: w.Options.Fleet, delivery: w.delivery(member), work: made}
	return made
}
