package decide

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/project"
	"github.com/godwit-gitops/godwit/render/schedule"
	"github.com/godwit-gitops/godwit/render/sops"
)

// NamespaceMode says which members get a Namespace.
type NamespaceMode string

const (
	// NamespacesNeeded sends a Namespace where a work needs it.
	NamespacesNeeded NamespaceMode = "needed"
	// NamespacesAll sends every Namespace of the source to every member, as Karmada does.
	NamespacesAll NamespaceMode = "all"
	// NamespacesNone sends none but those that a policy selects.
	NamespacesNone NamespaceMode = "none"
)

// Options are the settings that decisions depend on. The zero value is usable: every field says
// what zero stands for.
type Options struct {
	// DefaultNamespace is where objects without a namespace are; empty means "default".
	DefaultNamespace string
	// Fleet is the name in our marks; empty means "godwit".
	Fleet string
	// CompatKarmada turns the rows of the differences that have a switch back to Karmada's answer.
	CompatKarmada bool
	// Projects say what is allowed to files by their folders; nil allows everything.
	Projects *project.Set
	// Namespaces: empty means NamespacesNeeded.
	Namespaces NamespaceMode
	// Delivery says who applies the works of members whose Cluster does not; empty means DeliveryPush.
	Delivery Delivery
	// KeepInstanceLabel leaves app.kubernetes.io/instance on copies. Older Argo CD, and those configured so, takes objects
	// with the label for its own.
	KeepInstanceLabel bool
	// SecretKey tells secret values apart in the record. Without one they cannot be compared, and a
	// value that was there before counts as unchanged.
	SecretKey []byte
	// Keys open what SOPS encrypted, by folder; nil means that there are none.
	Keys *sops.Keyring
	// Keyless: nobody carries out what is decided. A Secret for which there are no keys then is one whose values are not known.
	Keyless bool
	// ByCiphertext compares such values as they are encrypted, whatever is on record: two revisions are compared.
	ByCiphertext bool
	// MaxDeletePercent is the brake on deletions of one member's works; 0 means 50, 100 or more is off.
	MaxDeletePercent int
	// Failover are the settings of the failover stage.
	Failover failover.Options
	// MaxEvictionsPerMinute is how many workloads may leave members within a minute; 0 means any number
	// from one member and 20 from more.
	MaxEvictionsPerMinute int
	// BrakeWindow is how close together outages are one event; 0 means a minute.
	BrakeWindow time.Duration
	// StatusInterval is how long changes that are status alone may wait for a commit; 0 means not at all.
	StatusInterval time.Duration
	// Shared: several replicas carry out what is decided, each from the record, so that it tells of deletions that wait.
	Shared bool
	// SourceURL, SourceBranch and SourcePath are what state.yaml says of the source.
	SourceURL, SourceBranch, SourcePath string
	// Version is what the commit says of the program.
	Version string
	// Explain asks for verdicts and steps; without it only what changes is explained.
	Explain bool
	// unwritten: only findings are asked for, so that works need no text and no hash.
	unwritten bool
}

func (o Options) withDefaults() Options {
	if o.DefaultNamespace == "" {
		o.DefaultNamespace = "default"
	}
	if o.Fleet == "" {
		o.Fleet = "godwit"
	}
	if o.Namespaces == "" {
		o.Namespaces = NamespacesNeeded
	}
	if o.Delivery == "" {
		o.Delivery = DeliveryPush
	}
	o.Failover.Compat = o.CompatKarmada
	if o.MaxDeletePercent == 0 {
		o.MaxDeletePercent = 50
	}
	return o
}

// Input is everything that a decision depends on.
type Input struct {
	Source gitstate.Snapshot
	// Refused is why a newer commit of the source is not in force; nil means that none is kept out.
	Refused *Refusal
	// Past holds the source at earlier commits, by commit: the one in Previous.Meta.Source and those
	// in Previous.Meta.Held. It serves objects that have an error now. A commit that is missing
	// makes the pass remove nothing.
	Past map[string]fs.FS
	// Previous is the state so far; nil means none.
	Previous *record.State
	// Dropped are works, by path, that a person's commit took out of the record, as a revert of a move does:
	// the members have them, and neither works/ nor retired/ says so. They are retired like any other
	// work that is not wanted. Nil means none.
	Dropped map[string]record.Work
	// Edited tells when people's commits at the end of the branch changed bindings, as a revert does:
	// what makes them move counts from then on. Nil means that there are none.
	Edited map[record.BindingKey]time.Time
	Seen   Observations
	// Only, unless nil, are the bindings to decide on: other templates of the source are as if they were not there, and
	// Previous has to be without their bindings and works. See Coupled for what can be left out.
	Only map[record.BindingKey]bool
	// Unfiled: nobody writes the commit, so that it has no files.
	Unfiled bool
	// Registered are the members that the management cluster names; nil means that nobody asks it. Those on
	// record stay in force then.
	Registered *Registrations
	// Answers are what webhooks said; nil means that nobody asks them. What they would have said is
	// then taken from the record, and where that does not know, from the kind's next rule.
	Answers *Answers
	// Recorded is the state that came of the decision, where it is made again: answers of webhooks are
	// those on it, and what was only seen is written down where it was then. Nil where the decision is
	// made for the first time; answers on record then are those of Previous.
	Recorded *record.State
	// Now is the clock, of which full seconds count: nothing finer is on record.
	Now     time.Time
	Options Options
	// Memo carries work over from earlier calls; nil means none. A Memo serves one caller at a time.
	Memo *Memo
}

