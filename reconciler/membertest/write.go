package membertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write answers the verbs that change one object. The caller holds s.mu.
func (s *Server) write(q *request) (*object, int, error) {
	live := q.resource.objects.objects[key{q.namespace, q.name}]
	switch {
	case q.subresource == "scale":
		o, err := s.writeScale(q, live)
		return o, http.StatusOK, err
	case q.verb == "create":
		o, err := s.post(q)
		return o, http.StatusCreated, err
	case q.verb == "apply":
		o, err := s.apply(q, live)
		if live == nil {
			return o, http.StatusCreated, err
		}
		return o, http.StatusOK, err
	case live == nil:
		return nil, 0, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	case q.verb == "update":
		content, err := q.resource.decode(q.body)
		if err != nil {
			return nil, 0, err
		}
		o, err := s.update(q, live, content)
		return o, http.StatusOK, err
	default:
		content, err := q.patched(live.in(q.resource).DeepCopy().Object)
		if err != nil {
			return nil, 0, err
		}
		o, err := s.update(q, live, content)
		return o, http.StatusOK, err
	}
}

// in returns the object as the resource's version has it. It must not be changed.
func (o *object) in(r *resource) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: withVersion(o.Object, r.GroupVersion())}
}

func (s *Server) post(q *request) (*object, error) {
	content, err := q.resource.decode(q.body)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(u.GetGenerateName() + suffix())
	}
	q.name = u.GetName()
	return s.insert(q, content)
}

func (s *Server) insert(q *request, content map[string]any) (*object, error) {
	content, typed, err := q.normalize(content)
	if err != nil {
		return nil, err
	}
	managed := q.fields().UpdateNoErrors(newObject(q.resource.GroupVersionKind), &unstructured.Unstructured{Object: content}, q.manager)
	return s.create(q, managed.(*unstructured.Unstructured).Object, typed)
}

// add makes an object of the server's own.
func (s *Server) add(plural, namespace, name string, content map[string]any) error {
	r := s.kinds[schema.GroupResource{Resource: plural}].resource
	u := newObject(r.GroupVersionKind)
	maps.Copy(u.Object, content)
	u.SetName(name)
	_, err := s.insert(&request{resource: r, verb: "create", namespace: namespace, name: name, manager: controllerManager}, u.Object)
	return err
}

// suffix is the random end of a generated name.
func suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(b)
}

