package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/godwit-gitops/godwit/api/canonical"
	"github.com/godwit-gitops/godwit/gitstate/record"
	"github.com/godwit-gitops/godwit/reconciler/report"
)

// branch is a tree of the state branch that knows hashes and counts what is read.
type branch struct {
	fstest.MapFS
	read *[]string
}

func (b branch) Hash(name string) (string, error) {
	f, ok := b.MapFS[name]
	if !ok {
		return "", &fs.PathError{Op: "hash", Path: name, Err: fs.ErrNotExist}
	}
	return fmt.Sprintf("%x", canonical.Blob(f.Data)), nil
}

func (b branch) ReadFile(name string) ([]byte, error) {
	*b.read = append(*b.read, name)
	return b.MapFS.ReadFile(name)
}

// chronicle is a state branch as it grows.
type chronicle struct {
	commits []report.Recorded // newest first
	tree    fstest.MapFS
	read    []string
}

// commit adds one; an empty text removes the file. A message is "subject" or "subject|Key: value|Key: value".
func (c *chronicle) commit(message string, files map[string]string) {
	next := maps.Clone(c.tree)
	if next == nil {
		next = fstest.MapFS{}
	}
	words := strings.Split(message, "|")
	r := report.Recorded{
		Commit: fmt.Sprintf("%040d", len(c.commits)+1), Subject: words[0], Author: "Ada <ada@example.com>",
		When: noon.Add(time.Duration(len(c.commits)) * time.Minute), Trailers: map[string]string{},
		Before: branch{c.tree, &c.read}, After: branch{next, &c.read},
	}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, ": ")
		r.Trailers[key] = value
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := report.RecordedFile{Path: path}
		if old, ok := c.tree[path]; ok {
			f.Before = record.Hash(canonical.Blob(old.Data))
		}
		delete(next, path)
		if text := files[path]; text != "" {
			next[path] = &fstest.MapFile{Data: []byte(text)}
			f.After = record.Hash(canonical.Blob([]byte(text)))
		}
		r.Files = append(r.Files, f)
	}
	c.tree = next
	c.commits = append([]report.Recorded{r}, c.commits...)
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func (c *chronicle) history(t *testing.T, q report.HistoryQuery) []report.Entry {
	t.Helper()
	h := report.NewHistory(q)
	var all []report.Entry
	for _, r := range c.commits {
		entries, done, err := h.Of(r)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, entries...); done {
			break
		}
	}
	return all
}

// lines are the entries in short: commit, reason, binding or member, from, to, author and message.
func lines(entries []report.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		var sides []string
		for _, side := range [][]report.Target{e.From, e.To} {
			var words []string
			for _, t := range side {
				words = append(words, fmt.Sprintf("%s=%d", t.Name, t.Replicas))
			}
			sides = append(sides, strings.Join(words, ","))
		}
		fmt.Fprintf(&b, "%s %s %s%s [%s > %s] %s\n", strings.TrimLeft(e.Commit, "0"), e.Reason, e.Binding, e.Cluster, sides[0], sides[1], e.Message)
	}
	return b.String()
}

const webFile = "bindings/default/web-deployment.yaml"

// binding is the file of the binding of a Deployment; more is further lines of its spec.
func bindingFile(name, clusters string, more ...string) string {
	return "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: " + name + "-deployment, namespace: default}\nspec:\n" +
		"  resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: " + name + "}\n  clusters: [" + clusters + "]\n" + strings.Join(more, "\n") + "\n"
}

func clusterFile(name, ready, more string) string {
	return "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec: {syncMode: Push" + more + "}\n" +
		"status: {conditions: [{type: Ready, status: \"" + ready + "\", reason: NotReachable, message: no answer, lastTransitionTime: null}]}\n"
}

const ours = "|Godwit-Version: dev|Godwit-Time: 2026-01-01T11:00:00Z|Godwit-Source: abc|Godwit-Reason: "

