package apply

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/render/interpret"
	"github.com/godwit-gitops/godwit/render/work"
)

// Discreet is an error about an object as it may be told to others. Servers, and webhooks behind them, quote what they
// refuse; of what they say about a Secret only words of a known list are left.
func Discreet(id api.ID, err error) error {
	if err == nil || !work.IsSecret(id) {
		return err
	}
	return &withheld{err}
}

// withheld is an error that may quote a value of a Secret. What it is can be asked as before.
type withheld struct{ err error }

func (w *withheld) Unwrap() error { return w.err }

func (w *withheld) Error() string {
	if _, ours := errors.AsType[*interpret.ScriptError](w.err); ours { // it has no values to quote
		return w.err.Error()
	}
	var status apierrors.APIStatus
	if errors.As(w.err, &status) {
		return answered(status.Status()) + notShown
	}
	for _, broken := range connection {
		if text, ok := broken(w.err); ok {
			return "no answer from the server: " + text
		}
	}
	return "the server gave no answer that can be used" + notShown
}

const notShown = "; what it says is not shown, since the object is a Secret"

// connection are the errors of requests that got no answer, which could quote one.
var connection = []func(error) (string, bool){
	textOf[*net.OpError],
	textOf[*net.DNSError],
	textOf[*tls.CertificateVerificationError],
	func(err error) (string, bool) {
		return context.DeadlineExceeded.Error(), errors.Is(err, context.DeadlineExceeded)
	},
	func(err error) (string, bool) { return context.Canceled.Error(), errors.Is(err, context.Canceled) },
}

func textOf[E error](err error) (string, bool) {
	e, ok := errors.AsType[E](err)
	if !ok {
		return "", false
	}
	return e.Error(), true
}

// statusReasons and causeTypes are the words that API servers have for errors. A webhook may write anything there.
var (
	statusReasons = []metav1.StatusReason{
		metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonInvalid, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed,
		metav1.StatusReasonNotAcceptable, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType,
		metav1.StatusReasonInternalError, metav1.StatusReasonExpired, metav1.StatusReasonServiceUnavailable,
	}
	causeTypes = []string{
		string(field.ErrorTypeNotFound), string(field.ErrorTypeRequired), string(field.ErrorTypeDuplicate), string(field.ErrorTypeInvalid),
		string(field.ErrorTypeNotSupported), string(field.ErrorTypeForbidden), string(field.ErrorTypeTooLong), string(field.ErrorTypeTooMany),
		string(field.ErrorTypeInternal), string(field.ErrorTypeTypeInvalid),
		string(metav1.CauseTypeFieldManagerConflict), string(metav1.CauseTypeUnexpectedServerResponse),
	}
	// secretFields are the places in a Secret that are named; below them are keys, and whatever a server calls one.
	secretFields = []string{
		"data", "immutable", "metadata", "metadata.annotations", "metadata.finalizers", "metadata.labels", "metadata.managedFields", "metadata.name",
		"metadata.namespace", "metadata.ownerReferences", "metadata.resourceVersion", "stringData", "type",
	}
)

// answered is what a server answered, in those words: "Invalid (422): type FieldValueInvalid".
func answered(s metav1.Status) string {
	text := "refused"
	if slices.Contains(statusReasons, s.Reason) {
		text = string(s.Reason)
	}
	text += fmt.Sprintf(" (%d)", s.Code)
	var causes []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			var words []string
			if place := place(c.Field); place != "" {
				words = append(words, place)
			}
			if slices.Contains(causeTypes, string(c.Type)) {
				words = append(words, string(c.Type))
			}
			if len(words) > 0 {
				causes = append(causes, strings.Join(words, " "))
			}
		}
	}
	slices.Sort(causes)
	if causes = slices.Compact(causes); len(causes) > 0 {
		text += ": " + strings.Join(causes, ", ")
	}
	return text
}

// place is as much of a path as is known for a field of a Secret.
func place(path string) string {
	elements := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })
	for n := min(2, len(elements)); n > 0; n-- {
		if known := strings.Join(elements[:n], "."); slices.Contains(secretFields, known) {
			return known
		}
	}
	return ""
}
