package member

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/work"
)

// asAccount is a work to be written as a service account.
func asAccount(t testing.TB, name, value, account string) Work {
	t.Helper()
	w := configMap(t, name, value)
	w.Object["metadata"].(map[string]any)["annotations"].(map[string]any)[work.AnnotationAccount] = account
	w.Hash += account
	return w
}

// writers notes who writes what on a member, and refuses those who may not.
type writers struct {
	mu     sync.Mutex
	seen   map[string]bool
	mayNot string
}

func (w *writers) intercept(r *http.Request) *metav1.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	user, name := r.Header.Get("Impersonate-User"), r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if user != "" || r.Method != http.MethodGet {
		w.seen[strings.TrimSpace(r.Method+" "+name+" "+user)] = true
	}
	if user != "" && user == w.mayNot {
		return &apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, fmt.Errorf("User %q cannot patch it", user)).ErrStatus
	}
	return nil
}

func (w *writers) refuse(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mayNot = user
}

func (w *writers) did(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[what]
}

// Objects of a project with a service account are written and deleted as that one, others as ourselves, and nothing is
// read as anybody else.
func TestObjectsAreWrittenAsTheirAccount(t *testing.T) {
	const shop, pay = "system:serviceaccount:shop:deployer", "system:serviceaccount:pay:d"
	w := newWorld(t, "m1")
	seen := &writers{seen: map[string]bool{}}
	w.servers["m1"].Intercept(seen.intercept)
	a, b, c := asAccount(t, "a", "1", "shop/deployer"), asAccount(t, "b", "1", "pay/d"), configMap(t, "c", "1")
	w.want("m1", a, b, c)
	w.applied("m1")
	for _, what := range []string{"PATCH a " + shop, "PATCH b " + pay, "PATCH c"} {
		if !seen.did(what) {
			t.Errorf("not seen: %s, but %v", what, seen.seen)
		}
	}
	// Drift is put back the same way.
	w.edit("m1", a.ID, `{"data":{"k":"by hand"}}`)
	w.applied("m1")

	// Who may not delete does not, and nobody does it instead. The one who was named is told of.
	seen.refuse(shop)
	d := w.desired["m1"]
	d.Works = map[api.ID]Work{c.ID.Unversioned(): c}
	d.Retired = map[api.ID]Retired{a.ID.Unversioned(): {ID: a.ID.Unversioned(), Account: "shop/deployer"}, b.ID.Unversioned(): {ID: b.ID.Unversioned(), Account: "pay/d"}}
	w.desired = map[string]Desired{"m1": d}
	w.fleet.Set(w.desired)
	facts := w.reason("m1", a.ID, decide.ReasonForbidden)
	if !strings.Contains(facts.Message, "cannot patch it; the object's project is written as service account shop/deployer: on this member that account needs the right, and godwit's own to impersonate it") {
		t.Errorf("message %q", facts.Message)
	}
	w.eventually("b is gone", func(o decide.Observations) bool { return o.Members["m1"].Copies[b.ID.Unversioned()].Gone })
	if _, err := w.get("m1", a.ID); err != nil {
		t.Errorf("a was deleted all the same: %v", err)
	}
	seen.refuse("")
	w.eventually("a is gone", func(o decide.Observations) bool { return o.Members["m1"].Copies[a.ID.Unversioned()].Gone })
	for what := range seen.seen {
		method, rest, _ := strings.Cut(what, " ")
		name, user, _ := strings.Cut(rest, " ")
		want := map[string]string{"a": shop, "b": pay, "c": ""}[name]
		if method == http.MethodGet || user != want && !(name == "a" && user == "" && method == http.MethodPatch) { // the hand that edited a
			t.Errorf("seen: %s", what)
		}
	}
}

// An account that is none is not replaced by ourselves.
func TestAnAccountThatIsNoneWritesNothing(t *testing.T) {
	w := newWorld(t, "m1")
	for i, account := range []string{"deployer", "a/b/c", "a/b\r\nX: y", "/"} {
		o := asAccount(t, fmt.Sprintf("o%d", i), "1", account)
		w.want("m1", o)
		if facts := w.reason("m1", o.ID, decide.ReasonForbidden); !strings.Contains(facts.Message, "is no service account; write namespace/name") {
			t.Errorf("%q: %s", account, facts.Message)
		}
		if _, err := w.get("m1", o.ID); !apierrors.IsNotFound(err) {
			t.Errorf("%q: it was written, %v", account, err)
		}
	}
}