func TestHistorySaysWhatEachCommitChanged(t *testing.T) {
	m2, m3 := "{name: m2, replicas: 4}", "{name: m3, replicas: 4}"
	task := "  gracefulEvictionTasks: [{fromCluster: m3, reason: TaintUntolerated, message: not ready, producer: TaintManager, purgeMode: Never, suppressDeletion: true}]"
	unfit := "status: {conditions: [{type: Scheduled, status: \"False\", reason: NoClusterFit, message: 2 refused it, lastTransitionTime: null}]}"
	healthy := "status: {aggregatedStatus: [{clusterName: m3, health: Healthy, applied: true}, {clusterName: m2}]}"
	for _, test := range []struct {
		name, before, after, want string
	}{
		{"added", "", bindingFile("web", m3), "[ > m3=4] added"},
		{"added and nowhere", "", bindingFile("web", "", unfit), "[ > ] added; NoClusterFit: 2 refused it"},
		{"removed", bindingFile("web", m3), "", "[m3=4 > ] removed"},
		{"moved", bindingFile("web", m3), bindingFile("web", m2), "[m3=4 > m2=4] moved"},
		{"scaled", bindingFile("web", m3), bindingFile("web", "{name: m3, replicas: 5}"), "[m3=4 > m3=5] scaled"},
		{"more is asked for", bindingFile("web", m3, "  replicas: 4"), bindingFile("web", "{name: m3, replicas: 5}", "  replicas: 5"), "[m3=4 > m3=5] replicas 4 to 5"},
		{"failover", bindingFile("web", m3), bindingFile("web", m2, task), "[m3=4 > m2=4] leaves m3 (TaintUntolerated: not ready)"},
		{"the copy may go", bindingFile("web", m2, task), bindingFile("web", m2, strings.Replace(task, "suppressDeletion: true", "suppressDeletion: false", 1)), "[m2=4 > m2=4] the copy on m3 may go"},
		{"left", bindingFile("web", m2, task), bindingFile("web", m2), "[m2=4 > m2=4] left m3"},
		{"avoided", bindingFile("web", m2), bindingFile("web", m2, "  activeEvictionHistory: [{clusterName: m3, creationTimestamp: null, reason: ApplicationFailure}]"), "[m2=4 > m2=4] m3 is avoided (ApplicationFailure)"},
		{"avoided no more", bindingFile("web", m2, "  activeEvictionHistory: [{clusterName: m3, creationTimestamp: null}]"), bindingFile("web", m2), "[m2=4 > m2=4] m3 is avoided no more"},
		{"fits no more", bindingFile("web", m3), bindingFile("web", m3, unfit), "[m3=4 > m3=4] NoClusterFit: 2 refused it"},
		{"blocked", bindingFile("web", m3), bindingFile("web", m3, strings.NewReplacer("Scheduled", "FailoverBlocked", `"False"`, `"True"`).Replace(unfit)), "[m3=4 > m3=4] FailoverBlocked True: 2 refused it"},
		{"blocked no more", bindingFile("web", m3, strings.Replace(unfit, "Scheduled", "FailoverBlocked", 1)), bindingFile("web", m3), "[m3=4 > m3=4] FailoverBlocked no more"},
		{"fits again", bindingFile("web", m3, unfit), bindingFile("web", m3, strings.NewReplacer(`"False"`, `"True"`, "NoClusterFit", "Success").Replace(unfit)), "[m3=4 > m3=4] scheduled again"},
		{"another policy", bindingFile("web", m3, "  policy: {kind: ClusterPropagationPolicy, name: a}"), bindingFile("web", m3, "  policy: {kind: PropagationPolicy, namespace: default, name: b}"), "[m3=4 > m3=4] from policy a to default/b"},
		{"terms", bindingFile("web", m3), bindingFile("web", m3, "  propagateDeps: true"), "[m3=4 > m3=4] terms changed"},
		{"a dependency", bindingFile("web", ""), bindingFile("web", "", "  requiredBy: [{namespace: default, name: shop-deployment, clusters: ["+m2+"]}]"), "[ > ] goes along with default/shop-deployment: m2=4"},
		{"a dependency of nothing", bindingFile("web", m2, "  requiredBy: [{name: shop-deployment, clusters: ["+m2+"]}]"), bindingFile("web", m2), "[m2=4 > m2=4] nothing needs it any more"},
		{"not ours to read", bindingFile("web", m3), "{", "[m3=4 > ] the file does not decode: "},
		{"to be read again", "{", bindingFile("web", m3), "[ > m3=4] the file decodes again"},
		{"status", bindingFile("web", m3), bindingFile("web", m3, healthy), ""},
		{"status, asked for", bindingFile("web", m3), bindingFile("web", m3, healthy), "[m3=4 > m3=4] m3 Healthy, m2 not applied"},
	} {
		c := &chronicle{}
		if test.before != "" {
			c.commit("before"+ours+"PolicyChange", map[string]string{webFile: test.before})
		}
		c.commit("what happened"+ours+"ClusterFailure", map[string]string{webFile: test.after})
		c.commits = c.commits[:1]
		got := lines(c.history(t, report.HistoryQuery{Status: strings.Contains(test.name, "asked for")}))
		got = strings.TrimPrefix(got, c.commits[0].Commit[39:]+" ClusterFailure default/web-deployment ")
		if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: history = %q, want %q", test.name, got, test.want)
		}
	}
}

