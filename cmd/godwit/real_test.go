//go:build realcluster

package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
	"github.com/godwit-gitops/godwit/examples"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// The built program, as a process of its own, on real API servers and a real Git server. What is
// waited for has patience of time; nothing else here depends on how fast the machine is.
func TestOnRealServers(t *testing.T) {
	w := newRealWorld(t, "kube02", "kube03", "kube04")
	t.Run("a member that is out delays nobody", w.aMemberThatIsOutDelaysNobody) // alone: it takes members away
	t.Run("together", func(t *testing.T) {
		for name, row := range map[string]func(*testing.T){
			"nothing changed is nothing written":            w.nothingChangedIsNothingWritten,
			"the quickstart from nothing to an override":    w.theQuickstart,
			"a custom resource follows its definition":      w.aCustomResourceFollowsItsDefinition,
			"what is deleted in git is deleted on members":  w.whatIsDeletedInGitIsDeletedOnMembers,
			"a hand edit is put back":                       w.aHandEditIsPutBack,
			"what is not ours is refused or adopted":        w.whatIsNotOursIsRefusedOrAdopted,
			"a crash at any step loses and repeats nothing": w.aCrashAtAnyStepLosesAndRepeatsNothing,
			"two reconcilers share one history":             w.twoReconcilersShareOneHistory,
			"decisions outlive an outage of the git server": w.decisionsOutliveAnOutage,
			"a broken file stops nothing but itself":        w.aBrokenFileStopsNothingButItself,
			"what a workload needs goes along":              w.whatAWorkloadNeedsGoesAlong,
			"a user's rule says what a kind means":          w.aUsersRuleSaysWhatACustomResourceMeans,
			"the demo runs on real members":                 w.theDemoRunsOnRealMembers,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); row(t) })
		}
	})
}

// patience is how long anything may take before a test gives up on it.
const patience = 90 * time.Second

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	backups     = schema.GroupVersionResource{Group: "demo.godwit.dev", Version: "v1", Resource: "backups"}
)

// realWorld is what all tests share.
type realWorld struct {
	godwit        string // the built program
	membercluster string
	members       map[string]*realMember
}

func newRealWorld(t *testing.T, names ...string) *realWorld {
	w := &realWorld{membercluster: os.Getenv("GODWIT_MEMBERCLUSTER"), members: map[string]*realMember{}}
	if w.membercluster == "" {
		t.Fatal(`GODWIT_MEMBERCLUSTER must be the path of the program built from testdata/membercluster ("make membercluster")`)
	}
	w.godwit = filepath.Join(t.TempDir(), "godwit")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", w.godwit, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var group sync.WaitGroup
	started := make([]*realMember, len(names))
	for i, name := range names {
		group.Go(func() { started[i] = w.member(t, name) })
	}
	group.Wait()
	for _, m := range started {
		if m == nil {
			t.FailNow() // the start said why
		}
		w.members[m.Name()] = m
	}
	return w
}

// realMember is a member with a client.
type realMember struct {
	*membertest.Real
	client dynamic.Interface
}

// member starts one; nil after it told the test why it could not. It may be called from any goroutine.
func (w *realWorld) member(t *testing.T, name string) *realMember {
	r, err := membertest.StartReal(t.Context(), w.membercluster, "", name)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := r.RestConfig()
	if err != nil {
		t.Error(err)
		return nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Error(err)
		return nil
	}
	return &realMember{r, client}
}

// get returns an object, nil if there is none.
func (m *realMember) get(t *testing.T, what schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := m.client.Resource(what).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatalf("get %s %s/%s on %s: %v", what.Resource, namespace, name, m.Name(), err)
	}
	return o
}

// create makes the objects of short YAML as kubectl create does.
func (m *realMember) create(t *testing.T, what schema.GroupVersionResource, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	made, err := m.client.Resource(what).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-create"})
	if err != nil {
		t.Fatalf("create %s on %s: %v", o.GetName(), m.Name(), err)
	}
	return made
}

// patch merges JSON into an object as somebody else.
func (m *realMember) patch(t *testing.T, what schema.GroupVersionResource, namespace, name, json string, subresources ...string) {
	t.Helper()
	_, err := m.client.Resource(what).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(json), metav1.PatchOptions{FieldManager: "kubectl-edit"}, subresources...)
	if err != nil {
		t.Fatalf("patch %s on %s: %v", name, m.Name(), err)
	}
}

