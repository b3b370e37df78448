package record

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/api/canonical"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

func TestPathsAreThoseOfTheLayout(t *testing.T) {
	deployment := api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "demoapp"}
	role := api.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "system:node:Admin_1"}
	tests := []struct{ name, got, want string }{
		{"namespaced", WorkPath("kube02", deployment), "works/kube02/default/deployment.apps_demoapp.yaml"},
		{"core group", WorkPath("kube02", api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b"}), "works/kube02/a/configmap_b.yaml"},
		{"cluster-scoped, escaped", WorkPath("kube02", role), "works/kube02/_cluster/clusterrole.rbac.authorization.k8s.io_system%3anode%3a%41dmin%5f1.yaml"},
		{"retired", RetiredPath("kube02", deployment), "retired/kube02/default/deployment.apps_demoapp.yaml"},
		{"binding", BindingOf(deployment).Path(), "bindings/default/demoapp-deployment.yaml"},
		{"cluster binding", BindingOf(role).Path(), "bindings/_cluster/system.node.admin%5f1-clusterrole.yaml"},
		{"member", ClusterPath("kube02"), "clusters/kube02.yaml"},
		{"no hidden file", ClusterPath(".."), "clusters/%2e..yaml"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestBindingNameIsKarmadas(t *testing.T) {
	got := BindingOf(api.ID{Kind: "ClusterRole", Name: "system::tom"})
	if want := (BindingKey{Name: "system..tom-clusterrole"}); got != want {
		t.Errorf("BindingOf = %v, want %v", got, want)
	}
}

func TestTwoObjectsNeverShareAPath(t *testing.T) {
	part := rapid.StringMatching(`[a-zA-Z0-9._:-]{0,4}`)
	ids := rapid.Custom(func(t *rapid.T) api.ID {
		return api.ID{
			Group: part.Draw(t, "group"), Kind: strings.ToLower(strings.ReplaceAll(part.Draw(t, "kind"), ".", "")),
			Namespace: part.Draw(t, "namespace"), Name: part.Draw(t, "name"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		m1, m2 := part.Draw(t, "member 1"), part.Draw(t, "member 2")
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		same := m1 == m2 && a == b
		if (WorkPath(m1, a) == WorkPath(m2, b)) != same {
			t.Errorf("%q %v and %q %v: %s and %s", m1, a, m2, b, WorkPath(m1, a), WorkPath(m2, b))
		}
		if got := MemberOf(WorkPath(m1, a)); got != m1 {
			t.Errorf("MemberOf = %q, want %q", got, m1)
		}
	})
}

func someState() *State {
	at := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	s := New()
	s.Meta = Meta{APIVersion: APIVersion, Kind: "State", FormatVersion: 1, Source: Source{Commit: "abc"}, PassTime: at,
		Held: []Held{{Path: "a.yaml", Commit: "old"}}}
	s.Members["kube02"] = &clusterv1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1alpha1.APIVersion, Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube02", Labels: map[string]string{"a": "b"}},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, Region: "beijing"},
	}
	s.Bindings[BindingKey{"default", "web-deployment"}] = &workv1alpha2.ResourceBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: workv1alpha2.APIVersion, Kind: workv1alpha2.KindResourceBinding},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-deployment"},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web"},
			Policy:   &workv1alpha2.PolicyReference{Kind: "PropagationPolicy", Namespace: "default", Name: "p"},
			Replicas: 4, Clusters: []workv1alpha2.TargetCluster{{Name: "kube02", Replicas: 3}},
		},
		Status: workv1alpha2.ResourceBindingStatus{LastScheduledTime: &at},
	}
	id := api.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "gone"}
	r := NewRetired("kube02", id, at.Time, "TemplateDeleted", false)
	r.ServiceAccount = "team/deployer"
	s.Retired[r.Path()] = r
	web := api.Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "default"}}
	text := EncodeObject(web)
	w := Work{Member: "kube02", ID: api.IDOf(web), Object: web, Hash: canonical.Blob(text), Text: func() []byte { return text }}
	w.Path = WorkPath("kube02", w.ID)
	s.Works[w.Path] = w
	return s
}

