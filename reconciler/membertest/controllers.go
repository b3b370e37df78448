package membertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	controllerManager  = "kube-controller-manager"                    // the field manager of what controllers write
	cleanupFinalizer   = "customresourcecleanup.apiextensions.k8s.io" // holds a definition until its objects are gone
	revisionAnnotation = "deployment.kubernetes.io/revision"

	// What fails is told the same way to both sorts of members.
	failAnnotation = "test/fail" // of a pod template: "true"
	failConfigMap  = "test-fail" // in kube-system: its values are "*", NAMESPACE/* or NAMESPACE/WORKLOAD
)

// controllers look at each change of their kind, once it is stored.
var controllers = map[string]func(*Server, change) error{
	"ConfigMap": (*Server).failures,
	"CustomResourceDefinition.apiextensions.k8s.io": (*Server).definition,
	"Namespace":        (*Server).namespace,
	"Secret":           (*Server).accountToken,
	"DaemonSet.apps":   (*Server).workload,
	"Deployment.apps":  (*Server).workload,
	"ReplicaSet.apps":  (*Server).workload,
	"StatefulSet.apps": (*Server).workload,
	"Job.batch":        (*Server).workload,
}

// settle runs the controllers until none has anything to do. The caller holds s.mu.
func (s *Server) settle() error {
	for len(s.changes) > 0 {
		c := s.changes[0]
		s.changes = s.changes[1:]
		if err := s.collect(c); err != nil {
			return err
		}
		if f := controllers[c.objects.resource.GroupVersionKind.GroupKind().String()]; f != nil {
			if err := f(s, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect is the garbage collector: an object goes when all its owners are gone. It also lets
// go what waited for the object: an owner deleted in the foreground, a namespace, a definition.
func (s *Server) collect(c change) error {
	if c.after != nil && len(c.after.GetOwnerReferences()) > 0 {
		if err := s.disown(ref{c.objects, c.after.key}); err != nil {
			return err
		}
	}
	if c.before == nil || s.owns(c.before.GetUID()) {
		return nil
	}
	for _, d := range s.dependents(c.before.GetUID()) {
		if err := s.disown(d); err != nil {
			return err
		}
	}
	if c.after != nil {
		return nil
	}
	delete(s.owned, c.before.GetUID())
	for _, o := range c.before.GetOwnerReferences() {
		if owner, ok := s.uids[o.UID]; ok && len(s.owned[o.UID]) == 0 {
			if err := s.release(owner, metav1.FinalizerDeleteDependents); err != nil {
				return err
			}
		}
	}
	if n := c.before.namespace; n != "" && s.inNamespace[n] == 0 {
		if err := s.release(ref{s.namespaces, key{name: n}}, ""); err != nil {
			return err
		}
	}
	if c.objects.resource.custom != nil && len(c.objects.objects) == 0 {
		return s.release(ref{s.definitions, key{name: c.objects.resource.groupResource().String()}}, cleanupFinalizer)
	}
	return nil
}

// owns tells whether an object is there and keeps what it owns: not when it is being deleted in the foreground.
func (s *Server) owns(uid types.UID) bool {
	at, ok := s.uids[uid]
	if !ok {
		return false
	}
	o := at.objects.objects[at.key]
	return o.GetDeletionTimestamp() == nil || !slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// disown deletes an object whose owners are all gone, and else drops the references to those that are.
func (s *Server) disown(d ref) error {
	o := d.objects.objects[d.key]
	if o == nil {
		return nil
	}
	owners := o.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(owners), func(r metav1.OwnerReference) bool { return !s.owns(r.UID) })
	switch len(left) {
	case len(owners):
		return nil
	case 0:
		_, _, err := s.delete(d.objects, o, metav1.DeleteOptions{})
		return err
	}
	next := o.DeepCopy()
	next.SetOwnerReferences(left)
	_, err := s.put(d.objects, o, next.Object)
	return err
}

// orphan takes owner out of what it owns.
func (s *Server) orphan(owner *object) error {
	for _, d := range s.dependents(owner.GetUID()) {
		o := d.objects.objects[d.key]
		next := o.DeepCopy()
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }))
		if _, err := s.put(d.objects, o, next.Object); err != nil {
			return err
		}
	}
	return nil
}

// release takes a finalizer off an object being deleted, and takes the object away if nothing else holds it.
func (s *Server) release(d ref, finalizer string) error {
	o := d.objects.objects[d.key]
	if o == nil || o.GetDeletionTimestamp() == nil {
		return nil
	}
	left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer })
	if len(left) == 0 && !s.holds(d.objects.resource, o.Object) {
		_, err := s.remove(d.objects, o)
		return err
	}
	if len(left) == len(o.GetFinalizers()) {
		return nil
	}
	next := o.DeepCopy()
	next.SetFinalizers(left)
	_, err := s.put(d.objects, o, next.Object)
	return err
}

