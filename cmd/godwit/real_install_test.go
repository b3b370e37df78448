//go:build realcluster

package main_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/examples"
	"github.com/godwit-gitops/godwit/gitstate/gittest"
	"github.com/godwit-gitops/godwit/render/kustomize"
)

const (
	installFolder    = "../../examples/install"
	installNamespace = "godwit-system"
)

// overlay builds the manifests in a folder of examples/install/overlays.
func overlay(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	built, _, err := kustomize.Build(os.DirFS(installFolder), "overlays/"+name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, o := range built {
		all = append(all, &unstructured.Unstructured{Object: o})
	}
	return all
}

// warnings of an API server.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// install applies objects as kubectl apply --server-side does, with strict validation. It returns what the server warns of.
func (m *realMember) install(t *testing.T, dryRun bool, all ...*unstructured.Unstructured) []string {
	t.Helper()
	config, err := m.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	heard := &warnings{}
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for _, o := range all {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := client.Resource(resource).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, text, options); err != nil {
			t.Errorf("%s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	return heard.all
}

// one is the only object of its kind.
func one[T any](t *testing.T, all []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
				t.Fatal(err)
			}
			return typed
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

// podOf is a pod as the Deployment would make it.
func podOf(t *testing.T, all []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	deployment := one[unstructured.Unstructured](t, all, "Deployment")
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(deployment.GetNamespace())
	pod.SetName("tried")
	return pod
}

// A real API server takes all that is installed, to the last field, and the pods meet its restricted standard.
func (w *realWorld) theManifestsAreAccepted(t *testing.T) {
	m := w.members["mgmt"]
	m.create(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}")
	for _, name := range []string{"single", "high-availability", "argocd", "agent"} {
		all := overlay(t, name)
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				m.install(t, false, o)
			}
		}
		if heard := m.install(t, true, append(all, podOf(t, all))...); len(heard) > 0 {
			t.Errorf("%s: %q", name, heard)
		}
	}
	// The server does look: a pod that may become root is refused where they are to run, as is a field that is misspelt.
	config, err := m.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(spec map[string]any){
		"violates PodSecurity":  func(spec map[string]any) { delete(spec, "securityContext") },
		"field not declared":    func(spec map[string]any) { spec["hostNetwrok"] = true },
		"unknown field \"spec.": func(spec map[string]any) { spec["hostNetwrok"] = true },
	} {
		pod := podOf(t, overlay(t, "single"))
		spoil(pod.Object["spec"].(map[string]any))
		var err error
		if strings.HasPrefix(name, "field") {
			text, _ := pod.MarshalJSON()
			_, err = client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(installNamespace).Patch(t.Context(), "tried", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "kubectl", DryRun: []string{metav1.DryRunAll}})
		} else {
			_, err = client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(installNamespace).Create(t.Context(), pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a pod that %s: %v", name, err)
		}
	}
}

// witness stands between the program and an API server, and notes what is asked.
type witness struct {
	server *httptest.Server
	mu     sync.Mutex
	asked  map[string]bool // verbs and resources as rules have them
	denied []string
}

func newWitness(t *testing.T, config *rest.Config) *witness {
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(config.CAData)
	w := &witness{asked: map[string]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	proxy.FlushInterval = -1 // watches
	proxy.ErrorLog = nil
	proxy.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) }
	proxy.ModifyResponse = func(r *http.Response) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked[access(r.Request)] = true
		if r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized {
			w.denied = append(w.denied, r.Request.Method+" "+r.Request.URL.Path)
		}
		return nil
	}
	w.server = httptest.NewTLSServer(proxy)
	t.Cleanup(func() { w.server.CloseClientConnections(); w.server.Close() })
	return w
}

// access is a request as RBAC sees it: "namespace verb resource.group".
func access(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" && len(parts) > 2 {
		group, parts = "."+parts[1], parts[3:]
	} else if parts[0] == "api" && len(parts) > 2 {
		parts = parts[2:]
	} else {
		return r.Method + " " + r.URL.Path
	}
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1]+" ", parts[2:]
	}
	verb := map[string]string{"GET": "list", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "deletecollection"}[r.Method]
	if len(parts) > 1 {
		verb = strings.TrimSuffix(strings.Replace(verb, "list", "get", 1), "collection")
	}
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	return namespace + verb + " " + parts[0] + group
}

