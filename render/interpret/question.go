package interpret

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	workv1alpha2 "github.com/godwit-gitops/godwit/api/work/v1alpha2"
)

// Key names a question by all that its answer depends on: the webhook, the operation and the input.
type Key [sha256.Size]byte

// Question is what a webhook is asked. It is never changed.
type Question struct {
	Key       Key
	Webhook   *Webhook
	Operation Operation
	// ID is that of the object which the question is about.
	ID api.ID

	request configv1alpha1.ResourceInterpreterRequest
	object  api.Object
}

// String is "InterpretReplica of Foo default/a".
func (q *Question) String() string { return fmt.Sprintf("%s of %s", q.Operation, q.ID) }

// Compare orders by webhook, object and operation.
func (q *Question) Compare(other *Question) int {
	return cmp.Or(cmp.Compare(q.Webhook.String(), other.Webhook.String()), q.ID.Compare(other.ID), cmp.Compare(q.Operation, other.Operation),
		strings.Compare(string(q.Key[:]), string(other.Key[:])))
}

// uid is the question's key in the form of a UID: the same question has the same one.
func (q *Question) uid() types.UID {
	k := q.Key
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", k[:4], k[4:6], k[6:8], k[8:10], k[10:16]))
}

// Body is the question on the wire, a ResourceInterpreterContext in JSON.
func (q *Question) Body() ([]byte, error) {
	request := q.request
	request.UID = q.uid()
	return json.Marshal(configv1alpha1.ResourceInterpreterContext{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.APIVersion, Kind: configv1alpha1.KindResourceInterpreterContext}, Request: &request,
	})
}

// Answer is what a webhook said, or why it said nothing. It is never changed.
type Answer struct {
	// Failure says why there is no answer; empty means that there is one.
	Failure string
	// Attempts that failed, one after the other; 0 with an answer.
	Attempts int
	// RetryAt is when to ask again after a failure.
	RetryAt time.Time
	// Size is about what it takes in memory, in bytes.
	Size int

	replicas     Replicas
	patch        []patchStep
	status       api.Object
	healthy      bool
	dependencies []Reference
}

// Waiting times after a failure: doubled from the first to the longest.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
)

// Failed is the answer after an attempt at now that gave none; last is the answer before it, nil if
// there was none.
func Failed(reason string, last *Answer, now time.Time) *Answer {
	reason = shown(reason)
	a := &Answer{Failure: reason, Attempts: 1, Size: answerSize + len(reason)}
	if last != nil {
		a.Attempts = last.Attempts + 1
	}
	wait := longestRetry
	if shift := a.Attempts - 1; shift < 16 {
		wait = min(firstRetry<<shift, longestRetry)
	}
	// In full seconds, of which alone decisions take notice.
	if a.RetryAt = now.Add(wait).Truncate(time.Second); a.RetryAt.Before(now.Add(wait)) {
		a.RetryAt = a.RetryAt.Add(time.Second)
	}
	return a
}

// answerSize is about what an Answer takes without its content.
const answerSize = 256

// shown is a text of a stranger as it may be shown: of one line, and not long.
func shown(s string) string { return oneLine(s, 500) }

func oneLine(s string, longest int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}

// UnansweredError says that a question has no answer now. Callers find it with errors.As.
type UnansweredError struct {
	*Question
	// Failed is the last attempt; nil if the question was not asked yet.
	Failed *Answer
}

func (e *UnansweredError) Error() string {
	if e.Failed == nil {
		return fmt.Sprintf("waits for the answer of webhook %s", e.Webhook)
	}
	return fmt.Sprintf("webhook %s: %s", e.Webhook, e.Failed.Failure)
}

// ask finds the answer to a question. The request has what its operation needs besides the object.
func (i *Interpreter) ask(w *Webhook, op Operation, o api.Object, request configv1alpha1.ResourceInterpreterRequest) (*Answer, error) {
	q, err := newQuestion(w, op, o, request)
	if err != nil {
		return nil, err
	}
	a := i.answers.Answer(q.Key)
	if a == nil || a.Failure != "" {
		return nil, &UnansweredError{q, a}
	}
	return a, nil
}

