package decide_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render"
	"github.com/godwit-gitops/godwit/render/rendertest"
	"github.com/godwit-gitops/godwit/render/work"
)

// tree is a source tree that knows the hashes of its files and folders.
type tree struct {
	fstest.MapFS
	hashes map[string]string
}

func newTree(files fstest.MapFS) *tree {
	t := &tree{files, map[string]string{}}
	below := map[string][]string{}
	for name, f := range files {
		sum := sha256.Sum256(f.Data)
		t.hashes[name] = hex.EncodeToString(sum[:])
		for dir := name; dir != "."; {
			dir = path.Dir(dir)
			below[dir] = append(below[dir], name+"\x00"+t.hashes[name])
		}
	}
	for dir, lines := range below {
		slices.Sort(lines)
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		t.hashes[dir] = hex.EncodeToString(sum[:])
	}
	return t
}

func (t *tree) Hash(name string) (string, error) {
	if h, ok := t.hashes[name]; ok {
		return h, nil
	}
	return "", fs.ErrNotExist
}

// start is the clock of the first pass of every story.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a source that changes, the state branch that follows, and the members that are seen.
type world struct {
	testing.TB
	now     time.Time
	source  gitstate.Snapshot
	past    map[string]fs.FS
	state   *record.State
	branch  fstest.MapFS
	seen    decide.Observations
	options decide.Options
	answers *decide.Answers
	// registered is what the management cluster says; nil means that nobody asks it.
	registered *decide.Registrations
	memo       *decide.Memo
	pushes     int
	edited     map[record.BindingKey]time.Time // by people since the last pass
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, now: start, state: record.New(), past: map[string]fs.FS{}, branch: fstest.MapFS{}, memo: decide.NewMemo(),
		options: decide.Options{MaxDeletePercent: 100, SecretKey: []byte("key")}}
}

// push is the next commit of the source: rendertest.Source's files, or a base with changes laid over it.
func (w *world) push(text string, over ...string) *decide.Decision {
	w.Helper()
	w.pushes++
	files := rendertest.Source(text)
	for _, o := range over {
		for name, f := range rendertest.Source(o) {
			if len(bytes.TrimSpace(f.Data)) == 0 {
				delete(files, name)
			} else {
				files[name] = f
			}
		}
	}
	revision := fmt.Sprintf("c%d", w.pushes)
	w.source = gitstate.Snapshot{Revision: gitstate.Revision(revision), Branch: "main", FS: newTree(files)}
	w.past[revision] = w.source.FS
	return w.pass()
}

// approve is a commit with the same files whose message approves deletions.
func (w *world) approve() *decide.Decision {
	w.Helper()
	w.source.Message = "clean up\n\nGodwit-Approve: delete\n"
	return w.pass()
}

// pass decides, checks what holds for every decision, and takes the result over.
func (w *world) pass() *decide.Decision {
	w.Helper()
	d := w.next(w.state, w.memo)
	if diff := gocmp.Diff(w.account(w.next(w.state, nil)), w.account(d)); diff != "" {
		w.Fatalf("without and with a memo (-without +with):\n%s", diff)
	}
	checkDecision(w, d)
	w.edited = nil
	if d.Commit != nil {
		w.apply(d.Commit.Files)
	}
	w.sameTerms(d)
	previous := w.state
	w.state = d.Next
	for _, kept := range []struct {
		name  string
		state *record.State
	}{{"in memory", d.Next}, {"read back", w.readBack()}} {
		if again := w.next(kept.state, nil); again.Commit != nil {
			w.Fatalf("deciding again on the state %s changes it: %s\n%s", kept.name, again.Commit.Subject, filesText(again.Commit.Files))
		}
	}
	if d.Commit == nil && previous != nil {
		if left, err := record.Diff(previous, d.Next); err != nil || len(left) > 0 {
			w.Fatalf("no commit, and yet the state differs: %v %s", err, filesText(left))
		}
	}
	return d
}

