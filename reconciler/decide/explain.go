package decide

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/failover"
	"github.com/godwit-gitops/godwit/render/manifest"
	"github.com/godwit-gitops/godwit/render/override"
	"github.com/godwit-gitops/godwit/render/policy"
	"github.com/godwit-gitops/godwit/render/schedule"
)

// Why is what an explanation says of a template beyond its row.
type Why struct {
	// Template is nil if it is gone, or cannot be read.
	Template *manifest.Object
	// Old and Next are its binding before and after; nil where there is none.
	Old, Next *workv1alpha2.ResourceBinding
	// Choice is which policy holds it; Selector is the position of the selector that it is held by, -1 if
	// it has none or nobody holds it.
	Choice   policy.Choice
	Selector int
	// Near are policies that come closest to selecting a template that none selects.
	Near []policy.NearMiss
	// Placement are the fields of the placement that are others than in the last decision.
	Placement []string
	// Lazy are the fields of the binding that the policy says something else of; that waits for a change
	// of the template.
	Lazy []string
	// Needs are what the template refers to.
	Needs []Need
	// NearOverrides are override policies that come close to selecting it and do not.
	NearOverrides []override.NearMiss
	// Timers run on copies of the template, sorted by cluster.
	Timers []Timer
}

// Need is something that a template refers to.
type Need struct {
	// ID has no version. The name is empty for a reference by labels.
	ID     api.ID
	Labels string
	// Along: it goes where the template goes.
	Along bool
	// Missing: it is not in the source.
	Missing bool
}

// Timer is something that the clock brings about on a member.
type Timer struct {
	Cluster string
	// What is one word: ApplicationFailure, ClusterFailure, TaintEviction, purge, block, or unhealthy
	// where nothing is counted.
	What string
	// Since and Until are when it began and ends; zero means that it is not known, or never.
	Since, Until time.Time
	// Text says what it is and what happens when it ends, or why it never does.
	Text string
}

// Ignored is an object of the source that no policy can take.
type Ignored struct {
	Object *manifest.Object
	Why    string
}

// nearest is how many policies that do not select something are named.
const nearest = 3

// Why says more; nil without Options.Explain. It is found when it is asked for: of all templates it
// would cost far more than the decision.
func (r *BindingRow) Why() *Why {
	if r.explain == nil {
		return nil
	}
	return r.explain()
}

// Why says more; nil without Options.Explain.
func (u *Unbound) Why() *Why {
	if u.explain == nil {
		return nil
	}
	return u.explain()
}

// explain prepares for questions.
func (p *pass) explain() {
	rows := make(map[api.ID]*bound, len(p.bound))
	for _, b := range p.bound {
		rows[b.row.Template.Unversioned()] = b
		b.row.explain = sync.OnceValue(func() *Why { return p.why(b) })
	}
	for i := range p.Unbound {
		u := &p.Unbound[i]
		if b := rows[u.Template.Unversioned()]; b != nil {
			u.explain = b.row.explain
		} else if t := p.input.all[u.Template.Unversioned()]; t != nil {
			u.explain = func() *Why {
				b := &bound{template: t, row: BindingRow{Key: record.BindingOf(t.ID), Template: t.ID}}
				b.row.Choice = p.choose(b)
				return p.why(b)
			}
		}
	}
	for _, o := range p.input.objects {
		role := manifest.RoleOf(o)
		_, skipped := labelsOf(o.Content)[policy.LabelClaimedBy]
		switch {
		case role == manifest.Ignored:
			p.Ignored = append(p.Ignored, Ignored{o, "objects of this kind or namespace are never propagated"})
		case role != manifest.Template:
			p.Ignored = append(p.Ignored, Ignored{o, "it tells godwit what to do; it is propagated nowhere itself"})
		case skipped && rows[o.ID.Unversioned()] == nil:
			p.Ignored = append(p.Ignored, Ignored{o, "its label " + policy.LabelClaimedBy + " keeps all policies away"})
		}
	}
}

