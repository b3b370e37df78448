package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/work"
)

// Retired is one object that a member should lose.
type Retired struct {
	ID api.ID
	// Preserve takes our marks and our ownership off and leaves the object.
	Preserve bool
	// Since is when that was decided, in Unix seconds. It tells one order from the next for the same object.
	Since int64
	// Account is who deletes it, as namespace/name of a service account; empty means we do.
	Account string
}

// LegacyManagers are the field managers whose fields become ours on adoption, unless others are configured.
var LegacyManagers = []string{"kubectl-client-side-apply", "before-first-apply", "karmada-controller-manager", "karmada-agent"}

// Change is what was done.
type Change string

const (
	Unchanged Change = "unchanged"
	Created   Change = "created"
	Updated   Change = "configured"
	Adopted   Change = "adopted"
	Recreated Change = "recreated"
	Deleted   Change = "deleted"
	// Released: our marks and ownership were taken off, the object stays.
	Released Change = "released"
	// Skipped: nothing was done; Reason says why, or Waiting.
	Skipped Change = "skipped"
)

// Outcome is how a call ended.
type Outcome struct {
	Change Change
	// Live is the object as last seen, without managedFields; nil if it is not there.
	Live api.Object
	// Known is to be handed to the next call for the same object.
	Known *Known
	// Gone: nothing of ours is left.
	Gone bool
	// Waiting: it goes on by itself; look again.
	Waiting bool
	// Reason and Message describe a failure in the words of CopyFacts; Err is the error behind it,
	// nil if the decision was ours.
	Reason, Message string
	Err             error
}

// Applier carries out works on one member.
type Applier struct {
	// Fleet is the name in our marks.
	Fleet string
	// Migrate are the managers whose fields become ours on adoption.
	Migrate []string
}

// attempts is how often a decision is made anew because the object changed in between.
const attempts = 4

// Apply makes the object behind client be as the work says. Every request has the deadline of ctx.
func (a *Applier) Apply(ctx context.Context, client dynamic.ResourceInterface, w Work, known *Known) Outcome {
	var out Outcome
	recreated := false
	for range attempts {
		live, err := look(ctx, client, w.ID.Name)
		if err != nil {
			return failed(w.ID, nil, known, err)
		}
		kept, err := w.keeping(live)
		if err != nil {
			return unkept(live, known, err)
		}
		plan := Decide(kept, live, known, a.Fleet)
		out, err = a.carryOut(ctx, client, kept, plan, live, known)
		switch {
		case err == nil:
			if recreated && out.Change == Created {
				out.Change = Recreated
			}
			return out
		case stale(err): // it changed between look and write: look again
			out = failed(w.ID, live, known, err)
		case plan.Act == Update && !recreated && Immutable(err) && annotation(w.Object, AnnotationRecreate) == "allowed":
			if err := remove(ctx, client, live); err != nil {
				return failed(w.ID, live, known, err)
			}
			recreated = true
		default:
			return failed(w.ID, live, known, err)
		}
	}
	return out
}

// carryOut does what the plan says.
func (a *Applier) carryOut(ctx context.Context, client dynamic.ResourceInterface, w Work, plan Plan, live api.Object, known *Known) (Outcome, error) {
	switch plan.Act {
	case Leave:
		return Outcome{Change: Unchanged, Live: Observed(live), Known: known.leave(w, live)}, nil
	case Refuse, Wait:
		return Outcome{Change: Skipped, Live: Observed(live), Known: known, Waiting: plan.Act == Wait, Reason: plan.Reason, Message: plan.Message}, nil
	case Adopt:
		w, result, err := a.adopt(ctx, client, w, live)
		return applied(Adopted, w, result), err
	case Create:
		result, err := send(ctx, client, plan.Object, metav1.ApplyOptions{})
		return applied(Created, w, result), err
	}
	if known == nil && a.settled(ctx, client, w, plan) {
		return applied(Unchanged, w, live), nil
	}
	if plan.HandOver {
		next, err := handOver(ctx, client, live)
		if err != nil {
			return Outcome{}, err
		}
		plan.Object = guarded(plan.Object, next)
	}
	result, err := send(ctx, client, plan.Object, metav1.ApplyOptions{Force: plan.Force})
	out := applied(Updated, w, result)
	if err == nil {
		out.Known = out.Known.taking(plan.Differences, known)
	}
	return out, err
}