// sameTerms holds for every decision: who reads a work from the branch gets the terms that it has here. Secrets are not
// for readers, and a work whose binding is gone, as its deletion is held, has those of another time.
func (w *world) sameTerms(d *decide.Decision) {
	w.Helper()
	read := w.readBack()
	for path, made := range d.Next.Works {
		key := record.BindingOf(made.ID)
		if made.Object == nil || work.IsSecret(made.ID) || work.BindingOf(made.Object) != "" && read.Bindings[key] == nil {
			continue
		}
		known, err := record.Identify(read.Works[path])
		if err != nil {
			w.Fatal(err)
		}
		got := decide.Terms(known, read.Bindings[key])
		if got.Overwrite != made.Overwrite || got.Suspended != made.Suspended || got.Preserve != made.Preserve {
			w.Errorf("%s read from the branch has the terms overwrite %t, suspended %t, preserve %t; decided was %t, %t, %t",
				path, got.Overwrite, got.Suspended, got.Preserve, made.Overwrite, made.Suspended, made.Preserve)
		}
	}
}

func (w *world) next(previous *record.State, memo *decide.Memo) *decide.Decision {
	w.Helper()
	d, err := decide.Next(decide.Input{Source: w.source, Past: w.past, Previous: previous, Edited: w.edited, Seen: w.seen, Registered: w.registered, Now: w.now, Options: w.options, Answers: w.answers, Memo: memo})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) apply(changes []record.File) {
	branch := fstest.MapFS{}
	for name, f := range w.branch {
		branch[name] = f
	}
	for _, f := range changes {
		if f.Data == nil {
			if branch[f.Path] == nil {
				w.Errorf("the commit removes %s, which is not on the branch", f.Path)
			}
			delete(branch, f.Path)
			continue
		}
		branch[f.Path] = &fstest.MapFile{Data: f.Data}
	}
	w.branch = branch
}

// readBack is the state as another process would read it from the branch.
func (w *world) readBack() *record.State {
	w.Helper()
	state, problems, err := record.Decode(w.branch)
	if err != nil || len(problems) > 0 {
		w.Fatalf("the state branch does not read back: %v %v", err, problems)
	}
	return state
}

// restart forgets everything that is not on the state branch.
func (w *world) restart() {
	w.Helper()
	w.state, w.memo = w.readBack(), decide.NewMemo()
}

// revert is a person's commit now that gives a binding back what it was on an earlier branch.
func (w *world) revert(binding string, branch fstest.MapFS) {
	w.Helper()
	namespace, name, _ := strings.Cut(binding, "/")
	key := record.BindingKey{Namespace: namespace, Name: name}
	w.apply([]record.File{{Path: key.Path(), Data: branch[key.Path()].Data}})
	w.state, w.edited = w.readBack(), map[record.BindingKey]time.Time{key: w.now}
}

// checkDecision holds for every decision.
func checkDecision(t testing.TB, d *decide.Decision) {
	t.Helper()
	for p, work := range d.Next.Works {
		if _, retired := d.Next.Retired[strings.Replace(p, "works/", "retired/", 1)]; retired {
			t.Errorf("%s is wanted and retired", p)
		}
		if work.Path != p {
			t.Errorf("the work at %s says that it is at %s", p, work.Path)
		}
	}
	for _, row := range d.Bindings {
		if row.Change != decide.Removed && d.Next.Bindings[row.Key] == nil {
			t.Errorf("row %s (%s) has no binding", row.Key, row.Change)
		}
	}
	if len(d.Next.Bindings) > len(d.Bindings) {
		t.Errorf("%d bindings, %d rows", len(d.Next.Bindings), len(d.Bindings))
	}
	if !slices.IsSortedFunc(d.Works, func(a, b decide.WorkRow) int { return cmp.Compare(a.Path, b.Path) }) {
		t.Errorf("works are not sorted: %v", d.Works)
	}
	if !slices.IsSortedFunc(d.Findings, render.Finding.Compare) {
		t.Errorf("findings are not sorted: %v", d.Findings)
	}
}

