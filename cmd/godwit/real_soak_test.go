//go:build realcluster

package main_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/gitstate/gittest"
)

// A soak takes minutes: "make soak" plays hours, and what runs with all other tests is a short one.
var (
	soakRounds = flag.Int("soak.rounds", 10, "rounds of the soak test; each is what happens to a busy fleet in a minute")
	soakSeed   = flag.Uint64("soak.seed", 1, "what happens when in the soak test")
	soakRace   = flag.Bool("soak.race", false, "build the program of the soak test with the race detector")
)

// hour is what happens to a busy fleet in an hour, besides a push a minute of one to three changes.
var hour = []struct {
	what  string
	times int
	play  func(*soak)
}{
	{"a member is killed", 10, (*soak).killMember},
	{"a member hangs", 5, (*soak).hangMember},
	{"the management cluster is killed", 2, (*soak).killManagement},
	{"Git refuses", 4, func(s *soak) { s.gitAway(s.server.Outage) }},
	{"Git hangs", 4, func(s *soak) { s.gitAway(s.server.Hang) }},
	{"somebody edits an object", 12, (*soak).editObject},
	{"somebody deletes an object", 12, (*soak).deleteObject},
	{"credentials are rotated", 8, (*soak).rotate},
	{"the configuration changes", 8, (*soak).reconfigure},
	{"a definition goes or comes", 6, (*soak).redefine},
	{"somebody reverts a decision", 5, (*soak).revertDecision},
	{"somebody deletes a work from the record", 5, (*soak).deleteWork},
}

// Hours of what happens to a fleet, compressed: two replicas of the program on real API servers and a real Git server,
// of which anything may be away at any time. At quiet points everything is as decided, and the process holds what it
// held at the first of them.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	stretch := max(2, *soakRounds/12)
	s.rest("the warm-up")
	base, standby := s.points[0], s.follows.hold(t)
	plan := s.deal(*soakRounds)
	for i, plays := range plan {
		s.round(i, plays)
		if (i+1)%stretch == 0 || i+1 == len(plan) {
			s.rest(fmt.Sprintf("round %d", i+1))
		}
	}
	heaps := make([]float64, len(s.points))
	for i, p := range s.points {
		heaps[i] = p.heap
	}
	if why := grown(heaps); why != "" {
		t.Errorf("%s\n%s", why, s.leads.profile(t, "heap?debug=1"))
	}
	eventually(t, "the standby", func() string { return s.follows.hold(t).more(standby) })
	s.history()
	passes := s.leads.scrape(t)
	t.Logf("%d rounds, seed %d, in %s: %d passes, %d commits, %d notifications", *soakRounds, *soakSeed, time.Since(s.began).Round(time.Second), int(passes["godwit_pass_duration_seconds_count"]), len(s.fleet.state.Log(stateBranch)), s.told.Load())
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		t.Logf("%4d  %s", s.counts[what], what)
	}
	t.Logf("first: %s", base)
	t.Logf("last:  %s", s.points[len(s.points)-1])

	// The other one goes on with what is there.
	s.leads.stop()
	s.leads = s.follows
	s.rest("the hand-over")
	s.leads.stop()
	for _, p := range s.all {
		if out := p.out.String(); strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic:") {
			t.Errorf("%v:\n%s", p.cmd.Args, out)
		}
	}
}

// soak is the world of the test and what is known of it.
type soak struct {
	*fleet
	mgmt     *realMember
	leads    *replica
	follows  *replica
	all      []*replica
	random   *rand.Rand
	began    time.Time
	counts   map[string]int // of what happened
	told     atomic.Int64   // notifications
	inbox    string
	files    map[string]string   // the source
	before   []map[string]string // the source before each push, oldest first
	value    int                 // of the last push
	interval int                 // of probes, in the configuration
	ends     map[int][]func()    // of outages, by round
	now      int                 // the round
	out      map[string]bool     // members that are away
	gitOut   bool
	points   []figures
	heads    []plumbing.Hash // of the state branch, as they were seen
}

// replica is one process of the reconciler.
type replica struct {
	*process
	file, identity     string
	metrics, profiling string // addresses
}

const soakSpace = "soak"

