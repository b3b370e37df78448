package member

import (
	"testing"
	"time"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/apply"
	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// An attempt that found an object as it was before it was seen as wanted says nothing: nobody would look at it again.
func TestAnAttemptThatWasOvertakenSaysNothing(t *testing.T) {
	w := newWorld(t)
	settings := configMap(t, "settings", "1")
	live := func(version string) api.Object {
		return api.Object{"metadata": map[string]any{"uid": "u", "resourceVersion": version}}
	}
	failed := apply.Outcome{Change: apply.Skipped, Reason: decide.ReasonNotDelivered, Message: "was changed", Live: live("5")}
	for _, c := range []struct {
		seen   string
		reason string
	}{{"6", ""}, {"4", decide.ReasonNotDelivered}} {
		m := newMember(w.fleet, "kube02")
		id := settings.ID.Unversioned()
		order := settings
		m.order(id, &order, nil, time.Now())
		began := *m.copies[id]
		o := m.copies[id]
		o.clean, o.facts = true, decide.CopyFacts{Applied: settings.Hash, Live: live(c.seen)}
		m.mu.Lock()
		m.take(id, o, began, failed)
		m.mu.Unlock()
		if o.facts.Reason != c.reason || o.clean != (c.reason == "") {
			t.Errorf("seen at %s: it says %q, clean is %t", c.seen, o.facts.Reason, o.clean)
		}
	}
}
