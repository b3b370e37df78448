package record

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

const (
	// APIVersion is what godwit's own files on the state branch carry.
	APIVersion = "godwit.dev/v1alpha1"
	// FormatVersion is the layout that this program writes. A branch of a newer one is refused.
	FormatVersion = 1
)

// Hash is the Git blob hash of a file.
type Hash [20]byte

// State is the content of the state branch. A State is shared and never changed: the next one is
// built with Clone.
type State struct {
	Meta     Meta
	Members  map[string]*clusterv1alpha1.Cluster
	Bindings map[BindingKey]*workv1alpha2.ResourceBinding
	// Works by path. Their texts stay in the tree until somebody asks for one.
	Works map[string]Work
	// Retired by path.
	Retired map[string]Retired
}

// New is the state of a branch that does not exist yet.
func New() *State {
	return &State{
		Members:  map[string]*clusterv1alpha1.Cluster{},
		Bindings: map[BindingKey]*workv1alpha2.ResourceBinding{},
		Works:    map[string]Work{},
		Retired:  map[string]Retired{},
	}
}

// Clone copies the maps and shares the values.
func (s *State) Clone() *State {
	c := *s
	c.Meta.Held, c.Meta.Approvals = slices.Clone(s.Meta.Held), slices.Clone(s.Meta.Approvals)
	c.Members, c.Bindings = maps.Clone(s.Members), maps.Clone(s.Bindings)
	c.Works, c.Retired = maps.Clone(s.Works), maps.Clone(s.Retired)
	return &c
}

// Meta is state.yaml: what the state was decided from.
type Meta struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	FormatVersion int    `json:"formatVersion"`
	Source        Source `json:"source"`
	// PassTime is the clock of the pass that wrote the state.
	PassTime metav1.Time `json:"passTime"`
	// StatusTime is the clock of the last pass that wrote the status of copies; nil means none did.
	StatusTime *metav1.Time `json:"statusTime,omitempty"`
	// Policies is a hash of the propagation policies that were in force.
	Policies string `json:"policies,omitempty"`
	// Held names files of the source that have an error now, with the commit whose version is in
	// force instead, sorted by path.
	Held []Held `json:"held,omitempty"`
	// Braked names members on which deletions are held back, sorted by name.
	Braked []Braked `json:"braked,omitempty"`
	// FailoverBrake is set while no eviction may begin; nil means that they may.
	FailoverBrake *Brake `json:"failoverBrake,omitempty"`
	// Evictions are those that began within the last minute before the pass, by time and member.
	Evictions []Evictions `json:"evictions,omitempty"`
	// Approvals are the deletions that people let go on and that did not go on yet, in the order they came.
	Approvals []Approval `json:"approvals,omitempty"`
	// Rewrite lets the source go on from another history; nil means that nobody said so.
	Rewrite *Rewrite `json:"rewrite,omitempty"`
}

// Brake holds back evictions.
type Brake struct {
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
	// Approved: a person knows better, and evictions begin all the same until most members are back.
	Approved bool `json:"approved,omitempty"`
}

// Same tells whether two brakes are the same; nil is one too.
func (b *Brake) Same(o *Brake) bool {
	if b == nil || o == nil {
		return b == o
	}
	return b.Since.Equal(o.Since) && b.Message == o.Message && b.Approved == o.Approved
}

// Evictions are those of one pass from one member.
type Evictions struct {
	Time    time.Time `json:"time"`
	Cluster string    `json:"cluster"`
	Count   int       `json:"count"`
}

