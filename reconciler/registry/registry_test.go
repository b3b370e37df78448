package registry

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/credential"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/member"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// world is a management cluster that is followed.
type world struct {
	*testing.T
	server   *membertest.Server
	later    atomic.Int64 // seconds that its clock is ahead
	secrets  typedcorev1.CoreV1Interface
	registry *Registry
	options  Options
}

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	w := &world{T: t}
	w.server = membertest.New(membertest.Options{Name: "management", Clock: func() time.Time { return time.Now().Add(time.Duration(w.later.Load()) * time.Second) }})
	t.Cleanup(w.server.Close)
	config := w.server.RestConfig()
	config.ContentType = runtime.ContentTypeJSON
	var err error
	if w.secrets, err = typedcorev1.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"argocd", "godwit"} {
		if _, err := w.secrets.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.options = Options{Config: w.server.RestConfig(), Namespaces: []string{"argocd", "godwit"}, ArgoCD: true, Members: true, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&w.options)
	}
	w.start()
	t.Cleanup(func() { w.registry.Close() })
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	if w.registry, err = New(w.options); err != nil {
		w.Fatal(err)
	}
}

// put writes a cluster Secret: key=value, and label.NAME=value.
func (w *world) put(where string, pairs ...string) {
	w.Helper()
	namespace, name, _ := strings.Cut(where, "/")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{credential.LabelSecretType: "cluster"}}, Data: map[string][]byte{}}
	for _, pair := range pairs {
		k, v, _ := strings.Cut(pair, "=")
		switch label, is := strings.CutPrefix(k, "label."); {
		case is && v == "":
			delete(s.Labels, label)
		case is:
			s.Labels[label] = v
		default:
			s.Data[k] = []byte(v)
		}
	}
	_, err := w.secrets.Secrets(namespace).Create(w.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = w.secrets.Secrets(namespace).Update(w.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(where string) {
	w.Helper()
	namespace, name, _ := strings.Cut(where, "/")
	if err := w.secrets.Secrets(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// eventually waits until holds is content, looking after each change.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-w.registry.Changed():
		case <-ctx.Done():
			w.Fatalf("never: %s; %+v", what, w.registry.Registrations())
		}
	}
}

// token is what a member is reached with; else why it is not.
func (w *world) token(c *clusterv1alpha1.Cluster) string {
	config, _, err := w.registry.Find(w.Context(), c)
	if err != nil {
		return err.Error()
	}
	return config.BearerToken
}

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func token(t string) string { return fmt.Sprintf(`config={"bearerToken": %q}`, t) }

func TestSecretsAreFollowedLive(t *testing.T) {
	w := newWorld(t, nil)
	m1, byServer := cluster("m1"), cluster("other")
	byServer.Spec.APIEndpoint = "https://m1/"
	w.put("argocd/a", "name=m1", "server=https://m1", token("one"), "label.env=prod", "label.topology.kubernetes.io/region=eu", "namespaces=a", "clusterResources=true")
	w.registry.Wait(t.Context())
	w.eventually("it is there", func() bool { return w.token(m1) == "one" && w.token(byServer) == "one" })
	got := w.registry.Registrations()
	want := decide.Registration{Name: "m1", Secret: "argocd/a", Server: "https://m1", Member: true, Region: "eu", Namespaces: []string{"a"}, ClusterResources: true,
		Labels: map[string]string{"env": "prod", "topology.kubernetes.io/region": "eu"}}
	if len(got.Clusters) != 1 || fmt.Sprint(got.Clusters[0]) != fmt.Sprint(want) || got.Unknown != "" || len(got.Findings) != 0 {
		t.Errorf("Registrations() = %+v", got)
	}
	_, before, _ := w.registry.Find(t.Context(), m1)
	if _, again, _ := w.registry.Find(t.Context(), m1); again != before {
		t.Error("another version of the same credentials")
	}
	w.put("argocd/a", "name=m1", "server=https://m1", token("two"))
	w.eventually("it is rotated", func() bool { return w.token(m1) == "two" })
	if _, after, _ := w.registry.Find(t.Context(), m1); after == before {
		t.Error("the version is that of the old credentials")
	}
	w.put("argocd/a", "name=m1", "server=https://m1", `config={"bearerToken": "`)
	w.eventually("it is broken, which is not the same as gone", func() bool {
		_, _, err := w.registry.Find(t.Context(), m1)
		return err != nil && !errors.Is(err, member.ErrNoCredentials) && !errors.Is(err, member.ErrNotYet)
	})
	if got := w.registry.Registrations(); len(got.Clusters) != 1 || len(got.Findings) != 1 {
		t.Errorf("Registrations() = %+v, want it to be a member still, with a finding", got)
	}
	w.remove("argocd/a")
	w.eventually("it is gone", func() bool {
		_, _, err := w.registry.Find(t.Context(), m1)
		return errors.Is(err, member.ErrNoCredentials)
	})
	w.put("argocd/a", "name=m1", "server=https://m1", token("three"), "label."+credential.LabelSecretType+"=")
	w.put("godwit/b", "name=m2", "server=https://m2", token("m2"))
	w.eventually("another namespace is followed, too", func() bool { return w.token(cluster("m2")) == "m2" })
	if got := w.token(m1); !strings.Contains(got, "no cluster Secret of Argo CD in argocd, godwit has its name or server") {
		t.Errorf("without the label: %s", got)
	}
}

func TestTheOlderOfTwoSecretsStaysInUse(t *testing.T) {
	w := newWorld(t, nil)
	w.put("argocd/z", "name=m1", "server=https://m1", token("old"))
	w.eventually("it is there", func() bool { return w.token(cluster("m1")) == "old" })
	w.later.Store(60)
	w.put("argocd/a", "name=m1", "server=https://elsewhere", token("new"))
	w.put("argocd/b", "name=m3", "server=https://m1/", token("new"))
	w.eventually("both are findings", func() bool { return len(w.registry.Registrations().Findings) == 2 })
	got := w.registry.Registrations()
	for i, want := range []string{
		"error: cluster-secret-duplicate: Secret argocd/a: name: is that of Secret argocd/z, too, which is older",
		"error: cluster-secret-duplicate: Secret argocd/b: server: is that of Secret argocd/z, too, which is older",
	} {
		if text := got.Findings[i].String(); !strings.HasPrefix(text, want) {
			t.Errorf("finding %s, want %s", text, want)
		}
	}
	if w.token(cluster("m1")) != "old" || len(got.Clusters) != 1 {
		t.Errorf("%s, %+v", w.token(cluster("m1")), got.Clusters)
	}
	w.remove("argocd/z")
	w.eventually("the newer ones are in use", func() bool {
		return w.token(cluster("m1")) == "new" && w.token(cluster("m3")) == "new" && len(w.registry.Registrations().Findings) == 0
	})
}

func TestTheSecretThatAManifestNames(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ArgoCD = false })
	if got := w.registry.Registrations(); len(got.Clusters) > 0 || !got.Off {
		t.Error("registrations without being asked for them")
	}
	m1 := cluster("m1")
	m1.Spec.APIEndpoint, m1.Spec.SecretRef = "https://m1", &clusterv1alpha1.LocalSecretReference{Namespace: "godwit", Name: "m1"}
	if got := w.token(m1); !strings.Contains(got, "there is no Secret godwit/m1, which spec.secretRef names") {
		t.Error(got)
	}
	w.put("godwit/m1", "token=one")
	w.put("godwit/m2", "token=other")
	w.eventually("it is there", func() bool { return w.token(m1) == "one" })
	w.put("godwit/m1", "token=two")
	w.eventually("it is rotated", func() bool { return w.token(m1) == "two" })
	m1.Spec.SecretRef.Namespace = "kube-system"
	if got := w.token(m1); !strings.Contains(got, "kube-system, which is not among clusters.namespaces (argocd, godwit)") {
		t.Error(got)
	}
	for _, ask := range []string{"LIST", "WATCH"} {
		if n := w.server.Requests(ask); n > 4 {
			t.Errorf("%d requests %s for one Secret", n, ask)
		}
	}
}

