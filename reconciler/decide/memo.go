package decide

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/affinity"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/kustomize"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/project"
	"github.com/godwit-gitops/godwit/render/work"
)

// Memo carries over from one call of Next to the following what depends on inputs that stay the
// same. It never changes an answer. A Memo serves one caller at a time.
type Memo struct {
	options   Options
	versions  int // counts what was compiled
	manifests *manifest.Cache
	earlier   *manifest.Cache            // of trees that are not the newest
	trees     map[string][]manifest.Unit // by hash of the whole tree; the trees of the last pass
	reading   reading
	// registrations are those of the last pass, and registered counts how often they were others.
	registrations []Registration
	registered    int
	compiled      *compiled
	mended        *compiled // with last good versions in the place of what cannot be used
	fleet         *fleet
	seen          map[string]MemberFacts // by member, when statuses were looked at
	bindings      map[api.ID]*bindingMemo
	rendered      map[record.BindingKey]*rendered
	works         map[workKey]*workMemo
	templates     map[*manifest.Object]prepared // by the object as read
	hashes        map[*manifest.Object]string   // by the template
}

// prepared is a template with the defaults that an API server fills in.
type prepared struct {
	template *manifest.Object
	hash     string // of what users write
}

// NewMemo is an empty one.
func NewMemo() *Memo {
	return &Memo{
		manifests: &manifest.Cache{},
		earlier:   &manifest.Cache{},
		trees:     map[string][]manifest.Unit{},
		bindings:  map[api.ID]*bindingMemo{},
		works:     map[workKey]*workMemo{},
		templates: map[*manifest.Object]prepared{},
		hashes:    map[*manifest.Object]string{},
	}
}

// serve forgets everything if it was decided under other options.
func (m *Memo) serve(o Options) {
	o.Explain, o.StatusInterval, o.MaxDeletePercent = false, 0, 0
	if !reflect.DeepEqual(m.options, o) {
		*m = *NewMemo()
		m.options = o
	}
}

// Read reads a source ahead of its decision under the same options.
func (m *Memo) Read(fsys fs.FS, o Options) {
	m.serve(o.withDefaults())
	m.parse(fsys, m.manifests)
}

// keptTrees bounds the parsed trees that are kept: the newest, the one before, and files held.
const keptTrees = 4

// parse reads a tree. A tree that is known by its hash is not read again.
func (m *Memo) parse(fsys fs.FS, cache *manifest.Cache) []manifest.Unit {
	if fsys == nil {
		return nil
	}
	hash := treeHash(fsys)
	if units, ok := m.trees[hash]; ok && hash != "" {
		return units
	}
	units := manifest.Read(fsys, manifest.Options{Build: kustomize.Build, Holds: m.options.Projects.Holds, Keys: m.options.Keys, Cache: cache})
	if hash != "" && gitstate.Unread(fsys) == nil {
		if len(m.trees) >= keptTrees {
			clear(m.trees)
		}
		m.trees[hash] = units
	}
	return units
}

// treeHash is empty if the tree does not know its hash.
func treeHash(fsys fs.FS) string {
	h, ok := fsys.(gitstate.HashFS)
	if !ok {
		return ""
	}
	hash, err := h.Hash(".")
	if err != nil {
		return ""
	}
	return hash
}

// compiled is the source's objects sorted into what they are for.
type compiled struct {
	objects   []*manifest.Object
	templates []*manifest.Object
	all       map[api.ID]*manifest.Object // by identity without version
	policies  part[*policy.Set]
	overrides part[*override.Set]
	rules     part[*interpret.Interpreter]
	clusters  part[[]*registration]
	orders    part[[]*order]
	taints    part[[]*taintPolicy]
	quotas    part[*quotas]
	// priorities are the values of PriorityClasses by name.
	priorities part[map[string]int32]
	others     part[struct{}]
	// views are the policies and overrides that reach the templates of each project.
	views    map[*project.Project]view
	findings []render.Finding
	// registered is the version of the registrations that it was made with.
	registered int
}

// part is what objects of some kinds compile to.
type part[T any] struct {
	objects  []*manifest.Object
	value    T
	findings []render.Finding
	// version is another one after each compilation; 0 means that there was none.
	version int
}

// again compiles, unless the objects are those of last time.
func (last part[T]) again(m *Memo, objects []*manifest.Object, compile func([]*manifest.Object) (T, []render.Finding)) part[T] {
	if last.version > 0 && slices.Equal(last.objects, objects) {
		return last
	}
	m.versions++
	value, findings := compile(objects)
	return part[T]{objects, value, findings, m.versions}
}

