package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/godwit-gitops/godwit/api"
)

// Sink takes in what a watch sees. Its methods are called by one goroutine at a time. The objects are the
// sink's, with their managedFields.
type Sink interface {
	// Seen: the object is there and looks like this.
	Seen(api.Object)
	// Lost: the object went away, or our label did; this is how it looked last.
	Lost(api.Object)
	// Listed: all objects that were there at a resource version have been Seen; others were not there. The
	// IDs have no version.
	Listed(seen map[api.ID]bool, version string)
	// Broken: the kind cannot be listed or watched for now.
	Broken(error)
}

// Watch follows the objects of one kind that have a label.
type Watch struct {
	Client dynamic.ResourceInterface
	// Selector of labels.
	Selector string
	// Timeout of one page of a list; the same goes for opening a watch.
	Timeout time.Duration
	// RetryMin and RetryMax bound the pause after a failure, which doubles.
	RetryMin, RetryMax time.Duration
	Clock              clock.WithDelayedExecution
}

const (
	pageSize = 500
	// watchFor is how long the server keeps a watch open.
	watchFor = 8 * time.Minute
)

// Run follows the kind until ctx ends: it lists, watches from there, and lists again when the watch
// cannot be continued.
func (w *Watch) Run(ctx context.Context, sink Sink) {
	pause := w.RetryMin
	version := "" // to watch from; empty lists first
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = w.list(ctx, sink)
		} else {
			version, err = w.follow(ctx, version, sink)
		}
		if err == nil {
			pause = w.RetryMin
			continue
		}
		if gone(err) {
			version = ""
		}
		if ctx.Err() != nil {
			return
		}
		sink.Broken(err)
		timer := w.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		pause = min(2*pause, w.RetryMax)
	}
}

func gone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// list reads all objects, page by page, and gives the version to watch from.
func (w *Watch) list(ctx context.Context, sink Sink) (string, error) {
	seen := map[api.ID]bool{}
	options := metav1.ListOptions{LabelSelector: w.Selector, Limit: pageSize}
	for {
		page, err := w.page(ctx, options)
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		for i := range page.Items {
			o := page.Items[i].Object
			seen[api.IDOf(o).Unversioned()] = true
			sink.Seen(o)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			sink.Listed(seen, page.GetResourceVersion())
			return page.GetResourceVersion(), nil
		}
	}
}

func (w *Watch) page(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	return w.Client.List(ctx, options)
}

// errEnded: a watch ended before the server was asked to end it.
var errEnded = errors.New("the watch ended")

// follow watches from a version on until the watch ends, and gives the version to go on from.
func (w *Watch) follow(ctx context.Context, version string, sink Sink) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seconds := int64(watchFor / time.Second)
	late := w.Clock.AfterFunc(w.Timeout, cancel) // a member that hangs accepts the connection and never answers
	stream, err := w.Client.Watch(ctx, metav1.ListOptions{
		LabelSelector: w.Selector, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	late.Stop()
	if err != nil {
		return version, fmt.Errorf("watch: %w", err)
	}
	defer stream.Stop()
	started := w.Clock.Now()
	for event := range stream.ResultChan() {
		o, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			return version, fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
		case !ok:
			continue
		case event.Type == watch.Added, event.Type == watch.Modified:
			sink.Seen(o.Object)
		case event.Type == watch.Deleted:
			sink.Lost(o.Object)
		}
		version = o.GetResourceVersion()
	}
	if w.Clock.Since(started) < w.RetryMin { // a server that ends watches at once is not asked without a pause
		return version, errEnded
	}
	return version, nil
}
