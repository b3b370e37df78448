package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
)

// Problem is a file of the state branch that cannot be used.
type Problem struct {
	Path string
	Err  error
}

func (p Problem) Error() string { return p.Path + ": " + p.Err.Error() }
func (p Problem) Unwrap() error { return p.Err }

// ErrNewer says that the branch was written by a newer program.
var ErrNewer = errors.New("written by a newer godwit")

// encode writes v in the one form that files have.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var o any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	o = tidy(o)
	if m, ok := o.(map[string]any); ok {
		if status, ok := m["status"].(map[string]any); ok && len(status) == 0 {
			delete(m, "status")
		}
	}
	return canonical.YAML(o), nil
}

// tidy drops null, which only says that a Go field has no omitempty, and turns numbers into the two
// forms that objects have. An empty map stays: a placement without a word is a placement.
func tidy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = tidy(e); e == nil {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
	case []any:
		for i := range v {
			v[i] = tidy(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// EncodeObject writes a work's file.
func EncodeObject(o api.Object) []byte { return canonical.YAML(o) }

// EncodeBinding writes a binding's file.
func EncodeBinding(b *workv1alpha2.ResourceBinding) ([]byte, error) { return encode(b) }

// EncodeCluster writes a member's file.
func EncodeCluster(c *clusterv1alpha1.Cluster) ([]byte, error) { return encode(c) }

// Decode reads a state branch. Problems name the files that were left out; with ErrNewer among them
// nothing may be written to the branch. The error is that of a tree that cannot be read.
func Decode(tree fs.FS) (*State, []Problem, error) {
	d := decoder{tree: tree, state: New()}
	if err := d.meta(); err != nil {
		return nil, nil, err
	}
	for _, part := range []struct {
		dir  string
		read func(path string) error
	}{
		{clustersDir, d.member},
		{bindingsDir, d.binding},
		{retiredDir, d.retired},
		{worksDir, d.work},
	} {
		if err := d.walk(part.dir, part.read); err != nil {
			return nil, nil, err
		}
	}
	return d.state, d.problems, nil
}

type decoder struct {
	tree     fs.FS
	state    *State
	problems []Problem
}

// walk calls read for each file below dir in byte order; its errors become problems.
func (d *decoder) walk(dir string, read func(string) error) error {
	return fs.WalkDir(d.tree, dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == dir:
			return nil
		case err != nil:
			return fmt.Errorf("read the state branch: %s: %w", p, err)
		case !fs.ValidPath(e.Name()) || e.Name() == "." || strings.Contains(e.Name(), "/"):
			// A damaged tree may hold such an entry. Where it leads is where it is, without an end.
			d.problem(p, fmt.Errorf("%q is no name of a file or folder; it is left alone", e.Name()))
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		case path.Ext(p) != suffix:
			d.problem(p, errors.New("not a file that godwit writes; it is left alone"))
			return nil
		}
		if err := read(p); err != nil {
			d.problem(p, err)
		}
		return nil
	})
}

func (d *decoder) problem(p string, err error) {
	d.problems = append(d.problems, Problem{p, err})
}

func (d *decoder) meta() error {
	data, err := fs.ReadFile(d.tree, MetaPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the state branch: %s: %w", MetaPath, err)
	}
	if err := yaml.Unmarshal(data, &d.state.Meta); err != nil {
		d.problem(MetaPath, err)
		d.state.Meta = Meta{}
		return nil
	}
	if v := d.state.Meta.FormatVersion; v > FormatVersion {
		d.problem(MetaPath, fmt.Errorf("%w: format version %d, this program knows %d", ErrNewer, v, FormatVersion))
	}
	for i, a := range d.state.Meta.Approvals {
		if err := a.check(); err != nil { // nothing is approved by mistake
			d.problem(MetaPath, fmt.Errorf("approvals[%d].%w", i, err))
			d.state.Meta.Approvals = nil
			break
		}
	}
	return nil
}

func (d *decoder) member(p string) error {
	data, err := fs.ReadFile(d.tree, p)
	if err != nil {
		return err
	}
	c, err := DecodeCluster(p, data)
	if err != nil {
		return err
	}
	d.state.Members[c.Name] = c
	return nil
}

// DecodeCluster reads the file of a member at its path.
func DecodeCluster(p string, data []byte) (*clusterv1alpha1.Cluster, error) {
	c := &clusterv1alpha1.Cluster{}
	if err := strictly(data, c); err != nil {
		return nil, err
	}
	if c.APIVersion != clusterv1alpha1.APIVersion {
		return nil, newer(c.APIVersion, clusterv1alpha1.APIVersion)
	}
	if want := ClusterPath(c.Name); p != want {
		return nil, fmt.Errorf("metadata.name %q belongs into %s", c.Name, want)
	}
	return c, nil
}

func (d *decoder) binding(p string) error {
	data, err := fs.ReadFile(d.tree, p)
	if err != nil {
		return err
	}
	b, err := DecodeBinding(p, data)
	if err != nil {
		return err
	}
	d.state.Bindings[BindingKey{b.Namespace, b.Name}] = b
	return nil
}

// DecodeBinding reads the file of a binding at its path.
func DecodeBinding(p string, data []byte) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	if err := strictly(data, b); err != nil {
		return nil, err
	}
	if b.APIVersion != workv1alpha2.APIVersion {
		return nil, newer(b.APIVersion, workv1alpha2.APIVersion)
	}
	wantKind := workv1alpha2.KindResourceBinding
	if b.Namespace == "" {
		wantKind = workv1alpha2.KindClusterResourceBinding
	}
	if b.Kind != wantKind {
		return nil, fmt.Errorf("kind %q, want %s", b.Kind, wantKind)
	}
	key := BindingKey{b.Namespace, b.Name}
	if want := key.Path(); p != want {
		return nil, fmt.Errorf("%s belongs into %s", key, want)
	}
	seen := map[string]bool{}
	for i, c := range b.Spec.Clusters {
		if c.Name == "" || c.Replicas < 0 || seen[c.Name] {
			return nil, fmt.Errorf("spec.clusters[%d]: a name, once, and replicas of 0 or more", i)
		}
		seen[c.Name] = true
	}
	claimFromMarks(b)
	return b, nil
}