// settled tells whether an apply would change nothing, as the differences are the server's way of
// writing. Only the first look after a start asks; if there is no answer, the apply itself gives it.
func (a *Applier) settled(ctx context.Context, client dynamic.ResourceInterface, w Work, plan Plan) bool {
	result, err := send(ctx, client, plan.Object, metav1.ApplyOptions{Force: plan.Force, DryRun: []string{metav1.DryRunAll}})
	return err == nil && len(unsettled(plan.Differences, w, remember(w, result))) == 0
}

// adopt makes an object ours that somebody else made. An object that had no managers gets
// "before-first-apply" with our first apply, so there may be a second round.
func (a *Applier) adopt(ctx context.Context, client dynamic.ResourceInterface, w Work, live api.Object) (kept Work, result api.Object, err error) {
	for round := 0; ; round++ {
		next, err := a.migrate(ctx, client, live)
		if err == nil && handsOver(w, next) {
			next, err = handOver(ctx, client, next)
		}
		if err == nil {
			kept, err = w.keeping(next) // what was others' may be ours by now
		}
		if err != nil {
			return w, nil, err
		}
		live, err = send(ctx, client, guarded(sent(kept, true), next), metav1.ApplyOptions{Force: true})
		if err != nil || round > 0 || !a.legacy(live) {
			return kept, live, err
		}
	}
}

// legacy tells whether one of the managers to migrate owns a part of the object.
func (a *Applier) legacy(live api.Object) bool {
	for _, entry := range (&unstructured.Unstructured{Object: live}).GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == "" && slices.Contains(a.Migrate, entry.Manager) {
			return true
		}
	}
	return false
}

// migrate makes what the old managers own ours.
func (a *Applier) migrate(ctx context.Context, client dynamic.ResourceInterface, live api.Object) (api.Object, error) {
	if !a.legacy(live) {
		return live, nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(&unstructured.Unstructured{Object: live}, sets.New(a.Migrate...), Manager)
	if err != nil {
		return nil, fmt.Errorf("take over the fields of earlier managers: %w", err)
	}
	if patch == nil {
		return live, nil
	}
	return patched(client.Patch(ctx, meta(live, "name"), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: Manager}))
}

// handOver lets the helper hold the replica count that is there, so that it stays when we let go.
func handOver(ctx context.Context, client dynamic.ResourceInterface, live api.Object) (api.Object, error) {
	spec, _ := live["spec"].(map[string]any)
	result, err := client.Apply(ctx, meta(live, "name"), &unstructured.Unstructured{Object: api.Object{
		"apiVersion": live["apiVersion"],
		"kind":       live["kind"],
		"metadata":   map[string]any{"name": meta(live, "name"), "resourceVersion": meta(live, "resourceVersion")},
		"spec":       map[string]any{"replicas": spec["replicas"]},
	}}, metav1.ApplyOptions{FieldManager: handover, Force: true})
	return patched(result, err)
}

// Delete takes away what a retired work left on the member, or our marks on it. What is not ours is
// left alone, and nothing of ours is there then.
func (a *Applier) Delete(ctx context.Context, client dynamic.ResourceInterface, r Retired) Outcome {
	change := Unchanged
	for range attempts {
		live, err := look(ctx, client, r.ID.Name)
		if err != nil {
			return failed(r.ID, nil, nil, err)
		}
		switch {
		case live == nil, !work.Owned(live, a.Fleet):
			return Outcome{Change: change, Live: Observed(live), Gone: true}
		case r.Preserve || work.StaysBehind(live):
			_, err = release(ctx, client, live)
			change = Released
		case meta(live, "deletionTimestamp") != "":
			return Outcome{Change: change, Live: Observed(live), Waiting: true, Message: "is being deleted" + finalizers(live)}
		default:
			err = remove(ctx, client, live)
			change = Deleted
		}
		if err != nil && !stale(err) {
			return failed(r.ID, live, nil, err)
		}
	}
	return Outcome{Change: change, Waiting: true, Message: "changes while it is being deleted"}
}