func newSoak(t *testing.T) *soak {
	w := newRealWorld(t, "mgmt", "kube02", "kube03", "kube04")
	if *soakRace {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", w.godwit, ".").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	s := &soak{
		fleet: w.fleet(t, soakSpace, "kube02", "kube03", "kube04"), mgmt: w.members["mgmt"], random: rand.New(rand.NewPCG(*soakSeed, 0)), began: time.Now(),
		counts: map[string]int{}, interval: 1000, ends: map[int][]func(){}, out: map[string]bool{},
	}
	inbox := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); s.told.Add(1) }))
	t.Cleanup(inbox.Close)
	s.inbox = inbox.URL

	s.mgmt.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}")
	for _, m := range s.members {
		m.create(t, clusterRoleBindings, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: soak},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: soak, namespace: kube-system}]}`)
		s.credentials(m)
	}
	s.files = s.baseline()
	s.fleet.push(s.files, "all that there is")
	s.leads = s.serve("one")
	eventually(t, "the first leader", func() string {
		return want("passes", s.leads.scrape(t)["godwit_pass_duration_seconds_count"] > 0, true)
	})
	s.follows = s.serve("two")
	return s
}

var clusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}

// configure writes the configuration of a replica: the defaults, where they are times about a fifteenth of them.
func (s *soak) configure(r *replica) {
	s.t.Helper()
	text := fmt.Sprintf(`
source: {url: %[1]s, branch: main, pollInterval: 1s, defaultNamespace: %[2]s}
state: {url: %[1]s, statusInterval: 4s}
management: {kubeconfig: %[3]s}
leaderElection: {enabled: true, namespace: argocd, identity: %[4]s, leaseDuration: 90s, renewDeadline: 60s, retryPeriod: 1s}
clusters:
  argocd: true
  namespaces: [argocd]
  kubeconfig: [%[5]s]
  probeInterval: %[6]dms
  probeTimeout: 1s
  successThreshold: 1s
  failureThreshold: 2s
