package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/render"
)

// certificate makes a pair in PEM.
func certificate(t testing.TB) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func secret(data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "m1", Labels: map[string]string{LabelSecretType: SecretTypeCluster}}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestAClusterSecretIsReadInFull(t *testing.T) {
	cert, key := certificate(t)
	b64 := base64.StdEncoding.EncodeToString
	s := secret(map[string]string{
		"name": "m1", "server": "https://10.0.0.1:6443/", "namespaces": " web, api ,,web", "clusterResources": "true", "project": "p", "shard": "3",
		"config": fmt.Sprintf(`{"bearerToken": "tok", "tlsClientConfig": {"serverName": "api", "caData": %q, "certData": %q, "keyData": %q}, "proxyUrl": "http://proxy:3128", "disableCompression": true}`, b64(cert), b64(cert), b64(key)),
	})
	s.Labels["env"], s.Labels["topology.kubernetes.io/region"], s.Labels["topology.kubernetes.io/zone"] = "prod", "eu", "eu-1"
	s.Labels["topology.kubernetes.io/provider"] = "metal"
	s.Annotations = map[string]string{AnnotationSkipReconcile: "true", AnnotationMember: "false"}
	got, findings := ArgoCD(s, Rules{})
	if len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
	three := 3
	want := Entry{
		Secret: "argocd/m1", Name: "m1", Server: "https://10.0.0.1:6443", Namespaces: []string{"api", "web"}, ClusterResources: true, Paused: true, NoMember: true,
		Project: "p", Shard: &three, Region: "eu", Zone: "eu-1", Provider: "metal",
		Labels: map[string]string{"env": "prod", "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1", "topology.kubernetes.io/provider": "metal"},
		Access: &Access{Server: "https://10.0.0.1:6443", ProxyURL: "http://proxy:3128", ServerName: "api", CA: cert, Cert: cert, Key: key, Token: "tok", DisableCompression: true},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Labels[LabelSecretType] == "" {
		t.Error("the Secret was changed")
	}
}

func TestEachWayToAuthenticate(t *testing.T) {
	rules := Rules{ExecCommands: []string{"aws"}}
	for _, tt := range []struct {
		config string
		want   Access
	}{
		{``, Access{}},
		{`{}`, Access{}},
		{`{"username": "u", "password": "p"}`, Access{Username: "u", Password: "p"}},
		{`{"bearerToken": "t", "tlsClientConfig": {"insecure": true}}`, Access{Token: "t", Insecure: true}},
		{`{"execProviderConfig": {"command": "aws", "args": ["eks"], "env": {"B": "2", "A": "1"}, "apiVersion": "client.authentication.k8s.io/v1", "installHint": "h", "provideClusterInfo": true, "config": {"x": 1}}}`,
			Access{Exec: &Exec{Command: "aws", Args: []string{"eks"}, Env: []Env{{"A", "1"}, {"B", "2"}}, APIVersion: "client.authentication.k8s.io/v1", InstallHint: "h", ProvideClusterInfo: true, Config: []byte(`{"x": 1}`)}}},
		{`{"execProviderConfig": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1beta1", "config": null}, "awsAuthConfig": null}`,
			Access{Exec: &Exec{Command: "aws", APIVersion: "client.authentication.k8s.io/v1beta1"}}},
	} {
		tt.want.Server = "https://m1"
		e, _ := ArgoCD(secret(map[string]string{"server": "https://m1", "config": tt.config}), rules)
		if e.Err != nil || e.Name != "https://m1" {
			t.Errorf("%s: name %q, %v", tt.config, e.Name, e.Err)
			continue
		}
		if diff := gocmp.Diff(tt.want, *e.Access); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.config, diff)
		}
	}
}

