package decide_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	policyv1alpha1 "github.com/godwit-gitops/godwit/api/policy/v1alpha1"
	"github.com/godwit-gitops/godwit/gitstate"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// Generated fleets are small, so that random edits hit what matters: few names, few members, and
// policies that overlap.
var (
	genMember   = rapid.SampledFrom([]string{"m1", "m2", "m3", "m4"})
	genName     = rapid.SampledFrom([]string{"a", "b", "c"})
	genReplicas = rapid.IntRange(0, 7)
	genKind     = rapid.SampledFrom([]string{"Deployment", "Deployment", "ConfigMap", "Secret"})
)

func pick(t *rapid.T, label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }

func genCluster(t *rapid.T, name string) string {
	taint := pick(t, "taint", "", "", "", `, taints: [{key: x, effect: NoSchedule}]`, `, taints: [{key: x, effect: NoExecute}]`)
	return strings.Replace(cluster(name, fmt.Sprintf("group: %s", pick(t, "group", "g1", "g2"))), "syncMode: Push", "syncMode: Push"+taint, 1)
}

func genTemplate(t *rapid.T, name string) string {
	switch kind := genKind.Draw(t, "kind"); kind {
	case "Deployment":
		text := deployment(name, genReplicas.Draw(t, "replicas"))
		if rapid.Bool().Draw(t, "mounts") {
			text = strings.Replace(text, "spec: {containers", "spec: {volumes: [{name: v, configMap: {name: "+genName.Draw(t, "configMap")+"}}], containers", 1)
		}
		if rapid.Bool().Draw(t, "defaulted") {
			text = strings.Replace(text, "namespace: default, ", "", 1)
		}
		return text
	case "Secret":
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: default}\nstringData: {p: %q}\n", name, pick(t, "value", "one", "two"))
	}
	return strings.ReplaceAll(configMap(name, pick(t, "value", "one", "two")), "namespace: default", "namespace: "+pick(t, "namespace", "default", "default", "team"))
}

func genPolicy(t *rapid.T, name string) string {
	placement := pick(t, "affinity", "", "clusterAffinity: {labelSelector: {matchLabels: {group: g1}}}, ", "clusterAffinity: {clusterNames: [m1, m3]}, ")
	switch pick(t, "division", "duplicated", "static", "dynamic") {
	case "static":
		placement += "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [m1]}, weight: 2}, {targetCluster: {clusterNames: [m2, m3]}, weight: 1}]}}, "
	case "dynamic":
		placement += "replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}, "
	}
	placement += pick(t, "tolerations", "", "clusterTolerations: [{key: x, operator: Exists}], ")
	more := pick(t, "terms", "", ", propagateDeps: true", ", priority: 1", ", priority: 2, preemption: Always", ", activationPreference: Lazy",
		", preserveResourcesOnDeletion: true", ", suspension: {dispatching: true}", ", conflictResolution: Overwrite")
	object := genKind.Draw(t, "kind") + pick(t, "named", "", " "+genName.Draw(t, "name"))
	text := policyFor(name, object, "placement: {"+strings.TrimSuffix(placement, ", ")+"}"+more)
	if rapid.Bool().Draw(t, "cluster-wide") {
		text = strings.Replace(strings.Replace(text, "PropagationPolicy", "ClusterPropagationPolicy", 1), ", namespace: default", "", 1)
	}
	return text
}

func genOverride(t *rapid.T, name string) string {
	rule := pick(t, "rule", `imageOverrider: [{component: Tag, operator: replace, value: "9"}]`, `labelsOverrider: [{operator: add, value: {over: ridden}}]`,
		`plaintext: [{path: /spec/nowhere/deep, operator: replace, value: 1}]`, `plaintext: [{path: /metadata/annotations/x, operator: add, value: y1}]`)
	return override(name, "{targetCluster: {clusterNames: ["+genMember.Draw(t, "member")+"]}, overriders: {"+rule+"}}")
}