// Decision is what follows.
type Decision struct {
	// Revision is that of the source that was decided about. The one in Next.Meta is that of the last commit.
	Revision gitstate.Revision
	// Refused is the Input's.
	Refused *Refusal
	// Time is the clock that it was made by.
	Time time.Time
	Next *record.State
	// Rules say what kinds mean, those of the source included, but for webhooks.
	Rules *interpret.Interpreter
	// Bindings has one row for each template that a policy holds or held, sorted by template.
	Bindings []BindingRow
	// Unbound are the templates that no policy takes, sorted.
	Unbound []Unbound
	// Ignored are the objects of the source that no policy can take; nil without Options.Explain.
	Ignored []Ignored
	// Works lists works that are added, updated or removed, sorted by path. A removed one that the
	// brake holds is not among them.
	Works []WorkRow
	// Findings of the input, sorted.
	Findings []render.Finding
	// Held are deletions that wait for an approval.
	Held []HeldDeletion
	// Spared are retired entries, by path, whose deletion waits: it could not be carried out while
	// the member was down, and no other copy is known to work now. Nil means none.
	Spared map[string]bool
	// Unanswered are the questions to webhooks without an answer, sorted. Without Answers there are none.
	Unanswered []Unanswered
	// Heard are the keys of all answers that were looked for, sorted: others are not needed now.
	Heard []interpret.Key
	// Commit says what to write on the state branch; nil means that nothing was decided.
	Commit *Commit
	// Undecrypted: there are Secrets whose values are not known, as no key opens them.
	Undecrypted bool
	// Wake is when to decide again even if nothing happens; zero means not before something does.
	Wake time.Time

	// sources is what was read, and terms the settings of failover: Effects looks at them.
	sources *compiled
	terms   failover.Options
	// uncompared are the Secrets with values on record that could not be compared, for want of the key.
	uncompared map[api.ID]bool
}

// Change is what happened to a binding or a work.
type Change string

const (
	Added     Change = "added"
	Removed   Change = "removed"
	Moved     Change = "moved"
	Scaled    Change = "scaled"
	Updated   Change = "updated"
	Unchanged Change = "unchanged"
)

// BindingRow explains one binding.
type BindingRow struct {
	Key      record.BindingKey
	Template api.ID
	Policy   *workv1alpha2.PolicyReference
	Change   Change
	Reason   Reason
	Previous []workv1alpha2.TargetCluster
	Clusters []workv1alpha2.TargetCluster
	// Failure is empty or the reason of the Scheduled condition.
	Failure string
	Message string
	// Causes make it leave its clusters, now or later; those that never do say why not. Blocked says why it
	// cannot leave now, and Waits that it may not yet.
	Causes  []failover.Cause
	Blocked string
	Waits   bool
	// Evicted are the causes that made it leave members in this pass.
	Evicted []failover.Cause
	// DependencyOf names the bindings that need this one.
	DependencyOf []string
	// Choice, Schedule and Overrides explain in full; only with Options.Explain.
	Choice    policy.Choice
	Schedule  *schedule.Result
	Overrides map[string]override.Result
	// RenderErrors by member.
	RenderErrors []RenderError

	explain func() *Why
}

// RenderError says why a member gets no new version of an object.
type RenderError struct {
	Cluster string
	Message string
}

// Unbound is a template that runs nowhere.
type Unbound struct {
	Template api.ID
	Message  string

	explain func() *Why
}

// WorkRow is one work that changed.
type WorkRow struct {
	Path    string
	Cluster string
	ID      api.ID
	Change  Change
}

// HeldDeletion is a deletion that the brake holds.
type HeldDeletion struct {
	Cluster string
	Path    string
	ID      api.ID
	Message string
}