// written is the tree that holds s.
func written(t *testing.T, s *State) fstest.MapFS {
	t.Helper()
	files, err := Diff(New(), s)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range files {
		tree[f.Path] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

func TestDecodeOfEncodeIsTheSame(t *testing.T) {
	s := someState()
	got, problems, err := Decode(written(t, s))
	if err != nil || len(problems) > 0 {
		t.Fatalf("Decode: %v, problems %v", err, problems)
	}
	ignore := []cmp.Option{cmpopts.IgnoreFields(Work{}, "Text", "ID", "Object"), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })}
	if diff := cmp.Diff(s, got, ignore...); diff != "" {
		t.Errorf("decoded state differs (-want +got):\n%s", diff)
	}
	if files, err := Diff(s, got); err != nil || len(files) > 0 {
		t.Errorf("Diff of the decoded state writes %v, %v", files, err)
	}
	for _, w := range got.Works {
		if w, err = Identify(w); err != nil || w.ID.Kind != "Deployment" {
			t.Errorf("Identify = %v, %v", w.ID, err)
		}
	}
}

func TestDiffWritesWhatChangedAndNothingElse(t *testing.T) {
	prev := someState()
	next := prev.Clone()
	key := BindingKey{"default", "web-deployment"}
	changed := *prev.Bindings[key]
	changed.Spec.Replicas = 5
	next.Bindings[key] = &changed
	for path := range next.Works {
		delete(next.Works, path)
	}
	files, err := Diff(prev, next)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		mark := "+"
		if f.Data == nil {
			mark = "-"
		}
		got = append(got, mark+f.Path)
	}
	want := []string{"+bindings/default/web-deployment.yaml", "+state.yaml", "-works/kube02/default/deployment.apps_web.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("Diff = %v, want %v", got, want)
	}
	sameCommit := prev.Clone()
	sameCommit.Meta.Source.Commit = "def"
	if files, _ := Diff(prev, sameCommit); len(files) > 0 {
		t.Errorf("a new source commit alone writes %v", files)
	}
}

func TestABrokenFileIsAProblemAndTheRestIsRead(t *testing.T) {
	tests := []struct {
		name, path, data string
		newer            bool
	}{
		{"not YAML", "bindings/default/web-deployment.yaml", "{", false},
		{"unknown field", "bindings/default/web-deployment.yaml", "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: web-deployment, namespace: default}\nspec: {clusterz: []}\n", false},
		{"wrong place", "bindings/other/web-deployment.yaml", "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: web-deployment, namespace: default}\n", false},
		{"a cluster twice", "bindings/default/web-deployment.yaml", "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: web-deployment, namespace: default}\nspec: {clusters: [{name: a}, {name: a}]}\n", false},
		{"newer binding", "bindings/default/web-deployment.yaml", "apiVersion: work.karmada.io/v1\nkind: ResourceBinding\nmetadata: {name: web-deployment, namespace: default}\n", true},
		{"newer format", "state.yaml", "formatVersion: 99\n", true},
		{"foreign file", "works/README", "hello", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := written(t, someState())
			tree[tt.path] = &fstest.MapFile{Data: []byte(tt.data)}
			s, problems, err := Decode(tree)
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) != 1 || problems[0].Path != tt.path {
				t.Fatalf("problems %v, want one of %s", problems, tt.path)
			}
			if got := errors.Is(problems[0], ErrNewer); got != tt.newer {
				t.Errorf("problem %v: newer = %v, want %v", problems[0], got, tt.newer)
			}
			if len(s.Members) != 1 || len(s.Works) != 1 {
				t.Errorf("the rest was not read: %d members, %d works", len(s.Members), len(s.Works))
			}
		})
	}
}