func (s *Server) apply(q *request, live *object) (*object, error) {
	patch := make(map[string]any)
	if err := unmarshal(q.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if live == nil && q.subresource != "" {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	return s.merge(q, live, patch)
}

// merge does a server-side apply of patch to live, which may be nil. The patch is used up.
func (s *Server) merge(q *request, live *object, patch map[string]any) (*object, error) {
	before := newObject(q.resource.GroupVersionKind)
	if live != nil {
		before = live.in(q.resource)
	}
	merged, err := q.fields().Apply(before, &unstructured.Unstructured{Object: patch}, q.manager, q.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	u := merged.(*unstructured.Unstructured)
	if live == nil && u.GetUID() != "" {
		return nil, apierrors.NewConflict(q.resource.groupResource(), q.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", u.GetUID()))
	}
	content, typed, err := q.normalize(u.Object)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return s.create(q, content, typed)
	}
	return s.replace(q, live, content, typed)
}

// update makes content, which is all of an object, the next version of live.
func (s *Server) update(q *request, live *object, content map[string]any) (*object, error) {
	content, typed, err := q.normalize(content)
	if err != nil {
		return nil, err
	}
	if version := (&unstructured.Unstructured{Object: content}).GetResourceVersion(); version == "" && q.verb == "update" && q.resource.custom != nil {
		return nil, apierrors.NewInvalid(q.resource.GroupVersionKind.GroupKind(), q.name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	managed := q.fields().UpdateNoErrors(live.in(q.resource), &unstructured.Unstructured{Object: content}, q.manager)
	return s.replace(q, live, managed.(*unstructured.Unstructured).Object, typed)
}

// patched returns content with the request's patch (of any type but apply) done to it.
func (q *request) patched(content map[string]any) (map[string]any, error) {
	bad := func(err error) error { return apierrors.NewBadRequest(err.Error()) }
	switch q.patchType {
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, bad(err)
		}
		doc, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		if doc, err = patch.Apply(doc); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		var after map[string]any
		if err := json.Unmarshal(doc, &after); err != nil {
			return nil, bad(err)
		}
		return after, nil
	case types.StrategicMergePatchType:
		if q.resource.custom != nil {
			break
		}
		var patch map[string]any
		if err := json.Unmarshal(q.body, &patch); err != nil {
			return nil, bad(err)
		}
		typed, err := goTypes().New(q.resource.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		after, err := strategicpatch.StrategicMergeMapPatch(content, patch, typed)
		if err != nil {
			return nil, bad(err)
		}
		return after, nil
	case types.MergePatchType:
		var patch map[string]any
		if err := json.Unmarshal(q.body, &patch); err != nil {
			return nil, bad(err)
		}
		return mergePatch(content, patch), nil
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: fmt.Sprintf("the body of the request was in an unknown format: %s", q.patchType)}}
}

// mergePatch is RFC 7386, in place.
func mergePatch(content, patch map[string]any) map[string]any {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(content, k)
		case map[string]any:
			into, ok := content[k].(map[string]any)
			if !ok {
				into = make(map[string]any, len(v))
			}
			content[k] = mergePatch(into, v)
		default:
			content[k] = v
		}
	}
	return content
}

// create stores an object that is new, unless it is not.
func (s *Server) create(q *request, content map[string]any, typed runtime.Object) (*object, error) {
	r, u := q.resource, &unstructured.Unstructured{Object: content}
	switch {
	case u.GetResourceVersion() != "":
		return nil, fmt.Errorf("resourceVersion should not be set on objects to be created")
	case r.has(cluster) && u.GetNamespace() != "":
		return nil, apierrors.NewBadRequest("namespace is not allowed for a cluster-scoped object")
	case u.GetNamespace() != "" && u.GetNamespace() != q.namespace:
		return nil, namespaceMismatch()
	case u.GetName() != q.name:
		return nil, nameMismatch(u.GetName(), q.name)
	}
	if !r.has(cluster) {
		if err := s.checkNamespace(q); err != nil {
			return nil, err
		}
		u.SetNamespace(q.namespace)
	}
	if r.has(status) {
		if initial := initialStatus(r, typed); initial != nil {
			content["status"] = initial
		} else {
			delete(content, "status")
		}
	}
	u.SetUID(types.UID(s.uid(r, u.GetName())))
	u.SetCreationTimestamp(s.now())
	unstructured.RemoveNestedField(content, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(content, "metadata", "selfLink")
	unstructured.RemoveNestedField(content, "metadata", "generation")
	if r.has(generation) {
		u.SetGeneration(1)
	}
	if err := r.validate(content, typed, nil); err != nil {
		return nil, err
	}
	if r.objects.objects[key{q.namespace, q.name}] != nil {
		return nil, apierrors.NewAlreadyExists(r.groupResource(), q.name)
	}
	s.allocate(r, content)
	if q.dryRun {
		return dry(content)
	}
	return s.put(r.objects, nil, content)
}

// dry is an object that is not stored.
func dry(content map[string]any) (*object, error) {
	wire, err := json.Marshal(content)
	return &object{Unstructured: &unstructured.Unstructured{Object: content}, wire: wire}, err
}

func nameMismatch(name, want string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, want))
}

func namespaceMismatch() error {
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// checkNamespace returns why nothing can be created in the request's namespace.
func (s *Server) checkNamespace(q *request) error {
	ns := s.namespaces.objects[key{name: q.namespace}]
	if ns == nil {
		return apierrors.NewNotFound(s.namespaces.resource.groupResource(), q.namespace)
	}
	if ns.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(q.resource.groupResource(), q.name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", q.namespace), Field: "metadata.namespace"})
	return err
}

// initialStatus is the status a kind starts with; a client cannot choose it.
func initialStatus(r *resource, typed runtime.Object) any {
	if r.custom != nil {
		return nil
	}
	phase := map[string]string{"Pod": "Pending", "Namespace": "Active", "PersistentVolumeClaim": "Pending", "PersistentVolume": "Pending"}[r.Kind]
	switch {
	case r.Kind == "Node": // the kubelet registers a node together with its status
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			panic(err) // it was converted before
		}
		return content["status"]
	case phase != "":
		return map[string]any{"phase": phase}
	case r.Kind == "Service":
		return map[string]any{"loadBalancer": map[string]any{}}
	}
	return map[string]any{}
}

// uid is random, but for a namespace: a member is known by the uid of kube-system,
// which stays the same when a server of the same name starts again.
func (s *Server) uid(r *resource, name string) string {
	if r.Kind == "Namespace" && name == metav1.NamespaceSystem {
		return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(s.name)).String()
	}
	return uuid.NewString()
}

// allocate fills in what the server chooses for a new object.
func (s *Server) allocate(r *resource, content map[string]any) {
	spec, _ := content["spec"].(map[string]any)
	switch r.Kind {
	case "Service":
		if kind := spec["type"]; spec["clusterIP"] == nil && kind != string(corev1.ServiceTypeExternalName) {
			s.addresses++
			spec["clusterIP"] = fmt.Sprintf("10.%d.%d.%d", 96+s.addresses>>16, s.addresses>>8&255, s.addresses&255)
		}
		if ip := spec["clusterIP"]; ip != nil {
			spec["clusterIPs"] = []any{ip}
		}
		s.allocatePorts(spec)
	case "Job":
		if spec["manualSelector"] == true {
			return
		}
		u := &unstructured.Unstructured{Object: content}
		uid := string(u.GetUID())
		labels, _, _ := unstructured.NestedStringMap(spec, "template", "metadata", "labels")
		if labels == nil {
			labels = make(map[string]string)
		}
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			labels[prefix+"controller-uid"], labels[prefix+"job-name"] = uid, u.GetName()
		}
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"batch.kubernetes.io/controller-uid": uid}}
		_ = unstructured.SetNestedStringMap(spec, labels, "template", "metadata", "labels") // the path is there: it was decoded
	}
}