// anywhere tells whether the ClusterRole of the manifests allows what was asked.
func anywhere(t *testing.T, all []*unstructured.Unstructured, asked string) bool {
	t.Helper()
	words := strings.Fields(asked)
	words = words[max(0, len(words)-2):] // in whatever namespace
	verb, what := strings.ToLower(words[0]), words[1]
	resource, group, _ := strings.Cut(what, ".")
	for _, r := range one[rbacv1.ClusterRole](t, all, "ClusterRole").Rules {
		path := slices.ContainsFunc(r.NonResourceURLs, func(u string) bool {
			prefix, more := strings.CutSuffix(u, "*")
			return what == u || more && strings.HasPrefix(what, prefix)
		})
		if slices.Contains(r.Verbs, verb) && (path || slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource)) {
			return true
		}
	}
	return false
}

// granted is what the roles of the manifests allow, in the same words.
func granted(t *testing.T, all []*unstructured.Unstructured) (list []string) {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == "ClusterRole" {
			t.Fatal("a ClusterRole in the management cluster")
		}
		if o.GetKind() != "Role" {
			continue
		}
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			for _, verb := range r.Verbs {
				for _, resource := range r.Resources {
					list = append(list, strings.TrimRight(role.Namespace+" "+verb+" "+resource+"."+r.APIGroups[0], "."))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// kubeconfig is that of a service account, which goes through the witness.
func (w *witness) kubeconfig(t *testing.T, m *realMember, file, account string) string {
	t.Helper()
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account}, "spec": map[string]any{},
	}}
	answer, err := m.client.Resource(serviceAccounts).Namespace(installNamespace).Create(t.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _ := field(answer, "status", "token").(string)
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: w.server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})}
	k.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token}
	k.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c", Namespace: installNamespace}
	k.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// container plays the kubelet: it lays out the volumes of a pod below a folder, from what the API server has, and