func TestWhatIsWrongNamesTheSecretAndTheKey(t *testing.T) {
	cert, _ := certificate(t)
	ca := base64.StdEncoding.EncodeToString(cert)
	for _, tt := range []struct{ server, config, want string }{
		{"", `{}`, "server: is required"},
		{"m1.example.com", `{}`, "server: is no URL"},
		{"http://m1.example.com", `{}`, `server: has the scheme "http"`},
		{"file:///etc/passwd", `{}`, "server: is no URL"},
		{"ftp://m1", `{}`, `server: has the scheme "ftp"`},
		{"https://169.254.169.254", `{}`, "server: is a link-local address"},
		{"https://[fe80::1]:6443", `{}`, "server: is a link-local address"},
		{"https://[::ffff:169.254.169.254]", `{}`, "server: is a link-local address"},
		{"https://hunter2@m1", `{}`, "server: must have no user"},
		{"https://m1", `{"proxyUrl": "ftp://hunter2"}`, "config.proxyUrl: has the scheme"},
		{"https://m1", `{"proxyUrl": "http://169.254.1.1"}`, "config.proxyUrl: is a link-local"},
		{"https://m1", `{"tlsClientConfig": {"insecure": true, "caData": "` + ca + `"}}`, "config.tlsClientConfig.insecure: is set together with config.tlsClientConfig.caData; drop config.tlsClientConfig.insecure"},
		{"https://m1", `{"tlsClientConfig": {"caData": "aHVudGVyMg=="}}`, "config.tlsClientConfig.caData: has no certificate"},
		{"https://m1", `{"tlsClientConfig": {"caData": "hunter2!"}}`, "config.tlsClientConfig.caData: is not in base64"},
		{"https://m1", `{"tlsClientConfig": {"certData": "` + ca + `"}}`, "config.tlsClientConfig.certData: and config.tlsClientConfig.keyData go together"},
		{"https://m1", `{"tlsClientConfig": {"certData": "` + ca + `", "keyData": "` + ca + `"}}`, "are no pair"},
		{"https://m1", `{"bearerToken": "hunter2", "username": "u"}`, "bearerToken: is set together with username"},
		{"https://m1", `{"bearerToken": "hunter2\nX: y"}`, "config.bearerToken: has a line break"},
		{"https://m1", `{"password": "hunter2"}`, "password: is set without username"},
		{"https://m1", `{"awsAuthConfig": {"clusterName": "c"}}`, "config.awsAuthConfig: needs a program of Argo CD's"},
		{"https://m1", `{"execProviderConfig": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}}`, `execProviderConfig.command: "sh" may not be run here; to let it, add it to clusters.execCommands`},
		{"https://m1", `{"execProviderConfig": {"command": "aws", "apiVersion": "v0"}}`, `apiVersion: "v0" is not known`},
		{"https://m1", `{"execProviderConfig": {}}`, "command: is required"},
		{"https://m1", `{"bearerToken": "hunter2", "execProviderConfig": {"command": "aws"}}`, "execProviderConfig: is set together with other credentials"},
		{"https://m1", `{"bearerToken": "hunter2`, "config: is no JSON, from byte"},
		{"https://m1", `"hunter2"`, "config: is no JSON object"},
		{"https://m1", `{"tlsClientConfig": {"insecure": 12345678}}`, "config: tlsClientConfig.insecure is of another type than bool"},
	} {
		e, findings := ArgoCD(secret(map[string]string{"server": tt.server, "config": tt.config}), Rules{ExecCommands: []string{"aws"}})
		if e.Access != nil || e.Err == nil || !strings.HasPrefix(e.Err.Error(), "Secret argocd/m1: ") || !strings.Contains(e.Err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %s", tt.server, tt.config, e.Err, tt.want)
		}
		all := fmt.Sprint(e.Err, findings)
		if strings.Contains(all, "hunter2") || strings.Contains(all, "12345678") {
			t.Errorf("a value is in %s", all)
		}
		if len(findings) == 0 || findings[0].Severity != render.Error || findings[0].Object != "Secret argocd/m1" {
			t.Errorf("%s %s: findings %v", tt.server, tt.config, findings)
		}
	}
}