failover: {defaultTolerationSeconds: 3, evictionTimeout: 10s, brakeWindow: 4s}
notifications: [{type: slack, url: "%[7]s/slack", interval: 1s, allowLoopback: true}, {type: alertmanager, url: "%[7]s", allowLoopback: true}]
server: {address: "127.0.0.1:0"}
fleet: %[2]s
dataDir: %[8]s
`, s.server.URL, soakSpace, s.mgmt.Kubeconfig(), r.identity, s.kubeconfig(), s.interval, s.inbox, filepath.Join(s.dir, r.identity))
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

var listening = regexp.MustCompile(`msg=listening for=(\S+) address=(\S+)`)

// serve starts a replica.
func (s *soak) serve(identity string) *replica {
	s.t.Helper()
	r := &replica{identity: identity, file: filepath.Join(s.dir, identity+".yaml")}
	s.configure(r)
	r.process = s.start(s.t, nil, "run", "--config", r.file, "--pprof", "127.0.0.1:0")
	s.all = append(s.all, r)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s holds:\n%s", identity, r.holdings())
		}
	})
	eventually(s.t, "the addresses of "+identity, func() string {
		for _, found := range listening.FindAllStringSubmatch(r.out.String(), -1) {
			switch found[1] {
			case "server.address":
				r.metrics = found[2]
			case "--pprof":
				r.profiling = found[2]
			}
		}
		return want("known", r.metrics != "" && r.profiling != "", true)
	})
	return r
}

// read gets a page of the process.
func (r *replica) read(t *testing.T, url string) io.ReadCloser {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", r.identity, err)
	}
	return answer.Body
}

func (r *replica) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	body := r.read(t, "http://"+r.metrics+"/metrics")
	defer body.Close()
	all, err := series(body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (r *replica) profile(t *testing.T, what string) string {
	t.Helper()
	body := r.read(t, "http://"+r.profiling+"/debug/pprof/"+what)
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// open names the files that the process has open.
func (r *replica) open() (names []string) {
	folder := fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)
	files, _ := os.ReadDir(folder)
	for _, f := range files {
		if name, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil { // or it is closed by now
			names = append(names, name)
		}
	}
	return names
}

// holdings lists open files and goroutines; empty if the process is gone.
func (r *replica) holdings() string {
	var all strings.Builder
	for _, name := range r.open() {
		fmt.Fprintln(&all, name)
	}
	answer, err := http.Get("http://" + r.profiling + "/debug/pprof/goroutine?debug=1")
	if err == nil {
		defer answer.Body.Close()
		io.Copy(&all, answer.Body)
	}
	return all.String()
}

// hold is what the process holds once it has thrown away what it can.
func (r *replica) hold(t *testing.T) figures {
	t.Helper()
	r.profile(t, "heap?gc=1") // what is cleaned up after one collection is free after the next
	profile := r.profile(t, "heap?gc=1&debug=1")
	return figuresOf(r.scrape(t), profile, r.open())
}

// deal says what happens in each round.
func (s *soak) deal(rounds int) [][]func() {
	plan := make([][]func(), rounds)
	for _, event := range hour {
		for range max(1, event.times*rounds/60) {
			i := s.random.IntN(rounds)
			plan[i] = append(plan[i], func() { s.happens(event.what); event.play(s) })
		}
	}
	return plan
}

func (s *soak) happens(what string) {
	s.counts[what]++
	s.t.Logf("%s  round %d: %s", time.Since(s.began).Round(time.Millisecond), s.now+1, what)
}

// lasts has something end within the next rounds.
func (s *soak) lasts(end func()) {
	at := s.now + 1 + s.random.IntN(3)
	s.ends[at] = append(s.ends[at], end)
}

// round plays a minute.
func (s *soak) round(i int, plays []func()) {
	s.now = i
	for _, end := range s.ends[i] {
		end()
	}
	delete(s.ends, i)
	for _, play := range plays {
		play()
	}
	s.change()
	s.arrives()
}

// arrives waits until the last push is where it can be: on every member that is there, if Git is.
func (s *soak) arrives() {
	s.t.Helper()
	pushed, scraped := float64(time.Now().UnixMilli())/1000, s.leads.scrape(s.t)
	eventually(s.t, "the next pass", func() string {
		now := s.leads.scrape(s.t)
		if s.gitOut {
			return want("next", passesOf(now) > passesOf(scraped), true)
		}
		return want("source read", now["godwit_source_last_good_timestamp_seconds"] > pushed, true)
	})
	if s.gitOut {
		return
	}
	s.everywhereElse("the value of this round", func(m *realMember) string {
		return want("value", field(m.get(s.t, configMaps, soakSpace, "round"), "data", "value"), fmt.Sprint(s.value))
	})
}

func passesOf(s map[string]float64) float64 {
	return s["godwit_pass_duration_seconds_count"] + s["godwit_pass_errors_total"]
}

// everywhereElse waits until the members that are not away satisfy a condition.
func (s *soak) everywhereElse(what string, missing func(*realMember) string) {
	s.t.Helper()
	eventually(s.t, what, func() string {
		for _, m := range s.members {
			if s.out[m.Name()] {
				continue
			}
			if why := missing(m); why != "" {
				return m.Name() + ": " + why
			}
		}
		return ""
	})
}

// rest ends all outages, pushes the fleet as it began, waits until all is as decided, and measures.
func (s *soak) rest(when string) {
	s.t.Helper()
	for _, round := range slices.Sorted(maps.Keys(s.ends)) {
		for _, end := range s.ends[round] {
			end()
		}
	}
	clear(s.ends)
	began := time.Now()
	s.value++
	s.push(s.baseline(), "all is well\n\nGodwit-Approve: delete\n")
	eventually(s.t, when, s.unsettled)
	head, passes := s.decided(), passesOf(s.leads.scrape(s.t))
	eventually(s.t, when+": two passes more", func() string {
		return want("over", passesOf(s.leads.scrape(s.t)) >= passes+2, true)
	})
	if again := s.decided(); again != head {
		s.t.Errorf("%s: all was well, and it was decided:\n%s", when, again)
	}
	s.state.Git("fsck", "--strict")
	s.heads = append(s.heads, s.head())
	settled := time.Since(began)
	now := s.leads.hold(s.t)
	if len(s.points) > 0 && s.leads.identity == "one" {
		eventually(s.t, when, func() string {
			now = s.leads.hold(s.t)
			return now.more(s.points[0])
		})
	}
	s.points = append(s.points, now)
	s.t.Logf("%s  %s: settled in %s; %s", time.Since(s.began).Round(time.Millisecond), when, settled.Round(time.Millisecond), now)
}

// decided is the last commit that is more than what was observed.
func (s *soak) decided() string {
	for _, e := range s.state.Log(stateBranch) {
		if trailer(e.Message, "Godwit-Reason") != "Status" {
			return e.Hash.String() + " " + e.Subject
		}
	}
	return ""
}

// unsettled says what is not as it should be when nobody is away; empty if all is.
func (s *soak) unsettled() string {
	now := s.leads.scrape(s.t)
	for name, value := range now {
		wanted := 0.0
		switch {
		case strings.HasPrefix(name, "godwit_member_up{"):
			wanted = 1
		case name == `godwit_bindings{state="healthy"}`, strings.HasPrefix(name, "godwit_findings{") && name != `godwit_findings{severity="error"}`:
			continue
		case strings.HasPrefix(name, "godwit_bindings{"), strings.HasPrefix(name, "godwit_findings{"), slices.Contains([]string{
			"godwit_pending", "godwit_git_unpushed_commits", "godwit_deletions_held", "godwit_evictions_pending", "godwit_failover_held"}, name):
		default:
			continue
		}
		if value != wanted {
			return want(name, value, wanted) + s.refused()
		}
	}
	if why := want("bindings", now[`godwit_bindings{state="healthy"}`], float64(s.bindings())); why != "" {
		return why
	}
	files := s.state.Files(stateBranch)
	if source := s.source.Head("main").String(); !strings.Contains(files["state.yaml"], source) {
		return "not of source " + source + ":\n" + files["state.yaml"]
	}
	return s.strays(files)
}

// refused are the messages that the state branch has of copies.
func (s *soak) refused() (all string) {
	for path, text := range s.state.Files(stateBranch) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(path, "bindings/") && strings.Contains(line, "appliedMessage: ") {
				all += "\n" + path + ": " + strings.TrimSpace(line)
			}
		}
	}
	return all
}

// soakKinds are those that the source has.
var soakKinds = map[string]schema.GroupVersionResource{
	"Deployment": deployments, "Service": services, "ConfigMap": configMaps, "Secret": secrets, "Namespace": namespaces, "Boat": boats,
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// strays says where members are not as the state branch says; empty if all are.
func (s *soak) strays(files map[string]string) string {
	works := map[string]map[string]any{}
	for path, text := range files {
		if strings.HasPrefix(path, "retired/") {
			return path + " is on record"
		}
		place, ok := strings.CutPrefix(path, "works/")
		if !ok {
			continue
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return path + ": " + err.Error()
		}
		if _, known := soakKinds[o.GetKind()]; !known {
			s.t.Fatalf("%s: nobody looks at this kind", path)
		}
		name, _, _ := strings.Cut(place, "/")
		works[name+" "+o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	for _, m := range s.members {
		for kind, resource := range soakKinds {
			list, err := m.client.Resource(resource).List(s.t.Context(), metav1.ListOptions{LabelSelector: "godwit.dev/managed=true"})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err.Error()
			}
			for _, o := range list.Items {
				key := m.Name() + " " + kind + " " + o.GetNamespace() + "/" + o.GetName()
				wanted, ok := works[key]
				if !ok {
					return key + " is there, and nobody wants it"
				}
				delete(works, key)
				if kind == "Secret" {
					wanted["data"] = map[string]any{"token": secretValue(s.value)} // the record does not have it
				}
				if at := lacks(wanted, o.Object); at != "" {
					return key + " is another one at " + at
				}
			}
		}
	}
	for key := range works {
		return key + " is not there"
	}
	return ""
}

// lacks names a field of one that another does not have with this value; empty if it has all.
func lacks(wanted, got any) string {
	switch w := wanted.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, value := range w {
			if at := lacks(value, g[name]); at != "" {
				return "." + name + at
			}
		}
		return ""
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return fmt.Sprintf(": %v, want %v", got, wanted)
		}
		for i := range w {
			if at := lacks(w[i], g[i]); at != "" {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
		return ""
	}
	if fmt.Sprint(wanted) != fmt.Sprint(got) {
		return fmt.Sprintf(": %v, want %v", got, wanted)
	}
	return ""
}

// history is linear, and has all that was ever seen at its end.
func (s *soak) history() {
	log := s.state.Log(stateBranch)
	for i, e := range log {
		if len(e.Parents) > 1 || i+1 < len(log) && e.Parents[0] != log[i+1].Hash {
			s.t.Errorf("%s %q has parents %v", e.Hash, e.Subject, e.Parents)
		}
	}
	for _, head := range s.heads {
		if !slices.ContainsFunc(log, func(e gittest.Entry) bool { return e.Hash == head }) {
			s.t.Errorf("%s was on the branch and is not in its history", head)
		}
	}
}

// ---- the source

// apps are so many; each has a Deployment, a Service and a ConfigMap.
const apps = 6

// placements are what policies of applications say. The first ones are those of the fleet at rest.
var placements = []string{
	`{replicaScheduling: {replicaSchedulingType: Duplicated}}`,
	`{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [kube02]}, weight: 2}, {targetCluster: {clusterNames: [kube03, kube04]}, weight: 1}]}}}`,
	`{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}`,
	`{clusterAffinity: {clusterNames: [kube03]}}`,
	`{clusterAffinity: {labelSelector: {matchLabels: {environment: prod}}}, spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 2}]}`,
	`{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}`,
}

func appFile(n int) string    { return fmt.Sprintf("apps/app-%d.yaml", n) }
func policyFile(n int) string { return fmt.Sprintf("policies/app-%d.yaml", n) }

func appText(n, replicas int, value string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: app-%[1]d}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: app-%[1]d}}
  template:
    metadata: {labels: {app: app-%[1]d}}
    spec: {containers: [{name: app, image: "app:%[3]s"}]}
---
apiVersion: v1
kind: Service
metadata: {name: app-%[1]d}
spec: {selector: {app: app-%[1]d}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app-%[1]d}
data: {value: %[3]q}
`, n, replicas, value)
}