// compile sorts and compiles; objects that are those of *kept give the same value, which *kept is then.
func (m *Memo) compile(objects []*manifest.Object, kept **compiled) *compiled {
	last := *kept
	if last == nil {
		last = &compiled{}
	} else if slices.Equal(last.objects, objects) && last.registered == m.registered {
		return last
	}
	c := &compiled{objects: objects, registered: m.registered, all: make(map[api.ID]*manifest.Object, len(objects))}
	var policies, overrides, rules, clusters, orders, taints, quotas, priorities, others []*manifest.Object
	for _, o := range objects {
		c.all[o.ID.Unversioned()] = o
		switch manifest.RoleOf(o) {
		case manifest.Policy:
			switch o.Kind {
			case override.KindOverridePolicy, override.KindClusterOverridePolicy:
				overrides = append(overrides, o)
			case policy.KindPropagationPolicy, policy.KindClusterPropagationPolicy:
				policies = append(policies, o)
			case "ClusterTaintPolicy":
				taints = append(taints, o)
			case "FederatedResourceQuota":
				quotas = append(quotas, o)
			}
		case manifest.Cluster:
			clusters = append(clusters, o)
		case manifest.Interpreter:
			rules = append(rules, o)
		case manifest.Rebalancer:
			orders = append(orders, o)
		case manifest.Ignored:
			others = append(others, o)
		case manifest.Template:
			c.templates = append(c.templates, o)
			if o.Group == "scheduling.k8s.io" && o.Kind == "PriorityClass" {
				priorities = append(priorities, o)
			}
		}
	}
	c.templates = m.prepare(c.templates)
	for _, t := range c.templates {
		c.all[t.ID.Unversioned()] = t
	}
	c.policies = last.policies.again(m, policies, policy.Compile)
	c.overrides = last.overrides.again(m, overrides, override.Compile)
	c.rules = last.rules.again(m, rules, CompileRules)
	c.clusters = last.clusters.again(m, clusters, compileClusters)
	c.orders = last.orders.again(m, orders, compileOrders)
	c.taints = last.taints.again(m, taints, compileTaintPolicies)
	c.quotas = last.quotas.again(m, quotas, compileQuotas)
	c.others = last.others.again(m, others, ignored)
	c.view(m, last)
	c.priorities = last.priorities.again(m, priorities, compilePriorities)
	c.findings = slices.Concat(c.policies.findings, c.overrides.findings, c.rules.findings, c.clusters.findings, c.orders.findings, c.taints.findings, c.quotas.findings, c.priorities.findings, c.others.findings, c.unused(m.registrations))
	*kept = c
	return c
}

// place names an object in a finding.
type place struct{ file, object string }

func placeOf(o *manifest.Object) place { return place{o.Origin.File, o.ID.String()} }

// unusable are the objects with an error.
func (c *compiled) unusable() map[place]bool {
	var places map[place]bool
	for _, f := range c.findings {
		if f.Severity == render.Error && f.Object != "" {
			if places == nil {
				places = map[place]bool{}
			}
			places[place{f.File, f.Object}] = true
		}
	}
	return places
}

// prepare fills in the defaults of templates and hashes them. Objects that were there last time give
// the same templates again, and what is no longer there is forgotten.
func (m *Memo) prepare(objects []*manifest.Object) []*manifest.Object {
	templates := make([]*manifest.Object, len(objects))
	known, hashes := make(map[*manifest.Object]prepared, len(objects)), make(map[*manifest.Object]string, len(objects))
	for i, o := range objects {
		p, ok := m.templates[o]
		if !ok {
			filled := *o
			filled.Content = interpret.Default(o.Content)
			p = prepared{&filled, m.contentHash(&filled)}
		}
		templates[i], known[o], hashes[p.template] = p.template, p, p.hash
	}
	m.templates, m.hashes = known, hashes
	return templates
}

// contentHash is what bindings record of a template. It tells nothing about the values of a Secret, and encrypted once
// more, they are the same.
func (m *Memo) contentHash(t *manifest.Object) string {
	content, err := t.Sealed.Open(t.Content)
	if err != nil {
		content, _, err = t.Sealed.Withhold(t.Content)
	}
	if err != nil {
		content = t.Content
	}
	if work.IsSecret(t.ID) {
		content = work.Redact(content, m.options.SecretKey)
	}
	return policy.ContentHash(content)
}

// templateHash is equal for two versions of a template between which no user changed anything.
func (m *Memo) templateHash(t *manifest.Object) string { return m.hashes[t] }

// bindingMemo is a template about which nothing changed the last time, with everything that says so.
type bindingMemo struct {
	template *manifest.Object
	policies *policy.Set
	override *override.Set
	rules    *interpret.Interpreter
	orders   int
	classes  int
	fleet    *fleet
	old      *workv1alpha2.ResourceBinding
	lost     bool

	row      BindingRow
	replicas interpret.Replicas
	choice   policy.Choice
	heard    []heard
	// wake is when time alone changes something; zero means never.
	wake   time.Time
	causes []failover.Cause
	// beside are the works that its copies were compared with, where their health can move it.
	beside *rendered
}

