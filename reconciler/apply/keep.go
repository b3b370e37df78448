package apply

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// keeping is the work with what its kind keeps from the live object, by a rule for Retain.
//
// A field that the rule gives another value than the template has is the member's. Where it is not
// ours it is left out: an apply leaves alone what it does not send, and whoever set it stays its one
// owner. Where it is ours, leaving it out would take it away, so the member's value is sent. Names and
// marks are not for rules to change, and the status is never sent.
func (w Work) keeping(live api.Object) (Work, error) {
	if w.Rules == nil || live == nil {
		return w, nil
	}
	kept, err := w.Rules.Retain(w.Object, without(live, "metadata", "managedFields"))
	if err != nil {
		return w, fmt.Errorf("what the member's object keeps cannot be told: %w", err)
	}
	ours, others := claims(live)
	k := keeper{others: others}
	object := maps.Clone(w.Object)
	for name := range union(w.Object, kept) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			k.settle(object, name, w.Object[name], kept[name], ours.at("f:"+name))
		}
	}
	w.Object = object
	return w, nil
}

type keeper struct {
	others []holding
	path   Field
}

// settle puts into o[name] what is sent of a field.
func (k *keeper) settle(o map[string]any, name string, wanted, kept any, ours claim) {
	if reflect.DeepEqual(wanted, kept) {
		return
	}
	k.path = append(k.path, "f:"+name)
	defer func() { k.path = k.path[:len(k.path)-1] }()
	have, keeps := wanted.(map[string]any)
	want, gives := kept.(map[string]any)
	switch {
	case keeps && gives && !k.atomic():
		inner := maps.Clone(have)
		for field := range union(have, want) {
			k.settle(inner, field, have[field], want[field], ours.at("f:"+field))
		}
		if o[name] = inner; len(inner) == 0 {
			delete(o, name)
		}
	case kept == nil, !ours.here && ours.parts == nil:
		delete(o, name)
	case keyed(ours) && within(wanted, kept):
		// The server keeps the items of others in a list that has keys.
	default:
		o[name] = kept
	}
}

// atomic tells whether a map that others own is one value: a part of it that is sent would be all of it.
func (k *keeper) atomic() bool {
	return slices.ContainsFunc(k.others, func(h holding) bool { return h.under(k.path).whole })
}

// keyed tells whether a list is known to have keys, or to be a set.
func keyed(ours claim) bool {
	for element := range ours.parts {
		if strings.HasPrefix(element, "k:") || strings.HasPrefix(element, "v:") {
			return true
		}
	}
	return false
}

// within tells whether kept has every item of the list wanted.
func within(wanted, kept any) bool {
	list, _ := wanted.([]any)
	all, _ := kept.([]any)
	for _, item := range list {
		found := false
		for _, other := range all {
			found = found || reflect.DeepEqual(item, other)
		}
		if !found {
			return false
		}
	}
	return len(list) > 0
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

// unkept is how an order ends whose rule gives no answer: nothing is written, as that could take from
// the member what the rule is there to keep.
func unkept(live api.Object, known *Known, err error) Outcome {
	return Outcome{Change: Skipped, Live: Observed(live), Known: known, Reason: decide.ReasonFailed, Message: err.Error()}
}