func policyText(n int, placement string) string {
	return fmt.Sprintf(`
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: app-%[1]d}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: app-%[1]d}
  - {apiVersion: v1, kind: Service, name: app-%[1]d}
  - {apiVersion: v1, kind: ConfigMap, name: app-%[1]d}
  placement: %[2]s
  failover: {cluster: {purgeMode: Gracefully}}
`, n, placement)
}

const overrideText = `
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: images}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  overrideRules:
  - targetCluster: {clusterNames: [%s]}
    overriders:
      imageOverrider: [{component: Tag, operator: replace, value: %q}]
      labelsOverrider: [{operator: add, value: {canary: %q}}]
`

// everywherePolicy takes what every member has, whatever its taints.
const everywherePolicy = `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: everywhere}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {everywhere: "yes"}}}
  - {apiVersion: v1, kind: Secret}
  - {apiVersion: kinds.godwit.dev/v1, kind: Boat}
  placement: {clusterTolerations: [{operator: Exists}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: boats}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: boats.kinds.godwit.dev}]
  placement: {clusterTolerations: [{operator: Exists}]}
`

func boatText(seats int) string {
	definition, _, _ := strings.Cut(boat, "---")
	return definition + fmt.Sprintf("---\n{apiVersion: kinds.godwit.dev/v1, kind: Boat, metadata: {name: ark}, spec: {seats: %d, anchor: up}}\n", seats)
}