// genFile is one file of a fleet and its content, empty where it goes.
func genFile(t *rapid.T) (name, text string) {
	object := genName.Draw(t, "file")
	switch pick(t, "what", "template", "template", "template", "policy", "policy", "override", "member", "broken", "gone") {
	case "template":
		return "templates/" + object + ".yaml", genTemplate(t, object)
	case "policy":
		return "policies/" + object + ".yaml", genPolicy(t, object)
	case "override":
		return "overrides/" + object + ".yaml", genOverride(t, object)
	case "member":
		m := genMember.Draw(t, "member")
		if m == "m1" {
			return "clusters/m1.yaml", genCluster(t, m)
		}
		return "clusters/" + m + ".yaml", pick(t, "registered", genCluster(t, m), "")
	case "broken":
		return pick(t, "dir", "templates/", "policies/", "overrides/") + object + ".yaml", pick(t, "how", brokenYAML, policyFor("a", "ConfigMap", "placement: {nothing: 1}"), configMap("a", "twice"))
	}
	return pick(t, "dir", "templates/", "policies/", "overrides/") + object + ".yaml", ""
}

func genFleet(t *rapid.T) fstest.MapFS {
	files := fstest.MapFS{}
	for _, m := range []string{"m1", "m2", "m3"} {
		files["clusters/"+m+".yaml"] = &fstest.MapFile{Data: []byte(genCluster(t, m))}
	}
	for range rapid.IntRange(2, 8).Draw(t, "files") {
		edit(t, files)
	}
	return files
}

func edit(t *rapid.T, files fstest.MapFS) {
	name, text := genFile(t)
	if text == "" {
		delete(files, name)
		return
	}
	files[name] = &fstest.MapFile{Data: []byte(text)}
}

// see changes what is observed.
func (w *world) see(t *rapid.T) {
	m := genMember.Draw(t, "member")
	switch pick(t, "seen", "ready", "down", "applied", "gone", "failed", "nothing") {
	case "ready":
		w.look(m)
	case "down":
		w.facts(m, func(f *decide.MemberFacts) { f.Ready, f.Since = metav1.ConditionFalse, w.now })
	case "applied":
		w.applied(m)
	case "gone":
		w.gone(m)
	case "failed":
		w.facts(m, func(f *decide.MemberFacts) {
			f.Copies[configMapC] = decide.CopyFacts{Reason: decide.ReasonFailed, Message: "no"}
		})
	}
}

// quietTB lets a rapid test use a world.
type quietTB struct {
	testing.TB
	t *rapid.T
}

func (q quietTB) Helper()                           {}
func (q quietTB) Errorf(format string, args ...any) { q.t.Helper(); q.t.Errorf(format, args...) }
func (q quietTB) Fatalf(format string, args ...any) { q.t.Helper(); q.t.Fatalf(format, args...) }
func (q quietTB) Fatal(args ...any)                 { q.t.Helper(); q.t.Fatal(args...) }

// Over random edits of the source and random news of the members, and restarts in between: every
// pass gives with and without a Memo the same decision, deciding again changes nothing, whether the
// state is in memory or read back (world.pass checks these), and the laws below hold.
func TestRandomEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(quietTB{t, rt})
		w.options.MaxDeletePercent = rapid.SampledFrom([]int{100, 50}).Draw(rt, "brake")
		w.options.SecretKey = []byte(pick(rt, "key", "key", ""))
		w.options.StatusInterval = time.Duration(rapid.SampledFrom([]int{0, 30}).Draw(rt, "interval")) * time.Second
		if rapid.Bool().Draw(rt, "seen") {
			w.look("m1", "m2", "m3", "m4")
		}
		files := genFleet(rt)
		for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "later")) * time.Second)
			switch pick(rt, "step", "edit", "edit", "edit", "see", "restart", "forget") {
			case "edit":
				edit(rt, files)
			case "see":
				w.see(rt)
			case "restart":
				if w.state != nil {
					w.restart()
				}
			case "forget":
				w.past = map[string]fs.FS{}
			}
			w.commit(maps.Clone(files), fmt.Sprintf("c%d", i))
			checkLaws(rt, w.pass())
		}
	})
}

func (w *world) commit(files fstest.MapFS, revision string) {
	w.source = gitstate.Snapshot{Revision: gitstate.Revision(revision), FS: newTree(files)}
	w.past[revision] = w.source.FS
}