func TestRestoreTakesTheLastVersionThatDecodes(t *testing.T) {
	tree := written(t, someState())
	path := "bindings/default/web-deployment.yaml"
	tree[path] = &fstest.MapFile{Data: []byte("{")}
	s, problems, err := Decode(tree)
	if err != nil {
		t.Fatal(err)
	}
	Restore(s, problems, slices.Values([]*State{New(), someState()}))
	if b := s.Bindings[BindingKey{"default", "web-deployment"}]; b == nil || b.Spec.Replicas != 4 {
		t.Errorf("restored binding %v, want the one of the earlier state", b)
	}
}

func TestKarmadasClaimMarksAreRead(t *testing.T) {
	tree := fstest.MapFS{"bindings/default/web-deployment.yaml": &fstest.MapFile{Data: []byte(`
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata:
  name: web-deployment
  namespace: default
  annotations: {propagationpolicy.karmada.io/name: p, propagationpolicy.karmada.io/namespace: default}
`)}}
	s, problems, err := Decode(tree)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	got := s.Bindings[BindingKey{"default", "web-deployment"}].Spec.Policy
	want := &workv1alpha2.PolicyReference{Kind: "PropagationPolicy", Namespace: "default", Name: "p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

// entryFS has one more folder in a folder, of a name that no folder has.
type entryFS struct {
	fstest.MapFS
	dir, name string
}

type entry struct {
	fs.DirEntry
	name string
}

func (e entry) Name() string { return e.name }

func (f entryFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := f.MapFS.ReadDir(name)
	if name == f.dir && err == nil {
		list = append(list, entry{list[0], f.name})
	}
	return list, err
}

func TestFolderThatLeadsToItselfIsLeftAlone(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/.."} {
		tree := entryFS{fstest.MapFS{"works/m/default/configmap_c.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n")}}, "works/m", name}
		s, problems, err := Decode(tree)
		if err != nil || len(problems) != 1 || len(s.Works) != 1 {
			t.Errorf("%q: %d works, problems %v, %v", name, len(s.Works), problems, err)
		}
	}
}

// A quantity of a few bytes may have more digits than can be computed with.
func TestNumberWithoutAnEndIsAProblemOfItsFile(t *testing.T) {
	tree := fstest.MapFS{
		"clusters/a.yaml": {Data: []byte("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {syncMode: Push}\nstatus: {resourceSummary: {allocatable: {cpu: 1e-99999999}}}\n")},
		"clusters/b.yaml": {Data: []byte("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: b}\nspec: {syncMode: Push}\nstatus: {resourceSummary: {allocatable: {cpu: 1e3}}}\n")},
	}
	s, problems, err := Decode(tree)
	if err != nil || len(problems) != 1 || problems[0].Path != "clusters/a.yaml" || !strings.Contains(problems[0].Err.Error(), "1e-99999999") || s.Members["b"] == nil {
		t.Errorf("members %v, problems %v, %v", s.Members, problems, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("bindings/default/a-b.yaml", []byte("apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n"))
	f.Add("state.yaml", []byte("formatVersion: 1\n"))
	f.Add("retired/m/default/a_b.yaml", []byte("apiVersion: godwit.dev/v1alpha1\nkind: Retired\n"))
	f.Add("clusters/m.yaml", []byte("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m}\n"))
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		tree := fstest.MapFS{path: &fstest.MapFile{Data: data}}
		s, problems, err := Decode(tree)
		if err != nil || len(problems) > 0 {
			return
		}
		again, problems, err := Decode(written(t, s))
		if err != nil || len(problems) > 0 {
			t.Fatalf("what was decoded does not decode again: %v %v", err, problems)
		}
		if files, _ := Diff(s, again); len(files) > 0 {
			t.Errorf("decoding twice differs in %v", files)
		}
	})
}

func TestAnEmptyPlacementIsKept(t *testing.T) {
	s := someState()
	key := BindingKey{"default", "web-deployment"}
	s.Bindings[key].Spec.Placement = &policyv1alpha1.Placement{}
	got, problems, err := Decode(written(t, s))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if got.Bindings[key].Spec.Placement == nil {
		t.Error("an empty placement, which means every cluster, was lost")
	}
}