// rulesText says that a boat is well, in words that are others each time.
func rulesText(n int) string {
	return fmt.Sprintf(`
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: boats}
spec:
  target: {apiVersion: kinds.godwit.dev/v1, kind: Boat}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observed)
          return observed.spec.seats + %d > 0
        end
`, n)
}

func clusterText(name, region, taints string) string {
	return fmt.Sprintf("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: %s, labels: {environment: prod}}\nspec: {syncMode: Push, region: %s, taints: [%s]}\n", name, region, taints)
}

func roundText(value int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: round, labels: {everywhere: \"yes\"}}\ndata: {value: \"%d\"}\n", value)
}

func secretValue(value int) string {
	return base64.StdEncoding.EncodeToString(fmt.Append(nil, "secret-", value))
}

func secretText(value int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ndata: {token: %s}\n", secretValue(value))
}

const builtText = "resources: [map.yaml]\nlabels: [{pairs: {built: \"yes\", everywhere: \"yes\"}}]\nconfigMapGenerator: [{name: made, literals: [\"value=%d\"], options: {disableNameSuffixHash: true}}]\n"

// baseline is the fleet at rest: always of the same objects in the same places, with other values.
func (s *soak) baseline() map[string]string {
	files := map[string]string{
		"policies/everywhere.yaml": everywherePolicy, "round.yaml": roundText(s.value), "secret.yaml": secretText(s.value),
		"boats/boat.yaml": boatText(2), "boats/rules.yaml": rulesText(s.value), "policies/images.yaml": fmt.Sprintf(overrideText, "kube03", "v1", "no"),
		"built/kustomization.yaml": fmt.Sprintf(builtText, s.value), "built/map.yaml": configMap("built", fmt.Sprint(s.value)),
	}
	for i, m := range s.members {
		files["clusters/"+m.Name()+".yaml"] = clusterText(m.Name(), []string{"beijing", "shanghai", "guangzhou"}[i], "")
	}
	for n := range apps {
		files[appFile(n)], files[policyFile(n)] = appText(n, 3, fmt.Sprint(s.value)), policyText(n, placements[n%2])
	}
	return files
}