// story is a record of all kinds of things.
func story() *chronicle {
	c := &chronicle{}
	meta := "apiVersion: godwit.dev/v1alpha1\nkind: State\nformatVersion: 1\n"
	c.commit("schedule: 2 bindings"+ours+"PolicyChange", map[string]string{
		webFile: bindingFile("web", "{name: m3, replicas: 4}"),
		"bindings/default/settings-configmap.yaml": strings.Replace(bindingFile("web", "{name: m3}", "  requiredBy: [{namespace: default, name: web-deployment}]"), "web-deployment", "settings-configmap", 1),
		"bindings/default/webapp-deployment.yaml":  bindingFile("webapp", "{name: m2}"),
		"clusters/m2.yaml":                         clusterFile("m2", "True", ""), "clusters/m3.yaml": clusterFile("m3", "True", ""),
		"works/m3/default/deployment.apps_web.yaml": "a: 1\n", "state.yaml": meta,
	})
	c.commit("cluster(m3): NotReady"+ours+"ClusterFailure", map[string]string{"clusters/m3.yaml": clusterFile("m3", "False", ""), "state.yaml": meta + "passTime: null\n"})
	c.commit("status: 1 objects"+ours+"Status", map[string]string{"clusters/m2.yaml": clusterFile("m2", "True", "") + "#\n"})
	c.commit("update(default/web-deployment): m3"+ours+"TemplateChange", map[string]string{"works/m3/default/deployment.apps_web.yaml": "a: 2\n", "works/m3/_cluster/namespace_default.yaml": "a: 1\n"})
	c.commit("hold(m3): the deletion of 4 objects"+ours+"Operator", map[string]string{"state.yaml": meta + "braked: [{member: m3, works: 5}]\n"})
	c.commit("approve: 1 deletion", map[string]string{"state.yaml": meta + "approvals: [{cluster: m3, works: [works/m3/default/deployment.apps_web.yaml], by: Ada, time: null}]\nbraked: [{member: m3, works: 5}]\n"})
	c.commit("purge(m3): 1 object gone"+ours+"PurgeDone", map[string]string{"state.yaml": meta, "retired/m3/default/deployment.apps_web.yaml": "x"})
	c.commit("purge(m3): 1 object gone"+ours+"PurgeDone", map[string]string{"retired/m3/default/deployment.apps_web.yaml": "", "works/m3/_cluster/namespace_default.yaml": ""})
	c.commit("taint"+ours+"Operator", map[string]string{"clusters/m3.yaml": clusterFile("m3", "True", ", taints: [{key: a, value: b, effect: NoSchedule}]")})
	c.commit("Revert \"everything\"", map[string]string{webFile: "", "clusters/m3.yaml": ""})
	brake := "failoverBrake: {since: \"2026-01-01T12:00:00Z\", message: all 2 members are down"
	c.commit("brake(fleet)"+ours+"ClusterFailure", map[string]string{"state.yaml": meta + brake + "}\n"})
	c.commit("approve: evictions that the brake holds", map[string]string{"state.yaml": meta + brake + ", approved: true}\n"})
	c.commit("brake(fleet)"+ours+"Status", map[string]string{"state.yaml": meta})
	c.commit("a note", map[string]string{"NOTES": "hello"})
	return c
}