func (i *Interpreter) askReplicas(w *Webhook, op Operation, o api.Object) (Replicas, error) {
	a, err := i.ask(w, op, o, configv1alpha1.ResourceInterpreterRequest{})
	if err != nil {
		return Replicas{}, err
	}
	return a.replicas, nil
}

// askPatched is o as the webhook patches it.
func (i *Interpreter) askPatched(w *Webhook, op Operation, o api.Object, request configv1alpha1.ResourceInterpreterRequest) (api.Object, error) {
	a, err := i.ask(w, op, o, request)
	if err != nil {
		return nil, err
	}
	return apply(a.patch, o)
}

// askStatus takes the status of the patched template and leaves the rest as it is.
func (i *Interpreter) askStatus(w *Webhook, template api.Object, items []StatusItem) (api.Object, error) {
	wire, err := wireItems(items)
	if err != nil {
		return nil, err
	}
	patched, err := i.askPatched(w, AggregateStatus, template, configv1alpha1.ResourceInterpreterRequest{AggregatedStatus: wire})
	if err != nil || patched["status"] == nil {
		return template, err
	}
	return with(template, patched["status"], "status"), nil
}

func newQuestion(w *Webhook, op Operation, o api.Object, request configv1alpha1.ResourceInterpreterRequest) (*Question, error) {
	q := &Question{Webhook: w, Operation: op, ID: api.IDOf(o), object: o}
	request.Kind = metav1.GroupVersionKind{Group: q.ID.Group, Version: q.ID.Version, Kind: q.ID.Kind}
	request.Name, request.Namespace, request.Operation = q.ID.Name, q.ID.Namespace, string(op)
	var err error
	if request.Object, err = rawObject(o); err != nil {
		return nil, err
	}
	q.request = request
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(w.identity[:])
	sum.Write(text)
	sum.Sum(q.Key[:0])
	return q, nil
}

// rawObject is the object as it is sent: without what changes with every write and says nothing of the
// object's state, so that one question is asked once.
func rawObject(o api.Object) (runtime.RawExtension, error) {
	if meta := object(o["metadata"]); meta["managedFields"] != nil || meta["resourceVersion"] != nil {
		meta = maps.Clone(meta)
		delete(meta, "managedFields")
		delete(meta, "resourceVersion")
		o = with(o, meta, "metadata")
	}
	text, err := json.Marshal(o)
	return runtime.RawExtension{Raw: text}, err
}

// wireItems are the items on the wire.
func wireItems(items []StatusItem) ([]workv1alpha2.AggregatedStatusItem, error) {
	out := make([]workv1alpha2.AggregatedStatusItem, len(items))
	for i, item := range items {
		out[i] = workv1alpha2.AggregatedStatusItem{ClusterName: item.Cluster, Applied: item.Applied, AppliedMessage: item.AppliedMessage, Health: item.Health}
		if item.Status != nil {
			text, err := json.Marshal(item.Status)
			if err != nil {
				return nil, err
			}
			out[i].Status = &runtime.RawExtension{Raw: text}
		}
	}
	return out, nil
}

// Decode reads what the webhook sent back. Whatever it is, there is an answer that can be used, or an
// error that says what is wrong with it.
func (q *Question) Decode(body []byte) (*Answer, error) {
	var v map[string]any
	if err := utiljson.Unmarshal(body, &v); err != nil {
		return nil, errors.New("the answer is no JSON object")
	}
	if got := text(v["apiVersion"]) + " " + text(v["kind"]); got != configv1alpha1.APIVersion+" "+configv1alpha1.KindResourceInterpreterContext {
		return nil, fmt.Errorf("the answer is a %q, it must be a %s %s", shown(got), configv1alpha1.APIVersion, configv1alpha1.KindResourceInterpreterContext)
	}
	response, ok := v["response"].(map[string]any)
	if !ok {
		return nil, errors.New("the answer has no response")
	}
	if uid := q.uid(); response["uid"] != string(uid) {
		return nil, fmt.Errorf("the answer is to another question: its uid is %q, that of the question %q", shown(text(response["uid"])), uid)
	}
	if response["successful"] != true {
		status := object(response["status"])
		return nil, fmt.Errorf("the webhook says that it did not succeed: %s (code %d)", cmp.Or(shown(text(status["message"])), "no message"), number(status["code"]))
	}
	a := &Answer{Size: answerSize}
	for _, d := range decoders {
		if d.operation != q.Operation {
			continue
		}
		if err := d.decode(q, a, response); err != nil {
			return nil, err
		}
	}
	if a.patch != nil || a.status != nil || a.dependencies != nil || a.replicas.Requirements != nil || a.replicas.Components != nil {
		a.Size += 4 * len(body) // maps and lists take more room than their text
	}
	return a, nil
}

