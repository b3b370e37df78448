package membertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func TestASimulatedMemberKeepsTheContract(t *testing.T) {
	Contract(t, membertest.Start(t, "simulated").RestConfig())
}

// newWorld is the default namespace of a member.
func newWorld(t *testing.T, cfg *rest.Config) *world {
	t.Helper()
	return &world{T: t, ctx: t.Context(), config: cfg, Interface: dynamic.NewForConfigOrDie(cfg), ns: "default"}
}

func TestAFrozenMemberAcceptsAndAnswersOnceThawed(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	freezes(w, s.Freeze, s.Thaw)
}

// freezes checks that a member which is frozen is silent, and misses nothing.
func freezes(w *world, freeze, thaw func()) {
	w.Helper()
	from, err := w.in(configMaps).Watch(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=frozen"})
	if err != nil {
		w.Fatal(err)
	}
	defer from.Stop()
	freeze()
	written := make(chan error, 1)
	go func() {
		_, err := w.apply(configMaps, w.ns, configMap("frozen", "k: v"), "a", false)
		written <- err
	}()
	short, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := w.in(configMaps).Get(short, "frozen", metav1.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		w.Errorf("a frozen member answered: %v", err)
	}
	select {
	case err := <-written:
		w.Errorf("a frozen member answered: %v", err)
	case e := <-from.ResultChan():
		w.Errorf("a frozen member sent %v", e)
	default:
	}
	thaw()
	if err := <-written; err != nil {
		w.Error(err)
	}
	w.want("event", w.next(from), "ADDED frozen v")
}

func TestADeadMemberRefusesAndKeepsItsObjects(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	dies(w, s.Down, s.Up)
}

// dies checks that a member which is dead refuses connections, and comes back where and as it was.
func dies(w *world, down func(), up func() error) {
	w.Helper()
	before := w.must(w.apply(configMaps, w.ns, configMap("kept", "k: v"), "a", false))
	from, err := w.in(configMaps).Watch(w.ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		w.Fatal(err)
	}
	defer from.Stop()
	down()
	for range from.ResultChan() { // ends
	}
	for {
		_, err := w.in(configMaps).Get(w.ctx, "kept", metav1.GetOptions{})
		if err == nil {
			w.Fatal("a dead member answered")
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			break // a connection from before may say that it is reset first
		}
	}
	if err := up(); err != nil {
		w.Fatal(err)
	}
	w.want("object", w.must(w.in(configMaps).Get(w.ctx, "kept", metav1.GetOptions{})), before)
}

func TestDownAndUpTwiceIsOnce(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	w.must(w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{})) // a connection that is open ends too
	s.Freeze()
	s.Down()
	s.Down()
	s.Thaw()
	if err := errors.Join(s.Up(), s.Up()); err != nil {
		t.Fatal(err)
	}
	w.must(w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{}))
}

func TestAMemberThatIsNotReadySaysSoAndServes(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	client := discovery.NewDiscoveryClientForConfigOrDie(w.config).RESTClient()
	for _, c := range []struct {
		path string
		not  bool
		code int
	}{{"/readyz", false, 200}, {"/readyz", true, 500}, {"/healthz", true, 200}, {"/livez", true, 200}, {"/readyz", false, 200}} {
		s.SetNotReady(c.not)
		var code int
		client.Get().AbsPath(c.path).Do(w.ctx).StatusCode(&code)
		w.want(fmt.Sprintf("%s while not ready is %v", c.path, c.not), code, c.code)
		w.must(w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{}))
	}
	w.want("probes", s.Requests("probe"), int64(5))
	w.want("gets", s.Requests("get"), int64(5))
}