// contexts is a kubeconfig with one context.
type contexts struct{}

func (contexts) Find(_ context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	if c.Name != "m1" {
		return nil, "", fmt.Errorf("%w: no context %q", member.ErrNoCredentials, c.Name)
	}
	return &rest.Config{BearerToken: "context"}, "1", nil
}

func TestTheChainOfLookUps(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Fallback = contexts{} })
	m1 := cluster("m1")
	m1.Spec.APIEndpoint, m1.Spec.SecretRef = "https://m1", &clusterv1alpha1.LocalSecretReference{Namespace: "godwit", Name: "m1"}
	w.eventually("the context is last", func() bool { return w.token(m1) == "context" })
	w.put("argocd/m1", "name=m1", "server=https://m1", token("argocd"))
	w.eventually("the cluster Secret goes before", func() bool { return w.token(m1) == "argocd" })
	w.put("godwit/m1", "token=named")
	w.eventually("what the manifest names goes first", func() bool { return w.token(m1) == "named" })
	got := w.token(cluster("m9"))
	if want := `no credentials: no cluster Secret of Argo CD in argocd, godwit has its name or server; no context "m9"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheInClusterServerNeedsNoSecret(t *testing.T) {
	w := newWorld(t, nil)
	here := cluster("here")
	here.Spec.APIEndpoint = credential.InCluster
	w.eventually("it is known", func() bool { return w.token(here) == w.server.Token() })
	w.put("argocd/here", "name=here", "server="+credential.InCluster)
	w.eventually("nor one with credentials", func() bool { return len(w.registry.Registrations().Clusters) == 1 })
	if got := w.token(cluster("here")); got != w.server.Token() {
		t.Error(got)
	}
	w.put("argocd/here", "name=here", "server="+credential.InCluster, token("own"))
	w.eventually("it may have some", func() bool { return w.token(cluster("here")) == "own" })
}

func TestAManagementClusterThatIsAway(t *testing.T) {
	w := newWorld(t, nil)
	w.put("argocd/m1", "name=m1", "server=https://m1", token("one"))
	w.eventually("it is there", func() bool { return w.token(cluster("m1")) == "one" })
	w.registry.Wait(t.Context())
	w.server.Down()
	if got := w.token(cluster("m1")); got != "one" || w.registry.Registrations().Unknown != "" || len(w.registry.Registrations().Clusters) != 1 {
		t.Errorf("away: %s, %+v", got, w.registry.Registrations())
	}
	w.registry.Close()
	w.start()
	_, _, err := w.registry.Find(t.Context(), cluster("m1"))
	if got := w.registry.Registrations(); got == nil || got.Unknown == "" || !errors.Is(err, member.ErrNotYet) {
		t.Errorf("away from the start: %v, %+v", err, got)
	}
	if err := w.server.Up(); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is back", func() bool { return w.token(cluster("m1")) == "one" && w.registry.Registrations().Unknown == "" })
}

func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	w := newWorld(t, nil)
	w.registry.Close()
	w.server.Intercept(func(r *http.Request) *metav1.Status {
		if strings.Contains(r.URL.Path, "/namespaces/argocd/secrets") {
			return &apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no RBAC")).ErrStatus
		}
		return nil
	})
	w.start()
	w.put("godwit/m2", "name=m2", "server=https://m2", token("two"))
	w.eventually("what may be read is in use", func() bool { return w.token(cluster("m2")) == "two" })
	w.eventually("and it is said what may not", func() bool {
		return strings.Contains(w.registry.Registrations().Unknown, "namespace argocd of the management cluster cannot be read: ") &&
			strings.Contains(w.registry.Registrations().Unknown, "no RBAC")
	})
	if _, _, err := w.registry.Find(t.Context(), cluster("m1")); !errors.Is(err, member.ErrNotYet) {
		t.Errorf("one that may be there: %v", err)
	}
}

func TestOnlyTheSecretsOfItsNamespacesAreAskedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.registry.Close()
	var asked []string
	done := make(chan struct{})
	w.server.Intercept(func(r *http.Request) *metav1.Status {
		select {
		case <-done:
		default:
			if !strings.HasSuffix(r.URL.Path, "/secrets") || r.Method != http.MethodGet || r.URL.Query().Get("labelSelector") != credential.LabelSecretType+"=cluster" {
				asked = append(asked, r.Method+" "+r.URL.String())
			}
		}
		return nil
	})
	w.start()
	w.registry.Wait(t.Context())
	close(done)
	if len(asked) > 0 {
		t.Errorf("asked for %v", asked)
	}
}

func TestNoCredentialsGoToALinkLocalAddress(t *testing.T) {
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%lo]:443", "[::ffff:169.254.1.1]:443"} {
		_, err := dialer.DialContext(t.Context(), "tcp", address)
		if err == nil || !strings.Contains(err.Error(), "is a link-local address") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name may resolve to anything, and to something else the next time: what counts is the address that is connected to, of
// the server or of a proxy on the way.
func TestClientsLookAtTheAddressTheyConnectTo(t *testing.T) {
	for _, a := range []credential.Access{
		{Server: "https://169.254.169.254"}, {Server: "https://[fd00:ec2::254]"}, {Server: "https://m1.example.com", ProxyURL: "http://169.254.169.254:3128"},
		{Server: "https://m1.example.com", ProxyURL: "socks5://[::ffff:169.254.169.254]:1080"},
	} {
		a.Token = "secret"
		config, err := restConfig(&a)
		if err != nil {
			t.Fatal(err)
		}
		client, err := typedcorev1.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = client.Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		if cancel(); err == nil || !strings.Contains(err.Error(), "to which no credentials are sent") {
			t.Errorf("%s by %s: %v", a.Server, a.ProxyURL, err)
		}
	}
}

func TestWhatClientsAreMadeOf(t *testing.T) {
	c, err := restConfig(&credential.Access{
		Server: "https://m1", ProxyURL: "http://u:p@proxy:3128", ProxyHeader: map[string]string{"X-A": "b"}, ServerName: "n", Insecure: true,
		Exec: &credential.Exec{Command: "aws", Args: []string{"a"}, Env: []credential.Env{{Name: "A", Value: "1"}}, APIVersion: "client.authentication.k8s.io/v1", Config: []byte(`{"x":1}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequest(http.MethodGet, "https://m1", nil)
	if proxy, err := c.Proxy(request); err != nil || proxy.Host != "proxy:3128" {
		t.Errorf("proxy %v %v", proxy, err)
	}
	text, err := json.Marshal(c.ExecProvider.Config)
	if err != nil || string(text) != `{"x":1}` || c.ExecProvider.Env[0].Value != "1" || c.ExecProvider.InteractiveMode != "Never" {
		t.Errorf("exec %+v %s %v", c.ExecProvider, text, err)
	}
	transport := &http.Transport{}
	c.WrapTransport(transport)
	if transport.ProxyConnectHeader.Get("X-A") != "b" {
		t.Error("the proxy gets no header")
	}
	if c, _ = restConfig(&credential.Access{Server: "https://m1"}); c.Proxy == nil {
		t.Error("without a proxy function transports are kept for ever")
	}
	for _, a := range []credential.Access{{Server: "https://m1", Insecure: true}, {Server: "https://m1", ServerName: "n"}} {
		c, err := restConfig(&a)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := rest.TLSConfigFor(c); err != nil || s.MinVersion < tls.VersionTLS12 || s.InsecureSkipVerify != a.Insecure {
			t.Errorf("TLS from %x on, %v", s.MinVersion, err)
		}
	}
}

// A real way, to the end: the authority and the token of the Secret.
func TestTheWayLeadsThere(t *testing.T) {
	w := newWorld(t, nil)
	m1 := membertest.Start(t, "m1")
	config := m1.RestConfig()
	text := fmt.Sprintf(`{"bearerToken": %q, "tlsClientConfig": {"caData": %q}}`, config.BearerToken, base64.StdEncoding.EncodeToString(config.CAData))
	w.put("argocd/m1", "name=m1", "server="+config.Host, "config="+text)
	w.eventually("it is there", func() bool { return w.token(cluster("m1")) == m1.Token() })
	found, _, err := w.registry.Find(t.Context(), cluster("m1"))
	if err != nil {
		t.Fatal(err)
	}
	found.ContentType = runtime.ContentTypeJSON
	client, err := typedcorev1.NewForConfig(found)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
