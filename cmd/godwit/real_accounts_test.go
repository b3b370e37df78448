//go:build realcluster

package main_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A tenant's objects are written and deleted as the tenant's service account, which a real API server lets do what its
// roles say and no more. The reconciler may impersonate that account, and no other; it may write all that the source has.
func TestTenantsWriteAsTheirAccountOnRealServers(t *testing.T) {
	w := newRealWorld(t, "kube02")
	m := w.members["kube02"]
	f := w.fleet(t, "tenants")
	m.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}")
	projects := func(account string) string {
		return `  argocd: true
  namespaces: [argocd]
management: {kubeconfig: ` + m.Kubeconfig() + `}
projects:
- {name: ops, paths: ["."], namespaces: ["*"], clusterScoped: ["*"]}
- {name: shop, paths: [teams/shop], namespaces: [shop], serviceAccount: ` + account + `}
`
	}
	f.settings = projects("shop/deployer")
	in := func(namespace, text string) string {
		return strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1)
	}
	policy := strings.Replace(policyFor("{}", "ConfigMap"), "PropagationPolicy", "ClusterPropagationPolicy", 1)
	f.push(map[string]string{"policy.yaml": policy, "ops.yaml": configMap("ours", "one"), "teams/shop/a.yaml": in("shop", configMap("a", "one"))}, "one of ours, one of a tenant")
	if out, status := f.call("clusters", "join", "kube02", "--cluster-kubeconfig", m.Kubeconfig(), "--token-duration", "24h"); status != 0 || !strings.Contains(out, "kube02: Role shop/godwit-system:godwit-tenants created") {
		t.Fatalf("join = %d\n%s", status, out)
	}
	p := f.runAt("run", "KUBECONFIG="+filepath.Join(f.dir, "none"))
	said := func(what string, parts ...string) {
		t.Helper()
		eventually(t, what, func() string {
			for _, part := range parts {
				if !strings.Contains(p.out.String(), part) {
					return "without " + part
				}
			}
			return ""
		})
	}
	value := func(namespace, name, value string) {
		t.Helper()
		eventually(t, namespace+"/"+name, func() string {
			return want("value", field(m.get(t, configMaps, namespace, name), "data", "value"), value)
		})
	}
	value(f.ns, "ours", "one")
	said("a tenant without rights", `User \"system:serviceaccount:shop:deployer\" cannot patch resource \"configmaps\"`, "the object's project is written as service account shop/deployer")
	if m.get(t, configMaps, "shop", "a") != nil {
		t.Fatal("it was written all the same")
	}
	eventually(t, "the binding", func() string {
		if text := f.state.Files(stateBranch)["bindings/shop/a-configmap.yaml"]; !strings.Contains(text, "Forbidden: ") || !strings.Contains(text, "shop/deployer") {
			return "without the account"
		}
		return ""
	})

	m.create(t, serviceAccounts, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: shop}}")
	m.create(t, roles, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: deployer, namespace: shop},
  rules: [{apiGroups: [""], resources: [configmaps], verbs: [create, patch]}]}`)
	m.create(t, roleBindings, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: deployer, namespace: shop},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}, subjects: [{kind: ServiceAccount, name: deployer, namespace: shop}]}`)
	value("shop", "a", "one")

	// Who may not delete does not, until it may.
	f.push(map[string]string{"teams/shop/a.yaml": ""}, "the tenant's object goes\n\nGodwit-Approve: delete")
	said("a tenant that may not delete", `User \"system:serviceaccount:shop:deployer\" cannot delete resource \"configmaps\"`)
	if m.get(t, configMaps, "shop", "a") == nil {
		t.Fatal("it was deleted all the same")
	}
	m.patch(t, roles, "shop", "deployer", `{"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]}]}`)
	eventually(t, "shop/a", func() string {
		if m.get(t, configMaps, "shop", "a") != nil {
			return "there"
		}
		return ""
	})
	p.stop()

	// An account that nobody let it impersonate is not written as, whatever rights it has.
	f.settings = projects("kube-system/namespace-controller")
	f.push(map[string]string{"teams/shop/b.yaml": in("shop", configMap("b", "one"))}, "an account that is not ours to use")
	p = f.runAt("run", "KUBECONFIG="+filepath.Join(f.dir, "none"))
	said("an account that may not be impersonated", `cannot impersonate resource \"serviceaccounts\"`, "written as service account kube-system/namespace-controller")
	if m.get(t, configMaps, "shop", "b") != nil {
		t.Error("it was written all the same")
	}
	p.stop()
}