// Source is where the templates and policies came from. The URL has no credentials in it.
type Source struct {
	URL    string `json:"url,omitempty"`
	Branch string `json:"branch,omitempty"`
	Path   string `json:"path,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// Held is one file whose last good version is in force.
type Held struct {
	Path   string `json:"path"`
	Commit string `json:"commit"`
}

// Braked is a member on which too many works would be deleted.
type Braked struct {
	Member string `json:"member"`
	// Works is how many there were when that was found. Those that come in the meantime do not make
	// the deletions fewer.
	Works int `json:"works"`
	// Approved is how many of them went since, by an approval or because they run elsewhere. They make the
	// deletions no fewer either.
	Approved int `json:"approved,omitempty"`
}

// Work is one object as applied to one member.
type Work struct {
	Path   string
	Member string
	Hash   Hash
	// ID is empty for a work that was read from the branch and not rendered since.
	ID api.ID
	// Object is what is applied, nil like ID. For a Secret it holds the values, while the file does not.
	Object api.Object
	// Overwrite: the object may be taken over from another owner.
	Overwrite bool
	// Suspended: nothing is sent to the member for now.
	Suspended bool
	// Preserve: the object stays on the member when the work goes.
	Preserve bool
	// Text is the file's content, nil until it is rendered or asked for.
	Text func() []byte
}

// Retired is an object that is to be deleted on a member. The entry stays until the member
// confirmed that the object is gone.
type Retired struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Cluster    string      `json:"cluster"`
	Object     ObjectRef   `json:"object"`
	Since      metav1.Time `json:"since"`
	// Reason is one word: TemplateDeleted, Unscheduled, Purged, MemberRemoved.
	Reason string `json:"reason"`
	// Preserve: give up the object instead of deleting it.
	Preserve bool `json:"preserve,omitempty"`
	// Spared: the deletion waits until another copy is known to work. It is set where who deletes
	// reads of it here.
	Spared bool `json:"spared,omitempty"`
	// ServiceAccount is the one, as namespace/name, that the object was written as, and is deleted as; empty means our own.
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// ObjectRef names an object.
type ObjectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// RefOf is the reference to id.
func RefOf(id api.ID) ObjectRef {
	return ObjectRef{APIVersion: id.APIVersion(), Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// ID is the identity the reference stands for.
func (r ObjectRef) ID() api.ID {
	id := api.ID{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	id.Group, id.Version = api.SplitAPIVersion(r.APIVersion)
	return id
}

// NewRetired is the entry for the object of id on member.
func NewRetired(member string, id api.ID, since time.Time, reason string, preserve bool) Retired {
	return Retired{
		APIVersion: APIVersion, Kind: "Retired", Cluster: member, Object: RefOf(id),
		Since: metav1.Time{Time: since.UTC().Truncate(time.Second)}, Reason: reason, Preserve: preserve,
	}
}

func (r Retired) same(o Retired) bool {
	return r.Cluster == o.Cluster && r.Object == o.Object && r.Since.Equal(&o.Since) && r.Reason == o.Reason && r.Preserve == o.Preserve && r.Spared == o.Spared && r.ServiceAccount == o.ServiceAccount
}

// Path is the entry's file.
func (r Retired) Path() string { return RetiredPath(r.Cluster, r.Object.ID()) }

// File is one file of the branch; Data nil means that it is removed.
type File struct {
	Path string
	Data []byte
}

// Diff lists what must be written so that a branch that holds prev holds next, sorted by path.
// state.yaml is in it only when something else is, or when what is held changed: the source commit
// alone is no decision.
func Diff(prev, next *State) ([]File, error) {
	var files []File
	var firstErr error
	put := func(path string, v any) {
		data, err := encode(v)
		firstErr = cmp.Or(firstErr, err)
		files = append(files, File{path, data})
	}
	for name, c := range next.Members {
		if old := prev.Members[name]; old != c && !sameFile(old, c) {
			put(ClusterPath(name), c)
		}
	}
	for name := range prev.Members {
		if _, ok := next.Members[name]; !ok {
			files = append(files, File{Path: ClusterPath(name)})
		}
	}
	for key, b := range next.Bindings {
		if old := prev.Bindings[key]; old != b && !sameFile(old, b) {
			put(key.Path(), b)
		}
	}
	for key := range prev.Bindings {
		if _, ok := next.Bindings[key]; !ok {
			files = append(files, File{Path: key.Path()})
		}
	}
	stay := 0
	texts := map[Hash][]byte{} // one of each: most members have the same
	for path, w := range next.Works {
		old, ok := prev.Works[path]
		if ok {
			stay++
		}
		if !ok || old.Hash != w.Hash {
			text, had := texts[w.Hash]
			if !had {
				text = w.Text()
				texts[w.Hash] = text
			}
			files = append(files, File{path, text})
		}
	}
	if stay < len(prev.Works) { // there are many works, and most often all stay
		for path := range prev.Works {
			if _, ok := next.Works[path]; !ok {
				files = append(files, File{Path: path})
			}
		}
	}
	for path, r := range next.Retired {
		if old, ok := prev.Retired[path]; !ok || !old.same(r) {
			put(path, r)
		}
	}
	for path := range prev.Retired {
		if _, ok := next.Retired[path]; !ok {
			files = append(files, File{Path: path})
		}
	}
	if len(files) > 0 || !prev.Meta.holdsSame(next.Meta) {
		put(MetaPath, next.Meta)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, firstErr
}

// Differ tells whether Diff lists anything. It stops at the first.
func Differ(prev, next *State) bool {
	if len(prev.Members) != len(next.Members) || len(prev.Bindings) != len(next.Bindings) || len(prev.Works) != len(next.Works) ||
		len(prev.Retired) != len(next.Retired) || !prev.Meta.holdsSame(next.Meta) {
		return true
	}
	for path, r := range next.Retired {
		if old, ok := prev.Retired[path]; !ok || !old.same(r) {
			return true
		}
	}
	for path, w := range next.Works {
		if old, ok := prev.Works[path]; !ok || old.Hash != w.Hash {
			return true
		}
	}
	for name, c := range next.Members {
		if old := prev.Members[name]; old != c && !sameFile(old, c) {
			return true
		}
	}
	for key, b := range next.Bindings {
		if old := prev.Bindings[key]; old != b && !sameFile(old, b) {
			return true
		}
	}
	return false
}

// EncodeMeta writes state.yaml.
func EncodeMeta(m Meta) ([]byte, error) { return encode(m) }

// sameFile compares what would be written; it spares commits, not correctness.
func sameFile[T any](a, b *T) bool {
	if a == nil || b == nil {
		return false
	}
	x, errX := encode(a)
	y, errY := encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// SourceCommits are the commits of the source that the state refers to, each once.
func (s *State) SourceCommits() []string {
	var commits []string
	for _, c := range append([]Held{{Commit: s.Meta.Source.Commit}}, s.Meta.Held...) {
		if c.Commit != "" && !slices.Contains(commits, c.Commit) {
			commits = append(commits, c.Commit)
		}
	}
	return commits
}

// Edited names the bindings that differ between before, the last state of ours, and s, which people
// made of it at that time. The times in a status count too: timers run from them.
func (s *State) Edited(before *State, at time.Time) map[BindingKey]time.Time {
	edited := map[BindingKey]time.Time{}
	for key, b := range s.Bindings {
		old := before.Bindings[key]
		if old == nil || old != b && !sameFile(old, b) {
			edited[key] = at
		}
	}
	return edited
}

// Without lists the works of s that now neither has nor retires, by path. They know whether their
// binding wanted them to stay on the member: now may not have that binding any more.
func (s *State) Without(now *State) map[string]Work {
	var lost map[string]Work
	for path, w := range s.Works {
		_, kept := now.Works[path]
		_, retired := now.Retired[retiredOf(path)]
		if kept || retired {
			continue
		}
		if lost == nil {
			lost = map[string]Work{}
		}
		if known, err := Identify(w); err == nil {
			b := s.Bindings[BindingOf(known.ID)]
			known.Preserve = b != nil && b.Spec.PreserveResourcesOnDeletion != nil && *b.Spec.PreserveResourcesOnDeletion
			w = known
		}
		lost[path] = w
	}
	return lost
}