// Next decides. The error is that of a state or source that cannot be read at all.
func Next(in Input) (*Decision, error) {
	p := decide(in)
	if err := p.conclude(); err != nil {
		return nil, err
	}
	return p.Decision, nil
}

// Findings are those of the decision that Next makes of a source without a previous state. They cost less, since nothing
// is written down. What else it finds out stays in in.Memo, if there is one, for another call of Findings.
func Findings(in Input) []render.Finding {
	in.Previous, in.Options.unwritten = nil, true
	return decide(in).Findings
}

// decide takes all steps but the last, which compares with the state before.
func decide(in Input) *pass {
	in.Options = in.Options.withDefaults()
	in.Now = in.Now.UTC().Truncate(time.Second)
	if in.Previous == nil {
		in.Previous = record.New()
	}
	if in.Memo == nil {
		in.Memo = NewMemo()
	}
	in.Memo.serve(in.Options)
	in.Options.Projects = in.Memo.options.Projects // equal ones may be others
	previous := *in.Previous
	previous.Works = nil // the works of the next state are made anew
	p := &pass{Input: in, next: previous.Clone(), approvers: map[string]string{}, Decision: &Decision{Revision: in.Source.Revision, Refused: in.Refused, Time: in.Now, uncompared: map[api.ID]bool{}}}
	p.gate()
	p.register()
	p.read()
	p.narrow()
	p.claimed = p.claims()
	p.listen()
	p.news = p.Memo.look(p.Seen)
	p.Rules = p.deaf()
	p.kinds = definedKinds(p.Previous.Works)
	p.members(false)
	p.bind()
	if p.asked && p.members(true) {
		// Something is to be placed, and there is news of the room that members have.
		p.unbind()
		p.bind()
	}
	p.render()
	if kinds := definedKinds(p.next.Works); !reflect.DeepEqual(kinds, p.kinds) {
		// Definitions come or go: custom resources go along with them at once.
		p.kinds = kinds
		p.members(p.asked)
		p.unbind()
		p.bind()
		p.render()
	}
	p.aggregate()
	p.retire()
	p.hear()
	p.warn()
	if p.Options.Explain {
		p.explain()
	}
	p.sources, p.terms = p.input, in.Options.Failover
	p.find(p.rules.Findings(p.failures)...)
	slices.SortFunc(p.Findings, render.Finding.Compare)
	p.Findings = render.Limit(slices.Compact(p.Findings))
	return p
}

// pass is one call of Next, passed from stage to stage.
type pass struct {
	Input
	*Decision
	next *record.State

	input *compiled
	// refused are objects, by identity without version, that stand in the source where no project may have them, and
	// nowhere else: what they were before stays.
	refused map[api.ID]bool
	// registrations are those in force, and claimed what they and manifests say of members.
	registrations []Registration
	claimed       []claim
	rules         *interpret.Interpreter // of the input, with the webhooks' answers
	heard         *hearing
	unanswered    map[interpret.Key]Unanswered
	standIns      map[interpret.Key]standIn
	spoken        map[api.ID]bool        // by kind: a webhook speaks of it
	ties          map[*record.State]ties // see stillNeeded
	fleet         *fleet
	kinds         map[string][]clusterv1alpha1.APIEnablement // what definitions among the works let members serve
	bound         []*bound
	ledger        *ledger
	effects       override.Effects // of the rules on all works
	carried       bool             // works stay that nothing was applied to in this pass
	approved      bool             // by the source commit
	// approvers are the people on record who let deletions go in this pass, by member.
	approvers map[string]string
	// asked: a binding is to be placed or divided anew, so that the room on members counts.
	asked bool
	// news tells of which members something else was seen than the last time.
	news map[string]bool
	// failures are those of users' scripts.
	failures interpret.Failures
	// unwritten is what the copies of bindings look like, where that is not on record yet.
	unwritten map[record.BindingKey][]workv1alpha2.AggregatedStatusItem
	// lost: something in the source cannot be read and has no earlier version, so that a missing name
	// proves nothing; no binding is removed.
	lost bool
}

// unbind goes back to before bind.
func (p *pass) unbind() {
	p.bound, p.Unbound, p.next.Bindings = nil, nil, maps.Clone(p.Previous.Bindings)
}

func (p *pass) find(f ...render.Finding) { p.Findings = append(p.Findings, f...) }

// wakeAt asks for another decision at t, if nothing asked for an earlier one.
func (p *pass) wakeAt(t time.Time) {
	if p.Wake.IsZero() || t.Before(p.Wake) {
		p.Wake = t
	}
}