// allocatePorts gives a node port to each port of a Service that wants one and has none.
func (s *Server) allocatePorts(spec map[string]any) {
	if kind := spec["type"]; kind != string(corev1.ServiceTypeNodePort) && kind != string(corev1.ServiceTypeLoadBalancer) {
		return
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if p, ok := p.(map[string]any); ok && p["nodePort"] == nil {
			p["nodePort"] = int64(30000 + s.nodePorts%2768)
			s.nodePorts++
		}
	}
}

// replace makes content the next version of live, unless nothing changed.
func (s *Server) replace(q *request, live *object, content map[string]any, typed runtime.Object) (*object, error) {
	r, u, old := q.resource, &unstructured.Unstructured{Object: content}, live.in(q.resource).Object
	switch version, uid := u.GetResourceVersion(), u.GetUID(); {
	case u.GetName() != q.name:
		return nil, nameMismatch(u.GetName(), q.name)
	case u.GetNamespace() != "" && u.GetNamespace() != q.namespace:
		return nil, namespaceMismatch()
	case version != "" && version != live.GetResourceVersion():
		return nil, apierrors.NewConflict(r.groupResource(), q.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	case uid != "" && uid != live.GetUID():
		return nil, apierrors.NewConflict(r.groupResource(), q.name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, live.GetUID()))
	}
	u.SetNamespace(live.GetNamespace())
	meta, was := content["metadata"].(map[string]any), old["metadata"].(map[string]any)
	for _, f := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName"} {
		carry(meta, was, f)
	}
	switch {
	case q.subresource == "status" && r.custom != nil:
		whole := maps.Clone(old)
		carry(whole, content, "status")
		whole["metadata"] = maps.Clone(was)
		carry(whole["metadata"].(map[string]any), meta, "managedFields")
		content = whole
	case q.subresource == "status":
		carry(content, old, "spec")
		carry(meta, was, "labels")
		typed = nil // it has the spec of the request
	case r.has(status):
		carry(content, old, "status")
	}
	if r.Kind == "Service" {
		s.keepAllocated(content, old)
	}
	if err := r.validate(content, typed, live); err != nil {
		return nil, err
	}
	u.Object = content
	if r.has(generation) && !equalBut(content, old, "metadata", "status") {
		u.SetGeneration(live.GetGeneration() + 1)
	}
	if unchanged(content, old) {
		return live, nil
	}
	if q.dryRun {
		return dry(content)
	}
	if u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 && !s.holds(r, content) {
		if _, err := s.remove(r.objects, live); err != nil {
			return nil, err
		}
		return dry(content)
	}
	return s.put(r.objects, live, content)
}

// carry makes a field of content what it is in old.
func carry(content, old map[string]any, name string) {
	if v, ok := old[name]; ok {
		content[name] = v
	} else {
		delete(content, name)
	}
}