// field is a value inside an object, nil where there is none.
func field(o *unstructured.Unstructured, path ...string) any {
	if o == nil {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

// image is that of a Deployment's first container.
func image(o *unstructured.Unstructured) any {
	containers, _ := field(o, "spec", "template", "spec", "containers").([]any)
	if len(containers) == 0 {
		return nil
	}
	return containers[0].(map[string]any)["image"]
}

// eventually asks until the answer is empty; the last answer is why the test fails.
func eventually(t *testing.T, what string, missing func() string) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	over := time.After(patience)
	for {
		why := missing()
		if why == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-over:
			t.Fatalf("%s: after %s still %s", what, patience, why)
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		}
	}
}

// want is empty if got is it.
func want(what string, got, want any) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s is %v, want %v", what, got, want)
}

// stateBranch is where decisions are.
const stateBranch = "godwit/state"

// fleet is a repository, its server, and a configuration of the program for it. The namespace of its
// objects and its name are those of the test, so that fleets do not meet on the members.
type fleet struct {
	*realWorld
	t       *testing.T
	ns      string
	members []*realMember
	source  *gittest.Repo
	state   *gittest.Repo // the same repository, unless it is set
	server  *gittest.Server
	dir     string
	// settings are lines added to the configuration.
	settings string
	sourceAt string // URL or path, the server's if empty
}

func (w *realWorld) fleet(t *testing.T, ns string, members ...string) *fleet {
	f := &fleet{realWorld: w, t: t, ns: ns, dir: t.TempDir(), source: gittest.NewRepo(t)}
	f.state, f.server = f.source, gittest.ServeHTTP(t, f.source.Dir, gittest.HTTPOptions{})
	for _, name := range members {
		f.members = append(f.members, w.members[name])
	}
	return f
}

// push commits files to the source; a value that names a file of the quickstart stands for its text.
func (f *fleet) push(files map[string]string, message string) plumbing.Hash {
	f.t.Helper()
	texts := map[string]string{}
	for path, text := range files {
		if strings.HasPrefix(text, "quickstart/") {
			b, err := fs.ReadFile(examples.Quickstart, text)
			if err != nil {
				f.t.Fatal(err)
			}
			text = string(b)
		}
		texts[path] = text
	}
	return f.source.Commit("main", texts, message)
}

// clusters are the registrations of the members, to be pushed.
func (f *fleet) clusters() map[string]string {
	regions := []string{"beijing", "shanghai", "guangzhou"}
	files := map[string]string{}
	for i, m := range f.members {
		files["clusters/"+m.Name()+".yaml"] = fmt.Sprintf(`
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: %s, labels: {environment: prod}}
spec: {syncMode: Push, region: %s}
`, m.Name(), regions[i])
	}
	return files
}

// policyFor takes everything of some kinds to the members.
func policyFor(placement string, kinds ...string) string {
	text := "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: all}\nspec:\n  resourceSelectors:\n"
	for _, kind := range kinds {
		version := "v1"
		if kind == "Deployment" {
			version = "apps/v1"
		}
		text += fmt.Sprintf("  - {apiVersion: %s, kind: %s}\n", version, kind)
	}
	return text + "  placement: " + placement + "\n"
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

func merged(all ...map[string]string) map[string]string {
	files := map[string]string{}
	for _, some := range all {
		for name, text := range some {
			files[name] = text
		}
	}
	return files
}

// configFile writes the configuration of a reconciler with a data directory of that name.
func (f *fleet) configFile(data string) string {
	f.t.Helper()
	var kubeconfigs []string
	for _, m := range f.members {
		kubeconfigs = append(kubeconfigs, m.Kubeconfig())
	}
	source := f.sourceAt
	if source == "" {
		source = f.server.URL
	}
	state := f.server.URL // the source's, mostly
	text := fmt.Sprintf(`
source: {url: %s, branch: main, pollInterval: 1s, defaultNamespace: %s}
state: {url: %s, statusInterval: 1s}
clusters:
  kubeconfig: [%s]
  probeInterval: 1s
  successThreshold: 1s
%sfleet: %s
dataDir: %s
`, source, f.ns, state, strings.Join(kubeconfigs, ", "), f.settings, f.ns, filepath.Join(f.dir, data))
	file := filepath.Join(f.dir, data+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return file
}

// process is the program at work.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  output // of both streams
	done chan struct{}
	err  error // once done is closed
}

// output may be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs the program until it ends or the test does.
func (w *realWorld) start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(w.godwit, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = t.TempDir(), &p.out, &p.out
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GODWIT_MEMBERCLUSTER=" + w.membercluster}, env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s %s said:\n%s", filepath.Base(w.godwit), strings.Join(args, " "), &p.out)
		}
	})
	return p
}