func TestASlipNeverWidensWhatMayBeWritten(t *testing.T) {
	e, findings := ArgoCD(secret(map[string]string{"server": "https://m1", "namespaces": "Web!", "clusterResources": "yes", "shard": "-1", "config": `{"tlsClientConfig": {"insecure": true, "verify": 1}, "extra": 2}`}), Rules{})
	if len(e.Namespaces) != 1 || e.ClusterResources || e.Shard != nil {
		t.Errorf("got %v %v %v", e.Namespaces, e.ClusterResources, e.Shard)
	}
	var texts []string
	for _, f := range findings {
		texts = append(texts, string(f.Severity)+" "+f.Message[:strings.Index(f.Message, ":")])
	}
	want := []string{"error namespaces", "error clusterResources", "warning shard", "warning config", "warning config.tlsClientConfig.insecure"}
	if diff := gocmp.Diff(want, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(findings[3].Message, "extra, tlsClientConfig.verify") {
		t.Error(findings[3].Message)
	}
}

func TestLoopbackMayBePlain(t *testing.T) {
	for _, server := range []string{"http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]:8001"} {
		if e, _ := ArgoCD(secret(map[string]string{"server": server}), Rules{}); e.Err != nil {
			t.Errorf("%s: %v", server, e.Err)
		}
	}
}

func TestTheSecretThatAClusterNames(t *testing.T) {
	cert, _ := certificate(t)
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	c.Spec.APIEndpoint, c.Spec.ProxyURL, c.Spec.ProxyHeader = "https://m1/", "http://proxy", map[string]string{"A": "b"}
	s := secret(map[string]string{"token": "tok\n", "caBundle": string(cert)})
	got, err := Karmada(s, c, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	want := Access{Server: "https://m1", ProxyURL: "http://proxy", ProxyHeader: c.Spec.ProxyHeader, CA: cert, Token: "tok"}
	if diff := gocmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c.Spec.InsecureSkipTLSVerification = true
	if got, err = Karmada(s, c, Rules{}); err != nil || !got.Insecure || got.CA != nil {
		t.Errorf("insecure: %v %v", got.Insecure, err)
	}
	for _, tt := range []struct {
		change func(c *clusterv1alpha1.Cluster, s *corev1.Secret)
		want   string
	}{
		{func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.APIEndpoint = "" }, "spec.apiEndpoint: is required"},
		{func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.ProxyURL = "" }, "spec.proxyHeader: is set without proxyURL"},
		{func(_ *clusterv1alpha1.Cluster, s *corev1.Secret) { delete(s.Data, "token") }, "token: is required"},
		{func(_ *clusterv1alpha1.Cluster, s *corev1.Secret) { s.Data["caBundle"] = []byte("hunter2") }, "caBundle: has no certificate"},
	} {
		c, s := *c, s.DeepCopy()
		c.Spec.InsecureSkipTLSVerification = false
		tt.change(&c, s)
		if _, err := Karmada(s, &c, Rules{}); err == nil || !strings.Contains(err.Error(), "Secret argocd/m1 of Cluster m1: "+tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

func TestNothingPrintsCredentials(t *testing.T) {
	a := &Access{Token: "hunter2", Password: "hunter2", Key: []byte("hunter2")}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "access", a, "value", *a)
	text, err := json.Marshal(map[string]any{"a": a, "b": *a})
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %d %x", a, *a, *a, a, a, *a) + log.String() + string(text)
	if strings.Contains(all, "hunter2") || strings.Contains(all, "68756e74657232") || strings.Contains(all, "104 117") {
		t.Error(all)
	}
}

func TestTheVersionChangesWithTheCredentials(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range []Access{{}, {Token: "a"}, {Token: "b"}, {Key: []byte("a")}, {Insecure: true}, {Exec: &Exec{}}, {Exec: &Exec{Args: []string{"x"}}}} {
		if v := a.Version(); seen[v] || v != a.Version() || strings.Contains(v, "a\"") {
			t.Errorf("version %s", v)
		} else {
			seen[v] = true
		}
	}
}

// FuzzArgoCD: whatever a Secret says, there is either a way or an error with a finding, nothing else was loosened, and no
// long piece of the config is repeated.
func FuzzArgoCD(f *testing.F) {
	f.Add("m1", "https://m1/", `{"bearerToken": "0123456789abcdef"}`, "a,b", "true", "1")
	f.Add("", "https://[fe80::1]", `{"tlsClientConfig": {"insecure": true, "caData": "x"}}`, "", "", "")
	f.Add("m", "http://localhost", `{"execProviderConfig": {"command": "x", "env": {"A": "b"}, "config": {}}}`, ",", "no", "x")
	f.Add("m", "https://m", `{"username": "u", "password": "p", "proxyUrl": "socks5://h"}`, "", "", "")
	f.Fuzz(func(t *testing.T, name, server, config, namespaces, resources, shard string) {
		s := secret(map[string]string{"name": name, "server": server, "config": config, "namespaces": namespaces, "clusterResources": resources, "shard": shard})
		before := s.DeepCopy()
		e, findings := ArgoCD(s, Rules{})
		again, _ := ArgoCD(s, Rules{})
		if diff := gocmp.Diff(e, again, gocmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
			t.Fatalf("twice is not the same: %s", diff)
		}
		if diff := gocmp.Diff(before, s); diff != "" {
			t.Fatalf("the Secret was changed: %s", diff)
		}
		broken := false
		for _, f := range findings {
			broken = broken || f.Severity == render.Error
		}
		switch {
		case (e.Access == nil) != (e.Err != nil), e.Err != nil && !broken:
			t.Fatalf("access %v, error %v, findings %v", e.Access != nil, e.Err, findings)
		case strings.Trim(namespaces, " ,\t\r\n\v\f\u0085\u00a0") != "" && len(e.Namespaces) == 0:
			t.Fatalf("%q limits nothing", namespaces)
		case e.Access != nil && e.Access.Exec != nil:
			t.Fatal("a program may be run")
		case e.Access != nil && e.Access.Server != e.Server:
			t.Fatal("another server")
		}
	})
}

// With a list of hosts, credentials are sent to none but those and the cluster's own server, by whatever Secret or manifest.
func TestOnlyListedHostsGetCredentials(t *testing.T) {
	rules := Rules{AllowedHosts: []string{"m1.example.com", "m2.example.com:6443", "proxy.example.com:3128"}}
	for _, tt := range []struct {
		server, proxy string
		want          string // the key that is told of
	}{
		{"https://m1.example.com", "", ""},
		{"https://m1.example.com:8443", "", ""},
		{"https://m2.example.com:6443", "http://proxy.example.com:3128", ""},
		{InCluster, "", ""},
		{"https://m2.example.com", "", "server"},
		{"https://evil.example.com", "", "server"},
		{"https://m1.example.com.evil.example.com", "", "server"},
		{"https://m1.example.com", "http://proxy.example.com", "config.proxyUrl"},
		{"https://m1.example.com", "socks5://evil.example.com", "config.proxyUrl"},
		{InCluster, "http://evil.example.com", "config.proxyUrl"},
	} {
		e, _ := ArgoCD(secret(map[string]string{"server": tt.server, "config": fmt.Sprintf(`{"bearerToken": "t", "proxyUrl": %q}`, tt.proxy)}), rules)
		if want := tt.want + ": is at a host that is not among clusters.allowedHosts"; (e.Err == nil) != (tt.want == "") || e.Err != nil && !strings.Contains(e.Err.Error(), want) {
			t.Errorf("%s by %s: %v", tt.server, tt.proxy, e.Err)
		}
		c := &clusterv1alpha1.Cluster{}
		c.Spec.APIEndpoint, c.Spec.ProxyURL = tt.server, tt.proxy
		if _, err := Karmada(secret(map[string]string{"token": "t"}), c, rules); (err == nil) != (tt.want == "") {
			t.Errorf("%s by %s, named by a manifest: %v", tt.server, tt.proxy, err)
		}
	}
}

func FuzzKarmada(f *testing.F) {
	f.Add("https://m1/", "token", "", "", false)
	f.Add("https://m1", "", "x", "http://proxy", true)
	f.Fuzz(func(t *testing.T, endpoint, token, ca, proxy string, insecure bool) {
		c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
		c.Spec.APIEndpoint, c.Spec.ProxyURL, c.Spec.InsecureSkipTLSVerification = endpoint, proxy, insecure
		a, err := Karmada(secret(map[string]string{"token": token, "caBundle": ca}), c, Rules{})
		if (a == nil) != (err != nil) {
			t.Fatalf("%v %v", a != nil, err)
		}
		if a != nil && (a.Token == "" || a.Insecure != insecure) {
			t.Fatal("no token, or not as insecure as it was said")
		}
	})
}