func checkLaws(t *rapid.T, d *decide.Decision) {
	for _, row := range d.Bindings {
		b := d.Next.Bindings[row.Key]
		if b == nil {
			continue
		}
		// Divided replicas add up, or the binding says why they do not.
		if p := b.Spec.Placement; p != nil && p.ReplicaScheduling != nil && p.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided &&
			b.Spec.Policy != nil && b.Spec.Replicas > 0 && row.Failure == "" && row.Change != decide.Unchanged {
			sum := int32(0)
			for _, c := range b.Spec.Clusters {
				sum += c.Replicas
			}
			if sum != b.Spec.Replicas && len(b.Spec.Clusters) > 0 {
				t.Errorf("%s: %d replicas divided as %s", row.Key, b.Spec.Replicas, clustersText(b.Spec.Clusters))
			}
		}
		// A binding runs where the schedule put it, or what needs it runs; a new work nowhere else.
		allowed := map[string]bool{}
		for _, c := range b.Spec.Clusters {
			allowed[c.Name] = true
		}
		for _, by := range b.Spec.RequiredBy {
			for _, c := range by.Clusters {
				allowed[c.Name] = true
			}
		}
		for _, w := range d.Works {
			if w.Change != decide.Removed && w.ID.Unversioned() == row.Template.Unversioned() && !allowed[w.Cluster] && !isNamespace(w) {
				t.Errorf("%s: a work on %s, which the schedule did not choose: %v", row.Key, w.Cluster, slices.Sorted(maps.Keys(allowed)))
			}
		}
	}
	for _, w := range d.Works {
		if w.Change == decide.Added && d.Next.Members[w.Cluster] == nil {
			t.Errorf("a work on %s, which is no member", w.Cluster)
		}
	}
}

func isNamespace(w decide.WorkRow) bool { return w.ID.Kind == "Namespace" }

// Nothing depends on the names of files, the order of documents, or the order of maps.
func TestOrderOfFilesAndDocumentsIsIrrelevant(t *testing.T) {
	var documents []string
	for i := range 4 {
		documents = append(documents, cluster(fmt.Sprintf("m%d", i), fmt.Sprintf("group: g%d", i%2)))
	}
	for i := range 8 {
		name := fmt.Sprintf("a%d", i)
		documents = append(documents, mounting(name, fmt.Sprintf("c%d", i%3)), configMap(fmt.Sprintf("c%d", i), "x"))
	}
	documents = append(documents,
		policyFor("p1", "Deployment", divided+", propagateDeps: true"), policyFor("p2", "Deployment", everywhere), policyFor("p3", "Deployment a1", only("m1, m2")),
		policyFor("p4", "ConfigMap", "placement: {clusterAffinity: {labelSelector: {matchLabels: {group: g1}}}}"),
		override("o1", "{overriders: {labelsOverrider: [{operator: add, value: {a: b, c: d, e: f}}]}}"),
		override("o2", "{targetCluster: {clusterNames: [m1]}, overriders: {imageOverrider: [{component: Tag, operator: add, value: x}]}}"))
	random := rand.New(rand.NewPCG(1, 2))
	var first map[string]string
	for i := range 100 {
		random.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		files := fstest.MapFS{}
		for rest := documents; len(rest) > 0; {
			n := min(1+random.IntN(4), len(rest))
			files[fmt.Sprintf("d%d/f%03d.yaml", random.IntN(3), random.IntN(1000)+1000*len(rest))] = &fstest.MapFile{Data: []byte(strings.Join(rest[:n], "---\n"))}
			rest = rest[n:]
		}
		d, err := decide.Next(decide.Input{Source: gitstate.Snapshot{Revision: "c1", FS: newTree(files)}, Now: start})
		if err != nil {
			t.Fatal(err)
		}
		got := written(d)
		got["subject"], got["body"] = d.Commit.Subject, d.Commit.Body
		if i == 0 {
			first = got
		} else if diff := gocmp.Diff(first, got); diff != "" {
			t.Fatalf("shuffle %d (-first +now):\n%s", i, diff)
		}
	}
}