// Marks with which Karmada records the claim of a policy on a binding. They are read, so that a
// binding taken over from Karmada keeps its policy, and written back as spec.policy.
const (
	policyNameMark        = "propagationpolicy.karmada.io/name"
	policyNamespaceMark   = "propagationpolicy.karmada.io/namespace"
	clusterPolicyNameMark = "clusterpropagationpolicy.karmada.io/name"
)

func claimFromMarks(b *workv1alpha2.ResourceBinding) {
	if b.Spec.Policy != nil {
		return
	}
	if name := b.Annotations[policyNameMark]; name != "" {
		b.Spec.Policy = &workv1alpha2.PolicyReference{Kind: "PropagationPolicy", Namespace: b.Annotations[policyNamespaceMark], Name: name}
	} else if name := b.Annotations[clusterPolicyNameMark]; name != "" {
		b.Spec.Policy = &workv1alpha2.PolicyReference{Kind: "ClusterPropagationPolicy", Name: name}
	}
}

func (d *decoder) retired(p string) error {
	var r Retired
	if err := d.strict(p, &r); err != nil {
		return err
	}
	if r.APIVersion != APIVersion || r.Kind != "Retired" {
		return newer(r.APIVersion, APIVersion)
	}
	if want := r.Path(); p != want {
		return fmt.Errorf("%s on %s belongs into %s", r.Object.ID(), r.Cluster, want)
	}
	d.state.Retired[p] = r
	return nil
}

// work notes the file without reading it, if the tree knows its hash.
func (d *decoder) work(p string) error {
	w := Work{Path: p, Member: MemberOf(p)}
	if w.Member == "" {
		return errors.New("not below the folder of a member; it is left alone")
	}
	tree := d.tree
	w.Text = func() []byte {
		data, err := fs.ReadFile(tree, p)
		if err != nil {
			return nil
		}
		return data
	}
	if t, ok := tree.(gitstate.HashFS); ok {
		text, err := t.Hash(p)
		if err != nil {
			return err
		}
		if w.Hash, err = ParseHash(text); err != nil {
			return err
		}
	} else {
		w.Hash = canonical.Blob(w.Text())
	}
	d.state.Works[p] = w
	return nil
}

// Identify fills in the ID and Object of a work that was read from the branch.
func Identify(w Work) (Work, error) {
	if w.Object != nil {
		return w, nil
	}
	o, err := canonical.Parse(w.Text())
	if err != nil {
		return w, fmt.Errorf("%s: %w", w.Path, err)
	}
	w.ID, w.Object = api.IDOf(o), o
	if want := WorkPath(w.Member, w.ID); want != w.Path {
		return w, fmt.Errorf("%s: holds %s, which belongs into %s", w.Path, w.ID, want)
	}
	return w, nil
}

func (d *decoder) strict(p string, into any) error {
	data, err := fs.ReadFile(d.tree, p)
	if err != nil {
		return err
	}
	return strictly(data, into)
}

// strictly decodes a file that has no field but those of into, and no number without an end.
func strictly(data []byte, into any) error {
	if number, found := canonical.Endless(data); found {
		return fmt.Errorf("%s is no number to compute with; correct it, or take the file out", number)
	}
	return yaml.UnmarshalStrict(data, into)
}

func newer(got, want string) error {
	if got == "" {
		return fmt.Errorf("no apiVersion, want %s", want)
	}
	return fmt.Errorf("%w: apiVersion %s, this program knows %s", ErrNewer, got, want)
}

// ParseHash reads a hash as trees give it.
func ParseHash(s string) (h Hash, err error) {
	s = strings.TrimPrefix(s, "sha1:")
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("hash %q is no SHA-1", s)
	}
	for i := range h {
		hi, lo := strings.IndexByte(hex, s[2*i]), strings.IndexByte(hex, s[2*i+1])
		if hi < 0 || lo < 0 {
			return h, fmt.Errorf("hash %q is no SHA-1", s)
		}
		h[i] = byte(hi<<4 | lo)
	}
	return h, nil
}

// Restore puts the last version that decodes in the place of each file with a problem. Earlier
// states come newest first; a file that none of them has stays out.
func Restore(s *State, problems []Problem, earlier func(yield func(*State) bool)) {
	missing := make(map[string]bool, len(problems))
	for _, p := range problems {
		missing[p.Path] = true
	}
	for old := range earlier {
		for p := range missing {
			if s.take(old, p) {
				delete(missing, p)
			}
		}
		if len(missing) == 0 {
			return
		}
	}
}

// take copies what old has at the path.
func (s *State) take(old *State, p string) bool {
	if p == MetaPath {
		s.Meta = old.Meta
		return old.Meta.FormatVersion > 0
	}
	for name, c := range old.Members {
		if ClusterPath(name) == p {
			s.Members[name] = c
			return true
		}
	}
	for key, b := range old.Bindings {
		if key.Path() == p {
			s.Bindings[key] = b
			return true
		}
	}
	if r, ok := old.Retired[p]; ok {
		s.Retired[p] = r
		return true
	}
	return false
}
