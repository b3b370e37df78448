package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/godwit-gitops/godwit/reconciler/credential"
)

// Enrolment is what a cluster needs so that it can be served as a member: an account, and what that may do.
type Enrolment struct {
	// Namespace and Account are those of the service account.
	Namespace, Account string
	// Grants are the kinds that may be written, as group and resource; both may be *.
	Grants []schema.GroupResource
	// Capacity lets nodes and pods be read, too.
	Capacity bool
	// ReadOnly: somebody else writes.
	ReadOnly bool
	// Impersonates are service accounts of the cluster, as namespace/name, that may be written as.
	Impersonates []string
	// Duration is how long the token lasts; 0 means until it is taken away.
	Duration time.Duration
}

// managed marks what join wrote, and lets unjoin remove that alone.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "godwit"
	enroller       = "godwit-join"
)

var (
	readVerbs  = []any{"get", "list", "watch"}
	writeVerbs = []any{"get", "list", "watch", "create", "patch", "delete"}
)

// token is the name of the Secret with the account's token.
func (e Enrolment) token() string { return e.Account + "-token" }

// role is the name of what the account may do in all of the cluster.
func (e Enrolment) role() string { return e.Namespace + ":" + e.Account }

// Access is the account and what it may do, in the order in which it is written.
func (e Enrolment) Access() []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{
		ours("v1", "Namespace", "", e.Namespace, nil),
		ours("v1", "ServiceAccount", e.Namespace, e.Account, nil),
		ours("rbac.authorization.k8s.io/v1", "ClusterRole", "", e.role(), map[string]any{"rules": e.rules()}),
		ours("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", e.role(), map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": e.role()},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": e.Account, "namespace": e.Namespace}},
		}),
	}
	if e.ReadOnly {
		return objects
	}
	return append(objects, e.impersonation()...)
}

// Objects are what the cluster gets, in the order in which it is written.
func (e Enrolment) Objects() []*unstructured.Unstructured {
	objects := e.Access()
	if e.Duration == 0 {
		o := ours("v1", "Secret", e.Namespace, e.token(), map[string]any{"type": "kubernetes.io/service-account-token"})
		o.SetAnnotations(map[string]string{"kubernetes.io/service-account.name": e.Account})
		objects = append(objects, o)
	}
	return objects
}

// impersonation lets the account write as others, and as no more of them than are named. Their namespaces are made if they
// are missing, since a Role has to be in one, and are nobody's: they stay when the account goes.
func (e Enrolment) impersonation() (objects []*unstructured.Unstructured) {
	names := map[string][]any{}
	for _, account := range e.Impersonates {
		namespace, name, _ := strings.Cut(account, "/")
		names[namespace] = append(names[namespace], name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		if namespace != e.Namespace {
			o := ours("v1", "Namespace", "", namespace, nil)
			o.SetLabels(nil)
			objects = append(objects, o)
		}
		objects = append(objects,
			ours("rbac.authorization.k8s.io/v1", "Role", namespace, e.role(), map[string]any{"rules": []any{map[string]any{
				"apiGroups": []any{""}, "resources": []any{"serviceaccounts"}, "resourceNames": names[namespace], "verbs": []any{"impersonate"},
			}}}),
			ours("rbac.authorization.k8s.io/v1", "RoleBinding", namespace, e.role(), map[string]any{
				"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": e.role()},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": e.Account, "namespace": e.Namespace}},
			}))
	}
	return objects
}

func (e Enrolment) rules() []any {
	rules := []any{
		map[string]any{"nonResourceURLs": []any{"/readyz", "/healthz", "/version", "/api", "/api/*", "/apis", "/apis/*"}, "verbs": []any{"get"}},
		map[string]any{"apiGroups": []any{""}, "resources": []any{"namespaces"}, "resourceNames": []any{metav1.NamespaceSystem}, "verbs": []any{"get"}},
	}
	if e.Capacity {
		rules = append(rules, map[string]any{"apiGroups": []any{""}, "resources": []any{"nodes", "pods"}, "verbs": []any{"list"}})
	}
	verbs := writeVerbs
	if e.ReadOnly {
		verbs = readVerbs
	}
	byGroup := map[string][]string{}
	for _, g := range e.Grants {
		byGroup[g.Group] = append(byGroup[g.Group], g.Resource)
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		resources := byGroup[group]
		slices.Sort(resources)
		var all []any
		for _, r := range slices.Compact(resources) {
			all = append(all, r)
		}
		rules = append(rules, map[string]any{"apiGroups": []any{group}, "resources": all, "verbs": verbs})
	}
	return rules
}

