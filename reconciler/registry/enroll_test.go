package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func TestAnAccountMayNoMoreThanItHasTo(t *testing.T) {
	e := Enrolment{Namespace: "godwit-system", Account: "godwit", Grants: []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Resource: "services"}, {Resource: "configmaps"}, {Resource: "services"}}}
	text, err := json.Marshal(e.rules())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"nonResourceURLs":["/readyz","/healthz","/version","/api","/api/*","/apis","/apis/*"],"verbs":["get"]},` +
		`{"apiGroups":[""],"resourceNames":["kube-system"],"resources":["namespaces"],"verbs":["get"]},` +
		`{"apiGroups":[""],"resources":["configmaps","services"],"verbs":["get","list","watch","create","patch","delete"]},` +
		`{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get","list","watch","create","patch","delete"]}]`
	if string(text) != want {
		t.Errorf("got %s", text)
	}
	e.Capacity = true
	if text, _ := json.Marshal(e.rules()); !strings.Contains(string(text), `{"apiGroups":[""],"resources":["nodes","pods"],"verbs":["list"]}`) {
		t.Errorf("with capacity %s", text)
	}
}

func TestEnrollingTwiceChangesNothingAndExpellingTakesItBack(t *testing.T) {
	s := membertest.Start(t, "m1")
	e := Enrolment{Namespace: "godwit-system", Account: "godwit", Grants: []schema.GroupResource{{Resource: "configmaps"}}}
	said := func(all []Done) string {
		var words []string
		for _, d := range all {
			words = append(words, strings.Fields(d.Object)[0]+" "+d.What)
		}
		return strings.Join(words, ", ")
	}
	for _, want := range []string{"created", "unchanged"} {
		issued, all, err := Enroll(t.Context(), s.RestConfig(), e)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(all); got != fmt.Sprintf("Namespace %[1]s, ServiceAccount %[1]s, ClusterRole %[1]s, ClusterRoleBinding %[1]s, Secret %[1]s", want) {
			t.Errorf("got %s", got)
		}
		if issued.Access.Token != s.Token() || issued.Access.Server != s.URL() || len(issued.Access.CA) == 0 {
			t.Error("the way does not lead there")
		}
	}
	// Less may be written: the role is brought up to date.
	e.Grants = nil
	if _, all, err := Enroll(t.Context(), s.RestConfig(), e); err != nil || !strings.Contains(said(all), "ClusterRole configured") {
		t.Errorf("%s %v", said(all), err)
	}
	for _, want := range []string{"deleted", "absent"} {
		all, err := Expel(t.Context(), s.RestConfig(), e)
		if got := said(all); err != nil || got != fmt.Sprintf("Secret %[1]s, ClusterRoleBinding %[1]s, ClusterRole %[1]s, ServiceAccount %[1]s, Namespace %[1]s", want) {
			t.Errorf("got %s %v", got, err)
		}
	}
}

