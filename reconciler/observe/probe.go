package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Probe asks a member for /readyz, and for /healthz if it does not know the former. It has the
// deadline of ctx: client-go by itself notices a member that hangs only after 10 to 45 seconds. The error
// is the one behind a result that is not healthy.
func Probe(ctx context.Context, client rest.Interface) (Result, error) {
	for _, path := range []string{"/readyz", "/healthz"} {
		var code int
		response := client.Get().AbsPath(path).MaxRetries(0).Do(ctx).StatusCode(&code)
		body, err := response.Raw()
		switch {
		case code == http.StatusOK:
			return Result{metav1.ConditionTrue, ReasonReady, "the API server answers that it is ready"}, nil
		case code == http.StatusNotFound:
			continue
		case code != 0:
			return Result{metav1.ConditionFalse, ReasonNotReady, fmt.Sprintf("%s answers %d%s", path, code, excerpt(body, err))}, err
		}
		return Result{metav1.ConditionFalse, ReasonNotReachable, err.Error()}, err
	}
	err := errors.New("the API server knows neither /readyz nor /healthz")
	return Result{metav1.ConditionFalse, ReasonNotReady, err.Error()}, err
}

// excerpt is the first line of an answer.
func excerpt(body []byte, err error) string {
	text := string(body)
	if text == "" && err != nil {
		text = err.Error()
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" {
		return ""
	}
	return ": " + text
}
