package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// deliverer is how messages call who applies works in our place.
const deliverer = "whoever applies works/ of the state branch"

// Await looks whether others made the object be as the work says. It writes nothing.
func (a *Applier) Await(ctx context.Context, client dynamic.ResourceInterface, w Work) Outcome {
	live, err := look(ctx, client, w.ID.Name)
	if err != nil {
		return failed(w.ID, nil, nil, err)
	}
	return Delivered(w, live, a.Fleet)
}

// Delivered tells from a live object, with its managedFields, whether others made it be as the work says: it
// has the version of the work, and nobody else changed what the work has. Where the value of a field that
// they own is another, that is the server's way of writing it.
func Delivered(w Work, live api.Object, fleet string) Outcome {
	out := Outcome{Change: Unchanged, Live: Observed(live)}
	missing := func(format string, args ...any) Outcome {
		out.Change, out.Reason, out.Message = Skipped, decide.ReasonNotDelivered, fmt.Sprintf(format, args...)
		return out
	}
	switch {
	case live == nil:
		return missing("is not there; it is for %s to make it", deliverer)
	case meta(live, "deletionTimestamp") != "":
		return missing("is being deleted on the member%s", finalizers(live))
	case !work.Owned(live, fleet):
		return missing("is there without the marks of the work, and is for %s to take over: %s", deliverer, managers(live))
	}
	kept, err := w.keeping(live)
	if err != nil {
		return unkept(live, nil, err)
	}
	differences := changedByOthers(visible(sent(kept, true)), live)
	switch version := work.VersionOf(live); {
	case version != work.VersionOf(w.Object) && version == "":
		return missing("was not applied from the state branch yet; it is for %s", deliverer)
	case version != work.VersionOf(w.Object):
		return missing("has an earlier version, %s; %s is for %s", version, work.VersionOf(w.Object), deliverer)
	case len(differences) > 0:
		return missing("was changed since it was applied: %s", changes(differences))
	}
	return out
}

// visible is what can be compared of a work: the values of a Secret are encrypted there.
func visible(o api.Object) api.Object {
	if o["kind"] != "Secret" || o["apiVersion"] != "v1" {
		return o
	}
	o = maps.Clone(o)
	for _, field := range []string{"data", "stringData", "sops"} {
		delete(o, field)
	}
	return o
}

// changedByOthers are the differences that those who applied the object do not hold themselves. That a value is
// empty and left out is the server's way, which nobody holds.
func changedByOthers(wanted, live api.Object) []Difference {
	version := Field{"f:metadata", "f:annotations", "f:" + work.AnnotationVersion}
	_, others := claims(live)
	return slices.DeleteFunc(Compare(wanted, live), func(d Difference) bool {
		value, _ := d.Field.of(wanted)
		if d.Kind != Changed || isTracking(d.Field) || d.Live == "" && empty(value) {
			return true
		}
		return slices.ContainsFunc(others, func(o holding) bool {
			return o.under(version).here && slices.ContainsFunc(d.Holders, func(h Holder) bool { return h.Manager == o.Manager })
		})
	})
}

// isTracking holds for labels and annotations of the delivery itself.
func isTracking(f Field) bool {
	return len(f) == 3 && f[0] == "f:metadata" && len(f[2]) > 2 && work.IsTracking(f[2][2:])
}

// changes names the fields that differ, and who holds them as far as anybody does.
func changes(differences []Difference) string {
	var free []string
	for _, d := range differences {
		if len(d.Holders) == 0 {
			free = append(free, d.Field.String())
		}
	}
	text := holders(differences)
	if len(free) > 0 {
		if text != "" {
			text += "; "
		}
		more := ""
		if n := len(free) - shownFields; n > 0 {
			free, more = free[:shownFields], fmt.Sprintf(" and %d more", n)
		}
		text += fmt.Sprintf("nobody owns %s%s", strings.Join(free, ", "), more)
	}
	return text
}

// AwaitGone looks whether others took away what a retired work left. It writes nothing.
func (a *Applier) AwaitGone(ctx context.Context, client dynamic.ResourceInterface, r Retired) Outcome {
	live, err := look(ctx, client, r.ID.Name)
	out := Outcome{Change: Unchanged, Live: Observed(live)}
	switch {
	case err != nil:
		return failed(r.ID, nil, nil, err)
	case live == nil, !work.Owned(live, a.Fleet), r.Preserve, work.StaysBehind(live):
		out.Gone = true // what stays, stays on purpose
	case meta(live, "deletionTimestamp") != "":
		out.Waiting, out.Message = true, "is being deleted"+finalizers(live)
	default:
		out.Waiting, out.Message = true, "is for "+deliverer+" to delete"
	}
	return out
}