// What is held back is decided too: it is written even where no other file changes.
func TestDiffWritesWhatIsHeld(t *testing.T) {
	prev := someState()
	for name, change := range map[string]func(*Meta){
		"files":     func(m *Meta) { m.Held = []Held{{Path: "a.yaml", Commit: "c1"}} },
		"deletions": func(m *Meta) { m.Braked = []Braked{{Member: "m1", Works: 8}} },
		"evictions": func(m *Meta) { m.FailoverBrake = &Brake{Since: m.PassTime.Time} },
		"approvals": func(m *Meta) {
			m.Approvals = []Approval{{Cluster: "m1", Works: []string{"works/m1/default/a_b.yaml"}, Time: m.PassTime, By: "Ada <ada@example.com>"}}
		},
	} {
		next := prev.Clone()
		change(&next.Meta)
		files, err := Diff(prev, next)
		if err != nil || len(files) != 1 || files[0].Path != MetaPath {
			t.Errorf("%s: Diff = %v, %v, want %s", name, files, err, MetaPath)
		}
	}
	next := prev.Clone()
	next.Meta.Source.Commit = "another"
	if files, err := Diff(prev, next); err != nil || len(files) != 0 {
		t.Errorf("the source commit alone: Diff = %v, %v, want nothing", files, err)
	}
}

func TestWorksTakenOutOfTheRecordKnowThatTheyAreToStay(t *testing.T) {
	before := someState()
	keep := true
	before.Bindings[BindingKey{"default", "web-deployment"}].Spec.PreserveResourcesOnDeletion = &keep
	path := "works/kube02/default/deployment.apps_web.yaml"
	now := before.Clone()
	if lost := before.Without(now); len(lost) > 0 {
		t.Fatalf("nothing was taken out, and %v is lost", lost)
	}
	delete(now.Works, path)
	delete(now.Bindings, BindingKey{"default", "web-deployment"})
	if lost := before.Without(now); len(lost) != 1 || !lost[path].Preserve {
		t.Errorf("lost %v, want the work at %s, to be preserved", lost, path)
	}
	gone := NewRetired("kube02", before.Works[path].ID, time.Now(), "Unscheduled", false)
	now.Retired[gone.Path()] = gone
	if lost := before.Without(now); len(lost) > 0 {
		t.Errorf("%v is retired already", lost)
	}
}

func TestWhoRemovesAnObjectIsWritten(t *testing.T) {
	before := someState()
	now := before.Clone()
	for path, r := range now.Retired {
		r.ServiceAccount = "team/other"
		now.Retired[path] = r
	}
	if files, err := Diff(before, now); err != nil || len(files) != len(now.Retired)+1 { // and state.yaml
		t.Errorf("%d files are written, %v", len(files), err)
	}
}

func TestEqualWorksAreWrittenOnce(t *testing.T) {
	next, asked := New(), 0
	text := []byte("a: b\n")
	for i := range 50 {
		w := Work{Path: fmt.Sprintf("works/m%d/default/configmap_a.yaml", i), Member: fmt.Sprintf("m%d", i), Hash: canonical.Blob(text)}
		w.Text = func() []byte { asked++; return slices.Clone(text) }
		next.Works[w.Path] = w
	}
	files, err := Diff(New(), next)
	if err != nil || len(files) < 50 || asked != 1 {
		t.Errorf("%d files, whose text was made %d times, %v", len(files), asked, err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Path, "works/") && string(f.Data) != string(text) {
			t.Errorf("%s is %q", f.Path, f.Data)
		}
	}
}