func TestWritesAreCountedByWhetherTheyChangeSomething(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	for range 3 {
		w.must(w.apply(deployments, w.ns, deployment("d", "replicas: 1"), "a", false))
	}
	w.must(w.in(deployments).Apply(w.ctx, "d", w.object(deployment("d", "replicas: 9")), metav1.ApplyOptions{FieldManager: "a", DryRun: []string{metav1.DryRunAll}}))
	if _, err := w.apply(deployments, w.ns, deployment("d", "replicas: 3"), "b", false); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	w.create(configMaps, configMap("c", ""))
	if err := w.in(configMaps).Delete(w.ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	changed, sent := s.Writes()
	w.want("writes", []int64{changed, sent, s.Requests("apply"), s.Requests("create"), s.Requests("delete")}, []int64{3, 6, 5, 1, 1})
	n, err := membertest.CountWrites(w.ctx, w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.want("by the metric", n, sent)
}

func TestFailedPodsHeal(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	kinds := map[string]func() any{}
	w.must(w.apply(deployments, w.ns, deployment("x", "replicas: 2"), "a", false))
	w.must(w.apply(statefuls, w.ns, strings.Replace(deployment("x", "replicas: 2"), "Deployment", "StatefulSet", 1), "a", false))
	kinds["Deployment"] = func() any {
		return at(w.must(w.in(deployments).Get(w.ctx, "x", metav1.GetOptions{})), "status.readyReplicas")
	}
	kinds["StatefulSet"] = func() any {
		return at(w.must(w.in(statefuls).Get(w.ctx, "x", metav1.GetOptions{})), "status.readyReplicas")
	}
	for _, name := range []string{"x", "*"} {
		for kind, ready := range kinds {
			w.want(kind+" at first", ready(), int64(2))
			s.Fail("default", name)
			w.want(kind+" while it fails", ready(), nil)
			s.Heal("default", name)
			s.Heal("default", name)
			w.want(kind+" healed", ready(), int64(2))
		}
	}
	s.Fail("elsewhere", "*")
	w.want("another namespace's failure", kinds["Deployment"](), int64(2))
}

func TestAJobWhosePodsFailHasFailed(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	s.Fail("default", "j")
	w.must(w.apply(jobs, w.ns, `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: "m:v1"}]}}}}`, "a", false))
	o := w.must(w.in(jobs).Get(w.ctx, "j", metav1.GetOptions{}))
	w.want("conditions", []any{conditionOf(o, "Failed"), conditionOf(o, "Complete")}, []any{"True", nil})
	s.Heal("default", "j")
	w.want("conditions once healed", conditionOf(w.must(w.in(jobs).Get(w.ctx, "j", metav1.GetOptions{})), "Failed"), "True")
}

func TestAnInterceptorAnswersInTheServersPlace(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	s.Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodPatch {
			return nil
		}
		st := apierrors.NewForbidden(configMaps.GroupResource(), "c", errors.New("the webhook says no")).Status()
		return &st
	})
	_, err := w.apply(configMaps, w.ns, configMap("c", ""), "a", false)
	w.wantStatus(err, http.StatusForbidden, metav1.StatusReasonForbidden, "the webhook says no")
	w.must(w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{}))
	s.Intercept(nil)
	w.must(w.apply(configMaps, w.ns, configMap("c", ""), "a", false))
}