func TestWhatSomebodyElseMadeIsLeftAlone(t *testing.T) {
	s := membertest.Start(t, "m1")
	c, err := dynamic.NewForConfig(s.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	theirs := func(o *unstructured.Unstructured) {
		o.SetLabels(nil)
		if _, err := where(c, o).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	theirs(ours("v1", "Namespace", "", "godwit-system", nil))
	theirs(ours("v1", "ServiceAccount", "godwit-system", "godwit", nil))
	e := Enrolment{Namespace: "godwit-system", Account: "godwit"}
	if _, _, err := Enroll(t.Context(), s.RestConfig(), e); err == nil || !strings.Contains(err.Error(), "ServiceAccount godwit-system/godwit is there and was not made by godwit") {
		t.Error(err)
	}
	all, err := Expel(t.Context(), s.RestConfig(), e)
	if err != nil || all[3].What != "left" || all[4].What != "left" {
		t.Errorf("%v %v", all, err)
	}
	r := Record{Member: "m1", Namespace: "godwit-system"}
	theirs(ours("v1", "Secret", "godwit-system", "cluster-m1", nil))
	if _, err := Keep(t.Context(), s.RestConfig(), r, Issued{}); err == nil {
		t.Error("a Secret of somebody else was written")
	}
	for what, f := range map[string]func() (Done, error){
		"release": func() (Done, error) { return Release(t.Context(), s.RestConfig(), r) },
		"drop":    func() (Done, error) { return Drop(t.Context(), s.RestConfig(), r) },
	} {
		if d, err := f(); err != nil || d.What != "left" {
			t.Errorf("%s: %v %v", what, d, err)
		}
	}
}

// What join keeps is what the registry reads.
func TestWhatIsKeptIsRead(t *testing.T) {
	w := newWorld(t, nil)
	m1 := membertest.Start(t, "m1")
	issued, err := addressed(m1.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	issued.Access.Token = m1.Token()
	r := Record{Member: "m1", Namespace: "argocd", Labels: map[string]string{"env": "prod"}}
	keep := func() {
		t.Helper()
		if _, err := Keep(t.Context(), w.server.RestConfig(), r, issued); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	members := func(n int) func() bool {
		return func() bool {
			c := w.registry.Registrations().Clusters
			return len(c) == 1 && w.token(cluster("m1")) == m1.Token() && len(w.registry.Registrations().Findings) == 0 && (c[0].Member && c[0].Labels["env"] == "prod") == (n == 1)
		}
	}
	w.eventually("it is a member", members(1))
	if _, err := Release(t.Context(), w.server.RestConfig(), r); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is none any more, and can be reached", members(0))
	keep()
	w.eventually("it is one again", members(1))

	r.SecretRef = true
	keep()
	named := cluster("m2")
	named.Spec.APIEndpoint, named.Spec.SecretRef = m1.URL(), &clusterv1alpha1.LocalSecretReference{Namespace: r.Namespace, Name: r.Name()}
	w.eventually("by its name", func() bool { return w.token(named) == m1.Token() })
	insecure := m1.RestConfig()
	insecure.Insecure, insecure.CAData = true, nil
	if _, err := addressed(insecure); err == nil || !strings.Contains(err.Error(), "insecure-skip-tls-verify") {
		t.Error(err)
	}
	if strings.Contains(fmt.Sprintf("%+v", issued), m1.Token()) {
		t.Error("the token is printed")
	}
}

// Who may be written as is named one by one, and their namespaces are nobody's: they outlive the account.
func TestOnlyNamedAccountsAreImpersonated(t *testing.T) {
	s := membertest.Start(t, "m1")
	e := Enrolment{Namespace: "godwit-system", Account: "godwit", Impersonates: []string{"pay/a", "pay/b", "shop/deployer"}}
	if _, _, err := Enroll(t.Context(), s.RestConfig(), e); err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(s.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{
		"pay":  `[{"apiGroups":[""],"resourceNames":["a","b"],"resources":["serviceaccounts"],"verbs":["impersonate"]}]`,
		"shop": `[{"apiGroups":[""],"resourceNames":["deployer"],"resources":["serviceaccounts"],"verbs":["impersonate"]}]`,
	} {
		role, err := c.Resource(resources["Role"]).Namespace(namespace).Get(t.Context(), "godwit-system:godwit", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(role.Object["rules"]); string(text) != want {
			t.Errorf("%s: %s", namespace, text)
		}
	}
	text, err := json.Marshal(e.rules())
	if err != nil || strings.Contains(string(text), "impersonate") {
		t.Errorf("in all of the cluster: %s %v", text, err)
	}
	// Where others write, nobody is impersonated.
	reader := e
	reader.ReadOnly = true
	for _, o := range reader.Access() {
		if o.GetKind() == "Role" || o.GetName() == "shop" {
			t.Errorf("who only reads gets %s %s", o.GetKind(), o.GetName())
		}
	}
	// A namespace that another fleet made is not ours to remove either.
	other := ours("v1", "Namespace", "", "shop", nil)
	if _, err := c.Resource(resources["Namespace"]).Apply(t.Context(), "shop", other, metav1.ApplyOptions{FieldManager: "another", Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Expel(t.Context(), s.RestConfig(), e); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"pay", "shop"} {
		if live, err := c.Resource(resources["Namespace"]).Get(t.Context(), namespace, metav1.GetOptions{}); err != nil || live.GetDeletionTimestamp() != nil {
			t.Errorf("namespace %s: %v", namespace, err)
		}
		if _, err := c.Resource(resources["RoleBinding"]).Namespace(namespace).Get(t.Context(), "godwit-system:godwit", metav1.GetOptions{}); err == nil {
			t.Errorf("the RoleBinding in %s is left", namespace)
		}
	}
}
