package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func (w *world) startMembers(ts *testscript.TestScript, names []string) error {
	var servers []*membertest.Server
	for _, name := range names {
		s := membertest.Start(w.tb, name)
		w.members[name] = &simulated{Server: s}
		servers = append(servers, s)
		if err := membertest.WriteKubeconfig(ts.Getenv("KUBECONFIG")+"-"+name, s); err != nil {
			return err
		}
	}
	return membertest.WriteKubeconfig(ts.Getenv("KUBECONFIG"), servers...)
}

var memberSwitches = map[string]func(s *membertest.Server) error{
	"freeze":  func(s *membertest.Server) error { s.Freeze(); return nil },
	"thaw":    func(s *membertest.Server) error { s.Thaw(); return nil },
	"down":    func(s *membertest.Server) error { s.Down(); return nil },
	"up":      (*membertest.Server).Up,
	"unready": func(s *membertest.Server) error { s.SetNotReady(true); return nil },
	"ready":   func(s *membertest.Server) error { s.SetNotReady(false); return nil },
	"quotes":  func(s *membertest.Server) error { s.Intercept(quotes); return nil },
}

// quotes is a webhook that refuses Secrets, and says of what was sent all that it can wherever it can.
func quotes(r *http.Request) *metav1.Status {
	if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/secrets/") {
		return nil
	}
	body, _ := io.ReadAll(r.Body)
	said := string(body)
	return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReason(said), Message: said,
		Details: &metav1.StatusDetails{Name: said, Causes: []metav1.StatusCause{{Type: metav1.CauseType(said), Message: said, Field: "data." + said}}}}
}

func (w *world) member(_ *testscript.TestScript, args []string) error {
	if len(args) < 2 || w.members[args[0]] == nil {
		return errors.New("usage: member NAME freeze|thaw|down|up|unready|ready|quotes|fail NS/NAME|heal NS/NAME|token TOKEN")
	}
	s := w.members[args[0]].Server
	if f := memberSwitches[args[1]]; f != nil && len(args) == 2 {
		return f(s)
	}
	namespace, name, _ := strings.Cut(args[len(args)-1], "/")
	switch args[1] {
	case "fail":
		s.Fail(namespace, name)
	case "heal":
		s.Heal(namespace, name)
	case "token":
		s.SetToken(args[len(args)-1])
		w.members[args[0]].client = nil
	default:
		return fmt.Errorf("%q is nothing to do with a member", args[1])
	}
	return nil
}

// client is a person with kubectl.
type client struct {
	dynamic dynamic.Interface
	mapper  meta.ResettableRESTMapper
}

// requestTime bounds what a person waits for a member.
const requestTime = 10 * time.Second

func (w *world) client(member string) (*client, error) {
	s := w.members[member]
	if s == nil {
		return nil, fmt.Errorf("there is no member %s", member)
	}
	if s.client == nil {
		config := s.RestConfig()
		d, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		dc, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		s.client = &client{d, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))}
	}
	return s.client, nil
}

// resource finds where objects of a kind are, by "deployments" or "backups.demo.godwit.dev".
func (c *client) resource(kind, namespace string) (dynamic.ResourceInterface, error) {
	gr := schema.ParseGroupResource(strings.ToLower(kind))
	gvr, err := c.mapper.ResourceFor(gr.WithVersion(""))
	if err != nil {
		c.mapper.Reset()
		return nil, err
	}
	if namespace == "" {
		return c.dynamic.Resource(gvr), nil
	}
	return c.dynamic.Resource(gvr).Namespace(namespace), nil
}

// split cuts NS/NAME; a name alone is of a kind without namespaces.
func split(where string) (namespace, name string) {
	namespace, name, ok := strings.Cut(where, "/")
	if !ok {
		return "", where
	}
	return namespace, name
}

