package member

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/godwit-gitops/godwit/api/cluster/v1alpha1"
	"github.com/godwit-gitops/godwit/reconciler/decide"
	"github.com/godwit-gitops/godwit/reconciler/observe"
)

// Whether a member may be written to is asked for at each write, whatever the fleet is to do there.
func TestNothingIsWrittenWhereItMayNotBe(t *testing.T) {
	w := newWorld(t, "kube02", "kube03")
	var may atomic.Bool
	w.options.May = func(member string) bool { return member == "kube03" || may.Load() }
	w.start()
	var written atomic.Int64
	w.servers["kube02"].Intercept(func(r *http.Request) *metav1.Status {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			written.Add(1)
		}
		return nil
	})
	w.want("kube02", configMap(t, "settings", "1"))
	w.want("kube03", configMap(t, "settings", "1"))
	w.applied("kube03")
	w.eventually("kube02 says why", func(seen decide.Observations) bool {
		c := seen.Members["kube02"].Copies[configMap(t, "settings", "1").ID.Unversioned()]
		return strings.Contains(c.Message, "others write to this member")
	})
	if n := written.Load(); n != 0 || w.fleet.Observe().Members["kube02"].Ready != metav1.ConditionTrue {
		t.Fatalf("%d writes left; it is %s", n, w.fleet.Observe().Members["kube02"].Ready)
	}
	may.Store(true)
	w.applied("kube02")
}

// slow finds a member when it is let go, whoever gave up meanwhile.
type slow struct {
	Lookup
	asked, letGo chan struct{}
}

func (s slow) Find(ctx context.Context, c *clusterv1alpha1.Cluster) (*rest.Config, string, error) {
	s.asked <- struct{}{}
	<-s.letGo
	return s.Lookup.Find(ctx, c)
}

func TestAMemberIsLeftWhenNothingIsInWorkThere(t *testing.T) {
	w := newWorld(t, "kube02")
	s := slow{w.lookup, make(chan struct{}, 1), make(chan struct{})}
	w.fleet = New(s, w.options)
	w.fleet.Set(w.desired)
	if err := w.fleet.Left(t.Context()); err != nil {
		t.Errorf("no member was given up: %v", err)
	}
	<-s.asked
	w.fleet.Set(nil)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.fleet.Left(short); err == nil {
		t.Error("it is left, and something is in work there")
	}
	close(s.letGo)
	if err := w.fleet.Left(t.Context()); err != nil {
		t.Error(err)
	}
}

// What others saw of a member is believed until probes say otherwise for long enough. It counts for those that come after.
func TestWhatOthersSawIsAssumed(t *testing.T) {
	w := newWorld(t, "kube02", "kube03")
	w.options.Thresholds = &observe.Thresholds{Success: time.Hour, Failure: time.Hour}
	w.options.Probers = map[string]observe.Prober{"kube02": {Ready: observe.Condition{Result: observe.Result{Status: metav1.ConditionUnknown}}}}
	w.start()
	w.servers["kube02"].Down()
	since := time.Now().Add(-time.Hour)
	w.fleet.Assume(map[string]observe.Prober{"kube02": {Ready: observe.Condition{Result: observe.Result{Status: metav1.ConditionTrue, Reason: observe.ReasonReady}, Since: since}}})
	w.fleet.Set(w.desired)
	w.eventually("both were looked at", func(seen decide.Observations) bool { return len(seen.Members) == 2 })
	if m := w.fleet.Observe().Members["kube02"]; m.Ready != metav1.ConditionTrue || !m.Since.Equal(since) {
		t.Errorf("kube02 is %s since %s", m.Ready, m.Since)
	}
	if m := w.fleet.Observe().Members["kube03"]; m.Ready != metav1.ConditionTrue {
		t.Errorf("kube03 is %s", m.Ready)
	}
}
