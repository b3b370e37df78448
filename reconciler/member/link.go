package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/godwit-gitops/godwit/reconciler/observe"
	"github.com/godwit-gitops/godwit/render/project"
)

// A link is the clients made from one version of a member's credentials.
type link struct {
	version string
	// objects is for work on objects: limited in rate, every request with a time-out.
	objects dynamic.Interface
	// watches has neither, as a watch lasts.
	watches dynamic.Interface
	// info is for probes and discovery: every request with a time-out.
	info *discovery.DiscoveryClient
	// lists is for what is long and can wait: it has neither, too, and its 429 makes nothing else rest.
	lists rest.Interface

	transport http.RoundTripper
	// exposed says how others can listen to what is sent there; empty means that they cannot.
	exposed string
	valid   validity

	discovering sync.Mutex // one at a time
}

// rest closes the connections that nothing uses, as they may lead nowhere. A nil link has none.
func (l *link) rest() {
	if l != nil {
		utilnet.CloseIdleConnectionsFor(l.transport)
	}
}

// identity is what a member said of itself.
type identity struct {
	uid, version string
	catalog      *observe.Catalog
	at           time.Time // of the catalog
}

// newLink makes the clients. throttled is called when the member answers 429; while readOnly holds, no
// request leaves that could write.
func newLink(config *rest.Config, version string, o Options, throttled func(time.Duration), readOnly func() bool) (*link, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = o.UserAgent
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.Timeout = 0
	config.RateLimiter, config.QPS, config.Burst = nil, -1, 0
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	plain.CheckRedirect = stayOnHost
	plain.Transport = guard{impersonator{plain.Transport}, readOnly}
	lasting := *plain
	lasting.Transport = throttle{plain.Transport, throttled}
	timed := lasting
	timed.Timeout = o.RequestTimeout

	l := &link{version: version, transport: plain.Transport, exposed: Exposed(config), valid: validityOf(config)}
	lists, err := discovery.NewDiscoveryClientForConfigAndClient(config, plain)
	if err != nil {
		return nil, err
	}
	l.lists = lists.RESTClient()
	if l.watches, err = dynamic.NewForConfigAndClient(config, &lasting); err != nil {
		return nil, err
	}
	if l.info, err = discovery.NewDiscoveryClientForConfigAndClient(config, &timed); err != nil {
		return nil, err
	}
	if o.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst)
	}
	if l.objects, err = dynamic.NewForConfigAndClient(config, &timed); err != nil {
		return nil, err
	}
	return l, nil
}

// Exposed says how whoever is between here and a server can read the credentials and answer in its place, as nothing of the
// server is verified; empty means that TLS keeps that from happening, or that it is this machine.
func Exposed(config *rest.Config) string {
	where, _, err := rest.DefaultServerUrlFor(config)
	switch {
	case err != nil: // it is no way at all
		return ""
	case config.Insecure:
		return "its certificate is not verified (insecure-skip-tls-verify, insecure); give its certificate authority instead"
	case where.Scheme == "http" && !loopback(where.Hostname()):
		return "it is asked over plain http; give its address with https"
	}
	return ""
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// stayOnHost follows no redirect to another host: credentials are sent with every request.
func stayOnHost(r *http.Request, via []*http.Request) error {
	switch first := via[0].URL; {
	case r.URL.Host != first.Host || r.URL.Scheme != first.Scheme:
		return fmt.Errorf("%s redirects to another host, %s, which is not followed", first.Host, r.URL.Host)
	case len(via) >= 10:
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// guard lets nothing but reading pass while readOnly holds.
type guard struct {
	next     http.RoundTripper
	readOnly func() bool
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if !reads(r) && g.readOnly() {
		discard(r)
		return nil, fmt.Errorf("%s %s is not sent: others write to this member", r.Method, r.URL.Path)
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// accountKey is where a context has the service account that is written as.
type accountKey struct{}

// as is the context for writing as a service account, "namespace/name".
func as(ctx context.Context, account string) context.Context {
	return context.WithValue(ctx, accountKey{}, account)
}

// impersonator writes as the service account that the context of a request names. What only reads is done as ourselves:
// who may write an object need not be able to list it, and what we see is the same whoever writes.
type impersonator struct{ next http.RoundTripper }

func (i impersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	account, _ := r.Context().Value(accountKey{}).(string)
	if account == "" || reads(r) {
		return i.next.RoundTrip(r)
	}
	namespace, name, err := project.ParseAccount(account)
	if err != nil { // it is not for us to write it instead
		discard(r)
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(transport.ImpersonateUserHeader, "system:serviceaccount:"+namespace+":"+name)
	return i.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (i impersonator) WrappedRoundTripper() http.RoundTripper { return i.next }

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// discard is what becomes of a request that is not sent.
func discard(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// throttle reports answers 429.
type throttle struct {
	next   http.RoundTripper
	report func(time.Duration)
}

func (t throttle) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		pause := time.Second
		if s, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && s > 0 {
			pause = time.Duration(s) * time.Second
		}
		t.report(pause)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t throttle) WrappedRoundTripper() http.RoundTripper { return t.next }

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// uid tells one cluster from another.
func (l *link) uid(ctx context.Context) (string, error) {
	system, err := l.watches.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of namespace kube-system: %w", err)
	}
	return string(system.GetUID()), nil
}

// identify asks the member with that UID what it is.
func (l *link) identify(uid string, now time.Time) (identity, error) {
	version, err := l.info.ServerVersion()
	if err != nil {
		return identity{}, fmt.Errorf("read the version: %w", err)
	}
	catalog, err := observe.Discover(l.info)
	if err != nil {
		return identity{}, err
	}
	return identity{uid: uid, version: version.GitVersion, catalog: catalog, at: now}, nil
}

// client reaches the objects of one kind in one namespace.
func client(from dynamic.Interface, r observe.Resource, namespace string) dynamic.ResourceInterface {
	if !r.Namespaced {
		return from.Resource(r.GroupVersionResource)
	}
	return from.Resource(r.GroupVersionResource).Namespace(namespace)
}
