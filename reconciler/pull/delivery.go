package pull

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/work"
)

// Desired, Work and Retired are what a member should hold.
type (
	Desired = member.Desired
	Work    = apply.Work
	Retired = apply.Retired
)

// delivery is what a commit of the state branch asks of one member.
type delivery struct {
	desired Desired
	// passed is the clock of the pass that wrote it.
	passed metav1.Time
	// cautious: the remote was away, so that no deletion begins.
	cautious bool
	// problems are files that cannot be used; what they said before stays in force.
	problems []record.Problem

	state    *record.State
	works    map[string]record.Work // read in full, by path
	bindings map[string]binding     // by path
}

type binding struct {
	hash string
	*workv1alpha2.ResourceBinding
}

// builtIn are the rules that an agent has: those of the source are not on the state branch.
var builtIn = &interpret.Interpreter{}

// deliver reads what a tree asks of a member. before is what an earlier one asked: what did not change is not read
// again, and what cannot be used any more is taken from there. The error is record.ErrNewer, or that of a tree that
// cannot be read.
func deliver(tree gitstate.HashFS, name string, before *delivery) (*delivery, error) {
	if before == nil {
		before = &delivery{state: record.New()}
	}
	state, problems, err := record.Decode(share{tree, name})
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if errors.Is(p, record.ErrNewer) {
			return nil, fmt.Errorf("the state branch: %w", p)
		}
	}
	record.Restore(state, problems, func(yield func(*record.State) bool) { yield(before.state) })
	d := &delivery{state: state, passed: state.Meta.PassTime, problems: problems, works: map[string]record.Work{}, bindings: map[string]binding{}}
	cluster := state.Members[name]
	if cluster == nil || cluster.Spec.ID == "" || decide.DeliveryOf(cluster) != decide.DeliveryPull {
		d.desired = nothing(name, cluster)
		return d, nil
	}
	registration, _ := decide.RegistrationOf(cluster)
	d.desired = Desired{Cluster: cluster, RecordedUID: cluster.Spec.ID, Registration: registration, Works: map[api.ID]Work{}, Retired: map[api.ID]Retired{}}
	for path, w := range state.Works {
		w, err := d.read(tree, path, w, before)
		if err != nil {
			d.problems = append(d.problems, record.Problem{Path: path, Err: err})
			continue
		}
		d.works[path] = w
		if work.IsSecret(w.ID) {
			continue // its values are not there
		}
		order := Work{ID: w.ID, Object: w.Object, Hash: decide.HashText(w.Hash), Overwrite: w.Overwrite, Suspended: w.Suspended}
		if builtIn.Keeps(w.ID) {
			order.Rules = builtIn
		}
		d.desired.Works[w.ID.Unversioned()] = order
	}
	for _, r := range state.Retired {
		if id := r.Object.ID(); !r.Spared {
			d.desired.Retired[id.Unversioned()] = Retired{ID: id, Preserve: r.Preserve, Since: r.Since.Unix(), Account: r.ServiceAccount}
		}
	}
	return d, nil
}

// nothing is to be written to a member that is not on record, or not as one that takes what is for it.
func nothing(name string, cluster *clusterv1alpha1.Cluster) Desired {
	if cluster == nil {
		cluster = &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return Desired{Cluster: cluster, RecordedUID: cluster.Spec.ID, Paused: true}
}

// read fills in a work and what its binding says of it.
func (d *delivery) read(tree gitstate.HashFS, path string, w record.Work, before *delivery) (record.Work, error) {
	old, had := before.works[path]
	if had && old.Hash == w.Hash {
		w = old
	}
	known, err := record.Identify(w)
	if err != nil {
		if had {
			d.problems = append(d.problems, record.Problem{Path: path, Err: err})
			return old, nil
		}
		return w, err
	}
	b, err := d.binding(tree, record.BindingOf(known.ID), before)
	if err != nil {
		return w, err
	}
	return decide.Terms(known, b), nil
}

// binding reads a binding; nil if there is none.
func (d *delivery) binding(tree gitstate.HashFS, key record.BindingKey, before *delivery) (*workv1alpha2.ResourceBinding, error) {
	path := key.Path()
	if b, ok := d.bindings[path]; ok {
		return b.ResourceBinding, nil
	}
	hash, err := tree.Hash(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.bindings[path] = binding{}
		return nil, nil
	}
	old := before.bindings[path]
	if err != nil || old.ResourceBinding != nil && old.hash == hash {
		d.bindings[path] = old
		return old.ResourceBinding, err
	}
	text, err := fs.ReadFile(tree, path)
	if err != nil {
		return nil, err
	}
	b, err := record.DecodeBinding(path, text)
	switch {
	case err == nil:
		d.bindings[path] = binding{hash, b}
	case old.ResourceBinding != nil:
		d.problems = append(d.problems, record.Problem{Path: path, Err: err})
		d.bindings[path] = old
		b = old.ResourceBinding
	default:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// share is the part of a state branch that is about one member, without bindings.
type share struct {
	gitstate.HashFS
	member string
}

// ReadDir lists a folder. Of the folders that have something for each member only the member's own is there.
func (s share) ReadDir(name string) ([]fs.DirEntry, error) {
	var own string
	switch name {
	case "clusters":
		own = path.Base(record.ClusterPath(s.member))
	case "works", "retired":
		own = path.Base(path.Dir(path.Dir(record.WorkPath(s.member, api.ID{Kind: "x", Name: "x"}))))
	case "bindings":
		return nil, nil
	default:
		return fs.ReadDir(s.HashFS, name)
	}
	all, err := fs.ReadDir(s.HashFS, name)
	for _, e := range all {
		if e.Name() == own {
			return []fs.DirEntry{e}, err
		}
	}
	return nil, err
}