// returns the arguments of its container, with all paths there.
func (m *realMember) container(t *testing.T, pod *corev1.PodSpec, root string, replacements ...string) []string {
	t.Helper()
	for _, p := range pod.Containers[0].VolumeMounts {
		replacements = append(replacements, p.MountPath, filepath.Join(root, p.MountPath))
	}
	replace := strings.NewReplacer(replacements...).Replace
	for _, v := range pod.Volumes {
		at := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(p corev1.VolumeMount) bool { return p.Name == v.Name })
		dir := filepath.Join(root, pod.Containers[0].VolumeMounts[at].MountPath)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		switch {
		case v.ConfigMap != nil:
			o := &corev1.ConfigMap{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.get(t, configMaps, installNamespace, v.ConfigMap.Name).Object, o); err != nil {
				t.Fatal(err)
			}
			for name, text := range o.Data {
				files[name] = replace(text)
			}
		case v.Secret != nil:
			o := &corev1.Secret{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.get(t, secrets, installNamespace, v.Secret.SecretName).Object, o); err != nil {
				t.Fatal(err)
			}
			for name, value := range o.Data {
				files[name] = string(value)
			}
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	var args []string
	for _, a := range pod.Containers[0].Args {
		args = append(args, replace(a))
	}
	return args
}

// godwit is installed by its manifests and by what the README says, and runs with the token of its own account, in what
// its container has: no home, no variables, its volumes. Its members joined, with accounts of their own. It does the
// quickstart, and uses no more and no less than it may.
func (w *realWorld) theQuickstartFromTheManifests(t *testing.T) {
	mgmt := w.members["mgmt"]
	f := &fleet{realWorld: w, t: t, ns: "default", dir: t.TempDir(), source: gittest.NewRepo(t)}
	f.state, f.members = f.source, []*realMember{w.members["kube02"], w.members["kube03"]}
	f.server = gittest.ServeHTTP(t, f.source.Dir, gittest.HTTPOptions{Username: "godwit", Password: "secret of git", TLS: true})
	quickstart := map[string]string{}
	if err := fs.WalkDir(examples.Quickstart, "quickstart", func(path string, d fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, "quickstart/"); err == nil && !d.IsDir() && !strings.HasPrefix(name, "variants/") && !strings.HasPrefix(name, "clusters/") {
			quickstart[name] = path
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.push(quickstart, "the quickstart, with no member yet")

	all := overlay(t, "argocd")
	mgmt.install(t, false, all...)
	authority, err := os.ReadFile(f.server.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string]string{
		"godwit-git": {"password": "secret of git", "ca.crt": string(authority)},
	} {
		text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": installNamespace}, "stringData": data})
		if err != nil {
			t.Fatal(err)
		}
		mgmt.create(t, secrets, string(text))
	}

	var settings struct {
		Clusters struct {
			ArgoCD     bool
			Namespaces []string
		}
	}
	if err := yaml.Unmarshal([]byte(one[corev1.ConfigMap](t, all, "ConfigMap").Data["godwit.yaml"]), &settings); err != nil {
		t.Fatal(err)
	}
	kept := settings.Clusters.Namespaces // the credentials of members: in each of them those of one

	// The operator, from another machine.
	operator := filepath.Join(f.dir, "operator.yaml")
	if err := os.WriteFile(operator, fmt.Appendf(nil, `
source: {url: %q, branch: main, auth: {username: godwit, password: secret of git, caFile: %s}}
management: {kubeconfig: %s}
clusters: {argocd: %t, namespaces: [%s]}
dataDir: %s
`, f.server.URL, f.server.CAFile, mgmt.Kubeconfig(), settings.Clusters.ArgoCD, strings.Join(kept, ", "), filepath.Join(f.dir, "operator")), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, m := range f.members {
		p := w.start(t, nil, "clusters", "join", m.Name(), "--config", operator, "--cluster-kubeconfig", m.Kubeconfig(), "--token-duration", "24h",
			"--secret-namespace", kept[i%len(kept)], "--region", []string{"beijing", "shanghai"}[i], "--label", "environment=prod")
		if status := p.wait(); status != 0 {
			t.Fatalf("join %s = %d\n%s", m.Name(), status, &p.out)
		}
	}

	config, err := mgmt.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	seen := newWitness(t, config)
	pod := &one[podTemplate](t, all, "Deployment").Spec.Template.Spec
	account := seen.kubeconfig(t, mgmt, filepath.Join(f.dir, "account"), pod.ServiceAccountName)
	// replica is one of the Deployment's pods.
	replica := func(name string) (p *process, address, tmp string) {
		root, listen := filepath.Join(f.dir, name), freeAddress(t)
		args := mgmt.container(t, pod, root, "https://git.example.com/fleet.git", f.server.URL,
			"passwordFile:", "caFile: "+filepath.Join(root, "etc/godwit/git/ca.crt")+"\n    passwordFile:", "address: :8080", "address: "+listen)
		tmp = filepath.Join(root, "tmp")
		env := []string{"HOME=", "KUBECONFIG=", "PATH=", "TMPDIR=" + tmp, "GODWIT_MANAGEMENT_KUBECONFIG=" + account, "GODWIT_LEADERELECTION_IDENTITY=" + name,
			"GODWIT_SOURCE_POLLINTERVAL=1s", "GODWIT_CLUSTERS_PROBEINTERVAL=1s", "GODWIT_CLUSTERS_PROBETIMEOUT=1s", "GODWIT_CLUSTERS_SUCCESSTHRESHOLD=1s", "GODWIT_CLUSTERS_FAILURETHRESHOLD=1s"}
		return w.start(t, env, args...), "http://" + listen, tmp
	}
	// A replica that died has left a part of what it kept.
	mgmt.create(t, secrets, "{apiVersion: v1, kind: Secret, metadata: {name: godwit-unpushed-0-1, namespace: godwit-system, labels: {godwit.dev/unpushed: godwit-unpushed}}}")
	first, address, tmp := replica("first")

	f.ready("demoapp", 3, 1)
	eventually(t, "the override", func() string {
		return want("kube02", image(f.members[0].get(t, deployments, "default", "demoapp")), "ikubernetes/demoapp:v1.0") +
			want("kube03", image(f.members[1].get(t, deployments, "default", "demoapp")), "ikubernetes/demoapp:v1.1")
	})
	isReady(t, address)
	f.push(map[string]string{"apps/more.yaml": configMap("more", "one"), "policies/more.yaml": policyFor("{}", "ConfigMap")}, "more")
	f.value("more", "one")

	// Each member is away, twice: Events are on the Secrets of both.
	for round := range 2 {
		for i, m := range f.members {
			if err := m.Pause(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "an Event on the Secret of "+m.Name(), func() string {
				list, err := mgmt.client.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(kept[i%len(kept)]).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return err.Error()
				}
				for _, e := range list.Items {
					count, _ := field(&e, "count").(int64)
					if field(&e, "involvedObject", "name") == "cluster-"+m.Name() && field(&e, "reason") == "MemberUnreachable" && count > int64(round) {
						return ""
					}
				}
				return fmt.Sprintf("not among %d", len(list.Items))
			})
			if err := m.Resume(); err != nil {
				t.Fatal(err)
			}
			eventually(t, m.Name(), func() string {
				if !strings.Contains(f.state.Files(stateBranch)["clusters/"+m.Name()+".yaml"], "reason: ClusterReady") {
					return "not ready on record"
				}
				return ""
			})
		}
	}
	// Git is away while something is decided.
	unpushed := func(there bool) {
		t.Helper()
		eventually(t, "what is kept for the next leader", func() string {
			head, _ := field(mgmt.get(t, secrets, installNamespace, "godwit-unpushed"), "data", "head").(string)
			return want("that it is there", head != "", there)
		})
	}
	f.server.Outage(true)
	if err := f.members[1].Pause(); err != nil {
		t.Fatal(err)
	}
	unpushed(true)
	f.server.Outage(false)
	unpushed(false)
	if err := f.members[1].Resume(); err != nil {
		t.Fatal(err)
	}
	// A rolling update: the next replica is ready before the first one is asked to end, and then leads.
	second, address, _ := replica("second")
	isReady(t, address)
	first.stop()
	f.push(map[string]string{"apps/more.yaml": configMap("more", "two")}, "two")
	f.value("more", "two")
	second.stop()

	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.denied) > 0 {
		t.Errorf("it wants more than it may: %q", seen.denied)
	}
	may := granted(t, all)
	for _, what := range may {
		streamed := strings.Replace(what, " list ", " watch ", 1) // older servers do not begin a watch with a list
		if !seen.asked[what] && !seen.asked[streamed] {
			t.Errorf("it may, and does not need to: %s", what)
		}
	}
	for what := range seen.asked {
		if !slices.Contains(may, what) {
			t.Errorf("it asked for what no rule is about: %s", what)
		}
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("it left %v in /tmp: %v", files, err)
	}
}

// An agent is installed in a member by its manifests, and runs with the token of its own account. The reconciler has no way
// to the member: what is decided arrives by Git, and so does what became of it.
func (w *realWorld) anAgentFromItsManifests(t *testing.T) {
	m := w.members["kube03"]
	f := w.fleet(t, "pulled")
	f.push(map[string]string{
		"cluster.yaml": "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: kube03}\nspec: {syncMode: Pull}\n",
		"policy.yaml":  policyFor("{}", "ConfigMap", "Deployment"), "apps/demoapp.yaml": "quickstart/apps/demoapp.yaml",
	}, "a member that nobody can reach")
	f.run("KUBECONFIG=" + filepath.Join(f.dir, "none"))
	f.members = []*realMember{m}

	all := overlay(t, "agent")
	m.install(t, false, all...)
	server := gittest.ServeHTTP(t, f.source.Dir, gittest.HTTPOptions{Username: "godwit-kube03", Password: "secret of git", TLS: true})
	authority, err := os.ReadFile(server.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	git, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "godwit-git", "namespace": installNamespace},
		"stringData": map[string]any{"password": "secret of git", "ca.crt": string(authority)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.create(t, secrets, string(git))
	config, err := m.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	seen := newWitness(t, config)
	pod := &one[podTemplate](t, all, "Deployment").Spec.Template.Spec
	account := seen.kubeconfig(t, m, filepath.Join(f.dir, "account"), pod.ServiceAccountName)
	root, listen := filepath.Join(f.dir, "agent"), freeAddress(t)
	args := m.container(t, pod, root, "https://git.example.com/fleet.git", server.URL, "kube02", "kube03",
		"passwordFile:", "caFile: "+filepath.Join(root, "etc/godwit/git/ca.crt")+"\n    passwordFile:", "address: :8080", "address: "+listen)
	p := w.start(t, []string{"HOME=", "PATH=", "TMPDIR=" + filepath.Join(root, "tmp"), "KUBECONFIG=" + account, "GODWIT_FLEET=" + f.ns,
		"GODWIT_AGENT_HEARTBEAT=1s", "GODWIT_AGENT_POLLINTERVAL=1s", "GODWIT_CLUSTERS_PROBEINTERVAL=1s", "GODWIT_CLUSTERS_SUCCESSTHRESHOLD=1s"}, args...)
	f.ready("demoapp", 4)
	f.recorded(2)
	isReady(t, "http://"+listen)
	p.stop()

	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.denied) > 0 {
		t.Errorf("it wants more than it may: %q", seen.denied)
	}
	for what := range seen.asked {
		if !anywhere(t, all, what) {
			t.Errorf("it asked for what no rule is about: %s", what)
		}
	}
	for _, what := range []string{"GET /readyz", "get namespaces", "list nodes", "list pods"} {
		if !seen.asked[what] {
			t.Errorf("it may, and does not need to: %s", what)
		}
	}
}

// podTemplate is of a Deployment what matters here.
type podTemplate struct {
	Spec struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// isReady waits for /readyz.
func isReady(t *testing.T, address string) {
	t.Helper()
	eventually(t, address+"/readyz", func() string {
		answer, err := http.Get(address + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return want("answer", string(body), "ok\n")
	})
}

// freeAddress is one of this machine that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestInstalledOnRealServers(t *testing.T) {
	w := newRealWorld(t, "mgmt", "kube02", "kube03")
	t.Run("the manifests are accepted", w.theManifestsAreAccepted)
	t.Run("the quickstart from the manifests", w.theQuickstartFromTheManifests)
	t.Run("an agent from its manifests", w.anAgentFromItsManifests)
}