// bindings are those of the fleet at rest.
func (s *soak) bindings() int {
	return 3*apps + len([]string{"round", "token", "ark", "boats", "built", "made"})
}

// push makes the source be these files.
func (s *soak) push(files map[string]string, message string) {
	s.t.Helper()
	changes := map[string]string{}
	for name, text := range files {
		if s.files[name] != text {
			changes[name] = text
		}
	}
	for name := range s.files {
		if _, ok := files[name]; !ok {
			changes[name] = ""
		}
	}
	s.before, s.files = append(s.before, s.files), maps.Clone(files)
	s.fleet.push(changes, message)
	s.counts["pushes"]++
}

// change pushes what people may change in a minute.
func (s *soak) change() {
	s.t.Helper()
	s.value++
	files := maps.Clone(s.files)
	var said []string
	for range 1 + s.random.IntN(3) {
		c := s.random.IntN(len(changes))
		s.counts["changes: "+changes[c].what]++
		changes[c].make(s, files)
		said = append(said, changes[c].what)
	}
	files["round.yaml"], files["policies/everywhere.yaml"] = roundText(s.value), everywherePolicy
	message := strings.Join(said, ", ")
	if s.random.IntN(2) == 0 {
		message += "\n\nGodwit-Approve: delete\n"
	}
	s.push(files, message)
}

var changes = []struct {
	what string
	make func(*soak, map[string]string)
}{
	{"an application changes", func(s *soak, files map[string]string) {
		n := s.random.IntN(apps)
		files[appFile(n)] = appText(n, 1+s.random.IntN(5), fmt.Sprint(s.value))
	}},
	{"an application moves", func(s *soak, files map[string]string) {
		n := s.random.IntN(apps)
		files[policyFile(n)] = policyText(n, placements[s.random.IntN(len(placements))])
	}},
	{"an application goes", func(s *soak, files map[string]string) { delete(files, appFile(s.random.IntN(apps))) }},
	{"a policy goes", func(s *soak, files map[string]string) { delete(files, policyFile(s.random.IntN(apps))) }},
	{"overrides change", func(s *soak, files map[string]string) {
		files["policies/images.yaml"] = fmt.Sprintf(overrideText, s.anyMember().Name(), fmt.Sprint("o", s.value), fmt.Sprint(s.value))
	}},
	{"overrides go", func(s *soak, files map[string]string) { delete(files, "policies/images.yaml") }},
	{"a Secret changes", func(s *soak, files map[string]string) { files["secret.yaml"] = secretText(s.value) }},
	{"a rule changes", func(s *soak, files map[string]string) { files["boats/rules.yaml"] = rulesText(s.value) }},
	{"a kustomization changes", func(s *soak, files map[string]string) {
		files["built/kustomization.yaml"] = fmt.Sprintf(builtText, s.value)
	}},
	{"a member is tainted, or no longer", func(s *soak, files map[string]string) {
		m, taints := s.anyMember().Name(), ""
		if s.random.IntN(2) == 0 {
			taints = "{key: drain, effect: " + []string{"NoExecute", "NoSchedule"}[s.random.IntN(2)] + "}"
		}
		files["clusters/"+m+".yaml"] = clusterText(m, "beijing", taints)
	}},
	{"a file is broken", func(s *soak, files map[string]string) {
		names := slices.Sorted(maps.Keys(files))
		files[names[s.random.IntN(len(names))]] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"\ndata\n"
	}},
	{"a push is reverted", func(s *soak, files map[string]string) {
		if len(s.before) > 0 {
			clear(files)
			maps.Copy(files, s.before[len(s.before)-1])
		}
	}},
}

