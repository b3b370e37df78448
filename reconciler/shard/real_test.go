//go:build realcluster

package shard

import (
	"log/slog"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/godwit-gitops/godwit/api"
	"github.com/godwit-gitops/godwit/reconciler/membertest"
)

// seenBare is what comes of a watch.
type seenBare struct {
	listed, lost chan string
	seen         chan api.Object
}

func (s *seenBare) Seen(o api.Object)                    { s.seen <- o }
func (s *seenBare) Lost(o api.Object)                    { s.seen <- o; close(s.lost) }
func (s *seenBare) Listed(all map[api.ID]bool, v string) { s.listed <- v }
func (s *seenBare) Broken(err error)                     { slog.Error(err.Error()) }

// A real API server gives the metadata of reports alone to those who watch for their loss.
func TestARealServerGivesMetadataOnly(t *testing.T) {
	r, err := membertest.StartReal(t.Context(), os.Getenv("GODWIT_MEMBERCLUSTER"), "", "management")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := r.RestConfig()
	if err != nil {
		t.Fatal(err)
	}
	replica, err := New(config, Options{
		Namespace: "default", Name: "godwit", Identity: "a", Log: slog.New(slog.DiscardHandler),
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newPoster(replica.secrets, "godwit", "a", partSize)
	if err := p.post(t.Context(), "kube01", report(1, 1)); err != nil {
		t.Fatal(err)
	}
	f := NewFleet(FleetOptions{Replica: replica, Log: slog.New(slog.DiscardHandler)})
	sink := &seenBare{listed: make(chan string, 1), lost: make(chan string), seen: make(chan api.Object, 10)}
	go f.watch(replica.metas).Run(t.Context(), sink)
	<-sink.listed
	bare := func(when string) {
		t.Helper()
		o := <-sink.seen
		meta, _ := o["metadata"].(map[string]any)
		if o["data"] != nil || meta["name"] != reportName("godwit", "kube01") || meta["resourceVersion"] == "" {
			t.Errorf("%s: it has %v", when, o)
		}
	}
	bare("listed")
	if err := p.post(t.Context(), "kube01", report(2, 1)); err != nil {
		t.Fatal(err)
	}
	bare("watched")

	if err := replica.secrets.Delete(t.Context(), reportName("godwit", "kube01"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-sink.lost
	bare("deleted")
}