func (w *world) get(member, kind, where string) (*unstructured.Unstructured, error) {
	c, err := w.client(member)
	if err != nil {
		return nil, err
	}
	namespace, name := split(where)
	r, err := c.resource(kind, namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return r.Get(ctx, name, metav1.GetOptions{})
}

func (w *world) object(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: object MEMBER KIND NS/NAME")
	}
	o, err := w.get(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(o.Object, "", "  ")
	fmt.Fprintf(ts.Stdout(), "%s\n", text)
	return err
}

func (w *world) field(_ *testscript.TestScript, args []string) error {
	if len(args) != 5 {
		return errors.New("usage: field MEMBER KIND NS/NAME PATH WANT")
	}
	o, err := w.get(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	got, ok := lookup(o.Object, args[3])
	if !ok {
		return errors.New("there is no such field")
	}
	text, isText := got.(string)
	if !isText {
		raw, err := json.Marshal(got)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	if text != args[4] {
		return fmt.Errorf("it is %s", text)
	}
	return nil
}

func (w *world) absent(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 && len(args) != 4 {
		return errors.New("usage: absent MEMBER KIND NS/NAME [PATH]")
	}
	o, err := w.get(args[0], args[1], args[2])
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return err
	case len(args) == 3:
		return errors.New("it is there")
	}
	if got, ok := lookup(o.Object, args[3]); ok {
		return fmt.Errorf("it is there: %v", got)
	}
	return nil
}

// lookup follows a JSON pointer without its first slash.
func lookup(v any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(pointer, "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch node := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = node[step]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func (w *world) edit(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: edit MEMBER MANAGER FILE")
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(ts.ReadFile(args[2])), &o.Object); err != nil {
		return err
	}
	c, err := w.client(args[0])
	if err != nil {
		return err
	}
	mapping, err := c.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	var r dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
	if o.GetNamespace() != "" {
		r = c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	_, err = r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: args[1], Force: true})
	return err
}

func (w *world) patch(_ *testscript.TestScript, args []string) error {
	if len(args) != 5 {
		return errors.New("usage: patch MEMBER MANAGER KIND NS/NAME JSON")
	}
	c, err := w.client(args[0])
	if err != nil {
		return err
	}
	namespace, name := split(args[3])
	r, err := c.resource(args[2], namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	_, err = r.Patch(ctx, name, types.MergePatchType, []byte(args[4]), metav1.PatchOptions{FieldManager: args[1]})
	return err
}

func (w *world) delete(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: delete MEMBER KIND NS/NAME")
	}
	c, err := w.client(args[0])
	if err != nil {
		return err
	}
	namespace, name := split(args[2])
	r, err := c.resource(args[1], namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	return r.Delete(ctx, name, metav1.DeleteOptions{})
}

// clusterSecret writes what Argo CD would: how to reach a member as it is now, unless a KEY=VALUE says otherwise. The keys
// are those of the Secret, token, insecure and exec for its config, and label.NAME and annotation.NAME.
func (w *world) clusterSecret(_ *testscript.TestScript, args []string) error {
	if len(args) < 3 || w.members[args[2]] == nil {
		return errors.New("usage: cluster-secret MANAGEMENT [NS/]NAME MEMBER [KEY=VALUE...]")
	}
	namespace, name := split(args[1])
	if namespace == "" {
		namespace = "argocd"
	}
	config := w.members[args[2]].RestConfig()
	labels, annotations := map[string]any{"argocd.argoproj.io/secret-type": "cluster"}, map[string]any{}
	tls := map[string]any{"caData": config.CAData}
	login := map[string]any{"bearerToken": config.BearerToken, "tlsClientConfig": tls}
	data := map[string]any{"name": name, "server": config.Host}
	for _, arg := range args[3:] {
		key, value, _ := strings.Cut(arg, "=")
		switch what, where, _ := strings.Cut(key, "."); {
		case where != "" && what == "label":
			labels[where] = value
		case where != "" && what == "annotation":
			annotations[where] = value
		case key == "exec":
			delete(login, "bearerToken")
			login["execProviderConfig"] = map[string]any{"command": value, "apiVersion": "client.authentication.k8s.io/v1", "env": map[string]any{"FOR": name}}
		case key == "token":
			login["bearerToken"] = value
		case key == "insecure":
			tls["insecure"] = value == "true"
			delete(tls, "caData")
		default:
			data[key] = value
		}
	}
	text, err := json.Marshal(login)
	if err != nil {
		return err
	}
	if data["config"] == nil {
		data["config"] = string(text)
	}
	c, err := w.client(args[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	for _, o := range []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}, "stringData": data},
	} {
		u := &unstructured.Unstructured{Object: o}
		r, err := c.resource(u.GetKind()+"s", u.GetNamespace())
		if err != nil {
			return err
		}
		if _, err := r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "argocd", Force: true}); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mark(*testscript.TestScript, []string) error {
	for _, s := range w.members {
		_, s.marked = s.Writes()
	}
	return nil
}

func (w *world) unwritten(_ *testscript.TestScript, names []string) error {
	if len(names) == 0 {
		for name := range w.members {
			names = append(names, name)
		}
	}
	for _, name := range names {
		s := w.members[name]
		if s == nil {
			return fmt.Errorf("there is no member %s", name)
		}
		if _, sent := s.Writes(); sent != s.marked {
			return fmt.Errorf("%s was sent %d writes", name, sent-s.marked)
		}
	}
	return nil
}