// account is all that a decision says, as text.
func (w *world) account(d *decide.Decision) map[string]string {
	texts := written(d)
	if texts == nil {
		texts = map[string]string{}
	}
	for _, b := range d.Bindings {
		texts["row "+b.Key.String()] = fmt.Sprintf("%s %s %s -> %s %q %q %v %v", b.Change, b.Reason, clustersText(b.Previous), clustersText(b.Clusters), b.Failure, b.Message, b.DependencyOf, b.RenderErrors)
	}
	for path, work := range d.Next.Works {
		texts["terms "+path] = fmt.Sprint(work.Hash, work.Overwrite, work.Suspended, work.Preserve)
	}
	texts["unbound"] = strings.Join(unbound(d), "\n")
	texts["findings"] = fmt.Sprint(d.Findings)
	texts["held"] = fmt.Sprint(d.Held)
	texts["wake"] = fmt.Sprint(d.Wake)
	texts["heard"] = fmt.Sprintf("%x", d.Heard)
	for _, u := range d.Unanswered {
		texts["unanswered"] += fmt.Sprintf("%x %s %t\n", u.Key, u.Message(), u.Due)
	}
	if d.Commit != nil {
		texts["subject"], texts["body"] = d.Commit.Subject, d.Commit.Body
	}
	return texts
}

// written are the files of a commit as text, state.yaml included.
func written(d *decide.Decision) map[string]string {
	if d.Commit == nil {
		return nil
	}
	texts := map[string]string{}
	for _, f := range d.Commit.Files {
		texts[f.Path] = string(f.Data)
	}
	return texts
}

func filesText(files []record.File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "== %s\n%s", f.Path, f.Data)
	}
	return b.String()
}

// placed is where the binding of a template runs: "m1=2 m2=1", "-" for nowhere, "none" without a binding.
func (w *world) placed(binding string) string {
	w.Helper()
	b := w.binding(binding)
	if b == nil {
		return "none"
	}
	return clustersText(b.Spec.Clusters)
}