func TestPathsAreReadBack(t *testing.T) {
	word := rapid.StringMatching(`[a-zA-Z0-9:._%-]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		key := BindingKey{rapid.OneOf(rapid.Just(""), word).Draw(t, "namespace"), word.Draw(t, "name")}
		if got, ok := BindingAt(key.Path()); !ok || got != key {
			t.Errorf("BindingAt(%s) = %v, %t, want %v", key.Path(), got, ok, key)
		}
		member := word.Draw(t, "member")
		if got, ok := ClusterAt(ClusterPath(member)); !ok || got != member {
			t.Errorf("ClusterAt(%s) = %q, %t, want %q", ClusterPath(member), got, ok, member)
		}
		id := api.ID{Group: rapid.OneOf(rapid.Just(""), rapid.Just("apps")).Draw(t, "group"), Version: "v1",
			Kind: rapid.StringMatching(`[A-Z][a-z]{1,6}`).Draw(t, "kind"), Namespace: key.Namespace, Name: key.Name}
		for _, path := range []string{WorkPath(member, id), RetiredPath(member, id)} {
			got, ok := PlaceOf(path)
			want := Place{Member: member, Retired: strings.HasPrefix(path, "retired/"), Kind: strings.ToLower(id.Kind), Namespace: id.Namespace, Name: id.Name, Binding: BindingOf(id)}
			if !ok || got != want {
				t.Errorf("PlaceOf(%s) = %+v, %t, want %+v", path, got, ok, want)
			}
		}
	})
	for _, path := range []string{"", "state.yaml", "bindings", "bindings/a.yaml", "bindings/a/b", "bindings/A/b.yaml", "bindings/a/b/c.yaml",
		"clusters", "clusters/M.yaml", "works/m", "works/m/n", "works/m/n/kind.yaml", "works/m/n/a_b/c.yaml", "works/m/n/a_b", "other/m/n/a_b.yaml"} {
		if key, ok := BindingAt(path); ok {
			t.Errorf("BindingAt(%q) = %v", path, key)
		}
		if member, ok := ClusterAt(path); ok {
			t.Errorf("ClusterAt(%q) = %q", path, member)
		}
		if p, ok := PlaceOf(path); ok {
			t.Errorf("PlaceOf(%q) = %+v", path, p)
		}
	}
}

// An approval that cannot be used approves nothing, and neither does what stands beside it.
func TestApprovals(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	good := Approval{Cluster: "m1", Works: []string{"works/m1/default/a_b.yaml", "works/m1/default/a_c.yaml"}, Time: since, By: "Ada"}
	for _, test := range []struct {
		name     string
		approval Approval
		problem  string
	}{
		{"good", good, ""},
		{"no works", Approval{Cluster: "m1"}, "approvals[0].works: an approval names the works"},
		{"another member", Approval{Cluster: "m2", Works: good.Works}, "is no work of"},
		{"no work", Approval{Cluster: "m1", Works: []string{"retired/m1/default/a_b.yaml"}}, "is no work of"},
		{"not sorted", Approval{Cluster: "m1", Works: []string{good.Works[1], good.Works[0]}}, "not sorted"},
	} {
		s := someState()
		s.Meta.Approvals = []Approval{test.approval, good}
		got, problems, err := Decode(written(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if test.problem == "" {
			if len(problems) > 0 || len(got.Meta.Approvals) != 2 || !got.Meta.Approvals[0].same(test.approval) {
				t.Errorf("%s: decoded %v with problems %v", test.name, got.Meta.Approvals, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), test.problem) || len(got.Meta.Approvals) > 0 {
			t.Errorf("%s: problems %v and approvals %v, want %q and none", test.name, problems, got.Meta.Approvals, test.problem)
		}
	}
	m := Meta{Approvals: []Approval{{Cluster: "m1", Works: []string{"works/m1/default/a_a.yaml"}}, good}}
	if by, ok := m.DeletionApproved(good.Works[1]); !ok || by != "Ada" {
		t.Errorf("DeletionApproved = %q, %t", by, ok)
	}
	if _, ok := m.DeletionApproved("works/m1/default/a_d.yaml"); ok {
		t.Error("a deletion that no approval names is approved")
	}
}