// wait returns how the process ended: an exit status, or less than zero for a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * patience):
		p.t.Fatalf("%v does not end", p.cmd.Args)
	}
	if s := p.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return -int(s.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the process in good order.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	if status := p.wait(); status != 0 {
		p.t.Fatalf("%v ended with %d when it was asked to stop", p.cmd.Args, status)
	}
}

// run starts the reconciler of the fleet.
func (f *fleet) run(env ...string) *process { return f.runAt("data", env...) }

// runAt starts one with a data directory of its own.
func (f *fleet) runAt(data string, env ...string) *process {
	f.t.Helper()
	return f.start(f.t, env, "run", "--config", f.configFile(data))
}

// call runs another command of the program and returns what it printed and its status.
func (f *fleet) call(args ...string) (out string, status int) {
	f.t.Helper()
	p := f.start(f.t, nil, append(args, "--config", f.configFile("data"))...)
	status = p.wait()
	return p.out.String(), status
}

// decision is a commit on the state branch that decided something.
type decision struct {
	gittest.Entry
	reason, source string
}

// history returns the commits on the state branch after since, oldest first.
func (f *fleet) history(since plumbing.Hash) []decision {
	f.t.Helper()
	var all []decision
	for _, e := range f.state.Log(stateBranch) {
		if e.Hash == since {
			break
		}
		all = append(all, decision{e, trailer(e.Message, "Godwit-Reason"), trailer(e.Message, "Godwit-Source")})
	}
	slices.Reverse(all)
	return all
}

// decisions are the commits after since that are more than what was observed, as "reason: subject".
func (f *fleet) decisions(since plumbing.Hash) []string {
	f.t.Helper()
	var all []string
	for _, d := range f.history(since) {
		if d.reason != "Status" {
			all = append(all, d.reason+": "+d.Subject)
		}
	}
	return all
}

func trailer(message, key string) string {
	for line := range strings.Lines(message) {
		if value, ok := strings.CutPrefix(line, key+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// head is where the state branch is.
func (f *fleet) head() plumbing.Hash { f.t.Helper(); return f.state.Head(stateBranch) }

// trees are the hashes of what was decided: equal hashes are equal bytes.
func (f *fleet) trees() string {
	f.t.Helper()
	return f.state.Git("rev-parse", stateBranch+":bindings", stateBranch+":works")
}

// recorded waits until the state branch says that every copy of n bindings is applied and healthy.
func (f *fleet) recorded(n int) {
	f.t.Helper()
	eventually(f.t, "the state branch", func() string {
		if f.head().IsZero() {
			return "not there"
		}
		found := 0
		for path, text := range f.state.Files(stateBranch) {
			if !strings.HasPrefix(path, "bindings/") {
				continue
			}
			found++
			var b workv1alpha2.ResourceBinding
			if err := yaml.Unmarshal([]byte(text), &b); err != nil {
				return err.Error()
			}
			for _, target := range b.Spec.Clusters {
				if !slices.ContainsFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool {
					return i.ClusterName == target.Name && i.Applied && (i.Health == workv1alpha2.ResourceHealthy || b.Spec.Replicas == 0)
				}) {
					return fmt.Sprintf("%s of %s not healthy: %+v", path, target.Name, b.Status.AggregatedStatus)
				}
			}
		}
		return want("the number of bindings", found, n)
	})
}

// everywhere waits until the members of the fleet satisfy a condition.
func (f *fleet) everywhere(what string, missing func(m *realMember) string) {
	f.t.Helper()
	eventually(f.t, what, func() string {
		for _, m := range f.members {
			if why := missing(m); why != "" {
				return m.Name() + ": " + why
			}
		}
		return ""
	})
}

// value waits until a ConfigMap of every member has the value.
func (f *fleet) value(name, value string) {
	f.t.Helper()
	f.everywhere("ConfigMap "+name, func(m *realMember) string {
		return want("value", field(m.get(f.t, configMaps, f.ns, name), "data", "value"), value)
	})
}

// ready waits until a Deployment has so many ready replicas on the members, in order, and no others.
func (f *fleet) ready(name string, replicas ...int64) {
	f.t.Helper()
	eventually(f.t, "Deployment "+name, func() string {
		for i, m := range f.members {
			o := m.get(f.t, deployments, f.ns, name)
			if why := want(m.Name()+" spec.replicas", field(o, "spec", "replicas"), replicas[i]); why != "" {
				return why
			}
			if why := want(m.Name()+" status.readyReplicas", field(o, "status", "readyReplicas"), replicas[i]); why != "" {
				return why
			}
		}
		return ""
	})
}

// within returns a context that ends when the test gives up.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
