package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestKlogSaysWhatMattersAndNothingOfWhatWeEnded(t *testing.T) {
	var out strings.Builder
	BridgeKlog(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(klog.ClearLogger)
	klog.InfoS("progress")
	klog.ErrorS(errors.New("no route to host"), "watch")
	klog.ErrorS(fmt.Errorf("read body: %w", context.Canceled), "stopped")
	if got := out.String(); !strings.Contains(got, "no route to host") || strings.Contains(got, "progress") || strings.Contains(got, "stopped") {
		t.Errorf("the log is %q, want the error watch alone", got)
	}
}