func TestAWatchOfAForgottenVersionIsTold410(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	old := w.create(configMaps, configMap("c", "")).GetResourceVersion()
	first := func(version string) watch.Event {
		from, err := w.in(configMaps).Watch(w.ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer from.Stop()
		return <-from.ResultChan()
	}
	w.create(configMaps, configMap("d", ""))
	w.want("before", first(old).Type, watch.Added)
	s.Compact()
	e := first(old)
	w.want("after", e.Type, watch.Error)
	w.wantStatus(apierrors.FromObject(e.Object), http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

func TestAnInformerFollowsAMemberThroughItsTroubles(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	factory := dynamicinformer.NewDynamicSharedInformerFactory(w.Interface, 0)
	informer := factory.ForResource(configMaps).Informer()
	seen := make(chan string, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if u := o.(*unstructured.Unstructured); u.GetNamespace() == "default" {
			seen <- u.GetName()
		}
	}}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	w.create(configMaps, configMap("a", ""))
	w.want("seen", <-seen, "a")
	s.Down()
	s.Compact()
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	for { // a connection from before says first that it broke
		if _, err := w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{}); err == nil {
			break
		}
	}
	w.create(configMaps, configMap("b", ""))
	w.want("seen after a restart", <-seen, "b")
}

func TestAMemberIsKnownByTheUIDOfKubeSystem(t *testing.T) {
	uid := func(name string) any {
		w := newWorld(t, membertest.Start(t, name).RestConfig())
		return w.must(w.Resource(namespaces).Get(w.ctx, "kube-system", metav1.GetOptions{})).GetUID()
	}
	if a, again, b := uid("a"), uid("a"), uid("b"); a != again || a == b {
		t.Errorf("uids %v and %v of one member, %v of another", a, again, b)
	}
}

func TestTheClockIsTheOneGiven(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := membertest.New(membertest.Options{Clock: func() time.Time { return at }, Version: "v1.29.3"})
	t.Cleanup(s.Close)
	w := newWorld(t, s.RestConfig())
	w.want("creationTimestamp", w.create(configMaps, configMap("c", "")).GetCreationTimestamp().UTC(), at)
	v, err := discovery.NewDiscoveryClientForConfigOrDie(w.config).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	w.want("version", []string{v.GitVersion, v.Major, v.Minor}, []string{"v1.29.3", "1", "29"})
}

func TestServeLeavesAKubeconfigAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(t.TempDir(), "members")
	served := make(chan error, 1)
	go func() { served <- membertest.Serve(ctx, []string{"m1", "m2"}, dir) }()
	path := filepath.Join(dir, "kubeconfig")
	for {
		if _, err := os.Stat(path); err == nil {
			break
		}
		select {
		case err := <-served:
			t.Fatal(err)
		default:
		}
	}
	loader := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	for _, name := range []string{"m1", "m2"} {
		cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loader, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, cfg)
		w.must(w.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).Get(w.ctx, name+"-node", metav1.GetOptions{}))
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestAKubeconfigHasTheContextAskedFor(t *testing.T) {
	s := membertest.Start(t, "m")
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig("other"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, cfg)
	w.must(w.Resource(namespaces).Get(w.ctx, "default", metav1.GetOptions{}))
	if !strings.Contains(string(s.Kubeconfig("other")), "current-context: other") {
		t.Errorf("kubeconfig:\n%s", s.Kubeconfig("other"))
	}
}

func TestTheWatchesOfAKindEndWithIt(t *testing.T) {
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	w.must(w.apply(crds, "", definition, "a", false))
	apps := schema.GroupVersionResource{Group: "contract.example.com", Version: "v1", Resource: "apps"}
	w.must(w.apply(apps, w.ns, `{apiVersion: contract.example.com/v1, kind: App, metadata: {name: a}, spec: {image: i}}`, "a", false))
	from, err := w.in(apps).Watch(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Stop()
	if err := w.Resource(crds).Delete(w.ctx, "apps.contract.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var events []watch.EventType
	for e := range from.ResultChan() {
		events = append(events, e.Type)
	}
	w.want("events", events, []watch.EventType{watch.Added, watch.Deleted})
	w.must(w.apply(crds, "", definition, "a", false))
	list, err := w.in(apps).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.want("objects of the kind made anew", len(list.Items), 0)
}

func TestManyClientsAtOnceLoseNothing(t *testing.T) {
	const clients, rounds = 8, 20
	s := membertest.Start(t, "m")
	w := newWorld(t, s.RestConfig())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from, err := w.Resource(configMaps).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[string]any)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for e := range from.ResultChan() {
			if o := e.Object.(*unstructured.Unstructured); o.GetNamespace() == "default" {
				last[o.GetName()] = at(o, "data.k")
			}
			if len(last) == clients && func() bool {
				for _, v := range last {
					if v != fmt.Sprint("r", rounds-1) {
						return false
					}
				}
				return true
			}() {
				return
			}
		}
	}()
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for r := range rounds {
				name := fmt.Sprint("c", c)
				if _, err := w.apply(configMaps, w.ns, configMap(name, fmt.Sprint("k: r", r)), "a", false); err != nil {
					t.Error(err)
				}
				if _, err := w.in(configMaps).List(w.ctx, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := w.apply(deployments, w.ns, deployment(name, fmt.Sprint("replicas: ", r)), "a", false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for range rounds {
			s.Fail("default", "c1")
			s.Freeze()
			s.Thaw()
			s.Heal("default", "c1")
		}
	})
	group.Wait()
	<-watched
	for c := range clients {
		o := w.must(w.in(deployments).Get(w.ctx, fmt.Sprint("c", c), metav1.GetOptions{}))
		w.want("ready", at(o, "status.readyReplicas"), int64(rounds-1))
	}
}
