package apply

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/godwit-gitops/godwit/reconciler/decide"
)

// reasons tell API errors apart; the first that holds names the reason.
var reasons = []struct {
	reason string
	holds  func(error) bool
}{
	{decide.ReasonConflict, fieldConflict},
	{decide.ReasonImmutableField, Immutable},
	{decide.ReasonInvalid, func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }},
	{decide.ReasonNoKind, noKind},
	{decide.ReasonUnreachable, Unreachable},
	{decide.ReasonFailed, func(error) bool { return true }},
}

// Reason names an error in the words of CopyFacts.
func Reason(err error) string {
	for _, r := range reasons {
		if r.holds(err) {
			return r.reason
		}
	}
	return decide.ReasonFailed
}

// fieldConflict: a server-side apply met fields of other managers.
func fieldConflict(err error) bool {
	_, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	return apierrors.IsConflict(err) && ok
}

// stale: the object changed between look and write.
func stale(err error) bool { return apierrors.IsConflict(err) && !fieldConflict(err) }

// immutablePhrases are how API servers say that a field cannot be changed; there is no code for it.
var immutablePhrases = []string{
	"field is immutable",
	"is immutable",
	"may not be changed",
	"may not change",
	"cannot be changed",
	"cannot change roleref",
	"field can not be less than", // a claim does not shrink
	"updates to parameters are forbidden",
	"updates to drivername are forbidden",
	"updates to statefulset spec for fields other than",
	"pod updates may not change fields other than",
	"spec is immutable after creation",
}

// Immutable tells whether an object was refused because a field cannot be changed in place.
func Immutable(err error) bool {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return false
	}
	text := strings.ToLower(err.Error())
	for _, phrase := range immutablePhrases {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}

// noKind: the path of the kind itself is not served, as different from an object that is not there.
func noKind(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	_, unexpected := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	return details == nil || details.Name == "" || unexpected
}

// Unreachable tells whether an error means that no answer came, or none that a member in good order gives.
func Unreachable(err error) bool {
	var timeout net.Error
	var request *url.Error
	return errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) || errors.As(err, &request) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err)
}
