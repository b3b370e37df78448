package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/godwit-gitops/godwit/api"
	configv1alpha1 "github.com/godwit-gitops/godwit/api/config/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/render/interpret"
)

const (
	password = "correct-horse"
	secret   = `{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: web, namespace: default, ` + marks + `}, stringData: {a: ` + password + `}}`
)

// TestServersAreNotQuotedAboutSecrets: what is told is what kind of error it is and where, in words of a known list.
func TestServersAreNotQuotedAboutSecrets(t *testing.T) {
	id := api.ID{Version: "v1", Kind: "Secret", Namespace: "default", Name: "web"}
	kind := schema.GroupKind{Kind: "Secret"}
	quoting := func(path *field.Path) error {
		return apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(path, password, password+": field is immutable")})
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a field", quoting(field.NewPath("type")), "Invalid (422): type FieldValueInvalid" + notShown},
		{"a key", quoting(field.NewPath("data").Key(password)), "Invalid (422): data FieldValueInvalid" + notShown},
		{"a label", quoting(field.NewPath("metadata", "labels").Key(password)), "Invalid (422): metadata.labels FieldValueInvalid" + notShown},
		{"below a label", quoting(field.NewPath("metadata", "labels", password)), "Invalid (422): metadata.labels FieldValueInvalid" + notShown},
		{"an unknown part", quoting(field.NewPath("metadata", password)), "Invalid (422): metadata FieldValueInvalid" + notShown},
		{"an unknown field", quoting(field.NewPath(password)), "Invalid (422): FieldValueInvalid" + notShown},
		{"two of one", apierrors.NewInvalid(kind, "web", field.ErrorList{field.Required(field.NewPath("data").Key("a"), password), field.Required(field.NewPath("data").Key("b"), password),
			field.Duplicate(field.NewPath("data"), password)}), "Invalid (422): data FieldValueDuplicate, data FieldValueRequired" + notShown},
		{"a conflict", apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: password, Field: ".data." + password}}, password),
			"Conflict (409): data FieldManagerConflict" + notShown},
		{"a webhook", &apierrors.StatusError{ErrStatus: metav1.Status{Message: password, Reason: password, Code: 418,
			Details: &metav1.StatusDetails{Name: password, Kind: password, Causes: []metav1.StatusCause{{Type: password, Message: password, Field: password}}}}}, "refused (418)" + notShown},
		{"wrapped", fmt.Errorf("%s: %w", password, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "web", errors.New(password))), "Forbidden (403)" + notShown},
		{"no connection", &url.Error{Op: "Patch", URL: password, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}, "no answer from the server: dial tcp: connection refused"},
		{"no answer in time", &url.Error{Op: "Patch", URL: password, Err: context.DeadlineExceeded}, "no answer from the server: context deadline exceeded"},
		{"given up", context.Canceled, "no answer from the server: context canceled"},
		{"no answer to understand", fmt.Errorf("kind is missing in %q", password), "the server gave no answer that can be used" + notShown},
		{"a rule", fmt.Errorf("kept: %w", &interpret.ScriptError{Customization: "c", Field: "f", Function: "Retain", Reason: "failed"}), "kept: customization c: Retain: failed"},
	} {
		out := failed(id, nil, nil, tt.err)
		if out.Message != tt.want || out.Err.Error() != tt.want {
			t.Errorf("%s: %q, err %q, want %q", tt.name, out.Message, out.Err, tt.want)
		}
		if out.Reason != Reason(tt.err) || !errors.Is(out.Err, tt.err) {
			t.Errorf("%s: reason %s, err %v", tt.name, out.Reason, out.Err)
		}
		others := api.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "web"}
		if out := failed(others, nil, nil, tt.err); out.Message != tt.err.Error() {
			t.Errorf("%s: of another kind %q", tt.name, out.Message)
		}
	}
}

