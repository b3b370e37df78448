package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/godwit-gitops/godwit/reconciler/credential"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
)

// Options of a Registry.
type Options struct {
	// Config reaches the management cluster; nil means that there is none.
	Config *rest.Config
	// Namespaces are the only ones that Secrets are read in.
	Namespaces []string
	// ArgoCD: cluster Secrets of Argo CD are read; without it only those that manifests name.
	ArgoCD bool
	// Members: each of them is a member, even with no manifest.
	Members bool
	// Rules for what Secrets may ask for.
	Rules credential.Rules
	// Fallback is asked where no Secret helps; nil means nobody.
	Fallback member.Lookup
	// UserAgent of all requests, default "godwit".
	UserAgent string
	// Logger, default slog.Default().
	Logger *slog.Logger
}

// Registry follows the Secrets. It has to be closed.
type Registry struct {
	options Options
	client  typedcorev1.CoreV1Interface // nil without a management cluster
	ctx     context.Context
	stop    context.CancelFunc
	group   sync.WaitGroup
	changed chan struct{}

	mu     sync.Mutex
	labels []*follow         // of cluster Secrets, one a namespace
	named  map[place]*follow // of Secrets that manifests name
	seen   *view             // nil: something changed since it was made
	closed bool
}

type place struct{ namespace, name string }

// New begins to follow. The error is that of a configuration that no client can be made from.
func New(o Options) (*Registry, error) {
	o.UserAgent = cmp.Or(o.UserAgent, "godwit")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	r := &Registry{options: o, changed: make(chan struct{}, 1), named: map[place]*follow{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	if o.Config == nil {
		return r, nil
	}
	config := rest.CopyConfig(o.Config)
	config.UserAgent, config.ContentType = o.UserAgent, runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{}
	var err error
	if r.client, err = typedcorev1.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client for the management cluster: %w", err)
	}
	if o.ArgoCD {
		selector := labels.Set{credential.LabelSecretType: credential.SecretTypeCluster}.String()
		for _, namespace := range o.Namespaces {
			r.labels = append(r.labels, r.begin(namespace, func(l *metav1.ListOptions) { l.LabelSelector = selector }))
		}
	}
	return r, nil
}

// Close ends everything and waits for it.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.group.Wait()
}

// Changed gets a value after something may be other than before. Changes that come before it is taken share it.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

func (r *Registry) touch() {
	r.mu.Lock()
	r.seen = nil
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// A follow keeps a copy of some Secrets of a namespace.
type follow struct {
	namespace string
	informer  cache.SharedIndexInformer
	stop      context.CancelFunc
	synced    chan struct{} // closed after the first list

	// Guarded by Registry.mu.
	err   error     // of the last try that failed
	at    string    // the version that was read last by then
	asked time.Time // when it was last of use; zero for those that always are
}

func (f *follow) known() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// begin follows the Secrets of a namespace that are selected.
func (r *Registry) begin(namespace string, selects func(*metav1.ListOptions)) *follow {
	secrets := r.client.Secrets(namespace)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			selects(&o)
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selects(&o)
			return secrets.Watch(ctx, o)
		},
	}
	f := &follow{namespace: namespace, informer: cache.NewSharedIndexInformer(source, &corev1.Secret{}, 0, nil), synced: make(chan struct{})}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.touch() }, UpdateFunc: func(any, any) { r.touch() }, DeleteFunc: func(any) { r.touch() },
	}
	// What can fail here is for informers that run, or ran.
	_, err := f.informer.AddEventHandler(changed)
	err = errors.Join(err,
		f.informer.SetTransform(slim),
		f.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { r.failed(f, err) }))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(r.ctx)
	f.stop = stop
	r.group.Go(func() { f.informer.RunWithContext(ctx) })
	r.group.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), f.informer.HasSynced) {
			close(f.synced)
			r.touch()
		}
	})
	return f
}

// slim drops what nobody reads; the last applied configuration would be a second copy of the values.
func slim(o any) (any, error) {
	if s, ok := o.(*corev1.Secret); ok {
		s.ManagedFields = nil
		delete(s.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// failed notes why Secrets cannot be read, and says so once.
func (r *Registry) failed(f *follow, err error) {
	at := f.informer.LastSyncResourceVersion()
	r.mu.Lock()
	said := f.err != nil && f.err.Error() == err.Error() && f.at == at
	f.err, f.at = err, at
	r.mu.Unlock()
	if said || r.ctx.Err() != nil {
		return
	}
	r.options.Logger.Warn("Secrets of the management cluster cannot be followed, what was read last stays in use", "namespace", f.namespace, "error", err)
	r.touch()
}

// Wait returns when it is known which Secrets there are, or when ctx ends.
func (r *Registry) Wait(ctx context.Context) {
	for _, f := range r.labels {
		select {
		case <-f.synced:
		case <-ctx.Done():
			return
		}
	}
}

// view is what the cluster Secrets say together.
type view struct {
	byName, byServer map[string]*credential.Entry
	registrations    *decide.Registrations
}

// look makes the view anew if something changed.
func (r *Registry) look() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != nil {
		return r.seen
	}
	v := &view{byName: map[string]*credential.Entry{}, byServer: map[string]*credential.Entry{}, registrations: &decide.Registrations{Off: len(r.labels) == 0}}
	var all []*corev1.Secret
	var away []string
	for _, f := range r.labels {
		if !f.known() {
			why := "it has not answered yet"
			if f.err != nil {
				why = f.err.Error()
			}
			away = append(away, fmt.Sprintf("Secrets in namespace %s of the management cluster cannot be read: %s", f.namespace, why))
			continue
		}
		for _, o := range f.informer.GetStore().List() {
			all = append(all, o.(*corev1.Secret))
		}
	}
	v.registrations.Unknown = strings.Join(away, "; ")
	// The older one of two is in use: a new Secret takes no member over from another.
	slices.SortFunc(all, func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range all {
		v.add(s, r.options)
	}
	for _, name := range slices.Sorted(maps.Keys(v.byName)) {
		v.registrations.Clusters = append(v.registrations.Clusters, registration(v.byName[name], r.options.Members))
	}
	r.seen = v
	return v
}

func (v *view) add(s *corev1.Secret, o Options) {
	e, findings := credential.ArgoCD(s, o.Rules)
	v.registrations.Findings = append(v.registrations.Findings, findings...)
	if e.Name == "" {
		return // it has no server either, which has a finding
	}
	for _, taken := range []struct {
		by   *credential.Entry
		what string
	}{{v.byName[e.Name], "name"}, {v.byServer[e.Server], "server"}} {
		if taken.by != nil {
			v.registrations.Findings = append(v.registrations.Findings, duplicate(&e, taken.by, taken.what))
			return
		}
	}
	v.byName[e.Name] = &e
	if e.Server != "" {
		v.byServer[e.Server] = &e
	}
}

// find gives the cluster Secret of a member; nil if there is none.
func (v *view) find(name, endpoint string) *credential.Entry {
	if e := v.byName[name]; e != nil {
		return e
	}
	return v.byServer[strings.TrimRight(endpoint, "/")]
}

// Registrations are what the cluster Secrets say of members; Off where they are not read.
func (r *Registry) Registrations() *decide.Registrations { return r.look().registrations }