func ours(apiVersion, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, content)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{labelManagedBy: managedBy})
	return o
}

// resources of the kinds that join writes.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

func where(c dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	r := c.Resource(resources[o.GetKind()])
	if o.GetNamespace() == "" {
		return r
	}
	return r.Namespace(o.GetNamespace())
}

// Done is one thing that was done, or would be.
type Done struct {
	// Object is "Kind namespace/name"; What is created, configured, unchanged, deleted, absent or left.
	Object string `json:"object"`
	What   string `json:"what"`
}

func done(o *unstructured.Unstructured, what string) Done {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return Done{o.GetKind() + " " + name, what}
}

// write applies an object that is ours, or is not there.
func write(ctx context.Context, c dynamic.Interface, o *unstructured.Unstructured) (Done, error) {
	r := where(c, o)
	before, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return Done{}, fmt.Errorf("read %s: %w", done(o, "").Object, err)
	case before.GetLabels()[labelManagedBy] != managedBy && o.GetKind() != "Namespace":
		return Done{}, fmt.Errorf("%s is there and was not made by godwit; remove it, or choose another name", done(o, "").Object)
	case before.GetLabels()[labelManagedBy] != managedBy:
		return done(o, "left"), nil // somebody else's namespace will do
	}
	after, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: enroller, Force: true})
	switch {
	case err != nil:
		return Done{}, fmt.Errorf("write %s: %w", done(o, "").Object, err)
	case before == nil:
		return done(o, "created"), nil
	case before.GetResourceVersion() == after.GetResourceVersion():
		return done(o, "unchanged"), nil
	}
	return done(o, "configured"), nil
}

// remove deletes an object that is ours.
func remove(ctx context.Context, c dynamic.Interface, o *unstructured.Unstructured) (Done, error) {
	r := where(c, o)
	live, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return done(o, "absent"), nil
	case err != nil:
		return Done{}, fmt.Errorf("read %s: %w", done(o, "").Object, err)
	case live.GetLabels()[labelManagedBy] != managedBy:
		return done(o, "left"), nil
	}
	uid := live.GetUID()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return Done{}, fmt.Errorf("delete %s: %w", done(o, "").Object, err)
	}
	return done(o, "deleted"), nil
}

// Identity is the UID that tells a cluster from others.
func Identity(ctx context.Context, config *rest.Config) (string, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", err
	}
	system, err := c.Resource(resources["Namespace"]).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of namespace kube-system: %w", err)
	}
	return string(system.GetUID()), nil
}

// Issued is the way for the account that was made.
type Issued struct {
	Access credential.Access
	// Expires is zero for a token that lasts.
	Expires time.Time
}

// tokenTime is how long the cluster may take to fill in a token.
const tokenTime = 30 * time.Second

// Enroll makes the account in a cluster that config reaches as an administrator, and gives the way for it. What is there
// already is brought up to date, so that it can be called again; then the same token comes back, unless it has a duration.
func Enroll(ctx context.Context, config *rest.Config, e Enrolment) (Issued, []Done, error) {
	issued, err := addressed(config)
	if err != nil {
		return issued, nil, err
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return issued, nil, err
	}
	var all []Done
	for _, o := range e.Objects() {
		d, err := write(ctx, c, o)
		if err != nil {
			return issued, all, err
		}
		all = append(all, d)
	}
	if e.Duration > 0 {
		issued.Access.Token, issued.Expires, err = requestToken(ctx, c, e)
	} else {
		issued.Access.Token, err = awaitToken(ctx, c, e)
	}
	return issued, all, err
}

// addressed is the way without the credentials.
func addressed(config *rest.Config) (Issued, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return Issued{}, fmt.Errorf("read the kubeconfig's certificates: %w", err)
	}
	if config.Insecure {
		return Issued{}, errors.New("the kubeconfig has insecure-skip-tls-verify; put the cluster's certificate authority there instead")
	}
	return Issued{Access: credential.Access{Server: strings.TrimRight(config.Host, "/"), ServerName: config.ServerName, CA: config.CAData}}, nil
}

func requestToken(ctx context.Context, c dynamic.Interface, e Enrolment) (string, time.Time, error) {
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": e.Account},
		"spec": map[string]any{"expirationSeconds": int64(e.Duration / time.Second)},
	}}
	answer, err := c.Resource(resources["ServiceAccount"]).Namespace(e.Namespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", time.Time{}, fmt.Errorf("ask for a token: %w", err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	text, _, _ := unstructured.NestedString(answer.Object, "status", "expirationTimestamp")
	expires, err := time.Parse(time.RFC3339, text)
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("ask for a token: %w", err)
	}
	return token, expires, nil
}