func (p *pass) why(b *bound) *Why {
	w := &Why{Template: b.template, Old: b.old, Next: b.next, Choice: b.row.Choice, Selector: -1}
	if b.template == nil {
		return w
	}
	t := policy.Template{ID: b.template.ID, Labels: labelsOf(b.template.Content)}
	held := w.Choice.Policy
	if held == nil {
		w.Near = p.input.policies.value.Nearest(t, nearest)
	} else {
		w.Selector = w.Choice.Selector(t)
		if b.next != nil && held.Lazy() {
			spec := b.next.Spec
			if held.Into(&spec, t.Labels, p.input.priorities.value) == nil {
				w.Lazy = differences(spec, b.next.Spec)
			}
		}
	}
	w.Placement = placementChanges(b)
	w.Needs = p.needs(b)
	w.NearOverrides = p.input.overrides.value.Nearest(t.ID, t.Labels, nearest)
	w.Timers = p.timers(b)
	return w
}

// timers are what failover counts on copies of b's template, or why it counts nothing.
func (p *pass) timers(b *bound) []Timer {
	var timers []Timer
	for _, c := range b.evicted {
		timers = append(timers, Timer{c.Cluster, string(c.Kind), c.Since, c.At, c.Text + "; it leaves now"})
	}
	for _, c := range b.causes {
		t := Timer{c.Cluster, string(c.Kind), c.Since, c.At, c.Text}
		switch {
		case c.Due(p.Now) && b.waits != "":
			t.Text += "; " + b.waits
		case c.Due(p.Now) && b.blocked != "":
			t.Text += "; it stays, as there is no other place for it"
		}
		timers = append(timers, t)
	}
	if b.next != nil {
		spec := &b.next.Spec
		for _, task := range spec.GracefulEvictionTasks {
			t := Timer{Cluster: task.FromCluster, What: "purge", Until: failover.GraceEnd(task, p.Options.Failover), Text: "the copy there goes when those that replace it are healthy, or when its time is over"}
			if task.CreationTimestamp != nil {
				t.Since = task.CreationTimestamp.Time
			}
			switch {
			case task.SuppressDeletion != nil && *task.SuppressDeletion:
				t.Until, t.Text = time.Time{}, "the copy there stays until its deletion is confirmed"
			case task.PurgeMode == policyv1alpha1.PurgeDirectly && p.purging(b):
				t.Text = "the copy there goes first: those that replace it wait until it is gone, or until this time is over"
			}
			timers = append(timers, t)
		}
		for _, item := range b.next.Status.AggregatedStatus {
			if item.Health == workv1alpha2.ResourceUnhealthy && !failover.Watched(spec) {
				timers = append(timers, Timer{Cluster: item.ClusterName, What: "unhealthy", Text: "nothing counts how long the copy is unhealthy: the policy has no failover.application"})
			}
		}
	}
	if s := b.row.Schedule; s != nil && s.Reasons != nil {
		for _, block := range s.Blocks {
			timers = append(timers, Timer{block.Cluster, "block", block.Since, block.Until, block.Text})
		}
	}
	slices.SortStableFunc(timers, func(a, b Timer) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return timers
}

// placementChanges compares the placement with that of the last decision; none if there was none.
func placementChanges(b *bound) []string {
	var was policyv1alpha1.Placement
	if b.old == nil || b.next == nil || json.Unmarshal([]byte(b.old.Annotations[schedule.AnnotationAppliedPlacement]), &was) != nil {
		return nil
	}
	is := policyv1alpha1.Placement{}
	if b.next.Spec.Placement != nil {
		is = *b.next.Spec.Placement
	}
	return differences(was, is)
}

// differences are the fields of two structs of one type that differ, by their names in JSON.
func differences(a, b any) (fields []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !semanticEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			fields = append(fields, name)
		}
	}
	return fields
}

// needs are what b's template refers to, and where that cannot be told what is on record: see dependencies.
func (p *pass) needs(b *bound) []Need {
	refs, err := p.references(b)
	along := b.next != nil && b.next.Spec.PropagateDeps && b.row.Key.Namespace != ""
	var needs []Need
	if err != nil {
		for _, t := range p.stillNeeded(b, err) {
			needs = append(needs, Need{ID: t.ID.Unversioned(), Along: along})
		}
		return needs
	}
	for _, ref := range refs {
		n := Need{ID: api.ID{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}, Along: along}
		n.ID.Group, _ = api.SplitAPIVersion(ref.APIVersion)
		if ref.Name != "" {
			n.Missing = p.input.all[n.ID] == nil
		} else {
			n.Labels = metav1.FormatLabelSelector(ref.LabelSelector)
		}
		if !slices.Contains(needs, n) {
			needs = append(needs, n)
		}
	}
	return needs
}