// holds tells whether a namespace or a definition has objects, which go before it.
func (s *Server) holds(r *resource, content map[string]any) bool {
	name := (&unstructured.Unstructured{Object: content}).GetName()
	switch r.GroupVersionKind.GroupKind().String() {
	case "Namespace":
		return s.inNamespace[name] > 0
	case "CustomResourceDefinition.apiextensions.k8s.io":
		c := s.custom[name]
		return c != nil && len(c.objects) > 0
	}
	return false
}

// namespace gives a new namespace its ServiceAccount and empties one being deleted.
func (s *Server) namespace(c change) error {
	switch {
	case c.after == nil:
	case c.before == nil:
		return s.add("serviceaccounts", c.after.name, "default", nil)
	case c.after.GetDeletionTimestamp() != nil:
		for _, objects := range s.collections() {
			for _, o := range objects.sorted(c.after.name) {
				if objects.resource.has(cluster) {
					break
				}
				if _, _, err := s.delete(objects, o, metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// accountToken fills in the token of a service account, which is the one that all have here.
func (s *Server) accountToken(c change) error {
	if c.after == nil || c.after.Object["type"] != "kubernetes.io/service-account-token" || s.kinds[c.objects.resource.groupResource()].objects[c.after.key] != c.after {
		return nil
	}
	account := key{c.after.namespace, c.after.GetAnnotations()["kubernetes.io/service-account.name"]}
	data, _ := c.after.Object["data"].(map[string]any)
	if s.kinds[schema.GroupResource{Resource: "serviceaccounts"}].objects[account] == nil || data["token"] != nil {
		return nil
	}
	next := c.after.DeepCopy()
	next.Object["data"] = map[string]any{
		"token": base64.StdEncoding.EncodeToString([]byte(s.Token())), "ca.crt": base64.StdEncoding.EncodeToString(s.authority),
		"namespace": base64.StdEncoding.EncodeToString([]byte(account.namespace)),
	}
	_, err := s.put(c.objects, c.after, next.Object)
	return err
}

// definition serves the kind of a CustomResourceDefinition, and removes the objects of one being deleted.
func (s *Server) definition(c change) error {
	if c.after == nil {
		s.serve(c.before.name, nil, nil)
		return nil
	}
	o := s.definitions.objects[c.after.key]
	if o == nil || o != c.after {
		return nil // a later change is in the queue
	}
	if o.GetDeletionTimestamp() != nil {
		objects := s.custom[o.name]
		if objects == nil {
			return nil
		}
		for _, cr := range objects.sorted("") {
			if _, _, err := s.delete(objects, cr, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
		return err
	}
	wanted := []condition{
		{"NamesAccepted", metav1.ConditionTrue, "NoConflicts", "no conflicts found"},
		{"Established", metav1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"},
	}
	objects, served, err := customResources(&crd, s.custom[o.name])
	if err == nil {
		s.serve(o.name, objects, served)
	} else {
		wanted = []condition{{"NonStructuralSchema", metav1.ConditionTrue, "Violations", err.Error()}}
	}
	old, _ := o.Object["status"].(map[string]any)
	conditions := s.conditions(old, "", wanted...)
	names, _, _ := unstructured.NestedMap(o.Object, "spec", "names")
	var stored []any
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			stored = append(stored, v.Name)
		}
	}
	return s.setStatus(s.definitions, o, map[string]any{"acceptedNames": names, "conditions": conditions, "storedVersions": stored}, nil)
}

// setStatus writes an object's status, and some annotations, as controllers do: by the status subresource.
func (s *Server) setStatus(c *collection, o *object, status map[string]any, annotations map[string]string) error {
	next := maps.Clone(o.Object)
	next["status"] = status
	u := &unstructured.Unstructured{Object: next}
	meta := maps.Clone(o.Object["metadata"].(map[string]any))
	next["metadata"] = meta
	if len(annotations) > 0 {
		all := u.GetAnnotations()
		if all == nil {
			all = make(map[string]string)
		}
		maps.Copy(all, annotations)
		u.SetAnnotations(all)
	}
	if reflect.DeepEqual(next, o.Object) {
		return nil
	}
	managed := c.resource.fields["status"].UpdateNoErrors(o.Unstructured, u, controllerManager)
	_, err := s.put(c, o, managed.(*unstructured.Unstructured).Object)
	return err
}

// failures looks at the workloads again when what fails has changed.
func (s *Server) failures(c change) error {
	for _, o := range []*object{c.before, c.after} {
		if o != nil && o.key == (key{metav1.NamespaceSystem, failConfigMap}) {
			for _, objects := range s.collections() {
				if g := objects.resource.Group; g != "apps" && g != "batch" {
					continue
				}
				for _, o := range objects.sorted("") {
					s.changes = append(s.changes, change{objects, o, o})
				}
			}
			return nil
		}
	}
	return nil
}

// fails tells whether a workload's pods are to fail.
func (s *Server) fails(o *object) bool {
	if v, _, _ := unstructured.NestedString(o.Object, "spec", "template", "metadata", "annotations", failAnnotation); v == "true" {
		return true
	}
	cm := s.configMaps.objects[key{metav1.NamespaceSystem, failConfigMap}]
	if cm == nil {
		return false
	}
	data, _, _ := unstructured.NestedStringMap(cm.Object, "data")
	for _, v := range data {
		if ns, name, _ := strings.Cut(v, "/"); v == "*" || ns == o.namespace && (name == "*" || name == o.name) {
			return true
		}
	}
	return false
}

// workload gives a workload the status it has once its pods run, or once they failed.
func (s *Server) workload(c change) error {
	if c.after == nil {
		return nil
	}
	o := c.objects.objects[c.after.key]
	if o == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	old, _ := o.Object["status"].(map[string]any)
	wanted, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !ok {
		wanted = 1 // a DaemonSet: there is one node
	}
	ready := wanted
	failing := s.fails(o)
	if failing {
		ready = 0
	}
	st := map[string]any{"observedGeneration": o.GetGeneration()}
	var annotations map[string]string
	switch kind := c.objects.resource.Kind; kind {
	case "Deployment":
		counts(st, map[string]int64{"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": ready, "availableReplicas": ready, "unavailableReplicas": wanted - ready})
		available := condition{"Available", metav1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability."}
		progressing := condition{"Progressing", metav1.ConditionTrue, "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet for %q has successfully progressed.", o.name)}
		if failing && wanted > 0 {
			available = condition{"Available", metav1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."}
			progressing = condition{"Progressing", metav1.ConditionTrue, "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet for %q is progressing.", o.name)}
		}
		st["conditions"] = s.conditions(old, "lastUpdateTime", available, progressing)
		annotations = map[string]string{revisionAnnotation: revision(c.before, o)}
	case "ReplicaSet":
		st["replicas"] = wanted
		counts(st, map[string]int64{"fullyLabeledReplicas": wanted, "readyReplicas": ready, "availableReplicas": ready})
	case "StatefulSet":
		st["replicas"], st["availableReplicas"] = wanted, ready
		counts(st, map[string]int64{"readyReplicas": ready, "currentReplicas": wanted, "updatedReplicas": wanted})
		st["collisionCount"] = int64(0)
		st["currentRevision"], st["updateRevision"] = o.name+"-"+hash(o), o.name+"-"+hash(o)
	case "DaemonSet":
		st["currentNumberScheduled"], st["desiredNumberScheduled"], st["numberMisscheduled"], st["numberReady"] = wanted, wanted, int64(0), ready
		counts(st, map[string]int64{"numberAvailable": ready, "numberUnavailable": wanted - ready, "updatedNumberScheduled": wanted})
	case "Job":
		if completion(old) {
			return nil
		}
		s.jobStatus(st, o, failing)
	}
	return s.setStatus(c.objects, o, st, annotations)
}

// completion tells whether a Job is over, which it stays.
func completion(status map[string]any) bool {
	_, started := status["startTime"]
	return started
}

func (s *Server) jobStatus(st map[string]any, o *object, failing bool) {
	delete(st, "observedGeneration")
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		st["conditions"] = s.conditions(nil, "lastProbeTime", condition{"Suspended", metav1.ConditionTrue, "JobSuspended", "Job suspended"})
		return
	}
	now := s.now().UTC().Format(time.RFC3339)
	wanted, ok, _ := unstructured.NestedInt64(o.Object, "spec", "completions")
	if !ok {
		wanted, _, _ = unstructured.NestedInt64(o.Object, "spec", "parallelism")
	}
	st["startTime"], st["ready"], st["terminating"], st["uncountedTerminatedPods"] = now, int64(0), int64(0), map[string]any{}
	if failing {
		limit, _, _ := unstructured.NestedInt64(o.Object, "spec", "backoffLimit")
		st["failed"] = limit + 1
		st["conditions"] = s.conditions(nil, "lastProbeTime",
			condition{"FailureTarget", metav1.ConditionTrue, "BackoffLimitExceeded", "Job has reached the specified backoff limit"},
			condition{"Failed", metav1.ConditionTrue, "BackoffLimitExceeded", "Job has reached the specified backoff limit"})
		return
	}
	counts(st, map[string]int64{"succeeded": wanted})
	st["completionTime"] = now
	st["conditions"] = s.conditions(nil, "lastProbeTime",
		condition{"SuccessCriteriaMet", metav1.ConditionTrue, "CompletionsReached", "Reached expected number of succeeded pods"},
		condition{"Complete", metav1.ConditionTrue, "CompletionsReached", "Reached expected number of succeeded pods"})
}

// counts sets the counts that are not zero: zero is left out, as the Go types of status do.
func counts(st map[string]any, values map[string]int64) {
	for k, v := range values {
		if v != 0 {
			st[k] = v
		}
	}
}

// revision counts how often the pod template of a Deployment changed.
func revision(before, o *object) string {
	n, _ := strconv.Atoi(o.GetAnnotations()[revisionAnnotation])
	if before != nil {
		if n == 0 { // a client's update left it out
			n, _ = strconv.Atoi(before.GetAnnotations()[revisionAnnotation])
		}
		was, _, _ := unstructured.NestedFieldNoCopy(before.Object, "spec", "template")
		is, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
		if !reflect.DeepEqual(was, is) {
			n++
		}
	}
	return strconv.Itoa(max(n, 1))
}

type condition struct {
	kind, status    any
	reason, message string
}

// conditions returns the conditions with the times of the old ones where the status did not change.
// stamp is the name of a second time, which some kinds have; it may be empty.
func (s *Server) conditions(old map[string]any, stamp string, wanted ...condition) []any {
	now := s.now().UTC().Format(time.RFC3339)
	before, _ := old["conditions"].([]any)
	var all []any
	for _, w := range wanted {
		c := map[string]any{"type": w.kind, "status": fmt.Sprint(w.status), "reason": w.reason, "message": w.message, "lastTransitionTime": now}
		for _, b := range before {
			if b, _ := b.(map[string]any); b["type"] == w.kind && b["status"] == c["status"] {
				c["lastTransitionTime"] = b["lastTransitionTime"]
			}
		}
		if stamp != "" {
			c[stamp] = c["lastTransitionTime"]
		}
		all = append(all, c)
	}
	return all
}

// hash names a version of a workload's pod template.
func hash(o *object) string {
	template, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	h := fnv.New32a()
	_ = json.NewEncoder(h).Encode(template) // it was encoded before, and a hash takes all
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}