// keepAllocated keeps the addresses and ports that a client left out of a Service it wrote.
func (s *Server) keepAllocated(content, old map[string]any) {
	spec, _ := content["spec"].(map[string]any)
	was, _ := old["spec"].(map[string]any)
	if spec["type"] == string(corev1.ServiceTypeExternalName) {
		return
	}
	for _, f := range []string{"clusterIP", "clusterIPs"} {
		if spec[f] == nil && was[f] != nil {
			spec[f] = was[f]
		}
	}
	ports, _ := spec["ports"].([]any)
	before, _ := was["ports"].([]any)
	for _, p := range ports {
		p, _ := p.(map[string]any)
		for _, b := range before {
			if b, _ := b.(map[string]any); p["nodePort"] == nil && b["port"] == p["port"] && b["protocol"] == p["protocol"] && b["nodePort"] != nil {
				p["nodePort"] = b["nodePort"]
			}
		}
	}
	s.allocatePorts(spec)
}

// equalBut compares two objects but for some fields.
func equalBut(a, b map[string]any, fields ...string) bool {
	skip := func(k string, _ any) bool { return slices.Contains(fields, k) }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, skip)
	maps.DeleteFunc(b, skip)
	return reflect.DeepEqual(a, b)
}

// unchanged tells whether two versions of an object differ at most in the times of their managed fields.
func unchanged(a, b map[string]any) bool {
	am, _ := a["metadata"].(map[string]any)
	bm, _ := b["metadata"].(map[string]any)
	af, _ := am["managedFields"].([]any)
	bf, _ := bm["managedFields"].([]any)
	return len(af) == len(bf) && equalBut(a, b, "metadata") && equalBut(am, bm, "managedFields") &&
		slices.EqualFunc(af, bf, func(a, b any) bool {
			x, _ := a.(map[string]any)
			y, _ := b.(map[string]any)
			return equalBut(x, y, "time")
		})
}

// delete takes an object away, or marks it if something holds it. The object returned is what is left of it;
// gone tells whether that is nothing.
func (s *Server) delete(c *collection, live *object, opts metav1.DeleteOptions) (left *object, gone bool, err error) {
	r := c.resource
	if p := opts.Preconditions; p != nil {
		for _, pre := range []struct {
			name       string
			want, have string
		}{
			{"UID", deref(p.UID), string(live.GetUID())},
			{"ResourceVersion", deref(p.ResourceVersion), live.GetResourceVersion()},
		} {
			if pre.want != "" && pre.want != pre.have {
				return nil, false, apierrors.NewConflict(r.groupResource(), live.name, fmt.Errorf(
					"the %s in the precondition (%s) does not match the %s in record (%s). The object might have been deleted and then recreated",
					pre.name, pre.want, pre.name, pre.have))
			}
		}
	}
	if r.Kind == "Namespace" && slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, live.name) {
		return nil, false, apierrors.NewForbidden(r.groupResource(), live.name, fmt.Errorf("this namespace may not be deleted"))
	}
	if len(opts.DryRun) > 0 {
		return live, true, nil
	}
	next := live.DeepCopy()
	switch deref(opts.PropagationPolicy) {
	case string(metav1.DeletePropagationOrphan):
		if err := s.orphan(live); err != nil {
			return nil, false, err
		}
	case string(metav1.DeletePropagationForeground):
		if len(s.owned[live.GetUID()]) > 0 {
			next.SetFinalizers(append(next.GetFinalizers(), metav1.FinalizerDeleteDependents))
		}
	}
	if s.holds(r, live.Object) && r.Kind == "CustomResourceDefinition" {
		next.SetFinalizers(append(next.GetFinalizers(), cleanupFinalizer))
	}
	if len(next.GetFinalizers()) == 0 && !s.holds(r, live.Object) {
		left, err = s.remove(c, live)
		return left, true, err
	}
	if live.GetDeletionTimestamp() != nil {
		return live, false, nil
	}
	now, grace := s.now(), int64(0)
	next.SetDeletionTimestamp(&now)
	next.SetDeletionGracePeriodSeconds(&grace)
	if next.GetGeneration() > 0 {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	if r.Kind == "Namespace" {
		next.Object["status"] = map[string]any{"phase": string(corev1.NamespaceTerminating)}
	}
	left, err = s.put(c, live, next.Object)
	return left, false, err
}