// release takes our marks and our ownership off.
func release(ctx context.Context, client dynamic.ResourceInterface, live api.Object) (api.Object, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	patch := []operation{{"replace", "/metadata/resourceVersion", meta(live, "resourceVersion")}}
	for _, m := range []struct{ field, name string }{
		{"labels", work.LabelManaged},
		{"annotations", work.AnnotationFleet},
		{"annotations", work.AnnotationBinding},
		{"annotations", work.AnnotationAccount},
	} {
		if mark(live, m.field, m.name) != "" {
			patch = append(patch, operation{Op: "remove", Path: "/metadata/" + m.field + "/" + strings.ReplaceAll(m.name, "/", "~1")})
		}
	}
	metadata, _ := live["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	remaining := slices.DeleteFunc(slices.Clone(entries), func(e any) bool {
		entry, _ := e.(map[string]any)
		return entry["manager"] == Manager || entry["manager"] == handover
	})
	if len(remaining) == 0 {
		remaining = []any{map[string]any{}} // the API's word for: nobody owns anything
	}
	patch = append(patch, operation{"replace", "/metadata/managedFields", remaining})
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return patched(client.Patch(ctx, meta(live, "name"), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: Manager}))
}

// remove deletes the object that was looked at, and what it owns in the background.
func remove(ctx context.Context, client dynamic.ResourceInterface, live api.Object) error {
	uid, background := types.UID(meta(live, "uid")), metav1.DeletePropagationBackground
	err := client.Delete(ctx, meta(live, "name"), metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions:     &metav1.Preconditions{UID: &uid},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// look reads the object; nil means it is not there.
func look(ctx context.Context, client dynamic.ResourceInterface, name string) (api.Object, error) {
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !noKind(err) {
		return nil, nil
	}
	return patched(live, err)
}

func send(ctx context.Context, client dynamic.ResourceInterface, o api.Object, options metav1.ApplyOptions) (api.Object, error) {
	options.FieldManager = Manager
	u := &unstructured.Unstructured{Object: o}
	return patched(client.Apply(ctx, u.GetName(), u, options))
}

func patched(u *unstructured.Unstructured, err error) (api.Object, error) {
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

func applied(change Change, w Work, result api.Object) Outcome {
	if result == nil {
		return Outcome{}
	}
	return Outcome{Change: change, Live: Observed(result), Known: remember(w, result)}
}

func failed(id api.ID, live api.Object, known *Known, err error) Outcome {
	reason := Reason(err) // by its words, too
	err = Discreet(id, err)
	return Outcome{Change: Skipped, Live: Observed(live), Known: known, Reason: reason, Message: err.Error(), Err: err}
}

// observed are the fields that are kept of a live Secret: those that hold no values.
var observed = []string{"apiVersion", "kind", "metadata", "type", "immutable"}

// Observed is what is kept of a live object: all but managedFields, which only a decision about
// ownership needs, and the values of a Secret, which nobody needs, wherever they are.
func Observed(live api.Object) api.Object {
	if live == nil {
		return nil
	}
	if work.IsSecret(api.IDOf(live)) {
		live = maps.Clone(live)
		maps.DeleteFunc(live, func(field string, _ any) bool { return !slices.Contains(observed, field) })
		if metadata, ok := live["metadata"].(map[string]any); ok {
			live["metadata"] = without(metadata, "annotations", corev1.LastAppliedConfigAnnotation)
		}
	}
	return without(live, "metadata", "managedFields")
}
