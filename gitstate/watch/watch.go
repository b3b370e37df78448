package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long a folder must rest before a signal, so that an editor or git has finished;
	// atMost is how long one that never rests is waited for.
	quiet  = 100 * time.Millisecond
	atMost = 2 * time.Second
	// slow is how often a folder is looked at that reports its changes, fast one that cannot.
	slow = time.Minute
	fast = 5 * time.Second
)

// Folder signals when something in dir or below may have changed. The error is about dir itself.
func Folder(ctx context.Context, dir string) (<-chan struct{}, error) {
	if _, err := filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	// Where nothing can be watched, or not all of it, looking more often has to do.
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return Ticks(ctx, fast), nil
	}
	poll := slow
	if err := add(watcher, dir); err != nil {
		poll = fast
	}
	events := make(chan struct{}, 1)
	go func() {
		defer close(events)
		defer watcher.Close()
		forward(ctx, watcher, events)
	}()
	return Merge(ctx, settle(ctx, events), Ticks(ctx, poll)), nil
}

// forward turns events into signals and watches folders that come.
func forward(ctx context.Context, watcher *fsnotify.Watcher, signals chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if filepath.Base(event.Name) == ".git" {
				continue
			}
			if event.Has(fsnotify.Create) {
				// If it cannot be watched, or is gone, the slow look is left.
				add(watcher, event.Name)
			}
		case _, open := <-watcher.Errors: // events were lost
			if !open {
				return
			}
		}
		signal(signals)
	}
}

// add watches a folder and all below. What is not a folder is passed over.
func add(watcher *fsnotify.Watcher, dir string) error {
	var unwatched error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			unwatched = err
			return nil
		case d.Name() == ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() || path == dir && d.Type() == fs.ModeSymlink:
			if err := watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				unwatched = err
			}
		}
		return nil
	})
	return errors.Join(err, unwatched)
}

// settle passes a signal on once no other followed it for a while.
func settle(ctx context.Context, events <-chan struct{}) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-events:
				if !open {
					return
				}
			}
			if !rest(ctx, events) {
				return
			}
			signal(out)
		}
	}()
	return out
}

// rest waits until there are no events, and tells whether the context still stands.
func rest(ctx context.Context, events <-chan struct{}) bool {
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	still := time.NewTimer(quiet)
	defer still.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case _, open := <-events:
			if !open {
				return true
			}
			still.Reset(quiet)
		case <-still.C:
			return true
		case <-deadline.C:
			return true
		}
	}
}

// Ticks signals at a fixed interval, the first time after one has passed.
func Ticks(ctx context.Context, every time.Duration) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				signal(out)
			}
		}
	}()
	return out
}

// Merge signals when one of the channels does. It ends with the context, or when all have ended.
func Merge(ctx context.Context, channels ...<-chan struct{}) <-chan struct{} {
	out := make(chan struct{}, 1)
	var running sync.WaitGroup
	for _, in := range channels {
		running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case _, open := <-in:
					if !open {
						return
					}
					signal(out)
				}
			}
		})
	}
	go func() {
		defer close(out)
		running.Wait()
	}()
	return out
}

// signal leaves a signal unless one is waiting.
func signal(out chan<- struct{}) {
	select {
	case out <- struct{}{}:
	default:
	}
}