// ---- what happens

func (s *soak) anyMember() *realMember { return s.members[s.random.IntN(len(s.members))] }

// present is a member that is not away, nil if there is none.
func (s *soak) present() *realMember {
	there := slices.DeleteFunc(slices.Clone(s.members), func(m *realMember) bool { return s.out[m.Name()] })
	if len(there) == 0 {
		return nil
	}
	return there[s.random.IntN(len(there))]
}

func (s *soak) killMember() {
	m := s.present()
	if m == nil {
		return
	}
	m.Kill()
	s.out[m.Name()] = true
	s.lasts(func() {
		if err := m.Restart(limited(s.t)); err != nil {
			s.t.Fatal(err)
		}
		delete(s.out, m.Name())
	})
}

func (s *soak) hangMember() {
	m := s.present()
	if m == nil {
		return
	}
	if err := m.Pause(); err != nil {
		s.t.Fatal(err)
	}
	s.out[m.Name()] = true
	s.lasts(func() {
		if err := m.Resume(); err != nil {
			s.t.Fatal(err)
		}
		delete(s.out, m.Name())
	})
}

// killManagement has it start again at once: the Lease would be lost.
func (s *soak) killManagement() {
	s.mgmt.Kill()
	if err := s.mgmt.Restart(limited(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) gitAway(switched func(bool)) {
	if s.gitOut {
		return
	}
	s.gitOut = true
	switched(true)
	s.lasts(func() { s.gitOut = false; switched(false) })
}

// victim is one of our objects on a member that is there.
func (s *soak) victim() (*realMember, schema.GroupVersionResource, string) {
	m := s.present()
	if m == nil {
		return nil, schema.GroupVersionResource{}, ""
	}
	resource := []schema.GroupVersionResource{deployments, services, configMaps, secrets}[s.random.IntN(4)]
	list, err := m.client.Resource(resource).Namespace(soakSpace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "godwit.dev/managed=true"})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil, resource, ""
	}
	return m, resource, list.Items[s.random.IntN(len(list.Items))].GetName()
}

// edits are what somebody may do to an object, by its resource.
var edits = map[string]string{
	"deployments": `{"spec": {"replicas": 9, "template": {"metadata": {"labels": {"edited": "yes"}}}}}`,
	"services":    `{"spec": {"selector": {"app": "nothing"}, "sessionAffinity": "ClientIP"}}`,
	"configmaps":  `{"data": {"value": "edited", "other": "theirs"}}`,
	"secrets":     `{"data": {"token": "ZWRpdGVk"}}`,
}