func deref[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// writeScale changes the number of replicas by way of the object's scale, which it returns.
func (s *Server) writeScale(q *request, live *object) (*object, error) {
	if live == nil {
		return nil, apierrors.NewNotFound(q.resource.groupResource(), q.name)
	}
	shown, err := q.resource.scaleOf(live)
	if err != nil {
		return nil, err
	}
	// Who owns the replicas of the object owns those of its scale, and the other way round.
	handler := managedfields.NewScaleHandler(live.GetManagedFields(), q.resource.GroupVersion(), q.resource.replicas.managed)
	managed, err := handler.ToSubresource()
	if err != nil {
		return nil, err
	}
	before := shown.DeepCopy()
	before.SetManagedFields(managed)
	wanted := new(unstructured.Unstructured)
	switch q.verb {
	case "apply":
		if err = unmarshal(q.body, &wanted.Object); err == nil {
			var merged runtime.Object
			merged, err = scaleFields().Apply(before, wanted, q.manager, q.query.Get("force") == "true")
			if err != nil {
				return nil, err
			}
			wanted = merged.(*unstructured.Unstructured)
		}
	case "update":
		wanted.Object, err = (&resource{GroupVersionKind: scaleKind}).decode(q.body)
	default:
		wanted.Object, err = (&request{patchType: q.patchType, body: q.body, resource: &resource{GroupVersionKind: scaleKind}}).patched(before.DeepCopy().Object)
	}
	if err != nil {
		return nil, err
	}
	replicas, _, err := unstructured.NestedInt64(wanted.Object, "spec", "replicas")
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	version := wanted.GetResourceVersion()
	if q.verb != "apply" {
		wanted = scaleFields().UpdateNoErrors(before, wanted, q.manager).(*unstructured.Unstructured)
	}
	if managed, err = handler.ToParent(wanted.GetManagedFields()); err != nil {
		return nil, err
	}
	u := live.in(q.resource).DeepCopy()
	if version != "" {
		u.SetResourceVersion(version)
	}
	if err := unstructured.SetNestedField(u.Object, replicas, q.resource.replicas.spec...); err != nil {
		return nil, err
	}
	u.SetManagedFields(managed)
	content, typed, err := q.normalize(u.Object)
	if err != nil {
		return nil, err
	}
	o, err := s.replace(q, live, content, typed)
	if err != nil {
		return nil, err
	}
	return q.resource.scaleOf(o)
}

// scaleFields manages the fields of every scale subresource.
var scaleFields = sync.OnceValue(func() *managedfields.FieldManager {
	gv := scaleKind.GroupVersion()
	types, err := typesOf(models(autoscalingv1.Scale{}.OpenAPIModelName()), autoscalingv1.Scale{}.OpenAPIModelName(), scaleKind)
	if err == nil {
		var m *managedfields.FieldManager
		if m, err = managedfields.NewDefaultFieldManager(types, versions{gv}, noDefaults{}, empty{}, scaleKind, gv, "scale", nil); err == nil {
			return m
		}
	}
	panic(err) // the schema is a constant: seen by every test
})

// scaleOf shows an object as its scale subresource.
func (r *resource) scaleOf(o *object) (*object, error) {
	shown := newObject(scaleKind)
	shown.SetName(o.GetName())
	shown.SetNamespace(o.GetNamespace())
	shown.SetUID(o.GetUID())
	shown.SetResourceVersion(o.GetResourceVersion())
	shown.SetCreationTimestamp(o.GetCreationTimestamp())
	wanted, _, _ := unstructured.NestedInt64(o.Object, r.replicas.spec...)
	running, _, _ := unstructured.NestedInt64(o.Object, r.replicas.status...)
	shown.Object["spec"] = map[string]any{"replicas": wanted}
	state := map[string]any{"replicas": running}
	switch sel, _, _ := unstructured.NestedFieldNoCopy(o.Object, r.replicas.selector...); sel := sel.(type) {
	case string:
		state["selector"] = sel
	case map[string]any:
		var ls metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sel, &ls); err == nil {
			state["selector"] = metav1.FormatLabelSelector(&ls)
		}
	}
	shown.Object["status"] = state
	return dry(shown.Object)
}

// normalize is resource.normalize with what the request says about unknown fields.
func (q *request) normalize(content map[string]any) (map[string]any, runtime.Object, error) {
	content, typed, unknown, err := q.resource.normalize(content)
	if err != nil || len(unknown) == 0 {
		return content, typed, err
	}
	for i, u := range unknown {
		if q.resource.custom != nil {
			unknown[i] = fmt.Sprintf("unknown field %q", u)
		}
	}
	switch q.query.Get("fieldValidation") {
	case metav1.FieldValidationStrict:
		return nil, nil, apierrors.NewBadRequest("strict decoding error: " + strings.Join(unknown, ", "))
	case metav1.FieldValidationIgnore:
	default:
		q.warnings = append(q.warnings, unknown...)
	}
	return content, typed, nil
}