// decoders read the part of the response that counts for an operation.
var decoders = []struct {
	operation Operation
	decode    func(*Question, *Answer, map[string]any) error
}{
	{InterpretReplica, func(_ *Question, a *Answer, response map[string]any) error {
		n, ok, err := count(response, "replicas")
		switch {
		case err != nil:
			return err
		case !ok:
			return missing("replicas")
		}
		a.replicas = Replicas{Workload: true, Count: n}
		a.replicas.Requirements, err = wellFormed[*workv1alpha2.ReplicaRequirements](response, "replicaRequirements")
		return err
	}},
	{InterpretComponent, func(_ *Question, a *Answer, response map[string]any) error {
		components, err := wellFormed[[]workv1alpha2.Component](response, "components")
		if err != nil {
			return err
		}
		a.replicas = Replicas{Workload: true, Components: components}
		return checkComponents(components)
	}},
	{ReviseReplica, decodePatch},
	{Retain, decodePatch},
	{AggregateStatus, decodePatch},
	{InterpretStatus, func(_ *Question, a *Answer, response map[string]any) error {
		status, ok := response["rawStatus"].(map[string]any)
		if !ok {
			return missing("rawStatus, an object,")
		}
		a.status = status
		return nil
	}},
	{InterpretHealth, func(_ *Question, a *Answer, response map[string]any) error {
		healthy, ok := response["healthy"].(bool)
		if !ok {
			return missing("healthy, true or false,")
		}
		a.healthy = healthy
		return nil
	}},
	{InterpretDependency, func(_ *Question, a *Answer, response map[string]any) (err error) {
		if a.dependencies, err = wellFormed[[]Reference](response, "dependencies"); err != nil {
			return err
		}
		for _, ref := range a.dependencies {
			if err := ref.validate(); err != nil {
				return fmt.Errorf("response.dependencies: %w", err)
			}
		}
		return nil
	}},
}

func missing(what string) error { return fmt.Errorf("the answer has no response.%s", what) }

// wellFormed reads a field of the response into a type of ours; one that is not there is the type's
// zero value, since servers leave out what is empty.
func wellFormed[T any](response map[string]any, field string) (out T, err error) {
	value := response[field]
	if value == nil {
		return out, nil
	}
	if err := checkRequests([]any{value}); err != nil {
		return out, fmt.Errorf("response.%s: %w", field, err)
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		var zero T
		return zero, fmt.Errorf("response.%s is not well formed: %s", field, shown(err.Error()))
	}
	return out, nil
}

// decodePatch reads the patch and tries it, so that it can be relied on.
func decodePatch(q *Question, a *Answer, response map[string]any) error {
	if response["patch"] == nil {
		return nil
	}
	if got := text(response["patchType"]); got != configv1alpha1.PatchTypeJSONPatch {
		return fmt.Errorf("response.patchType is %q, it must be %s", shown(got), configv1alpha1.PatchTypeJSONPatch)
	}
	var err error
	if a.patch, err = parsePatch(response["patch"]); err != nil {
		return fmt.Errorf("response.patch: %w", err)
	}
	patched, err := apply(a.patch, q.object)
	if err != nil {
		return fmt.Errorf("response.patch: %w", err)
	}
	if id := api.IDOf(patched); id != q.ID {
		return fmt.Errorf("response.patch turns %s %s into %s %s: a webhook may not change apiVersion, kind, namespace or name", q.ID.APIVersion(), q.ID, id.APIVersion(), id)
	}
	return nil
}

// Recorded is what a binding says of the replicas that its template had.
func Recorded(spec *workv1alpha2.ResourceBindingSpec) Replicas {
	return Replicas{Workload: true, Count: spec.Replicas, Requirements: spec.ReplicaRequirements, Components: spec.Components}
}