// TestNoCallTellsValuesOfASecret, though a webhook quotes them to whatever is asked.
func TestNoCallTellsValuesOfASecret(t *testing.T) {
	const theirs = `{apiVersion: v1, kind: Secret, metadata: {name: web, namespace: default}, data: {a: eA==}}`
	for _, tt := range []struct {
		name, there string
		methods     []string
		call        func(w *world, work Work) Outcome
	}{
		{"create", "", []string{http.MethodGet, http.MethodPatch}, func(w *world, work Work) Outcome { return w.apply(work, nil) }},
		{"update", strings.Replace(secret, password, "old", 1), []string{http.MethodGet, http.MethodPatch}, func(w *world, work Work) Outcome { return w.apply(work, nil) }},
		{"adopt", theirs, []string{http.MethodGet, http.MethodPatch}, func(w *world, work Work) Outcome {
			work.Overwrite = true
			return w.apply(work, nil)
		}},
		{"delete", secret, []string{http.MethodGet, http.MethodDelete}, func(w *world, work Work) Outcome {
			return w.applier.Delete(w.context(), w.at(work.ID), Retired{ID: work.ID})
		}},
		{"release", secret, []string{http.MethodGet, http.MethodPatch}, func(w *world, work Work) Outcome {
			return w.applier.Delete(w.context(), w.at(work.ID), Retired{ID: work.ID, Preserve: true})
		}},
		{"await", secret, []string{http.MethodGet}, func(w *world, work Work) Outcome { return w.applier.Await(w.context(), w.at(work.ID), work) }},
		{"await gone", secret, []string{http.MethodGet}, func(w *world, work Work) Outcome {
			return w.applier.AwaitGone(w.context(), w.at(work.ID), Retired{ID: work.ID})
		}},
	} {
		for _, method := range tt.methods {
			w := newWorld(t)
			if tt.there != "" {
				w.create("kubectl-client-side-apply", tt.there)
			}
			w.server.Intercept(func(r *http.Request) *metav1.Status {
				if r.Method != method {
					return nil
				}
				return &metav1.Status{Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest, Message: "denied: " + password}
			})
			out := tt.call(w, workOf(t, secret))
			if text := fmt.Sprintf("%s %v %v", out.Message, out.Err, out.Live); strings.Contains(text, password) {
				t.Errorf("%s, %s: %s", tt.name, method, text)
			}
			if out.Reason != decide.ReasonInvalid || out.Message != "BadRequest (400)"+notShown {
				t.Errorf("%s, %s: %s: %s", tt.name, method, out.Reason, out.Message)
			}
		}
	}
}

// TestWhatIsObservedOfASecretHasNoValues, wherever the server has them.
func TestWhatIsObservedOfASecretHasNoValues(t *testing.T) {
	live := object(t, `{apiVersion: v1, kind: Secret, type: Opaque, immutable: false, data: {a: x}, stringData: {a: x}, stringdata: {a: x},
  metadata: {name: web, labels: {a: b}, managedFields: [], annotations: {note: mine, kubectl.kubernetes.io/last-applied-configuration: x}}}`)
	before := compact(live)
	want := object(t, `{apiVersion: v1, kind: Secret, type: Opaque, immutable: false, metadata: {name: web, labels: {a: b}, annotations: {note: mine}}}`)
	if diff := cmp.Diff(want, Observed(live)); diff != "" {
		t.Error(diff)
	}
	if after := compact(live); after != before {
		t.Errorf("the object was changed from %s to %s", before, after)
	}
}

// TestARuleKeepsValuesOfASecretAndNothingElse: the type, and all that others see, is as the template has it.
func TestARuleKeepsValuesOfASecretAndNothingElse(t *testing.T) {
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "thief"}}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "Secret"}
	c.Spec.Customizations.Retention = &configv1alpha1.LuaRule{LuaScript: `function Retain(desired, observed)
		local s = "leak"
		for _, o in ipairs({desired, observed}) do
			for _, f in ipairs({"stringData", "data"}) do
				for k, v in pairs(o[f] or {}) do s = s .. "." .. v end
			end
		end
		desired.type, desired.immutable, desired.spec, desired.metadata.labels.a = s, s, {[s] = s}, s
		desired.data = {a = observed.data.a, [s] = s}
		desired.stringData = nil
		return desired
	end`}
	rules, problems := interpret.New([]*configv1alpha1.ResourceInterpreterCustomization{c})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := workOf(t, secret)
	w.Rules = rules
	live := object(t, secret)
	live["data"] = map[string]any{"a": "bWluZQ=="}
	delete(live, "stringData")
	kept, err := w.keeping(held(t, live, `godwit Apply {"f:data":{"f:a":{}},"f:type":{},"f:immutable":{},"f:spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := value(kept.Object, "data", "a"); got != "bWluZQ==" {
		t.Errorf("the member's value is not kept: %v", got)
	}
	if text := compact(kept.Object); strings.Contains(text, password) {
		t.Errorf("the rule saw the value: %s", text)
	}
	delete(kept.Object, "data")
	want := object(t, secret)
	delete(want, "stringData")
	if diff := cmp.Diff(want, kept.Object); diff != "" {
		t.Error(diff)
	}
}

// TestAFailingRuleOfASecretIsNamed: what it says is not, but where it stands is.
func TestAFailingRuleOfASecretIsNamed(t *testing.T) {
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "slip"}}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "Secret"}
	c.Spec.Customizations.Retention = &configv1alpha1.LuaRule{LuaScript: `function Retain(desired, observed) error(observed.data.a) end`}
	rules, problems := interpret.New([]*configv1alpha1.ResourceInterpreterCustomization{c})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := newWorld(t)
	work := workOf(t, secret)
	work.Rules = rules
	expect(t, "create", w.apply(work, nil), Created)
	out := w.apply(work, nil)
	if out.Reason != decide.ReasonFailed || !strings.Contains(out.Message, "customization slip: Retain: ") || strings.Contains(out.Message, password) {
		t.Errorf("outcome %+v", out)
	}
}