// settled remembers that b's binding stays as it is. What a quota refused depends on other bindings;
// what is admitted as it was stays admitted, whatever they use.
func (p *pass) settled(b *bound, choice policy.Choice) {
	if p.Options.Explain || b.kept || b.unsure || b.refused != nil || len(b.dueClusters(p.Now)) > 0 || len(b.homes) > 0 || b.next != nil && len(b.next.Spec.GracefulEvictionTasks) > 0 || b.next != nil && (b.next.Spec.WorkloadAffinityGroups != nil || !semanticEqual(b.old, b.next)) {
		return
	}
	m := p.inputsOf(b)
	m.row, m.replicas, m.choice, m.wake, m.heard = b.row, b.replicas, choice, b.wake, p.heard.since(b.looked)
	m.beside, m.causes = p.Memo.rendered[b.row.Key], b.causes
	p.Memo.bindings[b.template.ID] = &m
}

// recall fills in b if its binding stays as it is, for the same reasons as last time.
func (p *pass) recall(b *bound) bool {
	m := p.Memo.bindings[b.template.ID]
	if m == nil || p.Options.Explain {
		return false
	}
	now := p.inputsOf(b)
	if m.template != now.template || m.override != now.override || m.rules != now.rules ||
		m.orders != now.orders || m.classes != now.classes || m.fleet != now.fleet || m.old != now.old || m.lost != now.lost || !p.heard.same(m.heard) {
		return false
	}
	if m.policies != now.policies {
		// Other policies may be no others for this template.
		choice := p.choose(b)
		if !sameChoice(m.choice, choice) {
			return false
		}
		m.policies, m.choice = now.policies, choice
	}
	if !m.wake.IsZero() && !p.Now.Before(m.wake) || p.stirred(b.old, m.beside != p.Memo.rendered[b.row.Key]) {
		return false
	}
	b.causes = m.causes
	if b.wake = m.wake; !b.wake.IsZero() {
		p.wakeAt(b.wake)
	}
	b.next, b.row, b.replicas = b.old, m.row, m.replicas
	b.outranked, b.outranks = m.choice.Outranked()
	p.heard.again(m.heard)
	if m.choice.Policy == nil {
		p.unbound(b.template.ID, m.choice.Message)
	}
	return true
}

// stirred tells whether there is news of copies whose health can move the binding, or of what they
// should be.
func (p *pass) stirred(b *workv1alpha2.ResourceBinding, others bool) bool {
	if b == nil || !managed(&b.Spec) && len(p.Edited) == 0 {
		return false
	}
	if _, edited := p.Edited[record.BindingKey{Namespace: b.Namespace, Name: b.Name}]; edited {
		return true
	}
	return managed(&b.Spec) && (others || slices.ContainsFunc(expectedClusters(b), func(member string) bool { return p.news[member] }))
}

func sameChoice(a, b policy.Choice) bool {
	if (a.Policy == nil) != (b.Policy == nil) || a.Policy != nil && a.Policy.Hash != b.Policy.Hash {
		return false
	}
	return a.Released == b.Released && a.Undecided == b.Undecided && a.Skipped == b.Skipped &&
		a.Message == b.Message && slices.Equal(a.Waiting, b.Waiting)
}

// forget drops what is remembered of templates that are gone.
func (m *Memo) forget(c *compiled) {
	if len(m.bindings) > len(c.templates) {
		maps.DeleteFunc(m.bindings, func(id api.ID, _ *bindingMemo) bool { return c.all[id.Unversioned()] == nil })
	}
}

func (p *pass) inputsOf(b *bound) bindingMemo {
	return bindingMemo{
		template: b.template, policies: p.input.policies.value, override: p.input.overrides.value, rules: p.input.rules.value,
		orders: p.input.orders.version, classes: p.input.priorities.version, fleet: p.fleet, old: b.old, lost: p.lost,
	}
}

// unused are warnings of policies that do nothing.
func (c *compiled) unused(registrations []Registration) []render.Finding {
	templates := make([]policy.Template, len(c.templates))
	for i, t := range c.templates {
		templates[i] = policy.Template{ID: t.ID, Labels: labelsOf(t.Content)}
	}
	members := make([]affinity.Cluster, len(c.clusters.value))
	for i, r := range c.clusters.value {
		members[i] = affinity.Of(r.cluster)
	}
	for _, r := range registrations {
		members = append(members, affinity.Of(r.registered(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name}})))
	}
	return slices.Concat(c.policies.value.Unused(templates), c.policies.value.Tied(templates), c.policies.value.Dangling(members, c.overrides.value.Has),
		idleOrders(c.orders.value, c.templates), c.overrides.value.Uncovered(c.templates), c.overrides.value.Unused(templates, members))
}

// look tells of which members there is news since the last call.
func (m *Memo) look(seen Observations) map[string]bool {
	news := map[string]bool{}
	for name, f := range seen.Members {
		last, ok := m.seen[name]
		if !ok || last.Ready != f.Ready || reflect.ValueOf(last.Copies).Pointer() != reflect.ValueOf(f.Copies).Pointer() {
			news[name] = true
		}
	}
	for name := range m.seen {
		if _, still := seen.Members[name]; !still {
			news[name] = true
		}
	}
	m.seen = seen.Members
	return news
}
