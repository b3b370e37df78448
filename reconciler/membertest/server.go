package membertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options say what a simulated member is like. The zero value is a good one.
type Options struct {
	Name    string           // also its context in a kubeconfig; default "member"
	Token   string           // what clients authenticate with; default a random one
	Version string           // its gitVersion; default "v1.36.1"
	Clock   func() time.Time // for the times in objects, but for those of managed fields; default time.Now
}

// Server is a simulated member. Its methods may be called from many goroutines.
type Server struct {
	name, gitVersion string
	token            atomic.Pointer[string]
	clock            func() time.Time
	http             *http.Server // nil while it is down
	tls              *tls.Config
	authority        []byte // PEM
	gate             *gate
	life             sync.Mutex // one Down or Up at a time; guards http
	serving          sync.WaitGroup
	handlers         sync.RWMutex // read-locked by each handler while it runs
	down             atomic.Bool
	notReady         atomic.Bool
	intercept        atomic.Pointer[func(*http.Request) *metav1.Status]
	counts           counters

	mu          sync.RWMutex // guards what follows
	version     uint64       // the latest resourceVersion
	served      map[schema.GroupVersionResource]*resource
	kinds       map[schema.GroupResource]*collection
	custom      map[string]*collection // by the name of the definition
	namespaces  *collection
	definitions *collection
	configMaps  *collection
	owned       map[types.UID]map[ref]struct{} // by owner
	uids        map[types.UID]ref              // of all objects
	inNamespace map[string]int                 // numbers of objects
	changes     []change                       // for the controllers to look at
	addresses   int                            // given to Services
	nodePorts   int
}

// New starts a member on a free port of 127.0.0.1. It panics if there is none:
// nothing else can fail, and a demo or a test cannot go on without.
func New(o Options) *Server {
	s := &Server{
		name:       cmp.Or(o.Name, "member"),
		gitVersion: cmp.Or(o.Version, "v1.36.1"),
		clock:      o.Clock,
		version:    1,

		served:      make(map[schema.GroupVersionResource]*resource),
		kinds:       make(map[schema.GroupResource]*collection),
		custom:      make(map[string]*collection),
		owned:       make(map[types.UID]map[ref]struct{}),
		uids:        make(map[types.UID]ref),
		inNamespace: make(map[string]int),
	}
	s.SetToken(cmp.Or(o.Token, rand.Text()))
	if s.clock == nil {
		s.clock = time.Now
	}
	if err := s.begin(); err != nil {
		panic(fmt.Sprintf("start member %s: %v", s.name, err))
	}
	return s
}

func (s *Server) begin() error {
	all, err := builtinResources()
	if err != nil {
		return err
	}
	for _, r := range all {
		s.served[r.GroupVersion().WithResource(r.plural)] = r
		s.kinds[r.groupResource()] = r.objects
	}
	s.namespaces = s.kinds[schema.GroupResource{Resource: "namespaces"}]
	s.configMaps = s.kinds[schema.GroupResource{Resource: "configmaps"}]
	s.definitions = s.kinds[schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}]
	for _, name := range []string{metav1.NamespaceDefault, "kube-node-lease", metav1.NamespacePublic, metav1.NamespaceSystem} {
		if err := s.add("namespaces", "", name, nil); err != nil {
			return err
		}
	}
	size := map[string]any{"cpu": "64", "memory": "256Gi", "pods": "1000"}
	if err := s.add("nodes", "", s.name+"-node", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"kubernetes.io/hostname": s.name + "-node"}},
		"status": map[string]any{"capacity": size, "allocatable": size,
			"conditions": s.conditions(nil, "", condition{"Ready", metav1.ConditionTrue, "Simulated", "there is no kubelet"})},
	}); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	for _, c := range s.kinds {
		c.floor = s.version // older versions are as good as forgotten
		c.events = nil
	}
	if err := s.certify(); err != nil {
		return err
	}
	s.gate = newGate()
	return s.listen("127.0.0.1:0")
}

func (s *Server) listen(address string) error {
	l, err := s.gate.listen(address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, TLSConfig: s.tls, ErrorLog: log.New(io.Discard, "", 0)}
	s.http = server
	s.down.Store(false)
	s.serving.Go(func() {
		if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("member %s: %v", s.name, err)) // the listener is ours alone
		}
	})
	return nil
}

// Name returns the member's name.
func (s *Server) Name() string { return s.name }

// URL returns where the member listens.
func (s *Server) URL() string { return "https://" + s.gate.address() }

// Token returns what clients authenticate with.
func (s *Server) Token() string { return *s.token.Load() }

// SetToken has clients authenticate with another one: what has the old one is not let in any more.
func (s *Server) SetToken(token string) { s.token.Store(&token) }

// RestConfig returns how to reach the member, without a limit on the rate of requests.
func (s *Server) RestConfig() *rest.Config {
	return &rest.Config{Host: s.URL(), BearerToken: s.Token(), TLSClientConfig: rest.TLSClientConfig{CAData: s.authority}, QPS: -1}
}

// Kubeconfig returns a kubeconfig with one context, of the name given.
func (s *Server) Kubeconfig(context string) []byte {
	b, err := clientcmd.Write(kubeconfig(map[string]*Server{context: s}))
	if err != nil {
		panic(err) // it is made of strings
	}
	return b
}