func TestHistoryIsFiltered(t *testing.T) {
	const all = `14 Operator  [ > ] a note
13 Status  [ > ] evictions are held no more
12 Operator  [ > ] approve: evictions that the brake holds; evictions are approved
11 ClusterFailure  [ > ] evictions are held: all 2 members are down
10 Operator default/web-deployment [m3=4 > ] Revert "everything"; removed
10 Operator m3 [ > ] Revert "everything"; left
9 Operator m3 [ > ] Ready False to True; taint a=b:NoSchedule
8 PurgeDone default/web-deployment [m3=4 > m3=4] gone from m3
7 PurgeDone default/web-deployment [m3=4 > m3=4] to be deleted on m3
7 PurgeDone m3 [ > ] no deletions are held any more
6 Operator m3 [ > ] approve: 1 deletion; the deletion of 1 objects is approved by Ada
5 Operator m3 [ > ] deletions are held until they are approved
4 TemplateChange  [ > ] namespace default; updated on m3
4 TemplateChange default/web-deployment [m3=4 > m3=4] updated on m3
2 ClusterFailure m3 [ > ] Ready True to False (NotReachable: no answer)
1 PolicyChange default/settings-configmap [ > m3=0] added
1 PolicyChange default/web-deployment [ > m3=4] added
1 PolicyChange default/webapp-deployment [ > m2=0] added
1 PolicyChange m2 [ > ] joined; Ready - to True
1 PolicyChange m3 [ > ] joined; Ready - to True
`
	c := story()
	if diff := cmp.Diff(all, lines(c.history(t, report.HistoryQuery{}))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	status := lines(c.history(t, report.HistoryQuery{Status: true}))
	if want := "3 Status m2 [ > ] facts of the member\n"; strings.Replace(status, want, "", 1) != all {
		t.Errorf("with status:\n%s", status)
	}
	// A filter keeps lines as they are, and drops others.
	for _, test := range []struct {
		name string
		q    report.HistoryQuery
		keep func(line string) bool
	}{
		{"workload", report.HistoryQuery{Kind: "deploy", Name: "web"}, func(l string) bool {
			return strings.Contains(l, "/web-d") || strings.Contains(l, "/settings-") || strings.Contains(l, "is approved")
		}},
		{"dependency", report.HistoryQuery{Kind: "cm", Name: "settings", Namespace: "default"}, func(l string) bool { return strings.Contains(l, "/settings-") }},
		{"another namespace", report.HistoryQuery{Kind: "Deployment", Name: "web", Namespace: "other"}, func(string) bool { return false }},
		{"another kind", report.HistoryQuery{Kind: "StatefulSet", Name: "web"}, func(string) bool { return false }},
		{"member", report.HistoryQuery{Cluster: "m3"}, func(l string) bool { return !strings.Contains(l, "m2") && strings.Contains(l, "m3") }},
		{"the other member", report.HistoryQuery{Cluster: "m2"}, func(l string) bool { return strings.Contains(l, "m2") }},
		{"workload and member", report.HistoryQuery{Kind: "deployments", Name: "webapp", Cluster: "m3"}, func(string) bool { return false }},
		{"since", report.HistoryQuery{Since: noon.Add(-time.Hour)}, func(string) bool { return true }},
		{"since later", report.HistoryQuery{Since: noon}, func(l string) bool { return strings.Contains(l, "a note") }},
	} {
		want := ""
		for line := range strings.Lines(all) {
			if test.keep(line) {
				want += line
			}
		}
		if diff := cmp.Diff(want, lines(c.history(t, test.q))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A long record is read by what changed: each version of a file once, and no work.
func TestHistoryReadsEachVersionOnce(t *testing.T) {
	c := &chronicle{}
	const n = 20
	for i := range n {
		c.commit("update"+ours+"TemplateChange", map[string]string{
			webFile: bindingFile("web", fmt.Sprintf("{name: m1, replicas: %d}", i+1)),
			"works/m1/default/deployment.apps_web.yaml": fmt.Sprintf("replicas: %d\n", i),
		})
	}
	if got := len(c.history(t, report.HistoryQuery{})); got != n {
		t.Fatalf("%d lines, want %d", got, n)
	}
	if len(c.read) != n || slices.ContainsFunc(c.read, func(p string) bool { return p != webFile }) {
		t.Errorf("%d reads: %v, want %d of %s", len(c.read), c.read, n, webFile)
	}
}

func TestHistoryKeepsATerminalSafe(t *testing.T) {
	entries := []report.Entry{{
		Time: noon, Commit: strings.Repeat("a", 40), Reason: "Operator", Binding: "default/\x1b[31mweb\twide", Message: "one\nline |`x`|",
		Author: "Eve\x1b]0;title\x07 <e>", From: []report.Target{{Name: "m\u202e1", Replicas: 1}}, To: []report.Target{},
	}}
	var text bytes.Buffer
	if err := report.HistoryText(&text, report.Style{}, entries); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"text": text.String(), "markdown": report.HistoryMarkdown(entries)} {
		if strings.ContainsAny(got, "\x1b\x07\t\u202e") || strings.Count(got, "\n") != map[string]int{"text": 2, "markdown": 3}[name] {
			t.Errorf("%s: %q", name, got)
		}
	}
	if md := report.HistoryMarkdown(entries); strings.Count(strings.Split(md, "\n")[2], "|") != 8 {
		t.Errorf("a cell broke the table:\n%s", md)
	}
	raw, err := json.Marshal(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"time":"2026-01-01T12:00:00Z"`, `"from":[{"name":`, `"to":[]`, `"reason":"Operator"`, `"message":`} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("JSON %s has no %s", raw, want)
		}
	}
}

// A commit with a bad signature is always told of, also where it changed nothing that history knows.
func TestABadSignatureIsMarked(t *testing.T) {
	c := &chronicle{}
	c.commit("placed|Godwit-Version: 1", map[string]string{"works/m3/default/deployment.apps_web.yaml": "a: 1\n"})
	c.commit("hidden|Godwit-Version: 1|Godwit-Reason: Status", map[string]string{"works/m3/default/deployment.apps_web.yaml": ""})
	recorded := c.commits[0]
	for signature, want := range map[string]string{"": "", "good: bot": "", "bad: it is not signed": "signature: it is not signed&#93; hidden"} {
		recorded.Signature = signature
		entries, _, err := report.NewHistory(report.HistoryQuery{}).Of(recorded)
		if err != nil {
			t.Fatal(err)
		}
		text := report.HistoryMarkdown(entries)
		if (len(entries) > 0) != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%q: %s", signature, text)
		}
		for _, e := range entries {
			if e.Signature != signature {
				t.Errorf("the entry says %q", e.Signature)
			}
		}
	}
}

func TestARewrittenSourceIsToldOf(t *testing.T) {
	c := &chronicle{}
	const approval = "source: {commit: aaaaaaaa}\nrewrite: {from: aaaaaaaa, to: bbbbbbbb, by: Ada, time: null}\n"
	c.commit("approve", map[string]string{"state.yaml": approval})
	c.commit("rewrite(source)|Godwit-Version: 1|Godwit-Reason: Operator", map[string]string{"state.yaml": "source: {commit: cccccccc}\n"})
	for i, want := range []string{"the source went on from aaaaaaa to ccccccc, as approved by Ada", "the source may go on from bbbbbbb in place of aaaaaaa, approved by Ada"} {
		entries, _, err := report.NewHistory(report.HistoryQuery{}).Of(c.commits[i])
		if err != nil || len(entries) != 1 || !strings.Contains(entries[0].Message, want) {
			t.Errorf("%+v, %v, want %s", entries, err, want)
		}
	}
}
