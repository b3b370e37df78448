//go:build realcluster

package main_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var (
	roles        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

// Three members join, with accounts of their own on real API servers that check them; the reconciler knows a management
// cluster alone, where it may read the Secrets of one namespace. Then one credential is rotated, one revoked, one swapped.
func TestMembersOfAManagementClusterOnRealServers(t *testing.T) {
	w := newRealWorld(t, "mgmt", "kube02", "kube03", "kube04")
	mgmt := w.members["mgmt"]
	f := w.fleet(t, "registry")
	check := *f
	check.members = []*realMember{w.members["kube02"], w.members["kube03"], w.members["kube04"]}
	f.push(map[string]string{"policy.yaml": policyFor("{}", "ConfigMap", "Deployment"), "a.yaml": configMap("a", "one")}, "settings")

	mgmt.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}")
	mgmt.create(t, serviceAccounts, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: godwit, namespace: argocd}}")
	mgmt.create(t, roles, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: godwit, namespace: argocd},
  rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]}`)
	mgmt.create(t, roleBindings, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: godwit, namespace: argocd},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: godwit}, subjects: [{kind: ServiceAccount, name: godwit, namespace: argocd}]}`)

	operator := *f
	operator.settings = "  argocd: true\n  namespaces: [argocd]\nmanagement: {kubeconfig: " + mgmt.Kubeconfig() + "}\n"
	join := func(m *realMember) {
		t.Helper()
		out, status := operator.call("clusters", "join", m.Name(), "--cluster-kubeconfig", m.Kubeconfig(), "--token-duration", "24h", "--label", "env=prod")
		if status != 0 {
			t.Fatalf("join %s = %d\n%s", m.Name(), status, out)
		}
	}
	for _, m := range check.members {
		join(m)
	}

	f.settings = "  failureThreshold: 1s\n  argocd: true\n  namespaces: [argocd]\nmanagement: {kubeconfig: " + mgmt.account(t, f.dir) + "}\n"
	p := f.runAt("run", "KUBECONFIG="+filepath.Join(f.dir, "none"))
	check.value("a", "one")
	refused := keptBy(t, mgmt, "kube02")
	_, err := refused.Resource(secrets).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the account may list Secrets: %v", err)
	}
	_, err = refused.Resource(configMaps).Namespace("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Errorf("the account may not list ConfigMaps: %v", err)
	}

	// Rotated: the account is made anew, so that the old token is worth nothing. Revoked: it is gone. Swapped: the Secret
	// leads to another cluster, with a token that may do everything there.
	for _, name := range []string{"kube02", "kube03"} {
		if err := w.members[name].client.Resource(serviceAccounts).Namespace("godwit-system").Delete(t.Context(), "godwit-registry", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	join(w.members["kube02"])
	revoked := keptBy(t, mgmt, "kube03")
	eventually(t, "the revocation", func() string { // API servers remember for a while whom they let in
		if _, err := revoked.Resource(namespaces).Get(t.Context(), "kube-system", metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
			return fmt.Sprintf("not there: %v", err)
		}
		return ""
	})
	admin, err := mgmt.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	config := fmt.Sprintf(`{"bearerToken": %q, "tlsClientConfig": {"caData": %q}}`, admin.BearerToken, base64.StdEncoding.EncodeToString(admin.CAData))
	mgmt.patch(t, secrets, "argocd", "cluster-kube04", fmt.Sprintf(`{"data": {"server": %q, "config": %q}}`, b64(admin.Host), b64(config)))
	eventually(t, "the swap", func() string {
		if strings.Contains(p.out.String(), "this is another cluster") || strings.Contains(p.out.String(), "code=foreign-member") {
			return ""
		}
		return "not noticed"
	})
	f.push(map[string]string{"a.yaml": configMap("a", "two")}, "two")
	check.members = []*realMember{w.members["kube02"]}
	check.value("a", "two")
	state := func(what, path string, parts ...string) {
		t.Helper()
		eventually(t, what, func() string {
			text := f.state.Files(stateBranch)[path]
			for _, part := range parts {
				if !strings.Contains(text, part) {
					return "without " + part
				}
			}
			return ""
		})
	}
	state("the member that was revoked", "clusters/kube03.yaml", "cluster.karmada.io/not-ready", "registration")
	state("the copy on the other cluster", "bindings/registry/a-configmap.yaml", "ForeignMember: this is another cluster")
	for name, value := range map[string]string{"kube03": "one", "kube04": "one"} {
		if why := want(name, field(w.members[name].get(t, configMaps, f.ns, "a"), "data", "value"), value); why != "" {
			t.Error(why)
		}
	}
	if mgmt.get(t, configMaps, f.ns, "a") != nil {
		t.Error("something was written to the cluster that the Secret was swapped to")
	}

	// All is put right.
	join(w.members["kube03"])
	join(w.members["kube04"])
	check.members = []*realMember{w.members["kube02"], w.members["kube03"], w.members["kube04"]}
	check.value("a", "two")

	// And one leaves, with all that it has.
	out, status := operator.call("clusters", "unjoin", "kube04", "--cluster-kubeconfig", w.members["kube04"].Kubeconfig(), "--timeout", "60s")
	if status != 0 {
		t.Errorf("unjoin = %d\n%s", status, out)
	}
	if w.members["kube04"].get(t, configMaps, f.ns, "a") != nil || w.members["kube04"].get(t, serviceAccounts, "godwit-system", "godwit-registry") != nil {
		t.Error("kube04 still has what it had")
	}
	p.stop()
}

// account is a kubeconfig file of the service account godwit in argocd.
func (m *realMember) account(t *testing.T, dir string) string {
	t.Helper()
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": "godwit"}, "spec": map[string]any{},
	}}
	answer, err := m.client.Resource(serviceAccounts).Namespace("argocd").Create(t.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _ := field(answer, "status", "token").(string)
	config, err := m.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["m"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["m"] = &clientcmdapi.AuthInfo{Token: token}
	k.Contexts["m"] = &clientcmdapi.Context{Cluster: "m", AuthInfo: "m", Namespace: "argocd"}
	k.CurrentContext = "m"
	file := filepath.Join(dir, "management")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keptBy is a client with the credentials that are kept of a member.
func keptBy(t *testing.T, mgmt *realMember, name string) dynamic.Interface {
	t.Helper()
	s := mgmt.get(t, secrets, "argocd", "cluster-"+name)
	decode := func(key string) []byte {
		text, _ := field(s, "data", key).(string)
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := string(decode("config"))
	_, token, _ := strings.Cut(config, `"bearerToken":"`)
	token, _, _ = strings.Cut(token, `"`)
	_, ca, _ := strings.Cut(config, `"caData":"`)
	ca, _, _ = strings.Cut(ca, `"`)
	authority, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(&rest.Config{Host: string(decode("server")), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