func (s *soak) editObject() {
	m, resource, name := s.victim()
	if m == nil {
		return
	}
	_, err := m.client.Resource(resource).Namespace(soakSpace).Patch(s.t.Context(), name, "application/merge-patch+json", []byte(edits[resource.Resource]), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil && !apierrors.IsNotFound(err) { // it may go at this moment
		s.t.Fatal(err)
	}
}

func (s *soak) deleteObject() {
	m, resource, name := s.victim()
	if m == nil {
		return
	}
	if err := m.client.Resource(resource).Namespace(soakSpace).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// redefine takes the definition of boats away with all of them, or brings it back.
func (s *soak) redefine() {
	files := maps.Clone(s.files)
	message := "boats"
	if _, there := files["boats/boat.yaml"]; there {
		delete(files, "boats/boat.yaml")
		message = "no boats\n\nGodwit-Approve: delete\n"
	} else {
		files["boats/boat.yaml"] = boatText(2)
	}
	s.push(files, message)
}

// rotate makes the credentials of a member anew; the old ones are worth nothing then.
func (s *soak) rotate() {
	if m := s.present(); m != nil {
		s.credentials(m)
	}
}

// credentials makes an account on a member, in the place of the one there is, and says where the reconciler looks what
// its token is: kube02 is known by a file, the others by Secrets as Argo CD has them.
func (s *soak) credentials(m *realMember) {
	t := s.t
	t.Helper()
	account := m.client.Resource(serviceAccounts).Namespace("kube-system")
	if err := account.Delete(t.Context(), "soak", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	m.create(t, serviceAccounts, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: soak, namespace: kube-system}}")
	answer, err := account.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": "soak"}, "spec": map[string]any{"expirationSeconds": int64(86400)},
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _ := field(answer, "status", "token").(string)
	config, err := m.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() == "kube02" {
		k := clientcmdapi.NewConfig()
		k.Clusters["m"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		k.AuthInfos["m"] = &clientcmdapi.AuthInfo{Token: token}
		k.Contexts["kube02"] = &clientcmdapi.Context{Cluster: "m", AuthInfo: "m"}
		if err := clientcmd.WriteToFile(*k, s.kubeconfig()); err != nil {
			t.Fatal(err)
		}
		return
	}
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cluster-%[1]s", "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "cluster", "environment": "prod"}},
"stringData": {"name": %[1]q, "server": %[2]q, "config": %[3]q}}`, m.Name(), config.Host,
		fmt.Sprintf(`{"bearerToken": %q, "tlsClientConfig": {"caData": %q}}`, token, base64.StdEncoding.EncodeToString(config.CAData)))
	_, err = s.mgmt.client.Resource(secrets).Namespace("argocd").Patch(t.Context(), "cluster-"+m.Name(), "application/apply-patch+yaml", []byte(text), metav1.PatchOptions{FieldManager: "soak"})
	if err != nil {
		t.Fatal(err)
	}
}

// reconfigure changes a setting, and waits until it is in force.
func (s *soak) reconfigure() {
	const reloads = `godwit_config_reloads_total{result="accepted"}`
	s.interval = 900 + (s.interval+50-900)%200
	for _, r := range []*replica{s.leads, s.follows} {
		before := r.scrape(s.t)[reloads]
		s.configure(r)
		eventually(s.t, "the configuration of "+r.identity, func() string {
			return want("in force", r.scrape(s.t)[reloads] > before, true)
		})
	}
}

// person commits to the state branch as people do, who have to look again if somebody was there before.
func (s *soak) person(commit func(head plumbing.Hash) plumbing.Hash) {
	s.t.Helper()
	const mine = "refs/heads/person"
	eventually(s.t, "a person's commit", func() string {
		head := s.head()
		s.state.SetRef(mine, head)
		now := commit(head)
		out, err := exec.CommandContext(s.t.Context(), "git", "--git-dir", s.state.Dir, "update-ref", "refs/heads/"+stateBranch, now.String(), head.String()).CombinedOutput()
		if err != nil {
			return string(out)
		}
		s.heads = append(s.heads, now)
		return ""
	})
}

func (s *soak) revertDecision() {
	s.person(func(head plumbing.Hash) plumbing.Hash {
		tree := plumbing.NewHash(s.state.Git("rev-parse", head.String()+"~1^{tree}"))
		return s.state.CommitTree("person", tree, "Revert it", head)
	})
}

func (s *soak) deleteWork() {
	s.person(func(head plumbing.Hash) plumbing.Hash {
		var works []string
		for path := range s.state.Files(head.String()) {
			if strings.HasPrefix(path, "works/") {
				works = append(works, path)
			}
		}
		slices.Sort(works)
		return s.state.Commit("person", map[string]string{works[s.random.IntN(len(works))]: ""}, "Away with it")
	})
}