func awaitToken(ctx context.Context, c dynamic.Interface, e Enrolment) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.Resource(resources["Secret"]).Namespace(e.Namespace).Get(ctx, e.token(), metav1.GetOptions{})
		if err == nil {
			text, _, _ := unstructured.NestedString(s.Object, "data", "token")
			token, err := base64.StdEncoding.DecodeString(text)
			if err == nil && len(token) > 0 {
				return string(token), nil
			}
		} else if ctx.Err() == nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("the cluster fills in no token for Secret %s/%s; use --token-duration", e.Namespace, e.token())
		}
	}
}

// Expel removes from a cluster what Enroll made, the account last but for its namespace.
func Expel(ctx context.Context, config *rest.Config, e Enrolment) ([]Done, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	e.Duration = 0 // the token's Secret is there, or not
	objects := slices.DeleteFunc(e.Objects(), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() != e.Namespace
	})
	slices.Reverse(objects)
	var all []Done
	for _, o := range objects {
		d, err := remove(ctx, c, o)
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Record is how a member's credentials are kept in the management cluster.
type Record struct {
	Member    string
	Namespace string
	// SecretRef: as Karmada keeps them, for spec.secretRef; else as Argo CD does.
	SecretRef bool
	// Labels are those of the cluster.
	Labels map[string]string
}

// Name is that of the Secret.
func (r Record) Name() string {
	if r.SecretRef {
		return r.Member
	}
	return "cluster-" + r.Member
}

// Object is the Secret.
func (r Record) Object(i Issued) (*unstructured.Unstructured, error) {
	a := i.Access
	data := map[string]any{credential.KeyToken: text([]byte(a.Token)), credential.KeyCABundle: text(a.CA)}
	if !r.SecretRef {
		tls := map[string]any{}
		if len(a.CA) > 0 {
			tls["caData"] = a.CA
		}
		if a.ServerName != "" {
			tls["serverName"] = a.ServerName
		}
		config, err := json.Marshal(map[string]any{"bearerToken": a.Token, "tlsClientConfig": tls})
		if err != nil {
			return nil, err
		}
		data = map[string]any{"name": text([]byte(r.Member)), "server": text([]byte(a.Server)), "config": text(config)}
	}
	o := ours("v1", "Secret", r.Namespace, r.Name(), map[string]any{"type": "Opaque", "data": data})
	labels := maps.Clone(r.Labels)
	if labels == nil || r.SecretRef {
		labels = map[string]string{}
	}
	labels[labelManagedBy] = managedBy
	if !r.SecretRef {
		labels[credential.LabelSecretType] = credential.SecretTypeCluster
		o.SetAnnotations(map[string]string{credential.AnnotationMember: "true"}) // it may have left before
	}
	o.SetLabels(labels)
	return o, nil
}

func text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// Keep writes the Secret to the management cluster.
func Keep(ctx context.Context, management *rest.Config, r Record, i Issued) (Done, error) {
	o, err := r.Object(i)
	if err != nil {
		return Done{}, err
	}
	c, err := dynamic.NewForConfig(management)
	if err != nil {
		return Done{}, err
	}
	return write(ctx, c, o)
}

// Release makes no member any more of the Secret by itself, and leaves the credentials in use: what is on the member has
// to be removed with them. It is left alone if godwit did not make it.
func Release(ctx context.Context, management *rest.Config, r Record) (Done, error) {
	c, err := dynamic.NewForConfig(management)
	if err != nil {
		return Done{}, err
	}
	o := ours("v1", "Secret", r.Namespace, r.Name(), nil)
	live, err := where(c, o).Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return done(o, "absent"), nil
	case err != nil:
		return Done{}, fmt.Errorf("read %s: %w", done(o, "").Object, err)
	case live.GetLabels()[labelManagedBy] != managedBy:
		return done(o, "left"), nil
	}
	o.SetLabels(nil)
	o.SetAnnotations(map[string]string{credential.AnnotationMember: "false"})
	if _, err := where(c, o).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: enroller + "-leave", Force: true}); err != nil {
		return Done{}, fmt.Errorf("write %s: %w", done(o, "").Object, err)
	}
	return done(o, "released"), nil
}

// Drop removes the Secret from the management cluster.
func Drop(ctx context.Context, management *rest.Config, r Record) (Done, error) {
	c, err := dynamic.NewForConfig(management)
	if err != nil {
		return Done{}, err
	}
	return remove(ctx, c, ours("v1", "Secret", r.Namespace, r.Name(), nil))
}