func clustersText(clusters []workv1alpha2.TargetCluster) string {
	var words []string
	for _, c := range clusters {
		word := c.Name
		if c.Replicas > 0 {
			word += fmt.Sprintf("=%d", c.Replicas)
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return cmp.Or(strings.Join(words, " "), "-")
}

func (w *world) binding(name string) *workv1alpha2.ResourceBinding {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "", namespace
	}
	return w.state.Bindings[record.BindingKey{Namespace: namespace, Name: name}]
}

// works lists the paths of works below a prefix, without "works/" and ".yaml".
func (w *world) works() []string { return short(w.state.Works, "works/") }

func (w *world) retired() []string { return short(w.state.Retired, "retired/") }

func short[V any](m map[string]V, prefix string) []string {
	names := []string{}
	for p := range m {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(p, prefix), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// text is the file of a work on the branch.
func (w *world) text(name string) string {
	w.Helper()
	f := w.branch["works/"+name+".yaml"]
	if f == nil {
		w.Fatalf("no work %s; there are %v", name, w.works())
	}
	return string(f.Data)
}

// want compares a value with what it should be.
func want[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// codes are the findings as "severity code file".
func codes(d *decide.Decision) []string {
	list := []string{}
	for _, f := range d.Findings {
		list = append(list, fmt.Sprintf("%s %s %s", f.Severity, f.Code, cmp.Or(f.File, f.Object)))
	}
	return slices.Compact(list)
}

// quiet fails the test if a pass decides anything.
func (w *world) quiet(d *decide.Decision) {
	w.Helper()
	if d.Commit != nil {
		w.Fatalf("a commit where nothing is to be decided: %s\n%s", d.Commit.Subject, filesText(d.Commit.Files))
	}
}

// row is what the decision says of a binding.
func row(t testing.TB, d *decide.Decision, binding string) decide.BindingRow {
	t.Helper()
	for _, r := range d.Bindings {
		if r.Key.String() == binding {
			return r
		}
	}
	t.Fatalf("no row for %s", binding)
	return decide.BindingRow{}
}

// unbound are the templates that run nowhere, with why.
func unbound(d *decide.Decision) []string {
	list := []string{}
	for _, u := range d.Unbound {
		list = append(list, u.Template.String()+": "+u.Message)
	}
	return list
}

// look lets members be seen: ready since the start, serving everything.
func (w *world) look(members ...string) {
	for _, m := range members {
		w.facts(m, func(f *decide.MemberFacts) {
			f.Ready, f.Reason, f.Since, f.UID = metav1.ConditionTrue, "ClusterReady", start, "uid-"+m
			f.APIs, f.APIsComplete = serves, true
		})
	}
}

var serves = []clusterv1alpha1.APIEnablement{
	{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
	{GroupVersion: "batch/v1", Resources: []clusterv1alpha1.APIResource{{Name: "jobs", Kind: "Job"}}},
	{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}, {Name: "secrets", Kind: "Secret"}}},
}

func apis(version, kind string) clusterv1alpha1.APIEnablement {
	return clusterv1alpha1.APIEnablement{GroupVersion: version, Resources: []clusterv1alpha1.APIResource{{Name: strings.ToLower(kind) + "s", Kind: kind}}}
}

// facts changes what is seen of one member.
func (w *world) facts(member string, change func(*decide.MemberFacts)) {
	members := map[string]decide.MemberFacts{}
	for name, f := range w.seen.Members {
		members[name] = f
	}
	f := members[member]
	copies := map[api.ID]decide.CopyFacts{}
	for id, c := range f.Copies {
		copies[id] = c
	}
	f.Copies = copies
	change(&f)
	members[member] = f
	w.seen = decide.Observations{Members: members}
}

// applied lets a member say that it holds every work that is meant for it, as the work is.
func (w *world) applied(member string) {
	w.facts(member, func(f *decide.MemberFacts) {
		for _, work := range w.state.Works {
			if work.Member == member {
				f.Copies[work.ID.Unversioned()] = decide.CopyFacts{Applied: decide.HashText(work.Hash), Live: work.Object}
			}
		}
	})
}

// gone lets a member confirm that nothing is left of what is retired on it.
func (w *world) gone(member string) {
	w.facts(member, func(f *decide.MemberFacts) {
		for _, r := range w.state.Retired {
			if r.Cluster == member {
				f.Copies[r.Object.ID().Unversioned()] = decide.CopyFacts{Gone: true}
			}
		}
	})
}

// cluster is the text of a member's registration.
func cluster(name, labels string) string {
	return fmt.Sprintf("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: %s, labels: {%s}}\nspec: {syncMode: Push}\n", name, labels)
}

// fleet is a file of members m1..mn, each labelled n: "<number>".
func fleet(n int) string {
	var b strings.Builder
	b.WriteString("== clusters.yaml ==\n")
	for i := 1; i <= n; i++ {
		b.WriteString("---\n" + cluster(fmt.Sprintf("m%d", i), fmt.Sprintf(`n: "%d"`, i)))
	}
	return b.String()
}

func taintKeys(c *clusterv1alpha1.Cluster) []string {
	list := []string{}
	for _, t := range c.Spec.Taints {
		since := "-"
		if t.TimeAdded != nil {
			since = t.TimeAdded.UTC().Format(time.TimeOnly)
		}
		list = append(list, fmt.Sprintf("%s:%s %s", t.Key, t.Effect, since))
	}
	return list
}

// file is one file of a source with these documents.
func file(name string, documents ...string) string {
	return "== " + name + " ==\n" + strings.Join(documents, "---\n")
}

func deployment(name string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s}}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
`, name, replicas)
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default, labels: {app: %[1]s}}\ndata: {key: %q}\n", name, value)
}

// policyFor is a PropagationPolicy for one object of the namespace default, "Deployment web" or all
// of a kind; spec are more fields in one line.
func policyFor(name, object, spec string) string {
	kind, object, _ := strings.Cut(object, " ")
	version := map[string]string{"Deployment": "apps/v1", "Job": "batch/v1", "Role": "rbac.authorization.k8s.io/v1"}[kind]
	if object != "" {
		object = ", name: " + object
	}
	return fmt.Sprintf("apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: %s, namespace: default}\nspec: {resourceSelectors: [{apiVersion: %s, kind: %s%s}], %s}\n",
		name, cmp.Or(version, "v1"), kind, object, spec)
}

// everywhere, only and divided are placements.
const everywhere = "placement: {}"

func only(members string) string {
	return "placement: {clusterAffinity: {clusterNames: [" + members + "]}}"
}

const divided = "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}"
