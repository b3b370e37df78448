package apply

import (
	"context"
	"errors"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

func TestReason(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	invalid := func(message string) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", field.ErrorList{field.Invalid(field.NewPath("spec"), nil, message)})
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"field conflict", apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec"}}, "conflict"), decide.ReasonConflict},
		{"stale", apierrors.NewConflict(deployments, "web", errors.New("modified")), decide.ReasonFailed},
		{"immutable", invalid("field is immutable"), decide.ReasonImmutableField},
		{"stateful set", apierrors.NewForbidden(deployments, "web", errors.New("updates to statefulset spec for fields other than 'replicas' are forbidden")), decide.ReasonImmutableField},
		{"role of a binding", invalid("cannot change roleRef"), decide.ReasonImmutableField},
		{"claim that shrinks", invalid("field can not be less than status.capacity"), decide.ReasonImmutableField},
		{"attributes", invalid("updates to parameters are forbidden."), decide.ReasonImmutableField},
		{"invalid", invalid("must be positive"), decide.ReasonInvalid},
		{"malformed", apierrors.NewBadRequest("cannot be read"), decide.ReasonInvalid},
		{"kind not served", apierrors.NewGenericServerResponse(404, "GET", deployments, "web", "404 page not found", 0, true), decide.ReasonNoKind},
		{"namespace missing", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), decide.ReasonFailed},
		{"forbidden", apierrors.NewForbidden(deployments, "web", errors.New("no")), decide.ReasonFailed},
		{"no answer", &url.Error{Op: "Patch", URL: "https://m", Err: context.DeadlineExceeded}, decide.ReasonUnreachable},
		{"late answer", apierrors.NewServerTimeout(deployments, "patch", 1), decide.ReasonUnreachable},
		{"busy", apierrors.NewTooManyRequests("slow down", 1), decide.ReasonFailed},
		{"webhook", apierrors.NewInternalError(errors.New("failed calling webhook")), decide.ReasonFailed},
	} {
		if got := Reason(tt.err); got != tt.want {
			t.Errorf("%s: Reason(%v) = %s, want %s", tt.name, tt.err, got, tt.want)
		}
	}
}