// WriteKubeconfig writes a kubeconfig with a context for each server, under its name. The first is the current one.
func WriteKubeconfig(path string, servers ...*Server) error {
	all := make(map[string]*Server, len(servers))
	for _, s := range servers {
		all[s.name] = s
	}
	config := kubeconfig(all)
	if len(servers) > 0 {
		config.CurrentContext = servers[0].name
	}
	return clientcmd.WriteToFile(config, path)
}

func kubeconfig(servers map[string]*Server) clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	for name, s := range servers {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: s.URL(), CertificateAuthorityData: s.authority}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.Token()}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		config.CurrentContext = name
	}
	return *config
}

// Serve runs members of the given names until ctx ends, and returns nil then. Their kubeconfig, with a context
// for each, is the file kubeconfig in dir: once it is there, all of them answer.
func Serve(ctx context.Context, names []string, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	servers := make([]*Server, len(names))
	for i, name := range names {
		servers[i] = New(Options{Name: name})
		defer servers[i].Close()
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(path+".new", servers...); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// T is what [Start] needs of a *testing.T.
type T interface {
	Helper()
	Cleanup(func())
}

// Start is New for the duration of a test.
func Start(t T, name string) *Server {
	t.Helper()
	s := New(Options{Name: name})
	t.Cleanup(s.Close)
	return s
}

// Close ends the member. It returns when nothing of it runs any more.
func (s *Server) Close() { s.Down() }

// Down refuses connections, as a dead process does; objects are kept. It returns when nothing is served any more.
func (s *Server) Down() {
	s.life.Lock()
	defer s.life.Unlock()
	if s.http == nil {
		return
	}
	s.down.Store(true)
	_ = s.http.Close() // an error is that of a connection that was closed already
	s.serving.Wait()
	s.handlers.Lock() // when all handlers are done
	s.handlers.Unlock()
	s.http = nil
}

// Up ends Down: the member listens on the port it had. The error is that of a port that another program took.
func (s *Server) Up() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.http != nil {
		return nil
	}
	if err := s.listen(s.gate.address()); err != nil {
		return fmt.Errorf("bring up member %s: %w", s.name, err)
	}
	return nil
}

// Freeze stops the member as SIGSTOP stops a process: connections and requests are
// accepted and never answered, watches fall silent.
func (s *Server) Freeze() { s.gate.close() }

// Thaw ends Freeze: requests that wait are answered, also those whose sender went away.
func (s *Server) Thaw() { s.gate.open() }

// SetNotReady makes /readyz answer 500, and all else go on.
func (s *Server) SetNotReady(notReady bool) { s.notReady.Store(notReady) }

// Intercept has f see each request first: what f returns, unless it is nil, is the answer.
// It stands for a webhook, a quota, a busy server. f is called from many goroutines; nil takes it away.
func (s *Server) Intercept(f func(*http.Request) *metav1.Status) {
	if f == nil {
		s.intercept.Store(nil)
		return
	}
	s.intercept.Store(&f)
}

// Fail makes the pods of a workload fail: at once, and until [Server.Heal]. The name * stands for all of a namespace.
// It is done by the ConfigMap test-fail in kube-system, which clients may write too.
func (s *Server) Fail(namespace, name string) { s.setFailure(namespace, name, true) }

// Heal ends Fail for the same arguments.
func (s *Server) Heal(namespace, name string) { s.setFailure(namespace, name, false) }

func (s *Server) setFailure(namespace, name string, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{metav1.NamespaceSystem, failConfigMap}
	err := s.add("configmaps", k.namespace, k.name, nil)
	if err == nil || apierrors.IsAlreadyExists(err) {
		before := s.configMaps.objects[k]
		content := runtime.DeepCopyJSON(before.Object)
		data, _ := content["data"].(map[string]any)
		if data == nil {
			data = make(map[string]any)
			content["data"] = data
		}
		delete(data, failureKey(namespace, name))
		if fails {
			data[failureKey(namespace, name)] = namespace + "/" + name
		}
		_, err = s.put(s.configMaps, before, content)
	}
	if err = errors.Join(err, s.settle()); err != nil {
		panic(err) // the object is ours
	}
}

// failureKey names a failure in the ConfigMap.
func failureKey(namespace, name string) string {
	if name == "*" {
		name = "_all"
	}
	return namespace + "." + name
}

// Compact forgets the history: a watch from any earlier version is told 410 Expired.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, c := range s.kinds {
		c.events, c.floor = nil, s.version
	}
}

// serve serves the resources of a definition, in place of those it had. objects is their collection; nil stands for
// a definition that is gone. The caller holds s.mu.
func (s *Server) serve(definition string, objects *collection, resources []*resource) {
	old := s.custom[definition]
	maps.DeleteFunc(s.served, func(_ schema.GroupVersionResource, r *resource) bool { return old != nil && r.objects == old })
	switch {
	case objects == nil && old != nil:
		delete(s.kinds, old.resource.groupResource())
		delete(s.custom, definition)
		old.end()
	case objects != nil:
		if old == nil {
			objects.floor = s.version
		}
		s.kinds[objects.resource.groupResource()] = objects
		s.custom[definition] = objects
	}
	for _, r := range resources {
		s.served[r.GroupVersion().WithResource(r.plural)] = r
	}
}

// collections returns all collections, in order.
func (s *Server) collections() []*collection {
	all := slices.Collect(maps.Values(s.kinds))
	slices.SortFunc(all, func(a, b *collection) int {
		return cmp.Compare(a.resource.groupResource().String(), b.resource.groupResource().String())
	})
	return all
}

func (s *Server) now() metav1.Time { return metav1.NewTime(s.clock().UTC()).Rfc3339Copy() }
