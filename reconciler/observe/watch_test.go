package observe

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

func TestProbe(t *testing.T) {
	server := membertest.Start(t, "m1")
	client, err := discovery.NewDiscoveryClientForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	probe := func() Result {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		result, err := Probe(ctx, client.RESTClient())
		if (err == nil) != result.Healthy() {
			t.Errorf("%+v with error %v", result, err)
		}
		return result
	}
	for _, tt := range []struct {
		name   string
		before func()
		want   string
	}{
		{"up", func() {}, ReasonReady},
		{"not ready", func() { server.SetNotReady(true) }, ReasonNotReady},
		{"frozen", func() { server.SetNotReady(false); server.Freeze() }, ReasonNotReachable},
		{"thawed", server.Thaw, ReasonReady},
		{"dead", server.Down, ReasonNotReachable},
	} {
		tt.before()
		if got := probe(); got.Reason != tt.want || got.Healthy() != (tt.want == ReasonReady) || got.Message == "" {
			t.Errorf("%s: Probe = %+v, want %s", tt.name, got, tt.want)
		}
	}
}

// sink writes down what it is told.
type sink chan string

func (s sink) Seen(o api.Object) { s <- fmt.Sprint("seen ", api.IDOf(o).Name, " ", o["data"]) }
func (s sink) Lost(o api.Object) { s <- "lost " + api.IDOf(o).Name }
func (s sink) Broken(error)      { s <- "broken" }
func (s sink) Listed(seen map[api.ID]bool, _ string) {
	s <- fmt.Sprint("listed ", len(seen))
}

// expect waits for what is told next.
func (s sink) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := s.next(t, w); got != w {
			t.Fatalf("told %q, want %q", got, w)
		}
	}
}

// until waits for something, whatever is told before.
func (s sink) until(t *testing.T, want string) {
	t.Helper()
	for s.next(t, want) != want {
	}
}

func (s sink) next(t *testing.T, want string) string {
	t.Helper()
	select {
	case got := <-s:
		return got
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing told, want %q", want)
		return ""
	}
}

func TestWatch(t *testing.T) {
	server := membertest.Start(t, "m1")
	dyn, err := dynamic.NewForConfig(server.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	maps := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	ctx, cancel := context.WithCancel(context.Background())
	apply := func(name, value string, labels map[string]any) {
		t.Helper()
		o := api.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default", "labels": labels}, "data": map[string]any{"k": value}}
		if _, err := maps.Namespace("default").Apply(ctx, name, &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	ours := map[string]any{"ours": "true"}
	apply("a", "1", ours)
	apply("other", "1", nil)

	told := make(sink, 100)
	done := make(chan struct{})
	w := &Watch{Client: maps, Selector: "ours=true", Timeout: 500 * time.Millisecond, RetryMin: 10 * time.Millisecond, RetryMax: 20 * time.Millisecond, Clock: clock.RealClock{}}
	go func() { defer close(done); w.Run(ctx, told) }()
	told.expect(t, "seen a map[k:1]", "listed 1")
	apply("b", "1", ours)
	told.expect(t, "seen b map[k:1]")
	apply("b", "2", nil) // the label goes away
	told.expect(t, "lost b")
	if err := maps.Namespace("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	told.expect(t, "lost a")

	server.Down()
	told.until(t, "broken")
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	apply("c", "1", ours)
	told.until(t, "seen c map[k:1]")

	// What happened while nobody could watch, and is forgotten, is found by listing again.
	server.Intercept(func(r *http.Request) *metav1.Status {
		if r.URL.Query().Get("watch") == "" {
			return nil
		}
		status := apierrors.NewServiceUnavailable("no watches now").Status()
		return &status
	})
	server.Down()
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	told.until(t, "broken")
	if err := maps.Namespace("default").Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apply("d", "1", ours)
	server.Compact()
	server.Intercept(nil)
	told.until(t, "seen d map[k:1]")
	told.expect(t, "listed 1")

	cancel()
	<-done
}
